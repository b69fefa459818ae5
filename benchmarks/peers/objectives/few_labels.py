"""Learn from 5, 10 or 50 rows per class, and score on all test rows."""

from typing import Any

import numpy as np

from ..datasets import NAMES, Data
from ._problem import Problem

SEEDS = 3
PER_CLASS = (5, 10, 50)
TOO_FEW_ROWS = ("golub", "su")  # they have few labels as they are


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Data sets, each with the variant of the test and the settings of solvers."""
    return [
        (name, {"per_class": per_class}, {})
        for name in NAMES
        if name not in TOO_FEW_ROWS
        for per_class in PER_CLASS
    ]


def problem(data: Data, seed: int, per_class: int) -> Problem:
    """Rows are drawn by the seed; a class with fewer gives all it has."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    chosen = [order[data.y[order] == label][:per_class] for label in np.unique(data.y)]
    rows = np.sort(np.concatenate(chosen))
    return Problem(data.X[rows], data.y[rows], data.X_test, data.y_test)
