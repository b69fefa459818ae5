"""Sums over all rows, in one pass: the mean, and the scatter about class means."""

import operator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._arrays.namespace import blocks_of, is_finite, like, precision, to_numpy
from .._types import Array
from .base import Rows


def column_means(rows: Rows) -> Any:
    """Mean of all rows, in their precision and on their device; the sums are in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.reduce(_column_sums, operator.add)
    _refuse_infinity(total, "add up")
    mean = total / rows.shape[0]
    return like(mean, rows.take()) if rows.in_memory else mean.astype(rows.dtype, copy=False)


def column_moments(rows: Rows) -> tuple[Array, Array]:
    """Mean and standard deviation (with divisor n) of each column, in two passes and float64."""
    mean = to_numpy(column_means(rows)).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = rows.reduce(partial(_squares_about, mean=mean), operator.add)
    _refuse_infinity(squares, "square")
    return mean, np.sqrt(squares / rows.shape[0])


def _squares_about(block: Any, start: int, *, mean: Array) -> Array:
    """Σ(x − mean)² of each column; of a sparse block, its zeros are counted and not visited."""
    if sp.issparse(block):
        block = ops.canonical(block)
        columns = block.indices
        apart = block.data.astype(np.float64) - mean[columns]
        zeros = block.shape[0] - np.bincount(columns, minlength=len(mean))
        return np.bincount(columns, np.square(apart), len(mean)) + zeros * np.square(mean)
    squares = np.zeros(len(mean))
    for part in blocks_of(block, block.shape[0], 16 * len(mean)):
        apart = to_numpy(block[part, :]).astype(np.float64) - mean
        squares += np.square(apart).sum(axis=0)
    return squares


def _column_sums(block: Any, start: int) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        sums = ops.column_sums(block)
    _refuse_infinity(sums, "add up")
    return sums


def _refuse_infinity(sums: Any, purpose: str) -> None:
    if not is_finite(sums):
        raise ValueError(f"the numbers are too large to {purpose}: scale the features")


def within_scatter(rows: Rows, codes: Array, n_classes: int) -> Array:
    """Scatter of all rows about the mean of their class (d × d), in float64 and on the host.

    ``codes`` are the classes of all rows, numbered from 0.
    """
    # sums of squares keep their digits if the rows are first moved near zero
    origin = ops.to_dense(rows.take(np.arange(1)))
    codes = np.asarray(codes, dtype=np.min_scalar_type(n_classes))  # less to send to workers
    add_up = partial(_scatter_sums, codes=codes, n_classes=n_classes, origin=origin)
    outer, sums, counts = rows.reduce(add_up, added)
    means = sums / np.maximum(counts, 1)[:, None]
    return (outer - sums.T @ means) / counts.sum()


def _scatter_sums(
    block: Any, start: int, *, codes: Array, n_classes: int, origin: Any
) -> list[Array]:
    """Σ(x − o)(x − o)ᵀ for the origin o; Σ(x − o) over each class; and the rows of each."""
    n, d = block.shape
    codes = codes[start : start + n]
    outer: Any = 0.0
    sums: Any = 0.0
    for part in blocks_of(block, n, 2 * d):
        with np.errstate(over="ignore", invalid="ignore"):
            moved = ops.to_dense(block[part, :]) - origin
            size = part.stop - part.start
            ones = np.ones(size, precision(moved))
            members = sp.csr_matrix((ones, (codes[part], np.arange(size))), (n_classes, size))
            outer = outer + to_numpy(moved.T @ moved).astype(np.float64)
            sums = sums + to_numpy(ops.placed(members, moved) @ moved).astype(np.float64)
    _refuse_infinity(outer, "multiply")
    return [outer, sums, np.bincount(codes, minlength=n_classes)]


def added(a: list[Array], b: list[Array]) -> list[Array]:
    """Sums of the arrays at the same place."""
    return [x + y for x, y in zip(a, b, strict=True)]
