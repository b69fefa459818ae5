"""QueryMetric: the bilinear problem against slow twins, the estimator against its definition."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import ndcg_score

from dualmetric import QueryMetric, solver
from dualmetric._arrays import judged, ops
from dualmetric.losses import LOSSES, get_loss
from dualmetric.solver import Bilinear, solve_dual
from dualmetric.supervision import Comparisons, Positives, Relevance, Triplets
from dualmetric.supervision.mining import mined
from twins import dual, dual_step, maximise_dual, primal

NAMES = list(LOSSES)


@pytest.fixture
def problem(rng):
    """12 queries of 3 features, 15 documents of 5, and 40 comparisons with targets and weights."""
    queries, documents = rng.normal(size=(12, 3)), rng.normal(size=(15, 5))
    far = (rng.integers(15, size=40) + rng.integers(1, 15, size=40)) % 15
    index = np.column_stack([rng.integers(12, size=40), rng.integers(15, size=40), far])
    margin, weight = rng.normal(0.7, 1.0, size=40), rng.uniform(0.1, 3.0, size=40)
    return Bilinear(queries, documents), Comparisons(index, margin, weight)


@pytest.fixture
def judgements(rng):
    """Queries of 4 features and documents of 6, which a planted map makes relevant."""
    documents = rng.normal(size=(80, 6))
    queries = rng.normal(size=(60, 4))
    best = np.argsort(-(queries @ rng.normal(size=(4, 6))) @ documents.T, axis=1)[:, :3]
    index = np.column_stack([np.repeat(np.arange(60), 3), best.ravel()])
    return documents, queries, index


def matrices(rows, index):
    """A_t = q(d⁺ − d⁻)ᵀ, written out."""
    queries, documents = (np.float64(sp.csr_array(part).toarray()) for part in rows)
    query, near, far = index.T
    return np.einsum("ti,tj->tij", queries[query], documents[near] - documents[far])


def slow_epoch(A, margin, weight, beta, V, lams, loss):
    """One dual variable after the other."""
    beta, V = beta.astype(np.float64), V.astype(np.float64)
    for t, lam in enumerate(lams):
        z = np.sum(V * A[t]) / lam + 1.0 - margin[t]
        curvature = weight[t] * np.sum(A[t] ** 2) / lam
        new = weight[t] * dual_step(loss, beta[t] / weight[t], z, curvature)
        V = V + (new - beta[t]) * A[t]
        beta[t] = new
    return beta, V


def ranking(similarity):
    return np.argsort(-similarity, axis=1, kind="stable")


class TestSolver:
    """The bilinear problem."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("kind", ["sgd", "sdca"])
    def test_epoch_equals_the_slow_twin(self, problem, rng, monkeypatch, name, dtype, kind):
        monkeypatch.setattr(ops, "steps_at_once", lambda Z: 16)  # of 40: two blocks and a half
        rows, comparisons = problem
        rows = Bilinear(*(part.astype(dtype) for part in rows))
        loss, reg, N = get_loss(name), 0.05, 40
        margin, weight = comparisons.margin, comparisons.weight
        A = matrices(rows, comparisons.index)
        beta, reg_n, reg_step = np.zeros(N, dtype=dtype), reg, reg
        lams = reg * np.arange(1, N + 1)
        if kind == "sdca":
            beta, reg_n, reg_step = (weight * rng.random(N)).astype(dtype), reg * N, 0.0
            lams = np.full(N, reg * N)
        V = np.einsum("t,tab->ab", beta.astype(np.float64), A).astype(dtype)
        expected_beta, expected_V = slow_epoch(A, margin, weight, beta, V, lams, loss)
        assert np.mean(expected_beta != beta) > 0.3
        constants = loss.logistic, loss.smoothing, loss.upper
        given = comparisons.index, 1.0 - margin, weight, beta, V, reg_n, reg_step
        solver._blocked_epoch(rows, *given, *constants)
        tolerance = (1e-11 if dtype == np.float64 else 5e-5) * weight.max()
        np.testing.assert_allclose(beta, expected_beta, rtol=0, atol=tolerance)
        scale = np.abs(expected_V).max()
        np.testing.assert_allclose(V, expected_V, rtol=0, atol=tolerance * scale)
        assert beta.dtype == V.dtype == dtype

    @pytest.mark.parametrize("kinds", [(0, 0), (0, 1), (1, 0), (1, 1)])
    def test_sums_and_margins_by_the_definition(self, problem, rng, kinds):
        rows, comparisons = problem
        rows = Bilinear(
            *(sp.csr_array(part) if k else part for part, k in zip(rows, kinds, strict=True))
        )
        A = matrices(rows, comparisons.index)
        beta, W = rng.random(40), rng.normal(size=(3, 5))
        V = rows.weighted_sum(comparisons.index, beta)
        assert isinstance(V, np.ndarray)
        np.testing.assert_allclose(V, np.einsum("t,tab->ab", beta, A), atol=1e-12)
        found = rows.margins(comparisons.index, W)
        np.testing.assert_allclose(found, np.einsum("ab,tab->t", W, A), atol=1e-12)
        u, v = rows.factors(comparisons.index)
        np.testing.assert_allclose(rows.gram(u, v), np.einsum("sab,tab->st", A, A), atol=1e-10)

    @pytest.mark.parametrize("name", NAMES)
    def test_solution_is_that_of_another_solver(self, problem, name):
        rows, comparisons = problem
        loss, A = get_loss(name), matrices(rows, comparisons.index)
        rest = comparisons.margin, comparisons.weight, loss, 0.05
        found = solve_dual(
            rows, comparisons, loss, reg=0.05, max_epochs=3000, rng=np.random.default_rng(0),
            tol=1e-10,
        )  # fmt: skip
        best, beta = maximise_dual(A, *rest)
        last = found.history[-1]
        np.testing.assert_allclose(last.dual, best, rtol=1e-7)
        np.testing.assert_allclose(last.dual, dual(found.beta.astype(float), A, *rest), rtol=1e-10)
        W = rows.weighted_sum(comparisons.index, found.beta) / (0.05 * 40)
        np.testing.assert_allclose(last.primal, primal(W, np.zeros((3, 5)), A, *rest), rtol=1e-10)
        np.testing.assert_allclose(last.gap, last.primal - last.dual, atol=1e-9)
        other = np.einsum("t,tij->ij", beta, A) / (0.05 * 40)
        np.testing.assert_allclose(W, other, atol=2e-4 * np.abs(other).max())


