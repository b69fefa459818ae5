"""From dual variables to the metric: M̂ = 1/(λN)·Σ β_t A_t (6) and its positive part, as a factor.

M = LLᵀ, and L is all that is kept. Where the d × d matrix is small it is written out and
decomposed; where it is not, its leading eigenvectors are found from products with X and the pair
graph alone.
"""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from . import products
from ._system import blas_threads_for
from ._types import Array, Rows
from .triplets import Triplets

DENSE_LIMIT = 4000
"""Features up to which the matrix is written out: a few seconds and 128 MB of float64."""

DEFAULT_WIDE_RANK = 50
"""Directions kept for wider data when the user names no number."""


def recover_factor(
    X: Rows,
    triplets: Triplets,
    weight: Array,
    rank: int | None,
    rng: np.random.Generator,
    *,
    unit: float = 1.0,
) -> Array:
    """Return L with LLᵀ = Π_PSD(Σ weight_t A_t), cut to the ``rank`` largest eigenvalues.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, d)
        Rows in the space where the metric is wanted.
    triplets : Triplets
        Over the rows of X.
    weight : ndarray of shape (n_triplets,)
        β_t/(λN); triplets of weight 0 have no part in the metric.
    rank : int or None
        Directions to keep; None for all that are positive (50 for more than 4,000 features).
    rng : numpy Generator
        Start of the iteration where the matrix is not written out.
    unit : float, default=1.0
        The length in which the weights were found: A_t is that of X/unit, and L applies to X.
    """
    used = np.flatnonzero(weight)
    index, scaled = triplets.index[used], (weight[used] / unit**2).astype(X.dtype)
    if X.shape[1] <= DENSE_LIMIT:
        values, vectors = positive_part(products.pair_matrix(X, index, scaled), rank)
    else:
        values, vectors = _leading_part(X, index, scaled, rank or DEFAULT_WIDE_RANK, rng)
    return vectors * (np.sqrt(values) / unit).astype(X.dtype)


def positive_part(A: Array, rank: int | None = None) -> tuple[Array, Array]:
    """Positive eigenvalues of a symmetric matrix, largest first, and their eigenvectors.

    VwVᵀ is the positive semi-definite matrix nearest to A in Frobenius norm, or the nearest of
    the given rank.
    """
    d = len(A)
    subset = None if rank is None or rank >= d else (d - rank, d - 1)
    driver = "evd" if subset is None else "evr"
    with blas_threads_for(d):
        values, vectors = eigh(A, subset_by_index=subset, driver=driver, check_finite=False)
    # below this an eigenvalue is rounding; the largest in magnitude may not be among those found
    floor = max(np.abs(values).max(), np.abs(A).max()) * d * np.finfo(A.dtype).eps
    keep = np.flatnonzero(values > floor)[::-1]
    return values[keep], np.ascontiguousarray(vectors[:, keep])


def _leading_part(
    X: Rows, index: Array, weight: Array, rank: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Largest eigenvalues of XᵀCX and their vectors, by Lanczos iteration on products."""
    d = X.shape[1]

    def multiply(b: Array) -> Array:
        B = b.reshape(d, -1).astype(X.dtype, copy=False)
        return products.tdot(X, products.pair_dot(index, weight, products.dot(X, B)))

    operator = LinearOperator((d, d), matvec=multiply, matmat=multiply, dtype=X.dtype)
    start = rng.standard_normal(d).astype(X.dtype)
    size = float(np.linalg.norm(multiply(start)) / np.linalg.norm(start))
    if size == 0.0:  # no weights, or rows that do not differ: ARPACK refuses it
        return np.zeros(0, X.dtype), np.zeros((d, 0), X.dtype)
    tol = 1e-4 if X.dtype == np.float32 else 1e-6
    values, vectors = eigsh(operator, k=min(rank, d - 1), which="LA", v0=start, tol=tol)
    keep = np.argsort(values)[::-1]
    keep = keep[values[keep] > max(size, np.abs(values).max()) * d * np.finfo(X.dtype).eps]
    return values[keep], np.ascontiguousarray(vectors[:, keep])
