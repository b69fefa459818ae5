"""``dualmetric transform``: vectors whose Euclidean distance is the learned one."""

from pathlib import Path
from typing import Annotated

from ._options import DataFile, Labels, MetricFile, out_option

_OUT = (
    "Where to write: .npy, .npz, .csv, .parquet or .svm. All but .npy keep labels, and all but "
    ".npy and .svm the ids of the rows."
)


def transform(
    metric: MetricFile,
    data: DataFile,
    out: Annotated[Path, out_option(help=_OUT)],
    labels: Labels = None,
) -> None:
    """Map rows to vectors whose Euclidean distances are the learned ones, for any search index."""
    from .._arrays.system import format_bytes
    from ..io.rowfiles import STREAMED, check_writable_form, write_row_blocks, write_rows
    from ._data import load_metric, read_data_for
    from ._output import check_output, make_console, writing

    form = check_writable_form(out)
    check_output(out, "--out", metric, data)
    learned = load_metric(metric)
    file, rows = read_data_for(learned, data, labels)
    n, d = rows.shape[0], learned.rank
    with writing(out):
        if form in STREAMED and not rows.in_memory:
            vectors = (learned.transform(block) for _, block in rows.blocks())
            write_row_blocks(out, vectors, n, file.y, file.ids, file.id_name)
        else:
            names = ("class_names", "train_idx", "test_idx", "ids", "id_name")
            more = {name: getattr(file, name) for name in names}
            write_rows(out, learned.transform(rows), file.y, **more)
    make_console().print(f"{n:,} rows of {d:,} numbers: {out}, {format_bytes(out.stat().st_size)}")
