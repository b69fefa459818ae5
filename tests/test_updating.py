"""Updates against a fit from scratch on the same comparisons."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dualmetric import DuOri, DuRP, Metric
from dualmetric import updating as up
from dualmetric._arrays import kernels
from dualmetric.io import state_file
from dualmetric.losses import LOSSES
from dualmetric.supervision import Comparisons, Labels, Pairs, Positives, Triplets
from makers import make_classes, make_clusters, make_sparse

TIGHT = {"tol": 1e-9, "max_epochs": 20_000}


def triplets_of(y, n, seed=0, wrong=0.1):
    """Random triplets from labels, some of them wrong: dual variables then reach their bounds."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        i, j, k = rng.integers(len(y), size=3)
        if i != j and y[i] == y[j] and y[i] != y[k]:
            found.append((i, j, k) if rng.random() > wrong else (i, k, j))
    return np.array(found)


def matrix_of(metric):
    """M of the last step."""
    L = metric.factor
    if L is None:
        return np.eye(metric.n_features)
    omega, L, gains = metric.low_rank_form()
    return omega**2 * np.eye(len(L)) + (L * gains) @ L.T


def play(model, X, triplets, rng, n_steps):
    """A random sequence of adds and forgets; returns the places of the triplets that are left."""
    left, unused = set(), list(rng.permutation(len(triplets)))
    for _ in range(n_steps):
        if left and (not unused or rng.random() < 0.35):
            gone = rng.choice(sorted(left), size=min(len(left), rng.integers(1, 4)), replace=False)
            model.forget(gone.tolist())
            left -= set(gone.tolist())
        else:
            take = [unused.pop() for _ in range(min(len(unused), rng.integers(1, 6)))]
            ids = [int(place) for place in take]
            model.partial_fit(X, Triplets(triplets[take]), ids=ids)
            left |= set(ids)
    return sorted(left)


X0, Y0 = make_clusters(n=50, d=8, n_classes=3, apart=1.5)
T0 = triplets_of(Y0, 60)
CASES = {
    "none": {"reg": 0.02},
    "paper": {},
    "identity": {"prior": "identity"},
    "cosine": {"prior": "identity", "distance": "cosine", "margin": 0.6},
    "plain cosine": {"distance": "cosine", "reg": 0.05},
    "smooth": {"prior": "identity", "loss": "smoothed_hinge"},
    "squared": {"prior": "identity", "loss": "squared_hinge", "reg": 0.1},
    "logistic": {"prior": "identity", "loss": "logistic"},
    "metric": {"prior": Metric(np.eye(8)[:, :5] * np.arange(1, 6))},
}


@pytest.mark.filterwarnings("ignore:the prior satisfies all")
@pytest.mark.parametrize("name", CASES)
def test_equals_a_fit_from_scratch(name):
    """50 sequences in all: adds and forgets, then the metric of DuOri.fit on what is left."""
    options = CASES[name]
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = DuOri(**options, random_state=seed).partial_fit(X0)
        left = play(model, X0, T0, rng, 12)
        batch = DuOri(**options, **TIGHT).fit(X0, Triplets(T0[left]))
        ours, theirs = matrix_of(model.metric_), matrix_of(batch.metric_)
        apart = np.linalg.norm(ours - theirs)
        assert apart <= 1e-3 * np.linalg.norm(theirs)
        unit = model.updating_.base.unit
        scale = 1.0 if model.prior is None else model.updating_.base.prior.scale
        exact = np.sqrt(2 * batch.duality_gap_ / (options.get("reg") or 0.01))
        assert apart <= (model.distance_bound_ + exact) / (unit**2 * scale) + 1e-9
        A, B = X0[:10], X0[10:20]
        np.testing.assert_allclose(
            model.metric_.distance(A, B), batch.metric_.distance(A, B), rtol=2e-3, atol=1e-6
        )


