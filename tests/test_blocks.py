"""Blocks of features: one weight per block, learned from the comparisons."""

import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dualmetric import DuOri, DuRP, Metric
from dualmetric._arrays import ops
from dualmetric.blocks import Blocks, read_blocks
from dualmetric.io.export import to_faiss, to_npy, to_onnx, to_torch
from dualmetric.prior import BLOCK_RIDGE, block_shares
from dualmetric.report import build_report
from dualmetric.supervision import Comparisons, Labels, Relevance

WIDTHS = [3, 6, 5]
EVEN = Blocks(np.repeat([0, 1, 2], WIDTHS), np.array([0.2, 0.3, 0.5]))


def make_blocks(n=120, seed=0):
    """Rows with a good block, a block of noise and a fair block, in different units."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    good = rng.standard_normal((4, 3))[y] + 0.4 * rng.standard_normal((n, 3))
    fair = rng.standard_normal((4, 5))[y] + 1.0 * rng.standard_normal((n, 5))
    return np.hstack([good, 100.0 * rng.standard_normal((n, 6)), 0.01 * fair]), y


def make_model(kind=DuRP, **options):
    return kind(**{"blocks": WIDTHS, "n_triplets": 2000, "random_state": 0, **options})


def by_hand(X, blocks, distance):
    X = np.array(X, dtype=float)
    for block, weight in enumerate(blocks.weights):
        part = X[:, blocks.of == block]
        if distance == "cosine":
            lengths = np.linalg.norm(part, axis=1, keepdims=True)
            part = part / np.where(lengths == 0, 1, lengths)
        X[:, blocks.of == block] = np.sqrt(weight) * part
    if distance == "cosine":
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        X /= np.where(lengths == 0, 1, lengths)
    return X


# --- weights ---------------------------------------------------------------------------------


def objective(v, margins, target, weight):
    slack = target - 3.0 * margins @ v
    loss = np.where(slack > 1, slack - 0.5, 0.5 * np.maximum(slack, 0) ** 2)
    return np.average(loss, weights=weight) + 0.5 * BLOCK_RIDGE * np.sum((v - v.mean()) ** 2)


def test_shares_of_two_blocks_are_those_of_a_grid():
    rng = np.random.default_rng(3)
    margins = np.array([0.4, 0.1]) + rng.standard_normal((300, 2)) * [0.4, 0.6]
    target, weight = rng.uniform(0.5, 1.5, 300), rng.uniform(0, 2, 300)
    found = block_shares(margins, Comparisons(np.zeros((300, 4), int), target, weight))
    grid = np.linspace(0.0, 2.0, 101)
    values = [[objective(np.array([a, b]), margins, target, weight) for b in grid] for a in grid]
    a, b = np.unravel_index(np.argmin(values), (101, 101))
    assert 0 < b < a < 100
    assert_allclose(found, grid[[a, b]] / (grid[a] + grid[b]), atol=0.02)


def test_without_any_use_blocks_count_alike():
    given = Comparisons(np.zeros((5, 4), int), np.ones(5), np.ones(5))
    with pytest.warns(UserWarning, match="all blocks get the same share"):
        assert_array_equal(block_shares(np.full((5, 2), -1.0), given), [0.5, 0.5])


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_a_block_of_noise_has_no_weight(distance):
    X, y = make_blocks()
    model = make_model(distance=distance).fit(X, y)
    shares = model.block_weights_
    assert list(shares) == ["block 0", "block 1", "block 2"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["block 1"] < 0.02
    assert shares["block 0"] > 0.4
    plain = make_model(blocks=None, prior="identity", distance=distance).fit(X, y)
    assert model.score(X, y) > plain.score(X, y) + 0.3
    assert model.metric_.info["blocks"] == shares


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", [DuRP, DuOri])
def test_the_unit_of_a_block_does_not_matter(kind, distance):
    X, y = make_blocks()
    unit = np.repeat([2.0**-12, 2.0**9, 2.0**15], WIDTHS)  # powers of two change no digit
    one = make_model(kind, distance=distance).fit(X, y)
    other = make_model(kind, distance=distance).fit(X * unit, y)
    assert one.block_weights_ == pytest.approx(other.block_weights_, abs=1e-9)
    assert_allclose(other.metric_.pairwise(X * unit), one.metric_.pairwise(X), rtol=1e-5, atol=1e-7)


def test_a_constant_block_has_no_weight():
    X, y = make_blocks()
    X[:, 3:9] = 7.0
    assert make_model().fit(X, y).block_weights_["block 1"] == 0.0
    length = 1.0 + np.abs(X[:, :2])
    with pytest.raises(ValueError, match="all rows of X are the same"):
        make_model(blocks=[2, 1], distance="cosine").fit(length @ [[1, 0, 0], [0, 0, 1]], y)


def test_blocks_of_one_column_keep_their_numbers():
    X, y = make_blocks()
    X = X[:, [0, 1, 3]]
    model = make_model(blocks=[1] * 3, distance="cosine").fit(X, y)
    blocks = model.metric_.first.blocks
    weighted = X * np.sqrt(blocks.weights)
    assert_allclose(blocks.apply(X, True), weighted)
    plain = Metric(None, blocks=blocks, n_features=3, distance="cosine")
    lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
    assert_allclose(plain.transform(X), weighted / lengths)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_shares_are_of_the_mean_squared_distance(distance):
    X, y = make_blocks()
    model = make_model(distance=distance).fit(X, y)
    blocks = model.metric_.first.blocks
    weighted = by_hand(X, blocks, distance)
    parts = [ops.mean_sq_distance(weighted[:, blocks.of == b]) for b in range(3)]
    assert_allclose(list(model.block_weights_.values()), np.array(parts) / sum(parts), rtol=1e-6)


# --- the correction --------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_the_correction_is_that_of_the_identity_over_weighted_rows(distance):
    X, y = make_blocks()
    index = np.random.default_rng(0).permuted(np.tile(np.arange(120), (900, 1)), axis=1)[:, :4]
    given = Comparisons(index[y[index[:, 0]] == y[index[:, 1]]])
    model = make_model(DuOri, distance=distance).fit(X, given)
    weighted = sp.csr_matrix(by_hand(X, model.metric_.first.blocks, distance))  # is not centred
    plain = make_model(DuOri, blocks=None, prior="identity", distance=distance)
    expected = plain.fit(weighted, given).metric_.pairwise(weighted)
    assert_allclose(model.metric_.pairwise(X), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", [DuRP, DuOri])
def test_sparse_rows_give_the_same(kind, distance):
    X, y = make_blocks()
    dense = make_model(kind, distance=distance).fit(X, y)
    sparse = make_model(kind, distance=distance).fit(sp.csr_matrix(X), y)
    assert sparse.block_weights_ == pytest.approx(dense.block_weights_, abs=1e-9)
    expected = dense.metric_.pairwise(X)
    assert_allclose(sparse.metric_.pairwise(sp.csr_matrix(X)), expected, rtol=1e-6, atol=1e-8)
    assert_allclose(sparse.metric_.pairwise(X), expected, rtol=1e-6, atol=1e-8)


def test_wide_sparse_rows_stay_sparse():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    words = sp.random(200, 5000, 0.01, format="csr", random_state=1) + sp.csr_matrix(
        (np.ones(200), (np.arange(200), y * 7)), shape=(200, 5000)
    )
    X = sp.hstack([words, sp.csr_matrix(rng.standard_normal((200, 20)))], format="csr")
    model = make_model(blocks=[5000, 20], distance="cosine", n_components=5).fit(X, y)
    assert model.metric_.outside > 0
    assert sp.issparse(model.metric_.before.transform(X))
    assert model.block_weights_["block 0"] > 0.9
    again = Metric(model.metric_.factor, outside=model.metric_.outside, before=model.metric_.before)
    assert_allclose(again.pairwise(X[:5]), model.metric_.pairwise(X[:5]))


def test_nothing_changes_without_blocks():
    X, y = make_blocks()
    model = make_model(blocks=None).fit(X, y)
    assert model.metric_.blocks is None
    assert not hasattr(model, "block_weights_")
    assert "blocks" not in model.metric_.info


# --- ways to give blocks ---------------------------------------------------------------------


def test_widths_slices_and_names_are_the_same():
    pd = pytest.importorskip("pandas")
    X, y = make_blocks()
    names = [f"f{i}" for i in range(14)]
    frame = pd.DataFrame(X, columns=names)
    expected = make_model().fit(X, y)
    slices = make_model(blocks=[slice(0, 3), slice(3, 9), slice(9, None)]).fit(X, y)
    named = make_model(blocks={"a": names[:3], "b": names[3:9], "c": names[9:]}).fit(frame, y)
    for model in (slices, named):
        assert_array_equal(model.transform(X), expected.transform(X))
    assert list(named.block_weights_) == ["a", "b", "c"]
    turned = frame[names[::-1]]
    assert_allclose(named.transform(turned), expected.transform(X))


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_the_columns_of_a_block_need_not_be_neighbours(distance):
    X, y = make_blocks()
    order = np.random.default_rng(5).permutation(14)
    names = np.array([f"f{i}" for i in range(14)])
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, order], columns=names[order])
    parts = [list(part) for part in np.split(names, np.cumsum(WIDTHS)[:-1])]
    found = make_model(DuOri, blocks=parts, distance=distance).fit(frame, Labels(y))
    expected = make_model(DuOri, distance=distance).fit(X, y)
    assert_allclose(
        found.metric_.pairwise(X[:, order]), expected.metric_.pairwise(X), rtol=1e-6, atol=1e-8
    )


NAMES = list("abcdef")


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([2, 3], "add up to the 6 columns of X; got"),
        ([0, 6], "at least 1"),
        ([slice(0, 4), slice(3, 6)], "overlap: column 'd' is in two"),
        ([slice(0, 3), slice(4, 6)], "leave out 1 of the 6 columns of X, such as column 'd'"),
        ([slice(0, 3), slice(3, 9)], "X has 6 columns"),
        ([["a", "b"], ["c", "d", "e", "z"]], r"does not have: \['z'\]"),
        ([["a", "a"], NAMES[1:]], "overlap: column 'a'"),
        ([["a", "b"], ["b", "c", "d", "e", "f"]], "overlap: column 'b'"),
        ([2.0, 4.0], "must be a slice or a list of column names"),
        ([3, slice(3, 6)], "must be a slice or a list of column names"),
        ([True, 5], "must be a slice or a list of column names"),
        (["ab", "cdef"], "must be a slice or a list of column names"),
        ([], "blocks must be a list of widths"),
        (6, "blocks must be a list of widths"),
        ("words", "blocks must be a list of widths"),
    ],
)
def test_blocks_that_do_not_fit(blocks, words):
    with pytest.raises(ValueError, match=words):
        read_blocks(blocks, 6, NAMES)


def test_names_without_a_data_frame():
    with pytest.raises(ValueError, match="the columns of X have none"):
        read_blocks([NAMES], 6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior": "whitening", "shrinkage": 0.9}, "leave prior out"),
        ({"prior": Metric(None, 14)}, "leave prior out"),
        ({"lift": "rbf"}, "cannot be combined with a lift"),
        ({"shrinkage": 0.5}, "with shrinkage below 1"),
    ],
)
def test_options_that_do_not_go_with_blocks(options, words):
    with pytest.raises(ValueError, match=words):
        make_model(**options).fit(*make_blocks())


def test_a_prior_that_weighs_blocks():
    X, y = make_blocks()
    prior = make_model().fit(X, y).metric_
    with pytest.raises(ValueError, match="weights blocks"):
        make_model(blocks=None, prior=prior).fit(X, y)


# --- the metric ------------------------------------------------------------------------------


def make_metrics(distance):
    plain = Metric(None, 14, distance=distance, blocks=EVEN)
    factor = np.linalg.qr(np.random.default_rng(0).standard_normal((14, 3)))[0] * [3.0, 2.0, 0.1]
    if distance == "euclidean":
        with_factor = Metric(factor, blocks=EVEN), Metric(factor, blocks=EVEN, outside=0.7)
    else:
        with_factor = Metric(factor, before=plain), Metric(factor, before=plain, outside=0.7)
    return plain, *with_factor


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_transform_is_as_by_hand(distance):
    X, _ = make_blocks(20)
    X[0] = 0.0
    X[1, 3:9] = 0.0
    weighted = by_hand(X, EVEN, distance)
    plain, low, outside = make_metrics(distance)
    assert_allclose(plain.transform(X), weighted, atol=1e-12)
    assert_allclose(low.transform(X), weighted @ low.factor, atol=1e-12)
    lengths = np.linalg.norm(outside.factor, axis=0)
    U = outside.factor / lengths
    expected = 0.7 * weighted + (weighted @ U * (lengths - 0.7)) @ U.T
    assert_allclose(outside.transform(X), expected, atol=1e-12)
    for metric in (plain, low, outside):
        assert_allclose(
            metric.transform(sp.csr_matrix(X)).toarray()
            if metric is plain
            else metric.transform(sp.csr_matrix(X)),
            metric.transform(X),
            atol=1e-12,
        )
        narrow = metric.transform(X.astype(np.float32))
        assert narrow.dtype == np.float32
        assert_allclose(narrow, metric.transform(X), rtol=1e-4, atol=1e-4)
        found = metric.pairwise(X)
        rows = metric.transform(X)
        assert_allclose(found, np.linalg.norm(rows[:, None] - rows, axis=2), atol=1e-6)


def test_the_matrix_has_the_weights():
    X, _ = make_blocks(8)
    for metric in make_metrics("euclidean"):
        apart = X[:, None] - X
        squares = np.einsum("ijk,kl,ijl->ij", apart, metric.matrix(), apart)
        assert_allclose(np.sqrt(np.maximum(squares, 0)), metric.pairwise(X), atol=1e-6)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_explanations_add_up(distance):
    X, _ = make_blocks(8)
    for metric in make_metrics(distance):
        found = metric.explain(X[0], X[1], top=14)
        assert found.distance == pytest.approx(metric.distance(X[:1], X[1:2])[0])
        assert sum(part for _, part in found.parts) == pytest.approx(found.distance)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_save_and_load(distance, tmp_path):
    X, y = make_blocks()
    learned = make_model(distance=distance).fit(X, y).metric_
    for metric in (*make_metrics(distance), learned):
        metric.save(tmp_path / "m.safetensors")
        back = Metric.load(tmp_path / "m.safetensors")
        assert_array_equal(back.transform(X), metric.transform(X))
        assert_array_equal(back.first.blocks.of, metric.first.blocks.of)
        assert back.info.get("blocks") == metric.info.get("blocks")
        back.save(tmp_path / "again.safetensors")
        again = (tmp_path / "again.safetensors").read_bytes()
        assert again == (tmp_path / "m.safetensors").read_bytes()


@pytest.mark.parametrize(
    "blocks",
    [
        Blocks(np.array([0, 1]), np.ones(2)),
        Blocks(np.array([0, 1, 2]), np.ones(2)),
        Blocks(np.array([0, 0.5, 1]), np.ones(2)),
        Blocks(np.array([0, 0, 1]), np.array([1.0, -1.0])),
        Blocks(np.array([0, 0, 1]), np.array([1.0, np.nan])),
        Blocks(np.array([0, 0, 0]), np.ones((1, 1))),
        [1, 2],
    ],
)
def test_blocks_that_are_no_step_of_a_metric(blocks):
    with pytest.raises(ValueError, match="blocks"):
        Metric(None, 3, blocks=blocks)


def test_blocks_belong_to_the_first_step():
    with pytest.raises(ValueError, match="cannot be combined with before"):
        Metric(np.eye(14), before=Metric(None, 14), blocks=EVEN)


# --- exports ---------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_onnx(distance, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X = make_blocks(20)[0].astype(np.float32)
    X[0] = 0.0
    X[1, 3:9] = 0.0
    for metric in make_metrics(distance):
        to_onnx(metric, tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
        found = session.run(None, {"rows": X})[0]
        assert_allclose(found, metric.transform(X), rtol=1e-3, atol=1e-3)


def test_npy_faiss_and_torch_of_weights_alone(tmp_path):
    X = make_blocks(20)[0].astype(np.float32)
    for metric in make_metrics("euclidean"):
        to_npy(metric, tmp_path / "m.npy")
        assert_allclose(X @ np.load(tmp_path / "m.npy"), metric.transform(X), rtol=1e-4, atol=1e-4)
    torch = pytest.importorskip("torch")
    for metric in make_metrics("euclidean"):
        found = to_torch(metric)(torch.from_numpy(X).double()).detach().numpy()
        assert_allclose(found, metric.transform(X), rtol=1e-4, atol=1e-4)
    pytest.importorskip("faiss")
    index = to_faiss(metric)
    index.add(X)
    squares, _ = index.search(X[:3], 20)
    assert_allclose(np.sqrt(squares), np.sort(metric.pairwise(X[:3], X)), rtol=1e-2, atol=0.5)


@pytest.mark.parametrize("export", [to_faiss, to_torch, lambda m: to_npy(m, "x.npy")])
def test_blocks_of_length_one_are_refused_by_name(export):
    for metric in make_metrics("cosine"):
        with pytest.raises(ValueError, match="cannot scale blocks of features to length one"):
            export(metric)


# --- the report ------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_the_report_shows_the_shares(distance):
    X, y = make_blocks()
    blocks = {"<good>": 3, "noise": 6, "fair": 5}
    model = make_model(blocks=blocks, distance=distance).fit(X, y)
    share = f"{100 * model.block_weights_['<good>']:.0f}"
    assert f"&lt;good&gt; {share} %, noise " in build_report(model.metric_, X, y, title="Blocks")


# --- words beside an embedding ---------------------------------------------------------------


def test_words_beside_an_embedding():
    """Cranfield, nDCG@10 of the test queries: 0.51 for the embedding alone."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    folder = Path(os.environ.get("DUALMETRIC_DATA", "."))
    if not (folder / "cranfield_minilm.npz").exists():
        pytest.skip("needs cranfield_minilm.npz in the folder that DUALMETRIC_DATA names")
    data = np.load(folder / "cranfield_minilm.npz")
    with lzma.open(folder / "cranfield.texts.jsonl.xz", "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    texts = {(line["kind"] == "query", line["row"]): line["text"] for line in lines}
    documents, queries = ([texts[q, i] for i in range(len(data["DQ"[q]]))] for q in (False, True))
    words = TfidfVectorizer(sublinear_tf=True, dtype=np.float32).fit(documents)
    D, Q = (
        sp.hstack([words.transform(part), sp.csr_matrix(data[name].astype(np.float32))], "csr")
        for name, part in (("D", documents), ("Q", queries))
    )
    train, test = (
        Relevance(np.column_stack([data[f"{part}_{x}"] for x in ("q", "d", "grade")]), queries=Q)
        for part in ("train", "test")
    )
    blocks = {"words": len(words.vocabulary_), "embedding": 384}
    model = DuRP(blocks=blocks, distance="cosine", random_state=0).fit(D, train)
    assert 0.4 < model.block_weights_["words"] < 0.8
    assert test.score(model.metric_.before, D) > 0.575
    assert test.score(model.metric_, D) > 0.58
