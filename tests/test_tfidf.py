"""tf-idf: the same as scikit-learn's for any counts, and everything else is refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_extraction.text import TfidfTransformer

from dualmetric._rows import open_rows, stored
from dualmetric.tfidf import fit_idf, tfidf

KINDS = [np.asarray, np.asfortranarray, sp.csr_array, sp.csr_matrix, sp.csc_array, pd.DataFrame]
COUNTS = arrays(
    np.int64,
    array_shapes(min_dims=2, max_dims=2, max_side=8),
    elements=st.just(0) | st.integers(0, 3) | st.integers(0, 10**9),
)


def make_counts(n=12, d=7, dtype=np.float64, seed=0):
    X = np.random.default_rng(seed).poisson(0.7, (n, d))
    X[3] = 0
    X[:, 2] = 0
    X[:, 4] += 1
    return X.astype(dtype)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
def test_the_same_as_scikit_learn(kind, dtype):
    train, test = make_counts(dtype=dtype), make_counts(9, dtype=dtype, seed=1)
    peer = TfidfTransformer(sublinear_tf=True).fit(train.astype(float))
    idf = fit_idf(kind(train))
    assert idf.dtype == np.float64
    assert_allclose(idf, peer.idf_, rtol=1e-14)
    rows = tfidf(kind(test), idf)
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    assert_allclose(
        dense(rows), peer.transform(test.astype(float)).toarray(), rtol=tolerance, atol=1e-15
    )
    assert rows.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert sp.issparse(rows) == (kind in (sp.csr_array, sp.csr_matrix, sp.csc_array))
    assert rows.format == "csr" if sp.issparse(rows) else isinstance(rows, np.ndarray)


@given(COUNTS, st.data())
def test_any_counts_as_scikit_learn_weighs_them(train, data):
    shape = (data.draw(st.integers(1, 6)), train.shape[1])
    test = data.draw(arrays(np.int64, shape, elements=st.integers(0, 10**6)))
    peer = TfidfTransformer(sublinear_tf=True).fit(train.astype(float))
    idf = fit_idf(train)
    assert_allclose(idf, peer.idf_, rtol=1e-14)
    expected = peer.transform(test.astype(float)).toarray()
    for kind in (np.asarray, sp.csr_array):
        assert_allclose(dense(tfidf(kind(test), idf)), expected, rtol=1e-12, atol=1e-15)


def test_weights_worked_out_by_hand():
    """Two rows hold the second feature, one the first: idf is log(4/2) + 1 and log(4/3) + 1."""
    idf = fit_idf([[0, 1], [2, 1], [0, 0]])
    assert_allclose(idf, [np.log(2) + 1, np.log(4 / 3) + 1], rtol=1e-15)
    a, b = (1 + np.log(3)) * 2.0, 1.0 * 5.0
    expected = np.array([[a, b]]) / np.hypot(a, b)
    assert_allclose(tfidf([[3, 1]], [2, 5]), expected, rtol=1e-15)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_rows_of_zeros_stay_zero(kind):
    out = dense(tfidf(kind(np.array([[0.0, 0.0], [0.0, 2.0]])), np.ones(2)))
    assert_array_equal(out, [[0.0, 0.0], [0.0, 1.0]])


def test_zeros_that_are_stored_and_entries_in_parts():
    """A stored zero does not count, and an entry in two parts is one count."""
    index, indptr = np.array([1, 0, 1]), np.array([0, 3, 3])
    split = sp.csr_array((np.array([1.0, 0.0, 2.0]), index, indptr), shape=(2, 2))
    whole = np.array([[0.0, 3.0], [0.0, 0.0]])
    assert_array_equal(fit_idf(split), fit_idf(whole))
    assert_allclose(dense(tfidf(split, [2.0, 3.0])), tfidf(whole, [2.0, 3.0]), rtol=1e-15)
    assert_array_equal(split.data, [1.0, 0.0, 2.0])
    halves = sp.csr_array((np.array([0.5, 0.5]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    assert_array_equal(dense(tfidf(halves, [1.0])), [[1.0]])
    assert_array_equal(fit_idf(halves), [1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_not_changed(kind):
    X = kind(make_counts())
    before = dense(X).copy()
    tfidf(X, fit_idf(X))
    assert_array_equal(dense(X), before)
    fixed = make_counts()
    fixed.flags.writeable = False
    tfidf(fixed, fit_idf(fixed))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_idf_of_a_memory_map_goes_block_by_block(dtype, tmp_path, monkeypatch):
    X = make_counts(50, dtype=dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr(stored, "_BLOCK_BYTES", 8 * X.shape[1] * X.itemsize)
    assert sum(1 for _ in open_rows(mapped)[0].blocks()) == 7
    assert_array_equal(fit_idf(mapped), fit_idf(X))


def test_idf_of_a_source_without_rows():
    class Empty:
        shape, dtype = (0, 3), np.dtype(np.float32)

        def __getitem__(self, rows):
            return np.empty((0, 3), dtype=self.dtype)

    with pytest.raises(ValueError, match="X is empty: it has 0 rows and 3 features"):
        fit_idf(Empty())


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, -1.0]], "tf-idf is for counts, but the rows hold negative numbers: pass raw"),
        ([[1.0, 0.25]], "the rows hold numbers between 0 and 1: .* weighted already"),
        ([[1.0, np.nan]], "Input X contains NaN"),
        ([[1.0, np.inf]], "Input X contains infinity"),
    ],
)
def test_counts_are_required(kind, rows, message):
    for use in (fit_idf, lambda X: tfidf(X, np.ones(2))):
        with pytest.raises(ValueError, match=message):
            use(kind(np.array(rows)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, 2.0], "Expected 2D array"),
        (np.ones((0, 2)), "0 sample"),
        ([["a", "b"]], "could not convert string"),
        (np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2)), r"X\.filled\(0\)"),
    ],
)
def test_rows_are_required(rows, message):
    for use in (fit_idf, lambda X: tfidf(X, np.ones(2))):
        with pytest.raises(ValueError, match=message):
            use(rows)


@pytest.mark.parametrize("idf", [np.ones(3), np.ones((1, 2)), 1.0])
def test_idf_of_another_width(idf):
    with pytest.raises(ValueError, match=r"idf has shape .*, but X has 2 features"):
        tfidf([[1.0, 2.0]], idf)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_weights_beyond_the_precision_of_the_rows(kind):
    X = np.ones((1, 2), dtype=np.float32)
    for idf in ([1e300, 1.0], [np.inf, 1.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match=r"not finite in float32: .* float64"):
            tfidf(kind(X), idf)
    with pytest.raises(ValueError, match=r"idf weights are not finite in float64: .*fit_idf$"):
        tfidf(kind(X.astype(float)), [np.inf, 1.0])
    half = np.sqrt(0.5)
    for size in (1e30, 1e-30):  # squares leave the range of float32
        assert_allclose(dense(tfidf(kind(X), [size, size])), [[half, half]], rtol=1e-6)
