"""Fit a method of metric-learn or mlpack on labelled rows, for peers.py, in its own environment.

    python benchmarks/_peers_outside.py FILE METHOD SEED

FILE holds the rows X and the labels y. The learned linear map is written to FILE.map.npy, and one
JSON line says the CPU seconds of the fit and the memory that it added, in megabytes.
"""

import json
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np


def metric_learn(method: str, X: np.ndarray, y: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Map of LMNN, SCML or ITML, with their default settings."""
    from metric_learn import LMNN, ITML_Supervised, SCML_Supervised

    models = {
        "LMNN": lambda: LMNN(n_neighbors=k, random_state=seed),
        "SCML": lambda: SCML_Supervised(random_state=seed),
        "ITML": lambda: ITML_Supervised(random_state=seed),
    }
    return models[method]().fit(X, y).components_.T


def mlpack_lmnn(X: np.ndarray, y: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Map of mlpack's LMNN."""
    import mlpack

    labels = y.astype(np.uintp)
    return mlpack.lmnn(input_=X, labels=labels, k=k, optimizer="lbfgs", seed=seed + 1)["output"]


def status(key: str) -> float:
    """Memory of this process in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def main(path: str, method: str, seed: str) -> None:
    """Fit, and write what was learned."""
    warnings.simplefilter("ignore")
    with np.load(path, allow_pickle=False) as file:
        X, y = np.ascontiguousarray(file["X"], dtype=np.float64), file["y"]
    k = max(1, min(3, int(np.bincount(y).min()) - 1))
    name, _, package = method.partition(" ")
    __import__("mlpack" if "mlpack" in package else "metric_learn")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again
    before, begin = status("VmRSS"), process_time()
    if "mlpack" in package:
        found = mlpack_lmnn(X, y, k, int(seed))
    else:
        found = metric_learn(name, X, y, k, int(seed))
    spent = {"cpu_seconds": process_time() - begin, "memory_mb": status("VmHWM") - before}
    np.save(f"{path}.map.npy", found)
    print(json.dumps(spent))


if __name__ == "__main__":
    main(*sys.argv[1:])
