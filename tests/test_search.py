"""MetricCV: settings chosen on held-out rows."""

import warnings
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from dualmetric import (
    Comparisons,
    DuOri,
    DuRP,
    Euclidean,
    MetricCV,
    Triplets,
    Whitening,
    mean_average_precision,
)
from dualmetric.estimators import _candidates, _race
from dualmetric.estimators import search as search_module
from dualmetric.supervision import Labels, Pairs, Positives, Relevance
from makers import make_classes, make_clusters

SMALL = {
    "shrinkages": [0.1, 0.5],
    "powers": [0.0, 0.5],
    "lifts": [None],
    "n_triplets": 2000,
    "n_projections": 5,
    "random_state": 0,
}


PRIORS = {name: value for name, value in SMALL.items() if name != "powers"}  # these have none


def make_data(n=240, d=15, noise=6.0):
    """Four classes apart in two features; the others vary more and say nothing."""
    spread = np.r_[1.0, 1.0, np.full(d - 2, noise)]
    return make_classes(n, d, n_classes=4, shift=4.0, spread=spread)


def splits(X, y, cv, seed, scoring="map"):
    return Labels(y).splits(X, cv, scoring, seed)


def _seed():
    return np.random.RandomState(0).randint(2**31 - 1)


# --- what is held out -----------------------------------------------------------------------


def test_a_quarter_of_each_class_is_held_out():
    codes = np.repeat([0, 1, 2], [40, 8, 100])
    part = next(splits(np.zeros((148, 1)), codes, None, 0))
    assert_array_equal(np.bincount(codes[part.test_rows]), [10, 2, 25])
    assert_array_equal(np.sort(np.r_[part.train_rows, part.test_rows]), np.arange(148))


def test_the_last_rows_of_each_class_are_held_out():
    codes = np.tile([0, 0, 1], 40)  # 80 and 40 rows
    parts = list(splits(np.zeros((120, 1)), codes, None, 0))
    for label, size in ((0, 20), (1, 10)):
        assert_array_equal(
            parts[0].test_rows[codes[parts[0].test_rows] == label],
            np.flatnonzero(codes == label)[-size:],
        )
    # then those before them, each once, and random quarters while rows are few
    assert len(parts) == 4 + 6
    held_out = np.concatenate([part.test_rows for part in parts[:4]])
    assert_array_equal(np.sort(held_out), np.arange(120))
    for part in parts[4:]:
        assert_array_equal(np.bincount(codes[part.test_rows]), [20, 10])
    assert len({tuple(part.test_rows) for part in parts}) == 10
    assert len(list(splits(np.zeros((480, 1)), np.tile(codes, 4), None, 0))) == 4
    for part in parts:
        assert_array_equal(np.sort(np.r_[part.train_rows, part.test_rows]), np.arange(120))
    # numbers are folds in the order of rows, as scikit-learn has them
    folds = splits(np.zeros((120, 1)), codes, 4, 0)
    expected = StratifiedKFold(4).split(np.zeros((120, 1)), codes)
    for fold, (train, test) in zip(folds, expected, strict=True):
        assert_array_equal(fold.train_rows, train)
        assert_array_equal(fold.test_rows, test)


def test_small_classes_are_held_out_once_and_at_random():
    codes = np.repeat([0, 1, 2], [40, 7, 3])
    parts = list(splits(np.zeros((50, 1)), codes, None, 0))
    for part in parts:
        assert_array_equal(np.bincount(codes[part.test_rows]), [10, 2, 1])
    assert len(parts) == 1 + 6  # later quarters would hold one class only


def test_more_is_held_out_while_there_is_doubt(monkeypatch):
    X, y = make_classes(480, 5, n_classes=2, spread=[0.6, 1, 1, 1, 1], shift=2.0)

    def n_splits(n):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few active triplets
            search = MetricCV(**{**SMALL, "n_triplets": 500}).fit(X[:n], y[:n])
        kept_plain = isinstance(search.best_estimator_, Euclidean)
        assert kept_plain == (search.gain_interval_[0] <= 0)
        return sum(key.startswith("split") for key in search.cv_results_)

    assert n_splits(480) == 1  # 120 rows are held out, which leave no doubt
    assert n_splits(80) == 10  # too few rows
    for interval, expected in [((-0.1, 0.1), 4), ((0.0, 0.1), 4), ((-0.2, -0.1), 1)]:
        monkeypatch.setattr(
            "dualmetric.estimators._choice.best_of_gains",
            lambda *_, found=interval, **__: (0.0, *found),
        )
        assert n_splits(480) == expected


@pytest.mark.parametrize(("n_classes", "n_folds", "n_times"), [(4, 2, 3), (7, 3, 2), (20, 3, 1)])
def test_classes_are_held_out_in_folds(n_classes, n_folds, n_times):
    codes = np.arange(120) % n_classes
    parts = list(splits(np.zeros((120, 1)), codes, "classes", 0))
    for part in parts:
        assert not set(codes[part.train_rows]) & set(codes[part.test_rows])
        assert_array_equal(part.queries, codes[part.test_rows])  # each class counts once
    assert len(parts) == n_folds * n_times
    held = np.concatenate([part.test_rows for part in parts])
    assert_array_equal(np.bincount(held), n_times)


def test_rows_of_other_classes_do_not_vote():
    codes = np.arange(60) % 5
    # held-out rows are each other's neighbours
    part = next(splits(np.zeros((60, 1)), codes, "classes", 0, "knn"))
    right = codes[part.test_rows][:, None].astype(np.float64)
    assert (part.judge(None, right) == 1.0).all()


