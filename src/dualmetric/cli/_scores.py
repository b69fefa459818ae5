"""Metrics and their scores in tables, in words and in JSON."""

from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from .._types import Array
from ..intervals import bootstrap_interval, paired_interval
from ..metric import Metric
from ..side_by_side import Scores

NAMES = {
    "euclidean": "plain Euclidean distance",
    "cosine": "plain cosine distance",
    "learned": "learned distance",
}
HEADINGS = {
    "map": "mAP %",
    "precision_at_1": "P@1 %",
    "precision_at_10": "P@10 %",
    "knn": "5-NN %",
    "hit_rate": "hit rate@10 %",  # of labels, in JSON only: P@10 says more
}
# the same for judged documents and for pairs: what comes first decides
JUDGED = {
    "ndcg": "nDCG@10 %",
    "map": "mAP %",
    "recall": "recall@10 %",
    "precision": "precision@10 %",
    "hit_rate": "hit rate@10 %",
    "reciprocal_rank": "reciprocal rank %",
}
TAR = {"1e-2": 0.01, "1e-3": 0.001, "1e-4": 0.0001}  # false accept rates
PAIRS = {"average_precision": "Average precision %"} | {
    f"tar_at_far_{name}": f"recall at {100 * rate:g} % FPR, %" for name, rate in TAR.items()
}
ALL_HEADINGS = {**HEADINGS, **JUDGED, **PAIRS}

_OTHER_SETTINGS = ", or try other settings, such as --shrinkage 0.3 or --distance cosine"
# for the methods that have no such settings
_OTHER_METHODS = ", or try other settings, such as --method auto or --prior identity"
_OTHERWISE = dict.fromkeys(("OASIS", "LMNN"), ", or try --method auto") | {"Euclidean": ""}

Numbers = dict[str, dict[str, float]]


def _per_query(found: Scores, y: Array) -> dict[str, Array]:
    """Each score of each row; NaN where a row is the only one of its class."""
    alone = np.isnan(found.average_precision)
    same = (y[found.neighbors] == y[:, None]).astype(np.float64)
    same[alone] = np.nan
    return {
        "map": found.average_precision,
        "precision_at_1": same[:, 0],
        "precision_at_10": same[:, :10].mean(axis=1),
        "knn": found.knn_correct.astype(np.float64),
        "hit_rate": np.where(alone, np.nan, found.hits),
    }


def as_numbers(scores: dict[str, Scores], y: Array) -> Numbers:
    """Means of the scores of rows with labels y, as a metric file holds them."""
    return {
        name: {key: float(np.nanmean(values)) for key, values in _per_query(found, y).items()}
        for name, found in scores.items()
    }


def with_intervals(scores: dict[str, Scores], y: Array) -> dict[str, Any]:
    """The same, with the 95 % confidence interval of each."""
    result: dict[str, Any] = as_numbers(scores, y)
    for name, found in scores.items():
        for key, values in _per_query(found, y).items():
            result[name][f"{key}_interval"] = list(bootstrap_interval(values))
    return result


def gains_of(scores: dict[str, Scores], y: Array) -> dict[str, Any]:
    """How much larger each learned score is than that of each plain distance, with intervals."""
    return paired_gains({name: _per_query(found, y) for name, found in scores.items()})


def paired_gains(each: dict[str, dict[str, Array]]) -> dict[str, Any]:
    """The same, from the scores of each row or query."""
    gains: dict[str, Any] = {"euclidean": {}, "cosine": {}}
    for name, gain in gains.items():
        for key, ours in each["learned"].items():
            gain[key] = float(np.nanmean(ours) - np.nanmean(each[name][key]))
            gain[f"{key}_interval"] = list(paired_interval(ours, each[name][key]))
    return gains


def as_kept(scores: dict[str, Any]) -> Numbers:
    """The same without intervals, as a metric file holds them."""
    return {
        name: {key: value for key, value in values.items() if key in ALL_HEADINGS}
        for name, values in scores.items()
    }


