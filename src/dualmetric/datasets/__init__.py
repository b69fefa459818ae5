"""Data sets for experiments: the paper's, stand-ins for those that are hard to get, and extras.

A set is read from the data folder, or downloaded from its public source, split into training and
test rows, and processed as the paper says. :func:`load_dataset` does all of it.
"""

import operator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import products
from .._types import Array, Rows
from . import _cache, _reading, _sources, _text
from ._catalog import CATALOG, DATA_VARIABLE, Entry
from ._splits import split_rows

__all__ = ["DATA_VARIABLE", "NAMES", "Dataset", "available", "dataset_names", "load_dataset"]

NAMES = tuple(CATALOG)


class Dataset(NamedTuple):
    """Training and test rows with their labels.

    Attributes
    ----------
    name : str
        The name it was loaded by.
    X_train, X_test : arrays of shape (n_rows, n_features)
        The rows, dense.
    y_train, y_test : arrays of shape (n_rows,)
        Their classes, counted from 0.
    note : str
        What it is, in one line.
    stand_in_for : str or None
        The paper's set that this one takes the place of, where that one cannot be had.
    """

    name: str
    X_train: Rows
    y_train: Array
    X_test: Rows
    y_test: Array
    note: str = ""
    stand_in_for: str | None = None


def dataset_names() -> tuple[str, ...]:
    """Names that :func:`load_dataset` knows: the paper's six sets first."""
    return NAMES


def available(name: str) -> bool:
    """Whether a data set can be loaded without a download."""
    entry = _entry(name)
    return name == "digits" or _sources.files_are_here(name, entry)


def load_dataset(name: str, *, seed: int = 0, dtype: npt.DTypeLike = np.float32) -> Dataset:
    """Load a data set by name, split and processed as in the paper (section 4.1).

    Its file is looked for in the folder that the environment variable ``DUALMETRIC_DATA`` names
    and in the user's cache folder (``DUALMETRIC_CACHE`` names another), and is downloaded to the
    cache folder where it has a public source: that needs ``pip install 'dualmetric[data]'``. Text
    is reduced to its 1,000 principal components once and kept in the cache folder.

    Parameters
    ----------
    name : str
        One of :func:`dataset_names`. "usps", "protein", "caltech30", "tdt30", "20news" and
        "rcv30" are the paper's; "digits" comes with scikit-learn and needs no file.
    seed : int, default=0
        Seed of the split, where the set has none of its own, and of the principal components'
        random start.
    dtype : {numpy.float32, numpy.float64}, default=numpy.float32
        Precision of the rows.

    Returns
    -------
    Dataset
        ``note`` says what it is; ``stand_in_for`` names the paper's set that it stands in for.

    Raises
    ------
    ValueError
        Where the name is unknown, or a file is damaged or not what it should be.
    FileNotFoundError
        Where a file is not there and could not be downloaded.
    """
    entry = _entry(name)
    seed = operator.index(seed)
    if seed < 0:
        raise ValueError(f"seed is {seed}: it must be 0 or more")
    precision = np.dtype(dtype)
    if precision not in (np.float32, np.float64):
        raise ValueError(f"dtype is {precision}: it must be float32 or float64")
    parts = _digits(seed) if name == "digits" else _from_files(name, entry, seed, precision)
    X_train, y_train, X_test, y_test = parts
    return Dataset(
        name,
        products.to_dense(X_train).astype(precision, copy=False),
        y_train,
        products.to_dense(X_test).astype(precision, copy=False),
        y_test,
        entry.note,
        entry.stand_in_for,
    )


def _entry(name: str) -> Entry:
    if name not in CATALOG:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(NAMES)}")
    return CATALOG[name]


def _digits(seed: int) -> _cache.Parts:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, random_state=seed, stratify=y
    )
    return X[train], y[train], X[test], y[test]


def _from_files(name: str, entry: Entry, seed: int, dtype: np.dtype) -> _cache.Parts:
    paths = _sources.find_files(name, entry)
    key = _cache.file_name(name, seed, dtype, paths)
    if entry.text and (kept := _cache.read(key)) is not None:
        return kept
    rows = _reading.read_rows(paths, entry)
    train, test = split_rows(rows, entry.split, seed, paths[0])
    X_train, X_test = rows.X[train], rows.X[test]
    if entry.text:
        X_train, X_test = _text.reduce(X_train, X_test, entry.weighting, seed, dtype)
    parts = X_train, rows.y[train], X_test, rows.y[test]
    if entry.text:
        _cache.write(key, parts)
    return parts
