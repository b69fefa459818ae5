"""The paper's experiments: what is planned, what is stored, and what is made of it."""

import builtins
import errno
import json
import os
import re
import sys
import warnings
from dataclasses import astuple
from itertools import groupby

import numpy as np
import pytest
from typer.testing import CliRunner

from dualmetric.cli import app
from dualmetric.datasets import Dataset, available
from dualmetric.datasets._catalog import CATALOG
from dualmetric.paper import (
    cells,
    compute,
    figures,
    page,
    published,
    run,
    summary,
    tables,
    theorems,
)
from dualmetric.paper.cells import EXPERIMENTS, METHODS, Cell, Store, plan

SETS = tuple(published.STATISTICS)
STOCHASTIC = ("DuOri", "DuRP", "OASIS", "SRP", "SPCA")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results", {"trials": 2})


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def silent(cell, done):
    pass


class TestPlan:
    def test_the_papers_design(self):
        planned = plan(EXPERIMENTS, SETS, 5)
        per_set = (
            1  # statistics
            + 5 * len(STOCHASTIC)  # Tables 2 and 3, m = 10
            + 2  # Euclid and LMNN, which have no chance in them
            + 5 * 3 * 4  # DuRP, SRP and SPCA with m = 20 … 50
            + 5 * 4  # λ
        )
        assert len(planned) == 6 * per_set + 5 * 7 * 3 + 5 * 7
        assert len(set(planned)) == len(planned)

    def test_tables_2_and_3(self):
        planned = plan(["methods"], ["usps"], 5)
        assert {cell.method for cell in planned} == set(METHODS)
        for method in METHODS:
            seeds = [cell.seed for cell in planned if cell.method == method]
            assert seeds == ([0, 1, 2, 3, 4] if method in STOCHASTIC else [0])
        with_m = {cell.method for cell in planned if cell.m is not None}
        assert with_m == {"DuRP", "SRP", "SPCA", "LMNN"}
        assert {cell.m for cell in planned} == {10, None}
        assert {cell.reg for cell in planned} == {None}

    def test_figures_share_the_cells_of_the_tables(self):
        both = plan(["methods", "projections"], ["usps"], 5)
        assert len(both) == 27 + 60
        assert {cell.m for cell in both if cell.method == "DuRP"} == {10, 20, 30, 40, 50}

    def test_regularisation(self):
        planned = plan(["reg"], ["usps"], 2)
        assert {cell.reg for cell in planned} == {1e-5, 1e-4, 1e-3, 1e-2}
        assert {(cell.method, cell.m) for cell in planned} == {("DuRP", 10)}

    def test_theorems_need_no_data(self):
        planned = plan(["theorems"], [], 1)
        assert {cell.kind for cell in planned} == {"theorem1", "theorem2"}
        assert {cell.dataset for cell in planned} == {None}

    def test_one_data_set_and_trial_at_a_time(self):
        planned = plan(EXPERIMENTS, ["tdt30", "usps"], 3)
        fits = [cell for cell in planned if cell.kind == "fit"]
        groups = [key for key, _ in groupby(fits, lambda cell: (cell.dataset, cell.seed))]
        assert groups == [(name, seed) for name in ("tdt30", "usps") for seed in range(3)]
        for name in ("tdt30", "usps"):  # the data are read once, for everything
            places = [place for place, cell in enumerate(planned) if cell.dataset == name]
            assert places == list(range(places[0], places[-1] + 1))
            assert planned[places[0]].kind == "statistics"

    def test_order_and_repetition_of_experiments_do_not_matter(self):
        assert set(plan(["reg", "methods", "reg"], ["usps"], 2)) == set(
            plan(["methods", "reg"], ["usps"], 2)
        )

    def test_iterators_will_do(self):
        assert plan(iter(["methods", "reg"]), iter(["usps"]), 1) == plan(
            ["methods", "reg"], ["usps"], 1
        )

    def test_unknown_experiment(self):
        with pytest.raises(ValueError, match="unknown experiment 'table2'") as caught:
            plan(["statistics", "table2"], ["usps"], 1)
        for name in EXPERIMENTS:
            assert name in str(caught.value)

    def test_names_are_unique(self):
        planned = plan(EXPERIMENTS, [*SETS, "digits"], 5)
        assert len({cell.name for cell in planned}) == len(planned)
        assert len({cell.name.lower() for cell in planned}) == len(planned)  # macOS, Windows

    def test_names_are_readable(self):
        cell = Cell("fit", "usps", "DuRP", m=10, reg=1e-4, seed=3)
        assert cell.name == "usps-DuRP-m10-reg0.0001-seed3.json"
        assert Cell("theorem1", m=30, rank=5).name == "made-m30-r5-seed0.json"
        assert Cell("statistics", "usps").name == "usps-seed0.json"


