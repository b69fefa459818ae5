"""All pairs of rows that are close to each other, exactly and in bounded memory."""

from itertools import pairwise
from typing import Any

import numpy as np

from .._arrays import embedded, ops
from .._arrays.embedded import Embedded
from .._arrays.judged import distance_blocks
from .._arrays.ranking import first_equal, first_equal_rows
from .._arrays.system import run_blocks, single_blas_thread
from .._types import Array

_HEIGHT, _WIDTH = 1024, 4096  # of a tile of distances: it stays in the cache of a core
_HELD = 2**20  # pairs that each thread holds at least before it drops those beyond k

_Part = tuple[Array, Array, Array]  # row numbers of pairs, and their squared distances


def close_pairs(mapped: Any, limit: float, k: int) -> tuple[Array, Array, int]:
    """Pairs of rows at most ``limit`` apart: of each row at most its k nearest, and its copies.

    Parameters
    ----------
    mapped : ndarray or Embedded
        Rows whose Euclidean distance is wanted.
    limit : float
        Largest distance.
    k : int
        Pairs are kept that are among the k nearest of one of their rows. Each row that equals an
        earlier one is also paired with it, so that copies are connected however many there are.

    Returns
    -------
    index : ndarray of shape (n_pairs, 2)
        Row numbers, the smaller one first, in ascending order.
    distance : ndarray of shape (n_pairs,), float64
    n_full : int
        Rows with k kept neighbours, which may have more.
    """
    n = _rows_of(mapped)
    if isinstance(mapped, np.ndarray):
        found = _dense(mapped, limit, k)
    else:
        found = _general(mapped, limit, k)
    codes = found[0] * n + found[1]
    origin = _origins(mapped)
    copies = np.flatnonzero(origin != np.arange(n))
    codes = np.union1d(codes, origin[copies] * n + copies)
    index = np.column_stack(np.divmod(codes, n))
    distance = pair_distances(mapped, index)
    near = distance <= limit
    index, distance = index[near], distance[near]
    n_full = int(np.count_nonzero(np.bincount(index.ravel(), minlength=n) >= k))
    return index, distance, n_full


def _rows_of(mapped: Any) -> int:
    return int((mapped.positive if isinstance(mapped, Embedded) else mapped).shape[0])


def _origins(mapped: Any) -> Array:
    """For each row, the number of the first row that is equal to it."""
    rows = mapped if isinstance(mapped, np.ndarray) else ops.canonical(mapped.positive)
    if isinstance(rows, np.ndarray):
        return first_equal_rows(rows + 0.0)  # −0 becomes 0
    ends = rows.indptr
    return first_equal(
        rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in pairwise(ends)
    )


def pair_distances(mapped: Any, index: Array) -> Array:
    """Distances from differences of rows, which lose no digits where rows are close."""
    found = np.empty(len(index))
    for start in range(0, len(index), 2**16):
        block = slice(start, start + 2**16)
        squares = embedded.sq_distances(mapped, index[block].astype(np.int64))
        found[block] = np.sqrt(np.maximum(squares, 0.0))
    return found


def _dense(rows: Array, limit: float, k: int) -> tuple[Array, Array]:
    """Tiles of the upper triangle of all distances, each by one matrix product."""
    n, d = rows.shape
    # [−2a, ‖a‖², 1]·[b, 1, ‖b‖²] is a squared distance
    right = np.empty((n, d + 2), dtype=rows.dtype)
    np.subtract(rows, rows.mean(axis=0), out=right[:, :d])
    squares = np.einsum("ij,ij->i", right[:, :d], right[:, :d])
    right[:, d], right[:, d + 1] = 1.0, squares
    # rounding must not lose a pair; those beyond the limit are dropped by their exact distance
    slack = 8.0 * np.finfo(rows.dtype).eps * float(squares.max(initial=0.0)) * np.sqrt(d + 2.0)
    reach = rows.dtype.type(min(limit**2 + slack, float(np.finfo(rows.dtype).max)))
    tiles = [(i, j) for i in range(0, n, _HEIGHT) for j in range(i - i % _WIDTH, n, _WIDTH)]
    results: list[_Kept] = []

    def work(start: int, stop: int) -> None:
        kept = _Kept(n, k)
        results.append(kept)
        memory = np.empty(_HEIGHT * _WIDTH, dtype=rows.dtype)
        for i, j in tiles[start:stop]:
            a, b = right[i : i + _HEIGHT].copy(), right[j : j + _WIDTH]
            a[:, :d] *= -2.0
            a[:, [d, d + 1]] = a[:, [d + 1, d]]
            tile = memory[: len(a) * len(b)].reshape(len(a), len(b))
            np.matmul(a, b.T, out=tile)
            kept.add(tile, reach, i, j)

    with single_blas_thread():
        run_blocks(work, len(tiles))
    return _merged(results, n, k)


