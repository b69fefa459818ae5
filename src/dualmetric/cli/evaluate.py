"""``dualmetric evaluate``: score a metric beside the plain distances, and make the report page."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import DataFile, Json, Labels, MetricFile, Names, Verbose

if TYPE_CHECKING:
    from ..comparison import Scores

EVALUATED_ROWS = 20_000
VOTING_ROWS = 50_000


def evaluate(
    metric: MetricFile,
    data: DataFile,
    labels: Labels = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page to look at and click through."),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The text of each row, one a line, for the page."),
    ] = None,
    image_shape: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Rows are pictures: 28x28, say, or 32x32x3."),
    ] = None,
    names: Names = None,
    json: Json = None,
    verbose: Verbose = False,
) -> None:
    """Score a metric beside the plain distances on rows that it was not learned from.

    Where the metric was learned from a part of DATA, these are the other rows; in a file with
    train_idx and test_idx, the test rows. k-NN then looks among the training rows. Else all rows
    of DATA are scored, each against all others.
    """
    from ..comparison import compare
    from ._data import load_metric, read_data_for, read_names
    from ._memory import rows_to_evaluate
    from ._output import check_output, make_console, note, write_file, write_json
    from ._parts import take
    from ._scores import is_better, score_table, verdict, with_intervals

    inputs = (metric, data, texts, names)
    check_output(report, "--report", inputs=inputs)
    check_output(json, "--json", inputs=(*inputs, report))
    if report is None and (texts is not None or image_shape is not None):
        raise ValueError("--texts and --image-shape are for the page: give --report too")
    if texts is not None and image_shape is not None:
        raise ValueError("rows are shown as texts or as pictures: give --texts or --image-shape")
    learned = load_metric(metric)
    shape = _shape(image_shape, learned.n_features)
    file = read_data_for(learned, data, labels)
    if file.y is None:
        raise ValueError(f"{data} has no labels to score by: name a file or column with --labels")
    feature_names = read_names(names, learned.n_features) or file.feature_names
    snippets = _read_texts(texts, file.X.shape[0])
    chosen = rows_to_evaluate(learned, file)
    scored = take(file, chosen.scored, EVALUATED_ROWS, seed=0)
    base: tuple[Any, Any] = (None, None)
    if chosen.voters is not None:
        train = take(file, chosen.voters, VOTING_ROWS, seed=0)
        base = (train.X, train.y)
    if len(scored) < (file.X.shape[0] if chosen.scored is None else len(chosen.scored)):
        note(f"scores are those of {len(scored):,} rows, chosen at random")
    scores = compare(learned, scored.X, scored.y, *base)
    numbers = with_intervals(scores)
    console = make_console(json)
    which = "rows that were held out by fit" if chosen.held_out else "rows"
    console.print(f"On {len(scored):,} {which}, with 95 % confidence intervals:")
    console.print(score_table(numbers))
    console.print(verdict(numbers, learned.info.get("method")))
    if report is not None:
        from ..report import build_report

        page = build_report(
            learned,
            scored.X,
            scored.y,
            *base,
            title=data.name,
            class_names=file.class_names,
            feature_names=feature_names,
            texts=None if snippets is None else [snippets[row] for row in scored.rows],
            image_shape=shape,
            scores=scores,
            row_numbers=scored.rows,
        )
        write_file(report, page.encode())
        console.print(f"Report: {report}")
    result = {
        "metric": str(metric),
        "data": str(data),
        "rows": {"scored": len(scored), "training": 0 if base[1] is None else len(base[1])},
        "scores": numbers,
        "gain": _gain(scores),
        "better": is_better(numbers),
    }
    write_json(json, "evaluate", result)


def _gain(scores: dict[str, Scores]) -> dict[str, Any]:
    """What the learned distance adds to the mAP of each plain one, with its interval."""
    from ..comparison import paired_interval

    learned = scores["learned"]
    return {
        name: {
            "map": learned.map - scores[name].map,
            "map_interval": list(
                paired_interval(learned.average_precision, scores[name].average_precision)
            ),
        }
        for name in ("euclidean", "cosine")
    }


def _shape(text: str | None, n_features: int) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        raise ValueError(
            f"--image-shape: {text!r} is not height x width, such as 28x28, or 32x32x3 for colours"
        )
    shape = tuple(map(int, parts))
    if prod(shape) != n_features:
        raise ValueError(f"--image-shape: {text} does not make {n_features:,} features")
    return shape


def _read_texts(path: Path | None, n_rows: int) -> list[str] | None:
    from ..rowfiles import read_lines

    if path is None:
        return None
    lines = read_lines(path)
    if len(lines) != n_rows:
        raise ValueError(
            f"--texts: {path} has {len(lines):,} lines for {n_rows:,} rows: give one for each row"
        )
    return lines
