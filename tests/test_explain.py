"""Explanations: parts that add up to the distance, and the features behind a direction."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

import makers
from dualmetric import Metric, _explain

D, RANK = 6, 3
CASES = [
    "euclidean",
    "euclidean identity",
    "cosine",
    "cosine, centred",
    "cosine identity, centred",
]


def make_metric(case, **options):
    rank = None if "identity" in case else RANK
    return makers.make_metric(case.replace(" identity", ""), rank=rank, d=D, **options)


def make_rows(dtype=np.float64, seed=1):
    X = np.random.default_rng(seed).standard_normal((2, D))
    X[:, 1] = 0.0  # in neither
    X[0, 2] = X[1, 3] = 0.0  # in one
    return X.astype(dtype)


def total(explanation):
    return sum(value for _, value in explanation.parts) + explanation.rest


def parts_by_formula(metric, a, b):
    """Slow twin: the derivative of the distance along each feature's share of the difference."""
    L = np.eye(D) if metric.factor is None else metric.factor.astype(np.float64)
    c = np.zeros(L.shape[1]) if metric.centre is None else metric.centre
    a, b = a.astype(np.float64), b.astype(np.float64)
    if metric.kind == "euclidean":
        scale_a = scale_b = 1.0
    else:
        scale_a, scale_b = 1 / np.linalg.norm(a @ L - c), 1 / np.linalg.norm(b @ L - c)
    u, v = scale_a * (a @ L - c), scale_b * (b @ L - c)
    towards = (u - v) / np.linalg.norm(u - v)
    parts = {
        f"feature {f}": (scale_a * a[f] - scale_b * b[f]) * float(L[f] @ towards) for f in range(D)
    }
    parts["(centre)"] = float(-(scale_a - scale_b) * c @ towards)
    return {name: value for name, value in parts.items() if value != 0}


