"""Rows of Dask arrays and data frames, on threads, processes and a cluster."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dask_parts import CHUNKS, Recorded, da, dask, dd, frame, kill_a_worker, pd, slowly
from dualmetric._arrays import namespace
from dualmetric._rows import column_means, open_rows, ranking, within_scatter
from dualmetric.evaluation import average_precisions

# a warning of pandas about how Dask writes Parquet
pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword.*:Warning"),
    pytest.mark.usefixtures("dask_in_one_thread"),
]

KINDS = [lambda D: D, lambda D: D.map_blocks(sp.csr_matrix)]


def make_data(n=60, d=12, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(dtype), np.arange(n) % 3


def rows_of(X, **options):
    return open_rows(X, **options)[0]


def doubled(block):
    return 2 * block[:, :2]


def first_columns(block):
    return block[:, :2].toarray() if sp.issparse(block) else block[:, :2]


def sums(block, start):
    return np.asarray(block.sum(axis=0)).ravel()


# --- reading --------------------------------------------------------------------------------


def test_dask_is_imported_only_where_it_is_used():
    code = (
        "import sys, numpy as np; from dualmetric._rows import open_rows\n"
        "open_rows(np.zeros((2, 2)))\n"
        "sys.exit('dask' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_rows_equal_those_in_memory(chunks):
    X, y = make_data()
    rows, labels = open_rows(da.from_array(X, chunks=chunks), da.from_array(y, chunks=11))
    assert rows.shape == X.shape
    assert rows.dtype == X.dtype
    assert rows.names is None
    assert not rows.in_memory
    assert_array_equal(labels, y)
    assert_array_equal(rows.take(), X)
    numbers = np.array([0, 12, 13, 40, 59])
    assert_array_equal(rows.take(numbers), X[numbers])
    assert rows.take(np.array([], int)).shape == (0, 12)
    assert_allclose(rows.reduce(sums, operator.add), X.sum(axis=0), atol=1e-12)
    assert_allclose(column_means(rows), X.mean(axis=0), atol=1e-14)
    assert_array_equal(rows.map(doubled, 2).compute(), 2 * X[:, :2])


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_blocks_stay_sparse(kind, dtype):
    X, _ = make_data(dtype=dtype)
    X[np.abs(X) < 1] = 0
    rows = rows_of(da.from_array(X, chunks=(13, 12)).map_blocks(kind))
    found = rows.take(np.array([3, 12, 13, 40]))
    assert sp.issparse(found)
    assert found.format == "csr"
    assert found.dtype == dtype
    assert_array_equal(found.toarray(), X[[3, 12, 13, 40]])
    assert_array_equal(rows.take().toarray(), X)
    dense = rows.map(first_columns, 2)
    assert dense.dtype == dtype
    assert_array_equal(dense.compute(), X[:, :2])
    sparse = dask.compute(*rows.map(doubled, 2).to_delayed().ravel())
    assert all(sp.issparse(block) for block in sparse)
    assert_array_equal(sp.vstack(sparse).toarray(), 2 * X[:, :2])


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_, ">f4", object])
def test_other_number_types(dtype):
    X, _ = make_data()
    X = (X > 0.5 if dtype is np.bool_ else 10 * X).astype(dtype)
    rows = rows_of(da.from_array(X, chunks=(7, 12)))
    assert rows.dtype == rows.take().dtype == np.float64
    assert_array_equal(rows.take(), X.astype(np.float64))
    out = rows.map(doubled, 2)
    assert out.dtype == out.compute().dtype == np.float64
    for _, block in rows.blocks():
        assert block.dtype == np.float64


def test_partitions_without_wanted_rows_are_not_read():
    X, _ = make_data(1000)
    recorded = Recorded(X, (100, 12))
    rows = rows_of(recorded.array)
    numbers = np.array([110, 120, 199, 901])
    assert_array_equal(rows.take(numbers), X[numbers])
    assert sorted(recorded.read) == [1, 9]
    recorded.read.clear()
    rows.reduce(sums, operator.add)
    assert sorted(recorded.read) == list(range(10))
    for wrong in ([-1, 3], [3, 1000]):
        with pytest.raises(ValueError, match=r"X has no row -?\d+: row numbers go from 0 to 999"):
            rows.take(np.array(wrong))


def test_blocks_one_by_one():
    X, _ = make_data()
    got = list(rows_of(da.from_array(X, chunks=((0, 20, 40), 12))).blocks())
    assert [start for start, _ in got] == [0, 20]
    assert_array_equal(np.vstack([rows for _, rows in got]), X)


def test_many_partitions_are_quick():
    """The cost of graphs is linear in the number of partitions."""
    seconds = []
    for n in (250, 1000):
        rows = rows_of(da.zeros((n, 2), chunks=(1, 2)))
        begin = time.perf_counter()
        assert rows.take(np.arange(0, n, 2)).shape == (n // 2, 2)
        assert_array_equal(rows.reduce(sums, operator.add), [0, 0])
        seconds.append(time.perf_counter() - begin)
    assert seconds[1] < 8 * seconds[0] + 0.5


def test_reduce_is_a_tree_and_keeps_the_order():
    X = np.arange(100.0)[:, None]
    rows = rows_of(da.from_array(X, chunks=(3, 1)))

    def numbers(block, start):
        assert_array_equal(block[:, 0], np.arange(start, start + len(block)))
        return [start]

    assert rows.reduce(numbers, operator.add) == list(range(0, 100, 3))


@pytest.mark.parametrize("make", KINDS)
def test_scatter(make, monkeypatch):
    X, y = make_data(1000)
    D = make(da.from_array(X + 1e4, chunks=((0, 300, 77, 623), 12)))
    monkeypatch.setattr(namespace, "_HOST_BLOCK", 50 * 12 * 2)  # a block is taken in parts
    centred = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
    assert_allclose(within_scatter(rows_of(D), y, 3), centred.T @ centred / 1000, atol=1e-10)


# --- map ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map_is_lazy_and_keeps_chunks(dtype):
    X, _ = make_data(dtype=dtype)
    chunks = (0, 10, 29, 21)
    recorded = Recorded(X, (chunks, 12))
    Z = rows_of(recorded.array).map(doubled, 2)
    assert recorded.read == []
    assert Z.chunks == (chunks, (2,))
    assert Z.dtype == dtype
    assert_array_equal(Z.compute(), 2 * X[:, :2])
    assert Z[30:35].compute().shape == (5, 2)
    other = rows_of(recorded.array).map(doubled, 2, np.float64)
    assert other.dtype == other.compute().dtype == np.float64
    # blocks along the features are joined
    Z = rows_of(da.from_array(X, chunks=(20, 5))).map(doubled, 2)
    assert Z.chunks == ((20, 20, 20), (2,))
    assert_array_equal(Z.compute(), 2 * X[:, :2])


def test_rows_whose_number_is_unknown():
    X, _ = make_data()
    D = da.from_array(X, chunks=(20, 12))
    some = D[D[:, 0] > 0]
    rows = rows_of(some)
    assert rows.n_features == 12
    rows.check_width(12, "Metric")
    Z = rows.map(doubled, 2)
    assert np.isnan(Z.shape[0])
    assert_array_equal(Z.compute(), 2 * X[X[:, 0] > 0][:, :2])
    for work in (lambda: rows.shape, rows.take, lambda: rows.reduce(sums, operator.add)):
        with pytest.raises(ValueError, match=r"X = X.compute_chunk_sizes\(\)"):
            work()
    assert rows_of(some.compute_chunk_sizes()).shape == (np.count_nonzero(X[:, 0] > 0), 12)


# --- ranking --------------------------------------------------------------------------------


def on_a_grid(n=150):
    """Rows with many ties, copies within and between classes, and a class of one row."""
    rng = np.random.default_rng(3)
    X = rng.integers(-1, 2, size=(n, 3)).astype(float)
    y = rng.integers(4, size=n)
    y[17] = 4
    return X, y


@pytest.mark.parametrize("chunks", [150, 40, (0, 149, 1)])
@pytest.mark.parametrize("most_pairs", [2**22, 500, 1])
@pytest.mark.parametrize("make", KINDS)
def test_average_precisions_with_ties(chunks, most_pairs, make, monkeypatch):
    monkeypatch.setattr(ranking, "MOST_PAIRS", most_pairs)
    X, y = on_a_grid()
    rows = rows_of(make(da.from_array(X, chunks=(chunks, 3))))
    expected = average_precisions(X, y)
    if most_pairs == 2**22:  # NaN where a class has one row
        found = ranking.average_precisions(rows, y, np.arange(150))
        assert_allclose(found, expected, rtol=1e-12)
    queries = np.array([140, 3, 17, 3, 99])
    found = ranking.average_precisions(rows, y, queries)
    assert_allclose(found, expected[queries], rtol=1e-12)


def test_nearest_rows_in_order():
    X = np.array([[3.0], [1.0], [1.0], [0.0], [1.0]])
    rows = rows_of(da.from_array(X, chunks=((2, 0, 1, 2), 1)))
    # of rows at the same distance, the first
    assert_array_equal(ranking.nearest(rows, np.array([[1.0], [9.0]]), 3), [[1, 2, 4], [0, 1, 2]])


@pytest.mark.parametrize("chunks", [80, 33, 3, (0, 79, 1)])
@pytest.mark.parametrize("k", [1, 5, 80])
@pytest.mark.parametrize("make", KINDS)
def test_nearest_rows(chunks, k, make):
    X, _ = make_data(120)
    rows = rows_of(make(da.from_array(X[:80], chunks=(chunks, 12))))
    queries = sp.csr_matrix(X[80:]) if chunks == 33 else X[80:]
    apart = np.linalg.norm(X[80:, None] - X[None, :80], axis=2)
    assert_array_equal(ranking.nearest(rows, queries, k), np.argsort(apart, axis=1)[:, :k])


# --- data frames ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by_name", [True, False])
def test_frames_with_a_label_column(dtype, by_name):
    X, y = make_data(dtype=dtype)
    table = frame(X, y)
    D = dd.from_pandas(table, npartitions=4)
    rows, labels = open_rows(D, "label" if by_name else D["label"])
    assert rows.dtype == dtype
    assert rows.names == tuple(f"f{i}" for i in range(12))
    assert_array_equal(rows.take(), X)
    assert_array_equal(labels, table["label"])
    turned = D[D.columns[::-1]]  # columns are found by their names
    for other in (D, turned, D.drop(columns="label")):
        again, _ = open_rows(other, names=rows.names)
        Z = again.map(doubled, 2)
        assert np.isnan(Z.shape[0])  # nothing was counted
        assert Z.dtype == dtype
        assert_array_equal(Z.compute(), 2 * X[:, :2])
        assert again.shape == X.shape
        assert_array_equal(again.take(np.array([4, 44])), X[[4, 44]])


def test_frames_with_labels_apart():
    X, y = make_data()
    table = frame(X, y)
    D = dd.from_pandas(table.drop(columns="label"), npartitions=3)
    for labels in (y, table["label"], da.from_array(y), dd.from_pandas(table["label"])):
        rows, found = open_rows(D, labels)
        assert_array_equal(found, y if labels is y or isinstance(labels, da.Array) else table.label)
        assert rows.n_features == 12
    # a feature is kept, whatever labels in memory are called
    rows, _ = open_rows(D, pd.Series(y, name="f0"))
    assert rows.n_features == 12


def test_columns_of_several_types():
    X, y = make_data()
    table = frame(np.round(10 * X), y).astype({"f0": "Int32", "f1": "float32", "f2": "int8"})
    rows, _ = open_rows(dd.from_pandas(table, npartitions=3), "label")
    assert rows.dtype == np.float64
    assert_array_equal(rows.take(), np.round(10 * X))


def test_columns_without_string_names():
    X, y = make_data()
    rows, labels = open_rows(dd.from_pandas(pd.DataFrame(X), npartitions=3), y)
    assert rows.names is None
    assert labels is y
    assert_array_equal(rows.take(), X)


def test_parquet_of_many_files(tmp_path):
    # of so few columns Dask would join partitions, for the labels alone even more of them
    X, y = make_data(100)
    wide = frame(np.hstack([X, np.zeros((100, 60))]), y)
    for part in range(10):
        wide[10 * part : 10 * part + 10].to_parquet(tmp_path / f"part.{part}.parquet")
    D = dd.read_parquet(tmp_path)[[*(f"f{i}" for i in range(12)), "label"]]
    for rows in (rows_of(D, y="label"), rows_of(D, names=[f"f{i}" for i in range(12)])):
        assert rows.shape == X.shape
        assert_array_equal(rows.take(), X)
        assert_array_equal(rows.take(np.array([5, 95])), X[[5, 95]])


@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_of_vectors(vectors, options, dtype):
    X, y = make_data(dtype=dtype)
    D = vectors(X, y, **options)
    assert D.npartitions == 6
    rows, labels = open_rows(D, "label")
    assert rows.shape == X.shape
    assert rows.names is None
    assert rows.dtype == dtype
    assert_array_equal(rows.take(), X)
    assert_array_equal(labels, y)
    for other in (D, D[["v"]]):  # other columns are ignored
        Z = rows_of(other, width=12).map(doubled, 2)
        assert Z.dtype == dtype
        assert_array_equal(Z.compute(), 2 * X[:, :2])
    with pytest.raises(ValueError, match="'v' holds no numbers"):
        open_rows(D, y)


@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=str)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "partition 4 of X has no vector in its row 3"),
        (np.zeros(11), "partition 4 of X has a vector of length 11 in its row 3, .* length 12"),
        (np.full(12, np.nan), "in rows 3 of partition 4"),
        ([1.0, None] + [2.0] * 10, "partition 4"),
    ],
)
def test_wrong_vectors(vectors, options, wrong, message):
    X, y = make_data()
    vectors_given = list(X)
    vectors_given[43] = wrong
    rows, _ = open_rows(vectors(vectors_given, y, **options), "label")
    for work in (rows.take, rows.map(doubled, 2).compute):
        with pytest.raises(ValueError, match=message):
            work()


def test_wrong_frames():
    X, y = make_data()
    table = frame(X, y)
    D = dd.from_pandas(table, npartitions=3)
    with pytest.raises(ValueError, match=r"y = 'class' is not a column of X, .* 'f0', .* more"):
        open_rows(D, "class")
    with pytest.raises(ValueError, match="'label' holds no numbers"):
        open_rows(D, y)
    with pytest.raises(ValueError, match="X has no column 'f3'"):
        open_rows(D.drop(columns="f3"), names=[f"f{i}" for i in range(12)])
    with pytest.raises(ValueError, match="X has 11 features, but Metric is expecting 12"):
        rows_of(D.drop(columns=["f3", "label"])).check_width(12, "Metric")
    with pytest.raises(ValueError, match="no columns of features"):
        open_rows(D[["label"]], "label")
    table.loc[41, "f2"] = np.nan
    rows, _ = open_rows(dd.from_pandas(table, npartitions=3), "label")
    for work in (rows.take, rows.map(doubled, 2).compute):
        with pytest.raises(ValueError, match="nulls in rows 1 of partition 2"):
            work()
    with pytest.raises(ValueError, match="Dask Series, which has no rows of features"):
        open_rows(D["f0"], y)
    text = pd.DataFrame({"a": np.array(["x"] * 6, object)})
    with (
        dask.config.set({"dataframe.convert-string": False}),
        pytest.raises(ValueError, match="'a' holds no numbers"),
    ):
        open_rows(dd.from_pandas(text, npartitions=2))


# --- wrong arrays ---------------------------------------------------------------------------


def test_labels_that_do_not_match():
    X, y = make_data()
    recorded = Recorded(X, (20, 12))
    with pytest.raises(ValueError, match="y has 61 labels for 60 rows"):
        open_rows(recorded.array, da.from_array(np.resize(y, 61), chunks=9))
    with pytest.raises(ValueError, match="names a column, but X is not a data frame"):
        open_rows(recorded.array, "label")
    assert recorded.read == []


def test_other_shapes():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        open_rows(da.zeros(60))
    with pytest.raises(ValueError, match="Expected 2D array, got 3D array"):
        open_rows(da.zeros((60, 12, 2)))
    with pytest.raises(ValueError, match="X has 11 features, but DuRP is expecting 12 features"):
        rows_of(da.zeros((60, 11))).check_width(12, "DuRP")
    with pytest.raises(ValueError, match="Dask Delayed"):
        open_rows(dask.delayed([[1, 2]]))
    with pytest.raises(ValueError, match="no rows"):
        rows_of(da.zeros((0, 12))).take()
    with pytest.raises(ValueError, match="no features"):
        open_rows(da.zeros((12, 0)))


@pytest.mark.parametrize("dtype", ["c16", "U3", "S3", "M8[s]"])
def test_types_that_hold_no_numbers(dtype):
    with pytest.raises(ValueError, match=r"X holds .* not a type of numbers"):
        open_rows(da.from_array(np.zeros((6, 2), dtype), chunks=3))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_a_number(make, value):
    X, y = make_data()
    X[[47, 52], 3] = value
    rows = rows_of(make(da.from_array(X, chunks=(20, 12))))
    for work in (
        rows.take,
        lambda: rows.take(np.array([55])),
        lambda: list(rows.blocks()),
        rows.map(first_columns, 2).compute,
        lambda: column_means(rows),
        lambda: within_scatter(rows, y, 3),
        lambda: ranking.average_precisions(rows, y, np.array([1, 2, 3])),
        lambda: ranking.nearest(rows, X[:3], 2),
    ):
        with pytest.raises(ValueError, match="in rows 7, 12 of partition 2"):
            work()


def refuse(block, start=0):
    raise ValueError("too large")


def test_errors_of_the_work_name_the_partition():
    rows = rows_of(da.zeros((60, 12), chunks=((0, 60), 12)))
    for work in (lambda: rows.reduce(refuse, operator.add), rows.map(refuse, 2).compute):
        with pytest.raises(ValueError, match="partition 1 of X: too large"):
            work()
    huge = da.from_array(np.full((60, 12), 1e308), chunks=(20, 12))
    with pytest.raises(ValueError, match=r"partition \d of X: the numbers are too large to add"):
        column_means(rows_of(huge))


@pytest.mark.parametrize("lie", [lambda block: block[:-1], lambda block: block[:, :-1]])
def test_blocks_of_another_shape_than_their_chunks_say(lie):
    X, _ = make_data()
    D = da.from_array(X, chunks=(20, 12)).map_blocks(lie, chunks=((20, 20, 20), (12,)))
    rows = rows_of(D)
    for work in (rows.take, rows.map(doubled, 2).compute):
        with pytest.raises(ValueError, match=r"partition \d of X has shape .* say \(20, 12\)"):
            work()


def test_rows_that_do_not_fit_are_not_read(monkeypatch):
    X, _ = make_data()
    recorded = Recorded(X, (20, 12))
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: X.nbytes - 1)
    with pytest.raises(ValueError, match="60 rows of 12 features into memory needs"):
        rows_of(recorded.array).take()
    assert recorded.read == []


def test_masked_blocks_are_refused():
    X, _ = make_data(60)
    D = da.ma.masked_greater(da.from_array(X, chunks=20), np.sort(X.ravel())[-3])
    with pytest.raises(ValueError, match=r"partition \d of X is a masked array"):
        rows_of(D).take()


def test_sparse_blocks_with_wrong_indices():
    def spoiled(block):
        block = sp.csr_matrix(block)
        block.indices[0] = 99
        return block

    D = da.ones((60, 12), chunks=(20, 12)).map_blocks(spoiled, meta=sp.csr_matrix((0, 0)))
    with pytest.raises(ValueError, match=r"partition \d of X .*damaged sparse matrix .*12"):
        rows_of(D).take()


# --- a cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "frame"])
def test_on_a_cluster(kind, held, on_cluster):
    X, y = make_data(400, dtype=np.float32)
    D, labels = da.from_array(X, chunks=((0, 111, 189, 0, 100), 12)), y
    if kind == "sparse":
        D = D.map_blocks(sp.csr_matrix)
    elif kind == "frame":
        D, labels = dd.from_pandas(frame(X, y), npartitions=3), "label"
    if held:  # by the workers
        D = D.persist()
    rows, _ = open_rows(D, labels)
    here, _ = open_rows(X)
    numbers = np.arange(3, 400, 7)
    found = rows.take(numbers)
    assert_array_equal(found.toarray() if kind == "sparse" else found, X[numbers])
    assert_allclose(column_means(rows), column_means(here), atol=1e-6)
    assert_allclose(within_scatter(rows, y, 3), within_scatter(here, y, 3), atol=1e-5)
    queries = np.array([3, 300])
    assert_allclose(
        ranking.average_precisions(rows, y, queries),
        ranking.average_precisions(here, y, queries),
        rtol=1e-9,
    )
    assert_array_equal(ranking.nearest(rows, X[:9], 5), ranking.nearest(here, X[:9], 5))
    assert_array_equal(rows.map(first_columns, 2).compute(), X[:, :2])
    assert_array_equal(np.concatenate([len(b.shape) * [s] for s, b in rows.blocks()])[0], 0)


def test_on_processes():
    X, _ = make_data()
    rows = rows_of(da.from_array(X, chunks=(40, 12)))
    with dask.config.set(scheduler="processes", num_workers=2):
        assert_array_equal(rows.take(np.array([1, 50])), X[[1, 50]])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.parametrize("method", ["take", "map"])
def test_a_worker_that_dies_changes_nothing(method, on_cluster, tmp_path):
    X, _ = make_data(120)
    D = da.from_array(X, chunks=(10, 12)).map_blocks(slowly, str(tmp_path), dtype=X.dtype)
    rows, killed = rows_of(D), []
    watch = threading.Thread(target=kill_a_worker, args=(tmp_path, killed))
    watch.start()
    try:
        got = rows.take() if method == "take" else rows.map(doubled, 2).compute()
    finally:
        watch.join()
    assert killed
    assert_array_equal(got, X if method == "take" else 2 * X[:, :2])


def fatal(block, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.parametrize("numbers", [None, np.array([3, 50])])
def test_a_partition_that_no_worker_survives(numbers, on_cluster):
    X, _ = make_data()
    D = da.from_array(X, chunks=((0, 0, 60), 12)).map_blocks(fatal, dtype=X.dtype)
    scheduler = on_cluster.cluster.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with pytest.raises(
            RuntimeError, match=r"died.*computing partition 2\b.* memory.*X\.rechunk"
        ):
            rows_of(D).take(numbers)
    finally:
        scheduler.allowed_failures = allowed


def test_a_scheduler_that_dies(tmp_path):
    distributed = pytest.importorskip("distributed")
    X, _ = make_data()
    D = da.from_array(X, chunks=(5, 12)).map_blocks(slowly, str(tmp_path), dtype=X.dtype)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(dashboard_address=":0", **options) as made,
        distributed.Client(made, set_as_default=False) as client,
        client.as_current(),
        dask.config.set(scheduler=None),
    ):

        def close():
            while not os.listdir(tmp_path):
                time.sleep(0.02)
            made.close()

        watch = threading.Thread(target=close)
        watch.start()
        try:
            with pytest.raises(ConnectionError, match=r"scheduler was lost .* nothing was changed"):
                rows_of(D).take()
        finally:
            watch.join()
