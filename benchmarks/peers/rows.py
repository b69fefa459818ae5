"""Rows in files, between the runner and its workers; dense or sparse."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def write(path: Path, X: Any) -> None:
    """Write rows to ``path`` with the ending that fits them."""
    if sp.issparse(X):
        sp.save_npz(path.with_suffix(".npz"), sp.csr_matrix(X), compressed=False)
    else:
        np.save(path.with_suffix(".npy"), X)


def read(path: Path) -> Any:
    """Read what `write` has written."""
    if path.with_suffix(".npz").exists():
        return sp.load_npz(path.with_suffix(".npz"))
    return np.load(path.with_suffix(".npy"), allow_pickle=False)


def n_bytes(X: Any) -> int:
    """Memory of the rows."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)
