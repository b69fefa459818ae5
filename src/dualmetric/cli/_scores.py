"""Scores in a table, in words and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from ..comparison import Scores

NAMES = {
    "euclidean": "plain Euclidean distance",
    "cosine": "plain cosine distance",
    "learned": "learned distance",
}
_HEADINGS = {"map": "mAP %", "knn": "5-NN %", "recall": "recall@10 %"}
_PURPOSES = {"knn": "for k-NN classification", "recall": "in recall@10"}

_OTHER_SETTINGS = ", or try other settings, such as --shrinkage 0.3 or --distance cosine"
# of the methods that have no such settings
_OTHERWISE = dict.fromkeys(("OASIS", "LMNN"), ", or try --method auto") | {"Euclidean": ""}

Numbers = dict[str, dict[str, float]]


def as_numbers(scores: dict[str, Scores]) -> Numbers:
    """Means of the scores, as they are kept in a metric file."""
    return {
        name: {"map": found.map, "knn": found.knn, "recall": found.recall}
        for name, found in scores.items()
    }


def with_intervals(scores: dict[str, Scores]) -> dict[str, Any]:
    """Means of the scores with their 95 % confidence intervals."""
    import numpy as np

    from ..comparison import bootstrap_interval

    result = {}
    for name, found in scores.items():
        recalled = np.where(np.isnan(found.average_precision), np.nan, found.recalled)
        values = {"map": found.average_precision, "knn": found.knn_correct, "recall": recalled}
        result[name] = {
            **as_numbers({name: found})[name],
            **{f"{key}_interval": list(bootstrap_interval(value)) for key, value in values.items()},
        }
    return result


def score_table(numbers: dict[str, Any]) -> Table:
    """The scores of each distance, a line each; the best of each column in bold."""
    from rich.table import Table
    from rich.text import Text

    table = Table("distance")
    for heading in _HEADINGS.values():
        table.add_column(heading, justify="right")
    best = {key: max(values[key] for values in numbers.values()) for key in _HEADINGS}
    for name, values in numbers.items():
        cells = []
        for key in _HEADINGS:
            shown = f"{100 * values[key]:.1f}"
            if interval := values.get(f"{key}_interval"):
                shown += f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})"
            cells.append(Text(shown, style="bold" if values[key] == best[key] else ""))
        table.add_row(NAMES[name].removesuffix(" distance"), *cells)
    return table


def rank_in_words(result: dict[str, Any]) -> str:
    """The rank beside what it is at most: the features, or the landmarks of a lift."""
    if result["landmarks"] is not None:
        return f"{result['rank']:,} over {result['landmarks']:,} landmarks"
    return f"{result['rank']:,} of {result['n_features']:,} features"


def is_better(numbers: Numbers) -> bool:
    """Whether the learned distance ranks better, by mAP, than both plain ones."""
    return numbers["learned"]["map"] > max(numbers[name]["map"] for name in ("euclidean", "cosine"))


def verdict(numbers: Numbers, method: object = None) -> str:
    """Whether learning was worth it, in plain words; ``method`` is the name of the estimator."""
    rival = max(("euclidean", "cosine"), key=lambda name: numbers[name]["map"])
    learned, plain = (f"{100 * numbers[name]['map']:.1f} %" for name in ("learned", rival))
    if is_better(numbers):
        said = f"The learned distance ranks better than {NAMES[rival]}: mAP {learned}, not {plain}."
        losses = [_loss(numbers, key) for key in _PURPOSES]
        but = ", and ".join(loss for loss in losses if loss)
        return f"{said} But {but}." if but else said
    return (
        f"The learned distance is not better than {NAMES[rival]} on these rows (mAP {learned}, "
        f"against {plain}): use {NAMES[rival]}{_OTHERWISE.get(str(method), _OTHER_SETTINGS)}."
    )


def _loss(numbers: Numbers, key: str) -> str | None:
    """What is said where ranking got better and another score, as it is shown, did not."""
    rival = max(("euclidean", "cosine"), key=lambda name: numbers[name][key])
    learned, plain = (round(100 * numbers[name][key], 1) for name in ("learned", rival))
    if learned >= plain:
        return None
    return f"{NAMES[rival]} is better {_PURPOSES[key]}: {plain:.1f} %, not {learned:.1f} %"
