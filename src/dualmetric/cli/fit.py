"""``dualmetric fit``: learn a metric from a file, score it on held-out rows, save it."""

import inspect
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from ._methods import METHODS, NEED_LABELS, build_estimator, read_cv
from ._options import (
    HOLDOUT,
    DataFile,
    Json,
    Labels,
    Names,
    Pairs,
    Positives,
    Queries,
    Relevance,
    Seed,
    file_option,
    out_option,
)

SUFFIX = ".safetensors"

_METHOD = f"One of {', '.join(METHODS)}. auto chooses the options that are not given."
_TRIPLETS = (
    "Learn from triplets of row numbers (anchor, positive, negative) in a .npy, .npz or .csv file, "
    "instead of labels."
)
_COMPARISONS = (
    "Learn from comparisons, four row numbers each: the first two rows are closer than the last "
    "two. Files as for --triplets, or .jsonl of dualmetric teach."
)
_TFIDF = "DATA holds word counts: weight them, now and in later use."
_COLUMNS = "Columns of a table that are the features. Default: all but the labels."
_DROP = "Columns of a table that are not features, such as ids."
_TEST = "Score on the rows of another file."
_HOLDOUT = (
    "Share of the rows to hold out for scoring; 0 learns from all rows. Default: the rows in "
    f"test_idx, if DATA has it, or {HOLDOUT}. Of pairs and queries, 0.25, and 0 with auto, which "
    "has held-out scores of its own."
)
_CV = (
    "How auto holds out: a number of parts; classes, with labels; queries or documents, with "
    "--positives and --relevance."
)


def fit(
    data: DataFile,
    out: Annotated[Path, out_option(help="Where to write the metric.")] = Path(f"metric{SUFFIX}"),
    method: Annotated[str, typer.Option(metavar="NAME", help=_METHOD)] = "auto",
    labels: Labels = None,
    triplets: Annotated[Path | None, file_option(help=_TRIPLETS)] = None,
    comparisons: Annotated[Path | None, file_option(help=_COMPARISONS)] = None,
    pairs: Pairs = None,
    positives: Positives = None,
    relevance: Relevance = None,
    queries: Queries = None,
    cv: Annotated[str | None, typer.Option(metavar="NAME|N", help=_CV)] = None,
    tfidf: Annotated[bool, typer.Option("--tfidf", help=_TFIDF)] = False,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help=_TEST)] = None,
    holdout: Annotated[float | None, typer.Option(min=0.0, max=0.9, help=_HOLDOUT)] = None,
    columns: Annotated[str | None, typer.Option(metavar="NAME,…", help=_COLUMNS)] = None,
    drop: Annotated[str | None, typer.Option(metavar="NAME,…", help=_DROP)] = None,
    names: Names = None,
    seed: Seed = 0,
    json: Json = None,
    **options: str | None,
) -> None:
    """Learn a metric, score it beside the plain distances on what was held out, and save it."""
    import numpy as np

    from .._version import __version__
    from . import _judging, _learning
    from ._data import columns_in, read_data, read_lines, read_test_data
    from ._known import noun_of, read_known, source_of
    from ._output import check_output, make_console, note, write_json, writing
    from ._progress import show_steps
    from ._scores import as_kept, form_of, is_better

    if test is not None and holdout is not None:
        raise ValueError("--test and --holdout exclude each other: give one of them")
    given = {
        "triplets": triplets,
        "comparisons": comparisons,
        "pairs": pairs,
        "positives": positives,
        "relevance": relevance,
    }
    source = source_of(given, queries, data, "train")
    kind = None if source is None else source[0]
    if kind is not None and method in NEED_LABELS:
        raise ValueError(f"--{kind} does not apply to --method {method}: use another method")
    noun = noun_of(source)  # what is held out
    if noun != "rows" and test is not None:
        raise ValueError(f"--test does not apply to --{kind}: score with dualmetric evaluate")
    features, dropped = columns_in(columns, "--columns"), columns_in(drop, "--drop")
    if tfidf and options.get("lift") == "rbf":
        raise ValueError("--tfidf and --lift rbf exclude each other: give one of them")
    inputs = (data, test, *given.values(), queries, names)
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
    if cv is not None:
        estimator.cv = read_cv(cv, method, "labels" if kind is None else f"--{kind}")
    with show_steps() as steps:
        steps.begin("reading")
        file, rows = read_data(data, labels, columns=features, drop=dropped or ())
        given_names = read_lines(names, "--names", rows.n_features, "feature")
        known = None if source is None else read_known(source, data, file, rows, queries)
        asked = None if test is None else read_test_data(file, test, labels)
        if noun == "rows":
            share, train, held_out = _learning.split_rows(file, holdout, test is not None, seed)
            y = None if file.y is None else file.y[train]
            if kind is not None:
                y = _learning.of_training_rows(known, kind, train)
        else:
            share, train = None, np.arange(rows.shape[0])
            default = 0.0 if method == "auto" else _judging.HELD_OUT
            part = default if holdout is None else holdout
            y, held_out = _judging.hold_out_known(known, rows.shape[0], part, seed)
        if y is None and method != "euclidean":
            raise ValueError(
                f"{data} has no labels to learn from: name a file or column with --labels, or give "
                "--triplets, --comparisons, --pairs, --positives or --relevance"
            )
        if not tfidf and _learning.look_like_counts(file.X):
            note("the rows look like raw counts, of words perhaps: --tfidf weights them")
        begin = perf_counter()
        metric = _learning.learn(estimator, rows, train, y, tfidf, steps)
        seconds = perf_counter() - begin
        scores, n_scored = None, 0
        if noun != "rows":
            if held_out is not None:
                steps.begin("scoring")
                scores, _, n_scored = _judging.score_known(metric, rows, held_out)
        else:
            voters = None if file.y is None else (rows, file.y, train)
            if file.y is not None and asked is None and held_out is not None:
                asked = (rows, file.y, held_out)
            if asked is not None:
                scores, n_scored = _learning.score(metric, asked, voters, steps)
    info = {"used": len(train), "given": len(train), **metric.info.get("rows", {})}
    info = {**metric.info, "version": __version__, "rows": {**info, "held_out": n_scored}}
    info["parameters"].pop("verbose", None)  # says nothing about the metric
    class_names = None if file.class_names is None else list(file.class_names)
    split = _learning.describe_split(file, rows, share, seed)
    kept = None if scores is None else as_kept(scores)
    facts = {"class_names": class_names, "scores": kept, "split": split}
    info |= {name: value for name, value in facts.items() if value is not None}
    with writing(out):
        metric.replaced(feature_names=given_names or file.feature_names, info=info).save(out)
    choice = _choice(estimator) if method == "auto" else None
    better = None if choice is None else info["method"] != "Euclidean"
    result = {
        "metric": str(out),
        "method": info["method"],
        "parameters": info["parameters"],
        **form_of(metric),
        "rows": info["rows"],
        "seconds": round(seconds, 3),
        "duality_gap": getattr(estimator, "duality_gap_", None),
        "recommendation": estimator.recommend() if method == "auto" else None,
        "choice": choice,
        "file_bytes": out.stat().st_size,
        "scores": scores,
        "better": better if scores is None else is_better(scores),
    }
    _show(make_console(json), result, noun)
    write_json(json, "fit", result)


