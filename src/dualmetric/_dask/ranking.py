r"""How well distances agree with labels, where the rows searched are in a Dask collection.

Queries are few and in memory; all other rows are compared with them where they lie.

**Average precision.** Let t₁ ≤ … ≤ t_R be the distances of a query to the rows of its class. With
a(t) rows of other classes as near as t or nearer, and r(t) of its own,

.. math:: AP = \frac1R \sum_j \frac{r(t_j)}{r(t_j) + a(t_j)}.

One pass finds the t_j, and r with them; a second counts a(t_j), block by block. What is held at
once is a number for each pair of a query and a row of its class, in batches of queries.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from .. import products
from .._types import Array, Rows
from ..evaluation import check_rows
from .passes import computed, folded, gather, over_partitions, persisted
from .rows import Partitions

MOST_PAIRS = 2**24
"""Pairs of a query and a row of its class that are held at once (by one task, 128 MB)."""


class Neighbors(NamedTuple):
    """The k nearest rows of each query, in order of distance.

    Attributes
    ----------
    distances : ndarray of shape (n_queries, k)
        Their distances.
    rows : ndarray of shape (n_queries, k)
        Their numbers; of equal distances, the lower is first.
    k : int
        How many are asked for; there may be fewer as yet.
    """

    distances: Array
    rows: Array

    k: int

    def plus(self, other: "Neighbors") -> "Neighbors":
        """The k nearest of both."""
        distances = np.concatenate([self.distances, other.distances], axis=1)
        rows = np.concatenate([self.rows, other.rows], axis=1)
        order = np.lexsort((rows, distances), axis=1)[:, : self.k]
        distances, rows = (np.take_along_axis(both, order, 1) for both in (distances, rows))
        return Neighbors(distances, rows, self.k)


def nearest(X: Partitions, queries: Rows, k: int) -> Array:
    """Numbers of the k rows of X nearest to each query, in one pass."""
    import dask

    shared = dask.delayed(queries, pure=True, traverse=False)
    tasks = over_partitions(X, _nearest_here, lambda _, start, __: (shared, k, start))
    return computed(folded(tasks, Neighbors.plus))[0].rows


def _nearest_here(rows: Rows, queries: Rows, k: int, start: int) -> Neighbors:
    model = NearestNeighbors(n_neighbors=min(k, rows.shape[0]), algorithm="brute")
    distances, numbers = model.fit(check_rows(rows, "X")).kneighbors(queries)
    return Neighbors(distances, numbers + start, k)


def average_precisions(X: Partitions, codes: Array, queries: Array) -> Array:
    """Average precision of some rows as queries of all the others.

    Parameters
    ----------
    X : Partitions
        The rows.
    codes : ndarray of shape (n_rows,)
        Their classes, numbered from 0.
    queries : ndarray of shape (n_queries,)
        Row numbers.

    Returns
    -------
    ndarray of shape (n_queries,)
        NaN for rows that are the only one of their class.
    """
    sizes = np.bincount(codes)[codes[queries]] - 1
    result = np.full(len(queries), np.nan)
    places = np.argsort(queries, kind="stable")
    places = places[sizes[places] > 0]
    rows, where = np.unique(queries[places], return_inverse=True)
    vectors = check_rows(gather(X, rows), "X")
    codes = codes.astype(np.min_scalar_type(codes.max(initial=0)))  # they travel with the tasks
    batch_of = np.cumsum(sizes[places]) // MOST_PAIRS
    for batch in np.unique(batch_of):
        here = np.flatnonzero(batch_of == batch)
        numbers = queries[places[here]]
        result[places[here]] = _batch(X, codes, numbers, vectors[where[here]])
    return result


def _batch(X: Partitions, codes: Array, numbers: Array, vectors: Rows) -> Array:
    import dask

    queries = dask.delayed((vectors, numbers, codes[numbers]), pure=True, traverse=False)

    def of_block(_: int, start: int, stop: int) -> Any:
        return queries, codes[start:stop], start

    found = folded(over_partitions(X, _relevant_distances, of_block), _joined)
    thresholds = persisted(dask.delayed(_sorted)(found))
    counts = over_partitions(X, _others_before, lambda *block: (*of_block(*block), thresholds))
    return computed(dask.delayed(_precisions)(thresholds, folded(counts, _added)))[0]


def _relevant_distances(rows: Rows, queries: Any, codes: Array, start: int) -> list[Array]:
    """Distances of each query to the rows of its class in this block, without itself."""
    vectors, numbers, classes = queries
    both = _stacked(rows, vectors)
    here = np.arange(start, start + len(codes))
    return [
        _distances(both, len(codes) + query, (codes == label) & (here != number))
        for query, (number, label) in enumerate(zip(numbers, classes, strict=True))
    ]


def _others_before(
    rows: Rows, queries: Any, codes: Array, start: int, thresholds: list[Array]
) -> list[Array]:
    """For each query, how many rows of other classes lie between one threshold and the next."""
    vectors, _, classes = queries
    both = _stacked(rows, vectors)
    found = []
    for query, (label, limits) in enumerate(zip(classes, thresholds, strict=True)):
        distances = _distances(both, len(codes) + query, codes != label)
        near = np.sort(distances[distances <= limits[-1]])
        first = np.searchsorted(limits, near)  # three times as fast for what is sorted
        found.append(np.bincount(first, minlength=len(limits)))
    return found


def _precisions(thresholds: list[Array], counts: list[Array]) -> Array:
    result = np.empty(len(thresholds))
    for query, (limits, others) in enumerate(zip(thresholds, counts, strict=True)):
        own = np.searchsorted(limits, limits, side="right")
        result[query] = np.mean(own / (own + np.cumsum(others)))
    return result


def _stacked(rows: Rows, queries: Rows) -> Rows:
    """Rows of a block, checked, and the queries below them, as one array."""
    rows = check_rows(rows, "X")
    if not sp.issparse(rows) and not sp.issparse(queries):
        return np.concatenate([rows, queries])
    return products.canonical(sp.vstack([rows, queries], format="csr"))


def _distances(both: Rows, query: int, among: Array) -> Array:
    """Squared distances, by differences: equal rows are at equal distances in every block."""
    right = np.flatnonzero(among).astype(np.int32)
    left = np.full(len(right), query, dtype=np.int32)
    return products.sq_distances(both, left, right, threads=False)  # Dask has its own


def _joined(a: list[Array], b: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(a, b, strict=True)]


def _added(a: list[Array], b: list[Array]) -> list[Array]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _sorted(found: list[Array]) -> list[Array]:
    return [np.sort(distances) for distances in found]
