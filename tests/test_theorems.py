"""What the paper proves, checked on problems small enough to solve almost exactly.

Dual problems are solved to a relative gap of 1e-10 or less, so that the bounds are tested and not
the solver. Wide projections are first rotated into the span of the rows, which is exact (see
test_spaces.py).
"""

from functools import cache

import numpy as np
import pytest

from dualmetric import DuOri, DuRP, spaces
from dualmetric._arrays import ops
from dualmetric.losses import get_loss
from dualmetric.recovery import graph_matrix, positive_part, weighted_graph
from dualmetric.solver import solve_dual
from dualmetric.supervision import Comparisons

DELTA = 0.1  # the theorems hold with probability 1 − δ
DRAWS = 10


def solve(Z, index, name="hinge", reg=None, **options):
    """Solve the dual problem of triplets (i, j, k), with λ = 1/N by default."""
    reg = 1.0 / len(index) if reg is None else reg
    if Z.shape[1] > len(Z):
        Z, _ = spaces.row_span(Z)
    options = {"max_epochs": 50_000, "tol": 1e-12, "rng": np.random.default_rng(0)} | options
    found = solve_dual(Z, Comparisons.of_triplets(index), get_loss(name), reg=reg, **options)
    if options["tol"] is not None:
        assert found.gap <= options["tol"] * found.history[-1].primal
    return found


def recovered(X, index, beta, reg=None):
    """The paper's (6): M̂ = 1/(λN)·Σ β_t A_t, with λ = 1/N by default."""
    scale = 1.0 if reg is None else reg * len(index)
    C = weighted_graph(Comparisons.of_triplets(index).index, beta / scale, X)
    lower = graph_matrix(X, C)
    return np.tril(lower) + np.tril(lower, -1).T


def psd(M):
    values, vectors, _ = positive_part(M)
    return (vectors * values) @ vectors.T


class TestOrthogonalProjection:
    """An orthogonal R loses nothing: DuRP is DuOri."""

    @pytest.mark.parametrize("name", ["hinge", "smoothed_hinge", "squared_hinge", "logistic"])
    def test_duals_are_the_same(self, rng, random_index, name):
        X = rng.normal(size=(30, 6))
        triplets = random_index(30, 80, rng)
        Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
        options = {"max_epochs": 3, "tol": None}
        expected = solve(spaces.original(X), triplets, name, **options)
        found = solve(spaces.mapped(X, Q), triplets, name, **options)
        np.testing.assert_allclose(found.beta, expected.beta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.history, expected.history, rtol=1e-10)

    def test_estimators_learn_the_same_metric(self, rng, monkeypatch):
        y = np.arange(60) % 3
        X = rng.normal(size=(60, 5)) * [1.0, 1.0, 2.0, 2.0, 0.3]
        X[:, 0] += 2.0 * y
        Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
        options = {"n_triplets": 500, "random_state": 0}
        expected = DuOri(**options).fit(X, y)

        def rotation(X, m, rng, scatter=None):
            assert m == 5
            return spaces.mapped(X, Q), Q

        monkeypatch.setattr(spaces, "random_projection", rotation)
        found = DuRP(5, **options).fit(X, y)
        np.testing.assert_array_equal(found.comparisons_.index, expected.comparisons_.index)
        np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, rtol=0, atol=1e-11)
        assert 0 < np.mean(found.dual_coef_ > 0) < 1
        M = expected.components_.T @ expected.components_
        np.testing.assert_allclose(
            found.components_.T @ found.components_, M, rtol=0, atol=1e-11 * np.abs(M).max()
        )

    def test_the_span_of_the_rows_is_enough(self, rng, random_index):
        X = rng.normal(size=(8, 30))
        comparisons = Comparisons.of_triplets(random_index(8, 40, rng))

        def dual(Z):
            rng = np.random.default_rng(0)
            return solve_dual(Z, comparisons, get_loss("hinge"), reg=0.3, max_epochs=3, rng=rng)

        expected, found = dual(spaces.original(X)), dual(spaces.row_span(X)[0])
        np.testing.assert_allclose(found.beta, expected.beta, rtol=0, atol=1e-11)


