"""The README's figure: mAP over the time of a fit."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

from dualmetric.io.atomic import write_atomically

from .summary import Problem, Result

SETS = ("usps", "isolet1", "20news_use512", "20news_bydate")
TITLES = {
    "usps": "usps: digits, 256 pixels",
    "isolet1": "isolet: spoken letters, 617 features",
    "20news_use512": "20 Newsgroups: 512 sentence embeddings",
    "20news_bydate": "20 Newsgroups: 58,091 words",
    "digits": "digits: 64 pixels",
}
OURS, PEERS, INK, GRID, QUIET = "#c2410c", "#94a3b8", "#1f2937", "#e5e7eb", "#64748b"
OURS_SHOWN = ("DuRP", "DuRP, whitened, flat", "MetricCV")
PEERS_LEFT_OUT = ("PCA, whitened", "TruncatedSVD")  # beside PCA, there is no room for them
FASTEST = 1e-3  # plain rows, with nothing to learn, are drawn at the edge


def draw(found: dict[Problem, list[Result]], path: Path) -> None:
    """Write an SVG with a panel for each set that has results."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = [
        (name, [r for r in found.get(("same_classes", name, ()), []) if _shown(r)]) for name in SETS
    ]
    panels = [(name, some) for name, some in panels if some] or [
        (name, [r for r in some if _shown(r)])
        for (objective, name, _), some in found.items()
        if objective == "same_classes"
    ][:1]
    style = {
        "font.family": "sans-serif",
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "dualmetric",
        "axes.edgecolor": GRID,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with plt.rc_context(style):
        columns = min(2, max(1, len(panels)))
        lines = -(-len(panels) // columns) or 1
        drawing, axes = plt.subplots(
            lines,
            columns,
            figsize=(5.2 * columns, 3.6 * lines),
            squeeze=False,
            layout="constrained",
        )
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis, (name, some) in zip(axes.flat, panels, strict=False):
            _panel(axis, name, some)
        apart = any(len({result.conditions for result in some}) > 1 for _, some in panels)
        note = " (hollow: measured on another or a busy machine)" if apart else ""
        drawing.supxlabel("seconds of a fit" + note)
        drawing.supylabel("mAP on test rows, %")
        drawing.draw_without_rendering()  # the layout, which labels need
        renderer = drawing.canvas.get_renderer()
        for axis, (_, some) in zip(axes.flat, panels, strict=False):
            _label(axis, some, renderer)
        content = io.BytesIO()
        drawing.savefig(content, format="svg", metadata={"Date": None})
        plt.close(drawing)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())


def _shown(result: Result) -> bool:
    if result.status != "ok" or result.map != result.map:
        return False
    if result.ours:
        return result.solver in OURS_SHOWN
    return result.solver not in PEERS_LEFT_OUT or bool(result.first["sparse"])


def _panel(axis: Any, name: str, some: list[Result]) -> None:
    from matplotlib.ticker import FuncFormatter

    points = [(max(result.seconds, FASTEST), result.map, result) for result in some]
    axis.set_title(TITLES.get(name, name), loc="left", fontsize=10, fontweight="bold")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.grid(color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(which="both", length=0)
    axis.spines[["top", "right"]].set_visible(False)
    usual = Counter(result.conditions for result in some).most_common(1)[0][0]
    for seconds, score, result in points:
        colour = OURS if result.ours else PEERS
        inside = colour if result.conditions == usual else "white"
        size = 36 if result.ours else 24
        axis.scatter(seconds, score, s=size, facecolors=inside, edgecolors=colour, zorder=3)
    scores = [score for _, score, _ in points]
    room = max(max(scores) - min(scores), 5.0)
    axis.set_ylim(min(scores) - 0.1 * room, max(scores) + 0.1 * room)
    axis.set_xlim(FASTEST / 1.6, max(300.0, 5 * max(seconds for seconds, _, _ in points)))


def _label(axis: Any, some: list[Result], renderer: Any) -> None:
    """Names beside the points, each where it covers the least; ours first."""
    from matplotlib.transforms import Bbox

    places = [(max(r.seconds, FASTEST), r.map) for r in some]
    dots = axis.transData.transform(places)
    taken = [Bbox.from_extents(x - 6, y - 6, x + 6, y + 6) for x, y in dots]
    frame = axis.get_window_extent(renderer)
    for place, result in sorted(zip(places, some, strict=True), key=lambda pair: not pair[1].ours):
        choices = []
        for dx, dy, across in OFFSETS:
            label = axis.annotate(
                result.solver,
                place,
                xytext=(dx, dy),
                textcoords="offset points",
                ha=across,
                va="center",
                fontsize=7.5,
                color=OURS if result.ours else QUIET,
                fontweight="bold" if result.ours else "normal",
            )
            box = label.get_window_extent(renderer)
            covered = sum(_shared(box, other) for other in taken)
            inside = _shared(box, frame) / (box.width * box.height)
            choices.append((covered + 1e4 * (1 - inside), len(choices), label, box))
        _, chosen, _, box = min(choices, key=lambda choice: choice[:2])
        for _, number, label, _ in choices:
            if number != chosen:
                label.remove()
        taken.append(box)


OFFSETS = (
    (6, 0, "left"),
    (-6, 0, "right"),
    (4, 8, "left"),
    (4, -8, "left"),
    (-4, 8, "right"),
    (-4, -8, "right"),
    (0, 11, "center"),
    (0, -11, "center"),
)
"""Where a name may stand beside its point, the first choice first; in points."""


def _shared(one: Any, other: Any) -> float:
    """Area of two boxes' overlap."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(width, 0.0) * max(height, 0.0)
