"""The files of data sets: the data folder, the cache folder, and downloads.

The cache folder holds downloads, and the processed arrays of text sets. Nothing depends on the
latter: they are made again if they are missing, damaged or out of date.
"""

import contextlib
import hashlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .._types import Array, Matrix
from ..io.atomic import replacing
from ._catalog import DATA_VARIABLE, Entry, File

CACHE_VARIABLE = "DUALMETRIC_CACHE"
VERSION = 1  # of the processing: raise it to make all arrays again
_FIRST_BYTES = {".bz2": b"BZh", ".mat": b"MATLAB"}

Parts: TypeAlias = tuple[Matrix, Array, Matrix, Array]
_ARRAYS = ("X_train", "y_train", "X_test", "y_test")


def find_files(name: str, entry: Entry) -> list[Path]:
    """Paths of the files of a set, downloaded if necessary: ``<name>.npz``, or the public files."""
    if path := stored(f"{name}.npz"):
        return [path]
    if not entry.files:
        where = f"put it into {_folder_to_fill()}, or set {DATA_VARIABLE} to the folder that has it"
        remark = f" {entry.absent}" if entry.absent else ""
        raise FileNotFoundError(f"{name}.npz is needed and cannot be downloaded: {where}.{remark}")
    return [stored(file.name) or download(file) for file in entry.files]


def files_are_here(name: str, entry: Entry) -> bool:
    """Whether `find_files` would find them without a download."""
    names = [file.name for file in entry.files]
    return stored(f"{name}.npz") is not None or (bool(names) and all(map(stored, names)))


def stored(file_name: str) -> Path | None:
    """Path of a file in the data folder or in the cache folder, if it is there."""
    for folder in (_data_folder(), cache_folder()):
        if folder is not None and (folder / file_name).is_file():
            return folder / file_name
    return None


def _data_folder() -> Path | None:
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{DATA_VARIABLE} names {folder}, which is not a folder: set it to an existing folder"
        )
    return folder


def _folder_to_fill() -> Path | str:
    return _data_folder() or cache_folder() or f"the folder that {DATA_VARIABLE} names"


def download(file: File) -> Path:
    """Download to the cache folder; the data folder may be shared or read-only."""
    by_hand = f"put it into {_folder_to_fill()} by hand"
    needed = f"{file.name} is needed and is not in the data folder"
    try:
        import pooch  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from tqdm import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ImportError(
            f"{needed}. To download it, pip install 'dualmetric[data]'; or get it from "
            f"{file.url} and {by_hand}"
        ) from None
    folder = cache_folder()
    if folder is None:
        raise FileNotFoundError(
            f"{needed}, and there is no home folder to download it to: set {CACHE_VARIABLE} to a "
            f"folder; or get it from {file.url} and {by_hand}"
        )
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # its remarks are for programmers
    # pooch sets the total; it fails on a bar without one, as that has no truth value
    options = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}  # on terminals
    progress = tqdm(desc=file.name, total=1, **options)
    try:
        known_hash = file.sha256 and f"sha256:{file.sha256}"
        downloader = pooch.HTTPDownloader(progressbar=progress)
        path = Path(pooch.retrieve(file.url, known_hash, file.name, folder, downloader=downloader))
    except Exception as error:
        if isinstance(error, ValueError) and "hash" in str(error):
            raise ValueError(
                f"{file.name} as downloaded from {file.url} does not have the checksum "
                f"{file.sha256}: it was damaged on the way or has changed there. It was not kept; "
                f"try again, or get another copy and {by_hand}"
            ) from None
        name = type(error).__name__
        # the message of requests for a missing connection is long and says no more
        reason = "no connection" if name == "ConnectionError" else f"{name}: {error}"[:200]
        raise FileNotFoundError(
            f"{needed}, and downloading {file.url} failed ({reason}): try again, or get it from "
            f"there and {by_hand}"
        ) from None
    finally:
        progress.close()
        logger.setLevel(level)
    first = _FIRST_BYTES.get(path.suffix, b"")
    with open(path, "rb") as stream:
        good = stream.read(len(first)) == first
    if not good:  # a log-in page, for example, downloads without an error
        path.unlink()
        raise ValueError(
            f"{file.url} returned something that is not {file.name}; it was not kept. Open the "
            f"address in a browser, then get the file from there and {by_hand}"
        )
    return path


def cache_folder() -> Path | None:
    """``DUALMETRIC_CACHE``, or the system's folder for caches; None if the user has no home."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return base / "dualmetric"


def processed_path(name: str, seed: int, dtype: np.dtype, sources: Sequence[Path]) -> Path | None:
    """Path of the processed arrays, whose name changes with everything that they depend on."""
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    digest = hashlib.sha256(repr((VERSION, stamps)).encode()).hexdigest()
    folder = cache_folder()
    file_name = f"{name}-seed{seed}-{dtype.name}-{digest[:16]}.npz"
    return None if folder is None else folder / "processed" / file_name


def read_processed(path: Path) -> Parts | None:
    """Return the processed arrays, or None if they have to be made."""
    try:
        # opened here, as np.load leaves a damaged file open
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            X_train, y_train, X_test, y_test = (file[name] for name in _ARRAYS)
    except Exception:  # missing or damaged, which can raise anything: make them again
        return None
    fits = (
        X_train.ndim == X_test.ndim == 2
        and X_train.shape[1] == X_test.shape[1]
        and y_train.shape == X_train.shape[:1]
        and y_test.shape == X_test.shape[:1]
    )
    return (X_train, y_train, X_test, y_test) if fits else None


def write_processed(path: Path, parts: Parts) -> None:
    """Store the processed arrays, if the folder can be written."""
    with contextlib.suppress(OSError, MemoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez(file, **dict(zip(_ARRAYS, parts, strict=True)))
