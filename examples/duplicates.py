"""Duplicates: learn from pairs of records which of them are the same thing.

The data are product records of two shops (abt_buy) through a frozen sentence encoder if they are in
DUALMETRIC_DATA. Otherwise they are scikit-learn's digits, where a pair is the same if it shows the
same digit.
"""

import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, precision_recall_curve
from sklearn.preprocessing import normalize

from dualmetric import Euclidean, MetricCV, Pairs, pair_average_precision, verification


def digit_pairs():
    """Pairs of 1,200 images to learn from and to find a threshold; pairs of others to test."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    parts = {}
    for part, low, high in (("train", 0, 1200), ("valid", 0, 1200), ("test", 1200, 1797)):
        index = rng.integers(low, high, size=(3000, 2))
        index = index[index[:, 0] != index[:, 1]]
        parts[part] = index, y[index[:, 0]] == y[index[:, 1]]
    return X, parts


def records(file):
    """Records of products, and the official pairs."""
    data = np.load(file)
    pairs = {part: (data[f"{part}_pairs"], data[f"{part}_same"] > 0) for part in PARTS}
    return normalize(data["X"].astype(np.float32)), pairs


PARTS = ("train", "valid", "test")
file = Path(os.environ.get("DUALMETRIC_DATA", "")) / "abt_buy_minilm.npz"
X, pairs = records(file) if file.exists() else digit_pairs()
train, valid, test = (Pairs(*pairs[part]) for part in PARTS)
name = "abt_buy" if file.exists() else "digits"
print(f"{name}: {len(X):,} records, {len(train):,} pairs to learn from, {len(test):,} to test")

# some records are listed twice, so that a few pairs are given as both: they are left out
warnings.filterwarnings("ignore", ".*both as the same and as different")
search = MetricCV(random_state=0).fit(X, train)
print(search.recommend())

for method, model in (("plain", Euclidean("cosine").fit(X)), ("learned", search)):
    vectors = model.transform(X)
    found = verification(vectors, test, far=0.05)
    # the threshold is the distance with the best F1 on pairs that were not learned from
    distance = {part: model.pair_distance(*X[pairs[part][0].T]) for part in PARTS}
    precision, recall, thresholds = precision_recall_curve(pairs["valid"][1], -distance["valid"])
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    threshold = -thresholds[np.argmax(f1[:-1])]
    score = f1_score(pairs["test"][1], distance["test"] <= threshold)
    print(
        f"{method:>7}: {pair_average_precision(vectors, test):.3f} average precision, "
        f"TAR {found.tar[0]:.3f} at FAR 5 %, F1 {score:.3f} (threshold {threshold:.2f})"
    )
