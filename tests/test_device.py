"""Device arrays: the same answers as on the host, on the device that the rows came from.

array_api_strict allows nothing that the standard does not, and its second device refuses to become
a NumPy array by accident; PyTorch serves on the host, and on a GPU where there is one.
"""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from dualmetric import (
    LMNN,
    OASIS,
    SPCA,
    SRP,
    Comparisons,
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
    solver,
)
from dualmetric._arrays import device_ranking
from dualmetric._arrays.namespace import (
    full_precision,
    is_device_array,
    library,
    namespace,
    to_numpy,
)
from dualmetric.evaluation import average_precisions
from dualmetric.losses import get_loss
from dualmetric.solver import solve_dual
from makers import random_index

pytestmark = pytest.mark.filterwarnings("ignore:.*active triplets were found:UserWarning")


def _strict(array):
    xp = pytest.importorskip("array_api_strict", reason="needs array-api-strict")
    return xp.asarray(array, device=xp.Device("device1"))


def _torch(array):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    return torch.asarray(array)


def _torch_cuda(array):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return torch.asarray(array, device="cuda")


def _cupy(array):
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("needs a GPU")
    return cupy.asarray(array)


@pytest.fixture(params=[_strict, _torch, _torch_cuda, _cupy], ids=lambda f: f.__name__[1:])
def put(request):
    """Function that copies a NumPy array to a device."""
    request.param(np.zeros(1))
    return request.param


def blobs(n=240, d=12, classes=4, dtype=np.float32, seed=0, spread=4.0):
    X, y = make_blobs(n, d, centers=classes, cluster_std=spread, random_state=seed)
    return X.astype(dtype), y


def assert_like(found, X, dtype=None):
    """Found is an array of the kind, on the device, and in the precision of X."""
    assert library(found) == library(X)
    assert found.device == X.device
    assert found.dtype == (X.dtype if dtype is None else dtype)


def assert_same_distances(model, other, X, rtol=1e-4):
    found, expected = (m.metric_.pairwise(X[:60]) for m in (model, other))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * expected.max())