class TestRecovery:
    """Equations (3) and (6)."""

    def test_metric_is_linear_in_the_duals(self, rng, random_index, triplet_matrices):
        X = rng.normal(size=(20, 6))
        triplets = random_index(20, 30, rng)
        A = triplet_matrices(X, triplets)
        first, second = rng.random((2, 30))
        for beta in (first, second, 0.3 * first + 2.0 * second):
            np.testing.assert_allclose(
                recovered(X, triplets, beta, reg=0.2),
                np.einsum("t,tab->ab", beta, A) / (0.2 * 30),
                rtol=0,
                atol=1e-12,
            )

    def test_projecting_the_recovered_metric_gives_that_of_the_projection(self, rng, random_index):
        # RᵀM̂R = M_s: the metric of SRP is the projection of that of DuRP
        X = rng.normal(size=(20, 9))
        triplets = random_index(20, 30, rng)
        Z, R = spaces.random_projection(X, 4, rng)
        beta = solve(Z, triplets, reg=0.1, max_epochs=3, tol=None).beta
        M = recovered(X, triplets, beta, reg=0.1)
        M_s = ops.comparison_matrix(Z, Comparisons.of_triplets(triplets).index, beta) / (0.1 * 30)
        np.testing.assert_allclose(R.T @ M @ R, M_s, rtol=0, atol=1e-11)
        # and M̂ is not confined to the projection, as R·M_s·Rᵀ is
        assert np.linalg.matrix_rank(R @ M_s @ R.T) <= 4 < np.linalg.matrix_rank(M)

    @pytest.mark.parametrize("name", ["smoothed_hinge", "squared_hinge", "logistic"])
    def test_optimal_duals_are_the_slopes_at_the_metric(
        self, rng, random_index, triplet_matrices, name
    ):
        # the first-order condition behind (3): β_t = −ℓ'(⟨M, A_t⟩)
        X = 0.5 * rng.normal(size=(20, 4))
        triplets = random_index(20, 30, rng)
        beta = solve(X, triplets, name, reg=0.1).beta
        z = np.einsum("ab,tab->t", recovered(X, triplets, beta, 0.1), triplet_matrices(X, triplets))
        loss, h = get_loss(name), 1e-6
        slope = (loss.value(z + h) - loss.value(z - h)) / (2 * h)
        # a gap of 1e-12 leaves an error of about its square root in β
        np.testing.assert_allclose(beta, -slope, rtol=0, atol=2e-5)


@pytest.fixture(scope="module")
def low_rank():
    """25 rows of 40 features on a plane, the exact metric, and a function that draws another.

    The 40 triplets order rows by Δa² − Δb²/2 on the plane (a, b), except every fifth triplet. The
    metric therefore has a negative direction, which Π removes.
    """
    rng = np.random.default_rng(3)
    U = np.linalg.qr(rng.normal(size=(40, 2)))[0]
    plane = rng.normal(size=(25, 2))
    X = plane @ U.T
    index = np.array([rng.choice(25, 3, replace=False) for _ in range(40)], dtype=np.int32)
    apart = (plane[index[:, :1]] - plane[index[:, 1:]]) ** 2 @ [1.0, -0.5]
    swap = (apart[:, 0] > apart[:, 1]) ^ (np.arange(40) % 5 == 0)
    index[swap] = index[swap][:, [0, 2, 1]]
    exact = solve(spaces.row_span(X)[0], index).beta
    best = recovered(X, index, exact)

    @cache
    def draw(m, seed):
        """‖M* − M̂‖ and ‖Π(M*) − Π(M̂)‖ over ‖M*‖, and the ‖Γ‖ of the proof, for one R."""
        Z, R = spaces.random_projection(X, m, np.random.default_rng(seed))
        M = recovered(X, index, solve(Z, index, tol=1e-10).beta)
        size = np.linalg.norm(best)
        gram = (U.T @ R) @ (U.T @ R).T
        gamma = np.linalg.norm(np.kron(gram, gram) - np.eye(4), 2)
        return np.linalg.norm(best - M) / size, np.linalg.norm(psd(best) - psd(M)) / size, gamma

    return exact, best, draw


