"""Compute the cells that are missing, one at a time, each stored as soon as it is done."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from .cells import Cell, Store

# How long a cell takes against the others, for the estimate of the time left.
_WEIGHT = {"DuOri": 30.0, "OASIS": 30.0, "LMNN": 60.0, "DuRP": 3.0, "SRP": 1.0, "SPCA": 1.5}


def weight(cell: Cell) -> float:
    """Return a rough relative cost of a cell."""
    return _WEIGHT.get(cell.method or "", 1.0)


def run_cells(
    store: Store, cells: Iterable[Cell], progress: Callable[[Cell, bool], object]
) -> None:
    """Compute and store what is missing. ``progress(cell, done)`` is called around each."""
    for cell in cells:
        progress(cell, False)
        if not store.has(cell):
            with warnings.catch_warnings():
                # small sets have fewer active triplets than the paper's number; cells record it
                warnings.filterwarnings("ignore", message=".*active triplets were found")
                store.put(cell, _compute(cell))
        progress(cell, True)


def _compute(cell: Cell) -> dict[str, Any]:
    from . import compute, theorems

    work: dict[str, Callable[[Cell], dict[str, Any]]] = {
        "fit": compute.run_fit,
        "statistics": compute.run_statistics,
        "theorem1": theorems.run_theorem1,
        "theorem2": theorems.run_theorem2,
    }
    return work[cell.kind](cell)
