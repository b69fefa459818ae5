"""Objectives: each file says what is learned from, what is judged, and with which variants."""

from types import ModuleType

from . import few_labels, growth, same_classes, unseen_classes
from ._problem import Problem

ALL: dict[str, ModuleType] = {
    "same_classes": same_classes,
    "unseen_classes": unseen_classes,
    "few_labels": few_labels,
    "growth": growth,
}

__all__ = ["ALL", "Problem"]
