"""Tables of the paper's numbers and ours, made from stored cells only."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .cells import METHODS, REGS, Cell, Store
from .published import COUNTERPART, MAP, MINUTES, STATISTICS, Value
from .summary import Fits, Spread, by_rank_and_m, datasets, display_name, over_trials


class Table(NamedTuple):
    """Headings and rows of text."""

    headings: list[str]
    rows: list[list[str]]


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
    """Table 2: CPU seconds at m = 10 in one thread, without sampling."""

    def show(ours: Spread, paper: Value | None) -> str:
        if paper is None:
            return ours.show(2)
        seconds = 60 * paper.mean
        return f"{ours.show(2)} ({seconds:,.0f}; {seconds / ours.mean:,.0f} ×)"

    return _by_method(store, METHODS[1:], "cpu_seconds", MINUTES, show)


def ranking(store: Store) -> Table:
    """Table 3: mAP in per cent at m = 10."""
    return _by_method(store, METHODS, "map", MAP, _percent)


def classification(store: Store) -> Table:
    """5-NN accuracy in per cent at m = 10 (the first points of Figure 3)."""
    return _by_method(store, METHODS, "knn", {}, _percent)


def _by_method(
    store: Store,
    methods: tuple[str, ...],
    value: str,
    published: dict[str, dict[str, Value]],
    show: Callable[[Spread, Value | None], str],
) -> Table:
    """One row per data set, one column per method; ``show`` formats our value and the paper's."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        found = {method: over_trials(fits, name, method, value) for method in methods}
        if any(found.values()):
            paper = published.get(COUNTERPART.get(name, ""), {})
            shown = [show(ours, paper.get(key)) if ours else "–" for key, ours in found.items()]
            rows.append([display_name(name), *shown])
    return Table(["data set", *methods], rows)


def differences(store: Store) -> Table:
    """Differences to the paper's mAP on its own sets; outside if larger than its spread."""
    fits = store.results("fit")
    rows = []
    for name in datasets(store):
        for method, paper in MAP.get(name, {}).items():
            ours = over_trials(fits, name, method, "map")
            if ours is not None:
                difference, spread = 100 * ours.mean - paper.mean, paper.spread
                inside = abs(difference) <= (spread or 0.0)
                verdict = "within the paper's spread" if inside else "outside"
                theirs = f"{paper.mean}" if spread is None else f"{paper.mean} ± {spread}"
                rows.append([name, method, theirs, _percent(ours), f"{difference:+.1f}", verdict])
    return Table(["data set", "method", "paper", "ours", "difference", ""], rows)


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


def findings(store: Store) -> Table:
    """The paper's findings, checked on each data set."""
    fits = store.results("fit")
    rows = [
        [display_name(name), finding, measured, _holds(true)]
        for name in datasets(store)
        for finding, measured, true in _findings_on(fits, name)
    ]
    return Table(["data set", "finding", "measured", ""], rows)


def _findings_on(fits: Fits, name: str) -> Iterator[tuple[str, str, bool]]:
    durp = over_trials(fits, name, "DuRP", "map")
    for other in ("SRP", "SPCA"):
        theirs = over_trials(fits, name, other, "map")
        if durp and theirs:
            gain = 100 * (durp.mean - theirs.mean)
            yield f"DuRP ranks better than {other}", f"{gain:+.2f} mAP", gain > 0
    fast = over_trials(fits, name, "DuRP", "cpu_seconds")
    for other, factor in (("OASIS", 20), ("DuOri", 100)):
        slow = over_trials(fits, name, other, "cpu_seconds")
        if fast and slow:
            ratio = slow.mean / fast.mean
            finding = f"DuRP is at least {factor} × faster than {other}"
            yield finding, f"{ratio:,.1f} ×", ratio >= factor
    fifty = over_trials(fits, name, "DuRP", "map", m=50)
    if durp and fifty:
        loss = 100 * (fifty.mean - durp.mean)
        yield "DuRP with m = 10 is within 2 points of m = 50", f"{loss:+.2f} mAP", loss <= 2


def theorem1(store: Store) -> Table:
    """Largest error of the recovered metric over trials, and Theorem 1's bound."""
    rows = [
        [str(rank), f"{m:,}", _over(max, trials, "error"), *_check(trials)]
        for (rank, m), trials in by_rank_and_m(store, "theorem1").items()
    ]
    return Table(["rank r", "m", "largest error", "bound", ""], rows)


def theorem2(store: Store) -> Table:
    """Largest error of the dual variables over trials, and what to compare it with."""
    rows = []
    for (_, m), trials in by_rank_and_m(store, "theorem2").items():
        ratio = max(trial["error"] / trial["bound_given_gram"] for trial in trials)
        row = [f"{m:,}", _over(max, trials, "error"), *_check(trials), f"{ratio:.2f}"]
        row += [_over(min, trials, key) for key in ("error_of_ones", "size", "diameter")]
        rows.append([*row, _over(max, trials, "gram_error")])
    headings = ["m", "largest ‖α − α̂‖", "smallest bound", "", "largest ‖α − α̂‖ / b"]
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
