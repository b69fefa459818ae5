"""Scores of telling pairs that are the same from pairs that are different."""

from typing import Any, NamedTuple

import numpy as np

from .. import measures
from .._arrays import ops, ranking
from .._rows import open_rows
from .._types import Array
from ..intervals import ends_of
from ..supervision import Pairs


def pair_average_precision(X: Any, pairs: Pairs) -> float:
    """Average precision of the distance at finding the pairs that are the same.

    It is the mean, over the pairs that are the same, of the share of such pairs among all that are
    as close or closer, as in `sklearn.metrics.average_precision_score`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        The rows, already transformed by the metric to be evaluated (for example with
        ``metric.transform``).
    pairs : Pairs
        Pairs that are the same and pairs that are different. Repeated pairs count once, and their
        weights are not used.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from dualmetric.supervision import Pairs
    >>> pairs = Pairs([[0, 1], [0, 2], [0, 3]], [True, False, True])
    >>> round(pair_average_precision([[0.0], [1.0], [2.0], [3.0]], pairs), 3)
    0.833
    """
    distance, given = _pair_distances(X, pairs)
    return float(np.mean(measures.pair_precisions(distance, given.same)))


class Curve(NamedTuple):
    """Shares of the same and of the different pairs that each threshold accepts.

    Attributes
    ----------
    thresholds : ndarray of shape (n,), float64
        Distances, ascending. The first is −inf, which accepts no pair.
    tar : ndarray of shape (n,), float64
        True accept rate: share of the same pairs that are accepted.
    far : ndarray of shape (n,), float64
        False accept rate: share of the different pairs that are accepted.
    """

    thresholds: Array
    tar: Array
    far: Array


class Verification(NamedTuple):
    """What `verification` found.

    Attributes
    ----------
    tar : ndarray of shape (n_rates,), float64
        True accept rate at each false accept rate that was asked for; NaN if there are too few
        different pairs for such a rate.
    thresholds : ndarray of shape (n_rates,), float64
        The distance up to which pairs are then accepted.
    curve : Curve
        Both rates at every threshold.
    """

    tar: Array
    thresholds: Array
    curve: Curve


def verification(X: Any, pairs: Pairs, far: Any = (1e-2, 1e-3, 1e-4)) -> Verification:
    """Verification by a threshold on the distance: true accept rates at false accept rates.

    Parameters
    ----------
    X, pairs
        As in `pair_average_precision`.
    far : float or array-like of float, default=(1e-2, 1e-3, 1e-4)
        Shares of the different pairs that may be accepted. If a share amounts to less than one
        pair, the rate cannot be measured and the result is NaN.

    Returns
    -------
    Verification
        Rates and thresholds, and the whole curve.

    Examples
    --------
    >>> from dualmetric.supervision import Pairs
    >>> pairs = Pairs([[0, 1], [0, 2], [1, 3], [0, 3]], [True, False, True, False])
    >>> found = verification([[0.0], [1.0], [2.0], [4.0]], pairs, far=[0.5, 0.01])
    >>> found.tar, found.thresholds
    (array([ 1., nan]), array([ 3., nan]))
    """
    distance, given = _pair_distances(X, pairs)
    rates = np.atleast_1d(np.asarray(far, dtype=np.float64))
    if rates.ndim != 1 or not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f"far must hold rates between 0 and 1; got {far!r}")
    found = measures.errors(distance, given.same, np.ones((1, len(distance))))
    tar, accepted = (np.append(0.0, part[0] / part[0, -1]) for part in (found.same, found.other))
    thresholds = np.append(-np.inf, found.thresholds)
    place = np.searchsorted(accepted, rates, "right") - 1  # the largest threshold that is allowed
    measurable = 1.0 / np.count_nonzero(~given.same) <= rates
    return Verification(
        np.where(measurable, tar[place], np.nan),
        np.where(measurable, thresholds[place], np.nan),
        Curve(thresholds, tar, accepted),
    )


def pair_interval(
    X: Any,
    pairs: Pairs,
    *,
    far: float | None = None,
    level: float = 0.95,
    n_draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Bootstrap interval of `pair_average_precision`, or of a rate of `verification`.

    Pairs are drawn with replacement. Pairs that share an entity are not independent evidence. So if
    ``pairs`` has groups, the entity of each row, entities are drawn instead. The weight of a pair
    is then the product of how often each of its entities was drawn.

    Parameters
    ----------
    X, pairs
        As in `pair_average_precision`.
    far : float, optional
        The interval is that of the true accept rate at this false accept rate; None for the
        average precision.
    level, n_draws, seed
        As in `dualmetric.intervals.bootstrap_interval`.

    Returns
    -------
    low, high : float
        Ends of the interval; NaN if there are too few different pairs for the rate.
    """
    distance, given = _pair_distances(X, pairs)
    if far is not None and 1.0 / np.count_nonzero(~given.same) > far:
        return np.nan, np.nan
    n = len(distance)
    rng = np.random.default_rng(seed)
    values = []
    height = 1 + 2**18 // n
    for start in range(0, n_draws, height):
        count = min(height, n_draws - start)
        if given.groups is None:
            weight = rng.multinomial(n, np.full(n, 1.0 / n), size=count)
        else:
            entity, codes = np.unique(given.groups[given.index], return_inverse=True)
            left, right = codes.reshape(-1, 2).T
            m = len(entity)
            drawn = rng.multinomial(m, np.full(m, 1.0 / m), size=count)
            weight = drawn[:, left] * np.where(left == right, 1, drawn[:, right])
        found = measures.errors(distance, given.same, weight.astype(np.float64))
        if far is None:
            values.append(measures.average_precision_of(found))
        else:
            values.append(measures.true_accepts(found, far))
    return ends_of(np.concatenate(values), level)


def _pair_distances(X: Any, pairs: Pairs) -> tuple[Array, Pairs]:
    """Distances of all pairs in float64, and the pairs as arrays."""
    if not isinstance(pairs, Pairs):
        raise TypeError(
            f"pairs must be Pairs(index, same) of dualmetric.supervision; got "
            f"{type(pairs).__name__}"
        )
    rows, _ = open_rows(X)
    given = pairs.check(rows.shape[0])
    if given.same.all():
        raise ValueError("no pair is labelled as different: add some")
    named = np.unique(given.index)
    part = ops.canonical(ranking.check_float64(rows.take(named)))
    index = np.searchsorted(named, given.index)
    distance = ops.sq_distances(part, *np.ascontiguousarray(index.T))
    return np.sqrt(distance), given
