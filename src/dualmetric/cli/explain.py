"""``dualmetric explain``: which features hold two rows apart, and which draw them together."""

from __future__ import annotations

from typing import Annotated

import typer

from ._options import DataFile, Json, Labels, MetricFile, Names, Verbose


def explain(
    metric: MetricFile,
    data: DataFile,
    first: Annotated[
        int, typer.Argument(metavar="ROW", help="Number of a row, from 0.", show_default=False)
    ],
    second: Annotated[
        int, typer.Argument(metavar="ROW", help="Number of another.", show_default=False)
    ],
    top: Annotated[int, typer.Option(min=1, help="How many features to name.")] = 10,
    names: Names = None,
    labels: Labels = None,
    json: Json = None,
    verbose: Verbose = False,
) -> None:
    """Split the learned distance between two rows into what each feature adds to it."""
    from ._data import check_row, load_metric, read_data_for, read_names
    from ._output import check_output, make_console, printable, write_json

    check_output(json, "--json", inputs=(metric, data, names))
    learned = load_metric(metric)
    file = read_data_for(learned, data, labels)
    feature_names = read_names(names, learned.n_features)
    for row in (first, second):
        check_row(row, file.X.shape[0], data)
    known = feature_names or learned.feature_names or file.feature_names
    found = learned.explain(file.X[first : first + 1], file.X[second : second + 1], known, top)
    rows = [{"row": row, "label": file.label(row)} for row in (first, second)]
    console = make_console(json)
    for given in rows:
        label = "" if given["label"] is None else f": {printable(given['label'])}"
        console.print(f"Row {given['row']}{label}")
    console.print(str(found))
    result = {
        "metric": str(metric),
        "data": str(data),
        "rows": rows,
        "distance": found.distance,
        "parts": [{"feature": name, "part": part} for name, part in found.parts],
        "rest": found.rest,
    }
    write_json(json, "explain", result)
