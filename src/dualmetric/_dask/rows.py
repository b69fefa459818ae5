"""What X and y are: Dask arrays and DataFrames, seen alike as one array of rows.

Its blocks are the partitions: each spans all features, and is a dense array or a CSR matrix.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from .._types import Array
from .passes import Ref, computed, delayed_layer, task


@dataclass(frozen=True, eq=False)
class Partitions:
    """Rows of a Dask collection.

    Attributes
    ----------
    array : dask.array.Array of shape (n_samples, n_features)
        The rows, chunked along the first axis only.
    names : tuple of str, or None
        Names of the features, where they were columns of a DataFrame.
    """

    array: Any
    names: tuple[str, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.array.dtype


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, told without importing Dask."""
    return isinstance(X, Partitions) or type(X).__module__.partition(".")[0] == "dask"


def opened(X: Any, y: Any = None, names: Sequence[str] | None = None) -> tuple[Partitions, Any]:
    """Rows whose number is known, and their labels, brought into memory.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or Partitions
        The rows. Blocks that span a part of the features are joined. The lengths of the partitions
        of a DataFrame are found by reading the labels, or nothing but the lengths.
    y : str, Dask or other array or Series, optional
        Labels. A string is the name of a column of X; that column, and one with the name of a Dask
        Series y, is not among the features.
    names : sequence of str, optional
        Columns of a DataFrame that are the features; None are all but the labels.

    Returns
    -------
    Partitions
        The rows.
    array-like or None
        The labels: y itself, where it is no Dask collection and no name.
    """
    if isinstance(X, Partitions):
        return X, computed(y)[0] if is_dask(y) else y
    if _is_frame(X):
        return _opened_frame(X, y, names)
    rows = lazy_rows(X)
    n = rows.shape[0]
    if math.isnan(n):
        raise ValueError(
            "the number of rows of X is not known, since Dask does not know the sizes of its "
            "chunks: X = X.compute_chunk_sizes() finds them in one pass"
        )
    if isinstance(y, str):
        raise ValueError(
            f"y = {y!r} names a column, and X is a Dask array, which has no names: pass the labels "
            "themselves, or a Dask DataFrame"
        )
    if is_dask(y):
        length = getattr(y, "shape", (math.nan,))[0]
        if isinstance(length, int) and length != n:  # before anything is read
            raise ValueError(f"y has {length} labels for {n} rows; give one label for each row")
        y = computed(y)[0]
    return rows, y


def lazy_rows(
    X: Any, names: Sequence[str] | None = None, width: int | None = None, dtype: Any = None
) -> Partitions:
    """Rows of which nothing is read: their number may be unknown.

    Where X is a DataFrame, ``names`` chooses its columns. Without names, a single column of vectors
    is taken, which are as long as ``width`` says and read as ``dtype``; else all columns are.
    """
    if isinstance(X, Partitions):
        return X
    if _is_frame(X):
        columns = _feature_columns(X, names=names, width=width)
        if _holds_vectors(X.dtypes[columns[0]]):
            return _frame_rows(X, columns, None, width or 0, dtype or np.dtype(np.float64))
        return _frame_rows(X, columns)
    if not type(X).__module__.startswith("dask.array"):
        raise ValueError(
            f"X is a Dask {type(X).__name__}, which has no rows of features: pass a Dask array or "
            "a Dask DataFrame"
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: a Dask array of shape {X.shape}"
        )
    if math.isnan(X.shape[1]):
        raise ValueError(
            "the number of features of X is not known: X = X.compute_chunk_sizes() finds it"
        )
    return Partitions(X if X.numblocks[1] == 1 else X.rechunk({1: -1}))


# --- DataFrames -----------------------------------------------------------------------------


def _is_frame(X: Any) -> bool:
    return type(X).__module__.startswith("dask.dataframe") and X.ndim == 2


def _opened_frame(X: Any, y: Any, names: Sequence[str] | None) -> tuple[Partitions, Any]:
    import dask
    import pandas as pd

    label = y if isinstance(y, str) else getattr(y, "name", None) if is_dask(y) else None
    if isinstance(y, str) and y not in X.columns:
        raise ValueError(
            f"y = {y!r} is no column of X; it has {_listed(X.columns)}: give the name of the "
            "column that holds the labels"
        )
    columns = _feature_columns(X, label=label, names=names)
    if isinstance(y, str):
        parts = computed(*_partitions(X, [y]))
        lengths = [len(part) for part in parts]
        labels = pd.concat([part[y] for part in parts], ignore_index=True)
    else:
        empty = _partitions(X, [])
        counts = {number: (len, Ref(part.key)) for number, part in enumerate(empty)}
        lengths = list(computed(*delayed_layer("length", counts, empty[:1])))
        labels = computed(y)[0] if is_dask(y) else y
    if not _holds_vectors(X.dtypes[columns[0]]):
        return _frame_rows(X, columns, lengths), labels
    first = next((number for number, length in enumerate(lengths) if length), None)
    if first is None:
        raise ValueError("X has no rows")
    part = _partitions(X, columns)[first]
    width, dtype = computed(dask.delayed(_vector_type)(part, first))[0]
    return _frame_rows(X, columns, lengths, width, dtype), labels


