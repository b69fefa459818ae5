"""What there is to compute, a cell each, and the folder that keeps what has been computed."""

import contextlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .._files import write_atomically
from .._system import available_memory

FORMAT = 1
METHODS = ("Euclid", "DuOri", "DuRP", "OASIS", "SRP", "SPCA", "LMNN")
_PROJECTED = ("DuRP", "SRP", "SPCA")
_DETERMINISTIC = ("Euclid", "LMNN")
PROJECTIONS = (10, 20, 30, 40, 50)
REGS = (1e-5, 1e-4, 1e-3, 1e-2)
THEOREM_RANKS = (2, 5, 10)
THEOREM_PROJECTIONS = (10, 30, 100, 300, 1000, 3000, 10_000)


@dataclass(frozen=True)
class Cell:
    """One thing to compute. ``dataset`` and what follows are None where they do not apply."""

    kind: str
    dataset: str | None = None
    method: str | None = None
    m: int | None = None
    reg: float | None = None
    rank: int | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """File name of the cell's result: what it is, readably."""
        parts = [self.dataset or "made", self.method]
        parts += [f"m{self.m}" if self.m else None, f"reg{self.reg:g}" if self.reg else None]
        parts += [f"r{self.rank}" if self.rank else None, f"seed{self.seed}"]
        return "-".join(part for part in parts if part) + ".json"


def _fit(dataset: str, method: str, m: int, seed: int, reg: float | None = None) -> Cell:
    return Cell(
        "fit",
        dataset,
        method,
        m=m if method in (*_PROJECTED, "LMNN") else None,
        reg=reg,
        seed=0 if method in _DETERMINISTIC else seed,
    )


def _statistics(datasets: Iterable[str], trials: int) -> list[Cell]:
    return [Cell("statistics", name) for name in datasets]


def _methods(datasets: Iterable[str], trials: int) -> list[Cell]:
    return [
        _fit(name, method, 10, seed)
        for name in datasets
        for seed in range(trials)
        for method in METHODS
    ]


def _projections(datasets: Iterable[str], trials: int) -> list[Cell]:
    return [
        _fit(name, method, m, seed)
        for name in datasets
        for seed in range(trials)
        for method in ("DuRP", "SRP", "SPCA", "DuOri", "OASIS", "Euclid")
        for m in PROJECTIONS
    ]


def _reg(datasets: Iterable[str], trials: int) -> list[Cell]:
    return [
        _fit(name, "DuRP", 10, seed, reg)
        for name in datasets
        for seed in range(trials)
        for reg in REGS
    ]


def _theorems(datasets: Iterable[str], trials: int) -> list[Cell]:
    first = [
        Cell("theorem1", m=m, rank=rank, seed=seed)
        for rank in THEOREM_RANKS
        for m in THEOREM_PROJECTIONS
        for seed in range(trials)
    ]
    return first + [
        Cell("theorem2", m=m, seed=seed) for m in THEOREM_PROJECTIONS for seed in range(trials)
    ]


EXPERIMENTS: dict[str, Callable[[Iterable[str], int], list[Cell]]] = {
    "statistics": _statistics,  # Table 1, Figure 1
    "methods": _methods,  # Tables 2 and 3
    "projections": _projections,  # Figures 2 and 3
    "reg": _reg,  # λ in section 4.1
    "theorems": _theorems,  # Theorems 1 and 2
}


def plan(experiments: Iterable[str], datasets: Iterable[str], trials: int) -> list[Cell]:
    """Every cell of the experiments, once, those of one data set and trial together."""
    datasets = list(datasets)
    cells: dict[Cell, None] = {}
    for name in experiments:
        if name not in EXPERIMENTS:
            raise ValueError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
        cells |= dict.fromkeys(EXPERIMENTS[name](datasets, trials))
    place = {name: number for number, name in enumerate(datasets)}
    return sorted(
        cells, key=lambda cell: (place.get(cell.dataset or "", -1), cell.kind == "fit", cell.seed)
    )


class Store:
    """A folder of results, one JSON file a cell, written as soon as it is known.

    ``settings`` are what every cell of the folder has in common; a folder made with others is
    refused, so that no table mixes them.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        settings = {"format": FORMAT, **settings}
        manifest = folder / "run.json"
        if manifest.exists():
            stored = _read_json(manifest)
            if stored != settings:
                raise ValueError(
                    f"{folder} holds results of other settings ({_listed(stored)}; this run has "
                    f"{_listed(settings)}): choose another --out, or use the same settings"
                )
        elif any(folder.glob("cells/*/*.json")):
            raise ValueError(f"{folder} holds results but no run.json: choose another --out")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(manifest, _to_json(settings))

    def path(self, cell: Cell) -> Path:
        """Where the cell's result is kept."""
        return self.folder / "cells" / cell.kind / cell.name

    def has(self, cell: Cell) -> bool:
        """Whether the cell has been computed."""
        return self.path(cell).exists()

    def put(
        self, cell: Cell, result: dict[str, Any], seconds: float, warnings: Iterable[str] = ()
    ) -> None:
        """Keep a result with what it was computed from and on, its seconds and warnings."""
        path = self.path(cell)
        content = {
            "cell": asdict(cell),
            "result": result,
            "seconds": seconds,
            "warnings": list(warnings),
            "environment": environment(),
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, _to_json(content))
        except OSError as error:
            reason = f"{error.strerror}; the results stored before are kept"
            raise OSError(error.errno, reason, str(path)) from error

    def results(self, kind: str) -> dict[Cell, dict[str, Any]]:
        """All stored results of a kind."""
        found = {}
        for path in sorted((self.folder / "cells" / kind).glob("*.json")):
            content = _read_json(path)
            try:
                cell, result = Cell(**content["cell"]), content["result"]
            except (KeyError, TypeError):
                result = None
            if not isinstance(result, dict):
                raise ValueError(
                    f"{path} is not a stored result: delete it, and it is computed again"
                )
            found[cell] = result
        return found


def environment() -> dict[str, Any]:
    """Versions and machine."""
    packages = ("dualmetric", "numpy", "scipy", "scikit-learn", "numba")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "available_memory": available_memory(),
    }


@cache
def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def _to_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        content = None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: delete it, and it is computed again")
    return content
