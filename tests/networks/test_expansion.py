"""The series along a ray against derivatives, circles, fits; where it converges."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm.errors import ModelError, SeriesWarning
from ebm.networks.series._radius import RowSum
from ebm.networks.series.activations import activation_named
from tests.networks.systems import (
    SMOOTH,
    circle_coefficients,
    complex_function,
    nested_derivatives,
    shifted_tanh,
    surprise,
    systems,
    with_activation,
)

quiet = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")


@quiet
@pytest.mark.parametrize(
    "activation", ["silu", "gelu", shifted_tanh()], ids=lambda a: getattr(a, "name", a)
)
@settings(max_examples=4)
@given(data=systems(min_classes=3))
def test_coefficients_are_nested_derivatives(activation, data):
    """To order 5, of the definition of S."""
    base, theta, rows = data
    system = with_activation(base, rows, activation)
    blocks = [torch.from_numpy(x) for x in system.unflatten(theta)]
    tensors = [torch.from_numpy(x) for x in rows]
    functions = {"silu": lambda x: x / (1 + torch.exp(-x)), "gelu": _gelu}
    function = functions.get(system.activation.name, system.activation.function)
    expected = nested_derivatives(
        lambda t: surprise(function, *(t * x for x in blocks), *tensors), 5
    )
    np.testing.assert_allclose(
        system.expand(theta, 5).coefficients, expected, rtol=1e-12, atol=1e-12
    )


def _gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


@quiet
@pytest.mark.parametrize("activation", SMOOTH)
@settings(max_examples=4)
@given(data=systems(min_classes=3, scale=0.4))
def test_coefficients_on_a_circle_of_complex_t(activation, data):
    """Order 10 too."""
    base, theta, rows = data
    system = with_activation(base, rows, activation)
    got = system.expand(theta, 10)
    r = 0.4 * min(got.radius, 2.0)
    expected = circle_coefficients(system, theta, rows, 10, r, points=128)
    np.testing.assert_allclose(
        got.coefficients * r ** np.arange(11), expected * r ** np.arange(11), atol=1e-13
    )


@quiet
def test_coefficients_from_a_chebyshev_fit():
    """Order 6 of one system, from real values of S alone, as recorded."""
    rng = np.random.default_rng(5)
    z, labels = rng.normal(size=(12, 3)), np.arange(12) % 3
    system = ebm.networks.SoftmaxMLPAction(z, labels, 4, activation="tanh")
    theta = rng.normal(0, 0.4, system.space.n)
    h = 0.5
    t = h * np.cos(np.pi * (np.arange(30) + 0.5) / 30)
    fit = np.polynomial.chebyshev.chebfit(t / h, system.action(t[:, None] * theta), 24)
    expected = np.polynomial.chebyshev.cheb2poly(fit)[:7] / h ** np.arange(7)
    got = system.expand(theta, 6).coefficients
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-9)
    recorded = [1.098612288669, 0, 0.208288061776, -0.028152747809]
    recorded += [-0.014002571877, -0.001773054119, -0.016915357058]
    np.testing.assert_allclose(got, recorded, rtol=0, atol=1e-12)


@quiet
@pytest.mark.parametrize("activation", ["silu", "relu", "formal_relu", "sigmoid"])
@settings(max_examples=8)
@given(data=systems())
def test_orders_are_homogeneous(activation, data):
    """S_n(2θ) = 2^n S_n(θ)."""
    base, theta, (z, p) = data
    system = ebm.networks.SoftmaxMLPAction(z, p.argmax(1), base.n_hidden, activation=activation)
    once, twice = (system.expand(x * theta, 7).coefficients for x in (1, 2))
    np.testing.assert_allclose(twice, once * 2.0 ** np.arange(8), rtol=1e-11, atol=1e-13)


@quiet
def test_higher_orders_leave_lower_ones_alone():
    """Truncation is exact, from order 0 on."""
    rng = np.random.default_rng(0)
    for activation in ("silu", "relu", "sigmoid", shifted_tanh()):
        system = ebm.networks.SoftmaxMLPAction(
            rng.normal(size=(9, 2)), np.arange(9) % 3, 3, activation=activation
        )
        theta = rng.normal(size=system.space.n)
        full = system.expand(theta, 9).coefficients
        for order in range(9):
            got = system.expand(theta, order).coefficients
            np.testing.assert_allclose(got, full[: order + 1], rtol=1e-13, atol=1e-15)


@quiet
@settings(max_examples=6)
@given(data=systems())
def test_gradients_of_the_orders(data):
    """Σ_i θ_i ∂S_n/∂θ_i = n S_n, and finite differences along another direction."""
    system, theta, _ = data
    rng = np.random.default_rng(len(theta))
    leaf = torch.tensor(theta, requires_grad=True)
    coefficients = system.expand(leaf, 4).coefficients
    values = coefficients.detach().numpy()
    other = rng.normal(size=len(theta))
    step = 1e-4
    ends = [system.expand(theta + x * other, 4).coefficients for x in (step, -step)]
    for n in range(1, 5):
        (slope,) = torch.autograd.grad(coefficients[n], leaf, retain_graph=True)
        euler = n * values[n]
        assert float(slope @ torch.from_numpy(theta)) == pytest.approx(euler, rel=1e-10, abs=1e-12)
        expected = (ends[0][n] - ends[1][n]) / (2 * step)
        assert float(slope @ torch.from_numpy(other)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def brute_radius(action, theta, z, limit):
    """Smallest |t| of a zero, by Newton steps from every point of a polar grid."""
    function = complex_function(action.activation.name)
    U, c, W, b = (torch.from_numpy(x).to(torch.complex128) for x in action.unflatten(theta))
    a = torch.from_numpy(z).to(torch.complex128) @ W.T + b

    def total(t, row):
        f = t[..., None] * (function(t[..., None] * a[row]) @ U.T + c)
        return torch.exp(f - f.mean(-1, keepdim=True)).sum(-1)

    radii = limit * (1 - np.geomspace(1e-3, 0.98, 60))
    start = torch.from_numpy(radii[:, None] * np.exp(1j * np.linspace(0, np.pi, 60)))
    smallest = math.inf
    for row in range(len(z)):
        t = start.clone()
        for _ in range(40):
            slope = (total(t + 1e-6, row) - total(t - 1e-6, row)) / 2e-6
            t = t - total(t, row) / slope
        found = t.abs()[(total(t, row).abs() < 1e-9)]
        smallest = min([smallest, *found.tolist()])
    return smallest


@quiet
@pytest.mark.parametrize("activation", ["silu", "tanh", "gelu", "identity"])
def test_radius_is_the_nearest_zero(activation):
    """Winding numbers against Newton steps from everywhere."""
    rng = np.random.default_rng(3)
    z, labels = rng.normal(size=(3, 2)), np.array([0, 1, 2])
    system = ebm.networks.SoftmaxMLPAction(z, labels, 3, activation=activation)
    U, c, W, b = system.unflatten(rng.normal(0, 1.5, system.space.n))
    # Poles far away: Newton steps do not find zeros among the crowd around one.
    theta = system.flatten(2 * U, c, W / 3, b / 3)
    expansion = system.expand(theta, 3)
    assert expansion.radius < 0.9 * expansion.bound
    limit = min(expansion.bound, 1.5 * expansion.radius)
    with np.errstate(all="ignore"):
        nearest = brute_radius(system, theta, z, limit)
    assert expansion.radius == pytest.approx(nearest, rel=2e-3)


def test_radius_from_high_orders():
    """|S_n|^{1/n} tends to 1/R; the bound by singularities alone is too large."""
    rng = np.random.default_rng(2)
    z, labels = rng.normal(size=(2, 2)), np.array([0, 1])
    system = ebm.networks.SoftmaxMLPAction(z, labels, 3)
    theta = rng.normal(0, 1.0, system.space.n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeriesWarning)
        expansion = system.expand(theta, 150)
    n = np.arange(60, 151)
    root = np.max(np.abs(expansion.coefficients[60:]) ** (1 / n))
    assert 1 / root == pytest.approx(expansion.radius, rel=0.08)
    assert expansion.radius < 0.95 * expansion.bound


def test_known_radii():
    """Biases of two classes: a zero at iπ/Δc. Units that no class tells apart are left out."""
    system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], 2)
    theta = system.flatten(np.zeros((2, 2)), np.array([4.0, -1.0]), np.ones((2, 1)), np.ones(2))
    assert ebm.networks.ray_radius(system, theta) == pytest.approx(math.pi / 5, rel=1e-5)
    with pytest.warns(SeriesWarning, match="t = 1 lies outside the radius"):
        assert system.expand(theta, 2).bound == math.inf
    same = system.flatten(np.ones((2, 2)), np.zeros(2), np.full((2, 1), 99.0), np.ones(2))
    expansion = system.expand(same, 2)
    assert expansion.bound == expansion.radius == math.inf
    one = np.array([[1.0, 0.0], [1.0, 1e-9]])
    mixed = system.flatten(one, np.zeros(2), np.array([[99.0], [3.0]]), np.zeros(2))
    with pytest.warns(SeriesWarning, match=r"at most 0\.524"):
        expansion = system.expand(mixed, 2)
    assert expansion.bound == pytest.approx(math.pi / 6)
    assert expansion.radius == pytest.approx(math.pi / 6, rel=2e-3)
    U, c, W, b = system.unflatten(mixed)
    with pytest.warns(SeriesWarning, match=r"at most 0\.524"):
        assert system.expand(system.flatten(U, c, -W, b), 2).bound == pytest.approx(math.pi / 6)


def test_warning_only_outside():
    """Inside nothing is said; the partial sums then close in on S, outside they do not."""
    rng = np.random.default_rng(1)
    system = ebm.networks.SoftmaxMLPAction(rng.normal(size=(9, 2)), np.arange(9) % 3, 4)
    theta = rng.normal(0, 1, system.space.n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeriesWarning)
        radius = system.expand(theta, 2).radius
    assert radius < 1
    with pytest.warns(SeriesWarning, match="outside the radius of convergence"):
        outside = system.expand(theta * 1.5 * radius, 30)
    inside = system.expand(theta * 0.5 * radius, 30)
    exact = float(system.action(theta * 0.5 * radius))
    assert inside.partial_sums()[-1] == pytest.approx(exact, abs=1e-8)
    with pytest.warns(SeriesWarning, match="t = 2.5 lies outside"):
        inside.partial_sums(2.5)
    with pytest.warns(SeriesWarning):
        sums = outside.partial_sums()
    assert abs(sums[-1] - float(system.action(theta * 1.5 * radius))) > 1


@pytest.mark.parametrize("name", SMOOTH)
def test_winding_numbers_see_a_zero_inside_and_none_outside(name):
    """Between circles just within and just beyond the zero found."""
    rng = np.random.default_rng(4)
    row = RowSum(
        rng.normal(size=(3, 2)), rng.normal(size=3), np.array([0.7, -0.4]), activation_named(name)
    )
    limit = activation_named(name).singularity / 0.7
    radius = row.first_zero(limit)
    assert 0 < radius < limit
    assert row.has_zero(radius * 1.001)
    assert not row.has_zero(radius * 0.999)


def test_a_users_own_activation():
    """sin: series from its Taylor coefficients, radius from complex tensors, named errors."""
    sine = ebm.networks.Activation("sin", torch.sin, [0, 1, 0, -1, 0, 1], None, math.inf)
    rng = np.random.default_rng(0)
    system = ebm.networks.SoftmaxMLPAction(
        rng.normal(size=(6, 2)), np.arange(6) % 2, 3, activation=sine
    )
    theta = rng.normal(0, 0.3, system.space.n)
    expansion = system.expand(theta, 6)
    errors = [
        abs(expansion.partial_sums(t)[-1] - float(system.action(t * theta))) for t in (0.5, 1.0)
    ]
    assert min(errors) > 1e-13
    assert math.log2(errors[1] / errors[0]) > 6.7
    assert 1 < expansion.radius < 100
    with pytest.raises(ModelError, match=r"activation sin must be s_0 … s_6, all finite"):
        system.expand(theta, 7)
    bessel = [1, 0, 1 / 2, 0, 3 / 8]
    real = ebm.networks.Activation("real", torch.special.i0, bessel, None, math.inf)
    other = ebm.networks.SoftmaxMLPAction(
        rng.normal(size=(6, 2)), np.arange(6) % 2, 3, activation=real
    )
    # Only the radius needs complex values.
    assert other.expand(9 * theta, 3).coefficients.shape == (4,)
    with pytest.raises(ModelError, match="activation real needs continuation="):
        ebm.networks.ray_radius(other, theta)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"function": "relu"}, "function of the activation mine must map tensors: 'str'"),
        ({"function": np.sin}, "function of the activation mine must map tensors"),
        ({"function": lambda a: 1 / 0}, "mine must map tensors: division by zero"),
        ({"function": lambda a: {}[0]}, "mine must map tensors: 0"),
        ({"function": torch.sin_}, "function of the activation mine must map tensors"),
        ({"function": math.sin}, "function of the activation mine must map tensors"),
        ({"function": torch.sum}, "must map each element of a tensor by itself"),
        ({"function": lambda a: a.softmax(-1)}, "must map each element of a tensor by itself"),
        ({"function": torch.log}, "to a finite number of the same dtype"),
        ({"function": lambda a: a.float()}, "to a finite number of the same dtype"),
        ({"derivatives": None}, "the activation mine needs derivatives="),
        ({"derivatives": 1.0}, "derivatives must be numbers s_0, s_1, … or a function, got 1.0"),
        ({"derivatives": "0101"}, "derivatives must hold numbers, got text"),
        ({"derivatives": [0, 1j, 0]}, "derivatives must hold real numbers"),
        ({"derivatives": [0, math.nan, 0]}, "must be s_0 … s_2, all finite"),
        ({"singularity": -1}, "singularity must be positive, got -1"),
        ({"singularity": math.nan}, "singularity must be positive, got nan"),
        ({"singularity": "far"}, "singularity must hold numbers, got text"),
    ],
)
def test_bad_activations(settings, match):
    """Named where they are made, or where their coefficients are asked for."""
    given = {"name": "mine", "function": torch.sin, "derivatives": [0, 1, 0], **settings}
    with pytest.raises(ModelError, match=match):
        ebm.networks.Activation(**given).coefficients(2)


@pytest.mark.parametrize("kind", [np.array, np.float32, torch.tensor, tuple])
def test_derivatives_are_numbers_of_any_type(kind):
    values = [0.0, 1.0, 0.0, -1.0]
    given = [kind(s) for s in values] if kind is np.float32 else kind(values)
    mine = ebm.networks.Activation("mine", torch.sin, given)
    assert mine.coefficients(3) == (0, 1, 0, -1 / 6)


@pytest.mark.parametrize("activation", [*SMOOTH, "relu", "formal_relu"])
def test_the_radius_scales_with_theta(activation):
    """R(xθ) = R(θ)/x at any size; without logits nothing limits the series."""
    rng = np.random.default_rng(8)
    system = ebm.networks.SoftmaxMLPAction(
        rng.normal(size=(6, 2)), np.arange(6) % 3, 3, activation=activation
    )
    theta = rng.normal(size=system.space.n)
    radius = ebm.networks.ray_radius(system, theta)
    for x in (1e-100, 1e-5, 1e30):
        assert ebm.networks.ray_radius(system, x * theta) * x == pytest.approx(radius, rel=1e-5)
    U, c, W, b = system.unflatten(theta)
    assert ebm.networks.ray_radius(system, system.flatten(0 * U, 0 * c, W, b)) == math.inf
    if activation not in ("sigmoid", "softplus"):
        assert ebm.networks.ray_radius(system, system.flatten(U, 0 * c, 0 * W, 0 * b)) == math.inf


@pytest.mark.parametrize("t", [math.nan, math.inf, 1e200, -1e200])
@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_partial_sums_where_powers_overflow(t, kind):
    system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=2)
    expansion = system.expand(kind([0.1] * system.space.n), 4)
    with pytest.raises(ModelError, match=r"t must be finite, and so must t\*\*4, got"):
        expansion.partial_sums(t)
    for wrong, message in (("1", "got text"), (None, "got None"), (1j, "got complex")):
        with pytest.raises(ModelError, match=message):
            expansion.partial_sums(wrong)


@pytest.mark.parametrize("name", [*SMOOTH, "formal_relu"])
def test_taylor_coefficients_of_the_activations(name):
    """Against circles in the complex plane, order 0 to 12; [ACT]'s for SiLU."""
    r, points = 1.0, 128
    t = r * torch.exp(2j * math.pi * torch.arange(points, dtype=torch.float64) / points)
    values = complex_function(name)(t).numpy()
    expected = (np.fft.fft(values).real / points)[:13] / r ** np.arange(13)
    np.testing.assert_allclose(activation_named(name).coefficients(12), expected, atol=1e-14)
    np.testing.assert_allclose(
        activation_named(name).on_ray(t.numpy(), np.array([1.0]))[:, 0], values, rtol=1e-12
    )
    long = np.array(activation_named(name).coefficients(300))
    assert np.isfinite(long).all()
    if name == "silu":
        assert [float(s) for s in activation_named(name).derivatives(4)] == [0, 0.5, 0.5, 0, -0.5]


