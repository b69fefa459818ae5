"""The report: one self-contained HTML page that shows what a learned metric changed."""

import json
from collections.abc import Sequence
from typing import Any

from .._explain import namer
from ..metric import Metric
from ..side_by_side import Scores
from . import _pictures, _sections
from ._confusion import confusion
from ._explorer import explorer_data, heat_pictures
from ._matches import build_match_report
from ._material import DISTANCES, gather, row_name
from ._page import fill_page
from ._queries import build_query_report

__all__ = ["build_match_report", "build_query_report", "build_report"]


def build_report(
    metric: Metric,
    X: Any,
    y: Any,
    X_train: Any = None,
    y_train: Any = None,
    *,
    title: str,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    image_shape: Sequence[int] | None = None,
    scores: dict[str, Scores] | None = None,
    row_names: Sequence[Any] | None = None,
) -> str:
    """Build a page that shows what the metric changed on rows it was not learned from.

    The page compares the learned distance with the plain ones, overall and class by class, shows
    which classes are confused, draws maps of the rows, and lets people look up the nearest rows of
    a query before and after. It needs no network and loads nothing.

    Parameters
    ----------
    metric : Metric
        The learned metric.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Rows to judge the metric by: raw counts, if it has ``idf``.
    y : array-like of shape (n_rows,)
        Their classes.
    X_train, y_train : optional
        Rows and classes that vote in k-NN classification, as for `side_by_side.compare`.
    title : str
        Title of the page: for example, the name of the data.
    class_names : sequence of str, optional
        Names of the classes, if y counts them from 0. By default those in ``info`` of the metric,
        or else the labels themselves.
    feature_names : sequence of str, optional
        Names of the features; those of the metric if None.
    texts : sequence of str, optional
        One text per row; the explorer shows its beginning.
    image_shape : tuple of int, optional
        ``(height, width)`` or ``(height, width, 3)``: the explorer shows rows as pictures.
    scores : dict of str to Scores, optional
        Result of `side_by_side.compare` for these rows; computed here if None.
    row_names : sequence of str or int, optional
        What the page calls each row: its id, or its number in a file. Rows are numbered from 0 if
        None.

    Returns
    -------
    str
        HTML. It holds at most 300 queries and 3,000 places on the map, to stay well under 5 MB.
    """
    if texts is not None and image_shape is not None:
        raise ValueError("texts and image_shape cannot be combined: give one of them")
    shape = None if image_shape is None else _pictures.check_shape(image_shape, metric.n_features)
    name_of = namer(feature_names, metric.feature_names, metric.n_features)
    material = gather(metric, X, y, X_train, y_train, class_names, scores)
    data = explorer_data(material, name_of, texts, shape)
    if row_names is not None:
        if len(row_names) != material.n_rows:
            raise ValueError(
                f"{len(row_names)} row names were given for {material.n_rows} rows: give one name "
                "per row"
            )
        data["names"] = [row_name(row_names[row]) for row in data["rows"]]
    shares, directions = _sections.leading_directions(metric)
    if shape is not None:
        heat = None if directions is None else heat_pictures(directions.T, shape)
        data["directions"] = None if heat is None else _pictures.sheet(heat)
    values = {
        **_sections.result(material),
        **_sections.precision_at(material),
        **_sections.curves(material),
        **confusion(material),
        **_sections.class_table(material),
        "spectrum": _sections.spectrum(shares, directions, name_of if shape is None else None),
        "choosing": _sections.choosing_a_neighbour(material),
        "how": _sections.how_it_was_made(metric, _sections.rows_scored(material)),
        "before": DISTANCES[material.before],
        "n_queries": len(data["queries"]),
        "n_on_map": f"{len(data['onMap']):,}",
    }
    return fill_page(
        "page.html",
        values,
        title=title,
        kind="report",
        whole="report",
        summary=_sections.summary(material),
        parts=("Result", "Curves", "Classes", "Confusion", "Map", "Explorer", "About"),
        scripts=("page.js", "map.js", "explorer.js", "start.js"),
        data=f'<script type="application/json" id="report-data">{_embedded(data)}</script>\n',
    )


def _embedded(data: dict[str, Any]) -> str:
    """JSON that cannot end the HTML element around it, whatever the texts contain."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
