"""A matcher in ONNX: vectors, and the probability as a second output."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualmetric import Matcher, Metric
from dualmetric.io import export
from test_matching import things

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def run(path, rows, others):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {"rows": rows.astype(np.float32), "others": others.astype(np.float32)}
    return session.run(["vectors", "probability"], given)


METRICS = {
    "plain": Metric(None, 4),
    "cosine": Metric(np.eye(4)[:, :3], distance="cosine", centre=np.array([0.1, 0.2, 0.0])),
    "outside": Metric(np.eye(4)[:, :1] * 2.0, outside=0.5),
}


@pytest.mark.parametrize("form", ["logistic", "squared", "isotonic"])
@pytest.mark.parametrize("kind", list(METRICS))
@pytest.mark.parametrize("prevalence", [None, 0.01])
def test_onnx_gives_the_same_probability(form, kind, prevalence, tmp_path):
    X, pairs = things(100)
    matcher = Matcher(METRICS[kind], form).fit(X, pairs, prevalence=prevalence)
    path = tmp_path / "m.onnx"
    export.to_onnx(matcher, path)
    rows, others = X[pairs.index.T]
    vectors, probability = run(path, rows, others)
    assert probability.shape == (len(rows), 1)
    assert_allclose(vectors, METRICS[kind].transform(rows), atol=1e-5)
    expected = matcher.predict_proba(rows, others)[:, 1]
    close = np.abs(probability.ravel() - expected) < 1e-4
    # the probability may jump where the distance is rounded
    assert close.mean() > 0.98
    if form != "isotonic":
        assert close.all()


def test_a_table_of_one_line(tmp_path):
    X, pairs = things(30)
    matcher = Matcher(Metric(None, 4), "isotonic").fit(X, pairs)
    matcher.calibration_ = matcher.calibration_._replace(table=np.array([[1.0, 0.25]]))
    export.to_onnx(matcher, tmp_path / "m.onnx")
    assert_allclose(run(tmp_path / "m.onnx", X[:5], X[5:10])[1], 0.25)


def test_a_wrong_probability_is_not_written(tmp_path, monkeypatch):
    X, pairs = things(30)
    matcher = Matcher(Metric(None, 4), "logistic").fit(X, pairs)
    monkeypatch.setattr(
        export._Graph,
        "probability",
        lambda self, distances, matcher: self.add("Sigmoid", distances, output="probability"),
    )
    with pytest.raises(RuntimeError, match="nothing was written"):
        export.to_onnx(matcher, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
