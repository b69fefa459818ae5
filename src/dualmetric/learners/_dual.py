"""The body that DuRP, DuOri, SRP and SPCA share: validate, call, store."""

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from .. import products, sources, spaces
from .._namespace import (
    in_full_precision,
    is_device_array,
    is_finite,
    like,
    precision,
    require_memory_beside,
    to_numpy,
)
from .._types import Array, Rows
from .._validation import check_labels
from ..lift import LANDMARKS, rbf_lift
from ..losses import get_loss
from ..recovery import DENSE_LIMIT, TOLERANCE, recover_factor
from ..solver import Epoch, solve_dual
from ..triplets import Triplets
from ..whitening import ExplicitScatter, ImplicitScatter, Scatter, of_pairs, within_classes
from ._base import OUT_OF_RANGE, TripletLearner, check_distance
from ._clock import Clock
from ._estimate import Estimate, estimate_fit

SPAN_LIMIT = 2000  # rows up to which n × n inner products and their eigenvectors are cheap


class DualLearner(TripletLearner):
    """The shared body. Subclasses say in which space the dual problem is solved."""

    _learns_on_device = True
    _rebuilt_in_original = True
    _copies_rows = False  # all of them, to find the space

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
        power: float = 0.5,
        lift: str | None = None,
        all_rows: bool = False,
        eigen_tol: float = TOLERANCE,
        distance: str = "euclidean",
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
        self.power = power
        self.lift = lift
        self.all_rows = all_rows
        self.eigen_tol = eigen_tol
        self.distance = distance
        self.scale = scale
        self.random_state = random_state
        self.verbose = verbose

    @in_full_precision
    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> Self:
        """Learn the metric from labels or from triplets.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Training rows. A memory map, or an object with ``shape``, ``dtype`` and row slicing
            (HDF5, Zarr), is read in blocks: of more than 50,000 rows, as many are chosen at random,
            evenly over all. So are those of a Dask array, whose blocks are dense or CSR; of a Dask
            DataFrame, whose features are columns of numbers or one column of vectors; of an array
            on a device (PyTorch, CuPy), where the work is then done; and of dense rows in memory,
            where these are more than three times as many.
        y : array-like of shape (n_samples,) or str, optional
            Their labels, of any type; used only where ``triplets`` is None. A string is the name of
            the column of labels in a Dask DataFrame.
        triplets : array-like of shape (n_triplets, 3) or Triplets, optional
            Row numbers of X: (anchor, positive, negative).

        Returns
        -------
        self
            The fitted learner.
        """
        self._check_parameters()
        loss = get_loss(self.loss)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        X, y = sources.opened(X, y)
        X = self._rows(X)
        whole = self._scatter_of_all(X, y, triplets)
        X, y, triplets, numbers = self._read(X, y, triplets, rng)
        require_memory_beside(
            X,
            self.estimate(X, triplets=triplets).memory,
            f"{type(self).__name__}.fit on {X.shape[0]:,} × {X.shape[1]:,}",
            "Lower n_components or n_triplets; DuRP needs least; estimate(X) tells beforehand.",
        )
        clock = Clock()
        lift, nystroem = rbf_lift(X, rng) if self.lift == "rbf" else (None, None)
        if lift is not None and nystroem is not None:
            X = lift.apply(X, nystroem)
            clock.stop("lift")
        unit = self._length_unit(X)
        self.triplets_ = self._get_triplets(X, y, triplets, unit, rng)
        clock.stop("sampling")
        reg = 1.0 / len(self.triplets_) if self.reg is None else float(self.reg)

        share = 0.0 if self.all_rows else sources.COPIED_SHARE
        rows, index, named = _rows_in_play(X, self.triplets_, share)
        labels = None if y is None or triplets is not None else np.asarray(y)[named]
        spanned = None
        if self._rebuilt_in_original:
            if rows.shape[0] < min(rows.shape[1], SPAN_LIMIT):
                spanned = rows
                rows, rotation = spaces.row_span(rows)
            scatter = self._scatter(rows, index, labels, whole, X.shape[1])
            Z, basis = self._space(rows, X, rng, scatter)
        else:
            rows, basis = self._space(rows, X, rng, None)
            if whole is not None and basis is not None:
                whole = to_numpy(basis).T @ whole @ to_numpy(basis)
            scatter = self._scatter(rows, index, labels, whole, X.shape[1])
            Z = spaces.original(rows, scatter)
        if scatter is not None and self.scale:
            unit = self._length_unit(Z)  # the length that counts as one is that of whitened rows
        clock.stop("projection")
        solution = solve_dual(
            Z / unit,
            index,
            loss,
            reg=reg,
            max_epochs=self.max_epochs,
            tol=self.tol,
            rng=rng,
            callback=self._print_epoch if self.verbose else None,
        )
        clock.stop("solving")
        if numbers is not None:
            self.triplets_ = Triplets(numbers[self.triplets_.index])
        self.dual_coef_ = solution.beta
        self.history_ = solution.history
        self.duality_gap_ = solution.gap
        self.n_iter_ = solution.history[-1].epoch

        weight = solution.beta / (reg * len(index))
        factor, self.residual_ = recover_factor(
            rows,
            index,
            weight,
            self.n_components,
            rng,
            unit=unit,
            scatter=scatter,
            power=self.power,
            tolerance=self.eigen_tol,
        )
        if not self._rebuilt_in_original:
            factor = basis @ factor
        elif spanned is not None:
            factor = products.tdot(spanned, rotation @ factor)
        clock.stop("recovery")
        self.timings_ = clock.seconds
        if self.verbose > 1:
            print(f"[{type(self).__name__}] {clock}")
        if not is_finite(factor):
            raise ValueError(OUT_OF_RANGE)
        if factor.shape[1] == 0:
            warnings.warn(
                f"the {len(index):,} triplets leave no direction in which rows that should be near "
                "are nearer than rows that should be far: the plain distance is kept. Check that "
                "labels or triplets belong to these rows; sampler='neighbors' may find more.",
                UserWarning,
                stacklevel=3,
            )
            if lift is None:
                return self._store_metric(None if self._rebuilt_in_original else basis, X)
            factor = like(np.eye(X.shape[1]), X)
        return self._store_metric(factor, X, lift, nystroem)

    def estimate(self, X: Any, *, triplets: Any = None) -> Estimate:
        """Say what ``fit`` would need for X, without looking at its numbers.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Anything with a shape; without a ``dtype`` it counts as float64.
        triplets : array-like of shape (n_triplets, 3) or Triplets, optional
            The triplets that ``fit`` would be given.

        Returns
        -------
        Estimate
            Peak memory beyond X, operations, and the route taken; ``print`` shows it in words.
        """
        X, _ = sources.opened(X)
        n, d = X.shape if hasattr(X, "shape") else np.shape(X)
        on_device = is_device_array(X)
        dtype = precision(X) if on_device else getattr(X, "dtype", None)
        itemsize = 4 if dtype == np.float32 else 8
        sparse = products.is_sparse(X)
        copies = int(sources.is_source(X)) + int(self._copies_rows and not sparse)
        if hasattr(X, "shape") and triplets is None and sources.has_more_than_needed(X):
            n, copies = sources.LEARNING_ROWS, max(copies, 1)
        read = copies * n * d * itemsize
        if self.lift is not None:
            d = min(n, LANDMARKS)
            read += n * d * itemsize + 4 * d * d * 8  # kernel features, and what gives them
        found = estimate_fit(
            n_rows=n,
            n_features=d,
            n_entries=X.nnz if sparse else n * d,
            itemsize=itemsize,
            sparse=sparse,
            dual_dimensions=min(getattr(self, "n_projections", d), d),
            rebuilt_in_original=self._rebuilt_in_original,
            n_triplets=self.n_triplets if triplets is None else len(triplets),
            n_components=self.n_components,
            max_epochs=self.max_epochs,
            whitened=self.shrinkage < 1.0,
            span_limit=SPAN_LIMIT,
        )
        return found._replace(memory=found.memory + read)

    @abstractmethod
    def _space(
        self, rows: Rows, X: Rows, rng: np.random.Generator, scatter: Scatter | None
    ) -> tuple[Array, Array | None]:
        """Rows of the triplets in the space of the dual problem, and the map to it."""

    def _scatter_of_all(self, X: Any, y: Any, triplets: Any) -> Array | None:
        """W over all rows of many, in one pass; None where it is not wanted."""
        if not self.all_rows or self.shrinkage == 1.0:
            return None
        if y is None or triplets is not None:
            raise ValueError("all_rows=True whitens by the labels of all rows: fit(X, y)")
        if not sources.has_more_than_needed(X):
            return None  # all rows are learned from
        on_device = is_device_array(X)
        n, d = X.shape
        if self.lift is not None:
            raise ValueError("all_rows=True does not go with a lift: leave out one of them")
        if d > DENSE_LIMIT:
            raise ValueError(
                f"all_rows=True is for up to {DENSE_LIMIT:,} features, and X has {d:,}: leave it "
                f"out, and the scatter is that of {sources.LEARNING_ROWS:,} rows"
            )
        if on_device:
            from .._device import all_rows_scatter

            return all_rows_scatter(X, y)
        classes, codes = np.unique(check_labels(y, n), return_inverse=True)
        return sources.within_scatter(X, codes, len(classes))

    def _scatter(
        self,
        rows: Rows,
        index: Triplets,
        labels: Array | None,
        whole: Array | None,
        n_features: int,
    ) -> Scatter | None:
        """S, by which the rows are whitened; None where they are not."""
        if self.shrinkage == 1.0:
            return None
        if whole is not None and np.trace(whole) > 0.0:
            trace = float(np.trace(whole))
            return ExplicitScatter(like(whole, rows), trace, self.shrinkage, len(whole))
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
            # few rows span fewer dimensions than they have features: the ridge is that of all
            width = n_features if self._rebuilt_in_original else rows.shape[1]
            return ExplicitScatter.of_rows(rows, spread, self.shrinkage, width)
        return ImplicitScatter(rows, spread, self.shrinkage)

    def _check_parameters(self) -> None:
        check_distance(self.distance)
        check_scalar(self.n_triplets, "n_triplets", Integral, min_val=1)
        check_scalar(self.max_epochs, "max_epochs", Integral, min_val=1)
        if self.n_components is not None:
            check_scalar(self.n_components, "n_components", Integral, min_val=1)
        if self.reg is not None:
            check_scalar(self.reg, "reg", Real, min_val=0, include_boundaries="neither")
        if self.tol is not None:
            check_scalar(self.tol, "tol", Real, min_val=0)
        check_scalar(
            self.shrinkage, "shrinkage", Real, min_val=0, max_val=1, include_boundaries="right"
        )
        check_scalar(self.eigen_tol, "eigen_tol", Real, min_val=0, include_boundaries="neither")
        check_scalar(self.power, "power", Real, min_val=-1)
        for name in ("reg", "tol", "shrinkage", "power", "eigen_tol"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(value):  # NaN passes check_scalar
                raise ValueError(f"{name} must be a finite number; got {value}")
        if self.lift not in (None, "rbf"):
            raise ValueError(f"lift must be None or 'rbf'; got {self.lift!r}")
        for name in ("scale", "all_rows"):
            check_scalar(getattr(self, name), name, (bool, np.bool_))

    def _print_epoch(self, epoch: Epoch) -> None:
        print(
            f"[{type(self).__name__}] epoch {epoch.epoch}: primal {epoch.primal:.6g}, "
            f"dual {epoch.dual:.6g}, gap {epoch.gap:.3g}"
        )


def _rows_in_play(X: Rows, triplets: Triplets, share: float) -> tuple[Rows, Triplets, Array]:
    """Only rows that triplets name take part; below a share of all, work on a copy of them.

    Returns the rows, the triplets over them, and their numbers in X.
    """
    named = triplets.rows()
    if len(named) > share * X.shape[0]:
        return X, triplets, np.arange(X.shape[0])
    return products.take_rows(X, named), triplets.renumber(named), named


class ProjectedLearner(DualLearner):
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
        power: float = 0.5,
        lift: str | None = None,
        all_rows: bool = False,
        eigen_tol: float = TOLERANCE,
        distance: str = "euclidean",
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
            power=power,
            lift=lift,
            all_rows=all_rows,
            eigen_tol=eigen_tol,
            distance=distance,
            scale=scale,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_projections = n_projections

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scalar(self.n_projections, "n_projections", Integral, min_val=1)
