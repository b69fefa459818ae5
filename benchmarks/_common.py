"""What the benchmarks share: data, timing, and stored results."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from dualmetric.io.atomic import lock, write_atomically
from dualmetric.paper.fingerprint import CODE, fingerprint

RESULTS = Path(__file__).parent / "results"
"""One file per experiment: JSON lines, one for each of its parts."""

ENVIRONMENTS = Path(
    os.environ.get("DUALMETRIC_PEERS") or Path(__file__).parents[1] / ".venv" / "peers"
).absolute()
"""Virtual environments of peers whose packages exclude others."""

SPARSE = ("rcv1_7class", "tdt30", "20news_bydate", "20news_libsvm", "protein_val")
"""Sets that are taken in their original features and weighted by tf-idf.

`load_dataset` gives the principal components of text, as the paper has it. protein_val is not text,
but its stored results are of such rows.
"""

FITS = (
    *CODE,
    "blocks.py",
    "estimators/ridge.py",
    "estimators/whitening.py",
    "lift.py",
    "ridge.py",
    "scatter.py",
)
LABELS = (*FITS, "estimators", "intervals.py")  # a choice of settings by labels
CHOOSING = (*LABELS, "evaluation", "measures.py", "supervision")  # by any supervision
MEASURED: dict[str, tuple[str, ...]] = {
    "chooser": LABELS,
    "dask": (*FITS, "_rows"),
    "device": LABELS,
    "supervision": CHOOSING,
    "supervision few_labels": LABELS,
    "supervision metric_learn": (),  # peers alone
    "supervision torch_adapter": (),
    "matching": (*CHOOSING, "matching"),
    "peers": LABELS,
    "scaling": (*FITS, "_rows"),
    "teaching": (
        *FITS,
        "estimators/updating.py",
        "settling.py",
        "supervision",
        "teach",
        "updating.py",
    ),
    "wide": (*FITS, "_rows"),
}
"""The code that an experiment, or one of its parts, measures, in files and folders of the package.

`FITS` if it is not named.
"""


def data_folder() -> Path:
    """Return the folder of the data sets."""
    folder = os.environ.get("DUALMETRIC_DATA")
    if not folder or not Path(folder).is_dir():
        raise FileNotFoundError("set DUALMETRIC_DATA to the folder of the data sets")
    return Path(folder)


def load_split(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows, their labels, test rows, their labels, in float32."""
    if name in SPARSE:
        return _load_sparse(name)
    from dualmetric.datasets import load_dataset

    data = load_dataset(name)
    return data.X_train, data.y_train, data.X_test, data.y_test


def _load_sparse(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.model_selection import train_test_split

    from dualmetric.io import read_rows

    rows = read_rows(data_folder() / f"{name}.npz")
    train, test = rows.train_idx, rows.test_idx
    numbers = np.arange(len(rows.y))
    if name == "protein_val":  # neighbouring rows overlap
        train, test = np.split(numbers, [int(0.7 * len(numbers))])
    elif train is None:
        train, test = train_test_split(numbers, test_size=0.3, random_state=0, stratify=rows.y)
    X = rows.X.astype(np.float32)
    X = TfidfTransformer(sublinear_tf=True).fit(X[train]).transform(X).astype(np.float32)
    return X[train], rows.y[train], X[test], rows.y[test]


def class_halves(name: str, seeds: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Training rows of one random half of the classes and test rows of the other, with labels."""
    X, y, X_test, y_test = load_split(name)
    for seed in range(seeds):
        learned, ranked = np.array_split(np.random.default_rng(seed).permutation(np.unique(y)), 2)
        train, test = np.isin(y, learned), np.isin(y_test, ranked)
        yield seed, (X[train], y[train], X_test[test], y_test[test])


def side_by_side(repeats: int, **work: Callable[[], Any]) -> dict[str, float]:
    """Median seconds of each piece of work; they take turns, so that noise affects all alike.

    Threads of BLAS go on spinning after their work, and would slow down what comes next: there is a
    pause between two turns.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            sleep(0.1)
            begin = perf_counter()
            call()
            seconds[name].append(perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def interpreter(name: str) -> str | None:
    """Python of the environment of a peer (``peers.py install``); None where it is not there."""
    folder = ENVIRONMENTS / name
    return str(folder / "bin" / "python") if (folder / ".ready").exists() else None


def run_python(code: str) -> str:
    """Output of a fresh interpreter, which can import these scripts."""
    command = [sys.executable, "-c", code]
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
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


def commit() -> str | None:
    """Commit of the code, with a + where files have changed since; None outside a repository.

    Stored results are not code: a part that was run before does not count as a change.
    """
    head = git("rev-parse", "--short", "HEAD")
    rest = (":/", ":(top,exclude)benchmarks/results")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *rest)
    return head + ("+" if changed else "") or None


def git(*command: str) -> str:
    """What a command of git says about this repository; nothing outside one."""
    folder = Path(__file__).parent
    done = subprocess.run(
        ["git", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def records(experiment: str) -> dict[str, Any]:
    """Stored lines of an experiment, by their part; empty where there are none."""
    path = RESULTS / f"{experiment}.jsonl"
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {record["part"]: record for record in map(json.loads, lines)}


def commits(experiment: str, *parts: str) -> str:
    """Commits that measured parts of an experiment, or all; † if the code has changed since."""
    stored = records(experiment)
    found: dict[str, str] = {}
    for part in parts or stored:
        old = stored[part]["code"] != measured_code(experiment, part)
        made_by = stored[part]["commit"] or "unknown"
        found[made_by] = "†" if old or found.get(made_by) else ""
        if isinstance(results := stored[part]["results"], dict) and "peers_commit" in results:
            found.setdefault(results["peers_commit"], "")  # no code of this library
    return ", ".join(f"{commit}{mark}" for commit, mark in found.items())


def measured_code(experiment: str, part: str) -> str:
    """Fingerprint of the code that a part of an experiment measures."""
    code = MEASURED.get(experiment, FITS)
    return fingerprint(MEASURED.get(f"{experiment} {part}", code))


def results(experiment: str, part: str) -> Any:
    """Stored results of one part of an experiment."""
    return records(experiment)[part]["results"]


def store(experiment: str, part: str, results: Any, **more: Any) -> None:
    """Write the line of a part in results/EXPERIMENT.jsonl; ``more`` goes to the environment.

    Several processes may do this at once.
    """
    record = {
        "part": part,
        "commit": commit(),
        "code": measured_code(experiment, part),
        "environment": environment() | more,
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    with open(__file__, encoding="utf-8") as here:  # any file that all of them have
        lock(here)
        found = records(experiment) | {part: record}
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in found.values()]
        write_atomically(RESULTS / f"{experiment}.jsonl", "".join(lines).encode())
    print(f"stored {part} in {experiment}.jsonl")


def run_parts(experiment: str, parts: dict[str, Callable[[], Any]], **more: Any) -> None:
    """Run the parts named on the command line, or all, and store each as soon as it is done."""
    names = sys.argv[1:] or list(parts)
    if unknown := set(names) - set(parts):
        sys.exit(f"unknown part {', '.join(unknown)}; known: {', '.join(parts)}")
    for name in names:
        print(f"{name}: {parts[name].__doc__}", flush=True)
        try:
            found = parts[name]()
        except FileNotFoundError as error:
            sys.exit(str(error))
        store(experiment, name, found, **more)
