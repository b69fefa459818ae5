"""RidgeMetric against scikit-learn's ridge regression."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeClassifierCV

from dualmetric import (
    Comparisons,
    Euclidean,
    Labels,
    Metric,
    Pairs,
    RidgeMetric,
    Triplets,
    mean_average_precision,
    ridge,
)
from dualmetric.estimators.base import generator
from dualmetric.lift import rbf_lift
from makers import as_kind, make_classes, make_clusters, make_sparse, make_wide

SHAPES = [(60, 12), (40, 40), (20, 50)]  # more rows than features, as many, and fewer


def make_data(n=60, d=12, dtype=np.float64):
    X, y = make_clusters(n, d, n_classes=4)
    return (X + 5.0).astype(dtype), y


def indicators(y):
    return np.eye(y.max() + 1)[y]


def slow_coefficients(X, y, alpha):
    """(XᵀX + αI)⁻¹XᵀY of centred rows and centred indicators."""
    X, Y = X - X.mean(axis=0), indicators(y) - indicators(y).mean(axis=0)
    return np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ Y)


def slow_loo(X, y, alpha):
    """Prediction for each row of a regression that has not seen it."""
    predicted = []
    for row in range(len(X)):
        others = np.arange(len(X)) != row
        model = Ridge(alpha).fit(X[others], indicators(y)[others])
        predicted.append(model.predict(X[row : row + 1])[0])
    return np.array(predicted)


def decomposed(X, y):
    found = ridge.decompose(X)
    return found, ridge.targets(found, y)


# --- the functions --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_coefficients_are_those_of_scikit_learn(shape, kind, alpha):
    X, y = make_data(*shape)
    found, aims = decomposed(as_kind(X, kind), y)
    expected = Ridge(alpha).fit(X, indicators(y)).coef_.T
    for B in (
        ridge.coefficients(found, aims, alpha),
        ridge.coefficients_for_one(as_kind(X, kind), y, alpha),
    ):
        assert_allclose(B, expected, rtol=0, atol=1e-10 * abs(expected).max())


@pytest.mark.parametrize("shape", [(60, 12), (20, 50)])
@pytest.mark.parametrize("alpha", [1e-30, 1e-14, 1e-9, 1.0])
def test_a_given_penalty_is_solved_for_as_well_as_by_the_decomposition(shape, alpha):
    X, y = make_data(*shape)
    given = RidgeMetric(alpha=alpha).fit(X, y)
    found, aims = decomposed(X, y)
    unit = ridge.mean_eigenvalue(X)
    assert ridge.is_clear(alpha * unit, X.shape, unit) == (alpha > 1e-10)
    B = ridge.coefficients(found, aims, unit * alpha)
    assert_allclose(given.metric_.matrix(), B @ B.T, atol=1e-9 * abs(B @ B.T).max())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("alpha", [1e-4, 1.0, 1e3])
def test_leave_one_out_is_that_of_a_fit_without_the_row(shape, kind, alpha):
    X, y = make_data(*shape)
    found, aims = decomposed(as_kind(X, kind), y)
    expected = slow_loo(X, y, alpha)
    errors = ridge.loo_errors(found, aims, np.array([alpha, 2.0 * alpha]))
    assert errors.shape == (2, len(X))
    assert_allclose(errors[0], ((expected - indicators(y)) ** 2).sum(axis=1), rtol=1e-7)


def test_a_given_penalty_of_sparse_rows_far_from_zero(rng):
    X = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 200)) + 1e3
    y = np.arange(60) % 3
    assert np.isfinite(RidgeMetric(alpha=3e-10).fit(sp.csr_matrix(X), y).metric_.matrix()).all()
    metrics = [RidgeMetric(alpha=1e-5).fit(rows, y).metric_ for rows in (X, sp.csr_matrix(X))]
    dense, sparse = (metric.matrix() @ (X - X.mean(axis=0)).T for metric in metrics)
    assert_allclose(sparse, dense, atol=1e-3 * abs(dense).max())


@given(st.integers(2, 25), st.integers(1, 25), st.integers(2, 5), st.integers(0, 2**16))
def test_few_rows_or_few_features(n, d, k, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, (n, d)).astype(float), rng.permutation(np.arange(n) % k)
    alpha = 10.0 ** rng.uniform(-2, 2)
    found, aims = decomposed(X, y)
    expected = slow_coefficients(X, y, alpha)
    assert_allclose(ridge.coefficients(found, aims, alpha), expected, atol=1e-11)


def test_leave_one_out_in_small_blocks(monkeypatch):
    X, y = make_data()
    found, aims = decomposed(X, y)
    expected = ridge.loo_errors(found, aims, np.array([0.1, 1.0]))
    monkeypatch.setattr("dualmetric._arrays.namespace._HOST_BLOCK", 1000)
    found, aims = decomposed(X, y)
    assert_allclose(ridge.loo_errors(found, aims, np.array([0.1, 1.0])), expected, rtol=1e-10)
    expected = slow_coefficients(X, y, 0.1)
    assert_allclose(ridge.coefficients(found, aims, 0.1), expected, atol=1e-12)


def test_float32_rows_far_from_zero_and_ill_conditioned(rng):
    d = 30
    X = rng.standard_normal((200, d)) @ (np.geomspace(1, 1e-3, d)[:, None] * np.eye(d))
    y = (X[:, -1] * 1e3 > 0).astype(int) + 2 * (X[:, 0] > 0)
    X32 = (X + 10.0).astype(np.float32)
    alpha = 1e-5
    expected = slow_coefficients(X32.astype(np.float64), y, alpha)
    found, aims = decomposed(X32, y)
    assert found.left.dtype == np.float32
    B = ridge.coefficients(found, aims, alpha)
    assert_allclose(B, expected, rtol=0, atol=1e-8 * abs(expected).max())
    found64, aims64 = decomposed(X32.astype(np.float64), y)
    assert_allclose(
        ridge.loo_errors(found, aims, [alpha]),
        ridge.loo_errors(found64, aims64, [alpha]),
        rtol=0.01,
    )


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_alone_give_the_same(kind, shape):
    X, y = make_data(*shape)
    problem = ridge.Products(as_kind(X, kind), y, 4)
    B, residual = problem.solve(0.5, 1e-10)
    assert residual <= 1e-10
    assert_allclose(B, slow_coefficients(X, y, 0.5), atol=1e-8)
    nearby, residual = problem.solve(0.4, 1e-10, start=B)
    assert residual <= 1e-10
    assert_allclose(nearby, slow_coefficients(X, y, 0.4), atol=1e-8)
    new = X[:9] + 0.1
    expected = Ridge(0.5).fit(X, indicators(y)).predict(new) - indicators(y)[:9]
    found = problem.errors(B, as_kind(new, kind), y[:9])
    assert_allclose(found, (expected**2).sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_factor_of_coefficients(shape, rng):
    B = rng.standard_normal(shape)
    L = ridge.as_factor(B, None)
    assert L.shape == (shape[0], 3)
    assert_allclose(L @ L.T, B @ B.T, atol=1e-12)
    lengths = np.linalg.norm(L, axis=0)
    assert (np.diff(lengths) < 0).all()
    assert_allclose(L.T @ L, np.diag(lengths**2), atol=1e-12)
    assert_allclose(ridge.as_factor(B, 2), L[:, :2], atol=1e-12)


# --- the estimator --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_is_the_distance_of_ridge_outputs(shape, n_classes):
    X, y = make_clusters(*shape, n_classes=n_classes)
    model = RidgeMetric(2.0, scale=False, distance="euclidean").fit(X, y)
    B = slow_coefficients(X, y, 2.0)
    assert_allclose(model.metric_.matrix(), B @ B.T, atol=1e-12)
    assert model.metric_.rank == n_classes - 1
    assert model.alpha_ == 2.0
    assert not hasattr(model, "errors_")
    outputs = RidgeClassifier(2.0).fit(X, y).decision_function(X)
    # of two classes, scikit-learn has one output where there are two opposite indicators here
    outputs = outputs.reshape(len(X), -1) / (2.0 if n_classes > 2 else np.sqrt(2.0))
    expected = np.linalg.norm(outputs - outputs[::-1], axis=1)
    assert_allclose(model.pair_distance(X, X[::-1]), expected, atol=1e-11)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_cosine_is_that_of_ridge_outputs(kind):
    X, y = make_data()
    model = RidgeMetric(2.0, scale=False).fit(as_kind(X, kind), y)
    outputs = Ridge(2.0).fit(X, indicators(y)).predict(X) - indicators(y).mean(axis=0)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    assert_allclose(
        model.pair_distance(as_kind(X, kind), as_kind(X[::-1].copy(), kind)),
        np.linalg.norm(outputs - outputs[::-1], axis=1),
        atol=1e-11,
    )
    assert model.score(X, y) == pytest.approx(mean_average_precision(outputs, y))


def test_two_classes_are_ranked_along_one_direction(rng):
    """The cosine would only be a sign: all rows of one side at distance zero."""
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 5))
    X[:, 0] += y
    model = RidgeMetric().fit(X, y)
    assert model.metric_.rank == 1
    outputs = RidgeClassifier(model.alpha_ * ridge.mean_eigenvalue(X)).fit(X, y)
    values = outputs.decision_function(X)[:, None]
    expected = mean_average_precision(values, y)
    assert model.score(X, y) == pytest.approx(expected, abs=1e-9)
    assert model.score(X, y) > mean_average_precision(np.sign(values - values.mean()), y)


@pytest.mark.parametrize("shape", SHAPES)
def test_penalty_is_the_choice_of_scikit_learn(shape):
    X, y = make_data(*shape)
    alphas = np.geomspace(1e-2, 1e3, 11)
    oracle = RidgeClassifierCV(alphas, store_cv_results=True).fit(X, y)
    model = RidgeMetric(alphas=alphas, scale=False).fit(X, y)
    assert model.alpha_ == oracle.alpha_
    assert 0 < np.argmin(model.errors_) < 10
    assert_array_equal(model.alphas_, alphas)
    # its indicators are −1 and 1
    expected = oracle.cv_results_.mean(axis=0).sum(axis=0) / 4.0
    assert_allclose(model.errors_, expected, rtol=1e-8)
    assert model.metric_.info["parameters"]["alpha"] == oracle.alpha_


@pytest.mark.parametrize("shape", [(60, 12), (20, 50)])
def test_choice_does_not_depend_on_the_unit(shape):
    X, y = make_data(*shape)
    plain, scaled = RidgeMetric().fit(X, y), RidgeMetric().fit(1e3 * X, y)
    eigenvalues = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    eigenvalues = eigenvalues[eigenvalues > 1e-9]
    absolute = RidgeMetric(scale=False).fit(X, y)
    expected = np.geomspace(1e-7, 1e2, 19)
    assert_allclose(absolute.alphas_, expected * eigenvalues.mean(), rtol=1e-9)
    assert_allclose(plain.alphas_, expected)
    assert_array_equal(scaled.alphas_, plain.alphas_)
    assert scaled.alpha_ == plain.alpha_
    assert absolute.alpha_ == pytest.approx(plain.alpha_ * eigenvalues.mean())
    assert_allclose(absolute.metric_.matrix(), plain.metric_.matrix(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("thin", [0.0, 1.0])
def test_sparse_rows_are_dense_rows(shape, thin, monkeypatch):
    monkeypatch.setattr(ridge, "_THIN", thin)  # the dense and the sparse product
    X, y = make_sparse(*shape)
    sparse, dense = RidgeMetric().fit(X, y), RidgeMetric().fit(X.toarray(), y)
    assert sparse.alpha_ == pytest.approx(dense.alpha_)
    assert_allclose(sparse.transform(X), dense.transform(X.toarray()), atol=1e-9)


def test_many_sparse_rows_by_products(monkeypatch):
    X, y = make_wide(n=400, d=600)
    model = RidgeMetric(0.3, scale=False, distance="euclidean", tol=1e-9)
    exact = model.fit(X, y).metric_.matrix()
    oracle = Ridge(0.3).fit(X.toarray(), indicators(y)).coef_.T
    assert_allclose(exact, oracle @ oracle.T, atol=1e-9)
    monkeypatch.setattr(ridge, "DENSE_LIMIT", 100)
    monkeypatch.setattr(ridge, "decompose", None)
    assert_allclose(model.fit(X, y).metric_.matrix(), exact, atol=1e-6 * abs(exact).max())
    single = (
        RidgeMetric(0.3, scale=False, distance="euclidean", tol=1e-5)
        .fit(X.astype(np.float32), y)
        .metric_
    )
    assert single.factor.dtype == np.float32
    assert_allclose(single.matrix(), exact, atol=1e-3 * abs(exact).max())


def test_penalty_of_many_rows_is_chosen_on_held_out_rows(monkeypatch):
    X, y = make_wide(n=400, d=600)
    y[5] = 3  # the only row of its class
    whole = RidgeMetric(random_state=0).fit(X, y)
    monkeypatch.setattr(ridge, "DENSE_LIMIT", 100)
    model = RidgeMetric(random_state=0).fit(X, y)
    assert_allclose(model.alphas_, whole.alphas_, rtol=1e-9)
    tried = np.isfinite(model.errors_)
    assert 3 <= np.count_nonzero(tried) < 15  # small penalties are not tried
    assert tried[np.argmax(tried) :].all()
    assert_allclose(model.errors_[tried], whole.errors_[tried], rtol=0.25)
    assert 0.2 < model.alpha_ / whole.alpha_ < 5.0
    again = RidgeMetric(random_state=0).fit(X, y)
    assert_array_equal(again.metric_.factor, model.metric_.factor)
    others = np.arange(400) != 5
    found, expected = (part.score(X[others], y[others]) for part in (model, whole))
    assert found == pytest.approx(expected, abs=0.01)


def test_held_out_errors_are_those_of_a_fit_on_the_others(monkeypatch):
    X, y = make_data(50, 12)
    monkeypatch.setattr(ridge, "ROUGH", 1e-10)
    alphas = np.array([1.0, 100.0])
    errors = ridge.held_out_errors(X, y, alphas, 1e-10, np.random.default_rng(0))
    held = np.sort(np.random.default_rng(0).choice(50, 10, replace=False))
    others = np.setdiff1d(np.arange(50), held)
    for alpha, found in zip(alphas, errors, strict=True):
        model = Ridge(alpha).fit(X[others], indicators(y)[others])
        expected = ((model.predict(X[held]) - indicators(y)[held]) ** 2).sum(axis=1)
        assert_allclose(found, expected, rtol=1e-6)


def test_too_few_steps_are_said_so(monkeypatch):
    X, y = make_wide(n=200, d=300)
    monkeypatch.setattr(ridge, "DENSE_LIMIT", 100)
    monkeypatch.setattr(ridge, "_MAX_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="above tol=0.001"):
        RidgeMetric(1e-6, scale=False).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lift_is_ridge_on_lifted_rows(dtype):
    X, y = make_data(dtype=dtype)
    X -= 5.0
    model = RidgeMetric(0.1, scale=False, lift="rbf", random_state=0).fit(X, y)
    seed = np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1))
    lift, nystroem = rbf_lift(X, seed)
    phi = lift.apply(X, nystroem).astype(np.float64)
    outputs = Ridge(0.1).fit(phi, indicators(y)).predict(phi) - indicators(y).mean(axis=0)
    outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
    found = model.transform(X)
    assert found.dtype == dtype
    assert_allclose(
        found @ found.T, outputs @ outputs.T, atol=2e-3 if dtype == np.float32 else 1e-9
    )
    assert model.metric_.lift is not None


def test_components_are_the_leading_ones():
    X, y = make_data()
    whole = RidgeMetric(1.0, scale=False, distance="euclidean").fit(X, y)
    model = RidgeMetric(1.0, scale=False, n_components=2, distance="euclidean").fit(X, y)
    assert_array_equal(model.components_, whole.components_[:2])
    more = RidgeMetric(1.0, scale=False, n_components=30, distance="euclidean").fit(X, y)
    assert_array_equal(more.components_, whole.components_)


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_stays_float32(shape):
    X, y = make_data(*shape)
    double, single = RidgeMetric().fit(X, y), RidgeMetric().fit(X.astype(np.float32), y)
    assert single.metric_.factor.dtype == np.float32
    assert single.alpha_ == pytest.approx(double.alpha_, rel=1e-4)
    assert_allclose(single.transform(X), double.transform(X), atol=1e-4)


def test_rows_without_a_label_are_left_out():
    X, y = make_data()
    known = np.arange(60) % 3 > 0
    model = RidgeMetric().fit(X, Labels(np.where(known, y, -1), unknown=-1))
    expected = RidgeMetric().fit(X[known], y[known])
    assert_allclose(model.transform(X), expected.transform(X), atol=1e-12)
    assert_array_equal(model.classes_, np.unique(y))


def test_landmarks_need_no_labels():
    X, y = make_data()
    known = np.arange(60) % 3 > 0
    model = RidgeMetric(lift="rbf", random_state=0)
    model.fit(X, Labels(np.where(known, y, -1), unknown=-1))
    assert len(model.metric_.lift.landmarks) == 60
    lift, nystroem = rbf_lift(X, generator(0))
    features = lift.apply(X, nystroem)
    expected = RidgeMetric().fit(features[known], y[known])
    pairs = np.arange(30), np.arange(30, 60)
    assert_allclose(
        model.metric_.distance(*(X[rows] for rows in pairs)),
        expected.metric_.distance(*(features[rows] for rows in pairs)),
        atol=1e-6,
    )


def test_classes_of_one_row_and_of_any_type():
    X, y = make_data()
    names = np.array(["a", "b", "c", "d"], dtype=object)[y]
    names[7] = "alone"
    model = RidgeMetric().fit(X, names)
    assert list(model.classes_) == ["a", "alone", "b", "c", "d"]
    assert model.metric_.rank == 4
    alone = RidgeMetric().fit(X[:6], np.arange(6))  # each row is a class
    assert np.isfinite(alone.transform(X)).all()


def test_more_classes_than_features():
    X, y = make_clusters(80, 3, n_classes=20)
    model = RidgeMetric(1.0, scale=False, distance="euclidean").fit(X, y)
    B = slow_coefficients(X, y, 1.0)
    assert model.metric_.rank == 3
    assert_allclose(model.metric_.matrix(), B @ B.T, atol=1e-12)


def test_equal_class_means_keep_the_plain_distance():
    X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    with pytest.warns(UserWarning, match="all classes have the same mean"):
        model = RidgeMetric().fit(X, [0, 0, 1, 1])
    assert_allclose(model.transform(X), Euclidean("cosine").fit(X).transform(X))


def test_huge_penalty_is_no_lack_of_directions():
    X, y = make_data()
    assert RidgeMetric(1e20).fit(X, y).metric_.rank == 3


def test_rows_used():
    X, y = make_data(600, 4)
    model = RidgeMetric(max_rows=100, random_state=0).fit(X, y)
    assert (model.n_rows_used_, model.n_rows_in_) == (100, 600)


def test_saved_and_loaded(tmp_path):
    X, y = make_data()
    model = RidgeMetric(lift="rbf", random_state=0).fit(X, y)
    model.metric_.save(tmp_path / "metric")
    loaded = Metric.load(tmp_path / "metric")
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.info["method"] == "RidgeMetric"
    assert loaded.info["parameters"]["alpha"] == model.alpha_


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("route", ["decomposed", "products"])
def test_learns_on_a_device(shape, route, monkeypatch):
    torch = pytest.importorskip("torch")
    if route == "products":
        monkeypatch.setattr(ridge, "DENSE_LIMIT", 1)
    X, y = make_data(*shape, dtype=np.float32)
    expected = RidgeMetric(random_state=0).fit(X, y)
    model = RidgeMetric(random_state=0).fit(torch.asarray(X), y)
    assert model.alpha_ == pytest.approx(expected.alpha_, rel=1e-5)
    assert isinstance(model.metric_.factor, np.ndarray)
    assert_allclose(model.metric_.pairwise(X), expected.metric_.pairwise(X), atol=2e-3)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(60), "all labels in y are 0.0: RidgeMetric tells classes apart"),
        (Triplets([[0, 1, 2]]), "RidgeMetric learns from labels only: pass them as y, or use DuRP"),
        (Comparisons([[0, 1, 2, 3]]), "learns from labels only"),
        (Pairs([[0, 1], [1, 2]], [True, False]), "learns from labels only"),
        (None, "requires y to be passed"),
    ],
)
def test_refused(y, message):
    with pytest.raises(ValueError, match=message):
        RidgeMetric().fit(make_data()[0], y)


def test_rows_refused():
    y = np.arange(6) % 2
    with pytest.raises(ValueError, match="all rows of X are the same"):
        RidgeMetric().fit(np.ones((6, 3)), y)
    with pytest.raises(ValueError, match="sparse rows may have 4,000 at most"):
        RidgeMetric(lift="rbf").fit(sp.eye(6, 5000, format="csr"), y)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_penalty_out_of_range(alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        RidgeMetric(alpha).fit(*make_data())
    with pytest.raises(ValueError, match="each of alphas must be a finite number above 0"):
        RidgeMetric(alphas=[1.0, alpha]).fit(*make_data())


@pytest.mark.parametrize("alphas", [[], 1.0, "auto"])
def test_penalties_must_be_a_sequence(alphas):
    with pytest.raises(ValueError, match="alphas must be a sequence of candidates"):
        RidgeMetric(alphas=alphas).fit(*make_data())


def test_tells_classes_apart_better_than_the_plain_distance():
    X, y = make_classes(400, 40, shift=2.0)
    model = RidgeMetric().fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > Euclidean().fit(X).score(X[200:], y[200:]) + 0.1
