"""Dual coordinate ascent for rows on a device: the solver's steps, a batch of triplets at a time.

The steps are those of the host, not an approximation. Within a batch, ⟨V, A_t⟩ is its value at the
start plus Σ_s δ_s⟨A_s, A_t⟩ over the steps since, and

    ⟨A_s, A_t⟩ = ½((u_s·u_t)(v_s·v_t) + (u_s·v_t)(v_s·u_t)),   u = z_j − z_k,  v = 2z_i − z_j − z_k.

The device multiplies: a batch by V, and by itself. The steps, which are numbers, are taken on the
host, and V gets all of them at once.
"""

from typing import Any

import numpy as np

from ._device import triplet_vectors
from ._namespace import blocks_of, like, namespace, to_numpy
from ._types import Array

BATCH = 512
"""Triplets a batch: each costs the way to the host and back, and its steps grow with the square."""


def epoch(
    Z: Any,
    index: Array,
    beta: Array,
    V: Any,
    reg_n: float,
    reg_step: float,
    logistic: bool,
    smoothing: float,
    upper: float,
) -> None:
    """One pass over the triplets; updates ``beta``, on the host, and V, on the device, in place."""
    from . import _kernels

    xp = namespace(Z)
    for first in range(0, len(index), BATCH):
        part = slice(first, first + BATCH)
        u, v = triplet_vectors(Z, index[part])
        uv = xp.astype(u @ v.T, xp.float64)
        uu, vv = (xp.astype(rows @ rows.T, xp.float64) for rows in (u, v))
        G = to_numpy(0.5 * (uu * vv + uv * uv.T))
        start = to_numpy(xp.sum(u * (v @ V), axis=1))
        delta = np.empty(len(start), dtype=beta.dtype)
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
        if delta.any():
            half = u.T @ (like(0.5 * delta, Z)[:, None] * v)
            V += half + half.T


def dual_matrix(Z: Any, index: Array, beta: Array) -> Any:
    """Σ β_t A_t = ½Σ β_t(uvᵀ + vuᵀ), u = z_j − z_k, v = 2z_i − z_j − z_k (m × m)."""
    xp = namespace(Z)
    used = np.flatnonzero(beta)
    V = xp.zeros((Z.shape[1], Z.shape[1]), dtype=xp.float64, device=Z.device)
    for block in blocks_of(Z, len(used), 32 * Z.shape[1]):
        u, v = triplet_vectors(Z, index[used[block]])
        half = u.T @ (like(beta[used[block]], Z)[:, None] * v)
        V += xp.astype(half, xp.float64)
    return like(0.5 * (V + V.T), Z)


def margins(Z: Any, index: Array, M: Any) -> Array:
    """⟨M, A_t⟩ = uᵀMv for every triplet; on the host."""
    xp = namespace(Z)
    W = Z @ M
    parts = []
    for block in blocks_of(Z, len(index), 48 * Z.shape[1]):
        u, _ = triplet_vectors(Z, index[block])
        _, image = triplet_vectors(W, index[block])
        parts.append(xp.sum(u * image, axis=1))
    return to_numpy(xp.concat(parts))
