"""Ranks of judged documents among all documents, and the documents nearest to each query."""

from collections.abc import Iterator

import numpy as np

from .._types import Array, Matrix
from . import ops
from .namespace import blocks_of, is_device_array, precision, to_numpy
from .ranking import smallest


def distance_blocks(documents: Matrix, queries: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """‖d‖² − 2q·d for some queries at a time and all documents, in their precision.

    This is the squared distance up to a number per query, and so ranks the same.
    """
    centre = ops.centre_of(documents)
    documents = ops.minus_centre(documents, centre)
    squares = (ops.row_lengths(documents) ** 2)[None, :]
    size = 4 * precision(documents).itemsize * documents.shape[0]
    for block in blocks_of(documents, queries.shape[0], size):
        part = ops.minus_centre(queries[block], centre)
        yield block, squares - 2.0 * ops.products(part, documents)


def nearest_documents(documents: Matrix, queries: Matrix, k: int) -> Array:
    """Numbers of the k documents nearest to each query, nearest first; on the host."""
    parts = []
    for _, block in distance_blocks(documents, queries):
        if is_device_array(block):
            parts.append(to_numpy(smallest(block, k)[1]))
            continue
        found = np.sort(np.argpartition(block, k - 1, axis=1)[:, :k], axis=1)
        order = np.argsort(np.take_along_axis(block, found, axis=1), axis=1, kind="stable")
        parts.append(np.take_along_axis(found, order, axis=1))
    return np.concatenate(parts)


def ranks(X: Matrix, n_documents: int, index: Array) -> Array:
    """Rank, from 1, of row d among the documents for row q, for each (q, d) of ``index``.

    Documents are the first rows of X; a query that is one of them is not ranked for itself. Those
    at the same distance are ranked in the order of their numbers.
    """
    order = np.argsort(index[:, 0], kind="stable")
    asked, first = np.unique(index[order, 0], return_index=True)
    stops = np.append(first[1:], len(index))
    found = np.empty(len(index), dtype=np.int64)
    for block, values in distance_blocks(X[:n_documents], ops.take_rows(X, asked)):
        rows = np.array(to_numpy(values))
        for row, number in zip(rows, range(block.start, block.stop), strict=True):
            if asked[number] < n_documents:
                row[asked[number]] = np.inf
            for place in order[first[number] : stops[number]]:
                document = index[place, 1]
                closer = np.count_nonzero(row < row[document])
                found[place] = 1 + closer + np.count_nonzero(row[:document] == row[document])
    return found
