"""Gene expression: a hundred rows, thousands of features.

The data are the su set (102 tissue samples, 5,565 genes) if it is in DUALMETRIC_DATA. Otherwise
they are synthetic samples of four tissues: 40 of 5,000 genes differ between tissues, and a batch
effect shifts 2,000 genes.
"""

import time

import numpy as np
from sklearn.model_selection import train_test_split

from dualmetric import DuRP
from dualmetric.datasets import Dataset, available, load_dataset
from dualmetric.side_by_side import compare


def made_samples():
    """100 samples of four tissues, measured in five batches."""
    rng = np.random.default_rng(0)
    tissue, batch = np.arange(100) % 4, np.arange(100) // 4 % 5
    samples = rng.standard_normal((100, 5000))
    samples[:, :40] += 2.5 * rng.standard_normal((4, 40))[tissue]
    samples[:, 3000:] += 0.7 * rng.standard_normal((5, 2000))[batch]
    parts = train_test_split(
        samples.astype(np.float32), tissue, test_size=0.3, stratify=tissue, random_state=0
    )
    return Dataset("synthetic samples", parts[0], parts[2], parts[1], parts[3])


data = load_dataset("su") if available("su") else made_samples()
print(f"{data.name}: {len(data.X_train)} samples to learn from, {data.X_train.shape[1]:,} genes")

settings = {"n_projections": 50, "n_triplets": 5000, "distance": "cosine", "random_state": 0}
DuRP(**settings).fit(data.X_train, data.y_train)  # compiles, once per machine
begin = time.perf_counter()
model = DuRP(**settings).fit(data.X_train, data.y_train)
seconds = time.perf_counter() - begin
print(f"rank {model.metric_.rank}, learned in {seconds:.2f} s: {model.estimate(data.X_train)}")

scored = compare(model.metric_, data.X_test, data.y_test, data.X_train, data.y_train)
for distance, scores in scored.items():
    print(f"{distance:>9}: mAP {scores.map:.3f}, 5-NN {scores.knn:.3f}")

genes = [f"gene {number}" for number in range(data.X_train.shape[1])]
print("genes of the leading directions:")
for direction in range(2):
    print("  ", ", ".join(gene for gene, _ in model.metric_.top_features(direction, genes, top=6)))
