"""The written parts of the page: what came out, class by class, and how it was made."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from .._types import Array
from ..comparison import RECALLS, Scores, bootstrap_interval, paired_interval
from ..metric import Metric
from . import _charts
from ._material import DISTANCES, Material, clean

N_DIRECTIONS = 6
"""Leading directions whose features are named."""

N_BARS = 100
"""Directions whose share is drawn."""


@dataclass(frozen=True)
class Measure:
    """One of the scores: its names, and its value for each query."""

    name: str
    meaning: str
    values: Callable[[Scores], Array]


MEASURES = (
    Measure(
        "Mean average precision",
        "How early rows of the same class come when all rows are ranked",
        lambda scores: scores.average_precision,
    ),
    Measure(
        "5-NN accuracy",
        "How often the five nearest rows vote for the right class",
        lambda scores: scores.knn_correct.astype(np.float64),
    ),
    Measure(
        "Recall@10",
        "How often a row of the same class is among the ten nearest",
        lambda scores: np.where(np.isnan(scores.average_precision), np.nan, scores.recalled),
    ),
)


def _mean(values: Array) -> float:
    return float(np.nanmean(values))


def percent(share: float) -> str:
    """A share as a percentage, with one digit after the point."""
    return "–" if np.isnan(share) else f"{100 * share:.1f}\u00a0%"


def points(difference: float) -> str:
    """A difference of percentages, with its sign."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def result(material: Material) -> str:
    """The verdict, a card for each measure, and the table of all distances."""
    before, after = material.scores[material.before], material.scores["learned"]
    cards = []
    worse = []
    for measure in MEASURES:
        a, b = measure.values(after), measure.values(before)
        difference = _mean(a) - _mean(b)
        low, high = paired_interval(a, b)
        state, words = _judged(low, high)
        if state == "worse":
            worse.append(measure.name)
        cards.append(
            f'<article class="card score {state}"><h3>{measure.name}</h3>'
            f'<p class="change"><span class="was">{percent(_mean(b))}</span>'
            f'<span class="arrow" aria-label="becomes">→</span>'
            f"<strong>{percent(_mean(a))}</strong></p>"
            f'<p class="verdict"><span class="sign" aria-hidden="true"></span>'
            f"{points(difference)} points</p>"
            f"<p>{words}</p>"
            f'<p class="note">95 % interval of the difference: {points(low)} to {points(high)}.'
            f'</p><p class="note">{measure.meaning}</p></article>'
        )
    return (
        f'{_headline(material, worse)}<div class="cards">{"".join(cards)}</div>'
        f'<div class="card">{_score_table(material)}</div>'
    )


def _judged(low: float, high: float) -> tuple[str, str]:
    """Name of the state and words for the interval of a difference."""
    if low > 0:
        return "better", "Better, by more than chance"
    if high < 0:
        return "worse", "Worse, by more than chance"
    return "even", "No clear difference: it may be chance"


def _headline(material: Material, worse: list[str]) -> str:
    """The verdict by mean average precision, and which other measures speak against it."""
    plain = DISTANCES[material.before]
    before, after = material.scores[material.before], material.scores["learned"]
    low, high = paired_interval(after.average_precision, before.average_precision)
    state, _ = _judged(low, high)
    text = {
        "better": f"The learned distance ranks better than the plain {plain} distance.",
        "worse": f"The learned distance ranks worse than the plain {plain} distance: "
        "better keep the plain one.",
        "even": f"The learned distance does not rank clearly better than the plain {plain} "
        "distance: there is little reason to use it.",
    }[state]
    if state != "worse" and worse:
        text += f" But it is worse by {' and '.join(worse)}."
    verb = {"better": "rises", "worse": "falls", "even": "goes"}[state]
    choice = f"“Before” is the plain {plain} distance"
    if before.map == material.scores[_other_plain(material)].map:
        choice += ": on these rows the cosine ranks no better."
    else:
        choice += ", which by this measure is the better of the two plain ones."
    return (
        f'<p class="headline {state}">{text}</p><p class="lead">Mean average precision {verb} from '
        f"{percent(before.map)} to {percent(after.map)}: a difference of "
        f"{points(after.map - before.map)} points (95 % interval {points(low)} to "
        f"{points(high)}). {choice}</p>"
    )


def _other_plain(material: Material) -> str:
    return "cosine" if material.before == "euclidean" else "euclidean"


