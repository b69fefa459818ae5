"""Documents that were found relevant to queries: what `Positives` and `Relevance` share."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .. import measures
from .._arrays import judged, ops, ranking
from .._options import Option
from .._rows import choose_rows, open_rows
from .._types import Array, Matrix
from .._validation import warn
from ..scatter import Within, within_pairs
from ._base import Comparisons, Split, Supervision, check_groups, check_pairs, compact, folds_of
from .mining import DEPTH, MARGIN, mined

MOST_HELD_OUT = 1500
"""Held-out queries that are scored."""

_COUNT = Option("int", "How many comparisons per query.", low=1)


class Judged(Supervision):
    """Judgements (query, document, grade), with queries among the rows of X or beside them.

    Inside a fit the queries are rows below the documents: `take` numbers them so, and the methods
    after it read ``index`` as numbers of these rows.
    """

    scorings: tuple[str, ...] = ("ndcg", "map", "recall", "precision", "hit_rate")
    families: tuple[str, ...] = ("prior",)
    cvs: tuple[str, ...] = ("queries", "documents")
    _what = "judgements"

    def __init__(
        self,
        index: Any,
        grade: Any,
        queries: Any,
        depth: int,
        n_negatives: int,
        relative_margin: float | None,
        groups: Any,
    ) -> None:
        self.index, self.grade, self.queries = index, grade, queries
        self.depth, self.n_negatives, self.relative_margin = depth, n_negatives, relative_margin
        self.groups = groups
        self.n_documents: int | None = None  # known after `check`

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<{len(self):,} {self._what}>"

    def _read(self) -> tuple[Any, Any]:
        """Index and grades as they were given."""
        return self.index, self.grade

    def check(self, n_rows: int) -> Self:
        """Return the same, checked; queries without a relevant document are left out."""
        DEPTH.check("depth", self.depth)
        _COUNT.check("n_negatives", self.n_negatives)
        MARGIN.check("relative_margin", self.relative_margin)
        queries = None if self.queries is None else open_rows(self.queries, name="queries")[0]
        n_queries = n_rows if queries is None else queries.shape[0]
        given, grade = self._read()
        index = check_pairs(given, self._what, n_queries, n_rows, ("query", "document"))
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
                f"no query has a relevant document: all grades in {self._what} are 0; give grades "
                "above 0 to documents that are relevant"
            )
        if not answered.all():
            n_left = len(np.unique(index[~answered, 0]))
            warn(f"{n_left:,} queries have no relevant document and are left out")
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
        assert self.n_documents is not None
        shift = 0 if self.queries is None else self.n_documents
        numbers = self.index + np.array([shift, 0])
        new = copy(self)
        new.index = compact(np.searchsorted(rows, numbers), len(rows))
        new.n_documents = int(np.searchsorted(rows, self.n_documents))
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
        found = mined(
            X,
            self._documents(X),
            self.index[self.grade > 0],
            self.depth,
            self.relative_margin,
        )
        query, near, far, above = self._drawn(found.pairs, n, rng)
        if not len(query):
            raise ValueError(
                "no query has two documents to compare: every document is relevant, or too close "
                "by relative_margin; give other rows, or relative_margin=None"
            )
        index = compact(np.column_stack([query, near, query, far]), X.shape[0])
        return Comparisons(index, np.ones(len(index)), self._weights(X, query, near, far, above))

    def _documents(self, X: Matrix) -> int:
        return X.shape[0] if self.n_documents is None else self.n_documents

    def _drawn(
        self, negatives: Array, n: int, rng: np.random.Generator
    ) -> tuple[Array, Array, Array, Array]:
        """Query, better document, worse document, and the grades of both."""
        right = self.grade > 0
        asked, n_right = np.unique(self.index[right, 0], return_counts=True)
        by_query = np.argsort(self.index[right, 0], kind="stable")
        better = np.column_stack([self.index[right, 1], self.grade[right]])[by_query]
        first_better = np.cumsum(n_right) - n_right
        # what a relevant document may be compared with: mined ones, and all that are judged
        query = np.concatenate([negatives[:, 0], self.index[:, 0]])
        document = np.concatenate([negatives[:, 1], self.index[:, 1]])
        grade = np.concatenate([np.zeros(len(negatives)), self.grade])
        order = np.argsort(query, kind="stable")
        document, grade = document[order], grade[order]
        place = np.searchsorted(asked, query[order])
        n_worse = np.bincount(place, minlength=len(asked))
        first_worse = np.cumsum(n_worse) - n_worse
        count = min(self.n_negatives, -(-2 * n // len(asked)))
        which = np.repeat(np.arange(len(asked)), count)
        left = first_better[which] + (rng.random(len(which)) * n_right[which]).astype(np.int64)
        worse = first_worse[which] + (rng.random(len(which)) * n_worse[which]).astype(np.int64)
        above = np.column_stack([better[left, 1], grade[worse]])
        keep = np.flatnonzero(above[:, 0] > above[:, 1])
        if len(keep) > n:
            keep = np.sort(rng.choice(keep, n, replace=False))
        chosen = asked[which[keep]]
        return chosen, better[left[keep], 0].astype(np.int64), document[worse[keep]], above[keep]

    def _weights(self, X: Matrix, query: Array, near: Array, far: Array, grades: Array) -> Array:
        return np.ones(len(query))

    def within(self, X: Matrix, rows: Array) -> Within:
        """Scatter of the differences between queries and relevant documents."""
        pairs = np.searchsorted(rows, self.index[self.grade > 0])
        return within_pairs(X, *np.ascontiguousarray(pairs.T))

    def splits(self, X: Matrix, cv: Any, scoring: str, seed: int) -> Iterator[Split]:
        """Hold out queries.

        ``"queries"`` takes them at random. ``"documents"`` takes them with all queries that share
        documents with them, so that no held-out document is judged in training. None does both:
        the second then only says which metrics are worse than the plain distance.
        """
        from sklearn.model_selection import KFold, check_cv

        asked, place = np.unique(self.index[self.grade > 0, 0], return_inverse=True)
        if len(asked) < 4:
            raise ValueError(
                f"{len(asked)} queries are too few to hold some out: settings cannot be compared; "
                "use DuRP, with settings of your own"
            )
        if isinstance(cv, str) and cv not in self.cvs:
            raise ValueError(
                f"cv must be None, {', '.join(map(repr, self.cvs))}, a number of folds or a "
                f"splitter; got {cv!r}"
            )
        if cv is not None and not isinstance(cv, str):
            for _, test in check_cv(cv).split(asked):
                yield self._split(asked[test], scoring)
            return
        if cv in (None, "queries"):
            if self.groups is not None:
                folds = folds_of(self.groups[asked], 4, seed)
            else:
                shuffled = KFold(4, shuffle=True, random_state=seed)
                folds = [test for _, test in shuffled.split(asked)]
            random = [self._split(asked[test], scoring) for test in folds]
        if cv in (None, "documents"):
            component = _components(place, self.index[self.grade > 0, 1], self.groups, asked)
            if component.max() > 0:
                folds = folds_of(component, 4, seed)
                apart = [self._split(asked[test], scoring) for test in folds if len(test)]
            elif cv == "documents":
                raise ValueError(
                    "every query shares documents with every other, directly or through others: "
                    "queries about new documents cannot be held out; use cv='queries'"
                )
            else:
                apart = []
        if cv is None:
            yield from (split._replace(guard=True) for split in apart[:2])
            yield from random
        else:
            yield from random if cv == "queries" else apart

    def _split(self, held_out: Array, scoring: str) -> Split:
        """One part of the queries to score, all others to learn from."""
        n = self._documents_known()
        if len(held_out) > MOST_HELD_OUT:
            held_out = held_out[:: -(-len(held_out) // MOST_HELD_OUT)]
        out = np.isin(self.index[:, 0], held_out)
        learned, tested = self._part(~out), self._part(out)
        rows = np.union1d(np.arange(n), learned.index[:, 0])
        test_rows = np.union1d(np.arange(n), tested.index[:, 0])
        return Split(rows, test_rows, learned.take(rows), tested.take(test_rows)._judge(scoring))

    def _documents_known(self) -> int:
        assert self.n_documents is not None
        return self.n_documents

    def _part(self, keep: Array) -> Self:
        new = copy(self)
        new.index, new.grade = self.index[keep], self.grade[keep]
        return new

    def _judge(self, scoring: str) -> Callable[[Matrix, Matrix], Array]:
        return lambda _, mapped: self.scores(mapped, scoring)

    def scores(self, mapped: Matrix, scoring: str, k: int = 10) -> Array:
        """One score per query, for rows as a metric maps them."""
        right = self.grade > 0
        index, grade = self.index[right], self.grade[right]
        query = np.unique(index[:, 0], return_inverse=True)[1]
        mapped = ranking.check_float64(mapped)
        rank = judged.ranks(mapped, self._documents(mapped), index)
        return measures.MEASURES[scoring](query, rank, grade, k)

    def score(self, metric: Any, X: Any) -> float:
        """nDCG@10 of ranking the documents for each query."""
        rows, _ = open_rows(X)
        checked = self.check(rows.shape[0])
        mapped = [metric.transform(rows)]
        if checked.queries is not None:
            mapped.append(metric.transform(checked.queries))
        n = sum(part.shape[0] for part in mapped)
        return float(np.mean(checked.take(np.arange(n)).scores(ops.stacked(mapped), "ndcg")))


def _check_grades(grade: Any, n: int, what: str) -> Array:
    grade = Comparisons._per_comparison(grade, "grade", n)
    if (grade < 0).any():
        line = int(np.flatnonzero(grade < 0)[0])
        raise ValueError(f"{what}[{line}] has the grade {grade[line]:g}: grades start at 0")
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


def _components(query: Array, document: Array, groups: Array | None, asked: Array) -> Array:
    """Number of the connected component of each query: queries that share documents or groups."""
    n = len(asked)
    codes = np.unique(document, return_inverse=True)[1]
    left, right = query, codes
    if groups is not None:
        own = np.unique(groups[asked], return_inverse=True)[1]
        left = np.concatenate([left, np.arange(n)])
        right = np.concatenate([right, own + codes.max() + 1])
    shape = (n, int(right.max()) + 1)
    joined = sp.csr_matrix((np.ones(len(left)), (left, right)), shape=shape)
    return connected_components(joined @ joined.T, directed=False)[1]
