r"""Thresholds on the distance with a guarantee, from labelled pairs.

A threshold t accepts pairs that are at most t apart. Three rates of it can be asked for: the
precision (share of the accepted pairs that are the same), the recall (share of the same pairs that
are accepted) and the false positive rate (share of the different pairs that are accepted). Each is
one minus an error rate, or an error rate itself, so one bound serves all three.

**The bound.** Of n pairs, e are errors. The exact upper bound of Clopper and Pearson is the u with
P(Bin(n, u) ≤ e) = δ, where 1 − δ is the confidence: the quantile 1 − δ of Beta(e + 1, n − e).

**Pairs that share records** are no independent evidence. Let r_i = error_i − e/n, T_a the sum of r
over the pairs with entity a, and T_ab that over the pairs of entities a and b, which occur in two
of the former. The variance of the number of errors, with every covariance of pairs that share an
entity, is then estimated by

    V = Σ_a T_a² − Σ_{a≠b} T_ab²

It is what drawing whole entities again and again would show, without the excess of weights that are
products of two draws, which triple the variance of pairs that share nothing. V is raised by its own
standard error. V / Σ r_i² = 1 + ρ(D − 1) defines the correlation ρ, kept between 0 and 1, where D
is the mean number of pairs that share an entity with a pair: the value for errors that they always
make together. The bound then counts n/(1 + ρ(D − 1)) pairs, and as large a part of the errors. Few
errors say nothing about ρ, so it is found where at least 30 are made, at a looser threshold, and
taken as 1 where there are fewer at all.

**The order of the tests** is fixed without looking at which pairs are the same, so that no
correction for their number is needed: the first that fails ends the sequence. False positive rate
and precision begin with the strictest threshold, the recall with the loosest. The false positive
rate and the recall are monotone in t. For the precision, thresholds are tried that accept k pairs,
where k grows by 5 % at a time. A single error among the closest pairs would end this sequence. So
there are two: one from the first k that allows no error, one from the first that allows three (or
two, or one, where same pairs are few). Each may err with probability δ/2; if all tests of the first
pass, the second may with δ (the fallback procedure of Wiens).

**The share of same pairs in use** (prevalence q) may differ from that of the labelled pairs, s. The
odds of a match at t are then those of the labelled pairs times q(1 − s)/((1 − q)s). So a precision
π in use is a precision π′ among the labelled pairs, with odds multiplied by (1 − q)s/(q(1 − s)).
Given how many pairs of each kind are labelled, the accepted ones are two independent binomial
counts; given their sum, the number of errors would be binomial if both were Poisson. The counts
vary less than that, so the bound is on the careful side.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from ._bounds import effect_of, exact_upper, fewest_pairs, likeness, numbered, odds_scale, shifted

_ENOUGH = 30  # errors that tell how alike the pairs of an entity are
_STEP = 1.05  # ratio of the numbers of accepted pairs of two thresholds
_MOST_ERRORS = 3  # that the first threshold tried may make
_HANDFUL = 20  # pairs that say something about what more of them would show
RATES = ("precision", "recall", "fpr")


class NotEnoughPairsError(ValueError):
    """The labelled pairs cannot support the claim that was asked for.

    Attributes
    ----------
    needed : int or None
        About how many more labelled pairs of the same kind would; None where no number would.
    best : float
        The best value of the rate that was measured, without any guarantee.
    """

    def __init__(self, message: str, needed: int | None = None, best: float = np.nan) -> None:
        super().__init__(message)
        self.needed, self.best = needed, best


@dataclass(frozen=True)
class Threshold:
    """A distance up to which pairs are taken to be the same, and what is known about it.

    Attributes
    ----------
    distance : float
        Pairs that are at most this far apart are accepted.
    target, value, confidence
        What was asked for: "precision", "recall" or "fpr", its value, and the confidence.
    bound : float
        What the rate is at least (for "fpr", at most) with this confidence.
    precision, recall, fpr : float
        Estimates from the labelled pairs, without any guarantee; the precision is that in use.
    accepted : int
        Labelled pairs that are accepted.
    evidence : float
        Number of independent pairs that those behind the bound count as.
    """

    distance: float
    target: str
    value: float
    confidence: float
    bound: float
    precision: float
    recall: float
    fpr: float
    accepted: int
    evidence: float

    def __str__(self) -> str:
        sign = "≤" if self.target == "fpr" else "≥"
        return (
            f"distance ≤ {self.distance:.4g}: {self.target} {sign} {self.bound:.4g} with "
            f"{100 * self.confidence:g} % confidence; measured: precision {self.precision:.4g}, "
            f"recall {self.recall:.4g}, fpr {self.fpr:.3g} ({self.accepted:,} pairs accepted)"
        )


class Evidence(NamedTuple):
    """Labelled pairs, sorted by distance."""

    distance: Array
    same: Array
    entity: Array  # (n, 2) whole numbers; equal where both rows are of one entity

    @classmethod
    def of(cls, distance: Array, same: Array, entity: Array) -> "Evidence":
        """Sort pairs by their distance."""
        order = np.argsort(distance, kind="stable")
        return cls(np.asarray(distance, np.float64)[order], same[order], entity[order])


class _Test(NamedTuple):
    """One threshold: how many pairs it accepts, and the evidence about its rate."""

    accepted: int
    errors: int
    total: int
    effect: float  # pairs that count as one

    def upper(self, confidence: float, factor: float = 1.0) -> float:
        """Bound of the error rate; with ``factor`` times as many pairs of the same kind."""
        scale = factor / self.effect
        return exact_upper(self.errors * scale, self.total * scale, confidence)


def find_threshold(
    pairs: Evidence, target: str, value: float, confidence: float, prevalence: float | None = None
) -> Threshold:
    """The loosest threshold (for the recall, the strictest) that meets a target.

    Raises `NotEnoughPairsError` where there is none.
    """
    pairs = pairs._replace(entity=numbered(pairs.entity))
    n, n_same = len(pairs.same), int(np.count_nonzero(pairs.same))
    scale = odds_scale(prevalence, n_same / n)
    wanted = shifted(value, 1.0 / scale) if target == "precision" else value
    allowed = wanted if target == "fpr" else 1.0 - wanted
    chains = _chains(pairs, target, allowed, confidence)
    found, sure, tried, share = None, confidence, [], 0.0
    for weight, tests in chains:
        share += weight
        for test in tests:
            tried.append(test)
            level = 1.0 - share * (1.0 - confidence)
            if test.upper(level) > allowed:
                share = 0.0
                break
            found, sure = test, level
    if found is None:
        raise _refusal(pairs, target, value, allowed, confidence, tried, scale)
    bound = found.upper(sure)
    if target != "fpr":
        bound = 1.0 - bound
    measured = rates_at(pairs, found.accepted, scale)
    return Threshold(
        _between(pairs.distance, found.accepted),
        target,
        value,
        confidence,
        shifted(bound, scale) if target == "precision" else bound,
        *measured,
        found.accepted,
        found.total / found.effect,
    )


def rates_at(pairs: Evidence, accepted: int, scale: float = 1.0) -> tuple[float, float, float]:
    """Precision, recall and false positive rate of accepting so many of the closest pairs."""
    hits = int(np.count_nonzero(pairs.same[:accepted]))
    n_same = int(np.count_nonzero(pairs.same))
    precision = shifted(hits / accepted, scale) if accepted else 1.0
    return precision, hits / n_same, (accepted - hits) / (len(pairs.same) - n_same)


def _between(distance: Array, accepted: int) -> float:
    """A distance between the last pair that is accepted and the next."""
    if accepted == 0:
        return float(np.nextafter(distance[0], -np.inf))
    last = distance[accepted - 1]
    return float(last if accepted == len(distance) else last + (distance[accepted] - last) / 2)


def _ends(distance: Array, counts: Array) -> Array:
    """Numbers of pairs, raised to the end of pairs at equal distances; ascending, each once."""
    return np.unique(np.searchsorted(distance, distance[counts - 1], "right"))


def _chains(
    pairs: Evidence, target: str, allowed: float, confidence: float
) -> list[tuple[float, Iterable[_Test]]]:
    """Sequences of tests, each with the share of 1 − confidence that it begins with."""
    if target != "precision":
        tests = _recall_tests if target == "recall" else _fpr_tests
        return [(1.0, tests(pairs))]
    counts = _first_counts(pairs, allowed, confidence)
    ends = [*counts[1:], len(pairs.same) + 1]
    return [
        (1.0 / len(counts), _precision_tests(pairs, first, end))
        for first, end in zip(counts, ends, strict=True)
    ]


def _first_counts(pairs: Evidence, allowed: float, confidence: float) -> list[int]:
    """Independent pairs that the first threshold of each sequence for a precision accepts.

    The first sequence begins where no error is allowed. A single error would end it, so a second
    one begins where some are, if there are pairs enough.
    """
    half = (1.0 + confidence) / 2.0
    for errors in range(_MOST_ERRORS, 0, -1):
        count = fewest_pairs(allowed, half, errors)
        if count <= np.count_nonzero(pairs.same) / 2:
            return [fewest_pairs(allowed, half), count]
    return [fewest_pairs(allowed, confidence)]


def _precision_tests(pairs: Evidence, first: int, end: int) -> Iterator[_Test]:
    """Accept from ``first`` pairs on, if they are independent, to fewer than ``end``."""
    n = len(pairs.same)
    if first > n:
        return
    wrong = np.cumsum(~pairs.same)
    steps = _STEP ** np.arange(1 + int(np.log(n / first) / np.log(_STEP)))
    alike = _likeness_at(pairs, lambda k: (slice(0, k), ~pairs.same[:k]))
    for k in _ends(pairs.distance, np.minimum(n, np.ceil(first * steps).astype(np.int64))):
        looser = min(n, max(k, int(np.searchsorted(wrong, _ENOUGH)) + 1))
        effect = effect_of(pairs.entity[:k], alike(looser, wrong[looser - 1]))
        if k >= end * effect:
            return
        if k >= first * effect:  # fewer could not pass, whatever their labels
            yield _Test(int(k), int(wrong[k - 1]), int(k), effect)


def _fpr_tests(pairs: Evidence) -> Iterator[_Test]:
    """Accept up to, and without, the first, second, … different pair."""
    places = np.flatnonzero(~pairs.same)
    n = len(places)
    entity = pairs.entity[places]
    alike = _likeness_at(pairs, lambda e: (places, np.arange(n) < e))
    for errors in _counts(n):
        # as many pairs as come before the next different one, and before its equals
        k = len(pairs.same) if errors == n else places[errors]
        if k < len(pairs.same):
            k = int(np.searchsorted(pairs.distance, pairs.distance[k], "left"))
        made = int(np.searchsorted(places, k))
        enough = max(made, min(n, _ENOUGH))
        yield _Test(int(k), made, n, effect_of(entity, alike(enough, enough)))


def _recall_tests(pairs: Evidence) -> Iterator[_Test]:
    """Accept all same pairs, then all but the farthest, then all but two, and so on."""
    places = np.flatnonzero(pairs.same)
    n = len(places)
    entity = pairs.entity[places]
    alike = _likeness_at(pairs, lambda e: (places, np.arange(n) >= n - e))
    for missed in _counts(n)[:-1]:
        k = int(_ends(pairs.distance, places[n - missed - 1 :][:1] + 1)[0])
        made = n - int(np.searchsorted(places, k))
        enough = max(made, min(n, _ENOUGH))
        yield _Test(k, made, n, effect_of(entity, alike(enough, enough)))


def _counts(n: int) -> Array:
    """0, 1, 2, …, and larger ones 5 % apart, up to n."""
    if n <= 20:
        return np.arange(n + 1)
    steps = int(np.log(n / 20) / np.log(_STEP))
    return np.unique(np.r_[:20, (20 * _STEP ** np.arange(steps + 1)).astype(np.int64), n])


def _likeness_at(
    pairs: Evidence, part: Callable[[int], tuple[Any, Array]]
) -> Callable[[int, int], float]:
    """ρ at a place, computed once; 1 where fewer than 30 errors were made."""
    known: dict[int, float] = {}

    def find(place: int, errors: int) -> float:
        if place not in known:
            chosen, error = part(place)
            known[place] = likeness(error.astype(np.float64), pairs.entity[chosen])
        return known[place] if errors >= _ENOUGH else 1.0

    return find


def _refusal(
    pairs: Evidence,
    target: str,
    value: float,
    allowed: float,
    confidence: float,
    tried: list[_Test],
    scale: float,
) -> NotEnoughPairsError:
    """Say what was measured, and how many more pairs would be needed."""
    first, sure = 0, confidence
    if target == "precision":  # the sequence began where some errors were allowed: look closer
        tried, counts = _small_tests(pairs), _first_counts(pairs, allowed, confidence)
        first, sure = counts[0], 1.0 - (1.0 - confidence) / len(counts)
    factors = [
        max(_needed_factor(test, allowed, sure), first * test.effect / test.total) for test in tried
    ]
    rates = [test.errors / test.total for test in tried]
    best = shifted(1.0 - min(rates), scale) if target == "precision" else 1.0 - min(rates)
    best = min(rates) if target == "fpr" else best
    n = len(pairs.same)
    asked = f"{target} {'≤' if target == 'fpr' else '≥'} {value:g}"
    message = (
        f"{n:,} labelled pairs cannot support {asked} with {100 * confidence:g} % confidence: "
    )
    if not np.isfinite(min(factors)):
        return NotEnoughPairsError(
            message + f"the best that was measured is {best:.4g}. More pairs would not help: use a "
            "better metric, or ask for less",
            None,
            best,
        )
    needed = int(np.ceil((min(factors) - 1.0) * n))
    return NotEnoughPairsError(
        message + f"the best that was measured is {best:.4g}, on too few pairs. About {needed:,} "
        "more of the same kind would be needed, or ask for less",
        needed,
        best,
    )


def _small_tests(pairs: Evidence) -> list[_Test]:
    """Precision of the closest pairs; of a handful, it would be chance."""
    wrong = np.cumsum(~pairs.same)
    counts = _counts(len(wrong))
    counts = _ends(pairs.distance, counts[counts >= min(_HANDFUL, len(wrong))])
    rho = likeness((~pairs.same).astype(np.float64), pairs.entity)
    return [
        _Test(int(k), int(wrong[k - 1]), int(k), effect_of(pairs.entity[:k], rho)) for k in counts
    ]


def _needed_factor(test: _Test, allowed: float, confidence: float) -> float:
    """How many times the pairs would do, were they all like these; infinite where none would."""
    if test.errors / test.total >= allowed:
        return np.inf
    low, high = 1.0, 2.0
    while test.upper(confidence, high) > allowed:
        low, high = high, 2.0 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if test.upper(confidence, middle) > allowed else (low, middle)
    return high
