"""The documentation's Python code runs, page by page, and its numbers have sources."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dualmetric
import makers
from dualmetric import losses

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
PYTHON = re.compile(r"^```(?:python|\{run\} python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def code_of(page):
    """All Python blocks of a page: later ones use names of earlier ones."""
    return "\n".join(PYTHON.findall(page.read_text(encoding="utf-8")))


def name_of(page):
    return str(page.relative_to(ROOT))


# README.md is run by test_readme.py, with its commands
RUN = [page for page in [*PAGES, *ROOT.glob("*.md")] if code_of(page) and page.stem != "README"]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_python_code_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(losses, "LOSSES", dict(losses.LOSSES))  # a page adds one
    exec(compile(code_of(page), name_of(page), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    for line in re.findall(r"This prints `(.+?)`", page.read_text(encoding="utf-8")):
        assert line in printed


def test_there_is_code_to_run():
    assert {"docs/start.md", "CONTRIBUTING.md"} <= {name_of(page) for page in RUN}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_fence_is_closed(page):
    fences = re.findall(r"^```+", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_numbers_are_those_of_the_stored_results(page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import page_numbers

    text = page.read_text(encoding="utf-8")
    assert page_numbers.filled(text, page_numbers.collect()) == text
    assert "{{" not in text


def headings_of(page):
    """Names that links give to the headings of a page and of what it includes."""
    text = page.read_text(encoding="utf-8")
    for included in re.findall(r"```{include} (\S+)", text):
        text += (page.parent / included).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=name_of)
def test_links_to_headings_are_right(page):
    text = page.read_text(encoding="utf-8")
    for target, heading in re.findall(r"\]\(([\w/.-]*\.md)#([\w-]+)\)", text):
        assert heading in headings_of(page.parent / target), f"{target}#{heading}"


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    documented = set(
        re.findall(r"auto(?:class|function):: (?:dualmetric\.)?(\w+)$", reference, re.M)
    )
    assert set(dualmetric.__all__) - {"__version__"} <= set(documented)


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            entries = [line for line in block.split("\n") if line and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert {page.resolve() for page in PAGES} - listed == {(DOCS / "index.md").resolve()}


def test_four_commands_lead_to_a_better_search(tmp_path):
    """All but the first, which installs the package."""
    pytest.importorskip("faiss", reason="faiss is not installed")
    section = (DOCS / "start.md").read_text(encoding="utf-8").partition("## Four commands")[2]
    commands = re.findall(r"^\$ (.+)$", section.partition("\n## ")[0], re.MULTILINE)
    programs = [command.split()[0] for command in commands]
    assert programs == ["pip", "dualmetric", "dualmetric", "python"]
    X, y = makers.make_classes(n=240, d=16, spread=2.0, dtype=np.float32)
    np.save(tmp_path / "embeddings.npy", X)
    (tmp_path / "labels.txt").write_text("".join(f"class {label}\n" for label in y))
    scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join([scripts, os.environ["PATH"]])
    *_, printed = [
        subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for command in commands[1:]
    ]
    learned = dualmetric.Metric.load(tmp_path / "metric.safetensors").transform(X)
    plain, better = (dualmetric.mean_average_precision(rows, y) for rows in (X, learned))
    assert better > plain + 0.1
    numbers = [int(number) for number in re.findall(r"\b\d+\b(?!\.)", printed.split("array")[2])]
    assert numbers[::5][:3] == [0, 1, 2]  # each of the first three rows is nearest to itself


def test_counts_of_campaigns_are_those_stored(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import store_reliability

    made = store_reliability.section()
    text = store_reliability.PAGE.read_text(encoding="utf-8")
    assert made in text
    assert store_reliability.page(text, made) == text
    assert all(f"| {name} |" in made for name in ("hostile fits", "damaged files", "faults"))
