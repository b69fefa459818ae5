"""The race of the candidates of `MetricCV`: those that are clearly behind drop out.

Candidates are compared by their scores on the same held-out queries. A few queries are enough to
tell most candidates apart, so each is first scored on some. If its difference to the leader is
clearly negative there, it drops out: it is not scored on further queries and not learned again for
another split.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from .._types import Array, Matrix
from ..supervision import Split

BEHIND = 3.0
"""Standard errors behind the leader at which a candidate drops out."""

READ_OFF = ("n_components", "power", "distance", "strength")
"""Parameters in which candidates with one fit differ."""

_ENOUGH = 8  # differences; of fewer, the standard error is not known well enough


@dataclass(eq=False)
class Candidate:
    """An estimator and its scores.

    Scores are one array for each split that it was scored on, by the number of the split, with one
    number per held-out query: NaN where it was not scored, or the query has nothing to find.
    """

    key: str
    method: str
    params: dict[str, Any]
    parts: dict[int, Array] = field(default_factory=dict)
    also: dict[str, dict[int, Array]] = field(default_factory=dict)  # other scores, by name
    fit_times: list[float] = field(default_factory=list)
    score_times: list[float] = field(default_factory=list)
    stays: bool = False  # it never drops out
    dropped: bool = False
    barred: bool = False  # it may not be chosen, however good it is

    @property
    def width(self) -> float:
        """Directions of the metric; infinity where it has as many as features."""
        rank = self.params.get("n_components")
        return np.inf if rank is None or "prior" in self.params else float(rank)

    def fit_params(self) -> dict[str, Any]:
        """Parameters of its fit, without those that are read off afterwards."""
        return {name: value for name, value in self.params.items() if name not in READ_OFF}


class Race:
    """Candidates, scored split after split until ``deadline`` (of `time.perf_counter`).

    ``entrants`` are those that may take part; with None, all may. Candidates with more directions
    than ``most_components`` are scored to compare with, but they are barred. Where that is finite,
    the plain distances are barred as well.
    """

    def __init__(
        self,
        deadline: float = np.inf,
        entrants: list["Candidate"] | None = None,
        most_components: float = np.inf,
    ) -> None:
        self.deadline, self.entrants, self.most_components = deadline, entrants, most_components
        self.out_of_time = False
        self.late: set[str] = set()  # keys of those whose fit would take too long
        self.failures: list[ValueError] = []  # of candidates that could not be fitted
        self._known: dict[str, Candidate] = {}
        self.mutual = False  # whether queries are each other's answers
        self.evidence = "interval"  # see `Split`
        self._queries: list[Array] = []  # numbers of the queries of each split

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates, in the order in which they entered."""
        return list(self._known.values())

    @property
    def n_queries(self) -> int:
        """How many queries were scored, each counted once."""
        return len(np.unique(np.concatenate(self._queries)))

    @property
    def is_narrow(self) -> bool:
        """Whether even the plain distances have too many directions."""
        return self.most_components < np.inf

    @property
    def is_open(self) -> bool:
        """Whether any candidate may still enter: later splits only score those that have."""
        return self.entrants is None and len(self._queries) == 1

    def start(self, split: Split) -> None:
        """Continue with another split."""
        self._split, self.mutual, self.evidence = split, split.mutual, split.evidence
        self._leader: Array | None = None
        self._queries.append(np.empty(0, dtype=np.int64))

    def wants(self, method: str, params: dict[str, Any]) -> bool:
        """Whether a candidate with these parameters, and perhaps others, is in the race."""
        known = self.entrants if len(self._queries) == 1 else self.candidates
        if known is not None and not _any_left(known, method, params):
            return False
        late = perf_counter() > self.deadline
        self.out_of_time |= late
        return not late

    def enter(
        self,
        method: str,
        params: dict[str, Any],
        mapped: tuple[Any, Any],
        fit_time: float,
        stays: bool = False,
    ) -> float:
        """Score a candidate, given training and test rows as its metric maps them.

        ``stays`` is for candidates that never drop out, because they are chosen where no other is
        significantly better. Returns the mean score: −∞ if it dropped out, NaN if it was not
        scored.
        """
        key = f"{method} {sorted(params.items())}"
        may_enter = self.entrants is None or any(one.key == key for one in self.entrants)
        if len(self._queries) == 1 and may_enter:
            new = Candidate(key, method, params, stays=stays)
            new.barred = new.width > self.most_components
            self._known.setdefault(key, new)
        candidate = self._known.get(key)
        if candidate is None or candidate.dropped:
            return np.nan
        begin = perf_counter()
        scores, finished = self._scores(*mapped, stays)
        number = len(self._queries) - 1
        candidate.parts[number] = scores
        # rows of one class are no independent evidence about new classes: `finish` compares classes
        rows_differ = self._split.evidence != "default"
        if finished and not stays and rows_differ and self.entrants is None:
            finished = self._leader is None or not is_behind(scores - self._leader)
        candidate.dropped = not finished
        candidate.fit_times.append(fit_time)
        for name, judge in (self._split.also or {}).items() if finished else ():
            candidate.also.setdefault(name, {})[number] = judge(*mapped)
        candidate.score_times.append(perf_counter() - begin)
        if not len(self._queries[-1]):
            self._queries[-1] = self._numbers(len(scores))
        if not finished:
            return -np.inf
        mean = float(known_mean(scores))
        if not candidate.barred and (self._leader is None or mean > known_mean(self._leader)):
            self._leader = scores
        return mean

    def _numbers(self, n: int) -> Array:
        """Numbers of the queries of this split: new ones, unless they are given."""
        if self._split.queries is not None:
            return self._split.queries
        return sum(map(len, self._queries)) + np.arange(n)

    def _scores(self, train: Matrix, test: Matrix, stays: bool) -> tuple[Array, bool]:
        """Scores, and whether they are all there."""
        judge, heats = self._split.judge, self._split.heats
        if heats is None or stays or self._leader is None:
            return judge(train, test), True
        scores = np.full(len(self._leader), np.nan)
        for heat in heats:
            scores[heat] = judge(train, test, heat)
            if is_behind(scores - self._leader):
                return scores, False
        return scores, True

    def finish(self) -> None:
        """Drop those that are clearly behind the best one that may be chosen, on all splits."""
        scores = self.scores()
        barred = np.array([one.barred for one in self.candidates])
        if barred.all():
            return
        means = np.where(barred, -np.inf, estimated_means(scores))
        for candidate, gap in zip(self.candidates, scores - scores[np.argmax(means)], strict=True):
            candidate.dropped |= not candidate.stays and is_behind(gap)

    def with_fit_of(self, chosen: Candidate) -> list[Candidate]:
        """The plain distances, the given one, and those left that have the same fit."""
        fit = chosen.method, chosen.fit_params()
        return [
            Candidate(one.key, one.method, one.params)
            for place, one in enumerate(self.candidates)
            if place < 2
            or one is chosen
            or (not one.dropped and (one.method, one.fit_params()) == fit)
        ]

    def may_spare(self, keys: set[str]) -> bool:
        """Whether something can still be chosen if these candidates are barred."""
        rest = [one for one in self.candidates if not one.barred and one.key not in keys]
        return not self.is_narrow or bool(rest)

    def bar(self, keys: set[str]) -> None:
        """Bar candidates; those that dropped out because they were behind them alone are back."""
        for one in self.candidates:
            one.barred |= one.key in keys
            one.dropped = one.barred and not one.stays
        self.finish()

    def bar_slow(self, seconds: float) -> None:
        """Bar candidates whose fit took longer, unless no other may be chosen."""
        while slow := {
            one.key
            for one in self.candidates
            if one.method != "Euclidean"
            and not one.barred
            and not one.dropped
            and max(one.fit_times) > seconds
        }:
            if not self.may_spare(slow):
                return
            self.late |= slow
            self.bar(slow)  # others may be back, and be too slow as well

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Leave out candidates that cannot be fitted: the search goes on without them."""
        try:
            yield
        except ValueError as error:
            self.failures.append(error)

    def scores(self) -> Array:
        """One row per candidate, one column per query.

        A query of several splits has the mean of its scores: they are not independent.
        """
        return self._table([one.parts for one in self.candidates])

    def also(self, name: str) -> Array:
        """The same for another score."""
        return self._table([one.also.get(name, {}) for one in self.candidates])

    def _table(self, parts: list[dict[int, Array]]) -> Array:
        place = np.unique(np.concatenate(self._queries), return_inverse=True)[1]
        rows = []
        for found in parts:
            scores = np.concatenate(
                [
                    found.get(number, np.full(len(queries), np.nan))
                    for number, queries in enumerate(self._queries)
                ]
            )
            known = ~np.isnan(scores)
            count = np.bincount(place, known)
            total = np.bincount(place, np.where(known, scores, 0.0))
            rows.append(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))
        return np.array(rows)


def _any_left(candidates: list[Candidate], method: str, params: dict[str, Any]) -> bool:
    return any(
        not one.dropped and one.method == method and params.items() <= one.params.items()
        for one in candidates
    )


def is_default_ridge(method: str, params: dict[str, Any]) -> bool:
    """Whether this is a `RidgeMetric` that chooses its penalty itself."""
    return method == "RidgeMetric" and params.get("alpha", 0.0) is None


def known_mean(scores: Array) -> Array:
    """Mean of the scores that are known, by rows; NaN where none is."""
    known = ~np.isnan(scores)
    n = known.sum(axis=-1)
    return np.where(n, np.where(known, scores, 0.0).sum(axis=-1) / np.maximum(n, 1), np.nan)


def paired(differences: Array) -> tuple[Array, Array]:
    """Mean of the differences to another candidate's scores, and its standard error; by rows."""
    known = ~np.isnan(differences)
    n = np.maximum(known.sum(axis=-1), 1)
    mean = np.where(known, differences, 0.0).sum(axis=-1) / n
    apart = np.where(known, differences - mean[..., None], 0.0)
    return mean, np.sqrt((apart**2).sum(axis=-1) / n / np.maximum(n - 1, 1))


def better_plain(scores: Array) -> int:
    """The place of the better plain distance: the cosine unless the Euclidean is clearly better.

    The first two rows of ``scores`` are the Euclidean distance and the cosine. Where they differ by
    less than a standard error, the cosine is more often the better one on new rows and classes.
    """
    mean, error = paired(scores[0] - scores[1])
    return 0 if mean > error and _are_enough(scores[0]) else 1


def is_behind(differences: Array) -> bool:
    """Whether differences to the leader are clearly negative, and enough to say so."""
    mean, error = paired(differences)
    return bool(_are_enough(differences) and mean + BEHIND * error < 0.0)


def _are_enough(scores: Array) -> bool:
    return int(np.count_nonzero(~np.isnan(scores))) >= _ENOUGH


def estimated_means(scores: Array) -> Array:
    """Mean score of each candidate over all queries.

    Where a candidate was scored on some queries only, its mean is that of the best, plus the mean
    difference on these.
    """
    complete = np.isnan(scores).sum(axis=1) == np.isnan(scores).sum(axis=1).min()
    means = np.where(complete, known_mean(scores), -np.inf)
    best = int(np.argmax(means))
    gaps, _ = paired(scores - scores[best])
    return np.where(complete, means, means[best] + gaps)
