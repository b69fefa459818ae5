"""Files of rows with labels: what people have, read and written in one call.

======================================  ===========================================================
suffix                                  holds
======================================  ===========================================================
``.npz``                                ``X``, or the parts of a sparse matrix (also those that
                                        ``scipy.sparse.save_npz`` writes), and perhaps ``y``,
                                        ``class_names``, ``feature_names``, ``train_idx`` and
                                        ``test_idx``
``.npy``                                the rows alone
``.svm``, ``.libsvm``, ``.svmlight``    svmlight: a label and ``index:value`` of all that is not
                                        zero
``.csv``                                a header, a column a feature, and perhaps a column of
                                        labels
``.parquet``                            the same, or a column of vectors; needs
                                        ``dualmetric[parquet]``
a folder                                of ``.parquet`` files with the same columns
======================================  ===========================================================

svmlight and csv may be compressed (``.gz``, ``.bz2``). A compressed file of any other name is taken
for svmlight: LIBSVM names its data sets so. No pickle is ever read. Large ``.npy`` and ``.parquet``
files, and folders, are not read as a whole, but when their rows are needed.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .._files import replacing, write_atomically
from .._types import Array, Rows
from . import _arrays, _tables, _writing
from ._common import (
    FileError,
    RowFile,
    clean_labels,
    existing,
    form_of,
    numbers_where_all_are,
    open_text,
    opened,
    reading,
)
from ._parquet import ParquetRows, open_parquet

STREAMED = {"npy": _writing.stream_npy, "parquet": _writing.stream_parquet}
"""Forms that are written as rows come, so that not all need be in memory."""

__all__ = [
    "STREAMED",
    "ParquetRows",
    "RowFile",
    "check_writable_form",
    "is_table",
    "open_parquet",
    "read_lines",
    "read_rows",
    "write_row_blocks",
    "write_rows",
]


def read_rows(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    n_features: int | None = None,
) -> RowFile:
    """Read rows, and their labels where there are any.

    Parameters
    ----------
    path : path-like
        A file of one of the forms above, or a folder of ``.parquet`` files.
    labels : path-like, optional
        Another file with the labels: ``.npy``, ``.npz`` with an array ``y``, or text with one
        label a line. They take the place of labels in ``path``.
    label_column : str, optional
        Column of a ``.csv`` or ``.parquet`` file that holds the labels. Without it, a column named
        ``label`` or ``y`` does, if there is one.
    n_features : int, optional
        Width that svmlight rows are filled up to with zeros: such a file ends with the last
        feature that is not zero in some row.

    Returns
    -------
    RowFile
        Its ``y`` is None where there are no labels.

    Raises
    ------
    FileNotFoundError
        Where a file is not there.
    ValueError
        Where a file is of no known form, is damaged, or holds something else than numbers.
    """
    path = existing(path)
    form = _form_to_read(path)
    if label_column is not None and form not in ("csv", "parquet"):
        raise ValueError(
            f"{path} has no columns with names, and so none named {label_column!r}: give the "
            "labels in a file of their own"
        )
    if form == "parquet" and (path.is_dir() or path.stat().st_size > _arrays.MAPPED_ABOVE):
        rows = _open_parquet(path, label_column, read_labels=labels is None)
    else:
        with reading(path):
            rows = _read_whole(path, form, label_column, n_features)
            _check(rows)
    if labels is None:
        return rows
    y = _read_labels(_existing_file(labels))
    if len(y) != rows.X.shape[0]:
        raise ValueError(
            f"{labels} has {len(y):,} labels for the {rows.X.shape[0]:,} rows of {path}: give one "
            "for each row, in their order and without a header"
        )
    return replace(rows, y=y, class_names=None)


def _read_whole(path: Path, form: str, label_column: str | None, n_features: int | None) -> RowFile:
    if form == "npy":
        return _arrays.read_npy(path)
    if form == "npz":
        return _arrays.read_npz(path)
    if form == "svmlight":
        return _arrays.read_svmlight(path, n_features)
    if form == "csv":
        return _tables.read_csv(path, label_column)
    return _tables.read_parquet(path, label_column)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Lines of a text file, without their ends."""
    path = _existing_file(path)
    with reading(path), open_text(path) as stream:
        return stream.read().splitlines()


