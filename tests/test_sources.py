"""Rows that do not fit in memory: memory maps, and objects like HDF5 and Zarr arrays."""

import gc
import re
from itertools import pairwise
from threading import current_thread
from threading import enumerate as enumerate_threads
from time import perf_counter, sleep

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dualmetric import (
    LMNN,
    OASIS,
    SPCA,
    SRP,
    DuOri,
    DuRP,
    DuRPCV,
    Euclidean,
    Metric,
    Triplets,
    Whitening,
    knn_accuracy,
    mean_average_precision,
    sources,
)
from dualmetric.sources import blocks, gather, is_source, learning_rows

LEARNERS = [DuRP, DuOri, SRP, SPCA]
FEW = {"n_triplets": 300, "random_state": 0}


class Stored:
    """What HDF5 and Zarr arrays have in common; it remembers which slices were read."""

    def __init__(self, array, *, ends_at=None, shape=None, chunks=None):
        self._array, self._ends_at = array, ends_at
        self.shape, self.dtype = shape or array.shape, array.dtype
        self.chunks = chunks if chunks is not None else getattr(array, "chunks", None)
        self.read = []

    def __getitem__(self, key):
        assert isinstance(key, slice), "rows are read by slices only"
        assert key.step in (None, 1)
        self.read.append((key.start, min(key.stop, self.shape[0])))
        if self._ends_at is None:
            return self._array[key]
        return self._array[: self._ends_at][key].copy()

    def __len__(self):
        return self.shape[0]

    @property
    def largest_read(self):
        return max(stop - start for start, stop in self.read)


def make_data(n=60, d=12, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, d))
    X[:, 0] += 3.0 * (y == 1)
    X[:, 1] += 3.0 * (y == 2)
    return X.astype(dtype), y


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
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 10 * 12 * 8)


def bits(learner):
    return learner.components_.tobytes(), learner.dual_coef_.tobytes()


# --- what is a source -----------------------------------------------------------------------


def test_sources(mapped, tmp_path):
    X, _ = make_data()
    assert is_source(mapped(X))
    assert is_source(mapped(X)[5:20])
    assert is_source(Stored(X))
    np.save(tmp_path / "rows.npy", X)
    assert is_source(np.load(tmp_path / "rows.npy", mmap_mode="r"))


def test_not_sources(mapped):
    X, y = make_data()
    for rows in (
        X,
        X.tolist(),
        tuple(map(tuple, X)),
        np.ma.masked_array(X),
        pd.DataFrame(X),
        pd.Series(y),
        pl.DataFrame(X),
        sp.csr_matrix(X),
        sp.csr_array(X),
        sp.coo_matrix(X),
        sp.csc_array(X),
        mapped(X)[0],  # one row
        mapped(X)[[1, 2]],  # a copy in memory
        Stored(X.ravel()),
        None,
        "rows",
        3.0,
    ):
        assert not is_source(rows), type(rows)


def test_a_memory_map_of_one_dimension_is_refused(mapped):
    X, y = make_data()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        DuRP(**FEW).fit(mapped(X)[:, 0], y)


# --- reading --------------------------------------------------------------------------------


def test_blocks_are_all_the_rows_once(small_blocks):
    X, _ = make_data(65)
    stored = Stored(X)
    got = list(blocks(stored))
    assert [start for start, _ in got] == [0, 10, 20, 30, 40, 50, 60]
    assert_array_equal(np.vstack([block for _, block in got]), X)
    assert stored.read == [(a, min(a + 10, 65)) for a in range(0, 65, 10)]


def test_rows_wider_than_a_block_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 8)
    X, _ = make_data(5)
    stored = Stored(X)
    assert_array_equal(gather(stored, np.array([1, 3])), X[[1, 3]])
    assert stored.read == [(1, 2), (3, 4)]


def test_gather_reads_each_block_once_and_skips_others(small_blocks):
    X, _ = make_data(100)
    rows = np.array([3, 4, 9, 35, 70, 79, 99])
    stored = Stored(X)
    assert_array_equal(gather(stored, rows), X[rows])
    assert stored.read == [(0, 10), (30, 40), (70, 80), (90, 100)]


