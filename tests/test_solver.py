"""The dual solver: every step against its slow twin, and solutions against other solvers."""

import numpy as np
import pytest

from dualmetric import solver
from dualmetric._arrays import kernels, ops
from dualmetric.losses import LOSSES, get_loss
from dualmetric.solver import hashes_of, random_order, solve_dual
from dualmetric.supervision import Comparisons
from twins import (
    comparison_matrices,
    dual,
    dual_step,
    inner,
    maximise_dual,
    primal,
    random_comparisons,
)

NAMES = list(LOSSES)


@pytest.fixture(params=["triplets", "comparisons"])
def problem(request, rng, random_index):
    """24 rows in 4 dimensions with 40 comparisons: some satisfied, some not, at this size of Z.

    Triplets are the paper's. Other comparisons are of up to four rows, with targets of either sign
    and weights.
    """
    Z = rng.normal(size=(24, 4)) * 0.7
    if request.param == "triplets":
        return Z, Comparisons.of_triplets(random_index(24, 40, rng))
    margin, weight = rng.normal(0.7, 1.0, size=40), rng.uniform(0.1, 3.0, size=40)
    return Z, Comparisons(random_comparisons(24, 40, rng), margin, weight)


def solve(Z, comparisons, name, **options):
    options = {"reg": 0.05, "rng": np.random.default_rng(0)} | options
    return solve_dual(Z, comparisons, get_loss(name), **options)


def slow_epoch(A, margin, weight, beta, V, lams, loss):
    """The epoch as the paper writes it: M = V/(λN), one dual variable after the other."""
    beta, V = beta.astype(np.float64), V.astype(np.float64)
    for t, lam in enumerate(lams):
        z = np.sum(V * A[t]) / lam + 1.0 - margin[t]
        curvature = np.sum(A[t] ** 2) / lam
        new = weight[t] * dual_step(loss, beta[t] / weight[t], z, weight[t] * curvature)
        V = V + (new - beta[t]) * A[t]
        beta[t] = new
    return beta, V


def orders(comparisons, seed, n_epochs):
    """The order of each epoch, as the solver draws them from a generator with this seed."""
    rng = np.random.default_rng(np.random.default_rng(seed).integers(2**63))
    return [random_order(hashes_of(comparisons.index), rng) for _ in range(n_epochs)]


def given(comparisons):
    """Targets and weights."""
    return comparisons.margin, comparisons.weight


