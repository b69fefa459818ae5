import bz2
import functools
import gc
import hashlib
import http.server
import os
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.decomposition import PCA

from dualmetric import datasets
from dualmetric.datasets import NAMES, Dataset, _sources, _text, dataset_names, load_dataset
from dualmetric.datasets._catalog import CATALOG, Entry, File
from makers import make_counts

REAL = os.environ.get("DUALMETRIC_DATA", "")


def needs(file_name):
    return pytest.mark.skipif(
        not (REAL and (Path(REAL) / file_name).is_file()),
        reason=f"needs {file_name} in the folder that DUALMETRIC_DATA names",
    )


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """An empty data folder and an empty cache folder: nothing is read from or left at home."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("DUALMETRIC_DATA", str(data))
    monkeypatch.setenv("DUALMETRIC_CACHE", str(cache))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return data, cache


@pytest.fixture
def data_folder(folders):
    return folders[0]


@pytest.fixture
def cache_folder(folders):
    return folders[1]


@pytest.fixture
def offline(monkeypatch):
    """Every public source is a port of this machine where nothing listens."""
    for name, entry in CATALOG.items():
        files = tuple(file._replace(folder="http://127.0.0.1:9/") for file in entry.files)
        monkeypatch.setitem(CATALOG, name, entry._replace(files=files))


def write_npz(path, X, y, **more):
    if sp.issparse(X):
        more |= {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    else:
        more |= {"X": X}
    np.savez(path, y=y, **more)


def write_svmlight(path, X, y):
    plain = path.with_suffix(".txt")
    dump_svmlight_file(X, y, str(plain), zero_based=False)
    path.write_bytes(bz2.compress(plain.read_bytes()))
    plain.unlink()


def assert_same(first, second):
    for one, other in zip(first[1:5], second[1:5], strict=True):
        np.testing.assert_array_equal(one, other)


# names and arguments


def test_names():
    assert dataset_names() == NAMES
    assert NAMES[:6] == ("usps", "protein", "caltech30", "tdt30", "20news", "rcv30")
    for name in NAMES:
        entry = CATALOG[name]
        assert entry.note
        assert "\n" not in entry.note
        assert entry.stand_in_for is None or entry.stand_in_for in NAMES[:6]


def test_unknown_name():
    with pytest.raises(ValueError, match=r"unknown data set 'mnist': .*; known: usps, .*digits"):
        load_dataset("mnist")


def test_bad_arguments():
    with pytest.raises(ValueError, match="must be float32 or float64"):
        load_dataset("digits", dtype=np.int32)
    with pytest.raises(ValueError, match="seed must be 0 or more; got -1"):
        load_dataset("digits", seed=-1)
    with pytest.raises(TypeError):
        load_dataset("digits", seed=0.5)


def test_fields_with_defaults():
    data = Dataset("mine", np.ones((1, 1)), np.ones(1), np.ones((1, 1)), np.ones(1))
    assert data.note == ""
    assert data.stand_in_for is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digits_needs_no_file(dtype, monkeypatch):
    monkeypatch.setenv("DUALMETRIC_DATA", "/nowhere")
    data = load_dataset("digits", dtype=dtype)
    assert data.X_train.shape == (1198, 64)
    assert data.X_test.shape == (599, 64)
    assert data.X_train.dtype == data.X_test.dtype == dtype
    rows = np.vstack([data.X_train, data.X_test])
    expected = load_digits().data
    assert np.array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])
    assert not np.array_equal(load_dataset("digits", seed=1).y_test, data.y_test)


# files and splits


def test_own_split(data_folder, rng):
    X = rng.integers(0, 255, size=(10, 4)).astype(np.uint8)
    y = np.arange(10) % 2
    train, test = np.array([8, 0, 1, 2, 3, 4]), np.array([9, 5])
    write_npz(data_folder / "fashion_mnist_13k.npz", X, y, train_idx=train, test_idx=test)
    data = load_dataset("fashion_mnist_13k")
    assert data.name == "fashion_mnist_13k"
    assert data.X_train.dtype == np.float32
    np.testing.assert_array_equal(data.X_train, X[train])
    np.testing.assert_array_equal(data.X_test, X[test])
    np.testing.assert_array_equal(data.y_train, y[train])
    np.testing.assert_array_equal(data.y_test, y[test])


def test_file_that_is_not_in_the_catalogue(data_folder, rng):
    X, y = rng.normal(size=(40, 3)), np.repeat([3, 5], 20)
    write_npz(data_folder / "mine.npz", X, y)
    assert datasets.available("mine")
    data = load_dataset("mine", dtype=np.float64)
    assert (data.name, data.note, data.text) == ("mine", "mine.npz", False)
    assert np.bincount(data.y_train).tolist() == [14, 14]
    both = np.concatenate([data.X_train, data.X_test])
    np.testing.assert_array_equal(both[np.argsort(both[:, 0])], X[np.argsort(X[:, 0])])
    write_npz(data_folder / "mine.npz", X, y, train_idx=np.arange(30), test_idx=np.arange(30, 40))
    np.testing.assert_array_equal(load_dataset("mine", dtype=np.float64).X_test, X[30:])
    assert "mine" not in dataset_names()
    np.savez(data_folder / "queries.npz", Q=X, D=X)
    with pytest.raises(
        ValueError, match=r"queries\.npz is not a valid data file.*neither an array 'X'"
    ):
        load_dataset("queries")


def test_split_by_class_and_rows_of_length_one(data_folder, rng):
    X = rng.integers(-100, 100, size=(12, 4), dtype=np.int8)
    y = np.repeat([0, 1, 2, 3], 3)
    train, test = np.flatnonzero(y % 2 == 0), np.flatnonzero(y % 2)
    write_npz(data_folder / "banking77_minilm.npz", X, y, train_rows=train, test_rows=test)
    data = load_dataset("banking77_minilm")
    assert data.X_train.dtype == np.float32
    for rows, numbers in ((data.X_train, train), (data.X_test, test)):
        lengths = np.linalg.norm(X[numbers].astype(float), axis=1, keepdims=True)
        np.testing.assert_allclose(rows, X[numbers] / lengths, rtol=1e-5)
    assert not set(data.y_train) & set(data.y_test)


def test_text_in_its_words(data_folder, cache_folder):
    X, y = make_counts(90)
    write_npz(data_folder / "rcv1_7class.npz", X, y)
    data = load_dataset("rcv1_7class", reduced=False)
    assert data.text
    assert sp.issparse(data.X_train)
    assert data.X_train.dtype == np.float32
    order = np.random.default_rng(0).permutation(90)  # the split of the reduced rows
    np.testing.assert_array_equal(data.X_train.toarray(), X.toarray()[order[:63]])
    np.testing.assert_array_equal(data.X_test.toarray(), X.toarray()[order[63:]])
    np.testing.assert_array_equal(data.y_test, load_dataset("rcv1_7class").y_test)
    assert not isinstance(load_dataset("digits", reduced=False).X_train, sp.csr_matrix)


def test_stratified_split(data_folder):
    X = np.arange(40.0)[:, None]
    y = np.repeat([0, 1], [30, 10])
    write_npz(data_folder / "su.npz", X, y)
    data = load_dataset("su")
    assert np.bincount(data.y_train).tolist() == [21, 7]
    assert np.bincount(data.y_test).tolist() == [9, 3]
    assert sorted([*data.X_train[:, 0], *data.X_test[:, 0]]) == X[:, 0].tolist()
    np.testing.assert_array_equal(data.y_train, y[data.X_train[:, 0].astype(int)])
    assert_same(data, load_dataset("su"))
    assert not np.array_equal(data.X_test, load_dataset("su", seed=1).X_test)


def test_contiguous_split_of_sparse_rows(data_folder):
    X = sp.csr_matrix(np.arange(1.0, 11.0)[:, None])
    write_npz(data_folder / "protein_val.npz", X, np.arange(10) % 3)
    data = load_dataset("protein_val")
    assert data.X_train[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert data.X_test[:, 0].tolist() == [8, 9, 10]
    assert "16 %" in data.note


def test_random_split_keeps_largest_classes(data_folder):
    # classes 0 to 30 of 3 rows each but class 7 of one: that one goes
    y = np.delete(np.repeat(np.arange(31), 3), [21, 22])
    X = np.arange(float(len(y)))[:, None]
    write_npz(data_folder / "caltech30.npz", X, y)
    data = load_dataset("caltech30")
    assert (len(data.y_train), len(data.y_test)) == (63, 27)
    rows = np.concatenate([data.X_train, data.X_test])[:, 0].astype(int)
    assert sorted(rows) == [row for row in range(len(y)) if y[row] != 7]
    labels = np.concatenate([data.y_train, data.y_test])
    np.testing.assert_array_equal(labels, y[rows] - (y[rows] > 7))


def test_svmlight_files(data_folder, rng):
    X = np.round(rng.random((9, 5)), 2) + 0.01
    X[6:, 4] = 0  # the test file has one feature fewer
    y = np.array([1, 2, 0, 1, 2, 0, 1, 2, 0])
    write_svmlight(data_folder / "usps.bz2", X[:6], y[:6] + 1)
    write_svmlight(data_folder / "usps.t.bz2", X[6:], y[6:] + 1)
    data = load_dataset("usps", dtype=np.float64)
    np.testing.assert_allclose(data.X_train, X[:6], rtol=1e-6)
    np.testing.assert_allclose(data.X_test, X[6:], rtol=1e-6)
    np.testing.assert_array_equal(data.y_train, y[:6])
    np.testing.assert_array_equal(data.y_test, y[6:])


def test_protein_files_with_spaces_before_numbers(data_folder):
    content = b"0   1:1.00   3: .50\n2   2:  .25\n1   1:1.00\n"
    (data_folder / "protein.bz2").write_bytes(bz2.compress(content))
    (data_folder / "protein.t.bz2").write_bytes(bz2.compress(b"1 2:1\n"))
    data = load_dataset("protein")
    np.testing.assert_array_equal(data.X_train, [[1, 0, 0.5], [0, 0.25, 0], [1, 0, 0]])
    np.testing.assert_array_equal(data.X_test, [[0, 1, 0]])
    assert data.y_train.tolist() == [0, 2, 1]


def test_rcv30_exchanges_its_files_and_keeps_30_classes(data_folder):
    y = np.repeat(np.arange(1, 33), 4)  # the classes of the test file's rows, two too many
    y[:2] = 32
    y[4:6] = 31  # classes 1 and 2 are the smallest
    write_svmlight(data_folder / "rcv1_test.multiclass.bz2", np.eye(128), y)
    write_svmlight(data_folder / "rcv1_train.multiclass.bz2", np.eye(128)[:32], np.arange(1, 33))
    data = load_dataset("rcv30")
    assert len(data.y_train) == (y > 2).sum() == 124
    assert len(data.y_test) == 30
    assert np.bincount(data.y_train).tolist() == [4] * 28 + [6, 6]
    assert data.y_test.tolist() == list(range(30))


def test_mat_file_has_the_largest_topics(data_folder):
    X, _ = make_counts(200, dtype=np.float32)
    y = np.concatenate([np.repeat(np.arange(1, 31), 6), np.full(20, 31)])
    y[:3] = 2  # topic 1 is the smallest
    savemat(data_folder / "TDT2.mat", {"fea": X.astype(float), "gnd": y[:, None].astype(float)})
    data = load_dataset("tdt30")
    assert len(data.y_train) == 137
    assert len(data.y_train) + len(data.y_test) == 197
    assert set(data.y_train) | set(data.y_test) == set(range(30))


def test_npz_before_public_file_and_data_folder_before_cache(data_folder, cache_folder):
    def write(folder, name, value):
        folder.mkdir(exist_ok=True)
        write_npz(folder / name, np.full((10, 2), value), np.arange(10) % 2)

    write(cache_folder, "isolet1.npz", 1.0)
    assert load_dataset("isolet1").X_test[0, 0] == 1
    write(data_folder, "isolet1.npz", 2.0)
    assert load_dataset("isolet1").X_test[0, 0] == 2
    (data_folder / "protein.val.bz2").write_bytes(bz2.compress(b"1 1:5\n" * 10))
    assert load_dataset("protein_val").X_test[0, 0] == 5
    write(data_folder, "protein_val.npz", 3.0)
    assert load_dataset("protein_val").X_test[0, 0] == 3


def test_available(data_folder, cache_folder):
    assert [name for name in NAMES if datasets.available(name)] == ["digits"]
    (data_folder / "usps.bz2").touch()
    assert not datasets.available("usps")
    cache_folder.mkdir()
    (cache_folder / "usps.t.bz2").touch()
    (data_folder / "caltech30.npz").touch()
    assert [name for name in NAMES if datasets.available(name)] == ["usps", "caltech30", "digits"]
    with pytest.raises(ValueError, match="unknown data set"):
        datasets.available("mnist")


# files that are not what they should be


def arrays(**changes):
    good = {
        "X": np.ones((4, 2)),
        "y": np.array([0, 1, 0, 1]),
        "train_idx": np.array([0, 1]),
        "test_idx": np.array([2, 3]),
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": None}, "neither an array 'X'"),
        ({"y": None}, "no array 'y"),
        ({"y": np.zeros(3)}, "3 labels for 4 rows"),
        ({"y": np.zeros((4, 2))}, "labels must be one column"),
        ({"y": np.array([0, 1, np.nan, 0])}, "row 2 has no label"),
        ({"X": np.array(["a", "b", "c", "d"])}, "rows of features are needed"),
        ({"X": np.array([["a"], ["b"], ["c"], ["d"]])}, "not numbers"),
        ({"X": np.ones((4, 2, 2))}, "rows of features are needed"),
        ({"X": np.full((4, 2), np.inf)}, "row 0 .*(infinite|infinity)"),
        ({"X": np.array([[1, "a"]] * 4, dtype=object)}, "pickles are not read"),
        ({"test_idx": None}, "does not say which rows are test rows"),
        ({"test_idx": np.array([2, 4])}, "beyond the 4 rows"),
        ({"test_idx": np.array([-1])}, "beyond the 4 rows"),
        ({"test_idx": np.array([1, 2])}, "rows in common"),
        ({"test_idx": np.array([], dtype=int)}, "must be a one-dimensional array"),
        ({"test_idx": np.array([0.5])}, "must be a one-dimensional array"),
        (
            {"test_idx": None, "train_rows": np.array([0, 1]), "test_rows": np.array([1, 2])},
            "repeat a row",
        ),
        (
            {"test_idx": None, "train_rows": np.array([0, 1]), "test_rows": np.array([4])},
            "that the file does not have",
        ),
    ],
)
def test_wrong_npz(data_folder, changes, message):
    path = data_folder / "fashion_mnist_13k.npz"
    np.savez(path, **arrays(**changes))
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset("fashion_mnist_13k")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.array([0, 1, 9])},
        {"indices": np.array([0, 1, -1])},
        {"indptr": np.array([0, 3])},
        {"shape": np.array([3])},
        {"data": np.ones(2)},
    ],
)
def test_wrong_sparse_npz(data_folder, changes):
    good = {
        "data": np.ones(3),
        "indices": np.array([0, 1, 2]),
        "indptr": np.array([0, 1, 2, 3]),
        "shape": np.array([3, 3]),
        "y": np.array([0, 1, 0]),
    }
    np.savez(data_folder / "protein_val.npz", **good)
    load_dataset("protein_val")
    np.savez(data_folder / "protein_val.npz", **(good | changes))
    with pytest.raises(ValueError, match=r"protein_val\.npz is not a valid data file"):
        load_dataset("protein_val")


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"PK\x03\x04 and no more", b"\x80\x04K\x01."]
)
def test_damaged_npz(data_folder, content):
    (data_folder / "usps.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"usps\.npz is not a valid data file, or is damaged"):
        load_dataset("usps")


def test_cut_npz(data_folder):
    path = data_folder / "fashion_mnist_13k.npz"
    np.savez_compressed(path, **arrays())
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged"):
            load_dataset("fashion_mnist_13k")


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", bz2.compress(b"1 1:2\n")[:-4], bz2.compress(b"x y")]
)
def test_damaged_svmlight(data_folder, content):
    (data_folder / "usps.bz2").write_bytes(bz2.compress(b"1 1:2\n"))
    (data_folder / "usps.t.bz2").write_bytes(content)
    with pytest.raises(ValueError, match=r"usps\.t\.bz2 is not a valid data file, or is damaged"):
        load_dataset("usps")


def test_damaged_mat(data_folder):
    path = data_folder / "TDT2.mat"
    savemat(path, {"fea": sp.eye_array(9).tocsc(), "gnd": np.arange(9.0)})
    whole = path.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2], whole[:130]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"TDT2\.mat is not a valid data file, or is damaged"):
            load_dataset("tdt30")
    savemat(path, {"other": np.ones(3)})
    with pytest.raises(ValueError, match="no array 'fea'"):
        load_dataset("tdt30")


def test_too_few_rows_to_split(data_folder):
    write_npz(data_folder / "caltech30.npz", np.ones((1, 2)), np.zeros(1))
    with pytest.raises(ValueError, match=r"caltech30\.npz has 1 rows: too few"):
        load_dataset("caltech30")
    write_npz(data_folder / "su.npz", np.ones((4, 2)), np.arange(4))
    with pytest.raises(ValueError, match=r"su\.npz cannot be split class by class"):
        load_dataset("su")


# absent files and downloads


def test_caltech30_names_its_stand_in(data_folder):
    with pytest.raises(FileNotFoundError, match="no stable public source") as caught:
        load_dataset("caltech30")
    assert "caltech30.npz" in str(caught.value)
    assert "caltech101_top30_bovw" in str(caught.value)
    assert str(data_folder) in str(caught.value)
    assert CATALOG["caltech101_top30_bovw"].stand_in_for == "caltech30"


def test_data_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("DUALMETRIC_DATA", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match=r"DUALMETRIC_DATA names .*absent"):
        load_dataset("golub")


def test_offline(data_folder, cache_folder, offline):
    (data_folder / "news20.bz2").write_bytes(bz2.compress(b"1 1:2\n"))
    with pytest.raises(FileNotFoundError, match=r"^news20\.t\.bz2 .*no connection") as caught:
        load_dataset("20news")
    assert CATALOG["20news"].files[1].url in str(caught.value)
    assert f"put it into {data_folder}" in str(caught.value)
    assert not any(cache_folder.iterdir())


def test_folder_to_fill_is_the_cache_where_no_data_folder_is_named(
    monkeypatch, cache_folder, offline
):
    monkeypatch.setenv("DUALMETRIC_DATA", "")
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("usps")
    assert f"put it into {cache_folder}" in str(caught.value)


@pytest.mark.parametrize("module", ["pooch", "tqdm"])
def test_download_without_the_extra(monkeypatch, module, offline):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'dualmetric\[data\]'") as caught:
        load_dataset("usps")
    assert CATALOG["usps"].files[0].url in str(caught.value)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path.endswith("cut.bz2"):  # promises more than it sends
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"BZh9 and no more")
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """A web server of this machine: the folder that it serves, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()
    # pooch leaves the connection of a failed download to the garbage collector
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_download(server, data_folder, cache_folder, monkeypatch, capfd):
    folder, address = server
    X = np.arange(1.0, 21.0).reshape(10, 2)
    write_svmlight(folder / "rows.bz2", X, np.arange(10) % 2)
    content = (folder / "rows.bz2").read_bytes()
    known = hashlib.sha256(content).hexdigest()
    file = File("rows.bz2", address, known)
    monkeypatch.setitem(CATALOG, "served", Entry("", (file,), split="contiguous"))
    data = load_dataset("served")
    np.testing.assert_array_equal(data.X_train, X[:7])
    assert [path.name for path in cache_folder.iterdir()] == ["rows.bz2"]
    assert not any(data_folder.iterdir())
    (folder / "rows.bz2").unlink()
    assert_same(load_dataset("served"), data)  # not downloaded again
    assert "rows.bz2" not in capfd.readouterr().err  # no bar where there is no terminal