def _feature_columns(
    X: Any,
    *,
    label: Any = None,
    names: Sequence[str] | None = None,
    width: int | None = None,
) -> list[Any]:
    """Columns that hold the features: several of numbers, or one of vectors."""
    import pandas as pd

    columns = [column for column in X.columns if label is None or column != label]
    if names is not None:
        missing = [name for name in names if name not in X.columns]
        if missing:
            raise ValueError(
                f"X has no column {_listed(missing)}, which the metric was learned from"
            )
        columns = list(names)
    vectors = [column for column in columns if _holds_vectors(X.dtypes[column])]
    if len(vectors) == 1 and (len(columns) == 1 or width is not None):
        return vectors
    others = [c for c in columns if not pd.api.types.is_numeric_dtype(X.dtypes[c])]
    if others or not columns:
        raise ValueError(
            f"X has columns {_listed(columns)}, of which {_listed(others)} hold no numbers: pass "
            "columns of numbers, or one of vectors, for example X[['vector', 'label']], and the "
            "name of the labels as y"
        )
    if width is not None and names is None and len(columns) != width:
        raise ValueError(f"X has {len(columns)} features, but this metric is over {width}")
    return columns


def _holds_vectors(dtype: Any) -> bool:
    """Whether a column may hold a vector in each row: Python objects, or Arrow's lists."""
    return dtype == np.dtype(object) or "list<" in str(dtype) or "list[" in str(dtype)


def _listed(columns: Sequence[Any], most: int = 5) -> str:
    shown = ", ".join(repr(column) for column in list(columns)[:most])
    return shown + (f" and {len(columns) - most:,} more" if len(columns) > most else "")


def _partitions(X: Any, columns: list[Any]) -> list[Any]:
    """Partitions of some columns, delayed: as many as X has, and no other column is read.

    Not optimised any further, for then Dask may join partitions of which few columns are read, and
    those of the labels and of the features would not be the same.
    """
    return X[columns].simplify().to_delayed(optimize_graph=False)


def _frame_rows(
    X: Any,
    columns: list[Any],
    lengths: Sequence[int] | None = None,
    width: int | None = None,
    dtype: Any = None,
) -> Partitions:
    """Columns of a DataFrame as an array; with a ``width``, the one column holds vectors."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    parts = _partitions(X, columns)
    names = None
    if width is None:
        kinds = {getattr(kind, "numpy_dtype", kind) for kind in X.dtypes[columns]}
        dtype = np.dtype(np.float32 if kinds == {np.dtype(np.float32)} else np.float64)
        names = tuple(columns) if all(isinstance(column, str) for column in columns) else None
    convert = _numbers if width is None else _vectors
    n_features = len(columns) if width is None else width
    name = f"rows-{uuid4().hex}"
    tasks: dict[Any, Any] = {
        (name, number, 0): task(
            (name, number, 0), convert, Ref(part.key), number, n_features, dtype
        )
        for number, part in enumerate(parts)
    }
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=parts[:1])
    heights = (math.nan,) * len(parts) if lengths is None else tuple(lengths)
    chunks = (heights, (n_features,))
    return Partitions(da.Array(graph, name, chunks, meta=np.empty((0, 0), dtype)), names)


def _numbers(part: Any, number: int, width: int, dtype: Any) -> Array:
    """Columns of one partition as an array; what is missing becomes NaN."""
    try:
        return np.ascontiguousarray(part.to_numpy(dtype=dtype, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"partition {number} of X holds what is no number ({error}): look at "
            f"X.partitions[{number}]"
        ) from error


def _vectors(part: Any, number: int, width: int, dtype: Any) -> Array:
    """A column of vectors of one partition as an array."""
    rows = part.iloc[:, 0]
    missing = np.flatnonzero(rows.isna())
    if len(missing):
        raise ValueError(
            f"partition {number} of X has no vector in row {missing[0]} of it: drop such rows, "
            f"X = X.dropna()"
        )
    try:
        values, lengths = _flattened(rows, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"partition {number} of X has a vector with what is no number ({error}): look at "
            f"X.partitions[{number}]"
        ) from error
    other = np.flatnonzero(lengths != width)
    if len(other):
        raise ValueError(
            f"partition {number} of X has a vector of length {lengths[other[0]]} in row {other[0]} "
            f"of it, where others have {width}: mend or drop it"
        )
    return values.reshape(len(lengths), width)


def _flattened(rows: Any, dtype: Any) -> tuple[Array, Array]:
    """Numbers of all vectors one after another, and the length of each vector."""
    if hasattr(rows.dtype, "pyarrow_dtype"):
        import pyarrow.compute as pc

        lists = rows.array.__arrow_array__().combine_chunks()
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        return lists.flatten().to_numpy(zero_copy_only=False).astype(dtype, copy=False), lengths
    vectors = [np.asarray(row, dtype).ravel() for row in rows]
    lengths = np.array([len(vector) for vector in vectors], dtype=np.int64)
    return np.concatenate([np.empty(0, dtype), *vectors]), lengths


def _vector_type(part: Any, number: int) -> tuple[int, np.dtype[Any]]:
    """Length of the first vector of a partition, and the precision to read all in."""
    column = part.iloc[:, 0]
    known = column.dropna()
    if not len(known):
        raise ValueError(f"partition {number} of X has no vectors: drop its rows, X = X.dropna()")
    first = known.iloc[0]
    lists = getattr(column.dtype, "pyarrow_dtype", None)
    kind = getattr(first, "dtype", None) if lists is None else lists.value_type.to_pandas_dtype()
    return np.size(first), np.dtype(np.float32 if kind == np.float32 else np.float64)
