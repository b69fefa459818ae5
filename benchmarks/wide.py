"""Sparse rows in their original features, whitening, the cosine, and rows beyond memory.

    DUALMETRIC_DATA=... python benchmarks/wide.py [text] [words] [tdt30] [usps] [made] [memmap]

Without arguments every part runs. ``made`` and ``memmap`` need no data folder; ``memmap`` writes
6 GB to the temporary folder.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from _common import data_folder, load_split, run_parts, run_python, side_by_side
from dualmetric import DuRP, Euclidean, Metric, knn_accuracy, mean_average_precision


def scores(metric: Metric, data: tuple[Any, ...]) -> dict[str, float]:
    """mAP and 5-NN accuracy on test rows, in per cent."""
    X, y, X_test, y_test = data
    train, test = metric.transform(X), metric.transform(X_test)
    return {
        "map": round(100 * mean_average_precision(test, y_test), 2),
        "knn": round(100 * knn_accuracy(train, y, test, y_test), 2),
    }


def both_distances(data: tuple[Any, ...], **setting: Any) -> dict[str, Any]:
    """Scores of DuRP with the Euclidean distance and with the cosine, mean of three seeds."""
    found: dict[str, list[dict[str, float]]] = {"euclidean": [], "cosine": []}
    for distance, rows in found.items():
        for seed in range(3):
            model = DuRP(distance=distance, random_state=seed, **setting).fit(*data[:2])
            rows.append(scores(model.metric_, data))
    result = {
        distance: {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        for distance, rows in found.items()
    }
    print("  ", setting, {k: {a: round(b, 1) for a, b in v.items()} for k, v in result.items()})
    return result | {"rank": model.metric_.rank}


def text() -> Any:
    """20news_bydate in 58,091 words: quality, and the time of a fit against TruncatedSVD(50)."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.linear_model import RidgeClassifier

    data = load_split("20news_bydate")
    X, y, X_test, y_test = data
    ridge = RidgeClassifier().fit(X, y)
    train, test = ridge.decision_function(X), ridge.decision_function(X_test)
    peer = Euclidean(distance="cosine").fit(train).metric_
    results: dict[str, Any] = {
        "Euclid": scores(Euclidean().fit(X).metric_, data),
        "cosine": scores(Euclidean(distance="cosine").fit(X).metric_, data),
        "ridge, cosine": scores(peer, (train, y, test, y_test)),
    }
    print("  ", results)
    results["DuRP"] = both_distances(data, n_components=50)
    results["DuRP, shrinkage 0.84"] = both_distances(data, n_components=50, shrinkage=0.84)
    results["DuRP, shrinkage 0.8, 19 directions, power 0"] = both_distances(
        data, n_components=19, shrinkage=0.8, power=0.0, n_projections=50, n_triplets=400_000
    )
    seconds = side_by_side(
        3,
        svd=lambda: TruncatedSVD(50, random_state=0).fit(X),
        durp=lambda: DuRP(n_components=50, random_state=0).fit(X, y),
        whitened=lambda: DuRP(n_components=50, shrinkage=0.84, random_state=0).fit(X, y),
    )
    ratios = {name: seconds[name] / seconds["svd"] for name in ("durp", "whitened")}
    print("  seconds", seconds, "ratios", ratios)
    return results | {"seconds": seconds, "ratios": ratios}


def words() -> Any:
    """What a metric on 20news_bydate looks at: words of its directions, and of one distance."""
    X, y, X_test, y_test = load_split("20news_bydate")
    with np.load(data_folder() / "20news_bydate.npz", allow_pickle=False) as file:
        groups = file["class_names"].tolist()
    lines = (data_folder() / "20news_bydate.vocabulary.txt").read_text(encoding="utf-8")
    vocabulary = lines.split("\n")[: X.shape[1]]
    metric = DuRP(n_components=30, shrinkage=0.84, random_state=0).fit(X, y).metric_
    hockey, space = (
        X_test[np.flatnonzero(y_test == groups.index(group))[0]]
        for group in ("rec.sport.hockey", "sci.space")
    )
    result = {
        "directions": [
            [word for word, _ in metric.top_features(k, vocabulary, top=8)] for k in range(5)
        ],
        "explanation": str(metric.explain(hockey, space, vocabulary, top=6)),
    }
    print(result)
    return result


