"""LMNN: large margin nearest neighbours, by a quasi-Newton method with exact gradients."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

from .. import spaces
from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._arrays.system import blas_threads_for, require_memory, run_blocks
from .._options import distance_option, max_rows_option, option, random_state_option, with_options
from .._types import Array, Matrix
from .._validation import warn
from ..problem import SCALE, LiftedRows, length_unit
from ..supervision import Labels
from .base import LearnedMetricEstimator, Training

_BLOCK_BYTES = 2**22  # of distances, which stay in the cache
_MAX_CANDIDATES = 2**22  # pairs of rows remembered between evaluations: about 150 MB at work
_MAX_WRITTEN = 1000  # features up to which a matrix of features × features costs little
_N_LEADING = 256  # directions in which the steps of a low-rank fit are scaled above


@with_options
class LMNN(LearnedMetricEstimator):
    r"""Large margin nearest neighbour (Weinberger and Saul 2009).

    Each row has ``n_neighbors`` target neighbours T(i): its nearest rows of the same class, found
    once by the Euclidean distance; fewer where its class has fewer other rows. The factor L
    minimises

    .. math:: (1 - \mu)\sum_{i,\, j \in T(i)} D_{ij} + \mu \sum_{i,\, j \in T(i)}
              \sum_{l:\, y_l \ne y_i} \max(0,\, 1 + D_{ij} - D_{il}),
              \qquad D_{ij} = \|L^\top(x_i - x_j)\|^2,

    which pulls target neighbours near and pushes away impostors: rows of other classes whose
    squared distance is less than that of a target neighbour plus 1. Impostors are always those of
    the current metric, among all rows, so the objective and its gradient are exact, and L-BFGS
    never increases the objective. L has as many rows as X has features and ``n_components``
    columns. It starts from the leading principal components (without ``n_components``, from the
    Euclidean distance), and L-BFGS works in coordinates in which the differences of target
    neighbours have the same length in all directions, or in the leading few hundred. If there are
    more than 1,000 features and ``n_components`` is smaller than their number, no matrix of
    features × features is formed, and sparse rows stay sparse.

    Distances are measured relative to the root mean square distance of the rows (along the
    components it starts from), so that the result does not depend on the unit of X. The margin of
    one is in this unit. y must hold labels.

    The zero matrix is a stationary point of the objective. If L shrinks to zero, the fit starts
    once more, from the directions in which the objective falls fastest there. If there are none,
    zero is the minimum: a warning says so, and the starting point is kept as the metric.

    {sections}
    objective_ : float
        The objective at the end.
    history_ : list of float
        The objective at the start and after each iteration.
    n_iter_ : int
        Iterations run.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualmetric import LMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> LMNN(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    n_components: int | None = option(
        "int",
        default=None,
        help="Rank of the metric: columns of the factor L, over all features. None learns a square "
        "factor.",
        kw_only=False,
        low=1,
        flag="Rank of the metric.",
    )
    pca_components: int | None = option(
        "int",
        default=None,
        help="Principal components to reduce X to first, which is faster and often worse; None "
        "learns on the features.",
        low=1,
        flag="For lmnn: reduce rows to this many principal components first.",
    )
    n_neighbors: int = option("int", default=3, help="Target neighbours of each row.", low=1)
    push: float = option(
        "float", default=0.5, help="μ, the weight of the push term.", low=0, high=1
    )
    max_iter: int = option(
        "int",
        default=500,
        help="Maximum number of iterations of L-BFGS; a ConvergenceWarning is given if they were "
        "not enough.",
        low=1,
    )
    tol: float = option(
        "float",
        default=1e-5,
        help="Stop when an iteration lowers the objective by less than this fraction of it (of "
        "one, if the objective is below one).",
        low=0,
    )
    max_rows: int | None = max_rows_option()
    distance: str = distance_option()
    random_state: Any = random_state_option(
        "Seed of the choice of rows, and of the principal components, where they are found by a "
        "randomised method."
    )

    def _learn(self, training: Training, rng: np.random.Generator) -> dict[str, Any]:
        if not isinstance(training.supervision, Labels):
            raise ValueError("LMNN learns from labels only: pass them as y, or use DuRP")
        known = training.supervision.known_rows()
        given = to_numpy(training.X)
        if len(known) < given.shape[0]:
            given = ops.take_rows(given, known)
        labels = np.unique(training.supervision.y[known], return_inverse=True)[1]
        _check_classes(labels)
        length_unit(given)  # refuses rows that are all the same, and numbers out of range
        # the seed that the generator was made from
        seed = rng.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
        basis, rows = None, ops.canonical(given)
        if self.pca_components is not None:
            basis = spaces.principal_components(given, self.pca_components, seed)
            rows = ops.dot(given, basis)
        n, m = rows.shape
        rank = m if self.n_components is None else min(self.n_components, m)
        leading = None
        if rank == m:
            require_memory(
                8 * (4 * n * m + 30 * m * m),  # L-BFGS remembers ten steps and gradients
                f"learning a {m:,} × {m:,} matrix by LMNN from {n:,} rows",
                "Set n_components, the rank of the metric, or pca_components, to reduce the "
                "features first, or use DuRP.",
            )
            rows = ops.to_dense(rows)
        else:
            sparse = not ops.is_dense(rows)  # more of their components cost more than they save
            n_leading = rank if sparse or m <= _MAX_WRITTEN else max(rank, _N_LEADING)
            dense = 0 if sparse else 2 * n * m
            require_memory(
                8 * (dense + 10 * n * rank + 30 * m * rank + 4 * m * n_leading),
                f"learning a {m:,} × {rank:,} matrix by LMNN from {n:,} rows",
                "Set a smaller n_components, or pca_components, to reduce the features first, or "
                "use DuRP.",
            )
            leading = _leading_components(rows, n_leading, seed)
            rank = min(rank, leading.shape[1])
        if self.n_components is not None and rank < self.n_components:
            held = (
                f"{m:,} features" if leading is None else f"{rank:,} directions in which X varies"
            )
            warn(
                f"n_components={self.n_components:,} is more than the {held}: the metric has rank "
                f"{rank:,}"
            )
        if ops.is_dense(rows):
            rows = rows - rows.mean(axis=0, dtype=np.float64)
        else:  # differences of rows do not depend on their mean
            rows = rows.astype(np.float64)
        # the start, and the margin, are relative to the spread of the rows
        start = np.eye(m) if leading is None else leading[:, :rank]
        unit = length_unit(rows if leading is None else ops.dot(rows, start), scale=SCALE)
        rows /= unit
        targets = _target_neighbors(rows, labels, self.n_neighbors)
        objective = _Objective(rows, labels, targets, float(self.push))
        if m <= _MAX_WRITTEN and ops.is_dense(rows):
            leading = None
        with blas_threads_for(n):
            found = self._minimize(objective, start, _coordinates(rows, targets, leading))
        factor = found.factor / unit if basis is None else basis @ (found.factor / unit)
        factor = np.ascontiguousarray(factor, dtype=given.dtype)
        return {
            "metric_": self._make_metric(factor, training, LiftedRows(given)),
            "objective_": found.objective,
            "history_": found.history,
            "n_iter_": found.n_iter,
        }

    def _minimize(
        self, objective: "_Objective", start: Array, coordinates: "_Coordinates"
    ) -> "_Minimum":
        found = self._descend(objective, start, coordinates)
        if not objective.is_collapsed(found.factor):
            return found
        better = objective.away_from_zero(start.shape[1], coordinates)
        if better is not None:
            return self._descend(objective, better, coordinates)
        kept = "plain distance" if self.n_components is None else "distance of the components"
        warn(
            f"LMNN's objective with push={self.push:g} is smallest for the zero matrix: the "
            f"{kept} that it started from is kept. Increase push, or learn from more rows."
        )
        return found._replace(factor=start)

    def _descend(
        self, objective: "_Objective", start: Array, coordinates: "_Coordinates"
    ) -> "_Minimum":
        history: list[float] = []

        def evaluate(flat: Array) -> tuple[float, Array]:
            value, gradient = objective(coordinates.stretch(flat.reshape(start.shape)))
            if not history:
                history.append(value)
            return value, coordinates.stretch(gradient).ravel()

        def record(intermediate_result: OptimizeResult) -> None:
            history.append(float(intermediate_result.fun))

        found = minimize(
            evaluate,
            coordinates.shrink(start).ravel(),
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
        factor = coordinates.stretch(found.x.reshape(start.shape))
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
        raise ValueError("y has only one class: LMNN needs rows of at least two classes")
    if sizes.max() < 2:
        raise ValueError(
            "every class in y has only one row: LMNN needs classes with two or more rows, for "
            "target neighbours"
        )


def _target_neighbors(rows: Matrix, labels: Array, k: int) -> Array:
    """Row numbers of each row's k nearest rows of its class, nearest first.

    If the class has fewer other rows, the remaining places hold the row's own number.
    """
    k = min(k, int(np.bincount(labels).max()) - 1)
    targets = np.repeat(np.arange(rows.shape[0])[:, None], k, axis=1)
    for label in np.flatnonzero(np.bincount(labels) > 1):
        members = np.flatnonzero(labels == label)
        found = min(k, len(members) - 1)
        near = NearestNeighbors(n_neighbors=found).fit(rows[members])
        targets[members, :found] = members[near.kneighbors(return_distance=False)]
    return targets


def _leading_components(rows: Matrix, m: int, seed: int) -> Array:
    """Return at most m leading principal components as columns, in float64.

    Those in which the rows do not vary are left out: n rows of more features have some.
    """
    found = np.asarray(spaces.principal_components(rows, m, seed), dtype=np.float64)
    spread = np.ptp(ops.dot(rows, found), axis=0)
    return found[:, spread > 1e-6 * spread.max()]


class _Coordinates(NamedTuple):
    """Coordinates in which L-BFGS steps: L = S^−½ · coordinates."""

    inverse_root: Array  # (p, p): S^−½
    root: Array  # (p, p): S^½
    basis: Array | None = None  # (d, p): directions in which S is known; None where p = d
    outside: float = 1.0  # S^−½ in the directions that are orthogonal to them

    def stretch(self, A: Array) -> Array:
        """S^−½A."""
        return self._apply(self.inverse_root, self.outside, A)

    def shrink(self, A: Array) -> Array:
        """S^½A."""
        return self._apply(self.root, 1.0 / self.outside, A)

    def _apply(self, matrix: Array, outside: float, A: Array) -> Array:
        if self.basis is None:
            return matrix @ A
        inside = self.basis.T @ A
        return outside * A + self.basis @ (matrix @ inside - outside * inside)


def _coordinates(X: Matrix, targets: Array, leading: Array | None) -> _Coordinates:
    """Coordinates for the scatter S of the differences of target neighbours.

    The pull term is tr(LᵀSL): as a function of S^½L it is equally curved in all directions. With
    ``leading`` principal components, S is found for these only; all other directions are taken to
    be as flat as the flattest of them. A hundredth of the scatter of all rows (centred) is added,
    which leaves no direction flat that the rows have.
    """
    rows = X if leading is None else ops.minus_mean(ops.dot(X, leading))
    anchors = np.repeat(np.arange(len(rows)), targets.shape[1])
    S = rows.T @ _laplacian_dot(anchors, targets.ravel(), np.ones(targets.size), rows)
    total = rows.T @ rows
    size = np.trace(S)  # 0 where every target neighbour is a duplicate
    S += (0.01 * (size if size > 0.0 else 1.0) / np.trace(total)) * total
    values, vectors = np.linalg.eigh(S)
    root = np.sqrt(np.maximum(values / values[-1], 1e-10))
    inverse = (vectors / root) @ vectors.T
    return _Coordinates(inverse, (vectors * root) @ vectors.T, leading, float(1.0 / root[0]))


def lmnn_objective(
    X: Matrix, labels: Array, targets: Array, L: Array, push: float
) -> tuple[float, Array]:
    """LMNN's objective and its gradient with respect to L, over all pairs of rows.

    ``targets`` holds the row numbers of T(i), and i itself in places left over.
    """
    return _Objective(X, labels, targets, push)(L)


class _Objective:
    """LMNN's objective and gradient, at one L after another.

    With w_ij the weight with which D_ij enters (pull and push together), the gradient is
    2·Σ w_ij (x_i − x_j)(x_i − x_j)ᵀL = 2·Xᵀ(diag(w1 + wᵀ1) − w − wᵀ)XL. It is multiplied out from
    the right: with r columns of L, nothing is larger than X, n × r or d × r.

    Only now and then are all pairs of rows examined, a block at a time. Those of different classes
    with √D_il below √(1 + max_j D_ij) + slack are remembered: √D_il decreases by no more than the
    distance that rows i and l of XL have moved since then, so for a while no other pair can be an
    impostor. This is checked at each evaluation. If there are too many pairs to remember, every
    evaluation examines all pairs.
    """

    def __init__(self, X: Matrix, labels: Array, targets: Array, push: float) -> None:
        self.X, self.labels, self.targets, self.push = X, labels, targets, push
        self.n_searches = 0  # how often all pairs were looked at to find candidates
        self._slack = 0.5
        self._age = 0
        self._found: tuple[Array, Array, Array, Array] | None = None
        self._back = ops.transposed(X)
        self._most = min(_MAX_CANDIDATES, X.shape[0] ** 2 // 8)
        self._n_impostors = 0

    def __call__(self, L: Array) -> tuple[float, Array]:
        n, k = self.targets.shape
        anchors = np.repeat(np.arange(n, dtype=np.int32), k)
        Y = np.ascontiguousarray(ops.threaded_dot(self.X, L))
        near = ops.sq_distances(Y, anchors, self.targets.astype(np.int32).ravel())
        near = near.reshape(n, k)
        missing = self.targets == np.arange(n)[:, None]
        thresholds = np.where(missing, -np.inf, 1.0 + near)
        order = np.argsort(thresholds, axis=1, kind="stable")
        targets = np.take_along_axis(self.targets, order, axis=1)
        thresholds = np.take_along_axis(thresholds, order, axis=1)

        losses, counts, impostors = 0.0, np.zeros((n, k)), np.zeros_like(Y)
        if self.push > 0.0:
            self._look(Y, thresholds)
            push_term = self._all_pairs if self._found is None else self._candidates
            losses, counts, impostors = push_term(Y, thresholds)
        weight = (1.0 - self.push) + self.push * counts  # a row that is its own target adds 0
        pull = _laplacian_dot(anchors, targets.ravel(), weight.ravel(), Y)
        value = (1.0 - self.push) * near.sum() + self.push * losses
        gradient = ops.threaded_dot(self._back, pull - self.push * impostors)
        return float(value), 2.0 * gradient

    def is_collapsed(self, L: Array) -> bool:
        """Whether all rows are so close that each is an impostor of every row of other classes.

        The objective is then linear in LLᵀ on the line to zero, so this is not a minimum.
        """
        return self._longest(L) < 0.5

    def away_from_zero(self, rank: int, coordinates: "_Coordinates") -> Array | None:
        """An L at which the objective is below that of zero; None where zero is the minimum.

        As a function of M = LLᵀ the objective is convex, with the gradient XᵀWX at zero, where W
        holds the weights of all pairs. It falls along eigenvectors of negative eigenvalues; if
        there are none, zero is the minimum. They are found in the ``coordinates`` of L-BFGS, and
        lengthened while the objective falls.
        """
        n, k = self.targets.shape
        anchors = np.repeat(np.arange(n), k)
        missing = self.targets == np.arange(n)[:, None]
        sizes = np.bincount(self.labels)
        found = k - missing.sum(axis=1)  # |T(i)|
        others = n - sizes[self.labels]
        weight = (1.0 - self.push) + self.push * np.where(missing, 0, others[:, None])
        members = sp.csr_array((np.ones(n), (self.labels, np.arange(n))), (len(sizes), n))
        # row l is an impostor of every row i of another class, once for each target of row i
        as_impostor = found.sum() - (members @ found)[self.labels]
        degree = (found * others + as_impostor)[:, None]

        def falls(B: Array) -> Array:
            """−XᵀWX·B, in the coordinates."""
            L = coordinates.stretch(B.reshape(B.shape[0], -1))
            Y = ops.minus_mean(ops.threaded_dot(self.X, L))
            weighted = found[:, None] * Y
            # Σ over rows of other classes: all rows minus those of the class
            own, of_anchors = (members @ A for A in (Y, weighted))
            from_others = Y.sum(axis=0) - own[self.labels]
            from_anchors = weighted.sum(axis=0) - of_anchors[self.labels]
            push = degree * Y - found[:, None] * from_others - from_anchors
            pull = _laplacian_dot(anchors, self.targets.ravel(), weight.ravel(), Y)
            return coordinates.stretch(ops.threaded_dot(self._back, self.push * push - pull))

        d = self.X.shape[1]
        rank = min(rank, d)
        if d <= 200 or rank > d // 2:
            values, vectors = np.linalg.eigh(falls(np.eye(d)))
        else:
            operator = LinearOperator((d, d), matvec=falls, matmat=falls, dtype=np.float64)
            v0 = np.random.default_rng(0).standard_normal(d)
            values, vectors = eigsh(operator, rank, which="LA", v0=v0, tol=1e-3)
        if values.max() <= 0.0:
            return None
        order = np.argsort(-values)[:rank]
        values, vectors = values[order], vectors[:, order]
        rises = values < 0.0  # a column of zeros would stay zero: make these so short that the
        if rises.any():  # objective falls all the same
            vectors[:, rises] *= np.sqrt(
                min(1.0, -0.5 * values[~rises].sum() / values[rises].sum())
            )
        L = coordinates.stretch(vectors)
        L *= 0.5 / self._longest(L)
        value, longer = self(L)[0], self(2.0 * L)[0]
        while longer < value:
            L, value, longer = 2.0 * L, longer, self(4.0 * L)[0]
        return L if value < self(np.zeros_like(L))[0] else None

    def _longest(self, L: Array) -> float:
        return float(ops.row_lengths(ops.minus_mean(ops.threaded_dot(self.X, L))).max())

    def _look(self, Y: Array, thresholds: Array) -> None:
        """Make sure that the candidates hold every impostor, or that there are no candidates."""
        reach = np.sqrt(np.maximum(thresholds[:, -1], 0.0))
        if self._found is not None:
            _, _, old_Y, old_reach = self._found
            moved = np.sqrt(np.square(Y - old_Y).sum(axis=1))
            if (reach + moved - old_reach).max() + moved.max() <= self._slack:
                self._age += 1
                return
            if self._age > 20:
                self._slack *= 0.5
            elif self._age < 3 and 4 * len(self._found[0]) <= self._most:  # there is room for more
                self._slack *= 2.0
        self._found = None
        self._age = 0
        if self._n_impostors > self._most // 2:
            return
        for _ in range(3):
            pairs = self._search(Y, reach)
            if pairs is not None:
                self._found = *pairs, Y, reach
                return
            self._slack *= 0.5

    def _search(self, Y: Array, reach: Array) -> tuple[Array, Array] | None:
        """Pairs of rows to remember; None where they are too many."""
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
                return None
            left.append((i + first).astype(np.int32))
            right.append(j.astype(np.int32))
        return np.concatenate(left), np.concatenate(right)

    def _candidates(self, Y: Array, thresholds: Array) -> tuple[float, Array, Array]:
        """Σ max(0, t_ij − D_il); how many impostors each t_ij has; and what they do to Y."""
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
        return slack[active].sum(), counts, _laplacian_dot(i, j, weights, Y)

    def _all_pairs(self, Y: Array, thresholds: Array) -> tuple[float, Array, Array]:
        """The same without candidates."""
        from .._arrays import kernels

        counts = np.zeros(thresholds.shape)
        losses = np.zeros(len(Y))
        pushed = np.zeros(len(Y))  # Σ_i of the weights of row l as an impostor
        images = np.zeros_like(Y)  # (w + wᵀ)Y
        self._n_impostors = 0
        for first, block in ops.sq_distance_blocks(Y, _BLOCK_BYTES):

            def weigh(start: int, stop: int, first: int = first, D: Array = block) -> None:
                kernels.impostor_weights(
                    D, self.labels, thresholds, first, start, stop, counts, losses
                )

            run_blocks(weigh, len(block), smallest=64)
            pushed += block.sum(axis=0)
            rows = slice(first, first + len(block))
            images[rows] += block @ Y
            images += block.T @ Y[rows]
            self._n_impostors += int(np.count_nonzero(block))
        own = counts.sum(axis=1)  # each threshold above an impostor is one term of that pair
        return losses.sum(), counts, (own + pushed)[:, None] * Y - images


def _laplacian_dot(left: Array, right: Array, weights: Array, Y: Array) -> Array:
    """(diag(w1 + wᵀ1) − w − wᵀ)Y for weights of pairs of rows, ``left`` ascending."""
    n = len(Y)
    starts = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=n))])
    w = sp.csr_array((weights, right, starts), shape=(n, n))
    degree = np.bincount(left, weights, n) + np.bincount(right, weights, n)
    return degree[:, None] * Y - w @ Y - w.T @ Y
