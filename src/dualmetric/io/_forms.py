"""What all files of rows share: their names, how they are opened, and errors that name them."""

import bz2
import gzip
import io
import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .._arrays.system import available_memory, format_bytes
from .._types import Array, Matrix
from .._validation import is_id_name

FORMS = {
    ".npz": "npz",
    ".npy": "npy",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".csv": "csv",
    ".parquet": "parquet",
}
_COMPRESSED: dict[str, Any] = {".gz": gzip, ".bz2": bz2}
LIMIT_VARIABLE = "DUALMETRIC_MAX_UNPACKED"
_ALWAYS_UNPACKED = 2**28  # bytes that any file may unpack to
_USUAL_RATIO = 100  # of unpacked to packed bytes: text and numbers are below


class FileError(ValueError):
    """Says what is wrong with a file; `reading` adds its name."""


@dataclass(frozen=True, eq=False)
class RowFile:
    """Contents of a file of rows.

    Attributes
    ----------
    X : {ndarray, memmap, CSR matrix, ParquetRows} of shape (n_rows, n_features)
        The rows; large files are opened, and read when rows are needed.
    y : ndarray of shape (n_rows,) or None
        Labels: whole numbers or strings.
    feature_names, class_names : tuple of str or None
        Names of the columns of X; ``class_names[y[i]]`` is the class of row i.
    train_idx, test_idx : ndarray of int or None
        Row numbers of the training and the test part; both or neither.
    ids, id_name : ndarray of shape (n_rows,) or None, str or None
        Identifiers of the rows, which are not features; and the name of their column.
    """

    X: Matrix
    y: Array | None = None
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    train_idx: Array | None = None
    test_idx: Array | None = None
    ids: Array | None = None
    id_name: str | None = None

    def label(self, row: int) -> str | None:
        """Name of the class of a row, or None if there are no labels."""
        if self.y is None:
            return None
        return str(self.y[row] if self.class_names is None else self.class_names[self.y[row]])

    def id(self, row: int) -> str | None:
        """Identifier of a row, or None if there are none."""
        return None if self.ids is None else str(self.ids[row])


class Wanted(NamedTuple):
    """Which columns of a table are used."""

    label_column: str | None = None
    columns: tuple[str, ...] | None = None  # those of the features, in this order; None for all
    drop: tuple[str, ...] = ()  # columns that are left out

    def features(self, names: Sequence[str], label: str | None) -> list[str]:
        """Columns of features, of a table with these columns, one of which may be of labels."""
        for name in (*(self.columns or ()), *self.drop):
            label_column_of(names, name)  # an error that lists the columns, if it is not there
        if self.columns is not None and label in self.columns:
            raise FileError(f"column {label!r} holds the labels: leave it out of the features")
        chosen = [name for name in names if name != label] if self.columns is None else self.columns
        return [name for name in chosen if name not in self.drop]


def form_of(path: Path) -> str:
    """Form of a file by its name; a ValueError if the suffix is not known."""
    suffix = path.suffix.lower()
    if suffix in _COMPRESSED:
        form = FORMS.get(Path(path.stem).suffix.lower(), "svmlight")
        if form in ("svmlight", "csv"):
            return form
        raise ValueError(f"{path}: a .{form} file cannot be compressed as a whole: unpack it")
    if suffix in FORMS:
        return FORMS[suffix]
    raise ValueError(
        f"{path}: files of rows must end in {', '.join(FORMS)}, or in .gz or .bz2 (csv and "
        "svmlight)"
    )


def existing(path: str | os.PathLike[str], or_folder: bool = False) -> Path:
    """Path of a file, or also a folder, that exists."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check its name and folder")
    if path.is_dir() and not or_folder:
        raise ValueError(f"{path} is a folder: give a file")
    return path


def open_bytes(path: Path) -> BinaryIO:
    """Open a file to be read, unpacked where it is compressed: at most to `unpack_limit`."""
    packer = _COMPRESSED.get(path.suffix.lower())
    if packer is None:
        return open(path, "rb")
    return io.BufferedReader(_Limited(packer.open(path, "rb"), unpack_limit(path)))


def unpack_limit(path: Path) -> int:
    """Bytes that a file may unpack to.

    A small file may unpack to gigabytes. Hardly any file does so unless it was made to fill the
    memory; users who have such a file can raise the limit.
    """
    if value := os.environ.get(LIMIT_VARIABLE):
        if not value.isdecimal():
            raise ValueError(f"{LIMIT_VARIABLE} must be a number of bytes; it is {value!r}")
        return int(value)
    usual = max(_ALWAYS_UNPACKED, _USUAL_RATIO * path.stat().st_size)
    available = available_memory()
    return usual if available is None else min(usual, available // 2)


def check_unpacked(size: int, limit: int) -> None:
    """Refuse a file that unpacks to more bytes than the limit."""
    if size > limit:
        raise FileError(
            f"it unpacks to more than {format_bytes(limit)}. If you trust it and it fits in "
            f"memory, set {LIMIT_VARIABLE} to a larger number of bytes"
        )


class _Limited(io.RawIOBase):
    """A stream that refuses to unpack more than a limit."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit, self._read = stream, limit, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        place: int = self._stream.seek(offset, whence)
        self._read = place
        return place

    def readinto(self, buffer: Any) -> int:
        found = self._stream.read(len(buffer))
        self._read += len(found)
        check_unpacked(self._read, self._limit)
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._stream.close()
        super().close()


