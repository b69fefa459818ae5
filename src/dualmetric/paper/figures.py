"""Figures 1 to 3 and those of the theorems, drawn from stored cells alone."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .cells import PROJECTIONS, Store
from .summary import datasets, display_name, over_trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {
    "DuRP": "#0b6e99",
    "DuOri": "#d1495b",
    "OASIS": "#66a182",
    "SRP": "#8d96a3",
    "SPCA": "#edae49",
    "Euclid": "#2e4057",
}


def spectra(store: Store) -> "Figure | None":
    """Figure 1: eigenvalues of each data set."""
    found = {cell.dataset: result for cell, result in store.results("statistics").items()}
    names = [name for name in datasets(store) if name in found]

    def draw(axes: Any, name: str) -> None:
        values = np.array(found[name]["eigenvalues"])
        axes.semilogy(np.arange(1, len(values) + 1), np.maximum(values, 1e-8), color=COLORS["DuRP"])

    return _panels(names, draw, "number", "share of the variance")


def over_projections(store: Store, value: str) -> "Figure | None":
    """Figures 2 and 3: mAP or 5-NN accuracy over m, with the spread of the trials."""
    fits = store.results("fit")
    names = [
        name
        for name in datasets(store)
        if any(cell.dataset == name and cell.method == "DuRP" and cell.m == 50 for cell in fits)
    ]

    def draw(axes: Any, name: str) -> None:
        for method, color in COLORS.items():
            flat = method in ("DuOri", "OASIS", "Euclid")
            found = [
                over_trials(
                    fits, value, dataset=name, method=method, m=None if flat else m, reg=None
                )
                for m in PROJECTIONS
            ]
            points = [(m, s) for m, s in zip(PROJECTIONS, found, strict=True) if s is not None]
            if points:
                axes.errorbar(
                    [m for m, _ in points],
                    [100 * s.mean for _, s in points],
                    [100 * s.std for _, s in points],
                    label=method,
                    color=color,
                    linestyle="--" if flat else "-",
                    marker=None if flat else "o",
                    markersize=3,
                    capsize=2,
                )

    label = "mAP, %" if value == "map" else "5-NN accuracy, %"
    return _panels(names, draw, "projections m", label, legend=True)


def theorems(store: Store) -> "Figure | None":
    """Measured errors of Theorems 1 and 2 over m, with the bounds where they apply."""
    first, second = store.results("theorem1"), store.results("theorem2")
    if not first or not second:
        return None
    figure = _figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    for rank, color in zip(
        sorted({cell.rank or 0 for cell in first}), ("#0b6e99", "#d1495b", "#edae49"), strict=False
    ):
        these = {cell: result for cell, result in first.items() if cell.rank == rank}
        _errors(left, these, "error", f"r = {rank}", color)
        bounds = sorted({(c.m, r["bound"]) for c, r in these.items() if r["bound"] is not None})
        if bounds:
            left.plot(*zip(*bounds, strict=True), linestyle=":", marker="_", color=color)
    left.set(ylabel="‖Π(M) − Π(M̂)‖ / ‖M‖", title="Theorem 1 (dotted: bound)")
    _errors(right, second, "relative_error", "‖α − α̂‖ / ‖α‖", COLORS["DuRP"])
    _errors(right, second, "gram_error", "‖Ĝ − G‖ / ‖G‖", COLORS["SPCA"])
    right.set(title="Theorem 2")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="projections m")
        axes.legend(frameon=False)
    return figure


def to_bytes(figure: "Figure", kind: str) -> bytes:
    """Return the figure as SVG or PNG; the same figure gives the same bytes."""
    import matplotlib as mpl

    picture = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with mpl.rc_context({"svg.hashsalt": "dualmetric"}):
        figure.savefig(picture, format=kind, dpi=130, metadata=metadata)
    return picture.getvalue()


def _errors(axes: Any, results: dict[Any, Any], key: str, label: str, color: str) -> None:
    ms = sorted({cell.m for cell in results})
    grouped = [[r[key] for cell, r in results.items() if cell.m == m] for m in ms]
    axes.plot(
        ms, [np.mean(values) for values in grouped], "o-", markersize=3, label=label, color=color
    )
    axes.fill_between(
        ms, [min(v) for v in grouped], [max(v) for v in grouped], color=color, alpha=0.2, lw=0
    )


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _panels(
    names: list[str],
    draw: Callable[[Any, str], None],
    x_label: str,
    y_label: str,
    legend: bool = False,
) -> "Figure | None":
    """One small panel a data set, three in a row."""
    if not names:
        return None
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = _figure(3.2 * columns, 2.6 * lines)
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=False):
        draw(axes, name)
        axes.set_title(display_name(name), fontsize=8)
        axes.set(xlabel=x_label, ylabel=y_label)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_visible(False)
    if legend:
        shown: dict[str, Any] = {}  # by method: not every panel has them all
        for axes in grid.flat:
            handles, labels = axes.get_legend_handles_labels()
            shown |= dict(zip(labels, handles, strict=True))
        figure.legend(
            list(shown.values()),
            list(shown),
            loc="outside lower center",
            ncols=min(len(shown), 2 * columns),
            frameon=False,
        )
    return figure
