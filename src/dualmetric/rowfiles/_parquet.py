"""Rows in Parquet files, read a few row groups at a time."""

import os
from collections.abc import Sequence
from itertools import groupby
from numbers import Integral
from typing import Any

import numpy as np

from .._types import Array
from ._common import FileError, clean_labels, existing, numbers_where_all_are, reading
from ._footers import (
    Column,
    File,
    Group,
    check_like_first,
    choose,
    folders_of,
    list_files,
    stamp_of,
    vector_width,
)
from ._tables import arrow_labels, check_cell, import_pyarrow, vectors_as_rows

_BUFFER = 2**20  # bytes of a file that are read at once, rather than a whole column
_BATCH = 2**24  # bytes that are decoded at once
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a missing one, as Spark and others write it


class ParquetRows:
    """Rows in Parquet files, which `open_parquet` makes: a source that any learner takes.

    ``rows[a:b]`` reads the row groups that hold these rows, and of them the features alone. Several
    threads may read at once.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and of features.
    dtype : dtype
        float32 where it holds every number of every column exactly (float16 and float32, whole
        numbers of up to 16 bits, truth values), else float64.
    ndim : int
        2.
    chunks : tuple of tuple of int
        Rows of each row group, and the number of features: as Dask has them, so that
        ``dask.array.from_array(rows, chunks=rows.chunks)`` reads each row group once.
    feature_names : tuple of str or None
        Names of the columns; None where the features are one column of vectors.
    label_column : str or None
        Column, or ``name=value`` folder, that holds the labels.
    files : tuple of Path
        The files, in the order of their rows.
    """

    ndim = 2
    thread_safe = True

    def __init__(
        self,
        files: Sequence[File],
        groups: Sequence[Group],
        columns: dict[str, Column],
        width: int,
        label_column: str | None,
    ) -> None:
        self._files, self._groups, self._columns = tuple(files), tuple(groups), columns
        self._starts = np.array([group.start for group in groups])
        self.shape = (sum(group.n_rows for group in groups), width)
        small = all(np.can_cast(column.dtype, np.float32) for column in columns.values())
        self.dtype = np.dtype(np.float32 if small else np.float64)
        self.chunks = (tuple(group.n_rows for group in groups), (width,))
        has_vectors = any(column.is_vector for column in columns.values())
        self.feature_names = None if has_vectors else tuple(columns)
        self.label_column = label_column
        self.files = tuple(file.path for file in files)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        names = list(self._columns)
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        files = f"{len(self.files):,} file{'s' * (len(self.files) != 1)}"
        return f"<ParquetRows: {n:,} rows of {d:,} {self.dtype} ({shown}) in {files}>"

    def __getitem__(self, key: Any) -> Array:
        n = self.shape[0]
        rows, *more = key if isinstance(key, tuple) else (key,)
        if isinstance(rows, Integral) and -n <= int(rows) < n:
            first = int(rows) % n
            return self[first : first + 1, *more][0]
        if not isinstance(rows, slice):
            raise IndexError(
                f"rows of Parquet files are read by slices, rows[10:20], or by a number up to "
                f"{n - 1}; got {rows!r}"
            )
        numbers = range(*rows.indices(n))
        start, stop = (min(numbers), max(numbers) + 1) if numbers else (0, 0)
        found = self._read(start, stop)[:: numbers.step]  # what lies between steps is read, too
        return found[(slice(None), *more)] if more else found

    def place(self, row: int) -> str:
        """Where a row is: its file and its number there."""
        group = self._groups[int(np.searchsorted(self._starts, row, side="right")) - 1]
        return f"{self._files[group.file].path}, row {group.first + row - group.start}"

    def labels(self) -> Array:
        """Labels of all rows, whole numbers or strings; no other column is read."""
        name = self.label_column
        if name is None:
            raise ValueError(
                f"no column of {self.files[0]} is known to hold labels: "
                "open_parquet(path, label_column=...)"
            )
        if name in self._files[0].folders:
            return self._labels_of_folders(name)
        pa = import_pyarrow()
        parts: list[Array] = []
        for file in self._files:
            with reading(file.path), self._open(pa, file) as opened:
                found = arrow_labels(pa, opened.read(columns=[name]).column(name))
                if parts and (found.dtype.kind == "U") != (parts[0].dtype.kind == "U"):
                    raise FileError(
                        f"its labels are {found.dtype}, and those of {self.files[0]} "
                        f"{parts[0].dtype}: write both as text, or both as numbers"
                    )
            parts.append(found)
        return np.concatenate(parts)

    def _labels_of_folders(self, name: str) -> Array:
        texts = []
        for file in self._files:
            if file.folders[name] in ("", _NO_VALUE):
                raise ValueError(f"{file.path} has no label: its folder {name}= names none")
            texts.append(file.folders[name])
        labels = clean_labels(numbers_where_all_are(texts))
        return np.repeat(labels, [file.footer.num_rows for file in self._files])

    def _read(self, start: int, stop: int) -> Array:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        if start < stop:
            first = np.searchsorted(self._starts, start, side="right") - 1
            last = np.searchsorted(self._starts, stop, side="left")
            for number, groups in groupby(self._groups[first:last], lambda group: group.file):
                self._fill(out, start, self._files[number], list(groups))
        return out

    def _fill(self, out: Array, start: int, file: File, groups: list[Group]) -> None:
        """Put rows of some row groups of one file where they belong in ``out``, from ``start`` on.

        They are decoded a small batch at a time: a whole row group would take its own size in
        memory once more, fresh from the system each time.
        """
        pa = import_pyarrow()
        stop = min(start + len(out), groups[-1].start + groups[-1].n_rows)
        row = groups[0].start
        with reading(file.path), self._open(pa, file) as opened:
            for batch in opened.iter_batches(
                max(1, _BATCH // (self.shape[1] * self.dtype.itemsize)),
                row_groups=[group.number for group in groups],
                columns=list(self._columns),
            ):
                first, last = max(start, row), min(stop, row + batch.num_rows)
                if first < last:
                    wanted = batch.slice(first - row, last - first)
                    number = groups[0].first + first - groups[0].start
                    self._decode(pa, wanted, out[first - start : last - start], number)
                row += batch.num_rows
                if row >= stop:
                    break
            if row < stop:
                raise FileError(f"it ends {stop - row:,} rows before its footer says")

    def _decode(self, pa: Any, batch: Any, out: Array, first_row: int) -> None:
        """Write the numbers of a batch to ``out``; ``first_row`` is its first row in the file."""
        names = list(self._columns)
        columns = [
            pa.chunked_array([batch.column(batch.schema.get_field_index(name))]) for name in names
        ]
        if self.feature_names is None:
            out[:] = vectors_as_rows(pa, columns[0], names[0], self.shape[1], first_row)
            return
        turned = np.empty(out.T.shape, dtype=out.dtype)  # filled in order, which is far faster
        for place, column in enumerate(columns):
            if column.null_count:
                row = np.flatnonzero(column.is_null().to_numpy())[0]
                check_cell(None, names[place], first_row + int(row))
            turned[place] = column.to_numpy()
        out[:] = turned.T

    @staticmethod
    def _open(pa: Any, file: File) -> Any:
        if stamp_of(file.path) != file.stamp:
            raise FileError("it has changed since it was opened: open it again")
        return pa.parquet.ParquetFile(file.path, metadata=file.footer, buffer_size=_BUFFER)


def open_parquet(
    path: str | os.PathLike[str],
    columns: str | Sequence[str] | None = None,
    label_column: str | None = None,
) -> ParquetRows:
    """Open a Parquet file, or a folder of them, as rows that are read when they are needed.

    Only the footers of the files are read. Rows come in the order of the files' paths (``part-10``
    is before ``part-2``). Files and folders whose names begin with ``_`` or ``.`` are left out.
    Needs ``dualmetric[parquet]``.

    Parameters
    ----------
    path : path-like
        A file, or a folder with ``.parquet`` files in it and in the folders in it.
    columns : str or sequence of str, optional
        Columns of numbers to take as features, or one column of vectors (lists of one length). By
        default the only column of vectors, or else all columns but that of the labels.
    label_column : str, optional
        Column with the labels, or the name in ``name=value`` folders. By default ``label`` or
        ``y``, if there is one.

    Returns
    -------
    ParquetRows
        What ``fit``, ``transform`` and ``score`` take as X; its ``labels()`` are their y.

    Raises
    ------
    FileNotFoundError
        Where there is no such file or folder.
    ValueError
        Where a file is damaged, holds something else than numbers, or is not like the first one.
        Missing numbers, and vectors of different lengths, are found here or when they are read.

    Examples
    --------
    >>> from dualmetric import DuRP, open_parquet
    >>> X = open_parquet("embeddings/", label_column="topic")  # doctest: +SKIP
    >>> model = DuRP(n_components=64).fit(X, X.labels())  # doctest: +SKIP
    """
    pa = import_pyarrow()
    path = existing(path)
    wanted = [columns] if isinstance(columns, str) else columns
    files: list[File] = []
    groups: list[Group] = []
    features: dict[str, Column] = {}
    label: str | None = None
    width, start = 0, 0
    for place in list_files(path):
        with reading(place):
            stamp = stamp_of(place)
            with pa.parquet.ParquetFile(place) as opened:
                footer, schema = opened.metadata, opened.schema_arrow
            if footer.num_rows == 0:
                continue  # what has no rows need not have their columns
            file = File(place, footer, stamp, folders_of(place, path))
            found, found_label = choose(pa, schema, file.folders, wanted, label_column)
            if not files:
                features, label = found, found_label
            check_like_first(found, found_label, features, label, files)
            lengths = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
            if not any(column.is_vector for column in features.values()):
                width = len(features)
            else:
                width = vector_width(footer, next(iter(features)), lengths, width)
        first = 0
        for number, n_rows in enumerate(lengths):
            if n_rows:
                groups.append(Group(len(files), number, start + first, first, n_rows))
            first += n_rows
        start += first
        files.append(file)
    if not files:
        raise ValueError(f"{path} has no rows")
    return ParquetRows(files, groups, features, width, label)
