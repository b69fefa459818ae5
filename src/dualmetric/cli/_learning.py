"""The steps of ``dualmetric fit``: what is known about the rows, learning, and scoring."""

from pathlib import Path
from typing import Any

import numpy as np

from .._rows import Rows
from .._types import Array
from ..estimators import MetricCV
from ..estimators.dual import DualEstimator
from ..io.rowfiles import RowFile
from ..metric import Metric
from ..side_by_side import compare
from ..supervision import Comparisons, Triplets
from ..tfidf import fit_idf
from ._data import read_row_numbers
from ._output import note
from ._progress import Steps
from ._scores import Numbers, as_numbers
from ._split import TrainingRows, among, take_at_most

# most held-out rows that are scored: each is compared with all others and with the voters
SCORED_ROWS = 10_000
VOTING_ROWS = 20_000  # most training rows that vote in k-NN classification


def read_supervision(
    file: RowFile, train: Array, triplets: Path | None, comparisons: Path | None
) -> Any:
    """What is known about the training rows: triplets, comparisons, labels, or None."""
    for path, kind in ((triplets, Triplets), (comparisons, Comparisons)):
        if path is not None:
            return among(read_row_numbers(path, kind, file.X.shape[0]), train)
    return None if file.y is None else file.y[train]


def look_like_counts(X: Any) -> bool:
    """Whether rows are stored as a sparse matrix of whole numbers from 0 on."""
    return bool(getattr(X, "nnz", 0) and X.data.min() >= 0 and (X.data % 1 == 0).all())


def learn(estimator: Any, rows: Rows, train: Array, y: Any, tfidf: bool, steps: Steps) -> Metric:
    """Learn a metric for rows as they are in the file."""
    X, idf = TrainingRows(rows, train), None
    if tfidf:
        steps.begin("weighting")
        idf = fit_idf(X)
        X = TrainingRows(rows, train, idf)
    is_search = isinstance(estimator, MetricCV)
    steps.begin("choosing and learning" if is_search else "learning")
    progress: dict[str, Any] = {"callback": steps.advance} if is_search else {}
    if isinstance(estimator, DualEstimator):
        progress["callback"] = lambda epoch: steps.advance(
            epoch.epoch, estimator.max_epochs, f"duality gap {epoch.gap:.3g}"
        )
    estimator.fit(X, y, **progress)
    return estimator.metric_ if idf is None else estimator.metric_.with_idf(idf)


def score(
    metric: Metric,
    queries: tuple[Rows, Any, Array],
    voters: tuple[Rows, Any, Array] | None,
    steps: Steps,
) -> tuple[Numbers | None, int]:
    """Scores of the plain and the learned distances, and the number of rows that were scored.

    Queries and voters are rows of a file, its labels, and the numbers of the rows to take. There
    are no scores without two queries of one class. Without voters, the other queries vote in k-NN
    classification.
    """
    X, y, _ = take_at_most(*queries, SCORED_ROWS)
    if len(y) < len(queries[2]):
        note(f"scores are those of {len(y):,} held-out rows, chosen at random")
    if np.unique(y, return_counts=True)[1].max() < 2:
        note("no class has two held-out rows, so there is nothing to score: hold out more")
        return None, len(y)
    steps.begin("scoring")
    base = () if voters is None else take_at_most(*voters, VOTING_ROWS)[:2]
    return as_numbers(compare(metric, X, y, *base)), len(y)
