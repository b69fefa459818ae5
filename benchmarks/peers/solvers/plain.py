"""The rows as they are: the plain Euclidean distance and, scored beside it, the cosine."""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation


def learn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    return lambda rows: rows


SOLVERS = (Solver("plain rows", learn, (), fast=True),)
