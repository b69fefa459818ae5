"""Equations as MathML, which browsers show by themselves: no script, no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, as_block: bool) -> str:
    # sizes follow from the contents
    tex = re.sub(r"\\Big(?![a-z])", "", node.astext()).replace("…", r"\ldots ")
    try:
        found = latex2mathml.tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("%s in %s", error, tex, location=node)
        return ""
    return found.replace("<mo>‖</mo>", '<mo stretchy="false">‖</mo>')  # bars of norms stay as high


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(_mathml(node, as_block=True))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