class TestTheorem1:
    """Low rank: ‖Π(M*) − Π(M̂)‖ ≤ 3ε/(1 − 3ε)·‖M*‖ for m ≥ (r + 1)·log(2r/δ)/(cε²)."""

    def test_the_problem_is_not_degenerate(self, low_rank):
        beta, best, _ = low_rank
        assert np.mean(beta == 0) > 0.1
        assert np.mean(beta == 1) > 0.1
        assert np.linalg.matrix_rank(best) == 2
        size = np.linalg.norm(best)
        assert 0.5 * size < np.linalg.norm(psd(best)) < 0.99 * size

    @pytest.mark.parametrize("epsilon", [1 / 6, 1 / 20])
    def test_bound(self, low_rank, epsilon):
        *_, draw = low_rank
        rank, c = 2, 1 / 3
        m = int(np.ceil((rank + 1) * np.log(2 * rank / DELTA) / (c * epsilon**2)))
        bound = 3 * epsilon / (1 - 3 * epsilon)
        draws = [draw(m, seed) for seed in range(DRAWS)]
        assert np.mean([error <= bound for _, error, _ in draws]) >= 1 - DELTA
        # two steps of the proof: ‖Γ‖ ≤ 3ε, and Π does not increase distances
        assert np.mean([gamma <= 3 * epsilon for _, _, gamma in draws]) >= 1 - DELTA
        assert all(after <= before * (1 + 1e-9) for before, after, _ in draws)
        assert min(after for _, after, _ in draws) > 1e-4  # there is an error to bound

    @pytest.mark.parametrize("m", [100, 1000])
    def test_bound_for_the_projection_that_was_drawn(self, low_rank, m):
        # the proof without its last step: ‖M* − M̂‖ ≤ γ/(1 − γ)·‖M*‖ with γ = ‖Γ‖, always
        *_, draw = low_rank
        bounded = 0
        for seed in range(DRAWS):
            error, _, gamma = draw(m, seed)
            if gamma < 1:
                bounded += 1
                # a gap of 1e-10 leaves an error of at most its square root in M
                assert error <= gamma / (1 - gamma) + 1e-5
        assert bounded > DRAWS / 2

    def test_error_falls_with_the_number_of_projections(self, low_rank):
        *_, draw = low_rank
        sizes = (10, 100, 1000, 10_000)
        errors = np.array([[draw(m, seed)[1] for seed in range(DRAWS)] for m in sizes])
        assert (np.diff(np.median(errors, axis=1)) < 0).all()
        # as 1/√m: the logarithm of an error has a standard deviation near 0.8, so that 40 of them
        # over a range of log 1000 give the slope to 0.05; the tolerance is four times that
        slope = np.polyfit(np.log(sizes), np.log(errors).mean(axis=1), 1)[0]
        assert slope == pytest.approx(-0.5, abs=0.2)


class TestTheorem2:
    """Smooth losses: ‖α* − α̂‖ ≤ max(8εγκ‖α*‖, √(2γη)) for m ≥ 8/ε²·ln(8N/δ), with λ = 1/N."""

    N = 12

    @pytest.fixture
    def problem(self, random_index):
        """20 rows of 60 features, not of low rank, at squared distances near 0.1."""
        rng = np.random.default_rng(5)
        X = 0.03 * rng.normal(size=(20, 60))
        return X, random_index(20, self.N, rng)

    @pytest.mark.parametrize("name", ["smoothed_hinge", "squared_hinge", "logistic"])
    def test_bound(self, problem, triplet_matrices, name):
        X, triplets = problem
        i, j, k = triplets.T
        far = ((X[i] - X[k]) ** 2).sum(axis=1)
        near = ((X[i] - X[j]) ** 2).sum(axis=1)
        kappa = max(
            np.linalg.norm(np.outer(a, b), 2)
            for a, b in ((far, far), (near, near), (far, near), (near, far))
        )
        gamma = 1.0 / get_loss(name).smoothing
        epsilon = 0.2
        m = int(np.ceil(8 / epsilon**2 * np.log(8 * self.N / DELTA)))
        assert 8 * epsilon * gamma * kappa < 1.0  # else α̂ = 0 would be within the bound

        A = triplet_matrices(X, triplets)
        G = np.einsum("sab,tab->st", A, A)
        best = solve(X, triplets, name).beta
        size = np.linalg.norm(best)
        inside, worst = 0, 0.0
        for seed in range(DRAWS):
            Z, R = spaces.random_projection(X, m, np.random.default_rng(seed))
            error = np.linalg.norm(best - solve(Z, triplets, name).beta)
            inside += error <= 8 * epsilon * gamma * kappa * size
            worst = max(worst, error)
            # the step of the proof before the probability, for this R;
            # a gap of 1e-12 leaves an error of 1e-5 in the duals
            projected = np.einsum("tab,ac,bd->tcd", A, R @ R.T, R @ R.T, optimize=True)
            G_hat = np.einsum("sab,tab->st", A, projected)
            distortion = np.linalg.norm(G_hat - G, 2)
            assert distortion <= 4 * epsilon * kappa
            assert error <= 2 * gamma * distortion * size + 1e-5
        assert inside >= (1 - DELTA) * DRAWS
        assert worst > 1e-4  # there is an error to bound

    @pytest.mark.parametrize("name", ["smoothed_hinge", "squared_hinge", "logistic"])
    def test_suboptimal_duals_are_near_in_proportion(self, problem, name):
        # the second term: a dual objective (the sum) η below its maximum bounds the error by √(2γη)
        X, triplets = problem
        Z, _ = spaces.row_span(2.0 * X)
        gamma = 1.0 / get_loss(name).smoothing
        best = solve(Z, triplets, name)
        ratios = []
        for max_epochs in (1, 2, 3):
            found = solve(Z, triplets, name, max_epochs=max_epochs, tol=None)
            eta = self.N * (best.history[-1].dual - found.history[-1].dual)
            assert eta > 1e-9
            ratios.append(np.linalg.norm(found.beta - best.beta) / np.sqrt(2 * gamma * eta))
        assert max(ratios) <= 1.0
        assert min(ratios) > 0.5  # the bound is close
