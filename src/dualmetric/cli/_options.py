"""Options that several commands share."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

HOLDOUT = 0.3  # share of the rows that fit holds out by default

file_option = partial(typer.Option, metavar="FILE")
out_option = partial(file_option, "--out", "-o")
argument = partial(typer.Argument, show_default=False)

MetricFile = Annotated[Path, argument(metavar="METRIC", help="A metric file that fit wrote.")]
DataFile = Annotated[
    Path,
    argument(
        metavar="DATA",
        help="Rows: .npz, .npy, .csv, .parquet (or a folder of them) or svmlight (.svm, .libsvm, "
        "also .gz, .bz2); or a folder in BEIR's layout with vectors, corpus.npy and queries.npy.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|COLUMN",
        help="Labels: a file (.npy, or text with one per line), or a column if DATA is .csv or "
        ".parquet. Default: those in DATA; in tables, the column label or y.",
    ),
]
Names = Annotated[Path | None, file_option(help="Names of the features, one per line.")]
# what is known about rows; --triplets and --comparisons are of fit alone
Pairs = Annotated[
    Path | None,
    file_option(
        help="Pairs of row numbers, and 1 for the same or 0 for different (without it, all are the "
        "same): .csv, .tsv, .npy, .npz or .parquet."
    ),
]
Positives = Annotated[
    Path | None,
    file_option(help="Numbers of queries and of documents (rows of DATA) that are right for them."),
]
Relevance = Annotated[
    Path | None,
    file_option(
        help="Numbers of queries and documents, and grades from 0; or a sparse .npz of queries × "
        "documents."
    ),
]
Queries = Annotated[
    Path | None,
    file_option(
        help="Rows of the queries, in any form of DATA. Default: queries are rows of DATA."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Json = Annotated[
    Path | None,
    file_option(
        help="Write the result as JSON; - writes it, and nothing else, to standard output."
    ),
]
