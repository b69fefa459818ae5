"""Priors: against other minimisers of the whole problem, and M₀ + Δ written out."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import normalize

from dualmetric import (
    SPCA,
    SRP,
    Comparisons,
    DuOri,
    DuRP,
    Euclidean,
    Metric,
    Triplets,
    Whitening,
    learn,
    recovery,
)
from dualmetric import prior as module
from dualmetric.lift import Lift
from dualmetric.losses import LOSSES, get_loss
from dualmetric.prior import line_search
from makers import as_kind, make_classes, make_sparse, make_wide
from twins import (
    comparison_matrices,
    inner,
    minimise_primal,
    positive_semidefinite,
    primal,
    random_comparisons,
    weighted_sum,
)

REG = 0.05
EXACT = {"max_epochs": 20_000, "tol": 1e-10, "random_state": 0}
every_loss = pytest.mark.parametrize("name", list(LOSSES))


def orthogonal(d, rank, lengths, seed=3):
    """Orthogonal columns of the given lengths."""
    columns, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, rank)))
    return columns * np.asarray(lengths)


def metrics(d):
    """Metrics of every form, by name."""
    rng = np.random.default_rng(5)
    return {
        "low rank": Metric(rng.normal(size=(d, 2))),
        "full rank": Metric(rng.normal(size=(d, d)) + np.eye(d)),
        "plain": Metric(None, d),
        "corrected": Metric(orthogonal(d, 2, [0.3, 2.0]), outside=0.8),
    }


METRICS = list(metrics(4))


def matrix_of(prior, d):
    return np.eye(d) if isinstance(prior, str) else prior.matrix()


def assert_near(actual, expected, tolerance):
    assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def pairwise(X, M):
    """Distances of all pairs of rows under M."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    D = X[:, None] - X[None]
    return np.sqrt(np.maximum(np.einsum("abi,ij,abj->ab", D, M, D, optimize=True), 0.0))


def unit_and_scale(X, M0):
    """The length that counts as one, and the factor of M₀: mean squared distances become three."""
    upper = np.triu_indices(len(X), 1)
    plain, prior = (pairwise(X, M)[upper] ** 2 for M in (np.eye(X.shape[1]), M0))
    return np.sqrt(plain.mean() / 3.0), 3.0 / prior.mean()


@pytest.fixture
def data(rng):
    """30 rows of 4 features, 60 comparisons of them with targets and weights."""
    X = 0.7 * rng.normal(size=(30, 4)) + 2.0
    margin, weight = rng.uniform(0.2, 2.0, size=60), rng.uniform(0.1, 3.0, size=60)
    return X, Comparisons(random_comparisons(30, 60, rng), margin, weight)


@pytest.fixture
def steps(monkeypatch):
    """What every line search of a fit found."""
    found = []
    original = module.line_search

    def record(*args):
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(module, "line_search", record)
    return found


# --- the whole problem ----------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("kind", ["identity", *METRICS])
def test_duori_is_the_positive_part_of_the_minimiser(data, name, kind):
    X, given = data
    prior = kind if kind == "identity" else metrics(4)[kind]
    model = DuOri(prior=prior, loss=name, reg=REG, scale=False, **EXACT).fit(X, given)
    A = comparison_matrices(X, given.index)
    M0 = matrix_of(prior, 4)
    M = minimise_primal(M0, A, given.margin, given.weight, get_loss(name), REG)
    assert_near(model.metric_.matrix(), positive_semidefinite(M), 2e-4)
    assert np.abs(M - M0).max() > 0.1 * np.abs(M0).max()


@pytest.mark.parametrize("kind", ["identity", *METRICS])
@pytest.mark.parametrize("size", [1e-3, 1.0, 50.0])
def test_scaled_problem(data, kind, size):
    # lengths are relative to the root mean square distance, which becomes √3 under the prior and
    # in the space of the solver; M₀ itself keeps its unit
    X, given = data
    X = size * X
    prior = kind if kind == "identity" else metrics(4)[kind]
    model = DuOri(prior=prior, reg=REG, loss="squared_hinge", **EXACT).fit(X, given)
    M0 = matrix_of(prior, 4)
    unit, scale = unit_and_scale(X, M0)
    A = comparison_matrices(X / unit, given.index)
    there = minimise_primal(
        scale * unit**2 * M0, A, given.margin, given.weight, get_loss("squared_hinge"), REG
    )
    expected = positive_semidefinite(there / (scale * unit**2))
    assert_near(model.metric_.matrix(), expected, 2e-4)


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize("prior", ["identity", "whitening"])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_unit_of_the_data_does_not_matter(estimator, prior, distance):
    X, y = make_classes()
    shrinkage = 0.3 if prior == "whitening" else 1.0
    options = {"prior": prior, "shrinkage": shrinkage, "distance": distance, "random_state": 0}
    here, there = (
        estimator(n_triplets=300, **options).fit(rows, y).metric_.pairwise(rows)
        for rows in (X, 1000.0 * X)
    )
    assert_allclose(there / there.max(), here / here.max(), atol=1e-8)


