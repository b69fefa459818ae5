"""Triplets in files: three row numbers each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._types import Array


def read_triplets(path: Path, n_rows: int) -> Array:
    """Triples (anchor, positive, negative) of row numbers: ``.npy``, ``.npz`` or ``.csv``."""
    from ..rowfiles._common import cause
    from ..triplets import Triplets

    if not path.is_file():
        raise FileNotFoundError(f"--triplets: {path} does not exist: check its name and folder")
    try:
        return Triplets.from_array(_read(path), n_rows).index
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise ValueError(f"--triplets: {path}: {cause(error)}") from error


def _read(path: Path) -> Array:
    import numpy as np

    if path.suffix == ".npy":
        with open(path, "rb") as stream:
            array: Array = np.load(stream, allow_pickle=False)
        return array
    if path.suffix == ".npz":
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            key = file.files[0] if len(file.files) == 1 else "triplets"
            if key not in file:
                raise ValueError("it must hold a single array, or one named 'triplets'")
            return np.asarray(file[key])
    if path.suffix in (".csv", ".txt"):
        return _read_text(path)
    raise ValueError("triplets are read from .npy, .npz, or .csv with three row numbers a line")


def _read_text(path: Path) -> Array:
    import numpy as np

    from ..rowfiles import read_lines

    triples = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split(",")
        if not line.strip() or (number == 1 and not any(cell.strip().isdigit() for cell in cells)):
            continue  # blank, or a header
        try:
            anchor, positive, negative = map(int, cells)
        except ValueError:
            raise ValueError(
                f"line {number} is not three row numbers with commas: {line[:40]!r}"
            ) from None
        triples.append((anchor, positive, negative))
    return np.array(triples, dtype=np.int64).reshape(-1, 3)
