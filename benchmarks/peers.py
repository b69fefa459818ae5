"""Methods of this library beside their peers on labelled sets: mAP, 5-NN, CPU time and memory.

    DUALMETRIC_DATA=... python benchmarks/peers.py [--trial] [--ours] [SET …] [new_classes] [growth]
    python benchmarks/peers.py install

Without names everything runs; ``install`` makes the environments of metric-learn and mlpack. Splits
are those of chooser.py, which has the scores of `MetricCV`. A method learns from training rows; its
outputs are compared by the Euclidean distance, the cosine and the centred cosine, and the best one
on the test rows counts. It runs in a process of its own, on one thread. Peers in `TUNED` run on all
splits. Any other method may take `LIMIT` CPU seconds, and starts no further split after `ENOUGH`;
on new classes, this holds for NCA only. `MetricCV` runs on one split, for its cost. With ``--ours``
only methods of this library run; others keep their stored results, with the commit of that run.
Each set is one line of results/peers.jsonl; peers_page.py makes the page.
"""

import argparse
import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp

from _common import ENVIRONMENTS, class_halves, interpreter, records, store
from _peers_methods import KERNEL, METHODS, PEERS, TUNED, UNSEEN, WIDE, Map, ours, whitened
from _peers_outside import status
from chooser import outputs, parts, views
from dualmetric._arrays.system import one_thread

LIMIT = 40
"""CPU seconds of a method on a set."""

ENOUGH = 8
"""CPU seconds after which no further split is started."""

SETS = (
    "golub",
    "su",
    "isolet1",
    "digits",
    "protein_val",
    "rcv1_7class",
    "caltech101_top30_bovw",
    "20news_use512",
    "tdt30",
    "usps",
    "fashion_mnist_13k",
    "20news_libsvm",
    "20news_bydate",
)
"""Those of chooser.py, small ones first."""

NEW_CLASSES = ("usps", "isolet1", "20news_use512", "fashion_mnist_13k", "caltech101_top30_bovw")
REQUIREMENTS = {  # metric-learn 0.7.0 fails on scikit-learn 1.8 and later
    "metric-learn": ["metric-learn==0.7.0", "scikit-learn==1.4.2", "numpy<2", "scipy<1.13"],
    "mlpack": ["mlpack>=4.4"],
}
GROWS = {
    "NCA": "rows",
    "LMNN (metric-learn)": "rows",
    "LMNN (mlpack)": "rows",
    "SCML (metric-learn)": "rows",
    "ITML (metric-learn)": "classes",
}
"""What the time of a slow peer grows with, beside the features that it gets.

It is not started on a set if it took too long on one that has no more of both.
"""


# one method on one set


def one_split(learn: Callable[..., Map], seed: int, data: tuple[Any, ...]) -> dict[str, float]:
    """Scores, CPU seconds of the fit, and the memory that it added."""
    X, y, X_test, y_test = data
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again
    before, begin = status("VmRSS"), process_time()
    transform = learn(X, y, seed)
    cost = {"cpu_seconds": process_time() - begin, "memory_mb": status("VmHWM") - before}
    extra = getattr(transform, "spent", {})
    cost = {key: round(value + extra.get(key, 0), 3) for key, value in cost.items()}
    train, test = outputs(transform, X, X_test)
    return views(train, y, test, y_test) | cost