def tdt30() -> Any:
    """tdt30 in its 36,771 words, shrinkage 0.84."""
    return both_distances(load_split("tdt30"), n_components=50, shrinkage=0.84)


def usps() -> Any:
    """usps, shrinkage 0.1, m = 50."""
    return both_distances(load_split("usps"), n_projections=50, shrinkage=0.1)


_MADE = """
import json, resource, sys, time
import numpy as np, scipy.sparse as sp
from dualmetric import DuRP
n, d, per_row, n_classes = {n}, 1_000_000, 100, 100
rng = np.random.default_rng(0)
y = rng.integers(n_classes, size=n)
indices = rng.integers(d, size=(n, per_row), dtype=np.int32)
indices[:, :20] = (y[:, None] * 1000 + rng.integers(1000, size=(n, 20))).astype(np.int32)
indices.sort(axis=1)
X = sp.csr_matrix(
    (np.full(n * per_row, 0.1, np.float32), indices.ravel(), np.arange(n + 1) * per_row),
    shape=(n, d),
)
del indices
X.sum_duplicates()
model = DuRP(n_components=50, random_state=0)
small = sp.random(300, 5000, density=0.01, format="csr", dtype=np.float32, random_state=0)
DuRP(n_triplets=2000, n_components=5, random_state=0).fit(small, y[:300] % 3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
model.fit(X, y)
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"rows": n, "seconds": seconds, "peak_gb": peak / 1e6, "before_gb": before / 1e6,
    "estimate_gb": model.estimate(X).memory / 1e9, "rank": model.metric_.rank}}))
"""


def made() -> Any:
    """Made sparse rows × 1,000,000 features, 100 entries per row, 100 classes: rank 50."""
    results = [json.loads(run_python(_MADE.format(n=n))) for n in (100_000, 300_000, 1_000_000)]
    for result in results:
        print("  ", result)
    sizes = np.log([result["rows"] for result in results])
    exponent = float(np.polyfit(sizes, np.log([r["seconds"] for r in results]), 1)[0])
    print("   exponent of the time in rows:", round(exponent, 2))
    return {"runs": results, "exponent": exponent}


_MEMMAP = """
import json, sys, time
import numpy as np
from dualmetric import DuRP
def anonymous():
    with open("/proc/self/status") as lines:
        return max(int(l.split()[1]) for l in lines if l.startswith("RssAnon")) / 1e6
import threading
peak, running = 0.0, True
def watch():
    global peak
    while running:
        peak = max(peak, anonymous()); time.sleep(0.02)
watcher = threading.Thread(target=watch); watcher.start()
X = np.load({path!r}, mmap_mode="r")
y = np.arange(len(X)) % 50
begin = time.perf_counter()
model = DuRP(n_components=64, random_state=0).fit(X, y)
fitted = time.perf_counter()
Z = model.transform(X)
end = time.perf_counter()
running = False; watcher.join()
print(json.dumps({{"fit_seconds": fitted - begin, "transform_seconds": end - fitted,
    "peak_anonymous_gb": peak, "shape": list(Z.shape), "score": model.score(X[:3000], y[:3000])}}))
"""


def memmap() -> Any:
    """Dense memory-mapped 2,000,000 × 768 float32 (6 GB): fit and transform."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((50, 768)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.npy")
        rows = np.lib.format.open_memmap(path, "w+", np.float32, (2_000_000, 768))
        for start in range(0, len(rows), 50_000):
            labels = np.arange(start, start + 50_000) % 50
            noise = rng.standard_normal((50_000, 768), dtype=np.float32)
            rows[start : start + 50_000] = 0.3 * centres[labels] + noise
        rows.flush()
        del rows
        result = json.loads(run_python(_MEMMAP.format(path=path)))
    print("  ", result)
    return result


PARTS = {"text": text, "words": words, "tdt30": tdt30, "usps": usps, "made": made, "memmap": memmap}


if __name__ == "__main__":
    run_parts("wide", PARTS)
