"""How the time of a fit grows with rows, features, non-zeros, triplets, projections and rank.

Each axis covers about two decades and keeps the rest as it is.
"""

from typing import Any

from ..datasets import Data
from ._problem import Problem

SEEDS = 1
LEARNERS = ("DuRP", "DuRP, whitened")
SOLVERS = {
    "rows": (*LEARNERS, "LDA", "TruncatedSVD"),
    "features": (*LEARNERS, "LDA", "TruncatedSVD"),
    "nonzeros": (*LEARNERS, "TruncatedSVD"),
    "triplets": LEARNERS,
    "projections": LEARNERS,
    "rank": LEARNERS,
}
"""Methods that run on each axis: the last three are parameters of our estimators."""

_USUAL = "made_dense_n20000_d100"
_WIDE = "made_sparse_n20000_d20000_z50"


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Data sets, each with the variant of the test and the settings of solvers."""
    decades = (10_000, 31_600, 100_000, 316_000, 1_000_000)
    sizes = {
        "rows": [(n, f"made_dense_n{n}_d100", {}) for n in decades],
        "features": [(d, f"made_dense_n2000_d{d}", {}) for d in (100, 316, 1000, 3160, 10_000)],
        "nonzeros": [
            (20_000 * z, f"made_sparse_n20000_d100000_z{z}", {}) for z in (5, 16, 50, 158, 500)
        ],
        "triplets": [(count, _USUAL, {"n_triplets": count}) for count in decades],
        "projections": [(m, _USUAL, {"n_projections": m}) for m in (1, 3, 10, 32, 100)],
        "rank": [(rank, _WIDE, {"n_components": rank}) for rank in (1, 3, 10, 32, 100)],
    }
    return [
        (name, {"axis": axis, "size": size}, settings)
        for axis, points in sizes.items()
        for size, name, settings in points
    ]


def problem(data: Data, seed: int, axis: str, size: int) -> Problem:
    """All rows, and nothing to judge."""
    return Problem(data.X, data.y)
