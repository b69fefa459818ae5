"""Scatter within classes: against definitions written out, and through the estimators."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from dualmetric import (
    SPCA,
    SRP,
    DuOri,
    DuRP,
    Triplets,
    learn,
    scatter,
    spaces,
)
from dualmetric._arrays import ops
from dualmetric.scatter import (
    ProductScatter,
    WrittenScatter,
    within_classes,
    within_pairs,
)
from makers import as_kind, make_classes
from twins import weighted_sum

LEARNERS = [DuRP, DuOri, SRP, SPCA]
FEW = {"n_triplets": 300, "random_state": 0}
EPS = {np.float32: 2e-6, np.float64: 1e-13}


def make_data(n=60, d=12, dtype=np.float64):
    """Three classes, in features of very different within."""
    return make_classes(n, d, spread=np.geomspace(0.5, 3.0, d), dtype=dtype)


def thinned(X):
    return X * (np.abs(X) > 0.7)


def scatter_of_classes(X, y):
    X = np.asarray(X, dtype=np.float64)
    W = np.zeros((X.shape[1], X.shape[1]))
    for label in set(y):
        rows = X[np.asarray(y) == label]
        rows = rows - rows.mean(axis=0)
        W += rows.T @ rows
    return W / len(X)


def scatter_of_pairs(X, left, right):
    X = np.asarray(X, dtype=np.float64)
    D = X[left] - X[right]
    return D.T @ D / len(D)


def shrunk(W, s, d=None):
    return (1 - s) * W + s * np.trace(W) / (d or len(W)) * np.eye(len(W))


def root(S):
    """S^−½."""
    values, vectors = np.linalg.eigh(S)
    return (vectors / np.sqrt(values)) @ vectors.T


def bits(learner):
    return learner.components_.tobytes(), learner.dual_coef_.tobytes()


def pairwise(learner, X):
    distances = learner.metric_.pairwise(X)
    return distances / distances.max()


def assert_near(actual, expected, tolerance):
    assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# --- K --------------------------------------------------------------------------------------

LABELS = {
    "numbers": np.arange(30) % 4,
    "strings": np.array(["b", "a", "long name"])[np.arange(30) % 3],
    "objects": np.array(["b", "a", "c"], dtype=object)[np.arange(30) % 3],
    "list": (np.arange(30) % 4).tolist(),
    "singletons": np.r_[0, 1, 2, [7] * 20, [9] * 7],
    "one class": np.zeros(30, int),
    "gaps": np.array([-5, 1000])[np.arange(30) % 2],
}


@pytest.mark.parametrize("kind", ["dense", "csr", "csr_array"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labels", LABELS)
def test_within_classes(kind, dtype, labels, rng):
    y = LABELS[labels]
    X = thinned(rng.normal(size=(30, 7))).astype(dtype)
    K = np.zeros((30, 30))
    for label in set(y):
        members = np.asarray(y) == label
        K += (np.diag(members * 1.0) - np.outer(members, members) / members.sum()) / 30
    within = within_classes(as_kind(X, kind), y)
    Q = rng.normal(size=(30, 5)).astype(dtype)
    assert within.apply(Q).dtype == dtype
    assert_near(within.apply(Q), K @ Q, EPS[dtype])
    W = scatter_of_classes(X, y)
    assert within.trace == pytest.approx(np.trace(W), rel=1e-6 if dtype == np.float32 else 1e-12)
    assert_near(X.T @ within.apply(X), W, EPS[dtype])


def test_labels_in_a_column_give_the_same(rng):
    X, y = make_data()
    flat, column = within_classes(X, y), within_classes(X, y[:, None])
    assert flat.trace == column.trace
    assert_array_equal(flat.apply(X), column.apply(X))


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_within_pairs(kind, dtype, rng):
    X = thinned(rng.normal(size=(30, 7))).astype(dtype)
    left = rng.integers(30, size=50).astype(np.int32)
    right = ((left + rng.integers(1, 30, size=50)) % 30).astype(np.int32)
    left[1], right[1] = left[0], right[0]  # a pair twice counts twice
    K = np.zeros((30, 30))
    for a, b in zip(left, right, strict=True):
        e = np.eye(30)[a] - np.eye(30)[b]
        K += np.outer(e, e) / 50
    within = within_pairs(as_kind(X, kind), left, right)
    Q = rng.normal(size=(30, 5)).astype(dtype)
    assert within.apply(Q).dtype == dtype
    assert_near(within.apply(Q), K @ Q, EPS[dtype])
    W = scatter_of_pairs(X, left, right)
    assert within.trace == pytest.approx(np.trace(W), rel=1e-6 if dtype == np.float32 else 1e-12)
    assert_near(X.T @ within.apply(X), W, EPS[dtype])


def written(X, within, shrinkage, n_features):
    """S, written out."""
    return WrittenScatter(ops.quadratic(X, within.apply), within.trace, shrinkage, n_features)


def withins(X):
    n = len(X)
    pairs = np.array([(i, (i * 7 + 3) % n) for i in range(n) if i != (i * 7 + 3) % n])
    return {
        "classes": within_classes(X, np.arange(n) % 3),
        "pairs": within_pairs(X, *np.ascontiguousarray(pairs.T)),
    }


@pytest.mark.parametrize("name", ["classes", "pairs"])
def test_sample_has_covariance_k(name, rng):
    X = rng.normal(size=(12, 3))
    within = withins(X)[name]
    draws = within.sample(40_000, rng)
    assert draws.shape == (12, 40_000)
    K = within.apply(np.eye(12))
    assert_near(draws @ draws.T / 40_000, K, 0.05)
    assert_near(draws.mean(axis=1) + K.max(), np.full(12, K.max()), 0.3)


# --- S --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shrinkage", [0.01, 0.5, 1.0])
def test_explicit_matrix_is_the_definition(kind, dtype, shrinkage, rng):
    X = thinned(rng.normal(size=(40, 70))).astype(dtype)  # wider than a block of columns
    y = np.arange(40) % 3
    operator = written(as_kind(X, kind), within_classes(X, y), shrinkage, 70)
    assert operator.matrix.dtype == dtype
    assert_array_equal(operator.matrix, operator.matrix.T)
    assert_near(operator.matrix, shrunk(scatter_of_classes(X, y), shrinkage), EPS[dtype])


def test_explicit_matrix_in_a_span_counts_all_features():
    X, y = make_data()
    operator = written(X, within_classes(X, y), 0.3, 500)
    assert_near(operator.matrix, shrunk(scatter_of_classes(X, y), 0.3, 500), 1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitened_rows_are_at_the_mahalanobis_distance(dtype):
    X, y = make_data(dtype=dtype)
    operator = written(X, within_classes(X, y), 0.1, 12)
    white = operator.whiten(X)
    assert white.dtype == dtype
    assert white.flags.c_contiguous
    inverse = np.linalg.inv(shrunk(scatter_of_classes(X, y), 0.1))
    D = X[:, None].astype(np.float64) - X[None]
    expected = np.einsum("abi,ij,abj->ab", D, inverse, D)
    got = ((white[:, None].astype(np.float64) - white[None]) ** 2).sum(axis=2)
    assert_near(got, expected, 20 * EPS[dtype])


@pytest.mark.parametrize("name", ["classes", "pairs"])
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitening_columns_have_covariance_inverse_s(name, implicit, dtype, rng, monkeypatch):
    X = (rng.normal(size=(40, 6)) * np.geomspace(0.5, 2, 6)).astype(dtype)
    within = withins(X)[name]
    W = X.T.astype(np.float64) @ within.apply(X.astype(np.float64))
    inverse = np.linalg.inv(shrunk(W, 0.2))
    operator = ProductScatter(X, within, 0.2) if implicit else written(X, within, 0.2, 6)
    columns = operator.whitening_columns(40_000, rng)
    assert columns.shape == (6, 40_000)
    assert columns.dtype == dtype
    assert_near(columns @ columns.T / 40_000, inverse, 0.05)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("name", ["classes", "pairs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_implicit_products_and_solves(kind, name, dtype, rng):
    X = thinned(rng.normal(size=(40, 25))).astype(dtype)
    within = withins(X)[name]
    S = written(X.astype(np.float64), within, 0.3, 25).matrix
    operator = ProductScatter(as_kind(X, kind), within, 0.3)
    B = rng.normal(size=(25, 4)).astype(dtype)
    B[:, 2] = 0.0
    assert operator.dot(B).dtype == dtype
    assert_near(operator.dot(B), S @ B, 3 * EPS[dtype])
    tol = 1e-5 if dtype == np.float32 else 1e-12
    Y = operator.solve_iteratively(B, tol=tol, max_iter=200)
    assert Y.dtype == dtype
    assert np.isfinite(Y).all()
    assert not Y[:, 2].any()
    assert_near(Y, np.linalg.solve(S, B), 20 * tol)
    assert operator.residual(Y, B) <= 3 * tol


def test_solve_that_is_cut_short_is_silent_and_whitening_says_the_residual(rng, monkeypatch):
    X = rng.normal(size=(200, 100)) * np.geomspace(1e-3, 10, 100)
    within = within_classes(X, np.arange(200) % 3)
    operator = ProductScatter(X, within, 1e-5)
    B = rng.normal(size=(100, 3))
    Y = operator.solve_iteratively(B, tol=0.1, max_iter=8)  # warnings are errors here
    assert operator.residual(Y, B) > 0.1
    monkeypatch.setattr(scatter, "_MAX_STEPS", 5)
    seed = np.random.default_rng(3)
    with pytest.warns(ConvergenceWarning, match=r"in 5 steps .*residual (\d|\.|e|-)+\).* 1e-05"):
        columns = operator.whitening_columns(3, seed)
    assert np.isfinite(columns).all()
    monkeypatch.setattr(scatter, "_MAX_STEPS", 2000)
    easy = ProductScatter(X, within, 0.5)
    easy.whitening_columns(3, rng)


def test_a_fit_passes_the_warning_on(monkeypatch):
    X, y = make_data(60, 30)
    monkeypatch.setattr(scatter, "_MAX_STEPS", 1)
    wide_route(monkeypatch)
    with pytest.warns(ConvergenceWarning, match="conjugate gradients") as seen:
        DuRP(shrinkage=0.05, n_components=3, **FEW).fit(X, y)
    assert len(seen) == 1


def test_recovery_with_a_scatter_is_silent(monkeypatch):
    X, y = make_data(60, 30)
    wide_route(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DuRP(shrinkage=0.05, n_components=3, **FEW).fit(X, y)


# --- the learners ---------------------------------------------------------------------------


def wide_route(monkeypatch):
    """No matrix of features × features is written out."""
    for module in (scatter, learn):
        monkeypatch.setattr(module, "DENSE_LIMIT", 0)
    monkeypatch.setattr("dualmetric.recovery.DENSE_LIMIT", 0)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_shrinkage_one_is_the_paper(learner, kind, monkeypatch):
    X, y = make_data()
    X = as_kind(thinned(X), kind)
    plain = learner(**FEW).fit(X, y)
    for name in ("scatter_of", "within_of"):
        monkeypatch.setattr(learn, name, None)  # none of it may be called
    assert bits(learner(shrinkage=1.0, **FEW).fit(X, y)) == bits(plain)
    assert bits(learner(shrinkage=1, **FEW).fit(X, y)) == bits(plain)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shrinkage", [0.05, 0.5])
@pytest.mark.parametrize("given", [False, True])
def test_explicit_and_implicit_agree(kind, dtype, shrinkage, given, monkeypatch):
    X, y = make_data(90, 40, dtype=dtype)
    X = as_kind(thinned(X), kind)
    known = DuRP(**FEW).fit(X, y).comparisons_ if given else y
    columns = np.random.default_rng(1).standard_normal((40, 10)).astype(dtype)
    for kind_of_scatter in (WrittenScatter, ProductScatter):
        monkeypatch.setattr(kind_of_scatter, "whitening_columns", lambda *_: columns.copy())
    tolerance = 1e-6 if dtype == np.float64 else 1e-5
    model = DuRP(shrinkage=shrinkage, n_components=4, eigen_tol=tolerance, **FEW)
    explicit = model.fit(X, known).metric_
    wide_route(monkeypatch)
    monkeypatch.setattr(scatter, "WrittenScatter", None)
    implicit = model.fit(X, known).metric_
    assert implicit.rank == explicit.rank == 4
    assert implicit.factor.dtype == dtype
    assert_near(implicit.pairwise(X), explicit.pairwise(X), 1e-4)


def sum_of_matrices(X, model, reg):
    weight = model.dual_coef_ / (reg * len(model.comparisons_))
    return weighted_sum(X, model.comparisons_.index, weight)


def closed_form(A, S):
    w, V = eigh(A, S)
    keep = w > 1e-10 * np.abs(w).max()
    L = V[:, keep] * np.sqrt(w[keep])
    return L @ L.T


@pytest.mark.parametrize("learner", [DuRP, DuOri])
@pytest.mark.parametrize("shrinkage", [1e-9, 0.01, 0.5])
@pytest.mark.parametrize("given", [False, True])
def test_factor_is_the_generalised_eigenproblem(learner, shrinkage, given):
    X, y = make_data()
    model = learner(shrinkage=shrinkage, scale=False, reg=0.02, **FEW)
    if given:
        triplets = learner(**FEW).fit(X, y).comparisons_
        pairs = np.array(sorted({(i, j) for i, j, *_ in triplets.index.tolist()}))
        W = scatter_of_pairs(X, *pairs.T)
        model.fit(X, triplets)
    else:
        W = scatter_of_classes(X, y)
        model.fit(X, y)
    expected = closed_form(sum_of_matrices(X, model, 0.02), shrunk(W, shrinkage))
    assert_near(model.metric_.matrix(), expected, 1e-8)


def test_implicit_factor_is_the_generalised_eigenproblem(monkeypatch):
    X, y = make_data()
    wide_route(monkeypatch)
    model = DuRP(shrinkage=0.1, scale=False, reg=0.02, n_components=12, eigen_tol=1e-7, **FEW).fit(
        X, y
    )
    S = shrunk(scatter_of_classes(X, y), 0.1)
    expected = closed_form(sum_of_matrices(X, model, 0.02), S)
    assert_near(model.metric_.matrix(), expected, 1e-6)


@pytest.mark.parametrize("scale", [False, True])
def test_is_the_paper_for_whitened_rows(scale):
    X, y = make_data()
    triplets = DuOri(**FEW).fit(X, y).comparisons_
    pairs = np.array(sorted({(i, j) for i, j, *_ in triplets.index.tolist()}))
    R = root(shrunk(scatter_of_pairs(X, *pairs.T), 0.2))
    model = DuOri(shrinkage=0.2, scale=scale, random_state=0).fit(X, triplets)
    white = DuOri(scale=scale, random_state=0).fit(X @ R, triplets)
    assert_allclose(model.dual_coef_, white.dual_coef_, atol=1e-9)
    assert_near(model.metric_.matrix(), R @ white.metric_.matrix() @ R, 1e-9)
    assert_near(model.metric_.pairwise(X), white.metric_.pairwise(X @ R), 1e-8)


def test_does_not_depend_on_a_linear_map_as_shrinkage_vanishes(rng):
    # S becomes W, and W of XA is AᵀWA: whitened rows of X and of XA are the same but for a rotation
    X, y = make_data()
    A = rng.normal(size=(12, 12)) + 3 * np.eye(12)
    triplets = DuOri(**FEW).fit(X, y).comparisons_
    parameters = {"shrinkage": 1e-10, "random_state": 0}
    here = DuOri(**parameters).fit(X, triplets)
    there = DuOri(**parameters).fit(X @ A, triplets)
    assert_near(there.metric_.pairwise(X @ A), here.metric_.pairwise(X), 1e-5)
    plain = DuOri(random_state=0).fit(X, triplets)
    other = DuOri(random_state=0).fit(X @ A, triplets)
    assert np.abs(pairwise(other, X @ A) - pairwise(plain, X)).max() > 0.05


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("given", [False, True])
def test_span_of_the_rows_agrees_with_all_features(kind, given, monkeypatch):
    X, y = make_data(40, 300)
    X = as_kind(X, kind)
    known = DuOri(**FEW).fit(X, y).comparisons_ if given else y
    model = DuOri(shrinkage=0.2, **FEW)
    short = model.fit(X, known).metric_
    monkeypatch.setattr(learn, "SPAN_LIMIT", 0)
    plain = model.fit(X, known).metric_
    assert short.rank == plain.rank
    assert_near(short.matrix(), plain.matrix(), 1e-8)
    assert_near(short.pairwise(X), plain.pairwise(X), 1e-8)


@pytest.mark.parametrize("learner", [SRP, SPCA])
@pytest.mark.parametrize("scale", [False, True])
def test_confined_metrics_equal_the_formula(learner, scale, monkeypatch):
    X, y = make_data()
    seen = {}
    name = "random_projection" if learner is SRP else "principal_components"
    original = getattr(spaces, name)

    def record(*args):
        result = original(*args)
        seen["basis"] = result[1] if isinstance(result, tuple) else result
        return result

    monkeypatch.setattr(spaces, name, record)
    model = learner(6, shrinkage=0.2, scale=scale, reg=0.02, **FEW).fit(X, y)
    B = seen["basis"]
    Z = X @ B
    S = shrunk(scatter_of_classes(Z, y), 0.2)
    R = root(S)
    unit = np.sqrt(np.var(Z @ R, axis=0, ddof=1).sum() * 2) / 4.0 if scale else 1.0
    M = closed_form(sum_of_matrices(Z / unit, model, 0.02), S) / unit**2
    assert_near(model.metric_.matrix(), B @ M @ B.T, 1e-8)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("learner", [DuRP, DuOri])
def test_all_rows_decides_whose_scatter_it_is(learner, kind):
    # 20 triplets name a small part of 400 rows
    X, y = make_data(400)
    for all_rows in (False, True):
        model = learner(
            n_triplets=20, random_state=0, shrinkage=0.1, scale=False, reg=0.02, all_rows=all_rows
        ).fit(as_kind(X, kind), y)
        named = np.unique(model.comparisons_.index)
        assert len(named) < 0.3 * len(X)
        scatters = {False: scatter_of_classes(X[named], y[named]), True: scatter_of_classes(X, y)}
        A = sum_of_matrices(X, model, 0.02)
        expected, other = (
            closed_form(A, shrunk(scatters[rows], 0.1)) for rows in (all_rows, not all_rows)
        )
        assert_near(model.metric_.matrix(), expected, 1e-8)
        assert np.abs(other - expected).max() > 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("learner", [SRP, SPCA])
def test_all_rows_of_confined_metrics(learner):
    X, y = make_data(400)
    some, everything = (
        learner(6, n_triplets=20, random_state=0, shrinkage=0.1, all_rows=all_rows).fit(X, y)
        for all_rows in (False, True)
    )
    assert_array_equal(some.comparisons_.index, everything.comparisons_.index)
    assert np.abs(pairwise(some, X) - pairwise(everything, X)).max() > 0.01


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_components_are_those_of_all_rows(kind, shrinkage, rng):
    # 15 triplets name some 40 of 500 rows, all of them different from the others
    X = rng.normal(size=(500, 10)) * np.geomspace(5.0, 0.5, 10)
    X[:40] = rng.normal(size=(40, 10)) * np.geomspace(0.5, 5.0, 10)
    triplets = Triplets([rng.choice(40, 3, replace=False) for _ in range(15)])
    model = SPCA(3, shrinkage=shrinkage, random_state=0).fit(as_kind(X, kind), triplets)
    L = model.metric_.factor
    for rows, inside in ((X, True), (X[:40], False)):
        components = PCA(3, svd_solver="full").fit(rows).components_
        outside = np.linalg.norm(L - components.T @ (components @ L)) / np.linalg.norm(L)
        assert outside < 1e-8 if inside else outside > 0.5


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_learner_works(learner, kind, dtype):
    X, y = make_data(dtype=dtype)
    X = as_kind(thinned(X), kind)
    names = np.array(["b", "a", "c"])[y]
    model = learner(shrinkage=0.3, **FEW).fit(X, names)
    assert model.transform(X).dtype == dtype
    again = learner(shrinkage=0.3, **FEW).fit(X, names)
    assert_allclose(pairwise(again, X), pairwise(model, X), atol=1e-5)
    other = learner(shrinkage=0.9, **FEW).fit(X, names)
    assert np.abs(pairwise(other, X) - pairwise(model, X)).max() > 1e-3
    only = learner(shrinkage=0.3, random_state=0).fit(X, model.comparisons_)
    assert np.isfinite(only.transform(X)).all()


def test_labels_in_a_column_work_with_a_warning():
    X, y = make_data()
    with pytest.warns(DataConversionWarning):
        model = DuRP(shrinkage=0.3, **FEW).fit(X, y[:, None])
    assert_allclose(pairwise(model, X), pairwise(DuRP(shrinkage=0.3, **FEW).fit(X, y), X))


@pytest.mark.parametrize("wide", [False, True])
def test_a_class_of_one_row(wide, monkeypatch):
    X, y = make_data()
    y = y.copy()
    y[7] = 99
    if wide:
        wide_route(monkeypatch)
    model = DuRP(shrinkage=0.3, n_components=3, **FEW).fit(X, y)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("given", [False, True])
def test_classes_whose_rows_are_all_equal(wide, kind, given, monkeypatch):
    y = np.arange(60) % 3
    X = as_kind(np.array([[0.0, 1.1, 2.3], [0.5, 0.0, 1.7], [4.9, 0.0, 0.0]])[y], kind)
    if wide:
        wide_route(monkeypatch)
    known = Triplets([(i, i + 3, i + 4) for i in range(50)]) if given else y
    for learner in (DuRP, DuOri, SRP):
        model = learner(shrinkage=0.3, sampler="neighbors", **FEW)
        with pytest.raises(ValueError, match=r"are all equal.*use shrinkage=1\.0"):
            model.fit(X, known)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_whose_rows_are_all_equal_in_the_span(dtype, rng):
    y = np.arange(30) % 3
    X = rng.normal(size=(3, 50)).astype(dtype)[y]
    for known in (y, Triplets([(i, i + 3, i + 4) for i in range(25)])):
        with pytest.raises(ValueError, match="are all equal"):
            DuRP(shrinkage=0.3, sampler="neighbors", **FEW).fit(X, known)


def test_one_class_whose_rows_are_all_equal_among_others():
    X, y = make_data()
    X[y == 0] = X[0]
    assert np.isfinite(DuRP(shrinkage=0.3, **FEW).fit(X, y).transform(X)).all()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("value", [0, 0.0, -0.1, 1.0001, 2, np.inf])
def test_shrinkage_out_of_range(learner, value):
    with pytest.raises(
        ValueError, match="shrinkage must be a finite number above 0 and at most 1; got"
    ):
        learner(shrinkage=value, **FEW).fit(*make_data())


def test_shrinkage_that_is_no_number():
    with pytest.raises(TypeError, match=r"shrinkage must be a finite number .* got 'auto'"):
        DuRP(shrinkage="auto", **FEW).fit(*make_data())


@pytest.mark.parametrize(("dtype", "remedy"), [(np.float32, "or pass float64"), (np.float64, "")])
def test_shrinkage_too_small_for_features_that_repeat(dtype, remedy):
    X, y = make_data(dtype=dtype)
    X = np.hstack([X, X])
    for shrinkage in (1e-7, 1e-9) if dtype == np.float32 else (1e-17, 1e-30):
        with pytest.raises(ValueError, match=rf"shrinkage=1e-.* too small .*Raise it.*{remedy}"):
            DuRP(shrinkage=shrinkage, **FEW).fit(X, y)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_unit_of_the_data_does_not_matter(learner, kind):
    X, y = make_data()
    X = as_kind(thinned(X), kind)
    here, there = (learner(shrinkage=0.3, **FEW).fit(rows, y) for rows in (X, 1000.0 * X))
    assert_array_equal(here.comparisons_.index, there.comparisons_.index)
    assert_allclose(pairwise(there, 1000.0 * X), pairwise(here, X), atol=1e-8)
    assert there.score(1000.0 * X, y) == pytest.approx(here.score(X, y), abs=1e-9)


def test_origin_of_the_data_does_not_matter():
    X, y = make_data()
    for learner in LEARNERS:
        here = learner(shrinkage=0.3, **FEW).fit(X, y)
        there = learner(shrinkage=0.3, **FEW).fit(X + 1000.0, y)
        assert_allclose(pairwise(there, X + 1000.0), pairwise(here, X), atol=1e-5)


def test_wide_rows_without_projection_are_refused(monkeypatch):
    X, y = make_data(60, 30)
    wide_route(monkeypatch)
    with pytest.raises(ValueError, match=r"use DuRP, or\s+shrinkage=1\.0"):
        DuOri(shrinkage=0.3, **FEW).fit(X, y)


def test_whitening_discounts_what_varies_within_classes():
    X, y = make_classes(300, 10, shift=1.0, spread=np.r_[0.3, 0.3, np.full(8, 3.0)])
    plain, white = (DuRP(shrinkage=s, random_state=0).fit(X, y) for s in (1.0, 0.05))
    assert white.score(X, y) > plain.score(X, y) + 0.1


@pytest.mark.parametrize("n", [120, 700], ids=["in the span of the rows", "in the features"])
def test_a_large_mean_leaves_implicit_whitening_as_it_is(n, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, 300)).astype(np.float32)
    X[:, :3] += 4.0 * np.eye(3, dtype=np.float32)[y]
    wide_route(monkeypatch)
    monkeypatch.setattr(learn, "SPAN_LIMIT", 0)
    model = DuRP(shrinkage=0.5, n_components=2, n_triplets=2000, random_state=0)
    expected = model.fit(X, y).score(X, y)
    assert model.fit(X + np.float32(500.0), y).score(X, y) == pytest.approx(expected, abs=0.02)
    assert model.residual_ <= 0.02


def test_lifted_rows_are_whitened_by_the_number_of_kernel_features(monkeypatch):
    X, y = make_data()
    seen = []
    made = WrittenScatter.__init__

    def note(self, W, trace, shrinkage, n_features):
        seen.append((len(W), n_features))
        made(self, W, trace, shrinkage, n_features)

    monkeypatch.setattr(WrittenScatter, "__init__", note)
    monkeypatch.setattr(learn, "SPAN_LIMIT", 0)
    DuRP(shrinkage=0.3, lift="rbf", **FEW).fit(X, y)
    ((size, n_features),) = seen
    assert size == n_features > X.shape[1]
