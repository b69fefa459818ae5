"""Labels, triplets and comparisons: what they refuse, choose, split and score; and sampling."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import LeaveOneOut, StratifiedKFold, cross_val_score

from dualmetric import LMNN, DuRP, Euclidean, Metric, MetricCV, Whitening, mean_average_precision
from dualmetric._arrays import ops, triplets
from dualmetric.supervision import Comparisons, Labels, Split, Triplets, as_supervision, sampling
from dualmetric.supervision.sampling import _distinct, sample_triplets
from makers import make_clusters


def all_triples(y):
    """Every triple of two rows of one class and one of another, by three loops."""
    n = len(y)
    return {
        (i, j, k)
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if i != j and y[i] == y[j] and y[k] != y[i]
    }


def active_triples(X, y, margin=1.0):
    """Those of them with ‖x_i − x_k‖² − ‖x_i − x_j‖² < margin."""
    return {
        (i, j, k)
        for i, j, k in all_triples(y)
        if ((X[i] - X[k]) ** 2).sum() - ((X[i] - X[j]) ** 2).sum() < margin
    }


def as_set(triplets):
    rows = [tuple(row) for row in triplets.tolist()]
    assert len(set(rows)) == len(rows), "a triplet occurs twice"
    return set(rows)


class TestActive:
    @pytest.mark.parametrize("n_rows", [4, 60, 3_000_000])  # the last does not fit into 64 bits
    def test_repeated_triplets_are_dropped(self, rng, n_rows):
        drawn = rng.integers(n_rows, size=(200, 3))
        drawn = np.concatenate([drawn, drawn[:70], drawn[20:40]])
        expected = list(dict.fromkeys(map(tuple, drawn.tolist())))
        np.testing.assert_array_equal(_distinct(drawn, n_rows), expected)
        assert _distinct(drawn[:0], n_rows).shape == (0, 3)

    def test_sampled_triplets_are_active_and_distinct(self, rng):
        X, y = make_clusters(60, 3, 4)
        found = sample_triplets(X, y, 500, "active", rng)
        assert len(found) == 500
        triples = as_set(found)
        active = active_triples(X, y)
        assert len(active) > 2 * 500  # so these were drawn, not listed
        assert triples <= active
        assert len(active) < len(all_triples(y)) - 1000  # and the condition does cut

    def test_margin_is_the_threshold(self, rng):
        X, y = make_clusters(60, 3, 4)
        found = sample_triplets(X, y, 500, "active", rng, margin=-4.0)
        assert as_set(found) <= active_triples(X, y, margin=-4.0)
        assert not as_set(sample_triplets(X, y, 500, "active", rng)) <= active_triples(X, y, -4.0)

    @pytest.mark.parametrize("n_triplets", [400, 3000, 100_000])  # 400: drawn, the others listed
    def test_fewer_than_asked_for_gives_all_of_them_and_says_so(self, rng, n_triplets):
        X, y = make_clusters(18, 3, 3, apart=1.5)
        active = active_triples(X, y)
        assert 0 < len(active) < 400
        assert 2 * 400 < len(all_triples(y)) < 2 * 3000
        with pytest.warns(
            UserWarning, match=rf"only {len(active):,} active .* n_triplets={n_triplets:,};"
        ):
            found = sample_triplets(X, y, n_triplets, "active", rng)
        assert as_set(found) == active

    def test_exactly_as_many_as_asked_for_is_silent(self, rng):
        X, y = make_clusters(18, 3, 3, apart=0.0)
        active = active_triples(X, y)
        n_triplets = len(active)
        assert len(all_triples(y)) <= 2 * n_triplets
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = sample_triplets(X, y, n_triplets, "active", rng)
        assert as_set(found) == active

    def test_rare_active_triplets_are_found_when_few_are_wanted(self, rng):
        # 1 in 100 is active and 5 are wanted: a budget in proportion to 5 would miss them
        X = rng.normal(size=(60, 2))
        X[:30] += 4.0
        y = np.repeat([0, 1], 30)
        active = active_triples(X, y)
        assert 0 < len(active) < 0.03 * len(all_triples(y))
        found = sample_triplets(X, y, 5, "active", rng)
        assert len(found) == 5
        assert as_set(found) <= active

    @pytest.mark.parametrize("n_triplets", [3, 10_000])  # drawn, and listed
    def test_none_active_says_why_and_takes_neighbors(self, rng, n_triplets):
        y = np.repeat([0, 1], 10)
        X = rng.normal(size=(20, 2)) + 100.0 * y[:, None]
        with pytest.warns(
            UserWarning,
            match=r"no active triplet.*all sampled rows of the same class.*nearest neigh",
        ):
            found = sample_triplets(X, y, n_triplets, "active", rng)
        everything = as_set(sample_triplets(X, y, 10_000, "neighbors", rng))
        assert len(found) == min(n_triplets, len(everything))
        assert as_set(found) <= everything

    def test_what_is_found_does_not_change_later_draws(self, monkeypatch):
        monkeypatch.setattr(sampling, "_BATCH", 100)
        X, y = make_clusters(60, 3, 4)
        drawn = set()
        for margin in (-4.0, 1.0):  # one takes more batches than the other
            rng = np.random.default_rng(0)
            sample_triplets(X, y, 500, "active", rng, margin=margin)
            drawn.add(rng.random())
        assert len(drawn) == 1

    def test_draws_are_uniform_over_the_candidates(self):
        # one row alone in its class: a negative only. 2·1·4 + 3·2·3 = 26 other candidates
        y = np.array([0, 1, 2, 1, 0, 1])
        counts = dict.fromkeys(all_triples(y), 0)
        classes = sampling._Classes(y)
        draws = classes.draw(20_000, np.random.default_rng(1))
        for triple in draws.tolist():
            counts[tuple(triple)] += 1  # KeyError: not a candidate
        # anchor, positive and negative are each uniform, given those before
        expected = {
            (i, j, k): 20_000 / 5 / (np.sum(y == y[i]) - 1) / np.sum(y != y[i])
            for i, j, k in counts
        }
        statistic = sum((counts[t] - expected[t]) ** 2 / expected[t] for t in counts)
        # χ² with 25 degrees of freedom has mean 25 and deviation 7; 60 is its 0.9999 quantile
        assert len(counts) == 26
        assert statistic < 60.0

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_comparisons_by_parts(self, rng, dtype, monkeypatch):
        y = rng.integers(5, size=300)
        X = rng.normal(size=(300, 7)).astype(dtype) + 10.0
        classes = sampling._Classes(y)
        index = classes.draw(5000, rng)
        expected = ops.margins(X, index[:, [0, 1, 0, 2]])
        monkeypatch.setattr(triplets, "_PART", X.nbytes // 10)
        for most in (256, 3):  # parts: eleven, and three
            monkeypatch.setattr(triplets, "_MOST_PARTS", most)
            compare = triplets.comparer(X, classes.place)
            assert_allclose(compare(index), expected, rtol=1e-4 if dtype == np.float32 else 1e-11)
            assert len(compare(index[:0])) == 0

    def test_many_rows_are_compared_by_parts(self, monkeypatch):
        X, y = make_clusters(400, 5, 4)
        monkeypatch.setattr(sampling, "ALL_PAIRS_ROWS", 100)
        drawn = []
        for most_bytes in (X.nbytes, X.nbytes // 7):
            monkeypatch.setattr(triplets, "_PART", most_bytes)
            drawn.append(sample_triplets(X, y, 3000, "active", np.random.default_rng(2)))
        assert_array_equal(*drawn)

    def test_listing_is_every_candidate_once(self, rng):
        y = rng.integers(4, size=15)
        y[3] = 9
        classes = sampling._Classes(y)
        listed = [tuple(row) for row in classes.all().tolist()]
        assert len(listed) == len(set(listed)) == classes.count()
        assert set(listed) == all_triples(y)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n_triplets", [200, 5000])  # drawn, and listed
    def test_csr_equals_dense(self, rng, dtype, n_triplets):
        X, y = make_clusters(24, 5, 3)
        X = (X * (rng.random(X.shape) < 0.6)).astype(dtype)
        drawn = []
        for rows in (X, sp.csr_matrix(X), sp.csr_array(X)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                drawn.append(
                    sample_triplets(rows, y, n_triplets, "active", np.random.default_rng(5))
                )
        np.testing.assert_array_equal(drawn[0], drawn[1])
        np.testing.assert_array_equal(drawn[0], drawn[2])


class TestNeighbors:
    def brute_force(self, X, y, rows=None, k=10):
        """Each row's k nearest of its class × its k nearest of the others, by a double loop."""
        rows = range(len(y)) if rows is None else rows
        triples = set()
        for i in rows:
            near = sorted((((X[i] - X[j]) ** 2).sum(), j) for j in rows if j != i)
            same = [j for _, j in near if y[j] == y[i]][:k]
            other = [j for _, j in near if y[j] != y[i]][:k]
            triples |= {(i, j, k) for j in same for k in other}
        return triples

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_equals_brute_force(self, rng, dtype, sparse):
        X, y = make_clusters(70, 3, 4)
        y[:3] = [7, 8, 8]  # classes of one row and of two
        X = X.astype(dtype)
        found = sample_triplets(sp.csr_matrix(X) if sparse else X, y, 100_000, "neighbors", rng)
        assert as_set(found) == self.brute_force(X.astype(np.float64), y)
        assert not (found[:, :2] == 0).any()
        assert (found[:, 2] == 0).any()

    def test_fewer_wanted_is_a_subset_of_that_size(self, rng):
        X, y = make_clusters(70, 3, 4)
        found = sample_triplets(X, y, 300, "neighbors", rng)
        assert len(found) == 300
        assert as_set(found) <= self.brute_force(X, y)

    def test_blocks_of_distances(self, rng, monkeypatch):
        X, y = make_clusters(90, 3, 4)
        whole = ops.sq_distance_blocks
        monkeypatch.setattr(ops, "sq_distance_blocks", lambda X: whole(X, 37 * 90 * 8))
        assert [len(block) for _, block in ops.sq_distance_blocks(X)] == [37, 37, 16]
        found = sample_triplets(X, y, 100_000, "neighbors", rng)
        assert as_set(found) == self.brute_force(X, y)

    def test_more_rows_than_the_limit(self, rng, monkeypatch):
        X, y = make_clusters(70, 3, 4)
        monkeypatch.setattr(sampling, "_MAX_REFERENCE_ROWS", 40)
        found = sample_triplets(X, y, 100_000, "neighbors", np.random.default_rng(3))
        rows = np.unique(found)
        assert len(rows) <= 40
        assert rows.max() >= 40  # from all of X, not its first rows
        # every chosen row is an anchor (each has a row of its class and of others among the 40)
        anchors = np.unique(found[:, 0])
        assert len(anchors) == 40
        assert as_set(found) == self.brute_force(X, y, rows=anchors.tolist())

    def test_limit_that_leaves_no_pair(self, rng, monkeypatch):
        monkeypatch.setattr(sampling, "_MAX_REFERENCE_ROWS", 2)
        y = np.array([0, 1] * 10)
        # the two rows are of one class (no negative) or of two (no positive): never a triplet
        with pytest.raises(ValueError, match="use sampler='active'"):
            sample_triplets(rng.normal(size=(20, 2)), y, 10, "neighbors", rng)


