"""A learned metric beside the plain distances, query by query, on the same rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._arrays import embedded, ops
from ._arrays.namespace import to_numpy
from ._arrays.ranking import check_float64, rank_queries
from ._types import Array, Matrix
from ._validation import check_labels, joined_labels
from .labelled import most_votes
from .metric import Metric

N_NEIGHBORS = 10
"""Number of nearest rows in `Scores.neighbors` and for `Scores.hits`."""

N_VOTES = 5
"""Nearest rows that vote on the class of a query."""

PRECISION_AT = (1, 5, 10, 20, 50, 100)
"""Numbers of nearest rows for which `Scores.precision_at` gives the precision."""

RECALLS = np.linspace(0.0, 1.0, 21)
"""Shares of the relevant rows at which `Scores.curve` gives the precision."""

_BLOCK_BYTES = 16 * 2**20
"""Bytes of distances held at once, by all threads; ranking takes about three times as much more."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one distance, with one entry per query row.

    Attributes
    ----------
    average_precision : ndarray of shape (n_rows,), float64
        Average precision of ranking all other rows; NaN if the row is the only one of its class.
    knn_correct : ndarray of shape (n_rows,), bool
        Whether the vote of the 5 nearest training rows (of the nearest other rows, where there are
        no training rows) gives the row's class. If classes have the same number of votes, the first
        in sorted order wins.
    hits : ndarray of shape (n_rows,), bool
        Whether one of the 10 nearest other rows has the row's class.
    neighbors : ndarray of shape (n_rows, 10), int64
        These nearest rows, the nearest first; of equal distances, the lower number first. There are
        fewer columns if there are fewer than 10 other rows.
    predicted : ndarray of shape (n_rows,)
        The class that the nearest rows vote for.
    precision_at : ndarray of shape (n_rows, n_ks), float64
        Share of the k nearest other rows that have the row's class, for each k of `PRECISION_AT`
        up to the number of other rows; NaN where the row is the only one of its class. Of rows at
        equal distances, the lower number comes first.
    curve : ndarray of shape (21,), float64
        Precision at the recalls 0, 0.05, …, 1: for each query the largest precision at this or a
        larger recall, averaged over the queries.
    """

    average_precision: Array
    knn_correct: Array
    hits: Array
    neighbors: Array
    predicted: Array
    precision_at: Array
    curve: Array

    @property
    def map(self) -> float:
        """Mean average precision, without rows that are the only one of their class."""
        return float(np.nanmean(self.average_precision))

    @property
    def knn(self) -> float:
        """Share of all rows that 5 neighbours classify correctly."""
        return float(np.mean(self.knn_correct))

    @property
    def hit_rate(self) -> float:
        """Share of the queries with a row of their class among the 10 nearest."""
        return float(np.mean(self.hits[~np.isnan(self.average_precision)]))


def compare(
    metric: Metric, X: Any, y: Any, X_train: Any = None, y_train: Any = None
) -> dict[str, Scores]:
    """Score the plain Euclidean distance, the cosine and a learned metric on the same rows.

    The plain distances act on the rows that the metric's L acts on: after tf-idf weighting, where
    the metric has one.

    Parameters
    ----------
    metric : Metric
        The learned metric.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Rows, each of which queries all others; preferably rows that the metric was not learned
        from.
    y : array-like of shape (n_rows,)
        Their classes: numbers or strings.
    X_train, y_train : optional
        Rows and classes that vote in k-NN classification. Without them, the other rows of X vote.

    Returns
    -------
    dict of str to Scores
        With the keys "euclidean", "cosine" and "learned", in this order.

    Notes
    -----
    Distances and ties are those of `evaluation.average_precisions`. Memory beside the rows is
    bounded: distances are computed in blocks of queries, which serve every score.
    """
    if (X_train is None) != (y_train is None):
        raise ValueError("X_train and y_train go together: give both or neither")
    learned = metric.transform(X)
    n_queries = learned.shape[0]
    labels = check_labels(y, n_queries, "y")
    parts = [X]
    if X_train is not None:
        voters = metric.transform(X_train)
        voting = check_labels(y_train, voters.shape[0], "y_train")
        labels = joined_labels(labels, voting, "y and y_train")
        learned = ops.stacked([learned, voters])
        parts.append(X_train)
    classes, codes = np.unique(labels, return_inverse=True)
    codes = codes.astype(np.int64)
    counts = np.bincount(codes[:n_queries])
    if counts.max() < 2:
        raise ValueError(
            f"no class in y has two rows ({n_queries} rows, {len(counts)} classes), so there is "
            "nothing to find: give labels that rows share"
        )
    plain = ops.stacked([plain_rows(metric, part) for part in parts])
    euclidean = cosine = _score(plain, codes, n_queries, classes)
    lengths = ops.row_lengths(plain)
    # tf-idf rows have length one, up to rounding, and then both distances rank alike
    if (np.abs(lengths[lengths > 0] - 1.0) > 1e-6).any():
        cosine = _score(ops.unit_rows(plain), codes, n_queries, classes)
    return {
        "euclidean": euclidean,
        "cosine": cosine,
        "learned": _score(learned, codes, n_queries, classes),
    }


def plain_rows(metric: Metric, X: Any) -> Matrix:
    """Rows as the metric's L takes them: float64, after tf-idf weighting where it has one."""
    return metric.first.weighted(ops.to_float64(to_numpy(metric.open_rows(X).take())))


