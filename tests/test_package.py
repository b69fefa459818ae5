"""The package as a whole: what importing it costs, its public names, its examples."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import dualmetric
from dualmetric import Metric


def run(code, *args):
    """Run Python code in a new interpreter and return what it prints."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LOADED = "print(*sorted({name.split('.')[0] for name in sys.modules}))"


def test_import_loads_nothing_heavy():
    loaded = run(f"import sys, dualmetric; {LOADED}")
    heavy = {"numba", "sklearn", "scipy", "numpy", "pandas", "safetensors", "joblib", "typer"}
    assert not heavy & set(loaded)
    assert "dualmetric" in loaded


def test_dir_loads_nothing_heavy():
    assert "numpy" not in run(f"import sys, dualmetric; dir(dualmetric); {LOADED}")


def test_applying_a_metric_does_not_load_numba(tmp_path):
    Metric(np.eye(3), 3).save(tmp_path / "m")
    code = (
        "import sys; from dualmetric import Metric\n"
        "metric = Metric.load(sys.argv[1])\n"
        "rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]\n"
        "metric.transform(rows); metric.distance(rows, rows); metric.pairwise(rows)\n"
        "metric.matrix(); metric.truncate(2).save(sys.argv[1])\n"
        f"{LOADED}"
    )
    assert "numba" not in run(code, tmp_path / "m")


def test_importing_the_learners_does_not_load_numba():
    assert "numba" not in run(f"import sys; from dualmetric import DuRP, Euclidean; {LOADED}")


def test_public_names():
    assert len(set(dualmetric.__all__)) == len(dualmetric.__all__)
    for name in dualmetric.__all__:
        assert getattr(dualmetric, name) is not None
    assert set(dualmetric.__all__) <= set(dir(dualmetric))


def test_public_names_are_documented():
    for name in set(dualmetric.__all__) - {"__version__"}:
        assert getattr(dualmetric, name).__doc__


def test_star_import():
    assert run("from dualmetric import *; print(DuRP.__name__, Metric.__name__)") == [
        "DuRP",
        "Metric",
    ]


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'dualmetric' has no attribute 'DuRb'"):
        _ = dualmetric.DuRb


def test_version():
    parts = dualmetric.__version__.split(".")
    assert len(parts) >= 2
    assert parts[0].isdigit()


MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dualmetric.__path__, "dualmetric.")
    if not module.name.startswith(("dualmetric.cli", "dualmetric.__main__"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    for name in ("DuRP", "Euclidean", "Metric"):
        assert any(test.examples for test in finder.find(getattr(dualmetric, name)))
