"""Files of rows with labels, read and written in one call.

- ``.npz``: ``X``, or the parts of a sparse matrix (also those that ``scipy.sparse.save_npz``
  writes), and perhaps ``y``, ``class_names``, ``feature_names``, ``train_idx`` and ``test_idx``.
- ``.npy``: the rows alone.
- ``.svm``, ``.libsvm``, ``.svmlight``: a label, and ``index:value`` for each number that is not
  zero.
- ``.csv``: a header, one column per feature, and perhaps a column of labels.
- ``.parquet``: the same, or a column of vectors; needs ``dualmetric[parquet]``.
- a folder of ``.parquet`` files with the same columns.

svmlight and csv may be compressed (``.gz``, ``.bz2``). A compressed file of any other name is read
as svmlight, since the data sets of LIBSVM have such names. Pickles are never read. Large ``.npy``
and ``.parquet`` files, and folders, are not read as a whole, but when their rows are needed.
"""

import io
import math
import os
import re
import reprlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._rows.base import check_indices, rows_not_finite
from .._rows.stored import is_source
from .._types import Array, Matrix
from .._validation import warn_of_ids
from . import _forms
from ._csv import as_csv, header_of, read_csv
from ._forms import FileError, RowFile, Wanted, clean_labels, existing, form_of, open_bytes, reading
from ._npy import Archive, read_npy
from .atomic import replacing, write_atomically
from .parquet import column_names as parquet_names
from .parquet import import_pyarrow, open_parquet

MAPPED_ABOVE = 2**26
"""Size in bytes above which files are not read as a whole; rows are read when they are needed."""
STREAMED = ("npy", "parquet")
"""Forms that are written block by block, so that the rows need not all be in memory."""

# none of the parts looks back (``++``, ``*+``), so that the time is linear in the length of a line
_NUMBER = rb"(?>[-+]?(?:(?:\d++\.?+\d*+|\.\d++)(?:e[-+]?+\d++)?+|nan|inf))"
_SVMLIGHT_LINE = re.compile(
    rb"\s*+(?:%b(?:\s++qid:\d++)?+(?:\s++\d++:%b)*+)?+\s*+(?:#.*+)?+" % (_NUMBER, _NUMBER),
    re.IGNORECASE,
)


