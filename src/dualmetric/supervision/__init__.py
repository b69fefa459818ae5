"""What is known about rows, as values that are passed to ``fit`` as y.

=============================  =====================================================
what the user knows            passed as y
=============================  =====================================================
labels                         an array, or `Labels`
triplets                       `Triplets`: row i is closer to row j than to row k
comparisons                    `Comparisons`: rows a and b are closer than c and d
pairs                          `Pairs`: two rows are the same, or different
clicks                         `Positives`: a document was chosen for a query
judgements                     `Relevance`: grades of documents for queries
=============================  =====================================================

Each kind is one class with the methods of `Supervision`: to check itself against X, to turn into
`Comparisons`, to split itself for held-out evaluation, and to score a metric.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

from .._rows import open_rows
from .._validation import labels_as_given, refuse_missing
from ._base import Comparisons, Split, Supervision
from .labels import Labels
from .mining import mine_negatives
from .pairs import Pairs
from .positives import Positives
from .relevance import Relevance
from .triplets import Triplets

__all__ = [
    "Comparisons",
    "Labels",
    "Pairs",
    "Positives",
    "Relevance",
    "Split",
    "Supervision",
    "Triplets",
    "as_supervision",
    "mine_negatives",
]


def as_supervision(
    y: Any, n_rows: int, owner: str, names: Sequence[str] | None = None
) -> Supervision:
    """Turn what was passed as y into supervision, checked against X.

    Parameters
    ----------
    y : array-like or Supervision
        Labels, or an object of this module.
    n_rows : int
        Number of rows of X.
    owner : str
        Name of the estimator, for error messages.
    names : sequence of str, optional
        Names of the features of X. If queries are a data frame, its columns are taken by them.

    Returns
    -------
    Supervision
        The checked supervision.
    """
    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None: pass labels, "
            "or an object of dualmetric.supervision, such as Triplets(index) or Pairs(index, same)"
        )
    if not isinstance(y, Supervision):  # in a plain array, a missing label may be a mistake
        refuse_missing(labels_as_given(y, n_rows))
    kind = y if isinstance(y, Supervision) else Labels(y)
    if names is not None and kind.queries is not None:
        kind = copy(kind)
        kind.queries, _ = open_rows(kind.queries, names=names, width=len(names), name="queries")
    return kind.check(n_rows)
