"""What a kind of supervision must know, and the comparisons that all kinds turn into."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from .._arrays import embedded
from .._rows import choose_rows, open_rows
from .._types import Array, Matrix
from .._validation import warn
from ..scatter import Within, within_pairs
from ._checks import (
    agreement,
    check_index,
    check_numbers,
    check_weight,
    compact,
    split_by,
    triplets_as_pairs,
)


class Split(NamedTuple):
    """Rows to learn from and rows to score on."""

    train_rows: Array  # row numbers; rows without a label come last
    test_rows: Array  # row numbers, ascending
    train: "Supervision"  # what is known about ``X[train_rows]``
    # ``judge(train, test)`` takes both parts as a metric maps them, and returns one score per held-
    # out query; larger is better, and NaN means that there is nothing to find for the query
    judge: Callable[..., Array]
    # parts of the queries that can be scored one after the other: ``judge(train, test, heats[0])``
    heats: list[Array] | None = None
    also: dict[str, Callable[..., Array]] | None = None  # other scores, by name
    queries: Array | None = None  # a number for each query, where several splits may share them
    mutual: bool = False  # whether held-out rows rank each other: see `intervals.best_of_gains`
    # what a learned metric must show: see `estimators._choice.choose`
    evidence: Literal["interval", "one-sided", "default"] = "interval"
    # whether it only says if the choice is worse than the plain distance; such splits come last
    guard: bool = False
    judges_train: bool = True  # whether ``judge`` reads the training rows


class Supervision(ABC):
    """What a user knows about the rows of X, passed to ``fit`` as y.

    Each kind is one class with these methods. Every estimator, `MetricCV` and the command line
    work on any kind through them.
    """

    scorings: tuple[str, ...]
    """Names of the scores that `splits` knows; the first is the default."""

    held_out: str = "rows"
    """What `MetricCV` holds out, in one word."""

    queries: Any = None
    """Further rows with the features of X; they are numbered after the rows of X."""

    families: tuple[str, ...] = ("scatter", "dual", "lifted", "identity", "whitening")
    """What `MetricCV` tries besides the plain distances: `Whitening` ("scatter"), `RidgeMetric`
    ("ridge"), `DuRP` without a prior ("dual"), both over kernel features ("lifted"), and priors."""

    @property
    def _not_an_array(self) -> str:
        return (
            f"{type(self).__name__} names rows by their numbers, but scikit-learn's "
            "cross-validation would split it as if it had one entry per row: use MetricCV, which "
            "holds out pairs, queries or comparisons, or pass an array of labels"
        )

    def __array__(self, *_: Any, **__: Any) -> Array:
        """Refuse: scikit-learn would split the rows, and row numbers would no longer be valid."""
        raise TypeError(self._not_an_array)

    @abstractmethod
    def check(self, n_rows: int) -> Self:
        """Check against X, and return a checked copy.

        Parameters
        ----------
        n_rows : int
            Number of rows of X.

        Returns
        -------
        Supervision
            The same kind, as checked arrays. What is wrong raises a ValueError.
        """

    @abstractmethod
    def choose(self, n_rows: int, max_rows: int | None, rng: np.random.Generator) -> Array:
        """Choose the rows to learn from.

        Parameters
        ----------
        n_rows : int
            Number of rows of X.
        max_rows : int or None
            About how many rows to choose at most; None chooses all.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray of int
            Row numbers, ascending.
        """

    @abstractmethod
    def take(self, rows: Array) -> Self:
        """Return what is known about ``X[rows]``.

        Parameters
        ----------
        rows : ndarray of int
            Row numbers that `choose` returned.

        Returns
        -------
        Supervision
            The same kind, with numbers of rows of ``X[rows]``.
        """

    @abstractmethod
    def compare(
        self, X: Matrix, n: int, sampler: str, margin: float, rng: np.random.Generator
    ) -> "Comparisons":
        """Turn into comparisons over the rows of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_rows, n_features)
            The rows learned from.
        n : int
            How many comparisons to sample, if there are more.
        sampler : {"active", "neighbors"}
            How triplets are sampled from labels.
        margin : float
            Comparisons that hold by more than this difference of squared distances are easy, and
            need not be learned from.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        Comparisons
            Rows that should be closer than others.
        """

    @abstractmethod
    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of the differences of rows that belong together, for whitening.

        Parameters
        ----------
        X : array or CSR matrix
            The rows with the numbers ``rows``.
        rows : ndarray of int
            Their row numbers.

        Returns
        -------
        dualmetric.scatter.Within
            The scatter, not written out.
        """

    @abstractmethod
    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Split for held-out evaluation.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_rows, n_features)
            The rows.
        cv, scoring
            As in `MetricCV`.
        seed : int
            Seed of the splits.

        Yields
        ------
        Split
            Rows to learn from and rows to score on.
        """

    @abstractmethod
    def score(self, metric: Any, X: Any) -> float:
        """Score how well a metric agrees with what is known about X.

        Parameters
        ----------
        metric : Metric
            The metric to score.
        X : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the original features.

        Returns
        -------
        float
            Between 0 and 1; larger is better.
        """


class Comparisons(Supervision):
    """Comparisons (a, b, c, d): "rows a and b should be closer than rows c and d".

    Every kind of supervision is turned into comparisons, which the solver works on.

    Parameters
    ----------
    index : array-like of shape (N, 4)
        Row numbers of X, counted from 0. For a data frame these are positions, not labels of its
        index.
    margin : array-like of shape (N,) or float, optional
        By how much d²(c, d) should exceed d²(a, b), in the unit of squared distances in which the
        problem is solved; 1 if None.
    weight : array-like of shape (N,), optional
        How much each comparison counts; 1 if None.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Comparisons
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0], [1.0, 5.0]]
    >>> model = DuRP(2, random_state=0).fit(X, Comparisons([[0, 1, 0, 2], [2, 3, 1, 3]]))
    >>> model.metric_.distance(X[:1], X[1:2]) < model.metric_.distance(X[:1], X[2:3])
    array([ True])
    """

    scorings: tuple[str, ...] = ("agreement",)
    held_out = "comparisons"
    _what = "comparisons"
    _columns: tuple[str, ...] = ("a", "b", "c", "d")
    _different: tuple[tuple[int, int], ...] = (
        (0, 1),
        (2, 3),
    )  # columns that must not name the same row

    def __init__(self, index: Any, margin: Any = None, weight: Any = None) -> None:
        self.index, self.margin, self.weight = index, margin, weight

    @classmethod
    def of_triplets(cls, triplets: Array) -> "Comparisons":
        """Comparisons (i, j, i, k) of triplets (i, j, k), which have been checked."""
        ones = np.ones(len(triplets))
        return cls(triplets_as_pairs(triplets), ones, ones)

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<{len(self):,} {self._what}>"

    def check(self, n_rows: int) -> Self:
        """Return the same, checked.

        Comparisons of a pair with itself are left out with a warning. Those of weight 0 are left
        out without a warning.
        """
        index = check_index(self.index, self._columns, self._what, n_rows)
        for one, other in self._different:
            same = np.flatnonzero(index[:, one] == index[:, other])
            if len(same):
                raise ValueError(
                    f"{self._what}[{same[0]}] = {index[same[0]].tolist()}: {self._columns[one]} "
                    f"and {self._columns[other]} are the same row, which gives no "
                    "information: leave it out"
                )
        margin = check_numbers(self.margin, "margin", len(index), "comparison")
        weight = check_weight(self.weight, len(index), "comparison")
        near, far = np.split(np.sort(self._pairs(index).reshape(-1, 2, 2), axis=2), 2, axis=1)
        same_pair = (near == far).all(axis=(1, 2))
        silent = same_pair | (weight == 0)
        if silent.all():
            raise ValueError(
                "every comparison compares a pair of rows with itself or has weight 0, so there is "
                "nothing to learn from: compare two different pairs, with weights above 0"
            )
        if same_pair.any():
            warn(
                f"{np.count_nonzero(same_pair):,} of {len(index):,} comparisons compare a pair of "
                "rows with itself, which gives no information: they are left out"
            )
        keep = ~silent
        return self._replaced(compact(index[keep], n_rows), margin[keep], weight[keep])

    def rows(self) -> Array:
        """Row numbers that occur in any comparison, ascending."""
        held = np.zeros(self.index.max(initial=-1) + 1, dtype=bool)
        held[self.index] = True
        return np.flatnonzero(held)

    def choose(self, n_rows: int, max_rows: int | None, rng: np.random.Generator) -> Array:
        """Rows chosen evenly over all, and every row that a comparison names."""
        return np.union1d(choose_rows(n_rows, max_rows, rng), self.rows())

    def take(self, rows: Array) -> Self:
        """Return the same comparisons over ``X[rows]``, where ``rows`` holds all that they name."""
        index = compact(np.searchsorted(rows, self.index), len(rows))
        return self._replaced(index, self.margin, self.weight)

    def with_margin(self, margin: Array) -> "Comparisons":
        """The same comparisons with other margins."""
        return Comparisons(self.index, margin, self.weight)

    def compare(
        self, X: Matrix, n: int, sampler: str, margin: float, rng: np.random.Generator
    ) -> "Comparisons":
        """Return the comparisons themselves: (i, j, i, k) for a triplet (i, j, k)."""
        return Comparisons(self._pairs(self.index), self.margin, self.weight)

    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of the differences of rows that should be close."""
        pairs = np.unique(self._pairs(self.take(rows).index)[:, :2], axis=0)
        return within_pairs(X, *np.ascontiguousarray(pairs.T))

    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Hold out each quarter of the comparisons in turn, or each of ``cv`` folds."""
        from sklearn.model_selection import KFold

        if isinstance(cv, str):
            raise ValueError(
                f"cv={cv!r} does not apply to comparisons: use None, a number of folds or a "
                "splitter"
            )
        places = np.arange(len(self))
        if len(places) < 8:
            raise ValueError(
                f"MetricCV needs at least eight {self._what} to compare settings; got "
                f"{len(places)}. Add some, or use DuRP with fixed settings"
            )
        if cv is None:
            cv = KFold(4, shuffle=True, random_state=seed)
        for train, test in split_by(cv, places, "comparisons"):
            learned, held_out = self._part(train), self._part(test)
            rows, tested = learned.rows(), held_out.rows()
            index = self._pairs(held_out.take(tested).index)

            def judge(_: Any, mapped: Any, index: Array = index) -> Array:
                return agreement(embedded.margins(mapped, index))

            yield Split(rows, tested, learned.take(rows), judge, judges_train=False)

    def _part(self, places: Array) -> Self:
        return self._replaced(self.index[places], self.margin[places], self.weight[places])

    def _replaced(self, index: Array, margin: Array, weight: Array) -> Self:
        new = copy(self)
        new.index, new.margin, new.weight = index, margin, weight
        return new

    @staticmethod
    def _pairs(index: Array) -> Array:
        """Row numbers (a, b, c, d) of each line."""
        return index

    def score(self, metric: Any, X: Any) -> float:
        """Share of the comparisons that the metric satisfies."""
        rows, _ = open_rows(X)
        checked = self.check(rows.shape[0])
        return float(np.mean(agreement(metric.margins(rows, self._pairs(checked.index)))))
