"""The page of results: RESULTS.md, index.html and the figures, from stored cells alone."""

import html
from pathlib import Path
from typing import NamedTuple

from .._files import write_atomically
from . import figures, remarks, tables
from .cells import Store

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2 } h2 { margin-top: 2.5rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: left }
th { white-space: nowrap } td { vertical-align: top }
figure { margin: 1rem 0; background: #fff; border-radius: 6px; padding: .5rem }
figure svg { width: 100%; height: auto; display: block }
.no { color: #c0392b; font-weight: 600 }
"""


class Section(NamedTuple):
    """A part of the page: a heading, some sentences, a table, and a figure by its file's name."""

    title: str
    text: str
    table: tables.Table | None = None
    figure: str | None = None


def write_page(store: Store) -> Path:
    """Write RESULTS.md, index.html and the figures into the store's folder."""
    drawn = _draw(store)
    sections = [
        section for section in _sections(store) if section.table is None or section.table.rows
    ]
    folder = store.folder
    write_atomically(folder / "RESULTS.md", _markdown(sections, set(drawn)).encode())
    write_atomically(folder / "index.html", _html(sections, drawn).encode())
    return folder / "index.html"


def _draw(store: Store) -> dict[str, str]:
    """Draw what can be drawn; return the SVG text of each figure."""
    try:
        pictures = {
            "spectra": figures.spectra(store),
            "ranking": figures.over_projections(store, "map"),
            "classification": figures.over_projections(store, "knn"),
            "theorems": figures.theorems(store),
        }
    except ImportError:
        return {}  # no matplotlib: the tables stand alone
    drawn = {}
    for name, figure in pictures.items():
        if figure is not None:
            drawn[name] = figures.to_bytes(figure, "svg")
            write_atomically(store.folder / f"{name}.svg", drawn[name])
            write_atomically(store.folder / f"{name}.png", figures.to_bytes(figure, "png"))
    return {name: content.decode() for name, content in drawn.items()}


def _conclusions(findings: tables.Table) -> str:
    """How often each finding holds, and what we make of those that do not."""
    verdicts: dict[str, list[bool]] = {}
    for _, finding, _, verdict in findings.rows:
        verdicts.setdefault(finding, []).append(verdict == "holds")
    lines = [
        f"{finding}: holds on {sum(held)} of {len(held)} data sets."
        for finding, held in verdicts.items()
    ]
    failed = [finding for finding, held in verdicts.items() if not all(held)]
    if any("faster" in finding for finding in failed):
        lines.append(remarks.SPEED)
    if any("m = 50" in finding for finding in failed):
        lines.append(remarks.PROJECTIONS)
    return "\n\n".join(lines)


def _reasons(differences: tables.Table) -> str:
    """What we make of the differences, for the data sets and methods that are there."""
    outside = [row for row in differences.rows if row[-1] == "outside"]
    sets, methods = {row[0] for row in outside}, {row[1] for row in outside}
    parts = [remarks.GENERAL]
    parts += [text for name, text in remarks.BY_DATASET.items() if name in sets]
    parts += [text for name, text in remarks.BY_METHOD.items() if name in methods]
    return "\n\n".join(parts)


def _sections(store: Store) -> list[Section]:
    findings, differences = tables.findings(store), tables.differences(store)
    return [
        Section(
            "The paper's findings, checked",
            _conclusions(findings),
            findings,
        ),
        Section(
            "Table 1: data sets",
            "Classes, features, training and test rows, ours and the paper's. Stand-ins are other "
            "data of the same kind, where the paper's are not to be had.",
            tables.statistics(store),
        ),
        Section(
            "Figure 1: eigenvalue distributions",
            "Eigenvalues of the covariance of the training rows, as shares of their sum.",
            figure="spectra",
        ),
        Section(
            "Table 2: CPU time",
            "CPU seconds at m = 10: one thread, sampling of triplets left out, projections and "
            "principal components counted. In brackets the paper's, in seconds, and how many times "
            "ours that is.",
            tables.times(store),
        ),
        Section(
            "Table 3: ranking",
            "mAP in per cent at m = 10, mean ± standard deviation over trials; in brackets the "
            "paper's.",
            tables.ranking(store),
        ),
        Section(
            "Where our mAP differs from the paper's, and why",
            _reasons(differences),
            differences,
        ),
        Section(
            "Figure 2: ranking over the number of projections",
            "mAP as m goes from 10 to 50; bars show the standard deviation over trials. Dashed: "
            "methods that do not project.",
            figure="ranking",
        ),
        Section(
            "5-NN accuracy",
            "In per cent at m = 10.",
            tables.classification(store),
        ),
        Section(
            "Figure 3: classification over the number of projections",
            "5-NN accuracy as m goes from 10 to 50.",
            figure="classification",
        ),
        Section(
            "The regularisation λ",
            "mAP of DuRP in per cent at m = 10. The paper fixes λ = 1/N and calls the result "
            "insensitive; the last column is the range over the four values.",
            tables.regularisation(store),
        ),
        Section(
            "Theorem 1",
            "Data of rank r, hinge loss, dual problems solved to a relative gap of 1e-8. The bound "
            "applies from the m at which ε ≤ 1/6, with δ = 0.1.",
            tables.theorem1(store),
        ),
        Section(
            "Theorem 2",
            "Data of full rank, smoothed hinge loss (γ = 1), λ = 1/N, δ = 0.1. The bound applies "
            "from the m at which ε ≤ 1/2; it is loose by orders of magnitude.",
            tables.theorem2(store),
        ),
        Section("Theorems 1 and 2 over m", "Mean and range over trials.", figure="theorems"),
    ]


_TITLE = "The paper's experiments, reproduced"
_INTRODUCTION = (
    "Qian, Jin, Zhang, Zhu: Towards Making High Dimensional Distance Metric Learning Practical. "
    "Made by `dualmetric reproduce` from the stored results beside this page."
)


def _markdown(sections: list[Section], drawn: set[str]) -> str:
    lines = [f"# {_TITLE}", "", _INTRODUCTION, ""]
    for section in sections:
        if section.figure is not None and section.figure not in drawn:
            continue
        lines += [f"## {section.title}", "", section.text, ""]
        if section.table is not None:
            lines.append("| " + " | ".join(section.table.headings) + " |")
            lines.append("|" + "---|" * len(section.table.headings))
            lines += ["| " + " | ".join(row) + " |" for row in section.table.rows]
            lines.append("")
        if section.figure is not None:
            lines += [f"![{section.title}]({section.figure}.svg)", ""]
    return "\n".join(lines)


def _html(sections: list[Section], drawn: dict[str, str]) -> str:
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{html.escape(_TITLE)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(_TITLE)}</h1><p>{html.escape(_INTRODUCTION).replace('`', '')}</p>",
    ]
    for section in sections:
        if section.figure is not None and section.figure not in drawn:
            continue
        paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in section.text.split("\n\n"))
        parts.append(f"<h2>{html.escape(section.title)}</h2>{paragraphs}")
        if section.table is not None:
            parts.append(_html_table(section.table))
        if section.figure is not None:
            picture = drawn[section.figure]
            parts.append(f"<figure>{picture[picture.index('<svg') :]}</figure>")
    return "\n".join(parts) + "\n"


def _html_table(table: tables.Table) -> str:
    def cell(text: str) -> str:
        mark = " class='no'" if text == "does not hold" else ""
        return f"<td{mark}>{html.escape(text)}</td>"

    head = "".join(f"<th>{html.escape(text)}</th>" for text in table.headings)
    body = "".join(f"<tr>{''.join(cell(text) for text in row)}</tr>" for row in table.rows)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"