# --- explain ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("top", [1, 3, 100])
def test_parts_add_up_to_the_distance(case, dtype, top):
    metric, X = make_metric(case, dtype=dtype), make_rows(dtype)
    found = metric.explain(X[0], X[1], top=top)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert_allclose(found.distance, metric.distance(X[:1], X[1:])[0], rtol=tolerance)
    assert_allclose(total(found), found.distance, rtol=1e-12)
    expected = parts_by_formula(metric, X[0], X[1])
    named = dict(found.parts)
    assert len(named) == min(top, len(expected))
    for name, value in named.items():
        assert_allclose(value, expected[name], rtol=tolerance, atol=tolerance)
    sizes = [abs(value) for _, value in found.parts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= max((abs(v) for k, v in expected.items() if k not in named), default=0.0)
    assert "feature 1" not in named
    if top == 100:
        assert found.rest == 0.0
        assert ("(centre)" in named) == ("centred" in case)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_kind_of_row_gives_the_same(case, dtype):
    metric, X = make_metric(case, dtype=dtype), make_rows(dtype)
    expected = metric.explain(X[0], X[1])
    kinds = [
        lambda x: x[None],
        lambda x: x[None].tolist(),
        lambda x: x.tolist(),
        lambda x: sp.csr_array(x[None]),
        lambda x: sp.csr_matrix(x[None]),
        lambda x: sp.csc_array(x[None]),
        lambda x: sp.coo_array(x),  # one-dimensional
        lambda x: pd.Series(x),
        lambda x: np.asfortranarray(np.stack([x, x]))[1],
    ]
    for kind in kinds:
        assert metric.explain(kind(X[0]), kind(X[1])) == expected
    assert metric.explain(kinds[3](X[0]), X[1]) == expected


@pytest.mark.parametrize("case", CASES)
@given(
    rows=arrays(np.float64, (2, D), elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3))),
    top=st.integers(1, 8),
)
def test_parts_of_any_rows_add_up(case, rows, top):
    metric = make_metric(case)
    found = metric.explain(*rows, top=top)
    size = sum(abs(value) for _, value in metric.explain(*rows, top=D + 1).parts)
    assert_allclose(total(found), found.distance, atol=1e-12 * max(size, 1.0))
    assert_allclose(found.distance, metric.distance(*rows[:, None])[0], atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_exchanging_the_rows_changes_nothing(case):
    metric, (a, b) = make_metric(case), make_rows()
    there, back = metric.explain(a, b), metric.explain(b, a)
    assert [name for name, _ in there.parts] == [name for name, _ in back.parts]
    assert_allclose([v for _, v in there.parts], [v for _, v in back.parts], rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_row_and_itself(case):
    row = make_rows()[0]
    assert make_metric(case).explain(row, row) == (0.0, [], 0.0)


@pytest.mark.parametrize("identity", [False, True])
def test_cosine_with_a_row_of_zeros(identity):
    metric = make_metric("cosine identity" if identity else "cosine")
    row, nothing = make_rows()[0], np.zeros(D)
    found = metric.explain(row, nothing)
    assert_allclose([found.distance, total(found)], 1.0, rtol=1e-12)
    assert metric.explain(nothing, sp.csr_array((1, D))) == (0.0, [], 0.0)


def test_cosine_with_a_row_at_the_centre():
    metric = Metric(np.eye(2), centre=[1.0, 2.0], distance="cosine")
    found = metric.explain([1.0, 2.0], [4.0, 6.0])
    assert_allclose([found.distance, total(found)], 1.0, rtol=1e-12)


def test_cosine_does_not_depend_on_the_lengths_of_rows():
    metric, (a, b) = make_metric("cosine"), make_rows()
    expected, found = metric.explain(a, b), metric.explain(1e200 * a, 1e-200 * b)
    assert [name for name, _ in found.parts] == [name for name, _ in expected.parts]
    assert_allclose([v for _, v in found.parts], [v for _, v in expected.parts], rtol=1e-10)


def test_parts_worked_out_by_hand():
    """M = [[9, 12], [12, 16]] and δ = (1, −½): Lᵀδ = 1, so the parts are 1·3·1 and −½·4·1."""
    found = Metric([[3.0], [4.0]]).explain([1.0, 0.0], [0.0, 0.5])
    assert found == (1.0, [("feature 0", 3.0), ("feature 1", -2.0)], 0.0)
    assert Metric([[3.0], [4.0]]).explain([1.0, 0.0], [0.0, 0.5], top=1).rest == -2.0


def test_rows_of_the_factor_are_taken_in_blocks(monkeypatch):
    X = make_rows()
    expected = [make_metric(case).explain(X[0], X[1]) for case in CASES]
    monkeypatch.setattr(_explain, "_BLOCK", 2 * RANK)
    for case, one in zip(CASES, expected, strict=True):
        found = make_metric(case).explain(X[0], X[1])
        assert_allclose([v for _, v in found.parts], [v for _, v in one.parts], rtol=1e-12)


def test_very_many_features():
    """A dense 200,000 × 200,000 array would need 320 GB."""
    d = 200_000
    metric = Metric(np.random.default_rng(0).standard_normal((d, 4)).astype(np.float32))
    a = sp.random_array((1, d), density=1e-3, format="csr", rng=np.random.default_rng(1))
    b = sp.random_array((1, d), density=1e-3, format="csr", rng=np.random.default_rng(2))
    found = metric.explain(a, b)
    assert len(found.parts) == 10
    assert_allclose(total(found), found.distance, rtol=1e-12)
    assert_allclose(found.distance, metric.distance(a, b)[0], rtol=1e-10)


@pytest.mark.parametrize("names", [list, tuple, np.array, pd.Index, lambda x: pd.Series(x, x)])
def test_names(names):
    given_names, own = list("uvwxyz"), tuple("abcdef")
    row = np.zeros(D)
    row[4] = 1.0
    metric = make_metric("euclidean")
    assert metric.explain(row, 0 * row).parts[0][0] == "feature 4"
    assert metric.explain(row, 0 * row, names(given_names)).parts[0][0] == "y"
    metric = make_metric("euclidean", names=own)
    assert metric.explain(row, 0 * row).parts[0][0] == "e"
    name = metric.explain(row, 0 * row, names(given_names)).parts[0][0]
    assert (name, type(name)) == ("y", str)


def test_ties_keep_the_order_of_the_features():
    found = Metric(None, 4).explain([1.0, -1.0, 1.0, -1.0], [0.0] * 4, top=3)
    assert [name for name, _ in found.parts] == ["feature 0", "feature 1", "feature 2"]
    assert found.rest == 0.5


ROW = np.ones(D)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": np.ones((2, D))}, "a must be a single row; got 2 rows"),
        ({"b": sp.csr_array((3, D))}, "b must be a single row; got 3 rows"),
        ({"a": np.ones(D - 1)}, "a has 5 features, but this metric is expecting 6"),
        ({"b": np.full(D, np.nan)}, "Input b contains NaN"),
        ({"a": 1.0}, "Expected 2D array"),
        ({"a": np.ones((1, 1, D))}, "dim 3"),
        ({"a": ["x"] * D}, "could not convert string"),
        ({"a": np.ma.masked_array(ROW, mask=np.arange(D) == 1)}, r"a\.filled\(0\)"),
        ({"feature_names": ["a"]}, "feature_names has 1 names for 6 features"),
        ({"top": 0}, "top must be a whole number of at least 1; got 0"),
        ({"top": 2.5}, r"top must be a whole number of at least 1; got 2\.5"),
        ({"a": ROW * 1e308, "b": ROW * -1e308}, "too large for this metric"),
    ],
)
@pytest.mark.parametrize("case", ["euclidean", "euclidean identity"])
def test_bad_arguments(case, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_metric(case).explain(**{"a": ROW, "b": 0 * ROW, **arguments})


# --- the table --------------------------------------------------------------------------------


def test_table():
    metric = Metric([[3.0], [4.0], [0.125]], feature_names=["width", "height", "tab\there"])
    text = str(metric.explain([10.0, -1.0, 2.0], [0.0] * 3))
    assert text.splitlines() == [
        " 26.25  distance",
        "+30.00  width",
        " -4.00  height",
        " +0.25  'tab\\there'",
    ]
    text = str(metric.explain([10.0, -1.0, 2.0], [0.0] * 3, top=1))
    assert text == " 26.25  distance\n+30.00  width\n -3.75  (all others)"


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-30, 1e-5, 1.0, 1e5, 1e30, 1e200])
def test_table_of_any_size_is_aligned(scale):
    found = Metric(None, D).explain(scale * make_rows()[0], np.zeros(D))
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.parts)
    assert len({line.index("  ", 1) for line in lines}) == 1
    assert max(map(len, lines)) < 40


