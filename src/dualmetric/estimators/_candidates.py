"""Candidates of `MetricCV`, in families that share work.

Every candidate runs the stages of `dualmetric.learn`, in the same order and with the same random
numbers as a separate fit would. (Only ridge regression by products is less exact than a fit: see
`ridge.ROUGH`.) So stages can be shared: the lift by all candidates that have one,
the comparisons by all with the same sampler, the directions by all ranks, powers and distances, and
one decomposition of the rows by all penalties of a ridge regression.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from .. import learn as stages
from .. import ridge
from .._arrays import ops
from .._arrays.namespace import like
from .._rows import open_rows
from .._types import Array, Matrix
from ..learn import SPAN_LIMIT
from ..lift import LANDMARKS, SPARSE_FEATURES
from ..prior import resolve_blocks
from ..problem import LiftedRows
from ..recovery import DEFAULT_WIDE_RANK, Directions
from ..scatter import DENSE_LIMIT, scatter_of
from ..supervision import Labels, Pairs, Split, Supervision
from ..supervision._judged import Judged
from ._race import Race, better_plain, is_default_ridge, paired
from .base import Training, generator
from .dual import DuOri, DuRP

_ALL_DIRECTIONS = 1000
"""Features up to which all directions are found, not the leading ones only."""

# each with the place to begin at: see `_walk`
_SHRINKAGES = (1.0, 0.84, 0.5, 0.1, 0.03, 0.01, 0.003, 0.001), 3
# many features vary too little to be whitened strongly, and each step down costs more
_WIDE_SHRINKAGES = (1.0, 0.92, 0.84, 0.7), 2
_PRIOR_REGS = (1e-3, 2e-3, 5e-3, 1e-2, 3e-2, 1e-1)
_PAIR_REGS = (1e-3, 4e-3, 1e-2, 1e-1)
# comparisons: of pairs there are very many, and more are no better
_PRIOR_TRIPLETS, _PRIOR_JUDGED, _PRIOR_PAIRS = 50_000, 25_000, 15_000
JUDGED_EPOCHS = 2  # a third is no better
PRIOR_PROJECTIONS = 300
_LABEL_REGS, LABEL_PROJECTIONS = (1e-3, 1e-2, 1e-1), 100
# wide rows: a weaker correction does for new rows what a larger λ does, and costs no fit
_WIDE_REGS = (1e-3, 1e-2)
_WIDE_RANK = 150
_STRENGTHS = (1.0, 0.5, 0.25, 0.12)
TRIPLETS_PER_ROW = 50
_WORTHWHILE = 0.001  # gain of a step to the next value: smaller ones are noise
FEW_LABELS = 40, 1000
"""Labels with which `RidgeMetric` with default settings is tried: see `predicts_classes`."""


# settings that a RidgeMetric does not have: it is not tried where they are given
_OF_DURP = ("shrinkages", "ranks", "powers", "samplers", "regs")
_TRIED = {
    "scatter": "Whitening",
    "ridge": "RidgeMetric",
    "dual": "DuRP",
    "identity": "metrics with prior='identity'",
    "whitening": "metrics with prior='whitening'",
}
_READERS = {  # families that have a setting
    "shrinkages": ("scatter", "dual"),
    "ranks": ("dual",),
    "powers": ("dual",),
    "samplers": ("dual",),
    "regs": ("dual", "identity", "whitening"),
}


@dataclass(frozen=True, eq=False)
class Field:
    """What all candidates of a split have in common."""

    search: Any  # the MetricCV
    families: Sequence[str]
    split: Split
    train: Matrix
    test: Matrix
    n_classes: int | None
    names: Any  # of the features
    seed: int
    n_rows: int  # of all splits
    race: Race
    default_ridge: bool = False  # whether `RidgeMetric` with default settings is tried

    @property
    def is_line(self) -> bool:
        """Whether rows have one feature: every linear metric is then the plain distance."""
        return bool(self.train.shape[1] == 1)

    def scored(
        self,
        method: str,
        params: dict[str, Any],
        mapped: tuple[Matrix, Matrix],
        distances: Sequence[str],
        spent: float,
    ) -> float:
        """Enter candidates that differ in the distance alone; returns the best mean score."""
        best, plain = -np.inf, method == "Euclidean"
        stays = plain or is_default_ridge(method, params)
        if mapped[1].shape[1] == 1 and not plain:
            # along one direction the cosine is a sign: no ranking, and a score of luck
            distances = [name for name in distances if name != "cosine"] or distances
        for distance in distances:
            train, test = mapped
            # a metric with one direction has the Euclidean distance, whatever is asked for
            if distance == "cosine" and (plain or test.shape[1] > 1):
                # dense rows are centred by the mean of training rows
                centre = ops.centre_of(mapped[0])
                judged = mapped if self.split.judges_train else mapped[1:]
                *first, test = (ops.unit_rows(ops.minus_centre(part, centre)) for part in judged)
                train = first[0] if first else train
            new = {**params, "distance": distance}
            best = np.fmax(best, self.race.enter(method, new, (train, test), spent, stays))
        return float(best)


class Stopwatch:
    """Seconds of the work that candidates share, and of each one's own."""

    def __init__(self) -> None:
        self._shared, self._begin = 0.0, perf_counter()

    def share(self) -> None:
        """What was done since the last call is shared by all candidates from now on."""
        self._shared += self._lap()

    def spent(self) -> float:
        """Seconds that a fit of this candidate alone would have taken."""
        return self._shared + self._lap()

    def _lap(self) -> float:
        now = perf_counter()
        seconds, self._begin = now - self._begin, now
        return seconds

    def restart(self) -> None:
        """Leave out what was done since the last call: it is not part of a fit."""
        self._begin = perf_counter()


