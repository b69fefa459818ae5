"""The steps of ``fit`` and ``evaluate``: splitting the rows, learning, and scoring."""

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._rows import Rows
from .._rows.passes import column_moments
from .._types import Array
from ..estimators import MetricCV
from ..estimators.dual import DualEstimator
from ..io.rowfiles import RowFile
from ..metric import Metric
from ..side_by_side import compare
from ..tfidf import fit_idf, weigh
from ._data import numbers_to_score
from ._methods import in_flags
from ._options import HOLDOUT
from ._output import note
from ._progress import Steps
from ._scores import Numbers, as_numbers, gains_of

# most held-out rows that are scored: each is compared with all others and with the voters
SCORED_ROWS = 10_000
VOTING_ROWS = 20_000  # most training rows that vote in k-NN classification
_LOOKED_AT = 16  # rows that tell files with the same labels apart


class TrainingRows(Rows):
    """Some rows of a file, after ``weigh`` if it is given; read when they are needed."""

    def __init__(
        self, rows: Rows, numbers: Array, weigh: Callable[[Any], Any] | None = None
    ) -> None:
        self._rows, self._numbers, self._weigh = rows, numbers, weigh
        self.shape, self.dtype, self.name = (len(numbers), rows.n_features), rows.dtype, rows.name

    def take(self, numbers: Array | None = None) -> Any:
        chosen = self._numbers if numbers is None else self._numbers[numbers]
        every = len(chosen) == self._rows.shape[0]
        return self._weighted(self._rows.take(None if every else chosen))

    def blocks(self) -> Iterator[tuple[int, Any]]:
        for start, block in self._rows.blocks():
            first, last = np.searchsorted(self._numbers, [start, start + block.shape[0]])
            if first < last:
                chosen = ops.take_rows(block, self._numbers[first:last] - start)
                yield int(first), self._weighted(chosen)

    def _weighted(self, rows: Any) -> Any:
        return rows if self._weigh is None else self._weigh(rows)


def check_classes(file: RowFile, name: str) -> None:
    """Refuse labels that tell no rows apart, or all of them; ``name`` is that of their file."""
    if file.y is None:
        return
    classes, n = np.unique(file.y), len(file.y)
    if n > 1 and len(classes) == n:
        raise ValueError(
            f"{name}: every row has a class of its own ({n:,} classes in {n:,} rows): are these "
            "ids instead of labels? Give labels that some rows share"
        )
    if len(classes) == 1:
        raise ValueError(
            f"{name}: all {n:,} labels are {file.label(0)}: give labels of at least two classes"
        )


