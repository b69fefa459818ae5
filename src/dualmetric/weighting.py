"""tf-idf: weights for counts of words, by which rare words count and long texts do not win.

A count tf of feature f becomes (1 + log tf)·idf_f, and rows are then scaled to length one. With n
training rows, of which df_f hold the feature, idf_f = log((1 + n)/(1 + df_f)) + 1. Both are what
scikit-learn's ``TfidfTransformer(sublinear_tf=True)`` computes.
"""

from typing import Any

import numpy as np

from . import products, sources
from ._dask import passes
from ._types import Array, Rows
from ._validation import refuse_mask


def fit_idf(X: Any) -> Array:
    """Weigh each feature by how few rows hold it.

    Parameters
    ----------
    X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
        Counts. A memory map, or another source of rows, is read a block at a time.

    Returns
    -------
    ndarray of shape (n_features,)
        log((1 + n)/(1 + df)) + 1 in float64: 1 for a feature that every row holds, and the most for
        one that no row does.

    Examples
    --------
    >>> from dualmetric.weighting import fit_idf
    >>> fit_idf([[3, 0], [1, 0], [2, 5]]).round(3)
    array([1.   , 1.693])
    """
    frequency: Any
    if sources.is_dask(X):
        rows = sources.opened(X)[0]
        n_rows, frequency = rows.shape[0], passes.column_sums(rows, _checked_frequency)
    elif sources.is_source(X):
        if X.shape[0] == 0:
            raise ValueError("X has no rows")
        n_rows = X.shape[0]
        frequency = sum(_checked_frequency(block) for _, block in sources.blocks(X))
    else:
        rows = check_rows(X)
        n_rows, frequency = rows.shape[0], _document_frequency(rows)
    return np.log((1 + n_rows) / (1 + frequency)) + 1


def tfidf(X: Any, idf: Any) -> Rows:
    """Weigh counts: (1 + log tf)·idf for each that is not zero, then rows of length one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts: none is negative, nor between 0 and 1.
    idf : array-like of shape (n_features,)
        Weights of the features, as `fit_idf` gives them.

    Returns
    -------
    {ndarray, CSR matrix} of shape (n_samples, n_features)
        New rows, sparse if X is, in the precision of X (float64 for whole numbers). Rows of zeros
        stay zero.

    Examples
    --------
    >>> from dualmetric.weighting import fit_idf, tfidf
    >>> counts = [[3, 0], [1, 0], [2, 5]]
    >>> tfidf(counts, fit_idf(counts)).round(3)
    array([[1.   , 0.   ],
           [1.   , 0.   ],
           [0.358, 0.934]])
    """
    rows, weights = check_rows(X), np.asarray(idf, dtype=np.float64)
    if weights.shape != (rows.shape[1],):
        raise ValueError(
            f"idf has shape {weights.shape}, but X has {rows.shape[1]} features: take it from rows "
            "of the same width"
        )
    return weigh(rows, weights)


def weigh(rows: Rows, idf: Array) -> Rows:
    """Do what `tfidf` does to rows that have been checked: finite floats of the width of idf."""
    with np.errstate(over="ignore"):
        if products.is_sparse(rows):
            rows = products.canonical(rows).copy()
            rows.eliminate_zeros()
            _check_counts(rows.data)
            rows.data = (1 + np.log(rows.data)) * idf.astype(rows.dtype)[rows.indices]
            weighted = rows.data
        else:
            _check_counts(rows)
            held = rows > 0
            rows = np.log(rows, where=held, out=np.zeros_like(rows))
            np.add(rows, 1, where=held, out=rows)
            rows *= idf.astype(rows.dtype)
            weighted = rows
    if not np.isfinite(weighted).all():
        raise ValueError(
            f"the idf weights are not finite in {rows.dtype}: take them from fit_idf"
            + (", or pass float64" if rows.dtype == np.float32 else "")
        )
    return products.unit_rows(rows, in_place=True)


def check_rows(X: Any, name: str = "X") -> Rows:
    """Rows as finite floats, dense or CSR, or a ValueError that says why they are none."""
    from sklearn.utils import check_array

    refuse_mask(X, name)
    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)


def _document_frequency(rows: Rows) -> Array:
    """In how many rows each feature is not zero."""
    if not products.is_sparse(rows):
        _check_counts(rows)
        return np.count_nonzero(rows, axis=0)
    rows = products.canonical(rows)
    _check_counts(rows.data)
    return np.bincount(rows.indices[rows.data != 0], minlength=rows.shape[1])


def _checked_frequency(rows: Rows) -> Array:
    return _document_frequency(check_rows(rows))


def _check_counts(values: Array) -> None:
    """Refuse what cannot be a count: most often, rows that have been weighted already."""
    if (values < 0).any():
        found = "negative numbers"
    elif ((values > 0) & (values < 1)).any():
        found = "numbers between 0 and 1"
    else:
        return
    raise ValueError(
        f"tf-idf is for counts, and the rows hold {found}: pass raw counts, or do without tf-idf "
        "where rows are weighted already"
    )
