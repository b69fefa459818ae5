"""LMNN: large margin nearest neighbours, by a quasi-Newton method with exact gradients."""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state, check_scalar

from .. import products, spaces
from .._system import run_blocks
from .._types import Array
from .._validation import check_labels
from ._base import LinearMetricLearner

_BLOCK_BYTES = 2**25


class LMNN(LinearMetricLearner):
    r"""Large margin nearest neighbour (Weinberger and Saul 2009).

    Each row has ``n_neighbors`` target neighbours: its nearest rows of the same class, found once
    in the Euclidean distance. The factor L minimises

    .. math:: (1 - \mu)\sum_{i,\, j \in T(i)} D_{ij} + \mu \sum_{i,\, j \in T(i)}
              \sum_{l:\, y_l \ne y_i} \max(0,\, 1 + D_{ij} - D_{il}),
              \qquad D_{ij} = \|L^\top(x_i - x_j)\|^2,

    which pulls target neighbours near and pushes impostors, the rows of other classes that are
    nearer than a target neighbour plus one, away. Every evaluation looks at all pairs of rows, a
    block at a time, so that impostors are always those of the present metric and the gradient is
    exact; L-BFGS never lets the objective rise.

    Parameters
    ----------
    n_components : int or None, default=None
        Principal components to reduce X to first, as in the paper; None keeps the features.
    n_neighbors : int, default=3
        Target neighbours of each row.
    push : float, default=0.5
        μ, the weight of the push term.
    max_iter : int, default=100
        Iterations of L-BFGS at most.
    tol : float, default=1e-6
        Stop when an iteration lowers the objective by less than this part of it.
    random_state : int, RandomState instance or None, default=None
        Seed of the principal components, where they are found by a randomised method.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : ndarray of shape (rank, n_features_in_)
        Its directions, one a row.
    objective_ : float
        The objective at the end.
    history_ : list of float
        The objective at the start and after each iteration.
    n_iter_ : int
        Iterations run.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had names that are all strings.
    """

    scale = True  # L absorbs the unit of X: only where the search starts depends on it

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        push: float = 0.5,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push = push
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Their labels, of any type.

        Returns
        -------
        LMNN
            Itself.
        """
        self._check_parameters()
        X = self._check_X(X, reset=True)
        if y is None:
            raise ValueError("LMNN requires y to be passed, but the target y is None")
        labels = np.unique(check_labels(y, X.shape[0]), return_inverse=True)[1]
        unit = self._length_unit(X)
        basis = None
        if self.n_components is not None:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            basis = spaces.principal_components(X, self.n_components, seed)
        rows = spaces.mapped(X, basis) if basis is not None else spaces.original(X)[0]
        rows = rows.astype(np.float64) / unit
        targets = _target_neighbors(rows, labels, self.n_neighbors)

        m = rows.shape[1]
        self.history_: list[float] = []

        def objective(flat: Array) -> tuple[float, Array]:
            value, gradient = lmnn_objective(rows, labels, targets, flat.reshape(m, m), self.push)
            if not self.history_:
                self.history_.append(value)
            return value, gradient.ravel()

        def record(intermediate_result: OptimizeResult) -> None:
            self.history_.append(float(intermediate_result.fun))

        found = minimize(
            objective,
            np.eye(m).ravel(),
            method="L-BFGS-B",
            jac=True,
            callback=record,
            options={"maxiter": self.max_iter, "ftol": self.tol, "gtol": 0.0},
        )
        self.objective_ = float(found.fun)
        self.n_iter_ = int(found.nit)
        factor = found.x.reshape(m, m) / unit
        factor = factor if basis is None else basis @ factor
        return self._store_metric(np.ascontiguousarray(factor, dtype=X.dtype))

    def _check_parameters(self) -> None:
        if self.n_components is not None:
            check_scalar(self.n_components, "n_components", Integral, min_val=1)
        check_scalar(self.n_neighbors, "n_neighbors", Integral, min_val=1)
        check_scalar(self.push, "push", Real, min_val=0, max_val=1)
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)


def _target_neighbors(rows: Array, labels: Array, k: int) -> Array:
    """Row numbers of each row's k nearest rows of its class, nearest first.

    Rows of a class with fewer others repeat the farthest of them; a class of one row has none,
    and stands as its own target at distance zero: such rows are only ever impostors.
    """
    targets = np.repeat(np.arange(len(rows))[:, None], k, axis=1)
    if len(np.unique(labels)) < 2:
        raise ValueError("y has one class only: LMNN needs rows of at least two classes")
    if np.bincount(labels).max() < 2:
        raise ValueError(
            "every class in y has one row only: a target neighbour is another row of the class"
        )
    for label in np.flatnonzero(np.bincount(labels) > 1):
        members = np.flatnonzero(labels == label)
        found = min(k, len(members) - 1)
        near = NearestNeighbors(n_neighbors=found).fit(rows[members])
        nearest = members[near.kneighbors(return_distance=False)]
        targets[members] = np.pad(nearest, ((0, 0), (0, k - found)), mode="edge")
    return targets


def lmnn_objective(
    X: Array, labels: Array, targets: Array, L: Array, push: float
) -> tuple[float, Array]:
    """LMNN's objective and its gradient with respect to L, over all pairs of rows.

    With w_ij the weight with which D_ij enters (pull and push together), the gradient is
    2·Σ w_ij (x_i − x_j)(x_i − x_j)ᵀL, and that sum is Xᵀ(diag(w1 + wᵀ1) − w − wᵀ)X: two products.
    """
    from .. import _kernels

    n, k = targets.shape
    Y = X @ L
    diff = np.repeat(Y, k, axis=0) - Y[targets.ravel()]
    near = np.einsum("ij,ij->i", diff, diff).reshape(n, k)
    order = np.argsort(near, axis=1, kind="stable")
    targets = np.take_along_axis(targets, order, axis=1)
    near = np.take_along_axis(near, order, axis=1)
    # a row that is its own target has no class mate: it takes no part as an anchor
    alone = targets[:, 0] == np.arange(n)
    thresholds = np.where(alone[:, None], -np.inf, 1.0 + near)

    counts = np.zeros((n, k))
    losses = np.zeros(n)
    pushed = np.zeros(n)  # Σ_i of the weights of row l as an impostor
    product = np.zeros((X.shape[1], X.shape[1]))
    for first, distances in products.sq_distance_blocks(Y, _BLOCK_BYTES):

        def weigh(start: int, stop: int, first: int = first, D: Array = distances) -> None:
            _kernels.impostor_weights(D, labels, thresholds, first, start, stop, counts, losses)

        run_blocks(weigh, len(distances), smallest=64)
        pushed += distances.sum(axis=0)
        product += X[first : first + len(distances)].T @ (distances @ X)
    own = counts.sum(axis=1)  # each threshold above an impostor is one term of that pair
    impostors = (X.T * (own + pushed)) @ X - product - product.T

    weight = (1.0 - push) + push * counts
    weight[alone] = 0.0
    shift = (X[:, None, :] - X[targets]).reshape(n * k, -1)
    pull = (shift.T * weight.ravel()) @ shift
    value = (1.0 - push) * near[~alone].sum() + push * losses.sum()
    return float(value), 2.0 * (pull - push * impostors) @ L
