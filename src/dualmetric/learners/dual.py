"""DuRP, DuOri, SRP and SPCA: one body.

A dual problem is solved in one space and the metric is rebuilt in one:

========  ===================  =======================
method    dual solved in       metric rebuilt in
========  ===================  =======================
DuRP      random projection    original features
DuOri     original features    original features
SRP       random projection    the same projection
SPCA      principal components the same components
========  ===================  =======================
"""

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from .. import products, spaces
from .._types import Array, Rows
from ..losses import get_loss
from ..recovery import DENSE_LIMIT, recover_factor
from ..solver import Epoch, solve_dual
from ..triplets import Triplets
from ..whitening import ExplicitScatter, ImplicitScatter, Scatter, of_pairs, within_classes
from ._base import OUT_OF_RANGE, TripletLearner

_SPAN_LIMIT = 2000  # rows up to which n × n inner products and their eigenvectors are cheap
_GATHER_BELOW = 0.3  # share of the rows in triplets under which they are copied out


class _DualLearner(TripletLearner):
    """The shared body. Subclasses say in which space the dual problem is solved."""

    _rebuilt_in_original = True

    def __init__(
        self,
        *,
        n_components: int | None = None,
        n_triplets: int = 100_000,
        sampler: str = "active",
        loss: str = "hinge",
        reg: float | None = None,
        max_epochs: int = 3,
        tol: float | None = None,
        shrinkage: float = 1.0,
        scale: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_triplets = n_triplets
        self.sampler = sampler
        self.loss = loss
        self.reg = reg
        self.max_epochs = max_epochs
        self.tol = tol
        self.shrinkage = shrinkage
        self.scale = scale
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> Self:
        """Learn the metric from labels or from triplets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,), optional
            Their labels, of any type; used only where ``triplets`` is None.
        triplets : array-like of shape (n_triplets, 3) or Triplets, optional
            Row numbers of X: (anchor, positive, negative).

        Returns
        -------
        self
            The fitted learner.
        """
        self._check_parameters()
        loss = get_loss(self.loss)
        X = self._check_X(X, reset=True)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        unit = self._length_unit(X)
        self.triplets_ = self._get_triplets(X, y, triplets, unit, rng)
        reg = 1.0 / len(self.triplets_) if self.reg is None else float(self.reg)

        rows, index, named = _rows_in_play(X, self.triplets_)
        labels = None if y is None or triplets is not None else np.asarray(y)[named]
        spanned = None
        if self._rebuilt_in_original:
            if rows.shape[0] < min(rows.shape[1], _SPAN_LIMIT):
                spanned = rows
                rows, rotation = spaces.row_span(rows)
            scatter = self._scatter(rows, index, labels)
            Z, basis = self._space(rows, X, rng, scatter)
        else:
            rows, basis = self._space(rows, X, rng, None)
            scatter = self._scatter(rows, index, labels)
            Z = spaces.original(rows, scatter)
        if scatter is not None and self.scale:
            unit = self._length_unit(Z)  # the length that counts as one is that of whitened rows
        solution = solve_dual(
            Z / np.asarray(unit, dtype=Z.dtype),
            index,
            loss,
            reg=reg,
            max_epochs=self.max_epochs,
            tol=self.tol,
            rng=rng,
            callback=self._print_epoch if self.verbose else None,
        )
        self.dual_coef_ = solution.beta
        self.history_ = solution.history
        self.duality_gap_ = solution.gap
        self.n_iter_ = solution.history[-1].epoch

        weight = solution.beta / (reg * len(index))
        factor = recover_factor(
            rows, index, weight, self.n_components, rng, unit=unit, scatter=scatter
        )
        if not self._rebuilt_in_original:
            factor = basis @ factor
        elif spanned is not None:
            factor = products.tdot(spanned, rotation @ factor)
        if not np.isfinite(factor).all():
            raise ValueError(OUT_OF_RANGE)
        if factor.shape[1] == 0:
            warnings.warn(
                f"the {len(index):,} triplets leave no direction in which rows that should be near "
                "are nearer than rows that should be far: the plain distance is kept. Check that "
                "labels or triplets belong to these rows; sampler='neighbors' may find more.",
                UserWarning,
                stacklevel=2,
            )
            return self._store_metric(basis if not self._rebuilt_in_original else None)
        return self._store_metric(factor)

    @abstractmethod
    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, Array | None]:
        """Rows of the triplets in the space of the dual problem, and the map to it."""

    def _scatter(self, rows: Rows, index: Triplets, labels: Array | None) -> Scatter | None:
        """S, by which the rows are whitened; None where they are not."""
        if self.shrinkage == 1.0:
            return None
        if labels is None:
            pairs = np.unique(index.index[:, :2], axis=0)
            spread = of_pairs(rows, *np.ascontiguousarray(pairs.T))
        else:
            spread = within_classes(rows, labels)
        if spread.trace <= 0.0:
            raise ValueError(
                "rows that belong together do not differ at all, so that there is no scatter to "
                "whiten by: use shrinkage=1.0"
            )
        if rows.shape[1] <= DENSE_LIMIT:
            return ExplicitScatter(rows, spread, self.shrinkage, self.n_features_in_)
        return ImplicitScatter(rows, spread, self.shrinkage)

    def _check_parameters(self) -> None:
        check_scalar(self.n_triplets, "n_triplets", Integral, min_val=1)
        check_scalar(self.max_epochs, "max_epochs", Integral, min_val=1)
        if self.n_components is not None:
            check_scalar(self.n_components, "n_components", Integral, min_val=1)
        if self.reg is not None:
            check_scalar(self.reg, "reg", Real, min_val=0, include_boundaries="neither")
        if self.tol is not None:
            check_scalar(self.tol, "tol", Real, min_val=0)
        for name in ("reg", "tol"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(value):  # NaN passes check_scalar
                raise ValueError(f"{name} must be a finite number or None; got {value}")
        check_scalar(
            self.shrinkage, "shrinkage", Real, min_val=0, max_val=1, include_boundaries="right"
        )
        check_scalar(self.scale, "scale", (bool, np.bool_))

    def _print_epoch(self, epoch: Epoch) -> None:
        print(
            f"[{type(self).__name__}] epoch {epoch.epoch}: primal {epoch.primal:.6g}, "
            f"dual {epoch.dual:.6g}, gap {epoch.gap:.3g}"
        )


def _rows_in_play(X: Rows, triplets: Triplets) -> tuple[Rows, Triplets, Array]:
    """Only rows that triplets name take part; where they are few, work on a copy of them.

    Returns the rows, the triplets over them, and their numbers in X.
    """
    named = triplets.rows()
    if len(named) > _GATHER_BELOW * X.shape[0]:
        return X, triplets, np.arange(X.shape[0])
    return products.take_rows(X, named), triplets.renumber(named), named


class _ProjectedLearner(_DualLearner):
    """The learners that solve the dual problem in few dimensions."""

    def __init__(
        self,
        n_projections: int = 10,
        *,
        n_components: int | None = None,
        n_triplets: int = 100_000,
        sampler: str = "active",
        loss: str = "hinge",
        reg: float | None = None,
        max_epochs: int = 3,
        tol: float | None = None,
        shrinkage: float = 1.0,
        scale: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components=n_components,
            n_triplets=n_triplets,
            sampler=sampler,
            loss=loss,
            reg=reg,
            max_epochs=max_epochs,
            tol=tol,
            shrinkage=shrinkage,
            scale=scale,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_projections = n_projections

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scalar(self.n_projections, "n_projections", Integral, min_val=1)


_PARAMETERS = """n_components : int or None, default=None
        Rank of the metric: how many directions are kept, the most important first. None keeps all
        that are positive (the leading 50 where the metric spans more than 4,000 features).
    n_triplets : int, default=100_000
        How many triplets to sample from labels.
    sampler : {"active", "neighbors"}, default="active"
        How: "active" is the paper's and ranks best, "neighbors" protects k-NN accuracy. See
        `dualmetric.triplets`.
    loss : {"hinge", "smoothed_hinge", "squared_hinge", "logistic"}, default="hinge"
        Loss of a triplet's margin. See `dualmetric.losses`.
    reg : float or None, default=None
        λ, the weight of ‖M‖². None is 1/N for N triplets, the paper's.
    max_epochs : int, default=3
        Passes over the triplets.
    tol : float or None, default=None
        Stop earlier, when the duality gap is at most ``tol`` times the primal objective.
    shrinkage : float, default=1.0
        Between 0 and 1. Below 1, the regulariser knows how rows of one class (anchor and positive,
        where there are only triplets) differ, and discounts those directions: see
        `dualmetric.whitening`. 1 is the paper's method; the less, the stronger.
    scale : bool, default=True
        Measure distances relative to their root mean square over the training rows, so that the
        result does not depend on the unit of X. False is the paper's setting.
    random_state : int, RandomState instance or None, default=None
        Seed of sampling, projection and the order of the triplets. The same seed gives the same
        bits.
    verbose : int, default=0
        Above 0, print the objectives and the gap after each epoch."""

_ATTRIBUTES = """metric_ : Metric
        The learned metric: save it, apply it elsewhere.
    components_ : ndarray of shape (rank, n_features_in_)
        Its directions, one a row.
    triplets_ : Triplets
        The triplets learned from.
    dual_coef_ : ndarray of shape (n_triplets,)
        Their dual variables β = −α.
    duality_gap_ : float
        Gap between the primal and the dual objective, in the space where the dual was solved.
    history_ : list of Epoch
        Objectives and gap after each epoch.
    n_iter_ : int
        Epochs run.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had names that are all strings."""

_T = TypeVar("_T", bound=type)


def _document(cls: _T) -> _T:
    """Fill in the descriptions that the four learners share."""
    cls.__doc__ = (cls.__doc__ or "").format(parameters=_PARAMETERS, attributes=_ATTRIBUTES)
    return cls


@_document
class DuRP(_ProjectedLearner):
    """Dual random projection: the paper's Algorithm 1.

    The dual problem is solved on random projections of the rows, in ``n_projections`` dimensions;
    its variables then weigh the triplets' matrices in all the original dimensions. The metric is
    not confined to the projection, and comes at nearly the price of one learned there.

    Parameters
    ----------
    n_projections : int, default=10
        Random directions for the dual problem (the paper's m).
    {parameters}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    DuOri : Solves the dual problem in the original space; slow.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualmetric import DuRP, Euclidean
    >>> X, y = load_digits(return_X_y=True)
    >>> learned = DuRP(random_state=0).fit(X[:1000], y[:1000])
    >>> learned.score(X[1000:], y[1000:]) > Euclidean().fit(X).score(X[1000:], y[1000:])
    True
    """

    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, Array]:
        return spaces.random_projection(rows, self.n_projections, rng, scatter)


@_document
class DuOri(_DualLearner):
    """Dual coordinate ascent in the original space.

    What DuRP approximates: each step works with a d × d matrix.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    DuRP : Nearly the same metric at a small part of the cost.
    """

    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, None]:
        return spaces.original(rows, scatter), None


@_document
class SRP(_ProjectedLearner):
    """A metric learned on random projections and confined to them: a baseline.

    Parameters
    ----------
    n_projections : int, default=10
        Random directions (the paper's m).
    {parameters}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    DuRP : Uses the projections for the dual variables only.
    """

    _rebuilt_in_original = False

    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, Array]:
        return spaces.random_projection(rows, self.n_projections, rng, scatter)


@_document
class SPCA(_ProjectedLearner):
    """A metric learned on principal components and confined to them: a baseline.

    Parameters
    ----------
    n_projections : int, default=10
        Principal components, of all rows of X.
    {parameters}

    Attributes
    ----------
    {attributes}
    """

    _rebuilt_in_original = False

    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, Array]:
        basis = spaces.principal_components(X, self.n_projections, int(rng.integers(2**31 - 1)))
        return spaces.mapped(rows, basis), basis
