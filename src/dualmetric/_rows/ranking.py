r"""Average precision and nearest rows, for rows that are not in memory.

Queries are few and in memory; all other rows are compared with them block by block.

**Average precision.** Let t₁ ≤ … ≤ t_R be the distances of a query to the rows of its class. With
a(t) rows of other classes at a distance of at most t, and r(t) of its own,

.. math:: AP = \frac1R \sum_j \frac{r(t_j)}{r(t_j) + a(t_j)}.

One pass finds the t_j, and so r; a second one counts a(t_j). One number is held for each pair of a
query and a row of its class, in batches of queries.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._arrays import ops
from .._types import Array
from .base import Rows
from .passes import added

MOST_PAIRS = 2**24
"""Pairs of a query and a row of its class that are held at once (128 MB)."""


def nearest(rows: Rows, queries: Any, k: int) -> Array:
    """Numbers of the k rows nearest to each query (n_queries × k), in one pass.

    They are in ascending order of distance; of rows at equal distances, the lower number is first.
    """
    queries = queries.astype(np.float64, copy=False)
    return rows.reduce(partial(_nearest_in, queries=queries, k=k), partial(_nearer, k=k))[1]


def _nearest_in(block: Any, start: int, queries: Any, k: int) -> tuple[Array, ...]:
    """Distances of the nearest rows of each query, ascending, and their numbers."""
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=min(k, block.shape[0]), algorithm="brute")
    distances, numbers = model.fit(block.astype(np.float64, copy=False)).kneighbors(queries)
    return distances, numbers + start


def _nearer(a: tuple[Array, ...], b: tuple[Array, ...], k: int) -> tuple[Array, ...]:
    """The k nearest of both."""
    distances, numbers = (np.concatenate(both, axis=1) for both in zip(a, b, strict=True))
    order = np.lexsort((numbers, distances), axis=1)[:, :k]
    return tuple(np.take_along_axis(both, order, 1) for both in (distances, numbers))


def average_precisions(rows: Rows, codes: Array, queries: Array) -> Array:
    """Average precision of some rows as queries of all the others.

    ``codes`` are the classes of all rows, numbered from 0, and ``queries`` row numbers. NaN for a
    row that is the only one of its class.
    """
    sizes = np.bincount(codes)[codes[queries]] - 1
    result = np.full(len(queries), np.nan)
    places = np.argsort(queries, kind="stable")
    places = places[sizes[places] > 0]
    numbers, where = np.unique(queries[places], return_inverse=True)
    vectors = rows.take(numbers).astype(np.float64, copy=False)
    codes = codes.astype(np.min_scalar_type(codes.max(initial=0)))  # less to send to workers
    batch_of = np.cumsum(sizes[places]) // MOST_PAIRS
    for batch in np.unique(batch_of):
        here = np.flatnonzero(batch_of == batch)
        asked = _Queries(vectors[where[here]], queries[places[here]], codes, not rows.concurrent)
        found = rows.reduce(partial(_relevant_distances, queries=asked), _joined)
        thresholds = [np.sort(distances) for distances in found]
        count = partial(_others_before, queries=asked, thresholds=thresholds)
        counts = rows.reduce(count, added)
        for place, limits, others in zip(places[here], thresholds, counts, strict=True):
            own = np.searchsorted(limits, limits, side="right")
            result[place] = np.mean(own / (own + np.cumsum(others)))
    return result


class _Queries(NamedTuple):
    vectors: Any
    numbers: Array
    codes: Array  # of all rows
    threads: bool  # whether distances are computed on every core

    def distances(self, block: Any, query: int, among: Array) -> Array:
        """Squared distances of a query to some rows of a block.

        They are computed from differences, so that equal rows have equal distances in every block.
        """
        right = np.flatnonzero(among).astype(np.int32)
        left = np.full(len(right), len(among) + query, dtype=np.int32)
        return ops.sq_distances(block, left, right, threads=self.threads)

    def beside(self, block: Any) -> Any:
        """Rows of a block and the queries below them, in float64."""
        return ops.canonical(ops.stacked([ops.to_float64(block), self.vectors]))


def _relevant_distances(block: Any, start: int, queries: _Queries) -> list[Array]:
    """Distances of each query to the other rows of its class in a block."""
    both = queries.beside(block)
    numbers = np.arange(start, start + block.shape[0])
    codes = queries.codes[numbers]
    return [
        queries.distances(both, query, (codes == queries.codes[number]) & (numbers != number))
        for query, number in enumerate(queries.numbers)
    ]


def _others_before(
    block: Any, start: int, queries: _Queries, thresholds: list[Array]
) -> list[Array]:
    """For each query, how many rows of other classes lie between one threshold and the next."""
    both = queries.beside(block)
    codes = queries.codes[start : start + block.shape[0]]
    found = []
    for query, (number, limits) in enumerate(zip(queries.numbers, thresholds, strict=True)):
        distances = queries.distances(both, query, codes != queries.codes[number])
        near = np.sort(distances[distances <= limits[-1]])
        first = np.searchsorted(limits, near)  # three times as fast for sorted distances
        found.append(np.bincount(first, minlength=len(limits)))
    return found


def _joined(a: list[Array], b: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(a, b, strict=True)]
