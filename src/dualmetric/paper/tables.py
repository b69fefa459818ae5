"""Tables of the paper's numbers and ours, made from stored cells only."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .cells import (
    EPOCHS,
    LARGE_REGS,
    MANY_PROJECTIONS,
    METHODS,
    REGS,
    Cell,
    Store,
    fit_cell,
)
from .published import COUNTERPART, MAP, MINUTES, STATISTICS, Value
from .summary import Spread, by_rank_and_m, datasets, display_name, over_trials

# The paper's method that ours is compared with, where ours has another name.
_VARIANTS = {"OASIS raw": "OASIS", "LMNN on PCA": "LMNN"}
SOLVED = 0.01  # a relative gap up to which a dual problem counts as solved


class Table(NamedTuple):
    """Headings and rows of text, and the names of the remarks in page.toml that apply."""

    headings: list[str]
    rows: list[list[str]]
    remarks: Iterable[str] = ()


def papers_method(method: str) -> str:
    """Return the paper's method that ours is compared with."""
    return _VARIANTS.get(method, method)


def statistics(store: Store) -> Table:
    """Table 1: sizes of the data sets."""

    def sizes(numbers: Iterable[int]) -> str:
        return " / ".join(f"{number:,}" for number in numbers) or "–"

    rows = []
    found = store.results("statistics")
    for name in datasets(store):
        ours = found.get(Cell("statistics", name))
        if ours is not None:
            counts = sizes(ours[key] for key in ("classes", "features", "train", "test"))
            paper = sizes(STATISTICS.get(COUNTERPART.get(name, ""), ()))
            rows.append([display_name(name), counts, paper, ours["note"]])
    return Table(["data set", "classes / features / train / test", "paper", "what it is"], rows)


def times(store: Store) -> Table:
    """Table 2: CPU seconds at m = 10 in one thread, without sampling.

    The paper's seconds are shown on its own data sets only: others have other numbers of rows.
    """

    def show(ours: Spread, paper: Value | None) -> str:
        if paper is None:
            return ours.show(2)
        seconds = 60 * paper.mean
        return f"{ours.show(2)} ({seconds:,.0f}; {seconds / ours.mean:,.0f} ×)"

    same_work = {name: MINUTES[name] for name, theirs in COUNTERPART.items() if name == theirs}
    return _by_method(store, METHODS[1:], "cpu_seconds", same_work, show)


def ranking(store: Store) -> Table:
    """Table 3: mAP in per cent at m = 10."""
    published = {name: MAP[theirs] for name, theirs in COUNTERPART.items()}
    return _by_method(store, METHODS, "map", published, _percent)


def classification(store: Store) -> Table:
    """5-NN accuracy in per cent at m = 10 (the first points of Figure 3)."""
    return _by_method(store, METHODS, "knn", {}, _percent)


def unit_ranking(store: Store) -> Table:
    """Return the mAP with rows of length one."""
    return _by_method(store, _UNIT_METHODS, "map", {}, _percent, rows="unit")


def unit_classification(store: Store) -> Table:
    """Return the 5-NN accuracy with rows of length one."""
    return _by_method(store, _UNIT_METHODS, "knn", {}, _percent, rows="unit")


_UNIT_METHODS = tuple(method for method in METHODS if method != "OASIS raw")


def _by_method(
    store: Store,
    methods: tuple[str, ...],
    value: str,
    published: dict[str, dict[str, Value]],
    show: Callable[[Spread, Value | None], str],
    **fields: Any,
) -> Table:
    """One row per data set, one column per method; ``show`` formats our value and the paper's."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        found = {method: over_trials(fits, name, method, value, **fields) for method in methods}
        if any(found.values()):
            paper = published.get(name, {})
            shown = [
                show(ours, paper.get(papers_method(method))) if ours else "–"
                for method, ours in found.items()
            ]
            rows.append([display_name(name), *shown])
    return Table(["data set", *methods], rows)


def oasis(store: Store) -> Table:
    """What tuning OASIS chose, and mAP with and without the projection of W."""
    fits = store.results("fit")
    rows = []
    for name, kind, method in product(datasets(store), (None, "unit"), ("OASIS", "OASIS raw")):
        scores = [over_trials(fits, name, method, v, rows=kind) for v in ("map", "map_similarity")]
        if all(scores):
            first = fits.get(replace(fit_cell(method, rows=kind), dataset=name), {}).get("tuning")
            keys = ("length", "aggressiveness", "seconds")
            chosen = [f"{first[key]:.3g}" for key in keys] if first else ["as given", "0.1", "–"]
            label = display_name(name) + (", rows of length one" if kind else "")
            rows.append([label, method, *chosen, *map(_percent, filter(None, scores))])
    headings = ["data set", "method", "length of rows", "C", "seconds of tuning"]
    return Table([*headings, "mAP of the metric", "mAP by xᵀWy"], rows)


def differences(store: Store) -> Table:
    """Differences to the paper's mAP on its own sets; outside if larger than its spread."""
    fits = store.results("fit")
    rows = []
    remarks: dict[str, None] = {}
    sizes: dict[str, dict[str, float]] = {}
    for name, method in product(datasets(store), METHODS):
        paper = MAP.get(name, {}).get(papers_method(method))
        ours = over_trials(fits, name, method, "map")
        if ours is not None and paper is not None:
            difference, spread = 100 * ours.mean - paper.mean, paper.spread
            sizes.setdefault(name, {})[method] = abs(difference)
            inside = abs(difference) <= (spread or 0.0)
            verdict = "–" if spread is None else "yes" if inside else "no"
            if not inside:
                remarks |= dict.fromkeys([name, method])
            theirs = f"{paper.mean}" if spread is None else f"{paper.mean} ± {spread}"
            rows.append([name, method, theirs, _percent(ours), f"{difference:+.1f}", verdict])
    both = [found for found in sizes.values() if {"LMNN", "LMNN on PCA"} <= set(found)]
    for method, other in (("LMNN", "LMNN on PCA"), ("LMNN on PCA", "LMNN")):
        if both and all(found[method] < found[other] for found in both):
            remarks[f"{method} is closer"] = None
    headings = ["data set", "method", "paper", "ours", "difference", "within the paper's spread"]
    return Table(headings, rows, remarks)


