"""The prior M₀: the distance that is kept wherever the comparisons do not contradict it.

M₀ enters the problem only through the targets, b_t ← b_t − ⟨M₀, A_t⟩, computed exactly in the
original space. The learned part Δ is then added to it:

``"identity"``
    M₀ = I, the plain distance.
``"whitening"``
    M₀ = S⁻¹, the distance of rows whitened by their scatter within classes. Rows are whitened
    first, and the identity is the prior there.
a `Metric`
    M₀ = LLᵀ.
``blocks``
    M₀ = Σ_b w_b·I_b, with I_b the identity over the columns of block b: `weigh_blocks` finds the
    weights. Rows are weighted first, and the identity is the prior there.

With ``distance="cosine"`` rows are centred (dense rows only) and scaled to length one before
anything is learned, and before the learned map is applied: the metric is then a correction of the
plain or whitened cosine distance. With blocks, rows are not centred, and the part of a row in each
block is scaled to length one. (If they were scaled again at the end, new classes would rank worse.)
With a `Metric` as the prior, rows are scaled at the end only.

Dual variables that were found in few dimensions have the right direction but not the right size,
and the size matters next to a prior. `line_search` finds the size; this is cheap, because margins
are linear in it. It is the best size for the rows that were learned from. For others a smaller one
may be better, which ``strength`` gives.
"""

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize

from . import recovery
from ._arrays import eigen, ops
from ._arrays.namespace import like, require_memory_beside, to_numpy
from ._types import Array, Matrix
from ._validation import warn
from .blocks import Blocks, read_blocks
from .losses import get_loss
from .problem import DualOptions, Prior, Problem, length_unit
from .scatter import DENSE_LIMIT, scatter_of
from .supervision import Comparisons, Supervision

PRIOR_SCALE = 3.0**0.5
"""Root mean square distance after scaling: a margin of one is a third of the mean square."""

FEW_ROWS = 4000
"""Rows below which wide rows have `FEW_ROWS_RANK` corrected directions by default."""

FEW_ROWS_RANK = 200
"""Directions that are corrected by default if rows are wide and few; 50 if they are many."""

BLOCK_RIDGE = 1e-3
"""ρ, how strongly the weights of blocks are pulled towards each other."""

_SMALLEST = 1e-6  # length of a direction that the positive part removes, relative to the identity
_LARGEST_STEP = 4.0


def check_prior(options: Any, n_features: int) -> None:
    """Refuse a prior that does not fit the rows or other options."""
    prior = options.prior
    if prior is None:
        if options.strength != 1.0:
            raise ValueError(
                f"strength={options.strength:g} applies only with a prior: set prior='identity', "
                "or leave strength out"
            )
        return
    is_name = isinstance(prior, str)
    if is_name and prior not in ("identity", "whitening"):
        raise ValueError(f"prior must be None, 'identity', 'whitening' or a Metric; got {prior!r}")
    if not is_name and not hasattr(prior, "n_features"):
        raise TypeError(
            f"prior must be None, 'identity', 'whitening' or a Metric; got {type(prior).__name__}. "
            "For a matrix M, pass Metric(np.linalg.cholesky(M))"
        )
    if prior == "whitening" and options.shrinkage == 1.0:
        raise ValueError(
            "prior='whitening' needs a shrinkage below 1, which says how strongly to whiten: "
            "0.9 is a good start"
        )
    if prior != "whitening" and options.shrinkage < 1.0:
        raise ValueError(
            f"shrinkage={options.shrinkage:g} can be used with prior=None or prior='whitening' "
            "only: use one of these, or shrinkage=1.0"
        )
    if prior == "whitening" and n_features > DENSE_LIMIT and options.lift is None:
        raise ValueError(
            f"prior='whitening' forms a matrix of features × features, for at most {DENSE_LIMIT:,} "
            f"features, but X has {n_features:,}: use prior='identity'"
        )
    if n_features > DENSE_LIMIT and options.lift is None and options.power != 0.5:
        raise ValueError(
            f"power={options.power:g} cannot be combined with a prior on more than {DENSE_LIMIT:,} "
            "features: use power=0.5"
        )
    if is_name:
        return
    if prior.lift is not None or options.lift is not None:
        raise ValueError(
            "prior is a Metric, which cannot be combined with a lift: use lift=None and a metric "
            "that was learned without a lift"
        )
    if prior.first.blocks is not None:
        raise ValueError(
            "prior is a Metric that weights blocks of features: use prior='identity' and blocks"
        )
    if prior.before is not None:
        raise ValueError(
            "prior is a Metric that scales rows before it maps them, but a prior must be linear: "
            "use one that was learned without a prior, or with distance='euclidean'"
        )
    if prior.kind == "cosine" and options.distance != "cosine":
        raise ValueError(
            "prior compares rows by the cosine, but distance is 'euclidean': use distance='cosine'"
        )
    if prior.idf is not None:
        raise ValueError(
            "prior weights counts by tf-idf, but fit takes rows as they are: weight the rows "
            "first (dualmetric.tfidf), and pass prior.replaced(idf=None)"
        )
    if prior.n_features != n_features:
        raise ValueError(
            f"prior is a metric over {prior.n_features} features, but X has {n_features}: use one "
            "that was learned on the same features"
        )


