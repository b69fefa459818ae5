"""The computations behind the cells on data sets: statistics, and fits in the paper's setting."""

import warnings
from functools import lru_cache
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import products
from .._system import one_thread
from .._types import Array
from ..datasets import Dataset, load_dataset
from ..evaluation import knn_accuracy, mean_average_precision
from ..learners import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, Euclidean
from ..learners._base import MetricLearner
from ..triplets import Triplets, sample_triplets
from .cells import Cell

N_TRIPLETS = 100_000
_N_EIGENVALUES = 200


@lru_cache(maxsize=1)
def dataset(name: str) -> Dataset:
    """Load a data set; cells come ordered by it, so that one is kept."""
    return load_dataset(name)


@lru_cache(maxsize=1)
def active_triplets(name: str, seed: int) -> Triplets:
    """Sample the triplets of a trial, which all methods share."""
    data = dataset(name)
    rng = np.random.default_rng(seed)
    return sample_triplets(data.X_train, data.y_train, N_TRIPLETS, "active", rng)


def make_learner(cell: Cell) -> MetricLearner:
    """Return the method of a cell, in the paper's setting: no scaling, 3 epochs, λ = 1/N."""
    setting: dict[str, Any] = {"scale": False, "random_state": cell.seed}
    if cell.method == "Euclid":
        return Euclidean()
    if cell.method == "OASIS":
        return OASIS(**setting)
    if cell.method == "DuOri":
        return DuOri(reg=cell.reg, **setting)
    if cell.method == "LMNN":
        return LMNN(cell.m, random_state=cell.seed)
    projected = {"DuRP": DuRP, "SRP": SRP, "SPCA": SPCA}
    if cell.method not in projected or cell.m is None:
        raise ValueError(f"no such cell: {cell}")
    return projected[cell.method](cell.m, reg=cell.reg, **setting)


def run_fit(cell: Cell) -> dict[str, Any]:
    """Learn on the training rows, in one thread, and score on the test rows.

    Seconds leave sampling out, as in the paper, and count everything else.
    """
    assert cell.dataset is not None
    assert cell.method is not None
    data = dataset(cell.dataset)
    learner = make_learner(cell)
    learns = cell.method not in ("Euclid", "LMNN")
    arguments = {"triplets": active_triplets(cell.dataset, cell.seed)} if learns else {}
    n_rows, n_features = data.X_train.shape
    _compile(cell.method, min(n_rows, n_features + 20), n_features, data.X_train.dtype)
    with one_thread():
        begin, cpu = perf_counter(), process_time()
        learner.fit(data.X_train, data.y_train, **arguments)
        seconds, cpu_seconds = perf_counter() - begin, process_time() - cpu
    train, test = learner.transform(data.X_train), learner.transform(data.X_test)
    return {
        "map": mean_average_precision(test, data.y_test),
        "knn": knn_accuracy(train, data.y_train, test, data.y_test),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "rank": learner.metric_.rank,
        "n_triplets": len(arguments["triplets"]) if learns else None,
        "duality_gap": getattr(learner, "duality_gap_", None),
    }


@lru_cache(maxsize=64)
def _compile(method: str, n_rows: int, n_features: int, dtype: np.dtype) -> None:
    """Have a method's loops compiled, so that no cell's seconds are the compiler's."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(dtype)
    y = np.arange(n_rows) % 2
    learner = make_learner(Cell("fit", method=method, m=min(10, n_rows, n_features)))
    if method == "Euclid":
        learner.fit(X, y)
    elif method == "LMNN":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learner.set_params(max_iter=1).fit(X, y)
    else:
        index = np.array([rng.choice(n_rows, size=3, replace=False) for _ in range(200)])
        learner.fit(X, y, triplets=Triplets.from_array(index, n_rows))


def run_statistics(cell: Cell) -> dict[str, Any]:
    """Sizes of a data set and the leading eigenvalues of its covariance (Figure 1)."""
    assert cell.dataset is not None
    data = dataset(cell.dataset)
    return {
        "classes": len(np.unique(data.y_train)),
        "features": int(data.X_train.shape[1]),
        "train": int(data.X_train.shape[0]),
        "test": int(data.X_test.shape[0]),
        "note": data.note,
        "stand_in_for": data.stand_in_for,
        "eigenvalues": _eigenvalues(data.X_train).tolist(),
    }


def _eigenvalues(X: Any) -> Array:
    """Leading eigenvalues of the covariance, as shares of their sum."""
    if X.shape[0] < X.shape[1]:
        matrix = products.gram(X)
    else:
        centred = products.to_dense(X) - products.column_means(X)
        matrix = centred.T.astype(np.float64) @ centred
    values = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)
    return (values / values.sum())[:_N_EIGENVALUES]