@pytest.mark.parametrize("sampler", sampling.SAMPLERS)
class TestBoth:
    @pytest.mark.parametrize("n_triplets", [150, 4000])
    def test_labels_are_respected(self, rng, sampler, n_triplets):
        X, y = make_clusters(30, 3, 3, apart=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            index = sample_triplets(X, y, n_triplets, sampler, rng)
        i, j, k = index.T
        assert (i != j).all()
        assert (y[i] == y[j]).all()
        assert (y[i] != y[k]).all()

    def test_labels_may_be_strings(self, rng, sampler):
        X, y = make_clusters(30, 3, 3, apart=0.5)
        names = np.array(["pear", "fig", "apple"])[y]
        drawn = sample_triplets(X, names, 100, sampler, np.random.default_rng(2))
        i, j, k = drawn.T
        assert (names[i] == names[j]).all()
        assert (names[i] != names[k]).all()

    @pytest.mark.parametrize("n_triplets", [60, 4000])
    def test_a_row_alone_in_its_class_is_only_a_negative(self, rng, sampler, n_triplets):
        X, y = make_clusters(16, 3, 2, apart=0.0)
        y[5] = 99
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            index = sample_triplets(X, y, n_triplets, sampler, rng)
        assert not (index[:, :2] == 5).any()
        assert (index[:, 2] == 5).any()

    def test_seed_decides(self, rng, sampler):
        X, y = make_clusters(60, 3, 3, apart=0.5)
        first, again, other = (
            sample_triplets(X, y, 200, sampler, np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert as_set(first) != as_set(other)

    def test_one_class(self, rng, sampler):
        with pytest.raises(ValueError, match="only one class"):
            sample_triplets(rng.normal(size=(6, 2)), np.zeros(6), 10, sampler, rng)

    def test_every_class_of_one_row(self, rng, sampler):
        with pytest.raises(ValueError, match="every class in y has only one row"):
            sample_triplets(rng.normal(size=(6, 2)), np.arange(6), 10, sampler, rng)

    def test_index_is_compact(self, rng, sampler):
        X, y = make_clusters(30, 3, 3, apart=0.5)
        index = sample_triplets(X, y, 100, sampler, rng)
        assert index.dtype == np.int32
        assert index.flags.c_contiguous


def test_unknown_sampler_lists_the_known_ones(rng):
    with pytest.raises(ValueError, match=r"one of active, neighbors; got 'hard'"):
        sample_triplets(np.zeros((4, 1)), np.array([0, 0, 1, 1]), 5, "hard", rng)


# --- triplets and comparisons: what they refuse ---------------------------------------------


class TestTriplets:
    def test_keeps_the_triples(self):
        given = [[3, 0, 1], [0, 1, 2], [3, 0, 1]]
        triplets = Triplets(given).check(4)
        assert type(triplets) is Triplets
        assert len(triplets) == 3
        assert repr(triplets) == "<3 triplets>"
        np.testing.assert_array_equal(triplets.index, given)
        np.testing.assert_array_equal(triplets.rows(), [0, 1, 2, 3])

    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
    def test_any_integers_any_layout(self, dtype):
        given = np.array([[0, 1, 2], [2, 0, 1]], dtype=dtype)
        for array in (given, np.asfortranarray(given), np.repeat(given, 2, axis=0)[::2]):
            index = Triplets(array).check(3).index
            np.testing.assert_array_equal(index, given)
            assert index.flags.c_contiguous
            assert index.dtype == np.int32

    def test_row_numbers_that_need_64_bits(self):
        most = np.iinfo(np.int32).max
        assert Triplets([[0, 1, most - 1]]).check(most).index.dtype == np.int32
        wide = Triplets([[0, 1, most + 5]]).check(most + 6)
        assert wide.index.dtype == np.int64
        assert wide.index[0, 2] == most + 5

    def test_is_a_copy_of_what_the_user_may_change(self):
        given = np.array([[0, 1, 2]], dtype=np.int32)
        triplets = Triplets(given).check(3)
        given[0, 0] = 2
        assert triplets.index[0, 0] == 0

    @pytest.mark.parametrize(
        ("triples", "message"),
        [
            ([0, 1, 2], r"triplets must be an \(N, 3\) array of row numbers.*got shape \(3,\)"),
            ([[0, 1]], r"got shape \(1, 2\)"),
            ([[0, 1, 2, 3]], r"\(anchor, positive, negative\); got shape \(1, 4\)"),
            ([[[0, 1, 2]]], r"got shape \(1, 1, 3\)"),
            (np.empty((0, 3), dtype=int), "triplets is empty: give at least one"),
            ([[0.0, 1.0, 2.0]], "triplets must hold integers, the row numbers of X; got float64"),
            ([[True, False, True]], "must hold integers.*bool"),
            ([["a", "b", "c"]], "must hold integers.* replace ids by the positions of their rows"),
            ([[0, 1, 2], [3]], r"array of row numbers.*got lines of different lengths"),
            ([], "triplets is empty: give at least one"),
            ({0: [1, 2]}, r"array of row numbers.*got dict"),
            ([[1, 2, 3], [2, 3, 5]], r"from 0 to 4\. If yours start at 1, subtract 1"),
            ([[100, 101, 102]], r"from 0 to 4\. They are positions, not ids or labels of an index"),
            ([[0, 1, 2], [1, 2, 5]], r"triplets\[1\] = \[1, 2, 5\].*from 0 to 4"),
            ([[0, 1, -1]], r"triplets\[0\] = \[0, 1, -1\].*from 0 to 4"),
            ([[0, 1, 2], [3, 3, 2]], r"triplets\[1\].*anchor and positive are the same.*leave it"),
            ([[3, 1, 3]], "anchor and negative are the same"),
            ([[3, 1, 1]], "positive and negative are the same"),
            (np.ma.masked_array([[0, 1, 2]], mask=[[0, 0, 1]]), "triplets is a masked array"),
        ],
    )
    def test_errors(self, triples, message):
        with pytest.raises(ValueError, match=message):
            Triplets(triples).check(5)
        with pytest.raises(ValueError, match=message):
            DuRP().fit(np.eye(5), Triplets(triples))

    def test_are_comparisons_with_one_row_in_common(self, rng):
        triplets = Triplets([[3, 0, 1], [0, 1, 2]]).check(4)
        found = triplets.compare(np.eye(4), 100, "active", 1.0, rng)
        assert type(found) is Comparisons
        np.testing.assert_array_equal(found.index, [[3, 0, 3, 1], [0, 1, 0, 2]])
        np.testing.assert_array_equal(found.margin, [1.0, 1.0])
        np.testing.assert_array_equal(found.weight, [1.0, 1.0])


class TestComparisons:
    def test_keeps_what_is_given(self):
        given = [[3, 0, 1, 2], [0, 1, 0, 2]]
        checked = Comparisons(given, [0.5, -2], [1, 3]).check(4)
        assert len(checked) == 2
        assert repr(checked) == "<2 comparisons>"
        np.testing.assert_array_equal(checked.index, given)
        assert checked.index.dtype == np.int32
        np.testing.assert_array_equal(checked.margin, [0.5, -2.0])
        np.testing.assert_array_equal(checked.weight, [1.0, 3.0])
        assert checked.margin.dtype == checked.weight.dtype == np.float64

    @pytest.mark.parametrize(("margin", "expected"), [(None, 1.0), (0.25, 0.25), ([2, 2], 2.0)])
    def test_margins_may_be_one_number(self, margin, expected):
        checked = Comparisons([[0, 1, 2, 3], [0, 1, 0, 2]], margin).check(4)
        np.testing.assert_array_equal(checked.margin, [expected, expected])
        np.testing.assert_array_equal(checked.weight, [1.0, 1.0])

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            ([0, 1, 2, 3], r"comparisons must be an \(N, 4\) array of row numbers \(a, b, c, d\)"),
            ([[0, 1, 2]], r"got shape \(1, 3\)"),
            (
                np.empty((0, 4), dtype=int),
                r"comparisons is empty: give at least one \(a, b, c, d\)",
            ),
            ([[0.0, 1.0, 2.0, 3.0]], "comparisons must hold integers.*got float64"),
            ([[0, 1, 2, 3], [0, 1, 2, 5]], r"comparisons\[1\] = \[0, 1, 2, 5\].*from 0 to 4"),
            ([[0, 1, 2, -3]], r"comparisons\[0\] = \[0, 1, 2, -3\] names a row that X does not"),
            ([[0, 1, 2, 3], [1, 1, 2, 3]], r"comparisons\[1\].*a and b are the same row.*leave it"),
            ([[0, 1, 3, 3]], r"comparisons\[0\] = \[0, 1, 3, 3\]: c and d are the same row"),
            (np.ma.masked_array([[0, 1, 2, 3]], mask=[[0, 0, 1, 0]]), "comparisons is a masked"),
        ],
    )
    def test_bad_index(self, index, message):
        with pytest.raises(ValueError, match=message):
            Comparisons(index).check(5)
        with pytest.raises(ValueError, match=message):
            DuRP().fit(np.eye(5), Comparisons(index))

    @pytest.mark.parametrize("name", ["margin", "weight"])
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([1.0, np.nan], r"{}\[1\] is nan: all numbers must be finite"),
            ([np.inf, 1.0], r"{}\[0\] is inf: all numbers must be finite"),
            ([1.0], r"{} must hold one number per comparison, shape \(2,\); got \(1,\)"),
            ([[1.0], [1.0]], r"{} must hold one number per comparison.*got \(2, 1\)"),
            (["a", "b"], r"{} must hold numbers; got"),
            ([1j, 1.0], r"{} must hold numbers; got complex128"),
            (np.ma.masked_array([1.0, 2.0], mask=[0, 1]), "{} is a masked array"),
        ],
    )
    def test_bad_margins_and_weights(self, name, values, message):
        with pytest.raises(ValueError, match=message.format(name)):
            Comparisons([[0, 1, 2, 3], [0, 1, 0, 2]], **{name: values}).check(4)

    def test_negative_weight(self):
        with pytest.raises(
            ValueError, match=r"weight\[1\] = -0\.5 is negative: weights must be at least 0"
        ):
            Comparisons([[0, 1, 2, 3]] * 2, weight=[1, -0.5]).check(4)

    def test_those_that_say_nothing_are_left_out(self):
        index = [[0, 1, 2, 3], [0, 1, 1, 0], [2, 3, 0, 1], [0, 1, 0, 2], [2, 3, 2, 3]]
        margin, weight = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 1.0, 0.0, 2.0, 1.0]
        with pytest.warns(UserWarning, match=r"2 of 5 comparisons compare a pair .* are left out"):
            checked = Comparisons(index, margin, weight).check(4)
        np.testing.assert_array_equal(checked.index, [index[0], index[3]])
        np.testing.assert_array_equal(checked.margin, [1.0, 4.0])
        np.testing.assert_array_equal(checked.weight, [1.0, 2.0])

    @pytest.mark.parametrize(
        ("index", "weight"), [([[0, 1, 1, 0]], None), ([[0, 1, 2, 3]], 0.0), ([[0, 1, 2, 3]], [0])]
    )
    def test_nothing_is_said(self, index, weight):
        with pytest.raises(ValueError, match=r"every comparison .* there is nothing to learn from"):
            Comparisons(index, weight=weight).check(4)

    def test_one_warning_for_a_fit(self):
        with pytest.warns(UserWarning, match="compare a pair") as seen:
            DuRP(2, random_state=0).fit(
                np.eye(4), Comparisons([[0, 1, 1, 0], [0, 1, 2, 3], [1, 2, 3, 0]])
            )
        assert len([one for one in seen if "compare a pair" in str(one.message)]) == 1


