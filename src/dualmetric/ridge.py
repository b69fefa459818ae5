r"""Ridge regression of class indicators: all penalties from one decomposition.

With centred rows X and centred indicators Y of the classes (one where a row is of the class and
zero elsewhere, minus the mean), the coefficients for a penalty α are

.. math:: B = (X^\top X + \alpha I)^{-1} X^\top Y.

Of XᵀX = VΛVᵀ, or of XXᵀ = UΛUᵀ where rows are fewer than features, every penalty takes a diagonal
matrix: B = V(Λ + αI)⁻¹VᵀXᵀY = XᵀU(Λ + αI)⁻¹UᵀY. The same holds for what the regression without a
row predicts for this row: its error is that of the full regression divided by one minus the row's
entry on the diagonal of the hat matrix X(XᵀX + αI)⁻¹Xᵀ + 11ᵀ/n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._arrays import eigen, ops
from ._arrays.krylov import Vectors, conjugate_gradients
from ._arrays.namespace import blocks_of, like, namespace, precision, to_numpy
from ._types import Array, Matrix
from .scatter import DENSE_LIMIT

PENALTIES = np.geomspace(1e-7, 1e2, 19)
"""Penalties to try, relative to the mean eigenvalue."""

_MAX_STEPS = 2000  # of conjugate gradients
_HELD_OUT = 2000  # rows at most that penalties are compared on, where rows are not decomposed
_THIN = 0.1  # share of stored entries below which sparse products are faster than dense ones
ROUGH = 1e-2
"""Residual of B, relative to XᵀY, that is good enough to compare penalties: on text, mAP changes by
less than a tenth of a point."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Eigenvectors that serve every penalty; no label takes part."""

    X: Matrix  # (n, d): rows, not centred
    mean: Matrix  # (d,): their mean, in float64
    values: Array  # (r,): eigenvalues Λ, ascending, on the host
    left: Matrix  # (n, r): XV for the centred rows X, or U where ``right`` is None
    right: Matrix | None  # (d, r): V, in float64


class Targets(NamedTuple):
    """Classes of the rows of a decomposition, and what is regressed."""

    codes: Array  # (n,): number of the class of each row
    shares: Array  # (k,): how many of the rows each class has
    image: Matrix  # (r, k): VᵀXᵀY, or UᵀY, in float64


def can_decompose(X: Matrix) -> bool:
    """Whether X has so few rows, or so few features, that `decompose` is cheap."""
    return min(X.shape) <= DENSE_LIMIT


def decompose(X: Matrix) -> Decomposition:
    """Eigenvectors of the d × d or the n × n inner products of the centred rows."""
    n, d = X.shape
    mean = ops.column_sums(X) / n
    if n <= d:
        values, vectors = eigen.eigh(_gram(X))
        return Decomposition(X, mean, np.maximum(values[:-1], 0.0), vectors[:, :-1], None)
    values, vectors = eigen.eigh(_scatter(X, mean))
    values = np.maximum(values, 0.0)
    turn = like(vectors, X)
    if ops.is_dense(X):
        near = like(mean, X)
        parts = [(X[rows, :] - near) @ turn for rows in blocks_of(X, n, 8 * d)]
        left = ops.stacked(parts)
    else:
        left = ops.dot(X, turn) - like(mean @ vectors, X)
    return Decomposition(X, mean, values, left, vectors)


def _gram(X: Matrix) -> Matrix:
    """XXᵀ of the centred rows (n × n), in float64, with another last eigenvector.

    This is the vector of ones, which centred rows are orthogonal to.
    """
    K = ops.gram(X)
    K += 2.0 * float(namespace(K).linalg.trace(K)) / X.shape[0]
    return K


def _scatter(X: Matrix, mean: Matrix) -> Matrix:
    """XᵀX of the centred rows (d × d), in float64."""
    if not ops.is_dense(X) and X.nnz < _THIN * X.shape[0] * X.shape[1]:
        X64 = ops.to_float64(X)
        return (X64.T @ X64).toarray() - X.shape[0] * np.outer(mean, mean)
    total: Any = 0.0
    for _, block in _centred_blocks(X, mean):
        total = total + block.T @ block
    return total


