"""Checks of input that scikit-learn's own validation leaves out."""

import re
import sys
import warnings
from numbers import Integral
from typing import Any

import numpy as np

from ._arrays.namespace import to_numpy
from ._types import Array

_PACKAGE = __name__.partition(".")[0]
# also no name at all, as pandas writes its index
_ID_NAME = re.compile(r"|(unnamed: ?|level_)\d+|index|row|(.*[_ ])?(id|uuid)", re.IGNORECASE)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller's own code: the first frame outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def is_id_name(name: Any) -> bool:
    """Whether a column of this name usually holds row numbers or identifiers."""
    return isinstance(name, str) and _ID_NAME.fullmatch(name.strip()) is not None


def warn_of_ids(X: Any, names: Any, source: str, remedy: str) -> None:
    """Warn where a feature looks like the numbers or identifiers of the rows.

    Such columns follow the order of the rows, which is often that of the classes. They make
    held-out scores better but say nothing about new rows.
    """
    if names is None or not isinstance(X, np.ndarray) or X.shape[0] < 10:
        return
    consecutive = np.flatnonzero(X[1] - X[0] == 1)
    named = [place for place, name in enumerate(names) if is_id_name(name)]
    for place in np.union1d(consecutive, named).astype(int):
        column = X[:, place]
        if not np.isfinite(column).all() or (column != np.trunc(column)).any():
            continue
        counts = (np.diff(column) == 1).all()
        if counts or (place in named and len(np.unique(column)) == len(column)):
            what = "has a different whole number in each row"
            if counts:
                what = f"numbers the rows {column[0]:.0f}, {column[1]:.0f}, {column[2]:.0f}, …"
            warn(
                f"{source}: column {names[place]!r} {what}, like an index or an id, and is used as "
                f"a feature: scores may look better than they are. {remedy.format(names[place])}"
            )


def check_whole(value: Any, name: str) -> None:
    """Refuse anything but a whole number of at least 1."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")


def refuse_mask(array: Any, name: str) -> None:
    """Raise where a masked array hides entries: converting it would silently bring them back."""
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise ValueError(
            f"{name} is a masked array with masked entries, which would be used as if they were "
            f"not masked. Fill them first, for example {name}.filled(0), or drop those rows."
        )


def check_labels(y: Any, n_rows: int, name: str = "y") -> Array:
    """Labels as a one-dimensional array: numbers, strings or objects that can be sorted."""
    labels = labels_as_given(y, n_rows, name)
    refuse_missing(labels, name)
    # scikit-learn's own check of targets also warns of many classes, which are no fault here
    if labels.dtype.kind == "f" and (~np.isfinite(labels) | (labels != np.trunc(labels))).any():
        raise ValueError(
            f"Unknown label type: continuous. {name} holds fractions or infinity where classes are "
            "expected: round or bin them, or learn from triplets"
        )
    if labels.dtype.kind == "O":
        try:
            np.unique(labels)
        except TypeError as error:
            raise ValueError(
                f"{name} mixes labels that cannot be compared ({error}): convert them, for example "
                "to strings"
            ) from None
    return labels


def labels_as_given(y: Any, n_rows: int, name: str = "y") -> Array:
    """One label per row as a one-dimensional array; some may be missing."""
    from sklearn.utils import column_or_1d

    refuse_mask(y, name)
    if y is None or isinstance(y, str):
        given = "is None" if y is None else f"is the string {y!r}, not an array"
        raise ValueError(
            f"{name} {given}: give one label for each row (the name of a column works only if X is "
            "a data frame)"
        )
    try:
        array = np.asarray(to_numpy(y))
    except ValueError:  # a list of arrays of different shapes
        raise ValueError(
            f"{name} should be a 1d array of labels, but holds arrays of different shapes: for "
            "pairs of rows, pass Pairs(index, same) of dualmetric.supervision"
        ) from None
    if array.ndim == 2 and array.shape[1] != 1:
        kinds = {2: "Pairs(index, same)", 3: "Triplets(y)", 4: "Comparisons(y)"}
        rows = kinds.get(array.shape[1])
        raise ValueError(
            f"y should be a 1d array of labels; {name} has shape {array.shape}: "
            + (f"for row numbers of X, pass {rows}; " if rows else "")
            + f"for indicators of classes, pass {name}.argmax(axis=1)"
        )
    if array.ndim == 0:
        raise ValueError(f"{name} should be a 1d array of labels; got {type(y).__name__}")
    labels = column_or_1d(array, warn=True)
    if len(labels) != n_rows:
        raise ValueError(
            f"{name} has {len(labels)} labels for {n_rows} rows; give one label for each row"
        )
    return labels


def refuse_missing(labels: Array, name: str = "y") -> None:
    """Raise where a label is missing."""
    if any_missing(labels):
        raise ValueError(
            f"{name} contains NaN or None, but every row needs a label: drop the rows without one, "
            "or, to learn a metric, pass Labels(y), which takes missing labels as unknown"
        )


def joined_labels(first: Array, second: Array, names: str) -> Array:
    """Labels of both arrays in one, refused where they cannot be compared with each other."""
    if first.dtype.kind != second.dtype.kind:
        # joined as they are, the number 1 would become the string "1"
        first, second = first.astype(object), second.astype(object)
    labels = np.concatenate([first, second])
    try:
        np.unique(labels)
    except TypeError as error:
        raise ValueError(
            f"{names} hold labels of kinds that cannot be compared ({error}); use numbers only or "
            "strings only"
        ) from error
    return labels


def any_missing(labels: Array) -> bool:
    """Whether any entry is NaN, NaT, None or pandas.NA."""
    return bool(are_missing(labels).any())


def are_missing(labels: Array) -> Array:
    """Which entries are NaN, NaT, None or pandas.NA."""
    if labels.dtype.kind == "O":
        # pandas.NA has no truth value; the others but None are not equal to themselves
        found = [
            item is None or type(item).__name__ == "NAType" or bool(item != item) for item in labels
        ]
        return np.array(found, dtype=bool)
    if labels.dtype.kind in "fcmM":
        return labels != labels
    return np.zeros(len(labels), dtype=bool)
