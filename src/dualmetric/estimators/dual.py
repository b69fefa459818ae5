"""DuRP, DuOri, SRP and SPCA: one base class.

A dual problem is solved in one space, and the metric is rebuilt in the same or another one:

========  ===================  =======================
method    dual solved in       metric rebuilt in
========  ===================  =======================
DuRP      random projection    original features
DuOri     original features    original features
SRP       random projection    the same projection
SPCA      principal components the same components
========  ===================  =======================
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from .._arrays.namespace import in_full_precision, require_memory_beside, to_numpy
from .._options import option, with_options
from .._rows import within_scatter
from .._types import Array
from ..learn import DualFit, learn
from ..metric import Metric
from ..prior import check_prior, resolve_blocks
from ..problem import DualOptions
from ..scatter import DENSE_LIMIT
from ..solver import Epoch
from ..supervision import Comparisons, Labels
from ._estimate import Estimate, estimate_dual
from .base import LearnedMetricEstimator, Training
from .updating import Updating


def _prior_option() -> Any:
    return option(
        "object",
        default=None,
        help="The distance that is kept wherever the comparisons do not contradict it. None learns "
        'without a prior, as in the paper. "identity" is the plain distance, "whitening" that '
        "of rows whitened with ``shrinkage`` (0.9, for example; up to 4,000 features), and a "
        "`Metric` is corrected in the directions that the comparisons require. A prior is safer "
        "with few judgements and for classes that were not learned from. It works well with "
        '``distance="cosine"``.',
        type='{None, "identity", "whitening"} or Metric',
        flag="The distance to start from and to correct: identity (the plain one) or whitening.",
    )


def _strength_option() -> Any:
    return option(
        "float",
        default=1.0,
        help="With a prior: the share of the learned correction Δ that is added to the prior, "
        "M₀ + strength·Δ. Above 0 and at most 1. With many features, values below 1 often rank "
        "new rows better. Without a prior, it must be 1.",
        low=0,
        high=1,
        above=True,
        flag="With a prior: share of the learned correction that is added to it, up to 1.",
    )


def _blocks_option() -> Any:
    return option(
        "object",
        default=None,
        help="Blocks of columns that have no common scale, such as words beside an embedding: "
        "their widths in order, slices, or lists of column names of a data frame; a dict names "
        "the blocks. One weight per block is learned from the comparisons. The prior is the plain "
        'distance with these weights, so ``prior`` is None or "identity", which mean the same '
        'here. With ``distance="cosine"`` each block of a row is scaled to length one first; rows '
        "are not centred.",
        type="list of int, of slice or of list of str, or dict of these",
    )


def _projections_option(purpose: str) -> Any:
    return option(
        "int",
        default=10,
        help=purpose,
        kw_only=False,
        low=1,
        flag="Number of random projections (for spca, principal components). Use at least 10.",
    )


class DualEstimator(LearnedMetricEstimator, DualOptions):
    """The base class. Subclasses say in which space the dual problem is solved."""

    _attributes = """
    comparisons_ : Comparisons
        The comparisons learned from, over the rows of X.
    dual_coef_ : ndarray of shape (n_comparisons,)
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
        Seconds of each part: lift, sampling, projection (and whitening), solving, recovery."""

    @in_full_precision
    def fit(
        self, X: Any, y: Any = None, *, callback: Callable[[Epoch], object] | None = None
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows: an array, a SciPy matrix, a data frame (pandas, Polars, PyArrow, Dask), a
            memory map, an object with ``shape``, ``dtype`` and row slicing (HDF5, Zarr,
            `open_parquet`), a Dask array, or an array on a device (PyTorch, CuPy), where the work
            is then done. At most ``max_rows`` of them are learned from.
        y : array-like of shape (n_samples,), str or supervision
            What is known about the rows: labels of any type, the name of the column of a data frame
            that holds them, or an object of `dualmetric.supervision`: pairs, positives, relevance,
            triplets or comparisons.
        callback : callable, optional
            Called with a `dualmetric.solver.Epoch` at the end of each epoch, to show progress.

        Returns
        -------
        self
            The fitted estimator.
        """
        named = isinstance(self.prior, Metric) and self.prior.feature_names is not None
        known = self.prior if named else None  # columns of a data frame are taken by its names
        return self._fit(X, y, known, callback=callback)

    def _learn(
        self,
        training: Training,
        rng: np.random.Generator,
        callback: Callable[[Epoch], object] | None,
    ) -> dict[str, Any]:
        options = resolve_blocks(self, training.rows.n_features, training.rows.names)
        check_prior(options, training.rows.n_features)
        n, d = training.X.shape
        require_memory_beside(
            training.X,
            estimate_dual(options, training.X, training.supervision).memory,
            f"{type(self).__name__}.fit on {n:,} × {d:,}",
            "Lower n_components or n_triplets, or use DuRP, which needs least. estimate(X) "
            "predicts what a fit needs.",
        )

        def report(epoch: Epoch) -> None:
            if self.verbose:
                print(f"[{type(self).__name__}] {epoch}")
            if callback is not None:
                callback(epoch)

        found = learn(
            training.X,
            training.supervision,
            options,
            rng,
            W=self._scatter_of_all(training),
            callback=report,
        )
        if self.verbose > 1:
            print(f"[{type(self).__name__}] {found.seconds}")
        given, metric, more = found.comparisons, self.metric_of(found, training), {}
        if found.shares is not None:
            metric, more = metric.with_info(blocks=found.shares), {"block_weights_": found.shares}
        return {
            "metric_": metric,
            "comparisons_": Comparisons(training.numbers[given.index], given.margin, given.weight),
            "dual_coef_": found.solution.beta,
            "history_": found.solution.history,
            "duality_gap_": found.solution.gap,
            "n_iter_": found.solution.history[-1].epoch,
            "residual_": found.residual,
            "timings_": found.seconds.seconds,
            **more,
        }

    def metric_of(self, found: DualFit, training: Training) -> Metric:
        """The metric that was learned from the given rows."""
        if not found.scaled_first:
            return self._make_metric(
                found.factor, training, found.lifted, found.outside, found.blocks
            )
        before = self._make_metric(found.first, training, found.lifted, blocks=found.blocks)
        factor = to_numpy(found.factor)
        if factor is None:
            return before
        return Metric(
            factor,
            feature_names=before.feature_names,
            info=before.info,
            outside=found.outside,
            before=before.replaced(info={}, feature_names=None),
        )

    def estimate(self, X: Any, y: Any = None) -> Estimate:
        """Estimate what ``fit`` would need for X, from its shape and type alone.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Anything with a shape; without a ``dtype``, float64 is assumed.
        y : supervision, optional
            The y of ``fit``; labels make no difference.

        Returns
        -------
        Estimate
            Peak memory beyond X, operations, and the route taken; ``print`` shows it in words.
        """
        return estimate_dual(self, X, y)

    def _scatter_of_all(self, training: Training) -> Array | None:
        """W over all rows, in one pass; None if ``all_rows`` is not set."""
        if not self.all_rows or self.shrinkage == 1.0:
            return None
        if not isinstance(training.whole, Labels):
            raise ValueError("all_rows=True whitens by the labels of all rows: pass labels as y")
        n, d = training.rows.shape
        if len(training.numbers) == n:
            return None  # all rows are learned from
        if self.lift is not None or self.prior is not None:
            raise ValueError(
                "all_rows=True cannot be combined with a lift or a prior: leave one of them out"
            )
        if d > DENSE_LIMIT:
            raise ValueError(
                f"all_rows=True is for up to {DENSE_LIMIT:,} features, but X has {d:,}: leave it "
                f"out to use the scatter of the {len(training.numbers):,} rows learned from"
            )
        classes, codes = np.unique(training.whole.y, return_inverse=True)
        return within_scatter(training.rows, codes, len(classes))


