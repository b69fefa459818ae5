"""``dualmetric info``: the contents of a metric file."""

from typing import Any

from ._matching import same_in_words
from ._options import Json, MetricFile
from ._output import check_output, make_console, print_facts, printable, write_json


def info(metric: MetricFile, json: Json = None) -> None:
    """Show what a metric file holds: method, settings, size, and the scores of the fit."""
    from ._data import load_matcher, load_metric
    from ._scores import form_of, plain_name

    check_output(json, "--json", metric)
    learned = load_metric(metric)
    matcher = load_matcher(metric)
    info = learned.info
    names = _checked(info.get("class_names"), list)
    result = {
        "metric": str(metric),
        "file_bytes": metric.stat().st_size,
        "written_by": _checked(info.get("version"), str),
        "method": _checked(info.get("method"), str),
        "parameters": _checked(info.get("parameters"), dict),
        **form_of(learned),
        "standardize": info.get("standardize") is True,
        "feature_names": learned.feature_names is not None,
        "class_names": names if all(isinstance(name, str) for name in names or ()) else None,
        "rows": _numbers(info.get("rows"), ("used", "given", "held_out"), int),
        "scores": _scores(info.get("scores")),
        "matcher": None if matcher is None else _matcher(matcher),
    }
    kept = plain_name(learned) if info.get("method") == "Euclidean" else None
    _show(make_console(json), result, kept)
    write_json(json, "info", result)


def _matcher(matcher: Any) -> dict[str, Any]:
    same = matcher.pairs_.same
    return {
        "same": int(same.sum()),
        "different": int((~same).sum()),
        "calibration": matcher.calibration_.form,
        "prevalence": matcher.prevalence_,
    }


# Anyone may write a metric file: entries that fit would not write are left out.


def _checked(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else None


def _numbers(value: Any, keys: Any, *kinds: type) -> dict[str, Any] | None:
    """The entries of a dict with these keys, if all of them are numbers of these kinds."""
    found = {key: (_checked(value, dict) or {}).get(key) for key in keys}
    return found if all(type(number) in kinds for number in found.values()) else None


def _scores(value: Any) -> dict[str, Any] | None:
    """The scores of those distances that have all of them."""
    from ._scores import HEADINGS, JUDGED, NAMES, PAIRS

    kept = _checked(value, dict) or {}
    old = ("map", "knn", "hit_rate")  # of labels, before 0.2
    # few pairs have no rates
    for keys in (HEADINGS, old, JUDGED, *(list(PAIRS)[:n] for n in range(len(PAIRS), 0, -1))):
        found = {name: _numbers(kept.get(name), keys, int, float) for name in NAMES}
        valid = {k: v for k, v in found.items() if v and all(0 <= x <= 1 for x in v.values())}
        if valid:
            return valid
    return None


def _show(console: Any, result: dict[str, Any], kept: str | None) -> None:
    from .._arrays.system import format_bytes
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
        ("tf-idf", "yes" if result["tfidf"] else "no"),
        ("standardized", "yes" if result["standardize"] else "no"),
        ("feature names", "yes" if result["feature_names"] else "none"),
    ]
    if result["class_names"]:
        facts.append(("classes", ", ".join(result["class_names"])))
    if rows:
        of_all = f" of {rows['given']:,}" if rows["used"] < rows["given"] else ""
        learned = f"{rows['used']:,}{of_all} learned from"
        facts.append(("rows", f"{learned}, {rows['held_out']:,} held out"))
    if pairs := result["matcher"]:
        known = f"{same_in_words(pairs['same'])} and {pairs['different']:,} different"
        share = "" if pairs["prevalence"] is None else f"; prevalence {pairs['prevalence']:g}"
        facts.append(("matcher", f"fitted to {known}{share}"))
    print_facts(console, [(printable(name), printable(value)) for name, value in facts])
    if result["scores"]:
        console.print("Scores on what was held out when the metric was learned:")
        console.print(score_table(result["scores"], kept))
