"""``dualmetric neighbors``: the nearest rows of a row, by the learned and the plain distance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import DataFile, Json, Labels, MetricFile, Verbose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._types import Array, Rows
    from ..metric import Metric
    from ..rowfiles import RowFile

_BLOCK = 4096  # rows in memory that are looked at at once


def neighbors(
    metric: MetricFile,
    data: DataFile,
    query: Annotated[
        list[str],
        typer.Option(
            metavar="ROW,…",
            help="Number of a row, counted from 0; several with commas, or the option repeated.",
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="How many neighbours.")] = 10,
    labels: Labels = None,
    json: Json = None,
    verbose: Verbose = False,
) -> None:
    """Show the nearest rows of some rows, by the learned distance and by the plain one."""
    from ._data import check_row, load_metric, read_data_for
    from ._output import check_output, make_console, write_json

    check_output(json, "--json", inputs=(metric, data))
    rows = _numbers(query)
    learned = load_metric(metric)
    file = read_data_for(learned, data, labels)
    for row in rows:
        check_row(row, file.X.shape[0], data)
    found = [
        {
            "row": row,
            "label": file.label(row),
            "learned": _nearest(ours, row, k, file),
            "plain": _nearest(plain, row, k, file),
        }
        for row, ours, plain in zip(rows, *_distances(learned, file.X, rows), strict=True)
    ]
    _show(make_console(json), found, learned.kind)
    result = {"metric": str(metric), "data": str(data), "plain": learned.kind, "queries": found}
    write_json(json, "neighbors", result)


def _numbers(values: list[str]) -> list[int]:
    texts = [text for value in values for text in re.split(r"[,\s]+", value.strip())]
    if wrong := [text for text in texts if not text.isdecimal()]:
        raise ValueError(f"--query: {wrong[0]!r} is not the number of a row, 0 or more")
    return list(dict.fromkeys(map(int, texts)))


def _blocks(X: Rows) -> Iterator[tuple[int, Rows]]:
    from .. import sources

    if sources.is_source(X):
        yield from sources.blocks(X)
    else:
        for start in range(0, X.shape[0], _BLOCK):
            yield start, X[start : start + _BLOCK]


def _distances(metric: Metric, X: Rows, queries: list[int]) -> tuple[Array, Array]:
    """Distances of each query to all rows: learned, and plain of the same kind."""
    import numpy as np
    from sklearn.metrics import euclidean_distances

    result = np.empty((2, len(queries), X.shape[0]))
    wanted = [_both(metric, X[row : row + 1]) for row in queries]
    for start, block in _blocks(X):
        stop = start + block.shape[0]
        for kind, rows in enumerate(_both(metric, block)):
            for number, query in enumerate(wanted):
                result[kind, number, start:stop] = euclidean_distances(query[kind], rows)[0]
    return result[0], result[1]


def _both(metric: Metric, X: Rows) -> tuple[Rows, Rows]:
    """Rows as the learned distance sees them, and as the plain one does."""
    from .. import products
    from ..comparison import plain_rows

    plain = plain_rows(metric, X)
    if metric.kind == "cosine":
        plain = products.unit_rows(plain, in_place=False)
    return metric.transform(X), plain


def _nearest(distances: Array, query: int, k: int, file: RowFile) -> list[dict[str, Any]]:
    import numpy as np

    order = np.argsort(distances, kind="stable")
    return [
        {"row": int(row), "distance": float(distances[row]), "label": file.label(row)}
        for row in order[order != query][:k]
    ]


def _show(console: Any, found: list[dict[str, Any]], kind: str) -> None:
    from rich.table import Table

    from ._output import printable

    for query in found:
        label = None if query["label"] is None else printable(query["label"])
        console.print(f"Row {query['row']}" + ("" if label is None else f": {label}"))
        table = Table("")
        for name in ("learned", f"plain {kind}"):
            table.add_column(name, justify="right")
            table.add_column("distance", justify="right")
            if label is not None:
                table.add_column("label")
        pairs = zip(query["learned"], query["plain"], strict=True)
        for number, pair in enumerate(pairs, start=1):
            cells = []
            for near in pair:
                cells += [str(near["row"]), f"{near['distance']:.4g}"]
                if label is not None:
                    mark = "✓ " if near["label"] == query["label"] else "  "
                    cells.append(mark + printable(near["label"]))
            table.add_row(str(number), *cells)
        console.print(table)
