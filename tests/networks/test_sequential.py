"""The series of any network against differentiation, fits and the one-hidden-layer route."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm.errors import CodingError, MissingValueError, ModelError, ShapeError
from ebm.networks.series import sequential
from tests.networks.systems import nested_derivatives

nn = torch.nn
LABELS = torch.tensor([0, 2, 1, 1, 2, 0, 2])


def network(*layers, seed=0):
    """A double network whose parameters are all drawn."""
    built = nn.Sequential(*layers).double()
    generator = torch.Generator().manual_seed(seed)
    for p in built.parameters():
        p.data = 0.5 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
    return built


def rows(e=3):
    """Seven rows."""
    return torch.randn(7, e, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def flat(built):
    """Its parameters as one vector, without a graph."""
    return torch.cat([p.detach().reshape(-1) for p in built.parameters()])


def along(built, base, direction, t):
    """S(base + tΔ) by running the network itself."""
    theta, end, values = base + t * direction, 0, {}
    for name, p in built.named_parameters():
        values[name] = theta[end : end + p.numel()].view_as(p)
        end += p.numel()
    logits = torch.func.functional_call(built, values, (rows(),))
    return nn.functional.cross_entropy(logits, LABELS)


def fitted(built, base, direction, order, h=0.1):
    """Coefficients through a Chebyshev fit on −h … h."""
    t = h * np.cos(np.pi * (np.arange(24) + 0.5) / 24)
    values = [float(along(built, base, direction, x).detach()) for x in t]
    fit = np.polynomial.chebyshev.chebfit(t / h, values, 16)
    return np.polynomial.chebyshev.cheb2poly(fit)[: order + 1] / h ** np.arange(order + 1)


DEEP = [
    lambda: (nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 3)),
    lambda: (nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 3)),
    lambda: (nn.Linear(3, 4, bias=False), nn.Softplus(beta=2), nn.Linear(4, 3, bias=False)),
    lambda: (nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 4), nn.GELU("tanh"), nn.Linear(4, 3)),
    lambda: (
        nn.Sequential(nn.Linear(3, 4), nn.SiLU()),
        nn.Dropout(0.0),
        nn.Linear(4, 3),
        nn.Identity(),
    ),
    lambda: (nn.Linear(3, 3),),
]


@pytest.mark.parametrize("layers", DEEP)
@pytest.mark.parametrize("at", ["zero", "elsewhere"])
def test_coefficients_from_a_fit(layers, at):
    """Any depth, about zero and about another point, in another direction."""
    built = network(*layers())
    own, base = flat(built), torch.zeros_like(flat(built))
    if at == "zero":
        got = ebm.networks.series(built, rows(), LABELS, 5)
        direction = own
    else:
        base, direction = own, flat(network(*layers(), seed=1))
        got = ebm.networks.series(built, rows(), LABELS, 5, base=base, direction=direction)
    expected = fitted(built, base, direction, 5)
    errors = np.abs(got.detach().numpy() - expected)
    assert (errors < 1e-12 * 10.0 ** np.arange(6) * 3).all(), errors


def test_coefficients_are_nested_derivatives():
    """Order 4 about another base point, through two hidden layers."""
    built = network(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    base, direction = flat(built), flat(network(*DEEP[1](), seed=2))[: flat(built).numel()]
    values = nested_derivatives(lambda t: along(built, base, direction, t), 4)
    got = ebm.networks.series(built, rows(), LABELS, 4, base=base, direction=direction)
    np.testing.assert_allclose(got.detach(), values, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
@pytest.mark.parametrize(
    ("name", "layer"),
    [("silu", nn.SiLU), ("relu", nn.ReLU), ("sigmoid", nn.Sigmoid), ("gelu", nn.GELU)],
)
def test_one_hidden_layer_is_the_action(name, layer):
    """The general recurrences and the quick route, to order 8."""
    built = network(nn.Linear(3, 4), layer(), nn.Linear(4, 3))
    system = ebm.networks.SoftmaxMLPAction(rows(), LABELS, 4, activation=name)
    W, b, U, c = (p.detach() for p in built.parameters())
    expected = system.expand(system.flatten(U, c, W, b), 8).coefficients
    got = ebm.networks.series(built, rows(), LABELS, 8)
    np.testing.assert_allclose(got.detach(), expected, rtol=1e-11, atol=1e-13)


def test_the_series_arrives_at_the_network():
    """base alone: t = 1 is the network as it is."""
    built = network(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    own = flat(built)
    base = own + 0.02 * flat(network(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3), seed=3))
    got = ebm.networks.series(built, rows(), LABELS, 6, base=base).sum()
    assert float(got.detach()) == pytest.approx(
        float(along(built, own, 0 * own, 0).detach()), abs=1e-9
    )
    named = {}
    for (name, p), part in zip(
        built.named_parameters(), base.split([p.numel() for p in built.parameters()]), strict=True
    ):
        named[name] = part.view_as(p)
    again = ebm.networks.series(built, rows(), LABELS, 6, base=named).sum()
    assert float(again.detach()) == float(got.detach())


def test_gradients_of_the_series(monkeypatch):
    """Through base, direction and the parameters; block by block the same."""
    built = network(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 3))
    base, direction = (torch.randn(31, dtype=torch.float64) * 0.3 for _ in range(2))
    base.requires_grad_()
    direction.requires_grad_()

    def total(x, y):
        return ebm.networks.series(built, rows(), LABELS, 3, base=x, direction=y)

    assert torch.autograd.gradcheck(total, (base, direction))
    whole = torch.autograd.grad(total(base, direction).sum(), (base, direction))
    monkeypatch.setattr(sequential, "BLOCK_BYTES", 2 * 4 * 4 * 8)
    parts = torch.autograd.grad(total(base, direction).sum(), (base, direction))
    for x, y in zip(whole, parts, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-14)
    ebm.networks.series(built, rows(), LABELS, 3)[2].backward()
    euler = sum((p.grad * p).sum() for p in built.parameters())
    got = ebm.networks.series(built, rows(), LABELS, 3)[2]
    assert float(euler.detach()) == pytest.approx(2 * float(got.detach()), rel=1e-10)


def test_layers_that_come_twice():
    """The same activation, the same weights: each place counts."""
    tanh, shared = nn.Tanh(), nn.Linear(3, 3)
    for layers in (
        (nn.Linear(3, 4), tanh, nn.Linear(4, 4), tanh, nn.Linear(4, 3)),
        (shared, tanh, shared, tanh, shared),
        (nn.Linear(3, 3), nn.Sequential(tanh, shared), nn.Sequential(tanh, shared)),
    ):
        built = network(*layers)
        base, direction = flat(built), flat(network(*layers, seed=1))
        built = network(*layers)
        got = ebm.networks.series(built, rows(), LABELS, 5, base=base, direction=direction)
        expected = fitted(built, base, direction, 5)
        errors = np.abs(got.detach().numpy() - expected)
        assert (errors < 1e-12 * 10.0 ** np.arange(6) * 3).all(), errors


class Doubled(nn.Linear):
    """Its name and its parameters are those of a Linear layer."""

    def forward(self, x):
        return 2 * super().forward(x)


class Paired(nn.Sequential):
    """Not what its layers say."""

    def forward(self, x):
        return super().forward(super().forward(x))


class Scaled(nn.Module):
    """A rule that leaves its parameter where it is."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def power_series(self, x):
        return self.scale * x


