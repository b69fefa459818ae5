"""Rows in memory, in data frames and on disk: opening, checking, reading, choosing."""

import gc
import operator
import re
import tracemalloc
from itertools import pairwise
from threading import current_thread
from threading import enumerate as enumerate_threads
from time import perf_counter, sleep

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dualmetric._arrays import namespace
from dualmetric._rows import (
    choose_rows,
    column_means,
    evenly_chosen,
    open_rows,
    ranking,
    stored,
    with_rare_classes,
    within_scatter,
)
from dualmetric._rows.base import MemoryRows
from dualmetric._rows.stored import StoredRows
from dualmetric.evaluation import average_precisions
from makers import Stored


def make_data(n=60, d=12, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(dtype), np.arange(n) % 3


def rows_of(X, **options):
    return open_rows(X, **options)[0]


def doubled(block):
    return 2 * block[:, :2]


def sums(block, start):
    return np.asarray(block.sum(axis=0)).ravel()


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


# --- opening --------------------------------------------------------------------------------


def test_rows_on_disk(mapped, tmp_path):
    X, _ = make_data()
    np.save(tmp_path / "rows.npy", X)
    for source in (
        mapped(X),
        mapped(X)[5:20],
        Stored(X),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
    ):
        rows = rows_of(source)
        assert isinstance(rows, StoredRows)
        assert not rows.in_memory
        assert rows.names is None
    assert rows_of(rows) is rows


def test_rows_in_memory(mapped):
    X, _ = make_data()
    for source in (
        X,
        X.tolist(),
        tuple(map(tuple, X)),
        np.ma.masked_array(X),
        pd.DataFrame(X),
        pl.DataFrame(X),
        sp.csr_matrix(X),
        sp.csr_array(X),
        sp.coo_matrix(X),
        sp.csc_array(X),
        sp.bsr_matrix(X, blocksize=(2, 3)),
        sp.lil_matrix(X),
        np.asfortranarray(X),
        X[:, ::-1][:, ::-1],
    ):
        rows = rows_of(source)
        assert isinstance(rows, MemoryRows)
        assert rows.in_memory
        assert rows.shape == X.shape
        assert rows.n_features == 12
        found = rows.take()
        assert found is rows.take()  # no copy
        if sp.issparse(found):
            assert found.format == "csr"
            assert found.has_canonical_format
            assert found.indices.dtype == np.int32
            found = found.toarray()
        else:
            assert found.flags.c_contiguous
        assert_array_equal(found, X)
        some = rows.take(np.array([3, 50]))
        assert_array_equal(some.toarray() if sp.issparse(some) else some, X[[3, 50]])
        assert [start for start, _ in rows.blocks()] == [0]
        assert_allclose(rows.reduce(sums, operator.add), X.sum(axis=0), atol=1e-12)
    assert rows_of(X).take() is X
    assert isinstance(rows_of(mapped(X)[[1, 2]]), MemoryRows)  # a copy in memory


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int64, np.bool_, ">f4"])
def test_other_number_types_are_converted(dtype, mapped, small_blocks):
    X, _ = make_data()
    X = (X > 0.5 if dtype is np.bool_ else np.abs(10 * X)).astype(dtype)
    for source in (X, mapped(X), Stored(X), sp.csr_matrix(X.astype(np.float64))):
        rows = rows_of(source)
        assert rows.dtype == np.float64
        assert rows.take(np.array([3, 40])).dtype == np.float64
        assert all(block.dtype == np.float64 for _, block in rows.blocks())
        assert rows.map(doubled, 2).dtype == np.float64
        assert_allclose(rows.reduce(sums, operator.add), X.astype(float).sum(axis=0))


@pytest.mark.parametrize("kind", [np.asarray, Stored, sp.csr_matrix, pd.DataFrame, pl.DataFrame])
def test_float32_stays(kind):
    rows = rows_of(kind(make_data(dtype=np.float32)[0]))
    assert rows.dtype == rows.take().dtype == column_means(rows).dtype == np.float32


