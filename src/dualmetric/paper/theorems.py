r"""Theorems 1 and 2, measured on made data where everything can be computed.

Theorem 1: for data of rank r, a projection to :math:`m \ge (r+1)\log(2r/\delta)/(c\varepsilon^2)`
dimensions (c = 1/3, ε ≤ 1/6) gives, with probability 1 − δ,

.. math:: \|\Pi(M_*) - \Pi(\widehat M)\|_F \le \frac{3\varepsilon}{1 - 3\varepsilon}\|M_*\|_F .

Theorem 2: for a γ-smooth loss, λ = 1/N and :math:`m \ge 8\epsilon^{-2}\ln(8N/\delta)` (ε ≤ ½),

.. math:: \|\alpha_* - \hat\alpha_*\|_2 \le
          \max\big(8\epsilon\gamma\kappa\|\alpha_*\|_2, \sqrt{2\gamma\eta}\big),

with κ the largest spectral norm of four matrices of products of squared distances.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from ..losses import get_loss
from ..solver import DualSolution, dual_matrix, solve_dual
from ..triplets import Triplets
from .cells import Cell

_DELTA = 0.1
_N_ROWS, _N_FEATURES = 200, 200
_N_TRIPLETS = 500
_MAX_EPOCHS, _TOL = 3000, 1e-8


class Problem(NamedTuple):
    """Rows, triplets, and the exact solution of the dual problem on them."""

    X: Array
    triplets: Triplets
    exact: DualSolution


def run_theorem1(cell: Cell) -> dict[str, Any]:
    """Error of the metric recovered from projected data of known rank, and its bound."""
    assert cell.m is not None
    assert cell.rank is not None
    problem = _problem(cell.rank, "hinge", cell.seed)
    projected = _solve_projected(problem, "hinge", cell)
    exact = _metric(problem, problem.exact.beta)
    recovered = _metric(problem, projected.beta)
    # the smallest ε for which the theorem speaks of this m
    epsilon = np.sqrt((cell.rank + 1) * np.log(2 * cell.rank / _DELTA) * 3 / cell.m)
    norm = np.linalg.norm(exact)
    return {
        "error": float(np.linalg.norm(_psd(exact) - _psd(recovered)) / norm),
        "epsilon": float(epsilon),
        "bound": float(3 * epsilon / (1 - 3 * epsilon)) if epsilon <= 1 / 6 else None,
        "gap": max(problem.exact.gap, projected.gap),
    }


def run_theorem2(cell: Cell) -> dict[str, Any]:
    """Error of the dual variables on data of full rank, and its bound; ‖Ĝ − G‖ beside them."""
    assert cell.m is not None
    problem = _problem(None, "smoothed_hinge", cell.seed)
    projected = _solve_projected(problem, "smoothed_hinge", cell)
    gamma = 1.0 / get_loss("smoothed_hinge").smoothing
    i, j, k = problem.triplets.index.T
    far = np.square(problem.X[i] - problem.X[k]).sum(axis=1)
    near = np.square(problem.X[i] - problem.X[j]).sum(axis=1)
    # M¹ … M⁴ are outer products of these, so their spectral norms are products of lengths
    kappa = max(far @ far, near @ near, np.sqrt((far @ far) * (near @ near)))
    epsilon = np.sqrt(8.0 / cell.m * np.log(8 * _N_TRIPLETS / _DELTA))
    size = float(np.linalg.norm(problem.exact.beta))
    # η is the suboptimality of N·D(β), the dual objective as the paper scales it
    eta = _N_TRIPLETS * projected.gap
    bound = max(8 * epsilon * gamma * kappa * size, np.sqrt(2 * gamma * eta))
    gram, gram_projected = (
        _gram(problem.X, problem.triplets),
        _gram(problem.X @ _projection(cell), problem.triplets),
    )
    return {
        "error": float(np.linalg.norm(problem.exact.beta - projected.beta)),
        "relative_error": float(np.linalg.norm(problem.exact.beta - projected.beta)) / size,
        "kappa": float(kappa),
        "epsilon": float(epsilon),
        "bound": float(bound) if epsilon <= 1 / 2 else None,
        "gram_error": float(np.linalg.norm(gram_projected - gram, 2) / np.linalg.norm(gram, 2)),
        "gap": max(problem.exact.gap, projected.gap),
    }


@lru_cache(maxsize=8)
def _problem(rank: int | None, loss: str, seed: int) -> Problem:
    """Make data of the given rank (full where None), of unit mean square distance."""
    rng = np.random.default_rng(seed)
    if rank is None:
        X = rng.standard_normal((_N_ROWS, _N_FEATURES))
    else:
        X = rng.standard_normal((_N_ROWS, rank)) @ rng.standard_normal((rank, _N_FEATURES))
    X -= X.mean(axis=0)
    X /= np.sqrt(2.0 * np.square(X).sum() / _N_ROWS)
    index = np.array([rng.choice(_N_ROWS, size=3, replace=False) for _ in range(_N_TRIPLETS)])
    triplets = Triplets.from_array(index, _N_ROWS)
    return Problem(X, triplets, _solve(X, triplets, loss, seed))


def _solve(Z: Array, triplets: Triplets, loss: str, seed: int) -> DualSolution:
    # distances are near one: coordinates of rank r data keep the d × d problem small and exact
    if Z.shape[0] < Z.shape[1] or np.linalg.matrix_rank(Z) < Z.shape[1]:
        left, values, _ = np.linalg.svd(Z, full_matrices=False)
        keep = values > values[0] * 1e-12
        Z = np.ascontiguousarray(left[:, keep] * values[keep])
    rng = np.random.default_rng(seed)
    reg = 1.0 / len(triplets)
    return solve_dual(
        np.ascontiguousarray(Z),
        triplets,
        get_loss(loss),
        reg=reg,
        rng=rng,
        max_epochs=_MAX_EPOCHS,
        tol=_TOL,
    )


def _projection(cell: Cell) -> Array:
    assert cell.m is not None
    rng = np.random.default_rng((cell.seed, cell.m))
    return rng.standard_normal((_N_FEATURES, cell.m)) / np.sqrt(cell.m)


def _solve_projected(problem: Problem, loss: str, cell: Cell) -> DualSolution:
    return _solve(problem.X @ _projection(cell), problem.triplets, loss, cell.seed)


def _metric(problem: Problem, beta: Array) -> Array:
    return dual_matrix(problem.X, problem.triplets, beta)  # λN = 1


def _psd(M: Array) -> Array:
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _gram(Z: Array, triplets: Triplets) -> Array:
    """G_ab = ⟨A_a, A_b⟩ for all pairs of triplets."""
    i, j, k = triplets.index.T
    u, v = Z[j] - Z[k], 2 * Z[i] - Z[j] - Z[k]
    cross = u @ v.T
    return 0.5 * ((u @ u.T) * (v @ v.T) + cross * cross.T)
