"""Stored results summarised by data set and method, for tables and figures."""

from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .cells import Cell, Store, fit_cell
from .published import COUNTERPART, PARTS, STATISTICS

Fits = dict[Cell, dict[str, Any]]


class Spread(NamedTuple):
    """Mean and standard deviation over trials."""

    mean: float
    std: float
    trials: int

    def show(self, digits: int = 1, factor: float = 1.0) -> str:
        """Return ``64.5 ± 1.6``, or only the mean if there was one trial."""
        mean = f"{factor * self.mean:,.{digits}f}"
        return mean if self.trials == 1 else f"{mean} ± {factor * self.std:.{digits}f}"


def over_trials(
    fits: Fits, dataset: str, method: str, value: str, m: int = 10, **fields: Any
) -> Spread | None:
    """Return a method's value over trials, or None if there are none.

    ``fields`` are those in which a cell differs from the paper's setting (see `fit_cell`).
    """
    wanted = replace(fit_cell(method, m, **fields), dataset=dataset)
    values = [
        result[value]
        for cell, result in fits.items()
        if cell.dataset == dataset and cell.method == method
        if replace(cell, seed=0) == wanted and value in result
    ]
    return Spread(float(np.mean(values)), float(np.std(values)), len(values)) if values else None


def by_rank_and_m(store: Store, kind: str) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the trials of a theorem by rank (0 if it has none) and m, in order."""
    grouped = defaultdict(list)
    for cell, result in store.results(kind).items():
        grouped[cell.rank or 0, cell.m or 0].append(result)
    return dict(sorted(grouped.items()))


def datasets(store: Store) -> list[str]:
    """Return the data sets with stored results, in the paper's order and then by name."""
    found = {cell.dataset for kind in ("statistics", "fit") for cell in store.results(kind)}
    order = {name: list(STATISTICS).index(theirs) for name, theirs in COUNTERPART.items()}
    return sorted(filter(None, found), key=lambda name: (order.get(name, len(order)), name))


def display_name(name: str) -> str:
    """Return a data set's name, and how it relates to the paper's set, if it is another."""
    counterpart = COUNTERPART.get(name, name)
    relation = "part of" if name in PARTS else "stand-in for"
    return name if counterpart == name else f"{name} ({relation} {counterpart})"
