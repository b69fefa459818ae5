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

from typing import TypeVar

import numpy as np

from .. import spaces
from .._types import Array, Rows
from ..whitening import Scatter
from ._dual import DualLearner, ProjectedLearner

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
    power : float, default=0.5
        How much directions differ in length: an eigenvalue w of the metric makes its direction
        w^power long. 0.5 is the paper's metric. 0 or 0.25, with few directions (about as many as
        classes), often ranks better, and so may −0.25, which makes the leading ones shorter; from
        −1 on.
    lift : {None, "rbf"}, default=None
        With "rbf", dense rows are first mapped to up to 2,000 kernel features, and the metric is
        learned there: no longer linear in the features, and often far better on images and
        embeddings. See `dualmetric.lift`; goes well with a small ``shrinkage``.
    all_rows : bool, default=False
        With ``shrinkage`` below 1, take the differences within classes from all rows of X rather
        than from those that triplets name. A memory map or other source is read once more for it.
    eigen_tol : float, default=0.02
        How far directions may be off where there are more than 4,000 features, so that they are
        found by iteration: largest residual, relative to the largest eigenvalue. On text the
        ranking is the same from 0.06 downwards; 1e-5 makes distances good to four digits.
    distance : {"euclidean", "cosine"}, default="euclidean"
        With "cosine", transformed rows are centred and scaled to length one: often better for
        text and embeddings. Learning is the same.
    scale : bool, default=True
        Measure distances relative to their root mean square over the training rows, so that the
        result does not depend on the unit of X. False is the paper's setting.
    random_state : int, RandomState instance or None, default=None
        Seed of sampling, projection and the order of the triplets. The same seed gives the same
        bits.
    verbose : int, default=0
        Above 0, print the objectives and the gap after each epoch; above 1, also where the time
        went."""

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
    residual_ : float
        Largest residual of the directions, to compare with ``eigen_tol``; 0 where the matrix was
        written out and decomposed.
    timings_ : dict
        Seconds of each part: lift, sampling, projection (and whitening), solving, recovery.
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
class DuRP(ProjectedLearner):
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
class DuOri(DualLearner):
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
class SRP(ProjectedLearner):
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
class SPCA(ProjectedLearner):
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

    _learns_on_device = False  # its principal components are scikit-learn's
    _rebuilt_in_original = False
    _copies_rows = True

    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, Array]:
        basis = spaces.principal_components(X, self.n_projections, int(rng.integers(2**31 - 1)))
        return spaces.mapped(rows, basis), basis