def test_regularisation_is_one_hundredth_with_a_prior(data):
    X, given = data
    first = DuOri(prior="identity", random_state=0).fit(X, given)
    second = DuOri(prior="identity", reg=0.01, random_state=0).fit(X, given)
    assert_array_equal(first.metric_.factor, second.metric_.factor)


def test_strong_regularisation_keeps_the_prior_and_weak_does_not(data):
    X, given = data
    M0 = metrics(4)["full rank"]
    apart = [
        np.abs(
            DuOri(prior=M0, reg=reg, random_state=0).fit(X, given).metric_.matrix() - M0.matrix()
        ).max()
        for reg in (1e-2, 1e1, 1e4)
    ]
    assert apart[0] > 10 * apart[1] > 100 * apart[2]


@pytest.mark.parametrize("estimator", [DuRP, DuOri, SRP, SPCA])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_without_a_prior_none_of_it_is_used(estimator, shrinkage, monkeypatch):
    X, y = make_classes()
    expected = estimator(shrinkage=shrinkage, n_triplets=300, random_state=0).fit(X, y)
    for name in ("apply_prior", "correct_prior"):
        monkeypatch.setattr(learn, name, None)
    model = estimator(shrinkage=shrinkage, n_triplets=300, random_state=0)
    if estimator in (DuRP, DuOri):
        model.set_params(prior=None)
    assert_array_equal(model.fit(X, y).metric_.factor, expected.metric_.factor)
    assert model.metric_.outside == 0.0


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_directions_that_no_comparison_touches_keep_the_prior(rng, kind):
    X = rng.normal(size=(40, 6))
    X[:20, 3:] = 0.0  # comparisons are of these rows
    given = Comparisons(random_comparisons(20, 60, rng))
    for prior in ("identity", Metric(np.diag([0.5, 1.0, 2.0, 3.0, 1.0, 0.2]))):
        M = DuRP(prior=prior, random_state=0).fit(as_kind(X, kind), given).metric_.matrix()
        M0 = matrix_of(prior, 6)
        assert np.abs(M - M0)[:3, :3].max() > 0.01
        assert_allclose(M[3:], M0[3:], atol=1e-12)


# --- lengths and whitening ------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("given_comparisons", [False, True])
def test_cosine_learns_from_rows_of_length_one(estimator, kind, given_comparisons, rng):
    X, y = make_sparse() if kind == "csr" else make_classes()
    known = Comparisons(random_comparisons(60, 100, rng)) if given_comparisons else y
    # row 4 of the sparse ones is empty: it has no direction, and stays zero
    unit = normalize(X if kind == "csr" else X - X.mean(axis=0))
    options = {"prior": "identity", "n_triplets": 300, "random_state": 0}
    model = estimator(distance="cosine", **options).fit(X, known)
    expected = estimator(**options).fit(unit, known)
    assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-9)
    assert_near(model.metric_.pairwise(X), expected.metric_.pairwise(unit), 1e-8)
    # new rows are centred by the training rows
    assert_near(model.transform(X[:5]), model.transform(X)[:5], 1e-12)


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
def test_cosine_of_a_metric_scales_at_the_end(estimator, data):
    X, given = data
    options = {"prior": metrics(4)["full rank"], "random_state": 0}
    plain = estimator(**options).fit(X, given)
    model = estimator(distance="cosine", **options).fit(X, given)
    rows = plain.transform(X)
    expected = normalize(rows - rows.mean(axis=0))
    D = np.linalg.norm(expected[:, None] - expected, axis=2)
    assert_near(model.metric_.pairwise(X), D, 1e-9)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_whitening_is_the_identity_for_whitened_rows(distance, labels, kind, rng):
    X, y = make_classes(spread=np.geomspace(0.5, 3.0, 12))
    known = y if labels else Comparisons(random_comparisons(60, 100, rng))
    white = Whitening(0.3, distance="euclidean").fit(X, known)
    options = {"distance": distance, "n_triplets": 300, "random_state": 0}
    model = DuOri(prior="whitening", shrinkage=0.3, **options).fit(as_kind(X, kind), known)
    rows = white.transform(X)
    expected = DuOri(prior="identity", **options).fit(rows, known)
    assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-8)
    assert_near(model.metric_.pairwise(X), expected.metric_.pairwise(rows), 1e-7)


