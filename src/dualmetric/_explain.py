"""Distances split into what each feature contributes."""

from collections.abc import Iterator
from math import floor, log10
from typing import NamedTuple

import numpy as np

from ._types import Array

_BLOCK = 2**20  # numbers of L held in double precision at once


class Explanation(NamedTuple):
    """A distance, split into what each feature contributes. ``print`` shows it as a table.

    Attributes
    ----------
    distance : float
        The sum of all contributions.
    parts : list of (str, float)
        The largest contributions, by absolute value, with the names of their features. Positive
        ones hold the two rows apart, negative ones draw them together.
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


def split(
    factor: Array | None, centre: Array | None, kind: str, a: Array, b: Array
) -> tuple[float, Array]:
    """Return the distance between two rows, and what each feature and the centre add to it.

    See `Metric.explain` for the equations. The parts of the features come first, that of the
    centre last.
    """
    shift = np.zeros(len(a) if factor is None else factor.shape[1])
    parts = np.zeros(len(a) + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "cosine":
            middle = shift if centre is None else centre.astype(np.float64)
            alpha, beta = (_length(_project(factor, x) - middle) or np.inf for x in (a, b))
            a, b = a / alpha, b / beta
            shift = middle / beta - middle / alpha
        delta = a - b
        z = _project(factor, delta) + shift
        distance = _length(z)
        if distance == 0 or not np.isfinite(distance):
            return distance, parts
        direction = z / distance
    parts[-1] = shift @ direction
    if factor is None:
        parts[:-1] = delta * direction
    else:
        for index, rows in _blocks(factor, delta):
            parts[index] = delta[index] * (rows @ direction)
    return distance, parts


def largest_first(values: Array) -> Array:
    """Places of the values that are not zero, the largest absolute value first."""
    places = np.flatnonzero(values)
    return places[np.argsort(-np.abs(values[places]), kind="stable")]


def _blocks(factor: Array, row: Array) -> Iterator[tuple[Array, Array]]:
    """Where a row is not zero, a block at a time, and those rows of L in float64."""
    support = np.flatnonzero(row)
    height = max(1, _BLOCK // factor.shape[1])
    for start in range(0, len(support), height):
        index = support[start : start + height]
        yield index, factor[index].astype(np.float64, copy=False)


def _project(factor: Array | None, row: Array) -> Array:
    """Lᵀx in float64, without a copy of L."""
    if factor is None:
        return row
    result = np.zeros(factor.shape[1])
    for index, rows in _blocks(factor, row):
        result += row[index] @ rows
    return result


def _length(vector: Array) -> float:
    """Euclidean length, also where squares would leave the range of floats."""
    peak = float(np.abs(vector).max())
    return peak * float(np.linalg.norm(vector / peak)) if peak else 0.0
