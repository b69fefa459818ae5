"""The page of the benchmark and its figure, made from the stored results and nothing else."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from dualmetric.io.atomic import write_atomically

from . import figure, parts, targets
from .datasets import NAMES
from .objectives import few_labels
from .store import RESULTS
from .summary import Problem, Result, results

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "benchmarks.md"
FIGURE = "_static/benchmarks.svg"
PATTERN = re.compile(r"(<!-- made by benchmarks/peers[^\n]*\n).*?(<!-- end -->)", re.DOTALL)

Results = dict[Problem, list[Result]]


def write(path: Path = RESULTS, page: Path = PAGE) -> None:
    """Fill in the part of the page between its marks, and draw the figure."""
    found = results(path)
    if not found:
        raise SystemExit(f"{path} holds no results: python -m benchmarks.peers run")
    text = (page if page.exists() else PAGE).read_text(encoding="utf-8")
    if not PATTERN.search(text):
        raise SystemExit(f"{page} has no marks <!-- made by benchmarks/peers --> and <!-- end -->")
    made = "\n\n".join(part for part in sections(found) if part)
    text = PATTERN.sub(lambda match: f"{match[1]}\n{made}\n\n{match[2]}", text)
    (page.parent / FIGURE).parent.mkdir(parents=True, exist_ok=True)
    figure.draw(found, page.parent / FIGURE)
    write_atomically(page, text.encode())
    print(f"wrote {page} and {FIGURE} beside it")


def sections(found: Results) -> list[str]:
    """The parts of the page."""
    return [
        _measured_on(found),
        f"![mAP over the time of a fit, ours and peers, on four sets]({FIGURE})",
        _glance(found),
        targets.section(found),
        _same_classes(found),
        _unseen_classes(found),
        _few_labels(found),
        _growth(found),
        parts.limits(),
        parts.ideas(),
        _not_run(found),
    ]


def markdown(header: list[str], lines: Iterable[list[str]]) -> str:
    """A table; the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *lines))


def of_set(found: Results, objective: str, name: str, **variant: object) -> list[Result]:
    """Methods on one problem that ran through."""
    problem = objective, name, tuple(sorted(variant.items()))
    return [result for result in found.get(problem, []) if result.status == "ok"]


def top(some: Iterable[Result], measure: str) -> Result | None:
    """The best of some methods."""
    return max(some, key=lambda result: getattr(result, measure), default=None)


def _name(result: Result) -> str:
    return f"● {result.solver}" if result.ours else result.solver


def _bold(value: float, best: float) -> str:
    shown = f"{value:.1f}"
    return f"**{shown}**" if shown == f"{best:.1f}" else shown


def _seconds(result: Result) -> str:
    value = result.seconds
    shown = f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"~{shown}" if result.busy else shown


def _measured_on(found: Results) -> str:
    everything = [result for some in found.values() for result in some if result.status == "ok"]
    machines = sorted(
        {
            f"{result.first['machine']['processor']}, {result.first['machine']['cores']} cores, "
            f"{result.first['machine']['memory_gb']:.0f} GB, "
            f"{result.first['threads']} thread{'s' * (result.first['threads'] > 1)}"
            for result in everything
        }
    )
    dates = sorted(result.first["date"] for result in everything)
    names = ("python", "numpy", "scipy", "scikit-learn", "dualmetric")
    versions = {
        name: sorted({r.first["versions"][name] for r in everything if name in r.first["versions"]})
        for name in names
    }
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    text = (
        f"Measured {when} on: {'; '.join(machines)}. "
        + ", ".join(f"{name} {' and '.join(versions[name])}" for name in names if versions[name])
        + "."
    )
    if any(result.busy for result in everything):
        text += (
            " Times with a tilde (~) were taken while others used the machine: they are CPU time, "
            "not wall-clock time."
        )
    return text


def _glance(found: Results) -> str:
    """MetricCV against the best linear peer, set by set, won or lost."""
    parts = []
    for measure, title, ours in (
        ("map", "mAP", "MetricCV"),
        ("knn", "5-NN accuracy", "MetricCV, for 5-NN"),
    ):
        lines = []
        for name in NAMES:
            methods = of_set(found, "same_classes", name)
            by_name = {result.solver: result for result in methods}
            peer = top((r for r in methods if r.linear and not r.ours), measure)
            fixed = top((r for r in methods if r.ours and "CV" not in r.solver), measure)
            if peer is None or fixed is None:
                continue
            chosen = by_name.get(ours)
            cells = [getattr(r, measure) if r else None for r in (by_name.get("ridge, lifted"),)]
            lifted = "" if cells[0] is None else f"{cells[0]:.1f}"
            mine = "" if chosen is None else f"{getattr(chosen, measure):.1f}"
            ahead = "" if chosen is None else _signed(chosen, peer, measure)
            lines.append(
                [
                    name,
                    f"{getattr(by_name['plain rows'], measure):.1f}",
                    f"{getattr(peer, measure):.1f} ({peer.solver})",
                    lifted,
                    f"{getattr(fixed, measure):.1f} ({fixed.solver})",
                    mine,
                    ahead,
                ]
            )
        header = [f"{title} %", "plain", "best linear peer", "ridge, lifted"]
        header += ["● best single setting", f"● {ours}", "ahead of the linear peer"]
        if lines:
            parts.append(markdown(header, lines))
    return "## At a glance\n\n" + "\n\n".join(parts) if parts else ""


