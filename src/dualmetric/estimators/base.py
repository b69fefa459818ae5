"""What every estimator has in common: opening X and y, storing the metric, and using it."""

from reprlib import repr as brief
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

from .._arrays import judged, ops
from .._arrays.namespace import in_full_precision, to_numpy
from .._options import check_options, option, with_options
from .._rows import Rows, column_means, open_rows
from .._types import Array, Matrix
from .._validation import warn
from ..blocks import Blocks
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
        given = self.rows.shape[0]
        return {"used": int(np.count_nonzero(self.numbers < given)), "given": given}


def open_training(
    estimator: Any, X: Any, y: Any, rng: np.random.Generator, known: Metric | None = None
) -> Training:
    """Open X and y, and choose the rows to learn from.

    Where learning continues from a ``known`` metric, columns of a data frame are taken by its
    names.
    """
    owner = type(estimator).__name__
    if known is None:
        rows, y = open_rows(X, y)
    else:
        rows, y = open_rows(X, y, names=known.feature_names, width=known.n_features)
        rows.check_width(known.n_features, owner)
        rows.names = rows.names or known.feature_names
    n = check_two_rows(rows, owner)
    _hint_at_pairs(X, y)
    whole = as_supervision(y, n, owner, rows.names)
    numbers = whole.choose(n, estimator.max_rows, rng)
    chosen = numbers[numbers < n]
    if getattr(estimator, "verbose", 0) and len(chosen) < n:
        print(f"[{owner}] learning from {len(chosen):,} of {n:,} rows (max_rows)")
    if whole.queries is None:
        if len(numbers) == n:
            return Training(rows, whole, numbers, rows.take(), whole)
        return Training(rows, whole, numbers, rows.take(numbers), whole.take(numbers))
    queries = whole.queries.take(numbers[len(chosen) :] - n)
    if queries.shape[1] != rows.n_features:
        raise ValueError(
            f"queries have {queries.shape[1]} features and X has {rows.n_features}: a metric "
            "compares rows with the same features; for queries with other features use QueryMetric"
        )
    X = judged.below(rows.take(chosen), queries)
    return Training(rows, whole, numbers, X, whole.take(numbers))


def _hint_at_pairs(X: Any, y: Any) -> None:
    """Warn if X looks like pairs of row numbers."""
    if isinstance(X, list):  # checked before, so that it is an array
        X = np.asarray(X)
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.shape[1] != 2 or X.dtype.kind not in "iu":
        return
    if y is None or isinstance(y, Supervision | str):
        return
    labels = np.asarray(to_numpy(y))
    two = "True and False" if labels.dtype.kind == "b" else "-1 and 1"
    if (labels.dtype.kind == "b" or np.isin(labels, (-1, 1)).all()) and X.min() >= 0:
        warn(
            f"X has two columns of whole numbers, and y holds {two} only: if these are pairs of "
            "row numbers, pass the rows themselves as X and Pairs(pairs, same) as y"
        )


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
    return np.random.default_rng(seed_of(random_state))


