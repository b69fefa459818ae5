"""Which features make up the distances between a query and many rows, at once."""

import numpy as np
import scipy.sparse as sp

from .. import products
from .._types import Array, Rows
from ..metric import Metric


def contributions(metric: Metric, rows: Rows, query: int, others: Array) -> tuple[Array, ...]:
    """Split the distances from one row to others into what each feature contributes.

    The same parts as `Metric.explain` gives, for rows that are weighted already; only features
    that are not zero in all of these rows are looked at.

    Returns
    -------
    distances : ndarray of shape (n_others,)
    features : ndarray of shape (n_parts,)
        Their numbers; the number after the last is the metric's centre.
    parts : ndarray of shape (n_others, n_parts)
    """
    chosen = rows[np.concatenate([[query], others])]
    features = np.arange(metric.n_features)
    if products.is_sparse(chosen) and (metric.factor is not None or metric.centre is None):
        features, columns = np.unique(chosen.indices, return_inverse=True)
        shape = (chosen.shape[0], len(features))
        chosen = sp.csr_matrix((chosen.data, columns, chosen.indptr), shape=shape)
    x = products.to_dense(chosen).astype(np.float64)
    factor = None if metric.factor is None else metric.factor[features].astype(np.float64)
    z = x if factor is None else x @ factor
    centre = np.zeros(z.shape[1]) if metric.centre is None else metric.centre.astype(np.float64)
    lengths = np.ones(len(z))
    if metric.kind == "cosine":
        lengths = np.linalg.norm(z - centre, axis=1)
        lengths[lengths == 0] = np.inf  # a row without direction counts as zero
    x = x / lengths[:, None]
    delta = x[0] - x[1:]
    shift = centre * (1 / lengths[1:] - 1 / lengths[0])[:, None]
    step = (delta if factor is None else delta @ factor) + shift
    distances = np.linalg.norm(step, axis=1)
    direction = step / np.where(distances > 0, distances, 1.0)[:, None]
    parts = delta * (direction if factor is None else direction @ factor.T)
    of_centre = np.einsum("ij,ij->i", shift, direction)
    return distances, np.append(features, metric.n_features), np.column_stack([parts, of_centre])


def largest(parts: Array, top: int) -> Array:
    """Places of the largest parts by absolute value, the largest first; zeros are left out."""
    size = np.abs(parts)
    top = min(top, int(np.count_nonzero(size)))
    if top == 0:
        return np.empty(0, dtype=np.int64)
    places = np.sort(np.argpartition(-size, top - 1)[:top])
    return places[np.argsort(-size[places], kind="stable")]
