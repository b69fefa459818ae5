"""OASIS: the blocked epochs against the online algorithm, one step at a time."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from dualmetric import OASIS, Comparisons, Metric, Triplets
from dualmetric._arrays.kernels import passive_aggressive_block
from dualmetric.estimators.base import generator
from dualmetric.estimators.oasis import _BLOCK, _oasis_epoch
from dualmetric.problem import SCALE
from dualmetric.solver import hashes_of, random_order
from makers import make_classes

FEW = {"n_triplets": 300, "random_state": 0}
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-10}

make_data = partial(make_classes, d=8, shift=2.0)


@pytest.fixture
def data():
    return make_data()


def epoch(X, triplets, W, aggressiveness, unit=1.0):
    """One pass over triplets (i, j, k), which are comparisons (i, j, i, k)."""
    _oasis_epoch(X, Comparisons.of_triplets(triplets), W, aggressiveness, unit)


def online(X, index, W, aggressiveness):
    """The authors' steps on rows X, one triplet at a time, in float64; also each τ and loss."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    W = np.array(W, dtype=np.float64)
    steps, losses = [], []
    for i, j, k in index:
        loss = max(0.0, 1.0 - X[i] @ W @ X[j] + X[i] @ W @ X[k])
        V = np.outer(X[i], X[j] - X[k])
        norm = (V**2).sum()
        tau = min(aggressiveness, loss / norm) if norm > 0.0 else 0.0
        W += tau * V
        steps.append(tau)
        losses.append(loss)
    return W, np.array(steps), np.array(losses)


def unit_of(X):
    """A quarter of the root mean square distance of two rows."""
    X = X.toarray() if sp.issparse(X) else X
    differences = X[:, None, :].astype(np.float64) - X
    n = len(X)
    return np.sqrt((differences**2).sum() / (n * (n - 1))) / SCALE


def twin_fit(X, index, n_epochs, aggressiveness=0.1, seed=0, W=None, unit=1.0):
    """What fit and partial_fit must compute from given triplets, in the order they draw."""
    rng = np.random.default_rng(np.random.RandomState(seed).randint(2**31 - 1))
    W = np.eye(X.shape[1]) if W is None else W
    hashes = hashes_of(index[:, [0, 1, 0, 2]])
    for _ in range(n_epochs):
        W = online(X / unit, index[random_order(hashes, rng)], W, aggressiveness)[0]
    return W


def nearest_psd(W):
    values, vectors = np.linalg.eigh((W + W.T) / 2)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


# --- the epoch --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1, _BLOCK - 1, _BLOCK, _BLOCK + 1, 3 * _BLOCK + 17])
@pytest.mark.parametrize("unit", [1.0, 2.5])
def test_epoch_equals_the_online_steps(size, sparse, dtype, unit, rng, random_index):
    X, _ = make_data(dtype=dtype)
    if sparse:
        X[rng.random(X.shape) > 0.5] = 0.0
        X = sp.csr_array(X)
    index = random_index(60, size, rng)
    start = np.eye(8) + 0.1 * rng.standard_normal((8, 8))  # not symmetric: sides must not mix
    W = start.astype(dtype)
    order = rng.permutation(size)
    expected, steps, _ = online(X / unit, index[order], W, 0.1)
    epoch(X, index[order], W, 0.1, unit)
    assert W.dtype == dtype
    assert_allclose(W, expected, atol=TOLERANCE[dtype])
    if size > _BLOCK:  # every kind of step occurs
        assert (steps == 0.0).any()
        assert (steps == 0.1).any()
        assert ((steps > 0.0) & (steps < 0.1)).any()


def test_block_kernel_equals_the_online_steps(data, rng, random_index):
    X, _ = data
    index = random_index(60, 100, rng)
    anchor, toward = X[index[:, 0]], X[index[:, 1]] - X[index[:, 2]]
    steps = np.full(100, np.nan)
    similarities = np.einsum("td,td->t", anchor, toward)
    G = (anchor @ anchor.T) * (toward @ toward.T)
    passive_aggressive_block(similarities, G, np.ones(100), np.full(100, 0.05), steps)
    expected = online(X, index, np.eye(8), 0.05)[1]
    assert_allclose(steps, expected, atol=1e-12)
    assert steps.max() == 0.05  # C caps it