def write_rows(
    path: str | os.PathLike[str],
    X: Rows,
    y: Array | None = None,
    *,
    class_names: Sequence[str] | None = None,
    train_idx: Array | None = None,
    test_idx: Array | None = None,
) -> None:
    """Write rows in the form that the suffix says, replacing the file in one step.

    Parameters
    ----------
    path : path-like
        Any name that `read_rows` takes.
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        The rows. Sparse ones go to ``.npz`` and svmlight only.
    y : ndarray of shape (n_rows,), optional
        Their labels. A ``.npy`` file has no place for them.
    class_names, train_idx, test_idx : optional
        As in `RowFile`; kept in ``.npz`` only.
    """
    path = Path(path)
    form = check_writable_form(path)
    if sp.issparse(X) and form not in ("npz", "svmlight"):
        raise ValueError(f"{path}: the rows are sparse, which .npz and .svm hold, but not .{form}")
    if form in STREAMED:
        write_row_blocks(path, [X], X.shape[0], y)
        return
    more = {"class_names": class_names, "train_idx": train_idx, "test_idx": test_idx}
    arrays = {name: np.asarray(value) for name, value in more.items() if value is not None}
    write_atomically(path, _writing.encode(path, form, X, y, arrays))


def write_row_blocks(
    path: str | os.PathLike[str], blocks: Iterable[Array], n_rows: int, y: Array | None = None
) -> None:
    """Write rows as they come, replacing the file in one step after the last.

    Parameters
    ----------
    path : path-like
        A name that ends in ``.npy`` or ``.parquet``: the forms in `STREAMED`.
    blocks : iterable of ndarray
        The rows, in order; at least one block.
    n_rows : int
        How many there are in all.
    y : ndarray of shape (n_rows,), optional
        Their labels. A ``.npy`` file has no place for them.
    """
    write = STREAMED[check_writable_form(path)]
    with replacing(path) as file:
        write(file, blocks, n_rows, y)


def check_writable_form(path: str | os.PathLike[str]) -> str:
    """Form in which rows would be written here; an error where it is unknown or needs an extra."""
    form = form_of(Path(path))
    if form == "parquet":
        _tables.import_pyarrow()
    return form


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name has columns with names, one of which may hold the labels."""
    return _form_to_read(Path(path)) in ("csv", "parquet")


def _form_to_read(path: Path) -> str:
    return "parquet" if path.is_dir() else form_of(path)


def _open_parquet(path: Path, label_column: str | None, *, read_labels: bool) -> RowFile:
    X = open_parquet(path, label_column=label_column)
    y = X.labels() if read_labels and X.label_column is not None else None
    return RowFile(X, y, X.feature_names)


def _existing_file(path: str | os.PathLike[str]) -> Path:
    path = existing(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file")
    return path


def _read_labels(path: Path) -> Array:
    """Labels in a file of their own."""
    with reading(path):
        if path.suffix == ".npz":
            found = _arrays.read_npz_labels(path)
        elif path.suffix == ".npy":
            with opened(path) as stream:
                found = np.load(stream, allow_pickle=False)
        else:
            with open_text(path) as text:
                lines = text.read().splitlines()
            found = numbers_where_all_are([line.strip() for line in lines])
        return clean_labels(found)


def _check(rows: RowFile) -> None:
    """Refuse what no one could work with."""
    X, y = rows.X, rows.y
    if X.ndim != 2 or not all(X.shape):
        raise FileError(f"rows of features are needed, and what it holds has shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise FileError(f"it holds {X.dtype} where numbers belong")
    if not isinstance(X, np.memmap):  # a mapped file is checked block by block when it is used
        _arrays.check_finite(X)
    if y is not None and len(y) != X.shape[0]:
        raise FileError(f"it has {len(y):,} labels for {X.shape[0]:,} rows")
    names = rows.feature_names
    if names is not None and len(names) != X.shape[1]:
        raise FileError(f"it has {len(names):,} feature names for {X.shape[1]:,} features")
    classes = rows.class_names
    if classes is not None and not _are_places(y, len(classes)):
        raise FileError(
            f"it has {len(classes):,} class_names, so that its labels must be numbers from 0 to "
            f"{len(classes) - 1:,}"
        )
    if rows.train_idx is not None and rows.test_idx is not None:
        _check_split(rows.train_idx, rows.test_idx, X.shape[0])


def _are_places(y: Array | None, n: int) -> bool:
    return y is not None and y.dtype.kind in "iu" and y.min() >= 0 and y.max() < n


def _check_split(train: Array, test: Array, n_rows: int) -> None:
    for name, numbers in (("train_idx", train), ("test_idx", test)):
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
            raise FileError(f"{name} is not a list of row numbers")
        if numbers.min() < 0 or numbers.max() >= n_rows:
            raise FileError(f"{name} names rows beyond the {n_rows:,} that there are")
    both = np.concatenate([train, test])
    if len(np.unique(both)) < len(both):
        raise FileError("train_idx and test_idx have rows in common, or repeat some")
