"""Parquet files and folders as sources of rows."""

import os
import pickle
import re
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from dualmetric import DuRP, Metric, open_parquet
from dualmetric._rows import open_rows, stored
from dualmetric.cli import app
from dualmetric.io import ParquetRows, read_rows, rowfiles
from dualmetric.io import parquet as parquet_files

pa = pytest.importorskip("pyarrow", reason="needs pip install 'dualmetric[parquet]'")
pq = pytest.importorskip("pyarrow.parquet")

FEW = {"n_projections": 4, "n_triplets": 1000, "random_state": 0}
KINDS = {
    "fixed": lambda d: pa.list_(pa.float32(), d),
    "list": lambda d: pa.list_(pa.float32()),
    "large": lambda d: pa.large_list(pa.float32()),
}


def make_data(n=90, d=6, dtype=np.float32):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, d))
    X[:, 0] += 3.0 * (y == 1)
    X[:, 1] += 3.0 * (y == 2)
    return X.astype(dtype), y


def vectors(X, kind="fixed"):
    return pa.array(X.tolist(), KINDS[kind](X.shape[1]))


def write(path, columns, group=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=group)


def write_folder(folder, X, y, group=13, files=3, kind="fixed"):
    """Rows in several files, of which each has several row groups, the last a short one."""
    bounds = np.linspace(0, len(X), files + 1).astype(int)
    for number, (a, b) in enumerate(pairwise(bounds)):
        columns = {"vector": vectors(X[a:b], kind), "label": y[a:b]}
        write(folder / f"part-{number}.parquet", columns, group)
    return folder


