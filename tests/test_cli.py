"""The command line: what it prints, what it leaves, and how it ends."""

import errno
import importlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import dualmetric
from dualmetric import cli
from dualmetric.datasets import NAMES, Dataset, load_dataset
from dualmetric.paper import page, run
from dualmetric.paper.cells import EXPERIMENTS, Store, plan
from terminal import shown_on_terminal

demo = importlib.import_module("dualmetric.cli.demo")  # the package has a function of that name

COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # nohup ignores it
    "from dualmetric.cli import main; main()"
)


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    """An empty cache folder, no data folder, and nothing can be downloaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUALMETRIC_DATA", raising=False)
    monkeypatch.setenv("DUALMETRIC_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")


@pytest.fixture
def call():
    """Run a command in this process."""

    def invoke(*arguments):
        done = CliRunner().invoke(cli.app, list(map(str, arguments)))
        if not isinstance(done.exception, SystemExit | None):
            raise done.exception
        return done

    return invoke


def error_line(done):
    """The one line that an error is: nothing on standard output, no traceback."""
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("dualmetric: ")
    return line


def process(*arguments):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def computed(monkeypatch, stop_at=None, figures=False):
    """Have cells made up at once, and no figures drawn; returns the list of cells asked for."""
    asked = []

    def work(cell):
        asked.append(cell)
        if len(asked) == stop_at:
            raise KeyboardInterrupt
        if cell.kind == "statistics":
            sizes = {"classes": 3, "features": 4, "train": 5, "test": 6}
            return {**sizes, "note": "", "stand_in_for": None, "eigenvalues": [1.0]}
        names = ("map", "knn", "seconds", "cpu_seconds", "error", "relative_error", "gram_error")
        names += ("size", "error_of_ones", "diameter", "bound_given_gram", "relative_gap")
        return dict.fromkeys(names, 0.5) | {"bound": None}

    monkeypatch.setattr(run, "_compute", work)
    if not figures:
        monkeypatch.setattr(page, "_draw", lambda store: {})
    return asked


class TestStart:
    def test_version(self, call):
        done = call("--version")
        assert (done.exit_code, done.stdout) == (0, f"dualmetric {dualmetric.__version__}\n")

    @pytest.mark.parametrize("arguments", [["--help"], []])
    def test_help(self, call, arguments):
        done = call(*arguments)
        assert done.exit_code == (0 if arguments else 2)
        assert "demo" in done.output
        assert "reproduce" in done.output

    def test_flags_take_no_value(self, call):
        for command in ([], ["fit"], ["match"]):
            shown = call(*command, "--help").stdout
            assert "bool" not in shown.lower()
            assert "{" not in shown
        assert "Usage: dualmetric match [OPTIONS] METRIC DATA" in " ".join(shown.split())

    def test_a_command_that_is_misspelt(self, call):
        said = call("fitt").stderr
        # only newer versions of typer suggest a command
        assert "No such command 'fitt'. Did you mean 'fit'? See " in said or (
            "No such command 'fitt'; see " in said and "Did you mean" not in said
        )

    @pytest.mark.parametrize("width", [60, 80, 100])
    def test_help_is_wrapped_at_the_width_of_the_terminal(self, call, monkeypatch, width):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERMINAL_WIDTH", str(width))
        for command in ("teach", "duplicates", "evaluate", "match"):
            shown = call(command, "--help").stdout
            text = shown[shown.index("Usage") :]
            text = text[: min(text.find(mark) for mark in "╭+" if mark in text)]
            for paragraph in re.split(r"\n\s*\n", text)[1:]:
                lines = [line.strip() for line in paragraph.strip().splitlines()]
                for line, after in itertools.pairwise(lines):
                    # older versions of typer leave no blank line between paragraphs
                    full = len(f"{line} {after.split()[0]}") > width - 2
                    assert full or line.endswith("."), line

    def test_help_of_commands(self, call):
        shown = call("demo", "--help").stdout
        assert {"--dataset", "--out", "--seed"} <= set(shown.split())
        assert "read from DUALMETRIC_DATA, or downloaded." in " ".join(
            re.sub("[│|]", "", shown).split()
        )
        shown = call("reproduce", "--help").stdout
        options = {"--datasets", "--experiments", "--trials", "--out", "--quick"}
        assert options <= set(shown.split())
        assert "usps,tdt30" in shown
        for name in EXPERIMENTS:
            assert name in shown

    @pytest.mark.parametrize(
        "arguments", [["--version"], ["--help"], ["demo", "--help"], ["reproduce", "--help"]]
    )
    def test_nothing_heavy_is_loaded(self, arguments):
        code = (
            "import sys\n"
            "from dualmetric.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert end.code == 0, end.code\n"
            "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        loaded = set(done.stdout.rpartition("LOADED")[2].split())
        assert "typer" in loaded
        heavy = {"numba", "sklearn", "scipy", "numpy", "matplotlib", "pandas", "pooch"}
        assert not heavy & loaded

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["learn"], "learn"),
            (["demo", "--colour"], "--colour"),
            (["demo", "--seed", "-1"], "seed"),
            (["reproduce", "--trials", "0"], "trials"),
            (["reproduce", "usps"], "usps"),
        ],
    )
    def test_wrong_usage(self, call, arguments, said):
        done = call(*arguments)
        assert done.exit_code == 2
        assert said in done.stderr

    def test_installed_command(self):
        done = process("--version")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"dualmetric {dualmetric.__version__}\n"

    def test_reader_that_leaves(self):
        # `dualmetric --help | head -1` says nothing of broken pipes
        child = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "--help"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()
        child.stderr.close()
        child.wait(30)


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "line"),
        [
            (ValueError("no such thing"), "dualmetric: no such thing\n"),
            (FileNotFoundError("x.npz is needed"), "dualmetric: x.npz is needed\n"),
            (ImportError("pip install it"), "dualmetric: pip install it\n"),
            (
                OSError(errno.ENOSPC, "No space left on device", "a.json"),
                "dualmetric: [Errno 28] No space left on device: 'a.json'\n",
            ),
        ],
    )
    def test_one_line(self, call, monkeypatch, error, line):
        def fail(name):
            raise error

        monkeypatch.setattr("dualmetric.datasets.load_dataset", fail)
        done = call("demo")
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", line)

    def test_mistakes_of_ours_keep_their_traceback(self, call, monkeypatch):
        def fail(name):
            raise AssertionError

        monkeypatch.setattr("dualmetric.datasets.load_dataset", fail)
        with pytest.raises(AssertionError):
            call("demo")

    def test_stopped(self, call, monkeypatch):
        def stop(name):
            raise KeyboardInterrupt

        monkeypatch.setattr("dualmetric.datasets.load_dataset", stop)
        done = call("demo")
        assert (done.exit_code, done.stdout) == (130, "")
        assert done.stderr == "dualmetric: stopped\n"


class TestDemo:
    METHODS = (
        *("MetricCV", "Euclidean", "SRP", "SPCA", "LMNN", "OASIS", "DuOri", "DuRP"),
        "DuRP, neighbors",
    )

    def test_digits(self, call, tmp_path):
        done = call("demo")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.startswith("digits: 1,198 training rows and 599 test rows of 64")
        rows = re.findall(
            r"^│ (\S.*?) +│ +(\d+) │ +([\d.]+) │ +([\d.]+) │ +([\d.]+) │$", done.stdout, re.M
        )
        assert tuple(row[0] for row in rows) == self.METHODS
        found = {name: (float(mean), float(knn)) for name, _, mean, knn, _ in rows}
        assert all(10 < value <= 100 for pair in found.values() for value in pair)
        assert found["DuRP"][0] > found["Euclidean"][0] > found["SRP"][0]
        assert found["MetricCV"][0] == max(mean for mean, _ in found.values())
        _, chosen, better, *_ = done.stdout.splitlines()
        assert re.fullmatch(
            r"MetricCV chose \w+ \(.+\) on held-out training rows, in \S+ s\.", chosen
        )
        assert re.match(r"On the test rows: mAP 9\d\.\d %, up from 6\d\.\d % with the", better)
        assert "dualmetric fit rows.npz -o metric.safetensors" in done.stdout
        assert "Figure: demo/digits.png" in done.stdout
        assert (tmp_path / "demo" / "digits.png").read_bytes().startswith(b"\x89PNG")
        assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["digits.png"]

    @pytest.fixture
    def at_once(self, monkeypatch):
        """Results without learning."""
        results = [demo.Result(name, 5, 0.5, 0.9, 0.1) for name in self.METHODS]
        chosen = dualmetric.Euclidean().fit(load_dataset("digits").X_train)
        monkeypatch.setattr(demo, "_compare", lambda *arguments: (results, chosen))

    @pytest.mark.usefixtures("at_once")
    @pytest.mark.parametrize(
        ("name", "start"),
        [("a.svg", b"<?xml"), ("new/folder/a.pdf", b"%PDF"), ("b.png", b"\x89PNG")],
    )
    def test_out(self, call, tmp_path, name, start):
        done = call("demo", "--out", name)
        assert done.exit_code == 0, done.stderr
        assert (tmp_path / name).read_bytes().startswith(start)
        assert f"Figure: {name}" in done.stdout

    @pytest.mark.usefixtures("at_once")
    def test_rows_that_are_no_pictures(self, call, monkeypatch, tmp_path):
        digits = load_dataset("digits")
        halves = [X[:, :32] for X in (digits.X_train, digits.X_test)]
        data = Dataset("half", halves[0], digits.y_train, halves[1], digits.y_test, "", None)
        chosen = dualmetric.Euclidean().fit(halves[0])
        results = [demo.Result("MetricCV", 5, 0.5, 0.9, 0.1)]
        monkeypatch.setattr(demo, "_compare", lambda *arguments: (results, chosen))
        monkeypatch.setattr("dualmetric.datasets.load_dataset", lambda name: data)
        assert call("demo", "--out", "a.png").exit_code == 0
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.usefixtures("at_once")
    def test_stand_ins_are_called_stand_ins(self, call, monkeypatch):
        digits = load_dataset("digits")
        data = Dataset("protein_val", *digits[1:5], "a part", "protein")
        monkeypatch.setattr("dualmetric.datasets.load_dataset", lambda name: data)
        done = call("demo", "--dataset", "protein_val")
        assert done.stdout.startswith("protein_val (stand-in for protein): ")

    @pytest.mark.usefixtures("at_once")
    def test_without_matplotlib(self, call, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        done = call("demo")
        assert done.exit_code == 0
        assert "No figure: it needs  pip install 'dualmetric[plot]'" in done.stdout
        assert all(name in done.stdout for name in self.METHODS)
        assert not (tmp_path / "demo").exists()

    def test_unknown_data_set(self, call):
        line = error_line(call("demo", "--dataset", "uspz"))
        assert line == (
            "dualmetric: unknown data set 'uspz': there is no file uspz.npz; known: "
            + ", ".join(NAMES)
        )

    @pytest.mark.parametrize("name", ["usps", "caltech30", "isolet1"])
    def test_data_that_are_not_here(self, call, name):
        pytest.importorskip("pooch")
        line = error_line(call("demo", "--dataset", name))
        assert name in line
        assert "is needed" in line

    def test_data_folder_that_is_not_there(self, call, monkeypatch):
        monkeypatch.setenv("DUALMETRIC_DATA", "nowhere")
        assert "nowhere" in error_line(call("demo", "--dataset", "usps"))

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("taken/a.png", "taken is a file, not a folder; choose another folder"),
            ("taken/new/a.png", "taken is a file, not a folder; choose another folder"),
            ("folder.png", "it is a folder; give the name of a file"),
        ],
    )
    def test_out_that_cannot_be_written(self, call, monkeypatch, tmp_path, name, reason):
        def learn(*arguments):
            raise AssertionError("it is to be told before the learning")

        monkeypatch.setattr(demo, "_compare", learn)
        (tmp_path / "taken").write_text("mine")
        (tmp_path / "folder.png").mkdir()
        line = error_line(call("demo", "--out", name))
        assert line == f"dualmetric: --out: {name} cannot be written: {reason}"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png", "taken"]
        assert (tmp_path / "taken").read_text() == "mine"

    @pytest.mark.parametrize("name", ["a", "a.doc"])
    def test_unknown_kind_of_picture(self, call, tmp_path, name):
        line = error_line(call("demo", "--out", name))
        assert line == f"dualmetric: --out: {name} must end in one of .png, .svg, .pdf, .jpg"
        assert not list(tmp_path.iterdir())

    @pytest.mark.usefixtures("at_once")
    def test_full_disk(self, call, monkeypatch, tmp_path):
        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        (tmp_path / "a.png").write_text("before")
        monkeypatch.setattr(os, "fsync", full)
        done = call("demo", "--out", "a.png")
        assert done.exit_code == 2
        assert done.stderr == (
            "dualmetric: a.png could not be written: No space left on device; free some space or "
            "choose another folder\n"
        )
        assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
        assert (tmp_path / "a.png").read_text() == "before"


class TestReproduce:
    def test_names_with_commas_repeated_or_both(self, call, monkeypatch, tmp_path):
        for number, arguments in enumerate(
            [
                ["--datasets", "digits,su", "--experiments", "methods,reg"],
                ["--datasets", "digits", "--datasets", "su", "--experiments", "methods, reg"],
                [
                    *("--datasets", "digits, su", "--datasets", "su,digits"),
                    *("--experiments", "methods", "--experiments", "reg"),
                ],
            ]
        ):
            asked = computed(monkeypatch)
            monkeypatch.setattr("dualmetric.datasets.available", lambda name: True)
            done = call("reproduce", *arguments, "--trials", 2, "--out", number)
            assert done.exit_code == 0, done.stderr
            assert asked == plan(["methods", "reg"], ["digits", "su"], 2)
            assert done.stdout.startswith("Data sets: digits, su\n")

    def test_default_is_what_is_at_hand(self, call, monkeypatch, tmp_path):
        for name in ("rcv1_7class", "usps", "su"):  # su has nothing to do with the paper
            (tmp_path / f"{name}.npz").write_bytes(b"")
        monkeypatch.setenv("DUALMETRIC_DATA", str(tmp_path))
        asked = computed(monkeypatch)
        done = call("reproduce")
        assert done.exit_code == 0, done.stderr
        assert asked == plan(EXPERIMENTS, ["usps", "rcv1_7class", "digits"], 5)
        assert "Page: results/index.html" in done.stdout

    def test_quick(self, call, monkeypatch):
        asked = computed(monkeypatch)
        done = call("reproduce", "--quick", "--trials", 3)
        chosen = ["statistics", "methods", "reg", "unit", "theorems"]
        assert asked == plan(chosen, ["digits"], 1)
        assert "Page: results-quick/index.html" in done.stdout
        again = call("reproduce", "--quick")
        assert f"{len(asked)} results, {len(asked)} of them stored already" in again.stdout

    def test_a_full_run_after_a_quick_one(self, call, monkeypatch):
        computed(monkeypatch)
        arguments = ["reproduce", "--experiments", "statistics"]
        assert call(*arguments, "--quick").exit_code == 0
        assert call(*arguments).exit_code == 0

    def test_stand_ins_are_called_stand_ins(self, call, monkeypatch):
        computed(monkeypatch)
        monkeypatch.setattr("dualmetric.datasets.available", lambda name: True)
        done = call("reproduce", "--datasets", "protein_val,digits", "--experiments", "methods")
        assert done.stdout.startswith("Data sets: protein_val (part of protein), digits\n")

    def test_no_bar_in_a_file(self, call, monkeypatch):
        computed(monkeypatch, figures=True)
        done = call("reproduce", "--experiments", "statistics", "--out", "a")
        assert done.stdout == (
            "Data sets: digits\n1 results, 0 of them stored already\nPage: a/index.html\n"
        )

    def test_without_matplotlib(self, call, monkeypatch, tmp_path):
        computed(monkeypatch, figures=True)
        for name in ("matplotlib", "matplotlib.figure"):
            monkeypatch.setitem(sys.modules, name, None)
        done = call("reproduce", "--experiments", "statistics", "--out", "a")
        assert done.exit_code == 0, done.stderr
        assert "No figures: they need  pip install 'dualmetric[plot]'" in done.stdout
        assert not list((tmp_path / "a").glob("*.svg"))

    @pytest.mark.parametrize("name", ["uspz", "digits,uspz", "digits,", ""])
    def test_unknown_data_set(self, call, tmp_path, name):
        line = error_line(call("reproduce", "--datasets", name))
        wrong = name.rpartition(",")[2]
        assert line == f"dualmetric: unknown data set {wrong!r}; known: {', '.join(NAMES)}"
        assert not list(tmp_path.iterdir())

    def test_unknown_experiment(self, call, tmp_path):
        line = error_line(call("reproduce", "--experiments", "methods,table2"))
        assert line == f"dualmetric: unknown experiment 'table2'; known: {', '.join(EXPERIMENTS)}"
        assert not list(tmp_path.iterdir())

    def test_data_that_are_not_here_are_missed_at_once(self, call, monkeypatch):
        asked = computed(monkeypatch)
        done = call("reproduce", "--datasets", "digits,isolet1")
        assert done.exit_code == 2
        assert re.fullmatch(r"dualmetric: isolet1\.npz is needed.*\n", done.stderr)
        assert asked == []

    def test_data_are_not_missed_where_their_results_are_stored(self, call, monkeypatch):
        asked = computed(monkeypatch)
        arguments = ["reproduce", "--datasets", "isolet1", "--experiments", "reg"]
        with monkeypatch.context() as patch:
            patch.setattr("dualmetric.datasets.available", lambda name: True)
            assert call(*arguments).exit_code == 0
        before = len(asked)
        assert call(*arguments).exit_code == 0
        assert len(asked) == before

    @pytest.mark.parametrize("name", ["taken", "taken/results"])
    def test_out_that_cannot_be_written(self, call, monkeypatch, tmp_path, name):
        asked = computed(monkeypatch)
        (tmp_path / "taken").write_text("mine")
        assert "taken" in error_line(call("reproduce", "--out", name))
        assert asked == []
        assert [path.name for path in tmp_path.iterdir()] == ["taken"]

    def test_folder_of_other_settings(self, call, monkeypatch, tmp_path):
        computed(monkeypatch)
        arguments = ["reproduce", "--experiments", "statistics", "--out", "a"]
        assert call(*arguments, "--trials", 2).exit_code == 0
        line = error_line(call(*arguments, "--trials", 3))
        assert "trials=2" in line
        assert "trials=3" in line
        assert len(Store(tmp_path / "a", {"trials": 2}).results("statistics")) == 1

    def test_damaged_cell(self, call, monkeypatch, tmp_path):
        computed(monkeypatch)
        arguments = ["reproduce", "--experiments", "statistics", "--out", "a"]
        call(*arguments)
        path = tmp_path / "a" / "cells.jsonl"
        first, _ = path.read_text().splitlines()
        path.write_text(f"{first}\n{{}}\n")
        done = call(*arguments)
        assert done.exit_code == 2
        assert done.stderr == (
            "dualmetric: line 2 of a/cells.jsonl is not a stored result: delete the line, and the "
            "result is computed again\n"
        )
        path.write_text(f"{first}\n")
        assert call(*arguments).exit_code == 0

    def test_line_cut_by_a_kill(self, call, monkeypatch, tmp_path):
        computed(monkeypatch)
        arguments = ["reproduce", "--experiments", "statistics", "--out", "a"]
        call(*arguments)
        path = tmp_path / "a" / "cells.jsonl"
        path.write_bytes(path.read_bytes()[:-20])
        done = call(*arguments)
        assert done.exit_code == 0
        assert "the last line of a/cells.jsonl is incomplete" in done.stderr
        assert "1 results, 0 of them stored already" in done.stdout
        assert "1 results, 1 of them stored already" in call(*arguments).stdout

    def test_full_disk(self, call, monkeypatch, tmp_path):
        asked = computed(monkeypatch)
        Store(tmp_path / "a", {"trials": 1})

        def full(handle):
            if len(asked) == 3:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        done = call("reproduce", "--quick", "--out", "a")
        assert done.exit_code == 2
        assert re.fullmatch(
            r"dualmetric: \[Errno 28\] No space left on device; the results stored before are "
            r"kept: 'a/cells\.jsonl'\n",
            done.stderr,
        )
        assert len((tmp_path / "a" / "cells.jsonl").read_text().splitlines()) == 1 + 2

    def test_stopped_run_goes_on(self, call, monkeypatch):
        cells = plan(["methods"], ["digits"], 1)
        arguments = ["reproduce", "--quick", "--experiments", "methods", "--out", "a"]
        asked = computed(monkeypatch, stop_at=3)
        done = call(*arguments)
        assert done.exit_code == 130
        assert done.stderr == (
            "dualmetric: stopped; finished results are kept in a, and the same command "
            "continues from there\n"
        )
        done = call(*arguments)
        assert done.exit_code == 0
        assert "9 results, 2 of them stored already" in done.stdout
        assert asked == cells[:3] + cells[2:]


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing there")
def test_ctrl_c(call, monkeypatch, tmp_path):
    arguments = ["reproduce", "--quick", "--datasets", "digits", "--out", "a"]
    child = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    path = tmp_path / "a" / "cells.jsonl"
    while not (path.exists() and path.read_bytes().count(b"\n") > 2) and time.monotonic() < end:
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, said = child.communicate(timeout=60)
    assert time.monotonic() - begin < 30  # it ends the cell's compiled loop first
    assert child.returncode == 130
    assert said == (
        "dualmetric: stopped; finished results are kept in a, and the same command continues from "
        "there\n"
    )
    assert not list(tmp_path.glob("a/**/.dualmetric-*"))
    store = Store(tmp_path / "a", {"trials": 1})
    kept = store.results("theorem1")
    assert len(kept) >= 2
    asked = computed(monkeypatch)  # the rest is quick here: going on is what matters
    done = call(*arguments)
    assert done.exit_code == 0, done.stderr
    assert f"50 results, {len(kept)} of them stored already" in done.stdout
    assert len(asked) == 50 - len(kept)
    assert kept.items() <= Store(tmp_path / "a", {"trials": 1}).results("theorem1").items()


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
def test_progress_bar_on_a_terminal(tmp_path):
    shown = shown_on_terminal("reproduce", "--quick", "--experiments", "statistics,reg")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    # how often it is drawn depends on the machine
    assert re.search(r"digits DuRP [━╸╺ ]+ [2-5]/5 \d:\d\d:\d\d left", text)
    assert "Page: results-quick/index.html" in text
