"""What the benchmarks share: data, timing in one run, and where results are stored."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

RESULTS = Path(__file__).parent / "results"


def data_folder() -> Path:
    """Folder of the data sets, or a clear exit."""
    folder = os.environ.get("DUALMETRIC_DATA")
    if not folder or not Path(folder).is_dir():
        sys.exit("Set DUALMETRIC_DATA to the folder with the data sets (usps.npz and others).")
    return Path(folder)


def load_split(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training and test part of a stored set; text is weighted by tf-idf of the training part."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.model_selection import train_test_split

    if name in ("iris", "wine"):
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
        parts = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
        return parts[0], parts[2], parts[1], parts[3]
    with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as file:
        y = file["y"]
        sparse = "indptr" in file
        if sparse:
            parts = (file["data"].astype(np.float32), file["indices"], file["indptr"])
            X: Any = sp.csr_matrix(parts, shape=tuple(file["shape"]))
        else:
            X = file["X"].astype(np.float32)
        if "train_idx" in file:
            train, test = file["train_idx"], file["test_idx"]
        elif name == "protein_val":  # neighbouring rows overlap
            train, test = np.split(np.arange(len(y)), [int(0.7 * len(y))])
        else:
            train, test = train_test_split(
                np.arange(len(y)), test_size=0.3, random_state=0, stratify=y
            )
    if sparse:
        X = TfidfTransformer(sublinear_tf=True).fit(X[train]).transform(X).astype(np.float32)
    return X[train], y[train], X[test], y[test]


def side_by_side(repeats: int, **work: Callable[[], Any]) -> dict[str, float]:
    """Median seconds of each piece of work, taking turns so that noise falls on all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            begin = perf_counter()
            call()
            seconds[name].append(perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def run_python(code: str) -> str:
    """Output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def environment() -> dict[str, Any]:
    """Versions and machine, stored with every result."""
    from importlib.metadata import version

    from dualmetric import __version__

    packages = ("numpy", "scipy", "scikit-learn", "numba")
    return {
        "python": platform.python_version(),
        "dualmetric": __version__,
        **{name: version(name) for name in packages},
        "processor": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),  # those that this process may use
    }


def store(name: str, results: Any) -> None:
    """Write results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    content = json.dumps({"environment": environment(), "results": results}, indent=1)
    (RESULTS / f"{name}.json").write_text(content + "\n", encoding="utf-8")
    print(f"stored {name}.json")


def run_parts(prefix: str, parts: dict[str, Callable[[], Any]]) -> None:
    """Run the parts named on the command line, or all, and store each as PREFIX_PART.json."""
    names = sys.argv[1:] or list(parts)
    if unknown := set(names) - set(parts):
        sys.exit(f"unknown part {', '.join(unknown)}; known: {', '.join(parts)}")
    for name in names:
        print(f"{name}: {parts[name].__doc__}")
        store(f"{prefix}_{name}", parts[name]())