def test_gather_of_everything_and_of_nothing(small_blocks):
    X, _ = make_data(33)
    stored = Stored(X)
    assert_array_equal(gather(stored, np.arange(33)), X)
    assert len(stored.read) == 4
    stored = Stored(X)
    assert gather(stored, np.array([], dtype=int)).shape == (0, 12)
    assert stored.read == []


@pytest.mark.parametrize("rows", [[-1, 3], [3, 100]])
def test_gather_of_rows_that_are_not_there(rows):
    with pytest.raises(ValueError, match=r"X has no row .*: row numbers go from 0 to 59"):
        gather(Stored(make_data()[0]), np.array(rows))


def test_gather_of_blocks_of_another_width():
    X, _ = make_data()
    with pytest.raises(ValueError, match=r"shape \(60, 1\) came where its shape says 12 columns"):
        gather(Stored(X[:, :1], shape=(60, 12)), np.array([3, 4]))
    with pytest.raises(ValueError, match="could not be read"):
        list(blocks(Stored(X[:, :1], shape=(60, 12))))


def test_learning_rows(rng, monkeypatch):
    assert_array_equal(learning_rows(10, rng), np.arange(10))
    monkeypatch.setattr(sources, "LEARNING_ROWS", 50)
    rows = learning_rows(1000, rng)
    assert len(rows) == len(np.unique(rows)) == 50
    assert (np.diff(rows) > 0).all()
    assert rows.max() < 1000
    assert rows.max() > 700  # not the first of them
    assert (learning_rows(1000, rng) != rows).any()
    assert rows.dtype == learning_rows(10, rng).dtype == np.int32  # as triplets have them


# --- chunks ---------------------------------------------------------------------------------


def chunks_read(stored, edges):
    """How often each chunk was read; every read must begin and end with a chunk."""
    counts = dict.fromkeys(pairwise(edges), 0)
    for start, stop in stored.read:
        assert start in edges
        assert stop in edges
        for chunk in counts:
            counts[chunk] += start <= chunk[0] < stop
    return list(counts.values())


@pytest.mark.parametrize(
    ("chunks", "edges"),
    [
        ((7, 12), [*range(0, 65, 7), 65]),
        ((7, 5), [*range(0, 65, 7), 65]),  # also cut across the columns
        ((1, 12), range(66)),
        ((10, 12), [0, 10, 20, 30, 40, 50, 60, 65]),
        ((30, 12), [0, 30, 60, 65]),  # more than a block
        ((1000, 12), [0, 65]),
        (((3, 0, 4, 20, 1, 1, 36), (12,)), [0, 3, 7, 27, 28, 29, 65]),  # as Dask has them
    ],
)
def test_chunks_are_read_whole_and_once(chunks, edges, small_blocks):
    X, _ = make_data(65)
    stored = Stored(X, chunks=chunks)
    got = list(blocks(stored))
    assert_array_equal(np.concatenate([block for _, block in got]), X)
    assert set(chunks_read(stored, edges)) == {1}
    # small chunks come together: two that follow each other do not fit in one block
    for (a, _), (_, b) in pairwise(stored.read):
        assert b - a > 10 or b == 65
    assert stored.largest_read <= max(10, *np.diff(edges))
    for rows in ([0], [64], [3, 4, 28], [5, 6, 7, 8, 40, 64], range(65), []):
        stored.read.clear()
        rows = np.array(rows, dtype=int)
        assert_array_equal(gather(stored, rows), X[rows])
        needed = [int(np.any((a <= rows) & (rows < b))) for a, b in pairwise(edges)]
        assert chunks_read(stored, edges) == needed


def test_a_great_many_small_chunks():
    """The plan of what to read grows with blocks, not with chunks."""
    stored = Stored(np.broadcast_to(np.float32(1), (2_000_000, 8)), chunks=(1, 8))
    begin = perf_counter()
    assert len(sources._spans(stored)) == 1
    assert perf_counter() - begin < 1.0


def test_a_chunk_beyond_memory(monkeypatch, small_blocks):
    X, _ = make_data(65)
    monkeypatch.setattr("dualmetric._system.available_memory", lambda: 2 * 30 * 12 * 8 - 1)
    for action in (lambda X: list(blocks(X)), lambda X: gather(X, np.array([3]))):
        with pytest.raises(ValueError, match=r"largest chunk of X, of 30 rows, needs .* 64 MB is"):
            action(Stored(X, chunks=(30, 12)))
        action(Stored(X, chunks=(20, 12)))