def resolve_blocks(options: Any, n_features: int, names: Any = None) -> Any:
    """Options with ``blocks`` checked against the features, and with the prior that they imply."""
    if options.blocks is None:
        return options
    if options.prior is not None and not (
        isinstance(options.prior, str) and options.prior == "identity"
    ):
        raise ValueError(
            "blocks have their own prior, the plain distance with a weight for each block: leave "
            "prior out, or use prior='identity'"
        )
    if options.lift is not None or options.shrinkage < 1.0:
        raise ValueError(
            "blocks cannot be combined with a lift or with shrinkage below 1: leave one of them out"
        )
    new = copy(options)
    new.prior, new.blocks = "identity", read_blocks(options.blocks, n_features, names)
    return new


def weigh_blocks(
    X: Matrix, supervision: Supervision, options: DualOptions, rng: np.random.Generator
) -> tuple[Matrix, Blocks, dict[str, float]]:
    """Weighted rows, the weights, and the share of each block in the mean squared distance.

    Comparisons are those of rows whose blocks have equal shares.
    """
    length_unit(X)  # refuses rows that are all the same, and numbers out of range
    of, names = read_blocks(options.blocks, X.shape[1])
    # a block of one column is a number: of length one, nothing but its sign would be left
    unit = options.distance == "cosine" and len(names) < X.shape[1]
    if unit:
        X = ops.unit_blocks(X, of, len(names))
    parts = [ops.canonical(ops.take_columns(X, np.flatnonzero(of == b))) for b in range(len(names))]
    sizes = [0.0 if ops.all_rows_equal(part) else ops.mean_sq_distance(part) for part in parts]
    varies = np.flatnonzero(sizes)
    if not len(varies):
        raise ValueError(
            "after blocks are scaled to length one, all rows of X are the same: use "
            "distance='euclidean', or blocks of more columns"
        )
    size = np.array(sizes)[varies]
    inverse, shares = np.zeros(len(names)), np.zeros(len(names))
    inverse[varies] = 1.0 / size
    if len(varies) == 1:
        shares[varies] = 1.0
    else:
        equal = ops.scaled_columns(X, np.sqrt(inverse / len(varies))[of])
        threshold = options.margin / PRIOR_SCALE**2
        given = supervision.compare(equal, options.n_triplets, options.sampler, threshold, rng)
        margins = [ops.margins(parts[b], given.index).astype(np.float64) for b in varies]
        shares[varies] = block_shares(np.stack(margins, axis=1) / size, given)
    weights = shares * inverse
    if unit:
        weights /= weights.sum()
    blocks = Blocks(of, weights)
    return blocks.apply(X, False), blocks, dict(zip(names, shares.tolist(), strict=True))


