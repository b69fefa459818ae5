"""How well distances agree with labels: mean average precision, and k-NN accuracy."""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_array

from . import _device_ranking, sources
from ._namespace import check_same_device, is_device_array, to_numpy
from ._system import n_threads, run_blocks, single_blas_thread
from ._types import Array, Rows
from ._validation import check_labels, refuse_mask

_BLOCK_BYTES = 32 * 2**20
"""Distances held at once, by all threads."""

MOST_QUERIES = 1000
"""Rows that query those that are not in memory, where it is not said which."""


def mean_average_precision(X: Any, y: Any, queries: Any = None) -> float:
    """Mean average precision (mAP) of ranking rows by their distance to each row.

    Each row queries all the other rows, which are ranked by ascending Euclidean distance; those
    of the query's class are relevant. The average precision of a query is the mean, over its
    relevant rows, of the share of relevant rows among all that are as near or nearer.

    Parameters
    ----------
    X : array-like, sparse matrix or Dask array of shape (n_rows, n_features)
        The rows, after any transformation that is to be judged.
    y : array-like of shape (n_rows,)
        Their classes: numbers or strings.
    queries : int or array-like of int, optional
        Row numbers of the queries, or how many to choose, always the same and evenly over the
        rows. None is all rows; of a Dask array, 1,000, or fewer where classes are so large that
        these would have to be compared in several passes, but at least 20.

    Returns
    -------
    float
        Between 0 and 1; 1 where every row has all of its class before any other row.

    Warns
    -----
    UserWarning
        Where classes have a single row. Such rows have nothing to find and are left out as
        queries; they stay among the rows that the others rank.

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
        warnings.warn(
            f"{alone.sum()} of {len(alone)} rows are the only row of their class: they have "
            "nothing to find and are left out of the mean average precision as queries",
            UserWarning,
            stacklevel=2,
        )
    return float(precisions[~alone].mean())


def average_precisions(X: Any, y: Any, queries: Any = None) -> Array:
    """Average precision of each row as a query of all the others.

    Parameters
    ----------
    X : array-like, sparse matrix or Dask array of shape (n_rows, n_features)
        The rows, after any transformation that is to be judged.
    y : array-like of shape (n_rows,)
        Their classes: numbers or strings.
    queries : int or array-like of int, optional
        Row numbers of the queries, or how many to choose, always the same and evenly over the
        rows. None is all rows; of a Dask array, 1,000, or fewer where classes are so large that
        these would have to be compared in several passes, but at least 20.

    Returns
    -------
    array of shape (n_queries,), float64
        In the order of the queries; NaN for rows that are the only one of their class. Where X is
        on a device, so is this.

    Notes
    -----
    Ties are counted without regard to the order of rows, as
    `sklearn.metrics.average_precision_score` does: the precision at a row counts every row at a
    distance that is not greater.

    Distances are computed in float64 as ‖a‖² + ‖b‖² − 2a·b. Dense rows are first moved so that a
    row near the mean is the origin: unlike the mean itself, this keeps integers integers, and so
    the ties of data on a grid exact. Sparse rows stay where they are. Equal rows are always at
    equal distances, and at distance zero from each other. Any other distances that are equal on
    paper may differ by rounding, and squared distances that differ by less than about 1e-15 of
    the squared norms may come in any order.

    No more than about 32 MB of distances are held at once (or one row of them in each thread,
    where that is more). While this runs, BLAS is limited to one thread in the whole process.

    A Dask array is not collected: its blocks are compared with the queries where they lie, in two
    passes for every sixteen million pairs of a query and a row of its class. Distances are then
    computed by differences; ties are counted in the same way.
    """
    from . import _kernels  # here, for Numba takes long to import

    X, y = sources.opened(X, y)
    is_remote = sources.is_dask(X)
    rows = X if is_remote else check_rows(X, "X")
    classes = check_labels(y, rows.shape[0], "y")
    _, labels, counts = np.unique(classes, return_inverse=True, return_counts=True)
    labels = labels.astype(np.int64)
    if counts.max() < 2:
        raise ValueError(
            f"no class in y has two rows ({len(labels)} rows, {len(counts)} classes), so that no "
            "row has another to find; give labels that rows share"
        )
    n = len(labels)
    if queries is None and is_remote:
        queries = _affordable_queries(counts[labels])
    chosen = np.arange(n) if queries is None else _chosen_queries(queries, n)
    asked = np.unique(chosen[counts[labels[chosen]] > 1])
    if not len(asked):
        raise ValueError("each query is the only row of its class: choose others, or more")
    if is_device_array(rows):
        return _device_ranking.average_precisions(rows, labels, counts, chosen)
    if is_remote:
        from ._dask import ranking

        return ranking.average_precisions(rows, labels, chosen)
    fill, origin = squared_distances(rows)
    copies = np.flatnonzero(origin != np.arange(n))
    result = np.full(n, np.nan)
    step = max(1, _BLOCK_BYTES // (8 * n * n_threads()))

    def rank(start: int, stop: int) -> None:
        memory = np.empty((min(step, stop - start), n))
        for first in range(start, stop, step):
            block = asked[first : min(first + step, stop)]
            distances = memory[: len(block)]
            fill(block, distances)
            keys = distances.view(np.int64)
            _kernels.ranking_keys(keys, block, labels, origin, copies)
            # NumPy's vectorised sort of plain integers: no search or bucketing compiled here
            # comes near it
            keys.view(np.uint64).sort(axis=1)
            result[block] = _kernels.ranked_precisions(keys)

    # Each thread takes whole queries, products included: the threads that BLAS would start
    # itself go on spinning after each product and hold up the sorting.
    with single_blas_thread():
        run_blocks(rank, len(asked), smallest=1 + 2**17 // n)
    return result[chosen]


def _affordable_queries(class_sizes: Array) -> int:
    """How many rows query a Dask array, given the size of the class of each row."""
    from ._dask.ranking import MOST_PAIRS

    return max(MOST_QUERIES // 50, min(MOST_QUERIES, int(MOST_PAIRS / class_sizes.mean())))


def _chosen_queries(queries: Any, n: int) -> Array:
    """Numbers of the rows that query, of n."""
    if isinstance(queries, Integral) and not isinstance(queries, bool):
        if queries < 1:
            raise ValueError(f"queries must be at least 1, or row numbers; got {queries}")
        return sources.evenly_chosen(n, int(queries), np.random.default_rng(0))
    rows = np.asarray(to_numpy(queries))
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise ValueError("queries must be a whole number, or a list of row numbers")
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"queries names rows that X does not have: they go from 0 to {n - 1}")
    return rows


def knn_accuracy(X_train: Any, y_train: Any, X_test: Any, y_test: Any, k: int = 5) -> float:
    """Accuracy of classifying test rows by the vote of their k nearest training rows.

    Parameters
    ----------
    X_train, X_test : array-like, sparse matrix or Dask array of shape (n_rows, n_features)
        The rows, after any transformation that is to be judged. Those of a Dask X_train are
        searched where they lie, in one pass; of a Dask X_test 1,000 are classified, always the
        same and evenly over the rows.
    y_train, y_test : array-like of shape (n_rows,)
        Their classes: numbers or strings.
    k : int, default=5
        How many training rows vote. Where two classes have as many votes, the first in sorted
        order wins, as in `sklearn.neighbors.KNeighborsClassifier`.

    Returns
    -------
    float
        Share of the test rows whose class is predicted.

    Examples
    --------
    >>> knn_accuracy([[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"], [[2.0]], ["a"], k=1)
    1.0
    """
    if sources.is_dask(X_test):
        X_test, y_test = _sampled(X_test, y_test)
    X_train, y_train = sources.opened(X_train, y_train)
    is_remote = sources.is_dask(X_train)
    train = X_train if is_remote else check_rows(X_train, "X_train")
    test = check_rows(X_test, "X_test")
    train_labels = check_labels(y_train, train.shape[0], "y_train")
    test_labels = check_labels(y_test, test.shape[0], "y_test")
    check_same_device(train, test, "X_train and X_test")
    if train.shape[1] != test.shape[1]:
        raise ValueError(
            f"X_train has {train.shape[1]} features and X_test {test.shape[1]}; give both in the "
            "same space"
        )
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be a whole number, at least 1; got {k!r}")
    if k > train.shape[0]:
        raise ValueError(
            f"k = {k} neighbours cannot be found among {train.shape[0]} training rows; give a "
            "smaller k"
        )
    if train_labels.dtype.kind != test_labels.dtype.kind:
        # joined as they are, the number 1 would become the string "1"
        train_labels, test_labels = train_labels.astype(object), test_labels.astype(object)
    try:
        _, codes = np.unique(np.concatenate([train_labels, test_labels]), return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"y_train and y_test hold labels of kinds that cannot be compared ({error}); use "
            "numbers only or strings only"
        ) from error
    known, expected = np.split(codes, [train.shape[0]])
    if is_remote or is_device_array(train):
        if is_remote:
            from ._dask.ranking import nearest
        else:
            from ._device_ranking import nearest
        votes = known[nearest(train, test, int(k))]
        return float(np.mean(_most_votes(votes) == expected))
    model = KNeighborsClassifier(n_neighbors=int(k), algorithm="brute")
    return float(np.mean(model.fit(train, known).predict(test) == expected))


def _sampled(X: Any, y: Any) -> tuple[Rows, Array]:
    """Some rows of a Dask array, and their labels, in memory."""
    X, y = sources.opened(X, y)
    labels = check_labels(y, X.shape[0], "y_test")
    rows = sources.evenly_chosen(X.shape[0], MOST_QUERIES, np.random.default_rng(0))
    return sources.gather(X, rows), labels[rows]


def _most_votes(votes: Array) -> Array:
    """The number that each row holds most often; the smallest of those that are equally often."""
    ordered = np.sort(votes, axis=1)
    counts = (votes[:, None, :] == ordered[:, :, None]).sum(axis=2)
    return ordered[np.arange(len(votes)), counts.argmax(axis=1)]


def check_rows(X: Any, name: str) -> Rows:
    """Return X as finite float64, dense in C order or CSR, or dense on its device."""
    if is_device_array(X):
        return _device_ranking.check_rows(X, name)
    refuse_mask(X, name)
    if sources.is_source(X):
        X = sources.gather(X, np.arange(X.shape[0]))
    return check_array(X, accept_sparse="csr", dtype=np.float64, order="C", input_name=name)


def squared_distances(X: Rows) -> tuple[Callable[[Array, Array], None], Array]:
    """Prepare distances between rows of X, all scaled by one power of two.

    Returns
    -------
    fill : callable
        ``fill(queries, out)`` writes ‖x_q − x_c‖² for each q of ``queries`` and each row c.
    origin : ndarray of shape (n_rows,), int64
        The first row that equals each row.
    """
    if sp.issparse(X):
        return _squared_distances_sparse(X)
    n, d = X.shape
    # [−2a, ‖a‖², 1]·[b, 1, ‖b‖²]: the product gives distances in one pass over the block
    right = np.empty((n, d + 2))
    rows = right[:, :d]
    np.ldexp(X, -_exponent(X), out=rows)
    mean = rows.mean(axis=0)
    centre = rows[np.argmin(np.einsum("ij,ij->i", rows, rows) - 2.0 * (rows @ mean))].copy()
    rows -= centre
    rows += 0.0  # −0 becomes 0, so that equal rows have equal bytes
    right[:, d] = 1.0
    right[:, d + 1] = np.einsum("ij,ij->i", rows, rows)

    def fill(queries: Array, out: Array) -> None:
        left = right[queries]
        left[:, :d] *= -2.0
        left[:, [d, d + 1]] = left[:, [d + 1, d]]
        np.matmul(left, right.T, out=out)

    return fill, first_equal(row.tobytes() for row in rows)


def _squared_distances_sparse(
    X: sp.csr_matrix | sp.csr_array,
) -> tuple[Callable[[Array, Array], None], Array]:
    """Prepare the same for CSR rows."""
    from . import _kernels  # here, for Numba takes long to import

    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    X.data = np.ldexp(X.data, -_exponent(X.data))
    by_columns = X.tocsc()
    columns = by_columns.data, by_columns.indices, by_columns.indptr
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()

    def fill(queries: Array, out: Array) -> None:
        # not a sparse product: nearly full, it would be built only to be written out
        _kernels.sq_distances_csr_to_all(X.data, X.indices, X.indptr, columns, queries, norms, out)

    return fill, first_equal(
        X.indices[start:stop].tobytes() + X.data[start:stop].tobytes()
        for start, stop in itertools.pairwise(X.indptr)
    )


def _exponent(values: Array) -> int:
    """Exponent of the largest magnitude: scaled by it, squares neither overflow nor vanish."""
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    return int(np.frexp(largest)[1])


def first_equal(rows: Iterable[bytes]) -> Array:
    """Return for each row the number of the first row with the same bytes."""
    seen: dict[bytes, int] = {}
    # digests, since the rows themselves would be another copy of the data
    return np.array(
        [
            seen.setdefault(hashlib.blake2b(row, digest_size=16).digest(), number)
            for number, row in enumerate(rows)
        ],
        dtype=np.int64,
    )