class Watched(Stored):
    """Remembers the thread of each read."""

    def __init__(self, array, **more):
        super().__init__(array, **more)
        self.threads = set()

    def __getitem__(self, key):
        self.threads.add(current_thread().name)
        sleep(0.002)
        return super().__getitem__(key)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("safe", [False, True])
def test_reading_ahead(threads, safe, monkeypatch, small_blocks):
    monkeypatch.setattr(sources, "n_threads", lambda: threads)
    X, _ = make_data(205)
    stored = Watched(X)
    stored.thread_safe = safe
    ahead = 0
    for number, (start, block) in enumerate(blocks(stored)):
        assert_array_equal(block, X[start : start + 10])
        ahead = max(ahead, len(stored.read) - number - 1)
    assert sum(stop - start for start, stop in stored.read) == 205
    assert ahead <= (0 if threads == 1 else min(threads, sources._READERS) if safe else 1)
    assert len(stored.threads) <= (min(threads, sources._READERS) if safe else 1)
    assert ("MainThread" in stored.threads) == (threads == 1)


def test_reading_ahead_stops_with_the_reader(monkeypatch, small_blocks):
    monkeypatch.setattr(sources, "n_threads", lambda: 2)
    stored = Watched(make_data(205)[0])
    for _ in blocks(stored):
        break
    gc.collect()
    read = len(stored.read)
    sleep(0.05)
    assert len(stored.read) == read <= 3
    assert not any(thread.name.startswith("dualmetric-reader") for thread in enumerate_threads())


def test_an_error_of_the_source_is_handed_on(monkeypatch, small_blocks):
    monkeypatch.setattr(sources, "n_threads", lambda: 2)

    class Failing(Stored):
        def __getitem__(self, key):
            if key.start == 30:
                raise OSError("the disk is gone")
            return super().__getitem__(key)

    stored = Failing(make_data(65)[0])
    with pytest.raises(OSError, match="the disk is gone"):
        list(blocks(stored))
    assert len(stored.read) <= 4


# --- Zarr and HDF5 --------------------------------------------------------------------------


@pytest.fixture(params=["zarr-2", "zarr-3", "zarr-shards", "hdf5", "hdf5-contiguous"])
def store(request, tmp_path):
    """Store rows in chunks of seven, or in none."""
    form = request.param

    def in_zarr(X):
        zarr = pytest.importorskip("zarr", reason="needs pip install 'dualmetric[zarr]'")
        path, options = str(tmp_path / "rows.zarr"), {"chunks": (7, X.shape[1])}
        if hasattr(zarr, "create_array"):  # from Zarr 3 on
            options["zarr_format"] = 2 if form == "zarr-2" else 3
            options["shards"] = (28, X.shape[1]) if form == "zarr-shards" else None
            array = zarr.create_array(path, shape=X.shape, dtype=X.dtype, **options)
        elif form == "zarr-2":
            array = zarr.open_array(path, mode="w", shape=X.shape, dtype=X.dtype, **options)
        else:
            pytest.skip("this version of Zarr has one format")
        array[:] = X
        return zarr.open_array(path, mode="r")

    def in_hdf5(X):
        h5py = pytest.importorskip("h5py", reason="needs pip install 'dualmetric[hdf5]'")
        file = h5py.File(tmp_path / "rows.h5", "w")
        request.addfinalizer(file.close)
        chunks = None if form == "hdf5-contiguous" else (7, X.shape[1])
        return file.create_dataset("rows", data=X, chunks=chunks)

    return in_hdf5 if form.startswith("hdf5") else in_zarr


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_stored_arrays(store, dtype, distance, monkeypatch):
    X, y = make_data(100, dtype=dtype)
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 20 * 12 * X.itemsize)
    parameters = {"distance": distance, "shrinkage": 0.5, **FEW}
    expected = DuRP(**parameters).fit(X, y)
    array = store(X)
    assert is_source(array)
    stored = Stored(array)
    got = DuRP(**parameters).fit(stored, y)
    assert bits(got) == bits(expected)
    step = 20 if stored.chunks is None else 7
    edges = [*range(0, 100, step), 100]
    assert set(chunks_read(stored, edges)) == {1}
    stored.read.clear()
    out = got.transform(stored)
    assert out.dtype == dtype
    assert_allclose(out, expected.transform(X), atol=1e-5 if dtype == np.float32 else 1e-12)
    assert set(chunks_read(stored, edges)) == {1}
    assert_array_equal(got.transform(array), out)
    assert got.score(array, y) == pytest.approx(expected.score(X, y), abs=1e-6)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int64, np.float16])
