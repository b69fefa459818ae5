"""The frame that all pages share: one file, which loads nothing and sends nothing."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from .._version import __version__
from ._material import clean


def fill_page(
    body: str,
    values: Mapping[str, object],
    *,
    title: str,
    kind: str,
    whole: str,
    summary: str,
    parts: Sequence[str],
    scripts: Sequence[str],
    data: str = "",
) -> str:
    """HTML of a page whose body is the asset of this name, with values filled in.

    ``kind`` is the name of the page and ``whole`` the word for it. ``parts`` are the headings of
    the sections to link to, whose ids are the same in lower case. ``data`` is an element that
    scripts read.
    """
    script = "\n".join(_asset(name) for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return Template(_asset("shell.html")).substitute(
        title=escape(clean(title)),
        kind=kind,
        whole=whole,
        summary=summary,
        links="".join(f'  <a href="#{name.lower()}">{name}</a>\n' for name in parts),
        body=Template(_asset(body)).substitute(values),
        script_hash=f"sha256-{digest}",
        style=_asset("style.css"),
        script=script,
        data=data,
        version=escape(__version__),
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
