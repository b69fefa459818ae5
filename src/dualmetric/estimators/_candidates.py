"""Candidates of `MetricCV`, scored on held-out rows; what they share is computed once.

Every candidate runs the stages of `dualmetric.learn`, in their order and with the random numbers
that a fit of its own would use, so that stages can be shared: the lift between all that have it,
the comparisons between all with the same sampler, and the directions between all ranks, powers and
distances.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from .. import learn as stages
from .._arrays import ops
from .._rows import open_rows
from .._types import Array, Matrix
from ..learn import SPAN_LIMIT
from ..lift import LANDMARKS
from ..prior import resolve_blocks
from ..problem import LiftedRows
from ..recovery import DEFAULT_WIDE_RANK, Directions
from ..scatter import DENSE_LIMIT, scatter_of
from ..supervision import Split
from .base import Training, generator
from .dual import DuOri, DuRP

_ALL_DIRECTIONS = 1000
"""Features up to which all directions are found, not the leading ones only."""

_SHRINKAGES = (1.0, 0.84, 0.5, 0.1, 0.03, 0.01)
_PRIOR_REGS = (1e-4, 1e-3, 3e-3, 1e-2, 1e-1)
_PRIOR_TRIPLETS = 50_000
_PRIOR_PROJECTIONS = 400
# many features vary too little to be whitened strongly, and each step down costs more
_WIDE_SHRINKAGES = (1.0, 0.92, 0.84, 0.7)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An estimator and how it did: one score per held-out query, NaN where it has none to find."""

    method: str
    params: dict[str, Any]
    scores: Array
    fit_time: float
    score_time: float

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.nanmean(self.scores))

    @classmethod
    def merged(cls, same: Sequence["Candidate"]) -> "Candidate":
        """The same settings on several parts."""
        return cls(
            same[0].method,
            same[0].params,
            np.concatenate([candidate.scores for candidate in same]),
            float(np.mean([candidate.fit_time for candidate in same])),
            float(np.mean([candidate.score_time for candidate in same])),
        )


def score_candidates(
    X: Matrix,
    split: Split,
    search: Any,
    families: Sequence[str],
    n_classes: int | None,
    distance: str | None,
    names: Any,
    seed: int,
) -> Iterator[list[Candidate]]:
    """Learn from one part of the rows with all settings of a `MetricCV`, and score on the other.

    Yields candidates in groups, in an order that is the same for every split. The first group holds
    the plain distances. A prior is that of ``distance``, or of the better one of them; ``names``
    are those of the features.
    """
    rows = ops.take_rows(X, split.train_rows), ops.take_rows(X, split.test_rows)
    plain = list(_scored("Euclidean", {}, rows, ("euclidean", "cosine"), split, 0.0))
    yield plain
    if distance is None:
        distance = max(plain, key=lambda candidate: candidate.mean).params["distance"]
    yield from _corrected(rows, split, search, families, distance, names, seed)
    shrinkages = search.shrinkages
    if shrinkages is None:
        n, d = rows[0].shape
        shrinkages = _WIDE_SHRINKAGES if d > DENSE_LIMIT and n >= SPAN_LIMIT else _SHRINKAGES
    if "scatter" in families:
        yield from _whitened(rows, split, shrinkages, search.distances)
    for lift in _lifts(X, search.lifts) if "dual" in families else ():
        ranks = _ranks(search.ranks, n_classes, X.shape, lift)
        yield from _learned(rows, split, lift, shrinkages, ranks, search, seed)


def n_groups(X: Matrix, search: Any, families: Sequence[str]) -> int:
    """How many groups `score_candidates` yields for a split, at most."""
    shrinkages = len(search.shrinkages or _SHRINKAGES)
    learned = len(_lifts(X, search.lifts)) * len(search.samplers) * len(search.regs)
    return (
        1
        + len(_prior_settings(X.shape[1], families))
        + shrinkages * ("scatter" in families)
        + learned * shrinkages * ("dual" in families)
    )