def test_by_inner_product_ranks_by_the_inner_product(rng):
    documents, queries = rng.normal(size=(30, 4)) * rng.random((30, 1)), rng.normal(size=(7, 4))
    for kind in (np.asarray, sp.csr_matrix):
        X = judged.by_inner_product(kind(documents), queries)
        rows = X.toarray() if sp.issparse(X) else X
        apart = ((rows[30:, None] - rows[None, :30]) ** 2).sum(axis=2)
        sums = apart + 2 * queries @ documents.T
        np.testing.assert_allclose(sums, sums[:, :1] @ np.ones((1, 30)), rtol=1e-12)


class TestFit:
    """The estimator."""

    @pytest.mark.parametrize("scale", [True, False])
    @pytest.mark.parametrize("prior", ["identity", "zero", "array"])
    def test_weights_minimise_the_objective(self, rng, scale, prior):
        D, Q = 2.0 * rng.normal(size=(20, 4)), 3.0 * rng.normal(size=(9, 4))
        index = np.column_stack([np.arange(9), np.arange(9)])
        W0 = {"identity": np.eye(4), "zero": np.zeros((4, 4)), "array": rng.normal(size=(4, 4))}
        model = QueryMetric(
            prior=W0["array"] if prior == "array" else prior, reg=0.1, margin=0.4, scale=scale,
            max_epochs=3000, tol=1e-9, random_state=0, n_triplets=60,
        ).fit(D, Positives(index, queries=Q))  # fmt: skip
        units = (1.0, 1.0)
        if scale:
            units = np.sqrt(np.mean((Q**2).sum(axis=1))), np.sqrt(ops.mean_sq_distance(D))
        found = model.comparisons_
        A = matrices((Q / units[0], D / units[1]), found.index)
        target = 0.4 - np.einsum("ab,tab->t", W0[prior], A)
        np.testing.assert_allclose(found.margin, target, atol=1e-12)
        loss = get_loss("hinge")
        best, beta = maximise_dual(A, target, found.weight, loss, 0.1)
        expected = W0[prior] + np.einsum("t,tij->ij", beta, A) / (0.1 * len(A))
        given = np.full(len(A), 0.4), found.weight, loss, 0.1
        np.testing.assert_allclose(model.weights_, expected, atol=2e-4)
        np.testing.assert_allclose(primal(model.weights_, W0[prior], A, *given), best, rtol=1e-6)
        assert np.abs(model.weights_ - W0[prior]).max() > 0.1

    def test_gap_closes(self, judgements):
        D, Q, index = judgements
        model = QueryMetric(max_epochs=60, reg=0.01, random_state=0).fit(
            D, Positives(index, queries=Q)
        )
        gaps = np.array([epoch.gap for epoch in model.history_])
        assert (model.n_iter_, model.duality_gap_) == (60, gaps[-1])
        assert gaps.min() >= 0
        assert gaps[-1] < 1e-3 * gaps[0]
        stopped = clone(model).set_params(tol=0.01).fit(D, Positives(index, queries=Q))
        assert 1 < stopped.n_iter_ < 60

    def test_large_reg_is_the_plain_inner_product(self, rng):
        D, Q = rng.normal(size=(40, 6)), rng.normal(size=(10, 6))
        index = np.column_stack([np.arange(10), np.arange(10)])
        model = QueryMetric(reg=1e12, random_state=0).fit(D, Positives(index, queries=Q))
        np.testing.assert_allclose(model.weights_, np.eye(6), atol=1e-9)
        np.testing.assert_array_equal(ranking(model.similarity(Q, D)), ranking(Q @ D.T))
        small = QueryMetric(reg=1e-3, random_state=0).fit(D, Positives(index, queries=Q))
        y = Positives(index, queries=Q)
        assert small.score(D, y) > model.score(D, y) + 0.2

    def test_widths_that_differ(self, judgements):
        D, Q, index = judgements
        train, test = index[: 3 * 40], index[3 * 40 :]
        model = QueryMetric(random_state=0).fit(D, Positives(train, queries=Q))
        assert model.weights_.shape == (4, 6)
        assert (model.n_query_features_in_, model.n_features_in_) == (4, 6)
        assert model.score(D, Positives(test, queries=Q)) > 0.8

    def test_second_fit_takes_what_the_first_ranks_high(self, judgements, monkeypatch):
        D, Q, index = judgements
        seen, solutions = [], []

        def mine(*given):
            seen.append(given)
            return mined(*given)

        def solve(rows, comparisons, *given, **more):
            solutions.append(comparisons)
            return solve_dual(rows, comparisons, *given, **more)

        monkeypatch.setattr("dualmetric.estimators.query.mined", mine)
        monkeypatch.setattr("dualmetric.estimators.query.solve_dual", solve)
        model = QueryMetric(random_state=0).fit(D, Positives(index, queries=Q, depth=5))
        assert (len(solutions), len(seen)) == (2, 1)
        # the second fit has harder comparisons; none of them with a document that was chosen
        chosen = {tuple(pair) for pair in index}
        for comparisons in solutions:
            far = comparisons.index[:, [0, 2]].tolist()
            assert not chosen & {tuple(pair) for pair in far}
        np.testing.assert_array_equal(model.comparisons_.index, solutions[1].index)
        X = seen[0][0]
        assert X.shape == (140, 7)  # documents and mapped queries, with one more feature

    @pytest.mark.parametrize("kind", ["positives", "relevance", "sparse relevance"])
    def test_kinds_of_judgements(self, judgements, kind):
        D, Q, index = judgements
        grades = np.tile([3.0, 2.0, 1.0], 60)
        y = {
            "positives": lambda: Positives(index, queries=Q),
            "relevance": lambda: Relevance(np.column_stack([index, grades]), queries=Q),
            "sparse relevance": lambda: Relevance(
                sp.csr_matrix((grades, tuple(index.T)), shape=(60, 80)), queries=Q
            ),
        }[kind]()
        model = QueryMetric(random_state=0).fit(D, y)
        truth = np.zeros((60, 80))
        truth[tuple(index.T)] = 1.0 if kind == "positives" else 2**grades - 1
        expected = ndcg_score(truth, model.similarity(Q, D), k=10)
        np.testing.assert_allclose(model.score(D, y), expected, rtol=1e-9)
        assert expected > 0.8

    @pytest.mark.parametrize("kinds", [(0, 1), (1, 0), (1, 1)])
    def test_sparse_is_dense(self, judgements, kinds):
        D, Q, index = judgements
        D, Q = np.where(np.abs(D) > 0.5, D, 0.0), np.where(np.abs(Q) > 0.5, Q, 0.0)
        dense = QueryMetric(random_state=0).fit(D, Positives(index, queries=Q))
        d, q = (sp.csr_matrix(part) if k else part for part, k in zip((D, Q), kinds, strict=True))
        sparse = QueryMetric(random_state=0).fit(d, Positives(index, queries=q))
        np.testing.assert_allclose(sparse.weights_, dense.weights_, atol=1e-9)
        np.testing.assert_allclose(sparse.similarity(q, d), dense.similarity(Q, D), atol=1e-9)
        assert sparse.score(d, Positives(index, queries=q)) == pytest.approx(
            dense.score(D, Positives(index, queries=Q)), abs=1e-9
        )

    def test_float32_stays(self, judgements):
        D, Q, index = judgements
        D, Q = D.astype(np.float32), Q.astype(np.float32)
        model = QueryMetric(random_state=0).fit(D, Positives(index, queries=Q))
        assert model.weights_.dtype == model.transform_queries(Q).dtype == np.float32
        mixed = QueryMetric(random_state=0).fit(D.astype(np.float64), Positives(index, queries=Q))
        assert mixed.weights_.dtype == np.float64

    def test_transformed_queries_ask_an_index(self, judgements):
        D, Q, index = judgements
        model = QueryMetric(random_state=0).fit(D, Positives(index, queries=Q))
        asked = model.transform_queries(Q)
        np.testing.assert_allclose(asked, Q @ model.weights_, rtol=1e-12)
        np.testing.assert_allclose(model.similarity(Q, D), asked @ D.T, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("prior", [None, "zero"])
    def test_units_do_not_matter(self, rng, prior):
        D, Q = rng.normal(size=(40, 6)), rng.normal(size=(10, 6))
        index = np.column_stack([np.arange(10), np.arange(10)])
        one, other = (
            QueryMetric(prior=prior, random_state=0).fit(c * D, Positives(index, queries=c * Q))
            for c in (1.0, 64.0)
        )
        np.testing.assert_allclose(other.weights_, one.weights_, rtol=1e-9, atol=1e-12)

    def test_same_seed_same_bits_and_max_rows(self, judgements):
        D, Q, index = judgements
        y = Positives(index[:30], queries=Q)
        one, two = (QueryMetric(random_state=3, max_rows=20).fit(D, y) for _ in range(2))
        np.testing.assert_array_equal(one.weights_, two.weights_)
        assert one.n_rows_in_ == 80
        assert one.n_rows_used_ < 60
        used = np.unique(one.comparisons_.index[:, 1:])
        assert len(used) <= one.n_rows_used_
        assert set(index[:30, 1]) <= set(used)


class TestErrors:
    """Each says what is wrong and what to do."""

    @pytest.mark.parametrize(
        ("y", "words"),
        [
            (None, "needs judgements of documents for queries.*NoneType"),
            (Triplets([[0, 1, 2]]), "needs judgements.*Triplets"),
            (np.zeros(80, dtype=int), "needs judgements.*ndarray"),
            (Positives([[0, 1]]), "y has no queries: pass them"),
        ],
    )
    def test_wrong_supervision(self, judgements, y, words):
        with pytest.raises(ValueError, match=words):
            QueryMetric().fit(judgements[0], y)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"prior": "identity"}, "same number of features; they have 4 and 6"),
            ({"prior": "unit"}, "prior must be None, 'identity', 'zero' or an array; got 'unit'"),
            ({"prior": np.eye(4)}, r"shape \(4, 6\), .*; got shape \(4, 4\)"),
            ({"prior": np.full((4, 6), np.nan)}, "prior holds NaN"),
            ({"reg": 0.0}, "reg must be a finite number above 0"),
            ({"margin": -1.0}, "margin must be a finite number above 0"),
            ({"loss": "square"}, "loss must be one of"),
        ],
    )
    def test_wrong_options(self, judgements, options, words):
        D, Q, index = judgements
        with pytest.raises(ValueError, match=words):
            QueryMetric(**options).fit(D, Positives(index, queries=Q))

    def test_rows_that_say_nothing(self, judgements):
        D, Q, index = judgements
        with pytest.raises(ValueError, match="all documents in X are the same"):
            QueryMetric().fit(np.ones_like(D), Positives(index, queries=Q))
        with pytest.raises(ValueError, match="all queries are zero"):
            QueryMetric().fit(D, Positives(index, queries=0.0 * Q))
        with pytest.raises(ValueError, match="too large or too small"):
            QueryMetric().fit(1e300 * D, Positives(index, queries=Q))

    def test_failed_fit_changes_nothing(self, judgements):
        D, Q, index = judgements
        model = QueryMetric(random_state=0).fit(D, Positives(index, queries=Q))
        before = dict(vars(model))
        with pytest.raises(ValueError, match="all queries are zero"):
            model.fit(D, Positives(index, queries=0.0 * Q))
        assert vars(model) == before

    def test_widths_are_checked_after_the_fit(self, judgements):
        D, Q, index = judgements
        model = QueryMetric(random_state=0).fit(D, Positives(index, queries=Q))
        with pytest.raises(ValueError, match="Q has 6 features, but QueryMetric is expecting 4"):
            model.transform_queries(D)
        with pytest.raises(ValueError, match="D has 4 features, but QueryMetric is expecting 6"):
            model.similarity(Q, Q)

    def test_memory(self, judgements, monkeypatch):
        D, Q, index = judgements
        monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: 1000)
        with pytest.raises(ValueError, match=r"4 × 6 similarity of QueryMetric.*TruncatedSVD"):
            QueryMetric().fit(D, Positives(index, queries=Q))
