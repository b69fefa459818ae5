"""``dualmetric evaluate``: score a metric beside the plain distances, and make the report page."""

from math import prod
from pathlib import Path
from typing import Annotated, Any

import typer

from ._matching import Ids, QueryIds
from ._options import (
    DataFile,
    Json,
    Labels,
    MetricFile,
    Names,
    Pairs,
    Positives,
    Queries,
    Relevance,
    Texts,
)

EVALUATED_ROWS = 20_000
VOTING_ROWS = 50_000

_REPORT = "Write an HTML page with charts, a map, and nearest rows before and after."
_SHAPE = "Show rows as pictures of this size: 28x28, for example, or 32x32x3."


def evaluate(
    metric: MetricFile,
    data: DataFile,
    labels: Labels = None,
    pairs: Pairs = None,
    positives: Positives = None,
    relevance: Relevance = None,
    queries: Queries = None,
    ids: Ids = None,
    query_ids: QueryIds = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help=_REPORT)] = None,
    texts: Texts = None,
    image_shape: Annotated[str | None, typer.Option(metavar="HxW", help=_SHAPE)] = None,
    names: Names = None,
    json: Json = None,
) -> None:
    """Compare a learned distance with the plain ones on rows that it was not learned from.

    If fit learned from a part of DATA, the rows that it held out are scored. If
    DATA has test_idx, the test rows are scored. Otherwise all rows are scored.

    With --pairs, --positives or --relevance, or a folder in BEIR's layout (its
    qrels/test.tsv), all given pairs or queries are scored.
    """
    from ..side_by_side import compare
    from ._data import column_of, load_metric, read_data_for, read_lines, read_texts
    from ._judging import not_learned_from, score_known
    from ._known import noun_of, query_names, read_known, source_of
    from ._learning import rows_to_evaluate, take_at_most
    from ._matching import read_ids
    from ._output import check_output, check_report, make_console, note, write_file, write_json
    from ._progress import show_steps
    from ._scores import (
        gains_of,
        is_better,
        plain_name,
        score_table,
        verdict,
        with_intervals,
    )

    given = {"pairs": pairs, "positives": positives, "relevance": relevance}
    source = source_of(given, queries, data, "test")
    if ids is not None and source is None:
        raise ValueError("--ids is for --pairs, --positives or --relevance: give one of them")
    if query_ids is not None and queries is None:
        raise ValueError("--query-ids names the rows of --queries: give both or neither")
    text_file = Path(texts) if texts else None
    inputs = (metric, data, *given.values(), queries, text_file, names)
    check_report(report, *inputs)
    check_output(json, "--json", *inputs, report)
    if report is None and (texts is not None or image_shape is not None):
        raise ValueError("--texts and --image-shape need --report, the page that shows them")
    if texts is not None and image_shape is not None:
        raise ValueError("--texts and --image-shape cannot be combined: give one of them")
    if report is not None and source is not None:
        if source[0] == "pairs":
            raise ValueError(
                "--report shows rows with labels, or queries, but not pairs: use dualmetric "
                "match --report, whose page is about them"
            )
        if texts is not None or image_shape is not None:
            raise ValueError("--texts and --image-shape are for rows with labels: leave them out")
    learned = load_metric(metric)
    shape = None if image_shape is None else _shape(image_shape, learned.n_features)
    console = make_console(json)
    is_plain = learned.info.get("method") == "Euclidean"

    def show(numbers: dict[str, Any], gain: dict[str, Any], n_scored: int, what: str) -> None:
        console.print(f"On {n_scored:,} {what}, with 95 % confidence intervals:")
        kept = plain_name(learned) if is_plain else None
        console.print(score_table(numbers, kept))
        if kept is None:
            console.print(verdict(numbers, gain, learned.info.get("method")))

    def write(numbers: dict[str, Any], gain: dict[str, Any], **n_rows: int) -> None:
        result = {
            "metric": str(metric),
            "data": str(data),
            "rows": n_rows,
            "scores": numbers,
            "gain": gain,
            "better": not is_plain and is_better(numbers),
        }
        write_json(json, "evaluate", result)

    with show_steps() as steps:
        steps.begin("reading")
        file, rows = read_data_for(learned, data, column_of(data, ids) or labels)
        if source is not None:
            row_ids = read_ids(data, ids, rows.shape[0])
            known = read_known(source, data, file, rows, queries, row_ids, query_ids, ids)
            unseen, held_out = not_learned_from(learned, known, rows)
            if unseen is not None:
                known = unseen
            else:
                held_out, noun = False, noun_of(source)
                note(f"the metric was learned from these {noun}, so scores are too optimistic")
            steps.begin("scoring")
            numbers, gain, n_scored = score_known(learned, rows, known)
    if source is not None:
        what = noun_of(source)
        show(numbers, gain, n_scored, f"{what} that fit held out" if held_out else what)
        if report is not None:
            from ..report import build_query_report

            called = query_names(data, file, queries)
            page = build_query_report(learned, rows, known, title=data.name, query_names=called)
            write_file(report, page.encode())
            console.print(f"Report: {report}")
        write(numbers, gain, scored=n_scored, training=0)
        return
    if file.y is None:
        raise ValueError(
            f"{data} has no labels to score by: name a file or column with --labels, or give "
            "--pairs, --positives or --relevance"
        )
    feature_names = read_lines(names, "--names", learned.n_features, "feature")
    lines = read_texts(texts, data, rows.shape[0])
    chosen, voters, held_out = rows_to_evaluate(learned, file, rows)
    X, y, scored = take_at_most(rows, file.y, chosen, EVALUATED_ROWS)
    if len(scored) < len(chosen):
        note(f"scores are computed on {len(scored):,} rows chosen at random")
    base = (None, None)
    if voters is not None:
        base = take_at_most(rows, file.y, voters, VOTING_ROWS)[:2]
    with show_steps() as steps:
        steps.begin("scoring")
        scores = compare(learned, X, y, *base)
        numbers, gain = with_intervals(scores, y), gains_of(scores, y)
    show(numbers, gain, len(scored), "rows that fit held out" if held_out else "rows")
    if report is not None:
        from ..report import build_report

        page = build_report(
            learned,
            X,
            y,
            *base,
            title=data.name,
            class_names=file.class_names,
            feature_names=feature_names or file.feature_names,
            texts=None if lines is None else [lines[row] for row in scored],
            image_shape=shape,
            scores=scores,
            row_names=scored.tolist() if file.ids is None else list(map(str, file.ids[scored])),
        )
        write_file(report, page.encode())
        console.print(f"Report: {report}")
    write(numbers, gain, scored=len(scored), training=0 if base[1] is None else len(base[1]))


def _shape(text: str, n_features: int) -> tuple[int, ...]:
    parts = text.lower().replace(",", "x").split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        raise ValueError(
            "--image-shape must be HEIGHTxWIDTH, such as 28x28, or 32x32x3 for colours; got "
            f"{text!r}"
        )
    shape = tuple(map(int, parts))
    if prod(shape) != n_features:
        raise ValueError(
            f"--image-shape: {text} is {prod(shape):,} numbers, but rows have {n_features:,}: give "
            "the shape of the rows"
        )
    return shape
