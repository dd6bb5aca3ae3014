"""Relative natural gradient descent of models, settings and states that have changed meanwhile."""

import copy
import pickle

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from ebm.errors import ModelError
from tests.networks.natural_twin import batches, mlp, natural_gradient, parameters, ready, train


class Skipping(nn.Module):
    """Calls one layer or two, as it is told."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.both = nn.Linear(4, 3), nn.Linear(3, 3), True

    def forward(self, x):
        return self.b(self.a(x)) if self.both else self.a(x)


@pytest.mark.parametrize(
    ("frozen", "change", "message"),
    [
        (False, lambda m: m.double(), "layer '0' is torch.float64 on cpu now, its metric torch.f"),
        (True, lambda m: m[0].requires_grad_(True), "'0.weight' was frozen when the optimizer"),
        (False, lambda m: m[2].bias.requires_grad_(False), "weight and bias of layer '2'"),
    ],
)
def test_a_model_that_is_another_now(frozen, change, message):
    """Refused, and not trained along no metric or half of one."""
    model = mlp(dtype=torch.float32)
    model[0].requires_grad_(not frozen)
    optimizer, x, y = ready(model)
    optimizer.step()
    change(model)
    with pytest.raises(ModelError, match=message):
        train(model, optimizer, [(x.to(model[0].weight.dtype), y)])


def test_precision_without_an_inverse():
    model = mlp(dtype=torch.float32)
    optimizer = natural_gradient(model, 0.05)
    model.bfloat16()
    with pytest.raises(ModelError, match="bfloat16 now, of which no inverse can be made"):
        train(model, optimizer, batches(1, dtype=torch.bfloat16))


def test_pruned_weights_keep_their_metric():
    """torch puts a tensor in the place of the parameter, a new one each time."""
    model = mlp()
    optimizer = natural_gradient(model, 0.05, decay=0.5, period=2)
    prune.l1_unstructured(model[2], "weight", amount=0.5)
    train(model, optimizer, batches(5))
    assert len(optimizer.state) == 3
    assert not torch.equal(optimizer.metric("2")[0], torch.eye(7).double())


def test_a_layer_that_is_skipped():
    """A gradient of zero, and nothing seen: its metric waits."""
    model = Skipping().double()
    optimizer, x, y = ready(model)
    optimizer.step()
    before, metric = parameters(model.b), optimizer.metric("b")
    model.both = False
    optimizer.zero_grad(set_to_none=False)
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    assert torch.equal(before, parameters(model.b))
    assert torch.equal(metric, optimizer.metric("b"))


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": "neuron"},
        {"blocks": "shared"},
        {"blocks": {"4": "softmax"}},
        {"sizes": (4, 5, 3)},
    ],
)
def test_states_of_other_optimizers_are_refused(change):
    """Even where the sizes would fit."""
    optimizer, _, _ = ready(mlp())
    optimizer.step()
    other = natural_gradient(
        mlp(change.get("sizes", (4, 6, 5, 3))), 0.05, blocks=change.get("blocks")
    )
    with pytest.raises(ModelError, match=r"the state is of metrics \[\['shared', 1, 5, 5\]"):
        other.load_state_dict(optimizer.state_dict())
    plain = torch.optim.SGD(mlp().parameters(), 0.1)
    for state in (plain.state_dict(), {}, None):
        with pytest.raises(ModelError, match="not that of a RelativeNaturalGradient"):
            other.load_state_dict(state)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(copied):
    """They would watch no model."""
    with pytest.raises(ModelError, match="make a new one for the copied model"):
        copied(natural_gradient(mlp(), 0.05))


@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", float("nan")), ("lr", -1.0), ("period", 0), ("decay", 2.0), ("damping", "a"),
     ("damping_kind", "a"), ("weight_decay", -1.0)],
)  # fmt: skip
def test_settings_changed_later_are_checked(name, value):
    """By a scheduler, for example; nothing has moved."""
    model = mlp()
    optimizer, _, _ = ready(model)
    before = parameters(model)
    optimizer.param_groups[0][name] = value
    with pytest.raises(ModelError, match=f"{name} must"):
        optimizer.step()
    assert torch.equal(before, parameters(model))


def test_a_scheduled_function_of_the_step_is_refused():
    """It would override the scheduler without a word; a saved state is no scheduler."""
    model = mlp()
    optimizer, x, y = ready(model)
    saved = optimizer.state_dict()
    optimizer = natural_gradient(model, lambda k: 0.1 / (1 + k))
    optimizer.load_state_dict(saved)
    train(model, optimizer, [(x, y)])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(model, optimizer, [(x, y)])
    scheduler.step()
    with pytest.raises(ModelError, match="lr is a function of the step, but was set to"):
        train(model, optimizer, [(x, y)])
