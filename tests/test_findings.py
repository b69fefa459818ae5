"""What a campaign of hostile input and faults found once: one class for each finding."""

import bz2
import gzip
import io
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from dualmetric import LMNN, OASIS, SPCA, SRP, DuOri, DuRP, Euclidean, Metric, MetricCV, Whitening
from dualmetric.io.atomic import replacing, write_atomically
from dualmetric.io.rowfiles import read_rows
from dualmetric.supervision import Comparisons, Labels, Pairs, Triplets
from makers import make_classes, make_metric

ROOT = Path(__file__).parents[1]
X, Y = make_classes(30, 4, seed=0)
LEARNERS = {
    "DuRP": DuRP(2, n_triplets=50, random_state=0),
    "DuOri": DuOri(n_triplets=50, random_state=0),
    "SRP": SRP(2, n_triplets=50, random_state=0),
    "SPCA": SPCA(2, n_triplets=50, random_state=0),
    "OASIS": OASIS(n_triplets=50, random_state=0),
    "LMNN": LMNN(max_iter=200, random_state=0),
    "Whitening": Whitening(),
    "Euclidean": Euclidean(),
}
each_learner = pytest.mark.parametrize("name", list(LEARNERS))


def learner(name):
    from sklearn.base import clone

    return clone(LEARNERS[name])


