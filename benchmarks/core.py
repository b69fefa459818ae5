"""Quality and speed of the core, each beside something known, in one run.

    DUALMETRIC_DATA=... python benchmarks/core.py [PART ...]

The parts are quality, fit, wide, parts, start, map, sampler and blocks; without arguments every
part runs. Times are medians, taken in turns with what they are compared to; only the ratios mean
something on other machines. `compare.py` compares two versions of the package.
"""

import json
from typing import Any

import numpy as np

from _common import load_split, run_parts, run_python, side_by_side
from dualmetric import SPCA, SRP, DuOri, DuRP, Euclidean, knn_accuracy, mean_average_precision

PROCESSES = 9
PAPER = {"DuRP": "67.1 ± 1.2", "DuOri": "67.7 ± 1.7", "SRP": "32.6 ± 5.4", "SPCA": "41.6 ± 0.4"}


def quality() -> Any:
    """usps in the paper's setting: m = 10, N = 100,000, 3 epochs, λ = 1/N, unscaled; five seeds."""
    X, y, X_test, y_test = load_split("usps")
    table: dict[str, Any] = {"Euclid": {"map": [Euclidean().fit(X).score(X_test, y_test)]}}
    for learner in (DuRP, DuOri, SRP, SPCA):
        fitted = [learner(scale=False, random_state=seed).fit(X, y) for seed in range(5)]
        table[learner.__name__] = {
            "map": [model.score(X_test, y_test) for model in fitted],
            "knn": [
                knn_accuracy(model.transform(X), y, model.transform(X_test), y_test)
                for model in fitted
            ],
            "paper_map": PAPER[learner.__name__],
        }
    for name, row in table.items():
        scores = 100 * np.array(row["map"])
        print(
            f"  {name:7s} mAP {scores.mean():5.1f} ± {scores.std():.1f}", row.get("paper_map", "")
        )
    return table


def fit() -> Any:
    """Fits on usps against scikit-learn's LDA, in fresh processes: LDA's time depends on these."""
    code = "import json; from core import fit_once; print(json.dumps(fit_once()))"
    runs = [json.loads(run_python(code).splitlines()[-1]) for _ in range(PROCESSES)]
    seconds = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
    found = _ratios(seconds, {"durp": "lda", "durp_scaled": "lda", "duori": "durp"})
    for name in ("durp", "durp_scaled"):
        each = [run[name] / run["lda"] for run in runs]
        found["ratios"][f"{name}/lda"] = float(np.median(each))
        found[f"range of {name}/lda"] = [min(each), max(each)]
        print(" ", name, [round(one, 2) for one in each])
    return found | {"runs": runs}


