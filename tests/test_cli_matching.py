"""The commands match and duplicates: what they write, print and refuse."""

import csv
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualmetric import Matcher, Metric, Pairs
from terminal import shown_on_terminal
from test_cli_commands import call, folder, run  # noqa: F401
from test_matching import things


def as_rows(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def files(folder):  # noqa: F811
    """A table with ids, labelled pairs and a metric."""
    X, pairs = things(200, 0.02)
    with open("d.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["a", "b", "id", "c", "d"])
        writer.writerows([x[0], x[1], f"00{row}", x[2], x[3]] for row, x in enumerate(X))
    table = np.c_[pairs.index, pairs.same]
    np.savetxt("p.csv", table, fmt=("00%d", "00%d", "%d"), delimiter=",")
    Metric(None, feature_names=list("abcd"), n_features=4).save("m.safetensors")
    return X, pairs


def refused(*arguments):
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    return done.stderr


BASE = ("match", "m.safetensors", "d.csv", "--pairs", "p.csv", "--ids", "id")


def test_match_writes_what_the_library_fits(files):
    X, pairs = files
    shown = run(*BASE, "--precision", 0.9, "-o", "out.safetensors").stdout
    assert "200 pairs that are the same and 400 that are different" in shown
    loaded = Matcher.load("out.safetensors")
    expected = Matcher(Metric(None, 4)).fit(X, pairs)
    assert loaded.threshold(precision=0.9) == expected.threshold(precision=0.9)
    assert f"Threshold: {expected.threshold(precision=0.9)}" in shown
    assert Metric.load("out.safetensors").feature_names == ("a", "b", "c", "d")
    assert "Metric" in repr(Metric.load("out.safetensors"))


def test_pairs_may_name_rows_by_their_ids(files):
    X, pairs = files
    for name, head in (("ids.csv", "left,right,same\n"), ("plain.csv", "")):
        with open(name, "w") as stream:
            stream.write(head)
            stream.writelines(
                f"00{a},00{b},{int(same)}\n"
                for (a, b), same in zip(pairs.index, pairs.same, strict=True)
            )
        arguments = ("match", "m.safetensors", "d.csv", "--ids", "id", "--pairs", name)
        other = shutil.copy(name, f"other-{name}")
        run(*arguments, "--test-pairs", other, "-o", "i.safetensors")
        found = Matcher.load("i.safetensors").pairs_
        assert_allclose(found.distance, Matcher(Metric(None, 4)).fit(X, pairs).pairs_.distance)
    run(
        "fit",
        "d.csv",
        "--ids",
        "id",
        "--pairs",
        "ids.csv",
        "--method",
        "durp",
        "-o",
        "f.safetensors",
    )
    assert Metric.load("f.safetensors").feature_names == ("a", "b", "c", "d")
    with open("bad.csv", "w") as stream:
        stream.write("000,00200,1\n001,nobody,0\n")
    arguments = ("match", "m.safetensors", "d.csv", "--ids", "id", "--pairs", "bad.csv")
    missing = refused("match", "m.safetensors", "d.csv", "--ids", "name", "--pairs", "bad.csv")
    assert (
        "--ids: 'name' is neither a file nor a column of d.csv: its columns are a, b, id, c, d"
        in missing
    )
    line = refused(*arguments)
    assert "line 2: the id 'nobody' was not found in column id (ids look like '000'): corr" in line
    with open("twice.txt", "w") as stream:
        stream.writelines(f"{max(row, 1)}x\n" for row in range(400))
    with open("bad.csv", "w") as stream:
        stream.write("3x,4x,1\n1x,2x,0\n")
    line = refused("match", "m.safetensors", "d.csv", "--ids", "twice.txt", "--pairs", "bad.csv")
    assert "line 2: the id '1x' belongs to rows 0 and 1: ids must be unique" in line
    with open("bad.csv", "w") as stream:
        stream.write("3y,4y,1\n")
    line = refused("match", "m.safetensors", "d.csv", "--ids", "id", "--pairs", "bad.csv")
    assert "line 1: the id '3y' was not found in column id" in line
    with open("bad.csv", "w") as stream:
        stream.write("000,001,yes\n")
    line = refused("match", "m.safetensors", "d.csv", "--ids", "id", "--pairs", "bad.csv")
    assert "line 1 must be 2 ids, and 1 (the same) or 0 (not)" in line


def test_pairs_that_clash_are_named_by_their_ids(files):
    said = "such as line 1 and line 3, "
    with open("clash.csv", "w") as stream:
        stream.write("000,001,1\n002,003,1\n001,000,0\n004,005,0\n")
    done = run("match", "m.safetensors", "d.csv", "--pairs", "clash.csv", "--ids", "id")
    assert f"{said}ids 000 and 001\n" in done.stderr
    done = run("match", "m.safetensors", "d.csv", "--pairs", "clash.csv")
    assert f"{said}rows 0 and 1\n" in done.stderr


def test_one_pair_is_not_plural(files):
    with open("few.csv", "w") as stream:
        stream.write("0,1,1\n0,2,0\n")
    shown = run("match", "m.safetensors", "d.csv", "--pairs", "few.csv").stdout
    assert "Fitted to 1 pair that is the same and 1 that is different; " in shown
    assert (
        "fitted to 1 pair that is the same and 1 diff" in run("info", "matcher.safetensors").stdout
    )


def test_whole_numbers_are_ids_where_ids_are_given(files):
    _, pairs = files
    np.savetxt("rows.csv", np.c_[pairs.index, pairs.same], fmt="%d", delimiter=",")
    arguments = ("match", "m.safetensors", "d.csv", "--pairs", "rows.csv")
    first = pairs.index[0, 0]
    said = (
        f"line 1: the id '{first}' was not found in column id (ids look like '000'): write the "
        "ids, or leave out --ids to use row numbers"
    )
    assert said in refused(*arguments, "--ids", "id")
    with open("ids.txt", "w") as stream:
        stream.writelines(f"x{row}\n" for row in range(400))
    assert said.replace("column id", "ids.txt").replace("'000'", "'x0'") in refused(
        *arguments, "--ids", "ids.txt"
    )
    run(*arguments)


def test_info_shows_the_matcher(files):
    assert "matcher" not in run("info", "m.safetensors").stdout
    run(*BASE, "--prevalence", 0.05)
    shown = run("info", "matcher.safetensors", "--json", "i.json").stdout
    assert "fitted to 200 pairs that are the same and 400 different; prevalence 0.05" in shown
    found = json.loads(Path("i.json").read_text())["matcher"]
    expected = {"same": 200, "different": 400, "prevalence": 0.05}
    assert expected.items() <= found.items()


def test_hubs_need_more_pairs(files):
    run(*BASE)
    base = ("duplicates", "matcher.safetensors", "d.csv", "--ids", "id", "--precision", 0.985)
    assert "close to all others) may be missing" in run(*base).stdout
    assert "Without hubs, the target can be met" in refused(*base, "--hubs")
    assert "No threshold" in run(*BASE, "--precision", 0.985, "--hubs").stdout


def test_match_says_what_is_missing(files):
    done = run(*BASE)
    assert "No threshold: 600 labelled pairs cannot support precision ≥ 0.99" in done.stdout
    assert "more pairs, chosen in the same way" in done.stdout
    assert Matcher.load("matcher.safetensors").metric_.n_features == 4
    # the matcher can replace the metric's own file
    run(*BASE, "-o", "m.safetensors")
    assert "rank" in run("info", "m.safetensors").stdout


def test_groups_prevalence_test_pairs_and_report(files):
    X, pairs = files
    with open("g.txt", "w") as stream:
        stream.writelines(f"thing {row % 200}\n" for row in range(400))
    with open("t.txt", "w") as stream:
        stream.writelines(f"text of <b>{row}</b>\n" for row in range(400))
    run(*BASE, "--groups", "g.txt", "--prevalence", 0.05, "-o", "g.safetensors")
    found = Matcher.load("g.safetensors")
    expected = Matcher(Metric(None, 4)).fit(X, pairs, groups=np.r_[:200, :200], prevalence=0.05)
    assert found.prevalence_ == 0.05
    assert_allclose(found.threshold(recall=0.9).distance, expected.threshold(recall=0.9).distance)
    shutil.copy("p.csv", "q.csv")
    line = refused(*BASE, "--groups", "g.txt", "--test-pairs", "q.csv")
    assert "200 of 200 entities of these pairs" in line
    done = run(
        *BASE, "--test-pairs", "q.csv", "--report", "page.html", "--texts", "t.txt", "--recall", 0.5
    )
    assert "On 600 other pairs: log loss 0.0" in done.stdout
    page = Path("page.html").read_text(encoding="utf-8")
    assert "How well it works" in page
    assert "<b>" not in page
    assert re.search(r"text of &lt;b&gt;(\d+)&lt;/b&gt;</div><small>00\1</small>", page)


def test_duplicates_keep_ids_as_they_are_written(files):
    X, _ = files
    run(*BASE)
    arguments = ("duplicates", "matcher.safetensors", "d.csv", "--ids", "id", "--threshold", 0.3)
    shown = run(*arguments, "-o", "out.csv", "--clusters", "c.csv").stdout
    assert "estimated precision" in shown
    found = Matcher.load("matcher.safetensors").duplicates(X, 0.3)
    lines = as_rows("out.csv")
    assert [(line["id_a"], line["id_b"]) for line in lines] == [
        (f"00{a}", f"00{b}") for a, b in found.pairs.tolist()
    ]
    assert_allclose([float(line["probability"]) for line in lines], found.probability)
    rows = as_rows("c.csv")
    assert [line["id"] for line in rows] == [f"00{row}" for row in range(400)]
    assert [int(line["cluster"]) for line in rows] == found.cluster.tolist()
    assert {line["probability"] == "" for line in rows if line["size"] == "1"} <= {True}


def test_clusters_that_chain_different_rows_are_noted(files):
    run(*BASE)
    arguments = ("duplicates", "matcher.safetensors", "d.csv", "--ids", "id", "--threshold")
    assert "--linkage complete" not in run(*arguments, 0.3).stderr
    assert "chains of pairs join different rows" in run(*arguments, 0.8).stderr
    assert "chains" not in run(*arguments, 0.8, "--linkage", "complete").stderr


def test_a_share_of_matches_among_all_pairs_is_asked_for(files):
    arguments = ("duplicates", "matcher.safetensors", "d.csv", "--ids", "id", "--threshold", 0.3)
    run(*BASE)
    assert "all pairs of rows were compared" in run(*arguments).stderr
    run(*BASE, "--prevalence", 0.01)
    assert "all pairs of rows were compared" not in run(*arguments).stderr


def test_duplicates_of_parquet(files):
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    X, _ = files
    columns = {name: X[:, place] for place, name in enumerate("abcd")}
    pq.write_table(pa.table({"key": [f"k{row}" for row in range(400)], **columns}), "d.parquet")
    run(*BASE)
    arguments = ("duplicates", "matcher.safetensors", "d.parquet", "--ids", "key")
    run(*arguments, "--threshold", 0.2, "-o", "o.parquet", "--clusters", "c.parquet")
    found = pq.read_table("o.parquet")
    assert found.column_names == ["id_a", "id_b", "distance", "probability", "cluster"]
    assert found.column("id_a")[0].as_py().startswith("k")
    assert pq.read_table("c.parquet").num_rows == 400
    run(*arguments, "--threshold", 0.2, "--linkage", "complete", "-o", "x.parquet")
    assert "cluster_b" in pq.read_table("x.parquet").column_names


def test_ids_of_a_text_file_and_row_numbers(files):
    run(*BASE)
    X, _ = files
    np.save("x.npy", X)
    with open("ids.txt", "w") as stream:
        stream.writelines(f"record {row}\n" for row in range(400))
    arguments = ("duplicates", "matcher.safetensors", "x.npy", "--threshold", 0.1, "-o", "o.csv")
    run(*arguments, "--ids", "ids.txt")
    assert as_rows("o.csv")[0]["id_a"].startswith("record ")
    run(*arguments)
    assert as_rows("o.csv")[0]["row_a"].isdecimal()


def test_a_threshold_that_does_not_carry_over_is_noted(files):
    run(*BASE)
    np.save("x.npy", np.random.default_rng(0).normal(size=(3000, 4)))
    done = run("duplicates", "matcher.safetensors", "x.npy", "--precision", 0.9)
    assert "guarantees precision 0.9 for pairs like the labelled ones" in done.stderr


def test_refusals(files):
    run(*BASE)
    base = ("duplicates", "matcher.safetensors", "d.csv", "--ids", "id")
    assert "holds a metric without a matcher" in refused("duplicates", "m.safetensors", "d.csv")
    assert "make it with dualmetric match" in refused("duplicates", "none", "d.csv")
    assert "must end in .csv or .parquet" in refused(*base, "-o", "pairs.npy")
    line = refused(*base, "--precision", 1, "--recall", 1)
    assert "--precision and --recall cannot be combined: give one of them" in line
    for flag in (("--precision", 0.9), ("--hubs",), ("--confidence", 0.9)):
        line = refused(*base, *flag, "--threshold", 1)
        assert f"--threshold accepts pairs without a guarantee, so {flag[0]} does not apply" in line
    line = refused(*base)
    assert "cannot support precision ≥ 0.99" in line
    assert line.endswith(", or accept pairs without a guarantee with --threshold D\n")
    assert "without a guarantee with dualmetric duplicates --threshold D" in run(*BASE).stdout
    assert "precision=1 cannot be guaranteed" in refused(*base, "--precision", 1)
    assert "clusters must be" in refused(*base, "--threshold", 0.1, "--linkage", "single")
    assert "--texts needs --report, the page that shows them" in refused(*BASE, "--texts", "d.csv")
    assert "metric files must end in" in refused(*BASE, "-o", "m.onnx")
    line = refused(*BASE, "--report", "r.pdf")
    assert "--report: reports are written as .html; got r.pdf" in line
    assert "'nothing'" in refused(*BASE[:-1], "nothing")
    assert "400 rows" in refused(*BASE, "--groups", "p.csv") or "lines for 400 rows" in refused(
        *BASE, "--groups", "p.csv"
    )
    assert "are the same file" in refused(*BASE, "--test-pairs", "./p.csv")
    assert "prevalence must be strictly between" in refused(*BASE, "--prevalence", 2)
    same = Pairs([[0, 1]])
    np.save("s.npy", same.index)
    assert "no pair is labelled as different" in refused(*BASE[:4], "s.npy", "--ids", "id")


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
def test_long_work_shows_its_steps(files):
    shutil.copy("p.csv", "q.csv")
    shown = shown_on_terminal(*BASE, "--test-pairs", "q.csv", "--report", "r.html").decode()
    for step in ("reading", "fitting to the pairs", "scoring", "a threshold", "the report"):
        assert re.search(rf"{step} +\x1b\[[0-9;]*m?[━╸╺ ]", shown), step
    assert "━" not in shown_on_terminal("--quiet", *BASE).decode()


def test_export_of_a_matcher_has_the_probability(files):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, _ = files
    run(*BASE)
    run("export", "matcher.safetensors", "-o", "m.onnx")
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    rows, others = X[:9].astype(np.float32), X[200:209].astype(np.float32)
    _, probability = session.run(None, {"rows": rows, "others": others})
    expected = Matcher.load("matcher.safetensors").predict_proba(rows, others)[:, 1]
    assert np.median(np.abs(probability.ravel() - expected)) < 1e-4
