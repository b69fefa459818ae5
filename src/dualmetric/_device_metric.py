"""A metric applied to rows on a device: the result is an array of the same kind, there."""

from typing import TYPE_CHECKING, Any

from . import _metric_checks as checks
from . import products
from ._namespace import (
    blocks_of,
    full_precision,
    is_finite,
    like,
    namespace,
    precision,
    require_finite,
    require_memory_beside,
)

if TYPE_CHECKING:
    from .metric import Metric


def apply(metric: "Metric", X: Any) -> Any:
    """Do what `Metric.apply` does. That rows are finite is seen in the result, which is smaller.

    A product carries every NaN and infinity on: 0·∞ is NaN. Only a kernel forgets infinity.
    """
    if metric.idf is not None:
        raise ValueError(
            "this metric weighs counts by tf-idf, which is for sparse rows on the host: pass a "
            "SciPy matrix"
        )
    require_memory_beside(
        X,
        X.shape[0] * metric.rank * precision(X).itemsize * (1 if metric.kind == "euclidean" else 3),
        f"{X.shape[0]:,} transformed rows",
        "Transform fewer rows at a time.",
    )
    rows = X
    with full_precision(X):
        if metric.factor is not None:
            factor = like(metric.factor, X)
            if metric.lift is None:
                rows = X @ factor
            else:
                require_finite(X)
                rows = metric.lift.apply(X, factor)
        if metric.centre is not None:
            rows = rows - like(metric.centre, X)
    if not is_finite(rows):
        require_finite(X)
        raise checks.too_large(precision(X))
    return rows if metric.kind == "euclidean" else products.unit_rows(rows, in_place=False)


def pairwise(metric: "Metric", A: Any, B: Any) -> Any:
    """Distances between all rows of A and all rows of B, or among the rows of A.

    By ‖a‖² + ‖b‖² − 2a·b in float64, as scikit-learn has them, about the mean of B.
    """
    a = metric.transform(A)
    b = a if B is None else metric.transform(B)
    xp = namespace(a)
    require_memory_beside(
        a,
        a.shape[0] * b.shape[0] * precision(a).itemsize,
        f"{a.shape[0]:,} × {b.shape[0]:,} distances",
        "Compare fewer rows at a time.",
    )
    right = xp.astype(b, xp.float64)
    mean = products.column_means(right)[None, :]
    right = right - mean
    squares = xp.sum(right * right, axis=1)[None, :]
    numbers = xp.arange(b.shape[0], device=b.device)
    parts = []
    for block in blocks_of(a, a.shape[0], 40 * b.shape[0]):
        left = xp.astype(a[block, :], xp.float64) - mean
        found = xp.sum(left * left, axis=1)[:, None] + squares - 2.0 * (left @ right.T)
        found = xp.sqrt(xp.maximum(found, xp.zeros_like(found)))
        if B is None:  # a row is at no distance from itself, whatever rounding says
            found = xp.where(numbers[block][:, None] == numbers[None, :], 0.0, found)
        parts.append(like(found, a))
    return xp.concat(parts, axis=0)