def run_candidates(field: Field, distance: str | None) -> Iterator[str]:
    """Learn from one part of the rows with all settings of a `MetricCV`, and score on the other.

    Yields the name of an estimator after each group of candidates. The first group holds the plain
    distances. A prior is that of ``distance``, or of the better one of them.
    """
    field.scored("Euclidean", {}, (field.train, field.test), ("euclidean", "cosine"), 0.0)
    yield "Euclidean"
    if distance is None:
        distance = ("euclidean", "cosine")[better_plain(field.race.scores())]
    if distance not in field.search.distances:
        distance = field.search.distances[0]
    yield from _corrected(field, distance)
    # what is quick, or likely to lead, comes first: others then drop out early
    lifts = _lifts(field.train, field.search, field.families)
    linear = [lift for lift in lifts if lift is None]
    for lift in linear:
        yield from _in_space(field, lift, ("ridge",))
    if "scatter" in field.families:
        new_classes = field.race.evidence == "default"
        yield from _whitened(field, (distance,) if new_classes else field.search.distances)
    for lift in lifts:
        if lift is not None:
            yield from _in_space(field, lift, ("ridge", "dual"))
    for lift in linear:
        yield from _in_space(field, lift, ("dual",))


def families_of(search: Any, supervision: Supervision, n_features: int) -> list[str]:
    """What is tried besides the plain distances: see `Supervision.families`."""
    families = list(supervision.families)
    if search.blocks is not None:
        return ["identity"]
    both = [
        [list(getattr(one, name) or ()) for name in _OF_DURP] for one in (search, type(search)())
    ]
    if both[0] != both[1]:
        families = [name for name in families if name != "ridge"]
    if search.priors is not None:
        families = [name for name in families if name in ("scatter", "ridge", "lifted")]
        return families + ["dual" if prior is None else prior for prior in search.priors]
    if isinstance(supervision, Pairs | Judged) and n_features > _ALL_DIRECTIONS:
        return ["identity"]
    new_classes = isinstance(search.cv, str) and n_features <= DENSE_LIMIT
    if isinstance(supervision, Labels):
        left_out = ["identity", "whitening"]
        if new_classes:  # metrics without a prior are worse for these than the plain cosine
            left_out = ["ridge", "dual", "lifted"] if search.max_components is None else []
        families = [name for name in families if name not in left_out]
    return families


def refuse_unused(search: Any, families: Sequence[str], n_features: int) -> None:
    """Refuse candidates for settings that none of the metrics to be tried has."""
    if search.blocks is not None and search.priors is not None:
        raise ValueError("blocks are learned with prior='identity' only: leave out priors")
    if "whitening" in (search.priors or ()) and n_features > _ALL_DIRECTIONS:
        raise ValueError(
            f"prior='whitening' is tried for at most {_ALL_DIRECTIONS:,} features, and X has "
            f"{n_features:,}: leave it out of priors"
        )
    usual = type(search)()
    for name, readers in _READERS.items():
        given = list(getattr(search, name) or ()) != list(getattr(usual, name) or ())
        if given and not set(readers) & set(families):
            tried = " and ".join(_TRIED[family] for family in _TRIED if family in families)
            raise ValueError(
                f"{name} has no effect here, because only {tried or 'plain distances'} are tried: "
                f"leave out {name}"
            )


