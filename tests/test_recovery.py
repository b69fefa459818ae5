import numpy as np
import pytest
import scipy.sparse as sp

from dualmetric import recovery
from dualmetric.recovery import positive_part, recover_factor
from dualmetric.triplets import Triplets


def recovered(*args, **options):
    """The factor, where it is not written out to well below what is compared here."""
    return recover_factor(*args, tolerance=1e-5, **options)[0]


def symmetric(d, rng):
    A = rng.normal(size=(d, d))
    return A + A.T


def rebuild(values, vectors):
    return (vectors * values) @ vectors.T


def as_kind(X, kind):
    return {"dense": np.asarray, "csr": sp.csr_matrix}[kind](X)


def sq_distances(X, L):
    """Squared distances of all pairs of rows under LLᵀ, in float64."""
    Z = X.astype(np.float64) @ L
    return ((Z[:, None] - Z[None]) ** 2).sum(axis=2)


class TestPositivePart:
    def test_by_hand(self):
        # eigenvectors (1, 1)/√2 and (1, −1)/√2 with eigenvalues 3 and −1
        values, vectors = positive_part(np.array([[1.0, 2.0], [2.0, 1.0]]))
        np.testing.assert_allclose(values, [3.0])
        np.testing.assert_allclose(rebuild(values, vectors), np.full((2, 2), 1.5))

    @pytest.mark.parametrize("d", [1, 2, 7, 20])
    def test_is_the_projection_on_the_cone(self, rng, d):
        # P is the projection of A exactly where P ⪰ 0, A − P ⪯ 0 and ⟨A − P, P⟩ = 0
        A = symmetric(d, rng) + np.eye(d)
        P = rebuild(*positive_part(A))
        assert np.linalg.eigvalsh(P).min() >= -1e-12
        assert np.linalg.eigvalsh(A - P).max() <= 1e-12 * d
        assert abs(np.sum((A - P) * P)) <= 1e-10
        negative = np.minimum(np.linalg.eigvalsh(A), 0.0)
        assert np.linalg.norm(A - P) == pytest.approx(np.linalg.norm(negative), abs=1e-12)

    def test_no_other_matrix_is_nearer(self, rng):
        A = symmetric(6, rng)
        values, vectors = positive_part(A)
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
        values, vectors = positive_part(A, rank)
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
        values, vectors = positive_part(A, rank)
        assert len(values) == (np.linalg.eigvalsh(A) > 0).sum() < 8
        assert (np.diff(values) < 0).all()
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-13)

    @pytest.mark.parametrize("A", [np.zeros((3, 3)), -np.eye(3), np.diag([-1.0, 0.0, -2.0])])
    @pytest.mark.parametrize("rank", [None, 2])
    def test_nothing_positive(self, A, rank):
        values, vectors = positive_part(A, rank)
        assert values.shape == (0,)
        assert vectors.shape == (3, 0)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_rounding_is_not_a_direction(self, rng, dtype):
        B = rng.normal(size=(40, 3)).astype(dtype)
        values, vectors = positive_part(B @ B.T)
        assert values.shape == (3,)
        assert values.dtype == vectors.dtype == dtype


@pytest.fixture
def problem(rng, random_index):
    """60 sparse rows of 90 features, 150 triplets, a third of them of weight 0."""
    X = rng.normal(size=(60, 90)) * (rng.random((60, 90)) < 0.2) * np.geomspace(3.0, 0.3, 90)
    weight = rng.random(150)
    weight[::3] = 0.0
    return X, Triplets(random_index(60, 150, rng)), weight


