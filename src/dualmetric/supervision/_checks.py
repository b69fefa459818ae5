"""Row numbers, weights and groups: checks of what users pass, and folds."""

from reprlib import repr as brief
from typing import Any

import numpy as np

from .._arrays.namespace import to_numpy
from .._types import Array
from .._validation import any_missing, refuse_mask

_LARGEST_WEIGHT = 1e100  # weights of pairs are multiplied


def check_index(index: Any, names: tuple[str, ...], what: str, n_rows: int | None) -> Array:
    """Row numbers as an integer array with one column per name; errors name the line.

    If ``n_rows`` is None, the caller checks whether there are such rows.
    """
    refuse_mask(index, what)
    if hasattr(index, "toarray"):  # NumPy would make one object of it
        raise ValueError(
            f"{what} must be a dense array of row numbers; got a sparse matrix: use toarray()"
        )
    width = len(names)
    wanted = f"{what} must be an (N, {width}) array of row numbers ({', '.join(names)})"
    try:
        array = np.asarray(to_numpy(index))
    except ValueError:  # lists of different lengths
        raise ValueError(f"{wanted}; got lines of different lengths") from None
    if array.shape == (0,) or array.shape == (0, width):
        raise ValueError(f"{what} is empty: give at least one ({', '.join(names)})")
    if array.ndim != 2 or array.shape[1] != width:
        got = f"shape {array.shape}" if array.ndim else type(index).__name__
        raise ValueError(f"{wanted}; got {got}")
    if not np.issubdtype(array.dtype, np.integer):
        by_position = "replace ids by the positions of their rows, counted from 0"
        remedies = {
            "f": "use astype(int)",
            "b": "give numbers in place of a mask",
            "O": f"use astype(int), or {by_position}",
        }
        raise ValueError(
            f"{what} must hold integers, the row numbers of X; got {array.dtype}: "
            f"{remedies.get(array.dtype.kind, by_position)}"
        )
    if n_rows is None:
        return array
    outside = (array < 0) | (array >= n_rows)
    if outside.any():
        line = int(np.flatnonzero(outside.any(axis=1))[0])
        raise ValueError(
            f"{what}[{line}] = {array[line].tolist()} names a row that X does not have: row "
            f"numbers go from 0 to {n_rows - 1}{_hint(array, n_rows)}"
        )
    return array


def _hint(index: Array, n_rows: int) -> str:
    """What row numbers that are too large may be instead."""
    if index.min() == 1 and index.max() == n_rows:
        return ". If yours start at 1, subtract 1"
    return ". They are positions, not ids or labels of an index" if index.min() >= 0 else ""


def check_pairs(index: Any, what: str, n_queries: int, n_documents: int) -> Array:
    """Pairs (query, document) of row numbers; errors name the line."""
    names = ("query", "document")
    array = check_index(index, names, what, None)
    for column, n in enumerate((n_queries, n_documents)):
        outside = np.flatnonzero((array[:, column] < 0) | (array[:, column] >= n))
        if len(outside):
            line = array[outside[0]].tolist()
            raise ValueError(
                f"{what}[{outside[0]}] = {line} names {names[column]} {line[column]}, which does "
                f"not exist: their numbers go from 0 to {n - 1}"
            )
    return array.astype(np.int64)


def check_numbers(values: Any, name: str, n: int, of: str) -> Array:
    """One finite number for each comparison, pair or judgement, in float64; 1 if None."""
    if values is None:
        return np.ones(n)
    refuse_mask(values, name)
    array = np.asarray(to_numpy(values))
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers; got {array.dtype}")
    array = array.astype(np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"{name} must hold one number per {of}, shape ({n},); got {array.shape}")
    if not np.isfinite(array).all():
        line = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name}[{line}] is {array[line]}: all numbers must be finite")
    return array


def check_weight(weight: Any, n: int, of: str) -> Array:
    """Numbers from 0 on."""
    array = check_numbers(weight, "weight", n, of)
    if (array < 0).any():
        line = int(np.flatnonzero(array < 0)[0])
        raise ValueError(
            f"weight[{line}] = {array[line]:g} is negative: weights must be at least 0"
        )
    if array.max(initial=0.0) > _LARGEST_WEIGHT:
        raise ValueError(
            f"weight holds {array.max():g}, which is too large: divide weights by their mean, for "
            "example"
        )
    return array


def check_groups(groups: Any, n: int, of: str) -> Array | None:
    """Codes of the groups, one per row or query."""
    if groups is None:
        return None
    refuse_mask(groups, "groups")
    values = np.asarray(to_numpy(groups))
    if values.shape != (n,):
        raise ValueError(f"groups must hold one value per {of}, shape ({n},); got {values.shape}")
    if any_missing(values):
        raise ValueError(
            f"groups contains NaN or None: give each {of} without a group a value of its own"
        )
    return np.unique(values, return_inverse=True)[1]


def folds_of(groups: Array, n_folds: int, seed: int) -> list[Array]:
    """Places in ``groups``, in folds that keep groups whole and are about equally large."""
    codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    fold, filled = np.zeros(len(sizes), dtype=int), np.zeros(min(n_folds, len(sizes)))
    for group in order:
        fold[group] = np.argmin(filled)
        filled[fold[group]] += sizes[group]
    return [np.flatnonzero(fold[codes] == number) for number in range(len(filled))]


def split_by(
    cv: Any, places: Array, what: str, y: Array | None = None, groups: Array | None = None
) -> list[tuple[Array, Array]]:
    """Parts to learn from and to score on, by a number of folds or a splitter of scikit-learn."""
    from sklearn.model_selection import check_cv

    try:
        parts = check_cv(cv, y, classifier=y is not None).split(places, y, groups)
        found = [(np.asarray(train), np.asarray(test)) for train, test in parts]
        for part in (part for both in found for part in both):
            places[part]  # refuses numbers that are too large
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"cv={brief(cv)} does not split these {what}: {error}") from None
    return found


def pairs_among(rows: Array, index: Array) -> Array:
    """The pairs of row numbers of which both are among ``rows``, as places in these; (2, n)."""
    index = index[np.isin(index, rows).all(axis=1)]
    return np.ascontiguousarray(np.searchsorted(rows, index).T)


def index_type(n_rows: int) -> type[np.signedinteger]:
    """Type of row numbers: int32 where that is wide enough."""
    return np.int32 if n_rows <= np.iinfo(np.int32).max else np.int64


def compact(index: Array, n_rows: int) -> Array:
    """Copy row numbers in their `index_type`."""
    return np.array(index, dtype=index_type(n_rows), order="C")


def agreement(margins: Array) -> Array:
    """1 for each comparison that is satisfied, d²(c, d) above d²(a, b), and ½ for a tie."""
    return 0.5 + 0.5 * np.sign(margins).astype(np.float64)


def triplets_as_pairs(triplets: Array) -> Array:
    """Row numbers (i, j, i, k) of triplets (i, j, k)."""
    return np.ascontiguousarray(triplets[:, [0, 1, 0, 2]])
