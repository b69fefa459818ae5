"""The result of a comparison: what changed from the plain to the learned distance."""

from collections.abc import Mapping, Sequence

import numpy as np

from .._types import Array
from ..intervals import bootstrap_interval, paired_interval
from . import _charts
from ._material import DISTANCES

PerQuery = Mapping[str, Sequence[Array]]  # by distance: the values of each measure, per query


def result(values: PerQuery, before: str, measures: Mapping[str, str]) -> dict[str, str]:
    """The verdict, a card for each measure, and the lines of the table of all distances.

    ``measures`` has the name and the meaning of each measure; the first decides. ``before`` is the
    better plain distance by the first measure.
    """
    cards = []
    worse = []
    for place, (name, meaning) in enumerate(measures.items()):
        b, a = values[before][place], values["learned"][place]
        low, high = paired_interval(a, b)
        state, words = _judged(low, high)
        if state == "worse":
            worse.append(name)
        cards.append(
            f'<article class="card score {state}"><h3>{name}</h3>'
            f'<p class="change"><span class="was">{percent(b)}</span>'
            f'<span class="arrow" aria-label="becomes">→</span><strong>{percent(a)}</strong></p>'
            f'<p class="verdict"><span class="sign" aria-hidden="true"></span>'
            f"{points(float(np.nanmean(a) - np.nanmean(b)))} points</p><p>{words}</p>"
            f'<p class="note">95 % interval of the difference: {points(low)} to {points(high)}.'
            f'</p><p class="note">{meaning}</p></article>'
        )
    lines = (_score_line(name, found, before) for name, found in values.items())
    return {
        "headline": _headline(values, before, next(iter(measures)), worse),
        "cards": "".join(cards),
        "score_lines": "".join(lines),
    }


def at_k(
    measure: str, y_label: str, ks: list[int], before: Array, after: Array, plain: str
) -> tuple[str, str]:
    """A measure over k before and after, as a chart and as lines of a table.

    ``before`` and ``after`` hold one row per k and one column per query.
    """
    name = DISTANCES[plain].capitalize()
    drawn = [
        (style, name, np.nanmean(values, axis=1), np.array([*map(bootstrap_interval, values)]))
        for style, name, values in (("before", name, before), ("after", "Learned", after))
    ]
    lines = []
    for k, b, a in zip(ks, before, after, strict=True):
        low, high = paired_interval(a, b)
        change = points(float(np.nanmean(a) - np.nanmean(b)))
        lines.append(
            f'<tr><th scope="row">{k}</th><td class="number">{percent(b)}</td>'
            f'<td class="number">{percent(a)}</td><td class="number">{change}'
            f"<small>{points(low)} to {points(high)}</small></td></tr>"
        )
    return _charts.at_k(measure, y_label, ks, drawn), "".join(lines)


def percent(values: Array) -> str:
    """The mean of shares as a percentage."""
    return f"{100 * np.nanmean(values):.1f}\u00a0%"


def points(difference: float) -> str:
    """A difference of percentages, with its sign."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def _judged(low: float, high: float) -> tuple[str, str]:
    """Name of the state and words for the interval of a difference."""
    if low > 0:
        return "better", "Significantly better"
    if high < 0:
        return "worse", "Significantly worse"
    return "even", "No significant difference"


def _headline(values: PerQuery, before: str, measure: str, worse: list[str]) -> str:
    """The verdict by the first measure, and which other measures got worse."""
    plain = DISTANCES[before]
    b, a = values[before][0], values["learned"][0]
    low, high = paired_interval(a, b)
    state, _ = _judged(low, high)
    text = {
        "better": f"The learned distance ranks better than the plain {plain} distance.",
        "worse": f"The learned distance ranks worse than the plain {plain} distance: "
        "keep the plain one.",
        "even": f"The learned distance does not rank clearly better than the plain {plain} "
        "distance: there is little reason to use it.",
    }[state]
    if state != "worse" and worse:
        names = " and ".join(name[0].lower() + name[1:] for name in worse)
        text += f" But its {names} {'is' if len(worse) == 1 else 'are'} worse."
    verb = {"better": "rises", "worse": "falls", "even": "goes"}[state]
    choice = f"“Before” is the plain {plain} distance"
    if np.nanmean(values["euclidean"][0]) == np.nanmean(values["cosine"][0]):
        choice += ": on these rows the cosine ranks no better."
    else:
        choice += ", which by this measure is the better of the two plain ones."
    change = points(float(np.nanmean(a) - np.nanmean(b)))
    return (
        f'<p class="headline {state}">{text}</p><p class="lead">{measure} {verb} from '
        f"{percent(b)} to {percent(a)}: a difference of {change} points (95 % interval "
        f"{points(low)} to {points(high)}). {choice}</p>"
    )


def _score_line(name: str, values: Sequence[Array], before: str) -> str:
    cells = ""
    for found in values:
        low, high = bootstrap_interval(found)
        interval = f"<small>{100 * low:.1f} to {100 * high:.1f}</small>"
        cells += f'<td class="number">{percent(found)}{interval}</td>'
    tags = {before: ' <span class="tag">before</span>'}
    tags["learned"] = ' <span class="tag strong">after</span>'
    heading = DISTANCES[name].capitalize() + tags.get(name, "")
    return f'<tr><th scope="row">{heading}</th>{cells}</tr>'