def hooked():
    """A layer that someone watches, and changes."""
    layer = nn.Linear(3, 4)
    layer.register_forward_hook(lambda module, given, result: 2 * result)
    return layer


@pytest.mark.parametrize(
    ("layer", "match"),
    [
        (lambda: Doubled(3, 4), r"layer 0 \(Doubled\) has no known power series"),
        (lambda: Paired(nn.Linear(3, 4)), r"layer 0 \(Paired\) has no known power series"),
        (hooked, "layer 0 .* without hooks"),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), "must have its weight as"),
        (lambda: nn.Sequential(nn.Linear(3, 4), Scaled()), "layer 0.1 must have no parameters"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout()), r"Dropout after network\.eval"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Softplus(1, 0.1)), "layer 0.1 .Softplus. has"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), r"0\.1 \(BatchNorm1d\) has"),
    ],
)
def test_layers_that_do_more_than_they_say_are_refused(layer, match):
    """A rule of another layer would give wrong numbers without a word."""
    with pytest.raises(ModelError, match=match):
        ebm.networks.series(nn.Sequential(layer(), nn.Linear(4, 3)).double(), rows(), LABELS, 2)


class Square(nn.Module):
    """A layer of the user's own."""

    def forward(self, x):
        return x * x

    def power_series(self, x):
        return ebm.networks.power_series.product(x, x)


