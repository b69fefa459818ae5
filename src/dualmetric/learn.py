"""One fit: from rows and what is known about them to the factor of a metric.

`learn` runs the stages below in order. `MetricCV` runs the same stages, and shares between its
candidates what they have in common.

1. `lift_rows`: kernel features, where there is a lift.
2. `pose`: the prior, the unit of length, the comparisons, and the rows that they name.
3. `project`: the scatter, and the rows in the space where the dual problem is solved.
4. `solve`: the dual variables, and the weights of the comparisons in the metric.
5. `directions` and `in_original_space`: the metric in the original space.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from . import recovery, spaces
from ._arrays import ops
from ._arrays.namespace import is_finite, like, to_numpy
from ._types import Array, Matrix
from ._validation import warn
from .blocks import Blocks
from .lift import rbf_lift
from .losses import get_loss
from .prior import (
    FEW_ROWS,
    Corrected,
    apply_prior,
    correct_prior,
    corrected_lengths,
    scales_rows_first,
    weigh_blocks,
)
from .problem import DualOptions, LiftedRows, Prior, Problem, length_unit
from .recovery import Directions
from .scatter import DENSE_LIMIT, Scatter, Within, scatter_of
from .solver import DualSolution, Epoch, solve_dual
from .supervision import Comparisons, Supervision

PRIOR_REG = 0.01
"""Default of λ with a prior."""

SPAN_LIMIT = 2000
"""Rows up to which n × n inner products and their eigenvectors are cheap."""

_COPIED_SHARE = 0.3  # of the rows: below it, those that comparisons name are copied


class Clock:
    """Seconds between one call of `stop` and the next, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = perf_counter()

    def stop(self, name: str) -> None:
        """Add the time since the last stop to the given part."""
        now = perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._begin
        self._begin = now

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        parts = (f"{name} {seconds:.3f} s" for name, seconds in self.seconds.items())
        return f"{total:.3f} s: {', '.join(parts)}"


@dataclass(frozen=True, eq=False)
class DualFit:
    """What `learn` returns."""

    # (d, rank): L of the metric over the rows, or over lifted rows; None is the plain distance
    factor: Matrix | None
    # (d, d): Map that rows go through before they are scaled to length one, where ``scaled_first``
    first: Matrix | None
    scaled_first: bool  # whether rows are scaled to length one before the factor applies
    # weight of the plain distance outside the columns of L; 0 where L is all there is
    outside: float
    # (rank,): what the columns of L add to the squared distance outside them; None where the weight
    # outside is 0
    change: Array | None
    lifted: LiftedRows  # rows, lift and Nyström matrix
    comparisons: Comparisons  # learned from, over the rows of X
    solution: DualSolution  # duals and history
    residual: float  # of the directions
    seconds: Clock  # time of each part
    blocks: Blocks | None = None  # weights of blocks of columns, applied to rows first
    shares: dict[str, float] | None = None  # of the blocks in the prior, by name


def learn(
    X: Matrix,
    supervision: Supervision,
    options: DualOptions,
    rng: np.random.Generator,
    *,
    W: Array | None = None,
    callback: Callable[[Epoch], object] | None = None,
) -> DualFit:
    """Learn a metric from checked rows and what is known about them.

    W is the scatter within classes, if it is known from more rows than X holds. ``callback`` is
    called with an `Epoch` at the end of each epoch.
    """
    clock = Clock()
    lifted = lift_rows(X, options, rng)
    if lifted.lift is not None:
        clock.stop("lift")
    problem = pose(lifted.X, supervision, options, rng, spannable=W is None)
    clock.stop("sampling")
    return learn_posed(problem, lifted, options, rng, clock, W=W, callback=callback)


def learn_posed(
    problem: Problem,
    lifted: LiftedRows,
    options: DualOptions,
    rng: np.random.Generator,
    clock: Clock,
    *,
    W: Array | None = None,
    callback: Callable[[Epoch], object] | None = None,
    shared: dict[bytes, Array] | None = None,
) -> DualFit:
    """Solve a problem that `pose` has set up, and rebuild the metric.

    ``shared`` is for fits that differ in λ alone: see `solver.solve_dual`.
    """
    Z, basis, scatter, problem = project(problem, options, rng, W)
    clock.stop("projection")
    solution, weight = solve(problem, Z, options, rng, callback, shared)
    clock.stop("solving")
    kept = None if options.rebuilt else basis
    factor, outside, change, residual = rebuild(problem, weight, options, rng, scatter, kept)
    if factor is not None:
        if factor.shape[1] == 0:
            factor = _plain_factor(problem, lifted, kept)
        elif not is_finite(factor):
            raise ValueError(ops.OUT_OF_RANGE)
    clock.stop("recovery")
    index = problem.numbers[problem.comparisons.index]
    margin = problem.comparisons.margin + problem.told
    comparisons = Comparisons(index, margin, problem.comparisons.weight)
    return DualFit(
        factor=factor,
        first=problem.mapped,
        scaled_first=scales_rows_first(options),
        outside=outside,
        change=change,
        lifted=lifted,
        comparisons=comparisons,
        solution=solution,
        residual=residual,
        seconds=clock,
        blocks=problem.blocks,
        shares=problem.shares,
    )


