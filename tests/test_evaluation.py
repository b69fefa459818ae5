"""Evaluation measures against plain loops written from their definitions, and scikit-learn."""

import warnings
from collections import Counter
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from dualmetric._arrays import kernels, ranking
from dualmetric.evaluation import average_precisions, knn_accuracy, mean_average_precision
from makers import as_kind, laid_out, make_clusters


def loop_average_precisions(X, y):
    """The definition, with distances summed coordinate by coordinate."""
    X = np.asarray(X, dtype=np.float64).tolist()
    y = list(y)
    result = []
    for i in range(len(X)):
        distances = [sum((a - b) ** 2 for a, b in zip(X[i], x, strict=True)) for x in X]
        precisions = []
        for j in range(len(X)):
            if j == i or y[j] != y[i]:
                continue
            as_near = [y[m] for m in range(len(X)) if m != i and distances[m] <= distances[j]]
            precisions.append(sum(label == y[i] for label in as_near) / len(as_near))
        result.append(sum(precisions) / len(precisions) if precisions else np.nan)
    return np.array(result)


def sklearn_average_precisions(X, y):
    result = []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        distances = ((X[others] - X[i]) ** 2).sum(axis=1)
        result.append(average_precision_score(y[others] == y[i], -distances))
    return np.array(result)


def test_hand_computed():
    # Rows at 0, 1, 3, 7 of classes a, a, b, a. Ranked labels and average precisions:
    # 0: a b a -> (1/1 + 2/3)/2; 1: a b a, likewise; 7: b a a -> (1/2 + 2/3)/2; 3 is alone.
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    y = np.array(["a", "a", "b", "a"])
    expected = [5 / 6, 5 / 6, np.nan, 7 / 12]
    np.testing.assert_allclose(average_precisions(X, y), expected, rtol=1e-15)
    with pytest.warns(UserWarning, match="1 of 4 rows"):
        assert mean_average_precision(X, y) == pytest.approx((5 / 6 + 5 / 6 + 7 / 12) / 3)


def test_hand_computed_tie():
    # From 0 a row of each class lies at distance 1: both count at the tied relevant row.
    X = np.array([[0], [1], [-1]])
    y = np.array([0, 0, 1])
    np.testing.assert_array_equal(average_precisions(X, y), [1 / 2, 1.0, np.nan])


@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_equals_sklearn_without_ties(n_classes):
    X, y = make_clusters(80, 6, n_classes)
    expected = sklearn_average_precisions(X, y)
    np.testing.assert_allclose(average_precisions(X, y), expected, rtol=1e-12)
    assert mean_average_precision(X, y) == pytest.approx(expected.mean(), rel=1e-12)
    assert 0.02 < expected.mean() < 0.98  # else the labels would say nothing


