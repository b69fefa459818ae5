"""From dual variables to the metric: M̂ = M₀ + 1/(λN)·Σ β_t A_t (6) and its positive part.

Σ β_t A_t = XᵀCX with C the comparison graph, sparse and symmetric. Where the d × d matrix is small
it is written out and decomposed; where it is not, its leading eigenvectors are found from products
with X and C alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ._arrays import eigen, ops
from ._arrays.krylov import OVERSAMPLING, Pencil, Vectors, leading_pairs
from ._arrays.namespace import like, precision
from ._types import Array, Matrix
from ._validation import warn
from .scatter import DENSE_LIMIT, Scatter

TOLERANCE = 0.02
"""Largest residual of a direction found without the matrix, relative to the largest eigenvalue.

On 20 Newsgroups ranking is the same from 0.06 downwards, and each further digit doubles the work.
"""

DEFAULT_WIDE_RANK = 50
"""Directions that are kept if the matrix is not written out and n_components is None."""


class Directions(NamedTuple):
    """Eigenvalues and eigenvectors of the metric."""

    values: Array  # (k,): Eigenvalues w, in descending order; on the host
    vectors: Matrix  # (d, k): Eigenvectors v of Aᵥ = wSv, with vᵀSv = 1
    # the largest residual of a direction, relative to the largest eigenvalue; 0 where the matrix
    # was decomposed
    residual: float

    def lengths(self, rank: int | None = None, power: float = 0.5) -> Array:
        """√w₁·(w/w₁)^p: the length given to each of the leading directions; √w for p = ½."""
        values = self.values[:rank]
        largest = values[:1].astype(np.float64)
        return np.sqrt(largest) * (values / largest) ** power

    def factor(self, power: float = 0.5) -> Matrix:
        """L, with directions as long as `lengths` says."""
        return self.vectors * like(self.lengths(power=power), self.vectors)


def weighted_graph(index: Array, weight: Array, X: Matrix) -> Matrix:
    """The graph C of the comparisons whose weight is not zero, on the device of X."""
    used = np.flatnonzero(weight)
    C = ops.comparison_graph(index[used], weight[used].astype(precision(X)), X.shape[0])
    return ops.placed(C, X)


def recover(
    X: Matrix,
    C: Matrix,
    rank: int | None,
    rng: np.random.Generator,
    *,
    scatter: Scatter | None = None,
    tolerance: float = TOLERANCE,
    written_up_to: int | None = None,
) -> Directions:
    """Positive eigenvalues of XᵀCXv = wSv, largest first, cut to ``rank``.

    C is the result of `weighted_graph`. Without a scatter, S is the identity. Up to
    ``written_up_to`` features the matrix is written out, and a rank of None keeps all positive
    directions. Above, a rank of None keeps 50, and directions are found by an iteration that starts
    from ``rng`` and ends at ``tolerance``.
    """
    if X.shape[1] <= (DENSE_LIMIT if written_up_to is None else written_up_to):
        return positive_part(graph_matrix(X, C), rank, None if scatter is None else scatter.matrix)
    return leading_part(X, C, rank or DEFAULT_WIDE_RANK, rng, scatter, tolerance)


def graph_matrix(X: Matrix, C: Matrix) -> Matrix:
    """XᵀCX, its lower triangle written out (d × d)."""
    return ops.quadratic(X, lambda block: ops.threaded_dot(C, block))


def positive_part(A: Matrix, rank: int | None = None, S: Matrix | None = None) -> Directions:
    """Positive eigenvalues of a symmetric matrix, largest first, and their eigenvectors.

    VwVᵀ is the positive semi-definite matrix nearest to A in Frobenius norm, or the nearest of
    the given rank; with S, the pairs solve Av = wSv. Only lower triangles are read.
    """
    values, vectors, largest = eigen.largest_eigenpairs(A, rank, S)
    # below this an eigenvalue is rounding; the largest in magnitude may not be among those found
    size = max(np.abs(values).max(), largest)
    floor = size * np.sqrt(A.shape[0]) * np.finfo(precision(A)).eps
    keep = np.flatnonzero(values > floor)[::-1]
    return Directions(values[keep], ops.take_columns(vectors, keep), 0.0)


def leading_part(
    X: Matrix,
    C: Matrix,
    rank: int,
    rng: np.random.Generator,
    scatter: Scatter | None = None,
    tolerance: float = TOLERANCE,
    more: Callable[[Matrix], Matrix] | None = None,
    *,
    both_ends: bool = False,
) -> Directions:
    """Largest positive eigenvalues of XᵀCX + B and their vectors, from products alone.

    ``more(v)`` is Bv for a symmetric B. With ``both_ends``, eigenvalues are those that are largest
    in magnitude, of either sign. Where the residual ends above the tolerance, a warning says so.
    See `krylov.leading_pairs`, which finds the pairs.
    """
    n, d = X.shape
    back = ops.transposed(X)
    span_dot = None if scatter is None else scatter.dot_in_span
    # two arrays hold a vector in the span of the rows
    in_span = 2 * n < d and more is None and (scatter is None or span_dot is not None)

    def rows_of(B: Matrix) -> Matrix:
        # C·1 = 0: one row is subtracted from all, to keep digits where their mean is large
        rows = ops.threaded_dot(X, B)
        return rows - rows[:1, :]

    def product(v: Vectors) -> Matrix:
        image = ops.threaded_dot(back, ops.minus_mean(ops.threaded_dot(C, rows_of(v.coef))))
        return image if more is None else image + more(v.coef)

    # XᵀCX has at most n directions, but B may have more
    width = min(rank + OVERSAMPLING, n if more is None else d, d)
    # used again and again: each time, new memory of this size would take as long as the product
    wide = np.empty(d * width if in_span else 0, dtype=precision(X))

    def gram(a: Matrix) -> Matrix:
        image = wide[: d * a.shape[1]].reshape(d, a.shape[1])
        return rows_of(ops.threaded_dot(back, ops.minus_mean(a), out=image))

    floor = 1.0 if scatter is None else scatter.floor
    if in_span:
        pencil = Pencil(
            gram=gram,
            A=lambda v: ops.threaded_dot(C, v.dual),
            S=None if span_dot is None else lambda v: span_dot(v.coef, v.dual),
            floor=floor,
        )
    else:
        pencil = Pencil(
            gram=None,
            A=product,
            S=None if scatter is None else lambda v: scatter.dot(v.coef),
            floor=floor,
            solve=None if scatter is None else scatter.solve,
        )
    start = like(rng.standard_normal((n if in_span else d, width)), ops.column_means(X))
    if in_span:
        start = ops.minus_mean(start)  # coefficients add up to zero, as those of Av and Sv do
    if scatter is not None:
        # solving with S is expensive, so start close to the solution
        start = pencil.A(pencil.vectors(start))
    values, coef, residual = leading_pairs(pencil, rank, start, tolerance, both_ends=both_ends)
    if residual > tolerance:
        warn(
            f"the {rank} directions of the metric have a residual of {residual:.2g} of the "
            f"largest eigenvalue, above eigen_tol={tolerance:g}: set n_components to keep fewer",
            ConvergenceWarning,
        )
    vectors = ops.threaded_dot(back, coef) if in_span else coef
    return Directions(values, ops.to_dense(vectors), residual)


def both_ends(
    X: Matrix,
    C: Matrix,
    rank: int,
    rng: np.random.Generator,
    tolerance: float,
    more: Callable[[Matrix], Matrix] | None = None,
) -> Directions:
    """Eigenvalues of XᵀCX + B that are largest in magnitude, descending, and their eigenvectors."""
    found = leading_part(X, C, rank, rng, None, tolerance, more, both_ends=True)
    order = np.argsort(-found.values, kind="stable")
    vectors = ops.take_columns(found.vectors, order)
    return Directions(found.values[order], vectors, found.residual)