def test_whitening_with_a_lift():
    X, y = make_classes()
    options = {"lift": "rbf", "shrinkage": 0.3, "n_triplets": 300, "random_state": 0}
    model = DuRP(prior="whitening", **options).fit(X, y)
    assert model.metric_.pairwise(X).shape == (60, 60)
    assert model.score(X, y) > Euclidean().fit(X).score(X, y)


# --- the size of what was learned -----------------------------------------------------------


@every_loss
def test_line_search_finds_the_smallest_primal(name, rng):
    loss = get_loss(name)
    for factor in (0.3, 1.0, 4.0):
        change = factor * rng.normal(0.5, 1.0, size=80)
        given = Comparisons(np.zeros((80, 4)), rng.normal(0.5, 1, 80), rng.uniform(0.1, 3, 80))
        size = 2.0

        def value(step, change=change, given=given, size=size):
            z = step * change + 1.0 - given.margin
            return 0.5 * 0.1 * step**2 * size + np.mean(given.weight * loss.value(z))

        found = line_search(change, size, given, 0.1, name)
        grid = np.linspace(0.0, 4.0, 4001)
        values = [value(step) for step in grid]
        assert value(found) <= min(values)
        assert found == pytest.approx(grid[np.argmin(values)], abs=0.01)
        # steps beside it are no better, as far as 64 bits can tell
        assert value(found) <= min(value(max(found - 1e-7, 0.0)), value(found + 1e-7)) + 1e-15


@every_loss
def test_size_of_an_exact_solution_is_one(data, name):
    # along the minimiser, the primal is smallest at the minimiser itself
    X, given = data
    A = comparison_matrices(X, given.index)
    M0 = np.eye(4)
    delta = minimise_primal(M0, A, given.margin, given.weight, get_loss(name), REG) - M0
    reduced = Comparisons(given.index, given.margin - inner(M0, A), given.weight)
    found = line_search(inner(delta, A), np.sum(delta**2), reduced, REG, name)
    assert found == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["identity", *METRICS])
@pytest.mark.parametrize("m", [2, 10])
@pytest.mark.parametrize("scale", [False, True])
def test_durp_adds_what_it_rebuilds_at_its_best_size(data, steps, kind, m, scale):
    X, given = data
    X = 5.0 * X if scale else X
    prior = kind if kind == "identity" else metrics(4)[kind]
    model = DuRP(m, prior=prior, reg=REG, scale=scale, random_state=0).fit(X, given)
    (step,) = steps
    assert 0.01 < step < 3.9
    M0 = matrix_of(prior, 4)
    unit = size = 1.0
    if scale:
        unit, size = unit_and_scale(X, M0)
    rows, M0 = X / unit, size * unit**2 * M0  # as the solver sees them
    delta = weighted_sum(rows, given.index, model.dual_coef_ / (REG * len(given)))
    expected = positive_semidefinite(M0 + step * delta) / (size * unit**2)
    assert_near(model.metric_.matrix(), expected, 1e-10)
    terms = comparison_matrices(rows, given.index), given.margin, given.weight
    grid = np.linspace(0.0, 4.0, 801)
    values = [primal(M0 + t * delta, M0, *terms, get_loss("hinge"), REG) for t in grid]
    assert step == pytest.approx(grid[np.argmin(values)], abs=0.01)


def test_duori_needs_no_line_search(data, steps):
    X, given = data
    DuOri(prior="identity", random_state=0).fit(X, given)
    assert not steps


