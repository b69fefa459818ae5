"""Rows as the bytes of a file."""

import bz2
import contextlib
import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._arrays import ops
from .._types import Array, Matrix
from .parquet import import_pyarrow


def stream_npy(file: BinaryIO, blocks: Iterable[Array], n_rows: int, y: Array | None) -> None:
    """Write rows block by block; labels are not written."""
    for number, block in enumerate(map(np.ascontiguousarray, blocks)):
        if number == 0:
            header = np.lib.format.header_data_from_array_1_0(block)
            header["shape"] = (n_rows, *block.shape[1:])
            np.lib.format.write_array_header_1_0(file, header)
        file.write(block.data)


def stream_parquet(file: BinaryIO, blocks: Iterable[Array], n_rows: int, y: Array | None) -> None:
    """Write rows and labels block by block, one row group per block."""
    pa = import_pyarrow()
    with contextlib.ExitStack() as closing:
        start, writer = 0, None
        for block in blocks:
            numbers = pa.array(np.ascontiguousarray(block).ravel())
            columns = {"vector": pa.FixedSizeListArray.from_arrays(numbers, block.shape[1])}
            if y is not None:
                columns["label"] = pa.array(y[start : start + len(block)])
            table = pa.table(columns)
            if writer is None:
                writer = closing.enter_context(pa.parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            start += len(block)


def encode(path: Path, form: str, X: Matrix, y: Array | None, arrays: dict[str, Array]) -> bytes:
    """Content of a file of the given form; ``arrays`` go to ``.npz`` beside X and y."""
    if form == "npz":
        content = io.BytesIO()
        labels = {} if y is None else {"y": y}
        np.savez_compressed(content, **ops.named_parts(X), **labels, **arrays)  # type: ignore[arg-type]
        return content.getvalue()
    packers: dict[str, Any] = {".gz": gzip.compress, ".bz2": bz2.compress}
    pack = packers.get(path.suffix.lower(), bytes)
    return pack(_csv(X, y) if form == "csv" else _svmlight(path, X, y))


def _csv(X: Array, y: Array | None) -> bytes:
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    names = [f"x{place}" for place in range(X.shape[1])]
    writer.writerow(names if y is None else [*names, "label"])
    # as many digits as are needed to read the same numbers back
    style = ".9g" if X.dtype.itemsize <= 4 else ""
    for number, row in enumerate(X):
        cells = [format(value, style) for value in row.tolist()]
        writer.writerow(cells if y is None else [*cells, y[number]])
    return content.getvalue().encode()


def _svmlight(path: Path, X: Matrix, y: Array | None) -> bytes:
    from sklearn.datasets import dump_svmlight_file

    if y is not None and y.dtype.kind not in "iub":
        raise ValueError(
            f"{path}: labels are numbers in svmlight files, but these are text: write .npz, .csv "
            "or .parquet"
        )
    content = io.BytesIO()
    labels = np.zeros(X.shape[0], dtype=np.int64) if y is None else y
    dump_svmlight_file(X, labels, content, zero_based=False)
    return content.getvalue()
