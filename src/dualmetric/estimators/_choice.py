"""The choice of `MetricCV` among the candidates of a race."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .._types import Array
from ..intervals import best_of_gains, bootstrap_interval
from ..learn import PRIOR_REG
from ._race import (
    Candidate,
    Race,
    better_plain,
    estimated_means,
    is_default_ridge,
    known_mean,
    paired,
)

# On documents that were not judged, a metric may be worse than the plain distance by one point at
# most, and by three standard errors: chosen on scifact, cranfield and stackfaq.
_MOST_LOST, _MOST_ERRORS = 0.01, 3.0
# The gain of `RidgeMetric` with default settings for known classes: its mean and its standard
# deviation before it is scored. On six sets with 5 and 10 labels per class it was 1 to 25 points.
_RIDGE_GAIN = 0.05
_LEAST_GAIN = 5e-4  # smaller gains come from ties that rounding breaks, and help nobody
_ONE_SIDED = 0.9  # of an interval whose lower end alone holds with 95 % confidence
_FEWEST_QUERIES = 20  # that the default ridge is judged by
_FAMILIES = ("Euclidean", "Whitening", "RidgeMetric", "DuOri", "DuRP")  # the simplest first


def choose(race: Race) -> dict[str, Any]:
    """Compare the candidates over all splits; returns what becomes fitted attributes.

    Where no family is better than the plain distance, this is kept, unless the race allows fewer
    directions than it has, or else `RidgeMetric` with its own penalty: see `_default_ridge`. Of
    those within one standard error of the best, the simplest is chosen: linear before lifted,
    whitening before ridge before DuRP, few directions before many.

    What "better" means depends on the evidence that queries can give:

    - "interval": the intervals of all families hold together, and that of this one is above zero.
    - "one-sided": for families with a prior, a one-sided test of each alone is enough, with 95 %
      confidence. Few queries can rarely show more, and a prior makes large losses unlikely.
    - "default", for new classes: classes are few, and the best of many candidates on them is mostly
      chosen by chance. So the default metric with a prior is taken, unless another one, or the
      plain distance, is significantly better over classes. Another one is not taken if no gain over
      the plain distance is expected of it: this is then kept.
    """
    candidates, scores = race.candidates, race.scores()
    means = estimated_means(scores)
    plain = np.array([one.method == "Euclidean" for one in candidates])
    best_plain = better_plain(scores)
    narrow = race.is_narrow
    learned = ~plain & np.array([not one.barred for one in candidates])
    allowed = learned & np.array([not one.dropped for one in candidates])
    is_default = np.array([is_default_ridge(one.method, one.params) for one in candidates])
    ridge = None if narrow else _default_ridge(race, allowed & is_default, scores, best_plain)
    allowed &= ~is_default
    if any(one.barred for one in candidates):
        allowed &= _scored_most(candidates, allowed)
    if narrow and not allowed.any():
        raise ValueError(
            f"no metric with at most max_components={race.most_components} directions was learned"
            f"{' before the time limit' if race.out_of_time else ''}: increase max_components"
            f"{' or time_limit' if race.out_of_time else ''}"
        )
    place, gain, expected = best_plain, (np.nan, np.nan), float(means[best_plain])
    gains = _gains(race, allowed, scores, best_plain)
    better = [
        family
        for family, gain_of in gains.items()
        if narrow or _is_better(race, family, gain_of, allowed, scores, best_plain)
    ]
    usual = None if narrow or race.evidence != "default" else _usual(candidates, learned)
    if usual is not None:
        place = _clearly_better(scores, np.append(np.flatnonzero(allowed), best_plain), usual)
        if place not in (usual, best_plain):  # it was chosen as the best of many
            mean, *ends = best_of_gains(scores[allowed], scores[best_plain], mutual=race.mutual)
            gain = ends[0], ends[1]
            expected += mean
            place = place if mean > 0.0 else best_plain
        if place in (usual, best_plain):
            low, high = _t_interval(scores[usual] - scores[best_plain])
            gain = (float(low), float(high)) if np.isfinite(low) else (np.nan, np.nan)
            expected = float(means[place])
    elif better:
        allowed &= np.array([_family(one) in better for one in candidates])
        best = int(np.argmax(np.where(allowed, means, -np.inf)))
        place = _simplest(race, scores, means, allowed, best)
        family = _family(candidates[place])
        champion = max(means[allowed & _of_family(candidates, family)])
        expected += gains[family][0] - (champion - means[place])
        gain = gains[family][1:]
    elif ridge is not None:
        place, expected = ridge, float(means[ridge])
        gain = best_of_gains(scores[[ridge]], scores[best_plain], mutual=race.mutual)[1:]
    elif gains:
        gain = max(gains.values(), key=lambda one: one[1])[1:]
    kept = candidates[place]
    names = sorted({name for one in candidates for name in one.also})
    also = {name: known_mean(race.also(name)[[place, best_plain]]) for name in names}
    return {
        "kept": kept,
        "best_score_": float(means[place]),
        "expected_score_": float(expected),
        "best_index_": place,
        "best_plain_": (candidates[best_plain].params["distance"], float(means[best_plain])),
        "other_scores_": {name: (float(a), float(b)) for name, (a, b) in also.items()},
        "gain_interval_": gain,
    }


class Family(NamedTuple):
    """What the candidates of a family have in common."""

    lifted: bool
    method: str
    prior: bool

    def __str__(self) -> str:
        return f"{self.method}{', prior' * self.prior}{', lifted' * self.lifted}"


def _family(candidate: Candidate) -> Family:
    params = candidate.params
    return Family(params.get("lift") is not None, candidate.method, "prior" in params)


def _of_family(candidates: list[Candidate], family: Family) -> Array:
    return np.array([_family(one) == family for one in candidates])


def _scored_most(candidates: list[Candidate], allowed: Array) -> Array:
    """Which candidates were scored on as many splits as any allowed one of their family.

    Those that come back after others were barred lack scores of later splits. A family is compared
    with the plain distance on queries that all of its members have, so they would hide its gain.
    """
    most: dict[Family, int] = {}
    for one, ok in zip(candidates, allowed, strict=True):
        if ok:
            most[_family(one)] = max(most.get(_family(one), 0), len(one.parts))
    return np.array([len(one.parts) >= most.get(_family(one), 0) for one in candidates])


def _gains(
    race: Race, allowed: Array, scores: Array, plain: int
) -> dict[Family, tuple[float, float, float]]:
    """Expected gain of each family over the plain distance, and the ends of its interval.

    Families are tested one by one, so that a large family, whose best candidate is in doubt, does
    not hide the gain of a small one. All lower ends hold together with 95 % confidence, and each
    interval holds with at least 95 %.
    """
    candidates = race.candidates
    families = sorted({_family(one) for one, ok in zip(candidates, allowed, strict=True) if ok})
    level = 1.0 - 0.1 / max(len(families), 2)
    return {
        family: best_of_gains(
            scores[allowed & _of_family(candidates, family)],
            scores[plain],
            level=level,
            mutual=race.mutual,
        )
        for family in families
    }


def _is_better(
    race: Race,
    family: Family,
    gain: tuple[float, float, float],
    allowed: Array,
    scores: Array,
    plain: int,
) -> bool:
    """Whether the gain of a family is shown by the evidence that it needs."""
    low = gain[1]
    if race.evidence == "one-sided" and family.prior:
        mine = allowed & _of_family(race.candidates, family)
        low = best_of_gains(scores[mine], scores[plain], level=_ONE_SIDED, mutual=race.mutual)[1]
    return low > _LEAST_GAIN


def _usual(candidates: list[Candidate], learned: Array) -> int | None:
    """The place of the default metric with a prior, whitening if it was tried."""
    for prior in ("whitening", "identity"):
        for place in np.flatnonzero(learned).tolist():
            params = candidates[place].params
            if (params.get("prior"), params.get("reg")) == (prior, PRIOR_REG):
                return int(place)
    return None


def _clearly_better(scores: Array, places: Array, usual: int) -> int:
    """The best of those that are significantly better than the usual one, or that one.

    Student's t test of one side with 97.5 % confidence; a single query shows nothing.
    """
    gaps = scores[places] - scores[usual]
    mean = paired(gaps)[0]
    gain = np.where(_t_interval(gaps)[0] > 0.0, mean, 0.0)
    return int(places[np.argmax(gain)]) if gain.any() else usual


def _t_interval(gaps: Array) -> Any:
    """The ends of Student's 95 % interval of the mean, by rows; infinite for a single number."""
    mean, error = paired(gaps)
    n = np.count_nonzero(~np.isnan(gaps), axis=-1)
    reach = np.where(n > 1, stdtrit(np.maximum(n - 1, 1), 0.975) * error, np.inf)
    return mean - reach, mean + reach