def n_groups(field: Field) -> int:
    """How many groups `run_candidates` yields for a split, at most."""
    search, families = field.search, field.families
    shrinkages = len(search.shrinkages or _SHRINKAGES[0])
    lifts = len(_lifts(field.train, search, families))
    learned = shrinkages * len(search.samplers)
    return (
        1
        + len(_prior_settings(field))
        + shrinkages * ("scatter" in families)
        + lifts * (("ridge" in families) + learned * ("dual" in families))
    )


def fixed_options(search: Any, n_rows: int) -> dict[str, Any]:
    """Options of `DuRP` that all candidates without a prior have."""
    n_triplets = min(search.n_triplets, TRIPLETS_PER_ROW * n_rows)
    names = ("n_projections", "max_epochs")
    return {name: getattr(search, name) for name in names} | {"n_triplets": n_triplets}


def is_too_wide(X: Any) -> bool:
    """Whether rows are sparse, and have too many features for a lift."""
    return hasattr(X, "nnz") and X.shape[1] > SPARSE_FEATURES


def _lifts(X: Matrix, search: Any, families: Sequence[str]) -> list[Any]:
    if "dual" not in families and "ridge" not in families:
        return []
    too_wide = is_too_wide(X)
    if "lifted" in families and search.require is None and not too_wide:
        return list(search.lifts)
    if not any(lift is None for lift in search.lifts):
        why = "a lift is not tried for judgements"
        if too_wide:
            why = f"a lift is for sparse rows with {SPARSE_FEATURES:,} features at most"
        if search.require:
            why = f"require={search.require!r} allows no lift"
        raise ValueError(f"{why}: leave lifts out, or include None in it")
    return [None]


def _ranks(field: Field, lift: str | None) -> list[int | None]:
    given, shape = field.search.ranks, field.train.shape
    ranks: list[int | None] = list(given or ())
    if given is None:
        few = [] if field.n_classes is None else [max(field.n_classes - 1, 1)]
        ranks = [*few, DEFAULT_WIDE_RANK, None]
    most = field.search.max_components
    if most is not None:
        ranks = sorted({min(rank or most, most) for rank in ranks})
    if (shape[1] if lift is None else min(shape[0], LANDMARKS)) > _ALL_DIRECTIONS:
        ranks = [rank for rank in ranks if rank is not None] or [DEFAULT_WIDE_RANK]
    return list(dict.fromkeys(ranks))


def _shrinkages(field: Field) -> tuple[Sequence[float], int | None]:
    """Shrinkages to try, and the place to start at; None if all are to be tried."""
    if field.search.shrinkages is not None:
        return field.search.shrinkages, None
    n, d = field.train.shape
    values, start = _WIDE_SHRINKAGES if d > DENSE_LIMIT and n >= SPAN_LIMIT else _SHRINKAGES
    return values, start if field.race.is_open else None  # then `wants` says which are left


def _walk(
    values: Sequence[float], start: int | None, scored: Callable[[float], float]
) -> Iterator[float]:
    """Score values one by one, from a place outwards for as long as they get clearly better.

    Scores change slowly from one value to the next and have one peak, so most need not be tried.
    Values that a candidate cannot have score NaN. The score is −∞ where all candidates of a value
    dropped out, since those of its neighbours would, too.
    """
    if start is None:
        for value in values:
            scored(value)
            yield value
        return
    best = scored(values[start])
    yield values[start]
    if best == -np.inf:
        return
    for step in (1, -1):
        place, moved = start + step, False
        while 0 <= place < len(values):
            found = scored(values[place])
            yield values[place]
            if not found > best + _WORTHWHILE:
                break
            best, moved = found, True
            place += step
        if moved:
            return  # the other side is worse


def _attempts(race: Race, scored: Callable[[float], float]) -> Callable[[float], float]:
    """The same function, with NaN as the score of what cannot be fitted."""

    def attempted(value: float) -> float:
        with race.attempt():
            return scored(value)
        return np.nan

    return attempted


# --- families ------------------------------------------------------------------------------------


