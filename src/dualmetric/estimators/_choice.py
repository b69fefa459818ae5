"""The choice of `MetricCV` among the candidates of a race."""

from typing import Any

import numpy as np

from .._types import Array
from ..intervals import best_of_gains, bootstrap_interval
from ._race import Candidate, Race, better_plain, estimated_means, known_mean, paired

# On documents that were not judged, a metric may be worse than the plain distance by two points at
# most, and by three standard errors: chosen on scifact and stackfaq.
_MOST_LOST, _MOST_ERRORS = 0.02, 3.0
_FAMILIES = ("Euclidean", "Whitening", "RidgeMetric", "DuOri", "DuRP")  # the simplest first


def choose(
    race: Race,
    most_seconds: float = np.inf,
    max_components: int | None = None,
    n_features: int = 0,
) -> dict[str, Any]:
    """Compare the candidates over all splits; returns what becomes fitted attributes.

    Candidates whose fit took longer than ``most_seconds``, or that have more directions than
    ``max_components``, are left out. The plain distance is kept where no family is significantly
    better, if it has few enough features itself. Of those within one standard error of the
    best, the simplest is chosen: linear before lifted, whitening before ridge before DuRP, few
    directions before many.
    """
    candidates, scores = race.candidates, race.scores()
    means = estimated_means(scores)
    plain = np.array([one.method == "Euclidean" for one in candidates])
    best_plain = better_plain(scores)
    most = np.inf if max_components is None else max_components
    narrow = most < n_features  # then the plain distance is not allowed, however good it is
    allowed = ~plain & np.array([narrow or not one.dropped for one in candidates])
    allowed &= np.array([np.max(one.fit_times) <= most_seconds for one in candidates])
    if narrow:
        allowed &= np.array([_width(one) <= most for one in candidates])
        if not allowed.any():
            raise ValueError(
                f"no metric of at most max_components={max_components} directions was tried in "
                "time: increase max_components or time_limit"
            )
    place, gain, expected = best_plain, (np.nan, np.nan), float(means[best_plain])
    gains = _gains(race, allowed, scores, best_plain)
    if gains:
        better = [
            family
            for family, (mean, low, _) in gains.items()
            if (mean if race.by_mean else low) > 0.0 or narrow
        ]
        if better:
            allowed &= np.array([_family(one) in better for one in candidates])
            best = int(np.argmax(np.where(allowed, means, -np.inf)))
            place = best if race.by_mean else _simplest(race, scores, means, allowed, best)
            family = _family(candidates[place])
            champion = max(means[allowed & _of_family(candidates, family)])
            expected += gains[family][0] - (champion - means[place])
        else:
            family = max(gains, key=lambda family: gains[family][1])
        gain = gains[family][1:]
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


def _family(candidate: Candidate) -> tuple[bool, str]:
    """Whether it is lifted, and the estimator."""
    return candidate.params.get("lift") is not None, candidate.method


def _of_family(candidates: list[Candidate], family: tuple[bool, str]) -> Array:
    return np.array([_family(one) == family for one in candidates])


def _gains(
    race: Race, allowed: Array, scores: Array, plain: int
) -> dict[tuple[bool, str], tuple[float, float, float]]:
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


def drop_worse(guard: Race) -> None:
    """Drop candidates that later splits of the guard can hardly make allowed."""
    mean, error = _against_plain(guard)
    for candidate, lost in zip(guard.candidates[2:], -(mean + 2.0 * error)[2:], strict=True):
        candidate.dropped |= bool(lost > _MOST_LOST)


def _against_plain(guard: Race) -> tuple[Array, Array]:
    """Mean difference to the better plain distance, and its standard error, of each candidate."""
    scores = guard.scores()
    return paired(scores - scores[better_plain(scores)])


def not_worse(guard: Race) -> list[Candidate]:
    """Candidates that are not clearly worse than the plain distance."""
    mean, error = _against_plain(guard)
    allowed = (mean >= -_MOST_LOST) & (mean + _MOST_ERRORS * error >= 0.0)
    allowed[:2] = True
    return [one for one, ok in zip(guard.candidates, allowed, strict=True) if ok]


def on_guard(guard: Race, kept: Candidate) -> tuple[float, float]:
    """Scores of the choice and of the better plain distance on the splits of the guard."""
    means = dict(
        zip((one.key for one in guard.candidates), estimated_means(guard.scores()), strict=True)
    )
    plain = max(means[one.key] for one in guard.candidates[:2])
    return float(means[kept.key]), float(plain)


def _simplest(race: Race, scores: Array, means: Array, allowed: Array, best: int) -> int:
    """Of those that are not worse than the best by more than a standard error, the simplest."""
    candidates = race.candidates
    tables = [scores]
    if {"map", "knn"} <= candidates[best].also.keys():  # scoring="both"
        tables = [race.also("map"), race.also("knn")]
    near = allowed.copy()
    for table in tables:
        leader = np.argmax(np.where(allowed, np.nan_to_num(known_mean(table)), -np.inf))
        mean, error = paired(table - table[leader])
        near &= mean + error >= 0.0
    near[best] |= not near.any()
    places = np.flatnonzero(near).tolist()
    return min(places, key=lambda place: (_complexity(candidates[place]), -means[place]))


def _width(candidate: Candidate) -> float:
    """Directions of the metric; infinity where it has as many as features."""
    rank = candidate.params.get("n_components")
    return np.inf if rank is None or "prior" in candidate.params else float(rank)


def _complexity(candidate: Candidate) -> tuple[bool, int, float]:
    lifted, method = _family(candidate)
    return lifted, _FAMILIES.index(method), _width(candidate)


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
    best: dict[tuple[bool, str], int] = {}
    for place, one in enumerate(race.candidates):
        family = _family(one)
        if family not in best or means[place] > means[best[family]]:
            best[family] = place
    found = []
    for (lifted, method), place in sorted(best.items(), key=lambda item: -means[item[1]]):
        shift = means[place] - known_mean(scores[place])  # it was scored on other queries
        low, high = (float(end + shift) for end in bootstrap_interval(scores[place]))
        name = f"{method}, lifted" if lifted else method
        found.append({"name": name, "score": float(means[place]), "low": low, "high": high})
    return found


def unusual(estimator: Any, params: dict[str, Any]) -> list[str]:
    """Parameters that differ from the defaults, as they are written in a call."""
    usual = type(estimator)().get_params()
    return [
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value!r}"
        for name, value in params.items()
        if name != "random_state" and repr(value) != repr(usual[name])
    ]
