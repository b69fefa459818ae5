"""Which scale ranks best: mAP of DuRP over the root mean square distance after scaling.

    DUALMETRIC_DATA=... python benchmarks/scale.py

The default of ``scale=True`` is chosen from this table.
"""

import warnings
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from _common import load_split, results, store
from dualmetric import DuRP, Euclidean, learn, problem

SMALL = ("iris", "wine")
SETS = (
    *SMALL,
    "usps",
    "fashion_mnist_13k",
    "caltech101_top30_bovw",
    "20news_use512",
    "isolet1",
    "protein_val",
    "rcv1_7class",
    "tdt30",
    "20news_bydate",
    "su",
    "golub",
)
SCALES = (0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
SEEDS = range(2)
MAX_QUERIES = 2500


def small_set(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """A small set of scikit-learn, with standardised columns."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    return X, y, X_test, y_test


def main() -> None:
    warnings.filterwarnings("ignore", message=".*active triplets were found")
    for name in SETS:
        X, y, X_test, y_test = small_set(name) if name in SMALL else load_split(name)
        X_test, y_test = X_test[:MAX_QUERIES], y_test[:MAX_QUERIES]
        rank = 50 if X.shape[1] > 3000 else None
        scores: dict[str, list[float]] = {
            "Euclid": [Euclidean().fit(X).score(X_test, y_test)],
            "unscaled": [
                DuRP(n_components=rank, scale=False, random_state=seed)
                .fit(X, y)
                .score(X_test, y_test)
                for seed in SEEDS
            ],
        }
        for scale in SCALES:
            unit = partial(problem.length_unit, scale=scale)
            with mock.patch.object(learn, "length_unit", unit):
                scores[f"{scale:g}"] = [
                    DuRP(n_components=rank, random_state=seed).fit(X, y).score(X_test, y_test)
                    for seed in SEEDS
                ]
        store("scale", name, scores)
        print(name, {key: round(100 * float(np.mean(v)), 1) for key, v in scores.items()})
    for scale in SCALES:
        mean = np.mean([np.mean(results("scale", name)[f"{scale:g}"]) for name in SETS])
        print(f"scale {scale:g}: mean mAP {100 * mean:.2f}")


if __name__ == "__main__":
    main()
