"""Distance metric learning for high-dimensional data by dual random projection.

Names are imported when they are first used, so that ``import dualmetric`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .evaluation import knn_accuracy, mean_average_precision
    from .learners import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, DuRPCV, Euclidean, Whitening
    from .metric import Metric
    from .rowfiles import open_parquet
    from .triplets import Triplets

_HOME = {
    "DuOri": "learners",
    "DuRP": "learners",
    "DuRPCV": "learners",
    "Euclidean": "learners",
    "LMNN": "learners",
    "Metric": "metric",
    "OASIS": "learners",
    "SPCA": "learners",
    "SRP": "learners",
    "Triplets": "triplets",
    "Whitening": "learners",
    "knn_accuracy": "evaluation",
    "mean_average_precision": "evaluation",
    "open_parquet": "rowfiles",
}

__all__ = [
    "LMNN",
    "OASIS",
    "SPCA",
    "SRP",
    "DuOri",
    "DuRP",
    "DuRPCV",
    "Euclidean",
    "Metric",
    "Triplets",
    "Whitening",
    "__version__",
    "knn_accuracy",
    "mean_average_precision",
    "open_parquet",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