def read_rows(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    n_features: int | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> RowFile:
    """Read rows, and their labels and identifiers where there are any.

    Parameters
    ----------
    path : path-like
        A file of one of the forms above, or a folder of ``.parquet`` files.
    labels : path-like, optional
        Labels to use instead: ``.npy``, ``.npz`` with an array ``y``, or text, one per line.
    label_column : str, optional
        Column of a ``.csv`` or ``.parquet`` file with the labels; by default ``label`` or ``y``.
    n_features : int, optional
        Number of features of svmlight rows. The file does not store it, so rows are padded with
        zeros to this width.
    columns, drop : sequence of str, optional
        Columns of a ``.csv`` or ``.parquet`` file that are the features, in this order, and columns
        that are left out. By default all columns are features, except for the labels and for text
        in a column with a name such as ``id``. A column of ids that is not a feature is read as
        ``ids``.

    Returns
    -------
    RowFile
        Its ``y`` is None if there are no labels.
    """
    path = existing(path, or_folder=True)
    if label_column is not None and not is_table(path):
        raise ValueError(
            f"{path} has no named columns, so there is no column {label_column!r}: give the labels "
            "in a separate file"
        )
    if (columns is not None or drop) and not is_table(path):
        raise ValueError(
            f"{path} has no named columns to choose from: select columns of its array instead"
        )
    wanted = Wanted(label_column, None if columns is None else tuple(columns), tuple(drop))
    rows = _read(path, wanted, n_features, labels is None)
    with reading(path):
        _check(rows)
    if columns is None and is_table(path):
        remedy = "Leave it out with --drop {0}, or drop=['{0}'] in Python."
        warn_of_ids(rows.X, rows.feature_names, str(path), remedy)
    if labels is None:
        return rows
    y = _read_labels(existing(labels))
    if len(y) != rows.X.shape[0]:
        raise ValueError(
            f"{labels} has {len(y):,} labels for the {rows.X.shape[0]:,} rows of {path}: give one "
            "for each row, in the same order and without a header"
        )
    return replace(rows, y=y, class_names=None)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Lines of a text file, without their ends."""
    path = existing(path)
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
    ids: Array | None = None,
    id_name: str | None = None,
) -> None:
    """Write rows in the form given by the suffix. An existing file is replaced atomically.

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
    ids, id_name : optional
        As in `RowFile`; kept in ``.npz``, ``.csv`` and ``.parquet``.
    """
    path = Path(path)
    form = check_writable_form(path)
    if form not in ("npz", "svmlight"):
        ops.require_dense(X, f"{path}: .{form} cannot hold sparse rows: write .npz or .svm")
    if form in STREAMED:
        write_row_blocks(path, [X], X.shape[0], y, ids, id_name)
        return
    content = io.BytesIO()
    if form == "npz":
        more = {"y": y, "class_names": class_names, "train_idx": train_idx, "test_idx": test_idx}
        more |= {"ids": ids}
        arrays = {name: np.asarray(value) for name, value in more.items() if value is not None}
        np.savez_compressed(content, **ops.named_parts(X), **arrays)  # type: ignore[arg-type]
    elif form == "csv":
        content.write(as_csv(X, y, ids, id_name))
    else:
        _write_svmlight(content, X, y, path)
    write_atomically(path, _forms.packed(content.getvalue(), path))


def write_row_blocks(
    path: str | os.PathLike[str],
    blocks: Iterable[Array],
    n_rows: int,
    y: Array | None = None,
    ids: Array | None = None,
    id_name: str | None = None,
) -> None:
    """Write ``n_rows`` rows block by block, in a form of `STREAMED`; ``.npy`` holds rows only."""
    form = check_writable_form(path)
    with replacing(path) as file:
        if form == "npy":
            _stream_npy(file, blocks, n_rows)
        else:
            more = {id_name or "id": ids, "label": y}
            _stream_parquet(file, blocks, more)


def check_writable_form(path: str | os.PathLike[str]) -> str:
    """Form of a file to write; raises an error if the form is unknown or an extra is missing."""
    form = form_of(Path(path))
    if form == "parquet":
        import_pyarrow()
    return form


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name has named columns, one of which may hold the labels."""
    return _form_to_read(Path(path)) in ("csv", "parquet")


def column_names(path: str | os.PathLike[str]) -> Sequence[str]:
    """Names of the columns of a table."""
    path = existing(path, or_folder=True)
    return header_of(path) if _form_to_read(path) == "csv" else parquet_names(path)


def _form_to_read(path: Path) -> str:
    return "parquet" if path.is_dir() else form_of(path)


# --- reading --------------------------------------------------------------------------------


def _read(path: Path, wanted: Wanted, n_features: int | None, labels: bool) -> RowFile:
    form = _form_to_read(path)
    is_large = path.is_dir() or path.stat().st_size > MAPPED_ABOVE
    if form == "parquet":
        X = open_parquet(path, wanted.columns, wanted.label_column, wanted.drop)
        y = X.labels() if labels and X.label_column is not None else None
        is_large |= (
            math.prod(X.shape) * X.dtype.itemsize > MAPPED_ABOVE
        )  # a few bytes may hold many
        ids = None if X.id_column is None else X.ids()
        found = RowFile(X if is_large else X[:], y, X.feature_names)
        return replace(found, ids=ids, id_name=X.id_column)
    with reading(path):
        if form == "npy" and is_large:
            return RowFile(np.load(path, mmap_mode="r", allow_pickle=False))
        if form == "csv":
            return read_csv(path, wanted)
        if form == "svmlight":
            return _read_svmlight(path, n_features)
        with open_bytes(path) as stream:
            if form == "npy":
                return RowFile(read_npy(stream))
            return _read_npz(Archive(stream, _forms.unpack_limit(path)))


def _read_labels(path: Path) -> Array:
    """Labels in a separate file."""
    if path.suffix not in (".npy", ".npz"):
        texts = [line.strip() for line in read_lines(path)]
        with reading(path):
            return _forms.labels_of_texts(texts)
    with reading(path), open_bytes(path) as stream:
        if path.suffix == ".npy":
            return clean_labels(read_npy(stream))
        return clean_labels(Archive(stream, _forms.unpack_limit(path))["y"])


def _read_npz(file: Archive) -> RowFile:
    """Rows, dense or sparse, with labels, names and a split if the file has them."""
    more: dict[str, Any] = {
        key: tuple(map(str, file[key].ravel().tolist()))
        for key in ("feature_names", "class_names")
        if key in file and (key == "feature_names" or "y" in file)
    }
    if "ids" in file:
        more |= {"ids": file["ids"], "id_name": "ids"}
    if "train_idx" in file and "test_idx" in file:
        more |= {key: file[key] for key in ("train_idx", "test_idx")}
    y = clean_labels(file["y"]) if "y" in file else None
    if "X" in file:
        return RowFile(file["X"], y, **more)
    X = file.sparse()
    check_indices(X, "its X")
    return RowFile(ops.canonical(sp.csr_matrix(X)), y, **more)


def _read_svmlight(path: Path, n_features: int | None) -> RowFile:
    """Sparse rows and labels; indices count from 0 if any is 0, otherwise from 1."""
    from sklearn.datasets import load_svmlight_file

    with open_bytes(path) as stream:
        try:
            X, y = load_svmlight_file(stream, dtype=np.float64)
        except ValueError:
            stream.seek(0)
            for number, line in enumerate(stream, start=1):
                if not _SVMLIGHT_LINE.fullmatch(line):
                    shown = reprlib.repr(line.decode("utf-8", "replace").strip())
                    raise FileError(
                        f"line {number} is not a label and index:value pairs of numbers: {shown}"
                    ) from None
            raise
    if n_features is not None and X.shape[1] < n_features:
        X.resize(X.shape[0], n_features)
    return RowFile(ops.canonical(X), clean_labels(y))


def _check(rows: RowFile) -> None:
    """Refuse contents that cannot be used as rows."""
    X, y = rows.X, rows.y
    if X.ndim != 2 or not all(X.shape):
        raise FileError(f"rows of features are needed, but it holds an array of shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise FileError(f"it holds {X.dtype}, not numbers: save the rows as float32 or float64")
    n, d = X.shape
    # rows that are not in memory are checked block by block when they are used
    if not is_source(X) and len(bad := rows_not_finite(X)):
        raise FileError(
            f"row {bad[0]} (counted from 0) has NaN or infinity: fill the missing "
            "numbers, or drop the row"
        )
    if rows.ids is not None and rows.ids.shape != (n,):
        raise FileError(f"it has ids of shape {rows.ids.shape} for {n:,} rows: give one per row")
    if y is not None and len(y) != n:
        raise FileError(f"it has {len(y):,} labels for {n:,} rows: give one label per row")
    if rows.feature_names is not None and len(rows.feature_names) != d:
        raise FileError(
            f"it has {len(rows.feature_names):,} feature names for {d:,} features: give one "
            "name per feature"
        )
    if rows.class_names is not None and not _are_places(y, len(rows.class_names)):
        raise FileError(
            f"it has {len(rows.class_names):,} class_names, so its labels must be numbers from 0 "
            f"to {len(rows.class_names) - 1:,}"
        )
    if rows.train_idx is not None and rows.test_idx is not None:
        for name, numbers in (("train_idx", rows.train_idx), ("test_idx", rows.test_idx)):
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
                raise FileError(f"{name} must be a one-dimensional array of row numbers")
            if not _are_places(numbers, n):
                raise FileError(
                    f"{name} has row numbers beyond the {n:,} rows: they go from 0 to {n - 1:,}"
                )
        both = np.concatenate([rows.train_idx, rows.test_idx])
        if len(np.unique(both)) < len(both):
            raise FileError(
                "train_idx and test_idx have rows in common, or repeat some: name each row once"
            )


def _are_places(numbers: Array | None, n: int) -> bool:
    """Whether all are whole numbers from 0 to n − 1."""
    if numbers is None or numbers.dtype.kind not in "iu":
        return False
    return bool(numbers.min() >= 0 and numbers.max() < n)


# --- writing --------------------------------------------------------------------------------


def _stream_npy(file: BinaryIO, blocks: Iterable[Array], n_rows: int) -> None:
    for number, block in enumerate(map(np.ascontiguousarray, blocks)):
        if number == 0:
            header = np.lib.format.header_data_from_array_1_0(block)
            header["shape"] = (n_rows, *block.shape[1:])
            np.lib.format.write_array_header_1_0(file, header)
        file.write(block.data)


def _stream_parquet(file: BinaryIO, blocks: Iterable[Array], more: dict[str, Array | None]) -> None:
    """Write one row group per block: vectors, and further columns."""
    pa = import_pyarrow()
    with ExitStack() as closing:
        start, writer = 0, None
        for block in blocks:
            numbers = pa.array(np.ascontiguousarray(block).ravel())
            columns = {"vector": pa.FixedSizeListArray.from_arrays(numbers, block.shape[1])}
            for name, values in more.items():
                if values is not None:
                    columns[name] = pa.array(values[start : start + len(block)])
            table = pa.table(columns)
            if writer is None:
                writer = closing.enter_context(pa.parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            start += len(block)


def _write_svmlight(file: BinaryIO, X: Matrix, y: Array | None, path: Path) -> None:
    from sklearn.datasets import dump_svmlight_file

    if y is not None and y.dtype.kind not in "iub":
        raise ValueError(
            f"{path}: labels are numbers in svmlight files, but these are text: write .npz, .csv "
            "or .parquet"
        )
    labels = np.zeros(X.shape[0], dtype=np.int64) if y is None else y
    dump_svmlight_file(X, labels, file, zero_based=False)
