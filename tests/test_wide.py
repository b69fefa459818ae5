"""Rows of very many features: recovery from products alone, through DuRP, in little memory."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from dualmetric import SPCA, SRP, DuRP, Triplets
from dualmetric._arrays import krylov, ops
from dualmetric.recovery import graph_matrix, leading_part, positive_part
from dualmetric.scatter import DENSE_LIMIT, ProductScatter, within_classes
from makers import as_csr, duplicated, explicit_zeros, make_wide, unsorted
from twins import random_comparisons, weighted_sum

FEW = {"n_triplets": 2000, "random_state": 0, "n_components": 5}


@pytest.fixture(params=[80, 300], ids=["fewer rows than features", "more rows than features"])
def problem(request, rng):
    """Rows as CSR, and the graph of weighted comparisons over them."""
    n = request.param
    X = rng.normal(size=(n, 200)) * (rng.random((n, 200)) < 0.2) * np.geomspace(3.0, 0.3, 200)
    C = ops.comparison_graph(random_comparisons(n, 200, rng), rng.random(200), n)
    return sp.csr_matrix(X), C


def scatter_of(X, shrinkage):
    return ProductScatter(X, within_classes(X, np.arange(X.shape[0]) % 3), shrinkage)


def dense_route(X, C, rank, S=None):
    return positive_part(graph_matrix(X, C), rank, S)[:2]


def rebuild(values, vectors):
    return (vectors * values) @ vectors.T


def assert_near(actual, expected, tolerance):
    assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# --- recovery -------------------------------------------------------------------------------


@pytest.mark.parametrize("whitened", [False, True])
def test_warns_with_the_residual(problem, monkeypatch, rng, whitened):
    X, C = problem
    scatter = scatter_of(X, 0.3) if whitened else None
    monkeypatch.setattr(krylov, "_MAX_PRODUCTS", 2)
    with pytest.warns(
        ConvergenceWarning,
        match=r"the 5 directions of the metric have a residual of 0\.\d+ of the .* eigen_tol=1e-06",
    ) as seen:
        values, vectors, residual = leading_part(X, C, 5, rng, scatter, tolerance=1e-6)
    assert residual > 1e-6
    assert len(seen) == 1
    assert vectors.shape == (200, len(values))
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("tolerance", [0.02, 1e-3, 1e-6])
@pytest.mark.parametrize("whitened", [False, True])
def test_residuals_are_within_the_tolerance(problem, rng, tolerance, whitened):
    X, C = problem
    scatter = scatter_of(X, 0.3) if whitened else None
    S = scatter.dot(np.eye(200)) if whitened else np.eye(200)
    values, V, reported = leading_part(X, C, 5, rng, scatter, tolerance)
    A = (X.T @ C @ X).toarray()
    assert_allclose(V.T @ S @ V, np.eye(5), atol=1e-9)
    R = A @ V - S @ V * values
    residual = np.sqrt(np.einsum("ij,ij->j", R, np.linalg.solve(S, R))).max()
    spectrum = eigh(A, S, eigvals_only=True)
    # what is reported is never less than the true residual, with the size of the Ritz values.
    # 1e-6: residuals near 1e-4 are differences of numbers near 1e3
    assert residual <= reported * np.abs(spectrum).max() * (1 + 1e-6)
    assert reported <= tolerance
    assert np.abs(values - spectrum[::-1][:5]).max() <= tolerance * np.abs(spectrum).max()


@pytest.mark.parametrize("whitened", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_seed_decides(problem, whitened, dtype):
    X, C = (matrix.astype(dtype) for matrix in problem)
    scatter = scatter_of(X, 0.3) if whitened else None
    first, second, other = (
        leading_part(X, C, 5, np.random.default_rng(seed), scatter) for seed in (1, 1, 2)
    )
    assert first[1].dtype == dtype
    assert_array_equal(first[0], second[0])
    assert_array_equal(first[1], second[1])
    assert (first[1] != other[1]).any()


def test_with_a_scatter_solves_the_generalised_problem(problem, rng):
    X, C = problem
    scatter = scatter_of(X, 0.1)
    S = scatter.dot(np.eye(200))
    values, V, _ = leading_part(X, C, 6, rng, scatter, 1e-7)
    assert_allclose(V.T @ S @ V, np.eye(6), atol=1e-8)
    assert_near(rebuild(values, V), rebuild(*dense_route(X, C, 6, S)), 1e-5)


def test_rank_beyond_the_positive_ones(rng):
    # eight triplets: at most eight positive eigenvalues, however many are asked for
    X = sp.csr_matrix(rng.normal(size=(24, 150)))
    C = ops.comparison_graph(np.arange(24).reshape(8, 3)[:, [0, 1, 0, 2]], np.ones(8), 24)
    expected = rebuild(*dense_route(X, C, None))
    for rank in (8, 9, 40, 149, 150, 1000):
        values, vectors, _ = leading_part(X, C, rank, rng, tolerance=1e-7)
        assert len(values) == 8
        assert (values > 0).all()
        assert_near(rebuild(values, vectors), expected, 1e-5)


@pytest.mark.parametrize("d", [100, 150], ids=["over the features", "in the span of the rows"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tolerance", [0.02, 1e-4, 1e-8])
@pytest.mark.parametrize("seed", range(4))
def test_few_comparisons_with_weight_among_many_rows(d, dtype, tolerance, seed):
    # the product has rank 24 at most, and blocks of 40 columns soon hold nothing but rounding
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(60, d)) * (rng.random((60, d)) < 0.3)).astype(dtype)
    index, weight = random_comparisons(60, 12, rng), rng.uniform(0.2, 1.0, size=12)
    C = ops.comparison_graph(index, weight.astype(dtype), 60)
    with warnings.catch_warnings():
        # float32 ends where rounding does, and says so
        warnings.simplefilter("ignore" if dtype == np.float32 else "error")
        values, V, reported = leading_part(sp.csr_matrix(X), C, 30, rng, None, tolerance)
    A = weighted_sum(X, index, weight)
    spectrum = np.linalg.eigvalsh(A)[::-1]
    size = np.abs(spectrum).max()
    rounding = 1e-4 if dtype == np.float32 else 1e-12
    assert reported <= max(tolerance, rounding)
    assert len(values) == np.count_nonzero(spectrum > 1e-4 * size)
    assert_allclose(V.T @ V, np.eye(len(values)), atol=rounding)
    residual = np.linalg.norm(A @ V - V * values, axis=0).max()
    assert residual <= (1.01 * reported + rounding) * size
    expected = spectrum[: len(values)]
    assert_allclose(values, expected, rtol=0, atol=max(tolerance, rounding) * size)


def negative(d, positive, sizes, rng):
    """XᵀCX = diag(positive, −sizes) up to a rotation: one triplet per feature.

    The anchor is at the origin; the negative is away from it where the eigenvalue is positive, and
    the positive where it is negative.
    """
    eigenvalues = np.r_[positive, -np.asarray(sizes)]
    rows = np.zeros((3 * d, d))
    where = np.where(eigenvalues > 0, 2, 1)
    rows[3 * np.arange(d) + where, np.arange(d)] = np.sqrt(np.abs(eigenvalues))
    C = ops.comparison_graph(np.arange(3 * d).reshape(d, 3)[:, [0, 1, 0, 2]], np.ones(d), 3 * d)
    return rows, C


SPECTRA = {
    "flat": ([0.3, 0.2, 0.1], lambda d: np.ones(d)),
    "one, small": ([0.05], lambda d: np.ones(d)),
    "large": ([2.0, 1.0], lambda d: np.linspace(0.5, 1.0, d)),
    "falling": ([0.3, 0.2], lambda d: np.linspace(0.1, 1.0, d)),
    "two sizes": ([0.5, 0.4], lambda d: np.where(np.arange(d) % 2, 1.0, 0.3)),
}


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("name", SPECTRA)
def test_few_positive_among_many_negative(kind, name, rng):
    positive, sizes = SPECTRA[name]
    d = 400
    rows, C = negative(d, positive, sizes(d - len(positive)), rng)
    X = sp.csr_matrix(rows) if kind == "csr" else rows
    A = X.T @ C @ X
    # as it starts: no Ritz value of a random block is positive, but those of large ones
    block = np.linalg.qr(rng.standard_normal((d, 15)))[0]
    if name != "large":
        assert np.linalg.eigvalsh(block.T @ (A @ block)).max() < 0
    values, vectors, _ = leading_part(X, C, 5, rng)
    expected, directions = dense_route(X, C, 5)
    assert_allclose(expected, positive, rtol=1e-10)
    assert len(values) == len(expected)
    # to the tolerance that users have, 0.02 of the largest eigenvalue
    size = max(np.max(positive), sizes(d).max())
    assert_allclose(values, expected, atol=0.02 * size)
    overlap = np.linalg.svd(vectors.T @ directions, compute_uv=False)
    assert overlap.min() > 0.9


def test_nothing_positive_gives_nothing(rng):
    rows, C = negative(100, [], np.linspace(0.5, 1, 100), rng)
    values, vectors, _ = leading_part(sp.csr_matrix(rows), C, 5, rng)
    assert values.shape == (0,)
    assert vectors.shape == (100, 0)


# --- end to end -----------------------------------------------------------------------------


FORMS = {
    "csr_array": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
    "coo_array": sp.coo_array,
    "unsorted and repeated": lambda X: unsorted(duplicated(X)),
    "explicit zeros": explicit_zeros,
    "64-bit indices": as_csr,
}


@pytest.mark.parametrize("shrinkage", [1.0, 0.5])
@pytest.mark.parametrize("form", FORMS)
def test_sparse_forms_agree(form, shrinkage):
    X, y = make_wide()
    assert X.shape[1] > DENSE_LIMIT
    expected = DuRP(shrinkage=shrinkage, **FEW).fit(X, y)
    changed = FORMS[form](X)
    data = changed.data.copy()
    got = DuRP(shrinkage=shrinkage, **FEW).fit(changed, y)
    assert_array_equal(changed.data, data)
    assert_array_equal(got.comparisons_.index, expected.comparisons_.index)
    a, b = (model.metric_.pairwise(X[:200]) for model in (got, expected))
    assert_near(a, b, 1e-6)
    a, b = got.transform(changed.tocsr()[:9]), expected.transform(X[:9])
    assert_near(np.abs(a), np.abs(b), 1e-6)  # the sign of a direction has no meaning


@pytest.mark.parametrize("shrinkage", [1.0, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_empty_rows_and_columns(shrinkage, dtype):
    X, y = make_wide(dtype=dtype)
    keep = np.ones(X.shape[0], dtype=bool)
    keep[[0, 1, 1000, -1]] = False
    X = (sp.diags(keep.astype(dtype)) @ X).tocsr().astype(dtype)
    used = np.unique(X.indices)
    assert len(used) < X.shape[1]
    model = DuRP(shrinkage=shrinkage, **FEW).fit(X, y)
    L = model.metric_.factor
    assert L.dtype == dtype
    assert np.isfinite(L).all()
    empty = np.setdiff1d(np.arange(X.shape[1]), used)
    assert np.abs(L[empty]).max() <= 1e-3 * np.abs(L).max()
    assert not model.transform(X)[~keep].any()
    assert model.score(X[:600], y[:600]) > 0.5


@pytest.mark.parametrize("learner", [SRP, SPCA])
def test_confined_metrics_of_wide_rows(learner):
    X, y = make_wide()
    model = learner(10, shrinkage=0.5, **FEW).fit(X, y)
    assert model.metric_.factor.shape[0] == 5000
    assert np.isfinite(model.transform(X)).all()


def test_dense_wide_rows():
    X, y = make_wide(d=5000)
    sparse, dense = (DuRP(**FEW).fit(rows, y) for rows in (X, X.toarray()))
    assert_near(sparse.metric_.pairwise(X[:100]), dense.metric_.pairwise(X[:100]), 1e-6)


@pytest.mark.parametrize("shrinkage", [1.0, 0.7])
def test_neither_a_square_nor_the_rows_are_written_out(shrinkage):
    n, d = 3000, 20_000
    X, y = make_wide(n, d, dtype=np.float32)
    DuRP(shrinkage=shrinkage, **FEW).fit(X[:, :5000], y)  # what is loaded once is not counted
    model = DuRP(shrinkage=shrinkage, **FEW)
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.metric_.factor.dtype == np.float32
    assert peak < n * d * 4 / 4
    assert peak < d * d * 4 / 20


def test_routes_agree_through_the_learner(monkeypatch):
    X, y = make_wide(2100, 400)
    explicit = DuRP(**FEW).fit(X, y)
    assert explicit.residual_ == 0.0
    monkeypatch.setattr("dualmetric.recovery.DENSE_LIMIT", 0)
    implicit = DuRP(eigen_tol=1e-6, **FEW).fit(X, y)
    assert 0.0 < implicit.residual_ <= 1e-6
    assert_near(implicit.metric_.pairwise(X[:300]), explicit.metric_.pairwise(X[:300]), 1e-4)


def test_more_components_than_are_positive():
    X, _ = make_wide()
    triplets = Triplets(np.array([(0, 3, 1), (3, 0, 2), (1, 4, 2)], dtype=np.int32))
    model = DuRP(n_components=40, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, triplets)
    assert 1 <= model.metric_.rank <= 3


# --- products -------------------------------------------------------------------------------


def csr_with_empty(where, dtype, rng):
    n = 400
    X = rng.normal(size=(n, 300)).astype(dtype)
    rows = {
        "nowhere": [],
        "start": np.arange(50),
        "end": np.arange(350, 400),
        "middle": np.arange(100, 300),
        "everywhere": np.r_[0:40, 90:95, 200:290, 399],
        "all but one": np.setdiff1d(np.arange(n), [123]),
        "all": np.arange(n),
    }[where]
    X[rows] = 0.0
    return X


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "where", ["nowhere", "start", "end", "middle", "everywhere", "all but one", "all"]
)
def test_threaded_dot(threads, dtype, where, rng, monkeypatch):
    monkeypatch.setattr("dualmetric._arrays.system.n_threads", lambda: threads)
    original = ops.run_blocks
    monkeypatch.setattr(ops, "run_blocks", lambda work, total, smallest: original(work, total, 1))
    X = csr_with_empty(where, dtype, rng)
    B = rng.normal(size=(300, 6)).astype(dtype)
    for rows in (sp.csr_matrix(X), sp.csr_array(X)):
        got = ops.threaded_dot(rows, B)
        assert got.dtype == dtype
        assert_allclose(got, rows @ B, atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("threads", [1, 3])
def test_threaded_dot_of_enough_entries_for_threads(threads, rng, monkeypatch):
    monkeypatch.setattr("dualmetric._arrays.system.n_threads", lambda: threads)
    X = csr_with_empty("everywhere", np.float64, rng)
    X = sp.csr_matrix(np.vstack([X] * 2))
    assert X.nnz > 60_000
    B = rng.normal(size=(300, 3))
    assert_allclose(ops.threaded_dot(X, B), X @ B, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize("shape", [(1, 50), (3, 1), (1, 1), (7, 4), (0, 4), (5, 0)])
def test_threaded_dot_of_small_shapes(threads, shape, rng, monkeypatch):
    monkeypatch.setattr("dualmetric._arrays.system.n_threads", lambda: threads)
    original = ops.run_blocks
    monkeypatch.setattr(ops, "run_blocks", lambda work, total, smallest: original(work, total, 1))
    for X in (rng.normal(size=shape), np.zeros(shape)):
        B = rng.normal(size=(shape[1], 2))
        assert_allclose(ops.threaded_dot(sp.csr_matrix(X), B), X @ B, atol=1e-13)
        assert_allclose(ops.threaded_dot(X, B), X @ B, atol=1e-13)
    # columns that are not contiguous, and another precision
    B = np.asfortranarray(rng.normal(size=(shape[1], 2)).astype(np.float32))
    got = ops.threaded_dot(sp.csr_matrix(rng.normal(size=shape)), B)
    assert got.dtype == np.float64
