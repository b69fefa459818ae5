"""The commands for people's own data: what they compute, print and write, and how they refuse."""

import errno
import importlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from rich.progress import Progress
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from typer.testing import CliRunner

from dualmetric import (
    OASIS,
    DuRP,
    Metric,
    MetricCV,
    __version__,
    cli,
    knn_accuracy,
    mean_average_precision,
    metric,
)
from dualmetric._options import option, options_of, with_options
from dualmetric.cli import _learning
from dualmetric.cli._data import read_texts
from dualmetric.cli._learning import hold_out
from dualmetric.cli._methods import METHODS
from dualmetric.cli._progress import Steps, _Left
from dualmetric.cli._scores import verdict
from dualmetric.io import rowfiles
from dualmetric.io.rowfiles import read_rows, write_rows
from dualmetric.supervision import Comparisons, Triplets
from makers import make_classes, make_counts
from terminal import shown_on_terminal

doctor = importlib.import_module("dualmetric.cli.doctor")  # the package has a function so named

DOCS = Path(__file__).parents[1] / "docs" / "command-line.md"
NAMES = ("green", "blue", "noise a", "noise b", "noise c", "[bold]odd")
CLASSES = ("red", "green", "blue")
METRICS = ("map", "precision_at_1", "precision_at_10", "knn", "hit_rate")
COMMANDS = [
    *("fit", "evaluate", "neighbors", "explain", "transform", "match", "duplicates", "export"),
    *("info", "doctor"),
]