def _signed(ours: Result, peer: Result, measure: str) -> str:
    difference = getattr(ours, measure) - getattr(peer, measure)
    shown = f"{difference:+.1f}".replace("-", "−")
    return f"**{shown}**" if difference >= 0 else shown


def _same_classes(found: Results) -> str:
    parts = []
    for name in NAMES:
        methods = of_set(found, "same_classes", name)
        if not methods:
            continue
        first = methods[0].first
        kind = "sparse" if first["sparse"] else "dense"
        best_map = max(result.map for result in methods)
        best_knn = max(result.knn for result in methods)
        lines = [
            [
                _name(result),
                _bold(result.map, best_map),
                result.map_distance,
                _bold(result.knn, best_knn),
                _seconds(result),
                f"{max(result.extra_mb, 0):.0f}",
            ]
            for result in methods
        ]
        header = ["method", "mAP %", "distance", "5-NN %", "fit s", "memory of the fit, MB"]
        parts.append(
            f"### {name}\n\n{first['rows']:,} training and {first['queries']:,} test rows × "
            f"{first['features']:,} features ({kind}, {first['input_mb']:.0f} MB), "
            f"{first['classes']} classes.\n\n" + markdown(header, lines)
        )
    return "## Same classes\n\n" + "\n\n".join(parts) if parts else ""


def _matrix(
    found: Results, objective: str, value: Callable[[Result], float], **variant: object
) -> str:
    """Methods down, sets across."""
    columns = {name: of_set(found, objective, name, **variant) for name in NAMES}
    columns = {name: methods for name, methods in columns.items() if methods}
    if not columns:
        return ""
    cells: dict[str, dict[str, float]] = {}
    shown: dict[str, str] = {}
    for name, methods in columns.items():
        for result in methods:
            cells.setdefault(result.solver, {})[name] = value(result)
            shown[result.solver] = _name(result)
    best = {name: max(value(result) for result in methods) for name, methods in columns.items()}

    def rank(solver: str) -> tuple[int, float]:
        gaps = [best[name] - score for name, score in cells[solver].items()]
        return len(columns) - len(gaps), sum(gaps) / len(gaps)

    lines = [
        [shown[solver]]
        + [
            _bold(cells[solver][name], best[name]) if name in cells[solver] else ""
            for name in columns
        ]
        for solver in sorted(cells, key=rank)
    ]
    return markdown(["mAP %", *columns], lines)


def _unseen_classes(found: Results) -> str:
    table = _matrix(found, "unseen_classes", lambda result: result.map)
    if not table:
        return ""
    return (
        "## Classes never seen\n\nMethods learn from half of the classes, and are scored on test "
        "rows of the other half. They are sorted by how far they are behind the best.\n\n" + table
    )


def _few_labels(found: Results) -> str:
    parts = []
    for count in few_labels.PER_CLASS:
        table = _matrix(found, "few_labels", lambda result: result.map, per_class=count)
        if table:
            parts.append(f"### {count} rows per class\n\n{table}")
    return "## Few labels\n\n" + "\n\n".join(parts) if parts else ""


def _growth(found: Results) -> str:
    lines = [
        [axis, f"● {solver}" if ours else solver, f"{low:,} to {high:,}", f"{exponent:.2f}", times]
        for axis, solver, ours, low, high, exponent, times in targets.growth(found)
    ]
    if not lines:
        return ""
    header = ["growth with", "method", "from, to", "exponent", "seconds"]
    return (
        "## Growth\n\nThe data are synthetic. The exponent is the slope of a line through the "
        "logarithms of size and time: 1 is linear.\n\n" + markdown(header, lines)
    )


def _not_run(found: Results) -> str:
    """Everything that has no numbers, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for (objective, name, variant), methods in found.items():
        where = name if objective == "same_classes" else f"{name} ({objective.replace('_', ' ')}"
        where += "".join(f", {value}" for _, value in variant)
        where += "" if objective == "same_classes" else ")"
        for result in methods:
            if result.status != "ok":
                message = f"{result.status}: {result.message}".replace("|", "\\|")
                reasons.setdefault((_name(result), message), []).append(where)
    if not reasons:
        return ""
    lines = [[who, why, ", ".join(sets)] for (who, why), sets in sorted(reasons.items())]
    return "## What did not run\n\n" + markdown(["method", "what happened", "on"], lines)
