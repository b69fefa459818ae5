"""Contents of a report: rows, classes, scores, and the plain distance that is called "before"."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from .._types import Array, Matrix
from .._validation import check_labels
from ..metric import Metric
from ..side_by_side import Scores, compare, plain_rows

# how the page names the distances
DISTANCES = {"euclidean": "Euclidean", "cosine": "cosine", "learned": "learned"}


@dataclass(frozen=True, eq=False)
class Material:
    """Everything that the sections of the page use."""

    metric: Metric
    rows: Matrix  # as the metric's L takes them, after tf-idf
    after_rows: Matrix  # rows between which the Euclidean distance is the learned one
    codes: Array  # the class of each row, counted from 0
    class_names: list[str]
    scores: dict[str, Scores]  # the result of `side_by_side.compare`
    before: str  # the plain distance with the better mean average precision
    voted_names: list[str]  # class_names, then classes that only training rows have
    voted: tuple[Array, Array]  # codes of the classes that 5-NN predicts, before and after

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    @property
    def both(self) -> tuple[Scores, Scores]:
        """Scores before and after."""
        return self.scores[self.before], self.scores["learned"]


def gather(
    metric: Metric,
    X: Any,
    y: Any,
    X_train: Any,
    y_train: Any,
    class_names: Sequence[str] | None,
    scores: dict[str, Scores] | None,
) -> Material:
    """Check the arguments, and compute the scores if they are not given."""
    rows = plain_rows(metric, X)
    labels = check_labels(y, rows.shape[0])
    if scores is None:
        scores = compare(metric, X, y, X_train, y_train)
    n_scored = len(scores["learned"].average_precision)
    if n_scored != len(labels):
        raise ValueError(
            f"scores are for {n_scored} rows, but X has {len(labels)}: give the scores of these "
            "rows, or leave them out"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    before = max(("euclidean", "cosine"), key=lambda name: scores[name].map)
    predicted = [scores[name].predicted for name in (before, "learned")]
    others = np.setdiff1d(np.concatenate(predicted), classes)  # only training rows have these
    of_metric = metric.info.get("class_names")
    names = _class_names(np.concatenate([classes, others]), class_names, of_metric)
    code_of = {label: code for code, label in enumerate([*classes.tolist(), *others.tolist()])}
    first, second = (np.array([code_of[label] for label in p.tolist()]) for p in predicted)
    return Material(
        metric=metric,
        rows=rows,
        after_rows=metric.transform(X),
        codes=codes,
        class_names=names[: len(classes)],
        scores=scores,
        before=before,
        voted_names=names,
        voted=(first, second),
    )


def clean(text: object) -> str:
    """Text that UTF-8 can encode: half a surrogate pair becomes a question mark."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def row_name(name: object) -> str:
    """What the page calls a row: its id, or "row 17" where it has only a number."""
    return f"row {name}" if isinstance(name, Integral) else clean(name)


def _class_names(
    classes: Array, given: Sequence[str] | None, of_metric: Sequence[str] | None
) -> list[str]:
    """Names of the classes: ``given[label]`` if labels count classes from 0."""
    is_number = classes.dtype.kind in "iuf"
    labels = [int(label) for label in classes] if is_number else list(classes)
    names = of_metric if given is None else given
    if names is not None and is_number and min(labels) >= 0 and max(labels) < len(names):
        return [clean(names[label]) for label in labels]
    if given is not None:
        raise ValueError(
            f"{len(given)} class names were given, but the labels do not count classes from 0 to "
            f"{len(given) - 1}: leave class_names out, or give one for each"
        )
    return [clean(label) for label in labels]