def block_shares(margins: Array, comparisons: Comparisons) -> Array:
    r"""Share of each block in the prior, given the margins m_tb of comparisons within blocks.

    Margins are relative to the mean squared distance within the block. In the formula they are
    multiplied by 3, since a prior scales the mean squared distance to 3. The shares are v/Σv, where
    v minimises the convex function

    .. math:: \frac{1}{\sum_t c_t} \sum_t c_t \ell(\sum_b v_b m_{tb} + 1 - b_t)
              + \frac{\rho}{2} \sum_b (v_b - \bar v)^2, \qquad v \ge 0

    with the smoothed hinge ℓ, and the weights c_t and margins b_t of the comparisons. The sum of v
    is not fixed: otherwise blocks with large margins would be preferred to blocks with correct
    ones.
    """
    margins = PRIOR_SCALE**2 * margins
    weight = comparisons.weight / comparisons.weight.sum()

    def objective(v: Array) -> tuple[float, Array]:
        slack = np.maximum(comparisons.margin - margins @ v, 0.0)
        slope = np.minimum(slack, 1.0)
        apart = v - v.mean()
        value = weight @ (slope * slack - 0.5 * slope**2) + 0.5 * BLOCK_RIDGE * apart @ apart
        return float(value), BLOCK_RIDGE * apart - (weight * slope) @ margins

    start = np.ones(margins.shape[1]) / margins.shape[1]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
    bounds = [(0.0, None)] * len(start)
    v = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    if v.sum() > 1e-6:
        shares: Array = v / v.sum()
        return shares
    warn(
        "there is no block in which rows that should be close are closer than others: all blocks "
        "get the same share"
    )
    return start


def apply_prior(
    X: Matrix, supervision: Supervision, options: DualOptions
) -> tuple[Matrix, Matrix | None, Prior, float]:
    """Rows after centring, scaling and whitening; the map that whitened them; prior and unit."""
    length_unit(X)  # refuses rows that are all the same, and numbers out of range
    mapped, prior = None, Prior()
    is_metric = not isinstance(options.prior, str)
    if options.prior == "whitening":
        n, d = X.shape
        require_memory_beside(
            X, (n * d + 5 * d * d) * 8, f"whitening {n:,} rows of {d:,} features", "Use fewer rows."
        )
        within = supervision.within(X, np.arange(n))
        scatter = scatter_of(X, within, options.shrinkage, d)
        # of a size like that of X: S is in its squared unit
        mapped = scatter.root() * float(np.sqrt(within.trace / d))
        X = ops.threaded_dot(X, mapped)
    elif is_metric:
        given: Any = options.prior
        omega, factor, gains = given.low_rank_form()
        if factor is not None:
            factor = like(factor, ops.column_means(X))
            prior = Prior(omega, factor, gains, ops.threaded_dot(X, factor))
        else:
            prior = Prior(omega)
    if scales_rows_first(options):
        centre = None if options.blocks is not None else ops.centre_of(X)
        X = ops.unit_rows(ops.minus_centre(X, centre))
    unit = length_unit(X, options.scale, PRIOR_SCALE)
    scale = PRIOR_SCALE**2 / _mean_sq_distance(X, prior) if options.scale else 1.0
    return X, mapped, replace(prior, scale=scale), unit


def scales_rows_first(options: DualOptions) -> bool:
    """Whether rows are scaled to length one before they are learned from."""
    return isinstance(options.prior, str) and options.distance == "cosine"


def _mean_sq_distance(X: Matrix, prior: Prior) -> float:
    """Mean of the prior's squared distance over all pairs of rows."""
    mean = prior.omega**2 * ops.mean_sq_distance(X) if prior.omega else 0.0
    if prior.image is not None:
        centred = to_numpy(ops.minus_mean(prior.image)).astype(np.float64)
        mean += 2.0 / (len(centred) - 1) * float(np.square(centred).sum(axis=0) @ prior.gains)
    if not mean > 0.0:
        raise ValueError("all rows of X have distance zero by the prior: use another prior")
    return mean


class Corrected(NamedTuple):
    """A prior and what was learned beside it."""

    factor: Matrix | None  # (d, rank): L; None for the identity
    outside: float = 0.0  # weight of the plain distance outside the columns of L
    # (rank,): what the columns add to the squared weight outside them, where there is one
    change: Array | None = None
    residual: float = 0.0  # of the directions


def corrected_lengths(change: Array, outside: float) -> Array:
    """Lengths of the directions whose squares are changed from that of the plain distance."""
    lengths: Array = np.sqrt(np.maximum(outside**2 + change, (_SMALLEST * outside) ** 2))
    return lengths


