"""Neighbours and rankings of rows: compiled loops on the host, the array API on a device.

Distances are computed as ‖a‖² + ‖b‖² − 2a·b, in blocks of bounded memory.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._types import Array, Matrix
from . import device_ranking, ops
from .namespace import (
    blocks_of,
    indices_like,
    is_device_array,
    library,
    like,
    namespace,
    precision,
    require_memory_beside,
    to_numpy,
)
from .system import n_threads, run_blocks, single_blas_thread

_BLOCK_BYTES = 32 * 2**20  # distances held at once on the host, by all threads
_AT_ONCE = 256  # queries whose neighbours one thread looks for at once


def smallest(distances: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """The k smallest entries of each row, in ascending order, and their columns."""
    xp = namespace(distances)
    if library(distances) == "torch":  # ten times as fast as sorting everything
        found = distances.topk(k, dim=1, largest=False, sorted=True)
        return found.values, found.indices
    nearest = xp.argsort(distances, axis=1, stable=True)[:, :k]
    return xp.take_along_axis(distances, nearest, axis=1), nearest


def neighbors(X: Matrix, queries: Matrix, k: int) -> Array:
    """Numbers of the k rows of X that are nearest to each query; on the host."""
    if not is_device_array(X):
        from sklearn.neighbors import NearestNeighbors

        model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X)
        return model.kneighbors(queries, return_distance=False)
    xp = namespace(X)
    mean = ops.column_means(X)[None, :]
    X = X - mean
    squares = xp.vecdot(X, X)[None, :]
    parts = []
    for block in blocks_of(X, queries.shape[0], 32 * X.shape[0]):
        # the length of a query itself is the same for all rows
        distances = squares - 2.0 * ((queries[block, :] - mean) @ X.T)
        parts.append(to_numpy(smallest(distances, k)[1]))
    return np.concatenate(parts)


def pairwise(A: Matrix, B: Matrix | None = None) -> Matrix:
    """Distances between all rows of A and all rows of B, or among the rows of A."""
    if not is_device_array(A):
        from sklearn.metrics import euclidean_distances

        return euclidean_distances(A, B)
    xp = namespace(A)
    other = A if B is None else B
    require_memory_beside(
        A,
        A.shape[0] * other.shape[0] * precision(A).itemsize,
        f"{A.shape[0]:,} × {other.shape[0]:,} distances",
        "Compare fewer rows at a time.",
    )
    right = ops.to_float64(other)
    mean = ops.column_means(right)[None, :]
    right = right - mean
    squares = xp.vecdot(right, right)[None, :]
    numbers = xp.arange(other.shape[0], device=A.device)
    parts = []
    for block in blocks_of(A, A.shape[0], 40 * other.shape[0]):
        left = ops.to_float64(A[block, :]) - mean
        found = xp.vecdot(left, left)[:, None] + squares - 2.0 * (left @ right.T)
        found = xp.sqrt(xp.maximum(found, xp.zeros_like(found)))
        if B is None:  # rounding must not put a row at a distance from itself
            itself = numbers[block][:, None] == numbers[None, :]
            found = xp.where(itself, xp.zeros_like(found), found)
        parts.append(like(found, A))
    return xp.concat(parts, axis=0)


def class_neighbors(X: Matrix, labels: Array, k: int) -> tuple[Array, Array]:
    """Each row's k nearest rows of its class and of the others; −1 where there are too few."""
    n = X.shape[0]
    same = np.full((n, k), -1, dtype=np.int64)
    other = np.full((n, k), -1, dtype=np.int64)
    for first, distances in ops.sq_distance_blocks(X):
        if is_device_array(distances):
            _fill_neighbors(distances, labels, first, same, other)
            continue
        from . import kernels

        def fill(start: int, stop: int, first: int = first, distances: Array = distances) -> None:
            kernels.class_neighbors(distances, labels, first, start, stop, same, other)

        run_blocks(fill, len(distances), smallest=64)
    return same, other


def _fill_neighbors(distances: Any, labels: Array, first: int, same: Array, other: Array) -> None:
    """What the kernel ``class_neighbors`` does, on a device."""
    xp = namespace(distances)
    rows = slice(first, first + distances.shape[0])
    k = min(same.shape[1], distances.shape[1])
    here = indices_like(labels, distances)
    numbers = xp.arange(distances.shape[1], device=distances.device)
    alike = here[rows][:, None] == here[None, :]
    itself = numbers[rows][:, None] == numbers[None, :]
    far = xp.full_like(distances, xp.inf)
    for allowed, out in ((alike & ~itself, same), (~alike, other)):
        values, columns = smallest(xp.where(allowed, distances, far), k)
        out[rows, :k] = np.where(np.isinf(to_numpy(values)), -1, to_numpy(columns))