def test_durp_comes_near_the_minimiser_with_many_projections(data):
    X, given = data
    exact, near, far = (
        model.set_params(prior="identity", reg=REG, scale=False, **EXACT).fit(X, given)
        for model in (DuOri(), DuRP(400), DuRP(2))
    )
    errors = [
        np.abs(model.metric_.matrix() - exact.metric_.matrix()).max() for model in (near, far)
    ]
    assert errors[0] < 0.3 * np.abs(exact.metric_.matrix()).max()
    assert errors[0] < errors[1]


# --- many features --------------------------------------------------------------------------


def wide_route(monkeypatch, span):
    """No matrix of features × features is written out; in the span of the rows, or not."""
    for place in (module, learn):
        monkeypatch.setattr(place, "DENSE_LIMIT", 100)
    monkeypatch.setattr("dualmetric.recovery.DENSE_LIMIT", 100)
    monkeypatch.setattr(recovery, "DEFAULT_WIDE_RANK", 30)
    monkeypatch.setattr(module, "FEW_ROWS_RANK", 30)
    monkeypatch.setattr(learn, "SPAN_LIMIT", 2000 if span else 0)
    monkeypatch.setattr(learn, "FEW_ROWS", 4000 if span else 0)


@pytest.fixture
def wide(rng):
    """60 rows of 150 features, most of them zero, and 12 comparisons: Δ has rank 24 at most."""
    X = rng.normal(size=(60, 150)) * (rng.random((60, 150)) < 0.3)
    margin, weight = rng.uniform(10.0, 30.0, size=12), rng.uniform(0.1, 3.0, size=12)
    return X, Comparisons(random_comparisons(60, 12, rng), margin, weight)


def expected_matrix(model, X, given, M0, step=1.0, reg=REG):
    """The positive part of M₀ + Δ, in the unit of X."""
    scale = unit = 1.0
    if model.scale:
        unit, scale = unit_and_scale(X, M0)
    weight = model.dual_coef_ / (reg * len(given) * unit**2)
    delta = weighted_sum(X, given.index, weight) / (scale * unit**2)
    return positive_semidefinite(M0 + step * delta)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("span", [True, False])
@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_identity_of_many_features(wide, monkeypatch, steps, kind, span, estimator, scale, dtype):
    X, given = wide
    wide_route(monkeypatch, span)
    model = estimator(prior="identity", reg=REG, scale=scale, eigen_tol=1e-6, random_state=0)
    with warnings.catch_warnings():
        # float32 cannot reach 1e-6
        warnings.simplefilter("ignore" if dtype == np.float32 else "error")
        model.fit(as_kind(X.astype(dtype), kind), given)
    metric = model.metric_
    assert metric.outside == 1.0
    assert metric.factor.dtype == dtype
    M = expected_matrix(model, X, given, np.eye(150), *steps)
    assert np.linalg.eigvalsh(M)[0] < 0.95
    assert np.abs(M - np.eye(150)).max() > 0.02
    tolerance = 1e-5 if dtype == np.float64 else 1e-3
    assert_near(metric.matrix(), M, tolerance)
    # columns are orthogonal, and LLᵀ + ω²(I − UUᵀ) is the matrix
    L = metric.factor.astype(np.float64)
    U = L / np.linalg.norm(L, axis=0)
    assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10 if dtype == np.float64 else 1e-4)
    assert_near(L @ L.T + np.eye(150) - U @ U.T, M, tolerance)


def test_only_duori_decomposes_inner_products_of_wide_rows(wide, monkeypatch):
    X, given = wide
    wide_route(monkeypatch, True)
    calls, row_span = [], learn.spaces.row_span
    monkeypatch.setattr(learn.spaces, "row_span", lambda X: calls.append(1) or row_span(X))
    for estimator, expected in ((DuRP, 0), (DuOri, 1)):
        model = estimator(prior="identity", reg=REG, random_state=0).fit(sp.csr_matrix(X), given)
        assert len(calls) == expected
        assert model.metric_.factor.shape[1] <= 30


@pytest.mark.parametrize("many", [False, True])
def test_wide_rows_have_more_directions_where_they_are_few(wide, monkeypatch, many):
    X, given = wide
    wide_route(monkeypatch, False)
    monkeypatch.setattr(module, "FEW_ROWS", 60 if many else 61)
    monkeypatch.setattr(module, "FEW_ROWS_RANK", 7)
    monkeypatch.setattr(recovery, "DEFAULT_WIDE_RANK", 5)
    model = DuRP(prior="identity", reg=REG, all_rows=True, random_state=0).fit(X, given)
    assert model.metric_.factor.shape[1] == (5 if many else 7)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("span", [True, False])
