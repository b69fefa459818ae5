"""The page about a Matcher: whether its probabilities are right, and what it gets wrong."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np
from scipy.special import expit

from .._types import Array
from ..matching import _calibration
from ..matching._bounds import numbered, odds_scale, rate_interval, shifted
from ..matching._input import labelled_pairs
from . import _match_charts as charts
from ._material import clean, row_name
from ._page import fill_page
from ._sections import _pairs

_BINS = 15
_POINTS = 24  # of each curve
_ERRORS = 8  # of each kind that are shown
_LONGEST = 400  # characters of a text


def build_match_report(
    matcher: Any,
    X: Any,
    pairs: Any,
    *,
    title: str,
    texts: Sequence[str] | None = None,
    threshold: Any = None,
    held_out: bool = True,
    row_names: Sequence[Any] | None = None,
) -> str:
    """Build a page that shows how far a `Matcher` can be trusted.

    The page has a reliability diagram, precision at each recall, both error rates, the distances of
    same and different pairs, and the hardest errors side by side. It needs no network and loads
    nothing.

    Parameters
    ----------
    matcher : Matcher
        A fitted matcher.
    X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
        Rows in the features of its metric.
    pairs : Pairs
        Labelled pairs, preferably pairs that neither the metric nor the matcher was fitted to.
    title : str
        Title of the page: for example, the name of the data.
    texts : sequence of str, optional
        One text per row, shown with the errors.
    threshold : Threshold, optional
        Pairs up to its distance are accepted, and the charts show it. By default, pairs with a
        probability of at least ½ are accepted.
    held_out : bool, default=True
        Whether the matcher was fitted to other pairs than these. If not, the page says so.
    row_names : sequence of str or int, optional
        What the page calls each row: its id, or its number in a file. Rows are numbered from 0 if
        None.

    Returns
    -------
    str
        HTML.
    """
    found = labelled_pairs(matcher.metric_, X, pairs, None)
    distance, same = found.distance, found.same
    for given, what in ((texts, "texts"), (row_names, "row names")):
        if given is not None and len(given) != found.n_rows:
            raise ValueError(
                f"{len(given)} {what} were given for {found.n_rows} rows: give one for each"
            )
    probability = expit(matcher.log_odds(distance))
    limit = None if threshold is None else threshold.distance
    accepted = probability >= 0.5 if limit is None else distance <= limit
    entity = numbered(found.entity)
    hits = int(np.count_nonzero(accepted & same))
    found_scores = _calibration.scores_of(
        matcher.log_odds(distance), distance, same, matcher.prevalence_
    )
    scores = (
        ("Average precision", f"{found_scores.average_precision:.3f}"),
        ("Calibration error", f"{found_scores.calibration_error:.4f}"),
        ("Log loss", f"{found_scores.log_loss:.4f}"),
    )
    scale = odds_scale(
        matcher.prevalence_, float(np.mean(same))
    )  # of shares, to those among the target pairs
    facts = [
        ("Pairs", f"{len(same):,}, of which {np.count_nonzero(same):,} are the same"),
        ("Accepted", f"{np.count_nonzero(accepted):,}, of which {hits:,} are the same"),
        ("Probability", _calibration.FORM_NAMES[matcher.calibration_.form]),
        ("Fitted to", f"{len(matcher.pairs_.same):,} labelled pairs"),
        ("Share of same pairs, assumed", _prevalence(matcher)),
    ]

    def shown(row: int) -> str:
        name = escape(row_name(row if row_names is None else row_names[row]))
        if texts is None:
            return name
        return f'<div class="text">{_beginning(texts[row])}</div><small>{name}</small>'

    values = {
        "warning": "" if held_out else _SAME_PAIRS,
        "cards": "".join(
            f'<article class="card score"><h3>{name}</h3><p class="change"><strong>{value}</strong>'
            "</p></article>"
            for name, value in scores
        ),
        "reliability": _reliability(
            probability, same, entity, scale, found_scores.calibration_error
        ),
        "precision": _precision_recall(distance, same, entity, scale),
        "errors": _error_rates(distance, same, entity),
        "distances": charts.distances(distance[same], distance[~same], limit),
        "false_matches": _listed(found, probability, ~same & accepted, 1.0, shown),
        "missed": _listed(found, probability, same & ~accepted, -1.0, shown),
        "facts": _pairs(facts),
    }
    return fill_page(
        "match.html",
        values,
        title=title,
        kind="matches",
        whole="page",
        summary=escape(_decision(threshold)),
        parts=("Result", "Curves", "Errors", "About"),
        scripts=("page.js", "match.js"),
    )


_SAME_PAIRS = (
    '<p class="headline worse">These are the pairs that the matcher was fitted to: expect lower '
    "scores on new pairs.</p>"
)


def _prevalence(matcher: Any) -> str:
    if matcher.prevalence_ is None:
        return "as among the labelled pairs"
    return f"{100 * matcher.prevalence_:.3g} %"


def _decision(threshold: Any) -> str:
    if threshold is None:
        return "Pairs with a probability of at least ½ are accepted, without a guarantee."
    return f"Accepted: {threshold}."


def _reliability(probability: Array, same: Array, entity: Array, scale: float, error: float) -> str:
    place = np.minimum((probability * _BINS).astype(np.int64), _BINS - 1)
    points = []
    for number in np.unique(place):
        inside = place == number
        low, high = rate_interval(same[inside], entity[inside])
        shares = (shifted(share, scale) for share in (float(same[inside].mean()), low, high))
        points.append((float(probability[inside].mean()), *shares))
    return charts.with_band(
        points,
        ("Probability", "Pairs that are the same"),
        f"Reliability diagram in {len(points)} bins; calibration error {error:.4f}",
        diagonal=True,
    )


def _precision_recall(distance: Array, same: Array, entity: Array, scale: float) -> str:
    order = np.argsort(distance, kind="stable")
    hits = np.cumsum(same[order])
    points = []
    for share in np.linspace(1 / _POINTS, 1.0, _POINTS):
        count = int(np.searchsorted(hits, np.ceil(share * hits[-1]))) + 1
        chosen = order[: np.searchsorted(distance[order], distance[order[count - 1]], "right")]
        low, high = rate_interval(same[chosen], entity[chosen])
        recall = np.count_nonzero(same[chosen]) / hits[-1]
        shares = (shifted(share, scale) for share in (float(same[chosen].mean()), low, high))
        points.append((float(recall), *shares))
    middle = points[len(points) // 2]
    return charts.with_band(
        points,
        ("Recall", "Precision"),
        f"Precision at each recall: {100 * middle[1]:.0f} % at recall {100 * middle[0]:.0f} %, "
        f"{100 * points[-1][1]:.0f} % at 100 %",
    )


def _error_rates(distance: Array, same: Array, entity: Array) -> str:
    other = np.sort(distance[~same])
    counts = np.unique(np.geomspace(1, len(other), _POINTS).astype(np.int64))
    points = []
    for count in counts:
        missed = distance[same] > other[count - 1]
        low, high = rate_interval(missed, entity[same])
        points.append((count / len(other), float(missed.mean()), low, high))
    equal = min(points, key=lambda point: abs(point[0] - point[1]))
    return charts.on_log_scales(
        points,
        ("False positive rate", "Same pairs that are missed"),
        f"Both error rates; they are equal at about {50 * (equal[0] + equal[1]):.1f} %",
    )


def _listed(
    found: Any, probability: Array, wrong: Array, sign: float, shown: Callable[[int], str]
) -> str:
    """The errors with the most extreme distances, side by side."""
    places = np.flatnonzero(wrong)
    places = places[np.argsort(sign * found.distance[places], kind="stable")[:_ERRORS]]
    if not len(places):
        return "<p>None.</p>"
    lines = []
    for place in places:
        rows = found.index[place].tolist()
        cells = "".join(f'<td class="record" dir="auto">{shown(row)}</td>' for row in rows)
        lines.append(
            f'<tr>{cells}<td class="number" data-name="Distance">{found.distance[place]:.4g}</td>'
            f'<td class="number" data-name="Probability">{100 * probability[place]:.1f}\u00a0%</td>'
            "</tr>"
        )
    return (
        '<table class="errors"><thead><tr><th scope="col">First row</th>'
        '<th scope="col">Second row</th>'
        '<th scope="col" class="number">Distance</th><th scope="col" class="number">Probability'
        f"</th></tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def _beginning(text: object) -> str:
    shown = clean(text)
    return escape(shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…")