SETTINGS = [
    {},
    {"shrinkage": 0.5},
    {"shrinkage": 0.3, "distance": "cosine", "power": 0.25, "n_components": 3},
    {"sampler": "neighbors", "n_components": 2},
    {"lift": "rbf", "shrinkage": 0.5, "n_components": 4},
    {"loss": "logistic", "tol": 1e-3},
    {"all_rows": True, "shrinkage": 0.5},
    {"max_rows": 100, "shrinkage": 0.5},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("learner", [DuRP, DuOri, SRP])
def test_learns_what_the_host_learns(put, learner, setting):
    X, y = blobs()
    model = learner(n_triplets=2000, random_state=0, **setting)
    expected = learner(n_triplets=2000, random_state=0, **setting).fit(X, y)
    model.fit(put(X), put(y))
    np.testing.assert_array_equal(model.comparisons_.index, expected.comparisons_.index)
    assert isinstance(model.metric_.factor, np.ndarray)
    assert model.metric_.factor.dtype == np.float32
    assert_same_distances(model, expected, X)


@pytest.mark.parametrize(
    "learner",
    [
        RidgeMetric(),
        RidgeMetric(lift="rbf", random_state=0),
        Whitening(0.2),
        Euclidean(),
        Euclidean("cosine"),
        SPCA(4, n_triplets=1000, random_state=0),
    ],
    ids=str,
)
def test_other_learners_too(put, learner):
    from sklearn.base import clone

    X, y = blobs()
    expected = clone(learner).fit(X, y)
    assert_same_distances(learner.fit(put(X), y), expected, X)


@pytest.mark.parametrize(
    "learner",
    [
        OASIS(n_triplets=500, random_state=0),
        LMNN(n_components=4, max_iter=5, random_state=0),
        MetricCV(n_triplets=500, lifts=(None,), shrinkages=(0.5,), powers=(0.5,), random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_learners_of_the_host_take_device_rows(put, learner):
    from sklearn.base import clone

    X, y = blobs(120, 8)
    expected = clone(learner).fit(X, y)
    there = put(X)
    assert_same_distances(learner.fit(there, put(y)), expected, X)
    assert_like(learner.transform(there), there)


@pytest.mark.parametrize("shrinkage", [1.0, 0.4])
def test_few_rows_of_many_features(put, shrinkage):
    X, y = blobs(50, 300, 3, spread=9.0)
    models = [DuRP(n_triplets=800, shrinkage=shrinkage, random_state=0) for _ in range(2)]
    models[0].fit(X, y)
    models[1].fit(put(X), put(y))
    assert_same_distances(models[1], models[0], X)


@pytest.mark.parametrize("shrinkage", [1.0, 0.8])
@pytest.mark.parametrize("n", [40, 150])
def test_products_alone(put, monkeypatch, shrinkage, n):
    """The route of very many features, in the span of few rows and in the features."""
    for module in ("recovery", "scatter", "learn"):
        monkeypatch.setattr(f"dualmetric.{module}.DENSE_LIMIT", 20)
    monkeypatch.setattr("dualmetric.learn.SPAN_LIMIT", 0)
    X, y = blobs(n, 100, 3, np.float64, spread=8.0)
    setting = {"n_components": 3, "eigen_tol": 1e-9, "n_triplets": 800, "shrinkage": shrinkage}
    models = [DuRP(random_state=0, **setting) for _ in range(2)]
    models[0].fit(X, y)
    models[1].fit(put(X), y)
    assert_same_distances(models[1], models[0], X, 1e-4)


@pytest.mark.parametrize("shrinkage", [1.0, 0.5])
def test_learns_from_triplets(put, shrinkage):
    X, _ = blobs(100, 6)
    index = random_index(100, 400, np.random.default_rng(0))
    models = [DuRP(shrinkage=shrinkage, random_state=0) for _ in range(2)]
    models[0].fit(X, Triplets(index))
    models[1].fit(put(X), Triplets(put(index)))
    assert_same_distances(models[1], models[0], X)


@pytest.mark.parametrize("all_rows", [False, True])
@pytest.mark.parametrize("learner", [DuRP, SRP])
@pytest.mark.parametrize("on_device", [False, True], ids=["host y", "device y"])
def test_many_rows_are_read_as_a_source_is(put, tmp_path, learner, all_rows, on_device):
    X, y = blobs(400, 8)
    stored = np.memmap(tmp_path / "rows", np.float32, "w+", shape=X.shape)
    stored[:] = X
    setting = {"n_triplets": 1000, "shrinkage": 0.5, "all_rows": all_rows, "random_state": 3}
    setting["max_rows"] = 100
    expected = learner(**setting).fit(stored, y)
    model = learner(**setting).fit(put(X), put(y) if on_device else y)
    assert (model.n_rows_used_, model.n_rows_in_) == (expected.n_rows_used_, 400)
    np.testing.assert_array_equal(model.comparisons_.index, expected.comparisons_.index)
    assert_same_distances(model, expected, X)


def test_many_rows_and_triplets(put):
    X, _ = blobs(400, 8)
    index = 100 + random_index(50, 300, np.random.default_rng(0))
    expected = DuRP(max_rows=100, random_state=0).fit(X, Triplets(index))
    model = DuRP(max_rows=100, random_state=0).fit(put(X), Triplets(index))
    assert 100 < model.n_rows_used_ == expected.n_rows_used_ < 160
    np.testing.assert_array_equal(model.comparisons_.index, index[:, [0, 1, 0, 2]])
    assert_same_distances(model, expected, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("warm", [False, True])
def test_batches_take_the_steps_of_the_host(put, monkeypatch, dtype, loss, warm):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 7)).astype(dtype)
    comparisons = Comparisons.of_triplets(random_index(60, 300, rng))
    start = np.full(300, 0.25, dtype) if warm else None

    def solve(rows):
        return solve_dual(
            rows,
            comparisons,
            get_loss(loss),
            reg=1e-2,
            max_epochs=4,
            rng=np.random.default_rng(1),
            warm_start=start,
        )

    expected = solve(Z)  # one comparison at a time
    monkeypatch.setattr(solver, "ON_DEVICE_FROM", 1)
    monkeypatch.setattr(solver, "BLOCKED_ABOVE", 1)
    monkeypatch.setattr("dualmetric._arrays.ops.steps_at_once", lambda Z: 64)
    found = solve(put(Z))
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(found.beta, expected.beta, atol=tolerance)
    np.testing.assert_allclose(
        [epoch.gap for epoch in found.history],
        [epoch.gap for epoch in expected.history],
        rtol=1e-2 if dtype == np.float32 else 1e-6,
        atol=1e-6,
    )


def test_batches_close_the_gap(put, monkeypatch):
    monkeypatch.setattr(solver, "ON_DEVICE_FROM", 1)
    monkeypatch.setattr(solver, "BLOCKED_ABOVE", 1)
    X, y = blobs(150, 10, 3, spread=2.0)
    setting = {"n_triplets": 500, "max_epochs": 100, "tol": 1e-3, "random_state": 0}
    model, expected = DuOri(**setting).fit(put(X), y), DuOri(**setting).fit(X, y)
    assert model.duality_gap_ <= 1e-3 * model.history_[-1].primal
    assert model.n_iter_ == expected.n_iter_
    assert_same_distances(model, expected, X, 1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("lifted", [False, True])
def test_transform_stays_where_it_is(put, dtype, distance, lifted):
    X, y = blobs(dtype=dtype)
    setting = {"lift": "rbf"} if lifted else {}
    model = DuRP(n_triplets=1000, distance=distance, random_state=0, **setting).fit(X, y)
    there = put(X)
    for transform in (model.transform, model.metric_.transform):
        found = transform(there)
        assert_like(found, there)
        expected = model.transform(X)
        rtol = 1e-4 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(
            to_numpy(found), expected, rtol=rtol, atol=rtol * abs(expected).max()
        )


def test_distances_stay_where_they_are(put):
    X, y = blobs()
    model = DuRP(n_triplets=1000, random_state=0).fit(X, y)
    A, B = put(X[:30]), put(X[30:60])
    for found, expected in (
        (model.pair_distance(A, B), model.pair_distance(X[:30], X[30:60])),
        (model.metric_.distance(A, B), model.metric_.distance(X[:30], X[30:60])),
        (model.metric_.pairwise(A), model.metric_.pairwise(X[:30])),
        (model.metric_.pairwise(A, B), model.metric_.pairwise(X[:30], X[30:60])),
    ):
        assert_like(found, A)
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5, atol=1e-6)
    explained = model.metric_.explain(put(X[0]), put(X[1]))
    assert explained.distance == model.metric_.explain(X[0], X[1]).distance


def test_unit_rows_of_extreme_and_empty_rows(put):
    rows = np.array([[1e200, 1e200], [1e-200, 0.0], [0.0, 0.0], [3.0, 4.0]])
    metric = Metric(None, 2, distance="cosine")
    found = to_numpy(metric.transform(put(rows)))
    np.testing.assert_allclose(found, metric.transform(rows), rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 7])
def test_average_precisions(put, classes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 5))
    y = rng.integers(classes, size=90)
    y[3] = classes  # alone
    there = put(X)
    found = average_precisions(there, put(y))
    assert_like(found, there)
    np.testing.assert_allclose(to_numpy(found), average_precisions(X, y), rtol=1e-12)
    queries = np.array([5, 3, 80, 5])
    found = to_numpy(average_precisions(there, y, queries=put(queries)))
    np.testing.assert_allclose(found, average_precisions(X, y)[queries], rtol=1e-12)


@pytest.mark.parametrize("on_grid", [True, False])
def test_average_precisions_of_ties_and_copies(put, on_grid):
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 2, size=(120, 3)).astype(np.float64)
    if not on_grid:
        X = rng.standard_normal((60, 3))[rng.integers(60, size=120)]
    y = rng.integers(3, size=120)
    found = to_numpy(average_precisions(put(X), y))
    np.testing.assert_allclose(found, average_precisions(X, y), rtol=1e-12)