def make_rows(n=300, seed=0):
    """Rows whose class shows in two features; the other four vary more."""
    return make_classes(n, len(NAMES), shift=2.0, spread=[0.3, 0.3, 3, 3, 3, 3], seed=seed)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUALMETRIC_DATA", raising=False)
    monkeypatch.setenv("DUALMETRIC_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A data file with a split, and a metric learned from it."""
    folder = tmp_path_factory.mktemp("shared")
    X, y = make_rows()
    arrays = {"train_idx": np.arange(200), "test_idx": np.arange(200, 300)}
    np.savez(folder / "d.npz", X=X, y=y, class_names=CLASSES, feature_names=NAMES, **arrays)
    run(
        *("fit", folder / "d.npz", "-o", folder / "m.safetensors"),
        *("--shrinkage", 0.3, "--rank", 2, "--json", folder / "m.json"),
    )
    return folder


@pytest.fixture
def data(shared):
    return shared / "d.npz"


@pytest.fixture
def learned(shared):
    return shared / "m.safetensors"


def load(path):
    with np.load(path) as file:
        return dict(file)


def call(*arguments):
    """Run a command; a fit that names no method is that of DuRP, which is quick."""
    if arguments[0] == "fit" and "--method" not in arguments:
        arguments = (*arguments, "--method", "durp")
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


def run(*arguments):
    done = call(*arguments)
    assert done.exit_code == 0, done.stderr
    assert "\x1b" not in done.output  # colours are for terminals
    return done


def as_json(*arguments):
    return json.loads(run(*arguments, "--json", "-").stdout)


def refused(*arguments):
    """The one line that an error is; nothing on standard output."""
    done = call(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("dualmetric: ")
    return line.removeprefix("dualmetric: ")


def left(folder):
    return sorted(path.name for path in folder.iterdir())


class TestFit:
    def test_the_metric_is_that_of_the_estimator(self, data, learned):
        file = load(data)
        X, y = file["X"][:200], file["y"][:200]
        expected = DuRP(n_components=2, shrinkage=0.3, random_state=0).fit(X, y).metric_
        found = Metric.load(learned)
        np.testing.assert_array_equal(found.factor, expected.factor)
        assert (found.kind, found.feature_names, found.idf) == ("euclidean", NAMES, None)
        parameters = dict(expected.info["parameters"])
        del parameters["verbose"]
        assert found.info["parameters"] == parameters
        assert found.info["method"] == "DuRP"
        assert found.info["version"] == __version__
        assert found.info["class_names"] == list(CLASSES)

    def test_scores_are_those_of_held_out_rows(self, data, learned, shared):
        file = load(data)
        X, y = file["X"], file["y"]
        scores = Metric.load(learned).info["scores"]
        assert list(scores) == ["euclidean", "cosine", "learned"]
        rows = {
            "euclidean": X,
            "cosine": X / np.linalg.norm(X, axis=1, keepdims=True),
            "learned": Metric.load(learned).transform(X),
        }
        for name, Z in rows.items():
            assert scores[name]["map"] == pytest.approx(mean_average_precision(Z[200:], y[200:]))
            expected = knn_accuracy(Z[:200], y[:200], Z[200:], y[200:])
            assert scores[name]["knn"] == pytest.approx(expected)
            D = np.linalg.norm(Z[200:, None] - Z[None, 200:], axis=2)
            np.fill_diagonal(D, np.inf)
            near = y[200:][np.argsort(D, axis=1)[:, :10]]
            expected = (near == y[200:, None]).any(axis=1).mean()
            assert scores[name]["hit_rate"] == pytest.approx(expected)
            same = near == y[200:, None]
            assert scores[name]["precision_at_1"] == pytest.approx(same[:, 0].mean())
            assert scores[name]["precision_at_10"] == pytest.approx(same.mean())
        written = json.loads((shared / "m.json").read_text())
        assert written["scores"] == scores
        assert written["better"] is True
        assert written["rows"] == {"used": 200, "given": 200, "held_out": 100}

    def test_what_it_prints(self, data, folder):
        done = run("fit", data, "--shrinkage", 0.3, "-o", "new/folder/a.safetensors")
        assert "On 100 rows that were not learned from:" in done.stdout
        for line in (
            "plain Euclidean",
            "plain cosine",
            "learned",
            "mAP %",
            "5-NN %",
            "P@1 %",
            "P@10 %",
        ):
            assert line in done.stdout
        first, *_, said, last = done.stdout.splitlines()
        assert re.fullmatch(
            r"Learned from 200 of 300 rows, 100 held out \(given by test_idx\), in \d+\.\d s\.",
            first,
        )
        assert re.match(
            r"mAP \d+\.\d %, up from \d+\.\d % with the plain \w+ distance "
            r"\(95 % interval of the gain: \d+\.\d to \d+\.\d points\)\.",
            said,
        )
        assert re.fullmatch(
            r"Metric: new/folder/a\.safetensors, \d+\.\d kB, rank \d of 6 features", last
        )
        assert done.stderr == ""
        assert left(folder / "new" / "folder") == ["a.safetensors"]

    def test_same_seed_same_file(self, data, folder):
        for name in ("a", "b"):
            run("fit", data, "-o", name, "--seed", 3)
        assert (folder / "a").read_bytes() == (folder / "b").read_bytes()

    @pytest.mark.parametrize("method", METHODS)
    def test_methods(self, data, method):
        found = as_json("fit", data, "--method", method)
        expected = "RidgeMetric" if method == "auto" else METHODS[method]
        assert found["method"] == expected
        assert Metric.load("metric.safetensors").info["method"] == expected
        assert (found["recommendation"] is not None) == (method == "auto")
        assert (found["duality_gap"] is None) == (method not in ("durp", "duori", "srp", "spca"))

    def test_auto_chooses_what_is_not_given(self, data):
        # called as users do, without naming it
        done = CliRunner().invoke(cli.app, ["fit", str(data), "--shrinkage", "0.3", "--rank", "2"])
        assert done.exit_code == 0, done.stderr
        assert "Chose DuRP (projections 50, rank 2, triplets 10,000, shrinkage 0.3" in done.stdout
        parameters = Metric.load("metric.safetensors").info["parameters"]
        assert (parameters["shrinkage"], parameters["n_components"]) == (0.3, 2)

    def test_options(self, data):
        found = as_json(
            *("fit", data, "--method", "durp", "--rank", 3, "--shrinkage", 0.5),
            *("--distance", "cosine", "--projections", 4, "--sampler", "neighbors", "--seed", 7),
            *("--power", 0.25, "--lift", "rbf"),
        )
        expected = {
            "n_components": 3,
            "shrinkage": 0.5,
            "distance": "cosine",
            "n_projections": 4,
            "sampler": "neighbors",
            "random_state": 7,
            "power": 0.25,
            "lift": "rbf",
        }
        assert expected.items() <= found["parameters"].items()
        assert found["distance"] == "cosine"
        assert found["rank"] <= 3

    @pytest.mark.parametrize(
        ("method", "option", "value"),
        [
            ("oasis", "--shrinkage", 0.5),
            ("duori", "--projections", 5),
            ("lmnn", "--sampler", "active"),
            ("euclidean", "--rank", 3),
            ("oasis", "--power", 0.5),
            ("lmnn", "--lift", "none"),
            ("durp", "--alpha", 1.0),
        ],
    )
    def test_options_that_do_not_go_with_a_method(self, data, method, option, value):
        line = refused("fit", data, "--method", method, option, value)
        assert line == f"{option} does not apply to --method {method}: leave it out"

    @pytest.mark.parametrize("method", ["durp", "auto"])
    @pytest.mark.parametrize(
        ("option", "value", "said"),
        [
            ("--rank", "0", "a whole number of at least 1; got 0"),
            ("--rank", "many", "a whole number of at least 1; got 'many'"),
            ("--rank", "2.5", "a whole number of at least 1; got '2.5'"),
            ("--shrinkage", "1.5", "a finite number above 0 and at most 1; got 1.5"),
            ("--shrinkage", "none", "a finite number above 0 and at most 1; got None"),
            ("--power", "nan", "a finite number of at least -1; got nan"),
            ("--projections", "0", "a whole number of at least 1; got 0"),
            ("--max-rows", "1", "a whole number of at least 2, or none; got 1"),
            ("--distance", "manhattan", "one of 'euclidean', 'cosine'; got 'manhattan'"),
            ("--sampler", "best", "one of "),
        ],
    )
    def test_values_are_checked_by_the_declaration(self, folder, method, option, value, said):
        line = refused("fit", "absent.npz", "--method", method, option, value)
        assert line.startswith(f"{option} must be {said}")

    def test_none_is_no_value_of_a_flag(self):
        line = refused("fit", "absent.npz", "--method", "auto", "--scoring", "f1")
        assert line.startswith("--scoring must be one of 'map', 'knn', ")
        line = refused("fit", "absent.npz", "--method", "auto", "--max-components", 0)
        assert line == "--max-components must be a whole number of at least 1; got 0"

    def test_flags_follow_from_the_declarations(self, data, monkeypatch):
        @with_options
        class Spiced(DuRP):
            hot_spice: float = option("float", default=1.0, low=0, help="h", flag="Adds spice.")

        monkeypatch.setattr("dualmetric.estimators.DuRP", Spiced)
        assert re.search("--hot-spice +NUMBER +Adds spice.", run("fit", "--help").stdout)
        assert as_json("fit", data, "--hot-spice", 0.5)["parameters"]["hot_spice"] == 0.5
        line = refused("fit", data, "--hot-spice", -1)
        assert line == "--hot-spice must be a finite number of at least 0; got -1.0"
        line = refused("fit", data, "--hot-spice", 1, "--method", "srp")
        assert line == "--hot-spice does not apply to --method srp: leave it out"

    def test_flags_have_the_help_of_the_declarations(self):
        shown = " ".join(re.sub("[│╭╮╰╯─]", " ", run("fit", "--help").stdout).split())
        options = {**options_of(DuRP), "scoring": options_of(MetricCV)["scoring"]}
        flags = {"n_components": "rank", "n_projections": "projections"}
        for name, declared in options.items():
            flag = "--" + flags.get(name, name).replace("_", "-")
            assert (f"{flag} N" in shown) == bool(declared.flag), name
            assert declared.flag in shown

    def test_prior(self, data, folder):
        found = as_json("fit", data, "--prior", "identity", "--distance", "cosine")
        assert found["parameters"]["prior"] == "identity"
        assert found["distance"] == "cosine"
        near = as_json("neighbors", "metric.safetensors", data, "--query", 3)
        assert near["plain"] == "cosine"
        X, y = load(data)["X"][:200], load(data)["y"][:200]
        expected = DuRP(prior="identity", distance="cosine", random_state=0).fit(X, y).metric_
        np.testing.assert_array_equal(Metric.load("metric.safetensors").factor, expected.factor)
        (folder / "metric.safetensors").unlink()
        for method in ("durp", "auto"):
            line = refused("fit", data, "--prior", "flat", "--method", method)
            assert line == "--prior must be one of 'identity', 'whitening'; got 'flat'"
        line = refused("fit", data, "--prior", "oddly", "--method", "srp")
        assert line == "--prior does not apply to --method srp: leave it out"
        line = refused("fit", data, "--prior", "whitening")
        assert line.startswith("--prior whitening needs a --shrinkage below 1")
        line = refused("fit", data, "--prior", "identity", "--shrinkage", 0.3)
        assert line.startswith(
            "--shrinkage 0.3 can be used with --prior none or --prior whitening only: "
        )
        assert line.endswith(" or --shrinkage 1.0")
        assert not left(folder)

    def test_auto_takes_the_prior(self, data):
        found = as_json("fit", data, "--method", "auto", "--prior", "identity")
        X, y = load(data)["X"][:200], load(data)["y"][:200]
        expected = MetricCV(priors=["identity"], random_state=0).fit(X, y)
        assert found["recommendation"] == expected.recommend()
        assert found["choice"]["score"] == expected.expected_score_
        assert found["choice"]["new_documents"] is None

    def test_cv(self, data):
        few = ("--method", "auto", "--prior", "identity")
        line = refused("fit", data, *few, "--cv", "classes")
        assert line.startswith("--cv classes learns from some of the classes")
        assert line.endswith("; y has 3: leave --cv out")
        X, y = make_classes(120, 6, 6, spread=[0.5, 0.5, 3, 3, 3, 3])
        np.savez("six.npz", X=X, y=y, train_idx=np.arange(90), test_idx=np.arange(90, 120))
        for given, cv in (("classes", "classes"), ("3", 3)):
            found = as_json("fit", "six.npz", *few, "--cv", given)
            expected = MetricCV(priors=["identity"], cv=cv, random_state=0).fit(X[:90], y[:90])
            assert found["choice"]["score"] == expected.expected_score_
        shown = run("fit", "six.npz", *few, "--cv", "classes", "--standardize").stdout
        assert " on held-out classes" in shown
        assert " of standardized columns" in shown
        assert "The table is for new rows of known classes." in shown
        assert "On 30 rows, used neither for learning nor for this choice:" in shown
        said = (
            "--cv must be 'classes' or a number of folds of 2 or more when learning from labels; "
            "got "
        )
        for wrong in ("queries", "1", "x"):
            assert refused("fit", data, *few, "--cv", wrong) == f"{said}{wrong!r}"
        line = refused("fit", data, "--cv", 3)
        assert line == "--cv does not apply to --method durp: leave it out"

    def test_scoring(self, data):
        few = ("--method", "auto", "--rank", 2, "--shrinkage", 0.3, "--lift", "none")
        found = as_json("fit", data, *few, "--scoring", "knn")
        assert "right neighbours" in found["recommendation"]
        line = refused("fit", data, *few, "--scoring", "agreement")
        assert line == "--scoring agreement does not apply to labels: use 'map' or 'knn' or 'both'"

    def test_candidates_that_are_not_tried_are_named_by_their_flag(self, data):
        line = refused("fit", data, "--method", "auto", "--prior", "identity", "--power", 0.4)
        assert line.startswith("--power has no effect here, because only ")
        assert line.endswith("are tried: leave out --power")

    def test_auto_takes_the_lift_and_the_power(self, data):
        options = ("--shrinkage", 0.3, "--rank", 2, "--power", 0.4)
        for lift, landmarks in (("none", None), ("rbf", 200)):
            found = as_json("fit", data, "--method", "auto", "--lift", lift, *options)
            assert found["landmarks"] == landmarks
            assert found["parameters"]["power"] == 0.4
            assert (Metric.load("metric.safetensors").lift is None) == (lift == "none")

    def test_rank_of_a_lifted_metric(self, data):
        done = run("fit", data, "--lift", "rbf", "--rank", 2)
        assert done.stdout.endswith("kB, rank 2 over 200 landmarks\n")
        shown = run("info", "metric.safetensors").stdout
        assert re.search("^rank +2 over 200 landmarks$", shown, re.M)
        assert re.search("^lift +kernel values with 200 landmarks$", shown, re.M)

    def test_the_remedy_for_a_lifted_metric_is_an_option_of_fit(self, data):
        run("fit", data, "--lift", "rbf", "-o", "m")
        pytest.importorskip("faiss")
        for name, options in (
            ("a.npy", "--for linear --distance euclidean"),
            ("a.faiss", "--for faiss"),
        ):
            line = refused("export", "m", "-o", name)
            assert line.endswith(f"DATA -o vectors.npy, or fit again with {options}")
            run("fit", data, "--method", "auto", *options.split(), "-o", "linear")
            run("export", "linear", "-o", name)
        line = refused("explain", "m", data, 0, 1)
        assert line.endswith("cannot be split by feature: fit again with --for explainable")

    def test_wrong_lifts(self, data, folder):
        line = refused("fit", data, "--lift", "poly")
        assert line == "--lift must be one of 'none', 'rbf'; got 'poly'"
        X, y = make_rows()
        write_rows("a.svm", np.pad(X, ((0, 0), (4000, 0))), y)
        for method in ("durp", "auto"):
            line = refused("fit", "a.svm", "--lift", "rbf", "--method", method)
            assert "4,000" in line
            assert "sparse" in line
        assert left(folder) == ["a.svm"]

    def test_one_class(self, folder):
        np.savez("a.npz", X=make_rows(30)[0], y=np.zeros(30, dtype=np.int64))
        assert "a.npz: all " in refused("fit", "a.npz")

    def test_unknown_method(self, data, folder):
        line = refused("fit", data, "--method", "itml")
        assert line == f"--method: 'itml' is not known; use one of {', '.join(METHODS)}"
        assert not left(folder)

    def test_not_better(self, data):
        done = run("fit", data, "--method", "euclidean")
        assert "│ plain Euclidean (saved) │" in done.stdout
        for text in (done.stdout, run("evaluate", "metric.safetensors", data).stdout):
            # nothing was learned, so there is no verdict
            assert "│ learned" not in text
            assert "with the plain" not in text
        run("fit", data, "--method", "euclidean", "--distance", "cosine", "--standardize")
        shown = run("info", "metric.safetensors").stdout
        assert "│ plain cosine, standardized, centred (saved) │" in shown
        assert as_json("fit", data, "--method", "euclidean")["better"] is False

    def test_labels_as_text(self):
        X, y = make_rows()
        write_rows("a.csv", X, np.array(CLASSES)[y])
        found = as_json("fit", "a.csv")
        assert found["rows"] == {"used": 210, "given": 210, "held_out": 90}
        assert found["better"] is True

    def test_labels_in_a_file(self):
        X, y = make_rows()
        np.save("x.npy", X)
        np.save("y.npy", y)
        by_file = as_json("fit", "x.npy", "--labels", "y.npy")
        np.savez("a.npz", X=X, y=y)
        inside = as_json("fit", "a.npz")
        assert by_file["scores"] == inside["scores"]

    def test_labels_in_a_column(self, folder):
        X, y = make_rows()
        write_rows("a.csv", X, y)
        text = (folder / "a.csv").read_text().replace("label", "colour")
        (folder / "a.csv").write_text(text)
        found = as_json("fit", "a.csv", "--labels", "colour")
        assert found["n_features"] == 6
        (folder / "y.txt").write_text("\n".join(map(str, y)))
        assert as_json("fit", "a.csv", "--labels", "y.txt")["n_features"] == 7

    def test_no_labels(self, folder):
        np.save("x.npy", make_rows()[0])
        line = refused("fit", "x.npy")
        assert line.startswith("x.npy has no labels to learn from: name a file or column with")
        assert left(folder) == ["x.npy"]

    @pytest.mark.usefixtures("folder")
    def test_no_bytes_are_kept_where_learning_fails(self):
        np.savez("a.npz", X=np.ones((20, 3)), y=np.arange(20) % 2)
        assert "all rows of X are the same" in refused("fit", "a.npz")
        assert left(Path()) == ["a.npz"]

    def test_warnings_are_notes(self, folder):
        X, y = make_rows(30)
        np.savez("a.npz", X=X, y=y)
        done = run("fit", "a.npz", "--holdout", 0)
        assert re.match(r"dualmetric: note: only [\d,]+ active triplets were found", done.stderr)
        assert "UserWarning" not in done.stderr


class TestHeldOut:
    def test_file_without_a_split(self):
        X, y = make_rows()
        np.savez("a.npz", X=X, y=y)
        assert as_json("fit", "a.npz")["rows"] == {"used": 210, "given": 210, "held_out": 90}
        found = as_json("fit", "a.npz", "--holdout", 0.2)
        assert found["rows"] == {"used": 240, "given": 240, "held_out": 60}

    def test_a_share_that_is_asked_for_comes_before_the_split(self, data):
        assert as_json("fit", data, "--holdout", 0.2)["rows"] == {
            "used": 240,
            "given": 240,
            "held_out": 60,
        }

    def test_nothing(self, data):
        done = run("fit", data, "--holdout", 0)
        assert "No test scores, because of --holdout 0.\n" in done.stdout
        found = as_json("fit", data, "--holdout", 0)
        assert (found["scores"], found["better"]) == (None, None)
        assert found["rows"] == {"used": 300, "given": 300, "held_out": 0}
        assert "scores" not in Metric.load("metric.safetensors").info
        X, y = make_rows()
        np.testing.assert_array_equal(
            Metric.load("metric.safetensors").factor, DuRP(random_state=0).fit(X, y).metric_.factor
        )

    def test_classes_are_split_alike(self):
        y = np.repeat([0, 1, 2], [60, 30, 10])
        train, test = hold_out(y, 0.3, seed=0)
        assert np.bincount(y[test]).tolist() == [18, 9, 3]
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(100))
        np.testing.assert_array_equal(test, np.sort(test))
        assert not np.array_equal(test, hold_out(y, 0.3, seed=1)[1])
        np.testing.assert_array_equal(test, hold_out(y, 0.3, seed=0)[1])

    def test_rows_alone_in_their_class_are_learned_from(self):
        y = np.array([0, 1, 1, 1, 1, 2, 2, 2, 2, 3])
        train, test = hold_out(y, 0.5, seed=0)
        assert {0, 9} <= set(train.tolist())
        assert sorted(y[test]) == [1, 1, 2, 2]

    def test_more_classes_than_rows_to_hold_out(self):
        y = np.repeat(np.arange(50), 2)
        train, test = hold_out(y, 0.1, seed=0)
        assert len(test) == 10
        assert len(train) == 90

    def test_too_few(self):
        np.savez("a.npz", X=make_rows(6)[0], y=np.arange(6))
        arguments = ("fit", "a.npz", "--method", "euclidean")
        assert refused(*arguments).startswith("only 0 of 6 rows share their class")

    @pytest.mark.parametrize("method", ["auto", "durp", "ridge"])
    def test_labels_that_tell_nothing(self, method):
        np.savez("a.npz", X=make_rows(6)[0], y=np.arange(6))
        for holdout in ((), ("--holdout", 0)):
            assert refused("fit", "a.npz", "--method", method, *holdout) == (
                "a.npz: every row has a class of its own (6 classes in 6 rows): are these ids "
                "instead of labels? Give labels that some rows share"
            )
        Path("one.txt").write_text("a\n" * 6)
        assert refused("fit", "a.npz", "--method", method, "--labels", "one.txt") == (
            "one.txt: all 6 labels are a: give labels of at least two classes"
        )

    def test_a_method_that_the_library_recommends_is_a_flag(self):
        np.savez("a.npz", X=make_rows(6)[0], y=[0, 0, 1, 2, 3, 4])
        line = refused("fit", "a.npz", "--method", "auto", "--holdout", 0)
        assert "use --method ridge, which chooses its penalty" in line

    def test_nothing_to_score(self):
        X, y = make_rows(60)
        np.savez("a.npz", X=X, y=y, train_idx=np.arange(57), test_idx=np.arange(57, 60))
        done = run("fit", "a.npz")
        assert "no class has two held-out rows" in done.stderr
        assert "No scores" in done.stdout

    def test_another_file(self, data):
        X, y = make_rows(90, seed=1)
        np.savez("t.npz", X=X, y=y)
        found = as_json("fit", data, "--test", "t.npz")
        assert found["rows"] == {"used": 200, "given": 200, "held_out": 90}
        expected = mean_average_precision(Metric.load("metric.safetensors").transform(X), y)
        assert found["scores"]["learned"]["map"] == pytest.approx(expected)
        np.savez("u.npz", X=X, y=y, train_idx=np.arange(60), test_idx=np.arange(60, 90))
        assert as_json("fit", data, "--test", "u.npz")["rows"]["held_out"] == 30

    def test_svmlight_files_of_two_widths(self, folder):
        X, y = make_rows()
        X[200:, -1] = 0
        write_rows("train.svm", X[:200], y[:200])
        write_rows("test.svm", X[200:], y[200:])
        found = as_json("fit", "train.svm", "--test", "test.svm")
        assert found["n_features"] == 6
        assert found["rows"] == {"used": 200, "given": 200, "held_out": 100}

    def test_wrong_test_files(self, data):
        X, y = make_rows(30)
        np.savez("narrow.npz", X=X[:, :4], y=y)
        line = refused("fit", data, "--test", "narrow.npz")
        assert line == (
            "--test: narrow.npz has 4 features, but DATA has 6: give rows with the same features"
        )
        np.save("t.npy", X)
        assert refused("fit", data, "--test", "t.npy").startswith("--test: t.npy has no labels")
        assert "cannot be combined" in refused("fit", data, "--test", "t.npy", "--holdout", 0.1)

    def test_many_rows_are_sampled(self, data, monkeypatch):
        monkeypatch.setattr(_learning, "SCORED_ROWS", 20)
        monkeypatch.setattr(_learning, "VOTING_ROWS", 30)
        done = run("fit", data, "--json", "a.json")
        assert done.stderr == (
            "dualmetric: note: scores are computed on 20 held-out rows chosen at random\n"
        )
        assert json.loads(Path("a.json").read_text())["rows"]["held_out"] == 20

    def test_mapped_files(self, monkeypatch):
        X, y = make_rows()
        np.save("x.npy", X)
        np.save("y.npy", y)
        whole = as_json("fit", "x.npy", "--labels", "y.npy")
        monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
        assert isinstance(read_rows("x.npy").X, np.memmap)
        mapped = as_json("fit", "x.npy", "--labels", "y.npy")
        assert mapped["scores"] == whole["scores"]
        fewer = as_json("fit", "x.npy", "--labels", "y.npy", "--max-rows", 60)
        assert fewer["rows"] == {"used": 60, "given": 210, "held_out": 90}


class TestMaxRows:
    @pytest.mark.parametrize("method", ["durp", "auto"])
    def test_fewer_rows(self, data, method):
        few = ("--rank", 2, "--shrinkage", 0.3, "--method", method)
        done = run("fit", data, "--max-rows", 60, *few, "--json", "a.json")
        assert "Learned from 60 of 300 rows (limited by --max-rows), 100 held out" in done.stdout
        found = json.loads(Path("a.json").read_text())
        assert found["rows"] == {"used": 60, "given": 200, "held_out": 100}
        learned = Metric.load("metric.safetensors")
        assert learned.info["rows"] == found["rows"]
        assert as_json("info", "metric.safetensors")["rows"] == found["rows"]
        shown = run("info", "metric.safetensors").stdout
        assert re.search("^rows +60 of 200 learned from, 100 held out$", shown, re.M)
        if method == "durp":
            X, y = load(data)["X"][:200], load(data)["y"][:200]
            model = DuRP(n_components=2, shrinkage=0.3, max_rows=60, random_state=0)
            with pytest.warns(UserWarning, match="active triplets were found"):
                model.fit(X, y)
            np.testing.assert_array_equal(learned.factor, model.metric_.factor)

    def test_all_rows(self, data):
        done = run("fit", data, "--max-rows", "none")
        assert "--max-rows" not in done.stdout
        assert Metric.load("metric.safetensors").info["parameters"]["max_rows"] is None

    @pytest.mark.parametrize("method", ["durp", "euclidean"])
    def test_mapped_counts(self, method, monkeypatch):
        counts, y = make_counts(300)
        np.save("x.npy", counts.toarray())
        np.save("y.npy", y)
        arguments = ("fit", "x.npy", "--labels", "y.npy", "--tfidf", "--distance", "cosine")
        run(*arguments, "--method", method, "-o", "a")
        monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
        monkeypatch.setattr("dualmetric._rows.stored._BLOCK_BYTES", 40 * 8 * 32)
        assert isinstance(read_rows("x.npy").X, np.memmap)
        run(*arguments, "--method", method, "-o", "b")
        whole, mapped = Metric.load("a"), Metric.load("b")
        np.testing.assert_array_equal(mapped.idf, whole.idf)
        np.testing.assert_allclose(mapped.centre, whole.centre, rtol=1e-12)
        if method == "durp":
            np.testing.assert_array_equal(mapped.factor, whole.factor)


class TestTriplets:
    @pytest.fixture
    def triples(self):
        y = make_rows()[1]
        picks = np.random.default_rng(0).integers(300, size=(3000, 3))
        anchor, positive, negative = picks.T
        good = (y[anchor] == y[positive]) & (y[anchor] != y[negative]) & (anchor != positive)
        return picks[good]

    @pytest.mark.parametrize("name", ["t.npy", "t.npz", "t.csv", "headed.csv"])
    def test_without_labels(self, triples, name, folder):
        X = make_rows()[0]
        np.save("x.npy", X)
        np.save("t.npy", triples)
        np.savez("t.npz", triplets=triples, remark="of people")
        np.savetxt("t.csv", triples, fmt="%d", delimiter=",")
        (folder / "headed.csv").write_text("a,b,c\n" + (folder / "t.csv").read_text())
        done = run("fit", "x.npy", "--triplets", name, "--json", "a.json")
        assert "No scores: no rows with labels were held out." in done.stdout
        found = json.loads((folder / "a.json").read_text())
        assert (found["scores"], found["rows"]) == (
            None,
            {"used": 300, "given": 300, "held_out": 0},
        )
        expected = DuRP(random_state=0).fit(X, Triplets(triples)).metric_
        np.testing.assert_array_equal(Metric.load("metric.safetensors").factor, expected.factor)

    def test_labels_serve_the_scores(self, triples, data, folder):
        np.save("t.npy", triples)
        done = run("fit", data, "--triplets", "t.npy", "--json", "a.json")
        inside = triples[(triples < 200).all(axis=1)]
        assert done.stderr == (
            f"dualmetric: note: {len(inside)} of {len(triples)} triplets are used: the others name "
            "held-out rows\n"
        )
        found = json.loads((folder / "a.json").read_text())
        assert found["rows"] == {"used": 200, "given": 200, "held_out": 100}
        assert found["scores"] is not None
        X = load(data)["X"][:200]
        expected = DuRP(random_state=0).fit(X, Triplets(inside)).metric_
        np.testing.assert_array_equal(Metric.load("metric.safetensors").factor, expected.factor)

    def test_scores_of_a_test_file_alone(self, triples, folder):
        X, y = make_rows()
        np.save("x.npy", X)
        np.save("t.npy", triples)
        np.savez("test.npz", X=X, y=y)
        found = as_json("fit", "x.npy", "--triplets", "t.npy", "--test", "test.npz")
        vectors = Metric.load("metric.safetensors").transform(X)
        expected = mean_average_precision(vectors, y)
        assert found["scores"]["learned"]["map"] == pytest.approx(expected)

    def test_mapped_file(self, triples, monkeypatch):
        np.save("x.npy", make_rows()[0])
        np.save("t.npy", triples[:40])
        whole = as_json("fit", "x.npy", "--triplets", "t.npy", "--max-rows", 50)
        assert whole["rows"]["used"] >= len(np.unique(triples[:40]))
        expected = Metric.load("metric.safetensors").factor
        monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
        found = as_json("fit", "x.npy", "--triplets", "t.npy", "--max-rows", 50)
        assert found["rows"] == whole["rows"]
        np.testing.assert_array_equal(Metric.load("metric.safetensors").factor, expected)

    def test_other_learners(self, triples, data):
        np.save("t.npy", triples[(triples < 200).all(axis=1)])
        run("fit", data, "--triplets", "t.npy", "--method", "oasis")
        expected = OASIS(random_state=0).fit(load(data)["X"][:200], Triplets(np.load("t.npy")))
        found = Metric.load("metric.safetensors")
        np.testing.assert_array_equal(found.factor, expected.metric_.factor)
        for method in ("lmnn", "ridge", "euclidean"):
            line = refused("fit", data, "--triplets", "t.npy", "--method", method)
            assert line.startswith(f"--triplets does not apply to --method {method}")

    def test_auto(self, triples, folder):
        np.save("x.npy", make_rows()[0])
        np.save("t.npy", triples)
        few = ("--rank", 2, "--shrinkage", 0.3, "--lift", "none")
        found = as_json("fit", "x.npy", "--triplets", "t.npy", "--method", "auto", *few)
        assert "agreement" in found["recommendation"]
        options = {"ranks": [2], "shrinkages": [0.3], "lifts": [None], "random_state": 0}
        expected = MetricCV(**options).fit(make_rows()[0], Triplets(triples))
        assert found["recommendation"] == expected.recommend()
        found = Metric.load("metric.safetensors")
        np.testing.assert_array_equal(found.factor, expected.metric_.factor)
        np.save("t.npy", triples[:4])
        line = refused("fit", "x.npy", "--triplets", "t.npy", "--method", "auto")
        assert "--method auto needs at least eight triplets to compare settings; got 4. " in line

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("0,1,2\n0,1\n", "line 2 must be 3 row numbers, separated by commas; got '0,1'"),
            ("0,1,2\n0,1,red\n", "line 2 must be 3 row numbers"),
            ("0,1,2\n\n0,1,9999\n", "line 3 ([0, 1, 9999]) names a row that DATA does not have"),
            ("0,0,1\n", "anchor and positive are the same row"),
            ("", "triplets is empty"),
        ],
    )
    def test_what_is_wrong(self, data, folder, text, said):
        (folder / "t.csv").write_text(text)
        line = refused("fit", data, "--triplets", "t.csv")
        assert line.startswith("--triplets: t.csv: ")
        assert said in line

    def test_wrong_files(self, data, folder):
        assert "t.npy does not exist" in refused("fit", data, "--triplets", "t.npy")
        np.save("t.npy", np.zeros((4, 3)))
        assert "must hold integers" in refused("fit", data, "--triplets", "t.npy")
        np.savez("t.npz", a=[1], b=[2])
        assert "one named 'triplets'" in refused("fit", data, "--triplets", "t.npz")
        (folder / "t.json").write_text("[]")
        assert "t.json: it must be a .npy, .npz, .parquet, .csv or .tsv file; got .json" in refused(
            "fit", data, "--triplets", "t.json"
        )
        np.save("t.npy", [[200, 203, 201]])
        assert "all of them name held-out rows" in refused("fit", data, "--triplets", "t.npy")


