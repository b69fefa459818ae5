"""Data sets: each file gives training and test rows, in float32, of the sets that it names."""

from . import digits, made, stored
from ._data import Data

NAMES = (*digits.NAMES, *stored.NAMES)
"""Sets of real data; those of ``made`` are named by what they hold, such as
``made_dense_n1000_d100``."""

__all__ = ["NAMES", "Data", "load"]


def load(name: str) -> Data:
    """Load a set by its name; FileNotFoundError where it is not on this machine."""
    for source in (digits, stored):
        if name in source.NAMES:
            return source.load(name)
    return made.load(name)
