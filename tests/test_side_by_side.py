"""Comparison of distances against loops written from the definitions, and scikit-learn."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.preprocessing import normalize

from dualmetric import Metric, side_by_side
from dualmetric._arrays import kernels
from dualmetric.evaluation import average_precisions, knn_accuracy, query_scores
from dualmetric.side_by_side import PRECISION_AT, RECALLS, compare, plain_rows
from dualmetric.tfidf import fit_idf, tfidf
from makers import make_clusters


def naive(Z, y, Z_train=None, y_train=None):
    """Every score, one query at a time, by full sorts of distances summed by coordinates."""
    n = len(Z)
    ap, voted, hits, neighbors, curves, at = [], [], [], [], [], []
    for q in range(n):
        others = np.array([row for row in range(n) if row != q])
        distances = ((Z[others] - Z[q]) ** 2).sum(axis=1)
        order = others[np.argsort(distances, kind="stable")]
        neighbors.append(order[:10])
        relevant = y[others] == y[q]
        hits.append((y[order[:10]] == y[q]).any())
        voters = y[order[:5]]
        if Z_train is not None:
            to_train = ((Z_train - Z[q]) ** 2).sum(axis=1)
            voters = y_train[np.argsort(to_train, kind="stable")[:5]]
        votes = Counter(voters.tolist())
        voted.append(min(c for c in votes if votes[c] == max(votes.values())))
        ks = [k for k in (1, 5, 10, 20, 50, 100) if k < n]
        if not relevant.any():
            ap.append(np.nan)
            at.append([np.nan] * len(ks))
            continue
        at.append([(y[order[:k]] == y[q]).mean() for k in ks])
        ap.append(average_precision_score(relevant, -distances))
        precision, recall, _ = precision_recall_curve(relevant, -distances)
        precision, recall = precision[:-1], recall[:-1]  # the last is a convention, not a ranking
        curves.append([precision[recall >= r - 1e-12].max() for r in RECALLS])
    return (
        np.array(ap), np.array(voted) == y, np.array(hits), np.array(neighbors),
        np.array(voted), np.array(at), np.mean(curves, axis=0),
    )  # fmt: skip


def assert_scores(scores, expected):
    ap, knn, hits, neighbors, voted, precision_at, curve = expected
    np.testing.assert_array_equal(scores.predicted, voted)
    np.testing.assert_allclose(scores.precision_at, precision_at, rtol=1e-12)
    np.testing.assert_array_equal(scores.neighbors, neighbors)
    np.testing.assert_array_equal(scores.hits, hits)
    np.testing.assert_array_equal(scores.knn_correct, knn)
    np.testing.assert_allclose(scores.average_precision, ap, rtol=1e-12)
    np.testing.assert_allclose(scores.curve, curve, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 4, 7, 11, 12, 90])
@pytest.mark.parametrize("with_train", [False, True])
def test_equals_definitions(n, with_train):
    X, y = make_clusters(n, n_classes=min(4, n - 1))
    X_train, y_train = make_clusters(2 if n < 5 else 40, seed=1) if with_train else (None, None)
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
    monkeypatch.setattr(side_by_side, "_BLOCK_BYTES", 20_000)
    rng = np.random.default_rng(3)
    X, X_train = rng.integers(0, 3, size=(2, 150, 3)).astype(float)
    y, y_train = rng.integers(0, 4, size=(2, 150))
    y[5] = 9  # alone in its class, and in no class of the training rows
    result = compare(Metric(np.eye(3)), to(X), y, to(X_train), y_train)
    expected = naive(X, y, X_train, y_train)
    assert_scores(result["euclidean"], expected)
    assert_scores(result["learned"], expected)
    assert np.isnan(result["learned"].average_precision[5])
    assert result["learned"].hit_rate == np.delete(expected[2], 5).mean()


def test_agrees_with_evaluation():
    X, y = make_clusters(120, seed=4)
    X_train, y_train = make_clusters(80, seed=5)
    metric = Metric(np.random.default_rng(6).normal(size=(6, 2)), distance="cosine")
    scores = compare(metric, X, y, X_train, y_train)["learned"]
    Z, Z_train = metric.transform(X), metric.transform(X_train)
    np.testing.assert_array_equal(scores.average_precision, average_precisions(Z, y))
    assert scores.knn == knn_accuracy(Z_train, y_train, Z, y)
    for k, values in zip(PRECISION_AT, scores.precision_at.T, strict=True):
        expected = query_scores(Z, y, measure="precision", k=k)
        np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_string_labels_score_as_numbers():
    X, y = make_clusters(40)
    X_train, y_train = make_clusters(30, seed=1)
    names = np.array(["a", "bb", "c", "d"], dtype=object)
    metric = Metric(np.eye(6))
    by_number = compare(metric, X, y, X_train, y_train)["learned"]
    by_name = compare(metric, X, names[y], X_train, names[y_train].astype(str))["learned"]
    assert_scores(
        by_name,
        (by_number.average_precision, by_number.knn_correct, by_number.hits,
         by_number.neighbors, names[by_number.predicted], by_number.precision_at,
         by_number.curve),
    )  # fmt: skip


def test_unit_rows_are_ranked_once(monkeypatch):
    X, y = make_clusters(30)
    X = normalize(X)
    X[3] = 0  # a row without direction does not change that
    calls = []
    rank = kernels.ranking_keys
    monkeypatch.setattr(kernels, "ranking_keys", lambda *a: (calls.append(1), rank(*a))[1])
    result = compare(Metric(np.eye(6)), X, y)
    assert len(calls) == 2
    assert result["cosine"] is result["euclidean"]
    others = np.arange(30) != 3  # whose own distances to rows of length one are all equal
    np.testing.assert_allclose(
        result["cosine"].average_precision[others], naive(normalize(X), y)[0][others], rtol=1e-12
    )


def test_plain_distances_see_weighted_counts():
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
    before = Metric(None, 12, distance="cosine", idf=idf)
    for metric in (Metric(factor, idf=idf), Metric(factor, before=before)):
        np.testing.assert_array_equal(plain_rows(metric, counts).toarray(), weighted.toarray())


def test_bad_input_says_what_to_do():
    X, y = make_clusters(20)
    metric = Metric(np.eye(6))
    with pytest.raises(ValueError, match="give both or neither"):
        compare(metric, X, y, X_train=X)
    with pytest.raises(ValueError, match="give labels that rows share"):
        compare(metric, X, np.arange(20))
    with pytest.raises(ValueError, match="this metric is expecting 6 features"):
        compare(metric, X[:, :5], y)
    with pytest.raises(ValueError, match="19 labels for 20 rows"):
        compare(metric, X, y[:-1])
    with pytest.raises(ValueError, match="numbers only or strings only"):
        compare(metric, X, y, X, y.astype(str))
