"""Choosing the rows to learn from."""

import numpy as np

from .._types import Array

_ROWS_PER_CLASS = 10


def evenly_chosen(n: int, most: int, rng: np.random.Generator) -> Array:
    """All n row numbers, or one at random from each of ``most`` equal parts of them."""
    if n <= most:
        return np.arange(n)
    bounds = np.arange(most + 1) * n // most
    return rng.integers(bounds[:-1], bounds[1:])


def choose_rows(n: int, max_rows: int | None, rng: np.random.Generator) -> Array:
    """At most ``max_rows`` ascending row numbers, chosen evenly however rows are stored."""
    dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64  # as in triplets
    return evenly_chosen(n, n if max_rows is None else max_rows, rng).astype(dtype)


def with_rare_classes(rows: Array, labels: Array, rng: np.random.Generator, most: int) -> Array:
    """Add rows of the classes that have few rows among those chosen.

    Each class gets ten rows, or all it has: an even choice could miss rare classes, or leave them
    with a single row. At most ``most`` rows are added to the chosen ones, which are in ascending
    order; ``labels`` are those of all rows.
    """
    names, counts = np.unique(labels, return_counts=True)
    held = np.bincount(np.searchsorted(names, labels[rows]), minlength=len(names))
    lacking = held < np.minimum(counts, _ROWS_PER_CLASS)
    if not lacking.any():
        return rows
    candidates = rng.permutation(np.flatnonzero(np.isin(labels, names[lacking])))
    order = rng.permutation(len(names))[np.searchsorted(names, labels[candidates])]
    by_class = np.argsort(order, kind="stable")
    sizes = np.unique(order, return_counts=True)[1]
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    more = candidates[by_class[place < _ROWS_PER_CLASS]][:most]
    return np.union1d(rows, more).astype(rows.dtype)
