"""Matcher: probabilities, thresholds and what is refused."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom, norm
from sklearn.base import clone

from dualmetric import DuRP, Matcher, Metric, Pairs
from dualmetric.matching import Evidence, NotEnoughPairsError, Threshold, _calibration
from dualmetric.matching import _bounds as bounds
from dualmetric.matching._thresholds import find_threshold


def things(n=300, noise=0.3, seed=0, width=4):
    """Rows of n things, each recorded twice, and pairs: all true ones, and as many others."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(n, width))
    X = np.vstack([first, first + noise * rng.normal(size=(n, width))])
    i = np.arange(n)
    index = np.vstack([np.c_[i, n + i], np.c_[i, n + (i + 1) % n], np.c_[i, n + (i + 7) % n]])
    return X, Pairs(index, np.repeat([True, False, False], n))


@pytest.fixture(scope="module")
def fitted():
    X, pairs = things()
    return X, pairs, Matcher(Metric(None, 4)).fit(X, pairs)


# bounds


@given(st.integers(0, 40), st.integers(1, 200), st.sampled_from([0.8, 0.95, 0.99]))
@settings(deadline=None, max_examples=60)
def test_exact_bound_is_the_rate_at_which_so_few_errors_are_just_improbable(errors, more, sure):
    total = errors + more
    bound = bounds.exact_upper(errors, total, sure)
    assert binom.cdf(errors, total, bound) == pytest.approx(1 - sure, rel=1e-6)
    assert bounds.exact_lower(total - errors, total, sure) == pytest.approx(1 - bound)


def test_without_evidence_nothing_is_known():
    assert bounds.exact_upper(0, 0, 0.95) == 1.0
    assert bounds.exact_upper(3, 3, 0.95) == 1.0


@pytest.mark.parametrize("errors", [0, 1, 5])
def test_fewest_pairs_is_the_first_that_will_do(errors):
    n = bounds.fewest_pairs(0.05, 0.95, errors)
    assert bounds.exact_upper(errors, n, 0.95) <= 0.05
    assert bounds.exact_upper(errors, n - 1, 0.95) > 0.05
    assert n == next(k for k in itertools.count(errors + 1) if binom.cdf(errors, k, 0.05) <= 0.05)


@given(
    st.integers(0, 8),
    st.integers(1, 200),
    st.floats(1.0, 4.0),
    st.floats(1.0, 20.0),
    st.sampled_from([0.8, 0.95]),
)
@settings(deadline=None, max_examples=40)
def test_bound_with_hubs_is_the_largest_rate_that_no_number_of_them_rules_out(
    errors, more, effect, size, sure
):
    total = errors + more
    exact = bounds.exact_upper(errors / effect, total / effect, sure)
    assert bounds.upper_bound(errors, total, sure, effect) == pytest.approx(exact, abs=1e-6)
    bound = bounds.upper_bound(errors, total, sure, effect, size)
    assert bound >= exact - 1e-6
    # x missing hubs, and the bound for the other pairs with what is left of the confidence
    for x in np.linspace(0, 0.99, 8) * -np.log(1 - sure):
        others = bounds.exact_upper(errors / effect, total / effect, 1 - (1 - sure) * np.exp(x))
        rate = (others * total + size * x) / (total + size * x)
        assert bound >= 0.97 * rate - 1e-6


def test_without_errors_three_hubs_may_be_missing():
    bound = bounds.upper_bound(0, 10_000, 0.95, 1.0, 20.0)
    assert bound == pytest.approx(20 * np.log(20) / 10_000, rel=0.01)
    assert bounds.upper_bound(0, 10_000, 0.95, 1.0, 1.0) == pytest.approx(3 / 10_000, rel=0.01)


def test_a_hub_has_as_many_pairs_as_the_entities_of_a_side():
    # three on the left with two, two and four pairs; each on the right has one
    entity = bounds.numbered(np.column_stack([[0, 0, 1, 1, 2, 2, 2, 2], np.arange(8) + 10]))
    assert bounds.hub_size(entity) == pytest.approx((4 * 2 + 4 * 4) / 8)
    assert bounds.hub_size(entity[:, [1, 0, 2]]) == bounds.hub_size(entity)
    assert bounds.hub_size(bounds.numbered(np.arange(8).reshape(-1, 2))) == 1.0


