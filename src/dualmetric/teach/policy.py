"""What to ask next.

The answer that changes the metric most is one that cannot be guessed. With p the probability that a
row is right for a query, as a logistic curve over the distances of judged pairs estimates it, rows
are drawn with a probability that grows with p(1 − p). Of those drawn, the ones that are farthest
from each other are asked about: rows that are alike would give the same answer. The query lies
among many others, so that it stands for them, and far from all rows that were judged before. One of
its rows is of the group that it most probably belongs to, so that groups grow together: an answer
about one of its rows says something about all.

Some queries are drawn at random, so that their judgements can also measure: see `meter`.

The numbers below were chosen on the sets of ``benchmarks/teaching.py choose``.
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

DOUBT_SHARE = 0.3
"""The same for other queries, where rows in doubt are drawn more often."""

_DOUBT = 1.0  # rows are drawn in proportion to this power of p(1 − p)
_SPREAD = 4  # times as many rows are drawn as asked about; the farthest from each other are taken
_POOL = 2000  # rows without a judgement that are considered, at most
_QUERIES = 20  # rows that may become the query
_AROUND, _JUDGED = 200, 60  # rows of all, and of those judged, that they are compared with
_GROUPS, _MEMBERS = 200, 5  # groups, and rows of each, that are considered
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
        found = ask_next(live, n_rows, judgements, groups, rng)
        if found is not None:
            return found
    return ask_random(live, n_rows, groups, rng)


def ask_random(live: Any, n_rows: int, groups: Groups, rng: np.random.Generator) -> Question:
    """A random query, and random rows near it; none of them has been judged, if there are such."""
    free = _free(n_rows, groups)
    if len(free) < 2 * N_ASKED:
        free = np.arange(n_rows)
    query = int(rng.choice(free))
    pool = _pool(free, query, rng)
    near = max(3 * N_ASKED, int(NEAR_SHARE * len(pool)))
    drawn: list[int] = []
    # half near by the plain distance and half by that taught: neither is favoured
    for squares in (live.distances(query, pool, 0), live.distances(query, pool)):
        left = np.setdiff1d(pool[np.argsort(squares, kind="stable")[:near]], drawn)
        n = min(len(left), N_ASKED // 2)
        drawn += rng.choice(left, size=n, replace=False).tolist()
    return Question(query, np.array(drawn, dtype=np.int64), "random")


def ask_next(
    live: Any, n_rows: int, judgements: list[Judgement], groups: Groups, rng: np.random.Generator
) -> Question | None:
    """A query and the rows that are worth most, or None where too little is known."""
    right = np.array([judgement.right for judgement in judgements], dtype=bool)
    free = _free(n_rows, groups)
    if min(right.sum(), (~right).sum()) < 3 or len(free) < 2 * N_ASKED:
        return None
    recent = np.array([judgement[:2] for judgement in judgements[-_RECENT:]])
    slope, offset = _logistic(live.pair_distances(recent), right[-_RECENT:])

    def chance(rows: Array) -> tuple[Array, Array]:
        squares = live.distances(query, rows)
        return squares, 1.0 / (1.0 + np.exp(np.clip(slope * squares - offset, -30, 30)))

    query = _new_query(live, free, n_rows, groups, rng)
    known = [members for members in groups.members.values() if len(members) > 1]
    chosen: list[int] = []
    if known:
        some = [known[place] for place in rng.permutation(len(known))[:_GROUPS]]
        drawn = np.array([rng.choice(members, size=_MEMBERS) for members in some])
        likely = chance(drawn.ravel())[1].reshape(drawn.shape).mean(axis=1).argmax()
        chosen.append(int(drawn[likely, 0]))
    pool = _pool(free, query, rng)
    squares, p = chance(pool)
    near = np.argsort(squares, kind="stable")[: max(3 * N_ASKED, int(DOUBT_SHARE * len(pool)))]
    worth = (p[near] * (1.0 - p[near])) ** _DOUBT
    n = N_ASKED - len(chosen)
    size = min(_SPREAD * n, len(near))
    drawn = rng.choice(pool[near], size=size, replace=False, p=worth / worth.sum())
    chosen += _far_apart(live, drawn, n)
    return Question(query, np.array(chosen, dtype=np.int64), "next")


def _free(n_rows: int, groups: Groups) -> Array:
    """Rows without any judgement."""
    return np.setdiff1d(np.arange(n_rows), np.fromiter(groups.of, dtype=np.int64))


def _pool(free: Array, query: int, rng: np.random.Generator) -> Array:
    """Some of these rows, without the query."""
    left = free[free != query]
    return left if len(left) <= _POOL else rng.choice(left, size=_POOL, replace=False)


def _new_query(
    live: Any, free: Array, n_rows: int, groups: Groups, rng: np.random.Generator
) -> int:
    """Of a few rows, those that lie among many others; of these, the farthest from judged rows."""
    some = rng.choice(free, size=min(_QUERIES, len(free)), replace=False)
    around = rng.choice(n_rows, size=min(_AROUND, n_rows), replace=False)
    judged = np.fromiter(groups.of, dtype=np.int64)
    judged = rng.choice(judged, size=min(_JUDGED, len(judged)), replace=False)
    lonely = np.partition(live.between(some, around), 5, axis=1)[:, 5]
    new = np.partition(live.between(some, judged), 2, axis=1)[:, 2]
    typical = lonely <= np.median(lonely)
    return int(some[typical][new[typical].argmax()])


def _far_apart(live: Any, rows: Array, n: int) -> list[int]:
    """The first of the rows, and then always the one that is farthest from those taken so far."""
    between = live.between(rows, rows)
    squares, taken = between[0].copy(), [0]
    while len(taken) < min(n, len(rows)):
        squares[taken] = -1.0  # also where rows are equal
        taken.append(int(squares.argmax()))
        squares = np.minimum(squares, between[taken[-1]])
    return [int(row) for row in rows[taken]]


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
