"""``dualmetric fit``: learn a metric from a file, score it on held-out rows, save it."""

import inspect
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from ._matching import Ids, QueryIds
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

_METHOD = (
    "auto tries many methods and settings, and chooses by their scores on held-out data. To use a "
    "single method: "
    f"{', '.join(name for name in METHODS if name != 'auto')}."
)
_TRIPLETS = (
    "Triplets. Each line holds three row numbers: the first row is closer to the second than to "
    "the third. A .csv, .tsv, .npy, .npz or .parquet file."
)
_COMPARISONS = (
    "Comparisons. Each line holds four row numbers: the first two rows are closer than the last "
    "two. Files as for --triplets, or the .jsonl file of dualmetric teach."
)
_TFIDF = "DATA holds word counts: weight them by tf-idf. The saved metric then expects raw counts."
_STANDARDIZE = (
    "Divide each column by its standard deviation before learning: for features in different "
    "units. The saved metric then expects rows in the original units."
)
_COLUMNS = "Columns of a table to learn from. Default: all but the labels."
_DROP = "Columns of a table to leave out, such as ids."
_TEST = "Score on the rows of this file, instead of held-out rows."
_HOLDOUT = (
    "Share of the rows to hold out for scoring; 0 learns from all rows. Default: the rows in "
    f"test_idx if DATA has it, else {HOLDOUT}. For pairs and queries: 0.25; with --method auto 0, "
    "because auto holds out data itself."
)
_CV = (
    "How auto holds out data to choose by: a number of folds; classes (with labels); queries or "
    "documents (with --positives or --relevance)."
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
    standardize: Annotated[bool, typer.Option("--standardize", help=_STANDARDIZE)] = False,
    test: Annotated[Path | None, typer.Option(metavar="DATA", help=_TEST)] = None,
    holdout: Annotated[float | None, typer.Option(min=0.0, max=0.9, help=_HOLDOUT)] = None,
    columns: Annotated[str | None, typer.Option(metavar="NAME,…", help=_COLUMNS)] = None,
    drop: Annotated[str | None, typer.Option(metavar="NAME,…", help=_DROP)] = None,
    ids: Ids = None,
    query_ids: QueryIds = None,
    names: Names = None,
    seed: Seed = 0,
    json: Json = None,
    **options: str | None,
) -> None:
    """Learn a distance, compare it with the plain ones on held-out rows, and save it."""
    import numpy as np

    from .._version import __version__
    from . import _judging, _learning
    from ._data import column_of, columns_in, read_data, read_lines, read_test_data
    from ._known import noun_of, read_known, source_of
    from ._matching import read_ids
    from ._output import check_output, make_console, note, write_json, writing
    from ._progress import show_steps
    from ._scores import as_kept, form_of, is_better, plain_name

    if test is not None and holdout is not None:
        raise ValueError("--test and --holdout cannot be combined: give one of them")
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
    if query_ids is not None and queries is None:
        raise ValueError("--query-ids names the rows of --queries: give both or neither")
    if noun != "rows" and labels is not None and Path(labels).is_file():
        raise ValueError(f"--labels and --{kind} cannot be combined: give one of them")
    if noun != "rows" and test is not None:
        raise ValueError(f"--test does not apply to --{kind}: score with dualmetric evaluate")
    features, dropped = columns_in(columns, "--columns"), columns_in(drop, "--drop") or []
    if (column := column_of(data, ids)) is not None and column not in dropped:
        dropped.append(column)
    if tfidf and standardize:
        raise ValueError("--tfidf and --standardize cannot be combined: give one of them")
    weights = "tfidf" if tfidf else "standardize" if standardize else None
    inputs = (data, test, *given.values(), queries, names, None if ids is None else Path(ids))
    check_output(out, "--out", *inputs)
    check_output(json, "--json", *inputs, out)
    if out.suffix not in ("", SUFFIX):
        raise ValueError(
            f"--out: metric files must end in {SUFFIX}; got {out.name}. dualmetric export writes "
            "other formats"
        )
    estimator = build_estimator(method, options, seed)
    if (use := getattr(estimator, "require", None)) and options.get("lift") == "rbf":
        raise ValueError(
            f"--for {use} and --lift rbf cannot be combined, because a metric on kernel values is "
            "not linear: give one of them"
        )
    if use == "faiss" and tfidf:
        raise ValueError(
            "--for faiss and --tfidf cannot be combined, because FAISS cannot weight counts: leave "
            f"--for out, and index the vectors of dualmetric transform {out} DATA -o vectors.npy"
        )
    if cv is not None:
        estimator.cv = read_cv(cv, method, "labels" if kind is None else f"--{kind}")
    with show_steps() as steps:
        steps.begin("reading")
        file, rows = read_data(data, labels, columns=features, drop=dropped)
        given_names = read_lines(names, "--names", rows.n_features, "feature")
        row_ids = read_ids(data, ids, rows.shape[0])
        known = described = None
        if source is not None:
            known = read_known(source, data, file, rows, queries, row_ids, query_ids, ids)
        asked = None if test is None else read_test_data(file, test, labels)
        if kind is None and method != "euclidean":
            from_file = labels is not None and Path(labels).is_file()
            _learning.check_classes(file, str(labels if from_file else data))
        if noun == "rows":
            share, train, held_out = _learning.split_rows(file, holdout, test is not None, seed)
            y = None if file.y is None else file.y[train]
            if kind is not None:
                y = _learning.of_training_rows(known, kind, train)
        else:
            share, train = None, np.arange(rows.shape[0])
            default = 0.0 if method == "auto" else _judging.HELD_OUT
            part = default if holdout is None else holdout
            described = _judging.describe_known(known, rows, part, seed)
            _judging.note_rows_as_queries(known)
            y, held_out = _judging.hold_out_known(known, rows.shape[0], part, seed)
            if held_out is None:
                _judging.note_random(y)
        if y is None and method != "euclidean":
            raise ValueError(
                f"{data} has no labels to learn from: name a file or column with --labels, or give "
                "--triplets, --comparisons, --pairs, --positives or --relevance"
            )
        if not tfidf and _learning.look_like_counts(file.X):
            note("the rows look like word counts: --tfidf weights them, which often helps")
        begin = perf_counter()
        metric = _learning.learn(estimator, rows, train, y, weights, steps)
        seconds = perf_counter() - begin
        scores, gain, n_scored = None, None, 0
        if noun != "rows":
            if held_out is not None:
                steps.begin("scoring")
                scores, gain, n_scored = _judging.score_known(metric, rows, held_out)
        else:
            voters = None if file.y is None else (rows, file.y, train)
            if file.y is not None and asked is None and held_out is not None:
                asked = (rows, file.y, held_out)
            if asked is not None:
                scores, gain, n_scored = _learning.score(metric, asked, voters, steps)
    info = {"used": len(train), "given": len(train), **metric.info.get("rows", {})}
    info = {**metric.info, "version": __version__, "rows": {**info, "held_out": n_scored}}
    info["parameters"].pop("verbose", None)  # says nothing about the metric
    class_names = None if file.class_names is None else list(file.class_names)
    split = _learning.describe_split(file, rows, share, seed)
    kept = None if scores is None else as_kept(scores)
    facts = {
        "class_names": class_names,
        "scores": kept,
        "split": split,
        # the plain distance was not learned from them
        "known": None if info["method"] == "Euclidean" else described,
        "standardize": standardize or None,
    }
    info |= {name: value for name, value in facts.items() if value is not None}
    with writing(out):
        metric.replaced(feature_names=given_names or file.feature_names, info=info).save(out)
    choice = _choice(estimator) if method == "auto" else None
    is_plain = info["method"] == "Euclidean"
    better = None if choice is None else not is_plain
    result = {
        "metric": str(out),
        "method": info["method"],
        "parameters": info["parameters"],
        **form_of(metric),
        "standardize": standardize,
        "rows": info["rows"],
        "seconds": round(seconds, 3),
        "duality_gap": getattr(estimator, "duality_gap_", None),
        "recommendation": estimator.recommend() if method == "auto" else None,
        "choice": choice,
        "file_bytes": out.stat().st_size,
        "scores": scores,
        "better": better if scores is None else not is_plain and is_better(scores),
    }
    if noun == "rows":
        learned = _describe_rows(info["rows"], rows.shape[0], held_out, share, test)
    else:
        n_known = _judging.n_units(y)
        learned = f"{n_known:,} {noun} over {rows.shape[0]:,} rows"
        if held_out is not None:
            learned += f", {n_scored:,} held out"
        elif method == "auto" and not is_plain:
            learned = f"all {learned}, with settings chosen by cross-validation"
        elif method != "auto":
            learned += ", none held out"
    said = {
        "learned": learned,
        "gain": gain,
        "choice": None
        if choice is None
        else _describe_choice(estimator, choice, weights, n_scored),
        "kept": plain_name(metric) if is_plain else None,
        "tried": choice is not None
        and bool((estimator.cv_results_["estimator"] != "Euclidean").any()),
        "no_holdout": holdout == 0,
        "new_classes": choice is not None and estimator.held_out_ == "classes",
    }
    _show(make_console(json), result, noun, said)
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
        "score": float(estimator.expected_score_),
        "plain": estimator.best_plain_[0],
        "plain_score": float(estimator.best_plain_[1]),
        "gain_interval": interval,
        "new_documents": None if new is None else list(map(float, new)),
    }


