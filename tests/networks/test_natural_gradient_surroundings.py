"""Relative natural gradient descent among what training loops do: nothing is silently another."""

import copy
import gc
import warnings
from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ebm.errors import EbmWarning, ModelError
from tests.networks.natural_twin import batches, mlp, natural_gradient, parameters, ready, train


class Noisy(nn.Module):
    """Random numbers that no module draws, and a buffer that is assigned, not changed."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)
        self.register_buffer("n_calls", torch.zeros(()))

    def forward(self, x):
        self.n_calls = self.n_calls + 1
        x = torch.tanh(self.a(x + torch.randn_like(x)))
        return self.b(F.dropout(x, 0.5, self.training))


@dataclass(slots=True)
class Answer:
    """An output that is neither tensor nor container."""

    logits: torch.Tensor


class Slope(nn.Module):
    """Leaky relu whose leak is computed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("slope", torch.tensor(0.1))

    def forward(self, x):
        return F.leaky_relu(x, self.slope)


class Unwilling(nn.Module):
    def forward(self, x):
        raise ValueError


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)

    def forward(self, x):
        return Answer(self.a(x))


class InPlace(nn.Module):
    """Changes its own input."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)

    def forward(self, x):
        return self.a(x.mul_(2))


def test_random_numbers_of_functions():
    """The second run draws the same ones, and training goes on as without it."""
    model = Noisy().double()
    other = copy.deepcopy(model)
    own = natural_gradient(model, 0.1, decay=1.0, period=2)
    seen, drawn = [], []
    model.b.register_forward_hook(lambda m, args, out: seen.append(args[0] == 0))
    for m, optimizer in ((model, own), (other, torch.optim.SGD(other.parameters(), 0.1))):
        torch.manual_seed(3)
        train(m, optimizer, batches(1))
        drawn.append(torch.rand(1))
        assert m.n_calls == 1
    assert torch.equal(*seen)
    assert seen[0].any()
    assert torch.equal(*drawn)


@pytest.mark.parametrize("forget", ["optimizer", "model", "never stepped"])
def test_batches_whose_gradient_was_dropped_do_not_count(forget):
    """An attack on the inputs, a skipped step, or another optimizer's step came before."""
    found = []
    for attacked in (False, True):
        model = mlp()
        optimizer = natural_gradient(model, 0.05, decay=1.0)
        x, y = next(batches(1, rows=(8,)))
        if attacked and forget == "never stepped":
            for _ in range(5):
                model.zero_grad()
                F.cross_entropy(model(3 * x), y).backward()
            assert len(optimizer._recorder.passes) == 1
        elif attacked:
            z = x.clone().requires_grad_()
            torch.autograd.grad(F.cross_entropy(model(z), y), z)
        (optimizer if forget == "optimizer" else model).zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        found.append(optimizer.metric("2"))
    assert torch.equal(*found)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_activations(reentrant):
    """A forward pass within the backward pass is no new batch."""
    model, other = mlp(), mlp()
    optimizer, x, y = ready(model, decay=1.0)
    optimizer.step()
    again = natural_gradient(other, 0.05, decay=1.0)
    out = checkpoint(other, x.requires_grad_(), use_reentrant=reentrant)
    F.cross_entropy(out, y).backward()
    again.step()
    assert torch.equal(optimizer.metric("2"), again.metric("2"))


