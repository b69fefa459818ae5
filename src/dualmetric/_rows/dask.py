"""Rows in Dask arrays and Dask data frames.

Work on rows runs where the partitions are, on whatever scheduler Dask has: threads, processes or
the cluster of a ``distributed.Client``. Each partition is one block, and errors name it. Dask is
imported only here.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from .._arrays import ops
from .._arrays.system import require_memory
from .._types import Array
from .._validation import refuse_mask
from .base import Rows, as_floats, float_type, is_dask, no_results, refuse_name, rows_not_finite
from .frames import feature_columns, refuse_columns, stack_vectors, string_names, takes_vectors

T = TypeVar("T")

_FAN_IN = 8  # results that one task of a reduction combines


class DaskRows(Rows):
    """Rows of a Dask array, chunked along its first axis only.

    ``count()`` finds the lengths of the chunks where they are not known.
    """

    concurrent = True

    def __init__(
        self, array: Any, names: tuple[str, ...] | None, name: str, count: Callable[[], Any] | None
    ) -> None:
        if array.dtype.kind not in "fiubO":
            raise ValueError(
                f"{name} holds {array.dtype}, which is not a type of numbers: convert it to "
                "float32 or float64"
            )
        self._array, self.names, self.name, self._count = array, names, name, count
        self.dtype = float_type(array.dtype)

    @property
    def n_features(self) -> int:
        return self._array.shape[1]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Numbers of rows and of features; the rows of a data frame are counted."""
        return self._counted().shape

    def _counted(self) -> Any:
        """Array whose chunks are of known length; the rows of a data frame are counted once."""
        array = self._array
        if math.isnan(array.shape[0]):
            if self._count is None:
                raise ValueError(
                    f"Dask does not know the number of rows of {self.name}: {self.name} = "
                    f"{self.name}.compute_chunk_sizes() counts them in one pass"
                )
            chunks = (tuple(self._count()), array.chunks[1])
            array = da.Array(array.dask, array.name, chunks, meta=meta_from_array(array))
            self._array = array
        if array.shape[0] == 0:
            raise ValueError(f"{self.name} has no rows")
        return array

    def take(self, numbers: Array | None = None) -> Any:
        """Rows, see `Rows.take`; partitions without any of them are not read."""
        n, d = self.shape
        numbers = np.arange(n) if numbers is None else self._checked_numbers(numbers)
        if isinstance(meta_from_array(self._array), np.ndarray):
            require_memory(
                len(numbers) * d * self.dtype.itemsize,
                f"bringing {len(numbers):,} rows of {d:,} features into memory",
                f"Take fewer rows; if blocks are sparse, tell Dask: "
                f"{self.name}.map_blocks(scipy.sparse.csr_matrix).",
            )
        stops = np.cumsum(self._array.chunks[0])
        held = np.unique(np.searchsorted(stops, numbers, side="right"))
        if not len(held):
            return np.empty((0, d), dtype=self.dtype)
        results = self._results(partial(_taken, numbers=numbers)).blocks[held.tolist()]
        return ops.canonical(ops.stacked(list(computed(results, held).ravel())))

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Partitions that have rows, one after another."""
        results = self._results(lambda rows, start: (start, rows))
        for number in np.flatnonzero(self._array.chunks[0]).tolist():
            yield computed(results.blocks[number], np.array([number]))[0, 0]

    def reduce(self, function: Callable[[Any, int], T], combine: Callable[[T, T], T]) -> T:
        """Combine results over all partitions by a tree, see `Rows.reduce`."""
        fold = partial(_folded, function=combine)
        total = da.reduction(
            self._results(function),
            chunk=lambda found, axis, keepdims: found,
            combine=fold,
            aggregate=fold,
            axis=0,
            keepdims=True,
            split_every=_FAN_IN,
            dtype=object,
            meta=np.empty((0, 0), object),
        )
        held = np.flatnonzero(self._array.chunks[0])
        return computed(total, held if len(held) == 1 else None)[0, 0]

    def map(self, function: Callable[[Any], Any], width: int, dtype: Any = None) -> Any:
        """Return a Dask array with the same chunks of rows, see `Rows.map`; nothing is read."""
        array, dtype = self._array, np.dtype(dtype or self.dtype)
        meta = no_results(function, meta_from_array(array), array.shape[1], width, dtype)
        work = partial(_mapped, work=function)
        return self._each_partition(work, (array.chunks[0], (width,)), meta)

    def _results(self, work: Callable[[Any, int], Any]) -> Any:
        """Dask array of objects: ``work(rows, start)`` of each partition; None if it is empty."""
        chunks = ((1,) * self._counted().numblocks[0], (1,))
        return self._each_partition(partial(_boxed, work=work), chunks, np.empty((0, 0), object))

    def _each_partition(self, work: Any, chunks: Any, meta: Any) -> Any:
        return self._array.map_blocks(
            _on_partition,
            dask.delayed(work, pure=True, traverse=False),
            read_as=self.dtype,
            name_of_rows=self.name,
            chunks=chunks,
            meta=meta,
            dtype=meta.dtype,
        )


# --- tasks: each takes one partition --------------------------------------------------------


def _on_partition(
    block: Any, work: Any, read_as: Any, name_of_rows: str, block_info: Any = None
) -> Any:
    """Result of ``work(rows, block_info)`` for checked rows; errors name the partition."""
    info, name = block_info[0], name_of_rows
    number = info["chunk-location"][0]
    where, hint = f"partition {number} of {name}", f"look at {name}.partitions[{number}]"
    refuse_mask(block, where)
    start, stop = info["array-location"][0]
    found, expected = np.shape(block), (stop - start, info["shape"][1])
    # a number of rows that is not known is NaN
    if len(found) != 2 or any(a != b for a, b in zip(found, expected, strict=True) if b == b):
        raise ValueError(
            f"{where} has shape {found}, but its chunks say {expected}: {hint}; "
            f"{name}.compute_chunk_sizes() corrects the chunks"
        )
    try:
        rows = as_floats(block, read_as, name)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} holds something other than numbers ({error}): {hint}") from None
    if len(bad := rows_not_finite(rows)):
        shown = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise ValueError(
            f"{name} contains NaN, infinity or nulls in rows {shown} of partition {number}: "
            f"{hint}, and fill the missing numbers or drop those rows"
        )
    try:
        return work(rows, block_info)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _boxed(rows: Any, info: Any, work: Callable[[Any, int], Any]) -> Array:
    return _box(work(rows, info[0]["array-location"][0][0]) if rows.shape[0] else None)


def _mapped(rows: Any, info: Any, work: Callable[[Any], Any]) -> Any:
    width, dtype = info[None]["chunk-shape"][1], info[None]["dtype"]
    if rows.shape[0] == 0:  # which the function may refuse
        return no_results(work, rows, rows.shape[1], width, dtype)
    return work(rows).astype(dtype, copy=False)


def _box(value: Any) -> Array:
    box = np.empty((1, 1), object)
    box[0, 0] = value
    return box


def _taken(rows: Any, start: int, numbers: Array) -> Any:
    first, last = np.searchsorted(numbers, (start, start + rows.shape[0]))
    return rows[numbers[first:last] - start]


def _folded(found: Array, axis: Any, keepdims: bool, function: Callable[[Any, Any], Any]) -> Array:
    parts = [part for part in found.ravel() if part is not None]  # None is an empty partition
    return _box(reduce(function, parts) if parts else None)


# --- computing ------------------------------------------------------------------------------


def computed(task: Any, held: Array | None = None) -> Any:
    """Compute Dask collections on the current scheduler, and explain its failures.

    ``held`` gives the numbers of the partitions that the blocks belong to, if these are not all.
    """
    try:
        with warnings.catch_warnings():
            # labels and the chosen rows are sent with the tasks, and nothing can be done about it
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return dask.compute(task)[0]
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "KilledWorker" in kinds:
            raise RuntimeError(
                "several Dask workers died while computing "
                f"{_named(error, getattr(task, 'name', None), held)}, probably because they ran "
                "out of memory. Give them more memory, or make partitions smaller, for example "
                "X = X.rechunk({0: 10_000}); nothing was changed"
            ) from error
        if kinds & {"CommClosedError", "CancelledError", "ClosedClientError"}:
            raise ConnectionError(
                f"the connection to the Dask scheduler was lost ({error}): start it, connect with "
                "dask.distributed.Client(address), and call this again; nothing was changed"
            ) from error
        raise


def _named(error: Any, name: str | None, held: Array | None) -> str:
    """Name the partition of a KilledWorker, by the key of its task."""
    key = error.task
    if not isinstance(key, tuple):  # Dask joins all tasks of a single partition to one
        return f"partition {held[0]}" if held is not None and len(held) == 1 else f"task {key!r}"
    number = key[1] if held is None or not key[0].endswith(str(name)) else held[key[1]]
    return f"partition {number} ({key[0]})"


# --- opening --------------------------------------------------------------------------------


def open_dask(
    X: Any, y: Any, names: Sequence[str] | None, width: int | None, name: str
) -> tuple[DaskRows, Any]:
    """Rows and labels of a Dask collection (see `open_rows`)."""
    if type(X).__module__.startswith("dask.dataframe") and X.ndim == 2:
        return _open_frame(X, y, names, width, name)
    if not isinstance(X, da.Array):
        raise ValueError(
            f"{name} is a Dask {type(X).__name__}, which has no rows of features: pass a Dask "
            "array or a Dask DataFrame"
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: {name} is {X.shape}")
    if math.isnan(X.shape[1]):
        raise ValueError(
            f"Dask does not know the number of features of {name}: {name} = "
            f"{name}.compute_chunk_sizes() finds it"
        )
    if X.shape[1] == 0:
        raise ValueError(f"{name} has no features: its shape is {X.shape}")
    refuse_name(y, name)
    if is_dask(y):
        n, length = X.shape[0], getattr(y, "shape", (math.nan,))[0]
        if isinstance(length, int) and not math.isnan(n) and length != n:  # before reading
            raise ValueError(f"y has {length} labels for {n} rows; give one label for each row")
        y = computed(y)
    return DaskRows(X if X.numblocks[1] == 1 else X.rechunk({1: -1}), None, name, None), y


def _open_frame(
    X: Any, y: Any, names: Sequence[str] | None, width: int | None, name: str
) -> tuple[DaskRows, Any]:
    import pandas as pd

    label = y if isinstance(y, str) else None
    if is_dask(y) and getattr(y, "name", None) in list(X.columns):
        label = y.name
    columns = feature_columns(X.columns, label, names, name)
    kinds = {column: X.dtypes[column] for column in columns}
    vectors = [column for column, kind in kinds.items() if _may_hold_vectors(kind)]
    has_vectors = takes_vectors(vectors, columns, width)
    if not has_vectors:
        is_number = pd.api.types.is_numeric_dtype
        wrong = [column for column, kind in kinds.items() if not is_number(kind)]
        refuse_columns(columns, wrong, name)
    lengths = None
    if isinstance(y, str):
        parts = computed(_partitions(X, [y]))
        lengths = [len(part) for part in parts]
        y = pd.concat([part[y] for part in parts], ignore_index=True)
    elif is_dask(y):
        y = computed(y)
    if has_vectors:
        columns = vectors
        length, dtype = _vector_type(X, vectors, name)
        read = partial(_vectors, width=length, dtype=dtype, name_of_rows=name)
    else:
        found = {getattr(kind, "numpy_dtype", kind) for kind in kinds.values()}
        length = len(columns)
        dtype = np.dtype(np.float32 if found == {np.dtype(np.float32)} else np.float64)
        read = partial(_numbers, dtype=dtype)
    parts = _partitions(X, columns)
    blocks = [da.from_delayed(part, (math.nan, length), dtype=dtype) for part in parts]
    array = da.concatenate(blocks, allow_unknown_chunksizes=True)  # of frames, until they are read
    array = array.map_blocks(read, meta=np.empty((0, 0), dtype), dtype=dtype)
    (array,) = dask.optimize(array)  # once: its graph has one layer per partition

    def count() -> list[int]:  # without reading a column
        return lengths or computed([dask.delayed(len)(part) for part in _partitions(X, [])])

    return DaskRows(array, None if has_vectors else string_names(columns), name, count), y


def _may_hold_vectors(dtype: Any) -> bool:
    """Whether a column may hold a vector in each row: Python objects, or lists of Arrow."""
    return dtype == np.dtype(object) or any(kind in str(dtype) for kind in ("list<", "list["))


def _partitions(X: Any, columns: list[Any]) -> list[Any]:
    """Partitions of some columns, delayed; no other column is read.

    They are not optimised further: Dask could otherwise join partitions of which few columns are
    read, so that the partitions of labels and features would differ.
    """
    return X[columns].simplify().to_delayed(optimize_graph=False)


def _numbers(part: Any, dtype: Any) -> Any:
    """Columns of one partition as an array, where missing values are NaN."""
    try:
        return part.to_numpy(dtype=dtype, na_value=np.nan)
    except (TypeError, ValueError):
        return part.to_numpy()  # refused when it is checked


def _vectors(part: Any, width: int, dtype: Any, name_of_rows: str, block_info: Any = None) -> Array:
    """A column of vectors of one partition as an array."""
    where = f"partition {block_info[0]['chunk-location'][0]} of {name_of_rows}"
    vectors = part.iloc[:, 0].to_numpy(dtype=object, na_value=None)
    return stack_vectors(vectors, where, width, dtype, f"drop such rows, {name_of_rows}.dropna()")


def _vector_type(X: Any, columns: list[Any], name: str) -> tuple[int, np.dtype[Any]]:
    """Length of the first vector, and the precision to read all in."""
    for part in _partitions(X, columns):
        found = computed(dask.delayed(_first_vector)(part, list(X.columns), name))
        if found is not None:
            return found
    raise ValueError(f"{name} has no rows")


def _first_vector(part: Any, columns: list[Any], name: str) -> Any:
    """Length and precision of the first vector of a partition; None if it has none."""
    column = part.iloc[:, 0]
    known = column.dropna()
    if not len(known):
        return None
    first = known.iloc[0]
    if np.ndim(first) != 1:
        refuse_columns(columns, list(part.columns), name)
    lists = getattr(column.dtype, "pyarrow_dtype", None)
    kind = getattr(first, "dtype", None) if lists is None else lists.value_type.to_pandas_dtype()
    return np.size(first), float_type(kind)