def test_durp_equals_a_fit_with_the_same_projection():
    """With as many projections as comparisons need, and the same basis, so that duals are alike."""
    options = {"n_projections": 6, "prior": "identity", "random_state": 3}
    model = DuRP(**options).partial_fit(X0)
    left = play(model, X0, T0, np.random.default_rng(0), 15)
    once = DuRP(**options, tol=1e-10).partial_fit(X0).partial_fit(X0, Triplets(T0[left]))
    np.testing.assert_array_equal(model.updating_.base.basis, once.updating_.base.basis)
    ours, theirs = matrix_of(model.metric_), matrix_of(once.metric_)
    assert np.linalg.norm(ours - theirs) <= 1e-2 * np.linalg.norm(theirs)
    # the projected problem is the solver's own: its duals are optimal there as well
    Z = (X0 - X0.mean(axis=0)) @ once.updating_.base.basis / once.updating_.base.unit
    told = once.updating_.kept.told
    given = Comparisons(Triplets._pairs(T0[left]), 1.0 - told, np.ones(len(left)))
    from dualmetric.solver import solve_dual

    found = solve_dual(
        Z, given, LOSSES["hinge"], reg=0.01, max_epochs=0, rng=np.random.default_rng(0),
        warm_start=once.dual_coef_,
    )  # fmt: skip
    assert found.gap <= 1e-8


def test_bound_holds_far_from_the_solution():
    """A loose tol leaves a metric that is off, by less than the bound."""
    exact = DuOri(prior="identity", **TIGHT).fit(X0, Triplets(T0))
    loose = DuOri(prior="identity", tol=0.3).partial_fit(X0, Triplets(T0))
    apart = np.linalg.norm(matrix_of(exact.metric_) - matrix_of(loose.metric_))
    assert 1e-3 < apart <= loose.distance_bound_ + 1e-6


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(LOSSES)))
@settings(max_examples=20, deadline=None)
def test_gram_steps_equal_slow_ones(seed, name):
    rng, loss = np.random.default_rng(seed), LOSSES[name]
    B = rng.standard_normal((7, 3))
    G, n = B @ B.T + 0.1 * np.eye(7), 6  # one place is not used
    weight, shift = rng.random(n) + 0.2, rng.standard_normal(n)
    beta = 0.5 * weight
    products = G[:n, :n] @ beta
    order, reg_n = rng.permutation(n), 0.3
    fast = beta.copy()
    kernels.dual_gram(
        G, products, shift, weight, fast, order, reg_n, loss.logistic, loss.smoothing, loss.upper
    )
    grid = np.linspace(0, 1, 4001)
    for t in order:

        def dual(b, t=t):
            z = (G[t, :n] @ beta) / reg_n + shift[t]
            step = b - beta[t]
            ratio = b / weight[t]
            return -weight[t] * loss.conjugate(ratio) - z * step - 0.5 * step**2 * G[t, t] / reg_n

        top = weight[t] * min(loss.upper, 20.0)
        values = dual(grid * top)
        beta[t], best = fast[t], values.max()
        old = beta[t]
        beta[t] = grid[values.argmax()] * top
        assert dual(old) >= best - 1e-4 * max(1.0, abs(best)) or abs(old - beta[t]) < 2e-2
        beta[t] = old
    np.testing.assert_allclose(products, G[:n, :n] @ fast, rtol=1e-9, atol=1e-12)


def test_many_comparisons_are_solved_on_rows(monkeypatch):
    model = DuOri(prior="identity", random_state=0)
    by_gram = clone(model).partial_fit(X0, Triplets(T0))
    monkeypatch.setattr(up, "GRAM_LIMIT", 10)
    by_rows = clone(model).partial_fit(X0, Triplets(T0[:5])).partial_fit(X0, Triplets(T0[5:]))
    assert by_rows.updating_.kept.gram is None
    ours, theirs = matrix_of(by_rows.metric_), matrix_of(by_gram.metric_)
    assert np.linalg.norm(ours - theirs) <= 2e-3 * np.linalg.norm(theirs)
    by_rows.forget(1)
    assert by_rows.updating_.kept.gram is not None
    assert len(by_rows.ids_) == 5