class TestStore:
    CELLS = plan(["methods"], ["digits"], 1)

    def test_round_trip(self, store, tmp_path):
        results = {cell: {"map": number / 7} for number, cell in enumerate(self.CELLS)}
        for cell, result in results.items():
            assert not store.has(cell)
            store.put(cell, result, 1.5)
            assert store.has(cell)
        store.put(Cell("theorem1", m=10, rank=2), {"bound": None}, 0.1)
        assert store.results("fit") == results
        again = Store(tmp_path / "results", {"trials": 2})
        assert again.results("fit") == results
        assert again.results("theorem1") == {Cell("theorem1", m=10, rank=2): {"bound": None}}
        assert again.results("statistics") == {}

    def test_what_a_file_says(self, store):
        cell = Cell("fit", "digits", "DuRP", m=10, seed=3)
        store.put(cell, {"map": 0.5}, 1.5)
        content = json.loads(store.path(cell).read_text())
        assert content["cell"] == {
            "kind": "fit",
            "dataset": "digits",
            "method": "DuRP",
            "m": 10,
            "reg": None,
            "rank": None,
            "seed": 3,
        }
        assert content["result"] == {"map": 0.5}
        assert content["seconds"] == 1.5
        assert content["warnings"] == []
        for name in ("python", "dualmetric", "numpy", "machine", "processor", "cores"):
            assert content["environment"][name]

    def test_processor_without_proc(self, monkeypatch):
        monkeypatch.setattr(builtins, "open", refuse(FileNotFoundError()))
        assert isinstance(cells._processor.__wrapped__(), str)

    def test_other_settings(self, store, tmp_path):
        store.put(self.CELLS[0], {"map": 0.5}, 1.0)
        before = contents(store.folder)
        with pytest.raises(ValueError, match="other settings") as caught:
            Store(store.folder, {"trials": 5})
        assert "trials=2" in str(caught.value)
        assert "trials=5" in str(caught.value)
        assert contents(store.folder) == before
        assert Store(store.folder, {"trials": 2}).results("fit") == {self.CELLS[0]: {"map": 0.5}}

    def test_another_format(self, store, monkeypatch):
        monkeypatch.setattr(cells, "FORMAT", 2)
        with pytest.raises(ValueError, match=r"format=1.*format=2"):
            Store(store.folder, {"trials": 2})

    def test_results_without_settings(self, store):
        store.put(self.CELLS[0], {"map": 0.5}, 1.0)
        (store.folder / "run.json").unlink()
        with pytest.raises(ValueError, match=r"no run\.json"):
            Store(store.folder, {"trials": 2})

    def test_damaged_settings(self, store):
        (store.folder / "run.json").write_text('{"format": 1')
        with pytest.raises(ValueError, match=r"run\.json is damaged"):
            Store(store.folder, {"trials": 2})

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b'{"cell": {"kind": "fit"',
            b"\xff\xfe\x00",
            b"[1, 2]",
            b"{}",
            b'{"cell": {"kind": "fit"}}',
            b'{"cell": {"colour": "red"}, "result": {}}',
            b'{"cell": 3, "result": {}}',
            b'{"cell": {"kind": "fit"}, "result": [1]}',
        ],
    )
    def test_damaged_cell(self, store, content):
        store.put(self.CELLS[0], {"map": 0.5}, 1.0)
        store.put(self.CELLS[1], {"map": 0.6}, 1.0)
        damaged = store.path(self.CELLS[1])
        damaged.write_bytes(content)
        with pytest.raises(ValueError, match=r"delete it, and it is computed again") as caught:
            store.results("fit")
        assert str(caught.value).startswith(str(damaged))
        damaged.unlink()
        assert store.results("fit") == {self.CELLS[0]: {"map": 0.5}}
        assert not store.has(self.CELLS[1])

    def test_other_files_do_not_matter(self, store):
        store.put(self.CELLS[0], {"map": 0.5}, 1.0)
        (store.path(self.CELLS[0]).parent / ".dualmetric-0123").write_bytes(b"half")
        (store.path(self.CELLS[0]).parent / "notes.txt").write_text("mine")
        assert len(store.results("fit")) == 1

    def test_a_file_in_the_place_of_the_folder(self, tmp_path):
        (tmp_path / "taken").write_text("mine")
        for path in (tmp_path / "taken", tmp_path / "taken" / "results"):
            with pytest.raises(OSError, match="taken"):
                Store(path, {"trials": 2})
        assert (tmp_path / "taken").read_text() == "mine"

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
    )
    def test_unwritable_folder(self, store):
        store.put(self.CELLS[0], {"map": 0.5}, 1.0)
        folder = store.path(self.CELLS[0]).parent
        folder.chmod(0o500)
        try:
            with pytest.raises(PermissionError, match="stored before are kept"):
                store.put(self.CELLS[1], {"map": 0.6}, 1.0)
            assert store.results("fit") == {self.CELLS[0]: {"map": 0.5}}
        finally:
            folder.chmod(0o700)

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
    @pytest.mark.parametrize("call", ["fsync", "replace", "open"])
    def test_disk_that_refuses(self, store, monkeypatch, code, call):
        store.put(self.CELLS[0], {"map": 0.5}, 1.0)
        before = contents(store.folder)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse(OSError(code, os.strerror(code))))
            with pytest.raises(OSError, match="stored before are kept") as caught:
                store.put(self.CELLS[1], {"map": 0.6}, 1.0)
        assert caught.value.errno == code
        assert os.strerror(code) in str(caught.value)
        assert caught.value.filename == str(store.path(self.CELLS[1]))
        assert contents(store.folder) == before  # and no temporary file
        assert store.results("fit") == {self.CELLS[0]: {"map": 0.5}}
        store.put(self.CELLS[1], {"map": 0.6}, 1.0)
        assert len(store.results("fit")) == 2


def refuse(error):
    def call(*args, **options):
        raise error

    return call


class TestRun:
    CELLS = plan(["methods"], ["digits"], 1)

    def test_each_cell_is_stored_at_once(self, store, monkeypatch):
        monkeypatch.setattr(run, "_compute", lambda cell: {"method": cell.method})
        seen = []
        run.run_cells(
            store, self.CELLS, lambda cell, done: seen.append((cell, done, store.has(cell)))
        )
        assert seen == [
            step for cell in self.CELLS for step in ((cell, False, False), (cell, True, True))
        ]
        assert store.results("fit") == {cell: {"method": cell.method} for cell in self.CELLS}

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
    def test_a_stopped_run_goes_on(self, store, monkeypatch, error):
        computed = []

        def work(cell):
            computed.append(cell)
            if len(computed) == 3:
                raise error
            return {"map": 0.5}

        monkeypatch.setattr(run, "_compute", work)
        with pytest.raises(error):
            run.run_cells(store, self.CELLS, silent)
        assert list(map(store.has, self.CELLS)) == [True, True] + [False] * 5
        first = {path: path.stat().st_mtime_ns for path in contents(store.folder)}
        run.run_cells(Store(store.folder, {"trials": 2}), self.CELLS, silent)
        assert computed == [*self.CELLS[:3], *self.CELLS[2:]]  # only the third was begun twice
        assert all(map(store.has, self.CELLS))
        assert all(path.stat().st_mtime_ns == when for path, when in first.items())

    def test_full_disk(self, store, monkeypatch):
        computed = []
        monkeypatch.setattr(run, "_compute", lambda cell: computed.append(cell) or {"map": 0.5})
        run.run_cells(store, self.CELLS[:2], silent)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", refuse(OSError(errno.ENOSPC, "No space left on device")))
            with pytest.raises(OSError, match="No space left on device"):
                run.run_cells(store, self.CELLS, silent)
        assert set(store.results("fit")) == set(self.CELLS[:2])
        assert len(computed) == 3  # it does not go on computing what it cannot keep

    def test_warnings_are_kept_with_the_cell(self, store, monkeypatch):
        def work(cell):
            for _ in range(2):
                warnings.warn("only 7 active triplets were found", UserWarning, stacklevel=1)
            return {"map": 0.5}

        monkeypatch.setattr(run, "_compute", work)
        run.run_cells(store, self.CELLS[:2], silent)
        for cell in self.CELLS[:2]:
            said = json.loads(store.path(cell).read_text())["warnings"]
            assert said == ["only 7 active triplets were found"]

    def test_every_kind_has_its_computation(self, monkeypatch):
        for module, name in (
            (compute, "run_fit"),
            (compute, "run_statistics"),
            (theorems, "run_theorem1"),
            (theorems, "run_theorem2"),
        ):
            monkeypatch.setattr(module, name, lambda cell, name=name: {"by": name})
        for cell in plan(EXPERIMENTS, ["digits"], 1):
            assert run._compute(cell) == {"by": f"run_{cell.kind}"}


