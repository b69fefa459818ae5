"""Duplicates: exact pairs, clusters, and estimates of their precision."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from dualmetric import Matcher, Metric
from dualmetric._arrays.embedded import Embedded
from dualmetric.matching import _search
from dualmetric.matching import duplicates as parts
from test_matching import things


def brute(distance, limit, k):
    """Pairs by the obvious way: the k nearest of each row, by distance and row number."""
    n = len(distance)
    found = set()
    for i in range(n):
        order = sorted((distance[i, j], j) for j in range(n) if j != i)
        found |= {(min(i, j), max(i, j)) for d, j in order[:k] if d <= limit}
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(_search, "_HEIGHT", 7)
    monkeypatch.setattr(_search, "_WIDTH", 14)
    monkeypatch.setattr(_search, "_HELD", 20)


@pytest.mark.parametrize("kind", ["float64", "float32", "sparse", "negative"])
@pytest.mark.parametrize(("limit", "k"), [(1.5, 3), (1.5, 50), (99.0, 4), (0.1, 3)])
def test_pairs_are_those_of_the_slow_twin(kind, limit, k, small_tiles):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5)) + 3.0
    distance = cdist(X, X)
    mapped = X.astype(kind) if kind.startswith("float") else Embedded(sp.csr_matrix(X), None)
    if kind == "negative":
        N = 0.3 * X[:, :2]
        mapped = Embedded(sp.csr_matrix(X), N)
        distance = np.sqrt(np.maximum(distance**2 - cdist(N, N) ** 2, 0))
    index, found, n_full = _search.close_pairs(mapped, limit, k)
    expected = brute(distance, limit, k)
    assert_array_equal(index, expected)
    assert_allclose(found, distance[tuple(expected.T)], rtol=1e-5)
    assert n_full == np.count_nonzero(np.bincount(expected.ravel(), minlength=50) >= k)


@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_pairs_of_any_small_set(n, k, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    distance = cdist(X, X)
    index, _, _ = _search.close_pairs(X, 1.0, k)
    assert_array_equal(index, brute(distance, 1.0, k))


def test_copies_are_connected_however_many_there_are(small_tiles):
    X = np.repeat([[0.0, 0.0], [5.0, 0.0], [9.0, 9.0]], [60, 40, 1], axis=0)
    index, distance, _ = _search.close_pairs(X, 0.5, 2)
    assert (distance == 0).all()
    assert len(index) <= 3 * 101
    cluster = parts.clusters_of(index, 101, X, 0.5, "components")
    assert_array_equal(cluster, np.repeat([0, 1, 2], [60, 40, 1]))


def test_float32_rounding_loses_no_pair():
    """Far from the origin, squared distances lose all digits; pairs are found all the same."""
    rng = np.random.default_rng(0)
    X = (1e4 + 1e3 * rng.normal(size=(300, 4))).astype(np.float32)
    X[150:] = X[:150]
    X[150:, 0] += 1
    index, distance, _ = _search.close_pairs(X, 1.5, 5)
    exact = cdist(X.astype(np.float64), X.astype(np.float64))
    assert_array_equal(index, brute(exact, 1.5, 5))
    assert_allclose(distance, exact[tuple(index.T)], rtol=1e-6)


def test_clusters_by_chain_and_by_complete_linkage():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [10.0], [10.5]])
    index, _, _ = _search.close_pairs(X, 1.1, 5)
    assert_array_equal(parts.clusters_of(index, 6, X, 1.1, "components"), [0, 0, 0, 0, 1, 1])
    found = parts.clusters_of(index, 6, X, 1.1, "complete")
    for number in np.unique(found):
        assert np.ptp(X[found == number]) <= 1.1
    assert_array_equal(found, [0, 0, 1, 1, 2, 2])


def test_pairs_within_clusters():
    cluster = np.array([0, 1, 0, 2, 0, 2])
    index, of, weight = parts.pairs_within(cluster)
    rows = {tuple(sorted(pair)) for pair in index.tolist()}
    assert rows == {(0, 2), (0, 4), (2, 4), (3, 5)}
    assert_array_equal(cluster[index[:, 0]], of)
    assert (weight == 1).all()
    assert len(parts.pairs_within(np.arange(4))[0]) == 0


def test_large_clusters_are_estimated_from_some_of_their_pairs(monkeypatch):
    monkeypatch.setattr(parts, "_MOST_PAIRS", 500)
    index, _, weight = parts.pairs_within(np.zeros(100, dtype=np.int64))
    assert len(index) == 500
    assert (index[:, 0] != index[:, 1]).all()
    assert weight.sum() == pytest.approx(100 * 99 / 2)


def test_duplicates_of_records():
    X, pairs = things(300, 0.05)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs)
    threshold = matcher.threshold(precision=0.95)
    found = matcher.duplicates(X, threshold)
    truth = found.pairs[:, 1] - found.pairs[:, 0] == 300
    assert truth.mean() > 0.9
    assert truth.sum() / 300 > 0.9
    assert_allclose(found.probability, matcher.predict_proba(*X[found.pairs.T])[:, 1])
    assert found.pair_precision == pytest.approx(found.probability.mean())
    sizes = np.bincount(found.cluster)
    assert_array_equal(np.isnan(found.cluster_probability), sizes == 1)
    assert "pairs within clusters" in str(found)
    sparse = matcher.duplicates(sp.csr_matrix(X), threshold)
    assert_array_equal(sparse.pairs, found.pairs)


def test_a_chain_of_good_pairs_is_not_a_good_cluster():
    X, pairs = things(300, 0.1)
    matcher = Matcher(Metric(None, 4), "logistic").fit(X, pairs)
    chain = np.zeros((40, 4))
    chain[:, 0] = 0.2 * np.arange(40)
    found = matcher.duplicates(chain, 0.25)
    assert len(np.unique(found.cluster)) == 1
    assert found.pair_precision > 0.9
    assert found.cluster_precision < 0.5
    assert matcher.duplicates(chain, 0.25, clusters="complete").cluster_precision > 0.9


def test_nothing_is_found_where_nothing_is_close():
    X, pairs = things(50)
    found = Matcher(Metric(None, 4)).fit(X, pairs).duplicates(X, 1e-9)
    assert len(found.pairs) == 0
    assert_array_equal(found.cluster, np.arange(100))
    assert np.isnan(found.cluster_precision)
    assert "0 pairs" in str(found)


def test_metrics_that_keep_the_plain_distance(tmp_path):
    X, pairs = things(60)
    metric = Metric(np.eye(4)[:, :1] * 2.0, outside=0.5)
    matcher = Matcher(metric).fit(X, pairs)
    dense = matcher.duplicates(X, 0.5)
    assert_array_equal(dense.pairs, brute(metric.pairwise(X), 0.5, 10))
    assert_array_equal(matcher.duplicates(sp.csr_matrix(X), 0.5).pairs, dense.pairs)


def test_bad_arguments():
    X, pairs = things(30)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs)
    with pytest.raises(ValueError, match="clusters must be 'components' or 'complete'"):
        matcher.duplicates(X, 1.0, clusters="single")
    with pytest.raises(ValueError, match="k must be a whole number"):
        matcher.duplicates(X, 1.0, k=0)
    with pytest.raises(ValueError, match="expecting 4 features"):
        matcher.duplicates(X[:, :2], 1.0)
    with pytest.raises(ValueError, match="cannot support precision"):
        matcher.duplicates(X)


def test_a_component_too_large_for_complete_linkage_is_named(monkeypatch):
    monkeypatch.setattr(parts, "_LARGEST", 10)
    chain = np.column_stack([np.arange(19), np.arange(1, 20)])
    with pytest.raises(ValueError, match="20 rows are connected by close pairs"):
        parts.clusters_of(chain, 20, None, 1.0, "complete")
