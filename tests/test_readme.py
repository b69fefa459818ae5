"""Every command and every line of Python in README.md runs, in order and as printed."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dualmetric import Metric, cli
from makers import make_clusters

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# blocks, and commands within sentences
PARTS = re.compile(rf"{BLOCK.pattern}|`((?:dualmetric|make|pip) [^`\n]+)`", BLOCK.flags)
# these install or take long: what they name is checked instead
NOT_RUN = ("pip", "make", "dualmetric reproduce")


def parts():
    """Pieces of README.md in their order: Python code, or one command each."""
    for language, block, inline in PARTS.findall(README):
        if language:
            yield language, block
        for line in (inline or ("" if language else block)).splitlines():
            yield "command", line.partition(" #")[0].strip()


COMMANDS = [text for kind, text in parts() if kind == "command"]


def write_files():
    """Small files with the names that README.md uses."""
    rng = np.random.default_rng(0)
    X, y = make_clusters(n=120, d=6, n_classes=3, apart=3.0)
    np.savez("rows.npz", X=X.astype(np.float32), y=y)
    Path("texts.txt").write_text("".join(f"row {row}\n" for row in range(len(X))))

    things = rng.normal(size=(200, 5))
    records = np.vstack([things, things + 0.02 * rng.normal(size=things.shape)])
    lines = [f"r{row}," + ",".join(f"{v:.5f}" for v in x) for row, x in enumerate(records)]
    Path("records.csv").write_text("id,a,b,c,d,e\n" + "\n".join(lines) + "\n")
    same = np.column_stack([np.arange(200), 200 + np.arange(200), np.ones(200)])
    different = np.column_stack([np.arange(200), 200 + (np.arange(200) + 7) % 200, np.zeros(200)])
    pairs = np.stack([same, different], axis=1).astype(int)
    for name, part in (("pairs.csv", pairs[:60]), ("other_pairs.csv", pairs[60:])):
        np.savetxt(name, part.reshape(-1, 3), fmt="r%d,r%d,%d")

    np.save("documents.npy", X)
    np.save("queries.npy", X[::4] + 0.1)
    clicks = np.column_stack([np.arange(30), 4 * np.arange(30)])
    np.savetxt("clicks.csv", clicks[:20], fmt="%d", delimiter=",")
    np.savetxt("new_clicks.csv", clicks[20:], fmt="%d", delimiter=",")


def test_readme(tmp_path, monkeypatch, capsys):
    pytest.importorskip("faiss")
    server = pytest.importorskip("dualmetric.teach.server")
    # the page of teach is started and stopped at once
    monkeypatch.setattr(server, "serve", lambda teaching, port, started: started("http://page"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUALMETRIC_DATA", raising=False)
    write_files()
    names = {"__name__": "__main__"}
    for kind, text in parts():
        if kind == "python":
            exec(compile(text, "README.md", "exec"), names)
        elif not text.startswith(NOT_RUN):
            program, *arguments = shlex.split(text)
            assert program == "dualmetric"
            done = CliRunner().invoke(cli.app, arguments)
            assert done.exit_code == 0, (text, done.output, done.exception)
    printed = capsys.readouterr().out.splitlines()
    for line in re.findall(r"This prints `(.+?)`", README):
        assert line in printed
    assert names["nearest"].shape == (3, 10)
    assert names["nearest"][:, 0].tolist() == [0, 1, 2]
    assert names["vectors"].shape[1] == Metric.load("digits.safetensors").rank


def test_there_is_something_to_run():
    run = [text for text in COMMANDS if not text.startswith(NOT_RUN)]
    used = {text.split()[1] for text in run}
    assert used >= {"fit", "evaluate", "neighbors", "transform", "export", "match", "duplicates"}
    assert len(run) >= 10
    assert "This prints `" in README


@pytest.mark.parametrize("command", [text for text in COMMANDS if text.startswith(NOT_RUN)])
def test_what_is_not_run_exists(command):
    _, name, *_ = command.split()
    if command.startswith("make"):
        assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif command.startswith("pip"):
        assert name == "install"
    else:
        assert CliRunner().invoke(cli.app, [name, "--help"]).exit_code == 0


def test_extras_and_links_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for found in re.findall(r"'\.\[([\w,]+)\]'", README):
        assert set(found.split(",")) <= set(extras)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
