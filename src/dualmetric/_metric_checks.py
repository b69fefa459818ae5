"""Checks of the arrays and the lift that a metric consists of; errors say what is expected."""

import sys
from numbers import Real
from reprlib import repr as brief
from typing import Any

import numpy as np

from ._arrays.namespace import precision
from ._types import Array
from ._validation import check_whole
from .blocks import Blocks
from .lift import Lift


def as_floats(values: Any, name: str) -> Array:
    """Values as an array of finite floats; lists of whole numbers become floats."""
    array = np.asarray(values)
    if not isinstance(values, np.ndarray) and array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"the {name} of a metric must be float32 or float64; got {array.dtype}: convert it "
            "with astype"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"the {name} of a metric contains NaN or infinity: replace these entries")
    return array


def as_centre(centre: Any, rank: int, distance: str) -> Array:
    """Centre as a vector of finite floats; it has a meaning for the cosine only."""
    if distance != "cosine":
        raise ValueError(
            "a centre is for distance='cosine' only, since it does not change Euclidean "
            "distances: leave it out"
        )
    return _as_vector(centre, "centre", rank, f"of rank {rank}")


def as_idf(idf: Any, n_features: int) -> Array:
    """Weights of features as a vector of finite floats."""
    return _as_vector(idf, "idf", n_features, f"over {n_features} features")


def _as_vector(values: Any, name: str, size: int, of: str) -> Array:
    """Values as a vector of finite floats of this size."""
    array = as_floats(values, name)
    if array.shape != (size,):
        raise ValueError(
            f"the {name} of a metric {of} must have shape ({size},); got {array.shape}"
        )
    return array


def as_lift(lift: Any) -> Lift:
    """Lift with landmarks that are a matrix of finite floats, and a width above 0."""
    if not isinstance(lift, Lift):
        raise ValueError(f"lift must be a dualmetric.lift.Lift or None; got {brief(lift)}")
    landmarks = as_floats(lift.landmarks, "landmarks")
    if landmarks.ndim != 2 or 0 in landmarks.shape:
        raise ValueError(
            "the landmarks of a metric must have shape (number of landmarks, n_features), each at "
            f"least 1; got {landmarks.shape}"
        )
    gamma = lift.gamma
    # the largest float, rather than infinity: a whole number in a file may be larger still
    fits = isinstance(gamma, Real) and 0 < gamma <= sys.float_info.max
    if isinstance(gamma, bool) or not fits:
        raise ValueError(f"the gamma of a lift must be a finite number above 0; got {brief(gamma)}")
    return Lift(landmarks, float(gamma))


def as_blocks(blocks: Any, n_features: int, lift: Lift | None) -> Blocks:
    """Blocks with a number for each feature and a weight of at least 0 for each block."""
    if not isinstance(blocks, Blocks):
        raise ValueError(f"blocks must be a dualmetric.blocks.Blocks or None; got {brief(blocks)}")
    if lift is not None and not blocks.are_columns:
        raise ValueError(
            "blocks can be combined with a lift only if each feature is a block of its own: leave "
            "out blocks or lift"
        )
    of, weights = np.asarray(blocks.of), as_floats(blocks.weights, "blocks")
    fits = weights.ndim == 1 and weights.size and (weights >= 0).all()
    if not fits or of.shape != (n_features,) or not np.isin(of, np.arange(weights.size)).all():
        raise ValueError(
            f"the blocks of a metric over {n_features} features must have the number of a block "
            f"for each feature, and a weight of at least 0 for each block; got shapes {of.shape} "
            f"and {weights.shape}"
        )
    return Blocks(of.astype(np.int64), weights)


