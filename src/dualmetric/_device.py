"""What `products` does, for device arrays: functions of the same names and meanings.

Arrays as large as rows stay on the device of X and are worked on in blocks; what is as small as a
class, an eigenvalue or a number of a row comes back to the host. Sums that the host adds up in
float64 are float64 here too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._namespace import (
    blocks_of,
    check_device_rows,
    check_device_shape,
    check_same_device,
    indices_like,
    is_device_array,
    library,
    like,
    namespace,
    to_numpy,
)
from ._types import Array
from ._validation import check_labels

_COLUMNS = 64  # of a dense block that a sparse matrix is applied to at once


class SparseMatrix:
    """A SciPy matrix on a device, as what it does to dense columns there."""

    def __init__(self, matrix: Any, X: Any) -> None:
        entries = matrix.tocoo()
        self.shape = matrix.shape
        self._rows = indices_like(entries.row, X)
        self._columns = indices_like(entries.col, X)
        self._values = like(entries.data, X)[:, None]

    def __matmul__(self, B: Any) -> Any:
        xp = namespace(B)
        parts = []
        for start in range(0, B.shape[1], _COLUMNS):
            columns = B[:, start : min(start + _COLUMNS, B.shape[1])]
            picked = xp.take(columns, self._columns, axis=0)
            parts.append(group_sums(picked * self._values, self._rows, self.shape[0]))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def group_sums(rows: Any, codes: Any, n_groups: int) -> Any:
    """Sums of the rows that share a code, added up in float64."""
    xp = namespace(rows)
    wide = xp.astype(rows, xp.float64)
    if library(rows) == "torch":
        total = xp.zeros((n_groups, rows.shape[1]), dtype=xp.float64, device=rows.device)
        total.index_add_(0, codes, wide)
    elif library(rows) == "cupy":
        import cupy

        total = xp.zeros((n_groups, rows.shape[1]), dtype=xp.float64, device=rows.device)
        cupy.add.at(total, codes, wide)
    else:
        groups = xp.arange(n_groups, dtype=codes.dtype, device=rows.device)
        total = xp.astype(groups[:, None] == codes[None, :], xp.float64) @ wide
    return xp.astype(total, rows.dtype)


def placed(matrix: Any, X: Any) -> SparseMatrix:
    """A SciPy matrix, where X is."""
    return SparseMatrix(matrix, X)


def all_rows_equal(X: Any) -> bool:
    """Whether no feature of X varies."""
    xp = namespace(X)
    for block in blocks_of(X, X.shape[0], X.shape[1]):
        if bool(xp.any(X[block, :] != X[:1, :])):
            return False
    return True


def dot(X: Any, B: Any) -> Any:
    """X·B."""
    return SparseMatrix(X, B) @ B if sp.issparse(X) else X @ B


threaded_dot = dot


def tdot(X: Any, B: Any) -> Any:
    """Xᵀ·B."""
    return X.T @ B


def take_rows(X: Any, rows: Array) -> Any:
    """Copy the given rows of X."""
    return namespace(X).take(X, indices_like(rows, X), axis=0)


def take_columns(X: Any, columns: Array) -> Any:
    """Copy the given columns of X."""
    return namespace(X).take(X, indices_like(columns, X), axis=1)


def to_dense(X: Any) -> Any:
    """X itself."""
    return X


def column_means(X: Any) -> Any:
    """Mean of the rows, in the precision of X."""
    return like(_means64(X), X)


def _means64(X: Any) -> Any:
    xp = namespace(X)
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=X.device)
    for block in blocks_of(X, X.shape[0], 8 * X.shape[1]):
        total += xp.sum(X[block, :], axis=0, dtype=xp.float64)
    return total / X.shape[0]


def gram(X: Any) -> Any:
    """Inner products of the centred rows, in float64 (n × n)."""
    xp = namespace(X)
    n, d = X.shape
    K = xp.zeros((n, n), dtype=xp.float64, device=X.device)
    for columns in blocks_of(X, d, 16 * n):
        block = centred(xp.astype(X[:, columns], xp.float64))
        K += block @ block.T
    return K


def less_mean(B: Any) -> Any:
    """Columns of B less their mean."""
    return B - column_means(B)[None, :]


centred = less_mean


def less_class_means(Q: Any, codes: Array, members: Any, sizes: Array) -> Any:
    """Rows of Q less the mean of their class."""
    xp = namespace(Q)
    codes_there = indices_like(codes, Q)
    means = group_sums(Q, codes_there, len(sizes)) / like(sizes, Q)[:, None]
    return Q - xp.take(means, codes_there, axis=0)


def row_lengths(X: Any) -> Any:
    """Length of each row; squares are summed in float64."""
    xp = namespace(X)
    parts = []
    for block in blocks_of(X, X.shape[0], 16 * X.shape[1]):
        wide = xp.astype(X[block, :], xp.float64)
        parts.append(like(xp.sqrt(xp.sum(wide * wide, axis=1)), X))
    return xp.concat(parts)


def unit_rows(rows: Any, *, in_place: bool) -> Any:
    """Rows scaled to length one; rows of zeros stay as they are."""
    xp = namespace(rows)
    peaks = xp.maximum(xp.max(rows, axis=1), -xp.min(rows, axis=1))
    rows = rows / _or_one(peaks)[:, None]  # squares could leave the range of floats
    rows /= _or_one(row_lengths(rows))[:, None]
    return rows


def _or_one(divisor: Any) -> Any:
    xp = namespace(divisor)
    return xp.where(divisor == 0, xp.ones_like(divisor), divisor)


def sq_distances(X: Any, left: Array, right: Array) -> Array:
    """‖x_left − x_right‖² for each pair of row numbers; on the host."""
    xp = namespace(X)
    parts = []
    for block in blocks_of(X, len(left), 24 * X.shape[1]):
        apart = take_rows(X, left[block]) - take_rows(X, right[block])
        parts.append(xp.sum(apart * apart, axis=1))
    return to_numpy(xp.concat(parts))


def comparisons(X: Any, index: Array) -> Array:
    """‖x_i − x_k‖² − ‖x_i − x_j‖² for each triple of row numbers (i, j, k); on the host."""
    xp = namespace(X)
    parts = []
    for block in blocks_of(X, len(index), 48 * X.shape[1]):
        u, v = triplet_vectors(X, index[block])
        parts.append(xp.sum(u * v, axis=1))
    return to_numpy(xp.concat(parts))


def triplet_vectors(Z: Any, index: Array) -> tuple[Any, Any]:
    """u = z_j − z_k and v = 2z_i − z_j − z_k of each triplet (i, j, k)."""
    anchor, positive, negative = (take_rows(Z, part) for part in index.T)
    return positive - negative, anchor - positive + (anchor - negative)


def class_neighbors(X: Any, label: Array, k: int) -> tuple[Array, Array]:
    """Each row's k nearest rows of its class and of the others; −1 where there are too few."""
    xp = namespace(X)
    X = centred(X)
    norms = xp.sum(X * X, axis=1)
    labels = indices_like(label, X)
    numbers = xp.arange(X.shape[0], device=X.device)
    found: tuple[list[Array], list[Array]] = ([], [])
    for block in blocks_of(X, X.shape[0], 32 * X.shape[0]):
        distances = norms[block][:, None] + norms[None, :] - 2.0 * (X[block, :] @ X.T)
        same = labels[block][:, None] == labels[None, :]
        self = numbers[block][:, None] == numbers[None, :]
        for allowed, into in ((same & ~self, found[0]), (~same, found[1])):
            values, nearest = smallest(xp.where(allowed, distances, np.inf), min(k, X.shape[0]))
            into.append(np.where(np.isinf(to_numpy(values)), -1, to_numpy(nearest)))
    filled = [np.concatenate(parts) for parts in found]
    few = k - filled[0].shape[1]
    same, other = (np.pad(part, ((0, 0), (0, few)), constant_values=-1) for part in filled)
    return same, other


