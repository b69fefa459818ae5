"""Rows as the bytes of a file."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._types import Array, Rows
from ._common import compress
from ._tables import import_pyarrow


def encode(path: Path, form: str, X: Rows, y: Array | None, arrays: dict[str, Array]) -> bytes:
    """Content of a file of the given form; ``arrays`` go to ``.npz`` beside X and y."""
    if sp.issparse(X) and form not in ("npz", "svmlight"):
        raise ValueError(f"{path}: the rows are sparse, which .npz and .svm hold, but not .{form}")
    if form == "npy":
        return _npy(X)
    if form == "npz":
        return _npz(X, arrays if y is None else {"y": y, **arrays})
    if form == "parquet":
        return _parquet(X, y)
    return compress(path, _csv(X, y) if form == "csv" else _svmlight(path, X, y))


def _npy(X: Array) -> bytes:
    content = io.BytesIO()
    np.save(content, X, allow_pickle=False)
    return content.getvalue()


def _npz(X: Rows, arrays: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    if sp.issparse(X):
        rows = sp.csr_matrix(X)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        arrays = {"format": np.array("csr"), "shape": np.array(rows.shape), **parts, **arrays}
    else:
        arrays = {"X": X, **arrays}
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _csv(X: Array, y: Array | None) -> bytes:
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    names = [f"x{place}" for place in range(X.shape[1])]
    writer.writerow(names if y is None else [*names, "label"])
    # digits enough to read the same numbers back, and for float32 no more
    style = ".9g" if X.dtype.itemsize <= 4 else ""
    for number, row in enumerate(X):
        cells = [format(value, style) for value in row.tolist()]
        writer.writerow(cells if y is None else [*cells, y[number]])
    return content.getvalue().encode()


def _svmlight(path: Path, X: Rows, y: Array | None) -> bytes:
    from sklearn.datasets import dump_svmlight_file

    if y is not None and y.dtype.kind not in "iub":
        raise ValueError(
            f"{path}: labels are numbers in svmlight files, and these are text: write .npz, .csv "
            "or .parquet"
        )
    content = io.BytesIO()
    labels = np.zeros(X.shape[0], dtype=np.int64) if y is None else y
    dump_svmlight_file(X, labels, content, zero_based=False)
    return content.getvalue()


def _parquet(X: Array, y: Array | None) -> bytes:
    pa = import_pyarrow()
    numbers = pa.array(np.ascontiguousarray(X).ravel())
    columns = {"vector": pa.FixedSizeListArray.from_arrays(numbers, X.shape[1])}
    if y is not None:
        columns["label"] = pa.array(y.tolist() if y.dtype.kind == "U" else y)
    content = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), content)
    return content.getvalue()