class TestTimeLeft:
    def test_like_cells_take_as_long_as_before(self):
        now = [0.0]
        planned = [Cell("fit", "usps", name, seed=s) for s in range(3) for name in ("DuOri", "SRP")]
        left = run.TimeLeft(planned, lambda: now[0])
        assert left.seconds() is None
        for cell, seconds in zip(planned[:2], (90.0, 10.0), strict=True):
            left.begin()
            now[0] += seconds
            left.end(cell)
        assert left.seconds() == 2 * (90 + 10)
        left.begin()
        now[0] += 30
        assert left.seconds() == 2 * (90 + 10) - 30
        now[0] += 1000  # slower than thought
        assert left.seconds() == 0
        left.end(planned[2])
        assert left.seconds() == 10 + 1030 + 10

    def test_others_go_by_their_weight(self):
        now = [0.0]
        planned = plan(["methods"], ["usps"], 1)
        left = run.TimeLeft(planned, lambda: now[0])
        for cell in planned:
            left.begin()
            now[0] += 2 * run.weight(cell)
            left.end(cell)
            rest = planned[planned.index(cell) + 1 :]
            assert left.seconds() == pytest.approx(2 * sum(map(run.weight, rest)))
        assert left.seconds() == 0

    def test_weights(self):
        def weight(dataset, method, m=None):
            return run.weight(Cell("fit", dataset, method, m=m))

        assert weight("tdt30", "DuOri") > 10 * weight("tdt30", "DuRP", 10)
        assert weight("tdt30", "DuOri") > 5 * weight("usps", "DuOri")
        assert weight("20news_libsvm", "OASIS") == weight("20news", "OASIS")
        assert all(run.weight(cell) > 0 for cell in plan(EXPERIMENTS, CATALOG, 1))


class TestCompute:
    @pytest.fixture(autouse=True)
    def small_data(self, monkeypatch, rng):
        y = np.arange(120) % 3
        X = rng.normal(size=(120, 12)).astype(np.float32)
        X[:, 0] += 2.0 * y
        data = Dataset("made", X[:80], y[:80], X[80:], y[80:], "made up", "usps")
        monkeypatch.setattr(compute, "load_dataset", lambda name: data)
        monkeypatch.setattr(compute, "N_TRIPLETS", 500)
        for cached in (compute.dataset, compute.active_triplets, compute._compile):
            cached.cache_clear()
        yield data
        for cached in (compute.dataset, compute.active_triplets, compute._compile):
            cached.cache_clear()

    @pytest.mark.parametrize("cell", plan(["methods"], ["made"], 1), ids=lambda cell: cell.method)
    def test_fit(self, cell, small_data):
        result = compute.run_fit(cell)
        assert 1 / 3 < result["map"] <= 1
        assert 1 / 3 < result["knn"] <= 1
        assert result["cpu_seconds"] >= 0
        assert 0 < result["seconds"] < 10
        learns = cell.method in STOCHASTIC
        assert result["n_triplets"] == (500 if learns else None)
        assert (result["duality_gap"] is not None) == (learns and cell.method != "OASIS")
        if cell.method in ("SRP", "SPCA", "LMNN"):
            assert result["rank"] <= 10
        json.dumps(result)
        again = compute.run_fit(cell)
        for name in ("map", "knn", "rank", "n_triplets", "duality_gap"):
            assert again[name] == result[name]

    def test_trials_differ_and_methods_share_their_triplets(self):
        durp = [compute.run_fit(Cell("fit", "made", "DuRP", m=3, seed=s)) for s in (0, 1)]
        assert durp[0]["map"] != durp[1]["map"]
        first = compute.active_triplets("made", 0)
        compute.run_fit(Cell("fit", "made", "SRP", m=3, seed=0))
        assert compute.active_triplets("made", 0) is first

    def test_the_papers_setting(self):
        for cell in plan(EXPERIMENTS, ["made"], 2):
            if cell.kind != "fit" or cell.method == "Euclid":
                continue
            learner = compute.make_learner(cell)
            chosen = learner.get_params()
            assert type(learner).__name__ == cell.method
            assert chosen["random_state"] == cell.seed
            if cell.method == "LMNN":
                assert chosen["n_components"] == 10
                continue
            assert chosen["scale"] is False
            assert chosen["max_epochs"] == 3
            if cell.method != "OASIS":
                assert chosen["loss"] == "hinge"
                assert chosen["reg"] == cell.reg  # None is 1/N

    def test_unknown_method(self):
        for cell in (Cell("fit", "made", "DuRb", m=10), Cell("fit", "made", "DuRP")):
            with pytest.raises(ValueError, match="no such cell"):
                compute.make_learner(cell)

    def test_learning_is_timed_in_one_thread_and_compiled_before(self, monkeypatch):
        from dualmetric import _system
        from dualmetric.learners import SRP

        seen = []
        fit = SRP.fit

        def watched(self, X, y=None, **arguments):
            seen.append((len(arguments["triplets"]), _system.n_threads()))
            return fit(self, X, y, **arguments)

        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        monkeypatch.setattr(SRP, "fit", watched)
        for seed in (0, 1):
            compute.run_fit(Cell("fit", "made", "SRP", m=8, seed=seed))
        assert seen == [(200, 4), (500, 1), (500, 1)]

    def test_statistics(self, small_data):
        result = compute.run_statistics(Cell("statistics", "made"))
        values = result.pop("eigenvalues")
        assert result == {
            "classes": 3,
            "features": 12,
            "train": 80,
            "test": 40,
            "note": "made up",
            "stand_in_for": "usps",
        }
        expected = np.linalg.eigvalsh(np.cov(small_data.X_train.T, dtype=np.float64))[::-1]
        np.testing.assert_allclose(values, expected / expected.sum(), rtol=1e-4)

    def test_eigenvalues_of_few_rows(self, rng):
        X = rng.normal(size=(20, 50))
        expected = np.linalg.eigvalsh(np.cov(X.T))[::-1][:20]
        found = compute._eigenvalues(X)
        np.testing.assert_allclose(found[:19], expected[:19] / expected.sum(), rtol=1e-9)
        assert np.all(found[19:] < 1e-12)
        assert len(compute._eigenvalues(rng.normal(size=(300, 250)))) == 200


