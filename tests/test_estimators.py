"""The estimators as people use them: with scikit-learn, every kind of input, and bad input.

What the solver, the sampling and the recovery compute is tested in the files named after them.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualmetric import (
    LMNN,
    OASIS,
    SPCA,
    SRP,
    Comparisons,
    DuOri,
    DuRP,
    Euclidean,
    Labels,
    Metric,
    MetricCV,
    RidgeMetric,
    Triplets,
    Whitening,
    mean_average_precision,
    spaces,
)
from dualmetric.estimators.base import generator
from dualmetric.problem import SCALE
from makers import as_csr, duplicated, explicit_zeros, laid_out, make_classes, make_sparse, unsorted

LEARNERS = [DuRP, DuOri, SRP, SPCA]
PROJECTED = [DuRP, SRP, SPCA]
FEW = {"n_triplets": 300, "random_state": 0}


@pytest.fixture
def data():
    return make_classes()


def bits(learner):
    return learner.components_.tobytes(), learner.dual_coef_.tobytes()


def triplets_of(learner):
    """Triplets (i, j, k) that were sampled from labels."""
    index = learner.comparisons_.index
    assert_array_equal(index[:, 0], index[:, 2])
    return index[:, [0, 1, 3]]


def matrix(learner):
    return learner.metric_.matrix()


def pairwise(learner, X):
    """Distances of the learned metric, relative to their largest: its scale does not matter."""
    distances = learner.metric_.pairwise(X)
    return distances / distances.max()


# --- scikit-learn's tools ---------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_clone_and_get_params(learner, data):
    parameters = {
        "n_components": 2,
        "n_triplets": 200,
        "sampler": "neighbors",
        "max_rows": 100,
        "loss": "logistic",
        "reg": 0.5,
        "margin": 2.0,
        "max_epochs": 2,
        "tol": 1e-3,
        "shrinkage": 0.9,
        "power": 0.25,
        "lift": "rbf",
        "all_rows": True,
        "eigen_tol": 0.1,
        "distance": "cosine",
        "scale": False,
        "random_state": 3,
        "verbose": 0,
    }
    if learner in PROJECTED:
        parameters["n_projections"] = 4
    if learner in (DuRP, DuOri):
        parameters |= {"prior": None, "strength": 1.0, "blocks": None}
    model = learner(**parameters)
    assert model.get_params() == parameters
    copy = clone(model)
    assert copy.get_params() == parameters
    assert bits(copy.fit(*data)) == bits(model.fit(*data))
    assert model.get_params() == parameters


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
def test_pipeline_with_neighbors(learner, data):
    X, y = data
    metric = learner() if learner is Euclidean else learner(**FEW)
    model = make_pipeline(StandardScaler(), metric, KNeighborsClassifier()).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > 0.5


def test_grid_search(data):
    search = GridSearchCV(DuRP(**FEW), {"n_projections": [2, 5]}, cv=2).fit(*data)
    assert search.best_params_["n_projections"] in (2, 5)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validation(data):
    scores = cross_val_score(DuRP(**FEW), *data, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
def test_score_is_mean_average_precision(learner, data):
    X, y = data
    model = (learner() if learner is Euclidean else learner(**FEW)).fit(X, y)
    assert model.score(X, y) == mean_average_precision(model.transform(X), y)


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
@pytest.mark.parametrize(("name", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames_in_and_out(learner, name, frame, data):
    X, y = data
    model = learner() if learner is Euclidean else learner(n_components=2, **FEW)
    plain = clone(model).fit(X, y).transform(X)
    names = [f"feature {i}" for i in range(X.shape[1])]
    table = frame(dict(zip(names, X.T, strict=True)))
    model.set_output(transform=name).fit(table, y)
    assert_array_equal(model.feature_names_in_, names)
    assert model.metric_.feature_names == tuple(names)
    out = model.transform(table)
    assert isinstance(out, frame)
    expected = names if learner is Euclidean else [f"{learner.__name__.lower()}{i}" for i in (0, 1)]
    assert list(out.columns) == expected == list(model.get_feature_names_out())
    assert_array_equal(out.to_numpy(), plain)


def test_frame_with_other_names_is_refused(data):
    X, y = data
    model = DuRP(**FEW).fit(pd.DataFrame(X).add_prefix("a"), y)
    message = "X has no column 'a0', .* and 7 more, which the metric was learned from; it has 'b0'"
    for use in (model.transform, model.metric_.transform):
        with pytest.raises(ValueError, match=message):
            use(pd.DataFrame(X).add_prefix("b"))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", [Triplets, Comparisons])
def test_pipelines_pass_supervision_through(learner, kind, data):
    X, y = data
    index = learner(**FEW).fit(X, y).comparisons_.index
    known = Triplets(index[:, [0, 1, 3]]) if kind is Triplets else Comparisons(index)
    model = make_pipeline(StandardScaler(), learner(**FEW)).fit(X, known)
    alone = learner(**FEW).fit(StandardScaler().fit_transform(X), known)
    assert bits(model[-1]) == bits(alone)
    assert_array_equal(model[-1].comparisons_.index, index)
    scaled = StandardScaler().fit_transform(X)
    assert model.score(X, known) == alone.score(scaled, known)


@pytest.mark.parametrize("learner", LEARNERS)
def test_pickle(learner, data):
    X, y = data
    model = learner(**FEW).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert bits(copy) == bits(model)
    assert_array_equal(copy.transform(X), model.transform(X))
    assert copy.history_ == model.history_


# --- what a fit promises ----------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_same_seed_same_bits(learner, data):
    first, second = learner(**FEW).fit(*data), learner(**FEW).fit(*data)
    assert bits(first) == bits(second)
    assert_array_equal(first.comparisons_.index, second.comparisons_.index)
    other = learner(n_triplets=300, random_state=1).fit(*data)
    assert bits(other) != bits(first)


def test_random_state_instance(data):
    with_instance = DuRP(n_triplets=300, random_state=np.random.RandomState(7)).fit(*data)
    assert bits(with_instance) == bits(DuRP(n_triplets=300, random_state=7).fit(*data))
    source = np.random.RandomState(7)
    fits = [DuRP(n_triplets=300, random_state=source).fit(*data) for _ in range(2)]
    assert bits(fits[0]) != bits(fits[1])  # the instance moved on


def test_no_random_state_leaves_the_global_one_in_charge(data):
    np.random.seed(5)  # noqa: NPY002 - the legacy state is what random_state=None means
    first = DuRP(n_triplets=300).fit(*data)
    np.random.seed(5)  # noqa: NPY002
    assert bits(DuRP(n_triplets=300).fit(*data)) == bits(first)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("make", [make_classes, make_sparse])
def test_fit_changes_neither_parameters_nor_input(learner, make):
    X, y = make()
    triplets = triplets_of(learner(**FEW).fit(X, y)).astype(np.int64)
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    before = [array.copy() for array in (*arrays, y, triplets)]
    model = learner(**FEW)
    parameters = model.get_params()
    model.fit(X, y).transform(X)
    model.fit(X, Triplets(triplets))
    model.score(X, y)
    assert model.get_params() == parameters
    for array, old in zip((*arrays, y, triplets), before, strict=True):
        assert_array_equal(array, old)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("make", [make_classes, make_sparse])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept(learner, make, dtype):
    X, y = make(dtype=dtype)
    model = learner(**FEW).fit(X, y)
    for array in (model.components_, model.dual_coef_, model.metric_.factor, model.transform(X)):
        assert array.dtype == dtype
    assert model.pair_distance(X[:3], X[3:6]).dtype == dtype


@pytest.mark.parametrize("learner", LEARNERS)
def test_both_precisions_agree(learner):
    X, y = make_classes(dtype=np.float32)
    single, double = learner(**FEW).fit(X, y), learner(**FEW).fit(X.astype(np.float64), y)
    assert_array_equal(single.comparisons_.index, double.comparisons_.index)
    assert_allclose(pairwise(single, X), pairwise(double, X), atol=2e-3)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("n_components", [1, 2, 100])
def test_n_components(learner, n_components, data):
    X, y = data
    full = learner(**FEW).fit(X, y)
    model = learner(n_components=n_components, **FEW).fit(X, y)
    rank = min(n_components, full.metric_.rank)
    assert model.components_.shape == (rank, X.shape[1])
    assert model.transform(X).shape == (len(X), rank)
    assert len(model.get_feature_names_out()) == rank
    if learner is not SRP:  # its directions are ordered in the projection, which turns lengths
        assert_allclose(matrix(model), full.metric_.truncate(n_components).matrix(), atol=1e-10)


@pytest.mark.parametrize("learner", LEARNERS)
def test_fitted_attributes(learner, data):
    X, y = data
    model = learner(**FEW).fit(X, y)
    assert model.n_features_in_ == X.shape[1]
    assert not hasattr(model, "feature_names_in_")
    assert isinstance(model.metric_, Metric)
    assert model.metric_.info["method"] == learner.__name__
    assert model.metric_.info["parameters"]["n_triplets"] == 300
    assert model.components_.shape == (model.metric_.rank, X.shape[1])
    assert model.dual_coef_.shape == (len(model.comparisons_),) == (300,)
    assert ((model.dual_coef_ >= 0) & (model.dual_coef_ <= 1)).all()
    assert model.n_iter_ == 3 == len(model.history_)
    assert model.duality_gap_ == model.history_[-1].gap >= 0


@pytest.mark.parametrize("learner", PROJECTED)
def test_projected_metrics_have_at_most_n_projections_directions(learner, data):
    model = learner(3, **FEW).fit(*data)
    assert model.metric_.rank <= (data[0].shape[1] if learner is DuRP else 3)


def test_tol_stops_early(data):
    model = DuRP(max_epochs=500, tol=0.05, reg=1.0, **FEW).fit(*data)
    assert model.n_iter_ < 500
    assert model.duality_gap_ <= 0.05 * model.history_[-1].primal


@pytest.mark.parametrize("learner", LEARNERS)
def test_verbose_prints_each_epoch(learner, data, capsys):
    learner(verbose=1, **FEW).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"[{learner.__name__}] epoch {epoch}" for epoch in (1, 2, 3)
    ]
    assert all("primal" in line and "dual" in line and "gap" in line for line in lines)
    learner(**FEW).fit(*data)
    assert capsys.readouterr().out == ""


def test_fits_in_threads_give_the_same_bits():
    problems = [(learner, make_classes(seed=seed)) for learner in LEARNERS for seed in (0, 1)]
    alone = [bits(learner(**FEW).fit(*data)) for learner, data in problems]
    together = Parallel(n_jobs=2, prefer="threads")(
        delayed(lambda learner, data: bits(learner(**FEW).fit(*data)))(*problem)
        for problem in problems
    )
    assert together == alone


def test_pair_distance(data):
    X, y = data
    model = DuRP(**FEW).fit(X, y)
    expected = np.linalg.norm(model.transform(X[:5]) - model.transform(X[5:10]), axis=1)
    assert_allclose(model.pair_distance(X[:5], X[5:10]), expected)


def test_euclidean_is_the_identity(data):
    X, y = data
    model = Euclidean().fit(X, y)
    assert_array_equal(model.transform(X), X)
    assert_array_equal(model.components_, np.eye(X.shape[1]))
    sparse = sp.csr_array(X)
    assert_array_equal(model.transform(sparse).toarray(), X)


# --- ways that must agree ---------------------------------------------------------------------

# A smooth loss solved to the end: what is left then does not depend on the order of the triplets.
SOLVED = {"loss": "smoothed_hinge", "reg": 10.0, "max_epochs": 1000, "tol": 1e-12, **FEW}


@pytest.fixture
def fixed_projection(monkeypatch):
    """One projection whatever the random numbers drawn before it."""

    def project(X, m, rng, scatter=None):
        R = np.random.default_rng(9).standard_normal((X.shape[1], m)) / np.sqrt(m)
        return spaces.mapped(X, R), R

    monkeypatch.setattr(spaces, "random_projection", project)


@pytest.mark.usefixtures("fixed_projection")
@pytest.mark.parametrize("learner", LEARNERS)
def test_labels_and_the_triplets_sampled_from_them_give_one_metric(learner, data):
    X, y = data
    from_labels = learner(**SOLVED).fit(X, y)
    from_triplets = learner(**SOLVED).fit(X, Triplets(triplets_of(from_labels)))
    assert_array_equal(from_triplets.comparisons_.index, from_labels.comparisons_.index)
    assert_allclose(from_triplets.dual_coef_, from_labels.dual_coef_, atol=1e-4)
    scale = np.abs(matrix(from_labels)).max()
    assert_allclose(matrix(from_triplets), matrix(from_labels), atol=1e-4 * scale)


@pytest.mark.parametrize("learner", LEARNERS)
def test_triplets_in_any_form(learner, data):
    X, y = data
    model = learner(**FEW).fit(X, y)
    triplets = triplets_of(model)
    expected = bits(learner(**FEW).fit(X, Triplets(triplets)))
    for form in (triplets.tolist(), triplets.astype(np.uint16), pd.DataFrame(triplets)):
        assert bits(learner(**FEW).fit(X, Triplets(form))) == expected
    for form in (model.comparisons_, Comparisons(model.comparisons_.index.tolist())):
        assert bits(learner(**FEW).fit(X, form)) == expected


@pytest.mark.parametrize("learner", LEARNERS)
def test_dense_and_sparse_agree(learner):
    X, y = make_sparse()
    sparse, dense = learner(**FEW).fit(X, y), learner(**FEW).fit(X.toarray(), y)
    assert_array_equal(sparse.comparisons_.index, dense.comparisons_.index)
    assert_allclose(matrix(sparse), matrix(dense), atol=1e-9 * np.abs(matrix(dense)).max())
    assert_allclose(sparse.transform(X), sparse.transform(X.toarray()), atol=1e-9)
    assert sparse.score(X, y) == pytest.approx(dense.score(X.toarray(), y), abs=1e-9)


@pytest.mark.parametrize("learner", LEARNERS)
def test_unit_of_the_data_does_not_matter(learner, data):
    X, y = data
    model, larger = learner(**FEW).fit(X, y), learner(**FEW).fit(1000.0 * X, y)
    assert_array_equal(larger.comparisons_.index, model.comparisons_.index)
    assert_allclose(pairwise(larger, 1000.0 * X), pairwise(model, X), atol=1e-7)
    assert larger.score(1000.0 * X, y) == pytest.approx(model.score(X, y), abs=1e-9)


def test_unit_of_the_data_matters_without_scale(data):
    X, y = data
    model = DuOri(scale=False, **FEW).fit(X, y)
    larger = DuOri(scale=False, **FEW).fit(1000.0 * X, y)
    assert np.abs(pairwise(larger, 1000.0 * X) - pairwise(model, X)).max() > 1e-3


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("make", [make_classes, make_sparse])
def test_origin_of_the_data_does_not_matter(learner, make):
    X, y = make()
    moved = X.toarray() if sp.issparse(X) else X
    moved = moved + np.linspace(-100.0, 100.0, X.shape[1])
    moved = type(X)(moved) if sp.issparse(X) else moved
    there, here = learner(**FEW).fit(moved, y), learner(**FEW).fit(X, y)
    assert_array_equal(there.comparisons_.index, here.comparisons_.index)
    assert_allclose(pairwise(there, moved), pairwise(here, X), atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_span_of_the_rows_agrees_with_all_features(sparse, dtype, monkeypatch):
    X, y = make_classes(40, 500, dtype=dtype)
    X = sp.csr_array(X) if sparse else X
    # DuOri: only the order of the triplets is random, and it is the same on both ways
    short = DuOri(**FEW).fit(X, y)
    monkeypatch.setattr("dualmetric.learn.SPAN_LIMIT", 0)
    plain = DuOri(**FEW).fit(X, y)
    assert_array_equal(short.comparisons_.index, plain.comparisons_.index)
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    assert_allclose(short.dual_coef_, plain.dual_coef_, atol=tolerance)
    assert_allclose(pairwise(short, X), pairwise(plain, X), atol=tolerance)
    assert_allclose(matrix(short), matrix(plain), atol=tolerance * np.abs(matrix(plain)).max())


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_gathering_the_rows_in_triplets_agrees(learner, sparse, monkeypatch):
    X, y = make_classes(2000, 8)
    X = sp.csr_array(X) if sparse else X
    parameters = {"n_triplets": 50, "random_state": 0}
    gathered = learner(**parameters).fit(X, y)
    assert len(gathered.comparisons_.rows()) < 0.3 * X.shape[0]
    monkeypatch.setattr("dualmetric.learn._COPIED_SHARE", 0.0)
    whole = learner(**parameters).fit(X, y)
    assert_array_equal(gathered.comparisons_.index, whole.comparisons_.index)
    assert gathered.comparisons_.index.max() < X.shape[0]
    assert_allclose(gathered.dual_coef_, whole.dual_coef_, atol=1e-9)
    assert_allclose(matrix(gathered), matrix(whole), atol=1e-9 * np.abs(matrix(whole)).max())


@pytest.mark.parametrize("learner", [SRP, SPCA])
@pytest.mark.parametrize("scale", [True, False])
def test_confined_metrics_equal_the_formula(learner, scale, data, monkeypatch):
    """B·Π(Σ β_t A_t/(λN))·Bᵀ with A_t = ppᵀ − qqᵀ of the mapped rows."""
    X, y = data
    seen = {}
    name = "random_projection" if learner is SRP else "principal_components"
    original = getattr(spaces, name)

    def record(*args):
        result = original(*args)
        seen["basis"] = result[1] if isinstance(result, tuple) else result
        return result

    monkeypatch.setattr(spaces, name, record)
    model = learner(4, scale=scale, reg=0.02, **FEW).fit(X, y)
    B = seen["basis"]
    assert B.shape == (X.shape[1], 4)
    if learner is SPCA:
        assert_allclose(B.T @ B, np.eye(4), atol=1e-12)
    unit = np.sqrt(np.var(X, axis=0, ddof=1).sum() * 2) / SCALE if scale else 1.0
    Z = X @ B / unit
    M = np.zeros((4, 4))
    for (i, j, k), beta in zip(triplets_of(model), model.dual_coef_, strict=True):
        p, q = Z[i] - Z[k], Z[i] - Z[j]
        M += beta * (np.outer(p, p) - np.outer(q, q)) / (0.02 * 300)
    values, vectors = np.linalg.eigh(M)
    expected = B @ (vectors * np.maximum(values, 0)) @ vectors.T @ B.T / unit**2
    assert_allclose(matrix(model), expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("learner", [DuRP, DuOri])
def test_recovered_metrics_equal_the_formula(learner, data):
    """Π(Σ β_t A_t/(λN)) with A_t = ppᵀ − qqᵀ of the rows themselves."""
    X, y = data
    model = learner(scale=False, reg=0.02, **FEW).fit(X, y)
    M = np.zeros((X.shape[1], X.shape[1]))
    for (i, j, k), beta in zip(triplets_of(model), model.dual_coef_, strict=True):
        p, q = X[i] - X[k], X[i] - X[j]
        M += beta * (np.outer(p, p) - np.outer(q, q)) / (0.02 * 300)
    values, vectors = np.linalg.eigh(M)
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    assert_allclose(matrix(model), expected, atol=1e-10 * np.abs(expected).max())


# --- kinds of input that must work ------------------------------------------------------------


def forms_of(X):
    return {
        "list": X.tolist(),
        "Fortran order": laid_out(X, "fortran"),
        "not contiguous": laid_out(X, "strided"),
        "backwards": laid_out(X, "reversed"),
        "read-only": laid_out(X, "read-only"),
        "objects": X.astype(object),
        "masked array, nothing masked": np.ma.masked_array(X),
        "big-endian": X.astype(">f8"),
        "matrix frame": pd.DataFrame(X),
    }


@pytest.mark.parametrize("learner", [DuRP, DuOri])
@pytest.mark.parametrize("form", list(forms_of(make_classes()[0])))
def test_dense_forms_give_the_same_bits(learner, form, data):
    X, y = data
    plain = learner(**FEW).fit(X, y)
    given = forms_of(X)[form]
    model = learner(**FEW).fit(given, y)
    assert bits(model) == bits(plain)
    assert_allclose(model.transform(given), plain.transform(X), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, bool, np.float16])
def test_other_number_types_are_taken_as_float64(dtype):
    X, y = make_classes()
    X = (X * 3).astype(np.int8).clip(0, 50).astype(dtype)
    model = DuRP(**FEW).fit(X, y)
    assert bits(model) == bits(DuRP(**FEW).fit(X.astype(np.float64), y))
    assert model.transform(X).dtype == np.float64


def locked(X):
    X = X.copy()
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    return X


SPARSE_FORMS = {
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "csc_matrix": sp.csc_matrix,
    "coo_array": sp.coo_array,
    "lil_array": sp.lil_array,
    "int64 indices": as_csr,
    "unsorted": unsorted,
    "duplicates": duplicated,
    "explicit zeros": explicit_zeros,
    "read-only": locked,
}


@pytest.mark.parametrize("learner", [DuRP, SPCA])
@pytest.mark.parametrize("form", list(SPARSE_FORMS))
def test_sparse_forms_agree_and_stay_as_they_are(learner, form):
    X, y = make_sparse()
    plain = learner(**FEW).fit(X, y)
    given = SPARSE_FORMS[form](X)
    arrays = [
        getattr(given, name)
        for name in ("data", "indices", "indptr")
        if isinstance(getattr(given, name, None), np.ndarray)
    ]
    before = [array.copy() for array in arrays]
    model = learner(**FEW).fit(given, y)
    model.transform(given)
    model.score(given, y)
    for array, old in zip(arrays, before, strict=True):
        assert array.dtype == old.dtype
        assert_array_equal(array, old)
    assert_array_equal(model.comparisons_.index, plain.comparisons_.index)
    assert_allclose(matrix(model), matrix(plain), atol=1e-9 * np.abs(matrix(plain)).max())
    assert_allclose(model.transform(given), plain.transform(X), atol=1e-9)


LABELS = {
    "strings": lambda y: np.array(["ant", "bee", "cat"])[y],
    "objects": lambda y: np.array(["ant", "bee", "cat"], dtype=object)[y],
    "list": lambda y: y.tolist(),
    "floats": lambda y: y.astype(np.float64),
    "negative": lambda y: y - 7,
    "uint8": lambda y: y.astype(np.uint8),
    "categorical": lambda y: pd.Series(pd.Categorical.from_codes(y, ["ant", "bee", "cat"])),
    "pandas strings": lambda y: pd.Series(np.array(["ant", "bee", "cat"])[y]),
    "nullable integers": lambda y: pd.Series(y, dtype="Int64"),
    "polars": lambda y: pl.Series(np.array(["ant", "bee", "cat"])[y].tolist()),
    "masked array, nothing masked": lambda y: np.ma.masked_array(y),
    "read-only": lambda y: np.frombuffer(y.astype(np.int64).tobytes(), dtype=np.int64),
}


@pytest.mark.parametrize("kind", list(LABELS))
def test_labels_of_every_kind(kind, data):
    X, y = data
    labels = LABELS[kind](y)
    model = DuRP(**FEW).fit(X, labels)
    assert bits(model) == bits(DuRP(**FEW).fit(X, y))
    assert model.score(X, labels) == model.score(X, y)


def test_labels_true_and_false(data):
    X, y = data
    model = DuRP(**FEW).fit(X, y == 1)
    assert bits(model) == bits(DuRP(**FEW).fit(X, (y == 1).astype(int)))


def test_many_small_classes(data):
    X, _ = data
    y = np.arange(60) // 2
    model = DuRP(sampler="neighbors", **FEW).fit(X, y)  # without a warning
    assert 0.0 < model.score(X, y) <= 1.0


def test_labels_in_a_column_work_with_a_warning(data):
    X, y = data
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = DuRP(**FEW).fit(X, y[:, None])
    assert bits(model) == bits(DuRP(**FEW).fit(X, y))


def is_usable(model, X):
    out = model.transform(X)
    out = out.toarray() if sp.issparse(out) else out
    return np.isfinite(out).all() and np.ptp(out, axis=0).max() > 0


@pytest.mark.parametrize("learner", LEARNERS)
def test_one_feature_that_the_labels_follow(learner):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = y[:, None] + 0.1 * rng.standard_normal((30, 1))
    model = learner(sampler="neighbors", **FEW).fit(X, y)
    assert model.components_.shape == (1, 1)
    assert is_usable(model, X)
    assert model.score(X, y) == Euclidean().fit(X).score(X, y)
    triplets = [(i, (i + 3) % 30, (i + 1) % 30) for i in range(30)]
    assert is_usable(learner(random_state=0).fit(X, Triplets(triplets)), X)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("make", [make_classes, make_sparse])
def test_some_features_constant(learner, make):
    X, y = make()
    dense = X.toarray() if sp.issparse(X) else X
    dense[:, 5], dense[:, 6] = 0.0, 123.456
    X = sp.csr_array(dense) if sp.issparse(X) else dense
    assert is_usable(learner(**FEW).fit(X, y), X)


# each row has another label in its third copy: there may be nothing to learn
@pytest.mark.filterwarnings("ignore:no direction (separates|has):UserWarning")
@pytest.mark.parametrize("learner", LEARNERS)
def test_duplicate_rows(learner, data):
    X, y = data
    X, y = np.concatenate([X, X, X]), np.concatenate([y, y, (y + 1) % 3])
    assert is_usable(learner(**FEW).fit(X, y), X)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_more_features_than_rows(learner, sparse):
    X, y = make_classes(12, 300)
    X[:, :40] += 3.0 * (y[:, None] == 1)
    X = sp.csr_array(X) if sparse else X
    assert is_usable(learner(random_state=0, n_triplets=40).fit(X, y), X)


@pytest.mark.parametrize("learner", PROJECTED)
@pytest.mark.parametrize("sparse", [False, True])
def test_more_projections_than_features(learner, sparse, data):
    X, y = data
    X = sp.csr_array(X) if sparse else X
    assert is_usable(learner(50, **FEW).fit(X, y), X)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("sampler", ["active", "neighbors"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_loss_and_sampler(learner, sampler, loss, data):
    X, y = data
    model = learner(sampler=sampler, loss=loss, **FEW).fit(X, y)
    assert is_usable(model, X)
    assert np.isfinite(model.dual_coef_).all()


def test_fewer_active_triplets_than_asked_for(data):
    X, y = data
    with pytest.warns(
        UserWarning, match="active triplets were found, fewer than n_triplets=10,000,000"
    ):
        model = DuRP(n_triplets=10_000_000, random_state=0).fit(X, y)
    assert is_usable(model, X)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("sampler", ["active", "neighbors"])
@pytest.mark.parametrize("n", [30, 300])  # every triplet is looked at, or some are drawn
def test_classes_that_nothing_confuses(learner, sampler, n):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = 100.0 * np.eye(3, 4)[y] + rng.standard_normal((n, 4))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no active triplet", UserWarning)
        model = learner(sampler=sampler, **FEW).fit(X, y)
    assert is_usable(model, X)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("sparse", [False, True])
def test_triplets_that_leave_no_direction_leave_the_euclidean_distance(
    learner, n_components, sparse
):
    """A positive that is farther than the negative in every direction."""
    X = np.concatenate([np.zeros((1, 3)), np.eye(3), 9.0 * np.eye(3)])
    triplets = [(0, 4 + i, 1 + i) for i in range(3)]
    X = sp.csr_array(X) if sparse else X
    with pytest.warns(
        UserWarning, match="no direction separates .* 3 comparisons, so the plain distance is kept"
    ):
        model = learner(n_components=n_components, random_state=0).fit(X, Triplets(triplets))
    assert is_usable(model, X)
    if learner in (DuRP, DuOri):
        assert_array_equal(model.components_, np.eye(3))
    if learner is not SRP:
        assert_allclose(model.metric_.pairwise(X), Euclidean().fit(X).metric_.pairwise(X))


# --- bad input: what is wrong, and what to do -------------------------------------------------


def with_entry(value):
    X, y = make_classes()
    X[3, 2] = value
    return X, y


def masked(array, where):
    mask = np.zeros(array.shape, dtype=bool)
    mask[where] = True
    return np.ma.masked_array(array, mask)


def mixed(y):
    labels = np.array(["ant", "bee", 3], dtype=object)
    return labels[y]


def missing(y, value):
    labels = np.array(["ant", "bee", "cat"], dtype=object)[y]
    labels[5] = value
    return labels


BAD_X = {
    "NaN": (lambda X: with_entry(np.nan)[0], "contains NaN"),
    "infinity": (lambda X: with_entry(np.inf)[0], "contains infinity"),
    "NaN in CSR": (lambda X: sp.csr_array(with_entry(np.nan)[0]), "contains NaN"),
    "no rows": (lambda X: X[:0], "0 sample"),
    "no features": (lambda X: X[:, :0], "0 feature"),
    "no features, CSR": (lambda X: sp.csr_array((60, 0)), "0 feature"),
    "one dimension": (lambda X: X[:, 0], "Expected 2D array"),
    "three dimensions": (lambda X: X[:, :, None], "dim 3"),
    "complex": (lambda X: X + 1j, "Complex data not supported"),
    "text": (lambda X: X.astype(str).astype(object) + "x", "could not convert string"),
    "masked": (lambda X: masked(X, (3, 2)), r"X is a masked array .* X\.filled\(0\)"),
    "constant": (lambda X: np.ones_like(X), "all rows of X are the same .* check that X"),
    "constant, rounded": (lambda X: np.full_like(X, 0.1), "all rows of X are the same"),
    "all zero CSR": (lambda X: sp.csr_array(X.shape), "all rows of X are the same"),
    "constant CSR": (
        lambda X: sp.csr_array(np.tile([0.0, 0.1, 0.0, 2.3], (len(X), 1))),
        "all rows of X are the same",
    ),
    "too large": (lambda X: 1e200 * X, "too large or too small .* StandardScaler"),
    "too small": (lambda X: 1e-200 * X, "too large or too small .* StandardScaler"),
    "at the end of the range": (lambda X: (X > 0) * 1.7e308, "too large or too small"),
    "one very large": (lambda X: with_entry(1e300)[0], "too large or too small"),
    "too large, float32": (lambda X: (1e30 * X).astype(np.float32), "or pass float64"),
    "too small, float32": (lambda X: (1e-30 * X).astype(np.float32), "or pass float64"),
    "too large, CSR": (lambda X: sp.csr_array(1e200 * X), "too large or too small"),
}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", list(BAD_X))
def test_bad_rows(learner, kind, data):
    X, y = data
    make, message = BAD_X[kind]
    with pytest.raises(ValueError, match=message):
        learner(**FEW).fit(make(X), y)
    with pytest.raises(ValueError, match=message):
        learner(scale=False, **FEW).fit(make(X), Triplets([(0, 3, 1)]))


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
def test_one_row(learner):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        learner().fit([[1.0, 2.0]], [0])


BAD_LABELS = {
    "none at all": (lambda y: None, r"requires y .* pass labels, .*Triplets\(index\)"),
    "one class": (lambda y: np.zeros_like(y), r"only one class .* at least two classes"),
    "one class, text": (lambda y: ["ant"] * len(y), "only one class .*ant"),
    "every class of one row": (lambda y: np.arange(len(y)), "every class in y has only one row"),
    "too few": (lambda y: y[:-1], "y has 59 labels for 60 rows"),
    "too many": (lambda y: np.append(y, 0), "y has 61 labels for 60 rows"),
    "empty": (lambda y: y[:0], "y has 0 labels for 60 rows"),
    "two columns": (lambda y: np.column_stack([y, y]), "1d array"),
    "scalar": (lambda y: 1, "1d array"),
    "continuous": (lambda y: y + np.linspace(0, 1, len(y)), "Unknown label type: continuous"),
    "NaN": (lambda y: np.where(y == 2, np.nan, y), "y contains NaN or None, .* drop"),
    "NaN among text": (lambda y: missing(y, np.nan), "y contains NaN or None"),
    "None": (lambda y: missing(y, None), "y contains NaN or None"),
    "pandas.NA": (lambda y: missing(y, pd.NA), "y contains NaN or None"),
    "nullable with NA": (
        lambda y: pd.Series(y, dtype="Int64").where(y != 2),
        "y contains NaN or None",
    ),
    "text with NA": (lambda y: pd.Series(missing(y, None), dtype="str"), "y contains NaN or None"),
    "categorical with NA": (
        lambda y: pd.Series(pd.Categorical.from_codes(y - 1, ["ant", "bee"])),
        "y contains NaN or None",
    ),
    "polars with null": (lambda y: pl.Series(missing(y, None).tolist()), "y contains NaN or None"),
    "mixed": (mixed, "mixes labels that cannot be compared .* convert them"),
    "masked": (lambda y: masked(y, 5), r"y is a masked array .* y\.filled\(0\)"),
}


@pytest.mark.parametrize("learner", [DuRP, DuOri])
@pytest.mark.parametrize("kind", list(BAD_LABELS))
def test_bad_labels(learner, kind, data):
    X, y = data
    make, message = BAD_LABELS[kind]
    with pytest.raises(ValueError, match=message):
        learner(**FEW).fit(X, make(y))


BAD_TRIPLETS = {
    "beyond the end": ([(0, 3, 60)], r"triplets\[0\] = \[0, 3, 60\] .* 0 to 59"),
    "negative": ([(0, 3, 1), (0, 3, -1)], r"triplets\[1\] = \[0, 3, -1\] .* 0 to 59"),
    "anchor is positive": ([(4, 4, 1)], "anchor and positive are the same row"),
    "anchor is negative": ([(4, 1, 4)], "anchor and negative are the same row"),
    "positive is negative": ([(4, 1, 1)], "positive and negative are the same row"),
    "floats": ([(0.0, 3.0, 1.0)], "must hold integers, .* float64"),
    "booleans": ([(True, False, True)], "must hold integers, .* bool"),
    "text": ([("0", "3", "1")], "must hold integers"),
    "pairs": ([(0, 3)], r"\(N, 3\) array .* \(1, 2\)"),
    "flat": ([0, 3, 1], r"\(N, 3\) array .* \(3,\)"),
    "empty": (np.empty((0, 3), dtype=int), "triplets is empty: give at least one"),
    "empty list": ([], "triplets is empty: give at least one"),
    "masked": (masked(np.array([[0, 3, 1], [0, 3, 2]]), (1, 1)), "triplets is a masked array"),
    "for other rows": (np.array([[0, 3, 70]]), r"triplets\[0\] = \[0, 3, 70\]"),
}


@pytest.mark.parametrize("learner", [DuRP, DuOri])
@pytest.mark.parametrize("kind", list(BAD_TRIPLETS))
def test_bad_triplets(learner, kind, data):
    triplets, message = BAD_TRIPLETS[kind]
    with pytest.raises(ValueError, match=message):
        learner(**FEW).fit(data[0], Triplets(triplets))


BAD_PARAMETERS = [
    ("n_components", 0, ValueError),
    ("n_components", 1.5, TypeError),
    ("n_triplets", 0, ValueError),
    ("n_triplets", 1e5, TypeError),
    ("sampler", "x", ValueError),
    ("sampler", None, ValueError),
    ("loss", "x", ValueError),
    ("reg", -1, ValueError),
    ("reg", 0, ValueError),
    ("reg", np.nan, ValueError),
    ("reg", np.inf, ValueError),
    ("reg", "x", TypeError),
    ("max_epochs", 0, ValueError),
    ("max_epochs", None, TypeError),
    ("tol", -1, ValueError),
    ("tol", np.nan, ValueError),
    ("scale", "no", TypeError),
    ("random_state", "x", ValueError),
]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("name", "value", "error"), BAD_PARAMETERS)
def test_bad_parameters(learner, name, value, error, data):
    message = "seed" if name == "random_state" else name
    with pytest.raises(error, match=message):
        learner(**{**FEW, name: value}).fit(*data)


@pytest.mark.parametrize("learner", PROJECTED)
@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-3, ValueError), ("x", TypeError), (2.0, TypeError)]
)
def test_bad_n_projections(learner, value, error, data):
    with pytest.raises(error, match="n_projections"):
        learner(value, **FEW).fit(*data)


@pytest.mark.parametrize("name", ["sampler", "loss"])
def test_unknown_names_are_answered_with_the_known_ones(name, data):
    with pytest.raises(ValueError, match=f"{name} must be one of '(active|hinge)', .*got 'x'"):
        DuRP(**{name: "x"}).fit(*data)


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
def test_before_fit(learner, data):
    X, y = data
    model = learner()
    for use in (
        lambda: model.transform(X),
        lambda: model.pair_distance(X, X),
        lambda: model.score(X, y),
        lambda: model.components_,
        lambda: model.get_feature_names_out(),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use()


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
@pytest.mark.parametrize("sparse", [False, True])
def test_another_width(learner, sparse, data):
    X, y = data
    model = (learner() if learner is Euclidean else learner(**FEW)).fit(X, y)
    narrow = sp.csr_array(X[:, :5]) if sparse else X[:, :5]
    for use in (model.transform, lambda rows: model.pair_distance(rows, rows)):
        with pytest.raises(ValueError, match=r"[XA] has 5 features, but .* expecting 12 features"):
            use(narrow)


@pytest.mark.parametrize("learner", [*LEARNERS, Euclidean])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_transform_refuses_what_is_not_a_number(learner, value, data):
    X, y = data
    model = (learner() if learner is Euclidean else learner(**FEW)).fit(X, y)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.transform(with_entry(value)[0])
    with pytest.raises(ValueError, match="X is a masked array"):
        model.transform(masked(X, (0, 0)))


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("make", [make_classes, make_sparse])
def test_large_and_small_numbers_in_float32_work(learner, scale, make):
    X, y = make(dtype=np.float32)
    if learner is SPCA and sp.issparse(X):
        scale = max(scale, 1e-4)  # below, ARPACK's components lose digits
    model = learner(**FEW).fit(X * np.float32(scale), y)
    assert_allclose(
        pairwise(model, X * np.float32(scale)),
        pairwise(learner(**FEW).fit(X, y), X),
        atol=1e-3,
    )


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("dtype", "exponent"),
    [(np.float32, e) for e in (-18, -14, -6, 6, 9, 14, 18)]
    + [(np.float64, e) for e in (-150, -120, -100, -18, -6, 6, 18, 70, 100, 120, 150)],
)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_without_scale_numbers_work_or_are_refused(learner, exponent, dtype, loss):
    X = (make_classes()[0] * 10.0**exponent).astype(dtype)
    triplets = [(i, (i + 3) % 60, (i + 1) % 60) for i in range(60)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no direction (separates|has)", UserWarning)
        try:
            model = learner(scale=False, loss=loss, random_state=0).fit(X, Triplets(triplets))
            out = model.transform(X)
        except ValueError as error:
            assert "too large" in str(error)  # noqa: PT017 - working is as good
        else:
            assert np.isfinite(out).all()
            assert np.isfinite(model.duality_gap_)


def test_transform_of_rows_too_large_for_float32(data):
    X, y = make_classes(dtype=np.float32)
    model = DuRP(**FEW).fit(1e-10 * X, y)
    with pytest.raises(ValueError, match=r"too large for this metric in float32: .* float64"):
        model.transform(X * np.float32(1e37))
    assert np.isfinite(model.transform(X.astype(np.float64) * 1e37)).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_too_wide_for_the_original_space(sparse, monkeypatch):
    X, y = make_classes(400, 300)
    X = sp.csr_array(X) if sparse else X
    need = DuOri(**FEW).estimate(X).memory
    assert DuRP(**FEW).estimate(X).memory < need
    monkeypatch.setattr("dualmetric._arrays.system.available_memory", lambda: need - 1)
    with pytest.raises(ValueError, match=r"DuOri.fit on 400 × 300 needs .* MB .* or use DuRP"):
        DuOri(**FEW).fit(X, y)
    assert is_usable(DuRP(**FEW).fit(X, y), X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0] * 59, "y has 59 labels for 60 rows"),
        ([0.0] * 59 + [np.nan], "y contains NaN"),
        (np.arange(60), "no class in y has two rows"),
    ],
)
def test_score_with_bad_labels(y, message, data):
    model = DuRP(**FEW).fit(*data)
    with pytest.raises(ValueError, match=message):
        model.score(data[0], y)


# --- power and lift ---------------------------------------------------------------------------


def test_power_changes_lengths_and_not_directions():
    X, y = load_digits(return_X_y=True)
    half, flat = (DuRP(n_components=5, power=p, random_state=0).fit(X, y) for p in (0.5, 0.0))
    lengths = np.linalg.norm(half.components_, axis=1)
    flat_lengths = np.linalg.norm(flat.components_, axis=1)
    assert_allclose(flat_lengths, lengths[0])  # the largest keeps its length
    assert_allclose(
        flat.components_ / flat_lengths[:, None], half.components_ / lengths[:, None], atol=1e-10
    )
    for power in (0.25, -0.25):
        other = DuRP(n_components=5, power=power, random_state=0).fit(X, y)
        expected = lengths[0] * (lengths / lengths[0]) ** (2 * power)
        assert_allclose(np.linalg.norm(other.components_, axis=1), expected)


def test_lift_is_the_metric_on_kernel_features():
    from dualmetric.lift import rbf_lift

    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    settings = {"shrinkage": 0.1, "n_components": 6, "distance": "cosine", "n_triplets": 2000}
    model = DuRP(lift="rbf", random_state=3, **settings).fit(X, y)
    rng = np.random.default_rng(np.random.RandomState(3).randint(2**31 - 1))
    lift, N = rbf_lift(X, rng)
    features = lift.apply(X, N)
    assert_allclose(model.metric_.lift.landmarks, lift.landmarks)
    # on the same triplets, what it learned is what DuRP learns on the features
    distances = model.metric_.pairwise(X[:50])
    plain = model.metric_.replaced(lift=None, factor=np.linalg.pinv(N) @ model.metric_.factor,
                                   n_features=N.shape[1])  # fmt: skip
    assert_allclose(plain.pairwise(features[:50]), distances, atol=1e-6)
    assert model.n_features_in_ == 64
    assert model.transform(X[:3]).shape == (3, 6)


def test_wrong_lift():
    X, y = load_digits(return_X_y=True)
    wide = sp.csr_matrix((X.shape[0], 5000)) + sp.csr_matrix(np.pad(X, ((0, 0), (0, 4936))))
    with pytest.raises(ValueError, match=r"sparse rows may have 4,000 at most, .* use lift=None"):
        DuRP(lift="rbf").fit(wide, y)
    with pytest.raises(ValueError, match="lift must be one of None, 'rbf'; got 'poly'"):
        DuRP(lift="poly").fit(X, y)


def test_timings_name_the_parts(capsys):
    X, y = load_digits(return_X_y=True)
    model = DuRP(random_state=0, verbose=2).fit(X, y)
    assert list(model.timings_) == ["sampling", "projection", "solving", "recovery"]
    assert all(seconds >= 0 for seconds in model.timings_.values())
    assert "[DuRP] " in capsys.readouterr().out.splitlines()[-1]


# --- a fit that fails -------------------------------------------------------------------------

ALL = {
    DuRP: FEW,
    DuOri: FEW,
    SRP: FEW,
    SPCA: FEW,
    OASIS: FEW,
    LMNN: {"max_iter": 5, "random_state": 0},
    RidgeMetric: {"random_state": 0},
    Whitening: {"random_state": 0},
    Euclidean: {},
    MetricCV: {"shrinkages": [0.5], "powers": [0.5], "lifts": [None], "priors": [None], **FEW},
}

# where each estimator does its work
WORK = {
    DuRP: "dualmetric.learn.solve_dual",
    DuOri: "dualmetric.learn.solve_dual",
    SRP: "dualmetric.learn.solve_dual",
    SPCA: "dualmetric.learn.solve_dual",
    OASIS: "dualmetric.estimators.oasis._oasis_epoch",
    LMNN: "dualmetric.estimators.lmnn.minimize",
    RidgeMetric: "dualmetric.ridge.targets",
    Whitening: "dualmetric.estimators.whitening.scatter_of",
    Euclidean: "dualmetric.estimators.base.Metric",
    MetricCV: "dualmetric.learn.solve_dual",
}


def fresh(estimator, **more):
    return estimator(**{**ALL[estimator], **more})


quietly = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*active triplets were found:UserWarning"),
]


def with_marks(test):
    for mark in quietly:
        test = mark(test)
    return test


@with_marks
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("estimator", list(ALL))
def test_a_fit_that_fails_changes_nothing(estimator, error, data, monkeypatch):
    X, y = data
    frame = pd.DataFrame(X).add_prefix("feature ")
    model = fresh(estimator).fit(frame, y)
    before, state = dict(vars(model)), pickle.dumps(model)
    expected = model.transform(frame)

    def fail(*args, **kwargs):
        raise error("stop")

    with monkeypatch.context() as patch:
        patch.setattr(WORK[estimator], fail)
        with pytest.raises(error, match="stop"):
            model.fit(2.0 * X[:, :5], y)
    assert vars(model).keys() == before.keys()
    assert all(getattr(model, name) is value for name, value in before.items())
    assert pickle.dumps(model) == state  # nor was anything changed in place
    assert_array_equal(model.transform(frame), expected)
    unfitted = fresh(estimator)
    with monkeypatch.context() as patch:
        patch.setattr(WORK[estimator], fail)
        with pytest.raises(error, match="stop"):
            unfitted.fit(X, y)
    assert vars(unfitted) == unfitted.get_params(deep=False)
    with pytest.raises(NotFittedError):
        unfitted.transform(X)


@with_marks
@pytest.mark.parametrize("estimator", [DuRP, DuOri, SRP, SPCA, MetricCV])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_fit_that_is_stopped_by_its_callback_changes_nothing(estimator, error, data):
    X, y = data
    model = fresh(estimator).fit(X, y)
    before, state = dict(vars(model)), pickle.dumps(model)
    calls = []

    def stop(*progress):
        calls.append(progress)
        if len(calls) == 2:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        model.fit(X[:, :4], y, callback=stop)
    assert len(calls) == 2
    assert all(getattr(model, name) is value for name, value in before.items())
    assert pickle.dumps(model) == state


@pytest.mark.parametrize("learner", LEARNERS)
def test_callback_gets_every_epoch(learner, data):
    epochs = []
    model = learner(max_epochs=4, **FEW).fit(*data, callback=epochs.append)
    assert epochs == model.history_
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3, 4]
    assert bits(model) == bits(learner(max_epochs=4, **FEW).fit(*data))


@with_marks
@pytest.mark.parametrize("estimator", list(ALL))
def test_fitting_again_leaves_nothing_of_the_first_fit(estimator, data):
    X, y = data
    model = fresh(estimator).fit(pd.DataFrame(X).add_prefix("feature "), y)
    assert hasattr(model, "feature_names_in_")
    model.fit(X[:, :8], y)
    assert vars(model).keys() == vars(fresh(estimator).fit(X[:, :8], y)).keys()
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 8


# --- data frames ------------------------------------------------------------------------------


def as_frame(library, columns):
    """A data frame of the named columns, which are arrays."""
    if library == "pyarrow":
        return pa.table({name: pa.array(column) for name, column in columns.items()})
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library](columns)


def renamed(X, order=None):
    names = [f"f{i}" for i in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True))
    return columns if order is None else {names[i]: columns[names[i]] for i in order}


FRAMES = ["pandas", "polars", "pyarrow"]


@with_marks
@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("estimator", list(ALL))
def test_columns_are_taken_by_name(estimator, library, data):
    X, y = data
    model = fresh(estimator).fit(as_frame(library, renamed(X)), y)
    assert_array_equal(model.feature_names_in_, [f"f{i}" for i in range(12)])
    assert model.metric_.feature_names == tuple(f"f{i}" for i in range(12))
    expected = model.transform(X)
    assert_array_equal(fresh(estimator).fit(X, y).transform(X), expected)
    columns = renamed(X, np.random.default_rng(0).permutation(12))
    for extra in ({}, {"label": y}, {"name": np.array(["ant", "bee", "cat"])[y]}):
        frame = as_frame(library, {**extra, **columns})
        for use in (model.transform, model.metric_.transform):
            assert_array_equal(use(frame), expected)
        assert_array_equal(model.pair_distance(frame, X), np.zeros(60))
        assert_array_equal(model.metric_.distance(frame, X), np.zeros(60))
        assert_array_equal(model.metric_.pairwise(frame), model.metric_.pairwise(X))
        assert model.score(frame, y) == model.score(X, y)


@with_marks
@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("estimator", list(ALL))
def test_y_as_the_name_of_a_column(estimator, library, data):
    X, y = data
    names = np.array(["ant", "bee", "cat"])[y]
    columns = {**renamed(X, range(5)), "kind": names, **renamed(X, range(5, 12))}
    frame = as_frame(library, columns)
    model = fresh(estimator).fit(frame, "kind")
    assert_array_equal(model.feature_names_in_, [f"f{i}" for i in range(12)])
    expected = fresh(estimator).fit(X, names)
    assert_array_equal(model.transform(X), expected.transform(X))
    assert_array_equal(model.transform(frame), expected.transform(X))
    assert model.score(frame, "kind") == expected.score(X, names)
    with pytest.raises(ValueError, match="y = 'sort' is not a column of X, which has 'f0'"):
        fresh(estimator).fit(frame, "sort")
    with pytest.raises(ValueError, match="y = 'kind' names a column, but X is not a data frame"):
        fresh(estimator).fit(X, "kind")
    with pytest.raises(ValueError, match="y = 'sort' is not a column of X"):
        model.score(frame, "sort")


@with_marks
@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("estimator", list(ALL))
def test_missing_columns_are_refused_by_name(estimator, library, data):
    X, y = data
    model = fresh(estimator).fit(as_frame(library, renamed(X)), y)
    columns = renamed(X)
    del columns["f3"], columns["f7"]
    frame = as_frame(library, {**columns, "more": y})
    message = "X has no column 'f3', 'f7', which the metric was learned from; it has 'f0', 'f1'"
    uses = [model.transform, model.metric_.transform, lambda rows: model.score(rows, y)]
    for use in uses:
        with pytest.raises(ValueError, match=message):
            use(frame)


@pytest.mark.parametrize("library", FRAMES)
def test_frames_without_the_names_of_the_metric(library, data):
    """Without names on one side, columns count by their order and must be as many."""
    X, y = data
    model = DuRP(**FEW).fit(X, y)
    frame = as_frame(library, renamed(X))
    assert_array_equal(model.transform(frame), model.transform(X))
    with pytest.raises(ValueError, match="X has 11 features, but DuRP is expecting 12 features"):
        model.transform(as_frame(library, renamed(X[:, :11])))


def test_columns_of_text_are_refused_by_name(data):
    X, y = data
    frame = pd.DataFrame(renamed(X)).assign(kind=np.array(["ant", "bee", "cat"])[y])
    with pytest.raises(ValueError, match="but 'kind' holds no numbers"):
        DuRP(**FEW).fit(frame, y)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("kind", [Triplets, Comparisons])
def test_frames_with_triplets_and_comparisons(library, kind, data):
    X, y = data
    index = DuRP(**FEW).fit(X, y).comparisons_.index
    known = Triplets(index[:, [0, 1, 3]]) if kind is Triplets else Comparisons(index)
    model = DuRP(**FEW).fit(as_frame(library, renamed(X)), known)
    assert bits(model) == bits(DuRP(**FEW).fit(X, known))


# --- max_rows ---------------------------------------------------------------------------------


def many_rows():
    """Rows of which 100 are learned from; the fourth class is rare."""
    X, y = make_classes(400, 8, spread=[1, 1, 4, 4, 4, 4, 4, 4])
    y = y.copy()
    y[[5, 150, 390]] = 3
    return X, y


def held_as(kind, X, tmp_path):
    if kind == "csr":
        return sp.csr_array(X)
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(X, chunks=(70, 8))
    if kind == "frame":
        return pd.DataFrame(X)
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


@with_marks
@pytest.mark.parametrize("kind", ["csr", "memmap", "dask", "frame"])
@pytest.mark.parametrize("estimator", [e for e in ALL if e is not Euclidean])
def test_the_rows_learned_from_do_not_depend_on_where_they_are(estimator, kind, tmp_path):
    X, y = many_rows()
    setting = {"max_rows": 100}
    if estimator in (DuRP, DuOri):
        setting["shrinkage"] = 0.5
    here = fresh(estimator, **setting).fit(X, y)
    there = fresh(estimator, **setting).fit(held_as(kind, X, tmp_path), y)
    assert 100 <= here.n_rows_used_ <= 110  # and what the rare class adds
    for model in (here, there):
        assert (model.n_rows_used_, model.n_rows_in_) == (here.n_rows_used_, 400)
        assert model.metric_.info["rows"] == {"used": here.n_rows_used_, "given": 400}
    found, expected = there.metric_.pairwise(X[:50]), here.metric_.pairwise(X[:50])
    if kind == "csr":
        assert_allclose(found, expected, atol=1e-6 * expected.max())
    else:
        assert_array_equal(found, expected)
    if hasattr(here, "comparisons_"):
        assert_array_equal(there.comparisons_.index, here.comparisons_.index)
        assert len(here.comparisons_.rows()) <= here.n_rows_used_
        assert 3 in y[here.comparisons_.rows()]


@with_marks
@pytest.mark.parametrize("estimator", [e for e in ALL if e is not Euclidean])
def test_all_rows_are_used_where_there_are_few_or_none_is_said(estimator):
    X, y = many_rows()
    every = fresh(estimator, max_rows=None).fit(X, y)
    enough = fresh(estimator, max_rows=400).fit(X, y)
    default = fresh(estimator).fit(X, y)
    for model in (every, enough, default):
        assert (model.n_rows_used_, model.n_rows_in_) == (400, 400)
        assert model.metric_.info["rows"] == {"used": 400, "given": 400}
        assert_array_equal(model.transform(X), every.transform(X))
    few = fresh(estimator, max_rows=100).fit(X, y)
    assert np.abs(few.metric_.pairwise(X) - every.metric_.pairwise(X)).max() > 1e-6
    other = fresh(estimator, max_rows=100).set_params(random_state=1).fit(X, y)
    assert np.abs(few.metric_.pairwise(X) - other.metric_.pairwise(X)).max() > 1e-6


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_fit_on_the_chosen_rows_alone_gives_the_same_metric(learner):
    """The rows that are left out have no part in anything, the unit of length included."""
    X, y = many_rows()
    changed = X.copy()
    model = learner(max_rows=100, **FEW).fit(X, y)
    numbers = Labels(y).choose(400, 100, generator(0))
    assert len(numbers) == model.n_rows_used_
    left_out = np.setdiff1d(np.arange(400), numbers)
    changed[left_out] = 1e6
    assert bits(learner(max_rows=100, **FEW).fit(changed, y)) == bits(model)
    assert set(model.comparisons_.rows()) <= set(numbers)


@pytest.mark.parametrize("kind", [Triplets, Comparisons])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_row_that_is_named_is_used(learner, kind, rng, random_index):
    X, _ = many_rows()
    index = 300 + random_index(60, 200, rng)
    known = kind(index if kind is Triplets else index[:, [0, 1, 0, 2]])
    model = learner(max_rows=50, **FEW).fit(X, known)
    named = len(np.unique(index))
    assert named < model.n_rows_used_ <= named + 50
    assert_array_equal(model.comparisons_.index, index[:, [0, 1, 0, 2]])
    assert model.metric_.info["rows"] == {"used": model.n_rows_used_, "given": 400}


@with_marks
@pytest.mark.parametrize("estimator", [DuRP, DuOri, SRP, SPCA, MetricCV])
def test_how_many_rows_are_used_is_said_once(estimator, capsys):
    X, y = many_rows()
    model = fresh(estimator, max_rows=100, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    message = f"[{estimator.__name__}] learning from {model.n_rows_used_} of 400 rows (max_rows)"
    assert [line for line in lines if "rows (max_rows)" in line] == [message]
    for setting in ({"max_rows": None, "verbose": 1}, {"max_rows": 400, "verbose": 1}):
        fresh(estimator, **setting).fit(X, y)
        assert "max_rows" not in capsys.readouterr().out.replace("max_rows=", "")
    fresh(estimator, max_rows=100).fit(X, y)
    assert capsys.readouterr().out == ""


def test_numbers_of_many_rows_are_readable(capsys):
    X, y = make_classes(3000, 4, spread=[1, 1, 4, 4])
    DuRP(max_rows=2000, verbose=1, **FEW).fit(X, y)
    assert "learning from 2,000 of 3,000 rows" in capsys.readouterr().out
