"""OASIS: an online bilinear similarity, projected once at the end."""

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from .. import products
from .._system import blas_threads_for, require_memory
from .._types import Array, Rows
from ..recovery import positive_part
from ..triplets import Triplets
from ._base import OUT_OF_RANGE, TripletLearner, check_distance

_BLOCK = 128


class OASIS(TripletLearner):
    r"""Online algorithm for scalable image similarity (Chechik, Sharma, Shalit, Bengio 2010).

    Learns a similarity :math:`S_W(a, b) = a^\top W b`, started from the identity, by
    passive-aggressive steps: for a triplet (a, b, c) with loss
    :math:`\ell = \max(0, 1 - S_W(a, b) + S_W(a, c))`,

    .. math:: W \leftarrow W + \tau\, a(b - c)^\top, \qquad
              \tau = \min\Big(C, \frac{\ell}{\|a\|^2\|b - c\|^2}\Big).

    At the end W is made symmetric and projected on the positive semi-definite matrices once, and
    serves as the metric, as in the paper.

    Parameters
    ----------
    aggressiveness : float, default=0.1
        C, the longest step; the authors' recommendation.
    n_components : int or None, default=None
        Rank of the metric; None keeps every positive direction.
    n_triplets : int, default=100_000
        How many triplets to sample from labels.
    sampler : {"active", "neighbors"}, default="active"
        How to sample them. See `dualmetric.triplets`.
    max_epochs : int, default=3
        Passes over the triplets, each in a new random order.
    scale : bool, default=True
        Measure distances relative to their root mean square over the training rows, so that the
        result does not depend on the unit of X. False is the paper's setting.
    distance : {"euclidean", "cosine"}, default="euclidean"
        With "cosine", transformed rows are centred and scaled to length one. Learning is the same.
    random_state : int, RandomState instance or None, default=None
        Seed of sampling and of the order of the triplets.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : ndarray of shape (rank, n_features_in_)
        Its directions, one a row.
    similarity_ : ndarray of shape (n_features_in_, n_features_in_)
        W before the projection; `partial_fit` goes on from it.
    triplets_ : Triplets
        The triplets of the last call.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had names that are all strings.
    """

    similarity_: Array
    _unit: float

    def __init__(
        self,
        aggressiveness: float = 0.1,
        *,
        n_components: int | None = None,
        n_triplets: int = 100_000,
        sampler: str = "active",
        max_epochs: int = 3,
        scale: bool = True,
        distance: str = "euclidean",
        random_state: Any = None,
    ) -> None:
        self.aggressiveness = aggressiveness
        self.n_components = n_components
        self.n_triplets = n_triplets
        self.sampler = sampler
        self.max_epochs = max_epochs
        self.scale = scale
        self.distance = distance
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> Self:
        """Learn the metric from labels or from triplets, starting anew.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Training rows; of a memory map or another source of more than 50,000 rows, as many are
            chosen at random.
        y : array-like of shape (n_samples,), optional
            Their labels; used only where ``triplets`` is None.
        triplets : array-like of shape (n_triplets, 3) or Triplets, optional
            Row numbers of X: (anchor, positive, negative).

        Returns
        -------
        OASIS
            Itself.
        """
        return self._learn(X, y, triplets, start_anew=True)

    def partial_fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> Self:
        """Go on from what was learned before, with further triplets; parameters as in `fit`.

        The unit of length (``scale``), the features and the precision are those of the first call.
        """
        return self._learn(X, y, triplets, start_anew=not hasattr(self, "similarity_"))

    def _learn(self, X: Any, y: Any, triplets: Any, start_anew: bool) -> Self:
        check_distance(self.distance)
        check_scalar(
            self.aggressiveness, "aggressiveness", Real, min_val=0, include_boundaries="neither"
        )
        check_scalar(self.n_triplets, "n_triplets", Integral, min_val=1)
        check_scalar(self.max_epochs, "max_epochs", Integral, min_val=1)
        if self.n_components is not None:
            check_scalar(self.n_components, "n_components", Integral, min_val=1)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        X = self._rows(X, reset=start_anew)
        X, y, triplets, numbers = self._read(X, y, triplets, rng, reset=start_anew)
        X = products.canonical(X)
        d = X.shape[1]
        if start_anew:
            require_memory(
                5 * d * d * X.dtype.itemsize,
                f"the {d:,} × {d:,} similarity matrix of OASIS and its eigenvectors",
                "Use DuRP, which never writes such a matrix.",
            )
            unit = self._length_unit(X)
            W = np.eye(d, dtype=X.dtype)
        else:
            unit, W = self._unit, self.similarity_.copy()
            X = X.astype(W.dtype, copy=False)
        found = self._get_triplets(X, y, triplets, unit, rng)
        with blas_threads_for(d), np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.max_epochs):
                order = rng.permutation(len(found))
                _oasis_epoch(X, found, W, float(self.aggressiveness), unit, order)
        if not np.isfinite(W).all():
            raise ValueError(OUT_OF_RANGE)
        values, vectors = positive_part(0.5 * (W + W.T), self.n_components)
        if len(values) == 0:
            warnings.warn(
                f"the {len(found):,} triplets leave no direction in which the similarity is "
                "positive: the plain distance is kept. Check that labels or triplets belong to "
                "these rows, or lower aggressiveness.",
                UserWarning,
                stacklevel=3,
            )
        # only now: a call that failed leaves what was learned before as it was
        self._unit, self.similarity_ = unit, W
        self.triplets_ = found if numbers is None else Triplets(numbers[found.index])
        return self._store_metric(vectors * np.sqrt(values) if len(values) else None, X)


def _oasis_epoch(
    X: Rows, triplets: Triplets, W: Array, aggressiveness: float, unit: float, order: Array
) -> None:
    """One pass over the triplets; updates W in place.

    The steps are those of the online algorithm, taken a block at a time: within a block the
    similarity of a triplet is its value at the start of the block plus Σ τ_s⟨V_s, V_t⟩ over the
    steps since, so that W is read and written once a block, by matrix products.
    """
    from .. import _kernels

    for first in range(0, len(order), _BLOCK):
        i, j, k = triplets.index[order[first : first + _BLOCK]].T
        anchor = products.to_dense(products.take_rows(X, i)) / np.asarray(unit, X.dtype)
        toward = products.to_dense(products.take_rows(X, j) - products.take_rows(X, k))
        toward /= np.asarray(unit, X.dtype)
        G = (anchor @ anchor.T).astype(np.float64) * (toward @ toward.T)
        if not np.isfinite(G).all():
            raise ValueError(OUT_OF_RANGE)
        steps = np.empty(len(i))
        start = np.einsum("td,td->t", anchor @ W, toward)
        _kernels.passive_aggressive_block(start, G, aggressiveness, steps)
        moved = np.flatnonzero(steps)
        if len(moved):
            W += anchor[moved].T @ (steps[moved, None].astype(X.dtype) * toward[moved])