@pytest.fixture
def tiny(monkeypatch):
    """Theorem cells on 30 rows of 40 features and 40 triplets."""
    monkeypatch.setattr(theorems, "_N_ROWS", 30)
    monkeypatch.setattr(theorems, "_N_FEATURES", 40)
    monkeypatch.setattr(theorems, "_N_TRIPLETS", 40)
    theorems._problem.cache_clear()
    yield
    theorems._problem.cache_clear()


def spectral_norms(X, index):
    """‖M¹‖ … ‖M⁴‖ of the paper, entry by entry."""
    i, j, k = index.T
    near = ((X[i] - X[j]) ** 2).sum(axis=1)
    far = ((X[i] - X[k]) ** 2).sum(axis=1)
    pairs = ((far, far), (near, near), (far, near), (near, far))
    return [
        np.linalg.norm([[a[s] * b[t] for t in range(len(i))] for s in range(len(i))], 2)
        for a, b in pairs
    ]


@pytest.mark.usefixtures("tiny")
class TestTheorems:
    @pytest.mark.parametrize("rank", [1, 3])
    def test_made_data(self, rank):
        X, triplets, _ = theorems._problem(rank, "hinge", 0)
        assert X.shape == (30, 40)
        assert np.linalg.matrix_rank(X) == rank
        assert len(triplets) == 40
        distances = ((X[:, None] - X) ** 2).sum(axis=2)
        assert np.mean(distances) == pytest.approx(1.0)

    def test_full_rank(self):
        assert np.linalg.matrix_rank(theorems._problem(None, "smoothed_hinge", 0).X) == 29

    @pytest.mark.parametrize(
        ("rank", "m", "applies"),
        # m ≥ 3·(r + 1)·log(2r/δ)·36 for ε ≤ 1/6, with δ = 0.1: 647.1 and 1195.2
        [(1, 647, False), (1, 648, True), (2, 1195, False), (2, 1196, True), (2, 10, False)],
    )
    def test_theorem1_applies_from_its_m_on(self, rank, m, applies):
        result = theorems.run_theorem1(Cell("theorem1", m=m, rank=rank))
        assert result["epsilon"] == pytest.approx(
            np.sqrt((rank + 1) * np.log(2 * rank / 0.1) / (m / 3))
        )
        assert (result["epsilon"] <= 1 / 6) == applies
        assert (result["bound"] is not None) == applies
        if applies:
            e = result["epsilon"]
            assert result["bound"] == pytest.approx(3 * e / (1 - 3 * e))
            assert result["error"] <= result["bound"] <= 1

    @pytest.mark.parametrize("seed", range(3))
    def test_theorem1_error(self, seed, triplet_matrices):
        cell = Cell("theorem1", m=2000, rank=2, seed=seed)
        result = theorems.run_theorem1(cell)
        X, triplets, exact = theorems._problem(2, "hinge", seed)
        A = triplet_matrices(X, triplets.index)
        projected = theorems._solve_projected(theorems._problem(2, "hinge", seed), "hinge", cell)

        def metric(beta):
            return np.einsum("t,tab->ab", beta, A)  # λN = 1

        def psd(M):
            values, vectors = np.linalg.eigh(M)
            return sum(v * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True) if v > 0)

        M = metric(exact.beta)
        error = np.linalg.norm(psd(M) - psd(metric(projected.beta))) / np.linalg.norm(M)
        assert result["error"] == pytest.approx(error, rel=1e-6)
        assert 0 < result["error"] <= result["bound"]

    def test_projections_are_the_papers(self, rng):
        R = theorems._projection(Cell("theorem1", m=5000, rank=2))
        assert R.shape == (40, 5000)
        np.testing.assert_allclose(R @ R.T, np.eye(40), atol=0.1)
        assert not np.array_equal(R, theorems._projection(Cell("theorem1", m=5000, rank=2, seed=1)))

    @pytest.mark.parametrize("seed", range(3))
    def test_kappa(self, seed):
        result = theorems.run_theorem2(Cell("theorem2", m=50, seed=seed))
        X, triplets, _ = theorems._problem(None, "smoothed_hinge", seed)
        assert result["kappa"] == pytest.approx(max(spectral_norms(X, triplets.index)))

    @pytest.mark.parametrize(
        # m ≥ 32·ln(8·40/0.1) = 258.3 for ε ≤ ½
        ("m", "applies"),
        [(10, False), (258, False), (259, True), (2000, True)],
    )
    def test_theorem2_applies_from_its_m_on(self, m, applies):
        result = theorems.run_theorem2(Cell("theorem2", m=m))
        assert result["epsilon"] == pytest.approx(np.sqrt(8 / m * np.log(8 * 40 / 0.1)))
        assert (result["epsilon"] <= 0.5) == applies
        assert (result["bound"] is not None) == applies
        if applies:
            X, triplets, exact = theorems._problem(None, "smoothed_hinge", 0)
            size = np.linalg.norm(exact.beta)
            kappa = max(spectral_norms(X, triplets.index))
            assert result["bound"] == pytest.approx(8 * result["epsilon"] * kappa * size)  # γ = 1
            assert result["error"] <= result["bound"]
            # and the sharper step of the proof, before ‖Ĝ − G‖ is bounded
            G = theorems._gram(X, triplets)
            off = result["gram_error"] * np.linalg.norm(G, 2)
            assert result["error"] <= max(2 * off * size, np.sqrt(2 * 40 * result["gap"]))

    def test_gram(self, triplet_matrices):
        X, triplets, _ = theorems._problem(None, "smoothed_hinge", 0)
        A = triplet_matrices(X, triplets.index)
        expected = np.einsum("sab,tab->st", A, A)
        np.testing.assert_allclose(theorems._gram(X, triplets), expected, atol=1e-12)
        cell = Cell("theorem2", m=50)
        B = triplet_matrices(X @ theorems._projection(cell), triplets.index)
        off = np.linalg.norm(np.einsum("sab,tab->st", B, B) - expected, 2)
        assert theorems.run_theorem2(cell)["gram_error"] == pytest.approx(
            off / np.linalg.norm(expected, 2)
        )

    def test_more_projections_are_better(self):
        for kind, rank, value in (
            ("theorem1", 2, "error"),
            ("theorem2", None, "error"),
            ("theorem2", None, "gram_error"),
        ):
            errors = [run._compute(Cell(kind, m=m, rank=rank))[value] for m in (10, 300, 10_000)]
            assert errors[0] > errors[1] > errors[2] > 0

    def test_problems_are_solved_as_the_page_says(self):
        for cell in plan(["theorems"], [], 1):
            result = run._compute(cell)
            loss = "hinge" if cell.rank else "smoothed_hinge"
            primal = theorems._problem(cell.rank, loss, 0).exact.history[-1].primal
            assert result["gap"] <= 1e-7 * primal
            json.dumps(result)


