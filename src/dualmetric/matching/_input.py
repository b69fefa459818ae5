"""What a Matcher is given, checked: metrics, labelled pairs, thresholds and shares."""

import hashlib
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._arrays import ops
from .._arrays.namespace import to_numpy
from .._rows import Rows
from .._types import Array
from ..metric import Metric
from ..supervision import Pairs
from ._bounds import exact_lower
from ._found import Threshold

_PAIRS_AT_ONCE = 8192


def metric_of(given: Any) -> Metric:
    """The metric itself, or that of a fitted estimator."""
    if isinstance(given, Metric):
        return given
    found = getattr(given, "metric_", None)
    if isinstance(found, Metric):
        return found
    if hasattr(given, "fit") and not isinstance(given, type):
        raise ValueError(
            f"metric must be fitted: call {type(given).__name__}.fit first, on pairs other than "
            "these"
        )
    raise TypeError(
        f"metric must be a Metric or a fitted estimator of dualmetric; got {type(given).__name__}"
    )


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pairs of both kinds, and what a metric says about them."""

    index: Array  # (n, 2) row numbers
    distance: Array
    same: Array
    entity: Array  # (n, 2) whole numbers: row numbers, where no entities were given
    has_groups: bool
    n_rows: int


def labelled_pairs(metric: Metric, X: Any, y: Any, groups: Any) -> Labelled:
    """Check labelled pairs, and find their distances."""
    if not isinstance(y, Pairs):
        raise TypeError(
            f"y must be Pairs(index, same) of dualmetric.supervision; got {type(y).__name__}"
        )
    rows = metric.open_rows(X)
    n = rows.shape[0]
    given = y.groups if groups is None else groups
    named = copy(y)
    named.groups = given
    pairs = named.check(n)
    if pairs.same.all():
        raise ValueError("no pair is labelled as different: add some")
    distance = distances(metric, rows, pairs.index)
    if not np.isfinite(distance).all():
        place = int(np.flatnonzero(~np.isfinite(distance))[0])
        raise ValueError(
            f"the distance between rows {pairs.index[place].tolist()} of X is {distance[place]}: "
            "check these rows for very large numbers"
        )
    index = pairs.index.astype(np.int64)
    entity = index if given is None else _entity_numbers(given)[index]
    return Labelled(index, distance, pairs.same, entity, given is not None, n)


def _entity_numbers(groups: Any) -> Array:
    """A number of 52 bits for each entity, the same in every call and in files."""
    names, codes = np.unique(np.asarray(to_numpy(groups)), return_inverse=True)
    digests = [hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in names]
    return np.array([int.from_bytes(each, "little") >> 12 for each in digests], np.int64)[codes]


def distances(metric: Metric, rows: Rows, index: Array) -> Array:
    """Distances of pairs of row numbers, some at a time."""
    found = np.empty(len(index))
    for start in range(0, len(index), _PAIRS_AT_ONCE):
        block = index[start : start + _PAIRS_AT_ONCE]
        named, places = np.unique(block, return_inverse=True)
        taken = rows.take(named)
        left, right = (ops.take_rows(taken, column) for column in places.reshape(-1, 2).T)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for infinity
            found[start : start + len(block)] = to_numpy(metric.distance(left, right))
    return found


def distance_of(threshold: Threshold | float) -> float:
    """Distance of a threshold, which must be finite."""
    limit = threshold.distance if isinstance(threshold, Threshold) else threshold
    if isinstance(limit, bool) or not isinstance(limit, Real) or not np.isfinite(float(limit)):
        raise ValueError(f"threshold must be a Threshold or a finite distance; got {threshold!r}")
    return float(limit)


def check_share(value: Any, name: str, n_pairs: int = 0) -> None:
    """Refuse what is not between 0 and 1, and explain why 1 cannot be guaranteed."""
    if name in ("precision", "recall") and isinstance(value, Real) and value == 1.0:
        best = exact_lower(n_pairs, n_pairs, 0.95)
        raise ValueError(
            f"{name}=1 cannot be guaranteed by any number of pairs. With {n_pairs:,} pairs, at "
            f"most {name}={best:.5f} can be guaranteed with 95 % confidence: ask for a value "
            "below 1"
        )
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        per_cent = isinstance(value, Real) and 1.0 < float(value) < 100.0
        hint = f": for {value:g} %, give {float(value) / 100:g}" if per_cent else ""
        raise ValueError(f"{name} must be strictly between 0 and 1; got {value!r}{hint}")
