r"""Losses ℓ(z) of a comparison's margin z, with what the dual problem needs of them.

The dual of the paper's problem (1) is, with β = −α,

.. math:: \max_\beta\; -\frac1N\sum_t \ell_*(-\beta_t)
          - \frac{1}{2\lambda N^2}\Big\|\sum_t \beta_t A_t\Big\|_F^2 .

For one coordinate, with margin z and curvature c = ‖A_t‖²/(λN) held fixed, the step maximises
:math:`-\ell_*(-b) - z(b - \beta) - \tfrac c2 (b-\beta)^2` over b.

==============  =============================  ==============================  ===========
loss            ℓ(z)                           ℓ_*(−β)                         domain of β
==============  =============================  ==============================  ===========
hinge           max(0, 1 − z)                  −β                              [0, 1]
smoothed hinge  max over b of the domain of    −β + β²/2                       [0, 1]
                b(1 − z) − b²/2: 0 for z ≥ 1,
                ½ − z for z ≤ 0, and
                (1 − z)²/2 between
squared hinge   max(0, 1 − z)²                 −β + β²/4                       [0, ∞)
logistic        log(1 + e^−z)                  β log β + (1 − β) log(1 − β)    [0, 1]
==============  =============================  ==============================  ===========

The first three conjugates are −β + (smoothing/2)·β² on [0, upper], so that two numbers tell these
losses apart, here and in the compiled loop. Their step is

.. math:: b = \mathrm{clip}\Big(\beta + \frac{1 - z - \text{smoothing}\cdot\beta}
          {\text{smoothing} + c},\; 0,\; \text{upper}\Big),

and that of the logistic loss is the root of log((1 − b)/b) = z + (b − β)c.

A comparison with target b_t and weight w_t has the loss w_t·ℓ(⟨M, A_t⟩ + 1 − b_t): the hinge
vanishes where ⟨M, A_t⟩ reaches the target. Its conjugate is w_t·ℓ_*(−β_t/w_t) − β_t(b_t − 1), and
its step is w_t times that of ℓ for β_t/w_t and the curvature w_t·c.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from ._options import option
from ._types import Array


@dataclass(frozen=True)
class Loss:
    """A loss as the solver sees it."""

    name: str  # what users call it
    # curvature of the conjugate; the loss is 1/smoothing-smooth, and not smooth where it is 0
    smoothing: float
    upper: float  # largest value a dual variable can take
    logistic: bool = False  # whether the conjugate is the entropy rather than a quadratic

    def value(self, z: Array) -> Array:
        """ℓ(z), computed in float64."""
        z = np.asarray(z, dtype=np.float64)
        if self.logistic:
            return np.logaddexp(0.0, -z)
        # max over b in [0, upper] of b·slack − smoothing/2·b²
        b, slack = -self.slope(z), np.maximum(1.0 - z, 0.0)
        return b * slack - 0.5 * self.smoothing * b**2

    def slope(self, z: Array) -> Array:
        """ℓ′(z), computed in float64; at the kink of the hinge, that of its right side."""
        z = np.asarray(z, dtype=np.float64)
        if self.logistic:
            return -expit(-z)
        slack = np.maximum(1.0 - z, 0.0)
        if self.smoothing == 0.0:
            return -(slack > 0.0).astype(np.float64)
        return -np.minimum(slack / self.smoothing, self.upper)

    def conjugate(self, beta: Array) -> Array:
        """ℓ_*(−β) for β in the dual domain, computed in float64."""
        beta = np.asarray(beta, dtype=np.float64)
        if self.logistic:
            return xlogy(beta, beta) + xlogy(1.0 - beta, 1.0 - beta)
        return 0.5 * self.smoothing * beta**2 - beta


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("hinge", smoothing=0.0, upper=1.0),
        Loss("smoothed_hinge", smoothing=1.0, upper=1.0),
        Loss("squared_hinge", smoothing=0.5, upper=np.inf),
        Loss("logistic", smoothing=4.0, upper=1.0, logistic=True),
    )
}


def loss_option() -> Any:
    """``loss`` of the estimators that solve a dual problem."""
    return option(
        "str",
        default="hinge",
        help="Loss of a comparison's margin. See `dualmetric.losses`.",
        choices=tuple(LOSSES),
    )


def get_loss(name: str) -> Loss:
    """Return the loss called ``name``."""
    if name not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {name!r}")
    return LOSSES[name]