def mapped_rows(metric: Metric, parts: list[Any]) -> dict[str, Any]:
    """Rows of all parts, one below the other, as each of the three distances compares them."""
    plain = ops.stacked([plain_rows(metric, part) for part in parts])
    learned: Any = embedded.stacked([metric.embedding(part) for part in parts])
    if learned.negative is None:
        learned = check_float64(learned.positive)
    return {"euclidean": plain, "cosine": ops.unit_rows(plain), "learned": learned}


def _score(rows: Matrix, codes: Array, n_queries: int, classes: Array) -> Scores:
    """Scores of the first rows as queries; those after them, if any, only vote."""
    from ._arrays import kernels  # here, since importing Numba takes long

    total = len(codes)
    has_mate = np.bincount(codes[:n_queries], minlength=codes.max() + 1)[codes[:n_queries]] > 1
    ks = np.array([k for k in PRECISION_AT if k < n_queries])
    n_nearest = min(max(N_NEIGHBORS, ks[-1]), n_queries - 1)
    precision = np.full(n_queries, np.nan)
    predicted = np.empty(n_queries, dtype=np.int64)
    neighbors = np.empty((n_queries, min(N_NEIGHBORS, n_nearest)), dtype=np.int64)
    precision_at = np.full((n_queries, len(ks)), np.nan)
    curves = np.full((n_queries, len(RECALLS)), np.nan)

    def rank(block: Array, keys: Array) -> None:
        ranked = np.sort(keys[:, :n_queries], axis=1)
        nearest = _nearest(keys[:, :n_queries], ranked[:, n_nearest - 1], n_nearest)
        neighbors[block] = nearest[:, : neighbors.shape[1]]
        voters = neighbors[block, :N_VOTES]
        if total > n_queries:
            voting = keys[:, n_queries:]
            k = min(N_VOTES, voting.shape[1])
            voters = _nearest(voting, np.partition(voting, k - 1)[:, k - 1], k) + n_queries
        predicted[block] = most_votes(codes[voters])
        queries = has_mate[block]
        right = np.cumsum(codes[nearest] == codes[block, None], axis=1)
        precision_at[block[queries]] = right[queries][:, ks - 1] / ks
        ranked = ranked[queries]
        precision[block[queries]] = kernels.ranked_precisions(ranked.view(np.int64))
        curves[block[queries]] = _interpolated_precisions(ranked)

    rows = ops.canonical(ops.to_float64(to_numpy(rows)))
    rank_queries(rows, codes, np.arange(n_queries), rank, _BLOCK_BYTES)
    asked = codes[:n_queries]
    return Scores(
        average_precision=precision,
        knn_correct=predicted == asked,
        hits=(codes[neighbors] == asked[:, None]).any(axis=1),
        neighbors=neighbors,
        predicted=classes[predicted],
        precision_at=precision_at,
        curve=np.nanmean(curves, axis=0),
    )


def _nearest(keys: Array, kth: Array, k: int) -> Array:
    """Columns of the k smallest distances of each row, of equal ones the first column first.

    ``keys`` are `kernels.ranking_keys`, whose last bit is not part of the distance, and ``kth`` is
    the k-th smallest of each row.
    """
    rows, columns = np.nonzero(keys <= (kth | np.uint64(1))[:, None])
    order = np.lexsort((keys[rows, columns] >> np.uint64(1), rows))
    first = np.searchsorted(rows, np.arange(len(keys)))
    return columns[order[first[:, None] + np.arange(k)]]


def _interpolated_precisions(ranked: Array) -> Array:
    """Largest precision at each of RECALLS or above, for rows of sorted ranking keys.

    Rows of the query's class come last among equal distances, so that precision rises to the last
    of them: the largest to the right is the one that counts the whole tie.
    """
    relevant = (ranked & np.uint64(1)).astype(bool)
    result = np.empty((len(ranked), len(RECALLS)))
    steps = np.arange(len(RECALLS))
    for row, found in enumerate(relevant):
        ranks = np.flatnonzero(found) + 1
        precision = np.arange(1, len(ranks) + 1) / ranks
        best = np.maximum.accumulate(precision[::-1])[::-1]
        needed = -(-len(ranks) * steps // (len(RECALLS) - 1))  # rounded up, in whole numbers
        result[row] = best[np.maximum(needed, 1) - 1]
    return result