def test_every_use_of_a_corrected_metric_agrees(wide, monkeypatch, kind, span, tmp_path):
    X, given = wide
    wide_route(monkeypatch, span)
    rows = as_kind(X, kind)
    metric = (
        DuRP(prior="identity", reg=REG, eigen_tol=1e-8, random_state=0).fit(rows, given).metric_
    )
    M = metric.matrix()
    D = pairwise(X, M)
    assert_allclose(metric.pairwise(rows), D, atol=1e-9)
    # 1e-6: the square of a distance of zero is rounded
    assert_allclose(metric.pairwise(rows[:5], rows), D[:5], atol=1e-6)
    assert_allclose(metric.distance(rows[:-1], rows[1:]), np.diagonal(D, 1), atol=1e-9)
    assert_array_equal(np.diagonal(metric.pairwise(rows)), 0.0)
    mapped = metric.transform(rows)
    assert type(mapped) is np.ndarray
    assert_allclose(np.linalg.norm(mapped[:, None] - mapped, axis=2), D, atol=1e-9)
    explained = metric.explain(X[0], X[1], top=150)
    delta = X[0] - X[1]
    parts = delta * (M @ delta) / D[0, 1]
    assert explained.distance == pytest.approx(D[0, 1], rel=1e-10)
    found = dict(explained.parts)
    for feature in np.flatnonzero(np.abs(parts) > 1e-9):
        assert found[f"feature {feature}"] == pytest.approx(parts[feature], abs=1e-9)
    assert sum(found.values()) + explained.rest == pytest.approx(D[0, 1], rel=1e-10)
    metric.save(tmp_path / "metric.safetensors")
    loaded = Metric.load(tmp_path / "metric.safetensors")
    assert loaded.outside == 1.0
    assert_array_equal(loaded.factor, metric.factor)
    assert_array_equal(loaded.pairwise(rows), metric.pairwise(rows))
    assert_array_equal(loaded.transform(rows), mapped)


@pytest.mark.parametrize("span", [True, False])
@pytest.mark.parametrize("rank", [1, 4])
def test_few_directions_are_those_that_differ_most(wide, monkeypatch, steps, span, rank):
    X, given = wide
    wide_route(monkeypatch, span)
    model = DuRP(prior="identity", reg=REG, n_components=rank, eigen_tol=1e-7, random_state=0)
    metric = model.fit(sp.csr_array(X), given).metric_
    assert metric.factor.shape == (150, rank)
    assert metric.rank == 150
    weight = model.dual_coef_ / (REG * len(given))
    unit, _ = unit_and_scale(X, np.eye(150))
    values, vectors = np.linalg.eigh(steps[0] * weighted_sum(X / unit, given.index, weight))
    keep = np.argsort(-np.abs(values))[:rank]
    values, vectors = values[keep], vectors[:, keep]
    M = np.eye(150) + (vectors * (np.maximum(1.0 + values, 0.0) - 1.0)) @ vectors.T
    assert_near(metric.matrix(), M, 1e-5)


@pytest.mark.parametrize("kind", ["identity", *METRICS])
@pytest.mark.parametrize("estimator", [DuRP, DuOri])
def test_part_of_the_correction(data, steps, estimator, kind):
    X, given = data
    prior = kind if kind == "identity" else metrics(4)[kind]
    M0 = matrix_of(prior, 4)
    model = estimator(prior=prior, strength=0.3, reg=REG, scale=False, random_state=0).fit(X, given)
    step = 0.3 * (steps[0] if steps else 1.0)
    M = expected_matrix(model, X, given, M0, step)
    assert_near(model.metric_.matrix(), M, 1e-6)
    assert np.abs(M - expected_matrix(model, X, given, M0, step / 0.3)).max() > 0.01