def _prior_settings(field: Field) -> list[dict[str, Any]]:
    """Settings of the candidates with a prior, apart from λ."""
    families, few = field.families, field.train.shape[1] <= _ALL_DIRECTIONS
    if field.race.is_narrow or field.is_line:  # they have as many directions as features
        return []
    settings: list[dict[str, Any]] = []
    if "identity" in families:
        settings.append({"prior": "identity"})
    if "whitening" in families and few:
        settings.append({"prior": "whitening", "shrinkage": 0.9})
    known = field.split.train
    both = isinstance(known, Pairs) or not (few or isinstance(known, Judged))
    margins = (0.4, 1.0) if both else (1.0,)
    return [{**setting, "margin": margin} for setting in settings for margin in margins]


def _corrected(field: Field, distance: str) -> Iterator[str]:
    """Candidates with a prior: one group for each prior and margin, which share comparisons."""
    train, search = field.train, field.search
    n, d = train.shape
    known = field.split.train
    # the size of the correction matters, and few projections find it well only where comparisons
    # are as many as those of labels
    labelled = isinstance(known, Labels)
    method: Any = DuOri if d <= (LABEL_PROJECTIONS if labelled else _ALL_DIRECTIONS) else DuRP
    regs: tuple[float, ...] = _LABEL_REGS if labelled else _PRIOR_REGS
    most = _PRIOR_JUDGED if isinstance(known, Judged) else _PRIOR_TRIPLETS
    if isinstance(known, Pairs):
        regs, most = _PAIR_REGS, _PRIOR_PAIRS
    if d > DENSE_LIMIT:
        regs = _WIDE_REGS
    regs = tuple(reg for reg in search.regs if reg is not None) or regs
    training = Training(open_rows(train)[0], known, np.arange(n), train, known)
    for setting in _prior_settings(field):
        watch = Stopwatch()
        params = {**setting, "distance": distance, "max_epochs": search.max_epochs}
        if isinstance(known, Judged):
            params["max_epochs"] = min(search.max_epochs, JUDGED_EPOCHS)
        params["n_triplets"] = min(search.n_triplets, most)
        if method is DuRP:
            params["n_projections"] = LABEL_PROJECTIONS if labelled else PRIOR_PROJECTIONS
        if d > DENSE_LIMIT:
            params["n_components"] = _WIDE_RANK
        if not field.race.wants(method.__name__, params):
            continue
        after_sampling = generator(field.seed)
        problem: Any = None
        with field.race.attempt():
            options = resolve_blocks(method(**params, blocks=search.blocks), d, field.names)
            problem = stages.pose(train, known, options, after_sampling)
        if problem is None:
            continue
        shared: dict[bytes, Any] = {}
        watch.share()
        for reg in regs:
            base = {**params, "reg": reg}
            settings = [base]
            if d > DENSE_LIMIT:
                settings = [{**base, "strength": strength} for strength in _STRENGTHS]
            settings = [one for one in settings if field.race.wants(method.__name__, one)]
            if not settings:
                continue
            rng, clock = deepcopy(after_sampling), stages.Clock()
            options = resolve_blocks(method(**base, blocks=search.blocks), d, field.names)
            full: Any = None
            with field.race.attempt():
                full = stages.learn_posed(
                    problem, LiftedRows(train), options, rng, clock, shared=shared
                )
            if full is None:
                continue
            seconds = watch.spent()
            for one in settings:
                found = stages.weaker(full, one.get("strength", 1.0))
                metric = method(**one, blocks=search.blocks).metric_of(found, training)
                parts = [train, field.test] if field.split.judges_train else [field.test]
                mapped = [metric.embedding(part) for part in parts]
                mapped = [part.positive if part.negative is None else part for part in mapped]
                # for new classes, the default is chosen unless another one is better
                stays = field.race.evidence == "default" and reg == stages.PRIOR_REG
                field.race.enter(method.__name__, one, (mapped[0], mapped[-1]), seconds, stays)
            watch.restart()
        yield method.__name__


