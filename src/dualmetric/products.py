"""Products with X, and gathers of its rows: the only code that knows what kind of array X is.

X is a dense array or a CSR matrix with sorted indices, float32 or float64; results are dense and
of the same precision. ``pair_*`` functions work with the pair graph C of weighted triplets:
Σ β_t A_t = XᵀCX. Where X is on a device, the function of the same name in `_device` does the work.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from ._namespace import is_device_array
from ._system import run_blocks
from ._types import Array, Rows

_BLOCK_BYTES = 2**24  # of a dense block of rows or columns held beside X

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _or_on_device(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Leave the call to `_device` where one of the first two arguments is a device array."""

    @wraps(function)
    def dispatch(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not any(is_device_array(argument) for argument in args[:2]):
            return function(*args, **kwargs)
        from . import _device

        found: _T = getattr(_device, function.__name__)(*args, **kwargs)
        return found

    return dispatch


def is_sparse(X: object) -> bool:
    """Whether X is a SciPy sparse matrix or array."""
    return bool(sp.issparse(X))


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


@_or_on_device
def all_rows_equal(X: Rows) -> bool:
    """Whether no feature of X varies. Stops at the first block of rows that does."""
    first = X[:1]
    for start in range(0, X.shape[0], 1024):
        block = X[start : start + 1024]
        if sp.issparse(X):
            for extreme in (block.max(axis=0), block.min(axis=0)):
                if (sp.csr_array(extreme.reshape(1, -1)) - sp.csr_array(first)).count_nonzero():
                    return False
        elif (block != first).any():
            return False
    return True


@_or_on_device
def dot(X: Rows, B: Array) -> Array:
    """X·B."""
    return np.asarray(X @ B)


@_or_on_device
def tdot(X: Rows, B: Array) -> Array:
    """Xᵀ·B."""
    return np.asarray(X.T @ B)


@_or_on_device
def take_rows(X: Rows, rows: Array) -> Rows:
    """Copy the given rows of X."""
    return X[rows]


@_or_on_device
def take_columns(X: Array, columns: Array) -> Array:
    """Copy the given columns of a dense X."""
    return np.ascontiguousarray(X[:, columns])


@_or_on_device
def to_dense(X: Rows) -> Array:
    """X as a C-contiguous array; the same array where it is one already."""
    return X.toarray() if sp.issparse(X) else np.ascontiguousarray(X)


@_or_on_device
def column_means(X: Rows) -> Array:
    """Mean of the rows, in the precision of X."""
    return _means64(X).astype(X.dtype, copy=False)


def _means64(X: Rows) -> Array:
    """Mean of the rows, in float64: SciPy's mean of a float32 matrix adds in float32."""
    if sp.issparse(X):
        return np.asarray(X.T @ np.ones(X.shape[0])) / X.shape[0]
    return X.mean(axis=0, dtype=np.float64)


@_or_on_device
def gram(X: Rows) -> Array:
    """Inner products of the centred rows, in float64 (n × n)."""
    if sp.issparse(X):
        X64 = X.astype(np.float64)
        K = (X64 @ X64.T).toarray()
        K -= K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
        return K
    n, d = X.shape
    K = np.zeros((n, n))
    width = max(1, _BLOCK_BYTES // (8 * n))
    for start in range(0, d, width):
        block = X[:, start : start + width].astype(np.float64)
        block -= block.mean(axis=0)
        K += block @ block.T
    return K


@_or_on_device
def less_mean(B: Array) -> Array:
    """Columns of B less their mean, which on paper is zero already; in place."""
    B -= B.mean(axis=0, dtype=np.float64).astype(B.dtype)
    return B


@_or_on_device
def centred(Z: Array) -> Array:
    """Rows less their mean: a new array."""
    return np.ascontiguousarray(Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype))


@_or_on_device
def less_class_means(Q: Array, codes: Array, members: sp.csr_matrix, sizes: Array) -> Array:
    """Rows of Q less the mean of their class; ``members`` is classes × rows, of ones."""
    means = (members.astype(Q.dtype) @ Q) / sizes[:, None].astype(Q.dtype)
    return Q - means[codes]


@_or_on_device
def column_dots(A: Array, B: Array) -> Array:
    """Inner products of the columns of A with those of B, in float64."""
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)