def test_device_arrays(rng):
    torch = pytest.importorskip("torch")
    X, y = make_data()
    for made in (torch.tensor(X), torch.tensor(X).to(torch.float16), torch.tensor(np.int32(9 * X))):
        rows = rows_of(made)
        expected = made.numpy().astype(np.float64)
        assert rows.in_memory
        assert rows.dtype == (np.float32 if made.dtype == torch.float16 else np.float64)
        assert isinstance(rows.take(), torch.Tensor)
        assert_allclose(rows.take(np.array([3, 50])).numpy(), expected[[3, 50]])
        assert isinstance(rows.map(doubled, 2), torch.Tensor)
        assert isinstance(column_means(rows), torch.Tensor)
        assert_allclose(column_means(rows).numpy(), expected.mean(axis=0), atol=1e-6)
        scatter = within_scatter(rows_of(expected), y, 3)
        assert_allclose(within_scatter(rows, y, 3), scatter, rtol=1e-5, atol=1e-5)
    for wrong, message in (
        (torch.zeros(3), "Expected 2D array"),
        (torch.zeros((0, 3)), "empty"),
        (torch.zeros((2, 2), dtype=torch.complex64), "Complex data not supported"),
        (torch.full((2, 2), torch.nan), "Input A contains NaN or infinity"),
        (torch.zeros((2, 2)).to_sparse(), "sparse matrix on a device"),
    ):
        with pytest.raises(ValueError, match=message):
            open_rows(wrong, name="A")


def test_an_array_of_another_library():
    xp = pytest.importorskip("array_api_strict")
    X, y = make_data()
    rows = rows_of(xp.asarray(X))
    assert_allclose(np.asarray(column_means(rows)), X.mean(axis=0))
    assert_allclose(within_scatter(rows, y, 3), within_scatter(rows_of(X), y, 3))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "Expected 2D array, got 1D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (np.zeros((0, 3)), "Found array with 0 sample"),
        (np.zeros((3, 0)), "Found array with 0 feature"),
        (np.zeros((2, 2), complex), "Complex data not supported"),
        (np.array([["a", "b"]]), "could not convert string to float|numeric"),
        (np.array([[1.0, np.nan]]), "Input A contains NaN"),
        (np.array([[1.0, np.inf]]), "Input A contains infinity"),
        (sp.csr_matrix([[1.0, np.nan]]), "Input A contains NaN"),
        (np.ma.masked_array([[1.0, 2.0]], [[True, False]]), "A is a masked array"),
        (None, "A|2D"),
        ("rows", "2D|string"),
        (3.0, "Expected 2D array, got scalar"),
    ],
)
def test_wrong_arrays(X, message):
    with pytest.raises(ValueError, match=message):
        open_rows(X, name="A")


def test_objects_that_are_not_numbers():
    with pytest.raises(TypeError, match="argument must be"):
        open_rows(np.array([[1.0, {}]], dtype=object))


def test_a_memory_map_of_one_dimension_is_refused(mapped):
    X, _ = make_data()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        open_rows(mapped(X)[:, 0])


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.bsr_matrix])
@pytest.mark.parametrize("wrong", [-1, 1000, 10**9])
def test_sparse_indices_out_of_range(kind, wrong):
    for part, place in (("indices", 5), ("indptr", 5), ("indptr", -1), ("indptr", 0)):
        X = kind(make_data(60, 12)[0])
        getattr(X, part)[place] = wrong
        with pytest.raises(ValueError, match="A is a damaged sparse matrix"):
            open_rows(X, name="A")


def test_sparse_rows_that_are_shorter_than_their_indptr():
    X = sp.csr_matrix(make_data()[0])
    X.data = X.data[:-5]
    with pytest.raises(ValueError, match="damaged sparse matrix"):
        open_rows(X)
    X = sp.coo_matrix(make_data()[0])
    X.col[3] = 12
    with pytest.raises(ValueError, match=r"damaged sparse matrix of shape \(60, 12\) \(.*12"):
        open_rows(X)


def test_sparse_rows_are_not_changed():
    X = sp.csr_matrix(([1.0, 2.0, 3.0], [2, 0, 2], [0, 3]), shape=(1, 3))
    assert_array_equal(rows_of(X).take().toarray(), [[2, 0, 4]])
    assert X.nnz == 3
    assert_array_equal(X.indices, [2, 0, 2])


