"""Scores of ranking documents for queries: by judgements, or by labels."""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .. import measures
from .._arrays import judged, ops, ranking
from .._arrays.namespace import check_same_device
from .._rows import Rows, open_rows
from .._types import Array, Matrix
from .._validation import check_labels, check_whole, warn
from ..labelled import chosen_queries
from ..supervision import Positives, Relevance, Supervision

_JUDGEMENTS = 2**20
"""Relevant documents that are ranked at once, by all queries of a block."""


def ndcg(documents: Any, judgements: Any, queries: Any = None, *, k: int | None = 10) -> float:
    """Mean normalised discounted cumulative gain of the first k documents of each query.

    Documents are ranked by ascending Euclidean distance to the query. The gain of a grade g is
    2^g − 1, and that of the document at rank r is divided by log₂(1 + r). The sum over the first k
    is divided by its largest possible value.

    Parameters
    ----------
    documents : {array-like, sparse matrix} of shape (n_documents, n_features)
        The rows that are searched, already transformed by the metric to be evaluated (for example
        with ``metric.transform``). They are read into memory.
    judgements : Relevance, Positives, sparse matrix, or array-like
        What is relevant: an object of `dualmetric.supervision`; a sparse matrix of grades, queries
        × documents; or rows of query, document and grade, or of query and document. Documents that
        are not judged count as not relevant. Those of ``Positives`` or without a grade have grade
        1. It can also be an array of labels, one per document: each row then queries all others,
        and the rows of its class are relevant.
    queries : {array-like, sparse matrix} of shape (n_queries, n_features), optional
        The queries, transformed in the same way as the documents. None if they are rows of
        ``documents``; a query is then excluded from its own ranking. With labels, row numbers of
        the queries or how many to choose, as in `mean_average_precision`.
    k : int or None, default=10
        How many documents are looked at; None for all.

    Returns
    -------
    float
        Between 0 and 1. Queries without a relevant document are left out.

    See Also
    --------
    query_scores : The score of each query, for intervals, and how ties are counted.

    Examples
    --------
    >>> documents, queries = [[0.0], [1.0], [5.0]], [[0.4], [4.0]]
    >>> ndcg(documents, [[0, 0, 2], [0, 1, 1], [1, 2, 1]], queries)
    1.0
    >>> round(ndcg(documents, [[0, 1], [1, 2]], queries), 3)
    0.815
    """
    return _mean(documents, judgements, queries, "ndcg", k)


def recall_at_k(
    documents: Any, judgements: Any, queries: Any = None, *, k: int | None = 10
) -> float:
    """Mean share of a query's relevant documents that are among its first k.

    For labels, recall@k in the metric learning literature is usually `hit_rate`.

    Parameters
    ----------
    documents, judgements, queries
        As in `ndcg`.
    k : int or None, default=10
        How many documents are looked at; None for all.

    Returns
    -------
    float
        Between 0 and 1. Queries without a relevant document are left out.

    Examples
    --------
    >>> recall_at_k([[0.0], [1.0], [5.0]], [[0, 0], [0, 2]], [[0.4]], k=2)
    0.5
    """
    return _mean(documents, judgements, queries, "recall", k)


def precision_at_k(
    documents: Any, judgements: Any, queries: Any = None, *, k: int | None = 10
) -> float:
    """Mean share of the first k documents that are relevant.

    If a query has fewer than k relevant documents, 1 cannot be reached.

    Parameters
    ----------
    documents, judgements, queries
        As in `ndcg`.
    k : int or None, default=10
        How many documents are looked at; None for all.

    Returns
    -------
    float
        Between 0 and 1. Queries without a relevant document are left out.

    Examples
    --------
    >>> precision_at_k([[0.0], [1.0], [5.0]], [[0, 0]], [[0.4]], k=2)
    0.5
    """
    return _mean(documents, judgements, queries, "precision", k)


def hit_rate(documents: Any, judgements: Any, queries: Any = None, *, k: int | None = 10) -> float:
    """Share of the queries with a relevant document among their first k.

    With labels and ``k=1`` this is what metric learning calls recall@1: how often the nearest row
    has the same class.

    Parameters
    ----------
    documents, judgements, queries
        As in `ndcg`.
    k : int or None, default=10
        How many documents are looked at; None for all.

    Returns
    -------
    float
        Between 0 and 1. Queries without a relevant document are left out.

    Examples
    --------
    >>> hit_rate([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"], k=1)
    1.0
    """
    return _mean(documents, judgements, queries, "hit_rate", k)