def test_stored_arrays_of_other_numbers(store, dtype):
    X, y = make_data()
    X = (X > 0.5 if dtype is np.bool_ else np.abs(10 * X)).astype(dtype)
    array = store(X)
    expected = DuRP(**FEW).fit(X, y)
    got = DuRP(**FEW).fit(array, y)
    assert bits(got) == bits(expected)
    assert got.transform(array).dtype == expected.transform(X).dtype
    assert_allclose(got.transform(array), expected.transform(X), atol=1e-12)


@pytest.mark.parametrize(
    "dtype", ["O", "U3", "S3", "c16", "M8[s]", [("a", "f4"), ("b", "f8")], "V4"]
)
def test_what_is_no_number_is_refused(dtype):
    X = np.zeros((60, 12), dtype=dtype)
    stored = Stored(X)
    y = np.arange(60) % 3
    match = re.escape(f"X holds {X.dtype} where numbers belong: store it as float32")
    for action in (lambda: DuRP(**FEW).fit(stored, y), lambda: Metric(None, 12).transform(stored)):
        with pytest.raises(ValueError, match=match):
            action()
    assert stored.read == []


def test_number_types_that_numpy_does_not_know():
    stored = Stored(np.zeros((60, 12)))
    stored.dtype = "brain.float16"
    with pytest.raises(ValueError, match=r"brain\.float16, which NumPy does not know: convert it"):
        Metric(None, 12).transform(stored)


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
        assert_array_equal(got.triplets_.index, expected.triplets_.index)
        assert got.triplets_.index.dtype == expected.triplets_.index.dtype
        assert got.n_features_in_ == 12
        if distance == "cosine":
            assert_array_equal(got.metric_.centre, expected.metric_.centre)


@pytest.mark.parametrize("learner", LEARNERS)
def test_large_sources_are_learned_from_chosen_rows(learner, monkeypatch, small_blocks):
    monkeypatch.setattr(sources, "LEARNING_ROWS", 40)
    X, y = make_data(1000)
    names = np.array(["c", "a", "b"])[y]
    stored = Stored(X)
    model = learner(**FEW).fit(stored, names)
    assert len(stored.read) == len(set(stored.read)) <= 40  # one pass
    index = model.triplets_.index
    assert len(np.unique(index)) <= 40
    assert index.max() > 500
    i, j, k = index.T
    assert (names[i] == names[j]).all()
    assert (names[i] != names[k]).all()
    # the same as from those rows in memory
    rows = np.sort(np.unique(index))
    small = learner(scale=False, random_state=0)
    here = small.fit(X[rows], triplets=model.triplets_.renumber(rows)).metric_.pairwise(X[:50])
    there = small.fit(X, triplets=model.triplets_).metric_.pairwise(X[:50])
    if learner is not SPCA:  # whose components are those of all rows
        assert_allclose(here, there, atol=1e-9 * there.max())
    assert model.score(X[:300], y[:300]) > 0.3
    # the seed decides which
    again = learner(**FEW).fit(Stored(X), names)
    assert_array_equal(again.triplets_.index, index)
    other = learner(n_triplets=300, random_state=1).fit(Stored(X), names)
    assert set(np.unique(other.triplets_.index)) != set(rows)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("as_object", [False, True])
def test_given_triplets_on_a_source(learner, as_object, mapped, random_index, rng):
    # they name every row, so that the mean distance and the components are those of all rows
    X, _ = make_data(200)
    index = np.vstack([random_index(200, 300, rng), np.c_[0:198, 1:199, 2:200]])
    triplets = Triplets(index) if as_object else index
    expected = learner(random_state=0).fit(X, triplets=triplets)
    for source in (mapped(X), Stored(X)):
        got = learner(random_state=0).fit(source, triplets=triplets)
        assert_array_equal(got.triplets_.index, index)
        assert bits(got) == bits(expected)