@pytest.fixture
def groups_read(monkeypatch):
    """Row groups that are decoded, by the rows of their file and their number; and columns."""
    found, found_columns = [], set()
    iter_batches = pq.ParquetFile.iter_batches

    def watched(self, *args, row_groups, columns):
        found.extend((self.metadata.num_rows, number) for number in row_groups)
        found_columns.add(tuple(columns))
        return iter_batches(self, *args, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    return found, found_columns


# --- what is read ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 100, 2**24])
def test_slices_are_those_of_the_array(kind, batch, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_BATCH", batch)
    X, y = make_data()
    rows = open_parquet(write_folder(tmp_path, X, y, kind=kind))
    assert not open_rows(rows)[0].in_memory
    assert rows.shape == (90, 6)
    assert len(rows) == 90
    assert rows.ndim == 2
    assert rows.dtype == np.float32
    assert rows.chunks == ((13, 13, 4) * 3, (6,))
    assert rows.feature_names is None
    assert [path.name for path in rows.files] == [f"part-{n}.parquet" for n in range(3)]
    assert repr(rows) == "<ParquetRows: 90 rows of 6 float32, files: 3>"
    for a, b in [(0, 90), (0, 1), (12, 14), (13, 26), (29, 31), (5, 70), (89, 90), (4, 4), (9, 2)]:
        found = rows[a:b]
        assert found.dtype == np.float32
        assert_array_equal(found, X[a:b])
    assert_array_equal(rows[:], X)
    assert_array_equal(rows[-5:], X[-5:])
    assert_array_equal(rows[80:200], X[80:])
    assert_array_equal(rows[10:20, 2:4], X[10:20, 2:4])  # as Dask asks
    assert_array_equal(rows.labels(), y)
    again = pickle.loads(pickle.dumps(rows))
    assert_array_equal(again[20:50], X[20:50])


@pytest.mark.parametrize(
    "key",
    [3, -1, np.int64(40), slice(0, 9, 2), slice(None, None, -1), slice(50, 3, -7), slice(9, 9),
     (5, slice(1, 3)), (slice(2, 50, 5), slice(0, 2))],
)  # fmt: skip
def test_steps_and_single_rows(key, tmp_path):
    X, y = make_data()
    assert_array_equal(open_parquet(write_folder(tmp_path, X, y))[key], X[key])


@pytest.mark.parametrize("key", [[1, 2], 90, -91, None])
def test_other_keys_are_refused(key, tmp_path):
    rows = open_parquet(write_folder(tmp_path, *make_data()))
    with pytest.raises(IndexError, match=r"read by slices, rows\[10:20\], or by a number"):
        rows[key]


def test_a_column_whose_name_begins_another(tmp_path):
    table = pa.table({"emb.old": [[1.0] * 5] * 4, "emb": [[2.0] * 3] * 4})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = open_parquet(tmp_path / "a.parquet", columns="emb")
    assert_array_equal(rows[:], np.full((4, 3), 2.0))


def test_columns_of_numbers(tmp_path):
    X, y = make_data(dtype=np.float64)
    names = [f"x.{place}" for place in range(6)]
    columns = {name: X[:, place] for place, name in enumerate(names)}
    write(tmp_path / "b" / "0.parquet", {**columns, "y": y}, 20)
    # the order of columns may differ
    write(tmp_path / "c.parquet", dict(reversed({**columns, "y": y}.items())), 50)
    rows = open_parquet(tmp_path)
    assert rows.feature_names == tuple(names)
    assert rows.dtype == np.float64
    assert_array_equal(rows[:], np.vstack([X, X]))
    assert_array_equal(rows.labels(), np.r_[y, y])
    few = open_parquet(tmp_path, columns=["x.3", "x.0"])
    assert few.feature_names == ("x.3", "x.0")
    assert_array_equal(few[7:30], X[7:30][:, [3, 0]])
    one = open_parquet(tmp_path / "c.parquet", columns="x.2")
    assert_array_equal(one[7:30], X[7:30, 2:3])


@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [
        (["float32"], "float32"),
        (["float16", "int8", "bool_"], "float32"),
        (["uint16", "int16", "float32"], "float32"),
        (["float32", "int32"], "float64"),
        (["int64"], "float64"),
        (["float32", "float64"], "float64"),
    ],
)
def test_precision_holds_every_number(kinds, dtype, tmp_path):
    columns = [np.array([0, 1, 1, 0], dtype=getattr(np, kind)) for kind in kinds]
    write(tmp_path / "a.parquet", {f"x{n}": column for n, column in enumerate(columns)})
    rows = open_parquet(tmp_path)
    assert rows.dtype == dtype
    assert rows[:].dtype == dtype
    assert_array_equal(rows[:], np.column_stack(columns))
    write(tmp_path / "a.parquet", {"v": pa.array([[1, 2], [3, 4]], pa.list_(pa.uint8(), 2))})
    assert open_parquet(tmp_path).dtype == np.float32
    assert_array_equal(open_parquet(tmp_path)[:], [[1, 2], [3, 4]])


def test_vectors_stand_beside_other_columns(tmp_path):
    X, y = make_data(4)
    texts = ["a", "b", "c", "d"]
    columns = {"id": texts, "vector": vectors(X), "more": vectors(X * 2), "label": y}
    write(tmp_path / "a.parquet", columns)
    with pytest.raises(
        ValueError, match=r"2 columns of vectors, vector, more: select one with --columns"
    ):
        open_parquet(tmp_path)
    assert_array_equal(open_parquet(tmp_path, columns="more")[:], X * 2)
    assert_array_equal(open_parquet(tmp_path, "vector", label_column="id").labels(), texts)
    with pytest.raises(ValueError, match="'vector' holds vectors and cannot be combined"):
        open_parquet(tmp_path, columns=["vector", "label"])


def test_only_features_of_needed_row_groups_are_read(tmp_path, groups_read):
    found, columns = groups_read
    X, y = make_data()
    rows = open_parquet(write_folder(tmp_path, X, y))
    rows.labels()
    assert found == []
    rows[14:20]
    assert found == [(30, 1)]
    assert columns == {("vector",)}


def test_every_row_group_is_decoded_once(tmp_path, monkeypatch, groups_read):
    found, _ = groups_read
    X, _ = make_data()
    lengths = [40, 31, 19]  # by which the files are told apart
    for number, n in enumerate(lengths):
        a = sum(lengths[:number])
        write(tmp_path / f"{number}.parquet", {"v": vectors(X[a : a + n])}, 7)
    rows = open_parquet(tmp_path)
    every = sorted((n, g) for n in lengths for g in range(-(-n // 7)))
    for block_rows in (1, 10, 16, 1000):
        monkeypatch.setattr(stored, "_BLOCK_BYTES", block_rows * 24)
        got = list(open_rows(rows)[0].blocks())
        assert_array_equal(np.vstack([block for _, block in got]), X)
        for start, block in got:
            assert_array_equal(block, X[start : start + len(block)])
        assert max(len(block) for _, block in got) <= max(7, block_rows)
        assert sorted(found) == every
        found.clear()
        wanted = np.array([3, 5, 41, 89])
        assert_array_equal(open_rows(rows)[0].take(wanted), X[wanted])
        assert sorted(found) == [(19, 2), (31, 0), (40, 0)]
        found.clear()


def test_dask_takes_them_by_row_groups(tmp_path, groups_read):
    da = pytest.importorskip("dask.array", reason="needs Dask")
    found, _ = groups_read
    X, y = make_data()
    rows = open_parquet(write_folder(tmp_path, X, y))
    lazy = da.from_array(rows, chunks=rows.chunks, meta=np.empty((0, 0), np.float32))
    assert lazy.dtype == np.float32
    assert_array_equal(lazy.compute(scheduler="threads"), X)
    assert len(found) == 9


def test_files_without_rows_and_hidden_ones(tmp_path):
    X, y = make_data(20)
    write_folder(tmp_path, X, y, files=2)
    write(tmp_path / "part-00.parquet", {"vector": pa.array([], pa.null())})
    for name in ("_metadata.parquet", ".part.parquet", "_old/a.parquet", ".tmp/b.parquet"):
        write(tmp_path / name, {"other": ["text"]})
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").touch()
    rows = open_parquet(tmp_path)
    assert_array_equal(rows[:], X)
    assert_array_equal(rows.labels(), y)


def test_columns_are_taken_by_name(tmp_path):
    X, y = make_data(dtype=np.float64)
    columns = {f"x{place}": X[:, place] for place in range(6)}
    write(tmp_path / "a.parquet", {**columns, "y": y}, 20)
    rows, labels = open_rows(open_parquet(tmp_path), "y", names=("x3", "x0"))
    assert rows.names == ("x3", "x0")
    assert rows.shape == (90, 2)
    assert_array_equal(rows.take(), X[:, [3, 0]])
    assert_array_equal(labels, y)
    assert open_rows(open_parquet(tmp_path))[0].names == tuple(columns)
    with pytest.raises(ValueError, match="X has no column 'q', which the metric was learned from"):
        open_rows(open_parquet(tmp_path), names=("x0", "q"))
    with pytest.raises(ValueError, match="'x0' is not the column of labels of X: open it with"):
        open_rows(open_parquet(tmp_path), "x0")


# --- labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([3, 1, 3, 2], [3, 1, 3, 2]),
        ([3.0, 1.0, 3.0, 2.0], [3, 1, 3, 2]),
        ([True, False, True, True], [True, False, True, True]),
        (["b", "a", "b", "cc"], ["b", "a", "b", "cc"]),
        (pa.array(["b", "a", "b", "c"]).dictionary_encode(), ["b", "a", "b", "c"]),
        (pa.array([1, 2, 1, 1], pa.date32()), ["1970-01-02", "1970-01-03"] + 2 * ["1970-01-02"]),
    ],
)
def test_kinds_of_labels(labels, found, tmp_path):
    X, _ = make_data(4)
    write(tmp_path / "a.parquet", {"v": vectors(X), "kind": labels}, 2)
    assert open_parquet(tmp_path, label_column="kind").labels().tolist() == found


def test_labels_in_names_of_folders(tmp_path):
    X, _ = make_data(9)
    for number, name in enumerate(["b%20c", "a", "d"]):
        part = X[3 * number : 3 * number + 3]
        write(tmp_path / f"kind={name}" / "0.parquet", {"v": vectors(part)})
    rows = open_parquet(tmp_path, label_column="kind")
    assert_array_equal(rows[:], X[[3, 4, 5, 0, 1, 2, 6, 7, 8]])
    assert rows.labels().tolist() == ["a"] * 3 + ["b c"] * 3 + ["d"] * 3
    write(tmp_path / "kind=__HIVE_DEFAULT_PARTITION__" / "0.parquet", {"v": vectors(X)})
    with pytest.raises(ValueError, match=r"0\.parquet has no label: its folder kind= has no value"):
        open_parquet(tmp_path, label_column="kind").labels()


def test_numbers_in_names_of_folders(tmp_path):
    X, _ = make_data(9)
    for label in (0, 1, 10):
        write(tmp_path / f"label={label}" / "0.parquet", {"v": vectors(X)})
    assert_array_equal(open_parquet(tmp_path).labels(), np.repeat([0, 1, 10], 9))


def test_wrong_labels(tmp_path):
    X, y = make_data(30)
    write_folder(tmp_path, X, y)
    with pytest.raises(
        ValueError, match=r"part-0\.parquet: it has no column 'kind': its columns are"
    ):
        open_parquet(tmp_path, label_column="kind")
    write(tmp_path / "part-1.parquet", {"vector": vectors(X), "label": [None, *y[1:].tolist()]})
    with pytest.raises(ValueError, match=r"part-1\.parquet: row 0 has no label"):
        open_parquet(tmp_path).labels()
    write(tmp_path / "part-1.parquet", {"vector": vectors(X), "label": list(map(str, y))})
    with pytest.raises(ValueError, match=r"part-1\.parquet: its labels are <U1, but those of .*-0"):
        open_parquet(tmp_path).labels()
    write(tmp_path / "part-1.parquet", {"vector": vectors(X)})
    with pytest.raises(ValueError, match=r"part-1.*: column 'label' holds nothing, but in .*-0"):
        open_parquet(tmp_path)
    for name in ("part-0", "part-1", "part-2"):
        write(tmp_path / f"{name}.parquet", {"vector": vectors(X)})
    with pytest.raises(
        ValueError, match=r"no label column was found in .*: name it with open_parquet\("
    ):
        open_parquet(tmp_path).labels()


# --- what is wrong --------------------------------------------------------------------------


def odd_file(tmp_path, columns, group=10):
    """A folder whose second file has the given columns."""
    X, y = make_data(30)
    write(tmp_path / "a.parquet", {"vector": vectors(X), "label": y})
    write(tmp_path / "b.parquet", columns, group)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_ragged_vectors_are_found_on_opening(kind, tmp_path):
    X, y = make_data(30)
    values = X.tolist()
    values[17] = None
    columns = {"vector": pa.array(values, KINDS[kind](6)), "label": y}
    match = r"b\.parquet: row group 1 \(rows 10 to 19, .*\) has 55 numbers in column 'vector': s"
    with pytest.raises(ValueError, match=match):
        open_parquet(odd_file(tmp_path, columns))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        # the footer counts as many numbers as there should be
        ({13: [1.0] * 5, 14: [1.0] * 7}, r"row 13 .*'vector' has a vector of length 5, but others"),
        ({25: [1.0, None, 2.0, 3.0, 4.0, 5.0]}, r"the vector in row 25 .* has a number missing"),
    ],
)
@pytest.mark.parametrize("batch", [1, 2**24])
def test_wrong_vectors_are_found_when_they_are_read(changes, match, batch, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_BATCH", batch)
    X, y = make_data(30)
    values = X.tolist()
    for row, value in changes.items():
        values[row] = value
    columns = {"vector": pa.array(values, pa.list_(pa.float32())), "label": y}
    rows = open_parquet(odd_file(tmp_path, columns))
    assert_array_equal(rows[:40], np.vstack([X, X[:10]]))  # the row group before
    for action in (lambda: rows[:], lambda: list(open_rows(rows)[0].blocks()), lambda: rows[42:57]):
        with pytest.raises(ValueError, match=rf"b\.parquet: {match}"):
            action()


def test_missing_numbers(tmp_path):
    values = np.arange(30.0).tolist()
    values[23] = None
    write(tmp_path / "a.parquet", {"x": np.arange(30.0), "z": values}, 10)
    rows = open_parquet(tmp_path)
    assert rows[:20].shape == (20, 2)
    with pytest.raises(ValueError, match=r"a\.parquet: column 'z' is empty in row 23 "):
        rows[21:29]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (
            {"x": [1.0], "label": [1]},
            r"column 'vector' holds nothing, but in .*a\.parquet it holds vectors of 6 float32",
        ),
        (
            {"vector": pa.array([[1.0] * 6], pa.list_(pa.float64())), "label": [1]},
            r"column 'vector' holds vectors of 6 float64, but in .*a\.parquet .* 6 float32",
        ),
        (
            {"vector": pa.array([[1.0] * 5], pa.list_(pa.float32())), "label": [1]},
            r"column 'vector' holds vectors of 5 float32, but in .*a\.parquet .* 6 float32",
        ),
        (
            {"vector": pa.array([["a"]], pa.list_(pa.string())), "label": [1]},
            "column 'vector' holds list<.*string>, not numbers",
        ),
    ],
)
def test_files_unlike_the_first(columns, match, tmp_path):
    with pytest.raises(ValueError, match=rf"b\.parquet: .*{match}") as caught:
        open_parquet(odd_file(tmp_path, columns))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"x": [1.0]}, r"column 'z' holds nothing, but in .*a\.parquet it holds float64"),
        ({"x": [1.0], "z": [1]}, r"column 'z' holds int64, but in .*a\.parquet it holds float64"),
        ({"x": [1.0], "z": [1.0], "w": [1.0]}, r"column 'w' holds float64, but in .* nothing"),
        ({"x": [1.0], "z": ["1"]}, "column 'z' holds string, not numbers: if it holds"),
    ],
)
def test_columns_unlike_the_first(columns, match, tmp_path):
    write(tmp_path / "a.parquet", {"x": [1.0], "z": [2.0]})
    write(tmp_path / "b.parquet", columns)
    with pytest.raises(ValueError, match=rf"b\.parquet: {match}"):
        open_parquet(tmp_path)


