"""Scores of rankings and pairs against scikit-learn and loops written from their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from dualmetric import measures
from dualmetric._arrays import judged
from dualmetric._arrays.embedded import Embedded


def ranked(seed, n_queries=7, n_documents=30):
    """Grades of all documents, their ranks, and the entries of the relevant ones."""
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 4, size=(n_queries, n_documents)) * (rng.random(n_documents) < 0.5)
    grades[:, 0] = 2  # no query without a relevant document
    ranks = np.array([rng.permutation(n_documents) + 1 for _ in range(n_queries)])
    query, document = np.nonzero(grades)
    mixed = rng.permutation(len(query))
    query, document = query[mixed], document[mixed]
    return grades, ranks, (query, ranks[query, document], grades[query, document])


@pytest.mark.parametrize("k", [1, 5, 10, 100])
def test_ndcg_is_scikit_learns_with_exponential_gains(k):
    grades, ranks, entries = ranked(k)
    expected = [
        ndcg_score([2.0**grade - 1], [-rank], k=k)
        for grade, rank in zip(grades, ranks, strict=True)
    ]
    np.testing.assert_allclose(measures.ndcg(*entries, k), expected, rtol=1e-12)


def test_ndcg_by_hand():
    # two documents of grades 2 and 1 at ranks 3 and 1: (1 + 3/2) / (3 + 1/log₂3)
    found = measures.ndcg(np.zeros(2, int), np.array([3, 1]), np.array([2.0, 1.0]))
    np.testing.assert_allclose(found, [(1 + 3 / 2) / (3 + 1 / np.log2(3))])


def test_average_precision_is_scikit_learns():
    grades, ranks, entries = ranked(0)
    expected = [average_precision_score(g > 0, -r) for g, r in zip(grades, ranks, strict=True)]
    np.testing.assert_allclose(measures.average_precision(*entries), expected, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_others_by_their_definitions(k):
    grades, ranks, entries = ranked(k)
    relevant = np.array(
        [(g > 0)[np.argsort(r)] for g, r in zip(grades, ranks, strict=True)]
    )  # in the order of the ranking
    n = relevant.sum(axis=1)
    first = relevant.argmax(axis=1)
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    map_at_r = [np.sum((p * r)[:m]) / m for p, r, m in zip(precision, relevant, n, strict=True)]
    expected = {
        "recall": relevant[:, :k].sum(axis=1) / n,
        "precision": relevant[:, :k].mean(axis=1),
        "hit_rate": relevant[:, :k].any(axis=1),
        "reciprocal_rank": np.where(first < k, 1 / (1 + first), 0.0),
        "map_at_r": map_at_r,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(measures.MEASURES[name](*entries, k), values, err_msg=name)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_pair_average_precision_is_scikit_learns_with_ties(pairs):
    distance, same = np.array(pairs, dtype=float).T
    same = same > 0
    if not same.any():
        return
    found = measures.pair_precisions(distance, same)
    assert len(found) == same.sum()
    np.testing.assert_allclose(found.mean(), average_precision_score(same, -distance))


# --- ranks ----------------------------------------------------------------------------------


def ranks_by_sorting(D2, index, n_documents):
    """Rank of each (query, document): ties in the order of their numbers, queries not themselves.

    D2 holds squared distances of all rows to the documents.
    """
    D2 = np.array(D2, dtype=float)
    own = np.arange(n_documents)
    D2[own, own] = np.inf
    place = np.argsort(np.argsort(D2, axis=1, kind="stable"), axis=1)
    return 1 + place[index[:, 0], index[:, 1]]


def all_pairs(n_rows, n_documents, rng):
    index = np.array([(q, d) for q in range(n_rows) for d in range(n_documents) if q != d])
    return rng.permutation(index)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
        lambda pairs: any(same for _, same in pairs)
    )
)
def test_values_of_pairs_are_derivatives_of_the_average_precision(pairs):
    distance, same = np.array(pairs, dtype=float).T
    same, n = same > 0, len(pairs)
    found, n_same = measures.pair_values(distance, same), np.count_nonzero(same)

    def average_precision(weight):
        return measures.average_precision_of(measures.errors(distance, same, weight))

    step = 1e-5
    change = average_precision(1 + step * np.eye(n)) - average_precision(1 - step * np.eye(n))
    change *= n_same / (2 * step)
    mean = average_precision_score(same, -distance)
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-12)
    dealt = np.random.default_rng(0).permutation(n - n_same) % n_same
    expected = mean + change[same] + np.bincount(dealt, change[~same], n_same)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_values_of_pairs_vary_as_the_average_precision_does(rng):
    """Over draws of pairs, with one pair in eight the same."""

    def drawn():
        same = rng.random(400) < 0.125
        return rng.normal(np.where(same, 0.0, 1.5), 1.0), same

    draws = [drawn() for _ in range(300)]
    scores = [average_precision_score(same, -distance) for distance, same in draws]
    error = np.mean([measures.pair_values(*one).std(ddof=1) / one[1].sum() ** 0.5 for one in draws])
    assert error == pytest.approx(np.std(scores), rel=0.15)
    # precisions alone vary far less
    alone = [measures.pair_precisions(*one) for one in draws]
    assert np.mean([one.std(ddof=1) / len(one) ** 0.5 for one in alone]) < 0.7 * np.std(scores)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse", "torch"])
def test_ranks_with_ties_are_those_of_a_stable_sort(rng, dtype, kind):
    X = rng.integers(0, 3, size=(40, 3)).astype(dtype)  # many equal rows and distances
    D2 = ((X[:, None] - X[None, :30]) ** 2).sum(axis=2)
    assert len(np.unique(D2)) < 12
    index = all_pairs(40, 30, rng)
    expected = ranks_by_sorting(D2, index, 30)
    if kind == "sparse":
        X = pytest.importorskip("scipy.sparse").csr_matrix(X)
    elif kind == "torch":
        X = pytest.importorskip("torch").asarray(X)
    found = judged.ranks(X, 30, index)
    if dtype == np.float64 and kind != "torch":
        np.testing.assert_array_equal(found, expected)
    else:  # centred rows are rounded, so that ties may be told apart: never documents that differ
        sizes = np.array(
            [
                np.sum(row == value)
                for row, value in zip(D2[index[:, 0]], D2[index[:, 0], index[:, 1]], strict=True)
            ]
        )
        assert (np.abs(found - expected) < sizes).all()
    few = index[:50]  # few documents for a query are counted rather than sorted
    np.testing.assert_array_equal(judged.ranks(X, 30, few), found[:50])


def test_ranks_by_a_difference_of_distances(rng):
    P, N = rng.normal(size=(25, 4)), 0.5 * rng.normal(size=(25, 2))
    D2 = sum(sign * ((Z[:, None] - Z[None, :20]) ** 2).sum(axis=2) for sign, Z in ((1, P), (-1, N)))
    index = all_pairs(25, 20, rng)
    found = judged.ranks(Embedded(P, N), 20, index)
    np.testing.assert_array_equal(found, ranks_by_sorting(D2, index, 20))


def test_ranks_in_blocks(rng, monkeypatch):
    X = rng.normal(size=(60, 3)).astype(np.float32)
    index = all_pairs(60, 40, rng)
    whole = judged.ranks(X, 40, index)
    original, seen = judged.blocks_of, []

    def small(X, total, size):
        seen.extend(original(X, total, size, most=7))
        return original(X, total, size, most=7)

    monkeypatch.setattr(judged, "blocks_of", small)
    np.testing.assert_array_equal(judged.ranks(X, 40, index), whole)
    assert len(seen) == 9


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.integers(1, 60), st.integers(1, 20)
)
def test_smallest_is_a_stable_sort(values, k, copies):
    row = np.repeat(np.array(values, dtype=np.float32), copies)
    k = min(k, len(row))
    np.testing.assert_array_equal(judged._smallest(row, k), np.argsort(row, kind="stable")[:k])