def _describe_rows(
    rows: dict[str, int], total: int, held_out: Any, share: float | None, test: Path | None
) -> str:
    """Which rows were learned from and which were held out, in words."""
    used = rows["used"]
    learned = f"all {total:,} rows" if used == total else f"{used:,} of {total:,} rows"
    if used < rows["given"]:
        learned += " (limited by --max-rows)"
    if test is not None:
        return f"{learned}, scored on {test}"
    if held_out is None:
        return f"{learned}, none held out"
    how = "given by test_idx" if share is None else f"{100 * share:g} % of each class"
    return f"{learned}, {len(held_out):,} held out ({how})"


def _describe_choice(
    estimator: Any, choice: dict[str, Any], weights: str | None, n_scored: int
) -> str:
    """What auto chose and why, in words."""
    from ..estimators._race import is_default_ridge
    from ..estimators.search import RIDGE_REASON, SCORES
    from ._methods import options_in_words
    from ._scores import NAMES

    best = estimator.best_estimator_
    where = f"held-out {estimator.held_out_}"
    if estimator.held_out_ == "rows":  # those of the table, if there is one, are others
        where = "held-out training rows" if n_scored else "rows held out for the choice"
    plain = f"the {NAMES[choice['plain']]}"
    if weights == "standardize":
        plain += " of standardized columns"
    score, before = (f"{100 * choice[key]:.1f} %" for key in ("score", "plain_score"))
    low, high = ("?" if end is None else f"{100 * end:.1f}" for end in choice["gain_interval"])
    interval = f"95 % interval of the gain: {low} to {high} points"
    name = SCORES.get(choice["scoring"], choice["scoring"])
    if type(best).__name__ == "Euclidean":
        if choice["gain_interval"][0] is None:
            return estimator.recommend()
        return (
            f"Kept {plain}: on {where}, no learned distance is significantly better ({name} "
            f"{before}; {interval})."
        )
    low_end, high_end = choice["gain_interval"]
    sure = low_end is None or low_end > 0.0
    compared = f"up from {before} with {plain}" if sure else f"where {plain} has {before}"
    doubt = "" if sure or high_end < 0.0 else " The difference may be due to chance."
    if not sure and is_default_ridge(type(best).__name__, estimator.best_params_):
        doubt += f" {RIDGE_REASON}"
    return (
        f"Chose {type(best).__name__} ({options_in_words(best)}): {name} {score} on {where}, "
        f"{compared} ({interval}).{doubt}"
    )