@pytest.mark.parametrize("span", [True, False])
def test_a_fit_made_weaker_is_a_fit_of_that_strength(wide, monkeypatch, span, steps):
    X, given = wide
    wide_route(monkeypatch, span)
    options = {"prior": "identity", "reg": REG, "eigen_tol": 1e-8, "random_state": 0}
    found, expected = (
        learn.learn(X, given, DuRP(strength=s, **options), np.random.default_rng(0))
        for s in (1.0, 0.1)
    )
    changed = learn.weaker(found, 0.1)
    assert changed.outside == expected.outside == 1.0
    L, expected_L = changed.factor, expected.factor
    assert_allclose(L @ L.T, expected_L @ expected_L.T, atol=1e-8)
    assert_allclose(changed.change, expected.change, atol=1e-8)
    # some directions were removed, and are not when the correction is weaker
    assert (found.change < -1.0).any()
    assert (expected.change > -1.0).all()


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("form", ["low rank", "corrected", "plain"])
@pytest.mark.parametrize("estimator", [DuRP, DuOri])
def test_a_metric_of_many_features(wide, monkeypatch, steps, kind, form, estimator):
    X, given = wide
    wide_route(monkeypatch, span=True)
    prior = metrics(150)[form]
    model = estimator(prior=prior, reg=REG, scale=False, eigen_tol=1e-8, random_state=0)
    metric = model.fit(as_kind(X, kind), given).metric_
    M = expected_matrix(model, X, given, prior.matrix(), *steps)
    assert metric.outside == pytest.approx({"low rank": 0.0, "corrected": 0.8, "plain": 1.0}[form])
    assert np.abs(M - prior.matrix()).max() > 0.02 * np.abs(M).max()
    assert_near(metric.matrix(), M, 1e-5)


@pytest.mark.parametrize("outside", [0.0, 0.8])
def test_few_rows_leave_all_directions_of_a_metric(wide, monkeypatch, steps, outside):
    X, _ = wide
    wide_route(monkeypatch, span=True)
    prior = Metric(orthogonal(150, 20, np.linspace(1.5, 3.0, 20)), outside=outside)
    given = Comparisons([[0, 1, 0, 2], [3, 1, 2, 3]], margin=[200.0, 300.0])
    model = DuOri(prior=prior, reg=0.01, scale=False, eigen_tol=1e-8, random_state=0)
    metric = model.fit(X[:4], given).metric_
    M = expected_matrix(model, X[:4], given, prior.matrix(), *steps, reg=0.01)
    assert np.abs(M - prior.matrix()).max() > 0.02 * np.abs(M).max()
    assert_near(metric.matrix(), M, 1e-5)


@pytest.mark.parametrize("span", [True, False])
@pytest.mark.parametrize("form", ["identity", "low rank", "corrected"])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_many_features_on_a_device(wide, monkeypatch, span, form, distance):
    xp = pytest.importorskip("array_api_strict")
    X, given = wide
    wide_route(monkeypatch, span)
    prior = form if form == "identity" else metrics(150)[form]
    model = DuRP(prior=prior, distance=distance, eigen_tol=1e-8, random_state=0)
    expected = model.fit(X, given).metric_.pairwise(X)
    there = model.fit(xp.asarray(X, device=xp.Device("device1")), given).metric_.pairwise(X)
    assert_near(there, expected, 1e-7)


def test_a_learned_metric_is_corrected(wide, monkeypatch):
    X, given = wide
    wide_route(monkeypatch, span=True)
    first = DuRP(prior="identity", reg=REG, random_state=0).fit(sp.csr_array(X), given)
    more = Comparisons(given.index[:, [2, 3, 0, 1]][:10])
    second = DuRP(prior=first.metric_, reg=REG, random_state=0).fit(sp.csr_array(X), more)
    assert second.score(X, more) > first.score(X, more)


@pytest.mark.parametrize("n", [400, 4500], ids=["in the span of the rows", "in the features"])
def test_no_dense_rows_and_no_square(n, monkeypatch):
    d = 20_000
    X, y = make_wide(n, d, dtype=np.float32)
    options = {"prior": "identity", "n_triplets": 2000, "n_components": 5, "random_state": 0}
    DuRP(distance="cosine", **options).fit(X[:, :5000], y)  # what is loaded once is not counted
    written = sp.csr_matrix.toarray

    def small(self, *args, **more):
        assert self.shape[0] * self.shape[1] < n * d / 4
        return written(self, *args, **more)

    monkeypatch.setattr(sp.csr_matrix, "toarray", small)
    for distance in ("euclidean", "cosine"):
        tracemalloc.start()
        try:
            model = DuRP(distance=distance, **options).fit(X, y)
            model.pair_distance(X[:-1], X[1:])
            distances = model.metric_.pairwise(X[:100])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < n * d * 4 / 2
        assert peak < d * d * 4 / 20
        assert model.metric_.outside == 1.0
        # rows of one class have come closer
        plain = Euclidean(distance).fit(X).metric_.pairwise(X[:100])
        same = y[:100, None] == y[:100]
        np.fill_diagonal(same, False)
        assert distances[same].mean() / distances.mean() < plain[same].mean() / plain.mean()