def test_covariance_of_pairs_that_share_an_entity_is_that_of_the_double_sum():
    rng = np.random.default_rng(0)
    entity = rng.integers(12, size=(60, 2))  # some pairs twice, some of one entity
    error = (rng.random(60) < 0.3).astype(float)
    rest = error - error.mean()
    alike = np.array([[bool(set(a) & set(b)) for a in entity.tolist()] for b in entity.tolist()])
    numbers = bounds.numbered(entity)
    assert bounds.largest_effect(numbers) == pytest.approx(alike.sum() / 60)
    effect = (rest @ alike @ rest) / (rest @ rest)
    with_entity = (entity[:, :, None] == np.arange(12)).any(axis=1)
    sums = rest @ with_entity
    doubt = np.sqrt(2 * (sums**4).sum()) / (sums**2).sum()
    expected = ((1 + doubt) * effect * 12 / 11 - 1) / (alike.sum() / 60 - 1)
    assert 0 < expected < 1
    assert bounds.likeness(error, numbers) == pytest.approx(expected)


def test_pairs_that_share_nothing_count_in_full():
    entity = bounds.numbered(np.arange(20).reshape(-1, 2))
    assert bounds.largest_effect(entity) == 1.0
    assert bounds.likeness(np.arange(10) < 3.0, entity) == 0.0


def test_pairs_of_a_single_entity_count_as_one():
    entity = bounds.numbered(np.zeros((10, 2), dtype=int))
    error = np.arange(10) < 3.0
    assert bounds.likeness(error, entity) == 1.0
    assert bounds.effect_of(entity, 1.0) == 10.0


