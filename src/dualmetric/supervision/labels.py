"""Labels: rows of one class belong together."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import chain
from numbers import Integral
from typing import Any, Self

import numpy as np

from .._arrays import ops, ranking
from .._arrays.namespace import to_numpy
from .._rows import choose_rows, with_rare_classes
from .._types import Array, Matrix
from .._validation import any_missing, are_missing, check_labels, labels_as_given
from ..scatter import Within, within_classes
from ._base import Comparisons, Split, Supervision
from ._checks import check_groups, compact, folds_of, split_by
from .sampling import sample_triplets

MOST_HELD_OUT = 1500
"""Held-out rows that are scored: enough to tell settings apart, few enough to rank quickly."""

N_VOTES = 5
"""Nearest rows that vote on the class of a query."""

_MOST_VOTERS = 10_000
_FEW_ROWS = 400  # up to which more parts are held out while there is doubt
_REPEATS = 6
_FIRST_HEAT = 300  # held-out rows that every candidate is scored on
_SHARE = 0.25
_ENOUGH_CLASSES = 12  # held out, counted as often as they are


class Labels(Supervision):
    """One label per row: what a plain array y stands for.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Numbers, strings or objects that can be sorted. Rows whose label is missing (NaN, None or
        pandas.NA) are not compared. They may still count for the unit of length, the centre, the
        landmarks of a lift and, as one more class, for whitening.
    unknown : object, optional
        Another value of y that marks rows without a label. By default every value that is not
        missing is a class, including −1.
    groups : array-like of shape (n_rows,), optional
        The entity of each row, such as a person or a day: `MetricCV` then holds out whole groups.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Labels
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0], [1.0, 5.0], [0.5, 1.0]]
    >>> model = DuRP(2, n_triplets=4, random_state=0).fit(X, Labels([0, 0, 1, 1, -1], unknown=-1))
    >>> model.metric_.distance(X[:1], X[1:2]) < model.metric_.distance(X[:1], X[2:3])
    array([ True])
    """

    scorings: tuple[str, ...] = ("map", "knn", "both")
    families: tuple[str, ...] = (
        "scatter",
        "ridge",
        "dual",
        "lifted",
        "identity",
        "whitening",
    )

    def __init__(self, y: Any, unknown: Any = None, groups: Any = None) -> None:
        self.y, self.unknown, self.groups = y, unknown, groups
        self.known: Array | None = None  # row numbers of the labels that are known, after `check`

    @property
    def _not_an_array(self) -> str:
        return (
            "scikit-learn's cross-validation cannot split Labels: pass the array of labels itself, "
            "or use MetricCV"
        )

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"<{len(self):,} labels>"

    def check(self, n_rows: int) -> Self:
        """Return checked labels, one per row."""
        y = labels_as_given(self.y, n_rows)
        missing = are_missing(y)
        known = np.flatnonzero(~missing)
        values = check_labels(y[known], len(known))
        marks = ["missing"] if missing.any() else []
        if not any_missing(np.array([self.unknown], dtype=object)):
            kept = values != self.unknown
            known, values = known[kept], values[kept]
            marks.append(repr(self.unknown))
        if not len(known):
            raise ValueError(
                f"no row has a label: every entry of y is {' or '.join(marks)}: give labels for "
                "some rows"
            )
        checked = self._replaced(y, check_groups(self.groups, n_rows, "row"), known)
        if missing.any():  # labels of any type as codes, since nothing missing can be sorted
            checked.y, checked.unknown = np.full(n_rows, -1), -1
            checked.y[known] = np.unique(values, return_inverse=True)[1]
        return checked

    def _replaced(self, y: Array, groups: Array | None, known: Array | None) -> Self:
        new = copy(self)
        new.y, new.groups, new.known = y, groups, known
        return new

    def known_rows(self) -> Array:
        """Numbers of the rows that have a label."""
        return np.arange(len(self.y)) if self.known is None else self.known

    def choose(self, n_rows: int, max_rows: int | None, rng: np.random.Generator) -> Array:
        """Rows chosen evenly over all, and more of the classes that have few among them."""
        rows = choose_rows(n_rows, max_rows, rng)
        if len(rows) == n_rows:
            return rows
        return with_rare_classes(rows, self.y, rng, len(rows))

    def take(self, rows: Array) -> Self:
        """Return the labels of the given rows."""
        known = np.flatnonzero(np.isin(rows, self.known_rows()))
        return self._replaced(
            self.y[rows], None if self.groups is None else self.groups[rows], known
        )

    def compare(
        self, X: Matrix, n: int, sampler: str, margin: float, rng: np.random.Generator
    ) -> Comparisons:
        """Sample triplets."""
        known = self.known_rows()
        if len(known) == len(self.y):
            return Comparisons.of_triplets(
                sample_triplets(X, self.y, n, sampler, rng, margin=margin)
            )
        part = ops.take_rows(X, known)
        found = sample_triplets(part, self.y[known], n, sampler, rng, margin=margin)
        return Comparisons.of_triplets(compact(known[found], X.shape[0]))

    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of rows about the mean of their class."""
        return within_classes(X, self.y[rows])

    def score(self, metric: Any, X: Any) -> float:
        """Mean average precision with each row as a query (1,000 rows, if X is not in memory)."""
        from ..labelled import MOST_QUERIES, mean_average_precision

        mapped = metric.transform(X)
        known = self.known_rows()
        if len(known) < len(self.y):
            return mean_average_precision(ops.take_rows(mapped, known), self.y[known])
        read = isinstance(mapped, np.ndarray) and not getattr(X, "in_memory", True)
        return mean_average_precision(mapped, self.y, MOST_QUERIES if read else None)

    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Hold out rows of each class, or whole classes, as ``cv`` says: see `MetricCV`."""
        known = self.known_rows()
        others = np.setdiff1d(np.arange(len(self.y)), known)
        codes = np.unique(self.y[known], return_inverse=True)[1]
        if not codes.any():
            raise ValueError("y has one class only: give labels of at least two classes")
        rng = np.random.default_rng(seed)
        parts: Iterable[tuple[Array, Array]]
        groups = None if self.groups is None else self.groups[known]
        if groups is not None and isinstance(cv, str):
            raise ValueError(
                "cv='classes' holds out whole classes and cannot keep groups together as well: "
                "leave out groups, or cv"
            )
        if groups is not None and isinstance(cv, Integral | None):
            folds = folds_of(groups, 4 if cv is None else int(cv), seed)
            parts = [(np.setdiff1d(np.arange(len(known)), test), test) for test in folds]
        elif cv is None:
            parts = chain(_quarters(codes), _at_random(codes, rng))
        elif isinstance(cv, str):
            if cv != "classes":
                raise ValueError(
                    f"cv must be None, 'classes', a number of folds or a splitter; got {cv!r}"
                )
            parts = _folds_of_classes(codes, rng)
        else:
            parts = split_by(cv, codes, "rows", codes, groups)
        for train, test in parts:
            if len(test) > MOST_HELD_OUT:
                test = np.sort(rng.choice(test, MOST_HELD_OUT, replace=False))
            _check_part(codes[train], "learn from")
            _check_part(codes[test], "score on")
            judges = _judges(codes[train], codes[test], cv != "classes", seed)
            learned = self._replaced(np.append(codes[train], np.full(len(others), -1)), None, None)
            learned.known = np.arange(len(train))
            judge = judges.pop(scoring)
            judges.pop("both", None)
            # queries in random order, those that have nothing to find aside
            findable = np.bincount(codes[test])[codes[test]] >= (1 if scoring == "knn" else 2)
            mixed = rng.permutation(np.flatnonzero(findable))
            heats = [mixed[:_FIRST_HEAT], mixed[_FIRST_HEAT:]]
            yield Split(
                np.append(known[train], others),
                known[test],
                learned,
                judge,
                heats if len(heats[1]) and cv != "classes" else None,
                judges,
                # rows of one class say the same about new classes, so each class counts once
                codes[test] if cv == "classes" else known[test],
                mutual=scoring != "knn" and cv != "classes",
                evidence="default" if cv == "classes" else "interval",
            )


def _quarters(codes: Array) -> Iterator[tuple[Array, Array]]:
    """The last quarter of each class, rounded, then the one before it, and so on.

    At least two rows of a class are always learned from. Quarters after the first hold only classes
    of eight rows or more. They are not random: if neighbouring rows are similar (of one day, one
    person or one part of a signal), random rows would be easier than new rows are. Without such an
    order, this is as good as a random choice.
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    place = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    take = np.minimum(np.maximum(np.rint(_SHARE * sizes), 2), np.maximum(sizes - 2, 0))
    for before in range(round(1 / _SHARE)):
        if before:
            take = np.where(sizes >= 8, take, 0)
            if np.count_nonzero(take) < 2:
                return  # one class alone has nothing to be told apart from
        end = np.repeat(sizes - before * take, sizes)
        held = (place < end) & (place >= end - np.repeat(take, sizes))
        yield np.sort(order[~held]), np.sort(order[held])


