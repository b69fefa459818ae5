"""Distance metric learning for high-dimensional data by dual random projection.

Names are imported when they are first used, so that ``import dualmetric`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .estimators import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, Euclidean, MetricCV, Whitening
    from .evaluation import knn_accuracy, mean_average_precision
    from .io import open_parquet
    from .metric import Metric
    from .supervision import Comparisons, Labels, Triplets

_HOME = {
    "Comparisons": "supervision",
    "DuOri": "estimators",
    "DuRP": "estimators",
    "Euclidean": "estimators",
    "LMNN": "estimators",
    "Labels": "supervision",
    "Metric": "metric",
    "MetricCV": "estimators",
    "OASIS": "estimators",
    "SPCA": "estimators",
    "SRP": "estimators",
    "Triplets": "supervision",
    "Whitening": "estimators",
    "knn_accuracy": "evaluation",
    "mean_average_precision": "evaluation",
    "open_parquet": "io",
}

__all__ = [
    "LMNN",
    "OASIS",
    "SPCA",
    "SRP",
    "Comparisons",
    "DuOri",
    "DuRP",
    "Euclidean",
    "Labels",
    "Metric",
    "MetricCV",
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