class TestComparisons:
    @pytest.fixture
    def index(self):
        y = make_rows()[1]
        picks = np.random.default_rng(0).integers(300, size=(3000, 4))
        a, b, c, d = picks.T
        return picks[(y[a] == y[b]) & (y[c] != y[d]) & (a != b)]

    @pytest.mark.parametrize("name", ["c.npy", "c.npz", "c.csv"])
    def test_without_labels(self, index, name):
        X = make_rows()[0]
        np.save("x.npy", X)
        np.save("c.npy", index)
        np.savez("c.npz", comparisons=index, remark="of people")
        np.savetxt("c.csv", index, fmt="%d", delimiter=",")
        found = as_json("fit", "x.npy", "--comparisons", name)
        assert found["rows"] == {"used": 300, "given": 300, "held_out": 0}
        expected = DuRP(random_state=0).fit(X, Comparisons(index)).metric_
        np.testing.assert_array_equal(Metric.load("metric.safetensors").factor, expected.factor)

    def test_labels_serve_the_scores(self, index, data, folder):
        np.save("c.npy", index)
        done = run("fit", data, "--comparisons", "c.npy", "--json", "a.json")
        inside = index[(index < 200).all(axis=1)]
        assert done.stderr == (
            f"dualmetric: note: {len(inside):,} of {len(index):,} comparisons are used: the others "
            "name held-out rows\n"
        )
        found = json.loads((folder / "a.json").read_text())
        assert found["better"] is True
        expected = DuRP(random_state=0).fit(load(data)["X"][:200], Comparisons(inside)).metric_
        np.testing.assert_array_equal(Metric.load("metric.safetensors").factor, expected.factor)

    def test_auto(self, index):
        np.save("x.npy", make_rows()[0])
        np.save("c.npy", index)
        few = ("--rank", 2, "--shrinkage", 0.3, "--lift", "none", "--method", "auto")
        found = as_json("fit", "x.npy", "--comparisons", "c.npy", *few)
        assert "agreement" in found["recommendation"]

    def test_what_is_wrong(self, data, folder):
        (folder / "c.csv").write_text("0,1,2,3\n0,1,2\n")
        line = refused("fit", data, "--comparisons", "c.csv")
        assert line == (
            "--comparisons: c.csv: line 2 must be 4 row numbers, separated by commas; got '0,1,2'"
        )
        (folder / "c.csv").write_text("0,0,1,2\n")
        assert "a and b are the same row" in refused("fit", data, "--comparisons", "c.csv")
        (folder / "t.csv").write_text("0,1,2\n")
        line = refused("fit", data, "--comparisons", "c.csv", "--triplets", "t.csv")
        assert line == "--triplets and --comparisons cannot be combined: give one of them"
        line = refused("fit", data, "--comparisons", "c.csv", "--method", "lmnn")
        assert line == "--comparisons does not apply to --method lmnn: use another method"


