"""Files of rows: what each form gives, what is written, and how bad ones are refused."""

import bz2
import errno
import gzip
import os
import re
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from dualmetric.io import rowfiles
from dualmetric.io.rowfiles import is_table, read_lines, read_rows, write_rows

X = np.array([[1.5, 0.0, -2.0], [0.0, 0.25, 3.0], [4.0, 5.0, 6.0], [0.5, 0.5, 0.125]])
Y = np.array([0, 1, 0, 1])
NAMES = ("width", "height", "depth")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def pa():
    pytest.importorskip("pyarrow", reason="needs pip install 'dualmetric[parquet]'")
    import pyarrow
    import pyarrow.parquet

    return pyarrow


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def refused(path, match, **options):
    """The file is refused in one line that names it."""
    with pytest.raises(ValueError, match=match) as caught:
        read_rows(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def csv_lines(*lines):
    return "\n".join(lines) + "\n"


class TestNpz:
    def test_dense(self):
        split = {"train_idx": [0, 1], "test_idx": [3]}
        np.savez("a.npz", X=X, y=Y, class_names=["no", "yes"], feature_names=NAMES, **split)
        found = read_rows("a.npz")
        np.testing.assert_array_equal(found.X, X)
        np.testing.assert_array_equal(found.y, Y)
        assert found.class_names == ("no", "yes")
        assert found.feature_names == NAMES
        assert found.train_idx.tolist() == [0, 1]
        assert found.test_idx.tolist() == [3]
        assert [found.label(row) for row in range(4)] == ["no", "yes", "no", "yes"]

    def test_rows_alone(self):
        np.savez("a.npz", X=X.astype(np.float32))
        found = read_rows("a.npz")
        assert found.X.dtype == np.float32
        assert (found.y, found.class_names, found.feature_names) == (None, None, None)
        assert (found.train_idx, found.test_idx, found.label(0)) == (None, None, None)

    def test_parts_of_a_sparse_matrix(self):
        rows = sp.csr_matrix(X)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        np.savez("a.npz", shape=rows.shape, format="csr", y=Y, **parts)
        np.savez("b.npz", shape=rows.shape, **parts)
        for name in ("a.npz", "b.npz"):
            found = read_rows(name)
            assert found.X.format == "csr"
            np.testing.assert_array_equal(dense(found.X), X)
        np.testing.assert_array_equal(read_rows("a.npz").y, Y)

    @pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
    @pytest.mark.parametrize("of", ["matrix", "array"])
    def test_as_scipy_writes_them(self, kind, of):
        sp.save_npz("a.npz", getattr(sp, f"{kind}_{of}")(X))
        found = read_rows("a.npz")
        assert found.X.format == "csr"
        np.testing.assert_array_equal(dense(found.X), X)

    def test_duplicates_are_summed(self):
        np.savez("a.npz", data=[1.0, 2.0], indices=[1, 1], indptr=[0, 2], shape=[1, 3])
        np.testing.assert_array_equal(dense(read_rows("a.npz").X), [[0.0, 3.0, 0.0]])

    def test_half_a_split_is_none(self):
        np.savez("a.npz", X=X, train_idx=[0])
        assert read_rows("a.npz").train_idx is None

    def test_pickles_are_not_read(self):
        np.savez("a.npz", X=np.array([[object()]]))
        refused(
            "a.npz",
            r"damaged, .*\(it does not hold an array of plain numbers or text, and pickles are",
        )

    @pytest.mark.parametrize(
        ("arrays", "match"),
        [
            ({"Z": X}, "neither an array 'X' nor the parts of a sparse matrix; it has Z"),
            ({"X": X[0]}, r"it holds an array of shape \(3,\)"),
            ({"X": X[:0]}, r"it holds an array of shape \(0, 3\)"),
            ({"X": X.astype(str)}, "<U32, not numbers"),
            ({"X": X.astype(complex)}, "complex128, not numbers"),
            ({"X": X, "y": Y[:3]}, "3 labels for 4 rows"),
            ({"X": X, "y": [0.5, 1, 2, 3]}, "some are fractions"),
            ({"X": X, "y": [0.0, 1, np.nan, 3]}, "row 2 has no label"),
            ({"X": X, "y": [[0, 1, 2, 3]]}, r"one column; got shape \(1, 4\)"),
            ({"X": X, "y": Y + 1, "class_names": ["a", "b"]}, "numbers from 0 to 1"),
            ({"X": X, "feature_names": ["a"]}, "1 feature names for 3 features"),
            (
                {"X": X, "train_idx": [0], "test_idx": [4]},
                "test_idx has row numbers beyond the 4 rows",
            ),
            ({"X": X, "train_idx": [-1], "test_idx": [3]}, "train_idx has row numbers beyond"),
            ({"X": X, "train_idx": [0, 1], "test_idx": [1]}, "rows in common"),
            ({"X": X, "train_idx": [0.5], "test_idx": [1]}, "must be a one-dimensional array"),
            ({"data": [1.0], "indices": [5], "indptr": [0, 1], "shape": [1, 3]}, "damaged"),
            ({"data": [1.0], "indices": [0], "indptr": [0, 9], "shape": [1, 3]}, "damaged"),
            ({"data": [1.0], "indices": [0], "indptr": [0, 1]}, "no array 'shape'; it has"),
            ({"data": [1.0], "format": "csx"}, "of form 'csx'"),
            ({"data": [np.inf], "indices": [0], "indptr": [0, 0, 1], "shape": [2, 3]}, "row 1 "),
        ],
    )
    def test_what_is_wrong(self, arrays, match):
        np.savez("a.npz", **arrays)
        refused("a.npz", match)

    def test_nan_is_named_by_its_row(self):
        rows = X.copy()
        rows[2, 1] = np.nan
        np.savez("a.npz", X=rows)
        refused("a.npz", r"row 2 \(counted from 0\) has NaN or infinity")

    def test_damage(self):
        np.savez_compressed("a.npz", X=np.arange(3000.0).reshape(-1, 3))
        with open("a.npz", "rb") as file:
            content = file.read()
        for part in (b"", b"text", content[: len(content) // 2]):
            with open("a.npz", "wb") as file:
                file.write(part)
            refused("a.npz", "damaged")
        middle = len(content) // 2
        with open("a.npz", "wb") as file:
            file.write(content[:middle] + bytes(100) + content[middle + 100 :])
        refused("a.npz", "damaged")
        with zipfile.ZipFile("a.npz", "w") as file:
            file.writestr("X.npy", b"text")
        refused("a.npz", "'X' in it is not an array")
        with open("a.npz", "wb") as file:
            np.save(file, X)
        refused("a.npz", "damaged")


class TestNpy:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, bool])
    def test_rows(self, dtype):
        np.save("a.npy", X.astype(dtype))
        found = read_rows("a.npy")
        assert found.X.dtype == dtype
        assert found.y is None

    def test_large_files_are_mapped(self, monkeypatch):
        np.save("a.npy", X)
        assert not isinstance(read_rows("a.npy").X, np.memmap)
        monkeypatch.setattr(rowfiles, "MAPPED_ABOVE", 100)
        found = read_rows("a.npy").X
        assert isinstance(found, np.memmap)
        np.testing.assert_array_equal(found, X)

    def test_what_is_wrong(self):
        np.save("a.npy", X[0])
        refused("a.npy", "shape")
        np.save("a.npy", np.array([[None]]), allow_pickle=True)
        refused("a.npy", "pickles are not read")
        with open("a.npy", "wb") as file:
            file.write(b"garbage")
        refused("a.npy", "an array of plain numbers or text, and pickles are not read")
        with open("a.npy", "wb") as file:
            file.write(b"\x93NUMPY\x01\x00")
        refused("a.npy", "damaged")


class TestLabelFiles:
    @pytest.fixture(autouse=True)
    def rows(self):
        np.save("x.npy", X)

    def test_npy(self):
        for labels in (Y, Y.astype(float), np.array(["a", "b", "a", "c"])):
            np.save("y.npy", labels)
            np.testing.assert_array_equal(read_rows("x.npy", labels="y.npy").y, labels)
        assert read_rows("x.npy", labels="y.npy").y.dtype.kind == "U"

    def test_bytes_are_text(self):
        np.save("y.npy", np.array([b"a", b"b", b"a", b"c"]))
        assert read_rows("x.npy", labels="y.npy").y.tolist() == ["a", "b", "a", "c"]

    def test_npz(self):
        np.savez("y.npz", y=Y)
        np.testing.assert_array_equal(read_rows("x.npy", labels="y.npz").y, Y)
        np.savez("y.npz", z=Y)
        with pytest.raises(ValueError, match=r"^y\.npz: it has no array 'y'"):
            read_rows("x.npy", labels="y.npz")

    @pytest.mark.parametrize(
        ("text", "labels"),
        [
            ("3\n1\n3\n2\n", [3, 1, 3, 2]),
            ("3.0\r\n1\r\n3\r\n2", [3, 1, 3, 2]),
            ("red\n blue \nred\n7\n", ["red", "blue", "red", "7"]),
            ("é\nnan\ninf\n1\n", ["é", "nan", "inf", "1"]),
        ],
    )
    def test_text(self, folder, text, labels):
        (folder / "y.txt").write_bytes(text.encode())
        assert read_rows("x.npy", labels="y.txt").y.tolist() == labels

    def test_they_take_the_place_of_others(self):
        np.savez("a.npz", X=X, y=Y, class_names=["a", "b"])
        np.save("y.npy", 1 - Y)
        found = read_rows("a.npz", labels="y.npy")
        np.testing.assert_array_equal(found.y, 1 - Y)
        assert found.class_names is None

    def test_another_length(self):
        np.save("y.npy", Y[:3])
        with pytest.raises(ValueError, match=r"^y\.npy has 3 labels for the 4 rows of x\.npy: "):
            read_rows("x.npy", labels="y.npy")

    def test_what_is_wrong(self, folder):
        with pytest.raises(FileNotFoundError, match=r"^y\.npy does not exist"):
            read_rows("x.npy", labels="y.npy")
        (folder / "y.txt").write_text("a\n\nb\nc\n")
        with pytest.raises(ValueError, match=r"^y\.txt: row 1 has no label"):
            read_rows("x.npy", labels="y.txt")
        (folder / "y.txt").write_bytes(b"\xff\xfe\n")
        with pytest.raises(ValueError, match=r"^y\.txt is not text in UTF-8"):
            read_rows("x.npy", labels="y.txt")
        np.save("y.npy", np.zeros((4, 1, 1)))
        with pytest.raises(ValueError, match=r"^y\.npy: labels must be one column"):
            read_rows("x.npy", labels="y.npy")

    def test_a_column_needs_a_table(self):
        refused("x.npy", "has no named columns", label_column="kind")


class TestSvmlight:
    TEXT = b"1 1:1.5 3:-2\n-1 2:0.25 3:3 # a remark\n\n1 qid:3 1:4 2:5 3:6\n2 1:.5 2:5e-1 3:0.125\n"

    @pytest.mark.parametrize(
        ("name", "pack"),
        [
            ("a.svm", bytes),
            ("a.libsvm", bytes),
            ("a.svmlight", bytes),
            ("a.SVM", bytes),
            ("a.svm.gz", gzip.compress),
            ("a.svm.bz2", bz2.compress),
            ("a.bz2", bz2.compress),
            ("a.scale.gz", gzip.compress),
        ],
    )
    def test_rows_and_labels(self, folder, name, pack):
        (folder / name).write_bytes(pack(self.TEXT))
        found = read_rows(name)
        np.testing.assert_array_equal(dense(found.X), X)
        assert found.X.dtype == np.float64
        assert found.y.tolist() == [1, -1, 1, 2]
        assert found.y.dtype.kind == "i"

    def test_indices_from_zero(self, folder):
        (folder / "a.svm").write_text("1 0:1 2:3\n2 1:2\n")
        np.testing.assert_array_equal(dense(read_rows("a.svm").X), [[1, 0, 3], [0, 2, 0]])

    def test_width(self, folder):
        (folder / "a.svm").write_text("1 1:1 2:3\n2 1:2\n")
        assert read_rows("a.svm").X.shape == (2, 2)
        wide = read_rows("a.svm", n_features=5).X
        np.testing.assert_array_equal(dense(wide), [[1, 3, 0, 0, 0], [2, 0, 0, 0, 0]])
        assert read_rows("a.svm", n_features=1).X.shape == (2, 2)  # nothing is cut off

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("1 1:1\nred 1:2\n", "line 2 is not a label and index:value pairs.*'red 1:2'"),
            ("1 1:1\n1 1:blue\n", "line 2 .*'1 1:blue'"),
            ("1 1:1 2\n", "line 1 "),
            ("1,2 1:1\n", "line 1 "),
            ("1 2:1 1:1\n", "damaged"),
            ("1 1:nan\n", "row 0 .*NaN"),
            ("0.5 1:1\n", "some are fractions"),
            ("", "shape"),
        ],
    )
    def test_what_is_wrong(self, folder, text, match):
        (folder / "a.svm").write_text(text)
        refused("a.svm", match)

    @pytest.mark.parametrize("name", ["a.svm.gz", "a.svm.bz2"])
    def test_damage(self, folder, name):
        (folder / name).write_bytes(b"not packed")
        refused(name, "damaged")
        whole = (gzip if name.endswith("gz") else bz2).compress(self.TEXT * 100)
        (folder / name).write_bytes(whole[:-20])
        refused(name, "damaged")