def test_what_is_no_table_of_features(tmp_path):
    with pytest.raises(FileNotFoundError, match="none does not exist"):
        open_parquet(tmp_path / "none")
    with pytest.raises(ValueError, match=r"is a folder without \.parquet files"):
        open_parquet(tmp_path)
    file = tmp_path / "a.parquet"
    write(file, {"label": [1, 2]})
    with pytest.raises(ValueError, match=r"a\.parquet: it has no column of features"):
        open_parquet(tmp_path)
    write(file, {"name": ["a", "b"], "label": [1, 2]})
    with pytest.raises(ValueError, match="column 'name' holds string, not numbers"):
        open_parquet(tmp_path)
    write(file, {"x": pa.array([], pa.float32())})
    with pytest.raises(ValueError, match="has no rows"):
        open_parquet(tmp_path)
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, ["x", "x"]), file)
    with pytest.raises(ValueError, match="two columns 'x'"):
        open_parquet(tmp_path)
    write(file, {"x": [1.0]})
    with pytest.raises(ValueError, match=r"it has no column 'z': its columns are x$"):
        open_parquet(tmp_path, columns=["z"])


def test_damaged_files(tmp_path):
    X, y = make_data(3000)
    folder = write_folder(tmp_path, X, y, group=500)
    victim = folder / "part-1.parquet"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-300])
    with pytest.raises(ValueError, match=r"part-1\.parquet is damaged, or is not the kind of file"):
        open_parquet(folder)
    victim.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    rows = open_parquet(folder)
    with pytest.raises(ValueError, match=r"part-1\.parquet is damaged, or is not the kind of file"):
        list(open_rows(rows)[0].blocks())


