"""The results to compute, called cells, and the file that stores the computed ones."""

import contextlib
import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from .._arrays.system import available_memory
from .._validation import warn
from ..io.atomic import lock
from .fingerprint import fingerprint

FORMAT = 3
METHODS = (
    "Euclid",
    "DuOri",
    "DuRP",
    "OASIS",  # aggressiveness and the scale of the rows chosen on held-out training rows
    "OASIS raw",  # the rows as they are, and the default aggressiveness
    "SRP",
    "SPCA",
    "LMNN",  # a factor of rank m over all features
    "LMNN on PCA",  # a factor over m principal components
)
PROJECTED = ("DuRP", "SRP", "SPCA")
DETERMINISTIC = ("Euclid", "LMNN", "LMNN on PCA")  # they learn from labels, or not at all
DRAWN = ("Euclid", "DuOri", "DuRP", "OASIS", "SRP", "SPCA")  # the methods of Figures 2 and 3
PROJECTIONS = (10, 20, 30, 40, 50)
MANY_PROJECTIONS = (50, 100, 200)
REGS = (1e-5, 1e-4, 1e-3, 1e-2)
LARGE_REGS = (1.0, 100.0)
EPOCHS = (1, 3, 10, 30, 100)
_DUORI_EPOCHS = 10  # DuOri is run for no more


@dataclass(frozen=True)
class Cell:
    """One result to compute. Fields that do not apply are None."""

    kind: str
    dataset: str | None = None
    method: str | None = None
    m: int | None = None
    reg: float | None = None  # λ; None is 1/N
    rank: int | None = None
    epochs: int | None = None  # None is 3, the paper's
    rows: str | None = None  # "unit": each row is scaled to length one
    seed: int = 0


def fit_cell(method: str, m: int = 10, epochs: int = 3, **fields: Any) -> Cell:
    """Return a cell in the paper's setting, apart from what is given."""
    own_m = m if method in PROJECTED or method.startswith("LMNN") else None
    return Cell("fit", None, method, own_m, epochs=None if epochs == 3 else epochs, **fields)


# experiments that fit: the cells of a data set and a trial
_FITS: dict[str, list[Cell]] = {
    "methods": [fit_cell(method) for method in METHODS],
    "projections": [fit_cell(method, m) for method in DRAWN for m in PROJECTIONS],
    "reg": [fit_cell("DuRP", reg=reg) for reg in REGS],
    "unit": [fit_cell(method, rows="unit") for method in METHODS if method != "OASIS raw"],
    "dual": [
        *(fit_cell("DuRP", epochs=epochs) for epochs in EPOCHS),
        *(fit_cell("DuOri", epochs=epochs) for epochs in EPOCHS if epochs <= _DUORI_EPOCHS),
        *(fit_cell("DuRP", reg=reg) for reg in LARGE_REGS),
        fit_cell("DuOri", reg=LARGE_REGS[-1]),
        *(fit_cell("DuRP", m) for m in MANY_PROJECTIONS),
    ],
}
# statistics: Table 1 and Figure 1; methods: Tables 2 and 3; projections: Figures 2 and 3; reg: λ in
# section 4.1; unit: rows of length one; dual: how far the dual problem is solved; theorems:
# Theorems 1 and 2
EXPERIMENTS = ("statistics", *_FITS, "theorems")


def plan(experiments: Iterable[str], datasets: Iterable[str], trials: int) -> list[Cell]:
    """Return each cell of the experiments once; cells of the same rows and trial are together."""
    place = {name: number for number, name in enumerate(datasets)}
    cells: dict[Cell, None] = {}
    for name in experiments:
        if name not in EXPERIMENTS:
            raise ValueError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
        cells |= dict.fromkeys(_cells(name, list(place), trials))

    def order(cell: Cell) -> tuple[Any, ...]:
        return place.get(cell.dataset or "", -1), cell.kind == "fit", cell.rows or "", cell.seed

    return sorted(cells, key=order)


def _cells(experiment: str, datasets: list[str], trials: int) -> Iterator[Cell]:
    if experiment == "statistics":
        yield from (Cell("statistics", name) for name in datasets)
    elif experiment == "theorems":
        ms = (10, 30, 100, 300, 1000, 3000, 10_000)
        for rank, m, seed in product((2, 5, 10, None), ms, range(trials)):
            yield Cell("theorem1" if rank else "theorem2", m=m, rank=rank, seed=seed)
    else:
        for name, cell in product(datasets, _FITS[experiment]):
            for seed in range(1 if _runs_once(experiment, cell.method) else trials):
                yield replace(cell, dataset=name, seed=seed)


def _runs_once(experiment: str, method: str | None) -> bool:
    """Return whether one trial has to do: the method is not random, or the cells are expensive."""
    slow = experiment == "unit" and method in ("DuOri", "OASIS")
    return slow or experiment == "dual" or method in (*DETERMINISTIC, "OASIS raw")


