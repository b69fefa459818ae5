"""The race of MetricCV's candidates, and the choice among them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from dualmetric import DuRP, Euclidean, MetricCV, RidgeMetric, ridge
from dualmetric.estimators import _choice
from dualmetric.estimators._candidates import errors_by_shares, predicts_classes
from dualmetric.estimators._race import (
    Candidate,
    Race,
    better_plain,
    estimated_means,
    is_behind,
    paired,
)
from dualmetric.intervals import best_of_gains, best_of_interval
from dualmetric.supervision import Labels, Pairs, Positives, Split
from makers import make_classes

FAST = {"n_projections": 5, "n_triplets": 2000, "lifts": [None], "random_state": 0}


def split_of(table, heats=None, queries=None, also=None):
    """A split in which candidate number c, "mapped" to c, has the scores of row c."""

    def judge(_, test, heat=None):
        return table[test] if heat is None else table[test][heat]

    return Split(None, None, None, judge, heats, also, queries)


def race_of(*tables, methods=None, heats=None, queries=None, **options):
    race = Race()
    n = len(tables[0])
    methods = methods or ["Euclidean", "Euclidean", *["DuRP"] * (n - 2)]
    for number, table in enumerate(tables):
        part = None if queries is None else queries[number]
        race.start(split_of(table, heats, part)._replace(**options))
        for place, method in enumerate(methods):
            params = {"number": place, "distance": "cosine"}
            race.enter(method, params, (0, place), 0.1, stays=method == "Euclidean")
        race.finish()
    return race


def make_scores(means, n=400, noise=0.1, seed=0):
    """Scores with these means; queries are hard or easy for all candidates alike."""
    rng = np.random.default_rng(seed)
    return np.add.outer(means, rng.normal(0, 0.2, n)) + rng.normal(0, noise, (len(means), n))


def test_paired_is_the_mean_and_its_error():
    differences = np.array([1.0, np.nan, 2.0, 4.0])
    mean, error = paired(differences)
    known = differences[[0, 2, 3]]
    assert mean == pytest.approx(known.mean())
    assert error == pytest.approx(known.std(ddof=1) / np.sqrt(3))


def test_those_clearly_behind_drop_out_after_the_first_heat():
    table = make_scores([0.5, 0.5, 0.8, 0.3, 0.79])
    heats = [np.arange(50), np.arange(50, 400)]
    race = race_of(table, heats=heats)
    scores = race.scores()
    assert_array_equal([one.dropped for one in race.candidates], [False, False, False, True, False])
    assert_array_equal(~np.isnan(scores[3]), np.arange(400) < 50)
    assert_allclose(scores[[0, 1, 2, 4]], table[[0, 1, 2, 4]])  # plain distances never drop out


def test_those_that_dropped_out_are_not_scored_on_other_splits():
    first, second = make_scores([0.5, 0.5, 0.8, 0.3]), make_scores([0.5, 0.5, 0.7, 0.9], seed=1)
    race = race_of(first, second)
    assert [len(one.parts) for one in race.candidates] == [2, 2, 2, 1]
    assert race.wants("DuRP", {"number": 2})
    assert not race.wants("DuRP", {"number": 3})
    assert not race.wants("Whitening", {})


def test_queries_of_several_splits_count_once():
    first, second = make_scores([0.5, 0.5, 0.6], n=30), make_scores([0.4, 0.4, 0.7], n=30, seed=1)
    race = race_of(first, second, queries=[np.arange(30), np.arange(10, 40)])
    expected = np.full((3, 40), np.nan)
    expected[:, :10] = first[:, :10]
    expected[:, 10:30] = (first[:, 10:] + second[:, :20]) / 2
    expected[:, 30:] = second[:, 20:]
    assert_allclose(race.scores(), expected)
    assert race_of(first, second).scores().shape == (3, 60)


def test_the_mean_of_one_that_dropped_out_is_relative_to_the_best():
    scores = make_scores([0.5, 0.8])
    scores[0, 100:] = np.nan
    means = estimated_means(scores)
    assert means[1] == scores[1].mean()
    assert means[0] == pytest.approx(scores[1].mean() + (scores[0, :100] - scores[1, :100]).mean())
    assert is_behind(scores[0] - scores[1])


def test_few_differences_leave_nobody_behind():
    assert is_behind(np.full(8, -1.0))
    assert not is_behind(np.full(7, -1.0))
    assert not is_behind(np.append(np.full(7, -1.0), np.nan))


def test_the_cosine_is_the_better_plain_distance_in_doubt():
    apart = np.resize([0.1, -0.1], 40)  # the error of its mean is 0.016
    assert better_plain(np.array([apart + 0.01, np.zeros(40)])) == 1
    assert better_plain(np.array([apart + 0.02, np.zeros(40)])) == 0
    assert better_plain(np.array([apart[:6] + 0.2, np.zeros(6)])) == 1  # too few to say


def test_no_more_candidates_after_the_deadline():
    race = Race(deadline=-np.inf)
    race.start(split_of(make_scores([0.5])))
    assert not race.wants("DuRP", {})
    assert race.out_of_time


# --- the choice ------------------------------------------------------------------------------


def test_the_simplest_within_noise_is_chosen():
    methods = ["Euclidean", "Euclidean", "DuRP", "RidgeMetric"]
    table = make_scores([0.5, 0.5, 0.8, 0.8])
    table[3] = table[2] + np.resize([0.1, -0.102], 400)  # a little worse, within its noise
    near = race_of(table, methods=methods)
    assert _choice.choose(near)["kept"].method == "RidgeMetric"
    far = race_of(make_scores([0.5, 0.5, 0.85, 0.8]), methods=methods)
    assert _choice.choose(far)["kept"].method == "DuRP"


def test_the_plain_distance_is_kept_without_a_gain():
    race = race_of(make_scores([0.5, 0.52, 0.52, 0.521], n=60))
    choice = _choice.choose(race)
    assert choice["kept"].method == "Euclidean"
    assert choice["best_score_"] == choice["best_plain_"][1] == choice["expected_score_"]


def race_with_ridge(gain, n, noise=0.0, mutual=False, unknown=0):
    """Two plain distances and the default ridge, with an uncertain gain of this mean."""
    rng = np.random.default_rng(0)
    gains = rng.normal(0, noise, n)
    gains += gain - gains.mean()
    table = np.stack([np.zeros(n), np.zeros(n), gains])
    table = np.concatenate([table, np.full((3, unknown), np.nan)], axis=1)
    race = Race()
    race.start(split_of(table)._replace(mutual=mutual))
    for place, method in enumerate(["Euclidean", "Euclidean", "RidgeMetric"]):
        params = {"distance": "cosine", "number": place} | ({"alpha": None} if place == 2 else {})
        race.enter(method, params, (0, place), 0.1, stays=True)
    race.finish()
    return race


@pytest.mark.parametrize(
    ("gain", "n", "noise", "mutual", "method"),
    [
        (0.03, 50, 0.3, True, "RidgeMetric"),  # not significant
        (-0.03, 50, 0.3, True, "RidgeMetric"),  # the prior outweighs it
        (-0.02, 50, 0.2, False, "Euclidean"),  # 0.028 ** 2 / 0.05 is 0.016
        (-0.02, 50, 0.2, True, "RidgeMetric"),  # the error counts twice: 0.064
        (-0.06, 50, 0.9, True, "Euclidean"),  # more than the prior
        (-0.005, 1000, 0.3, True, "RidgeMetric"),  # 0.019 ** 2 / 0.05 is 0.007
        (-0.01, 1000, 0.3, True, "Euclidean"),
        (0.03, 15, 0.3, True, "Euclidean"),  # too few queries
    ],
)
def test_ridge_is_preferred_to_the_plain_distance_unless_it_seems_to_lose(
    gain, n, noise, mutual, method
):
    race = race_with_ridge(gain, n, noise, mutual, unknown=100)
    choice = _choice.choose(race)
    assert choice["kept"].method == method
    assert choice["expected_score_"] == pytest.approx(gain if method == "RidgeMetric" else 0.0)
    if method == "RidgeMetric":
        low, high = choice["gain_interval_"]
        assert low < gain < high
        assert low < 0.0


def test_the_default_ridge_is_no_member_of_its_family():
    """So its interval is not one more that has to hold."""
    table = make_scores([0.5, 0.5, 0.55, 0.55])
    methods = ["Euclidean", "Euclidean", "DuRP", "RidgeMetric"]
    alone, beside = Race(), Race()
    for race, n in ((alone, 3), (beside, 4)):
        race.start(split_of(table))
        for place in range(n):
            params = {"distance": "cosine", "alpha": None if place == 3 else 1.0, "place": place}
            race.enter(methods[place], params, (0, place), 0.1)
    intervals = [_choice.choose(race)["gain_interval_"] for race in (alone, beside)]
    assert intervals[0] == intervals[1]


def test_new_classes_take_the_default_unless_another_is_clearly_better():
    methods = ["Euclidean", "Euclidean", "Whitening", "DuRP", "DuRP"]
    noise = 0.02 * np.random.default_rng(0).standard_normal((5, 12))

    def chosen(means, prior="whitening", evidence="default"):
        race = race_of(np.add.outer(np.array(means), np.zeros(12)) + noise, methods=methods)
        race.evidence = evidence
        if prior is not None:
            race.candidates[3].params |= {"prior": prior, "reg": 0.01}
            race.candidates[4].params |= {"prior": prior, "reg": 0.1}
        found = _choice.choose(race)
        return found["best_index_"], found

    place, found = chosen([0.5, 0.5, 0.505, 0.5, 0.505])
    assert place == 3  # the others are better by chance
    assert found["expected_score_"] == found["best_score_"]  # it was not chosen by these rows
    assert chosen([0.5, 0.5, 0.505, 0.5, 0.505], prior="identity")[0] == 3
    assert chosen([0.5, 0.5, 0.5, 0.5, 0.6])[0] == 4
    place, found = chosen([0.5, 0.6, 0.5, 0.5, 0.5])
    assert place == 1
    assert found["gain_interval_"][1] < 0.0  # of the default
    # without a default, as for any other rows
    assert chosen([0.5, 0.5, 0.505, 0.5, 0.505], prior=None)[0] in (0, 1)
    assert chosen([0.5, 0.5, 0.5, 0.5, 0.6], prior=None)[0] == 4


def test_one_class_cannot_replace_the_default():
    gains = np.array([[0.0, 0.0, 0.0], [0.1, np.nan, np.nan], [0.1, 0.1, np.nan], [0.1, 0.3, 0.2]])
    places = np.arange(4)
    assert _choice._clearly_better(gains[:2], places[:2], 0) == 0
    assert _choice._clearly_better(gains[:3], places[:3], 0) == 2  # two classes agree
    # three classes: 0.2 is 3.5 errors, and the limit 4.3
    assert _choice._clearly_better(gains[[0, 3]], places[:2], 0) == 0


def test_rows_of_new_classes_drop_nobody_before_classes_are_compared():
    table = make_scores([0.5, 0.5, 0.8, 0.2])
    assert race_of(table).candidates[3].dropped
    few = race_of(table, queries=[np.arange(400) % 4], evidence="default")
    assert not few.candidates[3].dropped


def test_the_expected_score_of_a_metric_that_replaced_the_default_is_not_the_winners():
    rng = np.random.default_rng(0)
    table = 0.5 + 0.1 * rng.standard_normal((30, 12))
    table[:2] = 0.45
    race = race_of(table)
    race.evidence = "default"
    race.candidates[2].params |= {"prior": "whitening", "reg": 0.01}
    table[2] = 0.3
    race.candidates[2].parts[0] = table[2]
    choice = _choice.choose(race)
    assert choice["best_index_"] > 2
    assert choice["expected_score_"] < choice["best_score_"] - 0.01


def test_the_guard_drops_what_is_clearly_worse_than_the_plain_distance():
    means = [0.5, 0.45, 0.495, 0.49, 0.42, 0.52]
    race = race_of(make_scores(means))
    guard = Race(entrants=[*race.candidates, Candidate("not scored", "DuRP", {})])
    guard.start(split_of(make_scores(means)))
    for place in range(6):
        one = race.candidates[place]
        guard.enter(one.method, one.params, (0, place), 0.1)
    _choice.drop_worse(guard)
    # 0.49 loses about what is allowed, and the other plain distance stays
    dropped = [one.dropped for one in guard.candidates]
    assert_array_equal(dropped, [False, False, False, False, True, False])
    worse = _choice.still_worse(guard)
    assert race.candidates[4].key in worse
    assert not worse & {"not scored", *(race.candidates[place].key for place in (0, 1, 2, 5))}
    kept, plain = _choice.on_guard(guard, race.candidates[5])
    assert (kept, plain) == tuple(make_scores(means).mean(axis=1)[[5, 0]])
    assert _choice.on_guard(guard, Candidate("not scored", "DuRP", {})) is None


def test_barred_candidates_let_others_back():
    race = race_of(make_scores([0.5, 0.5, 0.9, 0.7, 0.6]))
    race.finish()
    assert [one.dropped for one in race.candidates[2:]] == [False, True, True]
    assert _choice.choose(race)["kept"] is race.candidates[2]
    race.bar({race.candidates[2].key})
    assert [one.dropped for one in race.candidates[2:]] == [True, False, True]
    assert _choice.choose(race)["kept"] is race.candidates[3]
    # where few directions are required, those that dropped out may be chosen, but not barred ones
    for one in race.candidates:
        one.params["n_components"] = 1
    assert _choice.choose(race)["kept"] is race.candidates[3]
    race.bar({race.candidates[3].key})
    assert _choice.choose(race)["kept"] is race.candidates[4]
    race.bar({race.candidates[4].key})
    assert _choice.choose(race)["kept"].method == "Euclidean"


def test_those_that_come_back_do_not_hide_the_gain_of_their_family():
    """They were scored on the first split only."""
    rng = np.random.default_rng(0)
    first, *later = (make_scores([0.5, 0.5, 0.9, 0.56, 0.3], n=25, seed=s) for s in range(4))
    first[4] = first[3] + rng.normal(0, 0.02, 25)
    race = Race()
    for number, table in enumerate([first, *later]):
        race.start(split_of(table))
        for place in range(4 if number else 5):
            method = "DuRP" if place > 1 else "Euclidean"
            params = {"number": place, "distance": "cosine"}
            race.enter(method, params, (0, place), 0.1, stays=place < 4)
    race.bar({race.candidates[2].key})
    assert not race.candidates[4].dropped
    choice = _choice.choose(race)
    assert choice["kept"] is race.candidates[3]
    scores = race.scores()
    assert choice["gain_interval_"][0] > best_of_gains(scores[3:], scores[1])[1]


def test_only_the_better_plain_distance_replaces_the_default():
    table = np.array([[0.61] * 12, [0.6] * 12, [0.3] * 12, [0.2] * 12])
    table[0] += np.resize([0.05, -0.05], 12)  # better by less than a standard error
    table += 0.01 * np.random.default_rng(0).standard_normal(12)
    race = race_of(table)
    race.evidence = "default"
    race.candidates[2].params |= {"prior": "whitening", "reg": 0.01}
    choice = _choice.choose(race)
    assert choice["kept"].method == "Euclidean"
    assert choice["best_index_"] == better_plain(race.scores())


def test_candidates_with_the_same_fit():
    race = race_of(make_scores([0.5] * 5))
    a, b, c = race.candidates[2:]
    a.params = {"reg": 1.0, "power": 0.0, "n_components": 9, "distance": "cosine"}
    b.params = {"reg": 1.0, "power": 0.5, "n_components": 5, "distance": "euclidean"}
    c.params = {"reg": 2.0, "power": 0.0, "n_components": 9, "distance": "cosine"}
    keys = [one.key for one in race.candidates]
    assert [one.key for one in race.with_fit_of(a)] == keys[:4]
    b.dropped = True
    assert [one.key for one in race.with_fit_of(a)] == keys[:3]
    a.dropped = True  # with max_components, it may be chosen nevertheless
    assert [one.key for one in race.with_fit_of(a)] == keys[:3]
    assert not any(one.dropped for one in race.with_fit_of(a))
    assert [one.key for one in race.with_fit_of(race.candidates[0])] == keys[:2]


def test_a_prior_is_tested_on_its_own_where_queries_are_few():
    table = np.zeros((4, 40))
    table[2:] = 0.0138 + 0.05 * np.random.default_rng(1).standard_normal(40)
    methods = ["Euclidean", "Euclidean", "DuOri", "DuRP"]
    race = race_of(table, methods=methods, evidence="one-sided")
    assert _choice.choose(race)["kept"].method == "Euclidean"  # neither has a prior
    race.candidates[2].params["prior"] = "identity"
    chosen = _choice.choose(race)
    assert chosen["kept"].method == "DuOri"
    assert chosen["gain_interval_"][0] < 0.0 < chosen["gain_interval_"][1]
    careful = race_of(table, methods=methods)
    careful.candidates[2].params["prior"] = "identity"
    assert _choice.choose(careful)["kept"].method == "Euclidean"
    worse = race_of(-table, methods=methods, evidence="one-sided")
    worse.candidates[2].params["prior"] = "identity"
    assert _choice.choose(worse)["kept"].method == "Euclidean"


def test_slow_candidates_are_left_out_when_time_is_short():
    race = race_of(make_scores([0.5, 0.5, 0.9]))
    race.bar_slow(0.2)
    assert _choice.choose(race)["kept"].method == "DuRP"
    assert race.late == set()
    race.bar_slow(0.05)
    assert _choice.choose(race)["kept"].method == "Euclidean"
    assert race.late == {race.candidates[2].key}


def test_those_behind_slow_candidates_alone_are_back():
    race = race_of(make_scores([0.5, 0.5, 0.9, 0.7, 0.8, 0.4]))
    _, _, best, good, slow, bad = race.candidates
    race.finish()
    assert [one.dropped for one in (best, good, slow, bad)] == [False, True, True, True]
    best.fit_times, slow.fit_times = [0.3], [0.3]  # the second is slow too, once it is back
    race.bar_slow(0.2)
    assert race.late == {best.key, slow.key}
    assert _choice.choose(race)["kept"] is good
    assert bad.dropped


def test_something_is_chosen_with_few_components_however_slow():
    race = race_of(make_scores([0.5, 0.5, 0.9]))
    race.most_components = 2
    for plain in race.candidates[:2]:
        plain.barred = True
    race.bar_slow(0.05)
    assert race.late == set()


def test_the_expected_score_is_not_the_winners():
    """Of many candidates that are alike, the best looks better than it is."""
    best, expected = [], []
    for seed in range(20):
        table = make_scores([0.3, 0.3, *[0.5] * 40], n=100, noise=0.3, seed=seed)
        choice = _choice.choose(race_of(table))
        best.append(choice["best_score_"] - table[2:].mean())
        expected.append(choice["expected_score_"] - table[2:].mean())
    assert np.mean(best) > 0.02
    assert abs(np.mean(expected)) < 0.01


def test_best_of_gains_has_the_interval_and_the_mean():
    scores = make_scores([0.5, 0.6, 0.61])
    expected, low, high = best_of_gains(scores[1:], scores[0])
    assert (low, high) == best_of_interval(scores[1:], scores[0])
    assert low < expected < high
    mutual = best_of_gains(scores[1:], scores[0], mutual=True)
    assert mutual[0] == expected
    assert_allclose(np.subtract(mutual[1:], expected), 2 * np.subtract((low, high), expected))


def test_rows_that_rank_each_other_vary_twice_as_much():
    """Mean agreement of pairs: the interval of independent queries covers too seldom."""
    covered = {False: 0, True: 0}
    for seed in range(200):
        rows = np.random.default_rng(seed).normal(size=60)
        pairs = np.add.outer(rows, rows)  # a statistic of pairs, whose mean is zero
        queries = (pairs.sum(axis=1) - 2 * rows) / 59
        for mutual in covered:
            _, low, high = best_of_gains(queries[None], np.zeros(60), mutual=mutual, n_draws=200)
            covered[mutual] += low <= 0.0 <= high
    assert covered[True] > 165
    assert covered[False] < 160


# --- MetricCV --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.mark.parametrize("n_classes", [2, 10])
def test_ridge_is_scored_as_it_is(digits, n_classes):
    """Of two classes there is one direction, which has no cosine."""
    X, y = (part[digits[1] < n_classes] for part in digits)
    search = MetricCV(**FAST).fit(X, y)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    part = next(Labels(y).splits(X, None, "map", seed))
    results = search.cv_results_
    tried = np.flatnonzero((results["estimator"] == "RidgeMetric") & ~results["dropped"])
    assert len(tried) > 1
    assert results["params"][tried[-1]]["alpha"] is None
    for number in tried[[0, len(tried) // 2, -1]]:
        model = RidgeMetric(**results["params"][number]).fit(X[part.train_rows], y[part.train_rows])
        expected = model.score(X[part.test_rows], y[part.test_rows])
        assert results["split0_test_score"][number] == pytest.approx(expected, abs=1e-6)


def tries_default(search):
    return any(one.get("alpha", 0.0) is None for one in search.cv_results_["params"])


def few_of(y, n):
    return np.concatenate([np.flatnonzero(y == name)[:n] for name in np.unique(y)])


def test_the_default_ridge_is_taken_where_few_labels_leave_doubt(digits):
    X, y = digits
    few = few_of(y, 5)
    search = MetricCV(**FAST).fit(X[few], y[few])
    assert isinstance(search.best_estimator_, RidgeMetric)
    assert search.best_params_["alpha"] is None
    assert search.gain_interval_[0] < 0.0
    assert "So few labels cannot show a gain" in search.recommend()
    assert search.score(X, y) > Euclidean("cosine").fit(X).score(X, y) + 0.02
    results = search.cv_results_
    (place,) = (i for i, one in enumerate(results["params"]) if one.get("alpha", 0.0) is None)
    assert results["params"][place]["distance"] == "cosine"
    n_splits = sum(name.startswith("split") for name in results)
    assert n_splits == 7
    parts = [results[f"split{number}_test_score"][place] for number in range(n_splits)]
    assert not np.isnan(parts).any()  # it never drops out


def test_the_default_ridge_is_tried_only_where_it_may_help(digits):
    X, y = digits
    few = few_of(y, 8)
    X, y = X[few], y[few]
    fast = FAST | {"n_triplets": 100}
    assert tries_default(MetricCV(**fast).fit(X, y))
    assert tries_default(MetricCV(**fast, cv=3).fit(X, y))
    for options, given in (
        ({}, np.random.default_rng(0).permutation(y)),  # nothing can be predicted
        ({}, Labels(y, groups=np.arange(len(y)) // 2)),
        ({}, Labels(np.where((np.arange(80) % 8 < 5) & (y < 7), y, -1), unknown=-1)),  # 35 labels
        ({"cv": "classes", "priors": [None]}, y),
        ({"shrinkages": [0.1]}, y),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert not tries_default(MetricCV(**fast, **options).fit(X, given))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leave_one_out_predicts_classes(n_classes):
    """Chance is exceeded where there is something to predict, and hardly ever elsewhere."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 20)), rng.integers(n_classes, size=60)
        shifted = X + np.eye(20)[y] * 3.0
        found.append([predicts_classes(rows, Labels(y).check(60)) for rows in (X, shifted)])
    by_chance, with_signal = np.mean(found, axis=0)
    assert by_chance < 0.1
    assert with_signal == 1.0