class TestTfidf:
    @pytest.fixture
    def counts(self):
        X, y = make_counts(300, dtype=np.float32)
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        np.savez("c.npz", y=y, train_idx=np.arange(200), test_idx=np.arange(200, 300), **parts)
        return X, y

    def test_it_is_offered(self, counts):
        done = run("fit", "c.npz")
        assert done.stderr == (
            "dualmetric: note: the rows look like word counts: --tfidf weights them, which often "
            "helps\n"
        )
        assert run("fit", "c.npz", "--tfidf").stderr == ""

    def test_it_is_offered_for_counts_only(self, data):
        assert run("fit", data).stderr == ""
        X, y = make_counts(300, dtype=np.float32)
        for rows in (0.5 * X, -X):
            write_rows("c.npz", rows, y)
            assert "--tfidf" not in run("fit", "c.npz").stderr

    def test_not_for_faiss(self, counts):
        line = refused("fit", "c.npz", "--method", "auto", "--tfidf", "--for", "faiss", "-o", "m")
        assert line.startswith("--for faiss and --tfidf cannot be combined")
        assert line.endswith("dualmetric transform m DATA -o vectors.npy")
        run("fit", "c.npz", "--tfidf")
        for name in ("m.npy", "m.pt"):
            line = refused("export", "metric.safetensors", "-o", name)
            assert "dualmetric transform metric.safetensors DATA -o vectors.npy" in line
            assert "metric.transform" not in line

    def test_it_is_remembered(self, counts):
        X, y = counts
        found = as_json("fit", "c.npz", "--tfidf", "--rank", 2)
        assert found["tfidf"] is True
        weights = TfidfTransformer(sublinear_tf=True).fit(X[:200])
        rows = weights.transform(X).astype(np.float32)
        expected = DuRP(n_components=2, random_state=0).fit(rows[:200], y[:200])
        run("transform", "metric.safetensors", "c.npz", "-o", "v.npy")
        np.testing.assert_allclose(
            np.abs(np.load("v.npy")), np.abs(expected.transform(rows)), rtol=1e-2, atol=1e-3
        )
        score = mean_average_precision(expected.transform(rows[200:]), y[200:])
        assert found["scores"]["learned"]["map"] == pytest.approx(score, abs=1e-3)
        plain = mean_average_precision(rows[200:], y[200:])
        assert found["scores"]["euclidean"]["map"] == pytest.approx(plain, abs=1e-6)
        assert as_json("info", "metric.safetensors")["tfidf"] is True
        again = as_json("evaluate", "metric.safetensors", "c.npz")
        assert again["scores"]["learned"]["map"] == found["scores"]["learned"]["map"]
        near = as_json("neighbors", "metric.safetensors", "c.npz", "--query", 3, "-k", 1)
        own = expected.transform(rows)
        distances = np.linalg.norm(own - own[3], axis=1)
        distances[3] = np.inf
        found = near["queries"][0]["learned"][0]
        assert found["distance"] == pytest.approx(distances.min(), abs=1e-3)

    def test_what_is_no_count(self, data):
        line = refused("fit", data, "--tfidf")
        assert "tf-idf is for counts, but the rows hold negative numbers" in line

    def test_auto_may_lift_counts(self):
        counts, y = make_counts(300, dtype=np.float32)
        np.savez("c.npz", X=counts.toarray(), y=y)
        run("fit", "c.npz", "--tfidf", "--method", "auto", "--shrinkage", 0.5, "--rank", 2)
        learned = Metric.load("metric.safetensors")
        assert learned.idf is not None
        assert learned.lift is not None
        found = as_json("evaluate", "metric.safetensors", "c.npz")["scores"]
        assert found["learned"]["map"] > found["euclidean"]["map"]


