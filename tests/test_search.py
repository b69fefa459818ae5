"""DuRPCV: settings chosen on held-out rows."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import KFold, StratifiedKFold

from dualmetric import DuRP, DuRPCV, Euclidean, Whitening, mean_average_precision
from dualmetric.learners import _folds
from dualmetric.learners._folds import held_out_parts

SMALL = {
    "shrinkages": [0.1, 0.5],
    "powers": [0.0, 0.5],
    "lifts": [None],
    "n_triplets": 2000,
    "n_projections": 5,
    "random_state": 0,
}


def make_data(n=240, d=15, n_classes=4, noise=6.0, seed=0):
    """Classes apart in two features; others vary more and say nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d))
    X[:, 2:] *= noise
    X[:, 0] += 4.0 * (y % 2)
    X[:, 1] += 4.0 * (y // 2)
    return X, y


# --- what is held out -----------------------------------------------------------------------


def test_a_quarter_of_each_class_is_held_out():
    codes = np.repeat([0, 1, 2], [40, 8, 100])
    part = next(held_out_parts(np.zeros((148, 1)), codes, None, 0))
    assert_array_equal(np.bincount(codes[part.test]), [10, 2, 25])
    assert_array_equal(np.sort(np.r_[part.train, part.test]), np.arange(148))
    assert part.same_classes


def test_the_last_rows_of_each_class_are_held_out():
    codes = np.tile([0, 0, 1], 40)  # 80 and 40 rows
    parts = list(held_out_parts(np.zeros((120, 1)), codes, None, 0))
    for label, size in ((0, 20), (1, 10)):
        assert_array_equal(
            parts[0].test[codes[parts[0].test] == label], np.flatnonzero(codes == label)[-size:]
        )
    # then those before them, each once
    assert len(parts) == 4
    assert_array_equal(np.sort(np.concatenate([part.test for part in parts])), np.arange(120))
    for part in parts:
        assert_array_equal(np.sort(np.r_[part.train, part.test]), np.arange(120))
    # numbers are folds in the order of rows, as scikit-learn has them
    folds = held_out_parts(np.zeros((120, 1)), codes, 4, 0)
    expected = StratifiedKFold(4).split(np.zeros((120, 1)), codes)
    for fold, (train, test) in zip(folds, expected, strict=True):
        assert_array_equal(fold.train, train)
        assert_array_equal(fold.test, test)


def test_small_classes_are_held_out_once():
    codes = np.repeat([0, 1, 2], [40, 7, 3])
    parts = list(held_out_parts(np.zeros((50, 1)), codes, None, 0))
    assert_array_equal(np.bincount(codes[parts[0].test]), [10, 2, 1])
    assert len(parts) == 1  # later ones would hold one class only


def test_more_is_held_out_while_there_is_doubt():
    rng = np.random.default_rng(0)
    y = np.arange(480) % 2  # of which 120 are held out
    noise = rng.normal(size=(480, 5))
    clear = noise.copy()
    clear[:, 0] = 0.6 * clear[:, 0] + 2 * y
    splits = []
    for X, labels in ((noise, y), (clear, y), (clear[:80], y[:80])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = DuRPCV(n_triplets=500, random_state=0).fit(X, labels)
        splits.append(sum(key.startswith("split") for key in search.cv_results_))
        if X is noise:
            assert search.best_params_.keys() == {"distance"}
    assert splits[0] > 1
    assert splits[1:] == [1, 4]  # the last are few


def test_classes_are_held_out_in_halves():
    codes = np.arange(60) % 5
    parts = list(held_out_parts(np.zeros((60, 1)), codes, "classes", 0))
    for part in parts:
        assert not set(codes[part.train]) & set(codes[part.test])
        assert not part.same_classes
    assert_array_equal(parts[0].train, parts[1].test)


def test_folds_and_splitters():
    X, y = make_data(60)
    assert len(list(held_out_parts(X, y, 3, 0))) == 3
    parts = held_out_parts(X, y, KFold(4), 0)
    for part, (train, test) in zip(parts, KFold(4).split(X), strict=True):
        assert_array_equal(part.train, train)
        assert_array_equal(part.test, test)


def test_no_more_queries_than_needed(monkeypatch):
    monkeypatch.setattr(_folds, "MOST_QUERIES", 20)
    X, y = make_data(200)
    part = next(held_out_parts(X, y, None, 0))
    assert len(part.test) == 20
    assert not set(part.test) & set(part.train)


@pytest.mark.parametrize(
    ("codes", "cv", "message"),
    [
        ([0, 0, 1, 1], None, "too few rows"),
        ([0] * 50, None, "too few rows of too few classes"),
        (np.arange(50), None, "too few rows"),
        (np.arange(60) % 3, "classes", "y has only 3: it takes four"),
        (np.arange(60) % 3, "rows", "cv must be None, 'classes'"),
    ],
)
def test_what_cannot_be_held_out(codes, cv, message):
    codes = np.asarray(codes)
    with pytest.raises(ValueError, match=message):
        next(held_out_parts(np.zeros((len(codes), 1)), codes, cv, 0))


# --- scores are those of the estimators -------------------------------------------------------


def right_neighbors(train, y, test, y_test):
    distances = pairwise_distances(test, train)
    nearest = np.argsort(distances, axis=1)[:, :5]
    return (y[nearest] == y_test[:, None]).mean()


@pytest.mark.parametrize("scoring", ["map", "knn"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_plain_distances_are_scored_as_they_are(scoring, kind):
    X, y = make_data()
    search = DuRPCV(scoring=scoring, **SMALL).fit(kind(X), y)
    part = next(held_out_parts(X, y, None, _seed()))
    for number, distance in enumerate(("euclidean", "cosine")):
        plain = Euclidean(distance).fit(kind(X[part.train]))
        train, test = (plain.transform(kind(X[rows])) for rows in (part.train, part.test))
        expected = (
            mean_average_precision(test, y[part.test])
            if scoring == "map"
            else right_neighbors(train, y[part.train], test, y[part.test])
        )
        assert search.cv_results_["params"][number] == {"distance": distance}
        assert search.cv_results_["split0_test_score"][number] == pytest.approx(expected)


def _seed():
    return np.random.RandomState(0).randint(2**31 - 1)


def test_candidates_are_scored_as_durp_would_be():
    # DuRP draws other projections and triplets, which here matter by a few points
    X, y = make_data(800, noise=2.0)
    settings = {**SMALL, "n_projections": 15, "n_triplets": 5000, "ranks": [1, 3]}
    search = DuRPCV(**settings).fit(X, y)
    part = next(held_out_parts(X, y, None, _seed()))
    expected = [
        np.mean(
            [
                DuRP(n_projections=15, n_triplets=5000, random_state=seed, **params)
                .fit(X[part.train], y[part.train])
                .score(X[part.test], y[part.test])
                for seed in range(3)
            ]
        )
        for params in search.cv_results_["params"][6:]
    ]
    scores = search.cv_results_["split0_test_score"][6:]
    assert np.ptp(expected) > 0.2
    assert np.corrcoef(scores, expected)[0, 1] > 0.9
    assert_allclose(scores, expected, atol=0.08)


def test_whitening_is_scored_as_it_is():
    X, y = make_data(noise=2.0)
    search = DuRPCV(**SMALL).fit(X, y)
    part = next(held_out_parts(X, y, None, _seed()))
    for params, score in zip(
        search.cv_results_["params"][2:6], search.cv_results_["split0_test_score"][2:6], strict=True
    ):
        model = Whitening(**params).fit(X[part.train], y[part.train])
        assert score == pytest.approx(model.score(X[part.test], y[part.test]))


def test_powers_below_zero_go_with_few_directions():
    X, y = make_data()
    settings = {**SMALL, "powers": [-0.25, 0.5], "ranks": [3, 1, None]}
    tried = DuRPCV(**settings).fit(X, y).cv_results_["params"]
    ranks = {power: {p["n_components"] for p in tried if p.get("power") == power}
             for power in (-0.25, 0.5)}  # fmt: skip
    assert ranks == {-0.25: {1}, 0.5: {1, 3, None}}


def test_picks_the_best_and_learns_from_all_rows():
    X, y = make_data()
    search = DuRPCV(**SMALL).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ == scores.max() == scores[search.best_index_]
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_score_ > scores[:2].max() + 0.2
    again = DuRP(n_projections=5, n_triplets=2000, random_state=_seed(), **search.best_params_)
    assert_array_equal(again.fit(X, y).transform(X), search.transform(X))
    assert search.refit_time_ > 0
    text = search.recommend()
    assert text.startswith("Use DuRP(lift=None")
    assert f"mAP {100 * search.best_score_:.1f} % on held-out rows" in text


def test_results_have_the_form_of_grid_search():
    X, y = make_data()
    search = DuRPCV(cv=3, **SMALL).fit(X, y)
    results = search.cv_results_
    n = 2 + 2 * 2 + 2 * 3 * 2 * 2  # plain; whitened; shrinkages × ranks × powers × distances
    for name in ("mean_test_score", "std_test_score", "rank_test_score", "param_shrinkage"):
        assert len(results[name]) == n
    assert results["param_shrinkage"].mask[:2].all()
    assert not results["param_distance"].mask.any()
    parts = np.array([results[f"split{k}_test_score"] for k in range(3)])
    assert_allclose(results["std_test_score"], parts.std(axis=0))
    assert_allclose(results["mean_test_score"], parts.mean(axis=0), atol=0.01)


def test_keeps_the_plain_distance_where_nothing_is_to_be_learned():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 8)), rng.integers(3, size=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no active triplets, or no direction
        search = DuRPCV(**SMALL).fit(X, y)
    assert search.gain_interval_[0] <= 0
    assert list(search.best_params_) == ["distance"]
    assert isinstance(search.best_estimator_, Euclidean)
    assert search.metric_.factor is None
    assert "no learned metric is better beyond the noise" in search.recommend()


def test_lift_is_chosen_where_classes_are_not_linear():
    # rings: no linear metric tells them apart
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    angle = rng.uniform(0, 2 * np.pi, 400)
    X = ((1.0 + y) * np.array([np.cos(angle), np.sin(angle)])).T + rng.normal(0, 0.1, (400, 2))
    search = DuRPCV(**{**SMALL, "lifts": [None, "rbf"], "ranks": [1, 10]}).fit(X, y)
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


def test_lift_is_left_out_for_sparse_rows():
    X, y = make_data()
    search = DuRPCV(**{**SMALL, "lifts": [None, "rbf"]}).fit(sp.csr_matrix(X), y)
    assert {params.get("lift") for params in search.cv_results_["params"]} == {None}
    with pytest.raises(ValueError, match="put None among the lifts"):
        DuRPCV(lifts=["rbf"]).fit(sp.csr_matrix(X), y)


@pytest.mark.parametrize("scoring", ["map", "knn"])
def test_unseen_classes(scoring):
    X, y = make_data(n_classes=4)
    search = DuRPCV(cv="classes", scoring=scoring, **SMALL).fit(X, y)
    assert "split1_test_score" in search.cv_results_
    assert 0 <= search.cv_results_["mean_test_score"].min() <= search.best_score_ <= 1


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 300)), np.arange(60) % 2
    X[:, 0] += 12.0 * y
    search = DuRPCV(**{**SMALL, "n_triplets": 500}).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.metric_.n_features == 300


def test_the_seed_decides():
    X, y = make_data()
    first, second = (DuRPCV(**SMALL).fit(X, y) for _ in range(2))
    assert_array_equal(first.cv_results_["mean_test_score"], second.cv_results_["mean_test_score"])
    assert_array_equal(first.transform(X), second.transform(X))


def test_never_below_plain_on_held_out_rows():
    X, y = load_digits(return_X_y=True)
    settings = {**SMALL, "n_triplets": 20_000, "n_projections": 30}
    search = DuRPCV(**settings).fit(X[:900], y[:900])
    assert search.best_score_ >= search.cv_results_["mean_test_score"][:2].max()
    plain = max(Euclidean(d).fit(X[:900]).score(X[900:], y[900:]) for d in ("euclidean", "cosine"))
    assert search.score(X[900:], y[900:]) > plain + 0.05


def test_names_and_choice_are_kept_with_the_metric():
    pd = pytest.importorskip("pandas")
    X, y = make_data(d=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    search = DuRPCV(**SMALL).fit(frame, y)
    assert search.metric_.feature_names == ("a", "b", "c")
    assert search.metric_.info["chosen_by"] == "DuRPCV, scoring='map'"
    assert search.metric_.info["held_out_score"] == search.best_score_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scoring": "accuracy"}, "scoring must be 'map' or 'knn'"),
        ({"shrinkages": []}, "shrinkages must be a sequence"),
        ({"shrinkages": "0.1"}, "shrinkages must be a sequence"),
        ({"shrinkages": [2.0]}, "shrinkage == 2.0, must be <= 1"),
        ({"lifts": ["poly"]}, "lift must be None or 'rbf'"),
        ({"distances": ["l1"]}, "distance must be one of"),
        ({"ranks": [0]}, "n_components == 0, must be >= 1"),
        ({"n_triplets": 0}, "n_triplets == 0"),
    ],
)
def test_wrong_parameters(parameters, message):
    X, y = make_data(60)
    with pytest.raises((ValueError, TypeError), match=message):
        DuRPCV(**parameters).fit(X, y)


def test_needs_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        DuRPCV().fit(np.eye(5), None)


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
        (np.zeros((4, 5000)) + np.arange(4)[:, None], [0, 0, 1, 1], "for up to 4,000 of them"),
        (np.repeat(np.eye(2), 2, axis=0), [0, 0, 1, 1], "no scatter to whiten by"),
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
        DuRPCV(scoring=scoring, **SMALL).fit(rows, y) for rows in (X, X + np.float32(3000.0))
    )
    for number in (0, 2):  # the Euclidean distance, plain and whitened
        assert far.cv_results_["mean_test_score"][number] == pytest.approx(
            near.cv_results_["mean_test_score"][number], abs=0.01
        )


def test_a_rank_that_is_scored_is_the_rank_that_is_learned():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1300, 1100)).astype(np.float32), np.arange(1300) % 2
    X[:, 0] += 6.0 * y
    settings = {**SMALL, "shrinkages": [0.5], "powers": [0.5], "ranks": [None]}
    search = DuRPCV(**settings).fit(X, y)
    assert {params.get("n_components") for params in search.cv_results_["params"][2:]} == {50}
