"""``dualmetric transform``: vectors whose Euclidean distance is the learned one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from ._options import DataFile, Labels, MetricFile, out_option

_OUT = (
    "File to write: .npy, .npz, .csv, .parquet or .svm. All but .npy keep the labels. All but .npy "
    "and .svm keep the ids of the rows."
)


def transform(
    metric: MetricFile,
    data: DataFile,
    out: Annotated[Path, out_option(help=_OUT)],
    labels: Labels = None,
) -> None:
    """Map rows to vectors for a search index: their Euclidean distance is the learned one."""
    from .._arrays.system import format_bytes
    from ..io.rowfiles import STREAMED, check_writable_form, write_row_blocks, write_rows
    from ._data import load_metric, read_data_for
    from ._output import check_output, make_console, writing
    from ._progress import show_steps

    form = check_writable_form(out)
    check_output(out, "--out", metric, data)
    learned = load_metric(metric)
    file, rows = read_data_for(learned, data, labels)
    n, d = rows.shape[0], learned.rank

    def vectors() -> Iterator[Any]:
        for start, block in rows.blocks():
            yield learned.transform(block)
            steps.advance(start + block.shape[0], n)

    with show_steps() as steps, writing(out):
        steps.begin("transforming")
        if form in STREAMED and not rows.in_memory:
            write_row_blocks(out, vectors(), n, file.y, file.ids, file.id_name)
        else:
            names = ("class_names", "train_idx", "test_idx", "ids", "id_name")
            more = {name: getattr(file, name) for name in names}
            write_rows(out, learned.transform(rows), file.y, **more)
    size = format_bytes(out.stat().st_size)
    make_console().print(f"Vectors: {out}, {size}, {n:,} rows × {d:,} columns")
