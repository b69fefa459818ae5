"""CSDCA: the dual problem solved by coordinate ascent, with a true duality gap.

The paper's problem (1) over M, in any space in which the examples are rows z of Z, is

    P(M) = λ/2·‖M‖² + 1/N·Σ ℓ(⟨M, A_t⟩),

its dual (2), with β = −α, is

    D(β) = −1/N·Σ ℓ_*(−β_t) − 1/(2λN²)·‖V‖²,   V = Σ β_t A_t,

and M = V/(λN) links the two (3). The first epoch is the modified SGD of Shalev-Shwartz and Zhang
(2013), the others are SDCA: together CSDCA, as the paper has it.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from . import minibatch, products
from ._namespace import is_device_array, like, precision, to_numpy
from ._system import blas_threads_for, run_blocks
from ._types import Array
from .losses import Loss
from .triplets import Triplets

BLOCKED_ABOVE = 100
"""Dimensions above which steps are taken in blocks: V no longer fits the nearest cache."""

ON_DEVICE_FROM = 1000
"""Dimensions from which rows on a device are left there: below, steps are shorter than a launch."""

_BLOCK = 128


class Epoch(NamedTuple):
    """Where the solver stood after an epoch (0: before the first, for a warm start)."""

    epoch: int
    primal: float
    dual: float
    gap: float


@dataclass(frozen=True, eq=False)
class DualSolution:
    """What `solve_dual` found.

    Attributes
    ----------
    beta : ndarray of shape (n_triplets,)
        Dual variables β = −α ≥ 0.
    history : list of Epoch
        Objectives and gap after each epoch.
    """

    beta: Array
    history: list[Epoch]

    @property
    def gap(self) -> float:
        """Duality gap at the end."""
        return self.history[-1].gap


def solve_dual(
    Z: Array,
    triplets: Triplets,
    loss: Loss,
    *,
    reg: float,
    max_epochs: int = 3,
    tol: float | None = None,
    rng: np.random.Generator,
    warm_start: Array | None = None,
    callback: Callable[[Epoch], object] | None = None,
) -> DualSolution:
    """Maximise the dual objective over β.

    Parameters
    ----------
    Z : array of shape (n_rows, m), C-contiguous, float32 or float64
        Rows in the space where the problem is solved. Where they are on a device, steps are taken
        on the host, but from 1,000 dimensions on by `minibatch.epoch`.
    triplets : Triplets
        Over the rows of Z.
    loss : Loss
        See `dualmetric.losses`.
    reg : float
        λ.
    max_epochs : int, default=3
        Passes over the triplets, each in a new random order.
    tol : float, optional
        Stop when gap / primal is at most this.
    rng : numpy Generator
        Source of the orders. The same state gives the same bits.
    warm_start : ndarray of shape (n_triplets,), optional
        Duals to start from; every epoch is then SDCA.
    callback : callable, optional
        Called with each `Epoch` as it ends.
    """
    from . import _kernels

    n_triplets, m = len(triplets), Z.shape[1]
    if m < ON_DEVICE_FROM:
        Z = np.ascontiguousarray(to_numpy(Z))
    reg_n = reg * n_triplets
    beta = np.zeros(n_triplets, dtype=precision(Z))
    V = like(np.zeros((m, m)), Z)
    history: list[Epoch] = []

    def record(epoch: int) -> bool:
        history.append(_objectives(epoch, Z, triplets, beta, V, loss, reg))
        if callback is not None:
            callback(history[-1])
        return tol is not None and history[-1].gap <= tol * history[-1].primal

    if warm_start is not None:
        beta[:] = _checked_duals(warm_start, n_triplets, loss)
        V = dual_matrix(Z, triplets, beta)
        if record(0):
            return DualSolution(beta, history)
    for epoch in range(1, max_epochs + 1):
        order = rng.permutation(n_triplets)
        shuffled = beta.take(order)
        # laid out in the order of visiting: twice as fast as looking each triplet up
        index = triplets.index.take(order, axis=0)
        sgd = epoch == 1 and warm_start is None
        start, step = (reg, reg) if sgd else (reg_n, 0.0)
        run = _blocked_epoch if m > BLOCKED_ABOVE else _kernels.dual_epoch
        if is_device_array(Z):
            run = minibatch.epoch
        with blas_threads_for(m) if m > BLOCKED_ABOVE else nullcontext():
            run(Z, index, shuffled, V, start, step, loss.logistic, loss.smoothing, loss.upper)
        beta[order] = shuffled
        # V anew from β, so that rounding does not build up and the gap below is the true one
        V = dual_matrix(Z, triplets, beta)
        if record(epoch):
            break
    return DualSolution(beta, history)


def _blocked_epoch(
    Z: Array,
    index: Array,
    beta: Array,
    V: Array,
    reg_n: float,
    reg_step: float,
    logistic: bool,
    smoothing: float,
    upper: float,
) -> None:
    """Do what the kernel ``dual_epoch`` does, a block of triplets at a time.

    The steps are the same, not an approximation: within a block, ⟨V, A_t⟩ is its value at the
    start of the block plus Σ_s δ_s⟨A_s, A_t⟩ over the steps since, and
    ⟨A_s, A_t⟩ = ½((u_s·u_t)(v_s·v_t) + (u_s·v_t)(v_s·u_t)). V is read and written once a block,
    by matrix products, rather than once a triplet.
    """
    from . import _kernels

    for first in range(0, len(index), _BLOCK):
        part = slice(first, first + _BLOCK)
        i, j, k = index[part].T
        u = Z[j] - Z[k]
        v = Z[i] - Z[j] + (Z[i] - Z[k])
        uv = u @ v.T
        G = 0.5 * ((u @ u.T).astype(np.float64) * (v @ v.T) + uv.astype(np.float64) * uv.T)
        start = np.einsum("tm,tm->t", u, v @ V)
        delta = np.empty(len(i), dtype=Z.dtype)
        _kernels.dual_block(
            start,
            G,
            beta[part],
            delta,
            reg_n + first * reg_step,
            reg_step,
            logistic,
            smoothing,
            upper,
        )
        moved = np.flatnonzero(delta)
        if len(moved):
            half = u[moved].T @ (0.5 * delta[moved, None] * v[moved])
            V += half
            V += half.T


def dual_matrix(Z: Array, triplets: Triplets, beta: Array) -> Array:
    """V = Σ β_t A_t = ZᵀCZ."""
    if is_device_array(Z):
        return minibatch.dual_matrix(Z, triplets.index, beta)
    V = products.tdot(Z, products.pair_dot(triplets.index, beta, Z))
    return 0.5 * (V + V.T)


def triplet_margins(Z: Array, triplets: Triplets, M: Array) -> Array:
    """⟨M, A_t⟩ for every triplet, at the cost of one product ZM; on the host."""
    if is_device_array(Z):
        return minibatch.margins(Z, triplets.index, M)
    from . import _kernels

    W = products.dot(Z, M)
    out = np.empty(len(triplets), dtype=Z.dtype)
    run_blocks(
        lambda start, stop: _kernels.margins(Z, W, triplets.index, start, stop, out),
        len(triplets),
        smallest=10_000,
    )
    return out


def _objectives(
    epoch: int, Z: Array, triplets: Triplets, beta: Array, V: Array, loss: Loss, reg: float
) -> Epoch:
    """Primal, dual and gap, the sums in float64.

    λ‖M‖² = 1/N·Σ β_t⟨M, A_t⟩, so the gap is the mean of the Fenchel–Young terms
    ℓ(z_t) + ℓ_*(−β_t) + β_t·z_t, each of which is at least zero: no digits cancel.
    """
    reg_n = reg * len(triplets)
    z = triplet_margins(Z, triplets, V).astype(np.float64) / reg_n
    value, conjugate = loss.value(z), loss.conjugate(beta)
    norm = float(np.sqrt(products.column_dots(V, V).sum())) / reg_n
    ridge = 0.5 * reg * norm**2
    gap = np.maximum(value + conjugate + beta * z, 0.0).mean()
    return Epoch(epoch, ridge + float(value.mean()), -float(conjugate.mean()) - ridge, float(gap))


def _checked_duals(beta: Array, n_triplets: int, loss: Loss) -> Array:
    beta = np.asarray(beta)
    if beta.shape != (n_triplets,):
        raise ValueError(
            f"warm_start must hold one dual variable a triplet: expected shape ({n_triplets},), "
            f"got {beta.shape}"
        )
    if not ((beta >= 0).all() and (beta <= loss.upper).all()):
        raise ValueError(
            f"warm_start must lie in [0, {loss.upper:g}], the dual domain of the {loss.name} loss"
        )
    return beta
