"""The package as a whole: what importing it costs, its public names, its examples."""

import ast
import doctest
import importlib
import io
import pkgutil
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import dualmetric
from makers import make_metric

ROOT = Path(__file__).parents[1]


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


def test_one_version_everywhere():
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    version, date = re.search(r"^## (\S+) \((.+)\)$", texts[0], re.MULTILINE).groups()
    assert version == dualmetric.__version__
    if date != "unreleased":
        assert f"\nversion: {version}\ndate-released: {date}\n" in texts[1]


def test_dir_loads_nothing_heavy():
    assert "numpy" not in run(f"import sys, dualmetric; dir(dualmetric); {LOADED}")


FRAMES = {"pandas", "polars", "pyarrow", "narwhals"}
HEAVY = {"numba", "llvmlite", "dask", "torch", "cupy", "matplotlib", *FRAMES}


@pytest.fixture(scope="session")
def loaded_by_scikit_learn():
    """What scikit-learn's checks of arrays import, which is not for this package to decide."""
    return set(run(f"import sys, sklearn.utils, sklearn.metrics; {LOADED}"))


@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
@pytest.mark.parametrize("more", [{}, {"rank": None}, {"idf": True}, {"n_landmarks": 4}], ids=str)
def test_applying_a_metric_loads_nothing_heavy(kind, more, tmp_path, loaded_by_scikit_learn):
    make_metric(kind, **more).save(tmp_path / "m.safetensors")
    load = "import sys; from dualmetric import Metric; metric = Metric.load(sys.argv[1])\n"
    loaded = set(run(load + LOADED, tmp_path / "m.safetensors"))
    assert "safetensors" in loaded
    assert not {*HEAVY, "sklearn"} & loaded
    use = (
        "import numpy as np, scipy.sparse as sp\n"
        "rows = [[1.0, 2.0, 3.0, 0.0, 1.0], [4.0, 5.0, 6.0, 1.0, 0.0]]\n"
        "rows = sp.csr_matrix(rows) if metric.idf is not None else rows\n"
        "metric.transform(rows); metric.distance(rows, rows); metric.pairwise(rows)\n"
        "metric.transform(rows if metric.idf is not None else np.array(rows))\n"
        "if metric.lift is None: metric.matrix()\n"
        "if metric.factor is not None: metric.truncate(2).save(sys.argv[1])\n"
    )
    loaded = set(run(load + use + LOADED, tmp_path / "m.safetensors"))
    assert not HEAVY & (loaded - loaded_by_scikit_learn)


def test_importing_everything_loads_nothing_heavy(loaded_by_scikit_learn):
    loaded = set(run(f"import sys; from dualmetric import *; import dualmetric.io; {LOADED}"))
    assert "sklearn" in loaded
    assert not HEAVY & (loaded - loaded_by_scikit_learn)


def test_fitting_loads_numba_but_no_data_frames(loaded_by_scikit_learn):
    code = (
        "import sys, numpy as np; from dualmetric import DuRP\n"
        "X = np.random.default_rng(0).normal(size=(30, 4)); y = np.arange(30) % 2\n"
        f"DuRP(n_triplets=20, random_state=0).fit(X, y).transform(X); {LOADED}"
    )
    loaded = set(run(code))
    assert HEAVY & (loaded - loaded_by_scikit_learn) <= {"numba", "llvmlite"}


def test_heavy_packages_are_imported_where_they_are_used():
    """In functions, not at the head of modules; a compiled kernel is a module of its own."""
    for name, text in sources():
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import):
                found = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found = {node.module.partition(".")[0]}
            else:
                continue
            allowed = {"numba"} if name == "dualmetric._arrays.kernels" else set()
            allowed |= {"dask"} if name == "dualmetric._rows.dask" else set()
            assert not (HEAVY - {"matplotlib"}) & found - allowed, name  # figures are a module


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
    for name in ("DuRP", "Euclidean", "Metric", "MetricCV", "Whitening", "Triplets", "Comparisons"):
        assert any(test.examples for test in finder.find(getattr(dualmetric, name)))


