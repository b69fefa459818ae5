"""Updating: comparisons are added, removed and reweighted, and the dual variables are kept.

A new comparison starts at β = 0, a removed one is deleted, and one with a lower weight is clipped
to it: each leaves a feasible point of the dual problem over the comparisons there are now, N among
them. `settling` continues from it.

The problem depends on the comparisons only through G = ⟨A_s, A_t⟩. Up to ``GRAM_LIMIT`` comparisons
G is kept: an update then costs one row of it, and steps on N numbers. What rows go through first,
the prior, the unit of length and the projection stay fixed in `Base`.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from . import spaces
from ._arrays import ops
from ._arrays.namespace import like
from ._types import Array, Matrix
from .losses import Loss
from .metric import Metric
from .prior import apply_prior, scales_rows_first
from .problem import Prior, length_unit
from .supervision import Comparisons, Supervision

GRAM_LIMIT = 5000
"""Comparisons up to which their inner products G are kept: 200 MB."""

_SMALLEST_WEIGHT = 1e-12  # relative to the weight given: a dual variable is divided by it
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
    places, new, seen = _places(kept.seen, raw, kept.raw.shape[0])
    rows = base.first.apply(ops.take_rows(raw, new)) if len(new) else kept.rows[:0]
    joined = _joined(kept.rows, rows)
    index = places[given.index]
    start, n = len(kept), len(kept) + len(index)
    now = replace(
        kept,
        raw=_joined(kept.raw, ops.take_rows(raw, new)),
        rows=joined,
        index=np.concatenate([kept.index, index]),
        margin=np.append(kept.margin, options.margin * given.margin),
        told=np.append(kept.told, _told(joined, index, base)),
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
    told = _told(rows, kept.index, base)
    return with_gram(replace(kept, rows=rows, told=told, gram=None), base)


def with_gram(kept: Kept, base: Base) -> Kept:
    """The same with G, where there are few enough comparisons."""
    if kept.gram is not None or len(kept) > GRAM_LIMIT:
        return kept
    return replace(kept, gram=_grown(np.zeros((0, 0)), kept, base, 0))


def seen_in(rows: Matrix) -> dict[bytes, int]:
    """Place of each row, by its bytes."""
    return {key: place for place, key in enumerate(_keys(rows))}


def _places(
    known: dict[bytes, int], raw: Matrix, n_known: int
) -> tuple[Array, Array, dict[bytes, int]]:
    """Place of each row among the known ones, which rows are new, and where all are then.

    There may be more known rows than keys: a row that was given both dense and sparse is kept
    twice.
    """
    seen = known.copy()
    new: list[int] = []
    places = np.empty(raw.shape[0], dtype=np.int64)
    for number, key in enumerate(_keys(raw)):
        if key not in seen:
            seen[key] = n_known + len(new)
            new.append(number)
        places[number] = seen[key]
    return places, np.array(new, dtype=np.int64), seen


def _keys(rows: Matrix) -> list[bytes]:
    """Bytes of each row in float64, by which rows are told apart; −0 counts as 0."""
    if ops.is_dense(rows):
        return [(row.astype(np.float64) + 0.0).tobytes() for row in rows]
    rows = ops.canonical(rows)
    data, ends = rows.data.astype(np.float64), rows.indptr
    return [
        rows.indices[a:b].astype(np.int64).tobytes() + b"|" + data[a:b].tobytes()
        for a, b in pairwise(ends)
    ]


def _joined(a: Matrix, b: Matrix) -> Matrix:
    if not b.shape[0]:
        return a
    return ops.stacked([a, b]) if a.shape[0] else b


def _told(rows: Matrix, index: Array, base: Base) -> Array:
    """What the prior says about comparisons of these rows, ⟨M₀, A_t⟩."""
    if base.prior is None or not len(index):
        return np.zeros(len(index))
    return base.prior.scale * with_image(base.prior, rows).margins(rows, index)


def with_image(prior: Prior, rows: Matrix) -> Prior:
    """The prior with the image of rows, where it has a factor."""
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
