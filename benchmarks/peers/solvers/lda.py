"""scikit-learn's linear discriminant analysis; on 500 SVD components where rows are wide."""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation, after, reduced


def _learn(X: Any, y: np.ndarray, seed: int, **options: Any) -> Transformation:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rows, reduce = reduced(X, seed, n_components=500, above=1000)
    return after(reduce, LinearDiscriminantAnalysis(**options).fit(rows, y).transform)


def lda(X: Any, y: np.ndarray, seed: int) -> Transformation:
    return _learn(X, y, seed)


def shrunk(X: Any, y: np.ndarray, seed: int) -> Transformation:
    """Ledoit and Wolf's shrinkage: the better choice where rows are few."""
    return _learn(X, y, seed, solver="eigen", shrinkage="auto")


SOLVERS = (
    Solver("LDA", lda, ("scikit-learn",), fast=True),
    Solver("LDA, shrinkage auto", shrunk, ("scikit-learn",)),
)
