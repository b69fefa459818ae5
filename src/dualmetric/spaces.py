"""Where the dual problem is solved: linear maps of the rows into few dimensions.

A space consists of the mapped rows Z (dense, centred) and the matrix B of the map (d × m, Z = XB up
to the centring); B is None if the space is the original one. Centring does not change distances,
and improves their precision.
"""

import math

import numpy as np

from ._arrays import eigen, ops
from ._arrays.namespace import like, precision, require_memory_beside
from ._types import Matrix
from .scatter import Scatter


def original(X: Matrix, scatter: Scatter | None = None) -> Matrix:
    """Return the rows as they are, or whitened by the scatter (DuOri)."""
    n, d = X.shape
    require_memory_beside(
        X,
        (4 * n * d + 3 * d * d) * precision(X).itemsize,
        f"solving the dual problem in all {d:,} dimensions of {n:,} rows",
        "Use DuRP, which solves it in n_projections dimensions.",
    )
    rows = ops.minus_mean(ops.to_dense(X))
    return rows if scatter is None else scatter.whiten(rows)


def random_projection(
    X: Matrix, m: int, rng: np.random.Generator, scatter: Scatter | None = None
) -> tuple[Matrix, Matrix]:
    """Project by R ∈ ℝ^{d×m} with entries from N(0, 1/m) (DuRP, SRP; Alg. 1, step 2).

    With a scatter S, by S^−½R: a random projection of the whitened rows.
    """
    if scatter is None:
        R = like(rng.standard_normal((X.shape[1], m)), X)
    else:
        R = scatter.whitening_columns(m, rng)
    R /= math.sqrt(m)
    return mapped(X, R), R


def principal_components(X: Matrix, m: int, seed: int) -> Matrix:
    """Return the m leading principal components as columns; fewer where X has fewer (SPCA)."""
    return ops.principal_components(X, m, seed)


def mapped(X: Matrix, B: Matrix) -> Matrix:
    """Return the rows of XB, centred."""
    return ops.minus_mean(ops.threaded_dot(X, B))


def row_span(X: Matrix) -> tuple[Matrix, Matrix]:
    """Rotate n rows of d > n features into at most n coordinates, exactly.

    With the centred rows' inner products XXᵀ = QΛQᵀ, the coordinates are F = QΛ^½ and the
    orthonormal basis is E = XᵀQΛ^−½: distances between the rows are those between rows of F, and
    a metric LLᵀ learned on F is the metric (EL)(EL)ᵀ that would have been learned on X. E has as
    many rows as X has features, so W with E = XᵀW is returned in its place: EL = Xᵀ(WL).
    """
    values, Q = eigen.eigh(ops.gram(X))
    keep = np.flatnonzero(values > values[-1] * X.shape[0] * np.finfo(np.float64).eps)
    if not len(keep):  # rows that do not differ: one coordinate, always zero
        nothing = np.zeros((X.shape[0], 1))
        return like(nothing, ops.column_means(X)), like(nothing, ops.column_means(X))
    Q = ops.take_columns(Q, keep)
    root = like(np.sqrt(values[keep]), Q)
    place = ops.column_means(X)  # a dense array of the precision of X, where X is
    return like(Q * root, place), like(ops.minus_mean(Q) / root, place)
