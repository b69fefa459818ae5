"""CSDCA: the dual problem solved by coordinate ascent, with a true duality gap.

The general problem over Δ = M − M₀, in any space in which the examples are rows z of Z, is

    P(Δ) = λ/2·‖Δ‖² + 1/N·Σ w_t·ℓ(⟨Δ, A_t⟩ + 1 − b_t),

with A_t = ppᵀ − qqᵀ, p = z_c − z_d, q = z_a − z_b. The paper's problem (1) has M₀ = 0, b_t = 1 and
w_t = 1; a prior M₀ only lowers the targets, b_t ← b_t − ⟨M₀, A_t⟩. The dual (2), with β = −α, is

    D(β) = −1/N·Σ [w_t·ℓ_*(−β_t/w_t) − β_t(b_t − 1)] − 1/(2λN²)·‖V‖²,   V = Σ β_t A_t,

and Δ = V/(λN) links the two (3). The first epoch is the modified SGD of Shalev-Shwartz and Zhang
(2013), the others are SDCA: together CSDCA, as in the paper.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ._arrays import ops
from ._arrays.namespace import like, namespace, precision, to_numpy
from ._arrays.system import blas_threads_for
from ._types import Array, Matrix
from .losses import Loss
from .supervision import Comparisons

BLOCKED_ABOVE = 100
"""Dimensions above which steps are taken in blocks: V no longer fits the nearest cache."""

ON_DEVICE_FROM = 1000
"""Dimensions from which rows on a device stay there: below, a step is shorter than a launch."""


class Epoch(NamedTuple):
    """Where the solver stood after an epoch (0: before the first, for a warm start)."""

    epoch: int
    primal: float
    dual: float
    gap: float


@dataclass(frozen=True, eq=False)
class DualSolution:
    """What `solve_dual` found."""

    beta: Array  # (n_comparisons,): Dual variables β = −α ≥ 0
    history: list[Epoch]  # objectives and gap after each epoch

    @property
    def gap(self) -> float:
        """Duality gap at the end."""
        return self.history[-1].gap


def solve_dual(
    Z: Matrix,
    comparisons: Comparisons,
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
        Rows in the space where the problem is solved. Those on a device come to the host where
        they have fewer than 1,000 dimensions.
    comparisons : Comparisons
        Over the rows of Z, checked; ``margin`` holds the targets.
    loss : Loss
        See `dualmetric.losses`.
    reg : float
        λ.
    max_epochs : int, default=3
        Passes over the comparisons, each in a new random order.
    tol : float, optional
        Stop when gap / primal is at most this.
    rng : numpy Generator
        Source of the orders. The same state gives the same bits.
    warm_start : ndarray of shape (n_comparisons,), optional
        Duals to start from; every epoch is then SDCA.
    callback : callable, optional
        Called with each `Epoch` as it ends.
    """
    from ._arrays import kernels

    n, m = len(comparisons), Z.shape[1]
    if m < ON_DEVICE_FROM:
        Z = np.ascontiguousarray(to_numpy(Z))
    # in the precision of the duals: rounding must not take one beyond its weight
    weight = comparisons.weight.astype(precision(Z))
    comparisons = Comparisons(comparisons.index, comparisons.margin, weight)
    reg_n = reg * n
    beta = np.zeros(n, dtype=precision(Z))
    V = ops.square(m, Z)
    history: list[Epoch] = []

    def record(epoch: int) -> bool:
        history.append(_objectives(epoch, Z, comparisons, beta, V, loss, reg))
        if callback is not None:
            callback(history[-1])
        return tol is not None and history[-1].gap <= tol * history[-1].primal

    if warm_start is not None:
        beta[:] = _checked_duals(warm_start, comparisons, loss)
        V = ops.comparison_matrix(Z, comparisons.index, beta)
        if record(0):
            return DualSolution(beta, history)
    shift = 1.0 - comparisons.margin
    for epoch in range(1, max_epochs + 1):
        order = rng.permutation(n)
        # laid out in the order of visiting: twice as fast as looking each comparison up
        ordered = [part.take(order, axis=0) for part in (comparisons.index, shift)]
        ordered += [weight.take(order), beta.take(order)]
        sgd = epoch == 1 and warm_start is None
        start, step = (reg, reg) if sgd else (reg_n, 0.0)
        run: Any = _blocked_epoch if m > BLOCKED_ABOVE else kernels.dual_epoch
        with blas_threads_for(m) if m > BLOCKED_ABOVE else nullcontext():
            run(Z, *ordered, V, start, step, loss.logistic, loss.smoothing, loss.upper)
        beta[order] = ordered[-1]
        # V again from β, so that rounding does not build up and the gap below is the true one
        V = ops.comparison_matrix(Z, comparisons.index, beta)
        if record(epoch):
            break
    return DualSolution(beta, history)


