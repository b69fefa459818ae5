"""Options that several commands share, described once."""

from pathlib import Path
from typing import Annotated, Any

import typer

VERBOSE_KEY = "dualmetric.verbose"


def _remember(context: typer.Context, value: bool) -> bool:
    if value:
        context.meta[VERBOSE_KEY] = True
    return value


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", callback=_remember, expose_value=False, help="Show the traceback of an error."
    ),
]
MetricFile = Annotated[
    Path,
    typer.Argument(metavar="METRIC", help="A metric file that fit wrote.", show_default=False),
]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Rows: .npz, .npy, .csv, .parquet (or a folder of such) or svmlight (.svm, .libsvm, "
        "also .gz, .bz2).",
        show_default=False,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|COLUMN",
        help="Labels: a file (.npy, or text with one a line), or a column of a .csv or .parquet "
        "DATA. Default: those in DATA; in tables, the column label or y.",
    ),
]
Names = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Names of the features, one a line."),
]
Json = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the result as JSON; - for standard output, and nothing else there.",
    ),
]


def is_verbose(context: Any) -> bool:
    """Whether a traceback was asked for, before or after the name of the command."""
    return bool(context.meta.get(VERBOSE_KEY))
