"""LMNN: the objective against its definition, the gradient against differences, and the fit."""

import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dualmetric import LMNN, Metric
from dualmetric._arrays.kernels import impostor_weights
from dualmetric.estimators import lmnn
from dualmetric.estimators.lmnn import _Objective, _target_neighbors, lmnn_objective
from dualmetric.problem import SCALE
from makers import make_classes

make_data = partial(make_classes, d=6, shift=2.0)


@pytest.fixture
def data():
    return make_data()


def small_classes():
    """Classes of 12, 3, 2, 1 and 1 rows; some rows are duplicates, in a class and across two."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2, 3, 4], [12, 3, 2, 1, 1])
    X = rng.standard_normal((19, 4))
    X[1] = X[0]
    X[13] = X[12]
    X[14] = X[2]
    X[18] = X[5]
    order = rng.permutation(19)
    return X[order], y[order]


def distances(X):
    return ((X[:, None, :] - X) ** 2).sum(axis=2)


def plain_targets(X, y, k):
    """T(i): at most k other rows of the class of row i."""
    D = distances(X)
    targets = []
    for i in range(len(X)):
        mates = [j for j in range(len(X)) if j != i and y[j] == y[i]]
        targets.append(sorted(mates, key=lambda j: D[i, j])[:k])
    return targets


def plain_objective(X, y, k, L, push):
    """The definition: three loops."""
    D = distances(X @ L)
    value = 0.0
    for i, mates in enumerate(plain_targets(X, y, k)):
        for j in mates:
            value += (1 - push) * D[i, j]
            for l in range(len(X)):  # noqa: E741
                if y[l] != y[i]:
                    value += push * max(0.0, 1.0 + D[i, j] - D[i, l])
    return value


def squares(rng, d):
    """Several L: the identity, a full one, a narrow one, one that loses a direction, zero."""
    lossy = np.eye(d)
    lossy[0, 0] = 0.0
    return [
        np.eye(d),
        rng.standard_normal((d, d)),
        0.4 * rng.standard_normal((d, 2)),
        lossy,
        np.zeros((d, d)),
    ]


@pytest.fixture(params=["candidates", "all pairs"])
def route(request, monkeypatch):
    """Both ways to the push term."""
    if request.param == "all pairs":
        monkeypatch.setattr(lmnn, "_MAX_CANDIDATES", 0)

        def refuse(*args):
            raise AssertionError("no candidates may be used")

        monkeypatch.setattr(_Objective, "_candidates", refuse)
    else:
        # n²/8 is for speed: here every problem is small enough
        original = _Objective.__init__

        def keep_all(self, X, *args):
            original(self, X, *args)
            self._most = 2 * X.shape[0] ** 2

        monkeypatch.setattr(_Objective, "__init__", keep_all)

        def refuse(*args):
            raise AssertionError("candidates must be used")

        monkeypatch.setattr(_Objective, "_all_pairs", refuse)
    return request.param


# --- the objective ----------------------------------------------------------------------------


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("push", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("k", [1, 3, 5, 50])
@pytest.mark.parametrize("make", [make_data, small_classes])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_objective_equals_the_definition(form, make, k, push, rng):
    X, y = make()
    targets = _target_neighbors(form(X), y, k)
    for L in squares(rng, X.shape[1]):
        value, gradient = lmnn_objective(form(X), y, targets, L, push)
        assert value == pytest.approx(plain_objective(X, y, k, L, push), rel=1e-11, abs=1e-11)
        assert gradient.shape == L.shape


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("push", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("make", [make_data, small_classes])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_gradient_equals_central_differences(form, make, push, rng):
    X, y = make()
    X = form(X)
    targets = _target_neighbors(X, y, 3)
    d = X.shape[1]
    for L in (np.eye(d), rng.standard_normal((d, d)), 0.4 * rng.standard_normal((d, 2))):
        L = L + 1e-3 * rng.standard_normal(L.shape)  # off the kinks of max(0, ·)
        _, gradient = lmnn_objective(X, y, targets, L, push)
        expected = np.zeros_like(L)
        for place in np.ndindex(L.shape):
            step = np.zeros_like(L)
            step[place] = 1e-6
            above = lmnn_objective(X, y, targets, L + step, push)[0]
            below = lmnn_objective(X, y, targets, L - step, push)[0]
            expected[place] = (above - below) / 2e-6
        assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max() + 1e-7)
        assert np.abs(gradient).max() > 0.1


def test_objective_by_hand():
    """Rows 0, 1 | 3 on a line, L = 1: D_01 = 1 both ways; impostor 3 at 9 and at 4 of row 1.

    Row 0: 1 + 1 − 9 < 0. Row 1: 1 + 1 − 4 < 0. Row 3 has no class mate. With L = ½ the squares
    are a quarter: row 0: 1 + ¼ − 9/4 < 0, row 1: 1 + ¼ − 1 = ¼.
    """
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    targets = _target_neighbors(X, y, 3)
    assert_array_equal(targets, [[1], [0], [2]])
    assert lmnn_objective(X, y, targets, np.array([[1.0]]), 0.5)[0] == pytest.approx(1.0)
    value, gradient = lmnn_objective(X, y, targets, np.array([[0.5]]), 0.5)
    assert value == pytest.approx(0.5 * 0.5 + 0.5 * 0.25)
    # d/dL of ½·2L² + ½(1 + L² − 4L²)
    assert_allclose(gradient, [[2 * 0.5 - 3 * 0.5]])


def test_targets_equal_brute_force(rng):
    X, y = rng.standard_normal((50, 5)), rng.integers(4, size=50)
    y[7] = 9  # alone
    y = np.unique(y, return_inverse=True)[1]
    found = _target_neighbors(X, y, 4)
    assert found.shape == (50, 4)
    for i, mates in enumerate(plain_targets(X, y, 4)):
        assert_array_equal(found[i], mates + [i] * (4 - len(mates)))
    assert_array_equal(found[7], [7] * 4)


def test_targets_of_small_classes_occur_once():
    X, y = small_classes()
    for k in (2, 3, 11, 40):
        found = _target_neighbors(X, y, k)
        assert found.shape[1] == min(k, 11)
        for i, row in enumerate(found):
            mates = row[row != i]
            assert len(set(mates)) == len(mates) == min(k, (y == y[i]).sum() - 1)
            assert (y[mates] == y[i]).all()


def test_kernel_equals_the_definition(rng):
    n, k = 30, 3
    D = distances(rng.standard_normal((n, 3)))
    labels = rng.integers(3, size=n)
    thresholds = np.sort(1.0 + 3.0 * rng.random((n, k)), axis=1)
    thresholds[4, :2] = -np.inf  # fewer targets
    thresholds[5] = -np.inf  # none
    weights, counts, losses = D[10:].copy(), np.zeros((n, k)), np.zeros(n)
    for start, stop in ((0, 7), (7, 20)):
        impostor_weights(weights, labels, thresholds, 10, start, stop, counts, losses)
    slack = thresholds[:, None, :] - D[:, :, None]
    slack[labels[:, None] == labels] = -1.0
    slack[:10] = -1.0  # not in this block
    assert_array_equal(weights, (slack > 0).sum(axis=2)[10:])
    assert_array_equal(counts, (slack > 0).sum(axis=1))
    assert_allclose(losses, np.maximum(slack, 0.0).sum(axis=(1, 2)))


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("height", [1, 7, 59, 60])
def test_blocks_equal_one_block(height, data, monkeypatch, rng):
    X, y = data
    targets = _target_neighbors(X, y, 3)
    L = rng.standard_normal((6, 6))
    value, gradient = lmnn_objective(X, y, targets, L, 0.5)
    monkeypatch.setattr(lmnn, "_BLOCK_BYTES", height * 60 * 8)
    in_blocks = lmnn_objective(X, y, targets, L, 0.5)
    assert in_blocks[0] == pytest.approx(value, rel=1e-13)
    assert_allclose(in_blocks[1], gradient, atol=1e-11 * np.abs(gradient).max())


@pytest.mark.parametrize("step", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("most", [300, 3600])
def test_remembered_candidates_miss_no_impostor(step, most, rng):
    """One objective along a path of L, where at times all rows jump, equals a new one at each."""
    X, y = make_data()
    targets = _target_neighbors(X, y, 3)
    objective = _Objective(X, y, targets, 0.5)
    objective._most = most
    L = np.eye(6)
    n_jumps = 0
    for turn in range(60):
        L = L + step * rng.standard_normal(L.shape) / 6
        if turn % 20 == 19:
            L = 0.3 * L  # many more impostors
            n_jumps += 1
        elif turn % 20 == 10:
            L = L / 0.3
        value, gradient = objective(L)
        assert value == pytest.approx(plain_objective(X, y, 3, L, 0.5), rel=1e-11)
        fresh = lmnn_objective(X, y, targets, L, 0.5)[1]
        assert_allclose(gradient, fresh, atol=1e-10 * np.abs(fresh).max())
    if most == 3600:
        assert n_jumps <= objective.n_searches
        if step == 0.003:  # most evaluations looked at the candidates only
            assert objective.n_searches < 30


def test_rows_that_move_toward_each_other_are_noticed():
    """Neither row moves by the slack of ½, but together they do: a new impostor, at 0.91."""
    X = np.array([[0.0, -0.755], [0.1, -0.755], [0.0, 0.755]])
    y = np.array([0, 0, 1])
    objective = _Objective(X, y, _target_neighbors(X, y, 1), 0.5)
    objective._most = 9
    for height in (1.0, 0.99, 0.91 / 1.51):
        L = np.diag([1.0, height])
        expected = plain_objective(X, y, 1, L, 0.5)
        assert objective(L)[0] == pytest.approx(expected, rel=1e-12)
    assert expected > 0.01 + 0.05  # more than the pull alone
    assert objective.n_searches == 2


# --- the fit ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:LMNN's objective with push")
@pytest.mark.parametrize("push", [0.0, 0.2, 0.5, 1.0])
def test_history_never_rises(push, data):
    model = LMNN(push=push).fit(*data)
    assert (np.diff(model.history_) <= 0.0).all()
    assert model.history_[-1] == model.objective_ < model.history_[0]
    assert len(model.history_) == model.n_iter_ + 1


@pytest.mark.parametrize("push", [0.2, 0.5])
def test_objective_is_that_of_the_metric(push, data):
    X, y = data
    model = LMNN(push=push).fit(X, y)
    unit = np.sqrt(distances(X).sum() / (60 * 59)) / SCALE
    start = plain_objective(X / unit, y, 3, np.eye(6), push)
    assert model.history_[0] == pytest.approx(start, rel=1e-11)
    # T(i) is that of the rows, D that of the learned metric
    end = plain_objective(X / unit, y, 3, model.metric_.factor * unit, push)
    assert model.objective_ == pytest.approx(end, rel=1e-10)


@pytest.mark.parametrize("push", [0.1, 0.5, 0.9])
def test_one_feature_solved_by_hand(push):
    """With one feature the objective is convex and piecewise linear in L²: a corner is least."""
    rng = np.random.default_rng(1)
    y = np.arange(24) % 2
    X = 2.0 * y[:, None] + rng.standard_normal((24, 1))
    model = LMNN(push=push, tol=1e-12).fit(X, y)
    unit = np.sqrt(distances(X).sum() / (24 * 23)) / SCALE
    rows = X / unit
    D = distances(rows)
    corners = {0.0}
    for i, mates in enumerate(plain_targets(rows, y, 3)):
        gaps = np.concatenate([D[i, y != y[i]] - D[i, j] for j in mates])
        corners |= set(1.0 / gaps[gaps > 0.0])
    least = min(plain_objective(rows, y, 3, np.array([[w**0.5]]), push) for w in corners)
    assert model.objective_ == pytest.approx(least, rel=1e-4)
    assert model.objective_ >= least * (1 - 1e-12)


@pytest.mark.parametrize("n_components", [None, 2])
def test_pull_alone_shrinks_everything_and_the_start_is_kept(n_components, data):
    X, y = data
    with pytest.warns(
        UserWarning,
        match=r"with push=0 is smallest for the zero matrix: .* is kept",
    ):
        model = LMNN(n_components, push=0.0, tol=1e-12).fit(X, y)
    assert model.objective_ < 1e-8 * model.history_[0]
    reduced = X if n_components is None else PCA(2).fit_transform(X)
    kept, expected = distances(model.transform(X)), distances(reduced)
    assert_allclose(kept / kept.sum(), expected / expected.sum(), atol=1e-12)


def gradient_at_zero(X, y, k, push):
    """The derivative of the objective with respect to M = LLᵀ at zero, by its definition."""
    G = np.zeros((X.shape[1], X.shape[1]))
    for i, mates in enumerate(plain_targets(X, y, k)):
        for j in mates:
            near = np.outer(X[i] - X[j], X[i] - X[j])
            G += (1 - push) * near
            for l in np.flatnonzero(y != y[i]):  # noqa: E741
                G += push * (near - np.outer(X[i] - X[l], X[i] - X[l]))
    return G


@pytest.mark.parametrize("push", [0.01, 0.02, 0.05, 0.5])
def test_zero_is_left_exactly_where_it_is_not_the_minimum(push):
    """The objective is convex in LLᵀ: zero is least if and only if the gradient there is ⪰ 0."""
    X, y = small_classes()
    unit = np.sqrt(distances(X).sum() / (19 * 18)) / SCALE
    rows = (X - X.mean(axis=0)) / unit
    least = np.linalg.eigvalsh(gradient_at_zero(rows, y, 3, push))[0]
    targets = _target_neighbors(rows, y, 3)
    objective = _Objective(rows, y, targets, push)
    found = objective.away_from_zero(2, lmnn._coordinates(rows, targets, None))
    assert (found is None) == (least >= 0.0)
    assert (least >= 0.0) == (push < 0.015)  # both happen here
    if found is not None:
        assert found.shape == (4, 2)
        assert objective(found)[0] < objective(np.zeros((4, 2)))[0]
    assert objective.is_collapsed(1e-3 * np.eye(4))


def lines(width):
    """Two classes on parallel lines: the leading component tells nothing about them."""
    place = np.linspace(-10, 10, 20)
    X = np.zeros((40, width))
    X[:, 0], X[20:, 1] = np.tile(place, 2), 1.0
    return X, np.repeat([0, 1], 20)


@pytest.mark.parametrize("width", [2, 300])
def test_a_factor_that_shrank_to_zero_starts_again(width):
    X, y = lines(width)
    model = LMNN(1, push=0.05, n_neighbors=10).fit(X, y)
    assert model.objective_ == pytest.approx(0.0, abs=1e-6)
    direction = np.abs(model.components_[0])
    assert direction[1] > 1e3 * direction[0]
    assert direction[1] >= 1.0  # the margin of one


@pytest.mark.parametrize("n_components", [1, 3, 15])
@pytest.mark.parametrize("push", [0.02, 0.5])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("width", [400, 1200])  # steps are scaled in all directions, or in some
def test_few_rows_of_many_features_do_not_give_zero(width, sparse, push, n_components):
    X, y = make_classes(24, d=width, shift=0.0)
    X[X < 0.5] = 0.0
    model = LMNN(n_components, push=push, random_state=0).fit(sp.csr_array(X) if sparse else X, y)
    assert model.metric_.rank == n_components
    assert model.objective_ < 1e-3 * model.history_[0]
    D = distances(model.transform(X))
    different = y[:, None] != y
    assert D[different].min() > 0.9  # every class is one point, outside the margin of the others
    mates = (y[:, None] == y) & ~np.eye(24, dtype=bool)
    assert D[mates].max() < 0.1


def test_push_alone_on_classes_far_apart_leaves_the_plain_distance(data):
    X, y = data
    X[:, 0] += 100.0 * y
    model = LMNN(push=1.0).fit(X, y)
    assert model.history_ == [0.0]
    assert model.objective_ == 0.0
    assert model.n_iter_ == 0
    matrix = model.metric_.matrix()
    assert_allclose(matrix, matrix[0, 0] * np.eye(6), atol=1e-12 * matrix[0, 0])


def test_push_alone_reaches_zero_where_a_metric_can():
    """The classes differ in the one feature that is small; noise must be shrunk beside it."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.column_stack([0.2 * y + 0.005 * rng.standard_normal(40), rng.standard_normal(40)])
    model = LMNN(push=1.0).fit(X, y)
    assert model.history_[0] > 1.0
    assert model.objective_ == 0.0


