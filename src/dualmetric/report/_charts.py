"""Charts as SVG text; the style sheet sets their colours."""

from html import escape
from math import floor, log10

import numpy as np

from .._types import Array

_WIDTH, _HEIGHT = 440, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 18, 14, 54


def precision_recall(recalls: Array, curves: list[tuple[str, str, Array]]) -> str:
    """Draw curves (style, name, precisions); styles are "after", "before" and "other"."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    parts = _frame(
        [(_x(t), f"{100 * t:.0f}") for t in ticks],
        [(_y(t), f"{100 * t:.0f}") for t in ticks],
        "Recall: rows of the class found, %",
        "Precision: correct rows so far, %",
    )
    for style, name, precisions in curves:
        points = [(_x(r), _y(p)) for r, p in zip(recalls, precisions, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line {style}" points="{path}"/>')
        for (x, y), recall, precision in zip(points, recalls, precisions, strict=True):
            text = f"{name}: precision {100 * precision:.1f} % at recall {100 * recall:.0f} %"
            parts.append(_mark(style, x, y, text))
    summary = "; ".join(
        f"{name}: {100 * p[0]:.0f} % at recall 0 %, {100 * p[len(p) // 2]:.0f} % at 50 %, "
        f"{100 * p[-1]:.0f} % at 100 %"
        for _, name, p in curves
    )
    return _svg(parts, f"Precision at each recall. {summary}.")


def at_k(
    measure: str, y_label: str, ks: list[int], curves: list[tuple[str, str, Array, Array]]
) -> str:
    """Draw curves (style, name, means, intervals of shape (n, 2)) of a measure over k."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    across = [_x((i + 0.5) / len(ks)) for i in range(len(ks))]
    parts = _frame(
        [(x, str(k)) for x, k in zip(across, ks, strict=True)],
        [(_y(t), f"{100 * t:.0f}") for t in ticks],
        "k, the number of nearest rows",
        y_label,
    )
    for style, _, _, intervals in curves:
        edge = [*zip(across, intervals[:, 1], strict=True)]
        edge += [*zip(across, intervals[:, 0], strict=True)][::-1]
        path = " ".join(f"{x:.1f},{_y(share):.1f}" for x, share in edge)
        parts.append(f'<polygon class="band {style}" points="{path}"/>')
    for style, name, means, intervals in curves:
        path = " ".join(f"{x:.1f},{_y(m):.1f}" for x, m in zip(across, means, strict=True))
        parts.append(f'<polyline class="line {style}" points="{path}"/>')
        for x, k, mean, (low, high) in zip(across, ks, means, intervals, strict=True):
            text = (
                f"{name}: {measure.lower()} {100 * mean:.1f} % at k = {k} "
                f"(95 % interval {100 * low:.1f} to {100 * high:.1f})"
            )
            parts.append(_mark(style, x, _y(mean), text))
    summary = "; ".join(
        f"{name}: {100 * m[0]:.0f} % at k = {ks[0]}, {100 * m[-1]:.0f} % at k = {ks[-1]}"
        for _, name, m, _ in curves
    )
    return _svg(parts, f"{measure} at k. {summary}.")


def spectrum(shares: Array) -> str:
    """Draw the share of each direction in the metric, as bars."""
    step = _nice_step(100 * shares[0] / 4)
    top = step * np.ceil(100 * shares[0] / step)
    n = len(shares)
    width = (_WIDTH - _LEFT - _RIGHT) / n
    every = max(1, int(_nice_step(n / 6)))
    parts = _frame(
        [(_LEFT + (k - 0.5) * width, str(k)) for k in sorted({1, *range(every, n + 1, every)})],
        [(_y(t / top), f"{t:g}") for t in np.arange(0, top + step / 2, step).round(6)],
        "Direction, the strongest first",
        "Share of the metric, %",
    )
    gap = min(1.5, width * 0.2)
    for k, share in enumerate(shares):
        y = _y(100 * share / top)
        parts.append(
            f'<rect class="bar" x="{_LEFT + k * width + gap / 2:.2f}" y="{y:.2f}" '
            f'width="{width - gap:.2f}" height="{_y(0) - y:.2f}">'
            f"<title>Direction {k + 1}: {100 * share:.2g} %</title></rect>"
        )
    return _svg(
        parts, f"Shares of {n} directions, from {100 * shares[0]:.2g} % to {100 * shares[-1]:.2g} %"
    )


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _nice_step(at_least: float) -> float:
    """Return the smallest of …, 1, 2, 5, 10, … that is at least this large."""
    if at_least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(at_least))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= at_least * (1 - 1e-9))


def _frame(
    across: list[tuple[float, str]], up: list[tuple[float, str]], x_label: str, y_label: str
) -> list[str]:
    """Grid lines, numbers and labels of both axes."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    middle, height = (_LEFT + right) / 2, (_TOP + bottom) / 2
    lines = [
        f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        for y, text in up
    ]
    numbers = [
        f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>'
        for x, text in across
    ]
    return [
        *lines,
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>',
        *numbers,
        f'<text class="label" x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{x_label}</text>'
        f'<text class="label" transform="translate(14 {height}) rotate(-90)" '
        f'text-anchor="middle">{y_label}</text>',
    ]


def _mark(style: str, x: float, y: float, text: str) -> str:
    """Mark a point, with its numbers as a tooltip; each kind of curve has its own shape."""
    title = f"<title>{escape(text)}</title>"
    if style == "after":
        return f'<circle class="mark after" cx="{x:.1f}" cy="{y:.1f}" r="3.4">{title}</circle>'
    if style == "before":
        place = f'x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"'
        return f'<rect class="mark before" {place}>{title}</rect>'
    corners = f"{x:.1f},{y - 3.6:.1f} {x + 3.4:.1f},{y + 2.6:.1f} {x - 3.4:.1f},{y + 2.6:.1f}"
    return f'<polygon class="mark other" points="{corners}">{title}</polygon>'


def _svg(
    parts: list[str],
    description: str,
    size: tuple[int, int] = (_WIDTH, _HEIGHT),
    style: str = "chart",
) -> str:
    return (
        f'<svg class="{style}" style="--width:{size[0]}px" viewBox="0 0 {size[0]} {size[1]}" '
        f'role="img" aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )
