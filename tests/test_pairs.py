"""Pairs: comparisons drawn from them, what they refuse, splits, scores and fits."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualmetric import DuOri, DuRP, Euclidean, MetricCV
from dualmetric._arrays.embedded import Embedded
from dualmetric.supervision import Comparisons, Pairs
from makers import make_classes, make_clusters


def random_pairs(y, n, rng):
    """Different pairs of rows, and whether they are of one class."""
    left, right = np.triu_indices(len(y), 1)
    chosen = rng.choice(len(left), n, replace=False)
    index = np.column_stack([left[chosen], right[chosen]])
    flip = rng.random(n) < 0.5
    index[flip] = index[flip][:, ::-1]
    return index, y[index[:, 0]] == y[index[:, 1]]


def known(pairs):
    """Pairs as a set of sorted tuples."""
    return {tuple(sorted(pair)) for pair in np.asarray(pairs).tolist()}


def compared(pairs, X, n=1000, margin=1.0, seed=0):
    checked = pairs.check(len(X))
    return checked.compare(X, n, "active", margin, np.random.default_rng(seed))


def sq(X, index):
    return ((X[index[:, 0]] - X[index[:, 1]]) ** 2).sum(axis=1)


# --- comparisons ----------------------------------------------------------------------------


class TestComparisons:
    @pytest.mark.parametrize("n", [30, 100_000])  # drawn, and listed
    @pytest.mark.parametrize("margin", [1.0, -3.0])
    def test_are_same_against_different_and_active(self, rng, n, margin):
        X, y = make_clusters(60, 4, 3)
        index, same = random_pairs(y, 300, rng)
        found = compared(Pairs(index, same), X, n, margin)
        near, far = found.index[:, :2], found.index[:, 2:]
        assert known(near) <= known(index[same])
        assert known(far) <= known(index[~same])
        assert (sq(X, far) - sq(X, near) < margin).all()
        assert len(np.unique(found.index, axis=0)) == len(found)
        every = sq(X, index[~same])[None, :] - sq(X, index[same])[:, None]
        n_active = int((every < margin).sum())
        assert 100 < n_active < every.size - 100  # the condition does cut
        assert len(found) == min(n, n_active)
        np.testing.assert_array_equal(found.margin, 1.0)

    def test_weights_multiply(self, rng):
        X, y = make_clusters(40, 4, 3)
        index, same = random_pairs(y, 100, rng)
        weight = rng.random(100) + 0.5
        weight[:5] = 0.0
        found = compared(Pairs(index, same, weight), X, 500)
        of = {tuple(sorted(pair)): w for pair, w in zip(index.tolist(), weight, strict=True)}
        expected = [
            of[tuple(sorted(line[:2]))] * of[tuple(sorted(line[2:]))]
            for line in found.index.tolist()
        ]
        np.testing.assert_allclose(found.weight, expected)
        assert not known(index[:5]) & (known(found.index[:, :2]) | known(found.index[:, 2:]))

    def test_draws_are_uniform(self, monkeypatch, rng):
        # 3 pairs that are the same and 4 that are not, all 12 comparisons active; 4 drawn of 12
        monkeypatch.setattr("dualmetric.supervision.pairs.most_listed", lambda n: 0)
        monkeypatch.setattr("dualmetric.supervision.pairs._FEWEST", 1)
        index = np.arange(14).reshape(7, 2)
        pairs = Pairs(index, [1, 1, 1, 0, 0, 0, 0]).check(14)
        X, rng = np.zeros((14, 1)), np.random.default_rng(3)
        counts = Counter()
        for _ in range(3000):
            found = pairs.compare(X, 4, "active", 1.0, rng)
            assert len(found) == 4
            counts.update(map(tuple, found.index.tolist()))
        assert len(counts) == 12
        # each is in a third of the draws: a deviation of 26, and 5 of these are 130
        assert max(abs(count - 1000) for count in counts.values()) < 130

    def test_none_active_keeps_what_was_drawn(self, rng):
        X = np.array([[0.0], [0.1], [50.0], [50.1]])
        found = compared(Pairs([[0, 1], [2, 3], [0, 2], [1, 3]], [1, 1, -1, -1]), X)
        assert len(found) == 4

    def test_what_is_found_does_not_change_later_draws(self, monkeypatch):
        monkeypatch.setattr("dualmetric.supervision.pairs.most_listed", lambda n: 0)
        monkeypatch.setattr("dualmetric.supervision.pairs._FEWEST", 1)
        X, y = make_clusters(60, 4, 3)
        pairs = Pairs(*random_pairs(y, 300, np.random.default_rng(1))).check(60)
        drawn = set()
        for margin in (-1.0, 1e9):  # one takes more rounds than the other
            rng = np.random.default_rng(0)
            pairs.compare(X, 200, "active", margin, rng)
            drawn.add(rng.random())
        assert len(drawn) == 1

    def test_seed_decides(self, rng):
        X, y = make_clusters(60, 4, 3)
        pairs = Pairs(*random_pairs(y, 300, rng))
        one, again, other = (compared(pairs, X, 200, seed=seed).index for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        assert not np.array_equal(one, other)

    @pytest.mark.parametrize("n_rows", [12, 402])  # all pairs listed, and some drawn
    def test_without_different_pairs_others_are_drawn(self, rng, n_rows):
        X, y = rng.normal(size=(n_rows, 3)), np.arange(n_rows) // 3
        index = np.column_stack([np.arange(0, n_rows, 3), np.arange(1, n_rows, 3)])
        found = compared(Pairs(index), X, 5000, margin=100.0)
        far = known(found.index[:, 2:])
        assert known(found.index[:, :2]) <= known(index)
        assert not far & known(index)
        assert all(left != right for left, right in far)
        everything = {(a, b) for a in range(n_rows) for b in range(a + 1, n_rows)}
        if n_rows == 12:
            assert far == everything - known(index)
        assert any(y[a] == y[b] for a, b in far) or n_rows > 12  # not known to be the same
        by_group = compared(Pairs(index, groups=y), X, 5000, margin=100.0)
        assert (y[by_group.index[:, 2]] != y[by_group.index[:, 3]]).all()

    def test_sparse_rows_give_the_same(self, rng):
        X, y = make_clusters(60, 4, 3)
        X *= rng.random(X.shape) < 0.7
        pairs = Pairs(*random_pairs(y, 300, rng)).check(60)
        dense, sparse = (
            pairs.compare(rows, 500, "active", 1.0, np.random.default_rng(1))
            for rows in (X, sp.csr_matrix(X))
        )
        np.testing.assert_array_equal(dense.index, sparse.index)


# --- what is refused, and what is left out --------------------------------------------------


class TestCheck:
    @pytest.mark.parametrize(
        ("index", "same", "message"),
        [
            ([[0, 1], [1, 6]], None, r"pairs\[1\] = \[1, 6\] names a row that X does not.* 0 to 5"),
            ([[0, -1]], None, r"pairs\[0\] = \[0, -1\] names a row that X does not have"),
            (
                [[0, 1], [2, 2]],
                None,
                r"pairs\[1\] = \[2, 2\] pairs a row with itself.*leave",
            ),
            ([[0, 1, 2]], None, r"pairs must be an \(N, 2\) array of row numbers \(a, b\)"),
            ([[0.0, 1.0]], None, "pairs must hold integers, the row numbers of X; got float64"),
            (np.empty((0, 2), int), None, "pairs is empty"),
            ([[0, 1], [1, 2]], [True], r"same must hold one value per pair, shape \(2,\)"),
            ([[0, 1], [1, 2]], [1, 2], r"same must hold True or 1 .*got \[1, 2\]"),
            ([[0, 1], [1, 2]], ["yes", "no"], "same must hold True or 1"),
            ([[0, 1], [1, 2]], [1.0, np.nan], "same must hold True or 1"),
            ([[0, 1], [1, 2]], [0, -1], "no pair is labelled as the same: add at least one"),
            (
                [[0, 1], [1, 2]],
                np.ma.masked_array([1, 0], mask=[0, 1]),
                "same is a masked array",
            ),
        ],
    )
    def test_errors(self, index, same, message):
        for action in (
            lambda: Pairs(index, same).check(6),
            lambda: DuRP().fit(np.eye(6), Pairs(index, same)),
            lambda: Pairs(index, same).score(Euclidean().fit(np.eye(6)).metric_, np.eye(6)),
        ):
            with pytest.raises(ValueError, match=message):
                action()

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"weight": [1.0]}, r"weight must hold one number per pair, shape \(2,\); got \(1,\)"),
            ({"weight": [1.0, -1.0]}, r"weight\[1\] = -1 is negative"),
            ({"weight": [1.0, np.nan]}, r"weight\[1\] is nan"),
            ({"weight": [0.0, 0.0]}, r"no pair is labelled as the same \(pairs of weight 0 and"),
            ({"groups": [1, 2]}, r"groups must hold one value per row, shape \(4,\); got \(2,\)"),
        ],
    )
    def test_bad_weights_and_groups(self, more, message):
        with pytest.raises(ValueError, match=message):
            Pairs([[0, 1], [2, 3]], **more).check(4)

    def test_nothing_to_compare_with(self):
        with pytest.raises(
            ValueError, match="no pair is labelled as different, and X has no other rows"
        ):
            DuRP().fit(np.eye(3), Pairs([[0, 1], [1, 2], [2, 0]]))
        with pytest.raises(ValueError, match="no pair is labelled as different"):
            DuRP().fit(np.eye(4), Pairs([[0, 1]], groups=[5, 5, 5, 5]))

    def test_contradictions_are_named_and_left_out(self):
        index = [[0, 1], [2, 3], [4, 5], [3, 2], [1, 0], [0, 2], [2, 0]]
        same = [1, 1, 1, 0, 1, 0, 1]
        with pytest.warns(
            UserWarning,
            match=r"pairs that are given both as the same and as different are left out: 2, such "
            r"as pairs\[1\] and pairs\[3\], rows 2 and 3$",
        ):
            checked = Pairs(index, same).check(6)
        np.testing.assert_array_equal(checked.index, [[0, 1], [4, 5]])
        with pytest.warns(UserWarning, match="are left out: 2"):
            DuRP(random_state=0).fit(np.eye(6), Pairs(index, same))

    def test_a_contradiction_of_weight_zero_is_none(self):
        checked = Pairs([[0, 1], [1, 0], [2, 3]], [1, 0, 0], [1, 0, 1]).check(4)
        np.testing.assert_array_equal(checked.index, [[0, 1], [2, 3]])

    def test_repeated_pairs_count_once(self):
        checked = Pairs([[3, 0], [0, 3], [1, 2], [3, 0]], [1, 1, 0, 1], [2, 5, 1, 7]).check(4)
        np.testing.assert_array_equal(checked.index, [[3, 0], [1, 2]])
        np.testing.assert_array_equal(checked.weight, [2, 1])
        assert checked.index.dtype == np.int32

    @given(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=1, max_size=25
        )
    )
    def test_against_a_dictionary(self, lines):
        lines = [line for line in lines if line[0] != line[1]]
        said = {}
        for a, b, same in lines:
            said.setdefault(frozenset((a, b)), set()).add(same)
        kept = {pair: same.pop() for pair, same in said.items() if len(same) == 1}
        if not any(kept.values()):
            return
        pairs = Pairs([line[:2] for line in lines], [line[2] for line in lines])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            checked = pairs.check(6)
        found = map(frozenset, checked.index.tolist())
        assert dict(zip(found, checked.same.tolist(), strict=True)) == kept

    @pytest.mark.parametrize("same", [[True, False], [1, -1], [1.0, 0.0], np.array([1, 0], "u1")])
    def test_kinds_of_same(self, same):
        np.testing.assert_array_equal(Pairs([[0, 1], [1, 2]], same).check(3).same, [True, False])

    def test_is_idempotent_and_leaves_what_was_given(self, rng):
        _, y = make_clusters(30, 4, 3)
        index, same = random_pairs(y, 50, rng)
        pairs = Pairs(index, same, rng.random(50), np.array(list("abc"))[y])
        once = pairs.check(30)
        assert pairs.index is index
        twice = once.check(30)
        for name in ("index", "same", "weight", "groups"):
            np.testing.assert_array_equal(getattr(once, name), getattr(twice, name))
        assert repr(once) == "<50 pairs>"


# --- splits ---------------------------------------------------------------------------------


class TestSplits:
    def parts(self, pairs, X, cv=None, seed=0):
        """Row numbers of the pairs of each part, as sets."""
        for split in pairs.splits(X, cv, "average_precision", seed):
            learned = split.train_rows[split.train.index]
            yield known(learned), split

    def test_every_pair_is_held_out_once(self, rng):
        X, y = make_clusters(60, 4, 3)
        index, same = random_pairs(y, 200, rng)
        pairs = Pairs(index, same).check(60)
        held_out = Counter()
        for learned, split in self.parts(pairs, X):
            out = known(index) - learned
            held_out.update(out)
            assert len(out) == 50
            n_same = len(known(index[same]) & out)
            assert abs(n_same - same.sum() / 4) <= 1
            scores = split.judge(X[split.train_rows], X[split.test_rows])
            tested = np.array([tuple(sorted(pair)) in out for pair in index.tolist()])
            expected = average_precision_score(same[tested], -sq(X, index[tested]))
            np.testing.assert_allclose(scores.mean(), expected)
            assert len(scores) == n_same
        assert held_out == dict.fromkeys(known(index), 1)

    @pytest.mark.parametrize("cv", [None, 3])
    def test_groups_are_held_out_whole(self, rng, cv):
        X, y = make_clusters(60, 4, 20)
        index = np.vstack(
            [
                random_pairs(y, 300, rng)[0],
                [[a, b] for a in range(60) for b in range(a) if y[a] == y[b]],
            ]
        )
        same = y[index[:, 0]] == y[index[:, 1]]
        pairs = Pairs(index, same, groups=y).check(60)
        n_splits, tested = 0, set()
        for learned, _ in self.parts(pairs, X, cv):
            out = known(index) - learned
            seen = {y[row] for pair in learned for row in pair}
            new = set(y) - seen
            assert all(y[a] in new or y[b] in new for a, b in out)
            tested |= new
            n_splits += 1
        assert n_splits == (cv or 4)
        assert tested == set(y)

    def test_splitter_is_given_pairs(self, rng):
        X, y = make_clusters(60, 4, 3)
        pairs = Pairs(*random_pairs(y, 200, rng)).check(60)
        ((learned, _),) = self.parts(pairs, X, ShuffleSplit(1, test_size=0.1, random_state=0))
        assert len(learned) == 180

    def test_without_different_pairs_random_ones_are_held_out_too(self, rng):
        X = rng.normal(size=(100, 3))
        pairs = Pairs(np.arange(100).reshape(50, 2)).check(100)
        for learned, split in self.parts(pairs, X):
            assert len(known(pairs.index) - learned) in (12, 13)
            assert not split.train.same.all()
            assert len(split.judge(None, X[split.test_rows])) in (12, 13)

    @pytest.mark.parametrize(
        ("more", "cv", "message"),
        [
            ({}, "queries", "cv='queries' does not apply to pairs.*groups"),
            ({"groups": np.zeros(60)}, None, "no fold of the groups has both same"),
        ],
    )
    def test_refused(self, rng, more, cv, message):
        X, y = make_clusters(60, 4, 3)
        pairs = Pairs(*random_pairs(y, 200, rng), **more).check(60)
        with pytest.raises(ValueError, match=message):
            list(pairs.splits(X, cv, "average_precision", 0))

    def test_too_few(self):
        pairs = Pairs([[0, 1], [1, 2], [2, 3]], [1, 1, 0]).check(4)
        with pytest.raises(ValueError, match="got 2 that are the same and 1 that are different"):
            list(pairs.splits(np.eye(4), None, "average_precision", 0))
        pairs = Pairs([[0, 1], [1, 2], [2, 3]]).check(60)
        said = r"got 3 that are the same \(and drew 1000 random pairs as different ones\)\. Add"
        with pytest.raises(ValueError, match=said):
            list(pairs.splits(np.eye(60), None, "average_precision", 0))


# --- scores ---------------------------------------------------------------------------------


class TestScore:
    def test_is_the_average_precision_of_scikit_learn(self, rng):
        X, y = make_clusters(60, 4, 3)
        index, same = random_pairs(y, 200, rng)
        model = DuRP(4, prior="identity", random_state=0).fit(X, Pairs(index, same))
        Z = model.transform(X)
        expected = average_precision_score(same, -sq(Z, index))
        np.testing.assert_allclose(model.score(X, Pairs(index, same)), expected)

    def test_of_a_metric_with_a_prior_over_sparse_rows(self, rng):
        X, y = make_clusters(60, 8, 3)
        X = X * (rng.random(X.shape) < 0.5)
        index, same = random_pairs(y, 200, rng)
        model = DuRP(3, prior="identity", random_state=0).fit(sp.csr_matrix(X), Pairs(index, same))
        distance = model.pair_distance(X[index[:, 0]], X[index[:, 1]])
        expected = average_precision_score(same, -distance)
        np.testing.assert_allclose(model.score(sp.csr_matrix(X), Pairs(index, same)), expected)

    def test_of_a_difference_of_distances(self, rng):
        P, N = rng.normal(size=(30, 4)), 0.4 * rng.normal(size=(30, 2))
        index, same = random_pairs(rng.integers(3, size=30), 100, rng)
        pairs = Pairs(index, same).check(30)
        found = pairs.values(Embedded(P, N)).mean()
        expected = average_precision_score(same, sq(N, index) - sq(P, index))
        np.testing.assert_allclose(found, expected)

    def test_without_different_pairs_is_among_random_ones(self, rng):
        X = rng.normal(size=(60, 3))
        X[1::2] = X[::2] + 0.01 * rng.normal(size=(30, 3))
        index = np.arange(60).reshape(30, 2)
        metric = Euclidean().fit(X).metric_
        assert Pairs(index).score(metric, X) > 0.99
        shifted = np.column_stack([index[:, 0], np.roll(index[:, 1], 1)])  # no two are alike
        assert Pairs(shifted).score(metric, X) < 0.3


# --- fits -----------------------------------------------------------------------------------


class TestFit:
    @pytest.mark.parametrize("prior", [None, "identity"])
    def test_equals_a_fit_from_its_comparisons(self, rng, prior):
        X, y = make_classes(60, 4, 2, spread=[1, 1, 4, 4])
        pairs = Pairs(*random_pairs(y, 300, rng), weight=rng.random(300))
        model = DuOri(prior=prior, tol=1e-10, max_epochs=2000, reg=0.01, n_triplets=400)
        model.fit(X, pairs)
        made = model.comparisons_
        assert known(made.index[:, :2]) <= known(pairs.index[pairs.same])
        assert known(made.index[:, 2:]) <= known(pairs.index[~pairs.same])
        again = clone(model).fit(X, Comparisons(made.index, None, made.weight))
        np.testing.assert_allclose(
            again.metric_.matrix(), model.metric_.matrix(), rtol=1e-4, atol=1e-5
        )

    @pytest.mark.parametrize("estimator", [DuRP(40), DuOri()])
    def test_learns(self, rng, estimator):
        X, y = make_classes(120, 4, 2, spread=[1, 1, 4, 4])
        index, same = random_pairs(y, 1000, rng)
        held_out = Pairs(*random_pairs(y, 1000, rng))
        plain = Euclidean().fit(X).score(X, held_out)
        model = clone(estimator).set_params(prior="identity", random_state=0)
        assert model.fit(X, Pairs(index, same)).score(X, held_out) > plain + 0.1

    def test_whitening_uses_pairs_of_rows_that_take_part(self, rng):
        # comparisons name few of the rows, and only those are copied
        X = rng.normal(size=(500, 3)) * [1.0, 1.0, 10.0]
        index = np.arange(500).reshape(250, 2)
        pairs = Pairs(index, np.arange(250) % 2 == 0)
        model = DuRP(3, n_triplets=20, shrinkage=0.1, random_state=0).fit(X, pairs)
        rows = model.comparisons_.rows()
        assert len(rows) < 0.3 * 500
        checked = pairs.check(500)
        within = checked.within(X[rows], rows)
        kept = [p for p in index[::2] if p[0] in rows and p[1] in rows]
        apart = np.array([X[a] - X[b] for a, b in kept])
        np.testing.assert_allclose(within.trace, (apart**2).sum(axis=1).mean())
        np.testing.assert_allclose(
            X[rows].T @ within.apply(X[rows]), apart.T @ apart / len(kept), rtol=1e-10
        )

    @pytest.mark.parametrize("kind", ["csr", "torch", "float32", "pandas"])
    def test_kinds_of_rows(self, rng, kind):
        X, y = make_clusters(80, 6, 3)
        pairs = Pairs(*random_pairs(y, 300, rng))
        rows = X
        if kind == "csr":
            rows = sp.csr_matrix(X)
        elif kind == "torch":
            rows = pytest.importorskip("torch").asarray(X)
            pairs = Pairs(*map(pytest.importorskip("torch").asarray, (pairs.index, pairs.same)))
        elif kind == "float32":
            rows = X.astype(np.float32)
        elif kind == "pandas":
            rows = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdef"))
        options = {"prior": "identity", "random_state": 0}
        expected = DuRP(6, **options).fit(X, pairs)
        model = DuRP(6, **options).fit(rows, pairs)
        if kind == "float32":
            assert model.transform(rows).dtype == np.float32
        tolerance = 2e-3 if kind == "float32" else 1e-6
        np.testing.assert_allclose(
            model.metric_.pairwise(X[:9]),
            expected.metric_.pairwise(X[:9]),
            rtol=tolerance,
            atol=tolerance,
        )
        np.testing.assert_allclose(model.score(rows, pairs), expected.score(X, pairs), atol=5e-3)

    def test_fewer_rows_than_given(self, rng):
        X, y = make_clusters(200, 4, 3)
        index, same = random_pairs(y[:40], 100, rng)
        model = DuRP(max_rows=30, prior="identity", random_state=0).fit(X, Pairs(index + 100, same))
        assert len(np.unique(index)) <= model.n_rows_used_ <= len(np.unique(index)) + 30
        assert known(model.comparisons_.index[:, :2]) <= known(index[same] + 100)

    def test_pipeline_clone_and_pickle(self, rng):
        X, y = make_clusters(60, 4, 3)
        pairs = Pairs(*random_pairs(y, 200, rng))
        model = make_pipeline(StandardScaler(), DuRP(4, prior="identity", random_state=0))
        first = clone(model).fit(X, pairs)
        again = pickle.loads(pickle.dumps(model)).fit(X, pickle.loads(pickle.dumps(pairs)))
        scaled = StandardScaler().fit_transform(X)
        alone = DuRP(4, prior="identity", random_state=0).fit(scaled, pairs.check(60))
        np.testing.assert_array_equal(first.transform(X), again.transform(X))
        np.testing.assert_array_equal(first.transform(X), alone.transform(scaled))
        assert 0 < first.score(X, pairs) <= 1

    def test_a_failed_fit_keeps_the_metric(self, rng):
        X, y = make_clusters(60, 4, 3)
        model = DuRP(prior="identity", random_state=0).fit(X, Pairs(*random_pairs(y, 200, rng)))
        before = model.metric_
        with pytest.raises(ValueError, match="names a row that X does not have"):
            model.fit(X, Pairs([[0, 60]]))
        assert model.metric_ is before


def test_the_chooser_tries_two_margins_and_four_penalties(rng):
    X, y = make_classes(120, 6, n_classes=4)
    index, same = random_pairs(y, 400, rng)
    search = MetricCV(n_triplets=300, random_state=0).fit(X, Pairs(index, same))
    tried = [one for one in search.cv_results_["params"] if one.get("prior") == "identity"]
    found = {(one["margin"], one["reg"]) for one in tried}
    assert found == {(margin, reg) for margin in (0.4, 1.0) for reg in (1e-3, 4e-3, 1e-2, 1e-1)}
