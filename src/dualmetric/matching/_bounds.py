"""Exact bounds of error rates, for pairs that may share entities: the formulas of `_thresholds`."""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv

from .._types import Array

_PARTS = np.linspace(0.0, 1.0, 11)  # shares of the errors made by entities that are missing


def exact_upper(errors: float, total: float, confidence: float) -> float:
    """Clopper and Pearson's upper bound of a rate; 1 if there is no evidence."""
    if total <= errors:
        return 1.0
    return float(betaincinv(errors + 1.0, total - errors, confidence))


def exact_lower(hits: float, total: float, confidence: float) -> float:
    """Clopper and Pearson's lower bound of a rate."""
    return 1.0 - exact_upper(total - hits, total, confidence)


def chance_of_so_few(
    errors: Any, total: Any, rate: float, effect: Any = 1.0, size: float = 1.0
) -> Any:
    """Largest probability of at most ``errors`` errors, if the error rate is ``rate``.

    ``effect`` pairs count as one. Entities that always err, with ``size`` pairs each, may make any
    part of the errors, and may be missing from the sample by chance.
    """
    if size <= 1.0:
        few = betainc(np.maximum(total - errors, 1e-9) / effect, errors / effect + 1.0, 1.0 - rate)
        return np.where(total > errors, few, 1.0)
    errors, total, effect = (
        np.asarray(each, np.float64)[..., None]
        for each in np.broadcast_arrays(errors, total, effect)
    )
    # x such entities are expected in the sample; the other pairs make the rest of the errors
    all_of_them = rate * total / (size * (1.0 - rate))
    x = all_of_them * _PARTS
    rest = np.maximum(rate - (1.0 - rate) * size * x / total, 0.0)
    few = betainc(np.maximum(total - errors, 1e-9) / effect, errors / effect + 1.0, 1.0 - rest)
    return np.max(np.exp(-x) * np.where(total > errors, few, 1.0), axis=-1)


def upper_bound(
    errors: float, total: float, confidence: float, effect: float = 1.0, size: float = 1.0
) -> float:
    """Smallest rate that is ruled out by so few errors; arguments as in `chance_of_so_few`."""
    exact = exact_upper(errors / effect, total / effect, confidence)
    if size <= 1.0 or exact == 1.0:
        return exact

    def excess(rate: float) -> float:
        return float(chance_of_so_few(errors, total, rate, effect, size)) - (1.0 - confidence)

    return float(brentq(excess, 0.999 * exact, 1.0 - 1e-9, xtol=1e-7))


def hub_size(entity: Array) -> float:
    """w: number of pairs of an entity, averaged over pairs, for the side with the larger mean."""
    if not len(entity):
        return 1.0
    sizes, _ = _sums(np.ones(len(entity)), entity)
    return float(np.max(np.mean(sizes[entity[:, :2]], axis=0)))


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
    """D: the mean number of pairs that share an entity with a pair, counting the pair itself.

    If such pairs always err together, D pairs count as one. ``entity`` is as `numbered` returns it.
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
    squared, n_entities = sums * sums, np.count_nonzero(np.bincount(entity[:, :2].ravel()))
    if squared.sum() <= 1e-12 * squares:  # of a single entity, the sum is zero by definition
        return 1.0
    # few entities with many errors tell the variance badly: add its own standard error
    doubt = np.sqrt(2.0 * float(squared @ squared)) / float(squared.sum())
    effect = (1.0 + doubt) * (float(squared.sum()) - float(common @ common)) / squares
    effect *= n_entities / (n_entities - 1.0)  # the mean was found from the same entities
    return float(np.clip((effect - 1.0) / (most - 1.0), 0.0, 1.0))


def rate_interval(hit: Array, entity: Array, level: float = 0.95) -> tuple[float, float]:
    """Interval of a share, for pairs that may share entities; ``entity`` as `numbered` gives it."""
    effect = effect_of(entity, likeness(hit.astype(np.float64), entity))
    hits, total = np.count_nonzero(hit) / effect, len(hit) / effect
    sure = (1.0 + level) / 2.0
    return exact_lower(hits, total, sure) if hits else 0.0, exact_upper(hits, total, sure)


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


def rounded_up(number: float) -> int:
    """Round up to two digits; estimates of numbers of pairs are not more precise."""
    unit = 10 ** max(0, int(np.log10(max(number, 1.0))) - 1)
    return int(np.ceil(number / unit)) * unit


def odds_scale(prevalence: float | None, share: float) -> float:
    """Odds of a match among the target pairs over those among the labelled pairs."""
    if prevalence is None:
        return 1.0
    return prevalence * (1.0 - share) / ((1.0 - prevalence) * share)


def shifted(rate: Any, scale: float) -> Any:
    """Probability whose odds are ``scale`` times those of ``rate``."""
    return rate * scale / (1.0 - rate + rate * scale)


def effect_of(entity: Array, alike: float) -> float:
    """How many pairs count as one, if their errors are so much alike."""
    return 1.0 + alike * (largest_effect(entity) - 1.0)
