"""Confidence intervals of scores by the bootstrap."""

from typing import Any

import numpy as np

from ._types import Array
from ._validation import check_labels


def bootstrap_interval(
    values: Any,
    groups: Any = None,
    *,
    level: float = 0.95,
    n_draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Confidence interval of the mean of some values, by the percentile bootstrap.

    Parameters
    ----------
    values : array-like of shape (n,)
        One per query. NaN are left out.
    groups : array-like of shape (n,), optional
        The group of each value, such as a thread, a user or an entity: whole groups are drawn. Use
        it if values within a group are similar: drawn one by one, they would seem to be more
        evidence than they are.
    level : float, default=0.95
        Share of the resampled means that lie in the interval.
    n_draws : int, default=1000
        How often n values, or as many groups as there are, are drawn with replacement.
    seed : int, default=0
        The same seed gives the same interval.

    Returns
    -------
    low, high : float
        NaN where there are no values.
    """
    known = np.asarray(values, dtype=np.float64)
    kept = ~np.isnan(known)
    if not kept.any():
        return np.nan, np.nan
    sums: Array = known[kept]
    sizes: Array | None = None
    if groups is not None:
        codes = np.unique(check_labels(groups, len(known), "groups")[kept], return_inverse=True)[1]
        sums, sizes = np.bincount(codes, sums), np.bincount(codes)
    rng = np.random.default_rng(seed)
    means = np.empty(n_draws)
    height = 1 + 2**17 // len(sums)  # draws at once: few enough to stay in the cache
    for start in range(0, n_draws, height):
        block = means[start : start + height]
        drawn = rng.integers(len(sums), size=(len(block), len(sums)), dtype=np.int32)
        total = len(sums) if sizes is None else sizes[drawn].sum(axis=1)
        block[:] = sums[drawn].sum(axis=1) / total
    return ends_of(means, level)


def ends_of(means: Array, level: float) -> tuple[float, float]:
    """The ends between which this share of the resampled means lies; NaN are left out."""
    low, high = np.nanquantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_interval(
    a: Any,
    b: Any,
    groups: Any = None,
    *,
    level: float = 0.95,
    n_draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Confidence interval of mean(a) − mean(b), for two scores of the same queries.

    Queries are drawn together with both their values. What makes a query hard for both distances
    cancels, so small differences become visible. If the interval is above zero, ``a`` is
    significantly better. Queries with NaN are left out. The parameters are those of
    `bootstrap_interval`.
    """
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return bootstrap_interval(difference, groups, level=level, n_draws=n_draws, seed=seed)


def best_of_interval(
    candidates: Any, other: Any, *, level: float = 0.95, n_draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Interval of how much the best of many candidates is better than ``other``.

    The best of many candidates looks better than it is, because it was chosen by the same queries.
    So in each draw the candidate that is best on the queries drawn is judged on those that were not
    drawn, a share s of about a third. Their mean varies about that of all n with a variance of
    σ²/n · (1 − s)/s, where the mean of n queries has σ²/n: so the interval is multiplied by
    √(s/(1 − s)). With fewer than about eight queries it is too narrow, like any bootstrap interval.

    Parameters
    ----------
    candidates : array-like of shape (n_candidates, n)
        One value per query; queries with NaN are left out.
    other : array-like of shape (n,)
        The same for the method that they are compared with.
    level, n_draws, seed
        As in `bootstrap_interval`.

    Returns
    -------
    low, high : float
        NaN where there are fewer than two queries.
    """
    return best_of_gains(candidates, other, level=level, n_draws=n_draws, seed=seed)[1:]


def best_of_gains(
    candidates: Any,
    other: Any,
    *,
    level: float = 0.95,
    n_draws: int = 1000,
    seed: int = 0,
    mutual: bool = False,
) -> tuple[float, float, float]:
    """Expected gain of the best, and the ends of its interval: see `best_of_interval`.

    ``mutual`` says that queries are each other's answers, as for rows that rank each other. A row
    then counts twice, as a query and as an answer, and the mean varies up to twice as much as that
    of independent queries (Hájek's projection of a statistic of pairs), so the interval is made
    twice as wide.
    """
    gains = np.asarray(candidates, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    gains = gains[:, ~np.isnan(gains).any(axis=0)].T
    n = len(gains)
    if n < 2:
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(seed)
    found, shares = [], []
    height = 1 + 2**20 // n
    for start in range(0, n_draws, height):
        size = min(height, n_draws - start)
        places = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        drawn = np.bincount(places.ravel(), minlength=size * n).reshape(size, n).astype(float)
        left = (drawn == 0).astype(np.float64)
        usable = left.any(axis=1)  # of very few queries, all may be drawn
        best = np.argmax(drawn[usable] @ gains, axis=1)
        judged = (left[usable] @ gains)[np.arange(len(best)), best]
        found.append(judged / left[usable].sum(axis=1))
        shares.append(left[usable].mean(axis=1))
    means = np.concatenate(found)
    ends = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    share = np.concatenate(shares).mean()
    width = np.sqrt(share / (1.0 - share)) * (2.0 if mutual else 1.0)
    low, high = means.mean() + (ends - means.mean()) * width
    return float(means.mean()), float(low), float(high)
