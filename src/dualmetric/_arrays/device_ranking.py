"""Average precision of rows on a device.

For every relevant row, the rows that are as near or nearer are counted. The masks of a block are
made on the device: made on the host, they would be larger than the rows.
"""

import math
from typing import Any

import numpy as np

from .._types import Array
from .namespace import blocks_of, indices_like, library, namespace, to_numpy

_NUMBERS = 8  # of eight bytes, held for each query and row


def average_precisions(
    X: Any, labels: Array, counts: Array, queries: Array, first_equal: Any
) -> Any:
    """What `ranking.average_precisions` does, on a device."""
    xp = namespace(X)
    largest = float(xp.max(xp.abs(X)))
    X = X * math.ldexp(1.0, -math.frexp(largest)[1])  # squares stay in the range of floats
    # a row near the mean is the origin: unlike the mean itself, it keeps integers integers
    mean = xp.sum(X, axis=0) / X.shape[0]
    central = int(xp.argmin(xp.sum(X * X, axis=1) - 2.0 * (X @ mean)))
    X = X - X[central : central + 1, :] + 0.0  # −0 becomes 0: equal rows have equal bits
    equal = None
    if not _surely_distinct(X):
        equal = indices_like(first_equal(to_numpy(X)), X)
    squares = xp.sum(X * X, axis=1)
    members = indices_like(np.argsort(labels, kind="stable"), X)  # rows by class
    starts = np.cumsum(counts) - counts
    numbers = xp.arange(X.shape[0], device=X.device)
    asked = np.flatnonzero(counts[labels[queries]] > 1)
    # by the size of their class: the relevant rows of a block form one matrix
    asked = asked[np.lexsort((labels[queries[asked]], counts[labels[queries[asked]]]))]
    result = np.full(len(queries), np.nan)
    for part in blocks_of(X, len(asked), 8 * _NUMBERS * (X.shape[0] + int(counts.max()))):
        block = queries[asked[part]]
        rows, sizes = indices_like(block, X), counts[labels[block]]
        left, norms = (xp.take(A, rows, axis=0) for A in (X, squares[:, None]))
        distances = norms + squares[None, :] - 2.0 * (left @ X.T)
        distances = xp.maximum(distances, xp.zeros_like(distances))
        if equal is not None:  # equal rows are at equal distances, and at none apart
            distances = xp.take(distances, equal, axis=1)
            same = xp.take(equal, rows)[:, None] == equal[None, :]
            distances = xp.where(same, xp.zeros_like(distances), distances)
        itself = rows[:, None] == numbers[None, :]
        distances = xp.where(itself, xp.full_like(distances, xp.inf), distances)
        size, start = (indices_like(A, X)[:, None] for A in (sizes, starts[labels[block]]))
        places = xp.arange(int(sizes.max()), device=X.device)[None, :]
        inside = places < size
        columns = xp.where(inside, start + places, xp.zeros_like(start + places))
        columns = xp.reshape(xp.take(members, xp.reshape(columns, (-1,))), columns.shape)
        relevant = xp.take_along_axis(distances, columns, axis=1)
        relevant = xp.sort(xp.where(inside, relevant, xp.full_like(relevant, xp.inf)), axis=1)
        shares = _counts(relevant, relevant) / _counts(relevant, distances)
        shares = xp.where(places < size - 1, shares, xp.zeros_like(shares))  # itself comes last
        result[asked[part]] = to_numpy(xp.sum(shares, axis=1)) / (sizes - 1)
    return xp.asarray(result, device=X.device)


def _surely_distinct(X: Any) -> bool:
    """Whether no two rows have the same key, a sum over their bits; equal rows have equal keys."""
    if library(X) not in ("torch", "cupy"):  # the standard does not give the bits of a float
        return False
    xp = namespace(X)
    draws = np.random.default_rng(0).integers(2**62, size=X.shape[1])
    factors = indices_like(2 * draws + 1, X)[None, :]
    keys = []
    for block in blocks_of(X, X.shape[0], 32 * X.shape[1]):
        bits = X[block, :].view(xp.int64)
        bits = (bits ^ (bits >> 32)) * factors  # the last bits of a float are often zero
        keys.append(xp.sum(bits ^ (bits >> 29), axis=1))
    ordered = xp.sort(xp.concat(keys))
    return not bool(xp.any(ordered[1:] == ordered[:-1]))


def _counts(ends: Any, values: Any) -> Any:
    """How many values of each row are at most each of its ascending ends, in float64."""
    xp = namespace(ends)
    n_values, n_ends = values.shape[1], ends.shape[1]
    if library(ends) == "torch":  # far faster than sorting all values
        bins = xp.searchsorted(ends, values)  # the first end that is not below
        found = xp.zeros((ends.shape[0], n_ends + 1), dtype=xp.int64, device=ends.device)
        found.scatter_add_(1, bins, xp.ones_like(found[:1, :1]).expand_as(bins))
        return xp.astype(xp.cumulative_sum(found, axis=1)[:, :n_ends], xp.float64)
    # sorted together, values before ends where they are equal, an end's place tells how many values
    # and how many other ends come before it
    order = xp.argsort(xp.concat([values, ends], axis=1), axis=1, stable=True)
    place = xp.argsort(order, axis=1, stable=True)[:, n_values:]
    before = xp.arange(n_ends, device=ends.device)[None, :]
    return xp.astype(place - before, xp.float64)
