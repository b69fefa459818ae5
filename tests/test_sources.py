"""Estimators on rows that are not in memory: memory maps, and objects like HDF5 and Zarr arrays."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dualmetric import (
    LMNN,
    OASIS,
    SPCA,
    SRP,
    DuOri,
    DuRP,
    Euclidean,
    Metric,
    MetricCV,
    RidgeMetric,
    Triplets,
    Whitening,
    knn_accuracy,
    mean_average_precision,
)
from dualmetric._rows import stored
from makers import Stored
from makers import make_classes as make_data

LEARNERS = [DuRP, DuOri, SRP, SPCA]
FEW = {"n_triplets": 300, "random_state": 0}


@pytest.fixture
def mapped(tmp_path):
    def build(X):
        made = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
        made[:] = X
        made.flush()
        return np.memmap(tmp_path / "rows", dtype=X.dtype, mode="r", shape=X.shape)

    return build


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of ten rows of twelve float64."""
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 10 * 12 * 8)


def bits(learner):
    return learner.components_.tobytes(), learner.dual_coef_.tobytes()


def triplets_of(learner):
    """Triplets (i, j, k) that a learner has sampled."""
    return learner.comparisons_.index[:, [0, 1, 3]]


# --- fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_fit_on_a_source_equals_fit_in_memory(learner, dtype, distance, mapped, small_blocks):
    X, y = make_data(dtype=dtype)
    parameters = {"distance": distance, "shrinkage": 0.5, **FEW}
    expected = learner(**parameters).fit(X, y)
    for source in (mapped(X), Stored(X)):
        got = learner(**parameters).fit(source, y)
        assert bits(got) == bits(expected)
        assert_array_equal(triplets_of(got), triplets_of(expected))
        assert triplets_of(got).dtype == triplets_of(expected).dtype
        assert got.n_features_in_ == 12
        if distance == "cosine":
            assert_array_equal(got.metric_.centre, expected.metric_.centre)


@pytest.mark.parametrize("learner", LEARNERS)
def test_large_sources_are_learned_from_chosen_rows(learner, small_blocks):
    settings = {"max_rows": 40, **FEW}
    X, y = make_data(1000)
    names = np.array(["c", "a", "b"])[y]
    source = Stored(X)
    model = learner(**settings).fit(source, names)
    assert len(source.read) == len(set(source.read)) <= 40  # one pass
    index = triplets_of(model)
    assert len(np.unique(index)) <= 40
    assert index.max() > 500
    i, j, k = index.T
    assert (names[i] == names[j]).all()
    assert (names[i] != names[k]).all()
    # the same whatever the other rows are
    rows = np.unique(index)
    others = np.full_like(X, 7.0)
    others[rows] = X[rows]
    small = learner(scale=False, random_state=0)
    here, there = (
        small.fit(part, Triplets(index)).metric_.pairwise(X[:50]) for part in (others, X)
    )
    if learner is not SPCA:  # whose components are those of all rows
        assert_allclose(here, there, atol=1e-9 * there.max())
    assert model.score(X[:300], y[:300]) > 0.3
    # the seed decides which
    again = learner(**settings).fit(Stored(X), names)
    assert_array_equal(triplets_of(again), index)
    other = learner(**{**settings, "random_state": 1}).fit(Stored(X), names)
    assert set(np.unique(triplets_of(other))) != set(rows)


@pytest.mark.parametrize("learner", LEARNERS)
def test_given_triplets_on_a_source(learner, mapped, random_index, rng):
    # they name every row, so that the mean distance and the components are those of all rows
    X, _ = make_data(200)
    index = np.vstack([random_index(200, 300, rng), np.c_[0:198, 1:199, 2:200]])
    triplets = Triplets(index)
    expected = learner(random_state=0).fit(X, triplets)
    for source in (mapped(X), Stored(X)):
        got = learner(random_state=0).fit(source, triplets)
        assert_array_equal(triplets_of(got), index)
        assert bits(got) == bits(expected)


