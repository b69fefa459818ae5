"""LMNN: large margin nearest neighbours, by a quasi-Newton method with exact gradients."""

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import OptimizeResult, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from .. import spaces
from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._arrays.system import blas_threads_for, require_memory, run_blocks
from .._options import (
    check_options,
    distance_option,
    max_rows_option,
    option,
    random_state_option,
    with_options,
)
from .._types import Array
from .._validation import warn
from ..problem import SCALE, LiftedRows, length_unit
from ..supervision import Labels
from .base import LearnedMetricEstimator, open_training

_BLOCK_BYTES = 2**25
_MAX_CANDIDATES = 2**22  # pairs of rows remembered between evaluations: about 150 MB at work


@with_options
class LMNN(LearnedMetricEstimator):
    r"""Large margin nearest neighbour (Weinberger and Saul 2009).

    Each row has ``n_neighbors`` target neighbours T(i): its nearest rows of the same class, found
    once in the Euclidean distance; fewer where its class has fewer other rows. The factor L
    minimises

    .. math:: (1 - \mu)\sum_{i,\, j \in T(i)} D_{ij} + \mu \sum_{i,\, j \in T(i)}
              \sum_{l:\, y_l \ne y_i} \max(0,\, 1 + D_{ij} - D_{il}),
              \qquad D_{ij} = \|L^\top(x_i - x_j)\|^2,

    which pulls target neighbours near and pushes impostors, the rows of other classes that are
    nearer than a target neighbour plus one, away. Impostors are always those of the present
    metric, among all rows, so that objective and gradient are exact; L-BFGS never lets the
    objective rise. It starts from the Euclidean distance, and steps in the coordinates in which
    the differences of target neighbours have the same length in all directions.

    Rows are measured relative to their root mean square distance, so that the result does not
    depend on the unit of X; the margin of one is in that unit.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    components_ : ndarray of shape (rank, n_features_in_)
        Its directions, one per row.
    objective_ : float
        The objective at the end.
    history_ : list of float
        The objective at the start and after each iteration.
    n_iter_ : int
        Iterations run.
    {fitted}
    """

    n_components: int | None = option(
        "int",
        default=None,
        help="Principal components to reduce X to first, as in the paper; None keeps the features.",
        kw_only=False,
        low=1,
        flag="Principal components to learn on.",
    )
    n_neighbors: int = option("int", default=3, help="Target neighbours of each row.", low=1)
    push: float = option(
        "float", default=0.5, help="μ, the weight of the push term.", low=0, high=1
    )
    max_iter: int = option(
        "int",
        default=200,
        help="Iterations of L-BFGS at most; a ConvergenceWarning says when they did not suffice.",
        low=1,
    )
    tol: float = option(
        "float",
        default=1e-5,
        help="Stop when an iteration lowers the objective by less than this part of it (of one, "
        "where it is below one).",
        low=0,
    )
    max_rows: int | None = max_rows_option()
    distance: str = distance_option()
    random_state: Any = random_state_option(
        "Seed of the choice of rows, and of the principal components, where they are found by a "
        "randomised method."
    )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric from labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows; at most ``max_rows`` of them are learned from.
        y : array-like of shape (n_samples,), or str
            Their labels, of any type, or the name of their column in a data frame.

        Returns
        -------
        LMNN
            Itself.
        """
        check_options(self)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        training = open_training(
            type(self).__name__, X, y, self.max_rows, np.random.default_rng(seed)
        )
        if not isinstance(training.supervision, Labels):
            raise ValueError("LMNN learns from labels only: pass them as y, or use DuRP")
        given = to_numpy(training.X)
        labels = np.unique(training.supervision.y, return_inverse=True)[1]
        _check_classes(labels)
        length_unit(given)  # refuses rows that are all the same, and numbers out of range
        basis = None
        if self.n_components is not None:
            basis = spaces.principal_components(given, self.n_components, seed)
        n, m = given.shape[0], given.shape[1] if basis is None else basis.shape[1]
        require_memory(
            8 * (4 * n * m + 30 * m * m),  # L-BFGS remembers ten steps and gradients
            f"learning a {m:,} × {m:,} matrix by LMNN from {n:,} rows",
            "Set n_components, to reduce the features first, or use DuRP.",
        )
        rows = ops.to_dense(given) if basis is None else ops.dot(given, basis)
        rows = rows - rows.mean(axis=0, dtype=np.float64)
        # the start, and the margin, are relative to the spread of the rows
        unit = length_unit(rows, scale=SCALE)
        rows /= unit
        targets = _target_neighbors(rows, labels, self.n_neighbors)
        with blas_threads_for(len(rows)):
            found = self._minimize(_Objective(rows, labels, targets, float(self.push)))
        factor = found.factor / unit if basis is None else basis @ (found.factor / unit)
        factor = np.ascontiguousarray(factor, dtype=given.dtype)
        return self._store(
            training.rows,
            metric_=self._make_metric(factor, training, LiftedRows(given)),
            objective_=found.objective,
            history_=found.history,
            n_iter_=found.n_iter,
            counts=training.counts,
        )

    def _minimize(self, objective: "_Objective") -> "_Minimum":
        stretch, shrink = _preconditioner(objective.X, objective.targets)
        m = len(stretch)
        history: list[float] = []

        def evaluate(flat: Array) -> tuple[float, Array]:
            value, gradient = objective(stretch @ flat.reshape(m, m))
            if not history:
                history.append(value)
            return value, (stretch @ gradient).ravel()

        def record(intermediate_result: OptimizeResult) -> None:
            history.append(float(intermediate_result.fun))

        found = minimize(
            evaluate,
            shrink.ravel(),
            method="L-BFGS-B",
            jac=True,
            callback=record,
            options={"maxiter": self.max_iter, "ftol": self.tol, "gtol": 0.0},
        )
        if found.status == 1:  # out of iterations
            warn(
                f"LMNN stopped after max_iter={self.max_iter} iterations, before an iteration "
                f"lowered the objective by less than tol={self.tol:g} of it. Increase max_iter or "
                "tol, or scale the features, for example with StandardScaler.",
                ConvergenceWarning,
            )
        factor = stretch @ found.x.reshape(m, m)
        return _Minimum(factor, float(found.fun), history, int(found.nit))


class _Minimum(NamedTuple):
    """Where the minimisation ended."""

    factor: Array
    objective: float
    history: list[float]
    n_iter: int


def _check_classes(labels: Array) -> None:
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        raise ValueError("y has one class only: LMNN needs rows of at least two classes")
    if sizes.max() < 2:
        raise ValueError(
            "every class in y has one row only: a target neighbour is another row of the class"
        )


def _target_neighbors(rows: Array, labels: Array, k: int) -> Array:
    """Row numbers of each row's k nearest rows of its class, nearest first.

    Where the class has fewer other rows, the row's own number stands in the places left over.
    """
    k = min(k, int(np.bincount(labels).max()) - 1)
    targets = np.repeat(np.arange(len(rows))[:, None], k, axis=1)
    for label in np.flatnonzero(np.bincount(labels) > 1):
        members = np.flatnonzero(labels == label)
        found = min(k, len(members) - 1)
        near = NearestNeighbors(n_neighbors=found).fit(rows[members])
        targets[members, :found] = members[near.kneighbors(return_distance=False)]
    return targets


def _preconditioner(X: Array, targets: Array) -> tuple[Array, Array]:
    """S^−½ and S^½ for the scatter S of the differences of target neighbours.

    The pull term is tr(LᵀSL): as a function of S^½L it is equally curved in all directions. A
    hundredth of the scatter of all rows (centred) is added, which leaves no direction flat that
    the rows have.
    """
    anchors = np.repeat(np.arange(len(X)), targets.shape[1])
    S = X.T @ _laplacian_dot(anchors, targets.ravel(), np.ones(targets.size), X)
    total = X.T @ X
    size = np.trace(S)  # 0 where every target neighbour is a duplicate
    S += (0.01 * (size if size > 0.0 else 1.0) / np.trace(total)) * total
    values, vectors = np.linalg.eigh(S)
    root = np.sqrt(np.maximum(values / values[-1], 1e-10))
    return (vectors / root) @ vectors.T, (vectors * root) @ vectors.T


def lmnn_objective(
    X: Array, labels: Array, targets: Array, L: Array, push: float
) -> tuple[float, Array]:
    """LMNN's objective and its gradient with respect to L, over all pairs of rows.

    ``targets`` holds the row numbers of T(i), and i itself in places left over.
    """
    return _Objective(X, labels, targets, push)(L)


class _Objective:
    """LMNN's objective and gradient, at one L after another.

    With w_ij the weight with which D_ij enters (pull and push together), the gradient is
    2·Σ w_ij (x_i − x_j)(x_i − x_j)ᵀL = 2·Xᵀ(diag(w1 + wᵀ1) − w − wᵀ)XL.

    All pairs of rows are looked at, a block at a time, only now and then. Those of different
    classes with √D_il below √(1 + max_j D_ij) + slack are remembered: √D_il falls by no more than
    the way that rows i and l of XL have moved since, so that for a while no other pair can be an
    impostor, and this is checked each time. Where there are too many to remember, every
    evaluation looks at all pairs.
    """

    def __init__(self, X: Array, labels: Array, targets: Array, push: float) -> None:
        self.X, self.labels, self.targets, self.push = X, labels, targets, push
        self.n_searches = 0  # how often all pairs were looked at to find candidates
        self._slack = 0.5
        self._age = 0
        self._found: tuple[Array, Array, Array, Array] | None = None
        self._most = min(_MAX_CANDIDATES, len(X) ** 2 // 8)
        self._n_impostors = 0

    def __call__(self, L: Array) -> tuple[float, Array]:
        n, k = self.targets.shape
        anchors = np.repeat(np.arange(n, dtype=np.int32), k)
        Y = np.ascontiguousarray(self.X @ L)
        near = ops.sq_distances(Y, anchors, self.targets.astype(np.int32).ravel())
        near = near.reshape(n, k)
        missing = self.targets == np.arange(n)[:, None]
        thresholds = np.where(missing, -np.inf, 1.0 + near)
        order = np.argsort(thresholds, axis=1, kind="stable")
        targets = np.take_along_axis(self.targets, order, axis=1)
        thresholds = np.take_along_axis(thresholds, order, axis=1)

        losses, counts, impostors = 0.0, np.zeros((n, k)), np.zeros_like(L)
        if self.push > 0.0:
            self._look(Y, thresholds)
            push_term = self._all_pairs if self._found is None else self._candidates
            losses, counts, impostors = push_term(Y, L, thresholds)
        weight = (1.0 - self.push) + self.push * counts  # a row that is its own target adds 0
        pull = self.X.T @ _laplacian_dot(anchors, targets.ravel(), weight.ravel(), Y)
        value = (1.0 - self.push) * near.sum() + self.push * losses
        return float(value), 2.0 * (pull - self.push * impostors)

    def _look(self, Y: Array, thresholds: Array) -> None:
        """Make sure that the candidates hold every impostor, or that there are no candidates."""
        reach = np.sqrt(np.maximum(thresholds[:, -1], 0.0))
        if self._found is not None:
            _, _, old_Y, old_reach = self._found
            moved = np.sqrt(np.square(Y - old_Y).sum(axis=1))
            if (reach + moved - old_reach).max() + moved.max() <= self._slack:
                self._age += 1
                return
            self._slack *= 2.0 if self._age < 3 else 0.5 if self._age > 20 else 1.0
        self._found = None
        self._age = 0
        if self._n_impostors > self._most // 2:
            return
        self.n_searches += 1
        limit = np.square(reach + self._slack)[:, None]
        left, right, total = [], [], 0
        for first, distances in ops.sq_distance_blocks(Y, _BLOCK_BYTES):
            rows = slice(first, first + len(distances))
            near = distances < limit[rows]
            near &= self.labels[rows, None] != self.labels
            i, j = np.divmod(np.flatnonzero(near), len(Y))
            total += len(i)
            if total > self._most:
                self._slack *= 0.5
                return
            left.append((i + first).astype(np.int32))
            right.append(j.astype(np.int32))
        self._found = np.concatenate(left), np.concatenate(right), Y, reach

    def _candidates(self, Y: Array, L: Array, thresholds: Array) -> tuple[float, Array, Array]:
        """Σ max(0, t_ij − D_il); how many impostors each t_ij has; and half the gradient."""
        assert self._found is not None
        n = len(Y)
        i, j = self._found[:2]
        distances = ops.sq_distances(Y, i, j)
        inside = np.flatnonzero(distances < thresholds[i, -1])
        i, j = i[inside], j[inside]
        slack = thresholds[i] - distances[inside, None]
        active = slack > 0.0
        counts = np.stack([np.bincount(i[a], minlength=n) for a in active.T], axis=1)
        self._n_impostors = len(i)
        weights = active.sum(axis=1, dtype=np.float64)
        return slack[active].sum(), counts, self.X.T @ _laplacian_dot(i, j, weights, Y)

    def _all_pairs(self, Y: Array, L: Array, thresholds: Array) -> tuple[float, Array, Array]:
        """The same without candidates."""
        from .._arrays import kernels

        X = self.X
        counts = np.zeros(thresholds.shape)
        losses = np.zeros(len(X))
        pushed = np.zeros(len(X))  # Σ_i of the weights of row l as an impostor
        product = np.zeros((X.shape[1], X.shape[1]))
        self._n_impostors = 0
        for first, block in ops.sq_distance_blocks(Y, _BLOCK_BYTES):

            def weigh(start: int, stop: int, first: int = first, D: Array = block) -> None:
                kernels.impostor_weights(
                    D, self.labels, thresholds, first, start, stop, counts, losses
                )

            run_blocks(weigh, len(block), smallest=64)
            pushed += block.sum(axis=0)
            product += X[first : first + len(block)].T @ (block @ X)
            self._n_impostors += int(np.count_nonzero(block))
        own = counts.sum(axis=1)  # each threshold above an impostor is one term of that pair
        scatter = (X.T * (own + pushed)) @ X - product - product.T
        return losses.sum(), counts, scatter @ L


def _laplacian_dot(left: Array, right: Array, weights: Array, Y: Array) -> Array:
    """(diag(w1 + wᵀ1) − w − wᵀ)Y for weights of pairs of rows, ``left`` ascending."""
    n = len(Y)
    starts = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=n))])
    w = sp.csr_array((weights, right, starts), shape=(n, n))
    degree = np.bincount(left, weights, n) + np.bincount(right, weights, n)
    return degree[:, None] * Y - w @ Y - w.T @ Y
