"""``dualmetric explain``: which features increase the distance of two rows, and which reduce it."""

from typing import Annotated

import typer

from ._options import DataFile, Json, Labels, MetricFile, Names, argument


def explain(
    metric: MetricFile,
    data: DataFile,
    first: Annotated[int, argument(metavar="ROW", help="Number of a row, counted from 0.")],
    second: Annotated[int, argument(metavar="ROW", help="Number of the other row.")],
    top: Annotated[int, typer.Option(min=1, help="How many features to show.")] = 10,
    names: Names = None,
    labels: Labels = None,
    json: Json = None,
) -> None:
    """Show how much each feature adds to the learned distance between two rows."""
    from ._data import load_metric, read_data_for, read_lines, take_rows
    from ._output import check_output, make_console, row_heading, write_json

    check_output(json, "--json", metric, data, names)
    learned = load_metric(metric)
    file, rows = read_data_for(learned, data, labels)
    feature_names = read_lines(names, "--names", learned.n_features, "feature")
    if learned.first.lift is not None:
        raise ValueError(
            f"{metric} uses a kernel lift, so its distances cannot be split by feature: fit again "
            "with --for explainable"
        )
    known = feature_names or learned.feature_names or file.feature_names
    pair = take_rows(rows, [first, second])
    found = learned.explain(pair[:1], pair[1:], known, top)
    both = [{"row": row, "label": file.label(row)} for row in (first, second)]
    console = make_console(json)
    for given in both:
        console.print(row_heading(given))
    console.print(str(found))
    result = {
        "metric": str(metric),
        "data": str(data),
        "rows": both,
        "distance": found.distance,
        "parts": [{"feature": name, "part": part} for name, part in found.parts],
        "rest": found.rest,
    }
    write_json(json, "explain", result)
