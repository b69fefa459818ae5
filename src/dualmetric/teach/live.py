"""The metric of the moment, and the nearest rows under it.

`Dense` is for rows with up to 2,000 features. There M = M₀ + Δ is written out, and follows each
judgement by the comparisons whose dual variables moved. Ranking all rows z for a query q,

    d²(q, z) = zᵀMz − 2·zᵀMq + qᵀMq,

is one pass over the rows for the middle term. The first does not depend on the query, but changes
with M, and computing it again for all rows takes as long as hundreds of passes. So it is kept, and
on many rows only the leading directions of its change are added at each step. The nearest rows
found with it are then ranked again exactly.

`Wide` is for all other rows: the metric is rebuilt as a fit would, and applied to all rows.
"""

from typing import Any

import numpy as np
from scipy.linalg import eigh, lapack
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from .._arrays import ops
from .._arrays.system import single_blas_thread
from .._types import Array, Matrix
from ..metric import Metric
from ..settling import Updated
from ..updating import Base

DENSE_LIMIT = 2000
"""Features up to which M is written out."""

EXACT_WORK = 5e8
"""Multiplications that may be spent on zᵀMz of all rows at each step."""

SHORTLIST = 300
"""Rows that are ranked again exactly, where zᵀMz is an approximation."""

_STEPS = 3
_DIRECTIONS = 3  # of the change of M that reach zᵀMz at each step
_SMALL = 300  # features up to which all eigenvalues are computed
_MOVED = 1e-4  # share of the largest step: dual variables that moved less wait


class Dense:
    """M written out; see the module."""

    def __init__(self, rows: Matrix, base: Base) -> None:
        assert base.prior is not None
        self.Z, self.base = np.ascontiguousarray(rows), base
        n, d = self.Z.shape
        self.omega = base.prior.omega
        self.V, self.used = np.zeros((d, d)), np.zeros(0)  # Σ β_t A_t, and these β
        self.M = self.omega**2 * np.eye(d)
        self.plain = np.square(ops.row_lengths(self.Z)).astype(np.float64) * self.omega**2
        self.lengths = self.plain.copy()  # zᵀMz
        self.held = self.M.copy()  # the M that these belong to
        self.directions = np.ones((d, 0))  # of the last change
        self.is_exact = n * d * d <= EXACT_WORK

    def follow(self, updated: Updated, changed: bool = False) -> None:
        """Take over new dual variables; ``changed`` where comparisons were removed."""
        with single_blas_thread():  # threads would slow down products this small
            self._follow(updated, changed)

    def _follow(self, updated: Updated, changed: bool) -> None:
        kept = updated.kept
        if changed:
            self.V[:] = 0.0
            self.used = np.zeros(0)
        old = np.append(self.used, np.zeros(len(kept) - len(self.used)))
        step = kept.beta - old
        moved = np.flatnonzero(np.abs(step) > _MOVED * np.abs(step).max(initial=0.0))
        if len(moved):
            u, v = ops.differences(kept.rows, kept.index[moved])
            half = u.T.astype(np.float64) @ (0.5 * step[moved, None] * v)
            self.V += half + half.T
            old[moved] = kept.beta[moved]
        self.used = old
        scale = 0.0
        if len(kept):
            assert self.base.prior is not None
            unit = self.base.unit**4 * self.base.prior.scale
            scale = 1.0 / (updated.reg * len(kept) * unit)
        self.M = positive(scale * self.V, self.omega**2)
        if self.is_exact:
            M = self.M.astype(self.Z.dtype)
            self.lengths = np.einsum("nd,nd->n", self.Z @ M, self.Z).astype(np.float64)
            self.held = self.M

    def snapshot(self) -> Array:
        """What `distances` can later compare with."""
        return self.M.copy()

    def distances(self, query: int, rows: Array, M: Any = None) -> Array:
        """Squared distances from one row to others; under the plain distance where M is 0."""
        apart = self.Z[rows] - self.Z[query]
        if M is None:
            M = self.M
        if np.ndim(M) == 0:
            return self.omega**2 * np.square(apart, dtype=np.float64).sum(axis=1)
        return self._squares(apart, M)

    def _squares(self, apart: Array, M: Array) -> Array:
        """δᵀMδ for each row δ."""
        with single_blas_thread():
            found = np.einsum("nd,nd->n", apart @ M.astype(apart.dtype), apart)
        return found.astype(np.float64)

    def pair_distances(self, pairs: Array) -> Array:
        """Squared distance of each pair of rows."""
        return self._squares(self.Z[pairs[:, 0]] - self.Z[pairs[:, 1]], self.M)

    def between(self, a: Array, b: Array) -> Array:
        """Squared distances of each row of one list to each of another."""
        with single_blas_thread():
            A, B, M = self.Z[a], self.Z[b], self.M.astype(self.Z.dtype)
            image = A @ M
            lengths = np.einsum("nd,nd->n", image, A)[:, None] + np.einsum("nd,nd->n", B @ M, B)
            return np.maximum(lengths - 2.0 * (image @ B.T), 0.0).astype(np.float64)

    def mapped(self, rows: Array) -> Array:
        """Rows between which the Euclidean distance is the metric."""
        values, vectors = eigh(self.M)
        part: Array = self.Z[rows] @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return part

    def nearest(self, query: int, k: int) -> tuple[Array, Array]:
        """The k nearest rows, the query itself left out, and their squared distances."""
        values: Any = ()
        with single_blas_thread():
            columns = [self.M @ self.Z[query]]
            if not self.is_exact:
                values, vectors = leading_change(self.M - self.held, self.directions)
                self.directions = vectors
                self.held = self.held + (vectors * values) @ vectors.T
                columns += list(vectors.T)
        products = ops.row_dots(self.Z, np.array(columns))
        for number, value in enumerate(values, start=1):
            self.lengths += value * np.square(products[:, number], dtype=np.float64)
        squares = self.lengths - 2.0 * products[:, 0]
        few = _smallest(squares, query, k if self.is_exact else max(SHORTLIST, 3 * k))
        exact = self.distances(query, few)
        order = np.lexsort((few, exact))[:k]
        return few[order], exact[order]

    def nearest_plain(self, query: int, k: int) -> tuple[Array, Array]:
        """The same under the plain distance."""
        squares = self.plain - 2.0 * self.omega**2 * (self.Z @ self.Z[query])
        few = _smallest(squares, query, k)
        return few, self.distances(query, few, 0)


