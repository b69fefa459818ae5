"""Estimators on Dask arrays and data frames; see test_rows_dask.py for the rows themselves."""

import os
import signal
import threading
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dask_parts import CHUNKS, Recorded, da, dask, dd, frame, kill_a_worker, pd, slowly
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
from dualmetric._rows import evenly_chosen, open_rows
from dualmetric.evaluation import average_precisions
from dualmetric.tfidf import fit_idf
from makers import make_classes as make_data

# a warning of pandas about how Dask writes Parquet
pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword.*:Warning"),
    pytest.mark.usefixtures("dask_in_one_thread"),
]

FEW = {"n_triplets": 300, "random_state": 0}
LEARNERS = [
    DuRP(shrinkage=0.5, distance="cosine", **FEW),
    DuOri(**FEW),
    SRP(**FEW),
    SPCA(**FEW),
    OASIS(**FEW),
    LMNN(random_state=0),
    RidgeMetric(random_state=0),
    Whitening(random_state=0),
    Euclidean("cosine"),
]


# --- fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_fit_equals_fit_in_memory(learner, chunks):
    X, y = make_data()
    expected = learner.fit(X, y).metric_
    got = learner.fit(da.from_array(X, chunks=chunks), da.from_array(y, chunks=11)).metric_
    assert_allclose(got.pairwise(X), expected.pairwise(X), rtol=1e-9, atol=1e-9)
    assert got.feature_names is None


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_blocks_stay_sparse(kind, dtype):
    X, y = make_data(dtype=dtype)
    X[np.abs(X) < 1] = 0
    sparse = da.from_array(X, chunks=(13, 12)).map_blocks(kind)
    rows = open_rows(sparse)[0].take(np.array([3, 12, 13, 40]))
    assert sp.issparse(rows)
    assert rows.format == "csr"
    assert_array_equal(rows.toarray(), X[[3, 12, 13, 40]])
    expected = DuRP(**FEW).fit(sp.csr_matrix(X), y)
    got = DuRP(**FEW).fit(sparse, y)
    assert_array_equal(got.components_, expected.components_)
    Z = got.transform(sparse)
    assert Z.dtype == dtype
    assert_allclose(Z.compute(), expected.transform(X), rtol=1e-5, atol=1e-6)
    assert mean_average_precision(sparse, y) == pytest.approx(mean_average_precision(X, y))
    plain = Euclidean("cosine").fit(sparse)
    assert plain.metric_.centre is None
    blocks = dask.compute(*plain.transform(sparse).to_delayed().ravel())
    assert all(sp.issparse(block) for block in blocks)
    expected = plain.transform(sp.csr_matrix(X)).toarray()
    assert_allclose(sp.vstack(blocks).toarray(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_])
def test_other_number_types(dtype):
    X, y = make_data()
    X = (X > 0.5 if dtype is np.bool_ else 10 * X).astype(dtype)
    D = da.from_array(X, chunks=(7, 12))
    expected, got = DuRP(**FEW).fit(X, y), DuRP(**FEW).fit(D, y)
    assert_array_equal(got.components_, expected.components_)
    out = got.transform(D)
    assert out.dtype == out.compute().dtype == np.float64
    assert_allclose(out.compute(), expected.transform(X))