def test_files_that_change_or_go(tmp_path):
    X, y = make_data()
    folder = write_folder(tmp_path, X, y)
    rows = open_parquet(folder)
    write(folder / "part-1.parquet", {"vector": vectors(X[:12]), "label": y[:12]})
    assert rows[:20].shape == (20, 6)
    with pytest.raises(ValueError, match=r"part-1\.parquet: it has changed since it was opened"):
        rows[20:40]
    os.unlink(folder / "part-1.parquet")
    with pytest.raises(FileNotFoundError, match=r"part-1\.parquet"):
        rows[20:40]


def test_row_groups_beyond_memory(tmp_path, monkeypatch):
    X, y = make_data()
    rows = open_parquet(write_folder(tmp_path, X, y, files=1, group=90))
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 2 * 90 * 24 - 1)
    with pytest.raises(ValueError, match=r"the largest chunk of X, of 90 rows, needs .* smaller"):
        list(open_rows(rows)[0].blocks())
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 2 * 90 * 24)
    assert len(list(open_rows(rows)[0].blocks())) == 1


def test_without_pyarrow(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'dualmetric[parquet]'")):
        open_parquet(tmp_path)


# --- learning and the command line ----------------------------------------------------------


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_the_metric_is_that_of_the_rows_in_memory(distance, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 20 * 24)
    X, y = make_data(300)
    rows = open_parquet(write_folder(tmp_path, X, y))
    settings = {"distance": distance, **FEW}
    expected = DuRP(**settings).fit(X, y)
    got = DuRP(**settings).fit(rows, rows.labels())
    assert got.components_.dtype == np.float32
    assert_array_equal(got.components_, expected.components_)
    assert got.transform(rows).dtype == np.float32
    assert_allclose(got.transform(rows), expected.transform(X), atol=1e-5)
    assert got.score(rows, rows.labels()) == pytest.approx(expected.score(X, y), abs=1e-6)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=0):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.mark.parametrize("name", ["d", "d.parquet"])