def positive(delta: Array, plain: float) -> Array:
    """The positive part of plain·I + Δ: the few negative eigenvalues are taken out."""
    d = len(delta)
    M = delta + plain * np.eye(d)
    if not delta.any():
        return M
    _, failed = lapack.dpotrf(M.T, clean=0)  # M is symmetric: its transpose needs no copy first
    if not failed:
        return M  # there are none: the usual case, and the quickest to see
    if d <= _SMALL:
        values, vectors = eigh(M, subset_by_value=(-np.inf, 0.0))
        return M - (vectors * values) @ vectors.T
    wanted = 8
    while wanted < d // 4:
        try:
            values, vectors = eigsh(M, k=wanted, which="SA", v0=np.ones(d), tol=1e-4)
        except ArpackNoConvergence:
            break
        negative = values < 0.0
        if not negative.all():
            part = vectors[:, negative]
            return M - (part * values[negative]) @ part.T
        wanted *= 4
    values, vectors = eigh(M)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def leading_change(change: Array, start: Array) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric matrix that are large in magnitude, and their eigenvectors.

    Found by a few steps of block iteration, from the vectors of the step before. They need not be
    exact: what they leave of the change is looked at again in the next step.
    """
    d = len(change)
    if not change.any():
        return np.zeros(0), np.ones((d, 0))
    more = np.random.default_rng(0).standard_normal((d, min(2 * _DIRECTIONS, d)))
    block = np.hstack([start, more])
    for _ in range(_STEPS):
        block, _ = np.linalg.qr(change @ block)
    values, turn = np.linalg.eigh(block.T @ change @ block)
    largest = np.argsort(-np.abs(values))[:_DIRECTIONS]
    return values[largest], block @ turn[:, largest]


def _smallest(squares: Array, query: int, k: int) -> Array:
    """Places of the k smallest numbers, the smallest first; the query is left out."""
    k = min(k + 1, len(squares))
    places = np.argpartition(squares, k - 1)[:k]
    places = places[np.lexsort((places, squares[places]))]
    return places[places != query][: k - 1]


class Wide:
    """The metric as a fit rebuilds it, applied to all rows at each step."""

    def __init__(self, X: Matrix, base: Base, rebuild: Any) -> None:
        self.X, self.rebuild = X, rebuild
        self.plain: Metric = base.first
        self.metric: Metric = base.first

    def follow(self, updated: Updated, changed: bool = False) -> None:
        """Take over new dual variables."""
        self.metric = self.rebuild(updated)

    def snapshot(self) -> Metric:
        """What `distances` can later compare with."""
        return self.metric

    def distances(self, query: int, rows: Array, M: Any = None) -> Array:
        """Squared distances from one row to others; under the plain distance where M is 0."""
        metric = self.metric if M is None else M if isinstance(M, Metric) else self.plain
        asked = ops.take_rows(self.X, np.array([query]))
        found = metric.pairwise(asked, ops.take_rows(self.X, np.asarray(rows)))[0]
        return np.square(found.astype(np.float64))

    def pair_distances(self, pairs: Array) -> Array:
        """Squared distance of each pair of rows."""
        a, b = (ops.take_rows(self.X, rows) for rows in pairs.T)
        return np.square(self.metric.distance(a, b).astype(np.float64))

    def between(self, a: Array, b: Array) -> Array:
        """Squared distances of each row of one list to each of another."""
        both = (ops.take_rows(self.X, rows) for rows in (a, b))
        return np.square(self.metric.pairwise(*both).astype(np.float64))

    def mapped(self, rows: Array) -> Array:
        """Rows between which the Euclidean distance is the metric."""
        return np.asarray(self.metric.transform(ops.take_rows(self.X, rows)))

    def nearest(self, query: int, k: int) -> tuple[Array, Array]:
        """The k nearest rows, the query itself left out, and their squared distances."""
        return self._nearest(self.metric, query, k)

    def nearest_plain(self, query: int, k: int) -> tuple[Array, Array]:
        """The same under the plain distance."""
        return self._nearest(self.plain, query, k)

    def _nearest(self, metric: Metric, query: int, k: int) -> tuple[Array, Array]:
        asked = ops.take_rows(self.X, np.array([query]))
        squares = np.square(metric.pairwise(asked, self.X)[0].astype(np.float64))
        few = _smallest(squares, query, k)
        return few, squares[few]
