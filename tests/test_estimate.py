"""What a fit says that it will need, and what it needs."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from dualmetric import SPCA, SRP, DuOri, DuRP, Triplets
from dualmetric.estimators._estimate import Estimate
from makers import make_classes, make_wide

LEARNERS = [DuRP, DuOri, SRP, SPCA]


def shaped(n, d, dtype=np.float64):
    """Something with a shape and a dtype, and no numbers."""
    return SimpleNamespace(shape=(n, d), dtype=np.dtype(dtype))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("shrinkage", [1.0, 0.5])
def test_needs_no_numbers(learner, shrinkage):
    model = learner(shrinkage=shrinkage)
    for n, d in ((100, 10), (10, 100), (10**6, 10**6), (3000, 5000), (2, 1)):
        for dtype in (np.float32, np.float64, np.float16, np.int64):
            found = model.estimate(shaped(n, d, dtype))
            assert isinstance(found, Estimate)
            assert isinstance(found.memory, int)
            assert found.memory > 0
            assert found.work > 0
    assert not hasattr(model, "metric_")


def test_an_array_of_the_same_shape_gives_the_same():
    assert DuRP().estimate(np.zeros((50, 7))) == DuRP().estimate(shaped(50, 7))


@pytest.mark.parametrize(
    ("n", "d", "route"),
    [
        (100, 5000, "span"),
        (1999, 2000, "span"),
        (2000, 4000, "matrix"),
        (100, 100, "matrix"),
        (10**6, 4000, "matrix"),
        (2000, 4001, "products"),
        (10**6, 10**6, "products"),
    ],
)
def test_routes(n, d, route):
    assert DuRP().estimate(shaped(n, d)).route == route
    assert DuOri().estimate(shaped(n, d)).route == route
    assert SRP().estimate(shaped(n, d)).route == "matrix"  # of the few projections
    assert SPCA().estimate(shaped(n, d)).route == "matrix"


@pytest.mark.parametrize(("n", "d"), [(100, 5000), (5000, 200), (10_000, 100_000)])
def test_grows_with_what_is_asked_for(n, d):
    def memory(**parameters):
        return DuRP(**parameters).estimate(make_wide(n, d)[0]).memory

    def work(**parameters):
        return DuRP(**parameters).estimate(make_wide(n, d)[0]).work

    for get in (memory, work):
        assert get(n_triplets=10**7) > get(n_triplets=10**6) > get(n_triplets=10**5)
        assert get(n_projections=5000) >= get(n_projections=10)
        assert get(shrinkage=0.5) >= get()
    assert work(max_epochs=10) > work(max_epochs=1)
    assert memory(n_components=80) > memory(n_components=10)
    if d > 4000 and n > 2000:
        assert work(n_components=80) > work(n_components=10)


def test_grows_with_the_data():
    for learner in LEARNERS:
        model = learner()
        assert model.estimate(shaped(4000, 300)).memory > model.estimate(shaped(3000, 300)).memory
        assert model.estimate(shaped(3000, 300)).memory > model.estimate(shaped(3000, 200)).memory
        single = model.estimate(shaped(30_000, 300, np.float32)).memory
        assert single < model.estimate(shaped(30_000, 300)).memory


def test_sparse_is_counted_by_its_entries():
    dense = DuRP().estimate(shaped(5000, 100_000)).memory
    thin, thick = (DuRP().estimate(make_wide(5000, 100_000, k)[0]).memory for k in (2, 40))
    assert thin < thick < dense


def test_of_a_source_only_the_rows_to_learn_from_count(tmp_path):
    rows = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(20_000, 20))
    every = DuRP(max_rows=None).estimate(rows)
    assert DuRP(max_rows=20_000).estimate(rows) == every
    for some in (rows, np.empty((20_000, 20), np.float32)):
        few = DuRP(max_rows=3000).estimate(some)
        assert few.memory < every.memory
        assert few.work < every.work


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_fit_that_cannot_succeed_fails_at_once(learner, monkeypatch):
    X, y = make_classes(3000, 40)
    model = learner(n_triplets=1000)
    need = model.estimate(X).memory
    monkeypatch.setattr(
        "dualmetric.supervision.labels.sample_triplets", None
    )  # nothing may be sampled
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: need - 1)
    with pytest.raises(
        ValueError,
        match=rf"{learner.__name__}.fit on 3,000 × 40 needs [\d.]+ .?B of memory, but only "
        r"[\d.]+ .?B is available\..*estimate\(X\)",
    ):
        model.fit(X, y)
    assert not hasattr(model, "comparisons_")
    assert not hasattr(model, "metric_")


def test_a_fit_with_just_enough_goes_on(monkeypatch):
    X, y = make_classes(300, 10)
    model = DuRP(n_triplets=1000, random_state=0)
    need = model.estimate(X).memory
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: need)
    model.fit(X, y)
    monkeypatch.setattr(
        "dualmetric._arrays.system.available_memory", lambda: None
    )  # it does not say
    model.fit(X, y)


def test_a_million_words_is_a_small_part_of_the_square():
    X, _ = make_wide(100_000, 10**6, 5, dtype=np.float32)
    found = DuRP(n_components=50).estimate(X)
    assert found.route == "products"
    assert found.memory < 8e9
    assert DuOri().estimate(X).memory > 1e12


SHAPES = {
    "span": (60, 3000, False),
    "span, sparse": (300, 6000, True),
    "matrix": (3000, 60, False),
    "matrix, wider": (2100, 300, False),
    "matrix, sparse": (3000, 300, True),
    "products": (2500, 5000, True),
    "products, wide": (2500, 20_000, True),
}
# DuOri is slow or refused on the others
CASES = [(learner, shape) for learner in (DuRP, SRP) for shape in SHAPES]
CASES += [(DuOri, "span"), (DuOri, "matrix")]


@pytest.mark.parametrize(("learner", "shape"), CASES)
@pytest.mark.parametrize("shrinkage", [1.0, 0.5])
@pytest.mark.parametrize(("n_triplets", "dtype"), [(2000, np.float64), (20_000, np.float32)])
def test_the_peak_is_within_the_estimate(learner, shape, shrinkage, n_triplets, dtype):
    n, d, is_sparse = SHAPES[shape]
    X, y = make_wide(n, d, 20, dtype=dtype) if is_sparse else make_classes(n, d, dtype=dtype)
    model = learner(
        n_triplets=n_triplets, max_epochs=1, shrinkage=shrinkage, n_components=10, random_state=0
    )
    estimate = model.estimate(X)
    assert learner is SRP or shape.startswith(estimate.route)
    model.fit(X, y)  # what is loaded and compiled once is not counted
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert estimate.memory / 10 <= peak <= estimate.memory


def test_in_words():
    text = str(Estimate("products", 1_234_000_000, 5.67e12))
    assert text == "about 1.2 GB beyond X and 5,670.0 billion operations (route: products)"
    assert str(DuRP().estimate(shaped(1000, 10))).endswith("(route: matrix)")
    route, memory, work = Estimate("span", 3, 4.0)
    assert (route, memory, work) == ("span", 3, 4.0)


def test_given_triplets_count_rather_than_those_to_sample():
    X = np.zeros((1000, 20))
    few = np.zeros((50, 3), dtype=int)
    assert DuRP().estimate(X, Triplets(few)) == DuRP(n_triplets=50).estimate(X)


def test_rows_of_a_source_are_part_of_it(tmp_path):
    rows = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(300, 20))
    in_memory = DuRP().estimate(np.zeros((300, 20), np.float32))
    assert DuRP().estimate(rows).memory == in_memory.memory + 300 * 20 * 4


def test_lists_and_frames():
    pd = pytest.importorskip("pandas")
    X = np.zeros((30, 4))
    for rows in (X.tolist(), pd.DataFrame(X)):
        assert DuRP().estimate(rows) == DuRP().estimate(X)