@_or_on_device
def beside(A: Array, B: Array) -> Array:
    """The columns of A, then those of B."""
    return np.hstack([A, B])


@_or_on_device
def placed(matrix: sp.csr_matrix, X: Rows) -> Rows:
    """A sparse matrix where X is, ready for repeated products."""
    return matrix


@_or_on_device
def row_lengths(X: Rows) -> Array:
    """Length of each row; squares are summed in float64, whose range they may need."""
    if sp.issparse(X):
        squares = np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.sqrt(squares).astype(X.dtype)


@_or_on_device
def unit_rows(rows: Rows, *, in_place: bool) -> Rows:
    """Rows scaled to length one; rows of zeros stay as they are."""
    sparse = is_sparse(rows)
    if sparse or not in_place:
        rows = canonical(rows).copy()
    with np.errstate(over="ignore", under="ignore"):
        lengths = row_lengths(rows)
        limits = np.finfo(rows.dtype)
        extreme = ~((lengths > limits.tiny**0.5) & (lengths < limits.max**0.5))
        if extreme.any():  # squares may have left the range of floats
            peaks = abs(rows[extreme]).max(axis=1)
            scale = np.ones_like(lengths)
            scale[extreme] = peaks.toarray().ravel() if sparse else peaks
            _divide_rows(rows, scale)
            lengths = row_lengths(rows)
    _divide_rows(rows, lengths)
    return rows


def _divide_rows(rows: Rows, by: Array) -> None:
    """Divide each row, in place; rows of zeros, whose divisor is zero, stay as they are."""
    by = np.where(by == 0, np.ones_like(by), by)
    if is_sparse(rows):
        rows.data /= np.repeat(by, np.diff(rows.indptr))
    else:
        rows /= by[:, None]


@_or_on_device
def sq_distances(X: Rows, left: Array, right: Array, *, threads: bool = True) -> Array:
    """‖x_left − x_right‖² for each pair of row numbers, on every core or in this thread."""
    from . import _kernels

    smallest = 2000 if threads else len(left) + 1
    out = np.empty(len(left), dtype=X.dtype)
    if sp.issparse(X):
        run_blocks(
            lambda start, stop: _kernels.sq_distances_csr(
                X.data, X.indices, X.indptr, left, right, start, stop, out
            ),
            len(left),
            smallest=smallest,
        )
    else:
        run_blocks(
            lambda start, stop: _kernels.sq_distances_dense(X, left, right, start, stop, out),
            len(left),
            smallest=smallest,
        )
    return out


@_or_on_device
def comparisons(X: Rows, index: Array) -> Array:
    """‖x_i − x_k‖² − ‖x_i − x_j‖² for each triple of row numbers (i, j, k)."""
    from . import _kernels

    if sp.issparse(X):
        anchor, positive, negative = np.ascontiguousarray(index.T)
        return sq_distances(X, anchor, negative) - sq_distances(X, anchor, positive)
    out = np.empty(len(index), dtype=X.dtype)
    run_blocks(  # ⟨M, A_t⟩ for M = I
        lambda start, stop: _kernels.margins(X, X, index, start, stop, out),
        len(index),
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


@_or_on_device
def mean_sq_distance(X: Rows) -> float:
    """Mean of ‖x_a − x_b‖² over all pairs of rows a ≠ b: twice the total variance."""
    n = X.shape[0]
    if n < 2:
        return 0.0
    mean = _means64(X)
    if sp.issparse(X):
        squares = float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))
        total = squares - n * float(mean @ mean)
    else:
        # in blocks of rows: no second copy of X
        total = 0.0
        for start in range(0, n, 1024):
            centred = X[start : start + 1024] - mean
            total += float(np.einsum("ij,ij->", centred, centred))
    return 2.0 * max(total, 0.0) / (n - 1)


