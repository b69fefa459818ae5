"""Metrics cut to fewer directions."""

from numbers import Integral
from typing import Any

import numpy as np

from ._arrays import ops


def truncated(metric: Any, rank: int) -> Any:
    """What `Metric.truncate` returns."""
    if not isinstance(rank, Integral) or rank < 1:
        raise ValueError(f"rank must be a whole number, at least 1; got {rank!r}")
    factor, centre, lift = metric.factor, metric.centre, metric.lift
    if factor is None and rank < metric.n_features:
        raise ValueError(
            "the Euclidean metric weighs every direction alike and has no leading ones to keep: "
            "reduce the data instead, for example by PCA"
        )
    if factor is None or rank >= factor.shape[1]:
        return metric
    if metric.outside:  # the directions that differ least from the plain distance go
        lengths = np.sqrt(ops.column_dots(factor, factor))
        keep = np.sort(np.argsort(-np.abs(lengths - metric.outside), kind="stable")[:rank])
        return metric.replaced(factor=np.ascontiguousarray(factor[:, keep]))
    columns = factor.astype(np.float64)
    gram = columns.T @ columns
    if lift is not None:  # columns weigh images of landmarks: their products are LᵀKL
        gram = columns.T @ lift.apply(lift.landmarks.astype(np.float64), columns)
    _, rotation = np.linalg.eigh(gram)
    rotation = rotation[:, ::-1][:, :rank]
    if centre is not None:
        centre = (centre.astype(np.float64) @ rotation).astype(centre.dtype)
    return metric.replaced(factor=(columns @ rotation).astype(factor.dtype), centre=centre)
