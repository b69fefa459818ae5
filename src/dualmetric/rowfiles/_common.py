"""What all forms of files share: how they are named, opened, and found at fault."""

import bz2
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np

from .._types import Array, Rows

FORMS = {
    ".npz": "npz",
    ".npy": "npy",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".csv": "csv",
    ".parquet": "parquet",
}
_COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
_DAMAGE = (ValueError, KeyError, TypeError, EOFError, OverflowError, BadZipFile, zlib.error)


class FileError(ValueError):
    """What is wrong with a file, without its name: `reading` puts that in front."""


@dataclass(frozen=True, eq=False)
class RowFile:
    """What a file of rows holds.

    Attributes
    ----------
    X : {ndarray, memmap, CSR matrix} of shape (n_rows, n_features)
        The rows; a large ``.npy`` is mapped, not read.
    y : ndarray of shape (n_rows,) or None
        Labels: whole numbers or strings.
    feature_names : tuple of str or None
        Names of the columns of X.
    class_names : tuple of str or None
        ``class_names[y[i]]`` is the class of row i.
    train_idx, test_idx : ndarray of int or None
        Row numbers of the training and the test part; both or neither.
    """

    X: Rows
    y: Array | None = None
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    train_idx: Array | None = None
    test_idx: Array | None = None

    def label(self, row: int) -> str | None:
        """Class of a row in words, or None where there are no labels."""
        if self.y is None:
            return None
        return str(self.y[row] if self.class_names is None else self.class_names[self.y[row]])


def form_of(path: Path) -> str:
    """Form of a file by its name; a ValueError where that says nothing."""
    suffix = path.suffix.lower()
    if suffix in _COMPRESSED:
        form = FORMS.get(Path(path.stem).suffix.lower(), "svmlight")
        if form in ("svmlight", "csv"):
            return form
        raise ValueError(f"{path}: a .{form} file is not read or written compressed: unpack it")
    if suffix in FORMS:
        return FORMS[suffix]
    raise ValueError(
        f"{path}: files of rows end in {', '.join(FORMS)}, or in .gz or .bz2 (csv and svmlight)"
    )


def existing(path: str | os.PathLike[str]) -> Path:
    """Path of a file or folder that is there."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check its name and folder")
    return path


def opened(path: Path) -> BinaryIO:
    """Open a file to be read, unpacked where it is compressed."""
    stream: BinaryIO = _COMPRESSED.get(path.suffix.lower(), open)(path, "rb")
    return stream


def open_text(path: Path) -> TextIOWrapper:
    """Open a text file; a byte order mark, which spreadsheets write, is no part of the text."""
    return TextIOWrapper(opened(path), encoding="utf-8-sig", newline="")


def compress(path: Path, content: bytes) -> bytes:
    """Content as it is to lie in a file of this name."""
    packers: dict[str, Any] = {".gz": gzip.compress, ".bz2": bz2.compress}
    suffix = path.suffix.lower()
    return packers[suffix](content) if suffix in packers else content


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file in what goes wrong while it is read."""
    try:
        yield
    except FileError as problem:
        raise ValueError(f"{path}: {problem}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8: save it in that encoding") from None
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # not allowed, or a failing disk: the system says it best
        raise ValueError(
            f"{path} is not what its name says, or is damaged ({cause(error)}): make it again"
        ) from error


def cause(error: Exception) -> str:
    """What an error says, but for NumPy's advice to read a pickle, which could run anything."""
    if "pickle" in str(error):
        return "it holds no array of plain numbers or text, and pickles are not read"
    return str(error) or type(error).__name__


def clean_labels(values: Array) -> Array:
    """Labels as whole numbers or strings, one a row."""
    if values.ndim != 1:
        raise FileError(f"labels must be one column, and have shape {values.shape}")
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind not in "fiubU":
        raise FileError(f"labels must be numbers or text, and are {values.dtype}")
    if values.dtype.kind == "f":
        if len(missing := np.flatnonzero(np.isnan(values))):
            raise FileError(f"row {missing[0]} has no label (rows count from 0): drop it")
        if (values == np.trunc(values)).all() and np.abs(values).max(initial=0) < 2**53:
            return values.astype(np.int64)
        raise FileError("labels must be classes, and some are fractions: round or bin them")
    if values.dtype.kind == "U" and len(missing := np.flatnonzero(values == "")):
        raise FileError(f"row {missing[0]} has no label (rows count from 0): drop it")
    return values


def numbers_where_all_are(texts: Sequence[str]) -> Array:
    """Labels that were read as text: numbers where each of them is one."""
    try:
        numbers = np.array(texts, dtype=np.float64)
    except ValueError:
        return np.array(texts, dtype=np.str_)
    return numbers if np.isfinite(numbers).all() else np.array(texts, dtype=np.str_)
