"""Write the tables of docs/benchmarks.md from benchmarks/results.

python benchmarks/peers_page.py
"""

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import t

from _common import commits, records, results
from _peers_methods import KERNEL, METHODS, PEERS, UNSEEN
from dualmetric.io.atomic import write_atomically
from peers import NEW_CLASSES, SETS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
MISSING = "not measured yet"

Scores = dict[str, list[float]]


def signed(value: float) -> str:
    """A difference with its sign; a tie has none."""
    text = f"{value:+.1f}".replace("-", "−")
    return "0.0" if text[1:] == "0.0" else text


def lead(ours: list[float], theirs: list[float], overlap: float = 3 / 7) -> str:
    """Mean difference over common splits with its 95 % interval; bold where 0 is outside.

    Random splits share rows, so that their differences vary too little. Nadeau and Bengio's
    correction adds ``overlap``, the number of test rows over that of training rows.
    """
    gains = [one - other for one, other in zip(ours, theirs, strict=False)]
    if not gains:
        return MISSING
    shown = signed(mean(gains))
    if len(gains) == 1:
        return f"{shown} (one split)"
    half = float(t.ppf(0.975, len(gains) - 1)) * stdev(gains) * (1 / len(gains) + overlap) ** 0.5
    beyond = abs(mean(gains)) > half and shown != "0.0"
    return f"**{shown}** ± {half:.1f}" if beyond else f"{shown} ± {half:.1f}"


def spread(values: list[float]) -> str:
    """Mean and its standard error over splits."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{mean(values):.1f} ± {stdev(values) / len(values) ** 0.5:.1f}"


def best(scores: Scores, labels: Iterable[str]) -> str:
    """The label of the highest mean over the most splits; empty where none has scores."""
    known = [label for label in labels if scores.get(label)]
    most = max((len(scores[label]) for label in known), default=0)
    whole = [label for label in known if len(scores[label]) == most]
    return max(whole, key=lambda label: mean(scores[label]), default="")


def table(header: list[str], lines: Iterable[list[str]]) -> str:
    """Text in the first column, numbers in the others."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *cells))


def source(experiment: str, parts: Iterable[str] | None = None) -> str:
    """Where numbers come from."""
    stored = records(experiment)
    known = [part for part in (stored if parts is None else parts) if part in stored]
    return f"`{experiment}.jsonl` ({commits(experiment, *known) if known else MISSING})"


def measured(name: str) -> dict[str, Any]:
    """What peers.py stored about the methods on a set."""
    return records("peers").get(name, {}).get("results", {})


def scores_of(name: str, key: str) -> Scores:
    """Scores of each method, one per split: `MetricCV` and plain distances are in chooser.jsonl."""
    found = {
        method: [one[key] for one in result["splits"]]
        for method, result in measured(name).get("methods", {}).items()
    }
    stored = records("chooser").get(f"scores {name}", {}).get("results", {"scores": {}})
    one_split = ("MetricCV map", "MetricCV knn")  # measured there for their cost only
    own = {
        label: each[key]
        for label, each in stored["scores"].items()
        if label.startswith("plain") or label in one_split
    }
    return {m: values for m, values in found.items() if m not in one_split} | own


def glance(key: str, title: str) -> str:
    """One line per set: the best of each kind, and the lead of `MetricCV`."""
    lines = []
    for name in SETS:
        scores = scores_of(name, key)
        ours = scores.get(f"MetricCV {key}", [])
        kinds = [label for label in scores if label.startswith("plain")], PEERS, KERNEL
        chosen = [best(scores, labels) for labels in kinds]
        cells = [f"{spread(scores[label])} ({label})" if label else MISSING for label in chosen]
        leads = [lead(ours, scores.get(label, [])) for label in chosen[1:]]
        lines.append([name, *cells, spread(ours) if ours else MISSING, *leads])
    header = [title, "plain", "best linear peer", "best kernel peer", "● MetricCV"]
    return table([*header, "lead over the linear peer", "over the kernel peer"], lines)