@pytest.mark.parametrize("kind", ["dense", "csr"])
class TestRecoverFactor:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("rank", [None, 5])
    def test_dense_route_equals_the_sum_and_eigh(
        self, problem, triplet_matrices, rng, kind, rank, dtype
    ):
        X, triplets, weight = problem
        M = np.einsum("t,tab->ab", weight, triplet_matrices(X.astype(dtype), triplets.index))
        values, vectors = np.linalg.eigh(M)
        values = np.maximum(values, 0.0)
        if rank is not None:
            values[:-rank] = 0.0
        expected = rebuild(values, vectors)
        L = recovered(as_kind(X.astype(dtype), kind), triplets, weight, rank, rng)
        assert L.dtype == dtype
        assert L.shape[1] == (rank or L.shape[1])
        tolerance = 1e-12 if dtype == np.float64 else 2e-6
        np.testing.assert_allclose(L @ L.T, expected, rtol=0, atol=tolerance * np.abs(M).max())
        assert (np.diff(np.linalg.norm(L, axis=0)) <= 0).all()  # the most important first

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("rank", [1, 5, 20])
    def test_products_route_agrees_with_the_dense_one(
        self, problem, rng, monkeypatch, kind, rank, dtype
    ):
        X, triplets, weight = problem
        rows = as_kind(X.astype(dtype), kind)
        dense = recovered(rows, triplets, weight, rank, rng)
        monkeypatch.setattr(recovery, "DENSE_LIMIT", 0)
        monkeypatch.setattr(recovery.products, "pair_matrix", None)  # it may not be written out
        wide = recovered(rows, triplets, weight, rank, rng)
        assert wide.shape == dense.shape == (90, rank)
        assert wide.dtype == dtype
        expected = sq_distances(X, dense)
        np.testing.assert_allclose(sq_distances(X, wide), expected, atol=1e-4 * expected.max())

    def test_products_route_with_a_large_mean(self, problem, rng, monkeypatch, kind):
        X, triplets, weight = problem
        dense = recovered(X, triplets, weight, 5, rng)
        monkeypatch.setattr(recovery, "DENSE_LIMIT", 0)
        wide = recovered(as_kind(X + 1000.0, kind), triplets, weight, 5, rng)
        expected = sq_distances(X, dense)
        np.testing.assert_allclose(sq_distances(X, wide), expected, atol=1e-4 * expected.max())

    def test_products_route_keeps_few_unless_told(self, problem, rng, monkeypatch, kind):
        X, triplets, weight = problem
        rows = as_kind(X, kind)
        everything = recovered(rows, triplets, weight, None, rng)
        assert 7 < everything.shape[1] < 60
        monkeypatch.setattr(recovery, "DENSE_LIMIT", 0)
        monkeypatch.setattr(recovery, "DEFAULT_WIDE_RANK", 7)
        assert recovered(rows, triplets, weight, None, rng).shape == (90, 7)
        # more than there are: only those that are positive
        most = recovered(rows, triplets, weight, 60, rng)
        assert most.shape == everything.shape
        expected = everything @ everything.T
        np.testing.assert_allclose(most @ most.T, expected, atol=1e-4 * expected.max())

    @pytest.mark.parametrize("limit", [0, 4000])
    def test_unit_is_the_length_the_weights_were_found_in(
        self, problem, rng, monkeypatch, kind, limit
    ):
        # learned on X/unit, L' applies to X/unit: (X/unit)·L' = X·(L'/unit)
        X, triplets, weight = problem
        unit = 3.7
        monkeypatch.setattr(recovery, "DENSE_LIMIT", limit)
        expected = recovered(as_kind(X / unit, kind), triplets, weight, 5, rng) / unit
        L = recovered(as_kind(X, kind), triplets, weight, 5, rng, unit=unit)
        # 1e-5: where the iteration stops
        tolerance = (1e-12 if limit else 1e-5) * np.abs(expected @ expected.T).max()
        np.testing.assert_allclose(L @ L.T, expected @ expected.T, rtol=0, atol=tolerance)

    @pytest.mark.parametrize("limit", [0, 4000])
    def test_triplets_of_weight_zero_have_no_part(self, problem, rng, monkeypatch, kind, limit):
        X, triplets, weight = problem
        monkeypatch.setattr(recovery, "DENSE_LIMIT", limit)
        used = weight > 0
        first = recovered(as_kind(X, kind), triplets, weight, 5, np.random.default_rng(0))
        second = recovered(
            as_kind(X, kind), Triplets(triplets.index[used]), weight[used], 5,
            np.random.default_rng(0),
        )  # fmt: skip
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("limit", [0, 4000])
    @pytest.mark.parametrize("rank", [None, 3])
    def test_nothing_to_recover(self, problem, rng, monkeypatch, kind, limit, rank):
        X, triplets, weight = problem
        monkeypatch.setattr(recovery, "DENSE_LIMIT", limit)
        for rows, weights in ((X, 0 * weight), (np.ones_like(X), weight)):
            L = recovered(as_kind(rows, kind), triplets, weights, rank, rng)
            assert L.shape == (90, 0)


def test_rounding_is_no_direction_with_a_scatter(rng):
    v = rng.normal(size=(20, 3)).astype(np.float32)
    S = (np.eye(20) + 0.5).astype(np.float32)
    values, vectors = positive_part(-(v @ v.T), 2, S)
    assert values.shape == (0,)
    assert vectors.shape == (20, 0)
