"""Updating: comparisons are added, removed and reweighted, and the metric is updated to match.

The dual variables are kept. A new comparison starts at β = 0, a removed one is deleted, and one
with a lower weight is clipped to it: each leaves a feasible point of the dual problem over the
comparisons there are now, N among them. Coordinate ascent continues from it until the duality gap
is small. As the regulariser is λ/2·‖M − M₀‖², the gap bounds how far the metric is from M*, the one
that a fit from scratch on the same comparisons would give:

    ‖M − M*‖ ≤ √(2·gap/λ).

Removing negative eigenvalues brings matrices closer, so the bound also holds for the metric in use.
For DuRP it holds in the projected problem.

The problem depends on the comparisons only through G = ⟨A_s, A_t⟩. Up to ``GRAM_LIMIT`` comparisons
G is kept: an update then costs one row of it, and steps on N numbers. What rows go through first,
the prior, the unit of length and the projection stay fixed in `Base`.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from . import spaces
from ._arrays import ops
from ._arrays.namespace import like
from ._types import Array, Matrix
from ._validation import warn
from .learn import in_span, rebuild, regularisation
from .losses import Loss, get_loss
from .metric import Metric
from .prior import apply_prior, scales_rows_first
from .problem import Prior, Problem, length_unit
from .solver import DualSolution, Epoch, solve_dual
from .supervision import Comparisons, Supervision

PRECISION = 1e-3
"""Without ``tol``, ‖M − M*‖ is at most this times ‖M − M₀‖."""

GRAM_LIMIT = 5000
"""Comparisons up to which their inner products G are kept: 200 MB."""

MOST_EPOCHS = 10_000
"""Number of epochs after which an update stops even if the gap is still too large."""

_SMALLEST_WEIGHT = 1e-12  # relative to the weight given: a dual variable is divided by it
_EPOCHS_AT_ONCE = 4  # between two looks at the gap
_NEW_AT_ONCE = 256  # comparisons whose dense differences are held at once


@dataclass(frozen=True, eq=False)
class Base:
    """What stays fixed between updates: learned from the rows of the first call, or of a rebase."""

    first: Metric  # what happens to a row before it is learned from
    mean: Matrix | None  # mean of such rows, where a metric needs it as the centre of the cosine
    unit: float  # the length that counts as one
    prior: Prior | None  # M₀, without the image of any rows
    basis: Matrix | None  # (d, m): DuRP's projection


@dataclass(frozen=True, eq=False)
class Kept:
    """Comparisons, their dual variables, and the rows that they name."""

    raw: Matrix  # (R, d): rows as they were given
    rows: Matrix  # the same as they are learned from: after ``Base.first``
    index: Array  # (N, 4): comparisons (a, b, c, d) of these rows
    margin: Array  # (N,): targets, before what the prior says is subtracted
    told: Array  # (N,): what the prior says, ⟨M₀, A_t⟩
    given: Array  # (N,): weights as they were given
    weight: Array  # (N,): weights that count now
    beta: Array  # (N,): dual variables
    ids: tuple[str | int, ...]  # one per comparison; several may share one
    born: Array  # (N,): number of the update that added each
    n_updates: int  # so far
    seen: dict[bytes, int]  # place of each row, by its bytes
    # (capacity, capacity): ⟨A_s, A_t⟩ of the first N, or None above ``GRAM_LIMIT``
    gram: Array | None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def comparisons(self) -> Comparisons:
        """The comparisons over ``raw``, with the targets and weights that count now."""
        return Comparisons(self.index, self.margin, self.weight)


@dataclass(frozen=True, eq=False)
class Updated:
    """What `settle` found."""

    kept: Kept  # with new dual variables
    epoch: Epoch  # objectives and gap at the end
    bound: float  # on ‖M − M*‖, in the unit in which the problem is solved
    reg: float  # λ


# --- what stays fixed ------------------------------------------------------------------------


def make_base(
    X: Matrix, supervision: Supervision, options: Any, rng: np.random.Generator, names: Any
) -> Base:
    """Learn centre, whitening, unit and projection from rows."""
    d = X.shape[1]
    mapped = prior = mean = None
    centre = None
    rows = X
    if options.prior is None:
        unit = length_unit(X, options.scale)
    else:
        rows, mapped, prior, unit = apply_prior(X, supervision, options)
        prior = replace(prior, image=None)
    first = scales_rows_first(options)
    if first:
        centre = ops.centre_of(X) if mapped is None else ops.column_means(X) @ mapped
    elif options.distance == "cosine" or ops.is_dense(X):
        mean = ops.column_means(rows)
    basis = None
    if options.space == "projection":
        basis = spaces.random_projection(rows[:1], options.n_projections, rng)[1]
    kind = "cosine" if first else "euclidean"
    return Base(Metric(mapped, d, names, centre=centre, distance=kind), mean, unit, prior, basis)


def nothing(X: Matrix, base: Base) -> Kept:
    """The state without any comparison; X gives the kind of rows."""
    raw = X[:0]
    floats, whole = np.zeros(0), np.zeros((0, 4), dtype=np.int64)
    rows = base.first.apply(X[:1])[:0]
    empty = np.zeros((0, 0))
    born = np.zeros(0, np.int64)
    return Kept(raw, rows, whole, floats, floats, floats, floats, floats, (), born, 0, {}, empty)


# --- adding, removing, reweighting -----------------------------------------------------------


def add(kept: Kept, base: Base, raw: Matrix, given: Comparisons, ids: Any, options: Any) -> Kept:
    """Add comparisons over ``raw``, with β = 0; rows that are known already are recognised."""
    places, new, seen = _places(kept.seen, raw)
    rows = base.first.apply(ops.take_rows(raw, new)) if len(new) else kept.rows[:0]
    joined = _joined(kept.rows, rows)
    index = places[given.index]
    start, n = len(kept), len(kept) + len(index)
    told = np.zeros(len(index))
    if base.prior is not None:
        told = base.prior.scale * _with_image(base.prior, joined).margins(joined, index)
    now = replace(
        kept,
        raw=_joined(kept.raw, ops.take_rows(raw, new)),
        rows=joined,
        index=np.concatenate([kept.index, index]),
        margin=np.append(kept.margin, options.margin * given.margin),
        told=np.append(kept.told, told),
        given=np.append(kept.given, given.weight),
        weight=np.append(kept.weight, given.weight),
        beta=np.append(kept.beta, np.zeros(len(index))),
        ids=(*kept.ids, *ids),
        born=np.append(kept.born, np.full(len(index), kept.n_updates)),
        n_updates=kept.n_updates + 1,
        seen=seen,
        gram=None,
    )
    if kept.gram is None or n > GRAM_LIMIT:
        return now
    return replace(now, gram=_grown(kept.gram, now, base, start))


def remove(kept: Kept, base: Base, places: Array) -> Kept:
    """Delete the comparisons at these places, and the rows that no other names."""
    stay = np.setdiff1d(np.arange(len(kept)), places)
    named, index = np.unique(kept.index[stay], return_inverse=True)
    parts = {
        name: getattr(kept, name)[stay]
        for name in ("margin", "told", "given", "weight", "beta", "born")
    }
    gram = None if kept.gram is None else kept.gram[np.ix_(stay, stay)]
    raw = ops.take_rows(kept.raw, named)
    now = replace(
        kept,
        raw=raw,
        rows=ops.take_rows(kept.rows, named),
        index=index.reshape(-1, 4).astype(np.int64),
        ids=tuple(kept.ids[place] for place in stay),
        n_updates=kept.n_updates + 1,
        seen=seen_in(raw),
        gram=gram,
        **parts,
    )
    return with_gram(now, base)


def reweigh(kept: Kept, weight: Array, loss: Loss) -> Kept:
    """Give the comparisons other weights; dual variables are clipped to them."""
    weight = np.maximum(weight, _SMALLEST_WEIGHT * kept.given)
    beta = np.minimum(kept.beta, loss.upper * weight)
    return replace(kept, weight=weight, beta=beta, n_updates=kept.n_updates + 1)


def based_on(kept: Kept, base: Base) -> Kept:
    """The same comparisons and dual variables on another base."""
    rows = base.first.apply(kept.raw) if kept.raw.shape[0] else kept.raw
    told = np.zeros(len(kept))
    if base.prior is not None and len(kept):
        told = base.prior.scale * _with_image(base.prior, rows).margins(rows, kept.index)
    return with_gram(replace(kept, rows=rows, told=told, gram=None), base)


def with_gram(kept: Kept, base: Base) -> Kept:
    """The same with G, where there are few enough comparisons."""
    if kept.gram is not None or len(kept) > GRAM_LIMIT:
        return kept
    return replace(kept, gram=_grown(np.zeros((0, 0)), kept, base, 0))


def seen_in(rows: Matrix) -> dict[bytes, int]:
    """Place of each row, by its bytes."""
    return {key: place for place, key in enumerate(_keys(rows))}


def _places(known: dict[bytes, int], raw: Matrix) -> tuple[Array, Array, dict[bytes, int]]:
    """Place of each row among the known ones, which rows are new, and where all are then."""
    seen = known.copy()
    places, new = np.empty(raw.shape[0], dtype=np.int64), []
    for number, key in enumerate(_keys(raw)):
        if key not in seen:
            seen[key] = len(seen)
            new.append(number)
        places[number] = seen[key]
    return places, np.array(new, dtype=np.int64), seen


def _keys(rows: Matrix) -> list[bytes]:
    """Bytes of each row, by which rows are told apart."""
    if ops.is_dense(rows):
        return [row.tobytes() for row in np.ascontiguousarray(rows)]
    rows = ops.canonical(rows)
    ends = rows.indptr
    return [
        rows.indices[a:b].astype(np.int64).tobytes() + b"|" + rows.data[a:b].tobytes()
        for a, b in pairwise(ends)
    ]


def _joined(a: Matrix, b: Matrix) -> Matrix:
    if not b.shape[0]:
        return a
    return ops.stacked([a, b]) if a.shape[0] else b


def _with_image(prior: Prior, rows: Matrix) -> Prior:
    if prior.factor is None:
        return prior
    return replace(prior, image=ops.dot(rows, like(prior.factor, rows)))


def _grown(gram: Array, kept: Kept, base: Base, start: int) -> Array:
    """G of the first ``start`` comparisons, and of all others as well."""
    n = len(kept)
    if len(gram) < n:  # room for as many again, so that one more does not copy all
        room = np.zeros((min(max(2 * n, 64), max(n, GRAM_LIMIT)),) * 2)
        room[:start, :start] = gram[:start, :start]
        gram = room
    Z = solved_rows(kept.rows, base)
    for first in range(start, n, _NEW_AT_ONCE):
        stop = min(first + _NEW_AT_ONCE, n)
        u, v = (ops.to_dense(part) for part in ops.differences(Z, kept.index[first:stop]))
        with_u, with_v = (ops.dot(Z, part.T).astype(np.float64) for part in (u, v))
        (uu, vu), (uv, vv) = (
            ops.differences(image, kept.index[:stop]) for image in (with_u, with_v)
        )
        part = 0.5 * (uu * vv + vu * uv) / base.unit**4
        gram[:stop, first:stop] = part
        gram[first:stop, :stop] = part.T
    return gram


def solved_rows(rows: Matrix, base: Base) -> Matrix:
    """Rows in the space where the dual problem is solved; its unit is ``base.unit``."""
    if base.mean is not None and ops.is_dense(rows):
        rows = rows - base.mean  # distances stay, and numbers near zero keep their digits
    if base.basis is not None:
        return ops.to_dense(ops.dot(rows, base.basis))
    return rows


# --- solving ---------------------------------------------------------------------------------


def settle(kept: Kept, base: Base, options: Any, rng: np.random.Generator) -> Updated:
    """Continue from the kept dual variables until the gap is met."""
    if not len(kept):
        return Updated(kept, Epoch(0, 0.0, 0.0, 0.0), 0.0, 1.0)
    problem = posed(kept, base)
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


def posed(kept: Kept, base: Base) -> Problem:
    """The problem over the rows that comparisons name."""
    comparisons = Comparisons(kept.index, kept.margin - kept.told, kept.weight)
    prior = None if base.prior is None else _with_image(base.prior, kept.rows)
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


def weights_of(updated: Updated, base: Base) -> Array:
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
    weight = weights_of(updated, base)
    if not weight.any():  # what was there before: the prior, or the plain distance
        if base.prior is not None and base.prior.factor is not None:
            factor, outside = base.prior.factor, base.prior.omega
    else:
        problem = posed(kept, base)
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
