"""Compute the cells that are missing, one at a time, each stored as soon as it is done."""

import warnings
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from .cells import Cell, Store
from .published import COUNTERPART, STATISTICS

# Rough seconds of a cell with 1,000 features, and how they grow with the features.
_COST = {"DuOri": (80.0, 2), "OASIS": (50.0, 2), "LMNN": (20.0, 1), "DuRP": (1.0, 1)}


def weight(cell: Cell) -> float:
    """Return a rough cost of a cell against the others."""
    if cell.kind != "fit":
        return 0.5
    _, features, _, _ = STATISTICS.get(COUNTERPART.get(cell.dataset or "", ""), (0, 256, 0, 0))
    cost, power = _COST.get(cell.method or "", (0.0, 0))
    return 0.5 + cost * (features / 1000) ** power


class TimeLeft:
    """How long the cells that are left will take, going by those that are done.

    A cell is taken to need as long as the last one of its data set, method and m; the first of
    these, as long as its weight says. ``clock`` gives the seconds.
    """

    def __init__(self, cells: Iterable[Cell], clock: Callable[[], float] = perf_counter) -> None:
        self._left = dict.fromkeys(cells)
        self._clock = clock
        self._began = clock()
        self._known: dict[tuple[Any, ...], float] = {}
        self._weight = self._seconds = 0.0

    def begin(self) -> None:
        """Note that a cell begins."""
        self._began = self._clock()

    def end(self, cell: Cell) -> None:
        """Note that the cell is done."""
        seconds = self._clock() - self._began
        self._known[_like(cell)] = seconds
        self._weight += weight(cell)
        self._seconds += seconds
        del self._left[cell]
        self._began = self._clock()

    def seconds(self) -> float | None:
        """Return the seconds left, or None before the first cell is done."""
        if not self._weight:
            return None
        rate = self._seconds / self._weight
        needed = sum(self._known.get(_like(cell), rate * weight(cell)) for cell in self._left)
        return max(needed - (self._clock() - self._began), 0.0)


def _like(cell: Cell) -> tuple[Any, ...]:
    return cell.kind, cell.dataset, cell.method, cell.m, cell.rank


def run_cells(
    store: Store, cells: Iterable[Cell], progress: Callable[[Cell, bool], object]
) -> None:
    """Compute and store what is missing. ``progress(cell, done)`` is called around each."""
    for cell in cells:
        progress(cell, False)
        if not store.has(cell):
            begin = perf_counter()
            with warnings.catch_warnings(record=True) as warned:
                # kept with the cell: small sets have fewer active triplets than the paper's
                # number, LMNN may stop before it has converged
                warnings.simplefilter("always", UserWarning)
                result = _compute(cell)
            remarks = sorted({str(warning.message) for warning in warned})
            store.put(cell, result, perf_counter() - begin, remarks)
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
