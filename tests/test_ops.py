"""Operations on rows: dense, CSR and array API, against NumPy written out."""

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmetric._arrays import namespace, ops, sparse
from dualmetric.recovery import graph_matrix
from makers import as_csr, laid_out
from twins import comparison_matrices, random_comparisons, weighted_sum

EPS = {np.dtype(np.float32): 1.2e-7, np.dtype(np.float64): 2.3e-16}


def whole_matrix(X, index, beta):
    """XᵀCX; `graph_matrix` gives its lower triangle."""
    lower = graph_matrix(X, ops.comparison_graph(index, beta.astype(X.dtype), X.shape[0]))
    return np.tril(lower) + np.tril(lower, -1).T


@st.composite
def problems(draw):
    """Rows with zeros and empty rows among them, comparisons over them, and their weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(4, 12)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    X[rng.integers(n)] = 0.0
    N = draw(st.integers(0, 20))
    index = random_comparisons(n, N, rng, draw(st.sampled_from([np.int32, np.int64])))
    beta = rng.random(N) * (rng.random(N) < 0.7)
    return X.astype(dtype), index, beta.astype(dtype)


layouts = st.sampled_from(["C", "fortran", "strided", "read-only"])
index_widths = st.sampled_from([np.int32, np.int64])


def slow_graph(index, beta, n):
    """Σ β_t A_t = XᵀCX: the Laplacian of the pair (c, d) minus that of (a, b), by their edges."""
    C = np.zeros((n, n))
    for (a, b, c, d), weight in zip(index, beta.astype(np.float64), strict=True):
        for left, right, sign in ((c, d, 1), (a, b, -1)):
            edge = np.zeros(n)
            edge[left], edge[right] = 1.0, -1.0
            C += sign * weight * np.outer(edge, edge)
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
        for got, expected in ((ops.dot(rows, B), X @ B), (ops.tdot(rows, W), X.T @ W)):
            assert type(got) is np.ndarray
            assert got.dtype == X.dtype
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
        dense = ops.to_dense(rows)
        assert dense.flags.c_contiguous
        np.testing.assert_array_equal(dense, X)
        means = ops.column_means(rows)
        assert type(means) is np.ndarray
        assert means.dtype == X.dtype
        np.testing.assert_allclose(
            means, X.astype(np.float64).mean(axis=0), rtol=tolerance, atol=tolerance
        )
        picked = ops.take_rows(rows, np.array([2, 0, 2]))
        np.testing.assert_array_equal(ops.to_dense(picked), X[[2, 0, 2]])
        assert ops.is_sparse(rows) == sp.issparse(rows)


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, width=index_widths)
def test_sq_distances(problem, layout, width):
    X, index, _ = problem
    left, right = np.ascontiguousarray(index.T[:2], dtype=np.int64)  # as sampling has them
    expected = ((X[left].astype(np.float64) - X[right]) ** 2).sum(axis=1)
    for rows in (laid_out(X, layout), as_csr(X, width)):
        got = ops.sq_distances(rows, left, right)
        assert got.dtype == X.dtype
        np.testing.assert_allclose(got, expected, rtol=20 * EPS[X.dtype], atol=0)


def test_sq_distances_of_sparse_rows_that_are_nearly_equal(rng):
    # exact: what one row has alone may be far below the rounding of the squares of both
    X = np.abs(rng.normal(size=(60, 30))) * (rng.random((60, 30)) < 0.5) + 0.0
    X[30:] = X[:30]
    X[np.arange(30, 60), rng.integers(30, size=30)] += 10.0 ** rng.uniform(-9, -3, size=30)
    X[30] = X[0]
    left, right = np.arange(30), np.arange(30, 60)
    expected = np.square(X[left] - X[right]).sum(axis=1)
    for width in (30, 10_000):  # the left row is written out, or too long for the few pairs
        rows = sp.csr_matrix(X)
        rows.resize(60, width)
        for one, other in ((left, right), (right, left)):
            np.testing.assert_allclose(ops.sq_distances(rows, one, other), expected, rtol=1e-12)
    assert expected[0] == 0.0


def test_sq_distances_over_threads(rng, monkeypatch):
    # more pairs than one thread takes, and three threads: the parts must meet without a seam
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    X = rng.normal(size=(50, 4)) * (rng.random((50, 4)) < 0.5)
    left, right = rng.integers(50, size=(2, 6001))
    expected = ((X[left] - X[right]) ** 2).sum(axis=1)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(
            ops.sq_distances(rows, left, right), expected, rtol=1e-14, atol=0
        )


@given(problem=problems(), layout=layouts, height=st.integers(1, 13))
def test_sq_distance_blocks(problem, layout, height):
    X, *_ = problem
    n = len(X)
    X64 = X.astype(np.float64)
    expected = ((X64[:, None] - X64[None]) ** 2).sum(axis=2)
    for rows in (laid_out(X, layout), as_csr(X, np.int64)):
        blocks = list(ops.sq_distance_blocks(rows, height * n * X.dtype.itemsize))
        assert [first for first, _ in blocks] == list(range(0, n, height))
        got = np.concatenate([block for _, block in blocks])
        assert got.dtype == X.dtype
        # squares of up to 100, which cancel
        np.testing.assert_allclose(got, expected, rtol=0, atol=500 * EPS[X.dtype])


@pytest.mark.parametrize("n", [1, 1023, 1024, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_over_threads(n, dtype, rng, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(ops, "_thin", lambda A: 1)
    monkeypatch.setattr(ops, "_PART", 1)
    monkeypatch.setattr(ops, "_ONE_THREAD", 1)
    A, B = rng.normal(size=(2, n, 7)).astype(dtype)
    exact = A.astype(np.float64), B.astype(np.float64)
    eps = EPS[np.dtype(dtype)]
    dots = (exact[0] * exact[1]).sum(axis=0)
    np.testing.assert_allclose(ops.column_dots(A, B), dots, rtol=1e-12, atol=1e-12 * n)
    product = exact[0].T @ exact[1]
    np.testing.assert_allclose(ops.threaded_tdot(A, B), product, atol=100 * eps * np.sqrt(n))
    turn = rng.normal(size=(7, 3)).astype(dtype)
    np.testing.assert_allclose(ops.threaded_dot(A, turn), exact[0] @ turn, atol=100 * eps)
    out = np.empty((n, 3), dtype)
    assert ops.threaded_dot(A, turn, out=out) is out
    np.testing.assert_array_equal(out, ops.threaded_dot(A, turn))
    own = rng.normal(size=7).astype(dtype)
    kept = A.copy()
    assert ops.combined(kept, own, B, -2.0) is kept
    np.testing.assert_allclose(kept, own * exact[0] - 2.0 * exact[1], atol=100 * eps)


@given(problem=problems())
def test_mean_sq_distance(problem):
    X, *_ = problem
    n = len(X)
    X64 = X.astype(np.float64)
    pairs = [((X64[a] - X64[b]) ** 2).sum() for a in range(n) for b in range(n) if a != b]
    for rows in (X, as_csr(X, np.int64)):
        assert ops.mean_sq_distance(rows) == pytest.approx(np.mean(pairs), rel=1e-12)


@pytest.mark.parametrize("n", [1, 1025, 2500])  # more than one block of rows
def test_mean_sq_distance_of_many_rows(rng, n):
    X = rng.normal(size=(n, 3)) + 50.0
    gram = X @ X.T
    distance = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    expected = 0.0 if n == 1 else distance.sum() / (n * (n - 1))
    # 1e-9: the expanded square above loses digits to the mean of 50
    assert ops.mean_sq_distance(X) == pytest.approx(expected, rel=1e-9)


@given(problem=problems(), layout=layouts)
def test_gram(problem, layout):
    X, *_ = problem
    centred = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    for rows in (laid_out(X, layout), as_csr(X, np.int32), sp.csr_array(X)):
        got = ops.gram(rows)
        assert type(got) is np.ndarray
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, centred @ centred.T, rtol=0, atol=1e-13)


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, n_columns=st.integers(1, 5))
def test_graph_dot(problem, layout, n_columns):
    X, index, beta = problem
    Y = np.random.default_rng(1).normal(size=(len(X), n_columns)).astype(X.dtype)
    expected = slow_graph(index, beta, len(X)) @ Y
    got = ops._graph_dot(index, beta, laid_out(Y, layout))
    assert got.dtype == X.dtype
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, expected, rtol=0, atol=200 * EPS[X.dtype])


def test_graph_dot_over_threads(rng, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    index, beta, Y = random_comparisons(20, 50, rng), rng.random(50), rng.normal(size=(20, 49))
    np.testing.assert_allclose(
        ops._graph_dot(index, beta, Y), slow_graph(index, beta, 20) @ Y, rtol=0, atol=1e-13
    )


def test_graph_dot_takes_weights_of_another_precision(rng):
    index, beta = random_comparisons(10, 15, rng), rng.random(15)
    Y = rng.normal(size=(10, 2)).astype(np.float32)
    got = ops._graph_dot(index, beta, Y)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, slow_graph(index, beta, 10) @ Y, rtol=0, atol=1e-5)


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, width=index_widths)
def test_graph_matrix(problem, layout, width):
    X, index, beta = problem
    expected = weighted_sum(X, index, beta)
    for rows in (laid_out(X, layout), as_csr(X, width)):
        got = whole_matrix(rows, index, beta)
        assert got.dtype == X.dtype
        # sums of at most 20·4 products of size 10
        np.testing.assert_allclose(got, expected, rtol=0, atol=1000 * EPS[X.dtype])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 2**24])  # 8 columns at a time, and all
def test_graph_matrix_in_several_blocks_of_columns(rng, sparse, block_bytes, monkeypatch):
    monkeypatch.setattr(namespace, "_HOST_BLOCK", block_bytes)
    X = rng.normal(size=(30, 133))
    index, beta = random_comparisons(30, 40, rng), rng.random(40)
    expected = weighted_sum(X, index, beta)
    got = whole_matrix(sp.csr_matrix(X) if sparse else X, index, beta)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_graph_matrix_keeps_digits_under_a_large_mean(rng, sparse):
    offset = 1000.0
    X = (rng.normal(size=(60, 20)) + offset).astype(np.float32)
    index, beta = random_comparisons(60, 200, rng), rng.random(200).astype(np.float32)
    exact = weighted_sum(X, index, beta)
    scale = np.abs(exact).max()
    got = whole_matrix(sp.csr_matrix(X) if sparse else X, index, beta)
    # storing X in float32 has itself cost offset·eps. Products with C written out would cost
    # offset²·eps: that shows here, so that this test can fail
    error = np.abs(got - exact).max() / scale
    assert error < 10 * offset * EPS[X.dtype]
    C = slow_graph(index, beta, len(X)).astype(np.float32)
    plain = X.T @ (C @ X)
    assert np.abs(plain - exact).max() / scale > 10 * offset * EPS[X.dtype]


@pytest.mark.parametrize("function", [ops.column_means, ops.mean_sq_distance])
def test_sums_over_many_float32_rows_are_exact(function):
    # added in float32, 100,000 rows of 0.1 would lose three digits
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    X[::2] = 0.3
    exact = function(X.astype(np.float64))
    np.testing.assert_allclose(function(X), exact, rtol=1e-7)
    np.testing.assert_allclose(function(sp.csr_matrix(X)), exact, rtol=1e-7)


# --- comparisons ----------------------------------------------------------------------------


@settings(max_examples=40)
@given(problem=problems())
def test_comparison_graph(problem):
    X, index, beta = problem
    C = ops.comparison_graph(index, beta, len(X))
    assert C.dtype == X.dtype
    np.testing.assert_allclose(C.toarray(), slow_graph(index, beta, len(X)), atol=20 * EPS[X.dtype])
    np.testing.assert_allclose(C.sum(axis=0), 0.0, atol=50 * EPS[X.dtype])
    assert (C.data != 0).all()


@settings(max_examples=40)
@given(problem=problems(), layout=layouts)
def test_comparison_matrix(problem, layout):
    X, index, beta = problem
    V = ops.comparison_matrix(laid_out(X, layout), index, beta)
    assert V.dtype == X.dtype
    np.testing.assert_array_equal(V, V.T)
    np.testing.assert_allclose(V, weighted_sum(X, index, beta), rtol=0, atol=1000 * EPS[X.dtype])


@settings(max_examples=40)
@given(problem=problems(), layout=layouts, width=index_widths)
def test_margins(problem, layout, width):
    X, index, _ = problem
    A = comparison_matrices(X, index)
    M = np.random.default_rng(0).normal(size=(X.shape[1], X.shape[1])).astype(X.dtype)
    M = M + M.T
    tolerance = 1000 * EPS[X.dtype]
    expected = np.einsum("tij,ij->t", A, M.astype(np.float64))
    got = ops.margins(laid_out(X, layout), index, M)
    assert got.dtype == X.dtype
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
    for rows in (laid_out(X, layout), as_csr(X, width)):
        expected = np.trace(A, axis1=1, axis2=2)
        np.testing.assert_allclose(ops.margins(rows, index), expected, rtol=0, atol=tolerance)


def test_margins_of_triplets_keep_their_digits(rng):
    # d²(i, k) − d²(i, j) of a distant anchor: the difference of two squares would have no digit
    X = rng.normal(size=(3, 4)).astype(np.float32)
    X[0] += 3e4
    index = np.array([[0, 1, 0, 2]], dtype=np.int32)
    exact = np.trace(comparison_matrices(X, index)[0])
    assert ops.margins(X, index)[0] == pytest.approx(exact, rel=1e-5)
    i, j, k = X
    naive = ((i - k) ** 2).sum() - ((i - j) ** 2).sum()
    assert naive != pytest.approx(exact, rel=1e-5)


# --- sums, means and lengths ----------------------------------------------------------------


@given(problem=problems(), layout=layouts, n_groups=st.integers(1, 4))
def test_groups(problem, layout, n_groups):
    X, *_ = problem
    codes = np.arange(len(X)) % n_groups
    sizes = np.bincount(codes)
    members = sp.csr_matrix((np.ones(len(X)), (codes, np.arange(len(X)))))
    X64 = X.astype(np.float64)
    means = np.stack([X64[codes == code].mean(axis=0) for code in range(n_groups)])
    expected = X64 - means[codes]
    got = ops.minus_group_means(laid_out(X, layout), codes, members, sizes)
    assert got.dtype == X.dtype
    np.testing.assert_allclose(got, expected, rtol=0, atol=50 * EPS[X.dtype])
    for rows in (laid_out(X, layout), as_csr(X)):
        trace = ops.scatter_trace(rows, codes, members, sizes)
        assert trace == pytest.approx((expected**2).sum(), rel=1e-12, abs=1e-12)


@given(problem=problems(), layout=layouts)
def test_lengths(problem, layout):
    X, *_ = problem
    lengths = np.linalg.norm(X.astype(np.float64), axis=1)
    safe = np.where(lengths == 0, 1.0, lengths)
    for rows in (laid_out(X, layout), as_csr(X), sp.csr_array(X)):
        before = ops.to_dense(rows).copy()
        got = ops.row_lengths(rows)
        assert got.dtype == X.dtype
        np.testing.assert_allclose(got, lengths, rtol=2 * EPS[X.dtype])
        unit = ops.unit_rows(rows)
        assert ops.is_sparse(unit) == ops.is_sparse(rows)
        np.testing.assert_allclose(
            ops.to_dense(unit), X / safe[:, None], rtol=5 * EPS[X.dtype], atol=1e-30
        )
        np.testing.assert_array_equal(ops.to_dense(rows), before)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e20, 1e30])
def test_unit_rows_whose_squares_leave_the_range(kind, size):
    X = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32) * np.float32(size)
    got = ops.to_dense(ops.unit_rows(kind(X)))
    np.testing.assert_allclose(got, [[0.6, -0.8, 0.0], [0.0, 0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_all_rows_equal(kind):
    X = np.tile([0.0, 1.5, -2.0], (3000, 1))
    assert ops.all_rows_equal(kind(X))
    for row, value in ((0, 1.4), (1500, 0.1), (2999, 2.0)):
        other = X.copy()
        other[row, 1] = value
        assert not ops.all_rows_equal(kind(other))


# --- the array API --------------------------------------------------------------------------


def strict(array):
    """An array that allows only what the standard has, on a device that is not the host."""
    return array_api_strict.asarray(array, device=array_api_strict.Device("device1"))


def host(array):
    return namespace.to_numpy(array)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestStrict:
    """The same lines on arrays of the standard, which stay on their device."""

    @pytest.fixture(name="X")
    def rows(self, rng, dtype):
        X = (rng.normal(size=(23, 6)) + 1.0) * (rng.random((23, 6)) < 0.8)
        X[4] = 0.0
        return X.astype(dtype)

    @pytest.fixture
    def index(self, rng):
        return random_comparisons(23, 40, rng)

    def check(self, function, X, *more):
        """The function gives the same on the host and on the device."""
        expected = function(X, *more)
        there = strict(X)
        got = function(there, *more)
        if namespace.is_device_array(got):
            assert got.device == there.device
            assert namespace.precision(got) == expected.dtype
        expected = np.asarray(expected)
        tolerance = 300 * EPS[X.dtype] * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(host(got), expected, rtol=0, atol=tolerance)

    @pytest.mark.parametrize(
        "function",
        [
            ops.column_sums,
            ops.column_means,
            ops.minus_mean,
            ops.row_lengths,
            ops.unit_rows,
            ops.gram,
            ops.mean_sq_distance,
            ops.to_dense,
            ops.to_float64,
            lambda X: ops.take_rows(X, np.array([3, 0, 3])),
            lambda X: ops.take_columns(X, np.array([5, 1])),
            lambda X: ops.beside(X, X),
            lambda X: ops.stacked([X, X]),
            lambda X: ops.square(4, X, diagonal=2.0),
            lambda X: ops.tdot(X, X),
            lambda X: ops.threaded_dot(X, X.T),
            lambda X: ops.column_dots(X, 2.0 * X),
            lambda X: ops.divided_rows(X, ops.row_lengths(X)),
            lambda X: ops.quadratic(X, ops.minus_mean),
            lambda X: namespace.namespace(X).concat([b for _, b in ops.sq_distance_blocks(X, 999)]),
        ],
    )
    def test_rows(self, function, X):
        self.check(function, X)

    def test_pairs_and_comparisons(self, X, index, rng):
        M = rng.normal(size=(6, 6)).astype(X.dtype)
        M = M + M.T
        beta = rng.random(40) * (rng.random(40) < 0.7)
        left, right = np.ascontiguousarray(index.T[:2])
        self.check(lambda X: ops.sq_distances(X, left, right), X)
        self.check(lambda X: ops.margins(X, index), X)
        self.check(lambda X: ops.margins(X, index, namespace.like(M, X)), X)
        self.check(lambda X: ops.comparison_matrix(X, index, beta), X)
        for part in (0, 1):
            self.check(lambda X, part=part: ops.differences(X, index)[part], X)

    def test_graph(self, X, index, rng):
        C = ops.comparison_graph(index, rng.random(40).astype(X.dtype), 23)
        self.check(lambda X: ops.placed(C, X) @ X, X)
        self.check(lambda X: np.tril(host(graph_matrix(X, ops.placed(C, X)))), X)
        self.check(lambda X: ops.dot(C, X), X)

    def test_groups(self, X):
        codes = np.arange(23) % 3
        members = sp.csr_matrix((np.ones(23), (codes, np.arange(23))))
        sizes = np.bincount(codes)
        self.check(lambda X: ops.minus_group_means(X, codes, members, sizes), X)
        self.check(lambda X: ops.scatter_trace(X, codes, members, sizes), X)

    def test_all_rows_equal(self, X):
        assert not ops.all_rows_equal(strict(X))
        assert ops.all_rows_equal(strict(np.ones_like(X)))

    def test_small_blocks_give_the_same(self, X, index, monkeypatch, rng):
        monkeypatch.setattr(namespace, "_DEVICE_BLOCK", 1)
        self.test_pairs_and_comparisons(X, index, rng)
        self.test_graph(X, index, rng)
        self.test_groups(X)
        for function in (ops.gram, ops.row_lengths, ops.mean_sq_distance):
            self.check(function, X)


def test_sparse_matrices_are_applied_on_a_device(rng):
    matrix = sp.csr_matrix(rng.normal(size=(7, 9)) * (rng.random((7, 9)) < 0.4))
    B = rng.normal(size=(9, 3))
    there = sparse.OnDevice(matrix, strict(B))
    assert there.shape == (7, 9)
    np.testing.assert_allclose(host(there @ strict(B)), matrix @ B, atol=1e-13)
