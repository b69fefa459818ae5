"""The decision values of a ridge classifier, one a class.

Learned on the rows, and on rows lifted by a Gaussian kernel: Nyström's features of 2,000 landmarks.
"""

from typing import Any

import numpy as np

from ._solver import Solver, Transformation, after

N_LANDMARKS = 2000


def _decision_values(X: Any, y: np.ndarray, **options: Any) -> Transformation:
    from sklearn.linear_model import RidgeClassifier

    model = RidgeClassifier(**options).fit(X, y)
    # two classes share one column
    return lambda rows: model.decision_function(rows).reshape(rows.shape[0], -1)


def ridge(X: Any, y: np.ndarray, seed: int) -> Transformation:
    return _decision_values(X, y)


def lifted(X: Any, y: np.ndarray, seed: int) -> Transformation:
    from sklearn.kernel_approximation import Nystroem

    rng = np.random.default_rng(seed)
    left, right = rng.integers(X.shape[0], size=(2, 10_000))
    left, right = left[left != right], right[left != right]
    median = np.median(((X[left] - X[right]) ** 2).sum(axis=1))
    lift = Nystroem(
        gamma=1 / median, n_components=min(N_LANDMARKS, X.shape[0]), random_state=seed
    ).fit(X)
    return after(lift.transform, _decision_values(lift.transform(X), y, alpha=ALPHA))


ALPHA = 0.1  # lifted rows have length one

SOLVERS = (
    Solver("ridge", ridge, ("scikit-learn",), fast=True),
    Solver("ridge, lifted", lifted, ("scikit-learn",), linear=False, fast=True, sparse=False),
)
