"""DuRP: the paper's, whitened, with a flat spectrum, and chosen by cross-validation."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._solver import Solver, Transformation


def _whitening(X: Any) -> dict[str, Any]:
    """Text is whitened less: a word is in few rows of a class."""
    return {"shrinkage": 0.84 if sp.issparse(X) else 0.1, "n_projections": 50}


def durp(X: Any, y: np.ndarray, seed: int, **settings: Any) -> Transformation:
    from dualmetric import DuRP

    return DuRP(random_state=seed, **settings).fit(X, y).transform


def whitened(X: Any, y: np.ndarray, seed: int, **settings: Any) -> Transformation:
    from dualmetric import DuRP

    options = _whitening(X)
    if sp.issparse(X):
        options |= {"distance": "cosine", "n_components": 50, "n_projections": 10}
    return DuRP(random_state=seed, **(options | settings)).fit(X, y).transform


def whitening_alone(X: Any, y: np.ndarray, seed: int) -> Transformation:
    """All directions of whitened rows, and nothing learned from triplets."""
    from dualmetric import Whitening

    return Whitening(distance="euclidean").fit(X, y).transform


def ridge_metric(X: Any, y: np.ndarray, seed: int) -> Transformation:
    """Outputs of ridge regression, its penalty chosen by leave-one-out."""
    from dualmetric import RidgeMetric

    return RidgeMetric(random_state=seed).fit(X, y).transform


def flat(X: Any, y: np.ndarray, seed: int, **settings: Any) -> Transformation:
    """One direction fewer than there are classes, all of the same weight."""
    from dualmetric import DuRP

    directions = max(1, len(np.unique(y)) - 1)
    options = _whitening(X) | {"n_components": directions, "power": 0.0, "distance": "cosine"}
    return DuRP(random_state=seed, **(options | settings)).fit(X, y).transform


def quick(X: Any, y: np.ndarray, seed: int) -> Transformation:
    """The same from a tenth of the triplets, in the paper's ten dimensions."""
    return flat(X, y, seed, n_projections=10, n_triplets=10_000)


def chosen_for_map(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import MetricCV

    return MetricCV(scoring="map", random_state=seed).fit(X, y).transform


def chosen_for_knn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import MetricCV

    return MetricCV(scoring="knn", random_state=seed).fit(X, y).transform


def chosen_for_classes(X: Any, y: np.ndarray, seed: int) -> Transformation:
    """Settings are chosen by holding out whole classes."""
    from dualmetric import MetricCV

    return MetricCV(scoring="map", cv="classes", random_state=seed).fit(X, y).transform


_OURS: dict[str, Any] = {"packages": ("dualmetric", "scikit-learn", "numba"), "ours": True}
_CHOSEN: dict[str, Any] = {"linear": False, "own_distance": True} | _OURS
SOLVERS = (
    Solver("DuRP", durp, fast=True, **_OURS),
    Solver("DuRP, whitened", whitened, fast=True, **_OURS),
    Solver("DuRP, whitened, flat", flat, fast=True, **_OURS),
    Solver("DuRP, quick", quick, fast=True, **_OURS),
    Solver("RidgeMetric", ridge_metric, fast=True, own_distance=True, **_OURS),
    Solver("Whitening", whitening_alone, fast=True, **_OURS),
    Solver("MetricCV", chosen_for_map, fast=True, **_CHOSEN),
    Solver("MetricCV, for 5-NN", chosen_for_knn, **_CHOSEN),
    Solver("MetricCV, by classes", chosen_for_classes, objectives=("unseen_classes",), **_CHOSEN),
)