def _whitened(field: Field, distances: Sequence[str]) -> Iterator[str]:
    """Candidates of `Whitening`: all directions of whitened rows, and no comparisons."""
    train, test = field.train, field.test
    n, d = train.shape
    if d > _ALL_DIRECTIONS or field.race.is_narrow or field.is_line:
        return
    if not field.race.wants("Whitening", {}):
        return
    watch = Stopwatch()
    within = field.split.train.within(train, np.arange(n))
    if within.trace <= 0.0:
        return
    W = ops.quadratic(train, within.apply)
    watch.share()

    def scored(shrinkage: float) -> float:
        params = {"shrinkage": shrinkage}
        if shrinkage == 1.0 or not field.race.wants("Whitening", params):
            return np.nan  # 1 is the plain distance
        root = scatter_of(train, within, shrinkage, d, W).root()
        mapped = ops.threaded_dot(train, root), ops.threaded_dot(test, root)
        best = field.scored("Whitening", params, mapped, distances, watch.spent())
        watch.restart()
        return best

    for _ in _walk(*_shrinkages(field), _attempts(field.race, scored)):
        yield "Whitening"


def _in_space(field: Field, lift: str | None, families: Sequence[str]) -> Iterator[str]:
    """Candidates of some families over the rows as they are, or lifted."""
    with_ridge, with_durp = (
        family in families and family in field.families and field.race.wants(method, {"lift": lift})
        for family, method in (("ridge", "RidgeMetric"), ("dual", "DuRP"))
    )
    if (not with_ridge and not with_durp) or (lift is None and field.is_line):
        return
    watch = Stopwatch()
    after_lift = generator(field.seed)
    fixed = {**fixed_options(field.search, field.n_rows), "lift": lift}
    lifted = None
    with field.race.attempt():
        lifted = stages.lift_rows(field.train, DuRP(**fixed), after_lift)
    if lifted is None:
        return
    test = field.test
    if lifted.lift is not None:
        test = lifted.lift.apply(test, lifted.nystroem)
    watch.share()
    if with_ridge:
        with field.race.attempt():
            _regressed(field, lift, lifted.X, test, deepcopy(watch))
        yield "RidgeMetric"
    ranks = _ranks(field, lift)
    for sampler in field.search.samplers if with_durp else ():
        watch.restart()
        options = DuRP(**fixed, sampler=sampler)
        after_sampling = deepcopy(after_lift)
        problem = None
        with field.race.attempt():
            problem = stages.pose(lifted.X, field.split.train, options, after_sampling)
        if problem is None:
            continue
        values, start = _shrinkages(field)
        within = stages.within_of(problem) if min(values) < 1.0 else None
        if within is not None and within[0].trace <= 0.0:  # there is nothing to whiten with
            values, start = [value for value in values if value == 1.0], None
        own = deepcopy(watch)
        own.share()

        def scored(
            shrinkage: float,
            sampler: str = sampler,
            after_sampling: Any = after_sampling,
            problem: Any = problem,
            within: Any = within,
            own: Stopwatch = own,
        ) -> float:
            best = np.nan
            for reg in field.search.regs:
                base = {"lift": lift, "sampler": sampler, "shrinkage": shrinkage, "reg": reg}
                if not field.race.wants("DuRP", base):
                    continue
                options = DuRP(**{**fixed, **base})
                rng = deepcopy(after_sampling)
                found, mapped = _directions(problem, options, ranks, rng, within, lifted.X, test)
                if len(found.values):  # with no direction, it is the plain distance
                    scores = _read_off(field, base, own.spent(), found, mapped, ranks)
                    best = np.fmax(best, scores)
                own.restart()
            return float(best)

        for _ in _walk(values, start, _attempts(field.race, scored)):
            yield "DuRP"


