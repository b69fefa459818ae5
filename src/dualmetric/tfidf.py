"""tf-idf: weights for word counts that emphasise rare words and are independent of text length.

A count tf of feature f becomes (1 + log tf)·idf_f, and rows are then scaled to length one. With n
training rows, of which df_f hold the feature, idf_f = log((1 + n)/(1 + df_f)) + 1. Both are what
scikit-learn's ``TfidfTransformer(sublinear_tf=True)`` computes.
"""

from typing import Any

import numpy as np

from ._arrays import ops
from ._arrays.namespace import require_host
from ._rows import open_rows
from ._types import Array, Matrix


def fit_idf(X: Any) -> Array:
    """Weight of each feature: the fewer rows contain it, the larger.

    Parameters
    ----------
    X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
        Counts. A memory map, or another source of rows, is read a block at a time.

    Returns
    -------
    ndarray of shape (n_features,)
        log((1 + n)/(1 + df)) + 1 in float64: 1 for a feature that every row contains, and largest
        for one that no row contains.

    Examples
    --------
    >>> from dualmetric.tfidf import fit_idf
    >>> fit_idf([[3, 0], [1, 0], [2, 5]]).round(3)
    array([1.   , 1.693])
    """
    rows, _ = open_rows(X)
    frequency = rows.reduce(lambda block, _: ops.count_nonzero(_counts(block)), np.add)
    return np.log((1 + rows.shape[0]) / (1 + frequency)) + 1


def tfidf(X: Any, idf: Any) -> Matrix:
    """Weight counts: (1 + log tf)·idf for each that is not zero, then scale rows to length one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts; no value may be negative or between 0 and 1.
    idf : array-like of shape (n_features,)
        Weights of the features, as `fit_idf` gives them.

    Returns
    -------
    {ndarray, CSR matrix} of shape (n_samples, n_features)
        New rows, sparse if X is, in the precision of X (float64 for whole numbers). Rows of zeros
        stay zero.

    Examples
    --------
    >>> from dualmetric.tfidf import fit_idf, tfidf
    >>> counts = [[3, 0], [1, 0], [2, 5]]
    >>> tfidf(counts, fit_idf(counts)).round(3)
    array([[1.   , 0.   ],
           [1.   , 0.   ],
           [0.358, 0.934]])
    """
    rows, weights = open_rows(X)[0].take(), np.asarray(idf, dtype=np.float64)
    if weights.shape != (rows.shape[1],):
        raise ValueError(
            f"idf has shape {weights.shape}, but X has {rows.shape[1]} features: take it from rows "
            "of the same width"
        )
    return weigh(rows, weights)


def weigh(rows: Matrix, idf: Array) -> Matrix:
    """Do what `tfidf` does to rows that have been checked: finite floats of the width of idf."""
    require_host(rows, "tf-idf")
    with np.errstate(over="ignore"):
        weights = idf.astype(rows.dtype)
        rows = ops.map_nonzero(_counts(rows), lambda counts: 1 + np.log(counts), weights)
    if not np.isfinite(ops.stored_values(rows)).all():
        raise ValueError(
            f"the idf weights are not finite in {rows.dtype}: take them from fit_idf"
            + (", or pass float64" if rows.dtype == np.float32 else "")
        )
    return ops.unit_rows(rows)


def _counts(rows: Matrix) -> Matrix:
    """The same rows; refused if they are not counts, as when they are weighted already."""
    values = ops.stored_values(rows)
    if (values < 0).any():
        found = "negative numbers"
    elif ((values > 0) & (values < 1)).any():
        found = "numbers between 0 and 1"
    else:
        return rows
    raise ValueError(
        f"tf-idf is for counts, but the rows hold {found}: pass raw counts, or leave tf-idf out if "
        "the rows are weighted already"
    )