class TestEvaluate:
    def test_test_rows(self, data, learned):
        found = as_json("evaluate", learned, data)
        kept = Metric.load(learned).info["scores"]
        for name, key in itertools.product(kept, METRICS):
            assert found["scores"][name][key] == pytest.approx(kept[name][key])
            low, high = found["scores"][name][f"{key}_interval"]
            assert low <= kept[name][key] <= high
        assert found["rows"] == {"scored": 100, "training": 200}
        assert found["better"] is True
        for name in ("euclidean", "cosine"):
            gain = kept["learned"]["map"] - kept[name]["map"]
            assert found["gain"][name]["map"] == pytest.approx(gain)
            assert found["gain"][name]["map_interval"][0] > 0

    def test_all_rows(self, learned):
        X, y = make_rows(60, seed=2)
        write_rows("a.csv", X, y)
        text = Path("a.csv").read_text().splitlines()
        Path("a.csv").write_text("\n".join([",".join([*NAMES, "label"]), *text[1:]]))
        found = as_json("evaluate", learned, "a.csv")
        assert found["rows"] == {"scored": 60, "training": 0}
        vectors = Metric.load(learned).transform(X)
        expected = mean_average_precision(vectors, y)
        assert found["scores"]["learned"]["map"] == pytest.approx(expected)
        D = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
        np.fill_diagonal(D, np.inf)
        votes = y[np.argsort(D, axis=1)[:, :5]]
        vote = np.array([np.bincount(row).argmax() for row in votes])
        assert found["scores"]["learned"]["knn"] == pytest.approx((vote == y).mean())

    @pytest.mark.parametrize("form", ["a.npz", "a.csv", "a.svm"])
    def test_rows_that_fit_held_out(self, form):
        X, y = make_rows()
        write_rows(form, X, y)
        kept = as_json("fit", form, "--holdout", 0.2, "--seed", 3)
        found = as_json("evaluate", "metric.safetensors", form)
        assert found["rows"] == {"scored": 60, "training": 240}
        for name, key in itertools.product(kept["scores"], METRICS):
            assert found["scores"][name][key] == pytest.approx(kept["scores"][name][key])
        shown = run("evaluate", "metric.safetensors", form)
        assert "On 60 rows that fit held out, with 95 %" in shown.stdout
        assert shown.stderr == ""

    def test_a_file_in_another_form_is_the_same(self):
        X, y = make_rows()
        X = X.astype(np.float32)
        np.save("x.npy", X)
        np.save("y.npy", y)
        run("fit", "x.npy", "--labels", "y.npy")
        for form in ("a.npz", "a.csv", "a.svm"):
            write_rows(form, X, y)
            assert as_json("evaluate", "metric.safetensors", form)["rows"]["scored"] == 90

    def test_a_share_held_out_comes_before_the_split_of_the_file(self, data):
        kept = as_json("fit", data, "--holdout", 0.2)
        found = as_json("evaluate", "metric.safetensors", data)
        assert found["rows"] == {"scored": 60, "training": 240}
        assert found["scores"]["learned"]["map"] == pytest.approx(kept["scores"]["learned"]["map"])

    def test_rows_of_other_files_are_all_scored(self):
        X, y = make_rows()
        np.savez("a.npz", X=X, y=y)
        run("fit", "a.npz")
        np.savez("labels.npz", X=X, y=np.roll(y, 1))
        np.savez("rows.npz", X=make_rows(seed=1)[0], y=y)
        np.savez("fewer.npz", X=X[:200], y=y[:200])
        for name, n in (("labels", 300), ("rows", 300), ("fewer", 200)):
            done = run("evaluate", "metric.safetensors", f"{name}.npz")
            assert f"On {n} rows, with" in done.stdout
            assert done.stderr == ""

    def test_rows_learned_from_are_named_so(self, data):
        run("fit", data, "--holdout", 0)
        done = run("evaluate", "metric.safetensors", data)
        assert "On 100 rows, with" in done.stdout
        assert done.stderr == (
            "dualmetric: note: the metric was learned from these rows, so scores are too "
            "optimistic\n"
        )

    @pytest.mark.parametrize(
        "change",
        [{"holdout": "x"}, {"holdout": 7}, {"seed": None}, {"seed": -1}, {"rows": []}, None],
    )
    def test_odd_memory_of_the_split(self, change):
        X, y = make_rows(60)
        np.savez("a.npz", X=X, y=y)
        run("fit", "a.npz")
        learned = Metric.load("metric.safetensors")
        kept = None if change is None else {**learned.info["split"], **change}
        learned.with_info(split=kept).save("m")
        assert as_json("evaluate", "m", "a.npz")["rows"] == {"scored": 60, "training": 0}

    def test_what_it_prints(self, data, learned):
        shown = run("evaluate", learned, data).stdout
        assert "On 100 rows, with 95 % confidence intervals:" in shown
        assert re.search(r"learned +│ +\d+\.\d \(\d+\.\d–\d+\.\d\) │", shown)
        assert re.search(r"mAP \S+ %, up from \S+ % with the plain \w+ distance \(95 %", shown)

    def test_json_file_beside_the_table(self, data, learned, folder):
        shown = run("evaluate", learned, data, "--json", "new/a.json").stdout
        assert "plain Euclidean" in shown
        assert json.loads((folder / "new" / "a.json").read_text())["command"] == "evaluate"

    def test_no_labels(self, learned):
        np.save("x.npy", make_rows()[0])
        assert refused("evaluate", learned, "x.npy").startswith("x.npy has no labels to score by")

    def test_report(self, data, learned, folder):
        (folder / "texts.txt").write_text("".join(f"row number {n}\n" for n in range(300)))
        done = run("evaluate", learned, data, "--report", "a.html", "--texts", "texts.txt")
        page = (folder / "a.html").read_text()
        assert page.lstrip().lower().startswith("<!doctype html>")
        assert "d.npz" in page
        assert all(name in page for name in CLASSES)
        assert "row number 299" in page
        assert "row number 199" not in page  # a training row
        assert '"names":["row 200","row 201","row 202",' in page  # numbers of the file
        assert done.stdout.endswith("Report: a.html\n")

    def test_texts_of_an_unknown_column(self, learned):
        names = [f"f{i}" for i in range(20)]
        (Path("t.csv")).write_text(",".join(names) + "\n" + ",".join("1" * 20) + "\n")
        with pytest.raises(ValueError, match=r"columns are f0, f1, f2, f3, f4, f5 … and 14 more$"):
            read_texts("other", Path("t.csv"), 1)

    def test_report_of_a_table(self, folder):
        """Rows go by their ids, and a column can be their text."""
        X, y = make_rows()
        with open("d.csv", "w") as stream:
            stream.write("id,title,a,b,c,d,e,f,label\n")
            for row, (values, label) in enumerate(zip(X, y, strict=True)):
                stream.write(f"k{row:03},text {row},{','.join(map(str, values))},{label}\n")
        run("fit", "d.csv", "--drop", "title", "--method", "euclidean", "-o", "m.safetensors")
        arguments = ("evaluate", "m.safetensors", "d.csv", "--report", "a.html", "--texts")
        run(*arguments, "title")
        data = json.loads(
            re.search(r'id="report-data">(.*?)</script>', (folder / "a.html").read_text()).group(1)
        )
        numbers = [int(name.removeprefix("k")) for name in data["names"]]
        assert data["texts"] == [f"text {row}" for row in numbers[: len(data["texts"])]]
        assert data["labels"] == y[numbers].tolist()
        line = refused(*arguments, "titles")
        assert line.startswith("--texts: 'titles' is neither a file nor a column of d.csv")

    def test_report_of_pictures(self, data, learned, folder):
        run("evaluate", learned, data, "--report", "a.html", "--image-shape", "2,3")
        run("evaluate", learned, data, "--report", "a.html", "--image-shape", "2x3")
        assert (folder / "a.html").stat().st_size > 1000

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--texts", "t.txt"], "need --report, the page that shows them"),
            (["--image-shape", "2x3"], "need --report, the page that shows them"),
            (["--report", "a.html", "--image-shape", "2x4"], "2x4 is 8 numbers, but rows have 6"),
            (["--report", "a.html", "--image-shape", "6"], "must be HEIGHTxWIDTH"),
            (["--report", "a.html", "--image-shape", "axb"], "must be HEIGHTxWIDTH"),
            (["--report", "a.html", "--texts", "t.txt"], "t.txt has 2 lines for 300 rows"),
            (["--report", "a.html", "--texts", "no.txt"], "no.txt does not exist"),
            (["--names", "t.txt"], "--names: t.txt has 2 lines for 6 features"),
            (["--report", "r.pdf"], "--report: reports are written as .html; got r.pdf"),
            (
                ["--report", "a.html", "--texts", "t.txt", "--image-shape", "2x3"],
                "--texts and --image-shape cannot be combined",
            ),
        ],
    )
    def test_wrong_options(self, data, learned, folder, options, said):
        (folder / "t.txt").write_text("one\ntwo\n")
        assert said in refused("evaluate", learned, data, *options)
        assert left(folder) == ["t.txt"]

    def test_many_rows_are_sampled(self, data, learned, monkeypatch):
        monkeypatch.setattr(
            importlib.import_module("dualmetric.cli.evaluate"), "EVALUATED_ROWS", 20
        )
        done = run("evaluate", learned, data)
        assert done.stderr == "dualmetric: note: scores are computed on 20 rows chosen at random\n"


class TestFewLabels:
    def test_the_doubt_and_the_reason_are_told(self, tmp_path):
        X, y = load_digits(return_X_y=True)
        few = np.concatenate([np.flatnonzero(y == name)[:5] for name in range(10)])
        data = tmp_path / "few.npz"
        np.savez(data, X=X[few], y=y[few])
        where = ("--out", tmp_path / "few.safetensors", "--holdout", 0)
        done = run("fit", data, *where, "--method", "auto", "--for", "linear")
        line = done.stdout.splitlines()[1]
        assert re.match(
            r"Chose RidgeMetric \(rank 9\): mAP [\d.]+ % on rows held out for the choice, where "
            r"the plain cosine distance has [\d.]+ % \(95 % interval of the gain: -[\d.]+ to "
            r"[\d.]+ points\)\. The difference may be due to chance\. So few labels cannot show a "
            r"gain, but ridge regression has one on most data\.$",
            line,
        )

    def test_no_time_for_learned_metrics(self, data):
        done = run("fit", data, "--method", "auto", "--time-limit", 1e-6)
        first, second, *_ = done.stdout.splitlines()
        assert first.startswith("Scored the plain distances on 200 of 300 rows, ")
        assert second.startswith("No learned metric was tried within 1e-06 s; the plain ")

    def test_no_two_held_out_rows_of_a_class(self, tmp_path):
        data = tmp_path / "six.npz"
        np.savez(data, X=np.random.default_rng(0).normal(size=(6, 3)), y=[0, 0, 0, 1, 1, 1])
        done = run("fit", data, "--out", tmp_path / "six.safetensors", "--method", "ridge")
        assert "No scores: no two held-out rows have the same label." in done.stdout


class TestVerdict:
    KEYS = ("map", "precision_at_1", "precision_at_10", "knn", "hit_rate")

    def said(self, euclidean, cosine, learned, interval=(0.1, 0.2), method=None, sure=True):
        given = {"euclidean": euclidean, "cosine": cosine, "learned": learned}
        numbers = {name: dict(zip(self.KEYS, each, strict=True)) for name, each in given.items()}
        gain = {
            name: {
                f"{key}_interval": [ours - theirs - 0.1, ours - theirs + (0.001 if sure else 0.3)]
                for key, ours, theirs in zip(self.KEYS, learned, each, strict=True)
            }
            | {"map_interval": list(interval)}
            for name, each in (("euclidean", euclidean), ("cosine", cosine))
        }
        return verdict(numbers, gain, method)

    def test_better(self):
        # what may be due to chance is not told
        said = self.said(
            (0.5, 0.9, 0.6, 0.6, 1),
            (0.55, 0.9, 0.6, 0.6, 1),
            (0.7, 0.8, 0.6, 0.6, 0),
            sure=False,
        )
        assert said == (
            "mAP 70.0 %, up from 55.0 % with the plain cosine distance (95 % interval of the gain: "
            "10.0 to 20.0 points)."
        )

    def test_better_but_not_in_everything(self):
        said = self.said(
            (0.5, 0.9, 0.6, 0.65, 1), (0.4, 0.95, 0.6, 0.6, 1), (0.7, 0.8, 0.6, 0.62, 1)
        )
        assert said.startswith("mAP 70.0 %, up from 50.0 % with the plain Euclidean distance (95 %")
        assert said.endswith(
            "to 20.0 points). But P@1 80.0 %, down from 95.0 % with the plain cosine distance; "
            "5-NN 62.0 %, down from 65.0 % with the plain Euclidean distance."
        )

    def test_a_gain_that_may_be_due_to_chance(self):
        scores = [(level, 0.9, 0.6, 0.6, 1) for level in (0.5, 0.4, 0.51)]
        assert self.said(*scores, interval=(-0.01, 0.03)) == (
            "mAP 51.0 %, and 50.0 % with the plain Euclidean distance: the difference may be due "
            "to chance (95 % interval of the gain: -1.0 to 3.0 points). Score on more data, or "
            "keep the plain Euclidean distance."
        )

        scores[2] = (0.51, 0.8, 0.6, 0.6, 1)
        assert self.said(*scores, interval=(-0.01, 0.03)).endswith(
            "keep the plain Euclidean distance. But P@1 80.0 %, down from 90.0 % with the plain "
            "Euclidean distance."
        )

    def test_advice_is_for_the_method(self):
        scores = [(level, 0.9, 0.6, 0.6, 1) for level in (0.5, 0.4, 0.5)]
        for method, end in (
            ("DuRP", "use the plain Euclidean distance, or try other settings, such as "
             "--shrinkage 0.3 or --distance cosine."),
            ("LMNN", "use the plain Euclidean distance, or try --method auto."),
            ("Euclidean", "the same as with the plain Euclidean distance: use the plain Euclidean "
             "distance."),
        ):  # fmt: skip
            assert self.said(*scores, method=method).endswith(end)

    def test_not_better_than_one_of_them(self):
        said = self.said(*[(level, 0.9, 0.6, 0.6, 1) for level in (0.4, 0.55, 0.5)])
        assert said.startswith("mAP 50.0 %, down from 55.0 % with the plain cosine distance: use")


