"""Triplets from labels: triples of row numbers, never copies of rows.

``"active"``
    The paper's: random triplets that have a positive hinge loss under the Euclidean distance,
    ‖x_i − x_k‖² − ‖x_i − x_j‖² < 1. Best for ranking.
``"neighbors"``
    The positive is among the nearest rows of the anchor's class, the negative among the nearest
    rows of other classes. Only the neighbourhood of each row is used, which preserves what k-NN
    classification needs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import ops, ranking, triplets
from .._arrays.namespace import precision, to_numpy
from .._options import option
from .._types import Array, Matrix
from .._validation import warn
from ._checks import compact, index_type

SAMPLERS = ("active", "neighbors")
_N_NEIGHBORS = 10
_MAX_REFERENCE_ROWS = 20_000
_LISTED = 400_000
_DRAWS_PER_TRIPLET = 50
_MIN_DRAWS = 10_000
_TIE = 1e-6  # relative difference of margins that counts as none: some digits of float32
_BATCH = 2**16  # candidates that are drawn at once
_BATCHES = 16  # that are compared at once, at most
ALL_PAIRS_ROWS = 1500  # rows up to which all their distances take a few milliseconds


def n_triplets_option() -> Any:
    """How many triplets to sample."""
    return option("int", default=100_000, help="How many triplets to sample from labels.", low=1)


def sampler_option() -> Any:
    """How to sample triplets."""
    return option(
        "str",
        default="active",
        help='How to sample triplets: "active", as in the paper, ranks best, and "neighbors" '
        "keeps k-NN accuracy. See `dualmetric.supervision.sampling`.",
        choices=SAMPLERS,
        flag="How to sample triplets: active (best ranking) or neighbors (keeps k-NN accuracy).",
    )


def sample_triplets(
    X: Matrix,
    y: Array,
    n_triplets: int,
    sampler: str,
    rng: np.random.Generator,
    *,
    margin: float = 1.0,
) -> Array:
    """Sample distinct triplets from labels: an array of shape (n, 3).

    At most ``n_triplets`` are drawn. "neighbors" may give fewer; where "active" finds fewer, those
    found are returned with a warning. A triplet is active if ‖x_i − x_k‖² − ‖x_i − x_j‖² < margin.
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)}; got {sampler!r}")
    classes = _Classes(y)
    if sampler == "neighbors":
        found = _neighbor_triplets(X, classes, n_triplets, rng)
    else:
        found = _active_triplets(X, classes, n_triplets, margin, rng)
    return compact(found, X.shape[0])


