"""``dualmetric fit``: learn a metric from a file, score it on held-out rows, save it."""

import inspect
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from ._methods import METHODS, NEED_LABELS, build_estimator
from ._options import HOLDOUT, DataFile, Json, Labels, Names, Seed, file_option, out_option

SUFFIX = ".safetensors"

_METHOD = f"One of {', '.join(METHODS)}. auto chooses the options that are not given."
_TRIPLETS = (
    "Learn from triplets of row numbers (anchor, positive, negative) in a .npy, .npz or .csv file, "
    "instead of labels."
)
_COMPARISONS = (
    "Learn from comparisons, four row numbers each: the first two rows are closer than the last "
    "two. Files as for --triplets."
)
_TFIDF = "DATA holds word counts: weight them, now and in later use."
_TEST = "Score on the rows of another file."
_HOLDOUT = (
    "Share of the rows to hold out for scoring; 0 learns from all rows. Default: the rows in "
    f"test_idx, if DATA has it, or {HOLDOUT}."
)


def fit(
    data: DataFile,
    out: Annotated[Path, out_option(help="Where to write the metric.")] = Path(f"metric{SUFFIX}"),
    method: Annotated[str, typer.Option(metavar="NAME", help=_METHOD)] = "auto",
    labels: Labels = None,
    triplets: Annotated[Path | None, file_option(help=_TRIPLETS)] = None,
    comparisons: Annotated[Path | None, file_option(help=_COMPARISONS)] = None,
    tfidf: Annotated[bool, typer.Option("--tfidf", help=_TFIDF)] = False,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help=_TEST)] = None,
    holdout: Annotated[float | None, typer.Option(min=0.0, max=0.9, help=_HOLDOUT)] = None,
    names: Names = None,
    seed: Seed = 0,
    json: Json = None,
    **options: str | None,
) -> None:
    """Learn a metric, score it on held-out rows beside the plain distances, and save it."""
    from .._version import __version__
    from . import _learning
    from ._data import read_data, read_lines, read_test_data
    from ._output import check_output, make_console, note, write_json, writing
    from ._progress import show_steps
    from ._scores import form_of, is_better

    if test is not None and holdout is not None:
        raise ValueError("--test and --holdout exclude each other: give one of them")
    if triplets is not None and comparisons is not None:
        raise ValueError("--triplets and --comparisons exclude each other: give one of them")
    for flag, given in (("--triplets", triplets), ("--comparisons", comparisons)):
        if given is not None and method in NEED_LABELS:
            raise ValueError(f"{flag} does not apply to --method {method}: use another method")
    if tfidf and options.get("lift") == "rbf":
        raise ValueError("--tfidf and --lift rbf exclude each other: give one of them")
    inputs = (data, test, triplets, comparisons, names)
    check_output(out, "--out", *inputs)
    check_output(json, "--json", *inputs, out)
    if out.suffix not in ("", SUFFIX):
        raise ValueError(
            f"--out: metric files must end in {SUFFIX}; got {out.name}. dualmetric export writes "
            "other formats"
        )
    if method == "auto" and tfidf:
        options["lift"] = "none"  # no metric has both
    estimator = build_estimator(method, options, seed)
    with show_steps() as steps:
        steps.begin("reading")
        file, rows = read_data(data, labels)
        given_names = read_lines(names, "--names", rows.n_features, "feature")
        queries = None if test is None else read_test_data(file, test, labels)
        share, train, held_out = _learning.split_rows(file, holdout, test is not None, seed)
        y = _learning.read_supervision(file, train, triplets, comparisons)
        if y is None and method != "euclidean":
            raise ValueError(
                f"{data} has no labels to learn from: name a file or column with --labels, or give "
                "--triplets or --comparisons"
            )
        if not tfidf and _learning.look_like_counts(file.X):
            note("the rows look like raw counts, of words perhaps: --tfidf weights them")
        begin = perf_counter()
        metric = _learning.learn(estimator, rows, train, y, tfidf, steps)
        seconds = perf_counter() - begin
        voters = None if file.y is None else (rows, file.y, train)
        if file.y is not None and queries is None and held_out is not None:
            queries = (rows, file.y, held_out)
        scores, n_scored = None, 0
        if queries is not None:
            scores, n_scored = _learning.score(metric, queries, voters, steps)
    info = {"used": len(train), "given": len(train), **metric.info.get("rows", {})}
    info = {**metric.info, "version": __version__, "rows": {**info, "held_out": n_scored}}
    info["parameters"].pop("verbose", None)  # says nothing about the metric
    class_names = None if file.class_names is None else list(file.class_names)
    split = _learning.describe_split(file, rows, share, seed)
    known = {"class_names": class_names, "scores": scores, "split": split}
    info |= {name: value for name, value in known.items() if value is not None}
    with writing(out):
        metric.replaced(feature_names=given_names or file.feature_names, info=info).save(out)
    result = {
        "metric": str(out),
        "method": info["method"],
        "parameters": info["parameters"],
        **form_of(metric),
        "rows": info["rows"],
        "seconds": round(seconds, 3),
        "duality_gap": getattr(estimator, "duality_gap_", None),
        "recommendation": estimator.recommend() if method == "auto" else None,
        "file_bytes": out.stat().st_size,
        "scores": scores,
        "better": None if scores is None else is_better(scores),
    }
    _show(make_console(json), result)
    write_json(json, "fit", result)


# Flags for the options of the estimators are added when the command runs: see _methods.
_signature = inspect.signature(fit)
fit.__signature__ = _signature.replace(  # type: ignore[attr-defined]
    parameters=[p for p in _signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
)


def _show(console: Any, result: dict[str, Any]) -> None:
    from .._arrays.system import format_bytes
    from ._scores import rank_in_words, score_table, verdict

    rows, scores = result["rows"], result["scores"]
    if result["recommendation"] is not None:
        console.print(f"Chosen on a part of the training rows: {result['recommendation']}")
    if scores is not None:
        console.print(f"On {rows['held_out']:,} rows that were not learned from:")
        console.print(score_table(scores))
        console.print(verdict(scores, result["method"]))
    else:
        console.print("No scores: there are no held-out rows with labels.")
    if rows["used"] < rows["given"]:
        console.print(
            f"Learned from {rows['used']:,} of {rows['given']:,} rows; --max-rows changes that."
        )
    gap = result["duality_gap"]
    facts = (
        f"{result['method']} learned from {rows['used']:,} rows in {result['seconds']:.1f} s",
        None if gap is None else f"duality gap {gap:.3g}",
        f"rank {rank_in_words(result)}",
        f"{result['metric']}, {format_bytes(result['file_bytes'])}",
    )
    console.print("; ".join(filter(None, facts)))
