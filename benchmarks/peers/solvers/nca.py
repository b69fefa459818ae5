"""scikit-learn's neighbourhood components analysis; on 100 components where rows are wide.

Ten components, 30 iterations. Rows are divided by their typical distance from the mean: far apart,
the probabilities that it learns from are all 0 or 1, and it stops where it starts.
"""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation, after, reduced


def learn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    rows, reduce = reduced(X, seed, n_components=100, above=1000)
    unit = np.sqrt(rows.var(axis=0).sum())
    model = NeighborhoodComponentsAnalysis(
        min(10, rows.shape[1]), max_iter=30, random_state=seed
    ).fit(rows / unit, y)
    return after(reduce, lambda rows: model.transform(rows / unit))


SOLVERS = (Solver("NCA", learn, ("scikit-learn",), compares=True),)
