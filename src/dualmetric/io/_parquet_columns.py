"""Columns of Parquet files: which are features, labels and ids, and their numbers."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from .._validation import is_id_name
from ._forms import FileError, clean_labels, id_column_of, label_column_of, without_labels

# what writers add to the name of a list column for the numbers in it
_LIST_SUFFIX = re.compile(r"(\.(list|bag)\.[^.]+|\.array|\.element|\.item)$")


class Column(NamedTuple):
    dtype: np.dtype[Any]
    width: int | None  # of vectors

    def __str__(self) -> str:
        return f"{self.dtype}" if self.width is None else f"vectors of {self.width} {self.dtype}"


# --- columns --------------------------------------------------------------------------------


def choose(
    pa: Any,
    schema: Any,
    file: Any,
    wanted: Sequence[str] | None,
    label_column: str | None,
    drop: Sequence[str],
) -> tuple[dict[str, Column], str | None, str | None]:
    """Columns of features with their types, and the names of the labels and of the ids."""
    # the index of a pandas frame is not a feature
    names = [name for name in schema.names if not name.startswith("__index_level_")]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise FileError(f"it has two columns {twice!r}: give them different names")
    known = [*names, *(name for name in file.folders if name not in names)]
    label = label_column_of(known, label_column, drop)
    for name in drop:
        label_column_of(names, name)  # an error that lists the columns, if it is not there
    if wanted is None:
        rest = [name for name in names if name != label and name not in drop]
        texts = [name for name in rest if not _is_number(pa, schema.field(name).type)]
        rest = [name for name in rest if name not in texts or not is_id_name(name)]
        vectors = [name for name in rest if _is_list(pa, schema.field(name).type)]
        if len(vectors) > 1:
            raise FileError(
                f"it has {len(vectors)} columns of vectors, {', '.join(vectors)}: select one with "
                "--columns (columns=… in Python)"
            )
        wanted = vectors or rest
    if not wanted:
        raise FileError("it has no column of features: add at least one column of numbers")
    for name in wanted:
        label_column_of(names, name)  # an error that lists the columns, if it is not there
    found = {name: _column(pa, schema.field(name).type, name, file.footer) for name in wanted}
    vectors = [name for name in found if found[name].width is not None]
    if vectors and len(found) > 1:
        raise FileError(
            f"column {vectors[0]!r} holds vectors and cannot be combined with others: select it "
            "alone with --columns (columns=… in Python)"
        )
    plain = [name for name in names if not _is_list(pa, schema.field(name).type)]
    return found, label, id_column_of(plain, label, found)


def _column(pa: Any, kind: Any, name: str, footer: Any) -> Column:
    is_vector = _is_list(pa, kind)
    number = kind.value_type if is_vector else kind
    if not _is_number(pa, number) and not pa.types.is_decimal(number):
        raise FileError(
            f"column {name!r} holds {kind}, not numbers: if it holds the labels, select it with "
            "--labels (label_column=… in Python); otherwise select the features with --columns "
            "(columns=… in Python)"
        )
    dtype = np.float64 if pa.types.is_decimal(number) else number.to_pandas_dtype()
    return Column(np.dtype(dtype), _length(footer, name) if is_vector else None)


def _is_list(pa: Any, kind: Any) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _length(footer: Any, name: str) -> int:
    """Length of all vectors of a column, from the counts in the footer."""
    leaves = map(footer.schema.column, range(footer.num_columns))
    names = [leaf.max_repetition_level and _LIST_SUFFIX.sub("", leaf.path) for leaf in leaves]
    leaf = names.index(name)
    length, first = 0, 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        n_rows, count = group.num_rows, group.column(leaf).num_values
        length = length or count // max(n_rows, 1)
        if count != length * n_rows:
            raise FileError(
                f"row group {number} (rows {first} to {first + n_rows - 1}, counted from 0) has "
                f"{count:,} numbers in column {name!r}: some vectors are missing, or of another "
                "length"
            )
        first += n_rows
    return length


# --- numbers and labels ---------------------------------------------------------------------


def first_null(column: Any) -> int:
    return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])


def vectors_of(pa: Any, column: Any, name: str, width: int, first_row: int) -> Array:
    """Vectors as rows; ``first_row`` is the number of the first one."""
    lengths = pa.compute.list_value_length(column).to_numpy(zero_copy_only=False)
    # the length of a null is NaN, which differs from that of any vector
    if len(wrong := np.flatnonzero(~(lengths == width))):
        length = lengths[wrong[0]]
        found = "no vector" if np.isnan(length) else f"a vector of length {length:.0f}"
        raise FileError(
            f"row {first_row + wrong[0]} (counted from 0) of column {name!r} has {found}, but "
            f"others have length {width}: drop the row"
        )
    values = column.flatten()
    if values.null_count:
        raise FileError(
            f"the vector in row {first_row + first_null(values) // width} (counted from 0) of "
            f"column {name!r} has a number missing: fill it, or drop the row"
        )
    numbers: Array = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(-1, width)


def labels_of(pa: Any, column: Any) -> Array:
    """Labels as whole numbers or strings; other types are converted to strings."""
    if column.null_count:
        raise without_labels(first_null(column), column.null_count, len(column))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_number(pa, column.type):
        return clean_labels(column.to_numpy())
    classes = pa.compute.unique(column)  # few: each becomes a Python object
    names = np.array(classes.to_pylist())
    if names.dtype.kind not in "US":
        names = np.array(list(map(str, names)))
    return clean_labels(names)[pa.compute.index_in(column, classes).to_numpy()]
