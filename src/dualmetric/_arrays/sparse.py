"""CSR matrices in canonical form, and SciPy matrices applied to arrays on a device."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._types import Array
from .namespace import blocks_of, device_of, indices_like, library, like, namespace


def canonical(X: Any) -> Any:
    """CSR with sorted indices, no duplicates and narrow indices; never changes its argument."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    largest = max(X.nnz, *X.shape)
    if X.indices.dtype != np.int32 and largest <= np.iinfo(np.int32).max:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = type(X)(parts, shape=X.shape, copy=False)
    return X


class OnDevice:
    """A SciPy matrix that is multiplied with dense columns on a device; sums are float64."""

    def __init__(self, matrix: Any, X: Any) -> None:
        matrix = sp.csr_matrix(matrix)
        self.shape = matrix.shape
        self._columns = indices_like(matrix.indices, X)
        self._starts = matrix.indptr
        xp = namespace(X)
        self._values = xp.asarray(
            matrix.data.astype(np.float64)[:, None], dtype=xp.float64, device=device_of(X)
        )

    def __matmul__(self, B: Any) -> Any:
        xp = namespace(B)
        parts = []
        for columns in blocks_of(B, B.shape[1], 32 * (self._columns.shape[0] + 1)):
            picked = xp.take(B[:, columns], self._columns, axis=0)
            products = xp.astype(picked, xp.float64) * self._values
            parts.append(like(sums_of_runs(products, self._starts), B))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def sums_of_runs(rows: Any, starts: Array) -> Any:
    """Sums of the rows from each start to the next, on a device.

    The array API cannot add to places named by an index array. PyTorch and CuPy can; elsewhere the
    sums are differences of a running sum.
    """
    xp = namespace(rows)
    n = len(starts) - 1
    if library(rows) not in ("torch", "cupy"):
        total = xp.cumulative_sum(rows, axis=0, include_initial=True)
        ends = xp.take(total, indices_like(starts, rows), axis=0)
        return ends[1:, :] - ends[:-1, :]
    places = indices_like(np.repeat(np.arange(n), np.diff(starts)), rows)
    total = xp.zeros((n, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    if library(rows) == "torch":
        return total.index_add_(0, places, rows)
    xp.add.at(total, places, rows)
    return total
