r"""Whitening: a regulariser that knows how rows of one class differ.

The paper's ‖M‖_F² becomes ‖S^½MS^½‖_F², with

.. math:: S = (1 - s)\,W + s\,\frac{\operatorname{tr} W}{d}\,I, \qquad W = X^\top K X,

where W is the scatter of rows about the mean of their class, or of the differences between anchor
and positive where only triplets are known, and s is the shrinkage. It is the paper's problem for
the rows S^−½x; s = 1 leaves them as they are, up to a factor. K is never written out, and neither
is S where the rows are wide.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from . import matrices, products
from ._namespace import like, precision, to_numpy
from ._types import Array, Rows
from .krylov import Vectors, conjugate_gradients

_TOLERANCE = 1e-2  # of the random columns that project whitened rows
_MAX_STEPS = 200


@dataclass(frozen=True, eq=False)
class Spread:
    """K of W = XᵀKX, as what it does to a dense array with one row an example.

    Attributes
    ----------
    apply : callable
        ``apply(Q)`` is KQ.
    sample : callable
        ``sample(m, rng)`` draws m Gaussian columns with covariance K.
    trace : float
        tr W.
    """

    apply: Callable[[Array], Array]
    sample: Callable[[int, np.random.Generator], Array]
    trace: float


def within_classes(X: Rows, labels: Array) -> Spread:
    """K = H/n, where HQ is Q less the mean of each class: scatter about class means."""
    n = X.shape[0]
    codes = np.unique(np.ravel(labels), return_inverse=True)[1]  # they may come as a column
    sizes = np.bincount(codes)
    members = sp.csr_matrix((np.ones(n), (codes, np.arange(n))), shape=(len(sizes), n))

    def centred(Q: Array) -> Array:
        return products.less_class_means(Q, codes, members, sizes)

    return Spread(
        lambda Q: centred(Q) / n,
        lambda m, rng: centred(rng.standard_normal((n, m))) / np.sqrt(n),
        _clear_of_rounding(products.within_scatter(X, codes, members, sizes) / n, X),
    )


def of_pairs(X: Rows, left: Array, right: Array) -> Spread:
    """K = PᵀP/N, where PQ holds the differences of N pairs of rows: scatter of differences."""
    n, n_pairs = X.shape[0], len(left)
    signs = np.repeat([1.0, -1.0], n_pairs)
    number = np.tile(np.arange(n_pairs), 2)
    P = sp.csr_matrix((signs, (number, np.concatenate([left, right]))), shape=(n_pairs, n))
    K = ((P.T @ P) / n_pairs).astype(precision(X))  # once: every step of a solve applies it
    K = products.placed(K, X)
    return Spread(
        lambda Q: K @ Q,
        lambda m, rng: (P.T @ rng.standard_normal((n_pairs, m))) / np.sqrt(n_pairs),
        _clear_of_rounding(float(products.sq_distances(X, left, right).mean(dtype=np.float64)), X),
    )


def _clear_of_rounding(trace: float, X: Rows) -> float:
    """tr W, or 0 where it is so much less than the scatter of all rows that it is rounding."""
    return trace if trace > 1e-12 * products.mean_sq_distance(X) else 0.0


class ScatterSums(NamedTuple):
    """Sums over rows that give their scatter about class means; they add up over blocks of rows.

    Attributes
    ----------
    outer : ndarray of shape (d, d)
        Σ(x − o)(x − o)ᵀ for an origin o, the same for all blocks.
    sums : ndarray of shape (n_classes, d)
        Σ(x − o) over each class.
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    """

    outer: Array
    sums: Array
    counts: Array

    def plus(self, other: "ScatterSums") -> "ScatterSums":
        """The sums over both sets of rows."""
        return ScatterSums(*(a + b for a, b in zip(self, other, strict=True)))

    def within(self) -> Array:
        """W, the scatter of all these rows about the mean of their class."""
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        return (self.outer - self.sums.T @ means) / self.counts.sum()


def scatter_sums(rows: Array, codes: Array, n_classes: int, origin: Array) -> ScatterSums:
    """Sums over one block of dense rows whose classes are ``codes``, in float64."""
    precision = np.float32 if rows.dtype == np.float32 else np.float64
    moved = np.subtract(rows, origin, dtype=precision)
    members = sp.csr_matrix(
        (np.ones(len(codes), moved.dtype), (codes, np.arange(len(codes)))),
        shape=(n_classes, len(codes)),
    )
    return ScatterSums(
        (moved.T @ moved).astype(np.float64),
        (members @ moved).astype(np.float64),
        np.bincount(codes, minlength=n_classes),
    )


class ExplicitScatter:
    """S written out, from W (its lower triangle), and factored as UᵀU; for few features."""

    def __init__(self, W: Array, trace: float, shrinkage: float, n_features: int) -> None:
        self.floor = shrinkage * trace / n_features  # no eigenvalue of S is below
        self.matrix = matrices.symmetric((1.0 - shrinkage) * W, self.floor)
        try:
            self._upper = matrices.upper_root(self.matrix)
        except np.linalg.LinAlgError:
            dtype = precision(W)
            raise ValueError(
                f"shrinkage={shrinkage:g} is too small for these {dtype} rows: some combinations "
                "of features do not vary within classes, and the whitening would divide by "
                f"rounding errors. Raise it{', or pass float64' if dtype == np.float32 else ''}"
            ) from None

    @classmethod
    def of_rows(cls, X: Rows, spread: Spread, shrinkage: float, n_features: int) -> Self:
        """S of the given rows."""
        W = products.quadratic(X, spread.apply)
        return cls(W, spread.trace, shrinkage, n_features)

    def whitening_columns(self, m: int, rng: np.random.Generator) -> Array:
        """m columns with the law of S^−½g, g Gaussian: they project whitened rows at random."""
        draws = rng.standard_normal((self.matrix.shape[0], m))
        return like(matrices.solve_upper(self._upper, draws), self.matrix)

    def root(self) -> Array:
        """L with LLᵀ = S⁻¹: Lᵀx is the whitened row, as `whiten` has it."""
        columns = matrices.solve_upper(self._upper, np.eye(self.matrix.shape[0]))
        return products.to_dense(like(columns, self.matrix))

    def dot(self, B: Array) -> Array:
        """S·B."""
        return self.matrix @ B

    def solve(self, B: Array) -> Array:
        """S⁻¹·B."""
        return matrices.solve_factored(self._upper, B)

    def whiten(self, rows: Array) -> Array:
        """Rows x as U^−ᵀx: whitened, up to a rotation."""
        white = matrices.solve_upper(self._upper, rows.T, transpose=True)
        return products.to_dense(like(white.T, rows))


class ImplicitScatter:
    """S as products with X, and its inverse by conjugate gradients; for many features."""

    def __init__(self, X: Rows, spread: Spread, shrinkage: float) -> None:
        self._X, self._back = X, products.transposed(X)
        self._spread, self._shrinkage = spread, shrinkage
        self.floor = shrinkage * spread.trace / X.shape[1]  # no eigenvalue of S is below

    def dot(self, B: Array) -> Array:
        """S·B."""
        # K·1 = 0: what all rows have in common is taken out, before and after, to keep digits
        # where their mean is large
        rows = products.threaded_dot(self._X, B)
        inner = products.less_mean(self._spread.apply(rows - rows[:1, :]))
        scatter = products.threaded_dot(self._back, inner)
        scatter *= 1.0 - self._shrinkage
        scatter += self.floor * B
        return scatter

    def dot_in_span(self, a: Array, Ga: Array) -> Array:
        """Coefficients of S·Xᵀa, given XXᵀa: S·Xᵀa = Xᵀ((1 − s)K·Ga + (s·tr W/d)·a)."""
        scatter = self._spread.apply(Ga)
        scatter *= 1.0 - self._shrinkage
        scatter += self.floor * a
        return scatter

    def solve(self, B: Array, *, tol: float, max_iter: int) -> Array:
        """S⁻¹·B by conjugate gradients, each column until its residual is ``tol`` of B's.

        After ``max_iter`` steps the columns are as they are: `residual` says how good.
        """
        goal = tol**2 * products.column_dots(B, B)
        found = conjugate_gradients(
            lambda v: self.dot(v.coef),
            None,
            Vectors(B, B),
            lambda left, _: bool((left <= goal).all()),
            max_iter,
        )
        return found[0].coef

    def residual(self, Y: Array, B: Array) -> float:
        """Largest ‖SY − B‖/‖B‖ over the columns."""
        rest = self.dot(Y) - B
        left = np.sqrt(products.column_dots(rest, rest))
        sizes = np.sqrt(products.column_dots(B, B))
        return float(np.divide(left, sizes, out=np.zeros_like(left), where=sizes > 0).max())

    def whitening_columns(self, m: int, rng: np.random.Generator) -> Array:
        """m columns with the law of S^−½g, g Gaussian.

        S⁻¹(√(s·tr W/d)·g₁ + √(1−s)·Xᵀg₂) with g₁ standard and g₂ of covariance K has covariance
        S⁻¹SS⁻¹ = S⁻¹.
        """
        draws = np.sqrt(self.floor) * rng.standard_normal((self._X.shape[1], m))
        within = like(self._spread.sample(m, rng), self._X)
        within = to_numpy(products.threaded_dot(self._back, within))
        draws += np.sqrt(1.0 - self._shrinkage) * within
        draws = like(draws, self._X)
        columns = self.solve(draws, tol=_TOLERANCE, max_iter=_MAX_STEPS)
        residual = self.residual(columns, draws)
        if not residual <= 2 * _TOLERANCE:  # the true one, and rounding has a part in it
            warnings.warn(
                f"whitening was not solved to the tolerance {_TOLERANCE:g} in {_MAX_STEPS} steps "
                f"of conjugate gradients (residual {residual:.2g}): raise shrinkage, which is "
                f"{self._shrinkage:g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return columns


Scatter = ExplicitScatter | ImplicitScatter
