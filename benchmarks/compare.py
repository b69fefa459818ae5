"""Compare two versions of the package: times of fits and of their parts, and peak memory.

    python benchmarks/compare.py OLD NEW [PART ...] [--repeats 5] [--size 1.0]

OLD and NEW are checkouts (folders that hold src/dualmetric). Every measurement is a fresh process,
and the two versions take turns, so that noise affects both alike. Only what both versions export is
used. The rows are synthetic; ``--size 0.1`` makes a tenth of them, for a quick look.

Each line has the median of OLD, the median of NEW, and the median and range of NEW/OLD over the
turns. ``mean distance`` is one number of the result: where it is equal, both versions have learned
the same metric.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

FITS = 3  # in each process; the median counts


def dense_rows(size: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows like usps: 7,291 × 256, ten classes, a falling spectrum."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=int(7291 * size))
    X = rng.standard_normal((len(y), 256)) + rng.standard_normal((10, 256))[y]
    return (X / np.arange(1, 257) ** 0.5).astype(np.float32), y


def sparse_rows(size: float) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows like text: 20,000 × 50,000, 60 words per row, a fifth of them those of its class."""
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=int(20_000 * size))
    words = (50_000 * rng.random((len(y), 60)) ** 3).astype(np.int32)
    words[:, :12] = 500 * y[:, None] + rng.integers(500, size=(len(y), 12))
    rows = np.repeat(np.arange(len(y)), 60)
    X = sp.csr_matrix((np.ones(words.size, np.float32), (rows, words.ravel())), (len(y), 50_000))
    X.data[:] = 1 / 60**0.5
    return X, y


def fit(X: Any, y: np.ndarray, name: str = "DuRP", **options: Any) -> dict[str, float]:
    """Seconds of a fit and of its parts, memory, and one number of the metric."""
    import dualmetric

    estimator = getattr(dualmetric, name)
    few = np.sort(np.argsort(y, kind="stable")[:: max(1, len(y) // 300)])
    estimator(random_state=0, **options | {"n_triplets": 1000}).fit(X[few], y[few])  # compiles
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again
    runs: list[dict[str, float]] = []
    for _ in range(FITS):
        model = estimator(random_state=0, **options)
        begin = perf_counter()
        model.fit(X, y)
        runs.append({"whole fit, s": perf_counter() - begin})
        runs[-1] |= {f"{part}, s": value for part, value in model.timings_.items()}
    found = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    vectors = model.transform(X[:200]).astype(np.float64)
    distances = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    return found | {
        "peak memory of a fit, MB": status("VmHWM") - before,
        "mean distance": float(distances.mean()),
    }


def status(key: str) -> float:
    """Megabytes of this process, from the system."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1000
    raise KeyError(key)


def ranking(size: float) -> dict[str, float]:
    """mAP of synthetic rows."""
    from dualmetric import mean_average_precision

    rng = np.random.default_rng(0)
    y = rng.integers(10, size=int(15_000 * size))
    X = rng.standard_normal((len(y), 50)) + 0.5 * rng.standard_normal((10, 50))[y]
    mean_average_precision(X[:100], y[:100])  # compiles
    seconds = []
    for _ in range(FITS):
        begin = perf_counter()
        score = mean_average_precision(X, y)
        seconds.append(perf_counter() - begin)
    return {"whole ranking, s": statistics.median(seconds), "mAP": score}


TEXT = {"n_components": 50, "shrinkage": 0.84, "distance": "cosine"}
PARTS: dict[str, Any] = {
    "dense": lambda size: fit(*dense_rows(size)),
    "dense, whitened": lambda size: fit(*dense_rows(size), shrinkage=0.1, n_projections=50),
    "dense, neighbors": lambda size: fit(*dense_rows(size), sampler="neighbors"),
    "dense, lifted": lambda size: fit(*dense_rows(size), lift="rbf", shrinkage=0.03),
    "dense, DuOri": lambda size: fit(*dense_rows(size), "DuOri", n_triplets=int(20_000 * size)),
    "sparse": lambda size: fit(*sparse_rows(size), n_components=50),
    "sparse, whitened": lambda size: fit(*sparse_rows(size), **TEXT),
    "ranking": ranking,
}


def measure(checkout: Path, part: str, size: float) -> dict[str, float]:
    """One part in a fresh process with the package of one checkout."""
    command = [sys.executable, "-W", "ignore", __file__, "--measure", part, "--size", str(size)]
    variables = os.environ | {"PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    if not Path(answer["package"]).is_relative_to(checkout):
        sys.exit(f"{answer['package']} was imported, not the package in {checkout}")
    results: dict[str, float] = answer["results"]
    return results


def compare(old: Path, new: Path, parts: list[str], repeats: int, size: float) -> None:
    """Print a line for each measure of each part."""
    print(f"{'':36}{'old':>10}{'new':>10}   new/old (range)")
    for part in parts:
        turns = [[measure(place, part, size) for place in (old, new)] for _ in range(repeats)]
        print(part)
        for key in turns[0][0]:
            if any(key not in found for turn in turns for found in turn):
                continue
            pairs = [(a[key], b[key]) for a, b in turns]
            ratios = [b / a if a else float("nan") for a, b in pairs]
            a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
            print(
                f"  {key:34}{a:10.4g}{b:10.4g}   {statistics.median(ratios):.3f} "
                f"({min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )


def main() -> None:
    """Compare, or measure one part in this process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", nargs="?", type=Path, help="checkout of one version")
    parser.add_argument("new", nargs="?", type=Path, help="checkout of the other")
    parser.add_argument("parts", nargs="*", help=f"all of them by default: {'; '.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each part (5)")
    parser.add_argument("--size", type=float, default=1.0, help="share of the rows (1.0)")
    parser.add_argument("--measure", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        import dualmetric

        results = PARTS[given.measure](given.size)
        print(json.dumps({"package": dualmetric.__file__, "results": results}))
        return
    if given.new is None:
        parser.error("two checkouts are needed: OLD and NEW")
    for folder in (given.old, given.new):
        if not (folder / "src" / "dualmetric").is_dir():
            parser.error(f"{folder} is not a checkout: it has no folder src/dualmetric")
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(unknown)}; known: {'; '.join(PARTS)}")
    compare(
        given.old.resolve(),
        given.new.resolve(),
        given.parts or list(PARTS),
        given.repeats,
        given.size,
    )


if __name__ == "__main__":
    main()
