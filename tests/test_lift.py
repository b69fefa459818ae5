"""The kernel lift: values against their definition, and metrics that have one."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_approximation import Nystroem

from dualmetric import Metric
from dualmetric._arrays import namespace
from dualmetric._rows import stored
from dualmetric.lift import Lift, rbf_lift
from dualmetric.tfidf import fit_idf, tfidf
from makers import make_rows

D, Q, RANK = 5, 9, 3


def make_lift(dtype=np.float64, gamma=0.2):
    return Lift(make_rows(Q, dtype=dtype, seed=2), gamma)


def make_factor(dtype=np.float64):
    return make_rows(Q, RANK, dtype, seed=3)


def make_metric(kind="euclidean", dtype=np.float64):
    centre = make_rows(1, RANK, dtype, seed=4)[0] if kind == "cosine" else None
    return Metric(make_factor(dtype), centre=centre, distance=kind, lift=make_lift(dtype))


def kernel_values(rows, landmarks, gamma):
    """k(x) as it is defined, one number at a time."""
    return np.array(
        [[np.exp(-gamma * sum((x - z) ** 2)) for z in landmarks.tolist()] for x in np.array(rows)]
    )


def unit_length(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# --- kernel values ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("held", [np.float32, np.float64])
def test_kernel_values_by_their_definition(dtype, held):
    lift, factor, rows = make_lift(held), make_factor(held), make_rows(6, dtype=dtype)
    found = lift.apply(rows, factor)
    assert found.dtype == dtype
    expected = kernel_values(rows, lift.landmarks, 0.2) @ factor
    single = np.float32 in (dtype, held)
    assert_allclose(found, expected, rtol=1e-12, atol=1e-5 if single else 1e-13)


def test_a_landmark_is_at_no_distance_from_itself():
    lift = make_lift()
    values = lift.apply(lift.landmarks, np.eye(Q))
    assert_allclose(np.diagonal(values), 1.0, rtol=1e-14)
    assert (values <= 1.0).all()
    assert_allclose(values, values.T, rtol=1e-13)


@pytest.mark.parametrize("block_bytes", [1, 8 * Q, 100 * Q])
def test_blocks_give_what_one_block_gives(block_bytes, monkeypatch):
    lift, factor, rows = make_lift(), make_factor(), make_rows(50)
    whole = lift.apply(rows, factor)
    monkeypatch.setattr(namespace, "_HOST_BLOCK", block_bytes)
    assert_allclose(lift.apply(rows, factor), whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-11)])
def test_rows_far_from_zero_keep_their_digits(dtype, tolerance):
    """Without an origin amid the landmarks, float32 would have none left at 10,000."""
    rows, lift = make_rows(6, dtype=dtype) + dtype(1e4), make_lift(dtype)
    lift = Lift(lift.landmarks + dtype(1e4), 0.2)
    expected = kernel_values(rows.astype(float), lift.landmarks.astype(float), 0.2)
    assert expected.max() > 0.1
    assert_allclose(lift.apply(rows, np.eye(Q, dtype=dtype)), expected, atol=tolerance)


def test_neither_rows_nor_the_lift_are_changed():
    lift, factor, rows = make_lift(), make_factor(), make_rows(4)
    for array in (lift.landmarks, factor, rows):
        array.flags.writeable = False
    lift.apply(rows, factor)


# --- Nyström's features -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_agree_with_scikit_learn(dtype):
    X = make_rows(120, dtype=dtype)
    lift, N = rbf_lift(X, np.random.default_rng(0), 40)
    assert lift.landmarks.dtype == N.dtype == dtype
    phi = lift.apply(X, N)
    # all of the landmarks, in whatever order it draws them
    peer = Nystroem(kernel="rbf", gamma=lift.gamma, n_components=40, random_state=0)
    expected = peer.fit(lift.landmarks.astype(float)).transform(X.astype(float))
    assert_allclose(phi @ phi.T, expected @ expected.T, atol=1e-3)


def test_features_give_the_kernel_of_the_landmarks():
    """Only directions whose eigenvalues are below 1e-5 of the largest are left out."""
    lift, N = rbf_lift(make_rows(120), np.random.default_rng(0), 40)
    K = kernel_values(lift.landmarks, lift.landmarks, lift.gamma)
    phi = lift.apply(lift.landmarks, N)
    assert np.linalg.norm(phi @ phi.T - K, 2) <= 1.01e-5 * np.linalg.norm(K, 2)
    assert_allclose(N.T @ K @ N, np.eye(N.shape[1]), atol=1e-9)


def test_directions_that_landmarks_do_not_span_are_left_out():
    X = np.repeat(make_rows(10), 3, axis=0)
    lift, N = rbf_lift(X, np.random.default_rng(0))
    assert lift.landmarks.shape == (30, D)
    assert N.shape == (30, 10)
    phi = lift.apply(X, N)
    assert_allclose(phi @ phi.T, kernel_values(X, X, lift.gamma), atol=1e-4)


def test_width_is_the_median_distance():
    X = make_rows(300)
    lift, _ = rbf_lift(X, np.random.default_rng(0), 20)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)[np.triu_indices(300, 1)]
    assert 1 / lift.gamma == pytest.approx(np.median(squares), rel=0.05)


def test_landmarks_are_different_rows():
    X = make_rows(50)
    lift, N = rbf_lift(X, np.random.default_rng(0), 20)
    assert lift.landmarks.shape == (20, D)
    assert len(N) == 20
    places = [np.flatnonzero((z == X).all(axis=1)).item() for z in lift.landmarks]
    assert len(set(places)) == 20
    again, _ = rbf_lift(X, np.random.default_rng(0), 20)
    assert_array_equal(again.landmarks, lift.landmarks)


def test_fewer_rows_than_landmarks():
    X = make_rows(7)
    lift, N = rbf_lift(X, np.random.default_rng(0))
    assert_array_equal(lift.landmarks, X)
    phi = lift.apply(X, N)
    assert_allclose(phi @ phi.T, kernel_values(X, X, lift.gamma), atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            np.ones((20, D)),
            r"at least half of all pairs of rows are duplicates.*: remove duplicates",
        ),
        (make_rows(20, dtype=np.float32) * np.float32(1e25), "too large or too small .*float64"),
        (make_rows(20) * 1e-140, "too large or too small .*StandardScaler"),
        (sp.eye_array(4001, format="csr"), "sparse rows may have 4,000 at most, .* use lift=None"),
    ],
)
def test_rows_that_cannot_be_lifted(rows, message):
    with pytest.raises(ValueError, match=message):
        rbf_lift(rows, np.random.default_rng(0))


# --- metrics with a lift ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
def test_everything_agrees_with_the_formula(kind, dtype):
    metric = make_metric(kind, dtype)
    A, B = make_rows(6, dtype=dtype), make_rows(6, dtype=dtype, seed=7)
    a, b = (kernel_values(X, metric.lift.landmarks, 0.2) @ metric.factor for X in (A, B))
    if kind == "cosine":
        a, b = unit_length(a - metric.centre), unit_length(b - metric.centre)
    apart = np.linalg.norm(a[:, None] - b, axis=2)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert metric.transform(A).dtype == dtype
    assert_allclose(metric.transform(A), a, atol=tolerance)
    assert_allclose(metric.transform(A.tolist()), a, atol=tolerance)
    assert_allclose(metric.distance(A, B), np.diagonal(apart), atol=tolerance)
    assert_allclose(metric.pairwise(A, B), apart, atol=tolerance)
    assert_array_equal(np.diagonal(metric.pairwise(A)), 0.0)


def test_width_and_rank_follow_from_the_arrays():
    metric = make_metric()
    assert (metric.n_features, metric.rank) == (D, RANK)
    assert repr(metric) == "<Metric of rank 3 over 5 features, lifted by 9 landmarks>"
    assert repr(make_metric("cosine")).startswith("<Cosine metric of rank 3")
    whole = Metric([[1], [2]], lift=Lift([[1, 2, 3], [4, 5, 6]], 1))
    assert whole.lift.landmarks.dtype == np.float64
    assert whole.transform([[1, 2, 3]])[0, 0] == pytest.approx(1 + 2 * np.exp(-27))


@pytest.mark.parametrize("height", [1, 4, 100])
def test_a_source_of_rows(height, tmp_path, monkeypatch):
    rows = make_rows(11)
    np.save(tmp_path / "X.npy", rows)
    monkeypatch.setattr(stored, "_BLOCK_BYTES", height * 8 * D)
    found = make_metric("cosine").transform(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert_allclose(found, make_metric("cosine").transform(rows), rtol=1e-12)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
def test_sparse_rows_are_lifted_like_dense_ones(kind):
    metric, X = make_metric(), make_rows(30)
    X[np.abs(X) < 0.5] = 0.0
    for use in (metric.transform, metric.pairwise, lambda X: metric.distance(X, X)):
        assert_allclose(use(kind(X)), use(X), rtol=1e-12)
    lifts = [rbf_lift(rows, np.random.default_rng(0)) for rows in (X, sp.csr_array(X))]
    assert_allclose(lifts[1][0].landmarks, lifts[0][0].landmarks)
    assert lifts[1][0].gamma == lifts[0][0].gamma
    kernels = [lift.apply(X, factor) @ lift.apply(X, factor).T for lift, factor in lifts]
    assert_allclose(kernels[1], kernels[0], atol=1e-8)


def test_rows_of_another_width():
    with pytest.raises(
        ValueError, match="X has 9 features, but this metric is expecting 5 features"
    ):
        make_metric().transform(np.ones((2, Q)))


def test_rows_too_large_for_their_squares():
    metric, rows = make_metric(), np.full((1, D), 3e38)
    with pytest.raises(ValueError, match=r"too large for this metric in float32: .*pass float64"):
        metric.transform(rows.astype(np.float32))
    assert_array_equal(metric.transform(rows.astype(np.float64)), 0.0)  # far from every landmark
    assert_array_equal(metric.transform(np.full((1, D), 1e30, dtype=np.float32)), 0.0)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda metric: metric.matrix(), "no matrix over the features: use transform or pairwise"),
        (
            lambda metric: metric.explain([1] * D, [0] * D),
            "distances cannot be split by feature: use a metric without a lift",
        ),
        (
            lambda metric: metric.top_features(0),
            "no weights of features: use a metric without a lift",
        ),
    ],
)
def test_what_is_not_linear_in_the_features(use, message):
    with pytest.raises(ValueError, match=f"this metric uses a kernel lift, so .*{message}"):
        use(make_metric())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
def test_truncate_is_nearest_in_the_space_of_the_kernel(kind, dtype):
    """Features φ = k(x)N are orthonormal there: to cut NL is to cut L."""
    X = make_rows(60)
    lift, N = rbf_lift(X, np.random.default_rng(0), 15)
    L = make_rows(N.shape[1], 6, seed=8) * 2.0 ** np.arange(6)
    centre = np.arange(6.0) if kind == "cosine" else None
    lift = Lift(lift.landmarks.astype(dtype), lift.gamma)
    factor = (N @ L).astype(dtype)
    cut = Metric(factor, None, tuple("abcde"), {"a": 1}, centre, kind, lift=lift).truncate(2)
    expected = Metric(L, centre=centre, distance=kind).truncate(2)
    assert (cut.rank, cut.factor.dtype, cut.feature_names) == (2, dtype, tuple("abcde"))
    assert (cut.info, cut.lift.gamma) == ({"a": 1}, lift.gamma)
    tolerance = 1e-3 if dtype == np.float32 else 1e-7
    assert_allclose(cut.pairwise(X), expected.pairwise(lift.apply(X, N)), atol=tolerance)


def test_changed_copies_keep_the_lift():
    metric = make_metric("cosine").with_info(scores={"learned": {"map": 0.5}})
    assert metric.info == {"scores": {"learned": {"map": 0.5}}}
    assert metric.lift.gamma == 0.2
    assert_array_equal(
        metric.transform(make_rows(3)), make_metric("cosine").transform(make_rows(3))
    )


def test_pickle():
    metric = pickle.loads(pickle.dumps(make_metric("cosine")))
    assert_array_equal(metric.lift.landmarks, make_lift().landmarks)
    assert_array_equal(
        metric.transform(make_rows(3)), make_metric("cosine").transform(make_rows(3))
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lift": "rbf"}, r"must be a dualmetric\.lift\.Lift or None; got 'rbf'"),
        ({"factor": None}, "a lift needs a factor: pass the factor that rbf_lift returns"),
        ({"factor": np.ones((D, 2))}, r"by 9 landmarks must have shape \(9, rank\).* got \(5, 2\)"),
        ({"factor": np.ones((Q, 0))}, "rank at least 1"),
        ({"n_features": Q}, r"landmarks of a metric over 9 features .* got \(9, 5\)"),
        ({"feature_names": ["a"] * Q}, "feature_names has 9 names for 5 features"),
        ({"lift": Lift(np.ones(D), 1.0)}, r"\(number of landmarks, n_features\).* got \(5,\)"),
        ({"lift": Lift(np.ones((Q, 0)), 1.0)}, r"each at least 1; got \(9, 0\)"),
        ({"lift": Lift(np.ones((Q, D), dtype=int), 1.0)}, "landmarks .* float64; got int64"),
        ({"lift": Lift(np.full((Q, D), np.nan), 1.0)}, "landmarks of a metric contains NaN"),
        *(
            ({"lift": Lift(np.ones((Q, D)), gamma)}, "gamma of a lift must be a finite number")
            for gamma in (0, -1.0, np.nan, np.inf, 10**400, True, None, "1", 1j)
        ),
    ],
)
def test_bad_lifts(changes, message):
    with pytest.raises(ValueError, match=message):
        Metric(**{"factor": make_factor(), "lift": make_lift(), **changes})


def test_tfidf_in_front_of_a_lift(tmp_path):
    metric = make_metric()
    counts = sp.csr_array(np.random.default_rng(0).poisson(1.0, (8, D)).astype(np.float64))
    idf = fit_idf(counts)
    weighted = metric.with_idf(idf)
    expected = metric.transform(tfidf(counts, idf))
    assert_allclose(weighted.transform(counts), expected, rtol=1e-12)
    weighted.save(tmp_path / "m.safetensors")
    again = Metric.load(tmp_path / "m.safetensors")
    assert_allclose(again.transform(counts.toarray()), expected, rtol=1e-12)


def test_metrics_pickled_before_the_lift():
    metric = object.__new__(Metric)
    metric.__dict__.update(factor=np.eye(2), n_features=2, feature_names=None, info={})
    assert metric.lift is None