def test_equal_rows_are_noticed(put):
    X = np.random.default_rng(0).standard_normal((500, 3))
    there = put(X)
    assert device_ranking._surely_distinct(there) == (library(there) in ("torch", "cupy"))
    X[400] = X[7]
    assert not device_ranking._surely_distinct(put(X))


def test_counts_of_values_at_most_each_end(put):
    rng = np.random.default_rng(0)
    values = rng.integers(8, size=(6, 40)).astype(np.float64)
    ends = np.sort(rng.integers(8, size=(6, 5)), axis=1).astype(np.float64)
    ends[:, -1] = np.inf
    found = to_numpy(device_ranking._counts(put(ends), put(values)))
    np.testing.assert_array_equal(found, (values[:, :, None] <= ends[:, None, :]).sum(axis=1))


def test_scores(put):
    X, y = blobs(300, dtype=np.float64)
    model = DuRP(n_triplets=1000, random_state=0).fit(X, y)
    score = model.score(put(X), put(y))
    assert isinstance(score, float)
    assert score == pytest.approx(model.score(X, y), rel=1e-9)
    names = np.array(["a", "b", "c", "d"])[y]
    host = knn_accuracy(X[:200], names[:200], X[200:], names[200:], k=7)
    assert knn_accuracy(put(X[:200]), names[:200], put(X[200:]), names[200:], k=7) == host


