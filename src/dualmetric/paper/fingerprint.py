"""A fingerprint of the code that results depend on."""

import ast
import hashlib
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
# The code that a cell runs through, relative to the package: data, sampling, learning, evaluation.
# Opening and checking arguments is left out, because it does not change numbers.
CODE = (
    "_arrays",
    "datasets/__init__.py",
    "datasets/_reading.py",
    "datasets/_text.py",
    "estimators/base.py",
    "estimators/dual.py",
    "estimators/lmnn.py",
    "estimators/oasis.py",
    "labelled.py",
    "learn.py",
    "losses.py",
    "metric.py",
    "paper/compute.py",
    "paper/theorems.py",
    "prior.py",
    "problem.py",
    "recovery.py",
    "solver.py",
    "spaces.py",
    "supervision/__init__.py",
    "supervision/_base.py",
    "supervision/_checks.py",
    "supervision/labels.py",
    "supervision/sampling.py",
    "supervision/triplets.py",
)


@cache
def fingerprint(code: tuple[str, ...] = CODE) -> str:
    """Return a hash of code that ignores comments, docstrings, messages and the layout."""
    digest = hashlib.sha256()
    for path in code_files(code):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(without_text(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def code_files(code: tuple[str, ...] = CODE) -> list[Path]:
    """Return the files of some code; a folder stands for the modules in it."""
    places = [PACKAGE / name for name in code]
    if missing := [place for place in places if not place.exists()]:
        raise FileNotFoundError(f"{missing[0]} does not exist: correct the list of code")
    files = [[place] if place.is_file() else place.glob("*.py") for place in places]
    return sorted(set(chain.from_iterable(files)))


def without_text(source: str) -> str:
    """Return the structure of source code without comments, docstrings and messages.

    It does not depend on the version of Python, as the texts of `ast.unparse` and `ast.dump` do.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())), *rest]:
                    node.body = rest or [ast.Pass()]
    return repr(_outline(tree))


def _outline(node: Any) -> Any:
    """Return a syntax tree as lists, without fields that are empty: newer versions have more."""
    match node:
        case list():
            return [_outline(each) for each in node]
        case ast.JoinedStr():
            return "text"
        case ast.Constant(str() as value) if value.count(" ") > 1:  # for people to read
            return "text"
        case ast.AST():
            fields = (
                (name, part) for name, part in ast.iter_fields(node) if part not in (None, [])
            )
            return [type(node).__name__, [(name, _outline(part)) for name, part in fields]]
    return node
