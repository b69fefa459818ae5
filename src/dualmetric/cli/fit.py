"""``dualmetric fit``: learn a metric from a file, score it on held-out rows, save it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._methods import DEFAULT_METHOD, METHODS
from ._options import DataFile, Json, Labels, Names, Verbose
from ._parts import HOLDOUT

if TYPE_CHECKING:
    from .._types import Array
    from ..learners._base import MetricLearner
    from ..metric import Metric
    from ..rowfiles import RowFile
    from ._learning import Steps
    from ._parts import Part

SUFFIX = ".safetensors"


def fit(
    data: DataFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the metric.")
    ] = Path(f"metric{SUFFIX}"),
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(METHODS)}. auto chooses the settings that are not given.",
        ),
    ] = DEFAULT_METHOD,
    labels: Labels = None,
    triplets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Learn from triples of row numbers (anchor, positive, negative) in a .npy, .npz "
            "or .csv file, in place of labels.",
        ),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(min=1, help="How many directions to keep; few make search fast.")
    ] = None,
    shrinkage: Annotated[
        float | None,
        typer.Option(help="Between 0 and 1: try 0.84 for text, 0.1 for pixels; 1 is the paper's."),
    ] = None,
    distance: Annotated[
        str | None, typer.Option(metavar="NAME", help="euclidean or cosine.")
    ] = None,
    projections: Annotated[
        int | None, typer.Option(min=1, help="Dimensions to learn in: 10 or more.")
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="active ranks best, neighbors aids k-NN."),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="How much directions differ in length: 0 makes all alike; 0.5 is the paper's."
        ),
    ] = None,
    lift: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="rbf learns on kernel values of dense rows; none leaves rows as they are.",
        ),
    ] = None,
    tfidf: Annotated[
        bool,
        typer.Option("--tfidf", help="DATA holds counts of words: weight them, and remember that."),
    ] = False,
    test: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Score on the rows of another file.")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Share of the rows that is not learned from, but scored on; 0 learns from all. "
            f"Default: what test_idx in DATA says, or {HOLDOUT}.",
        ),
    ] = None,
    names: Names = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    json: Json = None,
    verbose: Verbose = False,
) -> None:
    """Learn a metric, score it on held-out rows beside the plain distances, and save it."""
    from ..products import is_sparse
    from ._data import read_data, read_names, read_test_data
    from ._learning import steps_on_terminal
    from ._memory import describe_split
    from ._methods import WITHOUT_TRIPLETS, build_learner
    from ._output import check_output, make_console, note, write_json, writing
    from ._parts import held_out_share, split
    from ._scores import is_better
    from ._triplets import read_triplets

    if test is not None and holdout is not None:
        raise ValueError("--test and --holdout exclude each other: give one of them")
    if triplets is not None and method in WITHOUT_TRIPLETS:
        raise ValueError(f"--triplets do not go with --method {method}: it needs labels, or none")
    if tfidf and lift == "rbf":
        raise ValueError("--tfidf and --lift rbf exclude each other: give one of them")
    inputs = (data, test, triplets, names)
    check_output(out, "--out", inputs=inputs)
    check_output(json, "--json", inputs=(*inputs, out))
    if out.suffix not in ("", SUFFIX):
        raise ValueError(
            f"--out: {out.name} is no name for a metric, which ends in {SUFFIX}; dualmetric export "
            "writes other files"
        )
    options = {
        "--rank": rank,
        "--shrinkage": shrinkage,
        "--distance": distance,
        "--projections": projections,
        "--sampler": sampler,
        "--power": power,
        "--lift": lift,
    }
    if method == "auto" and triplets is not None:
        method = "durp"  # held-out rows without labels cannot be scored
    if method == "auto" and tfidf:
        options["--lift"] = "none"  # no metric has both
    learner = build_learner(method, options, seed)
    console = make_console(json)
    with steps_on_terminal() as steps:
        steps.begin("reading")
        file = read_data(data, labels)
        feature_names = read_names(names, file.X.shape[1]) or file.feature_names
        if lift == "rbf" and is_sparse(file.X):
            raise ValueError(f"--lift rbf takes dense rows, and those of {data} are sparse")
        given = None if triplets is None else read_triplets(triplets, file.X.shape[0])
        if file.y is None and given is None and method != "euclidean":
            raise ValueError(
                f"{data} has no labels to learn from: name a file or column with --labels, or "
                "give --triplets"
            )
        tested = None if test is None else read_test_data(file, test, labels)
        train, held_out, given = split(file, tested, given, holdout, seed)
        if not tfidf and _look_like_counts(file.X):
            note("the rows look like raw counts, of words perhaps: --tfidf weights them")
        begin = perf_counter()
        metric, gap, advice = _learn(learner, train, given, tfidf, steps)
        seconds = perf_counter() - begin
        scores = _score(metric, train, held_out, steps)
    metric = _described(metric, file, feature_names, train, held_out, scores)
    kept = describe_split(file, held_out_share(file, tested, holdout), seed)
    metric = metric if kept is None else metric.with_info(split=kept)
    with writing(out):
        metric.save(out)
    result = {
        "metric": str(out),
        "method": metric.info["method"],
        "parameters": metric.info["parameters"],
        "distance": metric.kind,
        "tfidf": tfidf,
        "landmarks": None if metric.lift is None else len(metric.lift.landmarks),
        "rank": metric.rank,
        "n_features": metric.n_features,
        "rows": metric.info["rows"],
        "seconds": round(seconds, 3),
        "duality_gap": gap,
        "recommendation": advice,
        "file_bytes": out.stat().st_size,
        "scores": scores,
        "better": None if scores is None else is_better(scores),
    }
    _show(console, result)
    write_json(json, "fit", result)


def _look_like_counts(X: Any) -> bool:
    from ..products import is_sparse

    return is_sparse(X) and bool(X.nnz and X.data.min() >= 0 and (X.data % 1 == 0).all())


def _learn(
    learner: MetricLearner, train: Part, triplets: Array | None, tfidf: bool, steps: Steps
) -> tuple[Metric, float | None, str | None]:
    """Metric for rows as they are in the file, the duality gap and the advice, if there are any."""
    from .. import weighting
    from ._learning import reporting

    X, idf = train.X, None
    if tfidf:
        steps.begin("weighting")
        idf = weighting.fit_idf(X)
        X = weighting.tfidf(X, idf)
    learner = reporting(learner, steps.epoch)
    epochs = learner.max_epochs if hasattr(learner, "_print_epoch") else None
    steps.begin("choosing and learning" if hasattr(learner, "recommend") else "learning", epochs)
    if triplets is None:
        learner.fit(X, train.y)
    else:
        learner.fit(X, triplets=triplets)
    metric = learner.metric_ if idf is None else learner.metric_.with_idf(idf)
    advice = learner.recommend() if hasattr(learner, "recommend") else None
    return metric, getattr(learner, "duality_gap_", None), advice


def _score(
    metric: Metric, train: Part, held_out: Part | None, steps: Steps
) -> dict[str, dict[str, float]] | None:
    """Scores of the plain and the learned distances; None where there is nothing to score on."""
    import numpy as np

    from ..comparison import compare
    from ._output import note
    from ._parts import VOTING_ROWS
    from ._scores import as_numbers

    if held_out is None or held_out.y is None:
        return None
    if np.unique(held_out.y, return_counts=True)[1].max() < 2:
        note("no class has two held-out rows, so that there is nothing to score: hold out more")
        return None
    steps.begin("scoring")
    X, y = train.X, train.y
    if y is None:
        return as_numbers(compare(metric, held_out.X, held_out.y))
    if len(y) > VOTING_ROWS:
        voters = np.random.default_rng(0).choice(len(y), VOTING_ROWS, replace=False)
        X, y = X[voters], y[voters]
    return as_numbers(compare(metric, held_out.X, held_out.y, X, y))


def _described(
    metric: Metric, file: RowFile, names: Any, train: Part, held_out: Part | None, scores: Any
) -> Metric:
    """The metric, with all that its file is to tell."""
    from .._version import __version__

    info = {
        **metric.info,
        "version": __version__,
        "rows": {"learned": len(train), "held_out": len(held_out) if held_out else 0},
    }
    info["parameters"].pop("verbose", None)  # says nothing of the metric
    if file.class_names is not None:
        info["class_names"] = list(file.class_names)
    if scores is not None:
        info["scores"] = scores
    return metric.replaced(feature_names=names, info=info)


def _show(console: Any, result: dict[str, Any]) -> None:
    from .._system import format_bytes
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
    gap = result["duality_gap"]
    facts = (
        f"{result['method']} learned from {rows['learned']:,} rows in {result['seconds']:.1f} s",
        None if gap is None else f"duality gap {gap:.3g}",
        f"rank {rank_in_words(result)}",
        f"{result['metric']}, {format_bytes(result['file_bytes'])}",
    )
    console.print("; ".join(filter(None, facts)))
