"""Work that goes over all partitions once: gathering rows, and adding up.

Each task takes one partition, and an error in it names the partition.
"""

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from .. import products
from .._system import require_memory
from .._types import Array, Rows
from .._validation import refuse_mask
from ..whitening import ScatterSums, scatter_sums

if TYPE_CHECKING:
    from .rows import Partitions

T = TypeVar("T")

_BLOCK_BYTES = 2**26  # of dense rows that are held beside a block
_FAN_IN = 8  # results that one task of a reduction takes


def computed(*tasks: Any) -> tuple[Any, ...]:
    """Results of tasks, on the scheduler that is set."""
    import dask

    with _failures_explained():
        return dask.compute(*tasks)


def persisted(task: Any) -> Any:
    """The task with its result, which stays where the scheduler has it."""
    import dask

    with _failures_explained():
        return dask.persist(task)[0]


@contextmanager
def _failures_explained() -> Iterator[None]:
    """Say in our words where it was Dask that failed, and not the work."""
    try:
        with warnings.catch_warnings():
            # labels and the chosen rows are sent with the tasks: there is nothing to be done
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "KilledWorker" in kinds:
            raise RuntimeError(
                f"workers of the Dask cluster died, one after another, at {_named(error)}: most "
                "often they run out of memory. Give them more, or make partitions smaller, for "
                "example X = X.rechunk({0: 10_000}); nothing was changed"
            ) from error
        if kinds & {"CommClosedError", "CancelledError", "ClosedClientError"}:
            raise ConnectionError(
                f"the connection to the Dask scheduler was lost ({error}): start it, connect with "
                "dask.distributed.Client(address), and call this again; nothing was changed"
            ) from error
        raise


def _named(error: Any) -> str:
    """The task of a KilledWorker: its key ends with the number of the partition."""
    key = error.task
    return f"partition {key[1]} ({key[0]})" if isinstance(key, tuple) else f"the task {key!r}"


def on_partition(
    work: Callable[..., T], block: Any, number: int, shape: Sequence[float], *arguments: Any
) -> T:
    """Call ``work(rows, *arguments)`` on the rows of a block; errors name the partition."""
    refuse_mask(block, f"partition {number} of X")
    if sp.issparse(block):
        rows = block.tocsr()
    else:
        rows = block if isinstance(block, np.ndarray) else np.asarray(block)
    # a dimension that is not known is NaN
    if rows.ndim != 2 or any(
        a != b for a, b in zip(rows.shape, shape, strict=True) if not np.isnan(b)
    ):
        raise ValueError(
            f"partition {number} of X has shape {rows.shape} where its chunks say {tuple(shape)}: "
            f"look at X.partitions[{number}]; X.compute_chunk_sizes() sets the chunks right"
        )
    try:
        return work(rows, *arguments)
    except ValueError as error:
        refuse_missing(rows, number)
        raise ValueError(f"partition {number} of X: {error}") from error


def _all_finite(rows: Rows) -> bool:
    values = rows.data if products.is_sparse(rows) else rows
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def refuse_missing(rows: Rows, number: int) -> None:
    """Raise where rows of a partition hold NaN or infinity, with their numbers in it."""
    if _all_finite(rows):
        return
    if products.is_sparse(rows):
        places = np.flatnonzero(~np.isfinite(rows.data))
        bad = np.unique(np.searchsorted(rows.indptr, places, side="right") - 1)
    else:
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    shown = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
    raise ValueError(
        f"X contains NaN, infinity or nulls in partition {number}, rows {shown} of it: look at "
        f"X.partitions[{number}], and fill them or drop those rows"
    )


def over_partitions(
    X: "Partitions", work: Callable[..., Any], arguments: Callable[[int, int, int], Any]
) -> list[Any]:
    """Delayed ``work(rows, *arguments)`` for each partition that has any to do.

    ``arguments(number, start, stop)`` gives those of the partition that holds rows start to stop,
    delayed ones among them, or None: then the partition is not read.
    """
    import dask

    (array,) = dask.optimize(X.array)
    starts = np.concatenate([[0], np.cumsum(array.chunks[0])]).tolist()
    tasks: dict[Any, Any] = {}
    shared = {array.name: array}
    for number, (start, stop) in enumerate(pairwise(starts)):
        given = arguments(number, start, stop) if stop > start else None
        if given is not None:
            shared |= {thing.key: thing for thing in given if dask.is_dask_collection(thing)}
            given = [Ref(thing.key) if dask.is_dask_collection(thing) else thing for thing in given]
            block, shape = Ref((array.name, number, 0)), (stop - start, array.shape[1])
            tasks[number] = (on_partition, work, block, number, shape, *given)
    return delayed_layer(work.__name__, tasks, list(shared.values()))


def folded(parts: Sequence[Any], plus: Callable[[Any, Any], Any]) -> Any:
    """Add up what `over_partitions` gives, by a tree, so that few results are held at once."""
    while len(parts) > 1:
        groups = [parts[first : first + _FAN_IN] for first in range(0, len(parts), _FAN_IN)]
        tasks = {
            place: (reduce, plus, [Ref(part.key) for part in group])
            for place, group in enumerate(groups)
        }
        parts = delayed_layer(plus.__name__, tasks, parts[:1])  # one layer a level
    return parts[0]


