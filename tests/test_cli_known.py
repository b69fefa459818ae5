"""``fit`` and ``evaluate`` from pairs, clicks and judgements, and folders in BEIR's layout."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dualmetric import DuRP, Metric, MetricCV
from dualmetric.cli.fit import describe_new_documents
from dualmetric.evaluation import (
    pair_average_precision,
    pair_interval,
    query_scores,
    verification,
)
from dualmetric.intervals import bootstrap_interval, paired_interval
from dualmetric.supervision import Pairs, Positives, Relevance
from makers import make_classes, make_counts
from test_cli_commands import as_json, call, folder, left, refused, run  # noqa: F401

D = 8
SPREAD = [0.5, 0.5, *[2.0] * (D - 2)]
MEASURES = ("ndcg", "map", "recall", "precision", "hit_rate", "reciprocal_rank")


def make_pairs(n=120, count=300, seed=0):
    """Rows of classes, and pairs that are the same where their classes are."""
    X, y = make_classes(n, D, shift=2.0, spread=SPREAD, seed=seed)
    index = np.random.default_rng(seed).integers(n, size=(count, 2))
    index = index[index[:, 0] != index[:, 1]]
    index = np.unique(np.sort(index, axis=1), axis=0)
    return X, index, (y[index[:, 0]] == y[index[:, 1]]).astype(int)


def make_search(n=90, n_queries=40, seed=0):
    """Documents, queries, and graded judgements (query, document, grade)."""
    X, y = make_classes(n + n_queries, D, shift=2.0, spread=SPREAD, seed=seed)
    rng = np.random.default_rng(seed)
    documents, queries = X[:n], X[n:]
    judged = [
        [q, d, int(y[d] == y[n + q]) * rng.integers(1, 3)]
        for q in range(n_queries)
        for d in rng.choice(n, size=8, replace=False)
    ]
    table = np.array(judged)
    relevant = np.isin(table[:, 0], table[table[:, 2] > 0, 0])
    return documents, queries, table[relevant]


@pytest.fixture
def pairs(folder):  # noqa: F811
    X, index, same = make_pairs()
    np.save("x.npy", X)
    np.savetxt("p.csv", np.column_stack([index, same]), fmt="%d", delimiter=",")
    return X, index, same


@pytest.fixture
def search(folder):  # noqa: F811
    documents, queries, table = make_search()
    np.save("x.npy", documents)
    np.save("q.npy", queries)
    np.savetxt("r.csv", table, fmt="%d", delimiter=",")
    np.savetxt("c.csv", table[table[:, 2] > 0, :2], fmt="%d", delimiter=",")
    return documents, queries, table


@pytest.fixture
def beir(folder, search):  # noqa: F811
    """The same in BEIR's layout, with ids that are not numbers; the last ten queries are tests."""
    documents, queries, table = search
    root = folder / "beir"
    (root / "qrels").mkdir(parents=True)
    for name, rows, mark in (("corpus", documents, "d"), ("queries", queries, "q")):
        lines = [json.dumps({"_id": f"{mark}{i}", "text": "a\u2028b"}) for i in range(len(rows))]
        lines[1] = json.dumps({"_id": f"{mark}1", "text": "a\u2028b"}, ensure_ascii=False)
        (root / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        np.save(root / f"{name}.npy", rows)
    for part, keep in (("train", table[:, 0] < 30), ("test", table[:, 0] >= 30)):
        lines = [f"q{q}\td{d}\t{grade}" for q, d, grade in table[keep]]
        text = "\n".join(["query-id\tcorpus-id\tscore", *lines])
        (root / "qrels" / f"{part}.tsv").write_text(text + "\n")
    return root


def same_factor(expected):
    found = Metric.load("metric.safetensors")
    np.testing.assert_array_equal(found.factor, expected.metric_.factor)


class TestPairs:
    @pytest.mark.parametrize(
        "name",
        ["p.csv", "head.csv", "p.tsv", "p.npy", "p.npz", "two.npz", "p.parquet", "minus.csv"],
    )
    def test_files(self, pairs, folder, name):  # noqa: F811
        X, index, same = pairs
        table = np.column_stack([index, same])
        text = (folder / "p.csv").read_text()
        (folder / "head.csv").write_text("a,b,same\n" + text)
        (folder / "p.tsv").write_text(text.replace(",", "\t"))
        (folder / "minus.csv").write_text(text.replace(",0\n", ",-1\n"))
        np.save("p.npy", table)
        np.savez("p.npz", table)
        np.savez("two.npz", pairs=index, same=same == 1)
        if name == "p.parquet":
            pa = pytest.importorskip("pyarrow")
            import pyarrow.parquet as pq

            columns = {"a": index[:, 0], "b": index[:, 1], "same": same == 1}
            pq.write_table(pa.table(columns), "p.parquet")
        options = ("--prior", "identity", "--holdout", 0)
        done = run("fit", "x.npy", "--pairs", name, *options)
        assert "No test scores, because of --holdout 0." in done.stdout
        same_factor(DuRP(prior="identity", random_state=0).fit(X, Pairs(index, same)))

    def test_all_are_the_same(self, pairs):
        X, index, same = pairs
        np.save("p.npy", index[same == 1])
        said = "no pair is labelled as different, so random pairs are used as different pairs"
        done = run("fit", "x.npy", "--pairs", "p.npy", "--prior", "identity", "--holdout", 0)
        assert done.stderr.count(said) == 1
        same_factor(DuRP(prior="identity", random_state=0).fit(X, Pairs(index[same == 1])))
        done = run("evaluate", "metric.safetensors", "x.npy", "--pairs", "p.npy")
        assert done.stderr.count(said) == 1

    def test_held_out_scores(self, pairs):
        _, index, _ = pairs
        found = as_json("fit", "x.npy", "--pairs", "p.csv", "--prior", "identity", "--seed", 1)
        held_out = -(-len(index) // 4)
        assert found["rows"] == {"used": 120, "given": 120, "held_out": held_out}
        assert found["better"] is True
        scores = found["scores"]
        assert list(scores) == ["euclidean", "cosine", "learned"]
        low, high = scores["learned"]["average_precision_interval"]
        assert low < scores["learned"]["average_precision"] < high
        kept = as_json("info", "metric.safetensors")["scores"]
        assert kept["learned"] == {
            k: v for k, v in scores["learned"].items() if "interval" not in k
        }
        assert "Average precision %" in run("info", "metric.safetensors").stdout

    def test_evaluate(self, pairs):
        X, index, same = pairs
        given = Pairs(index, same)
        run("fit", "x.npy", "--pairs", "p.csv", "--prior", "identity", "--holdout", 0)
        found = as_json("evaluate", "metric.safetensors", "x.npy", "--pairs", "p.csv")
        assert found["rows"] == {"scored": len(index), "training": 0}
        mapped = {
            "euclidean": X,
            "cosine": X / np.linalg.norm(X, axis=1, keepdims=True),
            "learned": Metric.load("metric.safetensors").transform(X),
        }
        for name, rows in mapped.items():
            scores = found["scores"][name]
            assert scores["average_precision"] == pytest.approx(pair_average_precision(rows, given))
            expected = pair_interval(rows, given)
            assert scores["average_precision_interval"] == pytest.approx(expected)
            (expected,) = verification(rows, given, far=0.01).tar
            assert scores["tar_at_far_1e-2"] == pytest.approx(expected)
            expected = pair_interval(rows, given, far=0.01)
            assert scores["tar_at_far_1e-2_interval"] == pytest.approx(expected)
            assert "tar_at_far_1e-3" not in scores  # too few pairs to say
        gain = found["gain"]["cosine"]
        difference = [found["scores"][name]["average_precision"] for name in ("learned", "cosine")]
        assert gain["average_precision"] == pytest.approx(difference[0] - difference[1])
        low, high = gain["average_precision_interval"]
        assert low < gain["average_precision"] < high
        shown = run("evaluate", "metric.safetensors", "x.npy", "--pairs", "p.csv").stdout
        assert shown.startswith(f"On {len(index)} pairs, with 95 % confidence intervals:")
        assert "recall at 1 % FPR, %" in shown

    @pytest.mark.parametrize("share", [0, 0.25])
    def test_pairs_that_were_learned_from(self, pairs, share):
        X, index, same = pairs
        np.savez("x.npz", X=X.astype(np.float32))
        # the same pairs in another format, with the lines and the rows of each in another order
        np.save("same.npy", np.column_stack([index[::-1, ::-1], same[::-1]]))
        np.save("other.npy", np.column_stack([index, same])[1:])
        run("fit", "x.npy", "--pairs", "p.csv", "--prior", "identity", "--holdout", share)
        done = run("evaluate", "metric.safetensors", "x.npz", "--pairs", "same.npy")
        others = ("match", "metric.safetensors", "x.npz", "--pairs", "other.npy")
        assert "learned from" not in run(*others).stderr
        assert "was learned from the pairs in p.csv" in refused(*others, "--test-pairs", "p.csv")
        match = ("match", "metric.safetensors", "x.npz", "--pairs", "same.npy")
        if share:
            n = -(-len(index) // 4)
            assert done.stdout.startswith(f"On {n} pairs that fit held out, with")
            assert f"only the {n} pairs that fit held out are used" in run(*match).stderr
        else:
            assert "the metric was learned from these pairs, so scores are too" in done.stderr
            said = refused(*match)
            assert "metric.safetensors was learned from the pairs in same.npy" in said
            assert "run fit again with --holdout 0.25" in said
        done = run("evaluate", "metric.safetensors", "x.npz", "--pairs", "other.npy")
        assert "learned from" not in done.stderr

    def test_auto(self, pairs):
        X, index, same = pairs
        done = run("fit", "x.npy", "--pairs", "p.csv", "--method", "auto", "--json", "a.json")
        expected = MetricCV(random_state=0).fit(X, Pairs(index, same))
        assert done.stdout.startswith(
            f"Learned from all {len(index)} pairs over {len(X)} rows, with settings chosen by "
            "cross-validation, in "
        )
        method = type(expected.best_estimator_).__name__
        assert f"\nChose {method} (" in done.stdout
        assert "average precision" in done.stdout
        assert "No scores" not in done.stdout
        with open("a.json") as file:
            found = json.load(file)
        assert found["choice"] == {
            "scoring": "average_precision",
            "score": expected.expected_score_,
            "plain": expected.best_plain_[0],
            "plain_score": expected.best_plain_[1],
            "gain_interval": list(expected.gain_interval_),
            "new_documents": None,
        }
        assert found["better"] is True
        assert found["scores"] is None
        same_factor(expected)

    @pytest.mark.parametrize("method", ["duori", "oasis", "srp", "spca", "whitening"])
    def test_other_methods(self, pairs, method):
        found = as_json("fit", "x.npy", "--pairs", "p.csv", "--method", method)
        assert found["scores"]["learned"]["average_precision"] > 0

    def test_a_first_line_of_unknown_ids_is_no_header(self, pairs):
        Path("ids.txt").write_text("\n".join(f"id{i}" for i in range(120)), encoding="utf-8")
        Path("t.csv").write_text("typo1,typo2,True\nid1,id2,False\n", encoding="utf-8")
        line = refused("fit", "x.npy", "--pairs", "t.csv", "--ids", "ids.txt")
        assert "line 1" in line

    def test_true_and_false(self, pairs):
        _, index, same = pairs
        truth = (same > 0).tolist()
        lines = [f"{a},{b},{s}" for (a, b), s in zip(index.tolist(), truth, strict=True)]
        Path("t.csv").write_text("a,b,same\n" + "\n".join(lines), encoding="utf-8")
        found, expected = (
            as_json("fit", "x.npy", "--pairs", name, "--method", "duori")
            for name in ("t.csv", "p.csv")
        )
        assert found["scores"] == expected["scores"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("0,1,1\n0,900,1\n", "line 2 ([0, 900]) names a row that DATA does not have"),
            ("a,b,same\n\n0,-1,1\n", "line 3 ([0, -1]) names a row that DATA does not have"),
            ("0,1,1\n4,4,0\n", "line 2 ([4, 4]) pairs a row with itself"),
            (
                "0,1,1\n0,2\n",
                "line 2 must be 2 row numbers, and 1 (the same) or 0 (not), separated by",
            ),
            ("0,1,1\n0,2,yes\n", "line 2 must be 2 row numbers"),
            ("0,1,1\n0,2.5,1\n", "line 2 must be 2 row numbers"),
            ("0,1,3\n", "same must hold True or 1"),
            ("0,1,0\n", "no pair is labelled as the same"),
            ("", "pairs is empty"),
        ],
    )
    def test_what_is_wrong(self, pairs, folder, text, said):  # noqa: F811
        (folder / "bad.csv").write_text(text)
        line = refused("fit", "x.npy", "--pairs", "bad.csv")
        assert line.startswith("--pairs: bad.csv: ")
        assert said in line
        assert "metric.safetensors" not in left(folder)

    def test_both(self, pairs, folder):  # noqa: F811
        text = (folder / "p.csv").read_text()
        (folder / "p.csv").write_text("a,b,same\n" + text + "7,0,1\n0,7,0\n")
        done = run("fit", "x.npy", "--pairs", "p.csv", "--holdout", 0)
        n = len(text.splitlines())
        assert done.stderr.startswith("dualmetric: note: --pairs: p.csv: ")
        assert f"such as line {n + 2} and line {n + 3}, rows 7 and 0" in done.stderr
        assert done.stderr.count("note") == 1
        (folder / "p.csv").write_text(text + text)
        done = run("fit", "x.npy", "--pairs", "p.csv", "--holdout", 0)
        said = f"note: --pairs: p.csv: repeated pairs count once: {n} are left out\n"
        assert done.stderr == f"dualmetric: {said}"

    def test_wrong_options(self, pairs):
        np.save("y.npy", np.zeros((4, 4), dtype=int))
        start = ("fit", "x.npy", "--pairs")
        assert "pairs must be an (N, 2) array" in refused(*start, "y.npy")
        assert "none.csv does not exist" in refused(*start, "none.csv")
        for name, content in (("a.npz", b"PK\x03\x04"), ("a.npy", b"x"), ("a.parquet", b"PAR1")):
            with open(name, "wb") as file:
                file.write(content)
            assert refused(*start, name).startswith(f"--pairs: {name}: ")
        line = refused(*start, "p.csv", "--triplets", "t.csv")
        assert line == "--triplets and --pairs cannot be combined: give one of them"
        line = refused(*start, "p.csv", "--queries", "x.npy")
        assert line == "--queries goes with --positives or --relevance: give one of them"
        line = refused(*start, "p.csv", "--test", "x.npy")
        assert line == "--test does not apply to --pairs: score with dualmetric evaluate"
        for method in ("lmnn", "ridge", "euclidean"):
            line = refused(*start, "p.csv", "--method", method)
            assert line == f"--pairs does not apply to --method {method}: use another method"
        auto = (*start, "p.csv", "--method", "auto")
        line = refused(*auto, "--cv", "queries")
        assert line == (
            "--cv must be a number of folds of 2 or more when learning from --pairs; got 'queries'"
        )
        line = refused(*auto, "--scoring", "ndcg")
        assert line == "--scoring ndcg does not apply to pairs: use 'average_precision'"
        np.save("few.npy", [[0, 1, 1], [0, 2, 0]])
        line = refused(*start, "few.npy", "--method", "auto")
        assert line == (
            "--method auto needs at least four pairs of each kind to compare settings; got 1 that "
            "are the same and 1 that are different. Add pairs, or use --method durp with fixed "
            "settings"
        )
        line = refused(*start, "few.npy")
        assert line.startswith("2 pairs are too few to hold some out: use --holdout 0")
        np.save("few.npy", [[0, 1]])  # and no random pairs are counted
        said = call(*start, "few.npy").stderr
        assert "dualmetric: 1 pair is too few to hold some out: use --holdout 0" in said


class TestJudged:
    @pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.npy", "r.npz", "sparse.npz"])
    def test_files_of_relevance(self, search, folder, name):  # noqa: F811
        documents, queries, table = search
        (folder / "r.tsv").write_text(
            "query\tdocument\tgrade\n" + (folder / "r.csv").read_text().replace(",", "\t")
        )
        np.save("r.npy", table)
        np.savez("r.npz", relevance=table, remark="of experts")
        shape = (len(queries), len(documents))
        matrix = sp.csr_matrix((table[:, 2], table[:, :2].T), shape=shape)
        sp.save_npz("sparse.npz", matrix.tocoo())
        options = ("--prior", "identity", "--holdout", 0)
        done = run("fit", "x.npy", "--relevance", name, "--queries", "q.npy", *options)
        assert "No test scores, because of --holdout 0." in done.stdout
        grades = matrix if name == "sparse.npz" else table
        same_factor(
            DuRP(prior="identity", random_state=0).fit(documents, Relevance(grades, queries))
        )

    @pytest.mark.parametrize(("flag", "name"), [("--positives", "c.csv"), ("--relevance", "r.csv")])
    def test_queries_that_were_learned_from(self, search, flag, name):
        given = ("x.npy", "--queries", "q.npy", flag, name)
        run("fit", *given, "--prior", "identity", "--holdout", 0)
        done = run("evaluate", "metric.safetensors", *given)
        assert "the metric was learned from these queries, so scores are too" in done.stderr
        run("fit", *given, "--prior", "identity", "--holdout", 0.5)
        done = run("evaluate", "metric.safetensors", *given)
        assert "queries that fit held out, with 95 %" in done.stdout
        assert "learned from" not in done.stderr

    def test_ids(self, search):
        documents, queries, table = search
        for name, rows, column, mark in (
            ("x.csv", documents, "key", "d"),
            ("q.csv", queries, "asked", "q"),
        ):
            with open(name, "w") as stream:
                stream.write(",".join([column, *"abcdefgh"]) + "\n")
                for row, values in enumerate(rows.tolist()):
                    stream.write(",".join([f"{mark}{row}", *map(repr, values)]) + "\n")
        clicks = table[table[:, 2] > 0, :2].tolist()
        Path("ids.csv").write_text("".join(f"q{q},d{d}\n" for q, d in clicks))
        Path("head.csv").write_text("query,document\n" + Path("ids.csv").read_text())
        run("fit", "x.npy", "--queries", "q.npy", "--positives", "c.csv", "-o", "expected")
        base = ("x.csv", "--ids", "key", "--queries", "q.csv", "--query-ids", "asked")
        for name in ("ids.csv", "head.csv"):
            run("fit", *base, "--positives", name, "-o", "m")
            found, expected = Metric.load("m"), Metric.load("expected")
            np.testing.assert_array_equal(found.factor, expected.factor)
            assert found.info["known"] == expected.info["known"]
            scores = as_json("evaluate", "m", *base, "--positives", name)["scores"]
        given = ("--queries", "q.npy", "--positives", "c.csv")
        assert as_json("evaluate", "expected", "x.npy", *given)["scores"] == scores
        line = refused("evaluate", "m", *base[:3], "--queries", "q.npy", "--positives", "ids.csv")
        assert line.endswith(": to use ids, name their column or file with --query-ids")
        line = refused("fit", "x.npy", *base[3:], "--positives", "ids.csv")
        assert line.endswith(": to use ids, name their column or file with --ids")
        Path("ids.csv").write_text("q0,d0\nq1,q1\n")
        line = refused("fit", *base, "--positives", "ids.csv")
        assert line.endswith("not found in column key (ids look like 'd0'): correct the id")
        line = refused("evaluate", "m", "x.csv", "--query-ids", "asked", "--positives", "c.csv")
        assert line == "--query-ids names the rows of --queries: give both or neither"

    def test_positives(self, search):
        documents, queries, table = search
        options = ("--queries", "q.npy", "--prior", "identity", "--holdout", 0)
        run("fit", "x.npy", "--positives", "c.csv", *options)
        clicks = Positives(table[table[:, 2] > 0, :2], queries)
        same_factor(DuRP(prior="identity", random_state=0).fit(documents, clicks))

    def test_neighbors_of_queries(self, search):
        documents, queries, _ = search
        run("fit", "x.npy", "--positives", "c.csv", "--queries", "q.npy", "--method", "durp")
        call = ("neighbors", "metric.safetensors", "x.npy", "--queries", "q.npy", "--query", "3,0")
        found = as_json(*call, "-k", 4)["queries"]
        assert [one["row"] for one in found] == [3, 0]
        metric = Metric.load("metric.safetensors")
        for one in found:
            distances = metric.pairwise(queries[[one["row"]]], documents)[0]
            near = np.argsort(distances, kind="stable")[:4]
            assert [each["row"] for each in one["learned"]] == near.tolist()
        assert run(*call, "-k", 4).stdout.startswith("Query 3\n")
        line = refused(*call[:-1], len(queries))
        assert line == "q.npy has no query 40: query numbers go from 0 to 39"

    def test_labels_of_neighbors_of_queries(self, search):
        documents, queries, _ = search
        names = [f"f{i}" for i in range(D)]

        def write(path, rows, label):
            lines = [",".join([*names, "kind"])] + [
                ",".join([*map(str, row), f"{label}{i % 2}"]) for i, row in enumerate(rows)
            ]
            Path(path).write_text("\n".join(lines), encoding="utf-8")

        write("x.csv", documents, "k")
        write("q.csv", queries, "k")
        run("fit", "x.csv", "--labels", "kind", "--method", "durp")
        call = ("neighbors", "metric.safetensors", "x.csv", "--query", 3, "--labels", "kind")
        found = as_json(*call, "--queries", "q.csv")["queries"][0]
        assert found["label"] == "k1"
        assert {one["label"] for one in found["learned"]} <= {"k0", "k1"}
        shown = run(*call, "--queries", "q.npy").stdout  # without labels
        assert "k0" in shown or "k1" in shown
        assert "✓" not in shown
        call = ("neighbors", "metric.safetensors", "x.npy", "--query", 3)
        assert "None" not in run(*call, "--queries", "q.csv").stdout

    def test_queries_that_are_rows(self, search):
        documents = search[0]
        clicks = np.array([[i, (i + 7) % 90] for i in range(40)])
        np.save("c.npy", clicks)
        done = run("fit", "x.npy", "--positives", "c.npy", "--prior", "identity", "--holdout", 0)
        assert "queries are rows of the data" in done.stderr
        same_factor(DuRP(prior="identity", random_state=0).fit(documents, Positives(clicks)))
        found = as_json("evaluate", "metric.safetensors", "x.npy", "--positives", "c.npy")
        expected = query_scores(documents, Positives(clicks))
        assert found["scores"]["euclidean"]["ndcg"] == pytest.approx(np.nanmean(expected))

    def test_held_out_scores(self, search):
        table = search[2]
        start = ("fit", "x.npy", "--relevance", "r.csv", "--queries", "q.npy")
        found = as_json(*start, "--prior", "identity")
        n = len(np.unique(table[:, 0]))
        assert found["rows"]["held_out"] == -(-n // 4)
        assert set(found["scores"]["learned"]) == {
            *MEASURES,
            *(f"{name}_interval" for name in MEASURES),
        }
        shown = run(*start, "--prior", "identity", "--holdout", 0.5).stdout
        assert f"On {-(-n // 2)} queries that were not learned from, with 95 %" in shown
        assert "nDCG@10 %" in run("info", "metric.safetensors").stdout

    def test_evaluate(self, search):
        documents, queries, table = search
        options = ("--relevance", "r.csv", "--queries", "q.npy")
        run("fit", "x.npy", *options, "--prior", "identity", "--holdout", 0)
        found = as_json("evaluate", "metric.safetensors", "x.npy", *options)
        assert found["rows"] == {"scored": len(np.unique(table[:, 0])), "training": 0}

        def unit(rows):
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

        transform = Metric.load("metric.safetensors").transform
        each = {}
        for name, change in (("euclidean", np.array), ("cosine", unit), ("learned", transform)):
            mapped = change(documents), table, change(queries)
            for measure in MEASURES:
                values = query_scores(*mapped, measure=measure)
                scores = found["scores"][name]
                assert scores[measure] == pytest.approx(np.nanmean(values))
                expected = bootstrap_interval(values)
                assert scores[f"{measure}_interval"] == pytest.approx(expected)
            each[name] = query_scores(*mapped)
        interval = paired_interval(each["learned"], each["cosine"])
        assert found["gain"]["cosine"]["ndcg_interval"] == pytest.approx(interval)
        assert found["better"] is True

    def test_auto(self, search):
        documents, queries, table = search
        start = ("fit", "x.npy", "--relevance", "r.csv", "--queries", "q.npy", "--method", "auto")
        done = run(*start, "--cv", "queries", "--scoring", "recall")
        expected = MetricCV(cv="queries", scoring="recall", random_state=0)
        expected.fit(documents, Relevance(table, queries))
        low, high = (f"{100 * end:.1f}" for end in expected.gain_interval_)
        assert done.stdout.splitlines()[1] == (
            "Kept the plain cosine distance: on held-out queries, no learned distance is "
            f"significantly better (recall@10 {100 * expected.best_score_:.1f} %; 95 % interval of "
            f"the gain: {low} to {high} points)."
        )
        line = refused(*start, "--cv", "classes")
        assert line == (
            "--cv must be 'queries', 'documents' or a number of folds of 2 or more when learning "
            "from --relevance; got 'classes'"
        )

    def test_auto_of_new_documents(self, search):
        documents, queries, _ = search
        start = ("fit", "x.npy", "--positives", "c.npy", "--queries", "q.npy", "--method", "auto")
        apart = (queries[:, None] - documents) ** 2
        # the nearest in three of eight features, and in all
        for used, learned in ((3, True), (8, False)):
            nearest = apart[..., :used].sum(axis=2).argmin(axis=1)
            clicks = np.column_stack([np.arange(40), nearest])
            np.save("c.npy", clicks)
            expected = MetricCV(random_state=0).fit(documents, Positives(clicks, queries))
            ours, plain = expected.new_documents_
            assert as_json(*start)["choice"]["new_documents"] == [ours, plain]
            shown = run(*start).stdout
            verb = "Learned from all" if learned else "Compared methods on"
            assert shown.startswith(f"{verb} 40 queries over 90 rows, ")
            assert ("not judged in training" in shown) == learned
        assert describe_new_documents(0.646, 0.66) == (
            "For queries about documents that were not judged in training: 64.6 %, 1.4 points "
            "below the plain distance (66.0 %)."
        )

    def test_tfidf(self, search):
        X, y = make_counts(100, seed=3)
        sp.save_npz("d.npz", X[:70])
        sp.save_npz("q.npz", X[70:])
        table = [[q, d, 1] for q in range(30) for d in range(q % 5, 70, 5) if y[d] == y[70 + q]]
        np.save("r.npy", table)
        options = ("--relevance", "r.npy", "--queries", "q.npz")
        run("fit", "d.npz", *options, "--tfidf", "--prior", "identity", "--holdout", 0)
        metric = Metric.load("metric.safetensors")
        assert metric.first.idf is not None
        found = as_json("evaluate", "metric.safetensors", "d.npz", *options)
        expected = query_scores(metric.transform(X[:70]), table, metric.transform(X[70:]))
        assert found["scores"]["learned"]["ndcg"] == pytest.approx(np.nanmean(expected))

    @pytest.mark.parametrize(
        ("flag", "text", "said"),
        [
            ("positives", "0,1\n99,1\n", "line 2 ([99, 1]) names query 99, which does not exist"),
            ("positives", "0,1\n0,900\n", "line 2 ([0, 900]) names document 900"),
            (
                "positives",
                "0,1,1\n",
                "line 1 must be the numbers of a query and a document, separated by",
            ),
            ("relevance", "0,1\n", "line 1 must be the numbers of a query and a document, and a"),
            ("relevance", "0,1,1\n0,2,-1\n", "line 2 has the grade -1"),
            ("relevance", "q,d,g\n0,1,1\n\n0,1,2\n", "line 2 and line 4 give the same query"),
            ("relevance", "0,1,1\n0,2,nan\n", "line 2 is nan: all numbers must be finite"),
            ("relevance", "0,1,0\n", "no query has a relevant document"),
        ],
    )
    def test_what_is_wrong(self, search, folder, flag, text, said):  # noqa: F811
        (folder / "bad.csv").write_text(text)
        line = refused("fit", "x.npy", f"--{flag}", "bad.csv", "--queries", "q.npy")
        assert line.startswith(f"--{flag}: bad.csv: ")
        assert said in line

    def test_wrong_files(self, search):
        queries = search[1]
        start = ("fit", "x.npy", "--relevance", "r.csv")
        np.save("narrow.npy", queries[:, :5])
        line = refused(*start, "--queries", "narrow.npy")
        assert line.startswith("--queries: narrow.npy has 5 features, but DATA has 8: ")
        line = refused(*start, "--queries", "none.npy")
        assert line.startswith("--queries: none.npy does not exist")
        sp.save_npz("s.npz", sp.eye(3, 4, format="csr"))
        line = refused("fit", "x.npy", "--relevance", "s.npz", "--queries", "q.npy")
        assert "grades must be a matrix of 40 queries × 90 documents; got shape (3, 4)" in line
        np.save("flat.npy", [1, 2, 3])
        line = refused("fit", "x.npy", "--relevance", "flat.npy", "--queries", "q.npy")
        assert line.endswith("document, and a grade; got shape (3,)")
        run(*start, "--queries", "q.npy")


class TestReport:
    def test_queries(self, search):
        known = ("--relevance", "r.csv", "--queries", "q.npy")
        run("fit", "x.npy", *known, "--holdout", 0)
        known = (*known, "--report", "a.html")
        done = run("evaluate", "metric.safetensors", "x.npy", *known)
        assert done.stdout.endswith("Report: a.html\n")
        page = Path("a.html").read_text(encoding="utf-8")
        assert "Recall at k" in page
        assert "query 0</th>" in page
        line = refused("evaluate", "metric.safetensors", "x.npy", *known, "--texts", "r.csv")
        assert "--texts and --image-shape are for rows with labels" in line

    def test_texts_of_a_folder(self, beir):
        run("fit", "beir")
        run("evaluate", "metric.safetensors", "beir", "--report", "a.html")
        assert "a\u2028b</th>" in Path("a.html").read_text(encoding="utf-8")

    def test_pairs_have_a_page_of_their_own(self, pairs):
        line = refused("evaluate", "m.safetensors", "x.npy", "--pairs", "p.csv", "--report", "a")
        assert "use dualmetric match --report" in line


class TestFolder:
    def test_fit_and_evaluate(self, search, beir):
        documents, queries, table = search
        train, test = table[table[:, 0] < 30], table[table[:, 0] >= 30]
        run("fit", "beir", "--prior", "identity", "--holdout", 0)
        same_factor(
            DuRP(prior="identity", random_state=0).fit(documents, Relevance(train, queries))
        )
        found = as_json("evaluate", "metric.safetensors", "beir")
        assert found["rows"]["scored"] == len(np.unique(test[:, 0]))
        transform = Metric.load("metric.safetensors").transform
        expected = query_scores(transform(documents), test, transform(queries))
        assert found["scores"]["learned"]["ndcg"] == pytest.approx(np.nanmean(expected))
        named = ("--relevance", beir / "qrels" / "train.tsv")
        found = as_json("evaluate", "metric.safetensors", "beir", *named)
        assert found["rows"]["scored"] == len(np.unique(train[:, 0]))

    def test_documents_are_rows(self, beir):
        run("fit", "beir", "--prior", "identity")
        run("transform", "metric.safetensors", "beir", "-o", "a.npy")
        assert len(np.load("a.npy")) == 90

    @pytest.mark.parametrize(
        ("name", "line", "said"),
        [
            ("qrels/train.tsv", "nobody\td1\t1", "line 2: the query-id 'nobody' was not found in"),
            ("qrels/train.tsv", "q1\tnothing\t1", "line 2: the corpus-id 'nothing' was not found"),
            (
                "qrels/train.tsv",
                "q1\td1",
                "line 2 must be a query-id, a corpus-id and a score, separated by",
            ),
            ("qrels/train.tsv", "q1\td1\thigh", "line 2 must be a query-id"),
            ("corpus.jsonl", '{"_id": "d0"}', "corpus.jsonl: line 2 repeats the _id 'd0'"),
            ("queries.jsonl", '{"id": "q1"}', "line 2 must be a JSON object with an"),
            ("queries.jsonl", "q1", "line 2 must be a JSON object with an"),
        ],
    )
    def test_wrong_lines(self, beir, name, line, said):
        path = beir / name
        first, _, *others = path.read_text().split("\n")
        path.write_text("\n".join([first, line, *others]))
        found = refused("fit", "beir")
        assert str(path.name) in found
        assert said in found

    def test_wrong_files(self, beir):
        for name in ("queries", "corpus"):
            path = beir / f"{name}.npy"
            rows = np.load(path)
            np.save(path, rows[1:])
            line = refused("fit", "beir")
            assert line == (
                f"beir/{name}.npy has {len(rows) - 1} rows for the {len(rows)} lines of "
                f"beir/{name}.jsonl: give one row per line, in the same order"
            )
            path.unlink()
            line = refused("fit", "beir")
            assert line.startswith(f"beir has no {name}.npy or {name}.npz: put the vectors of")
            np.save(path, rows)
        line = refused("fit", "beir", "--queries", "q.npy")
        assert line.startswith("--queries does not apply to beir, a folder with queries and")
        line = refused("fit", "beir", "--pairs", "p.csv")
        assert line.startswith("--pairs does not apply to beir")
        (beir / "qrels" / "train.tsv").unlink()
        assert "train.tsv does not exist" in refused("fit", "beir")
        (beir / "queries.jsonl").unlink()
        assert "queries.jsonl does not exist" in refused("fit", "beir")
