"""Square matrices on the host or on a device: Cholesky factors and eigenvectors.

Only lower triangles are read. Matrices and vectors stay where they are; eigenvalues come to the
host. On a device everything is float64: such matrices are small compared with the rows.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg import eigh as scipy_eigh

from .._types import Array
from .namespace import is_device_array, library, like, namespace, to_numpy
from .system import blas_threads_for

# Rows up to which a second thread saves a third of the time at most. Where the cores are busy, the
# threads of a decomposition wait for each other, and it takes up to a hundred times as long.
_ENOUGH = 1024


def symmetric(S: Any, ridge: float) -> Any:
    """The symmetric matrix with the lower triangle of S, and ``ridge`` added to its diagonal."""
    xp = namespace(S)
    S = xp.tril(S) + xp.tril(S, k=-1).T
    if is_device_array(S):
        return S + ridge * xp.eye(S.shape[0], dtype=S.dtype, device=S.device)
    S[np.diag_indices_from(S)] += ridge
    return S


def diagonal_like(values: Any, X: Any) -> Any:
    """The diagonal matrix of the given numbers, in the precision of X and where X is."""
    return like(np.diag(np.asarray(values)), X)


def upper_root(S: Any) -> Any:
    """Upper triangular U with UᵀU = S, in float64; LinAlgError if S is not positive definite.

    A matrix that is not positive definite in its own precision is refused too: its smallest
    eigenvalues are rounding errors.
    """
    lower = _cholesky(S)
    xp = namespace(S)
    return (lower if S.dtype == xp.float64 else _cholesky(xp.asarray(S, dtype=xp.float64))).T


def _cholesky(S: Any) -> Any:
    try:
        with blas_threads_for(S.shape[0], _ENOUGH):
            lower = namespace(S).linalg.cholesky(S)
    except RuntimeError as error:  # PyTorch's
        raise np.linalg.LinAlgError(str(error)) from None
    if not np.isfinite(float(namespace(S).sum(lower))):  # CuPy raises nothing
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return lower


def solve_upper(U: Any, B: Any, *, transpose: bool = False) -> Any:
    """U⁻¹B, or U^−ᵀB, for an upper triangular U; in the precision of U."""
    if not is_device_array(U):
        with blas_threads_for(len(U), _ENOUGH):
            return solve_triangular(U, B, trans="T" if transpose else "N")
    B = like(B, U)
    if library(U) == "torch":
        import torch

        return torch.linalg.solve_triangular(U.T if transpose else U, B, upper=not transpose)
    if library(U) == "cupy":
        from cupyx.scipy.linalg import solve_triangular as solve_there

        return solve_there(U, B, trans="T" if transpose else "N")
    return namespace(U).linalg.solve(U.T if transpose else U, B)


def solve_factored(U: Any, B: Any) -> Any:
    """(UᵀU)⁻¹B, in the precision of B."""
    if not is_device_array(U):
        with blas_threads_for(len(U), _ENOUGH):
            return cho_solve((U, False), B).astype(B.dtype)
    return like(solve_upper(U, solve_upper(U, B, transpose=True)), B)


def eigh(K: Any) -> tuple[Array, Any]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix of float64.

    The sign of a vector does not depend on the library or the device that found it: coordinates
    along it are multiplied by random numbers later, and the same seed should give the same metric.
    """
    with blas_threads_for(K.shape[0], _ENOUGH):
        values, vectors = namespace(K).linalg.eigh(K)
    probe = like(np.cos(np.arange(1.0, K.shape[0] + 1.0)), vectors)
    signs = np.where(to_numpy(probe @ vectors) < 0.0, -1.0, 1.0)
    return to_numpy(values), vectors * like(signs, vectors)


def largest_eigenpairs(A: Any, rank: int | None, S: Any = None) -> tuple[Array, Any, float]:
    """The ``rank`` largest eigenvalues w of Av = wSv, their eigenvectors v, and the size of A.

    Eigenvalues are ascending and on the host, and vᵀSv = 1. If S is None it is the identity; if
    rank is None all pairs are returned. The size is the largest entry of A, relative to the
    diagonal of S.
    """
    if is_device_array(A):
        return _largest_on_device(A, rank, S)
    d = len(A)
    subset = None if rank is None or rank >= d else (d - rank, d - 1)
    # before SciPy 1.14, evd fails on a single number
    driver = "evd" if S is None and subset is None and d > 1 else None
    with blas_threads_for(d, _ENOUGH):
        found = scipy_eigh(A, S, subset_by_index=subset, driver=driver, check_finite=False)
        if rank is not None and len(found[0]) < min(rank, d):
            # LAPACK lost some of a very wide spectrum
            values, vectors = scipy_eigh(A, S, check_finite=False)
            found = values[-rank:], vectors[:, -rank:]
    sizes = A if S is None else A.diagonal() / S.diagonal()
    return *found, np.abs(sizes).max()


def _largest_on_device(A: Any, rank: int | None, S: Any) -> tuple[Array, Any, float]:
    """The same on a device: v = U⁻¹y for the eigenvectors y of U^−ᵀAU⁻¹, where UᵀU = S."""
    xp = namespace(A)
    wide = symmetric(xp.astype(A, xp.float64), 0.0)
    sizes, U = wide, None
    if S is not None:
        U = upper_root(S)
        sizes = xp.linalg.diagonal(wide) / xp.linalg.diagonal(xp.astype(S, xp.float64))
        half = solve_upper(U, wide, transpose=True)
        wide = symmetric(solve_upper(U, half.T, transpose=True), 0.0)
    values, vectors = eigh(wide)
    if rank is not None and rank < A.shape[0]:
        values, vectors = values[-rank:], vectors[:, -rank:]
    vectors = vectors if U is None else solve_upper(U, vectors)
    return values, like(vectors, A), float(xp.max(xp.abs(sizes)))