@_or_on_device
def threaded_dot(X: Rows, B: Array) -> Array:
    """X·B on every core: for CSR by a compiled loop, over parts with equally many entries."""
    if not sp.issparse(X):
        return dot(X, B)
    from . import _kernels

    B = np.ascontiguousarray(B, dtype=X.dtype)
    out = np.empty((X.shape[0], B.shape[1]), dtype=X.dtype)

    def part(start: int, stop: int) -> None:
        first, last = np.searchsorted(X.indptr, (start, stop))
        # rows that hold nothing belong to no part of the entries, and to the last one here
        last = last if stop < X.nnz else X.shape[0]
        _kernels.csr_dot(X.data, X.indices, X.indptr, B, first if start else 0, last, out)

    run_blocks(part, X.nnz, smallest=20_000)
    return out


@_or_on_device
def transposed(X: Rows) -> Rows:
    """Xᵀ, ready for repeated products: a view of a dense X, CSR of a sparse one."""
    return X.T.tocsr() if sp.issparse(X) else X.T


def pair_graph(triplets: Array, weight: Array, n_rows: int) -> sp.csr_matrix:
    """C, the sparse symmetric matrix with Σ weight_t A_t = XᵀCX.

    A triplet (i, j, k) adds its weight at kk, ij and ji, and takes it away at jj, ik and ki.
    """
    i, j, k = triplets.T
    rows = np.concatenate([k, i, j, j, i, k])
    columns = np.concatenate([k, j, i, j, k, i])
    values = np.concatenate([weight] * 3 + [-weight] * 3)
    return sp.csr_matrix((values, (rows, columns)), shape=(n_rows, n_rows))


def pair_dot(triplets: Array, beta: Array, Y: Array) -> Array:
    """C·Y without C: cheaper than building it where Y has few columns."""
    from . import _kernels

    beta = np.asarray(beta, dtype=Y.dtype)
    out = np.zeros_like(Y, order="C")
    run_blocks(
        lambda start, stop: _kernels.pair_graph_dot(triplets, beta, Y, start, stop, out),
        Y.shape[1],
        smallest=16,
    )
    return out


@_or_on_device
def quadratic(X: Rows, apply: Callable[[Array], Array]) -> Array:
    """XᵀKX for a symmetric K given as what it does to dense columns.

    Its lower triangle is written out (d × d), a block of columns at a time. K·1 must be 0: the
    columns are centred before K adds them up, for where their mean is large its digits would
    otherwise drown theirs.
    """
    n, d = X.shape
    mean = column_means(X)
    back = transposed(X)
    width = max(8, min(256, _BLOCK_BYTES // (n * X.dtype.itemsize)))
    result = np.zeros((d, d), dtype=X.dtype)
    for start in range(0, d, width):
        columns = slice(start, min(start + width, d))
        block = (back[columns].toarray().T if sp.issparse(X) else X[:, columns]) - mean[columns]
        result[start:, columns] = threaded_dot(back[start:], apply(block))
    return result


@_or_on_device
def pair_matrix(X: Rows, C: sp.csr_matrix) -> Array:
    """XᵀCX, its lower triangle written out (d × d)."""
    return quadratic(X, lambda block: threaded_dot(C, block))


@_or_on_device
def within_scatter(X: Rows, codes: Array, members: sp.csr_matrix, sizes: Array) -> float:
    """Σ‖x − mean of its class‖² over all rows; ``members`` is classes × rows, of ones."""
    if sp.issparse(X):
        sums = members @ X.astype(np.float64)
        total = float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))
        return max(total - float((sums.power(2).sum(axis=1).A1 / sizes).sum()), 0.0)
    centre = column_means(X).astype(np.float64)
    total = 0.0
    sums = np.zeros((len(sizes), X.shape[1]))
    for start in range(0, X.shape[0], 1024):
        rows = X[start : start + 1024] - centre
        total += float(np.einsum("ij,ij->", rows, rows))
        sums += members[:, start : start + 1024] @ rows
    return max(total - float((np.square(sums).sum(axis=1) / sizes).sum()), 0.0)
