"""Rows on disk: memory maps, HDF5, Zarr and Parquet, read one block at a time.

A source is any object with ``shape``, ``dtype`` and row slicing. If it is stored in chunks, it has
an attribute ``chunks``: the numbers of rows and columns of a chunk, as in Zarr and h5py, or the
rows of each chunk, as in Dask. Chunks are read whole, and each only once. The next block is read in
a thread while the last one is used; in several threads if the source is ``thread_safe``.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .._arrays import ops
from .._arrays.system import n_threads, require_memory
from .._types import Array
from .._validation import refuse_mask
from .base import Rows, float_type, is_array, rows_not_finite

_BLOCK_BYTES = 2**26
_READERS = 4  # threads that read and decode; each holds one block


def is_source(X: Any) -> bool:
    """Whether X is to be read in blocks, rather than taken as an array."""
    if isinstance(X, np.memmap):
        return X.ndim == 2
    has_rows = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    return has_rows and not is_array(X) and not hasattr(X, "iloc") and len(X.shape) == 2


class StoredRows(Rows):
    """Rows that are read by slices; ``source.place(row)``, if there is one, says where a row is."""

    def __init__(self, source: Any, name: str = "X") -> None:
        try:
            dtype = np.dtype(source.dtype)
        except TypeError:  # one that NumPy does not know
            dtype = np.dtype(object)
        if dtype.kind not in "fiub":
            raise ValueError(
                f"{name} holds {source.dtype}, which is not a type of numbers: store it as float32 "
                "or float64"
            )
        n, d = (int(length) for length in source.shape)
        if n == 0 or d == 0:
            raise ValueError(f"{name} is empty: it has {n} rows and {d} features")
        self._source, self.name = source, name
        self.names = getattr(source, "feature_names", None)
        self.shape, self.dtype = (n, d), float_type(dtype)
        self._row_bytes = d * dtype.itemsize

    def take(self, numbers: Array | None = None) -> Array:
        """Rows, see `Rows.take`; chunks without any of them are not read."""
        n, d = self.shape
        numbers = np.arange(n) if numbers is None else self._checked_numbers(numbers)
        require_memory(
            len(numbers) * d * self.dtype.itemsize,
            f"reading {len(numbers):,} rows of {d:,} features",
            "Read fewer rows: lower max_rows, or pass a part of the rows or fewer triplets.",
        )
        out = np.empty((len(numbers), d), dtype=self.dtype)
        for start, stop, block in self._read(self._spans(numbers)):
            first, last = np.searchsorted(numbers, (start, stop))
            out[first:last] = block[numbers[first:last] - start]
        self._check_finite(out, numbers)
        return out

    def blocks(self) -> Iterator[tuple[int, Array]]:
        for start, _, block in self._read(self._spans()):
            rows = np.ascontiguousarray(block, dtype=self.dtype)
            self._check_finite(rows, range(start, start + len(rows)))
            yield start, rows

    def map(self, function: Callable[[Any], Any], width: int, dtype: Any = None) -> Array:
        n, dtype = self.shape[0], np.dtype(dtype or self.dtype)
        require_memory(
            n * width * dtype.itemsize,
            f"the transformed {n:,} rows of {width:,} numbers",
            f"Transform parts of {self.name}, write them with the command line (dualmetric "
            "transform), or pass a Dask array, which stays lazy.",
        )
        out = np.empty((n, width), dtype=dtype)
        for start, block in self.blocks():
            out[start : start + len(block)] = ops.to_dense(function(block))
        return out

    def _check_finite(self, rows: Array, numbers: Any) -> None:
        bad = rows_not_finite(rows)
        if not len(bad):
            return
        row = int(numbers[bad[0]])
        place = getattr(self._source, "place", lambda row: f"row {row} of {self.name}")(row)
        raise ValueError(
            f"Input {self.name} contains NaN or infinity, first in {place}: fill the missing "
            "numbers, or drop such rows"
        )

    def _spans(self, numbers: Array | None = None) -> list[tuple[int, int]]:
        """Rows to read at a time: chunks or blocks with given rows; small chunks are joined."""
        n = self.shape[0]
        height = max(1, _BLOCK_BYTES // self._row_bytes)
        chunks = getattr(self._source, "chunks", None)
        lengths = chunks[0] if isinstance(chunks, tuple) and chunks else height
        if np.ndim(lengths):
            edges = np.unique(np.r_[0, np.cumsum(lengths)])
        else:
            edges = np.append(np.arange(0, n, lengths), n)
        starts, stops = edges[:-1], edges[1:]
        if numbers is not None:
            held = np.unique(np.searchsorted(stops, numbers, side="right"))
            starts, stops = starts[held], stops[held]
        # the last chunks before a gap
        ends = np.flatnonzero(np.append(starts[1:] != stops[:-1], True))
        spans = []
        first = 0
        while first < len(starts):
            fitting = np.searchsorted(stops, starts[first] + height, side="right") - 1
            last = max(first, min(fitting, ends[np.searchsorted(ends, first)]))
            spans.append((int(starts[first]), int(stops[last])))
            first = last + 1
        return spans

    def _read(self, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int, Array]]:
        """Stored rows of each span, with its bounds; the next spans are read ahead."""
        source = self._source
        _check_file(source)

        def read(span: tuple[int, int]) -> Array:
            block = source[slice(*span)]
            refuse_mask(block, self.name)
            block = np.asarray(block)
            if block.shape != (span[1] - span[0], self.shape[1]):
                raise ValueError(
                    f"rows {span[0]} to {span[1]} of {self.name} could not be read: reading "
                    f"returned a block of shape {block.shape}. The file is shorter or narrower "
                    "than its shape says: write it again"
                )
            return block

        largest = self._row_bytes * max((stop - start for start, stop in spans), default=0)
        if largest > _BLOCK_BYTES:
            require_memory(
                2 * largest,
                f"reading the largest chunk of {self.name}, of {largest // self._row_bytes:,} "
                "rows,",
                f"Store {self.name} in smaller chunks: 64 MB is a good size.",
            )
        if isinstance(source, np.ndarray) or len(spans) < 2 or n_threads() == 1:
            yield from ((*span, read(span)) for span in spans)  # slices of a memory map are views
            return
        readers = 1
        if getattr(source, "thread_safe", False):
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


def _check_file(source: Any) -> None:
    """Refuse a memory map whose file is too short: reading it would crash the process."""
    whole = source
    while isinstance(getattr(whole, "base", None), np.memmap):
        whole = whole.base
    if isinstance(whole, np.memmap) and whole.filename is not None:
        needed, found = whole.offset + whole.nbytes, os.path.getsize(whole.filename)
        if found < needed:
            raise ValueError(
                f"{whole.filename} ends early: it has {found:,} bytes, but the memory map takes "
                f"{needed:,}. Write the file again"
            )
