"""What to ask next.

The answer that changes the metric most is one that cannot be guessed. With p the probability that a
row is right for a query, as a logistic curve over the distances of judged pairs estimates it, rows
with p near ½ are asked about. Half of them stand for a group, since an answer about one of its rows
says something about all: a group of s rows is worth p(1 − p)·√s. The query is a new row, or one
judged before, by turns: the former shows more of the data, and the latter more of one group.

Some queries are drawn at random, so that their judgements can also measure: see `meter`.
"""

from itertools import pairwise
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

_POOL = 100  # rows not judged so far that are considered
_RECENT = 500  # judgements that the probability is estimated from


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
        found = ask_next(number, live, n_rows, judgements, groups, rng)
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
    number: int, live: Any, n_rows: int, judgements: list[Judgement], groups: Groups,
    rng: np.random.Generator,
) -> Question | None:  # fmt: skip
    """A query and the rows that are worth most, or None where too little is known."""
    right = np.array([judgement.right for judgement in judgements], dtype=bool)
    known = np.fromiter(groups.of, dtype=np.int64)
    free = np.setdiff1d(np.arange(n_rows), known)
    if min(right.sum(), (~right).sum()) < 3 or len(free) < 2 * N_ASKED:
        return None
    query = int(rng.choice(known if number % 2 else free))
    near = live.nearest(query, max(3 * N_ASKED, int(NEAR_SHARE * n_rows)))[0]
    near = np.intersect1d(near, free)
    near = rng.choice(near, size=min(_POOL, len(near)), replace=False)
    group = groups.of.get(query, query)
    told = {group, *groups.apart.get(group, ())}
    open_groups = [m for g, m in groups.members.items() if len(m) > 1 and g not in told]
    rows = np.concatenate([near, *open_groups]).astype(np.int64)
    squares = live.distances(query, rows)
    recent = judgements[-_RECENT:]
    pairs = np.array([[j.query, j.row] for j in recent])
    answers = np.array([j.right for j in recent], dtype=bool)
    slope, offset = _logistic(live.pair_distances(pairs), answers)
    p = 1.0 / (1.0 + np.exp(slope * squares - offset))
    starts = len(near) + np.cumsum([0, *(len(m) for m in open_groups)])
    parts = [slice(a, b) for a, b in pairwise(starts)]
    means = np.array([p[part].mean() for part in parts])
    worth = means * (1.0 - means) * np.sqrt([len(m) for m in open_groups])
    chosen = [int(rng.choice(open_groups[g])) for g in np.argsort(-worth)[: N_ASKED // 2]]
    doubt = np.argsort(np.abs(p[: len(near)] - 0.5), kind="stable")
    chosen += [int(row) for row in near[doubt[: N_ASKED - len(chosen)]]]
    return Question(query, np.array(chosen, dtype=np.int64), "next")


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
