"""Distances of rows as a metric maps them, where some directions count negatively.

A metric that keeps the plain distance outside a few directions would map sparse rows to dense ones.
Written as a difference of two squared distances, d² = ‖p − p′‖² − ‖n − n′‖², it needs no dense
rows.
"""

from typing import NamedTuple

import numpy as np

from .._types import Array, Matrix
from . import ops


class Embedded(NamedTuple):
    """Rows P and N; without N, d² = ‖p − p′‖²."""

    positive: Matrix
    negative: Matrix | None


def parts_of(mapped: Matrix | Embedded) -> list[tuple[float, Matrix]]:
    """Sign and rows of each part."""
    if not isinstance(mapped, Embedded):
        return [(1.0, mapped)]
    one, other = mapped
    return [(1.0, one)] if other is None else [(1.0, one), (-1.0, other)]


def sq_distances(mapped: Matrix | Embedded, index: Array) -> Array:
    """d² of each pair of row numbers."""
    left, right = np.ascontiguousarray(index.T)
    parts = [(sign, ops.canonical(rows)) for sign, rows in parts_of(mapped)]
    found = [sign * ops.sq_distances(rows, left, right) for sign, rows in parts]
    return np.sum(found, axis=0)


def margins(mapped: Matrix | Embedded, index: Array) -> Array:
    """d²(c, d) − d²(a, b) of each comparison."""
    found = [sign * ops.margins(ops.canonical(rows), index) for sign, rows in parts_of(mapped)]
    return np.sum(found, axis=0)


def stacked(parts: list[Embedded]) -> Embedded:
    """One part below the other."""
    negative = [part.negative for part in parts if part.negative is not None]
    positive = ops.stacked([part.positive for part in parts])
    return Embedded(positive, ops.stacked(negative) if negative else None)
