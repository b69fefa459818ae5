"""Relevance: graded judgements, their weights by nDCG, and what is refused."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score

from dualmetric import DuRP, Euclidean
from dualmetric.supervision import Positives, Relevance
from dualmetric.supervision._judged import MOST


def make_judgements(n_queries=20, n_documents=60, d=4, seed=0):
    """Documents, queries and judgements of grades 0 to 3, about eight for each query."""
    rng = np.random.default_rng(seed)
    D, Q = rng.normal(size=(n_documents, d)), rng.normal(size=(n_queries, d))
    grades = rng.integers(0, 4, size=(n_queries, n_documents))
    judged = rng.random(grades.shape) < 8 / n_documents
    judged[:, 0], grades[:, 0] = True, 2
    query, document = np.nonzero(judged)
    return D, Q, np.column_stack([query, document, grades[query, document]])


def in_fit(kind, D, Q):
    checked = kind.check(len(D))
    X = np.vstack([D, Q])
    return X, checked.take(np.arange(len(X)))


def ndcg(order, grade):
    """nDCG over the whole ranking, from its definition."""
    gains = 2.0**grade - 1
    discounts = 1 / np.log2(np.arange(len(grade)) + 2)
    return (gains[order] * discounts).sum() / (np.sort(gains)[::-1] * discounts).sum()


class TestComparisons:
    def compared(self, rng, **options):
        D, Q, rows = make_judgements()
        X, known = in_fit(Relevance(rows, Q, **options), D, Q)
        return D, Q, rows, known.compare(X, 100_000, "active", 1.0, rng)

    def test_are_all_pairs_of_different_grades(self, rng):
        D, Q, rows, found = self.compared(rng, depth=5, n_negatives=10_000)
        grade = {(q, d): g for q, d, g in rows.tolist()}
        expected = set()
        for q in range(20):
            relevant = {d for (a, d), g in grade.items() if a == q and g > 0}
            ranking = np.argsort(((D - Q[q]) ** 2).sum(axis=1)).tolist()
            near = [d for d in ranking if d not in relevant][:5]
            others = set(near) | {d for a, d in grade if a == q}
            expected |= {
                (q + 60, one, q + 60, other)
                for one in relevant
                for other in others
                if grade[q, one] > grade.get((q, other), 0)
            }
        assert set(map(tuple, found.index.tolist())) == expected
        # a document that was judged 0 and is mined too is drawn as two

    def test_weights_are_the_change_in_ndcg(self, rng):
        D, Q, rows, found = self.compared(rng, depth=8, n_negatives=25)
        change = []
        for query, near, _, far in found.index.tolist():
            q = query - 60
            grade = np.zeros(60)
            grade[rows[rows[:, 0] == q, 1]] = rows[rows[:, 0] == q, 2]
            order = np.argsort(((D - Q[q]) ** 2).sum(axis=1), kind="stable")
            exchanged = order.copy()
            one, other = np.flatnonzero(order == near)[0], np.flatnonzero(order == far)[0]
            exchanged[[one, other]] = order[[other, one]]
            change.append(abs(ndcg(exchanged, grade) - ndcg(order, grade)))
        np.testing.assert_allclose(found.weight, change / np.mean(change), rtol=1e-8)
        assert found.weight.max() > 3 * np.median(found.weight)

    def test_number_per_relevant_document(self, rng):
        _, _, rows, found = self.compared(rng, n_negatives=6)
        wanted = 6 * np.bincount(rows[rows[:, 2] > 0, 0], minlength=20)
        counts = np.bincount(found.index[:, 0] - 60)
        assert (counts <= wanted).all()
        assert (counts > wanted // 2).all()

    def test_one_grade_is_positives(self, rng):
        D, Q, rows = make_judgements()
        rows = rows[rows[:, 2] > 0]
        rows[:, 2] = 1
        kinds = Relevance(rows, Q, depth=9), Positives(rows[:, :2], Q, depth=9)
        graded, clicked = (
            known.compare(X, 10_000, "active", 1.0, np.random.default_rng(0))
            for X, known in (in_fit(kind, D, Q) for kind in kinds)
        )
        np.testing.assert_array_equal(graded.index, clicked.index)


class TestCheck:
    @pytest.mark.parametrize("make", [sp.csr_matrix, sp.coo_array, sp.csc_array])
    def test_matrices_and_rows_are_the_same(self, make):
        _, Q, rows = make_judgements()
        query, document, grade = rows.T
        matrix = make((grade, (query, document)), shape=(20, 60))
        given = Relevance(matrix, Q)
        assert len(given) == len(Relevance(rows, Q)) == len(rows)
        assert repr(given) == f"<{len(rows)} grades>"
        one, other = given.check(60), Relevance(rows, Q).check(60)
        assert len(one) == len(other)
        triples = [
            sorted(zip(*k.index.T.tolist(), k.grade.tolist(), strict=True)) for k in (one, other)
        ]
        assert triples[0] == triples[1]

    @pytest.mark.parametrize(
        ("grades", "message"),
        [
            ([[0, 9, 1]], r"grades\[0\] = \[0, 9\] names document 9, which .* from 0 to 3"),
            ([[0, 1, 1], [3, 1, 1]], r"grades\[1\] = \[3, 1\] names query 3, which .* from 0 to 1"),
            ([[0, 1]], r"grades must be a sparse matrix of queries × documents, or an \(N, 3\)"),
            ([["a", "b", "c"]], "grades must be a sparse matrix"),
            ([[0, 1.5, 1]], r"grades\[0\] = \[0.0, 1.5, 1.0\]: query and document must be whole"),
            ([[0, np.inf, 1]], "query and document must be whole numbers"),
            ([[np.nan, 1, 1]], "query and document must be whole numbers"),
            ([[0, 1, 2.0], [0, 2, np.nan]], r"grade\[1\] is nan: all numbers must be finite"),
            ([[0, 1, 2], [0, 2, -1]], r"grades\[1\] has the grade -1: grades start at 0"),
            ([[0, 1, MOST + 1]], r"grades\[0\] has the grade 51: gains are 2\^grade − 1"),
            (
                [[0, 1, 0], [1, 2, 0]],
                "no query has a relevant document: all grades are 0",
            ),
            (
                [[0, 1, 2], [1, 0, 1], [0, 1, 1]],
                r"grades\[0\] and grades\[2\] give the same query and document \[0, 1\] two "
                "grades, 2 and 1: keep one",
            ),
            (np.ma.masked_array([[0, 1, 1]], mask=[[0, 0, 1]]), "grades is a masked array"),
            (sp.csr_matrix((4, 2)), r"grades must be a matrix of 2 queries × 4 documents; got"),
            (sp.csr_matrix((2, 4)), "grades is empty"),
        ],
    )
    def test_errors(self, grades, message):
        kind = Relevance(grades, queries=np.zeros((2, 4)))
        for action in (lambda: kind.check(4), lambda: DuRP().fit(np.eye(4), kind)):
            with pytest.raises(ValueError, match=message):
                action()

    def test_other_width_and_itself(self):
        with pytest.raises(ValueError, match=r"queries have 3 features and X has 4.*QueryMetric"):
            DuRP().fit(np.eye(4), Relevance([[0, 1, 1]], queries=np.zeros((2, 3))))
        with pytest.raises(ValueError, match=r"grades\[0\] = \[1, 1\] says that a row is relevant"):
            Relevance([[1, 1, 2]]).check(4)

    def test_queries_without_positives_are_counted_and_left_out(self):
        rows = [[0, 1, 2], [1, 1, 0], [1, 2, 0], [3, 0, 1], [2, 3, 0], [0, 3, 0]]
        with pytest.warns(UserWarning, match="queries without a relevant document are left out: 2"):
            checked = Relevance(rows, queries=np.zeros((4, 2))).check(4)
        np.testing.assert_array_equal(checked.index, [[0, 1], [3, 0], [0, 3]])
        np.testing.assert_array_equal(checked.grade, [2, 1, 0])
        again = checked.check(4)  # without a warning
        np.testing.assert_array_equal(again.index, checked.index)
        np.testing.assert_array_equal(again.grade, checked.grade)

    def test_the_same_judgement_twice_counts_once(self):
        checked = Relevance([[0, 1, 2], [0, 1, 2]], queries=np.zeros((1, 2))).check(4)
        np.testing.assert_array_equal(checked.index, [[0, 1]])


class TestSplits:
    def test_no_relevant_held_out_document_is_judged_in_training(self):
        rng = np.random.default_rng(0)
        rows = [[q, 2 * q, 2] for q in range(12)] + [[q, 2 * q + 1, 1] for q in range(12)]
        rows += [[q, d, 0] for q, d in rng.integers([12, 24], size=(60, 2)) if d // 2 != q]
        rows = np.unique(rows, axis=0)
        D, Q = np.zeros((24, 1)), np.zeros((12, 1))
        X, known = in_fit(Relevance(rows, Q), D, Q)
        splits = list(known.splits(X, "documents", "ndcg", 0))
        assert len(splits) == 4
        for split in splits:
            learned = split.train_rows[split.train.index]
            queries = set(learned[:, 0].tolist())
            out = set(range(24, 36)) - queries
            assert len(out) == 3
            relevant = {2 * (q - 24) for q in out} | {2 * (q - 24) + 1 for q in out}
            assert not set(learned[:, 1].tolist()) & relevant
            assert (split.train.grade > 0).sum() == 18  # all that the others find relevant
            assert (split.train.grade == 0).any()


class TestFit:
    @pytest.mark.parametrize("name", ["ndcg", "map", "recall", "precision", "hit_rate"])
    def test_scores_by_their_definitions(self, name):
        D, Q, rows = make_judgements()
        X, known = in_fit(Relevance(rows, Q), D, Q)
        expected = []
        for q in range(20):
            grade = np.zeros(60)
            grade[rows[rows[:, 0] == q, 1]] = rows[rows[:, 0] == q, 2]
            distance = ((D - Q[q]) ** 2).sum(axis=1)
            right = grade[np.argsort(distance)] > 0
            share = np.cumsum(right) / np.arange(1, 61)
            expected.append(
                {
                    "ndcg": ndcg_score([2**grade - 1], [-distance], k=10),
                    "map": share[right].mean(),
                    "recall": right[:10].sum() / right.sum(),
                    "precision": right[:10].mean(),
                    "hit_rate": right[:10].any(),
                }[name]
            )
        np.testing.assert_allclose(known.scores(X, name), expected)
        if name == "ndcg":
            model = Euclidean().fit(D)
            np.testing.assert_allclose(model.score(D, Relevance(rows, Q)), np.mean(expected))

    def test_learns_grades(self, rng):
        # what is relevant is told by the first two features, and the last is noise
        D, Q = rng.normal(size=(100, 3)), rng.normal(size=(60, 3))
        D[:, 2] *= 3
        Q[:, 2] *= 3
        apart = ((Q[:, None, :2] - D[None, :, :2]) ** 2).sum(axis=2)
        order = np.argsort(apart, axis=1)
        rows = np.array([(q, order[q, r], 3 - r) for q in range(60) for r in range(4)])
        train, test = Relevance(rows[:160], Q), Relevance(rows[160:], Q)
        plain = Euclidean().fit(D).score(D, test)
        model = DuRP(3, prior="identity", random_state=0)
        assert model.fit(D, train).score(D, test) > plain + 0.1
        again = pickle.loads(pickle.dumps(train.check(100)))  # as a refit gives it back
        same = DuRP(3, prior="identity", random_state=0).fit(D, again)
        np.testing.assert_array_equal(same.components_, model.components_)

    @pytest.mark.parametrize("kind", ["csr", "torch", "float32"])
    def test_kinds_of_rows(self, kind):
        D, Q, rows = make_judgements()
        expected = DuRP(4, prior="identity", random_state=0).fit(D, Relevance(rows, Q))
        d, q = D, Q
        if kind == "csr":
            d = sp.csr_matrix(D)
        elif kind == "torch":
            torch = pytest.importorskip("torch")
            d, q = torch.asarray(D), torch.asarray(Q)
        else:
            d, q = D.astype(np.float32), Q.astype(np.float32)
        model = DuRP(4, prior="identity", random_state=0).fit(d, Relevance(rows, q))
        tolerance = 5e-3 if kind == "float32" else 1e-6
        np.testing.assert_allclose(
            model.metric_.pairwise(D[:9]),
            expected.metric_.pairwise(D[:9]),
            rtol=tolerance,
            atol=tolerance,
        )

    def test_fewer_rows_than_documents(self):
        D, Q, rows = make_judgements(10, 500)
        model = DuRP(4, prior="identity", max_rows=50, random_state=0).fit(D, Relevance(rows, Q))
        judged = np.unique(rows[:, 1])
        assert len(judged) <= model.n_rows_used_ <= 50 + len(judged)
        assert (np.unique(model.comparisons_.index[:, 0]) == np.arange(500, 510)).all()
