"""Ranks of judged documents among all documents, and the documents nearest to each query."""

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._types import Array, Matrix
from . import ops
from .embedded import Embedded, parts_of
from .namespace import blocks_of, check_same_device, is_device_array, like, precision, to_numpy
from .ranking import smallest, squared_distances
from .system import n_threads, run_blocks, single_blas_thread

_SPARSE_COST = 8  # of a multiplication in a product of two sparse matrices, in those of a dense one
_WRITTEN_OUT = 64  # queries at once
_BLOCK_BYTES = 32 * 2**20  # distances held at once on the host, by all threads


def below(documents: Matrix, queries: Matrix) -> Matrix:
    """Documents with the queries below, in the precision of the documents; sparse if either is."""
    check_same_device(documents, queries, "X and queries")
    if ops.is_dense(queries):
        return ops.stacked([documents, like(queries, documents)])
    return ops.stacked([documents, queries.astype(precision(documents))])


def distance_blocks(
    X: Matrix | Embedded, n_documents: int, asked: Array
) -> Iterator[tuple[slice, Matrix]]:
    """‖d‖² − 2q·d for some of the rows ``asked`` at a time and all documents, in their precision.

    This is the squared distance minus a constant for each query, so it ranks the same. Documents
    are the first rows of X.
    """
    parts = []
    for sign, rows in parts_of(X):
        documents, queries = rows[:n_documents], ops.take_rows(rows, asked)
        centre = ops.centre_of(documents)
        documents = ops.minus_centre(documents, centre)
        squares = sign * (ops.row_lengths(documents) ** 2)[None, :]
        parts.append((sign, documents, squares, queries, centre))
    size = 2 * len(parts) * precision(documents).itemsize * n_documents
    for block in blocks_of(documents, len(asked), size):
        total: Any = None
        for sign, documents, squares, queries, centre in parts:
            found = _products(ops.minus_centre(queries[block], centre), documents)
            found *= -2.0 * sign
            found += squares
            total = found if total is None else total + found
        yield block, total


def _products(queries: Matrix, documents: Matrix) -> Matrix:
    """Inner products of all queries with all documents; dense.

    SciPy's product of two sparse matrices takes several times as long for each multiplication as
    one with dense columns. So queries are written out, unless that makes far more multiplications.
    """
    if ops.is_dense(queries) or ops.is_dense(documents):
        return ops.products(queries, documents)
    counts = [np.bincount(part.indices, minlength=part.shape[1]) for part in (queries, documents)]
    if _SPARSE_COST * float(counts[0] @ counts[1]) < queries.shape[0] * documents.nnz:
        return ops.products(queries, documents)
    found = np.empty((queries.shape[0], documents.shape[0]), dtype=documents.dtype)
    for first in range(0, queries.shape[0], _WRITTEN_OUT):
        part = slice(first, first + _WRITTEN_OUT)
        found[part] = ops.threaded_dot(documents, ops.to_dense(queries[part]).T).T
    return found


def by_inner_product(documents: Matrix, queries: Matrix) -> Matrix:
    """Documents with the queries below them, as rows whose distances rank as the products q·d do.

    An additional feature, √(R² − ‖d‖²) for a document and 0 for a query, gives all documents the
    length R: ‖q − d‖² is then a constant for each query minus 2q·d.
    """
    squares = np.float64(to_numpy(ops.row_lengths(documents))) ** 2
    more = like(np.sqrt(squares.max() - squares)[:, None], documents)
    none = like(np.zeros((queries.shape[0], 1)), documents)
    if not (ops.is_dense(documents) and ops.is_dense(queries)):
        more, none = sp.csr_matrix(more), sp.csr_matrix(none)
        pairs = (sp.csr_matrix(documents), more), (sp.csr_matrix(queries), none)
        return sp.vstack([sp.hstack(pair) for pair in pairs], format="csr")
    return ops.stacked([ops.beside(documents, more), ops.beside(like(queries, documents), none)])


def nearest_documents(
    X: Matrix, n_documents: int, asked: Array, counts: Array
) -> Iterator[tuple[slice, Array]]:
    """Numbers of the documents nearest to each of the rows ``asked``, nearest first; on the host.

    Yields blocks of queries. All queries of a block get the same number of documents, the largest
    of their ``counts``.
    """
    for block, values in distance_blocks(X, n_documents, asked):
        k = min(n_documents, int(counts[block].max()))
        if is_device_array(values):
            yield block, to_numpy(smallest(values, k)[1])
        else:
            yield block, np.array([_smallest(row, k) for row in values])


