"""Metric: distances against the formula."""

import pickle
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import cosine_distances

from dualmetric import Metric
from dualmetric.adapter import QueryAdapter
from dualmetric.tfidf import tfidf
from makers import INFO, NAMES, make_cosine, make_metric, make_rows


def as_kind(X, kind):
    return X.tolist() if kind is list else kind(X)


KINDS = [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array, list]


# --- distances --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_everything_agrees_with_the_formula(kind, identity, dtype):
    metric = Metric(None, 5) if identity else make_metric(dtype=dtype)
    M = np.eye(5) if identity else metric.factor @ metric.factor.T
    A, B = make_rows(6, dtype=dtype), make_rows(6, dtype=dtype, seed=2)
    diff = A[:, None, :].astype(np.float64) - B[None, :, :]
    expected = np.sqrt(np.einsum("abi,ij,abj->ab", diff, M, diff))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    a, b = as_kind(A, kind), as_kind(B, kind)
    assert_allclose(metric.matrix(), M, atol=tolerance)
    assert_allclose(metric.pairwise(a, b), expected, atol=10 * tolerance)
    assert_allclose(metric.distance(a, b), np.diagonal(expected), atol=tolerance)
    own = metric.pairwise(a)
    assert_allclose(own, own.T, atol=10 * tolerance)
    assert_array_equal(np.diagonal(own), 0.0)
    out = metric.transform(a)
    if identity:
        assert_array_equal(out.toarray() if sp.issparse(out) else out, A)
    else:
        assert isinstance(out, np.ndarray)
        assert_allclose(out, A @ metric.factor, atol=tolerance)
    if kind is not list:
        assert out.dtype == dtype == metric.distance(a, b).dtype


def test_precision_follows_the_rows():
    metric = make_metric(dtype=np.float64)
    assert metric.transform(make_rows(3, dtype=np.float32)).dtype == np.float32
    assert make_metric(dtype=np.float32).transform(make_rows(3)).dtype == np.float64
    assert metric.transform(np.eye(5, dtype=int)).dtype == np.float64


def test_one_side_sparse():
    metric, A, B = make_metric(), make_rows(4), make_rows(4, seed=2)
    assert_allclose(metric.distance(sp.csr_array(A), B), metric.distance(A, B))
    assert_allclose(metric.pairwise(A, sp.csr_array(B)), metric.pairwise(A, B))
    plain = Metric(None, 5)
    assert_allclose(plain.distance(sp.csr_array(A), B), plain.distance(A, B))
    assert_allclose(plain.pairwise(A, sp.csr_array(B)), plain.pairwise(A, B))


def test_float32_distances_beyond_the_range_of_their_squares():
    far = np.zeros((1, 2), dtype=np.float32)
    metric = Metric(np.eye(2, dtype=np.float32), 2)
    assert_allclose(metric.distance(far + np.float32(3e30), far), np.sqrt(2) * 3e30, rtol=1e-6)
    assert_allclose(metric.distance(far + np.float32(3e-30), far), np.sqrt(2) * 3e-30, rtol=1e-6)


def test_rows_too_large_to_transform():
    metric = Metric(np.full((2, 1), 1e10, dtype=np.float32), 2)
    with pytest.raises(ValueError, match=r"too large for this metric in float32: .*pass float64"):
        metric.transform(np.full((1, 2), 1e30, dtype=np.float32))
    assert metric.transform(np.full((1, 2), 1e30))[0, 0] == pytest.approx(2e40)
    with pytest.raises(ValueError, match="too large for this metric in float64: check their unit"):
        metric.transform(np.array([[1e305, -1e305]]) * [[1e3, 1e3]])


def test_rows_are_not_changed():
    X = make_rows(4)
    X.flags.writeable = False
    before = X.copy()
    make_metric().transform(X)
    Metric(None, 5).pairwise(X)
    assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 4)), "NAME has 4 features, but this metric is expecting 5"),
        (sp.csr_array((2, 6)), "NAME has 6 features, but this metric is expecting 5"),
        (np.ones(5), "Expected 2D array"),
        (np.ones((0, 5)), "0 sample"),
        (np.full((2, 5), np.nan), "contains NaN"),
        (np.full((2, 5), np.inf), "contains infinity"),
        (np.ma.masked_array(np.ones((2, 5)), mask=np.eye(2, 5)), r"NAME\.filled\(0\)"),
        ([["a"] * 5], "could not convert string"),
    ],
)
@pytest.mark.parametrize("identity", [False, True])
def test_bad_rows(rows, message, identity):
    metric = Metric(None, 5) if identity else make_metric()
    good = np.ones((2, 5))
    for name, use in (
        ("X", metric.transform),
        ("A", metric.pairwise),
        ("A", lambda X: metric.distance(X, good)),
        ("B", lambda X: metric.distance(good, X)),
        ("B", lambda X: metric.pairwise(good, X)),
    ):
        with pytest.raises(ValueError, match=message.replace("NAME", name)):
            use(rows)


