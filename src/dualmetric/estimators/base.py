"""What every estimator has in common: opening X and y, storing the metric, and using it."""

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._options import check_options, option, with_options
from .._rows import Rows, column_means, open_rows
from .._types import Array, Matrix
from ..lift import Lift
from ..metric import Metric
from ..problem import LiftedRows
from ..supervision import Supervision, as_supervision


class Training(NamedTuple):
    """Rows to learn from, in memory, and what is known about them."""

    rows: Rows  # all rows that were given
    whole: Supervision  # what is known about them
    numbers: Array  # numbers of the rows to learn from
    X: Matrix  # these rows
    supervision: Supervision  # what is known about them

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are used, and how many were given."""
        return {"used": len(self.numbers), "given": self.rows.shape[0]}


def open_training(
    owner: str,
    X: Any,
    y: Any,
    max_rows: int | None,
    rng: np.random.Generator,
    known: Metric | None = None,
) -> Training:
    """Open X and y, and choose the rows to learn from.

    Where learning continues from a ``known`` metric, columns of a data frame are taken by its
    names.
    """
    if known is None:
        rows, y = open_rows(X, y)
    else:
        rows, y = open_rows(X, y, names=known.feature_names, width=known.n_features)
        rows.check_width(known.n_features, owner)
        rows.names = rows.names or known.feature_names
    n = check_two_rows(rows, owner)
    whole = as_supervision(y, n, owner)
    numbers = whole.choose(n, max_rows, rng)
    if len(numbers) == n:
        return Training(rows, whole, numbers, rows.take(), whole)
    return Training(rows, whole, numbers, rows.take(numbers), whole.take(numbers))


def check_two_rows(rows: Rows, owner: str) -> int:
    """Refuse fewer than two rows, in scikit-learn's words; returns their number."""
    n = rows.shape[0]
    if n < 2:
        raise ValueError(
            f"Found array with {n} sample(s) (shape={rows.shape}) while a minimum of 2 is required "
            f"by {owner}."
        )
    return n


def generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator for scikit-learn's ``random_state``."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


