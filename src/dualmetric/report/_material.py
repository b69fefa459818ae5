"""What a report is made of: rows, classes, scores, and which plain distance stands for "before"."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import products
from .._types import Array, Rows
from .._validation import check_labels
from ..comparison import Scores, compare, plain_rows
from ..metric import Metric

DISTANCES = {"euclidean": "Euclidean", "cosine": "cosine", "learned": "learned"}
"""How the page names the distances of a comparison."""


@dataclass(frozen=True, eq=False)
class Material:
    """Everything that the parts of the page look at.

    Attributes
    ----------
    metric : Metric
    X, rows : the rows as given, and as the metric's L takes them.
    codes : the class of each row, counted from 0.
    class_names : their names.
    scores : what `comparison.compare` gave.
    before : "euclidean" or "cosine": the plain distance with the better mean average precision.
    """

    metric: Metric
    X: Rows
    rows: Rows
    codes: Array
    class_names: list[str]
    scores: dict[str, Scores]
    before: str

    @property
    def n_rows(self) -> int:
        """Number of rows that were scored."""
        return len(self.codes)

    @cached_property
    def before_rows(self) -> Rows:
        """Rows between which the Euclidean distance is the plain one."""
        if self.before == "euclidean":
            return self.rows
        return products.unit_rows(self.rows, in_place=False)

    @cached_property
    def after_rows(self) -> Rows:
        """Rows between which the Euclidean distance is the learned one."""
        return self.metric.transform(self.X)


def gather(
    metric: Metric,
    X: Any,
    y: Any,
    X_train: Any,
    y_train: Any,
    class_names: Sequence[str] | None,
    scores: dict[str, Scores] | None,
) -> Material:
    """Check what was given, and score it where that has not been done."""
    rows = plain_rows(metric, X)
    labels = check_labels(y, rows.shape[0])
    if scores is None:
        scores = compare(metric, X, y, X_train, y_train)
    if len(scores["learned"].average_precision) != len(labels):
        raise ValueError(
            f"scores are of {len(scores['learned'].average_precision)} rows, but X has "
            f"{len(labels)}: give the comparison of these rows, or leave scores out"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    before = max(("euclidean", "cosine"), key=lambda name: scores[name].map)
    names = _class_names(classes, class_names, metric.info.get("class_names"))
    return Material(metric, X, rows, codes, names, scores, before)


def clean(text: object) -> str:
    """Text that UTF-8 can hold: half a surrogate pair becomes a question mark."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def _class_names(
    classes: Array, given: Sequence[str] | None, of_metric: Sequence[str] | None
) -> list[str]:
    """Name the classes of the rows: by their place where labels count classes from 0."""
    names = of_metric if given is None else given
    counts_from_zero = classes.dtype.kind in "iu" or (
        classes.dtype.kind == "f" and (classes == np.trunc(classes)).all()
    )
    if names is not None and counts_from_zero and classes[0] >= 0 and classes[-1] < len(names):
        return [clean(names[int(label)]) for label in classes]
    if given is not None:
        raise ValueError(
            f"{len(given)} class names were given, but the labels do not count classes from 0 to "
            f"{len(given) - 1}: leave class_names out, or give one for each"
        )
    return [clean(int(label) if classes.dtype.kind == "f" else label) for label in classes]