def test_forgetting_everything_leaves_the_prior():
    model = DuOri(prior="identity", distance="cosine").partial_fit(X0)
    before = model.metric_.pairwise(X0)
    model.partial_fit(X0, Triplets(T0), ids="all")
    assert np.abs(model.metric_.pairwise(X0) - before).max() > 0.01
    model.forget("all")
    np.testing.assert_array_equal(model.metric_.pairwise(X0), before)
    assert model.rows_.shape == (0, 8)
    assert model.distance_bound_ == 0.0
    model.partial_fit(X0, Triplets(T0[:5]))
    assert len(model.comparisons_) == 5


def test_decay_equals_a_fit_with_those_weights():
    model = DuOri(prior="identity").partial_fit(X0, Triplets(T0[:20]), ids="old")
    model.partial_fit(X0, Triplets(T0[20:40]), ids="new").decay(half_life=1)
    weight = np.repeat([0.5, 1.0], 20)
    np.testing.assert_allclose(model.comparisons_.weight, weight)
    batch = DuOri(prior="identity", **TIGHT).fit(
        X0, Comparisons(Triplets._pairs(T0[:40]), weight=weight)
    )
    ours, theirs = matrix_of(model.metric_), matrix_of(batch.metric_)
    assert np.linalg.norm(ours - theirs) <= 1e-3 * np.linalg.norm(theirs)
    model.decay(np.inf)
    np.testing.assert_array_equal(model.comparisons_.weight, np.ones(40))
    with pytest.raises(ValueError, match="half_life must be a number above 0"):
        model.decay(0)


def test_rebase_learns_the_fixed_parts_again():
    few = DuOri(prior="whitening", shrinkage=0.5, distance="cosine")
    few.partial_fit(X0[:20], Triplets(T0[(T0 < 20).all(axis=1)]))
    n = len(few.ids_)
    unit = few.updating_.base.unit
    few.rebase(X0)
    assert few.updating_.base.unit != unit
    assert len(few.ids_) == n
    rebased = few.metric_.pairwise(X0)
    few.rebase(X0)
    np.testing.assert_allclose(few.metric_.pairwise(X0), rebased, rtol=1e-6)
    few.rebase()
    assert few.metric_.rank
    with pytest.raises(ValueError, match="so rebase has no rows to learn from: pass X"):
        DuOri(prior="identity").partial_fit(X0).rebase()


@pytest.mark.parametrize("make", [make_classes, make_sparse])
@pytest.mark.parametrize(
    "model",
    [DuOri(prior="identity", distance="cosine"), DuRP(4, prior="identity"), DuRP(4)],
    ids=["cosine", "durp", "paper"],
)
def test_state_survives_a_file(tmp_path, make, model):
    X, y = make(dtype=np.float32)
    T = triplets_of(y, 40)
    model = clone(model).set_params(random_state=1)
    model.partial_fit(X, Triplets(T[:20])).partial_fit(X, Triplets(T[20:]), ids=list("ab" * 10))
    path = tmp_path / "state.safetensors"
    model.save_state(path)
    again = type(model).load_state(path)
    assert again.get_params() == model.get_params()
    assert again.ids_ == model.ids_
    np.testing.assert_allclose(again.dual_coef_, model.dual_coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        again.pair_distance(X, X[::-1]), model.pair_distance(X, X[::-1]), rtol=1e-4
    )
    for one in (model, again):
        one.forget("a")
    np.testing.assert_allclose(
        again.pair_distance(X, X[::-1]), model.pair_distance(X, X[::-1]), rtol=1e-4
    )
    assert again.rows_.dtype == np.float32


def test_state_keeps_a_metric_prior(tmp_path):
    model = DuOri(prior=CASES["metric"]["prior"], reg=0.1).partial_fit(X0, Triplets(T0))
    model.save_state(tmp_path / "s.safetensors")
    again = DuOri.load_state(tmp_path / "s.safetensors")
    np.testing.assert_allclose(matrix_of(again.metric_), matrix_of(model.metric_))


