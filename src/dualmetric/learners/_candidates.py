"""Every combination of settings, scored on held-out rows; what they share is computed once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.extmath import row_norms

from .. import products, spaces
from .._types import Array, Rows
from ..comparison import N_VOTES
from ..evaluation import average_precisions
from ..lift import LANDMARKS, rbf_lift
from ..losses import get_loss
from ..recovery import DENSE_LIMIT, leading_part, positive_part, stretches
from ..solver import solve_dual
from ..triplets import Triplets, sample_triplets
from ..whitening import ExplicitScatter, ImplicitScatter, Scatter, Spread, within_classes
from ._base import SCALE
from ._dual import SPAN_LIMIT
from ._folds import Part

_ALL_DIRECTIONS = 1000  # features up to which all directions are found, not the leading ones only
_WIDE_RANK = 50
_MOST_VOTERS = 10_000


class Settings(NamedTuple):
    """What is to be tried.

    Attributes
    ----------
    axes : dict of str to sequence
        Candidates for each parameter of DuRP.
    ranks : sequence of int or None
        Candidates for the rank; None for a choice by the number of classes.
    scoring : {"map", "knn"}
        What is compared.
    n_projections, n_triplets, max_epochs : int
        As in DuRP.
    """

    axes: dict[str, Sequence[Any]]
    ranks: Sequence[int] | None
    scoring: str
    n_projections: int
    n_triplets: int
    max_epochs: int


@dataclass(frozen=True, eq=False)
class Candidate:
    """Settings and how they did: one score a held-out query, NaN where it has nothing to find."""

    params: dict[str, Any]
    scores: Array
    fit_time: float
    score_time: float

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.nanmean(self.scores))

    @property
    def is_plain(self) -> bool:
        """Whether nothing was learned."""
        return self.params.keys() == {"distance"}

    @classmethod
    def merged(cls, same: Sequence["Candidate"]) -> "Candidate":
        """The same settings on several parts."""
        return cls(
            same[0].params,
            np.concatenate([candidate.scores for candidate in same]),
            float(np.mean([candidate.fit_time for candidate in same])),
            float(np.mean([candidate.score_time for candidate in same])),
        )


def score_candidates(
    X: Rows,
    codes: Array,
    part: Part,
    settings: Settings,
    seed: int,
    say: Callable[[str], object] | None = None,
) -> list[Candidate]:
    """Learn from one part of the rows with all settings, and score them on the other.

    The first two candidates are the plain distances; the order of all is the same for every part.
    """
    train, test = products.take_rows(X, part.train), products.take_rows(X, part.test)
    judge = _judge(codes[part.train], codes[part.test], settings.scoring, part.same_classes, seed)
    result = []
    for distance in ("euclidean", "cosine"):
        begin = perf_counter()
        scores = judge(*_compared((train, test), distance))
        result.append(Candidate({"distance": distance}, scores, 0.0, perf_counter() - begin))
    result += _whitened(train, test, codes[part.train], settings, judge)
    ranks = _ranks(settings.ranks, int(codes.max()) + 1)
    lifts = settings.axes["lift"]
    if products.is_sparse(X):
        lifts = [lift for lift in lifts if lift is None]
        if not lifts:
            raise ValueError("a lift is for dense rows, and X is sparse: put None among the lifts")
    for lift in lifts:
        width = X.shape[1] if lift is None else min(X.shape[0], LANDMARKS)
        tried = ranks
        if width > _ALL_DIRECTIONS:  # not all are found
            tried = [rank for rank in ranks if rank is not None] or [_WIDE_RANK]
        for base, spent, values, mapped in _directions(
            train, test, codes[part.train], lift, tried, settings, seed
        ):
            if say is not None:
                say(f"[DuRPCV] {base}: {len(values)} directions in {spent:.2f} s")
            few = min((rank for rank in tried if rank is not None), default=None)
            for rank, power, distance in product(
                tried, settings.axes["power"], settings.axes["distance"]
            ):
                if power < 0.0 and rank != few:
                    continue  # the last of many directions are noise, and would be the longest
                begin = perf_counter()
                lengths = stretches(values[:rank], power).astype(train.dtype)
                rows = (mapped[0][:, :rank] * lengths, mapped[1][:, :rank] * lengths)
                scores = judge(*_compared(rows, distance))
                params = {**base, "n_components": rank, "power": power, "distance": distance}
                result.append(Candidate(params, scores, spent, perf_counter() - begin))
    return result


def _whitened(
    train: Rows, test: Rows, codes: Array, settings: Settings, judge: Callable[[Rows, Rows], Array]
) -> list[Candidate]:
    """Candidates of `Whitening`: all directions of whitened rows, and no triplets."""
    result = []
    begin = perf_counter()
    if train.shape[1] > _ALL_DIRECTIONS:
        return []
    spread = within_classes(train, codes)
    if spread.trace <= 0.0:
        return []
    W = products.quadratic(train, spread.apply)
    for shrinkage in settings.axes["shrinkage"]:
        if shrinkage == 1.0:
            continue  # the plain distance
        root = ExplicitScatter(W, spread.trace, shrinkage, len(W)).root()
        mapped = (products.dot(train, root), products.dot(test, root))
        spent = perf_counter() - begin
        for distance in settings.axes["distance"]:
            begin = perf_counter()
            scores = judge(*_compared(mapped, distance))
            params = {"shrinkage": shrinkage, "distance": distance}
            result.append(Candidate(params, scores, spent, perf_counter() - begin))
        begin = perf_counter()
    return result


def _ranks(given: Sequence[int] | None, n_classes: int) -> list[int | None]:
    if given is not None:
        return list(given)
    return [max(n_classes - 1, 1), _WIDE_RANK, None]


def _compared(rows: tuple[Rows, Rows], distance: str) -> tuple[Rows, Rows]:
    """Training and test rows as a distance compares them.

    For the cosine they are of length one, and dense rows centred by the mean of the training rows.
    """
    if distance == "euclidean":
        return rows
    train, test = rows
    if products.is_sparse(train):
        return (
            products.unit_rows(train, in_place=False),
            products.unit_rows(test, in_place=False),
        )
    centre = products.column_means(train)
    return (
        products.unit_rows(train - centre, in_place=True),
        products.unit_rows(test - centre, in_place=True),
    )


def _judge(
    train_codes: Array, test_codes: Array, scoring: str, same_classes: bool, seed: int
) -> Callable[[Rows, Rows], Array]:
    """Function of training and test rows in some space to a score for each test row."""
    if scoring == "map":
        return lambda _, test: average_precisions(test, test_codes)
    if not same_classes:  # held-out rows are neighbours of each other
        places = np.arange(len(test_codes))
        return lambda _, test: _right_shares(test, test_codes, test, test_codes, places)
    nobody = np.full(len(test_codes), -1)
    voters = np.arange(len(train_codes))
    if len(voters) > _MOST_VOTERS:
        voters = np.random.default_rng(seed).choice(voters, _MOST_VOTERS, replace=False)
    codes = train_codes[voters]
    return lambda train, test: _right_shares(train[voters], codes, test, test_codes, nobody)


def _right_shares(rows: Rows, codes: Array, queries: Rows, wanted: Array, skip: Array) -> Array:
    """Share of each query's five nearest rows that have its class.

    It tells settings apart sooner than the vote of these rows.
    """
    from .. import _kernels

    k = min(N_VOTES, rows.shape[0] - int(skip[0] >= 0))
    if not products.is_sparse(rows):  # near zero, numbers keep their digits
        mean = products.column_means(rows)
        rows, queries = rows - mean, queries - mean
    norms = row_norms(rows, squared=True)
    out = np.empty(queries.shape[0])
    for start in range(0, queries.shape[0], 256):
        block = slice(start, start + 256)
        product = queries[block] @ rows.T
        distances = product.toarray() if products.is_sparse(product) else product
        distances *= -2
        distances += norms  # a query's own length is the same for all
        _kernels.right_neighbors(distances, codes, wanted[block], skip[block], k, out[block])
    return out


def _directions(
    train: Rows,
    test: Rows,
    codes: Array,
    lift: str | None,
    ranks: list[int | None],
    settings: Settings,
    seed: int,
) -> Iterator[tuple[dict[str, Any], float, Array, tuple[Array, Array]]]:
    """For each sampler, shrinkage and λ: eigenvalues, and both parts along their directions."""
    begin = perf_counter()
    rng = np.random.default_rng(seed)
    n_features = train.shape[1]
    if lift is not None:
        kernel, nystroem = rbf_lift(train, rng)
        train, test = kernel.apply(train, nystroem), kernel.apply(test, nystroem)
        n_features = train.shape[1]
    elif train.shape[0] < min(n_features, SPAN_LIMIT):
        spanned, rotation = spaces.row_span(train)
        test = products.dot(test, products.tdot(train, rotation))
        train = spanned
    unit = float(np.sqrt(products.mean_sq_distance(train))) / SCALE
    spread = within_classes(train, codes) if min(settings.axes["shrinkage"]) < 1.0 else None
    W = None
    if spread is not None and train.shape[1] <= DENSE_LIMIT:
        W = products.quadratic(train, spread.apply)
    shared = perf_counter() - begin
    found: dict[str, Triplets] = {}
    for sampler, shrinkage, reg in product(
        *(settings.axes[name] for name in ("sampler", "shrinkage", "reg"))
    ):
        begin = perf_counter()
        if sampler not in found:
            found[sampler] = sample_triplets(
                train, codes, settings.n_triplets, sampler, rng, margin=unit**2
            )
        scatter = _scatter(train, spread, W, shrinkage, n_features)
        values, vectors = _solve(
            train, found[sampler], scatter, unit, reg, ranks, settings, np.random.default_rng(seed)
        )
        mapped = (products.threaded_dot(train, vectors), products.threaded_dot(test, vectors))
        spent, shared = shared + perf_counter() - begin, 0.0
        base = {"lift": lift, "sampler": sampler, "shrinkage": shrinkage, "reg": reg}
        yield base, spent, values, mapped


def _scatter(
    rows: Rows, spread: Spread | None, W: Array | None, shrinkage: float, n_features: int
) -> Scatter | None:
    if shrinkage == 1.0 or spread is None or spread.trace <= 0.0:
        return None
    if W is None:
        return ImplicitScatter(rows, spread, shrinkage)
    return ExplicitScatter(W, spread.trace, shrinkage, n_features)


def _solve(
    rows: Rows,
    triplets: Triplets,
    scatter: Scatter | None,
    unit: float,
    reg: float | None,
    ranks: list[int | None],
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Dual problem on random projections, and the leading directions of the metric."""
    Z, _ = spaces.random_projection(rows, min(settings.n_projections, rows.shape[1]), rng, scatter)
    if scatter is not None:
        unit = float(np.sqrt(products.mean_sq_distance(Z))) / SCALE
    solution = solve_dual(
        Z / np.asarray(unit, dtype=Z.dtype),
        triplets,
        get_loss("hinge"),
        reg=1.0 / len(triplets) if reg is None else reg,
        max_epochs=settings.max_epochs,
        rng=rng,
    )
    used = np.flatnonzero(solution.beta)
    C = products.pair_graph(triplets.index[used], solution.beta[used], rows.shape[0])
    if rows.shape[1] <= _ALL_DIRECTIONS:
        S = scatter.matrix if isinstance(scatter, ExplicitScatter) else None
        values, vectors = positive_part(products.pair_matrix(rows, C), None, S)
    else:
        rank = max(rank for rank in ranks if rank is not None)
        values, vectors, _ = leading_part(rows, C, rank, rng, scatter)
    if not len(values):  # no positive direction: all are alike
        return np.ones(1, rows.dtype), np.ones((rows.shape[1], 1), rows.dtype)
    return values, vectors
