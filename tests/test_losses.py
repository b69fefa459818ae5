"""Losses: textbook values, conjugates and dual steps, and the compiled root finder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dualmetric._arrays import kernels
from dualmetric.losses import LOSSES, get_loss
from twins import dual_step

NAMES = ["hinge", "smoothed_hinge", "squared_hinge", "logistic"]


def textbook(name, z):
    """ℓ(z) case by case."""
    if name == "hinge":
        return max(0.0, 1.0 - z)
    if name == "smoothed_hinge":
        if z >= 1.0:
            return 0.0
        return 0.5 - z if z <= 0.0 else 0.5 * (1.0 - z) ** 2
    if name == "squared_hinge":
        return max(0.0, 1.0 - z) ** 2
    return np.log(1.0 + np.exp(-z))


def betas(loss, count=41):
    """Points of the dual domain, its ends among them."""
    return np.linspace(0.0, min(loss.upper, 5.0), count)


def maximise(function, low, high):
    """Maximum of a concave function on an interval, its ends included."""
    found = minimize_scalar(
        lambda b: -function(b), bounds=(low, high), method="bounded", options={"xatol": 1e-11}
    )
    points = [low, high, float(found.x)]
    return max(points, key=function)


def test_all_losses_are_tested():
    assert list(LOSSES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_value_is_the_textbook_formula(name):
    z = np.linspace(-8.0, 8.0, 161)
    expected = [textbook(name, float(point)) for point in z]
    np.testing.assert_allclose(get_loss(name).value(z), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_value_is_float64_and_finite_for_large_float32_margins(name):
    value = get_loss(name).value(np.array([-1e15, 0.0, 1e15], dtype=np.float32))
    assert value.dtype == np.float64
    assert np.isfinite(value).all()
    assert value[0] >= 0.999e15
    assert value[2] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_slope_is_the_derivative(name):
    loss, z, h = get_loss(name), np.linspace(-7.95, 7.95, 160), 1e-6  # not at a kink
    difference = (loss.value(z + h) - loss.value(z - h)) / (2 * h)
    np.testing.assert_allclose(loss.slope(z), difference, atol=1e-8, rtol=1e-8)
    assert loss.slope(np.array([-1e15, 1e15], dtype=np.float32))[1] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_conjugate_is_the_supremum(name):
    # ℓ_*(−β) = sup over z of −βz − ℓ(z); at the ends of the logistic's domain the supremum is
    # approached at infinity: −ℓ(60) = −1e−26
    loss = get_loss(name)
    for beta in betas(loss):
        best = maximise(lambda z, beta=beta: -beta * z - textbook(name, z), -60.0, 60.0)
        supremum = -beta * best - textbook(name, best)
        # the bounded search ends at √eps, and at the hinge's kink that is first order
        assert float(loss.conjugate(beta)) == pytest.approx(supremum, abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
@given(z=st.floats(-50.0, 50.0), share=st.floats(0.0, 1.0))
def test_fenchel_young_is_never_negative(name, z, share):
    loss = get_loss(name)
    beta = share * min(loss.upper, 20.0)
    # 1e-12: rounding of terms as large as 20·50
    assert float(loss.value(z) + loss.conjugate(beta)) + beta * z >= -1e-12


@pytest.mark.parametrize("name", NAMES)
def test_fenchel_young_is_zero_at_minus_the_slope(name):
    loss = get_loss(name)
    z = np.array([-3.0, -0.4, 0.25, 0.7, 1.6, 4.0])  # away from the kinks
    h = 1e-6
    slope = (loss.value(z + h) - loss.value(z - h)) / (2 * h)
    # a central difference is wrong by 1e-10 or so, and the term is quadratic in that
    np.testing.assert_allclose(loss.value(z) + loss.conjugate(-slope), slope * z, atol=1e-8)
    off = np.where(-slope > 0.5 * min(loss.upper, 1.0), -slope - 0.1, -slope + 0.1)
    assert (loss.value(z) + loss.conjugate(off) + off * z > 1e-3).all()


@pytest.mark.parametrize("name", NAMES[1:])
def test_slope_changes_at_most_by_the_stated_smoothness(name):
    loss = get_loss(name)
    z = np.linspace(-6.0, 6.0, 2401)
    slope = np.gradient(loss.value(z), z)
    steepest = np.abs(np.diff(slope) / np.diff(z)).max()
    # equality is reached at the centre: a wrong constant fails on one of the two sides
    assert steepest == pytest.approx(1.0 / loss.smoothing, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("curvature", [1e-3, 0.3, 7.0, 200.0])
@pytest.mark.parametrize("margin", [-30.0, -0.5, 0.4, 1.0, 12.0])
def test_dual_step_maximises_the_coordinate(name, margin, curvature):
    loss = get_loss(name)
    for beta in betas(loss, 5):

        def gain(b, beta=beta):
            return float(
                -loss.conjugate(b) - margin * (b - beta) - 0.5 * curvature * (b - beta) ** 2
            )

        top = loss.upper if np.isfinite(loss.upper) else 200.0
        best = maximise(gain, 0.0, top)
        kernel = kernels._dual_value(
            beta, margin, curvature, loss.logistic, loss.smoothing, loss.upper
        )
        for found in (kernel, dual_step(loss, beta, margin, curvature)):
            assert 0.0 <= found <= loss.upper
            assert gain(found) >= gain(best) - 1e-12 * max(1.0, abs(gain(best)))
            # where the objective is flat its maximiser is known to √eps only
            assert found == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("hinge", 1.0), ("smoothed_hinge", 1.0), ("squared_hinge", 2.0), ("logistic", 0.5)],
)
def test_dual_step_of_a_triplet_that_says_nothing(name, expected):
    # A_t = 0: margin and curvature 0, so b maximises −ℓ_*(−b) and equals −ℓ'(0)
    assert dual_step(get_loss(name), 0.0, 0.0, 0.0) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("margin", [-2.0, 0.5, 1.5, 4.0])
@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_dual_step_without_curvature(name, margin, beta):
    # a comparison of equal pairs, whose target is 1 − margin: the loss is already satisfied where
    # the margin is above one
    loss = get_loss(name)
    top = loss.upper if np.isfinite(loss.upper) else 50.0
    best = maximise(lambda b: float(-loss.conjugate(b)) - margin * (b - beta), 0.0, top)
    found = dual_step(loss, beta, margin, 0.0)
    assert found == pytest.approx(best, abs=1e-5)
    kernel = kernels._dual_value(beta, margin, 0.0, loss.logistic, loss.smoothing, loss.upper)
    assert kernel == pytest.approx(found, abs=1e-12)


@settings(max_examples=300)
@given(
    beta=st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e-30, 1.0 - 1e-16])),
    margin=st.floats(-1e4, 1e4),
    exponent=st.floats(-8.0, 8.0),
)
def test_kernel_logistic_root(beta, margin, exponent):
    curvature = 10.0**exponent
    root = kernels._logistic_dual(beta, margin, curvature)
    assert 0.0 <= root <= 1.0
    twin = dual_step(get_loss("logistic"), beta, margin, curvature)
    # both end within an ulp or two of t = log((1−b)/b), |t| ≤ 1e4 + curvature, where |db/dt| ≤ b;
    # with a large curvature the equation itself is rounded at eps·curvature, but then b is steep
    assert root == pytest.approx(twin, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("curvature", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("beta", [0.0, 0.2, 0.999, 1.0])
@pytest.mark.parametrize("margin", [-9.0, 0.0, 5.0])
def test_kernel_logistic_root_solves_its_equation(beta, margin, curvature):
    b = kernels._logistic_dual(beta, margin, curvature)
    assert np.log((1.0 - b) / b) == pytest.approx(
        margin + (b - beta) * curvature, rel=1e-9, abs=1e-9
    )


def test_unknown_loss_lists_the_known_ones():
    with pytest.raises(ValueError, match="got 'exponential'") as error:
        get_loss("exponential")
    for name in NAMES:
        assert name in str(error.value)


def test_logistic_dual_step_is_best_between_flat_stretches():
    """Newton's method alone would go to and fro between the two ends here."""
    from dualmetric._arrays.kernels import _logistic_dual

    for beta, margin, curvature in (
        (0.9999993443489075, 68.3325925143087, 80.72517522703424),
        (2.4762658767940593e-07, -34.1912285356254, 48.613042246232496),
    ):
        found = _logistic_dual(beta, margin, curvature)
        slope = np.log((1 - found) / found) - margin - (found - beta) * curvature
        assert abs(slope) < 1e-6 * curvature