def test_folds_and_splitters():
    X, y = make_data(60)
    assert len(list(splits(X, y, 3, 0))) == 3
    parts = splits(X, y, KFold(4), 0)
    for part, (train, test) in zip(parts, KFold(4).split(X), strict=True):
        assert_array_equal(part.train_rows, train)
        assert_array_equal(part.test_rows, test)


def test_no_more_queries_than_needed(monkeypatch):
    monkeypatch.setattr("dualmetric.supervision.labels.MOST_HELD_OUT", 20)
    X, y = make_data(200)
    part = next(splits(X, y, None, 0))
    assert len(part.test_rows) == 20
    assert not set(part.test_rows) & set(part.train_rows)


@pytest.mark.parametrize(
    ("codes", "cv", "message"),
    [
        ([0, 0, 1, 1], None, "too few rows"),
        ([0] * 50, None, "y has one class only"),
        (np.arange(50), None, "too few rows"),
        (np.arange(60) % 3, "classes", "at least four classes; y has 3"),
        (np.arange(60) % 3, "rows", "cv must be None, 'classes'"),
    ],
)
def test_what_cannot_be_held_out(codes, cv, message):
    codes = np.asarray(codes)
    with pytest.raises(ValueError, match=message):
        next(splits(np.zeros((len(codes), 1)), codes, cv, 0))


# --- scores are those of the estimators -------------------------------------------------------


def right_neighbors(train, y, test, y_test):
    distances = pairwise_distances(test, train)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :5]
    return (y[nearest] == y_test[:, None]).mean()


