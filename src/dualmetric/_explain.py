"""Distances split into what each feature contributes."""

from collections.abc import Callable, Iterator, Sequence
from math import floor, log10
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ._arrays import ops
from ._arrays.namespace import to_numpy
from ._metric_checks import too_large
from ._types import Array
from ._validation import check_whole, refuse_mask

_BLOCK = 2**20  # numbers of L held in double precision at once


class Explanation(NamedTuple):
    """A distance, split into what each feature contributes. ``print`` shows it as a table.

    Attributes
    ----------
    distance : float
        The sum of all contributions.
    parts : list of (str, float)
        The largest contributions, by absolute value, with the names of their features. Positive
        ones increase the distance, negative ones reduce it.
    rest : float
        The sum of all others.
    """

    distance: float
    parts: list[tuple[str, float]]
    rest: float

    def __str__(self) -> str:
        lines = [("distance", self.distance), *self.parts]
        if self.rest:
            lines.append(("(all others)", self.rest))
        size = max(abs(value) for _, value in lines)
        digits = 3 - floor(log10(size)) if size else 3
        style = f"+.{max(digits, 0)}f" if -6 < digits < 10 else "+.3e"
        numbers = [format(value, style) for _, value in lines]
        numbers[0] = numbers[0][1:]  # a distance needs no sign
        width = max(map(len, numbers))
        return "\n".join(
            f"{number:>{width}}  {name if name.isprintable() else repr(name)}"
            for number, (name, _) in zip(numbers, lines, strict=True)
        )


def explained(
    metric: Any, a: Any, b: Any, feature_names: Sequence[str] | None, top: int
) -> Explanation:
    """What `Metric.explain` returns, for a metric without a lift."""
    name_of = namer(feature_names, metric.feature_names, metric.n_features)
    check_whole(top, "top")
    row_a, row_b = _row(metric, a, "a"), _row(metric, b, "b")
    distance, parts = split(metric, row_a, row_b)
    if not np.isfinite(distance):
        raise too_large(row_a)
    order = largest_first(parts)
    centre = len(parts) - 1
    named = [("(centre)" if f == centre else name_of(f), float(parts[f])) for f in order[:top]]
    return Explanation(distance, named, float(parts[order[top:]].sum()))


def top_features(
    metric: Any, component: int, feature_names: Sequence[str] | None, top: int
) -> list[tuple[str, float]]:
    """What `Metric.top_features` returns, for a metric without a lift."""
    name_of = namer(feature_names, metric.feature_names, metric.n_features)
    check_whole(top, "top")
    factor = metric.linear_part().factor
    if factor is None:
        raise ValueError(
            "this metric is the identity, which has no directions and gives every feature the same "
            "weight: use a learned metric"
        )
    n_directions = factor.shape[1]
    if not isinstance(component, Integral) or not 0 <= component < n_directions:
        raise ValueError(
            f"there is no component {component!r}: this metric has {n_directions}, numbered from 0 "
            f"to {n_directions - 1}"
        )
    weights = factor[:, component]
    return [(name_of(f), float(weights[f])) for f in largest_first(weights)[:top]]


def _row(metric: Any, row: Any, name: str) -> Array:
    """One row as L takes it, written out in float64."""
    refuse_mask(row, name)
    row = to_numpy(row)
    if np.ndim(row) == 1:
        row = (row if hasattr(row, "reshape") else np.asarray(row)).reshape(1, -1)
    rows = metric.open_rows(row, name)
    if rows.shape[0] != 1:
        raise ValueError(f"{name} must be a single row; got {rows.shape[0]} rows")
    return ops.to_dense(metric.first.weighted(rows.take().astype(np.float64)))[0]


def split(metric: Any, a: Array, b: Array) -> tuple[float, Array]:
    """Return the distance between two rows, and what each feature and the centre add to it.

    See `Metric.explain` for the equations. The parts of the features come first, that of the
    centre last.
    """
    linear = metric.linear_part()
    factor = linear.factor
    parts = np.zeros(len(a) + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        (a, moved_a), (b, moved_b) = _scaled(metric, a), _scaled(metric, b)
        shift = np.zeros(linear.rank) + (moved_a - moved_b)
        delta = a - b
        z = _image(linear, delta) + shift
        distance = _length(z)
        if distance == 0 or not np.isfinite(distance):
            return distance, parts
        direction = z / distance
    parts[-1] = shift @ direction
    if factor is None or linear.outside:  # M^½ is symmetric
        parts[:-1] = delta * _image(linear, direction)
    else:
        for index, rows in _blocks(factor, delta):
            parts[index] = delta[index] * (rows @ direction)
    return distance, parts


def _scaled(metric: Any, x: Array) -> tuple[Array, Array]:
    """A row after tf-idf and blocks, divided by the lengths it is scaled by; and a sum of centres.

    The vector of the row is the image of the former under L plus the latter.
    """
    blocks = metric.first.blocks
    if blocks is not None:
        x = blocks.apply(x[None, :], metric.first.kind == "cosine")[0]
    image, added = x, np.zeros(1)
    for step in (metric,) if metric.before is None else (metric.before, metric):
        image = _image(step, image)
        added = _image(step, added) if added.any() else added
        if step.centre is not None:
            centre = step.centre.astype(np.float64)
            image, added = image - centre, added - centre
        if step.kind == "cosine":
            length = _length(image) or np.inf
            x, image, added = x / length, image / length, added / length
    return x, added


def _image(metric: Any, x: Array) -> Array:
    """Lᵀx, or M^½x for a metric with ``outside``, in float64 and without a copy of L."""
    if metric.outside:
        image: Array = metric._apply_outside(x[None, :])[0]
        return image
    if metric.factor is None:
        return x
    result = np.zeros(metric.factor.shape[1])
    for index, rows in _blocks(metric.factor, x):
        result += x[index] @ rows
    return result


def largest_first(values: Array) -> Array:
    """Places of the values that are not zero, the largest absolute value first."""
    places = np.flatnonzero(values)
    return places[np.argsort(-np.abs(values[places]), kind="stable")]


def namer(
    given: Sequence[str] | None, own: Sequence[str] | None, n_features: int
) -> Callable[[int], str]:
    """Return what names a feature by its number: a name given, the metric's own, or "feature 3"."""
    check_number_of_names(given, n_features)
    names = own if given is None else given
    # an element of a pandas Series is found by its label, of an array by its place
    chosen = names if names is None or isinstance(names, list | tuple) else np.asarray(names)
    return lambda f: f"feature {f}" if chosen is None else str(chosen[f])


def check_number_of_names(names: Sequence[str] | None, n_features: int) -> None:
    """Refuse feature names that are too many or too few."""
    if names is not None and len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names for {n_features} features: give one per feature"
        )


def _blocks(factor: Array, row: Array) -> Iterator[tuple[Array, Array]]:
    """Where a row is not zero, a block at a time, and those rows of L in float64."""
    support = np.flatnonzero(row)
    height = max(1, _BLOCK // factor.shape[1])
    for start in range(0, len(support), height):
        index = support[start : start + height]
        yield index, factor[index].astype(np.float64, copy=False)


def _length(vector: Array) -> float:
    """Euclidean length, also where squares would leave the range of floats."""
    peak = float(np.abs(vector).max())
    return peak * float(np.linalg.norm(vector / peak)) if peak else 0.0