def test_without_a_hit_shared_entities_widen_the_interval():
    alone = bounds.numbered(np.arange(80).reshape(-1, 2))
    shared = bounds.numbered(np.column_stack([np.arange(40) // 10, 100 + np.arange(40)]))
    for hit in (np.zeros(40, bool), np.ones(40, bool)):
        widths = [np.ptp(bounds.rate_interval(hit, entity)) for entity in (alone, shared)]
        assert widths[0] == pytest.approx(1 - 0.025 ** (1 / 40))
        assert widths[1] == pytest.approx(1 - 0.025 ** (1 / 4))


def test_copies_of_the_same_evidence_count_once():
    """Each pair ten times, by other rows of the same two entities: ten times as little evidence."""
    X, pairs = things(200, 0.1)
    rng = np.random.default_rng(0)
    distance = np.linalg.norm(X[pairs.index[:, 0]] - X[pairs.index[:, 1]], axis=1)
    once = Evidence.of(distance, pairs.same, pairs.index)
    ten = Evidence.of(
        np.repeat(distance, 10) + 1e-9 * rng.random(10 * len(distance)),
        np.repeat(pairs.same, 10),
        np.repeat(pairs.index, 10, axis=0),
    )
    assert find_threshold(once, "precision", 0.95, 0.95).bound > 0.95
    found = find_threshold(ten, "precision", 0.95, 0.95)
    assert found.evidence < len(distance)
    with pytest.raises(NotEnoughPairsError):
        find_threshold(ten, "precision", 0.99, 0.95)  # 200 independent pairs cannot


# thresholds


def draw(rng, n, per, share=0.4, apart=3.5):
    """Distances of normal law, with an effect of each entity; ``per`` pairs have each entity."""
    same = rng.random(n) < share
    noise = rng.normal(size=n)
    entity = np.arange(2 * n).reshape(n, 2)
    if per:
        m = 2 * n // per
        entity = rng.integers(m, size=(n, 2))
        entity[:, 1] = np.where(entity[:, 0] == entity[:, 1], (entity[:, 1] + 1) % m, entity[:, 1])
        noise = (rng.normal(size=m)[entity].sum(axis=1) + np.sqrt(2) * noise) / 2
    return Evidence.of(np.where(same, 0.0, apart) + noise, same, entity)


def rates(t, prevalence, apart=3.5):
    recall, fpr = norm.cdf(t), norm.cdf(t - apart)
    precision = prevalence * recall / (prevalence * recall + (1 - prevalence) * fpr)
    return {"precision": precision, "recall": recall, "fpr": fpr}


@pytest.mark.parametrize(
    ("per", "target", "value", "prevalence"),
    [
        (0, "precision", 0.95, None),
        (0, "recall", 0.95, None),
        (10, "precision", 0.95, None),
        (10, "precision", 0.9, 0.2),
        (10, "recall", 0.95, None),
        (10, "fpr", 0.02, None),
    ],
)
def test_guarantee_holds_over_500_draws(per, target, value, prevalence):
    rng = np.random.default_rng(7)
    broken = supported = 0
    for _ in range(500):
        try:
            found = find_threshold(draw(rng, 1200, per), target, value, 0.95, prevalence)
        except NotEnoughPairsError:
            continue
        supported += 1
        truth = rates(found.distance, prevalence or 0.4)[target]
        broken += truth > value if target == "fpr" else truth < value
    assert broken <= 25
    assert supported > 150


def draw_hubs(rng, n, per, generic):
    """Pairs of records on two sides; to a share of those on the left, all others are close."""
    same, m = rng.random(n) < 0.4, n // per
    left, right = rng.integers(m, size=n), m + rng.integers(m, size=n)
    hub = rng.random(m) < generic
    distance = rng.normal(size=n) + np.where(same | hub[left], 0.0, 5.0)
    return Evidence.of(distance, same, np.column_stack([left, right]))


@pytest.mark.parametrize(("fpr", "generic"), [(0.01, 0.01), (0.03, 0.015)])
def test_guarantee_holds_where_hubs_may_be_missing(fpr, generic):
    rng = np.random.default_rng(1)
    broken = {False: 0, True: 0}
    noted = 0
    for _ in range(150):
        pairs = draw_hubs(rng, 2000, 10, generic)
        for hubs in broken:
            try:
                found = find_threshold(pairs, "fpr", fpr, 0.95, hubs=hubs)
            except NotEnoughPairsError:
                continue
            t = found.distance
            wrong = generic * norm.cdf(t) + (1 - generic) * norm.cdf(t - 5) > fpr
            broken[hubs] += wrong
            noted += wrong and not hubs and found.bound_with_hubs > fpr
            assert not hubs or found.bound == found.bound_with_hubs
            assert ("may be missing" in str(found)) == (found.bound_with_hubs > fpr)
    assert broken[True] <= 11  # 5 %, and one standard error of 150 draws
    assert broken[False] - noted <= 11
    assert noted > 5


def test_hubs_cost_nothing_where_pairs_share_nothing():
    pairs = draw(np.random.default_rng(2), 1500, 0)
    for target, value in (("precision", 0.95), ("recall", 0.9), ("fpr", 0.02)):
        plain = find_threshold(pairs, target, value, 0.95)
        assert find_threshold(pairs, target, value, 0.95, hubs=True) == plain
        assert plain.bound == plain.bound_with_hubs


def test_a_refusal_says_if_hubs_are_the_reason():
    pairs = draw(np.random.default_rng(2), 1200, 10)
    found = find_threshold(pairs, "fpr", 0.02, 0.95)
    assert found.bound <= 0.02 < found.bound_with_hubs
    with pytest.raises(NotEnoughPairsError, match="Without hubs, the target can be met"):
        find_threshold(pairs, "fpr", 0.02, 0.95, hubs=True)


def test_order_statistics_give_the_exact_bound_of_recall_and_fpr():
    """Without shared entities, the threshold is the order statistic of a tolerance interval."""
    pairs = draw(np.random.default_rng(1), 600, 0)
    close, far = (pairs.distance[pairs.same], pairs.distance[~pairs.same])
    n, m = len(close), len(far)
    found = find_threshold(pairs, "recall", 0.9, 0.95)
    k = next(k for k in range(n, 0, -1) if binom.sf(k - 2, n, 0.9) > 0.05)
    later = pairs.distance[pairs.distance > close[k - 1]][0]
    assert close[k - 1] < found.distance < later
    found = find_threshold(pairs, "fpr", 0.1, 0.95)
    j = max(j for j in range(m) if binom.cdf(j, m, 0.1) <= 0.05)
    assert found.fpr == j / m
    before = pairs.distance[pairs.distance < far[j]][-1]
    assert before < found.distance < far[j]


def test_labels_beyond_the_first_failure_do_not_matter():
    pairs = draw(np.random.default_rng(3), 2000, 0)
    found = find_threshold(pairs, "precision", 0.95, 0.95)
    # everything beyond is made worse: the sequence has ended, so nothing changes
    same = pairs.same.copy()
    beyond = np.flatnonzero(pairs.distance > found.distance)[200:]
    same[beyond] = False
    assert find_threshold(pairs._replace(same=same), "precision", 0.95, 0.95).distance == (
        found.distance
    )


def test_equal_distances_are_accepted_together():
    distance = np.repeat([0.0, 1.0, 2.0], [60, 60, 400])
    same = np.r_[np.ones(60, bool), np.ones(50, bool), np.zeros(410, bool)]
    pairs = Evidence.of(distance, same, np.arange(1040).reshape(-1, 2))
    found = find_threshold(pairs, "precision", 0.9, 0.95)
    assert found.accepted == 60
    assert 0.0 < found.distance < 1.0


def test_prevalence_makes_precision_harder_and_its_bound_that_of_use():
    pairs = draw(np.random.default_rng(5), 4000, 0)
    plain = find_threshold(pairs, "precision", 0.9, 0.95)
    rare = find_threshold(pairs, "precision", 0.9, 0.95, prevalence=0.05)
    share = pairs.same.mean()
    equal = find_threshold(pairs, "precision", 0.9, 0.95, prevalence=share)
    assert rare.distance < plain.distance
    assert equal.distance == plain.distance
    assert equal.bound == pytest.approx(plain.bound)
    q, recall, fpr = 0.05, rare.recall, rare.fpr
    assert rare.precision == pytest.approx(q * recall / (q * recall + (1 - q) * fpr))


def test_too_few_pairs_say_how_many_more():
    X, pairs = things(100, 0.05)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs)
    with pytest.raises(
        NotEnoughPairsError,
        match=r"300 labelled pairs cannot .* more pairs, chosen in the same way",
    ) as e:
        matcher.threshold(precision=0.99)
    assert isinstance(e.value, ValueError)
    # with that many it works, and with a third of them it does not
    more = Matcher(Metric(None, 4)).fit(*things(100 + e.value.needed // 3, 0.05))
    assert more.threshold(precision=0.99).bound >= 0.99
    fewer = Matcher(Metric(None, 4)).fit(*things(100 + e.value.needed // 9, 0.05))
    with pytest.raises(NotEnoughPairsError):
        fewer.threshold(precision=0.99)


@pytest.mark.parametrize(("n", "per", "value"), [(400, 0, 0.99), (800, 4, 0.99)])
def test_about_as_many_pairs_as_are_said_to_be_needed_do(n, per, value):
    rng = np.random.default_rng(0)
    needed = []
    while len(needed) < 15:
        try:
            find_threshold(draw(rng, n, per), "precision", value, 0.95)
        except NotEnoughPairsError as error:
            needed.append(error.needed or np.inf)

    def supported(more):
        found = 0
        for _ in range(20):
            try:
                find_threshold(draw(rng, n + int(more), per), "precision", value, 0.95)
            except NotEnoughPairsError:
                continue
            found += 1
        return found

    usual = np.median(needed)
    assert supported(usual) >= 8
    assert supported(usual / 4) <= 12


def test_a_metric_that_is_not_good_enough_is_told_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    index = np.arange(400).reshape(-1, 2)
    matcher = Matcher(Metric(None, 3)).fit(X, Pairs(index, np.arange(200) % 2))
    with pytest.raises(NotEnoughPairsError, match="More pairs are unlikely to help") as e:
        matcher.threshold(precision=0.999)
    assert e.value.needed is None or e.value.best < 1


@pytest.mark.parametrize(
    ("first", "wrong", "value", "says"),
    [
        # 2 errors among the first 23 pairs are a precision of 0.913, and 2 among 20 are 0.9
        (23, (3, 8), 0.9, "is 0.913. At most 23 accepted pairs reach the target, too few to say"),
        (22, (3, 8), 0.9, "is 0.9048. At most 21 accepted pairs reach the target, too few to say"),
        (23, (3, 8), 0.8, "is 0.913. Label about"),
        (23, (3, 8), 0.95, "is 0.913. More pairs are unlikely to help: use a better metric"),
        # 32 pairs without an error could support 0.99, if there were many more of them
        (32, (), 0.99, "is 1. At most 32 accepted pairs reach the target, too few to say"),
        # all that are the same come first: more of them would help
        (11, (), 0.9, "at least 11 pairs, the highest measured precision is 1. Label about"),
        (1, (), 0.5, "at least 1 pair, the highest measured precision is 1. Label about"),
        (1, (), 0.999, "is 1. At most 1 accepted pair reaches the target, too few to say"),
    ],
)
def test_a_refused_precision_says_whether_more_pairs_can_help(first, wrong, value, says):
    same = np.zeros(400, bool)
    same[:first] = True
    same[list(wrong)] = False
    pairs = Evidence.of(np.arange(400.0), same, np.arange(800).reshape(-1, 2))
    with pytest.raises(NotEnoughPairsError) as e:
        find_threshold(pairs, "precision", value, 0.95)
    least = min(20, np.count_nonzero(same))
    pairs = "1 pair" if least == 1 else f"{least} pairs"
    said = f"among thresholds that accept at least {pairs}, the highest measured"
    assert said in str(e.value)
    assert says in str(e.value)
    assert (e.value.needed is None) == ("Label about" not in says)


def test_a_refused_rate_says_how_many_pairs_there_are():
    same = np.arange(60) < 40
    pairs = Evidence.of(np.arange(60.0), same, np.arange(120).reshape(-1, 2))
    for target, value, says in (
        ("recall", 0.95, "40 of them are the same, which is too few. Label about"),
        ("fpr", 0.01, "20 of them are different, which is too few. Label about"),
        ("fpr", 1e-5, "More than 100 times as many pairs are needed: ask for a higher fpr"),
    ):
        with pytest.raises(NotEnoughPairsError) as e:
            find_threshold(pairs, target, value, 0.95)
        assert says in str(e.value)
        assert e.value.best == (0.0 if target == "fpr" else 1.0)


def test_threshold_arguments(fitted):
    _, _, matcher = fitted
    with pytest.raises(ValueError, match="precision=1 cannot be guaranteed by any number of pairs"):
        matcher.threshold(precision=1.0)
    with pytest.raises(ValueError, match="give only one of precision, recall, fpr; got"):
        matcher.threshold(precision=0.9, recall=0.9)
    for wrong in (0, 1.5, "high", np.nan, True):
        with pytest.raises(ValueError, match="fpr must be strictly between 0 and 1"):
            matcher.threshold(fpr=wrong)
        with pytest.raises(ValueError, match="confidence must be strictly between"):
            matcher.threshold(recall=0.9, confidence=wrong)
    with pytest.raises(ValueError, match=r"got 99: for 99 %, give 0\.99"):
        matcher.threshold(precision=99)
    assert "precision ≥ 0.9" in str(matcher.threshold(precision=0.9))
    assert "fpr ≤ 0.0" in str(matcher.threshold(fpr=0.05))


def test_review_band(fitted):
    X, pairs, matcher = fitted
    band = matcher.review_band(precision=0.95, recall=0.95, confidence=0.9)
    distance = matcher.pairs_.distance
    between = (distance > band.same.distance) & (distance <= band.different.distance)
    assert band.share == pytest.approx(between.mean())
    places = matcher.worth_labelling(X, pairs.index, band, n=10)
    inside = matcher.distance(*(X[pairs.index[places].T]))
    assert (inside > band.same.distance).all()
    assert (inside <= band.different.distance).all()
    odds = np.abs(matcher.log_odds(inside))
    alone = [len(set(pairs.index[places[:k]].ravel().tolist())) == 2 * k for k in range(1, 5)]
    assert all(alone)
    assert odds[0] == odds.min()
    assert len(matcher.worth_labelling(X, pairs.index, n=5)) == 5
    assert len(matcher.worth_labelling(X, [])) == 0
    with pytest.raises(ValueError, match=r"index must be an \(N, 2\) array .* got shape \(1, 4\)"):
        matcher.worth_labelling(X, [[0, 1, 2, 3]])
    for wrong in ([[0.5, 1.0]], [["a", "b"]], [[0, 10**6]], [[0, -1]], None):
        with pytest.raises(ValueError, match="index"):
            matcher.worth_labelling(X, wrong)
    assert np.array_equal(matcher.worth_labelling(X, pairs, band, n=10), places)
    with pytest.raises(TypeError, match=r"band must be a Band, .* got 0.5"):
        matcher.worth_labelling(X, pairs.index, 0.5)


def test_pairs_that_share_no_row_with_a_chosen_one_come_first(fitted):
    matcher = fitted[2]
    steps = np.linspace(0.01, 5.0, 500)
    even = steps[np.argmin(np.abs(matcher.log_odds(steps)))]
    line = np.zeros((4, 4))
    line[:, 0] = even * np.array([0.0, 1.0, 2.1, 3.4])
    assert matcher.worth_labelling(line, [[0, 1], [1, 2], [2, 3]]).tolist() == [0, 2, 1]


# probabilities


def test_probability_is_calibrated_and_falls_with_the_distance(fitted):
    X, _, matcher = fitted
    other, test = things(2000, seed=5)
    scores = matcher.evaluate(other, test)
    assert scores.calibration_error < 0.03
    assert scores.n_pairs == 6000
    ordered = matcher.log_odds(np.linspace(0, 9, 200))
    assert (np.diff(ordered) <= 0).all()
    proba = matcher.predict_proba(X[:4], X[300:304])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(matcher.predict(X[:4], X[300:304]), proba[:, 1] >= 0.5)


@pytest.mark.parametrize("form", ["logistic", "squared", "isotonic"])
def test_each_form_matches_scikit_learn(form):
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    same = rng.random(500) < 0.5
    distance = np.abs(rng.normal(size=500) + 4 - 2 * same)
    fitted = _calibration.fit_calibration(form, distance, same)
    at = np.linspace(0, 8, 50)
    found = expit(fitted.log_odds(at))
    if form != "isotonic":
        power = 2 if form == "squared" else 1
        model = LogisticRegression(C=1e4, max_iter=500).fit(distance[:, None] ** power, same)
        expected = model.predict_proba(at[:, None] ** power)[:, 1]
        np.testing.assert_allclose(found, expected, atol=5e-3)
    else:
        model = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(distance, same)
        np.testing.assert_allclose(found, model.predict(at), atol=5e-3)
        assert 0 < found.min() < found.max() < 1


def test_form_with_the_smaller_held_out_loss_is_taken():
    rng = np.random.default_rng(0)
    n = 3000
    distance = rng.random(n)
    entity = np.arange(2 * n).reshape(n, 2)
    line = rng.random(n) < 1 / (1 + np.exp(-(3 - 8 * distance)))
    assert _calibration.choose_calibration(distance, line, entity)[0].form == "logistic"
    square = rng.random(n) < 1 / (1 + np.exp(-(3 - 12 * distance**2)))
    assert _calibration.choose_calibration(distance, square, entity)[0].form == "squared"
    steps = rng.random(n) < np.where(distance < 0.3, 0.98, np.where(distance < 0.6, 0.5, 0.45))
    chosen, losses = _calibration.choose_calibration(distance, steps, entity)
    assert chosen.form == "isotonic"
    assert losses["isotonic"] < losses["logistic"]


def test_scores_with_prevalence_are_those_in_use():
    """Test pairs with another share of matches are weighted: as if each kind were repeated."""
    X, pairs = things()
    matcher = Matcher(Metric(None, 4)).fit(X, pairs, prevalence=1 / 11)
    other, test = things(500, seed=5)
    left, right = (other[column] for column in test.index.T)
    odds, same = matcher.decision_function(left, right), test.same
    many = np.repeat(np.arange(len(same)), np.where(same, 1, 5))  # 500 same, 5,000 different
    scores = matcher.evaluate(other, test)
    assert scores.log_loss == pytest.approx(_calibration.log_loss(odds[many], same[many]))
    probability = expit(odds[many])
    expected = _calibration.calibration_error(probability, same[many])
    assert scores.calibration_error == pytest.approx(expected)
    assert scores.calibration_error < 0.03


def test_prevalence_shifts_the_odds():
    X, pairs = things()
    plain = Matcher(Metric(None, 4)).fit(X, pairs)
    rare = Matcher(Metric(None, 4)).fit(X, pairs, prevalence=0.01)
    a, b = X[:5], X[300:305]
    shift = np.log(0.01 / 0.99) - np.log(300 / 600)
    np.testing.assert_allclose(
        rare.decision_function(a, b) - plain.decision_function(a, b), shift, rtol=1e-9
    )


def test_calibration_error_by_hand():
    probability = np.array([0.01, 0.02, 0.5, 0.52, 0.99, 1.0])
    same = np.array([False, False, True, False, True, True])
    expected = (0.03 + 0.02 + 0.01) / 6
    assert _calibration.calibration_error(probability, same) == pytest.approx(expected)


# input


def as_torch(X, _):
    return pytest.importorskip("torch").from_numpy(X)


def as_frame(X, _):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))


def as_dask(X, _):
    return pytest.importorskip("dask.array").from_array(X, chunks=(170, 4))


def as_map(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


KINDS = {
    "float32": lambda X, _: X.astype(np.float32),
    "sparse": lambda X, _: sp.csr_matrix(X),
    "list": lambda X, _: X.tolist(),
    "torch": as_torch,
    "frame": as_frame,
    "dask": as_dask,
    "memory map": as_map,
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_rows_of_every_kind_give_the_same(kind, fitted, tmp_path):
    X, pairs, matcher = fitted
    rows = KINDS[kind](X, tmp_path)
    other = Matcher(Metric(None, 4)).fit(rows, pairs)
    np.testing.assert_allclose(other.pairs_.distance, matcher.pairs_.distance, rtol=1e-5)
    found = other.duplicates(rows, 0.5)
    np.testing.assert_array_equal(found.pairs, matcher.duplicates(X, 0.5).pairs)


def test_one_pair_of_each_kind_is_enough_to_fit():
    X = np.arange(6.0).reshape(3, 2)
    matcher = Matcher(Metric(None, 2)).fit(X, Pairs([[0, 1], [0, 2]], [True, False]))
    assert 0 < matcher.predict_proba(X[:1], X[1:2])[0, 1] < 1
    with pytest.raises(NotEnoughPairsError):
        matcher.threshold()


def test_bad_input():
    X, pairs = things(20)
    index = pairs.index
    matcher = Matcher(Metric(None, 4))
    with pytest.raises(ValueError, match="no pair is labelled as different"):
        matcher.fit(X, Pairs(index[:5]))
    with pytest.raises(ValueError, match="no pair is labelled as the same"):
        matcher.fit(X, Pairs(index[:5], np.zeros(5)))
    with pytest.raises(ValueError, match="all 60 pairs are at the same distance"):
        matcher.fit(np.zeros_like(X), pairs)
    with pytest.raises(ValueError, match="NaN"):
        matcher.fit(np.where(X[3, 1] == X, np.nan, X), pairs)
    with pytest.raises(ValueError, match="expecting 4 features"):
        matcher.fit(X[:, :3], pairs)
    with pytest.raises(TypeError, match=r"y must be Pairs"):
        matcher.fit(X, np.zeros(40))
    for wrong in (0.0, 1.0, -1, "0.1"):
        with pytest.raises(ValueError, match="prevalence must be strictly between 0 and 1"):
            matcher.fit(X, pairs, prevalence=wrong)
    with pytest.raises(ValueError, match="groups must hold one value per row"):
        matcher.fit(X, pairs, groups=np.arange(3))
    with pytest.raises(ValueError, match="calibration must be"):
        Matcher(Metric(None, 4), "platt").fit(X, pairs)
    with pytest.raises(TypeError, match="metric must be a Metric"):
        Matcher("cosine").fit(X, pairs)
    with pytest.raises(ValueError, match=r"metric must be fitted: call DuRP\.fit"):
        Matcher(DuRP()).fit(X, pairs)
    assert not hasattr(matcher, "pairs_")


def test_pairs_labelled_both_ways_are_counted_and_named():
    X, pairs = things(20)
    index = np.vstack([pairs.index, pairs.index[:2]])
    with pytest.warns(UserWarning, match=r"left out: 2, such as pairs\[0\] and pairs\[60\]"):
        matcher = Matcher(Metric(None, 4)).fit(X, Pairs(index, np.r_[pairs.same, [False, False]]))
    assert len(matcher.pairs_.same) == 58


def test_a_failed_fit_leaves_the_matcher_as_it_was():
    X, pairs = things(30)
    matcher = Matcher(Metric(None, 4)).fit(X, pairs)
    before = matcher.predict_proba(X[:3], X[30:33])
    with pytest.raises(ValueError, match="no pair is labelled as different"):
        matcher.fit(X, Pairs(pairs.index[:5]))
    np.testing.assert_array_equal(matcher.predict_proba(X[:3], X[30:33]), before)


def test_a_metric_that_was_fitted_again_is_refused():
    X, pairs = things(60)
    model = DuRP(4, prior="identity", random_state=0).fit(X, pairs)
    matcher = Matcher(model).fit(X, pairs)
    matcher.predict(X[:2], X[2:4])
    model.fit(X, pairs)
    for use in (
        lambda: matcher.predict(X[:2], X[2:4]),
        lambda: matcher.threshold(precision=0.8),
        lambda: matcher.duplicates(X, 1.0),
    ):
        with pytest.raises(ValueError, match="refitted after this matcher"):
            use()


def test_entities_of_training_are_refused_in_evaluation():
    X, pairs = things(100)
    groups = np.array([f"thing {i}" for i in np.r_[:100, :100]])
    matcher = Matcher(Metric(None, 4)).fit(X, pairs, groups=groups)
    with pytest.raises(ValueError, match="100 of 100 entities of these pairs"):
        matcher.evaluate(X, pairs, groups=groups)
    other, test = things(100, seed=1)
    new = np.array([f"new thing {i}" for i in np.r_[:100, :100]])
    assert matcher.evaluate(other, test, groups=new).n_pairs == 300
    assert matcher.evaluate(X, pairs).n_pairs == 300  # nothing is known without groups


def test_clone_pickle_and_not_fitted(fitted):
    from sklearn.exceptions import NotFittedError

    X, pairs, matcher = fitted
    again = pickle.loads(pickle.dumps(matcher))
    np.testing.assert_array_equal(
        again.predict_proba(X[:3], X[3:6]), matcher.predict_proba(X[:3], X[3:6])
    )
    fresh = clone(matcher)
    with pytest.raises(NotFittedError):
        fresh.threshold()
    assert fresh.fit(X, pairs).threshold(recall=0.9) == matcher.threshold(recall=0.9)


def test_a_threshold_can_be_a_record_or_a_number(fitted):
    X, _, matcher = fitted
    found = matcher.threshold(precision=0.9)
    assert isinstance(found, Threshold)
    one = matcher.predict(X[:300], X[300:], found)
    np.testing.assert_array_equal(one, matcher.predict(X[:300], X[300:], found.distance))
    assert one.mean() == pytest.approx(found.recall)
    for wrong in (np.nan, "near", True):
        with pytest.raises(ValueError, match="threshold must be a Threshold or a finite"):
            matcher.predict(X[:2], X[2:4], wrong)


def test_no_warnings_in_ordinary_use(fitted):
    X, pairs, _ = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Matcher(Metric(None, 4)).fit(X, pairs).threshold(recall=0.9)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 80),
    st.integers(1, 30),
    st.sampled_from(["precision", "recall", "fpr"]),
    st.sampled_from([0.05, 0.5, 0.9]),
    st.sampled_from([None, 0.01, 0.9]),
)
@settings(deadline=None, max_examples=100)
def test_any_pairs_have_a_threshold_that_is_supported_or_are_refused(
    seed, n, values, target, value, prevalence
):
    rng = np.random.default_rng(seed)
    same = np.arange(n) < rng.integers(1, n)
    distance = rng.integers(values, size=n) + np.where(same, 0.0, 2.0)  # with ties
    pairs = Evidence.of(distance, same, rng.integers(1 + n // 2, size=(n, 2)))
    try:
        found = find_threshold(pairs, target, value, 0.8, prevalence)
    except NotEnoughPairsError:
        return
    assert found.bound <= value if target == "fpr" else found.bound >= value - 1e-12
    assert found.accepted == np.count_nonzero(distance <= found.distance)
    assert 0 < found.evidence <= n