def test_commands(name, run, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 20 * 24)
    monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
    X, y = make_data(300)
    if name == "d":
        write_folder(tmp_path / name, X, y)
    else:
        write(tmp_path / name, {"vector": vectors(X), "label": y}, 13)
    assert isinstance(read_rows(name).X, ParquetRows)
    np.savez("d.npz", X=X, y=y)
    settings = ["--method", "durp", "--shrinkage", 0.5]
    for data, metric in ((name, "m"), ("d.npz", "n")):
        run("fit", data, "-o", metric, *settings)
    found, expected = Metric.load("m"), Metric.load("n")
    assert_array_equal(found.factor, expected.factor)
    assert found.info["split"] == expected.info["split"]
    for out in ("v.npy", "v.parquet", "v.csv"):
        done = run("transform", "m", name, "-o", out)
        assert done.output.startswith(f"Vectors: {out}, ")
        assert f"300 rows × {found.rank} columns" in done.output
        rows = read_rows(out)
        assert_allclose(rows.X[:], expected.transform(X), atol=1e-5)
        if out != "v.npy":
            assert_array_equal(rows.y, y)
    for command in (["evaluate", "m"], ["neighbors", "m"], ["explain", "m"]):
        more = {"evaluate": [], "neighbors": ["--query", "7,200"], "explain": [3, 250]}[command[0]]
        outputs = [run(*command, data, *more).output for data in (name, "d.npz")]
        assert outputs[0] == outputs[1]


