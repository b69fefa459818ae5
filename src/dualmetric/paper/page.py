"""The page of results: RESULTS.md, index.html and the figures, from stored cells only."""

from collections.abc import Container
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import NamedTuple

from ..io.atomic import write_atomically
from . import claims, tables
from .cells import Store
from .published import COUNTERPART, PARTS, read_asset
from .summary import datasets, display_name

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
        table = getattr(claims if name == "claims" else tables, name)(store) if name else None
        shown = figure in drawn if table is None else table.rows
        if shown:
            known = _TEXT["remarks"].get(name, {})
            remarks = [known[key] for key in (table.remarks if table else ()) if key in known]
            text = "\n\n".join(map(str.strip, (entry["text"], *remarks)))
            sections.append(Section(entry["title"], text, table, figure))
    return sections


def _introduction(store: Store) -> list[str]:
    """Return the first paragraphs: what the data sets are, and whether the code is the same."""
    groups: dict[str, list[str]] = {"paper": [], "part": [], "stand-in": [], "other": []}
    for name in datasets(store):
        theirs = COUNTERPART.get(name)
        kind = "paper" if name == theirs else "stand-in" if theirs else "other"
        groups["part" if name in PARTS else kind].append(display_name(name))
    said = [f"{_TEXT['data'][key]}: {', '.join(names)}." for key, names in groups.items() if names]
    paragraphs = [_TEXT["introduction"].strip(), " ".join(said)]
    origins = store.origins()
    if len(origins) > 1:
        listed = (f"{sum(c.values()):,} by {', '.join(c)}" for c in origins.values())
        paragraphs.append(f"{_TEXT['mixed'].strip()} {'; '.join(listed)}.")
    return [text for text in paragraphs if text]


def markdown(store: Store, drawn: Container[str]) -> str:
    """Return the text of RESULTS.md; ``drawn`` are the names of the figures it shows."""
    lines = [f"# {_TEXT['title']}", "", "\n\n".join(_introduction(store)), ""]
    for section in _sections(store, drawn):
        lines += [f"## {section.title}", "", section.text, ""]
        if section.table is not None:
            headings, rows = section.table[:2]
            rules = ["---"] * len(headings)
            lines += [*(f"| {' | '.join(row)} |" for row in (headings, rules, *rows)), ""]
        if section.figure is not None:
            lines += [f"![{section.title}]({section.figure}.svg)", ""]
    return "\n".join(lines)


def _html(store: Store, drawn: dict[str, str]) -> str:
    parts = []
    for section in _sections(store, drawn):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += [f"<p>{_prose(text)}</p>" for text in section.text.split("\n\n")]
        if section.table is not None:
            parts.append(_html_table(section.table))
        if section.figure is not None:
            picture = drawn[section.figure]
            parts.append(f"<figure>{picture[picture.index('<svg') :]}</figure>")
    template = files(__package__).joinpath("assets", "page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(_TEXT["title"]),
        introduction="</p><p>".join(map(_prose, _introduction(store))),
        sections="\n".join(parts),
    )


def _prose(text: str) -> str:
    return escape(text).replace("`", "")


def _html_table(table: tables.Table) -> str:
    def cell(text: str) -> str:
        mark = " class='no'" if text == "does not hold" or text.startswith("no, ") else ""
        return f"<td{mark}>{escape(text)}</td>"

    head = "".join(f"<th>{escape(text)}</th>" for text in table.headings)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in table.rows)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"
