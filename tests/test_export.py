"""Exports: the same distances elsewhere, and steps that a target cannot do refused by name."""

import io
import json
import os
import sys
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import makers
from dualmetric import DuRP, Euclidean, Metric
from dualmetric.io.export import to_faiss, to_npy, to_onnx, to_sentence_transformers, to_torch
from dualmetric.lift import Lift, rbf_lift
from dualmetric.tfidf import fit_idf, tfidf

D = 6
RANKS = [1, 4, None]  # None: the identity
KINDS = ["euclidean", "cosine", "cosine, centred"]

make_metric = partial(makers.make_metric, rank=4, d=D)
make_lifted = partial(make_metric, n_landmarks=12)
make_rows = partial(makers.make_rows, d=D, dtype=np.float32)


CASES = [
    pytest.param(make_metric(kind, rank=rank, dtype=dtype), id=f"{kind}-{rank}-{dtype.__name__}")
    for kind, rank, dtype in product(KINDS, RANKS, [np.float32, np.float64])
]
PLAIN = [case for case in CASES if case.values[0].kind == "euclidean"]
TFIDF = [
    pytest.param(
        make_metric(kind, rank=rank, dtype=dtype, idf=True),
        id=f"tf-idf, {kind}-{rank}-{dtype.__name__}",
    )
    for kind, rank, dtype in product(KINDS, RANKS, [np.float32, np.float64])
]


LIFTED = [
    pytest.param(
        make_lifted(kind, rank=rank, dtype=dtype), id=f"lift, {kind}-{rank}-{dtype.__name__}"
    )
    for kind, rank, dtype in product(KINDS, [1, 4], [np.float32, np.float64])
]
LIFTED += [
    pytest.param(make_lifted(kind, rank=4, idf=True), id=f"lift after tf-idf, {kind}")
    for kind in KINDS
]


def lengths(difference):
    return np.linalg.norm(difference, axis=1)