def weaker(found: DualFit, strength: float) -> DualFit:
    """Make a fit of strength 1 into the fit of another strength.

    It is returned as it is where the metric is not a correction of the plain distance, or where
    nothing was learned.
    """
    if found.change is None or found.factor is None:
        return found
    before, after = (corrected_lengths(found.change * s, found.outside) for s in (1.0, strength))
    factor = found.factor * like(after / before, found.factor)
    return replace(found, factor=factor, change=found.change * strength)


# --- stages ----------------------------------------------------------------------------------


def lift_rows(X: Matrix, options: DualOptions, rng: np.random.Generator) -> LiftedRows:
    """Map rows to kernel features, where there is a lift."""
    if options.lift is None:
        return LiftedRows(X)
    lift, nystroem = rbf_lift(X, rng)
    return LiftedRows(lift.apply(X, nystroem), lift, nystroem)


def pose(
    X: Matrix,
    supervision: Supervision,
    options: DualOptions,
    rng: np.random.Generator,
    *,
    spannable: bool = True,
) -> Problem:
    """Set up the problem: prior, unit, comparisons, and the rows that take part.

    ``spannable`` is False where rows must keep their features: a scatter over them is given.
    """
    prior = mapped = blocks = shares = None
    told: Any = 0.0
    if options.blocks is not None:
        X, blocks, shares = weigh_blocks(X, supervision, options, rng)
    if options.prior is None:
        unit = length_unit(X, options.scale)
        threshold = options.margin * unit**2
        comparisons = supervision.compare(X, options.n_triplets, options.sampler, threshold, rng)
        if options.margin != 1.0:
            comparisons = comparisons.with_margin(options.margin * comparisons.margin)
    else:
        X, mapped, prior, unit = apply_prior(X, supervision, options)
        seen = X if prior.image is None or prior.omega else prior.image
        threshold = options.margin / prior.scale
        comparisons = supervision.compare(seen, options.n_triplets, options.sampler, threshold, rng)
        told = prior.scale * prior.margins(X, comparisons.index)
        comparisons = comparisons.with_margin(options.margin * comparisons.margin - told)
    rows, numbers = X, np.arange(X.shape[0])
    named = comparisons.rows()
    if len(named) <= (0.0 if options.all_rows else _COPIED_SHARE) * X.shape[0]:
        rows, numbers = ops.take_rows(X, named), named
        comparisons = comparisons.take(named)
    spanned = None
    if spannable and in_span(rows, prior, options):
        rows, rotation = spaces.row_span(rows)
        spanned = (ops.take_rows(X, numbers), rotation)
    return Problem(
        X=X,
        rows=rows,
        comparisons=comparisons,
        numbers=numbers,
        unit=unit,
        supervision=supervision,
        spanned=spanned,
        prior=prior,
        mapped=mapped,
        told=told,
        blocks=blocks,
        shares=shares,
    )


def in_span(rows: Matrix, prior: Prior | None, options: DualOptions) -> bool:
    """Whether the problem is solved in the span of few rows.

    With a prior, DuOri is, because it needs dense coordinates of the rows. For DuRP, products with
    the rows as they are cost less than n × n inner products and their eigenvectors.
    """
    if prior is not None and (
        rows.shape[1] <= DENSE_LIMIT or prior.image is not None or options.space == "projection"
    ):
        return False
    most = SPAN_LIMIT if prior is None else FEW_ROWS
    return options.rebuilt and rows.shape[0] < min(rows.shape[1], most)


def project(
    problem: Problem,
    options: DualOptions,
    rng: np.random.Generator,
    W: Array | None = None,
    within: tuple[Within, Matrix | None] | None = None,
) -> tuple[Matrix, Matrix | None, Scatter | None, Problem]:
    """Rows in the space of the dual problem, in its unit; the map there; and the scatter.

    Where the metric is not rebuilt in the original space, the problem itself moves to the new one.
    ``within`` is what `within_of` gives, where it is known already.
    """
    rows, X, unit = problem.rows, problem.X, problem.unit
    basis = None
    m = getattr(options, "n_projections", None)
    if not options.rebuilt:
        assert m is not None
        if options.space == "components":
            seed = int(rng.integers(2**31 - 1))
            basis = spaces.principal_components(X, m, seed)
            rows = spaces.mapped(rows, basis)
        else:
            rows, basis = spaces.random_projection(rows, m, rng)
        problem = replace(problem, rows=rows)
        if W is not None:
            W = to_numpy(basis).T @ W @ to_numpy(basis)
    scatter = None
    if options.shrinkage < 1.0 and problem.mapped is None:
        # few rows span fewer dimensions than they have features: the ridge is that of all
        width = X.shape[1] if options.rebuilt else rows.shape[1]
        if W is not None and np.trace(W) > 0.0:
            known = Within(_nothing, _nothing, float(np.trace(W)))
            scatter = scatter_of(rows, known, options.shrinkage, len(W), like(W, rows))
        else:
            known, written = within_of(problem) if within is None else within
            scatter = scatter_of(rows, known, options.shrinkage, width, written)
    if options.rebuilt and options.space == "projection":
        assert m is not None
        Z, basis = spaces.random_projection(rows, m, rng, scatter)
    else:
        Z = spaces.original(rows, scatter)
    if scatter is not None and options.scale:
        unit = length_unit(Z)  # the length that counts as one is that of whitened rows
        problem = replace(problem, unit=unit)
    return Z / unit, basis, scatter, problem


