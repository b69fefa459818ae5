"""scikit-learn estimators: they validate, call the functions of the package, and store."""

from ._base import Euclidean
from .dual import SPCA, SRP, DuOri, DuRP

__all__ = ["SPCA", "SRP", "DuOri", "DuRP", "Euclidean"]
