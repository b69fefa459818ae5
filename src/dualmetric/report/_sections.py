"""The sections of text on the page: results, classes, and how the metric was made."""

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from .._types import Array
from ..metric import Metric
from ..side_by_side import PRECISION_AT, RECALLS, Scores
from . import _charts, _result
from ._material import DISTANCES, Material, clean
from ._result import points

N_DIRECTIONS = 6  # leading directions whose features are named
N_BARS = 100  # directions whose share is drawn
MEASURES = {
    "Mean average precision": "How early rows of the same class appear when all rows are ranked",
    "5-NN accuracy": "How often the five nearest rows vote for the right class",
    "Hit rate@10": "How often a row of the same class is among the ten nearest",
}


def per_query(scores: Scores) -> list[Array]:
    """Values of each of `MEASURES` for the queries; NaN where a query has nothing to find."""
    hits = np.where(np.isnan(scores.average_precision), np.nan, scores.hits)
    return [scores.average_precision, scores.knn_correct.astype(np.float64), hits]


def result(material: Material) -> dict[str, str]:
    """The verdict, a card for each measure, and the lines of the table of all distances."""
    values = {name: per_query(scores) for name, scores in material.scores.items()}
    return _result.result(values, material.before, MEASURES)


def _other_plain(material: Material) -> str:
    return "cosine" if material.before == "euclidean" else "euclidean"


def precision_at(material: Material) -> dict[str, str]:
    """Precision at k before and after, as a chart and as lines of a table."""
    before, after = (scores.precision_at for scores in material.both)
    ks = list(PRECISION_AT[: before.shape[1]])
    chart, lines = _result.at_k(
        "Precision", "Rows of the same class, %", ks, before.T, after.T, material.before
    )
    return {"precision_at": chart, "precision_lines": lines}


def curves(material: Material) -> dict[str, str]:
    """Precision over recall; plain distances with the same ranking share a curve."""
    other = _other_plain(material)
    before, after = (scores.curve for scores in material.both)
    plain = DISTANCES[material.before].capitalize()
    listed = [("before", plain, before), ("after", "Learned", after)]
    if np.abs(material.scores[other].curve - before).max() < 5e-4:
        listed[0] = ("before", "Euclidean and cosine", before)
    else:
        listed.insert(0, ("other", DISTANCES[other].capitalize(), material.scores[other].curve))
    legend = "".join(
        f'<li><span class="swatch {style}" aria-hidden="true"></span>{name}</li>'
        for style, name, _ in reversed(listed)
    )
    return {"legend": legend, "curves": _charts.precision_recall(RECALLS, listed)}


def spectrum(shares: Array, directions: Array | None, name_of: Callable[[int], str] | None) -> str:
    """`leading_directions` as a chart, with the features of the first if there are names."""
    if not len(shares):
        return (
            "<p>This metric is the identity: every feature has the same weight, and no direction "
            "is preferred.</p>"
        )
    if not shares.any():
        return "<p>This metric is zero: all distances are zero.</p>"
    where = "" if directions is not None else ", in the space of the kernel"
    effective = 1 / float(np.square(shares).sum())
    half = int(np.searchsorted(np.cumsum(shares), 0.5) + 1)
    cut = f" The first {N_BARS} are shown." if len(shares) > N_BARS else ""
    text = (
        f'<p class="legend">{_count(len(shares), "direction")}; '
        f"the first {half} make up half of the metric</p>{_charts.spectrum(shares[:N_BARS])}"
        f'<p class="note">Each bar is an eigenvalue of the metric{where}, as a share of their '
        f"sum. The effective number of directions is {effective:.1f}.{cut}</p>"
    )
    if name_of is not None and directions is not None:
        lines = "".join(f"<li>{_ends(column, name_of)}</li>" for column in directions.T)
        text += (
            "<details><summary>Features of the strongest directions</summary>"
            f'<p class="note">The features with the largest weights of either sign.</p>'
            f'<ol class="directions">{lines}</ol></details>'
        )
    return text


def leading_directions(metric: Metric) -> tuple[Array, Array | None]:
    """Eigenvalues of M as shares of their sum, and L rotated to its leading directions.

    The identity has none. With a lift, the eigenvalues are those of LᵀKL, without directions.
    """
    lift = metric.first.lift
    linear = metric if metric.before is None else metric.linear_part()
    if linear.factor is None:
        return np.empty(0), None
    columns = linear.factor.astype(np.float64)
    unit = np.abs(columns).max() or 1.0
    columns /= unit
    images = columns if lift is None else lift.apply(lift.landmarks.astype(np.float64), columns)
    values, rotation = np.linalg.eigh(columns.T @ images)
    values = np.maximum(values[::-1], 0.0)
    directions = columns @ rotation[:, ::-1][:, :N_DIRECTIONS] if lift is None else None
    if linear.outside:
        others = np.full(metric.n_features - len(values), (linear.outside / unit) ** 2)
        values = np.sort(np.concatenate([values, others]))[::-1]
    return values / (values.sum() or 1.0), directions


def _ends(column: Array, name_of: Callable[[int], str], top: int = 5) -> str:
    order = np.argsort(-np.abs(column), kind="stable")[: 4 * top]
    order = order[column[order] != 0]
    ends = [
        ", ".join(escape(clean(name_of(f))) for f in order[sign * column[order] > 0][:top])
        for sign in (1, -1)
    ]
    return ' <span class="versus">against</span> '.join(end for end in ends if end) or "nothing"


