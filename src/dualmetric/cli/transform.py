"""``dualmetric transform``: rows in which plain Euclidean distance is the learned one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import DataFile, Labels, MetricFile, Verbose


def transform(
    metric: MetricFile,
    data: DataFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write: .npy, .npz, .csv, .parquet or .svm. All but .npy keep labels.",
        ),
    ],
    labels: Labels = None,
    verbose: Verbose = False,
) -> None:
    """Map rows to vectors whose Euclidean distances are the learned ones, for any search index."""
    from .._system import format_bytes
    from ..rowfiles import STREAMED, check_writable_form, write_row_blocks, write_rows
    from ..sources import blocks, is_source
    from ._data import load_metric, read_data_for
    from ._output import check_output, make_console, writing

    form = check_writable_form(out)
    check_output(out, "--out", inputs=(metric, data))
    learned = load_metric(metric)
    file = read_data_for(learned, data, labels)
    with writing(out):
        if is_source(file.X) and form in STREAMED:
            vectors = (learned.transform(block) for _, block in blocks(file.X))
            write_row_blocks(out, vectors, file.X.shape[0], file.y)
        else:
            write_rows(
                out,
                learned.transform(file.X),
                file.y,
                class_names=file.class_names,
                train_idx=file.train_idx,
                test_idx=file.test_idx,
            )
    n, d = file.X.shape[0], learned.rank
    make_console().print(f"{n:,} rows of {d:,} numbers: {out}, {format_bytes(out.stat().st_size)}")