def test_download_with_wrong_checksum(server, cache_folder):
    folder, address = server
    (folder / "rows.bz2").write_bytes(bz2.compress(b"1 1:2\n"))
    with pytest.raises(
        ValueError, match=r"^rows\.bz2 .*does not have the checksum 0{64}"
    ) as caught:
        _sources.download(File("rows.bz2", address, "0" * 64))
    assert address + "rows.bz2" in str(caught.value)
    assert not any(cache_folder.iterdir())


@pytest.mark.parametrize(("name", "reason"), [("cut.bz2", "IncompleteRead"), ("no.bz2", "404")])
def test_failed_download(server, cache_folder, name, reason):
    _, address = server
    with pytest.raises(FileNotFoundError, match=f"^{name} is needed.*{reason}") as caught:
        _sources.download(File(name, address))
    assert address + name in str(caught.value)
    assert not any(cache_folder.iterdir())


def test_stopped_download(server, cache_folder, monkeypatch):
    import pooch

    folder, address = server
    (folder / "rows.bz2").write_bytes(bz2.compress(b"1 1:2\n"))
    download = pooch.HTTPDownloader.__call__

    def stopped(self, *args, **kwargs):
        download(self, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        _sources.download(File("rows.bz2", address))
    assert not any(cache_folder.iterdir())


def test_download_of_a_page_in_its_place(server, cache_folder):
    folder, address = server
    (folder / "rows.bz2").write_bytes(b"<html>Please log in</html>")
    with pytest.raises(ValueError, match=r"returned something that is not rows\.bz2"):
        _sources.download(File("rows.bz2", address))
    assert not any(cache_folder.iterdir())


def test_download_to_a_folder_that_cannot_be_made(server, cache_folder):
    folder, address = server
    (folder / "rows.bz2").write_bytes(bz2.compress(b"1 1:2\n"))
    cache_folder.write_text("a file, not a folder")
    with pytest.raises(FileNotFoundError, match="failed"):
        _sources.download(File("rows.bz2", address))


# words, weights, components


def test_words_against_plain_count():
    X = make_counts(d=200, dtype=np.float32)[0].tolil()
    X[:, [3, 50]] = 0
    X = X.tocsr()
    counts = [(sum(X[row, word] != 0 for row in range(X.shape[0])), -word) for word in range(200)]
    expected = sorted(-word for count, word in sorted(counts, reverse=True)[:30])
    assert _text.most_frequent_words(X, 30).tolist() == expected
    everything = _text.most_frequent_words(X, 1000).tolist()
    assert everything == [word for word in range(200) if counts[word][0]]


@pytest.mark.parametrize(("n_rows", "n_words"), [(300, 80), (80, 300), (150, 150)])
@pytest.mark.parametrize("k", [1, 10, 60])
def test_components_against_sklearn(monkeypatch, n_rows, n_words, k):
    monkeypatch.setattr(_text, "_OVERSAMPLING", 15)
    monkeypatch.setattr(_text, "_ITERATIONS", 30)  # to convergence
    X, _ = make_counts(n_rows, n_words, dtype=np.float32)
    X = X.multiply(0.9 ** np.arange(n_words)).tocsr()  # gaps between the eigenvalues
    mean, V = _text.principal_components(X, k, seed=0)
    expected = PCA(k, svd_solver="full").fit(X.toarray().astype(np.float64))
    np.testing.assert_allclose(mean, expected.mean_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-5)
    scores = (X.toarray() - mean) @ V
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), expected.explained_variance_, rtol=1e-3)
    cosines = np.abs(np.sum(V * expected.components_.T, axis=0))
    assert cosines[: max(1, k // 2)].min() > 0.999
    assert (V[np.abs(V).argmax(axis=0), np.arange(k)] > 0).all()


@pytest.mark.parametrize(("n_rows", "n_words"), [(400, 120), (120, 400)])
def test_few_iterations_keep_the_variance(rng, monkeypatch, n_rows, n_words):
    """With a flat spectrum, as in text, the subspace is near enough after the usual few."""
    monkeypatch.setattr(_text, "_OVERSAMPLING", 5)
    X = sp.csr_matrix(rng.poisson(0.2, size=(n_rows, n_words)).astype(np.float32))
    mean, V = _text.principal_components(X, 50, seed=0)
    ours = ((X.toarray() - mean) @ V).var(axis=0, ddof=1).sum()
    best = PCA(50, svd_solver="full").fit(X.toarray()).explained_variance_.sum()
    assert 0.97 * best < ours <= best * (1 + 1e-6)


def test_components_of_rows_with_fewer(rng):
    """Three different rows vary in two directions, whatever is asked for."""
    X = sp.csr_matrix(np.repeat(rng.poisson(3, size=(3, 30)), 5, axis=0).astype(np.float32))
    for rows in (X, sp.csr_matrix(X.T[:10].T)):
        mean, V = _text.principal_components(rows, 9, seed=0)
        assert V.shape == (rows.shape[1], 2)
        centred = rows.toarray() - mean
        np.testing.assert_allclose(centred @ V @ V.T, centred, atol=1e-6)


def test_components_do_not_depend_on_threads(monkeypatch):
    X, _ = make_counts(300, 200, dtype=np.float32)
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(_text.principal_components(X, 100, seed=0)[1])
    np.testing.assert_array_equal(*results)


def test_reduced_distances_are_those_of_the_words():
    """With as many components as words, nothing is lost but the centre; test rows included."""
    X, _ = make_counts(90, 20, dtype=np.float32)
    train, test = _text.reduce(X[:60], X[60:], 0, np.dtype(np.float64))
    assert train.shape == (60, 20)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-6)
    both, words = np.vstack([train, test]), X.toarray()
    for row in range(0, 90, 7):
        expected = np.linalg.norm(words - words[row], axis=1)
        np.testing.assert_allclose(np.linalg.norm(both - both[row], axis=1), expected, atol=1e-5)


# processed arrays


@pytest.fixture
def text_set(data_folder):
    X, y = make_counts(dtype=np.float32)
    write_npz(data_folder / "rcv1_7class.npz", X, y)
    return data_folder / "rcv1_7class.npz"


@pytest.fixture
def reductions(monkeypatch):
    """Counts how often text is processed."""
    done = []
    reduce = _text.reduce
    monkeypatch.setattr(_text, "reduce", lambda *args: done.append(1) or reduce(*args))
    return done


def test_processed_once(text_set, reductions, cache_folder):
    first = load_dataset("rcv1_7class")
    assert first.stand_in_for == "rcv30"
    assert first.X_train.shape == (42, 40)
    assert first.X_train.dtype == np.float32
    assert_same(load_dataset("rcv1_7class"), first)
    assert len(reductions) == 1
    assert len(list((cache_folder / "processed").iterdir())) == 1


def test_processed_again_where_anything_differs(text_set, reductions, monkeypatch):
    first = load_dataset("rcv1_7class")
    assert load_dataset("rcv1_7class", dtype=np.float64).X_test.dtype == np.float64
    assert not np.array_equal(load_dataset("rcv1_7class", seed=1).X_test, first.X_test)
    assert len(reductions) == 3
    X, y = make_counts(seed=1, dtype=np.float32)
    write_npz(text_set, X, y)
    assert not np.array_equal(load_dataset("rcv1_7class").X_test, first.X_test)
    assert len(reductions) == 4
    monkeypatch.setattr(_sources, "VERSION", _sources.VERSION + 1)
    load_dataset("rcv1_7class")
    assert len(reductions) == 5


def test_damaged_arrays_are_made_again(text_set, reductions, cache_folder):
    first = load_dataset("rcv1_7class")
    (path,) = (cache_folder / "processed").iterdir()
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    for times, content in enumerate((b"", b"nonsense", whole[:middle], flipped), start=2):
        path.write_bytes(content)
        assert_same(load_dataset("rcv1_7class"), first)
        assert len(reductions) == times
        assert path.read_bytes() != content
    np.savez(path, X_train=np.ones(3), y_train=np.ones(3), X_test=np.ones(3), y_test=np.ones(3))
    assert_same(load_dataset("rcv1_7class"), first)


def test_cache_folder_that_cannot_be_written(text_set, cache_folder):
    cache_folder.write_text("a file, not a folder")
    assert load_dataset("rcv1_7class").X_train.shape == (42, 40)


def test_no_home(text_set, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for variable in ("DUALMETRIC_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert load_dataset("rcv1_7class").X_train.shape == (42, 40)
    with pytest.raises(FileNotFoundError, match="set DUALMETRIC_CACHE"):
        _sources.download(File("rows.bz2", "http://127.0.0.1:9/"))


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("DUALMETRIC_CACHE")
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    folder = _sources.cache_folder()
    assert folder.name == "dualmetric"
    assert tmp_path in folder.parents


# the real files


@needs("usps.npz")
def test_usps_is_as_in_table_1(monkeypatch):
    monkeypatch.setenv("DUALMETRIC_DATA", REAL)
    data = load_dataset("usps")
    assert data.X_train.shape == (7291, 256)
    assert data.X_test.shape == (2007, 256)
    assert len(np.unique(data.y_train)) == 10


@needs("tdt30.npz")
def test_tdt30_is_as_in_table_1(monkeypatch):
    """Its sizes; one iteration of few components, to be quick."""
    monkeypatch.setenv("DUALMETRIC_DATA", REAL)
    monkeypatch.setattr(_text, "N_COMPONENTS", 20)
    monkeypatch.setattr(_text, "_OVERSAMPLING", 10)
    data = load_dataset("tdt30")
    assert data.X_train.shape == (6575, 20)
    assert data.X_test.shape == (2819, 20)
    assert len(np.unique(data.y_train)) == 30


@needs("news20.bz2")
def test_checksum_of_news20():
    content = (Path(REAL) / "news20.bz2").read_bytes()
    assert hashlib.sha256(content).hexdigest() == CATALOG["20news"].files[0].sha256


@needs("20news_libsvm.npz")
def test_20news_without_its_test_rows(monkeypatch, offline):
    monkeypatch.setenv("DUALMETRIC_DATA", REAL)
    if (Path(REAL) / "news20.t.bz2").is_file():
        pytest.skip("the test rows are there")
    with pytest.raises(FileNotFoundError, match=r"^news20\.t\.bz2 is needed"):
        load_dataset("20news")


@pytest.mark.parametrize(
    ("name", "n_train", "n_test", "n_features"),
    [
        ("protein_val", 2009, 862, 357),
        ("caltech101_top30_bovw", 3305, 1419, 1000),
        ("20news_use512", 4000, 2000, 512),
        ("fashion_mnist_13k", 10000, 3000, 784),
        ("isolet1", 1092, 468, 617),
        ("su", 71, 31, 5565),
        ("golub", 50, 22, 7129),
        ("banking77_minilm", 2340, 2280, 384),
    ],
)
def test_sizes_of_real_sets(monkeypatch, name, n_train, n_test, n_features):
    if not (REAL and (Path(REAL) / f"{name}.npz").is_file()):
        pytest.skip(f"needs {name}.npz in the folder that DUALMETRIC_DATA names")
    monkeypatch.setenv("DUALMETRIC_DATA", REAL)
    data = load_dataset(name)
    assert data.X_train.shape == (n_train, n_features)
    assert data.X_test.shape == (n_test, n_features)
    assert set(data.y_test).isdisjoint(data.y_train) == (name == "banking77_minilm")


def test_public_names():
    assert set(datasets.__all__) >= {"Dataset", "NAMES", "dataset_names", "load_dataset"}