class _Classes:
    """Rows sorted by class, so that drawing from a class or from its complement is arithmetic."""

    def __init__(self, y: Array) -> None:
        names, label = np.unique(y, return_inverse=True)
        dtype = index_type(len(label))
        self.label = label.astype(dtype)
        self.size = np.bincount(label)
        if len(names) < 2:
            raise ValueError(
                f"y has only one class ({names[:1].tolist()[0]!r}): triplets need rows of at least "
                "two classes"
            )
        if self.size.max() < 2:
            raise ValueError(
                "every class in y has only one row: a triplet needs two rows of one class and one "
                "of another"
            )
        self.order = np.argsort(self.label, kind="stable").astype(dtype)
        self.start = np.cumsum(self.size) - self.size
        self.place = np.empty(len(label), dtype=dtype)
        self.place[self.order] = np.arange(len(label), dtype=dtype)
        self.anchors = np.flatnonzero(self.size[self.label] > 1).astype(dtype)

    def count(self) -> int:
        """Return the number of distinct triplets, exactly."""
        n = len(self.label)
        return sum(int(s) * (int(s) - 1) * (n - int(s)) for s in self.size)

    def build(self, anchor: Array, near: Array, far: Array) -> Array:
        """Triplets of the given anchors.

        ``near``, from 0 to below 1, is the place of the positive among the other rows of its class,
        divided by their number, and ``far`` that of the negative among the rows of other classes.
        """
        from .._arrays import kernels

        found = np.empty((len(anchor), 3), dtype=self.order.dtype)
        by_class = self.label, self.size, self.start, self.order, self.place
        kernels.rows_of_triplets(anchor, near, far, *by_class, found)
        return found

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Draw random triplets: anchor, then positive, then negative, each uniform."""
        # shares are several times as fast as rng.integers(limits), and uniform to 53 bits
        anchor = self.anchors[rng.integers(len(self.anchors), size=size)]
        return self.build(anchor, rng.random(size), rng.random(size))

    def all(self) -> Array:
        """Return every triplet there is; for small data."""
        parts = []
        for label in np.flatnonzero(self.size > 1):
            same = int(self.size[label])
            rows = self.order[self.start[label] : self.start[label] + same]
            shape = same, same - 1, len(self.label) - same
            anchor, near, far = np.indices(shape).reshape(3, -1)
            # half a place further, so that rounding leads to no other place
            places = (near + 0.5) / shape[1], (far + 0.5) / max(shape[2], 1)
            parts.append(self.build(rows[anchor], *places))
        return np.concatenate(parts)


def _distinct(index: Array, n_rows: int) -> Array:
    """Drop repeated triples, keeping the first of each, in order."""
    if len(index) == 0:
        return index
    pair = index[:, 0].astype(np.int64) * n_rows + index[:, 1]
    if n_rows < 2**21:  # a triple fits into 64 bits; few of them are repeated, if any
        keys = pair * n_rows + index[:, 2]
        ordered = np.sort(keys)
        places = np.flatnonzero(np.isin(keys, ordered[1:][ordered[1:] == ordered[:-1]]))
        first = np.unique(keys[places], return_index=True)[1]
        return np.delete(index, np.delete(places, first), axis=0)
    order = np.lexsort((index[:, 2], pair))
    changes = (np.diff(pair[order]) != 0) | (np.diff(index[order, 2]) != 0)
    first = order[np.concatenate([[True], changes])]
    return index[np.sort(first)]


def _margins(X: Matrix, classes: _Classes) -> Callable[[Array], Array]:
    """A function that gives ‖x_i − x_k‖² − ‖x_i − x_j‖² for triples of row numbers (i, j, k)."""
    n = X.shape[0]
    if n > ALL_PAIRS_ROWS:
        return triplets.comparer(X, classes.place)
    # few rows: the same pairs come again and again
    every = np.concatenate([to_numpy(part) for _, part in ops.sq_distance_blocks(X)])

    def look_up(index: Array) -> Array:
        anchor, positive, negative = index.T
        return every[anchor, negative] - every[anchor, positive]

    return look_up


def _active(
    X: Matrix, compare: Callable[[Array], Array], margin: float
) -> Callable[[Array], Array]:
    """A function that says which triples of row numbers have a margin below the given one.

    Rounding, which depends on the number of threads and the device, should not decide which are
    active. If it could, the margin is computed again, from differences in float64, and a tie is not
    active. Rows that differ in their last digits may still have other active triplets.
    """
    limit = margin - _TIE * abs(margin)
    longest = float(to_numpy(ops.row_lengths(X)).max())
    doubt = 2 * _TIE * abs(margin) + 32 * np.finfo(precision(X)).eps * longest * longest

    def decide(index: Array) -> Array:
        found = compare(index)
        active = found < limit
        places = np.flatnonzero(np.abs(found - margin) <= doubt)
        for part in np.array_split(places, 1 + len(places) // 1000):
            i, j, k = (ops.take_rows(X, rows) for rows in index[part].T)
            i, j, k = (to_numpy(ops.to_dense(rows)).astype(np.float64) for rows in (i, j, k))
            active[part] = np.square(i - k).sum(axis=1) - np.square(i - j).sum(axis=1) < limit
        return active

    return decide


def most_listed(n_triplets: int) -> int:
    """Number of triplets up to which all of them are listed instead of drawing some."""
    return max(2 * n_triplets, min(20 * n_triplets, _LISTED))


def _active_triplets(
    X: Matrix, classes: _Classes, n_triplets: int, margin: float, rng: np.random.Generator
) -> Array:
    n = X.shape[0]
    # of its own: how many batches are needed must not change what is drawn after them
    rng = np.random.default_rng(rng.integers(2**63))
    is_active = _active(X, _margins(X, classes), margin)
    if classes.count() <= most_listed(n_triplets):
        candidates = rng.permutation(classes.all())  # before they are compared: see below
        found = candidates[is_active(candidates)][:n_triplets]
    else:
        found = np.empty((0, 3), dtype=index_type(n))
        drawn = 0
        most = max(_DRAWS_PER_TRIPLET * n_triplets, _MIN_DRAWS)
        # batches of one size: were it to follow from what was found, one comparison that rounding
        # decides would change all draws after it
        batch = min(_BATCH, max(2 * n_triplets, _MIN_DRAWS))
        while len(found) < n_triplets and drawn < most:
            parts, n_found = [found], len(found)
            while n_found < n_triplets and drawn < most:
                # as many as seem to be missing: the more triplets are compared at once, the more
                # often a row is read while it is still in the cache
                missing = (1.05 * n_triplets / max(n_found, 1) - 1.0) * drawn
                missing = min(missing, _BATCHES * batch, most - drawn)
                n_batches = max(-int(-missing // batch), 1)
                candidates = np.concatenate([classes.draw(batch, rng) for _ in range(n_batches)])
                drawn += len(candidates)
                parts.append(candidates[is_active(candidates)])
                n_found += len(parts[-1])
            found = _distinct(np.concatenate(parts), n)[:n_triplets]
    if len(found) == 0:
        warn(
            "no active triplet was found: by the Euclidean distance, all sampled rows of the same "
            f"class are closer than all others, by a margin of more than {margin:g}. The metric is "
            "learned from nearest neighbours instead; set sampler='neighbors' to avoid this "
            "warning",
        )
        return _neighbor_triplets(X, classes, n_triplets, rng)
    if len(found) < n_triplets:
        warn(
            f"only {len(found):,} active triplets were found, fewer than n_triplets={n_triplets:,};"
            " the metric is learned from these",
        )
    return found


def _neighbor_triplets(
    X: Matrix, classes: _Classes, n_triplets: int, rng: np.random.Generator
) -> Array:
    """Pair each of a row's nearest positives with each of its nearest negatives.

    Anchors and neighbours come from at most 20,000 randomly chosen rows, which bounds the work.
    """
    n = X.shape[0]
    rows = np.arange(n)
    if n > _MAX_REFERENCE_ROWS:
        rows = np.sort(rng.choice(n, size=_MAX_REFERENCE_ROWS, replace=False))
        X = ops.take_rows(X, rows)
    same, other = ranking.class_neighbors(X, classes.label[rows], _N_NEIGHBORS)
    anchor = np.repeat(np.arange(len(rows)), _N_NEIGHBORS**2)
    positive = np.repeat(same, _N_NEIGHBORS, axis=1).ravel()
    negative = np.tile(other, (1, _N_NEIGHBORS)).ravel()
    possible = np.flatnonzero((positive >= 0) & (negative >= 0))
    if len(possible) == 0:  # only where the 20,000 rows hold no two of one class
        raise ValueError(
            "sampler='neighbors' found no two rows of one class among the rows it looked at; use "
            "sampler='active'"
        )
    chosen = np.sort(rng.permutation(possible)[:n_triplets])
    return rows[np.column_stack([anchor[chosen], positive[chosen], negative[chosen]])]
