"""Reading ``.npy``, ``.npz``, svmlight and csv."""

import csv
import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays.sparse import canonical
from .._rows.base import check_indices
from .._types import Array
from . import _forms
from ._forms import FileError, RowFile, clean_labels, open_bytes

MAPPED_ABOVE = 2**26
"""Size in bytes above which files are not read as a whole, but when rows are needed."""

_NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf)"
_SVMLIGHT_LINE = re.compile(
    rb"\s*((%b)(\s+qid:\d+)?(\s+\d+:(%b))*)?\s*(#.*)?" % (_NUMBER, _NUMBER), re.IGNORECASE
)


def read_npy(path: Path) -> RowFile:
    """Rows without labels."""
    if path.stat().st_size > MAPPED_ABOVE:
        return RowFile(np.load(path, mmap_mode="r", allow_pickle=False))
    with open_bytes(path) as stream:
        return RowFile(np.load(stream, allow_pickle=False))


def read_npz(path: Path) -> RowFile:
    """Rows, dense or sparse, with labels, names and a split if the file has them."""
    # np.load itself leaves a damaged file open
    with open_bytes(path) as stream, np.load(stream, allow_pickle=False) as file:
        has_split = "train_idx" in file and "test_idx" in file
        return RowFile(
            _array(file, "X") if "X" in file else _sparse(file, path),
            clean_labels(_array(file, "y")) if "y" in file else None,
            _names(file, "feature_names"),
            _names(file, "class_names") if "y" in file else None,
            _array(file, "train_idx") if has_split else None,
            _array(file, "test_idx") if has_split else None,
        )


def _sparse(file: Any, path: Path) -> Any:
    """A sparse matrix of SciPy, or one in CSR form that does not name its form."""
    if "format" in file:
        X = sp.load_npz(path)
    elif "indptr" in file:
        parts = tuple(_array(file, name) for name in ("data", "indices", "indptr"))
        X = sp.csr_matrix(parts, shape=tuple(_array(file, "shape").tolist()))
    else:
        raise FileError(
            "it holds neither an array 'X' nor the parts of a sparse matrix, but "
            + (", ".join(file.files) or "nothing")
        )
    check_indices(X, "its X")
    return canonical(sp.csr_matrix(X))


def read_labels(path: Path) -> Array:
    """Labels in a ``.npy`` file, or the array ``y`` of a ``.npz`` file."""
    with open_bytes(path) as stream:
        found = np.load(stream, allow_pickle=False)
        if path.suffix == ".npz":
            if "y" not in found:
                raise FileError("it has no array 'y' of labels")
            found = _array(found, "y")
    return clean_labels(found)


def _array(file: Any, name: str) -> Array:
    found = file[name]
    if not isinstance(found, np.ndarray):  # NumPy returns other entries as bytes
        raise FileError(f"{name!r} in it is not an array: write it again")
    return found


def _names(file: Any, key: str) -> tuple[str, ...] | None:
    return tuple(map(str, _array(file, key).ravel().tolist())) if key in file else None


def read_svmlight(path: Path, n_features: int | None) -> RowFile:
    """Sparse rows and labels; indices count from 0 where any is 0, else from 1."""
    from sklearn.datasets import load_svmlight_file

    try:
        with open_bytes(path) as stream:
            X, y = load_svmlight_file(stream, dtype=np.float64)
    except ValueError:
        _name_bad_line(path)
        raise
    if n_features is not None and X.shape[1] < n_features:
        X.resize(X.shape[0], n_features)
    return RowFile(canonical(X), clean_labels(y))


def _name_bad_line(path: Path) -> None:
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not _SVMLIGHT_LINE.fullmatch(line):
                shown = _forms.shortened(line.decode("utf-8", "replace").strip())
                raise FileError(
                    f"line {number} is not a label and index:value pairs of numbers: {shown!r}"
                )


def read_csv(path: Path, label_column: str | None) -> RowFile:
    """Rows, and labels if there are any, of a text file with a header and commas."""
    labels: list[str] = []
    numbers = array("d")
    with _forms.open_text(path) as stream:
        lines = csv.reader(stream, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            _check_header(header)
            label = _forms.label_position(header, label_column)
            names = [name for place, name in enumerate(header) if place != label]
            for row, line in enumerate(filter(None, lines)):  # blank lines are not rows
                if len(line) != len(header):
                    raise FileError(
                        f"row {row} (counted from 0) has {len(line)} columns, but the header has "
                        f"{len(header)}"
                    )
                labels.append("" if label is None else line.pop(label).strip())
                try:
                    numbers.extend(map(float, line))
                except ValueError:
                    place = next(place for place, cell in enumerate(line) if not _is_number(cell))
                    raise FileError(
                        f"column {names[place]!r} has {_forms.shortened(line[place])!r} instead of "
                        f"a number in row {row} (counted from 0): fill it, leave the column out, "
                        "or name it as the column of labels"
                    ) from None
        except csv.Error as error:
            raise FileError(f"line {lines.line_num} is not csv ({error})") from None
    if not labels:
        raise FileError("it has a header and no rows")
    y = None if label is None else _forms.labels_of_texts(labels)
    return RowFile(np.array(numbers).reshape(len(labels), len(names)), y, tuple(names))


def _check_header(header: Sequence[str]) -> None:
    if not header:
        raise FileError("it is empty")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise FileError("its columns are not separated by commas: save it with commas")
    counted = header == [str(place) for place in range(len(header))]  # as pandas names columns
    if all(map(_is_number, header)) and not counted:
        raise FileError(
            "its first line holds numbers: add a first line with the names of the columns"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
