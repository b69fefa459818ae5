"""Pairs: rows that are the same, or different."""

from collections.abc import Callable, Iterator
from copy import copy
from numbers import Integral
from typing import Any, Self

import numpy as np

from .. import measures
from .._arrays import embedded, ops
from .._arrays.embedded import Embedded
from .._arrays.namespace import to_numpy
from .._rows import choose_rows, open_rows
from .._types import Array, Matrix
from .._validation import refuse_mask, warn
from ..scatter import Within, within_pairs
from ._base import Comparisons, Split, Supervision
from ._checks import (
    check_groups,
    check_index,
    check_weight,
    compact,
    folds_of,
    pairs_among,
    split_by,
)
from .sampling import most_listed

_ROUNDS = 20  # of drawing comparisons until enough are in doubt
_FEWEST = 1000  # drawn at least, so that few pairs do not depend on chance


class Pairs(Supervision):
    """Pairs of rows, the same or different: "these two records are one product".

    Each pair that is the same is compared with pairs that are different, so no threshold is
    learned; it is chosen afterwards. If no pair is labelled as different, random pairs of rows that
    are not known to be the same are used instead. A pair that is given several times counts once; a
    pair that is given both as the same and as different is left out. Pairs say little about each
    row, so learn from them with ``prior="identity"``.

    Parameters
    ----------
    index : array-like of shape (N, 2)
        Row numbers of X, counted from 0. For a data frame these are positions, not labels of its
        index.
    same : array-like of shape (N,), optional
        True or 1 for pairs that are the same, False, 0 or −1 for those that are not. None labels
        all pairs as the same.
    weight : array-like of shape (N,), optional
        How much each pair counts; 1 if None.
    groups : array-like of shape (n_rows,), optional
        The entity of each row: `MetricCV` then holds out whole entities, and random pairs are drawn
        from different entities.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Pairs
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0], [1.0, 5.0]]
    >>> pairs = Pairs([[0, 1], [2, 3], [0, 2], [1, 3]], [True, True, False, False])
    >>> model = DuRP(2, prior="identity", random_state=0).fit(X, pairs)
    >>> model.metric_.distance(X[:1], X[1:2]) < model.metric_.distance(X[:1], X[2:3])
    array([ True])
    """

    scorings: tuple[str, ...] = ("average_precision",)
    families: tuple[str, ...] = ("identity", "dual", "lifted")
    held_out = "pairs"

    def __init__(
        self, index: Any, same: Any = None, weight: Any = None, groups: Any = None
    ) -> None:
        self.index, self.same, self.weight, self.groups = index, same, weight, groups

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<{len(self):,} pairs>"

    def check(self, n_rows: int) -> Self:
        """Return the same, checked: repeated pairs once, and contradictions left out."""
        index = check_index(self.index, ("a", "b"), "pairs", n_rows)
        own = np.flatnonzero(index[:, 0] == index[:, 1])
        if len(own):
            raise ValueError(
                f"pairs[{own[0]}] = {index[own[0]].tolist()} pairs a row with itself, which "
                "gives no information: leave it out"
            )
        same = _check_same(self.same, len(index))
        weight = check_weight(self.weight, len(index), "pair")
        lines = np.flatnonzero(weight > 0)
        _, first, pair = np.unique(
            _codes(index[lines], n_rows), return_index=True, return_inverse=True
        )
        n_same, n_given = np.bincount(pair, same[lines]), np.bincount(pair)
        clash = (n_same > 0) & (n_same < n_given)
        if clash.any():
            both = lines[pair == pair[np.argmax(clash[pair])]]
            other = both[same[both] != same[both[0]]][0]
            a, b = index[both[0]].tolist()
            warn(
                "pairs that are given both as the same and as different are left out: "
                f"{np.count_nonzero(clash):,}, such as pairs[{both[0]}] and pairs[{other}], rows "
                f"{a} and {b}"
            )
        keep = lines[np.sort(first[~clash])]
        if not same[keep].any():
            left_out = " (pairs of weight 0 and contradictions are left out)"
            raise ValueError(
                f"no pair is labelled as the same{left_out if same.any() else ''}: add at least "
                "one, to compare with pairs that are different"
            )
        new = copy(self)
        new.index, new.same, new.weight = compact(index[keep], n_rows), same[keep], weight[keep]
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
        """Compare random pairs of both kinds, and keep the comparisons that are in doubt.

        A comparison is in doubt if its different pair is not farther apart by more than the margin.
        If none is, all that were drawn are kept. No comparison is drawn twice.
        """
        # of its own: how many rounds are needed must not change what is drawn after them
        rng = np.random.default_rng(rng.integers(2**63))
        pairs = self._with_different(X.shape[0], rng)
        near, far = np.flatnonzero(pairs.same), np.flatnonzero(~pairs.same)
        distance = ops.sq_distances(X, *np.ascontiguousarray(pairs.index.T))

        def in_doubt(drawn: Array) -> Array:
            one, other = np.divmod(drawn, len(far))
            return drawn[distance[far[other]] - distance[near[one]] < margin]

        total = len(near) * len(far)
        if total <= most_listed(n):
            drawn = rng.permutation(total)
            found = in_doubt(drawn)
        else:
            found = np.empty(0, dtype=np.int64)
            for _ in range(_ROUNDS):
                drawn = rng.integers(total, size=max(n, _FEWEST))
                found = np.concatenate([found, in_doubt(drawn)])
                found = found[np.sort(np.unique(found, return_index=True)[1])]
                if not len(found) or len(found) >= n:
                    break
        one, other = np.divmod((found if len(found) else drawn)[:n], len(far))
        index = np.column_stack([pairs.index[near[one]], pairs.index[far[other]]])
        weight = pairs.weight[near[one]] * pairs.weight[far[other]]
        return Comparisons(compact(index, X.shape[0]), np.ones(len(index)), weight)

    def _with_different(self, n_rows: int, rng: np.random.Generator) -> Self:
        """The same; where all pairs are labelled as the same, with random different ones."""
        if not self.same.all():
            return self
        count = max(len(self), _FEWEST)
        if n_rows * (n_rows - 1) // 2 <= 4 * count:
            drawn = rng.permutation(np.column_stack(np.triu_indices(n_rows, 1)))
        else:
            drawn = rng.integers(n_rows, size=(4 * count, 2))
        left, right = drawn.T
        free = (left != right) & ~np.isin(_codes(drawn, n_rows), _codes(self.index, n_rows))
        if self.groups is not None:
            free &= self.groups[left] != self.groups[right]
        drawn = drawn[free][:count]
        if not len(drawn):
            raise ValueError(
                "no pair is labelled as different, and X has no other rows to draw pairs from: add "
                "such pairs, or rows"
            )
        new = copy(self)
        new.index = np.concatenate([self.index, drawn.astype(self.index.dtype)])
        new.same = np.append(self.same, np.zeros(len(drawn), dtype=bool))
        new.weight = np.append(self.weight, np.ones(len(drawn)))
        return new

    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of the differences of pairs that are the same, both of the given rows."""
        return within_pairs(X, *pairs_among(rows, self.index[self.same]))

    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Hold out a quarter of the pairs, or those of a quarter of the groups.

        A number is the number of folds. A splitter is given the pairs.
        """
        from sklearn.model_selection import StratifiedKFold

        if isinstance(cv, str):
            raise ValueError(
                f"cv={cv!r} does not apply to pairs: use None, a number of folds or a splitter, "
                "or give Pairs the entity of each row (groups)"
            )
        pairs = self._with_different(X.shape[0], np.random.default_rng(seed))
        n_same, n_all = np.count_nonzero(pairs.same), len(pairs)
        if min(n_same, n_all - n_same) < 4:
            others = f"and {n_all - n_same} that are different"
            if self.same.all():
                others = f"(and drew {n_all - n_same} random pairs as different ones)"
            raise ValueError(
                "MetricCV needs at least four pairs of each kind to compare settings; got "
                f"{n_same} that are the same {others}. Add pairs, or use DuRP with fixed settings"
            )
        if self.groups is not None and isinstance(cv, Integral | None):
            yield from pairs._splits_by_group(4 if cv is None else int(cv), seed)
            return
        if cv is None:
            cv = StratifiedKFold(4, shuffle=True, random_state=seed)
        for train, test in split_by(cv, pairs.index, "pairs", pairs.same):
            yield pairs._split(train, test)

    def _splits_by_group(self, n_folds: int, seed: int) -> Iterator[Split]:
        """Hold out every pair with a row of some groups; others are learned from."""
        n_yielded = 0
        for test in folds_of(self.groups, n_folds, seed):
            out = np.asarray(np.isin(self.index, test).any(axis=1))
            if self.same[out].any() and not self.same[out].all() and self.same[~out].any():
                n_yielded += 1
                yield self._split(~out, out)
        if not n_yielded:
            raise ValueError(
                "no fold of the groups has both same and different pairs with enough pairs left "
                "for training: give more groups or more pairs, or leave groups out"
            )

    def _split(self, train: Array, test: Array) -> Split:
        learned, held_out = self._part(train), self._part(test)
        rows, tested = np.unique(learned.index), np.unique(held_out.index)
        judge = held_out.take(tested)._judge()
        return Split(rows, tested, learned.take(rows), judge, judges_train=False)

    def _part(self, keep: Array) -> Self:
        new = copy(self)
        new.index, new.same, new.weight = self.index[keep], self.same[keep], self.weight[keep]
        return new

    def _judge(self) -> Callable[..., Array]:
        return lambda _, mapped: self.values(mapped)

    def values(self, mapped: Matrix | Embedded) -> Array:
        """One value per pair that is the same, whose mean is the average precision."""
        return measures.pair_values(embedded.sq_distances(mapped, self.index), self.same)

    def score(self, metric: Any, X: Any) -> float:
        """Average precision of ranking pairs by distance: same pairs should come first."""
        rows, _ = open_rows(X)
        n = rows.shape[0]
        pairs = self.check(n)._with_different(n, np.random.default_rng(0))
        named = np.unique(pairs.index)
        return float(np.mean(pairs.take(named).values(metric.embedding(rows.take(named)))))


def _codes(index: Array, n_rows: int) -> Array:
    """One number for each pair of rows, in whichever order."""
    low, high = np.sort(index.astype(np.int64), axis=1).T
    return low * n_rows + high


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
