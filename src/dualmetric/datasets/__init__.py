"""Data sets for experiments: the paper's, stand-ins for those that are hard to get, and extras.

:func:`load_dataset` reads a set from the data folder or downloads it from its public source, splits
it into training and test rows, and processes it as the paper does. It also reads ``.npz`` files of
your own.
"""

import operator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._arrays import ops
from .._types import Array, Matrix
from . import _reading, _sources, _text
from ._catalog import CATALOG, DATA_VARIABLE, Entry

__all__ = ["DATA_VARIABLE", "NAMES", "Dataset", "available", "dataset_names", "load_dataset"]

NAMES = tuple(CATALOG)


class Dataset(NamedTuple):
    """Training and test rows with their labels.

    Attributes
    ----------
    name : str
        The name it was loaded by.
    X_train, X_test : arrays of shape (n_rows, n_features)
        The rows: a CSR matrix for text that is not reduced, otherwise a dense array.
    y_train, y_test : arrays of shape (n_rows,)
        Their classes, counted from 0.
    note : str
        A description in one line.
    stand_in_for : str or None
        The set of the paper that this one replaces, because that one is hard to get.
    text : bool
        Whether rows are word counts of documents, or were reduced from them.
    """

    name: str
    X_train: Matrix
    y_train: Array
    X_test: Matrix
    y_test: Array
    note: str = ""
    stand_in_for: str | None = None
    text: bool = False


def dataset_names() -> tuple[str, ...]:
    """Names in the catalogue of :func:`load_dataset`: the paper's six sets first."""
    return NAMES


def available(name: str) -> bool:
    """Whether a data set can be loaded without a download."""
    entry = _entry(name)
    return name == "digits" or _sources.files_are_here(name, entry)


def load_dataset(
    name: str, *, seed: int = 0, dtype: npt.DTypeLike = np.float32, reduced: bool = True
) -> Dataset:
    """Load a data set by name, split and processed as in the paper (section 4.1).

    The file is searched for in the folder that the environment variable ``DUALMETRIC_DATA`` names
    and in the user's cache folder (``DUALMETRIC_CACHE`` names another one). If it is in neither and
    has a public source, it is downloaded to the cache folder, which needs
    ``pip install 'dualmetric[data]'``. Text is reduced to its 1,000 principal components once, and
    the result is kept in the cache folder.

    Parameters
    ----------
    name : str
        One of :func:`dataset_names`. "usps", "protein", "caltech30", "tdt30", "20news" and
        "rcv30" are the paper's; "digits" comes with scikit-learn and needs no file. For any other
        name, ``<name>.npz`` must be in one of the folders. It holds ``X`` (or the parts of a CSR
        matrix) and ``y``, and may hold ``train_idx`` and ``test_idx``; without them, 30 % of each
        class are test rows.
    seed : int, default=0
        Seed of the split, if the set has none of its own, and of the random start of the
        principal components.
    dtype : {numpy.float32, numpy.float64}, default=numpy.float32
        Precision of the rows.
    reduced : bool, default=True
        Whether text is reduced to principal components. If False, text is returned as a CSR matrix
        of raw word counts, and no word is left out.

    Returns
    -------
    Dataset
        ``note`` describes it; ``stand_in_for`` names the paper's set that it replaces.

    Raises
    ------
    ValueError
        If the name is unknown, or a file is damaged or not what it should be.
    FileNotFoundError
        If a file is missing and could not be downloaded.
    """
    entry = _entry(name)
    seed = operator.index(seed)
    if seed < 0:
        raise ValueError(f"seed must be 0 or more; got {seed}")
    precision = np.dtype(dtype)
    if precision not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {precision}")
    if name == "digits":
        X_train, y_train, X_test, y_test = _digits(seed)
    else:
        reduced = reduced and entry.text
        X_train, y_train, X_test, y_test = _from_files(name, entry, seed, precision, reduced)
    if reduced or not entry.text:
        X_train, X_test = ops.to_dense(X_train), ops.to_dense(X_test)
    X_train, X_test = (X.astype(precision, copy=False) for X in (X_train, X_test))
    if entry.unit:
        X_train, X_test = ops.unit_rows(X_train), ops.unit_rows(X_test)
    more = (entry.note, entry.stand_in_for, entry.text)
    return Dataset(name, X_train, y_train, X_test, y_test, *more)


def _entry(name: str) -> Entry:
    if name in CATALOG:
        return CATALOG[name]
    if _sources.stored(f"{name}.npz") is not None:
        return Entry(f"{name}.npz", split="any")
    raise ValueError(
        f"unknown data set {name!r}: there is no file {name}.npz; known: {', '.join(NAMES)}"
    )


def _digits(seed: int) -> _sources.Parts:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=y)
    return X, y, X_test, y_test


def _from_files(
    name: str, entry: Entry, seed: int, dtype: np.dtype, reduced: bool
) -> _sources.Parts:
    paths = _sources.find_files(name, entry)
    processed = _sources.processed_path(name, seed, dtype, paths) if reduced else None
    if processed is not None and (kept := _sources.read_processed(processed)) is not None:
        return kept
    rows = _reading.read_rows(paths, entry)
    train, test = _reading.split_rows(rows, entry.split, seed, paths[0])
    X_train, X_test = rows.X[train], rows.X[test]
    if reduced:
        X_train, X_test = _text.reduce(X_train, X_test, seed, dtype)
    parts = X_train, rows.y[train], X_test, rows.y[test]
    if processed is not None:
        _sources.write_processed(processed, parts)
    return parts
