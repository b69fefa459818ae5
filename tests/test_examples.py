"""The scripts in examples/ run as they are, and learn something."""

import os
import re
import runpy
from contextlib import ExitStack
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

import postgresql

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NAMES = [
    "clicks",
    "dask_cluster",
    "duplicates",
    "embeddings",
    "few_labels",
    "genes",
    "images",
    "matching",
    "new_classes",
    "text",
    "vector_stores",
]
OUTPUTS = ROOT / "docs" / "outputs"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a script in an empty folder and return what it prints; no data folder, if not given."""

    def output(name, folder=None):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("DUALMETRIC_CACHE", str(tmp_path / "cache"))
        if folder is None:
            monkeypatch.delenv("DUALMETRIC_DATA", raising=False)
        else:
            monkeypatch.setenv("DUALMETRIC_DATA", folder)
        with threadpool_limits(1):  # other tests may keep the cores busy
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return output


@pytest.fixture
def database(monkeypatch):
    """A server of PostgreSQL with pgvector, named by DATABASE_URL."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with ExitStack() as stack:
        try:
            address = stack.enter_context(postgresql.server())
        except postgresql.MissingError as error:
            pytest.skip(str(error))
        monkeypatch.setenv("DATABASE_URL", address)
        yield


def scores(output, pattern=r"mAP (\d\.\d+)"):
    """Numbers of lines such as ``learned: mAP 0.9``, by what comes before the colon."""
    lines = [line.split(":", 1) for line in output.split("\n") if ":" in line]
    found = {name.strip(): re.search(pattern, rest) for name, rest in lines}
    return {name: float(match[1]) for name, match in found.items() if match}


def test_there_is_one_of_each_kind():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == NAMES


def test_text(run):
    output = run("text")
    assert output.startswith("synthetic documents")
    mean = scores(output)
    assert mean["learned"] > mean["cosine"] + 0.2
    directions = output.split("leading directions:")[1]
    assert "filler" not in directions  # words of topics only


def test_images(run):
    output = run("images")
    assert output.startswith("digits")
    mean, votes = scores(output), scores(output, r"5-NN (\d\.\d+)")
    # by 0.03 to 0.13 on digits, as the seed has it
    assert mean["DuRP, whitened, cosine"] > mean["plain cosine"] + 0.02
    assert mean["DuRP, whitened, cosine"] > mean["DuRP, from neighbours"]
    assert votes["DuRP, from neighbours"] > votes["DuRP, whitened, cosine"]
    assert mean["DuRP, lifted"] > mean["LDA"]


def test_genes(run):
    output = run("genes")
    assert output.startswith("synthetic samples")
    mean = scores(output)
    assert mean["learned"] > mean["cosine"] + 0.3
    genes = re.findall(r"gene (\d+)", output)
    assert len(genes) == 12
    assert all(int(gene) < 40 for gene in genes)  # those that differ between tissues


def test_dask_cluster(run):
    pytest.importorskip("distributed")
    output = run("dask_cluster")
    votes = scores(output, r"5-NN (\d\.\d+)")
    assert votes["learned"] > votes["plain"] + 0.1
    assert "still in 20 partitions" in output


def test_embeddings(run):
    output = run("embeddings")
    assert output.startswith("synthetic vectors")
    seen = scores(output, r"(\d\.\d+)")
    unseen = scores(output, r"\d\.\d+ +(\d\.\d+)")
    assert seen["DuRP"] > seen["ridge's outputs"] > seen["plain cosine"]
    assert unseen["DuRP"] > unseen["plain cosine"] + 0.1


def test_clicks(run):
    output = run("clicks")
    assert output.startswith("digits: 418 queries")
    known = scores(output, r"\d\.\d+ +(\d\.\d+)")
    new = scores(output, r"\d\.\d+ +\d\.\d+ +(\d\.\d+)")
    for chosen in ("MetricCV(cv=None)", "MetricCV(cv='queries')"):
        assert known[chosen] > known["plain distance"] + 0.01
    # the default looks at new documents, too
    assert new["MetricCV(cv=None)"] > new["MetricCV(cv='queries')"]


