"""The benchmark beside the peers: its runner on digits, its scores, its tables."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from dualmetric import DuRP, MetricCV
from makers import make_classes

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import _common  # noqa: E402
from benchmarks.peers import (  # noqa: E402
    __main__,
    datasets,
    environments,
    machine,
    objectives,
    report,
    runner,
    scoring,
    store,
    summary,
    targets,
    worker,
)
from benchmarks.peers.solvers import all_solvers, find_solver  # noqa: E402

DIGITS = ["run", "--dataset", "digits", "--objective", "same_classes", "--threads", "1"]


def run(results, *more):
    __main__.main([*DIGITS, "--results", str(results), *more])
    return list(store.read(results).values())


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    results = tmp_path_factory.mktemp("bench") / "peers.jsonl"
    records = run(results, "--solver", "PCA", "--solver", "DuRP")
    return results, {record["solver"]: record for record in records}


def test_runs_are_recorded(two_runs):
    _, records = two_runs
    assert set(records) == {"PCA", "DuRP"}
    for record in records.values():
        assert record["status"] == "ok"
        assert record["rows"] == 1198
        assert record["threads"] == 1
        assert record["fit_seconds"] > 0
        assert record["fit_cpu_seconds"] > 0
        assert record["fit_peak_mb"] > record["input_mb"]
        assert record["machine"]["processor"]
        assert "node" not in record["machine"]
    assert records["DuRP"]["ours"]
    assert "dualmetric" in records["DuRP"]["versions"]


def test_scores_are_those_of_the_transformation(two_runs):
    _, records = two_runs
    data = datasets.load("digits")
    model = PCA(50, random_state=0).fit(data.X)
    train, test = (model.transform(X).astype(np.float64) for X in (data.X, data.X_test))
    distances = np.linalg.norm(test[:, None] - test, axis=2)
    order = np.argsort(distances, axis=1)[:, 1:]  # the first is the query
    relevant = data.y_test[order] == data.y_test[:, None]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, len(test))
    oracle = ((precision * relevant).sum(axis=1) / relevant.sum(axis=1)).mean()
    found = records["PCA"]["scores"]["euclidean"]
    assert found["map"] == pytest.approx(oracle, abs=1e-4)
    knn = KNeighborsClassifier(5).fit(train, data.y).score(test, data.y_test)
    assert found["knn"] == pytest.approx(knn, abs=2 / len(test))


def test_what_is_stored_is_not_run_again(two_runs, capsys):
    results, _ = two_runs
    before = results.read_bytes()
    run(results, "--solver", "PCA", "--solver", "DuRP")
    assert results.read_bytes() == before
    assert "0 runs made" in capsys.readouterr().out


def test_a_run_that_takes_too_long_is_stopped_and_recorded(tmp_path):
    (record,) = run(tmp_path / "r.jsonl", "--solver", "PCA", "--limit", "0.05")
    assert record["status"] == "timeout"
    assert "0.05 s" in record["message"]


def test_a_missing_environment_is_recorded_and_tried_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    for _ in range(2):
        (record,) = run(tmp_path / "r.jsonl", "--solver", "torch adapter")
        assert record["status"] == "missing"
        assert "install" in record["message"]
        assert "1 runs made" in capsys.readouterr().out


def test_a_failure_is_recorded_with_its_message(tmp_path, monkeypatch):
    failing = runner.Run("same_classes", "digits", {}, {"loss": "no"}, find_solver("PCA"), 0)
    monkeypatch.setattr(runner, "plan", lambda choice: [failing])
    (record,) = run(tmp_path / "r.jsonl")
    assert record["status"] == "failed"
    assert "loss" in record["message"]


def test_names_of_solvers_differ_and_ours_are_all_there():
    from dualmetric import estimators

    names = [solver.name for solver in all_solvers()]
    assert len(set(names)) == len(names)
    # Euclidean is "plain rows", and QueryMetric does not learn from labels
    ours = set(estimators.__all__) - {"Euclidean", "QueryMetric"}
    assert ours <= {solver.name for solver in all_solvers() if solver.ours}


def test_nothing_matches():
    with pytest.raises(SystemExit, match="nothing matches"):
        runner.run_all(runner.Choice(datasets=("nothing",)))


# scores


def test_better_distance():
    # classes are directions, at lengths that mislead the Euclidean distance
    rows = np.array([[1.0, 0.1], [10.0, 0.0], [0.1, 1.0], [0.0, 10.0]])
    y = np.array([0, 0, 1, 1])
    found = scoring.score(np.repeat(rows, 5, axis=0), np.repeat(y, 5), rows, y)
    assert found["cosine"]["map"] == 1.0
    assert found["euclidean"]["map"] < 1.0
    assert scoring.best(found, "map") == (1.0, "cosine")


def test_the_centre_is_that_of_the_gallery():
    gallery, queries = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 5.0], [7.0, 0.0]])
    _, seen = scoring.views(gallery, queries)["centred cosine"]
    np.testing.assert_allclose(seen, [[0.0, 1.0], [1.0, 0.0]])


def test_rows_that_are_not_numbers_are_refused():
    rows = np.array([[0.0], [np.nan]])
    with pytest.raises(ValueError, match="NaN"):
        scoring.score(rows, np.array([0, 0]), rows, np.array([0, 0]))


# problems


def test_unseen_classes_have_no_part_in_learning():
    data = datasets.load("digits")
    problem = objectives.ALL["unseen_classes"].problem(data, seed=0)
    assert len(np.unique(problem.y)) == 5
    assert not set(problem.y) & set(problem.y_queries)
    assert set(problem.y_gallery) == set(problem.y_queries)
    other = objectives.ALL["unseen_classes"].problem(data, seed=1)
    assert set(other.y) != set(problem.y)


def test_few_labels():
    data = datasets.load("digits")
    problem = objectives.ALL["few_labels"].problem(data, seed=0, per_class=5)
    assert np.bincount(problem.y).tolist() == [5] * 10
    assert problem.queries is data.X_test


def test_made_data_has_the_sizes_of_its_name():
    dense = datasets.load("made_dense_n300_d20")
    assert dense.X.shape == (300, 20)
    sparse = datasets.load("made_sparse_n300_d5000_z20")
    assert sparse.X.shape == (300, 5000)
    assert 0.9 * 20 < sparse.X.nnz / 300 <= 20
    with pytest.raises(ValueError, match="no data set"):
        datasets.load("unknown")


def test_growth_covers_two_decades():
    sizes = {}
    for _, variant, _ in objectives.ALL["growth"].cases():
        sizes.setdefault(variant["axis"], []).append(variant["size"])
    assert all(max(found) >= 99 * min(found) for found in sizes.values())


# storing


def made_record(solver="LDA", dataset="usps", **more):
    score = {"map": more.pop("map", 0.5), "knn": more.pop("knn", 0.9)}
    return {
        "objective": "same_classes",
        "dataset": dataset,
        "variant": {},
        "solver": solver,
        "seed": 0,
        "status": "ok",
        "scores": {"euclidean": score},
        "fit_seconds": 1.0,
        "fit_cpu_seconds": 2.0,
        "fit_peak_mb": 110.0,
        "before_fit_mb": 100.0,
        "input_mb": 50.0,
        "rows": 2000,
        "queries": 10,
        "features": 3,
        "classes": 2,
        "sparse": False,
        "ours": solver.startswith(("DuRP", "MetricCV")),
        "linear": True,
        "compares": solver == "NCA",
        "busy": False,
        "date": "2000-01-01",
        "machine": machine.describe(),
        "threads": 1,
        "versions": {"python": "3", "numpy": "2"},
        **more,
    }


def test_a_line_that_was_cut_short_is_left_out_and_overwritten(tmp_path):
    path = tmp_path / "r.jsonl"
    store.append(made_record("A"), path)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"objective": "sa')
    assert [record["solver"] for record in store.read(path).values()] == ["A"]
    store.append(made_record("B"), path)
    assert [json.loads(line)["solver"] for line in path.read_text().splitlines()] == ["A", "B"]


def test_damage_elsewhere_is_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("nonsense\n{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        store.read(path)


def test_the_newest_line_counts(tmp_path):
    path = tmp_path / "r.jsonl"
    for value in (0.1, 0.7):
        store.append(made_record(map=value), path)
    ((result,),) = summary.results(path).values()
    assert result.map == pytest.approx(70.0)


def test_facts_are_those_of_the_learner():
    X, y = make_classes(60, 4, shift=2.0)
    model = DuRP(n_triplets=100, random_state=0).fit(X, y)
    assert set(worker.facts(model.transform)["parts"]) == set(model.timings_)
    search = MetricCV(n_triplets=100, random_state=0).fit(X, y)
    found = worker.facts(search.transform)
    assert found["settings"] == len(search.cv_results_["params"])
    assert found["chosen"] == search.best_params_
    assert worker.facts(lambda rows: rows) == {}


# tables


@pytest.fixture
def made_results(tmp_path):
    path = tmp_path / "r.jsonl"
    records = [
        made_record("plain rows", map=0.4),
        made_record("LDA", map=0.78, fit_seconds=0.2),
        made_record("NCA", map=0.58, fit_seconds=76.0),
        made_record("DuRP, quick", map=0.77, fit_seconds=0.3),
        made_record(
            "MetricCV",
            map=0.93,
            fit_seconds=4.0,
            linear=False,
            facts={"settings": 80, "refit_seconds": 0.3, "chosen": {"distance": "", "power": 0}},
        ),
        made_record("UMAP", status="failed", message="a | b"),
        made_record("DuRP", map=0.6, fit_cpu_seconds=7.0, busy=True),
    ]
    records += [
        made_record(
            "DuRP",
            f"made_dense_n{size}_d100",
            objective="growth",
            variant={"axis": "rows", "size": size},
            fit_seconds=1e-6 * size**power,
        )
        for size, power in ((10_000, 1.0), (1_000_000, 1.0))
    ]
    for record in records:
        store.append(record, path)
    return path


def test_page_from_results(made_results, tmp_path):
    page = tmp_path / "page.md"
    report.write(made_results, page)
    text = page.read_text(encoding="utf-8")
    assert "| ● MetricCV | **93.0** |" in text
    assert "| LDA | 78.0 | euclidean | **90.0** | 0.20 | 10 |" in text
    assert "| ~7.00 |" in text  # seconds of the processors, where others were at work
    assert "failed: a \\| b" in text
    assert "**+15.0**" in text
    assert (tmp_path / report.FIGURE).read_text(encoding="utf-8").startswith("<?xml")
    report.write(made_results, page)  # again: the same part is replaced
    assert page.read_text(encoding="utf-8") == text


def test_targets_from_results(made_results):
    lines = targets.section(summary.results(made_results)).split("\n")
    found = {line.split(" | ")[0].strip("| "): line for line in lines}
    assert "1.5 × | yes" in found[next(key for key in found if "3 × LDA" in key)]
    assert "253 ×, mAP 77.0 and 58.0 | yes" in "\n".join(lines)
    assert "13 × | **no**" in found[next(key for key in found if "one fit" in key)]
    assert "| 1.00 | yes |" in found[next(key for key in found if "rows" in key)]


def test_times_of_different_conditions_are_not_compared(made_results):
    store.append(made_record("NCA", map=0.58, fit_seconds=76.0, threads=8), made_results)
    text = targets.section(summary.results(made_results))
    assert "better mAP | not measured side by side | not measured |" in text
    assert "253 ×" not in text


def test_stored_results_hold_no_names_of_machines():
    for record in store.read().values():
        assert set(record["machine"]) <= {"processor", "cores", "memory_gb", "system"}
        assert "/home/" not in json.dumps(record)


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
        if path != store.RESULTS:
            for record in _common.records(path.stem).values():
                assert set(record) == {"part", "commit", "code", "environment", "results"}
                assert "/home/" not in json.dumps(record)


def test_pages_are_made_from_the_stored_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import scaling
    import tables

    assert tables.section() in (ROOT / "README.md").read_text(encoding="utf-8")
    assert scaling.section() in (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    made = "\n\n".join(part for part in report.sections(summary.results()) if part)
    assert made in report.PAGE.read_text(encoding="utf-8")


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
