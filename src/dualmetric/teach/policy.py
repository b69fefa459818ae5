"""What to ask next.

An answer about two rows says something about all pairs of their groups, so the answers that change
the metric most are about large groups whose relation is not known and not obvious. With p the
probability that two groups belong together, as a logistic curve over the distances of judged pairs
estimates it, asking is worth p(1 − p) times the number of pairs.

Some queries are drawn at random, so that their judgements can also measure: see `meter`.
"""

from typing import Any, NamedTuple

import numpy as np

from .._types import Array
from .judgements import Groups, Judgement

N_ASKED = 10
"""Rows that are asked about for one query."""

RANDOM_EVERY = 4
"""One query of so many is drawn at random."""

NEAR_SHARE = 0.1
"""Share of the rows, nearest to a random query, from which rows to ask about are drawn."""

_POOL = 300  # rows not judged so far that are considered
_MOST_GROUPS = 60


class Question(NamedTuple):
    """A query and rows to judge for it."""

    query: int
    rows: Array
    asked: str  # "random" or "next"


def ask(
    number: int, live: Any, n_rows: int, judgements: list[Judgement], groups: Groups,
    rng: np.random.Generator,
) -> Question:  # fmt: skip
    """The question of this number, counted from 0."""
    if number % RANDOM_EVERY:
        found = ask_next(live, n_rows, judgements, groups, rng)
        if found is not None:
            return found
    return ask_random(live, n_rows, groups, rng)


def ask_random(live: Any, n_rows: int, groups: Groups, rng: np.random.Generator) -> Question:
    """A random query, and random rows near it; none of them has been judged, if there are such."""
    free = np.setdiff1d(np.arange(n_rows), np.fromiter(groups.of, dtype=np.int64))
    if len(free) < 2 * N_ASKED:
        free = np.arange(n_rows)
    query = int(rng.choice(free))
    k = max(3 * N_ASKED, int(NEAR_SHARE * n_rows))
    drawn: list[int] = []
    # half near by the plain distance and half by that taught: neither is favoured
    for rows in (live.nearest_plain(query, k)[0], live.nearest(query, k)[0]):
        left = np.setdiff1d(np.intersect1d(rows, free), drawn)
        n = min(len(left), N_ASKED - N_ASKED // 2)
        drawn += rng.choice(left, size=n, replace=False).tolist()
    return Question(query, np.array(drawn[:N_ASKED], dtype=np.int64), "random")


def ask_next(
    live: Any, n_rows: int, judgements: list[Judgement], groups: Groups, rng: np.random.Generator
) -> Question | None:
    """The query whose answers are worth most, or None where too little is known."""
    right = np.array([judgement.right for judgement in judgements], dtype=bool)
    if right.sum() < 3 or (~right).sum() < 3:
        return None
    largest = sorted(groups.members, key=lambda g: -len(groups.members[g]))[:_MOST_GROUPS]
    pool = rng.choice(n_rows, size=min(_POOL, n_rows), replace=False)
    new = [int(row) for row in pool if row not in groups.of]
    units = [groups.members[g] for g in largest] + [[row] for row in new]
    names = [*largest, *new]
    recent = judgements[-500:]
    rows = np.unique([row for unit in units for row in unit] + [r for j in recent for r in j[:2]])
    mapped = live.mapped(rows).astype(np.float64)
    place = {int(row): number for number, row in enumerate(rows)}
    pairs = np.array([[place[j.query], place[j.row]] for j in recent])
    apart = np.square(mapped[pairs[:, 0]] - mapped[pairs[:, 1]]).sum(axis=1)
    slope, offset = _logistic(apart, np.array([j.right for j in recent], dtype=bool))
    centres = np.array([mapped[[place[row] for row in unit]].mean(axis=0) for unit in units])
    spread = np.array([
        np.square(mapped[[place[row] for row in unit]] - centre).sum(axis=1).mean()
        for unit, centre in zip(units, centres, strict=True)
    ])  # fmt: skip
    sizes = np.array([len(unit) for unit in units], dtype=np.float64)
    n = len(largest)
    squares = np.square(centres[:n, None, :] - centres[None, :, :]).sum(axis=2)
    squares += spread[:n, None] + spread[None, :]  # mean over all pairs of the two groups
    p = 1.0 / (1.0 + np.exp(-(offset - slope * squares)))
    value = p * (1.0 - p) * sizes[:n, None] * sizes[None, :]
    for number, g in enumerate(largest):
        known = [names.index(h) for h in groups.apart[g] if h in names]
        value[number, [number, *known]] = 0.0
    top = -np.sort(-value, axis=1)[:, :N_ASKED]
    best = int(np.argmax(top.sum(axis=1)))
    if top[best, 0] <= 0.0:
        return None
    chosen = np.argsort(-value[best], kind="stable")[:N_ASKED]
    chosen = chosen[value[best, chosen] > 0.0]
    query = int(rng.choice(units[best]))
    found = [int(rng.choice(units[unit])) for unit in chosen]
    return Question(query, np.array(found, dtype=np.int64), "next")


def _logistic(squares: Array, right: Array) -> tuple[float, float]:
    """Slope and offset of log odds(right) = offset − slope·d², by Newton's method with a ridge."""
    size = float(squares.mean()) or 1.0
    x = np.column_stack([-squares / size, np.ones(len(squares))])
    w, ridge = np.array([1.0, 1.0]), np.diag([0.1, 0.1])
    for _ in range(25):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ w, -30, 30)))
        slope = x.T @ (right - p) - ridge @ (w - 1.0)
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + ridge, slope)
        w = w + np.clip(step, -2, 2)
    return max(float(w[0]), 0.0) / size, float(w[1])
