"""Distance metric learning for high-dimensional data by dual random projection.

Names are imported when they are first used, so that ``import dualmetric`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .estimators import (
        LMNN,
        OASIS,
        SPCA,
        SRP,
        DuOri,
        DuRP,
        Euclidean,
        MetricCV,
        QueryMetric,
        RidgeMetric,
        Whitening,
    )
    from .evaluation import (
        hit_rate,
        knn_accuracy,
        map_at_r,
        mean_average_precision,
        ndcg,
        pair_average_precision,
        precision_at_k,
        query_scores,
        recall_at_k,
        reciprocal_rank,
        verification,
    )
    from .io import open_parquet
    from .matching import Matcher
    from .metric import Metric
    from .supervision import Comparisons, Labels, Pairs, Positives, Relevance, Triplets

_MODULES = {
    "estimators": "DuOri DuRP Euclidean LMNN MetricCV OASIS QueryMetric "
    "RidgeMetric SPCA SRP Whitening",
    "evaluation": "hit_rate knn_accuracy map_at_r mean_average_precision ndcg "
    "pair_average_precision precision_at_k query_scores recall_at_k reciprocal_rank verification",
    "io": "open_parquet",
    "matching": "Matcher",
    "metric": "Metric",
    "supervision": "Comparisons Labels Pairs Positives Relevance Triplets",
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
    "Matcher",
    "Metric",
    "MetricCV",
    "Pairs",
    "Positives",
    "QueryMetric",
    "Relevance",
    "RidgeMetric",
    "Triplets",
    "Whitening",
    "__version__",
    "hit_rate",
    "knn_accuracy",
    "map_at_r",
    "mean_average_precision",
    "ndcg",
    "open_parquet",
    "pair_average_precision",
    "precision_at_k",
    "query_scores",
    "recall_at_k",
    "reciprocal_rank",
    "verification",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
