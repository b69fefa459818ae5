"""OASIS: an online bilinear similarity, projected once at the end."""

from typing import Any, Self

import numpy as np

from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._arrays.system import blas_threads_for, require_memory
from .._options import (
    distance_option,
    max_rows_option,
    n_components_option,
    option,
    random_state_option,
    scale_option,
    with_options,
)
from .._types import Array, Matrix
from .._validation import warn
from ..problem import LiftedRows, length_unit
from ..recovery import positive_part
from ..solver import hashes_of, random_order
from ..supervision import Comparisons
from ..supervision.sampling import n_triplets_option, sampler_option
from .base import LearnedMetricEstimator, Training

_BLOCK = 128


@with_options
class OASIS(LearnedMetricEstimator):
    r"""Online algorithm for scalable image similarity (Chechik, Sharma, Shalit, Bengio 2010).

    Learns a similarity :math:`S_W(a, b) = a^\top W b`, started from the identity, by
    passive-aggressive steps: for a triplet (a, b, c) with loss
    :math:`\ell = \max(0, 1 - S_W(a, b) + S_W(a, c))`,

    .. math:: W \leftarrow W + \tau\, a(b - c)^\top, \qquad
              \tau = \min\Big(C, \frac{\ell}{\|a\|^2\|b - c\|^2}\Big).

    At the end W is made symmetric and projected once onto the positive semi-definite matrices, and
    is used as the metric, as in the paper. In the same way, a comparison (a, b, c, d) requires
    S_W(a, b) to exceed S_W(c, d) by its margin, with steps of at most C times its weight.

    {sections}
    similarity_ : ndarray of shape (n_features_in_, n_features_in_)
        W before the projection; `partial_fit` continues from it.
    unit_ : float
        The unit of length; `partial_fit` keeps it.
    comparisons_ : Comparisons
        The comparisons of the last call, over the rows of X.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualmetric import OASIS
    >>> X, y = load_iris(return_X_y=True)
    >>> OASIS(n_components=2, n_triplets=1000, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    aggressiveness: float = option(
        "float",
        default=0.1,
        help="C, the longest step. The default is the authors' recommendation.",
        kw_only=False,
        low=0,
        above=True,
    )
    n_components: int | None = n_components_option("None keeps every positive direction.")
    n_triplets: int = n_triplets_option()
    sampler: str = sampler_option()
    max_rows: int | None = max_rows_option()
    max_epochs: int = option(
        "int", default=3, help="Passes over the comparisons, each in a new random order.", low=1
    )
    scale: bool = scale_option()
    distance: str = distance_option()
    random_state: Any = random_state_option("Seed of sampling and of the order of comparisons.")

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue from what was learned before, with further comparisons.

        The unit of length (``scale``), the features and the precision are those of the first call.

        Parameters
        ----------
        X, y
            As in `fit`: rows with the same features, and what is known about them.

        Returns
        -------
        self
            The fitted estimator.
        """
        if not hasattr(self, "similarity_"):
            return self.fit(X, y)
        return self._fit(X, y, known=self.metric_, from_identity=False)

    def _learn(
        self, training: Training, rng: np.random.Generator, from_identity: bool = True
    ) -> dict[str, Any]:
        rows = ops.canonical(to_numpy(training.X))
        d = rows.shape[1]
        if from_identity:
            require_memory(
                5 * d * d * rows.dtype.itemsize,
                f"the {d:,} × {d:,} similarity matrix of OASIS and its eigenvectors",
                "Use DuRP, which never writes such a matrix.",
            )
            unit = length_unit(rows, self.scale)
            W = np.eye(d, dtype=rows.dtype)
        else:
            unit, W = self.unit_, self.similarity_.copy()
            rows = rows.astype(W.dtype, copy=False)
        found = training.supervision.compare(rows, self.n_triplets, self.sampler, unit**2, rng)
        hashes = hashes_of(found.index)
        with blas_threads_for(d), np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.max_epochs):
                order = found._part(random_order(hashes, rng))
                _oasis_epoch(rows, order, W, float(self.aggressiveness), unit)
        if not np.isfinite(W).all():
            raise ValueError(ops.OUT_OF_RANGE)
        positive = positive_part(0.5 * (W + W.T), self.n_components)
        factor: Array | None = positive.factor()
        if not len(positive.values):
            warn(
                f"no direction has a positive similarity after these {len(found):,} comparisons, "
                "so the plain distance is kept. Check that labels or triplets belong to these "
                "rows, or lower aggressiveness.",
            )
            factor = None
        return {
            "metric_": self._make_metric(factor, training, LiftedRows(rows)),
            "unit_": unit,
            "similarity_": W,
            "comparisons_": Comparisons(training.numbers[found.index], found.margin, found.weight),
        }


def _oasis_epoch(
    X: Matrix, comparisons: Comparisons, W: Array, aggressiveness: float, unit: float
) -> None:
    """One pass over the comparisons; updates W in place.

    The steps are those of the online algorithm, taken a block at a time: within a block the
    similarity of a comparison is its value at the start of the block plus Σ τ_s⟨V_s, V_t⟩ over the
    steps since, V = x_a x_bᵀ − x_c x_dᵀ, so that W is read and written once per block, by matrix
    products.
    """
    from .._arrays import kernels

    limits = aggressiveness * comparisons.weight
    for first in range(0, len(comparisons), _BLOCK):
        block = slice(first, first + _BLOCK)
        part = comparisons.index[block]
        G, start, update = _block_of_updates(X, part, W, np.asarray(unit, X.dtype))
        if not np.isfinite(G).all():
            raise ValueError(ops.OUT_OF_RANGE)
        steps = np.empty(len(part))
        kernels.passive_aggressive_block(start, G, comparisons.margin[block], limits[block], steps)
        moved = np.flatnonzero(steps)
        for left, right, sign in update:
            if len(moved):
                scaled = (sign * steps[moved, None]).astype(X.dtype) * right[moved]
                W += left[moved].T @ scaled


def _block_of_updates(
    X: Matrix, index: Array, W: Array, unit: Array
) -> tuple[Array, Array, list[tuple[Array, Array, float]]]:
    """⟨V_s, V_t⟩, ⟨W, V_t⟩, and V_t as products of rows, for a block of comparisons."""
    a, b, c, d = index.T
    if (a == c).all():  # triplets: V = x_a(x_b − x_d)ᵀ, a single product
        anchor = ops.to_dense(ops.take_rows(X, a)) / unit
        toward = ops.to_dense(ops.take_rows(X, b) - ops.take_rows(X, d)) / unit
        pairs = [(anchor, toward, 1.0)]
    else:
        near = [ops.to_dense(ops.take_rows(X, part)) / unit for part in (a, b)]
        far = [ops.to_dense(ops.take_rows(X, part)) / unit for part in (c, d)]
        pairs = [(near[0], near[1], 1.0), (far[0], far[1], -1.0)]
    G = np.zeros((len(index), len(index)))
    start = np.zeros(len(index))
    for left, right, sign in pairs:
        start += sign * np.einsum("td,td->t", left @ W, right)
        for other_left, other_right, other_sign in pairs:
            gram = (left @ other_left.T).astype(np.float64) * (right @ other_right.T)
            G += sign * other_sign * gram
    return G, start, pairs