def at_a_glance() -> str:
    sources = f"{source('peers', SETS)} and {source('chooser', [f'scores {n}' for n in SETS])}"
    return (
        "## At a glance\n\n● marks methods of this library. `MetricCV map` chooses by mAP and "
        "`MetricCV knn` by 5-NN (`scoring`); each table of this section shows the one that chooses "
        "by its score. Of each kind, the method with the best mean on the test rows is shown. This "
        "favours peers, since `MetricCV` does not use the test rows to choose. Numbers are means ± "
        "standard errors over splits. A lead is the mean difference on the same splits, ± half of "
        "its 95 % interval (Student's t, with Nadeau and Bengio's correction for splits that share "
        "rows; not corrected for the number of comparisons). It is bold only where the interval "
        "does not contain 0. Sets with a single split have no interval, and nothing is bold there. "
        "Of the peers of a kind, only those that finished the largest number of splits are "
        "compared.\n\n"
        f"{glance('map', 'mAP %')}\n\n{glance('knn', '5-NN %')}\n\nFrom {sources}."
    )


def one_set(name: str) -> str:
    """All methods on one set."""
    found = measured(name)
    if not found:
        return f"### {name}\n\n{MISSING.capitalize()}."
    scores, knn = scores_of(name, "map"), scores_of(name, "knn")
    lines, without = [], []
    for method in METHODS | scores:
        result = found["methods"].get(method, {"splits": [], "of": 0, "why": ""})
        label = method if method in (*PEERS, *KERNEL) or "plain" in method else f"● {method}"
        costs = [
            f"{mean(one[cost] for one in result['splits']):.{digits}f}" if result["splits"] else "–"
            for cost, digits in (("cpu_seconds", 2), ("memory_mb", 0))
        ]
        if scores.get(method):
            cells = [spread(scores[method]), spread(knn[method]), str(len(scores[method])), *costs]
            lines.append([label, *cells, result["why"]])
        else:
            why = result["why"] or f"{MISSING} (`python benchmarks/chooser.py scores`)"
            without.append([label, "–", "–", "0", *costs, why])
    lines.sort(key=lambda line: -float(line[1].split()[0]))
    header = ["method", "mAP %", "5-NN %", "splits", "CPU s", "memory MB", "why not all splits"]
    sizes = (
        f"{found['rows']:,} training and {found['test_rows']:,} test rows × "
        f"{found['features']:,} features, {found['classes']} classes."
    )
    sources = f"{source('peers', [name])} and {source('chooser', [f'scores {name}'])}"
    return f"### {name}\n\n{sizes} From {sources}.\n\n{table(header, lines + sorted(without))}"


def unseen() -> str:
    """Classes that were not learned from."""
    stored = records("supervision").get("new_classes", {}).get("results", {})
    columns: dict[str, Scores] = {}
    for name in NEW_CLASSES:
        methods = measured(f"new classes {name}").get("methods", {})
        columns[name] = {m: [one["map"] for one in r["splits"]] for m, r in methods.items()}
        columns[name]["MetricCV"] = stored.get(name, {}).get("MetricCV", [])
    peers = [method for method in UNSEEN if method in PEERS or method in KERNEL]

    def cell(name: str, method: str) -> str:
        if values := columns[name].get(method):
            return spread(values) + ("" if len(values) == 5 else f" ({len(values)} of 5 halves)")
        result = measured(f"new classes {name}").get("methods", {}).get(method, {})
        return result.get("why") or MISSING

    lines = []
    for method in (*UNSEEN, "MetricCV"):
        mark = "" if method in (*peers, "plain cosine") else "● "
        lines.append([mark + method, *(cell(name, method) for name in NEW_CLASSES)])
    for title, labels in (
        ("lead of MetricCV over the plain cosine", ["plain cosine"]),
        ("lead of MetricCV over the best peer", peers),
    ):
        cells = []
        for scores in columns.values():
            label = best(scores, labels)
            named = f" ({label})" if label and labels is peers else ""
            cells.append(lead(scores["MetricCV"], scores.get(label, []), overlap=1) + named)
        lines.append([title, *cells])
    parts = [f"new classes {name}" for name in NEW_CLASSES]
    return (
        "## Classes never seen\n\nA metric is learned from a random half of the classes, and ranks "
        "the test rows of the other half: mAP in percent, mean ± standard error over five halves. "
        '`MetricCV` uses `cv="classes"`. The torch adapter is validated on classes that it does '
        f"not learn from.\n\n{table(['method', *NEW_CLASSES], lines)}\n\n"
        f"From {source('peers', parts)} and {source('supervision', ['new_classes'])}."
    )


