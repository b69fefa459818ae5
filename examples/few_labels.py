"""Few labels: ten rows per class have a label, and the others have none.

The data are usps (16 × 16 pixels) if it is in DUALMETRIC_DATA, otherwise scikit-learn's digits.
"""

import numpy as np

from dualmetric import DuRP, Euclidean, Labels, MetricCV, RidgeMetric
from dualmetric.datasets import available, load_dataset

data = load_dataset("usps" if available("usps") else "digits")
rng = np.random.default_rng(0)
labels = np.full(len(data.y_train), -1)
for name in np.unique(data.y_train):
    chosen = rng.choice(np.flatnonzero(data.y_train == name), 10, replace=False)
    labels[chosen] = name
print(f"{data.name}: {np.count_nonzero(labels >= 0)} of {len(labels):,} rows have a label")

y = Labels(labels, unknown=-1)
methods = {
    "plain cosine": Euclidean("cosine"),
    "DuRP, no prior": DuRP(n_triplets=10_000, distance="cosine", random_state=0),
    "DuRP, prior": DuRP(
        prior="identity",
        n_projections=50,
        n_triplets=10_000,  # there are few to be found
        distance="cosine",
        random_state=0,
    ),
    "ridge": RidgeMetric(random_state=0),
    "MetricCV": MetricCV(n_triplets=10_000, random_state=0),
}
for name, method in methods.items():
    method.fit(data.X_train, y)
    print(f"{name:>14}: mAP {method.score(data.X_test, data.y_test):.3f}")
print(methods["MetricCV"].recommend())