class MetricEstimator(TransformerMixin, BaseEstimator):
    """Base of the estimators: ``fit`` sets ``metric_``, the rest is here."""

    metric_: Metric
    n_features_in_: int
    distance: str

    def _make_metric(
        self,
        factor: Matrix | None,
        training: Training,
        lifted: LiftedRows | None = None,
        outside: float = 0.0,
    ) -> Metric:
        """Metric of a factor over (lifted) rows, whose mean is the centre of the cosine."""
        X, lift, nystroem = lifted or LiftedRows(training.X)
        centre = None
        if self.distance == "cosine" and not outside:
            centre = ops.centre_of(X) if factor is None else ops.column_means(X) @ factor
        if lift is not None:
            factor = nystroem if factor is None else nystroem @ factor
            lift = Lift(to_numpy(lift.landmarks), lift.gamma)
        return Metric(
            to_numpy(factor),
            training.rows.n_features,
            training.rows.names,
            {**self._described(), "rows": training.counts},
            to_numpy(centre),
            self.distance,
            lift=lift,
            outside=outside,
        )

    def _described(self) -> dict[str, Any]:
        """What a metric remembers about the estimator that learned it."""
        parameters = {
            key: repr(value) if hasattr(value, "n_features") else value  # a prior is a metric
            for key, value in self.get_params(deep=False).items()
            if value is None
            or isinstance(value, bool | int | float | str)
            or hasattr(value, "n_features")
        }
        return {"method": type(self).__name__, "parameters": parameters}

    def _store(self, rows: Rows, counts: dict[str, int] | None = None, **fitted: Any) -> Self:
        """Set everything that was learned, in one place: a fit that failed changes nothing."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.n_features_in_ = rows.n_features
        if rows.names is not None:
            fitted["feature_names_in_"] = np.array(rows.names, dtype=object)
        if counts is not None:
            fitted |= {"n_rows_used_": counts["used"], "n_rows_in_": counts["given"]}
        self.__dict__.update(fitted)
        return self

    def _say_rows_used(self, counts: dict[str, int], verbose: int) -> None:
        if verbose and counts["used"] < counts["given"]:
            print(
                f"[{type(self).__name__}] learning from {counts['used']:,} of "
                f"{counts['given']:,} rows (max_rows)"
            )

    @property
    def components_(self) -> Array:
        """Directions of the metric, one per row: Lᵀ. With a lift, they are over its landmarks."""
        check_is_fitted(self)
        factor = self.metric_.factor
        return self.metric_.matrix() if factor is None else factor.T

    def _open(self, X: Any, y: Any = None) -> tuple[Rows, Any]:
        """Rows with the features that were learned from."""
        check_is_fitted(self)
        names = self.metric_.feature_names
        rows, y = open_rows(X, y, names=names, width=self.n_features_in_)
        rows.check_width(self.n_features_in_, type(self).__name__)
        return rows, y

    def transform(self, X: Any) -> Matrix:
        """Map rows to where the Euclidean distance is the learned metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows in the original features. Columns of a data frame are taken by name.

        Returns
        -------
        array of shape (n_samples, n_components)
            The rows, in the precision of X, and on its device.
        """
        rows, _ = self._open(X)
        return self.metric_.transform(rows)

    def pair_distance(self, A: Any, B: Any) -> Array:
        """Learned distance between each row of A and the same row of B."""
        (a, _), (b, _) = self._open(A), self._open(B)
        return self.metric_.distance(a, b)

    def score(self, X: Any, y: Any) -> float:
        """How well the metric agrees with what is known about X.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows in the original features. Of those that are not in memory (on disk, or of Dask),
            1,000 query all, or fewer (see `mean_average_precision`).
        y : array-like of shape (n_samples,), str, Triplets or Comparisons
            Labels, or the name of their column in a data frame: the score is then the mean average
            precision, where each row of X queries the others. For triplets and comparisons, it is
            the share that the metric satisfies.

        Returns
        -------
        float
            Between 0 and 1.
        """
        rows, y = self._open(X, y)
        supervision = as_supervision(y, rows.shape[0], type(self).__name__)
        return supervision.score(self.metric_, rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class LearnedMetricEstimator(ClassNamePrefixFeaturesOutMixin, MetricEstimator):
    """Base of the estimators whose columns are new directions: ``durp0``, and so on."""

    @property
    def _n_features_out(self) -> int:
        return self.metric_.rank

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@with_options
class Euclidean(OneToOneFeatureMixin, MetricEstimator):
    """The plain Euclidean distance, as an estimator: the baseline of every comparison.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    metric_ : Metric
        The identity.
    {fitted}

    Examples
    --------
    >>> from dualmetric import Euclidean
    >>> Euclidean().fit([[0.0], [1.0]]).pair_distance([[0.0]], [[3.0]])
    array([3.])
    """

    distance: str = option(
        "str",
        default="euclidean",
        help='With "cosine", rows are centred by the mean of the training rows (sparse rows are '
        "not) and scaled to length one: the plain cosine distance.",
        kw_only=False,
        choices=("euclidean", "cosine"),
        flag="euclidean or cosine.",
    )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the width and the mean of X.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows.
        y : object
            Not used, except as the name of a column of a data frame that is not a feature.

        Returns
        -------
        Euclidean
            Itself.
        """
        check_options(self)
        rows, _ = open_rows(X, y if isinstance(y, str) else None)
        n = check_two_rows(rows, "Euclidean")
        counts = {"used": n, "given": n}
        first = rows.take(np.arange(2))
        centre = None
        if self.distance == "cosine" and ops.centre_of(first) is not None:
            centre = column_means(rows)
        centre = to_numpy(centre)
        metric = Metric(None, rows.n_features, rows.names, self._described(), centre, self.distance)
        return self._store(rows, counts, metric_=metric)