def smallest(distances: Any, k: int) -> tuple[Any, Any]:
    """The k smallest entries of each row, in ascending order, and their columns."""
    xp = namespace(distances)
    if library(distances) == "torch":
        found = distances.topk(k, dim=1, largest=False, sorted=True)
        return found.values, found.indices
    nearest = xp.argsort(distances, axis=1, stable=True)[:, :k]
    return xp.take_along_axis(distances, nearest, axis=1), nearest


def mean_sq_distance(X: Any) -> float:
    """Mean of ‖x_a − x_b‖² over all pairs of rows a ≠ b: twice the total variance."""
    n = X.shape[0]
    if n < 2:
        return 0.0
    xp = namespace(X)
    mean = _means64(X)[None, :]
    total = 0.0
    for block in blocks_of(X, n, 24 * X.shape[1]):
        apart = xp.astype(X[block, :], xp.float64) - mean
        total += float(xp.sum(apart * apart))
    return 2.0 * total / (n - 1)


def transposed(X: Any) -> Any:
    """Xᵀ."""
    return X.T


def quadratic(X: Any, apply: Callable[[Any], Any]) -> Any:
    """XᵀKX for a symmetric K with K·1 = 0, given as what it does to dense columns; all of it."""
    xp = namespace(X)
    mean = column_means(X)
    parts = []
    for columns in blocks_of(X, X.shape[1], 32 * X.shape[0]):
        # what K gives has columns that add up to zero: the mean of X would only cost digits
        image = less_mean(apply(X[:, columns] - mean[None, columns]))
        parts.append(X.T @ image)
    return xp.concat(parts, axis=1)


