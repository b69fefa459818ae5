"""Rows on one GPU: fit, transform, exact mAP and DuOri, against plain products and the host.

    python benchmarks/device.py [tests] [same] [fit] [transform] [ranking] [duori] [choose]

Without arguments every part runs. Needs a GPU with 80 GB for ``fit`` and ``transform``; DEVICE_ROWS
in the environment sets another number of rows than 10,000,000. Results are those of one device: its
name is stored with them.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from _common import run_parts
from dualmetric import DuOri, DuRP, MetricCV, mean_average_precision
from dualmetric.evaluation import average_precisions

N_ROWS = int(os.environ.get("DEVICE_ROWS", 10_000_000))
N_CLASSES = 100


def torch() -> Any:
    import torch

    return torch


def seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds of the work, the device's included, after one run to warm up."""
    times = []
    for _ in range(repeats + 1):
        torch().cuda.synchronize()
        begin = perf_counter()
        work()
        torch().cuda.synchronize()
        times.append(perf_counter() - begin)
    return float(np.median(times[1:]))


def made_rows(n: int, d: int, weight: float = 0.3) -> tuple[Any, Any]:
    """Rows of classes about random centres, and their labels, made on the device."""
    t = torch()
    t.cuda.empty_cache()
    draw = t.Generator(device="cuda").manual_seed(0)
    centres = t.randn((N_CLASSES, d), generator=draw, device="cuda")
    X = t.empty((n, d), device="cuda")
    y = t.arange(n, device="cuda") % N_CLASSES
    for start in range(0, n, 500_000):
        part = slice(start, min(start + 500_000, n))
        X[part] = t.randn(X[part].shape, generator=draw, device="cuda")
        X[part] += weight * centres[y[part]]
    return X, y