# --- how the modules depend on each other ---------------------------------------------------

SOURCE = Path(dualmetric.__file__).parent


def sources():
    """Name and text of every module."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path.read_text(encoding="utf-8")


def modules_with(pattern, outside=()):
    """Modules, other than those of the given packages, that have the pattern in their code."""
    found = []
    for name, text in sources():
        kept = [token for token in tokens(text) if token]
        if re.search(pattern, " ".join(kept)) and not name.startswith(tuple(outside)):
            found.append(name)
    return found


def tokens(text):
    """Code without comments and strings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            yield token.string.strip()


def imports_of(name, text, known):
    """Modules of the package that a module imports anywhere, also within functions."""
    package = name if f"{name}.__init__" in known else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                target = inner if inner in known else base
                # `from . import name` in a package is about its modules, not about itself
                if target in known and not (target == base and name.startswith(f"{base}.")):
                    found.add(target)
    return found - {name}


def import_graph():
    """Edges from each module to those that it imports, and to the packages they are in."""
    texts = dict(sources())
    known = set(texts)
    known |= {f"{name}.__init__" for name in texts if any(k.startswith(f"{name}.") for k in texts)}
    graph = {}
    for name, text in texts.items():
        targets = imports_of(name, text, known)
        for target in list(targets):
            package = target.rpartition(".")[0]
            while package.count(".") and not name.startswith(f"{package}."):
                targets.add(package)
                package = package.rpartition(".")[0]
        graph[name] = targets - {name, "dualmetric"}
    graph.pop("dualmetric")  # its names are imported when they are used
    return graph


def cycles(graph):
    """Groups of modules that import each other."""
    order, state = [], {}

    def visit(name, edges, found):
        stack = [(name, iter(sorted(edges[name])))]
        state[name] = True
        while stack:
            node, rest = stack[-1]
            following = next((other for other in rest if other not in state), None)
            if following is None:
                found.append(node)
                stack.pop()
            else:
                state[following] = True
                stack.append((following, iter(sorted(edges[following]))))

    for name in graph:
        if name not in state:
            visit(name, graph, order)
    backwards = {name: {other for other in graph if name in graph[other]} for name in graph}
    state.clear()
    groups = []
    for name in reversed(order):
        if name not in state:
            groups.append([])
            visit(name, backwards, groups[-1])
    return [sorted(group) for group in groups if len(group) > 1]


def test_cycles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "d"}}
    assert cycles(graph) == [["b", "c"]]
    assert cycles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"]]
    assert cycles({"a": {"b"}, "b": set()}) == []
    known = {"p", "p.__init__", "p.a", "p.q", "p.q.__init__", "p.q.b", "p.q.c"}
    text = "from . import c\nfrom ..a import x\ndef f():\n    from .. import q\n    import p.a\n"
    assert imports_of("p.q.b", text, known) == {"p.q.c", "p.a", "p.q"}
    assert imports_of("p.q", "from .b import x\nfrom .. import a", known) == {"p.q.b", "p.a"}


def test_modules_do_not_import_each_other():
    graph = import_graph()
    assert len(graph) > 60
    assert "dualmetric._arrays.ops" in graph["dualmetric.metric"]
    assert "dualmetric.labelled" in graph["dualmetric.supervision.labels"]  # in a function
    assert cycles(graph) == []


def test_only_the_array_layer_knows_kinds_of_arrays():
    inside = ("dualmetric._arrays", "dualmetric._rows")
    assert modules_with(r"\bis_device_array\b|\blibrary \(", inside) == []


def test_few_modules_know_sparse_matrices():
    found = modules_with(r"\b(issparse|is_sparse|isspmatrix)\b")
    border = ("dualmetric._arrays", "dualmetric._rows", "dualmetric.io")
    assert [name for name in found if not name.startswith(border)] == []
    assert len(found) <= 3, found


def test_no_code_asks_what_a_scatter_is():
    assert modules_with(r"isinstance \( [^)]*[sS]catter") == []
