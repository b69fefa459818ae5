"""Products with X, and gathers of its rows: the only code that knows what kind of array X is.

X is a dense array or a CSR matrix with sorted indices, float32 or float64; results are dense and
of the same precision. ``pair_*`` functions work with the pair graph C of weighted triplets, which
is never stored: Σ β_t A_t = XᵀCX, and C·Y follows from the triplets directly.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from ._system import run_blocks
from ._types import Array, Rows

_BLOCK_COLUMNS = 64  # a block of 64 float32 columns of 10,000 rows is about a core's cache


def is_sparse(X: object) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(sp.issparse(X))


def dot(X: Rows, B: Array) -> Array:
    """X·B."""
    return np.asarray(X @ B)


def tdot(X: Rows, B: Array) -> Array:
    """Xᵀ·B."""
    return np.asarray(X.T @ B)


def take_rows(X: Rows, rows: Array) -> Rows:
    """Copy the given rows of X."""
    return X[rows]


def to_dense(X: Rows) -> Array:
    """X as a C-contiguous array; the same array where it is one already."""
    return X.toarray() if sp.issparse(X) else np.ascontiguousarray(X)


def column_means(X: Rows) -> Array:
    """Mean of the rows, in the precision of X."""
    return _means64(X).astype(X.dtype, copy=False)


def _means64(X: Rows) -> Array:
    """Mean of the rows, in float64: SciPy's mean of a float32 matrix adds in float32."""
    if sp.issparse(X):
        return np.asarray(X.T @ np.ones(X.shape[0])) / X.shape[0]
    return X.mean(axis=0, dtype=np.float64)


def gram(X: Rows) -> Array:
    """Inner products of the centred rows, in float64 (n × n)."""
    if sp.issparse(X):
        X64 = X.astype(np.float64)
        K = (X64 @ X64.T).toarray()
        K -= K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
    else:
        centred = X - X.mean(axis=0, dtype=np.float64)
        K = centred @ centred.T
    return K


def sq_distances(X: Rows, left: Array, right: Array) -> Array:
    """‖x_left − x_right‖² for each pair of row numbers."""
    from . import _kernels

    out = np.empty(len(left), dtype=X.dtype)
    if sp.issparse(X):
        run_blocks(
            lambda start, stop: _kernels.sq_distances_csr(
                X.data, X.indices, X.indptr, left, right, start, stop, out
            ),
            len(left),
            smallest=2000,
        )
    else:
        run_blocks(
            lambda start, stop: _kernels.sq_distances_dense(X, left, right, start, stop, out),
            len(left),
            smallest=2000,
        )
    return out


def sq_distance_blocks(X: Rows, block_bytes: int = 2**26) -> Iterator[tuple[int, Array]]:
    """Squared distances of all rows to all rows, a block of rows at a time.

    Yields the number of the block's first row and the block, by ‖a‖² + ‖b‖² − 2a·b in the
    precision of X: good enough to find neighbours, not to tell near duplicates apart.
    """
    if not sp.issparse(X):
        X = X - column_means(X)
    right = X.T.tocsr() if sp.issparse(X) else X.T
    norms = row_norms(X, squared=True)
    height = max(1, block_bytes // (X.shape[0] * X.dtype.itemsize))
    for first in range(0, X.shape[0], height):
        block = X[first : first + height] @ right
        distances = block.toarray() if sp.issparse(block) else block
        distances *= -2
        distances += norms
        distances += norms[first : first + height, None]
        yield first, distances


def mean_sq_distance(X: Rows) -> float:
    """Mean of ‖x_a − x_b‖² over all pairs of rows a ≠ b: twice the total variance."""
    n = X.shape[0]
    if n < 2:
        return 0.0
    mean = _means64(X)
    if sp.issparse(X):
        squares = float(np.square(X.data, dtype=np.float64).sum())
        total = squares - n * float(mean @ mean)
    else:
        # in blocks of rows: no second copy of X
        total = 0.0
        for start in range(0, n, 1024):
            centred = X[start : start + 1024] - mean
            total += float(np.einsum("ij,ij->", centred, centred))
    return 2.0 * max(total, 0.0) / (n - 1)


def pair_dot(triplets: Array, beta: Array, Y: Array) -> Array:
    """C·Y for a dense Y with one row an example."""
    from . import _kernels

    beta = np.asarray(beta, dtype=Y.dtype)
    out = np.zeros_like(Y, order="C")
    run_blocks(
        lambda start, stop: _kernels.pair_graph_dot(triplets, beta, Y, start, stop, out),
        Y.shape[1],
        smallest=16,
    )
    return out


def pair_matrix(X: Rows, triplets: Array, beta: Array) -> Array:
    """Σ β_t A_t = XᵀCX, written out (d × d) a block of columns at a time."""
    d = X.shape[1]
    by_column = X.tocsc() if sp.issparse(X) else X
    width = _BLOCK_COLUMNS * 2
    result = np.empty((d, d), dtype=X.dtype)
    for start in range(0, d, width):
        columns = slice(start, min(start + width, d))
        block = by_column[:, columns]
        dense = block.toarray(order="C") if sp.issparse(block) else np.ascontiguousarray(block)
        result[:, columns] = tdot(X, pair_dot(triplets, beta, dense))
    return 0.5 * (result + result.T)
