"""Which rows are learned from, and which are held out to be scored on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .._types import Array, Rows
    from ..rowfiles import RowFile

SCORED_ROWS = 10_000
"""Held-out rows that ``fit`` scores at most: each is compared with all others, and with voters."""

VOTING_ROWS = 20_000
"""Training rows that vote in its k-NN classification at most."""


HOLDOUT = 0.3
"""Share of the rows that is held out where nothing else is said."""


class Part(NamedTuple):
    """Some rows of a file, in its order."""

    X: Rows
    y: Array | None
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)


def hold_out(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Numbers of training and held-out rows, with the same share of each class where possible.

    The only row of a class is for training: held out, it would have nothing to find.
    """
    import numpy as np
    from sklearn.model_selection import train_test_split

    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[codes] > 1)
    if len(shared) < 4:
        raise ValueError(
            f"only {len(shared)} of {len(y)} rows share their class with another, too few to hold "
            "some out: use --holdout 0 to learn from all, without scores"
        )
    try:
        _, test = train_test_split(
            shared, test_size=share, random_state=seed, stratify=codes[shared]
        )
    except ValueError:  # more classes than rows to hold out
        _, test = train_test_split(shared, test_size=share, random_state=seed)
    test = np.sort(test)
    return np.setdiff1d(np.arange(len(y)), test), test


def held_out_share(file: RowFile, tested: RowFile | None, holdout: float | None) -> float | None:
    """Share of the rows that is held out at random; None where ``file`` says which rows are."""
    if file.train_idx is not None and holdout is None:
        return None
    if tested is not None or file.y is None:
        return 0.0
    return HOLDOUT if holdout is None else holdout


def split(
    file: RowFile,
    tested: RowFile | None,
    triplets: Array | None,
    holdout: float | None,
    seed: int,
) -> tuple[Part, Part | None, Array | None]:
    """Choose rows to learn from, rows to score on, and the triplets among the former.

    Parameters
    ----------
    file : RowFile
        Rows to learn from, and to hold some of out.
    tested : RowFile or None
        Rows of a file of their own to score on: then none are held out.
    triplets : ndarray of shape (n_triplets, 3) or None
        Row numbers of ``file``.
    holdout : float or None
        Share to hold out; None is what ``file`` says, else `HOLDOUT`.
    seed : int
        Seed of every choice.
    """
    from ..sources import LEARNING_ROWS, is_source

    rows = held_out = None
    share = held_out_share(file, tested, holdout)
    if share is None:
        rows, held_out = file.train_idx, file.test_idx
    elif share and file.y is not None:
        rows, held_out = hold_out(file.y, share, seed)
    if triplets is not None:
        rows, triplets = _among(triplets, file, rows)
    most = LEARNING_ROWS if is_source(file.X) and triplets is None else None
    train = take(file, rows, most, seed)
    if triplets is not None:
        import numpy as np

        triplets = np.searchsorted(train.rows, triplets)
    if tested is not None:
        return train, _scored(tested, tested.test_idx, seed), triplets
    if file.y is None or held_out is None:
        return train, None, triplets
    return train, _scored(file, held_out, seed), triplets


def _among(triplets: Array, file: RowFile, rows: Array | None) -> tuple[Array, Array]:
    """Rows to learn from, and the triplets that name no other row."""
    import numpy as np

    from ..sources import is_source
    from ._output import note

    among = np.arange(file.X.shape[0]) if rows is None else rows
    kept = triplets[np.isin(triplets, among).all(axis=1)]
    if len(kept) == 0:
        raise ValueError("every triplet names a held-out row: use --holdout 0 to learn from all")
    if len(kept) < len(triplets):
        note(f"{len(kept):,} of {len(triplets):,} triplets are used: the others name held-out rows")
    # of a file that is not read as a whole, no other rows are needed
    return np.unique(kept) if is_source(file.X) else among, kept


def _scored(file: RowFile, rows: Array | None, seed: int) -> Part:
    from ._output import note

    part = take(file, rows, SCORED_ROWS, seed)
    if len(part) < (file.X.shape[0] if rows is None else len(rows)):
        note(f"scores are those of {len(part):,} held-out rows, chosen at random")
    return part


def take(file: RowFile, rows: Array | None, most: int | None, seed: int) -> Part:
    """Some rows of a file (all if None), or a random choice of ``most`` of them."""
    import numpy as np

    from .. import sources

    n_rows = file.X.shape[0]
    chosen = np.arange(n_rows) if rows is None else np.sort(rows)
    if most is not None and len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, size=most, replace=False))
    y = None if file.y is None else file.y[chosen]
    if sources.is_source(file.X):
        return Part(sources.gather(file.X, chosen), y, chosen)
    return Part(file.X if len(chosen) == n_rows else file.X[chosen], y, chosen)