def test_what_y_stands_for():
    for kind in (Labels([0, 1, 0]), Triplets([[0, 1, 2]]), Comparisons([[0, 1, 0, 2]])):
        assert type(as_supervision(kind, 3, "DuRP")) is type(kind)
    assert type(as_supervision(["a", "b", "a"], 3, "DuRP")) is Labels
    with pytest.raises(ValueError, match=r"DuRP requires y to be passed.*Triplets\(index\)"):
        as_supervision(None, 3, "DuRP")
    with pytest.raises(ValueError, match="2 labels for 3 rows"):
        as_supervision([0, 1], 3, "DuRP")


# --- parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
def test_take_names_the_same_rows(rng, kind):
    index = np.array([[40, 7, 90, 12], [7, 40, 12, 90], [90, 12, 40, 7]])
    if kind is Triplets:
        known = Triplets(index[:, :3]).check(100)
    else:
        known = Comparisons(index, [1, 2, 3], [3, 2, 1]).check(100)
    rows = known.rows()
    np.testing.assert_array_equal(rows, [7, 12, 40, 90])
    more = np.union1d(rows, [3, 50, 99])
    X = rng.normal(size=(100, 2))
    for numbers in (rows, more):
        taken = known.take(numbers)
        assert type(taken) is kind
        np.testing.assert_array_equal(X[numbers][taken.index], X[known.index])
    if kind is Comparisons:
        np.testing.assert_array_equal(taken.margin, known.margin)
        np.testing.assert_array_equal(taken.weight, known.weight)