@pytest.mark.parametrize("learner", [DuRP, OASIS])
def test_the_choice_depends_on_the_seed_and_not_on_the_chunks(learner):
    settings = {"max_rows": 40, **FEW}
    X, y = make_data(1000)

    class Stored:  # read by slices
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, key):
            return X[key]

    expected = learner(**settings).fit(Stored(), y)
    for chunks in (1000, 100, (1, 0, 333, 666), 7):
        got = learner(**settings).fit(da.from_array(X, chunks=(chunks, 12)), y)
        assert_array_equal(got.comparisons_.index, expected.comparisons_.index)
        assert_array_equal(got.components_, expected.components_)
    rows = np.unique(expected.comparisons_.index)
    assert np.bincount(rows // 250).min() >= 8  # of ten
    other = learner(**{**settings, "random_state": 1}).fit(da.from_array(X, chunks=(100, 12)), y)
    assert set(np.unique(other.comparisons_.index)) != set(rows)


def test_fit_reads_each_partition_once():
    X, y = make_data(1000)
    recorded = Recorded(X, (100, 12))
    DuRP(max_rows=40, **FEW).fit(recorded.array, y)
    assert sorted(recorded.read) == list(range(10))


def test_partitions_without_chosen_rows_are_not_read():
    X, _ = make_data(1000)
    recorded = Recorded(X, (100, 12))
    triplets = Triplets([[110, 120, 130], [901, 110, 950]])
    settings = {"scale": False, "max_rows": 2, "random_state": 0}
    got = DuRP(**settings).fit(recorded.array, triplets)
    assert {1, 9} <= set(recorded.read)
    assert len(recorded.read) == len(set(recorded.read)) <= 4
    expected = DuRP(**settings).fit(X, triplets)
    assert_allclose(got.metric_.pairwise(X), expected.metric_.pairwise(X), atol=1e-9)
    with pytest.raises(ValueError, match="0 to 999"):
        DuRP(**FEW).fit(recorded.array, Triplets([[0, 1, 1000]]))


@pytest.mark.parametrize("make", [lambda D: D, lambda D: D.map_blocks(sp.csr_matrix)])
@pytest.mark.parametrize("learner", [DuRP, SPCA])
def test_whitening_by_all_rows(make, learner):
    X, y = make_data(1000)
    D = make(da.from_array(X, chunks=((0, 300, 77, 623), 12)))
    here = learner(shrinkage=0.3, all_rows=True, max_rows=90, **FEW).fit(D, y)
    less = learner(shrinkage=0.3, max_rows=90, **FEW).fit(D, y)
    assert (here.components_.shape != less.components_.shape) or (
        np.abs(here.components_ - less.components_).max() > 1e-6
    )


def test_search_over_settings():
    X, y = make_data(120)
    search = partial(MetricCV, lifts=(None,), shrinkages=(1.0, 0.5), n_triplets=300, random_state=0)
    expected, got = search().fit(X, y), search().fit(da.from_array(X, chunks=(50, 12)), y)
    assert got.best_params_ == expected.best_params_
    assert got.best_score_ == pytest.approx(expected.best_score_)


def test_estimate():
    X, _ = make_data(60, dtype=np.float32)
    here, there = DuRP().estimate(X), DuRP().estimate(da.from_array(X, chunks=(25, 12)))
    assert there.memory == here.memory + X.nbytes  # the rows that are gathered
    huge = da.zeros((10**9, 768), chunks=(10**6, 768), dtype=np.float32)
    assert DuRP().estimate(huge).memory < 2e9


def test_document_frequencies():
    counts = np.random.default_rng(0).poisson(0.5, (50, 8))
    D = da.from_array(counts, chunks=(17, 8))
    assert_array_equal(fit_idf(D), fit_idf(counts))
    assert_array_equal(fit_idf(D.map_blocks(sp.csr_matrix)), fit_idf(counts))
    with pytest.raises(ValueError, match=r"partition \d of X: tf-idf is for counts"):
        fit_idf(D - 1)
    metric = Metric(np.ones((8, 2))).with_idf(fit_idf(counts))
    assert_allclose(metric.transform(D).compute(), metric.transform(counts))


# --- transform ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_transform_is_lazy_and_keeps_chunks(dtype, distance):
    X, y = make_data(dtype=dtype)
    model = DuRP(distance=distance, **FEW).fit(X, y)
    chunks = (0, 10, 29, 21)
    recorded = Recorded(X, (chunks, 12))
    for transform in (model.transform, model.metric_.transform):
        Z = transform(recorded.array)
        assert recorded.read == []
        assert Z.chunks == (chunks, (model.metric_.rank,))
        assert Z.dtype == dtype
        assert_allclose(Z.compute(), model.transform(X), atol=1e-6)
        assert Z[30:35].compute().shape == (5, model.metric_.rank)
        recorded.read.clear()
    # blocks along the features are joined
    Z = model.transform(da.from_array(X, chunks=(20, 5)))
    assert Z.chunks == ((20, 20, 20), (model.metric_.rank,))
    assert_allclose(Z.compute(), model.transform(X), atol=1e-6)


def test_transform_of_rows_whose_number_is_unknown():
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    D = da.from_array(X, chunks=(20, 12))
    some = D[D[:, 0] > 0]
    Z = model.transform(some)
    assert np.isnan(Z.shape[0])
    assert_allclose(Z.compute(), model.transform(X[X[:, 0] > 0]))
    assert_allclose(
        model.pair_distance(some, some + 1.0).compute(),
        model.pair_distance(X[X[:, 0] > 0], X[X[:, 0] > 0] + 1.0),
    )


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_pair_distance_is_lazy(distance):
    X, y = make_data()
    model = DuRP(distance=distance, **FEW).fit(X, y)
    D = da.from_array(X, chunks=(25, 12))
    other = da.from_array(X[::-1].copy(), chunks=(11, 12))
    expected = model.pair_distance(X, X[::-1])
    for A, B in ((D, other), (D, X[::-1]), (X, other)):
        found = model.pair_distance(A, B)
        assert isinstance(found, da.Array)
        assert found.shape == (60,)
        assert_allclose(found.compute(), expected)
    with pytest.raises(ValueError, match="A has 60 rows and B has 7"):
        model.pair_distance(D, X[:7])


# --- evaluation -----------------------------------------------------------------------------


def on_a_grid(n=150):
    """Rows with many ties, copies within and between classes, and a class of one row."""
    rng = np.random.default_rng(3)
    X = rng.integers(-1, 2, size=(n, 3)).astype(float)
    y = rng.integers(4, size=n)
    y[17] = 9
    return X, y


def test_mean_average_precision_of_queries():
    X, y = make_data(300)
    D = da.from_array(X, chunks=(70, 12))
    every = average_precisions(X, y)
    for queries in (10, [4, 7, 250], np.array([299, 0], dtype=np.int16)):
        here = mean_average_precision(X, y, queries=queries)
        assert mean_average_precision(D, y, queries=queries) == pytest.approx(here, rel=1e-12)
        if not isinstance(queries, int):
            assert here == pytest.approx(every[queries].mean(), rel=1e-12)
    assert mean_average_precision(X, y, queries=300) == pytest.approx(every.mean(), rel=1e-12)
    assert mean_average_precision(X, y, queries=10) != pytest.approx(every.mean(), rel=1e-6)
    y[7] = 5
    with pytest.warns(UserWarning, match="1 of 2 rows are the only row of their class"):
        assert mean_average_precision(D, y, [7, 8]) == pytest.approx(average_precisions(X, y)[8])


@pytest.mark.parametrize("make", [lambda X: X, lambda X: da.from_array(X, chunks=(20, 12))])
def test_wrong_queries(make):
    X, y = make_data()
    y[5] = 7
    for queries, message in (
        (0, "at least 1"),
        ([], "list of row numbers"),
        ([0.5], "list of row numbers"),
        (True, "list of row numbers"),
        ([60], "0 to 59"),
        ([-1], "0 to 59"),
        ([5], "only row of its class"),
    ):
        with pytest.raises(ValueError, match=message):
            mean_average_precision(make(X), y, queries=queries)
    with pytest.raises(ValueError, match="no class in y has two rows"):
        mean_average_precision(make(X), np.arange(60))


def test_how_many_rows_query_a_dask_array():
    from dualmetric.labelled import _affordable_queries

    assert _affordable_queries(np.full(10**5, 100)) == 1000
    assert _affordable_queries(np.full(10**5, 32_768)) == 512
    assert _affordable_queries(np.full(10**5, 10**7)) == 20


@pytest.mark.parametrize("chunks", [80, 33, 3, (0, 79, 1)])
@pytest.mark.parametrize("k", [1, 5, 80])
@pytest.mark.parametrize("make", [lambda D: D, lambda D: D.map_blocks(sp.csr_matrix)])
def test_neighbours_vote(chunks, k, make):
    X, y = make_data(120)
    names = np.array(["c", "a", "b"])[y]
    D = make(da.from_array(X[:80], chunks=(chunks, 12)))
    expected = knn_accuracy(X[:80], names[:80], X[80:], names[80:], k=k)
    assert knn_accuracy(D, names[:80], X[80:], names[80:], k=k) == expected
    T = make(da.from_array(X[80:], chunks=(7, 12)))
    assert knn_accuracy(D, names[:80], T, da.from_array(names[80:]), k=k) == expected
    assert knn_accuracy(X[:80], names[:80], T, names[80:], k=k) == expected


def test_large_test_sets_are_sampled(monkeypatch):
    monkeypatch.setattr("dualmetric.labelled.MOST_QUERIES", 10)
    X, y = make_data(120)
    T = da.from_array(X[60:], chunks=(7, 12))
    rows = evenly_chosen(60, 10, np.random.default_rng(0))
    expected = knn_accuracy(X[:60], y[:60], X[60:][rows], y[60:][rows])
    assert knn_accuracy(X[:60], y[:60], T, y[60:]) == expected


@pytest.mark.parametrize("learner", [DuRP(**FEW), Euclidean("cosine")])
def test_score(learner):
    X, y = make_data(200)
    D = da.from_array(X, chunks=((0, 60, 140), 12))
    learner.fit(X, y)
    assert learner.score(D, da.from_array(y, chunks=9)) == pytest.approx(learner.score(X, y))


# --- DataFrames -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by_name", [True, False])
def test_frames_with_a_label_column(dtype, by_name):
    X, y = make_data(dtype=dtype)
    table = frame(X, y)
    D = dd.from_pandas(table, npartitions=4)
    expected = DuRP(**FEW).fit(table.drop(columns="label"), table["label"])
    got = DuRP(**FEW).fit(D, "label" if by_name else D["label"])
    assert_array_equal(got.components_, expected.components_)
    assert_array_equal(got.feature_names_in_, expected.feature_names_in_)
    assert got.metric_.factor.dtype == dtype
    turned = D[D.columns[::-1]]  # columns are known by their names
    for rows in (D, turned, D.drop(columns="label")):
        Z = got.transform(rows)
        assert isinstance(Z, da.Array)
        assert Z.dtype == dtype
        assert_allclose(Z.compute(), expected.transform(table.drop(columns="label")), atol=1e-6)
        assert_allclose(got.metric_.transform(rows).compute(), Z.compute())
    score = expected.score(table.drop(columns="label"), table["label"])
    assert got.score(turned, "label") == pytest.approx(score)
    assert got.score(D, D["label"]) == pytest.approx(score)
    assert got.score(D, table["label"]) == pytest.approx(score)


def test_frames_with_labels_apart():
    X, y = make_data()
    table = frame(X, y)
    D = dd.from_pandas(table.drop(columns="label"), npartitions=3)
    expected = DuRP(**FEW).fit(X, y).components_
    for labels in (y, table["label"], da.from_array(y), dd.from_pandas(table["label"])):
        assert_array_equal(DuRP(**FEW).fit(D, labels).components_, expected)
    triplets = np.array([[0, 1, 2], [3, 4, 5]])
    assert DuRP(**FEW).fit(D, Triplets(triplets)).n_features_in_ == 12
    assert (
        Euclidean("cosine").fit(dd.from_pandas(table, npartitions=3), "label").n_features_in_ == 12
    )


def test_parquet_of_many_files(tmp_path):
    # of so few columns Dask would join partitions, for the labels alone even more of them
    X, y = make_data(100)
    wide = frame(np.hstack([X, np.zeros((100, 60))]), y)
    for part in range(10):
        wide[10 * part : 10 * part + 10].to_parquet(tmp_path / f"part.{part}.parquet")
    D = dd.read_parquet(tmp_path)[[*(f"f{i}" for i in range(12)), "label"]]
    got = DuRP(**FEW).fit(D, "label")
    assert_array_equal(got.components_, DuRP(**FEW).fit(X, y).components_)
    assert_allclose(got.transform(D).compute(), got.transform(frame(X, y).drop(columns="label")))


@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_of_vectors(vectors, options, dtype):
    X, y = make_data(dtype=dtype)
    D = vectors(X, y, **options)
    assert D.npartitions == 6
    expected = DuRP(**FEW).fit(X, y)
    got = DuRP(**FEW).fit(D, "label")
    assert_array_equal(got.components_, expected.components_)
    assert got.n_features_in_ == 12
    assert not hasattr(got, "feature_names_in_")
    for rows in (D, D[["v"]]):
        Z = got.transform(rows)
        assert Z.dtype == dtype
        assert_allclose(Z.compute(), expected.transform(X), atol=1e-6)
    assert got.score(D, "label") == pytest.approx(expected.score(X, y))


def test_wrong_frames():
    X, y = make_data()
    table = frame(X, y)
    D = dd.from_pandas(table, npartitions=3)
    with pytest.raises(ValueError, match=r"y = 'class' is not a column of X, .* 'f0', .* more"):
        DuRP(**FEW).fit(D, "class")
    with pytest.raises(ValueError, match="'label' holds no numbers"):
        DuRP(**FEW).fit(D, y)
    model = DuRP(**FEW).fit(D, "label")
    with pytest.raises(ValueError, match="X has no column 'f3'"):
        model.transform(D.drop(columns="f3"))
    with pytest.raises(ValueError, match="X has 11 features, but this metric is expecting 12"):
        Metric(np.ones((12, 2))).transform(D.drop(columns=["f3", "label"]))
    table.loc[41, "f2"] = np.nan
    holed = dd.from_pandas(table, npartitions=3)
    with pytest.raises(ValueError, match="nulls in rows 1 of partition 2"):
        DuRP(**FEW).fit(holed, "label")
    with pytest.raises(ValueError, match="nulls in rows 1 of partition 2"):
        model.transform(holed).compute()
    with pytest.raises(ValueError, match="Dask Series, which has no rows of features"):
        DuRP(**FEW).fit(D["f0"], y)


# --- bad arrays -----------------------------------------------------------------------------


def test_unknown_chunks():
    X, y = make_data()
    D = da.from_array(X, chunks=(20, 12))
    some = D[D[:, 0] > -9]
    for learner in (DuRP(**FEW), Euclidean()):
        with pytest.raises(ValueError, match=r"X = X.compute_chunk_sizes\(\)"):
            learner.fit(some, y)
    model = DuRP(**FEW).fit(some.compute_chunk_sizes(), y)
    with pytest.raises(ValueError, match=r"X = X.compute_chunk_sizes\(\)"):
        model.score(D[D[:, 0] > -9], y)


def test_labels_that_do_not_match():
    X, y = make_data()
    recorded = Recorded(X, (20, 12))
    model = DuRP(**FEW).fit(X, y)
    for labels in (y[:59], da.from_array(np.resize(y, 61), chunks=9)):
        for work in (DuRP(**FEW).fit, model.score):
            with pytest.raises(ValueError, match=f"y has {len(labels)} labels for 60 rows"):
                work(recorded.array, labels)
    with pytest.raises(ValueError, match="names a column, but X is not a data frame"):
        DuRP(**FEW).fit(recorded.array, "label")
    assert recorded.read == []
    with pytest.raises(ValueError, match="requires y to be passed"):
        DuRP(**FEW).fit(recorded.array)


def test_other_shapes():
    _, y = make_data()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        DuRP(**FEW).fit(da.zeros(60), y)
    with pytest.raises(ValueError, match="Expected 2D array, got 3D array"):
        Metric(None, 12).transform(da.zeros((60, 12, 2)))
    with pytest.raises(ValueError, match="X has 11 features, but this metric is expecting 12"):
        Metric(None, 12).transform(da.zeros((60, 11)))
    with pytest.raises(ValueError, match="Dask Delayed"):
        DuRP(**FEW).fit(dask.delayed([[1, 2]]), y)


@pytest.mark.parametrize("make", [lambda D: D, lambda D: D.map_blocks(sp.csr_matrix)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_a_number(make, value):
    X, y = make_data()
    model = DuRP(**FEW).fit(X, y)
    X[[47, 52], 3] = value
    D = make(da.from_array(X, chunks=(20, 12)))
    for work in (
        lambda: DuRP(**FEW).fit(D, y),
        lambda: model.transform(D).compute(),
        lambda: model.score(D, y),
        lambda: mean_average_precision(D, y, queries=[1, 2, 3]),
        lambda: knn_accuracy(D, y, X[:3], y[:3]),
    ):
        with pytest.raises(ValueError, match="in rows 7, 12 of partition 2"):
            work()


# --- a cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "frame"])
def test_on_a_cluster(kind, held, on_cluster):
    X, y = make_data(400, dtype=np.float32)
    D = da.from_array(X, chunks=((0, 111, 189, 0, 100), 12))
    labels = y
    if kind == "sparse":
        D = D.map_blocks(sp.csr_matrix)
    elif kind == "frame":
        D, labels = dd.from_pandas(frame(X, y), npartitions=3), "label"

    if held:  # by the workers
        D = D.persist()

    class Stored:  # the same rows, read in this process
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, key):
            return X[key]

    setting = {"shrinkage": 0.4, "all_rows": True, "distance": "cosine", "max_rows": 150, **FEW}
    expected = DuRP(**setting).fit(Stored(), y)
    got = DuRP(**setting).fit(D, labels)
    # sums over partitions are in another order; of squared distances up to 2, float32 keeps this
    assert_allclose(got.metric_.pairwise(X), expected.metric_.pairwise(X), atol=5e-5)
    assert_allclose(got.transform(D).compute(), got.metric_.transform(X), atol=1e-6)
    assert got.score(D, labels) == pytest.approx(expected.score(X, y), abs=1e-4)
    if kind != "frame":
        mapped = got.transform(D).persist() if held else got.transform(D)
        vote = knn_accuracy(mapped, y, got.transform(X[:50]), y[:50])
        assert vote == knn_accuracy(got.transform(X), y, got.transform(X[:50]), y[:50])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_a_worker_that_dies_changes_nothing(method, on_cluster, tmp_path):
    X, y = make_data(120)
    D = da.from_array(X, chunks=(10, 12)).map_blocks(slowly, str(tmp_path), dtype=X.dtype)
    expected = DuRP(**FEW).fit(X, y)
    killed = []
    watch = threading.Thread(target=kill_a_worker, args=(tmp_path, killed))
    watch.start()
    try:
        if method == "fit":
            got = DuRP(**FEW).fit(D, y).metric_.pairwise(X)
        else:
            got = expected.transform(D).compute()
    finally:
        watch.join()
    assert killed
    assert_array_equal(
        got, expected.metric_.pairwise(X) if method == "fit" else expected.transform(X)
    )


def fatal(block):
    if len(block):
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_partition_that_no_worker_survives(on_cluster):
    X, y = make_data()
    learner = DuRP(**FEW)
    D = da.from_array(X, chunks=(60, 12)).map_blocks(fatal, dtype=X.dtype)
    scheduler = on_cluster.cluster.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with pytest.raises(
            RuntimeError, match=r"died.*computing partition 0\b.* memory.*X\.rechunk"
        ):
            learner.fit(D, y)
    finally:
        scheduler.allowed_failures = allowed
    assert not hasattr(learner, "metric_")
    assert not hasattr(learner, "n_features_in_")


def test_a_feature_is_kept_whatever_the_labels_are_called():
    X, y = make_data(60)
    table = dd.from_pandas(pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]), 3)
    model = DuRP(n_triplets=100, random_state=0).fit(table, pd.Series(y, name="f0"))
    assert model.n_features_in_ == X.shape[1]
