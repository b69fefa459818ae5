"""`Rows`: one interface to rows in memory, on disk, on a device and on a cluster."""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from .._arrays import ops
from .._arrays.namespace import check_device_rows, is_device_array, precision, require_finite
from .._types import Array
from .._validation import refuse_mask

T = TypeVar("T")


class Rows:
    """Rows of features, wherever they are.

    All rows that the methods return or pass on are checked: finite float32 or float64, dense in C
    order, CSR with sorted indices, or dense on their device.
    """

    shape: tuple[int, int]  # some rows of Dask must be read to be counted
    dtype: np.dtype[Any]  # float32 or float64, to which other numbers are converted
    names: tuple[str, ...] | None = None  # of the features, if X was a frame with named columns
    in_memory = False  # on the host or on a device
    concurrent = False  # whether blocks are worked on at the same time: use one thread for each
    name = "X"  # of the argument, for error messages

    @property
    def n_features(self) -> int:
        """Number of features; nothing is read to find it."""
        return self.shape[1]

    def take(self, numbers: Array | None = None) -> Any:
        """Rows with the given ascending numbers, in memory; all if None, maybe without a copy."""
        raise NotImplementedError

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Blocks of consecutive rows, each with the number of its first row."""
        raise NotImplementedError

    def reduce(self, function: Callable[[Any, int], T], combine: Callable[[T, T], T]) -> T:
        """Combine ``function(block, number of its first row)`` of all blocks, by pairs."""
        total: Any = None
        for start, block in self.blocks():
            part = function(block, start)
            total = part if start == 0 else combine(total, part)
        return total

    def map(self, function: Callable[[Any], Any], width: int, dtype: Any = None) -> Any:
        """Apply a function to each block; it returns ``width`` numbers for each row of the block.

        For rows in memory this is the result of the function itself, for rows on disk an ndarray,
        and for Dask rows a Dask array that is not computed yet. Without ``dtype``, it has the
        precision of the rows.
        """
        raise NotImplementedError

    def check_width(self, n_features: int, owner: str) -> None:
        """Raise where the rows do not have the number of features that ``owner`` expects."""
        if self.n_features != n_features:
            raise ValueError(
                f"{self.name} has {self.n_features} features, but {owner} is expecting "
                f"{n_features} features as input"
            )

    def _checked_numbers(self, numbers: Any) -> Array:
        """Row numbers as an array; refused where they are not in the rows."""
        numbers, n = np.asarray(numbers), self.shape[0]
        if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < n:
            wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
            raise ValueError(f"{self.name} has no row {wrong}: row numbers go from 0 to {n - 1}")
        return numbers


class MemoryRows(Rows):
    """Rows in memory, as `check_array` returns them."""

    in_memory = True

    def __init__(self, X: Any, names: tuple[str, ...] | None = None, name: str = "X") -> None:
        self._X, self.names, self.name = X, names, name
        self.shape, self.dtype = tuple(X.shape), precision(X)

    def take(self, numbers: Array | None = None) -> Any:
        if numbers is None:
            return self._X
        return ops.take_rows(self._X, self._checked_numbers(numbers))

    def blocks(self) -> Iterator[tuple[int, Any]]:
        yield 0, self._X

    def map(self, function: Callable[[Any], Any], width: int, dtype: Any = None) -> Any:
        return function(self._X)


def is_array(X: Any) -> bool:
    """Whether X is an array in memory, not a data frame."""
    return isinstance(X, np.ndarray | list | tuple) or sp.issparse(X) or is_device_array(X)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; Dask is not imported to find out."""
    return type(X).__module__.partition(".")[0] == "dask"