def fixed_options(search: Any) -> dict[str, Any]:
    """Options of `DuRP` that all candidates without a prior have."""
    return {name: getattr(search, name) for name in ("n_projections", "n_triplets", "max_epochs")}


def _lifts(X: Matrix, lifts: Sequence[Any]) -> list[Any]:
    if ops.centre_of(X[:1]) is not None:
        return list(lifts)
    if not any(lift is None for lift in lifts):
        raise ValueError("a lift is for dense rows, and X is sparse: put None among the lifts")
    return [None]


def _ranks(
    given: Sequence[int] | None, n_classes: int | None, shape: tuple[int, int], lift: str | None
) -> list[int | None]:
    ranks: list[int | None] = list(given or ())
    if given is None:
        few = [] if n_classes is None else [max(n_classes - 1, 1)]
        ranks = [*few, DEFAULT_WIDE_RANK, None]
    if (shape[1] if lift is None else min(shape[0], LANDMARKS)) > _ALL_DIRECTIONS:
        ranks = [rank for rank in ranks if rank is not None] or [DEFAULT_WIDE_RANK]
    return ranks


def _scored(
    method: str,
    params: dict[str, Any],
    mapped: tuple[Matrix, Matrix],
    distances: Sequence[str],
    split: Split,
    spent: float,
) -> Iterator[Candidate]:
    """Candidates that differ in the distance alone, over rows as their metric maps them."""
    for distance in distances:
        begin = perf_counter()
        train, test = mapped
        if distance == "cosine":  # dense rows are centred by the mean of training rows
            centre = ops.centre_of(mapped[0])
            train, test = (ops.unit_rows(ops.minus_centre(part, centre)) for part in mapped)
        scores = split.judge(train, test)
        params = {**params, "distance": distance}
        yield Candidate(method, params, scores, spent, perf_counter() - begin)


def _prior_settings(n_features: int, families: Sequence[str]) -> list[dict[str, Any]]:
    """Settings of the candidates with a prior, apart from λ."""
    settings: list[dict[str, Any]] = []
    if "identity" in families:
        settings.append({"prior": "identity"})
    if "whitening" in families and n_features <= _ALL_DIRECTIONS:
        settings.append({"prior": "whitening", "shrinkage": 0.9})
    margins = [1.0] if n_features <= _ALL_DIRECTIONS else [0.4, 1.0]
    return [{**setting, "margin": margin} for setting in settings for margin in margins]


def _corrected(
    rows: tuple[Matrix, Matrix],
    split: Split,
    search: Any,
    families: Sequence[str],
    distance: str,
    names: Any,
    seed: int,
) -> Iterator[list[Candidate]]:
    """Candidates with a prior: one group for each prior and margin, which share comparisons."""
    train = rows[0]
    n, d = train.shape
    # the size of the correction matters, and few projections make it too large
    method: Any = DuOri if d <= _ALL_DIRECTIONS else DuRP
    training = Training(open_rows(train)[0], split.train, np.arange(n), train, split.train)
    for setting in _prior_settings(d, families):
        begin = perf_counter()
        params = {**setting, "distance": distance, "max_epochs": search.max_epochs}
        params["n_triplets"] = min(search.n_triplets, _PRIOR_TRIPLETS)
        if method is DuRP:
            params["n_projections"] = _PRIOR_PROJECTIONS
        if search.blocks is not None:
            params["blocks"] = search.blocks
        after_sampling = generator(seed)
        options = resolve_blocks(method(**params), d, names)
        problem = stages.pose(train, split.train, options, after_sampling)
        group = []
        for reg in _PRIOR_REGS:
            model = method(**params, reg=reg)
            rng, clock = deepcopy(after_sampling), stages.Clock()
            options = resolve_blocks(model, d, names)
            found = stages.learn_posed(problem, LiftedRows(train), options, rng, clock)
            metric = model.metric_of(found, training)
            mapped = [metric.embedding(part) for part in rows]
            mapped = [part.positive if part.negative is None else part for part in mapped]
            spent, begin = perf_counter() - begin, perf_counter()
            scores = split.judge(*mapped)
            took = perf_counter() - begin
            group.append(Candidate(method.__name__, {**params, "reg": reg}, scores, spent, took))
            begin = perf_counter()
        yield group