def _blocked_epoch(
    Z: Matrix,
    index: Array,
    shift: Array,
    weight: Array,
    beta: Array,
    V: Matrix,
    reg_n: float,
    reg_step: float,
    *loss: float,
) -> None:
    """Do what the kernel ``dual_epoch`` does, a block of comparisons at a time.

    The steps are the same, not an approximation: within a block, ⟨V, A_t⟩ is its value at the
    start of the block plus Σ_s δ_s⟨A_s, A_t⟩ over the steps since, and
    ⟨A_s, A_t⟩ = ½((u_s·u_t)(v_s·v_t) + (u_s·v_t)(v_s·u_t)). V is read and written once per block,
    by matrix products, rather than once per comparison. The products run where Z is, and the
    steps, which are numbers, on the host.
    """
    from ._arrays import kernels

    xp = namespace(Z)
    size = ops.steps_at_once(Z)
    for first in range(0, len(index), size):
        part = slice(first, first + size)
        u, v = ops.differences(Z, index[part])
        uu, vv, uv = (
            xp.astype(left @ right.T, xp.float64, copy=False)
            for left, right in ((u, u), (v, v), (u, v))
        )
        G = to_numpy(0.5 * (uu * vv + uv * uv.T))
        start = to_numpy(xp.vecdot(u, v @ V))
        delta = np.empty(len(start), dtype=beta.dtype)
        here = shift[part], weight[part], beta[part]
        kernels.dual_block(start, G, *here, delta, reg_n + first * reg_step, reg_step, *loss)
        moved = np.flatnonzero(delta)
        if len(moved):
            u, v = ops.take_rows(u, moved), ops.take_rows(v, moved)
            half = u.T @ (like(0.5 * delta[moved], Z)[:, None] * v)
            V += half
            V += half.T


def _objectives(
    epoch: int,
    Z: Matrix,
    comparisons: Comparisons,
    beta: Array,
    V: Matrix,
    loss: Loss,
    reg: float,
) -> Epoch:
    """Primal, dual and gap, the sums in float64.

    λ‖Δ‖² = 1/N·Σ β_t⟨Δ, A_t⟩, so the gap is the mean of the Fenchel–Young terms
    w_t·ℓ(z_t) + w_t·ℓ_*(−β_t/w_t) + β_t·z_t with z_t = ⟨Δ, A_t⟩ + 1 − b_t. Each is at least zero:
    no digits cancel.
    """
    reg_n = reg * len(comparisons)
    weight, shift = comparisons.weight.astype(np.float64), 1.0 - comparisons.margin
    z = ops.margins(Z, comparisons.index, V).astype(np.float64) / reg_n + shift
    value, conjugate = weight * loss.value(z), weight * loss.conjugate(beta / weight)
    norm = float(np.sqrt(ops.column_dots(V, V).sum())) / reg_n
    ridge = 0.5 * reg * norm**2
    gap = np.maximum(value + conjugate + beta * z, 0.0).mean()
    dual = -float((conjugate + beta * shift).mean()) - ridge
    return Epoch(epoch, ridge + float(value.mean()), dual, float(gap))


def _checked_duals(beta: Array, comparisons: Comparisons, loss: Loss) -> Array:
    beta = np.asarray(beta, dtype=comparisons.weight.dtype)
    if beta.shape != (len(comparisons),):
        raise ValueError(
            "warm_start must hold one dual variable per comparison: expected shape "
            f"({len(comparisons)},), got {beta.shape}"
        )
    if not ((beta >= 0).all() and (beta <= loss.upper * comparisons.weight).all()):
        raise ValueError(
            f"warm_start must lie between 0 and {loss.upper:g} times the weight of each "
            f"comparison, the dual domain of the {loss.name} loss"
        )
    return beta
