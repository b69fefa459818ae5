"""Reading data files, and saying what is wrong with those that cannot be read."""

import bz2
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._types import Array, Rows
from ..products import canonical
from ._catalog import Entry


class LabelledRows(NamedTuple):
    """All rows of a set, and the numbers of its training and test rows where it has a split."""

    X: Rows
    y: Array
    train: Array | None = None
    test: Array | None = None


def read_rows(paths: Sequence[Path], entry: Entry) -> LabelledRows:
    """Read the files of one set; classes are counted from 0."""
    if paths[0].suffix == ".npz":
        rows = _read(paths[0], _npz)
    elif len(paths) == 1:
        rows = _read(paths[0], _mat if paths[0].suffix == ".mat" else _svmlight)
    else:
        rows = _joined(*(_read(path, _svmlight) for path in paths))
        if entry.exchange:
            rows = rows._replace(train=rows.test, test=rows.train)
    if entry.n_classes is not None:
        rows = _largest_classes(rows, entry.n_classes)
    return rows._replace(y=np.unique(rows.y, return_inverse=True)[1])


def _read(path: Path, reader: Any) -> LabelledRows:
    try:
        rows: LabelledRows = reader(path)
        _check(rows)
    except MemoryError:
        raise
    except Exception as error:  # damage can show as any error, of zip, bz2, NumPy or SciPy
        reason = f"no array {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"{path} is not a data file as expected, or is damaged ({reason or repr(error)}): "
            "delete it and get it again"
        ) from None
    return rows._replace(X=canonical(rows.X))


def _npz(path: Path) -> LabelledRows:
    # opened here, as np.load leaves a damaged file open
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
        if "indptr" in file:
            parts = (file["data"], file["indices"], file["indptr"])
            X = sp.csr_matrix(parts, shape=tuple(file["shape"].tolist()))
        else:
            X = file["X"]
        train, test = (file.get(name) for name in ("train_idx", "test_idx"))
        return LabelledRows(X, file["y"], train, test)


def _svmlight(path: Path) -> LabelledRows:
    from sklearn.datasets import load_svmlight_file

    if path.name.startswith("protein"):
        # these files alone write "63: .50", with a space that the reader does not take
        content = bz2.decompress(path.read_bytes())
        while b": " in content:
            content = content.replace(b": ", b":")
        return LabelledRows(*load_svmlight_file(io.BytesIO(content), dtype=np.float32))
    return LabelledRows(*load_svmlight_file(str(path), dtype=np.float32))


def _mat(path: Path) -> LabelledRows:
    from scipy.io import loadmat

    file = loadmat(path, variable_names=["fea", "gnd"])
    return LabelledRows(sp.csr_matrix(file["fea"], dtype=np.float32), file["gnd"].ravel())


def _check(rows: LabelledRows) -> None:
    X, y = rows.X, rows.y
    if sp.issparse(X):
        X.check_format(full_check=True)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"X is not a table of numbers but {X.dtype}, {X.ndim}-dimensional")
    if y.shape != X.shape[:1]:
        raise ValueError(f"labels of shape {y.shape} for {X.shape[0]} rows")
    for what, values in (("X", X.data if sp.issparse(X) else X), ("y", y)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{what} has NaN or infinite entries")
    if rows.train is not None and rows.test is not None:
        both = np.concatenate([rows.train, rows.test])
        if both.dtype.kind not in "iu" or both.ndim != 1:
            raise ValueError("train_idx and test_idx are not lists of row numbers")
        if both.size and not 0 <= both.min() <= both.max() < X.shape[0]:
            raise ValueError("train_idx or test_idx names rows that are not there")
        if len(np.unique(both)) < len(both):
            raise ValueError("train_idx and test_idx have rows in common, or repeat some")
        if not len(rows.train) or not len(rows.test):
            raise ValueError("train_idx or test_idx is empty")


def _joined(first: LabelledRows, second: LabelledRows) -> LabelledRows:
    """Training rows and test rows; a file ends with the last feature that its rows have."""
    width = max(first.X.shape[1], second.X.shape[1])
    for part in (first.X, second.X):
        part.resize(part.shape[0], width)
    n_first, n_second = len(first.y), len(second.y)
    return LabelledRows(
        sp.vstack([first.X, second.X], format="csr"),
        np.concatenate([first.y, second.y]),
        np.arange(n_first),
        np.arange(n_first, n_first + n_second),
    )


def _largest_classes(rows: LabelledRows, n_classes: int) -> LabelledRows:
    """Keep the rows of the classes with the most training rows, or rows where none are set apart.

    Of classes of one size, that with the lower label comes first.
    """
    counted = rows.y if rows.train is None else rows.y[rows.train]
    classes, sizes = np.unique(counted, return_counts=True)
    chosen = classes[np.argsort(-sizes, kind="stable")[:n_classes]]
    keep = np.isin(rows.y, chosen)
    if keep.all():
        return rows
    number = np.cumsum(keep) - 1
    train, test = (
        None if part is None else number[part[keep[part]]] for part in (rows.train, rows.test)
    )
    return LabelledRows(rows.X[keep], rows.y[keep], train, test)
