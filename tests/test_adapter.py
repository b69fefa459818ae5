"""The query adapter: exact where it can be, least squares where it cannot, and its agreement."""

import os
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.metrics import ndcg_score

from dualmetric import DuOri, Metric
from dualmetric import adapter as module
from dualmetric._arrays import ops
from dualmetric.intervals import bootstrap_interval
from dualmetric.supervision import Positives
from makers import make_metric

KINDS = ("plain", "factor", "outside", "cosine", "centred", "outside cosine", "before", "whitened")


def metric_of(kind, d=6, rank=4):
    """A metric over d features."""
    rng = np.random.default_rng(5)
    factor = rng.normal(size=(d, rank))
    orthogonal = np.linalg.qr(factor)[0] * rng.uniform(0.2, 3.0, size=rank)
    centre = rng.normal(size=rank)
    first = Metric(rng.normal(size=(d, d)), centre=rng.normal(size=d), distance="cosine")
    return {
        "plain": lambda: Metric(None, d),
        "factor": lambda: Metric(factor),
        "outside": lambda: Metric(orthogonal, outside=0.7),
        "cosine": lambda: Metric(factor, distance="cosine"),
        "centred": lambda: Metric(factor, centre=centre, distance="cosine"),
        "outside cosine": lambda: Metric(orthogonal, outside=0.7, distance="cosine"),
        "before": lambda: Metric(factor, before=first),
        "whitened": lambda: Metric(orthogonal, outside=0.7, before=first),
    }[kind]()


def linear(metric):
    """The matrix by which the metric maps rows, without centres and lengths."""
    steps = [step.factor for step in metric.steps() if step.factor is not None]
    return reduce(np.matmul, steps, np.eye(metric.n_features))


