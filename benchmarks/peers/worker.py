"""One run in a fresh process: warm up, learn on the clock, transform.

    python -m benchmarks.peers.worker FOLDER

FOLDER holds ``request.json`` and the rows. The worker leaves ``record.json`` and the transformed
rows there. It may run in an environment that has neither this library nor a recent scikit-learn,
so it imports nothing but NumPy, SciPy and what its solver needs.
"""

import json
import statistics
import sys
import traceback
import warnings
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from . import machine, rows
from .solvers import find_solver

_REPEAT_BELOW = 0.5  # seconds: shorter fits are repeated, and the median counts
_REPEATS = 5
_WARM_UP = 300  # rows at most


def small_part(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """About ten rows of each class."""
    classes, labels = np.unique(y, return_inverse=True)
    each = max(2, min(10, _WARM_UP // len(classes)))
    chosen = np.concatenate([np.flatnonzero(labels == k)[:each] for k in range(len(classes))])
    chosen = np.sort(chosen)[:_WARM_UP]
    return X[chosen], y[chosen]


def measure(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Learn as the request says; returns what was measured."""
    solver = find_solver(request["solver"])
    X, y = rows.read(folder / "X"), np.load(folder / "y.npy", allow_pickle=False)
    arguments = {"seed": request["seed"], **request["settings"]}

    begin = perf_counter()
    small = small_part(X, y)
    try:  # a peer may refuse so few rows; the fit below is what counts
        solver.learn(*small, **arguments)(small[0])
        warm_up = "done"
    except ImportError:
        raise
    except Exception as error:
        warm_up = f"{type(error).__name__}: {error}"[:200]
    warm_up_seconds = perf_counter() - begin

    seconds, cpu = [], []
    before = machine.start_peak()
    peak = 0.0
    while not seconds or (seconds[0] < _REPEAT_BELOW and len(seconds) < _REPEATS):
        begin, begin_cpu = perf_counter(), process_time()
        transformation = solver.learn(X, y, **arguments)
        seconds.append(perf_counter() - begin)
        cpu.append(process_time() - begin_cpu)
        peak = peak or machine.peak()  # of the first fit

    del X
    begin = perf_counter()
    for name, given in request["transform"].items():
        rows.write(folder / name, transformation(rows.read(folder / given)))
    return {
        "fit_seconds": statistics.median(seconds),
        "fit_seconds_all": [round(value, 6) for value in seconds],
        "fit_cpu_seconds": statistics.median(cpu),
        "transform_seconds": perf_counter() - begin,
        "warm_up": warm_up,
        "warm_up_seconds": warm_up_seconds,
        "before_fit_mb": before,
        "fit_peak_mb": peak,
        "process_peak_mb": machine.process_peak(),
        "facts": facts(transformation),
        "versions": machine.versions(solver.packages),
        "threads": machine.threads(),
    }


def facts(transformation: Any) -> dict[str, Any]:
    """What an estimator of this library says about its fit: parts of its time, or its choice."""
    learner = getattr(transformation, "__self__", None)
    found: dict[str, Any] = {}
    if hasattr(learner, "timings_"):
        found["parts"] = {part: round(value, 6) for part, value in learner.timings_.items()}
    if hasattr(learner, "refit_time_"):
        found |= {
            "settings": len(learner.cv_results_["params"]),
            "refit_seconds": learner.refit_time_,
            "chosen": learner.best_params_,
        }
    return found


def main(folder: Path) -> None:
    """Write ``record.json``: what was measured, or why it failed."""
    warnings.simplefilter("ignore")
    machine.limit_memory()
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    try:
        record = {"status": "ok", **measure(request, folder)}
    except ImportError as error:
        record = {"status": "missing", "message": str(error)[:300]}
    except Exception as error:
        traceback.print_exc()
        record = {"status": "failed", "message": f"{type(error).__name__}: {error}"[:300]}
    (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
