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
    """Supervision that y stands for, checked against X of ``n_rows`` rows.

    ``names`` are those of the features of X, by which columns of queries are taken.
    """
    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None: pass labels, "
            "or an object of dualmetric.supervision, such as Triplets(index) or Pairs(index, same)"
        )
    kind = y if isinstance(y, Supervision) else Labels(y)
    if names is not None and kind.queries is not None:
        kind = copy(kind)
        kind.queries, _ = open_rows(kind.queries, names=names, width=len(names), name="queries")
    return kind.check(n_rows)