@pytest.mark.parametrize("kind", KINDS)
def test_adapter_is_the_transposed_map_of_the_transformed_query(kind, rng):
    metric, Q = metric_of(kind), rng.normal(size=(7, 6))
    expected = metric.transform(Q) @ linear(metric).T
    np.testing.assert_allclose(metric.query_adapter().transform(Q), expected, atol=1e-10)
    if kind in ("plain", "factor", "outside"):
        np.testing.assert_allclose(expected, Q @ metric.matrix(), atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_where_documents_are_equally_long_after_the_map(kind, rng):
    metric, Q, D = metric_of(kind), rng.normal(size=(9, 6)), rng.normal(size=(60, 6))
    if metric.before is None:
        L, c = linear(metric), metric.centre
    else:  # the second step turns rows, and makes all of them twice as long
        metric = metric.replaced(factor=2.0 * np.linalg.qr(D[:6])[0], outside=0.0)
        L, c = metric.before.factor, metric.before.centre
    away = np.zeros(6) if c is None else np.linalg.lstsq(L.T, c, rcond=None)[0]
    D = 3.0 * D / np.linalg.norm(D @ L, axis=1, keepdims=True) + away
    squares = metric.pairwise(Q, D) ** 2
    products = metric.query_adapter().transform(Q) @ D.T
    # squared distances are one number per query minus a multiple of the products
    for one, other in zip(squares, products, strict=True):
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(-1.0, abs=1e-12)
    found = metric.query_adapter().agreement(Q, D, k=5)
    assert found.mean == 1.0
    assert found.interval == (1.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_give_the_least_squares(kind, rng):
    metric = metric_of(kind)
    Q, D = rng.normal(size=(8, 6)), rng.normal(size=(200, 6)) + 1.0
    mapped = metric.transform(D)
    penalty = module.RIDGE * ((D - D.mean(axis=0)) ** 2).sum() / 6
    squares = Ridge(alpha=penalty).fit(D, 0.5 * (mapped**2).sum(axis=1)).coef_
    adapter = metric.query_adapter(D)
    np.testing.assert_allclose(adapter.offset, squares, atol=1e-9)
    B = linear(metric)
    if "cosine" in (metric.kind, metric.first.kind):
        rest = Ridge(alpha=penalty).fit(D, mapped - D @ B / adapter.size).coef_.T
        B = B / adapter.size + rest
    expected = metric.transform(Q) @ B.T - squares
    np.testing.assert_allclose(adapter.transform(Q), expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_bring_scores_closer(kind, rng):
    metric = metric_of(kind)
    Q, D = rng.normal(size=(30, 6)), rng.normal(size=(400, 6)) + 1.0
    mapped = metric.transform(D)
    true = metric.transform(Q) @ mapped.T - 0.5 * (mapped**2).sum(axis=1)
    errors = []
    for adapter in (metric.query_adapter(), metric.query_adapter(D)):
        apart = true - adapter.transform(Q) @ D.T
        errors.append(np.mean((apart - apart.mean(axis=1, keepdims=True)) ** 2))
    assert errors[1] < errors[0]


def test_ridge_with_few_and_with_many_rows(rng):
    for X in (rng.normal(size=(40, 7)) + 2.0, rng.normal(size=(7, 40)) + 2.0):
        targets = rng.normal(size=(len(X), 3))
        penalty = module.RIDGE * ((X - X.mean(axis=0)) ** 2).sum() / X.shape[1]
        expected = Ridge(alpha=penalty).fit(X, targets).coef_.T
        for rows in (X, sp.csr_matrix(X)):
            np.testing.assert_allclose(module._ridge(rows, targets), expected, atol=1e-8)


def test_sparse_and_wide(rng):
    D, Q = (sp.random(n, 5000, 0.01, format="csr", rng=rng) for n in (60, 5))
    columns = np.linalg.qr(rng.normal(size=(5000, 3)))[0] * [3.0, 2.0, 0.5]
    metric = Metric(columns, outside=1.0)
    for documents in (None, D):
        adapter = metric.query_adapter(documents)
        dense = metric.query_adapter(None if documents is None else D.toarray())
        found = adapter.transform(Q)
        np.testing.assert_allclose(found, dense.transform(Q.toarray()), atol=1e-8)
        one = adapter.agreement(Q, D, k=5)
        other = dense.agreement(Q.toarray(), D.toarray(), k=5)
        np.testing.assert_array_equal(one.overlap, other.overlap)


def test_float32_stays(rng):
    metric = metric_of("before")
    D, Q = (rng.normal(size=(n, 6)).astype(np.float32) for n in (50, 4))
    for adapter in (metric.query_adapter(), metric.query_adapter(D)):
        assert adapter.transform(Q).dtype == np.float32


def test_agreement_by_hand():
    # the metric: plain distance on a line; the index knows only the products q·d
    D = np.array([[1.0], [2.0], [3.0], [10.0]])
    adapter = Metric(None, 1).query_adapter()
    found = adapter.agreement([[1.0], [-1.0]], D, k=2)
    # for 1 the nearest are 1 and 2 and the largest products 10 and 3; for −1 both agree
    np.testing.assert_array_equal(found.overlap, [0.0, 1.0])
    assert found.mean == 0.5
    assert found.interval == bootstrap_interval([0.0, 1.0])
    assert str(found) == "0.500 of the first documents agree (0.000 to 1.000)"
    assert adapter.agreement([[1.0]], D, k=4).mean == 1.0


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (make_metric(n_landmarks=4), "kernel lift.*no transformation of queries alone"),
        (make_metric(idf=True), "weights counts by tf-idf"),
        (Metric(None, before=make_metric(idf=True)), "weights counts by tf-idf"),
    ],
)
def test_refused_metrics(metric, words):
    with pytest.raises(ValueError, match=words):
        metric.query_adapter()


def test_errors(rng):
    metric, D = metric_of("factor"), rng.normal(size=(5, 6))
    with pytest.raises(ValueError, match="k is 6, but D has only 5 documents"):
        metric.query_adapter().agreement(D, D, k=6)
    with pytest.raises(ValueError, match="k must be a whole number"):
        metric.query_adapter().agreement(D, D, k=0)
    with pytest.raises(ValueError, match="all documents are the same"):
        metric.query_adapter(np.ones((3, 6)))
    with pytest.raises(ValueError, match="documents has 4 features"):
        metric.query_adapter(D[:, :4])
    with pytest.raises(ValueError, match="Q has 4 features"):
        metric.query_adapter().transform(D[:, :4])


def test_memory(rng, monkeypatch):
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 900)
    with pytest.raises(ValueError, match=r"least squares of 5 documents.*Pass fewer documents"):
        module._ridge(rng.normal(size=(5, 6)), rng.normal(size=(5, 9)))


def test_scifact_keeps_half_of_the_gain():
    path = Path(os.environ.get("DUALMETRIC_DATA", ".")) / "scifact_minilm.npz"
    if not path.exists():
        pytest.skip("needs scifact_minilm.npz in the folder that DUALMETRIC_DATA names")
    stored = np.load(path)
    Q, D = (ops.unit_rows(stored[name].astype(np.float32)) for name in "QD")
    clicks = np.column_stack([stored["train_q"], stored["train_d"]])[stored["train_grade"] > 0]
    model = DuOri(prior="identity", reg=1e-3, max_epochs=4, random_state=0)
    metric = model.fit(D, Positives(clicks, queries=Q)).metric_
    truth = np.zeros((len(Q), len(D)))
    truth[stored["test_q"], stored["test_d"]] = np.exp2(stored["test_grade"]) - 1
    asked = truth.any(axis=1)

    def score(similarity):
        return ndcg_score(truth[asked], similarity[asked], k=10)

    plain, full = score(Q @ D.T), score(-metric.pairwise(Q, D))
    assert plain == pytest.approx(0.645, abs=0.002)
    assert full > 0.78
    alone, corrected = (
        score(metric.query_adapter(given).transform(Q) @ D.T) for given in (None, D)
    )
    assert alone - plain > 0.5 * (full - plain)
    assert corrected - plain > 0.65 * (full - plain)
