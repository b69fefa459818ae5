"""Scores of pairs and of judged documents: which are held out, and how distances do on them."""

from hashlib import blake2b
from typing import Any

import numpy as np

from .. import measures
from .._arrays import embedded, judged
from .._rows import Rows
from .._types import Array
from ..intervals import bootstrap_interval, ends_of
from ..metric import Metric
from ..side_by_side import mapped_rows
from ..supervision import Pairs
from ._learning import add_rows, read_split
from ._output import note
from ._scores import JUDGED, PAIRS, TAR, paired_gains

HELD_OUT = 0.25  # share of the pairs or queries that a fit of one method holds out
_DRAWS = 1000


def hold_out_known(known: Any, n_rows: int, share: float, seed: int) -> tuple[Any, Any]:
    """Pairs, or judgements of queries, to learn from and to score on."""
    from sklearn.model_selection import train_test_split

    if not share:
        return known, None
    n_given = n_units(known)
    if isinstance(known, Pairs):
        known = with_different(known, n_rows)
        units, of = np.arange(len(known)), np.arange(len(known))
    else:
        units, of = np.unique(known.index[:, 0]), known.index[:, 0]
    options = {"test_size": share, "random_state": seed}
    try:
        stratify = known.same if isinstance(known, Pairs) else None
        _, test = train_test_split(units, stratify=stratify, **options)
        parts = known._part(~np.isin(of, test)), known._part(np.isin(of, test))
        if isinstance(known, Pairs) and not all(part.same.any() for part in parts):
            raise ValueError("no pair that is the same")
    except ValueError:
        one, many = ("pair", "pairs") if isinstance(known, Pairs) else ("query", "queries")
        words = f"{one} is" if n_given == 1 else f"{many} are"
        raise ValueError(
            f"{n_given} {words} too few to hold some out: use --holdout 0 to learn from all, "
            "without scores"
        ) from None
    return parts


def describe_known(known: Any, rows: Rows, share: Any, seed: Any) -> dict[str, Any]:
    """Description of pairs or judgements and of their split, for ``info`` of a metric."""
    if isinstance(known, Pairs):
        index, value = np.sort(known.index, axis=1), known.same  # either row may come first
    else:
        index, value = known.index, known.grade
    order = np.lexsort(index.T)
    # a short digest, the same for all formats and orders of the lines
    digest = blake2b(type(known).__name__.encode(), digest_size=8)
    for array in (index[order].astype("<i8"), np.asarray(value)[order].astype("<f8")):
        digest.update(array.tobytes())
    add_rows(digest, rows)
    return {"rows": rows.shape[0], "holdout": share, "seed": seed, "digest": digest.hexdigest()}


def not_learned_from(metric: Metric, known: Any, rows: Rows) -> tuple[Any, bool]:
    """What fit held out of the same pairs or judgements, and whether they are the same.

    The first is all of them if fit was given others, and None if it held out none.
    """
    kept = read_split(metric, "known")
    if not kept or kept != describe_known(known, rows, kept["holdout"], kept["seed"]):
        return known, False
    return hold_out_known(known, rows.shape[0], kept["holdout"], kept["seed"])[1], True


def n_units(known: Any) -> int:
    """How many pairs, or queries with judgements, there are."""
    return len(known) if isinstance(known, Pairs) else len(np.unique(known.index[:, 0]))


def with_different(pairs: Any, n_rows: int) -> Any:
    """The same; where no pair is labelled as different, with random ones, and a note."""
    note_random(pairs)
    return pairs._with_different(n_rows, np.random.default_rng(0))


def note_rows_as_queries(known: Any) -> None:
    """Say that queries are rows themselves, where judgements are given without queries."""
    if not isinstance(known, Pairs) and known.queries is None:
        note("no --queries are given, so queries are rows of the data, by their numbers")


def note_random(known: Any) -> None:
    """Say that different pairs are random, where pairs are given and none is different."""
    if isinstance(known, Pairs) and known.same.all():
        note("no pair is labelled as different, so random pairs are used as different pairs")


def score_known(
    metric: Metric, rows: Rows, known: Any
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Scores of the plain and the learned distances with 95 % intervals.

    Returns also what the learned distance gains, and the number of pairs or queries.
    """
    find = _score_pairs if isinstance(known, Pairs) else _score_queries
    return find(metric, rows, known)


def _score_queries(metric: Metric, rows: Rows, known: Any) -> Any:
    n = rows.shape[0]
    numbers, parts = np.arange(n), [rows.take()]
    if known.queries is not None:
        asked = np.unique(known.index[:, 0])
        numbers = np.append(numbers, n + asked)
        parts.append(known.queries.take(asked))
    taken = known.take(numbers)
    right = taken.grade > 0
    index, grade = taken.index[right], taken.grade[right]
    query = np.unique(index[:, 0], return_inverse=True)[1]
    each: dict[str, dict[str, Array]] = {}
    scores: dict[str, Any] = {}
    for name, mapped in mapped_rows(metric, parts).items():
        rank = judged.ranks(mapped, n, index)
        each[name] = {key: measures.MEASURES[key](query, rank, grade, 10) for key in JUDGED}
        scores[name] = {key: float(values.mean()) for key, values in each[name].items()}
        for key, values in each[name].items():
            scores[name][f"{key}_interval"] = list(bootstrap_interval(values))
    return scores, paired_gains(each), int(query.max()) + 1


def _score_pairs(metric: Metric, rows: Rows, known: Any) -> Any:
    known = with_different(known, rows.shape[0])
    named = np.unique(known.index)
    pairs = known.take(named)
    n_different = np.count_nonzero(~pairs.same)
    rates = [
        rate for rate in TAR.values() if rate * n_different >= 1.0
    ]  # others cannot be measured
    keys = list(PAIRS)[: 1 + len(rates)]
    scores: dict[str, Any] = {}
    drawn = {}
    for name, mapped in mapped_rows(metric, [rows.take(named)]).items():
        squares = embedded.sq_distances(mapped, pairs.index)
        found, draws = _pair_draws(np.sqrt(np.maximum(squares, 0.0)), pairs.same, rates)
        drawn[name] = draws
        scores[name] = dict(zip(keys, found.tolist(), strict=True))
        for key, values in zip(keys, draws, strict=True):
            scores[name][f"{key}_interval"] = list(ends_of(values, 0.95))
    gains: dict[str, Any] = {"euclidean": {}, "cosine": {}}
    for name, gain in gains.items():
        for key, change in zip(keys, drawn["learned"] - drawn[name], strict=True):
            gain[key] = scores["learned"][key] - scores[name][key]
            gain[f"{key}_interval"] = list(ends_of(change, 0.95))
    return scores, gains, len(pairs)


def _pair_draws(distance: Array, same: Array, rates: list[float]) -> tuple[Array, Array]:
    """Average precision and true accept rates: of all pairs, and of each draw of the bootstrap.

    The draws are the same for every distance, so that their differences are paired.
    """

    def scores(weight: Array) -> Array:
        found = measures.errors(distance, same, weight.astype(np.float64))
        accepted = [measures.true_accepts(found, rate) for rate in rates]
        return np.array([measures.average_precision_of(found), *accepted])

    rng, n = np.random.default_rng(0), len(same)
    height = 1 + 2**18 // n
    draws = [
        scores(rng.multinomial(n, np.full(n, 1.0 / n), size=min(height, _DRAWS - start)))
        for start in range(0, _DRAWS, height)
    ]
    return scores(np.ones((1, n)))[:, 0], np.concatenate(draws, axis=1)