class TestStandardize:
    """--standardize: the metric is that of scaled rows, and takes rows in their own units."""

    UNITS = np.array([1.0, 1e3, 1e-3, 50.0, 1.0, 7.0])

    @pytest.mark.parametrize("form", ["a.npz", "a.svm"])
    @pytest.mark.parametrize(
        "options",
        [
            "--method durp --rank 2",
            "--method durp --distance cosine",
            "--method durp --prior identity",
            "--method durp --prior identity --distance cosine",
            "--method durp --prior whitening --distance cosine --shrinkage 0.9",
            "--method whitening",
            "--method euclidean",
            "--method euclidean --distance cosine",
            "--method ridge --lift rbf",
        ],
    )
    def test_distances_are_those_of_scaled_rows(self, form, options):
        X, y = make_rows(90)
        X[np.abs(X) < 0.3] = 0.0
        write_rows(form, X * self.UNITS, y)
        write_rows(f"unit-{form}", X / X.std(axis=0), y)
        options = [*options.split(), "--holdout", 0]
        run("fit", form, "--standardize", *options, "-o", "m")
        run("fit", f"unit-{form}", *options, "-o", "expected")
        found, expected = Metric.load("m"), Metric.load("expected")
        distances = expected.pairwise(X / X.std(axis=0))
        np.testing.assert_allclose(found.pairwise(X * self.UNITS), distances, rtol=1e-3, atol=1e-3)
        assert found.info["standardize"] is True
        assert re.search(r"\nstandardized +yes\n", run("info", "m").stdout)
        if found.lift is None:
            explained = found.explain(X[0] * self.UNITS, X[1] * self.UNITS)
            assert explained.distance == pytest.approx(distances[0, 1], rel=1e-3)

    def test_exports(self):
        X, y = make_rows(90)
        np.savez("a.npz", X=(X * self.UNITS).astype(np.float32), y=y)
        onnx = pytest.importorskip("onnxruntime")
        for options in (["--method", "ridge", "--lift", "rbf"], ["--method", "euclidean"]):
            run("fit", "a.npz", "--standardize", *options, "-o", "m", "--distance", "cosine")
            run("export", "m", "-o", "m.onnx")
            session = onnx.InferenceSession("m.onnx")
            rows = load("a.npz")["X"]
            (vectors,) = session.run(None, {"rows": rows})
            np.testing.assert_allclose(vectors, Metric.load("m").transform(rows), atol=1e-4)

    def test_columns_that_do_not_vary(self):
        X, y = make_rows(90)
        X[:, 3], X[:, 4] = 0.1, 0.0
        np.savez("a.npz", X=X, y=y)
        run("fit", "a.npz", "--standardize", "--method", "euclidean", "--holdout", 0, "-o", "m")
        weights = Metric.load("m").blocks.weights
        assert weights[3:5].tolist() == [1.0, 1.0]
        np.testing.assert_allclose(weights[[0, 1, 2, 5]], X[:, [0, 1, 2, 5]].var(axis=0) ** -1)

    def test_sparse_rows_stay_sparse(self, monkeypatch):
        X, y = make_counts(60)
        sp.save_npz("a.npz", X)
        np.save("y.npy", y)
        monkeypatch.setattr(sp.csr_matrix, "toarray", None)
        run("fit", "a.npz", "--labels", "y.npy", "--standardize", "--method", "euclidean")

    def test_not_with_tfidf(self, data):
        line = refused("fit", data, "--standardize", "--tfidf")
        assert line == "--tfidf and --standardize cannot be combined: give one of them"


class TestQuiet:
    def test_nothing_but_errors(self, data, learned):
        for arguments in (
            ["fit", data, "--method", "durp", "--quiet"],
            ["-q", "evaluate", learned, data],
            ["neighbors", learned, data, "--query", 3, "-q"],
            ["transform", learned, data, "-o", "v.npy", "-q"],
            ["export", learned, "-o", "m.npy", "-q"],
            ["info", learned, "-q"],
            ["doctor", "-q"],
        ):
            done = run(*arguments)
            assert (done.stdout, done.stderr) == ("", "")
        assert Path("metric.safetensors").exists()
        assert "nothing.npz" in refused("fit", "nothing.npz", "-q")
        assert run("info", learned).stdout

    def test_json_is_written(self, learned):
        assert json.loads(run("info", learned, "-q", "--json", "-").stdout)["command"] == "info"


class TestNeighbors:
    @pytest.mark.parametrize("kind", metric.DISTANCES)
    def test_nearest(self, data, kind):
        run("fit", data, "--distance", kind, "-o", "m")
        found = as_json("neighbors", "m", data, "--query", "3, 299", "--query", 3, "-k", 4)
        X = load(data)["X"]
        plain = X if kind == "euclidean" else X / np.linalg.norm(X, axis=1, keepdims=True)
        assert found["plain"] == kind
        assert [query["row"] for query in found["queries"]] == [3, 299]
        for query in found["queries"]:
            assert query["label"] == CLASSES[query["row"] % 3]
            for key, Z in (("learned", Metric.load("m").transform(X)), ("plain", plain)):
                distances = np.linalg.norm(Z - Z[query["row"]], axis=1)
                distances[query["row"]] = np.inf
                order = np.argsort(distances)[:4]
                assert [near["row"] for near in query[key]] == order.tolist()
                shown = [near["distance"] for near in query[key]]
                np.testing.assert_allclose(shown, distances[order], rtol=1e-5)
                assert [near["label"] for near in query[key]] == [CLASSES[n % 3] for n in order]

    def test_what_it_prints(self, data, learned):
        shown = run("neighbors", learned, data, "--query", 7, "-k", 3).stdout
        assert shown.startswith("Row 7, label green\n")
        assert "plain Euclidean" in shown
        assert "✓ green" in shown
        assert len(re.findall(r"^│ [123] ", shown, re.M)) == 3

    def test_without_labels(self, learned):
        np.save("x.npy", make_rows()[0])
        shown = run("neighbors", learned, "x.npy", "--query", 7)
        assert shown.stdout.startswith("Row 7\n")
        found = as_json("neighbors", learned, "x.npy", "--query", 7)
        assert found["queries"][0]["label"] is None

    def test_mapped_file(self, learned, monkeypatch):
        np.save("x.npy", make_rows()[0])
        whole = as_json("neighbors", learned, "x.npy", "--query", 7)
        monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
        monkeypatch.setattr("dualmetric._rows.stored._BLOCK_BYTES", 1000)
        assert as_json("neighbors", learned, "x.npy", "--query", 7) == whole

    def test_fewer_rows_than_asked_for(self, learned):
        np.save("x.npy", make_rows(5)[0])
        found = as_json("neighbors", learned, "x.npy", "--query", 0)
        assert len(found["queries"][0]["learned"]) == 4

    def test_several_rows(self, data, learned):
        for given in (["3,5"], ["3 5"], [3, "--query", 5]):
            found = as_json("neighbors", learned, data, "--query", *given)
            assert [query["row"] for query in found["queries"]] == [3, 5]

    def test_control_characters_of_labels_are_not_printed(self, learned):
        X, y = make_rows(30)
        np.savez("a.npz", X=X, y=np.array(["a\x1b[31m", "b", "c"])[y])
        assert run("neighbors", learned, "a.npz", "--query", 0).stdout.startswith(
            "Row 0, label a[31m\n"
        )
        assert run("explain", learned, "a.npz", 0, 1).stdout.startswith("Row 0, label a[31m\n")

    def test_wrong_rows(self, data, learned):
        line = refused("neighbors", learned, data, "--query", 300)
        assert line == f"{data} has no row 300: row numbers go from 0 to 299"
        for wrong in ("x", "-1"):
            line = refused("neighbors", learned, data, f"--query={wrong}")
            assert line == f"--query must be row numbers, counted from 0; got {wrong!r}"


class TestExplain:
    def test_parts_add_up(self, data, learned):
        found = as_json("explain", learned, data, 3, 10, "--top", 2)
        X = load(data)["X"]
        expected = float(Metric.load(learned).distance(X[[3]], X[[10]])[0])
        assert found["distance"] == pytest.approx(expected)
        total = sum(part["part"] for part in found["parts"]) + found["rest"]
        assert total == pytest.approx(expected)
        assert len(found["parts"]) == 2
        assert {part["feature"] for part in found["parts"]} <= set(NAMES)
        assert found["rows"] == [{"row": 3, "label": "red"}, {"row": 10, "label": "green"}]

    def test_names(self, data, learned, folder):
        (folder / "names.txt").write_text("".join(f"[red]word {n}\n" for n in range(6)))
        shown = run("explain", learned, data, 3, 10, "--names", "names.txt").stdout
        assert shown.startswith("Row 3, label red\nRow 10, label green\n")
        assert "[red]word 0" in shown
        (folder / "names.txt").write_text("one\n")
        line = refused("explain", learned, data, 3, 10, "--names", "names.txt")
        assert line == "--names: names.txt has 1 lines for 6 features: give one line per feature"

    def test_names_of_the_metric_and_of_the_file(self, learned, folder):
        np.save("x.npy", make_rows()[0])
        assert "noise a" in run("explain", learned, "x.npy", 3, 10).stdout
        Metric(np.eye(2)).save("m")
        (folder / "a.csv").write_text("width,height\n1,2\n3,4\n")
        assert "height" in run("explain", "m", "a.csv", 0, 1).stdout

    def test_sparse_rows(self):
        X, y = make_counts(300, dtype=np.float32)
        write_rows("c.npz", X, y)
        run("fit", "c.npz", "--tfidf", "--distance", "cosine", "-o", "m")
        found = as_json("explain", "m", "c.npz", 0, 1)
        assert found["distance"] == pytest.approx(
            float(Metric.load("m").distance(X[:1], X[1:2])[0])
        )

    def test_wrong_rows(self, data, learned):
        assert "has no row 300" in refused("explain", learned, data, 0, 300)


class TestTransform:
    @pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.csv", "v.parquet", "v.svm", "v.csv.gz"])
    def test_forms(self, data, learned, name, folder):
        if "parquet" in name:
            pytest.importorskip("pyarrow")
        done = run("transform", learned, data, "-o", f"new/{name}")
        assert done.stdout.startswith(f"Vectors: new/{name}, ")
        file = load(data)
        expected = Metric.load(learned).transform(file["X"])
        found = read_rows(f"new/{name}")
        rows = found.X.toarray() if sp.issparse(found.X) else found.X
        np.testing.assert_allclose(rows, expected, rtol=1e-14)
        if name != "v.npy":
            np.testing.assert_array_equal(found.y, file["y"])
        if name == "v.npz":
            assert found.class_names == CLASSES
            np.testing.assert_array_equal(found.test_idx, file["test_idx"])

    def test_large_files_are_streamed(self, learned, monkeypatch):
        X = make_rows()[0].astype(np.float32)
        np.save("x.npy", X)
        monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
        monkeypatch.setattr("dualmetric._rows.stored._BLOCK_BYTES", 24 * 120)
        heights = []
        apply = Metric.apply

        def watched(self, rows):
            heights.append(len(rows))
            return apply(self, rows)

        monkeypatch.setattr(Metric, "apply", watched)
        run("transform", learned, "x.npy", "-o", "v.npy")
        assert heights == [120, 120, 60]
        found = np.load("v.npy")
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, Metric.load(learned).transform(X), rtol=1e-5)

    def test_columns_in_another_order(self, learned, folder):
        (folder / "a.csv").write_text(",".join(reversed(NAMES)) + "\n1,2,3,4,5,6\n")
        (folder / "b.csv").write_text(",".join(NAMES) + "\n6,5,4,3,2,1\n")
        for name in "ab":
            assert run("transform", learned, f"{name}.csv", "-o", f"{name}.npy").exit_code == 0
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))

    def test_columns_of_other_names(self, learned, folder):
        (folder / "a.csv").write_text(",".join(NAMES).replace("green", "grün") + "\n1,2,3,4,5,6\n")
        line = refused("transform", learned, "a.csv", "-o", "v.npy")
        assert line == (
            "a.csv: column 0 (counted from 0) is 'grün', but the metric was learned with 'green' "
            "there: put the columns in the same order"
        )

    def test_the_input_is_kept(self, learned, folder):
        np.save("x.npy", make_rows()[0])
        before = (folder / "x.npy").read_bytes()
        line = refused("transform", learned, "x.npy", "-o", "./x.npy")
        assert line == (
            "--out: x.npy is already used as an input or output of this command: choose another "
            "name"
        )
        assert (folder / "x.npy").read_bytes() == before


