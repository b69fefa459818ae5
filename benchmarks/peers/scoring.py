"""Scores of transformed rows, in float64 and the same way for every solver."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from dualmetric.evaluation import knn_accuracy, mean_average_precision

K = 5
DISTANCES = ("euclidean", "cosine", "centred cosine")


def views(gallery: Any, queries: Any) -> dict[str, tuple[Any, Any]]:
    """The rows as each distance sees them: the Euclidean distance there ranks as it does.

    The centre is the mean of the gallery, so that the queries have no part in it. Sparse rows are
    not centred: they would be dense.
    """
    found = {
        "euclidean": (gallery, queries),
        "cosine": (normalize(gallery), normalize(queries)),
    }
    if not sp.issparse(gallery):
        centre = gallery.mean(axis=0)
        found["centred cosine"] = (normalize(gallery - centre), normalize(queries - centre))
    return found


def score(
    gallery: Any,
    y_gallery: np.ndarray,
    queries: Any,
    y_queries: np.ndarray,
    distances: tuple[str, ...] = DISTANCES,
) -> dict[str, dict[str, float]]:
    """mAP among the queries, and their 5-NN accuracy by votes of the gallery, of each distance."""
    gallery, queries = gallery.astype(np.float64), queries.astype(np.float64)
    for rows in (gallery, queries):
        if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
            raise ValueError("the transformed rows hold NaN or infinity")
    return {
        distance: {
            "map": mean_average_precision(right, y_queries),
            "knn": knn_accuracy(left, y_gallery, right, y_queries, k=K),
        }
        for distance, (left, right) in views(gallery, queries).items()
        if distance in distances
    }


def best(scores: dict[str, dict[str, float]], measure: str) -> tuple[float, str]:
    """The score with the better distance, and which that is; the first of equals."""
    distance = max(scores, key=lambda name: scores[name][measure])
    return scores[distance][measure], distance
