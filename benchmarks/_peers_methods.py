"""Methods that peers.py compares: each learns from rows and labels, and returns a map of rows."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import dualmetric as dm
from _common import interpreter
from chooser import lda, lifted_ridge, ridge, unit

WIDE = 300  # features; methods that cannot take more, or sparse rows, get 100 components

Map = Callable[[Any], Any]


def reduced(X: Any, seed: int, above: float = WIDE, width: int = 100) -> tuple[Any, Map]:
    """Principal components of wide rows, singular vectors of sparse ones, and the map to them."""
    from sklearn.decomposition import PCA, TruncatedSVD

    if not sp.issparse(X) and X.shape[1] <= above:
        return X, lambda rows: rows
    kind = TruncatedSVD if sp.issparse(X) else PCA
    model = kind(min(width, min(X.shape) - 1), random_state=seed)
    return model.fit_transform(X), model.transform


def on_components(
    learn: Callable[..., Map], X: Any, y: np.ndarray, seed: int, above: float = 1_000
) -> Map:
    """A method of chooser.py, on 500 components if rows are sparse or have more features."""
    rows, reduce = reduced(X, seed, above, width=500)
    outputs = learn(rows, y)
    return lambda rows: outputs(reduce(rows))


def nca(X: Any, y: np.ndarray, seed: int) -> Map:
    """scikit-learn's, on rows in units of their spread: far apart, it stops where it starts."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    rows, reduce = reduced(X, seed)
    spread = np.sqrt(rows.var(axis=0).sum())
    model = NeighborhoodComponentsAnalysis(random_state=seed).fit(rows / spread, y)
    return lambda rows: model.transform(reduce(rows) / spread)


