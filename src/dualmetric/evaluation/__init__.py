"""How well distances agree with what is known: labels, judgements of documents, and pairs."""

from ..labelled import average_precisions, knn_accuracy, mean_average_precision
from .pairs import Curve, Verification, pair_average_precision, pair_interval, verification
from .protocol import Protocol, verification_by_entity
from .search import (
    hit_rate,
    map_at_r,
    ndcg,
    precision_at_k,
    query_scores,
    recall_at_k,
    reciprocal_rank,
)

__all__ = [
    "Curve",
    "Protocol",
    "Verification",
    "average_precisions",
    "hit_rate",
    "knn_accuracy",
    "map_at_r",
    "mean_average_precision",
    "ndcg",
    "pair_average_precision",
    "pair_interval",
    "precision_at_k",
    "query_scores",
    "recall_at_k",
    "reciprocal_rank",
    "verification",
    "verification_by_entity",
]