@pytest.mark.parametrize("learner", [DuRP, DuOri, SRP])
def test_given_triplets_that_name_few_rows(learner, small_blocks, rng):
    X, _ = make_data(1000)
    rows = np.r_[500:530, 990:1000]
    index = np.array([rng.choice(rows, 3, replace=False) for _ in range(200)])
    source = Stored(X)
    settings = {"random_state": 0, "scale": False, "max_rows": 5}
    got = learner(**settings).fit(source, Triplets(index))
    read = {start for start, _ in source.read}
    assert read >= {500, 510, 520, 990}
    assert len(read) <= 4 + 5
    assert_array_equal(triplets_of(got), index)
    expected = learner(**settings).fit(X, Triplets(index))
    assert_allclose(got.dual_coef_, expected.dual_coef_, atol=1e-9)
    a, b = (model.metric_.pairwise(X[:50]) for model in (got, expected))
    assert_allclose(a, b, atol=1e-9 * b.max())


def test_given_triplets_that_name_rows_that_are_not_there():
    with pytest.raises(ValueError, match="0 to 59"):
        DuRP(**FEW).fit(Stored(make_data()[0]), Triplets([[0, 1, 60]]))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int64, np.bool_, ">f4"])
def test_other_number_types_are_converted(dtype, mapped):
    X, y = make_data()
    X = (X > 0.5 if dtype is np.bool_ else np.abs(10 * X)).astype(dtype)
    expected = DuRP(**FEW).fit(np.array(X), y)
    for source in (mapped(X), Stored(X)):
        got = DuRP(**FEW).fit(source, y)
        assert_allclose(got.metric_.matrix(), expected.metric_.matrix(), rtol=1e-9)
        out = got.transform(source)
        assert out.dtype == expected.transform(X).dtype
        assert_allclose(out, expected.transform(X), rtol=1e-5, atol=1e-6)


# --- transform ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_transform_goes_block_by_block(dtype, distance, mapped, small_blocks):
    X, y = make_data(205, dtype=dtype)
    model = DuRP(distance=distance, **FEW).fit(X, y)
    expected = model.transform(X)
    source = Stored(X)
    for transform in (model.transform, model.metric_.transform):
        source.read.clear()
        got = transform(source)
        assert got.dtype == dtype
        assert_allclose(got, expected, atol=1e-5 if dtype == np.float32 else 1e-13)
        assert source.largest_read <= 20
        assert [start for start, _ in source.read] == sorted({start for start, _ in source.read})
        assert sum(stop - start for start, stop in source.read) == 205
        assert_allclose(transform(mapped(X)), got, atol=1e-6)


def test_transform_by_the_identity(small_blocks):
    X, _ = make_data(35)
    assert_array_equal(Metric(None, 12).transform(Stored(X)), X)


# --- wrong sources --------------------------------------------------------------------------


def test_another_width(mapped):
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    for source in (mapped(X[:, :11]), Stored(X[:, :11])):
        with pytest.raises(ValueError, match=r"X has 11 features, but .* is expecting 12 features"):
            model.transform(source)


def test_labels_of_another_length(mapped):
    X, y = make_data()
    for source in (mapped(X), Stored(X)):
        for n in (59, 61):
            with pytest.raises(ValueError, match=f"y has {n} labels for 60 rows"):
                DuRP(**FEW).fit(source, np.resize(y, n))
    source = Stored(X)
    with pytest.raises(ValueError, match="labels for 60 rows"):
        DuRP(**FEW).fit(source, y[:10])
    assert source.read == []  # before anything was read


def test_no_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        DuRP(**FEW).fit(Stored(make_data()[0]))


# --- the other learners, and whitening on all rows ------------------------------------------


@pytest.mark.parametrize("learner", [OASIS(**FEW), LMNN(random_state=0), Euclidean("cosine")])
def test_every_learner_reads_sources(learner, small_blocks):
    X, y = make_data(60)
    source = Stored(X)
    expected = learner.fit(X, y).metric_.transform(X)
    found = learner.fit(source, y).metric_
    assert source.largest_read <= 10
    assert_allclose(found.transform(X), expected, rtol=1e-9, atol=1e-12)
    assert learner.score(source, y) == pytest.approx(learner.score(X, y))
    assert_allclose(
        learner.pair_distance(source, Stored(X[::-1])), learner.pair_distance(X, X[::-1])
    )