_BLOCK_WEIGHTS = """
    block_weights_ : dict
        With ``blocks``: the share of each block in the prior's mean squared distance, by the name
        of the block ("block 0" and so on for blocks without a name)."""


@with_options
class DuRP(Updating, DualEstimator):
    """Dual random projection: the paper's Algorithm 1.

    The dual problem is solved on random projections of the rows, in ``n_projections`` dimensions.
    The dual variables are then used as weights of the comparisons in the original space, where the
    metric is rebuilt. So the metric is not restricted to the projection, but costs little more than
    one that is.

    {sections}

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

    space: ClassVar[str] = "projection"
    _attributes = DualEstimator._attributes + _BLOCK_WEIGHTS + Updating._updating_attributes

    n_projections: int = _projections_option(
        "Number of random directions for the dual problem (the paper's m)."
    )
    prior: Any = _prior_option()
    strength: float = _strength_option()
    blocks: Any = _blocks_option()


@with_options
class DuOri(Updating, DualEstimator):
    """Dual coordinate ascent in the original space.

    This is what DuRP approximates. Each step works with a d × d matrix.

    {sections}

    See Also
    --------
    DuRP : Nearly the same metric at a fraction of the cost.

    Examples
    --------
    >>> from dualmetric import DuOri, Triplets
    >>> X = [[0.0, 0.0], [0.0, 5.0], [1.0, 0.0]]
    >>> metric = DuOri(random_state=0).fit(X, Triplets([[0, 1, 2]])).metric_
    >>> metric.distance(X[:1], X[1:2]) < metric.distance(X[:1], X[2:3])
    array([ True])
    """

    _attributes = DualEstimator._attributes + _BLOCK_WEIGHTS + Updating._updating_attributes

    prior: Any = _prior_option()
    strength: float = _strength_option()
    blocks: Any = _blocks_option()


@with_options
class SRP(DualEstimator):
    """A metric learned on random projections and restricted to them: a baseline.

    {sections}

    See Also
    --------
    DuRP : Uses the projections for the dual variables only.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualmetric import SRP
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SRP(10, n_components=2, n_triplets=1000, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (1797, 2)
    """

    space: ClassVar[str] = "projection"
    rebuilt: ClassVar[bool] = False

    n_projections: int = _projections_option(
        "Number of random directions for the dual problem (the paper's m)."
    )


@with_options
class SPCA(DualEstimator):
    """A metric learned on principal components and restricted to them: a baseline.

    {sections}

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dualmetric import SPCA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SPCA(10, n_components=2, n_triplets=1000, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (1797, 2)
    """

    space: ClassVar[str] = "components"
    rebuilt: ClassVar[bool] = False

    n_projections: int = _projections_option(
        "Number of principal components, computed from all rows that are learned from."
    )
