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

from .._types import Array, Rows
from .._validation import canonical, check_labels, refuse_mask
from ..evaluation import mean_average_precision
from ..metric import Metric


class MetricLearner(TransformerMixin, BaseEstimator):
    """Base of the estimators: ``fit`` sets ``metric_``, the rest is here."""

    metric_: Metric

    def _check_X(self, X: Any, *, reset: bool) -> Rows:  # noqa: N802
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
        return canonical(X)

    def _store_metric(self, factor: Array | None) -> Self:
        names = getattr(self, "feature_names_in_", None)
        parameters = {
            key: value
            for key, value in self.get_params(deep=False).items()
            if value is None or isinstance(value, bool | int | float | str)
        }
        self.metric_ = Metric(
            factor,
            self.n_features_in_,
            None if names is None else tuple(names),
            {"method": type(self).__name__, "parameters": parameters},
        )
        return self

    @property
    def components_(self) -> Array:
        """Directions of the metric, one a row: Lᵀ."""
        check_is_fitted(self)
        factor = self.metric_.factor
        return self.metric_.matrix() if factor is None else factor.T

    def transform(self, X: Any) -> Rows:
        """Map rows to where the Euclidean distance is the learned metric.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows in the original features.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            The rows, in the precision of X.
        """
        check_is_fitted(self)
        return self.metric_.transform(self._check_X(X, reset=False))

    def pair_distance(self, A: Any, B: Any) -> Array:
        """Learned distance between each row of A and the same row of B."""
        check_is_fitted(self)
        return self.metric_.distance(self._check_X(A, reset=False), self._check_X(B, reset=False))

    def score(self, X: Any, y: Any) -> float:
        """Mean average precision: each row of X queries the others (see `mean_average_precision`).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows in the original features.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        float
            Between 0 and 1.
        """
        check_is_fitted(self)
        rows = self.metric_.transform(self._check_X(X, reset=False))
        return mean_average_precision(rows, check_labels(y, rows.shape[0]))

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


class Euclidean(OneToOneFeatureMixin, MetricLearner):
    """The plain Euclidean distance, as an estimator: the baseline of every comparison.

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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the width of X; y is ignored.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : object
            Not used.

        Returns
        -------
        Euclidean
            Itself.
        """
        self._check_X(X, reset=True)
        return self._store_metric(None)
