"""Comparison of distances against loops written from the definitions, and scikit-learn."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.preprocessing import normalize

from dualmetric import Metric, _kernels, comparison
from dualmetric.comparison import (
    RECALLS,
    best_of_interval,
    bootstrap_interval,
    compare,
    paired_interval,
    plain_rows,
)
from dualmetric.evaluation import average_precisions, knn_accuracy


def naive(Z, y, Z_train=None, y_train=None):
    """Every score, one query at a time, by full sorts of distances summed by coordinates."""
    n = len(Z)
    ap, knn, recalled, neighbors, curves = [], [], [], [], []
    for q in range(n):
        others = np.array([row for row in range(n) if row != q])
        distances = ((Z[others] - Z[q]) ** 2).sum(axis=1)
        order = others[np.argsort(distances, kind="stable")]
        neighbors.append(order[:10])
        relevant = y[others] == y[q]
        recalled.append((y[order[:10]] == y[q]).any())
        voters = y[order[:5]]
        if Z_train is not None:
            to_train = ((Z_train - Z[q]) ** 2).sum(axis=1)
            voters = y_train[np.argsort(to_train, kind="stable")[:5]]
        votes = Counter(voters.tolist())
        knn.append(min(c for c in votes if votes[c] == max(votes.values())) == y[q])
        if not relevant.any():
            ap.append(np.nan)
            continue
        ap.append(average_precision_score(relevant, -distances))
        precision, recall, _ = precision_recall_curve(relevant, -distances)
        precision, recall = precision[:-1], recall[:-1]  # the last is a convention, not a ranking
        curves.append([precision[recall >= r - 1e-12].max() for r in RECALLS])
    return (
        np.array(ap), np.array(knn), np.array(recalled), np.array(neighbors),
        np.mean(curves, axis=0),
    )  # fmt: skip


def assert_scores(scores, expected):
    ap, knn, recalled, neighbors, curve = expected
    np.testing.assert_array_equal(scores.neighbors, neighbors)
    np.testing.assert_array_equal(scores.recalled, recalled)
    np.testing.assert_array_equal(scores.knn_correct, knn)
    np.testing.assert_allclose(scores.average_precision, ap, rtol=1e-12)
    np.testing.assert_allclose(scores.curve, curve, rtol=1e-12)


def clouds(n, d=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    return rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize("n", [3, 4, 7, 11, 12, 90])
@pytest.mark.parametrize("with_train", [False, True])
def test_equals_definitions(n, with_train):
    X, y = clouds(n, n_classes=min(4, n - 1))
    X_train, y_train = clouds(2 if n < 5 else 40, seed=1) if with_train else (None, None)
    factor = np.random.default_rng(2).normal(size=(6, 3))
    result = compare(Metric(factor), X, y, X_train, y_train)
    assert list(result) == ["euclidean", "cosine", "learned"]
    maps = {"euclidean": lambda A: A, "cosine": normalize, "learned": lambda A: A @ factor}
    for name, scores in result.items():
        mapped = (maps[name](X), y)
        if with_train:
            mapped += (maps[name](X_train), y_train)
        assert_scores(scores, naive(*mapped))
        assert scores.neighbors.shape == (n, min(10, n - 1))
        assert scores.map == pytest.approx(np.nanmean(scores.average_precision))
        assert scores.knn == scores.knn_correct.mean()


@pytest.mark.parametrize("to", [np.asarray, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_ties_and_blocks(to, threads, monkeypatch):
    """Rows on a grid, many of them equal, in blocks of a few queries."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(comparison, "_BLOCK_BYTES", 20_000)
    rng = np.random.default_rng(3)
    X, X_train = rng.integers(0, 3, size=(2, 150, 3)).astype(float)
    y, y_train = rng.integers(0, 4, size=(2, 150))
    y[5] = 9  # alone in its class, and in no class of the training rows
    result = compare(Metric(np.eye(3)), to(X), y, to(X_train), y_train)
    expected = naive(X, y, X_train, y_train)
    assert_scores(result["euclidean"], expected)
    assert_scores(result["learned"], expected)
    assert np.isnan(result["learned"].average_precision[5])
    assert result["learned"].recall == np.delete(expected[2], 5).mean()


def test_agrees_with_evaluation():
    X, y = clouds(120, seed=4)
    X_train, y_train = clouds(80, seed=5)
    metric = Metric(np.random.default_rng(6).normal(size=(6, 2)), distance="cosine")
    scores = compare(metric, X, y, X_train, y_train)["learned"]
    Z, Z_train = metric.transform(X), metric.transform(X_train)
    np.testing.assert_array_equal(scores.average_precision, average_precisions(Z, y))
    assert scores.knn == knn_accuracy(Z_train, y_train, Z, y)


def test_string_labels_score_as_numbers():
    X, y = clouds(40)
    X_train, y_train = clouds(30, seed=1)
    names = np.array(["a", "bb", "c", "d"], dtype=object)
    metric = Metric(np.eye(6))
    by_number = compare(metric, X, y, X_train, y_train)["learned"]
    by_name = compare(metric, X, names[y], X_train, names[y_train].astype(str))["learned"]
    assert_scores(
        by_name,
        (by_number.average_precision, by_number.knn_correct, by_number.recalled,
         by_number.neighbors, by_number.curve),
    )  # fmt: skip