@pytest.mark.parametrize("learner", [DuRP, DuOri, SRP])
def test_given_triplets_that_name_few_rows(learner, small_blocks, rng):
    X, _ = make_data(1000)
    rows = np.r_[500:530, 990:1000]
    index = np.array([rng.choice(rows, 3, replace=False) for _ in range(200)])
    stored = Stored(X)
    got = learner(random_state=0, scale=False).fit(stored, triplets=index)
    assert {start for start, _ in stored.read} == {500, 510, 520, 990}
    assert_array_equal(got.triplets_.index, index)
    expected = learner(random_state=0, scale=False).fit(X, triplets=index)
    assert_allclose(got.dual_coef_, expected.dual_coef_, atol=1e-9)
    a, b = (model.metric_.pairwise(X[:50]) for model in (got, expected))
    assert_allclose(a, b, atol=1e-9 * b.max())


@pytest.mark.parametrize("as_object", [False, True])
def test_given_triplets_that_name_rows_that_are_not_there(as_object):
    index = np.array([[0, 1, 60]])
    with pytest.raises(ValueError, match="0 to 59"):
        DuRP(**FEW).fit(Stored(make_data()[0]), triplets=Triplets(index) if as_object else index)


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
    stored = Stored(X)
    for transform in (model.transform, model.metric_.transform):
        stored.read.clear()
        got = transform(stored)
        assert got.dtype == dtype
        assert_allclose(got, expected, atol=1e-5 if dtype == np.float32 else 1e-13)
        assert stored.largest_read <= 20
        assert [start for start, _ in stored.read] == sorted({start for start, _ in stored.read})
        assert sum(stop - start for start, stop in stored.read) == 205
        assert_allclose(transform(mapped(X)), got, atol=1e-6)


def test_transform_by_the_identity(small_blocks):
    X, _ = make_data(35)
    assert_array_equal(Metric(None, 12).transform(Stored(X)), X)


def test_transform_holds_a_few_blocks_only(monkeypatch):
    import tracemalloc

    class Made:
        """Rows that are made when they are read."""

        shape, dtype = (40_000, 64), np.dtype(np.float64)

        def __getitem__(self, key):
            return np.ones((min(key.stop, 40_000) - key.start, 64))

    monkeypatch.setattr(sources, "_BLOCK_BYTES", 2**18)
    metric = Metric(np.ones((64, 2)))
    tracemalloc.start()
    try:
        out = metric.transform(Made())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.shape == (40_000, 2)
    assert peak < out.nbytes + 4 * 2**18 + 2**16


# --- bad sources ----------------------------------------------------------------------------