class TestExport:
    def test_npy(self, data, learned):
        assert run("export", learned, "-o", "new/m.npy").stdout.startswith("Exported: new/m.npy, ")
        np.testing.assert_array_equal(np.load("new/m.npy"), Metric.load(learned).factor)

    def test_onnx(self, data, learned, folder):
        pytest.importorskip("onnx")
        runtime = pytest.importorskip("onnxruntime")
        run("export", learned, "-o", "m.onnx")
        session = runtime.InferenceSession((folder / "m.onnx").read_bytes())
        X = load(data)["X"].astype(np.float32)
        (found,) = session.run(None, {"rows": X})
        np.testing.assert_allclose(found, Metric.load(learned).transform(X), rtol=1e-3, atol=1e-4)

    def test_faiss(self, data, learned):
        pytest.importorskip("faiss")
        run("export", learned, "-o", "m.faiss")
        import faiss

        index = faiss.read_index("m.faiss")
        X = load(data)["X"].astype(np.float32)
        index.add(X)
        squares, rows = index.search(X[:1], 3)
        distances = Metric.load(learned).pairwise(X[:1], X)[0]
        assert rows[0].tolist() == np.argsort(distances)[:3].tolist()
        np.testing.assert_allclose(np.sqrt(squares[0]), np.sort(distances)[:3], atol=1e-3)

    def test_torch(self, data, learned):
        torch = pytest.importorskip("torch")
        run("export", learned, "-o", "m.pt")
        found = torch.load("m.pt", weights_only=True)
        factor = Metric.load(learned).factor
        np.testing.assert_allclose(found["weight"].numpy(), factor.T)

    def test_sentence_transformers(self, data, learned, folder):
        shown = run("export", learned, "-o", "new/2_Dense").stdout
        assert shown.startswith("Exported: new/2_Dense/model.safetensors, ")
        assert 'by the Euclidean distance (similarity_fn_name="euclidean")' in shown
        tensors = load_file("new/2_Dense/model.safetensors")
        np.testing.assert_allclose(tensors["linear.weight"], Metric.load(learned).factor.T)
        run("fit", data, "--distance", "cosine", "-o", "m")
        assert "by the cosine" in run("export", "m", "-o", "new/2_Dense/").stdout

    def test_a_file_in_place_of_the_folder(self, learned, folder):
        (folder / "2_Dense").touch()
        line = refused("export", learned, "-o", "2_Dense")
        assert "2_Dense is a file, not a folder" in line

    def test_unknown_form(self, learned, folder):
        line = refused("export", learned, "-o", "m.h5")
        assert line == (
            "--out: m.h5 must end in .npy, .onnx, .faiss or .pt, or be a folder whose name ends in "
            "Dense"
        )
        assert not left(folder)

    def test_a_step_that_a_target_cannot_do(self, data, folder):
        run("fit", data, "--distance", "cosine", "-o", "m")
        assert "a .npy matrix cannot centre rows" in refused("export", "m", "-o", "m.npy")
        assert left(folder) == ["m"]

    @pytest.mark.parametrize(
        ("name", "module"), [("m.onnx", "onnx"), ("m.faiss", "faiss"), ("m.pt", "torch")]
    )
    def test_missing_extra(self, learned, monkeypatch, folder, name, module):
        monkeypatch.setitem(sys.modules, module, None)
        assert f"pip install 'dualmetric[{module}]'" in refused("export", learned, "-o", name)
        assert not left(folder)


class TestInfo:
    def test_what_it_prints(self, learned):
        shown = run("info", learned).stdout
        for line in (
            rf"file +{learned}, \d\.\d kB, written by dualmetric {re.escape(__version__)}",
            "method +DuRP",
            "  shrinkage +0.3",
            "rank +2 of 6 features",
            "classes +red, green, blue",
            "rows +200 learned from, 100 held out",
        ):
            assert re.search(f"^{line}$", shown, re.M), line
        assert "Scores on what was held out when the metric was learned:" in shown

    def test_metric_of_another_origin(self, folder):
        Metric(np.eye(3)).save("m")
        found = as_json("info", "m")
        assert found["rank"] == 3
        for key in ("method", "parameters", "scores", "class_names", "rows"):
            assert found[key] is None
        assert "rank" in run("info", "m").stdout

    @pytest.mark.parametrize(
        "info",
        [
            {"scores": {"mAP": 0.9}},
            {"scores": {"learned": {"map": "high", "knn": 1, "hit_rate": None}}},
            {"scores": {"learned": {"map": 1e300, "knn": 1, "hit_rate": 1}}},
            {"scores": [1], "rows": 3, "parameters": [1], "class_names": 7, "method": {}},
            {"rows": {"used": "all"}, "class_names": [1, None], "version": [2]},
        ],
    )
    def test_odd_metadata_are_left_out(self, info):
        Metric(np.eye(3), info=info).save("m")
        assert re.search("^rank +3 of 3 features$", run("info", "m").stdout, re.M)
        found = as_json("info", "m")
        for key in ("method", "parameters", "scores", "class_names", "rows"):
            assert found[key] is None
        assert found["written_by"] == (None if "version" in info else __version__)

    def test_what_is_well_formed_is_shown(self):
        good = {"map": 0.5, "knn": 0.25, "hit_rate": 1}
        scores = {"learned": {**good, "map_interval": "wide"}, "cosine": 3, "other": good}
        Metric(np.eye(3), info={"scores": scores, "rows": 1, "method": "mine"}).save("m")
        shown = run("info", "m").stdout
        assert re.search(r"learned +│ +50\.0 │ +25\.0 │ +100\.0 │", shown)
        assert re.search("^method +mine$", shown, re.M)
        assert as_json("info", "m")["scores"] == {"learned": good}

    def test_control_characters_are_not_printed(self):
        odd = "a\x1b[31m\r\x07b"
        info = {"method": odd, "version": odd, "class_names": [odd], "parameters": {odd: odd}}
        Metric(np.eye(3), info=info).save("m")
        shown = run("info", "m").stdout
        assert shown.count("a[31mb") == 5
        assert all(character.isprintable() for character in shown.replace("\n", ""))

    def test_json_is_what_the_file_holds(self, learned):
        found = as_json("info", learned)
        assert found["scores"] == Metric.load(learned).info["scores"]
        assert found["file_bytes"] == learned.stat().st_size


class TestDoctor:
    def test_what_it_prints(self):
        shown = run("doctor").stdout
        assert re.search(rf"^numpy +{re.escape(np.__version__)}$", shown, re.M)
        for name in ("python", "numba", "BLAS", "threads", "memory", "Numba cache", "data folder"):
            assert re.search(f"^{name} ", shown, re.M)
        assert "none: DUALMETRIC_DATA is not set" in shown

    def test_missing_extra(self, monkeypatch):
        monkeypatch.setitem(doctor.EXTRAS, "plot", ("no_such_module",))
        assert as_json("doctor")["extras"]["plot"] is False
        shown = run("doctor").stdout
        assert re.search(r"^\[plot\] +pip install 'dualmetric\[plot\]'$", shown, re.M)

    def test_extras_are_those_of_the_package(self):
        import tomllib

        project = tomllib.loads((DOCS.parents[1] / "pyproject.toml").read_text())["project"]
        extras = set(project["optional-dependencies"]) - {"all", "test", "lint", "docs"}
        assert extras <= set(doctor.EXTRAS)

    def test_data_folder(self, monkeypatch, folder):
        (folder / "usps.npz").write_bytes(b"")
        monkeypatch.setenv("DUALMETRIC_DATA", str(folder))
        found = as_json("doctor")["data_folder"]
        assert found == {"folder": str(folder), "exists": True, "sets": ["usps", "digits"]}
        monkeypatch.setenv("DUALMETRIC_DATA", "nowhere")
        assert "nowhere does not exist" in run("doctor").stdout


def documented_fields():
    """Fields of each command's JSON, as docs/command-line.md lists them."""
    text = DOCS.read_text().partition("\n## JSON\n")[2]
    common, *sections = re.split(r"\n### (\w+)\n", text)

    def fields(part):
        cells = re.findall(r"^\| (`.*?) \|", part, re.M)
        return [name for cell in cells for name in re.findall("`([^`]+)`", cell)]

    listed = dict(zip(sections[::2], map(fields, sections[1::2]), strict=True))
    return {command: [*fields(common), *names] for command, names in listed.items()}


