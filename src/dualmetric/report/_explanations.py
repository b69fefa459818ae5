"""Contributions of features to the distances between a query and many rows."""

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._explain import split
from .._types import Array, Matrix
from ..metric import Metric


def contributions(metric: Metric, rows: Matrix, query: int, others: Array) -> tuple[Array, ...]:
    """Distances from one row to others, the numbers of features, and their parts in each distance.

    The parts are those of `Metric.explain`, for rows that are weighted already. The number after
    the last feature stands for the centre of the metric. Features that are zero in all of these
    rows may be left out.
    """
    chosen = ops.take_rows(rows, np.append(query, others))
    n_features = metric.n_features
    features = np.arange(n_features)
    is_linear = not metric.outside and metric.before is None
    if is_linear and (metric.factor is not None or metric.centre is None):
        chosen = sp.csr_matrix(chosen)
        features = np.unique(np.append(chosen.indices, 0))  # a metric needs at least one
        chosen = chosen[:, features]
        factor = None if metric.factor is None else metric.factor[features]
        metric = Metric(factor, len(features), centre=metric.centre, distance=metric.kind)
    x = ops.to_dense(chosen).astype(np.float64)
    found = [split(metric, x[0], other) for other in x[1:]]
    distances, parts = (np.array(values) for values in zip(*found, strict=True))
    return distances, np.append(features, n_features), parts


def largest(parts: Array, top: int) -> Array:
    """Places of the largest parts by absolute value, the largest first; zeros are left out."""
    size = np.abs(parts)
    top = min(top, int(np.count_nonzero(size)))
    if top == 0:
        return np.empty(0, dtype=np.int64)
    places = np.sort(np.argpartition(-size, top - 1)[:top])
    return places[np.argsort(-size[places], kind="stable")]
