"""Theorems 1 and 2, measured on synthetic data where everything can be computed.

Theorem 1: for data of rank r and m ≥ (r + 1)·log(2r/δ)/(cε²) projections (c = 1/3, ε ≤ 1/6),
‖Π(M) − Π(M̂)‖ ≤ 3ε/(1 − 3ε)·‖M‖ in Frobenius norm, with probability 1 − δ.

Theorem 2: for a γ-smooth loss, λ = 1/N and m ≥ 8/ε²·ln(8N/δ) projections (ε ≤ 1/2),
‖α − α̂‖ ≤ max(8εγκ‖α‖, √(2γη)), with probability 1 − δ. κ is the largest spectral norm of four
matrices of products of squared distances, and η is how far α̂ is from the maximum of the dual
objective. The proof first shows ‖α − α̂‖ ≤ max(2γ‖Ĝ − G‖‖α‖, √(2γη)), then ‖Ĝ − G‖ ≤ 4εκ.

The bound of Theorem 2 can fail only if 8εγκ < 1 (see the page). κ grows with N and with the fourth
power of the distances, so the problem has few triplets, scaled to a small κ. Its rows are two
clusters; if triplets did not agree on a direction, the optimal α would simply be close to 1.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._arrays import ops
from .._types import Array
from ..losses import get_loss
from ..solver import DualSolution, solve_dual
from ..spaces import row_span
from ..supervision import Comparisons
from .cells import Cell

_DELTA = 0.1
_N_ROWS, _N_FEATURES = 200, 200
_N_TRIPLETS = 500
_N_TRIPLETS_2, _KAPPA = 20, 0.25
_MAX_EPOCHS, _TOL = 3000, 1e-8


class Problem(NamedTuple):
    """Rows, triplets, the loss, and the exact solution of the dual problem."""

    X: Array
    triplets: Array
    loss: str
    exact: DualSolution


def run_theorem1(cell: Cell) -> dict[str, Any]:
    """Return the error of the metric recovered from data of known rank, and its bound."""
    assert cell.m is not None
    assert cell.rank is not None
    problem = _low_rank(cell.rank, cell.seed)
    projected = _solve_projected(problem, cell)
    index = Comparisons.of_triplets(problem.triplets).index
    # M = Σ β_t A_t / (λN); here λN = 1
    exact, recovered = (
        ops.comparison_matrix(problem.X, index, found.beta) for found in (problem.exact, projected)
    )
    # the smallest ε for which the theorem covers this m
    epsilon = np.sqrt((cell.rank + 1) * np.log(2 * cell.rank / _DELTA) * 3 / cell.m)
    return {
        "error": float(np.linalg.norm(_psd(exact) - _psd(recovered)) / np.linalg.norm(exact)),
        "epsilon": float(epsilon),
        "bound": float(3 * epsilon / (1 - 3 * epsilon)) if epsilon <= 1 / 6 else None,
        "gap": max(problem.exact.gap, projected.gap),
    }


def run_theorem2(cell: Cell) -> dict[str, Any]:
    """Return the error of the dual variables on data of full rank, and its bounds."""
    assert cell.m is not None
    problem = _clusters(cell.seed)
    projected = _solve_projected(problem, cell)
    loss, n_triplets = get_loss(problem.loss), len(problem.triplets)
    gamma = 1.0 / loss.smoothing
    size = np.linalg.norm(problem.exact.beta)
    error = np.linalg.norm(problem.exact.beta - projected.beta)
    # The gap is that of the mean over triplets; the paper's dual objective is the sum.
    eta = n_triplets * projected.gap
    gram = _gram(problem.X, problem.triplets)
    gram_error = np.linalg.norm(_gram(problem.X @ _projection(cell), problem.triplets) - gram, 2)
    kappa = _kappa(problem.X, problem.triplets)
    epsilon = np.sqrt(8.0 / cell.m * np.log(8 * n_triplets / _DELTA))

    def bound(distortion: float) -> float:
        return float(max(2 * gamma * distortion * size, np.sqrt(2 * gamma * eta)))

    return {
        "error": float(error),
        "relative_error": float(error / size),
        "size": float(size),
        "error_of_ones": float(np.linalg.norm(1.0 - problem.exact.beta)),
        "diameter": float(loss.upper * np.sqrt(n_triplets)),
        "kappa": kappa,
        "epsilon": float(epsilon),
        "bound": bound(4 * epsilon * kappa) if epsilon <= 1 / 2 else None,
        "bound_given_gram": bound(float(gram_error)),
        "gram_error": float(gram_error / np.linalg.norm(gram, 2)),
        "eta": float(eta),
        "gap": max(problem.exact.gap, projected.gap),
    }


@lru_cache(maxsize=8)
def _low_rank(rank: int, seed: int) -> Problem:
    """Make rows of the given rank with a mean squared distance of one, and random triplets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((_N_ROWS, rank)) @ rng.standard_normal((rank, _N_FEATURES))
    X -= X.mean(axis=0)
    X /= np.sqrt(2.0 * np.square(X).sum() / _N_ROWS)
    rows = [rng.choice(_N_ROWS, size=3, replace=False) for _ in range(_N_TRIPLETS)]
    index = np.array(rows, dtype=np.int32)
    return Problem(X, index, "hinge", _solve(X, index, "hinge", seed))