class TestFinding1DeclaredVersions:
    """CI runs the core tests with the lowest versions: .ci/versions."""

    @pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="not in a source distribution")
    def test_ci_runs_the_lowest_and_the_newest(self):
        script = (ROOT / ".ci" / "versions").read_text()
        assert "lowest-direct" in script
        assert "highest" in script
        assert re.search(r"3\.12 3\.13 3\.14", script)
        assert ".ci/versions" in (ROOT / ".ci" / "run").read_text()
        files = re.search(r'CORE="([^"]+)"', script)[1].split()
        assert all((ROOT / "tests" / f"{name}.py").is_file() for name in files)

    def test_every_dependency_has_a_lowest_version(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert all(">=" in needed for needed in project["dependencies"])

    @pytest.mark.filterwarnings("ignore:no direction")
    @pytest.mark.parametrize("name", ["DuRP", "DuOri", "SPCA", "OASIS", "LMNN", "Whitening"])
    def test_one_feature(self, name):
        """SciPy before 1.14 failed here."""
        found = learner(name).fit(X[:, :1], Y)
        assert np.isfinite(found.transform(X[:, :1])).all()


def out_of_range(form):
    """A sparse matrix with an index that it has no column for."""
    bad = (
        sp.csr_matrix(np.eye(30, 4))
        if form == "csr"
        else sp.csr_matrix(np.eye(30, 4)).asformat(form)
    )
    (bad.col if form == "coo" else bad.indices)[1] = 10**8
    return bad


class TestFinding2IndicesOutOfRange:
    """They crashed the process, so these tests do where the fault is back."""

    @pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo"])
    def test_in_a_file(self, form, tmp_path):
        bad = out_of_range(form)
        names = ("row", "col") if form == "coo" else ("indices", "indptr")
        parts = {name: getattr(bad, name) for name in names}
        np.savez(tmp_path / "a.npz", data=bad.data, shape=bad.shape, format=form, **parts)
        with pytest.raises(ValueError, match=r"a\.npz.*index|a\.npz.*indices"):
            read_rows(tmp_path / "a.npz")

    @pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo"])
    @each_learner
    def test_in_memory(self, name, form):
        with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
            learner(name).fit(out_of_range(form), Y)

    @each_learner
    def test_in_transform(self, name):
        found = learner(name).fit(X, Y)
        with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
            found.transform(out_of_range("csr"))
        with pytest.raises(ValueError, match="damaged sparse matrix"):
            found.metric_.distance(out_of_range("csr"), out_of_range("csr"))

    def test_falling_indptr(self):
        bad = sp.csr_matrix(np.eye(30, 4))
        bad.indptr[1] = -(10**8)
        with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
            learner("DuRP").fit(bad, Y)


class TestFinding3SlowLines:
    @pytest.mark.parametrize(
        "line",
        [
            b"1 1:" + b"1" * 200_000 + b"x\n",
            b" " * 200_000 + b"x\n",
            b"1 " + b"1" * 200_000 + b"\n",
            b"1 1:" + b"1." * 100_000 + b"\n",
            b"1 " + b"1:1 " * 50_000 + b"x\n",
        ],
        ids=["number", "spaces", "index", "points", "pairs"],
    )
    def test_the_time_is_linear(self, line, tmp_path):
        """With a quadratic search, 200 kB took over an hour: no time is measured."""
        (tmp_path / "a.svm").write_bytes(b"1 1:2\n" + line)
        with pytest.raises(ValueError, match=r"a\.svm: line 2 is not a label"):
            read_rows(tmp_path / "a.svm")


class TestFinding4MixedState:
    """A fit that fails, or is interrupted, leaves the estimator as it was."""

    @each_learner
    def test_a_failed_refit(self, name):
        found = learner(name).fit(X, Y)
        before = dict(vars(found))
        wide = np.ones((30, 9))
        with pytest.raises(ValueError, match=r".+"):
            found.fit(wide[:1] if name == "Euclidean" else wide, Y)
        assert vars(found).keys() == before.keys()
        assert all(vars(found)[key] is before[key] for key in before)

    @pytest.mark.parametrize("name", ["DuRP", "DuOri", "SRP", "SPCA"])
    def test_an_interrupted_refit(self, name):
        found = learner(name).fit(X, Y)
        before = dict(vars(found))

        def stop(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            found.fit(make_classes(30, 9, seed=1)[0], Y, callback=stop)
        assert all(vars(found)[key] is before[key] for key in before)
        assert vars(found).keys() == before.keys()

    def test_an_interrupted_search(self):
        found = MetricCV(lifts=[None], n_triplets=50, random_state=0).fit(X, Y)
        before = dict(vars(found))

        def stop(*_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            found.fit(make_classes(30, 9, seed=1)[0], Y, callback=stop)
        assert vars(found).keys() == before.keys()
        assert all(vars(found)[key] is before[key] for key in before)
        assert found.transform(X).shape[0] == len(X)


def on_a_grid(n, dtype):
    """Rows with many equal distances, in classes that overlap."""
    rng = np.random.default_rng(0)
    return (np.rint(2 * rng.standard_normal((n, 30))) / 7).astype(dtype), np.arange(n) % 5


class TestFinding5LastDigits:
    """docs/reliability.md says what is the same to the last bit, and what is nearly the same."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n", [300, 1800])
    def test_the_order_of_sums_decides_nothing(self, n, dtype):
        """Columns in another order have other rounding errors and the same distances."""
        from dualmetric.supervision.sampling import sample_triplets

        rows, y = on_a_grid(n, dtype)
        order = np.random.default_rng(1).permutation(rows.shape[1])
        for margin in (60 / 49, 8 / 49):
            first, second = (
                sample_triplets(given, y, 3000, "active", np.random.default_rng(0), margin=margin)
                for given in (rows, np.ascontiguousarray(rows[:, order]))
            )
            np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_changes_of_the_seventh_digit_decide_nothing(self, dtype):
        rows, y = on_a_grid(300, dtype)
        noise = 1 + 1e-7 * np.random.default_rng(1).standard_normal(rows.shape)
        models = [
            DuRP(5, n_triplets=2000, random_state=0).fit(given, y)
            for given in (rows, (rows * noise).astype(dtype))
        ]
        first, second = (model.comparisons_.index for model in models)
        np.testing.assert_array_equal(first, second)
        first, second = (model.pair_distance(rows[:99], rows[99:198]) for model in models)
        np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-4 * first.max())

    def test_other_numbers_of_threads(self, monkeypatch):
        from threadpoolctl import threadpool_limits

        rng = np.random.default_rng(0)
        y = np.arange(800) % 6
        rows = (rng.standard_normal((800, 60)) + 3 * np.eye(6, 60)[y]).astype(np.float32)
        models = []
        for threads in (1, 2):
            monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
            with threadpool_limits(threads):
                models.append(DuRP(10, n_triplets=2000, random_state=0).fit(rows, y))
        first, second = (model.comparisons_.index for model in models)
        np.testing.assert_array_equal(first, second)
        first, second = (model.pair_distance(rows[:300], rows[300:600]) for model in models)
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4 * first.max())

    @pytest.mark.parametrize("learner", [DuRP, OASIS])
    @pytest.mark.parametrize("limit", [1.0 - 1e-6, 1.0], ids=["labels", "pairs"])
    def test_a_comparison_at_the_limit_does_not_move_the_others(self, learner, limit):
        """Rounding takes one comparison in or out; the metric changes little."""
        rows, y = make_blobs(400, 8, centers=5, cluster_std=4.0, random_state=0)
        rows /= 5.0
        if limit == 1.0:
            index = np.random.default_rng(0).choice(400, size=(2000, 2))
            index = index[index[:, 0] != index[:, 1]]
            y = Pairs(index, y[index[:, 0]] == y[index[:, 1]])
        model = learner(n_triplets=20_000, scale=False, random_state=0)
        near, far = np.split(rows[model.fit(rows, y).comparisons_.index], 2, axis=1)
        margin = (np.diff(far, axis=1) ** 2 - np.diff(near, axis=1) ** 2).sum(axis=(1, 2))
        early = margin[np.flatnonzero((margin > 0.5) & (margin < 1.0))[0]]
        rows *= np.sqrt(limit / early)  # now its margin is at the limit
        found, distances = [], []
        for side in (1.0 - 1e-7, 1.0 + 1e-7):
            model.fit(side * rows, y)
            found.append(set(map(tuple, model.comparisons_.index.tolist())))
            distances.append(model.metric_.pairwise(rows[:200]))
        assert 1 <= len(found[0] ^ found[1]) <= 4
        np.testing.assert_allclose(*distances, rtol=0, atol=1e-2 * distances[0].max())

    def test_the_same_seed_has_the_same_bits(self):
        rows, y = on_a_grid(300, np.float32)
        first, second = (
            DuRP(5, n_triplets=500, random_state=0).fit(rows, y).metric_.factor for _ in range(2)
        )
        np.testing.assert_array_equal(first, second)


class TestFinding6ZeroMetric:
    @pytest.mark.filterwarnings("ignore:LMNN")
    @pytest.mark.parametrize("n_components", [None, 2])
    @pytest.mark.parametrize("push", [0.0, 0.01, 0.5])
    @pytest.mark.parametrize("d", [20, 300])
    def test_few_rows_many_features(self, d, push, n_components):
        for seed in range(4):
            rows = np.random.default_rng(seed).normal(size=(4, d))
            found = LMNN(push=push, n_components=n_components, random_state=0)
            mapped = found.fit(rows, [0, 0, 1, 1]).transform(rows)
            assert np.ptp(mapped, axis=0).max() > 1e-3


def npy(X, edit=lambda text: text):
    content = io.BytesIO()
    np.save(content, X)
    return edit(content.getvalue())


def zipped(content, method=0):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("X.npy", content)
    found = bytearray(out.getvalue())
    if method:
        for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            at = found.index(mark) + place
            found[at : at + 2] = method.to_bytes(2, "little")
    return bytes(found)


def longer(content):
    """Declare more rows than there can be, in a header of the same length."""
    return content.replace(b"(30, 4), }" + b" " * 14, b"(300000000000000, 4), }" + b" ")


class TestFinding7DamagedFiles:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.npy", npy(X, lambda content: content.replace(b"}", b" "))),
            ("a.npy", npy(X, lambda content: content.replace(b"(30", b"(((((((30"))),
            ("a.npy", npy(X, lambda content: content.replace(b"'<f8'", b"'<f\x008"))),
            ("a.npy", npy(X, longer)),
            ("a.npz", zipped(npy(X), method=99)),
            ("a.npz", zipped(npy(X), method=14)),
            ("a.npz", zipped(npy(X, longer))),
            ("a.npz", zipped(npy(X, lambda content: content.replace(b"}", b" ")))),
            ("a.csv", b"a,b\n1," + b"9" * 200_000 + b"\n"),
            ("a.svm.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 100),
            ("a.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_is_named(self, name, content, tmp_path):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(name)):
            read_rows(tmp_path / name)

    def test_errors_of_the_system_name_the_file(self, tmp_path, monkeypatch):
        from dualmetric.io import rowfiles

        np.save(tmp_path / "a.npy", X)

        def broken(*_):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(rowfiles, "read_npy", broken)
        with pytest.raises(OSError, match=r"Input/output error: .*a\.npy"):
            read_rows(tmp_path / "a.npy")


class TestFinding8Unpacking:
    """A small file that unpacks to gigabytes is refused before, or while, it is unpacked."""

    @pytest.mark.parametrize("name", ["a.csv.gz", "a.svm.bz2"])
    def test_text(self, name, tmp_path, monkeypatch):
        pack = gzip.compress if name.endswith("gz") else bz2.compress
        lines = b"a,b\n" + b"1,2\n" * 300_000 if "csv" in name else b"1 1:2\n" * 300_000
        (tmp_path / name).write_bytes(pack(lines))
        monkeypatch.setenv("DUALMETRIC_MAX_UNPACKED", "1000000")
        with pytest.raises(ValueError, match=rf"{name}: it unpacks to more than 1\.0 MB"):
            read_rows(tmp_path / name)
        monkeypatch.setenv("DUALMETRIC_MAX_UNPACKED", "10000000")
        assert read_rows(tmp_path / name).X.shape[0] >= 300_000

    def test_arrays(self, tmp_path, monkeypatch):
        np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1000, 1000)))
        assert (tmp_path / "a.npz").stat().st_size < 20_000
        monkeypatch.setenv("DUALMETRIC_MAX_UNPACKED", "7999999")
        with pytest.raises(ValueError, match=r"a\.npz: it unpacks to more than 8\.0 MB.*set DUAL"):
            read_rows(tmp_path / "a.npz")
        monkeypatch.setenv("DUALMETRIC_MAX_UNPACKED", "9000000")
        assert read_rows(tmp_path / "a.npz").X.shape == (1000, 1000)
        monkeypatch.setenv("DUALMETRIC_MAX_UNPACKED", "much")
        with pytest.raises(ValueError, match="DUALMETRIC_MAX_UNPACKED must be a number of bytes"):
            read_rows(tmp_path / "a.npz")

    def test_by_default_memory_and_the_usual_ratio_are_the_limits(self, tmp_path, monkeypatch):
        from dualmetric.io import _forms

        (tmp_path / "a").write_bytes(bytes(10_000_000))
        monkeypatch.delenv("DUALMETRIC_MAX_UNPACKED", raising=False)
        monkeypatch.setattr(_forms, "available_memory", lambda: None)
        assert _forms.unpack_limit(tmp_path / "a") == 1_000_000_000
        monkeypatch.setattr(_forms, "available_memory", lambda: 1_000_000)
        assert _forms.unpack_limit(tmp_path / "a") == 500_000

    def test_parquet_with_many_rows_is_not_read_at_once(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        column = pa.chunked_array([pa.array(np.zeros(500_000))])
        pq.write_table(pa.table({f"x{i}": column for i in range(20)}), tmp_path / "a.parquet")
        assert (tmp_path / "a.parquet").stat().st_size < 200_000
        assert not isinstance(read_rows(tmp_path / "a.parquet").X, np.ndarray)


class TestFinding9Checksum:
    def test_every_flipped_bit_is_noticed(self, tmp_path):
        make_metric("cosine, centred", names=("a", "b", "c", "d", "e")).save(tmp_path / "m")
        content = (tmp_path / "m").read_bytes()
        rng = np.random.default_rng(0)
        places = [*range(0, 8 * len(content), 61), *rng.integers(8 * len(content), size=200)]
        for place in map(int, places):
            damaged = bytearray(content)
            damaged[place // 8] ^= 1 << place % 8
            (tmp_path / "m").write_bytes(damaged)
            with pytest.raises(ValueError, match=r"m (is|was) "):
                Metric.load(tmp_path / "m")

    def test_other_numbers_of_the_same_shape(self, tmp_path):
        make_metric().save(tmp_path / "m")
        content = (tmp_path / "m").read_bytes()
        (tmp_path / "m").write_bytes(content[:-8] + np.float64(0.5).tobytes())
        with pytest.raises(ValueError, match="m is damaged: its checksum is wrong"):
            Metric.load(tmp_path / "m")

    def test_the_name_of_the_checksum_is_covered(self, tmp_path):
        make_metric().save(tmp_path / "m")
        content = (tmp_path / "m").read_bytes()
        (tmp_path / "m").write_bytes(content.replace(b"checksum", b"chexksum"))
        with pytest.raises(ValueError, match="checksum is wrong"):
            Metric.load(tmp_path / "m")


def fractional_indices():
    bad = sp.csr_matrix(np.eye(30, 4))
    bad.indices = bad.indices + 0.5
    return bad


class TestFinding10Messages:
    @pytest.mark.parametrize(
        ("call", "names"),
        [
            (lambda: Whitening(np.nan).fit(X, Y), "shrinkage must be"),
            (lambda: MetricCV(shrinkages=0.5).fit(X, Y), "shrinkages must be a sequence"),
            (lambda: DuRP().fit(X, Triplets(sp.eye(3))), "triplets must be a dense array"),
            (lambda: DuRP().fit(X, Pairs(sp.eye(2), [1, 0])), "pairs must be a dense array"),
            (lambda: DuRP().fit(X, Comparisons(sp.eye(4))), "comparisons must be a dense array"),
            (lambda: DuRP().fit(X, sp.csr_matrix(Y[:, None])), "y"),
            (lambda: DuRP().fit(X, Labels(sp.csr_matrix(Y[:, None]))), "y"),
            (lambda: DuRP(reg=10**400).fit(X, Y), "reg must be"),
            (lambda: DuRP(loss=["hinge"]).fit(X, Y), "loss must be one of"),
            (lambda: DuRP(loss=np.array(["hinge", "b"])).fit(X, Y), "loss must be one of"),
            (lambda: DuRP().fit([[10**400, 1], [1, 2]], [0, 1]), "X holds a number that is too"),
            (lambda: DuRP().fit(fractional_indices(), Y), "X is a damaged sparse matrix"),
            (lambda: DuRP(random_state="seed").fit(X, Y), "random_state must be"),
            (lambda: DuRP(random_state=-1).fit(X, Y), "random_state must be"),
        ],
    )
    def test_the_argument_is_named(self, call, names):
        with pytest.raises((ValueError, TypeError), match=names):
            call()

    def test_a_very_large_reg_is_a_number_like_any_other(self):
        found = DuRP(2, n_triplets=50, reg=10**30, random_state=0).fit(X, Y)
        assert np.isfinite(found.transform(X)).all()


def write_table(path, ids, names="abcd", id_name="Unnamed: 0"):
    lines = [",".join([id_name, *names, "label"])]
    for place, row in enumerate(X):
        lines.append(",".join([str(ids[place]), *map(repr, row.tolist()), f"c{Y[place]}"]))
    path.write_text("\n".join(lines))


@pytest.fixture
def call(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dualmetric.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = CliRunner().invoke(main, list(map(str, arguments)))
        assert done.exit_code == 0, done.output
        return done

    return run


class TestFinding11Leaks:
    @pytest.mark.parametrize(
        ("name", "ids"),
        [
            ("Unnamed: 0", range(30)),
            ("", range(30)),
            ("id", np.random.default_rng(0).permutation(1000)[:30]),
            ("time", range(7, 37)),
        ],
    )
    def test_numbers_of_rows_are_noted(self, name, ids, tmp_path):
        write_table(tmp_path / "a.csv", list(ids), id_name=name)
        with pytest.warns(
            UserWarning, match=f"column '{name}' .* is used as a feature.*--drop {name},"
        ):
            found = read_rows(tmp_path / "a.csv")
        assert found.X.shape == (30, 5)
        found = read_rows(tmp_path / "a.csv", drop=[name])
        assert found.feature_names == ("a", "b", "c", "d")
        assert (found.ids is None) == (name == "time")
        found = read_rows(tmp_path / "a.csv", columns=["b", "a"])
        np.testing.assert_array_equal(found.X, X[:, [1, 0]])

    @pytest.mark.parametrize("values", [Y, X[:, 0], np.arange(30) * 2])
    def test_other_columns_are_not(self, values, tmp_path):
        """A warning would be an error here."""
        write_table(tmp_path / "a.csv", list(values), id_name="size")
        assert read_rows(tmp_path / "a.csv").X.shape == (30, 5)

    def test_text_ids_are_no_features(self, tmp_path):
        write_table(tmp_path / "a.csv", [f"doc-{row}" for row in range(30)], id_name="doc_id")
        found = read_rows(tmp_path / "a.csv")
        assert (found.id_name, found.id(3)) == ("doc_id", "doc-3")
        assert found.feature_names == ("a", "b", "c", "d")

    def test_frames(self):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=list("abcd"))
        frame["Unnamed: 0"] = range(30)
        with pytest.warns(UserWarning, match="X: column 'Unnamed: 0' numbers the rows 0, 1, 2, …"):
            learner("DuRP").fit(frame, Y)
        frame["text"] = "red"
        with pytest.raises(ValueError, match="'text' holds no numbers"):
            learner("DuRP").fit(frame, Y)

    @pytest.mark.parametrize("form", ["csv", "npz", "parquet"])
    def test_ids_are_carried(self, form, tmp_path, call):
        if form == "parquet":
            pytest.importorskip("pyarrow")
        ids = [f"doc-{row}" for row in range(30)]
        write_table(tmp_path / "a.csv", ids, id_name="id")
        call("fit", "a.csv", "--method", "euclidean", "-o", "m.safetensors")
        call("transform", "m.safetensors", "a.csv", "-o", f"v.{form}")
        found = read_rows(f"v.{form}")
        assert found.ids.tolist() == ids
        np.testing.assert_allclose(found.X, X)
        assert "doc-7" in call("neighbors", "m.safetensors", "a.csv", "--query", "7").output
        call("evaluate", "m.safetensors", "a.csv", "--report", "page.html")
        assert re.search(r"doc-\d", (tmp_path / "page.html").read_text())

    def test_ids_beside_vectors_in_parquet(self, tmp_path, call):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        columns = {"id": np.arange(30) * 3, "vector": list(X), "label": Y}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        call("fit", "a.parquet", "--method", "euclidean", "-o", "m.safetensors")
        call("transform", "m.safetensors", "a.parquet", "-o", "v.parquet")
        assert pq.read_table("v.parquet")["id"].to_pylist() == columns["id"].tolist()

    def test_a_dropped_column_is_no_feature_later(self, tmp_path, call):
        write_table(tmp_path / "a.csv", range(30))
        arguments = ("fit", "a.csv", "--method", "euclidean", "-o", "m.safetensors")
        assert "note: a.csv: column 'Unnamed: 0'" in call(*arguments).output
        assert "note" not in call(*arguments, "--drop", "Unnamed: 0").output
        assert Metric.load("m.safetensors").feature_names == ("a", "b", "c", "d")
        assert "note" not in call("transform", "m.safetensors", "a.csv", "-o", "v.csv").output
        assert Path("v.csv").read_text().startswith("Unnamed: 0,x0,")
        call(*arguments, "--columns", "a,c")
        assert Metric.load("m.safetensors").feature_names == ("a", "c")


KILLED = """
import os, signal, sys
from dualmetric.io.atomic import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="files cannot be locked in this way there")
class TestFinding12Leftovers:
    @staticmethod
    def kill_a_writer(path):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL

    def test_of_killed_processes_are_removed(self, tmp_path):
        write_atomically(tmp_path / "a", b"before")
        self.kill_a_writer(tmp_path / "a")
        assert len(os.listdir(tmp_path)) == 2
        assert (tmp_path / "a").read_bytes() == b"before"
        make_metric().save(tmp_path / "b")
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]

    def test_of_others_that_are_being_written_stay(self, tmp_path):
        with replacing(tmp_path / "a") as file:
            file.write(b"slow")
            write_atomically(tmp_path / "b", b"quick")
        assert (tmp_path / "a").read_bytes() == b"slow"
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]

    def test_of_other_programs_stay(self, tmp_path):
        (tmp_path / ".dualmetric-notes").write_bytes(b"mine")
        (tmp_path / "b.part").write_bytes(b"mine")
        write_atomically(tmp_path / "b", b"x")
        assert sorted(os.listdir(tmp_path)) == [".dualmetric-notes", "b", "b.part"]


