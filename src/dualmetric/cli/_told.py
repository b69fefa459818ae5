"""What a metric file tells of itself, as far as it is what `fit` writes: anyone may write one."""

from __future__ import annotations

from typing import Any

from ._scores import NAMES

_SCORES = ("map", "knn", "recall")


def text(value: Any) -> str | None:
    """Return text, or None where it is something else."""
    return value if isinstance(value, str) else None


def parameters(value: Any) -> dict[str, Any] | None:
    """Return parameters by their names."""
    return value if isinstance(value, dict) else None


def names(value: Any) -> list[str] | None:
    """Return a list of names."""
    is_list = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return value if is_list else None


def rows(value: Any) -> dict[str, int] | None:
    """Return how many rows were learned from, and held out."""
    keys = ("learned", "held_out")
    if not isinstance(value, dict) or any(type(value.get(key)) is not int for key in keys):
        return None
    return {key: value[key] for key in keys}


def scores(value: Any) -> dict[str, dict[str, float]] | None:
    """Return the scores of those distances that have all of them."""
    if not isinstance(value, dict):
        return None
    found = {name: value[name] for name in NAMES if _are_scores(value.get(name))}
    return {name: {key: kept[key] for key in _SCORES} for name, kept in found.items()} or None


def _are_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(
        type(value.get(key)) in (int, float) and 0 <= value[key] <= 1 for key in _SCORES
    )
