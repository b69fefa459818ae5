"""metric-learn's LMNN, SCML and ITML; on 100 components where rows are wide.

Version 0.7.0 fails on scikit-learn 1.8 and later, so these run in an environment of their own.
"""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation, after, reduced


def _learn(model: Any, X: Any, y: np.ndarray, seed: int) -> Transformation:
    rows, reduce = reduced(X, seed, n_components=100, above=300)
    rows = np.asarray(rows, dtype=np.float64)
    return after(reduce, model.fit(rows, y).transform)


def lmnn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from metric_learn import LMNN

    fewest = int(np.unique(y, return_counts=True)[1].min())
    return _learn(LMNN(n_neighbors=max(1, min(3, fewest - 1)), random_state=seed), X, y, seed)


def scml(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from metric_learn import SCML_Supervised

    return _learn(SCML_Supervised(random_state=seed), X, y, seed)


def itml(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from metric_learn import ITML_Supervised

    return _learn(ITML_Supervised(random_state=seed), X, y, seed)


_OPTIONS: dict[str, Any] = {"compares": True, "environment": "metric-learn"}
_NEEDS = ("metric-learn", "scikit-learn")
SOLVERS = (
    Solver("LMNN (metric-learn)", lmnn, _NEEDS, **_OPTIONS),
    Solver("SCML (metric-learn)", scml, _NEEDS, **_OPTIONS),
    Solver("ITML (metric-learn)", itml, _NEEDS, **_OPTIONS),
)
