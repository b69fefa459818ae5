"""Reading and splitting data files, with errors that say what is wrong."""

import bz2
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._rows.base import check_array
from .._types import Array, Matrix
from .._validation import check_labels
from ..io import rowfiles
from ._catalog import Entry


class LabelledRows(NamedTuple):
    """All rows of a set, and the numbers of its training and test rows if it has a split."""

    X: Matrix
    y: Array
    train: Array | None = None
    test: Array | None = None


def read_rows(paths: Sequence[Path], entry: Entry) -> LabelledRows:
    """Read the files of one set; classes are counted from 0."""
    parts = [_read(path) for path in paths]
    rows = parts[0] if len(parts) == 1 else _joined(*parts)
    if entry.n_classes is not None:
        rows = _largest_classes(rows, entry.n_classes)
    return rows._replace(y=np.unique(rows.y, return_inverse=True)[1])


def _read(path: Path) -> LabelledRows:
    try:
        return {".npz": _npz, ".mat": _mat}.get(path.suffix, _svmlight)(path)
    except MemoryError:
        raise
    except Exception as error:  # damage can raise any error of zip, bz2, NumPy or SciPy
        reason = f"no array {error}" if isinstance(error, KeyError) else str(error)
        reason = reason.removeprefix(f"{path}: ")
        raise ValueError(
            f"{path} is not a valid data file, or is damaged ({reason or repr(error)}): fix it, or "
            "download it again"
        ) from None


def _npz(path: Path) -> LabelledRows:
    file = rowfiles.read_rows(path)
    if file.y is None:
        raise KeyError("y")
    train, test = file.train_idx, file.test_idx
    if train is None or test is None:
        with np.load(path, allow_pickle=False) as arrays:  # some sets use other names
            train, test = (arrays.get(name) for name in ("train_rows", "test_rows"))
        if train is not None and test is not None:
            both = np.sort(np.concatenate([train, test]))
            if both[0] < 0 or both[-1] >= len(file.y) or (both[1:] == both[:-1]).any():
                raise ValueError(
                    "train_rows and test_rows repeat a row, or name one that the file does not have"
                )
    return LabelledRows(file.X, file.y, train, test)


def _svmlight(path: Path) -> LabelledRows:
    from sklearn.datasets import load_svmlight_file

    source: Any = str(path)
    if path.name.startswith("protein"):
        # only these files write "63: .50", with a space that the reader refuses
        source = io.BytesIO(re.sub(rb": +", b":", bz2.decompress(path.read_bytes())))
    X, y = load_svmlight_file(source, dtype=np.float32)
    return LabelledRows(check_array(X), y)


def _mat(path: Path) -> LabelledRows:
    from scipy.io import loadmat

    file = loadmat(path, variable_names=["fea", "gnd"])
    X = check_array(sp.csr_matrix(file["fea"], dtype=np.float32))
    return LabelledRows(X, check_labels(file["gnd"].ravel(), X.shape[0]))


def _joined(first: LabelledRows, second: LabelledRows) -> LabelledRows:
    """Training rows and test rows; the narrower part gets columns of zeros."""
    width = max(first.X.shape[1], second.X.shape[1])
    for part in (first.X, second.X):
        part.resize(part.shape[0], width)
    X, y = sp.vstack([first.X, second.X], format="csr"), np.concatenate([first.y, second.y])
    return LabelledRows(X, y, *np.split(np.arange(len(y)), [len(first.y)]))


def _largest_classes(rows: LabelledRows, n_classes: int) -> LabelledRows:
    """Keep the rows of the classes with the most training rows; of equal ones, the first."""
    counted = rows.y if rows.train is None else rows.y[rows.train]
    classes, sizes = np.unique(counted, return_counts=True)
    chosen = classes[np.argsort(-sizes, kind="stable")[:n_classes]]
    keep = np.isin(rows.y, chosen)
    if keep.all():
        return rows
    number = np.cumsum(keep) - 1
    parts = (rows.train, rows.test)
    train, test = (None if part is None else number[part[keep[part]]] for part in parts)
    return LabelledRows(rows.X[keep], rows.y[keep], train, test)


def split_rows(rows: LabelledRows, split: str, seed: int, path: Path) -> tuple[Array, Array]:
    """Return the numbers of the training rows and of the test rows, in the order to use them."""
    if split in ("own", "any") and rows.train is not None and rows.test is not None:
        return rows.train, rows.test
    if split == "own":
        raise ValueError(
            f"{path} does not say which rows are test rows: it needs the arrays 'train_idx' and "
            "'test_idx'"
        )
    n_rows = len(rows.y)
    n_train = 7 * n_rows // 10  # the paper's 70 %, rounded down: 6,575 of tdt30's 9,394
    if not 0 < n_train < n_rows:
        raise ValueError(f"{path} has {n_rows} rows: too few to split into training and test")
    if split in ("stratified", "any"):
        from sklearn.model_selection import train_test_split

        options = {"train_size": n_train, "random_state": seed, "stratify": rows.y}
        try:
            train, test = train_test_split(np.arange(n_rows), **options)
        except ValueError as error:
            raise ValueError(f"{path} cannot be split class by class: {error}") from None
        return train, test
    order = np.arange(n_rows)
    if split == "random":
        order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_train], order[n_train:]