def _score_table(material: Material) -> str:
    head = "".join(f'<th scope="col" class="number">{m.name}</th>' for m in MEASURES)
    lines = []
    for name, scores in material.scores.items():
        cells = []
        for measure in MEASURES:
            values = measure.values(scores)
            low, high = bootstrap_interval(values)
            cells.append(
                f'<td class="number">{percent(_mean(values))}'
                f"<small>{100 * low:.1f} to {100 * high:.1f}</small></td>"
            )
        mark = ' <span class="tag">before</span>' if name == material.before else ""
        mark = ' <span class="tag strong">after</span>' if name == "learned" else mark
        lines.append(
            f'<tr><th scope="row">{DISTANCES[name].capitalize()}{mark}</th>{"".join(cells)}</tr>'
        )
    return (
        '<table class="scores"><caption>All distances on the same rows, with 95 % intervals'
        f'</caption><thead><tr><th scope="col">Distance</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def curves(material: Material) -> str:
    """Precision over recall; plain distances that rank alike share a curve."""
    other = _other_plain(material)
    listed = [
        ("before", DISTANCES[material.before].capitalize(), material.scores[material.before].curve),
        ("after", "Learned", material.scores["learned"].curve),
    ]
    if np.abs(material.scores[other].curve - listed[0][2]).max() < 5e-4:
        listed[0] = ("before", "Euclidean and cosine", listed[0][2])
    else:
        listed.insert(0, ("other", DISTANCES[other].capitalize(), material.scores[other].curve))
    legend = "".join(
        f'<li><span class="swatch {style}" aria-hidden="true"></span>{name}</li>'
        for style, name, _ in reversed(listed)
    )
    return (
        f'<h3>Precision at each recall</h3><ul class="legend">{legend}</ul>'
        f"{_charts.precision_recall(RECALLS, listed)}"
        '<p class="note">As more of the class is to be found, how many of the rows so far are '
        "right? Averaged over all queries; higher is better.</p>"
    )


def spectrum(material: Material, name_of: Callable[[int], str], *, with_names: bool) -> str:
    """How the metric is spread over directions, and what the first of them look at."""
    found = leading_directions(material.metric)
    if found is None:
        return (
            "<h3>Spectrum of the metric</h3><p>This metric is the identity: every feature counts "
            "alike, and no direction is preferred.</p>"
        )
    shares, directions = found
    if not shares.any():
        return (
            "<h3>Spectrum of the metric</h3><p>This metric is zero: all rows are equal to it.</p>"
        )
    where = "" if directions is not None else ", in the space of the kernel"
    effective = 1 / float(np.square(shares).sum())
    half = int(np.searchsorted(np.cumsum(shares), 0.5) + 1)
    cut = f" The first {N_BARS} are shown." if len(shares) > N_BARS else ""
    text = (
        f'<h3>Spectrum of the metric</h3><p class="legend">{_count(len(shares), "direction")}; '
        f"half of the metric in the first {half}</p>{_charts.spectrum(shares[:N_BARS])}"
        f'<p class="note">Each bar is an eigenvalue of the metric{where}, as a share of their '
        f"sum. It weighs about as {effective:.1f} equal directions would.{cut}</p>"
    )
    if with_names and directions is not None:
        lines = "".join(
            f"<li>{_ends(column, name_of)}</li>" for column in directions[:, :N_DIRECTIONS].T
        )
        text += (
            "<details><summary>What the strongest directions look at</summary>"
            f'<p class="note">Features that pull rows to either end of a direction.</p>'
            f'<ol class="directions">{lines}</ol></details>'
        )
    return text


def leading_directions(metric: Metric) -> tuple[Array, Array | None] | None:
    """Eigenvalues of M = LLᵀ as shares of their sum, and L turned to its leading directions.

    With a lift, they are the eigenvalues in the space of the kernel, those of LᵀKL, and there are
    no directions over features.
    """
    if metric.factor is None:
        return None
    wide = metric.factor.astype(np.float64)
    wide /= np.abs(wide).max() or 1.0
    lift = metric.lift
    images = wide if lift is None else lift.apply(lift.landmarks.astype(np.float64), wide)
    values, rotation = np.linalg.eigh(wide.T @ images)
    values = np.maximum(values[::-1], 0.0)
    directions = wide @ rotation[:, ::-1][:, :N_DIRECTIONS] if lift is None else None
    return values / (values.sum() or 1.0), directions


def _ends(column: Array, name_of: Callable[[int], str], top: int = 5) -> str:
    order = np.argsort(-np.abs(column), kind="stable")[: 4 * top]
    order = order[column[order] != 0]
    ends = [
        ", ".join(escape(clean(name_of(f))) for f in order[sign * column[order] > 0][:top])
        for sign in (1, -1)
    ]
    return ' <span class="versus">against</span> '.join(end for end in ends if end) or "nothing"


def class_table(material: Material) -> str:
    """Mean average precision of each class, those that changed most first."""
    n_classes = len(material.class_names)
    counts = np.bincount(material.codes, minlength=n_classes)
    before = _class_means(material, material.before)
    after = _class_means(material, "learned")
    change = after - before
    known = np.flatnonzero(~np.isnan(change))
    order = [*known[np.argsort(-np.abs(change[known]), kind="stable")],
             *np.flatnonzero(np.isnan(change))]  # fmt: skip
    most, least = max(change[known].max(), 0.0), min(change[known].min(), 0.0)
    reach = (most - least) or 1.0
    lines = []
    for code in order:
        moved = np.nan_to_num(change[code])
        side = "gain" if moved >= 0 else "loss"
        bar = f'<span class="{side}" style="--part:{abs(moved) / reach:.3f}"></span>'
        cells = "".join(
            f'<td class="number" data-sort="{-1 if np.isnan(v) else v:.6f}">'
            f"{'–' if np.isnan(v) else f'{100 * v:.1f}'}</td>"
            for v in (before[code], after[code])
        )
        sort = -9 if np.isnan(change[code]) else change[code]
        lines.append(
            f'<tr><th scope="row" dir="auto">{escape(material.class_names[code])}</th>'
            f'<td class="number" data-sort="{counts[code]}">{counts[code]:,}</td>{cells}'
            f'<td class="number" data-sort="{sort:.6f}">'
            f"{'–' if np.isnan(change[code]) else points(change[code])}</td>"
            f'<td class="bars" aria-hidden="true"><span class="track">{bar}</span></td></tr>'
        )
    head = "".join(
        f'<th scope="col"{kind}><button type="button">{name}<span class="sort" '
        'aria-hidden="true"></span></button></th>'
        for name, kind in (
            ("Class", ""),
            ("Rows", ' class="number"'),
            ("Before, %", ' class="number"'),
            ("After, %", ' class="number"'),
            ("Change", ' class="number"'),
        )
    )
    return (
        f'<p class="lead">{_extremes(material.class_names, change)}</p>'
        '<div class="card scroll" tabindex="0" role="region" aria-label="Classes">'
        '<table class="classes" id="classes-table" '
        f'style="--zero:{-least / reach:.3f}"><caption>Mean average precision by class, the '
        f"largest changes first; choose a heading to sort</caption><thead><tr>{head}"
        '<td class="bars"></td></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _class_means(material: Material, name: str) -> Array:
    """Mean average precision of each class; NaN for classes of a single row."""
    values = material.scores[name].average_precision
    known = ~np.isnan(values)
    n_classes = len(material.class_names)
    total = np.bincount(material.codes[known], values[known], minlength=n_classes)
    count = np.bincount(material.codes[known], minlength=n_classes)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _extremes(names: list[str], change: Array) -> str:
    """Which classes gained and lost most, in words."""

    def listed(order: list[int]) -> str:
        return ", ".join(f"<b>{escape(names[c])}</b> ({points(change[c])})" for c in order)

    order = np.argsort(-change, kind="stable")
    gained = [c for c in order if change[c] > 0][:3]
    lost = [c for c in order[::-1] if change[c] < 0][:3]
    words = []
    if gained:
        words.append(f"Gained most, in points: {listed(gained)}.")
    if lost:
        words.append(f"Lost most: {listed(lost)}.")
    elif gained:
        words.append("No class lost.")
    return " ".join(words) or "No class changed."


def choosing_a_neighbour(material: Material) -> str:
    """What the explorer tells of a neighbour that is chosen."""
    if material.metric.lift is None:
        return "Choose a neighbour to see which features make its distance."
    return (
        "Choose a neighbour to see its distances, and which features make the plain one. The "
        "learned metric is lifted by a kernel: it is not linear in the features, so its distances "
        "are not split into them."
    )


def how_it_was_made(material: Material) -> str:
    """The metric, its parameters and the rows, as pairs of a name and a value."""
    metric, info = material.metric, material.metric.info
    compared = {
        "euclidean": "Euclidean distance of transformed rows",
        "cosine": "cosine of transformed rows, less their mean",
    }
    if metric.centre is None:
        compared["cosine"] = "cosine of transformed rows"
    pairs = [("Method", info.get("method", "not recorded"))]
    if metric.lift is None:
        pairs.append(("Rank", f"{metric.rank:,} of {_count(metric.n_features, 'feature')}"))
    else:
        landmarks = _count(len(metric.lift.landmarks), "landmark")
        kernel = f"Gaussian kernel with {landmarks}, γ = {metric.lift.gamma:.3g}"
        pairs += [("Lift", kernel), ("Rank", f"{metric.rank:,} of {landmarks}")]
    pairs += [
        ("Compared by", compared[metric.kind]),
        ("Weighting", "none" if metric.idf is None else "tf-idf of raw counts"),
        ("Rows scored", f"{material.n_rows:,} in {_count(len(material.class_names), 'class')}"),
    ]
    if "version" in info:
        pairs.append(("Learned with", f"dualmetric {info['version']}"))
    parameters = info.get("parameters")
    shown = parameters.items() if isinstance(parameters, dict) else ()
    return _pairs(pairs) + (
        f"<details><summary>Parameters</summary>{_pairs(sorted(shown))}</details>" if shown else ""
    )


def _pairs(pairs: Any) -> str:
    items = "".join(
        f"<div><dt>{escape(clean(name))}</dt><dd>{escape(clean(value))}</dd></div>"
        for name, value in pairs
    )
    return f'<dl class="facts">{items}</dl>'


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def summary(material: Material) -> str:
    """One line under the title."""
    return (
        f"{_count(material.n_rows, 'row')} · {_count(len(material.class_names), 'class')} · "
        f"{_count(material.metric.n_features, 'feature')}"
    )
