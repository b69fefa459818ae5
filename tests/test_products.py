import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmetric import products

EPS = {np.dtype(np.float32): 1.2e-7, np.dtype(np.float64): 2.3e-16}


def pair_matrix(X, index, beta):
    """The whole matrix; the function gives its lower triangle."""
    lower = products.pair_matrix(X, products.pair_graph(index, beta.astype(X.dtype), X.shape[0]))
    return np.tril(lower) + np.tril(lower, -1).T


def laid_out(array, layout):
    """The same numbers, differently in memory."""
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), dtype=array.dtype)
        wide[::2, ::3] = array
        return wide[::2, ::3]
    array = np.ascontiguousarray(array)
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
    return array


def as_csr(array, index_dtype):
    """A CSR matrix whose indices have the given width."""
    csr = sp.csr_matrix(array)
    csr.indices = csr.indices.astype(index_dtype)
    csr.indptr = csr.indptr.astype(index_dtype)
    return csr


@st.composite
def problems(draw):
    """Rows with zeros and empty rows among them, triplets over them, and their weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(3, 12)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    X[rng.integers(n)] = 0.0
    N = draw(st.integers(0, 20))
    index = np.array([rng.choice(n, 3, replace=False) for _ in range(N)]).reshape(-1, 3)
    index = index.astype(draw(st.sampled_from([np.int32, np.int64])))
    beta = rng.random(N) * (rng.random(N) < 0.7)
    return X.astype(dtype), index, beta.astype(dtype)


layouts = st.sampled_from(["C", "F", "strided", "read-only"])
index_widths = st.sampled_from([np.int32, np.int64])


def pair_graph(index, beta, n):
    """The paper's sum as XᵀCX: +β at kk, ij, ji; −β at ik, ki, jj (DESIGN.md)."""
    C = np.zeros((n, n))
    for (i, j, k), b in zip(index, beta.astype(np.float64), strict=True):
        for row, column, sign in ((k, k, 1), (i, j, 1), (j, i, 1)):
            C[row, column] += sign * b
        for row, column, sign in ((i, k, -1), (k, i, -1), (j, j, -1)):
            C[row, column] += sign * b
    return C


@given(problem=problems(), layout=layouts)
def test_dense_products(problem, layout):
    X, *_ = problem
    laid = laid_out(X, layout)
    rng = np.random.default_rng(0)
    B = rng.normal(size=(X.shape[1], 4)).astype(X.dtype)
    W = rng.normal(size=(X.shape[0], 4)).astype(X.dtype)
    tolerance = 100 * EPS[X.dtype]
    for rows in (laid, as_csr(X, np.int32), as_csr(X, np.int64), sp.csr_array(X)):
        for got, expected in ((products.dot(rows, B), X @ B), (products.tdot(rows, W), X.T @ W)):
            assert type(got) is np.ndarray
            assert got.dtype == X.dtype
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
        dense = products.to_dense(rows)
        assert dense.flags.c_contiguous
        np.testing.assert_array_equal(dense, X)
        means = products.column_means(rows)
        assert type(means) is np.ndarray
        assert means.dtype == X.dtype
        np.testing.assert_allclose(
            means, X.astype(np.float64).mean(axis=0), rtol=tolerance, atol=tolerance
        )
        picked = products.take_rows(rows, np.array([2, 0, 2]))
        np.testing.assert_array_equal(products.to_dense(picked), X[[2, 0, 2]])
        assert products.is_sparse(rows) == sp.issparse(rows)


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, width=index_widths)
def test_sq_distances(problem, layout, width):
    X, index, _ = problem
    left, right = np.ascontiguousarray(index.T[:2], dtype=np.int64)  # as sampling has them
    expected = ((X[left].astype(np.float64) - X[right]) ** 2).sum(axis=1)
    for rows in (laid_out(X, layout), as_csr(X, width)):
        got = products.sq_distances(rows, left, right)
        assert got.dtype == X.dtype
        np.testing.assert_allclose(got, expected, rtol=20 * EPS[X.dtype], atol=0)


def test_sq_distances_over_threads(rng, monkeypatch):
    # more pairs than one thread takes, and three threads: the parts must meet without a seam
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    X = rng.normal(size=(50, 4)) * (rng.random((50, 4)) < 0.5)
    left, right = rng.integers(50, size=(2, 6001))
    expected = ((X[left] - X[right]) ** 2).sum(axis=1)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(
            products.sq_distances(rows, left, right), expected, rtol=1e-14, atol=0
        )


@given(problem=problems(), layout=layouts, height=st.integers(1, 13))
def test_sq_distance_blocks(problem, layout, height):
    X, *_ = problem
    n = len(X)
    X64 = X.astype(np.float64)
    expected = ((X64[:, None] - X64[None]) ** 2).sum(axis=2)
    for rows in (laid_out(X, layout), as_csr(X, np.int64)):
        blocks = list(products.sq_distance_blocks(rows, height * n * X.dtype.itemsize))
        assert [first for first, _ in blocks] == list(range(0, n, height))
        got = np.concatenate([block for _, block in blocks])
        assert got.dtype == X.dtype
        # squares of up to 100, which cancel
        np.testing.assert_allclose(got, expected, rtol=0, atol=500 * EPS[X.dtype])