def as_scale(scale: Any, first: Any) -> Array:
    """Scale as a vector of numbers above 0, if the first step of the metric can take one."""
    size = first.n_features
    scale = _as_vector(scale, "scale", size, f"over {size} features")
    if not (scale > 0).all():
        place = int(np.argmin(scale > 0))
        raise ValueError(
            f"each number in scale must be above 0; got {scale[place]:g} for feature {place}"
        )
    if first.idf is not None or first.blocks is not None:
        raise ValueError(
            "this metric already weights features (by tf-idf or blocks): scale the rows instead"
        )
    return scale


def as_width(
    n_features: Any, factor: Array | None, idf: Any, lift: Any, before: Any, blocks: Any = None
) -> int:
    """Width of the rows; if it is not given, it follows from the first step."""
    if before is not None:
        if any(step is not None for step in (idf, lift, blocks, before.before)):
            raise ValueError(
                "idf, lift and blocks cannot be combined with before=: set them on the metric that "
                "you pass as before"
            )
        if n_features is not None and n_features != before.n_features:
            raise ValueError(
                f"n_features is {n_features}, but the metric passed as before takes "
                f"{before.n_features} features: leave n_features out"
            )
        return int(before.n_features)
    if n_features is None:
        if lift is not None:
            n_features = lift.landmarks.shape[1]
        elif factor is None:
            raise ValueError("pass n_features when factor is None")
        else:
            n_features = factor.shape[0] if factor.ndim else 1
    check_whole(n_features, "n_features")
    if lift is not None and lift.landmarks.shape[1] != n_features:
        raise ValueError(
            f"the landmarks of a metric over {n_features} features must have shape (number of "
            f"landmarks, {n_features}); got {lift.landmarks.shape}"
        )
    return int(n_features)


def check_factor(factor: Array | None, n_features: int, lift: Lift | None, before: Any) -> None:
    """Refuse a factor that does not fit the step before it."""
    if factor is None:
        if lift is not None:
            raise ValueError(
                "a metric with a lift needs a factor: pass the factor that rbf_lift returns, or "
                "that factor times another matrix"
            )
        return
    height, takes = n_features, f"over {n_features} features"
    if lift is not None:
        height, takes = len(lift.landmarks), f"lifted by {len(lift.landmarks)} landmarks"
    elif before is not None:
        height, takes = before.rank, f"after one of rank {before.rank}"
    if factor.ndim != 2 or factor.shape[0] != height or factor.shape[1] == 0:
        raise ValueError(
            f"the factor of a metric {takes} must have shape ({height}, rank), rank at least 1; "
            f"got {factor.shape}"
        )


def refuse_lift(lift: Lift | None, so: str) -> None:
    """Refuse what only a metric that is linear in the features can do."""
    if lift is not None:
        raise ValueError(f"this metric uses a kernel lift, so {so}")


def as_outside(outside: Any, factor: Array | None, lift: Lift | None) -> float:
    """Weight of the plain distance outside the factor: a finite number of at least 0."""
    fits = isinstance(outside, int | float | np.floating) and 0 <= outside <= sys.float_info.max
    if isinstance(outside, bool) or not fits:
        raise ValueError(f"outside must be a finite number of at least 0; got {brief(outside)}")
    if outside and (lift is not None or factor is None):
        raise ValueError("outside > 0 needs a factor and no lift: set outside=0")
    if outside and factor is not None:
        sizes = np.sqrt(np.einsum("ij,ij->j", factor, factor, dtype=np.float64))
        with np.errstate(all="ignore"):
            unit = factor / sizes.astype(factor.dtype)
            # columns that are not finite give NaN, which is refused, too
            skew = np.abs(unit.T @ unit - np.eye(len(sizes))).max(initial=0.0)
        if not skew <= 1e-3:
            raise ValueError(
                "outside needs a factor whose columns are orthogonal, and none of them zero"
            )
    return float(outside)


def too_large(X: Any) -> ValueError:
    """Error for rows whose results are out of the range of floats."""
    dtype = precision(X)
    return ValueError(
        f"the numbers in X are too large for this metric in {dtype}: check their unit"
        + (", or pass float64" if dtype == np.float32 else "")
    )
