"""What a solver is, and what several do alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Transformation = Callable[[Any], Any]


@dataclass(frozen=True)
class Solver:
    """A method with its setting.

    Attributes
    ----------
    name : str
        As tables show it.
    learn : callable
        ``learn(X, y, seed)`` returns a function from rows to rows. X is float32, dense or CSR. Our
        learners take further settings by name.
    packages : tuple of str
        Those whose versions are stored with the results.
    ours : bool
        Whether it is a learner of this library.
    linear : bool
        Whether the transformation is a linear map of the rows.
    compares : bool
        Whether a peer learns from triplets, pairs or neighbours, as metric learners do.
    own_distance : bool
        Whether it has chosen its distance on the training rows: then no other is tried.
    fast : bool
        Whether it is part of the quick run.
    sparse : bool
        Whether it is run on sparse rows.
    environment : str
        Name of its own virtual environment; see ``requirements``. Empty: this one.
    objectives : tuple of str
        The only ones it is for; empty: all.
    """

    name: str
    learn: Callable[..., Transformation]
    packages: tuple[str, ...]
    ours: bool = False
    linear: bool = True
    compares: bool = False
    own_distance: bool = False
    fast: bool = False
    sparse: bool = True
    environment: str = ""
    objectives: tuple[str, ...] = ()


def reduced(X: Any, seed: int, n_components: int, above: int) -> tuple[np.ndarray, Transformation]:
    """Dense rows of not too many features, for methods that need them, and the map to them.

    Sparse rows, and dense ones of more than ``above`` features, go to their leading singular
    vectors (dense: principal components).
    """
    if not sp.issparse(X) and X.shape[1] <= above:
        return X, lambda rows: rows
    from sklearn.decomposition import PCA, TruncatedSVD

    rank = min(n_components, min(X.shape) - 1)
    model: Any = (TruncatedSVD if sp.issparse(X) else PCA)(rank, random_state=seed)
    return model.fit_transform(X), model.transform


def after(first: Transformation, second: Transformation) -> Transformation:
    """One transformation after another."""
    return lambda rows: second(first(rows))
