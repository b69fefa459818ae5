"""Reading what commands work on, with errors that name the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..metric import Metric
    from ..rowfiles import RowFile

_LABEL_FILES = (".npy", ".npz", ".txt", ".csv")


def load_metric(path: Path) -> Metric:
    """Read a metric file."""
    from ..metric import Metric

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: make it with dualmetric fit")
    return Metric.load(path)


def read_data(path: Path, labels: str | None = None, n_features: int | None = None) -> RowFile:
    """Read rows; ``labels`` names a file, or a column where the rows are a table."""
    from ..rowfiles import is_table, read_rows

    if labels is None:
        return read_rows(path, n_features=n_features)
    if is_table(path) and not _is_file(labels):
        return read_rows(path, label_column=labels)
    return read_rows(path, labels=labels, n_features=n_features)


def _is_file(labels: str) -> bool:
    return Path(labels).suffix in _LABEL_FILES and Path(labels).is_file()


def read_data_for(metric: Metric, path: Path, labels: str | None = None) -> RowFile:
    """Read rows that a metric is to be applied to."""
    data = read_data(path, labels, metric.n_features)
    _check_same_features(data, metric.n_features, metric.feature_names, path)
    return data


def read_test_data(train: RowFile, path: Path, labels: str | None) -> RowFile:
    """Read test rows; ``labels``, where it is a file, are those of the training rows only."""
    width = train.X.shape[1]
    data = read_data(path, None if labels is None or _is_file(labels) else labels, width)
    _check_same_features(data, width, train.feature_names, path)
    if data.y is None:
        raise ValueError(
            f"--test: {path} has no labels to score by: use a form that holds them, such as .npz"
        )
    return data


def _check_same_features(
    data: RowFile, expected_width: int, expected_names: Sequence[str] | None, path: Path
) -> None:
    """Refuse rows of another width, or with columns of other names."""
    width, names = data.X.shape[1], data.feature_names
    if width != expected_width:
        raise ValueError(
            f"{path} has rows of {width:,} features, but the metric is for rows of "
            f"{expected_width:,}: use rows made in the same way, or fit again"
        )
    if names is None or expected_names is None:
        return
    for place, (name, expected) in enumerate(zip(names, expected_names, strict=True)):
        if name != expected:
            raise ValueError(
                f"{path}: column {place} (counted from 0) is {name!r}, where the metric was "
                f"learned with {expected!r}: put the columns in the same order"
            )


def read_names(path: Path | None, n_features: int) -> list[str] | None:
    """Names of features, one a line."""
    from ..rowfiles import read_lines

    if path is None:
        return None
    names = read_lines(path)
    if len(names) != n_features:
        raise ValueError(
            f"--names: {path} has {len(names):,} names for {n_features:,} features: give one a line"
        )
    return names


def check_row(row: int, n_rows: int, path: Path) -> None:
    """Refuse the number of a row that is not there."""
    if not 0 <= row < n_rows:
        raise ValueError(f"{path} has no row {row}: they are numbered from 0 to {n_rows - 1}")
