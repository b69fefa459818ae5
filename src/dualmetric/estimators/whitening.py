"""The plain distance of whitened rows, as an estimator."""

from typing import Any

import numpy as np

from .._arrays.namespace import require_memory_beside
from .._options import distance_option, max_rows_option, option, random_state_option, with_options
from ..problem import length_unit
from ..scatter import DENSE_LIMIT, scatter_of
from .base import LearnedMetricEstimator, Training


@with_options
class Whitening(LearnedMetricEstimator):
    r"""The plain distance of rows whitened by their scatter within classes.

    M = S⁻¹ with S = (1 − s)·W + s·(tr W/d)·I, where W is the scatter of rows about the mean of
    their class and s is the shrinkage. `DuRP` does the same with its ``shrinkage`` before it
    learns. All directions are kept, including those between classes. Of all estimators this one
    depends least on the classes, and so is often best on classes that it has not seen. X may have
    up to 4,000 features.

    {sections}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualmetric import Euclidean, Whitening
    >>> X, y = load_iris(return_X_y=True)
    >>> whitened = Whitening(0.1, distance="euclidean").fit(X, y)
    >>> print(f"{Euclidean().fit(X).score(X, y):.2f} {whitened.score(X, y):.2f}")
    0.88 0.92
    """

    shrinkage: float = option(
        "float",
        default=0.9,
        help="s, above 0 and at most 1. Smaller values whiten more strongly; 1 leaves the rows as "
        "they are.",
        kw_only=False,
        low=0,
        high=1,
        above=True,
        flag="Shrinkage of the whitening, above 0 and at most 1; smaller whitens more. 1: none.",
    )
    max_rows: int | None = max_rows_option()
    distance: str = distance_option("cosine", "It does not affect the whitening.")
    random_state: Any = random_state_option(
        "Seed of the choice of rows, where X has more than ``max_rows``."
    )

    def _learn(self, training: Training, rng: np.random.Generator) -> dict[str, Any]:
        rows = training.X
        d = rows.shape[1]
        if d > DENSE_LIMIT:
            raise ValueError(
                f"Whitening forms a matrix of features × features, for at most {DENSE_LIMIT:,} "
                f"features, but X has {d:,}: use DuRP with a shrinkage"
            )
        require_memory_beside(
            rows, 5 * d * d * 8, f"whitening {d:,} features", "Use DuRP with a shrinkage."
        )
        length_unit(rows)  # refuses rows that are all the same, and numbers out of range
        within = training.supervision.within(rows, np.arange(rows.shape[0]))
        scatter = scatter_of(rows, within, self.shrinkage, d)
        # of a size like that of X: S is in its squared unit
        factor = scatter.root() * float(np.sqrt(within.trace / d))
        return {"metric_": self._make_metric(factor, training)}
