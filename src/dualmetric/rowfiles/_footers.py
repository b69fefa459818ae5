"""What the footers of Parquet files tell: columns, row groups, and how long vectors are."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from ._common import FileError
from ._tables import is_list, is_number, label_position

# what writers add to the name of a list column for the numbers in it
_LIST_SUFFIX = re.compile(r"(\.(list|bag)\.[^.]+|\.array|\.element|\.item)$")


class Column(NamedTuple):
    """What a column of features holds."""

    is_vector: bool
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"vectors of {self.dtype}" if self.is_vector else str(self.dtype)


class File(NamedTuple):
    """A file, as it was when it was opened."""

    path: Path
    footer: Any  # pyarrow's FileMetaData, so that it is not read again
    stamp: tuple[int, int]
    folders: dict[str, str]  # the names and values of ``name=value`` folders that it lies in


class Group(NamedTuple):
    """A row group: where its rows are, in all rows and in its file."""

    file: int
    number: int
    start: int
    first: int
    n_rows: int


def list_files(path: Path) -> list[Path]:
    """Parquet files in a folder, in the order of their paths; a file stands for itself."""
    if not path.is_dir():
        return [path]
    inside = (file.relative_to(path) for file in path.rglob("*.parquet"))
    shown = (file for file in inside if not any(part[0] in "_." for part in file.parts))
    files = sorted((path / file for file in shown if (path / file).is_file()), key=Path.as_posix)
    if not files:
        raise ValueError(f"{path} is a folder without .parquet files: give a file, or one with")
    return files


def folders_of(file: Path, root: Path) -> dict[str, str]:
    """Names and values of the ``name=value`` folders between ``root`` and a file."""
    inside = file.relative_to(root).parts[:-1]
    pairs = (part.split("=", 1) for part in inside if "=" in part)
    return {unquote(name): unquote(value) for name, value in pairs}


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file, by which a change is noticed."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def choose(
    pa: Any,
    schema: Any,
    folders: dict[str, str],
    wanted: Sequence[str] | None,
    label_column: str | None,
) -> tuple[dict[str, Column], str | None]:
    """Columns of features with what they hold, and the name of the labels."""
    # what pandas adds for the numbers of its rows is no feature
    names = [name for name in schema.names if not name.startswith("__index_level_")]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise FileError(f"it has two columns {twice!r}: give them different names")
    known = [*names, *(name for name in folders if name not in names)]
    place = label_position(known, label_column)
    label = None if place is None else known[place]
    if wanted is None:
        rest = [name for name in names if name != label]
        vectors = [name for name in rest if is_list(pa, schema.field(name).type)]
        if len(vectors) > 1:
            raise FileError(
                f"it has {len(vectors)} columns of vectors, {', '.join(vectors)}: name one"
            )
        wanted = vectors or rest
    if not wanted:
        raise FileError("it has no column of features")
    found = {}
    for name in wanted:
        label_position(names, name)  # an error that lists the columns, where it is not there
        found[name] = _column(pa, schema.field(name).type, name)
    if len(found) > 1 and (vector := next((n for n in found if found[n].is_vector), None)):
        raise FileError(f"column {vector!r} holds vectors, and goes with no other: name it alone")
    return found, label


def _column(pa: Any, kind: Any, name: str) -> Column:
    is_vector = is_list(pa, kind)
    number = kind.value_type if is_vector else kind
    if is_number(pa, number):
        return Column(is_vector, np.dtype(number.to_pandas_dtype()))
    if is_vector:
        raise FileError(f"the vectors in column {name!r} hold {number} where numbers belong")
    raise FileError(
        f"column {name!r} holds {kind} where numbers belong: name it as that of the labels, or "
        "name the columns of features"
    )


def check_like_first(
    found: dict[str, Column],
    found_label: str | None,
    features: dict[str, Column],
    label: str | None,
    files: Sequence[File],
) -> None:
    """Refuse a file whose columns are not those of the first."""
    if found == features and found_label == label:
        return
    other = files[0].path
    if found_label != label:
        raise FileError(f"its labels are in {found_label!r}, and those of {other} in {label!r}")
    for name, column in features.items():
        if name not in found:
            raise FileError(f"it has no column {name!r} of features, and {other} has one")
        if found[name] != column:
            raise FileError(
                f"column {name!r} holds {found[name]}, and that of {other} {column}: write both "
                "alike"
            )
    more = next(name for name in found if name not in features)
    raise FileError(f"it has a column {more!r}, and {other} has none: name the columns to use")


def vector_width(footer: Any, name: str, lengths: Sequence[int], width: int) -> int:
    """Length of all vectors, as the footer counts their numbers; ``width`` is known if not 0."""
    leaves = (footer.schema.column(place) for place in range(footer.num_columns))
    leaf = next(
        place
        for place, column in enumerate(leaves)
        if column.max_repetition_level and _LIST_SUFFIX.sub("", column.path) == name
    )
    first = 0
    for number, n_rows in enumerate(lengths):
        if n_rows:
            count = footer.row_group(number).column(leaf).num_values
            width = width or count // n_rows
            if count != width * n_rows:
                raise FileError(
                    f"row group {number} (rows {first} to {first + n_rows - 1}, counted from 0) "
                    f"has {count:,} numbers in column {name!r}, where {n_rows:,} vectors of length "
                    f"{width:,} have {width * n_rows:,}: some vectors are missing, or of another "
                    "length"
                )
        first += n_rows
    return width
