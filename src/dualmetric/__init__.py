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

_MODULES = {
    "estimators": "DuOri DuRP Euclidean LMNN MetricCV OASIS SPCA SRP Whitening",
    "evaluation": "knn_accuracy mean_average_precision",
    "io": "open_parquet",
    "metric": "Metric",
    "supervision": "Comparisons Labels Triplets",
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
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
