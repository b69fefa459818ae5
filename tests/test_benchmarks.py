"""The benchmarks: peers on digits, their scores and reasons, tables, and stored results."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import _common  # noqa: E402
import _peers_methods  # noqa: E402
import chooser  # noqa: E402
import peers  # noqa: E402
import peers_page  # noqa: E402
import scaling  # noqa: E402
import tables  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it forks


@pytest.fixture(scope="module")
def digits():
    return list(chooser.parts("digits", 2))


def pca(X, y, seed):
    return PCA(20, random_state=seed).fit(X).transform


def forever(X, y, seed):
    while True:
        pass


def slow_later(X, y, seed):
    return forever(X, y, seed) if seed else pca(X, y, seed)


def costly(X, y, seed):
    assert np.ones(8_000_000).sum()  # 64 MB
    while time.process_time() < 0.2:
        pass
    return lambda rows: rows[:, 20:30]


def failing(X, y, seed):
    raise ValueError("a | b")


# one method on one set


def test_scores_are_those_of_the_better_distance(digits):
    found = peers.measured(pca, digits)
    assert (found["of"], found["why"]) == (2, "")
    for (seed, (X, y, X_test, y_test)), result in zip(digits, found["splits"], strict=True):
        transform = pca(X, y, seed)
        expected = {"map": [], "knn": []}
        for unit in (False, True):
            train, test = (transform(rows).astype(np.float64) for rows in (X, X_test))
            if unit:
                train, test = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (train, test))
            close = -((test[:, None] - test) ** 2).sum(axis=2)
            others = ~np.eye(len(test), dtype=bool)
            scores = [
                average_precision_score(y_test[keep] == label, row[keep])
                for row, keep, label in zip(close, others, y_test, strict=True)
            ]
            expected["map"].append(100 * np.mean(scores))
            votes = KNeighborsClassifier(5).fit(train, y)
            expected["knn"].append(100 * votes.score(test, y_test))
        assert result["map"] == pytest.approx(max(expected["map"]), abs=0.01)
        assert result["knn"] == pytest.approx(max(expected["knn"]), abs=200 / len(y_test))


def test_a_method_over_its_time_is_stored_with_the_reason(digits):
    found = peers.measured(forever, digits, limit=1)
    assert found == {"splits": [], "of": 2, "why": "time limit of 1 CPU seconds"}


def test_splits_before_the_limit_are_kept(digits):
    found = peers.measured(slow_later, digits, limit=2)
    assert len(found["splits"]) == 1
    assert found["why"] == "time limit of 2 CPU seconds"


def test_cost_is_stored_and_no_further_split_is_started_late(digits, monkeypatch):
    monkeypatch.setattr(peers, "ENOUGH", 0)
    found = peers.measured(costly, digits)
    (result,) = found["splits"]
    assert result["cpu_seconds"] > 0.1
    assert 55 < result["memory_mb"] < 100
    assert found["why"] == "no further split after 0 CPU seconds"


def test_a_failing_method_is_stored_with_its_message(digits):
    found = peers.measured(failing, digits)
    assert found == {"splits": [], "of": 2, "why": "failed: ValueError: a | b"}


def test_a_missing_environment_is_a_reason(digits, monkeypatch, tmp_path):
    monkeypatch.setattr(_common, "ENVIRONMENTS", tmp_path)
    found = peers.measured(_peers_methods.METHODS["LMNN (mlpack)"], digits)
    assert "mlpack is not installed: python benchmarks/peers.py install" in found["why"]


def test_a_slow_peer_is_not_started_where_no_more_took_too_long(monkeypatch, tmp_path):
    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    late = {"splits": [], "of": 1, "why": "time limit of 90 CPU seconds"}
    sizes = {"rows": 71, "classes": 4, "features": 2}
    _common.store("peers", "su", {**sizes, "methods": {"NCA": late}})
    assert "time limit on su, with 71 rows" in peers.unfit("usps", "NCA", np.zeros((71, 2)), 2)
    assert peers.unfit("usps", "NCA", np.zeros((70, 2)), 5) == ""
    assert peers.unfit("usps", "NCA", np.zeros((71, 1)), 4) == ""  # fewer features
    assert peers.unfit("su", "NCA", np.zeros((71, 2)), 4) == ""  # again
    assert peers.unfit("usps", "ridge", np.zeros((72, 2)), 2) == ""


def test_only_our_methods_run_again(monkeypatch, tmp_path, digits):
    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    monkeypatch.setattr(peers, "parts", lambda name, seeds: digits)
    old = {"splits": [{"map": 1.0, "knn": 2.0}], "of": 1, "why": ""}
    sizes = {"rows": 1, "test_rows": 1, "classes": 10, "features": 64}
    _common.store("peers", "digits", sizes | {"methods": dict.fromkeys(peers.METHODS, old)})
    before = _common.records("peers")["digits"]["commit"]
    monkeypatch.setattr(peers, "measured", lambda learn, splits, limit: {"new": len(splits)})
    monkeypatch.setattr(peers, "show", lambda *_: None)
    found = peers.same_classes("digits", only_ours=True)
    assert found["peers_commit"] == before
    assert found["methods"]["ridge"] == found["methods"]["kernel SVM"] == old
    assert found["methods"]["DuRP"] == {"new": 2}
    assert found["methods"]["MetricCV map"] == {"new": 1}
    _common.store("peers", "digits", found)
    monkeypatch.setattr(_common, "commit", lambda: "later")
    _common.store("peers", "digits", peers.same_classes("digits", only_ours=True))
    assert _common.commits("peers") == f"later, {before}"


def test_all_estimators_take_part():
    from dualmetric import estimators

    # Euclidean is the plain distances of chooser.py, and QueryMetric does not learn from labels
    ours = set(estimators.__all__) - {"Euclidean", "QueryMetric", "MetricCV"}
    assert ours <= set(peers.METHODS)


def test_every_stored_set_has_scores_or_reasons():
    for part, record in _common.records("peers").items():
        if part in peers.SETS:
            assert set(record["results"]["methods"]) == set(peers.METHODS)
        for result in record["results"].get("methods", {}).values():
            assert result["why"] or len(result["splits"]) == result["of"]


@pytest.mark.parametrize("classes", [False, True])
def test_held_out_parts(classes):
    y = np.repeat(np.arange(12), [2] + [8] * 11)
    held = _peers_methods.held_out_part(y, 0, classes)
    kept, validated = set(y[~held]), set(y[held])
    if classes:
        assert not kept & validated
        assert len(validated) == 3
    else:
        assert kept == validated == set(y)
        assert np.bincount(y[held]).tolist() == [1] + [2] * 11


def test_made_rows_have_the_sizes_that_are_asked_for():
    X, y = peers.made_rows(300, 20)
    assert X.shape == (300, 20)
    assert len(np.unique(y)) == 10
    X, _ = peers.made_rows(300, 5000, 20)
    assert X.shape == (300, 5000)
    assert 0.9 * 20 < X.nnz / 300 <= 20
    assert peers_page.exponent([[10, 1.0], [1000, 100.0]]) == pytest.approx(1.0)


# the page


def test_outputs_are_also_scored_around_their_mean(rng):
    # two classes in opposite directions from a centre that is far from the origin
    y = np.arange(40) % 2
    Z = 100.0 + np.where(y[:, None] == 0, [0.0, 1.0], [0.0, -1.0]) * rng.uniform(0.5, 9, (40, 1))
    centred = chooser.unit(Z - Z.mean(axis=0))
    best = chooser.judge(centred, y, centred, y)["map"]
    assert best == pytest.approx(100)
    assert chooser.judge(chooser.unit(Z), y, chooser.unit(Z), y)["map"] < 99
    assert chooser.views(Z, y, Z, y)["map"] == pytest.approx(best)


def test_a_lead_is_bold_only_beyond_its_interval():
    # gains 1, 2, 3: standard error 1/√3, and t of two degrees of freedom is 4.303
    assert peers_page.lead([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], overlap=0) == "+2.0 ± 2.5"
    assert peers_page.lead([12.0, 14.0, 16.0], [1.0, 2.0, 3.0], overlap=0) == "**+12.0** ± 2.5"
    assert peers_page.lead([1.0, 2.0, 3.0], [12.0, 14.0, 16.0], overlap=0) == "**−12.0** ± 2.5"
    # random splits of 70 and 30 %: 4.303 · √(1/3 + 3/7)
    assert peers_page.lead([1.0, 2.0, 3.0], [12.0, 14.0, 16.0]) == "**−12.0** ± 3.8"


def test_ties_are_ties():
    assert peers_page.lead([50.0, 60.0], [50.0, 60.0]) == "0.0 ± 0.0"
    assert peers_page.lead([50.01, 60.01], [50.0, 60.0]) == "0.0 ± 0.0"


def test_one_split_has_no_interval():
    assert peers_page.lead([90.0], [50.0]) == "+40.0 (one split)"
    assert peers_page.lead([90.0, 91.0], [50.0]) == "+40.0 (one split)"  # a peer that was stopped
    assert peers_page.lead([90.0], []) == "not measured yet"
    assert peers_page.spread([90.0]) == "90.0"
    assert peers_page.spread([1.0, 2.0, 3.0]) == "2.0 ± 0.6"


def test_page_of_a_set(monkeypatch, tmp_path):
    monkeypatch.setattr(_common, "RESULTS", tmp_path)

    def result(scores, why=""):
        cost = {"cpu_seconds": 1.25, "memory_mb": 10.4}
        return {"splits": [{"map": s, "knn": s + 1} | cost for s in scores], "of": 3, "why": why}

    methods = {name: result([], "failed: a | b") for name in peers.METHODS}
    methods |= {
        "ridge": result([60.0, 62.0, 64.0]),
        "NCA": result([63.0], "no further split after 8 CPU seconds"),
        "kernel SVM": result([80.0, 82.0, 84.0]),
        "MetricCV map": result([1.0]),  # its cost: scores are those of chooser.py
    }
    sizes = {"rows": 1000, "test_rows": 10, "features": 3, "classes": 2}
    _common.store("peers", "digits", {**sizes, "methods": methods})
    assert "MetricCV map" not in peers_page.scores_of("digits", "map")
    ours = {"map": [79.0, 82.0, 85.0], "knn": [80.0, 83.0, 86.0]}
    scores = {"plain cosine": ours, "MetricCV map": ours, "MetricCV knn": ours, "ridge": ours}
    _common.store("chooser", "scores digits", {"scores": scores, "chosen": []})
    text = peers_page.one_set("digits")
    assert "| ridge | 62.0 ± 1.2 | 63.0 ± 1.2 | 3 | 1.25 | 10 |  |" in text
    assert "| NCA | 63.0 | 64.0 | 1 | 1.25 | 10 | no further split after 8 CPU seconds |" in text
    assert "| ● DuRP | – | – | 0 | – | – | failed: a \\| b |" in text
    assert "| ● MetricCV map | 82.0 ± 1.7 | 83.0 ± 1.7 | 3 | 1.25 | 10 |  |" in text
    assert all(f"| {name} |" in text.replace("● ", "") for name in peers.METHODS)
    line = next(x for x in peers_page.glance("map", "mAP %").splitlines() if "digits" in x)
    # one split of NCA is no reason to take it for the best peer
    assert "| 62.0 ± 1.2 (ridge) | 82.0 ± 1.2 (kernel SVM) | 82.0 ± 1.7 |" in line
    assert "| **+20.0** ± 3.8 | 0.0 ± 3.8 |" in line
    made = _common.records("peers")["digits"]["commit"]
    assert f"`peers.jsonl` ({made})" in text
    monkeypatch.setattr(_common, "measured_code", lambda experiment, part: "other")
    assert f"`peers.jsonl` ({made}†)" in peers_page.one_set("digits")


# other benchmarks


def test_parts_of_an_experiment_are_stored_in_one_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    _common.store("made", "one", {"seconds": 1.0})
    _common.store("made", "two", {"seconds": 2.0}, device={"name": "some GPU"})
    _common.store("made", "one", {"seconds": 3.0})  # replaces the first
    assert _common.results("made", "one") == {"seconds": 3.0}
    found = _common.records("made")
    assert list(found) == ["one", "two"]
    assert found["two"]["environment"]["device"] == {"name": "some GPU"}
    assert found["two"]["environment"]["numpy"] == np.__version__
    assert _common.records("another") == {}


def test_every_stored_line_says_what_it_is():
    for path in _common.RESULTS.glob("*.jsonl"):
        for record in _common.records(path.stem).values():
            assert set(record) == {"part", "commit", "code", "environment", "results"}
            assert "/home/" not in json.dumps(record)


def test_pages_are_made_from_the_stored_results():
    assert tables.section() in (ROOT / "README.md").read_text(encoding="utf-8")
    assert scaling.section() in (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert peers_page.section() in peers_page.PAGE.read_text(encoding="utf-8")


def test_two_versions_are_compared():
    command = [sys.executable, str(ROOT / "benchmarks" / "compare.py"), str(ROOT), str(ROOT)]
    command += ["dense", "ranking", "--repeats", "1", "--size", "0.03"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ratios = re.findall(r"^  (\S.*?)  .* (\d+\.\d+) \(", output, re.MULTILINE)
    found = {name: float(ratio) for name, ratio in ratios}
    assert {"whole fit, s", "sampling, s", "solving, s", "recovery, s"} < set(found)
    assert found["mean distance"] == found["mAP"] == 1.0


def test_what_is_not_a_checkout_is_refused(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "compare.py"), str(ROOT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not a checkout" in done.stderr