def few_labels() -> str:
    """A few rows of each class to learn from."""
    stored = records("supervision").get("few_labels", {}).get("results", {})
    lines = []
    for name, scores in stored.items():
        if name == "mean":
            continue
        label = best(scores, [m for m in scores if m.startswith(("ridge", "LDA"))])
        ours = scores["MetricCV"]
        cells = [spread(scores["plain cosine"]), f"{spread(scores[label])} ({label})", spread(ours)]
        lines.append([name, *cells, lead(ours, scores[label], overlap=0)])
    header = ["set, labels per class", "plain cosine", "best ridge or LDA", "● MetricCV", "lead"]
    return (
        "## Few labels\n\nmAP in percent on all test rows, mean ± standard error over five random "
        "choices of the labelled rows.\n\n"
        f"{table(header, lines)}\n\nFrom {source('supervision', ['few_labels'])}."
    )


def means(runs: list[dict[str, Any]], *keys: str) -> list[str]:
    """Mean scores of some runs and their mean CPU seconds; a dash where they have none."""
    digits = dict.fromkeys(keys, 3) | {"cpu_seconds": 1}
    return [
        f"{mean(run[key] for run in runs):.{n}f}" if key in runs[0] else "–"
        for key, n in digits.items()
    ]


def judged() -> str:
    """Queries and documents: the plain cosine, an adapter trained with PyTorch, and ours."""
    adapter = results("supervision", "torch_adapter")
    lines = []
    for name, found in results("supervision", "retrieval").items():
        methods = {
            "plain cosine": [found["plain"]],
            "plain centred cosine": [found["plain, centred cosine"]],
            "torch adapter": adapter[name],
            "● MetricCV": found["default"],
            '● MetricCV, cv="queries"': found['cv="queries"'],
        }
        mapped = [run["query_adapter"] for run in found["default"] if "query_adapter" in run]
        if mapped:
            methods["● MetricCV, queries mapped alone"] = mapped
        for label, runs in methods.items():
            parts = ("all", "seen documents", "new documents")
            lines.append([name, label, *means(runs, *parts)])
    header = ["set", "method", "all queries", "judged documents", "new documents", "CPU s"]
    return (
        "## Queries and documents\n\nnDCG@10 on test queries: on all, on those whose relevant "
        "documents were judged in training, and on the others. The torch adapter is a linear map "
        "of queries (and, if it helps, documents), trained with in-batch and hard negatives; its "
        "rate, temperature, epochs and form are chosen on a quarter of the training queries. "
        "`MetricCV` uses its defaults; its scores are means of three seeds. *Queries mapped alone* "
        f"leaves the documents in their index.\n\n{table(header, lines)}\n\n"
        f"From {source('supervision', ['retrieval', 'torch_adapter'])}."
    )


def pairs() -> str:
    """Pairs of records: the plain cosine, logistic regression, metric-learn and ours."""
    outside = records("supervision").get("metric_learn", {}).get("results", {})
    lines = []
    for name, found in results("supervision", "pairs").items():
        for label in ("plain", "plain, cosine", "logistic", "logistic, standardised", "MetricCV"):
            runs = found[label] if label == "MetricCV" else [found[label]]
            mark = "● " if label == "MetricCV" else ""
            lines.append([name, mark + label, *means(runs, "ap", "auc")])
        for label, one in outside.get(name, {}).items():
            cells = [f"no setting ended in {one['limit']} CPU seconds", "–"]
            if one["settings"]:
                cells = [f"{one[key]:.3f}" for key in ("test_ap", "test_auc")]
            lines.append([name, label, *cells, f"{one['cpu_seconds_of_all']:.0f}"])
    header = ["set", "method", "average precision", "AUC", "CPU s"]
    return (
        "## Pairs\n\nTest pairs ranked by distance. *Logistic* is logistic regression on the "
        "differences and products of features. ITML and MMC are metric-learn's. Their settings are "
        "chosen on the validation pairs, and the CPU seconds are those of all settings. `MetricCV` "
        f"uses its defaults; its scores are means of three seeds.\n\n{table(header, lines)}\n\n"
        f"From {source('supervision', ['pairs', 'metric_learn'])}. Thresholds and probabilities "
        "are measured in [matching](examples/matching.md), and updates in [teaching](teaching.md)."
    )


