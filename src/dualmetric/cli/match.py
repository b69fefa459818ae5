"""``dualmetric match``: probabilities and thresholds for a metric, from labelled pairs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._matching import CONFIDENCE, Confidence, Fpr, Groups, Hubs, Ids, Precision, Recall
from ._options import DataFile, Json, MetricFile, Texts, file_option, out_option

SUFFIX = ".safetensors"

_PAIRS = (
    "Labelled pairs that the metric was not learned from. Each line holds two row numbers (with "
    "--ids, two ids in a text file) and 1 (same) or 0 (different). A .csv, .tsv, .npy, .npz or "
    ".parquet file."
)
_TEST = "Other labelled pairs, to score the probabilities on."
_PREVALENCE = (
    "Share of the pairs to decide on that are the same, if it differs from this share of the "
    "labelled pairs."
)
_REPORT = "Write an HTML page with charts and the worst errors (on --test-pairs, if given)."


def match(
    metric: MetricFile,
    data: DataFile,
    pairs: Annotated[Path, file_option(help=_PAIRS)],
    out: Annotated[Path, out_option(help="Where to write the metric and the matcher.")] = Path(
        f"matcher{SUFFIX}"
    ),
    precision: Precision = None,
    recall: Recall = None,
    fpr: Fpr = None,
    confidence: Confidence = CONFIDENCE,
    hubs: Hubs = False,
    prevalence: Annotated[float | None, typer.Option(metavar="P", help=_PREVALENCE)] = None,
    groups: Groups = None,
    ids: Ids = None,
    test_pairs: Annotated[Path | None, file_option(help=_TEST)] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help=_REPORT)] = None,
    texts: Texts = None,
    json: Json = None,
) -> None:
    """Turn distances into probabilities of a match, and find a threshold with a guarantee.

    Without --precision, --recall or --fpr, the threshold guarantees a precision
    of 0.99. If there are too few labelled pairs for the guarantee, the command
    says how many more are needed, and no threshold is given.
    """
    from dataclasses import asdict

    from ..matching import Matcher, NotEnoughPairsError
    from ..matching._calibration import FORM_NAMES
    from ._data import load_metric, read_lines, read_texts
    from ._judging import not_learned_from
    from ._known import read_known
    from ._matching import find_threshold, read_with_ids, same_in_words, threshold_record
    from ._output import (
        check_output,
        check_report,
        make_console,
        note,
        write_file,
        write_json,
        writing,
    )
    from ._progress import show_steps

    read = (data, pairs, groups, test_pairs, Path(texts) if texts else None)
    inputs = (metric, *read)
    check_report(report, *inputs)
    check_output(json, "--json", *inputs, report)
    check_output(out, "--out", *read, report)
    if out.suffix not in ("", SUFFIX):
        raise ValueError(f"--out: metric files must end in {SUFFIX}; got {out.name}")
    if test_pairs is not None and test_pairs.resolve() == pairs.resolve():
        raise ValueError(
            "--test-pairs and --pairs are the same file: score on pairs that the matcher was not "
            "fitted to"
        )
    if texts is not None and report is None:
        raise ValueError("--texts needs --report, the page that shows them")
    test, scores, threshold, refusal = None, None, None, None
    with show_steps() as steps:
        steps.begin("reading")
        learned = load_metric(metric)
        file, rows, names = read_with_ids(learned, data, ids)
        entities = read_lines(groups, "--groups", rows.shape[0], "row")
        lines = read_texts(texts, data, rows.shape[0])
        known = read_known(("pairs", pairs), data, file, rows, names=names, ids_from=ids)
        known, are_old = not_learned_from(learned, known, rows)
        if known is None:
            raise ValueError(
                f"--pairs: {metric} was learned from the pairs in {pairs}, so a threshold would be "
                "wrong for other pairs: give other labelled pairs; or run fit again with --holdout "
                "0.25, and match will use the pairs that fit held out"
            )
        if are_old:
            note(
                f"{metric} was learned from {pairs}: only the {len(known):,} pairs that fit held "
                "out are used"
            )
        if test_pairs is not None:
            test = read_known(("pairs", test_pairs), data, file, rows, names=names, ids_from=ids)
            if not_learned_from(learned, test, rows)[1]:
                raise ValueError(
                    f"--test-pairs: {metric} was learned from the pairs in {test_pairs}, so scores "
                    "would be too optimistic: give other pairs"
                )
        steps.begin("fitting to the pairs")
        matcher = Matcher(learned).fit(rows, known, groups=entities, prevalence=prevalence)
        if test is not None:
            steps.begin("scoring")
            scores = matcher.evaluate(rows, test, groups=entities)
        steps.begin("finding a threshold")
        try:
            way_out = "dualmetric duplicates --threshold D"
            threshold = find_threshold(matcher, precision, recall, fpr, confidence, hubs, way_out)
        except NotEnoughPairsError as error:
            refusal = {"reason": str(error), "needed": error.needed}
        with writing(out):
            matcher.save(out)
        if report is not None:
            from ..report import build_match_report

            steps.begin("writing the report")
            if names is None and file.ids is not None:
                names = file.ids.tolist()
            page = build_match_report(
                matcher, rows, known if test is None else test, title=data.name, texts=lines,
                threshold=threshold, held_out=test is not None,
                row_names=None if names is None else [str(name) for name in names],
            )  # fmt: skip
            write_file(report, page.encode())
    same = matcher.pairs_.same
    n_same, n_different = int(same.sum()), int((~same).sum())
    result: dict[str, Any] = {
        "metric": str(metric),
        "data": str(data),
        "matcher": str(out),
        "pairs": {"same": n_same, "different": n_different},
        "calibration": matcher.calibration_.form,
        "prevalence": prevalence,
        "threshold": None if threshold is None else threshold_record(threshold),
        "refusal": refusal,
        "scores": None if scores is None else asdict(scores),
    }
    console = make_console(json)
    console.print(
        f"Fitted to {same_in_words(n_same)} and {n_different:,} that "
        f"{'is' if n_different == 1 else 'are'} different; "
        f"probabilities by {FORM_NAMES[result['calibration']]}."
    )
    if scores is not None:
        console.print(
            f"On {scores.n_pairs:,} other pairs: log loss {scores.log_loss:.4f}, calibration error "
            f"{scores.calibration_error:.4f}, average precision {scores.average_precision:.3f}"
        )
    console.print(
        f"Threshold: {threshold}" if refusal is None else f"No threshold: {refusal['reason']}"
    )
    console.print(f"Matcher: {out}")
    if report is not None:
        console.print(f"Report: {report}")
    write_json(json, "match", result)