def test_another_width():
    with pytest.raises(ValueError, match="A has 12 features, but DuRP is expecting 11 features"):
        rows_of(make_data()[0], name="A").check_width(11, "DuRP")


@pytest.mark.parametrize("kind", [np.asarray, Stored, sp.csr_matrix])
@pytest.mark.parametrize("numbers", [[-1, 3], [3, 100]])
def test_rows_that_are_not_there(kind, numbers):
    with pytest.raises(ValueError, match=r"X has no row .*: row numbers go from 0 to 59"):
        rows_of(kind(make_data()[0])).take(np.array(numbers))


def test_a_name_of_labels_without_columns():
    X, _ = make_data()
    for source in (X, Stored(X), sp.csr_matrix(X)):
        with pytest.raises(ValueError, match="y = 'topic' names a column, but X is not a data fr"):
            open_rows(source, "topic")


# --- data frames ----------------------------------------------------------------------------


def as_arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


FRAMES = [lambda t: t, pl.from_pandas, as_arrow, lambda t: pl.from_pandas(t).lazy()]


def table(dtype=np.float64):
    X, y = make_data(dtype=dtype)
    made = pd.DataFrame(X, columns=[f"f{i}" for i in range(12)])
    return X, made.assign(label=np.array(list("abc"))[y])


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_frames(make, dtype):
    X, made = table(dtype)
    rows, labels = open_rows(make(made), "label")
    assert rows.names == tuple(f"f{i}" for i in range(12))
    assert rows.dtype == dtype
    assert rows.take().flags.c_contiguous
    assert_array_equal(rows.take(), X)
    assert_array_equal(labels, made["label"])
    # by name: in any order, and other columns are ignored
    turned = make(made[made.columns[::-1]])
    rows, y = open_rows(turned, None, names=("f3", "f1"))
    assert y is None
    assert rows.names == ("f3", "f1")
    assert_array_equal(rows.take(), X[:, [3, 1]])
    _, labels = open_rows(turned, "label", names=("f3", "f1"))
    assert_array_equal(labels, made["label"])


@pytest.mark.parametrize("make", FRAMES)
def test_wrong_frames(make):
    _, made = table()
    with pytest.raises(ValueError, match=r"y = 'class' is not a column of X, .* 'f0', .* more"):
        open_rows(make(made), "class")
    with pytest.raises(ValueError, match="'label' holds no numbers"):
        open_rows(make(made))
    with pytest.raises(ValueError, match=r"X has no column 'q', .* learned from"):
        open_rows(make(made), names=("f0", "q"))
    with pytest.raises(ValueError, match="no columns of features"):
        open_rows(make(made[["label"]]), "label")
    made.loc[41, "f2"] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        open_rows(make(made), "label")
    day = made[["f0"]].assign(day=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="'day' holds no numbers"):
        open_rows(make(day))


@pytest.mark.parametrize("make", FRAMES)
def test_columns_of_several_types(make):
    made = pd.DataFrame({"a": np.float32([1, 2]), "b": np.int8([3, 4]), "c": [True, False]})
    rows = rows_of(make(made))
    assert rows.dtype == np.float64
    assert_array_equal(rows.take(), [[1, 3, 1], [2, 4, 0]])


def test_frames_of_pandas():
    whole = pd.DataFrame({"a": pd.array([1, 2], dtype="Int32"), "b": [0.5, 1.5]})
    assert_array_equal(rows_of(whole).take(), [[1, 0.5], [2, 1.5]])
    with pytest.raises(ValueError, match="NaN"):
        open_rows(pd.DataFrame({"a": pd.array([1, None], dtype="Int32")}))
    numbers = pd.DataFrame({"a": np.array([1, 2.5], object)})
    assert_array_equal(rows_of(numbers).take(), [[1], [2.5]])
    with pytest.raises(ValueError, match="column 'b' of X holds something other than numbers"):
        open_rows(pd.DataFrame({"a": [1, 2], "b": np.array([1, {}], object)}))
    X, y = make_data()
    rows, labels = open_rows(pd.DataFrame(X), y)
    assert rows.names is None  # columns are numbered
    assert labels is y
    assert_array_equal(rows_of(pd.DataFrame(X), names=("a",)).take(), X)  # by position
    with pytest.raises(ValueError, match="several columns of the same name"):
        open_rows(pd.DataFrame(X[:, :2], columns=["a", "a"]))