def describe_new_documents(learned: float, plain: float) -> str:
    """Scores of queries about documents that were not judged, in words."""
    ours, theirs = (round(100 * score, 1) for score in (learned, plain))
    side = "above" if ours >= theirs else "below"
    return (
        f"For queries about documents that were not judged in training: {ours:.1f} %, "
        f"{abs(ours - theirs):.1f} points {side} the plain distance ({theirs:.1f} %)."
    )


def _show(console: Any, result: dict[str, Any], noun: str, said: dict[str, Any]) -> None:
    from .._arrays.system import format_bytes
    from ._scores import rank_in_words, score_table, verdict

    rows, scores, choice = result["rows"], result["scores"], result["choice"]
    how = "Learned from"
    if said["kept"] is not None:  # nothing was learned
        how = "Compared methods on" if said["tried"] else "Scored the plain distances on"
        if choice is None:
            how = "Set up the plain distance from"
    console.print(f"{how} {said['learned']}, in {result['seconds']:.1f} s.")
    if choice is not None:
        console.print(said["choice"])
        if choice["new_documents"] is not None and said["kept"] is None:
            console.print(describe_new_documents(*choice["new_documents"]))
    if scores is not None:
        intervals = "" if noun == "rows" else ", with 95 % confidence intervals"
        which = " that were not learned from"
        if choice is not None:
            which = ", used neither for learning nor for this choice"
        console.print(f"On {rows['held_out']:,} {noun}{which}{intervals}:")
        console.print(score_table(scores, said["kept"]))
        if said["kept"] is None:
            console.print(verdict(scores, said["gain"], result["method"]))
        if said["new_classes"]:
            console.print(
                "The table is for new rows of known classes. For new classes, see the line about "
                "held-out classes."
            )
    elif said["no_holdout"]:
        console.print("No test scores, because of --holdout 0.")
    elif noun == "rows":
        why = "no rows with labels were held out"
        if rows["held_out"]:
            why = "no two held-out rows have the same label"
        console.print(f"No scores: {why}.")
    elif choice is None:
        console.print(f"No scores: no {noun} were held out.")
    console.print(
        f"Metric: {result['metric']}, {format_bytes(result['file_bytes'])}, rank "
        f"{rank_in_words(result)}"
    )