def right_shares(
    rows: Matrix, codes: Array, queries: Matrix, wanted: Array, k: int, skip: Array | None = None
) -> Array:
    """Share of each query's k nearest rows that have its class.

    It tells metrics apart with fewer queries than the vote of these rows. Row ``skip[q]`` is left
    out for query q.
    """
    from . import kernels

    rows, queries = to_numpy(rows), to_numpy(queries)
    k = min(k, rows.shape[0] - (skip is not None))
    skip = np.full(len(wanted), -1) if skip is None else skip
    mean = ops.centre_of(rows)  # near zero, numbers keep their digits
    rows, queries = ops.minus_centre(rows, mean), ops.minus_centre(queries, mean)
    norms = ops.row_lengths(rows) ** 2
    fill = _distances_to(rows, queries, norms)
    out = np.empty(queries.shape[0])
    room = _BLOCK_BYTES // (norms.itemsize * len(norms) * n_threads())
    step = max(1, min(_AT_ONCE, room))

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            block = slice(first, min(first + step, stop))
            distances = fill(block)
            kernels.right_neighbors(distances, codes, wanted[block], skip[block], k, out[block])

    with single_blas_thread():
        run_blocks(work, len(out), smallest=1 + 2**17 // rows.shape[0])
    return out


def _distances_to(rows: Matrix, queries: Matrix, norms: Array) -> Callable[[slice], Array]:
    """A function that gives ‖y‖² − 2xᵀy for a block of queries x and all rows y.

    A query's own length is the same for all rows, and is left out.
    """
    back = ops.transposed(rows)
    if ops.is_dense(rows):

        def fill(block: slice) -> Array:
            distances = queries[block] @ back
            distances *= -2
            distances += norms
            return distances

        return fill
    from . import kernels

    columns, zeros = (back.data, back.indices, back.indptr), np.zeros(queries.shape[0], norms.dtype)

    def fill_sparse(block: slice) -> Array:
        # not a sparse product: its result would be nearly full
        out = np.empty((block.stop - block.start, len(norms)), norms.dtype)
        numbers = np.arange(block.start, block.stop)
        asked = queries.data, queries.indices, queries.indptr
        kernels.sq_distances_csr_to_all(*asked, columns, numbers, zeros, norms, out)
        return out

    return fill_sparse


def average_precisions(X: Matrix, labels: Array, counts: Array, queries: Array) -> Matrix:
    """Average precision of each query (see `evaluation.average_precisions`, which checks).

    X is float64, ``labels`` are numbered from 0, and ``counts`` holds the rows of each class.
    """
    if is_device_array(X):
        return device_ranking.average_precisions(X, labels, counts, queries, first_equal_rows)
    from . import kernels

    result = np.full(len(labels), np.nan)

    def rank(block: Array, keys: Array) -> None:
        # NumPy's vectorised sort of plain integers is far faster than anything compiled here
        keys.sort(axis=1)
        result[block] = kernels.ranked_precisions(keys.view(np.int64))

    rank_queries(X, labels, np.unique(queries[counts[labels[queries]] > 1]), rank, _BLOCK_BYTES)
    return result[queries]


def rank_queries(
    X: Matrix,
    labels: Array,
    queries: Array,
    rank: Callable[[Array, Array], None],
    block_bytes: int,
) -> None:
    """Call ``rank(block, keys)`` with blocks of the queries and their `kernels.ranking_keys`.

    All threads together hold about ``block_bytes`` of keys, which ``rank`` may overwrite.
    """
    from . import kernels

    n = len(labels)
    fill, origin = squared_distances(X)
    copies = np.flatnonzero(origin != np.arange(n))
    step = max(1, block_bytes // (8 * n * n_threads()))

    def work(start: int, stop: int) -> None:
        memory = np.empty((min(step, stop - start), n))
        for first in range(start, stop, step):
            block = queries[first : min(first + step, stop)]
            distances = memory[: len(block)]
            fill(block, distances)
            kernels.ranking_keys(distances.view(np.int64), block, labels, origin, copies)
            rank(block, distances.view(np.uint64))

    # Each thread takes whole queries, products included: the threads that BLAS would start
    # itself go on spinning after each product and slow down the sorting.
    with single_blas_thread():
        run_blocks(work, len(queries), smallest=1 + 2**17 // n)


def squared_distances(
    X: Matrix, n_ranked: int | None = None
) -> tuple[Callable[[Array, Array], None], Array]:
    """Prepare distances between rows of X, all scaled by one power of two.

    Returns a function, ``fill(queries, out)``, that writes ‖x_q − x_c‖² for each q of ``queries``
    and each c of the first ``n_ranked`` rows (all, if None); and, for each row, the number of the
    first row that equals it.
    """
    n_ranked = X.shape[0] if n_ranked is None else n_ranked
    return _dense_distances(X, n_ranked) if ops.is_dense(X) else _csr_distances(X, n_ranked)


def _dense_distances(X: Array, n_ranked: int) -> tuple[Callable[[Array, Array], None], Array]:
    n, d = X.shape
    # [−2a, ‖a‖², 1]·[b, 1, ‖b‖²]: the product gives distances in one pass over the block
    right = np.empty((n, d + 2))
    rows = right[:, :d]
    np.ldexp(X, -_exponent(X), out=rows)
    mean = rows.mean(axis=0)
    # einsum, because BLAS would start threads for rows @ mean: see `ops.threaded_dot`
    centre = rows[
        np.argmin(np.einsum("ij,ij->i", rows, rows) - 2.0 * np.einsum("ij,j->i", rows, mean))
    ].copy()
    rows -= centre
    rows += 0.0  # −0 becomes 0, so that equal rows have equal bytes
    right[:, d] = 1.0
    right[:, d + 1] = np.einsum("ij,ij->i", rows, rows)

    def fill(queries: Array, out: Array) -> None:
        left = right[queries]
        left[:, :d] *= -2.0
        left[:, [d, d + 1]] = left[:, [d + 1, d]]
        np.matmul(left, right[:n_ranked].T, out=out)

    return fill, first_equal_rows(rows)


def _csr_distances(X: Any, n_ranked: int) -> tuple[Callable[[Array, Array], None], Array]:
    from . import kernels

    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    X.data = np.ldexp(X.data, -_exponent(X.data))
    by_columns = X[:n_ranked].tocsc()
    columns = by_columns.data, by_columns.indices, by_columns.indptr
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()

    def fill(queries: Array, out: Array) -> None:
        # not a sparse product: its result would be nearly full
        kernels.sq_distances_csr_to_all(
            X.data, X.indices, X.indptr, columns, queries, norms, norms, out
        )

    return fill, first_equal(
        X.indices[start:stop].tobytes() + X.data[start:stop].tobytes()
        for start, stop in itertools.pairwise(X.indptr)
    )


def _exponent(values: Array) -> int:
    """Exponent of the largest magnitude: scaled by it, squares neither overflow nor vanish."""
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    return int(np.frexp(largest)[1])


def first_equal_rows(rows: Array) -> Array:
    """Return for each row of a dense array the number of the first row with the same bits."""
    n, d = rows.shape
    if n == 0 or d == 0:
        return np.zeros(n, dtype=np.int64)
    bits = rows.view(f"u{rows.itemsize}")
    odd = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * 2 + 1
    hashes = np.empty(n, np.uint64)
    for block in blocks_of(rows, n, 32 * d):
        part = bits[block].astype(np.uint64)
        part ^= part >> 32  # the last bits of round numbers are all zero
        hashes[block] = (part * odd).sum(axis=1, dtype=np.uint64)
    ordered = np.sort(hashes)
    if (ordered[1:] != ordered[:-1]).all():
        return np.arange(n)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    origin = first[inverse]
    copies = np.flatnonzero(origin != np.arange(n))
    for block in blocks_of(rows, len(copies), 32 * d):
        if (bits[copies[block]] != bits[origin[copies[block]]]).any():  # different, with one hash
            return first_equal(row.tobytes() for row in rows)
    return origin


def first_equal(rows: Iterable[bytes]) -> Array:
    """Return for each row the number of the first row with the same bytes."""
    seen: dict[bytes, int] = {}
    # digests, since the rows themselves would be another copy of the data
    return np.array(
        [
            seen.setdefault(hashlib.blake2b(row, digest_size=16).digest(), number)
            for number, row in enumerate(rows)
        ],
        dtype=np.int64,
    )


def check_float64(X: Any) -> Any:
    """Rows in float64; on a device, where there is room for them."""
    if is_device_array(X):
        require_memory_beside(
            X,
            3 * X.shape[0] * X.shape[1] * 8,
            f"{X.shape[0]:,} rows in float64",
            "Compare fewer rows, or move them to the host.",
        )
    return ops.to_float64(X)