class TestCsv:
    TEXT = csv_lines(
        "width,height,label,depth", "1.5,0,a,-2", "0,.25,b,3", "4,5,a,6", "0.5,5e-1,b,.125"
    )

    @pytest.mark.parametrize(
        ("name", "pack"),
        [("a.csv", bytes), ("a.csv.gz", gzip.compress), ("a.csv.bz2", bz2.compress)],
    )
    def test_rows_and_labels(self, folder, name, pack):
        (folder / name).write_bytes(pack(self.TEXT.encode()))
        found = read_rows(name)
        np.testing.assert_array_equal(found.X, X)
        assert found.y.tolist() == ["a", "b", "a", "b"]
        assert found.feature_names == NAMES
        assert found.label(1) == "b"

    def test_label_columns(self, folder):
        (folder / "a.csv").write_text("y,x,kind\n1,2.5,3\n0,4,5\n")
        found = read_rows("a.csv")
        assert found.y.tolist() == [1, 0]
        assert found.feature_names == ("x", "kind")
        found = read_rows("a.csv", label_column="kind")
        assert found.y.tolist() == [3, 5]
        assert found.feature_names == ("y", "x")
        (folder / "b.csv").write_text("y,x,label\n1,2.5,3\n0,4,5\n")
        assert read_rows("b.csv").feature_names == ("y", "x")
        (folder / "c.csv").write_text("x,z\n1,2.5\n0,4\n")
        assert read_rows("c.csv").y is None

    def test_labels_of_another_file(self, folder):
        (folder / "a.csv").write_text(self.TEXT)
        (folder / "y.txt").write_text("1\n2\n3\n4\n")
        found = read_rows("a.csv", labels="y.txt")
        assert found.y.tolist() == [1, 2, 3, 4]
        assert found.feature_names == NAMES

    def test_what_spreadsheets_write(self, folder):
        text = '\ufeffwidth,"a, b", label\r\n 1 ,"2",red\r\n\r\n3,4,"blue, dark"\r\n'
        (folder / "a.csv").write_bytes(text.encode())
        found = read_rows("a.csv")
        np.testing.assert_array_equal(found.X, [[1, 2], [3, 4]])
        assert found.y.tolist() == ["red", "blue, dark"]
        assert found.feature_names == ("width", "a, b")

    def test_many_rows(self, folder):
        rows = np.random.default_rng(0).standard_normal((3000, 2))
        np.savetxt("a.csv", rows, fmt="%.17g", delimiter=",", header="a,b", comments="")
        np.testing.assert_array_equal(read_rows("a.csv").X, rows)

    def test_columns_without_names(self, folder):
        (folder / "a.csv").write_text("0,1,2\n1.5,2.5,3.5\n")
        assert read_rows("a.csv").feature_names == ("0", "1", "2")
        (folder / "b.csv").write_text("1.5,2.5,3.5\n1,2,3\n")
        refused("b.csv", "its first line holds numbers")

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ("a,b\n1,2\n3,red\n", r"column 'b' has 'red' instead of a number in row 1 "),
            ("a,b\n1,\n", r"column 'b' is empty in row 0 .*--drop b,"),
            (
                "a,t,b,u\n1,x,2,y\n",
                r"columns 't', 'u' have no number in row 0 .*--drop t,u, or drop=\['t', 'u'\] in",
            ),
            ("a,b,c,d,e,f\nx,x,x,x,x,x\n", r"columns 'a', .*'e' and 1 more have no number"),
            ("a,b\n1,2\n3,nan\n", "row 1 .*NaN"),
            ("a,b\n1,2\n3,4,5\n", r"row 1 \(counted from 0\) has 3 columns, but the header has 2"),
            ("a;b\n1;2\n", "save it with commas"),
            ("a\tb\n1\t2\n", "save it with commas"),
            ("", "it is empty"),
            ("a,b\n", "a header but no rows"),
            ("label\nred\n", "no column of features"),
            ("a,label\n1,\n", "row 0 has no label"),
            ("a,label\n1,0.5\n2,1\n", "some are fractions"),
            ('a,b\n1,"2\n', "line 2 is not csv"),
        ],
    )
    def test_what_is_wrong(self, folder, text, match):
        (folder / "a.csv").write_text(text)
        refused("a.csv", match)

    def test_text_far_down(self, folder):
        (folder / "a.csv").write_text("a,b\n" + "1,2\n" * 2500 + "1,x\n")
        refused("a.csv", r"column 'b' .* in row 2500 ")

    def test_absent_column(self, folder):
        (folder / "a.csv").write_text(self.TEXT)
        match = "it has no column 'kind': its columns are width, height, label, depth$"
        refused("a.csv", match, label_column="kind")
        refused("a.csv", match, drop=["kind"])
        refused("a.csv", match, columns=["kind"])
        names = [f"c{place}" for place in range(25)]
        (folder / "a.csv").write_text(csv_lines(",".join(names), ",".join("1" * 25)))
        refused("a.csv", "c19 and 5 more$", label_column="kind")

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_labels_may_be_dropped(self, folder, suffix):
        (folder / "a.csv").write_text("a,label,b\n1,0.5,2\n3,0.25,4\n")
        if suffix == "parquet":
            table = pytest.importorskip("pyarrow.csv").read_csv("a.csv")
            pytest.importorskip("pyarrow.parquet").write_table(table, "a.parquet")
        found = read_rows(f"a.{suffix}", drop=["label"])
        assert found.y is None
        assert found.feature_names == ("a", "b")
        refused(f"a.{suffix}", "labels must be classes, but some are fractions")

    def test_labels_are_no_feature(self, folder):
        (folder / "a.csv").write_text("a,label,b\n1,0,2\n3,1,4\n")
        refused("a.csv", "column 'label' holds the labels: leave it", columns=["a", "label"])

    def test_not_text(self, folder):
        (folder / "a.csv").write_bytes("a,é\n1,2\n".encode("latin-1"))
        refused("a.csv", "not text in UTF-8")


