"""Rankings of rows on a device: average precisions, and nearest rows, in float64 as on the host."""

import math
from typing import Any

import numpy as np

from ._device import smallest, take_rows
from ._namespace import (
    blocks_of,
    check_device_rows,
    indices_like,
    library,
    namespace,
    require_finite,
    require_memory_beside,
    to_numpy,
)
from ._types import Array

_NUMBERS = 6  # of eight bytes, held for each query and row, relevant ones twice


def check_rows(X: Any, name: str) -> Any:
    """Finite rows in float64, dense, on the device of X."""
    X = check_device_rows(X, name)
    require_finite(X, name)
    xp = namespace(X)
    require_memory_beside(
        X,
        3 * X.shape[0] * X.shape[1] * 8,
        f"{X.shape[0]:,} rows in float64",
        "Compare fewer rows, or move them to the host.",
    )
    return xp.astype(X, xp.float64, copy=False)


def average_precisions(X: Any, labels: Array, counts: Array, queries: Array) -> Any:
    """Average precision of each query (see `evaluation.average_precisions`, which checks).

    The precision at a relevant row counts the rows as near or nearer. So only the relevant
    distances are sorted; every row is then counted at the first of them that it does not exceed,
    and sums of these counts are the ranks.

    Parameters
    ----------
    X : device array of shape (n_rows, n_features), float64
        The rows.
    labels : ndarray of shape (n_rows,), int64
        Their classes, numbered from 0.
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    queries : ndarray of int
        Row numbers.
    """
    xp = namespace(X)
    X = _moved(X)
    first = _first_equal(X)
    squares = xp.sum(X * X, axis=1)
    members = np.argsort(labels, kind="stable")  # rows by class
    starts = np.cumsum(counts) - counts
    there = indices_like(members, X)
    numbers = xp.arange(X.shape[0], device=X.device)
    asked = np.flatnonzero(counts[labels[queries]] > 1)
    # by the size of their class: the relevant rows of a block are one matrix
    asked = asked[np.lexsort((labels[queries[asked]], counts[labels[queries[asked]]]))]
    result = np.full(len(queries), np.nan)
    held = 8 * _NUMBERS * (X.shape[0] + int(counts.max()))
    for part in blocks_of(X, len(asked), held):
        block = queries[asked[part]]
        distances = _distances(X, squares, first, block)
        own = indices_like(block, X)[:, None] == numbers[None, :]
        distances = xp.where(own, np.inf, distances)
        sizes = counts[labels[block]]
        size = indices_like(sizes, X)[:, None]
        start = indices_like(starts[labels[block]], X)[:, None]
        places = xp.arange(int(sizes.max()), device=X.device)[None, :]
        columns = xp.where(places < size, start + places, 0)
        columns = xp.reshape(xp.take(there, xp.reshape(columns, (-1,))), columns.shape)
        relevant = xp.take_along_axis(distances, columns, axis=1)
        relevant = xp.sort(xp.where(places < size, relevant, np.inf), axis=1)
        shares = _counts(relevant, relevant) / _counts(relevant, distances)
        shares = xp.where(places < size - 1, shares, 0.0)  # the query itself comes last
        result[asked[part]] = to_numpy(xp.sum(shares, axis=1)) / (sizes - 1)
    return xp.asarray(result, device=X.device)


def _moved(X: Any) -> Any:
    """Rows scaled by a power of two, and moved so that a row near their mean is the origin."""
    xp = namespace(X)
    largest = float(xp.max(xp.abs(X)))
    X = X * math.ldexp(1.0, -math.frexp(largest)[1])
    mean = xp.sum(X, axis=0) / X.shape[0]
    nearest = int(xp.argmin(xp.sum(X * X, axis=1) - 2.0 * (X @ mean)))
    return X - X[nearest : nearest + 1, :] + 0.0  # −0 becomes 0: equal rows have equal bits


def _distances(X: Any, squares: Any, first: Any, queries: Array) -> Any:
    """‖x_q − x‖² of each query and every row; equal rows are at equal distances, and none apart."""
    xp = namespace(X)
    left = take_rows(X, queries)
    norms = xp.take(squares, indices_like(queries, X))
    distances = norms[:, None] + squares[None, :] - 2.0 * (left @ X.T)
    distances = xp.maximum(distances, xp.zeros_like(distances))
    if first is None:
        return distances
    own = xp.take(first, indices_like(queries, X))
    distances = xp.take(distances, first, axis=1)
    return xp.where(own[:, None] == first[None, :], 0.0, distances)


def _counts(ends: Any, values: Any) -> Any:
    """How many values of each row are at most each of its ascending ends, in float64."""
    xp = namespace(ends)
    height, width = ends.shape
    if library(ends) == "torch":
        bins = xp.searchsorted(ends, values)  # the first end that is not below
        found = xp.zeros((height, width + 1), dtype=xp.int64, device=ends.device)
        one = xp.ones((1, 1), dtype=xp.int64, device=ends.device)
        found.scatter_add_(1, bins, one.expand_as(bins))
        return xp.astype(xp.cumulative_sum(found, axis=1)[:, :width], xp.float64)
    rows = []
    for row in range(height):  # the standard searches one row at a time
        ordered = xp.sort(values[row, :])
        rows.append(xp.searchsorted(ordered, ends[row, :], side="right"))
    return xp.astype(xp.stack(rows), xp.float64)


def _first_equal(X: Any) -> Any:
    """Number of the first row that equals each row; None where no two are equal.

    Rows are told apart by a sum of their mixed bits in 64-bit arithmetic, which two different
    ones of a million rows share with a probability of 1e-7.
    """
    from .evaluation import first_equal

    xp = namespace(X)
    n, d = X.shape
    if library(X) not in ("torch", "cupy"):
        found = first_equal(row.tobytes() for row in to_numpy(X))
        return None if (found == np.arange(n)).all() else indices_like(found, X)
    draws = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, size=d, endpoint=True) | 1
    factors = indices_like(draws, X)[None, :]
    parts = []
    for block in blocks_of(X, n, 32 * d):
        bits = X[block, :].view(xp.int64)
        bits = (bits ^ (bits >> 32)) * factors  # the last bits of a float are often zero
        parts.append(xp.sum(bits ^ (bits >> 29), axis=1))
    keys = xp.concat(parts)
    order = xp.argsort(keys, stable=True)
    ordered = xp.take(keys, order)
    starts = xp.concat([xp.ones_like(ordered[:1]) > 0, ordered[1:] != ordered[:-1]])
    if bool(xp.all(starts)):
        return None
    # of each run of equal keys, the first in `order`, which is the first row
    head = xp.astype(xp.nonzero(starts)[0], xp.int64)
    run = xp.cumulative_sum(xp.astype(starts, xp.int64)) - 1
    return xp.take(xp.take(order, xp.take(head, run)), xp.argsort(order))


def nearest(X: Any, queries: Any, k: int) -> Array:
    """Numbers of the k rows of X that are nearest to each query; on the host."""
    xp = namespace(X)
    mean = xp.sum(X, axis=0)[None, :] / X.shape[0]
    X = X - mean
    squares = xp.sum(X * X, axis=1)
    parts = []
    for block in blocks_of(X, queries.shape[0], 32 * X.shape[0]):
        # the length of a query itself is the same for all
        distances = squares[None, :] - 2.0 * ((queries[block, :] - mean) @ X.T)
        parts.append(to_numpy(smallest(distances, k)[1]))
    return np.concatenate(parts)