def _whitened(
    rows: tuple[Matrix, Matrix], split: Split, shrinkages: Sequence[float], distances: Sequence[str]
) -> Iterator[list[Candidate]]:
    """Candidates of `Whitening`: all directions of whitened rows, and no comparisons."""
    train, test = rows
    n, d = train.shape
    if d > _ALL_DIRECTIONS:
        return
    begin = perf_counter()
    within = split.train.within(train, np.arange(n))
    if within.trace <= 0.0:
        return
    W = ops.quadratic(train, within.apply)
    for shrinkage in shrinkages:
        if shrinkage == 1.0:
            continue  # the plain distance
        root = scatter_of(train, within, shrinkage, d, W).root()
        mapped = ops.dot(train, root), ops.dot(test, root)
        spent, params = perf_counter() - begin, {"shrinkage": shrinkage}
        yield list(_scored("Whitening", params, mapped, distances, split, spent))
        begin = perf_counter()


def _learned(
    rows: tuple[Matrix, Matrix],
    split: Split,
    lift: str | None,
    shrinkages: Sequence[float],
    ranks: list[int | None],
    search: Any,
    seed: int,
) -> Iterator[list[Candidate]]:
    """Candidates of `DuRP`: one group for each sampler, shrinkage and λ."""
    begin = perf_counter()
    train, test = rows
    fixed = {**fixed_options(search), "lift": lift}
    options = DuRP(**fixed)
    after_lift = generator(seed)
    lifted = stages.lift_rows(train, options, after_lift)
    if lifted.lift is not None:
        test = lifted.lift.apply(test, lifted.nystroem)
    most = None if None in ranks else max(rank for rank in ranks if rank is not None)
    for sampler in search.samplers:
        options = DuRP(**fixed, sampler=sampler)
        after_sampling = deepcopy(after_lift)
        problem = stages.pose(lifted.X, split.train, options, after_sampling)
        within = stages.within_of(problem) if min(shrinkages) < 1.0 else None
        for shrinkage, reg in product(shrinkages, search.regs):
            if shrinkage < 1.0 and within is not None and within[0].trace <= 0.0:
                continue
            base = {"lift": lift, "sampler": sampler, "shrinkage": shrinkage, "reg": reg}
            options = DuRP(**{**fixed, **base})
            rng = deepcopy(after_sampling)
            Z, _, scatter, posed = stages.project(problem, options, rng, within=within)
            _, weight = stages.solve(posed, Z, options, rng)
            found = stages.directions(
                posed,
                weight,
                options,
                rng,
                scatter=scatter,
                rank=most,
                written_up_to=_ALL_DIRECTIONS,
            )
            if not len(found.values):  # no positive direction: all rows are alike
                ones = np.ones((posed.rows.shape[1], 1), posed.rows.dtype)
                found = Directions(ones[0], ones, 0.0)
            vectors = stages.in_original_space(found.vectors, posed, None)
            mapped = ops.threaded_dot(lifted.X, vectors), ops.threaded_dot(test, vectors)
            spent = perf_counter() - begin
            yield list(_read_off(base, spent, found, mapped, ranks, search, split))
            begin = perf_counter()


def _read_off(
    base: dict[str, Any],
    spent: float,
    found: Directions,
    mapped: tuple[Matrix, Matrix],
    ranks: list[int | None],
    search: Any,
    split: Split,
) -> Iterator[Candidate]:
    """Candidates of all ranks, powers and distances along the same directions."""
    few = min((rank for rank in ranks if rank is not None), default=None)
    for rank, power in product(ranks, search.powers):
        if power < 0.0 and rank != few:
            continue  # the last of many directions are noise, and would be the longest
        lengths = found.lengths(rank, power).astype(mapped[0].dtype)
        train, test = (part[:, : len(lengths)] * lengths for part in mapped)
        params = {**base, "n_components": rank, "power": power}
        yield from _scored("DuRP", params, (train, test), search.distances, split, spent)