class TestFoundByCampaigns:
    """Failed cases of `make hostile`, each as the case that it was."""

    @pytest.mark.parametrize(
        "seed",
        [
            2938,  # the matrix of a metric overflows
            5326,  # landmarks of a lift that overflow
            7526,  # blocks=dict
            7905,  # rows of a class that are all the same
            8205,  # reg so small that weights are infinite
            16927,  # reg so small that the square of a norm is infinite
            100527,  # ARPACK's directions beyond the rank of sparse rows differ from call to call
            102236,  # a covariance that loses the differences of rows far from zero
            102410,  # a margin of 2**63
            306003,  # weights of 1e300, which are multiplied
            102832,  # LAPACK finds no eigenvalue of a wide spectrum
        ],
    )
    def test_fits(self, seed):
        from hostile import campaign

        outcome, said = campaign.make_case("fits", seed).run()
        assert outcome in campaign.GOOD, said

    def test_narrow_numbers(self):
        with pytest.raises(ValueError, match=r"n_triplets must be .*too narrow"):
            DuRP(n_triplets=np.int8(3)).fit(X, Y)
        with pytest.raises(ValueError, match=r"n_projections must be .*above 2,147,483,647"):
            DuRP(10**30).fit(X, Y)

    def test_components_of_sparse_rows_of_low_rank(self):
        from dualmetric._arrays import ops

        rows = sp.csr_matrix(np.outer(np.arange(1.0, 31.0), [1.0, 0, 2, 0, 0, 3, 0, 0]))
        first, second = (ops.principal_components(rows, 3, 0) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_cv_is_named(self):
        with pytest.raises(ValueError, match="cv="):
            MetricCV(cv=[0.5, None]).fit(X, Y)

    @pytest.mark.skipif(os.name == "nt", reason="files cannot be locked in this way there")
    def test_two_writers_of_results(self, tmp_path):
        """Found by `make faults`: one cut off what the other had just written."""
        import json
        from multiprocessing import get_context

        path, context = tmp_path / "cells.jsonl", get_context("spawn")
        writers = [context.Process(target=append_results, args=(path, name)) for name in "ab"]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert found[0] == {"settings": 1}
        assert len(found) == 121


def append_results(path, name):
    from dualmetric.paper.cells import _append

    truncate = os.truncate

    def slowly(*arguments):
        time.sleep(0.005)
        truncate(*arguments)

    os.truncate = slowly
    _append(path, {"settings": 1}, first=True)
    for number in range(60):
        _append(path, {"name": name, "number": number, "long": "x" * 500})
