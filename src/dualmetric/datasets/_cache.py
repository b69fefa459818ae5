"""The user's cache folder: downloads, and the processed arrays of text sets.

Nothing depends on the stored arrays: they are made again if they are missing, damaged or out of
date, and are not stored if the folder cannot be written.
"""

import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .._types import Array, Matrix
from ..io.atomic import write_atomically

CACHE_VARIABLE = "DUALMETRIC_CACHE"

VERSION = 1  # of the processing: raise it to make all arrays again

Parts: TypeAlias = tuple[Matrix, Array, Matrix, Array]
_ARRAYS = ("X_train", "y_train", "X_test", "y_test")


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


def file_name(name: str, seed: int, dtype: np.dtype, sources: Sequence[Path]) -> str:
    """Name of the processed arrays; it changes with everything that they depend on."""
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    digest = hashlib.sha256(repr((VERSION, stamps)).encode()).hexdigest()
    return f"{name}-seed{seed}-{dtype.name}-{digest[:16]}.npz"


def read(key: str) -> Parts | None:
    """Return the processed arrays, or None if they have to be made."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        # opened here, as np.load leaves a damaged file open
        with (
            open(folder / "processed" / key, "rb") as stream,
            np.load(stream, allow_pickle=False) as file,
        ):
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


def write(key: str, parts: Parts) -> None:
    """Store the processed arrays, if the folder can be written."""
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError, MemoryError):
        (folder / "processed").mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, **dict(zip(_ARRAYS, parts, strict=True)))
        write_atomically(folder / "processed" / key, content.getvalue())
