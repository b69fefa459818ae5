"""Which classes the nearest rows confuse: a table of the largest confusions, and matrices."""

from html import escape

import numpy as np

from .._types import Array
from ._charts import _svg
from ._material import DISTANCES, Material

N_LISTED = 30  # confusions in the table
N_IN_MATRIX = 30  # classes up to which the matrices are drawn
_LONGEST = 24  # characters of a name beside a matrix


def confusion(material: Material) -> dict[str, str]:
    """Lines of the table, both matrices where there are few classes, and a summary in words."""
    n = len(material.voted_names)
    before, after = (_counts(material.codes, voted, n) for voted in material.voted)
    errors = [int(c.sum() - np.trace(c)) for c in (before, after)]
    said = (
        f"The vote of the five nearest rows is wrong for {errors[0]:,} of {material.n_rows:,} rows "
        f"before, and for {errors[1]:,} after."
    )
    return {
        "confusion_summary": said,
        "confusion_table": _table(material, before, after) if any(errors) else "",
        "matrices": _matrices(material, before, after) if n <= N_IN_MATRIX else "",
    }


def _counts(codes: Array, voted: Array, n: int) -> Array:
    """Rows of each class (down) for which each class is predicted (across)."""
    return np.bincount(codes * n + voted, minlength=n * n).reshape(n, n)


def _table(material: Material, before: Array, after: Array) -> str:
    wrong = np.maximum(before, after)
    np.fill_diagonal(wrong, 0)
    pairs = np.argwhere(wrong)
    order = np.lexsort((-before[*pairs.T], -after[*pairs.T], -wrong[*pairs.T]))
    listed = pairs[order[:N_LISTED]]
    sizes = np.bincount(material.codes)
    lines = []
    for true, voted in listed:
        b, a, size = before[true, voted], after[true, voted], sizes[true]
        change = f"{a - b:+d}".replace("-", "−") if a != b else "0"
        cells = [
            (size, f"{size:,}"),
            (b, f"{b:,}<small> {100 * b / size:.0f}\u00a0%</small>"),
            (a, f"{a:,}<small> {100 * a / size:.0f}\u00a0%</small>"),
            (a - b, change),
        ]
        numbers = "".join(f'<td class="number" data-sort="{s}">{text}</td>' for s, text in cells)
        names = (f"<bdi>{escape(material.voted_names[code])}</bdi>" for code in (true, voted))
        lines.append(f'<tr><th scope="row">{" → ".join(names)}</th>{numbers}</tr>')
    headings = "".join(
        f'<th scope="col"{style}><button type="button">{name}'
        '<span class="sort" aria-hidden="true"></span></button></th>'
        for name, style in (
            ("Class → taken for", ""),
            *((name, ' class="number"') for name in ("Rows", "Before", "After", "Change")),
        )
    )
    count = f"The {N_LISTED} largest" if len(pairs) > N_LISTED else "All"
    return (
        '<div class="card scroll" tabindex="0" role="region" aria-label="Confusions">'
        '<table class="classes" id="confusions-table">'
        f"<caption>{count} confusions of one class with another, as numbers and shares of the rows "
        "of the class; click a column heading to sort</caption>"
        f"<thead><tr>{headings}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _matrices(material: Material, before: Array, after: Array) -> str:
    sizes = np.bincount(material.codes, minlength=len(before))[:, None]
    shares = [counts / np.maximum(sizes, 1) for counts in (before, after)]
    off = [share - np.diag(np.diag(share)) for share in shares]
    strongest = max(float(part.max()) for part in off)
    headings = (f"Before: {DISTANCES[material.before]}", "After: learned")
    cards = "".join(
        f'<div class="card"><h3>{heading}</h3><div class="sideways" tabindex="0" role="region" '
        f'aria-label="{heading}">'
        f"{_matrix(material, counts, share, strongest, heading)}</div></div>"
        for heading, counts, share in zip(headings, (before, after), shares, strict=True)
    )
    note = (
        '<p class="note">Each row of a matrix is a class, and each column is a predicted class. '
        "Correct predictions are green and wrong ones red. A stronger red is a larger share of the "
        f"class; the strongest is {100 * strongest:.0f}\u00a0%.</p>"
    )
    return f'<div class="pair">{cards}</div>{note}'


def _matrix(material: Material, counts: Array, share: Array, strongest: float, heading: str) -> str:
    names = material.voted_names
    lines = len(material.class_names)  # no row has one of the other classes
    side = 28 if len(names) <= 12 else 18
    short = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in names]
    margin = 14 + 7 * max(map(len, short))
    parts = []
    for code, name in enumerate(map(escape, short)):
        middle = margin + (code + 0.5) * side
        if code < lines:
            parts.append(f'<text x="{margin - 6}" y="{middle + 4}" text-anchor="end">{name}</text>')
        parts.append(
            f'<text transform="translate({middle + 4} {margin - 6}) rotate(-90)">{name}</text>'
        )
    for true in range(lines):
        for voted, name in enumerate(names):
            count = counts[true, voted]
            right = true == voted
            strength = share[true, voted] / (1.0 if right else strongest or 1.0)
            x, y = margin + voted * side, margin + true * side
            text = f"{names[true]} taken for {name}" if not right else f"{name}, right"
            title = f"<title>{escape(text)}: {count:,} ({100 * share[true, voted]:.0f} %)</title>"
            parts.append(
                f'<rect class="cell {"right" if right else "wrong"}" x="{x}" y="{y}" '
                f'width="{side - 1}" height="{side - 1}" '
                f'style="--part:{strength:.3f}">{title}</rect>'
            )
            if count and side == 28:
                parts.append(
                    f'<text class="count" x="{x + 13.5}" y="{y + 18}" text-anchor="middle">'
                    f"{count}</text>"
                )
    width, height = margin + len(names) * side, margin + lines * side
    errors = counts.sum() - np.trace(counts)
    description = f"{heading}: matrix of {lines} classes; {errors:,} of {counts.sum():,} are wrong"
    return _svg(parts, description, (width, height), "matrix")
