"""Scores of rankings, computed from the ranks of relevant documents alone.

Every function takes one entry per relevant document: the number of its query, its rank from 1 on,
and its grade. It returns one score per query, in the order of the query numbers.
"""

from collections.abc import Callable

import numpy as np

from ._types import Array


def places(query: Array, value: Array) -> Array:
    """Place of each entry, from 1 on, among those of its query in ascending order of ``value``."""
    order = np.lexsort((value, query))
    sizes = np.bincount(query)
    found = np.empty(len(query), dtype=np.int64)
    found[order] = 1 + np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def discount(rank: Array) -> Array:
    """1/log₂(1 + rank)."""
    return 1.0 / np.log2(1.0 + rank)


def gain(grade: Array) -> Array:
    """2^grade − 1."""
    return np.exp2(grade) - 1.0


def ideal(query: Array, grade: Array, k: int | None = None) -> Array:
    """The largest discounted cumulative gain of each query."""
    place = places(query, -grade)
    terms = gain(grade) * discount(place)
    return np.bincount(query, terms if k is None else np.where(place <= k, terms, 0.0))


def ndcg(query: Array, rank: Array, grade: Array, k: int = 10) -> Array:
    """Normalised discounted cumulative gain of the first k, with gains 2^grade − 1."""
    found = np.where(rank <= k, gain(grade) * discount(rank), 0.0)
    return np.bincount(query, found) / ideal(query, grade, k)


def average_precision(query: Array, rank: Array, grade: Array, k: int = 0) -> Array:
    """Mean, over relevant documents, of the share of relevant ones up to each."""
    return np.bincount(query, places(query, rank) / rank) / np.bincount(query)


def recall_at_k(query: Array, rank: Array, grade: Array, k: int = 10) -> Array:
    """Share of the relevant documents that are among the first k."""
    return np.bincount(query, rank <= k) / np.bincount(query)


def precision_at_k(query: Array, rank: Array, grade: Array, k: int = 10) -> Array:
    """Share of the first k that are relevant."""
    return np.bincount(query, rank <= k) / k


def hit_rate(query: Array, rank: Array, grade: Array, k: int = 10) -> Array:
    """1 where any of the first k is relevant, else 0."""
    return (np.bincount(query, rank <= k) > 0).astype(np.float64)


def reciprocal_rank(query: Array, rank: Array, grade: Array, k: int = 0) -> Array:
    """1/rank of the first relevant document."""
    return np.bincount(query, np.where(places(query, rank) == 1, 1.0 / rank, 0.0))


def map_at_r(query: Array, rank: Array, grade: Array, k: int = 0) -> Array:
    """Average precision over the first R documents, for a query with R relevant ones."""
    sizes = np.bincount(query)
    found = np.where(rank <= sizes[query], places(query, rank) / rank, 0.0)
    return np.bincount(query, found) / sizes


MEASURES: dict[str, Callable[..., Array]] = {
    "ndcg": ndcg,
    "map": average_precision,
    "recall": recall_at_k,
    "precision": precision_at_k,
    "hit_rate": hit_rate,
    "reciprocal_rank": reciprocal_rank,
    "map_at_r": map_at_r,
}
"""Scores by name. `ndcg`, `recall`, `precision` and `hit_rate` look at the first k."""


def pair_precisions(distance: Array, same: Array) -> Array:
    """For each pair that is the same: share of such pairs among all that are as close or closer.

    Their mean is the average precision, as `sklearn.metrics.average_precision_score` has it.
    """
    ordered, close = np.sort(distance), np.sort(distance[same])
    return np.searchsorted(close, close, "right") / np.searchsorted(ordered, close, "right")