def test_chance_is_the_shares_of_the_classes_left_out():
    """With a penalty that explains nothing, the errors are those of the shares of other rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)), np.repeat([0, 1, 2], [25, 15, 10])
    found = ridge.decompose(X)
    aims = ridge.targets(found, y)
    expected = [
        ((np.eye(3)[y[i]] - np.bincount(np.delete(y, i), minlength=3) / 49) ** 2).sum()
        for i in range(50)
    ]
    assert_allclose(errors_by_shares(aims), expected)
    assert_allclose(ridge.loo_errors(found, aims, np.array([1e12]))[0], expected, rtol=1e-6)


def test_of_two_scores_neither_is_given_up():
    scores = {"map": [0.5, 0.5, 0.9, 0.88, 0.7], "knn": [0.5, 0.5, 0.6, 0.88, 0.9]}
    tables = {name: make_scores(means, noise=0.3) for name, means in scores.items()}
    also = {name: lambda _, test, table=table: table[test] for name, table in tables.items()}
    race = Race()
    race.start(split_of((tables["map"] + tables["knn"]) / 2, also=also))
    for place, method in enumerate(["Euclidean", "Euclidean", *["DuRP"] * 3]):
        race.enter(method, {"number": place, "distance": "cosine"}, (0, place), 0.1)
    choice = _choice.choose(race)
    assert choice["best_index_"] == 3
    assert choice["other_scores_"]["map"] == pytest.approx(tables["map"][[3, 0]].mean(axis=1), 0.1)


def test_both_is_the_best_mean_of_two_scores(digits):
    X, y = digits
    found = {name: MetricCV(scoring=name, **FAST).fit(X, y) for name in ("map", "knn", "both")}
    assert set(found["map"].other_scores_) == {"knn"}
    assert set(found["knn"].other_scores_) == {"map"}
    both = found["both"].other_scores_
    assert set(both) == {"map", "knn"}
    for name, other in (("map", "knn"), ("knn", "map")):
        alone = found[name].best_score_ + found[name].other_scores_[other][0]
        assert 2 * found["both"].best_score_ > alone - 0.01
    expected = np.mean([both["map"][0], both["knn"][0]])
    assert found["both"].best_score_ == pytest.approx(expected)


def test_require_leaves_out_lifts(digits):
    X, y = digits
    settings = {**FAST, "lifts": [None, "rbf"], "shrinkages": [0.1], "powers": [0.0], "ranks": [9]}
    assert MetricCV(**settings).fit(X, y).metric_.lift is not None
    for require in ("linear", "faiss", "explainable"):
        search = MetricCV(require=require, **settings).fit(X, y)
        assert search.metric_.lift is None
    with pytest.raises(ValueError, match="require='faiss' allows no lift: leave lifts out"):
        MetricCV(require="faiss", **{**settings, "lifts": ["rbf"]}).fit(X, y)
    with pytest.raises(ValueError, match="require='faiss' cannot be combined with blocks"):
        MetricCV(require="faiss", blocks=[32, 32]).fit(X, y)


@pytest.mark.parametrize("most", [3, 20])
def test_max_components(digits, most):
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a plain distance with more may be better
        search = MetricCV(max_components=most, **FAST).fit(X, y)
    assert search.metric_.rank <= most
    tried = search.cv_results_["param_n_components"][2:].compressed()
    assert len(tried)
    assert max(tried) <= most


def test_max_components_that_nothing_meets(digits):
    X, y = digits
    known = Pairs([[0, 1], [2, 3]] * 4, [True, False] * 4)
    with pytest.raises(ValueError, match="max_components=3: all metrics that are tried for pairs"):
        MetricCV(max_components=3, priors=["identity"]).fit(X, known)
    # they are many enough for the plain distance
    assert MetricCV(max_components=64, **FAST).fit(X[:, :8], y).metric_.rank <= 64


def test_noise_keeps_few_directions_where_they_are_required():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 10)), rng.integers(2, size=80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few active triplets
        assert isinstance(MetricCV(**FAST).fit(X, y).best_estimator_, Euclidean)
        assert MetricCV(max_components=2, **FAST).fit(X, y).metric_.rank <= 2


def test_time_limit(digits):
    X, y = digits
    with pytest.warns(UserWarning, match="time_limit=1e-06 is too short to learn a metric"):
        search = MetricCV(time_limit=1e-6, random_state=0).fit(X, y)
    assert isinstance(search.best_estimator_, Euclidean)
    assert len(search.cv_results_["params"]) == 2
    assert search.out_of_time_
    assert np.isnan(search.gain_interval_).all()
    assert search.recommend().startswith(
        f"No learned metric was tried within 1e-06 s; the plain {search.best_plain_[0]} distance is"
    )
    whole = MetricCV(**FAST).fit(X, y)
    limited = MetricCV(time_limit=1e6, **FAST).fit(X, y)
    assert limited.best_params_ == whole.best_params_
    assert not limited.out_of_time_


def test_no_time_is_left_for_the_fit_from_all_rows(digits, monkeypatch):
    monkeypatch.setattr(MetricCV, "_seconds_left", lambda self, begin: 0.0)
    with pytest.warns(UserWarning, match="time_limit=100 is too short to learn a metric"):
        search = MetricCV(time_limit=100, cv="classes", n_triplets=500, random_state=0).fit(*digits)
    assert search.out_of_time_
    assert len(search.cv_results_["params"]) > 2
    assert search.recommend().startswith(
        "No learned metric could be chosen within 100 s; the plain"
    )


def test_all_learned_metrics_drop_out():
    race = race_of(make_scores([0.5, 0.5, 0.2]))
    race.finish()
    choice = _choice.choose(race)
    assert choice["kept"].method == "Euclidean"
    assert np.isnan(choice["gain_interval_"]).all()


def test_families_and_plot(digits):
    X, y = digits
    search = MetricCV(**FAST).fit(X, y)
    names = [one["name"] for one in search.families_]
    assert set(names) == {"Euclidean", "Whitening", "RidgeMetric", "DuRP"}
    for one in search.families_:
        assert one["low"] <= one["score"] <= one["high"]
    scores = [one["score"] for one in search.families_]
    assert scores == sorted(scores, reverse=True)
    axes = search.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == names[::-1]
    assert axes.get_xlabel() == "mAP on held-out rows (%)"
    assert search.plot(axes) is axes


def test_estimate_counts_the_lift(digits):
    X, _ = digits
    with_lift, without = MetricCV().estimate(X), MetricCV(require="linear").estimate(X)
    assert with_lift.memory > without.memory
    assert with_lift.work > without.work > DuRP().estimate(X).work
    assert 0.0 < without.seconds < 600.0


def test_few_rows_are_held_out_more_often():
    X, y = make_classes(40, 6, n_classes=4, shift=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few active triplets
        search = MetricCV(**FAST).fit(X, y)
    n_splits = sum(key.startswith("split") for key in search.cv_results_)
    assert n_splits == 10  # four quarters, and six at random
    assert search.cv_results_["n_queries"].max() <= 40


def test_the_leader_of_the_simplest_is_the_best_over_all_queries():
    """One that dropped out on easy queries is not."""
    table = make_scores([0.5, 0.5, 0.7, 0.6], noise=0.01)
    easy = np.argsort(-table[3])[:60]
    race = race_of(table)
    race.candidates[3].params["n_components"] = 1
    race.candidates[2].params["n_components"] = 5
    part = np.full(400, np.nan)
    part[easy] = table[3, easy]
    race.candidates[3].parts[0] = part
    scores = race.scores()
    means = estimated_means(scores)
    allowed = np.array([False, False, True, True])
    assert part[easy].mean() > table[2].mean()
    assert _choice._simplest(race, scores, means, allowed, 2) == 2


def make_positives(n_features=20):
    """Queries that resemble their document in five features, and differ much in the others."""
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(120, n_features))
    noise = np.where(np.arange(n_features) < 5, 0.05, 8.0)
    queries = documents[:80] + noise * rng.normal(size=(80, n_features))
    return documents, Positives(np.column_stack([np.arange(80)] * 2), queries=queries)


def test_few_directions_where_the_guard_objects(monkeypatch):
    monkeypatch.setattr(_choice, "_MOST_LOST", -np.inf)  # nothing is good enough
    documents, known = make_positives()
    search = MetricCV(max_components=3, **FAST).fit(documents, known)
    assert search.metric_.rank <= 3
    assert search.new_documents_[0] > search.new_documents_[1]
    with_all = MetricCV(**FAST).fit(documents, known)
    assert isinstance(with_all.best_estimator_, Euclidean)


def test_every_choice_can_be_scored_by_the_guard():
    """Whatever the shrinkage: those that were not tried first, too."""
    documents, known = make_positives()
    search = MetricCV(priors=[None], **FAST).fit(documents, known)
    assert search.best_params_["shrinkage"] < 0.03  # reached by steps
    assert search.new_documents_[0] > search.new_documents_[1] + 0.2
    found = search.cv_results_
    left = ~found["dropped"] & (found["estimator"] == "DuRP")
    assert (found["n_queries"][left] == found["n_queries"].max()).all()


def test_later_splits_score_all_that_are_left(digits):
    X, y = digits
    found = MetricCV(cv=3, **FAST).fit(X[:300], y[:300]).cv_results_
    left = ~found["dropped"]
    assert left.sum() > 10
    assert (found["n_queries"][left] == found["n_queries"].max()).all()


def test_no_time_for_new_documents_keeps_the_choice(monkeypatch):
    documents, known = make_positives()
    usual = MetricCV(time_limit=1e6, **FAST).fit(documents, known)
    begun = Race.start

    def start(self, split):
        begun(self, split)
        if split.guard:
            self.deadline = -np.inf

    monkeypatch.setattr(Race, "start", start)
    with pytest.warns(UserWarning, match="left too little time to compare the choice with"):
        late = MetricCV(time_limit=1e6, **FAST).fit(documents, known)
    assert late.best_params_ == usual.best_params_
    assert late.new_documents_ is None
    assert not late.out_of_time_


def test_a_default_that_never_drops_out_does_not_seem_late(digits, monkeypatch):
    """Where all others dropped out, and it is not taken, the plain distance is kept."""
    X, y = digits
    monkeypatch.setattr("dualmetric.estimators.search.predicts_classes", lambda *_: True)
    monkeypatch.setattr(_choice, "_default_ridge", lambda *_: None)
    finish = Race.finish

    def drop_all(self):
        finish(self)
        for one in self.candidates:
            one.dropped = not one.stays

    monkeypatch.setattr(Race, "finish", drop_all)
    search = MetricCV(**FAST).fit(X[:300], y[:300])
    assert isinstance(search.best_estimator_, Euclidean)
    assert not search.out_of_time_
    assert "clearly worse" in search.recommend()


def test_unknown_labels_are_no_class(digits):
    X, y = digits
    part = np.where((y[:200] < 3) & (np.arange(200) < 150), y[:200], -1)
    search = MetricCV(**FAST).fit(X[:200], Labels(part, unknown=-1))
    ranks = set(search.cv_results_["param_n_components"].compressed())
    assert 2 in ranks
    assert 3 not in ranks


def test_one_direction_is_scored_as_it_is_compared():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], (y[:300] < 5).astype(int)
    params = {"lifts": [None], "random_state": 0}
    cosine, euclidean = (
        MetricCV(distances=names, **params).fit(X, y) for names in (["cosine"], ["euclidean"])
    )
    found = [one.cv_results_ for one in (cosine, euclidean)]
    ridges = [one["estimator"] == "RidgeMetric" for one in found]
    scores = [one["mean_test_score"][some] for one, some in zip(found, ridges, strict=True)]
    left = ~np.any([one["dropped"][some] for one, some in zip(found, ridges, strict=True)], axis=0)
    assert left.any()
    assert_allclose(scores[0][left], scores[1][left])


def test_estimate_counts_the_lift_of_sparse_rows(digits):
    rows = sp.csr_matrix(digits[0])
    with_lift, without = MetricCV().estimate(rows), MetricCV(require="linear").estimate(rows)
    assert with_lift.work > without.work
    wide = sp.random(50, 4001, 0.01, format="csr", random_state=0)
    assert MetricCV().estimate(wide) == MetricCV(require="linear").estimate(wide)
