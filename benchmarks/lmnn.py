"""LMNN beside mlpack's and beside a plain version: objective, error and time, in one run.

    python benchmarks/lmnn.py factor [ITERATIONS]
    pip install mlpack
    python benchmarks/lmnn.py

The first learns a 1,000 × 10 factor from the 6,575 training rows of tdt30, by `LMNN` and by SciPy's
L-BFGS-B over a plain NumPy version of the same objective, in one process, from the same start and
with the same rule to stop. The plain version is ended where it takes LIMIT times as long as ours.

The second compares with mlpack, and measures the memory of a large fit.
mlpack's objective counts only the k nearest impostors of each row (lmnn_function_impl.hpp), so it
does not minimise quite what we measure. Its matrix is judged by our objective, over all rows; its
rows are given in our unit, so that the margin of one means the same. Each of its fits runs in a
fresh process, which is ended after TIMEOUT seconds: some of its optimisers do not return. Seconds
are those of the fit alone, after one small fit to warm up; ``ours_reaches_it_in`` is the time in
which ours passes mlpack's objective. Errors are of one split: a row or two of difference is noise.
"""

import json
import resource
import subprocess
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from _common import data_folder, run_python, store

SETS = ("iris", "wine", "breast_cancer", "digits")
OPTIMIZERS = ("lbfgs", "amsgrad", "sgd")  # and "bbsgd", on iris: it returns NaN or not at all
K = 3
REPEATS = 3
TIMEOUT = 90
LIMIT = 4

PEER = """
import json, sys, time
import mlpack, numpy as np
with np.load(sys.argv[1]) as file:
    X, y = file["X"], file["y"].astype(np.uintp)
options = dict(k=int(sys.argv[3]), regularization=0.5, optimizer=sys.argv[2], seed=1)
mlpack.lmnn(input_=X[::5].copy(), labels=y[::5].copy(), k=1, optimizer="lbfgs", max_iterations=2)
begin = time.perf_counter()
L = mlpack.lmnn(input_=X, labels=y, **options)["output"]
print(json.dumps({"seconds": time.perf_counter() - begin, "L": L.tolist()}))
"""

LARGE = """
import json, resource, time, warnings
import numpy as np
from dualmetric import LMNN
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
y = np.arange(16_000) % 10
X = rng.standard_normal((16_000, 1_000), dtype=np.float32)
X[:, :10] = 3 * X[:, :10] + (3 * rng.standard_normal((10, 10)))[y]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
model = LMNN(pca_components=10, max_iter=5, random_state=0).fit(X, y)
print(json.dumps({
    "rows": 16_000, "features": 1_000, "components": 10, "iterations": model.n_iter_,
    "seconds": time.perf_counter() - begin,
    "objective": [model.history_[0], model.objective_],
    "peak_GB_before_fit": before / 1e6,
    "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
}))
"""