def test_sparse_columns_of_pandas():
    X = sp.random_array((60, 12), density=0.1, rng=np.random.default_rng(0), format="csr")
    made = pd.DataFrame.sparse.from_spmatrix(X, columns=[f"f{i}" for i in range(12)])
    rows, labels = open_rows(made.assign(label=1), "label")
    assert sp.issparse(rows.take())
    assert rows.names[0] == "f0"
    assert_array_equal(rows.take().toarray(), X.toarray())
    assert_array_equal(labels, np.ones(60))


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_of_vectors(make, dtype):
    X, y = make_data(dtype=dtype)
    if make is FRAMES[0]:
        made = pd.DataFrame({"v": list(X), "label": y})
    else:
        made = make(pd.DataFrame({"v": list(X), "label": y}))
    for rows in (rows_of(made, y="label"), rows_of(made, width=12)):
        assert rows.names is None
        assert rows.dtype == dtype
        assert_array_equal(rows.take(), X)
    with pytest.raises(ValueError, match=r"'v' holds no numbers|column 'v' of X holds something"):
        open_rows(made)


def test_an_array_column_of_polars():
    X, _ = make_data(dtype=np.float32)
    rows = rows_of(pl.DataFrame({"v": X}))
    assert rows.dtype == np.float32
    assert_array_equal(rows.take(), X)


@pytest.mark.parametrize("make", FRAMES[:3])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "column 'v' of X has no vector in its row 3"),
        (
            [1.0],
            "column 'v' of X has a vector of length 1 in its row 3, but others have length 2",
        ),
        ([1.0, np.nan], "NaN"),
    ],
)
def test_wrong_vectors(make, wrong, message):
    vectors = [[1.0, 2.0]] * 3 + [wrong]
    with pytest.raises(ValueError, match=message):
        open_rows(make(pd.DataFrame({"v": vectors})))


def test_a_wide_frame_opens_quickly():
    made = pd.DataFrame(np.zeros((2, 2000)), columns=[f"f{i}" for i in range(2000)])
    begin = perf_counter()
    open_rows(made, names=list(made.columns[::-1]))
    assert perf_counter() - begin < 5


# --- reading --------------------------------------------------------------------------------


def test_blocks_are_all_the_rows_once(small_blocks):
    X, _ = make_data(65)
    source = Stored(X)
    got = list(rows_of(source).blocks())
    assert [start for start, _ in got] == [0, 10, 20, 30, 40, 50, 60]
    assert_array_equal(np.vstack([block for _, block in got]), X)
    assert source.read == [(a, min(a + 10, 65)) for a in range(0, 65, 10)]


def test_rows_wider_than_a_block_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 8)
    X, _ = make_data(5)
    source = Stored(X)
    assert_array_equal(rows_of(source).take(np.array([1, 3])), X[[1, 3]])
    assert source.read == [(1, 2), (3, 4)]


def test_take_reads_each_block_once_and_skips_others(small_blocks):
    X, _ = make_data(100)
    numbers = np.array([3, 4, 9, 35, 70, 79, 99])
    source = Stored(X)
    assert_array_equal(rows_of(source).take(numbers), X[numbers])
    assert source.read == [(0, 10), (30, 40), (70, 80), (90, 100)]


def test_take_of_everything_and_of_nothing(small_blocks):
    X, _ = make_data(33)
    source = Stored(X)
    assert_array_equal(rows_of(source).take(), X)
    assert len(source.read) == 4
    source = Stored(X)
    assert rows_of(source).take(np.array([], dtype=int)).shape == (0, 12)
    assert source.read == []