@given(problem=problems())
def test_mean_sq_distance(problem):
    X, *_ = problem
    n = len(X)
    X64 = X.astype(np.float64)
    pairs = [((X64[a] - X64[b]) ** 2).sum() for a in range(n) for b in range(n) if a != b]
    for rows in (X, as_csr(X, np.int64)):
        assert products.mean_sq_distance(rows) == pytest.approx(np.mean(pairs), rel=1e-12)


@pytest.mark.parametrize("n", [1, 1025, 2500])  # more than one block of rows
def test_mean_sq_distance_of_many_rows(rng, n):
    X = rng.normal(size=(n, 3)) + 50.0
    gram = X @ X.T
    distance = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    expected = 0.0 if n == 1 else distance.sum() / (n * (n - 1))
    # 1e-9: the expanded square above loses digits to the mean of 50
    assert products.mean_sq_distance(X) == pytest.approx(expected, rel=1e-9)


@given(problem=problems(), layout=layouts)
def test_gram(problem, layout):
    X, *_ = problem
    centred = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    for rows in (laid_out(X, layout), as_csr(X, np.int32), sp.csr_array(X)):
        got = products.gram(rows)
        assert type(got) is np.ndarray
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, centred @ centred.T, rtol=0, atol=1e-13)


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, n_columns=st.integers(1, 5))
def test_pair_dot(problem, layout, n_columns):
    X, index, beta = problem
    Y = np.random.default_rng(1).normal(size=(len(X), n_columns)).astype(X.dtype)
    expected = pair_graph(index, beta, len(X)) @ Y
    got = products.pair_dot(index, beta, laid_out(Y, layout))
    assert got.dtype == X.dtype
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, expected, rtol=0, atol=200 * EPS[X.dtype])


def test_pair_dot_over_threads(rng, monkeypatch, random_index):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    index, beta, Y = random_index(20, 50, rng), rng.random(50), rng.normal(size=(20, 49))
    np.testing.assert_allclose(
        products.pair_dot(index, beta, Y), pair_graph(index, beta, 20) @ Y, rtol=0, atol=1e-13
    )


def test_pair_dot_takes_weights_of_another_precision(rng, random_index):
    index, beta = random_index(10, 15, rng), rng.random(15)
    Y = rng.normal(size=(10, 2)).astype(np.float32)
    got = products.pair_dot(index, beta, Y)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, pair_graph(index, beta, 10) @ Y, rtol=0, atol=1e-5)


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, width=index_widths)
def test_pair_matrix(problem, layout, width):
    X, index, beta = problem
    X64 = X.astype(np.float64)
    expected = np.zeros((X.shape[1], X.shape[1]))
    for (i, j, k), b in zip(index, beta, strict=True):
        expected += b * np.outer(X64[i] - X64[k], X64[i] - X64[k])
        expected -= b * np.outer(X64[i] - X64[j], X64[i] - X64[j])
    for rows in (laid_out(X, layout), as_csr(X, width)):
        got = pair_matrix(rows, index, beta)
        assert got.dtype == X.dtype
        # sums of at most 20·4 products of size 10
        np.testing.assert_allclose(got, expected, rtol=0, atol=1000 * EPS[X.dtype])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 2**24])  # 8 columns at a time, and 64
def test_pair_matrix_in_several_blocks_of_columns(
    rng, sparse, block_bytes, triplet_matrices, random_index, monkeypatch
):
    monkeypatch.setattr(products, "_BLOCK_BYTES", block_bytes)
    X = rng.normal(size=(30, 133))
    index, beta = random_index(30, 40, rng), rng.random(40)
    expected = np.einsum("t,tab->ab", beta, triplet_matrices(X, index))
    got = pair_matrix(sp.csr_matrix(X) if sparse else X, index, beta)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_pair_matrix_keeps_digits_under_a_large_mean(rng, sparse, triplet_matrices, random_index):
    offset = 1000.0
    X = (rng.normal(size=(60, 20)) + offset).astype(np.float32)
    index, beta = random_index(60, 200, rng), rng.random(200).astype(np.float32)
    exact = np.einsum("t,tab->ab", beta.astype(np.float64), triplet_matrices(X, index))
    scale = np.abs(exact).max()
    got = pair_matrix(sp.csr_matrix(X) if sparse else X, index, beta)
    # storing X in float32 has itself cost offset·eps. Products with C written out would cost
    # offset²·eps: that shows here, so that this test can fail
    error = np.abs(got - exact).max() / scale
    assert error < 10 * offset * EPS[X.dtype]
    C = pair_graph(index, beta, len(X)).astype(np.float32)
    plain = X.T @ (C @ X)
    assert np.abs(plain - exact).max() / scale > 10 * offset * EPS[X.dtype]


@pytest.mark.parametrize("function", [products.column_means, products.mean_sq_distance])
def test_sums_over_many_float32_rows_are_exact(function):
    # added in float32, 100,000 rows of 0.1 would lose three digits
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    X[::2] = 0.3
    exact = function(X.astype(np.float64))
    np.testing.assert_allclose(function(X), exact, rtol=1e-7)
    np.testing.assert_allclose(function(sp.csr_matrix(X)), exact, rtol=1e-7)
