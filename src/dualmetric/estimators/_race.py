"""The race of the candidates of `MetricCV`: those that are clearly behind are scored no further.

Candidates are compared by their scores on the same held-out queries. Most are told apart by few of
them, so each is first scored on some. Where its difference to the leader there is clearly negative,
it drops out: it is scored on no more queries, and not learned again for another split.
"""

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from .._types import Array, Matrix
from ..supervision import Split

BEHIND = 3.0
"""Standard errors behind the leader at which a candidate drops out."""


@dataclass(eq=False)
class Candidate:
    """An estimator and how it did.

    Scores are one array per split, with one number per held-out query: NaN where it was not scored,
    or where the query has nothing to find.
    """

    key: str
    method: str
    params: dict[str, Any]
    parts: list[Array] = field(default_factory=list)
    also: dict[str, list[Array]] = field(default_factory=dict)  # other scores, by name
    fit_times: list[float] = field(default_factory=list)
    score_times: list[float] = field(default_factory=list)
    dropped: bool = False


class Race:
    """Candidates, scored split after split until ``deadline`` (of `time.perf_counter`)."""

    def __init__(self, deadline: float = np.inf) -> None:
        self.deadline = deadline
        self.out_of_time = False
        self._known: dict[str, Candidate] = {}
        self._sizes: list[int] = []  # queries of each split

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates, in the order in which they entered."""
        return list(self._known.values())

    def start(self, split: Split) -> None:
        """Go on with another split."""
        self._split = split
        self._leader: Array | None = None
        self._sizes.append(0)

    def wants(self, method: str, params: dict[str, Any]) -> bool:
        """Whether a candidate with these parameters, and perhaps others, is in the race."""
        if perf_counter() > self.deadline:
            self.out_of_time = True
            return False
        return len(self._sizes) == 1 or any(
            not one.dropped and one.method == method and params.items() <= one.params.items()
            for one in self._known.values()
        )

    def enter(
        self,
        method: str,
        params: dict[str, Any],
        mapped: tuple[Any, Any],
        fit_time: float,
        stays: bool = False,
    ) -> float:
        """Score a candidate, given training and test rows as its metric maps them.

        ``stays`` is for those that never drop out. Returns the mean score, NaN where it has none.
        """
        key = f"{method} {sorted(params.items())}"
        if len(self._sizes) == 1:
            self._known.setdefault(key, Candidate(key, method, params))
        candidate = self._known.get(key)
        if candidate is None or candidate.dropped:
            return np.nan
        begin = perf_counter()
        scores, finished = self._scores(*mapped, stays)
        candidate.parts.append(scores)
        candidate.dropped = not finished
        candidate.fit_times.append(fit_time)
        for name, judge in (self._split.also or {}).items() if finished else ():
            candidate.also.setdefault(name, []).append(judge(*mapped))
        candidate.score_times.append(perf_counter() - begin)
        self._sizes[-1] = len(scores)
        mean = float(np.nanmean(scores))
        if finished and (self._leader is None or mean > np.nanmean(self._leader)):
            self._leader = scores
        return mean

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
        """Drop those that are clearly behind on all splits so far."""
        scores = self.scores()
        means = estimated_means(scores)
        for candidate, gap in zip(self.candidates, scores - scores[np.argmax(means)], strict=True):
            candidate.dropped |= candidate.method != "Euclidean" and is_behind(gap)

    def scores(self) -> Array:
        """One row per candidate, one column per query of all splits."""
        return np.array([_row(one.parts, self._sizes) for one in self.candidates])

    def also(self, name: str) -> Array:
        """The same for another score."""
        return np.array([_row(one.also.get(name, []), self._sizes) for one in self.candidates])


def _row(parts: list[Array], sizes: list[int]) -> Array:
    missing = [np.full(size, np.nan) for size in sizes[len(parts) :]]
    return np.concatenate([*parts, *missing])


def paired(differences: Array) -> tuple[Array, Array]:
    """Mean of the differences to another candidate's scores, and its standard error; by rows."""
    known = ~np.isnan(differences)
    n = np.maximum(known.sum(axis=-1), 1)
    mean = np.where(known, differences, 0.0).sum(axis=-1) / n
    apart = np.where(known, differences - mean[..., None], 0.0)
    return mean, np.sqrt((apart**2).sum(axis=-1) / n / np.maximum(n - 1, 1))


def is_behind(differences: Array) -> bool:
    """Whether differences to the leader are clearly negative."""
    mean, error = paired(differences)
    return bool(mean + BEHIND * error < 0.0)


def estimated_means(scores: Array) -> Array:
    """Mean score of each candidate over all queries.

    Where a candidate was scored on some queries only, its mean is that of the best, plus the mean
    difference on these.
    """
    complete = np.isnan(scores).sum(axis=1) == np.isnan(scores).sum(axis=1).min()
    means = np.where(complete, np.nanmean(scores, axis=1), -np.inf)
    best = int(np.argmax(means))
    gaps, _ = paired(scores - scores[best])
    return np.where(complete, means, means[best] + gaps)
