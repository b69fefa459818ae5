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
HEADINGS = {"map": "mAP %", "knn": "5-NN %", "recall": "recall@10 %"}
_PURPOSES = {"knn": "for k-NN classification", "recall": "in recall@10"}

_OTHER_SETTINGS = ", or try other settings, such as --shrinkage 0.3 or --distance cosine"
# for the methods that have no such settings
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


def score_table(numbers: dict[str, Any]) -> Table:
    """The scores of each distance, one line each; the best of each column in bold."""
    table = Table("distance")
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right")
    best = {key: max(values[key] for values in numbers.values()) for key in HEADINGS}
    for name, values in numbers.items():
        cells = []
        for key in HEADINGS:
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
    """Whether the learned distance ranks better, by mAP, than both plain ones."""
    return numbers["learned"]["map"] > numbers[_rival(numbers, "map")]["map"]


def _rival(numbers: Numbers, key: str) -> str:
    """The plain distance with the better score."""
    return max(("euclidean", "cosine"), key=lambda name: numbers[name][key])


def verdict(numbers: Numbers, method: object = None) -> str:
    """Whether learning was worth it, in words; ``method`` is the name of the estimator."""
    rival = _rival(numbers, "map")
    learned, plain = (f"{100 * numbers[name]['map']:.1f} %" for name in ("learned", rival))
    if not is_better(numbers):
        advice = _OTHERWISE.get(str(method), _OTHER_SETTINGS)
        return (
            f"The learned distance is not better than {NAMES[rival]} on these rows (mAP {learned}, "
            f"compared with {plain}): use {NAMES[rival]}{advice}."
        )
    said = f"The learned distance ranks better than {NAMES[rival]}: mAP {learned}, not {plain}."
    losses = []
    for key, purpose in _PURPOSES.items():  # scores that got worse, as they are shown
        rival = _rival(numbers, key)
        ours, theirs = (round(100 * numbers[name][key], 1) for name in ("learned", rival))
        if ours < theirs:
            losses.append(f"{NAMES[rival]} is better {purpose}: {theirs:.1f} %, not {ours:.1f} %")
    return f"{said} But {', and '.join(losses)}." if losses else said
