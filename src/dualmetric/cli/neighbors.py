"""``dualmetric neighbors``: the nearest rows of a row, by the learned and the plain distance."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import DataFile, Json, Labels, MetricFile, file_option
from ._output import check_output, make_console, printable, row_heading, write_json

_QUERY = "Number of a row, counted from 0. Several are separated by commas."
_QUERIES = (
    "File of queries, if they are not rows of DATA. --query then gives row numbers of this file, "
    "and rows of DATA that equal the query are shown too."
)


def neighbors(
    metric: MetricFile,
    data: DataFile,
    query: Annotated[list[str], typer.Option(metavar="ROW,…", help=_QUERY)],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of neighbours to show.")] = 10,
    queries: Annotated[Path | None, file_option(help=_QUERIES)] = None,
    labels: Labels = None,
    json: Json = None,
) -> None:
    """Show the rows nearest to a row, by the learned and by the plain distance."""
    import numpy as np

    from ..io.rowfiles import column_names, is_table
    from ..metric import Metric
    from ._data import load_metric, read_data_for, take_rows
    from ._scores import plain_kind

    check_output(json, "--json", metric, data, queries)
    numbers = _numbers(query)
    learned = load_metric(metric)
    file, rows = read_data_for(learned, data, labels)
    asked_file, asked_rows = file, rows
    if queries is not None:
        has_column = is_table(queries) and labels in column_names(queries)
        asked_file, asked_rows = read_data_for(learned, queries, labels if has_column else None)
        if max(numbers) >= (n := asked_rows.shape[0]):
            raise ValueError(
                f"{queries} has no query {max(numbers)}: query numbers go from 0 to {n - 1}"
            )
    asked = take_rows(asked_rows, numbers)
    kind = plain_kind(learned)
    plain = Metric(None, learned.n_features, distance=kind, idf=learned.first.idf)
    blocks = [[m.pairwise(asked, block) for m in (learned, plain)] for _, block in rows.blocks()]
    near, near_plain = (np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True))
    found = [
        {
            "row": row,
            **_named(asked_file, row),
            "learned": _nearest(near[place], None if queries else row, k, file),
            "plain": _nearest(near_plain[place], None if queries else row, k, file),
        }
        for place, row in enumerate(numbers)
    ]
    _show(make_console(json), found, kind, "Row" if queries is None else "Query")
    result = {"metric": str(metric), "data": str(data), "plain": kind, "queries": found}
    result |= {} if queries is None else {"queries_from": str(queries)}
    write_json(json, "neighbors", result)


def _numbers(values: list[str]) -> list[int]:
    texts = [text for value in values for text in re.split(r"[,\s]+", value.strip())]
    if wrong := [text for text in texts if not text.isdecimal()]:
        raise ValueError(f"--query must be row numbers, counted from 0; got {wrong[0]!r}")
    return list(dict.fromkeys(map(int, texts)))


def _nearest(distances: Any, query: int | None, k: int, file: Any) -> list[dict[str, Any]]:
    """The k nearest rows, without the query itself if it is one of them."""
    order = distances.argsort(kind="stable")
    return [
        {"row": int(row), "distance": float(distances[row]), **_named(file, row)}
        for row in (order if query is None else order[order != query])[:k]
    ]


def _named(file: Any, row: int) -> dict[str, str | None]:
    """Id and label of a row; None where there are none."""
    return {"id": file.id(row), "label": file.label(row)}


def _show(console: Any, found: list[dict[str, Any]], kind: str, word: str) -> None:
    from rich.table import Table

    from ._scores import NAMES

    for query in found:
        console.print(row_heading(query, word))
        has_labels = query["learned"][0]["label"] is not None
        table = Table("")
        for name in ("learned", NAMES[kind].removesuffix(" distance")):
            table.add_column(name, justify="right")
            table.add_column("distance", justify="right")
            if has_labels:
                table.add_column("label")
        pairs = zip(query["learned"], query["plain"], strict=True)
        for number, pair in enumerate(pairs, start=1):
            cells = []
            for near in pair:
                row = str(near["row"]) if near["id"] is None else printable(near["id"])
                cells += [row, f"{near['distance']:.4g}"]
                if has_labels:
                    mark = "✓ " if near["label"] == query["label"] else "  "
                    cells.append(mark + printable(near["label"]))
            table.add_row(str(number), *cells)
        console.print(table)
