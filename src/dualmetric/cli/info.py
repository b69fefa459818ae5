"""``dualmetric info``: what a metric file holds."""

from __future__ import annotations

from typing import Any

from ._options import Json, MetricFile, Verbose


def info(metric: MetricFile, json: Json = None, verbose: Verbose = False) -> None:
    """Show what a metric file holds: method, parameters, size, and scores when it was learned."""
    from . import _told
    from ._data import load_metric
    from ._output import check_output, make_console, write_json

    check_output(json, "--json", inputs=(metric,))
    learned = load_metric(metric)
    told = learned.info
    result = {
        "metric": str(metric),
        "file_bytes": metric.stat().st_size,
        "written_by": _told.text(told.get("version")),
        "method": _told.text(told.get("method")),
        "parameters": _told.parameters(told.get("parameters")),
        "distance": learned.kind,
        "landmarks": None if learned.lift is None else len(learned.lift.landmarks),
        "rank": learned.rank,
        "n_features": learned.n_features,
        "tfidf": learned.idf is not None,
        "feature_names": learned.feature_names is not None,
        "class_names": _told.names(told.get("class_names")),
        "rows": _told.rows(told.get("rows")),
        "scores": _told.scores(told.get("scores")),
    }
    _show(make_console(json), result)
    write_json(json, "info", result)


def _show(console: Any, result: dict[str, Any]) -> None:
    from .._system import format_bytes
    from ._output import print_facts, printable
    from ._scores import rank_in_words, score_table

    version, rows, landmarks = (result[key] for key in ("written_by", "rows", "landmarks"))
    by = f", written by dualmetric {version}" if version else ""
    facts = [("file", f"{result['metric']}, {format_bytes(result['file_bytes'])}{by}")]
    if result["method"]:
        facts.append(("method", result["method"]))
    facts += [(f"  {name}", str(value)) for name, value in (result["parameters"] or {}).items()]
    facts += [
        ("distance", result["distance"]),
        ("rank", rank_in_words(result)),
        ("lift", "none" if landmarks is None else f"kernel values with {landmarks:,} landmarks"),
        ("weights", "tf-idf of raw counts" if result["tfidf"] else "none: rows are used as is"),
        ("features", "have names" if result["feature_names"] else "have no names"),
    ]
    if result["class_names"]:
        facts.append(("classes", ", ".join(result["class_names"])))
    if rows:
        facts.append(("rows", f"{rows['learned']:,} learned from, {rows['held_out']:,} held out"))
    print_facts(console, [(printable(name), printable(value)) for name, value in facts])
    if result["scores"]:
        console.print("On held-out rows, when it was learned:")
        console.print(score_table(result["scores"]))
