"""Reading arrays: ``.npy``, ``.npz`` and svmlight."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._types import Array, Rows
from ..products import canonical
from ._common import FileError, RowFile, clean_labels, opened

MAPPED_ABOVE = 2**26
"""Bytes above which a ``.npy`` file is mapped into memory, and read as far as it is needed."""

_NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf)"
_SVMLIGHT_LINE = re.compile(
    rb"\s*((%b)(\s+qid:\d+)?(\s+\d+:(%b))*)?\s*(#.*)?" % (_NUMBER, _NUMBER), re.IGNORECASE
)


def read_npy(path: Path) -> RowFile:
    """Rows without labels."""
    if path.stat().st_size > MAPPED_ABOVE:
        return RowFile(np.load(path, mmap_mode="r", allow_pickle=False))
    with opened(path) as stream:
        return RowFile(np.load(stream, allow_pickle=False))


def read_npz(path: Path) -> RowFile:
    """Rows, dense or sparse, and all that may go with them."""
    # opened here, as np.load leaves a damaged file open
    with opened(path) as stream, np.load(stream, allow_pickle=False) as file:
        if "X" in file:
            X = _array(file, "X")
        elif "indptr" in file and _format(file) == "csr":
            parts = tuple(_array(file, name) for name in ("data", "indices", "indptr"))
            X = sp.csr_matrix(parts, shape=tuple(_array(file, "shape").tolist()))
            X.check_format(full_check=True)
            X = canonical(X)
        elif "format" in file:  # another of SciPy's sparse forms
            X = canonical(sp.csr_matrix(sp.load_npz(path)))
        else:
            raise FileError(
                "it holds neither an array 'X' nor the parts of a sparse matrix, but "
                + (", ".join(file.files) or "nothing")
            )
        y = clean_labels(_array(file, "y")) if "y" in file else None
        has_split = "train_idx" in file and "test_idx" in file
        return RowFile(
            X,
            y,
            _names(file, "feature_names"),
            _names(file, "class_names") if y is not None else None,
            _array(file, "train_idx") if has_split else None,
            _array(file, "test_idx") if has_split else None,
        )


def read_npz_labels(path: Path) -> Array:
    """The array ``y``."""
    with opened(path) as stream, np.load(stream, allow_pickle=False) as file:
        if "y" not in file:
            raise FileError("there is no array 'y' in it to take labels from")
        return _array(file, "y")


def _array(file: Any, name: str) -> Array:
    found = file[name]
    if not isinstance(found, np.ndarray):  # NumPy hands on the bytes of what it does not know
        raise FileError(f"{name!r} in it is not an array: make it again")
    return found


def _format(file: Any) -> str:
    """Kind of sparse matrix; SciPy writes it in bytes, others as text or not at all."""
    if "format" not in file:
        return "csr"
    kind = _array(file, "format").item()
    return kind.decode("ascii") if isinstance(kind, bytes) else str(kind)


def _names(file: Any, key: str) -> tuple[str, ...] | None:
    return tuple(map(str, _array(file, key).ravel().tolist())) if key in file else None


def read_svmlight(path: Path, n_features: int | None) -> RowFile:
    """Sparse rows and labels; indices count from 0 where any is 0, else from 1."""
    from sklearn.datasets import load_svmlight_file

    try:
        with opened(path) as stream:
            X, y = load_svmlight_file(stream, dtype=np.float64)
    except ValueError as error:
        _name_bad_line(path)
        raise error
    if n_features is not None and X.shape[1] < n_features:
        X.resize(X.shape[0], n_features)
    return RowFile(canonical(X), clean_labels(y))


def _name_bad_line(path: Path) -> None:
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not _SVMLIGHT_LINE.fullmatch(line):
                shown = line.decode("utf-8", "replace").strip()
                shown = shown if len(shown) <= 40 else shown[:40] + "…"
                raise FileError(
                    f"line {number} is not a label and index:value pairs of numbers: {shown!r}"
                )


def check_finite(X: Rows) -> None:
    """Refuse NaN and infinity by the first row that has one."""
    values: Array = X.data if sp.issparse(X) else X
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    first = np.argwhere(~np.isfinite(values))[0]
    row = int(np.searchsorted(X.indptr, first[0], side="right") - 1) if sp.issparse(X) else first[0]
    raise FileError(
        f"row {row} (counted from 0) has NaN or infinity where numbers belong: fill such places, "
        "or drop the row"
    )