def score_table(numbers: dict[str, Any], kept: str | None = None) -> Table:
    """The scores of each distance, one line each; the best of each column in bold.

    ``kept`` is the name of the metric if it is a plain distance.
    """
    table = Table("distance")
    keys = _keys(numbers)
    for key in keys:
        table.add_column(ALL_HEADINGS[key], justify="right")
    best = {key: max(values[key] for values in numbers.values()) for key in keys}
    for name, values in numbers.items():
        cells = []
        for key in keys:
            shown = f"{100 * values[key]:.1f}"
            if interval := values.get(f"{key}_interval"):
                shown += f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})"
            cells.append(Text(shown, style="bold" if values[key] == best[key] else ""))
        shown = NAMES[name].removesuffix(" distance")
        table.add_row(kept if kept and name == "learned" else shown, *cells)
    return table


def plain_name(metric: Metric) -> str:
    """Name of a metric that is a plain distance, by what it does to the rows first."""
    first = metric.first
    steps = {"tf-idf": first.idf, "standardized": first.blocks, "centred": metric.centre}
    done = [name for name, step in steps.items() if step is not None]
    names = [NAMES[plain_kind(metric)].removesuffix(" distance"), *done]
    return f"{', '.join(names)} (saved)"


def plain_kind(metric: Metric) -> str:
    """The plain distance that a metric is compared with: "cosine" if it scales rows anywhere."""
    return "cosine" if "cosine" in (metric.kind, metric.first.kind) else "euclidean"


def form_of(metric: Metric) -> dict[str, Any]:
    """Size and steps of a metric, for JSON."""
    lift = metric.first.lift
    return {
        "distance": plain_kind(metric),
        "tfidf": metric.first.idf is not None,
        "landmarks": None if lift is None else len(lift.landmarks),
        "rank": metric.rank,
        "n_features": metric.n_features,
    }


def rank_in_words(result: dict[str, Any]) -> str:
    """The rank and its upper limit: the number of features, or of the landmarks of a lift."""
    if result["landmarks"] is not None:
        return f"{result['rank']:,} over {result['landmarks']:,} landmarks"
    return f"{result['rank']:,} of {result['n_features']:,} features"


def is_better(numbers: Numbers) -> bool:
    """Whether the learned distance is better than both plain ones, by the first score."""
    key = _keys(numbers)[0]
    return numbers["learned"][key] > numbers[_rival(numbers, key)][key]


def _keys(numbers: Numbers) -> list[str]:
    """Names of the scores that are shown, the one that decides first."""
    found = next(iter(numbers.values()))
    left_out = "hit_rate" if "precision_at_10" in found else None
    return [key for key in found if key in ALL_HEADINGS and key != left_out]


def _rival(numbers: Numbers, key: str) -> str:
    """The plain distance with the better score."""
    return max(("euclidean", "cosine"), key=lambda name: numbers[name][key])


def verdict(numbers: Numbers, gain: dict[str, Any], method: object = None) -> str:
    """Whether learning was worth it, in words.

    ``gain`` has the intervals of the gains by plain distance; ``method`` is the name of the
    estimator. Scores that got significantly worse are named.
    """
    first, *others = _keys(numbers)
    names = {key: ALL_HEADINGS[key].removesuffix(" %").rstrip(",") for key in (first, *others)}
    rival = _rival(numbers, first)
    plain = f"the {NAMES[rival]}"
    ours, theirs = (f"{100 * numbers[name][first]:.1f} %" for name in ("learned", rival))
    low, high = gain[rival][f"{first}_interval"]
    interval = f"95 % interval of the gain: {100 * low:.1f} to {100 * high:.1f} points"
    if not is_better(numbers):
        advice = _OTHERWISE.get(str(method), _OTHER_SETTINGS)
        if first != "map" and method != "Euclidean":
            advice = _OTHER_METHODS
        compared = "the same as" if ours == theirs else f"down from {theirs}"
        return f"{names[first]} {ours}, {compared} with {plain}: use {plain}{advice}."
    said = f"{names[first]} {ours}, up from {theirs} with {plain} ({interval})."
    if not low > 0:
        said = (
            f"{names[first]} {ours}, and {theirs} with {plain}: the difference may be due to "
            f"chance ({interval}). Score on more data, or keep {plain}."
        )
    losses = []
    for key in others:
        rival = _rival(numbers, key)
        ours, theirs = (f"{100 * numbers[name][key]:.1f}" for name in ("learned", rival))
        if gain[rival][f"{key}_interval"][1] < 0.0:
            losses.append(f"{names[key]} {ours} %, down from {theirs} % with the {NAMES[rival]}")
    return f"{said} But {'; '.join(losses)}." if losses else said