def test_labels_beside_a_folder(run, tmp_path):
    X, y = make_data(300)
    write(tmp_path / "d" / "a.parquet", {"vector": vectors(X), "kind": y})
    settings = ["--method", "durp", "--shrinkage", 0.5]
    run("fit", "d", "--labels", "kind", "-o", "m", *settings)
    np.save("y.npy", y)
    run("fit", "d", "--labels", "y.npy", "-o", "n", *settings)
    assert_array_equal(Metric.load("m").factor, Metric.load("n").factor)


def test_nothing_is_half_written(run, tmp_path):
    X, y = make_data(300)
    folder = write_folder(tmp_path / "d", X, y, group=10)
    run("fit", "d", "-o", "m", "--method", "durp")
    run("transform", "m", "d", "-o", "d/v.npy")  # what is no Parquet file is not read
    values = X.tolist()
    values[290][2] = None
    write(folder / "part-3.parquet", {"vector": vectors(X), "label": y}, 10)
    bad = pa.array(values, pa.list_(pa.float32(), 6))
    write(folder / "part-4.parquet", {"vector": bad, "label": y}, 10)
    (tmp_path / "v.npy").write_text("before")
    for out in ("v.npy", "v.parquet"):
        done = run("transform", "m", "d", "-o", out, code=2)
        assert "part-4.parquet: the vector in row 290" in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "m", "v.npy"]
    assert (tmp_path / "v.npy").read_text() == "before"
    done = run("transform", "m", "d", "-o", "d/v.parquet", code=2)
    assert (
        "--out: d/v.parquet is inside d, the folder that is being read: choose another folder"
        in done.output
    )


def test_missing_numbers_are_named_by_file_and_row(tmp_path):
    X, y = make_data()
    X[70, 2] = np.nan
    rows = open_parquet(write_folder(tmp_path, X, y))
    with pytest.raises(
        ValueError, match=r"NaN or infinity, first in .*\.parquet, row \d+: fill the"
    ):
        DuRP(n_triplets=200, random_state=0).fit(rows, y)
    path, row = re.fullmatch(r"(.*), row (\d+)", rows.place(70)).groups()
    vectors = pq.read_table(path).column("vector").to_pylist()
    assert np.isnan(vectors[int(row)][2])