def _default_ridge(race: Race, which: Array, scores: Array, plain: int) -> int | None:
    """The place of `RidgeMetric` with default settings, if it is expected to gain; otherwise None.

    Few held-out rows can hardly show that a gain is significant. But ridge regression gains on most
    data, so its gain has a prior, Gaussian with mean and standard deviation ``_RIDGE_GAIN``. The
    mean of the posterior is positive where the gain on held-out rows is above −error² / prior. No
    more than the prior may be lost, however few rows there are.
    """
    for place in np.flatnonzero(which).tolist():
        gains = scores[place] - scores[plain]
        gain, error = (float(one) for one in paired(gains))
        error *= 2.0 if race.mutual else 1.0  # see `best_of_gains`
        enough = np.count_nonzero(~np.isnan(gains)) >= _FEWEST_QUERIES
        if enough and gain + min(error, _RIDGE_GAIN) ** 2 / _RIDGE_GAIN > 0.0:
            return int(place)
    return None


def drop_worse(guard: Race) -> None:
    """Drop candidates that later splits of the guard can hardly make allowed."""
    mean, error = _against_plain(guard)
    for candidate, lost in zip(guard.candidates[2:], -(mean + 2.0 * error)[2:], strict=True):
        candidate.dropped |= bool(lost > _MOST_LOST)