def test_estimate_knows_device_rows(put):
    X, _ = blobs()
    assert DuRP().estimate(put(X)) == DuRP().estimate(X)


def test_whole_and_half_numbers(put):
    X, y = blobs()
    X = np.round(X)
    expected = DuRP(n_triplets=500, random_state=0).fit(X.astype(np.int64), y)
    model = DuRP(n_triplets=500, random_state=0).fit(put(X.astype(np.int64)), y)
    assert model.metric_.factor.dtype == np.float64
    assert_same_distances(model, expected, X)
    there = put(X.astype(np.float32))
    if library(there) in ("torch", "cupy"):
        half = put(X.astype(np.float16))
        assert_like(model.transform(half), there)


@pytest.mark.filterwarnings("ignore:.*encountered in matmul:RuntimeWarning")  # NumPy's, below
def test_rows_that_cannot_be_used(put):
    X, y = blobs()
    model = DuRP(n_triplets=500, random_state=0).fit(X, y)
    for wrong in (np.nan, np.inf):
        bad = X.copy()
        bad[3, 2] = wrong
        for call in (
            lambda rows: DuRP().fit(rows, y),
            model.transform,
            model.metric_.transform,
            lambda rows: mean_average_precision(rows, y),
            lambda rows: Euclidean().fit(rows),
        ):
            with pytest.raises(ValueError, match="NaN or infinity"):
                call(put(bad))
    with pytest.raises(ValueError, match="too large"):
        Metric(np.full((12, 2), 10.0)).transform(put(np.full((2, 12), 3e38, np.float32)))
    with pytest.raises(ValueError, match="5 features"):
        model.transform(put(X[:, :5].copy()))
    with pytest.raises(ValueError, match="5 features"):
        model.metric_.transform(put(X[:, :5].copy()))
    with pytest.raises(ValueError, match="2D"):
        model.transform(put(X[0]))
    with pytest.raises(ValueError, match="empty"):
        model.transform(put(X[:0]))
    with pytest.raises(ValueError, match="Complex"):
        model.transform(put(X.astype(np.complex128)))
    with pytest.raises(ValueError, match="minimum of 2"):
        DuRP().fit(put(X[:1]), y[:1])
    with pytest.raises(ValueError, match="239 labels"):
        DuRP().fit(put(X), put(y[1:]))
    with pytest.raises(ValueError, match="all rows of X are the same"):
        DuRP().fit(put(np.ones_like(X)), y)
    with pytest.raises(ValueError, match="tf-idf"):
        Metric(None, 2, idf=[1.0, 1.0]).transform(put(np.ones((2, 2))))
    flat = np.repeat(X, 2, axis=1)
    with pytest.raises(ValueError, match="too small for these float"):
        DuRP(shrinkage=1e-12, n_triplets=500).fit(put(flat), y)