@pytest.mark.parametrize("to", [np.array, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_equals_sklearn_with_ties(to):
    rng = np.random.default_rng(1)
    X = rng.integers(-2, 3, size=(90, 3))
    y = rng.permutation(np.arange(90) % 4)
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    assert len(np.unique(distances)) < 50  # 4,005 pairs: nearly all are tied
    np.testing.assert_allclose(
        average_precisions(to(X), y), sklearn_average_precisions(X, y), rtol=1e-12
    )


@st.composite
def datasets(draw):
    n = draw(st.integers(2, 14))
    d = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        X = rng.integers(-2, 3, size=(n, d))
    else:  # multiples of 1/8 on a wide range: few ties, and exact in every dtype
        X = np.round(rng.normal(size=(n, d)) * 64) / 8
    y = rng.integers(0, draw(st.integers(1, 4)), size=n)
    y[1] = y[0]
    return X, y


SPARSE = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "coo": sp.coo_array}


def layouts(X, name):
    if name == "list":
        return X.tolist()
    if name == "frame":
        return pd.DataFrame(X)
    if name in SPARSE:
        return SPARSE[name](X)
    return laid_out(X, name)


@settings(max_examples=100, deadline=None)
@given(
    datasets(),
    st.sampled_from([np.float64, np.float32, np.int64, np.int8]),
    st.sampled_from(
        ["fortran", "strided", "reversed", "read-only", "list", "frame", "csr", "csc", "coo"]
    ),
    st.sampled_from([lambda y: y, lambda y: -4.0 * y, lambda y: np.array(list("dbca"))[y], list,
                     lambda y: np.array(["d", "b", "ca", "c"], dtype=object)[y],
                     lambda y: pd.Series(np.array(["d", "b", "ca", "c"])[y])]),
)  # fmt: skip
def test_equals_definition(data, dtype, layout, relabel):
    X, y = data
    X = X.astype(dtype)
    given_X = layouts(X, layout)
    before = given_X.copy()
    np.testing.assert_allclose(
        average_precisions(given_X, relabel(y)), loop_average_precisions(X, y), rtol=1e-13
    )
    changed = given_X != before
    assert not (changed.sum() if sp.issparse(given_X) else np.any(changed))


@settings(max_examples=40, deadline=None)
@given(datasets(), st.integers(0, 2**32 - 1), st.integers(-40, 40), st.integers(-9999, 9999))
def test_invariances(data, seed, power, shift):
    X, y = data
    expected = average_precisions(X, y)
    order = np.random.default_rng(seed).permutation(len(y))
    np.testing.assert_array_equal(average_precisions(X[order], y[order]), expected[order])
    np.testing.assert_array_equal(average_precisions(X * 2.0**power, y), expected)
    # whole numbers, so that moving rows loses nothing and ties stay ties
    np.testing.assert_array_equal(average_precisions(X + float(shift), y), expected)
    np.testing.assert_array_equal(average_precisions(X[:, ::-1], y), expected)


@pytest.mark.parametrize("power", [-1070, -600, 600, 1015])
@pytest.mark.parametrize("to", [np.array, sp.csr_array])
def test_extreme_scales(power, to):
    # squares would vanish or overflow; whole numbers stay exact even where they are subnormal
    X, y = make_clusters()
    X = np.round(X * 8)
    np.testing.assert_allclose(
        average_precisions(to(np.ldexp(X, power)), y), sklearn_average_precisions(X, y), rtol=1e-12
    )


def test_far_from_origin():
    X, y = make_clusters()
    X = np.round(X * 2**20) / 2**20
    np.testing.assert_array_equal(average_precisions(X + 2.0**30, y), average_precisions(X, y))


@pytest.mark.parametrize("to", [np.array, sp.csr_array])
def test_equal_rows_are_tied(to):
    # Where copies of 5 rows stand all over X, with the classes mixed, the order within a tie is
    # pure rounding: each copy must be at the same distance, whatever BLAS makes of its position.
    rng = np.random.default_rng(2)
    distinct = rng.normal(size=(5, 50)) * (rng.random((5, 50)) < 0.6) + 0.1 * np.eye(5, 50)
    which = np.arange(1001) % 5
    y = rng.integers(0, 2, size=1001)
    counts = np.array([[np.sum((which == w) & (y == c)) for c in (0, 1)] for w in range(5)])
    expected = np.empty(1001)
    distances = ((distinct[:, None] - distinct) ** 2).sum(axis=2)
    for i in range(1001):
        near = counts[np.argsort(distances[which[i]])].astype(float)
        near[0, y[i]] -= 1
        relevant, total = near[:, y[i]], near.sum(axis=1)
        precision = np.cumsum(relevant) / np.cumsum(total)
        expected[i] = (relevant * precision).sum() / relevant.sum()
    np.testing.assert_allclose(average_precisions(to(distinct[which]), y), expected, rtol=1e-12)


def test_equal_rows_are_recognised():
    X = np.array([[0.0, 1.0], [2.0, 1.0], [-0.0, 1.0], [0.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    expected = [0, 1, 0, 3, 1, 0]
    np.testing.assert_array_equal(ranking.squared_distances(X)[1], expected)
    # the same rows with a stored zero, a split entry, and unsorted columns
    data = np.array([0.0, 1.0, 1.0, 2.0, 1.0, -0.0, 2.0, 1.0, 0.5, 0.5])
    indices = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    indptr = np.array([0, 2, 4, 5, 6, 8, 10])
    csr = sp.csr_matrix((data.copy(), indices.copy(), indptr.copy()), shape=(6, 2))
    np.testing.assert_array_equal(csr.toarray(), X)
    fill, origin = ranking.squared_distances(csr)
    np.testing.assert_array_equal(origin, expected)
    distances = np.empty((2, 6))
    fill(np.array([3, 1]), distances)
    exact = ((X[[3, 1], None] - X) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances / distances[0, 0], exact / exact[0, 0])
    # and the user's matrix is as it was
    np.testing.assert_array_equal(csr.data, data)
    np.testing.assert_array_equal(csr.indices, indices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_among_many(rng, dtype):
    X = rng.integers(-2, 3, size=(500, 4)).astype(dtype) + 0.0
    expected = [next(j for j in range(i + 1) if (X[j] == X[i]).all()) for i in range(500)]
    np.testing.assert_array_equal(ranking.first_equal_rows(X), expected)
    part = X[:, 1:]  # in parts of longer rows
    expected = [next(j for j in range(i + 1) if (part[j] == part[i]).all()) for i in range(500)]
    np.testing.assert_array_equal(ranking.first_equal_rows(part), expected)
    np.testing.assert_array_equal(ranking.first_equal_rows(X[:, :0]), np.zeros(500))
    distinct = rng.normal(size=(500, 2)).astype(dtype)
    np.testing.assert_array_equal(ranking.first_equal_rows(distinct), np.arange(500))


def test_different_rows_with_the_same_hash():
    class Zeros:
        def integers(self, *args, size, dtype):
            return np.zeros(size, dtype)  # all factors are one

    X = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [3.0, 1.0], [2.0, 1.0]])
    with mock.patch.object(np.random, "default_rng", return_value=Zeros()):
        np.testing.assert_array_equal(ranking.first_equal_rows(X), [0, 1, 0, 3, 1])


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("skip", [False, True])
def test_shares_of_right_neighbours(kind, skip, rng, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(ranking, "_AT_ONCE", 7)
    rows = rng.normal(size=(1500, 6)) * (rng.random((1500, 6)) < 0.7)
    rows[:, 0] = rng.normal(size=1500)  # no ties
    codes, asked = rng.integers(3, size=1500), rng.permutation(1500)[:200]
    queries = as_kind(rows[asked], kind)
    itself = asked if skip else None
    found = ranking.right_shares(as_kind(rows, kind), codes, queries, codes[asked], 5, itself)
    distances = ((rows[asked, None] - rows) ** 2).sum(axis=2)
    if skip:
        distances[np.arange(200), asked] = np.inf
    nearest = np.argsort(distances, axis=1)[:, :5]
    np.testing.assert_allclose(found, (codes[nearest] == codes[asked, None]).mean(axis=1))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("whole", [True, False])
def test_sparse_distances_equal_the_dense_ones(whole, index):
    rng = np.random.default_rng(7)
    X = rng.integers(-9, 10, size=(80, 50)).astype(float) if whole else rng.normal(size=(80, 50))
    X *= rng.random((80, 50)) < 0.3
    X[11] = 0.0
    X[:, 4] = 0.0
    X[60:] = X[:20]
    csr = sp.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
    queries = np.array([70, 3, 11, 10])
    fill, origin = ranking.squared_distances(csr)
    got = np.full((4, 80), np.nan)
    fill(queries, got)
    scale = np.ldexp(1.0, np.frexp(np.abs(X).max())[1])
    scaled = X / scale
    expected = ((scaled[queries, None] - scaled) ** 2).sum(axis=2)
    product = (csr[queries] @ csr.T).toarray() / scale**2
    norms = (scaled**2).sum(axis=1)
    for reference in (expected, norms[queries, None] + norms - 2 * product):
        if whole:  # nothing is rounded
            np.testing.assert_array_equal(got, reference)
        else:
            np.testing.assert_allclose(got, reference, rtol=0, atol=1e-14 * norms.max())
    np.testing.assert_array_equal(origin[60:], np.arange(20))
    np.testing.assert_array_equal(got[:, 60:], got[:, :20])


def test_ranking_keys_equal_their_twin():
    rng = np.random.default_rng(5)
    distances = rng.choice([-1e-17, -0.0, 0.0, 5e-324, 1e-9, 1.0, 1.5, 2.0, 1e300], size=(4, 40))
    queries = np.array([3, 8, 20, 39])
    labels = rng.integers(0, 3, size=40)
    origin = np.arange(40)
    origin[[8, 20, 30]] = 2
    origin[25] = 9
    copies = np.array([8, 20, 25, 30])
    keys = distances.copy().view(np.int64)
    kernels.ranking_keys(keys, queries, labels, origin, copies)

    expected = distances.copy()
    for r, query in enumerate(queries):
        expected[r, origin == origin[query]] = 0.0
    expected = np.maximum(expected[:, origin], 0.0)
    for r, query in enumerate(queries):
        others = np.delete(np.arange(40), query)
        relevant = labels == labels[query]
        by_key = others[np.argsort(keys[r].view(np.uint64)[others], kind="stable")]
        by_pair = others[np.lexsort((relevant[others], expected[r, others]))]
        np.testing.assert_array_equal(by_key, by_pair)
        np.testing.assert_array_equal(keys[r, others] & 1, relevant[others])
        same = expected[r, others, None] == expected[r, others]
        same &= relevant[others, None] == relevant[others]
        np.testing.assert_array_equal(keys[r, others, None] == keys[r, others], same)
        assert keys[r].view(np.uint64).argmax() == query
        assert keys[r, query] & 1 == 0


def test_ranked_precisions_equal_their_twin():
    rng = np.random.default_rng(6)
    distances = np.sort(rng.integers(0, 9, size=(5, 30)), axis=1)
    distances[0] = np.arange(30)
    relevant = rng.random((5, 30)) < 0.4
    keys = np.sort(2 * distances + relevant, axis=1)
    keys = np.column_stack([keys, np.full(5, 1000)])
    expected = [average_precision_score(relevant[r], -distances[r].astype(float)) for r in range(5)]
    np.testing.assert_allclose(kernels.ranked_precisions(keys), expected, rtol=1e-14)


def test_blocks_and_threads_do_not_matter(monkeypatch):
    X, y = make_clusters(301, 7, 6)
    expected = average_precisions(X, y)
    np.testing.assert_allclose(expected, sklearn_average_precisions(X, y), rtol=1e-12)
    for bytes_, threads in ((1, "1"), (20_000, "1"), (20_000, "3"), (2**26, "2")):
        monkeypatch.setattr(ranking, "_BLOCK_BYTES", bytes_)
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        np.testing.assert_allclose(average_precisions(X, y), expected, rtol=1e-12)
        np.testing.assert_allclose(average_precisions(sp.csr_array(X), y), expected, rtol=1e-12)


def test_memory_is_bounded():
    import tracemalloc

    X, y = make_clusters(6000, 4, 3)
    average_precisions(X[:10], y[:10])  # compile first
    tracemalloc.start()
    average_precisions(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20  # all distances would take 288 MB


def test_perfect_clusters():
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(7), 49)
    X = 100.0 * np.eye(7)[y] + rng.normal(size=(len(y), 7))
    assert mean_average_precision(X, y) == 1.0


def test_rows_that_are_all_equal():
    # every rank is tied: the precision is the share of the class among the other rows
    y = np.array([0, 0, 0, 1, 1])
    for X in (np.zeros((5, 3)), np.full((5, 3), 0.1), sp.csr_matrix((5, 3))):
        np.testing.assert_array_equal(average_precisions(X, y), [1 / 2] * 3 + [1 / 4] * 2)


def test_class_of_one_row():
    X, y = make_clusters(30, 4, 3)
    y = y.copy()
    y[[4, 11]] = [7, 8]
    expected = loop_average_precisions(X, y)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(expected)), [4, 11])
    np.testing.assert_allclose(average_precisions(X, y), expected, rtol=1e-12)
    with pytest.warns(UserWarning, match="2 of 30 rows are the only row") as caught:
        assert mean_average_precision(X, y) == pytest.approx(np.nanmean(expected), rel=1e-12)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    # they are still ranked by the others
    kept = np.delete(np.arange(30), [4, 11])
    assert np.abs(average_precisions(X[kept], y[kept]) - expected[kept]).max() > 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean_average_precision(X[kept], y[kept])


@pytest.mark.parametrize("measure", [average_precisions, mean_average_precision])
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0.0], [1.0]], [0, 1], r"no class in y has two rows.*give labels that rows share"),
        ([[0.0]], [0], "no class in y has two rows"),
        ([[0.0], [np.nan]], [0, 0], "X contains NaN"),
        ([[0.0], [np.inf]], [0, 0], "X contains infinity"),
        (sp.csr_array([[0.0], [np.nan]]), [0, 0], "X contains NaN"),
        (np.ma.masked_equal([[0.0], [1.0]], 1.0), [0, 0], "X is a masked array"),
        ([[0.0], [1.0]], np.ma.masked_equal([0, 1], 1), "y is a masked array"),
        ([0.0, 1.0], [0, 0], "Expected 2D array"),
        ([[0.0], [1.0]], [0, 0, 0], "y has 3 labels for 2 rows"),
        ([[0.0], [1.0]], [[0, 1], [0, 1]], "y should be a 1d array"),
        ([[0.0], [1.0]], [np.nan, np.nan], "y contains NaN"),
        ([[0.0], [1.0]], np.array([np.nan, "a"], dtype=object), "y contains NaN"),
        ([[0.0], [1.0]], np.array([1, "a"], dtype=object), "cannot be compared"),
        ([[0.0], [1.0]], np.array([None, "a"], dtype=object), "y contains NaN or None"),
        ([[0.0], [1.0]], np.array([pd.NA, "a"], dtype=object), "y contains NaN or None"),
        (np.array([[1j], [2j]]), [0, 0], "Complex data"),
        (np.zeros((0, 2)), [], "0 sample"),
    ],
)
def test_bad_input(measure, X, y, message):
    with pytest.raises(ValueError, match=message):
        measure(X, y)


