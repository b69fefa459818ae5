"""Solvers: each file holds one method, or one family, and what it needs.

A solver is a function ``learn(X, y, seed)`` that returns a transformation of rows; see
`_solver.Solver`. Packages are imported inside it, so that the list of solvers needs none of them.
"""

from importlib import import_module
from pkgutil import iter_modules

from ._solver import Solver

__all__ = ["Solver", "all_solvers", "find_solver"]


def all_solvers() -> list[Solver]:
    """Every solver of every file in this folder: peers first, then ours."""
    names = sorted(info.name for info in iter_modules(__path__) if not info.name.startswith("_"))
    modules = [import_module(f".{name}", __name__) for name in names]
    found = [solver for module in modules for solver in module.SOLVERS]
    return sorted(found, key=lambda solver: solver.ours)


def find_solver(name: str) -> Solver:
    """The solver of that name."""
    return next(solver for solver in all_solvers() if solver.name == name)