class TestParquet:
    def write(self, pa, columns, **options):
        table = pa.table(columns)
        pa.parquet.write_table(table, "a.parquet", **options)

    def test_a_column_a_feature(self, pa):
        columns = {name: X[:, place] for place, name in enumerate(NAMES)}
        self.write(pa, {**columns, "label": ["a", "b", "a", "b"]})
        found = read_rows("a.parquet")
        np.testing.assert_array_equal(found.X, X)
        assert found.y.tolist() == ["a", "b", "a", "b"]
        assert found.feature_names == NAMES

    def test_kinds_of_numbers(self, pa):
        columns = {
            "small": pa.array([1, 2], pa.int8()),
            "yes": pa.array([True, False]),
            "exact": pa.array(["1.50", "2.25"]).cast(pa.decimal128(5, 2)),
            "half": pa.array(np.array([0.5, 1], dtype=np.float16)),
        }
        self.write(pa, columns)
        np.testing.assert_array_equal(read_rows("a.parquet").X, [[1, 1, 1.5, 0.5], [2, 0, 2.25, 1]])

    @pytest.mark.parametrize(
        ("labels", "found"),
        [
            ([3, 1, 3, 2], [3, 1, 3, 2]),
            ([3.0, 1.0, 3.0, 2.0], [3, 1, 3, 2]),
            ([True, False, True, True], [True, False, True, True]),
            ([b"a", b"b", b"a", b"c"], ["a", "b", "a", "c"]),
        ],
    )
    def test_kinds_of_labels(self, pa, labels, found):
        self.write(pa, {"a": X[:, 0], "kind": labels})
        assert read_rows("a.parquet", label_column="kind").y.tolist() == found

    def test_dictionary_labels(self, pa):
        self.write(pa, {"a": X[:, 0], "y": pa.array(["a", "b", "a", "b"]).dictionary_encode()})
        assert read_rows("a.parquet").y.tolist() == ["a", "b", "a", "b"]

    @pytest.mark.parametrize("kind", ["list", "large_list", "fixed", "half"])
    def test_vectors(self, pa, kind):
        types = {
            "list": pa.list_(pa.float32()),
            "large_list": pa.large_list(pa.float32()),
            "fixed": pa.list_(pa.float32(), 3),
            "half": pa.list_(pa.float16()),
        }
        vectors = pa.array(
            list(X.astype(np.float16 if kind == "half" else np.float32)), types[kind]
        )
        texts = ["some", "text", "is", "ignored"]
        self.write(pa, {"text": texts, "vector": vectors, "label": Y}, row_group_size=3)
        found = read_rows("a.parquet")
        np.testing.assert_array_equal(found.X, X)
        np.testing.assert_array_equal(found.y, Y)
        assert found.feature_names is None

    def test_slices_of_vectors(self, pa):
        """Row groups of one, so that vectors come in many pieces."""
        self.write(pa, {"v": pa.array(X.tolist(), pa.list_(pa.float64(), 3))}, row_group_size=1)
        np.testing.assert_array_equal(read_rows("a.parquet").X, X)

    @pytest.mark.parametrize("group", [1, 100])
    @pytest.mark.parametrize(
        ("vectors", "match"),
        [
            ([[1.0, 2], [3.0, 4], [5.0]], "row group [02] .* to 2, .*'v': some vectors are mis"),
            ([[1.0, 2], [3.0, 4], None], "row group [02] .* to 2, .*'v': some vectors are missi"),
            ([None, [3.0, 4], [1.0, 2]], "row group [01] .* to [12], .*'v': some vectors are mi"),
            ([[1.0, 2], [3.0, None], [1.0, 2]], "row 1 .* of column 'v' has a number missing"),
            ([["a"], ["b"], ["c"]], "column 'v' holds list<.*string>, not numbers"),
            ([[], [], []], "column 'v' holds list<.*null>, not numbers"),
        ],
    )
    def test_wrong_vectors(self, pa, vectors, match, group):
        self.write(pa, {"v": vectors}, row_group_size=group)
        refused("a.parquet", match)

    def test_wrong_vectors_that_the_footer_does_not_show(self, pa):
        self.write(pa, {"v": [[1.0, 2], [3.0], [4.0, 5, 6]]})
        refused("a.parquet", "row 1 .*'v' has a vector of length 1, but others have length 2")
        self.write(pa, {"v": pa.array([None, None], pa.list_(pa.float64()))})
        refused("a.parquet", "row 0 .* of column 'v' has no vector")

    def test_null_vectors_of_fixed_size(self, pa):
        kind = pa.list_(pa.float32(), 2)
        try:
            self.write(pa, {"v": pa.array([[1.0, 2.0], None, [3.0, 4.0]], kind)})
        except pa.ArrowNotImplementedError:
            pytest.skip("this version of pyarrow does not write such columns")
        refused("a.parquet", r"row group 0 \(rows 0 to 2, .*some vectors are missing")

    @pytest.mark.parametrize(
        ("columns", "match"),
        [
            ({"a": [1.0, 2.0], "b": ["1", "red"]}, "column 'b' holds string, not numbers"),
            ({"a": [1.0, None]}, "column 'a' is empty in row 1 "),
            ({"a": [1.0, 2.0], "label": ["x", None]}, "row 1 has no label"),
            ({"u": [[1.0], [2.0]], "v": [[1.0], [2.0]]}, "2 columns of vectors, u, v: select one"),
            ({"label": [1, 2]}, "no column of features"),
            ({"a": []}, "no rows"),
            ({"a": [1.0, np.inf]}, "row 1 .* infinity"),
        ],
    )
    def test_what_is_wrong(self, pa, columns, match):
        self.write(pa, columns)
        refused("a.parquet", match)

    def test_absent_column(self, pa):
        self.write(pa, {"a": [1.0], "b": [2.0]})
        refused("a.parquet", "it has no column 'kind': its columns are a, b$", label_column="kind")

    def test_the_numbers_of_pandas_rows_are_no_feature(self, pa):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [1.0, 2.0], "label": ["x", "y"]}, index=[7, 3])
        pa.parquet.write_table(pa.Table.from_pandas(frame), "a.parquet")
        found = read_rows("a.parquet")
        assert found.feature_names == ("a",)
        np.testing.assert_array_equal(found.X, [[1.0], [2.0]])

    def test_damage(self, pa, folder):
        (folder / "a.parquet").write_bytes(b"PAR1 and nothing more")
        refused("a.parquet", "damaged")

    def test_without_pyarrow(self, folder, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (folder / "a.parquet").write_bytes(b"")
        for action in (lambda: read_rows("a.parquet"), lambda: write_rows("b.parquet", X)):
            with pytest.raises(ImportError, match=re.escape("pip install 'dualmetric[parquet]'")):
                action()
        assert not (folder / "b.parquet").exists()


class TestNames:
    @pytest.mark.parametrize("name", ["a.txt", "a", "a.json", "a.npz.gz", "a.parquet.bz2"])
    def test_unknown_forms(self, folder, name):
        (folder / name).write_text("1 2 3")
        refused(name, "end in|unpack it")

    def test_missing_file_and_folder(self, folder):
        with pytest.raises(FileNotFoundError, match=r"^a\.npz does not exist: "):
            read_rows("a.npz")
        (folder / "b.npz").mkdir()
        refused("b.npz", "is a folder without .parquet files")
        np.save("x.npy", X)
        with pytest.raises(ValueError, match=r"b\.npz is a folder: give a file"):
            read_rows("x.npy", labels="b.npz")

    def test_tables(self):
        assert is_table("a.csv.gz")
        assert is_table("A.PARQUET")
        assert not is_table("a.npz")

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="all is allowed to this user")
    def test_what_may_not_be_read(self, folder):
        np.save("a.npy", X)
        (folder / "a.npy").chmod(0)
        with pytest.raises(PermissionError):
            read_rows("a.npy")

    def test_lines(self, folder):
        (folder / "a.txt").write_text("\ufeffone\ntwo\n\nthree")
        assert read_lines("a.txt") == ["one", "two", "", "three"]