def class_table(material: Material) -> dict[str, str]:
    """Mean average precision of each class; those that changed most come first."""
    counts = np.bincount(material.codes)
    # classes of a single row have no score: NaN
    before, after = (
        np.bincount(material.codes, scores.average_precision) / counts for scores in material.both
    )
    change = after - before
    most, least = max(np.nanmax(change), 0.0), min(np.nanmin(change), 0.0)
    reach = (most - least) or 1.0
    lines = []
    for code in np.argsort(-np.abs(change), kind="stable"):  # classes without a score come last
        cells = [(counts[code], f"{counts[code]:,}"), (-1, "–"), (-1, "–"), (-9, "–")]
        if not np.isnan(change[code]):
            cells[1:3] = ((f"{v:.6f}", f"{100 * v:.1f}") for v in (before[code], after[code]))
            cells[3] = (f"{change[code]:.6f}", points(change[code]))
        numbers = "".join(f'<td class="number" data-sort="{s}">{text}</td>' for s, text in cells)
        moved = np.nan_to_num(change[code])
        bar = f'class="{"loss" if moved < 0 else "gain"}" style="--part:{abs(moved) / reach:.3f}"'
        lines.append(
            f'<tr><th scope="row" dir="auto">{escape(material.class_names[code])}</th>{numbers}'
            '<td class="bars" aria-hidden="true"><span class="track">'
            f"<span {bar}></span></span></td></tr>"
        )
    return {
        "extremes": _extremes(material.class_names, change),
        "zero": f"{-least / reach:.3f}",
        "class_lines": "".join(lines),
    }


def _extremes(names: list[str], change: Array) -> str:
    """Which classes gained and lost most, in words."""

    def listed(order: list[int]) -> str:
        return ", ".join(f"<b>{escape(names[c])}</b> ({points(change[c])})" for c in order)

    order = np.argsort(-change, kind="stable")
    gained = [c for c in order if change[c] > 0][:3]
    lost = [c for c in order[::-1] if change[c] < 0][:3]
    if not gained and not lost:
        return "No class changed."
    words = [f"Gained most, in points: {listed(gained)}."] if gained else []
    return " ".join([*words, f"Lost most: {listed(lost)}." if lost else "No class lost."])


def choosing_a_neighbour(material: Material) -> str:
    """What the explorer shows when a neighbour is chosen."""
    if material.metric.first.lift is None:
        return "Choose a neighbour to see how features contribute to its distance."
    return (
        "Choose a neighbour to see its distances, and how features contribute to the plain one. "
        "The learned metric uses a kernel lift: it is not linear in the features, so its distances "
        "cannot be split by feature."
    )


def how_it_was_made(metric: Metric, scored: tuple[str, str]) -> str:
    """The metric, its parameters and what was scored, as pairs of a name and a value."""
    info = metric.info
    scaled = metric if metric.kind == "cosine" else metric.first
    compared = "Euclidean distance of transformed rows"
    if scaled.kind == "cosine":
        centred = "" if scaled.centre is None else ", minus their mean"
        compared = f"cosine of transformed rows{centred}"
    pairs = [("Method", info.get("method", "not recorded"))]
    lift = metric.first.lift
    if lift is None:
        pairs.append(("Rank", f"{metric.rank:,} of {_count(metric.n_features, 'feature')}"))
    else:
        landmarks = _count(len(lift.landmarks), "landmark")
        kernel = f"Gaussian kernel with {landmarks}, γ = {lift.gamma:.3g}"
        pairs += [("Lift", kernel), ("Rank", f"{metric.rank:,} of {landmarks}")]
    if metric.outside and metric.factor is not None:
        corrected = _count(metric.factor.shape[1], "direction")
        pairs.append(("Prior", f"the plain distance, corrected in {corrected}"))
    if isinstance(shares := info.get("blocks"), dict):
        parts = (f"{name} {100 * share:.0f} %" for name, share in shares.items())
        pairs.append(("Blocks, by share of the squared distance", ", ".join(parts)))
    pairs += [
        ("Compared by", compared),
        ("Weighting", "none" if metric.first.idf is None else "tf-idf of raw counts"),
        scored,
    ]
    if isinstance(tried := info.get("families"), list):
        pairs.append(("Tried on held-out rows", _tried(tried)))
    if "version" in info:
        pairs.append(("Learned with", f"dualmetric {info['version']}"))
    text, parameters = _pairs(pairs), info.get("parameters")
    if parameters and isinstance(parameters, dict):
        listed = _pairs(sorted(parameters.items()))
        text += f"<details><summary>Parameters</summary>{listed}</details>"
    return text


def rows_scored(material: Material) -> tuple[str, str]:
    """How many rows were scored, as a name and a value."""
    classes = _count(len(material.class_names), "class")
    return "Rows scored", f"{material.n_rows:,} in {classes}"


def _tried(families: list[Any]) -> str:
    """The best candidate of each family that `MetricCV` tried, with its interval."""
    numbers = ("score", "low", "high")
    known = [
        (one.get("name"), *(100 * one[name] for name in numbers))
        for one in families
        if isinstance(one, dict) and all(isinstance(one.get(name), float) for name in numbers)
    ]
    return ", ".join(
        f"{name} {score:.1f} % ({low:.1f} to {high:.1f})" for name, score, low, high in known
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
