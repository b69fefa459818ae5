"""What each stage costs per row, triplet or pair, and what follows for far more rows.

    python benchmarks/scaling.py measure   # this machine: benchmarks/results/scaling.jsonl
    python benchmarks/scaling.py page      # docs/scaling.md, from that and two other results

The other results are those of dask_scale.py (dask.jsonl) and device.py (device.jsonl).

The page holds only numbers from stored results, and arithmetic with them.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from _common import records, side_by_side, store
from dualmetric import DuRP
from dualmetric._rows import column_means, open_rows
from dualmetric.evaluation import average_precisions

PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"
PATTERN = re.compile(r"(<!-- made by benchmarks/scaling.py -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH, RANK, N_CLASSES = 768, 64, 50
WIDE, ENTRIES = 1_000_000, 100  # of sparse rows: features, and numbers per row
MAX_ROWS = 50_000  # the default of the estimators
STAGES = ("sampling", "projection", "solving", "recovery")


def dense_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Class means and noise."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % N_CLASSES
    centres = 0.3 * rng.standard_normal((N_CLASSES, WIDTH), dtype=np.float32)
    return rng.standard_normal((n, WIDTH), dtype=np.float32) + centres[y], y


def sparse_rows(n: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of 100 words: a fifth of them those of their class."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % N_CLASSES
    words = (WIDE * rng.random((n, ENTRIES)) ** 3).astype(np.int32)
    own = ENTRIES // 5
    words[:, :own] = rng.integers(WIDE, size=(N_CLASSES, 500))[
        y[:, None], rng.integers(500, size=(n, own))
    ]
    numbers = np.repeat(np.arange(n), ENTRIES)
    X = sp.csr_matrix((np.ones(words.size, np.float32), (numbers, words.ravel())), (n, WIDE))
    X.data[:] = 1.0
    return X, y


def measure() -> Any:
    """Stages of fits from 50,000 rows, and what grows with the rows, on this machine."""
    X, y = dense_rows(MAX_ROWS)
    found: dict[str, Any] = {"dense": _fit(X, y), "sparse": _fit(*sparse_rows(len(y)))}
    model = DuRP(n_components=RANK, shrinkage=0.5, random_state=0).fit(X, y)
    Z = model.transform(X)
    wide, labels = sparse_rows(len(y))
    sparse = DuRP(n_components=RANK, random_state=0).fit(wide, labels)
    queries = 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        mapped = np.load(path, mmap_mode="r")
        average_precisions(Z[:2000], y[:2000])
        seconds = side_by_side(
            5,
            reading=lambda: column_means(open_rows(mapped)[0]),
            transform=lambda: model.transform(X),
            sparse_transform=lambda: sparse.transform(wide),
            evaluation=lambda: average_precisions(Z, y, queries=queries),
        )
    n = len(y)
    found["per_row"] = {
        "reading": seconds["reading"] / n,
        "transform": seconds["transform"] / n,
        "sparse_transform": seconds["sparse_transform"] / n,
    }
    found["per_pair"] = seconds["evaluation"] / (queries * n)
    print("  ", found)
    return found


def _fit(X: Any, y: np.ndarray) -> dict[str, float]:
    """Median seconds of each stage over three whitened fits."""
    shrinkage = 0.84 if sp.issparse(X) else 0.5
    model = DuRP(n_components=RANK, shrinkage=shrinkage, random_state=0)
    runs = [model.fit(X, y).timings_ for _ in range(3)]
    return {stage: float(np.median([run[stage] for run in runs])) for stage in STAGES}


def page() -> None:
    """Fill in the part of docs/scaling.md between its marks."""
    text, made = PAGE.read_text(encoding="utf-8"), section()
    if not PATTERN.search(text):
        raise SystemExit(f"{PAGE} has no marks <!-- made by benchmarks/scaling.py --> and end")
    PAGE.write_text(PATTERN.sub(lambda m: f"{m[1]}\n{made}\n\n{m[2]}", text), encoding="utf-8")
    print(f"wrote {PAGE.name}")


def section() -> str:
    """The part of the page that comes from stored results."""
    here, dask, gpu = records("scaling")["stages"], records("dask"), records("device")
    rows, device = dask["rows"]["results"], {part: gpu[part]["results"] for part in gpu}
    return "\n\n".join(
        [
            _measured_on(here["environment"]["cores"], rows, device, gpu["fit"]["environment"]),
            _reached(rows, dask["usps"]["results"], device),
            _costs(here["results"], rows, device),
            _predictions(here["results"], rows, device),
        ]
    )


def _measured_on(cores: int, found: Any, device: Any, environment: Any) -> str:
    return (
        "These machines were measured:\n\n"
        f"- *One machine*: {cores} cores.\n"
        f"- *Local cluster*: {found['workers']} workers of one thread each on the same machine, "
        f"with {found['rows']:,} × {WIDTH} float32 ({found['gb']:.0f} GB) in Zarr on its disk.\n"
        f"- *GPU*: one {environment['device']['name']}, with {device['fit']['rows']:,} × {WIDTH} "
        "float32 in its memory.\n\n"
        f"Unless stated otherwise, fits are of `DuRP` with whitening, rank {RANK}, 100,000 "
        "triplets and ten projections."
    )


def _reached(dask: Any, usps: Any, device: Any) -> str:
    ratios, memory = dask["ratios"], dask["memory"]
    fit, moved, ranked, duori = (device[part] for part in ("fit", "transform", "ranking", "duori"))
    lines = [
        "| what | measured |",
        "|---|---|",
        f"| Dask: fit, compared with a plain pass, `X.sum(axis=0)` | {ratios['fit']:.2f} times "
        f"as long without whitening; {ratios['whitened']:.2f} times with it |",
        f"| Dask: transform, compared with that pass | {ratios['transform']:.2f} times as long |",
        f"| Dask: memory of a worker, of the calling process | {memory['workers_gb']:.2f} GB, "
        f"{memory['client_gb']:.2f} GB |",
        "| Dask: `DuRP()` on usps, on a local cluster, compared with the fit in memory | "
        f"{usps['overhead']:+.2f} s |",
        f"| GPU: fit from {fit['rows']:,} × {WIDTH} | {fit['fit']['seconds']:.2f} s; whitened by "
        f"all rows {fit['fit, all_rows']['seconds']:.2f} s |",
        f"| GPU: `MetricCV` on the same rows | {_time(device['choose']['seconds'])} |",
        f"| GPU: transform of {moved['rows']:,} × {WIDTH}, compared with `X @ L` | "
        f"{100 * moved['share_of_plain_speed']:.0f} % of its speed |",
        "| GPU: exact mAP of 10,000 queries against 1,000,000 × 64 | "
        f"{ranked['device_seconds']:.1f} s, {ranked['times_faster']:.0f} times as fast as two "
        "cores (extrapolated from 200 queries) |",
        "| GPU: largest difference of distances from those of the host, same seed | "
        + "; ".join(
            f"{_setting(name)} {row['largest_relative_difference']:.0e}"
            for name, row in device["same"].items()
        )
        + " |",
        f"| GPU: DuOri's steps in 1,000 dimensions | {duori['device']['solving']:.2f} s, "
        f"{duori['host']['solving'] / duori['device']['solving']:.0f} times as fast as "
        f"{duori['host_cores']} cores, the same gap |",
    ]
    return "### Side by side\n\n" + "\n".join(lines)


def _setting(name: str) -> str:
    """A setting of `DuRP` in device.jsonl, such as "DuRP, whitened, cosine", in words."""
    rest = name.removeprefix("DuRP, ").replace(", cosine", " with the cosine")
    return "`DuRP`" if rest == "DuRP" else rest


def _costs(here: Any, dask: Any, device: Any) -> str:
    rows = dask["rows"]
    plain, mapped = dask["seconds"]["plain"] / rows, dask["seconds"]["transform"] / rows
    fit, moved, ranked = device["fit"]["fit"], device["transform"], device["ranking"]
    lines = [
        "| stage | grows with | one machine | local cluster | GPU |",
        "|---|---|---:|---:|---:|",
        f"| reading | rows | {_time(here['per_row']['reading'])}, files in cache | {_time(plain)} "
        "| – |",
    ]
    for stage, unit in zip(
        STAGES, ("triplets", "chosen rows", "triplets", "chosen rows"), strict=True
    ):
        count = 100_000 if unit == "triplets" else MAX_ROWS
        cells = [_time(found[stage] / count) for found in (here["dense"], fit)]
        lines.append(f"| {stage} | {unit} | {cells[0]} | as one machine | {cells[1]} |")
    lines += [
        f"| transform | rows | {_time(here['per_row']['transform'])} | {_time(mapped)}, including "
        f"reading | {_time(moved['transform'] / moved['rows'])} |",
        f"| evaluation (mAP) | queries × rows | {_time(here['per_pair'])} | "
        f"{_time(dask['seconds']['score'] / (dask['queries'] * rows))}, including all "
        "reading | "
        f"{_time(ranked['device_seconds'] / 1e10)} |",
    ]
    return "### Costs\n\nFor each row, triplet, or pair of a query and a row:\n\n" + "\n".join(
        lines
    )


def _predictions(here: Any, dask: Any, device: Any) -> str:
    learn = {name: sum(here[name].values()) for name in ("dense", "sparse")}
    rows = dask["rows"]
    reading, mapping = dask["seconds"]["plain"] / rows, dask["seconds"]["transform"] / rows
    on_device = device["fit"]["fit"]["seconds"], device["transform"]["transform"]
    on_it = device["fit"]["rows"]
    a_row = on_device[1] / device["transform"]["rows"]
    rate = WIDTH * 4 / reading  # bytes per second
    wide_bytes = ENTRIES * 8
    wide_reading = wide_bytes / rate
    wide_mapping = wide_reading + here["per_row"]["sparse_transform"] / dask["workers"]
    lines = [
        "| rows | local cluster: fit | local cluster: transform | 100 machines: fit | "
        "100 machines: transform | GPU: fit | GPU: transform |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for power in (7, 8, 9):
        n = 10**power
        fit, transform = n * reading + learn["dense"], n * mapping
        lines.append(
            f"| 10{'⁷⁸⁹'[power - 7]} × {WIDTH} | {_time(fit)} | {_time(transform)} | "
            f"{_time(n * reading / 100 + learn['dense'])} | {_time(transform / 100)} | "
            f"{_time(on_device[0]) if n <= on_it else '–'} | {_time(n * a_row)} |"
        )
    n = 10**9
    lines.append(
        f"| 10⁹ × 10⁶, {ENTRIES} numbers per row | {_time(n * wide_reading + learn['sparse'])} | "
        f"{_time(n * wide_mapping)} | {_time(n * wide_reading / 100 + learn['sparse'])} | "
        f"{_time(n * wide_mapping / 100)} | – | – |"
    )
    return (
        "### Predictions\n\n"
        + "\n".join(lines)
        + "\n\nThe predictions are computed as follows:\n\n"
        f"- Time of a fit = n × {_time(reading)} (one pass over n rows) + {_time(learn['dense'])} "
        f"(learning from {MAX_ROWS:,} rows; {_time(learn['sparse'])} if they are sparse). Only the "
        "pass is parallel.\n"
        f"- Time of a transform = n × {_time(mapping)}.\n"
        f"- A sparse row has {wide_bytes} bytes, which are read at the same speed, "
        f"{rate / 1e9:.2f} GB/s. Its transform takes {_time(wide_mapping - wide_reading)} more.\n"
        "- GPU: the rows to learn from are one array that is already on the device. Rows to "
        "transform are copied there in parts (10⁷ × 768 are 31 GB), and the time to copy them is "
        "not included.\n\n"
        "They assume that larger files are read as fast as the "
        f"{dask['gb']:.0f} GB here, some of which may still have been in the system's cache. "
        "Each of the 100 machines is like that of the local cluster, and reads its own part. The "
        f"labels (8 bytes per row: 8 GB for 10⁹) and the {MAX_ROWS:,} chosen rows are sent to the "
        "one that learns. "
        f"Nothing above {max(rows, device['fit']['rows']):,} rows was run."
    )


def _time(seconds: float) -> str:
    """A time in a unit that suits it."""
    for limit, scale, unit in (
        (1e-6, 1e9, "ns"),
        (1e-3, 1e6, "µs"),
        (1.0, 1e3, "ms"),
        (120.0, 1.0, "s"),
        (7200.0, 1 / 60, "min"),
    ):
        if seconds < limit:
            return (
                f"{seconds * scale:.2g} {unit}"
                if seconds * scale < 10
                else f"{seconds * scale:.0f} {unit}"
            )
    return f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        store("scaling", "stages", measure())
    elif sys.argv[1:] == ["page"]:
        page()
    else:
        sys.exit("usage: scaling.py measure, or scaling.py page")