def check_array(X: Any, name: str = "X") -> Any:
    """Rows in memory as finite floats: dense in C order, CSR, or dense on their device."""
    if is_device_array(X):
        X = check_device_rows(X, name)
        require_finite(X, name)
        return X
    from sklearn.utils import check_array as check

    refuse_mask(X, name)
    if sp.issparse(X) and X.ndim == 2:
        check_indices(X, name)
    try:
        with np.errstate(invalid="ignore"):  # of sums of ∞ and −∞, which are refused
            X = check(
                X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name=name
            )
    except OverflowError as error:  # of Python's whole numbers, which have no limit
        raise ValueError(f"{name} holds a number that is too large for float64 ({error})") from None
    except (TypeError, ValueError) as error:
        if re.match(rf"Input {re.escape(name)} contains (NaN|infinity)", str(error)):
            said = str(error).rstrip(".")
            raise ValueError(f"{said}: replace these entries, or drop their rows") from None
        if re.search(rf"\b{re.escape(name)}\b", str(error)):
            raise
        said = str(error)
        said = said if len(said) < 500 else f"{said[:250]} … {said[-250:]}"  # some show the array
        if "string to float" in said:
            said += ". Turn texts into vectors first, with TfidfVectorizer or an encoder"
        raise type(error)(f"{name} cannot be used as rows of numbers: {said}") from None
    return ops.canonical(X)


def refuse_name(y: Any, name: str) -> None:
    """Refuse the name of a column as y where X is not a data frame."""
    if isinstance(y, str):
        raise ValueError(
            f"y = {y!r} names a column, but {name} is not a data frame and its columns have no "
            "names: pass the labels themselves, or a data frame"
        )


def check_indices(X: Any, name: str) -> None:
    """Refuse a sparse matrix with indices out of range: reading it would crash the process."""
    try:
        places = (
            (X.row, X.col)
            if X.format == "coo"
            else ((X.indices, X.indptr) if X.format in ("csr", "csc", "bsr") else ())
        )
        if any(part.dtype.kind not in "iu" for part in places):
            raise ValueError("its indices are not whole numbers")
        if X.format == "coo":
            sp.coo_matrix((X.data, (X.row, X.col)), shape=X.shape)
        elif X.format in ("csr", "csc", "bsr"):
            parts = (X.data, X.indices, X.indptr)
            type(X)(parts, shape=X.shape).check_format(full_check=True)
            if (X.indptr[1:] < X.indptr[:-1]).any():  # SciPy misses an end below zero
                raise ValueError("indptr must not descend")
    except ValueError as error:
        raise ValueError(
            f"{name} is a damaged sparse matrix of shape {X.shape} ({error}): build it again"
        ) from None


def as_floats(block: Any, dtype: Any, name: str) -> Any:
    """Rows of a block in the given precision: C order, or CSR."""
    if not sp.issparse(block):
        return np.ascontiguousarray(block, dtype=dtype)
    check_indices(block, name)
    return ops.canonical(block.tocsr().astype(dtype, copy=False))


def no_results(
    function: Callable[[Any], Any], rows: Any, n_features: int, width: int, dtype: Any
) -> Any:
    """Result of a function for zero rows: sparse if it keeps a sparse row of zeros sparse."""
    if sp.issparse(rows) and sp.issparse(function(sp.csr_matrix((1, n_features)))):
        return sp.csr_matrix((0, width), dtype=dtype)
    return np.empty((0, width), dtype=dtype)


def rows_not_finite(rows: Any) -> Array:
    """Numbers of the rows that hold NaN or infinity."""
    values = ops.stored_values(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        # the sum is finite for nearly all rows that are, and takes one pass without a copy
        if np.isfinite(values.sum()):
            return np.arange(0)
    if sp.issparse(rows):
        places = np.flatnonzero(~np.isfinite(rows.data))
        return np.unique(np.searchsorted(rows.indptr, places, side="right") - 1)
    return np.flatnonzero(~np.isfinite(rows).all(axis=1))


def float_type(dtype: Any) -> np.dtype[Any]:
    """Type that stored numbers are converted to, as scikit-learn's ``check_array`` does."""
    return np.dtype(np.float32 if dtype == np.dtype(np.float32) else np.float64)
