"""Cells on data sets: statistics, and fits in the paper's setting."""

import warnings
from functools import lru_cache
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import estimators
from .._arrays import ops
from .._arrays.system import one_thread
from .._options import options_of
from .._types import Array
from ..datasets import Dataset, load_dataset
from ..evaluation import knn_accuracy, mean_average_precision
from ..supervision import Triplets
from ..supervision.sampling import sample_triplets
from .cells import DETERMINISTIC, METHODS, PROJECTED, Cell

N_TRIPLETS = 100_000


@lru_cache(maxsize=1)
def dataset(name: str) -> Dataset:
    """Load a data set; cells are ordered by data set, so only one is kept."""
    return load_dataset(name)


@lru_cache(maxsize=1)
def active_triplets(name: str, seed: int) -> Array:
    """Sample the triplets of a trial; all methods share them."""
    data = dataset(name)
    rng = np.random.default_rng(seed)
    return sample_triplets(data.X_train, data.y_train, N_TRIPLETS, "active", rng)


def make_learner(cell: Cell) -> Any:
    """Return a cell's method in the paper's setting: no scaling, 3 epochs, λ = 1/N by default."""
    if cell.method not in METHODS or (cell.method in PROJECTED and cell.m is None):
        raise ValueError(f"no such cell: {cell}; known methods: {', '.join(METHODS)}")
    if cell.method == "LMNN":
        return estimators.LMNN(cell.m, random_state=cell.seed)
    learner = getattr(estimators, "Euclidean" if cell.method == "Euclid" else cell.method)
    setting = {"n_projections": cell.m, "reg": cell.reg, "scale": False, "random_state": cell.seed}
    return learner(**{name: setting[name] for name in options_of(learner) if name in setting})


def run_fit(cell: Cell) -> dict[str, Any]:
    """Learn from the training rows in one thread, and score on the test rows.

    As in the paper, the seconds do not include sampling; they include everything else.
    """
    assert cell.dataset is not None
    data = dataset(cell.dataset)
    learner = make_learner(cell)
    learns = cell.method not in DETERMINISTIC
    target: Any = Triplets(active_triplets(cell.dataset, cell.seed)) if learns else data.y_train
    n_rows, n_features = data.X_train.shape
    _compile(cell.method, min(n_rows, n_features + 20), n_features, data.X_train.dtype)
    with one_thread():
        begin, cpu = perf_counter(), process_time()
        learner.fit(data.X_train, target)
        seconds, cpu_seconds = perf_counter() - begin, process_time() - cpu
    train, test = learner.transform(data.X_train), learner.transform(data.X_test)
    return {
        "map": mean_average_precision(test, data.y_test),
        "knn": knn_accuracy(train, data.y_train, test, data.y_test),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "rank": learner.metric_.rank,
        "n_triplets": len(target) if learns else None,
        "duality_gap": getattr(learner, "duality_gap_", None),
    }


@lru_cache(maxsize=64)
def _compile(method: str | None, n_rows: int, n_features: int, dtype: np.dtype) -> None:
    """Compile a method's loops before its cells are timed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(dtype)
    target: Any = np.arange(n_rows) % 2
    learner = make_learner(Cell("fit", method=method, m=min(10, n_rows, n_features)))
    if method == "LMNN":
        learner.set_params(max_iter=1)
    if method not in DETERMINISTIC:
        target = Triplets([rng.choice(n_rows, size=3, replace=False) for _ in range(200)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(X, target)


def run_statistics(cell: Cell) -> dict[str, Any]:
    """Return the sizes of a data set and the leading eigenvalues of its covariance (Figure 1)."""
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
    """Return the leading eigenvalues of the covariance, divided by the sum of all."""
    few = X.shape[0] < X.shape[1]
    matrix = ops.gram(X) if few else np.cov(ops.to_dense(X), rowvar=False, dtype=np.float64)
    values = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)
    return (values / values.sum())[:200]
