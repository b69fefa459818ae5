import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from dualmetric import products
from dualmetric import triplets as module
from dualmetric.triplets import Triplets, sample_triplets


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
    rows = [tuple(row) for row in triplets.index.tolist()]
    assert len(set(rows)) == len(rows), "a triplet occurs twice"
    return set(rows)


def blobs(n, n_classes, spread, rng, d=3):
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return rng.normal(size=(n, d)) + spread * np.eye(d)[y % d] * (1 + y // d)[:, None], y


class TestActive:
    def test_sampled_triplets_are_active_and_distinct(self, rng):
        X, y = blobs(60, 4, 1.0, rng)
        found = sample_triplets(X, y, 500, "active", rng)
        assert len(found) == 500
        triples = as_set(found)
        active = active_triples(X, y)
        assert len(active) > 2 * 500  # so these were drawn, not listed
        assert triples <= active
        assert len(active) < len(all_triples(y)) - 1000  # and the condition does cut

    def test_margin_is_the_threshold(self, rng):
        X, y = blobs(60, 4, 1.0, rng)
        found = sample_triplets(X, y, 500, "active", rng, margin=-4.0)
        assert as_set(found) <= active_triples(X, y, margin=-4.0)
        assert not as_set(sample_triplets(X, y, 500, "active", rng)) <= active_triples(X, y, -4.0)

    @pytest.mark.parametrize("n_triplets", [400, 3000, 100_000])  # 400: drawn, the others listed
    def test_fewer_than_asked_for_gives_all_of_them_and_says_so(self, rng, n_triplets):
        X, y = blobs(18, 3, 1.5, rng)
        active = active_triples(X, y)
        assert 0 < len(active) < 400
        assert 2 * 400 < len(all_triples(y)) < 2 * 3000
        with pytest.warns(UserWarning, match=rf"{len(active):,} active .* {n_triplets:,} were"):
            found = sample_triplets(X, y, n_triplets, "active", rng)
        assert as_set(found) == active

    def test_exactly_as_many_as_asked_for_is_silent(self, rng):
        X, y = blobs(18, 3, 0.5, rng)
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
        with pytest.warns(UserWarning, match=r"no active triplet.*ranks every row.*nearest neigh"):
            found = sample_triplets(X, y, n_triplets, "active", rng)
        everything = as_set(sample_triplets(X, y, 10_000, "neighbors", rng))
        assert len(found) == min(n_triplets, len(everything))
        assert as_set(found) <= everything

    def test_draws_are_uniform_over_the_candidates(self):
        # one row alone in its class: a negative only. 2·1·4 + 3·2·3 = 26 other candidates
        y = np.array([0, 1, 2, 1, 0, 1])
        counts = dict.fromkeys(all_triples(y), 0)
        classes = module._Classes(y)
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

    def test_listing_is_every_candidate_once(self, rng):
        y = rng.integers(4, size=15)
        y[3] = 9
        classes = module._Classes(y)
        listed = [tuple(row) for row in classes.all().tolist()]
        assert len(listed) == len(set(listed)) == classes.count()
        assert set(listed) == all_triples(y)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n_triplets", [200, 5000])  # drawn, and listed
    def test_csr_equals_dense(self, rng, dtype, n_triplets):
        X, y = blobs(24, 3, 1.0, rng, d=5)
        X = (X * (rng.random(X.shape) < 0.6)).astype(dtype)
        drawn = []
        for rows in (X, sp.csr_matrix(X), sp.csr_array(X)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                drawn.append(
                    sample_triplets(rows, y, n_triplets, "active", np.random.default_rng(5))
                )
        np.testing.assert_array_equal(drawn[0].index, drawn[1].index)
        np.testing.assert_array_equal(drawn[0].index, drawn[2].index)


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
        X, y = blobs(70, 4, 1.0, rng)
        y[:3] = [7, 8, 8]  # classes of one row and of two
        X = X.astype(dtype)
        found = sample_triplets(sp.csr_matrix(X) if sparse else X, y, 100_000, "neighbors", rng)
        assert as_set(found) == self.brute_force(X.astype(np.float64), y)
        assert not (found.index[:, :2] == 0).any()
        assert (found.index[:, 2] == 0).any()

    def test_fewer_wanted_is_a_subset_of_that_size(self, rng):
        X, y = blobs(70, 4, 1.0, rng)
        found = sample_triplets(X, y, 300, "neighbors", rng)
        assert len(found) == 300
        assert as_set(found) <= self.brute_force(X, y)

    def test_blocks_of_distances(self, rng, monkeypatch):
        X, y = blobs(90, 4, 1.0, rng)
        whole = products.sq_distance_blocks
        monkeypatch.setattr(products, "sq_distance_blocks", lambda X: whole(X, 37 * 90 * 8))
        assert [len(block) for _, block in products.sq_distance_blocks(X)] == [37, 37, 16]
        found = sample_triplets(X, y, 100_000, "neighbors", rng)
        assert as_set(found) == self.brute_force(X, y)

    def test_more_rows_than_the_limit(self, rng, monkeypatch):
        X, y = blobs(70, 4, 1.0, rng)
        monkeypatch.setattr(module, "_MAX_REFERENCE_ROWS", 40)
        found = sample_triplets(X, y, 100_000, "neighbors", np.random.default_rng(3))
        rows = found.rows()
        assert len(rows) <= 40
        assert rows.max() >= 40  # from all of X, not its first rows
        # every chosen row is an anchor (each has a row of its class and of others among the 40)
        anchors = np.unique(found.index[:, 0])
        assert len(anchors) == 40
        assert as_set(found) == self.brute_force(X, y, rows=anchors.tolist())

    def test_limit_that_leaves_no_pair(self, rng, monkeypatch):
        monkeypatch.setattr(module, "_MAX_REFERENCE_ROWS", 2)
        y = np.array([0, 1] * 10)
        # the two rows are of one class (no negative) or of two (no positive): never a triplet
        with pytest.raises(ValueError, match="use sampler='active'"):
            sample_triplets(rng.normal(size=(20, 2)), y, 10, "neighbors", rng)


@pytest.mark.parametrize("sampler", module.SAMPLERS)
class TestBoth:
    @pytest.mark.parametrize("n_triplets", [150, 4000])
    def test_labels_are_respected(self, rng, sampler, n_triplets):
        X, y = blobs(30, 3, 0.5, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            index = sample_triplets(X, y, n_triplets, sampler, rng).index
        i, j, k = index.T
        assert (i != j).all()
        assert (y[i] == y[j]).all()
        assert (y[i] != y[k]).all()

    def test_labels_may_be_strings(self, rng, sampler):
        X, y = blobs(30, 3, 0.5, rng)
        names = np.array(["pear", "fig", "apple"])[y]
        drawn = sample_triplets(X, names, 100, sampler, np.random.default_rng(2))
        i, j, k = drawn.index.T
        assert (names[i] == names[j]).all()
        assert (names[i] != names[k]).all()

    @pytest.mark.parametrize("n_triplets", [60, 4000])
    def test_a_row_alone_in_its_class_is_only_a_negative(self, rng, sampler, n_triplets):
        X, y = blobs(16, 2, 0.0, rng)
        y[5] = 99
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            index = sample_triplets(X, y, n_triplets, sampler, rng).index
        assert not (index[:, :2] == 5).any()
        assert (index[:, 2] == 5).any()

    def test_seed_decides(self, rng, sampler):
        X, y = blobs(60, 3, 0.5, rng)
        first, again, other = (
            sample_triplets(X, y, 200, sampler, np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first.index, again.index)
        assert as_set(first) != as_set(other)

    def test_one_class(self, rng, sampler):
        with pytest.raises(ValueError, match="one class only"):
            sample_triplets(rng.normal(size=(6, 2)), np.zeros(6), 10, sampler, rng)

    def test_every_class_of_one_row(self, rng, sampler):
        with pytest.raises(ValueError, match="every class in y has one row only"):
            sample_triplets(rng.normal(size=(6, 2)), np.arange(6), 10, sampler, rng)

    def test_index_is_compact(self, rng, sampler):
        X, y = blobs(30, 3, 0.5, rng)
        index = sample_triplets(X, y, 100, sampler, rng).index
        assert index.dtype == np.int32
        assert index.flags.c_contiguous


def test_unknown_sampler_lists_the_known_ones(rng):
    with pytest.raises(ValueError, match=r"one of active, neighbors; got 'hard'"):
        sample_triplets(np.zeros((4, 1)), np.array([0, 0, 1, 1]), 5, "hard", rng)


class TestFromArray:
    def test_keeps_the_triples(self):
        given = [[3, 0, 1], [0, 1, 2], [3, 0, 1]]
        triplets = Triplets.from_array(given, 4)
        assert len(triplets) == 3
        np.testing.assert_array_equal(triplets.index, given)
        np.testing.assert_array_equal(triplets.rows(), [0, 1, 2, 3])

    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
    def test_any_integers_any_layout(self, dtype):
        given = np.array([[0, 1, 2], [2, 0, 1]], dtype=dtype)
        for array in (given, np.asfortranarray(given), np.repeat(given, 2, axis=0)[::2]):
            index = Triplets.from_array(array, 3).index
            np.testing.assert_array_equal(index, given)
            assert index.flags.c_contiguous
            assert index.dtype == np.int32

    def test_row_numbers_that_need_64_bits(self):
        most = np.iinfo(np.int32).max
        index = [[0, 1, most - 1]]
        assert Triplets.from_array(index, most).index.dtype == np.int32
        wide = Triplets.from_array([[0, 1, most + 5]], most + 6)
        assert wide.index.dtype == np.int64
        assert wide.index[0, 2] == most + 5

    def test_is_a_copy_of_what_the_user_may_change(self):
        given = np.array([[0, 1, 2]], dtype=np.int32)
        triplets = Triplets.from_array(given, 3)
        given[0, 0] = 2
        assert triplets.index[0, 0] == 0

    @pytest.mark.parametrize(
        ("triples", "message"),
        [
            ([0, 1, 2], r"\(N, 3\) array.*got shape \(3,\)"),
            ([[0, 1]], r"got shape \(1, 2\)"),
            ([[[0, 1, 2]]], r"got shape \(1, 1, 3\)"),
            (np.empty((0, 3), dtype=int), "triplets is empty"),
            ([[0.0, 1.0, 2.0]], "must hold integers.*float64"),
            ([[True, False, True]], "must hold integers.*bool"),
            ([["a", "b", "c"]], "must hold integers"),
            ([[0, 1, 2], [1, 2, 5]], r"triplets\[1\] = \[1, 2, 5\].*from 0 to 4"),
            ([[0, 1, -1]], r"triplets\[0\] = \[0, 1, -1\].*from 0 to 4"),
            ([[0, 1, 2], [3, 3, 2]], r"triplets\[1\].*anchor and positive are the same"),
            ([[3, 1, 3]], "anchor and negative are the same"),
            ([[3, 1, 1]], "positive and negative are the same"),
        ],
    )
    def test_errors(self, triples, message):
        with pytest.raises(ValueError, match=message):
            Triplets.from_array(triples, 5)


def test_renumber_names_the_same_rows(rng):
    index = np.array([[40, 7, 90], [7, 40, 12], [90, 12, 40]])
    triplets = Triplets.from_array(index, 100)
    rows = triplets.rows()
    np.testing.assert_array_equal(rows, [7, 12, 40, 90])
    renumbered = triplets.renumber(rows)
    assert renumbered.index.max() == 3
    X = rng.normal(size=(100, 2))
    np.testing.assert_array_equal(X[rows][renumbered.index], X[index])