def seed_of(random_state: Any) -> int:
    """Seed that follows from scikit-learn's ``random_state``."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be a whole number from 0 to 2**32 - 1, a RandomState or None; got "
            f"{brief(random_state)} ({error})"
        ) from None


def store_fitted(
    estimator: Any, rows: Rows, counts: dict[str, int], fitted: dict[str, Any]
) -> None:
    """Replace all fitted attributes, in one place: a fit that failed changes nothing."""
    new = {
        "n_features_in_": rows.n_features,
        "n_rows_used_": counts["used"],
        "n_rows_in_": counts["given"],
        **fitted,
    }
    if rows.names is not None:
        new["feature_names_in_"] = np.array(rows.names, dtype=object)
    kept = {key: value for key, value in vars(estimator).items() if not key.endswith("_")}
    estimator.__dict__ = kept | new


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
        blocks: Blocks | None = None,
    ) -> Metric:
        """Metric with a factor over (lifted) rows; their mean is the centre of the cosine."""
        X, lift, nystroem = lifted or LiftedRows(training.X)
        distance, centre = self.distance, None
        if factor is not None and factor.shape[1] == 1 and not outside:
            distance = "euclidean"  # in one direction, the cosine is only a sign
        if distance == "cosine" and not outside and blocks is None:
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
            distance,
            lift=lift,
            outside=outside,
            blocks=blocks,
        )

    def _described(self) -> dict[str, Any]:
        """What a metric remembers about the estimator that learned it."""
        plain = bool | int | float | str | None
        parameters = {
            key: value if isinstance(value, plain) else repr(value)
            for key, value in self.get_params(deep=False).items()
            if isinstance(value, plain) or hasattr(value, "n_features")  # a prior is a metric
        }
        return {"method": type(self).__name__, "parameters": parameters}

    def _store(self, rows: Rows, counts: dict[str, int], **fitted: Any) -> Self:
        """Set everything that was learned."""
        store_fitted(self, rows, counts, fitted)
        return self

    @property
    def components_(self) -> Array:
        """Directions of the metric, one per row: Lᵀ. With a lift, they are over its landmarks."""
        check_is_fitted(self)
        factor = self.metric_.factor
        return self.metric_.matrix() if factor is None else factor.T

    def _open(self, X: Any, y: Any = None, name: str = "X") -> tuple[Rows, Any]:
        """Rows with the features that were learned from."""
        check_is_fitted(self)
        names = self.metric_.feature_names
        rows, y = open_rows(X, y, names=names, width=self.n_features_in_, name=name)
        rows.check_width(self.n_features_in_, type(self).__name__)
        return rows, y

    def transform(self, X: Any) -> Matrix:
        """Map rows to a space in which the Euclidean distance equals the learned metric.

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
        """Learned distance between each row of A and the corresponding row of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix, data frame, row source} of shape (n_rows, n_features)
            Rows in the original features.

        Returns
        -------
        array of shape (n_rows,)
            Distances.
        """
        (a, _), (b, _) = self._open(A, name="A"), self._open(B, name="B")
        return self.metric_.distance(a, b)

    def score(self, X: Any, y: Any) -> float:
        """Score how well the metric agrees with what is known about X.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Rows in the original features. If they are not in memory (on disk or in Dask), at most
            1,000 of them are used as queries (see `mean_average_precision`).
        y : array-like of shape (n_samples,), str or supervision
            Labels, or the name of their column in a data frame: the score is then the mean average
            precision, where each row of X queries the others. For triplets and comparisons the
            score is the share that the metric satisfies, for pairs the average precision, and for
            positives and relevance nDCG@10.

        Returns
        -------
        float
            Between 0 and 1.
        """
        rows, y = self._open(X, y)
        owner = type(self).__name__
        supervision = as_supervision(y, rows.shape[0], owner, self.metric_.feature_names)
        return supervision.score(self.metric_, rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class LearnedMetricEstimator(ClassNamePrefixFeaturesOutMixin, MetricEstimator):
    """Base of the estimators that learn; their output columns are called ``durp0`` and so on."""

    random_state: Any

    @in_full_precision
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows; at most ``max_rows`` of them are learned from.
        y : array-like of shape (n_samples,), str or supervision
            Labels, the name of their column in a data frame, or what is known in another form:
            pairs, positives, relevance, triplets, comparisons (see `dualmetric.supervision`).

        Returns
        -------
        self
            The fitted estimator.
        """
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, known: Metric | None = None, **how: Any) -> Self:
        check_options(self)
        rng = generator(self.random_state)
        training = open_training(self, X, y, rng, known)
        return self._store(training.rows, training.counts, **self._learn(training, rng, **how))

    def _learn(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Learn from a `Training`, with a random generator; returns the fitted attributes."""
        raise NotImplementedError

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

    {sections}

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
        flag="How vectors are compared: euclidean or cosine.",
    )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the number of features and, for the cosine, the mean of X.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame, row source} of shape (n_samples, n_features)
            Training rows.
        y : object
            Not used, unless it is the name of a column of a data frame, which is then not a
            feature.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_options(self)
        rows, _ = open_rows(X, y if isinstance(y, str) else None)
        n = check_two_rows(rows, "Euclidean")
        dense = ops.centre_of(rows.take(np.arange(2))) is not None
        centre = to_numpy(column_means(rows)) if dense and self.distance == "cosine" else None
        metric = Metric(None, rows.n_features, rows.names, self._described(), centre, self.distance)
        return self._store(rows, {"used": n, "given": n}, metric_=metric)
