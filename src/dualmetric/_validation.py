"""Checks of input that scikit-learn's own validation leaves out."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._types import Array, Rows


def refuse_mask(array: Any, name: str) -> None:
    """Raise where a masked array hides entries: converting it would silently bring them back."""
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise ValueError(
            f"{name} is a masked array with masked entries, which would be used as if they were "
            f"not masked. Fill them first, for example {name}.filled(0), or drop those rows."
        )


def canonical(X: Rows) -> Rows:
    """CSR with sorted indices, no duplicates and narrow indices; never changes its argument."""
    if not sp.issparse(X):
        return X
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    largest = max(X.nnz, *X.shape)
    if X.indices.dtype != np.int32 and largest <= np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = type(X)(parts, shape=X.shape, copy=False)
    return X


def check_labels(y: Any, n_rows: int) -> Array:
    """Labels as a one-dimensional array: numbers, strings or objects that can be sorted."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    refuse_mask(y, "y")
    labels = column_or_1d(y, warn=True)
    if len(labels) != n_rows:
        raise ValueError(f"y has {len(labels)} labels and X has {n_rows} rows: one a row is needed")
    missing = labels != labels if labels.dtype.kind in "fO" else np.zeros(1, bool)
    if np.any(missing) or (labels.dtype.kind == "O" and any(item is None for item in labels)):
        raise ValueError("y contains NaN or None: every row needs a label; drop the others")
    check_classification_targets(labels)
    if labels.dtype.kind == "O" and len({type(item) for item in labels}) > 1:
        raise ValueError("y mixes labels of different types: convert them, for example to strings")
    return labels
