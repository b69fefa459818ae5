"""Rows on disk, learned from and transformed by Dask on a local cluster.

    python benchmarks/dask_scale.py rows [--n 5000000] [--folder FOLDER] [--workers 2]
    DUALMETRIC_DATA=... python benchmarks/dask_scale.py usps

``rows`` writes n × 768 float32 as Zarr (15 GB for 5,000,000; needs the package zarr) to a folder in
FOLDER, measures fits and a transform beside a plain pass over the same files, taking turns, and
removes them. ``usps`` is a fit of a small Dask array beside the fit in memory.
"""

import argparse
import os
import resource
import shutil
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from _common import load_split, side_by_side, store
from dualmetric import DuRP, mean_average_precision

WIDTH, N_CLASSES, HEIGHT = 768, 50, 16_384
QUERIES = 100


def write_rows(path: Path, n: int) -> None:
    """Class means and noise, as Zarr in chunks of 48 MB."""
    import zarr

    rng = np.random.default_rng(0)
    centres = 0.3 * rng.standard_normal((N_CLASSES, WIDTH), dtype=np.float32)
    rows = zarr.create_array(
        str(path), shape=(n, WIDTH), chunks=(HEIGHT, WIDTH), dtype="float32", compressors=None
    )
    for start in range(0, n, HEIGHT):
        labels = np.arange(start, min(start + HEIGHT, n)) % N_CLASSES
        noise = rng.standard_normal((len(labels), WIDTH), dtype=np.float32)
        rows[start : start + len(labels)] = centres[labels] + noise


def peak_gb() -> float:
    """Most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def rows(n: int, folder: str | None, workers: int, repeats: int) -> Any:
    """Rows on disk: a plain pass, fits of rank 64 and a transform, and the memory they take."""
    import dask.array as da
    from distributed import Client

    path = Path(tempfile.mkdtemp(prefix="rows-", dir=folder)) / "rows.zarr"
    try:
        begin = perf_counter()
        write_rows(path, n)
        print(f"   written in {perf_counter() - begin:.0f} s")
        options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": "4GB"}
        with Client(n_workers=workers, **options) as client:
            X, y = da.from_zarr(str(path)), np.arange(n) % N_CLASSES
            setting = {"n_components": 64, "random_state": 0}
            DuRP(**setting).fit(X[:2000], y[:2000])  # what is compiled is read from its cache
            model = DuRP(**setting)
            seconds = side_by_side(
                repeats,
                plain=lambda: X.sum(axis=0).compute(),
                fit=lambda: model.fit(X, y),
                whitened=lambda: DuRP(shrinkage=0.5, **setting).fit(X, y),
                transform=lambda: model.transform(X).sum(axis=0).compute(),
            )
            memory = {
                "workers_gb": max(client.run(peak_gb).values()),
                "client_gb": peak_gb(),
            }
            begin = perf_counter()
            score = mean_average_precision(model.transform(X), y, queries=QUERIES)
            seconds["score"] = perf_counter() - begin
    finally:
        shutil.rmtree(path.parent)
    ratios = {name: seconds[name] / seconds["plain"] for name in ("fit", "whitened", "transform")}
    result = {
        "rows": n,
        "gb": n * WIDTH * 4 / 1e9,
        "workers": workers,
        "seconds": seconds,
        "ratios": ratios,
        "memory": memory,
        "queries": QUERIES,
        "score": score,
    }
    print("  ", result)
    return result


def usps(workers: int, repeats: int) -> Any:
    """usps as a Dask array in 8 chunks on a local cluster, beside the fit in memory."""
    import dask.array as da
    from distributed import Client

    X, y, _, _ = load_split("usps")
    with Client(n_workers=workers, threads_per_worker=1, dashboard_address=":0"):
        D = da.from_array(X, chunks=(-(-len(X) // 8), X.shape[1]))
        DuRP(random_state=0).fit(D, y)
        seconds = side_by_side(
            max(repeats, 5),
            memory=lambda: DuRP(random_state=0).fit(X, y),
            dask=lambda: DuRP(random_state=0).fit(D, y),
        )
    result = {"seconds": seconds, "overhead": seconds["dask"] - seconds["memory"]}
    print("  ", result)
    return result


def main() -> None:
    """Run the part that is named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["rows", "usps"])
    parser.add_argument("--n", type=int, default=5_000_000)
    parser.add_argument("--folder", help="where the files go; the temporary folder otherwise")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if given.part == "rows":
        store("dask", "rows", rows(given.n, given.folder, given.workers, given.repeats))
    else:
        store("dask", "usps", usps(given.workers, given.repeats))


if __name__ == "__main__":
    main()
