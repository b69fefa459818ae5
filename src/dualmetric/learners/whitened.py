"""The plain distance of whitened rows, as an estimator."""

from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from .._namespace import in_full_precision, require_memory_beside
from .._validation import check_labels
from ..recovery import DENSE_LIMIT
from ..whitening import ExplicitScatter, within_classes
from ._base import LinearMetricLearner, check_distance


class Whitening(LinearMetricLearner):
    r"""The plain distance of rows whitened by their scatter within classes.

    M = S⁻¹ with S = (1 − s)·W + s·(tr W/d)·I, W the scatter of rows about the mean of their class
    and s the shrinkage: what `DuRP` does with ``shrinkage`` before it learns from triplets. All
    directions are kept, those between classes among them. It asks less of the classes than any
    other learner, and so does best on classes that it has not seen.

    Parameters
    ----------
    shrinkage : float, default=0.9
        s, above 0 and up to 1, which leaves the rows as they are; the less, the stronger.
    distance : {"euclidean", "cosine"}, default="cosine"
        With "cosine", whitened rows are centred and scaled to length one.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of rows, where X is a source of more than 50,000.

    Attributes
    ----------
    metric_ : Metric
        The metric.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X had names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualmetric import Euclidean, Whitening
    >>> X, y = load_iris(return_X_y=True)
    >>> whitened = Whitening(0.1, distance="euclidean").fit(X, y)
    >>> print(f"{Euclidean().fit(X).score(X, y):.2f} {whitened.score(X, y):.2f}")
    0.88 0.92
    """

    _learns_on_device = True
    scale = True  # the unit of X has no part in a ranking

    def __init__(
        self, shrinkage: float = 0.9, *, distance: str = "cosine", random_state: Any = None
    ) -> None:
        self.shrinkage = shrinkage
        self.distance = distance
        self.random_state = random_state

    @in_full_precision
    def fit(self, X: Any, y: Any) -> Self:
        """Find the scatter within classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, row source} of shape (n_samples, n_features)
            Training rows, of up to 4,000 features.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        Whitening
            Itself.
        """
        check_distance(self.distance)
        check_scalar(
            self.shrinkage, "shrinkage", Real, min_val=0, max_val=1, include_boundaries="right"
        )
        if y is None:
            raise ValueError("Whitening requires y to be passed, but the target y is None")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        X, y, _, _ = self._read(self._rows(X), y, None, np.random.default_rng(seed))
        labels = check_labels(y, X.shape[0])
        d = X.shape[1]
        if d > DENSE_LIMIT:
            raise ValueError(
                f"Whitening writes out a matrix of features × features, for up to {DENSE_LIMIT:,} "
                f"of them, and X has {d:,}: use DuRP with a shrinkage"
            )
        require_memory_beside(
            X, 5 * d * d * 8, f"whitening {d:,} features", "Use DuRP with a shrinkage."
        )
        self._length_unit(X)  # refuses rows that are all the same, and numbers out of range
        spread = within_classes(X, labels)
        if spread.trace <= 0.0:
            raise ValueError(
                "rows of the same class do not differ at all, so that there is no scatter to "
                "whiten by: use Euclidean"
            )
        scatter = ExplicitScatter.of_rows(X, spread, self.shrinkage, d)
        # of a size like that of X: S is in its squared unit
        return self._store_metric(scatter.root() * float(np.sqrt(spread.trace / d)), X)
