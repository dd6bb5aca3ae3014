"""Relative natural gradient descent: models it can treat, and what it says of bad input."""

import copy
import io
import warnings

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

from ebm.errors import DivergenceError, EbmWarning, MemoryLimitError, ModelError
from ebm.networks.natural_gradient import _metrics
from tests.networks.natural_twin import batches, mlp, natural_gradient, parameters, train


class Functional(nn.Module):
    """Names, functions, an outer product of layers that a Sequential would not show."""

    def __init__(self):
        super().__init__()
        self.enter, self.middle, self.leave = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = F.leaky_relu(self.enter(x.flatten(1)), 0.2)
        x = x + torch.sigmoid(self.middle(x))
        return self.leave(x).log_softmax(-1)


def test_modules_of_linear_layers():
    """Functions and methods are seen as modules are; residual sums do not matter."""
    optimizer = natural_gradient(Functional(), 0.1, blocks="neuron")
    assert optimizer.describe().splitlines() == [
        "enter.weight, enter.bias: neuron (relu), 6 blocks of 5 × 5",
        "middle.weight, middle.bias: neuron (sigmoid), 6 blocks of 7 × 7",
        "leave.weight, leave.bias: neuron (softmax), 3 blocks of 7 × 7",
    ]
    model = mlp(norm=True)
    model[3].requires_grad_(False)
    model[6].bias.requires_grad_(False)
    optimizer = natural_gradient(model, 0.1, blocks={"6": "softmax"})
    assert optimizer.describe().splitlines() == [
        "0.weight, 0.bias: shared, 1 block of 5 × 5",
        "2.weight: plain",
        "2.bias: plain",
        "3.weight: not learned",
        "3.bias: not learned",
        "5.weight: plain",
        "5.bias: plain",
        "6.weight: softmax, 1 block of 15 × 15",
        "6.bias: not learned",
    ]
    before = parameters(model[3])
    train(model, optimizer, batches(3))
    assert torch.equal(before, parameters(model[3]))


class Tied(nn.Module):
    """Two layers with one weight, or one layer called twice, or never."""

    def __init__(self, how):
        super().__init__()
        self.how, self.a, self.b = how, nn.Linear(4, 4), nn.Linear(4, 4)
        if how == "tied":
            self.b.weight = self.a.weight

    def forward(self, x):
        x = torch.tanh(self.a(x))
        if self.how == "branches" and x.sum() > 0:
            x = -x
        return self.a(x) if self.how == "twice" else x if self.how == "never" else self.b(x)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (lambda: Tied("tied"), "'a', 'b': a.weight and b.weight are one parameter"),
        (lambda: Tied("twice"), "'a': forward calls it 2 times"),
        (lambda: Tied("never"), "'b': forward does not call it"),
        (lambda: Tied("branches"), "'a', 'b': forward cannot be traced"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.LayerNorm(4)), "'2': LayerNorm"),
        (lambda: nn.Sequential(mlp(), nn.GELU(), nn.Linear(3, 3).double()), "'0.4': gelu follows"),
        (lambda: mlp(dtype=torch.float16), "float16"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), "not made yet"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_has_no_metric_is_named(model, names):
    """Or has the plain gradient when asked for."""
    with pytest.raises(TypeError, match=names):
        natural_gradient(model(), 0.1)


