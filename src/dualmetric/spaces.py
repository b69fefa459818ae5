"""Where the dual problem is solved: linear maps of the rows into few dimensions.

A space is the rows there (Z, dense, centred) and the matrix B of the map (d × m, Z = XB up to the
centring), or None where the space is the original one. Distances ignore the centring, and numbers
near zero keep their digits.
"""

import math

import numpy as np
from sklearn.decomposition import PCA

from . import matrices, products
from ._namespace import like, precision, require_memory_beside
from ._types import Array, Rows
from .whitening import ExplicitScatter, Scatter


def original(X: Rows, scatter: Scatter | None = None) -> Array:
    """Return the rows as they are, or whitened by the scatter (DuOri)."""
    n, d = X.shape
    require_memory_beside(
        X,
        (4 * n * d + 3 * d * d) * precision(X).itemsize,
        f"solving the dual problem in all {d:,} dimensions of {n:,} rows",
        "Use DuRP, which solves it in n_projections dimensions.",
    )
    rows = products.centred(products.to_dense(X))
    if scatter is None:
        return rows
    if not isinstance(scatter, ExplicitScatter):
        raise ValueError(
            f"whitening {d:,} features without projecting them is not supported: use DuRP, or "
            "shrinkage=1.0"
        )
    return scatter.whiten(rows)


def random_projection(
    X: Rows, m: int, rng: np.random.Generator, scatter: Scatter | None = None
) -> tuple[Array, Array]:
    """Project by R ∈ ℝ^{d×m} with entries from N(0, 1/m) (DuRP, SRP; Alg. 1, step 2).

    With a scatter S, by S^−½R: a random projection of the whitened rows.
    """
    if scatter is None:
        R = like(rng.standard_normal((X.shape[1], m)), X)
    else:
        R = scatter.whitening_columns(m, rng)
    R /= math.sqrt(m)
    return mapped(X, R), R


def principal_components(X: Rows, m: int, seed: int) -> Array:
    """Return the m leading principal components as columns; fewer where X has fewer (SPCA)."""
    n, d = X.shape
    solver = "auto"
    if products.is_sparse(X):
        # components have no unit, and the sparse solver stops too early on small numbers
        X = (X / np.sqrt(products.mean_sq_distance(X))).astype(X.dtype)
        if m >= min(n, d):
            # all of them, which ARPACK cannot give; n centred rows have at most n − 1
            m, solver = (n - 1, "arpack") if n <= d else (d, "covariance_eigh")
    pca = PCA(n_components=min(m, n, d), svd_solver=solver, random_state=seed).fit(X)
    return np.ascontiguousarray(pca.components_.T, dtype=X.dtype)


def mapped(X: Rows, B: Array) -> Array:
    """Return the rows of XB, centred."""
    return products.centred(products.threaded_dot(X, B))


def row_span(X: Rows) -> tuple[Array, Array]:
    """Rotate n rows of d > n features into at most n coordinates, exactly.

    With the centred rows' inner products XXᵀ = QΛQᵀ, the coordinates are F = QΛ^½ and the
    orthonormal basis is E = XᵀQΛ^−½: distances between the rows are those between rows of F, and
    a metric LLᵀ learned on F is the metric (EL)(EL)ᵀ that would have been learned on X. E is as
    wide as X: what is returned with F is the W of E = XᵀW, and EL = Xᵀ(WL).
    """
    values, Q = matrices.eigh(products.gram(X))
    keep = np.flatnonzero(values > values[-1] * X.shape[0] * np.finfo(np.float64).eps)
    if not len(keep):  # rows that do not differ: one coordinate, always zero
        nothing = np.zeros((X.shape[0], 1))
        return like(nothing, X), like(nothing, X)
    Q = products.take_columns(Q, keep)
    root = like(np.sqrt(values[keep]), Q)
    return like(Q * root, X), like(products.centred(Q) / root, X)
