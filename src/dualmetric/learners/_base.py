"""What every metric learner does alike."""

from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import products, sources
from .._namespace import (
    check_device_rows,
    check_device_shape,
    is_device_array,
    is_finite,
    precision,
    require_finite,
    require_memory_beside,
    to_numpy,
)
from .._types import Array, Rows
from .._validation import check_labels, refuse_mask
from ..evaluation import MOST_QUERIES, mean_average_precision
from ..lift import Lift
from ..metric import DISTANCES, Metric
from ..triplets import Triplets, sample_triplets

# Root mean square distance after scaling: chosen by benchmarks/scale.py. Well below, every dual
# variable is at its bound and the metric is blunt; well above, the active triplets of easy data
# are only those that no linear map can mend.
SCALE = 4.0

OUT_OF_RANGE = (
    "the numbers in X are too large or too small for their precision: bring them near 1, for "
    "example with StandardScaler, or pass float64"
)


def check_distance(distance: object) -> None:
    """Refuse a distance that `Metric` does not know, before anything is learned."""
    if distance not in DISTANCES:
        raise ValueError(f"distance must be one of {', '.join(DISTANCES)}; got {distance!r}")


def _device_labels(y: Any, rows: Array, n: int) -> Array:
    """Labels of the given rows: of labels on a device, only those come to the host."""
    if tuple(y.shape) not in ((n,), (n, 1)):
        raise ValueError(f"y has shape {tuple(y.shape)} for {n} rows; give one label for each row")
    if not is_finite(y):
        raise ValueError("y contains NaN or infinity: every row needs a label; drop the others")
    return check_labels(products.take_rows(y, rows), len(rows))


