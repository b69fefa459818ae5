"""Rows as the bytes of a file."""

import contextlib
import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .._types import Array, Rows
from ._common import compress
from ._tables import import_pyarrow


def stream_npy(file: BinaryIO, blocks: Iterable[Array], n_rows: int, y: Array | None) -> None:
    """Write rows as they come; their labels have no place."""
    for number, block in enumerate(blocks):
        if number == 0:
            header = {
                "descr": np.lib.format.dtype_to_descr(block.dtype),
                "fortran_order": False,
                "shape": (n_rows, *block.shape[1:]),
            }
            np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(block).data)


def stream_parquet(file: BinaryIO, blocks: Iterable[Array], n_rows: int, y: Array | None) -> None:
    """Write rows as they come, with their labels; a row group for each block."""
    pa = import_pyarrow()
    with contextlib.ExitStack() as closing:
        start, writer = 0, None
        for block in blocks:
            numbers = pa.array(np.ascontiguousarray(block).ravel())
            columns = {"vector": pa.FixedSizeListArray.from_arrays(numbers, block.shape[1])}
            if y is not None:
                part = y[start : start + len(block)]
                columns["label"] = pa.array(part.tolist() if part.dtype.kind == "U" else part)
            table = pa.table(columns)
            if writer is None:
                writer = closing.enter_context(pa.parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            start += len(block)


def encode(path: Path, form: str, X: Rows, y: Array | None, arrays: dict[str, Array]) -> bytes:
    """Content of a file of the given form; ``arrays`` go to ``.npz`` beside X and y."""
    if form == "npz":
        return _npz(X, arrays if y is None else {"y": y, **arrays})
    return compress(path, _csv(X, y) if form == "csv" else _svmlight(path, X, y))


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
