"""A threshold that was found, and the error if there is none."""

from dataclasses import dataclass

import numpy as np


class NotEnoughPairsError(ValueError):
    """The labelled pairs cannot support the guarantee that was asked for.

    Attributes
    ----------
    needed : int or None
        About how many more labelled pairs are needed, chosen in the same way. None if more pairs
        are unlikely to help, if more than 100 times as many are needed, or if the pairs are too few
        to estimate it.
    best : float
        The best value of the rate that was measured, without any guarantee. For the precision, it
        is the best of the thresholds that accept at least 20 pairs.
    """

    def __init__(self, message: str, needed: int | None = None, best: float = np.nan) -> None:
        super().__init__(message)
        self.needed, self.best = needed, best


@dataclass(frozen=True)
class Threshold:
    """A distance up to which pairs are taken to be the same, and what is known about it.

    Attributes
    ----------
    distance : float
        Pairs that are at most this far apart are accepted.
    target : {"precision", "recall", "fpr"}
        The rate that the guarantee is about.
    value, confidence : float
        The value of the rate that was asked for, and the confidence.
    bound : float
        With this confidence, the rate is at least this (for "fpr", at most this).
    bound_with_hubs : float
        The same, if entities that are close to all others may be missing from the labelled pairs.
    precision, recall, fpr : float
        Estimates from the labelled pairs, without any guarantee. The precision is for the
        ``prevalence`` of the matcher, if one was given.
    accepted : int
        Number of labelled pairs that are accepted.
    evidence : float
        How many independent pairs would give the same bound: fewer, if pairs share entities.
    """

    distance: float
    target: str
    value: float
    confidence: float
    bound: float
    bound_with_hubs: float
    precision: float
    recall: float
    fpr: float
    accepted: int
    evidence: float

    def __str__(self) -> str:
        sign = "≤" if self.target == "fpr" else "≥"
        text = (
            f"distance ≤ {self.distance:.4g}: {self.target} {sign} {self.bound:.4g} with "
            f"{100 * self.confidence:g} % confidence; measured: precision {self.precision:.4g}, "
            f"recall {self.recall:.4g}, fpr {self.fpr:.3g} ({self.accepted:,} pairs accepted)"
        )
        beyond = (self.bound_with_hubs - self.value) * (1.0 if self.target == "fpr" else -1.0)
        if beyond > 0.0:
            text += (
                f". If hubs (records that are close to all others) may be missing from the "
                f"labelled pairs: {self.target} {sign} {self.bound_with_hubs:.4g}"
            )
        return text