def test_unit_rows_are_ranked_once(monkeypatch):
    X, y = clouds(30)
    X = normalize(X)
    X[3] = 0  # a row without direction does not change that
    calls = []
    rank = _kernels.ranking_keys
    monkeypatch.setattr(_kernels, "ranking_keys", lambda *a: (calls.append(1), rank(*a))[1])
    result = compare(Metric(np.eye(6)), X, y)
    assert len(calls) == 2
    assert result["cosine"] is result["euclidean"]
    others = np.arange(30) != 3  # whose own distances to rows of length one are all equal
    np.testing.assert_allclose(
        result["cosine"].average_precision[others], naive(normalize(X), y)[0][others], rtol=1e-12
    )


def test_plain_distances_see_weighted_counts():
    from dualmetric.weighting import fit_idf, tfidf

    rng = np.random.default_rng(7)
    counts = sp.csr_matrix(rng.poisson(0.7, size=(50, 12)).astype(float))
    y = rng.integers(0, 3, size=50)
    factor = rng.normal(size=(12, 2))
    idf = fit_idf(counts)
    weighted = tfidf(counts, idf)
    result = compare(Metric(factor, idf=idf), counts, y, counts, y)
    expected = compare(Metric(factor), weighted, y, weighted, y)
    for name in expected:
        np.testing.assert_array_equal(
            result[name].average_precision, expected[name].average_precision
        )
        np.testing.assert_array_equal(result[name].knn_correct, expected[name].knn_correct)
    np.testing.assert_array_equal(
        plain_rows(Metric(factor, idf=idf), counts).toarray(), weighted.toarray()
    )


def test_bad_input_says_what_to_do():
    X, y = clouds(20)
    metric = Metric(np.eye(6))
    with pytest.raises(ValueError, match="give both or neither"):
        compare(metric, X, y, X_train=X)
    with pytest.raises(ValueError, match="give labels that rows share"):
        compare(metric, X, np.arange(20))
    with pytest.raises(ValueError, match="over 6"):
        compare(metric, X[:, :5], y)
    with pytest.raises(ValueError, match="19 labels for 20 rows"):
        compare(metric, X, y[:-1])
    with pytest.raises(ValueError, match="numbers only or strings only"):
        compare(metric, X, y, X, y.astype(str))


def test_bootstrap_interval_is_that_of_the_mean():
    rng = np.random.default_rng(8)
    values = rng.normal(3.0, 2.0, size=400)
    low, high = bootstrap_interval(np.append(values, np.nan))
    error = values.std() / np.sqrt(400)
    np.testing.assert_allclose(
        [low, high], values.mean() + np.array([-1.96, 1.96]) * error, atol=0.3 * error
    )
    assert bootstrap_interval(values) == (low, high)  # the same draws, NaN left out
    assert bootstrap_interval(values, seed=1) != (low, high)
    narrow = bootstrap_interval(values, level=0.5)
    assert low < narrow[0] < narrow[1] < high
    assert bootstrap_interval([0.5]) == (0.5, 0.5)
    assert np.isnan(bootstrap_interval([np.nan])).all()


def test_bootstrap_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(9)
    hits = 0
    for trial in range(200):
        low, high = bootstrap_interval(rng.random(60), n_draws=200, seed=trial)
        hits += low < 0.5 < high
    assert 0.88 < hits / 200 < 0.99


def test_paired_interval_sees_a_small_steady_gain():
    rng = np.random.default_rng(10)
    before = rng.random(300)
    after = before + 0.01 + 0.001 * rng.normal(size=300)
    after[7] = np.nan
    low, high = paired_interval(after, before)
    assert 0 < low < 0.01 < high < 0.02
    assert paired_interval(before, after)[1] < 0
    # what separate intervals cannot tell apart
    assert bootstrap_interval(before)[1] > bootstrap_interval(after)[0]
    assert paired_interval([True, True], [False, True], n_draws=200) == (0.0, 1.0)


def test_the_best_of_many_equal_ones_is_not_better():
    rng = np.random.default_rng(0)
    other = rng.normal(size=200)
    candidates = other + 0.5 * rng.normal(size=(100, 200))
    best = candidates[np.argmax(candidates.mean(axis=1))]
    assert paired_interval(best, other)[0] > 0  # what choosing by the same queries pretends
    low, high = best_of_interval(candidates, other)
    assert low < 0 < high


def test_the_best_of_many_is_better_where_it_is():
    rng = np.random.default_rng(0)
    other = rng.normal(size=400)
    candidates = other + 0.3 * rng.normal(size=(50, 400))
    candidates[7] += 0.5
    low, high = best_of_interval(candidates, other)
    assert 0.35 < low < 0.5 < high < 0.65
    # the same with queries that have nothing to find, and from the same seed
    padded = np.hstack([candidates, np.full((50, 3), np.nan)])
    assert best_of_interval(padded, np.r_[other, np.zeros(3)]) == (low, high)
    assert all(np.isnan(best_of_interval(candidates[:, :1], other[:1])))


def test_of_one_candidate_nothing_is_chosen():
    # the interval is then that of the bootstrap, but for the draws
    gain = np.random.default_rng(1).normal(0.2, 1.0, size=300)
    expected = bootstrap_interval(gain)
    assert best_of_interval(gain[None], np.zeros(300)) == pytest.approx(expected, abs=0.02)