def held_out_part(y: np.ndarray, seed: int, classes: bool) -> np.ndarray:
    """Rows to validate on: a quarter of each class, or of the classes (at least two)."""
    rng = np.random.default_rng(seed)
    if classes:
        known = rng.permutation(np.unique(y))
        return np.isin(y, known[: max(2, len(known) // 4)])
    held = np.zeros(len(y), bool)
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        held[members[: max(1, len(members) // 4)]] = True
    return held


def svm(X: Any, y: np.ndarray, seed: int) -> Map:
    """Decision values of a kernel SVM per class; C and gamma by accuracy on held-out rows."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    rows, reduce = reduced(X, seed, above=1_000)
    held = held_out_part(y, seed, classes=False)

    def model(C: float, gamma: float) -> Any:
        return OneVsRestClassifier(SVC(C=C, gamma=gamma / (rows.shape[1] * rows.var())))

    grid = [(C, gamma) for C in (1, 10, 100) for gamma in (0.3, 1, 3)]
    scores = [model(*one).fit(rows[~held], y[~held]).score(rows[held], y[held]) for one in grid]
    chosen = model(*grid[int(np.argmax(scores))]).fit(rows, y)
    return lambda rows: chosen.decision_function(reduce(rows))


def adapter_epochs(Z: np.ndarray, y: np.ndarray, rate: float, seed: int) -> Iterator[np.ndarray]:
    """Matrix of a linear adapter after each epoch: each row finds one of its class in the batch."""
    import torch
    from torch.nn.functional import cross_entropy, normalize

    rng = np.random.default_rng(seed)
    codes = np.unique(y, return_inverse=True)[1]
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rows = torch.from_numpy(np.ascontiguousarray(Z, dtype=np.float32))
    W = torch.nn.Parameter(torch.eye(Z.shape[1]))
    optimizer = torch.optim.Adam([W], lr=rate)
    while True:
        for batch in np.array_split(rng.permutation(len(y)), max(1, len(y) // 256)):
            own = codes[batch]
            partners = order[starts[own] + rng.integers(sizes[own])]
            values = 20 * normalize(rows[batch] @ W, dim=1) @ normalize(rows[partners] @ W, dim=1).T
            same = own[:, None] == own
            np.fill_diagonal(same, False)
            values = values.masked_fill(torch.from_numpy(same), -torch.inf)
            loss = cross_entropy(values, torch.arange(len(batch)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield W.detach().numpy().copy()


def adapter(X: Any, y: np.ndarray, seed: int, classes: bool = False) -> Map:
    """A linear adapter by torch; rate and epochs by mAP on held-out rows (or classes)."""
    import torch

    torch.set_num_threads(1)
    rows, reduce = reduced(X, seed, above=1_000, width=300)
    centre = rows.mean(axis=0)
    spread = np.sqrt(rows.var(axis=0).sum())
    Z = (rows - centre) / spread
    held = held_out_part(y, seed, classes)
    tried = []
    for rate in (1e-3, 1e-2):
        for epoch, W in enumerate(adapter_epochs(Z[~held], y[~held], rate, seed), start=1):
            if epoch in (1, 3, 10, 20, 30):
                score = dm.mean_average_precision(unit(Z[held] @ W), y[held])
                tried.append((score, rate, epoch))
            if epoch == 30:
                break
    _, rate, epochs = max(tried)
    for _, W in zip(range(epochs), adapter_epochs(Z, y, rate, seed), strict=False):
        found = W / spread
    return lambda rows: (reduce(rows) - centre) @ found


def outside(method: str, X: Any, y: np.ndarray, seed: int) -> Map:
    """A method of metric-learn or mlpack, in the environment of its package."""
    package = method.partition("(")[2].rstrip(")")
    python = interpreter(package)
    if python is None:
        raise ModuleNotFoundError(f"{package} is not installed: python benchmarks/peers.py install")
    rows, reduce = reduced(X, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.npz"
        np.savez(path, X=rows, y=np.unique(y, return_inverse=True)[1])
        script = Path(__file__).with_name("_peers_outside.py")
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        done = subprocess.run(
            [python, script, path, method, str(seed)],
            env=os.environ | one,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == -signal.SIGXCPU:
            raise TimeoutError
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RuntimeError(said[-1])
        found = np.load(f"{path}.map.npy", allow_pickle=False)
    mapped: Any = partial(lambda rows: reduce(rows) @ found)
    mapped.spent = json.loads(done.stdout.splitlines()[-1])  # in addition to that of this process
    return mapped


# all methods


def ours(kind: str, X: Any, y: np.ndarray, seed: int, **settings: Any) -> Map:
    """An estimator of this library."""
    return getattr(dm, kind)(random_state=seed, **settings).fit(X, y).transform


def whitened(X: Any, y: np.ndarray, seed: int, **more: Any) -> Map:
    """DuRP on whitened rows; text is whitened less, since a word is in few rows of a class."""
    settings: dict[str, Any] = {"shrinkage": 0.1, "n_projections": 50}
    if sp.issparse(X):
        settings = {"shrinkage": 0.84, "distance": "cosine", "n_components": 50}
    return ours("DuRP", X, y, seed, **(settings | more))


def lmnn(X: Any, y: np.ndarray, seed: int) -> Map:
    """LMNN of this library, on 100 components where rows are sparse or wide."""
    wide = sp.issparse(X) or X.shape[1] > WIDE
    return ours("LMNN", X, y, seed, pca_components=100 if wide else None)


PEERS: dict[str, Callable[..., Map]] = {
    "ridge": lambda X, y, seed: ridge(X, y),
    **{f"LDA {s}": partial(on_components, partial(lda, shrinkage=s)) for s in ("auto", 0.1, 0.5)},
    "NCA": nca,
    "torch adapter": adapter,
    **{
        name: partial(outside, name)
        for name in (
            "ITML (metric-learn)",
            "LMNN (metric-learn)",
            "SCML (metric-learn)",
            "LMNN (mlpack)",
        )
    },
}
KERNEL: dict[str, Callable[..., Map]] = {
    "ridge on kernel features": partial(on_components, lifted_ridge, above=np.inf),
    "kernel SVM": svm,
}
OURS: dict[str, Callable[..., Map]] = {
    "DuRP": partial(ours, "DuRP"),
    "DuRP, whitened": whitened,
    "LMNN": lmnn,
    **{kind: partial(ours, kind) for kind in ("DuOri", "OASIS", "SRP", "SPCA", "RidgeMetric")},
    "Whitening": partial(ours, "Whitening"),
    "MetricCV map": partial(ours, "MetricCV", scoring="map"),
    "MetricCV knn": partial(ours, "MetricCV", scoring="knn"),
}
UNSEEN: dict[str, Callable[..., Map]] = {
    "plain cosine": lambda X, y, seed: dm.Euclidean("cosine").fit(X).transform,
    **{name: PEERS[name] for name in ("ridge", "LDA auto", "LDA 0.1", "LDA 0.5", "NCA")},
    "torch adapter": partial(adapter, classes=True),
    "ridge on kernel features": KERNEL["ridge on kernel features"],
    "Whitening": partial(ours, "Whitening"),
    "DuRP, no prior": partial(ours, "DuRP", distance="cosine"),
    "DuRP, identity prior": partial(ours, "DuRP", distance="cosine", prior="identity"),
    "DuRP, whitening prior": partial(
        ours, "DuRP", distance="cosine", prior="whitening", shrinkage=0.9
    ),
}
METHODS = PEERS | KERNEL | OURS
TUNED = ("ridge", "LDA auto", "LDA 0.1", "LDA 0.5", "ridge on kernel features")
"""Peers that run on all splits, however long they take, as MetricCV does."""
