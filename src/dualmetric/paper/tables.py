"""Tables of the paper's numbers beside ours, made from stored cells alone."""

from typing import NamedTuple

from .cells import METHODS, REGS, Store
from .published import COUNTERPART, MAP, MINUTES, STATISTICS, Value
from .summary import Fits, Spread, at_ten, datasets, display_name, over_trials


class Table(NamedTuple):
    """Headings and rows of text."""

    headings: list[str]
    rows: list[list[str]]


def statistics(store: Store) -> Table:
    """Table 1: sizes of the data sets."""
    rows = []
    found = {cell.dataset: result for cell, result in store.results("statistics").items()}
    for name in datasets(store):
        if name not in found:
            continue
        ours = [found[name][key] for key in ("classes", "features", "train", "test")]
        paper = STATISTICS.get(COUNTERPART.get(name, ""))
        rows.append(
            [
                display_name(name),
                " / ".join(f"{value:,}" for value in ours),
                " / ".join(f"{value:,}" for value in paper) if paper else "–",
                found[name]["note"],
            ]
        )
    return Table(["data set", "classes / features / train / test", "paper", "what it is"], rows)


def times(store: Store) -> Table:
    """Table 2: CPU seconds at m = 10, one thread, sampling left out."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        row = [display_name(name)]
        for method in METHODS[1:]:
            ours = at_ten(fits, name, method, "cpu_seconds")
            paper = MINUTES.get(COUNTERPART.get(name, ""), {}).get(method)
            row.append("–" if ours is None else ours.show(2) + _against(paper, ours))
        if set(row[1:]) != {"–"}:
            rows.append(row)
    return Table(["data set", *METHODS[1:]], rows)


def ranking(store: Store) -> Table:
    """Table 3: mAP in per cent at m = 10."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        row = [display_name(name)]
        for method in METHODS:
            ours = at_ten(fits, name, method, "map")
            paper = MAP.get(COUNTERPART.get(name, ""), {}).get(method)
            row.append("–" if ours is None else ours.show(1, 100) + _beside(paper))
        if set(row[1:]) != {"–"}:
            rows.append(row)
    return Table(["data set", *METHODS], rows)


def differences(store: Store) -> Table:
    """Where our mAP on the paper's own sets differs by more than the paper's spread."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        if name not in MAP:
            continue
        for method in METHODS:
            ours, paper = at_ten(fits, name, method, "map"), MAP[name].get(method)
            if ours is None or paper is None:
                continue
            difference = 100 * ours.mean - paper.mean
            spread = paper.spread or 0.0
            verdict = "within the paper's spread" if abs(difference) <= spread else "outside"
            rows.append(
                [name, method, _shown(paper), ours.show(1, 100), f"{difference:+.1f}", verdict]
            )
    return Table(["data set", "method", "paper", "ours", "difference", ""], rows)


def classification(store: Store) -> Table:
    """5-NN accuracy in per cent at m = 10 (the first points of Figure 3)."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        found = [at_ten(fits, name, method, "knn") for method in METHODS]
        if any(found):
            shown = ["–" if ours is None else ours.show(1, 100) for ours in found]
            rows.append([display_name(name), *shown])
    return Table(["data set", *METHODS], rows)


def regularisation(store: Store) -> Table:
    """mAP of DuRP in per cent over λ."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        found = [
            over_trials(fits, "map", dataset=name, method="DuRP", m=10, reg=reg) for reg in REGS
        ]
        if not any(found):
            continue
        means = [100 * ours.mean for ours in found if ours is not None]
        shown = ["–" if ours is None else ours.show(1, 100) for ours in found]
        rows.append([display_name(name), *shown, f"{max(means) - min(means):.1f}"])
    return Table(["data set", *(f"λ = {reg:g}" for reg in REGS), "range"], rows)


def findings(store: Store) -> Table:
    """The paper's findings, each checked on each data set."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        label = display_name(name)
        rows += [[label, *row] for row in _findings_on(fits, name)]
    return Table(["data set", "finding", "measured", ""], rows)


def _findings_on(fits: Fits, name: str) -> list[list[str]]:
    rows = []
    found = {method: at_ten(fits, name, method, "map") for method in METHODS}
    times = {method: at_ten(fits, name, method, "cpu_seconds") for method in METHODS}
    durp = found["DuRP"]
    for other in ("SRP", "SPCA"):
        theirs = found[other]
        if durp and theirs:
            gain = 100 * (durp.mean - theirs.mean)
            rows.append([f"DuRP ranks better than {other}", f"{gain:+.2f} mAP", _holds(gain > 0)])
    for other, factor in (("OASIS", 20), ("DuOri", 100)):
        ours, slow = times["DuRP"], times[other]
        if ours and slow:
            ratio = slow.mean / ours.mean
            rows.append(
                [
                    f"DuRP is at least {factor} × faster than {other}",
                    f"{ratio:,.1f} ×",
                    _holds(ratio >= factor),
                ]
            )
    fifty = over_trials(fits, "map", dataset=name, method="DuRP", m=50, reg=None)
    if durp and fifty:
        loss = 100 * (fifty.mean - durp.mean)
        rows.append(
            ["DuRP with m = 10 is within 2 points of m = 50", f"{loss:+.2f} mAP", _holds(loss <= 2)]
        )
    return rows


def theorem1(store: Store) -> Table:
    """Largest error of the recovered metric over trials, and Theorem 1's bound."""
    results = store.results("theorem1")
    rows = []
    for rank, m in sorted({(cell.rank or 0, cell.m or 0) for cell in results}):
        these = [r for cell, r in results.items() if (cell.rank, cell.m) == (rank, m)]
        error = max(result["error"] for result in these)
        bound = these[0]["bound"]
        rows.append(
            [
                str(rank),
                f"{m:,}",
                f"{error:.3f}",
                "does not apply" if bound is None else f"{bound:.3f}",
                "–" if bound is None else _holds(error <= bound),
            ]
        )
    return Table(["rank r", "m", "largest error", "bound", ""], rows)


def theorem2(store: Store) -> Table:
    """Largest error of the dual variables over trials, Theorem 2's bound, and ‖Ĝ − G‖."""
    results = store.results("theorem2")
    rows = []
    for m in sorted({cell.m or 0 for cell in results}):
        these = [result for cell, result in results.items() if cell.m == m]
        error = max(result["error"] for result in these)
        bound = these[0]["bound"]
        rows.append(
            [
                f"{m:,}",
                f"{error:.3g}",
                "does not apply" if bound is None else f"{min(r['bound'] for r in these):,.0f}",
                "–" if bound is None else _holds(all(r["error"] <= r["bound"] for r in these)),
                f"{max(result['gram_error'] for result in these):.3f}",
                f"{max(result['kappa'] for result in these):.0f}",
            ]
        )
    headings = ["m", "largest ‖α − α̂‖", "bound", "", "largest ‖Ĝ − G‖/‖G‖", "largest κ"]
    return Table(headings, rows)


def _holds(true: bool) -> str:
    return "holds" if true else "does not hold"


def _shown(paper: Value) -> str:
    return f"{paper.mean}" if paper.spread is None else f"{paper.mean} ± {paper.spread}"


def _against(paper: Value | None, ours: Spread) -> str:
    """The paper's seconds, and how many times ours they are."""
    if paper is None:
        return ""
    seconds = 60 * paper.mean
    return f" ({seconds:,.0f}; {seconds / ours.mean:,.0f} ×)"


def _beside(paper: Value | None) -> str:
    return "" if paper is None else f" ({paper.mean})"