def test_distance_of_different_numbers_of_rows():
    with pytest.raises(ValueError, match=r"A has 3 rows and B has 1, .*pairwise"):
        make_metric().distance(make_rows(3), make_rows(1))


@pytest.mark.parametrize(
    ("factor", "names", "message"),
    [
        (np.ones((4, 2)), None, r"over 5 features must have shape \(5, rank\).* got \(4, 2\)"),
        (np.ones(5), None, r"got \(5,\)"),
        (np.ones((5, 0)), None, "rank at least 1"),
        (np.ones((5, 2), dtype=int), None, "float32 or float64; got int64: convert it"),
        (np.ones((5, 2), dtype=np.float16), None, "float32 or float64; got float16"),
        (np.ones((5, 2)), ("a", "b"), "feature_names has 2 names for 5 features"),
        (None, ("a",) * 6, "feature_names has 6 names for 5 features"),
    ],
)
def test_bad_metrics(factor, names, message):
    with pytest.raises(ValueError, match=message):
        Metric(factor, 5, names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factor": None}, "pass n_features when factor is None"),
        (
            {"factor": None, "n_features": 0},
            "n_features must be a whole number of at least 1; got 0",
        ),
        ({"factor": None, "n_features": 2.5}, r"n_features must be a whole number.* got 2\.5"),
        ({"factor": 3.0}, r"rank at least 1; got \(\)"),
        ({"factor": [1.0, 2.0]}, r"got \(2,\)"),
        ({"factor": [["a"]]}, "float32 or float64; got <U1"),
        ({"factor": [[np.nan]]}, "the factor of a metric contains NaN or infinity"),
        ({"factor": [[1.0]], "distance": "manhattan"}, "'euclidean' or 'cosine'; got 'manhattan'"),
        ({"factor": [[1.0]], "distance": None}, "'euclidean' or 'cosine'; got None"),
        ({"factor": [[1.0]], "centre": [1.0]}, "a centre is for distance='cosine' only"),
        (
            {"factor": [[1.0, 2.0]], "centre": [1.0], "distance": "cosine"},
            r"centre of a metric of rank 2 must have shape \(2,\); got \(1,\)",
        ),
        (
            {"factor": None, "n_features": 3, "centre": [[1.0] * 3], "distance": "cosine"},
            r"rank 3 must have shape \(3,\); got \(1, 3\)",
        ),
        (
            {"factor": [[1.0]], "centre": [np.inf], "distance": "cosine"},
            "the centre of a metric contains NaN or infinity",
        ),
        (
            {"factor": [[1.0]], "centre": np.array([1]), "distance": "cosine"},
            "the centre of a metric must be float32 or float64; got int64",
        ),
    ],
)
def test_more_bad_metrics(arguments, message):
    with pytest.raises(ValueError, match=message):
        Metric(**arguments)


def test_width_follows_from_the_factor():
    metric = Metric([[3], [4]], distance="cosine", centre=[1])
    assert (metric.n_features, metric.rank, metric.kind) == (2, 1, "cosine")
    assert metric.factor.dtype == metric.centre.dtype == np.float64
    assert Metric([[3], [4]]).distance([[1, 1]], [[0, 0]]) == 7.0
    assert repr(metric) == "<Cosine metric of rank 1 over 2 features>"
    assert repr(Metric([[3], [4]])) == "<Metric of rank 1 over 2 features>"
    prior = Metric(None, n_features=1000, distance="cosine")
    corrected = Metric(np.eye(1000), before=prior)
    assert repr(corrected) == "<Cosine metric of rank 1,000 over 1,000 features>"
    assert repr(QueryAdapter(prior, offset=np.ones(1000))) == (
        f"<QueryAdapter over 1,000 features, for {prior!r}>"
    )