def hold_out(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Numbers of training and held-out rows, with the same share of each class if possible."""
    from sklearn.model_selection import train_test_split

    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    # the only row of a class is a training row: held out, it would have nothing to find
    shared = np.flatnonzero(counts[codes] > 1)
    if len(shared) < 4:
        raise ValueError(
            f"only {len(shared)} of {len(y)} rows share their class with another, too few to hold "
            "some out: use --holdout 0 to learn from all, without scores"
        )
    options = {"test_size": share, "random_state": seed}
    try:
        _, test = train_test_split(shared, stratify=codes[shared], **options)
    except ValueError:  # more classes than rows to hold out
        _, test = train_test_split(shared, **options)
    test = np.sort(test)
    return np.setdiff1d(np.arange(len(y)), test), test


def split_rows(
    file: RowFile, holdout: float | None, has_test: bool, seed: int
) -> tuple[float | None, Array, Array | None]:
    """Share of the rows that is held out at random, rows to learn from, and rows to score on."""
    if holdout is None and file.train_idx is not None and file.test_idx is not None:
        # the file says which rows are test rows
        return None, np.sort(file.train_idx), None if file.y is None else np.sort(file.test_idx)
    if has_test or file.y is None or holdout == 0:
        return 0.0, np.arange(file.X.shape[0]), None
    share = HOLDOUT if holdout is None else holdout
    return share, *hold_out(file.y, share, seed)


def take_at_most(rows: Rows, y: Any, numbers: Array, most: int) -> tuple[Any, Any, Array]:
    """Rows with the given numbers, or a random choice of ``most``; their labels and numbers."""
    if len(numbers) > most:
        numbers = np.random.default_rng(0).choice(numbers, size=most, replace=False)
    numbers = np.sort(numbers)
    return rows.take(numbers), y[numbers], numbers


def describe_split(file: RowFile, rows: Rows, share: Any, seed: Any) -> dict[str, Any] | None:
    """Description of a random split for ``info`` of a metric; None if there was no such split."""
    if share is None or file.y is None:
        return None
    # a short digest of the labels and of a few rows, the same for all formats of a file
    labels = "\n".join(map(str, file.y.tolist()))
    digest = blake2b(labels.encode("utf-8", "replace"), digest_size=8)
    add_rows(digest, rows)
    return {"rows": rows.shape[0], "holdout": share, "seed": seed, "digest": digest.hexdigest()}


def add_rows(digest: Any, rows: Rows) -> None:
    """Add a few rows to a digest, so that it tells files with the same labels or pairs apart."""
    n = rows.shape[0]
    taken = rows.take(np.linspace(0, n - 1, min(n, _LOOKED_AT)).astype(np.int64))
    taken = sp.csr_matrix(taken)
    taken.eliminate_zeros()
    with np.errstate(over="ignore"):
        values = taken.data.astype("<f4")  # text files keep fewer digits of some numbers
    for array in (values, taken.indices.astype("<i8"), taken.indptr.astype("<i8")):
        digest.update(array.tobytes())


def read_split(metric: Metric, key: str) -> dict[str, Any] | None:
    """Description of a split in ``info`` of a metric; None if fit would not have written it."""
    kept: Any = metric.info.get(key)
    if not isinstance(kept, dict):  # anyone may write a metric file
        return None
    share: Any = kept.get("holdout")
    seed: Any = kept.get("seed")
    are_numbers = isinstance(share, int | float) and isinstance(seed, int)
    return kept if are_numbers and 0 <= share <= 0.9 and 0 <= seed < 2**32 else None


def rows_to_evaluate(metric: Metric, file: RowFile, rows: Rows) -> tuple[Array, Array | None, bool]:
    """Rows to score, training rows that vote, and whether fit held the former out of this file."""
    kept = read_split(metric, "split")
    if kept and kept == describe_split(file, rows, kept["holdout"], kept["seed"]):
        if kept["holdout"] and file.y is not None:
            train, test = hold_out(file.y, kept["holdout"], kept["seed"])
            return test, train, True
        note("the metric was learned from these rows, so scores are too optimistic")
    return numbers_to_score(file), file.train_idx, False


def of_training_rows(known: Any, name: str, train: Array) -> Any:
    """Triplets or comparisons of the training rows; those that name others are left out."""
    index = known.index
    kept = index[np.isin(index, train).all(axis=1)]
    if len(kept) == 0:
        raise ValueError(
            f"--{name}: all of them name held-out rows: use --holdout 0 to learn from all rows"
        )
    if len(kept) < len(index):
        note(f"{len(kept):,} of {len(index):,} {name} are used: the others name held-out rows")
    return type(known)(np.searchsorted(train, kept))


def look_like_counts(X: Any) -> bool:
    """Whether rows are stored as a sparse matrix of whole numbers from 0 on."""
    return bool(getattr(X, "nnz", 0) and X.data.min() >= 0 and (X.data % 1 == 0).all())


def unit_variance(X: Rows) -> Array:
    """What to multiply columns by so that their variance is one; 1 where all values are equal."""
    mean, deviations = column_moments(X)
    varies = deviations > 1e-10 * np.abs(mean)  # equal values may differ from it by rounding
    return np.where(varies, 1.0 / np.where(varies, deviations, 1.0), 1.0)


def learn(
    estimator: Any, rows: Rows, train: Array, y: Any, weights: str | None, steps: Steps
) -> Metric:
    """Learn a metric for rows as they are in the file.

    ``weights`` is "tfidf", "standardize" or None: what happens to rows first.
    """
    X = TrainingRows(rows, train)
    finish: Callable[[Metric], Metric] = lambda metric: metric  # noqa: E731
    if weights is not None:
        steps.begin("weighting")
        if weights == "tfidf":
            idf = fit_idf(X)
            first, finish = partial(weigh, idf=idf), lambda metric: metric.with_idf(idf)
        else:
            scale = unit_variance(X)
            first = partial(ops.scaled_columns, by=scale)
            finish = lambda metric: metric.with_scale(scale)  # noqa: E731
        X = TrainingRows(rows, train, first)
        if (queries := getattr(y, "queries", None)) is not None:
            y = copy(y)
            y.queries = TrainingRows(queries, np.arange(queries.shape[0]), first)
    is_search = isinstance(estimator, MetricCV)
    steps.begin("choosing and learning" if is_search else "learning")
    progress: dict[str, Any] = {"callback": steps.advance_search} if is_search else {}
    if isinstance(estimator, DualEstimator):
        progress["callback"] = lambda epoch: steps.advance(
            epoch.epoch, estimator.max_epochs, f"pass {epoch.epoch} of {estimator.max_epochs}"
        )
    try:
        estimator.fit(X, y, **progress)
    except ValueError as error:
        raise ValueError(in_flags(str(error))) from error
    return finish(estimator.metric_)


def score(
    metric: Metric,
    queries: tuple[Rows, Any, Array],
    voters: tuple[Rows, Any, Array] | None,
    steps: Steps,
) -> tuple[Numbers | None, Any, int]:
    """Scores of the plain and the learned distances, the gain, and how many rows were scored.

    Queries and voters are rows of a file, its labels, and the numbers of the rows to take.
    """
    X, y, _ = take_at_most(*queries, SCORED_ROWS)
    if len(y) < len(queries[2]):
        note(f"scores are computed on {len(y):,} held-out rows chosen at random")
    if np.unique(y, return_counts=True)[1].max() < 2:
        note("no class has two held-out rows, so there is nothing to score: use a larger --holdout")
        return None, None, len(y)
    steps.begin("scoring")
    base = () if voters is None else take_at_most(*voters, VOTING_ROWS)[:2]
    scores = compare(metric, X, y, *base)
    return as_numbers(scores, y), gains_of(scores, y), len(y)
