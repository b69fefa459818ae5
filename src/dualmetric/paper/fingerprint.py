"""A fingerprint of the code that results depend on."""

import ast
import hashlib
from functools import cache
from itertools import chain
from pathlib import Path

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
    "supervision/labels.py",
    "supervision/sampling.py",
    "supervision/triplets.py",
)


@cache
def fingerprint() -> str:
    """Return a hash of this code that ignores comments, docstrings and the layout of lines."""
    digest = hashlib.sha256()
    for path in code_files():
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(without_text(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def code_files() -> list[Path]:
    """Return the files of `CODE`; a folder stands for the modules in it."""
    places = [PACKAGE / name for name in CODE]
    files = [[place] if place.is_file() else place.glob("*.py") for place in places]
    return sorted(chain.from_iterable(files))


def without_text(source: str) -> str:
    """Return source code in one standard layout, without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())), *rest]:
                    node.body = rest or [ast.Pass()]
    return ast.unparse(tree)
