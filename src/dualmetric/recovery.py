"""From dual variables to the metric: M̂ = 1/(λN)·Σ β_t A_t (6) and its positive part, as a factor.

M = LLᵀ, and L is all that is kept. Where the d × d matrix is small it is written out and
decomposed; where it is not, its leading eigenvectors are found from products with X and the pair
graph alone.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from . import matrices, products
from ._namespace import like, precision
from ._types import Array, Rows
from .krylov import OVERSAMPLING, Pencil, leading_pairs
from .triplets import Triplets
from .whitening import ExplicitScatter, ImplicitScatter, Scatter

DENSE_LIMIT = 4000
"""Features up to which the matrix is written out: a few seconds and 128 MB of float64."""

TOLERANCE = 0.02
"""Largest residual of a direction found without the matrix, relative to the largest eigenvalue.

On 20 Newsgroups ranking is the same from 0.06 downwards, and each further digit doubles the work.
"""

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
    scatter: Scatter | None = None,
    power: float = 0.5,
    tolerance: float = TOLERANCE,
) -> tuple[Array, float]:
    """Find L with LLᵀ = Π_PSD(Σ weight_t A_t), cut to the ``rank`` largest eigenvalues.

    With a scatter S, the eigenvalues are those of XᵀCXv = wSv, VᵀSV = I: the same in the whitened
    space, and L applies to X as it is.

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
    scatter : ExplicitScatter or ImplicitScatter, optional
        S, as whitening has it; explicit where X has few features.
    power : float, default=0.5
        p: eigenvalues w enter L as w^p, the largest as √w. ½ is the paper's, 0 makes all alike.
    tolerance : float, default=TOLERANCE
        Largest residual of a direction where the matrix is not written out.

    Returns
    -------
    factor : ndarray of shape (d, rank)
        L.
    residual : float
        The largest residual of its directions, relative to the largest eigenvalue; 0 where the
        matrix was decomposed.
    """
    used = np.flatnonzero(weight)
    index, scaled = triplets.index[used], (weight[used] / unit**2).astype(precision(X))
    C = products.placed(products.pair_graph(index, scaled, X.shape[0]), X)
    if X.shape[1] <= DENSE_LIMIT:
        S = scatter.matrix if isinstance(scatter, ExplicitScatter) else None
        values, vectors = positive_part(products.pair_matrix(X, C), rank, S)
        residual = 0.0
    else:
        wanted = rank or DEFAULT_WIDE_RANK
        values, vectors, residual = leading_part(X, C, wanted, rng, scatter, tolerance)
    return vectors * like(stretches(values, power) / unit, X), residual


def stretches(values: Array, power: float) -> Array:
    """√w₁·(w/w₁)^p for eigenvalues w: how long each direction is made; √w for p = ½."""
    largest = values[:1].astype(np.float64)
    return np.sqrt(largest) * (values / largest) ** power


def positive_part(A: Array, rank: int | None = None, S: Array | None = None) -> tuple[Array, Array]:
    """Positive eigenvalues of a symmetric matrix, largest first, and their eigenvectors.

    VwVᵀ is the positive semi-definite matrix nearest to A in Frobenius norm, or the nearest of
    the given rank; with S, the pairs solve Av = wSv. Only lower triangles are read.
    """
    values, vectors, largest = matrices.largest_eigenpairs(A, rank, S)
    # below this an eigenvalue is rounding; the largest in magnitude may not be among those found
    size = max(np.abs(values).max(), largest)
    floor = size * np.sqrt(A.shape[0]) * np.finfo(precision(A)).eps
    keep = np.flatnonzero(values > floor)[::-1]
    return values[keep], products.take_columns(vectors, keep)


def leading_part(
    X: Rows,
    C: Rows,
    rank: int,
    rng: np.random.Generator,
    scatter: Scatter | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[Array, Array, float]:
    """Largest positive eigenvalues of XᵀCX and their vectors, from products with X and C alone.

    See `krylov.leading_pairs`, which finds them, for the residual: the last thing returned. Where
    it is above the tolerance, a warning says so.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, d)
        The rows.
    C : CSR matrix of shape (n_rows, n_rows)
        The pair graph.
    rank : int
        How many; fewer are returned where fewer are positive.
    rng : numpy Generator
        Source of the first block.
    scatter : ExplicitScatter or ImplicitScatter, optional
        S, for Av = θSv; the identity where it is None.
    tolerance : float, default=TOLERANCE
        Largest residual, relative to the largest eigenvalue.
    """
    n, d = X.shape
    back = products.transposed(X)
    wide = scatter if isinstance(scatter, ImplicitScatter) else None
    # two arrays hold a vector in the span of the rows
    in_span = 2 * n < d and (scatter is None or wide is not None)

    def rows_of(B: Array) -> Array:
        # C·1 = 0: one row is taken from all, to keep digits where their mean is large
        rows = products.threaded_dot(X, B)
        rows -= rows[:1, :] + 0.0  # not a view of what changes
        return rows

    if in_span:
        pencil = Pencil(
            gram=lambda a: rows_of(products.threaded_dot(back, products.centred(a))),
            A=lambda v: products.threaded_dot(C, v.dual),
            S=None if wide is None else lambda v: wide.dot_in_span(v.coef, v.dual),
            floor=1.0 if scatter is None else scatter.floor,
        )
    else:
        pencil = Pencil(
            gram=None,
            A=lambda v: products.threaded_dot(
                back, products.less_mean(products.threaded_dot(C, rows_of(v.coef)))
            ),
            S=None if scatter is None else lambda v: scatter.dot(v.coef),
            floor=1.0 if scatter is None else scatter.floor,
            solve=scatter.solve if isinstance(scatter, ExplicitScatter) else None,
        )
    width = min(rank + OVERSAMPLING, n, d)
    start = like(rng.standard_normal((n if in_span else d, width)), X)
    if in_span:
        start = products.less_mean(start)  # coefficients add up to zero: those of Av and Sv do
    if scatter is not None:
        start = pencil.A(pencil.vectors(start))  # S⁻¹ is the dearer step: begin nearer
    values, coef, residual = leading_pairs(pencil, rank, start, tolerance)
    if residual > tolerance:
        warnings.warn(
            f"the metric's {rank} directions were found to {residual:.2g} of the largest "
            f"eigenvalue only, not to eigen_tol = {tolerance:g}: ask for fewer, with n_components",
            ConvergenceWarning,
            stacklevel=2,
        )
    vectors = products.threaded_dot(back, coef) if in_span else coef
    return values, products.to_dense(vectors), residual
