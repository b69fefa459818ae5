"""scikit-learn estimators: they validate, call the functions of the package, and store."""

from ._base import Euclidean
from .dual import SPCA, SRP, DuOri, DuRP
from .lmnn import LMNN
from .oasis import OASIS
from .search import DuRPCV
from .whitened import Whitening

__all__ = ["LMNN", "OASIS", "SPCA", "SRP", "DuOri", "DuRP", "DuRPCV", "Euclidean", "Whitening"]