def tests() -> Any:
    """The tests of device arrays, on this device."""
    root = Path(__file__).parent.parent
    pytest = [sys.executable, "-m", "pytest"]
    done = subprocess.run(
        # without what other tests need
        [*pytest, "-q", "-p", "no:cacheprovider", "--noconftest", "tests/test_device.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-3000:])
    return {"passed": done.returncode == 0, "summary": done.stdout.strip().splitlines()[-1]}


def same() -> Any:
    """Distances learned on the device and on the host from 20,000 × 256, same seed."""
    X, y = made_rows(20_000, 256)
    host, labels = X.cpu().numpy(), y.cpu().numpy()
    results = {}
    for name, setting in {
        "DuRP": {},
        "DuRP, whitened": {"shrinkage": 0.5},
        "DuRP, whitened, cosine": {"shrinkage": 0.5, "distance": "cosine"},
        "DuRP, lifted": {"lift": "rbf", "shrinkage": 0.5},
    }.items():
        model = {
            place: DuRP(n_components=64, random_state=0, **setting).fit(rows, classes)
            for place, rows, classes in (("device", X, y), ("host", host, labels))
        }
        found = model["device"].metric_.pairwise(X[:500]).cpu().numpy()
        expected = model["host"].metric_.pairwise(host[:500])
        results[name] = {
            "largest_relative_difference": float(np.abs(found - expected).max() / expected.max()),
            "seconds": {place: sum(m.timings_.values()) for place, m in model.items()},
            "timings": {place: m.timings_ for place, m in model.items()},
        }
        print("  ", name, results[name])
    return results


def fit() -> Any:
    """DuRP of rank 64, whitened, on 10,000,000 × 768 float32 that are on the device."""
    X, y = made_rows(N_ROWS, 768)
    results: dict[str, Any] = {"rows": N_ROWS}
    for name, all_rows in (("fit", False), ("fit, all_rows", True)):
        model = DuRP(n_components=64, shrinkage=0.5, all_rows=all_rows, random_state=0)
        results[name] = {"seconds": seconds(lambda m=model: m.fit(X, y)), **model.timings_}
        print("  ", name, results[name])
    results["peak_gb_beyond_rows"] = (torch().cuda.max_memory_allocated() - X.nbytes) / 1e9
    return results


def choose() -> Any:
    """MetricCV on the same rows: chosen and learned."""
    X, y = made_rows(N_ROWS, 768)
    model = MetricCV(random_state=0)
    taken = seconds(lambda: model.fit(X, y), repeats=3)
    return {"rows": N_ROWS, "seconds": taken, "chosen": str(model.best_estimator_)}


def transform() -> Any:
    """The metric applied to 10,000,000 × 768, against the plain product with its factor."""
    X, y = made_rows(N_ROWS, 768)
    model = DuRP(n_components=64, shrinkage=0.5, random_state=0).fit(X, y)
    L = torch().asarray(model.metric_.factor, device="cuda")
    result = {
        "rows": N_ROWS,
        "plain": seconds(lambda: X @ L),
        "transform": seconds(lambda: model.transform(X)),
    }
    result["share_of_plain_speed"] = result["plain"] / result["transform"]
    model.set_params(distance="cosine").fit(X, y)
    result["transform, cosine"] = seconds(lambda: model.transform(X))
    print("  ", result)
    return result


def ranking() -> Any:
    """Exact mAP of 10,000 queries against 1,000,000 × 64 rows, against two cores of the host."""
    from threadpoolctl import threadpool_limits

    X, y = made_rows(1_000_000, 64, weight=0.6)
    queries = np.sort(np.random.default_rng(0).choice(len(X), 10_000, replace=False))
    device = seconds(lambda: mean_average_precision(X, y, queries=queries), repeats=3)
    host, labels = X.cpu().numpy(), y.cpu().numpy()
    few = 200
    os.environ["OMP_NUM_THREADS"] = "2"  # what the package's own threads go by
    with threadpool_limits(2):
        average_precisions(host[:5000], labels[:5000])  # compiles
        # what is paid once per call is left out of the time per query
        times = {}
        for count in (2, few):
            begin = perf_counter()
            expected = average_precisions(host, labels, queries=queries[:count])
            times[count] = perf_counter() - begin
    del os.environ["OMP_NUM_THREADS"]
    found = average_precisions(X, y, queries=queries[:few]).cpu().numpy()
    each = (times[few] - times[2]) / (few - 2)
    result = {
        "device_seconds": device,
        "host_seconds_a_query": each,
        "host_seconds": times[2] + each * len(queries),
        "times_faster": (times[2] + each * len(queries)) / device,
        "largest_difference": float(np.abs(found - expected).max()),
    }
    print("  ", result)
    return result


def duori() -> Any:
    """DuOri in 1,000 dimensions, in batches on the device, against the host."""
    X, y = made_rows(20_000, 1000)
    host, labels = X.cpu().numpy(), y.cpu().numpy()
    result: dict[str, Any] = {"host_cores": len(os.sched_getaffinity(0))}
    for place, rows, classes in (("device", X, y), ("host", host, labels)):
        model = DuOri(n_triplets=20_000, n_components=64, random_state=0)
        model.fit(rows[:2000], classes[:2000])
        model.fit(rows, classes)
        result[place] = {**model.timings_, "gaps": [epoch.gap for epoch in model.history_]}
        print("  ", place, result[place])
    longer = DuOri(n_triplets=20_000, max_epochs=100, tol=1e-3, random_state=0).fit(X, y)
    result["to_tolerance_1e-3"] = {
        "epochs": longer.n_iter_,
        "gap": longer.duality_gap_,
        "primal": longer.history_[-1].primal,
        **longer.timings_,
    }
    print("  ", result["to_tolerance_1e-3"])
    return result


PARTS = {
    "tests": tests,
    "same": same,
    "fit": fit,
    "choose": choose,
    "transform": transform,
    "ranking": ranking,
    "duori": duori,
}


def main() -> None:
    if not torch().cuda.is_available():
        sys.exit("benchmarks/device.py needs a GPU that PyTorch can use.")
    device = {"name": torch().cuda.get_device_name(), "torch": torch().__version__}
    run_parts("device", PARTS, device=device)


if __name__ == "__main__":
    main()
