"""Generating functions against quadrature and enumeration; draws against their cumulants."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr

import ebm
from ebm.errors import CodingError, ModelError, ShapeError
from ebm.units import Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform

REALS = {
    Gaussian(1.3): (-np.inf, np.inf),
    Exponential(2.0): (0, np.inf),
    ReLU(1.3): (0, np.inf),
    Uniform(): (0, 1),
}
FINITE = {Bernoulli(): (0, 1), Spin(): (-1, 1)}
INPUTS = (-7.0, -3.0, -0.11, -0.09, -1e-9, 0.0, 0.05, 0.7, 1.9)
ALL = [*REALS, *FINITE]


def integrals(unit, ends, value):
    """∫ h^k e^{Ih − u(h)} dh for k = 0, 1, 2."""

    def weight(h, k):
        return h**k * np.exp(value * h - float(unit.energy(h)))

    return [quad(weight, *ends, (k,), epsabs=1e-14, epsrel=1e-13)[0] for k in range(3)]


@pytest.mark.parametrize("value", INPUTS)
@pytest.mark.parametrize("unit", REALS, ids=repr)
def test_the_cumulants_of_real_units_are_those_of_quadrature(unit, value):
    total, first, second = integrals(unit, REALS[unit], value)
    mean = first / total
    assert unit.log_partition(value) == pytest.approx(np.log(total), abs=3e-13)
    assert unit.mean(value) == pytest.approx(mean, abs=3e-13)
    assert unit.variance(value) == pytest.approx(second / total - mean**2, abs=3e-13)


@pytest.mark.parametrize("value", INPUTS)
@pytest.mark.parametrize("unit", FINITE, ids=repr)
def test_the_cumulants_of_two_valued_units_are_sums(unit, value):
    values = np.array(FINITE[unit], dtype=float)
    weights = np.exp(value * values)
    mean = weights @ values / weights.sum()
    assert unit.log_partition(value) == pytest.approx(np.log(weights.sum()), rel=1e-14)
    assert unit.mean(value) == pytest.approx(mean, rel=1e-13)
    variance = weights @ (values - mean) ** 2 / weights.sum()
    assert unit.variance(value) == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("unit", ALL, ids=repr)
def test_mean_and_variance_are_derivatives_and_a_lost_factor_is_seen(unit):
    inputs = np.linspace(-4, 1.5, 23)
    errors = []
    for step in (1e-2, 5e-3):
        up, down = unit.log_partition(inputs + step), unit.log_partition(inputs - step)
        slope = (up - down) / (2 * step)
        curve = (unit.mean(inputs + step) - unit.mean(inputs - step)) / (2 * step)
        errors.append(
            (abs(slope - unit.mean(inputs)).max(), abs(curve - unit.variance(inputs)).max())
        )
    # Central differences are of second order: half the step leaves a quarter of the error.
    if max(errors[0]) > 1e-10:
        assert errors[1][0] <= 0.26 * errors[0][0] + 1e-11
        assert errors[1][1] <= 0.26 * errors[0][1] + 1e-11
    assert max(errors[1]) < 1e-3
    if isinstance(unit, Gaussian | ReLU):
        other = dataclasses.replace(unit, precision=1 / unit.precision)
        assert abs(other.mean(inputs) - unit.mean(inputs)).max() > 0.1


@pytest.mark.parametrize(
    ("value", "gamma", "mean", "variance"),
    [
        # 50 digits of an arbitrary-precision computation, rounded.
        (-25.0, -3.2204694748156, 0.039873012057563, 0.0015848414703929),
        (-40.0, -3.6895034805491, 0.024968847207264, 0.00062266837859139),
        (-200.0, -5.2983423649857, 0.0049997500312442, 2.4996250781048e-5),
    ],
)
def test_a_relu_far_below_keeps_its_digits(value, gamma, mean, variance):
    unit = ReLU(1.0)
    x = np.float64(value)
    assert unit.mean(x) == pytest.approx(mean, rel=1e-11)
    assert unit.variance(x) == pytest.approx(variance, rel=1e-9)
    assert unit.log_partition(x) == pytest.approx(gamma, abs=1e-12)
    # What 1 − xr − r² with r by logarithms would leave.
    r = np.exp(-0.5 * x * x - 0.5 * np.log(2 * np.pi) - log_ndtr(x))
    assert abs((1 - x * r - r * r) / variance - 1) > 1e-9


@pytest.mark.parametrize("place", [-30.0])
def test_the_series_of_a_relu_joins_its_formula(place):
    unit = ReLU(1.0)
    around = place * (1 + np.array([1e-12, -1e-12]))
    for function in (unit.mean, unit.variance):
        below, above = function(around)
        assert below == pytest.approx(above, rel=2e-10)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_series_of_a_uniform_unit_joins_its_formula(sign):
    around = sign * 0.1 * (1 + np.array([1e-13, -1e-13]))
    for function in (Uniform().log_partition, Uniform().mean, Uniform().variance):
        above, below = function(around)
        assert above == pytest.approx(below, rel=1e-12)


@pytest.mark.parametrize("unit", ALL, ids=repr)
@pytest.mark.parametrize("value", [-1e30, -1e8, -800.0, -1e-300, 0.0])
def test_nothing_overflows(unit, value):
    inputs = np.array([value, -value if not isinstance(unit, Exponential) else value])
    with np.errstate(divide="raise", invalid="raise"):
        for function in (unit.log_partition, unit.mean, unit.variance):
            assert not np.isnan(function(inputs)).any()
        drawn = unit.quantile(inputs, np.array([1e-16, 1 - 1e-16]))
        assert np.isfinite(drawn).all()


@given(st.floats(-40, 1.9), st.floats(1e-6, 1 - 1e-6))
def test_quantiles_invert_the_distribution(value, probability):
    for unit, (low, high) in REALS.items():
        h = float(unit.quantile(value, probability))
        start = float(unit.mean(value)) - 60 if low < 0 else low
        assert start <= h <= high
        top = min(max(value * h - float(unit.energy(h)), 0.0), 700)

        def weight(x, unit=unit, top=top):
            return np.exp(value * x - float(unit.energy(x)) - top)

        part = quad(weight, start, h, epsabs=0, epsrel=1e-10, limit=200)[0]
        total = np.exp(float(unit.log_partition(value)) - top)
        assert part / total == pytest.approx(probability, abs=1e-7, rel=1e-6)


@pytest.mark.parametrize("value", [-1e4, -302.0, -298.0])
def test_quantiles_of_a_relu_far_below_are_exponential(value):
    drawn = ReLU(4.0).quantile(2 * value, np.array([0.1, 0.5, 0.9]))
    # x = I/√γ: a rate of |x| + 1/|x|, and t²/2 beside it.
    wanted = -np.log1p(-np.array([0.1, 0.5, 0.9])) / (-value * 2)
    np.testing.assert_allclose(drawn, wanted, rtol=5e-5)


@pytest.mark.parametrize("unit", ALL, ids=repr)
@pytest.mark.parametrize("value", [-2.0, 0.0, 1.2])
def test_draws_have_the_mean_and_the_variance(unit, value):
    drawn = unit.sample(np.full(200_000, value), rng=1)
    deviation = np.sqrt(unit.variance(value))
    assert abs(drawn.mean() - unit.mean(value)) < 0.01 * deviation
    assert drawn.var() == pytest.approx(float(unit.variance(value)), rel=0.02)
    np.testing.assert_array_equal(drawn, unit.sample(np.full(200_000, value), rng=1))


def test_units_are_values_and_their_settings_may_be_one_for_each():
    several = Gaussian(np.array([1.0, 2.0]))
    assert several == Gaussian([1.0, 2.0])
    assert hash(several) == hash(Gaussian((1.0, 2.0)))
    assert several != Gaussian(1.0)
    np.testing.assert_array_equal(several.variance([0.0, 0.0]), [1.0, 0.5])
    np.testing.assert_array_equal(Exponential([2.0, 4.0]).mean(np.ones((3, 2)))[1], [1, 1 / 3])
    assert several.scaled(2.0) == Gaussian([2.0, 4.0])
    assert Uniform().scaled(2.0) == Uniform()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Gaussian(0), ModelError, "precision must be positive and finite, got 0"),
        (lambda: ReLU([1, -2]), ModelError, "precision must be positive and finite, got -2"),
        (lambda: Exponential(np.inf), ModelError, "rate must be positive"),
        (lambda: Gaussian([[1.0]]), ShapeError, "a number or one for each unit"),
        (lambda: Exponential(2.0).mean([1.0, 2.5]), ModelError, "one is 0.5 above"),
        (lambda: Exponential(2.0).log_partition(2.0), ModelError, "below its rate"),
        (
            lambda: Uniform().require_values(np.array([0.5, 1.5])),
            CodingError,
            "1.5 where a number from 0 to 1 is wanted",
        ),
        (lambda: Spin().require_values(np.array([0.0])), CodingError, "−1 or 1 is wanted"),
    ],
)
def test_what_does_not_exist_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_bernoulli_is_at_home_in_the_forms_too():
    assert ebm.forms.Bernoulli is Bernoulli
