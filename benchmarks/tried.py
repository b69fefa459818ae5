"""Ideas beyond the library's methods, tried on labelled sets: what each of them changes.

    DUALMETRIC_DATA=... python benchmarks/tried.py [SET ...]

Each idea is added to two settings: the paper's (DuRP, m = 10) and the one that ranks best without
a lift (whitened, flat spectrum, cosine, m = 50). Stored are mAP and 5-NN accuracy of test rows, the
mean of three seeds, with the idea and without.
"""

import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from _common import load_split, store
from dualmetric import Metric, knn_accuracy, mean_average_precision, spaces
from dualmetric._arrays import ops
from dualmetric.losses import get_loss
from dualmetric.problem import length_unit
from dualmetric.recovery import Directions, graph_matrix, positive_part, weighted_graph
from dualmetric.scatter import Scatter, scatter_of, within_classes
from dualmetric.solver import solve_dual
from dualmetric.supervision import Comparisons
from dualmetric.supervision.sampling import sample_triplets

SETS = ("usps", "isolet1", "20news_use512", "caltech101_top30_bovw", "fashion_mnist_13k")
N_TRIPLETS = 100_000


@dataclass(frozen=True)
class Setting:
    """A way to learn; the defaults are the paper's."""

    m: int = 10
    shrinkage: float = 1.0
    power: float = 0.5
    flat: bool = False
    distance: str = "euclidean"
    loss: str = "hinge"
    n_projections: int = 1  # whose duals are averaged
    rounds: int = 1  # after the first, triplets are those active under the metric so far
    balanced: bool = False  # the same number of triplets for each class
    sampler: str = "active"
    pull: float = 0.0  # c of a regulariser towards c·I


PAPER = Setting()
BEST = Setting(m=50, shrinkage=0.1, power=0.0, flat=True, distance="cosine")
IDEAS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "averaging 4 projections": {"n_projections": 4},
    "triplets sampled again under the metric": {"rounds": 2},
    "balanced classes": {"balanced": True},
    "smoothed hinge": {"loss": "smoothed_hinge"},
    "squared hinge": {"loss": "squared_hinge"},
    "logistic": {"loss": "logistic"},
    "neighbours as triplets": {"sampler": "neighbors"},
    "pull towards I": {"pull": 1.0, "power": 0.5},
    "neighbours, pull towards I": {"pull": 1.0, "power": 0.5, "sampler": "neighbors"},
    "neighbours, pull towards 100·I": {"pull": 100.0, "power": 0.5, "sampler": "neighbors"},
}


def learn(X: np.ndarray, y: np.ndarray, how: Setting, seed: int) -> Metric:
    """The metric, from the library's parts."""
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    scatter = None
    if how.shrinkage < 1.0:
        scatter = scatter_of(X, within_classes(X, y), how.shrinkage, d)
    chosen = _triplets(X, y, how, rng)
    for done in range(how.rounds):
        weight, unit = _weights(X, chosen, how, scatter, rng)
        factor = _factor(X, chosen, weight, unit, scatter, how, len(np.unique(y)) - 1)
        if done + 1 < how.rounds:
            more = _triplets(X @ factor, y, how, rng)
            chosen = np.concatenate([chosen, more])
    centre = X.mean(axis=0) @ factor if how.distance == "cosine" else None
    return Metric(factor, centre=centre, distance=how.distance)


def _triplets(X: np.ndarray, y: np.ndarray, how: Setting, rng: np.random.Generator) -> np.ndarray:
    wanted = N_TRIPLETS // how.rounds
    margin = length_unit(X) ** 2
    if not how.balanced:
        return sample_triplets(X, y, wanted, how.sampler, rng, margin=margin)
    many = sample_triplets(X, y, 4 * wanted, how.sampler, rng, margin=margin)
    label = y[many[:, 0]]
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return many[order[place < wanted // np.count_nonzero(sizes)]]


def _weights(
    X: np.ndarray,
    triplets: np.ndarray,
    how: Setting,
    scatter: Scatter | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """β of each triplet, and the length that counts as one."""
    found = []
    comparisons = Comparisons.of_triplets(triplets)
    start = None
    for _ in range(how.n_projections):
        Z, _ = spaces.random_projection(X, how.m, rng, scatter)
        unit = length_unit(X if scatter is None else Z)
        Z = Z / np.float32(unit)
        if how.pull:  # what c·I gives each triplet lowers its target; every epoch is SDCA
            Z, start = Z.astype(np.float64), np.zeros(len(triplets))
            gain = how.pull * ops.margins(Z, comparisons.index)
            comparisons = Comparisons(comparisons.index, 1.0 - gain, comparisons.weight)
        solution = solve_dual(
            Z,
            comparisons,
            get_loss(how.loss),
            reg=1.0 / len(triplets),
            rng=rng,
            warm_start=start,
        )
        found.append(solution.beta)
    return np.mean(found, axis=0), float(unit)


def _factor(
    X: np.ndarray,
    triplets: np.ndarray,
    beta: np.ndarray,
    unit: float,
    scatter: Scatter | None,
    how: Setting,
    rank: int,
) -> np.ndarray:
    """L of the positive part: all of it, or one direction fewer than there are classes."""
    index = Comparisons.of_triplets(triplets).index
    A = graph_matrix(X, weighted_graph(index, beta / unit**2, X))
    S = None if scatter is None else scatter.matrix
    if how.pull:
        A = np.tril(A) + how.pull * (np.eye(len(A), dtype=A.dtype) if S is None else np.tril(S))
        values, vectors = eigh(A, S)
        keep = values > 0
        found = Directions(values[keep][::-1], vectors[:, keep][:, ::-1], 0.0)
    else:
        found = positive_part(A, rank if how.flat else None, S)
    return np.ascontiguousarray(found.factor(how.power) / np.float32(unit))


def scores(name: str) -> dict[str, Any]:
    """mAP and 5-NN accuracy in per cent of each idea on one set."""
    X, y, X_test, y_test = load_split(name)
    X, X_test = np.ascontiguousarray(X), np.ascontiguousarray(X_test)
    table: dict[str, Any] = {}
    for base, setting in (("paper", PAPER), ("best", BEST)):
        for idea, change in IDEAS.items():
            found = []
            for seed in range(3):
                metric = learn(X, y, replace(setting, **change), seed)
                train, test = metric.transform(X), metric.transform(X_test)
                found.append(
                    (mean_average_precision(test, y_test), knn_accuracy(train, y, test, y_test))
                )
            ranked, voted = 100 * np.mean(found, axis=0)
            table.setdefault(idea, {})[base] = {"map": float(ranked), "knn": float(voted)}
            print(f"  {name:22s} {base:6s} {idea:32s} {ranked:5.1f} {voted:5.1f}", flush=True)
    return table


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = sys.argv[1:] or list(SETS)
    for name in chosen:
        store("tried", name, scores(name))
