"""The page of results: RESULTS.md, index.html and the figures, from stored cells only."""

from collections import defaultdict
from collections.abc import Container
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import NamedTuple

from ..io.atomic import write_atomically
from . import tables
from .cells import Store
from .published import read_asset

_TEXT = read_asset("page.toml")


class Section(NamedTuple):
    """A part of the page: a heading, paragraphs, and a table or the name of a figure."""

    title: str
    text: str
    table: tables.Table | None
    figure: str | None


def write_page(store: Store) -> Path:
    """Write RESULTS.md, index.html and the figures into the store's folder."""
    drawn = _draw(store)
    contents = {f"{name}.svg": picture for name, picture in drawn.items()}
    contents |= {"RESULTS.md": markdown(store, drawn), "index.html": _html(store, drawn)}
    for name, text in contents.items():
        write_atomically(store.folder / name, text.encode())
    return store.folder / "index.html"


def _draw(store: Store) -> dict[str, str]:
    """Return the SVG text of each figure that has something to show."""
    if find_spec("matplotlib") is None:
        return {}  # there are only tables
    from . import figures

    pictures = {
        "spectra": figures.spectra(store),
        "ranking": figures.over_projections(store, "map"),
        "classification": figures.over_projections(store, "knn"),
        "theorems": figures.theorems(store),
    }
    return {name: figures.to_svg(drawn).decode() for name, drawn in pictures.items() if drawn}


def _sections(store: Store, drawn: Container[str]) -> list[Section]:
    """Return the sections that have something to show: a table with rows, or a drawn figure."""
    sections = []
    for entry in _TEXT["sections"]:
        name, figure = entry.get("table"), entry.get("figure")
        table = getattr(tables, name)(store) if name else None
        shown = figure in drawn if table is None else table.rows
        if shown:
            text = "\n\n".join(map(str.strip, (entry["text"], *_remarks(name, table))))
            sections.append(Section(entry["title"], text, table, figure))
    return sections


def _remarks(name: str | None, table: tables.Table | None) -> list[str]:
    """Return paragraphs on a table that depend on its rows."""
    if table is None or name not in _TEXT["remarks"]:
        return []
    remarks = _TEXT["remarks"][name].items()
    if name == "differences":
        outside = {text for row in table.rows if row[-1] == "outside" for text in row[:2]}
        return [remark for key, remark in remarks if key in outside]
    verdicts = defaultdict(list)
    for _, finding, _, verdict in table.rows:
        verdicts[finding].append(verdict == "holds")
    counts = [f"{key}: holds on {sum(v)} of {len(v)} data sets." for key, v in verdicts.items()]
    failed = [finding for finding, held in verdicts.items() if not all(held)]
    return counts + [remark for key, remark in remarks if any(key in text for text in failed)]


def markdown(store: Store, drawn: Container[str]) -> str:
    """Return the text of RESULTS.md; ``drawn`` are the names of the figures it shows."""
    lines = [f"# {_TEXT['title']}", "", _TEXT["introduction"]]
    for section in _sections(store, drawn):
        lines += [f"## {section.title}", "", section.text, ""]
        if section.table is not None:
            headings, rows = section.table
            rules = ["---"] * len(headings)
            lines += [*(f"| {' | '.join(row)} |" for row in (headings, rules, *rows)), ""]
        if section.figure is not None:
            lines += [f"![{section.title}]({section.figure}.svg)", ""]
    return "\n".join(lines)


def _html(store: Store, drawn: dict[str, str]) -> str:
    parts = []
    for section in _sections(store, drawn):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += [f"<p>{escape(text)}</p>" for text in section.text.split("\n\n")]
        if section.table is not None:
            parts.append(_html_table(section.table))
        if section.figure is not None:
            picture = drawn[section.figure]
            parts.append(f"<figure>{picture[picture.index('<svg') :]}</figure>")
    template = files(__package__).joinpath("assets", "page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(_TEXT["title"]),
        introduction=escape(_TEXT["introduction"].strip()).replace("`", ""),
        sections="\n".join(parts),
    )


def _html_table(table: tables.Table) -> str:
    def cell(text: str) -> str:
        mark = " class='no'" if text == "does not hold" else ""
        return f"<td{mark}>{escape(text)}</td>"

    head = "".join(f"<th>{escape(text)}</th>" for text in table.headings)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in table.rows)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"
