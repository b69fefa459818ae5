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
where k grows by 5 % at a time from the first k that allows some errors.

**The share of same pairs in use** (prevalence q) may differ from that of the labelled pairs, s. The
odds of a match at t are then those of the labelled pairs times q(1 − s)/((1 − q)s). So a precision
π in use is a precision π′ among the labelled pairs, with odds multiplied by (1 − q)s/(q(1 − s)).
Given how many pairs of each kind are labelled, the accepted ones are two independent binomial
counts; given their sum, the number of errors would be binomial if both were Poisson. The counts
vary less than that, so the bound is on the careful side.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from .._types import Array

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


def exact_upper(errors: float, total: float, confidence: float) -> float:
    """Clopper and Pearson's upper bound of a rate; 1 where there is no evidence."""
    if total <= errors:
        return 1.0
    return float(betaincinv(errors + 1.0, total - errors, confidence))


def exact_lower(hits: float, total: float, confidence: float) -> float:
    """Clopper and Pearson's lower bound of a rate."""
    return 1.0 - exact_upper(total - hits, total, confidence)


def numbered(entity: Array) -> Array:
    """Numbers from 0 of both entities of each pair, and of the two together."""
    codes = np.unique(entity, return_inverse=True)[1].reshape(-1, 2)
    low, high = np.sort(codes, axis=1).T
    both = np.unique(low * (codes.max() + 1) + high, return_inverse=True)[1]
    return np.column_stack([codes, both])


def _sums(values: Array, entity: Array) -> tuple[Array, Array]:
    """Sums over the pairs of each entity, and of each two entities."""
    left, right, both = entity.T
    two = left != right
    size = int(max(left.max(), right.max())) + 1
    sums = np.bincount(left, values, size) + np.bincount(right[two], values[two], size)
    return sums, np.bincount(both[two], values[two], int(both.max()) + 1)


def largest_effect(entity: Array) -> float:
    """D: by how much pairs count too often if those that share an entity are all alike.

    The mean number of pairs, with itself, that share an entity with a pair. ``entity`` is as
    `numbered` gives it.
    """
    if not len(entity):
        return 1.0
    degrees, common = _sums(np.ones(len(entity)), entity)
    return float(degrees @ degrees - common @ common) / len(entity)


def likeness(error: Array, entity: Array) -> float:
    """ρ: how alike the errors of pairs that share an entity are, between 0 and 1."""
    most = largest_effect(entity)
    rest = error - error.mean()
    squares = float(rest @ rest)
    if most <= 1.0 or squares == 0.0:
        return 0.0 if most <= 1.0 else 1.0
    sums, common = _sums(rest, entity)
    squared = sums * sums
    # few entities with many errors tell the variance badly: add its own standard error
    doubt = np.sqrt(2.0 * float(squared @ squared)) / float(squared.sum())
    effect = (1.0 + doubt) * (float(squared.sum()) - float(common @ common)) / squares
    return float(np.clip((effect - 1.0) / (most - 1.0), 0.0, 1.0))


def rate_interval(hit: Array, entity: Array, level: float = 0.95) -> tuple[float, float]:
    """Interval of a share, for pairs that may share entities; ``entity`` as `numbered` gives it."""
    effect = _effect(entity, likeness(hit.astype(np.float64), entity) if hit.any() else 0.0)
    hits, total = np.count_nonzero(hit) / effect, len(hit) / effect
    sure = (1.0 + level) / 2.0
    return exact_lower(hits, total, sure) if hits else 0.0, exact_upper(hits, total, sure)


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


def fewest_pairs(rate: float, confidence: float, errors: int = 0) -> int:
    """Independent pairs that show an error rate of at most ``rate`` if so many are errors."""
    low, high = errors, errors + 1
    while exact_upper(errors, high, confidence) > rate:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if exact_upper(errors, middle, confidence) > rate else (low, middle)
        )
    return high


def odds_scale(prevalence: float | None, share: float) -> float:
    """Odds of a match in use over those among the labelled pairs."""
    if prevalence is None:
        return 1.0
    return prevalence * (1.0 - share) / ((1.0 - prevalence) * share)


def shifted(rate: Any, scale: float) -> Any:
    """Probability whose odds are ``scale`` times those of ``rate``."""
    return rate * scale / (1.0 - rate + rate * scale)


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
    tests = {"precision": _precision_tests, "recall": _recall_tests, "fpr": _fpr_tests}[target]
    found, tried = None, []
    for test in tests(pairs, allowed, confidence):
        tried.append(test)
        if test.upper(confidence) > allowed:
            break
        found = test
    if found is None:
        raise _refusal(pairs, target, value, allowed, confidence, tried, scale)
    bound = found.upper(confidence)
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


def _first_count(pairs: Evidence, allowed: float, confidence: float) -> int:
    """Pairs that the first threshold for a precision accepts, if they are independent."""
    # a single error must not end the sequence at once, where there are pairs enough
    for errors in range(_MOST_ERRORS, 0, -1):
        count = fewest_pairs(allowed, confidence, errors)
        if count <= np.count_nonzero(pairs.same) / 2:
            return count
    return fewest_pairs(allowed, confidence)


def _precision_tests(pairs: Evidence, allowed: float, confidence: float) -> Iterator[_Test]:
    n, first = len(pairs.same), _first_count(pairs, allowed, confidence)
    wrong = np.cumsum(~pairs.same)
    count = 1 + int(np.log(n / first) / np.log(_STEP)) if first <= n else 0
    steps = _STEP ** np.arange(count)
    alike = _likeness_at(pairs, lambda k: (slice(0, k), ~pairs.same[:k]))
    for k in _ends(pairs.distance, np.minimum(n, np.ceil(first * steps).astype(np.int64))):
        looser = min(n, max(k, int(np.searchsorted(wrong, _ENOUGH)) + 1))
        effect = _effect(pairs.entity[:k], alike(looser, wrong[looser - 1]))
        if k >= first * effect:  # fewer could not pass, whatever their labels
            yield _Test(int(k), int(wrong[k - 1]), int(k), effect)


def _fpr_tests(pairs: Evidence, allowed: float, confidence: float) -> Iterator[_Test]:
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
        yield _Test(int(k), made, n, _effect(entity, alike(enough, enough)))


def _recall_tests(pairs: Evidence, allowed: float, confidence: float) -> Iterator[_Test]:
    """Accept all same pairs, then all but the farthest, then all but two, and so on."""
    places = np.flatnonzero(pairs.same)
    n = len(places)
    entity = pairs.entity[places]
    alike = _likeness_at(pairs, lambda e: (places, np.arange(n) >= n - e))
    for missed in _counts(n)[:-1]:
        k = int(_ends(pairs.distance, places[n - missed - 1 :][:1] + 1)[0])
        made = n - int(np.searchsorted(places, k))
        enough = max(made, min(n, _ENOUGH))
        yield _Test(k, made, n, _effect(entity, alike(enough, enough)))


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


def _effect(entity: Array, alike: float) -> float:
    return 1.0 + alike * (largest_effect(entity) - 1.0)


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
    first = 0
    if target == "precision":  # the sequence began where some errors were allowed: look closer
        tried, first = _small_tests(pairs), _first_count(pairs, allowed, confidence)
    factors = [
        max(_needed_factor(test, allowed, confidence), first * test.effect / test.total)
        for test in tried
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
        _Test(int(k), int(wrong[k - 1]), int(k), _effect(pairs.entity[:k], rho)) for k in counts
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
