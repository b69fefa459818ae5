"""How well distances agree with labels: mean average precision, and k-NN accuracy."""

from numbers import Integral
from typing import Any

import numpy as np

from ._arrays import ranking
from ._arrays.namespace import check_same_device, to_numpy
from ._rows import evenly_chosen, open_rows
from ._types import Array
from ._validation import check_labels, joined_labels, warn

MOST_QUERIES = 1000
"""Number of queries for rows that are not in memory, if the user does not choose them."""


def mean_average_precision(X: Any, y: Any, queries: Any = None) -> float:
    """Mean average precision (mAP) of ranking rows by their distance to each row.

    Each row queries all the other rows, which are ranked by ascending Euclidean distance; those
    of the query's class are relevant. The average precision of a query is the mean, over its
    relevant rows, of the share of relevant rows among all that are as near or nearer.

    Parameters
    ----------
    X : array-like, sparse matrix or Dask array of shape (n_rows, n_features)
        The rows, already transformed by the metric to be evaluated (for example with
        ``metric.transform``).
    y : array-like of shape (n_rows,)
        Their classes: numbers or strings.
    queries : int or array-like of int, optional
        Row numbers of the queries, or how many to choose; they are chosen evenly over the rows, and
        always the same ones. None uses all rows. For a Dask array, None uses 1,000 rows; fewer, but
        at least 20, if classes are so large that 1,000 would need several passes.

    Returns
    -------
    float
        Between 0 and 1; 1 if every row ranks all rows of its class before all others.

    Warns
    -----
    UserWarning
        If some classes have only one row. There is nothing to find for such rows, so they are left
        out as queries. They stay among the rows that are ranked for the others.

    See Also
    --------
    average_precisions : The average precision of each query, and how ties are counted.

    Examples
    --------
    >>> mean_average_precision([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"])
    1.0
    >>> round(mean_average_precision([[0.0], [1.0], [3.0], [4.0]], ["a", "b", "a", "b"]), 3)
    0.417
    """
    precisions = to_numpy(average_precisions(X, y, queries))
    alone = np.isnan(precisions)
    if alone.any():
        warn(
            f"{alone.sum()} of {len(alone)} rows are the only row of their class: there is "
            "nothing to find for them, and they are left out of the mean average precision",
        )
    return float(precisions[~alone].mean())


def average_precisions(X: Any, y: Any, queries: Any = None) -> Array:
    """Average precision of each row as a query of all the others.

    Parameters
    ----------
    X, y, queries
        As in `mean_average_precision`.

    Returns
    -------
    array of shape (n_queries,), float64
        One number per query, on the device of X; NaN for rows that are the only one of their class.

    Notes
    -----
    Ties are counted without regard to the order of rows, as
    `sklearn.metrics.average_precision_score` does: the precision at a row counts every row that is
    as near or nearer.

    Distances are computed in float64 as ‖a‖² + ‖b‖² − 2a·b. Dense rows are first moved so that a
    row near the mean is the origin: unlike the mean itself, this keeps integers as integers, so
    that ties of data on a grid are exact. Sparse rows stay where they are. Equal rows are always at
    equal distances, and at distance zero from each other. Any other distances that are
    mathematically equal may differ by rounding, and squared distances that differ by less than
    about 1e-15 of the squared norms may come in any order.

    No more than about 32 MB of distances are held at once (or one row of them in each thread,
    where that is more). While this runs, BLAS is limited to one thread in the whole process.

    A Dask array is not collected: its blocks are compared with the queries by the workers that hold
    them, in two passes for every sixteen million pairs of a query and a row of its class. Distances
    are then computed by differences; ties are counted in the same way.
    """
    rows, y = open_rows(X, y)
    classes = check_labels(y, rows.shape[0], "y")
    _, labels, counts = np.unique(classes, return_inverse=True, return_counts=True)
    labels = labels.astype(np.int64)
    if counts.max() < 2:
        raise ValueError(
            f"no class in y has two rows ({len(labels)} rows, {len(counts)} classes), so there is "
            "nothing to find: give labels that rows share"
        )
    n = len(labels)
    if queries is None and not rows.in_memory:
        queries = _affordable_queries(counts[labels])
    chosen = np.arange(n) if queries is None else chosen_queries(queries, n)
    if not (counts[labels[chosen]] > 1).any():
        raise ValueError(
            "each query is the only row of its class: choose other queries, or more of them"
        )
    if not rows.in_memory:
        from ._rows.ranking import average_precisions as ranked_in_blocks

        return ranked_in_blocks(rows, labels, chosen)
    return ranking.average_precisions(ranking.check_float64(rows.take()), labels, counts, chosen)