def fit_once() -> dict[str, float]:
    """Seconds of fits on usps."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y, _, _ = load_split("usps")
    DuRP(random_state=0).fit(X, y)  # compiled before the clock starts
    seconds = side_by_side(
        7,
        lda=lambda: LinearDiscriminantAnalysis(solver="eigen").fit(X, y),
        durp=lambda: DuRP(scale=False, random_state=0).fit(X, y),
        durp_scaled=lambda: DuRP(random_state=0).fit(X, y),
    )
    return seconds | side_by_side(1, duori=lambda: DuOri(scale=False, random_state=0).fit(X, y))


def wide() -> Any:
    """Dense 5,500 × 1,000, rank 50, against XᵀX and its eigenvectors."""
    X, y = _made_wide()
    model = DuRP(n_components=50, random_state=0).fit(X, y)
    seconds = side_by_side(
        5,
        gram_and_eigh=lambda: np.linalg.eigh(X.T @ X),
        durp=lambda: DuRP(n_components=50, random_state=0).fit(X, y),
    )
    return _ratios(seconds, {"durp": "gram_and_eigh"}) | {"rank": model.metric_.rank}


def _made_wide() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((30, 1000))
    y = rng.integers(30, size=5500)
    return (0.3 * centres[y] + rng.standard_normal((5500, 1000))).astype(np.float32), y


def parts() -> Any:
    """The parts of a fit (m = 10, 100,000 triplets, three epochs), each beside its own limit.

    The limits: for sampling, a copy of every row that is compared; for the projection, one product
    of its size; for solving, the arithmetic of its steps at the speed of a large product, on one
    core; for recovery, one product XᵀY and the eigenvectors of its size.
    """
    usps, labels, _, _ = load_split("usps")
    wide, wide_labels = _made_wide()
    return {
        "usps, 7,291 × 256": _beside_limits(usps, labels, None),
        "synthetic, 5,500 × 1,000": _beside_limits(wide, wide_labels, 50),
    }


def _beside_limits(X: np.ndarray, y: np.ndarray, rank: int | None) -> dict[str, Any]:
    from scipy.linalg import eigh
    from threadpoolctl import threadpool_limits

    m, epochs = 10, 3
    model = DuRP(m, n_components=rank, max_epochs=epochs, random_state=0).fit(X, y)
    rng = np.random.default_rng(0)
    R = rng.standard_normal((X.shape[1], m)).astype(np.float32)
    index = model.comparisons_.index[:, [0, 1, 3]]
    kept = np.empty((1000, X.shape[1]), np.float32)
    Y, square = X.copy(), rng.standard_normal((1000, 1000)).astype(np.float32)
    gram = X.T @ X
    d = len(gram)
    subset = None if rank is None else (d - rank, d - 1)
    driver = "evd" if rank is None else "evr"
    spent: dict[str, list[float]] = {part: [] for part in model.timings_}

    def fit() -> None:
        for part, seconds in model.fit(X, y).timings_.items():
            spent[part].append(seconds)

    def single_product() -> None:
        with threadpool_limits(1):
            square @ square

    limits = side_by_side(
        7,
        fit=fit,
        gather=lambda: [
            X.take(rows, axis=0, out=kept[: len(rows)], mode="clip")
            for rows in np.array_split(index.ravel(), len(index) // 300)
        ],
        projection=lambda: X @ R,
        product=lambda: X.T @ Y,
        eigenvectors=lambda: eigh(gram, subset_by_index=subset, driver=driver),
        square=single_product,
    )
    drawn = 1.0 / _active_share(X, y)
    flops = epochs * len(index) * (5.0 * m * m + 14 * m)
    limit = {
        "sampling": limits["gather"] * drawn,
        "projection": limits["projection"],
        "solving": flops / (2.0 * 1000**3 / limits["square"]),
        "recovery": limits["product"] + limits["eigenvectors"],
    }
    table = {
        part: {"seconds": float(np.median(values)), "limit": limit[part]}
        for part, values in spent.items()
    }
    for part, row in table.items():
        ratio = row["seconds"] / row["limit"]
        print(f"  {part:10s} {row['seconds']:.3f} s, {ratio:.1f} × {row['limit']:.4f}")
    return table


def _active_share(X: np.ndarray, y: np.ndarray) -> float:
    """Share of random triplets that are active: one over how many are compared for each found."""
    from dualmetric._arrays import ops
    from dualmetric.problem import length_unit
    from dualmetric.supervision.sampling import _Classes

    drawn = _Classes(y).draw(20_000, np.random.default_rng(0))
    return float((ops.margins(X, drawn[:, [0, 1, 0, 2]]) < length_unit(X) ** 2).mean())


def start() -> Any:
    """Import of the package against scikit-learn's, and the first fit of a process."""
    timed = "import time; begin = time.perf_counter(); {}; print(time.perf_counter() - begin)"
    first = (
        "import numpy as np, sklearn, time\n"
        "from dualmetric import DuRP\n"
        "rng = np.random.default_rng(0)\n"
        "X = rng.standard_normal((2000, 50)).astype(np.float32); y = rng.integers(5, size=2000)\n"
        "seconds = []\n"
        "for _ in range(2):\n"
        "    begin = time.perf_counter(); DuRP(n_triplets=1000).fit(X, y)\n"
        "    seconds.append(time.perf_counter() - begin)\n"
        "print(seconds[0] - seconds[1])"
    )
    run_python(first)  # fills the cache
    parts: dict[str, list[float]] = {"sklearn": [], "dualmetric": [], "first_fit_adds": []}
    for _ in range(5):
        parts["sklearn"].append(float(run_python(timed.format("import sklearn"))))
        parts["dualmetric"].append(float(run_python(timed.format("import dualmetric"))))
        parts["first_fit_adds"].append(float(run_python(first)))
    seconds = {name: float(np.median(values)) for name, values in parts.items()}
    numba = run_python("import dualmetric, sys; print('numba' in sys.modules)")
    return _ratios(seconds, {"dualmetric": "sklearn"}) | {"imports_numba": numba == "True"}


