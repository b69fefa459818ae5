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


def load_metric(path: Path) -> Metric:
    """Read a metric file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: make it with dualmetric fit")
    return Metric.load(path)


def read_data(path: Path, labels: str | None = None, n_features: int | None = None) -> RowFile:
    """Read rows; ``labels`` names a file, or a column if the rows are a table."""
    if labels is not None and rowfiles.is_table(path) and not _is_file(labels):
        return rowfiles.read_rows(path, label_column=labels)
    return rowfiles.read_rows(path, labels=labels, n_features=n_features)


def _is_file(labels: str) -> bool:
    return Path(labels).suffix in _LABEL_FILES and Path(labels).is_file()


def open_file(file: RowFile, path: Path) -> Rows:
    """Rows of a file, which may be read in blocks; errors name the file."""
    return open_rows(file.X, name=str(path))[0]


def read_data_for(metric: Metric, path: Path, labels: str | None = None) -> tuple[RowFile, Rows]:
    """Read rows that a metric is applied to."""
    file = read_data(path, labels, metric.n_features)
    _check_same_features(file, metric.n_features, metric.feature_names, path)
    return file, open_file(file, path)


def read_test_data(train: RowFile, path: Path, labels: str | None) -> RowFile:
    """Read test rows; if ``labels`` is a file, it holds the labels of the training rows only."""
    width = train.X.shape[1]
    file = read_data(path, None if labels is None or _is_file(labels) else labels, width)
    _check_same_features(file, width, train.feature_names, path)
    if file.y is None:
        raise ValueError(
            f"--test: {path} has no labels to score by: use a format that holds them, such as .npz"
        )
    return file


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


def read_names(path: Path | None, n_features: int) -> list[str] | None:
    """Names of features, one per line."""
    return _read_lines(path, "--names", n_features, "names for {} features: give one name per line")


def read_texts(path: Path | None, n_rows: int) -> list[str] | None:
    """Texts of rows, one per line."""
    return _read_lines(path, "--texts", n_rows, "lines for {} rows: give one line per row")


def _read_lines(path: Path | None, option: str, expected: int, problem: str) -> list[str] | None:
    lines = None if path is None else rowfiles.read_lines(path)
    if lines is not None and len(lines) != expected:
        said = problem.format(f"{expected:,}")
        raise ValueError(f"{option}: {path} has {len(lines):,} {said}")
    return lines


def take_rows(rows: Rows, numbers: Sequence[int]) -> Any:
    """Rows in the order of their numbers; the number of a row that does not exist is refused."""
    return ops.stacked([rows.take(np.array([number])) for number in numbers])


def read_row_numbers(path: Path, kind: Any, n_rows: int) -> Any:
    """`Triplets` or `Comparisons` (``kind``) of row numbers: ``.npy``, ``.npz`` or ``.csv``."""
    name = kind.__name__.lower()
    if not path.is_file():
        raise FileNotFoundError(f"--{name}: {path} does not exist: check its name and folder")
    try:
        return kind(_read_index(path, name)).check(n_rows)
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise ValueError(f"--{name}: {path}: {cause(error)}") from error


def _read_index(path: Path, name: str) -> Array:
    width = {"triplets": 3, "comparisons": 4}[name]
    if path.suffix in (".csv", ".txt"):
        return _read_text(path, width)
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
    return np.asarray(found)


def _read_text(path: Path, width: int) -> Array:
    numbers = re.compile(r"[-+]?\d+,?" * width)
    index = []
    for place, line in enumerate(rowfiles.read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (place == 1 and not any(cell.isdigit() for cell in cells)):
            continue  # blank, or a header
        if len(cells) != width or not numbers.fullmatch(",".join(cells)):
            raise ValueError(
                f"line {place} must be {width} row numbers with commas; got {line[:40]!r}"
            )
        index.append([int(cell) for cell in cells])
    return np.array(index, dtype=np.int64).reshape(-1, width)
