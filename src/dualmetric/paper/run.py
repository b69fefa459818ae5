"""Compute the missing cells one at a time, and store each as soon as it is done."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any

from .cells import Cell, Store
from .published import COUNTERPART, STATISTICS

# Rough seconds of a cell with 1,000 features, and the power of the features they grow with.
_COST = {
    "DuOri": (20.0, 2),
    "OASIS": (20.0, 2),
    "OASIS raw": (13.0, 2),
    "LMNN": (60.0, 1),
    "LMNN on PCA": (20.0, 1),
    "DuRP": (1.0, 1),
}


def weight(cell: Cell) -> float:
    """Return the rough cost of a cell, relative to other cells."""
    # a set that is not in the paper counts as usps
    _, features, _, _ = STATISTICS[COUNTERPART.get(cell.dataset or "", "usps")]
    cost, power = _COST.get(cell.method or "", (0.0, 0))
    epochs = (cell.epochs or 3) / 3 if cell.method == "DuOri" else 1.0
    return 0.5 + epochs * cost * (features / 1000) ** power


class TimeLeft:
    """An estimate of the time that the remaining cells take.

    A cell is expected to take as long as the last one that differs only in the seed, or in
    proportion to its weight if there is none.
    """

    def __init__(self, cells: Iterable[Cell], clock: Callable[[], float] = perf_counter) -> None:
        self._left = dict.fromkeys(cells)
        self._clock = clock
        self._began = clock()
        self._known: dict[Cell, float] = {}
        self._weight = self._seconds = 0.0

    def begin(self) -> None:
        """Record that a cell begins."""
        self._began = self._clock()

    def end(self, cell: Cell) -> None:
        """Record that the cell is done."""
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


def _like(cell: Cell) -> Cell:
    return replace(cell, seed=0)


def run_cells(store: Store, cells: Iterable[Cell], progress: Callable[[Cell, bool], Any]) -> None:
    """Compute and store the missing cells; call ``progress(cell, done)`` before and after each."""
    for cell in cells:
        progress(cell, False)
        if not store.has(cell):
            begin = perf_counter()
            with warnings.catch_warnings(record=True) as warned:
                # Stored with the cell: a small set may have too few active triplets, and LMNN
                # may stop before it has converged.
                warnings.simplefilter("always", UserWarning)
                result = _compute(cell)
            remarks = sorted({str(warning.message) for warning in warned})
            store.put(cell, result, perf_counter() - begin, remarks)
        progress(cell, True)


def _compute(cell: Cell) -> dict[str, Any]:
    from . import compute, theorems

    module = compute if cell.kind in ("fit", "statistics") else theorems
    return getattr(module, f"run_{cell.kind}")(cell)
