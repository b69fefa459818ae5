"""Verification with a threshold that is chosen and judged on different entities."""

from typing import Any, NamedTuple

import numpy as np

from .. import measures
from .._types import Array
from .._validation import check_whole
from ..supervision import Pairs
from .pairs import _pair_distances


class Protocol(NamedTuple):
    """What `verification_by_entity` found, for each rate that was asked for.

    Attributes
    ----------
    tar : ndarray of shape (n_rates,), float64
        True accept rate on held-out entities, the mean over folds; NaN if there are too few
        different pairs for such a rate.
    tar_error : ndarray of shape (n_rates,), float64
        Standard error of ``tar``.
    far : ndarray of shape (n_rates,), float64
        False accept rate on held-out entities. It may be higher than what was asked for, because
        the threshold was chosen on other entities.
    thresholds : ndarray of shape (n_folds, n_rates), float64
        The distance up to which pairs were accepted, in each fold.
    """

    tar: Array
    tar_error: Array
    far: Array
    thresholds: Array


def verification_by_entity(
    X: Any, pairs: Pairs, far: Any = (1e-2, 1e-3, 1e-4), *, n_folds: int = 10, seed: int = 0
) -> Protocol:
    """Verification rates on entities that the threshold was not chosen on.

    Entities are split into folds. For each fold, the threshold is the largest distance at which
    the false accept rate among pairs *without* any entity of the fold is at most ``far``.
    Both rates are then measured on the pairs with an entity of the fold.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        The rows, already transformed by the metric to be evaluated (for example with
        ``metric.transform``).
    pairs : Pairs
        Pairs that are the same and pairs that are different. Its ``groups`` are the entities of
        the rows; without them, each row is an entity of its own.
    far : float or array-like of float, default=(1e-2, 1e-3, 1e-4)
        Shares of the different pairs that may be accepted.
    n_folds : int, default=10
        Number of folds, at least 2.
    seed : int, default=0
        Seed of the split.

    Returns
    -------
    Protocol
        Rates, errors and thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from dualmetric.supervision import Pairs
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(rng.normal(size=(50, 8)), 2, axis=0) + 0.1 * rng.normal(size=(100, 8))
    >>> index = np.column_stack(np.triu_indices(100, 1))
    >>> entity = np.arange(100) // 2
    >>> same = entity[index[:, 0]] == entity[index[:, 1]]
    >>> found = verification_by_entity(X, Pairs(index, same, groups=entity), [1e-2, 1e-5])
    >>> found.tar.round(2)
    array([ 1., nan])
    """
    from ..matching._calibration import entity_folds

    check_whole(n_folds, "n_folds")
    if n_folds < 2:
        raise ValueError(f"n_folds must be at least 2; got {n_folds}")
    rates = np.atleast_1d(np.asarray(far, dtype=np.float64))
    if rates.ndim != 1 or not ((rates > 0) & (rates <= 1)).all():
        raise ValueError(f"far must hold rates above 0 and up to 1; got {far!r}")
    distance, given = _pair_distances(X, pairs)
    entity = given.index if given.groups is None else given.groups[given.index]
    thresholds, accepted = [], []
    for train, test in entity_folds(entity, n_folds, seed):
        known, asked = given.same[train], given.same[test]
        if known.all() or not known.any() or asked.all() or not asked.any():
            continue
        limits = _limits(distance[train], known, rates)
        thresholds.append(limits)
        below = distance[test][:, None] <= limits
        accepted.append([below[asked].mean(axis=0), below[~asked].mean(axis=0)])
    if len(thresholds) < 2:
        raise ValueError(
            "fewer than two folds have both same and different pairs: give more pairs, or a "
            "smaller n_folds"
        )
    limits, (tar, measured) = np.array(thresholds), np.array(accepted).transpose(1, 0, 2)
    known = ~np.isnan(limits).any(axis=0)

    def mean(values: Array) -> Array:
        return np.where(known, values.mean(axis=0), np.nan)

    error = np.where(known, tar.std(axis=0, ddof=1) / np.sqrt(len(tar)), np.nan)
    return Protocol(mean(tar), error, mean(measured), limits)


def _limits(distance: Array, same: Array, rates: Array) -> Array:
    """The largest distance at each false accept rate; NaN where pairs are too few."""
    found = measures.errors(distance, same, np.ones((1, len(distance))))
    share = np.append(0.0, found.other[0] / found.other[0, -1])
    limits = np.append(-np.inf, found.thresholds)[np.searchsorted(share, rates, "right") - 1]
    return np.where(1.0 / np.count_nonzero(~same) <= rates, limits, np.nan)