def regularisation(store: Store) -> Table:
    """mAP of DuRP in per cent over λ."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        found = [over_trials(fits, name, "DuRP", "map", reg=reg) for reg in REGS]
        means = [100 * ours.mean for ours in found if ours]
        if means:
            shown = [_percent(ours) if ours else "–" for ours in found]
            rows.append([display_name(name), *shown, f"{max(means) - min(means):.1f}"])
    return Table(["data set", *(f"λ = {reg:g}" for reg in REGS), "range"], rows)


def dual(store: Store) -> Table:
    """mAP in per cent, and the relative duality gap, over epochs and over larger λ."""
    fits = store.results("fit")
    settings: dict[str, dict[str, Any]] = {f"epochs = {n}": {"epochs": n} for n in EPOCHS}
    settings |= {f"λ = {reg:g}": {"reg": reg} for reg in LARGE_REGS}
    rows = []
    gaps = []  # in the paper's setting
    for name, method in product(datasets(store), ("DuRP", "DuOri")):
        cells = [replace(fit_cell(method, **fields), dataset=name) for fields in settings.values()]
        if any(cell in fits for cell in cells if cell.epochs or cell.reg):
            found = [fits.get(cell) for cell in cells]
            gaps += [found[1]["relative_gap"]] if found[1] else []
            shown = [f"{100 * r['map']:.1f} ({r['relative_gap']:.5f})" if r else "–" for r in found]
            rows.append([display_name(name), method, *shown])
    remarks = ["gap is open" if max(gaps) > SOLVED else "gap is closed"] if gaps else []
    return Table(["data set", "method", *settings], rows, remarks)


def projected_and_original(store: Store) -> Table:
    """DuRP minus DuOri in points of mAP, as m grows and as the dual is solved further."""
    fits = store.results("fit")
    settings: dict[str, dict[str, Any]] = {f"m = {m}": {"m": m} for m in (10, *MANY_PROJECTIONS)}
    settings |= {"10 epochs": {"epochs": 10}, "large λ": {"reg": LARGE_REGS[-1]}}
    rows = []
    gains = []
    for name in datasets(store):
        projected, original = (
            [over_trials(fits, name, method, "map", **fields) for fields in settings.values()]
            for method in ("DuRP", "DuOri")
        )
        pairs = zip(projected, original, strict=True)
        gain = [100 * (ours.mean - other.mean) for ours, other in pairs if ours and other]
        if len(gain) == len(settings):
            gains.append(gain)
            rows.append([display_name(name), *(f"{points:+.1f}" for points in gain)])
    if not rows:
        return Table([], [])
    sizes = dict(zip(settings, np.mean(np.abs(gains), axis=0), strict=True))
    rows.append(["mean size of the difference", *(f"{size:.1f}" for size in sizes.values())])
    remarks = [
        f"{column}: {'smaller' if sizes[column] <= sizes['m = 10'] / 2 else 'stays'}"
        for column in (f"m = {MANY_PROJECTIONS[-1]}", "10 epochs", "large λ")
    ]
    return Table(["data set", *settings], rows, remarks)


def theorem1(store: Store) -> Table:
    """Largest error of the recovered metric over trials, and Theorem 1's bound."""
    rows = [
        [str(rank), f"{m:,}", _over(max, trials, "error"), *_check(trials)]
        for (rank, m), trials in by_rank_and_m(store, "theorem1").items()
    ]
    return Table(["rank r", "m", "largest error", "bound", "does it hold"], rows)


def theorem2(store: Store) -> Table:
    """Largest error of the dual variables over trials, and what to compare it with."""
    rows = []
    for (_, m), trials in by_rank_and_m(store, "theorem2").items():
        ratio = max(trial["error"] / trial["bound_given_gram"] for trial in trials)
        row = [f"{m:,}", _over(max, trials, "error"), *_check(trials), f"{ratio:.2f}"]
        row += [_over(min, trials, key) for key in ("error_of_ones", "size", "diameter")]
        rows.append([*row, _over(max, trials, "gram_error")])
    headings = ["m", "largest ‖α − α̂‖", "smallest bound", "does it hold", "largest ‖α − α̂‖ / b"]
    headings += ["‖α − 1‖", "‖α‖", "diameter √N", "largest ‖Ĝ − G‖ / ‖G‖"]
    return Table(headings, rows)


def _over(choose: Callable[..., float], trials: list[dict[str, Any]], key: str) -> str:
    return f"{choose(trial[key] for trial in trials):.3f}"


def _check(trials: list[dict[str, Any]]) -> list[str]:
    """Return the smallest bound of a theorem over trials, and whether each trial is within its."""
    if trials[0]["bound"] is None:
        return ["does not apply", "–"]
    holds = all(trial["error"] <= trial["bound"] for trial in trials)
    return [_over(min, trials, "bound"), _holds(holds)]


def _holds(true: bool) -> str:
    return "holds" if true else "does not hold"


def _percent(ours: Spread, paper: Value | None = None) -> str:
    return ours.show(1, 100) + (f" ({paper.mean})" if paper else "")
