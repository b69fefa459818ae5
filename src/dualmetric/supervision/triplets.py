"""Triplets: the paper's supervision."""

from typing import Any, Self

import numpy as np

from .._types import Array, Matrix
from ._base import Comparisons, check_index, compact, refuse_same_row


class Triplets(Comparisons):
    """Triplets (i, j, k): "row i should be closer to row j than to row k".

    Parameters
    ----------
    index : array-like of shape (N, 3)
        Row numbers of X: anchor, positive, negative.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Triplets
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0]]
    >>> model = DuRP(2, random_state=0).fit(X, Triplets([[0, 1, 2]]))
    >>> model.metric_.distance(X[:1], X[1:2]) < model.metric_.distance(X[:1], X[2:3])
    array([ True])
    """

    def __init__(self, index: Any) -> None:
        super().__init__(index)

    def __repr__(self) -> str:
        return f"<{len(self):,} triplets>"

    def check(self, n_rows: int) -> Self:
        """Return checked triplets; one that names a row twice is refused."""
        index = check_index(self.index, ("anchor", "positive", "negative"), "triplets", n_rows)
        refuse_same_row(index, (0, 1), "anchor and positive", "triplets")
        refuse_same_row(index, (0, 2), "anchor and negative", "triplets")
        refuse_same_row(index, (1, 2), "positive and negative", "triplets")
        return type(self)(compact(index, n_rows))

    def take(self, rows: Array) -> Self:
        """Return the same triplets over ``X[rows]``, where ``rows`` holds all that they name."""
        return type(self)(compact(np.searchsorted(rows, self.index), len(rows)))

    def compare(
        self, X: Matrix, n: int, sampler: str, margin: float, rng: np.random.Generator
    ) -> Comparisons:
        """Return the comparison (i, j, i, k) for each triplet (i, j, k)."""
        return Comparisons.of_triplets(self.index)

    def _part(self, places: Array) -> Self:
        return type(self)(self.index[places])

    def _index4(self) -> Array:
        return np.ascontiguousarray(self.index[:, [0, 1, 0, 2]])