def _smallest(row: Array, k: int) -> Array:
    """Places of the k smallest numbers in ascending order, of equal ones the first."""
    some = row[:: max(1, isqrt(len(row) // k))]
    # no number above this is among the k smallest: ten times as fast as partitioning the whole row
    bound = np.partition(some, k - 1)[k - 1] if len(some) > k else np.inf
    found = np.flatnonzero(row <= bound)
    values = row[found]
    found = found[values <= np.partition(values, k - 1)[k - 1]]
    return found[np.argsort(row[found], kind="stable")[:k]]


def ranks(X: Matrix | Embedded, n_documents: int, index: Array) -> Array:
    """Rank, from 1, of row d among the documents for row q, for each (q, d) of ``index``.

    Documents are the first rows of X; a query that is one of them is not ranked for itself. Those
    at the same distance are ranked in the order of their numbers.
    """
    return ranker(X, n_documents)(index)


def ranker(X: Matrix | Embedded, n_documents: int) -> Callable[[Array], Array]:
    """Prepare X for `ranks` of several indices.

    In float64 on the host, distances and ties are those of `ranking.average_precisions`, and equal
    rows are tied. Elsewhere rounding may tell equal distances apart.
    """
    if isinstance(X, Embedded) or is_device_array(X) or precision(X) != np.float64:
        return lambda index: _rounded_ranks(X, n_documents, index)
    fill, origin = squared_distances(X, n_documents)
    copies = np.flatnonzero(origin[:n_documents] != np.arange(n_documents))

    def find(index: Array) -> Array:
        asked, places = _by_query(index)
        found = np.empty(len(index), dtype=np.int64)
        step = max(1, _BLOCK_BYTES // (8 * n_documents * n_threads()))

        def work(start: int, stop: int) -> None:
            memory = np.empty((min(step, stop - start), n_documents))
            for first in range(start, stop, step):
                block = asked[first : min(first + step, stop)]
                rows = memory[: len(block)]
                fill(block, rows)
                np.maximum(rows, 0.0, out=rows)
                equal, itself = origin[block] < n_documents, block < n_documents
                rows[equal, origin[block[equal]]] = 0.0
                rows[:, copies] = rows[:, origin[copies]]
                rows[itself, block[itself]] = np.inf
                for row, place in zip(rows, places[first : first + len(block)], strict=True):
                    found[place] = _row_ranks(row, index[place, 1])

        with single_blas_thread():
            run_blocks(work, len(asked), smallest=1 + 2**17 // n_documents)
        return found

    return find


def _rounded_ranks(X: Matrix | Embedded, n_documents: int, index: Array) -> Array:
    asked, places = _by_query(index)
    found = np.empty(len(index), dtype=np.int64)
    for block, values in distance_blocks(X, n_documents, asked):
        rows = np.array(to_numpy(values))
        for row, query, place in zip(rows, asked[block], places[block], strict=True):
            if query < n_documents:
                row[query] = np.inf
            found[place] = _row_ranks(row, index[place, 1])
    return found


def product_ranks(documents: Matrix, queries: Matrix, index: Array) -> Array:
    """Rank, from 1, of document d by q·d among all documents, for each (q, d) of ``index``.

    Documents with the same product are ranked in the order of their numbers.
    """
    asked, places = _by_query(index)
    found = np.empty(len(index), dtype=np.int64)
    size = 2 * precision(documents).itemsize * documents.shape[0]
    for block in blocks_of(documents, len(asked), size):
        values = -to_numpy(_products(ops.take_rows(queries, asked[block]), documents))
        for row, place in zip(values, places[block], strict=True):
            found[place] = _row_ranks(row, index[place, 1])
    return found


def _by_query(index: Array) -> tuple[Array, list[Array]]:
    """Queries of an index, ascending, and the lines of each."""
    order = np.argsort(index[:, 0], kind="stable")
    asked, first = np.unique(index[order, 0], return_index=True)
    return asked, np.split(order, first[1:])


def _row_ranks(row: Array, documents: Array) -> Array:
    """Rank of some documents by the distances of all, of equal ones in the order of numbers."""
    values = row[documents]
    if len(documents) < 16:  # then counting is faster than sorting
        closer = [np.count_nonzero(row < value) for value in values]
        before = zip(documents, values, strict=True)
        return np.add(closer, [1 + np.count_nonzero(row[:d] == value) for d, value in before])
    ordered = np.sort(row[row <= values.max()])
    first = np.searchsorted(ordered, values)
    if (np.searchsorted(ordered, values, "right") == first + 1).all():
        return first + 1
    place = np.empty(len(row), dtype=np.int64)
    place[np.argsort(row, kind="stable")] = np.arange(1, len(row) + 1)
    return place[documents]
