"""Principal components, and singular vectors without centring; labels are not used."""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation

N_COMPONENTS = 50


def pca(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from sklearn.decomposition import PCA

    return PCA(min(N_COMPONENTS, *X.shape), random_state=seed).fit(X).transform


def whitened(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from sklearn.decomposition import PCA

    rank = min(N_COMPONENTS, *X.shape)
    return PCA(rank, whiten=True, random_state=seed).fit(X).transform


def svd(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from sklearn.decomposition import TruncatedSVD

    return TruncatedSVD(min(N_COMPONENTS, *X.shape), random_state=seed).fit(X).transform


_NEEDS = ("scikit-learn",)
SOLVERS = (
    Solver("PCA", pca, _NEEDS, fast=True, sparse=False),
    Solver("PCA, whitened", whitened, _NEEDS, sparse=False),
    Solver("TruncatedSVD", svd, _NEEDS, fast=True),
)
