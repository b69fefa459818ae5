"""Rows in Parquet files, read a few row groups at a time."""

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from .._types import Array
from . import _forms
from ._forms import FileError, existing, import_extra, reading
from ._parquet_columns import Column, choose, first_null, labels_of, vectors_of

_BUFFER = 2**20  # bytes of a file that are read at once, rather than a whole column
_BATCH = 2**24  # bytes that are decoded at once
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a missing value, as Spark and others write it


def import_pyarrow() -> Any:
    """pyarrow with its modules, or an ImportError that says how to install it."""
    for name in ("pyarrow.compute", "pyarrow.parquet"):
        import_extra(name, "parquet")
    return import_extra("pyarrow", "parquet")


class _File(NamedTuple):
    path: Path
    footer: Any  # pyarrow's FileMetaData, so that it is not read again
    stamp: tuple[int, int]  # size and time, by which a change is noticed
    folders: dict[str, str]  # names and values of the ``name=value`` folders that it is in


class _Group(NamedTuple):
    file: _File
    number: int
    first: int  # row in its file
    n_rows: int


class ParquetRows:
    """Rows in Parquet files, as `open_parquet` returns them; every estimator accepts them as X.

    ``rows[a:b]`` reads the row groups that hold these rows, and of them only the features. Several
    threads may read at the same time.

    Attributes
    ----------
    shape, dtype, chunks : tuple of int, dtype, tuple of tuple of int
        As for a Dask array. The type is float32 if that holds every number exactly, otherwise
        float64. There is one chunk for each row group, so that
        ``dask.array.from_array(rows, chunks=rows.chunks)`` reads each once.
    feature_names, label_column : tuple of str or None, str or None
        Names of the feature columns (None if the features are one column of vectors), and the name
        of the column, or of the ``name=value`` folders, that holds the labels.
    id_column : str or None
        Name of a column such as ``id`` that is not a feature; see `ids`.
    files : tuple of Path
        The files, in the order of their rows.
    """

    ndim = 2
    thread_safe = True

    def __init__(
        self,
        groups: Sequence[_Group],
        columns: dict[str, Column],
        label_column: str | None,
        id_column: str | None = None,
    ) -> None:
        self._groups, self._columns, self.label_column = tuple(groups), columns, label_column
        self.id_column = id_column
        self._files = tuple(group.file for group in groups if group.first == 0)
        lengths = tuple(group.n_rows for group in groups)
        self._starts = np.cumsum([0, *lengths])
        width = next(iter(columns.values())).width
        self.feature_names = tuple(columns) if width is None else None
        self.shape = (sum(lengths), len(columns) if width is None else width)
        self.chunks = (lengths, self.shape[1:])
        small = all(np.can_cast(column.dtype, np.float32) for column in columns.values())
        self.dtype = np.dtype(np.float32 if small else np.float64)
        self.files = tuple(file.path for file in self._files)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<ParquetRows: {n:,} rows of {d:,} {self.dtype}, files: {len(self.files):,}>"

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
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        first, last = np.searchsorted(self._starts, (start, stop - 1), side="right")
        for place in range(first - 1, last):
            begin, end = self._starts[place : place + 2] - start
            self._fill(out[max(begin, 0) : end], self._groups[place], max(-begin, 0))
        out = out[:: numbers.step]  # rows between steps are read, too
        return out[(slice(None), *more)] if more else out

    def select(self, names: Sequence[str]) -> "ParquetRows":
        """Return the same rows with some of the feature columns, in the given order."""
        columns = {name: self._columns[name] for name in names}
        return ParquetRows(self._groups, columns, self.label_column, self.id_column)

    def place(self, row: int) -> str:
        """Where a row is: its file and its number there."""
        place = int(np.searchsorted(self._starts, row, side="right")) - 1
        group = self._groups[place]
        return f"{group.file.path}, row {group.first + row - self._starts[place]}"

    def labels(self) -> Array:
        """Labels of all rows, whole numbers or strings; no other column is read."""
        name = self.label_column
        if name is None:
            raise ValueError(
                f"no label column was found in {self.files[0]}: name it with "
                "open_parquet(path, label_column=…)"
            )
        if name in self._files[0].folders:
            texts = [file.folders[name] for file in self._files]
            for path, text in zip(self.files, texts, strict=True):
                if text in ("", _NO_VALUE):
                    raise ValueError(f"{path} has no label: its folder {name}= has no value")
            return np.repeat(
                _forms.labels_of_texts(texts), [file.footer.num_rows for file in self._files]
            )
        pa = import_pyarrow()
        parts: list[Array] = []
        for file in self._files:
            with reading(file.path), _open(pa, file) as parquet:
                found = labels_of(pa, parquet.read(columns=[name]).column(name))
                if parts and (found.dtype.kind == "U") != (parts[0].dtype.kind == "U"):
                    raise FileError(
                        f"its labels are {found.dtype}, but those of {self.files[0]} are "
                        f"{parts[0].dtype}: write both as text, or both as numbers"
                    )
            parts.append(found)
        return np.concatenate(parts)

    def ids(self) -> Array | None:
        """Identifiers of all rows, as they are in ``id_column``; None where there are none."""
        if self.id_column is None:
            return None
        pa = import_pyarrow()
        parts = []
        for file in self._files:
            with reading(file.path), _open(pa, file) as parquet:
                column = parquet.read(columns=[self.id_column]).column(self.id_column)
                parts.append(column.to_numpy())
        found: Array = np.concatenate(parts)
        return found.astype(np.str_) if found.dtype.kind not in "iu" else found

    def _fill(self, out: Array, group: _Group, skip: int) -> None:
        """Write rows of a row group to ``out``, from its row ``skip`` on."""
        # in small batches: a whole row group would take its own size in memory once more
        pa = import_pyarrow()
        height = max(1, _BATCH // (self.shape[1] * self.dtype.itemsize))
        row, stop = 0, skip + len(out)
        with reading(group.file.path), _open(pa, group.file) as parquet:
            for batch in parquet.iter_batches(
                height, row_groups=[group.number], columns=list(self._columns)
            ):
                first, last = max(skip, row), min(stop, row + batch.num_rows)
                if first < last:
                    wanted = batch.slice(first - row, last - first)
                    numbers = self._numbers(pa, wanted, group.first + first)
                    out[first - skip : last - skip] = numbers
                row += batch.num_rows
                if row >= stop:
                    return
            raise FileError(f"it ends {stop - row:,} rows earlier than its footer says")

    def _numbers(self, pa: Any, batch: Any, first_row: int) -> Array:
        """Numbers of a batch; ``first_row`` is its first row in the file."""
        if self.feature_names is None:
            (name,) = self._columns
            return vectors_of(pa, batch.column(name), name, self.shape[1], first_row)
        columns = []
        for name in self._columns:
            column = batch.column(name)
            if column.null_count:
                raise FileError(
                    f"column {name!r} is empty in row {first_row + first_null(column)} (counted "
                    "from 0): fill it, or drop the row"
                )
            columns.append(column.to_numpy(zero_copy_only=False))
        return np.stack(columns).T


def open_parquet(
    path: str | os.PathLike[str],
    columns: str | Sequence[str] | None = None,
    label_column: str | None = None,
    drop: Sequence[str] = (),
) -> ParquetRows:
    """Open a Parquet file, or a folder of them, as rows that are read when they are needed.

    Only the footers of the files are read, so missing numbers may be found only when the rows are
    read. All files must have the same columns. Rows come in the order of the files' paths
    (``part-10`` is before ``part-2``); names that begin with ``_`` or ``.`` are ignored. Needs
    ``dualmetric[parquet]``.

    Parameters
    ----------
    path : path-like
        A file, or a folder with ``.parquet`` files in it or in its subfolders.
    columns : str or sequence of str, optional
        Columns of numbers to use as features, or one column of vectors (lists of one length). By
        default the only column of vectors, or else all columns except the labels.
    label_column : str, optional
        Column with the labels, or the name in ``name=value`` folders. By default ``label`` or
        ``y``, if there is one.
    drop : sequence of str, optional
        Columns that are not features. A text column with a name such as ``id`` is never a feature.

    Returns
    -------
    ParquetRows
        Rows that ``fit``, ``transform`` and ``score`` accept as X; its ``labels()`` are the y.

    Examples
    --------
    >>> from dualmetric import DuRP, open_parquet
    >>> X = open_parquet("embeddings/", label_column="topic")  # doctest: +SKIP
    >>> model = DuRP(n_components=64).fit(X, X.labels())  # doctest: +SKIP
    """
    pa = import_pyarrow()
    path = existing(path, or_folder=True)
    wanted = [columns] if isinstance(columns, str) else columns
    groups: list[_Group] = []
    features: dict[str, Column] = {}
    expected: dict[Any, Any] = {}
    label = ids = None
    for place in _list_files(path):
        with reading(place):
            stamp = _stamp(place)
            with pa.parquet.ParquetFile(place) as parquet:
                footer, schema = parquet.metadata, parquet.schema_arrow
            if footer.num_rows == 0:
                continue  # a file without rows may have other columns
            file = _File(place, footer, stamp, _folders(place.relative_to(path).parent))
            found, label, ids = choose(pa, schema, file, wanted, label_column, drop)
            features = features or found
            held: dict[Any, Any] = {**found, label: "labels"}
            expected = expected or held
            for name in filter(None, {**expected, **held}):
                here, there = (kinds.get(name, "nothing") for kinds in (held, expected))
                if here != there:
                    raise FileError(
                        f"column {name!r} holds {here}, but in {groups[0].file.path} it holds "
                        f"{there}: write both in the same way, or name the columns to use"
                    )
        first = 0
        for number in range(footer.num_row_groups):
            n_rows = footer.row_group(number).num_rows
            if n_rows:
                groups.append(_Group(file, number, first, n_rows))
            first += n_rows
    if not groups:
        raise ValueError(f"{path} has no rows: give a file with at least one row")
    return ParquetRows(groups, features, label, ids)


def column_names(path: Path) -> list[str]:
    """Names of the columns of a file, or of the first file of a folder."""
    pa = import_pyarrow()
    first = _list_files(path)[0]
    with reading(first):
        names: list[str] = pa.parquet.read_schema(first).names
    return names


# --- files ----------------------------------------------------------------------------------


def _open(pa: Any, file: _File) -> Any:
    if _stamp(file.path) != file.stamp:
        raise FileError("it has changed since it was opened: open it again")
    return pa.parquet.ParquetFile(file.path, metadata=file.footer, buffer_size=_BUFFER)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _list_files(path: Path) -> list[Path]:
    """Parquet files in a folder, in the order of their paths; a single file as it is."""
    if not path.is_dir():
        return [path]
    inside = (file.relative_to(path) for file in path.rglob("*.parquet"))
    shown = (file for file in inside if not any(part[0] in "_." for part in file.parts))
    files = sorted((path / file for file in shown if (path / file).is_file()), key=Path.as_posix)
    if not files:
        raise ValueError(f"{path} is a folder without .parquet files: give another one, or a file")
    return files


def _folders(inside: Path) -> dict[str, str]:
    """Names and values of ``name=value`` folders."""
    pairs = (part.split("=", 1) for part in inside.parts if "=" in part)
    return {unquote(name): unquote(value) for name, value in pairs}
