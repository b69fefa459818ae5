"""The report: one self-contained HTML page on what a learned metric changed."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from .._explain import namer
from .._version import __version__
from ..comparison import Scores
from ..metric import Metric
from . import _pictures, _sections
from ._explorer import explorer_data, heat_pictures
from ._material import DISTANCES, clean, gather

_SCRIPTS = ("page.js", "map.js", "explorer.js", "start.js")


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
    row_numbers: Any = None,
) -> str:
    """Build a page that shows what the metric changed on rows it was not learned on.

    It compares the learned distance with the plain ones, overall and class by class, draws maps of
    the rows, and lets people look up the nearest rows of a query before and after. The page needs
    no network, and loads nothing.

    Parameters
    ----------
    metric : Metric
        What was learned.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Rows to judge it by: raw counts, where the metric has ``idf``.
    y : array-like of shape (n_rows,)
        Their classes.
    X_train, y_train : optional
        Rows and classes that vote in k-NN classification, as for `comparison.compare`.
    title : str
        What the page is about: the name of the data, say.
    class_names : sequence of str, optional
        Names of the classes, where y counts them from 0; those of the metric's ``info`` if None,
        and else the labels themselves.
    feature_names : sequence of str, optional
        Names of the features; those of the metric if None.
    texts : sequence of str, optional
        A text for each row, the beginning of which the explorer shows.
    image_shape : tuple of int, optional
        ``(height, width)`` or ``(height, width, 3)``: the explorer shows rows as pictures.
    scores : dict of str to Scores, optional
        What `comparison.compare` gave for these rows; computed here if None.
    row_numbers : array-like of shape (n_rows,), optional
        By which the page names rows: their places in a file, say. Counted from 0 if None.

    Returns
    -------
    str
        HTML. At most 300 queries and 3,000 places on the map are in it, which keeps it well under
        5 MB.
    """
    if texts is not None and image_shape is not None:
        raise ValueError("rows are shown as texts or as pictures: give texts or image_shape")
    shape = None if image_shape is None else _pictures.check_shape(image_shape, metric.n_features)
    name_of = namer(feature_names, metric.feature_names, metric.n_features)
    material = gather(metric, X, y, X_train, y_train, class_names, scores)
    data = explorer_data(material, name_of, texts, shape)
    if row_numbers is not None:
        data["rows"] = _renumbered(data["rows"], row_numbers, material.n_rows)
    if shape is not None:
        data["directions"] = _direction_pictures(metric, shape)
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return Template(_asset("page.html")).substitute(
        title=escape(clean(title)),
        summary=_sections.summary(material),
        script_hash=f"sha256-{digest}",
        style=_asset("style.css"),
        script=script,
        data=_embedded(data),
        result=_sections.result(material),
        curves=_sections.curves(material),
        spectrum=_sections.spectrum(material, name_of, with_names=shape is None),
        classes=_sections.class_table(material),
        choosing=_sections.choosing_a_neighbour(material),
        how=_sections.how_it_was_made(material),
        before=DISTANCES[material.before],
        n_queries=len(data["queries"]),
        n_on_map=f"{len(data['onMap']):,}",
        version=escape(__version__),
    )


def _renumbered(rows: list[int], row_numbers: Any, n_rows: int) -> list[int]:
    numbers = np.asarray(row_numbers)
    if numbers.shape != (n_rows,):
        raise ValueError(f"{numbers.size} row numbers were given for {n_rows} rows")
    return numbers[rows].tolist()


def _direction_pictures(metric: Metric, shape: tuple[int, int, int]) -> _pictures.Sheet | None:
    """Weights of the pixels in the leading directions, where the metric has such."""
    found = _sections.leading_directions(metric)
    if found is None or found[1] is None:
        return None
    return _pictures.sheet(heat_pictures(found[1].T, shape))


def _script() -> str:
    return "\n".join(_asset(name) for name in _SCRIPTS)


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _embedded(data: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in, whatever the texts hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
