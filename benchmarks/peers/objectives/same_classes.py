"""Learn from the training rows, and score on test rows of the same classes."""

from typing import Any

from ..datasets import NAMES, Data
from ._problem import Problem

SEEDS = 1


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Data sets, each with the variant of the test and the settings of solvers."""
    return [(name, {}, {}) for name in NAMES]


def problem(data: Data, seed: int) -> Problem:
    """The split of the set."""
    return Problem(data.X, data.y, data.X_test, data.y_test)
