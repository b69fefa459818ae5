"""Stored fits, gathered by data set and method: what tables and figures are made from."""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from .cells import Cell, Store
from .published import COUNTERPART, STATISTICS

Fits = dict[Cell, dict[str, Any]]


class Spread(NamedTuple):
    """Mean and standard deviation over trials."""

    mean: float
    std: float
    trials: int

    def show(self, digits: int = 1, factor: float = 1.0) -> str:
        """``64.5 ± 1.6``; the mean alone where there was one trial."""
        mean = f"{factor * self.mean:,.{digits}f}"
        return mean if self.trials == 1 else f"{mean} ± {factor * self.std:.{digits}f}"


def over_trials(fits: Fits, value: str, **wanted: Any) -> Spread | None:
    """Spread of one value over the seeds of the cells that match, or None without any."""
    values = [
        result[value]
        for cell, result in fits.items()
        if all(getattr(cell, name) == what for name, what in wanted.items())
    ]
    if not values:
        return None
    return Spread(float(np.mean(values)), float(np.std(values)), len(values))


def at_ten(fits: Fits, dataset: str, method: str, value: str) -> Spread | None:
    """The value of a method as Tables 2 and 3 show it: m = 10 where it projects, λ = 1/N."""
    m = 10 if method in ("DuRP", "SRP", "SPCA", "LMNN") else None
    return over_trials(fits, value, dataset=dataset, method=method, m=m, reg=None)


def datasets(store: Store) -> list[str]:
    """Data sets with stored results, those of the paper first and in its order."""
    found = {cell.dataset for kind in ("statistics", "fit") for cell in store.results(kind)}
    order = defaultdict(lambda: len(STATISTICS), {n: i for i, n in enumerate(STATISTICS)})
    return sorted(
        (name for name in found if name is not None),
        key=lambda name: (order[COUNTERPART.get(name, "")], name),
    )


def display_name(name: str) -> str:
    """A data set's name, with what it stands in for."""
    counterpart = COUNTERPART.get(name, name)
    return name if counterpart == name else f"{name} (stand-in for {counterpart})"
