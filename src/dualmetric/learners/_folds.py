"""Which training rows are held out to choose settings by."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from .._types import Array, Rows

MOST_QUERIES = 1500
"""Held-out rows that are scored: enough to tell settings apart, few enough to rank in no time."""

_SHARE = 0.25


class Part(NamedTuple):
    """Rows to learn from and rows to score on.

    Attributes
    ----------
    train, test : ndarray of int
        Row numbers.
    same_classes : bool
        Whether the rows learned from have the classes of those scored on, and can vote on them.
    """

    train: Array
    test: Array
    same_classes: bool


def held_out_parts(X: Rows, codes: Array, cv: Any, seed: int) -> Iterator[Part]:
    """Split rows of the given classes, numbered from 0, as ``cv`` says."""
    rng = np.random.default_rng(seed)
    if cv is None:
        parts: Iterable[Part] = _quarters(codes)
    elif isinstance(cv, str):
        if cv != "classes":
            raise ValueError(f"cv must be None, 'classes', a number of folds or a splitter: {cv!r}")
        parts = _halves_of_classes(codes, rng)
    else:
        splits = check_cv(cv, codes, classifier=True).split(X, codes)
        parts = (Part(train, test, True) for train, test in splits)
    for part in parts:
        yield _with_enough(part, codes, rng)


def _quarters(codes: Array) -> Iterator[Part]:
    """The last quarter of each class, rounded, then the one before it, and so on.

    Never all or all but one of a class is held out; quarters after the first hold only classes of
    eight rows or more. They are not random: where rows next to each other are alike (of one day,
    one person, one stretch of a signal), random ones would be easier than new rows are. Without
    such an order they are as good.
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    place = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    take = np.minimum(np.maximum(np.rint(_SHARE * sizes), 2), np.maximum(sizes - 2, 0))
    for before in range(round(1 / _SHARE)):
        if before:
            take = np.where(sizes >= 8, take, 0)
            if np.count_nonzero(take) < 2:
                return  # one class has nothing to be told apart from
        end = np.repeat(sizes - before * take, sizes)
        held = (place < end) & (place >= end - np.repeat(take, sizes))
        yield Part(np.sort(order[~held]), np.sort(order[held]), True)


def _halves_of_classes(codes: Array, rng: np.random.Generator) -> list[Part]:
    n_classes = int(codes.max()) + 1
    if n_classes < 4:
        raise ValueError(
            f"cv='classes' learns from one half of the classes to rank the other, and y has only "
            f"{n_classes}: it takes four; use cv=None"
        )
    first = np.isin(codes, rng.permutation(n_classes)[: n_classes // 2])
    halves = (np.flatnonzero(first), np.flatnonzero(~first))
    return [Part(halves[0], halves[1], False), Part(halves[1], halves[0], False)]


def _with_enough(part: Part, codes: Array, rng: np.random.Generator) -> Part:
    """At most `MOST_QUERIES` rows are scored, and some must have another of their class."""
    test = part.test
    if len(test) > MOST_QUERIES:
        test = np.sort(rng.choice(test, MOST_QUERIES, replace=False))
    for rows, what in ((part.train, "learn from"), (test, "score on")):
        sizes = np.bincount(codes[rows]) if len(rows) else np.zeros(1)
        if sizes.max() < 2 or np.count_nonzero(sizes) < 2:
            raise ValueError(
                f"too few rows of too few classes are left to {what} when others are held out: "
                "settings cannot be compared; use DuRP, with settings of your own, or another cv"
            )
    return part._replace(test=test)