def fit(store, dataset, method, m, values, seconds=(), reg=None, knn=0.5):
    """Store a fit for each value of mAP, a trial each."""
    times = seconds or [1.0] * len(values)
    for seed, (value, time) in enumerate(zip(values, times, strict=True)):
        store.put(
            Cell("fit", dataset, method, m=m, reg=reg, seed=seed),
            {"map": value, "knn": knn, "seconds": time, "cpu_seconds": time, "rank": 5},
            1.0,
        )


def statistics(store, dataset, sizes=(10, 256, 7291, 2007), stand_in_for=None):
    names = dict(zip(("classes", "features", "train", "test"), sizes, strict=True))
    store.put(
        Cell("statistics", dataset),
        {
            **names,
            "note": f"what {dataset} is",
            "stand_in_for": stand_in_for,
            "eigenvalues": [0.5, 0.3, 0.2, 0.0],
        },
        1.0,
    )


def theorem_cells(store, bound=0.5):
    for m in (10, 1000):
        for seed in (0, 1):
            applies = bound if m == 1000 else None
            error = 100 / m / (1 + seed)
            store.put(
                Cell("theorem1", m=m, rank=2, seed=seed), {"error": error, "bound": applies}, 1.0
            )
            store.put(
                Cell("theorem2", m=m, seed=seed),
                {
                    "error": error,
                    "relative_error": error / 10,
                    "gram_error": error / 20,
                    "bound": None if applies is None else 1234.4 + seed,
                    "kappa": 500.0 + seed,
                },
                1.0,
            )


