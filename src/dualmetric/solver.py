"""CSDCA: the dual problem solved by coordinate ascent, with a true duality gap.

The general problem over Δ = M − M₀, in any space in which the examples are rows z of Z, is

    P(Δ) = λ/2·‖Δ‖² + 1/N·Σ w_t·ℓ(⟨Δ, A_t⟩ + 1 − b_t),

with A_t = ppᵀ − qqᵀ, p = z_c − z_d, q = z_a − z_b. The paper's problem (1) has M₀ = 0, b_t = 1 and
w_t = 1; a prior M₀ only lowers the targets, b_t ← b_t − ⟨M₀, A_t⟩. The dual (2), with β = −α, is

    D(β) = −1/N·Σ [w_t·ℓ_*(−β_t/w_t) − β_t(b_t − 1)] − 1/(2λN²)·‖V‖²,   V = Σ β_t A_t,

and Δ = V/(λN) links the two (3). The first epoch is the modified SGD of Shalev-Shwartz and Zhang
(2013), the others are SDCA: together CSDCA, as in the paper.

A similarity qᵀWd is learned by the same steps, with A_t = q(d⁺ − d⁻)ᵀ and Δ = W − W₀: see
`Bilinear`.

After only a few epochs, β still depends on the order of the steps. Each epoch has a random order
that follows from the rows that a comparison names, not from its place in the array: see
`random_order`.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._arrays import ops
from ._arrays.namespace import blocks_of, like, namespace, precision, to_numpy
from ._arrays.system import blas_threads_for
from ._types import Array, Matrix
from .losses import Loss
from .supervision import Comparisons

BLOCKED_ABOVE = 100
"""Number of dimensions above which steps are taken in blocks, since V does not fit in the cache."""

ON_DEVICE_FROM = 1000
"""Number of dimensions from which rows stay on a device: below, launching a kernel takes longer."""


class Symmetric(NamedTuple):
    """Rows of the problem of a metric: A_t = ½(uvᵀ + vuᵀ) of a comparison (a, b, c, d)."""

    rows: Matrix  # Z

    def zeros(self) -> Matrix:
        """Return V of no comparisons."""
        return ops.square(self.rows.shape[1], self.rows)

    def factors(self, index: Array) -> tuple[Matrix, Matrix]:
        """Return u and v of each comparison."""
        return ops.differences(self.rows, index)

    def gram(self, u: Matrix, v: Matrix) -> Matrix:
        """⟨A_s, A_t⟩ = ½((u_s·u_t)(v_s·v_t) + (u_s·v_t)(v_s·u_t)), in float64."""
        uv = _products64(u, v)
        return 0.5 * (_products64(u, u) * _products64(v, v) + uv * uv.T)

    def add(self, V: Matrix, delta: Array, u: Matrix, v: Matrix) -> None:
        """Add Σ δ_t A_t to V."""
        half = u.T @ (like(0.5 * delta, u)[:, None] * v)
        V += half
        V += half.T

    def weighted_sum(self, index: Array, beta: Array) -> Matrix:
        """V = Σ β_t A_t."""
        return ops.comparison_matrix(self.rows, index, beta)

    def margins(self, index: Array, V: Matrix) -> Array:
        """⟨V, A_t⟩ of every comparison."""
        return ops.margins(self.rows, index, V)


class Bilinear(NamedTuple):
    """Rows of the problem of a similarity: A_t = vuᵀ of a comparison (query, near, far).

    v = q, the query, and u = d⁺ − d⁻, the difference of the documents near and far, whose widths
    may differ. They may be sparse; both are on the host and of one precision.
    """

    queries: Matrix
    documents: Matrix

    def zeros(self) -> Matrix:
        """Return V of no comparisons."""
        return np.zeros((self.queries.shape[1], self.documents.shape[1]), self.documents.dtype)

    def factors(self, index: Array) -> tuple[Matrix, Matrix]:
        """Return u and v of each comparison, dense."""
        query, near, far = index.T
        apart = ops.take_rows(self.documents, near) - ops.take_rows(self.documents, far)
        return ops.to_dense(apart), ops.to_dense(ops.take_rows(self.queries, query))

    def gram(self, u: Matrix, v: Matrix) -> Matrix:
        """⟨A_s, A_t⟩ = (q_s·q_t)(u_s·u_t), in float64."""
        return _products64(u, u) * _products64(v, v)

    def add(self, V: Matrix, delta: Array, u: Matrix, v: Matrix) -> None:
        """Add Σ δ_t A_t to V."""
        V += v.T @ (like(delta, u)[:, None] * u)

    def weighted_sum(self, index: Array, beta: Array) -> Matrix:
        """V = Σ β_t A_t = QᵀBD, where B holds β_t at (query, near) and −β_t at (query, far)."""
        query, near, far = index.T
        places = np.concatenate([query, query]), np.concatenate([near, far])
        shape = self.queries.shape[0], self.documents.shape[0]
        B = sp.csr_matrix((np.concatenate([beta, -beta]), places), shape=shape)
        return np.asarray(ops.tdot(self.queries, ops.to_dense(B @ self.documents)))

    def margins(self, index: Array, V: Matrix) -> Array:
        """⟨V, A_t⟩ = qᵀVu of every comparison."""
        image = ops.dot(self.queries, V)
        found = np.empty(len(index), dtype=precision(V))
        for block in blocks_of(V, len(index), 4 * V.itemsize * V.shape[1]):
            query, near, far = index[block].T
            apart = ops.take_rows(self.documents, near) - ops.take_rows(self.documents, far)
            found[block] = namespace(V).vecdot(image[query], ops.to_dense(apart))
        return found


def hashes_of(index: Array) -> Array:
    """A 64-bit number for each comparison that looks random and depends on its rows alone.

    It does not depend on the order of the two rows of a pair.
    """
    columns = list(index.T)
    if len(columns) == 4:
        a, b, c, d = columns
        columns = [np.minimum(a, b), np.maximum(a, b), np.minimum(c, d), np.maximum(c, d)]
    found = np.zeros(len(index), dtype=np.uint64)
    for rows in columns:
        found += rows.astype(np.uint64)
        found *= np.uint64(0x9E3779B97F4A7C15)  # odd, so that no two numbers become one
        found ^= found >> np.uint64(32)
    return found


def random_order(hashes: Array, rng: np.random.Generator) -> Array:
    """A random permutation: if a comparison is added or removed, the others keep their order.

    A permutation of places would not have this property: a single comparison that rounding lets in
    would change the metric as much as another seed does. Repeated comparisons follow each other,
    and act as one that has the sum of their weights.
    """
    keys = hashes * (rng.integers(2**64, dtype=np.uint64) | np.uint64(1))
    low, high = ((keys >> np.uint64(shift)).astype(np.uint16) for shift in (32, 48))
    # two stable sorts of 16 bits, which NumPy does by counting: as fast as a permutation
    order = np.argsort(low, kind="stable")
    return order[np.argsort(high[order], kind="stable")]


def _form_of(Z: Matrix | Bilinear) -> Symmetric | Bilinear:
    return Z if isinstance(Z, Bilinear) else Symmetric(Z)


def _products64(left: Matrix, right: Matrix) -> Matrix:
    xp = namespace(left)
    return xp.astype(left @ right.T, xp.float64, copy=False)


class Epoch(NamedTuple):
    """State of the solver after an epoch (0: before the first, for a warm start)."""

    epoch: int
    primal: float
    dual: float
    gap: float

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch}: primal {self.primal:.6g}, dual {self.dual:.6g}, "
            f"gap {self.gap:.3g}"
        )


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
    Z: Matrix | Bilinear,
    comparisons: Comparisons,
    loss: Loss,
    *,
    reg: float,
    max_epochs: int = 3,
    tol: float | None = None,
    rng: np.random.Generator,
    numbers: Array | None = None,
    warm_start: Array | None = None,
    callback: Callable[[Epoch], object] | None = None,
    shared: dict[bytes, Array] | None = None,
) -> DualSolution:
    """Maximise the dual objective over β.

    Parameters
    ----------
    Z : array of shape (n_rows, m), C-contiguous, float32 or float64
        Rows in the space where the problem is solved. Rows on a device are copied to the host if
        they have fewer than 1,000 dimensions. For a similarity, queries and documents as a
        `Bilinear`.
    comparisons : Comparisons
        Over the rows of Z, checked; ``margin`` holds the targets. For a similarity, ``index`` has
        three columns: the query, the document that should be near, and the one that should be far.
    loss : Loss
        See `dualmetric.losses`.
    reg : float
        λ.
    max_epochs : int, default=3
        Passes over the comparisons, each in a new random order.
    tol : float, optional
        Stop when gap / primal is at most this.
    rng : numpy Generator
        Source of the random orders. The same state gives exactly the same result.
    numbers : ndarray of shape (n_rows,), optional
        Row numbers that determine the random orders. If Z holds only some of the rows, pass their
        numbers among all rows. By default, their numbers in Z.
    warm_start : ndarray of shape (n_comparisons,), optional
        Duals to start from; every epoch is then SDCA.
    callback : callable, optional
        Called with an `Epoch` at the end of each epoch.
    shared : dict, optional
        For several λ: the same dict, empty at first, for calls that differ in ``reg`` alone. Inner
        products of comparisons that are visited together are computed by the first call and kept
        here (1 kB per comparison and epoch). Objectives are not computed, so the history is empty.
    """
    from ._arrays import kernels

    if not isinstance(Z, Bilinear) and Z.shape[1] < ON_DEVICE_FROM:
        Z = np.ascontiguousarray(to_numpy(Z))
    form = _form_of(Z)
    V = form.zeros()
    n, m = len(comparisons), max(V.shape)
    blocked = m > BLOCKED_ABOVE or isinstance(Z, Bilinear)
    # in the precision of the duals: rounding must not take one beyond its weight
    weight = comparisons.weight.astype(precision(V))
    comparisons = Comparisons(comparisons.index, comparisons.margin, weight)
    reg_n = reg * n
    beta = np.zeros(n, dtype=precision(V))
    history: list[Epoch] = []

    def record(epoch: int) -> bool:
        history.append(_objectives(epoch, form, comparisons, beta, V, loss, reg))
        if callback is not None:
            callback(history[-1])
        return tol is not None and history[-1].gap <= tol * history[-1].primal

    if warm_start is not None:
        beta[:] = _checked_duals(warm_start, comparisons, loss)
        V = form.weighted_sum(comparisons.index, beta)
        if record(0):
            return DualSolution(beta, history)
    shift = 1.0 - comparisons.margin
    hashes = hashes_of(comparisons.index if numbers is None else numbers[comparisons.index])
    # of its own: the number of epochs must not change what is drawn after them
    orders = np.random.default_rng(rng.integers(2**63))
    for epoch in range(1, max_epochs + 1):
        order = random_order(hashes, orders)
        # laid out in the order of visiting: twice as fast as looking each comparison up
        ordered = [part.take(order, axis=0) for part in (comparisons.index, shift)]
        ordered += [weight.take(order), beta.take(order)]
        sgd = epoch == 1 and warm_start is None
        start, step = (reg, reg) if sgd else (reg_n, 0.0)
        run: Any = partial(_blocked_epoch, shared=shared) if blocked else kernels.dual_epoch
        with blas_threads_for(m) if blocked else nullcontext():
            run(Z, *ordered, V, start, step, loss.logistic, loss.smoothing, loss.upper)
        beta[order] = ordered[-1]
        if shared is not None and epoch == max_epochs:
            break
        # V again from β, so that rounding does not build up and the gap below is the true one
        V = form.weighted_sum(comparisons.index, beta)
        if shared is None and record(epoch):
            break
    return DualSolution(beta, history)


def _blocked_epoch(
    Z: Matrix | Bilinear,
    index: Array,
    shift: Array,
    weight: Array,
    beta: Array,
    V: Matrix,
    reg_n: float,
    reg_step: float,
    *loss: float,
    shared: dict[bytes, Array] | None = None,
) -> None:
    """Do what the kernel ``dual_epoch`` does, a block of comparisons at a time.

    The steps are the same, not an approximation: within a block, ⟨V, A_t⟩ is its value at the
    start of the block plus Σ_s δ_s⟨A_s, A_t⟩ over the steps since. V is read and written once per
    block, by matrix products, rather than once per comparison. The products run where the rows
    are, and the steps, which are numbers, on the host. ``shared`` is that of `solve_dual`.
    """
    from ._arrays import kernels

    form, xp = _form_of(Z), namespace(V)
    size = ops.steps_at_once(V)
    for first in range(0, len(index), size):
        part = slice(first, first + size)
        u, v = form.factors(index[part])
        if shared is None:
            G = to_numpy(form.gram(u, v))
        else:
            key = index[part].tobytes()
            if key not in shared:
                shared[key] = to_numpy(form.gram(u, v))
            G = shared[key]
        start = to_numpy(xp.vecdot(u, v @ V))
        delta = np.empty(len(start), dtype=beta.dtype)
        here = shift[part], weight[part], beta[part]
        kernels.dual_block(start, G, *here, delta, reg_n + first * reg_step, reg_step, *loss)
        moved = np.flatnonzero(delta)
        if len(moved):
            form.add(V, delta[moved], ops.take_rows(u, moved), ops.take_rows(v, moved))


def _objectives(
    epoch: int,
    form: Symmetric | Bilinear,
    comparisons: Comparisons,
    beta: Array,
    V: Matrix,
    loss: Loss,
    reg: float,
) -> Epoch:
    """Primal, dual and gap, the sums in float64.

    λ‖Δ‖² = 1/N·Σ β_t⟨Δ, A_t⟩, so the gap is the mean of the Fenchel–Young terms w_t·ℓ(z_t) +
    w_t·ℓ_*(−β_t/w_t) + β_t·z_t with z_t = ⟨Δ, A_t⟩ + 1 − b_t. Each is at least zero, so no digits
    are lost in differences.
    """
    reg_n = reg * len(comparisons)
    weight, shift = comparisons.weight.astype(np.float64), 1.0 - comparisons.margin
    z = form.margins(comparisons.index, V).astype(np.float64) / reg_n + shift
    value, conjugate = weight * loss.value(z), weight * loss.conjugate(beta / weight)
    norm = float(np.sqrt(ops.column_dots(V, V).sum())) / reg_n
    ridge = 0.5 * reg * norm * norm  # a power that is out of range would raise
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
