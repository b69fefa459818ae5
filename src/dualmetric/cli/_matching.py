"""What match and duplicates share: ids of rows, targets, and tables of results."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import file_option

CONFIDENCE = 0.95

Precision = Annotated[
    float | None,
    typer.Option(
        metavar="P", help="Guarantee that at least this share of the accepted pairs are the same."
    ),
]
Recall = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Guarantee that at least this share of the pairs that are the same is accepted.",
    ),
]
Fpr = Annotated[
    float | None,
    typer.Option(
        metavar="P", help="Guarantee that at most this share of the different pairs are accepted."
    ),
]
Confidence = Annotated[float, typer.Option(metavar="P", help="Confidence of the guarantee.")]
Hubs = Annotated[
    bool,
    typer.Option(
        "--hubs",
        help="Keep the guarantee even if records that are close to all others (hubs) are missing "
        "from the labelled pairs by chance; needs more pairs.",
    ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|COLUMN",
        help="Ids of the rows: a text file with one per line, or a column if DATA is .csv or "
        ".parquet. Default: row numbers.",
    ),
]
QueryIds = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|COLUMN",
        help="Ids of the queries: a text file with one per line, or a column of --queries. "
        "Default: row numbers.",
    ),
]
Groups = Annotated[
    Path | None,
    file_option(
        help="The entity of each row, one per line: pairs that share an entity are not counted as "
        "independent. Default: each row is an entity."
    ),
]


def read_with_ids(metric: Any, data: Path, ids: str | None) -> tuple[Any, Any, list[Any] | None]:
    """File and rows of DATA, and the ids of the rows; a column of ids is not a feature."""
    from ._data import column_of, read_data_for

    column = column_of(data, ids)
    file, rows = read_data_for(metric, data, column)
    return file, rows, read_ids(data, ids, rows.shape[0])


def read_ids(data: Path, ids: str | None, n_rows: int, option: str = "--ids") -> list[Any] | None:
    """Ids of the rows, from a column of DATA or a text file."""
    from ._data import column_of, read_column, read_lines

    if column_of(data, ids, option) is not None:
        found: list[Any] = read_column(data, str(ids))
        return found
    return read_lines(None if ids is None else Path(ids), option, n_rows, "row")


def find_threshold(
    matcher: Any,
    precision: float | None,
    recall: float | None,
    fpr: float | None,
    sure: float,
    hubs: bool,
    way_out: str,
) -> Any:
    """The threshold that was asked for, by one of the three options.

    If there is none, the error names the option that sets a threshold without a guarantee.
    """
    given = {"precision": precision, "recall": recall, "fpr": fpr}
    asked = {name: value for name, value in given.items() if value is not None}
    if len(asked) > 1:
        raise ValueError(
            " and ".join(f"--{name}" for name in asked) + " cannot be combined: give one of them"
        )
    from ..matching import NotEnoughPairsError

    try:
        return matcher.threshold(**asked, confidence=sure, hubs=hubs)
    except NotEnoughPairsError as error:
        message = f"{error}, or accept pairs without a guarantee with {way_out}"
        raise NotEnoughPairsError(message, error.needed, error.best) from error


def same_in_words(n: int) -> str:
    """How many pairs are the same."""
    return "1 pair that is the same" if n == 1 else f"{n:,} pairs that are the same"


def threshold_record(threshold: Any) -> dict[str, Any]:
    """A threshold as JSON."""
    from dataclasses import asdict

    return asdict(threshold)


def table_bytes(path: Path, columns: dict[str, Sequence[Any]]) -> bytes:
    """Columns as .csv or .parquet; the suffix decides."""
    if path.suffix == ".parquet":
        from ..io.parquet import import_pyarrow

        pa = import_pyarrow()
        content = io.BytesIO()
        pa.parquet.write_table(pa.table({k: list(v) for k, v in columns.items()}), content)
        return content.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def check_table(path: Path | None, option: str) -> None:
    """Refuse a file of results in a form that is not written."""
    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{option}: {path.name} must end in .csv or .parquet")
    if path is not None and path.suffix == ".parquet":
        from ..io.parquet import import_pyarrow

        import_pyarrow()