def needs(*modules):
    """Import the packages that an export needs, or skip; give the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # FAISS's wrapper warns of itself
        found = [pytest.importorskip(name, reason=f"{name} is not installed") for name in modules]
    return found[0]


# --- NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", PLAIN)
def test_npy_has_the_same_distances(metric, tmp_path):
    to_npy(metric, tmp_path / "L.npy")
    L = np.load(tmp_path / "L.npy", allow_pickle=False)
    assert L.dtype == (np.float64 if metric.factor is None else metric.factor.dtype)
    A, B = make_rows(9).astype(float), make_rows(9, seed=2).astype(float)
    assert_allclose(lengths(A @ L - B @ L), metric.distance(A, B), rtol=1e-5)
    assert os.listdir(tmp_path) == ["L.npy"]


def test_npy_in_any_layout(tmp_path):
    factor = make_metric().factor
    for layout in (np.asfortranarray(factor), factor[::-1]):
        to_npy(Metric(layout), tmp_path / "L")  # no suffix is added
        assert_array_equal(np.load(tmp_path / "L"), layout)


def test_npy_of_what_is_more_than_a_matrix(tmp_path):
    with pytest.raises(ValueError, match=r"cannot centre rows and scale .*'cosine'.*: .* ONNX"):
        to_npy(make_metric("cosine"), tmp_path / "L.npy")
    with pytest.raises(ValueError, match=r"\.npy matrix cannot weight counts by tf-idf.*: .* ONNX"):
        to_npy(make_metric(idf=True), tmp_path / "L.npy")
    # of several steps, that which fewest targets can do
    with pytest.raises(ValueError, match="cannot weight counts by tf-idf"):
        to_npy(make_metric("cosine", idf=True), tmp_path / "L.npy")
    lift = Lift(np.zeros((3, 2)), 1.0)
    with pytest.raises(ValueError, match="cannot compute kernel values with landmarks"):
        to_npy(Metric(np.eye(3), distance="cosine", lift=lift), tmp_path / "L.npy")
    assert os.listdir(tmp_path) == []


def test_an_identity_that_does_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 10_000_000)
    with pytest.raises(ValueError, match=r"identity over 20,000 features.* 3\.2 GB .* do without"):
        to_npy(Metric(None, 20_000), tmp_path / "L.npy")


# --- FAISS ------------------------------------------------------------------------------------


def faiss_distances(index, A, B):
    """Distances of each row of A to the corresponding row of B."""
    index.add(B)
    squares, found = index.search(A, len(B))
    return np.sqrt(squares[found == np.arange(len(A))[:, None]])


@pytest.mark.parametrize("metric", CASES)
def test_faiss_has_the_same_distances(metric):
    faiss = needs("faiss")
    index = to_faiss(metric)
    assert isinstance(index, faiss.IndexPreTransform)
    assert (index.d, index.is_trained) == (D, True)
    A, B = make_rows(9), make_rows(9, seed=2)
    expected = metric.distance(A.astype(float), B.astype(float))
    assert_allclose(faiss_distances(index, A, B), expected, rtol=1e-5, atol=1e-6)
    again = faiss.deserialize_index(faiss.serialize_index(to_faiss(metric)))
    assert_allclose(faiss_distances(again, A, B), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("metric", CASES)
def test_faiss_finds_the_nearest(metric):
    needs("faiss")
    index, A, B = to_faiss(metric), make_rows(5), make_rows(200, seed=2)
    index.add(B)
    apart = metric.pairwise(A.astype(float), B.astype(float))
    _, found = index.search(A, 3)
    nearest = np.sort(apart, axis=1)[:, :3]
    assert_allclose(np.take_along_axis(apart, found, axis=1), nearest, rtol=1e-5, atol=1e-6)


def test_faiss_in_front_of_an_index_that_is_trained_later():
    faiss = needs("faiss")
    metric, B = make_metric("cosine, centred"), make_rows(400, seed=2)
    index = to_faiss(metric, faiss.IndexIVFFlat(faiss.IndexFlatL2(4), 4, 4))
    assert not index.is_trained
    index.train(B)
    index.add(B)
    faiss.extract_index_ivf(index).nprobe = 4
    squares, found = index.search(B[:5], 1)
    assert_array_equal(found[:, 0], np.arange(5))
    assert_allclose(squares, 0.0, atol=1e-6)


def test_faiss_index_outlives_its_parts():
    faiss = needs("faiss")
    index = to_faiss(make_metric("cosine"), faiss.IndexHNSWFlat(4, 8))
    B = make_rows(100)
    index.add(B)
    assert_array_equal(index.search(B, 1)[1][:, 0], np.arange(100))


def test_faiss_by_inner_product():
    faiss = needs("faiss")
    metric, B = make_metric("cosine, centred"), make_rows(50)
    index = to_faiss(metric, faiss.IndexFlatIP(4))
    index.add(B)
    cosines, found = index.search(B[:5], 50)
    expected = np.take_along_axis(metric.pairwise(B[:5], B), found, axis=1)
    assert_allclose(2 - 2 * cosines, expected**2, atol=1e-5)
    with pytest.raises(ValueError, match=r"does not compare by L2.*: .*faiss\.METRIC_L2"):
        to_faiss(make_metric(), faiss.IndexFlatIP(4))


@pytest.mark.parametrize("rank", [1, None])
def test_faiss_and_rows_of_zeros(rank):
    needs("faiss")
    index = to_faiss(make_metric("cosine", rank=rank))
    nothing = np.zeros((1, D), dtype=np.float32)
    index.add(np.concatenate([nothing, make_rows(1)]))
    squares, found = index.search(nothing, 2)
    assert_array_equal(found, [[0, 1]])
    assert_allclose(squares, [[0.0, 1.0]], rtol=1e-6)


def test_faiss_index_of_another_width():
    faiss = needs("faiss")
    with pytest.raises(ValueError, match="vectors of length 3, but this metric has rank 4"):
        to_faiss(make_metric(), faiss.IndexFlatL2(3))


@pytest.mark.parametrize("size", [1e-200, 1e-20, 1e20, 1e200])
def test_numbers_that_float32_cannot_hold(size, tmp_path):
    needs("faiss")
    with pytest.raises(ValueError, match=r"factor .* as large as .*e[+-]\d+, .* range of float32"):
        to_faiss(Metric(np.full((2, 1), size)))


# --- ONNX -------------------------------------------------------------------------------------


def run_onnx(path, rows):
    onnxruntime = needs("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["vectors"], {"rows": rows})[0]


@pytest.mark.parametrize("metric", [*CASES, *TFIDF, *LIFTED])
def test_onnx_has_the_same_distances(metric, tmp_path):
    needs("onnx", "onnxruntime")
    to_onnx(metric, tmp_path / "m.onnx")
    counts = metric.idf is not None
    A, B = make_rows(9, counts=counts), make_rows(9, seed=2, counts=counts)
    a, b = run_onnx(tmp_path / "m.onnx", A), run_onnx(tmp_path / "m.onnx", B)
    assert a.dtype == np.float32
    assert a.shape == (9, metric.rank)
    expected = metric.distance(A.astype(float), B.astype(float))
    assert_allclose(lengths(a - b), expected, rtol=1e-5, atol=1e-6)
    assert_allclose(a, metric.transform(A.astype(float)), rtol=1e-5, atol=1e-6)
    assert os.listdir(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_and_rows_of_zeros(kind, idf, tmp_path):
    needs("onnx", "onnxruntime")
    metric = make_metric(kind, idf=idf)
    to_onnx(metric, tmp_path / "m.onnx")
    rows = make_rows(3, counts=True)
    rows[1] = 0
    assert_allclose(run_onnx(tmp_path / "m.onnx", rows), metric.transform(rows), atol=1e-6)


def test_onnx_of_rows_beyond_the_range_of_their_squares(tmp_path):
    needs("onnx", "onnxruntime")
    metric = make_metric("cosine", rank=None)
    to_onnx(metric, tmp_path / "m.onnx")
    rows = make_rows(3) * np.array([[1e30], [1e-30], [1.0]], dtype=np.float32)
    assert_allclose(run_onnx(tmp_path / "m.onnx", rows), metric.transform(rows), rtol=1e-5)


def test_onnx_of_a_single_feature(tmp_path):
    needs("onnx", "onnxruntime")
    metric = Metric([[2.0]], idf=[3.0])
    to_onnx(metric, tmp_path / "m.onnx")
    rows = np.array([[0.0], [1.0], [7.0]], dtype=np.float32)
    assert_array_equal(run_onnx(tmp_path / "m.onnx", rows), [[0.0], [2.0], [2.0]])


def test_onnx_is_old_enough_for_any_runtime(tmp_path):
    onnx = needs("onnx", "onnxruntime")
    to_onnx(make_metric("cosine", idf=True), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    assert [(found.domain, found.version) for found in model.opset_import] == [("", 13)]
    assert model.ir_version == 7
    onnx.checker.check_model(model, full_check=True)


def test_onnx_is_checked_before_it_is_written(tmp_path, monkeypatch):
    needs("onnx", "onnxruntime")
    metric = make_metric()
    (tmp_path / "m.onnx").write_text("old")
    wrong = Metric(metric.factor * 1.01)
    monkeypatch.setattr("dualmetric.io.export._trial_rows", lambda _: make_rows(3))
    monkeypatch.setattr(Metric, "transform", lambda self, X: wrong.apply(X))
    with pytest.raises(RuntimeError, match=r"onnxruntime does not give .* nothing was written"):
        to_onnx(metric, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_text() == "old"


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_onnx_of_a_lift_in_any_unit(unit, tmp_path):
    """Also amid rows that are far from zero, where only differences matter."""
    needs("onnx", "onnxruntime")
    rows = ((50 + make_rows(40)) * unit).astype(np.float32)
    lift, N = rbf_lift(rows, np.random.default_rng(0), 10)
    metric = Metric(N, lift=lift)
    to_onnx(metric, tmp_path / "m.onnx")
    expected = metric.transform(rows.astype(float))
    assert np.abs(expected).max() > 0.5
    assert_allclose(run_onnx(tmp_path / "m.onnx", rows), expected, rtol=1e-5, atol=1e-5)


def test_onnx_of_a_lift_is_tried_where_its_kernel_is_not_zero(tmp_path, monkeypatch):
    needs("onnx", "onnxruntime")
    metric = make_lifted()
    far = Metric(metric.factor, lift=Lift(metric.lift.landmarks + 1000, 0.1))
    wrong = Metric(metric.factor * 1.01, lift=far.lift)
    monkeypatch.setattr(Metric, "transform", lambda self, X: wrong.apply(X))
    with pytest.raises(RuntimeError, match="onnxruntime does not give"):
        to_onnx(far, tmp_path / "m.onnx")
    assert os.listdir(tmp_path) == []


def test_onnx_of_a_lift_whose_width_float32_cannot_hold(tmp_path):
    needs("onnx", "onnxruntime")
    lift = Lift(np.zeros((1, 2)), 1e40)
    with pytest.raises(ValueError, match=r"unit of this metric .* 1\.0e\+20, .*range of float32"):
        to_onnx(Metric([[1.0]], lift=lift), tmp_path / "m.onnx")


def test_onnx_of_more_than_a_file_holds(tmp_path, monkeypatch):
    needs("onnx", "onnxruntime")
    monkeypatch.setattr("dualmetric.io.export._LARGEST_ONNX", 100)
    with pytest.raises(ValueError, match=r"less than 2 GB.*metric\.truncate\(rank\)"):
        to_onnx(make_metric(rank=5), tmp_path / "m.onnx")
    to_onnx(make_metric(rank=4), tmp_path / "m.onnx")


def test_onnx_of_a_learned_metric(tmp_path):
    """What `dualmetric fit --tfidf` makes, from counts to neighbours."""
    needs("onnx", "onnxruntime")
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    counts = rng.poisson(0.3 + 2.0 * (np.arange(30) % 3 == y[:, None])).astype(np.float32)
    idf = fit_idf(counts)
    learner = DuRP(distance="cosine", shrinkage=0.5, sampler="neighbors", random_state=0)
    metric = learner.fit(tfidf(counts, idf), y).metric_.with_idf(idf)
    metric.save(tmp_path / "m")
    to_onnx(Metric.load(tmp_path / "m"), tmp_path / "m.onnx")
    vectors = run_onnx(tmp_path / "m.onnx", counts)
    found = lengths(vectors[:30] - vectors[30:])
    assert_allclose(found, metric.distance(counts[:30], counts[30:]), rtol=1e-5, atol=1e-6)


# --- torch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", CASES)
def test_torch_has_the_same_distances(metric):
    torch = needs("torch")
    module = to_torch(metric)
    linear = module if metric.kind == "euclidean" else module[0]
    assert isinstance(linear, torch.nn.Linear)
    assert (linear.bias is None) == (metric.centre is None)
    dtype = linear.weight.dtype
    assert dtype == (
        torch.float32
        if metric.factor is not None and metric.factor.dtype == np.float32
        else torch.float64
    )
    A, B = make_rows(9), make_rows(9, seed=2)
    with torch.no_grad():
        a, b = (module(torch.from_numpy(rows).to(dtype)).numpy() for rows in (A, B))
    expected = metric.distance(A.astype(float), B.astype(float))
    assert_allclose(lengths(a - b), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_torch_and_rows_of_zeros(dtype):
    torch = needs("torch")
    module = to_torch(make_metric("cosine", dtype=dtype))
    rows = torch.from_numpy(make_rows(3).astype(dtype))
    rows[1] = 0
    with torch.no_grad():
        assert_allclose(lengths(module(rows).numpy()), [1.0, 0.0, 1.0], rtol=1e-6)


def test_torch_learns_on():
    """L is trained further and the scaling stays as it is; the module can be stored."""
    torch = needs("torch")
    module = to_torch(make_metric("cosine, centred", dtype=np.float32))
    trained = [name for name, weight in module.named_parameters() if weight.requires_grad]
    assert trained == ["0.weight", "0.bias"]
    rows = torch.from_numpy(make_rows(3))
    module(rows).sum().backward()
    assert torch.isfinite(module[0].weight.grad).all()
    content = io.BytesIO()
    torch.save(module, content)
    content.seek(0)
    again = torch.load(content, weights_only=False)
    assert_array_equal(again(rows).detach().numpy(), module(rows).detach().numpy())


def test_torch_does_not_share_the_factor():
    torch = needs("torch")
    metric = make_metric()
    before = metric.factor.copy()
    with torch.no_grad():
        to_torch(metric).weight.zero_()
    assert_array_equal(metric.factor, before)


# --- sentence-transformers --------------------------------------------------------------------


def files_of_layer(folder):
    """The configuration and the tensors of a layer, read without sentence-transformers."""
    from safetensors.numpy import load_file

    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config, load_file(folder / "model.safetensors")


def compared(a, b, kind):
    """Distances as they are, or between rows of length one."""
    if kind == "cosine":
        a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
    return lengths(a - b)


@pytest.mark.parametrize("metric", CASES)
def test_layer_has_the_same_distances(metric, tmp_path):
    to_sentence_transformers(metric, tmp_path / "2_Dense")
    config, tensors = files_of_layer(tmp_path / "2_Dense")
    assert config == {
        "in_features": D,
        "out_features": metric.rank,
        "bias": metric.centre is not None,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    assert set(tensors) == {"linear.weight", *(["linear.bias"] if config["bias"] else [])}
    assert all(tensor.dtype == np.float32 for tensor in tensors.values())
    A, B = make_rows(9), make_rows(9, seed=2)
    a, b = (X @ tensors["linear.weight"].T + tensors.get("linear.bias", 0) for X in (A, B))
    expected = metric.distance(A.astype(float), B.astype(float))
    assert_allclose(compared(a, b, metric.kind), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_transformers_loads_the_layer(kind, tmp_path):
    torch = needs("torch", "sentence_transformers")
    try:
        from sentence_transformers.sentence_transformer.modules import Dense
    except ImportError:  # before version 5.4
        from sentence_transformers.models import Dense
    metric = make_metric(kind)
    to_sentence_transformers(metric, tmp_path / "2_Dense")
    layer = Dense.load(str(tmp_path / "2_Dense"))
    A, B = make_rows(9), make_rows(9, seed=2)
    with torch.no_grad():
        a, b = (
            layer({"sentence_embedding": torch.from_numpy(X)})["sentence_embedding"].numpy()
            for X in (A, B)
        )
    assert_allclose(compared(a, b, metric.kind), metric.distance(A, B), rtol=1e-5, atol=1e-6)


def test_layer_replaces_a_layer(tmp_path):
    for rank in (4, 2):
        to_sentence_transformers(make_metric("cosine, centred", rank=rank), tmp_path)
        config, tensors = files_of_layer(tmp_path)
        assert config["out_features"] == len(tensors["linear.bias"]) == rank


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("export", [to_faiss, to_torch, partial(to_onnx, path="m.onnx")])
def test_an_estimator_is_refused(export):
    model = Euclidean().fit(np.eye(3))
    with pytest.raises(
        TypeError, match=r"metric must be a Metric.* got Euclidean: pass its metric_"
    ):
        export(model)


def layer(metric):
    to_sentence_transformers(metric, "2_Dense")


@pytest.mark.parametrize(
    ("export", "target"),
    [(to_faiss, "FAISS"), (to_torch, "torch"), (layer, "sentence-transformers")],
)
def test_tfidf_is_refused_by_name(export, target):
    with pytest.raises(ValueError, match=rf"{target} cannot weight counts by tf-idf.*: .*ONNX"):
        export(make_metric(idf=True))


@pytest.mark.parametrize(
    ("export", "target"),
    [
        (to_faiss, "FAISS"),
        (to_torch, "torch"),
        (layer, "sentence-transformers"),
        (lambda metric: to_npy(metric, "L.npy"), r"\.npy matrix"),
    ],
)
def test_a_lift_is_refused_by_name(export, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"{target} cannot compute kernel values.*lift.*: .*ONNX"):
        export(make_lifted())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("module", "extra", "export"),
    [
        ("faiss", "faiss", to_faiss),
        ("torch", "torch", to_torch),
        ("onnx", "onnx", lambda metric: to_onnx(metric, "m.onnx")),
        ("onnxruntime", "onnx", lambda metric: to_onnx(metric, "m.onnx")),
    ],
)
def test_a_missing_package_is_answered_with_the_install_line(
    module, extra, export, tmp_path, monkeypatch
):
    if module == "onnxruntime":
        needs("onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError, match=rf"needs {module} .*: install .* pip install 'dualmetric\[{extra}\]'"
    ):
        export(make_metric())
    assert os.listdir(tmp_path) == []


# --- the plain distance outside a few directions, and one metric after another ----------------


def make_corrected(distance, outside, before=None):
    height = D if before is None else before.rank
    columns = np.linalg.qr(np.random.default_rng(0).standard_normal((height, 2)))[0]
    factor = (columns * [3.0, 0.25]).astype(np.float32)
    return Metric(factor, distance=distance, outside=outside, before=before)


CORRECTED = {
    f"{distance}, {name}": make_corrected(distance, outside, before)
    for distance in ("euclidean", "cosine")
    for name, outside, before in [
        ("outside", 0.5, None),
        ("after a plain metric", 0.0, make_metric()),
        ("outside, after a plain metric", 0.5, make_metric()),
        ("after a cosine", 0.0, make_metric("cosine, centred")),
        ("after tf-idf", 0.5, make_metric("cosine", idf=True)),
        ("after a lift", 0.5, make_lifted("cosine")),
        ("after outside", 0.5, make_corrected("cosine", 0.7)),
        ("linear, after outside", 0.5, make_corrected("euclidean", 0.7)),
    ]
}


@pytest.mark.parametrize("case", list(CORRECTED))
def test_onnx_of_corrected_metrics(case, tmp_path):
    onnxruntime = needs("onnxruntime", "onnx")
    metric = CORRECTED[case]
    to_onnx(metric, tmp_path / "m.onnx")
    rows = makers.make_rows(9, D, np.float32, counts=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (found,) = session.run(None, {"rows": rows})
    assert_allclose(found, metric.transform(rows), rtol=1e-3, atol=1e-4)


def first_steps(metric):
    """The steps of a metric that are not linear maps: those that some targets cannot do."""
    found = {"tf-idf": metric.first.idf is not None, "landmarks": metric.first.lift is not None}
    return [name for name, present in found.items() if present]


@pytest.mark.parametrize("case", list(CORRECTED))
def test_torch_of_corrected_metrics(case):
    torch = needs("torch")
    metric = CORRECTED[case]
    if first_steps(metric):
        with pytest.raises(ValueError, match=f"torch cannot .*{first_steps(metric)[0]}"):
            to_torch(metric)
        return
    rows = makers.make_rows(9, D, np.float32)
    with torch.no_grad():
        module = to_torch(metric)
        dtype = next(module.parameters()).dtype
        found = module(torch.from_numpy(rows).to(dtype)).numpy()
    assert_allclose(found, metric.transform(rows), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", list(CORRECTED))
def test_npy_of_corrected_metrics(case, tmp_path):
    metric = CORRECTED[case]
    if first_steps(metric) or "cosine" in (metric.kind, metric.first.kind):
        with pytest.raises(ValueError, match=r"\.npy matrix cannot"):
            to_npy(metric, tmp_path / "L.npy")
        return
    to_npy(metric, tmp_path / "L.npy")
    L = np.load(tmp_path / "L.npy", allow_pickle=False)
    A, B = make_rows(9), make_rows(9, seed=2)
    assert_allclose(lengths(A @ L - B @ L), metric.distance(A, B), rtol=1e-4)


@pytest.mark.parametrize("case", list(CORRECTED))
def test_layer_of_corrected_metrics(case, tmp_path):
    metric = CORRECTED[case]
    refusal = first_steps(metric)
    if not refusal and metric.before is not None and metric.before.kind == "cosine":
        refusal = ["scale rows to length one between two maps"]
    if refusal:
        with pytest.raises(ValueError, match=f"sentence-transformers cannot .*{refusal[0]}"):
            to_sentence_transformers(metric, tmp_path / "2_Dense")
        assert os.listdir(tmp_path) == []
        return
    to_sentence_transformers(metric, tmp_path / "2_Dense")
    _, tensors = files_of_layer(tmp_path / "2_Dense")
    A, B = make_rows(9), make_rows(9, seed=2)
    a, b = (X @ tensors["linear.weight"].T for X in (A, B))
    assert_allclose(compared(a, b, metric.kind), metric.distance(A, B), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", list(CORRECTED))
def test_faiss_of_corrected_metrics(case):
    needs("faiss")
    metric = CORRECTED[case]
    if first_steps(metric):
        with pytest.raises(ValueError, match=f"FAISS cannot .*{first_steps(metric)[0]}"):
            to_faiss(metric)
        return
    A, B = make_rows(9), make_rows(9, seed=2)
    found = faiss_distances(to_faiss(metric), A, B)
    assert_allclose(found, metric.distance(A, B), rtol=1e-3, atol=1e-3)


def test_faiss_refuses_a_path():
    pytest.importorskip("faiss")
    with pytest.raises(TypeError, match=r"got 'search.faiss'.*faiss.write_index\(to_faiss\(metric"):
        to_faiss(Metric(np.eye(3)), "search.faiss")