def test_damaged_states_are_refused(tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import load, save_file

    path = tmp_path / "s.safetensors"
    DuOri(prior="identity").partial_fit(X0, Triplets(T0)).save_state(path)
    with pytest.raises(ValueError, match="holds the state of DuOri, not of DuRP"):
        DuRP.load_state(path)
    content = path.read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="damaged or cut short"):
        DuOri.load_state(tmp_path / "cut")
    with pytest.raises(ValueError, match="is a safetensors file but not a metric"):
        Metric.load(path)
    with safe_open(path, framework="numpy") as file:
        header = file.metadata()
    tensors = load(content)
    for name, wrong in [
        ("index", tensors["index"] + 1000),
        ("beta", tensors["beta"] - 5),
        ("beta", tensors["beta"][:3]),
        ("rows", tensors["rows"][:, :2].copy()),
        ("margin", np.full(60, np.nan)),
        ("told", tensors["told"].astype(np.int64)),
        ("more", np.ones(3)),
    ]:
        save_file({**tensors, name: wrong}, path, metadata=header)
        with pytest.raises(ValueError, match="is damaged: "):
            DuOri.load_state(path)


def test_a_state_of_a_newer_version(tmp_path, monkeypatch):
    path = tmp_path / "s.safetensors"
    with monkeypatch.context() as newer:
        newer.setattr(state_file, "VERSION", 2)
        DuOri(prior="identity").partial_fit(X0, Triplets(T0)).save_state(path)
    with pytest.raises(ValueError, match=r"s\.safetensors was written by .*: install a newer"):
        DuOri.load_state(path)


def test_any_supervision_and_ids():
    model = DuRP(5, prior="identity", n_triplets=50, random_state=0)
    model.partial_fit(X0, Y0, ids="labels")
    model.partial_fit(X0, Labels(Y0), ids=7)
    pairs = np.arange(40).reshape(20, 2)
    model.partial_fit(X0, Pairs(pairs, Y0[pairs[:, 0]] == Y0[pairs[:, 1]]), ids="pairs")
    model.partial_fit(X0[:30], Positives([[0, 1]], queries=X0[40:]), ids="clicks")
    assert {"labels", 7, "pairs", "clicks"} == set(model.ids_)
    n = len(model.ids_)
    model.forget([7, "pairs"])
    assert set(model.ids_) == {"labels", "clicks"}
    assert len(model.ids_) < n
    np.testing.assert_array_equal(
        np.unique(model.comparisons_.index), np.arange(model.rows_.shape[0])
    )


def test_known_rows_are_stored_once():
    model = DuOri(prior="identity").partial_fit(X0, Triplets([[0, 1, 2]]))
    model.partial_fit(X0[[2, 1, 0, 7]], Triplets([[0, 1, 3]]))
    assert model.rows_.shape[0] == 4
    np.testing.assert_array_equal(model.rows_, X0[[0, 1, 2, 7]])


def test_rows_of_another_precision_are_known():
    X = X0.astype(np.float32)
    model = DuOri(prior="identity").partial_fit(X, Triplets([[0, 1, 2]]))
    model.partial_fit(X.astype(np.float64), Triplets([[0, 1, 3]]))
    assert model.rows_.shape[0] == 4


def test_rows_that_are_kept_twice_do_not_mix_up_others():
    model = DuOri(prior="identity").partial_fit(X0, Triplets([[0, 1, 2]]))
    model.partial_fit(sp.csr_array(X0), Triplets([[0, 1, 3], [5, 6, 7]]), ids=["a", "b"])
    model.forget("b").partial_fit(X0, Triplets([[9, 10, 11]]), ids="c")
    index = model.comparisons_.index[list(model.ids_).index("c")]
    np.testing.assert_array_equal(model.rows_.toarray()[index], X0[[9, 10, 9, 11]])


