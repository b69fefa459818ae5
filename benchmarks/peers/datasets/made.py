"""Made data of any size, to see how time and memory grow; ten classes around random centres.

The name says what is in it: ``made_dense_n1000_d100``, or ``made_sparse_n1000_d5000_z20`` with 20
non-zeros a row.
"""

import re

import numpy as np
import scipy.sparse as sp

from ._data import Data

N_CLASSES = 10


def load(name: str) -> Data:
    """Make the set; there are no test rows."""
    sizes = {key: int(value) for key, value in re.findall(r"_([ndz])(\d+)", name)}
    kind = name.split("_")[1] if name.startswith("made_") else ""
    if kind not in ("dense", "sparse"):
        raise ValueError(f"no data set is named {name!r}")
    rng = np.random.default_rng(0)
    y = rng.integers(N_CLASSES, size=sizes["n"])
    X = (_dense if kind == "dense" else _sparse)(rng, y, **sizes)
    return Data(name, X, y, X[:0], y[:0])


def _dense(rng: np.random.Generator, y: np.ndarray, n: int, d: int) -> np.ndarray:
    centres = 0.3 * rng.standard_normal((N_CLASSES, d), dtype=np.float32)
    X = rng.standard_normal((n, d), dtype=np.float32)
    for label in range(N_CLASSES):  # one class at a time: no second copy of the rows
        X[y == label] += centres[label]
    return X


def _sparse(rng: np.random.Generator, y: np.ndarray, n: int, d: int, z: int) -> sp.csr_matrix:
    """A fifth of the words of a row are its class's own."""
    own = d // N_CLASSES // 2
    indices = rng.integers(d, size=(n, z), dtype=np.int32)
    few = max(1, z // 5)
    indices[:, :few] = y[:, None] * own + rng.integers(own, size=(n, few), dtype=np.int32)
    data = np.full(n * z, 1 / np.sqrt(z), dtype=np.float32)
    X = sp.csr_matrix((data, indices.ravel(), np.arange(n + 1) * z), shape=(n, d))
    X.sum_duplicates()
    return X
