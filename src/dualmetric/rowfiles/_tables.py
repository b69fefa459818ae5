"""Reading tables with named columns: csv and parquet."""

import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Array
from ._common import FileError, RowFile, clean_labels, numbers_where_all_are, open_text

_LABEL_NAMES = ("label", "y")
_BLOCK = 1024  # rows of text that are held at once


def import_pyarrow() -> Any:
    """pyarrow, or an ImportError that says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise ImportError("parquet files need  pip install 'dualmetric[parquet]'") from None
    return pyarrow


def read_csv(path: Path, label_column: str | None) -> RowFile:
    """Rows and perhaps labels of a text file with a header and commas."""
    with open_text(path) as stream:
        lines = csv.reader(stream, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            _check_header(header)
            label = label_position(header, label_column)
            names = [name for place, name in enumerate(header) if place != label]
            labels: list[str] = []
            blocks: list[Array] = []
            while block := list(islice(lines, _BLOCK)):
                block = [line for line in block if line]  # blank lines are no rows
                for line in block:
                    if len(line) != len(header):
                        raise FileError(
                            f"row {len(labels)} (counted from 0) has {len(line)} columns, and "
                            f"the header has {len(header)}"
                        )
                    labels.append("" if label is None else line.pop(label).strip())
                blocks.append(_numbers(block, names, len(labels) - len(block)))
        except csv.Error as error:
            raise FileError(f"line {lines.line_num} is not csv ({error})") from None
    if not labels:
        raise FileError("it has a header and no rows")
    y = None if label is None else clean_labels(numbers_where_all_are(labels))
    return RowFile(np.concatenate(blocks), y, tuple(names))


def _check_header(header: Sequence[str]) -> None:
    if not header:
        raise FileError("it is empty")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise FileError("its columns are not separated by commas: save it with commas")
    numbers = [_as_number(name) for name in header]
    counted = numbers == list(range(len(header)))  # pandas names columns so that have no names
    if None not in numbers and not counted:
        raise FileError("its first line holds numbers: put one with the names of columns first")


def _as_number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def label_position(names: Sequence[str], wanted: str | None) -> int | None:
    """Place of the column of labels; None where none was asked for and none is named so."""
    if wanted is None:
        return next((names.index(name) for name in _LABEL_NAMES if name in names), None)
    if wanted in names:
        return names.index(wanted)
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise FileError(f"there is no column {wanted!r}; there are {shown}")


def _numbers(block: list[list[str]], names: Sequence[str], first_row: int) -> Array:
    """A block of text cells as numbers."""
    try:
        return np.array(block, dtype=np.float64).reshape(len(block), len(names))
    except ValueError:
        for place, name in enumerate(names):
            for number, line in enumerate(block):
                check_cell(line[place], name, first_row + number)
        raise


def check_cell(cell: Any, name: str, row: int) -> None:
    """Refuse a cell that is empty or not a number."""
    if cell is None or cell == "":
        raise FileError(
            f"column {name!r} is empty in row {row} (counted from 0): fill such places, or drop "
            "the row"
        )
    if _as_number(cell) is None:
        shown = str(cell) if len(str(cell)) <= 40 else str(cell)[:40] + "…"
        raise FileError(
            f"column {name!r} has text where numbers belong, {shown!r} in row {row} (counted from "
            "0): leave the column out, or name it as that of the labels"
        )


def read_parquet(path: Path, label_column: str | None) -> RowFile:
    """Rows and perhaps labels: a column a feature, or one of vectors."""
    pa = import_pyarrow()
    with pa.parquet.ParquetFile(path) as file:
        table = file.read()
    # what pandas adds for the numbers of its rows is no feature
    index = [n for n, name in enumerate(table.column_names) if name.startswith("__index_level_")]
    for place in reversed(index):
        table = table.remove_column(place)
    if table.num_rows == 0 or table.num_columns == 0:
        raise FileError("it has no rows")
    names = list(table.column_names)
    label = label_position(names, label_column)
    y = None if label is None else arrow_labels(pa, table.column(label))
    columns = [place for place in range(len(names)) if place != label]
    vectors = [place for place in columns if is_list(pa, table.schema.field(place).type)]
    if len(vectors) > 1:
        raise FileError(
            f"it has {len(vectors)} columns of vectors, {', '.join(names[v] for v in vectors)}: "
            "keep one"
        )
    if vectors:
        return RowFile(vectors_as_rows(pa, table.column(vectors[0]), names[vectors[0]]), y)
    if not columns:
        raise FileError("it has no column but that of the labels")
    X = np.column_stack([_scalars(pa, table.column(place), names[place]) for place in columns])
    return RowFile(X, y, tuple(names[place] for place in columns))


def is_list(pa: Any, kind: Any) -> bool:
    """Whether a column of this type holds vectors."""
    types = pa.types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_number(pa: Any, kind: Any) -> bool:
    """Whether a column of this type holds numbers."""
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def arrow_labels(pa: Any, column: Any) -> Array:
    """Labels as whole numbers or strings; what is neither is taken by its name."""
    if column.null_count:
        row = np.flatnonzero(column.is_null().to_numpy())[0]
        raise FileError(f"row {row} has no label (rows count from 0): drop it")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_number(pa, column.type):
        return clean_labels(column.to_numpy())
    classes = pa.compute.unique(column)  # few, and a Python object each
    names = np.array(classes.to_pylist())
    if names.dtype.kind not in "US":
        names = np.array(list(map(str, names)))
    return clean_labels(names)[pa.compute.index_in(column, classes).to_numpy()]


def _scalars(pa: Any, column: Any, name: str) -> Array:
    if column.null_count == 0 and is_number(pa, column.type):
        numbers: Array = column.to_numpy()
        return numbers
    cells = column.to_pylist()  # decimals, numbers kept as text, and what is wrong
    for row, cell in enumerate(cells):
        check_cell(cell, name, row)
    return np.array(cells, dtype=np.float64)


def vectors_as_rows(
    pa: Any, column: Any, name: str, width: float | None = None, first_row: int = 0
) -> Array:
    """Vectors as rows, all of one length; not copied, where they come in one piece.

    ``width`` is that length where it is known, and ``first_row`` the number of the first vector.
    """
    if not is_number(pa, column.type.value_type):
        raise FileError(
            f"the vectors in column {name!r} hold {column.type.value_type} where numbers belong"
        )
    blocks: list[Array] = []
    for chunk in column.chunks:
        lengths = pa.compute.list_value_length(chunk).to_numpy(zero_copy_only=False)
        if width is None and len(lengths):
            width = lengths[0]
        # a null has no length, NaN, and so another one than any vector
        if len(wrong := np.flatnonzero(~(lengths == width))):
            raise FileError(_vector_problem(name, first_row + wrong[0], lengths[wrong[0]], width))
        values = chunk.flatten()
        if values.null_count:
            place = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]
            raise FileError(
                f"the vector in row {first_row + place // int(width or 1)} (counted from 0) of "
                f"column {name!r} has a number missing"
            )
        blocks.append(values.to_numpy(zero_copy_only=False).reshape(len(lengths), int(width or 0)))
        first_row += len(lengths)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _vector_problem(name: str, row: int, length: float, width: float | None) -> str:
    where = f"row {row} (counted from 0) of column {name!r}"
    if np.isnan(length):
        return f"{where} has no vector: drop the row"
    return f"{where} has a vector of length {length:.0f}, and others have one of {width:.0f}"
