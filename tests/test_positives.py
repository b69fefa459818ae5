"""Positives: comparisons with mined negatives, what is refused, splits, scores and fits."""

import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualmetric import DuOri, DuRP, Euclidean
from dualmetric.supervision import Comparisons, Positives, mine_negatives


def make_clicks(n_queries=30, n_documents=80, d=5, per_query=2, seed=0):
    """Documents and queries whose first two features agree; the last is noise and large."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(n_documents, d))
    index = np.array(
        [(q, c) for q in range(n_queries) for c in rng.choice(n_documents, per_query, False)]
    )
    Q = D[index[::per_query, 1]] + 0.3 * rng.normal(size=(n_queries, d))
    for rows in (D, Q):
        rows[:, -1] = 3 * rng.normal(size=len(rows))
    return D, Q, index


def in_fit(kind, D, Q=None):
    """Rows and supervision as a fit sees them: queries are rows below the documents."""
    checked = kind.check(len(D))
    if Q is None:
        return D, checked
    X = np.vstack([D, Q])
    return X, checked.take(np.arange(len(X)))


def as_set(index):
    return set(map(tuple, np.asarray(index).tolist()))


# --- comparisons ----------------------------------------------------------------------------


class TestComparisons:
    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("relative_margin", [None, 0.05])
    def test_are_clicked_against_mined(self, rng, own, relative_margin):
        D, Q, index = make_clicks()
        if own:
            index, Q = index[index[:, 0] != index[:, 1]], None
        options = {"depth": 10, "relative_margin": relative_margin}
        X, known = in_fit(Positives(index, Q, n_negatives=1000, **options), D, Q)
        found = known.compare(X, 100_000, "active", 1.0, rng)
        mined = mine_negatives(D, index, Q, **options).pairs
        shift = 0 if own else len(D)
        expected = {
            (q + shift, near, q + shift, far)
            for q, near in index.tolist()
            for other, far in mined.tolist()
            if other == q
        }
        assert as_set(found.index) == expected
        assert len(found) == len(expected)  # none twice
        np.testing.assert_array_equal(found.weight, 1.0)
        np.testing.assert_array_equal(found.margin, 1.0)

    def test_number_per_relevant_document(self, rng):
        D, Q, index = make_clicks(per_query=3)
        X, known = in_fit(Positives(index, Q, depth=20, n_negatives=7), D, Q)
        found = known.compare(X, 100_000, "active", 1.0, rng)
        counts = Counter(found.index[:, 0].tolist())
        assert len(counts) == 30
        assert 15 < np.mean(list(counts.values())) < max(counts.values()) <= 21
        assert len(as_set(found.index)) == len(found)
        fewer = known.compare(X, 40, "active", 1.0, rng)
        assert len(fewer) == 40

    def test_draws_are_uniform(self):
        # two documents of one query against five: 10 comparisons, of which up to 6 are drawn
        D = np.arange(7.0)[:, None]
        X, known = in_fit(Positives([[0, 1], [0, 3]], [[0.0]], n_negatives=3), D, np.zeros((1, 1)))
        generator, counts, total = np.random.default_rng(1), Counter(), 0
        for _ in range(2000):
            found = known.compare(X, 100, "active", 1.0, generator)
            counts.update(as_set(found.index))
            total += len(found)
        assert len(counts) == 10
        expected = total / 10  # about 937, with a deviation of 22
        assert max(abs(count - expected) for count in counts.values()) < 100

    def test_one_negative_less_changes_one_query(self):
        D, Q, index = make_clicks()
        _, known = in_fit(Positives(index, Q, depth=5), D, Q)
        mined = mine_negatives(D, index, Q, depth=5).pairs + np.array([len(D), 0])
        for n in (1000, 291):  # all 300, and some of these
            found = []
            for negatives in (mined, np.delete(mined, 7, axis=0)):
                drawn = known._drawn(negatives, n, np.random.default_rng(0))
                found.append(as_set(np.column_stack(drawn[:3])))
            gone, new = found[0] - found[1], found[1] - found[0]
            assert {line[0] for line in gone} == {mined[7, 0]}
            assert len(gone) == 2  # with each of two clicks
            assert len(new) == (0 if n == 1000 else 2)

    def test_every_document_relevant(self):
        with pytest.raises(ValueError, match=r"no query has two documents to compare.*give other"):
            DuRP().fit(np.eye(3), Positives([[0, 0], [0, 1], [0, 2]], queries=np.ones((1, 3))))

    def test_all_too_close(self):
        D = np.array([[0.0], [1.0], [5.0]])
        with pytest.raises(ValueError, match="relative_margin=None"):
            DuRP().fit(D, Positives([[0, 2]], queries=[[0.5]], relative_margin=0.1))


# --- what is refused ------------------------------------------------------------------------


class TestCheck:
    @pytest.mark.parametrize(
        ("index", "message"),
        [
            ([[0, 1], [2, 1]], r"positives\[1\] = \[2, 1\] names query 2, which .* from 0 to 1"),
            ([[0, 1], [9, 1]], r"positives\[1\] = \[9, 1\] names query 9, which .* from 0 to 1"),
            ([[0, 4]], r"positives\[0\] = \[0, 4\] names document 4, which .* from 0 to 3"),
            ([[-1, 0]], "names query -1, which does not exist"),
            ([[0.0, 1.0]], "positives must hold integers"),
            ([0, 1], r"positives must be an \(N, 2\) array of row numbers \(query, document\)"),
            (np.empty((0, 2), int), "positives is empty"),
            (np.ma.masked_array([[0, 1]], mask=[[0, 1]]), "positives is a masked array"),
        ],
    )
    def test_bad_index(self, index, message):
        with pytest.raises(ValueError, match=message):
            Positives(index, queries=np.zeros((2, 4))).check(4)
        with pytest.raises(ValueError, match=message):
            DuRP().fit(np.eye(4), Positives(index, queries=np.zeros((2, 4))))

    def test_a_row_with_itself(self):
        with pytest.raises(ValueError, match=r"positives\[1\] = \[2, 2\] says that a row is rel"):
            Positives([[0, 1], [2, 2]]).check(4)
        Positives([[0, 1], [2, 2]], queries=np.zeros((3, 4))).check(4)  # two different rows

    def test_other_width(self):
        with pytest.raises(ValueError, match=r"queries have 3 features and X has 4.*QueryMetric"):
            DuRP().fit(np.eye(4), Positives([[0, 1]], queries=np.zeros((2, 3))))

    @pytest.mark.parametrize(
        ("queries", "message"),
        [
            ([[np.nan, 1.0]], "queries contains NaN"),
            ([1.0, 2.0], "Expected 2D array, got 1D"),
            (np.zeros((0, 2)), "minimum of 1 is required"),
        ],
    )
    def test_bad_queries(self, queries, message):
        with pytest.raises(ValueError, match=message):
            Positives([[0, 1]], queries=queries).check(2)

    @pytest.mark.parametrize("n", [3, 8])
    def test_groups_of_wrong_length(self, n):
        with pytest.raises(ValueError, match=r"groups must hold one value per query, shape \(5,\)"):
            Positives([[0, 1]], queries=np.zeros((5, 2)), groups=np.zeros(n)).check(
                8 if n < 8 else 3
            )

    def test_repeated_clicks_count_once(self):
        checked = Positives([[0, 1], [2, 0], [0, 1]]).check(3)
        np.testing.assert_array_equal(checked.index, [[0, 1], [2, 0]])

    def test_is_idempotent(self, rng):
        _, Q, index = make_clicks()
        once = Positives(index, Q, groups=np.arange(30) // 2).check(80)
        twice = once.check(80)
        for name in ("index", "grade", "groups", "n_documents"):
            np.testing.assert_array_equal(getattr(once, name), getattr(twice, name))
        assert twice.queries is once.queries
        assert repr(twice) == "<60 positives>"

    def test_a_failed_fit_keeps_the_metric(self):
        D, Q, index = make_clicks()
        model = DuRP(prior="identity", random_state=0).fit(D, Positives(index, Q))
        before = model.metric_
        with pytest.raises(ValueError, match="names query 30"):
            model.fit(D, Positives([[30, 0]], Q))
        assert model.metric_ is before


# --- splits ---------------------------------------------------------------------------------


def parts(kind, X, cv, seed=0):
    """Pairs (query, document) learned from, of the rows of X, and the split."""
    for split in kind.splits(X, cv, "ndcg", seed):
        yield as_set(split.train_rows[split.train.index]), split


class TestSplits:
    @pytest.mark.parametrize("cv", ["queries", 3, KFold(5)])
    def test_every_query_is_held_out_once(self, cv):
        D, Q, index = make_clicks()
        X, known = in_fit(Positives(index, Q), D, Q)
        everything, seen = as_set(known.index), Counter()
        for learned, split in parts(known, X, cv):
            assert learned < everything
            queries = {q for q, _ in learned}
            out = {q for q, _ in everything} - queries
            assert learned == {pair for pair in everything if pair[0] in queries}
            assert set(split.test_rows) == set(range(80)) | out
            assert set(split.train_rows) == set(range(80)) | queries
            seen.update(out)
            assert not split.guard
        assert seen == dict.fromkeys(range(80, 110), 1)

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 19)), min_size=8, max_size=25))
    def test_documents_are_never_shared(self, pairs):
        index = np.array(pairs)
        if len(np.unique(index[:, 0])) < 4:
            return
        D, Q = np.zeros((20, 1)), np.zeros((10, 1))
        X, known = in_fit(Positives(index, Q), D, Q)
        everything = as_set(known.index)
        # components by joining sets until nothing changes
        components = [{("q", q), ("d", d)} for q, d in everything]
        joined = True
        while joined:
            joined = False
            for one in components:
                for other in components:
                    if one is not other and one & other:
                        one |= other
                        components.remove(other)
                        joined = True
                        break
                if joined:
                    break
        if len(components) == 1:
            with pytest.raises(ValueError, match=r"every query shares documents.*cv='queries'"):
                list(known.splits(X, "documents", "ndcg", 0))
            return
        held_out = Counter()
        for learned, _ in parts(known, X, "documents"):
            tested = everything - learned
            assert tested
            assert not {d for _, d in learned} & {d for _, d in tested}
            for component in components:  # whole in one part
                pairs_of = {pair for pair in everything if ("q", pair[0]) in component}
                assert pairs_of <= learned or pairs_of <= tested
            held_out.update({q for q, _ in tested})
        assert held_out == dict.fromkeys({q for q, _ in everything}, 1)

    def test_rows_that_query_each_other_stay_together(self):
        # 0 and 1 are clicked for each other: one pair, written twice
        index = np.array([[2 * i, 2 * i + 1] for i in range(8)])
        index = np.vstack([index, index[:, ::-1]])
        known = Positives(index).check(16)
        for learned, _ in parts(known, np.zeros((16, 1)), "documents"):
            assert all((d, q) in learned for q, d in learned)
            assert 0 < len(learned) < 16

    def test_by_default_both_are_measured(self):
        D, Q, index = make_clicks(per_query=1)
        X, known = in_fit(Positives(index, Q), D, Q)
        splits = list(known.splits(X, None, "ndcg", 0))
        assert [split.guard for split in splits] == [False] * 4 + [True] * 4
        index = np.column_stack([np.arange(30), np.zeros(30, int)])  # one document for all
        X, known = in_fit(Positives(index, Q), D, Q)
        assert [split.guard for split in known.splits(X, None, "ndcg", 0)] == [False] * 4

    @pytest.mark.parametrize("cv", ["queries", 3, GroupKFold(3), "documents"])
    def test_groups_stay_whole(self, cv):
        D, Q, index = make_clicks(per_query=1, n_documents=200)
        groups = np.arange(30) % 7
        X, known = in_fit(Positives(index, Q, groups=groups), D, Q)
        n = 0
        for learned, _ in parts(known, X, cv):
            seen = {groups[q - 200] for q, _ in learned}
            out = {groups[q - 200] for q, _ in as_set(known.index) - learned}
            assert not seen & out
            n += 1
        assert n == (3 if not isinstance(cv, str) else 4)

    def test_many_held_out_queries_are_thinned_but_not_learned_from(self, monkeypatch):
        monkeypatch.setattr("dualmetric.supervision._judged.MOST_HELD_OUT", 3)
        D, Q, index = make_clicks(per_query=1)
        X, known = in_fit(Positives(index, Q), D, Q)
        for learned, split in parts(known, X, "queries"):
            assert len(split.test_rows) - 80 in (2, 3)
            assert len(learned) in (22, 23)
            assert len(split.judge(None, X[split.test_rows])) == len(split.test_rows) - 80

    def test_scores_are_those_of_the_held_out_queries(self):
        D, Q, index = make_clicks()
        X, known = in_fit(Positives(index, Q), D, Q)
        for _, split in parts(known, X, "queries"):
            scores = split.judge(X[split.train_rows], X[split.test_rows])
            asked = split.test_rows[split.test_rows >= 80] - 80
            expected = [ndcg_by_scikit_learn(D, Q[q], index[index[:, 0] == q, 1]) for q in asked]
            np.testing.assert_allclose(scores, expected)

    def test_refused(self):
        D, Q, index = make_clicks()
        X, known = in_fit(Positives(index, Q), D, Q)
        with pytest.raises(ValueError, match="cv must be None, 'queries', 'documents', a number"):
            list(known.splits(X, "classes", "ndcg", 0))
        X, few = in_fit(Positives(index[:6], Q), D, Q)
        with pytest.raises(
            ValueError, match=r"at least four queries with a relevant document .* got 3"
        ):
            list(few.splits(X, None, "ndcg", 0))
        X, one = in_fit(Positives(index, Q, groups=np.zeros(30)), D, Q)
        with pytest.raises(ValueError, match="all queries are of one group"):
            list(one.splits(X, "queries", "ndcg", 0))


# --- scores and fits ------------------------------------------------------------------------


def ndcg_by_scikit_learn(D, q, relevant):
    truth = np.zeros(len(D))
    truth[relevant] = 1.0
    return ndcg_score([truth], [-((D - q) ** 2).sum(axis=1)], k=10)


class TestFit:
    def test_score(self):
        D, Q, index = make_clicks()
        kind = Positives(index, Q)
        for estimator in (Euclidean(), Euclidean("cosine"), DuRP(5, prior="identity")):
            model = estimator.fit(D, kind)
            Z, W = model.transform(D), model.transform(Q)
            expected = [
                ndcg_by_scikit_learn(Z, W[q], index[index[:, 0] == q, 1]) for q in range(30)
            ]
            np.testing.assert_allclose(model.score(D, kind), np.mean(expected))

    def test_score_over_sparse_rows_with_a_prior(self):
        D, Q, index = make_clicks()
        kind = Positives(index, sp.csr_matrix(Q))
        model = DuRP(3, prior="identity", random_state=0).fit(sp.csr_matrix(D), kind)
        D2 = model.metric_.pairwise(Q, D)
        truth = np.zeros(D2.shape)
        truth[tuple(index.T)] = 1.0
        expected = ndcg_score(truth, -D2, k=10)
        np.testing.assert_allclose(model.score(sp.csr_matrix(D), kind), expected)

    def test_learns(self):
        D, Q, index = make_clicks(100, 200, per_query=1)
        train, test = Positives(index[:70], Q), Positives(index[70:], Q)
        plain = Euclidean().fit(D).score(D, test)
        for estimator in (DuRP(5), DuOri()):
            model = estimator.set_params(prior="identity", random_state=0).fit(D, train)
            assert model.score(D, test) > plain + 0.2

    @pytest.mark.parametrize("prior", [None, "identity"])
    def test_equals_a_fit_from_its_comparisons(self, prior):
        D, Q, index = make_clicks()
        model = DuOri(prior=prior, tol=1e-10, max_epochs=2000, reg=0.01, random_state=0)
        model.fit(D, Positives(index, Q, depth=10, n_negatives=8))
        made = model.comparisons_
        queries = made.index[:, 0]
        np.testing.assert_array_equal(queries, made.index[:, 2])
        assert as_set(np.column_stack([queries - 80, made.index[:, 1]])) <= as_set(index)
        again = clone(model).fit(np.vstack([D, Q]), Comparisons(made.index))
        np.testing.assert_allclose(
            again.metric_.matrix(), model.metric_.matrix(), rtol=1e-3, atol=1e-4
        )

    def test_queries_among_the_rows(self):
        D, _, index = make_clicks()
        options = {"prior": "identity", "random_state": 0}
        index = index[index[:, 0] != index[:, 1]]
        model = DuRP(5, **options).fit(D, Positives(index))
        assert model.comparisons_.index.max() < 80
        assert model.n_rows_used_ == model.n_rows_in_ == 80

    @pytest.mark.parametrize("kind", ["csr", "torch", "float32", "pandas", "polars"])
    def test_kinds_of_rows(self, kind):
        D, Q, index = make_clicks()
        options = {"prior": "identity", "random_state": 0}
        expected = DuRP(5, **options).fit(D, Positives(index, Q))
        d, q = D, Q
        if kind == "csr":
            d, q = sp.csr_array(D), sp.csr_array(Q)
        elif kind == "torch":
            torch = pytest.importorskip("torch")
            d, q = torch.asarray(D), torch.asarray(Q)
        elif kind == "float32":
            d = D.astype(np.float32)  # queries follow
        else:
            frames = pytest.importorskip(kind)
            names = list("abcde")
            d, q = (frames.DataFrame(dict(zip(names, A.T, strict=True))) for A in (D, Q))
            q = q[names[::-1]]  # columns are taken by name
        model = DuRP(5, **options).fit(d, Positives(index, q))
        tolerance = 5e-3 if kind == "float32" else 1e-6
        np.testing.assert_allclose(
            model.metric_.pairwise(D[:9]),
            expected.metric_.pairwise(D[:9]),
            rtol=tolerance,
            atol=tolerance,
        )
        np.testing.assert_allclose(
            model.score(d, Positives(index, q)), expected.score(D, Positives(index, Q)), atol=0.02
        )
        if kind == "float32":
            assert model.transform(d).dtype == model.metric_.factor.dtype == np.float32

    def test_missing_columns_of_queries(self):
        pandas = pytest.importorskip("pandas")
        D, Q, index = make_clicks()
        d, q = (pandas.DataFrame(A, columns=list("abcde")) for A in (D, Q))
        with pytest.raises(ValueError, match="queries"):
            DuRP().fit(d, Positives(index, q.drop(columns="c")))

    def test_fewer_rows_than_documents(self):
        D, Q, index = make_clicks(10, 300)
        model = DuRP(5, prior="identity", max_rows=40, random_state=0)
        model.fit(D, Positives(index, Q, depth=1000))
        judged = np.unique(index[:, 1])
        assert len(judged) <= model.n_rows_used_ <= 40 + len(judged)
        named = np.unique(model.comparisons_.index[:, [1, 3]])
        assert set(named) >= set(judged)
        assert named.max() < 300
        np.testing.assert_array_equal(
            np.unique(model.comparisons_.index[:, 0]), np.arange(300, 310)
        )

    def test_pipeline_clone_and_pickle(self):
        D, _, index = make_clicks()
        kind = Positives(index[index[:, 0] != index[:, 1]])
        model = make_pipeline(StandardScaler(), DuRP(5, prior="identity", random_state=0))
        first = clone(model).fit(D, kind)
        again = pickle.loads(pickle.dumps(model)).fit(D, pickle.loads(pickle.dumps(kind.check(80))))
        np.testing.assert_array_equal(first.transform(D), again.transform(D))

    def test_scatter_is_that_of_queries_and_their_documents(self):
        D, Q, index = make_clicks()
        X, known = in_fit(Positives(index, Q), D, Q)
        rows = np.unique(known.index[:20])
        within = known.within(X[rows], rows)
        kept = [(q, d) for q, d in known.index.tolist() if q in rows and d in rows]
        apart = np.array([X[q] - X[d] for q, d in kept])
        np.testing.assert_allclose(
            X[rows].T @ within.apply(X[rows]), apart.T @ apart / len(kept), rtol=1e-10
        )