def test_blocks_of_another_width():
    X, _ = make_data()
    rows = rows_of(Stored(X[:, :1], shape=(60, 12)))
    for work in (lambda: rows.take(np.array([3, 4])), lambda: list(rows.blocks())):
        with pytest.raises(
            ValueError, match=r"could not be read: reading returned a block of shape \(60, 1\)"
        ):
            work()


def test_masked_blocks_are_refused():
    X = np.ma.masked_greater(make_data()[0], 1.0)
    for work in (lambda rows: rows.take(), lambda rows: list(rows.blocks())):
        with pytest.raises(ValueError, match="X is a masked array with masked entries"):
            work(rows_of(Stored(X)))


# --- chunks ---------------------------------------------------------------------------------


def chunks_read(source, edges):
    """How often each chunk was read; every read must begin and end with a chunk."""
    counts = dict.fromkeys(pairwise(edges), 0)
    for start, stop in source.read:
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
        (((3, 0, 4, 20, 1, 1, 36), (12,)), [0, 3, 7, 27, 28, 29, 65]),  # as in Dask
    ],
)
def test_chunks_are_read_whole_and_once(chunks, edges, small_blocks):
    X, _ = make_data(65)
    source = Stored(X, chunks=chunks)
    rows = rows_of(source)
    assert_array_equal(np.concatenate([block for _, block in rows.blocks()]), X)
    assert set(chunks_read(source, edges)) == {1}
    # small chunks come together: two that follow each other do not fit in one block
    for (a, _), (_, b) in pairwise(source.read):
        assert b - a > 10 or b == 65
    assert source.largest_read <= max(10, *np.diff(edges))
    for numbers in ([0], [64], [3, 4, 28], [5, 6, 7, 8, 40, 64], range(65), []):
        source.read.clear()
        numbers = np.array(numbers, dtype=int)
        assert_array_equal(rows.take(numbers), X[numbers])
        needed = [int(np.any((a <= numbers) & (numbers < b))) for a, b in pairwise(edges)]
        assert chunks_read(source, edges) == needed


def test_a_great_many_small_chunks():
    """The plan of what to read grows with blocks, not with chunks."""
    source = Stored(np.broadcast_to(np.float32(1), (2_000_000, 8)), chunks=(1, 8))
    begin = perf_counter()
    assert len(rows_of(source)._spans()) == 1
    assert perf_counter() - begin < 1.0


def test_a_chunk_beyond_memory(monkeypatch, small_blocks):
    X, _ = make_data(65)
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 2 * 30 * 12 * 8 - 1)
    for action in (lambda rows: list(rows.blocks()), lambda rows: rows.take(np.array([3]))):
        with pytest.raises(ValueError, match=r"largest chunk of X, of 30 rows, needs .* 64 MB is"):
            action(rows_of(Stored(X, chunks=(30, 12))))
        action(rows_of(Stored(X, chunks=(20, 12))))


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
    monkeypatch.setattr(stored, "n_threads", lambda: threads)
    X, _ = make_data(205)
    source = Watched(X)
    source.thread_safe = safe
    ahead = 0
    for number, (start, block) in enumerate(rows_of(source).blocks()):
        assert_array_equal(block, X[start : start + 10])
        ahead = max(ahead, len(source.read) - number - 1)
    assert sum(stop - start for start, stop in source.read) == 205
    assert ahead <= (0 if threads == 1 else min(threads, stored._READERS) if safe else 1)
    assert len(source.threads) <= (min(threads, stored._READERS) if safe else 1)
    assert ("MainThread" in source.threads) == (threads == 1)


def test_reading_ahead_stops_with_the_reader(monkeypatch, small_blocks):
    monkeypatch.setattr(stored, "n_threads", lambda: 2)
    source = Watched(make_data(205)[0])
    for _ in rows_of(source).blocks():
        break
    gc.collect()
    read = len(source.read)
    sleep(0.05)
    assert len(source.read) == read <= 3
    assert not any(thread.name.startswith("dualmetric-reader") for thread in enumerate_threads())


