"""Recovery of the metric: both routes against the sum of matrices and its eigenvectors."""

import numpy as np
import pytest

from dualmetric import DuOri, learn, recovery
from dualmetric.problem import length_unit
from dualmetric.recovery import both_ends, positive_part, recover, weighted_graph
from dualmetric.supervision import Comparisons
from makers import as_kind
from twins import positive_semidefinite, random_comparisons, weighted_sum


def recovered(X, index, weight, rank, rng, limit=4000):
    """The factor; to well below what is compared here where the matrix is not written out."""
    C = weighted_graph(index, weight, X)
    return recover(X, C, rank, rng, tolerance=1e-5, written_up_to=limit).factor()


def symmetric(d, rng):
    A = rng.normal(size=(d, d))
    return A + A.T


def rebuild(values, vectors):
    return (vectors * values) @ vectors.T


def sq_distances(X, L):
    """Squared distances of all pairs of rows under LLᵀ, in float64."""
    Z = X.astype(np.float64) @ L
    return ((Z[:, None] - Z[None]) ** 2).sum(axis=2)


class TestPositivePart:
    def test_by_hand(self):
        # eigenvectors (1, 1)/√2 and (1, −1)/√2 with eigenvalues 3 and −1
        values, vectors, _ = positive_part(np.array([[1.0, 2.0], [2.0, 1.0]]))
        np.testing.assert_allclose(values, [3.0])
        np.testing.assert_allclose(rebuild(values, vectors), np.full((2, 2), 1.5))

    @pytest.mark.parametrize("d", [1, 2, 7, 20])
    def test_is_the_projection_on_the_cone(self, rng, d):
        # P is the projection of A exactly where P ⪰ 0, A − P ⪯ 0 and ⟨A − P, P⟩ = 0
        A = symmetric(d, rng) + np.eye(d)
        P = rebuild(*positive_part(A)[:2])
        assert np.linalg.eigvalsh(P).min() >= -1e-12
        assert np.linalg.eigvalsh(A - P).max() <= 1e-12 * d
        assert abs(np.sum((A - P) * P)) <= 1e-10
        negative = np.minimum(np.linalg.eigvalsh(A), 0.0)
        assert np.linalg.norm(A - P) == pytest.approx(np.linalg.norm(negative), abs=1e-12)

    def test_no_other_matrix_is_nearer(self, rng):
        A = symmetric(6, rng)
        values, vectors, _ = positive_part(A)
        best = np.linalg.norm(A - rebuild(values, vectors))
        L = np.zeros((6, 6))
        L[:, : len(values)] = vectors * np.sqrt(values)
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(50):
                other = L + size * rng.normal(size=(6, 6))
                assert np.linalg.norm(A - other @ other.T) > best

    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_rank_is_the_best_of_that_rank(self, rng, rank):
        A = symmetric(8, rng)
        spectrum = np.linalg.eigvalsh(A)[::-1]
        assert spectrum[2] > 0
        values, vectors, _ = positive_part(A, rank)
        assert values.shape == (rank,)
        assert vectors.shape == (8, rank)
        np.testing.assert_allclose(values, spectrum[:rank], rtol=1e-12)
        best = np.linalg.norm(A - rebuild(values, vectors))
        assert best == pytest.approx(np.linalg.norm(spectrum[rank:]), rel=1e-12)
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(50):
                other = vectors * np.sqrt(values) + size * rng.normal(size=(8, rank))
                assert np.linalg.norm(A - other @ other.T) > best

    @pytest.mark.parametrize("rank", [None, 8, 9, 100])
    def test_rank_that_cuts_nothing(self, rng, rank):
        A = symmetric(8, rng)
        values, vectors, _ = positive_part(A, rank)
        assert len(values) == (np.linalg.eigvalsh(A) > 0).sum() < 8
        assert (np.diff(values) < 0).all()
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-13)

    @pytest.mark.parametrize("A", [np.zeros((3, 3)), -np.eye(3), np.diag([-1.0, 0.0, -2.0])])
    @pytest.mark.parametrize("rank", [None, 2])
    def test_nothing_positive(self, A, rank):
        values, vectors, _ = positive_part(A, rank)
        assert values.shape == (0,)
        assert vectors.shape == (3, 0)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_rounding_is_not_a_direction(self, rng, dtype):
        B = rng.normal(size=(40, 3)).astype(dtype)
        values, vectors, _ = positive_part(B @ B.T)
        assert values.shape == (3,)
        assert values.dtype == vectors.dtype == dtype


