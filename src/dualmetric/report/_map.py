"""The rows in two dimensions, before and after."""

import numpy as np

from .. import spaces
from .._arrays import ops
from .._types import Array, Matrix

SIZE = 1000
"""Places on a map are whole numbers from 0 to this."""


def places(before: Matrix, after: Matrix) -> tuple[Array, Array]:
    """Put the rows on two maps: their first two principal components, as whole numbers.

    The second map is rotated, and mirrored if necessary, so that rows are as close as possible to
    their places on the first.
    """
    first, second = _plane(before), _plane(after)
    left, _, right = np.linalg.svd(second.T @ first)
    return _on_grid(first), _on_grid(second @ (left @ right))


def _plane(rows: Matrix) -> Array:
    """Coordinates along the two directions in which the rows vary most (n × 2)."""
    result = np.zeros((rows.shape[0], 2))
    if ops.all_rows_equal(rows):
        return result
    components = spaces.principal_components(rows, 2, seed=0)
    result[:, : components.shape[1]] = spaces.mapped(rows, components)
    return result


def _on_grid(plane: Array) -> Array:
    """Scale both axes by the same factor, so that the rows fill the map along the longer one.

    The outermost 2 % are moved inwards, the farthest most: otherwise a few distant rows would
    leave little space for all others.
    """
    low, high = np.quantile(plane, [0.01, 0.99], axis=0)
    reach = (high - low).max() / 2 or 1.0
    places = (plane - (low + high) / 2) / reach
    beyond = np.maximum(np.abs(places) - 1.0, 0.0)
    places = np.sign(places) * (np.minimum(np.abs(places), 1.0) + beyond / (1.0 + 3.0 * beyond))
    places /= np.abs(places).max() or 1.0
    return np.rint((places + 1.0) * SIZE / 2).astype(np.int64)