def test_an_error_of_the_source_is_handed_on(monkeypatch, small_blocks):
    monkeypatch.setattr(stored, "n_threads", lambda: 2)

    class Failing(Stored):
        def __getitem__(self, key):
            if key.start == 30:
                raise OSError("the disk is gone")
            return super().__getitem__(key)

    source = Failing(make_data(65)[0])
    with pytest.raises(OSError, match="the disk is gone"):
        list(rows_of(source).blocks())
    assert len(source.read) <= 4


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
def test_stored_arrays(store, dtype, monkeypatch):
    X, _ = make_data(100, dtype=dtype)
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 20 * 12 * X.itemsize)
    array = store(X)
    source = Stored(array)
    rows = rows_of(source)
    step = 20 if source.chunks is None else 7
    edges = [*range(0, 100, step), 100]
    for work, expected in (
        (rows.take, X),
        (lambda: rows.map(doubled, 2), 2 * X[:, :2]),
        (lambda: np.concatenate([block for _, block in rows.blocks()]), X),
    ):
        source.read.clear()
        found = work()
        assert found.dtype == dtype
        assert_array_equal(found, expected)
        assert set(chunks_read(source, edges)) == {1}
    assert_array_equal(rows_of(array).take(np.array([3, 99])), X[[3, 99]])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int64, np.float16])
def test_stored_arrays_of_other_numbers(store, dtype):
    X, _ = make_data()
    X = (X > 0.5 if dtype is np.bool_ else np.abs(10 * X)).astype(dtype)
    rows = rows_of(store(X))
    assert rows.dtype == rows.take().dtype == np.float64
    assert_array_equal(rows.take(), X.astype(np.float64))


@pytest.mark.parametrize(
    "dtype", ["O", "U3", "S3", "c16", "M8[s]", [("a", "f4"), ("b", "f8")], "V4"]
)
def test_stored_types_that_hold_no_numbers(dtype):
    X = np.zeros((60, 12), dtype=dtype)
    source = Stored(X)
    match = re.escape(f"X holds {X.dtype}, which is not a type of numbers: store it as float32")
    with pytest.raises(ValueError, match=match):
        open_rows(source)
    assert source.read == []


def test_number_types_that_numpy_does_not_know():
    source = Stored(np.zeros((60, 12)))
    source.dtype = "brain.float16"
    with pytest.raises(ValueError, match=r"X holds brain\.float16, which is not a type of numbers"):
        open_rows(source)


# --- map ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map_goes_block_by_block(dtype, mapped, small_blocks):
    X, _ = make_data(205, dtype=dtype)
    source = Stored(X)
    got = rows_of(source).map(doubled, 2)
    assert got.dtype == dtype
    assert_array_equal(got, 2 * X[:, :2])
    assert source.largest_read <= 20
    assert [start for start, _ in source.read] == sorted({start for start, _ in source.read})
    assert sum(stop - start for start, stop in source.read) == 205
    assert_array_equal(rows_of(mapped(X)).map(doubled, 2), got)
    assert rows_of(source).map(doubled, 2, np.float64).dtype == np.float64


def test_map_in_memory_is_the_function_itself():
    X, _ = make_data()
    assert rows_of(X).map(lambda rows: rows, 12) is X
    assert sp.issparse(rows_of(sp.csr_matrix(X)).map(doubled, 2))


def test_map_holds_a_few_blocks_only(monkeypatch):
    class Made:
        """Rows that are made when they are read."""

        shape, dtype = (40_000, 64), np.dtype(np.float64)

        def __getitem__(self, key):
            return np.ones((min(key.stop, 40_000) - key.start, 64))

    monkeypatch.setattr(stored, "_BLOCK_BYTES", 2**18)
    rows = rows_of(Made())
    tracemalloc.start()
    try:
        out = rows.map(lambda block: block @ np.ones((64, 2)), 2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.shape == (40_000, 2)
    assert peak < out.nbytes + 4 * 2**18 + 2**16


def test_a_result_beyond_memory_is_refused_before_it_is_made(monkeypatch):
    source = Stored(make_data()[0])
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 900)
    with pytest.raises(ValueError, match=r"transformed 60 rows .* a Dask array"):
        rows_of(source).map(doubled, 2)
    assert source.read == []


