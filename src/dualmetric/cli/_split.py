"""Which rows are learned from, and which are held out to be scored on."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._rows import Rows
from .._types import Array
from ..io.rowfiles import RowFile
from ..metric import Metric
from ..tfidf import weigh
from ._options import HOLDOUT
from ._output import note

_LOOKED_AT = 16  # rows that tell files with the same labels apart


class TrainingRows(Rows):
    """Some rows of a file, weighted by tf-idf if ``idf`` is given; read when they are needed."""

    def __init__(self, rows: Rows, numbers: Array, idf: Array | None = None) -> None:
        self._rows, self._numbers, self._idf = rows, numbers, idf
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
        return rows if self._idf is None else weigh(rows, self._idf)


def hold_out(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Numbers of training and held-out rows, with the same share of each class if possible.

    The only row of a class is a training row: held out, it would have nothing to find.
    """
    from sklearn.model_selection import train_test_split

    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
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
    """Share of the rows that is held out at random, rows to learn from, and rows to score on.

    The share is None if ``file`` says which rows are test rows.
    """
    if holdout is None and file.train_idx is not None and file.test_idx is not None:
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


def numbers_to_score(file: RowFile) -> Array:
    """Numbers of the test rows that a file names, or of all its rows."""
    return np.arange(file.X.shape[0]) if file.test_idx is None else file.test_idx


def among(supervision: Any, train: Array) -> Any:
    """Those triplets or comparisons that name training rows only, numbered among these."""
    name = type(supervision).__name__.lower()
    index = supervision.index
    kept = index[np.isin(index, train).all(axis=1)]
    if len(kept) == 0:
        raise ValueError(
            f"--{name}: all of them name held-out rows: use --holdout 0 to learn from all rows"
        )
    if len(kept) < len(index):
        note(f"{len(kept):,} of {len(index):,} {name} are used: the others name held-out rows")
    return type(supervision)(np.searchsorted(train, kept))


def describe_split(file: RowFile, rows: Rows, share: Any, seed: Any) -> dict[str, Any] | None:
    """Description of a random split for ``info`` of a metric; None if there was no such split."""
    if share is None or file.y is None:
        return None
    return {"rows": len(file.y), "holdout": share, "seed": seed, "digest": _digest(file, rows)}


def rows_to_evaluate(metric: Metric, file: RowFile, rows: Rows) -> tuple[Array, Array | None, bool]:
    """Rows to score, training rows that vote, and whether fit held the former out of this file.

    If it did not, they are the test rows that the file names, or all rows; without training rows,
    the scored ones vote.
    """
    kept: Any = metric.info.get("split")
    kept = kept if isinstance(kept, dict) else {}  # anyone may write a metric file
    share, seed = (kept.get(key) for key in ("holdout", "seed"))
    are_numbers = isinstance(share, int | float) and isinstance(seed, int)
    is_valid = are_numbers and 0 <= share <= 0.9 and 0 <= seed < 2**32
    if is_valid and kept == describe_split(file, rows, share, seed):
        if share and file.y is not None:
            train, test = hold_out(file.y, share, seed)
            return test, train, True
        note("the metric was learned from these rows, so the scores are too good")
    return numbers_to_score(file), file.train_idx, False


def _digest(file: RowFile, rows: Rows) -> str:
    """Short digest of the labels and of a few rows, the same for all formats of a file."""
    labels = [] if file.y is None else file.y.tolist()
    digest = blake2b("\n".join(map(str, labels)).encode("utf-8", "replace"), digest_size=8)
    n = rows.shape[0]
    looked_at = np.linspace(0, n - 1, min(n, _LOOKED_AT)).astype(np.int64)
    taken = sp.csr_matrix(rows.take(looked_at))
    taken.eliminate_zeros()
    with np.errstate(over="ignore"):
        values = taken.data.astype("<f4")  # text files keep fewer digits of some numbers
    for array in (values, taken.indices.astype("<i8"), taken.indptr.astype("<i8")):
        digest.update(array.tobytes())
    return digest.hexdigest()