def reciprocal_rank(
    documents: Any, judgements: Any, queries: Any = None, *, k: int | None = 10
) -> float:
    """Mean reciprocal rank (MRR) of the first relevant document; 0 if it is not among the first k.

    Parameters
    ----------
    documents, judgements, queries
        As in `ndcg`.
    k : int or None, default=10
        How many documents are looked at; None for all.

    Returns
    -------
    float
        Between 0 and 1. Queries without a relevant document are left out.

    Examples
    --------
    >>> reciprocal_rank([[0.0], [1.0], [5.0]], [[0, 1]], [[0.4]])
    0.5
    """
    return _mean(documents, judgements, queries, "reciprocal_rank", k)


def map_at_r(documents: Any, judgements: Any, queries: Any = None) -> float:
    """Mean average precision at R, where R is the number of relevant documents of a query.

    Only the first R documents of a query are looked at: relevant documents after the R-th count 0.

    Parameters
    ----------
    documents, judgements, queries
        As in `ndcg`.

    Returns
    -------
    float
        Between 0 and 1. Queries without a relevant document are left out.

    Examples
    --------
    >>> map_at_r([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"])
    1.0
    """
    return _mean(documents, judgements, queries, "map_at_r", None)


def _mean(documents: Any, judgements: Any, queries: Any, measure: str, k: int | None) -> float:
    scores = query_scores(documents, judgements, queries, measure=measure, k=k)
    alone = np.isnan(scores)
    if alone.any() and _are_labels(judgements):
        warn(
            f"{np.count_nonzero(alone):,} of {len(scores):,} rows are the only row of their class: "
            "there is nothing to find for them, and they are left out as queries"
        )
    return float(scores[~alone].mean())


def query_scores(
    documents: Any,
    judgements: Any,
    queries: Any = None,
    *,
    measure: str = "ndcg",
    k: int | None = 10,
) -> Array:
    """Compute the score of each query.

    Parameters
    ----------
    documents, judgements, queries, k
        As in `ndcg`.
    measure : {"ndcg", "map", "recall", "precision", "hit_rate", "reciprocal_rank", "map_at_r"}
        ``"map"`` is the average precision. It and ``"map_at_r"`` do not use ``k``.

    Returns
    -------
    ndarray of shape (n_queries,), float64
        One score per query; NaN for queries without a relevant document.
        `dualmetric.intervals.bootstrap_interval` turns the scores into an interval.

    Notes
    -----
    Distances are computed in float64, as `average_precisions` does. Documents at the same distance
    are ranked in the order of their numbers, as a list of results would show them. About 32 MB of
    distances and one million ranks are held at once.

    Examples
    --------
    >>> query_scores([[0.0], [1.0], [5.0]], [[0, 1], [1, 2]], [[0.4], [4.0]], measure="map")
    array([0.5, 1. ])
    """
    if measure not in measures.MEASURES:
        known = ", ".join(map(repr, measures.MEASURES))
        raise ValueError(f"measure must be one of {known}; got {measure!r}")
    if k is not None:
        check_whole(k, "k")
    if _are_labels(judgements):
        task = _by_labels(*open_rows(documents, judgements, name="documents"), queries)
    else:
        task = _by_judgements(open_rows(documents, name="documents")[0], judgements, queries)
    rank = judged.ranker(task.X, task.n_documents)
    score = measures.MEASURES[measure]
    k = task.n_documents if k is None else k
    scores = np.full(len(task.sizes), np.nan)
    answered = np.flatnonzero(task.sizes)
    filled = np.cumsum(task.sizes[answered]) // _JUDGEMENTS
    for block in np.split(answered, np.flatnonzero(np.diff(filled)) + 1):
        index, grade = task.relevant(block)
        query = np.repeat(np.arange(len(block)), task.sizes[block])
        scores[block] = score(query, rank(index), grade, k)
    return scores


