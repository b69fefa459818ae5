"""Rows in partitions: learn from some, then transform and score all of them where they are.

The rows are synthetic vectors of 100 classes, drawn when they are read. In practice they would come
from ``dask.array.from_zarr``, or from a Dask DataFrame of Parquet files with
``fit(frame, "label")``. The cluster is a local one; ``Client("tcp://scheduler:8786")`` connects to
another.
"""

import dask.array as da
import numpy as np
from distributed import Client

from dualmetric import DuRP, Euclidean, knn_accuracy

N_ROWS, N_CLASSES, N_FEATURES, HEIGHT = 10_000, 100, 128, 500


def made_block(block_info=None):
    """Noise, and a centre for each class that shifts 16 of the numbers."""
    (start, stop), _ = block_info[None]["array-location"]
    rng = np.random.default_rng(start)
    rows = rng.standard_normal((stop - start, N_FEATURES), dtype=np.float32)
    centres = np.random.default_rng(1).standard_normal((N_CLASSES, 16), dtype=np.float32)
    rows[:, :16] += 1.5 * centres[np.arange(start, stop) % N_CLASSES]
    return rows


def main():
    """Learn, transform and score on the current cluster."""
    chunks = ((HEIGHT,) * (N_ROWS // HEIGHT), (N_FEATURES,))
    X = da.map_blocks(made_block, chunks=chunks, dtype=np.float32)
    y = np.arange(N_ROWS) % N_CLASSES
    print(f"{X.shape[0]:,} × {X.shape[1]} in {X.npartitions} partitions")
    print(DuRP().estimate(X))

    model = DuRP(n_components=16, shrinkage=0.5, random_state=0).fit(X, y)
    vectors = model.transform(X)  # nothing is computed yet: vectors.to_zarr(...) would do it
    print(f"transformed to {vectors.shape[1]} numbers, still in {vectors.npartitions} partitions")
    for name, rows in (("plain", Euclidean().fit(X).transform(X)), ("learned", vectors)):
        vote = knn_accuracy(rows[HEIGHT:], y[HEIGHT:], rows[:HEIGHT], y[:HEIGHT])
        print(f"{name}: 5-NN {vote:.3f}")
    print(f"mAP of 1,000 queries among all rows: {model.score(X, y):.3f}")


if __name__ == "__main__":
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        main()
