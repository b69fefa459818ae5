"""Which rows a metric was learned from, as far as its file remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .._types import Array
    from ..metric import Metric
    from ..rowfiles import RowFile

_LOOKED_AT = 16  # rows that tell files with the same labels apart


class Evaluated(NamedTuple):
    """Rows of a file that are scored (all if None), and those that vote, if others do."""

    scored: Array | None
    voters: Array | None
    held_out: bool
    """Whether the scored rows are known to have been held out."""


def describe_split(file: RowFile, share: float | None, seed: int) -> dict[str, Any] | None:
    """What ``info`` of a metric keeps of a random split; None where there was none."""
    if share is None or file.y is None:
        return None
    return {"rows": len(file.y), "holdout": share, "seed": seed, "digest": _digest(file)}


def rows_to_evaluate(metric: Metric, file: RowFile) -> Evaluated:
    """Rows held out when the metric was learned from this file; else what the file says, or all."""
    from ._output import note
    from ._parts import hold_out

    share, seed = _recall(metric.info.get("split"), file)
    if share and file.y is not None:
        train, test = hold_out(file.y, share, seed)
        return Evaluated(test, train, held_out=True)
    if share == 0:
        note("the metric was learned from these rows, so that the scores flatter it")
    return Evaluated(file.test_idx, file.train_idx, held_out=False)


def _recall(kept: Any, file: RowFile) -> tuple[float | None, int]:
    """Share and seed of the split of this file; no share where it is not the one learned from."""
    if not isinstance(kept, dict) or file.y is None or kept.get("rows") != len(file.y):
        return None, 0
    share, seed = kept.get("holdout"), kept.get("seed")
    if not isinstance(share, int | float) or not isinstance(seed, int):
        return None, 0
    if not (0 <= share <= 0.9 and 0 <= seed < 2**32) or kept.get("digest") != _digest(file):
        return None, 0
    return share, seed


def _digest(file: RowFile) -> str:
    """Short digest of the labels and of a few rows, the same for all forms of a file."""
    from hashlib import blake2b

    import numpy as np
    import scipy.sparse as sp

    from ._parts import take

    labels = [] if file.y is None else file.y.tolist()
    digest = blake2b("\n".join(map(str, labels)).encode("utf-8", "replace"), digest_size=8)
    n = file.X.shape[0]
    looked_at = np.linspace(0, n - 1, min(n, _LOOKED_AT)).astype(np.int64)
    rows = sp.csr_matrix(take(file, looked_at, most=None, seed=0).X)
    rows.eliminate_zeros()
    with np.errstate(over="ignore"):
        values = rows.data.astype("<f4")  # text keeps no more digits of some
    for array in (values, rows.indices.astype("<i8"), rows.indptr.astype("<i8")):
        digest.update(array.tobytes())
    return digest.hexdigest()
