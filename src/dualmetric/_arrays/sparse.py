"""What `ops` does, for CSR matrices; and SciPy matrices applied to arrays on a device."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._types import Array
from .namespace import blocks_of, device_of, indices_like, library, like, namespace
from .system import fill_by_threads, run_blocks


def is_sparse(X: object) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(sp.issparse(X))


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


def all_rows_equal(X: Any) -> bool:
    """Whether no feature varies."""
    first = sp.csr_array(X[:1, :])
    for start in range(0, X.shape[0], 1024):
        block = X[start : start + 1024, :]
        for extreme in (block.max(axis=0), block.min(axis=0)):
            if (sp.csr_array(extreme.reshape(1, -1)) - first).count_nonzero():
                return False
    return True


def column_means(X: Any) -> Array:
    """Mean of the rows, in float64: SciPy's mean of a float32 matrix adds in float32."""
    return np.asarray(X.T @ np.ones(X.shape[0])) / X.shape[0]


def gram(X: Any) -> Array:
    """Inner products of the centred rows, in float64 (n × n)."""
    X64 = X.astype(np.float64)
    K = (X64 @ X64.T).toarray()
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    return K


def sum_of_squares(X: Any) -> float:
    """Sum of all squared entries, in float64."""
    return float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))


def row_lengths(X: Any) -> Array:
    """Length of each row, in float64."""
    return np.sqrt(np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel())


def row_peaks(X: Any) -> Array:
    """Largest absolute value of each row."""
    return abs(X).max(axis=1).toarray().ravel()


def divided_rows(X: Any, by: Array) -> Any:
    """Each row divided by its own number: a new matrix."""
    X = canonical(X).copy()
    X.data /= np.repeat(by, np.diff(X.indptr))
    return X


def dot(X: Any, B: Array) -> Array:
    """X·B on every core, by a compiled loop over parts with equally many entries."""
    from . import kernels

    B = np.ascontiguousarray(B, dtype=X.dtype)
    out = np.empty((X.shape[0], B.shape[1]), dtype=X.dtype)

    def part(start: int, stop: int) -> None:
        first, last = np.searchsorted(X.indptr, (start, stop))
        # rows without entries belong to no part of the entries, and to the last one here
        last = last if stop < X.nnz else X.shape[0]
        kernels.csr_dot(X.data, X.indices, X.indptr, B, first if start else 0, last, out)

    run_blocks(part, X.nnz, smallest=20_000)
    return out


def sq_distances(X: Any, left: Array, right: Array, smallest: int) -> Array:
    """‖x_left − x_right‖² for each pair of row numbers."""
    from . import kernels

    n, out = len(left), np.empty(len(left), dtype=X.dtype)
    parts = X.data, X.indices, X.indptr, left, right
    return fill_by_threads(kernels.sq_distances_csr, out, *parts, total=n, smallest=smallest)


def scatter_trace(X: Any, members: Any, sizes: Array) -> float:
    """Σ‖x − mean of its group‖² over all rows; ``members`` is groups × rows, of ones."""
    sums = members @ X.astype(np.float64)
    between = np.asarray(sums.power(2).sum(axis=1)).ravel() / sizes
    return max(sum_of_squares(X) - float(between.sum()), 0.0)


class OnDevice:
    """A SciPy matrix as what it does to dense columns on a device; sums are float64."""

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
