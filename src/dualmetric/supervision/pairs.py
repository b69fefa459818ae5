"""Pairs: rows that are the same, or different."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Self

import numpy as np

from .. import measures
from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._rows import choose_rows, open_rows
from .._types import Array, Matrix
from .._validation import refuse_mask, warn
from ..scatter import Within, within_pairs
from ._base import Comparisons, Split, Supervision, check_groups, check_pairs, compact, folds_of

_ROUNDS = 20  # of drawing comparisons until enough are active


class Pairs(Supervision):
    """Pairs of rows, the same or different: "these two records are one product".

    Each pair that is the same is compared with pairs that are different, so that there is no
    threshold to learn: it is chosen afterwards. Where no pair is different, random pairs of rows
    that are not known to be the same take their place.

    Parameters
    ----------
    index : array-like of shape (N, 2)
        Row numbers of X.
    same : array-like of shape (N,), optional
        True or 1 for pairs that are the same, False, 0 or −1 for those that are not. None says
        that all are the same.
    weight : array-like of shape (N,), optional
        How much each pair counts; 1 if None.
    groups : array-like of shape (n_rows,), optional
        The entity of each row, where it is known: `MetricCV` then holds out whole entities.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Pairs
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0], [1.0, 5.0]]
    >>> pairs = Pairs([[0, 1], [2, 3], [0, 2], [1, 3]], [True, True, False, False])
    >>> model = DuRP(2, random_state=0).fit(X, pairs)
    >>> model.metric_.distance(X[:1], X[1:2]) < model.metric_.distance(X[:1], X[2:3])
    array([ True])
    """

    scorings: tuple[str, ...] = ("average_precision",)
    families: tuple[str, ...] = ("prior",)

    def __init__(self, index: Any, same: Any = None, weight: Any = None, groups: Any = None):
        self.index, self.same, self.weight, self.groups = index, same, weight, groups

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<{len(self):,} pairs>"

    def check(self, n_rows: int) -> Self:
        """Return the same, checked: repeated pairs once, and contradictions left out."""
        new = self._read(n_rows)
        ordered = np.sort(new.index, axis=1)
        order = np.lexsort((new.same, ordered[:, 1], ordered[:, 0]))
        again = (np.diff(ordered[order], axis=0) == 0).all(axis=1)
        first = np.concatenate([[True], ~again])
        run = np.cumsum(first) - 1
        same = new.same[order]
        clash = np.bincount(run, same) % np.bincount(run) > 0
        if clash.any():
            one, other = sorted(order[np.flatnonzero(run == np.flatnonzero(clash)[0])][[0, -1]])
            warn(
                f"{np.count_nonzero(clash):,} pairs are given both as the same and as different, "
                f"such as pairs[{one}] and pairs[{other}], rows {new.index[one].tolist()}: they "
                "are left out"
            )
        keep = np.sort(order[first & ~clash[run] & (new.weight[order] > 0)])
        if not new.same[keep].any():
            raise ValueError(
                "no pair is the same: at least one is needed, to be compared with those that are "
                "different"
            )
        new = new._part(keep)
        new.index = compact(new.index, n_rows)
        return new

    def _read(self, n_rows: int) -> Self:
        """Every pair that was given, as arrays."""
        index = check_pairs(self.index, "pairs", n_rows, n_rows, ("a", "b"))
        own = np.flatnonzero(index[:, 0] == index[:, 1])
        if len(own):
            raise ValueError(
                f"pairs[{own[0]}] = {index[own[0]].tolist()} is a pair of a row with itself, which "
                "says nothing; leave it out"
            )
        weight = Comparisons._per_comparison(self.weight, "weight", len(index))
        if (weight < 0).any():
            line = int(np.flatnonzero(weight < 0)[0])
            raise ValueError(f"weight[{line}] = {weight[line]:g} is negative: weights start at 0")
        new = copy(self)
        new.index, new.same, new.weight = index, _check_same(self.same, len(index)), weight
        new.groups = check_groups(self.groups, n_rows, "row")
        return new

    def choose(self, n_rows: int, max_rows: int | None, rng: np.random.Generator) -> Array:
        """Rows chosen evenly over all, and every row that a pair names."""
        return np.union1d(choose_rows(n_rows, max_rows, rng), self.index)

    def take(self, rows: Array) -> Self:
        """Return the same pairs over ``X[rows]``, where ``rows`` holds all that they name."""
        new = copy(self)
        new.index = compact(np.searchsorted(rows, self.index), len(rows))
        new.groups = None if self.groups is None else self.groups[rows]
        return new

    def compare(
        self, X: Matrix, n: int, sampler: str, margin: float, rng: np.random.Generator
    ) -> Comparisons:
        """Draw a pair that is the same and one that is different, and keep those in doubt.

        In doubt are comparisons whose different pair is not farther apart by more than the margin.
        Where there is none, all that were drawn are kept.
        """
        near = np.flatnonzero(self.same)
        far, weight = self.index[~self.same], self.weight[~self.same]
        if not len(far):
            far = self._other_pairs(X.shape[0], max(len(near), 1000), rng)
            weight = np.ones(len(far))
        distance = ops.sq_distances(X, *np.ascontiguousarray(self.index[near].T))
        apart = ops.sq_distances(X, *np.ascontiguousarray(far.T))
        found: list[Array] = []
        drawn = np.empty((0, 2), dtype=np.int64)
        for _ in range(_ROUNDS):
            drawn = rng.integers([[len(near)], [len(far)]], size=(2, n)).T
            found.append(drawn[apart[drawn[:, 1]] - distance[drawn[:, 0]] < margin])
            if sum(map(len, found)) >= n or (_ == 0 and not len(found[0])):
                break
        one, other = (np.concatenate(found) if len(found[0]) else drawn)[:n].T
        index = compact(np.column_stack([self.index[near[one]], far[other]]), X.shape[0])
        return Comparisons(index, np.ones(len(index)), self.weight[near[one]] * weight[other])

    def _other_pairs(self, n_rows: int, count: int, rng: np.random.Generator) -> Array:
        """Random pairs of rows that are not known to be the same."""
        ordered = np.sort(self.index.astype(np.int64), axis=1)
        known = np.unique(ordered[:, 0] * n_rows + ordered[:, 1])
        drawn = np.sort(rng.integers(n_rows, size=(4 * count, 2)), axis=1)
        codes = drawn[:, 0] * n_rows + drawn[:, 1]
        drawn = drawn[(drawn[:, 0] != drawn[:, 1]) & ~np.isin(codes, known)]
        if not len(drawn):
            raise ValueError(
                "no pair is different, and X has no other rows to draw pairs from: give pairs that "
                "are different, or more rows"
            )
        return drawn[:count]

    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of the differences of pairs that are the same."""
        pairs = np.searchsorted(rows, self.index[self.same])
        return within_pairs(X, *np.ascontiguousarray(pairs.T))

    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Hold out a quarter of the pairs, or those of a quarter of the entities."""
        from sklearn.model_selection import StratifiedKFold, check_cv

        if isinstance(cv, str):
            raise ValueError(
                f"cv={cv!r} does not apply to pairs: use None, a number of folds or a splitter, "
                "or give Pairs the entity of each row (groups)"
            )
        if np.count_nonzero(self.same) < 4 or np.count_nonzero(~self.same) < 4:
            raise ValueError(
                "settings are compared on held-out pairs, which takes at least four that are the "
                f"same and four that are different; got {np.count_nonzero(self.same)} and "
                f"{np.count_nonzero(~self.same)}. Use DuRP, with settings of your own"
            )
        if self.groups is not None and cv is None:
            for test in folds_of(self.groups, 4, seed):
                out = np.asarray(np.isin(self.index, test).any(axis=1))
                if self.same[out].any() and not self.same[out].all() and self.same[~out].any():
                    yield self._split(~out, out)
            return
        if cv is None:
            cv = StratifiedKFold(4, shuffle=True, random_state=seed)
        for train, test in check_cv(cv, self.same, classifier=True).split(self.index, self.same):
            yield self._split(train, test)

    def _split(self, train: Array, test: Array) -> Split:
        learned, held_out = self._part(train), self._part(test)
        rows, tested = np.unique(learned.index), np.unique(held_out.index)
        return Split(rows, tested, learned.take(rows), held_out.take(tested)._judge())

    def _part(self, keep: Array) -> Self:
        new = copy(self)
        new.index, new.same, new.weight = self.index[keep], self.same[keep], self.weight[keep]
        return new

    def _judge(self) -> Callable[[Matrix, Matrix], Array]:
        return lambda _, mapped: self.precisions(mapped)

    def precisions(self, mapped: Matrix) -> Array:
        """Precision at each pair that is the same; their mean is the average precision."""
        distance = ops.sq_distances(mapped, *np.ascontiguousarray(self.index.T))
        return measures.pair_precisions(distance, self.same)

    def score(self, metric: Any, X: Any) -> float:
        """Average precision of telling pairs that are the same by their distance."""
        rows, _ = open_rows(X)
        given = self._read(rows.shape[0])
        if not given.same.any():
            raise ValueError("no pair is the same: there is nothing to find")
        named = np.unique(given.index)
        mapped = ops.canonical(metric.transform(rows.take(named)))
        return float(np.mean(given.take(named).precisions(mapped)))


def _check_same(same: Any, n: int) -> Array:
    if same is None:
        return np.ones(n, dtype=bool)
    refuse_mask(same, "same")
    values = np.asarray(to_numpy(same))
    if values.shape != (n,):
        raise ValueError(
            f"same must hold one value per pair, shape ({n},); got shape {values.shape}"
        )
    if values.dtype.kind not in "biuf" or not np.isin(values, (-1, 0, 1)).all():
        raise ValueError(
            "same must hold True or 1 for pairs that are the same and False, 0 or -1 for those "
            f"that are not; got {np.unique(values)[:4].tolist()}"
        )
    return values > 0