def test_a_source_that_ends_early(small_blocks):
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    for ends_at in (0, 5, 37, 40, 59):
        short = Stored(X, ends_at=ends_at)
        with pytest.raises(ValueError, match=rf"row \d+ .* ends at row {ends_at}, .* says 60"):
            DuRP(**FEW).fit(short, y)
        first = ends_at // 10 * 10
        with pytest.raises(
            ValueError,
            match=rf"rows {first} to {first + 10} of X could not be read: {ends_at % 10}",
        ):
            model.transform(short)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_a_number_in_a_block(value, mapped, small_blocks):
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    X[47, 3] = value
    for source in (mapped(X), Stored(X)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            DuRP(**FEW).fit(source, y)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.transform(source)


def test_another_width(mapped):
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    for source in (mapped(X[:, :11]), Stored(X[:, :11])):
        with pytest.raises(ValueError, match="X has 11 features, but this metric is over 12"):
            model.transform(source)


def test_labels_of_another_length(mapped, monkeypatch):
    X, y = make_data()
    for source in (mapped(X), Stored(X)):
        for n in (59, 61):
            with pytest.raises(ValueError, match=f"y has {n} labels for 60 rows"):
                DuRP(**FEW).fit(source, np.resize(y, n))
    stored = Stored(X)
    with pytest.raises(ValueError, match="labels for 60 rows"):
        DuRP(**FEW).fit(stored, y[:10])
    assert stored.read == []  # before anything was read


def test_no_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        DuRP(**FEW).fit(Stored(make_data()[0]))


def test_no_rows():
    with pytest.raises(ValueError, match="no rows"):
        Metric(None, 12).transform(Stored(np.empty((0, 12))))


def test_rows_that_do_not_fit_are_not_read(monkeypatch):
    rows = np.arange(10)
    monkeypatch.setattr("dualmetric._system.available_memory", lambda: 10 * 4 * 8 - 1)
    with pytest.raises(ValueError, match=r"reading 10 rows of 4 features .* needs .* fewer"):
        gather(np.zeros((20, 4)), rows)
    monkeypatch.setattr("dualmetric._system.available_memory", lambda: 10 * 4 * 8)
    assert gather(np.zeros((20, 4)), rows).shape == (10, 4)


# --- the other learners, and whitening on all rows ------------------------------------------


@pytest.mark.parametrize("learner", [OASIS(**FEW), LMNN(random_state=0), Euclidean("cosine")])
def test_every_learner_reads_sources(learner, small_blocks):
    X, y = make_data(60)
    stored = Stored(X)
    expected = learner.fit(X, y).metric_.transform(X)
    found = learner.fit(stored, y).metric_
    assert stored.largest_read <= 10
    assert_allclose(found.transform(X), expected, rtol=1e-9, atol=1e-12)
    assert learner.score(stored, y) == pytest.approx(learner.score(X, y))
    assert_allclose(
        learner.pair_distance(stored, Stored(X[::-1])), learner.pair_distance(X, X[::-1])
    )


@pytest.mark.parametrize("learner", [DuRP, OASIS, LMNN, Whitening, DuRPCV])
def test_many_rows_in_memory_are_learned_from_as_those_of_a_source(learner, monkeypatch):
    monkeypatch.setattr(sources, "LEARNING_ROWS", 60)
    X, y = make_data(201)
    names = [f"f{number}" for number in range(X.shape[1])]
    settings = {"random_state": 0}
    if learner in (DuRP, OASIS, DuRPCV):
        settings["n_triplets"] = 200
    there = learner(**settings).fit(Stored(X), y)
    here = learner(**settings).fit(pd.DataFrame(X, columns=names), y)
    assert here.components_.tobytes() == there.components_.tobytes()
    assert list(here.feature_names_in_) == names
    # a copy of 60 rows of 199 would not be small: all are learned from
    every = learner(**settings).fit(X[:199], y[:199])
    some = learner(**settings).fit(Stored(X[:199]), y[:199])
    assert not np.array_equal(every.components_, some.components_)
    # sparse rows are all kept
    if learner is DuRP:
        sparse = learner(**settings).fit(sp.csr_matrix(X), y)
        assert len(sparse.triplets_.rows()) > 100


def test_whitening_on_all_rows_in_memory_is_that_of_a_source(monkeypatch):
    monkeypatch.setattr(sources, "LEARNING_ROWS", 60)
    X, y = make_data(300)
    model = DuRP(shrinkage=0.3, all_rows=True, **FEW)
    expected = model.fit(Stored(X), y).metric_.matrix()
    assert_allclose(model.fit(X, y).metric_.matrix(), expected)


def test_numbers_of_triplets_are_those_of_the_source(monkeypatch):
    monkeypatch.setattr(sources, "LEARNING_ROWS", 30)
    X, y = make_data(90)
    model = OASIS(**FEW).fit(Stored(X), y)
    i, j, k = model.triplets_.index.T
    assert model.triplets_.index.max() > 30
    assert (y[i] == y[j]).all()
    assert (y[i] != y[k]).all()


@pytest.mark.parametrize("learner", [DuRP, DuOri, SRP, SPCA])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_whitening_on_all_rows(learner, dtype, small_blocks, monkeypatch):
    # most rows of a class lie along feature 5; those that are learned from do not show it
    X, y = make_data(400)
    X[:, 5] *= 20.0
    X = (10 * X).astype(dtype)
    monkeypatch.setattr(sources, "LEARNING_ROWS", 50)
    chosen = np.sort(np.random.default_rng(0).choice(400, 50, replace=False))
    monkeypatch.setattr(sources, "learning_rows", lambda n, rng: chosen.astype(np.int32))
    flat = X.copy()
    flat[chosen, 5] = 0
    settings = {"shrinkage": 0.05, "n_components": 2, **FEW}
    if learner is not DuOri:
        settings["n_projections"] = 11
    few = learner(**settings).fit(Stored(flat), y)
    every = learner(all_rows=True, **settings).fit(Stored(flat), y)
    # W = Σ(x − mean of its class)(…)ᵀ/n, over all rows
    W = sum(
        (flat[y == c] - flat[y == c].mean(axis=0)).T @ (flat[y == c] - flat[y == c].mean(axis=0))
        for c in range(3)
    ) / len(flat)  # fmt: skip
    found = sources.within_scatter(Stored(flat), y, 3)
    assert_allclose(found, W, rtol=1e-4, atol=1e-6 * W.max())
    if learner in (DuRP, DuOri):
        assert abs(every.components_[:, 5]).max() < 0.2 * abs(every.components_).max()
    assert not np.allclose(every.metric_.matrix(), few.metric_.matrix())


def test_whitening_on_all_rows_is_the_same_where_all_are_learned_from(small_blocks):
    X, y = make_data(90)
    expected = DuRP(shrinkage=0.3, **FEW).fit(X, y).metric_.matrix()
    found = DuRP(shrinkage=0.3, all_rows=True, **FEW).fit(Stored(X), y).metric_.matrix()
    assert_allclose(found, expected)


def test_all_rows_needs_labels_and_few_features(monkeypatch):
    X, y = make_data(90)
    with pytest.raises(ValueError, match="by the labels of all rows"):
        DuRP(shrinkage=0.3, all_rows=True).fit(X, triplets=[(0, 3, 1)])
    monkeypatch.setattr(sources, "LEARNING_ROWS", 50)
    wide = Stored(np.zeros((60, 5000), np.float32))
    with pytest.raises(ValueError, match=r"up to 4,000 features, and X has 5,000"):
        DuRP(shrinkage=0.3, all_rows=True).fit(wide, y[:60])


def test_a_memory_map_whose_file_was_cut_short(tmp_path):
    X, y = make_data(600)
    path = tmp_path / "rows"
    made = np.memmap(path, dtype=X.dtype, mode="w+", shape=X.shape)
    made[:] = X
    made.flush()
    with path.open("r+b") as file:
        file.truncate(X.nbytes // 2)
    model = DuRP(**FEW).fit(X, y)
    for rows in (made, made[10:]):
        with pytest.raises(ValueError, match=r"rows ends early: it has [\d,]+ bytes"):
            DuRP(**FEW).fit(rows, y[: len(rows)])
        with pytest.raises(ValueError, match="ends early"):
            model.metric_.transform(rows)


# --- rare classes ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "source"])
def test_rare_classes_are_learned_from(kind, monkeypatch):
    monkeypatch.setattr(sources, "LEARNING_ROWS", 50)
    X, y = make_data(3000)
    y = np.where(y == 2, 0, y)
    rare = np.array([7, 500, 1200, 2999])
    y[rare] = 5
    for seed in range(5):
        model = DuRP(n_triplets=500, random_state=seed)
        model.fit(X if kind == "array" else Stored(X), y)
        assert set(rare) & set(model.triplets_.rows())


def test_many_small_classes_are_chosen_whole(monkeypatch, rng):
    monkeypatch.setattr(sources, "LEARNING_ROWS", 100)
    labels = rng.permutation(np.repeat(np.arange(1000), 4))
    rows = sources.learning_rows(len(labels), rng)
    more = sources.with_rare_classes(rows, labels, rng)
    assert set(rows) <= set(more)
    assert len(rows) < len(more) <= 200
    sizes = np.unique(labels[np.setdiff1d(more, rows)], return_counts=True)[1]
    assert np.median(sizes) >= 3  # but for those that the even choice holds already
    # classes that have enough are left alone
    plenty = np.arange(4000) % 3
    assert_array_equal(sources.with_rare_classes(rows, plenty, rng), rows)


def test_a_result_beyond_memory_is_refused_before_it_is_made(monkeypatch):
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    monkeypatch.setattr("dualmetric._system.available_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"transformed 60 rows .* a Dask array"):
        model.metric_.transform(Stored(X))


def test_sources_are_ranked_and_searched_in_memory():
    X, y = make_data()
    assert mean_average_precision(Stored(X), y) == mean_average_precision(X, y)
    assert knn_accuracy(Stored(X), y, X[:9], y[:9]) == knn_accuracy(X, y, X[:9], y[:9])


@pytest.mark.parametrize(("y", "message"), [(None, "y is None"), ("topic", "the string 'topic'")])
def test_labels_that_are_none(y, message):
    X, _ = make_data()
    model = Euclidean().fit(X)
    with pytest.raises(ValueError, match=message):
        model.score(X, y)
