r"""Thresholds on the distance with a guarantee, from labelled pairs.

A threshold t accepts pairs that are at most t apart. The guarantee is about one of three rates: the
precision (share of the accepted pairs that are the same), the recall (share of the same pairs that
are accepted) or the false positive rate (share of the different pairs that are accepted). Each is
an error rate, or one minus an error rate, so one bound serves all three.

**The bound.** Of n pairs, e are errors. The exact upper bound of Clopper and Pearson is the u with
P(Bin(n, u) ≤ e) = δ, where 1 − δ is the confidence: the quantile 1 − δ of Beta(e + 1, n − e).

**Pairs that share records** are not independent evidence. Let r_i = error_i − e/n, T_a the sum of r
over the pairs with entity a, and T_ab the sum over the pairs of entities a and b, which are counted
in both T_a and T_b. The variance of the number of errors, with the covariance of all pairs that
share an entity, is then estimated by

    V = Σ_a T_a² − Σ_{a≠b} T_ab²

A bootstrap over entities would estimate the same, but its weights are products of two draws, which
triple the variance of pairs that share nothing. V is raised by its own standard error. The
correlation ρ is defined by V / Σ r_i² = 1 + ρ(D − 1) and kept between 0 and 1. D is the mean number
of pairs that share an entity with a pair, so that ρ = 1 means that these pairs always err together.
The bound then counts n/(1 + ρ(D − 1)) pairs, and the same part of the errors. Few errors say little
about ρ, so it is measured at a looser threshold with at least 30 errors, and is 1 if there are
fewer in all. For the false positive rate and the recall, whose bounds have no slack, ρ is at least
what the errors at the threshold itself show.

**Hubs that were not labelled.** An entity that is close to all others makes an error in each of its
different pairs. If one entity in a hundred is such a hub, the labelled pairs of two hundred
entities may contain none of them by chance, and then their errors say nothing about hubs. So the
test can allow for them. Suppose that x hubs are expected among the labelled entities, each with w
pairs that can err (w is the number of such pairs of an entity, averaged over pairs). The
probability that none was labelled is e^(−x). They would add w·x errors, so that a rate u leaves
u − (1 − u)·w·x/n for the other pairs. The rate u is ruled out if

    max over x ≥ 0 of  e^(−x) · P(Bin(n, u − (1 − u)·w·x/n) ≤ e)  ≤  δ

For pairs that share nothing (w = 1), the maximum is at x = 0, and this is the exact bound. Without
any error, the bound is about w·log(1/δ)/n: three hubs may be missing. Fewer pairs can never rule
them out, since a sample without hubs looks the same whether hubs exist or not. By default, the
threshold assumes that no hubs are missing, and ``bound_with_hubs`` says what holds otherwise. With
``hubs``, that bound must meet the target.

**The order of the tests** is fixed without looking at which pairs are the same, so no correction
for their number is needed: the first test that fails ends the sequence. The tests of the false
positive rate and of the precision begin with the strictest threshold, those of the recall with the
loosest. The false positive rate and the recall are monotone in t. For the precision, the thresholds
accept k pairs, where k grows by 5 % each time. A single error among the closest pairs would end
this sequence. So there are two: one begins at the first k that allows no error, the other at the
first k that allows three (or two, or one, if there are few same pairs). Each may err with
probability δ/2; if the first passes all its tests, the second may err with probability δ (the
fallback procedure of Wiens).

**The share of same pairs among the target pairs**, to which the matcher will be applied, is the
prevalence q. It may differ from the share s among the labelled pairs. The odds of a match at t are
then those of the labelled pairs times q(1 − s)/((1 − q)s). So a precision π among the target pairs
is a precision π′ among the labelled pairs, with odds multiplied by (1 − q)s/(q(1 − s)). Given how
many pairs of each kind are labelled, the numbers of accepted pairs of each kind are independent and
binomial. If they were Poisson, the number of errors, given their sum, would be binomial. They vary
less than that, so the bound is conservative.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from ._bounds import (
    chance_of_so_few,
    effect_of,
    fewest_pairs,
    hub_size,
    likeness,
    numbered,
    odds_scale,
    rounded_up,
    shifted,
    upper_bound,
)
from ._found import NotEnoughPairsError, Threshold

_ENOUGH = 30  # errors from which the correlation of pairs that share an entity is measured
_STEP = 1.05  # ratio of the numbers of pairs that two successive thresholds accept
_MOST_ERRORS = 3  # allowed at the first threshold of a sequence
_HANDFUL = 20  # pairs are enough to guess what more of them would show
_LUCK = 0.3  # errors added to the best of many thresholds, which was partly chosen by chance
_MOST_TIMES = 100  # as many pairs as were given; beyond that, a forecast is a guess
_WITHOUT_HUBS = ". Pairs of more records help most. Without hubs, the target can be met"
RATES = ("precision", "recall", "fpr")


class Evidence(NamedTuple):
    """Labelled pairs: distance, label, and (n, 2) numbers of entities, sorted by distance."""

    distance: Array
    same: Array
    entity: Array

    @classmethod
    def of(cls, distance: Array, same: Array, entity: Array) -> "Evidence":
        """Sort pairs by their distance."""
        order = np.argsort(distance, kind="stable")
        return cls(np.asarray(distance, np.float64)[order], same[order], entity[order])


class _Test(NamedTuple):
    """One threshold: how many pairs it accepts, and the evidence about its rate."""

    accepted: int
    errors: float
    total: int
    effect: float  # how many pairs count as one independent pair
    size: float  # number of pairs of a hub that may be missing; 1 without hubs

    def passes(self, allowed: float, confidence: float) -> bool:
        """Whether an error rate of ``allowed`` can be ruled out."""
        rare = chance_of_so_few(self.errors, self.total, allowed, self.effect, self.size)
        return bool(rare <= 1.0 - confidence)

    def could_pass(self, errors: int, allowed: float, confidence: float) -> bool:
        """Whether it would pass with this number of errors if its pairs were independent."""
        return self._replace(errors=errors * self.effect).passes(allowed, confidence)


def find_threshold(
    pairs: Evidence,
    target: str,
    value: float,
    confidence: float,
    prevalence: float | None = None,
    hubs: bool = False,
) -> Threshold:
    """Find the loosest threshold (for the recall, the strictest) that meets a target.

    Raises `NotEnoughPairsError` if there is none. ``hubs`` says whether entities that always err
    may be missing from the pairs.
    """
    pairs = pairs._replace(entity=numbered(pairs.entity))
    n, n_same = len(pairs.same), int(np.count_nonzero(pairs.same))
    scale = odds_scale(prevalence, n_same / n)
    wanted = shifted(value, 1.0 / scale) if target == "precision" else value
    allowed = wanted if target == "fpr" else 1.0 - wanted
    hub = hub_size(pairs.entity[pairs.same if target == "recall" else ~pairs.same])
    size = hub if hubs else 1.0
    found, sure, tried = _last_passed(pairs, target, allowed, confidence, size)
    if found is None:
        error = _refusal(pairs, target, value, allowed, confidence, tried, scale, size)
        if size > 1.0 and _last_passed(pairs, target, allowed, confidence, 1.0)[0]:
            error.args = (error.args[0] + _WITHOUT_HUBS,)
        raise error

    def bound(hub: float) -> float:
        upper = upper_bound(found.errors, found.total, sure, found.effect, hub)
        lower = upper if target == "fpr" else 1.0 - upper
        return float(shifted(lower, scale)) if target == "precision" else lower

    return Threshold(
        _between(pairs.distance, found.accepted),
        target,
        value,
        confidence,
        bound(size),
        bound(hub),
        *rates_at(pairs, found.accepted, scale),
        found.accepted,
        found.total / found.effect,
    )


def _last_passed(
    pairs: Evidence, target: str, allowed: float, confidence: float, size: float
) -> tuple[_Test | None, float, list[_Test]]:
    """The last test that passed, its confidence, and all tests that were tried."""
    found, sure, tried, share = None, confidence, [], 0.0
    for weight, tests in _chains(pairs, target, allowed, confidence, size):
        share += weight
        for test in tests:
            tried.append(test)
            level = 1.0 - share * (1.0 - confidence)
            if not test.passes(allowed, level):
                share = 0.0
                break
            found, sure = test, level
    return found, sure, tried


def rates_at(pairs: Evidence, accepted: int, scale: float = 1.0) -> tuple[float, float, float]:
    """Precision, recall and false positive rate if the closest pairs are accepted."""
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
    """Numbers of pairs, raised to include all pairs at equal distances; sorted and unique."""
    return np.unique(np.searchsorted(distance, distance[counts - 1], "right"))


def _chains(
    pairs: Evidence, target: str, allowed: float, confidence: float, size: float
) -> list[tuple[float, Iterator[_Test]]]:
    """Sequences of tests, each with the share of 1 − confidence that it begins with."""
    if target != "precision":
        tests = _recall_tests if target == "recall" else _fpr_tests
        return [(1.0, tests(pairs, size))]
    errors = _first_errors(int(np.count_nonzero(pairs.same)), allowed, confidence, size)
    level = 1.0 - (1.0 - confidence) / len(errors)
    return [
        (1.0 / len(errors), _precision_tests(pairs, first, end, allowed, level, size))
        for first, end in zip(errors, [*errors[1:], None], strict=True)
    ]


def _first_errors(n_same: float, allowed: float, confidence: float, size: float) -> list[int]:
    """Errors that the first threshold of each sequence for a precision may make.

    The first sequence begins where no error is allowed. A single error would end it, so a second
    one begins where some errors are allowed, if there are enough pairs. If hubs may be missing, so
    many pairs are needed that the second sequence alone is better.
    """
    level = confidence if size > 1.0 else (1.0 + confidence) / 2.0
    for errors in range(_MOST_ERRORS, 0, -1):
        if fewest_pairs(allowed, level, errors) <= n_same / 2:
            return [errors] if size > 1.0 else [0, errors]
    return [0]


def _precision_tests(
    pairs: Evidence, first: int, end: int | None, allowed: float, confidence: float, size: float
) -> Iterator[_Test]:
    """Begin with the fewest pairs that pass with ``first`` errors; stop before ``end`` would."""
    for test in _closest(pairs, fewest_pairs(allowed, confidence, first), size):
        if end is not None and test.could_pass(end, allowed, confidence):
            return
        if test.could_pass(first, allowed, confidence):  # others fail whatever their labels
            yield test


def _closest(pairs: Evidence, least: int, size: float) -> Iterator[_Test]:
    """Accept at least ``least`` pairs, then 5 % more each time."""
    n = len(pairs.same)
    if least > n:
        return
    wrong = np.cumsum(~pairs.same)
    steps = _STEP ** np.arange(1 + int(np.log(n / least) / np.log(_STEP)))
    alike = _likeness_at(pairs, lambda k: (slice(0, k), ~pairs.same[:k]))
    for k in _ends(pairs.distance, np.minimum(n, np.ceil(least * steps).astype(np.int64))):
        looser = min(n, max(k, int(np.searchsorted(wrong, _ENOUGH)) + 1))
        effect = effect_of(pairs.entity[:k], alike(looser, wrong[looser - 1]))
        yield _Test(int(k), int(wrong[k - 1]), int(k), effect, size)


def _fpr_tests(pairs: Evidence, size: float) -> Iterator[_Test]:
    """Accept the pairs before the first different pair, before the second, and so on."""
    places = np.flatnonzero(~pairs.same)
    n = len(places)
    entity = pairs.entity[places]
    alike = _likeness_at(pairs, lambda e: (places, np.arange(n) < e))
    for errors in _counts(n):
        # the pairs that come before the next different pair and all at the same distance
        k = len(pairs.same) if errors == n else places[errors]
        if k < len(pairs.same):
            k = int(np.searchsorted(pairs.distance, pairs.distance[k], "left"))
        made = int(np.searchsorted(places, k))
        yield _rate_test(int(k), made, entity, alike, size)


def _recall_tests(pairs: Evidence, size: float) -> Iterator[_Test]:
    """Accept all same pairs, then all but the farthest, then all but two, and so on."""
    places = np.flatnonzero(pairs.same)
    n = len(places)
    entity = pairs.entity[places]
    alike = _likeness_at(pairs, lambda e: (places, np.arange(n) >= n - e))
    for missed in _counts(n)[:-1]:
        k = int(_ends(pairs.distance, places[n - missed - 1 :][:1] + 1)[0])
        made = n - int(np.searchsorted(places, k))
        yield _rate_test(k, made, entity, alike, size)


def _rate_test(
    accepted: int, made: int, entity: Array, alike: Callable[[int, int], float], size: float
) -> _Test:
    """Evidence about a rate of all pairs of one kind, of which ``made`` are errors."""
    n = len(entity)
    enough = max(made, min(n, _ENOUGH))
    # hubs make the first errors, and are a smaller part of more of them
    rho = max(alike(enough, enough), alike(made, _ENOUGH) if made else 0.0)
    return _Test(accepted, made, n, effect_of(entity, rho), size)


def _counts(n: int) -> Array:
    """0, 1, 2, … up to 20, then steps of 5 %, up to n."""
    if n <= 20:
        return np.arange(n + 1)
    steps = int(np.log(n / 20) / np.log(_STEP))
    return np.unique(np.r_[:20, (20 * _STEP ** np.arange(steps + 1)).astype(np.int64), n])


def _likeness_at(
    pairs: Evidence, part: Callable[[int], tuple[Any, Array]]
) -> Callable[[int, int], float]:
    """ρ at a place, computed once; 1 if fewer than 30 errors were made."""
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
    size: float,
) -> NotEnoughPairsError:
    """Say what was measured, and how many more pairs would be needed."""
    n, n_same, more, least = len(pairs.same), 0, 0.0, 0
    if target == "precision":  # look at fewer pairs than were tried
        n_same, more = int(np.count_nonzero(pairs.same)), _LUCK
        least = min(_HANDFUL, n_same)  # more of them would contain different pairs
        tried = list(_closest(pairs, least, size))
    factor = _needed_factor(tried, allowed, confidence, n_same, more)
    rates = [test.errors / test.total for test in tried]
    best = shifted(1.0 - min(rates), scale) if target == "precision" else 1.0 - min(rates)
    best = min(rates) if target == "fpr" else best
    asked = f"{target} {'≤' if target == 'fpr' else '≥'} {value:g}"
    easier = f"ask for a {'higher' if target == 'fpr' else 'lower'} {target}"
    message = f"{n:,} labelled pairs cannot support {asked} with {100 * confidence:g} % confidence"
    if target == "precision":
        message += (
            f": among thresholds that accept at least {least} "
            f"{'pair' if least == 1 else 'pairs'}, the highest measured precision is {best:.4g}"
        )
    else:  # the first threshold makes no error at all, so only the number of pairs matters
        kind = "different" if target == "fpr" else "the same"
        message += f": {tried[0].total:,} of them are {kind}, which is too few"
    if factor <= _MOST_TIMES:
        needed = rounded_up((factor - 1.0) * n)
        message += (
            f". Label about {needed:,} more pairs, chosen in the same way as these, or {easier}"
        )
        return NotEnoughPairsError(message, needed, best)
    reached = [test.total for test in tried if test.errors <= allowed * test.total + 1e-9]
    if target != "precision":
        message += f". More than {_MOST_TIMES} times as many pairs are needed: {easier}"
    elif reached:
        most = max(reached)
        words = "pair reaches" if most == 1 else "pairs reach"
        message += (
            f". At most {most:,} accepted {words} the target, too few to say how many more are "
            "needed: label more pairs, chosen in the same way as these, use a better metric, or "
            f"{easier}"
        )
    else:
        message += f". More pairs are unlikely to help: use a better metric, or {easier}"
    return NotEnoughPairsError(message, None, best)


def _needed_factor(
    tests: list[_Test], allowed: float, confidence: float, n_same: int, more: float
) -> float:
    """How many times as many pairs like these are needed; infinite if more do not help."""
    tests = [test._replace(errors=test.errors + more) for test in tests]
    hopeful = [test for test in tests if test.errors / test.total < allowed]
    if not hopeful:
        return np.inf
    _, errors, total, effect, size = np.array(hopeful).T

    def enough(factor: float, which: Any = slice(None)) -> Array:
        chains = _first_errors(factor * n_same, allowed, confidence, size[0]) if n_same else [0]
        made, all_of_them = factor * errors[which], factor * total[which]
        rare = chance_of_so_few(made, all_of_them, allowed, effect[which], size[0])
        return np.asarray(rare <= (1.0 - confidence) / len(chains))

    low, high = 1.0, 2.0
    while not (passed := enough(high)).any():
        low, high = high, 2.0 * high
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle, passed).any() else (middle, high)
    return high
