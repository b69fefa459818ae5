"""Files of rows with labels, read and written in one call.

- ``.npz``: ``X``, or the parts of a sparse matrix (also those that ``scipy.sparse.save_npz``
  writes), and perhaps ``y``, ``class_names``, ``feature_names``, ``train_idx`` and ``test_idx``.
- ``.npy``: the rows alone.
- ``.svm``, ``.libsvm``, ``.svmlight``: a label, and ``index:value`` of the numbers but zeros.
- ``.csv``: a header, one column per feature, and perhaps a column of labels.
- ``.parquet``: the same, or a column of vectors; needs ``dualmetric[parquet]``.
- a folder of ``.parquet`` files with the same columns.

svmlight and csv may be compressed (``.gz``, ``.bz2``). A compressed file of any other name is read
as svmlight, since the data sets of LIBSVM have such names. Pickles are never read. Large ``.npy``
and ``.parquet`` files, and folders, are not read as a whole, but when their rows are needed.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from .._arrays import ops
from .._rows.base import all_finite, rows_not_finite
from .._rows.stored import is_source
from .._types import Array, Matrix
from . import _arrays, _forms, _writing
from ._forms import FileError, RowFile, existing, form_of, reading
from .atomic import replacing, write_atomically
from .parquet import import_pyarrow, open_parquet

STREAMED = {"npy": _writing.stream_npy, "parquet": _writing.stream_parquet}
"""Forms that are written block by block, so that not all rows need be in memory."""


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
        Labels to use instead: ``.npy``, ``.npz`` with an array ``y``, or text, one per line.
    label_column : str, optional
        Column of a ``.csv`` or ``.parquet`` file with the labels; by default ``label`` or ``y``.
    n_features : int, optional
        Width that svmlight rows, whose last features may be zero in all, are padded to.

    Returns
    -------
    RowFile
        Its ``y`` is None if there are no labels.
    """
    path = existing(path)
    if label_column is not None and not is_table(path):
        raise ValueError(
            f"{path} has no named columns, so none is named {label_column!r}: give the labels in a "
            "separate file"
        )
    rows = _read(path, label_column, n_features, read_labels=labels is None)
    with reading(path):
        _check(rows)
    if labels is None:
        return rows
    y = _read_labels(_existing_file(labels))
    if len(y) != rows.X.shape[0]:
        raise ValueError(
            f"{labels} has {len(y):,} labels for the {rows.X.shape[0]:,} rows of {path}: give one "
            "for each row, in the same order and without a header"
        )
    return replace(rows, y=y, class_names=None)


