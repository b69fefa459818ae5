"""Rows: whatever the user passes as X is opened here, once, as one kind of object."""

from collections.abc import Sequence
from typing import Any

from .base import MemoryRows, Rows, check_array, is_array, is_dask, refuse_name
from .choice import choose_rows, evenly_chosen, with_rare_classes
from .frames import feature_columns, open_frame
from .passes import column_means, within_scatter
from .stored import StoredRows, is_source

__all__ = [
    "Rows",
    "choose_rows",
    "column_means",
    "evenly_chosen",
    "is_dask",
    "is_source",
    "open_rows",
    "with_rare_classes",
    "within_scatter",
]


def open_rows(
    X: Any,
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    width: int | None = None,
    name: str = "X",
) -> tuple[Rows, Any]:
    """Open rows of any kind, and bring their labels into memory.

    X is an array-like, a SciPy sparse matrix, a data frame of pandas, Polars, PyArrow or Dask, a
    NumPy memory map, an object with ``shape``, ``dtype`` and row slicing (HDF5, Zarr,
    `open_parquet`), a Dask array, or an array of PyTorch, CuPy or another library of the array API.
    A string y is the name of a column of X, a Dask y is computed, and any other is returned as it
    is. ``names`` and ``width`` are those of the features that a metric was learned with: the
    columns of a frame with these names are taken in this order, or its only column of vectors, and
    others are ignored. By default all columns but the labels are features. ``name`` is that of the
    argument X, for error messages.
    """
    if isinstance(X, Rows):
        return X, y
    if is_dask(X):
        from .dask import open_dask

        return open_dask(X, y, names, width, name)
    if is_dask(y):
        from .dask import computed

        y = computed(y)
    if hasattr(X, "label_column") and hasattr(X, "select"):  # as `ParquetRows` has
        return _open_columns(X, y, names, name)
    if not is_array(X):
        opened = open_frame(X, y, names, width, name)
        if opened is not None:
            return opened
    refuse_name(y, name)
    if is_source(X):
        return StoredRows(X, name), y
    return MemoryRows(check_array(X, name), name=name), y


def _open_columns(X: Any, y: Any, names: Sequence[str] | None, name: str) -> tuple[Rows, Any]:
    if names is not None and X.feature_names is not None:
        X = X.select(feature_columns(X.feature_names, None, names, name))
    if isinstance(y, str):
        if y != X.label_column:
            raise ValueError(
                f"y = {y!r} is not the column of labels of {name}: open it with "
                f"open_parquet(path, label_column={y!r})"
            )
        y = X.labels()
    return StoredRows(X, name), y
