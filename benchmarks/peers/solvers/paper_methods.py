"""The methods that the paper compares DuRP with, as this library has them.

LMNN works on 100 principal components where rows have more than 300 features.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._solver import Solver, Transformation


def duori(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import DuOri

    return DuOri(random_state=seed).fit(X, y).transform


def srp(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import SRP

    return SRP(random_state=seed).fit(X, y).transform


def spca(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import SPCA

    return SPCA(random_state=seed).fit(X, y).transform


def oasis(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import OASIS

    return OASIS(random_state=seed).fit(X, y).transform


def lmnn(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from dualmetric import LMNN

    wide = sp.issparse(X) or X.shape[1] > 300
    return LMNN(pca_components=100 if wide else None, random_state=seed).fit(X, y).transform


_OURS: dict[str, Any] = {"packages": ("dualmetric", "scikit-learn", "numba"), "ours": True}
SOLVERS = (
    Solver("DuOri", duori, **_OURS),
    Solver("SRP", srp, **_OURS),
    Solver("SPCA", spca, **_OURS),
    Solver("OASIS", oasis, **_OURS),
    Solver("LMNN", lmnn, **_OURS),
)
