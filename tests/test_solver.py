import numpy as np
import pytest
from scipy.optimize import minimize

from dualmetric import _kernels, solver
from dualmetric.losses import LOSSES, get_loss
from dualmetric.solver import dual_matrix, solve_dual, triplet_margins
from dualmetric.triplets import Triplets

NAMES = list(LOSSES)


@pytest.fixture
def problem(rng, random_index):
    """24 rows in 4 dimensions with 40 triplets: some satisfied, some not, at this size of Z."""
    Z = rng.normal(size=(24, 4)) * 0.7
    return Z, Triplets(random_index(24, 40, rng))


def solve(Z, triplets, name, **options):
    options = {"reg": 0.05, "rng": np.random.default_rng(0)} | options
    return solve_dual(Z, triplets, get_loss(name), **options)


def slow_epoch(A, beta, V, lams, loss):
    """The epoch as the paper writes it: M = V/(λN), one dual variable after the other."""
    beta, V = beta.astype(np.float64), V.astype(np.float64)
    for t, lam in enumerate(lams):
        margin = np.sum(V * A[t]) / lam
        curvature = np.sum(A[t] ** 2) / lam
        new = loss.dual_step(beta[t], margin, curvature)
        V = V + (new - beta[t]) * A[t]
        beta[t] = new
    return beta, V


def slow_objectives(A, beta, loss, reg):
    """P(M) and D(β) from their definitions, (1) and (2), with M from (3)."""
    N = len(A)
    M = np.einsum("t,tab->ab", beta, A) / (reg * N)
    margins = np.einsum("ab,tab->t", M, A)
    primal = 0.5 * reg * np.sum(M**2) + np.mean(loss.value(margins))
    dual = -np.mean(loss.conjugate(beta)) - 0.5 * reg * np.sum(M**2)
    return primal, dual


def reference_optimum(A, loss, reg):
    """The dual maximised by L-BFGS-B, and its maximiser."""
    N = len(A)
    G = np.einsum("sab,tab->st", A, A)

    def negative(beta):
        push = G @ beta / (reg * N**2)
        if loss.logistic:
            slope = np.log(beta / (1.0 - beta)) / N
        else:
            slope = (loss.smoothing * beta - 1.0) / N
        return np.mean(loss.conjugate(beta)) + 0.5 * beta @ push, slope + push

    low, high = (1e-12, 1.0 - 1e-12) if loss.logistic else (0.0, loss.upper)
    found = minimize(
        negative,
        np.full(N, 0.5),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, None if np.isinf(high) else high)] * N,
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return -found.fun, found.x