def test_what_stays_fixed_is_learned_from_max_rows():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = DuOri(prior="identity", max_rows=20, random_state=0).partial_fit(X)
    assert (model.n_rows_used_, model.n_rows_in_) == (20, 60)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda m: m.forget(None), TypeError, "ids must be a str, an int or a seq.* got None"),
        (lambda m: m.forget(1.5), TypeError, r"ids must be a str, .* got 1\.5"),
        (lambda m: m.partial_fit(np.eye(4), Comparisons([[0, 1, 2, 3]], weight=[1, 2])), ValueError,
         "weight must hold one number per comparison"),
        (lambda m: m.partial_fit(np.eye(4), Comparisons([[0, 1, 2, 3], [0]])), ValueError,
         "comparisons must be .* got lines of different lengths"),
        (lambda m: m.set_params(blocks=np.array([2, 2])).partial_fit(np.eye(4), [0, 0, 1, 1]),
         ValueError, "blocks cannot be used with partial_fit"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(use, error, message):
    with pytest.raises(error, match=message):
        use(DuOri(prior="identity", random_state=0).partial_fit(np.eye(4)))


def test_errors_leave_the_estimator_as_it_was():
    model = DuOri(prior="identity", n_triplets=50).partial_fit(X0, Triplets(T0))
    state, metric = model.updating_, model.metric_
    for y, ids, message in [
        (Triplets([[0, 1, 99]]), None, "names a row that X does not have"),
        (Triplets(T0), [1, 2], "ids has 2 names for 60 comparisons"),
        (Triplets(T0), 2.5, "ids must be one name"),
        (Triplets(T0[:2]), [1, 2.5], "ids must be str or int"),
        (Labels(Y0), [1] * 50, "ids must be one name"),
        (None, None, "y is None"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X0, y, ids=ids)
    with pytest.raises(ValueError, match="no comparison has the id 'x'"):
        model.forget(["x"])
    with pytest.raises(ValueError, match="9 features"):
        model.partial_fit(np.ones((3, 9)), Triplets([[0, 1, 2]]))
    assert model.updating_ is state
    assert model.metric_ is metric


def test_what_does_not_go_with_updating():
    with pytest.raises(ValueError, match="call partial_fit first"):
        DuOri().forget("a")
    with pytest.raises(ValueError, match="was fitted by fit"):
        DuOri(n_triplets=50).fit(X0, Y0).partial_fit(X0, Y0)
    with pytest.raises(ValueError, match="lift cannot be used with partial_fit"):
        DuOri(lift="rbf").partial_fit(X0, Y0)
    with pytest.raises(ValueError, match=r"shrinkage=0\.5 can be used with partial_fit only"):
        DuOri(shrinkage=0.5).partial_fit(X0, Y0)
    model = DuOri(prior="identity", n_triplets=50).partial_fit(X0, Y0)
    assert not hasattr(model.fit(X0, Y0), "updating_")


def test_wide_sparse_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random(60, 5000, density=0.01, random_state=0, format="csr")
    X = sp.csr_matrix(X + sp.csr_matrix(np.eye(60, 5000)))
    T = triplets_of(rng.integers(3, size=60), 30)
    model = DuRP(20, prior="identity", distance="cosine", random_state=0)
    model.partial_fit(X, Triplets(T[:10])).partial_fit(X, Triplets(T[10:]))
    assert model.metric_.outside
    exact = DuOri(prior="identity", distance="cosine")
    exact.partial_fit(X, Triplets(T[:10])).partial_fit(X, Triplets(T[10:]))
    batch = DuOri(prior="identity", distance="cosine", **TIGHT).fit(X, Triplets(T))
    np.testing.assert_allclose(
        exact.metric_.pairwise(X[:9]), batch.metric_.pairwise(X[:9]), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_dots_equal_a_product(dtype):
    from dualmetric._arrays import ops

    rng = np.random.default_rng(0)
    Z, columns = rng.standard_normal((4500, 7)).astype(dtype), rng.standard_normal((3, 7))
    found = ops.row_dots(Z, columns)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, Z @ columns.T, rtol=1e-4, atol=1e-5)