def packed(content: bytes, path: Path) -> bytes:
    """Content of a file, compressed if its name says so."""
    packer = _COMPRESSED.get(path.suffix.lower())
    return content if packer is None else packer.compress(content)


def open_text(path: Path) -> io.TextIOWrapper:
    """Open a text file; the byte order mark that spreadsheets write is skipped."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file in errors that occur while it is read."""
    try:
        yield
    except FileError as problem:
        raise ValueError(f"{path}: {problem}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8: save it in that encoding") from None
    except MemoryError as error:
        raise ValueError(
            f"{path} does not fit in memory ({cause(error)}): use a part of it, or write it again "
            "if it should be small"
        ) from error
    except Exception as error:  # readers of other libraries raise any type on damaged files
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = error.filename or str(path)
            raise  # no permission, or a failing disk: the system has the best message
        if isinstance(error, ImportError):
            raise
        raise ValueError(
            f"{path} is damaged, or is not the kind of file that its name says ({cause(error)}): "
            "write it again"
        ) from error


def cause(error: Exception) -> str:
    """Text of an error; NumPy's advice to read a pickle is left out, since that is unsafe."""
    if "pickle" in str(error):
        return "it does not hold an array of plain numbers or text, and pickles are not read"
    return str(error) or type(error).__name__


def clean_labels(values: Array) -> Array:
    """Labels as whole numbers or strings, one per row."""
    if values.ndim != 1:
        raise FileError(f"labels must be one column; got shape {values.shape}")
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind not in "fiubU":
        raise FileError(f"labels must be numbers or text; got {values.dtype}")
    is_text = values.dtype.kind == "U"
    missing = np.flatnonzero(values == "" if is_text else values != values)  # NaN
    if len(missing):
        raise without_labels(missing[0], len(missing), len(values))
    if values.dtype.kind != "f":
        return values
    if (values == np.trunc(values)).all() and np.abs(values).max(initial=0) < 2**53:
        return values.astype(np.int64)
    raise FileError("labels must be classes, but some are fractions: round or bin them")


def without_labels(first: int, n_missing: int, n_rows: int) -> FileError:
    """The error for rows that have no label."""
    return FileError(
        f"row {first} has no label (row numbers start at 0); {n_missing:,} of {n_rows:,} rows have "
        "none: drop them. Labels(y) in Python takes missing labels as unknown"
    )


def labels_of_texts(texts: Sequence[str]) -> Array:
    """Labels that were read as text, as numbers if all of them are."""
    try:
        numbers = np.array(texts, dtype=np.float64)
    except ValueError:
        numbers = np.array([np.nan])
    return clean_labels(numbers if np.isfinite(numbers).all() else np.array(texts, dtype=np.str_))


def label_column_of(
    names: Sequence[str], wanted: str | None, drop: Sequence[str] = ()
) -> str | None:
    """Name of the column of labels; None if none was asked for and none has a usual name."""
    if wanted is None:
        usual = (name for name in ("label", "y") if name in names and name not in drop)
        return next(usual, None)
    if wanted in names:
        return wanted
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise FileError(f"it has no column {wanted!r}: its columns are {shown}")


def id_column_of(names: Sequence[str], label: str | None, features: Collection[str]) -> str | None:
    """First column with a usual name of ids that is neither the label nor one of the features."""
    rest = (name for name in names if name != label and name not in features)
    return next(filter(is_id_name, rest), None)


def import_extra(module: str, extra: str) -> Any:
    """Import a module that an extra of the package installs."""
    try:
        with warnings.catch_warnings():
            # raised by the wrapper of FAISS; users cannot avoid it
            warnings.filterwarnings("ignore", "builtin type .*Swig", DeprecationWarning)
            return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module} ({error}): install it with pip install 'dualmetric[{extra}]'",
            name=module,
        ) from error