def _general(mapped: Embedded, limit: float, k: int) -> tuple[Array, Array]:
    """The same for sparse rows, and where some directions count negatively."""
    n = _rows_of(mapped)
    kept = _Kept(n, k)
    for block, tile in distance_blocks(mapped, n, np.arange(n)):
        numbers = np.arange(n)[block]
        own = -tile[np.arange(len(numbers)), numbers]
        tile += own[:, None]
        eps = np.finfo(tile.dtype).eps
        slack = 64.0 * eps * float(np.abs(own).max(initial=0.0) + np.abs(tile).max(initial=0.0))
        for j in range(0, n, _WIDTH):
            kept.add(tile[:, j : j + _WIDTH], limit**2 + slack, int(numbers[0]), j)
    return _merged([kept], n, k)


class _Kept:
    """Pairs found so far; when they are many, those beyond the k nearest are dropped."""

    def __init__(self, n: int, k: int) -> None:
        self.n, self.k = n, k
        self.parts: list[_Part] = []
        self.count = 0

    def add(self, tile: Array, reach: Any, first_row: int, first_column: int) -> None:
        """Keep the pairs of a tile of squared distances that are close enough."""
        height, width = tile.shape
        below = tile <= reach
        if not below.any():
            return
        if np.count_nonzero(below) > 2 * self.k * (height + width):
            below &= _among_nearest(tile, self.k)
        i, j = np.nonzero(below)
        ahead = j + first_column > i + first_row
        i, j = i[ahead], j[ahead]
        self.parts.append((i + first_row, j + first_column, tile[i, j]))
        self.count += len(i)
        if self.count > max(_HELD, 2 * self.n * self.k):
            self.parts = [_nearest(self.parts, self.k)]
            self.count = len(self.parts[0][0])


def _among_nearest(tile: Array, k: int) -> Array:
    """Which entries are among the k smallest of their row or column; the diagonal may be one."""
    chosen = np.zeros(tile.shape, dtype=bool)
    for axis in (0, 1):
        if tile.shape[axis] <= k + 1:
            chosen[:] = True
            continue
        places = np.argpartition(tile, k, axis=axis)
        first = places[: k + 1] if axis == 0 else places[:, : k + 1]
        np.put_along_axis(chosen, first, True, axis=axis)
    return chosen


def _merged(results: list[_Kept], n: int, k: int) -> tuple[Array, Array]:
    parts = [part for kept in results for part in kept.parts]
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    i, j, _ = _nearest(parts, k)
    return i, j


def _nearest(parts: list[_Part], k: int) -> _Part:
    """Pairs that are among the k nearest of one of their rows, by distance and row number."""
    i, j, distance = (np.concatenate(column) for column in zip(*parts, strict=True))
    one, other = np.concatenate([i, j]), np.concatenate([j, i])
    order = np.lexsort((other, np.concatenate([distance, distance]), one))
    starts = np.flatnonzero(np.diff(one[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    pairs = order[place < k] % len(i)
    keep = np.zeros(len(i), dtype=bool)
    keep[pairs] = True
    return i[keep], j[keep], distance[keep]