def growth() -> str:
    """Exponents of time over size."""
    lines = []
    for label, points in measured("growth").items():
        axis, _, method = label.partition(": ")
        power = exponent(points)
        seconds = ", ".join(f"{value:.2f}" for _, value in points)
        sizes = f"{points[0][0]:,} to {points[-1][0]:,}"
        lines.append([axis, f"● {method}", sizes, f"{power:.2f}", seconds])
    header = ["growth with", "method", "from, to", "exponent", "CPU seconds"]
    made = table(header, lines) if lines else f"{MISSING.capitalize()}."
    return (
        "## Growth\n\nThe rows are synthetic. The last column shows the CPU seconds at sizes that "
        "grow by the same factor. The exponent is the slope of a line through the logarithms of "
        "size and time: 1 is linear. A fit uses at most 50,000 rows (`max_rows`), so its time "
        "hardly grows beyond that.\n\n"
        f"{made}\n\nFrom {source('peers', ['growth'])}."
    )


def exponent(points: list[Any]) -> float:
    """Slope of log time over log size."""
    import numpy as np

    return float(np.polyfit(*np.log(np.array(points, dtype=float)).T, 1)[0])


def parts_of_a_fit() -> str:
    """Each part of a fit beside its own reference (core.py), which is stored as its limit."""
    lines = [
        [shown, part, f"{one['seconds']:.3f}", f"{one['limit']:.4f}", f"{ratio:.1f}"]
        for name, parts in records("core")["parts"]["results"].items()
        for shown in [name.replace("made,", "synthetic,")]  # its name in older results
        for part, one in parts.items()
        for ratio in [one["seconds"] / one["limit"]]
    ]
    return (
        "## Where the time of a fit goes\n\nThese are fits of DuRP with its defaults (ten "
        "projections, 100,000 triplets, three epochs), from `python benchmarks/core.py parts`; "
        "`DuRP(verbose=2)` prints the same parts of any fit. Each part is compared with a "
        "reference time. For sampling it is a copy of every row that is compared; for projection, "
        "one product of its size; for solving, the arithmetic of its steps at the speed of a large "
        "product on one core, which cannot be reached, since each step waits for the one before "
        "it; for recovery, one product of its size and the eigenvectors.\n\n"
        + table(["set", "part", "seconds", "reference", "times the reference"], lines)
        + f"\n\nFrom {source('core', ['parts'])}."
    )


def ideas() -> str:
    """What ideas changed on labelled sets (tried.py)."""
    tables = {name: record["results"] for name, record in records("tried").items()}
    lines = []
    for base, title in {"paper": "the paper's", "best": "whitened, flat, cosine"}.items():
        for idea in next(iter(tables.values())):
            cells = []
            for found in tables.values():
                now, before = found[idea][base], found["as it is"][base]
                pairs = [(now[key], before[key]) for key in ("map", "knn")]
                same = idea == "as it is"
                cells.append(" / ".join(f"{a:.1f}" if same else signed(a - b) for a, b in pairs))
            lines.append([title, idea, *cells])
    return (
        "## Ideas that were tried\n\nThe table shows mAP / 5-NN in percent, means of three seeds, "
        "from `python benchmarks/tried.py`: the setting as it is, and what each idea adds.\n\n"
        + table(["setting", "idea", *tables], lines)
        + f"\n\nFrom {source('tried')}."
    )


def not_run() -> str:
    """Methods without a score, by reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for part in (*SETS, *(f"new classes {name}" for name in NEW_CLASSES)):
        for method, result in measured(part).get("methods", {}).items():
            if not result["splits"]:
                reasons.setdefault((method, result["why"]), []).append(part)
    lines = [[method, why, ", ".join(sets)] for (method, why), sets in sorted(reasons.items())]
    every = "Every method has scores on the sets that were measured."
    return (
        "## What did not run\n\n"
        + (table(["method", "reason", "sets"], lines) if lines else every)
        + f"\n\nFrom {source('peers')}."
    )


def section() -> str:
    """The part of the page that comes from stored results."""
    sets = "\n\n".join(one_set(name) for name in SETS)
    intro = (
        "## Same classes\n\nAll methods on each set. CPU seconds and memory are means over the "
        "splits; those of `MetricCV` are of one split."
    )
    rest = (unseen, few_labels, judged, pairs, growth, parts_of_a_fit, ideas, not_run)
    return "\n\n".join([at_a_glance(), intro, sets, *(make() for make in rest)])


def main() -> None:
    content = PAGE.read_text(encoding="utf-8")
    pattern = r"(<!-- made by benchmarks/peers_page.py[^\n]*\n).*?(<!-- end -->)"
    made = section()
    content = re.sub(pattern, lambda m: f"{m[1]}\n{made}\n\n{m[2]}", content, flags=re.S)
    write_atomically(PAGE, content.encode())


if __name__ == "__main__":
    main()