def _regressed(
    field: Field, lift: str | None, train: Matrix, test: Matrix, watch: Stopwatch
) -> None:
    """Candidates of `RidgeMetric`: all penalties from one decomposition."""
    labels = field.split.train
    assert isinstance(labels, Labels)
    known = labels.known_rows()
    classes, codes = np.unique(labels.y[known], return_inverse=True)
    rows = train if len(known) == train.shape[0] else ops.take_rows(train, known)
    n_classes = len(classes)
    # of all classes: a part of the rows may lack some
    most = max((field.n_classes or n_classes) - 1, 1)
    rank = min(most, field.search.max_components or most)
    unit = ridge.mean_eigenvalue(rows)
    values, start = ridge.PENALTIES.tolist(), None
    by_products = not ridge.can_decompose(rows)
    if by_products:
        problem = ridge.Products(rows, codes, n_classes)
        if field.race.is_open:
            start = int(np.searchsorted(values, 0.3))  # each takes many products
    else:
        found = ridge.decompose(rows)
        aims = ridge.targets(found, codes)
    near: Matrix | None = None  # the last solution, close to the next
    watch.share()

    def scored(alpha: float | None) -> float:
        nonlocal near
        params = {"lift": lift, "alpha": alpha, "n_components": rank}
        if not field.race.wants("RidgeMetric", params):
            return np.nan
        if alpha is None:  # as `RidgeMetric` chooses it
            errors = ridge.loo_errors(found, aims, unit * ridge.PENALTIES)
            alpha = values[np.argmin(errors.mean(axis=1))]
        if by_products:
            B, _ = problem.solve(unit * alpha, ridge.ROUGH, near)
            near = B
        else:
            B = ridge.coefficients(found, aims, unit * alpha)
        if ridge.is_rounding(B, rows.shape, unit, unit * alpha):
            return np.nan  # it is the plain distance
        if n_classes == 2 or rank < n_classes - 1:  # of two classes, B has two opposite columns
            B = ridge.as_factor(B, rank)
        mapped = (
            ops.threaded_dot(train, like(B, train)),
            ops.threaded_dot(test, like(B, test)),
        )
        spent = watch.spent()
        distances = field.search.distances
        if params["alpha"] is None and "cosine" in distances and rank > 1:
            distances = ["cosine"]  # the default
        best = field.scored("RidgeMetric", params, mapped, distances, spent)
        watch.restart()
        return best

    for _ in _walk(values, start, scored):
        pass
    if lift is None and field.default_ridge:
        scored(None)


def predicts_classes(X: Matrix, labels: Labels) -> bool:
    """Whether ridge regression predicts the classes of rows left out better than chance.

    Its leave-one-out errors are compared with those of a prediction of the same shares of the
    classes for all rows. They must be smaller by three standard errors: of random labels, which
    the penalty can be fitted to, they were in less than one of 100 cases.
    """
    known = labels.known_rows()
    rows = X if len(known) == X.shape[0] else ops.take_rows(X, known)
    codes = np.unique(labels.y[known], return_inverse=True)[1]
    found = ridge.decompose(rows)
    aims = ridge.targets(found, codes)
    errors = ridge.loo_errors(found, aims, ridge.mean_eigenvalue(rows) * ridge.PENALTIES)
    mean, error = paired(errors_by_shares(aims) - errors[np.argmin(errors.mean(axis=1))])
    return bool(mean > 3.0 * error)


def errors_by_shares(aims: ridge.Targets) -> Array:
    """Leave-one-out errors where the shares of the classes among the other rows are predicted."""
    n = len(aims.codes)
    shares = aims.shares
    return (1.0 - 2.0 * shares[aims.codes] + (shares**2).sum()) * (n / (n - 1)) ** 2


def _directions(
    problem: Any,
    options: DuRP,
    ranks: list[int | None],
    rng: np.random.Generator,
    within: Any,
    train: Matrix,
    test: Matrix,
) -> tuple[Directions, tuple[Matrix, Matrix]]:
    """Directions of a `DuRP`, and the rows along them."""
    most = None if None in ranks else max(rank for rank in ranks if rank is not None)
    Z, _, scatter, posed = stages.project(problem, options, rng, within=within)
    _, weight = stages.solve(posed, Z, options, rng, shared={})
    found = stages.directions(
        posed, weight, options, rng, scatter=scatter, rank=most, written_up_to=_ALL_DIRECTIONS
    )
    vectors = stages.in_original_space(found.vectors, posed, None)
    return found, (ops.threaded_dot(train, vectors), ops.threaded_dot(test, vectors))


def _read_off(
    field: Field,
    base: dict[str, Any],
    spent: float,
    found: Directions,
    mapped: tuple[Matrix, Matrix],
    ranks: list[int | None],
) -> float:
    """Enter candidates of all ranks, powers and distances along the same directions."""
    best = -np.inf
    few = min((rank for rank in ranks if rank is not None), default=None)
    for rank, power in product(ranks, field.search.powers):
        if power < 0.0 and rank != few:
            continue  # the last of many directions are noise, and would be the longest
        lengths = found.lengths(rank, power)
        train, test = (part[:, : len(lengths)] * like(lengths, part) for part in mapped)
        params = {**base, "n_components": rank, "power": power}
        found_best = field.scored("DuRP", params, (train, test), field.search.distances, spent)
        best = np.fmax(best, found_best)
    return float(best)
