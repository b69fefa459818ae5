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
    from ..rowfiles import check_writable_form, write_rows
    from ._data import load_metric, read_data_for
    from ._output import check_output, make_console, writing

    check_writable_form(out)
    check_output(out, "--out", inputs=(metric, data))
    learned = load_metric(metric)
    file = read_data_for(learned, data, labels)
    vectors = learned.transform(file.X)
    with writing(out):
        write_rows(
            out,
            vectors,
            file.y,
            class_names=file.class_names,
            train_idx=file.train_idx,
            test_idx=file.test_idx,
        )
    n, d = vectors.shape
    make_console().print(f"{n:,} rows of {d:,} numbers: {out}, {format_bytes(out.stat().st_size)}")