@pytest.fixture
def filled(store):
    return fill(store)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a page of everything; drawing takes seconds, and so is done once."""
    store = fill(Store(tmp_path_factory.mktemp("page"), {"trials": 2}))
    assert page.write_page(store) == store.folder / "index.html"
    return store


def fill(store):
    """A little of everything: usps, a stand-in, digits, and both theorems."""
    for name in ("digits", "usps", "20news_libsvm"):
        statistics(store, name, stand_in_for=CATALOG[name].stand_in_for)
        fit(store, name, "Euclid", None, [0.5])
        fit(store, name, "DuOri", None, [0.66, 0.68], [99.0, 101.0])
        fit(store, name, "OASIS", None, [0.6, 0.62], [15.0, 15.0])
        fit(store, name, "LMNN", 10, [0.6])
        for m in (10, 20, 30, 40, 50):
            fit(store, name, "DuRP", m, [0.64, 0.66], [0.9, 1.1])
            fit(store, name, "SRP", m, [0.3, 0.34])
            fit(store, name, "SPCA", m, [0.4, 0.4])
        for reg in cells.REGS:
            fit(store, name, "DuRP", 10, [0.64, 0.66], reg=reg)
    theorem_cells(store)
    return store


class TestPublished:
    def test_shape(self):
        assert set(published.MINUTES) == set(published.MAP) == set(SETS)
        for name in SETS:
            lmnn = set() if name == "rcv30" else {"LMNN"}  # it ran out of memory there
            assert set(published.MINUTES[name]) == {*STOCHASTIC} | lmnn
            assert set(published.MAP[name]) == {"Euclid", *STOCHASTIC} | lmnn

    def test_the_papers_own_findings(self):
        for name in SETS:
            found, minutes = published.MAP[name], published.MINUTES[name]
            assert found["DuRP"].mean > max(found["SRP"].mean, found["SPCA"].mean)
            assert minutes["DuOri"].mean > 200 * minutes["DuRP"].mean
            assert minutes["OASIS"].mean > 20 * minutes["DuRP"].mean

    def test_counterparts_are_what_the_catalog_says(self):
        expected = {
            name: entry.stand_in_for or name
            for name, entry in CATALOG.items()
            if entry.stand_in_for or name in SETS
        }
        assert expected == published.COUNTERPART


class TestTables:
    def test_statistics(self, store):
        statistics(store, "isolet1", (26, 617, 1092, 468))
        statistics(store, "rcv1_7class", (7, 1000, 2041, 875))
        statistics(store, "usps")
        table = tables.statistics(store)
        assert table.rows == [
            ["usps", "10 / 256 / 7,291 / 2,007", "10 / 256 / 7,291 / 2,007", "what usps is"],
            [
                "rcv1_7class (stand-in for rcv30)",
                "7 / 1,000 / 2,041 / 875",
                "30 / 1,000 / 507,585 / 15,195",
                "what rcv1_7class is",
            ],
            ["isolet1", "26 / 617 / 1,092 / 468", "–", "what isolet1 is"],
        ]

    def test_times(self, store):
        fit(store, "tdt30", "DuRP", 10, [0.6, 0.6], [1.0, 2.0])
        fit(store, "tdt30", "DuRP", 50, [0.6, 0.6], [8.0, 9.0])
        fit(store, "tdt30", "DuRP", 10, [0.6, 0.6], [8.0, 9.0], reg=0.01)
        fit(store, "tdt30", "DuOri", None, [0.6], [1234.567])
        fit(store, "tdt30", "LMNN", 10, [0.6], [7.0])
        fit(store, "digits", "SRP", 10, [0.6], [0.111])
        table = tables.times(store)
        assert table.headings == ["data set", "DuOri", "DuRP", "OASIS", "SRP", "SPCA", "LMNN"]
        assert table.rows == [
            [
                "tdt30",
                "1,234.57 (61,794; 50 ×)",
                "1.50 ± 0.50 (48; 32 ×)",
                "–",
                "–",
                "–",
                "7.00 (37,452; 5,350 ×)",
            ],
            ["digits", "–", "–", "–", "0.11", "–", "–"],
        ]

    def test_ranking(self, store):
        fit(store, "usps", "Euclid", None, [0.536])
        fit(store, "usps", "DuRP", 10, [0.65, 0.69])
        fit(store, "usps", "DuRP", 20, [0.1, 0.1])
        fit(store, "usps", "LMNN", 10, [0.6])
        fit(store, "rcv30", "LMNN", 10, [0.6])  # which the paper has not
        table = tables.ranking(store)
        assert table.headings == ["data set", *METHODS]
        assert table.rows == [
            ["usps", "53.6 (53.6)", "–", "67.0 ± 2.0 (67.1)", "–", "–", "–", "60.0 (59.8)"],
            ["rcv30", "–", "–", "–", "–", "–", "–", "60.0"],
        ]

    def test_differences(self, store):
        fit(store, "usps", "Euclid", None, [0.536])
        fit(store, "usps", "DuRP", 10, [0.65, 0.67])  # the paper: 67.1 ± 1.2
        fit(store, "usps", "SPCA", 10, [0.5, 0.5])  # the paper: 41.6 ± 0.4
        fit(store, "20news_libsvm", "DuRP", 10, [0.5])  # a stand-in is not compared
        assert tables.differences(store).rows == [
            ["usps", "Euclid", "53.6", "53.6", "+0.0", "within the paper's spread"],
            ["usps", "DuRP", "67.1 ± 1.2", "66.0 ± 1.0", "-1.1", "within the paper's spread"],
            ["usps", "SPCA", "41.6 ± 0.4", "50.0 ± 0.0", "+8.4", "outside"],
        ]

    def test_classification(self, store):
        statistics(store, "usps")
        fit(store, "digits", "SRP", 10, [0.1, 0.2], knn=0.975)
        assert tables.classification(store).rows == [
            ["digits", "–", "–", "–", "–", "97.5 ± 0.0", "–", "–"]
        ]

    def test_regularisation(self, store):
        fit(store, "usps", "DuRP", 10, [0.1])
        for reg, value in zip(cells.REGS, (0.61, 0.62, 0.615, 0.58), strict=True):
            fit(store, "usps", "DuRP", 10, [value], reg=reg)
        fit(store, "digits", "DuRP", 10, [0.5, 0.6], reg=0.001)
        fit(store, "su", "DuRP", 10, [0.5])
        table = tables.regularisation(store)
        assert table.headings[1:] == ["λ = 1e-05", "λ = 0.0001", "λ = 0.001", "λ = 0.01", "range"]
        assert table.rows == [
            ["usps", "61.0", "62.0", "61.5", "58.0", "4.0"],
            ["digits", "–", "–", "55.0 ± 5.0", "–", "0.0"],
        ]

    def test_findings_that_hold(self, store):
        fit(store, "usps", "DuRP", 10, [0.64, 0.66], [0.9, 1.1])
        fit(store, "usps", "DuRP", 50, [0.66, 0.67])
        fit(store, "usps", "SRP", 10, [0.3, 0.34])
        fit(store, "usps", "SPCA", 10, [0.64])
        fit(store, "usps", "OASIS", None, [0.7], [20.0])
        fit(store, "usps", "DuOri", None, [0.7], [1500.0])
        assert tables.findings(store).rows == [
            ["usps", "DuRP ranks better than SRP", "+33.00 mAP", "holds"],
            ["usps", "DuRP ranks better than SPCA", "+1.00 mAP", "holds"],
            ["usps", "DuRP is at least 20 × faster than OASIS", "20.0 ×", "holds"],
            ["usps", "DuRP is at least 100 × faster than DuOri", "1,500.0 ×", "holds"],
            ["usps", "DuRP with m = 10 is within 2 points of m = 50", "+1.50 mAP", "holds"],
        ]

    def test_findings_that_do_not_hold(self, store):
        fit(store, "usps", "DuRP", 10, [0.5], [1.0])
        fit(store, "usps", "DuRP", 50, [0.521])
        fit(store, "usps", "SRP", 10, [0.5])
        fit(store, "usps", "SPCA", 10, [0.51])
        fit(store, "usps", "OASIS", None, [0.7], [19.9])
        fit(store, "usps", "DuOri", None, [0.7], [99.9])
        assert [row[2:] for row in tables.findings(store).rows] == [
            ["+0.00 mAP", "does not hold"],
            ["-1.00 mAP", "does not hold"],
            ["19.9 ×", "does not hold"],
            ["99.9 ×", "does not hold"],
            ["+2.10 mAP", "does not hold"],
        ]

    def test_findings_need_both_sides(self, store):
        fit(store, "usps", "SRP", 10, [0.5])
        fit(store, "usps", "DuOri", None, [0.5])
        assert tables.findings(store).rows == []

    def test_theorem1(self, store):
        theorem_cells(store)
        assert tables.theorem1(store).rows == [
            ["2", "10", "10.000", "does not apply", "–"],
            ["2", "1,000", "0.100", "0.500", "holds"],
        ]

    def test_theorem1_that_does_not_hold(self, store):
        theorem_cells(store, bound=0.06)  # one trial is within, the other is not
        assert tables.theorem1(store).rows[1] == ["2", "1,000", "0.100", "0.060", "does not hold"]

    def test_theorem2(self, store):
        theorem_cells(store)
        assert tables.theorem2(store).rows == [
            ["10", "10", "does not apply", "–", "0.500", "501"],
            ["1,000", "0.1", "1,234", "holds", "0.005", "501"],
        ]

    def test_theorem2_that_does_not_hold(self, store):
        store.put(
            Cell("theorem2", m=500),
            {"error": 3.0, "bound": 2.0, "gram_error": 0.1, "kappa": 4.0},
            1.0,
        )
        assert tables.theorem2(store).rows == [["500", "3", "2", "does not hold", "0.100", "4"]]

    def test_nothing_stored(self, store):
        for make in (
            tables.statistics,
            tables.times,
            tables.ranking,
            tables.differences,
            tables.classification,
            tables.regularisation,
            tables.findings,
            tables.theorem1,
            tables.theorem2,
        ):
            assert make(store).rows == []

    def test_rows_fit_their_headings(self, written):
        for section in page._sections(written):
            if section.table is not None:
                assert section.table.rows
                assert {len(row) for row in section.table.rows} == {len(section.table.headings)}

    def test_spread(self):
        assert summary.Spread(0.645, 0.0157, 5).show(1, 100) == "64.5 ± 1.6"
        assert summary.Spread(0.645, 0.0, 1).show(1, 100) == "64.5"
        assert summary.Spread(12345.6, 0.0, 1).show(2) == "12,345.60"

    def test_order_of_data_sets(self, store):
        for name in ("digits", "20news_bydate", "tdt30", "usps", "20news", "fashion_mnist_13k"):
            fit(store, name, "Euclid", None, [0.5])
        statistics(store, "protein_val")
        assert summary.datasets(store) == [
            "usps",
            "protein_val",
            "tdt30",
            "20news",
            "20news_bydate",
            "digits",
            "fashion_mnist_13k",
        ]


class TestFigures:
    DRAWN = (
        figures.spectra,
        lambda store: figures.over_projections(store, "map"),
        lambda store: figures.over_projections(store, "knn"),
        figures.theorems,
    )

    @pytest.mark.parametrize("draw", [DRAWN[0], DRAWN[1], DRAWN[3]])
    @pytest.mark.parametrize("kind", ["svg", "png"])
    def test_same_bytes_twice(self, written, draw, kind):
        first, second = (figures.to_bytes(draw(written), kind) for _ in range(2))
        assert first == second
        assert len(first) > 5000
        assert first.startswith(b"<?xml" if kind == "svg" else b"\x89PNG")

    @pytest.mark.parametrize("draw", DRAWN)
    def test_nothing_to_draw(self, store, draw):
        assert draw(store) is None
        fit(store, "usps", "Euclid", None, [0.5])
        assert draw(store) is None

    def test_a_panel_for_each_set(self, written):
        for figure in (figures.spectra(written), figures.over_projections(written, "map")):
            titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
            assert titles == ["usps", "20news_libsvm (stand-in for 20news)", "digits"]

    @pytest.mark.parametrize(("value", "height"), [("map", 65.0), ("knn", 50.0)])
    def test_values_are_means_in_per_cent(self, written, value, height):
        axes = figures.over_projections(written, value).axes[0]
        lines = {bars.get_label(): bars.lines[0] for bars in axes.containers}
        assert set(lines) == {"Euclid", *STOCHASTIC}
        assert list(lines["DuRP"].get_xdata()) == [10, 20, 30, 40, 50]
        assert list(lines["DuRP"].get_ydata()) == pytest.approx([height] * 5)

    def test_legend_has_the_methods_of_all_panels(self, store):
        fit(store, "usps", "DuRP", 50, [0.5])
        fit(store, "digits", "DuRP", 50, [0.5])
        fit(store, "digits", "OASIS", None, [0.5])
        figure = figures.over_projections(store, "map")
        assert [text.get_text() for text in figure.legends[0].texts] == ["DuRP", "OASIS"]

    @pytest.mark.parametrize("count", [1, 4])
    def test_any_number_of_panels(self, store, count):
        for name in list(CATALOG)[:count]:
            statistics(store, name)
        figure = figures.spectra(store)
        assert sum(axes.get_visible() for axes in figure.axes) == count
        figures.to_bytes(figure, "png")


def headings(folder):
    markdown = re.findall("^## (.*)$", (folder / "RESULTS.md").read_text(), re.MULTILINE)
    html = re.findall("<h2>(.*?)</h2>", (folder / "index.html").read_text())
    assert [title.replace("'", "&#x27;") for title in markdown] == html
    return markdown


class TestPage:
    @pytest.fixture(autouse=True)
    def nothing_is_computed(self, monkeypatch):
        for module, name in (
            (run, "_compute"),
            (run, "run_cells"),
            (compute, "load_dataset"),
            (compute, "run_fit"),
            (compute, "run_statistics"),
            (theorems, "run_theorem1"),
            (theorems, "run_theorem2"),
        ):
            monkeypatch.setattr(module, name, refuse(AssertionError(f"{name} was called")))

    @pytest.fixture
    def no_figures(self, monkeypatch):
        monkeypatch.setattr(page, "_draw", lambda store: {})

    def test_every_section(self, written):
        assert headings(written.folder) == [section.title for section in page._sections(written)]
        for name in ("spectra", "ranking", "classification", "theorems"):
            assert (written.folder / f"{name}.png").stat().st_size > 1000
            assert f"({name}.svg)" in (written.folder / "RESULTS.md").read_text()
            assert (written.folder / f"{name}.svg").exists()
        assert (written.folder / "index.html").read_text().count("<svg") == 4

    def test_only_what_there_is(self, store):
        statistics(store, "usps")
        page.write_page(store)
        assert headings(store.folder) == [
            "Table 1: data sets",
            "Figure 1: eigenvalue distributions",
        ]

    def test_theorems_alone(self, store):
        theorem_cells(store)
        page.write_page(store)
        assert headings(store.folder) == ["Theorem 1", "Theorem 2", "Theorems 1 and 2 over m"]

    def test_nothing_stored(self, store):
        page.write_page(store)
        assert headings(store.folder) == []

    def test_numbers_are_there(self, written):
        for name in ("RESULTS.md", "index.html"):
            text = (written.folder / name).read_text()
            assert "65.0 ± 1.0 (67.1)" in text
            assert "100.00 ± 1.00 (4,620; 46 ×)" in text  # 77 minutes
            assert "15.0 ×" in text

    def test_what_does_not_hold_is_marked(self, written):
        text = (written.folder / "index.html").read_text()
        assert text.count("<td class='no'>does not hold</td>") == 3  # OASIS, on each set
        assert (written.folder / "RESULTS.md").read_text().count("| does not hold |") == 3

    def test_markdown_tables_are_whole(self, written):
        lines = (written.folder / "RESULTS.md").read_text().splitlines()
        rows = [line for line in lines if line.startswith("|")]
        for table in (list(group) for key, group in groupby(lines, lambda s: s[:1] == "|") if key):
            assert len({line.count("|") for line in table}) == 1
        assert len(rows) > 30

    def test_text_is_escaped(self, store):
        statistics(store, "usps")
        path = store.path(Cell("statistics", "usps"))
        path.write_text(path.read_text().replace("what usps is", "a < b & c"))
        page.write_page(store)
        assert "a &lt; b &amp; c" in (store.folder / "index.html").read_text()

    @pytest.mark.usefixtures("no_figures")
    @pytest.mark.parametrize("with_statistics", [True, False])
    def test_stand_ins_are_called_stand_ins(self, store, with_statistics):
        stand_ins = {n: e.stand_in_for for n, e in CATALOG.items() if e.stand_in_for}
        assert len(stand_ins) >= 4
        for name, real in stand_ins.items():
            if with_statistics:
                statistics(store, name, stand_in_for=real)
            for method, m in (("DuRP", 10), ("DuRP", 50), ("SRP", 10)):
                fit(store, name, method, m, [0.5, 0.6])
            fit(store, name, "DuRP", 10, [0.5], reg=0.001)
        page.write_page(store)
        markdown = (store.folder / "RESULTS.md").read_text()
        for name, real in stand_ins.items():
            label = f"{name} (stand-in for {real})"
            said = re.findall(rf"\| ({re.escape(name)}[^|]*) \|", markdown)
            assert len(said) >= 5
            assert set(said) == {label}
        drawn = figures.over_projections(store, "map")
        assert {axes.get_title() for axes in drawn.axes if axes.get_visible()} == {
            f"{name} (stand-in for {real})" for name, real in stand_ins.items()
        }
        assert "Where our mAP differs" not in markdown  # the paper has no number for other data

    def test_without_matplotlib(self, filled, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        page.write_page(filled)
        found = headings(filled.folder)
        assert "Table 3: ranking" in found
        assert not [title for title in found if title.startswith("Figure")]
        assert not list(filled.folder.glob("*.svg"))
        assert "![" not in (filled.folder / "RESULTS.md").read_text()

    def test_damaged_cell(self, filled):
        damaged = filled.path(Cell("fit", "usps", "Euclid"))
        damaged.write_text("{")
        with pytest.raises(ValueError, match=re.escape(str(damaged))):
            page.write_page(filled)
        assert not (filled.folder / "index.html").exists()

    @pytest.mark.usefixtures("no_figures")
    def test_full_disk(self, filled, monkeypatch):
        page.write_page(filled)
        before = contents(filled.folder)
        fit(filled, "su", "Euclid", None, [0.5])  # one more row
        monkeypatch.setattr(os, "fsync", refuse(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            page.write_page(filled)
        assert before.items() <= contents(filled.folder).items()


def test_quick_run(tmp_path):
    """All of `dualmetric reproduce --quick` on digits, and on usps where it is at hand."""
    arguments = ["reproduce", "--quick", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*arguments, "--datasets", "digits"])
    assert done.exit_code == 0, done.output
    assert "Data sets: digits\n40 results, 0 of them stored already\n" in done.output
    assert f"Page: {tmp_path / 'out' / 'index.html'}" in done.output
    store = Store(tmp_path / "out", {"trials": 1})
    fits = store.results("fit")
    assert len(fits) == 11
    for cell, result in fits.items():
        assert 0.1 < result["map"] < 1, cell
        assert 0.1 < result["knn"] < 1, cell
    assert {"Table 3: ranking", "Theorem 2"} <= set(headings(store.folder))
    ranks = dict(zip(METHODS, tables.ranking(store).rows[0][1:], strict=True))
    assert float(ranks["DuRP"]) > max(float(ranks["SRP"]), float(ranks["SPCA"]))
    assert not [row for row in tables.theorem1(store).rows if row[-1] == "does not hold"]
    assert not [row for row in tables.theorem2(store).rows if row[3] == "does not hold"]
    before = contents(store.folder)
    again = CliRunner().invoke(app, [*arguments, "--datasets", "digits"])
    assert "40 of them stored already" in again.output
    assert contents(store.folder) == before


@pytest.mark.skipif(not available("usps"), reason="needs usps.npz in DUALMETRIC_DATA")
def test_quick_methods_on_usps(tmp_path):
    arguments = ["reproduce", "--quick", "--out", str(tmp_path), "--datasets", "usps"]
    done = CliRunner().invoke(app, [*arguments, "--experiments", "statistics,reg"])
    assert done.exit_code == 0, done.output
    store = Store(tmp_path, {"trials": 1})
    assert tables.statistics(store).rows[0][1:3] == ["10 / 256 / 7,291 / 2,007"] * 2
    assert len(store.results("fit")) == 4
    assert astuple(next(iter(store.results("statistics"))))[:2] == ("statistics", "usps")
