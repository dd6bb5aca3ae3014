"""The device that is none refuses what an accelerator refuses, and computes what the host does."""

import copy
import inspect
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm import _devices
from ebm.errors import EbmError
from ebm.learning import _device_likelihood
from ebm.networks import _labelled_rows, _updates, training
from ebm.networks.natural_gradient import _metrics
from tests.device_in_disguise import device_in_disguise, needs_disguise
from tests.networks.natural_twin import natural_gradient
from tests.networks.systems import minimize

pytestmark = needs_disguise
TWO = "Expected all tensors to be on the same device"


@pytest.fixture
def device():
    """The device, open during a test."""
    with device_in_disguise() as opened:
        yield opened


@pytest.mark.parametrize(
    "mixture",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.ones(3) + x,
        lambda x: torch.cat([x, torch.zeros(1)]),
        lambda x: x @ torch.ones(3),
        lambda x: x.mul_(torch.ones(3)),
        lambda x: torch.zeros(()).add_(x.sum()),
        lambda x: torch.ones(3).add_(x),
        lambda x: torch.where(x > 0, x, torch.zeros(3)),
        lambda x: x[torch.tensor([0])],
        lambda x: torch.ones(3)[x.long()],
        lambda x: torch.mul(x, 2, out=torch.empty(3)),
        lambda x: torch.func.jvp(lambda y: y * torch.ones(3), (x,), (x,)),
        lambda x: torch.nn.Linear(3, 2)(x),
    ],
)
def test_tensors_of_two_devices_do_not_mix(device, monkeypatch, mixture):
    monkeypatch.setenv("PYTORCH_JIT", "0")
    with pytest.raises(RuntimeError, match=TWO):
        mixture(torch.ones(3, device=device))


@pytest.mark.parametrize("read", [lambda x: x.numpy(), np.asarray, lambda x: np.stack([x])])
def test_numpy_cannot_read_it(device, read):
    with pytest.raises(TypeError, match=r"can't convert disguise:0 .* Use Tensor.cpu\(\)"):
        read(torch.ones(3, device=device))


def test_what_an_accelerator_allows_is_allowed(device):
    """Numbers of the host, copies to and fro, reading one number, lists."""
    x = torch.arange(3.0).to(device)
    assert x.device == device == torch.zeros(2, device="disguise").device
    assert (x * torch.tensor(2.0) + 1).tolist() == [1, 3, 5]
    assert float(x.sum()) == 3
    assert bool((x[1] > 0).any())
    host = torch.zeros(3).copy_(x)
    assert type(host) is torch.Tensor
    assert x.cpu().numpy().tolist() == host.tolist() == [0, 1, 2]
    x[1:].fill_(7)
    x.view(3, 1)[0] = 9
    assert x.tolist() == [9, 7, 7]
    assert copy.deepcopy(x).device == x.clone().device == torch.empty_like(x).device == device
    assert type(torch.ones(3)) is torch.Tensor


