"""Reading the inputs of commands, with errors that name the file."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._arrays import ops
from .._rows import Rows, open_rows
from .._types import Array
from ..io import metric_file, rowfiles
from ..io._forms import open_text, reading
from ..io.parquet import import_pyarrow
from ..io.rowfiles import RowFile
from ..metric import Metric

_LABEL_FILES = (".npy", ".npz", ".txt", ".csv")


def load_metric(path: Path) -> Metric:
    """Read a metric file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: make it with dualmetric fit")
    return Metric.load(path)


def load_matcher(path: Path) -> Any:
    """Read the matcher of a metric file; None where it holds a metric alone."""
    from ..matching import Matcher

    return Matcher.load(path) if metric_file.has_matching(path) else None


def read_data(
    path: Path,
    labels: str | None,
    n_features: int | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> tuple[RowFile, Rows]:
    """Read rows; ``labels`` names a file, or a column if the rows are a table.

    Of a folder in BEIR's layout, these are the vectors of its documents. ``columns`` and ``drop``
    are those of `read_rows`.
    """
    if is_search_folder(path):
        path = vectors_of(path, "corpus")
    if labels is not None and rowfiles.is_table(path) and not _is_file(labels):
        file = rowfiles.read_rows(path, label_column=labels, columns=columns, drop=drop)
    else:
        given: Any = {"columns": columns, "drop": drop, "n_features": n_features}
        file = rowfiles.read_rows(path, labels=labels, **given)
    return file, open_rows(file.X, name=str(path))[0]


def is_search_folder(path: Path) -> bool:
    """Whether this is a folder in BEIR's layout."""
    return (path / "corpus.jsonl").is_file()


def vectors_of(folder: Path, name: str) -> Path:
    """File with the vectors of the documents or queries of such a folder."""
    for suffix in (".npy", ".npz"):
        if (path := folder / f"{name}{suffix}").is_file():
            return path
    raise FileNotFoundError(
        f"{folder} has no {name}.npy or {name}.npz: put the vectors of {name}.jsonl there, one row "
        "per line"
    )


def _is_file(labels: str) -> bool:
    return Path(labels).suffix in _LABEL_FILES and Path(labels).is_file()


def read_data_for(metric: Metric, path: Path, labels: str | None) -> tuple[RowFile, Rows]:
    """Read rows that a metric is applied to."""
    columns = _columns_of(path, metric.feature_names)
    file, rows = read_data(path, labels, metric.n_features, columns)
    check_same_features(file, metric.n_features, metric.feature_names, path)
    return file, rows


def _columns_of(path: Path, names: Sequence[str] | None) -> Sequence[str] | None:
    """Features that a metric was learned with, if a table has all of them: others are ignored."""
    if names is None or not path.exists() or not rowfiles.is_table(path):
        return None
    return names if set(names) <= set(rowfiles.column_names(path)) else None


def columns_in(text: str | None, option: str) -> list[str] | None:
    """Names of columns, separated by commas."""
    names = None if text is None else [name.strip() for name in text.split(",")]
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"{option}: {text!r} repeats a column: name each once")
    return names


def read_test_data(train: RowFile, path: Path, labels: str | None) -> tuple[Rows, Array, Array]:
    """Read test rows and their labels, and the numbers of the rows to score."""
    width = train.X.shape[1]
    if labels is not None and _is_file(labels):
        labels = None  # those of the training rows only
    file, rows = read_data(path, labels, width, _columns_of(path, train.feature_names))
    check_same_features(file, width, train.feature_names, path, "--test")
    if file.y is None:
        raise ValueError(
            f"--test: {path} has no labels to score by: use a format that holds them, such as .npz"
        )
    return rows, file.y, numbers_to_score(file)


def numbers_to_score(file: RowFile) -> Array:
    """Numbers of the test rows that a file names, or of all its rows."""
    return np.arange(file.X.shape[0]) if file.test_idx is None else file.test_idx


def check_same_features(
    file: RowFile,
    expected_width: int,
    expected_names: Sequence[str] | None,
    path: Path,
    option: str | None = None,
) -> None:
    """Refuse rows of another width, or with columns of other names.

    They must fit DATA if the file was given by an option, and otherwise the metric.
    """
    width = file.X.shape[1]
    begin = f"{path}" if option is None else f"{option}: {path}"
    if width != expected_width:
        other, remedy = "DATA has", "give rows with the same features"
        if option is None:
            other, remedy = "the metric takes", "use rows with the same features, or fit again"
        raise ValueError(
            f"{begin} has {width:,} feature{'s' if width > 1 else ''}, but {other} "
            f"{expected_width:,}: {remedy}"
        )
    pairs = zip(file.feature_names or (), expected_names or (), strict=False)
    for place, (name, expected) in enumerate(pairs):
        if name != expected:
            other = "the metric was learned with" if option is None else "DATA has"
            raise ValueError(
                f"{begin}: column {place} (counted from 0) is {name!r}, but {other} {expected!r} "
                "there: put the columns in the same order"
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


def column_of(data: Path, given: str | None, option: str = "--ids") -> str | None:
    """The column of DATA that an option names; None if it names a file."""
    if given is None or not rowfiles.is_table(data) or Path(given).is_file():
        return None
    names = rowfiles.column_names(data)
    if given not in names:
        shown = ", ".join(names[:6]) + (f" … and {len(names) - 6} more" if len(names) > 6 else "")
        raise ValueError(
            f"{option}: {given!r} is neither a file nor a column of {data}: its columns are {shown}"
        )
    return given


def read_texts(given: str | None, data: Path, n_rows: int) -> list[str] | None:
    """Texts of the rows: the lines of a file, or a column where DATA is a table."""
    column = column_of(data, given, "--texts")
    if column is None:
        return read_lines(None if given is None else Path(given), "--texts", n_rows, "row")
    return ["" if text is None else str(text) for text in read_column(data, column)]


def read_column(path: Path, name: str) -> list[Any]:
    """A column of a table as it is written, so that 007 stays 007."""
    if path.is_dir() or path.suffix == ".parquet":
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        pa = import_pyarrow()
        columns = [pa.parquet.read_table(file, columns=[name]).column(0) for file in files]
        return [value for column in columns for value in column.to_pylist()]
    with reading(path), open_text(path) as stream:
        lines = csv.reader(stream)
        place = [cell.strip() for cell in next(lines)].index(name)
        return [line[place].strip() for line in lines if line]


def take_rows(rows: Rows, numbers: Sequence[int]) -> Any:
    """Rows in the order of their numbers; the number of a row that does not exist is refused."""
    return ops.stacked([rows.take(np.array([number])) for number in numbers])