def test_take_of_labels():
    labels = Labels(np.array(["a", "b", "c", "a"])).check(4)
    np.testing.assert_array_equal(labels.take(np.array([0, 3])).y, ["a", "a"])
    assert repr(labels) == "<4 labels>"


@pytest.mark.parametrize("max_rows", [50, 500])
def test_choose_keeps_every_row_that_is_named(rng, max_rows):
    known = Comparisons(rng.permuted(np.tile(np.arange(40), (30, 1)), axis=1)[:, :4]).check(1000)
    rows = known.choose(1000, max_rows, rng)
    assert (np.diff(rows) > 0).all()
    assert set(known.rows()) <= set(rows)
    assert max_rows <= len(rows) <= max_rows + len(known.rows())
    assert len(known.choose(1000, None, rng)) == 1000
    # evenly over all: each tenth of the rows has its share, but for those that are named
    counts = np.histogram(rows, np.arange(0, 1001, 100))[0]
    assert counts.min() >= max_rows // 10


def test_choose_of_labels_keeps_rare_classes(rng):
    y = np.zeros(5000, dtype=int)
    y[rng.choice(5000, 60, replace=False)] = np.repeat([1, 2, 3], 20)
    labels = Labels(y).check(5000)
    rows = labels.choose(5000, 100, rng)
    assert (np.diff(rows) > 0).all()
    assert 100 <= len(rows) <= 200
    assert (np.bincount(y[rows]) >= 10).all()
    np.testing.assert_array_equal(labels.choose(5000, None, rng), np.arange(5000))
    np.testing.assert_array_equal(labels.choose(5000, 5000, rng), np.arange(5000))