def _read(
    path: Path, label_column: str | None, n_features: int | None, *, read_labels: bool
) -> RowFile:
    form = _form_to_read(path)
    if form == "parquet":
        X = open_parquet(path, label_column=label_column)
        y = X.labels() if read_labels and X.label_column is not None else None
        is_large = path.is_dir() or path.stat().st_size > _arrays.MAPPED_ABOVE
        return RowFile(X if is_large else X[:], y, X.feature_names)
    with reading(path):
        if form == "npy":
            return _arrays.read_npy(path)
        if form == "npz":
            return _arrays.read_npz(path)
        if form == "svmlight":
            return _arrays.read_svmlight(path, n_features)
        return _arrays.read_csv(path, label_column)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Lines of a text file, without their ends."""
    path = _existing_file(path)
    with reading(path), _forms.open_text(path) as stream:
        return stream.read().splitlines()


def write_rows(
    path: str | os.PathLike[str],
    X: Matrix,
    y: Array | None = None,
    *,
    class_names: Sequence[str] | None = None,
    train_idx: Array | None = None,
    test_idx: Array | None = None,
) -> None:
    """Write rows in the form given by the suffix, replacing the file in one step.

    Parameters
    ----------
    path : path-like
        Any file name that `read_rows` accepts.
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        The rows. Sparse ones go to ``.npz`` and svmlight only.
    y : ndarray of shape (n_rows,), optional
        Their labels. A ``.npy`` file cannot hold them.
    class_names, train_idx, test_idx : optional
        As in `RowFile`; kept in ``.npz`` only.
    """
    form = check_writable_form(path)
    if form not in ("npz", "svmlight"):
        ops.require_dense(
            X, f"{path}: the rows are sparse, and .{form} cannot hold them: write .npz or .svm"
        )
    if form in STREAMED:
        write_row_blocks(path, [X], X.shape[0], y)
        return
    more = {"class_names": class_names, "train_idx": train_idx, "test_idx": test_idx}
    arrays = {name: np.asarray(value) for name, value in more.items() if value is not None}
    write_atomically(path, _writing.encode(Path(path), form, X, y, arrays))


def write_row_blocks(
    path: str | os.PathLike[str], blocks: Iterable[Array], n_rows: int, y: Array | None = None
) -> None:
    """Write ``n_rows`` rows block by block, in a form of `STREAMED`; ``.npy`` holds no labels."""
    write = STREAMED[check_writable_form(path)]
    with replacing(path) as file:
        write(file, blocks, n_rows, y)


def check_writable_form(path: str | os.PathLike[str]) -> str:
    """Form of a file to write; an error if it is unknown or needs an extra."""
    form = form_of(Path(path))
    if form == "parquet":
        import_pyarrow()
    return form


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name has named columns, one of which may hold the labels."""
    return _form_to_read(Path(path)) in ("csv", "parquet")


def _form_to_read(path: Path) -> str:
    return "parquet" if path.is_dir() else form_of(path)


def _existing_file(path: str | os.PathLike[str]) -> Path:
    path = existing(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file")
    return path


def _read_labels(path: Path) -> Array:
    """Labels in a separate file."""
    with reading(path):
        if path.suffix in (".npy", ".npz"):
            return _arrays.read_labels(path)
        with _forms.open_text(path) as stream:
            return _forms.labels_of_texts([line.strip() for line in stream.read().splitlines()])


def _check(rows: RowFile) -> None:
    """Refuse contents that cannot be used as rows."""
    X, y = rows.X, rows.y
    if X.ndim != 2 or not all(X.shape):
        raise FileError(f"rows of features are needed, but it holds an array of shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise FileError(f"it holds {X.dtype}, not numbers")
    n, d = X.shape
    # rows that are not in memory are checked block by block when they are used
    if not is_source(X) and not all_finite(X):
        raise FileError(
            f"row {rows_not_finite(X)[0]} (counted from 0) has NaN or infinity: fill the missing "
            "numbers, or drop the row"
        )
    if y is not None and len(y) != n:
        raise FileError(f"it has {len(y):,} labels for {n:,} rows")
    if rows.feature_names is not None and len(rows.feature_names) != d:
        raise FileError(f"it has {len(rows.feature_names):,} feature names for {d:,} features")
    if rows.class_names is not None and not _are_places(y, len(rows.class_names)):
        raise FileError(
            f"it has {len(rows.class_names):,} class_names, so its labels must be numbers from 0 "
            f"to {len(rows.class_names) - 1:,}"
        )
    if rows.train_idx is not None and rows.test_idx is not None:
        for name, numbers in (("train_idx", rows.train_idx), ("test_idx", rows.test_idx)):
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
                raise FileError(f"{name} is not a list of row numbers")
            if not _are_places(numbers, n):
                raise FileError(f"{name} has row numbers beyond the {n:,} rows")
        both = np.concatenate([rows.train_idx, rows.test_idx])
        if len(np.unique(both)) < len(both):
            raise FileError("train_idx and test_idx have rows in common, or repeat some")


def _are_places(numbers: Array | None, n: int) -> bool:
    """Whether all are whole numbers from 0 to n − 1."""
    if numbers is None or numbers.dtype.kind not in "iu":
        return False
    return bool(numbers.min() >= 0 and numbers.max() < n)