def argsort_map(X: np.ndarray, y: np.ndarray) -> float:
    """mAP by chunks of distances and NumPy's argsort: what one would write first."""
    squares = (X * X).sum(axis=1)
    precisions = []
    for first in range(0, len(X), 256):
        rows = slice(first, first + 256)
        distances = squares[rows, None] + squares - 2 * X[rows] @ X.T
        distances[np.arange(len(distances)), np.arange(len(X))[rows]] = -1.0
        order = np.argsort(distances, axis=1)[:, 1:]
        relevant = y[order] == y[rows, None]
        precision = np.cumsum(relevant, axis=1) / np.arange(1, len(X))
        precisions.append((precision * relevant).sum(axis=1) / relevant.sum(axis=1))
    return float(np.concatenate(precisions).mean())


def map_() -> Any:
    """mAP of 15,000 × 50 against the argsort version, and its peak memory."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=15_000)
    X = rng.standard_normal((15_000, 50)) + 0.5 * rng.standard_normal((10, 50))[y]
    mean_average_precision(X[:100], y[:100])
    ours, plain = mean_average_precision(X, y), argsort_map(X, y)
    if abs(ours - plain) > 1e-9:
        raise SystemExit(f"the two versions disagree: {ours} and {plain}")
    seconds = side_by_side(
        3, argsort=lambda: argsort_map(X, y), ours=lambda: mean_average_precision(X, y)
    )
    peak = run_python(
        "import numpy as np, resource\n"
        "from dualmetric import mean_average_precision\n"
        "rng = np.random.default_rng(0)\n"
        "mean_average_precision(rng.standard_normal((15000, 50)), rng.integers(10, size=15000))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)"
    )
    return _ratios(seconds, {"ours": "argsort"}) | {"peak_mb": float(peak)}


def sampler() -> Any:
    """What the two samplers do to 5-NN accuracy and mAP on usps; three seeds."""
    X, y, X_test, y_test = load_split("usps")
    table = {}
    for name in ("active", "neighbors"):
        fitted = [DuRP(sampler=name, random_state=seed).fit(X, y) for seed in range(3)]
        table[name] = {
            "map": [model.score(X_test, y_test) for model in fitted],
            "knn": [
                knn_accuracy(model.transform(X), y, model.transform(X_test), y_test)
                for model in fitted
            ],
        }
        print(f"  {name}:", {key: f"{100 * np.mean(v):.1f}" for key, v in table[name].items()})
    return table


def blocks() -> Any:
    """DuOri's steps at 1,000 dimensions, one comparison at a time and in blocks; one thread."""
    from threadpoolctl import threadpool_limits

    from dualmetric import solver
    from dualmetric._arrays import kernels

    rng = np.random.default_rng(0)
    Z = rng.standard_normal((5000, 1000)).astype(np.float32)
    index = rng.integers(5000, size=(2000, 4)).astype(np.int32)
    shift, weight = np.zeros(2000), np.ones(2000)

    def steps(run: Any) -> None:
        beta, V = np.zeros(2000, np.float32), np.zeros((1000, 1000), np.float32)
        run(Z, index, shift, weight, beta, V, 1e6, 0.0, False, 0.0, 1.0)

    steps(kernels.dual_epoch)
    with threadpool_limits(1):
        seconds = side_by_side(
            3,
            one_by_one=lambda: steps(kernels.dual_epoch),
            blocks=lambda: steps(solver._blocked_epoch),
        )
    return _ratios(seconds, {"one_by_one": "blocks"})


def _ratios(seconds: dict[str, float], against: dict[str, str]) -> dict[str, Any]:
    ratios = {f"{name}/{base}": seconds[name] / seconds[base] for name, base in against.items()}
    print("  seconds", {name: round(value, 3) for name, value in seconds.items()})
    print("  ratios ", {name: round(value, 3) for name, value in ratios.items()})
    return {"seconds": seconds, "ratios": ratios}


PARTS = {
    "quality": quality,
    "fit": fit,
    "wide": wide,
    "parts": parts,
    "start": start,
    "map": map_,
    "sampler": sampler,
    "blocks": blocks,
}


if __name__ == "__main__":
    run_parts("core", PARTS)
