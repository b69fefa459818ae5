"""The options of the dual estimators, and the problem to be solved."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ._arrays import eigen, ops
from ._arrays.namespace import like
from ._options import (
    distance_option,
    lift_option,
    max_rows_option,
    n_components_option,
    option,
    random_state_option,
    scale_option,
    tol_option,
    verbose_option,
    with_options,
)
from ._types import Array, Matrix
from .blocks import Blocks
from .lift import Lift
from .losses import loss_option
from .recovery import TOLERANCE
from .supervision import Comparisons, Supervision
from .supervision.sampling import n_triplets_option, sampler_option

SCALE = 4.0
"""Root mean square distance after scaling, without a prior: chosen by benchmarks/scale.py.

If it is much smaller, every dual variable is at its bound, and the metric is imprecise. If it is
much larger, the active triplets of easy data are only those that no linear map can satisfy.
"""


@with_options
class DualOptions:
    """Options of the estimators that solve the dual problem."""

    space: ClassVar[str] = "original"
    """Where the dual problem is solved: "original", "projection" or "components"."""

    rebuilt: ClassVar[bool] = True
    """Whether the metric is rebuilt in the original space."""

    prior = None
    blocks = None
    strength = 1.0

    n_components: int | None = n_components_option(
        "None keeps all that are positive (the leading 50 above 4,000 features). With a prior and "
        "more than 4,000 features, it is the number of directions in which the prior is corrected; "
        "None then corrects 50 (200 with fewer than 4,000 rows)."
    )
    n_triplets: int = n_triplets_option()
    sampler: str = sampler_option()
    max_rows: int | None = max_rows_option()
    loss: str = loss_option()
    reg: float | None = option(
        "float",
        default=None,
        help="λ, the weight of ‖M − M₀‖², where M₀ is the prior, or zero without one. None uses "
        "1/N for N comparisons, as in the paper, and 0.01 with a prior.",
        low=0,
        above=True,
    )
    margin: float = option(
        "float",
        default=1.0,
        help="Required difference between the squared distance of far rows and that of close rows. "
        "With ``scale=True``, 1 is a sixteenth of the mean squared distance; with a prior, it is a "
        "third.",
        low=0,
        above=True,
    )
    max_epochs: int = option("int", default=3, help="Passes over the comparisons.", low=1)
    tol: float | None = tol_option()
    shrinkage: float = option(
        "float",
        default=1.0,
        help="Above 0 and at most 1. Below 1, directions in which rows of one class (or rows that "
        "should be close) differ get less weight: see `dualmetric.scatter`. Smaller values have a "
        "stronger effect; 1 is the value used in the paper.",
        low=0,
        high=1,
        above=True,
        flag="Shrinkage of the whitening, above 0 and at most 1; smaller whitens more. Try 0.84 "
        "for text, 0.1 for pixels. 1: none, as in the paper.",
    )
    power: float = option(
        "float",
        default=0.5,
        help="How much directions differ in length: the direction of an eigenvalue w has the "
        "length w^power. 0.5 is the value used in the paper. 0 or 0.25, with few directions (about "
        "as many as classes), often ranks better, and so may −0.25, which makes the leading ones "
        "shorter. At least −1.",
        low=-1,
        flag="How much directions differ in length: 0 makes them equal; 0.5 is the value used in "
        "the paper.",
    )
    lift: str | None = lift_option("; works well with a small ``shrinkage``")
    all_rows: bool = option(
        "bool",
        default=False,
        help="With ``shrinkage`` below 1, take the differences within classes from all rows of X "
        "rather than from the rows of the comparisons. A file or another source is then read once "
        "more.",
    )
    eigen_tol: float = option(
        "float",
        default=TOLERANCE,
        help="Largest residual of the directions, relative to the largest eigenvalue, if they are "
        "found by iteration (above 4,000 features). On text the ranking is the same from 0.06 "
        "downwards; 1e-5 makes distances correct to four digits.",
        low=0,
        above=True,
    )
    distance: str = distance_option(
        note='Learning is the same, except with ``prior="identity"`` or ``"whitening"``, where '
        "rows are scaled to length one before learning."
    )
    scale: bool = scale_option()
    random_state: Any = random_state_option(
        "Seed of sampling, projection and the order of the comparisons. On one machine, with the "
        "same versions and number of threads, the same seed gives exactly the same metric (on a "
        "GPU, up to the last digits)."
    )
    verbose: int = verbose_option(
        "Above 0, print the objectives and the gap after each epoch, and how many rows are used "
        "if not all are; above 1, also the time of each stage."
    )


class LiftedRows(NamedTuple):
    """Rows as they are learned from, and the lift and Nyström matrix that made them, if any."""

    X: Matrix
    lift: Lift | None = None
    nystroem: Matrix | None = None


@dataclass(frozen=True, eq=False)
class Prior:
    """M₀ = ω²·I + L·diag(g)·Lᵀ."""

    omega: float = 1.0  # ω: 1 for the identity, 0 for a metric of low rank
    factor: Matrix | None = None  # (d, r): L
    gains: Array | None = None  # (r,): g
    image: Matrix | None = None  # (n, r): XL for the rows of the problem
    scale: float = 1.0  # M₀ is multiplied by this number in the unit in which the problem is solved

    def margins(self, X: Matrix, index: Array) -> Array:
        """⟨M₀, A_t⟩ for each comparison, in float64."""
        found = np.zeros(len(index))
        if self.omega:
            found += self.omega**2 * ops.margins(ops.canonical(X), index)
        if self.image is not None:
            image = ops.to_dense(self.image)
            found += ops.margins(image, index, eigen.diagonal_like(self.gains, image))
        return found

    def low_rank_dot(self, B: Matrix) -> Matrix:
        """L·diag(g)·Lᵀ·B."""
        assert self.factor is not None
        factor = like(self.factor, B)
        return factor @ (like(self.gains, B)[:, None] * (factor.T @ B))


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be solved: rows, comparisons over them, and the unit of length."""

    X: Matrix  # (n, d): All rows that are learned from, after lift and prior
    # those that comparisons name (or all), perhaps as coordinates in the span of few rows
    rows: Matrix
    comparisons: Comparisons  # over ``rows``
    numbers: Array  # numbers of ``rows`` in X
    unit: float  # the length that counts as one
    supervision: Supervision  # what is known about X
    # the rows that ``rows`` are coordinates of, and W: see `spaces.row_span`
    spanned: tuple[Matrix, Matrix] | None = None
    # M₀, where there is one; the targets of the comparisons have it subtracted
    prior: Prior | None = None
    mapped: Matrix | None = None  # matrix by which rows were mapped first: the whitening prior's
    told: Any = 0.0  # what the prior says about each comparison, subtracted from its target
    blocks: Blocks | None = None  # what the columns of X were weighted by
    shares: dict[str, float] | None = None  # of each block in the mean squared distance, by name


def length_unit(X: Matrix, scaled: bool = True, scale: float = SCALE) -> float:
    """Unit of length: one, or a quarter of the RMS distance of rows if ``scaled``."""
    if ops.all_rows_equal(X):
        raise ValueError(
            "all rows of X are the same (every feature is constant): there is no distance to "
            "learn from; check that X holds the features you meant"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        mean = ops.mean_sq_distance(X)
    ops.check_range(mean, X)
    return float(np.sqrt(mean)) / scale if scaled else 1.0