def correct_prior(
    problem: Problem,
    weight: Array,
    reg: float,
    options: DualOptions,
    rng: np.random.Generator,
) -> Corrected:
    """M₀ + strength·Δ, where Δ = Σ weight_t A_t over the problem's rows.

    Where dual variables come from a projection, Δ is multiplied by the step that a line search
    finds.
    """
    prior, rows, index = problem.prior, problem.rows, problem.comparisons.index
    assert prior is not None
    n, d = rows.shape
    if not weight.any():
        warn(
            f"the prior satisfies all {len(index):,} comparisons: it is returned unchanged",
        )
        if prior.image is None:
            kept = problem.mapped is None or scales_rows_first(options)
            return Corrected(None if kept else ops.square(d, rows, diagonal=1.0))
    C = recovery.weighted_graph(index, weight, rows)
    projected = options.space != "original"
    wanted = options.n_components
    if wanted is None:
        wanted = FEW_ROWS_RANK if n < FEW_ROWS else recovery.DEFAULT_WIDE_RANK
    # Δ is in the unit of the problem; M₀ keeps its own
    ratio = options.strength / (prior.scale * problem.unit**2)
    if d <= DENSE_LIMIT:
        delta = eigen.symmetric(recovery.graph_matrix(rows, C), 0.0)
        if projected:
            margins = ops.margins(ops.to_dense(rows), index, delta) / problem.unit**2
            size = float(ops.column_dots(delta, delta).sum())
            ratio *= line_search(margins, size, problem.comparisons, reg, options.loss)
        if problem.spanned is None:
            M = ratio * delta + ops.square(d, delta, diagonal=prior.omega**2)
            if prior.factor is not None:
                M = M + prior.low_rank_dot(ops.square(d, delta, diagonal=1.0))
            found = recovery.positive_part(M, options.n_components)
            return Corrected(found.factor(power=options.power))
        values, vectors = eigen.eigh(ops.to_float64(delta))
        found = recovery.Directions(values, like(vectors, rows), 0.0)
    else:
        found = recovery.both_ends(rows, C, wanted, rng, options.eigen_tol)
        if projected:
            image = ops.threaded_dot(rows, like(found.vectors, ops.column_means(rows)))
            turned = eigen.diagonal_like(found.values, image)
            margins = ops.margins(image, index, turned) / problem.unit**2
            size = float(np.square(found.values).sum())
            ratio *= line_search(margins, size, problem.comparisons, reg, options.loss)
    if prior.factor is not None:
        return _beside_metric(problem, ratio * weight, options, rng)
    keep = np.argsort(-np.abs(found.values), kind="stable")[:wanted]
    change = ratio * found.values[keep]
    vectors = ops.take_columns(found.vectors, keep)
    factor = vectors * like(corrected_lengths(change, prior.omega), vectors)
    return Corrected(factor, prior.omega, change, found.residual)


def _beside_metric(
    problem: Problem, weight: Array, options: DualOptions, rng: np.random.Generator
) -> Corrected:
    """The positive part of a Metric prior plus Δ, where the matrix is not written out."""
    prior = problem.prior
    assert prior is not None
    wanted = options.n_components or max(recovery.DEFAULT_WIDE_RANK, prior.factor.shape[1])  # type: ignore[union-attr]
    C = recovery.weighted_graph(problem.comparisons.index, weight, problem.rows)
    if not prior.omega:
        found = recovery.leading_part(
            problem.rows, C, wanted, rng, None, options.eigen_tol, prior.low_rank_dot
        )
        return Corrected(found.factor(), residual=found.residual)
    found = recovery.both_ends(problem.rows, C, wanted, rng, options.eigen_tol, prior.low_rank_dot)
    lengths = corrected_lengths(found.values, prior.omega)
    factor = found.vectors * like(lengths, found.vectors)
    return Corrected(factor, prior.omega, residual=found.residual)


def line_search(
    change: Array, size: float, comparisons: Comparisons, reg: float, loss: str
) -> float:
    """Step τ ≥ 0 that minimises the primal objective along Δ.

    ``change`` holds ⟨Δ, A_t⟩ and ``size`` is ‖Δ‖². The targets of the comparisons have the prior's
    margins subtracted. The step is where the slope of the objective, which rises, crosses zero: the
    values alone would give it to half the digits only.
    """
    given, shift = get_loss(loss), 1.0 - comparisons.margin
    change = change.astype(np.float64)
    weight = comparisons.weight * change / len(change)

    def slope(step: float) -> float:
        return reg * step * size + float(weight @ given.slope(step * change + shift))

    if slope(0.0) >= 0.0:
        return 0.0
    if slope(_LARGEST_STEP) <= 0.0:
        return _LARGEST_STEP
    return float(brentq(slope, 0.0, _LARGEST_STEP, xtol=1e-12))
