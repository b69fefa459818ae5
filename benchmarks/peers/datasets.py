"""Data sets: training and test rows in float32, from files or made to a given size.

The name of a made set says what it holds: ``made_dense_n1000_d100``, or
``made_sparse_n1000_d5000_z20`` with 20 non-zeros per row. Its rows are ten classes around random
centres.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks._common import load_split

NAMES = (
    "digits",
    "usps",
    "isolet1",
    "20news_use512",
    "caltech101_top30_bovw",
    "fashion_mnist_13k",
    "protein_val",
    "golub",
    "su",
    "rcv1_7class",
    "tdt30",
    "20news_bydate",
    "20news_libsvm",
)
"""Sets of real data."""

N_CLASSES = 10


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test rows with their labels, in float32, dense or CSR."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def load(name: str) -> Data:
    """Load a set by its name; FileNotFoundError where it is not on this machine.

    usps is downloaded where there is no data folder.
    """
    from dualmetric.datasets import available

    if name not in NAMES:
        return _made(name)
    if name != "usps" and not available(name):
        raise FileNotFoundError(f"DUALMETRIC_DATA must name a folder with {name}.npz")
    return Data(name, *load_split(name))


def _made(name: str) -> Data:
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
    """A fifth of the words of a row are those of its class."""
    own = d // N_CLASSES // 2
    indices = rng.integers(d, size=(n, z), dtype=np.int32)
    few = max(1, z // 5)
    indices[:, :few] = y[:, None] * own + rng.integers(own, size=(n, few), dtype=np.int32)
    data = np.full(n * z, 1 / np.sqrt(z), dtype=np.float32)
    X = sp.csr_matrix((data, indices.ravel(), np.arange(n + 1) * z), shape=(n, d))
    X.sum_duplicates()
    return X