# Flags for the options of the estimators are added when the command runs: see _methods.
_signature = inspect.signature(fit)
fit.__signature__ = _signature.replace(  # type: ignore[attr-defined]
    parameters=[p for p in _signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
)


def _choice(estimator: Any) -> dict[str, Any]:
    """What auto found on held-out rows, pairs or queries."""
    interval = [None if end != end else float(end) for end in estimator.gain_interval_]
    new = estimator.new_documents_
    return {
        "scoring": estimator.scoring_,
        "score": float(estimator.best_score_),
        "plain": estimator.best_plain_[0],
        "plain_score": float(estimator.best_plain_[1]),
        "gain_interval": interval,
        "new_documents": None if new is None else list(map(float, new)),
    }


def _show(console: Any, result: dict[str, Any], noun: str) -> None:
    from .._arrays.system import format_bytes
    from ._scores import rank_in_words, score_table, verdict

    rows, scores, choice = result["rows"], result["scores"], result["choice"]
    if choice is not None:
        where = "a part of the training rows" if noun == "rows" else f"held-out {noun}"
        console.print(f"Chosen on {where}: {result['recommendation']}")
        if choice["new_documents"] is not None:
            ours, plain = (f"{100 * score:.1f} %" for score in choice["new_documents"])
            console.print(
                f"For queries about documents that were not judged in training: {ours}, where the "
                f"plain distance has {plain}."
            )
    if scores is not None:
        intervals = "" if noun == "rows" else ", with 95 % confidence intervals"
        console.print(f"On {rows['held_out']:,} {noun} that were not learned from{intervals}:")
        console.print(score_table(scores))
        console.print(verdict(scores, result["method"]))
    elif noun == "rows":
        console.print("No scores: there are no held-out rows with labels.")
    elif choice is None:
        console.print(f"No scores: no {noun} were held out.")
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
