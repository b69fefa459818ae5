"""Data frames of pandas, Polars, PyArrow and others in memory, read by narwhals."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import Array
from .._validation import warn_of_ids
from .base import MemoryRows, check_array


def open_frame(
    X: Any, y: Any, names: Sequence[str] | None, width: int | None, name: str
) -> tuple[MemoryRows, Any] | None:
    """Rows and labels of a data frame, or None where X is not one (see `open_rows`)."""
    import narwhals as nw

    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"{name} has several columns of the same name ({error}): rename them"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return None
    label = y if isinstance(y, str) else None
    columns = feature_columns(frame.columns, label, names, name)
    schema = frame.schema
    kinds = {column: schema[column] for column in columns}
    vectors = [c for c, kind in kinds.items() if isinstance(kind, nw.List | nw.Array | nw.Object)]
    values = None
    if takes_vectors(vectors, columns, width):
        values = frame[vectors[0]].to_numpy()
        if values.ndim == 1:
            first = next((value for value in values if value is not None), 0)
            where = f"column {vectors[0]!r} of {name}"
            values = stack_vectors(values, where) if np.ndim(first) == 1 else None
    column_names = None
    if values is None:
        others = (nw.Boolean, nw.Object, nw.Unknown)  # which may hold numbers
        wrong = [c for c, kind in kinds.items() if not (kind.is_numeric() or kind in others)]
        refuse_columns(columns, wrong, name)
        values = _numbers(nw, frame, columns, kinds, name)
        column_names = string_names(columns)
    rows = MemoryRows(check_array(values, name), column_names, name)
    if names is None:  # with names, these are the features that a metric was learned with
        warn_of_ids(rows.take(), column_names, name, "Leave it out: X.drop(columns=[…]).")
    return rows, y if label is None else frame[label].to_numpy()


def _numbers(nw: Any, frame: Any, columns: list[Any], kinds: dict[Any, Any], name: str) -> Any:
    """Columns of numbers as a matrix; of several types as float64."""
    chosen = frame.select(nw.col(column) for column in columns)  # their names may be numbers
    if nw.Unknown in kinds.values():
        # pandas' sparse columns, which scikit-learn makes a CSR matrix
        return chosen.to_native()
    values = chosen.to_numpy()
    if values.dtype == np.float64 or set(kinds.values()) == {nw.Float32}:
        return values
    for place, column in enumerate(columns):
        try:
            values[:, place].astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {column!r} of {name} holds something other than numbers ({error}): "
                "convert or drop the column"
            ) from None
    return values.astype(np.float64)


# --- what Dask frames share -----------------------------------------------------------------


def feature_columns(
    columns: Sequence[Any], label: Any, names: Sequence[str] | None, name: str
) -> list[Any]:
    """Columns that hold the features: those of the given names, or all but the label."""
    columns = list(columns)
    if label is not None and label not in columns:
        raise ValueError(
            f"y = {label!r} is not a column of {name}, which has {listed(columns)}: give the name "
            "of the column that holds the labels"
        )
    if names is None or string_names(columns) is None:
        return [column for column in columns if label is None or column != label]
    present = set(columns)
    if missing := [column for column in names if column not in present]:
        raise ValueError(
            f"{name} has no column {listed(missing)}, which the metric was learned from; it has "
            f"{listed(columns)}"
        )
    return list(names)


def takes_vectors(vectors: Sequence[Any], columns: Sequence[Any], width: int | None) -> bool:
    """Whether the features are the only column that may hold vectors."""
    return len(vectors) == 1 and (len(columns) == 1 or width is not None)


def refuse_columns(columns: Sequence[Any], wrong: Sequence[Any], name: str) -> None:
    """Refuse columns without numbers, and a frame without any columns of features."""
    if wrong:
        raise ValueError(
            f"{name} has columns {listed(columns)}, but {listed(wrong)} "
            f"{'holds' if len(wrong) == 1 else 'hold'} no numbers: pass columns of numbers, or one "
            "column of vectors. If one of the columns holds labels, pass its name as y"
        )
    if not columns:
        raise ValueError(f"{name} has no columns of features")


def string_names(columns: Sequence[Any]) -> tuple[str, ...] | None:
    """Names of columns; None where some are not strings."""
    return tuple(columns) if all(isinstance(column, str) for column in columns) else None


def listed(columns: Sequence[Any]) -> str:
    """Names of columns for a message."""
    shown = ", ".join(map(repr, columns[:5]))
    return shown + (f" and {len(columns) - 5:,} more" if len(columns) > 5 else "")


def stack_vectors(
    vectors: Any, where: str, width: int | None = None, dtype: Any = None, fix: str = "drop it"
) -> Array:
    """A column of vectors as a matrix; the first one decides the length and precision of all.

    ``where`` says what holds them and ``fix`` what to do about missing ones, for error messages.
    """
    rows: list[Array] = []
    for number, vector in enumerate(vectors):
        if vector is None or np.ndim(vector) == 0:
            raise ValueError(f"{where} has no vector in its row {number}: {fix}")
        if dtype is None:
            is_single = getattr(vector, "dtype", None) == np.float32
            dtype = np.float32 if is_single else np.float64
        try:
            row = np.asarray(vector, dtype).ravel()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{where} has something other than numbers in the vector of its row {number} "
                f"({error}): fix or drop that row"
            ) from None
        width = len(row) if width is None else width
        if len(row) != width:
            raise ValueError(
                f"{where} has a vector of length {len(row)} in its row {number}, but others have "
                f"length {width}: fix or drop that row"
            )
        rows.append(row)
    return np.stack(rows) if rows else np.empty((0, width or 0), dtype)
