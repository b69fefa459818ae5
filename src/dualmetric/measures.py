"""Scores of rankings, computed from the ranks of relevant documents alone.

Every function takes one entry per relevant document: the number of its query, its rank from 1 on,
and its grade. It returns one score per query, in the order of the query numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

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


def reciprocal_rank(query: Array, rank: Array, grade: Array, k: int = 10) -> Array:
    """1/rank of the first relevant document, 0 where it is not among the first k."""
    first = (places(query, rank) == 1) & (rank <= k)
    return np.bincount(query, np.where(first, 1.0 / rank, 0.0))


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
"""Scores by name. All but `map` and `map_at_r` look at the first k."""


def pair_precisions(distance: Array, same: Array) -> Array:
    """For each pair that is the same: share of such pairs among all that are as close or closer.

    Their mean is the average precision, as `sklearn.metrics.average_precision_score` has it.
    """
    ordered, close = np.sort(distance), np.sort(distance[same])
    return np.searchsorted(close, close, "right") / np.searchsorted(ordered, close, "right")


def pair_values(distance: Array, same: Array) -> Array:
    """One value per same pair. Their mean is the average precision, and their spread its variation.

    The precisions of `pair_precisions` depend on each other and on the different pairs, so their
    spread is too small for an interval. These values come from the derivatives of the average
    precision by the weights of the pairs (infinitesimal jackknife). With T_i same pairs
    among N_i pairs up to the distance of pair i, and S same pairs in all, S·∂AP/∂w_j is
    P_j − AP + Σ_i (N_i − T_i)/N_i² for a same pair, and −Σ_i T_i/N_i² for a different one; the sums
    are over same pairs i that are as far as j or farther. The different pairs are dealt out at
    random, so that each value has the effect of one same pair and of its share of different ones.
    """
    ordered, close = np.sort(distance), np.sort(distance[same])
    accepted = np.searchsorted(ordered, close, "right").astype(np.float64)
    hits = np.searchsorted(close, close, "right")

    def from_here(terms: Array, at: Array) -> Array:
        sums = np.append(np.cumsum(terms[::-1])[::-1], 0.0)
        return sums[np.searchsorted(close, at, "left")]

    values = (hits / accepted)[np.searchsorted(close, distance[same], "left")]
    values += from_here((accepted - hits) / accepted**2, distance[same])
    others = -from_here(hits / accepted**2, distance[~same])
    dealt = np.random.default_rng(0).permutation(len(others)) % max(len(close), 1)
    return values + np.bincount(dealt, others, len(close))


class Errors(NamedTuple):
    """Pairs that are accepted as the same at each distance, and their weights."""

    thresholds: Array  # ascending
    same: Array  # (n_draws, n_thresholds): weight of pairs that are the same, and as close
    other: Array  # of those that are different


def errors(distance: Array, same: Array, weight: Array) -> Errors:
    """Weights of the pairs up to each distance, for one or several weightings (n_draws, n)."""
    order = np.argsort(distance, kind="stable")
    ordered = distance[order]
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)  # of equal distances
    kept, alike = weight[:, order], same[order]
    near, far = (np.cumsum(kept * part, axis=1)[:, last] for part in (alike, ~alike))
    return Errors(ordered[last], near, far)


def average_precision_of(found: Errors) -> Array:
    """Average precision of pairs for each weighting; NaN where none is the same."""
    accepted = found.same + found.other
    share = np.divide(found.same, accepted, out=np.zeros_like(accepted), where=accepted > 0)
    new = np.diff(found.same, axis=1, prepend=0.0)
    with np.errstate(invalid="ignore"):
        return (new * share).sum(axis=1) / found.same[:, -1]


def true_accepts(found: Errors, far: float) -> Array:
    """Largest share of same pairs accepted with at most a share ``far`` of the different ones.

    NaN where there are none of either.
    """
    with np.errstate(invalid="ignore"):
        allowed = found.other / found.other[:, -1:] <= far
        best = np.max(np.where(allowed, found.same, 0.0), axis=1) / found.same[:, -1]
    return np.where(found.other[:, -1] > 0, best, np.nan)