# --- top_features -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_features(dtype):
    factor = np.array([[1.0, 0.0], [-3.0, 0.5], [2.0, 0.0], [0.0, -0.25]], dtype=dtype)
    metric = Metric(factor, feature_names=["a", "b", "c", "d"])
    assert metric.top_features(0) == [("b", -3.0), ("c", 2.0), ("a", 1.0)]
    assert metric.top_features(0, top=2) == [("b", -3.0), ("c", 2.0)]
    assert metric.top_features(np.int64(1)) == [("b", 0.5), ("d", -0.25)]
    assert metric.top_features(1, ["q", "r", "s", "t"], 1) == [("r", 0.5)]
    assert Metric(factor).top_features(1, top=1) == [("feature 1", 0.5)]
    assert all(type(weight) is float for _, weight in metric.top_features(0))


@pytest.mark.parametrize("component", [-1, 3, 100, 0.5, "0", None])
def test_component_that_is_not_there(component):
    with pytest.raises(ValueError, match=r"no component .*: this metric has 3, .* from 0 to 2"):
        make_metric("euclidean").top_features(component)


def test_top_features_of_the_identity():
    for case in ("euclidean identity", "cosine identity, centred"):
        with pytest.raises(ValueError, match="identity, which has no directions"):
            make_metric(case).top_features(0)


def test_top_features_with_bad_arguments():
    with pytest.raises(ValueError, match="feature_names has 2 names for 6 features"):
        make_metric("euclidean").top_features(0, ["a", "b"])
    with pytest.raises(ValueError, match="top must be a whole number"):
        make_metric("euclidean").top_features(0, top=-1)


# --- the plain distance outside, and one metric after another ---------------------------------


def make_corrected(distance, outside, before=None):
    height = D if before is None else before.rank
    columns = np.linalg.qr(np.random.default_rng(0).standard_normal((height, 2)))[0]
    return Metric(columns * [3.0, 0.25], distance=distance, outside=outside, before=before)


def root_of(metric):
    """M^½ of a metric without a step before it."""
    values, vectors = np.linalg.eigh(metric.matrix())
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_parts_of_a_metric_with_outside(distance):
    metric = make_corrected(distance, 0.5)
    a, b = make_rows()
    explanation = metric.explain(a, b, top=D)
    assert explanation.distance == pytest.approx(metric.distance(a[None], b[None])[0])
    assert total(explanation) == pytest.approx(explanation.distance)
    written_out = Metric(root_of(metric), distance=distance)
    expected = parts_by_formula(written_out, a, b)
    assert dict(explanation.parts) == pytest.approx(expected)


@pytest.mark.parametrize("outside", [0.0, 0.5])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_parts_after_a_linear_metric(distance, outside):
    before = make_metric("euclidean")
    metric = make_corrected(distance, outside, before)
    a, b = make_rows()
    explanation = metric.explain(a, b, top=D)
    assert explanation.distance == pytest.approx(metric.distance(a[None], b[None])[0])
    assert total(explanation) == pytest.approx(explanation.distance)
    second = Metric(metric.factor, outside=outside)
    factor = before.factor @ (root_of(second) if outside else second.factor)
    expected = parts_by_formula(Metric(factor, distance=distance), a, b)
    assert dict(explanation.parts) == pytest.approx(expected)


@pytest.mark.parametrize("outside", [0.0, 0.5])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("case", [*CASES, "outside", "outside, cosine"])
def test_parts_after_another_metric_add_up(case, distance, outside):
    if case.startswith("outside"):
        first = make_corrected("cosine" if "cosine" in case else "euclidean", 0.7)
    else:
        first = make_metric(case)
    metric = make_corrected(distance, outside, first)
    a, b = make_rows()
    explanation = metric.explain(a, b, top=D + 1)
    assert explanation.distance == pytest.approx(metric.distance(a[None], b[None])[0])
    assert total(explanation) == pytest.approx(explanation.distance)


def test_parts_after_a_lift_are_refused():
    lifted = makers.make_metric(d=D, rank=RANK, n_landmarks=4)
    metric = make_corrected("euclidean", 0.0, lifted)
    with pytest.raises(
        ValueError, match="uses a kernel lift, so its distances cannot be split by feature"
    ):
        metric.explain(*make_rows())
