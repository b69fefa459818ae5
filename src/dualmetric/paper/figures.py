"""Figures 1 to 3 and those of the theorems, drawn from stored cells only; needs matplotlib."""

import io
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from .cells import PROJECTED, PROJECTIONS, Store
from .summary import by_rank_and_m, datasets, display_name, over_trials

_Trials = dict[int, list[dict[str, Any]]]  # results of a theorem by m
COLORS = {
    "DuRP": "#0b6e99",
    "DuOri": "#d1495b",
    "OASIS": "#66a182",
    "SRP": "#8d96a3",
    "SPCA": "#edae49",
    "Euclid": "#2e4057",
}


def spectra(store: Store) -> Figure | None:
    """Figure 1: eigenvalues of each data set."""
    found = {cell.dataset: result for cell, result in store.results("statistics").items()}
    names = [name for name in datasets(store) if name in found]

    def draw(axes: Any, name: str) -> None:
        values = np.array(found[name]["eigenvalues"])
        axes.semilogy(np.arange(1, len(values) + 1), np.maximum(values, 1e-8), color=COLORS["DuRP"])

    return _panels(names, draw, "number", "share of the variance")


def over_projections(store: Store, value: str) -> Figure | None:
    """Figures 2 and 3: mAP or 5-NN accuracy over m, with the standard deviation over trials."""
    fits = store.results("fit")
    names = [name for name in datasets(store) if over_trials(fits, name, "DuRP", value, m=50)]

    def draw(axes: Any, name: str) -> None:
        for method, color in COLORS.items():
            found = {m: over_trials(fits, name, method, value, m=m) for m in PROJECTIONS}
            points = [(m, 100 * s.mean, 100 * s.std) for m, s in found.items() if s]
            style = {"marker": "o"} if method in PROJECTED else {"linestyle": "--"}
            style |= {"label": method, "color": color}
            if points:
                axes.errorbar(*zip(*points, strict=True), markersize=3, capsize=2, **style)

    return _panels(names, draw, "projections m", "mAP, %" if value == "map" else "5-NN accuracy, %")


def theorems(store: Store) -> Figure | None:
    """Measured errors of Theorems 1 and 2 over m, with the bounds for those m they cover."""
    first, second = (by_rank_and_m(store, kind) for kind in ("theorem1", "theorem2"))
    if not first or not second:
        return None
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    ranks = sorted({rank for rank, _ in first})
    for rank, color in zip(ranks, ("#0b6e99", "#d1495b", "#edae49"), strict=False):
        these = {m: trials for (r, m), trials in first.items() if r == rank}
        _errors(left, these, "error", f"r = {rank}", color)
        _bounds(left, these, None, color)
    left.set(ylabel="‖Π(M) − Π(M̂)‖ / ‖M‖", title="Theorem 1 (dotted: bound)")
    these = {m: trials for (_, m), trials in second.items()}
    _errors(right, these, "relative_error", "‖α − α̂‖ / ‖α‖", COLORS["DuRP"])
    _errors(right, these, "gram_error", "‖Ĝ − G‖ / ‖G‖", COLORS["SPCA"])
    _bounds(right, these, "size", COLORS["DuRP"])
    right.set(title="Theorem 2 (dotted: bound on ‖α − α̂‖ / ‖α‖)")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="projections m")
        axes.legend(frameon=False)
    return figure


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG; the same figure gives the same bytes."""
    picture = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dualmetric"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def _errors(axes: Any, trials: _Trials, key: str, label: str, color: str) -> None:
    """Draw the mean and the range of a value over m."""
    ms, values = list(trials), [[trial[key] for trial in these] for these in trials.values()]
    means, low, high = ([pick(v) for v in values] for pick in (np.mean, min, max))
    axes.plot(ms, means, "o-", markersize=3, label=label, color=color)
    axes.fill_between(ms, low, high, color=color, alpha=0.2, lw=0)


def _bounds(axes: Any, trials: _Trials, unit: str | None, color: str) -> None:
    """Draw the bounds that apply, divided by another value of the trial if ``unit`` names one."""
    points = {
        (m, trial["bound"] / (trial[unit] if unit else 1.0))
        for m, these in trials.items()
        for trial in these
        if trial["bound"] is not None
    }
    if points:
        axes.plot(*zip(*sorted(points), strict=True), linestyle=":", marker="_", color=color)


def _panels(
    names: list[str], draw: Callable[[Any, str], None], x_label: str, y_label: str
) -> Figure | None:
    """Draw one small panel per data set, three in a row, and a legend if lines have labels."""
    if not names:
        return None
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.6 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    shown: dict[str, Any] = {}  # a panel may lack some of the methods
    for axes, name in zip_longest(grid.flat, names):
        if name is None:
            axes.set_visible(False)
            continue
        draw(axes, name)
        axes.set_title(display_name(name), fontsize=8)
        axes.set(xlabel=x_label, ylabel=y_label)
        handles, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    if shown:
        ncols = min(len(shown), 2 * columns)
        handles, labels = list(shown.values()), list(shown)
        figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
    return figure