def test_names_in_any_sequence():
    for names in (["a", "b"], np.array(["a", "b"], dtype=object), ("a", "b")):
        assert Metric(None, 2, names).feature_names == ("a", "b")


def test_width_in_any_kind_of_integer(tmp_path):
    Metric(None, np.int64(2)).save(tmp_path / "m")
    assert Metric.load(tmp_path / "m").n_features == 2


# --- cosine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "identity", "centred"),
    [
        *product(KINDS, [False], [False, True]),
        *product(KINDS, [True], [False]),
        *product([np.asarray, list], [True], [True]),  # a sparse matrix is not centred: see below
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_agrees_with_scikit_learn(kind, identity, centred, dtype):
    metric = make_cosine(dtype, centred, identity)
    A, B = make_rows(6, dtype=dtype), make_rows(6, dtype=dtype, seed=2)
    L = np.eye(5) if identity else metric.factor.astype(np.float64)
    c = metric.centre.astype(np.float64) if centred else 0.0
    expected = 2 * cosine_distances(A @ L - c, B @ L - c)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    a, b = as_kind(A, kind), as_kind(B, kind)
    assert_allclose(metric.pairwise(a, b) ** 2, expected, atol=tolerance)
    assert_allclose(metric.distance(a, b) ** 2, np.diagonal(expected), atol=tolerance)
    out = metric.transform(a)
    assert sp.issparse(out) == (identity and kind not in (np.asarray, list))
    lengths = np.linalg.norm(out.toarray() if sp.issparse(out) else out, axis=1)
    assert_allclose(lengths, 1.0, rtol=tolerance)
    if kind is not list:
        assert out.dtype == metric.distance(a, b).dtype == dtype
    assert_allclose(metric.matrix(), L @ L.T, atol=tolerance)


@pytest.mark.parametrize("centred", [False, True])
def test_cosine_ranks_as_scikit_learn(centred):
    metric = make_cosine(centred=centred)
    A, B = make_rows(10), make_rows(40, seed=2)
    c = metric.centre if centred else 0.0
    expected = cosine_distances(A @ metric.factor - c, B @ metric.factor - c)
    assert_array_equal(np.argsort(metric.pairwise(A, B)), np.argsort(expected))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_stay_zero(kind, identity, dtype):
    X = make_rows(4, dtype=dtype)
    X[2] = 0.0
    metric = make_cosine(dtype, centred=False, identity=identity)
    out = metric.transform(kind(X))
    assert out.dtype == dtype
    out = out.toarray() if sp.issparse(out) else out
    assert_array_equal(out[2], 0.0)
    assert_allclose(np.linalg.norm(out, axis=1), [1.0, 1.0, 0.0, 1.0], rtol=1e-6)
    distances = metric.pairwise(kind(X))
    assert_allclose(distances[2], [1.0, 1.0, 0.0, 1.0], rtol=1e-6)
    assert_array_equal(metric.transform(kind(np.zeros((3, 5), dtype=dtype))).sum(), 0.0)


def test_a_row_at_the_centre_stays_zero():
    metric = Metric(np.eye(2), centre=[1.0, 2.0], distance="cosine")
    assert_array_equal(metric.transform([[1.0, 2.0], [1.0, 3.0]]), [[0.0, 0.0], [0.0, 1.0]])


def test_a_sparse_matrix_is_not_centred():
    metric = make_cosine(identity=True)
    for use in (metric.transform, metric.pairwise, lambda X: metric.distance(X, X)):
        with pytest.raises(
            ValueError, match=r"would make a sparse X dense: .*X\.toarray\(\).*centre=None"
        ):
            use(sp.csr_array(make_rows(3)))
    assert metric.transform(make_rows(3)).shape == (3, 5)


def test_cosine_of_a_sparse_matrix_with_duplicates_and_wide_indices():
    index = np.array([1, 0, 1], dtype=np.int64)
    indptr = np.array([0, 3, 3], dtype=np.int64)
    X = sp.csr_array((np.array([1.0, 4.0, 2.0]), index, indptr), shape=(2, 2))
    out = Metric(None, 2, distance="cosine").transform(X)
    assert_allclose(out.toarray(), [[0.8, 0.6], [0.0, 0.0]], rtol=1e-15)
    assert_array_equal(X.data, [1.0, 4.0, 2.0])
    assert_array_equal(X.indices, [1, 0, 1])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_of_rows_beyond_the_range_of_their_squares(kind, identity, dtype):
    large, small = (1e38, 1e-38) if dtype == np.float32 else (1e200, 1e-200)
    X = np.array([[3.0, 3.0], [3.0, 0.0], [3.0, 3.0], [0.0, 0.0]], dtype=dtype)
    X[:2] *= dtype(large)
    X[2] *= dtype(small)
    factor = None if identity else np.eye(2, dtype=dtype)
    out = Metric(factor, 2, distance="cosine").transform(kind(X))
    out = out.toarray() if sp.issparse(out) else out
    half = np.sqrt(0.5)
    assert_allclose(out, [[half, half], [1.0, 0.0], [half, half], [0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("identity", [False, True])
def test_cosine_does_not_change_rows(identity):
    for centred in (False, True):
        X = make_rows(4)
        X.flags.writeable = False
        before = X.copy()
        metric = make_cosine(centred=centred, identity=identity)
        metric.transform(X)
        metric.pairwise(X)
        assert_array_equal(X, before)
    sparse = sp.csr_array(before)
    make_cosine(centred=False, identity=identity).transform(sparse)
    assert_array_equal(sparse.toarray(), before)


def test_rows_too_large_to_centre():
    metric = Metric(None, 1, centre=[-1.5e308], distance="cosine")
    with pytest.raises(ValueError, match="too large for this metric in float64: check their unit"):
        metric.transform([[1.5e308]])


@given(arrays(np.float64, (4, 5), elements=st.floats(-1e300, 1e300)), st.booleans())
def test_cosine_of_anything_has_length_one_or_zero(X, sparse):
    out = Metric(None, 5, distance="cosine").transform(sp.csr_array(X) if sparse else X)
    lengths = np.linalg.norm(out.toarray() if sparse else out, axis=1)
    assert_allclose(lengths, X.any(axis=1), rtol=1e-12)


def test_pickle_of_the_cosine():
    metric = pickle.loads(pickle.dumps(make_cosine()))
    assert metric.kind == "cosine"
    assert_array_equal(metric.transform(make_rows(3)), make_cosine().transform(make_rows(3)))


def test_metrics_pickled_before_the_cosine():
    metric = object.__new__(Metric)
    metric.__dict__.update(factor=np.eye(2), n_features=2, feature_names=None, info={})
    assert_array_equal(metric.transform(np.eye(2)), np.eye(2))


def test_metrics_are_compared_by_identity_and_can_be_kept_in_sets():
    metric, other = make_metric(), make_metric()
    assert metric == metric
    assert metric != other
    assert len({metric, other}) == 2


def test_pickle():
    metric = pickle.loads(pickle.dumps(make_metric(names=NAMES)))
    assert_array_equal(metric.factor, make_metric().factor)
    assert (metric.feature_names, metric.info) == (NAMES, INFO)


def test_matrix_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 10_000_000)
    for metric in (Metric(np.ones((20_000, 1), dtype=np.float32), 20_000), Metric(None, 20_000)):
        size = r"1\.6 GB" if metric.factor is not None else r"3\.2 GB"
        with pytest.raises(
            ValueError, match=rf"20,000 × 20,000 matrix needs {size} .* 10\.0 MB .*factor"
        ):
            metric.matrix()
    monkeypatch.setattr(
        "dualmetric._arrays.system.available_memory", lambda: None
    )  # unknown: go ahead
    assert make_metric().matrix().shape == (5, 5)


# --- truncate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncate_is_the_best_approximation(rank, dtype):
    metric = make_metric(dtype=dtype, rank=4, d=7)
    short = metric.truncate(rank)
    U, values, _ = np.linalg.svd(metric.matrix().astype(np.float64))
    best = (U[:, :rank] * values[:rank]) @ U[:, :rank].T
    assert short.rank == rank
    assert short.factor.dtype == dtype
    assert_allclose(short.matrix(), best, atol=1e-5 if dtype == np.float32 else 1e-12)
    inner = short.factor.T @ short.factor  # orthogonal columns, the longest first
    assert_allclose(inner, np.diag(values[:rank]), atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("rank", [3, 4, 5, 100])
def test_truncate_to_no_less_than_its_rank_leaves_distances(rank):
    metric, X = make_metric(names=NAMES), make_rows(6)
    assert_array_equal(metric.truncate(rank).pairwise(X), metric.pairwise(X))


def test_truncate_of_a_deficient_factor_leaves_distances():
    factor = np.repeat(np.arange(1.0, 6.0)[:, None], 3, axis=1)
    X = make_rows(6)
    assert_allclose(Metric(factor, 5).truncate(1).pairwise(X), Metric(factor, 5).pairwise(X))


def test_truncate_keeps_names_and_info():
    short = make_metric(names=NAMES).truncate(1)
    assert (short.feature_names, short.info) == (NAMES, INFO)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("centred", [False, True])
def test_truncate_of_the_cosine(rank, dtype, centred):
    """Rows are centred, cut to the leading directions of L, and only then scaled."""
    metric, X = make_cosine(dtype, centred, rank=4, d=7), make_rows(6, d=7, dtype=dtype)
    short = metric.truncate(rank)
    assert (short.kind, short.rank, short.factor.dtype) == ("cosine", rank, dtype)
    _, _, Vt = np.linalg.svd(metric.factor.astype(np.float64), full_matrices=False)
    rows = X @ metric.factor - (metric.centre if centred else 0.0)
    expected = 2 * cosine_distances(rows @ Vt[:rank].T)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert_allclose(short.pairwise(X) ** 2, expected, atol=tolerance)
    assert (short.centre is None) is not centred
    if centred:
        assert short.centre.dtype == dtype
        assert short.centre.shape == (rank,)


def test_truncate_of_the_cosine_to_no_less_than_its_rank():
    metric = make_cosine()
    assert metric.truncate(3) is metric
    plain = make_cosine(identity=True)
    assert plain.truncate(5) is plain
    with pytest.raises(ValueError, match="no leading ones to keep"):
        plain.truncate(4)


def test_truncate_of_the_identity():
    metric = Metric(None, 5)
    assert metric.truncate(5) is metric
    with pytest.raises(ValueError, match=r"Euclidean metric .* no leading ones to keep: .* PCA"):
        metric.truncate(4)


def test_truncate_to_nothing():
    for metric in (make_metric(), Metric(None, 5)):
        with pytest.raises(ValueError, match="rank must be a whole number of at least 1; got 0"):
            metric.truncate(0)


# --- tf-idf -----------------------------------------------------------------------------------


make_counts = partial(make_rows, counts=True)


IDF = np.array([1.0, 1.5, 2.0, 1.25, 3.0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [make_metric, make_cosine])
def test_tfidf_comes_before_the_metric(kind, dtype, make):
    plain = make(dtype=dtype)
    metric = plain.with_idf(IDF)
    A, B = make_counts(6, dtype=dtype), make_counts(6, dtype=dtype, seed=2)
    a, b = as_kind(A, kind), as_kind(B, kind)
    weighted_a, weighted_b = tfidf(A, IDF), tfidf(B, IDF)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12}
    assert_allclose(metric.transform(a), plain.transform(weighted_a), **tolerance)
    assert_allclose(metric.distance(a, b), plain.distance(weighted_a, weighted_b), **tolerance)
    assert_allclose(metric.pairwise(a, b), plain.pairwise(weighted_a, weighted_b), **tolerance)
    if kind is not list:
        assert metric.transform(a).dtype == dtype
    found = metric.explain(A[0], B[0])
    expected = plain.explain(*(tfidf(x[:1].astype(float), IDF)[0] for x in (A, B)))
    assert found == expected
    assert_allclose(found.distance, metric.distance(A[:1], B[:1])[0], rtol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_tfidf_alone(kind, distance):
    metric = Metric(None, 5, distance=distance, idf=IDF)
    X = kind(make_counts(4))
    out = metric.transform(X)
    assert sp.issparse(out) == sp.issparse(X)
    expected = tfidf(X, IDF)
    assert_allclose(abs(out - expected).max(), 0.0, atol=1e-15)
    apart = metric.distance(X[:1], X[1:2])[0]
    assert metric.explain(X[:1], X[1:2]).distance == pytest.approx(apart)


def test_tfidf_with_a_centre_and_no_factor():
    metric = Metric(None, 5, centre=np.full(5, 0.25), distance="cosine", idf=IDF)
    X = make_counts(4)
    rows = tfidf(X, IDF) - 0.25
    assert_allclose(metric.transform(X), rows / np.linalg.norm(rows, axis=1, keepdims=True))
    with pytest.raises(ValueError, match="would make a sparse X dense"):
        metric.transform(sp.csr_array(X))
    large = Metric(None, 1, centre=[-1.5e308], distance="cosine", idf=[1.0])
    assert large.transform([[1.0]]) == 1.0


def test_tfidf_of_a_memory_map(tmp_path, monkeypatch):
    X = make_counts(50, dtype=np.int32)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("dualmetric._rows.stored._BLOCK_BYTES", 160)
    metric = make_cosine().with_idf(IDF)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_allclose(metric.transform(mapped), metric.transform(X), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("identity", [False, True])
def test_tfidf_of_a_row_of_zeros(kind, identity):
    metric = Metric(None if identity else np.eye(5), 5, idf=IDF, distance="cosine")
    out = metric.transform(kind(np.zeros((2, 5))))
    assert abs(out).sum() == 0.0
    assert metric.explain(np.zeros(5), np.eye(5)[0]).distance == pytest.approx(1.0)


def test_tfidf_does_not_change_rows():
    for kind in (np.asarray, sp.csr_array):
        X = kind(make_counts(4))
        before = X.copy()
        for metric in (make_metric(), make_cosine(), Metric(None, 5, distance="cosine")):
            metric.with_idf(IDF).transform(X)
            assert abs(X - before).max() == 0


def test_what_is_no_count_is_refused():
    metric = make_metric().with_idf(IDF)
    for use in (metric.transform, metric.pairwise, lambda X: metric.explain(X[0], X[1])):
        with pytest.raises(ValueError, match="tf-idf is for counts, but the rows hold negative"):
            use(make_rows(3) - 1)


@pytest.mark.parametrize(
    ("idf", "message"),
    [
        (np.ones(4), r"idf of a metric over 5 features must have shape \(5,\); got \(4,\)"),
        (np.ones((5, 1)), r"got \(5, 1\)"),
        (np.full(5, np.nan), "the idf of a metric contains NaN or infinity"),
        (np.ones(5, dtype=int), "the idf of a metric must be float32 or float64; got int64"),
    ],
)
def test_bad_idf(idf, message):
    with pytest.raises(ValueError, match=message):
        Metric(None, 5, idf=idf)
    with pytest.raises(ValueError, match=message):
        make_metric().with_idf(idf)


def test_idf_is_given_once():
    with pytest.raises(ValueError, match="already weights counts by tf-idf"):
        make_metric().with_idf(IDF).with_idf(IDF)


@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
@pytest.mark.parametrize("rank", [3, None])
def test_scale(kind, rank):
    """Distances of rows in their own units are those of scaled rows."""
    metric, X = make_metric(kind, rank=rank), make_rows(6)
    scale = np.array([0.5, 1.0, 20.0, 1e-3, 3.0])
    scaled = metric.with_scale(scale)
    assert_allclose(scaled.transform(X / scale), metric.transform(X), rtol=1e-12, atol=1e-12)
    rows = sp.csr_matrix(X / scale)
    assert_allclose(scaled.pairwise(rows), metric.pairwise(X), rtol=1e-6, atol=1e-6)
    assert sp.issparse(scaled.transform(rows)) == (rank is None)


@pytest.mark.parametrize(
    ("metric", "scale", "message"),
    [
        (
            make_metric(),
            np.ones(4),
            r"the scale of a metric over 5 features must have shape \(5,\)",
        ),
        (make_metric(), [1.0, 1.0, 0.0, 1.0, 1.0], "scale must be above 0; got 0 for feature 2"),
        (make_metric(), [1.0, np.nan, 1.0, 1.0, 1.0], "NaN or infinity"),
        (Metric(None, 5, idf=IDF), np.ones(5), "already weights features"),
        (Metric(None, 5).with_scale(np.ones(5)), np.ones(5), "already weights features"),
    ],
)
def test_bad_scale(metric, scale, message):
    with pytest.raises(ValueError, match=message):
        metric.with_scale(scale)


def test_changed_copies_keep_the_rest():
    metric = Metric(np.ones((5, 3)), 5, NAMES, INFO, np.ones(3), "cosine", IDF)
    for copy in (metric.truncate(2), metric.with_info(more=1), pickle.loads(pickle.dumps(metric))):
        assert (copy.n_features, copy.feature_names, copy.kind) == (5, NAMES, "cosine")
        assert_array_equal(copy.idf, IDF)
        assert copy.info.items() >= INFO.items()
    weighted = make_cosine().with_idf(IDF)
    assert_array_equal(weighted.factor, make_cosine().factor)
    assert_array_equal(weighted.centre, make_cosine().centre)
    assert (weighted.kind, weighted.info) == ("cosine", INFO)


def test_more_info_replaces_what_was_there():
    metric = make_metric()
    more = metric.with_info(method="LMNN", scores={"learned": {"map": 0.5}})
    assert more.info == {**INFO, "method": "LMNN", "scores": {"learned": {"map": 0.5}}}
    assert metric.info == INFO
    assert_array_equal(more.factor, metric.factor)


def test_repr_of_tfidf():
    text = "<Cosine metric of rank 3 over 5 features, weighted by tf-idf>"
    assert repr(make_cosine().with_idf(IDF)) == text


# --- data frames ------------------------------------------------------------------------------


def as_frame(library, columns):
    if library == "pyarrow":
        return pa.table({name: pa.array(column) for name, column in columns.items()})
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library](columns)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("more", [{}, {"rank": None}, {"n_landmarks": 4}], ids=str)
@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
def test_columns_of_frames_are_taken_by_name(library, more, kind):
    names = ("width", "height", "depth", "weight", "age")
    metric = make_metric(kind, names=names, **more)
    X = make_rows(6)
    columns = dict(zip(names, X.T, strict=True))
    mixed = {name: columns[name] for name in ("age", "depth", "width", "weight", "height")}
    for extra in ({}, {"label": np.arange(6)}, {"name": np.array(list("abcdef"))}):
        frame = as_frame(library, {**extra, **mixed})
        assert_array_equal(metric.transform(frame), metric.transform(X))
        assert_array_equal(metric.pairwise(frame), metric.pairwise(X))
        assert_array_equal(metric.distance(frame, X[::-1]), metric.distance(X, X[::-1]))
    del mixed["depth"]
    message = "has no column 'depth', which the metric was learned from; it has 'age', 'width'"
    for use in (metric.transform, metric.pairwise, lambda rows: metric.distance(rows, rows)):
        with pytest.raises(ValueError, match=message):
            use(as_frame(library, mixed))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_metric_without_names_takes_columns_in_order(library):
    metric, X = make_metric(), make_rows(6)
    frame = as_frame(library, {f"f{i}": column for i, column in enumerate(X.T)})
    assert_array_equal(metric.transform(frame), metric.transform(X))
    wide = as_frame(library, {f"f{i}": X[:, i % 5] for i in range(6)})
    with pytest.raises(ValueError, match="X has 6 features, but this metric is expecting 5"):
        metric.transform(wide)


# --- the plain distance outside a few directions ----------------------------------------------


def make_outside(distance="euclidean", dtype=np.float64, d=6, rank=2, outside=0.5):
    columns = np.linalg.qr(np.random.default_rng(0).standard_normal((d, rank)))[0]
    lengths = np.linspace(3.0, 0.25, rank)
    return Metric((columns * lengths).astype(dtype), distance=distance, outside=outside)


def outside_matrix(metric):
    """M = LLᵀ + ω²(I − UUᵀ), by the definition."""
    U = metric.factor / np.linalg.norm(metric.factor, axis=0)
    rest = np.eye(metric.n_features) - U @ U.T
    return metric.factor @ metric.factor.T + metric.outside**2 * rest


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_outside(distance, kind, dtype):
    metric = make_outside(distance, dtype)
    A, B = make_rows(7, 6, dtype), make_rows(7, 6, dtype, seed=2)
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    M = outside_matrix(metric).astype(np.float64)
    assert_allclose(metric.matrix(), M, atol=tolerance)
    a, b = (rows.astype(np.float64) for rows in (A, B))
    if distance == "cosine":
        a, b = (rows / np.sqrt(np.einsum("ij,jk,ik->i", rows, M, rows))[:, None] for rows in (a, b))
    apart = a[:, None] - b[None]
    expected = np.sqrt(np.einsum("ijk,kl,ijl->ij", apart, M, apart))
    found = metric.pairwise(kind(A), kind(B))
    assert found.dtype == dtype
    assert_allclose(found, expected, atol=tolerance)
    assert_allclose(metric.distance(kind(A), kind(B)), np.diag(expected), atol=tolerance)
    rows = [metric.transform(kind(part)) for part in (A, B)]
    assert rows[0].shape == (7, 6)
    between = np.linalg.norm(rows[0][:, None] - rows[1][None], axis=2)
    assert_allclose(between, expected, atol=tolerance)
    assert_allclose(np.diag(metric.pairwise(kind(A))), 0.0, atol=0.0)


def test_outside_in_words():
    metric = make_outside()
    assert metric.rank == 6
    assert repr(metric) == "<Metric of rank 6 over 6 features, corrected in 2 directions>"
    with pytest.raises(ValueError, match="A has 3 rows and B has 2"):
        metric.distance(make_rows(3, 6), make_rows(2, 6))


def test_outside_of_columns_as_long_is_the_plain_distance():
    columns = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0]
    metric, X = Metric(columns, outside=1.0), make_rows(7, 6)
    assert_allclose(metric.pairwise(X), Metric(None, 6).pairwise(X), atol=1e-12)
    assert_allclose(metric.transform(X), X, atol=1e-12)


@pytest.mark.parametrize(
    ("factor", "outside", "message"),
    [
        (np.eye(6, 2), -1.0, "outside must be a finite number of at least 0; got -1.0"),
        (np.eye(6, 2), np.nan, "outside must be a finite number"),
        (np.eye(6, 2), np.inf, "outside must be a finite number"),
        (np.eye(6, 2), True, "outside must be a finite number"),
        (np.eye(6, 2), "1", "outside must be a finite number"),
        (np.eye(6, 2), None, "outside must be a finite number"),
        (None, 1.0, "outside > 0 needs a factor"),
        (np.ones((6, 2)), 1.0, "outside needs a factor whose columns are orthogonal"),
        (np.zeros((6, 2)), 1.0, "outside needs a factor whose columns .* none of them zero"),
    ],
)
def test_bad_outside(factor, outside, message):
    with pytest.raises(ValueError, match=message):
        Metric(factor, 6, outside=outside)


def test_outside_of_a_lift_is_refused():
    lifted = make_metric(n_landmarks=4)
    with pytest.raises(ValueError, match="outside > 0 needs a factor and no lift"):
        Metric(lifted.factor, 5, lift=lifted.lift, outside=1.0)


def test_rows_too_wide_to_transform_still_have_distances(monkeypatch):
    metric = make_outside(d=400, rank=2)
    X = sp.random(300, 400, density=0.01, format="csr", random_state=0)
    expected = metric.distance(X[:2], X[2:4])
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 1_000_000)
    with pytest.raises(ValueError, match=r"300 transformed rows of 400 numbers needs .* Transform"):
        metric.transform(X)
    assert_allclose(metric.distance(X[:2], X[2:4]), expected)


# --- one metric after another -----------------------------------------------------------------


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("outside", [0.0, 0.5])
@pytest.mark.parametrize("first", ["euclidean", "cosine, centred", "lift", "outside"])
def test_a_metric_after_another(first, outside, distance):
    if first == "lift":
        before = make_metric("cosine", n_landmarks=4)
    elif first == "outside":
        before = make_outside("cosine", d=5)
    else:
        before = make_metric(first)
    columns = np.linalg.qr(np.random.default_rng(3).standard_normal((before.rank, 2)))[0]
    metric = Metric(columns * [2.0, 0.5], distance=distance, outside=outside, before=before)
    alone = Metric(columns * [2.0, 0.5], distance=distance, outside=outside)
    assert metric.n_features == 5
    assert metric.rank == alone.rank
    A, B = make_rows(7), make_rows(7, seed=2)
    rows = [before.transform(part) for part in (A, B)]
    assert_allclose(metric.transform(A), alone.transform(rows[0]), atol=1e-12)
    assert_allclose(metric.distance(A, B), alone.distance(*rows), atol=1e-9)
    assert_allclose(metric.pairwise(A, B), alone.pairwise(*rows), atol=1e-9)
    assert_allclose(metric.pairwise(A), alone.pairwise(rows[0]), atol=1e-7)


def test_steps_that_do_not_go_after_another_metric():
    before = make_metric(rank=3)
    second = Metric(np.eye(3), before=before)
    with pytest.raises(ValueError, match=r"after one of rank 3 must have shape \(3, rank\)"):
        Metric(np.eye(5), before=before)
    with pytest.raises(
        ValueError, match="n_features is 3, but the metric passed as before takes 5 features"
    ):
        Metric(np.eye(3), 3, before=before)
    for more in (
        {"idf": np.ones(3)},
        {"lift": make_metric(n_landmarks=3).lift},
        {"before": second},
    ):
        with pytest.raises(ValueError, match="idf, lift and blocks cannot be combined with before"):
            Metric(np.eye(3), **{"before": before, **more})