def pair_matrix(X: Any, C: Any) -> Any:
    """XᵀCX, written out (d × d)."""
    return quadratic(X, lambda block: dot(C, block))


def within_scatter(X: Any, codes: Array, members: Any, sizes: Array) -> float:
    """Σ‖x − mean of its class‖² over all rows."""
    xp = namespace(X)
    centre = _means64(X)[None, :]
    total = 0.0
    sums = xp.zeros((len(sizes), X.shape[1]), dtype=xp.float64, device=X.device)
    there = indices_like(codes, X)
    for block in blocks_of(X, X.shape[0], 32 * X.shape[1]):
        rows = xp.astype(X[block, :], xp.float64) - centre
        total += float(xp.sum(rows * rows))
        sums += group_sums(rows, there[block], len(sizes))
    between = xp.sum(xp.sum(sums * sums, axis=1) / like(sizes, sums))
    return max(total - float(between), 0.0)


def column_dots(A: Any, B: Any) -> Array:
    """Inner products of the columns of A with those of B, in float64; on the host."""
    xp = namespace(A)
    total = xp.zeros(A.shape[1], dtype=xp.float64, device=A.device)
    for block in blocks_of(A, A.shape[0], 24 * A.shape[1]):
        left, right = (xp.astype(part[block, :], xp.float64) for part in (A, B))
        total += xp.sum(left * right, axis=0)
    return to_numpy(total)


def beside(A: Any, B: Any) -> Any:
    """The columns of A, then those of B."""
    return namespace(A).concat([A, B], axis=1)


def kernel_dot(rows: Any, landmarks: Any, gamma: float, factor: Any) -> Any:
    """exp(−γ‖x − z‖²)·factor for each row x and the landmarks z, a block of rows at a time."""
    xp = namespace(rows)
    landmarks, factor = like(landmarks, rows), like(factor, rows)
    origin = column_means(landmarks)[None, :]
    landmarks = landmarks - origin
    norms = xp.sum(landmarks * landmarks, axis=1)
    parts = []
    for part in blocks_of(rows, rows.shape[0], 24 * (landmarks.shape[0] + rows.shape[1])):
        block = rows[part, :] - origin
        squares = xp.sum(block * block, axis=1)[:, None] + norms[None, :]
        apart = xp.maximum(squares - 2.0 * (block @ landmarks.T), xp.zeros_like(squares))
        parts.append(xp.exp(-gamma * apart) @ factor)
    return xp.concat(parts, axis=0)


def all_rows_scatter(X: Any, y: Any) -> Array:
    """Scatter of all rows about the mean of their class (d × d), in one pass; on the host."""
    from .whitening import ScatterSums

    check_device_shape(X)
    codes, n_classes = _class_codes(y, X)
    xp = namespace(X)
    X = check_device_rows(X)
    d = X.shape[1]
    origin = X[:1, :]
    outer = xp.zeros((d, d), dtype=xp.float64, device=X.device)
    sums = xp.zeros((n_classes, d), dtype=xp.float64, device=X.device)
    ones = xp.zeros((n_classes, 1), dtype=xp.float64, device=X.device)
    for block in blocks_of(X, X.shape[0], 16 * d):
        rows = X[block, :] - origin
        outer += xp.astype(rows.T @ rows, xp.float64)
        wide = xp.astype(rows, xp.float64)
        sums += group_sums(wide, codes[block], n_classes)
        ones += group_sums(xp.ones_like(wide[:, :1]), codes[block], n_classes)
    total = ScatterSums(*(to_numpy(part) for part in (outer, sums, ones[:, 0])))
    if not np.isfinite(total.outer).all():
        raise ValueError("X holds NaN, infinity, or numbers too large to multiply")
    return total.within()


def _class_codes(y: Any, X: Any) -> tuple[Any, int]:
    """Labels as numbers from 0, where X is, and how many there are; compared where they are."""
    if is_device_array(y) and tuple(y.shape) == (X.shape[0],):
        check_same_device(X, y, "X and y")
        classes, codes = namespace(y).unique_inverse(y)
        return codes, classes.shape[0]
    found, numbers = np.unique(check_labels(y, X.shape[0]), return_inverse=True)
    return indices_like(numbers, X), len(found)