def test_mixed_devices(put):
    X, y = blobs()
    metric = Metric(np.eye(12, 3))
    for call in (metric.distance, metric.pairwise):
        with pytest.raises(ValueError, match=r"A and B are on different devices, .* and numpy"):
            call(put(X), X)
    for train, test in ((put(X), X), (X, put(X))):
        with pytest.raises(ValueError, match="X_train and X_test are on different devices"):
            knn_accuracy(train, y, test, y)


def test_labels_that_are_missing(put):
    X, y = blobs()
    for missing in range(0, len(y), 40):  # most of them not among those that are learned from
        labels = y.astype(np.float64)
        labels[missing] = np.nan
        with pytest.raises(ValueError, match="y contains NaN"):
            DuRP(n_triplets=200, max_rows=50, random_state=0).fit(put(X), put(labels))


def test_two_devices_of_one_library():
    xp = pytest.importorskip("array_api_strict")
    X, _ = blobs()
    A = xp.asarray(X, device=xp.Device("device1"))
    B = xp.asarray(X, device=xp.Device("device2"))
    with pytest.raises(ValueError, match=r"device1.* and .*device2"):
        Metric(np.eye(12, 3)).distance(A, B)


def test_memory_is_asked_for_first(put, monkeypatch):
    X, y = blobs()
    there = put(X)
    model = DuRP(n_triplets=500, random_state=0).fit(there, y)
    monkeypatch.setattr("dualmetric._arrays.namespace.free_memory", lambda X: 1000)
    for call in (
        lambda: DuRP().fit(there, y),
        lambda: model.transform(there),
        lambda: model.metric_.pairwise(there),
        lambda: mean_average_precision(there, y),
    ):
        with pytest.raises(ValueError, match=rf"memory on {library(there)} on .* is available"):
            call()


def test_sparse_tensors_are_refused():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    rows = torch.eye(4).to_sparse()
    for call in (lambda: DuRP().fit(rows, [0, 0, 1, 1]), lambda: Metric(None, 4).transform(rows)):
        with pytest.raises(ValueError, match="sparse matrix on a device"):
            call()


def test_tensors_that_record_gradients():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    X, y = blobs()
    there = torch.asarray(X).requires_grad_()
    model = DuRP(n_triplets=500, random_state=0).fit(there, y)
    assert not model.transform(there).requires_grad


def test_tf32_is_off_and_comes_back():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    settings = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(settings, "fp32_precision") else "allow_tf32"
    found, loose = getattr(settings, name), "tf32" if name == "fp32_precision" else True
    setattr(settings, name, loose)
    try:
        with full_precision(torch.zeros(1)):
            assert not settings.allow_tf32
        assert getattr(settings, name) == loose
        with pytest.raises(KeyError), full_precision(torch.zeros(1)):
            raise KeyError
        assert getattr(settings, name) == loose
        first, second = full_precision(torch.zeros(1)), full_precision(torch.zeros(1))
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # as threads may that overlap
        assert not settings.allow_tf32
        second.__exit__(None, None, None)
        assert getattr(settings, name) == loose
    finally:
        setattr(settings, name, found)


def test_scikit_learns_own_switch_changes_nothing(put):
    from sklearn import config_context

    X, y = blobs()
    there = put(X)
    expected = DuRP(n_triplets=500, random_state=0).fit(there, y)
    try:
        with config_context(array_api_dispatch=True):
            model = DuRP(n_triplets=500, random_state=0).fit(there, y)
            found = model.transform(there)
    except RuntimeError as error:  # SciPy's environment variable is not set
        pytest.skip(str(error))
    np.testing.assert_array_equal(model.metric_.factor, expected.metric_.factor)
    assert_like(found, there)


def test_what_is_on_the_host():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    for rows in (np.zeros(2), [0.0], pandas.DataFrame({"a": [1]}), np.ma.zeros(2)):
        assert not is_device_array(rows)
        assert namespace(rows).__name__ == "array_api_compat.numpy"