class TestKernel:
    """The compiled epoch against its twin."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("kind", ["sgd", "sdca"])
    @pytest.mark.parametrize("run", [_kernels.dual_epoch, solver._blocked_epoch])
    def test_epoch_equals_the_slow_twin(
        self, problem, triplet_matrices, rng, monkeypatch, run, name, dtype, kind
    ):
        monkeypatch.setattr(solver, "_BLOCK", 16)  # 40 triplets: two blocks and a half
        Z, triplets = problem
        Z = Z.astype(dtype)
        loss, reg, N = get_loss(name), 0.05, len(triplets)
        A = triplet_matrices(Z, triplets.index)
        if kind == "sgd":
            beta = np.zeros(N, dtype=dtype)
            reg_n, reg_step = reg, reg
            lams = reg * np.arange(1, N + 1)  # the s-th example as if there were s
        else:
            beta = rng.random(N).astype(dtype)
            reg_n, reg_step = reg * N, 0.0
            lams = np.full(N, reg * N)
        V = np.einsum("t,tab->ab", beta.astype(np.float64), A).astype(dtype)
        expected_beta, expected_V = slow_epoch(A, beta, V, lams, loss)
        assert np.mean(expected_beta != beta) > 0.3  # the epoch does move
        run(Z, triplets.index, beta, V, reg_n, reg_step, loss.logistic, loss.smoothing, loss.upper)
        # a triplet is visited once, so β holds each step's own result. float32: margins near 10
        # are rounded at 1e-6, and 40 steps pass that on
        tolerance = 1e-11 if dtype == np.float64 else 5e-5
        np.testing.assert_allclose(beta, expected_beta, rtol=0, atol=tolerance)
        scale = np.abs(expected_V).max()
        np.testing.assert_allclose(V, expected_V, rtol=0, atol=tolerance * scale)
        assert beta.dtype == V.dtype == dtype

    @pytest.mark.parametrize("name", NAMES)
    def test_each_float32_step_is_right_to_rounding(self, problem, triplet_matrices, name):
        # the twin starts every step from the kernel's own β and V, so nothing builds up
        Z, triplets = problem
        Z = Z.astype(np.float32)
        loss, lam = get_loss(name), 2.0
        A = triplet_matrices(Z, triplets.index)
        beta, V = np.zeros(len(A), np.float32), np.zeros((4, 4), np.float32)
        for _ in range(2):
            for t in range(len(A)):
                one = slice(t, t + 1)
                expected, _ = slow_epoch(A[one], beta[one], V, [lam], loss)
                _kernels.dual_epoch(
                    Z,
                    triplets.index[one],
                    beta[one],
                    V,
                    lam,
                    0.0,
                    loss.logistic,
                    loss.smoothing,
                    loss.upper,
                )
                # the margin is a sum of 16 float32 products, of which some are near 30
                np.testing.assert_allclose(beta[one], expected, rtol=0, atol=1e-5)

    def test_index_width_does_not_matter(self, problem):
        Z, triplets = problem
        assert triplets.index.dtype == np.int32
        same = Triplets(triplets.index.astype(np.int64))
        expected = solve(Z, triplets, "hinge").beta
        np.testing.assert_array_equal(solve(Z, same, "hinge").beta, expected)

    @pytest.mark.parametrize("name", NAMES)
    def test_solver_is_one_sgd_epoch_then_sdca(self, problem, triplet_matrices, name):
        Z, triplets = problem
        loss, reg, N = get_loss(name), 0.05, len(triplets)
        A = triplet_matrices(Z, triplets.index)
        found = solve(Z, triplets, name, reg=reg, max_epochs=3, rng=np.random.default_rng(7))
        orders = np.random.default_rng(7)
        beta, V = np.zeros(N), np.zeros((4, 4))
        for epoch in range(3):
            order = orders.permutation(N)
            lams = reg * (np.arange(1, N + 1) if epoch == 0 else np.full(N, N))
            beta[order], V = slow_epoch(A[order], beta[order], V, lams, loss)
        np.testing.assert_allclose(found.beta, beta, rtol=0, atol=1e-11)

    @pytest.mark.parametrize("name", NAMES)
    def test_blocks_above_100_dimensions(self, rng, random_index, monkeypatch, name):
        Z = 0.1 * rng.normal(size=(30, 101))
        triplets = Triplets(random_index(30, 300, rng))  # more than two blocks of 128
        in_blocks = solve(Z, triplets, name)
        monkeypatch.setattr(solver, "BLOCKED_ABOVE", 101)
        monkeypatch.setattr(solver, "_blocked_epoch", None)
        one_by_one = solve(Z, triplets, name)
        np.testing.assert_allclose(in_blocks.beta, one_by_one.beta, rtol=0, atol=1e-11)
        assert np.ptp(one_by_one.beta) > 0.1

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_margins_and_dual_matrix(self, problem, triplet_matrices, rng, dtype):
        Z, triplets = problem
        A = triplet_matrices(Z.astype(dtype), triplets.index)
        beta = rng.random(len(A)).astype(dtype)
        M = rng.normal(size=(4, 4))
        M = (M + M.T).astype(dtype)
        rtol = 1e-12 if dtype == np.float64 else 1e-5
        V = dual_matrix(Z.astype(dtype), triplets, beta)
        expected = np.einsum("t,tab->ab", beta.astype(np.float64), A)
        np.testing.assert_allclose(V, expected, rtol=0, atol=rtol * np.abs(expected).max())
        margins = triplet_margins(Z.astype(dtype), triplets, M)
        expected = np.einsum("ab,tab->t", M.astype(np.float64), A)
        np.testing.assert_allclose(margins, expected, rtol=0, atol=rtol * np.abs(expected).max())

    def test_margins_over_threads(self, rng, monkeypatch, random_index, triplet_matrices):
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        Z, M = rng.normal(size=(10, 2)), np.diag([1.0, -2.0])
        index = rng.permuted(np.tile(np.arange(10, dtype=np.int32), (30_001, 1)), axis=1)[:, :3]
        margins = triplet_margins(Z, Triplets(np.ascontiguousarray(index)), M)
        expected = np.einsum("ab,tab->t", M, triplet_matrices(Z, index))
        np.testing.assert_allclose(margins, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
class TestOptimality:
    @pytest.mark.parametrize("reg", [0.5, 0.02])
    def test_agrees_with_lbfgsb(self, problem, triplet_matrices, name, reg):
        Z, triplets = problem
        loss = get_loss(name)
        A = triplet_matrices(Z, triplets.index)
        optimum, beta = reference_optimum(A, loss, reg)
        found = solve(Z, triplets, name, reg=reg, max_epochs=20_000, tol=1e-9)
        assert found.gap <= 1e-9 * found.history[-1].primal
        assert optimum <= found.history[-1].primal * (1 + 1e-12)
        assert found.history[-1].dual == pytest.approx(optimum, rel=2e-9)
        # V is unique where β is not. By strong convexity ‖ΔM‖² ≤ 2·(suboptimality)/λ: a gap of
        # 1e-9 means half as many digits of V
        expected = np.einsum("t,tab->ab", beta, A)
        V = dual_matrix(Z, triplets, found.beta)
        assert np.linalg.norm(V - expected) <= 2e-4 * np.linalg.norm(expected)

    def test_weak_duality_every_epoch(self, problem, triplet_matrices, name):
        Z, triplets = problem
        loss, reg = get_loss(name), 0.05
        optimum, _ = reference_optimum(triplet_matrices(Z, triplets.index), loss, reg)
        history = solve(Z, triplets, name, reg=reg, max_epochs=60).history
        assert [epoch.epoch for epoch in history] == list(range(1, 61))
        for epoch in history:
            assert epoch.gap >= 0.0
            # the optimum is a value the reference reached: no dual value may pass it by more
            # than the reference's own distance from it
            assert epoch.dual <= optimum + 1e-11
            assert epoch.primal >= optimum - 1e-12
            assert epoch.primal - epoch.dual == pytest.approx(epoch.gap, rel=1e-9, abs=1e-13)
        duals = [epoch.dual for epoch in history]
        assert (np.diff(duals[1:]) >= -1e-13).all()  # SDCA never goes down
        assert history[-1].gap < 1e-2 * history[0].gap

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_recorded_objectives_are_the_definitions(self, problem, triplet_matrices, name, dtype):
        Z, triplets = problem
        Z = Z.astype(dtype)
        A = triplet_matrices(Z, triplets.index)
        for max_epochs in (1, 4):
            found = solve(Z, triplets, name, reg=0.05, max_epochs=max_epochs)
            last = found.history[-1]
            primal, dual = slow_objectives(
                A, found.beta.astype(np.float64), get_loss(name), reg=0.05
            )
            # float32: margins are rounded at 1e-7 of terms a few times larger
            rel = 1e-11 if dtype == np.float64 else 1e-5
            assert last.primal == pytest.approx(primal, rel=rel)
            assert last.dual == pytest.approx(dual, rel=rel)
            assert last.gap == pytest.approx(primal - dual, abs=rel * primal)
            assert found.gap == last.gap
            assert found.beta.dtype == dtype

    def test_tol_is_reached_and_stops(self, problem, name):
        Z, triplets = problem
        found = solve(Z, triplets, name, max_epochs=20_000, tol=1e-6)
        *before, last = found.history
        assert last.gap <= 1e-6 * last.primal
        assert last.epoch < 20_000
        assert len(before) == last.epoch - 1
        assert all(epoch.gap > 1e-6 * epoch.primal for epoch in before)

    def test_float32_reaches_a_small_gap(self, problem, name):
        Z, triplets = problem
        found = solve(Z.astype(np.float32), triplets, name, max_epochs=5000, tol=1e-4)
        assert found.gap <= 1e-4 * found.history[-1].primal

    def test_duals_stay_in_their_domain(self, problem, name):
        Z, triplets = problem
        for dtype in (np.float32, np.float64):
            beta = solve(Z.astype(dtype), triplets, name, max_epochs=5).beta
            assert (beta >= 0.0).all()
            assert (beta <= get_loss(name).upper).all()

    def test_triplets_that_say_nothing(self, problem, name):
        # rows 0 and 1 are equal, so A_t = 0 for (i, 0, 1): its margin is 0 whatever M is, and
        # the best β is −ℓ'(0), or anything between −ℓ'(0±)
        Z, triplets = problem
        Z = Z.copy()
        Z[1] = Z[0]
        index = np.concatenate([[[5, 0, 1], [7, 1, 0]], triplets.index]).astype(np.int32)
        expected = {"hinge": 1.0, "smoothed_hinge": 1.0, "squared_hinge": 2.0, "logistic": 0.5}
        for dtype in (np.float32, np.float64):
            found = solve(Z.astype(dtype), Triplets(index), name, max_epochs=4)
            assert np.isfinite(found.beta).all()
            assert np.isfinite(found.history).all()
            np.testing.assert_allclose(found.beta[:2], expected[name], rtol=1e-6)

    def test_only_triplets_that_say_nothing(self, name):
        found = solve(np.ones((3, 2)), Triplets(np.array([[0, 1, 2]])), name)
        assert np.isfinite(found.history).all()
        assert found.history[-1].primal == pytest.approx(float(get_loss(name).value(0.0)))
        assert found.gap == pytest.approx(0.0, abs=1e-15)

    def test_warm_start_from_the_optimum_stops_at_once(self, problem, name):
        Z, triplets = problem
        best = solve(Z, triplets, name, max_epochs=20_000, tol=1e-8)
        again = solve(Z, triplets, name, tol=2e-8, warm_start=best.beta)
        assert [epoch.epoch for epoch in again.history] == [0]
        np.testing.assert_array_equal(again.beta, best.beta)
        assert again.gap == pytest.approx(best.gap, rel=1e-6)

    def test_warm_start_goes_on_with_sdca(self, problem, triplet_matrices, name):
        Z, triplets = problem
        first = solve(Z, triplets, name, max_epochs=1)
        start = first.beta.copy()
        found = solve(
            Z, triplets, name, max_epochs=1, warm_start=start, rng=np.random.default_rng(3)
        )
        np.testing.assert_array_equal(start, first.beta)  # the user's array is not written to
        N = len(triplets)
        order = np.random.default_rng(3).permutation(N)
        A = triplet_matrices(Z, triplets.index)
        V = np.einsum("t,tab->ab", start, A)
        expected = np.empty(N)
        expected[order], _ = slow_epoch(
            A[order], start[order], V, np.full(N, 0.05 * N), get_loss(name)
        )
        np.testing.assert_allclose(found.beta, expected, rtol=0, atol=1e-11)
        assert [epoch.epoch for epoch in found.history] == [0, 1]
        assert found.history[0].dual == pytest.approx(first.history[-1].dual, rel=1e-12)

    def test_warm_start_outside_the_domain(self, problem, name):
        Z, triplets = problem
        loss = get_loss(name)
        bad = [-0.1, np.nan]
        if np.isfinite(loss.upper):
            bad += [1.1, np.inf]
        for value in bad:
            start = np.full(len(triplets), 0.5)
            start[3] = value
            with pytest.raises(ValueError, match=rf"lie in \[0, {loss.upper:g}\].*{name} loss"):
                solve(Z, triplets, name, warm_start=start)

    def test_seed_decides_every_bit(self, problem, name):
        Z, triplets = problem
        first, again, other = (
            solve(Z, triplets, name, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        assert first.beta.tobytes() == again.beta.tobytes()
        assert first.history == again.history
        assert not np.array_equal(first.beta, other.beta)


def test_one_triplet_by_hand():
    # z = (0, 1, 3) on a line: A = 9 − 1 = 8, and λN = λ. Hinge: M = 1/8 satisfies it at β = λ/64
    # where that is at most 1
    Z, triplets = np.array([[0.0], [1.0], [3.0]]), Triplets(np.array([[0, 1, 2]]))
    for reg, beta in ((16.0, 0.25), (128.0, 1.0)):
        found = solve(Z, triplets, "hinge", reg=reg, tol=1e-12)
        assert found.beta[0] == pytest.approx(beta, rel=1e-14)
        M = 8.0 * beta / reg
        assert found.history[-1].primal == pytest.approx(
            0.5 * reg * M**2 + max(0.0, 1.0 - 8.0 * M), rel=1e-12
        )
        assert len(found.history) == 1


def test_more_regularisation_gives_a_smaller_metric(problem):
    # ‖M‖ falls as λ grows, along the exact path
    Z, triplets = problem
    norms = []
    for reg in (0.01, 0.1, 1.0, 10.0):
        found = solve(Z, triplets, "hinge", reg=reg, max_epochs=20_000, tol=1e-8)
        V = dual_matrix(Z, triplets, found.beta)
        norms.append(np.linalg.norm(V) / (reg * len(triplets)))
    assert (np.diff(norms) < 0).all()


def test_stops_at_max_epochs(problem):
    Z, triplets = problem
    found = solve(Z, triplets, "hinge", max_epochs=5, tol=1e-15)
    assert [epoch.epoch for epoch in found.history] == [1, 2, 3, 4, 5]
    assert found.gap > 1e-15 * found.history[-1].primal


def test_callback_sees_every_epoch(problem):
    Z, triplets = problem
    seen = []
    found = solve(Z, triplets, "hinge", max_epochs=4, callback=seen.append)
    assert seen == found.history
    assert len(seen) == 4
    seen.clear()
    found = solve(Z, triplets, "hinge", max_epochs=2, callback=seen.append, warm_start=found.beta)
    assert [epoch.epoch for epoch in seen] == [0, 1, 2]


@pytest.mark.parametrize("shape", [(39,), (41,), (40, 1), ()])
def test_warm_start_of_the_wrong_shape(problem, shape):
    Z, triplets = problem
    with pytest.raises(ValueError, match=r"expected shape \(40,\)"):
        solve(Z, triplets, "hinge", warm_start=np.zeros(shape))
