"""The general problem: comparisons of any four rows, with targets, weights and a prior M₀."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from dualmetric import DuOri, DuRP
from dualmetric._arrays import ops
from dualmetric.losses import LOSSES, get_loss
from dualmetric.solver import solve_dual
from dualmetric.supervision import Comparisons, Triplets
from makers import make_classes
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
every_loss = pytest.mark.parametrize("name", list(LOSSES))


@pytest.fixture
def problem(rng):
    """20 rows in 3 dimensions, 30 comparisons with targets of either sign and weights."""
    Z = 0.7 * rng.normal(size=(20, 3))
    margin, weight = rng.normal(0.7, 1.0, size=30), rng.uniform(0.1, 3.0, size=30)
    assert (margin < 0).any()
    return Z, Comparisons(random_comparisons(20, 30, rng), margin, weight)


def solve(Z, comparisons, name, reg=REG, tol=1e-10, **options):
    options = {"rng": np.random.default_rng(0), "max_epochs": 30_000} | options
    return solve_dual(Z, comparisons, get_loss(name), reg=reg, tol=tol, **options)


def solution(Z, comparisons, beta, reg=REG):
    """Δ = V/(λN)."""
    return weighted_sum(Z, comparisons.index, beta) / (reg * len(comparisons))


def assert_near(actual, expected, tolerance):
    assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# --- the solver -----------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("with_prior", [False, True])
def test_equals_a_general_purpose_solver(problem, rng, name, with_prior):
    Z, comparisons = problem
    A = comparison_matrices(Z, comparisons.index)
    M0 = np.zeros((3, 3))
    if with_prior:
        root = rng.normal(size=(3, 3))
        M0 = root @ root.T
    # a prior only lowers the targets
    margin = comparisons.margin - inner(M0, A)
    found = solve(Z, Comparisons(comparisons.index, margin, comparisons.weight), name)
    last = found.history[-1]
    assert last.gap <= 1e-10 * last.primal
    loss, terms = get_loss(name), (A, comparisons.margin, comparisons.weight)
    expected = minimise_primal(M0, *terms, loss, REG)
    M = M0 + solution(Z, comparisons, found.beta)
    assert_near(M, expected, 2e-5)
    best = primal(M, M0, *terms, loss, REG)
    assert last.primal == pytest.approx(best, rel=1e-12)
    # 1e-6: for the hinge, the other solver's own distance from the optimum
    assert best == pytest.approx(primal(expected, M0, *terms, loss, REG), rel=1e-6)
    # nothing nearby is better
    for size in (1e-3, 1e-1):
        for _ in range(20):
            other = M + size * (step := rng.normal(size=(3, 3))) + size * step.T
            assert primal(other, M0, *terms, loss, REG) > best


@every_loss
def test_weight_two_is_the_comparison_twice(problem, name):
    Z, comparisons = problem
    N = len(comparisons)
    doubled = Comparisons(
        comparisons.index, comparisons.margin, np.where(np.arange(N) < 10, 2.0, 1.0)
    )
    places = np.r_[np.arange(N), np.arange(10)]
    twice = Comparisons(comparisons.index[places], comparisons.margin[places], np.ones(N + 10))
    # the mean is over more comparisons: λN is kept
    reg = REG * N / (N + 10)
    once, again = solve(Z, doubled, name), solve(Z, twice, name, reg=reg)
    M = solution(Z, doubled, once.beta)
    assert_near(solution(Z, twice, again.beta, reg), M, 2e-4)
    assert again.history[-1].primal * (N + 10) == pytest.approx(
        once.history[-1].primal * N, rel=1e-8
    )
    plain = solve(Z, Comparisons(comparisons.index, comparisons.margin, np.ones(N)), name)
    assert np.abs(solution(Z, doubled, plain.beta) - M).max() > 0.01 * np.abs(M).max()


@every_loss
def test_common_factor_of_weights_is_one_of_regularisation(problem, name):
    Z, comparisons = problem
    scaled = Comparisons(comparisons.index, comparisons.margin, 8.0 * comparisons.weight)
    options = {"max_epochs": 4, "tol": None}
    first = solve(Z, comparisons, name, **options)
    second = solve(Z, scaled, name, reg=8.0 * REG, **options)
    assert_allclose(second.beta, 8.0 * first.beta, rtol=1e-10, atol=1e-13)


@every_loss
def test_a_vanishing_weight_is_no_comparison(problem, name):
    Z, comparisons = problem
    weight = np.where(np.arange(30) < 12, 1e-12, comparisons.weight)
    nearly = solve(Z, Comparisons(comparisons.index, comparisons.margin, weight), name)
    rest = comparisons._part(np.arange(12, 30))
    without = solve(Z, rest, name, reg=REG * 30 / 18)
    M = solution(Z, rest, without.beta, REG * 30 / 18)
    assert_near(solution(Z, comparisons, nearly.beta), M, 2e-4)


@every_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_order_of_the_rows_of_a_pair_does_not_matter(problem, name, dtype):
    Z, comparisons = problem
    options = {"max_epochs": 3, "tol": None}
    expected = solve(Z.astype(dtype), comparisons, name, **options)
    for order in ([1, 0, 2, 3], [0, 1, 3, 2], [1, 0, 3, 2]):
        index = np.ascontiguousarray(comparisons.index[:, order])
        turned = Comparisons(index, comparisons.margin, comparisons.weight)
        got = solve(Z.astype(dtype), turned, name, **options)
        assert_allclose(got.beta, expected.beta, atol=1e-11 if dtype == np.float64 else 2e-4)


@every_loss
def test_target_and_pairs_exchanged(problem, name):
    # A_t changes its sign, and so does the solution where the target and loss are the same
    Z, comparisons = problem
    index = np.ascontiguousarray(comparisons.index[:, [2, 3, 0, 1]])
    exchanged = Comparisons(index, comparisons.margin, comparisons.weight)
    first, second = solve(Z, comparisons, name), solve(Z, exchanged, name)
    assert_near(solution(Z, exchanged, second.beta), -solution(Z, comparisons, first.beta), 2e-4)


@every_loss
def test_float32_finds_the_same(problem, name):
    Z, comparisons = problem
    exact = solution(Z, comparisons, solve(Z, comparisons, name).beta)
    found = solve(Z.astype(np.float32), comparisons, name, tol=1e-6, max_epochs=5000)
    assert found.beta.dtype == np.float32
    assert found.gap <= 1e-5 * found.history[-1].primal
    # ‖ΔM‖² ≤ 2·gap/λ
    assert_near(solution(Z, comparisons, found.beta), exact, 0.02)


def test_one_comparison_by_hand():
    # rows 0, 2 and 5, 9 on a line: A = 16 − 4 = 12 and λN = λ. With target b and weight w, the
    # hinge has β = λb/144 where that is at most w
    Z, index = np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([[0, 1, 2, 3]])
    for reg, margin, weight, beta in (
        (18.0, 2.0, 1.0, 0.25),
        (18.0, 2.0, 0.1, 0.1),
        (144.0, 5.0, 3.0, 3.0),
        (144.0, -1.0, 1.0, 0.0),
    ):
        comparisons = Comparisons(index, np.array([margin]), np.array([weight]))
        found = solve(Z, comparisons, "hinge", reg=reg)
        assert found.beta[0] == pytest.approx(beta, rel=1e-14)
        M = 12.0 * beta / reg
        assert found.history[-1].primal == pytest.approx(
            0.5 * reg * M**2 + weight * max(0.0, margin - 12.0 * M), rel=1e-12
        )


# --- estimators -----------------------------------------------------------------------------


@pytest.fixture
def data(rng):
    """30 rows of 4 features, 60 comparisons of them with targets and weights."""
    X = 0.7 * rng.normal(size=(30, 4))
    margin, weight = rng.uniform(0.2, 2.0, size=60), rng.uniform(0.1, 3.0, size=60)
    return X, Comparisons(random_comparisons(30, 60, rng), margin, weight)


@every_loss
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_duori_is_the_positive_part_of_the_minimiser(data, name, kind):
    X, comparisons = data
    model = DuOri(loss=name, reg=REG, scale=False, max_epochs=20_000, tol=1e-10, random_state=0)
    model.fit(kind(X), comparisons)
    A = comparison_matrices(X, comparisons.index)
    M = minimise_primal(
        np.zeros((4, 4)), A, comparisons.margin, comparisons.weight, get_loss(name), REG
    )
    assert np.linalg.eigvalsh(M)[0] < -1e-3  # so that the projection has something to do
    assert_near(model.metric_.matrix(), positive_semidefinite(M), 1e-4)
    assert_array_equal(model.comparisons_.index, comparisons.index)
    assert_array_equal(model.comparisons_.weight, comparisons.weight)
    assert_array_equal(model.comparisons_.margin, comparisons.margin)


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_triplets_are_comparisons_of_three_rows(estimator, shrinkage, random_index, rng):
    X, _ = make_classes()
    triplets = random_index(60, 100, rng)
    options = {"shrinkage": shrinkage, "random_state": 0}
    first = estimator(**options).fit(X, Triplets(triplets))
    second = estimator(**options).fit(X, Comparisons(triplets[:, [0, 1, 0, 2]]))
    assert_array_equal(first.metric_.factor, second.metric_.factor)
    assert_array_equal(first.dual_coef_, second.dual_coef_)


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
def test_silent_comparisons_have_no_part(data, estimator):
    X, comparisons = data
    expected = estimator(random_state=0).fit(X, comparisons)
    index = np.concatenate([comparisons.index, [[3, 4, 5, 6], [1, 2, 2, 1]]])
    margin = np.r_[comparisons.margin, 1.0, 1.0]
    weighed = Comparisons(index[:-1], margin[:-1], np.r_[comparisons.weight, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a weight of zero says what is wanted
        got = estimator(random_state=0).fit(X, weighed)
    assert_array_equal(got.metric_.factor, expected.metric_.factor)
    assert len(got.comparisons_) == 60
    same_pair = Comparisons(index, margin, np.r_[comparisons.weight, 0.0, 1.0])
    with pytest.warns(UserWarning, match="1 of 62 comparisons compare a pair of rows with itself"):
        got = estimator(random_state=0).fit(X, same_pair)
    assert_array_equal(got.metric_.factor, expected.metric_.factor)


@pytest.mark.parametrize("model", [DuRP(90), DuOri()])
def test_weights_decide_between_contradictions(model, rng):
    """Half of the comparisons are true of feature 0, half of feature 1: the heavier half wins."""
    X = rng.normal(size=(60, 4))
    index = random_comparisons(60, 400, rng)
    a, b, c, d = index.T
    halves = []
    for feature, part in ((0, slice(0, 200)), (1, slice(200, 400))):
        wrong = np.abs(X[a, feature] - X[b, feature]) > np.abs(X[c, feature] - X[d, feature])
        turned = np.where(wrong[:, None], index[:, [2, 3, 0, 1]], index)
        halves.append(turned[part])
    for heavy in (0, 1):
        weight = np.repeat([1.0, 0.02] if heavy == 0 else [0.02, 1.0], 200)
        model.set_params(max_epochs=100, random_state=0).fit(
            X, Comparisons(np.concatenate(halves), weight=weight)
        )
        scores = [model.score(X, Comparisons(half)) for half in halves]
        assert scores[heavy] > 0.75
        assert scores[heavy] > scores[1 - heavy] + 0.2


@pytest.mark.parametrize("estimator", [DuRP, DuOri])
def test_rows_far_apart_in_the_file_are_found(estimator, rng):
    # comparisons name few of many rows: only those are copied, and they keep their numbers
    X, _ = make_classes(400)
    index = 7 + 13 * random_comparisons(30, 50, rng)
    # solved: the order of the steps follows from the numbers of the rows
    solved = {"loss": "smoothed_hinge", "max_epochs": 5000, "tol": 1e-13}
    model = estimator(random_state=0, scale=False, **solved)
    small = clone(model).fit(X[7::13], Comparisons((index - 7) // 13))
    large = model.fit(X, Comparisons(index))
    assert_near(large.metric_.matrix(), small.metric_.matrix(), 1e-5)
    assert_array_equal(large.comparisons_.index, index)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_margins_of_sparse_rows(data, dtype):
    X, comparisons = data
    rows = sp.csr_array(X.astype(dtype))
    got = ops.margins(rows, comparisons.index)
    assert got.dtype == dtype
    expected = np.trace(comparison_matrices(X, comparisons.index), axis1=1, axis2=2)
    assert_allclose(got, expected, atol=1e-5 if dtype == np.float32 else 1e-13)
    with pytest.raises(TypeError, match="sparse rows"):
        ops.margins(rows, comparisons.index, np.eye(4))