class Store:
    """Results of one run: ``cells.jsonl`` in a folder.

    The first line of the file holds the environment and the settings that all cells share. A
    folder with other settings is refused, so that no table mixes them. Each further line is one
    cell, appended as soon as it is computed. If a cell is stored twice, the last line counts.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.path = folder / "cells.jsonl"
        if (folder / "run.json").exists():
            raise ValueError(
                f"{folder} holds results of an older version (run.json): choose another --out"
            )
        lines = _read(self.path)
        if not lines:
            folder.mkdir(parents=True, exist_ok=True)
            header = {"format": FORMAT, "settings": settings, "environment": environment()}
            _append(self.path, header, first=True)
            lines = _read(self.path)
        (_, first), *others = lines
        try:
            header = json.loads(first)
            stored = {"format": header["format"], **header["settings"]}
            self._environment: dict[str, Any] = {**header["environment"]}
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{self.path} does not start with the settings of a run: choose another --out"
            ) from None
        asked = {"format": FORMAT, **settings}
        if stored != asked:
            raise ValueError(
                f"{folder} holds results of other settings ({_listed(stored)}; this run has "
                f"{_listed(asked)}): choose another --out, or use the same settings"
            )
        self._found: dict[Cell, dict[str, Any]] = {}
        self._origin: dict[Cell, tuple[str, str]] = {}  # fingerprint of the code, and commit
        for number, line in others:
            try:
                content = json.loads(line)
                cell = Cell(**content["cell"])
                self._found[cell] = {**content["result"]}
                self._origin[cell] = str(content["code"]), str(content["commit"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(
                    f"line {number} of {self.path} is not a stored result: delete the line, and "
                    "the result is computed again"
                ) from None

    def has(self, cell: Cell) -> bool:
        """Return whether the cell has been computed."""
        return cell in self._found

    def put(
        self, cell: Cell, result: dict[str, Any], seconds: float, warned: Iterable[str] = ()
    ) -> None:
        """Store a result with its seconds, its warnings, the commit, and a changed environment."""
        here = environment()
        content = {
            "cell": {name: value for name, value in asdict(cell).items() if value is not None},
            "result": result,
            "seconds": seconds,
            "warnings": list(warned),
            "environment": {k: here[k] for k in here if here[k] != self._environment.get(k)},
            "commit": commit(),
            "code": fingerprint(),
        }
        try:
            _append(self.path, content)
        except OSError as error:
            reason = f"{error.strerror}; the results stored before are kept"
            raise OSError(error.errno, reason, str(self.path)) from error
        self._found[cell] = result
        self._origin[cell] = fingerprint(), commit()

    def origins(self, dataset: str | None = None) -> dict[str, Counter[str]]:
        """Return how many results there are by fingerprint of the code, and then by commit.

        All of them, or those of a data set.
        """
        found: dict[str, Counter[str]] = {}
        for cell, (code, made_by) in sorted(self._origin.items(), key=lambda item: item[1]):
            if dataset in (None, cell.dataset):
                found.setdefault(code, Counter())[made_by] += 1
        return found

    def refuse_other_code(self) -> None:
        """Raise an error if some stored results were computed by other learning code."""
        others = [commits for code, commits in self.origins().items() if code != fingerprint()]
        if others:
            total = sum(others, Counter())
            raise ValueError(
                f"{total.total()} results in {self.path} were computed by other learning code "
                f"(commit {', '.join(total)}; this is {commit()}): choose another --out, delete "
                "the file to compute all of them again, or use --mix to keep them beside new ones"
            )

    def results(self, kind: str) -> dict[Cell, dict[str, Any]]:
        """Return all stored results of a kind, in an order that does not depend on the file's."""
        cells = sorted((cell for cell in self._found if cell.kind == kind), key=repr)
        return {cell: self._found[cell] for cell in cells}


def environment() -> dict[str, Any]:
    """Return the versions of the packages and a description of the machine."""
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


@cache
def commit() -> str:
    """Return the commit of this code, with ``+changes`` if it has any, or its version."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # an installed package may lie within the checkout of another project
        git("ls-files", "--error-unmatch", here.name)
        changed = git("status", "--porcelain", "--", "..")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return version("dualmetric")


def _read(path: Path) -> list[tuple[int, bytes]]:
    """Return the lines of the file with their numbers; a cut last line is left out."""
    whole, _, cut = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
    if cut:
        warn(
            f"the last line of {path} is incomplete, because a run was stopped while writing it; "
            "its result is computed again",
        )
    return [(n, line) for n, line in enumerate(whole.split(b"\n"), 1) if line.strip()]


def _append(path: Path, content: dict[str, Any], first: bool = False) -> None:
    """Append one whole line, in place of a cut one; it is on the disk before this returns.

    A ``first`` line is left out where another process has written one.
    """
    left = (json.dumps(content, ensure_ascii=False) + "\n").encode()
    # without a buffer, which would be written once more when the file is closed after an error
    with path.open("a+b", buffering=0) as file:
        lock(file)  # a cut line must not be that of another process, which is still writing it
        file.seek(0)
        end = file.readall().rfind(b"\n") + 1
        if first and end:
            return
        try:
            os.truncate(path, end)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, end)
            raise