def test_a_users_own_layer():
    """With its rule for power series; without, named."""
    built = network(nn.Linear(3, 4), Square(), nn.Linear(4, 3))
    expected = fitted(built, torch.zeros(31, dtype=torch.float64), flat(built), 4)
    got = ebm.networks.series(built, rows(), LABELS, 4)
    np.testing.assert_allclose(got.detach(), expected, atol=1e-8)
    with pytest.raises(ModelError, match=r"layer 1 \(LeakyReLU\) has no known power series"):
        ebm.networks.series(
            network(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 3)), rows(), LABELS, 2
        )


class First(nn.Module):
    """Logits fewer than those of the last linear layer."""

    def power_series(self, x):
        return x[..., :2]


def test_bad_arguments():
    """Networks, rows and rays that do not fit."""
    built = network(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 3))
    with pytest.raises(ModelError, match=r"network must be a torch.nn.Sequential, got Linear"):
        ebm.networks.series(nn.Linear(3, 3), rows(), LABELS, 2)
    with pytest.raises(ModelError, match="network must have parameters"):
        ebm.networks.series(nn.Sequential(nn.SiLU()), rows(), LABELS, 2)
    with pytest.raises(ShapeError, match="inputs must have 3 columns, got 2"):
        ebm.networks.series(built, rows(2), LABELS, 2)
    with pytest.raises(CodingError, match="here 0 … 2, got 3"):
        ebm.networks.series(built, rows(), LABELS + 3, 2)
    with pytest.raises(ShapeError, match=r"base must have shape \(31,\)"):
        ebm.networks.series(built, rows(), LABELS, 2, base=torch.zeros(30))
    wrong = dict(built.named_parameters()) | {"0.weight": torch.zeros(3, 4)}
    with pytest.raises(ShapeError, match=r"direction\['0\.weight'\] must have shape \(4, 3\)"):
        ebm.networks.series(built, rows(), LABELS, 2, direction=wrong)
    mixed = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3).double())
    with pytest.raises(ModelError, match=r"in one dtype and on one device, got torch\.float32"):
        ebm.networks.series(mixed, rows(), LABELS, 2)
    with pytest.raises(ModelError, match=r"the series overflows torch\.float64 from order 2 on"):
        ebm.networks.series(built, rows(), LABELS, 4, direction=np.full(31, 1e200))
    with pytest.raises(ShapeError, match=r"logits must have shape \(7, 3\), got \(7, 2\)"):
        ebm.networks.series(nn.Sequential(built, First()), rows(), LABELS, 2)
    undefined = network(nn.Linear(3, 3))
    undefined[0].weight.data[0, 0] = math.nan
    with pytest.raises(MissingValueError, match="parameters of the network must be finite"):
        ebm.networks.series(undefined, rows(), LABELS, 2)
    with pytest.raises(ModelError, match=r"direction must name the parameters 0\.weight"):
        ebm.networks.series(built, rows(), LABELS, 2, direction={"x": torch.zeros(2)})
    assert ebm.networks.series(built, rows()[:2], LABELS[:2], 0).shape == (1,)
