"""Charts of matching as SVG text: reliability, precision and recall, errors, distances."""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from .._types import Array
from ._charts import _frame, _mark, _nice_step, _svg, _x, _y

Point = tuple[float, float, float, float]  # x, y, and the low and high end of y


def with_band(
    points: Sequence[Point], names: tuple[str, str], summary: str, diagonal: bool = False
) -> str:
    """Shares of two kinds in per cent, as a line with the band of its intervals."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    labels = [f"{100 * t:.0f}" for t in ticks]
    frame = _frame(
        list(zip(map(_x, ticks), labels, strict=True)),
        list(zip(map(_y, ticks), labels, strict=True)),
        f"{names[0]}, %",
        f"{names[1]}, %",
    )
    if diagonal:
        ends = f'x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"'
        frame.append(f'<line class="line before" {ends}/>')
    text = [
        f"{names[0]} {100 * x:.1f} %: {names[1].lower()} {100 * y:.1f} % "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f})"
        for x, y, low, high in points
    ]
    return _drawn(frame, points, _x, _y, text, summary)


def on_log_scales(points: Sequence[Point], names: tuple[str, str], summary: str) -> str:
    """Two error rates, each from 10⁻⁴ or what can be measured up to 1."""
    values = [value for point in points for value in point[:2] if value > 0]
    lowest = max(-4.0, np.floor(np.log10(min(values, default=0.1))))
    decades = np.arange(lowest, 0.5)

    def place(rate: float) -> float:
        return float(np.clip(1.0 - np.log10(max(rate, 10.0**lowest)) / lowest, 0.0, 1.0))

    labels = [f"{100 * 10.0**t:g}" for t in decades]
    frame = _frame(
        [(_x(place(10.0**t)), label) for t, label in zip(decades, labels, strict=True)],
        [(_y(place(10.0**t)), label) for t, label in zip(decades, labels, strict=True)],
        f"{names[0]}, %",
        f"{names[1]}, %",
    )
    text = [
        f"{names[0]} {100 * x:.3g} %: {names[1].lower()} {100 * y:.3g} % "
        f"(95 % interval {100 * low:.3g} to {100 * high:.3g})"
        for x, y, low, high in points
    ]
    return _drawn(frame, points, lambda v: _x(place(v)), lambda v: _y(place(v)), text, summary)


def _drawn(
    parts: list[str],
    points: Sequence[Point],
    across: Callable[[float], float],
    up: Callable[[float], float],
    texts: list[str],
    summary: str,
) -> str:
    upper = [(across(x), up(high)) for x, _, _, high in points]
    lower = [(across(x), up(low)) for x, _, low, _ in reversed(points)]
    parts.append(f'<polygon class="band" points="{_path([*upper, *lower])}"/>')
    line = [(across(x), up(y)) for x, y, _, _ in points]
    parts.append(f'<polyline class="line after" points="{_path(line)}"/>')
    parts += [_mark("after", x, y, text) for (x, y), text in zip(line, texts, strict=True)]
    return _svg(parts, summary)


def distances(same: Array, different: Array, threshold: float | None) -> str:
    """Histograms of the distances of both kinds, each as shares of its own kind."""
    top = float(max(same.max(), different.max()))
    bins = np.linspace(0.0, top, 41)
    heights = [np.histogram(part, bins)[0] / len(part) for part in (same, different)]
    peak = max(float(height.max()) for height in heights)
    step = _nice_step(top / 5)
    every = _nice_step(100 * peak / 4)
    parts = _frame(
        [(_x(t / top), f"{t:g}") for t in np.arange(0, top + step / 100, step).round(9)],
        [
            (_y(t / (100 * peak)), f"{t:g}")
            for t in np.arange(0, 100 * peak + every / 100, every).round(9)
        ],
        "Distance",
        "Share of the pairs of a kind, %",
    )
    for style, name, height in zip(
        ("same", "different"), ("the same", "different"), heights, strict=True
    ):
        for low, high, share in zip(bins[:-1], bins[1:], height, strict=True):
            left, right, y = _x(low / top), _x(high / top), _y(share / peak)
            title = (
                f"Distance {low:.3g} to {high:.3g}: {100 * share:.1f} % of pairs that are {name}"
            )
            parts.append(
                f'<rect class="bar {style}" x="{left:.2f}" y="{y:.2f}" width="{right - left:.2f}" '
                f'height="{_y(0) - y:.2f}"><title>{escape(title)}</title></rect>'
            )
    if threshold is not None and 0 <= threshold <= top:
        x = _x(threshold / top)
        parts.append(
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{_y(1):.1f}" y2="{_y(0):.1f}">'
            f"<title>Threshold {threshold:.4g}</title></line>"
        )
    median = ", ".join(f"{np.median(part):.3g}" for part in (same, different))
    return _svg(parts, f"Distances of same and different pairs; medians {median}")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
