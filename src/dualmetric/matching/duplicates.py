"""Duplicates: close pairs of rows, and clusters of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .._arrays import embedded, ops
from .._arrays.namespace import to_numpy
from .._types import Array
from .._validation import warn
from ._found import Threshold
from ._search import pair_distances

LINKAGES = ("components", "complete")
_MOST_PAIRS = 20_000  # looked at in each cluster; chosen at random if it has more
_LARGEST = 10_000  # rows of a component that complete linkage can split


@dataclass(frozen=True, eq=False)
class Duplicates:
    """What `Matcher.duplicates` found.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers of pairs that are close enough, the smaller one first.
    distance, probability : ndarray of shape (n_pairs,)
        The distance of each pair, and the probability that it is the same.
    cluster : ndarray of shape (n_rows,)
        The number of each row's cluster, from 0. A row without duplicates is a cluster of its own.
    cluster_probability : ndarray of shape (n_clusters,)
        Mean probability of all pairs of rows in each cluster, including those that are not close;
        NaN for clusters of one row.
    pair_precision : float
        Estimated share of the pairs that are the same: their mean probability. NaN if there are
        no pairs.
    cluster_precision : float
        The same for all pairs of rows that are in one cluster. It is lower if chains of pairs
        join rows that are far apart.
    threshold : Threshold or float
        The threshold that was used.
    n_full : int
        Number of rows in at least ``k`` pairs; they may have more close neighbours.
    """

    pairs: Array
    distance: Array
    probability: Array
    cluster: Array
    cluster_probability: Array
    pair_precision: float
    cluster_precision: float
    threshold: Threshold | float
    n_full: int

    def __str__(self) -> str:
        sizes = np.bincount(self.cluster)
        text = (
            f"{len(self.pairs):,} pairs, {np.count_nonzero(sizes > 1):,} clusters of "
            f"{sizes[sizes > 1].sum():,} rows, the largest of {sizes.max(initial=0):,}"
        )
        if len(self.pairs):
            text += (
                f"; estimated precision: pairs {self.pair_precision:.4g}, pairs within clusters "
                f"{self.cluster_precision:.4g}"
            )
        return text


def clusters_of(pairs: Array, n: int, vectors: Any, limit: float, linkage: str) -> Array:
    """Number of each row's cluster.

    "components" joins all rows that a chain of pairs connects. "complete" splits each of these by
    complete linkage, so that all rows of a cluster are at most ``limit`` apart.
    """
    ones = np.ones(len(pairs), dtype=bool)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    if linkage == "components":
        return label.astype(np.int64)
    from scipy.cluster.hierarchy import fcluster
    from scipy.cluster.hierarchy import linkage as merge

    sizes = np.bincount(label)
    order = np.argsort(label, kind="stable")
    starts = np.cumsum(sizes) - sizes
    new, count = np.empty(n, dtype=np.int64), 0
    for size, start in zip(sizes, starts, strict=True):
        members = order[start : start + size]
        parts = np.zeros(size, dtype=np.int64)
        if size > _LARGEST:
            raise ValueError(
                f"{size:,} rows are connected by close pairs, but complete linkage is limited to "
                f"{_LARGEST:,}: use a stricter threshold, or clusters='components'"
            )
        if size > 2:
            left, right = np.triu_indices(size, 1)
            apart = pair_distances(vectors, np.column_stack([members[left], members[right]]))
            parts = fcluster(merge(apart, "complete"), limit, "distance") - 1
        new[members] = count + parts
        count += int(parts.max()) + 1
    # numbered in the order of their first rows
    _, first, codes = np.unique(new, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def pairs_within(cluster: Array, seed: int = 0) -> tuple[Array, Array, Array]:
    """Pairs of rows in one cluster: row numbers, number of the cluster, and weight.

    If a cluster has more than 20,000 pairs, 20,000 are drawn at random, with a higher weight.
    """
    rng = np.random.default_rng(seed)
    sizes = np.bincount(cluster)
    order = np.argsort(cluster, kind="stable")
    starts = np.cumsum(sizes) - sizes
    index, of, weight = [np.empty((0, 2), np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    for size in np.unique(sizes[sizes > 1]):
        total = size * (size - 1) // 2
        clusters = np.flatnonzero(sizes == size)
        members = order[starts[clusters][:, None] + np.arange(size)]
        if total <= _MOST_PAIRS:
            left, right = np.triu_indices(size, 1)
        else:
            left = rng.integers(size, size=_MOST_PAIRS)
            right = (left + rng.integers(1, size, size=_MOST_PAIRS)) % size
        index.append(np.stack([members[:, left], members[:, right]], axis=2).reshape(-1, 2))
        of.append(np.repeat(clusters, len(left)))
        weight.append(np.full(len(clusters) * len(left), total / len(left)))
    return np.concatenate(index), np.concatenate(of), np.concatenate(weight)


def vectors_of(metric: Any, X: Any) -> Any:
    """Rows between which the Euclidean distance is the metric: dense, or in sparse parts."""
    rows = metric.open_rows(X)
    if rows.in_memory:
        if ops.is_dense(rows.take(np.arange(0))):
            return np.ascontiguousarray(to_numpy(metric.transform(rows)))
        found = metric.embedding(rows)
    else:
        found = embedded.stacked([metric.embedding(block) for _, block in rows.blocks()])
    if ops.is_dense(found.positive) and found.negative is None:
        return np.ascontiguousarray(to_numpy(found.positive))
    return found


def warn_of_other_pairs(threshold: Threshold | float, probability: Array) -> None:
    """Warn if fewer of the pairs found are the same than the threshold guarantees."""
    if not isinstance(threshold, Threshold) or threshold.target != "precision":
        return
    if len(probability) and 1.0 - probability.mean() > 2.0 * (1.0 - threshold.value):
        warn(
            f"the threshold guarantees precision {threshold.value:g} for pairs like the labelled "
            f"ones. The pairs found have a mean probability of only {probability.mean():.3g}, "
            "because matches are rarer among all pairs of rows. Label some of the pairs found, or "
            "fit the matcher with prevalence, the share of matches among all pairs"
        )
