"""Leading eigenvectors of Av = θSv and solutions of Sv = b, from products alone.

A vector v = Fa is held by its coefficients a together with Ga, G = FᵀF, so that inner products
v₁ᵀv₂ = a₁ᵀ(Ga₂) need no product with F. F is either the identity, or Xᵀ: vectors in the span of n
rows of d features, n well below d, are then arrays of n numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from .._types import Array
from . import ops
from .namespace import like, precision, to_numpy
from .system import blas_threads_for

OVERSAMPLING = 10
_BLOCKS = 3  # held at most before the iteration starts again from its best vectors
_MAX_PRODUCTS = 60
_INNER_STEPS = 20  # of conjugate gradients at most, in search of a direction
_ROUNDING = 100.0  # residuals below this many eps of the largest eigenvalue are rounding
_DOUBT = 3.0  # or until at most three times what is known of rᵀS⁻¹r can be missing


@dataclass(frozen=True, eq=False)
class Vectors:
    """Columns v = Fa: ``coef`` is a, ``dual`` is Ga; the same array where F is the identity."""

    coef: Array
    dual: Array

    def __matmul__(self, turn: Array) -> Self:
        return self.both(lambda part: ops.threaded_dot(part, turn))

    def __mul__(self, factors: Array) -> Self:
        return self.both(lambda part: part * factors)

    def minus(self, other: "Vectors", turn: Array) -> Self:
        """These columns minus ``other @ turn``."""

        def rest(part: Array, known: Array) -> Array:
            return part - ops.threaded_dot(known, turn)

        return self.both(rest, other)

    def combined(self, own: Any, other: "Vectors", factors: Any) -> Self:
        """These columns times ``own``, plus ``other * factors``; in the memory of these."""
        return self.both(lambda A, B: ops.combined(A, own, B, factors), other)

    def squares(self) -> Array:
        """‖v‖² of each column, in float64; a little below zero at most by rounding."""
        return ops.column_dots(self.coef, self.dual)

    def both(self, change: Callable[..., Array], *others: "Vectors") -> Self:
        """Apply ``change`` to a and to Ga; only once if they are the same array."""
        coef = change(self.coef, *(other.coef for other in others))
        if self.dual is self.coef:
            return type(self)(coef, coef)
        return type(self)(coef, change(self.dual, *(other.dual for other in others)))


@dataclass(frozen=True, eq=False)
class Pencil:
    """Symmetric A and positive definite S, as functions of vectors held by their coefficients."""

    gram: Callable[[Array], Array] | None  # ``gram(a)`` is Ga; None where F is the identity
    A: Callable[[Vectors], Array]  # the coefficients of Av for `Vectors` v
    S: Callable[[Vectors], Array] | None = None  # those of Sv; None for the identity
    floor: float = 1.0  # a number below which S has no eigenvalue
    # ``solve(b)`` is S⁻¹b where F is the identity; None where conjugate gradients must do
    solve: Callable[[Array], Array] | None = None

    def vectors(self, coef: Array) -> Vectors:
        """Vectors of the given coefficients."""
        return Vectors(coef, coef if self.gram is None else self.gram(coef))


class Leading(NamedTuple):
    """What `leading_pairs` finds."""

    values: Array  # (k,): the largest positive eigenvalues, in descending order
    coef: Array  # (n_coefficients, k): coefficients of their vectors
    # largest √(rᵀS⁻¹r), r = Av − θSv, over these and the next, relative to the largest |θ|; an
    # upper bound
    residual: float


def conjugate_gradients(
    S: Callable[[Vectors], Array],
    gram: Callable[[Array], Array] | None,
    b: Vectors,
    enough: Callable[[Array, Array], bool],
    max_iter: int,
) -> tuple[Vectors, Array, Array]:
    """S⁻¹b by conjugate gradients from zero, until ``enough(left, energy)`` or ``max_iter`` steps.

    Returns the solution y, and for each column ``left``, the squared length of its residual, and
    ``energy``, which is bᵀy.
    """
    zero, one = (like(np.full(1, value), b.coef) for value in (0.0, 1.0))
    solution, residual, direction = b * zero, b * one, b * one  # they change in place
    left = np.maximum(b.squares(), 0.0)
    energy = np.zeros_like(left)
    for _ in range(max_iter):
        if enough(left, energy):
            break
        image = S(direction)
        curvature = ops.column_dots(direction.dual, image)
        step = np.divide(left, curvature, out=np.zeros_like(left), where=curvature > 0)
        energy += step * left
        step = like(step, image)
        moved = Vectors(image, image if gram is None else gram(image))
        solution = solution.combined(1.0, direction, step)
        residual = residual.combined(1.0, moved, -step)
        new = np.maximum(residual.squares(), 0.0)
        ratio = np.divide(new, left, out=np.zeros_like(new), where=left > 0)
        direction = direction.combined(like(ratio, image), residual, 1.0)
        left = new
    return solution, left, energy


def leading_pairs(
    pencil: Pencil, rank: int, start: Array, tolerance: float, *, both_ends: bool = False
) -> Leading:
    """Largest positive eigenvalues θ of Av = θSv, and their vectors with vᵀSv = 1.

    With ``both_ends``, the eigenvalues that are largest in magnitude, of either sign.

    This is a block Krylov method. The basis grows by S⁻¹r for the residuals r = Av − θSv of the
    leading Ritz vectors, made S-orthogonal to the basis; a few steps of conjugate gradients are
    enough to find S⁻¹r. After three blocks the method restarts from the Ritz vectors. It ends when
    √(rᵀS⁻¹r), which is also how far θ can be from an eigenvalue, is at most ``tolerance`` times the
    largest |θ| for every vector, or after 60 products.

    For y from conjugate gradients with residual r′, rᵀS⁻¹r = rᵀy + r′ᵀS⁻¹r′, and the last term is
    at most ‖r′‖² over the smallest eigenvalue of S, so the value tested is never too small.

    ``start`` holds the coefficients of the first block: ``rank`` and a few more columns. Fewer
    pairs are returned where fewer are positive.
    """
    size_of_space, width = start.shape
    dtype = precision(start)
    Q, SQ = _orthonormal(pencil, pencil.vectors(start), None)
    AQ = pencil.A(Q)
    if not ops.column_dots(AQ, AQ).any():  # A is zero
        return Leading(np.zeros(0, dtype), like(np.zeros((size_of_space, 0)), start), 0.0)
    for n_products in range(1, _MAX_PRODUCTS + 1):
        values, turn = _eigh(ops.threaded_tdot(Q.dual, AQ))
        size = np.abs(values).max()
        sizes = np.abs(values) if both_ends else values
        lead = np.argsort(sizes)[::-1][:width]
        theta, turn = values[lead].astype(dtype), like(turn[:, lead], start)
        image, stretched = (ops.threaded_dot(part, turn) for part in (AQ, SQ))
        residual = pencil.vectors(image - stretched * like(theta, start))
        step, squares = _unstretch(pencil, residual)
        clear = sizes[lead[:rank]] > 10 * np.finfo(dtype).eps * size
        n_positive = np.count_nonzero(clear)
        # the first that is not positive too: it may be about to become so
        worst = np.sqrt(squares[: min(rank, n_positive + 1)].max()) / size
        n_basis = Q.coef.shape[1]
        if worst <= tolerance or n_basis == size_of_space or n_products == _MAX_PRODUCTS:
            break
        if n_basis > (_BLOCKS - 1) * width:
            Q, AQ, SQ = Q @ turn, image, stretched
            turn = like(np.eye(width), start)
        # what has converged to rounding holds no new direction
        step = step * like(np.sqrt(squares) > _ROUNDING * np.finfo(dtype).eps * size, start)
        room = min(size_of_space - Q.coef.shape[1], width)
        step = step.both(lambda part, room=room: part[:, :room])
        grown, stretched = _orthonormal(pencil, step, (Q, SQ))
        if grown.coef.shape[1] == 0:  # the basis is closed under the product
            break
        Q, AQ = Q.both(ops.beside, grown), ops.beside(AQ, pencil.A(grown))
        SQ = Q.coef if pencil.S is None else ops.beside(SQ, stretched)
    return Leading(theta[:n_positive], ops.threaded_dot(Q.coef, turn[:, :n_positive]), float(worst))


def _unstretch(pencil: Pencil, r: Vectors) -> tuple[Vectors, Array]:
    """S⁻¹r, roughly, and an upper bound of rᵀS⁻¹r for each column."""
    if pencil.S is None:
        return r, np.maximum(r.squares(), 0.0)
    if pencil.solve is not None:
        step = pencil.vectors(pencil.solve(r.coef))
        return step, np.maximum(ops.column_dots(step.coef, r.dual), 0.0)
    step, left, energy = conjugate_gradients(
        pencil.S,
        pencil.gram,
        r,
        lambda left, energy: bool((left <= _DOUBT * pencil.floor * energy).all()),
        _INNER_STEPS,
    )
    return step, energy + left / pencil.floor


def _eigh(T: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a small matrix, in float64 and on the host."""
    small = to_numpy(T).astype(np.float64)
    with blas_threads_for(len(small)):
        return np.linalg.eigh(small)