def _at_random(codes: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Quarters of each class drawn at random, for few rows: they are held out several times.

    One held-out part of few rows says little, and classes of fewer than eight rows have only one
    part.
    """
    if len(codes) > _FEW_ROWS:
        return
    for _ in range(_REPEATS):
        order = rng.permutation(len(codes))
        yield next(
            (np.sort(order[train]), np.sort(order[test])) for train, test in _quarters(codes[order])
        )


def _folds_of_classes(codes: Array, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Thirds of the classes, or halves of fewer than six; few classes are divided several times."""
    n_classes = int(codes.max()) + 1
    if n_classes < 4:
        raise ValueError(
            "cv='classes' learns from some of the classes and ranks the others, which needs at "
            f"least four classes; y has {n_classes}: use cv=None"
        )
    parts = []
    for _ in range(-(-_ENOUGH_CLASSES // n_classes)):
        for held in np.array_split(rng.permutation(n_classes), min(3, n_classes // 2)):
            is_held = np.isin(codes, held)
            parts.append((np.flatnonzero(~is_held), np.flatnonzero(is_held)))
    return parts


def _check_part(codes: Array, purpose: str) -> None:
    sizes = np.bincount(codes) if len(codes) else np.zeros(1)
    if sizes.max() < 2 or np.count_nonzero(sizes) < 2:
        raise ValueError(
            f"after some rows are held out, too few rows or classes are left to {purpose}: at "
            "least two classes are needed, and one with two rows. Which rows are held out follows "
            "from cv and groups: use fewer folds, shuffled ones, or cv='classes' to learn for new "
            "classes. Or label more rows, or use RidgeMetric, which chooses its penalty without "
            "held-out rows"
        )


def _judges(
    train_codes: Array, test_codes: Array, votes: bool, seed: int
) -> dict[str, Callable[[Matrix, Matrix, Array | None], Array]]:
    """Functions of training and test rows in some space to a score for each test row.

    With ``votes``, the nearest training rows vote; otherwise these have other classes, and held-out
    rows are each other's neighbours.
    """
    everything, sizes = np.arange(len(test_codes)), np.bincount(test_codes)
    voters = np.arange(len(train_codes))
    if len(voters) > _MOST_VOTERS:
        voters = np.random.default_rng(seed).choice(voters, _MOST_VOTERS, replace=False)

    def ranked(_: Matrix, test: Matrix, heat: Array | None = None) -> Array:
        asked = everything if heat is None else heat
        rows = ranking.check_float64(test)
        return to_numpy(ranking.average_precisions(rows, test_codes, sizes, asked))

    def right(train: Matrix, test: Matrix, heat: Array | None = None) -> Array:
        asked = everything if heat is None else heat
        queries = ops.take_rows(test, asked)
        if not votes:
            return ranking.right_shares(
                test, test_codes, queries, test_codes[asked], N_VOTES, asked
            )
        rows = ops.take_rows(train, voters)
        return ranking.right_shares(rows, train_codes[voters], queries, test_codes[asked], N_VOTES)

    def both(train: Matrix, test: Matrix, heat: Array | None = None) -> Array:
        return (ranked(train, test, heat) + right(train, test, heat)) / 2.0

    return {"map": ranked, "knn": right, "both": both}
