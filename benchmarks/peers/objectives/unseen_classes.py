"""Learn from the training rows of half the classes, and score on test rows of the other half.

The real test of a metric: what was learned must help with classes that it has never seen. The
training rows of those classes vote in 5-NN; nothing is learned from them.
"""

from typing import Any

import numpy as np

from ..datasets import NAMES, Data
from ._problem import Problem

SEEDS = 1
TOO_FEW_CLASSES = ("golub", "protein_val")  # two and three


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Data sets, each with the variant of the test and the settings of solvers."""
    return [(name, {}, {}) for name in NAMES if name not in TOO_FEW_CLASSES]


def problem(data: Data, seed: int) -> Problem:
    """Which half is seen depends on the seed."""
    classes = np.random.default_rng(seed).permutation(np.unique(data.y))
    seen = np.isin(data.y, classes[: (len(classes) + 1) // 2])
    unseen = ~np.isin(data.y_test, classes[: (len(classes) + 1) // 2])
    return Problem(
        data.X[seen],
        data.y[seen],
        data.X_test[unseen],
        data.y_test[unseen],
        data.X[~seen],
        data.y[~seen],
    )
