"""mlpack's large margin nearest neighbours; on 100 components where rows are wide."""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation, after, reduced


def learn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    import mlpack

    rows, reduce = reduced(X, seed, n_components=100, above=300)
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    labels = np.unique(y, return_inverse=True)[1].astype(np.uintp)
    fewest = int(np.bincount(labels).min())
    k = max(1, min(3, fewest - 1))
    found = mlpack.lmnn(input_=rows, labels=labels, k=k, optimizer="lbfgs", seed=seed + 1)
    return after(reduce, lambda rows: rows @ found["output"])


SOLVERS = (Solver("LMNN (mlpack)", learn, ("mlpack",), compares=True, environment="mlpack"),)