def _orthonormal(
    pencil: Pencil, W: Vectors, basis: tuple[Vectors, Array] | None
) -> tuple[Vectors, Array]:
    """Vectors V that span W without the basis Q, with VᵀSV = I, and the coefficients of SV.

    The eigenvectors of WᵀSW are used: they cost two matrix products, and a QR decomposition of a
    tall matrix is slow. This is done twice, because rounding leaves some overlap the first time.
    Columns that vanish are dropped.
    """
    if basis is not None:
        W = W.minus(basis[0], ops.threaded_tdot(basis[1], W.dual))
    limits = np.finfo(precision(W.coef))
    squares = W.squares()
    # aᵀ(Ga) of a vector that is all rounding may be of any sign
    sizes = ops.column_dots(W.coef, W.coef) * ops.column_dots(W.dual, W.dual)
    scale = np.zeros_like(squares)
    clear = squares > 10 * limits.eps * np.sqrt(sizes)
    scale[clear] = 1.0 / np.sqrt(squares[clear])
    W = W * like(scale, W.coef)
    SW = W.coef if pencil.S is None else pencil.S(W)
    for again in (True, False):
        values, vectors = _eigh(ops.threaded_tdot(W.dual, SW))
        # the second time all have length one, except for rounding errors along the basis
        keep = values > (values[-1:] * len(values) * limits.eps if again else 0.5)
        turn = like(vectors[:, keep] / np.sqrt(values[keep]), SW)
        W, SW = W @ turn, ops.threaded_dot(SW, turn)
        if again and basis is not None:
            overlap = ops.threaded_tdot(basis[1], W.dual)
            W, SW = W.minus(basis[0], overlap), SW - ops.threaded_dot(basis[1], overlap)
        if pencil.S is None:
            SW = W.coef
    return W, SW