def test_rows_that_do_not_fit_are_not_read(monkeypatch):
    numbers = np.arange(10)
    source = Stored(np.zeros((20, 4)))
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 10 * 4 * 8 - 1)
    with pytest.raises(ValueError, match=r"reading 10 rows of 4 features .*needs .* fewer"):
        rows_of(source).take(numbers)
    assert source.read == []
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 10 * 4 * 8)
    assert rows_of(source).take(numbers).shape == (10, 4)


# --- damaged sources ------------------------------------------------------------------------


def test_a_source_that_ends_early(small_blocks):
    X, _ = make_data()
    for ends_at in (0, 5, 37, 40, 59):
        rows = rows_of(Stored(X, ends_at=ends_at))
        first = ends_at // 10 * 10
        for work in (rows.take, lambda rows=rows: list(rows.blocks())):
            with pytest.raises(
                ValueError,
                match=rf"rows {first} to {first + 10} of X could not .*\({ends_at % 10}, 12\)",
            ):
                work()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_a_number_in_a_block(value, mapped, small_blocks):
    X, y = make_data()
    X[47, 3] = value
    for source in (mapped(X), Stored(X)):
        rows = rows_of(source)
        for work in (
            rows.take,
            lambda rows=rows: list(rows.blocks()),
            lambda rows=rows: rows.map(doubled, 2),
            lambda rows=rows: column_means(rows),
            lambda rows=rows: within_scatter(rows, y, 3),
        ):
            with pytest.raises(ValueError, match="NaN or infinity, first in row 47 of X"):
                work()
        assert rows.take(np.array([46, 48])).shape == (2, 12)


def test_opposite_infinities_and_sums_that_overflow():
    X = np.array([[np.inf, 1.0], [-np.inf, 1.0]])
    with pytest.raises(ValueError, match="row 0 of X"):
        rows_of(Stored(X)).take()
    large = np.full((4, 2), np.finfo(np.float32).max)
    assert_array_equal(rows_of(Stored(large)).take(), large)  # finite, though its sum is not
    assert_array_equal(column_means(rows_of(Stored(large))), large[0])
    with pytest.raises(ValueError, match="too large to add up"):
        column_means(rows_of(np.full((4, 2), 1e308)))
    with pytest.raises(ValueError, match="too large to multiply"):
        within_scatter(rows_of(np.array([[0.0], [1e200]])), np.zeros(2, int), 1)


def test_no_rows():
    for shape in ((0, 12), (12, 0)):
        with pytest.raises(ValueError, match="X is empty"):
            open_rows(Stored(np.empty(shape)))


def test_a_memory_map_whose_file_was_cut_short(tmp_path):
    X, _ = make_data(600)
    path = tmp_path / "rows"
    made = np.memmap(path, dtype=X.dtype, mode="w+", shape=X.shape)
    made[:] = X
    made.flush()
    with path.open("r+b") as file:
        file.truncate(X.nbytes // 2)
    for source in (made, made[10:]):
        rows = rows_of(source)
        for work in (rows.take, lambda rows=rows: list(rows.blocks())):
            with pytest.raises(ValueError, match=r"rows ends early: it has [\d,]+ bytes"):
                work()


# --- sums over all rows ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, Stored, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_scatter_and_means(kind, dtype, small_blocks, monkeypatch):
    monkeypatch.setattr(namespace, "_HOST_BLOCK", 50 * 12 * 2)  # a block is taken in parts
    X, y = make_data(400)
    X = (10 * X + 50).astype(dtype)
    W = sum(
        (X[y == c] - X[y == c].mean(axis=0)).T @ (X[y == c] - X[y == c].mean(axis=0))
        for c in range(3)
    ) / len(X)  # fmt: skip
    rows = rows_of(kind(X))
    assert_allclose(within_scatter(rows, y, 3), W, rtol=1e-4, atol=1e-6 * W.max())
    assert_allclose(within_scatter(rows, y, 7), W, rtol=1e-4, atol=1e-6 * W.max())
    assert_allclose(column_means(rows), X.mean(axis=0, dtype=np.float64), rtol=1e-6)


# --- ranking --------------------------------------------------------------------------------


@pytest.mark.parametrize("most_pairs", [2**22, 500, 1])
def test_average_precisions_of_rows_on_disk(most_pairs, monkeypatch):
    monkeypatch.setattr(ranking, "MOST_PAIRS", most_pairs)
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 40 * 3 * 8)
    rng = np.random.default_rng(3)
    X = rng.integers(-1, 2, size=(150, 3)).astype(np.float32)  # with many ties
    y = rng.integers(4, size=150)
    y[17] = 4
    queries = np.array([140, 3, 17, 3, 99])
    found = ranking.average_precisions(rows_of(Stored(X)), y, queries)
    assert_allclose(found, average_precisions(X, y)[queries], rtol=1e-12)


