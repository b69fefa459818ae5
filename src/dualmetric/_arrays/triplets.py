"""Comparisons of triplets that are drawn from classes."""

from collections.abc import Callable

import numpy as np

from .._types import Array, Matrix
from . import ops
from .namespace import is_device_array
from .system import fill_by_threads

_PART = 2**19  # bytes of rows: two such parts stay in the cache of a core
_MOST_PARTS = 256


def comparer(X: Matrix, place: Array) -> Callable[[Array], Array]:
    """A function that gives ‖x_i − x_k‖² − ‖x_i − x_j‖² for triplets of row numbers (i, j, k).

    ``place`` holds the places of the rows when they are sorted by class.
    """
    if is_device_array(X) or not ops.is_dense(X) or X.nbytes <= _PART:
        return lambda index: ops.margins(X, index)
    return _by_parts(X, place)


def _by_parts(X: Array, place: Array) -> Callable[[Array], Array]:
    """The same for many dense rows, compared while they are still in the cache.

    Rows sorted by class are cut into parts. Triplets whose anchors, and so their positives, are in
    one part follow each other, and among them those whose negatives are in one part.
    """
    from . import kernels

    n_parts = min(-(-X.nbytes // _PART), _MOST_PARTS)
    part = (place.astype(np.int64) * n_parts // len(place)).astype(np.int32)

    def compare(index: Array) -> Array:
        ordered, places = np.empty_like(index), np.empty(len(index), np.int32)
        ends = np.zeros(n_parts * n_parts, np.int64)
        kernels.sort_by_parts(index, part, n_parts, ends, ordered, places)
        out = np.empty(len(index), X.dtype)
        rows = X, ordered, places
        return fill_by_threads(kernels.margins_to, out, *rows, total=len(index), smallest=2000)

    return compare