@pytest.mark.parametrize("order", range(4))
def test_short_coefficients(order):
    """As many as asked for."""
    for name in [*SMOOTH, "formal_relu"]:
        assert len(activation_named(name).coefficients(order)) == order + 1


def test_softplus_has_no_threshold():
    """torch replaces it by a above 20."""
    a = torch.tensor([-800.0, -30.0, 0.0, 21.0, 35.0, 1e30], dtype=torch.float64)
    wanted = np.logaddexp(a.numpy(), 0)
    np.testing.assert_allclose(activation_named("softplus").function(a), wanted, rtol=1e-15)


@pytest.mark.parametrize("seed", [4, 5, 13, 29, 1322])
def test_turns_between_two_points_are_not_missed(seed):
    """A sum can turn round between two points that look alike; single phases tell."""
    rng = np.random.default_rng(seed)
    row = RowSum(
        3 * rng.normal(size=(3, 4)),
        3 * rng.normal(size=3),
        rng.normal(size=4),
        activation_named("tanh"),
    )
    radius = 0.45 * math.pi / abs(row.a).max()
    circle = radius * np.exp(1j * np.linspace(0, 2 * math.pi, 40_001))
    values = np.exp(row.logits(circle)).sum(1)
    turns = np.angle(values[1:] / values[:-1])
    assert abs(turns).max() < 0.1
    assert row.has_zero(radius) == (round(turns.sum() / (2 * math.pi)) != 0)


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (torch.sin, [5, 1, 0, -1]),
        (torch.sin, [0, 1, 0, -1 / 6]),
        (torch.sin, [0, 1, 0, -1, 0.1]),
        (torch.sin, [0, 1.001]),
        (lambda a: torch.sin(1000 * a), [0, 1000, 0, 1e9]),
        (torch.nn.functional.softsign, [0, 1, -2, 6]),
        (torch.exp, lambda order: [1, 1, 1, 2, 1, 1][: order + 1]),
    ],
)
def test_derivatives_of_another_function(function, derivatives):
    """Those divided by k!, of one side only, or simply wrong ones."""
    with pytest.raises(ModelError, match=r"derivatives of the activation other must be those of"):
        ebm.networks.Activation("other", function, derivatives)


@pytest.mark.parametrize("scale", [1e-6, 1, 30, 1e6])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 9])
def test_derivatives_of_the_function_itself(scale, length):
    signs = [0, 1, 0, -1] * 3
    derivatives = [scale**k * sign for k, sign in enumerate(signs)][:length]
    sine = ebm.networks.Activation("sine", lambda a: torch.sin(scale * a), derivatives)
    assert sine.coefficients(length - 1)[-1] == derivatives[-1] / math.factorial(length - 1)
