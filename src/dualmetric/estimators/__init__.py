"""scikit-learn estimators: they validate, call the functions of the package, and store."""

from .base import Euclidean
from .dual import SPCA, SRP, DuOri, DuRP
from .lmnn import LMNN
from .oasis import OASIS
from .query import QueryMetric
from .ridge import RidgeMetric
from .search import MetricCV
from .whitening import Whitening

__all__ = [
    "LMNN",
    "OASIS",
    "SPCA",
    "SRP",
    "DuOri",
    "DuRP",
    "Euclidean",
    "MetricCV",
    "QueryMetric",
    "RidgeMetric",
    "Whitening",
]
