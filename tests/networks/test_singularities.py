"""Distances of singularities from Taylor coefficients: with their error, or not known."""

import math
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import mpmath
import torch

import ebm.networks
from ebm.errors import SeriesWarning
from ebm.networks.series.activations import ratio_test

#: Function and the modulus of its nearest singularity: poles, branch points, pairs off the axes.
SINGULAR = {
    "tanh": (mpmath.tanh, math.pi / 2),
    "steep tanh": (lambda a: mpmath.tanh(100 * a), math.pi / 200),
    "shifted tanh": (lambda a: mpmath.tanh(a + 0.3), abs(complex(0.3, math.pi / 2))),
    "logistic": (lambda a: 1 / (1 + mpmath.exp(-a)), math.pi),
    "shifted logistic": (lambda a: 1 / (1 + mpmath.exp(-a - 2)), abs(complex(2, math.pi))),
    "silu": (lambda a: a / (1 + mpmath.exp(-a)), math.pi),
    "softplus": (lambda a: mpmath.log(1 + mpmath.exp(a)), math.pi),
    "arctangent": (mpmath.atan, 1),
    "root": (lambda a: mpmath.sqrt(1 + a * a), 1),
    "logarithm": (lambda a: mpmath.log(1 + a / 5), 5),
    "pole of third order": (lambda a: (1 + a * a) ** -3, 1),
}
ENTIRE = {
    "sine": mpmath.sin,
    "exponential": mpmath.exp,
    "gelu": lambda a: a * mpmath.erfc(-a / mpmath.sqrt(2)) / 2,
    "gaussian": lambda a: a * mpmath.exp(-a * a),
    "polynomial": lambda a: a + a**3,
}


def taylor(function, order):
    """c_0 … c_K by 60 digits, those that vanish as zeros."""
    with mpmath.workdps(60):
        found = mpmath.taylor(function, 0, order)
        return [float(c) if abs(c) > 1e-40 else 0.0 for c in found]


@pytest.mark.parametrize("name", SINGULAR)
def test_the_error_covers_the_truth_and_falls(name):
    """At every order; with forty orders it is at most a quarter."""
    function, truth = SINGULAR[name]
    coefficients = taylor(function, 40)
    for order in range(10, 41):
        radius, error = ratio_test(coefficients[: order + 1])
        assert math.isnan(radius) or abs(radius - truth) <= error <= radius / 2, order
    assert error < radius / 4


@pytest.mark.parametrize("name", ENTIRE)
@pytest.mark.parametrize("order", [5, 13, 20, 40])
def test_of_an_entire_function_nothing_is_known(name, order):
    """A finite number of derivatives never says "infinite"."""
    assert not ratio_test(taylor(ENTIRE[name], order)).is_known


def test_few_coefficients_tell_nothing():
    """Below order 10, and where one third of the orders is empty."""
    assert not ratio_test(taylor(mpmath.tanh, 9)).is_known
    assert ratio_test(taylor(mpmath.tanh, 10)).is_known
    assert not ratio_test([0, 1] + 8 * [0] + [1]).is_known


def system_of(activation, steepness=3.0):
    """Two rows ±1, one unit, logits that hardly differ: nothing but σ limits the series."""
    system = ebm.networks.SoftmaxMLPAction([[1.0], [-1.0]], [0, 1], 1, activation=activation)
    U, c, b = np.array([[0.01], [-0.01]]), np.zeros(2), np.zeros(1)
    return system, system.flatten(U, c, np.array([[steepness]]), b)


def own_tanh(derivatives, **settings):
    """A tanh of a user."""
    return ebm.networks.Activation("own tanh", torch.tanh, derivatives, **settings)


TANH = [0, 1, 0, -2, 0, 16, 0, -272, 0, 7936, 0, -353792, 0, 22368256]


@pytest.mark.parametrize("steepness", [0.5, 3.0])
def test_an_own_activation_has_the_radius_of_the_same_one_built_in(steepness):
    """Within its own error, whether t = 1 is inside or not; a warning says that it is estimated."""
    kinds = ["tanh", own_tanh(TANH), own_tanh(ebm.networks.ACTIVATIONS["tanh"].derivatives)]
    found = []
    for kind in kinds:
        system, theta = system_of(kind, steepness)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found.append(system.expand(theta, 12))
        assert len(said) == (steepness > 1)
        if said and kind != "tanh":
            assert "by the activation's derivatives" in str(said[0].message)
    known, listed, called = found
    assert known.bound_error == known.radius_error == 0
    for own in (listed, called):
        assert abs(own.bound - known.bound) <= own.bound_error < own.bound / 4
        assert abs(own.radius - known.radius) <= own.radius_error
    assert called.bound_error < listed.bound_error


def test_t_within_the_error_of_the_radius_may_lie_outside():
    """Neither silence nor certainty."""
    system, theta = system_of(own_tanh(TANH), 1.5)
    with pytest.warns(SeriesWarning, match="t = 1 may lie outside .* at most 1.05 ± 0.2"):
        expansion = system.expand(theta, 3)
    with pytest.warns(SeriesWarning, match="t = 1 may lie outside"):
        expansion.partial_sums()
    expansion.partial_sums(0.5)


def test_a_zero_well_within_a_known_singularity_has_no_error():
    """The error of the singularity does not matter where it is far away."""
    system = ebm.networks.SoftmaxMLPAction([[1.0], [-1.0]], [0, 1], 1, activation=own_tanh(TANH))
    theta = system.flatten([[0.01], [-0.01]], [5.0, 0.0], [[0.1]], [0.0])
    with pytest.warns(SeriesWarning, match="t = 1 lies outside"):
        expansion = system.expand(theta, 3)
    assert expansion.radius == pytest.approx(math.pi / 5, rel=1e-3)
    assert expansion.radius_error == 0 < expansion.bound_error


@pytest.mark.parametrize("derivatives", [TANH[:4], lambda order: TANH[:5][: order + 1]])
def test_a_radius_that_is_not_known_is_not_infinite(derivatives):
    """NaN, and a warning that names the activation; with singularity= there is none."""
    system, theta = system_of(own_tanh(derivatives), 0.5)
    expansion = system.expand(theta, 3)
    assert math.isnan(expansion.bound)
    assert math.isnan(expansion.bound_error)
    with pytest.warns(SeriesWarning, match="unknown: the activation own tanh has no singularity="):
        assert math.isnan(expansion.radius)
    assert math.isnan(expansion.radius_error)
    expansion.partial_sums()
    stated, theta = system_of(own_tanh(derivatives, singularity=math.pi / 2), 0.5)
    assert stated.expand(theta, 3).radius == pytest.approx(math.pi, rel=2e-3)


def test_an_activation_without_a_taylor_series_needs_no_singularity():
    """σ(ta) = t σ(a): its series stops."""
    leaky = ebm.networks.Activation("leaky", lambda a: torch.nn.functional.leaky_relu(a, 0.1))
    system, theta = system_of(leaky)
    assert system.expand(theta, 3).bound == math.inf
