"""Whether two rows are the same: probabilities, thresholds with a guarantee, duplicates."""

from ._calibration import Calibration, MatchScores
from ._found import NotEnoughPairsError, Threshold
from ._thresholds import Evidence
from .duplicates import Duplicates
from .matcher import Band, Matcher

__all__ = [
    "Band",
    "Calibration",
    "Duplicates",
    "Evidence",
    "MatchScores",
    "Matcher",
    "NotEnoughPairsError",
    "Threshold",
]