def test_nearest_rows_on_disk(mapped, small_blocks):
    X, _ = make_data(120)
    apart = np.linalg.norm(X[80:, None] - X[None, :80], axis=2)
    for source in (mapped(X[:80]), Stored(X[:80])):
        found = ranking.nearest(rows_of(source), X[80:], 15)  # more than a block has
        assert_array_equal(found, np.argsort(apart, axis=1)[:, :15])


# --- choosing rows --------------------------------------------------------------------------


@given(n=st.integers(1, 2000), most=st.integers(1, 300), seed=st.integers(0, 2**20))
def test_evenly_chosen(n, most, seed):
    numbers = evenly_chosen(n, most, np.random.default_rng(seed))
    assert len(numbers) == min(n, most)
    assert (np.diff(numbers) > 0).all()
    assert numbers[0] >= 0
    assert numbers[-1] < n
    for start in range(0, n, 97):  # each stretch has its share, to within one at either end
        stop = min(start + 97, n)
        share = np.count_nonzero((numbers >= start) & (numbers < stop))
        assert abs(share - (stop - start) * len(numbers) / n) <= 2


def test_chosen_rows_are_uniform(rng):
    counts = np.bincount(
        np.concatenate([evenly_chosen(10, 3, rng) for _ in range(6000)]), minlength=10
    )
    assert_allclose(counts / 6000, [1 / 3] * 6 + [1 / 4] * 4, atol=0.03)


def test_chosen_rows(rng):
    for most in (10, 11, None):
        assert_array_equal(choose_rows(10, most, rng), np.arange(10))
    numbers = choose_rows(1000, 50, rng)
    assert len(numbers) == len(np.unique(numbers)) == 50
    assert (np.diff(numbers) > 0).all()
    assert numbers.max() < 1000
    assert numbers.max() > 700  # not the first of them
    assert (choose_rows(1000, 50, rng) != numbers).any()
    assert numbers.dtype == choose_rows(10, 50, rng).dtype == np.int32  # as in triplets
    assert choose_rows(2**31, 3, rng).dtype == np.int64
    expected = evenly_chosen(1000, 50, np.random.default_rng(7))
    assert_array_equal(choose_rows(1000, 50, np.random.default_rng(7)), expected)


def test_many_small_classes_are_chosen_whole(rng):
    labels = rng.permutation(np.repeat(np.arange(1000), 4))
    numbers = choose_rows(len(labels), 100, rng)
    more = with_rare_classes(numbers, labels, rng, 100)
    assert set(numbers) <= set(more)
    assert len(numbers) < len(more) <= 200
    assert more.dtype == numbers.dtype
    sizes = np.unique(labels[np.setdiff1d(more, numbers)], return_counts=True)[1]
    assert np.median(sizes) >= 3  # but for those that the even choice holds already
    # classes that have enough are left alone
    plenty = np.arange(4000) % 3
    assert_array_equal(with_rare_classes(numbers, plenty, rng, 100), numbers)


def test_rare_classes_are_chosen(rng):
    labels = np.arange(3000) % 2
    rare = np.array([7, 500, 1200, 2999])
    labels[rare] = 5
    for _ in range(5):
        numbers = with_rare_classes(choose_rows(3000, 50, rng), labels, rng, 50)
        assert set(rare) <= set(numbers)