@pytest.mark.parametrize("learner", [DuRP, OASIS, LMNN, RidgeMetric, Whitening, MetricCV])
def test_many_rows_in_memory_are_learned_from_as_those_of_a_source(learner):
    X, y = make_data(201)
    names = [f"f{number}" for number in range(X.shape[1])]
    settings = {"random_state": 0, "max_rows": 60}
    if learner in (DuRP, OASIS, MetricCV):
        settings["n_triplets"] = 200
    there = learner(**settings).fit(Stored(X), y)
    here = learner(**settings).fit(pd.DataFrame(X, columns=names), y)
    assert here.components_.tobytes() == there.components_.tobytes()
    assert list(here.feature_names_in_) == names
    every = learner(**{**settings, "max_rows": None}).fit(X, y)
    assert not np.array_equal(every.components_, here.components_)


def test_whitening_on_all_rows_in_memory_is_that_of_a_source():
    X, y = make_data(300)
    model = DuRP(shrinkage=0.3, all_rows=True, max_rows=60, **FEW)
    expected = model.fit(Stored(X), y).metric_.matrix()
    assert_allclose(model.fit(X, y).metric_.matrix(), expected)


def test_numbers_of_triplets_are_those_of_the_source():
    X, y = make_data(90)
    model = OASIS(max_rows=30, **FEW).fit(Stored(X), y)
    i, j, k = triplets_of(model).T
    assert triplets_of(model).max() > 30
    assert (y[i] == y[j]).all()
    assert (y[i] != y[k]).all()


@pytest.mark.parametrize("learner", [DuRP, DuOri, SRP, SPCA])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_whitening_on_all_rows(learner, dtype, small_blocks, monkeypatch):
    # most rows of a class lie along feature 5; those that are learned from do not show it
    X, y = make_data(400)
    X[:, 5] *= 20.0
    X = (10 * X).astype(dtype)
    chosen = np.sort(np.random.default_rng(0).choice(400, 50, replace=False)).astype(np.int32)
    monkeypatch.setattr("dualmetric._rows.choose_rows", lambda n, most, rng: chosen)
    flat = X.copy()
    flat[chosen, 5] = 0
    settings = {"shrinkage": 0.05, "n_components": 2, "max_rows": 50, **FEW}
    if learner is not DuOri:
        settings["n_projections"] = 11
    few = learner(**settings).fit(Stored(flat), y)
    every = learner(all_rows=True, **settings).fit(Stored(flat), y)
    if learner in (DuRP, DuOri):
        assert abs(every.components_[:, 5]).max() < 0.2 * abs(every.components_).max()
    assert not np.allclose(every.metric_.matrix(), few.metric_.matrix())


def test_whitening_on_all_rows_is_the_same_where_all_are_learned_from(small_blocks):
    X, y = make_data(90)
    expected = DuRP(shrinkage=0.3, **FEW).fit(X, y).metric_.matrix()
    found = DuRP(shrinkage=0.3, all_rows=True, **FEW).fit(Stored(X), y).metric_.matrix()
    assert_allclose(found, expected)


def test_all_rows_needs_labels_and_few_features():
    X, y = make_data(90)
    with pytest.raises(ValueError, match="by the labels of all rows"):
        DuRP(shrinkage=0.3, all_rows=True).fit(X, Triplets([(0, 3, 1)]))
    wide = Stored(np.zeros((60, 5000), np.float32))
    with pytest.raises(ValueError, match=r"up to 4,000 features, but X has 5,000"):
        DuRP(shrinkage=0.3, all_rows=True, max_rows=50).fit(wide, y[:60])


@pytest.mark.parametrize("kind", ["array", "source"])
def test_rare_classes_are_learned_from(kind):
    X, y = make_data(3000)
    y = np.where(y == 2, 0, y)
    rare = np.array([7, 500, 1200, 2999])
    y[rare] = 5
    for seed in range(5):
        model = DuRP(n_triplets=500, max_rows=50, random_state=seed)
        model.fit(X if kind == "array" else Stored(X), y)
        assert set(rare) & set(triplets_of(model).ravel())


def test_sources_are_ranked_and_searched_in_memory():
    X, y = make_data()
    assert mean_average_precision(Stored(X), y) == mean_average_precision(X, y)
    assert knn_accuracy(Stored(X), y, X[:9], y[:9]) == knn_accuracy(X, y, X[:9], y[:9])


@pytest.mark.parametrize(
    ("y", "message"), [(None, "y is None"), ("topic", "y = 'topic' names a column")]
)
def test_labels_that_are_none(y, message):
    X, _ = make_data()
    model = Euclidean().fit(X)
    with pytest.raises(ValueError, match=message):
        model.score(X, y)
