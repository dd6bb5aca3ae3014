"""Relative natural gradient descent: against a twin in numpy, and against plain descent."""

import copy
import io
import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

from ebm.errors import ModelError
from ebm.information import relative_fisher
from ebm.information._curvatures import SoftmaxCurvature
from ebm.information.subsystems import SoftmaxLayer
from ebm.networks.natural_gradient import _layers, _metrics
from tests.networks.natural_twin import (
    RESPONSES,
    Twin,
    batches,
    mlp,
    natural_gradient,
    parameters,
    train,
)


def matrices(model, bias=True):
    linear = [m for m in model if isinstance(m, nn.Linear)]
    return [
        np.hstack([m.weight.detach(), m.bias.detach()[:, None]])
        if bias
        else m.weight.detach().numpy()
        for m in linear
    ]


LOSSES = {
    "softmax": lambda a, y: F.cross_entropy(a, y),
    "bernoulli": lambda a, y: (
        F.binary_cross_entropy_with_logits(a, F.one_hot(y, 3).to(a), reduction="none").sum(1).mean()
    ),
    "gaussian": lambda a, y: 0.5 * (a - F.one_hot(y, 3)).square().sum(1).mean(),
}


@pytest.mark.parametrize(
    ("activation", "kinds", "output", "bias"),
    [
        ("tanh", ("shared", "neuron", "shared"), "softmax", True),
        ("sigmoid", ("neuron", "neuron", "neuron"), "bernoulli", True),
        ("relu", ("shared", "neuron", "softmax"), "softmax", True),
        ("relu", ("neuron", "neuron", "neuron"), "softmax", False),
        ("leaky", ("neuron", "neuron", "neuron"), "gaussian", True),
        ("elu", ("neuron", "shared", "neuron"), "gaussian", False),
        ("silu", ("neuron", "neuron", "shared"), "softmax", True),
    ],
)
def test_steps_are_those_of_the_definition(activation, kinds, output, bias):
    """Weights and metrics after ten steps of changing batch size, four refreshes among them."""
    model = mlp(activation=activation, bias=bias)
    settings = {"period": 3, "decay": 0.2, "damping": 1e-3}
    twin = Twin(
        matrices(model, bias), [activation] * 2, kinds, output, biased=bias, lr=0.05, **settings
    )
    names = ("0", "2", "4")
    optimizer = natural_gradient(
        model, 0.05, blocks=dict(zip(names, kinds, strict=True)), output=output, **settings
    )
    for x, y in batches(10):
        train(model, optimizer, [(x, y)], LOSSES[output])
        twin.step(x.numpy(), np.eye(3)[y])
    for name, got, wanted, g in zip(
        names, matrices(model, bias), twin.weights, twin.g, strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
        found = optimizer.metric(name).numpy()
        np.testing.assert_allclose(*np.broadcast_arrays(found, g), rtol=1e-10, atol=1e-13)
    assert optimizer.n_inversions == 4
    assert optimizer.n_failures == 0


def test_weight_decay_and_schedules():
    """The penalty leaves biases alone and goes through the metric; settings follow the step."""
    settings = {"decay": lambda k: 0.5 / (1 + k), "damping": lambda k: 10.0 ** (-1 - k / 4)}
    model = mlp()
    twin = Twin(
        matrices(model), ["tanh"] * 2, ("shared", "neuron", "shared"), "softmax",
        lr=lambda k: 0.1 / (1 + k), period=2, l2=0.3, **settings,
    )  # fmt: skip
    optimizer = natural_gradient(
        model, lambda k: 0.1 / (1 + k), period=lambda k: 2, weight_decay=0.3, **settings
    )
    for x, y in batches(7):
        train(model, optimizer, [(x, y)])
        twin.step(x.numpy(), np.eye(3)[y])
    for got, wanted in zip(matrices(model), twin.weights, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["neuron", "shared", "softmax", None])
def test_the_identity_gives_plain_descent_bit_by_bit(dtype, kind):
    """Batch normalization, its buffers and weight decay included."""
    models = [mlp(norm=True, activation="relu", dtype=dtype) for _ in range(2)]
    blocks = {"6": "softmax"} if kind == "softmax" else kind
    own = natural_gradient(models[0], 0.1, decay=0, damping=0, period=2, blocks=blocks)
    plain = torch.optim.SGD(models[1].parameters(), 0.1)
    for data in batches(9, dtype=dtype):
        train(models[0], own, [data])
        train(models[1], plain, [data])
    assert own.n_inversions == 5
    for ours, theirs in zip(
        models[0].state_dict().values(), models[1].state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_watching_leaves_buffers_and_random_numbers_alone():
    """The second run of a batch has the first one's dropped units and leaves no trace."""
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3)
    ).double()
    other = copy.deepcopy(model)
    own = natural_gradient(model, 0.1, decay=1, period=lambda k: 10**6)
    own.warm_start([torch.randn(50, 4, dtype=torch.float64)])
    own.state.clear()
    own.param_groups[0]["last_inversion"] = 0
    for m, optimizer in ((model, own), (other, torch.optim.SGD(other.parameters(), 0.1))):
        torch.manual_seed(3)
        # Moments of batch normalization were moved by no warm start either.
        train(m, optimizer, batches(5, rows=(8,)))
    for ours, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    seen = []
    model[4].register_forward_hook(lambda m, args, out: seen.append(args[0] == 0))
    x, y = next(batches(1, rows=(8,)))
    train(model, own, [(x, y)])
    assert torch.equal(*seen)
    assert seen[0].any()


