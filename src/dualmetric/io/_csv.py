"""``.csv`` files: a header, one column per feature, and perhaps labels and ids of the rows."""

import csv
import io
import reprlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from . import _forms
from ._forms import FileError, RowFile, Wanted


def header_of(path: Path) -> list[str]:
    """Names of the columns."""
    with _forms.reading(path), _forms.open_text(path) as stream:
        return [name.strip() for name in next(csv.reader(stream), [])]


def read_csv(path: Path, wanted: Wanted) -> RowFile:
    """Rows, and their labels and ids if there are any."""
    labels: list[str] = []
    ids: list[str] = []
    numbers = array("d")
    layout: _Layout | None = None
    with _forms.open_text(path) as stream:
        lines = csv.reader(stream, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            _check_header(header)
            for row, line in enumerate(filter(None, lines)):  # blank lines are not rows
                if len(line) != len(header):
                    raise FileError(
                        f"row {row} (counted from 0) has {len(line)} columns, but the header has "
                        f"{len(header)}: give every row one value per column"
                    )
                layout = layout or _lay_out(header, line, wanted)
                if layout.label is not None:
                    labels.append(line[layout.label].strip())
                if layout.ids is not None:
                    ids.append(line[layout.ids].strip())
                cells = layout.pick(line)
                try:
                    numbers.extend(map(float, cells))
                except ValueError:
                    odd = {
                        name: cell.strip()
                        for name, cell in zip(layout.names, cells, strict=True)
                        if not is_number(cell)
                    }
                    raise FileError(_not_numbers(odd, row)) from None
        except csv.Error as error:
            raise FileError(f"line {lines.line_num} is not csv ({error})") from None
    if layout is None:
        raise FileError("it has a header but no rows: give at least one row")
    X = np.array(numbers).reshape(-1, len(layout.names))
    y = None if layout.label is None else _forms.labels_of_texts(labels)
    found = RowFile(X, y, layout.names)
    if layout.ids is None:
        return found
    return replace(found, ids=np.array(ids), id_name=header[layout.ids])


class _Layout(NamedTuple):
    """Places of the columns."""

    names: tuple[str, ...]  # of the features
    pick: Callable[[list[str]], Sequence[str]]  # cells of the features
    label: int | None
    ids: int | None


def _not_numbers(odd: dict[str, str], row: int) -> str:
    """What is wrong with cells of a row that are no numbers, by the names of their columns."""
    labels = "as the column of labels (--labels, or label_column in Python)"
    name, cell = next(iter(odd.items()))
    if len(odd) == 1:
        what = f"has {reprlib.repr(cell)} instead of a number" if cell else "is empty"
        return (
            f"column {name!r} {what} in row {row} (counted from 0): fill it, learn without the "
            f"column (--drop {name}, or drop=[{name!r}] in Python), or name it {labels}"
        )
    listed, more = ", ".join(map(repr, list(odd)[:5])), len(odd) - 5
    listed += f" and {more} more" if more > 0 else ""
    return (
        f"columns {listed} have no number in row {row} (counted from 0): fill them, learn without "
        f"them (--drop {','.join(list(odd)[:5])}, or drop={list(odd)[:5]} in Python), or name one "
        f"of them {labels}"
    )


def _lay_out(header: list[str], line: list[str], wanted: Wanted) -> _Layout:
    """Which columns are features, labels and ids, by the header and the first row."""
    label = _forms.label_column_of(header, wanted.label_column, wanted.drop)
    names = wanted.features(header, label)
    # text in a column with the name of ids is never a feature
    texts = [name for name, cell in zip(header, line, strict=True) if not is_number(cell)]
    ids = _forms.id_column_of(header, label, [n for n in names if n not in texts])
    names = [name for name in names if name != ids]
    if not names:
        raise FileError("it has no column of features: add at least one column of numbers")
    places = [header.index(name) for name in names]
    whole = places == list(range(len(header)))
    pick: Any = (
        list
        if whole
        else itemgetter(*places)
        if len(places) > 1
        else (lambda line: [line[places[0]]])
    )
    at = [None if name is None else header.index(name) for name in (label, ids)]
    return _Layout(tuple(names), pick, *at)


def _check_header(header: Sequence[str]) -> None:
    if not header:
        raise FileError("it is empty: write a header and at least one row")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise FileError("its columns are not separated by commas: save it with commas")
    counted = header == [str(place) for place in range(len(header))]  # as pandas names columns
    if all(map(is_number, header)) and not counted:
        raise FileError(
            "its first line holds numbers: add a first line with the names of the columns"
        )


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_csv(X: Array, y: Array | None, ids: Array | None, id_name: str | None) -> bytes:
    """Content of a file with these rows."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    names = [f"x{place}" for place in range(X.shape[1])]
    before = [] if ids is None else [id_name or "id"]
    writer.writerow([*before, *names, *([] if y is None else ["label"])])
    # as many digits as are needed to read the same numbers back
    style = ".9g" if X.dtype.itemsize <= 4 else ""
    for number, row in enumerate(X):
        cells = [format(value, style) for value in row.tolist()]
        before = [] if ids is None else [ids[number]]
        writer.writerow([*before, *cells, *([] if y is None else [y[number]])])
    return content.getvalue().encode()
