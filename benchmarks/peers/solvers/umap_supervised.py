"""umap-learn with labels, ten dimensions; test rows are placed by its transform."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._solver import Solver, Transformation


def learn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from umap import UMAP

    metric = "cosine" if sp.issparse(X) else "euclidean"
    neighbors = min(15, X.shape[0] - 1)
    model = UMAP(neighbors, n_components=10, metric=metric, random_state=seed, n_jobs=1)
    return model.fit(X, y).transform


SOLVERS = (
    Solver(
        "UMAP, supervised",
        learn,
        ("umap-learn", "scikit-learn", "numba"),
        linear=False,
        environment="umap",
    ),
)
