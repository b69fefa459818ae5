"""What a fit will need, estimated before it starts."""

from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .._arrays.krylov import OVERSAMPLING
from .._arrays.system import format_bytes, n_threads
from .._rows import Rows, is_source, open_rows
from ..learn import SPAN_LIMIT
from ..lift import LANDMARKS
from ..prior import FEW_ROWS, FEW_ROWS_RANK
from ..problem import DualOptions
from ..recovery import DEFAULT_WIDE_RANK
from ..scatter import DENSE_LIMIT
from ..supervision import Comparisons
from ..supervision.sampling import ALL_PAIRS_ROWS, most_listed

_EFFICIENCY = 0.2  # of the speed of a matrix product, that fits reach
_KRYLOV_PRODUCTS = 6  # what the products-only route usually takes


class Estimate(NamedTuple):
    """Memory and work of a fit, beyond X itself.

    Attributes
    ----------
    route : {"span", "matrix", "products"}
        How the metric is rebuilt: in the span of few rows, from the d × d matrix, or from products
        with the rows alone.
    memory : int
        Bytes at the peak.
    work : float
        Floating-point operations.
    seconds : float
        About how long they take, judged by the speed of a small matrix product.
    """

    route: str
    memory: int
    work: float

    @property
    def seconds(self) -> float:
        """About how long the work takes here."""
        return self.work / (_EFFICIENCY * _operations_per_second())

    def __str__(self) -> str:
        return (
            f"about {format_bytes(self.memory)} beyond X and {self.work / 1e9:,.1f} billion "
            f"operations (route: {self.route})"
        )


@cache
def _operations_per_second() -> float:
    """Speed of a matrix product, measured once."""
    A = np.ones((512, 512))
    A @ A  # starts the threads of BLAS
    begin = perf_counter()
    for _ in range(4):
        A @ A
    return 4 * 2.0 * 512**3 / max(perf_counter() - begin, 1e-9)


def estimate_dual(options: DualOptions, X: Any, y: Any = None) -> Estimate:
    """What a fit of a dual estimator would need for X, from its shape and type alone.

    The arrays and products of each stage are added up; the peak is the largest stage.
    """
    if not hasattr(X, "shape") or type(X).__module__.startswith("dask"):
        X = open_rows(X)[0]
    n, d = (int(size) for size in X.shape)
    itemsize = 4 if str(getattr(X, "dtype", "")).endswith("float32") else 8
    n_entries = int(getattr(X, "nnz", n * d))
    sparse = hasattr(X, "nnz")
    is_read = not X.in_memory if isinstance(X, Rows) else is_source(X)
    n_copies = int(is_read) + int(options.space == "components" and not sparse)
    if options.max_rows is not None and n > options.max_rows:
        n_entries = n_entries * options.max_rows // n
        n, n_copies = options.max_rows, max(n_copies, 1)
    read = n_copies * n_entries * (itemsize + 4 * sparse)
    if options.lift is not None:
        d = min(n, LANDMARKS)
        read += n * d * itemsize + 4 * d * d * 8  # kernel features, and what gives them
        n_entries, sparse = n * d, False
    if options.prior is not None or options.blocks is not None:
        read += 2 * n_entries * (itemsize + 4 * sparse)  # rows whitened, and at length one
        read += 4 * min(d, DENSE_LIMIT) ** 2 * 8
    m = min(getattr(options, "n_projections", d), d)
    N = len(y) if isinstance(y, Comparisons) else options.n_triplets
    whitened, in_original = options.shrinkage < 1.0, options.rebuilt
    route, width = "matrix", d if in_original else m
    wide_prior = d > DENSE_LIMIT and (options.prior is not None or options.blocks is not None)
    span_limit = SPAN_LIMIT
    if wide_prior:
        span_limit = 0 if options.space == "projection" else FEW_ROWS
    if in_original and n < min(d, span_limit):
        route, width = "span", n
    elif in_original and d > DENSE_LIMIT:
        route = "products"
    m = min(m, width)  # all dimensions, for DuOri, are those of the span
    few = wide_prior and n < FEW_ROWS
    default = width
    if route == "products":
        default = FEW_ROWS_RANK if few else DEFAULT_WIDE_RANK
    rank = min(options.n_components or default, width)

    entry = itemsize + 4 if sparse else itemsize
    stored = n_entries * entry if sparse else 0  # a copy of a sparse X; a dense one is viewed
    copies = stored if sparse else int(0.3 * n * d * itemsize)
    measuring = (3 + n_threads()) * d * 8 if sparse else min(2 * n * d * 8, 2**24)
    sampling = N * 250  # draws, their distances, and what finds repeated ones
    possible = n**3 // 4  # triplets of two classes: of so few rows, all are listed
    if possible <= most_listed(N):
        sampling = max(sampling, possible * 200)
    if n <= ALL_PAIRS_ROWS:  # their distances, and a product, which may be sparse, that gives them
        sampling += n * n * (2 * itemsize + (entry if sparse else 0)) + 2 * stored
    solving = (4 * n * m + 3 * m * m) * itemsize + N * (40 + itemsize)
    solving += (width if in_original else d) * m * (8 + itemsize)  # the projection
    if whitened and route == "products":  # columns drawn, and solved for
        solving += d * m * max(16 + itemsize, 8 * itemsize) + 4 * n * m * itemsize
    graph = 6 * N * (itemsize + 4) * 3
    if route == "products":
        block = (rank + OVERSAMPLING) * itemsize
        # transposes; bases of three blocks and their images, old and new; what products hold
        rebuilding = (2 if whitened else 1) * stored
        rebuilding += (20 if whitened else 16) * d * block + 4 * n * block
    else:
        squares = (3 + (4 if whitened else 0)) * width * width * max(itemsize, 8)
        rebuilding = squares + (3 * n * n * 8 if route == "span" else 0)
        rebuilding += 3 * min(2**24, n * width * itemsize)
        rebuilding += 2 * stored if in_original else 0  # by columns, and a part of them
    rebuilding += n * m * itemsize  # the rows of the dual problem are still there
    largest = max(measuring, sampling, solving, graph + rebuilding)
    # four row numbers, a margin and a weight for each comparison
    memory = read + copies + N * 32 + largest + d * rank * itemsize

    per_row = n_entries / max(n, 1)
    work = 2 * 3 * N * per_row + 2.0 * n_entries * m
    work += options.max_epochs * N * (4.0 * m * m + 12 * m)
    if route == "products":
        solves = 9 if whitened else 1
        block = rank + OVERSAMPLING
        work += _KRYLOV_PRODUCTS * block * (4.0 * n_entries * solves + 12 * N + 12.0 * d * block)
    else:
        work += 1.0 * n * width * width + 8.0 * N * width + 9.0 * width**3
        work += 1.0 * n * n * per_row if route == "span" else 0.0
    return Estimate(route, int(memory), work)
