"""Rows that do not fit in memory: read a block at a time, or only those that are needed.

A source is a NumPy memory map, or any object with ``shape``, ``dtype`` and row slicing, such as
HDF5 and Zarr arrays and `rowfiles.ParquetRows`. Nothing here holds more than a few blocks of it at
once. Dask collections are sources, too: their blocks are worked on where Dask has them (see
`dualmetric._dask`).

A source that is stored in chunks says so by ``chunks``: the numbers of rows and columns of a chunk,
as Zarr and h5py have them, or the rows of each chunk, as Dask does. Chunks are read whole, and none
is read twice. The next block is read while the last one is worked on, in a thread; in several where
the source says that it is ``thread_safe``.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._dask import passes
from ._dask.rows import is_dask
from ._dask.rows import opened as _opened_dask
from ._namespace import is_device_array
from ._system import n_threads, require_memory
from ._types import Array, Rows
from .whitening import scatter_sums

LEARNING_ROWS = 50_000
"""Rows that are read to learn from: 100,000 triplets among them are as good as among millions."""

COPIED_SHARE = 0.3
"""Of rows in memory: below it, those that are learned from are copied out."""

_ROWS_OF_A_CLASS = 10
_BLOCK_BYTES = 2**26
_READERS = 4  # threads that decode; each holds a block


def is_source(X: Any) -> bool:
    """Whether X is to be read in blocks, rather than taken as an array."""
    if is_dask(X):
        return True
    if isinstance(X, np.memmap):
        return X.ndim == 2
    if isinstance(X, np.ndarray) or hasattr(X, "tocsr") or hasattr(X, "iloc"):
        return False
    if is_device_array(X):
        return False
    has_rows = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    return has_rows and not hasattr(X, "__dataframe__") and len(X.shape) == 2


def opened(X: Any, y: Any = None, names: Any = None) -> tuple[Any, Any]:
    """X and y as they are, but for Dask: X then with a known number of rows, y in memory.

    Where X is a Dask DataFrame, ``y`` may be the name of a column, and ``names`` those of the
    features.
    """
    return _opened_dask(X, y, names) if is_dask(X) else (X, y)


def _row_bytes(X: Any) -> int:
    """Bytes of a row; an error where X does not hold numbers."""
    try:
        dtype = np.dtype(X.dtype)
    except TypeError:
        raise ValueError(f"X holds {X.dtype}, which NumPy does not know: convert it") from None
    if dtype.kind not in "fiub":
        raise ValueError(
            f"X holds {dtype} where numbers belong: store it as float32, or as float64"
        )
    return int(max(1, X.shape[1]) * dtype.itemsize)


def _spans(X: Any, rows: Array | None = None) -> list[tuple[int, int]]:
    """Rows to read at a time: chunks of X, small ones joined to blocks; those with ``rows`` only.

    A source without chunks counts as one whose chunks are blocks.
    """
    n = X.shape[0]
    height = max(1, _BLOCK_BYTES // _row_bytes(X))
    chunks = getattr(X, "chunks", None)
    lengths = chunks[0] if isinstance(chunks, tuple) and chunks else height
    if np.ndim(lengths):
        edges = np.unique(np.r_[0, np.cumsum(lengths)])
    else:
        edges = np.append(np.arange(0, n, lengths), n)
    starts, stops = edges[:-1], edges[1:]
    if rows is not None:
        held = np.unique(np.searchsorted(stops, rows, side="right"))
        starts, stops = starts[held], stops[held]
    ends = np.flatnonzero(np.append(starts[1:] != stops[:-1], True))  # a gap follows these chunks
    spans = []
    first = 0
    while first < len(starts):
        fitting = np.searchsorted(stops, starts[first] + height, side="right") - 1
        last = max(first, min(fitting, ends[np.searchsorted(ends, first)]))
        spans.append((int(starts[first]), int(stops[last])))
        first = last + 1
    return spans


def _check_file(X: Any) -> None:
    """Refuse a memory map whose file is too short: reading it would end the process."""
    whole = X
    while isinstance(getattr(whole, "base", None), np.memmap):
        whole = whole.base
    if isinstance(whole, np.memmap) and whole.filename is not None:
        needed, there = whole.offset + whole.nbytes, os.path.getsize(whole.filename)
        if there < needed:
            raise ValueError(
                f"{whole.filename} ends early: it has {there:,} bytes where the memory map takes "
                f"{needed:,}; write it again"
            )


def _read(X: Any, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int, Array]]:
    """Rows of each span, with its bounds; the next spans are read ahead."""
    _check_file(X)

    def read(span: tuple[int, int]) -> Array:
        return np.asarray(X[slice(*span)])

    largest = _row_bytes(X) * max((stop - start for start, stop in spans), default=0)
    if largest > _BLOCK_BYTES:
        require_memory(
            2 * largest,
            f"reading the largest chunk of X, of {largest // _row_bytes(X):,} rows,",
            "Store X in smaller chunks: 64 MB is a good size.",
        )
    if isinstance(X, np.ndarray) or len(spans) < 2 or n_threads() == 1:
        yield from ((*span, read(span)) for span in spans)  # a memory map is not read, but mapped
        return
    readers = 1
    if getattr(X, "thread_safe", False):
        readers = max(1, min(n_threads(), _READERS, _READERS * _BLOCK_BYTES // largest))
    pool = ThreadPoolExecutor(readers, "dualmetric-reader")
    try:
        waiting = deque(pool.submit(read, span) for span in spans[:readers])
        for number, span in enumerate(spans, start=readers):
            block = waiting.popleft().result()
            if number < len(spans):
                waiting.append(pool.submit(read, spans[number]))
            yield (*span, block)
    finally:
        pool.shutdown(cancel_futures=True)


def blocks(X: Any) -> Iterator[tuple[int, Array]]:
    """Blocks of consecutive rows, each with the number of its first row."""
    if is_dask(X):
        yield from passes.blocks(opened(X)[0])
        return
    d = X.shape[1]
    for start, stop, block in _read(X, _spans(X)):
        if block.shape != (stop - start, d):
            raise ValueError(
                f"rows {start} to {stop} of X could not be read: {block.shape[0]} came. The file "
                "is shorter than its shape says; write it again"
            )
        yield start, block


def column_means(X: Any) -> Array:
    """Mean of all rows, in one pass."""
    if is_dask(X):
        return passes.column_means(opened(X)[0])
    total = np.zeros(X.shape[1])
    for _, block in blocks(X):
        total += block.sum(axis=0, dtype=np.float64)
    if not np.isfinite(total).all():
        raise ValueError("X holds NaN or infinity, or numbers too large to add up")
    mean = total / X.shape[0]
    return mean.astype(X.dtype) if X.dtype == np.float32 else mean


def within_scatter(X: Any, codes: Array, n_classes: int) -> Array:
    """Scatter of all rows about the mean of their class (d × d), in one pass."""
    if is_dask(X):
        return passes.within_scatter(opened(X)[0], codes, n_classes)
    total = origin = None
    for start, block in blocks(X):
        origin = block[0].copy() if origin is None else origin
        part = scatter_sums(block, codes[start : start + len(block)], n_classes, origin)
        total = part if total is None else total.plus(part)
    if total is None or not np.isfinite(total.outer).all():
        raise ValueError("X is empty, or holds NaN, infinity, or numbers too large to multiply")
    return total.within()


def gather(X: Any, rows: Array) -> Rows:
    """Copy the given rows, which ascend, in one pass; chunks without any are not read."""
    if is_dask(X):
        return passes.gather(opened(X)[0], rows)
    n, d = X.shape
    if len(rows) and not 0 <= rows[0] <= rows[-1] < n:
        wrong = rows[0] if rows[0] < 0 else rows[-1]
        raise ValueError(f"X has no row {wrong}: row numbers go from 0 to {n - 1}")
    require_memory(
        len(rows) * _row_bytes(X),
        f"reading {len(rows):,} rows of {d:,} features to learn from",
        "Learn from fewer: fit on a part of the rows, or give triplets that name fewer.",
    )
    out = np.empty((len(rows), d), dtype=X.dtype)
    for start, stop, block in _read(X, _spans(X, rows)):
        first, last = np.searchsorted(rows, (start, stop))
        wanted = rows[first:last] - start
        if wanted[-1] >= len(block):
            raise ValueError(
                f"row {rows[last - 1]} of X could not be read: the file ends at row "
                f"{start + len(block)}, where its shape says {n}; write it again"
            )
        if block.shape[1:] != (d,):  # a single column would be repeated without a word
            raise ValueError(
                f"row {start} of X could not be read: a block of shape {block.shape} came where "
                f"its shape says {d} columns"
            )
        out[first:last] = block[wanted]
    if out.dtype.kind == "f" and not np.isfinite(out).all():
        bad = int(rows[np.flatnonzero(~np.isfinite(out).all(axis=1))[0]])
        place = X.place(bad) if hasattr(X, "place") else f"row {bad} of X"
        raise ValueError(
            f"Input X contains NaN or infinity, first in {place}: fill it, or drop such rows"
        )
    return out


def has_more_than_needed(X: Any) -> bool:
    """Whether only a choice of the rows of X is learned from.

    In memory, that is where a copy of the chosen rows is small beside X; sparse rows are all kept,
    for each names features that others do not.
    """
    in_memory = not (is_source(X) or is_device_array(X))
    n = X.shape[0] * COPIED_SHARE if in_memory else X.shape[0]
    return n > LEARNING_ROWS and not hasattr(X, "tocsr")


def learning_rows(n: int, rng: np.random.Generator) -> Array:
    """Row numbers to learn from, ascending: all, or of many one at random in each of equal parts.

    They depend on n and the seed only, and every stretch of rows has its share of them, however
    the rows are stored or partitioned.
    """
    dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64  # as `Triplets` has them
    return evenly_chosen(n, LEARNING_ROWS, rng).astype(dtype)


def with_rare_classes(rows: Array, labels: Array, rng: np.random.Generator) -> Array:
    """The chosen rows, and more of the classes that have few among them, by the labels of all.

    Each class gets ten rows, or all it has: where classes are rare, or very many, an even choice
    would leave them out, or alone. At most as many rows are added as are chosen of all.
    """
    names, counts = np.unique(labels, return_counts=True)
    found, chosen = np.unique(labels[rows], return_counts=True)
    held = np.zeros(len(names), dtype=np.int64)
    held[np.searchsorted(names, found)] = chosen
    lacking = held < np.minimum(counts, _ROWS_OF_A_CLASS)
    if not lacking.any():
        return rows
    candidates = rng.permutation(np.flatnonzero(np.isin(labels, names[lacking])))
    order = rng.permutation(len(names))[np.searchsorted(names, labels[candidates])]
    by_class = np.argsort(order, kind="stable")
    sizes = np.unique(order, return_counts=True)[1]
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    more = candidates[by_class[place < _ROWS_OF_A_CLASS]][:LEARNING_ROWS]
    return np.union1d(rows, more).astype(rows.dtype)


def evenly_chosen(n: int, most: int, rng: np.random.Generator) -> Array:
    """All of n row numbers, or a random one in each of ``most`` equal parts of them."""
    if n <= most:
        return np.arange(n)
    bounds = np.arange(most + 1) * n // most
    return rng.integers(bounds[:-1], bounds[1:])