def test_real_width_equals_the_same_rows_written_out(rng, steps):
    """Above 4,000 features, without any change to the limits."""
    X, _ = make_wide(30, 4500)
    given = Comparisons(random_comparisons(30, 50, rng))
    model = DuRP(prior="identity", random_state=0).fit(X, given)
    dense = X.toarray()
    # Δ = QBQᵀ over the span of the rows, and the metric is the plain one outside
    Q, _ = np.linalg.qr((dense - dense.mean(axis=0)).T)
    rows = dense @ Q
    unit, _ = unit_and_scale(rows, np.eye(30))
    B = weighted_sum(rows / unit, given.index, model.dual_coef_ / (0.01 * 50))
    expected = pairwise(rows, positive_semidefinite(np.eye(30) + steps[0] * B))
    assert_near(model.metric_.pairwise(X), expected, 1e-7)
    # rows that were not seen have a part outside
    new, _ = make_wide(12, 4500, seed=1)
    inside = (new.toarray() - dense.mean(axis=0)) @ Q
    apart = pairwise(new, np.eye(4500)) ** 2 - pairwise(inside, np.eye(30)) ** 2
    M = positive_semidefinite(np.eye(30) + steps[0] * B)
    assert_near(model.metric_.pairwise(new), np.sqrt(apart + pairwise(inside, M) ** 2), 1e-6)


# --- nothing to correct ---------------------------------------------------------------------


@pytest.fixture
def satisfied():
    """Rows of two classes far apart, and comparisons that every distance satisfies by far."""
    X, y = make_classes(40, 4, n_classes=2, shift=100.0)
    zeros, ones = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    index = np.column_stack([zeros[:15], zeros[1:16], zeros[:15], ones[:15]])
    return X, Comparisons(index, margin=0.1)


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("prior", ["identity", "whitening"])
def test_a_prior_that_satisfies_all_is_returned(satisfied, estimator, distance, prior):
    X, given = satisfied
    shrinkage = 0.9 if prior == "whitening" else 1.0
    model = estimator(prior=prior, shrinkage=shrinkage, distance=distance, random_state=0)
    with pytest.warns(UserWarning, match="the prior satisfies all 15 comparisons: it is returned"):
        model.fit(X, given)
    plain = Euclidean(distance) if prior == "identity" else Whitening(0.9, distance=distance)
    expected = plain.fit(X, given).metric_.pairwise(X)
    assert_near(model.metric_.pairwise(X), expected, 1e-10)
    assert not model.dual_coef_.any()


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize("form", METRICS)
@pytest.mark.parametrize("many", [False, True])
def test_a_metric_that_satisfies_all_is_returned(satisfied, monkeypatch, estimator, form, many):
    X, given = satisfied
    if many:
        wide_route(monkeypatch, span=True)
        monkeypatch.setattr(module, "DENSE_LIMIT", 2)
        monkeypatch.setattr(learn, "DENSE_LIMIT", 2)
    prior = metrics(4)[form]
    with pytest.warns(UserWarning, match="the prior satisfies all 15 comparisons"):
        model = estimator(prior=prior, random_state=0).fit(X, given)
    assert_near(model.metric_.pairwise(X), prior.pairwise(X), 1e-6)


# --- what is refused ------------------------------------------------------------------------