@pytest.mark.parametrize("scoring", ["map", "knn"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_plain_distances_are_scored_as_they_are(scoring, kind):
    X, y = make_data()
    search = MetricCV(scoring=scoring, **SMALL).fit(kind(X), y)
    part = next(splits(X, y, None, _seed()))
    for number, distance in enumerate(("euclidean", "cosine")):
        plain = Euclidean(distance).fit(kind(X[part.train_rows]))
        train, test = (plain.transform(kind(X[rows])) for rows in (part.train_rows, part.test_rows))
        expected = (
            mean_average_precision(test, y[part.test_rows])
            if scoring == "map"
            else right_neighbors(train, y[part.train_rows], test, y[part.test_rows])
        )
        assert search.cv_results_["params"][number] == {"distance": distance}
        assert search.cv_results_["split0_test_score"][number] == pytest.approx(expected)


@pytest.mark.parametrize("scoring", ["map", "knn"])
@pytest.mark.parametrize("n_features", [15, 400])  # the second is solved in the span of the rows
def test_candidates_are_scored_as_durp_would_be(scoring, n_features):
    X, y = make_data(240, n_features, noise=2.0)
    lifts, ranks = ([None, "rbf"], [2, 3, None]) if n_features == 15 else ([None], [2, 3])
    axes = {"lifts": lifts, "samplers": ["active", "neighbors"], "regs": [None, 0.01]}
    settings = {**SMALL, **axes, "powers": [0.0, 0.5], "shrinkages": [1.0, 0.5], "ranks": ranks}
    search = MetricCV(scoring=scoring, **settings).fit(X, y)
    part = next(splits(X, y, None, _seed()))
    train, test = part.train_rows, part.test_rows
    results = search.cv_results_
    chosen = np.flatnonzero(results["estimator"] == "DuRP")
    assert len(chosen) == len(lifts) * 2 * 2 * 2 * len(ranks) * 2 * 2
    assert np.ptp(results["split0_test_score"][chosen]) > 0.1
    for number in chosen[:: len(chosen) // 16 + 1]:
        params = results["params"][number]
        model = DuRP(n_projections=5, n_triplets=2000, random_state=_seed(), **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few active triplets
            model.fit(X[train], y[train])
        if scoring == "map":
            expected = model.score(X[test], y[test])
        else:
            rows = model.transform(X[train]), model.transform(X[test])
            expected = right_neighbors(rows[0], y[train], rows[1], y[test])
        assert results["split0_test_score"][number] == pytest.approx(expected, abs=1e-9), params


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
def test_candidates_of_triplets_and_comparisons_are_scored_as_durp_would_be(kind):
    X, _, known = make_known(kind)
    search = MetricCV(**SMALL).fit(X, known)
    assert search.scoring_ == "agreement"
    part = next(known.check(len(X)).splits(X, None, "agreement", _seed()))
    results = search.cv_results_
    for number in range(0, len(results["params"]), 3):
        params = results["params"][number]
        more = {"n_projections": 5, "n_triplets": 2000, "random_state": _seed()}
        methods = {kind.__name__: kind for kind in (DuRP, DuOri, Whitening, Euclidean)}
        method = methods[results["estimator"][number]]
        accepted = method().get_params().keys() - params.keys()
        model = method(**params, **{key: more[key] for key in more if key in accepted})
        model.fit(X[part.train_rows], part.train)
        rows = model.transform(X[part.train_rows]), model.transform(X[part.test_rows])
        expected = part.judge(*rows).mean()
        assert results["split0_test_score"][number] == pytest.approx(expected, abs=1e-9), params


def test_candidates_of_every_strength_are_scored_as_durp_would_be():
    rng = np.random.default_rng(0)
    classes = np.arange(120) % 30
    own = sp.csr_array((np.ones(120), (np.arange(120), 5 * classes)), shape=(120, 4100))
    X = sp.csr_array(own + 2.0 * sp.random(120, 4100, 0.01, random_state=1))
    index = rng.permutation(120 * 119 // 2)[:1500]
    pairs = np.column_stack(np.triu_indices(120, 1))[index]
    known = Pairs(pairs, classes[pairs[:, 0]] == classes[pairs[:, 1]])
    search = MetricCV(n_triplets=200, random_state=0).fit(X, known)
    part = next(known.check(120).splits(X, None, "average_precision", _seed()))
    results = search.cv_results_
    numbers = np.flatnonzero(results["estimator"] == "DuRP")
    assert len({results["params"][number]["strength"] for number in numbers}) > 2
    assert np.ptp(results["split0_test_score"][numbers]) > 0.001
    for number in numbers[::3]:
        params = results["params"][number]
        model = DuRP(random_state=_seed(), **params).fit(X[part.train_rows], part.train)
        rows = model.transform(X[part.train_rows]), model.transform(X[part.test_rows])
        expected = part.judge(*rows).mean()
        assert results["split0_test_score"][number] == pytest.approx(expected, abs=1e-6), params


def make_known(kind, n=240, n_known=600, seed=1, **data):
    """Rows of `make_data`, and triplets or comparisons that agree with their classes."""
    X, y = make_data(n, **data)
    rng = np.random.default_rng(seed)
    index = rng.integers(n, size=(40 * n_known, 4))
    a, b, c, d = index.T
    if kind is Triplets:
        index = index[(y[a] == y[b]) & (a != b) & (y[a] != y[c])][:n_known, :3]
    else:
        index = index[(y[a] == y[b]) & (a != b) & (y[c] != y[d])][:n_known]
    assert len(index) == n_known
    return X, y, kind(index)


def test_whitening_is_scored_as_it_is():
    X, y = make_data(noise=2.0)
    search = MetricCV(**SMALL).fit(X, y)
    part = next(splits(X, y, None, _seed()))
    for params, score in zip(
        search.cv_results_["params"][2:6], search.cv_results_["split0_test_score"][2:6], strict=True
    ):
        model = Whitening(**params).fit(X[part.train_rows], y[part.train_rows])
        assert score == pytest.approx(model.score(X[part.test_rows], y[part.test_rows]))


def test_powers_below_zero_go_with_few_directions():
    X, y = make_data()
    settings = {**SMALL, "powers": [-0.25, 0.5], "ranks": [3, 1, None]}
    tried = MetricCV(**settings).fit(X, y).cv_results_["params"]
    ranks = {power: {p["n_components"] for p in tried if p.get("power") == power}
             for power in (-0.25, 0.5)}  # fmt: skip
    assert ranks == {-0.25: {1}, 0.5: {1, 3, None}}


def test_picks_the_best_and_learns_from_all_rows():
    X, y = make_data()
    search = MetricCV(**SMALL).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ == scores[search.best_index_]
    assert search.best_score_ > scores.max() - 0.01  # the simplest of the best
    assert search.cv_results_["estimator"][search.best_index_] == "DuRP"
    chosen = search.cv_results_["params"][search.best_index_]
    assert search.best_params_ == {
        **chosen,
        "n_projections": 5,
        "n_triplets": 2000,
        "max_epochs": 3,
        "max_rows": 50_000,
        "random_state": _seed(),
    }
    assert search.best_score_ > scores[:2].max() + 0.2
    assert search.best_plain_[1] == scores[:2].max()
    assert search.best_plain_[0] == search.cv_results_["params"][scores[:2].argmax()]["distance"]
    assert (search.n_rows_used_, search.n_rows_in_) == (240, 240)
    assert search.refit_time_ > 0
    text = search.recommend()
    assert text.startswith("Use DuRP(")
    for name in ("lift", "reg", "max_rows", "random_state"):  # at their defaults, or a seed
        assert name not in text
    assert "n_triplets=2000" in text
    assert f"mAP {100 * search.expected_score_:.1f} % on held-out rows" in text


def fitted_again(search, X, y):
    """What the documentation says is enough to reproduce the choice."""
    model = type(search.best_estimator_)(**search.best_params_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("max_rows", [None, 100])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("supervision", ["labels", Triplets, Comparisons])
def test_best_params_reproduce_the_metric(supervision, make, max_rows):
    if supervision == "labels":
        X, known = make_data()
    else:
        X, _, known = make_known(supervision, n_known=30 if max_rows else 300)
    X = make(X)
    settings = {**SMALL, "lifts": [None, "rbf"], "random_state": 7, "max_rows": max_rows}
    search = MetricCV(**settings).fit(X, known)
    assert "random_state" in search.best_params_ or isinstance(search.best_estimator_, Euclidean)
    again = fitted_again(search, X, known)
    assert_array_equal(again.metric_.pairwise(X), search.metric_.pairwise(X))
    assert_array_equal(search.best_estimator_.metric_.pairwise(X), search.metric_.pairwise(X))
    assert search.n_rows_in_ == 240
    if max_rows is None:
        assert search.n_rows_used_ == 240
    else:
        assert 100 <= search.n_rows_used_ < 240
    if not isinstance(again, Euclidean):
        assert again.n_rows_used_ == search.n_rows_used_
        assert search.metric_.info["rows"] == {"used": search.n_rows_used_, "given": 240}


@pytest.mark.parametrize("estimator", [DuRP, DuOri, Whitening, Euclidean])
def test_best_params_reproduce_every_estimator(estimator):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    settings = {**SMALL, "shrinkages": [0.1], "powers": [0.0], "lifts": ["rbf"], "priors": [None]}
    if estimator is DuOri:
        settings |= {"shrinkages": [1.0], "priors": ["whitening"]}
        del settings["powers"]  # a prior has none
    if estimator is Whitening:  # three directions cannot tell ten digits apart
        settings |= {"lifts": [None], "ranks": [1]}
    if estimator is Euclidean:
        settings |= {"lifts": [None], "shrinkages": [1.0], "ranks": [1]}
    search = MetricCV(**settings).fit(X, y)
    assert type(search.best_estimator_) is estimator
    again = fitted_again(search, X, y)
    assert_array_equal(again.transform(X), search.transform(X))


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
def test_triplets_and_comparisons(kind):
    X, _, known = make_known(kind)
    search = MetricCV(**SMALL).fit(X, known)
    assert search.best_score_ > search.cv_results_["mean_test_score"][:2].max() + 0.05
    assert 0.9 < search.score(X, known) <= 1.0
    assert search.metric_.info["chosen_by"] == "MetricCV, scoring='agreement'"
    assert "agreement" in search.recommend()
    again = MetricCV(**SMALL).fit(X, known)
    assert_array_equal(again.transform(X), search.transform(X))
    folds = MetricCV(cv=3, **SMALL).fit(X, known)
    assert "split2_test_score" in folds.cv_results_
    assert "split3_test_score" not in folds.cv_results_


def test_agreement_is_the_share_of_held_out_comparisons():
    X, _, known = make_known(Comparisons)
    search = MetricCV(**SMALL).fit(X, known)
    part = KFold(4, shuffle=True, random_state=_seed()).split(known.index)
    a, b, c, d = known.index[next(part)[1]].T
    near = np.linalg.norm(X[a] - X[b], axis=1)
    far = np.linalg.norm(X[c] - X[d], axis=1)
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(np.mean(near < far))


def test_callback_counts_groups():
    X, y = make_data()
    calls = []
    search = MetricCV(cv=2, **SMALL).fit(X, y, callback=lambda *call: calls.append(call))
    total = 1 + 2 + 2  # the plain distances; each shrinkage whitened, and learned with
    assert calls[:total] == [(done, 2 * total) for done in range(1, total + 1)]
    assert calls == sorted(calls)  # over both splits
    assert calls[-1] == (2 * total, 2 * total)
    assert "split1_test_score" in search.cv_results_

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MetricCV(**SMALL).fit(X, y, callback=stop)


def test_verbose(capsys):
    X, y = make_data()
    search = MetricCV(verbose=1, **SMALL).fit(X, y)
    assert capsys.readouterr().out == f"[MetricCV] {search.recommend()}\n"
    MetricCV(verbose=2, max_rows=120, **SMALL).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[MetricCV] learning from 120 of 240 rows (max_rows)"
    assert sum("learning from" in line for line in lines) == 1
    assert lines[1].startswith("[MetricCV] 1 of at most 5: Euclidean, ")
    MetricCV(**SMALL).fit(X, y)
    assert capsys.readouterr().out == ""


def test_results_have_the_form_of_grid_search():
    X, y = make_data()
    search = MetricCV(cv=3, **SMALL).fit(X, y)
    results = search.cv_results_
    n = 2 + 2 * 2 + 2 * 3 * 2 * 2  # plain; whitened; shrinkages × ranks × powers × distances
    for name in ("mean_test_score", "std_test_score", "rank_test_score", "param_shrinkage"):
        assert len(results[name]) == n
    assert results["param_shrinkage"].mask[:2].all()
    assert not results["param_distance"].mask.any()
    parts = np.array([results[f"split{k}_test_score"] for k in range(3)])
    assert_allclose(results["std_test_score"], np.nanstd(parts, axis=0))
    complete = ~results["dropped"]
    assert 1 < np.count_nonzero(complete) < n
    assert_allclose(results["mean_test_score"][complete], parts.mean(axis=0)[complete], atol=0.01)
    assert np.isnan(parts[2, results["dropped"]]).any()  # not learned again for the last split
    assert (results["mean_test_score"][~complete] < results["mean_test_score"].max()).all()


def test_keeps_the_plain_distance_where_nothing_is_to_be_learned():
    kept = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((300, 8)), rng.integers(3, size=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # no active triplets, or no direction
            search = MetricCV(**SMALL).fit(X, y)
        low, high = search.gain_interval_
        assert high < 0.06
        assert isinstance(search.best_estimator_, Euclidean) == (low <= 0)
        if low > 0:
            continue
        kept += 1
        assert list(search.best_params_) == ["distance"]
        assert search.best_params_["distance"] == search.best_plain_[0]
        assert search.best_score_ == search.best_plain_[1]
        assert search.metric_.factor is None
        assert "no learned metric is significantly better" in search.recommend()
    assert kept >= 5


def test_lift_is_chosen_where_classes_are_not_linear():
    # rings: no linear metric tells them apart
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    angle = rng.uniform(0, 2 * np.pi, 400)
    X = ((1.0 + y) * np.array([np.cos(angle), np.sin(angle)])).T + rng.normal(0, 0.1, (400, 2))
    search = MetricCV(**{**SMALL, "lifts": [None, "rbf"], "ranks": [1, 10]}).fit(X, y)
    assert search.best_params_["lift"] == "rbf"
    assert search.best_score_ > 0.9
    linear = [
        score
        for params, score in zip(
            search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
        )
        if params.get("lift") is None
    ]
    assert max(linear) < 0.8
    assert search.metric_.lift is not None


def test_lift_is_left_out_for_wide_sparse_rows():
    X, y = make_data()
    rows = sp.csr_matrix(X)
    search = MetricCV(**{**SMALL, "lifts": [None, "rbf"]}).fit(rows, y)
    assert {params.get("lift") for params in search.cv_results_["params"]} == {None, "rbf"}
    wide = sp.hstack([rows, sp.csr_matrix((len(y), 4000))], format="csr")
    search = MetricCV(**{**SMALL, "lifts": [None, "rbf"]}).fit(wide, y)
    assert {params.get("lift") for params in search.cv_results_["params"]} == {None}
    with pytest.raises(
        ValueError, match="4,000 features at most: leave lifts out, or include None"
    ):
        MetricCV(lifts=["rbf"]).fit(wide, y)


@pytest.mark.parametrize("scoring", ["map", "knn"])
def test_unseen_classes(scoring):
    X, y = make_data()
    search = MetricCV(cv="classes", scoring=scoring, **PRIORS).fit(X, y)
    assert "split1_test_score" in search.cv_results_
    assert search.held_out_ == "classes"
    priors = search.cv_results_["param_prior"]
    assert {*priors[search.cv_results_["estimator"] == "DuOri"]} == {"identity", "whitening"}
    assert "DuRP" not in search.cv_results_["estimator"]  # without a prior, new classes may suffer
    assert 0 <= search.cv_results_["mean_test_score"].min() <= search.best_score_ <= 1


def test_one_direction_is_not_compared_by_its_sign():
    X, y = make_data(80)
    search = MetricCV(ranks=[1, 2], **SMALL).fit(X, y)
    tried = search.cv_results_["params"]
    assert all(one["distance"] == "euclidean" for one in tried if one.get("n_components") == 1)
    assert any(one["distance"] == "cosine" for one in tried if one.get("n_components") == 2)
    search = MetricCV(ranks=[1], distances=["cosine"], **SMALL).fit(X, y)
    assert any(one.get("n_components") == 1 for one in search.cv_results_["params"])


def test_more_features_than_rows():
    X, y = make_classes(60, 300, n_classes=2, shift=12.0)
    search = MetricCV(**{**SMALL, "n_triplets": 500}).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.metric_.n_features == 300


def test_the_seed_decides():
    X, y = make_data()
    first, second = (MetricCV(**SMALL).fit(X, y) for _ in range(2))
    assert_array_equal(first.cv_results_["mean_test_score"], second.cv_results_["mean_test_score"])
    assert_array_equal(first.transform(X), second.transform(X))


def test_never_below_plain_on_held_out_rows():
    X, y = load_digits(return_X_y=True)
    settings = {**SMALL, "n_triplets": 20_000, "n_projections": 30}
    search = MetricCV(**settings).fit(X[:900], y[:900])
    assert search.best_score_ >= search.cv_results_["mean_test_score"][:2].max()
    plain = max(Euclidean(d).fit(X[:900]).score(X[900:], y[900:]) for d in ("euclidean", "cosine"))
    assert search.score(X[900:], y[900:]) > plain + 0.05


def test_names_and_choice_are_kept_with_the_metric():
    pd = pytest.importorskip("pandas")
    X, y = make_data(d=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    search = MetricCV(**SMALL).fit(frame, y)
    assert search.metric_.feature_names == ("a", "b", "c")
    assert search.metric_.info["chosen_by"] == "MetricCV, scoring='map'"
    assert search.metric_.info["held_out_score"] == search.best_score_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"scoring": "accuracy"},
            "scoring must be one of None, 'map', 'knn', 'both', 'agreement'",
        ),
        (
            {"scoring": "agreement"},
            "scoring='agreement' does not apply to labels: use 'map' or",
        ),
        ({"shrinkages": []}, "shrinkages must be a sequence"),
        ({"shrinkages": "0.1"}, "shrinkages must be a sequence"),
        ({"shrinkages": 0.1}, "shrinkages must be a sequence"),
        ({"powers": None}, "powers must be a sequence"),
        ({"shrinkages": [2.0]}, "each of shrinkages must be .* above 0 and at most 1; got 2.0"),
        ({"lifts": ["poly"]}, "each of lifts must be one of None, 'rbf'; got 'poly'"),
        ({"distances": ["l1"]}, "each of distances must be one of 'euclidean', 'cosine'; got 'l1'"),
        ({"samplers": ["some"]}, "each of samplers must be one of 'active', .*; got 'some'"),
        ({"regs": [0.0]}, "each of regs must be .* above 0, or None; got 0.0"),
        ({"powers": [np.nan]}, "each of powers must be a finite number"),
        ({"ranks": [0]}, "each of ranks must be a whole number of at least 1, or None; got 0"),
        ({"ranks": [1.5]}, "each of ranks must be a whole number"),
        ({"n_triplets": 0}, "n_triplets must be .* at least 1; got 0"),
        ({"max_rows": 1}, "max_rows must be .* at least 2, or None; got 1"),
        ({"cv": "rows"}, "cv must be None, 'classes'"),
    ],
)
def test_wrong_parameters(parameters, message):
    X, y = make_data(60)
    with pytest.raises((ValueError, TypeError), match=message):
        MetricCV(**parameters).fit(X, y)


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
@pytest.mark.parametrize("scoring", ["map", "knn"])
def test_scores_of_labels_are_refused_for_comparisons(kind, scoring):
    X, _, known = make_known(kind, n_known=50)
    message = f"scoring='{scoring}' does not apply to {kind.__name__.lower()}: use 'agreement'"
    with pytest.raises(ValueError, match=message):
        MetricCV(scoring=scoring, **SMALL).fit(X, known)
    with pytest.raises(ValueError, match="cv='classes' does not apply to comparisons"):
        MetricCV(cv="classes", **SMALL).fit(X, known)
    with pytest.raises(ValueError, match=r"MetricCV needs at least eight .* got 7"):
        MetricCV(**SMALL).fit(X, kind(known.index[:7]))


def test_needs_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        MetricCV().fit(np.eye(5), None)


# --- Whitening -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitening_is_the_inverse_scatter(kind, dtype):
    X, y = make_data(120, 6)
    model = Whitening(0.3, distance="euclidean").fit(kind(X.astype(dtype)), y)
    centred = X - np.array([X[y == c].mean(axis=0) for c in range(4)])[y]
    W = centred.T @ centred / len(X)
    S = 0.7 * W + 0.3 * np.trace(W) / 6 * np.eye(6)
    expected = np.linalg.inv(S) * np.trace(W) / 6
    assert_allclose(model.metric_.matrix(), expected, rtol=1e-3 if dtype == np.float32 else 1e-9)
    assert model.transform(X.astype(dtype)).dtype == dtype


def test_whitening_of_all_shrinkage_is_the_plain_distance():
    X, y = make_data(60, 4)
    assert_allclose(
        Whitening(1.0, distance="euclidean").fit(X, y).pair_distance(X, X[::-1]),
        Euclidean().fit(X).pair_distance(X, X[::-1]),
    )


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((4, 5000)) + np.arange(4)[:, None], [0, 0, 1, 1], "for at most 4,000 features"),
        (np.repeat(np.eye(2), 2, axis=0), [0, 0, 1, 1], "no scatter to whiten with"),
        (np.eye(4), None, "requires y to be passed"),
    ],
)
def test_whitening_refuses(X, y, message):
    with pytest.raises(ValueError, match=message):
        Whitening().fit(X, y)


# --- digits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", ["map", "knn"])
def test_a_large_mean_changes_no_score(scoring):
    X, y = make_data(noise=2.0)
    X = X.astype(np.float32)
    near, far = (
        MetricCV(scoring=scoring, **SMALL).fit(rows, y) for rows in (X, X + np.float32(3000.0))
    )
    for number in (0, 2):  # the Euclidean distance, plain and whitened
        assert far.cv_results_["mean_test_score"][number] == pytest.approx(
            near.cv_results_["mean_test_score"][number], abs=0.01
        )


def test_a_rank_that_is_scored_is_the_rank_that_is_learned():
    X, y = make_classes(1300, 1100, n_classes=2, shift=6.0, dtype=np.float32)
    settings = {**SMALL, "shrinkages": [0.5], "powers": [0.5], "ranks": [None]}
    search = MetricCV(**settings).fit(X, y)
    assert {params.get("n_components") for params in search.cv_results_["params"][2:]} == {50}


def make_judged(n_documents=300, n_queries=60, d=8, seed=0):
    """Documents of which the first two features are noise, and queries near one of them each."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((n_documents, d))
    chosen = rng.choice(n_documents, n_queries, replace=False)
    Q = D[chosen] + 0.05 * rng.standard_normal((n_queries, d))
    Q[:, :2] = 3.0 * rng.standard_normal((n_queries, 2))
    return D, Q, np.column_stack([np.arange(n_queries), chosen])


JUDGED = {
    "positives": lambda index, Q: Positives(index, queries=Q, depth=20, n_negatives=10),
    "relevance": lambda index, Q: Relevance(
        np.column_stack([index, np.ones(len(index), dtype=int)]), queries=Q, depth=20
    ),
}


@pytest.mark.parametrize("kind", list(JUDGED))
@pytest.mark.parametrize("cv", [None, "queries", "documents", 3])
def test_judgements(kind, cv):
    D, Q, index = make_judged()
    known = JUDGED[kind](index, Q)
    search = MetricCV(cv=cv, random_state=0).fit(D, known)
    assert search.scoring_ == "ndcg"
    assert type(search.best_estimator_) in (DuOri, DuRP)
    assert search.best_score_ > search.best_plain_[1] + 0.1
    assert search.score(D, known) > Euclidean().fit(D).score(D, known) + 0.1
    assert (search.new_documents_ is None) == (cv is not None)
    again = fitted_again(search, D, known)
    assert_array_equal(again.transform(Q), search.transform(Q))


def test_a_metric_that_harms_new_documents_is_not_chosen():
    # every document has its own noise to unlearn: what helps known documents harms new ones
    rng = np.random.default_rng(0)
    D = rng.standard_normal((120, 60))
    chosen = np.repeat(np.arange(30), 4)
    Q = D[chosen] + 1.2 * rng.standard_normal((120, 60))
    Q += np.repeat(2.0 * rng.standard_normal((30, 60)), 4, axis=0)  # the same for each document
    known = Positives(np.column_stack([np.arange(120), chosen]), queries=Q, depth=50)
    free = MetricCV(cv="queries", random_state=0).fit(D, known)
    held = MetricCV(random_state=0).fit(D, known)
    new, plain = held.new_documents_
    assert new >= plain - 0.01
    assert free.best_score_ >= held.best_score_


def test_pairs_are_scored_by_average_precision():
    X, y = make_data(240)
    rng = np.random.default_rng(0)
    index = rng.integers(240, size=(1500, 2))
    index = index[index[:, 0] != index[:, 1]]
    pairs = Pairs(index, y[index[:, 0]] == y[index[:, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = MetricCV(n_triplets=5000, random_state=0).fit(X, pairs)
    assert search.scoring_ == "average_precision"
    assert search.best_score_ > search.best_plain_[1]
    assert_array_equal(fitted_again(search, X, pairs).transform(X), search.transform(X))


def test_priors_are_what_is_asked_for():
    X, _, known = make_known(Triplets)
    for priors, expected in (
        ([None], {"Euclidean", "Whitening", "DuRP"}),
        (["identity"], {"Euclidean", "Whitening", "DuOri"}),
    ):
        search = MetricCV(**PRIORS, priors=priors).fit(X, known)
        assert set(search.cv_results_["estimator"]) == expected
    with pytest.raises(ValueError, match="each of priors must be one of None, 'identity'"):
        MetricCV(priors=["plain"]).fit(X, known)


def test_labels_that_are_unknown_do_not_vote():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    marked = np.where(np.arange(400) % 2, y, -1)
    few = MetricCV(**SMALL, priors=[None]).fit(X, Labels(marked, unknown=-1))
    known = np.flatnonzero(marked >= 0)
    assert few.cv_results_["split0_test_score"][0] == pytest.approx(
        MetricCV(**SMALL, priors=[None]).fit(X[known], y[known]).cv_results_["split0_test_score"][0]
    )


@pytest.mark.parametrize("cv", [None, 3, GroupKFold(3)])
def test_whole_groups_of_labelled_rows_are_held_out(cv):
    X, y = make_data(120)
    groups = np.arange(120) // 6
    splits = list(Labels(y, groups=groups).check(120).splits(X, cv, "map", 0))
    assert len(splits) == (4 if cv is None else 3)
    for split in splits:
        assert not np.intersect1d(groups[split.train_rows], groups[split.test_rows]).size


def test_blocks_are_weighed():
    D, Q, index = make_judged()
    known = JUDGED["positives"](index, Q)
    search = MetricCV(blocks={"noise": slice(0, 2), "rest": slice(2, 8)}, random_state=0)
    search.fit(D, known)
    assert set(search.cv_results_["estimator"]) == {"Euclidean", "DuOri"}
    assert search.best_estimator_.block_weights_["noise"] < 0.05
    assert_array_equal(fitted_again(search, D, known).transform(Q), search.transform(Q))


def test_candidates_may_be_arrays_and_lists():
    X, y = make_data()
    given = {"shrinkages": [0.1, 0.5], "ranks": [1, 3], "powers": [0.0, 0.5], "regs": [0.1, 1.0]}
    arrays = {name: np.array(values) for name, values in given.items()}
    chosen, expected = (MetricCV(**{**SMALL, **more}).fit(X, y) for more in (arrays, given))
    assert chosen.best_params_ == expected.best_params_
    assert chosen.cv_results_["params"] == expected.cv_results_["params"]
    assert chosen.estimate(X) == expected.estimate(X)


def test_defaults_given_as_a_list_change_nothing():
    X, y = make_data()
    few = {"lifts": [None], "n_triplets": 500, "random_state": 0}
    tried = [
        {row["name"] for row in search.families_}
        for search in (
            MetricCV(**few).fit(X, y),
            MetricCV(samplers=["active"], regs=[None], **few).fit(X, y),
        )
    ]
    assert tried[0] == tried[1]
    assert any("Ridge" in name for name in tried[1])


@pytest.mark.parametrize("kind", ["labels", "pairs", "grouped pairs", "triplets", "positives"])
def test_a_cv_that_does_not_split_is_refused_by_name(kind):
    X, y = make_data(60)
    index = np.column_stack([np.arange(40), np.arange(40) + 4])
    same = np.arange(40) % 2 == 0
    known = {
        "labels": y,
        "pairs": Pairs(index, same),
        "grouped pairs": Pairs(index, same, groups=np.arange(60)),
        "triplets": Triplets(np.column_stack([index, index[:, 1] + 1])),
        "positives": Positives(index),
    }[kind]
    for cv in (0, 1, -1, True):
        with pytest.raises(ValueError, match=rf"cv must be .*\(at least 2\).*; got {cv}"):
            MetricCV(cv=cv).fit(X, known)
    for cv in (2.5, [1, 2], iter([(np.arange(9), np.array([1000]))])):
        with pytest.raises(ValueError, match=r"cv=.* does not split these \w+: "):
            MetricCV(cv=cv).fit(X, known)


# --- few directions, and what cannot be better --------------------------------------------------


def digits(n=400):
    X, y = load_digits(return_X_y=True)
    return X[:n].astype(np.float32), y[:n]


def test_metrics_with_too_many_directions_drop_no_others():
    X, y = digits()
    options = {"cv": 3, "n_triplets": 2000, "lifts": (None,), "random_state": 0}
    with pytest.warns(UserWarning, match="significantly better"):
        search = MetricCV(max_components=2, **options).fit(X, y)
    table = search.cv_results_
    # the plain distances are far ahead, but the race is among those that may be chosen
    assert table["mean_test_score"][:2].max() > search.best_score_ + 0.1
    assert table["n_queries"][search.best_index_] == 400
    assert search.transform(X).shape[1] <= 2


def test_a_plain_distance_that_is_better_but_too_wide_is_named():
    X, y = digits()
    with pytest.warns(UserWarning, match=r"max_components=1 allows: increase max_components"):
        search = MetricCV(max_components=1, n_triplets=2000, random_state=0).fit(X, y)
    assert "The plain cosine distance is significantly better" in search.recommend()


def test_with_one_feature_no_linear_metric_is_tried():
    X, y = digits()
    search = MetricCV(n_triplets=2000, random_state=0).fit(X[:, [20]], y)
    table = search.cv_results_
    linear = [one.get("lift") is None for one in table["params"]]
    assert set(table["estimator"][linear]) == {"Euclidean"}
    search.set_params(lifts=(None,)).fit(X[:, [20]], y)
    assert "none was tried" in search.recommend()


def test_a_metric_without_directions_is_no_candidate():
    X = np.tile([[1.0, 1], [1, -1], [-1, 1], [-1, -1]], (30, 1))  # no direction has any weight
    y = np.tile([0, 1, 1, 0], 30)
    search = MetricCV(lifts=(None,), n_triplets=2000, random_state=0).fit(X, y)
    assert isinstance(search.best_estimator_, Euclidean)
    assert "DuRP" not in search.cv_results_["estimator"]


def test_ridge_of_equal_means_is_no_candidate():
    X = np.tile(np.eye(4), (40, 1))
    search = MetricCV(lifts=(None,), random_state=0).fit(X, np.repeat(np.arange(2), 80))
    assert "RidgeMetric" not in search.cv_results_["estimator"]


def test_equal_rows_within_classes_need_no_whitening(rng):
    X = np.repeat(rng.standard_normal((3, 5)), 40, axis=0)
    search = MetricCV(lifts=(None,), n_triplets=500, random_state=0).fit(X, np.arange(120) // 40)
    assert "DuRP" in search.cv_results_["estimator"]


def test_ridge_has_the_directions_of_all_classes():
    X, y = digits(600)
    half = np.arange(600) % 2 == 0
    nine = y == 9
    first, second = (np.flatnonzero(one) for one in (half & ~nine, ~half | nine))
    search = MetricCV(cv=[(first, second), (second, first)], n_triplets=1000, lifts=(None,))
    table = search.set_params(random_state=0).fit(X, y).cv_results_
    ridge = [one for one in table["params"] if "alpha" in one]
    assert {one["n_components"] for one in ridge} == {9}
    both = np.isfinite(table["split1_test_score"])[table["estimator"] == "RidgeMetric"]
    assert both.any()


def test_fit_times_hold_what_settings_share(rng):
    X = rng.standard_normal((1500, 600)).astype(np.float32)
    X[:, 0] += 3 * (np.arange(1500) % 2)
    search = MetricCV(lifts=(None,), n_triplets=500, random_state=0).fit(X, np.arange(1500) % 2)
    seconds = search.cv_results_["mean_fit_time"][search.cv_results_["estimator"] == "RidgeMetric"]
    assert len(seconds) > 10
    assert seconds.min() > 0.3 * np.median(seconds)  # one decomposition serves all penalties


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": "classes", "ranks": [5]}, "ranks has no effect here, because only Whitening"),
        ({"cv": "classes", "samplers": ["neighbors"]}, "samplers has no effect here"),
        ({"blocks": [5, 10], "priors": ["identity"]}, "leave out priors"),
        ({"blocks": [5, 10], "powers": [0.5]}, "powers has no effect here"),
        ({"cv": []}, r"cv=\[\] holds out nothing"),
    ],
)
def test_options_without_effect_are_refused(options, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        MetricCV(n_triplets=500, random_state=0, **options).fit(X, y)


def test_a_prior_that_is_never_tried_is_refused(rng):
    X = rng.standard_normal((60, 1001))
    with pytest.raises(ValueError, match="prior='whitening' is tried for at most 1,000 features"):
        MetricCV(priors=("whitening",)).fit(X, np.arange(60) % 2)


def test_groups_and_new_classes_exclude_each_other():
    X, y = make_data()
    with pytest.raises(ValueError, match="leave out groups, or cv"):
        MetricCV(cv="classes").fit(X, Labels(y, groups=np.arange(len(y)) % 5))


def test_given_regs_are_those_of_priors():
    X, y = make_data()
    options = {"priors": ("identity",), "regs": (0.02, 0.5), "n_triplets": 500, "random_state": 0}
    table = MetricCV(**options).fit(X, y).cv_results_
    assert {one["reg"] for one in table["params"] if "prior" in one} == {0.02, 0.5}


def test_estimates_follow_max_rows():
    X = np.empty((20_000, 100), dtype=np.float32)
    few, all_rows = MetricCV(max_rows=500).estimate(X), MetricCV().estimate(X)
    assert few.memory < all_rows.memory / 5
    assert few.work < all_rows.work / 5
    assert MetricCV().estimate([[1.0, 2], [2, 3]]).memory > 0


def test_progress_ends_at_the_end():
    X, y = make_data()
    seen = []
    search = MetricCV(cv=3, time_limit=1e-6, n_triplets=500, random_state=0)
    with pytest.warns(UserWarning, match="too short"):
        search.fit(X, y, callback=lambda *counts: seen.append(counts))
    assert seen[-1][0] == seen[-1][1]


def test_a_choice_is_left_where_the_time_limit_is_overrun(monkeypatch):
    X, y = load_digits(return_X_y=True)
    late = []
    for module in (_race, search_module):
        monkeypatch.setattr(module, "perf_counter", lambda: perf_counter() + 1000.0 * len(late))

    def slowly(done, total):
        if done == 3:
            late.append(done)  # more than the time that is left has passed

    search = MetricCV(time_limit=500.0, lifts=(None,), random_state=0)
    search.fit(X, y, callback=slowly)
    assert type(search.best_estimator_).__name__ == "RidgeMetric"
    assert search.ended_early_
    assert not search.out_of_time_
    assert search.recommend().endswith(" The time limit ended the comparison early.")
    whole = MetricCV(lifts=(None,), n_triplets=500, random_state=0).fit(X[:200], y[:200])
    assert not whole.ended_early_


def test_candidates_that_cannot_be_fitted_are_left_out():
    rng = np.random.default_rng(0)
    X = (rng.random((300, 30)) < 0.01).astype(float)  # most rows are equal: no width of a kernel
    y = np.arange(300) % 3
    with pytest.warns(UserWarning, match=r"1 group .* could not be fitted; .*width of the kernel"):
        search = MetricCV(n_triplets=500, random_state=0).fit(X, y)
    assert not any(params.get("lift") for params in search.cv_results_["params"])
    assert {"RidgeMetric", "DuRP"} <= set(search.cv_results_["estimator"])


def test_rows_from_which_nothing_can_be_fitted(monkeypatch):
    def fail(*args, **options):
        raise ValueError("no such luck")

    for name in ("pose", "lift_rows"):
        monkeypatch.setattr(_candidates.stages, name, fail)
    X, y = make_clusters(60, 3, 3)
    shrinkages = {"shrinkages": (1.0,), "n_triplets": 500, "random_state": 0}
    model = MetricCV(**shrinkages)
    with pytest.raises(ValueError, match="no candidate could be fitted: no such luck"):
        model.fit(X, y)
    assert not hasattr(model, "best_estimator_")


def test_the_default_for_new_classes_says_so():
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < 4)[:200]
    search = MetricCV(cv="classes", random_state=0).fit(X[few], y[few])
    low, high = search.gain_interval_
    assert search.best_params_["prior"] == "whitening"
    assert low < 0.0 < high  # or the plain distance would be significantly better
    assert "It is the default for new classes" in search.recommend()