def test_duplicates(run):
    output = run("duplicates")
    assert output.startswith("digits")
    for pattern in (r"(\d\.\d+) average", r"TAR (\d\.\d+)"):
        found = scores(output, pattern)
        assert found["learned"] > found["plain"] + 0.02


def test_matching(run):
    output = run("matching")
    assert output.startswith("synthetic records")
    precision = scores(output, r"(\d\.\d+) average")
    assert precision["learned"] > precision["plain cosine"] + 0.4
    assert max(scores(output, r"calibration error (\d\.\d+)").values()) < 0.02
    # the learned metric supports what the plain cosine does not
    plain, _, learned = output.partition("\nlearned")
    assert plain.count("cannot support") == 2
    kept = re.findall(r"precision (0\.9+): up to .* precision (\d\.\d+) and recall", learned)
    assert [asked for asked, _ in kept] == ["0.99", "0.9"]
    assert all(float(found) >= float(asked) for asked, found in kept)


def test_few_labels(run):
    output = run("few_labels")
    assert output.startswith("digits: 100 of 1,198 rows")
    mean = scores(output)
    assert min(mean["MetricCV"], mean["DuRP, prior"]) > mean["plain cosine"] + 0.03
    assert mean["DuRP, prior"] > mean["DuRP, no prior"]


def test_new_classes(run):
    output = run("new_classes")
    assert output.startswith("digits: learned on 5 classes")
    mean = scores(output, r"MAP@R (\d\.\d+)")
    assert mean['MetricCV(cv="classes")'] > mean["plain cosine"] - 0.01
    assert mean["MetricCV()"] < mean["plain cosine"] - 0.1  # chosen on classes that are known


def check_stores(output, *names):
    assert output.startswith("synthetic vectors: 1,000 documents")
    precision = scores(output, r"(\d\.\d{3})$")
    assert len(precision) == 3 * len(names)
    for name in names:  # all search exactly, so they find the same
        plain, documents, queries = (
            precision[f"{name}, {way}"]
            for way in ("   plain distance", "documents changed", "  queries changed")
        )
        assert plain == pytest.approx(precision["FAISS,    plain distance"], abs=0.003)
        assert documents == pytest.approx(precision["FAISS, documents changed"], abs=0.003)
        assert queries == pytest.approx(precision["FAISS,   queries changed"], abs=0.003)
        assert min(documents, queries) > plain + 0.1


def needs_stores():
    """Skip where one of the packages is missing that every run of this example needs."""
    for name in ("faiss", "apsw", "sqlite_vec"):
        pytest.importorskip(name, reason=f"{name} is not installed")


def test_vector_stores(run, monkeypatch):
    needs_stores()
    monkeypatch.delenv("DATABASE_URL", raising=False)
    check_stores(run("vector_stores"), "FAISS", "SQLite")


@pytest.mark.postgresql
def test_vector_stores_with_postgresql(run, database):
    needs_stores()
    check_stores(run("vector_stores"), "FAISS", "SQLite", "PostgreSQL")


@pytest.mark.skipif("DUALMETRIC_DATA" not in os.environ, reason="DUALMETRIC_DATA is not set")
@pytest.mark.parametrize("name", NAMES)
def test_stored_output_is_what_the_script_prints(name, run, request):
    if name == "vector_stores":
        needs_stores()
        request.getfixturevalue("database")
    stored = (OUTPUTS / f"{name}.txt").read_text(encoding="utf-8")
    printed = run(name, os.environ["DUALMETRIC_DATA"])
    assert printed.split("\n")[0] == stored.split("\n")[0]
    # the third digit may differ between machines, and so may times
    decimals = r"(?:mAP|5-NN|:) +(\d\.\d{3})(?: +(\d\.\d{3}))?"
    expected = [float(x) for found in re.findall(decimals, stored) for x in found if x]
    got = [float(x) for found in re.findall(decimals, printed) for x in found if x]
    assert expected
    assert got == pytest.approx(expected, abs=0.02)
