"""Files that hold a metric and a matcher."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save as as_bytes

from dualmetric import Matcher, Metric
from test_matching import things

FORMAT = Path(__file__).parents[1] / "docs" / "file-format.md"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X, pairs = things(80)
    path = tmp_path_factory.mktemp("files") / "m.safetensors"
    groups = np.r_[:80, :80]
    matcher = Matcher(Metric(np.eye(4)[:, :3], info={"method": "none"}), "isotonic")
    matcher.fit(X, pairs, groups=groups, prevalence=0.1).save(path)
    return path, matcher, X, pairs


def test_round_trip(saved):
    path, matcher, X, pairs = saved
    again = Matcher.load(path)
    assert_array_equal(again.predict_proba(X[:9], X[80:89]), matcher.predict_proba(X[:9], X[80:89]))
    assert again.threshold(recall=0.8) == matcher.threshold(recall=0.8)
    assert again.threshold(precision=0.5) == matcher.threshold(precision=0.5)
    assert again.metric_.info["method"] == "none"
    with pytest.raises(ValueError, match="80 of 80 entities"):
        again.evaluate(X, pairs, groups=np.r_[:80, :80])
    again.save(path)
    assert Matcher.load(path).review_band(precision=0.5, recall=0.8) == matcher.review_band(
        precision=0.5, recall=0.8
    )


def test_the_metric_alone_is_read_from_the_same_file(saved):
    path, matcher, X, _ = saved
    metric = Metric.load(path)
    assert_array_equal(metric.transform(X), matcher.metric_.transform(X))


def test_a_file_without_a_matcher_is_named(tmp_path):
    Metric(None, 3).save(tmp_path / "plain")
    with safe_open(tmp_path / "plain", "numpy") as file:
        assert json.loads(file.metadata()["dualmetric"])["version"] == 1
    with pytest.raises(ValueError, match="plain holds a metric without a matcher"):
        Matcher.load(tmp_path / "plain")


@pytest.mark.parametrize("form", ["logistic", "squared", "isotonic"])
@pytest.mark.parametrize("prevalence", [None, 0.02])
def test_the_documented_reader_gives_the_probability(form, prevalence, tmp_path):
    if not FORMAT.exists():
        pytest.skip("the documentation is not here: it is no part of a source package")
    found = {}
    text = FORMAT.read_text(encoding="utf-8")
    exec(text.rpartition("```python\n")[2].partition("```")[0], found)
    X, pairs = things(60)
    matcher = Matcher(Metric(None, 4), form).fit(X, pairs, prevalence=prevalence)
    matcher.save(tmp_path / "m")
    description, tensors = found["read_metric"](tmp_path / "m")
    a, b = (found["transform"](rows, description, tensors) for rows in (X[:60], X[60:]))
    apart = np.linalg.norm(a - b, axis=1)
    expected = matcher.predict_proba(X[:60], X[60:])[:, 1]
    assert_allclose(found["probability"](apart, description, tensors), expected, rtol=1e-9)


def changed(path, **changes):
    """The bytes of a file with other tensors, or with other fields of its matcher."""
    with safe_open(path, "numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["dualmetric"])
    for name, value in changes.items():
        if name in ("form", "prevalence", "groups"):
            header["match"][name] = value
        elif name in ("match", "version"):
            header[name] = value
        elif value is None:
            del tensors[f"match.{name}"]
        else:
            tensors[f"match.{name}"] = value(tensors[f"match.{name}"].copy())
    header = {key: value for key, value in header.items() if value != "absent"}
    return as_bytes(tensors, {"dualmetric": json.dumps(header)})


def with_entry(place, value):
    def change(array):
        array[place] = value
        return array

    return change


DAMAGED = {
    "unknown form": {"form": "spline"},
    "form is a list": {"form": ["logistic"]},
    "prevalence 0": {"prevalence": 0.0},
    "prevalence is text": {"prevalence": "0.1"},
    "groups are missing": {"groups": None},
    "match is a number": {"match": 3},
    "match is not described": {"match": "absent"},
    "no table": {"table": None},
    "no labels": {"same": None},
    "too few labels": {"same": lambda a: a[:-1]},
    "one label": {"same": np.ones_like},
    "half a label": {"same": with_entry(0, 0.5)},
    "distances not sorted": {"distances": lambda a: a[::-1].copy()},
    "distance below zero": {"distances": with_entry(0, -1.0)},
    "distance is NaN": {"distances": with_entry(3, np.nan)},
    "entities in one column": {"entities": lambda a: a[:, :1].copy()},
    "half an entity": {"entities": with_entry((0, 0), 0.5)},
    "huge entity": {"entities": with_entry((0, 0), 1e300)},
    "rising probability": {"table": lambda a: np.column_stack([a[:, 0], a[::-1, 1]])},
    "probability 1": {"table": with_entry((0, 1), 1.0)},
    "table of three columns": {"table": lambda a: np.ones((3, 3))},
    "integer table": {"table": lambda a: np.ones((1, 2), dtype=int)},
    "logistic with many rows": {"form": "logistic"},
    "older version": {"version": 5},
}


@pytest.mark.parametrize("kind", list(DAMAGED))
def test_damaged_files_are_refused_in_one_line(kind, saved, tmp_path):
    bad = tmp_path / "bad"
    bad.write_bytes(changed(saved[0], **DAMAGED[kind]))
    for load in (Matcher.load, Metric.load):
        with pytest.raises(ValueError, match=r"bad is damaged: ") as caught:
            load(bad)
        assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_is_refused(saved, tmp_path):
    content = saved[0].read_bytes()
    for stop in range(0, len(content), len(content) // 40):
        (tmp_path / "cut").write_bytes(content[:stop])
        with pytest.raises(ValueError, match="cut"):
            Matcher.load(tmp_path / "cut")