def _affordable_queries(class_sizes: Array) -> int:
    """How many rows query those that are not in memory, given the size of each row's class."""
    from ._rows.ranking import MOST_PAIRS

    return max(MOST_QUERIES // 50, min(MOST_QUERIES, int(MOST_PAIRS / class_sizes.mean())))


def chosen_queries(queries: Any, n: int) -> Array:
    """Row numbers of the queries, for n rows."""
    if isinstance(queries, Integral) and not isinstance(queries, bool):
        if queries < 1:
            raise ValueError(f"queries must be at least 1, or row numbers; got {queries}")
        return evenly_chosen(n, int(queries), np.random.default_rng(0))
    rows = np.asarray(to_numpy(queries))
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise ValueError(
            "queries must be a whole number, or a list of row numbers; got shape "
            f"{rows.shape} of {rows.dtype}"
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"queries names rows that X does not have: row numbers go from 0 to {n - 1}"
        )
    return rows


def knn_accuracy(X_train: Any, y_train: Any, X_test: Any, y_test: Any, k: int = 5) -> float:
    """Accuracy of classifying test rows by the vote of their k nearest training rows.

    Parameters
    ----------
    X_train, X_test : array-like, sparse matrix or Dask array of shape (n_rows, n_features)
        The rows, already transformed by the metric to be evaluated (for example with
        ``metric.transform``). A Dask X_train is searched by the workers that hold it, in one pass.
        Of a Dask X_test, 1,000 rows are classified; they are chosen evenly, and always the same
        ones.
    y_train, y_test : array-like of shape (n_rows,)
        Their classes: numbers or strings.
    k : int, default=5
        How many training rows vote. If two classes have the same number of votes, the first in
        sorted order wins, as in `sklearn.neighbors.KNeighborsClassifier`.

    Returns
    -------
    float
        Share of the test rows that are classified correctly.

    Examples
    --------
    >>> knn_accuracy([[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"], [[2.0]], ["a"], k=1)
    1.0
    """
    train, y_train = open_rows(X_train, y_train, name="X_train")
    test, y_test = open_rows(X_test, y_test, name="X_test")
    train_labels = check_labels(y_train, train.shape[0], "y_train")
    test_labels = check_labels(y_test, test.shape[0], "y_test")
    if train.n_features != test.n_features:
        raise ValueError(
            f"X_train has {train.n_features} features, but X_test has {test.n_features}: "
            "transform both in the same way"
        )
    classified = None
    if not test.in_memory:
        classified = evenly_chosen(test.shape[0], MOST_QUERIES, np.random.default_rng(0))
        test_labels = test_labels[classified]
    queries = ranking.check_float64(test.take(classified))
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be a whole number of at least 1; got {k!r}")
    if k > train.shape[0]:
        raise ValueError(
            f"k = {k} neighbours cannot be found among {train.shape[0]} training rows; give a "
            "smaller k"
        )
    labels = joined_labels(train_labels, test_labels, "y_train and y_test")
    known, expected = np.split(np.unique(labels, return_inverse=True)[1], [train.shape[0]])
    if train.in_memory:
        rows = ranking.check_float64(train.take())
        check_same_device(rows, queries, "X_train and X_test")
        found = ranking.neighbors(rows, queries, int(k))
    else:
        from ._rows.ranking import nearest

        found = nearest(train, queries, int(k))
    return float(np.mean(most_votes(known[found]) == expected))


def most_votes(votes: Array) -> Array:
    """The most frequent number of each row; the smallest one if several are equally frequent."""
    ordered = np.sort(votes, axis=1)
    counts = (votes[:, None, :] == ordered[:, :, None]).sum(axis=2)
    return ordered[np.arange(len(votes)), counts.argmax(axis=1)]