def child(pipe: Any, learn: Callable[..., Map], splits: list[Any], limit: int | None) -> None:
    """Send the result of each split, or the reason why there is none."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    warnings.simplefilter("ignore")
    try:
        with one_thread():
            for done, (seed, data) in enumerate(splits):
                if done and limit is not None and sum(os.times()[:4]) > ENOUGH:
                    return
                pipe.send(one_split(learn, seed, data))
    except TimeoutError:
        os.kill(os.getpid(), signal.SIGXCPU)
    except Exception as error:
        pipe.send(f"failed: {type(error).__name__}: {error}"[:300])


def measured(
    learn: Callable[..., Map], splits: list[Any], limit: int | None = LIMIT
) -> dict[str, Any]:
    """Results of a method in a process of its own, and why splits are missing."""
    context = multiprocessing.get_context("fork")  # shares the rows, and what is compiled
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(there, learn, splits, limit))
    process.start()
    there.close()
    found, why = [], ""
    with contextlib.suppress(EOFError):
        while True:
            sent = here.recv()
            if isinstance(sent, str):
                why = sent
            else:
                found.append(sent)
    process.join()
    if process.exitcode == -signal.SIGXCPU:
        why = f"time limit of {limit} CPU seconds"
    elif process.exitcode:
        why = f"failed: the process ended with code {process.exitcode}"
    elif not why and len(found) < len(splits):
        why = f"no further split after {ENOUGH} CPU seconds"
    return {"splits": found, "of": len(splits), "why": why}


def features_used(features: int) -> int:
    """How many features a slow peer gets."""
    return 100 if features > WIDE else features


def unfit(name: str, method: str, X: Any, classes: int) -> str:
    """Reason not to start a method on a set; empty where there is none."""
    rows, features = X.shape
    wide = features > 2_000
    if wide and (method == "OASIS" or (method == "DuOri" and sp.issparse(X))):
        return "not run on more than 2,000 features: its steps are of features × features"
    if (key := GROWS.get(method)) is None:
        return ""
    size, width = {"rows": rows, "classes": classes}[key], features_used(features)
    stored = records("peers")
    for part in SETS:
        old = stored.get(part, {}).get("results")
        if old and part != name and old[key] <= size and features_used(old["features"]) <= width:
            before = old["methods"].get(method, {"splits": [], "why": ""})
            if before["why"].startswith("time limit") and not before["splits"]:
                where = f"{part}, with {old[key]:,} {key}"
                return f"not started: no score within the time limit on {where}"
    return ""


# parts


def kept(part: str) -> dict[str, Any]:
    """Stored results of the peers, and the commit of the run that measured them."""
    record = records("peers")[part]
    before = record["results"]
    theirs = {name: before["methods"][name] for name in before["methods"] if not is_ours(name)}
    return {"methods": theirs, "peers_commit": before.get("peers_commit", record["commit"])}


def is_ours(method: str) -> bool:
    """Whether a method is one of this library."""
    return method not in PEERS and method not in KERNEL


def same_classes(name: str, only_ours: bool = False) -> dict[str, Any]:
    """Every method on the splits of a set."""
    splits = list(parts(name, 5))
    X, y, X_test, _ = splits[0][1]
    classes = len(np.unique(y))
    found: dict[str, Any] = {"rows": X.shape[0], "test_rows": X_test.shape[0]}
    found |= {"features": X.shape[1], "classes": classes, "methods": {}}
    found |= kept(name) if only_ours else {}
    for method, learn in METHODS.items():
        if only_ours and not is_ours(method):
            continue
        some = splits[:1] if method.startswith("MetricCV") else splits
        limit = None if method in TUNED or method.startswith("MetricCV") else LIMIT
        why = unfit(name, method, X, classes)
        result = {"splits": [], "of": len(some), "why": why}
        if not why:
            result = measured(learn, some, limit)
        found["methods"][method] = result
        show(name, method, result)
    return found


def new_classes(name: str, only_ours: bool = False) -> dict[str, Any]:
    """Learned from one half of the classes, for five halves; ranks test rows of the other."""
    splits = list(class_halves(name, 5))
    part = f"new classes {name}"
    found: dict[str, Any] = kept(part) if only_ours else {"methods": {}}
    for method, learn in UNSEEN.items():
        if only_ours and not is_ours(method):
            continue
        # halves of the classes differ much: methods are compared on all of them
        result = measured(learn, splits, LIMIT if method == "NCA" else None)
        for one in result["splits"]:
            del one["knn"]  # no training row has the class of a test row
        found["methods"][method] = result
        show(part, method, result)
    return found


def show(name: str, method: str, result: dict[str, Any]) -> None:
    """Print means."""
    keys = result["splits"][0] if result["splits"] else ()
    means = {key: round(float(np.mean([one[key] for one in result["splits"]])), 2) for key in keys}
    print(f"{name}: {method}: {len(result['splits'])} splits {means} {result['why']}", flush=True)


def made_rows(n: int, features: int, nonzeros: int | None = None) -> tuple[Any, np.ndarray]:
    """Ten classes around random centres, or with own words among random ones."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=n)
    if nonzeros is None:
        X = rng.standard_normal((n, features), dtype=np.float32)
        X += 0.3 * rng.standard_normal((10, features), dtype=np.float32)[y]
        return X, y
    words = rng.integers(features, size=(n, nonzeros))
    own = max(1, nonzeros // 5)
    words[:, :own] = y[:, None] * (features // 20) + rng.integers(features // 20, size=(n, own))
    values = np.full(words.size, nonzeros**-0.5, dtype=np.float32)
    X = sp.csr_matrix((values, words.ravel(), np.arange(n + 1) * nonzeros), shape=(n, features))
    X.sum_duplicates()
    return X, y


def growth() -> dict[str, Any]:
    """CPU seconds of a fit on synthetic rows, over two decades of each size."""
    decades = (10_000, 100_000, 1_000_000)
    axes: dict[str, list[tuple[int, tuple[int, ...], dict[str, int]]]] = {
        "rows": [(n, (n, 100), {}) for n in decades],
        "triplets": [(t, (20_000, 100), {"n_triplets": t}) for t in decades],
        "nonzeros": [(20_000 * z, (20_000, 100_000, z), {}) for z in (5, 50, 500)],
    }
    found: dict[str, Any] = {}
    for axis, points in axes.items():
        for size, shape, settings in points:
            X, y = made_rows(*shape)
            for method in (partial(ours, "DuRP"), whitened):
                name = "DuRP, whitened" if method is whitened else "DuRP"
                with one_thread():
                    begin = process_time()
                    method(X, y, 0, **settings)
                    seconds = process_time() - begin
                found.setdefault(f"{axis}: {name}", []).append([size, round(seconds, 3)])
                print(f"growth: {axis} {size:,} {name} {seconds:.2f} s", flush=True)
    return found


def warm_up() -> None:
    """Import and compile what fits need, so that no process that is measured has to."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 8)).astype(np.float32), np.arange(80) % 4
    for rows in (X, sp.csr_matrix(X)):
        for method, learn in METHODS.items():
            if "(" not in method and method != "torch adapter":
                with contextlib.suppress(Exception):  # it will be stored with its reason
                    learn(rows, y, 0)
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401


def install() -> None:
    """Make the environments of the peers that need their own."""
    for package, requirements in REQUIREMENTS.items():
        if interpreter(package):
            continue
        folder = ENVIRONMENTS / package
        print(f"installing {package} to {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *requirements]
        if subprocess.run(pip, check=False).returncode:
            print(f"{package} could not be installed: its methods are stored with that reason")
        else:
            (folder / ".ready").touch()


def main() -> None:
    """Run the parts that are asked for, and store each as soon as it is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = (*SETS, "new_classes", "growth", "install")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(known)}; all if none")
    parser.add_argument("--trial", action="store_true", help="print, and store nothing")
    parser.add_argument("--ours", action="store_true", help="keep stored results of the peers")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(known):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if "install" in given.parts:
        install()
        given.parts.remove("install")
        if not given.parts:
            return
    work: dict[str, Callable[[], Any]] = {}
    for part in given.parts or known[:-1]:
        if part == "new_classes":
            for name in NEW_CLASSES:
                work[f"new classes {name}"] = partial(new_classes, name, given.ours)
        else:
            work[part] = growth if part == "growth" else partial(same_classes, part, given.ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
        for part, run in work.items():
            try:
                found = run()
            except FileNotFoundError as error:
                print(f"{part}: not run: {error}")
                continue
            if not given.trial:
                store("peers", part, found)


if __name__ == "__main__":
    main()