class MetricLearner(TransformerMixin, BaseEstimator):
    """Base of the estimators: ``fit`` sets ``metric_``, the rest is here."""

    metric_: Metric
    n_features_in_: int
    scale: bool
    distance: str
    _learns_on_device = False  # where not, rows to learn from are brought to the host

    def _check_X(self, X: Any, *, reset: bool) -> Rows:  # noqa: N802
        if is_device_array(X):
            return self._check_device_rows(X, reset)
        refuse_mask(X, "X")
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=2 if reset else 1,
        )
        return products.canonical(X) if reset else X

    def _check_device_rows(self, X: Any, reset: bool) -> Rows:
        """Do for a device array what scikit-learn does only where it is told to."""
        X = check_device_rows(X)
        n, d = X.shape
        if not reset:  # whether rows are finite is seen in what becomes of them
            if d != self.n_features_in_:
                raise ValueError(
                    f"X has {d} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            return X
        if n < 2:
            raise ValueError(f"Found array with {n} sample(s) while a minimum of 2 is required.")
        require_finite(X)
        self.n_features_in_ = d
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return X

    def _rows(self, X: Any, *, reset: bool = True) -> Any:
        """X as it is where it is a source of rows or on a device: those read of it are checked."""
        if is_device_array(X):
            check_device_shape(X)
            return X
        return X if sources.is_source(X) else self._check_X(X, reset=reset)

    def _read(
        self, X: Any, y: Any, triplets: Any, rng: np.random.Generator, *, reset: bool = True
    ) -> tuple[Rows, Any, Any, Array | None]:
        """Bring the rows to learn from into memory: those of triplets, or as many as are needed.

        X is what `_rows` gave. Returns checked X, y and triplets over the rows to learn from, and
        their numbers (None where X is learned from as it is).
        """
        X, y = sources.opened(X, y)
        triplets = to_numpy(triplets)
        from_source, on_device = sources.is_source(X), is_device_array(X)
        n, rows = X.shape[0], None
        if from_source or sources.has_more_than_needed(X):
            if triplets is None:
                rows = sources.learning_rows(n, rng)
                if y is not None and not is_device_array(y):
                    labels = check_labels(y, n)
                    rows = sources.with_rare_classes(rows, labels, rng)
                    y = labels[rows]
                elif y is not None:
                    y = _device_labels(y, rows, n)
            elif from_source or on_device:
                refuse_mask(triplets, "triplets")
                index = triplets.index if isinstance(triplets, Triplets) else triplets
                given = Triplets.from_array(index, n)
                rows = given.rows()
                y, triplets = None, given.renumber(rows)
        if rows is not None and from_source:
            X = sources.gather(X, rows)
        elif rows is not None:
            require_memory_beside(
                X,
                len(rows) * X.shape[1] * 8,
                f"copying {len(rows):,} rows of {X.shape[1]:,} features to learn from",
                "Free memory there, or fit on a part of the rows.",
            )
            X = products.take_rows(X, rows)
        if from_source or on_device:
            X = self._check_X(X if self._learns_on_device else to_numpy(X), reset=reset)
        return X, to_numpy(y), triplets, rows

    def _length_unit(self, X: Rows) -> float:
        """Length that counts as one: with ``scale``, a quarter of the RMS distance of rows."""
        if products.all_rows_equal(X):
            raise ValueError(
                "all rows of X are the same (every feature is constant): there is no distance to "
                "learn from; check that X holds the features you meant"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            mean = products.mean_sq_distance(X)
        limits = np.finfo(precision(X))
        # room for sums of many squares, and for their inverses
        if not float(limits.tiny) ** 0.8 < mean < float(limits.max) ** 0.8:
            raise ValueError(OUT_OF_RANGE)
        return float(np.sqrt(mean)) / SCALE if self.scale else 1.0

    def _store_metric(
        self,
        factor: Array | None,
        X: Rows,
        lift: Lift | None = None,
        nystroem: Array | None = None,
    ) -> Self:
        """Set ``metric_``; X holds the training rows, whose mean is the centre of the cosine.

        With a lift, X and the factor are those of kernel features k(x)·nystroem.
        """
        centre = None
        if self.distance == "cosine" and not (factor is None and products.is_sparse(X)):
            mean = (sources if sources.is_source(X) else products).column_means(X)
            centre = mean if factor is None else mean @ factor
        if nystroem is not None:
            factor = nystroem @ factor
        names = getattr(self, "feature_names_in_", None)
        parameters = {
            key: value
            for key, value in self.get_params(deep=False).items()
            if value is None or isinstance(value, bool | int | float | str)
        }
        if lift is not None:
            lift = Lift(to_numpy(lift.landmarks), lift.gamma)
        self.metric_ = Metric(
            to_numpy(factor),
            self.n_features_in_,
            None if names is None else tuple(names),
            {"method": type(self).__name__, "parameters": parameters},
            to_numpy(centre),
            self.distance,
            lift=lift,
        )
        return self

    @property
    def components_(self) -> Array:
        """Directions of the metric, one a row: Lᵀ. With a lift, they are over its landmarks."""
        check_is_fitted(self)
        factor = self.metric_.factor
        return self.metric_.matrix() if factor is None else factor.T

    def transform(self, X: Any) -> Rows:
        """Map rows to where the Euclidean distance is the learned metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Rows in the original features.

        Returns
        -------
        array of shape (n_samples, n_components)
            The rows, in the precision of X, and on its device.
        """
        check_is_fitted(self)
        if sources.is_source(X):
            return self.metric_.transform(X)
        return self.metric_.apply(self._check_X(X, reset=False))

    def pair_distance(self, A: Any, B: Any) -> Array:
        """Learned distance between each row of A and the same row of B."""
        check_is_fitted(self)
        checked = (X if sources.is_source(X) else self._check_X(X, reset=False) for X in (A, B))
        return self.metric_.distance(*checked)

    def score(self, X: Any, y: Any) -> float:
        """Mean average precision: each row of X queries the others (see `mean_average_precision`).

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Rows in the original features. Of those that are not in memory (on disk, or of Dask),
            1,000 query all, or fewer (see there).
        y : array-like of shape (n_samples,), or str
            Their labels, or the name of their column in a Dask DataFrame.

        Returns
        -------
        float
            Between 0 and 1.
        """
        check_is_fitted(self)
        X, y = sources.opened(X, y, getattr(self, "feature_names_in_", None))
        rows = self.transform(X)
        labels = check_labels(y, rows.shape[0])
        on_disk = sources.is_source(X) and not sources.is_dask(X)
        return mean_average_precision(rows, labels, MOST_QUERIES if on_disk else None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class LinearMetricLearner(ClassNamePrefixFeaturesOutMixin, MetricLearner):
    """Base of the learners whose columns are new directions: ``durp0``, and so on."""

    @property
    def _n_features_out(self) -> int:
        return self.metric_.rank

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class TripletLearner(LinearMetricLearner):
    """Base of the learners that compare rows by triplets, given or sampled from labels."""

    n_triplets: int
    sampler: str

    def _get_triplets(
        self, X: Rows, y: Any, triplets: Any, unit: float, rng: np.random.Generator
    ) -> Triplets:
        if isinstance(triplets, Triplets):
            triplets = triplets.index
        if triplets is not None:
            refuse_mask(triplets, "triplets")
            return Triplets.from_array(triplets, X.shape[0])
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; labels "
                "may be replaced by triplets: fit(X, triplets=T)"
            )
        labels = check_labels(y, X.shape[0])
        return sample_triplets(X, labels, self.n_triplets, self.sampler, rng, margin=unit**2)


class Euclidean(OneToOneFeatureMixin, MetricLearner):
    """The plain Euclidean distance, as an estimator: the baseline of every comparison.

    Parameters
    ----------
    distance : {"euclidean", "cosine"}, default="euclidean"
        With "cosine", rows are centred by the mean of the training rows (sparse rows are not) and
        scaled to length one: the plain cosine distance.

    Attributes
    ----------
    metric_ : Metric
        The identity.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had names that are all strings.

    Examples
    --------
    >>> from dualmetric import Euclidean
    >>> Euclidean().fit([[0.0], [1.0]]).pair_distance([[0.0]], [[3.0]])
    array([3.])
    """

    def __init__(self, distance: str = "euclidean") -> None:
        self.distance = distance

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the width and the mean of X; y is ignored.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Training rows.
        y : object
            Not used.

        Returns
        -------
        Euclidean
            Itself.
        """
        check_distance(self.distance)
        if sources.is_source(X):
            X, _ = sources.opened(X, y)
            first = self._check_X(sources.gather(X, np.arange(min(2, X.shape[0]))), reset=True)
            X = first if products.is_sparse(first) else X  # sparse rows are not centred
        else:
            X = self._check_X(X, reset=True)
        return self._store_metric(None, X)
