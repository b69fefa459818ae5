"""Settling: after an update, solve further and rebuild the metric.

Coordinate ascent continues from the kept dual variables until the duality gap is small. As the
regulariser is λ/2·‖M − M₀‖², the gap bounds how far the metric is from M*, the one that a fit from
scratch on the same comparisons would give:

    ‖M − M*‖ ≤ √(2·gap/λ).

Removing negative eigenvalues brings matrices closer, so the bound also holds for the metric in use.
For DuRP it holds in the projected problem.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from . import spaces
from ._arrays import ops
from ._types import Array
from ._validation import warn
from .learn import in_span, rebuild, regularisation
from .losses import Loss, get_loss
from .metric import Metric
from .prior import scales_rows_first
from .problem import Problem
from .solver import DualSolution, Epoch, solve_dual
from .supervision import Comparisons
from .updating import Base, Kept, solved_rows, with_image

PRECISION = 1e-3
"""Without ``tol``, ‖M − M*‖ is at most this times ‖M − M₀‖."""

MOST_EPOCHS = 10_000
"""Number of epochs after which an update stops even if the gap is still too large."""

_EPOCHS_AT_ONCE = 4  # between two looks at the gap


@dataclass(frozen=True, eq=False)
class Updated:
    """What `settle` found."""

    kept: Kept  # with new dual variables
    epoch: Epoch  # objectives and gap at the end
    bound: float  # on ‖M − M*‖, in the unit in which the problem is solved
    reg: float  # λ


def settle(kept: Kept, base: Base, options: Any, rng: np.random.Generator) -> Updated:
    """Continue from the kept dual variables until the gap is met."""
    if not len(kept):
        return Updated(kept, Epoch(0, 0.0, 0.0, 0.0), 0.0, 1.0)
    problem = _posed(kept, base)
    loss, reg = get_loss(options.loss), regularisation(problem, options)
    by_gram = kept.gram is not None
    run = _Gram(kept, problem, loss, reg) if by_gram else _Rows(kept, base, problem, loss, reg)
    epoch, ridge = run.objectives(0)
    while not _met(epoch, ridge, options.tol):
        if epoch.epoch == MOST_EPOCHS:
            warn(
                f"the update stopped after {MOST_EPOCHS:,} epochs with a duality gap of "
                f"{epoch.gap:.2g}: raise reg or tol, or use loss='smoothed_hinge', which converges "
                "faster",
                ConvergenceWarning,
            )
            break
        run.epoch(rng)
        epoch, ridge = run.objectives(epoch.epoch + 1)
    bound = float(np.sqrt(2.0 * epoch.gap / reg))
    return Updated(replace(kept, beta=run.beta), epoch, bound, reg)


def _met(at: Epoch, ridge: float, tol: float | None) -> bool:
    """Whether to stop: λ/2·‖M − M₀‖² is the ``ridge``, and λ/2·‖M − M*‖² at most the gap."""
    return at.gap <= (PRECISION**2 * ridge if tol is None else tol * at.primal)


class _Gram:
    """Epochs on G."""

    def __init__(self, kept: Kept, problem: Problem, loss: Loss, reg: float) -> None:
        assert kept.gram is not None
        self.G, self.loss, self.reg = kept.gram, loss, reg
        self.beta, self.weight = kept.beta.copy(), kept.weight
        self.shift = 1.0 - problem.comparisons.margin

    def epoch(self, rng: np.random.Generator) -> None:
        from ._arrays import kernels

        loss, n = self.loss, len(self.beta)
        order = rng.permutation(n)
        for _ in range(_EPOCHS_AT_ONCE):
            kernels.dual_gram(
                self.G, self.products, self.shift, self.weight, self.beta, order, self.reg * n,
                loss.logistic, loss.smoothing, loss.upper,
            )  # fmt: skip

    def objectives(self, epoch: int) -> tuple[Epoch, float]:
        """Primal, dual, gap and ridge; Gβ is computed again, so that rounding does not build up."""
        n = len(self.beta)
        self.products = self.G[:n, :n] @ self.beta
        return _objectives(
            epoch, self.products, self.beta, self.weight, self.shift, self.loss, self.reg
        )


class _Rows:
    """Epochs on the rows, for so many comparisons that G would not fit in memory."""

    def __init__(self, kept: Kept, base: Base, problem: Problem, loss: Loss, reg: float) -> None:
        self.Z = np.ascontiguousarray(ops.to_dense(solved_rows(kept.rows, base)) / base.unit)
        self.comparisons, self.loss, self.reg, self.beta = problem.comparisons, loss, reg, kept.beta

    def epoch(self, rng: np.random.Generator) -> None:
        self.beta = self._solve(1, rng).beta

    def objectives(self, epoch: int) -> tuple[Epoch, float]:
        found = self._solve(0, np.random.default_rng(0)).history[-1]
        weight, shift = self.comparisons.weight, 1.0 - self.comparisons.margin
        conjugate = weight * self.loss.conjugate(self.beta / weight)
        ridge = -found.dual - float((conjugate + self.beta * shift).mean())
        return found._replace(epoch=epoch), ridge

    def _solve(self, n_epochs: int, rng: np.random.Generator) -> DualSolution:
        return solve_dual(
            self.Z, self.comparisons, self.loss, reg=self.reg, max_epochs=n_epochs, rng=rng,
            warm_start=self.beta,
        )  # fmt: skip


def _objectives(
    epoch: int, products: Array, beta: Array, weight: Array, shift: Array, loss: Loss, reg: float
) -> tuple[Epoch, float]:
    """Primal, dual, gap and ridge from Gβ: see `solver`."""
    reg_n = reg * len(beta)
    z = products / reg_n + shift
    value, conjugate = weight * loss.value(z), weight * loss.conjugate(beta / weight)
    ridge = 0.5 * float(products @ beta) / (reg_n * len(beta))
    gap = float(np.maximum(value + conjugate + beta * z, 0.0).mean())
    dual = -float((conjugate + beta * shift).mean()) - ridge
    return Epoch(epoch, ridge + float(value.mean()), dual, gap), ridge


# --- the metric ------------------------------------------------------------------------------


def _posed(kept: Kept, base: Base) -> Problem:
    """The problem over the rows that comparisons name."""
    comparisons = Comparisons(kept.index, kept.margin - kept.told, kept.weight)
    prior = None if base.prior is None else with_image(base.prior, kept.rows)
    return Problem(
        kept.rows,
        kept.rows,
        comparisons,
        np.arange(kept.rows.shape[0]),
        base.unit,
        comparisons,
        prior=prior,
        mapped=base.first.factor,
        told=kept.told,
    )


def _weights_of(updated: Updated, base: Base) -> Array:
    """Weight of each comparison's matrix in the metric."""
    kept = updated.kept
    return kept.beta / (updated.reg * max(len(kept), 1) * base.unit**2)


