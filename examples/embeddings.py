"""Embeddings: learn on some classes, search among others that were never seen.

The data are 20 Newsgroups through a frozen sentence encoder (512 numbers per message) if they are
in DUALMETRIC_DATA. Otherwise they are synthetic vectors, in which classes differ in 16 of 256
directions only, the same for all classes: the case in which a metric helps with new ones.
"""

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dualmetric import DuRP, Euclidean, mean_average_precision
from dualmetric.datasets import Dataset, available, load_dataset


def made_vectors():
    """4,000 vectors of 40 classes: noise, and a centre that moves 16 numbers."""
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 40
    vectors = 0.8 * rng.standard_normal((4000, 256), dtype=np.float32)
    vectors[:, :16] += rng.standard_normal((40, 16))[y]
    return Dataset("synthetic vectors", vectors[:2000], y[:2000], vectors[2000:], y[2000:])


data = load_dataset("20news_use512") if available("20news_use512") else made_vectors()
n_classes = len(np.unique(data.y_train))
print(f"{data.name}: learned on {n_classes // 2} of {n_classes} classes; mAP on")

known = data.y_train % 2 == 0
X, y = data.X_train[known], data.y_train[known]
ridge = RidgeClassifier().fit(X, y)
methods = {
    "plain cosine": Euclidean(distance="cosine").fit(X),
    "ridge's outputs": make_pipeline(
        FunctionTransformer(ridge.decision_function), Euclidean(distance="cosine")
    ).fit(X),
    "DuRP": DuRP(n_projections=50, distance="cosine", random_state=0).fit(X, y),
    "DuRP, whitened": DuRP(n_projections=50, shrinkage=0.5, distance="cosine", random_state=0).fit(
        X, y
    ),
}
old = data.y_test % 2 == 0
print(f"{'':>15}  those classes  the others")
for name, method in methods.items():
    vectors = method.transform(data.X_test)
    seen, unseen = (
        mean_average_precision(vectors[rows], data.y_test[rows]) for rows in (old, ~old)
    )
    print(f"{name:>15}: {seen:13.3f} {unseen:11.3f}")