class Ref(NamedTuple):
    """The result of another task, as an argument of one.

    It is said outright: where a cluster holds results already, Dask takes a bare key for a tuple.

    Attributes
    ----------
    key : tuple or str
        The key of that task.
    """

    key: Any


def task(key: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """A call in a graph, of arguments among which are `Ref`, or lists of them."""
    from dask._task_spec import List, Task, TaskRef

    def seen(argument: Any) -> Any:
        if isinstance(argument, Ref):
            return TaskRef(argument.key)
        return List(*map(seen, argument)) if isinstance(argument, list) else argument

    return Task(key, function, *map(seen, arguments))


def delayed_layer(name: str, tasks: dict[int, Any], needed: Sequence[Any]) -> list[Any]:
    """Tasks in one layer of a graph: Dask's own way takes a layer for each, too slow for many.

    Each is given as a function and its arguments, as `task` has them. The key of a task is the name
    and its number, which dashboards and errors show.
    """
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    name = f"{name.strip('_')}-{uuid4().hex}"
    layer: dict[Any, Any] = {
        (name, number): task((name, number), *call) for number, call in tasks.items()
    }
    graph = HighLevelGraph.from_collections(name, layer, dependencies=needed)
    return [Delayed(key, graph, layer=name) for key in layer]


def gather(X: "Partitions", rows: Array) -> Rows:
    """Copy the given rows, which ascend, in one pass; partitions without any are not read.

    The rows are CSR where blocks are, and a DataFrame where features have names.
    """
    n, d = X.shape
    if len(rows) and not 0 <= rows[0] <= rows[-1] < n:
        wrong = rows[0] if rows[0] < 0 else rows[-1]
        raise ValueError(f"X has no row {wrong}: row numbers go from 0 to {n - 1}")
    if isinstance(X.array._meta, np.ndarray):
        require_memory(
            len(rows) * d * X.dtype.itemsize,
            f"bringing {len(rows):,} rows of {d:,} features into memory",
            "Take fewer; where blocks are sparse, say so: X.map_blocks(scipy.sparse.csr_matrix).",
        )

    def wanted(number: int, start: int, stop: int) -> Any:
        first, last = np.searchsorted(rows, (start, stop))
        return None if first == last else (rows[first:last] - start, number)

    found = computed(*over_partitions(X, _taken, wanted))
    if any(sp.issparse(part) for part in found):
        together = sp.vstack(found, format="csr")
    else:
        together = np.concatenate(found) if found else np.empty((0, d), dtype=X.dtype)
    if X.names is None:
        return together
    import pandas as pd

    return pd.DataFrame(together, columns=list(X.names))


def _taken(block: Rows, wanted: Array, number: int) -> Rows:
    rows = block[wanted]
    if not _all_finite(rows):
        refuse_missing(block, number)
    return rows


def blocks(X: "Partitions") -> Iterator[tuple[int, Rows]]:
    """Partitions that have rows, one after another, each with the number of its first row."""
    for task in over_partitions(X, _with_start, lambda _, start, __: (start,)):
        yield computed(task)[0]


def _with_start(rows: Rows, start: int) -> tuple[int, Rows]:
    return start, rows


def column_sums(X: "Partitions", of_rows: Callable[[Rows], Array]) -> Array:
    """Σ of what ``of_rows`` makes of each partition, one number a feature."""
    tasks = over_partitions(X, _finite, lambda *_: (of_rows,))
    if not tasks:
        raise ValueError("X has no rows")
    return computed(folded(tasks, operator.add))[0]


def _finite(rows: Rows, of_rows: Callable[[Rows], Array]) -> Array:
    result = of_rows(rows)
    if not np.isfinite(result).all():
        raise ValueError("numbers are too large to add up")  # or missing, which is found out
    return result


def column_means(X: "Partitions") -> Array:
    """Mean of all rows, in one pass."""
    mean = column_sums(X, _sums) / X.shape[0]
    return mean.astype(X.dtype) if X.dtype == np.float32 else mean


def _sums(rows: Rows) -> Array:
    if products.is_sparse(rows):
        return np.asarray(rows.T @ np.ones(rows.shape[0]))
    return rows.sum(axis=0, dtype=np.float64)


def within_scatter(X: "Partitions", codes: Array, n_classes: int) -> Array:
    """Scatter of all rows about the mean of their class (d × d), in one pass."""
    origin = products.to_dense(gather(X, np.arange(1)))
    origin = np.asarray(origin, dtype=X.dtype)[0]
    codes = codes.astype(np.min_scalar_type(n_classes))  # they travel with the tasks
    tasks = over_partitions(
        X, _scatter, lambda _, start, stop: (codes[start:stop], n_classes, origin)
    )
    return computed(folded(tasks, ScatterSums.plus))[0].within()


def _scatter(rows: Rows, codes: Array, n_classes: int, origin: Array) -> ScatterSums:
    height = max(1, _BLOCK_BYTES // (8 * rows.shape[1]))
    bounds = [*range(0, rows.shape[0], height), rows.shape[0]]
    with np.errstate(over="ignore", invalid="ignore"):
        total = reduce(
            ScatterSums.plus,
            (
                scatter_sums(products.to_dense(rows[a:b]), codes[a:b], n_classes, origin)
                for a, b in pairwise(bounds)
            ),
        )
    if not np.isfinite(total.outer).all():
        raise ValueError("numbers are too large to multiply")  # or missing, which is found out
    return total
