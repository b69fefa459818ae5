"""Whether teaching helps: agreement on judgements before they are learned from.

Only queries that were drawn at random count, with rows drawn at random among those near them.
When such a query is shown, the distances of its rows are noted: by the plain distance, by the
metric taught so far, and by the metric of some judgements ago. The answers come afterwards, and
are learned from afterwards. The agreement of a query is the share of its pairs of a right and a
wrong row in which the right one was closer.
"""

from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from ..intervals import bootstrap_interval, paired_interval

FEWEST = 8
"""Random queries with right and wrong rows, before the meter says anything."""

STOP_BELOW = 0.01
"""Gain of the last judgements below which teaching further is not worth it."""

NAMES = ("plain", "taught", "earlier")


class Check(NamedTuple):
    """A random query: its rows, and their distances under each metric when it was shown."""

    query: int
    rows: Array
    distances: dict[str, Array]
    answers: dict[int, bool]  # row: right


class Reading(NamedTuple):
    """What the meter shows."""

    n_checks: int  # queries that count
    plain: float | None  # agreement, between 0 and 1
    plain_interval: tuple[float, float] | None
    taught: float | None
    taught_interval: tuple[float, float] | None
    gain_interval: tuple[float, float] | None  # of taught minus plain
    verdict: str  # "too few", "helps", "harms" or "no difference"
    stop: bool  # whether the last judgements no longer helped
    text: str  # all of it in a sentence


def as_entry(check: Check) -> dict[str, Any]:
    """What is written to the file of judgements before the answers come."""
    distances = {name: values.tolist() for name, values in check.distances.items()}
    return {"query": check.query, "rows": check.rows.tolist(), **distances}


def from_entry(entry: Any) -> Check | None:
    """A check that was read from a file; None where it is not one."""
    try:
        rows = np.array(entry["rows"], dtype=np.int64)
        distances = {name: np.array(entry[name], dtype=np.float64) for name in NAMES}
        same = all(d.shape == rows.shape and np.isfinite(d).all() for d in distances.values())
        if rows.ndim != 1 or not same:
            return None
        return Check(int(entry["query"]), rows, distances, {})
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def agreement(distances: Array, right: Array) -> float:
    """Share of pairs of a right and a wrong row in which the right one is closer; ties are ½."""
    near, far = distances[right], distances[~right]
    if not len(near) or not len(far):
        return float("nan")
    return float(np.mean(0.5 + 0.5 * np.sign(far[None, :] - near[:, None])))


def read(checks: list[Check]) -> Reading:
    """The meter after these checks."""
    scores: dict[str, Any] = {name: [] for name in NAMES}
    for check in checks:
        judged = np.array([row in check.answers for row in check.rows], dtype=bool)
        right = np.array([check.answers.get(row, False) for row in check.rows], dtype=bool)[judged]
        if right.any() and not right.all():
            for name in NAMES:
                scores[name].append(agreement(check.distances[name][judged], right))
    n = len(scores["plain"])
    if n < FEWEST:
        text = f"Too few random queries to say anything: {n} of the {FEWEST} needed."
        return Reading(n, None, None, None, None, None, "too few", False, text)
    plain, taught, earlier = (np.array(scores[name]) for name in NAMES)
    low, high = paired_interval(taught, plain)
    verdict = "helps" if low > 0 else "harms" if high < 0 else "no difference"
    _, further = paired_interval(taught[-3 * FEWEST :], earlier[-3 * FEWEST :])
    stop = verdict != "harms" and n >= 2 * FEWEST and further < STOP_BELOW
    mean, low_points, high_points = (100 * x for x in ((taught - plain).mean(), low, high))
    gain = f"{mean:+.1f} points (95 % interval {low_points:+.1f} to {high_points:+.1f})"
    text = {
        "helps": f"Teaching helps: {gain}.",
        "harms": f"Teaching makes the ranking worse: {gain}. Undo, or check the judgements for "
        "contradictions.",
        "no difference": f"No clear difference yet: {gain}.",
    }[verdict]
    if stop:
        text += " The last judgements changed little: this is a good time to stop."
    return Reading(
        n,
        float(plain.mean()),
        bootstrap_interval(plain),
        float(taught.mean()),
        bootstrap_interval(taught),
        (low, high),
        verdict,
        stop,
        text,
    )
