"""From dual variables to the metric: M̂ = 1/(λN)·Σ β_t A_t (6) and its positive part, as a factor.

M = LLᵀ, and L is all that is kept. Where the d × d matrix is small it is written out and
decomposed; where it is not, its leading eigenvectors are found from products with X and the pair
graph alone.
"""

import warnings

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from . import products
from ._system import blas_threads_for
from ._types import Array, Rows
from .triplets import Triplets
from .whitening import ExplicitScatter, ImplicitScatter, Scatter

DENSE_LIMIT = 4000
"""Features up to which the matrix is written out: a few seconds and 128 MB of float64."""

TOLERANCE = 0.02
"""Largest residual of a direction found without the matrix, relative to the largest eigenvalue.

On 20 Newsgroups ranking is the same from 0.06 downwards, and each further digit doubles the work.
"""

OVERSAMPLING = 10
_MAX_PRODUCTS = 30

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
) -> Array:
    """Return L with LLᵀ = Π_PSD(Σ weight_t A_t), cut to the ``rank`` largest eigenvalues.

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
    """
    used = np.flatnonzero(weight)
    index, scaled = triplets.index[used], (weight[used] / unit**2).astype(X.dtype)
    C = products.pair_graph(index, scaled, X.shape[0])
    if X.shape[1] <= DENSE_LIMIT:
        S = scatter.matrix if isinstance(scatter, ExplicitScatter) else None
        values, vectors = positive_part(products.pair_matrix(X, C), rank, S)
    else:
        wide = scatter if isinstance(scatter, ImplicitScatter) else None
        values, vectors = leading_part(X, C, rank or DEFAULT_WIDE_RANK, rng, wide)
    return vectors * (np.sqrt(values) / unit).astype(X.dtype)


def positive_part(A: Array, rank: int | None = None, S: Array | None = None) -> tuple[Array, Array]:
    """Positive eigenvalues of a symmetric matrix, largest first, and their eigenvectors.

    VwVᵀ is the positive semi-definite matrix nearest to A in Frobenius norm, or the nearest of
    the given rank; with S, the pairs solve Av = wSv. Only lower triangles are read.
    """
    d = len(A)
    subset = None if rank is None or rank >= d else (d - rank, d - 1)
    driver = (
        ("evd" if subset is None else "evr") if S is None else ("gvd" if subset is None else "gvx")
    )
    with blas_threads_for(d):
        values, vectors = eigh(A, S, subset_by_index=subset, driver=driver, check_finite=False)
    # below this an eigenvalue is rounding; the largest in magnitude may not be among those found
    size = np.abs(values).max() if S is not None else max(np.abs(values).max(), np.abs(A).max())
    floor = size * np.sqrt(d) * np.finfo(A.dtype).eps
    keep = np.flatnonzero(values > floor)[::-1]
    return values[keep], np.ascontiguousarray(vectors[:, keep])


def leading_part(
    X: Rows,
    C: Rows,
    rank: int,
    rng: np.random.Generator,
    scatter: ImplicitScatter | None = None,
) -> tuple[Array, Array]:
    """Largest positive eigenvalues of XᵀCX and their vectors, from products with X and C alone.

    A block Krylov method: the residuals of the leading Ritz vectors, made orthogonal to the basis,
    are what it grows by; at three blocks it starts again from the Ritz vectors. It ends when every
    residual ‖Av − θv‖ is at most `TOLERANCE` times the largest |θ|, which is also how far θ can be
    from an eigenvalue; where 30 products do not get there, it warns with the residual.

    With a scatter S the pairs solve Av = θSv: orthogonal means with respect to S, the residual
    r = Av − θSv is measured as √(rᵀS⁻¹r), and the basis grows by S⁻¹r, for which a few steps of
    conjugate gradients do.

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
    scatter : ImplicitScatter, optional
        S; the identity where it is None.
    """
    d = X.shape[1]
    back = products.transposed(X)

    def multiply(B: Array) -> Array:
        # C·1 = 0: one row is taken from all, to keep digits where their mean is large
        rows = products.threaded_dot(X, B)
        return products.threaded_dot(back, products.threaded_dot(C, rows - rows[0]))

    def unstretch(B: Array) -> Array:
        return B if scatter is None else scatter.solve(B, tol=0.1, max_iter=8)

    width = min(rank + OVERSAMPLING, d)
    first = rng.standard_normal((d, width)).astype(X.dtype)
    Q, SQ = _orthonormal(first if scatter is None else unstretch(multiply(first)), None, scatter)
    if Q.shape[1] == 0:  # no weights, or rows that do not differ
        return np.zeros(0, X.dtype), np.zeros((d, 0), X.dtype)
    AQ = multiply(Q)
    for n_products in range(1, _MAX_PRODUCTS + 1):
        values, Y = np.linalg.eigh((Q.T @ AQ).astype(np.float64))
        size = np.abs(values).max()
        lead = np.argsort(values)[::-1][:width]
        theta, Y = values[lead].astype(X.dtype), Y[:, lead].astype(X.dtype)
        ritz, image = Q @ Y, AQ @ Y
        stretched = ritz if scatter is None else SQ @ Y
        residual = image - stretched * theta
        step = unstretch(residual)
        n_positive = np.count_nonzero(theta[:rank] > 10 * np.finfo(X.dtype).eps * size)
        # the first that is not positive too: it may be about to become so
        squares = np.einsum("ij,ij->j", residual, step)[: min(rank, n_positive + 1)]
        worst = np.sqrt(max(float(squares.max()), 0.0))
        if worst <= TOLERANCE * size or Q.shape[1] == d:
            break
        if n_products == _MAX_PRODUCTS:
            warnings.warn(
                f"the metric's {rank} directions were not found to the tolerance {TOLERANCE:g} in "
                f"{_MAX_PRODUCTS} products (residual {worst / size:.2g}): ask for fewer, with "
                "n_components",
                ConvergenceWarning,
                stacklevel=2,
            )
            break
        if Q.shape[1] > 2 * width:
            Q, AQ, SQ = ritz, image, stretched
        grown, stretched = _orthonormal(step[:, : d - Q.shape[1]], (Q, SQ), scatter)
        if grown.shape[1] == 0:  # the basis is closed under the product
            break
        Q, AQ = np.hstack([Q, grown]), np.hstack([AQ, multiply(grown)])
        SQ = Q if scatter is None else np.hstack([SQ, stretched])
    return theta[:n_positive], np.ascontiguousarray(ritz[:, :n_positive])


def _orthonormal(
    W: Array, basis: tuple[Array, Array] | None, scatter: ImplicitScatter | None
) -> tuple[Array, Array]:
    """Columns V that span W less the basis Q, with VᵀSV = I, and SV.

    By the eigenvectors of WᵀSW, which costs two matrix products where a QR decomposition of a tall
    matrix is slow; twice, for what rounding leaves the first time. Columns that vanish are dropped.
    """
    if basis is not None:
        W = W - basis[0] @ (basis[1].T @ W)
    W = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(W.dtype).tiny)
    SW = W if scatter is None else scatter.dot(W)
    for again in (True, False):
        values, vectors = np.linalg.eigh((W.T @ SW).astype(np.float64))
        keep = values > values[-1:] * W.shape[1] * np.finfo(W.dtype).eps
        turn = (vectors[:, keep] / np.sqrt(values[keep])).astype(W.dtype)
        W, SW = W @ turn, SW @ turn
        if again and basis is not None:
            overlap = basis[1].T @ W
            W = W - basis[0] @ overlap
            SW = W if scatter is None else SW - basis[1] @ overlap
        elif scatter is None:
            SW = W
    return W, SW
