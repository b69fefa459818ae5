"""The metric of ridge regression outputs, as an estimator."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import ridge
from .._arrays import ops
from .._arrays.namespace import like, precision, require_memory_beside
from .._options import (
    Option,
    distance_option,
    lift_option,
    max_rows_option,
    n_components_option,
    option,
    random_state_option,
    with_options,
)
from .._types import Array, Matrix
from .._validation import warn
from ..learn import lift_rows
from ..problem import LiftedRows, length_unit
from ..supervision import Labels
from .base import LearnedMetricEstimator, Training

_CHOICE_ROWS = 2000  # that the penalty is chosen on where the rows are not decomposed


@with_options
class RidgeMetric(LearnedMetricEstimator):
    r"""The distance of what ridge regression predicts: M = BBᵀ in closed form.

    B = (XᵀX + αI)⁻¹XᵀY, where X are the centred rows and Y the centred indicators of the classes:
    one column per class, one for its rows and zero for others. Rows are compared by their
    predictions, which are those of `sklearn.linear_model.RidgeClassifier` up to a factor. All
    penalties come from one decomposition, and so does the error that each row has in the
    regression without it (leave-one-out), by which the penalty is chosen.

    There are fewer directions than classes. Rows of classes that were not learned from are told
    apart by their likeness to the others, which is often not enough: see `Whitening`.

    {sections}

    Notes
    -----
    Up to 4,000 features, or rows, are decomposed exactly. Where there are more of both, B is found
    from products with the rows, which may be sparse, and the penalty is chosen on 2,000 rows.

    See Also
    --------
    MetricCV : Chooses between metrics of all kinds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualmetric import Euclidean, RidgeMetric
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RidgeMetric().fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > Euclidean().fit(X).score(X[1000:], y[1000:])
    True
    """

    _attributes = """
    classes_ : ndarray of shape (n_classes,)
        The labels.
    alpha_ : float
        The penalty.
    alphas_ : ndarray of shape (n_alphas,)
        The penalties that were tried, where ``alpha`` is None.
    loo_errors_ : ndarray of shape (n_alphas,)
        Their mean squared error, over rows and classes, in the regression without the row, where
        ``alpha`` is None."""

    alpha: float | None = option(
        "float",
        default=None,
        help="The penalty α. None chooses the one with the least leave-one-out squared error.",
        kw_only=False,
        low=0,
        above=True,
        flag="Penalty of the regression; chosen where it is left out.",
    )
    alphas: Any = option(
        "object",
        default=None,
        help="Penalties to choose from. None tries 19, from 1e-7 to 100 times the mean eigenvalue "
        "of XᵀX.",
        each=Option("float", "", low=0, above=True),
        type="sequence of float or None",
    )
    scale: bool = option(
        "bool",
        default=True,
        help="Measure penalties by the mean eigenvalue of XᵀX, so that they do not depend on the "
        "unit and the number of the rows. Without it they are as in "
        "`sklearn.linear_model.RidgeClassifier`.",
    )
    n_components: int | None = n_components_option("None keeps all: one fewer than classes.")
    lift: str | None = lift_option()
    max_rows: int | None = max_rows_option()
    distance: str = distance_option("cosine")
    tol: float = option(
        "float",
        default=1e-3,
        help="Where both rows and features are more than 4,000, so that B is found by iteration: "
        "its residual, relative to XᵀY. On text, smaller numbers do not change the ranking.",
        low=0,
        above=True,
    )
    random_state: Any = random_state_option(
        "Seed of the choice of rows, where X has more than ``max_rows``, and of the lift."
    )

    def _learn(self, training: Training, rng: np.random.Generator) -> dict[str, Any]:
        if not isinstance(training.supervision, Labels):
            raise ValueError("RidgeMetric learns from labels only: pass them as y, or use DuRP")
        known = training.supervision.known_rows()
        classes, codes = np.unique(training.supervision.y[known], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"all labels in y are {classes[0]!r}: RidgeMetric tells classes apart, and needs "
                "at least two"
            )
        rows = training.X if len(known) == training.X.shape[0] else ops.take_rows(training.X, known)
        length_unit(rows)  # refuses rows that are all the same, and numbers out of range
        lifted = lift_rows(rows, self, rng)
        _check_memory(lifted.X, len(classes))
        trace, unit, found = self._decompose(lifted.X)
        if found is not None:
            aims = ridge.targets(found, codes)
            chosen = self._choose(found, aims, unit)
            alpha = self._absolute(chosen["alpha_"], unit)
            B = ridge.coefficients(found, aims, alpha)
        else:
            chosen = self._choose_on_part(lifted.X, codes, unit, rng)
            alpha = self._absolute(chosen["alpha_"], unit)
            B = self._iterate(lifted.X, codes, alpha)
        factor = self._factor(B, lifted, trace, alpha)
        metric = self._make_metric(factor, training, lifted)
        return {
            "metric_": metric.with_info(alpha=chosen["alpha_"]),
            "classes_": classes,
            **chosen,
        }

    def solutions(
        self, X: Matrix, codes: Array, rng: np.random.Generator
    ) -> Iterator[tuple[float, Matrix]]:
        """Penalties that `MetricCV` tries, and B (d × k) of each, for (lifted) rows.

        Where the rows are not decomposed, it is only the one that is best on some of them.
        """
        _, unit, found = self._decompose(X)
        if found is None:
            alpha = self._choose_on_part(X, codes, unit, rng)["alpha_"]
            yield alpha, self._iterate(X, codes, self._absolute(alpha, unit))
            return
        aims = ridge.targets(found, codes)
        for alpha in ridge.PENALTIES.tolist():
            yield alpha, ridge.coefficients(found, aims, self._absolute(alpha, unit))

    def _decompose(self, X: Matrix) -> tuple[float, float, ridge.Decomposition | None]:
        """Trace of XᵀX of the centred rows, the unit of penalties, and the decomposition."""
        found = ridge.decompose(X) if ridge.can_decompose(X) else None
        if found is None:
            trace = 0.5 * (X.shape[0] - 1) * ops.mean_sq_distance(X)
        else:
            trace = float(found.values.sum())
        return trace, ridge.mean_eigenvalue(trace, X.shape), found

    def _absolute(self, alphas: Any, unit: float) -> Any:
        return alphas * unit if self.scale else alphas

    def _choose(
        self, found: ridge.Decomposition, aims: ridge.Targets, unit: float
    ) -> dict[str, Any]:
        """The penalty, and how it was chosen, as fitted attributes."""
        if self.alpha is not None:
            return {"alpha_": float(self.alpha)}
        alphas = ridge.PENALTIES if self.scale else ridge.PENALTIES * unit
        alphas = alphas if self.alphas is None else np.asarray(self.alphas, dtype=np.float64)
        errors = ridge.loo_errors(found, aims, self._absolute(alphas, unit)).mean(axis=1)
        errors /= len(aims.shares)
        best = float(alphas[np.argmin(errors)])
        return {"alpha_": best, "alphas_": alphas, "loo_errors_": errors}

    def _choose_on_part(
        self, X: Matrix, codes: Array, unit: float, rng: np.random.Generator
    ) -> dict[str, Any]:
        """The same on some of the rows: what suits these suits all of them, in the unit of X."""
        if self.alpha is not None:
            return {"alpha_": float(self.alpha)}
        part = np.sort(rng.choice(X.shape[0], _CHOICE_ROWS, replace=False))
        found = ridge.decompose(ops.take_rows(X, part))
        aims = ridge.targets(found, np.unique(codes[part], return_inverse=True)[1])
        return self._choose(found, aims, unit)

    def _iterate(self, X: Matrix, codes: Array, alpha: float) -> Matrix:
        mean = ops.column_sums(X) / X.shape[0]
        B, residual = ridge.solve_by_products(X, mean, codes, alpha, self.tol)
        if residual > self.tol:
            warn(
                f"RidgeMetric stopped with a residual of {residual:.1g}, above tol={self.tol:g}: "
                "increase tol or alpha, or scale the features.",
                ConvergenceWarning,
            )
        return B

    def _factor(self, B: Matrix, lifted: LiftedRows, trace: float, alpha: float) -> Matrix | None:
        """L of M = BBᵀ in the precision of the rows; the plain distance where B is rounding."""
        size = float(np.sqrt(ops.column_dots(B, B).sum()))
        n = lifted.X.shape[0]
        if size * (trace + alpha) > 1e-12 * np.sqrt(trace * n):  # ‖B‖(tr XᵀX + α) ≥ ‖XᵀY‖
            return like(ridge.as_factor(B, self.n_components), lifted.X)
        warn(
            "all classes have the same mean, so that no direction tells them apart: the plain "
            'distance is kept. lift="rbf" may find more.'
        )
        d = lifted.X.shape[1]
        return None if lifted.lift is None else ops.square(d, lifted.X, diagonal=1.0)


def _check_memory(X: Matrix, n_classes: int) -> None:
    """Refuse what would not fit beside X."""
    n, d = X.shape
    size = 3 * d * n_classes * 8
    if n <= d and ridge.can_decompose(X):
        size += 4 * n * n * 8
    elif ridge.can_decompose(X):
        size += 4 * d * d * 8 + 2 * n * d * precision(X).itemsize
    require_memory_beside(
        X, size, f"ridge regression of {n:,} × {d:,}", "Set max_rows to learn from fewer rows."
    )