def test_metric_is_taken_at_the_new_weights():
    """All layers below have moved, too."""
    model = mlp(activation="relu")
    optimizer = natural_gradient(model, 0.5, decay=1.0)
    x, y = next(batches(1, rows=(20,)))
    train(model, optimizer, [(x, y)])
    h = F.pad(model[:2](x), (0, 1), value=1.0).detach()
    nu = torch.sigmoid(model[:3](x).detach()) ** 2
    wanted = torch.einsum("ro,ri,rj->oij", nu, h, h) / 20
    torch.testing.assert_close(optimizer.metric("2"), wanted, rtol=1e-12, atol=1e-14)
    # The product of means is another number.
    apart = nu.mean(0)[:, None, None] * (h.T @ h / 20)
    assert float(((apart - wanted).abs() / wanted.abs().max()).max()) > 0.02


@pytest.mark.parametrize("training", [True, False])
def test_normalization_before_the_activation(training):
    """ν f′ is that of the normalized input, times the square of the slope of normalization."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.SiLU(), nn.Linear(6, 3)).double()
    norm = model[1]
    norm.weight.data = torch.linspace(0.5, 2, 6, dtype=torch.float64)
    norm.bias.data.fill_(0.3)
    norm.running_var.fill_(2.0)
    model.train(training)
    optimizer = natural_gradient(model, 0.1, decay=1.0, blocks={"0": "neuron"})
    x, y = next(batches(1, rows=(20,)))
    train(model, optimizer, [(x, y)])
    out = model[0](x).detach()
    mean, var = (
        (out.mean(0), out.var(0, correction=0)) if training else (0 * norm.bias, out[0] * 0 + 2)
    )
    scale = norm.weight.detach() / (var + norm.eps).sqrt()
    a = ((out - mean) * scale + norm.bias.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(F.silu(a).sum(), a)
    xt = F.pad(x, (0, 1), value=1.0)
    wanted = torch.einsum("ro,ri,rj->oij", (slope * scale) ** 2, xt, xt) / 20
    torch.testing.assert_close(optimizer.metric("0"), wanted, rtol=1e-10, atol=1e-13)


def test_softmax_blocks_are_the_relative_information():
    """The same numbers as the library's own operator, and 1 ⊗ v in the null space."""
    model = mlp((4, 3))
    optimizer = natural_gradient(model, 0.1, decay=1.0, blocks="softmax")
    x, y = next(batches(1, rows=(20,)))
    train(model, optimizer, [(x, y)])
    layer = SoftmaxLayer(model[0].weight.detach().numpy(), model[0].bias.detach().numpy())
    wanted = relative_fisher(layer, x.numpy()).dense()
    found = optimizer.metric("0")[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    common = torch.ones(3, 1, 1, dtype=torch.float64) * torch.randn(5, dtype=torch.float64)
    assert float((found @ common[0].expand(3, 5).reshape(-1)).abs().max()) < 1e-15


def test_information_keeps_its_digits():
    """Each row of the table at large inputs, against the library's numpy."""
    a = np.concatenate([np.linspace(-40, 40, 81), [-700.0, -300, 300, 1e4, -1e4]])
    for name, constant in (("tanh", 0), ("sigmoid", 0), ("relu", 0), ("elu", 0.7), ("silu", 0)):
        response = _layers.response_named(name, constant=constant)
        found = response.information(torch.tensor(a)).numpy()
        wanted = RESPONSES[name].information(a)
        large = wanted > 1e-290
        np.testing.assert_allclose(found[large], wanted[large], rtol=1e-12)
        assert np.isfinite(found).all()
    logits = np.stack([a, np.zeros_like(a), -a / 2], axis=1)
    found = _layers.response_named("softmax").information(torch.tensor(logits)).numpy()
    wanted = SoftmaxCurvature(logits).diagonals()
    np.testing.assert_allclose(found[wanted > 1e-290], wanted[wanted > 1e-290], rtol=1e-12)
    kink = _layers.response_named("relu", smoothing=0, constant=0.1)
    assert kink.information(torch.tensor([-1.0, 2.0])).tolist() == pytest.approx([0.01, 1.0])


def test_large_products_are_exact(monkeypatch):
    """Strips, panels and parts of the rows, whatever their sizes."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(300, 47, generator=rng, dtype=torch.float64)
    w, nu = torch.rand(300, generator=rng).double(), torch.rand(300, 5, generator=rng).double()
    start = torch.randn(5, 47, 47, generator=rng, dtype=torch.float64)
    start = start + start.mT
    monkeypatch.setattr(_metrics, "STRIP", 20)
    monkeypatch.setattr(_metrics, "PANEL_NUMBERS", 0)
    many, one = start.clone(), start[:1].clone()
    scaled = x * w.sqrt()[:, None]
    _metrics._add_products(many, scaled, nu, 0.25)
    _metrics._add_products(one, scaled, None, 0.25)
    wanted = 0.25 * start + torch.einsum("r,ro,ri,rj->oij", w, nu, x, x)
    torch.testing.assert_close(_metrics.symmetric(many), wanted, rtol=1e-12, atol=1e-12)
    wanted = 0.25 * start[:1] + torch.einsum("r,ri,rj->ij", w, x, x)
    torch.testing.assert_close(_metrics.symmetric(one), wanted, rtol=1e-12, atol=1e-12)


def test_one_step_is_a_dense_solve():
    """W ← W − lr (G + ε tr G)⁻¹∇ with the whole block-diagonal matrix of a layer."""
    model = mlp(activation="relu")
    optimizer = natural_gradient(model, 0.1, decay=0.5, period=1)
    first, second = batches(2, rows=(12,))
    train(model, optimizer, [first])
    metric, before = optimizer.metric("2"), matrices(model)[1]
    blocks = [g + 1e-4 * g.trace() * torch.eye(7) for g in metric]
    optimizer.zero_grad()
    F.cross_entropy(model(second[0]), second[1]).backward()
    gradient = torch.cat([model[2].weight.grad, model[2].bias.grad[:, None]], 1)
    wanted = np.linalg.solve(torch.block_diag(*blocks).numpy(), gradient.ravel().numpy())
    optimizer.step()
    moved = np.abs(before - 0.1 * wanted.reshape(before.shape) - matrices(model)[1])
    assert moved.max() < 1e-12 * np.abs(before).max()


@pytest.mark.parametrize(("n", "period"), [(1, 3), (7, 3), (9, 3), (10, 1)])
def test_number_of_inversions(n, period, monkeypatch):
    """ceil(n / T), counted where they are made."""
    calls = []
    factor = torch.linalg.cholesky_ex
    monkeypatch.setattr(
        torch.linalg, "cholesky_ex", lambda a: (calls.append(a.shape), factor(a))[1]
    )
    model = mlp()
    optimizer = natural_gradient(model, 0.01, period=period)
    train(model, optimizer, batches(n))
    assert optimizer.n_inversions == math.ceil(n / period)
    assert len(calls) == 3 * math.ceil(n / period)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_resuming_is_bit_equal(dtype):
    """From a file, amid a period, rows waiting; the saved state does not move with the run."""
    data = list(batches(11, dtype=dtype))
    model = mlp(activation="relu", norm=True, dtype=dtype)
    settings = {"period": 4, "decay": 0.1, "blocks": {"6": "softmax"}}
    optimizer = natural_gradient(model, 0.05, **settings)
    train(model, optimizer, data[:6])
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    train(model, optimizer, data[6:])
    again = mlp(activation="relu", norm=True, dtype=dtype, seed=5)
    other = natural_gradient(again, 1.0, **settings)
    file.seek(0)
    weights, state = torch.load(file)
    again.load_state_dict(weights)
    other.load_state_dict(state)
    saved = [t.clone() for t in state["state"][0]["references"]] + [
        state["state"][0]["metric"].clone()
    ]
    train(again, other, data[6:])
    assert torch.equal(parameters(model), parameters(again))
    assert other.n_inversions == optimizer.n_inversions == 3
    for name in ("0", "3", "6"):
        assert torch.equal(optimizer.metric(name), other.metric(name))
    now = [*state["state"][0]["references"], state["state"][0]["metric"]]
    assert all(torch.equal(a, b) for a, b in zip(saved, now, strict=True))


def test_reading_and_waiting_change_nothing(monkeypatch):
    """metric() leaves the run bit-equal; averaging early leaves it equal to rounding."""
    found = []
    for most in (2**13, 2**13, 1):
        monkeypatch.setattr(_metrics, "MOST_ROWS", most)
        model = mlp()
        optimizer = natural_gradient(model, 0.05, period=4, decay=0.1)
        for data in batches(9):
            train(model, optimizer, [data])
            if found:
                optimizer.metric("2")
        found.append(parameters(model))
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], found[2], rtol=1e-11, atol=1e-13)


def test_warm_start():
    """The plain mean over all rows; then the first step has a metric already."""
    model = mlp()
    optimizer = natural_gradient(model, 0.05)
    data = list(batches(4))
    x = torch.cat([x for x, _ in data])
    optimizer.warm_start(x for x, _ in data)
    h = F.pad(model[:2](x), (0, 1), value=1.0).detach()
    nu = 1 - torch.tanh(model[:3](x).detach()) ** 2
    wanted = torch.einsum("ro,ri,rj->oij", nu, h, h) / len(x)
    torch.testing.assert_close(optimizer.metric("2"), wanted, rtol=1e-12, atol=1e-14)
    assert optimizer.n_inversions == 1
    with pytest.raises(ModelError, match="at least one row"):
        optimizer.warm_start([])


def test_accumulated_batches_count_once_each():
    """Parts before one step are one batch, however often gone through; others are none."""
    x, y = next(batches(1, rows=(10,)))
    found = []
    for parts in ((slice(0, 10),), (slice(0, 4), slice(4, 10))):
        model = mlp()
        optimizer = natural_gradient(model, 0.05, decay=0.5)
        model(x)
        with torch.no_grad():
            model(3 * x)
        for part in parts:
            loss = F.cross_entropy(model(x[part]), y[part], reduction="sum") / 10
            # The first part twice: its rows must not count double.
            for share in (0.25, 0.75) if part.start == 0 else (1.0,):
                (share * loss).backward(retain_graph=True)
        optimizer.step()
        found.append(optimizer.metric("2"))
    torch.testing.assert_close(*found, rtol=1e-13, atol=1e-15)


def test_closure():
    """Called once, with gradients; its loss comes back."""
    models = [mlp() for _ in range(2)]
    optimizers = [natural_gradient(model, 0.05, decay=0.1, period=2) for model in models]
    for x, y in batches(5):
        calls = []

        def closure(x=x, y=y, calls=calls):
            calls.append(1)
            optimizers[0].zero_grad()
            loss = F.cross_entropy(models[0](x), y)
            loss.backward()
            return loss

        assert float(optimizers[0].step(closure).detach()) > 0
        assert calls == [1]
        train(models[1], optimizers[1], [(x, y)])
    assert torch.equal(parameters(models[0]), parameters(models[1]))
