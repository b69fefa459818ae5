"""Rows that do not fit in memory: read a block at a time, or only those that are needed.

A source is a NumPy memory map, or any object with ``shape``, ``dtype`` and row slicing, such as
HDF5 and Zarr arrays. Nothing here holds more than a block of it at once. Dask collections are
sources, too: their blocks are worked on where Dask has them (see `dualmetric._dask`).
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._dask import passes
from ._dask.rows import is_dask
from ._dask.rows import opened as _opened_dask
from ._system import require_memory
from ._types import Array, Rows
from .whitening import scatter_sums

LEARNING_ROWS = 50_000
"""Rows that are read to learn from: 100,000 triplets among them are as good as among millions."""

_BLOCK_BYTES = 2**26


def is_source(X: Any) -> bool:
    """Whether X is to be read in blocks, rather than taken as an array."""
    if is_dask(X):
        return True
    if isinstance(X, np.memmap):
        return X.ndim == 2
    if isinstance(X, np.ndarray) or hasattr(X, "tocsr") or hasattr(X, "iloc"):
        return False
    has_rows = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    return has_rows and not hasattr(X, "__dataframe__") and len(X.shape) == 2


def opened(X: Any, y: Any = None, names: Any = None) -> tuple[Any, Any]:
    """X and y as they are, but for Dask: X then with a known number of rows, y in memory.

    Where X is a Dask DataFrame, ``y`` may be the name of a column, and ``names`` those of the
    features.
    """
    return _opened_dask(X, y, names) if is_dask(X) else (X, y)


def _height(X: Any) -> int:
    return max(1, _BLOCK_BYTES // (max(1, X.shape[1]) * np.dtype(X.dtype).itemsize))


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


def blocks(X: Any) -> Iterator[tuple[int, Array]]:
    """Blocks of consecutive rows, each with the number of its first row."""
    if is_dask(X):
        yield from passes.blocks(opened(X)[0])
        return
    _check_file(X)
    n, d = X.shape
    height = _height(X)
    for start in range(0, n, height):
        stop = min(start + height, n)
        block = np.asarray(X[start:stop])
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
    origin = np.asarray(X[0:1])[0]
    total = None
    for start, block in blocks(X):
        part = scatter_sums(block, codes[start : start + len(block)], n_classes, origin)
        total = part if total is None else total.plus(part)
    if total is None or not np.isfinite(total.outer).all():
        raise ValueError("X is empty, or holds NaN, infinity, or numbers too large to multiply")
    return total.within()


def gather(X: Any, rows: Array) -> Rows:
    """Copy the given rows, which ascend, in one pass; blocks without any are not read."""
    if is_dask(X):
        return passes.gather(opened(X)[0], rows)
    _check_file(X)
    n, d = X.shape
    if len(rows) and not 0 <= rows[0] <= rows[-1] < n:
        wrong = rows[0] if rows[0] < 0 else rows[-1]
        raise ValueError(f"X has no row {wrong}: row numbers go from 0 to {n - 1}")
    require_memory(
        len(rows) * d * np.dtype(X.dtype).itemsize,
        f"reading {len(rows):,} rows of {d:,} features to learn from",
        "Learn from fewer: fit on a part of the rows, or give triplets that name fewer.",
    )
    out = np.empty((len(rows), d), dtype=X.dtype)
    height = _height(X)
    for start in range(0, n, height):
        first, last = np.searchsorted(rows, (start, start + height))
        if first == last:
            continue
        block = np.asarray(X[start : start + height])
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
    return out


def learning_rows(n: int, rng: np.random.Generator) -> Array:
    """Row numbers to learn from, ascending: all, or of many one at random in each of equal parts.

    They depend on n and the seed only, and every stretch of rows has its share of them, however
    the rows are stored or partitioned.
    """
    dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64  # as `Triplets` has them
    return evenly_chosen(n, LEARNING_ROWS, rng).astype(dtype)


def evenly_chosen(n: int, most: int, rng: np.random.Generator) -> Array:
    """All of n row numbers, or a random one in each of ``most`` equal parts of them."""
    if n <= most:
        return np.arange(n)
    bounds = np.arange(most + 1) * n // most
    return rng.integers(bounds[:-1], bounds[1:])