def test_validation_within_the_loop_changes_nothing():
    found = []
    for validates in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3)
        ).double()
        optimizer = natural_gradient(model, 0.05, decay=0.3, period=2)
        for x, y in batches(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if validates:
                model.eval()
                with torch.no_grad():
                    model(5 * x)
                model(5 * x)
                model.train()
            optimizer.step()
        found.append(parameters(model))
    assert torch.equal(*found)


def test_mixed_precision():
    """The second run is as precise as the first, and the rest never less than the weights."""
    found = []
    for mixes_step in (False, True):
        model = mlp(dtype=torch.float32)
        optimizer = natural_gradient(model, 0.05, decay=0.5, period=1)
        # A model below has made features of low precision.
        for x, y in batches(4, dtype=torch.bfloat16):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if mixes_step:
                    optimizer.step()
            if not mixes_step:
                optimizer.step()
        found.append(optimizer.metric("2"))
    assert found[0].dtype == torch.float32
    # Within the region torch keeps rounded weights of before the step; the second run does not.
    assert torch.equal(*found)


def test_a_scaler_of_gradients_skips_steps():
    model = mlp(dtype=torch.float32)
    optimizer = natural_gradient(model, 0.05)
    scaler = torch.amp.GradScaler("cpu")
    for k, (x, y) in enumerate(batches(4, dtype=torch.float32)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * (float("inf") if k == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert parameters(model).isfinite().all()
    assert optimizer.param_groups[0]["n_steps"] == 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shell", [False, True])
def test_compiled_models(shell):
    """The optimizer takes the model or the shell that torch.compile made of it."""
    torch._dynamo.reset()
    models = [mlp(), mlp()]
    compiled = torch.compile(models[0], backend="eager")
    for model, called in zip(models, (compiled, models[1]), strict=True):
        made_of = compiled if shell and called is compiled else model
        optimizer = natural_gradient(made_of, 0.05, decay=0.5, period=2)
        train(called, optimizer, batches(3, rows=(8,)))
    assert torch.equal(parameters(models[0]), parameters(models[1]))


@pytest.mark.parametrize("how", ["model", "loop"])
def test_inputs_changed_in_place_are_refused(how):
    """Rather than run another batch; nothing has moved."""
    model = InPlace() if how == "model" else mlp(dtype=torch.float32)
    optimizer, x, _ = ready(model, decay=1.0)
    before = parameters(model)
    if how == "loop":
        x.zero_()
    with pytest.raises(ModelError, match="an input of the model was changed in place"):
        optimizer.step()
    assert torch.equal(before, parameters(model))


def test_other_outputs_are_watched():
    model = Wrapped()
    optimizer = natural_gradient(model, 0.05, decay=1.0)
    x, y = next(batches(1, dtype=torch.float32))
    F.cross_entropy(model(x).logits, y).backward()
    optimizer.step()
    assert not torch.equal(optimizer.metric("a")[0], torch.eye(5))


def test_warnings_point_at_the_loop():
    """Through what torch wraps around step."""
    model = mlp()
    optimizer = natural_gradient(model, 0.05, damping=0.0, decay=1.0)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    x, _ = next(batches(1, rows=(2,)))
    model(x).sum().backward()
    for call in (optimizer.step, lambda: optimizer.warm_start([x])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EbmWarning)
            call()
        assert {warning.filename for warning in caught if warning.category is EbmWarning} == {
            __file__
        }


def test_hooks_go_with_the_optimizer():
    model = mlp()
    for _ in range(3):
        optimizer, _, _ = ready(model)
        optimizer.step()
    del optimizer
    gc.collect()
    hooks = [m._forward_hooks for m in model.modules()] + [model._forward_pre_hooks]
    assert not any(hooks)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(5), nn.Softmax(1), nn.Softmax(None)])
@pytest.mark.filterwarnings("ignore:Implicit dimension")
def test_units_on_another_axis_are_refused(norm):
    """Axis 1 is that of the units for a batch of two axes only."""
    model = nn.Sequential(nn.Linear(4, 5), norm).double()
    optimizer = natural_gradient(model, 0.05, blocks="neuron")
    model(torch.randn(7, 5, 4).double()).square().sum().backward()
    with pytest.raises(ModelError, match=r"layer '0' gave an output of shape \(7, 5, 5\)"):
        optimizer.step()


@pytest.mark.parametrize(
    ("following", "message"),
    [
        (nn.Softmax(0), "softmax with dim=0 follows it"),
        (nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Softmax(-1)), "unflatten follows it"),
        (nn.Sequential(nn.Flatten(0), nn.Softmax(-1)), "softmax of a reshaped output follows it"),
        (nn.Sequential(nn.Flatten(0), nn.BatchNorm1d(6), nn.Tanh()), "batchnorm1d follows it"),
        (nn.PReLU(), "'1': PReLU is no linear layer; '0': prelu follows it"),
        (Slope(), "leakyrelu with negative_slope=_1_slope follows it"),
        (Unwilling(), r"'0': forward cannot be traced \(ValueError: \)"),
    ],
)
def test_what_is_not_along_the_units_is_named(following, message):
    with pytest.raises(TypeError, match=message):
        natural_gradient(nn.Sequential(nn.Linear(4, 6), following), 0.05, blocks="neuron")


def test_no_module():
    for model in (mlp().parameters(), "mlp"):
        with pytest.raises(TypeError, match="give the model itself, not its parameters"):
            natural_gradient(model, 0.05)


def test_a_warm_start_leaves_a_gradient_its_batch():
    """And says what it wants where a loader gives pairs."""
    model = mlp()
    optimizer, x, y = ready(model)
    optimizer.warm_start([x])
    with pytest.raises(ModelError, match="take the inputs out of what a loader gives"):
        optimizer.warm_start([[x, y]])
    optimizer.step()
    assert optimizer.n_inversions == 2