@pytest.mark.parametrize("n_components", [None, 3])
def test_unit_of_the_data_does_not_matter(n_components, data):
    """L is per unit: the transformed rows are the same, and the objective is."""
    X, y = data
    model = LMNN(n_components).fit(X, y)
    same = LMNN(n_components).fit(1024.0 * X, y)  # a power of two: no digit changes
    assert same.history_ == pytest.approx(model.history_, rel=1e-9)
    assert_allclose(same.transform(1024.0 * X), model.transform(X), atol=1e-6)
    other = LMNN(n_components).fit(1e-3 * X, y)
    assert other.history_[0] == pytest.approx(model.history_[0], rel=1e-12)
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-3)


def test_origin_of_the_data_does_not_matter(data):
    X, y = data
    moved, model = LMNN().fit(X + np.linspace(-100, 100, 6), y), LMNN().fit(X, y)
    assert moved.history_[0] == pytest.approx(model.history_[0], rel=1e-9)
    assert moved.objective_ == pytest.approx(model.objective_, rel=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
def test_principal_components_come_first(sparse, data):
    X, y = data
    pca = PCA(3).fit(X)
    there = LMNN().fit(pca.transform(X), y)
    model = LMNN(pca_components=3, random_state=0).fit(sp.csr_array(X) if sparse else X, y)
    assert model.components_.shape == (3, 6)
    assert model.objective_ == pytest.approx(there.objective_, rel=1e-6)
    expected = pca.components_.T @ there.metric_.matrix() @ pca.components_
    assert_allclose(model.metric_.matrix(), expected, atol=1e-3 * np.abs(expected).max())
    assert model.transform(X).shape == (60, 3)


def test_factor_on_principal_components(data):
    X, y = data
    pca = PCA(4).fit(X)
    there = LMNN(2).fit(pca.transform(X), y)
    model = LMNN(2, pca_components=4, random_state=0).fit(X, y)
    assert model.components_.shape == (2, 6)
    assert model.objective_ == pytest.approx(there.objective_, rel=1e-6)
    assert_allclose(model.components_ @ pca.components_.T @ pca.components_, model.components_)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_factor_of_a_rank_starts_from_principal_components(rank, sparse, data):
    """The objective at both ends is that of the definition, over all features."""
    X, y = data
    model = LMNN(rank, random_state=0).fit(sp.csr_array(X) if sparse else X, y)
    assert model.components_.shape == (rank, 6)
    assert model.metric_.rank == np.linalg.matrix_rank(model.components_) == rank
    pca = PCA(rank).fit(X)
    unit = np.sqrt(distances(pca.transform(X)).sum() / (60 * 59)) / SCALE
    start = plain_objective(X / unit, y, 3, pca.components_.T, 0.5)
    assert model.history_[0] == pytest.approx(start, rel=1e-9)
    end = plain_objective(X / unit, y, 3, model.metric_.factor * unit, 0.5)
    assert model.objective_ == pytest.approx(end, rel=1e-9)
    assert (np.diff(model.history_) <= 0.0).all()


def test_factor_is_at_a_minimum(data):
    """A factor of all but one dimension is about as good as a square one; steps do not help."""
    X, y = data
    model, square = LMNN(5, tol=1e-9).fit(X, y), LMNN(tol=1e-9).fit(X, y)
    assert model.objective_ == pytest.approx(square.objective_, rel=0.05)
    unit = np.sqrt(distances(PCA(5).fit_transform(X)).sum() / (60 * 59)) / SCALE
    rng, L = np.random.default_rng(0), model.metric_.factor * unit
    targets = _target_neighbors(X, y, 3)
    for _ in range(50):
        step = 1e-3 * np.abs(L).max() * rng.standard_normal(L.shape)
        value = lmnn_objective(X / unit, y, targets, L + step, 0.5)[0]
        assert value > model.objective_ * (1 - 1e-6)


@pytest.mark.parametrize("n_leading", [2, 4, 6])
def test_coordinates_do_not_change_the_minimum(n_leading, monkeypatch, data):
    X, y = data
    monkeypatch.setattr(lmnn, "_MAX_WRITTEN", 0)
    monkeypatch.setattr(lmnn, "_N_LEADING", n_leading)
    model = LMNN(2, tol=1e-9).fit(X, y)
    monkeypatch.undo()
    assert model.objective_ == pytest.approx(LMNN(2, tol=1e-9).fit(X, y).objective_, rel=1e-3)


def test_coordinates_are_inverse_to_each_other(data, rng):
    X, y = data
    targets = _target_neighbors(X, y, 3)
    for leading in (None, np.linalg.qr(rng.standard_normal((6, 3)))[0]):
        coordinates = lmnn._coordinates(X - X.mean(axis=0), targets, leading)
        A = rng.standard_normal((6, 2))
        assert_allclose(coordinates.shrink(coordinates.stretch(A)), A, atol=1e-10)
        B = rng.standard_normal((6, 2))  # symmetric: the gradient is stretched as L is
        assert np.vdot(coordinates.stretch(A), B) == pytest.approx(
            np.vdot(A, coordinates.stretch(B))
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_more_components_than_features_keep_all(sparse, data):
    X, y = data
    with pytest.warns(UserWarning, match=r"n_components=100 is more than the 6 features"):
        model = LMNN(100).fit(sp.csr_array(X) if sparse else X, y)
    plain = LMNN().fit(X, y)
    assert model.components_.shape == (6, 6)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
def test_more_components_than_the_rows_span_keep_all(sparse):
    X, y = make_data(20, d=50)
    message = "n_components=30 is more than the 19 directions in which X varies"
    with pytest.warns(UserWarning, match=message):
        model = LMNN(30, random_state=0).fit(sp.csr_array(X) if sparse else X, y)
    assert model.components_.shape == (19, 50)


def test_factor_of_sparse_rows_equals_that_of_dense_rows(data):
    X, y = data
    X[X < 0.2] = 0.0
    dense = LMNN(2, tol=1e-9, random_state=0).fit(X, y)
    for form in (sp.csr_matrix, sp.csr_array):
        sparse = LMNN(2, tol=1e-9, random_state=0).fit(form(X), y)
        assert sparse.history_[0] == pytest.approx(dense.history_[0], rel=1e-9)
        assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-3)
        expected = distances(dense.transform(X))
        assert_allclose(distances(sparse.transform(form(X))), expected, atol=0.02 * expected.max())


def test_wide_sparse_rows_need_no_square_matrix():
    """20,000 features: a square matrix would have 3.2 GB, all rows written out 48 MB."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = sp.random_array((300, 20_000), density=0.002, rng=rng, format="csr")
    X = sp.csr_array(X + sp.csr_array((np.ones(300), (np.arange(300), y)), X.shape))
    tracemalloc.start()
    model = LMNN(4, tol=1e-4, random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.components_.shape == (4, 20_000)
    assert peak < 40e6
    assert model.objective_ < 0.1 * model.history_[0]


def test_dense_and_sparse_agree(data):
    X, y = data
    X[X < 0.2] = 0.0
    dense, sparse = LMNN().fit(X, y), LMNN().fit(sp.csr_matrix(X), y)
    assert sparse.history_ == dense.history_
    assert_array_equal(sparse.components_, dense.components_)
    assert_allclose(sparse.transform(sp.csr_array(X)), dense.transform(X), atol=1e-12)


@pytest.mark.parametrize("n_components", [None, 3])
def test_precision_is_kept(n_components):
    X, y = make_data(dtype=np.float32)
    model = LMNN(n_components, random_state=0).fit(X, y)
    assert model.components_.dtype == model.transform(X).dtype == np.float32
    double = LMNN(n_components, random_state=0).fit(X.astype(np.float64), y)
    assert double.components_.dtype == np.float64
    assert model.objective_ == pytest.approx(double.objective_, rel=1e-3)


@pytest.mark.parametrize("n_components", [None, 3])
def test_same_bits(n_components, data):
    first, second = (LMNN(n_components, random_state=0).fit(*data) for _ in range(2))
    assert first.components_.tobytes() == second.components_.tobytes()
    assert first.history_ == second.history_


def test_fit_changes_neither_parameters_nor_input(data):
    X, y = data
    before = X.copy(), y.copy()
    model = LMNN(3, n_neighbors=2, push=0.4, max_iter=150, tol=1e-4, random_state=1)
    parameters = model.get_params()
    model.fit(X, y)
    assert model.get_params() == parameters == clone(model).get_params()
    assert_array_equal(X, before[0])
    assert_array_equal(y, before[1])


def test_labels_of_any_kind(data):
    X, y = data
    model = LMNN().fit(X, y)
    for labels in (np.array(["b", "a", "c"])[y], y.astype(float) * 10 - 7, y.tolist()):
        assert LMNN().fit(X, labels).objective_ == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("n_neighbors", [1, 3, 100])
def test_small_classes_and_duplicates(n_neighbors):
    X, y = small_classes()
    model = LMNN(n_neighbors=n_neighbors).fit(X, y)
    assert np.isfinite(model.components_).all()
    assert (np.diff(model.history_) <= 0.0).all()
    unit = np.sqrt(distances(X).sum() / (19 * 18)) / SCALE
    expected = plain_objective(X / unit, y, n_neighbors, model.metric_.factor * unit, 0.5)
    assert model.objective_ == pytest.approx(expected, rel=1e-10)


def test_targets_that_are_all_duplicates():
    """No difference of targets to scale steps by; the push term alone is learned from."""
    points = np.random.default_rng(0).standard_normal((6, 3))
    points[3:] = points[:3] + 0.05
    X, y = np.repeat(points, 2, axis=0), np.repeat(np.arange(6), 2)
    model = LMNN(n_neighbors=1).fit(X, y)
    assert model.objective_ < model.history_[0]
    assert np.isfinite(model.components_).all()


def test_constant_features(data):
    X, y = data
    wide = np.column_stack([X, np.zeros(60), np.full(60, 123.456)])
    model = LMNN().fit(wide, y)
    assert np.isfinite(model.components_).all()
    assert model.objective_ == pytest.approx(LMNN().fit(X, y).objective_, rel=1e-3)


def test_more_features_than_rows():
    X, y = make_data(20, d=50)
    model = LMNN().fit(X, y)
    assert model.objective_ < model.history_[0]
    assert np.isfinite(model.components_).all()


def test_out_of_iterations_warns(data):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 .* Increase max_iter or tol"):
        model = LMNN(max_iter=2).fit(*data)
    assert model.n_iter_ == 2
    assert len(model.history_) == 3
    longer = LMNN().fit(*data)  # without a warning
    assert longer.objective_ < model.objective_


def test_tol_decides_when_to_stop(data):
    coarse, fine = LMNN(tol=1e-2).fit(*data), LMNN(tol=1e-8, max_iter=1000).fit(*data)
    assert coarse.n_iter_ < fine.n_iter_
    last = coarse.history_[-2] - coarse.history_[-1]
    assert last <= 1e-2 * coarse.history_[-2]
    earlier = -np.diff(coarse.history_[:-1])
    assert (earlier > 1e-2 * np.array(coarse.history_[:-2])).all()


def test_feature_names(data):
    X, y = data
    names = [f"feature {i}" for i in range(6)]
    frame = pd.DataFrame(X, columns=names)
    model = LMNN(2).set_output(transform="pandas").fit(frame, y)
    assert_array_equal(model.feature_names_in_, names)
    assert model.metric_.feature_names == tuple(names)
    assert list(model.transform(frame).columns) == ["lmnn0", "lmnn1"]


def test_fitted_attributes(data):
    X, y = data
    model = LMNN()
    with pytest.raises(NotFittedError):
        model.transform(X)
    model.fit(X, y)
    assert isinstance(model.metric_, Metric)
    assert model.metric_.info["method"] == "LMNN"
    assert model.metric_.info["parameters"]["push"] == 0.5
    assert model.n_features_in_ == 6
    assert_array_equal(model.components_, model.metric_.factor.T)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (np.zeros(60), "only one class: LMNN needs rows of at least two classes"),
        (np.arange(60), "every class in y has only one row"),
        (np.zeros(59), "59 labels for 60 rows"),
        (np.full(60, np.nan), "NaN"),
        (np.linspace(0, 1, 60), "Unknown label type"),
    ],
)
def test_bad_labels(y, message, data):
    with pytest.raises(ValueError, match=message):
        LMNN().fit(data[0], y)


@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        ("n_components", 0, ValueError),
        ("n_components", 2.5, TypeError),
        ("pca_components", 0, ValueError),
        ("pca_components", 2.5, TypeError),
        ("n_neighbors", 0, ValueError),
        ("n_neighbors", 1.0, TypeError),
        ("push", -0.1, ValueError),
        ("push", 1.1, ValueError),
        ("push", "hard", TypeError),
        ("max_iter", 0, ValueError),
        ("max_iter", 1.5, TypeError),
        ("tol", -1e-3, ValueError),
        ("tol", None, TypeError),
    ],
)
def test_bad_parameters(parameter, value, error, data):
    with pytest.raises(error, match=parameter):
        LMNN(**{parameter: value}).fit(*data)


def test_rows_that_are_all_the_same():
    with pytest.raises(ValueError, match="all rows of X are the same"):
        LMNN().fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number(value, data):
    X, y = data
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        LMNN().fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_too_wide(sparse, monkeypatch):
    X, y = make_data(40, d=30)
    X = sp.csr_array(X) if sparse else X
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 100_000)
    message = r"30 × 30 matrix by LMNN from 40 rows needs 254\.4 kB .* 100\.0 kB .* n_components"
    with pytest.raises(ValueError, match=message):
        LMNN().fit(X, y)
    assert LMNN(3, random_state=0).fit(X, y).components_.shape == (3, 30)
    assert LMNN(pca_components=3, random_state=0).fit(X, y).components_.shape == (3, 30)
    message = r"30 × 20 matrix by LMNN from 40 rows needs .* Set a smaller n_components"
    with pytest.raises(ValueError, match=message):
        LMNN(20).fit(X, y)