def test_derivatives_stay_on_the_device_and_are_those_of_the_host(device):
    """Backward, twice, and by torch.func."""

    def function(x):
        return (x.sin() * x.flip(0)).logsumexp(0)

    host = torch.linspace(0.1, 1, 4, dtype=torch.float64)
    here = host.to(device)
    for derivative in (
        torch.func.grad(function),
        torch.func.jacrev(torch.func.grad(function)),
        lambda x: torch.func.jvp(function, (x,), (x,))[1],
        torch.func.vmap(torch.sin),
        lambda x: torch.autograd.functional.hessian(function, x),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTORCH_JIT", "0")
            there = derivative(here)
            assert there.device == device
            torch.testing.assert_close(there.cpu(), derivative(host))


def train(device):
    """Some steps of a small action, in batches, with records."""
    action = small_action(device)
    settings = {"batch_size": 4, "validation": ([[0.5]], [0]), "series_order": 2}
    return minimize(action, n_epochs=2, rng=0, **settings)


def natural(device):
    """Some steps along relative metrics of each kind."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    model.to(device)
    optimizer = natural_gradient(model, lr=0.1, period=1, blocks={"0": "neuron", "2": "softmax"})
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(3, 2, device=device)).logsumexp(1).sum().backward()
        optimizer.step()


def learn(device):
    """Some updates of a restricted machine by chains of which some begin again at rows."""
    rows = np.random.default_rng(0).integers(0, 2, (20, 3))
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 2, rng=0)
    chains = ebm.Likelihood(ebm.PersistentChains(6, restarts=0.1), device=device)
    steps = ebm.GradientSteps(ebm.Adam(0.01), n_epochs=2, batch_size=10)
    return ebm.fit(start, rows, loss=chains, solver=steps, penalty=0.01, rng=0)


def anneal(device):
    """A few chains of a restricted machine, there and back."""
    rng = np.random.default_rng(0)
    machine = ebm.RestrictedBoltzmannMachine(rng.normal(0, 0.1, (5, 4)), np.zeros(5), np.zeros(4))
    annealing = ebm.Annealing(20, 5, device=device)
    return ebm.sampling.BennettRatio(annealing).log_partition(machine, rng=0)


def small_action(device):
    z = torch.linspace(-1, 1, 12, device=device)[:, None]
    return ebm.networks.SoftmaxMLPAction(z, [0, 1] * 6, 2, prior_precision=0.1)


#: Owner and name of a function, what is changed in it, and what shows the change.
MUTANTS = [
    (_updates.Updates, "_loss", "device=device, dtype=dtype)", "dtype=dtype)", train),
    (_labelled_rows, "_picked", "rows.labels[index]", "rows.labels.cpu()[index.cpu()]", train),
    (_labelled_rows.Batches, "_orders", "order.to(rows.device)", "order", train),
    (_labelled_rows, "_present", "rows.weights.cpu().numpy()", "rows.weights.numpy()", train),
    (_labelled_rows.StoredRows, "blocks", "self.weights[part]", "self.weights.cpu()[part]", train),
    (training, "series_of", "theta.new_zeros(", "torch.zeros(", train),
    (_metrics, "_damped_inverse", ", device=metric.device", "", natural),
    (_metrics, "_softmax_pairs", ", device=a.device", "", natural),
    (_metrics.LayerMetric, "start", ", device=weight.device)\n", ")\n", natural),
    (_metrics.LayerMetric, "average", "roots.to(references)", "roots", natural),
    (
        _device_likelihood.DeviceLikelihood,
        "_part",
        "self._last_order[1]",
        "torch.tensor(order)",
        learn,
    ),
    (_device_likelihood.DeviceLikelihood, "load", "self._arrays.load(", "torch.tensor(", learn),
    (_device_likelihood.DeviceChains, "start", "self.arrays.load(", "torch.tensor(", learn),
    (_devices.DeviceArrays, "uniform", "numbers.to(self.device)", "numbers", learn),
    (_devices.DeviceArrays, "uniform", "numbers.to(self.device)", "numbers", anneal),
    (_devices.DeviceArrays, "read", ".cpu()", "", learn),
    (_devices.DeviceArrays, "read", ".cpu()", "", anneal),
]


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong", "run"), MUTANTS, ids=[name for _, name, *_ in MUTANTS]
)
def test_a_step_for_the_host_only_is_found(device, monkeypatch, owner, name, right, wrong, run):
    """One forgotten device at a time, in the library's own code; as it is, the run goes through."""
    run(device)
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert right in source
    names: dict[str, object] = {}
    monkeypatch.setattr(sys.modules[function.__module__], "torch", torch, raising=False)
    mutant = "from __future__ import annotations\n" + source.replace(right, wrong)
    exec(mutant, vars(sys.modules[function.__module__]), names)
    monkeypatch.setattr(owner, name, names[name])
    with pytest.raises((RuntimeError, TypeError), match=f"{TWO}|can't convert disguise:0"):
        run(device)


def test_a_device_that_holds_no_numbers_is_refused():
    with pytest.raises(EbmError, match="device must be one that torch can use here, got 'meta'"):
        _devices.chosen_device("meta")
