"""Cells on data sets: statistics, and fits in the paper's setting."""

import warnings
from functools import lru_cache
from itertools import product
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

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
# What OASIS is tuned over: C, and the root mean square length of the rows.
AGGRESSIVENESS = (0.01, 0.1, 1.0)
LENGTHS = (0.3, 1.0, 3.0)
_TUNING_TRIPLETS = 10_000
_MOST_HELD_OUT = 2000
# The estimator of a method, where its name is another.
_ESTIMATORS = {"Euclid": "Euclidean", "OASIS raw": "OASIS", "LMNN on PCA": "LMNN"}


@lru_cache(maxsize=1)
def dataset(name: str) -> Dataset:
    """Load a data set; cells are ordered by data set, so only one is kept."""
    return load_dataset(name)


@lru_cache(maxsize=1)
def _with_rows(name: str, rows: str | None) -> Dataset:
    """Return the data set, its rows scaled to length one if ``rows`` is "unit"."""
    data = dataset(name)
    if rows is None:
        return data
    return data._replace(X_train=normalize(data.X_train), X_test=normalize(data.X_test))


@lru_cache(maxsize=1)
def active_triplets(name: str, rows: str | None, seed: int) -> Array:
    """Sample the triplets of a trial; all methods share them."""
    data = _with_rows(name, rows)
    rng = np.random.default_rng(seed)
    return sample_triplets(data.X_train, data.y_train, N_TRIPLETS, "active", rng)


def make_learner(cell: Cell) -> Any:
    """Return a cell's method in the paper's setting: no scaling, 3 epochs, λ = 1/N by default."""
    if cell.method not in METHODS or (cell.method in PROJECTED and cell.m is None):
        raise ValueError(f"no such cell: {cell}; known methods: {', '.join(METHODS)}")
    learner = getattr(estimators, _ESTIMATORS.get(cell.method, cell.method))
    if cell.method == "LMNN":
        return learner(cell.m, random_state=cell.seed)
    if cell.method == "LMNN on PCA":
        return learner(pca_components=cell.m, random_state=cell.seed)
    setting = {"n_projections": cell.m, "reg": cell.reg, "max_epochs": cell.epochs or 3}
    setting |= {"scale": False, "random_state": cell.seed}
    return learner(**{name: setting[name] for name in options_of(learner) if name in setting})


def run_fit(cell: Cell) -> dict[str, Any]:
    """Learn from the training rows in one thread, and score on the test rows.

    As in the paper, the seconds do not include sampling; they include everything else. Those of
    tuning OASIS are stored separately.
    """
    assert cell.dataset is not None
    data = _with_rows(cell.dataset, cell.rows)
    learner = make_learner(cell)
    tuned = tune_oasis(cell.dataset, cell.rows) if cell.method == "OASIS" else None
    if tuned:
        learner.set_params(aggressiveness=tuned["aggressiveness"])
        data = _scaled(data, tuned["factor"])
    learns = cell.method not in DETERMINISTIC
    target: Any = data.y_train
    if learns:
        target = Triplets(active_triplets(cell.dataset, cell.rows, cell.seed))
    n_rows, n_features = data.X_train.shape
    _compile(cell.method, min(n_rows, n_features + 20), n_features, data.X_train.dtype)
    with one_thread():
        begin, cpu = perf_counter(), process_time()
        learner.fit(data.X_train, target)
        seconds, cpu_seconds = perf_counter() - begin, process_time() - cpu
    train, test = learner.transform(data.X_train), learner.transform(data.X_test)
    result = {
        "map": mean_average_precision(test, data.y_test),
        "knn": knn_accuracy(train, data.y_train, test, data.y_test),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "rank": learner.metric_.rank,
        "n_triplets": len(target) if learns else None,
    }
    if hasattr(learner, "duality_gap_"):
        last = learner.history_[-1]
        result |= {"duality_gap": last.gap, "relative_gap": last.gap / last.primal}
    if hasattr(learner, "similarity_"):
        result["map_similarity"] = similarity_map(data.X_test, data.y_test, learner.similarity_)
    return result | ({"tuning": tuned} if tuned else {})


@lru_cache(maxsize=1)
def tune_oasis(name: str, rows: str | None) -> dict[str, float]:
    """Choose C and one factor for all rows by mAP on held-out training rows.

    The same choice serves all trials. OASIS starts from the identity, so the lengths of the rows
    decide how far it moves away from it.
    """
    data = _with_rows(name, rows)
    begin = perf_counter()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.y_train))
    held, kept = np.split(order, [3 * len(order) // 10])
    held = held[:_MOST_HELD_OUT]
    X, y = data.X_train, data.y_train
    triplets = sample_triplets(X[kept], y[kept], _TUNING_TRIPLETS, "active", rng)
    root_mean_square = np.sqrt(np.mean(ops.row_lengths(X) ** 2))
    part = Dataset(name, X[kept], y[kept], X[held], y[held], "", None)
    best: dict[str, float] = {"held_out_map": -1.0}
    for length, aggressiveness in product(LENGTHS, AGGRESSIVENESS):
        factor = float(length / root_mean_square)
        scaled = _scaled(part, factor)
        learner = estimators.OASIS(aggressiveness, scale=False, random_state=0)
        with one_thread():
            learner.fit(scaled.X_train, Triplets(triplets))
            score = mean_average_precision(learner.transform(scaled.X_test), part.y_test)
        if score > best["held_out_map"]:
            chosen = {"length": length, "aggressiveness": aggressiveness, "factor": factor}
            best = {**chosen, "held_out_map": score}
    return {**best, "seconds": perf_counter() - begin}


def _scaled(data: Dataset, factor: float) -> Dataset:
    number = data.X_train.dtype.type(factor)
    return data._replace(X_train=data.X_train * number, X_test=data.X_test * number)


def similarity_map(X: Any, y: Array, W: Array) -> float:
    """Mean average precision of ranking rows by xᵀWy, the largest first; ties count as in mAP."""
    X = ops.to_dense(X).astype(np.float64)
    left = X @ W
    precisions = []
    for start in range(0, len(X), 500):
        for q, row in enumerate(-left[start : start + 500] @ X.T, start):
            row[q] = np.inf
            relevant = y == y[q]
            relevant[q] = False
            if relevant.any():
                found = np.sort(row[relevant])
                every = np.searchsorted(np.sort(row), found, "right")
                precisions.append(np.mean(np.searchsorted(found, found, "right") / every))
    return float(np.mean(precisions))


@lru_cache(maxsize=64)
def _compile(method: str | None, n_rows: int, n_features: int, dtype: np.dtype) -> None:
    """Compile a method's loops before its cells are timed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(dtype)
    target: Any = np.arange(n_rows) % 2
    learner = make_learner(Cell("fit", method=method, m=min(10, n_rows, n_features)))
    if "max_iter" in learner.get_params():
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
