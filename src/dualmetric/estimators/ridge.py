"""RidgeMetric: the distance between the outputs of ridge regression."""

from collections.abc import Callable
from contextlib import suppress
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
from ..lift import rbf_lift
from ..problem import LiftedRows, length_unit
from ..supervision import Labels
from .base import LearnedMetricEstimator, Training


@with_options
class RidgeMetric(LearnedMetricEstimator):
    r"""The distance between predictions of ridge regression: M = BBᵀ in closed form.

    B = (XᵀX + αI)⁻¹XᵀY, where X are the centred rows and Y the centred indicators of the classes: Y
    has one column per class, which is one for rows of the class and zero for others. Rows are
    compared by their predictions, which are those of `sklearn.linear_model.RidgeClassifier` up to a
    factor. One decomposition serves all penalties. It also gives the leave-one-out error of each
    row, by which the penalty is chosen.

    There are fewer directions than classes. Rows of classes that were not learned from can only be
    told apart by their similarity to the other classes, which is often not enough: see `Whitening`.

    {sections}

    Notes
    -----
    With up to 4,000 features or up to 4,000 rows, the decomposition is exact. If there are more of
    both, B is found from products with the rows, which may be sparse, and the penalty is chosen by
    the error on 2,000 held-out rows (or a fifth of all). Penalties are then tried from the largest
    down, until the error has exceeded the smallest one twice in a row.

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
        The penalties that it was chosen from, where there was a choice.
    errors_ : ndarray of shape (n_alphas,)
        Their errors: the squared error of a row's prediction by a regression without it, summed
        over classes and averaged over rows. Infinite where a penalty was not tried."""

    alpha: float | None = option(
        "float",
        default=None,
        help="The penalty α, in the unit of ``scale``. None chooses the one with the least "
        "leave-one-out squared error.",
        kw_only=False,
        low=0,
        above=True,
        flag="For ridge: the penalty. Default: chosen by leave-one-out.",
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
        help="Measure penalties relative to the mean eigenvalue of XᵀX, so that they do not depend "
        "on the unit and the number of the rows. If False, they are as in "
        "`sklearn.linear_model.RidgeClassifier`.",
    )
    n_components: int | None = n_components_option(
        "None keeps all: one fewer than the number of classes."
    )
    lift: str | None = lift_option()
    max_rows: int | None = max_rows_option()
    distance: str = distance_option("cosine")
    tol: float = option(
        "float",
        default=1e-3,
        help="Residual of B, relative to XᵀY, at which the iteration stops. It is used only if "
        "there are more than 4,000 rows and more than 4,000 features. On text, smaller values do "
        "not change the ranking.",
        low=0,
        above=True,
    )
    random_state: Any = random_state_option(
        "Seed of the choice of rows, where X has more than ``max_rows`` or rows are held out, and "
        "of the lift."
    )

    def _learn(self, training: Training, rng: np.random.Generator) -> dict[str, Any]:
        if not isinstance(training.supervision, Labels):
            raise ValueError("RidgeMetric learns from labels only: pass them as y, or use DuRP")
        known = training.supervision.known_rows()
        classes, codes = np.unique(training.supervision.y[known], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"all labels in y are {classes[0]}: RidgeMetric tells classes apart, and needs "
                "at least two"
            )
        rows = training.X if len(known) == training.X.shape[0] else ops.take_rows(training.X, known)
        length_unit(rows)  # refuses rows that are all the same, and numbers out of range
        lifted = LiftedRows(rows)
        if self.lift is not None:
            lift, nystroem = rbf_lift(training.X, rng)  # landmarks need no labels
            lifted = LiftedRows(lift.apply(rows, nystroem), lift, nystroem)
        _check_memory(lifted.X, len(classes))
        mean = ridge.mean_eigenvalue(lifted.X)
        unit = mean if self.scale else 1.0
        alphas = self._penalties(mean / unit)
        if ridge.can_decompose(lifted.X):
            chosen, B = _solve_directly(lifted.X, codes, mean, unit, alphas)
        else:
            X, tol = lifted.X, self.tol
            chosen = _choose(
                alphas, lambda: ridge.held_out_errors(X, codes, unit * alphas, tol, rng)
            )
            B = self._iterate(ridge.Products(X, codes, len(classes)), unit * chosen["alpha_"])
        factor = self._factor(B, lifted, mean, unit * chosen["alpha_"])
        metric = self._make_metric(factor, training, lifted)
        # the file of a metric says which penalty was chosen
        parameters = {**metric.info["parameters"], "alpha": chosen["alpha_"]}
        return {
            "metric_": metric.with_info(parameters=parameters),
            "classes_": classes,
            **chosen,
        }

    def _penalties(self, mean: float) -> Array:
        """Penalties to choose from: one, where it is given."""
        if self.alpha is not None:
            return np.array([float(self.alpha)])
        if self.alphas is not None:
            return np.asarray(self.alphas, dtype=np.float64)
        return ridge.PENALTIES * mean

    def _iterate(self, problem: ridge.Products, alpha: float) -> Matrix:
        B, residual = problem.solve(alpha, self.tol)
        if residual > self.tol:
            warn(
                f"RidgeMetric stopped with a residual of {residual:.1g}, above tol={self.tol:g}: "
                "increase tol or alpha, or scale the features.",
                ConvergenceWarning,
            )
        return B

    def _factor(self, B: Matrix, lifted: LiftedRows, mean: float, alpha: float) -> Matrix | None:
        """L of M = BBᵀ in the precision of the rows; the plain distance where B is rounding."""
        if not ridge.is_rounding(B, lifted.X.shape, mean, alpha):
            return like(ridge.as_factor(B, self.n_components), lifted.X)
        warn(
            "all classes have the same mean, so no direction tells them apart: the plain "
            'distance is kept. lift="rbf" may find more.'
        )
        return (
            None if lifted.lift is None else ops.square(lifted.X.shape[1], lifted.X, diagonal=1.0)
        )


