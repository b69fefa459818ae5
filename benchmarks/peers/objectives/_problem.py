"""What an objective makes of a data set."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from, and rows to judge.

    Each query ranks the other queries (mAP), and is classified by votes of the gallery (5-NN).
    ``gallery`` None is the rows learned from; ``queries`` None judges time and memory alone.
    """

    X: Any
    y: np.ndarray
    queries: Any = None
    y_queries: np.ndarray | None = None
    gallery: Any = None
    y_gallery: np.ndarray | None = None
