"""Data sets for the demo and the benchmarks, split into training and test rows."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ._types import Array, Rows

DATA_VARIABLE = "DUALMETRIC_DATA"
_FILES = {"usps": "usps.npz"}
NAMES = ("digits", *_FILES)


class Dataset(NamedTuple):
    """Training and test rows with their labels."""

    name: str
    X_train: Rows
    y_train: Array
    X_test: Rows
    y_test: Array


def load_dataset(name: str) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : {"digits", "usps"}
        "digits" comes with scikit-learn: 1,797 images of 8 × 8, of which a third, chosen at random
        but always the same, are test rows. "usps" is read from ``usps.npz`` in the folder that the
        environment variable ``DUALMETRIC_DATA`` names, with its own split.
    """
    if name not in NAMES:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(NAMES)}")
    if name == "digits":
        return _digits()
    return _from_file(name, _data_file(_FILES[name]))


def _digits() -> Dataset:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X.astype(np.float32), y, test_size=1 / 3, random_state=0, stratify=y)
    X_train, X_test, y_train, y_test = parts
    return Dataset("digits", X_train, y_train, X_test, y_test)


def _data_file(file_name: str) -> Path:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"{file_name} is needed: set {DATA_VARIABLE} to the folder that holds it"
        )
    path = Path(folder) / file_name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: put {file_name} into {folder}")
    return path


def _from_file(name: str, path: Path) -> Dataset:
    try:
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"].astype(np.float32), file["y"]
            train, test = file["train_idx"], file["test_idx"]
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise ValueError(
            f"{path} is not a data file as expected, or is damaged ({error}): get it again"
        ) from None
    return Dataset(name, X[train], y[train], X[test], y[test])