@lru_cache(maxsize=8)
def _clusters(seed: int) -> Problem:
    """Make two clusters of full rank, and triplets (i, j, k) with k from the other cluster."""
    rng = np.random.default_rng(seed)
    X = 0.25 * rng.standard_normal((_N_ROWS, _N_FEATURES)) / np.sqrt(_N_FEATURES)
    X[::2, 0] += 1.0
    X -= X.mean(axis=0)
    half = _N_ROWS // 2
    i = rng.integers(_N_ROWS, size=_N_TRIPLETS_2)
    j = (i + 2 * rng.integers(1, half, size=_N_TRIPLETS_2)) % _N_ROWS
    k = (i + 2 * rng.integers(half, size=_N_TRIPLETS_2) + 1) % _N_ROWS
    index = np.stack([i, j, k], axis=1, dtype=np.int32)
    X *= (_KAPPA / _kappa(X, index)) ** 0.25
    return Problem(X, index, "smoothed_hinge", _solve(X, index, "smoothed_hinge", seed))


def _kappa(X: Array, index: Array) -> float:
    """Return the largest spectral norm of M¹ … M⁴ of the paper."""
    i, j, k = index.T
    far = np.square(X[i] - X[k]).sum(axis=1)
    near = np.square(X[i] - X[j]).sum(axis=1)
    # M¹ … M⁴ are outer products of these two, and ‖far‖·‖near‖ is never the largest
    return float(max(far @ far, near @ near))


def _solve(Z: Array, index: Array, loss: str, seed: int) -> DualSolution:
    # Coordinates in the span of the rows keep the problem small and change nothing.
    return solve_dual(
        row_span(Z)[0],
        Comparisons.of_triplets(index),
        get_loss(loss),
        reg=1.0 / len(index),
        rng=np.random.default_rng(seed),
        max_epochs=_MAX_EPOCHS,
        tol=_TOL,
    )


def _projection(cell: Cell) -> Array:
    assert cell.m is not None
    rng = np.random.default_rng((cell.seed, cell.m))
    return rng.standard_normal((_N_FEATURES, cell.m)) / np.sqrt(cell.m)


def _solve_projected(problem: Problem, cell: Cell) -> DualSolution:
    return _solve(problem.X @ _projection(cell), problem.triplets, problem.loss, cell.seed)


def _psd(M: Array) -> Array:
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _gram(Z: Array, index: Array) -> Array:
    """Return G_ab = ⟨A_a, A_b⟩ for all pairs of triplets."""
    i, j, k = index.T
    u, v = Z[j] - Z[k], 2 * Z[i] - Z[j] - Z[k]
    cross = u @ v.T
    return 0.5 * ((u @ u.T) * (v @ v.T) + cross * cross.T)