def error(L: np.ndarray, train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """3-NN error on held-out rows."""
    model = KNeighborsClassifier(K).fit(train[0] @ L, train[1])
    return float(1.0 - model.score(test[0] @ L, test[1]))


def peer(path: str, optimizer: str) -> dict[str, Any]:
    """One fit of mlpack, or what became of it."""
    command = [sys.executable, "-c", PEER, path, optimizer, str(K)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"failed": f"did not return within {TIMEOUT} s"}
    if done.returncode:
        return {"failed": f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def compare(name: str, standardised: bool, folder: str) -> dict[str, Any]:
    from dualmetric import LMNN
    from dualmetric.estimators.lmnn import _target_neighbors, lmnn_objective

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    if standardised:
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    mean, unit = X.mean(axis=0), np.sqrt(2 * X.var(axis=0, ddof=1).sum()) / 4
    X, X_test = (X - mean) / unit, (X_test - mean) / unit  # LMNN's own unit
    targets = _target_neighbors(X, y, K)

    def judge(L: np.ndarray) -> dict[str, float]:
        return {
            "objective": lmnn_objective(X, y, targets, L, 0.5)[0],
            "error": error(L, (X, y), (X_test, y_test)),
        }

    path = f"{folder}/{name}.npz"
    np.savez(path, X=X, y=y)
    rows: dict[str, Any] = {"Euclid": judge(np.eye(X.shape[1]))}
    LMNN(n_neighbors=K).fit(X[::5], y[::5])  # compiles or loads the loops
    ours, seconds, peers = None, [], {optimizer: [] for optimizer in OPTIMIZERS}
    if name == "iris":
        peers["bbsgd"] = []
    for _ in range(REPEATS):  # taking turns
        begin = perf_counter()
        ours = LMNN(n_neighbors=K).fit(X, y)
        seconds.append(perf_counter() - begin)
        for optimizer, runs in peers.items():
            if not runs or runs[-1].get("seconds", TIMEOUT) < 5:  # long ones once
                runs.append(peer(path, optimizer))
    rows["ours"] = {
        "seconds": float(np.median(seconds)),
        **judge(ours.metric_.factor),
        "iterations": ours.n_iter_,
    }
    for optimizer, runs in peers.items():
        if "failed" in runs[0]:
            rows[f"mlpack {optimizer}"] = runs[0]
            continue
        L = np.array(runs[0]["L"])
        if not np.isfinite(L).all():
            rows[f"mlpack {optimizer}"] = {"failed": "returned NaN or infinity"}
            continue
        row = {"seconds": float(np.median([run["seconds"] for run in runs])), **judge(L)}
        # iterations after which ours is below: the time of a fit that stops there
        steps = next((i for i, v in enumerate(ours.history_) if v <= row["objective"]), None)
        if steps is not None:
            begin = perf_counter()
            LMNN(n_neighbors=K, max_iter=max(steps, 1)).fit(X, y)
            row["ours_reaches_it_in"] = perf_counter() - begin
        rows[f"mlpack {optimizer}"] = row
    return {"k": K, "push": 0.5, "rows": len(X), "features": X.shape[1], "fits": rows}


def plain_objective(
    X: np.ndarray, different: np.ndarray, targets: np.ndarray, L: np.ndarray, push: float
) -> tuple[float, np.ndarray]:
    """LMNN's objective and gradient by dense n × n matrices, for rows that all have k targets."""
    Y = X @ L
    norms = np.square(Y).sum(axis=1)
    D = norms[:, None] + norms - 2.0 * Y @ Y.T
    value = 0.0
    weights = np.zeros_like(D)
    every = np.arange(len(X))
    for mates in targets.T:
        near = np.square(Y - Y[mates]).sum(axis=1)
        slack = 1.0 + near[:, None] - D
        active = different & (slack > 0.0)
        value += (1.0 - push) * near.sum() + push * slack[active].sum()
        weights -= push * active
        weights[every, mates] += (1.0 - push) + push * active.sum(axis=1)
    degree = weights.sum(axis=0) + weights.sum(axis=1)
    return float(value), 2.0 * X.T @ (degree[:, None] * Y - weights @ Y - weights.T @ Y)


def factor(max_iter: int) -> None:
    """Learn the factor of tdt30 both ways."""
    from scipy.optimize import minimize

    from dualmetric import LMNN, mean_average_precision
    from dualmetric._arrays import ops
    from dualmetric._arrays.system import n_threads
    from dualmetric.datasets import load_dataset
    from dualmetric.estimators.lmnn import _target_neighbors

    data_folder()  # refuses where there is none
    data = load_dataset("tdt30")
    X, labels = data.X_train, np.unique(data.y_train, return_inverse=True)[1]
    LMNN(10, tol=0.1).fit(X[::10], labels[::10])  # compiles or loads the loops
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = perf_counter()
    ours = LMNN(10, n_neighbors=K, max_iter=max_iter, random_state=0).fit(X, labels)
    seconds = perf_counter() - begin
    found = {
        "rows": len(X),
        "features": X.shape[1],
        "rank": 10,
        "max_iter": max_iter,
        "tol": ours.tol,
        "threads": n_threads(),
        "ours": {
            "seconds": seconds,
            "iterations": ours.n_iter_,
            "objective": ours.objective_,
            "test_map": 100 * mean_average_precision(ours.transform(data.X_test), data.y_test),
            "peak_GB_before_fit": before / 1e6,
            "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        },
    }
    print(found, flush=True)

    begin = perf_counter()
    seed = np.random.RandomState(0).randint(2**31 - 1)  # that of random_state=0
    start = ops.principal_components(X, 10, seed).astype(np.float64)
    X = X - X.mean(axis=0, dtype=np.float64)
    X /= np.sqrt(2 * (X @ start).var(axis=0, ddof=1).sum()) / 4  # LMNN's own unit
    targets = _target_neighbors(X, labels, K)
    different = labels[:, None] != labels
    history: list[float] = []

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = plain_objective(X, different, targets, flat.reshape(start.shape), 0.5)
        history.append(value)
        return value, gradient.ravel()

    def watch(intermediate_result: Any) -> None:
        if perf_counter() - begin > LIMIT * seconds:
            raise StopIteration

    least = minimize(
        evaluate,
        start.ravel(),
        method="L-BFGS-B",
        jac=True,
        callback=watch,
        options={"maxiter": max_iter, "ftol": ours.tol, "gtol": 0.0},
    )
    taken = perf_counter() - begin
    found["plain"] = {
        "seconds": taken,
        "iterations": int(least.nit),
        "objective": float(least.fun),
        "ended_early": taken > LIMIT * seconds,
        "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }
    found["objective_at_start"] = [ours.history_[0], history[0]]
    found["times_faster"] = taken / seconds
    print(found)
    store("lmnn", "factor", found)


def main() -> None:
    import tempfile

    warnings.simplefilter("ignore", ConvergenceWarning)
    try:
        mlpack = version("mlpack")
    except PackageNotFoundError:
        sys.exit("pip install mlpack")
    large = json.loads(run_python(LARGE))
    print("large:", large)
    store("lmnn", "large", large, mlpack=mlpack)
    with tempfile.TemporaryDirectory() as folder:
        for name in SETS:
            for standardised in (False, True):
                key = name + (", standardised" if standardised else "")
                found = compare(name, standardised, folder)
                store("lmnn", key, found, mlpack=mlpack)
                print(key, f"({found['rows']} × {found['features']})")
                for fit, row in found["fits"].items():
                    print(
                        f"  {fit:16}",
                        {k: v if k == "failed" else round(v, 4) for k, v in row.items()},
                    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["factor"]:
        factor(int(sys.argv[2]) if len(sys.argv) > 2 else 500)
    else:
        main()