class _Task(NamedTuple):
    """Queries, and what is relevant to them."""

    X: Matrix  # the documents, and below them the queries where these are others
    n_documents: int
    sizes: Array  # number of relevant documents of each query
    relevant: Callable[[Array], tuple[Array, Array]]  # (query, document) rows and grades


def _are_labels(judgements: Any) -> bool:
    if isinstance(judgements, Supervision) or hasattr(judgements, "tocoo"):
        return False
    shape = np.shape(judgements)
    return isinstance(judgements, str) or len(shape) == 1 or shape[1:] == (1,)


def _by_labels(rows: Rows, labels: Any, queries: Any) -> _Task:
    n = rows.shape[0]
    codes, counts = np.unique(
        check_labels(labels, n, "judgements"), return_inverse=True, return_counts=True
    )[1:]
    members, starts = np.argsort(codes, kind="stable"), np.cumsum(counts) - counts
    asked = np.arange(n) if queries is None else chosen_queries(queries, n)
    sizes = counts[codes[asked]] - 1
    if not sizes.any():
        raise ValueError(
            "each query is the only row of its class, so there is nothing to find: give labels "
            "that rows share, or other queries"
        )

    def relevant(block: Array) -> tuple[Array, Array]:
        query = np.repeat(asked[block], sizes[block] + 1)
        ends = np.cumsum(sizes[block] + 1)
        place = np.arange(len(query)) - np.repeat(ends - sizes[block] - 1, sizes[block] + 1)
        index = np.column_stack([query, members[starts[codes[query]] + place]])
        index = index[index[:, 0] != index[:, 1]]
        return index, np.ones(len(index))

    return _Task(ranking.check_float64(rows.take()), n, sizes, relevant)


def _by_judgements(rows: Rows, judgements: Any, queries: Any) -> _Task:
    n = rows.shape[0]
    known = _as_judged(judgements, queries, n).check(n)
    parts = [rows.take()]
    if known.queries is not None:
        if known.queries.n_features != rows.n_features:
            raise ValueError(
                f"queries have {known.queries.n_features} features and documents "
                f"{rows.n_features}: transform both in the same way"
            )
        parts.append(known.queries.take())
        check_same_device(parts[0], parts[1], "documents and queries")
    X = ops.stacked(parts)
    known = known.take(np.arange(X.shape[0]))
    order = np.flatnonzero(known.grade > 0)
    order = order[np.argsort(known.index[order, 0], kind="stable")]
    index, grade = known.index[order], known.grade[order]
    first = n if len(parts) > 1 else 0
    sizes = np.bincount(index[:, 0] - first, minlength=X.shape[0] - first)
    ends = np.cumsum(sizes)

    def relevant(block: Array) -> tuple[Array, Array]:
        # between two queries of a block there are only some that have nothing to find
        part = slice(ends[block[0]] - sizes[block[0]], ends[block[-1]])
        return index[part], grade[part]

    return _Task(ranking.check_float64(X), n, sizes, relevant)


def _as_judged(judgements: Any, queries: Any, n_documents: int) -> Positives | Relevance:
    if isinstance(judgements, Positives | Relevance):
        if queries is None and judgements.queries is not None:
            raise ValueError(
                "judgements have their own queries: pass these as queries, transformed like the "
                "documents, for example ndcg(metric.transform(documents), judgements, "
                "metric.transform(queries))"
            )
        new = copy(judgements)
        new.queries = queries
        return new
    if hasattr(judgements, "tocoo"):
        expected = (n_documents if queries is None else np.shape(queries)[0], n_documents)
        if judgements.shape != expected:
            raise ValueError(
                f"judgements must have one row per query and one column per document, shape "
                f"{expected}; got {judgements.shape}"
            )
        return Relevance(judgements, queries)
    shape: tuple[int, ...] = () if isinstance(judgements, Supervision) else np.shape(judgements)
    width = shape[1] if len(shape) == 2 else 0
    if width not in (2, 3):
        found = type(judgements).__name__
        raise ValueError(
            "judgements must be Relevance, Positives, a sparse matrix of queries × documents, an "
            "(N, 3) array of query, document and grade, an (N, 2) array of query and document, or "
            f"one label per document; got {found} of shape {shape}"
        )
    return Relevance(judgements, queries) if width == 3 else Positives(judgements, queries)
