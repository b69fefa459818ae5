"""Reading the inputs of commands, with errors that name the file."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._arrays import ops
from .._rows import Rows, open_rows
from .._types import Array
from ..io import rowfiles
from ..io._forms import cause
from ..io.rowfiles import RowFile
from ..metric import Metric

_LABEL_FILES = (".npy", ".npz", ".txt", ".csv")
_NUMBER = re.compile(r"[-+]?\d+")


def load_metric(path: Path) -> Metric:
    """Read a metric file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: make it with dualmetric fit")
    return Metric.load(path)


def read_data(
    path: Path, labels: str | None, n_features: int | None = None
) -> tuple[RowFile, Rows]:
    """Read rows; ``labels`` names a file, or a column if the rows are a table."""
    if labels is not None and rowfiles.is_table(path) and not _is_file(labels):
        file = rowfiles.read_rows(path, label_column=labels)
    else:
        file = rowfiles.read_rows(path, labels=labels, n_features=n_features)
    return file, open_rows(file.X, name=str(path))[0]


def _is_file(labels: str) -> bool:
    return Path(labels).suffix in _LABEL_FILES and Path(labels).is_file()


def read_data_for(metric: Metric, path: Path, labels: str | None) -> tuple[RowFile, Rows]:
    """Read rows that a metric is applied to."""
    file, rows = read_data(path, labels, metric.n_features)
    _check_same_features(file, metric.n_features, metric.feature_names, path)
    return file, rows


def read_test_data(train: RowFile, path: Path, labels: str | None) -> tuple[Rows, Array, Array]:
    """Read test rows and their labels, and the numbers of the rows to score."""
    width = train.X.shape[1]
    if labels is not None and _is_file(labels):
        labels = None  # those of the training rows only
    file, rows = read_data(path, labels, width)
    _check_same_features(file, width, train.feature_names, path)
    if file.y is None:
        raise ValueError(
            f"--test: {path} has no labels to score by: use a format that holds them, such as .npz"
        )
    return rows, file.y, numbers_to_score(file)


def numbers_to_score(file: RowFile) -> Array:
    """Numbers of the test rows that a file names, or of all its rows."""
    return np.arange(file.X.shape[0]) if file.test_idx is None else file.test_idx


def _check_same_features(
    file: RowFile, expected_width: int, expected_names: Sequence[str] | None, path: Path
) -> None:
    """Refuse rows of another width, or with columns of other names."""
    width = file.X.shape[1]
    if width != expected_width:
        raise ValueError(
            f"{path} has rows of {width:,} features, but the metric is for rows of "
            f"{expected_width:,}: use rows made in the same way, or fit again"
        )
    pairs = zip(file.feature_names or (), expected_names or (), strict=False)
    for place, (name, expected) in enumerate(pairs):
        if name != expected:
            raise ValueError(
                f"{path}: column {place} (counted from 0) is {name!r}, but the metric was "
                f"learned with {expected!r} there: put the columns in the same order"
            )


def read_lines(path: Path | None, option: str, expected: int, noun: str) -> list[str] | None:
    """Names of features or texts of rows, one per line."""
    lines = None if path is None else rowfiles.read_lines(path)
    if lines is not None and len(lines) != expected:
        raise ValueError(
            f"{option}: {path} has {len(lines):,} lines for {expected:,} {noun}s: give one line "
            f"per {noun}"
        )
    return lines


def take_rows(rows: Rows, numbers: Sequence[int]) -> Any:
    """Rows in the order of their numbers; the number of a row that does not exist is refused."""
    return ops.stacked([rows.take(np.array([number])) for number in numbers])


def read_row_numbers(path: Path, kind: Any, n_rows: int) -> Any:
    """`Triplets` or `Comparisons` (``kind``) of row numbers: ``.npy``, ``.npz`` or ``.csv``."""
    name = kind.__name__.lower()
    if not path.is_file():
        raise FileNotFoundError(f"--{name}: {path} does not exist: check its name and folder")
    width = {"triplets": 3, "comparisons": 4}[name]
    try:
        if path.suffix in (".csv", ".txt"):
            return kind(_read_text(path, width)).check(n_rows)
        if path.suffix not in (".npy", ".npz"):
            raise ValueError(
                f"{name} are read from .npy, .npz, or .csv with {width} row numbers per line"
            )
        with open(path, "rb") as stream:
            found = np.load(stream, allow_pickle=False)
            if path.suffix == ".npz":
                key = found.files[0] if len(found.files) == 1 else name
                if key not in found:
                    raise ValueError(f"it must hold a single array, or one named {name!r}")
                found = found[key]
        return kind(found).check(n_rows)
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise ValueError(f"--{name}: {path}: {cause(error)}") from error


def _read_text(path: Path, width: int) -> Array:
    index = []
    for place, line in enumerate(rowfiles.read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (place == 1 and not any(cell.isdigit() for cell in cells)):
            continue  # blank, or a header
        if len(cells) != width or not all(map(_NUMBER.fullmatch, cells)):
            raise ValueError(
                f"line {place} must be {width} row numbers with commas; got {line[:40]!r}"
            )
        index.append([int(cell) for cell in cells])
    return np.array(index, dtype=np.int64).reshape(-1, width)
