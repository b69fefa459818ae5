"""The Whitening estimator, and the cosine distance of every estimator."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import cosine_similarity

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
    mean_average_precision,
)
from makers import as_kind, make_classes

LEARNERS = [DuRP, DuOri, SRP, SPCA]
FEW = {"n_triplets": 300, "random_state": 0}


def make_data(n=60, d=12, dtype=np.float64):
    """Three classes, in features of very different spread."""
    return make_classes(n, d, spread=np.geomspace(0.5, 3.0, d), dtype=dtype)


def thinned(X):
    return X * (np.abs(X) > 0.7)


def inverse_scatter(W, s):
    """S⁻¹ in the unit of X: tr(W)/d times the inverse of (1 − s)W + s·tr(W)/d·I."""
    size = np.trace(W) / len(W)
    return np.linalg.inv((1 - s) * W + s * size * np.eye(len(W))) * size


# --- the estimator --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_is_the_inverse_scatter_of_classes(kind, dtype):
    X, y = make_data(120, 6)
    model = Whitening(0.3, distance="euclidean").fit(as_kind(X.astype(dtype), kind), y)
    centred = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
    expected = inverse_scatter(centred.T @ centred / len(X), 0.3)
    assert_allclose(
        model.metric_.matrix(),
        expected,
        rtol=0,
        atol=1e-3 * expected.max() if dtype == np.float32 else 1e-11,
    )
    assert model.transform(X.astype(dtype)).dtype == dtype


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
def test_is_the_inverse_scatter_of_rows_that_should_be_close(kind, rng):
    X, _ = make_data(60, 6)
    index = rng.permuted(np.tile(np.arange(60), (40, 1)), axis=1)[:, :4]
    index[1, :2] = index[0, :2]  # a pair counts once
    index = index[:, :3] if kind is Triplets else index
    model = Whitening(0.3, distance="euclidean").fit(X, kind(index))
    a, b = np.unique(index[:, :2], axis=0).T
    D = X[a] - X[b]
    expected = inverse_scatter(D.T @ D / len(D), 0.3)
    assert_allclose(model.metric_.matrix(), expected, rtol=0, atol=1e-11 * expected.max())


def test_of_all_shrinkage_is_the_plain_distance():
    X, y = make_data(60, 4)
    assert_allclose(
        Whitening(1.0, distance="euclidean").fit(X, y).pair_distance(X, X[::-1]),
        Euclidean().fit(X).pair_distance(X, X[::-1]),
    )


def test_cosine_centres_by_the_training_rows():
    X, y = make_data()
    plain = Whitening(0.3, distance="euclidean").fit(X, y).transform(X)
    plain = plain - plain.mean(axis=0)
    expected = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    model = Whitening(0.3).fit(X, y)
    assert_allclose(model.transform(X), expected, atol=1e-12)
    assert_allclose(model.transform(X[:5]), expected[:5], atol=1e-12)


def test_rows_used():
    X, y = make_data(600, 4)
    model = Whitening(0.3, max_rows=100, random_state=0).fit(X, y)
    assert (model.n_rows_used_, model.n_rows_in_) == (100, 600)
    assert model.metric_.info["rows"] == {"used": 100, "given": 600}
    again = Whitening(0.3, max_rows=100, random_state=0).fit(X, y)
    assert_array_equal(again.metric_.factor, model.metric_.factor)
    everything = Whitening(0.3, max_rows=None).fit(X, y)
    assert everything.n_rows_used_ == 600
    assert (everything.metric_.factor != model.metric_.factor).any()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((4, 5000)) + np.arange(4)[:, None], [0, 0, 1, 1], "for at most 4,000 features"),
        (np.repeat(np.eye(2), 2, axis=0), [0, 0, 1, 1], "no scatter to whiten with"),
        (np.ones((4, 3)), [0, 0, 1, 1], "all rows of X are the same"),
        (np.eye(4), None, "requires y to be passed"),
    ],
)
def test_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        Whitening().fit(X, y)


@pytest.mark.parametrize("shrinkage", [0.0, 1.5, np.nan])
def test_shrinkage_out_of_range(shrinkage):
    with pytest.raises(ValueError, match="shrinkage must be a finite number above 0 and at most 1"):
        Whitening(shrinkage).fit(*make_data())


# --- the cosine -----------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_cosine_is_centring_and_scaling(learner, kind, dtype, shrinkage):
    X, y = make_data(dtype=dtype)
    X = as_kind(thinned(X) + (2.0 if kind == "dense" else 0.0), kind).astype(dtype)
    parameters = {"shrinkage": shrinkage, **FEW}
    cosine = learner(distance="cosine", **parameters).fit(X, y)
    plain = learner(**parameters).fit(X, y)
    rows = plain.transform(X).astype(np.float64)
    rows -= rows.mean(axis=0)
    expected = rows / np.linalg.norm(rows, axis=1)[:, None]
    got = cosine.transform(X)
    assert got.dtype == dtype
    assert_allclose(got, expected, atol=1e-4 if dtype == np.float32 else 1e-11)
    assert_allclose(np.linalg.norm(got, axis=1), 1.0, rtol=1e-5)
    assert_array_equal(cosine.metric_.factor, plain.metric_.factor)  # learning is the same
    # new rows are centred by the training rows, not by themselves
    assert_allclose(cosine.transform(X[:3]), got[:3], atol=1e-4 if dtype == np.float32 else 1e-11)


@pytest.mark.parametrize("learner", LEARNERS)
def test_cosine_score(learner):
    X, y = make_data()
    cosine = learner(distance="cosine", **FEW).fit(X, y)
    assert cosine.score(X, y) == mean_average_precision(cosine.transform(X), y)
    assert cosine.score(X, y) != learner(**FEW).fit(X, y).score(X, y)


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
def test_cosine_saved_and_loaded(learner, tmp_path):
    X, y = make_data()
    model = Euclidean("cosine") if learner is Euclidean else learner(distance="cosine", **FEW)
    model.fit(X, y)
    model.metric_.save(tmp_path / "metric")
    loaded = Metric.load(tmp_path / "metric")
    assert loaded.kind == "cosine"
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert_array_equal(loaded.centre, model.metric_.centre)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_euclidean_cosine_ranks_as_scikit_learn(kind):
    X, y = make_data()
    X = thinned(X) + (5.0 if kind == "dense" else 0.0)
    model = Euclidean(distance="cosine").fit(as_kind(X, kind), y)
    similar = cosine_similarity(X - X.mean(axis=0) if kind == "dense" else X)
    distances = model.metric_.pairwise(as_kind(X, kind))
    np.fill_diagonal(distances, 0.0)
    np.fill_diagonal(similar, 1.0)
    assert_allclose(distances**2, 2 - 2 * similar, atol=1e-12)
    if kind == "dense":  # no ties
        assert_array_equal(np.argsort(distances, axis=1), np.argsort(-similar, axis=1))
    else:
        assert model.metric_.centre is None
        assert sp.issparse(model.transform(as_kind(X, kind)))


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
@pytest.mark.parametrize("name", ["cos", "", None, 3, "Cosine"])
def test_unknown_distance(learner, name):
    with pytest.raises(ValueError, match="distance must be one of 'euclidean', 'cosine'; got"):
        learner(distance=name).fit(*make_data())


def test_cosine_where_no_direction_is_left():
    X, _ = make_data()
    triplets = np.array([[0, 1, 2]], dtype=np.int32)
    X[0] = X[2] = 0.0  # the negative is where the anchor is
    with pytest.warns(UserWarning, match="no direction separates"):
        model = DuRP(distance="cosine", random_state=0).fit(X, Triplets(triplets))
    assert_allclose(model.transform(X), Euclidean("cosine").fit(X).transform(X), atol=1e-12)
