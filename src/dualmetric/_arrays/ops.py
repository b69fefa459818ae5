"""Operations on rows: dense arrays of any library, and CSR matrices.

Dense code is written once, against the array API. CSR matrices have their own code where they need
it, and a compiled loop of `kernels` is used where it is much faster on the host. Results are dense
and have the precision of X; sums of many numbers are added up in float64.

A comparison is four row numbers (a, b, c, d): "a and b are closer than c and d". With
p = x_c − x_d and q = x_a − x_b, its matrix is A = ppᵀ − qqᵀ = ½(uvᵀ + vuᵀ), u = p − q, v = p + q.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import issparse as is_sparse

from .._types import Array, Matrix
from . import sparse
from .namespace import (
    blocks_of,
    device_of,
    indices_like,
    is_device_array,
    like,
    namespace,
    precision,
    to_numpy,
)
from .system import fill_by_threads, n_threads, run_blocks, single_blas_thread

_ONE_THREAD = 2**18  # multiplications up to which BLAS starts no threads
_PART = 2**21  # multiplications that are worth a thread of their own
_SUMMED = 1024  # rows whose products are added up at once
_SMALL = 2**24  # bytes up to which sparse rows are written out, where that is more exact
OUT_OF_RANGE = (
    "the numbers in X are too large or too small for their precision: bring them near 1, for "
    "example with StandardScaler, or pass float64"
)


def canonical(X: Matrix) -> Matrix:
    """CSR with sorted, narrow indices and no duplicates; a dense X unchanged."""
    return sparse.canonical(X) if is_sparse(X) else X


def all_rows_equal(X: Matrix) -> bool:
    """Whether no feature of X varies. Stops at the first block of rows that does."""
    for block in blocks_of(X, X.shape[0], X.shape[1], most=1024):
        if is_sparse(X):
            rows = X[block, :]
            varies = (rows != X[np.zeros(rows.shape[0], dtype=np.int64), :]).nnz > 0
        else:
            varies = bool(namespace(X).any(X[block, :] != X[:1, :]))
        if varies:
            return False
    return True


def dot(X: Matrix, B: Matrix) -> Matrix:
    """X·B."""
    if is_sparse(X):
        return sparse.OnDevice(X, B) @ B if is_device_array(B) else np.asarray(X @ B)
    return X @ B


def is_dense(X: Matrix) -> bool:
    """Whether X is stored in full."""
    return not is_sparse(X)


def products(A: Matrix, B: Matrix) -> Matrix:
    """Inner products of all rows of A with all rows of B; dense."""
    return (A @ B.T).toarray() if is_sparse(A) and is_sparse(B) else dot(A, to_dense(B).T)


def threaded_dot(X: Matrix, B: Matrix, out: Array | None = None) -> Matrix:
    """X·B for a dense B, on every core: for CSR by a loop over parts with equally many entries.

    ``out`` is an array for the result, which saves the time that new memory takes; on a device it
    is not used.
    """
    if is_device_array(X) or is_device_array(B):
        return dot(X, B)
    if not is_sparse(X):
        return _dense_dot(X, B, out)
    from . import kernels

    B = np.ascontiguousarray(B, dtype=X.dtype)
    if out is None:
        out = np.empty((X.shape[0], B.shape[1]), dtype=X.dtype)

    def part(start: int, stop: int) -> None:
        first, last = np.searchsorted(X.indptr, (start, stop))
        # rows without entries belong to no part of the entries, and to the last one here
        last = last if stop < X.nnz else X.shape[0]
        kernels.csr_dot(X.data, X.indices, X.indptr, B, first if start else 0, last, out)

    run_blocks(part, X.nnz, smallest=20_000)
    return out


def _dense_dot(X: Array, B: Array, out: Array | None) -> Array:
    """X·B on every core, by our own threads.

    Those of OpenBLAS go on spinning for some 20 ms, and slow down what comes next.
    """
    if out is None:
        if X.size * B.shape[1] <= _ONE_THREAD:
            return X @ B
        out = np.empty((X.shape[0], B.shape[1]), dtype=np.result_type(X, B))
    with single_blas_thread():
        run_blocks(
            lambda start, stop: np.matmul(X[start:stop], B, out=out[start:stop]),
            len(X),
            smallest=1 + _PART // (1 + B.size),
        )
    return out


def threaded_tdot(X: Matrix, B: Matrix) -> Matrix:
    """Xᵀ·B for dense X and B, on every core."""
    if is_device_array(X) or X.size * B.shape[1] <= _ONE_THREAD:
        return X.T @ B
    out = np.empty((X.shape[1], B.shape[1]), dtype=np.result_type(X, B))
    with single_blas_thread():
        run_blocks(
            lambda start, stop: np.matmul(X[:, start:stop].T, B, out=out[start:stop]),
            len(out),
            smallest=1 + _PART // (1 + B.size),
        )
    return out


def row_dots(Z: Array, columns: Array) -> Array:
    """Z·columnsᵀ for a few vectors, in one pass over many rows (n × k)."""
    from . import kernels

    out = np.empty((Z.shape[0], len(columns)), dtype=Z.dtype)
    columns = np.ascontiguousarray(columns, dtype=Z.dtype)
    return fill_by_threads(kernels.row_dots, out, Z, columns, total=len(Z), smallest=2000)


def tdot(X: Matrix, B: Matrix) -> Matrix:
    """Xᵀ·B."""
    return X.T @ B


def transposed(X: Matrix) -> Matrix:
    """Xᵀ, ready for repeated products: a view of a dense X, CSR of a sparse one."""
    return X.T.tocsr() if is_sparse(X) else X.T


def placed(matrix: Any, X: Matrix) -> Any:
    """A SciPy matrix, ready for repeated products with arrays that live where X does."""
    return sparse.OnDevice(matrix, X) if is_device_array(X) else matrix


def take_rows(X: Matrix, rows: Array) -> Matrix:
    """Copy the given rows of X."""
    return namespace(X).take(X, indices_like(rows, X), axis=0) if is_device_array(X) else X[rows]


def take_columns(X: Matrix, columns: Array) -> Matrix:
    """Copy the given columns of X."""
    if is_sparse(X):
        return X[:, columns]
    return namespace(X).take(X, indices_like(columns, X), axis=1)


def to_dense(X: Matrix) -> Matrix:
    """X as a dense array, C-contiguous on the host; the same array where it is one already."""
    if is_sparse(X):
        return X.toarray()
    return X if is_device_array(X) else np.ascontiguousarray(X)


def require_dense(X: Matrix, message: str) -> None:
    """Refuse a sparse matrix."""
    if is_sparse(X):
        raise ValueError(message)


def stored_values(X: Matrix) -> Matrix:
    """The numbers of X: all of a dense array, those that are stored of a sparse one."""
    return X.data if is_sparse(X) else X


def named_parts(X: Matrix) -> dict[str, Array]:
    """Arrays that X can be made from again: itself, or those of a CSR matrix, by name."""
    if not is_sparse(X):
        return {"X": X}
    X = sp.csr_matrix(X)
    kind = {"format": np.array("csr"), "shape": np.array(X.shape)}
    return {**kind, "data": X.data, "indices": X.indices, "indptr": X.indptr}


def count_nonzero(X: Matrix) -> Array:
    """Number of rows in which each column is not zero."""
    if is_sparse(X):
        X = canonical(X)
        return np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
    return np.count_nonzero(X, axis=0)


def map_nonzero(X: Matrix, function: Callable[[Array], Array], weights: Array) -> Matrix:
    """``function(value)·weight`` for every value that is not zero, by column: a new matrix."""
    if is_sparse(X):
        X = canonical(X).copy()
        X.eliminate_zeros()
        X.data = function(X.data) * weights[X.indices]
        return X
    held = X != 0
    result = np.zeros_like(X)
    result[held] = function(X[held])
    result *= weights
    return result


def to_float64(A: Matrix) -> Matrix:
    """A in float64, on its device; the same array if it is float64 already."""
    if is_sparse(A):
        return A.astype(np.float64, copy=False)
    xp = namespace(A)
    return xp.astype(A, xp.float64, copy=False)


def beside(A: Matrix, B: Matrix) -> Matrix:
    """The columns of A, then those of B: sparse where A is."""
    if is_sparse(A):
        return sp.hstack([A, sp.csr_matrix(B)], format="csr")
    return namespace(A).concat([A, B], axis=1)


def stacked(parts: list[Matrix]) -> Matrix:
    """One part below the other: sparse where any part is."""
    if any(map(is_sparse, parts)):
        return sp.vstack([sp.csr_matrix(part) for part in parts], format="csr")
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=0)


def square(n: int, X: Matrix, *, diagonal: float = 0.0) -> Matrix:
    """A new n × n matrix with the given diagonal, in the precision of X and where X is."""
    xp = namespace(X)
    dtype = xp.float32 if precision(X) == np.float32 else xp.float64
    return diagonal * xp.eye(n, dtype=dtype, device=device_of(X))


def check_range(mean: float, X: Matrix) -> None:
    """Refuse rows whose mean squared distance leaves no room for sums of squares and inverses."""
    limits = np.finfo(precision(X))
    if not float(limits.tiny) ** 0.8 < mean < float(limits.max) ** 0.8:
        raise ValueError(OUT_OF_RANGE)


# --- sums and means --------------------------------------------------------------------------


def column_sums(X: Matrix) -> Matrix:
    """Sum of the rows, in float64."""
    if is_sparse(X):
        return _means64(X) * X.shape[0]
    xp = namespace(X)
    return xp.sum(X, axis=0, dtype=xp.float64)


def _means64(X: Matrix) -> Matrix:
    # SciPy's mean of a float32 matrix adds in float32
    total = np.asarray(X.T @ np.ones(X.shape[0])) if is_sparse(X) else column_sums(X)
    return total / X.shape[0]


def column_means(X: Matrix) -> Matrix:
    """Mean of the rows, in the precision of X."""
    return like(_means64(X), X)


def centre_of(X: Matrix) -> Matrix | None:
    """Mean of dense rows; None for sparse rows, which would become dense if it were subtracted."""
    return None if is_sparse(X) else column_means(X)


def minus_centre(X: Matrix, centre: Matrix | None) -> Matrix:
    """Rows minus a centre, where there is one; refused for sparse rows."""
    if centre is None:
        return X
    if is_sparse(X):
        raise ValueError(
            "this metric subtracts a centre, which would make a sparse X dense: pass X.toarray(), "
            "or use a metric with centre=None"
        )
    return X - like(centre, X)


def minus_mean(B: Matrix) -> Matrix:
    """Columns of a dense B minus their mean: a new array."""
    return B - column_means(B)


def combined(A: Matrix, a: Any, B: Matrix, b: Any) -> Matrix:
    """A·a + B·b for numbers a and b, or one per column; on the host in the memory of A."""
    if is_device_array(A):
        return A * a + B * b
    from . import kernels

    a, b = (np.broadcast_to(np.asarray(one, A.dtype), A.shape[1]).copy() for one in (a, b))
    run_blocks(lambda *rows: kernels.combine(A, a, B, b, *rows), len(A), smallest=_thin(A))
    return A


def _thin(A: Array) -> int:
    """Rows that are worth a thread of their own where each number is read once or twice."""
    return 1 + 2**18 // (1 + A.shape[1])


def column_dots(A: Matrix, B: Matrix) -> Array:
    """Inner products of the columns of A with those of B, in float64; on the host."""
    if not is_device_array(A):
        from . import kernels

        # parts of the same size, however many threads there are: so are the sums
        sums = np.zeros((-(-len(A) // _SUMMED), A.shape[1]))
        smallest = -(-_thin(A) // _SUMMED)
        fill_by_threads(
            kernels.dots_by_parts, sums, A, B, _SUMMED, total=len(sums), smallest=smallest
        )
        return sums.sum(axis=0)
    xp = namespace(A)
    total = xp.zeros(A.shape[1], dtype=xp.float64, device=device_of(A))
    for block in blocks_of(A, A.shape[0], 24 * A.shape[1]):
        left, right = (xp.astype(part[block, :], xp.float64) for part in (A, B))
        total += xp.sum(left * right, axis=0)
    return to_numpy(total)


def row_lengths(X: Matrix) -> Matrix:
    """Length of each row; squares are summed in float64, because float32 could overflow."""
    if is_sparse(X):
        return like(np.sqrt(np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()), X)
    xp = namespace(X)

    def lengths(block: slice) -> Matrix:
        rows = xp.astype(X[block, :], xp.float64, copy=False)
        return like(xp.sqrt(xp.vecdot(rows, rows)), X)

    return xp.concat(_by_blocks(X, 16 * X.shape[1], lengths))


def unit_rows(X: Matrix) -> Matrix:
    """Rows scaled to length one, as a new matrix; rows of zeros stay as they are."""
    limits = np.finfo(precision(X))
    with np.errstate(over="ignore", under="ignore"):
        lengths = row_lengths(X)
        extreme = ~((lengths > float(limits.tiny) ** 0.5) & (lengths < float(limits.max) ** 0.5))
        xp = namespace(X)
        if bool(xp.any(extreme)):  # squares may have left the range of floats
            peaks = abs(X).max(axis=1).toarray().ravel() if is_sparse(X) else xp.max(abs(X), axis=1)
            X = divided_rows(X, xp.where(extreme, peaks, xp.ones_like(lengths)))
            lengths = row_lengths(X)
    return divided_rows(X, lengths)


def unit_blocks(X: Matrix, of: Array, n_blocks: int) -> Matrix:
    """Each block of columns of each row scaled to length one; zeros stay zero.

    ``of`` holds the number of the block of each column.
    """
    X = unit_rows(X)  # squares now stay in the range of floats
    parts = (take_columns(X, np.flatnonzero(of == block)) for block in range(n_blocks))
    xp = namespace(X)
    lengths = xp.stack([row_lengths(part) for part in parts], axis=1)
    lengths = xp.where(lengths == 0, xp.ones_like(lengths), lengths)
    if not is_sparse(X):
        return X / take_columns(lengths, of)
    X.data /= lengths[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), of[X.indices]]
    return X


def scaled_columns(X: Matrix, by: Array) -> Matrix:
    """Each column multiplied by its own number: a new matrix."""
    if not is_sparse(X):
        return X * like(by, X)
    X = canonical(X).copy()
    X.data *= by[X.indices].astype(X.dtype)
    return X


def divided_rows(X: Matrix, by: Matrix) -> Matrix:
    """Each row divided by its own number; rows whose number is zero stay as they are."""
    xp = namespace(by)
    by = xp.where(by == 0, xp.ones_like(by), by)
    if not is_sparse(X):
        return X / by[:, None]
    X = canonical(X).copy()
    X.data /= np.repeat(by, np.diff(X.indptr))
    return X


def minus_group_means(Q: Matrix, codes: Array, members: Any, sizes: Array) -> Matrix:
    """Rows of Q minus the mean of their group; ``members`` is groups × rows, of ones."""
    means = dot(members.astype(precision(Q)), Q) / like(sizes, Q)[:, None]
    return Q - take_rows(means, codes)


def scatter_trace(X: Matrix, codes: Array, members: Any, sizes: Array) -> float:
    """Σ‖x − mean of its group‖² over all rows; ``members`` is groups × rows, of ones."""
    if is_sparse(X):
        sums = members @ X.astype(np.float64)
        between = np.asarray(sums.power(2).sum(axis=1)).ravel() / sizes
        return max(_sum_of_squares(X) - float(between.sum()), 0.0)
    xp = namespace(X)
    centre = _means64(X)[None, :]
    total = 0.0
    sums = xp.zeros((len(sizes), X.shape[1]), dtype=xp.float64, device=device_of(X))
    for block in blocks_of(X, X.shape[0], 32 * X.shape[1]):
        rows = X[block, :] - centre
        total += float(xp.sum(rows * rows))
        sums += dot(members[:, block], rows)
    between = xp.sum(xp.sum(sums * sums, axis=1) / like(sizes, sums))
    return max(total - float(between), 0.0)


def _sum_of_squares(X: Any) -> float:
    """Sum of all squared entries of a CSR matrix, in float64."""
    return float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))


def mean_sq_distance(X: Matrix) -> float:
    """Mean of ‖x_a − x_b‖² over all pairs of rows a ≠ b: twice the total variance."""
    n = X.shape[0]
    if n < 2:
        return 0.0
    mean = _means64(X)
    if is_sparse(X):
        total = _sum_of_squares(X) - n * float((mean * mean).sum())  # mean @ mean starts threads
        return 2.0 * max(total, 0.0) / (n - 1)

    def squares(block: slice) -> float:
        rows = X[block, :] - mean[None, :]
        return float(namespace(X).sum(rows * rows))

    return 2.0 * sum(_by_blocks(X, 24 * X.shape[1], squares)) / (n - 1)


def _by_blocks(X: Matrix, bytes_each: int, work: Callable[[slice], Any]) -> list[Any]:
    """``work(block)`` for blocks of the rows of X, in order; on the host on every core."""
    # an eighth of the usual: what several threads hold then stays in their caches
    blocks = list(blocks_of(X, X.shape[0], 8 * bytes_each))
    found: list[Any] = [None] * len(blocks)

    def part(start: int, stop: int) -> None:
        for number in range(start, stop):
            found[number] = work(blocks[number])

    if is_device_array(X):
        part(0, len(blocks))
    else:
        run_blocks(part, len(blocks))
    return found


# --- distances and comparisons ---------------------------------------------------------------


def sq_distances(X: Matrix, left: Array, right: Array, *, threads: bool = True) -> Array:
    """‖x_left − x_right‖² for each pair of row numbers, on every core or in this thread."""
    if is_device_array(X):
        xp = namespace(X)
        parts = []
        for block in blocks_of(X, len(left), 24 * X.shape[1]):
            apart = take_rows(X, left[block]) - take_rows(X, right[block])
            parts.append(xp.sum(apart * apart, axis=1))
        return to_numpy(xp.concat(parts))
    from . import kernels

    kernel = kernels.sq_distances_csr if is_sparse(X) else kernels.sq_distances_dense
    rows = (X.data, X.indices, X.indptr, X.shape[1]) if is_sparse(X) else (X,)
    n, out = len(left), np.empty(len(left), dtype=X.dtype)
    smallest = 2000 if threads else n + 1
    return fill_by_threads(kernel, out, *rows, left, right, total=n, smallest=smallest)


def sq_distance_blocks(X: Matrix, block_bytes: int = 2**26) -> Iterator[tuple[int, Matrix]]:
    """Squared distances of all rows to all rows, a block of rows at a time.

    Yields the number of the block's first row and the block, by ‖a‖² + ‖b‖² − 2a·b in the
    precision of X: good enough to find neighbours, not to tell near duplicates apart.
    """
    if not is_sparse(X):
        X = minus_mean(X)
    right = transposed(X)
    norms = row_lengths(X) ** 2
    height = max(1, block_bytes // (X.shape[0] * precision(X).itemsize))
    for first in range(0, X.shape[0], height):
        last = min(first + height, X.shape[0])
        distances = to_dense(X[first:last, :] @ right)
        distances *= -2
        distances += norms[None, :]
        distances += norms[first:last][:, None]
        yield first, distances


def steps_at_once(Z: Matrix) -> int:
    """Number of comparisons per block: larger on a device, where blocks have to be transferred."""
    return 512 if is_device_array(Z) else 128


def differences(Z: Matrix, index: Array) -> tuple[Matrix, Matrix]:
    """u = p − q and v = p + q of each comparison, computed so that triplets lose no digits."""
    a, b, c, d = (take_rows(Z, rows) for rows in index.T)
    return (c - a) + (b - d), (a - b) + (c - d)


def margins(Z: Matrix, index: Array, M: Matrix | None = None) -> Array:
    """⟨M, A_t⟩ = d²(c, d) − d²(a, b) of every comparison; M = None is the identity; on the host.

    ``index`` may hold triplets (i, j, k), which stand for (i, j, i, k).
    """
    if index.shape[1] == 3 and (is_sparse(Z) or is_device_array(Z)):
        index = index[:, [0, 1, 0, 2]]
    if is_sparse(Z):
        if M is not None:
            raise TypeError("margins of sparse rows can be computed for the identity only (M=None)")
        a, b, c, d = np.ascontiguousarray(index.T)
        return sq_distances(Z, c, d) - sq_distances(Z, a, b)
    W = Z if M is None else threaded_dot(Z, M)
    if is_device_array(Z):
        xp = namespace(Z)
        parts = []
        for block in blocks_of(Z, len(index), 64 * Z.shape[1]):
            u, _ = differences(Z, index[block])
            _, image = differences(W, index[block])
            parts.append(xp.sum(u * image, axis=1))
        return to_numpy(xp.concat(parts))
    from . import kernels

    n, out = len(index), np.empty(len(index), dtype=Z.dtype)
    return fill_by_threads(kernels.margins, out, Z, W, index, total=n, smallest=2000)


def comparison_graph(index: Array, weight: Array, n_rows: int) -> sp.csr_matrix:
    """C, the sparse symmetric matrix with Σ weight_t A_t = XᵀCX: a signed graph Laplacian.

    The pair (c, d) adds its weight at cc and dd and subtracts it at cd and dc; the pair (a, b)
    does the opposite.
    """
    a, b, c, d = index.T
    pairs = np.concatenate([a, c]), np.concatenate([b, d])
    one_way = sp.csr_matrix((np.concatenate([weight, -weight]), pairs), shape=(n_rows, n_rows))
    graph = one_way + one_way.T
    degrees = -np.asarray(graph.sum(axis=1)).ravel()  # so that C·1 = 0
    graph = sp.csr_matrix(graph + sp.diags_array(degrees, format="csr", dtype=graph.dtype))
    graph.eliminate_zeros()
    return graph


def comparison_matrix(Z: Matrix, index: Array, beta: Array) -> Matrix:
    """V = Σ β_t A_t (m × m)."""
    if not is_device_array(Z):
        V = threaded_tdot(Z, _graph_dot(index, beta, Z))
        return 0.5 * (V + V.T)
    xp = namespace(Z)
    used = np.flatnonzero(beta)
    V = xp.zeros((Z.shape[1], Z.shape[1]), dtype=xp.float64, device=device_of(Z))
    for block in blocks_of(Z, len(used), 32 * Z.shape[1]):
        u, v = differences(Z, index[used[block]])
        V += xp.astype(u.T @ (like(beta[used[block]], Z)[:, None] * v), xp.float64)
    return like(0.5 * (V + V.T), Z)


def _graph_dot(index: Array, beta: Array, Y: Array) -> Array:
    """C·Y without C: cheaper than building it where Y has few columns."""
    from . import kernels

    beta = np.asarray(beta, dtype=Y.dtype)
    n, out = Y.shape[1], np.zeros_like(Y, order="C")
    return fill_by_threads(kernels.graph_dot, out, index, beta, Y, total=n, smallest=16)


# --- matrices of inner products --------------------------------------------------------------


def gram(X: Matrix) -> Matrix:
    """Inner products of the centred rows, in float64 (n × n)."""
    if is_sparse(X):
        X64 = X.astype(np.float64)
        K = (X64 @ X64.T).toarray()
        K -= K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
        return K
    xp = namespace(X)
    n, d = X.shape
    K = xp.zeros((n, n), dtype=xp.float64, device=device_of(X))
    for columns in blocks_of(X, d, 8 * n):
        block = minus_mean(xp.astype(X[:, columns], xp.float64))
        K += block @ block.T
    return K


def quadratic(X: Matrix, apply: Callable[[Matrix], Matrix]) -> Matrix:
    """XᵀKX for a symmetric K with K·1 = 0, given as a function of dense columns.

    Its lower triangle is written out (d × d), a block of columns at a time. The columns are centred
    before K is applied, and again afterwards: otherwise the rounding errors of a large mean could
    exceed the values themselves.
    """
    n, d = X.shape
    mean = column_means(X)
    back = transposed(X)
    result = square(d, mean)
    most, n_blocks = 256, 1
    if not is_sparse(X) and not is_device_array(X):
        n_blocks = n_threads()  # that are held at once
        most = min(64, max(8, d // (2 * n_blocks)))  # narrow blocks stay in the cache
    blocks = list(blocks_of(X, d, n_blocks * n * precision(X).itemsize, least=8, most=most))

    def fill(start: int, stop: int) -> None:
        for first in range(start, stop):
            # a long block of the triangle and a short one, so that all parts are equal; of an odd
            # number of blocks, the one in the middle is alone
            for number in {first, len(blocks) - 1 - first}:
                columns = blocks[number]
                block = to_dense(back[columns, :]).T if is_sparse(X) else X[:, columns]
                image = minus_mean(apply(block - mean[None, columns]))
                rest = slice(columns.start, None)
                result[rest, columns] = threaded_dot(back[rest, :], image)

    n_pairs = -(-len(blocks) // 2)
    if is_device_array(X):
        fill(0, n_pairs)
    else:
        with single_blas_thread():
            run_blocks(fill, n_pairs)
    return result


def principal_components(X: Matrix, m: int, seed: int) -> Matrix:
    """The m leading principal components as columns; fewer where X has fewer."""
    from sklearn.decomposition import PCA

    rows = to_numpy(X)  # scikit-learn works on the host
    n, d = rows.shape
    solver = "auto"
    if is_sparse(rows) and rows.dtype.itemsize * n * d <= _SMALL:
        rows = rows.toarray()
    if not is_sparse(rows):
        # the covariance of rows far from zero would lose their differences
        rows = minus_mean(rows)
    else:
        # components have no unit, and the sparse solver stops too early on small numbers
        rows = (rows / np.sqrt(mean_sq_distance(rows))).astype(rows.dtype)
        if m >= min(n, d):
            # all of them, which ARPACK cannot give; n centred rows have at most n − 1
            m, solver = (n - 1, "arpack") if n <= d else (d, "covariance_eigh")
    pca = PCA(n_components=min(m, n, d), svd_solver=solver, random_state=seed).fit(rows)
    found = pca.components_.T
    if is_sparse(rows):
        # beyond the rank of X, ARPACK returns directions that differ from call to call
        spread = pca.singular_values_
        found = found[:, spread > spread.max() * max(n, d) * np.finfo(rows.dtype).eps]
    return like(np.ascontiguousarray(found, dtype=rows.dtype), X)
