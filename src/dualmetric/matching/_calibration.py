"""The probability that a pair is the same, as a function of its distance."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from .._types import Array
from ..supervision._checks import folds_of

FORM_NAMES = {
    "logistic": "logistic regression on the distance",
    "squared": "logistic regression on the squared distance",
    "isotonic": "isotonic regression on the distance",
}
FORMS = tuple(FORM_NAMES)
_FOLDS = 5


@dataclass(frozen=True)
class MatchScores:
    """Scores of a `Matcher` on pairs that it was not fitted to.

    Attributes
    ----------
    n_pairs, n_same : int
        How many pairs were scored, and how many of them are the same.
    log_loss : float
        Mean negative logarithm of the probability that was given to the true label.
    calibration_error : float
        Mean absolute difference between the probability and the share of same pairs, over 15 bins.
    average_precision : float
        Average precision of the ranking of these pairs by distance.
    """

    n_pairs: int
    n_same: int
    log_loss: float
    calibration_error: float
    average_precision: float


class Calibration(NamedTuple):
    """The probability of a match as a function of the distance, which never increases.

    Attributes
    ----------
    form : {"logistic", "squared", "isotonic"}
        The kind of regression.
    table : ndarray of shape (n, 2)
        For "logistic" and "squared", one row: the intercept of the log-odds, and their slope over
        the distance or over its square. For "isotonic", distances and probabilities, with linear
        interpolation between them.
    """

    form: str
    table: Array

    def log_odds(self, distance: Array) -> Array:
        """Log-odds of a match at the given distances, among pairs like the labelled ones."""
        if self.form != "isotonic":
            intercept, slope = self.table[0]
            return intercept + slope * np.asarray(distance, np.float64) ** power_of(self.form)
        return logit(np.interp(distance, self.table[:, 0], self.table[:, 1]))


def power_of(form: str) -> int:
    """Power of the distance that the log-odds are linear in."""
    return 2 if form == "squared" else 1


def fit_calibration(form: str, distance: Array, same: Array) -> Calibration:
    """Fit one form to labelled pairs of both kinds."""
    if form == "isotonic":
        return _isotonic(distance, same)
    return Calibration(form, _logistic(distance ** power_of(form), same))


def _logistic(distance: Array, same: Array) -> Array:
    """Intercept and slope, which is at most 0."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = distance.mean(), distance.std() or 1.0
    # a weak penalty, so that pairs that a threshold separates have finite odds
    model = LogisticRegression(C=100.0).fit(((distance - mean) / spread)[:, None], same)
    slope = min(0.0, float(model.coef_[0, 0]) / spread)
    if slope == 0.0:  # the distance says nothing: the share of same pairs is the best guess
        return np.array([[logit(same.mean()), 0.0]])
    return np.array([[float(model.intercept_[0]) - slope * mean, slope]])


def _isotonic(distance: Array, same: Array) -> Calibration:
    from sklearn.isotonic import IsotonicRegression

    n_same = np.count_nonzero(same)
    # of n pairs that are all the same, the next one may still be different
    low, high = 1.0 / (len(same) - n_same + 2.0), 1.0 - 1.0 / (n_same + 2.0)
    model = IsotonicRegression(y_min=low, y_max=high, increasing=False, out_of_bounds="clip")
    model.fit(distance, same.astype(np.float64))
    return Calibration("isotonic", np.column_stack([model.X_thresholds_, model.y_thresholds_]))


def log_loss(log_odds: Array, same: Array, weight: Array | None = None) -> float:
    """Mean of −log(probability of what was observed)."""
    return float(np.average(np.logaddexp(0.0, np.where(same, -log_odds, log_odds)), weights=weight))


def calibration_error(
    probability: Array, same: Array, weight: Array | None = None, n_bins: int = 15
) -> float:
    """Expected calibration error: probability against share, in bins of equal width."""
    weight = np.ones(len(same)) if weight is None else weight
    place = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)
    gap = np.bincount(place, weight * (probability - same), n_bins)
    return float(np.abs(gap).sum() / weight.sum())


def scores_of(
    log_odds: Array, distance: Array, same: Array, prevalence: float | None = None
) -> MatchScores:
    """Scores of log-odds; with ``prevalence``, for such a share of same pairs."""
    from .. import measures

    share = float(np.mean(same))
    q = share if prevalence is None else prevalence
    weight = np.where(same, q / share, (1.0 - q) / (1.0 - share))
    return MatchScores(
        len(same),
        int(np.count_nonzero(same)),
        log_loss(log_odds, same, weight),
        calibration_error(expit(log_odds), same, weight),
        float(np.mean(measures.pair_precisions(distance, same))),
    )


def entity_folds(entity: Array, n_folds: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Masks of pairs without any entity of a fold, and of those with one."""
    for places in folds_of(np.unique(entity), n_folds, seed):
        out = np.asarray(np.isin(entity, np.unique(entity)[places]).any(axis=1))
        yield ~out, out


def choose_calibration(
    distance: Array, same: Array, entity: Array
) -> tuple[Calibration, dict[str, float]]:
    """The form with the smallest log loss on pairs of held-out entities, fitted to all pairs.

    Logistic regression if no entities can be held out.
    """
    losses: dict[str, list[float]] = {form: [] for form in FORMS}
    sizes = []
    for train, test in entity_folds(entity, _FOLDS):
        if not test.any() or len(np.unique(same[train])) < 2:
            continue
        sizes.append(np.count_nonzero(test))
        for form in FORMS:
            fitted = fit_calibration(form, distance[train], same[train])
            losses[form].append(log_loss(fitted.log_odds(distance[test]), same[test]))
    if not sizes:
        return fit_calibration("logistic", distance, same), {}
    found = {form: float(np.average(each, weights=sizes)) for form, each in losses.items()}
    return fit_calibration(min(found, key=found.__getitem__), distance, same), found