class TestWriting:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        "name", ["a.npz", "a.csv", "a.csv.gz", "a.parquet", "a.svm", "a.svm.bz2", "a.libsvm"]
    )
    def test_what_is_written_is_read(self, name, dtype):
        if "parquet" in name:
            pytest.importorskip("pyarrow")
        rows = np.random.default_rng(0).standard_normal((20, 4)).astype(dtype)
        labels = np.arange(20) % 3
        write_rows(name, rows, labels)
        found = read_rows(name)
        # scikit-learn writes 16 digits to svmlight files, one fewer than double precision has
        tolerance = 1e-15 if dtype == np.float64 and "svm" in name else 0
        np.testing.assert_allclose(dense(found.X).astype(dtype), rows, rtol=tolerance)
        np.testing.assert_array_equal(found.y, labels)

    @pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.parquet"])
    def test_text_labels(self, name):
        if "parquet" in name:
            pytest.importorskip("pyarrow")
        labels = np.array(["a", "b, c", 'd "e"', "é"])
        write_rows(name, X, labels)
        assert read_rows(name).y.tolist() == labels.tolist()

    @pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet"])
    def test_without_labels(self, name):
        if "parquet" in name:
            pytest.importorskip("pyarrow")
        write_rows(name, X)
        found = read_rows(name)
        np.testing.assert_array_equal(found.X, X)
        assert found.y is None

    def test_npy_is_the_array(self):
        write_rows("a.npy", X.astype(np.float32), Y)
        found = np.load("a.npy")
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, X)

    def test_npz_keeps_the_split(self):
        write_rows("a.npz", X, Y, class_names=("a", "b"), train_idx=Y[:1], test_idx=Y[1:2])
        found = read_rows("a.npz")
        assert (found.class_names, found.train_idx.tolist()) == (("a", "b"), [0])
        assert found.test_idx.tolist() == [1]

    @pytest.mark.parametrize("name", ["a.npz", "a.svm"])
    def test_sparse(self, name):
        write_rows(name, sp.csr_matrix(X), Y)
        found = read_rows(name)
        assert sp.issparse(found.X)
        np.testing.assert_array_equal(dense(found.X), X)
        np.testing.assert_array_equal(found.y, Y)

    @pytest.mark.parametrize("name", ["a.npy", "a.csv", "a.parquet"])
    def test_sparse_rows_are_not_written_out(self, folder, name):
        if "parquet" in name:
            pytest.importorskip("pyarrow")
        with pytest.raises(ValueError, match="cannot hold sparse rows"):
            write_rows(name, sp.csr_matrix(X))
        assert not list(folder.iterdir())

    def test_text_labels_in_svmlight(self, folder):
        with pytest.raises(ValueError, match="labels are numbers in svmlight files"):
            write_rows("a.svm", X, np.array(["a", "b", "a", "b"]))
        assert not list(folder.iterdir())

    def test_svmlight_counts_from_one(self, folder):
        write_rows("a.svm", X[:1])
        assert (folder / "a.svm").read_text() == "0 1:1.5 3:-2\n"

    @pytest.mark.parametrize("name", ["a.txt", "a", "a.npy.gz"])
    def test_unknown_form(self, folder, name):
        with pytest.raises(ValueError, match=r"end in|unpack it"):
            write_rows(name, X)
        assert not list(folder.iterdir())

    def test_full_disk(self, folder, monkeypatch):
        def full(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        (folder / "a.csv").write_text("before")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_rows("a.csv", X)
        assert [path.name for path in folder.iterdir()] == ["a.csv"]
        assert (folder / "a.csv").read_text() == "before"