def lifted(d):
    return Metric(np.ones((3, 2)), lift=Lift(np.eye(3, d), 1.0))


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"prior": "flat"}, ValueError, "prior must be None, 'identity', 'whitening' or a Metric; "
         "got 'flat'"),
        ({"prior": ""}, ValueError, "got ''"),
        ({"prior": 3}, TypeError, "prior must be None, 'identity', .* got int"),
        ({"prior": np.eye(12)}, TypeError, "or a Metric; got ndarray"),
        ({"prior": True}, TypeError, "got bool"),
        ({"prior": Metric(np.eye(5))}, ValueError, "over 5 features, but X has 12: use one that"),
        ({"prior": lifted(12)}, ValueError, "cannot be combined with a lift: use lift=None"),
        ({"prior": Metric(np.eye(12)), "lift": "rbf"}, ValueError, "be combined with a lift"),
        ({"prior": Metric(np.eye(12), idf=np.ones(12))}, ValueError,
         r"weights counts by tf-idf.*pass prior\.replaced\(idf=None\)"),
        ({"prior": "whitening"}, ValueError, "needs a shrinkage below 1.* 0.9 is a good start"),
        ({"prior": "identity", "shrinkage": 0.5}, ValueError,
         r"shrinkage=0\.5 can be used with prior=None or prior='whitening' only: "),
        ({"prior": Metric(np.eye(12)), "shrinkage": 0.5}, ValueError, r"=0\.5 can be used with"),
        ({"prior": Metric(np.zeros((12, 1)))}, ValueError, "have distance zero by the prior"),
        ({"strength": 0.5}, ValueError, r"strength=0\.5 applies only with .* set prior='identity'"),
    ],
)  # fmt: skip
def test_refused(estimator, options, error, message):
    model = estimator(n_triplets=100, random_state=0, **options)
    with pytest.raises(error, match=message):
        model.fit(*make_classes())
    assert not hasattr(model, "metric_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"prior": "whitening", "shrinkage": 0.5},
            "for at most 4,000 features, but X has 5,000: use prio",
        ),
        (
            {"prior": "identity", "power": 0.25},
            r"power=0\.25 cannot be combined with a prior on more than",
        ),
    ],
)
def test_refused_for_many_features(options, message):
    X, y = make_wide(60)
    with pytest.raises(ValueError, match=message):
        DuRP(n_triplets=100, **options).fit(X, y)


def test_a_prior_of_rows_scaled_first_is_refused():
    X, y = make_classes()
    options = {"distance": "cosine", "n_triplets": 300, "random_state": 0}
    first = DuRP(prior="identity", **options).fit(X, y).metric_
    with pytest.raises(ValueError, match=r"a prior must be linear: use one that was learned"):
        DuRP(prior=first, **options).fit(X, y)


@pytest.mark.parametrize("estimator", [SRP, SPCA])
def test_confined_metrics_have_no_prior(estimator):
    assert "prior" not in estimator().get_params()
    with pytest.raises(TypeError, match="prior"):
        estimator(prior="identity")


def test_power_with_a_prior_of_few_features(data):
    X, given = data
    options = {"prior": "identity", "reg": 2.0, "random_state": 0}
    plain = DuOri(**options).fit(X, given).metric_.matrix()
    values, vectors = np.linalg.eigh(plain)
    values = values[::-1]
    lengths = np.sqrt(values[0]) * (values / values[0]) ** 0.25
    expected = (vectors[:, ::-1] * lengths**2) @ vectors[:, ::-1].T
    found = DuOri(power=0.25, **options).fit(X, given).metric_.matrix()
    assert values[-1] > 0
    assert_near(found, expected, 1e-9)


def test_triplets_and_labels_too(rng, random_index):
    X, y = make_classes()
    known = [y, Triplets(random_index(60, 50, rng))]
    for supervision in known:
        model = DuRP(prior="identity", n_triplets=200, random_state=0).fit(X, supervision)
        assert model.score(X, supervision) > Euclidean().fit(X).score(X, supervision)


def test_columns_are_taken_by_the_names_of_the_prior():
    pd = pytest.importorskip("pandas")
    X, y = make_classes()
    frame = pd.DataFrame(X, columns=list("abcdefghijkl"))
    prior = DuRP(n_triplets=500, random_state=0).fit(frame, y).metric_
    expected = DuRP(prior=prior, n_triplets=500, random_state=0).fit(frame, y).metric_
    turned = (
        DuRP(prior=prior, n_triplets=500, random_state=0)
        .fit(frame[list("lkjihgfedcba")], y)
        .metric_
    )
    np.testing.assert_array_equal(turned.pairwise(frame), expected.pairwise(frame))
    assert expected.info["parameters"]["prior"] == repr(prior)
    with pytest.raises(ValueError, match="X has no column 'a'"):
        DuRP(prior=prior).fit(frame.rename(columns={"a": "z"}), y)


def test_a_cosine_prior_needs_the_cosine():
    X, y = make_classes()
    prior = DuRP(distance="cosine", n_triplets=500, random_state=0).fit(X, y).metric_
    with pytest.raises(ValueError, match="use distance='cosine'"):
        DuRP(prior=prior).fit(X, y)
