"""Bootstrap intervals: against the normal law, and how often they cover."""

import numpy as np
import pytest

from dualmetric.intervals import best_of_interval, bootstrap_interval, paired_interval


def test_bootstrap_interval_is_that_of_the_mean():
    rng = np.random.default_rng(8)
    values = rng.normal(3.0, 2.0, size=400)
    low, high = bootstrap_interval(np.append(values, np.nan))
    error = values.std() / np.sqrt(400)
    np.testing.assert_allclose(
        [low, high], values.mean() + np.array([-1.96, 1.96]) * error, atol=0.3 * error
    )
    assert bootstrap_interval(values) == (low, high)  # the same draws, NaN left out
    assert bootstrap_interval(values, seed=1) != (low, high)
    narrow = bootstrap_interval(values, level=0.5)
    assert low < narrow[0] < narrow[1] < high
    assert bootstrap_interval([0.5]) == (0.5, 0.5)
    assert np.isnan(bootstrap_interval([np.nan])).all()


def test_bootstrap_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(9)
    hits = 0
    for trial in range(200):
        low, high = bootstrap_interval(rng.random(60), n_draws=200, seed=trial)
        hits += low < 0.5 < high
    assert 0.88 < hits / 200 < 0.99


def test_paired_interval_sees_a_small_steady_gain():
    rng = np.random.default_rng(10)
    before = rng.random(300)
    after = before + 0.01 + 0.001 * rng.normal(size=300)
    after[7] = np.nan
    low, high = paired_interval(after, before)
    assert 0 < low < 0.01 < high < 0.02
    assert paired_interval(before, after)[1] < 0
    # what separate intervals cannot tell apart
    assert bootstrap_interval(before)[1] > bootstrap_interval(after)[0]
    assert paired_interval([True, True], [False, True], n_draws=200) == (0.0, 1.0)


def test_the_best_of_many_equal_ones_is_not_better():
    rng = np.random.default_rng(0)
    other = rng.normal(size=200)
    candidates = other + 0.5 * rng.normal(size=(100, 200))
    best = candidates[np.argmax(candidates.mean(axis=1))]
    assert paired_interval(best, other)[0] > 0  # what choosing by the same queries pretends
    low, high = best_of_interval(candidates, other)
    assert low < 0 < high


def test_the_best_of_many_is_better_where_it_is():
    rng = np.random.default_rng(0)
    other = rng.normal(size=400)
    candidates = other + 0.3 * rng.normal(size=(50, 400))
    candidates[7] += 0.5
    low, high = best_of_interval(candidates, other)
    assert 0.35 < low < 0.5 < high < 0.65
    # the same with queries that have nothing to find, and from the same seed
    padded = np.hstack([candidates, np.full((50, 3), np.nan)])
    assert best_of_interval(padded, np.r_[other, np.zeros(3)]) == (low, high)
    assert all(np.isnan(best_of_interval(candidates[:, :1], other[:1])))


def test_of_one_candidate_nothing_is_chosen():
    # the interval is then that of the bootstrap, but for the draws
    gain = np.random.default_rng(1).normal(0.2, 1.0, size=300)
    expected = bootstrap_interval(gain, n_draws=20_000)
    found = best_of_interval(gain[None], np.zeros(300), n_draws=20_000)
    assert found == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize("n", [12, 60])
def test_interval_of_the_best_covers_as_often_as_it_says(n):
    rng = np.random.default_rng(9)
    hits = 0
    for trial in range(400):
        gains = rng.normal(0.3, 1.0, size=n)
        low, high = best_of_interval(gains[None], np.zeros(n), n_draws=200, seed=trial)
        hits += low < 0.3 < high
    assert 0.9 < hits / 400 < 0.98