@pytest.fixture(params=["triplets", "comparisons"])
def problem(request, rng, random_index):
    """60 sparse rows of 90 features, 150 comparisons, a third of them of weight 0."""
    X = rng.normal(size=(60, 90)) * (rng.random((60, 90)) < 0.2) * np.geomspace(3.0, 0.3, 90)
    weight = rng.random(150)
    weight[::3] = 0.0
    if request.param == "triplets":
        return X, Comparisons.of_triplets(random_index(60, 150, rng)).index, weight
    return X, random_comparisons(60, 150, rng), weight


@pytest.mark.parametrize("kind", ["dense", "csr"])
class TestRecover:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("rank", [None, 5])
    def test_dense_route_equals_the_sum_and_eigh(self, problem, rng, kind, rank, dtype):
        X, index, weight = problem
        M = weighted_sum(X.astype(dtype), index, weight)
        L = recovered(as_kind(X.astype(dtype), kind), index, weight, rank, rng)
        assert L.dtype == dtype
        assert L.shape[1] == (rank or L.shape[1])
        tolerance = (1e-12 if dtype == np.float64 else 2e-6) * np.abs(M).max()
        np.testing.assert_allclose(L @ L.T, positive_semidefinite(M, rank), rtol=0, atol=tolerance)
        assert (np.diff(np.linalg.norm(L, axis=0)) <= 0).all()  # the most important first

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("rank", [1, 5, 20])
    def test_products_route_agrees_with_the_dense_one(
        self, problem, rng, monkeypatch, kind, rank, dtype
    ):
        X, index, weight = problem
        rows = as_kind(X.astype(dtype), kind)
        dense = recovered(rows, index, weight, rank, rng)
        monkeypatch.setattr(recovery, "graph_matrix", None)  # it may not be written out
        wide = recovered(rows, index, weight, rank, rng, limit=0)
        assert wide.shape == dense.shape == (90, rank)
        assert wide.dtype == dtype
        expected = sq_distances(X, dense)
        np.testing.assert_allclose(sq_distances(X, wide), expected, atol=1e-4 * expected.max())

    def test_products_route_with_a_large_mean(self, problem, rng, kind):
        X, index, weight = problem
        dense = recovered(X, index, weight, 5, rng)
        wide = recovered(as_kind(X + 1000.0, kind), index, weight, 5, rng, limit=0)
        expected = sq_distances(X, dense)
        np.testing.assert_allclose(sq_distances(X, wide), expected, atol=1e-4 * expected.max())

    def test_products_route_keeps_few_unless_told(self, problem, rng, monkeypatch, kind):
        X, index, weight = problem
        rows = as_kind(X, kind)
        everything = recovered(rows, index, weight, None, rng)
        assert 7 < everything.shape[1] < 60
        monkeypatch.setattr(recovery, "DEFAULT_WIDE_RANK", 7)
        assert recovered(rows, index, weight, None, rng, limit=0).shape == (90, 7)
        # more than there are: only those that are positive
        most = recovered(rows, index, weight, 60, rng, limit=0)
        assert most.shape == everything.shape
        expected = everything @ everything.T
        np.testing.assert_allclose(most @ most.T, expected, atol=1e-4 * expected.max())

    @pytest.mark.parametrize("limit", [0, 4000])
    def test_weight_zero_has_no_part(self, problem, kind, limit):
        X, index, weight = problem
        used = weight > 0
        first = recovered(as_kind(X, kind), index, weight, 5, np.random.default_rng(0), limit)
        second = recovered(
            as_kind(X, kind), index[used], weight[used], 5, np.random.default_rng(0), limit
        )
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("limit", [0, 4000])
    @pytest.mark.parametrize("rank", [None, 3])
    def test_nothing_to_recover(self, problem, rng, kind, limit, rank):
        X, index, weight = problem
        for rows, weights in ((X, 0 * weight), (np.ones_like(X), weight)):
            L = recovered(as_kind(rows, kind), index, weights, rank, rng, limit)
            assert L.shape == (90, 0)

    @pytest.mark.parametrize("limit", [0, 4000])
    def test_unit_is_the_length_the_weights_were_found_in(self, problem, monkeypatch, kind, limit):
        # learned on X/unit, L' applies to X/unit: (X/unit)·L' = X·(L'/unit)
        X, index, _ = problem
        monkeypatch.setattr(learn, "SPAN_LIMIT", 0)
        monkeypatch.setattr("dualmetric.recovery.DENSE_LIMIT", limit)
        unit = length_unit(X)
        assert not 0.9 < unit < 1.1
        model = DuOri(n_components=5, random_state=0, eigen_tol=1e-6)
        # targets are in the unit in which the problem is solved
        L = model.fit(as_kind(X, kind), Comparisons(index)).metric_.factor
        model.set_params(scale=False).fit(as_kind(X / unit, kind), Comparisons(index))
        expected = model.metric_.factor / unit
        tolerance = (1e-12 if limit else 1e-5) * np.abs(expected @ expected.T).max()
        np.testing.assert_allclose(L @ L.T, expected @ expected.T, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_more", [False, True])
class TestBothEnds:
    def test_largest_in_magnitude(self, problem, rng, kind, dtype, with_more):
        X, index, weight = problem
        A = weighted_sum(X.astype(dtype), index, weight)
        more = None
        if with_more:
            B = symmetric(90, rng)
            A, more = A + B, lambda v: B.astype(v.dtype) @ v
        spectrum = np.linalg.eigvalsh(A)
        expected = spectrum[np.argsort(-np.abs(spectrum))[:12]]
        assert (expected > 0).any()
        assert (expected < 0).any()
        rows = as_kind(X.astype(dtype), kind)
        C = weighted_graph(index, weight, rows)
        tolerance = 1e-7 if dtype == np.float64 else 1e-5
        values, vectors, residual = both_ends(rows, C, 12, rng, tolerance, more)
        assert vectors.dtype == dtype
        assert residual <= tolerance
        size = np.abs(spectrum).max()
        np.testing.assert_allclose(values, np.sort(expected)[::-1], atol=20 * tolerance * size)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-12 + 5 * tolerance)
        np.testing.assert_allclose(
            A @ vectors, vectors * values, rtol=0, atol=20 * tolerance * size
        )

    def test_fewer_than_asked_for(self, rng, kind, dtype, with_more):
        # three comparisons of four rows each: rank six
        X = rng.normal(size=(12, 40)).astype(dtype)
        index, weight = np.arange(12).reshape(3, 4), np.ones(3)
        A = weighted_sum(X, index, weight)
        more = (lambda v: 0.0 * v) if with_more else None
        rows = as_kind(X, kind)
        found = both_ends(rows, weighted_graph(index, weight, rows), 10, rng, 1e-6, more)
        rebuilt = (found.vectors * found.values) @ found.vectors.T
        np.testing.assert_allclose(rebuilt, A, atol=1e-4 * np.abs(A).max())
        assert np.count_nonzero(np.abs(found.values) > 1e-3) == 6


def test_rounding_is_no_direction_with_a_scatter(rng):
    v = rng.normal(size=(20, 3)).astype(np.float32)
    S = (np.eye(20) + 0.5).astype(np.float32)
    values, vectors, _ = positive_part(-(v @ v.T), 2, S)
    assert values.shape == (0,)
    assert vectors.shape == (20, 0)
