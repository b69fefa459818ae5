"""Results that are computed when Dask is asked to: transformed rows, and distances."""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import products
from .._types import Rows
from .passes import on_partition
from .rows import lazy_rows

if TYPE_CHECKING:
    from ..metric import Metric


def transform(X: Any, metric: "Metric") -> Any:
    """Rows as the metric maps them: a Dask array with the chunks of X, of which nothing is read.

    Vectors in a column of a DataFrame are read in the precision of the metric.
    """
    import dask

    precision = None if metric.factor is None else metric.factor.dtype
    array = lazy_rows(X, metric.feature_names, metric.n_features, precision).array
    if array.shape[1] != metric.n_features:
        raise ValueError(
            f"X has {array.shape[1]} features, but this metric is over {metric.n_features}"
        )
    dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
    stays_sparse = metric.factor is None and sp.issparse(array._meta)
    meta = sp.csr_matrix((0, 0), dtype=dtype) if stays_sparse else np.empty((0, 0), dtype)
    return array.map_blocks(
        transformed,
        metric=dask.delayed(metric, pure=True),
        chunks=(array.chunks[0], (metric.rank,)),
        meta=meta,
        dtype=dtype,
    )


def transformed(block: Any, metric: "Metric", block_info: Any = None) -> Rows:
    """One block of the result."""
    number = block_info[0]["chunk-location"][0]
    shape = (block_info[None]["chunk-shape"][0], metric.n_features)
    if block.shape[0] == 0:  # which the metric itself refuses
        stays_sparse = metric.factor is None and sp.issparse(block)
        make = sp.csr_matrix if stays_sparse else np.empty
        return make((0, metric.rank), dtype=block_info[None]["dtype"])
    return on_partition(metric.transform, block, number, shape)


def row_distances(A: Any, B: Any) -> Any:
    """Distance of each row of A to the same row of B, of which one at least is a Dask array."""
    if A.shape[0] != B.shape[0] and not np.isnan(float(A.shape[0]) + float(B.shape[0])):
        raise ValueError(
            f"A has {A.shape[0]} rows and B has {B.shape[0]}: distance compares them row by row"
        )
    difference = A - B
    return difference.map_blocks(
        products.row_lengths, drop_axis=1, meta=np.empty(0, difference.dtype)
    )
