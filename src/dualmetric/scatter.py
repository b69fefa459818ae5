r"""Scatter: a regulariser that takes into account how rows of one class differ.

The paper's ‖M‖_F² becomes ‖S^½MS^½‖_F², with

.. math:: S = (1 - s)\,W + s\,\frac{\operatorname{tr} W}{d}\,I, \qquad W = X^\top K X,

where W is the scatter of rows about the mean of their class, or of the differences of rows that
should be close where there are no classes, and s is the shrinkage. It is the paper's problem for
the rows S^−½x; s = 1 leaves them as they are, up to a factor. K is never written out, and neither
is S where the rows have many features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ._arrays import eigen, ops
from ._arrays.krylov import Vectors, conjugate_gradients
from ._arrays.namespace import like, precision, to_numpy
from ._types import Array, Matrix
from ._validation import warn

DENSE_LIMIT = 4000
"""Features up to which a d × d matrix is written out: a few seconds and 128 MB of float64."""

_TOLERANCE = 1e-2  # of the random columns that project whitened rows
_MAX_STEPS = 200


@dataclass(frozen=True, eq=False)
class Within:
    """K of W = XᵀKX, as a function of a dense array with one row per example."""

    apply: Callable[[Array], Array]  # ``apply(Q)`` is KQ
    # ``sample(m, rng)`` draws m Gaussian columns with covariance K
    sample: Callable[[int, np.random.Generator], Array]
    trace: float  # tr W


def within_classes(X: Matrix, labels: Array) -> Within:
    """K = H/n, where HQ is Q minus the mean of each class: scatter about class means."""
    n = X.shape[0]
    codes = np.unique(np.ravel(labels), return_inverse=True)[1]  # they may come as a column
    sizes = np.bincount(codes)
    members = sp.csr_matrix((np.ones(n), (codes, np.arange(n))), shape=(len(sizes), n))

    def centred(Q: Array) -> Array:
        return ops.minus_group_means(Q, codes, members, sizes)

    return Within(
        lambda Q: centred(Q) / n,
        lambda m, rng: centred(rng.standard_normal((n, m))) / np.sqrt(n),
        _clear_of_rounding(ops.scatter_trace(X, codes, members, sizes) / n, X),
    )


def within_pairs(X: Matrix, left: Array, right: Array) -> Within:
    """K = PᵀP/N, where PQ holds the differences of N pairs of rows: scatter of differences."""
    n, n_pairs = X.shape[0], len(left)
    signs = np.repeat([1.0, -1.0], n_pairs)
    number = np.tile(np.arange(n_pairs), 2)
    P = sp.csr_matrix((signs, (number, np.concatenate([left, right]))), shape=(n_pairs, n))
    K = ((P.T @ P) / n_pairs).astype(precision(X))  # once: every step of a solve applies it
    K = ops.placed(K, X)
    return Within(
        lambda Q: K @ Q,
        lambda m, rng: (P.T @ rng.standard_normal((n_pairs, m))) / np.sqrt(n_pairs),
        _clear_of_rounding(float(ops.sq_distances(X, left, right).mean(dtype=np.float64)), X),
    )


def _clear_of_rounding(trace: float, X: Matrix) -> float:
    """tr W, or 0 where it is so much less than the scatter of all rows that it is rounding."""
    return trace if trace > 1e-12 * ops.mean_sq_distance(X) else 0.0


def scatter_of(
    X: Matrix, within: Within, shrinkage: float, n_features: int, W: Matrix | None = None
) -> "Scatter":
    """S of the given rows: written out where they have few features, else as products with X.

    ``n_features`` is that of the original rows, where X holds their coordinates in fewer
    dimensions; W is the scatter, where it is known already.
    """
    if within.trace <= 0.0:
        raise ValueError(
            "rows of X that belong together are all equal, so there is no scatter to whiten with: "
            "use shrinkage=1.0"
        )
    if X.shape[1] > DENSE_LIMIT:
        return ProductScatter(X, within, shrinkage)
    W = ops.quadratic(X, within.apply) if W is None else W
    return WrittenScatter(W, within.trace, shrinkage, n_features)


class WrittenScatter:
    """S written out, from W (its lower triangle), and factored as UᵀU; for few features."""

    dot_in_span: Any = None  # only a `ProductScatter` needs it

    def __init__(self, W: Matrix, trace: float, shrinkage: float, n_features: int) -> None:
        self.floor = shrinkage * trace / n_features  # S has no eigenvalue below it
        self.matrix = eigen.symmetric((1.0 - shrinkage) * W, self.floor)
        try:
            self._upper = eigen.upper_root(self.matrix)
        except np.linalg.LinAlgError:
            dtype = precision(W)
            raise ValueError(
                f"shrinkage={shrinkage:g} is too small for these {dtype} rows: some combinations "
                "of features do not vary within classes, and the whitening would divide by "
                f"rounding errors. Raise it{', or pass float64' if dtype == np.float32 else ''}"
            ) from None

    def dot(self, B: Matrix) -> Matrix:
        """S·B."""
        return self.matrix @ B

    def solve(self, B: Matrix) -> Matrix:
        """S⁻¹·B."""
        return eigen.solve_factored(self._upper, B)

    def whitening_columns(self, m: int, rng: np.random.Generator) -> Matrix:
        """m columns with the law of S^−½g, g Gaussian: they project whitened rows at random."""
        draws = rng.standard_normal((self.matrix.shape[0], m))
        return like(eigen.solve_upper(self._upper, draws), self.matrix)

    def root(self) -> Matrix:
        """L with LLᵀ = S⁻¹: Lᵀx is the whitened row."""
        columns = eigen.solve_upper(self._upper, np.eye(self.matrix.shape[0]))
        return ops.to_dense(like(columns, self.matrix))

    def whiten(self, rows: Matrix) -> Matrix:
        """Dense rows x as U^−ᵀx: whitened, up to a rotation."""
        white = eigen.solve_upper(self._upper, rows.T, transpose=True)
        return ops.to_dense(like(white.T, rows))


class ProductScatter:
    """S as products with X, and its inverse by conjugate gradients; for many features."""

    matrix: Any = None  # S is not written out
    solve: Any = None

    def __init__(self, X: Matrix, within: Within, shrinkage: float) -> None:
        self._X, self._back = X, ops.transposed(X)
        self._within, self._shrinkage = within, shrinkage
        self.floor = shrinkage * within.trace / X.shape[1]

    def dot(self, B: Array) -> Array:
        """S·B."""
        # K·1 = 0: what all rows have in common is subtracted, before and after, so that digits are
        # kept where their mean is large
        rows = ops.threaded_dot(self._X, B)
        inner = ops.minus_mean(self._within.apply(rows - rows[:1, :]))
        scatter = ops.threaded_dot(self._back, inner)
        return ops.combined(scatter, 1.0 - self._shrinkage, B, self.floor)

    def dot_in_span(self, a: Array, Ga: Array) -> Array:
        """Coefficients of S·Xᵀa, given XXᵀa: S·Xᵀa = Xᵀ((1 − s)K·Ga + (s·tr W/d)·a)."""
        return ops.combined(self._within.apply(Ga), 1.0 - self._shrinkage, a, self.floor)

    def solve_iteratively(self, B: Array, *, tol: float, max_iter: int) -> Array:
        """S⁻¹·B by conjugate gradients, each column until its residual is ``tol`` of B's.

        It stops after ``max_iter`` steps in any case: `residual` says how good the result is.
        """
        goal = tol**2 * ops.column_dots(B, B)
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
        left = np.sqrt(ops.column_dots(rest, rest))
        sizes = np.sqrt(ops.column_dots(B, B))
        return float(np.divide(left, sizes, out=np.zeros_like(left), where=sizes > 0).max())

    def whitening_columns(self, m: int, rng: np.random.Generator) -> Array:
        """m columns with the law of S^−½g, g Gaussian.

        S⁻¹(√(s·tr W/d)·g₁ + √(1−s)·Xᵀg₂) with g₁ standard and g₂ of covariance K has covariance
        S⁻¹SS⁻¹ = S⁻¹.
        """
        draws = np.sqrt(self.floor) * rng.standard_normal((self._X.shape[1], m))
        within = like(self._within.sample(m, rng), self._X)
        within = to_numpy(ops.threaded_dot(self._back, within))
        draws += np.sqrt(1.0 - self._shrinkage) * within
        draws = like(draws, self._X)
        columns = self.solve_iteratively(draws, tol=_TOLERANCE, max_iter=_MAX_STEPS)
        residual = self.residual(columns, draws)
        if not residual <= 2 * _TOLERANCE:  # the true one, and rounding has a part in it
            warn(
                f"whitening did not reach the tolerance {_TOLERANCE:g} in {_MAX_STEPS} steps of "
                f"conjugate gradients (residual {residual:.2g}): raise shrinkage, which is "
                f"{self._shrinkage:g}",
                ConvergenceWarning,
            )
        return columns

    def root(self) -> Matrix:
        """Refuse: it would be a d × d matrix."""
        raise ValueError(
            f"whitening {self._X.shape[1]:,} features without projecting them is not supported "
            f"(the limit is {DENSE_LIMIT:,}): use DuRP, or shrinkage=1.0"
        )

    def whiten(self, rows: Matrix) -> Matrix:
        """Refuse, for the same reason."""
        return self.root()


Scatter: TypeAlias = WrittenScatter | ProductScatter
