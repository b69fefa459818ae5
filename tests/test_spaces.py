"""Where the dual problem is solved: projections, components and the span of the rows."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from dualmetric import spaces
from dualmetric._arrays import system
from makers import as_kind
from twins import positive_semidefinite, random_comparisons, weighted_sum

PRECISION = {np.float32: 2e-5, np.float64: 1e-12}


@pytest.fixture(name="X")
def _rows(rng):
    """40 rows of 12 features, a third of them zero, none of mean zero."""
    return (rng.normal(size=(40, 12)) + 2.0) * (rng.random((40, 12)) < 0.67)


every_kind = pytest.mark.parametrize("kind", ["dense", "csr", "csr_array"])
both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


class TestRandomProjection:
    @both_precisions
    def test_entries_are_normal_with_variance_one_over_m(self, rng, dtype):
        m, d = 50, 2000
        _, R = spaces.random_projection(np.zeros((3, d), dtype=dtype), m, rng)
        assert R.shape == (d, m)
        assert R.dtype == dtype
        scaled = R.astype(np.float64).ravel() * np.sqrt(m)
        count = scaled.size
        # five standard errors: of the mean 1/√count, of the square √2, of the fourth power √96
        assert abs(scaled.mean()) < 5 * np.sqrt(1 / count)
        assert abs((scaled**2).mean() - 1.0) < 5 * np.sqrt(2 / count)
        assert abs((scaled**4).mean() - 3.0) < 5 * np.sqrt(96 / count)
        # columns and rows are independent: the correlation of neighbours is zero
        unit = scaled.reshape(d, m)
        assert abs((unit[:, 1:] * unit[:, :-1]).mean()) < 5 / np.sqrt(count)
        assert abs((unit[1:] * unit[:-1]).mean()) < 5 / np.sqrt(count)

    @both_precisions
    @every_kind
    def test_rows_are_projected_and_centred(self, X, dtype, kind):
        X = X.astype(dtype)
        Z, R = spaces.random_projection(as_kind(X, kind), 5, np.random.default_rng(4))
        expected = X.astype(np.float64) @ R
        np.testing.assert_allclose(
            Z, expected - expected.mean(axis=0), rtol=0, atol=10 * PRECISION[dtype]
        )
        assert type(Z) is np.ndarray
        assert Z.dtype == dtype
        assert Z.flags.c_contiguous
        np.testing.assert_allclose(Z.sum(axis=0), 0.0, atol=100 * PRECISION[dtype])

    def test_length_is_kept_on_average(self, rng):
        m, draws = 5, 800
        x = rng.normal(size=7)
        rows = np.stack([x, np.zeros(7)])
        lengths = []
        for _ in range(draws):
            Z, _ = spaces.random_projection(rows, m, rng)
            lengths.append(((Z[0] - Z[1]) ** 2).sum())
        # m‖Rᵀx‖²/‖x‖² is χ² with m degrees of freedom; their sum has m·draws: five deviations
        assert np.mean(lengths) / (x @ x) == pytest.approx(1.0, abs=5 * np.sqrt(2 / (m * draws)))
        assert np.var(lengths) / (x @ x) ** 2 == pytest.approx(2 / m, rel=0.5)

    def test_seed_decides_and_precision_does_not(self, X):
        first, again, other, single = (
            spaces.random_projection(X.astype(dtype), 3, np.random.default_rng(seed))[1]
            for dtype, seed in ((float, 1), (float, 1), (float, 2), (np.float32, 1))
        )
        np.testing.assert_array_equal(first, again)
        assert not np.isclose(first, other).any()
        np.testing.assert_allclose(single, first, rtol=3e-7)


class TestPrincipalComponents:
    @every_kind
    @both_precisions
    @pytest.mark.parametrize("m", [1, 4, 11])
    def test_spans_what_pca_finds(self, X, dtype, kind, m):
        B = spaces.principal_components(as_kind(X.astype(dtype), kind), m, seed=0)
        assert B.shape == (12, m)
        assert B.dtype == dtype
        assert B.flags.c_contiguous
        expected = PCA(n_components=m, svd_solver="full").fit(X).components_
        # a projector is unique where the columns' signs are not. Its error is that of the
        # eigenvectors: rounding over the gaps between variances, some 0.1 here
        tolerance = 1e-3 if dtype == np.float32 else 1e-10
        np.testing.assert_allclose(B @ B.T, expected.T @ expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(B.T @ B, np.eye(m), rtol=0, atol=PRECISION[dtype])

    @every_kind
    def test_all_components_of_a_tall_matrix(self, X, kind):
        B = spaces.principal_components(as_kind(X, kind), 100, seed=0)
        np.testing.assert_allclose(B @ B.T, np.eye(12), rtol=0, atol=1e-12)

    @every_kind
    @pytest.mark.parametrize("m", [12, 40])
    def test_all_components_of_a_wide_matrix(self, X, kind, m):
        wide = X.T.copy()
        B = spaces.principal_components(as_kind(wide, kind), m, seed=0)
        assert 11 <= B.shape[1] <= 12  # twelve centred rows have eleven
        centred = wide - wide.mean(axis=0)
        np.testing.assert_allclose(centred @ B @ B.T, centred, rtol=0, atol=1e-10)

    @every_kind
    def test_mapped_rows_are_the_scores(self, X, kind):
        rows = as_kind(X, kind)
        Z = spaces.mapped(rows, spaces.principal_components(rows, 3, seed=0))
        scores = PCA(n_components=3, svd_solver="full").fit_transform(X)
        np.testing.assert_allclose(np.abs(Z), np.abs(scores), rtol=0, atol=1e-9)


def row_span(rows):
    """Coordinates and basis; the basis is returned as the W of E = XᵀW."""
    F, W = spaces.row_span(rows)
    return F, np.asarray(rows.T @ W)


class TestRowSpan:
    @every_kind
    @both_precisions
    def test_rotates_exactly(self, rng, dtype, kind):
        wide = rng.normal(size=(15, 900)) * (rng.random((15, 900)) < 0.3)
        wide[:, 7] = 3.0  # a constant feature
        wide[11] = wide[4]  # rows that are equal
        wide[12] = wide[4]
        wide = wide.astype(dtype)
        F, E = row_span(as_kind(wide, kind))
        tolerance = PRECISION[dtype]
        assert F.dtype == E.dtype == dtype
        assert F.shape == (15, 12)  # 13 rows that differ span 12 dimensions about their mean
        assert E.shape == (900, 12)
        np.testing.assert_allclose(E.T @ E, np.eye(12), rtol=0, atol=tolerance)
        wide64 = wide.astype(np.float64)
        np.testing.assert_allclose(
            pdist(F.astype(np.float64)), pdist(wide64), rtol=tolerance, atol=10 * tolerance
        )
        np.testing.assert_allclose(
            F, (wide64 - wide64.mean(axis=0)) @ E, rtol=0, atol=50 * tolerance
        )
        np.testing.assert_allclose(E[7], 0.0, atol=tolerance)

    @both_precisions
    def test_keeps_digits_under_a_large_mean(self, rng, dtype):
        wide = (rng.normal(size=(10, 400)) + 100.0).astype(dtype)
        F, E = row_span(wide)
        assert F.shape == (10, 9)
        # storing 100 costs a hundred times the precision
        np.testing.assert_allclose(E.T @ E, np.eye(9), rtol=0, atol=100 * PRECISION[dtype])
        np.testing.assert_allclose(
            pdist(F.astype(np.float64)), pdist(wide.astype(np.float64)), rtol=PRECISION[dtype]
        )

    @every_kind
    def test_rows_that_do_not_differ(self, kind):
        F, E = row_span(as_kind(np.full((4, 9), 0.5), kind))
        np.testing.assert_array_equal(F, np.zeros((4, 1)))
        np.testing.assert_array_equal(E, np.zeros((9, 1)))

    @every_kind
    def test_metric_learned_there_is_the_metric(self, rng, kind):
        wide = rng.normal(size=(12, 60)) * (rng.random((12, 60)) < 0.5)
        index, weight = random_comparisons(12, 30, rng), rng.random(30)
        F, E = row_span(as_kind(wide, kind))
        there = E @ positive_semidefinite(weighted_sum(F, index, weight)) @ E.T
        expected = positive_semidefinite(weighted_sum(wide, index, weight))
        np.testing.assert_allclose(there, expected, rtol=0, atol=1e-11)

    @every_kind
    def test_small_directions_are_kept(self, rng, kind):
        # directions down to 1e-5 of the longest: 1e-10 of the largest eigenvalue
        turn, _ = np.linalg.qr(rng.normal(size=(14, 14)))
        basis, _ = np.linalg.qr(rng.normal(size=(300, 14)))
        wide = (turn * np.geomspace(1.0, 1e-5, 14)) @ basis.T
        F, E = row_span(as_kind(wide, kind))
        assert F.shape == (14, 13)
        np.testing.assert_allclose(E.T @ E, np.eye(13), rtol=0, atol=1e-4)
        centred = wide - wide.mean(axis=0)
        # every direction of the rows, the smallest too, is in the span
        np.testing.assert_allclose(centred @ E @ E.T, centred, rtol=0, atol=1e-9)
        sizes = np.linalg.svd(F, compute_uv=False)
        expected = np.linalg.svd(centred, compute_uv=False)[:13]
        np.testing.assert_allclose(sizes, expected, rtol=1e-4)


class TestOriginal:
    @every_kind
    @both_precisions
    def test_is_the_rows_centred(self, X, dtype, kind):
        rows = as_kind(X.astype(dtype), kind)
        Z = spaces.original(rows)
        assert type(Z) is np.ndarray
        assert Z.dtype == dtype
        assert Z.flags.c_contiguous
        np.testing.assert_allclose(Z, X - X.mean(axis=0), rtol=0, atol=10 * PRECISION[dtype])

    def test_user_array_is_left_alone(self, X):
        before = X.copy()
        spaces.original(X)
        np.testing.assert_array_equal(X, before)

    @every_kind
    def test_refuses_what_does_not_fit_in_memory(self, X, kind, monkeypatch):
        # four arrays like Z and three 12·12 matrices, eight bytes each
        need = (4 * 40 * 12 + 3 * 12 * 12) * 8
        monkeypatch.setattr(system, "available_memory", lambda: need - 1)
        with pytest.raises(ValueError, match=r"all 12 dimensions of 40 rows needs 18\.8 kB.*DuRP"):
            spaces.original(as_kind(X, kind))
        monkeypatch.setattr(system, "available_memory", lambda: need)
        assert spaces.original(as_kind(X, kind)).shape == (40, 12)
        monkeypatch.setattr(system, "available_memory", lambda: None)
        assert spaces.original(as_kind(X, kind)).shape == (40, 12)
