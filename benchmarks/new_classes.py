"""Classes that were not learned from: one setting with a prior, for all sets.

    python benchmarks/new_classes.py [SET …]

A metric is learned from one random half of the classes and ranks the test rows of the other half.
The table shows the mean mAP over five such halves. `Whitening` and a prior are used with their
default strength (shrinkage 0.9); nothing is chosen on any set. Stored in results/new_classes.jsonl.
"""

import warnings

import numpy as np

from _common import load_split, run_parts
from dualmetric import DuRP, Euclidean, Whitening, mean_average_precision

SETS = ("usps", "isolet1", "20news_use512", "fashion_mnist_13k", "caltech101_top30_bovw")
SEEDS = range(5)


def estimators(seed: int) -> dict:
    shared = {"distance": "cosine", "random_state": seed}
    return {
        "plain cosine": Euclidean("cosine"),
        "Whitening": Whitening(random_state=seed),
        "DuRP, no prior": DuRP(**shared),
        "DuRP, identity prior": DuRP(prior="identity", **shared),
        "DuRP, whitening prior": DuRP(prior="whitening", shrinkage=0.9, **shared),
    }


def one_set(name: str) -> dict[str, list[float]]:
    X_train, y_train, X_test, y_test = load_split(name)
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        classes = np.random.default_rng(seed).permutation(np.unique(y_train))
        learned, ranked = np.array_split(classes, 2)
        train, test = np.isin(y_train, learned), np.isin(y_test, ranked)
        for label, model in estimators(seed).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # few active triplets
                model.fit(X_train[train], y_train[train])
            score = mean_average_precision(model.transform(X_test[test]), y_test[test])
            found.setdefault(label, []).append(round(100 * score, 2))
    print("  ".join(f"{label} {np.mean(scores):.1f}" for label, scores in found.items()))
    return found


def part(name: str):
    def run() -> dict[str, list[float]]:
        return one_set(name)

    run.__doc__ = "mAP on test rows of classes that were not learned from"
    return run


if __name__ == "__main__":
    run_parts("new_classes", {name: part(name) for name in SETS})
