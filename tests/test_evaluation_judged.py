"""Scores of judgements and pairs: scikit-learn, hand-computed values, and plain loops."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, ndcg_score, roc_curve
from sklearn.neighbors import KNeighborsClassifier

import dualmetric
from dualmetric import measures
from dualmetric._arrays import judged
from dualmetric.evaluation import (
    average_precisions,
    hit_rate,
    map_at_r,
    ndcg,
    pair_average_precision,
    pair_interval,
    precision_at_k,
    query_scores,
    recall_at_k,
    reciprocal_rank,
    search,
    verification,
)
from dualmetric.intervals import bootstrap_interval, paired_interval
from dualmetric.supervision import Pairs, Positives, Relevance, Triplets
from makers import make_clusters

MEASURES = list(measures.MEASURES)
FUNCTIONS = {
    "ndcg": ndcg,
    "recall": recall_at_k,
    "precision": precision_at_k,
    "hit_rate": hit_rate,
    "reciprocal_rank": reciprocal_rank,
}


def loop_score(measure, ranked, grades, k):
    """A score by its definition, from the documents of one query in ranked order."""
    found = [grades.get(document, 0) for document in ranked]
    n_relevant = sum(grade > 0 for grade in found)
    top = found[:k]
    if measure == "ndcg":
        best = sorted(found, reverse=True)[:k]
        gains = [
            sum((2**grade - 1) / np.log2(rank + 1) for rank, grade in enumerate(part, 1))
            for part in (top, best)
        ]
        return gains[0] / gains[1]
    if measure in ("recall", "precision", "hit_rate"):
        hits = sum(grade > 0 for grade in top)
        return {
            "recall": hits / n_relevant,
            "precision": hits / k,
            "hit_rate": float(hits > 0),
        }[measure]
    if measure == "reciprocal_rank":
        return next((1 / rank for rank, grade in enumerate(top, 1) if grade > 0), 0.0)
    part = found if measure == "map" else found[:n_relevant]
    hits = [rank for rank, grade in enumerate(part, 1) if grade > 0]
    return sum(number / rank for number, rank in enumerate(hits, 1)) / n_relevant


def loop_scores(measure, D, judgements, Q=None, k=10):
    """One score per query; of equal distances the lower number comes first."""
    result = []
    for q, query in enumerate(D if Q is None else Q):
        grades = {int(d): g for number, d, g in judgements if number == q}
        if not any(grades.values()):
            result.append(np.nan)
            continue
        distances = ((np.asarray(D) - query) ** 2).sum(axis=1)
        ranked = [d for d in np.argsort(distances, kind="stable") if Q is not None or d != q]
        result.append(loop_score(measure, ranked, grades, k))
    return np.array(result)


def make_task(n_documents=60, n_queries=25, n_features=5, ties=False, seed=0):
    """Documents, queries and rows of query, document and grade."""
    rng = np.random.default_rng(seed)
    if ties:
        D, Q = (rng.integers(-1, 2, (n, n_features)) for n in (n_documents, n_queries))
    else:
        D, Q = (rng.normal(size=(n, n_features)) for n in (n_documents, n_queries))
    lines = []
    for q in range(n_queries):
        documents = rng.choice(n_documents, rng.integers(1, 30), replace=False)
        grades = rng.integers(0, 4, len(documents))
        grades[0] = 1 + q % 3
        lines += [(q, d, g) for d, g in zip(documents, grades, strict=True)]
    return D.astype(float), Q.astype(float), np.array(lines)


def as_matrix(lines, shape):
    return sp.csr_matrix((lines[:, 2], (lines[:, 0], lines[:, 1])), shape=shape)


# --- documents for queries ---------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_equals_the_definition(measure, k, ties):
    D, Q, lines = make_task(ties=ties)
    expected = loop_scores(measure, D, lines, Q, k)
    found = query_scores(D, lines, Q, measure=measure, k=k)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if measure in FUNCTIONS:
        assert FUNCTIONS[measure](D, lines, Q, k=k) == pytest.approx(expected.mean(), rel=1e-12)
    assert found.dtype == np.float64
    assert 0 < expected.mean() <= 1


@pytest.mark.parametrize("k", [1, 5, 10, None])
def test_ndcg_is_that_of_sklearn(k):
    D, Q, lines = make_task(seed=1)
    gains = 2.0 ** as_matrix(lines, (len(Q), len(D))).toarray() - 1.0
    distances = ((Q[:, None] - D) ** 2).sum(axis=2)
    assert ndcg(D, lines, Q, k=k) == pytest.approx(ndcg_score(gains, -distances, k=k), rel=1e-12)


def test_average_precision_is_that_of_sklearn():
    D, Q, lines = make_task(seed=2)
    relevant = as_matrix(lines, (len(Q), len(D))).toarray() > 0
    distances = ((Q[:, None] - D) ** 2).sum(axis=2)
    expected = [average_precision_score(r, -d) for r, d in zip(relevant, distances, strict=True)]
    np.testing.assert_allclose(query_scores(D, lines, Q, measure="map"), expected, rtol=1e-12)


def test_hand_computed():
    # From 0 the documents come in the order 0, 1, 2, 3; 1 and 3 are relevant, with grades 1 and 2.
    D, Q, lines = [[1.0], [2.0], [3.0], [4.0]], [[0.0]], [[0, 1, 1], [0, 3, 2], [0, 0, 0]]
    gain = 1 / np.log2(3) + 3 / np.log2(5)
    assert ndcg(D, lines, Q) == pytest.approx(gain / (3 + 1 / np.log2(3)))
    assert ndcg(D, lines, Q, k=2) == pytest.approx(1 / np.log2(3) / (3 + 1 / np.log2(3)))
    assert recall_at_k(D, lines, Q, k=2) == 0.5
    assert precision_at_k(D, lines, Q, k=4) == 0.5
    assert precision_at_k(D, lines, Q, k=8) == 0.25
    assert hit_rate(D, lines, Q, k=1) == 0.0
    assert hit_rate(D, lines, Q, k=2) == 1.0
    assert reciprocal_rank(D, lines, Q) == 0.5
    assert reciprocal_rank(D, lines, Q, k=1) == 0.0
    assert map_at_r(D, lines, Q) == 0.25  # of the first two, the second is right
    assert query_scores(D, lines, Q, measure="map")[0] == 0.5


@pytest.mark.parametrize("measure", MEASURES)
def test_queries_among_the_documents(measure):
    D, _, lines = make_task(40, 40, ties=True, seed=3)
    lines = lines[lines[:, 0] != lines[:, 1]]
    expected = loop_scores(measure, D, lines, k=4)
    found = query_scores(D, lines, measure=measure, k=4)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_kinds_of_judgements_agree():
    D, Q, lines = make_task(seed=4)
    matrix = as_matrix(lines, (len(Q), len(D)))
    expected = ndcg(D, lines, Q)
    relevance = Relevance(lines, queries=np.ones((len(Q), 3)))  # not transformed: not looked at
    frame = pd.DataFrame(lines, columns=["query", "document", "grade"])
    for same in (matrix, sp.coo_array(matrix), relevance, lines.tolist(), frame, lines * 1.0):
        assert ndcg(D, same, Q) == expected
    right = lines[lines[:, 2] > 0, :2]
    ones = np.column_stack([right, np.ones(len(right), dtype=int)])
    expected = ndcg(D, ones, Q)
    for same in (right, Positives(right), Relevance(ones)):
        assert ndcg(D, same, Q) == expected
    assert relevance.queries.shape == (len(Q), 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows(dtype):
    rng = np.random.default_rng(5)
    _, _, lines = make_task(80, 30, seed=5)
    D, Q = (rng.integers(0, 5, (n, 20)) * (rng.random((n, 20)) < 0.2) for n in (80, 30))
    D, Q = D.astype(dtype), Q.astype(dtype)
    for measure in MEASURES:
        expected = loop_scores(measure, D, lines, Q, k=7)
        for documents, queries in (
            (sp.csr_matrix(D), sp.csr_matrix(Q)),
            (sp.csc_array(D), Q),
            (D, sp.coo_matrix(Q)),
        ):
            found = query_scores(documents, lines, queries, measure=measure, k=7)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_equal_documents_are_tied():
    """BLAS does not promise equal rows equal distances: the lower number must still be first."""
    rng = np.random.default_rng(6)
    D = np.repeat(rng.normal(size=(50, 33)) * 1e3 + 1e4, 9, axis=0)
    D = D[rng.permutation(len(D))]
    Q = np.vstack([rng.normal(size=(10, 33)) * 1e3 + 1e4, D[::50]])
    near = np.argmin(((Q[:, None] - D) ** 2).sum(axis=2), axis=1)
    copies = [np.flatnonzero((D[d] == D).all(axis=1)) for d in near]
    for place in range(9):
        lines = np.column_stack([np.arange(len(Q)), [c[place] for c in copies]])
        found = query_scores(D, lines, Q, measure="reciprocal_rank")
        np.testing.assert_array_equal(found, 1 / (place + 1))


def test_queries_without_a_relevant_document():
    D, Q = [[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0], [0.4]]
    lines = [[1, 0, 0], [0, 0, 1], [3, 1, 1]]  # query 2 is not judged
    with pytest.warns(UserWarning, match="queries without a relevant document are left out: 1"):
        found = query_scores(D, lines, Q, measure="map")
    np.testing.assert_array_equal(found, [1.0, np.nan, np.nan, 0.5])
    with pytest.warns(UserWarning, match="without a relevant document"):
        assert reciprocal_rank(D, lines, Q) == 0.75


@pytest.mark.parametrize("measure", MEASURES)
def test_bounded_memory(measure, monkeypatch):
    D, Q, lines = make_task(seed=7)
    y = np.arange(len(D)) % 7
    expected = query_scores(D, lines, Q, measure=measure)
    by_labels = query_scores(D, y, measure=measure)
    sizes = []
    ranked = judged._row_ranks
    monkeypatch.setattr(judged, "_BLOCK_BYTES", 3 * 8 * len(D))
    monkeypatch.setattr(search, "_JUDGEMENTS", 40)
    monkeypatch.setattr(judged, "n_threads", lambda: 1)
    make = judged.ranker

    def watched(X, n):
        find = make(X, n)
        return lambda index: (sizes.append(len(index)), find(index))[1]

    def row_ranks(row, documents):
        assert row.base.size <= 3 * len(D)
        return ranked(row, documents)

    monkeypatch.setattr(judged, "ranker", watched)
    monkeypatch.setattr(judged, "_row_ranks", row_ranks)
    np.testing.assert_array_equal(query_scores(D, lines, Q, measure=measure), expected)
    np.testing.assert_array_equal(query_scores(D, y, measure=measure), by_labels)
    assert len(sizes) > 10
    assert max(sizes) <= 40 + 30


def test_many_relevant_documents_are_sorted_as_few_are_counted():
    rng = np.random.default_rng(8)
    row = rng.integers(0, 60, 200).astype(float)
    distinct = rng.permutation(200) * 1.0
    for values in (row, distinct):
        expected = np.empty(200, dtype=int)
        expected[np.argsort(values, kind="stable")] = np.arange(1, 201)
        for count in (1, 15, 16, 200):
            documents = rng.permutation(200)[:count]
            np.testing.assert_array_equal(judged._row_ranks(values, documents), expected[documents])


# --- rows that query their class ---------------------------------------------------------------


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("to", [np.array, sp.csr_matrix])
def test_labels_stand_for_the_pairs_of_each_class(measure, to):
    rng = np.random.default_rng(9)
    X = rng.integers(-2, 3, (60, 4)).astype(float)
    y = rng.permutation(np.arange(60) % 5)
    pairs = [(a, b, 1) for a in range(60) for b in range(60) if a != b and y[a] == y[b]]
    expected = loop_scores(measure, X, pairs, k=6)
    for labels in (y, np.array(list("edcba"))[y], y[:, None], y.tolist(), pd.Series(y)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, about labels in a column
            found = query_scores(to(X), labels, measure=measure, k=6)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    some = query_scores(to(X), y, [7, 3, 7], measure=measure, k=6)
    np.testing.assert_allclose(some, expected[[7, 3, 7]], rtol=1e-12)


def test_labels_against_other_functions():
    X, y = make_clusters(80, 6, 4)
    np.testing.assert_allclose(
        query_scores(X, y, measure="map"), average_precisions(X, y), rtol=1e-12
    )
    nearest = np.array(
        [
            KNeighborsClassifier(1).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0]
            for i in range(80)
        ]
    )
    assert hit_rate(X, y, k=1) == precision_at_k(X, y, k=1) == np.mean(nearest == y)
    assert recall_at_k(X, y, k=None) == 1.0
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(kind=y)
    assert map_at_r(frame, "kind") == map_at_r(X, y)


def test_rows_that_are_alone():
    X, y = [[0.0], [1.0], [5.0], [9.0]], ["a", "a", "b", "c"]
    np.testing.assert_array_equal(query_scores(X, y), [1.0, 1.0, np.nan, np.nan])
    with pytest.warns(UserWarning, match="2 of 4 rows are the only row of their class"):
        assert map_at_r(X, y) == 1.0
    with pytest.raises(ValueError, match="each query is the only row of its class"):
        map_at_r(X, y, [2, 3])


# --- bad input ---------------------------------------------------------------------------------

D, Q = np.eye(4), np.ones((3, 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((D, [[0, 4]], Q), "document 4"),
        ((D, [[3, 0, 1]], Q), "query 3"),
        ((D, [[0, 0], [0, 0]]), "relevant to itself"),
        ((D, [[0, 0, 0]], Q), "no query has a relevant document"),
        ((D, [[0, 1, 1], [0, 1, 2]], Q), "two grades"),
        ((D, [[0, 0]], Q[:, :3]), "queries have 3 features and documents 4"),
        ((D, sp.csr_matrix(np.ones((4, 3))), Q), r"shape \(3, 4\); got \(4, 3\)"),
        ((D, Relevance([[0, 0, 1]], queries=Q)), "their own queries"),
        ((D, Triplets([[0, 1, 2]])), "one label per document; got Triplets"),
        ((D, np.ones((4, 4)), Q), "got ndarray of shape \\(4, 4\\)"),
        ((D, [0, 1, 1]), "3 labels for 4 rows"),
        ((D, [0, 0, 1, 1], [9]), "names rows that X does not have"),
        ((D * np.nan, [[0, 0]], Q), "documents"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        ndcg(*arguments)


def test_errors_of_options():
    with pytest.raises(ValueError, match=r"measure must be one of 'ndcg', .*; got 'auc'"):
        query_scores(D, [[0, 0]], Q, measure="auc")
    for k in (0, -1, 2.5, "3"):
        with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
            ndcg(D, [[0, 0]], Q, k=k)


def test_they_are_public():
    for function in (*FUNCTIONS.values(), map_at_r, pair_average_precision, verification):
        assert getattr(dualmetric, function.__name__) is function


# --- pairs -------------------------------------------------------------------------------------


def make_pairs(n=200, n_rows=60, ties=False, groups=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n_rows, 4)) * 1.0 if ties else rng.normal(size=(n_rows, 4))
    all_pairs = np.column_stack(np.triu_indices(n_rows, 1))
    index = all_pairs[rng.choice(len(all_pairs), n, replace=False)]
    distance = np.linalg.norm(X[index[:, 0]] - X[index[:, 1]], axis=1)
    same = distance + rng.normal(size=n) < np.median(distance)
    return X, Pairs(index, same, groups=groups), distance


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("to", [np.array, sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_pairs_against_sklearn(ties, to):
    X, pairs, distance = make_pairs(ties=ties)
    X = to(X) if ties else X
    expected = average_precision_score(pairs.same, -distance)
    assert pair_average_precision(X, pairs) == pytest.approx(expected, rel=1e-12)
    found = verification(X, pairs, far=[0.5, 0.1, 0.0, 1e-3, 1.0])
    if ties:  # square roots of whole numbers: the same in any order of additions
        far, tar, thresholds = roc_curve(pairs.same, -distance, drop_intermediate=False)
        np.testing.assert_allclose(found.curve.far, far, rtol=1e-12)
        np.testing.assert_allclose(found.curve.tar, tar, rtol=1e-12)
        np.testing.assert_allclose(found.curve.thresholds, -thresholds, rtol=1e-12)
    for rate, tar, threshold in zip([0.5, 0.1], found.tar, found.thresholds, strict=False):
        accepted = distance <= threshold + 1e-9
        assert tar == pytest.approx(accepted[pairs.same].mean())
        assert accepted[~pairs.same].mean() <= rate
        wider = distance <= distance[distance > threshold + 1e-9].min() + 1e-9
        assert wider[~pairs.same].mean() > rate or tar == wider[pairs.same].mean()
    np.testing.assert_array_equal(found.tar[2:], [np.nan, np.nan, 1.0])


def test_verification_by_hand():
    # Ten pairs at the distances 1 to 10; those that are the same at 1, 2, 4 and 9.
    X = np.arange(11.0)[:, None]
    index = np.column_stack([np.zeros(10, dtype=int), np.arange(1, 11)])
    pairs = Pairs(index, np.isin(np.arange(1, 11), [1, 2, 4, 9]))
    found = verification(X, pairs, far=(1 / 6, 2 / 6, 5 / 6, 0.1))
    np.testing.assert_array_equal(found.tar, [3 / 4, 3 / 4, 1.0, np.nan])
    np.testing.assert_array_equal(found.thresholds, [4.0, 5.0, 9.0, np.nan])
    assert found.curve.thresholds[0] == -np.inf
    assert verification(X, pairs, far=0.5).tar.tolist() == [0.75]


def test_a_tie_at_the_front_accepts_none():
    X = [[0.0], [1.0], [-1.0], [9.0]]
    pairs = Pairs([[0, 1], [0, 2], [0, 3]], [True, False, False])
    found = verification(X, pairs, far=[0.5, 0.49])
    np.testing.assert_array_equal(found.tar, [1.0, np.nan])
    pairs = Pairs([[0, 1], [0, 2], [0, 3], [1, 3]], [True, False, True, False])
    found = verification([[0.0], [1.0], [1.0], [1.0]], pairs, far=0.5)
    assert found.tar.tolist() == [0.0]  # the nearest, of distance 0, is different
    assert found.thresholds.tolist() == [0.0]


def test_errors_of_pairs():
    X = np.eye(4)
    with pytest.raises(TypeError, match=r"pairs must be Pairs\(index, same\).*; got list"):
        pair_average_precision(X, [[0, 1]])
    with pytest.raises(ValueError, match="no pair is labelled as different"):
        pair_average_precision(X, Pairs([[0, 1]]))
    with pytest.raises(ValueError, match="no pair is labelled as the same"):
        verification(X, Pairs([[0, 1]], [False]))
    with pytest.raises(ValueError, match="far must hold rates between 0 and 1"):
        verification(X, Pairs([[0, 1], [0, 2]], [True, False]), far=[2.0])


# --- intervals ---------------------------------------------------------------------------------


def test_weighted_pairs_are_repeated_pairs():
    _, pairs, distance = make_pairs(ties=True)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, (5, len(distance)))
    found = measures.errors(distance, pairs.same, weight.astype(float))
    for row, ap, tar in zip(
        weight,
        measures.average_precision_of(found),
        measures.true_accepts(found, 0.2),
        strict=True,
    ):
        lines = np.repeat(np.arange(len(row)), row)
        same, apart = pairs.same[lines], distance[lines]
        assert ap == pytest.approx(average_precision_score(same, -apart), rel=1e-12)
        far, true, _ = roc_curve(same, -apart, drop_intermediate=False)
        assert tar == pytest.approx(true[far <= 0.2].max(), rel=1e-12)


def test_pair_interval_is_a_bootstrap():
    X, pairs, distance = make_pairs(300, seed=1)
    low, high = pair_interval(X, pairs, n_draws=2000)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(2000):
        lines = rng.integers(300, size=300)
        drawn.append(average_precision_score(pairs.same[lines], -distance[lines]))
    np.testing.assert_allclose((low, high), np.quantile(drawn, [0.025, 0.975]), atol=0.01)
    assert low < pair_average_precision(X, pairs) < high
    assert pair_interval(X, pairs, n_draws=2000) == (low, high)
    low, high = pair_interval(X, pairs, far=0.1)
    assert low < verification(X, pairs, far=0.1).tar[0] < high
    assert np.isnan(pair_interval(X, pairs, far=1e-3)).all()


def test_pair_interval_of_entities():
    """Copies of rows add pairs and no evidence: the interval must not shrink with them."""
    X, pairs, _ = make_pairs(150, seed=2)
    alone = Pairs(pairs.index, pairs.same, groups=np.arange(60))
    once = pair_interval(X, alone)
    copies = np.vstack([pairs.index + 60 * copy for copy in range(4)])
    entity = np.tile(np.arange(60), 4)
    many = Pairs(copies, np.tile(pairs.same, 4), groups=entity)
    np.testing.assert_allclose(pair_interval(np.tile(X, (4, 1)), many), once, rtol=1e-9)
    without = pair_interval(np.tile(X, (4, 1)), Pairs(copies, np.tile(pairs.same, 4)))
    assert without[1] - without[0] < 0.6 * (once[1] - once[0])


def test_groups_are_drawn_whole():
    # Of three values 1 in one group and a 0 in another, two groups drawn are both the first, one
    # of each, or both the second: the mean is 1, 3/4 or 0, with the shares ¼, ½ and ¼.
    values, groups = [1.0, 1.0, 0.0, 1.0], ["a", "a", "b", "a"]
    assert bootstrap_interval(values, groups, level=0.4) == (0.75, 0.75)
    assert bootstrap_interval(values, groups, level=0.6) == (0.0, 1.0)
    assert paired_interval(values, np.zeros(4), groups, level=0.4) == (0.75, 0.75)
    assert bootstrap_interval([*values, np.nan], [*groups, "c"], level=0.4) == (0.75, 0.75)


def test_groups_by_the_normal_law():
    rng = np.random.default_rng(3)
    effect = np.repeat(rng.normal(size=400), 5)
    values = effect + 0.1 * rng.normal(size=2000)
    groups = np.repeat(np.arange(400), 5)
    order = rng.permutation(2000)
    low, high = bootstrap_interval(values[order], groups[order], n_draws=4000)
    means = values.reshape(400, 5).mean(axis=1)
    half = 1.96 * means.std() / np.sqrt(400)
    np.testing.assert_allclose((low, high), means.mean() + np.array([-half, half]), atol=half / 8)
    low, high = bootstrap_interval(values)
    assert high - low < 2 * half / 2  # one by one they look like five times the evidence
    with pytest.raises(ValueError, match="groups has 3 labels for 2000 rows"):
        bootstrap_interval(values, [1, 2, 3])


def test_intervals_of_queries():
    D, Q, lines = make_task(seed=10)
    scores = query_scores(D, lines, Q)
    low, high = bootstrap_interval(scores, np.arange(len(Q)) // 5)
    assert low < ndcg(D, lines, Q) < high