def test_longest_step_by_hand():
    """a = b = (2, 0), c = (1, 0): loss 1 − 4 + 2 < 0. With a = (0.5, 0): loss 0.5, norm 0.25·1."""
    X = np.array([[2.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    for triplet, aggressiveness, tau in [
        ((0, 1, 2), 0.1, 0.0),
        ((3, 1, 2), 0.1, 0.1),
        ((3, 1, 2), 100.0, 0.5 / 0.25),
    ]:
        W = np.eye(2)
        epoch(X, np.array([triplet]), W, aggressiveness)
        expected = np.eye(2)
        expected[0, 0] += tau * X[triplet[0], 0] * 1.0
        assert_allclose(W, expected, rtol=1e-15)


def test_a_full_step_brings_the_loss_to_zero(data, random_index, rng):
    X, _ = data
    for triplet in random_index(60, 20, rng):
        W = np.eye(8)
        epoch(X, triplet[None], W, 1e9)
        _, _, losses = online(X, triplet[None], W, 1e9)
        assert losses[0] == pytest.approx(0.0, abs=1e-9)


def test_triplets_without_loss_leave_w_alone(data, rng, random_index):
    X, _ = data
    index = random_index(60, 400, rng)
    W = np.eye(8)
    similarity = X @ X.T
    gain = similarity[index[:, 0], index[:, 1]] - similarity[index[:, 0], index[:, 2]]
    easy = index[gain > 1.0]
    assert len(easy) > 100
    epoch(X, easy, W, 0.1)
    assert_array_equal(W, np.eye(8))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_allow_no_step(data, sparse):
    """A zero anchor, and a positive equal to the negative: the loss is one and stays one."""
    X, _ = data
    X[0] = 0.0
    X[2] = X[1]
    idle = np.array([(0, 3, 4), (5, 1, 2)])
    given = sp.csr_array(X) if sparse else X
    W = np.eye(8)
    epoch(given, idle, W, 0.1)
    assert_array_equal(W, np.eye(8))
    model = OASIS(random_state=0).fit(given, Triplets(np.concatenate([idle, [(6, 9, 7)] * 3])))
    assert np.isfinite(model.similarity_).all()
    assert np.isfinite(model.transform(given)).all()


# --- fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scale", [True, False])
def test_fit_equals_the_twin(sparse, scale, dtype, rng, random_index):
    X, _ = make_data(dtype=dtype)
    if sparse:
        X[rng.random(X.shape) > 0.6] = 0.0
        X = sp.csr_array(X)
    index = random_index(60, 200, rng)
    model = OASIS(0.05, scale=scale, max_epochs=2, random_state=0).fit(X, Triplets(index))
    unit = unit_of(X) if scale else 1.0
    expected = twin_fit(X, index, 2, 0.05, unit=unit)
    assert_allclose(model.similarity_, expected, atol=TOLERANCE[dtype])
    assert_allclose(model.metric_.matrix(), nearest_psd(expected), atol=TOLERANCE[dtype])
    assert np.linalg.eigvalsh(expected + expected.T).min() < -0.01  # there is something to cut
    assert model.metric_.rank < 8
    for array in (model.similarity_, model.components_, model.transform(X)):
        assert array.dtype == dtype


def test_metric_is_the_nearest_of_its_rank(data):
    X, y = data
    gentle = {"aggressiveness": 0.01, **FEW}
    model = OASIS(n_components=2, **gentle).fit(X, y)
    full = OASIS(**gentle).fit(X, y)
    assert_array_equal(model.similarity_, full.similarity_)
    assert full.metric_.rank > 2
    assert model.components_.shape == (2, 8)
    assert model.transform(X).shape == (60, 2)
    values, vectors = np.linalg.eigh((full.similarity_ + full.similarity_.T) / 2)
    expected = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    assert_allclose(model.metric_.matrix(), expected, atol=1e-12)
    many = OASIS(n_components=100, **gentle).fit(X, y)
    assert_allclose(many.metric_.matrix(), full.metric_.matrix(), atol=1e-12)


def test_labels_are_sampled(data):
    X, y = data
    model = OASIS(**FEW).fit(X, y)
    i, j, again, k = model.comparisons_.index.T
    assert_array_equal(i, again)
    assert len(model.comparisons_) == 300
    assert_array_equal(y[i], y[j])
    assert (y[i] != y[k]).all()
    near, far = ((X[i] - X[j]) ** 2).sum(axis=1), ((X[i] - X[k]) ** 2).sum(axis=1)
    assert (far - near < unit_of(X) ** 2).all()
    neighbours = OASIS(sampler="neighbors", **FEW).fit(X, y)
    assert not np.array_equal(neighbours.comparisons_.index, model.comparisons_.index)


def test_triplets_in_any_form(data, rng, random_index):
    X, _ = data
    index = random_index(60, 50, rng)
    expected = OASIS(random_state=0).fit(X, Triplets(index)).similarity_
    for form in (index.tolist(), index.astype(np.uint8)):
        assert_array_equal(OASIS(random_state=0).fit(X, Triplets(form)).similarity_, expected)
    known = Comparisons(index[:, [0, 1, 0, 2]])
    assert_array_equal(OASIS(random_state=0).fit(X, known).similarity_, expected)


def test_comparisons_of_two_pairs(data, rng):
    """W ← W + τ(x_a x_bᵀ − x_c x_dᵀ), one step at a time."""
    X, _ = data
    index = np.array([rng.choice(60, size=4, replace=False) for _ in range(300)])
    model = OASIS(0.05, max_epochs=1, scale=False, random_state=0).fit(X, Comparisons(index))
    order = random_order(hashes_of(index), generator(0))
    W = np.eye(8)
    for a, b, c, d in index[order]:
        V = np.outer(X[a], X[b]) - np.outer(X[c], X[d])
        W += min(0.05, max(0.0, 1.0 - (W * V).sum()) / (V * V).sum()) * V
    assert_allclose(model.similarity_, W, atol=1e-10)


def test_same_seed_same_bits(data):
    first, second = OASIS(**FEW).fit(*data), OASIS(**FEW).fit(*data)
    assert first.similarity_.tobytes() == second.similarity_.tobytes()
    assert first.components_.tobytes() == second.components_.tobytes()
    other = OASIS(n_triplets=300, random_state=1).fit(*data)
    assert not np.array_equal(other.similarity_, first.similarity_)


# the first four features alone say little
@pytest.mark.filterwarnings("ignore:no direction has a positive:UserWarning")
def test_fit_starts_anew(data):
    X, y = data
    once = OASIS(**FEW).fit(X, y)
    again = OASIS(**FEW).fit(5.0 * X[:, :4], y).partial_fit(X[:, :4], y).fit(X, y)
    assert again.similarity_.tobytes() == once.similarity_.tobytes()
    assert again.n_features_in_ == 8


def test_unit_of_the_data_matters_only_without_scale(data):
    X, y = data
    plain, larger = OASIS(**FEW).fit(X, y), OASIS(**FEW).fit(1000.0 * X, y)
    assert_allclose(larger.similarity_, plain.similarity_, atol=1e-9)
    known = plain.comparisons_
    plain = OASIS(scale=False, random_state=0).fit(X, known)
    larger = OASIS(scale=False, random_state=0).fit(1000.0 * X, known)
    assert np.abs(larger.similarity_ - plain.similarity_).max() > 0.1


def test_dense_and_sparse_agree(data):
    X, y = data
    X[X < 0.3] = 0.0
    dense, sparse = OASIS(**FEW).fit(X, y), OASIS(**FEW).fit(sp.csr_matrix(X), y)
    assert_allclose(sparse.similarity_, dense.similarity_, atol=1e-10)
    assert_allclose(sparse.transform(sp.csr_array(X)), sparse.transform(X), atol=1e-12)


def test_feature_names(data):
    X, y = data
    names = [f"feature {i}" for i in range(8)]
    frame = pd.DataFrame(X, columns=names)
    model = OASIS(n_components=2, **FEW).set_output(transform="pandas").fit(frame, y)
    assert_array_equal(model.feature_names_in_, names)
    assert model.metric_.feature_names == tuple(names)
    assert list(model.transform(frame).columns) == ["oasis0", "oasis1"]
    with pytest.raises(ValueError, match=r"X has no column 'feature 0'.* it has 'FEATURE 0'"):
        model.partial_fit(frame.rename(columns=str.upper), y)


def test_partial_fit_takes_columns_by_name(data):
    X, y = data
    names = [f"feature {i}" for i in range(8)]
    frame = pd.DataFrame(X, columns=names)
    first, second, third = (OASIS(**FEW).fit(frame, y) for _ in range(3))
    first.partial_fit(frame, y)
    second.partial_fit(frame[names[::-1]].assign(more=1.0), y)
    third.partial_fit(X, y)  # without names, columns are in the order of the first call
    for model in (second, third):
        assert_array_equal(model.similarity_, first.similarity_)
        assert_array_equal(model.feature_names_in_, names)


def test_fitted_attributes(data):
    X, y = data
    model = OASIS(**FEW)
    with pytest.raises(NotFittedError):
        model.transform(X)
    model.fit(X, y)
    assert isinstance(model.metric_, Metric)
    assert model.metric_.info["method"] == "OASIS"
    assert model.metric_.info["parameters"]["aggressiveness"] == 0.1
    assert model.n_features_in_ == 8
    assert_array_equal(model.components_, model.metric_.factor.T)


def test_no_direction_left_keeps_the_plain_distance():
    """In one dimension, with b − c < 0, W only falls."""
    X = np.array([[1.0], [0.5], [2.0]])
    with pytest.warns(
        UserWarning, match="no direction .* these 1 comparisons, so the plain distance is kept"
    ):
        model = OASIS(10.0, scale=False).fit(X, Triplets([(0, 1, 2)]))
    assert model.similarity_[0, 0] < 0.0
    assert_array_equal(model.transform(X), X)


# --- partial_fit ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [True, False])
def test_partial_fit_goes_on_from_the_first(data, scale, rng, random_index):
    X, _ = data
    more = 3.0 * make_data(40, seed=1)[0]  # another spread: the unit must stay the first one
    first, second = random_index(60, 150, rng), random_index(40, 90, rng)
    model = OASIS(max_epochs=2, scale=scale, random_state=0).partial_fit(X, Triplets(first))
    fitted = OASIS(max_epochs=2, scale=scale, random_state=0).fit(X, Triplets(first))
    assert_array_equal(model.similarity_, fitted.similarity_)
    unit = unit_of(X) if scale else 1.0
    W = twin_fit(X, first, 2, unit=unit)
    before = model.similarity_
    kept = before.copy()
    model.partial_fit(more, Triplets(second))
    expected = twin_fit(more, second, 2, W=W, unit=unit)
    assert_allclose(model.similarity_, expected, atol=1e-10)
    assert_allclose(model.metric_.matrix(), nearest_psd(expected), atol=1e-10)
    assert_array_equal(model.comparisons_.index, second[:, [0, 1, 0, 2]])
    assert_array_equal(before, kept)  # what the caller holds is not changed under them
    fitted.partial_fit(more, Triplets(second))  # after fit as after partial_fit
    assert_array_equal(fitted.similarity_, model.similarity_)


@pytest.mark.parametrize("factor", [0.1, 0.5, 3.0])
def test_scale_of_the_rows_is_that_of_the_start_and_of_the_steps(factor, data, rng, random_index):
    """Rows c·x: as rows x from the start c²·I, with steps of at most c⁴ times C."""
    X, _ = data
    index = random_index(len(X), 400, rng)
    model = OASIS(scale=False, max_epochs=2, random_state=0).fit(factor * X, Triplets(index))
    start = factor**2 * np.eye(8)
    expected = twin_fit(X, index, 2, aggressiveness=0.1 * factor**4, W=start)
    assert_allclose(factor**2 * model.similarity_, expected, atol=1e-10)


def test_partial_fit_with_labels_of_few_classes(data):
    X, y = data
    model = OASIS(**FEW).partial_fit(X[y != 2], y[y != 2])
    before = model.similarity_
    model.partial_fit(X, y)
    assert np.abs(model.similarity_ - before).max() > 1e-3


def test_partial_fit_of_another_width(data):
    X, y = data
    model = OASIS(**FEW).fit(X, y)
    with pytest.raises(ValueError, match="X has 5 features, but OASIS is expecting 8 features"):
        model.partial_fit(X[:, :5], y)


@pytest.mark.parametrize(("first", "second"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_partial_fit_keeps_the_precision(data, first, second):
    X, y = data
    model = OASIS(**FEW).fit(X.astype(first), y).partial_fit(X.astype(second), y)
    assert model.similarity_.dtype == first
    assert model.components_.dtype == first


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_call_that_fails_leaves_what_was_learned(data, method):
    X, y = data
    model = OASIS(**FEW).fit(X, y)
    before, matrix = model.similarity_.copy(), model.metric_.matrix()
    with pytest.raises(ValueError, match="names a row that X does not have"):
        getattr(model, method)(2.0 * X, Triplets([(0, 1, 99)]))
    assert_array_equal(model.similarity_, before)
    assert_array_equal(model.metric_.matrix(), matrix)
    fresh = OASIS(**FEW)
    with pytest.raises(ValueError, match="requires y"):
        getattr(fresh, method)(2.0 * X)
    fresh.partial_fit(X, y)  # the first that succeeds is the first
    assert_array_equal(fresh.similarity_, before)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        ("aggressiveness", 0.0, ValueError),
        ("aggressiveness", -1.0, ValueError),
        ("aggressiveness", "much", TypeError),
        ("n_components", 0, ValueError),
        ("n_components", 2.0, TypeError),
        ("n_triplets", 0, ValueError),
        ("n_triplets", 1.5, TypeError),
        ("max_epochs", 0, ValueError),
        ("max_epochs", None, TypeError),
        ("sampler", "some", ValueError),
        ("random_state", "seed", ValueError),
    ],
)
def test_bad_parameters(parameter, value, error, method, data):
    model = OASIS(n_triplets=300).set_params(**{parameter: value})
    with pytest.raises(error, match=parameter if parameter != "random_state" else "seed"):
        getattr(model, method)(*data)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"requires y .* pass labels, .* Triplets\(index\)"),
        (np.zeros(60), "only one class"),
        (np.arange(60), "every class in y has only one row"),
        (np.zeros(59), "59 labels for 60 rows"),
        (Triplets([(0, 1)]), r"\(N, 3\) array"),
        (Triplets([(0, 1, 60)]), "names a row that X does not have"),
        (Triplets([(0, 1, 1)]), "positive and negative are the same row"),
    ],
)
def test_bad_labels_and_triplets(y, message, data):
    with pytest.raises(ValueError, match=message):
        OASIS(**FEW).fit(data[0], y)


def test_rows_that_are_all_the_same():
    with pytest.raises(ValueError, match="all rows of X are the same"):
        OASIS().fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("scale", "aggressiveness"),
    [(1e30, 0.1), (1e-12, 1e100)],  # the norms overflow; the steps do
)
def test_numbers_that_overflow_are_refused(scale, aggressiveness):
    X, y = make_data(dtype=np.float32)
    model = OASIS(scale=False, **FEW).fit(X, y)
    before, index = model.similarity_.copy(), model.comparisons_
    model.set_params(aggressiveness=aggressiveness)
    with pytest.raises(ValueError, match="too large or too small for their precision"):
        model.partial_fit(X * np.float32(scale), index)
    assert_array_equal(model.similarity_, before)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("dtype", "needed"), [(np.float32, r"18\.0 kB"), (np.float64, r"36\.0 kB")]
)
def test_too_wide(sparse, dtype, needed, monkeypatch):
    X, y = make_data(40, d=30, dtype=dtype)
    X = sp.csr_array(X) if sparse else X
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 10_000)
    message = rf"30 × 30 similarity matrix of OASIS .* needs {needed} .* 10\.0 kB .* Use DuRP"
    with pytest.raises(ValueError, match=message):
        OASIS(**FEW).fit(X, y)
