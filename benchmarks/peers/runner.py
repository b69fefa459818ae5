"""Runs: which there are, one process for each, and what is stored of it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import datasets, machine, objectives, rows, scoring, store
from .environments import interpreter
from .objectives import Problem
from .solvers import Solver, all_solvers

ROOT = Path(__file__).parents[2]
QUICK_SETS = ("usps", "digits", "20news_bydate")
FINAL = ("ok", "failed", "timeout")  # what is missing is tried again
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Choice:
    """Which runs, and how."""

    quick: bool = False
    objectives: tuple[str, ...] = ("*",)
    datasets: tuple[str, ...] = ("*",)
    solvers: tuple[str, ...] = ("*",)
    seeds: int | None = None
    limit: float = 600.0
    threads: int | None = None
    again: bool = False
    busy: bool = False
    results: Path = store.RESULTS


@dataclass(frozen=True)
class Run:
    """One fit and its scores."""

    objective: str
    dataset: str
    variant: dict[str, Any]
    settings: dict[str, Any]
    solver: Solver
    seed: int

    def name(self) -> store.Record:
        """The part of the record that says which run it is."""
        return {
            "objective": self.objective,
            "dataset": self.dataset,
            "variant": self.variant,
            "solver": self.solver.name,
            "seed": self.seed,
        }


def plan(choice: Choice) -> list[Run]:
    """Every run that was chosen, those of one problem together."""
    found = []
    for name, objective in objectives.ALL.items():
        if not _matches(name, choice.objectives) or (choice.quick and name != "same_classes"):
            continue
        for dataset, variant, settings in objective.cases():
            if not _matches(dataset, choice.datasets):
                continue
            if choice.quick and dataset not in QUICK_SETS:
                continue
            for seed in range(choice.seeds or objective.SEEDS):
                found += [
                    Run(name, dataset, variant, settings, solver, seed)
                    for solver in all_solvers()
                    if _matches(solver.name, choice.solvers)
                    and (solver.fast or not choice.quick)
                    and (not solver.objectives or name in solver.objectives)
                    and _takes_part(solver, objective, variant)
                ]
    return found


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _takes_part(solver: Solver, objective: Any, variant: dict[str, Any]) -> bool:
    """Growth is measured of a few solvers only."""
    chosen = getattr(objective, "SOLVERS", None)
    return chosen is None or solver.name in chosen[variant["axis"]]


def run_all(choice: Choice) -> int:
    """Run what is chosen and not stored yet; returns how many runs were made."""
    runs = plan(choice)
    if not runs:
        raise SystemExit("nothing matches: see --help for the names")
    done = {} if choice.again else store.read(choice.results)
    left = [run for run in runs if done.get(store.key(run.name()), {}).get("status") not in FINAL]
    print(f"{len(runs)} runs, {len(runs) - len(left)} of them stored in {choice.results.name}")
    made = 0
    with tempfile.TemporaryDirectory() as folder:
        for dataset, of_set in groupby(left, key=lambda run: run.dataset):
            try:
                data = datasets.load(dataset)
            except FileNotFoundError as error:
                print(f"{dataset} is left out: {error}")
                continue
            for problem, run in _problems(data, of_set, Path(folder)):
                if sp.issparse(problem.X) and not run.solver.sparse:
                    continue
                record = _record(run, problem, Path(folder), choice)
                store.append(record, choice.results)
                made += 1
                print(_line(record), flush=True)
    return made


def _problems(
    data: datasets.Data, runs: Iterator[Run], folder: Path
) -> Iterator[tuple[Problem, Run]]:
    """Each run with its problem, whose rows are written to the folder once."""

    def which(run: Run) -> tuple[str, str, int]:
        return run.objective, json.dumps(run.variant), run.seed

    for _, of_problem in groupby(runs, key=which):
        together = list(of_problem)
        first = together[0]
        make = objectives.ALL[first.objective].problem
        problem = make(data, first.seed, **first.variant)
        for path in folder.iterdir():
            path.unlink()
        rows.write(folder / "X", problem.X)
        np.save(folder / "y.npy", problem.y)
        if problem.queries is not None:
            rows.write(folder / "queries", problem.queries)
        if problem.gallery is not None:
            rows.write(folder / "gallery", problem.gallery)
        for run in together:
            yield problem, run


def _record(run: Run, problem: Problem, folder: Path, choice: Choice) -> store.Record:
    """One run from its process to its scores."""
    record = run.name() | {
        "rows": problem.X.shape[0],
        "features": problem.X.shape[1],
        "classes": len(np.unique(problem.y)),
        "queries": 0 if problem.queries is None else problem.queries.shape[0],
        "sparse": bool(sp.issparse(problem.X)),
        "input_mb": rows.n_bytes(problem.X) / 1e6,
        "ours": run.solver.ours,
        "linear": run.solver.linear,
        "compares": run.solver.compares,
        "busy": choice.busy,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine.describe(),
    }
    transform = {}
    if problem.queries is not None:
        given = "X" if problem.gallery is None else "gallery"
        transform = {"gallery_out": given, "queries_out": "queries"}
    request = {
        "solver": run.solver.name,
        "seed": run.seed,
        "settings": run.settings,
        "transform": transform,
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    (folder / "record.json").unlink(missing_ok=True)
    record |= _in_fresh_process(run.solver, folder, choice)
    if record["status"] == "ok" and transform:
        y_gallery = problem.y if problem.gallery is None else problem.y_gallery
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                record["scores"] = scoring.score(
                    rows.read(folder / "gallery_out"),
                    y_gallery,
                    rows.read(folder / "queries_out"),
                    problem.y_queries,
                    scoring.DISTANCES[:1] if run.solver.own_distance else scoring.DISTANCES,
                )
        except ValueError as error:
            record |= {"status": "failed", "message": str(error)[:300]}
    for name in ("gallery_out", "queries_out"):
        for path in folder.glob(f"{name}.*"):
            path.unlink()
    return record


def _in_fresh_process(solver: Solver, folder: Path, choice: Choice) -> store.Record:
    python = interpreter(solver.environment)
    if python is None:
        return {
            "status": "missing",
            "message": f"no environment {solver.environment!r}: python -m benchmarks.peers install",
        }
    # the library of this clone, whether it is installed or not
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    if choice.threads:
        environment |= dict.fromkeys(THREAD_VARIABLES, str(choice.threads))
    process = subprocess.Popen(
        [python, "-m", "benchmarks.peers.worker", str(folder)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, complaint = process.communicate(timeout=choice.limit)
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "message": f"stopped after {choice.limit:g} s"}
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the worker and what it has started
            process.communicate()
    if not (folder / "record.json").exists():
        last = complaint.strip().splitlines()[-1:] or [""]
        return {"status": "failed", "message": f"exit status {process.returncode}: {last[0]}"[:300]}
    record: store.Record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if record["status"] == "failed" and complaint:
        print(complaint, file=sys.stderr)
    return record


def _line(record: store.Record) -> str:
    """What happened, for people who wait."""
    variant = " ".join(f"{key}={value}" for key, value in record["variant"].items())
    start = f"{record['objective']:14} {record['dataset']:22} {variant:16} {record['solver']:22}"
    if record["status"] != "ok":
        return f"{start} {record['status']}: {record['message']}"
    shown = ""
    if "scores" in record:
        (ranking, distance), (knn, _) = (scoring.best(record["scores"], m) for m in ("map", "knn"))
        shown = f" mAP {100 * ranking:5.1f}  5-NN {100 * knn:5.1f}  {distance}"
    return f"{start} {record['fit_seconds']:8.2f} s{shown}"
