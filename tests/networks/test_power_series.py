"""Series arithmetic against circles, at base points away from zero; autograd through it."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from ebm.networks.series import power_series
from ebm.networks.series.activations import ACTIVATIONS, activation_named
from tests.networks.systems import SMOOTH, complex_function

ORDER = 7
RADIUS = 0.2


def polynomials(seed=0, shape=(5,)):
    """Random polynomials of full degree with a base point off zero."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(0, 0.7, (ORDER + 1, *shape)))


def on_circle(function, *series):
    """Taylor coefficients of function(x(t), …) from values on a circle of complex t."""
    points = 64
    t = RADIUS * np.exp(2j * np.pi * np.arange(points) / points)
    powers = torch.from_numpy(t[:, None] ** np.arange(ORDER + 1))
    values = function(*(torch.tensordot(powers, x.to(powers.dtype), 1) for x in series))
    coefficients = np.fft.fft(values.numpy(), axis=0).real[: ORDER + 1] / points
    scale = RADIUS ** np.arange(ORDER + 1.0)
    return coefficients / scale.reshape(-1, *[1] * (coefficients.ndim - 1))


def close(got, expected):
    """To the accuracy of the circle."""
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)


def test_arithmetic():
    """Product, exponential, logarithms."""
    x, y = polynomials(0), polynomials(1)
    close(power_series.product(x, y), on_circle(lambda a, b: a * b, x, y))
    close(power_series.exp(x), on_circle(torch.exp, x))
    close(
        power_series.gaussian(x),
        on_circle(lambda a: (-a * a / 2).exp() / math.sqrt(2 * math.pi), x),
    )
    high = torch.cat([x[:1].abs() + 2, x[1:]])
    close(power_series.log(high), on_circle(torch.log, high))
    close(power_series.log1p(high), on_circle(lambda a: (1 + a).log(), high))


def test_slopes_of_saturated_units_keep_their_digits():
    """σ(40 + t) = 1 − e^−40 + e^−40 t − …; 1 − σ² alone would be 0."""
    x = torch.tensor([40.0, 1.0, 0.0], dtype=torch.float64)
    q = math.exp(-40)
    np.testing.assert_allclose(power_series.sigmoid(x)[1:], [q, -q / 2], rtol=1e-14)
    x[0] = 20.0
    np.testing.assert_allclose(power_series.tanh(x)[1:], [4 * q, -4 * q], rtol=1e-14)
    plain = torch.tensor([0.5, 1.0, 0.0], dtype=torch.float64)
    y = 1 / (1 + math.exp(-0.5))
    expected = [y, y - y * y, (y - y * y) * (1 - 2 * y) / 2]
    np.testing.assert_allclose(power_series.sigmoid(plain), expected, rtol=1e-15)


@pytest.mark.parametrize("name", [*SMOOTH, "formal_relu"])
def test_activations_along_a_series(name):
    """About any base point."""
    x = polynomials(3)
    close(activation_named(name).along(x), on_circle(complex_function(name), x))


def test_relu_takes_the_side_it_moves_to():
    """At a kink the first order that is not zero decides, for t > 0."""
    x = torch.tensor(
        [[0.0, 0.0, 0.0, -1.0, 2.0], [1.0, -1.0, 0.0, 9.0, -9.0], [5.0, 5.0, -5.0, 5.0, 5.0]]
    )
    expected = [[0, 0, 0, 0, 2], [1, 0, 0, 0, -9], [5, 0, 0, 0, 5]]
    np.testing.assert_array_equal(ACTIVATIONS["relu"].along(x), expected)


def test_composition_with_taylor_coefficients():
    """A series that starts at zero, in a polynomial."""
    x = polynomials(4)
    x[0] = 0
    coefficients = tuple(np.random.default_rng(5).normal(size=ORDER + 1))
    expected = on_circle(lambda a: sum(c * a**n for n, c in enumerate(coefficients)), x)
    close(power_series.composed(coefficients, x), expected)


@pytest.mark.parametrize("name", ["silu", "gelu", "tanh"])
def test_autograd_goes_through(name):
    """Slopes of coefficients by finite differences."""
    x = polynomials(6, (2,))[:5].clone().requires_grad_()
    assert torch.autograd.gradcheck(activation_named(name).along, (x,))
    assert torch.autograd.gradcheck(power_series.log1p, (x.abs(),))
