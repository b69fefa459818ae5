"""Blocks of features: columns that share one weight.

Blocks such as words, an embedding or measurements each have a good plain distance, but no common
scale. `dualmetric.prior` learns their weights.
"""

from collections.abc import Mapping
from numbers import Integral
from reprlib import repr as brief
from typing import Any, NamedTuple

import numpy as np

from ._arrays import ops
from ._types import Array, Matrix


class Blocks(NamedTuple):
    """Which block each column belongs to, and the weight of each block in squared distances."""

    of: Array  # (d,): number of the block of each column
    weights: Array  # (number of blocks,): w

    def column_weights(self) -> Array:
        """√w of each column: what rows are multiplied by."""
        return np.sqrt(self.weights)[self.of]

    @property
    def are_columns(self) -> bool:
        """Whether every column is a block of its own, so that the blocks only scale columns.

        Such parts of a row are numbers. They are never scaled to length one, which would leave
        nothing but their signs.
        """
        return len(self.weights) == len(self.of)

    def apply(self, X: Matrix, unit: bool) -> Matrix:
        """Weighted rows; where ``unit``, the part in each block is scaled to length one first."""
        if unit and not self.are_columns:
            X = ops.unit_blocks(X, self.of, len(self.weights))
        return ops.scaled_columns(X, self.column_weights())


class Partition(NamedTuple):
    """Blocks as the options of a fit hold them once they are checked."""

    of: Array  # (d,): number of the block of each column
    names: tuple[str, ...]


def read_blocks(given: Any, n_features: int, names: Any = None) -> Partition:
    """Check ``blocks`` against the features of X, and number the block of each column."""
    if isinstance(given, Partition):
        return given
    try:
        empty = isinstance(given, str) or len(given) == 0
    except TypeError:
        empty = True
    if empty:
        raise ValueError(
            "blocks must be a list of widths, of slices or of lists of column names; got "
            f"{brief(given)}"
        )
    named = isinstance(given, Mapping)
    titles = tuple(map(str, given)) if named else tuple(f"block {b}" for b in range(len(given)))
    parts = list(given.values()) if named else list(given)
    if all(isinstance(part, Integral) and not isinstance(part, bool) for part in parts):
        parts = _slices(parts, n_features)
    of = np.full(n_features, -1)
    for number, part in enumerate(parts):
        columns = _columns(part, number, n_features, names)
        taken = columns[of[columns] >= 0]
        if len(taken) or len(np.unique(columns)) < len(columns):
            twice = taken[0] if len(taken) else columns[_repeated(columns)]
            raise ValueError(
                f"blocks overlap: {_column(twice, names)} is in two of them; each column belongs "
                "to one block"
            )
        of[columns] = number
    missing = np.flatnonzero(of < 0)
    if len(missing):
        raise ValueError(
            f"blocks leave out {len(missing):,} of the {n_features:,} columns of X, such as "
            f"{_column(missing[0], names)}: put them in a block, or drop them from X"
        )
    return Partition(of, titles)


def _slices(widths: list[Any], n_features: int) -> list[slice]:
    if min(widths) < 1 or sum(widths) != n_features:
        raise ValueError(
            f"the widths in blocks must be at least 1 and add up to the {n_features:,} columns of "
            f"X; got {brief(widths)}, which add up to {sum(widths):,}"
        )
    ends = np.cumsum(widths).tolist()
    return [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]


def _columns(part: Any, number: int, n_features: int, names: Any) -> Array:
    """Numbers of the columns of one block."""
    if isinstance(part, slice):
        columns = np.arange(n_features)[part]
        if not len(columns) or (part.stop is not None and part.stop > n_features):
            raise ValueError(
                f"blocks[{number}] is {part}, but X has {n_features:,} columns: use slices within "
                "them"
            )
        return columns
    wanted = [] if isinstance(part, str) or not hasattr(part, "__len__") else list(part)
    if not wanted or not all(isinstance(name, str) for name in wanted):
        raise ValueError(
            f"blocks[{number}] must be a slice or a list of column names, or else all blocks must "
            f"be widths; got {brief(part)}"
        )
    if names is None:
        raise ValueError(
            f"blocks[{number}] has names of columns, but the columns of X have none: pass a data "
            "frame, or give widths or slices"
        )
    place = {name: column for column, name in enumerate(names)}
    unknown = [name for name in wanted if name not in place]
    if unknown:
        raise ValueError(f"blocks[{number}] names columns that X does not have: {brief(unknown)}")
    return np.array([place[name] for name in wanted])


def _repeated(columns: Array) -> int:
    """Place of a column that has occurred before."""
    return int(np.setdiff1d(np.arange(len(columns)), np.unique(columns, return_index=True)[1])[0])


def _column(number: int, names: Any) -> str:
    return f"column {number}" if names is None else f"column {names[number]!r}"