def _solve_directly(
    X: Matrix, codes: Array, mean: float, unit: float, alphas: Array
) -> tuple[dict[str, Any], Matrix]:
    """The penalty, as `_choose` gives it, and B, where a decomposition is cheap."""
    if len(alphas) == 1 and ridge.is_clear(unit * alphas[0], X.shape, mean):
        with suppress(np.linalg.LinAlgError):  # sparse rows far from zero have more rounding
            B = ridge.coefficients_for_one(X, codes, unit * float(alphas[0]))
            return _choose(alphas, None), B
    found = ridge.decompose(X)
    aims = ridge.targets(found, codes)
    chosen = _choose(alphas, lambda: ridge.loo_errors(found, aims, unit * alphas))
    return chosen, ridge.coefficients(found, aims, unit * chosen["alpha_"])


def _choose(alphas: Array, measure: Callable[[], Array] | None) -> dict[str, Any]:
    """The penalty with the least mean squared error, and all errors, as fitted attributes.

    ``measure`` gives the errors; it is not needed for one penalty.
    """
    if len(alphas) == 1 or measure is None:
        return {"alpha_": float(alphas[0])}
    errors = measure().mean(axis=1)
    return {"alpha_": float(alphas[np.argmin(errors)]), "alphas_": alphas, "errors_": errors}


def _check_memory(X: Matrix, n_classes: int) -> None:
    """Refuse what would not fit beside X."""
    n, d = X.shape
    size = 8 * d * n_classes * 8
    if ridge.can_decompose(X):
        size += 4 * min(n, d) ** 2 * 8 + (2 * n * d * precision(X).itemsize if n > d else 0)
    require_memory_beside(
        X, size, f"ridge regression of {n:,} × {d:,}", "Set max_rows to learn from fewer rows."
    )
