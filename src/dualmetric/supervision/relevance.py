"""Relevance: graded judgements of documents for queries."""

from copy import copy
from typing import Any, Self

import numpy as np

from .. import measures
from .._arrays import judged
from .._arrays.namespace import to_numpy
from .._types import Array, Matrix
from .._validation import refuse_mask
from ._judged import Judged


class Relevance(Judged):
    """Graded judgements: how relevant a document is to a query.

    Documents are compared within a query: those of a higher grade should be closer to it than those
    of a lower one. Highly ranked documents without a judgement count as grade 0. The weight of a
    comparison is the change in nDCG when the two documents are exchanged in the plain ranking (or
    the prior's).

    Parameters
    ----------
    grades : sparse matrix of shape (n_queries, n_documents), or array-like of shape (N, 3)
        Grades of at least 0, where 0 means not relevant. In an array, each row holds the number of
        a query (a row of ``queries``), the number of a document (a row of X) and the grade.
    queries : {array-like, sparse matrix, data frame} of shape (n_queries, n_features), optional
        The queries, with the same features as X; None if they are rows of X themselves.
    depth, n_negatives, relative_margin, groups
        As in `Positives`.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Relevance
    >>> documents = [[0.0, 0.0], [1.0, 4.0], [2.0, 0.0]]
    >>> judgements = Relevance([[0, 1, 2], [0, 2, 1]], queries=[[1.0, 0.0]])
    >>> model = DuRP(2, prior="identity", random_state=0).fit(documents, judgements)
    >>> model.metric_.pairwise([[1.0, 0.0]], documents).argmin()
    np.int64(1)
    """

    _what = "grades"

    def __init__(
        self,
        grades: Any,
        queries: Any = None,
        *,
        depth: int = 100,
        n_negatives: int = 30,
        relative_margin: float | None = None,
        groups: Any = None,
    ) -> None:
        super().__init__(
            (),
            queries,
            depth=depth,
            n_negatives=n_negatives,
            relative_margin=relative_margin,
            groups=groups,
        )
        self.grades = grades

    def __len__(self) -> int:
        given = self.grades if self.n_documents is None else self.index
        return given.nnz if hasattr(given, "nnz") else len(given)

    def _read(self, n_queries: int, n_documents: int) -> tuple[Any, Any]:
        if self.n_documents is not None:  # checked before
            return self.index, self.grade
        if hasattr(self.grades, "tocoo"):
            if self.grades.shape != (n_queries, n_documents):
                raise ValueError(
                    f"grades must be a matrix of {n_queries} queries × {n_documents} documents; "
                    f"got shape {self.grades.shape}"
                )
            found = self.grades.tocoo()
            return np.column_stack([found.row, found.col]), found.data
        refuse_mask(self.grades, "grades")
        rows = np.asarray(to_numpy(self.grades))
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iuf":
            raise ValueError(
                "grades must be a sparse matrix of queries × documents, or an (N, 3) array of "
                f"query, document and grade; got a dense array of {rows.dtype} of shape "
                f"{rows.shape}. Wrap a matrix of grades in scipy.sparse.csr_array"
            )
        with np.errstate(invalid="ignore"):
            index = rows[:, :2].astype(np.int64)
        broken = np.flatnonzero((index != rows[:, :2]).any(axis=1))
        if len(broken):
            raise ValueError(
                f"grades[{broken[0]}] = {rows[broken[0]].tolist()}: query and document must be "
                "whole numbers"
            )
        return index, rows[:, 2]

    def check(self, n_rows: int) -> Self:
        """Return the same, checked; queries without a relevant document are left out."""
        new = copy(super().check(n_rows))
        new.grades = ()  # they are in ``index`` and ``grade``
        return new

    def _weights(self, X: Matrix, query: Array, near: Array, far: Array, grades: Array) -> Array:
        """Change in nDCG when the two documents of a comparison are exchanged; one on average."""
        asked, place = np.unique(query, return_inverse=True)
        n = self._documents_known()
        pairs = np.column_stack([np.tile(query, 2), np.concatenate([near, far])])
        pairs, line = np.unique(pairs, axis=0, return_inverse=True)
        discounts = np.split(measures.discount(judged.ranks(X, n, pairs))[line], 2)
        right = np.isin(self.index[:, 0], asked) & (self.grade > 0)
        best = measures.ideal(np.searchsorted(asked, self.index[right, 0]), self.grade[right])
        change = measures.gain(grades[:, 0]) - measures.gain(grades[:, 1])
        weight = np.abs(discounts[0] - discounts[1]) * change / best[place]
        return weight / weight.mean()