def _against_plain(guard: Race) -> tuple[Array, Array]:
    """Mean difference to the better plain distance, and its standard error, of each candidate."""
    scores = guard.scores()
    return paired(scores - scores[better_plain(scores)])


def still_worse(guard: Race) -> set[str]:
    """Keys of those that are clearly worse than the plain distance."""
    mean, error = _against_plain(guard)
    worse = (mean < -_MOST_LOST) | (mean + _MOST_ERRORS * error < 0.0)
    worse[:2] = False
    return {one.key for one, is_worse in zip(guard.candidates, worse, strict=True) if is_worse}


def on_guard(guard: Race, kept: Candidate) -> tuple[float, float] | None:
    """Scores of the choice and of the better plain distance on the splits of the guard.

    None if the choice was not scored there.
    """
    keys = [one.key for one in guard.candidates]
    if kept.key not in keys:
        return None
    scores = guard.scores()
    means = estimated_means(scores)
    return float(means[keys.index(kept.key)]), float(means[better_plain(scores)])


def _simplest(race: Race, scores: Array, means: Array, allowed: Array, best: int) -> int:
    """Of those that are not worse than the best by more than a standard error, the simplest."""
    candidates = race.candidates
    tables = [scores]
    if {"map", "knn"} <= candidates[best].also.keys():  # scoring="both"
        tables = [race.also("map"), race.also("knn")]
    near = allowed.copy()
    for table in tables:
        scored = allowed & ~np.isnan(table).all(axis=1)
        leader = np.argmax(np.where(scored, estimated_means(table), -np.inf))
        mean, error = paired(table - table[leader])
        near &= mean + error >= 0.0
    near[best] |= not near.any()
    places = np.flatnonzero(near).tolist()
    return min(places, key=lambda place: (_complexity(candidates[place]), -means[place]))


def _complexity(candidate: Candidate) -> tuple[bool, int, bool, float]:
    lifted, method, prior = _family(candidate)
    return lifted, _FAMILIES.index(method), not prior, candidate.width


def results(race: Race) -> dict[str, Any]:
    """The table of `GridSearchCV`."""
    candidates, scores = race.candidates, race.scores()
    means = estimated_means(scores)
    keys = sorted({key for one in candidates for key in one.params})
    n_splits = len(candidates[0].parts)
    by_split = np.array(
        [
            [known_mean(one.parts.get(split, np.full(1, np.nan))) for one in candidates]
            for split in range(n_splits)
        ]
    )
    return {
        "estimator": np.array([one.method for one in candidates]),
        "params": [one.params for one in candidates],
        **{
            f"param_{key}": np.ma.array(
                [one.params.get(key) for one in candidates],
                mask=[key not in one.params for one in candidates],
                dtype=object,
            )
            for key in keys
        },
        **{f"split{number}_test_score": row for number, row in enumerate(by_split)},
        "mean_test_score": means,
        "std_test_score": np.nanstd(by_split, axis=0),
        "rank_test_score": (means[None, :] > means[:, None]).sum(axis=1) + 1,
        "n_queries": (~np.isnan(scores)).sum(axis=1),
        "dropped": np.array([one.dropped for one in candidates]),
        "mean_fit_time": np.array([np.mean(one.fit_times) for one in candidates]),
        "mean_score_time": np.array([np.mean(one.score_times) for one in candidates]),
    }


def best_of_families(race: Race) -> list[dict[str, Any]]:
    """The best candidate of each family, with the 95 % interval of its mean score."""
    scores = race.scores()
    means = estimated_means(scores)
    best: dict[Family, int] = {}
    for place, one in enumerate(race.candidates):
        family = _family(one)
        if family not in best or means[place] > means[best[family]]:
            best[family] = place
    found = []
    for family, place in sorted(best.items(), key=lambda item: -means[item[1]]):
        shift = means[place] - known_mean(scores[place])  # it was scored on other queries
        low, high = (float(end + shift) for end in bootstrap_interval(scores[place]))
        found.append({"name": str(family), "score": float(means[place]), "low": low, "high": high})
    return found


def unusual(estimator: Any, params: dict[str, Any]) -> list[str]:
    """Parameters that differ from the defaults, as they are written in a call."""
    usual = type(estimator)().get_params()
    return [
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value!r}"
        for name, value in params.items()
        if name != "random_state" and repr(value) != repr(usual[name])
    ]