def _centred_blocks(X: Matrix, mean: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Rows minus their mean, dense and in float64, a block at a time."""
    for rows in blocks_of(X, X.shape[0], 16 * X.shape[1]):
        yield rows, ops.to_float64(ops.to_dense(X[rows, :])) - mean


def _members(codes: Array, n_classes: int) -> sp.csr_matrix:
    """The matrix (k, n) with a one where a row is of a class."""
    n = len(codes)
    return sp.csr_matrix((np.ones(n), (codes, np.arange(n))), shape=(n_classes, n))


def cross_products(X: Matrix, mean: Matrix, codes: Array, n_classes: int) -> Matrix:
    """XᵀY (d × k) in float64: sums of the centred rows of each class."""
    members = _members(codes, n_classes)
    if not ops.is_dense(X):
        sums = (members @ ops.to_float64(X)).toarray()
        return (sums - np.bincount(codes, minlength=n_classes)[:, None] * mean).T
    total: Any = 0.0
    for rows, block in _centred_blocks(X, mean):
        total = total + ops.dot(members[:, rows], block)
    return total.T


def targets(found: Decomposition, codes: Array) -> Targets:
    """Targets of the regression for the rows' classes, which are numbered from 0."""
    sizes = np.bincount(codes)
    if found.right is None:
        image = ops.dot(_members(codes, len(sizes)), found.left).T
    else:
        image = found.right.T @ cross_products(found.X, found.mean, codes, len(sizes))
    return Targets(codes, sizes / len(codes), image)


def mean_eigenvalue(X: Matrix) -> float:
    """Mean of the eigenvalues of XᵀX that are not zero, for centred rows: a unit of penalties."""
    n, d = X.shape
    return 0.5 * (n - 1) * ops.mean_sq_distance(X) / min(n - 1, d)


def coefficients(found: Decomposition, aims: Targets, alpha: float) -> Matrix:
    """B (d × k) for one penalty, in float64."""
    inner = like(1.0 / (found.values + alpha), aims.image)[:, None] * aims.image
    if found.right is not None:
        return ops.threaded_dot(found.right, inner)
    return _from_rows(found.X, found.mean, ops.threaded_dot(found.left, inner))


def coefficients_for_one(X: Matrix, codes: Array, alpha: float) -> Matrix:
    """The same for one penalty, by a Cholesky factor: ten times as fast as `decompose`.

    α must be clear of rounding: see `is_clear`. LinAlgError where it is not.
    """
    n, d = X.shape
    mean = ops.column_sums(X) / n
    sizes = np.bincount(codes)
    if n <= d:
        root = eigen.upper_root(eigen.symmetric(_gram(X), alpha))
        aims = Targets(codes, sizes / n, root)
        Y = _centred_indicators(aims, slice(None), root)
        return _from_rows(X, mean, ops.minus_mean(eigen.solve_factored(root, Y)))
    root = eigen.upper_root(eigen.symmetric(_scatter(X, mean), alpha))
    return eigen.solve_factored(root, cross_products(X, mean, codes, len(sizes)))


def _from_rows(X: Matrix, mean: Matrix, A: Matrix) -> Matrix:
    """XᵀA for the centred rows X, in float64; the columns of A add up to zero."""
    if not ops.is_dense(X):  # then rows need not be centred
        return ops.tdot(ops.to_float64(X), A)
    total: Any = 0.0
    for rows, block in _centred_blocks(X, mean):
        total = total + ops.threaded_tdot(block, A[rows, :])
    return total


def loo_errors(found: Decomposition, aims: Targets, alphas: Array) -> Array:
    """Squared error of each row, summed over classes, in the regression without this row.

    One row per penalty (n_alphas × n), in float64 and on the host.
    """
    n, k = len(aims.codes), len(aims.shares)
    free = free_shares(found, alphas)
    errors = np.empty((len(alphas), n))
    for rows in blocks_of(found.left, n, 24 * k):
        Y = _centred_indicators(aims, rows, found.left)
        for number, alpha in enumerate(alphas):
            rest = _residuals(found, aims, alpha, rows, Y)
            errors[number, rows] = to_numpy(ops.row_lengths(rest))
    return (errors / free) ** 2


def free_shares(found: Decomposition, alphas: Array) -> Array:
    """One minus the diagonal of the hat matrix, for each penalty (n_alphas × n); on the host."""
    n, r = found.left.shape
    gains = _gains(found, np.asarray(alphas)[:, None]).T  # (r, n_alphas)
    parts = []
    for rows in blocks_of(found.left, n, 16 * r):
        left = ops.to_float64(found.left[rows, :])
        parts.append(to_numpy((left * left) @ like(gains, left)))
    sums = np.concatenate(parts).T
    free = sums if found.right is None else 1.0 - 1.0 / n - sums
    # a row that alone decides its own prediction leaves nothing but rounding
    return np.maximum(free, np.finfo(precision(found.left)).eps)


def _gains(found: Decomposition, alpha: Any) -> Array:
    """Weight of each eigenvector in the fit, or in the residual if ``right`` is None.

    With few rows the fit is nearly exact for small penalties. Computed as a difference of two
    nearly equal numbers, the residual would lose its digits.
    """
    return (alpha if found.right is None else 1.0) / (found.values + alpha)


def _residuals(found: Decomposition, aims: Targets, alpha: float, rows: slice, Y: Matrix) -> Matrix:
    """Y minus its fit, for a slice of the rows."""
    left = found.left[rows, :]
    image = like(_gains(found, alpha), aims.image)[:, None] * aims.image
    product = left @ like(image, left)
    return product if found.right is None else Y - product


def _centred_indicators(aims: Targets, rows: slice, X: Matrix) -> Matrix:
    """Y for a slice of the rows, in the precision of X and where X is."""
    codes = aims.codes[rows]
    Y = np.tile(-aims.shares, (len(codes), 1))
    Y[np.arange(len(codes)), codes] += 1.0
    return like(Y, X)


class Products:
    """The regression from products with the rows alone, where neither n × n nor d × d is cheap."""

    def __init__(self, X: Matrix, codes: Array, n_classes: int) -> None:
        self._X, self._back = X, ops.transposed(X)
        self._mean = ops.column_sums(X) / X.shape[0]
        self._shares = np.bincount(codes, minlength=n_classes) / len(codes)
        self._cross = like(cross_products(X, self._mean, codes, n_classes), X)

    def solve(self, alpha: float, tol: float, start: Matrix | None = None) -> tuple[Matrix, float]:
        """B (d × k) by conjugate gradients, and its largest residual, relative to that of zero.

        They stop when no residual is above ``tol``, or after 2,000 steps. B is in the precision of
        X.
        """

        def dot(v: Vectors) -> Matrix:
            rows = ops.minus_mean(ops.threaded_dot(self._X, v.coef))
            image = ops.threaded_dot(self._back, rows)
            return ops.combined(image, 1.0, v.coef, alpha)

        rest = self._cross if start is None else self._cross - dot(Vectors(start, start))
        sizes = ops.column_dots(self._cross, self._cross)
        goal = tol**2 * sizes
        found, left, _ = conjugate_gradients(
            dot, None, Vectors(rest, rest), lambda left, _: bool((left <= goal).all()), _MAX_STEPS
        )
        relative = np.divide(left, sizes, out=np.zeros_like(left), where=sizes > 0)
        B = found.coef if start is None else start + found.coef
        return B, float(np.sqrt(relative.max()))

    def errors(self, B: Matrix, X: Matrix, codes: Array) -> Array:
        """Squared error of the predictions for other rows, summed over classes; on the host."""
        fitted = ops.dot(X, B) - like(self._mean, B) @ B
        rest = fitted - _centred_indicators(Targets(codes, self._shares, B), slice(None), B)
        return to_numpy(ops.row_lengths(rest)).astype(np.float64) ** 2


def held_out_errors(
    X: Matrix, codes: Array, alphas: Array, tol: float, rng: np.random.Generator
) -> Array:
    """Squared errors like those of `loo_errors`, of some rows, by a regression on the others.

    Up to 2,000 rows, and at most a fifth, are held out. Small penalties take many steps. So the
    largest penalty comes first, and each solution starts from the one before. When the mean error
    has exceeded the smallest one twice in a row, the other penalties are not tried: their errors
    are infinite.
    """
    n, k = X.shape[0], int(codes.max()) + 1
    held = np.zeros(n, dtype=bool)
    held[rng.choice(n, min(n // 5, _HELD_OUT), replace=False)] = True
    problem = Products(ops.take_rows(X, np.flatnonzero(~held)), codes[~held], k)
    other = ops.take_rows(X, np.flatnonzero(held))
    errors = np.full((len(alphas), other.shape[0]), np.inf)
    B, best, n_worse = None, np.inf, 0
    for number in np.argsort(alphas)[::-1]:
        B, _ = problem.solve(float(alphas[number]), max(tol, ROUGH), B)
        errors[number] = problem.errors(B, other, codes[held])
        mean = errors[number].mean()
        n_worse = n_worse + 1 if mean > best else 0
        best = min(best, mean)
        if n_worse == 2:
            break
    return errors


def is_clear(alpha: float, shape: tuple[int, ...], mean: float) -> bool:
    """Whether a penalty is clear of the rounding errors of XᵀX or XXᵀ.

    ``shape`` is that of the rows X, and ``mean`` their mean eigenvalue.
    """
    return alpha > 1e-12 * mean * min(shape)


def is_rounding(B: Matrix, shape: tuple[int, ...], mean: float, alpha: float) -> bool:
    """Whether B is zero but for rounding: all classes have the same mean.

    ``shape`` is that of the rows X, and ``mean`` their mean eigenvalue.
    """
    n, d = shape
    trace = mean * min(n - 1, d)
    size = float(np.sqrt(ops.column_dots(B, B).sum()))
    # ‖B‖(tr XᵀX + α) ≥ ‖XᵀY‖
    return not size * (trace + alpha) > 1e-12 * np.sqrt(trace * n)


def as_factor(B: Matrix, rank: int | None) -> Matrix:
    """L with LLᵀ = BBᵀ and orthogonal columns, the longest first, cut to ``rank``; in float64.

    B has columns that add up to zero, so that there are fewer directions than classes.
    """
    B = ops.to_float64(B)
    d, k = B.shape
    few = k <= d
    squares, vectors = eigen.eigh(B.T @ B if few else B @ B.T)
    smallest = max(B.shape) * np.finfo(np.float64).eps * squares[-1]
    keep = np.flatnonzero(squares > smallest)[::-1][:rank]
    turn = ops.take_columns(vectors, keep)
    return B @ turn if few else turn * like(np.sqrt(squares[keep]), turn)
