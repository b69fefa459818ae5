"""Options that several commands share."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

HOLDOUT = 0.3  # share of the rows that fit holds out by default

file_option = partial(typer.Option, metavar="FILE")
out_option = partial(file_option, "--out", "-o")
argument = partial(typer.Argument, show_default=False)

MetricFile = Annotated[
    Path, argument(metavar="METRIC", help="Metric file, written by fit, match or teach.")
]
DataFile = Annotated[
    Path,
    argument(
        metavar="DATA",
        help="File of rows: .npz, .npy, .csv, .parquet (or a folder of .parquet files) or svmlight "
        "(.svm, .libsvm; also .gz, .bz2). Or a folder of documents in BEIR's layout, with vectors "
        "in corpus.npy and queries.npy.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|COLUMN",
        help="Labels of the rows: a file (.npy, or text with one per line), or a column if DATA is "
        ".csv or .parquet. Default: the labels in DATA; in a table, the column label or y.",
    ),
]
Names = Annotated[Path | None, file_option(help="Names of the features, one per line.")]
# what is known about rows; --triplets and --comparisons are of fit alone
Pairs = Annotated[
    Path | None,
    file_option(
        help="Pairs. Each line holds two row numbers, or ids with --ids, and 1 (same) or 0 "
        "(different). Without the third column, all pairs are labelled as the same. A .csv, .tsv, "
        ".npy, .npz or .parquet file."
    ),
]
Positives = Annotated[
    Path | None,
    file_option(
        help="Clicks. Each line holds a query number and the number of a document (a row of DATA) "
        "that is relevant to it. Files as for --pairs."
    ),
]
Relevance = Annotated[
    Path | None,
    file_option(
        help="Judgements. Each line holds a query number, a document number and a grade (0: not "
        "relevant; higher is better). Files as for --pairs, or a sparse .npz of queries × "
        "documents."
    ),
]
Queries = Annotated[
    Path | None,
    file_option(
        help="Vectors of the queries, in any format of DATA. Default: queries are rows of DATA."
    ),
]
Texts = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|COLUMN",
        help="The text of each row, to show on the page: a file with one line per row, or a column "
        "if DATA is .csv or .parquet.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed. The same seed gives the same result.")]
Json = Annotated[
    Path | None,
    file_option(
        help="Write the result as JSON to this file. With - it goes to standard output, and "
        "nothing else is printed there."
    ),
]
