"""Documents that were found relevant to queries: what `Positives` and `Relevance` share."""

from collections.abc import Callable, Iterator
from copy import copy
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .. import measures
from .._arrays import embedded, judged, ranking
from .._arrays.embedded import Embedded
from .._arrays.namespace import precision
from .._options import Option
from .._rows import choose_rows, open_rows
from .._types import Array, Matrix
from .._validation import warn
from ..scatter import Within, within_pairs
from ._base import Comparisons, Split, Supervision
from ._checks import (
    check_groups,
    check_numbers,
    check_pairs,
    compact,
    folds_of,
    pairs_among,
    split_by,
)
from .mining import DEPTH, MARGIN, mined

MOST_HELD_OUT = 1500
"""Held-out queries that are scored."""

MOST = 50
"""Largest grade: the gains of larger grades would exceed the precision of floats."""

_COUNT = Option("int", "How many comparisons per relevant document.", low=1)


class Judged(Supervision):
    """Judgements (query, document, grade), with queries among the rows of X or beside them.

    Inside a fit the queries are rows below the documents: `take` numbers them so, and the methods
    after it read ``index`` as numbers of these rows.
    """

    scorings: tuple[str, ...] = ("ndcg", "map", "recall", "precision", "hit_rate")
    families: tuple[str, ...] = ("identity", "dual")
    held_out = "queries"
    cvs: tuple[str, ...] = ("queries", "documents")
    _what = "judgements"

    def __init__(
        self,
        index: Any,
        queries: Any = None,
        *,
        depth: int = 100,
        n_negatives: int = 30,
        relative_margin: float | None = None,
        groups: Any = None,
    ) -> None:
        self.index, self.queries = index, queries
        self.grade: Any = None  # of each pair, after `check`
        self.depth, self.n_negatives, self.relative_margin = depth, n_negatives, relative_margin
        self.groups = groups
        self.n_documents: int | None = None  # known after `check`

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<{len(self):,} {self._what}>"

    def _read(self, n_queries: int, n_documents: int) -> tuple[Any, Any]:
        """Pairs of query and document, and their grades, as they were given."""
        return self.index, self.grade

    def check(self, n_rows: int) -> Self:
        """Return the same, checked; queries without a relevant document are left out."""
        DEPTH.check("depth", self.depth)
        _COUNT.check("n_negatives", self.n_negatives)
        MARGIN.check("relative_margin", self.relative_margin)
        queries = None if self.queries is None else open_rows(self.queries, name="queries")[0]
        n_queries = n_rows if queries is None else queries.shape[0]
        given, grade = self._read(n_queries, n_rows)
        index = check_pairs(given, self._what, n_queries, n_rows)
        if queries is None:
            own = np.flatnonzero(index[:, 0] == index[:, 1])
            if len(own):
                raise ValueError(
                    f"{self._what}[{own[0]}] = {index[own[0]].tolist()} says that a row is "
                    "relevant to itself: leave it out"
                )
        grade = _check_grades(grade, len(index), self._what)
        index, grade = _once(index, grade, self._what)
        answered = np.isin(index[:, 0], index[grade > 0, 0])
        if not answered.any():
            raise ValueError(
                "no query has a relevant document: all grades are 0; give grades above 0 to "
                "documents that are relevant"
            )
        if not answered.all():
            n_left = len(np.unique(index[~answered, 0]))
            warn(f"queries without a relevant document are left out: {n_left:,}")
            index, grade = index[answered], grade[answered]
        new = copy(self)
        new.index, new.grade, new.queries, new.n_documents = index, grade, queries, n_rows
        new.groups = check_groups(self.groups, n_queries, "query")
        return new

    def choose(self, n_rows: int, max_rows: int | None, rng: np.random.Generator) -> Array:
        """Documents chosen evenly over all and all that are judged, and the queries."""
        documents = np.union1d(choose_rows(n_rows, max_rows, rng), self.index[:, 1])
        asked = np.unique(self.index[:, 0]) + (0 if self.queries is None else n_rows)
        return np.union1d(documents, asked)

    def take(self, rows: Array) -> Self:
        """Return the same over the given rows, which hold every row that is named."""
        n = self._documents_known()
        numbers = self.index + np.array([0 if self.queries is None else n, 0])
        new = copy(self)
        new.index = compact(np.searchsorted(rows, numbers), len(rows))
        new.n_documents = int(np.searchsorted(rows, n))
        if self.groups is not None:
            new.groups = np.zeros(len(rows), dtype=self.groups.dtype)
            asked, first = np.unique(new.index[:, 0], return_index=True)
            new.groups[asked] = self.groups[self.index[first, 0]]
        new.queries = None
        return new

    def compare(
        self, X: Matrix, n: int, sampler: str, margin: float, rng: np.random.Generator
    ) -> Comparisons:
        """Relevant documents against those nearest to the query, and those of lower grades."""
        right = self.index[self.grade > 0]
        found = mined(X, self._documents_known(), right, self.depth, self.relative_margin)
        query, near, far, grades = self._drawn(found.pairs, n, rng)
        index = compact(np.column_stack([query, near, query, far]), X.shape[0])
        return Comparisons(index, np.ones(len(index)), self._weights(X, query, near, far, grades))

    def _drawn(
        self, negatives: Array, n: int, rng: np.random.Generator
    ) -> tuple[Array, Array, Array, Array]:
        """Query, better document, worse document, and the grades of both.

        A query gets ``n_negatives`` different comparisons for each of its relevant documents, or
        all it has; every comparison of a query is as likely as the others.
        """
        # what a relevant document may be compared with: mined ones, and all that are judged
        index = np.concatenate([negatives, self.index])
        levels = np.unique(np.append(self.grade, 0.0))
        level = np.zeros(len(index), dtype=np.int64)
        level[len(negatives) :] = np.searchsorted(levels, self.grade)
        asks = np.bincount(index[:, 0]) > 0
        asked, place = np.flatnonzero(asks), (np.cumsum(asks) - 1)[index[:, 0]]
        # sorted by query and grade: of a query, documents of lower grades come first; then by their
        # numbers, so that it does not matter which of two documents at one distance is nearer
        key = place * len(levels) + level
        order = np.lexsort((index[:, 1], key))
        key, place = key[order], place[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(key))])
        first = starts[place * len(levels)]
        n_worse = starts[key] - first
        # comparisons are numbered, those of a query one after the other
        ends = np.cumsum(n_worse)
        size = np.bincount(place, n_worse).astype(np.int64)
        n_right = np.bincount(place, key % len(levels) > 0).astype(np.int64)
        wanted = n_right * min(self.n_negatives, -(-n // n_right.sum()))
        query = np.repeat(np.arange(len(asked)), wanted)
        chance, other = rng.random((2, len(query)))
        step = np.arange(len(query)) - (np.cumsum(wanted) - wanted)[query]
        drawn = np.where((size <= wanted)[query], step, chance * size[query])
        numbers = (np.cumsum(size) - size)[query] + drawn.astype(np.int64)
        some = step < size[query]
        numbers, at = np.unique(numbers[some], return_index=True)
        if not len(numbers):
            raise ValueError(
                "no query has two documents to compare: all documents are relevant, or left out by "
                "relative_margin. Set relative_margin=None, or give other documents"
            )
        if len(numbers) > n:
            # each by a number of its own: one more or less does not change which others stay
            numbers = numbers[np.sort(np.argpartition(other[some][at], n)[:n])]
        better = np.searchsorted(ends, numbers, "right")
        worse = first[better] + numbers - (ends - n_worse)[better]
        near, far = order[better], order[worse]
        grades = levels[np.column_stack([level[near], level[far]])]
        return index[near, 0], index[near, 1], index[far, 1], grades

    def _weights(self, X: Matrix, query: Array, near: Array, far: Array, grades: Array) -> Array:
        return np.ones(len(query))

    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of the differences between queries and relevant documents, of the given rows."""
        return within_pairs(X, *pairs_among(rows, self.index[self.grade > 0]))

    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Hold out queries.

        ``"queries"`` takes them at random, or by group. ``"documents"`` takes them with all queries
        that share relevant documents with them, so that no document that is relevant to a held-out
        query is judged in training. None does both: the second come last, and only say which
        metrics are worse than the plain distance. A number is the number of folds of ``"queries"``;
        a splitter is given the queries, and their groups.
        """
        asked = np.unique(self.index[self.grade > 0, 0])
        if len(asked) < 4:
            raise ValueError(
                "MetricCV needs at least four queries with a relevant document to compare "
                f"settings; got {len(asked)}. Add queries, or use DuRP with fixed settings"
            )
        if isinstance(cv, str) and cv not in self.cvs:
            raise ValueError(
                f"cv must be None, {', '.join(map(repr, self.cvs))}, a number of folds or a "
                f"splitter; got {cv!r}"
            )
        groups = None if self.groups is None else self.groups[asked]
        if not isinstance(cv, str | Integral | None):
            for _, test in split_by(cv, asked, "queries", groups=groups):
                yield self._split(asked[test], scoring)
            return
        apart: list[Array] = []
        if cv in (None, "documents"):
            component = self._components(asked)
            apart = folds_of(component, 4, seed) if component.max() else []
        if cv == "documents":
            if not len(apart):
                raise ValueError(
                    "all queries are connected by shared documents, so no queries about new "
                    "documents can be held out: use cv='queries'"
                )
            for test in apart:
                yield self._split(asked[test], scoring, apart=True)
            return
        groups = np.arange(len(asked)) if groups is None else groups
        folds = folds_of(groups, int(cv) if isinstance(cv, Integral) else 4, seed)
        if len(folds) < 2:
            raise ValueError(
                "all queries are of one group, so no group can be held out: leave groups out, or "
                "use cv='documents'"
            )
        for test in folds:
            yield self._split(asked[test], scoring)
        for test in apart:
            yield self._split(asked[test], scoring, apart=True)._replace(guard=True)

    def _components(self, asked: Array) -> Array:
        """Number of the connected component of each query: queries that share relevant documents.

        Queries of one group are together, and a query that is a document is with those that it is
        relevant to.
        """
        right = self.index[self.grade > 0]
        left = np.searchsorted(asked, np.concatenate([right[:, 0], asked]))
        other = np.concatenate([right[:, 1], asked]).astype(np.int64)
        if self.groups is not None:
            left = np.append(left, np.arange(len(asked)))
            other = np.append(other, other.max() + 1 + self.groups[asked])
        other = len(asked) + np.unique(other, return_inverse=True)[1]
        n = int(other.max()) + 1
        graph = sp.coo_array((np.ones(len(left)), (left, other)), shape=(n, n))
        return connected_components(graph, directed=False)[1][: len(asked)]

    def _split(self, held_out: Array, scoring: str, apart: bool = False) -> Split:
        """Some queries to score, all others to learn from; ``apart`` from their documents."""
        n = self._documents_known()
        learned = ~np.isin(self.index[:, 0], held_out)
        scored = held_out[:: -(-len(held_out) // MOST_HELD_OUT)]
        tested = np.isin(self.index[:, 0], scored)
        if apart:
            learned &= ~np.isin(self.index[:, 1], self.index[~learned & (self.grade > 0), 1])
        train, test = self._part(learned), self._part(tested)
        rows = np.union1d(np.arange(n), train.index[:, 0])
        test_rows = np.union1d(np.arange(n), test.index[:, 0])
        judge = test.take(test_rows)._judge(scoring)
        return Split(
            rows, test_rows, train.take(rows), judge, judges_train=False, evidence="one-sided"
        )

    def _documents_known(self) -> int:
        assert self.n_documents is not None
        return self.n_documents

    def _part(self, keep: Array) -> Self:
        new = copy(self)
        new.index, new.grade = self.index[keep], self.grade[keep]
        return new

    def _judge(self, scoring: str) -> Callable[..., Array]:
        return lambda _, mapped: self.scores(mapped, scoring)

    def scores(self, mapped: Matrix | Embedded, scoring: str, k: int = 10) -> Array:
        """One score per query, for rows as a metric maps them."""
        right = self.grade > 0
        index, grade = self.index[right], self.grade[right]
        query = np.unique(index[:, 0], return_inverse=True)[1]
        if not isinstance(mapped, Embedded) and precision(mapped) != np.float32:
            mapped = ranking.check_float64(mapped)
        rank = judged.ranks(mapped, self._documents_known(), index)
        return measures.MEASURES[scoring](query, rank, grade, k)

    def score(self, metric: Any, X: Any) -> float:
        """nDCG@10 of ranking the documents for each query."""
        rows, _ = open_rows(X)
        checked = self.check(rows.shape[0])
        parts = [metric.embedding(rows)]
        if checked.queries is not None:
            parts.append(metric.embedding(checked.queries))
        mapped = embedded.stacked(parts)
        known = checked.take(np.arange(mapped.positive.shape[0]))
        return float(np.mean(known.scores(mapped, "ndcg")))


def _check_grades(grade: Any, n: int, what: str) -> Array:
    grade = check_numbers(grade, "grade", n, "judgement")
    for wrong, remedy in (
        (grade < 0, "grades start at 0, for documents that are not relevant"),
        (grade > MOST, f"gains are 2^grade − 1, so give grades up to {MOST}, such as 0 to 4"),
    ):
        if wrong.any():
            line = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"{what}[{line}] has the grade {grade[line]:g}: {remedy}")
    return grade


def _once(index: Array, grade: Array, what: str) -> tuple[Array, Array]:
    """Drop repeated judgements; refuse two grades for one pair."""
    order = np.lexsort((grade, index[:, 1], index[:, 0]))
    same = (np.diff(index[order], axis=0) == 0).all(axis=1)
    clash = np.flatnonzero(same & (np.diff(grade[order]) != 0))
    if len(clash):
        one, other = sorted(order[clash[0] : clash[0] + 2].tolist())
        raise ValueError(
            f"{what}[{one}] and {what}[{other}] give the same query and document "
            f"{index[one].tolist()} two grades, {grade[one]:g} and {grade[other]:g}: keep one"
        )
    keep = np.sort(order[np.concatenate([[True], ~same])])
    return index[keep], grade[keep]