def test_unmasked_masked_array():
    X, y = make_clusters(20)
    np.testing.assert_array_equal(
        average_precisions(np.ma.array(X), np.ma.array(y)), average_precisions(X, y)
    )


def loop_knn(X_train, y_train, X_test, y_test, k):
    """Accuracy, and the smallest lead of a winning class."""
    right, lead = 0, k
    for x, truth in zip(X_test, y_test, strict=True):
        distances = [sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) for z in X_train]
        nearest = sorted(range(len(X_train)), key=distances.__getitem__)[:k]
        votes = Counter(y_train[i] for i in nearest).most_common()
        right += votes[0][0] == truth
        if len(votes) > 1:
            lead = min(lead, votes[0][1] - votes[1][1])
    return right / len(X_test), lead


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("to", [np.array, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("names", [np.arange(2), np.array(["x", "yy"]), np.array([-3.0, 7.0])])
def test_knn_equals_loop(k, to, names):
    X, y = make_clusters(70, 4, 2, apart=0.5, seed=k)  # two classes and an odd k: no tied votes
    y = names[y]
    expected, lead = loop_knn(X[:50], y[:50], X[50:], y[50:], k)
    assert lead > 0
    assert 0.1 < expected < 1.0
    got = knn_accuracy(to(X[:50]), y[:50], to(X[50:]), y[50:], k=k)
    assert got == pytest.approx(expected, abs=1e-15)


def test_knn_default_is_five():
    X, y = make_clusters(70, 4, 2, apart=0.5, seed=0)
    parts = X[:50], y[:50], X[50:], y[50:]
    assert loop_knn(*parts, 5)[0] not in (loop_knn(*parts, 3)[0], loop_knn(*parts, 7)[0])
    assert knn_accuracy(*parts) == pytest.approx(loop_knn(*parts, 5)[0], abs=1e-15)


def test_knn_labels_of_other_types():
    X = [[0.0], [1.0], [8.0], [9.0]]
    text = np.array(["a", "a", "b", "b"])
    # a class that training never saw counts as wrong; object and str labels are the same labels
    unseen = np.array(["a", "c"], dtype=object)
    assert knn_accuracy(X, text, [[0.5], [8.5]], unseen, k=2) == 0.5
    assert knn_accuracy(X, [0, 0, 1, 1], [[0.5], [8.5]], [0.0, 1.0], k=2) == 1.0
    with pytest.raises(ValueError, match="cannot be compared"):
        knn_accuracy(X, ["0", "0", "1", "1"], [[0.5], [8.5]], [0, 1], k=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1; got 0"),
        ({"k": -2}, "at least 1; got -2"),
        ({"k": 1.5}, "whole number of at least 1; got 1.5"),
        ({"k": True}, "got True"),
        ({"k": 5}, "k = 5 neighbours cannot be found among 4 training rows"),
        ({"X_test": [[0.0, 1.0]]}, "X_train has 1 features, but X_test has 2"),
        ({"y_train": [0, 1]}, "y_train has 2 labels for 4 rows"),
        ({"y_test": [0, 1]}, "y_test has 2 labels for 1 rows"),
        ({"X_train": [[0.0], [1.0], [2.0], [np.nan]]}, "X_train contains NaN"),
        ({"X_test": [[np.inf]]}, "X_test contains infinity"),
        ({"X_test": np.ma.masked_equal([[1.0]], 1.0)}, "X_test is a masked array"),
        ({"y_train": [0.0, 0.0, 1.0, np.nan]}, "y_train contains NaN"),
    ],
)
def test_knn_bad_input(change, message):
    good = {
        "X_train": [[0.0], [1.0], [8.0], [9.0]],
        "y_train": [0, 0, 1, 1],
        "X_test": [[2.0]],
        "y_test": [0],
        "k": 4,
    }
    knn_accuracy(**good)
    with pytest.raises(ValueError, match=message):
        knn_accuracy(**(good | change))


@pytest.mark.parametrize("sparse", [False, True])
def test_queries_are_a_part_of_all(rng, sparse):
    X = rng.standard_normal((70, 4))
    y = rng.integers(5, size=70)
    y[9] = 5  # alone
    rows = sp.csr_array(X) if sparse else X
    every = average_precisions(rows, y)
    queries = [30, 9, 2, 30]
    np.testing.assert_array_equal(average_precisions(rows, y, queries=queries), every[queries])
    np.testing.assert_array_equal(average_precisions(rows, y, queries=70), every)
    drawn = average_precisions(rows, y, queries=20)
    assert drawn.shape == (20,)
    np.testing.assert_array_equal(drawn, average_precisions(rows, y, queries=20))
    assert np.isin(drawn[~np.isnan(drawn)], every).all()
    found = mean_average_precision(rows, y, queries=[30, 2])
    assert found == pytest.approx(every[[30, 2]].mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (0, "at least 1"),
        ([], "list of row numbers"),
        ([0.5], "list of row numbers"),
        ([[0]], "list of row numbers"),
        ([0, 4], "does not have: row numbers go from 0 to 3"),
        ([-1], "names rows"),
        ([3], "only row of its class"),
    ],
)
def test_bad_queries(queries, message):
    with pytest.raises(ValueError, match=message):
        average_precisions([[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1], queries=queries)
