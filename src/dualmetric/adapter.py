"""QueryAdapter: a learned metric for an index of documents that stay as they are.

A metric with the map T ranks documents by T(q)·T(d) − ½‖T(d)‖². An inner-product index of the
documents themselves can only rank by functions that are linear in d. Two things are not linear:
scaling documents to length one, where the metric does so, and the squares ‖T(d)‖². The adapter
leaves both out, or, if it is given documents, replaces them by their best linear approximation:

    T(d) ≈ Bᵀd + constant,   ½‖T(d)‖² ≈ oᵀd + constant,   q′ = B·T(q) − o.

Constants do not change the ranking. If T is linear, B is exactly its matrix.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _metric_checks as checks
from ._arrays import judged, ops
from ._arrays.namespace import like, precision, to_numpy
from ._arrays.ranking import check_float64
from ._arrays.system import require_memory
from ._types import Array, Matrix
from ._validation import check_whole
from .intervals import bootstrap_interval

RIDGE = 1e-3
"""Penalty of the approximation, relative to the mean variance of the features."""


class Agreement(NamedTuple):
    """How well the ranking of a `QueryAdapter` agrees with that of its metric.

    Attributes
    ----------
    mean : float
        Share of the metric's first k documents that are among the adapter's first k.
    interval : tuple of float
        95 % interval of the mean, by the bootstrap over queries.
    overlap : ndarray of shape (n_queries,)
        The share for each query.
    """

    mean: float
    interval: tuple[float, float]
    overlap: Array

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.mean:.3f} of the first documents agree ({low:.3f} to {high:.3f})"


@dataclass(frozen=True, eq=False)
class QueryAdapter:
    """A transformation of queries that makes an existing index rank by a metric.

    `Metric.query_adapter` makes it. The index must rank by the inner product.

    Parameters
    ----------
    metric : Metric
        The metric to rank by.
    correction : ndarray of shape (rank, n_features), optional
        Added to the transposed matrix of the metric's linear part, so that B is right for documents
        that the metric scales. None if it does not scale them, or without documents.
    offset : ndarray of shape (n_features,), optional
        o, which approximates the squares of the transformed documents; None stands for zero.
    size : float, default=1.0
        Divisor of the linear part: the mean length by which the metric divides documents.
    """

    metric: Any
    correction: Array | None = None
    offset: Array | None = None
    size: float = 1.0

    def __repr__(self) -> str:
        return f"<QueryAdapter over {self.metric.n_features:,} features, for {self.metric}>"

    def transform(self, Q: Any) -> Matrix:
        """Transform queries into vectors to search the index with.

        Parameters
        ----------
        Q : {array-like, sparse matrix, data frame, row source} of shape (n_queries, n_features)
            Queries in the original features.

        Returns
        -------
        array of shape (n_queries, n_features)
            q′ = B·T(q) − o, in the precision of Q. Dask arrays stay lazy.
        """
        return self.metric.open_rows(Q, "Q").map(self._apply, self.metric.n_features)

    def _apply(self, rows: Matrix) -> Matrix:
        mapped = self.metric.apply(rows)
        found = linear_adjoint(self.metric, mapped) / self.size
        if self.correction is not None:
            found = found + mapped @ like(self.correction, mapped)
        return found if self.offset is None else found - like(self.offset, found)

    def agreement(self, Q: Any, D: Any, k: int = 10) -> Agreement:
        """Share of the first k documents of the metric that are also among those of the adapter.

        Parameters
        ----------
        Q, D : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Queries and documents, preferably others than those the adapter was made from.
        k : int, default=10
            How many of the first documents are compared.

        Returns
        -------
        Agreement
            The mean over queries, its interval, and the share of each query.
        """
        check_whole(k, "k")
        documents = to_numpy(self.metric.open_rows(D, "D").take())
        if k > documents.shape[0]:
            raise ValueError(
                f"k is {k}, but D has only {documents.shape[0]} documents: give a smaller k"
            )
        queries = to_numpy(self.metric.open_rows(Q, "Q").take())
        n, X = documents.shape[0], ops.stacked([documents, queries])
        true = _first(check_float64(self.metric.apply(X)), n, k)
        asked = self._apply(check_float64(queries))
        found = _first(judged.by_inner_product(check_float64(documents), asked), n, k)
        overlap = np.array(
            [len(np.intersect1d(*pair)) / k for pair in zip(true, found, strict=True)]
        )
        return Agreement(float(overlap.mean()), bootstrap_interval(overlap), overlap)


def _first(X: Matrix, n_documents: int, k: int) -> Array:
    """Numbers of the k documents nearest to each query; documents are the first rows of X."""
    asked = np.arange(n_documents, X.shape[0])
    blocks = judged.nearest_documents(X, n_documents, asked, np.full(len(asked), k))
    return np.concatenate([found for _, found in blocks])


def make_adapter(metric: Any, documents: Any = None) -> QueryAdapter:
    """Do what `Metric.query_adapter` does."""
    checks.refuse_lift(
        metric.first.lift,
        "no transformation of queries alone makes an index rank by it: use a metric without a lift",
    )
    if metric.first.blocks is not None:
        raise ValueError(
            "this metric weights blocks of features, but an existing index of documents does "
            "not: transform the documents too, with metric.transform"
        )
    if metric.first.idf is not None:
        raise ValueError(
            "this metric weights counts by tf-idf, but an existing index of documents holds "
            "the counts: index rows weighted by dualmetric.tfidf, and use metric.replaced(idf=None)"
        )
    if documents is None:
        return QueryAdapter(metric)
    rows = metric.open_rows(documents, "documents").take()
    X = check_float64(to_numpy(rows))
    if ops.all_rows_equal(X):
        raise ValueError("all documents are the same: pass a random sample of those in the index")
    mapped = ops.to_dense(check_float64(metric.apply(X)))
    scaled = "cosine" in (metric.kind, metric.first.kind)
    targets, size = -0.5 * np.square(mapped).sum(axis=1)[:, None], 1.0
    if scaled:
        linear = _linear(metric, X)
        # the least squares of mapped ≈ linear / size, of what is left after their means
        left, right = (part - part.mean(axis=0) for part in (linear, mapped))
        size = float(np.vdot(left, left) / max(np.vdot(left, right), np.finfo(float).tiny))
        targets = np.column_stack([mapped - linear / size, targets])
    found = _ridge(X, targets).astype(precision(rows))
    correction = np.ascontiguousarray(found[:, :-1].T) if scaled else None
    return QueryAdapter(metric, correction, -found[:, -1], size)


def linear_adjoint(metric: Any, mapped: Matrix) -> Matrix:
    """Map transformed rows back to the original features, by the transposed matrix."""
    before = metric.before
    if metric.factor is not None:
        if metric.outside:
            mapped = metric._apply_outside(mapped)  # symmetric
        else:
            mapped = ops.dot(mapped, like(metric.factor, mapped).T)
    return mapped if before is None else linear_adjoint(before, mapped)


def _linear(metric: Any, X: Matrix) -> Array:
    """Rows mapped by the linear part of the metric: nothing is centred or scaled."""
    rows = X if metric.before is None else _linear(metric.before, X)
    if metric.factor is None:
        return ops.to_dense(rows)
    return metric._apply_outside(rows) if metric.outside else ops.dot(rows, metric.factor)


def _ridge(X: Matrix, targets: Array) -> Array:
    """Coefficients of the ridge regression of the targets on the rows of X, with a constant."""
    n, d = X.shape
    targets = targets - targets.mean(axis=0)
    m = min(n, d)
    require_memory(
        8 * (2 * m * m + (n + d) * targets.shape[1]),
        f"the least squares of {n:,} documents with {d:,} features",
        "Pass fewer documents, a random choice of them, or none.",
    )
    penalty = RIDGE * ops.mean_sq_distance(X) * 0.5 * (n - 1) / d
    if n < d:
        gram = ops.gram(X)
        gram[np.diag_indices(n)] += penalty
        return np.asarray(ops.tdot(X, np.linalg.solve(gram, targets)))
    mean = ops.column_means(X)
    gram = ops.to_dense(X.T @ X) - n * np.outer(mean, mean)
    gram[np.diag_indices(d)] += penalty
    return np.linalg.solve(gram, np.asarray(ops.tdot(X, targets)))