def metric_of(
    updated: Updated,
    base: Base,
    options: Any,
    rng: np.random.Generator,
    info: dict[str, Any],
    *,
    quick: bool = False,
) -> tuple[Metric, float]:
    """The metric, as a fit from scratch would rebuild it, and the residual of its directions.

    With ``quick``, it is found in the span of the rows that comparisons name, where these are fewer
    than the features, and keeps at most 200 directions beside the prior.
    """
    kept, first = updated.kept, base.first
    factor, outside, residual = None, 0.0, 0.0
    weight = _weights_of(updated, base)
    if not weight.any():  # what was there before: the prior, or the plain distance
        if base.prior is not None and base.prior.factor is not None:
            factor, outside = base.prior.factor, base.prior.omega
    else:
        problem = _posed(kept, base)
        few = quick and kept.rows.shape[0] < kept.rows.shape[1]
        if few or in_span(problem.rows, problem.prior, options):
            rows, rotation = spaces.row_span(kept.rows)
            problem = replace(problem, rows=rows, spanned=(kept.rows, rotation))
        factor, outside, _, residual = rebuild(problem, weight, options, rng)
    if factor is not None and not factor.shape[1]:
        factor = None
    if scales_rows_first(options):
        if factor is None:
            return first.replaced(info=info), 0.0
        before = first.replaced(info={}, feature_names=None)
        names = first.feature_names
        made = Metric(factor, feature_names=names, info=info, outside=outside, before=before)
        return made, residual
    if factor is None:
        factor = first.factor
    centre = None
    if options.distance == "cosine" and not outside:
        centre = base.mean if factor is None else base.mean @ factor
        if factor is None and not ops.is_dense(kept.raw):
            centre = None
    return Metric(
        factor,
        first.n_features,
        first.feature_names,
        info,
        centre,
        options.distance,
        outside=outside,
    ), residual