@pytest.mark.parametrize("how", ["tied", "twice", "never", "branches"])
def test_plain_where_asked(how):
    """Without a metric anywhere it is plain descent, bit by bit."""
    models = [Tied(how).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    own = natural_gradient(models[0], 0.1, blocks="plain")
    mixed = natural_gradient(copy.deepcopy(models[0]), 0.1, unsupported="plain")
    assert ("a.weight: plain" in mixed.describe()) == (how != "never")
    plain = torch.optim.SGD(models[1].parameters(), 0.1)
    for data in batches(4):
        train(models[0], own, [data])
        train(models[1], plain, [data])
    assert torch.equal(parameters(models[0]), parameters(models[1]))


def test_steps_without_a_batch_are_named():
    """Gradients set by hand, or of layers called one by one, have no batch to average over."""
    model = mlp()
    optimizer = natural_gradient(model, 0.1)
    before = parameters(model)
    optimizer.step()
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    with pytest.raises(ModelError, match="no forward and backward pass went through the model"):
        optimizer.step()
    model[0].weight.grad = None
    with pytest.raises(ModelError, match="layer '0' must both have a gradient"):
        optimizer.step()
    assert torch.equal(before, parameters(model))


def test_a_layer_no_gradient_reached_stays_as_it_is():
    """As in plain descent; its metric waits, too."""
    model = mlp()
    optimizer = natural_gradient(model, 0.1)
    x, y = next(batches(1))
    F.cross_entropy(model(x), y).backward()
    model[0].weight.grad = model[0].bias.grad = None
    before = parameters(model[0])
    optimizer.step()
    assert torch.equal(before, parameters(model[0]))
    assert torch.equal(optimizer.metric("0")[0], torch.eye(5).double())
    assert not torch.equal(optimizer.metric("2")[0], torch.eye(7).double())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_are_named(value):
    """Nothing has moved then; sums that overflow alone are fine."""
    model = mlp()
    optimizer = natural_gradient(model, 0.1)
    train(model, optimizer, batches(1))
    before = parameters(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    model[2].bias.grad[1] = value
    with pytest.raises(DivergenceError, match=r"'2\.bias' is not finite at step 1") as caught:
        optimizer.step()
    assert (caught.value.update, caught.value.parameter) == (2, "2.bias")
    assert torch.equal(before, parameters(model))
    large = nn.Linear(3, 2)
    other = natural_gradient(large, 1e-38, decay=0)
    large.weight.grad, large.bias.grad = torch.full((2, 3), 3e38), torch.ones(2)
    other.step()
    assert large.weight.isfinite().all()


@pytest.mark.parametrize("scale", [1e30, float("inf")])
def test_rows_that_cannot_be_squared_are_named(scale):
    """The metric stays finite."""
    model = mlp(dtype=torch.float32)
    optimizer = natural_gradient(model, 0.0)
    x, _ = next(batches(1, dtype=torch.float32))
    (0.0 * model(scale * x).nan_to_num()).sum().backward()
    for p in model.parameters():
        p.grad.zero_()
    with pytest.raises(DivergenceError, match="layer '0' are not finite, or too large"):
        optimizer.step()
    assert optimizer.metric("0").isfinite().all()


def test_outputs_that_are_not_finite_are_named():
    """An input of 0 times ∞ has no information; the metric stays finite."""
    model = mlp(activation="silu")
    optimizer = natural_gradient(model, 0.1, decay=1.0, blocks="neuron")
    x, _ = next(batches(1))
    with torch.no_grad():
        model[0].bias[0] = -float("inf")
    (0.0 * model(x).nan_to_num()).sum().backward()
    for p in model.parameters():
        p.grad.zero_()
    with pytest.raises(DivergenceError, match="layer '0' are not finite, or too large"):
        optimizer.step()
    assert optimizer.metric("0").isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_singular_metrics_get_more_damping(dtype):
    """A batch smaller than the layer, undamped: warned about by name, counted, finite."""
    model = mlp(dtype=dtype)
    optimizer = natural_gradient(model, 1e-3, decay=1.0, damping=0.0, period=1)
    with pytest.warns(EbmWarning) as caught:
        train(model, optimizer, batches(3, rows=(3,), dtype=dtype))
    found = [str(warning.message) for warning in caught]
    assert any("layer '2' is singular in 5 of 5 blocks with damping 0" in text for text in found)
    assert optimizer.n_failures == 3 * (1 + 5 + 1)
    assert parameters(model).isfinite().all()
    # With damping, or while something of I is left, there is nothing to warn about.
    for settings in ({"damping": 1e-4, "decay": 1.0}, {"damping": 0.0, "decay": 0.5}):
        model = mlp(dtype=dtype)
        optimizer = natural_gradient(model, 1e-3, period=1, **settings)
        train(model, optimizer, batches(3, rows=(3,), dtype=dtype))
        assert optimizer.n_failures == 0


def test_dead_inputs():
    """Zero columns are damped; a layer that sees nothing at all keeps its old inverse."""
    model = mlp((4, 6, 3), "relu", bias=False)
    model[0].weight.data.fill_(-1.0)
    optimizer = natural_gradient(model, 0.1, decay=1.0, period=1)
    x, y = next(batches(1))
    with pytest.warns(EbmWarning, match="layer '2' is singular .* 1 of them keep the old inverse"):
        train(model, optimizer, [(x.abs(), y)])
    assert torch.equal(optimizer.state[model[2].weight]["inverse"][0], torch.eye(6).double())
    model = mlp()
    optimizer = natural_gradient(model, 0.1, decay=0.9, period=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, [(x * torch.tensor([1.0, 0, 0, 1]), y)] * 4)
    assert parameters(model).isfinite().all()


def test_only_failing_blocks_get_more_damping():
    """The others keep theirs; the retry goes up tenfold until it works."""
    good = torch.eye(3).double()
    bad = torch.diag(torch.tensor([1.0, 1.0, -1e-3])).double()
    old = 7 * torch.stack([good, good, good])
    scales = torch.tensor([3.0, 1.0, 0.0]).double()
    inverse, used, kept = _metrics._damped_inverse(torch.stack([good, bad, bad]), 1e-5, scales, old)
    assert used.tolist()[:2] == pytest.approx([1e-5, 1e-2])
    assert kept.tolist() == [False, False, True]
    torch.testing.assert_close(inverse[0], good / (1 + 3e-5))
    torch.testing.assert_close(inverse[1], torch.linalg.inv(bad + 1e-2 * good))
    assert torch.equal(inverse[2], old[2])


@pytest.mark.parametrize("kind", ["trace", "mean", "absolute"])
def test_damping_kinds(kind):
    """Relative to the trace, to the mean of the diagonal, or to 1."""
    model = mlp((4, 3))
    optimizer = natural_gradient(model, 0.1, damping=0.1, damping_kind=kind, decay=1.0)
    train(model, optimizer, batches(1))
    g = optimizer.metric("0")[0]
    amount = 0.1 * {"trace": g.trace(), "mean": g.trace() / 5, "absolute": 1.0}[kind]
    wanted = torch.linalg.inv(g + amount * torch.eye(5))
    torch.testing.assert_close(optimizer.state[model[0].weight]["inverse"][0], wanted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -1.0}, "lr must be"),
        ({"lr": float("nan")}, "lr must be"),
        ({"decay": 1.5}, r"decay must be a finite number in \[0, 1\]"),
        ({"period": 0}, "period must be an integer"),
        ({"period": 2.5}, "period must be an integer"),
        ({"damping": -1e-4}, "damping must be"),
        ({"damping_kind": "tr"}, "damping_kind must be one of"),
        ({"smoothing": -1}, "smoothing must be"),
        ({"output": "poisson"}, "output must be one of"),
        ({"unsupported": "skip"}, "unsupported must be one of"),
        ({"blocks": "kfac"}, "blocks of layer '0' must be one of"),
        ({"blocks": {"1": "neuron"}}, "blocks must name layers among"),
        ({"blocks": {"2": "softmax"}}, "softmax output, not layer '2'"),
        ({"blocks": 3}, "blocks must be"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ModelError, match=message):
        natural_gradient(mlp(), **{"lr": 0.1, **settings})


def test_a_schedule_out_of_range_is_named():
    model = mlp()
    optimizer = natural_gradient(model, lambda k: 0.1 - k)
    train(model, optimizer, batches(1))
    with pytest.raises(ModelError, match="lr must be"):
        train(model, optimizer, batches(1))


def test_metrics_too_large_are_refused():
    """Before anything is made."""
    model = nn.Sequential(nn.Linear(4, 3000), nn.Tanh(), nn.Linear(3000, 3000), nn.Tanh())
    with pytest.raises(MemoryLimitError, match="the metrics and inverses up to layer '2'"):
        natural_gradient(nn.Sequential(*model, nn.Linear(3000, 2)), 0.1)


def test_copies_of_the_model_are_not_watched():
    """Neither deep copies nor saved models drag the optimizer along."""
    model = mlp()
    optimizer = natural_gradient(model, 0.1)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        other(torch.ones(2, 4).double()).sum().backward()
        assert optimizer._recorder.passes == []
    model(torch.ones(2, 4).double()).sum().backward()
    assert len(optimizer._recorder.passes) == 1
    optimizer.zero_grad()
    assert optimizer._recorder.passes == []


def test_learning_rate_schedulers_and_groups():
    """torch's schedulers set the rate of a number; a second group is refused."""
    model = mlp()
    optimizer = natural_gradient(model, 0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    train(model, optimizer, batches(1))
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    with pytest.raises(ModelError, match="the parameters are those of the model"):
        optimizer.add_param_group({"params": [torch.zeros(2)]})
    with pytest.raises(ModelError, match="have a metric; got '9'"):
        optimizer.metric("9")
