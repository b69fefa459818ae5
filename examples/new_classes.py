"""Classes you have not seen: choose the settings for them, by holding out whole classes.

The data are customer questions of 77 intents (banking77) through a frozen sentence encoder if they
are in DUALMETRIC_DATA, otherwise scikit-learn's digits. The classes to learn from and the classes
to test on are different ones.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from dualmetric import Euclidean, MetricCV, hit_rate, map_at_r


def questions(file):
    """Questions and their intents, and the official split of the intents."""
    data = np.load(file)
    return (
        normalize(data["X"].astype(np.float32)),
        data["y"],
        data["train_rows"],
        data["test_rows"],
    )


def digits():
    """Even digits to learn from, odd ones to test."""
    X, y = load_digits(return_X_y=True)
    return X, y, np.flatnonzero(y % 2 == 0), np.flatnonzero(y % 2)


file = Path(os.environ.get("DUALMETRIC_DATA", "")) / "banking77_minilm.npz"
X, y, train, test = questions(file) if file.exists() else digits()
name = "banking77" if file.exists() else "digits"
n_known, n_new = (len(np.unique(y[rows])) for rows in (train, test))
print(f"{name}: learned on {n_known} classes, tested on {n_new} others")

methods = {
    "plain cosine": Euclidean("cosine"),
    "MetricCV()": MetricCV(lifts=(None,), n_triplets=10_000, random_state=0),
    'MetricCV(cv="classes")': MetricCV(cv="classes", n_triplets=10_000, random_state=0),
}
for method, model in methods.items():
    vectors = model.fit(X[train], y[train]).transform(X[test])
    nearest, ranked = hit_rate(vectors, y[test], k=1), map_at_r(vectors, y[test])
    print(f"{method:>22}: {nearest:.3f} hit rate at 1, MAP@R {ranked:.3f}")
print(methods['MetricCV(cv="classes")'].recommend())