def leaves(value, path=""):
    """Paths of the values in JSON: ``a.b`` in an object, ``a[]`` in a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path


class TestJson:
    @pytest.fixture
    def results(self, data, learned):
        Metric(np.eye(3)).save("plain")
        queries = ("--query", 1)
        X, y = make_rows(200)
        np.save("x.npy", X)
        index = np.random.default_rng(0).integers([0, 100], [100, 200], size=(20_000, 2))
        np.save("p.npy", np.column_stack([index, y[index[:, 0]] == y[index[:, 1]]]))
        shutil.copy("p.npy", "other.npy")
        np.save("c.npy", [[i, i + 3] for i in range(0, 180, 9)])
        pairs, clicks = ("x.npy", "--pairs", "p.npy"), ("x.npy", "--positives", "c.npy")
        return {
            "fit": [
                as_json("fit", data),
                as_json("fit", data, "--holdout", 0),
                as_json("fit", *pairs, "--prior", "identity", "--holdout", 0.7),
                as_json("fit", *clicks),
                as_json("fit", *clicks, "--method", "auto"),
                as_json("fit", *clicks, "--method", "auto", "--cv", "queries"),
            ],
            "evaluate": [
                as_json("evaluate", learned, data),
                as_json("evaluate", learned, *pairs),
                as_json("evaluate", learned, *clicks),
            ],
            "neighbors": [as_json("neighbors", learned, data, *queries)],
            "explain": [as_json("explain", learned, data, 1, 2)],
            "match": [
                as_json("match", learned, *pairs, "--precision", 0.6, "--test-pairs", "other.npy"),
                as_json("match", learned, *pairs, "--precision", 0.99999),
            ],
            "duplicates": [
                as_json("duplicates", "matcher.safetensors", "x.npy", "--recall", 0.5),
                as_json("duplicates", "matcher.safetensors", "x.npy", "--threshold", 1e-9),
            ],
            "info": [as_json("info", file) for file in (learned, "plain", "matcher.safetensors")],
            "doctor": [as_json("doctor")],
        }

    def test_fields_are_those_of_the_documentation(self, results):
        documented = documented_fields()
        assert set(documented) == set(results)
        for command, found in results.items():
            names = {name for result in found for name in leaves(result)}
            patterns = {
                name: re.sub(r"<\w+>", r"[^.]+", re.escape(name).replace(r"\<", "<"))
                for name in documented[command]
            }
            for name in names:
                assert any(re.fullmatch(p, name) for p in patterns.values()), (command, name)
            for name, pattern in patterns.items():
                assert any(re.fullmatch(pattern, n) for n in names), (command, name)
            for result in found:
                assert (result["dualmetric"], result["command"]) == (__version__, command)

    def test_file_that_cannot_be_written(self, data, learned, folder):
        (folder / "taken").write_text("mine")
        for arguments in (
            ["fit", data],
            ["evaluate", learned, data],
            ["neighbors", learned, data, "--query", 1],
            ["explain", learned, data, 1, 2],
            ["info", learned],
            ["doctor"],
        ):
            line = refused(*arguments, "--json", "taken/a.json")
            assert line == (
                "--json: taken/a.json cannot be written: taken is a file, not a folder; choose "
                "another folder"
            )
        assert left(folder) == ["taken"]


class TestBadInput:
    def uses(self, metric, data):
        """Each command that reads a metric and rows."""
        return [
            ["evaluate", metric, data],
            ["transform", metric, data, "-o", "out.npy"],
            ["neighbors", metric, data, "--query", 0],
            ["explain", metric, data, 0, 1],
        ]

    def test_missing_files(self, data, learned, folder):
        for arguments in (["fit", "no.npz"], *self.uses(learned, "no.npz")):
            assert refused(*arguments).startswith("no.npz does not exist: ")
        uses = [*self.uses("no", data), ["info", "no"], ["export", "no", "-o", "a.npy"]]
        for arguments in uses:
            assert refused(*arguments) == "no does not exist: make it with dualmetric fit"
        assert not left(folder)

    def test_unknown_form(self, learned, folder):
        (folder / "a.xls").write_text("")
        for arguments in (["fit", "a.xls"], *self.uses(learned, "a.xls")):
            assert refused(*arguments).startswith("a.xls: files of rows must end in .npz, ")
        assert left(folder) == ["a.xls"]

    def test_absent_column(self, learned, folder):
        (folder / "a.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n")
        line = refused("fit", "a.csv", "--labels", "colour")
        assert line == "a.csv: it has no column 'colour': its columns are a, b, kind"

    def test_labels_of_another_length(self, data, folder):
        np.save("y.npy", [1, 2, 3])
        line = refused("fit", data, "--labels", "y.npy")
        assert line.startswith(f"y.npy has 3 labels for the 300 rows of {data}")

    def test_text_where_numbers_belong(self, folder):
        (folder / "a.csv").write_text("a,b,label\n1,2,x\n3,four,y\n")
        line = refused("fit", "a.csv")
        assert re.match(r"a\.csv: column 'b' has .*'four'.* in row 1 \(counted from 0\)", line)

    def test_metric_of_another_width(self, learned, folder):
        np.savez("a.npz", X=np.ones((4, 5)), y=[0, 0, 1, 1])
        for arguments in self.uses(learned, "a.npz"):
            assert refused(*arguments) == (
                "a.npz has 5 features, but the metric takes 6: use rows with the same features, or "
                "fit again"
            )
        assert left(folder) == ["a.npz"]

    def test_metric_of_a_newer_version(self, data):
        header = {"version": 999, "n_features": 6, "info": {}, "distance": "euclidean"}
        save_file({"factor": np.eye(6)}, "m", {"dualmetric": json.dumps(header)})
        for arguments in (*self.uses("m", data), ["info", "m"], ["export", "m", "-o", "a.npy"]):
            line = refused(*arguments)
            assert line.startswith("m was written by a newer dualmetric (format 999")
            assert "install a newer version" in line

    def test_damaged_metric(self, data, folder):
        (folder / "m").write_bytes(b"not a metric")
        for arguments in (*self.uses("m", data), ["info", "m"]):
            assert "m is not a metric file" in refused(*arguments)

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("taken/a.npy", "taken is a file, not a folder; choose another folder"),
            ("taken/new/a.npy", "taken is a file, not a folder; choose another folder"),
            ("folder.npy", "it is a folder; give the name of a file"),
        ],
    )
    def test_unwritable_output(self, data, learned, folder, monkeypatch, name, reason):
        def work(*arguments, **options):
            raise AssertionError("it is to be told before the work")

        monkeypatch.setattr("dualmetric.io.rowfiles.read_rows", work)
        monkeypatch.setattr(Metric, "load", work)
        (folder / "taken").write_text("mine")
        (folder / "folder.npy").mkdir()
        for arguments in (["fit", data], ["transform", learned, data], ["export", learned]):
            line = refused(*arguments, "-o", name)
            assert line == f"--out: {name} cannot be written: {reason}"
        line = refused("evaluate", learned, data, "--report", name)
        assert line == f"--report: {name} cannot be written: {reason}"
        assert left(folder) == ["folder.npy", "taken"]

    def test_full_disk(self, data, learned, folder, monkeypatch):
        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        said = (
            "could not be written: No space left on device; free some space or choose another "
            "folder"
        )
        for name in ("a.npy", "m"):
            (folder / name).write_text("before")
        monkeypatch.setattr(os, "fsync", full)
        for arguments in (
            ["transform", learned, data, "-o", "a.npy"],
            ["export", learned, "-o", "a.npy"],
            ["fit", data, "-o", "m"],
        ):
            assert refused(*arguments) == f"{arguments[-1]} {said}"
        (folder / "a.html").write_text("before")
        done = call("evaluate", learned, data, "--report", "a.html")
        assert done.stderr == f"dualmetric: a.html {said}\n"
        assert done.exit_code == 2
        assert left(folder) == ["a.html", "a.npy", "m"]
        assert {(folder / name).read_text() for name in left(folder)} == {"before"}

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")
    def test_pipes_are_not_replaced(self, data, learned, folder, monkeypatch):
        def work(*arguments, **options):
            raise AssertionError("it is to be told before the work")

        monkeypatch.setattr(Metric, "load", work)
        monkeypatch.setattr("dualmetric.io.rowfiles.read_rows", work)
        os.mkfifo("pipe.npy")
        (folder / "link.npy").symlink_to("pipe.npy")
        for name in ("pipe.npy", "link.npy"):
            said = f"{name} is not a regular file but a device or a pipe: give the name of a file"
            for arguments in (["fit", data], ["transform", learned, data], ["export", learned]):
                assert refused(*arguments, "-o", name) == f"--out: {said}"
            assert refused("evaluate", learned, data, "--json", name) == f"--json: {said}"
        assert (folder / "pipe.npy").is_fifo()

    @pytest.mark.parametrize("name", ["a.npy", "a.onnx", "a.pkl"])
    def test_a_metric_is_not_named_as_another_kind_of_file(self, data, folder, name):
        assert refused("fit", data, "-o", name) == (
            f"--out: metric files must end in .safetensors; got {name}. dualmetric export writes "
            "other formats"
        )
        assert not left(folder)

    def test_an_input_is_not_written_over(self, data, learned, folder):
        for arguments in (
            ["fit", data, "-o", data],
            ["export", learned, "-o", learned.with_name("x.npy"), "--out", learned],
            ["evaluate", learned, data, "--json", data],
            ["evaluate", learned, data, "--report", "a", "--json", "a"],
            ["fit", data, "-o", "a", "--json", "a"],
        ):
            line = refused(*arguments)
            assert "is already used as an input or output" in line or "must end in .npy" in line
        assert not left(folder)

    def test_not_enough_memory(self, data, monkeypatch):
        def allocate(*arguments, **options):
            raise MemoryError("Unable to allocate 9 TiB")

        monkeypatch.setattr("dualmetric.io.rowfiles.read_rows", allocate)
        assert refused("fit", data) == "not enough memory: Unable to allocate 9 TiB"

    def test_an_error_of_many_lines_is_one(self, data, monkeypatch):
        def fail(*arguments, **options):
            raise ValueError("first\nsecond")

        monkeypatch.setattr("dualmetric.io.rowfiles.read_rows", fail)
        assert refused("fit", data) == "first second"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["fit"], "Missing argument 'DATA'; see dualmetric fit --help"),
            (["learn"], "No such command 'learn'"),
            (["--colour", "fit"], "No such option: --colour"),
            (["fit", "a.npz", "--holdout", "1"], "Invalid value for '--holdout'"),
            (["fit", "a.npz", "--seed", "many"], "Invalid value for '--seed'"),
            (["transform", "m", "a.npz"], "Missing option"),
            (["explain", "m", "a.npz", "1"], "Missing argument 'ROW'"),
        ],
    )
    def test_wrong_usage(self, arguments, said):
        command = CliRunner().invoke(cli.app, arguments, prog_name="dualmetric")
        assert command.exit_code == 2
        assert command.stdout == ""
        (line,) = command.stderr.splitlines()
        assert line.startswith("dualmetric: ")
        assert said in line

    @pytest.mark.parametrize("before", [True, False])
    def test_verbose(self, before):
        arguments = ["--verbose", "info", "no"] if before else ["info", "no", "--verbose"]
        done = call(*arguments)
        assert done.exit_code == 2
        assert done.stderr.startswith("Traceback (most recent call last):")
        assert "load_metric" in done.stderr
        assert done.stderr.endswith("dualmetric: no does not exist: make it with dualmetric fit\n")


class TestStart:
    def test_help_names_every_command(self):
        shown = run("--help").stdout
        for name in (*COMMANDS, "demo", "reproduce"):
            assert re.search(rf"│ {name} ", shown)
            assert f"dualmetric {name}" in DOCS.read_text()

    def test_options_of_fit_are_documented(self):
        shown = set(re.findall(r"--[a-z-]+", run("fit", "--help").stdout))
        section = DOCS.read_text().partition("\n## fit\n")[2].partition("\n## ")[0]
        assert shown - {"--help", "--verbose", "--quiet"} <= set(re.findall(r"--[a-z-]+", section))

    def test_help_of_commands_loads_nothing_heavy(self):
        light = [name for name in COMMANDS if name != "fit"]  # whose flags are the estimators'
        code = (
            "import sys\n"
            "from dualmetric.cli import app\n"
            "for command in sys.argv[1:]:\n"
            "    try: app([command, '--help'])\n"
            "    except SystemExit as end: assert end.code == 0, end.code\n"
            "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *light],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.count("Usage:") == len(light)
        loaded = set(done.stdout.rpartition("LOADED")[2].split())
        assert not {"numba", "sklearn", "scipy", "numpy", "safetensors", "pyarrow"} & loaded

    def test_help_of_fit_loads_no_compiler(self):
        code = (
            "import sys\n"
            "from dualmetric.cli import app\n"
            "try: app(['fit', '--help'])\n"
            "except SystemExit as end: assert end.code == 0, end.code\n"
            "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert not {"numba", "matplotlib"} & set(done.stdout.rpartition("LOADED")[2].split())

    @pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
    def test_the_bar_shows_the_passes(self, data):
        shown = shown_on_terminal("fit", str(data), "--method", "durp")
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
        assert re.search(r"reading +[━╸╺ ]+", text)
        assert re.search(r"learning +[━╸╺ ]+ \d:\d\d:\d\d +(about \S+ left)? +pass 3 of 3", text)
        assert "plain Euclidean" in text
        assert b"\x1b[1m" in shown  # the best in bold

    def test_the_bar_shows_the_time_left(self):
        clock = [0.0]
        console = Console(file=io.StringIO(), force_terminal=True)
        with Progress(_Left(), console=console, get_time=lambda: clock[0]) as progress:
            steps = Steps(progress)
            steps.begin("learning")
            assert _Left().render(progress.tasks[-1]).plain == ""  # nothing is known yet
            clock[0] = 30.0
            steps.advance(1, 4)
            assert _Left().render(progress.tasks[-1]).plain == "about 0:01:30 left"
            steps.advance(4, 4)
            assert _Left().render(progress.tasks[-1]).plain == ""
            steps.advance(1, 4)  # another round, which takes its own time
            clock[0] = 40.0
            assert _Left().render(progress.tasks[-1]).plain == "about 0:00:30 left"
            steps.begin("choosing")
            clock[0] = 50.0
            steps.advance_search(5, 20)  # how many of the others will be run is not known
            assert _Left().render(progress.tasks[-1]).plain == ""
            assert progress.tasks[-1].fields["note"] == "5 of at most 20 groups"

    @pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
    def test_the_bar_shows_how_many_candidates_are_done(self, data, monkeypatch):
        steps = []
        monkeypatch.setattr(Steps, "advance_search", lambda self, *given: steps.append(given))
        options = ("--method", "auto", "--rank", "2", "--power", "0.5", "--for", "linear")
        run("fit", data, *options)
        assert steps[0][0] == 1
        assert steps == sorted(steps)  # counted over all splits
        assert all(done <= total for done, total in steps)
        assert steps[-1][0] == steps[-1][1]  # the bar ends full
        shown = shown_on_terminal("fit", str(data), *options)
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
        assert re.search(r"choosing and learning +[━╸╺ ]+ \S+ +\d+ of at most \d+ groups", text)