# --- splits ---------------------------------------------------------------------------------


def parts_of(supervision, X, cv=None, scoring=None, seed=0):
    parts = list(supervision.splits(X, cv, scoring or supervision.scorings[0], seed))
    for part in parts:
        assert isinstance(part, Split)
        assert (np.diff(part.train_rows) > 0).all()
        assert (np.diff(part.test_rows) > 0).all()
    return parts


class TestSplitsOfLabels:
    def test_quarters(self, rng):
        sizes = [40, 12, 8, 7, 4, 3, 2, 1]
        y = rng.permutation(np.repeat(np.arange(8), sizes))
        X = np.arange(len(y))[:, None]
        parts = parts_of(Labels(y).check(len(y)), X)
        assert len(parts) == 4 + 6  # while rows are few, others are drawn at random
        held = np.zeros((4, len(y)), dtype=bool)
        for number, part in enumerate(parts[:4]):
            assert not set(part.train_rows) & set(part.test_rows)
            assert len(part.train_rows) + len(part.test_rows) == len(y)
            np.testing.assert_array_equal(
                np.unique(part.train.y, return_inverse=True)[1],
                np.unique(y[part.train_rows], return_inverse=True)[1],
            )
            held[number, part.test_rows] = True
            # at least two rows of each class are learned from, where it has two
            left = np.bincount(y[part.train_rows], minlength=8)
            assert (left >= np.minimum(sizes, 2)).all()
        # a quarter of each class, at least two rows; rare ones in the first quarter only
        taken = np.stack([np.bincount(y[rows], minlength=8) for rows in held])
        np.testing.assert_array_equal(taken[0], [10, 3, 2, 2, 2, 1, 0, 0])
        for later in taken[1:]:
            np.testing.assert_array_equal(later, [10, 3, 2, 0, 0, 0, 0, 0])
        assert (held.sum(axis=0) <= 1).all()
        # the last rows of each class first, and then those before
        for label in (0, 1, 2):
            place = [np.flatnonzero(rows & (y == label)).mean() for rows in held]
            assert (np.diff(place) < 0).all()
            assert held[:, y == label].any(axis=0).all()

    def test_halves_of_few_classes(self, rng):
        y = rng.permutation(np.repeat(["a", "b", "c", "d", "e"], 6))
        parts = parts_of(Labels(y).check(30), np.zeros((30, 1)), "classes")
        assert len(parts) == 6
        first, second = parts[:2]
        assert set(y[first.train_rows]) == set(y[second.test_rows])
        assert set(y[first.test_rows]) == set(y[second.train_rows])
        assert not set(y[first.train_rows]) & set(y[first.test_rows])
        assert len(set(y[first.train_rows])) == 2
        others = parts_of(Labels(y).check(30), np.zeros((30, 1)), "classes", seed=1)
        assert set(y[others[0].train_rows]) != set(y[first.train_rows])

    @pytest.mark.parametrize("cv", [3, StratifiedKFold(5)])
    def test_folds_of_scikit_learn(self, rng, cv):
        y = np.arange(60) % 3
        parts = parts_of(Labels(y).check(60), np.zeros((60, 1)), cv)
        assert len(parts) == (cv if isinstance(cv, int) else 5)
        tested = np.concatenate([part.test_rows for part in parts])
        np.testing.assert_array_equal(np.sort(tested), np.arange(60))

    @pytest.mark.parametrize(
        ("y", "cv", "message"),
        [
            (np.arange(60) % 3, "classes", "at least four classes; y has 3: use cv=None"),
            (np.arange(60) % 5, "rows", "cv must be None, 'classes', .* got 'rows'"),
            (np.arange(6) // 3, None, "too few rows .* score on: .*RidgeMetric"),
            (np.arange(60) % 5, LeaveOneOut(), "too few rows .* score on"),
        ],
    )
    def test_refused(self, y, cv, message):
        with pytest.raises(ValueError, match=message):
            parts_of(Labels(y).check(len(y)), np.zeros((len(y), 1)), cv)

    @pytest.mark.parametrize("cv", [None, "classes"])
    def test_judges_score_rows_as_evaluation_does(self, cv):
        X, y = make_clusters(80, 3, 4)
        for part in parts_of(Labels(y).check(80), X, cv):
            train, test = X[part.train_rows], X[part.test_rows]
            scores = part.judge(train, test)
            assert scores.shape == (len(test),)
            expected = mean_average_precision(test, y[part.test_rows])
            assert np.nanmean(scores) == pytest.approx(expected, rel=1e-12)
        for part in parts_of(Labels(y).check(80), X, cv, "knn"):
            train, test = X[part.train_rows], X[part.test_rows]
            scores = part.judge(train, test)
            voters, labels = train, y[part.train_rows]
            if cv == "classes":  # held-out rows are each other's neighbours
                voters, labels = test, y[part.test_rows]
            distances = ((test[:, None] - voters) ** 2).sum(axis=2)
            if cv == "classes":
                np.fill_diagonal(distances, np.inf)
            nearest = np.argsort(distances, axis=1)[:, :5]
            expected = (labels[nearest] == y[part.test_rows][:, None]).mean(axis=1)
            np.testing.assert_allclose(scores, expected)

    def test_few_of_many_held_out_rows_are_scored(self):
        y = np.arange(9000) % 3
        (first, *_) = parts_of(Labels(y).check(9000), np.zeros((9000, 1)))
        assert len(first.test_rows) == 1500
        assert len(first.train_rows) == 6750


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
class TestSplitsOfComparisons:
    def known(self, kind, rng, n=30):
        index = rng.permuted(np.tile(np.arange(20), (n, 1)), axis=1)
        if kind is Triplets:
            return Triplets(index[:, :3]).check(20)
        return Comparisons(index[:, :4], np.arange(n), np.arange(1, n + 1)).check(20)

    @pytest.mark.parametrize("cv", [None, 3])
    def test_each_is_held_out_once(self, rng, kind, cv):
        known = self.known(kind, rng)
        X = rng.normal(size=(20, 2))
        parts = parts_of(known, X, cv)
        assert len(parts) == (cv or 4)
        learned, held = [], []
        for part in parts:
            assert type(part.train) is kind
            train = [tuple(line) for line in part.train_rows[part.train.index].tolist()]
            everything = [tuple(line) for line in known.index.tolist()]
            assert set(train) <= set(everything)
            rest = [line for line in everything if line not in set(train)]
            assert len(train) + len(rest) == 30
            learned += train
            held += rest
            # only rows that take part
            np.testing.assert_array_equal(part.train_rows, np.unique(train))
            np.testing.assert_array_equal(part.test_rows, np.unique(rest))
            scores = part.judge(X[part.train_rows], X[part.test_rows])
            expected = kind(np.array(rest)).score(Metric(np.eye(2)), X)
            assert scores.mean() == pytest.approx(expected)
            assert len(scores) == len(rest)
            if kind is Comparisons:  # targets and weights go with them
                places = [everything.index(line) for line in train]
                np.testing.assert_array_equal(part.train.margin, known.margin[places])
                np.testing.assert_array_equal(part.train.weight, known.weight[places])
        assert sorted(held) == sorted(everything)
        assert len(learned) == 30 * (len(parts) - 1)

    def test_the_seed_decides(self, rng, kind):
        known, X = self.known(kind, rng), np.zeros((20, 1))
        first, again, other = (
            next(iter(parts_of(known, X, seed=seed))).train.index for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(first, again)
        assert first.shape != other.shape or (first != other).any()

    def test_refused(self, rng, kind):
        known, X = self.known(kind, rng), np.zeros((20, 1))
        with pytest.raises(ValueError, match=r"cv='classes' does not apply to comparisons: use"):
            parts_of(known, X, "classes")
        with pytest.raises(ValueError, match=r"at least eight .* got 7\. Add some, or use DuRP"):
            parts_of(self.known(kind, rng, 7), X)


# --- scores ---------------------------------------------------------------------------------


class TestScore:
    def test_share_that_is_satisfied(self, rng):
        X = np.array([[0.0], [1.0], [3.0], [7.0]])
        metric = Metric(np.eye(1))
        # 1 < 4 is true, 4 < 1 is false, 2 < 4 is true
        index = [[0, 1, 2, 3], [2, 3, 0, 1], [1, 2, 2, 3]]
        assert Comparisons(index).score(metric, X) == pytest.approx(2 / 3)
        assert Triplets([[0, 1, 2], [0, 3, 1]]).score(metric, X) == 0.5

    def test_a_tie_counts_half(self):
        X = np.array([[0.0], [1.0], [2.0]])
        assert Comparisons([[0, 1, 1, 2]]).score(Metric(np.eye(1)), X) == 0.5

    @pytest.mark.parametrize("sparse", [False, True])
    def test_equals_distances(self, rng, sparse):
        X = rng.normal(size=(20, 4))
        metric = Metric(rng.normal(size=(4, 2)))
        index = rng.permuted(np.tile(np.arange(20), (200, 1)), axis=1)[:, :4]
        distances = metric.pairwise(X)
        a, b, c, d = index.T
        expected = np.mean(distances[a, b] < distances[c, d])
        rows = sp.csr_array(X) if sparse else X
        assert Comparisons(index).score(metric, rows) == pytest.approx(expected)

    def test_labels(self):
        X, y = make_clusters(50, 3, 4)
        metric = Euclidean().fit(X).metric_
        assert Labels(y).check(50).score(metric, X) == mean_average_precision(X, y)

    def test_rows_that_x_does_not_have(self):
        with pytest.raises(ValueError, match=r"comparisons\[0\].*from 0 to 2"):
            Comparisons([[0, 1, 2, 3]]).score(Metric(np.eye(1)), np.zeros((3, 1)))


@pytest.mark.parametrize(
    ("width", "hint"),
    [
        (2, r"for row numbers of X, pass Pairs\(index, same\)"),
        (3, r"pass Triplets\(y\)"),
        (4, r"pass Comparisons\(y\)"),
        (5, r"for indicators of classes, pass y\.argmax\(axis=1\)"),
    ],
)
def test_row_numbers_passed_as_labels_get_a_hint(width, hint):
    with pytest.raises(ValueError, match=rf"y should be a 1d array.*{hint}"):
        DuRP().fit(np.eye(6), np.arange(6 * width).reshape(6, width) % 6)


@pytest.mark.parametrize(
    ("y", "hint"),
    [
        (([[0, 1], [2, 3]], [1, 0]), r"pass Pairs\(index, same\)"),
        (Triplets, "should be a 1d array of labels; got ABCMeta"),
        (3, "should be a 1d array of labels; got int"),
    ],
)
def test_what_is_not_an_array_of_labels_gets_a_hint(y, hint):
    with pytest.raises(ValueError, match=hint):
        DuRP().fit(np.eye(6), y)


@pytest.mark.parametrize("groups", [[1.0, np.nan] * 3, [None] * 6])
def test_missing_groups_are_refused(groups):
    with pytest.raises(ValueError, match="groups contains NaN or None: give each row without"):
        Labels([0, 1] * 3, groups=groups).check(6)


def test_cross_validation_of_scikit_learn_gets_a_hint():
    X = np.random.default_rng(0).standard_normal((40, 3))
    triplets = np.column_stack([np.arange(30), np.arange(1, 31), np.arange(2, 32)])
    for n in (30, 40):
        with pytest.raises(TypeError, match=r"Triplets names rows by their numbers.*use MetricCV"):
            cross_val_score(DuRP(2), X[:n], Triplets(triplets), error_score="raise")
    with pytest.raises(TypeError, match="cannot split Labels: pass the array of labels itself"):
        cross_val_score(DuRP(2), X, Labels(np.arange(40) % 2), error_score="raise")


def test_pairs_given_as_rows_get_a_hint():
    rng = np.random.default_rng(0)
    pairs, same = rng.integers(40, size=(60, 2)), np.where(rng.random(60) < 0.5, 1, -1)
    with pytest.warns(UserWarning, match=r"row numbers, pass the rows themselves.*Pairs\(pairs"):
        Whitening().fit(pairs, same)
    with pytest.warns(UserWarning, match="y holds True and False only"):
        Whitening().fit(pairs.tolist(), same > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Whitening().fit(pairs + 0.5, same)
        Whitening().fit(pairs, same + 1)


class TestUnknownLabels:
    def marked(self, n=120):
        X, y = make_clusters(n, 4, 3)
        return X, y, np.where(np.arange(n) % 3 == 0, -1, y)

    def test_triplets_are_those_of_known_rows(self, rng):
        X, _, y = self.marked()
        known = np.flatnonzero(y >= 0)
        found = Labels(y, unknown=-1).check(len(X)).compare(X, 300, "active", 1.0, rng)
        assert np.isin(found.index, known).all()
        alone = (
            Labels(y[known])
            .check(len(known))
            .compare(X[known], 300, "active", 1.0, np.random.default_rng(0))
        )
        again = Labels(y, unknown=-1).check(len(X))
        again = again.compare(X, 300, "active", 1.0, np.random.default_rng(0))
        assert (again.index == known[alone.index]).all()

    def test_without_the_mark_minus_one_is_a_class(self, rng):
        X, _, y = self.marked()
        found = Labels(y).check(len(X)).compare(X, 2000, "active", 1.0, rng)
        assert (y[found.index] == -1).any()

    def test_unknown_rows_take_part_in_whitening(self):
        X, _, y = self.marked()
        whole = Whitening(0.1).fit(X, Labels(y, unknown=-1)).metric_.matrix()
        known = y >= 0
        part = Whitening(0.1).fit(X[known], y[known]).metric_.matrix()
        assert np.abs(whole - part).max() > 1e-3 * np.abs(part).max()

    def test_score_is_that_of_known_rows(self):
        X, _, y = self.marked()
        model = Euclidean().fit(X)
        known = y >= 0
        assert model.score(X, Labels(y, unknown=-1)) == pytest.approx(
            mean_average_precision(X[known], y[known])
        )

    @pytest.mark.parametrize("mark", [np.nan, None, pd.NA])
    def test_checked_labels_can_be_checked_again(self, mark):
        y = np.array([3, 3, 5, mark, 5, mark], dtype=object)
        once = Labels(y).check(6)
        again = once.check(6)
        assert_array_equal(once.known_rows(), [0, 1, 2, 4])
        assert_array_equal(again.known_rows(), [0, 1, 2, 4])
        assert_array_equal(again.y, once.y)

    def test_the_choice_learns_from_known_labels_only(self):
        X, y = (part[:300] for part in load_digits(return_X_y=True))
        known = np.arange(300) < 100
        missing = np.where(known, y.astype(float), np.nan)
        marked = np.where(known, y, -1)
        searches = [
            MetricCV(n_triplets=300, lifts=[None], random_state=0).fit(X, given)
            for given in (Labels(missing), Labels(marked, unknown=-1))
        ]
        scores = [search.score(X[100:], y[100:]) for search in searches]
        assert scores[0] == pytest.approx(scores[1])

    def test_all_unknown(self):
        with pytest.raises(ValueError, match="no row has a label: every entry of y is -1"):
            DuRP(2).fit(np.eye(4), Labels([-1] * 4, unknown=-1))

    @pytest.mark.parametrize("unknown", [None, np.nan, pd.NA])
    @pytest.mark.parametrize(
        "make",
        [
            lambda y: pd.Series(y).where(y >= 0),  # NaN
            lambda y: pd.Series(y).where(y >= 0).astype("Int64"),
            lambda y: pd.Series(y).where(y >= 0).astype("category"),
            lambda y: pd.Series([None if one < 0 else f"class {one}" for one in y]),
            lambda y: pd.Series([pd.NA if one < 0 else f"class {one}" for one in y]).astype(
                "string"
            ),
            lambda y: np.array([None if one < 0 else one for one in y], dtype=object),
            lambda y: [np.nan if one < 0 else one for one in y.tolist()],
        ],
    )
    def test_missing_labels_are_unknown(self, make, unknown):
        X, _, y = self.marked()
        given, known = Labels(y, unknown=-1), Labels(make(y), unknown=unknown)
        np.testing.assert_array_equal(known.check(120).known_rows(), given.check(120).known_rows())
        expected = Whitening(0.1).fit(X, given).metric_.matrix()
        np.testing.assert_array_equal(Whitening(0.1).fit(X, known).metric_.matrix(), expected)
        with pytest.raises(ValueError, match=r"pass Labels\(y\), which takes missing labels"):
            Whitening(0.1).fit(X, make(y))

    def test_missing_and_marked(self):
        y = Labels([None, "a", "?", "b", "a"], unknown="?").check(5)
        assert y.known_rows().tolist() == [1, 3, 4]
        assert y.y.tolist() == [-1, 0, -1, 1, 0]
        with pytest.raises(ValueError, match="no row has a label: every entry of y is missing"):
            Labels([None, np.nan]).check(2)
        with pytest.raises(ValueError, match=r"every entry of y is missing or '\?'"):
            Labels([None, "?"], unknown="?").check(2)
        with pytest.raises(ValueError, match="mixes labels that cannot be compared"):
            Labels([None, "a", 1]).check(3)

    def test_lmnn_learns_from_rows_with_a_label(self):
        X, _, y = self.marked()
        found = LMNN().fit(X, Labels(y, unknown=-1)).metric_.matrix()
        part = LMNN().fit(X[y >= 0], y[y >= 0]).metric_.matrix()
        np.testing.assert_allclose(found, part)


def test_one_class_is_named():
    with pytest.raises(ValueError, match="y has one class only: give labels of at least two"):
        MetricCV().fit(np.random.default_rng(0).normal(size=(40, 3)), np.zeros(40, int))
