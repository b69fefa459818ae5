"""``dualmetric duplicates``: rows that are the same, as pairs and as clusters."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._matching import CONFIDENCE, Confidence, Fpr, Hubs, Ids, Precision, Recall
from ._options import DataFile, Json, argument, file_option, out_option

_MATCHER = "A file that dualmetric match wrote."
_OUT = "Where to write the pairs: .csv or .parquet."
_CLUSTERS = "Where to write the cluster of each row: .csv or .parquet."
_THRESHOLD = "Accept pairs up to this distance, without a guarantee."
_LINKAGE = (
    "components joins rows that a chain of pairs connects; complete joins only rows that are all "
    "close to each other."
)


def duplicates(
    matcher: Annotated[Path, argument(metavar="MATCHER", help=_MATCHER)],
    data: DataFile,
    out: Annotated[Path | None, out_option(help=_OUT)] = None,
    clusters: Annotated[Path | None, file_option(help=_CLUSTERS)] = None,
    threshold: Annotated[float | None, typer.Option(metavar="D", help=_THRESHOLD)] = None,
    precision: Precision = None,
    recall: Recall = None,
    fpr: Fpr = None,
    confidence: Confidence = CONFIDENCE,
    hubs: Hubs = False,
    k: Annotated[
        int,
        typer.Option(
            "-k",
            min=1,
            help="Keep a pair if one of its rows is among this many nearest rows of the other.",
        ),
    ] = 10,
    linkage: Annotated[str, typer.Option(metavar="NAME", help=_LINKAGE)] = "components",
    ids: Ids = None,
    json: Json = None,
) -> None:
    """Find duplicates among all rows, as pairs and as clusters.

    By default, the threshold guarantees a precision of 0.99, with 95 %
    confidence, for pairs like the labelled ones. --precision, --recall or --fpr
    ask for another guarantee, and --threshold sets the distance itself.
    """
    import numpy as np

    from ..matching import Matcher
    from ._matching import (
        check_table,
        find_threshold,
        read_with_ids,
        table_bytes,
        threshold_record,
    )
    from ._output import check_output, make_console, note, write_file, write_json
    from ._progress import show_steps

    inputs = (matcher, data, None if ids is None else Path(ids))
    for path, option in ((out, "--out"), (clusters, "--clusters")):
        check_table(path, option)
        check_output(path, option, *inputs, out if option == "--clusters" else None)
    check_output(json, "--json", *inputs, out, clusters)
    if threshold is not None:
        asked = {"precision": precision, "recall": recall, "fpr": fpr, "hubs": hubs or None}
        asked["confidence"] = None if confidence == CONFIDENCE else confidence
        for name, value in asked.items():
            if value is not None:
                raise ValueError(
                    f"--threshold accepts pairs without a guarantee, so --{name} does not apply: "
                    "leave one of them out"
                )
    if not matcher.exists():
        raise FileNotFoundError(f"{matcher} does not exist: make it with dualmetric match")
    with show_steps() as steps:
        steps.begin("reading")
        fitted = Matcher.load(matcher)
        _, rows, names = read_with_ids(fitted.metric_, data, ids)
        limit: Any = threshold
        if threshold is None:
            steps.begin("finding a threshold")
            limit = find_threshold(
                fitted, precision, recall, fpr, confidence, hubs, way_out="--threshold D"
            )
        steps.begin("comparing all rows")
        found = fitted.duplicates(rows, limit, k=k, clusters=linkage)
    if found.n_full:
        note(f"{found.n_full:,} rows are in at least {k} pairs and may have more: use a larger -k")
    left, right = found.pairs.T.tolist()
    labels = list(range(rows.shape[0])) if names is None else names
    word = "row" if names is None else "id"
    if out is not None:
        columns = {
            f"{word}_a": [labels[row] for row in left],
            f"{word}_b": [labels[row] for row in right],
            "distance": found.distance.tolist(),
            "probability": found.probability.tolist(),
            "cluster": found.cluster[found.pairs[:, 0]].tolist(),
        }
        if linkage == "complete":  # a pair may be in two clusters
            columns["cluster_b"] = found.cluster[found.pairs[:, 1]].tolist()
        write_file(out, table_bytes(out, columns))
    sizes = np.bincount(found.cluster)
    if clusters is not None:
        each = found.cluster_probability[found.cluster]
        columns = {
            word: labels,
            "cluster": found.cluster.tolist(),
            "size": sizes[found.cluster].tolist(),
            "probability": [None if np.isnan(value) else float(value) for value in each],
        }
        write_file(clusters, table_bytes(clusters, columns))
    result = {
        "matcher": str(matcher),
        "data": str(data),
        "threshold": {"distance": threshold} if threshold is not None else threshold_record(limit),
        "rows": rows.shape[0],
        "pairs": len(found.pairs),
        "clusters": int(np.count_nonzero(sizes > 1)),
        "rows_in_clusters": int(sizes[sizes > 1].sum()),
        "largest_cluster": int(sizes.max()),
        "pair_precision": _number(found.pair_precision),
        "cluster_precision": _number(found.cluster_precision),
        "rows_with_k": found.n_full,
    }
    if fitted.prevalence_ is None:
        note(
            "thresholds and probabilities hold for pairs that are drawn like the labelled ones. "
            "Here all pairs of rows were compared, and usually far fewer of them are the same: fit "
            "the matcher with --prevalence, or check some of the pairs found"
        )
    if linkage != "complete" and found.cluster_precision < 0.9 * found.pair_precision:
        note(
            "the clusters contain more wrong pairs than the list of pairs found, because chains of "
            "pairs join different rows: try --linkage complete"
        )
    console = make_console(json)
    console.print(f"Threshold: {f'distance ≤ {threshold:.4g}' if threshold is not None else limit}")
    console.print(str(found))
    for path in filter(None, (out, clusters)):
        console.print(f"Written: {path}")
    write_json(json, "duplicates", result)


def _number(value: float) -> float | None:
    return None if value != value else value
