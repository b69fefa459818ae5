"""The sets in the folder that DUALMETRIC_DATA names; usps is downloaded where that is unset."""

import os
from pathlib import Path

from benchmarks._common import load_split

from ._data import Data

NAMES = (
    "usps",
    "isolet1",
    "20news_use512",
    "caltech101_top30_bovw",
    "fashion_mnist_13k",
    "protein_val",
    "golub",
    "su",
    "rcv1_7class",
    "tdt30",
    "20news_bydate",
    "20news_libsvm",
)


def load(name: str) -> Data:
    """Text is weighted by tf-idf; sets without a split of their own are split 70 to 30."""
    folder = os.environ.get("DUALMETRIC_DATA")
    if folder and (Path(folder) / f"{name}.npz").exists():
        return Data(name, *load_split(name))
    if name != "usps":
        raise FileNotFoundError(f"DUALMETRIC_DATA must name a folder with {name}.npz")
    from dualmetric.datasets import load_dataset

    found = load_dataset(name)
    return Data(name, found.X_train, found.y_train, found.X_test, found.y_test)
