"""Metrics and their scores in tables, in words and in JSON."""

from typing import Any

from rich.table import Table
from rich.text import Text

from ..intervals import bootstrap_interval
from ..metric import Metric
from ..report._sections import per_query
from ..side_by_side import Scores

NAMES = {
    "euclidean": "plain Euclidean distance",
    "cosine": "plain cosine distance",
    "learned": "learned distance",
}
HEADINGS = {"map": "mAP %", "knn": "5-NN %", "hit_rate": "hit rate@10 %"}
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
PAIRS = {"average_precision": "average precision %"} | {
    f"tar_at_far_{name}": f"TAR at FAR {100 * rate:g} %" for name, rate in TAR.items()
}
ALL_HEADINGS = {**HEADINGS, **JUDGED, **PAIRS}
_PURPOSES = {"knn": "for k-NN classification"}

_OTHER_SETTINGS = ", or try other settings, such as --shrinkage 0.3 or --distance cosine"
# for the methods that have no such settings
_OTHER_METHODS = ", or try --method auto, or --prior identity with durp or duori"
_OTHERWISE = dict.fromkeys(("OASIS", "LMNN"), ", or try --method auto") | {"Euclidean": ""}

Numbers = dict[str, dict[str, float]]


def as_numbers(scores: dict[str, Scores]) -> Numbers:
    """Means of the scores, as a metric file holds them."""
    return {name: {key: getattr(s, key) for key in HEADINGS} for name, s in scores.items()}


def with_intervals(scores: dict[str, Scores]) -> dict[str, Any]:
    """Means of the scores with their 95 % confidence intervals."""
    result: dict[str, Any] = as_numbers(scores)
    for name, found in scores.items():
        for key, values in zip(HEADINGS, per_query(found), strict=True):
            result[name][f"{key}_interval"] = list(bootstrap_interval(values))
    return result


def as_kept(scores: dict[str, Any]) -> Numbers:
    """The same without intervals, as a metric file holds them."""
    return {
        name: {key: value for key, value in values.items() if key in ALL_HEADINGS}
        for name, values in scores.items()
    }


def score_table(numbers: dict[str, Any]) -> Table:
    """The scores of each distance, one line each; the best of each column in bold."""
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
        table.add_row(NAMES[name].removesuffix(" distance"), *cells)
    return table


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
    """Names of the scores, the one that decides first."""
    return [key for key in next(iter(numbers.values())) if key in ALL_HEADINGS]


def _rival(numbers: Numbers, key: str) -> str:
    """The plain distance with the better score."""
    return max(("euclidean", "cosine"), key=lambda name: numbers[name][key])


def verdict(numbers: Numbers, method: object = None) -> str:
    """Whether learning was worth it, in words; ``method`` is the name of the estimator."""
    first, *others = _keys(numbers)
    names = {key: ALL_HEADINGS[key].removesuffix(" %") for key in (first, *others)}
    rival = _rival(numbers, first)
    learned, plain = (f"{100 * numbers[name][first]:.1f} %" for name in ("learned", rival))
    if not is_better(numbers):
        advice = _OTHERWISE.get(str(method), _OTHER_SETTINGS)
        if first != "map":
            advice = _OTHER_METHODS
        return (
            f"The learned distance is not better than {NAMES[rival]} on these rows ({names[first]} "
            f"{learned}, compared with {plain}): use {NAMES[rival]}{advice}."
        )
    said = (
        f"The learned distance ranks better than {NAMES[rival]}: {names[first]} {learned}, not "
        f"{plain}."
    )
    losses = []
    for key in others:  # scores that got worse, as they are shown
        rival, purpose = _rival(numbers, key), _PURPOSES.get(key, f"in {names[key]}")
        ours, theirs = (round(100 * numbers[name][key], 1) for name in ("learned", rival))
        if ours < theirs:
            losses.append(f"{NAMES[rival]} is better {purpose}: {theirs:.1f} %, not {ours:.1f} %")
    return f"{said} But {', and '.join(losses)}." if losses else said