def _nothing(*_: Any) -> Any:
    raise AssertionError("the scatter is written out")


def within_of(problem: Problem) -> tuple[Within, Matrix | None]:
    """Scatter of rows that belong together, and its matrix where that is written out."""
    rows = problem.rows
    found = problem.supervision.within(rows, problem.numbers)
    if rows.shape[1] > DENSE_LIMIT or found.trace <= 0.0:
        return found, None
    return found, ops.quadratic(rows, found.apply)


def regularisation(problem: Problem, options: DualOptions) -> float:
    """λ."""
    if options.reg is not None:
        return float(options.reg)
    return 1.0 / len(problem.comparisons) if problem.prior is None else PRIOR_REG


def solve(
    problem: Problem,
    Z: Matrix,
    options: DualOptions,
    rng: np.random.Generator,
    callback: Callable[[Epoch], object] | None = None,
    shared: dict[bytes, Array] | None = None,
) -> tuple[DualSolution, Array]:
    """The dual variables, and the weight of each comparison's matrix in the metric."""
    reg = regularisation(problem, options)
    solution = solve_dual(
        Z,
        problem.comparisons,
        get_loss(options.loss),
        reg=reg,
        max_epochs=options.max_epochs,
        tol=options.tol,
        rng=rng,
        numbers=problem.numbers,
        callback=callback,
        shared=shared,
    )
    with np.errstate(all="ignore"):
        weight = solution.beta / (reg * len(problem.comparisons) * problem.unit**2)
    if not np.isfinite(weight).all():
        raise ValueError(
            f"reg={reg:g} is too small, so the metric is out of the range of floats: increase reg"
        )
    return solution, weight


def rebuild(
    problem: Problem,
    weight: Array,
    options: DualOptions,
    rng: np.random.Generator,
    scatter: Scatter | None = None,
    basis: Matrix | None = None,
) -> Corrected:
    """Rebuild the metric over the rows of X.

    The factor is None for the plain distance, and has no columns where nothing was learned.
    """
    factor: Matrix | None
    outside, change = 0.0, None
    if problem.prior is None:
        found = directions(problem, weight, options, rng, scatter=scatter)
        factor, residual = found.factor(power=options.power) / problem.unit, found.residual
    else:
        reg = regularisation(problem, options)
        factor, outside, change, residual = correct_prior(problem, weight, reg, options, rng)
    if factor is not None:
        factor = in_original_space(factor, problem, basis)
        if problem.mapped is not None and not scales_rows_first(options):
            factor = problem.mapped @ factor
    return Corrected(factor, outside, change, residual)


def directions(
    problem: Problem,
    weight: Array,
    options: DualOptions,
    rng: np.random.Generator,
    *,
    scatter: Scatter | None = None,
    rank: int | None = None,
    written_up_to: int | None = None,
) -> Directions:
    """Positive directions of Σ weight_t A_t, in the space of the problem's rows."""
    C = recovery.weighted_graph(problem.comparisons.index, weight, problem.rows)
    return recovery.recover(
        problem.rows,
        C,
        options.n_components if rank is None else rank,
        rng,
        scatter=scatter,
        tolerance=options.eigen_tol,
        written_up_to=written_up_to,
    )


def in_original_space(factor: Matrix, problem: Problem, basis: Matrix | None) -> Matrix:
    """A factor over the problem's rows as one over the rows of X (lifted, where there is a lift).

    ``basis`` is the map to the space of a metric that is not rebuilt in the original one.
    """
    if problem.spanned is not None:
        rows, rotation = problem.spanned
        factor = ops.tdot(rows, rotation @ factor)
    elif basis is not None:
        factor = basis @ factor
    return factor


def _plain_factor(problem: Problem, lifted: LiftedRows, basis: Matrix | None) -> Matrix | None:
    """Factor of the plain distance, for a metric without any direction."""
    warn(
        "no direction separates close from far rows in these "
        f"{len(problem.comparisons):,} comparisons, so the plain distance is kept. Check that "
        "labels or triplets belong to these rows. DuRP with prior='identity' or "
        "sampler='neighbors' may find more.",
    )
    return basis if lifted.lift is None else ops.square(lifted.X.shape[1], lifted.X, diagonal=1.0)
