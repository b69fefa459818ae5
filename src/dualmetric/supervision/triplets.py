"""Triplets: the paper's supervision."""

from typing import Any

from .._types import Array
from ._base import Comparisons
from ._checks import triplets_as_pairs


class Triplets(Comparisons):
    """Triplets (i, j, k): "row i should be closer to row j than to row k".

    Parameters
    ----------
    index : array-like of shape (N, 3)
        Row numbers of X, counted from 0: anchor, positive, negative. For a data frame these are
        positions, not labels of its index.

    Examples
    --------
    >>> from dualmetric import DuRP
    >>> from dualmetric.supervision import Triplets
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0]]
    >>> model = DuRP(2, random_state=0).fit(X, Triplets([[0, 1, 2]]))
    >>> model.metric_.distance(X[:1], X[1:2]) < model.metric_.distance(X[:1], X[2:3])
    array([ True])
    """

    _what = "triplets"
    _columns = ("anchor", "positive", "negative")
    _different = ((0, 1), (0, 2), (1, 2))

    def __init__(self, index: Any) -> None:
        super().__init__(index)

    @staticmethod
    def _pairs(index: Array) -> Array:
        return triplets_as_pairs(index)