class TestKernel:
    """The compiled epoch against its twin."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("kind", ["sgd", "sdca"])
    @pytest.mark.parametrize("run", [kernels.dual_epoch, solver._blocked_epoch])
    def test_epoch_equals_the_slow_twin(self, problem, rng, monkeypatch, run, name, dtype, kind):
        monkeypatch.setattr(ops, "steps_at_once", lambda Z: 16)  # of 40: two blocks and a half
        Z, comparisons = problem
        Z = Z.astype(dtype)
        loss, reg, N = get_loss(name), 0.05, len(comparisons)
        margin, weight = given(comparisons)
        A = comparison_matrices(Z, comparisons.index)
        if kind == "sgd":
            beta = np.zeros(N, dtype=dtype)
            reg_n, reg_step = reg, reg
            lams = reg * np.arange(1, N + 1)  # the s-th example as if there were s
        else:
            beta = (weight * rng.random(N)).astype(dtype)
            reg_n, reg_step = reg * N, 0.0
            lams = np.full(N, reg * N)
        V = np.einsum("t,tab->ab", beta.astype(np.float64), A).astype(dtype)
        expected_beta, expected_V = slow_epoch(A, margin, weight, beta, V, lams, loss)
        assert np.mean(expected_beta != beta) > 0.3  # the epoch does move
        index, constants = comparisons.index, (loss.logistic, loss.smoothing, loss.upper)
        run(Z, index, 1.0 - margin, weight, beta, V, reg_n, reg_step, *constants)
        # a comparison is visited once, so β holds each step's own result. float32: margins near 10
        # are rounded at 1e-6, and 40 steps pass that on
        tolerance = (1e-11 if dtype == np.float64 else 5e-5) * weight.max()
        np.testing.assert_allclose(beta, expected_beta, rtol=0, atol=tolerance)
        scale = np.abs(expected_V).max()
        np.testing.assert_allclose(V, expected_V, rtol=0, atol=tolerance * scale)
        assert beta.dtype == V.dtype == dtype

    @pytest.mark.parametrize("name", NAMES)
    def test_each_float32_step_is_right_to_rounding(self, problem, name):
        # the twin starts every step from the kernel's own β and V, so nothing builds up
        Z, comparisons = problem
        Z = Z.astype(np.float32)
        loss, lam = get_loss(name), 2.0
        margin, weight = given(comparisons)
        A = comparison_matrices(Z, comparisons.index)
        beta, V = np.zeros(len(A), np.float32), np.zeros((4, 4), np.float32)
        for _ in range(2):
            for t in range(len(A)):
                one = slice(t, t + 1)
                expected, _ = slow_epoch(
                    A[one], margin[one], weight[one], beta[one], V, [lam], loss
                )
                kernels.dual_epoch(
                    Z,
                    comparisons.index[one],
                    1.0 - margin[one],
                    weight[one],
                    beta[one],
                    V,
                    lam,
                    0.0,
                    loss.logistic,
                    loss.smoothing,
                    loss.upper,
                )
                # the margin is a sum of 16 float32 products, of which some are near 30
                np.testing.assert_allclose(
                    beta[one], expected, rtol=0, atol=1e-5 * max(1.0, weight[t])
                )

    def test_index_width_does_not_matter(self, problem):
        Z, comparisons = problem
        assert comparisons.index.dtype == np.int32
        same = Comparisons(comparisons.index.astype(np.int64), *given(comparisons))
        expected = solve(Z, comparisons, "hinge").beta
        np.testing.assert_array_equal(solve(Z, same, "hinge").beta, expected)

    @pytest.mark.parametrize("name", NAMES)
    def test_solver_is_one_sgd_epoch_then_sdca(self, problem, name):
        Z, comparisons = problem
        loss, reg, N = get_loss(name), 0.05, len(comparisons)
        margin, weight = given(comparisons)
        A = comparison_matrices(Z, comparisons.index)
        found = solve(Z, comparisons, name, reg=reg, max_epochs=3, rng=np.random.default_rng(7))
        beta, V = np.zeros(N), np.zeros((4, 4))
        for epoch, order in enumerate(orders(comparisons, 7, 3)):
            lams = reg * (np.arange(1, N + 1) if epoch == 0 else np.full(N, N))
            beta[order], V = slow_epoch(
                A[order], margin[order], weight[order], beta[order], V, lams, loss
            )
        np.testing.assert_allclose(found.beta, beta, rtol=0, atol=1e-11 * weight.max())

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("kind", ["triplets", "comparisons"])
    def test_blocks_above_100_dimensions(self, rng, random_index, monkeypatch, name, kind):
        Z = 0.1 * rng.normal(size=(30, 101))
        comparisons = Comparisons.of_triplets(random_index(30, 300, rng))  # 300: three blocks
        if kind == "comparisons":
            weight = rng.uniform(0.1, 3.0, size=300)
            comparisons = Comparisons(
                random_comparisons(30, 300, rng), rng.normal(0.7, 1.0, size=300), weight
            )
        in_blocks = solve(Z, comparisons, name)
        monkeypatch.setattr(solver, "BLOCKED_ABOVE", 101)
        monkeypatch.setattr(solver, "_blocked_epoch", None)
        one_by_one = solve(Z, comparisons, name)
        np.testing.assert_allclose(in_blocks.beta, one_by_one.beta, rtol=0, atol=1e-11)
        assert np.ptp(one_by_one.beta) > 0.1

    @pytest.mark.parametrize("m", [101, 4])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_several_regularisations_share_inner_products(self, rng, monkeypatch, m, dtype):
        Z = (0.2 * rng.normal(size=(30, m))).astype(dtype)
        index, margin = random_comparisons(30, 300, rng), rng.normal(0.7, 1.0, size=300)
        comparisons = Comparisons(index, margin, np.ones(300))
        regs = (0.01, 0.1, 1.0)
        expected = [solve(Z, comparisons, "hinge", reg=reg).beta for reg in regs]
        computed, gram = [], solver.Symmetric.gram
        monkeypatch.setattr(
            solver.Symmetric, "gram", lambda *given: computed.append(1) or gram(*given)
        )
        shared = {}
        for reg, beta in zip(regs, expected, strict=True):
            found = solve(Z, comparisons, "hinge", reg=reg, shared=shared)
            np.testing.assert_array_equal(found.beta, beta)
            assert found.history == []
        assert len(computed) == (9 if m > 100 else 0)  # three epochs of three blocks, once
        assert np.ptp(expected[0] - expected[2]) > 0.1

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_margins_and_dual_matrix(self, problem, rng, dtype):
        Z, comparisons = problem
        A = comparison_matrices(Z.astype(dtype), comparisons.index)
        beta = rng.random(len(A)).astype(dtype)
        M = rng.normal(size=(4, 4))
        M = (M + M.T).astype(dtype)
        rtol = 1e-12 if dtype == np.float64 else 1e-5
        V = ops.comparison_matrix(Z.astype(dtype), comparisons.index, beta)
        expected = np.einsum("t,tab->ab", beta.astype(np.float64), A)
        np.testing.assert_allclose(V, expected, rtol=0, atol=rtol * np.abs(expected).max())
        for matrix, expected in (
            (M, inner(M.astype(np.float64), A)),
            (None, np.trace(A, axis1=1, axis2=2)),
        ):
            margins = ops.margins(Z.astype(dtype), comparisons.index, matrix)
            tolerance = rtol * np.abs(expected).max()
            np.testing.assert_allclose(margins, expected, rtol=0, atol=tolerance)
            assert margins.dtype == dtype

    def test_margins_over_threads(self, rng, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        Z, M = rng.normal(size=(10, 2)), np.diag([1.0, -2.0])
        index = rng.permuted(np.tile(np.arange(10, dtype=np.int32), (30_001, 1)), axis=1)[:, :4]
        margins = ops.margins(Z, np.ascontiguousarray(index), M)
        expected = inner(M, comparison_matrices(Z, index))
        np.testing.assert_allclose(margins, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
class TestOptimality:
    @pytest.mark.parametrize("reg", [0.5, 0.02])
    def test_agrees_with_lbfgsb(self, problem, name, reg):
        Z, comparisons = problem
        loss = get_loss(name)
        A = comparison_matrices(Z, comparisons.index)
        optimum, beta = maximise_dual(A, *given(comparisons), loss, reg)
        found = solve(Z, comparisons, name, reg=reg, max_epochs=20_000, tol=1e-9)
        assert found.gap <= 1e-9 * found.history[-1].primal
        assert optimum <= found.history[-1].primal * (1 + 1e-12)
        assert found.history[-1].dual == pytest.approx(optimum, rel=2e-9)
        # V is unique where β is not. By strong convexity ‖ΔM‖² ≤ 2·(suboptimality)/λ: a gap of
        # 1e-9 means half as many digits of V
        expected = np.einsum("t,tab->ab", beta, A)
        V = ops.comparison_matrix(Z, comparisons.index, found.beta)
        assert np.linalg.norm(V - expected) <= 2e-4 * np.linalg.norm(expected)

    def test_weak_duality_every_epoch(self, problem, name):
        Z, comparisons = problem
        loss, reg = get_loss(name), 0.05
        A = comparison_matrices(Z, comparisons.index)
        optimum, _ = maximise_dual(A, *given(comparisons), loss, reg)
        history = solve(Z, comparisons, name, reg=reg, max_epochs=200).history
        assert [epoch.epoch for epoch in history] == list(range(1, 201))
        for epoch in history:
            assert epoch.gap >= 0.0
            # the optimum is a value the reference reached: no dual value may pass it by more
            # than the reference's own distance from it
            assert epoch.dual <= optimum + 1e-11
            assert epoch.primal >= optimum - 1e-12
            assert epoch.primal - epoch.dual == pytest.approx(epoch.gap, rel=1e-9, abs=1e-13)
        duals = [epoch.dual for epoch in history]
        assert (np.diff(duals[1:]) >= -1e-13).all()  # SDCA never goes down
        assert history[-1].gap < 5e-3 * history[0].gap

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_recorded_objectives_are_the_definitions(self, problem, name, dtype):
        Z, comparisons = problem
        Z = Z.astype(dtype)
        A = comparison_matrices(Z, comparisons.index)
        for max_epochs in (1, 4):
            found = solve(Z, comparisons, name, reg=0.05, max_epochs=max_epochs)
            last = found.history[-1]
            beta, problem = (
                found.beta.astype(np.float64),
                (*given(comparisons), get_loss(name), 0.05),
            )
            M = np.einsum("t,tab->ab", beta, A) / (0.05 * len(A))
            above, below = primal(M, 0.0, A, *problem), dual(beta, A, *problem)
            # float32: margins are rounded at 1e-7 of terms a few times larger
            rel = 1e-11 if dtype == np.float64 else 1e-5
            assert last.primal == pytest.approx(above, rel=rel)
            assert last.dual == pytest.approx(below, rel=rel)
            assert last.gap == pytest.approx(above - below, abs=rel * above)
            assert found.gap == last.gap
            assert found.beta.dtype == dtype

    def test_tol_is_reached_and_stops(self, problem, name):
        Z, comparisons = problem
        found = solve(Z, comparisons, name, max_epochs=20_000, tol=1e-6)
        *before, last = found.history
        assert last.gap <= 1e-6 * last.primal
        assert last.epoch < 20_000
        assert len(before) == last.epoch - 1
        assert all(epoch.gap > 1e-6 * epoch.primal for epoch in before)

    def test_float32_reaches_a_small_gap(self, problem, name):
        Z, comparisons = problem
        found = solve(Z.astype(np.float32), comparisons, name, max_epochs=5000, tol=1e-4)
        assert found.gap <= 1e-4 * found.history[-1].primal

    def test_duals_stay_in_their_domain(self, problem, name):
        Z, comparisons = problem
        for dtype in (np.float32, np.float64):
            beta = solve(Z.astype(dtype), comparisons, name, max_epochs=5).beta
            assert (beta >= 0.0).all()
            assert (beta <= get_loss(name).upper * comparisons.weight.astype(dtype)).all()

    def test_rounding_does_not_take_a_dual_beyond_its_weight(self, name, rng):
        # weights that float32 cannot hold, and targets out of reach: duals are at their bounds
        Z = 5.0 * rng.normal(size=(24, 4)).astype(np.float32)
        weight = rng.uniform(0.01, 3.0, size=200)
        comparisons = Comparisons(random_comparisons(24, 200, rng), np.full(200, 50.0), weight)
        found = solve(Z, comparisons, name, reg=50.0, max_epochs=3)
        upper = get_loss(name).upper
        if np.isfinite(upper):
            assert (found.beta > (1.0 - 1e-6) * upper * weight).any()
        assert np.isfinite(found.history).all()
        # what the solver gives, it takes
        again = solve(Z, comparisons, name, reg=50.0, max_epochs=1, warm_start=found.beta)
        np.testing.assert_array_equal(again.history[0][1:], found.history[-1][1:])
        # and duals of float64, at their bounds, for rows of float32
        if np.isfinite(upper):
            solve(Z, comparisons, name, reg=50.0, max_epochs=1, warm_start=upper * weight)

    def test_comparisons_of_equal_pairs(self, problem, name):
        # rows 0 and 1 are equal, so A_t = 0 for (i, 0, i, 1): its margin is 0 whatever M is, and
        # the best β is −w·ℓ'(1 − b), or anything between −w·ℓ'(1 − b ± 0)
        Z, comparisons = problem
        Z = Z.copy()
        Z[1] = Z[0]
        silent = [[5, 0, 5, 1], [7, 1, 7, 0], [5, 0, 1, 5], [5, 0, 5, 1]]
        index = np.concatenate([silent, comparisons.index]).astype(np.int32)
        margin = np.r_[1.0, 1.0, 1.0, -2.0, comparisons.margin]
        weight = np.r_[1.0, 1.0, 0.5, 1.0, comparisons.weight]
        slope = {"hinge": 1.0, "smoothed_hinge": 1.0, "squared_hinge": 2.0, "logistic": 0.5}[name]
        last = 1.0 / (1.0 + np.exp(3.0)) if name == "logistic" else 0.0
        for dtype in (np.float32, np.float64):
            found = solve(Z.astype(dtype), Comparisons(index, margin, weight), name, max_epochs=4)
            assert np.isfinite(found.beta).all()
            assert np.isfinite(found.history).all()
            np.testing.assert_allclose(found.beta[:3], slope * weight[:3], rtol=1e-6)
            np.testing.assert_allclose(found.beta[3], last, rtol=1e-6)

    def test_only_comparisons_of_equal_pairs(self, name):
        found = solve(np.ones((3, 2)), Comparisons.of_triplets(np.array([[0, 1, 2]])), name)
        assert np.isfinite(found.history).all()
        assert found.history[-1].primal == pytest.approx(float(get_loss(name).value(0.0)))
        assert found.gap == pytest.approx(0.0, abs=1e-15)

    def test_warm_start_from_the_optimum_stops_at_once(self, problem, name):
        Z, comparisons = problem
        best = solve(Z, comparisons, name, max_epochs=20_000, tol=1e-8)
        again = solve(Z, comparisons, name, tol=2e-8, warm_start=best.beta)
        assert [epoch.epoch for epoch in again.history] == [0]
        np.testing.assert_array_equal(again.beta, best.beta)
        assert again.gap == pytest.approx(best.gap, rel=1e-6)

    def test_warm_start_goes_on_with_sdca(self, problem, name):
        Z, comparisons = problem
        first = solve(Z, comparisons, name, max_epochs=1)
        start = first.beta.copy()
        found = solve(
            Z, comparisons, name, max_epochs=1, warm_start=start, rng=np.random.default_rng(3)
        )
        np.testing.assert_array_equal(start, first.beta)  # the user's array is not written to
        N = len(comparisons)
        (order,) = orders(comparisons, 3, 1)
        A = comparison_matrices(Z, comparisons.index)
        V = np.einsum("t,tab->ab", start, A)
        expected = np.empty(N)
        margin, weight = (values[order] for values in given(comparisons))
        expected[order], _ = slow_epoch(
            A[order], margin, weight, start[order], V, np.full(N, 0.05 * N), get_loss(name)
        )
        np.testing.assert_allclose(found.beta, expected, rtol=0, atol=1e-11 * weight.max())
        assert [epoch.epoch for epoch in found.history] == [0, 1]
        assert found.history[0].dual == pytest.approx(first.history[-1].dual, rel=1e-12)

    def test_warm_start_outside_the_domain(self, problem, name):
        Z, comparisons = problem
        loss = get_loss(name)
        bad = [-0.1, np.nan]
        if np.isfinite(loss.upper):
            bad += [1.1, np.inf]
        for value in bad:
            start = 0.5 * comparisons.weight
            start[3] = value * comparisons.weight[3]
            with pytest.raises(
                ValueError, match=rf"between 0 and {loss.upper:g} times the weight.*{name} loss"
            ):
                solve(Z, comparisons, name, warm_start=start)

    def test_seed_decides_every_bit(self, problem, name):
        Z, comparisons = problem
        first, again, other = (
            solve(Z, comparisons, name, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        assert first.beta.tobytes() == again.beta.tobytes()
        assert first.history == again.history
        assert not np.array_equal(first.beta, other.beta)


class TestOrder:
    """The random order of an epoch."""

    @pytest.mark.parametrize("n", [1, 2, 3000])
    def test_is_a_random_permutation(self, rng, n):
        hashes = hashes_of(random_comparisons(40, n, rng))
        first, second = (random_order(hashes, rng) for _ in range(2))
        np.testing.assert_array_equal(np.sort(first), np.arange(n))
        again, other = (random_order(hashes, np.random.default_rng(seed)) for seed in (1, 2))
        np.testing.assert_array_equal(again, random_order(hashes, np.random.default_rng(1)))
        if n == 3000:
            for one, two in ((first, second), (again, other), (first, np.arange(n))):
                assert abs(np.corrcoef(np.argsort(one), np.argsort(two))[0, 1]) < 5 / np.sqrt(n)

    def test_every_order_of_three_is_as_likely(self):
        """Also of comparisons whose rows hardly differ."""
        hashes = hashes_of(np.array([[0, 1, 0, 2], [0, 1, 0, 3], [0, 2, 0, 1]]))
        rng = np.random.default_rng(0)
        drawn = [tuple(random_order(hashes, rng).tolist()) for _ in range(6000)]
        counts = [drawn.count(order) for order in set(drawn)]
        assert len(counts) == 6
        assert max(abs(count - 1000) for count in counts) < 5 * np.sqrt(1000)

    def test_others_keep_their_order(self, rng):
        index = random_comparisons(40, 3000, rng)
        kept = np.sort(rng.choice(3000, size=1700, replace=False))
        order = random_order(hashes_of(index), np.random.default_rng(5))
        found = random_order(hashes_of(index[kept]), np.random.default_rng(5))
        np.testing.assert_array_equal(kept[found], order[np.isin(order, kept)])

    def test_repeated_comparisons_follow_each_other(self, rng):
        index = np.concatenate([random_comparisons(40, 50, rng)] * 3)
        order = random_order(hashes_of(index), rng)
        np.testing.assert_array_equal(order.reshape(50, 3), order[::3, None] + [0, 50, 100])

    def test_follows_from_the_numbers_of_the_rows(self, rng):
        """Rows that no comparison names do not count."""
        Z, index = rng.normal(size=(50, 4)), 2 * random_comparisons(25, 60, rng)
        comparisons = Comparisons(index, np.ones(60), np.ones(60))
        named = comparisons.rows()
        found = solve(Z[named], comparisons.take(named), "hinge", numbers=named)
        np.testing.assert_array_equal(found.beta, solve(Z, comparisons, "hinge").beta)

    def test_number_of_epochs_does_not_change_later_draws(self, problem):
        drawn = set()
        for n in (1, 4):
            rng = np.random.default_rng(0)
            solve(*problem, "hinge", max_epochs=n, rng=rng)
            drawn.add(rng.random())
        assert len(drawn) == 1


def test_one_triplet_by_hand():
    # z = (0, 1, 3) on a line: A = 9 − 1 = 8, and λN = λ. Hinge: M = 1/8 satisfies it at β = λ/64
    # where that is at most 1
    Z, comparisons = np.array([[0.0], [1.0], [3.0]]), Comparisons.of_triplets(np.array([[0, 1, 2]]))
    for reg, beta in ((16.0, 0.25), (128.0, 1.0)):
        found = solve(Z, comparisons, "hinge", reg=reg, tol=1e-12)
        assert found.beta[0] == pytest.approx(beta, rel=1e-14)
        M = 8.0 * beta / reg
        assert found.history[-1].primal == pytest.approx(
            0.5 * reg * M**2 + max(0.0, 1.0 - 8.0 * M), rel=1e-12
        )
        assert len(found.history) == 1


def test_more_regularisation_gives_a_smaller_metric(problem):
    # ‖M‖ falls as λ grows, along the exact path
    Z, comparisons = problem
    norms = []
    for reg in (0.01, 0.1, 1.0, 10.0):
        found = solve(Z, comparisons, "hinge", reg=reg, max_epochs=20_000, tol=1e-8)
        V = ops.comparison_matrix(Z, comparisons.index, found.beta)
        norms.append(np.linalg.norm(V) / (reg * len(comparisons)))
    assert (np.diff(norms) < 0).all()


def test_stops_at_max_epochs(problem):
    Z, comparisons = problem
    found = solve(Z, comparisons, "hinge", max_epochs=5, tol=1e-15)
    assert [epoch.epoch for epoch in found.history] == [1, 2, 3, 4, 5]
    assert found.gap > 1e-15 * found.history[-1].primal


def test_callback_sees_every_epoch(problem):
    Z, comparisons = problem
    seen = []
    found = solve(Z, comparisons, "hinge", max_epochs=4, callback=seen.append)
    assert seen == found.history
    assert len(seen) == 4
    seen.clear()
    found = solve(
        Z, comparisons, "hinge", max_epochs=2, callback=seen.append, warm_start=found.beta
    )
    assert [epoch.epoch for epoch in seen] == [0, 1, 2]


@pytest.mark.parametrize("shape", [(39,), (41,), (40, 1), ()])
def test_warm_start_of_the_wrong_shape(problem, shape):
    Z, comparisons = problem
    with pytest.raises(ValueError, match=r"expected shape \(40,\)"):
        solve(Z, comparisons, "hinge", warm_start=np.zeros(shape))
