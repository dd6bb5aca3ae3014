"""Everything runs where its tensors are, and gives what the host gives.

On a GPU where there is one, and anywhere on a device in disguise, which finds steps for the host.
"""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm
import ebm.networks
from ebm.networks import RowSettings
from tests.device_in_disguise import device_in_disguise, needs_disguise
from tests.networks.natural_twin import natural_gradient
from tests.networks.systems import minimize

nn = torch.nn
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@pytest.fixture(
    params=[pytest.param("disguise", marks=needs_disguise), pytest.param("cuda", marks=needs_cuda)]
)
def device(request):
    """Another device than that of the host."""
    if request.param == "cuda":
        yield torch.device("cuda", 0)
    else:
        with device_in_disguise() as opened:
            yield opened


def numbers(*shape, seed=0):
    """Normal numbers, on the host."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


LABELS = torch.arange(12) % 3


def pair(device, activation="silu", **settings):
    """The same action there and on the host, and θ on the host."""
    z = numbers(12, 2)
    settings = {"n_hidden": 3, "activation": activation, "prior_precision": 0.2, **settings}
    there = ebm.networks.SoftmaxMLPAction(z.to(device), LABELS.to(device), **settings)
    here = ebm.networks.SoftmaxMLPAction(z, LABELS, **settings)
    return there, here, 0.3 * numbers(here.space.n, seed=1)


def same(there, here, device):
    """The numbers of the host, on the device."""
    assert there.device == device
    torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", sorted(ebm.networks.ACTIVATIONS))
def test_the_action_its_gradient_and_its_series(device, activation):
    """Tensors on the device; arrays come from the host and go back there."""
    action, host, theta = pair(device, activation)
    moved = theta.to(device)
    for evaluate in ("action", "energy", "state_gradient"):
        same(getattr(action, evaluate)(moved), getattr(host, evaluate)(theta), device)
        same(
            getattr(action, evaluate)(torch.stack([moved, -moved])),
            getattr(host, evaluate)(torch.stack([theta, -theta])),
            device,
        )
        array = getattr(action, evaluate)(theta.numpy())
        np.testing.assert_allclose(array, getattr(host, evaluate)(theta.numpy()), rtol=1e-9)
    leaves = moved.clone().requires_grad_(), theta.clone().requires_grad_()
    expansions = [x.expand(0.2 * y, 5) for x, y in zip((action, host), leaves, strict=True)]
    for expansion in expansions:
        expansion.coefficients.sum().backward()
    same(expansions[0].coefficients, expansions[1].coefficients, device)
    same(leaves[0].grad, leaves[1].grad, device)
    assert expansions[0].radius == pytest.approx(expansions[1].radius, rel=1e-6)
    same(expansions[0].partial_sums(), expansions[1].partial_sums(), device)
    terms = expansions[1].terms
    assert expansions[0].terms == pytest.approx(dict(terms), rel=1e-9, abs=1e-12)


def test_blocks_that_are_computed_anew_for_the_gradient(device, monkeypatch):
    """Five rows at a time."""
    monkeypatch.setattr(ebm.networks.action._energy, "BLOCK_BYTES", 5 * 3 * 8)
    action, host, theta = pair(device)
    leaf, other = theta.to(device).requires_grad_(), theta.clone().requires_grad_()
    assert action.block_size() == 5
    action.action(leaf).backward()
    host.action(other).backward()
    same(leaf.grad, other.grad, device)


def test_derivatives_at_zero(device):
    """Arrays of the host, from vectors of either."""
    action, host, theta = pair(device, "softplus")
    vector, u = theta.numpy(), np.linspace(-1, 1, len(theta))
    for kind in (ebm.networks.ActionHessian, ebm.networks.ActionThirdDerivatives):
        there, here = kind(action), kind(host)
        np.testing.assert_allclose(there.dense(), here.dense(), rtol=1e-10, atol=1e-12)
        if kind is ebm.networks.ActionThirdDerivatives:
            there, here = there.along(theta.to(device)), here.along(vector)
            np.testing.assert_allclose(there.diagonal(), here.diagonal(), rtol=1e-10, atol=1e-12)
        for v in (u, torch.from_numpy(u).to(device)):
            np.testing.assert_allclose(there @ v, here @ u, rtol=1e-10, atol=1e-12)


def test_moments_probabilities_and_modules(device):
    action, host, theta = pair(device)
    moved = theta.to(device)
    np.testing.assert_allclose(
        ebm.networks.class_moments(action, 2), ebm.networks.class_moments(host, 2)
    )
    np.testing.assert_allclose(
        ebm.networks.main_terms(action, moved, 4), ebm.networks.main_terms(host, theta, 4)
    )
    rows = numbers(5, 2, seed=3)
    same(
        ebm.networks.probabilities(action, moved, rows.to(device)),
        ebm.networks.probabilities(host, theta, rows),
        device,
    )
    network = ebm.networks.as_module(action, moved)
    same(ebm.networks.parameters_of(network), theta, device)
    base = 0.1 * theta
    S = ebm.networks.series(network, rows, LABELS[:5], 4, base=base)
    host_network = ebm.networks.as_module(host, theta)
    same(S, ebm.networks.series(host_network, rows, LABELS[:5], 4, base=base), device)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd", "lr": lambda step: 0.1 / (1 + step), "series_order": 3},
        {"optimizer": "momentum", "batch_size": 5},
        {"optimizer": "adam", "batch_size": 5, "monitor_every": 1},
        {"optimizer": "adamw"},
        {"optimizer": "rmsprop"},
        {"optimizer": "lbfgs"},
        {
            "optimizer": lambda network: natural_gradient(network, lr=0.01, period=1),
            "batch_size": 5,
        },
        {"batch_size": 5, "validation": (numbers(6, 2, seed=4), LABELS[:6]), "patience": 1},
    ],
    ids=lambda settings: str(settings.get("optimizer", "patience")).split(" ")[0],
)
def test_training(device, settings):
    """Batches, records, stopping early: the same path as on the host."""
    action, host, theta = pair(device)
    run = {"n_epochs": 3, "rng": 1, **settings}
    there, here = minimize(action, theta.to(device), **run), minimize(host, theta, **run)
    assert there.theta.device == device
    torch.testing.assert_close(there.last_theta.cpu(), here.last_theta, rtol=1e-6, atol=1e-8)
    assert there.n_steps == here.n_steps
    np.testing.assert_allclose(
        there.curve("training_action"), here.curve("training_action"), rtol=1e-6
    )


def test_a_checkpoint_is_taken_up_where_it_was_left(device, tmp_path):
    """On the device, to the same bits."""
    action, _, theta = pair(device)
    settings = {"batch_size": 5, "rng": 1, "validation": (numbers(6, 2), LABELS[:6])}
    moved, path = theta.to(device), tmp_path / "run.pt"
    whole = minimize(action, moved, n_epochs=4, **settings)
    half = minimize(action, moved, n_epochs=2, checkpoint=path, **settings)
    rest = minimize(action, moved, n_epochs=4, checkpoint=path, **settings)
    assert half.n_steps < rest.n_steps == whole.n_steps
    assert torch.equal(rest.theta, whole.theta)
    assert rest.theta.device == device


def test_mixed_precision(device):
    """Products in bfloat16, all else in float32; in disguise they stay as they are."""
    action = ebm.networks.SoftmaxMLPAction(numbers(12, 2).float().to(device), LABELS, 3)
    result = minimize(action, n_epochs=2, rng=0, mixed_precision=True)
    assert np.isfinite(result.theta).all()


def test_rows_of_the_host_stream_to_the_device(device, tmp_path):
    """A loader, a memory map, weights: only blocks go there."""
    z = numbers(12, 2)
    np.save(tmp_path / "z.npy", z.numpy())
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(z, LABELS), batch_size=5)
    weights = torch.arange(12.0)
    for inputs, labels, weight in (
        (loader, None, None),
        (mapped, LABELS, weights.to(device)),
        (z, LABELS.to(device), weights),
    ):
        kinds = [
            ebm.networks.SoftmaxMLPAction(
                inputs,
                labels,
                3,
                settings=RowSettings(sample_weight=weight, device=place),
            )
            for place in (device, "cpu")
        ]
        start = 0.3 * numbers(kinds[0].space.n, seed=1)
        there, here = (minimize(x, start, n_epochs=2, batch_size=4, rng=0) for x in kinds)
        torch.testing.assert_close(there.theta.cpu(), here.theta, rtol=1e-6, atol=1e-8)


def natural_path(device, layers, blocks):
    """Parameters after some steps along relative metrics, from a warm start and a saved state."""
    torch.manual_seed(0)
    model = nn.Sequential(*layers()).double().to(device)
    rows, labels = numbers(12, 2).to(device), LABELS.to(device)
    settings = {"lr": 0.05, "period": 2, "decay": 0.3, "weight_decay": 0.01, "blocks": blocks}
    optimizer = natural_gradient(model, **settings)
    optimizer.warm_start([rows])
    for step in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
        if step == 1:
            state = optimizer.state_dict()
            optimizer = natural_gradient(model, **settings)
            optimizer.load_state_dict(state)
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]), optimizer.metric("0")


@pytest.mark.parametrize("blocks", [None, "neuron", "shared", {"3": "softmax"}], ids=str)
@pytest.mark.parametrize(
    "layers",
    [
        lambda: (nn.Linear(2, 4), nn.Tanh(), nn.Identity(), nn.Linear(4, 3)),
        lambda: (nn.Linear(2, 4), nn.BatchNorm1d(4), nn.SiLU(), nn.Linear(4, 3)),
    ],
    ids=["tanh", "normalized silu"],
)
def test_relative_natural_gradient(device, layers, blocks):
    """Metrics, inverses and steps of each kind of block."""
    for there, here in zip(
        natural_path(device, layers, blocks), natural_path("cpu", layers, blocks), strict=True
    ):
        assert there.device == device
        torch.testing.assert_close(there.cpu(), here, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "sampler", [ebm.HamiltonianMonteCarlo(0.05, 2), ebm.Langevin(0.01)], ids=["hybrid", "langevin"]
)
@pytest.mark.filterwarnings("ignore::ebm.errors.PoorMixingWarning")
def test_chains_over_the_parameters(device, sampler):
    """States and proposals stay on the device; what is recorded comes to the host."""
    action, host, _ = pair(device, scale=12.0)
    places = []

    def observe(system):
        def seen(theta):
            places.append(getattr(theta, "device", None))
            return system.action(theta)

        return ebm.sampling.SamplingRun(observe=seen)

    settings = {"n_draws": 3, "n_chains": 2, "rng": 0, "burn_in": 2}
    there, here = (
        ebm.sample(system, sampler, run=observe(system), **settings) for system in (action, host)
    )
    assert set(places[:3]) == {device}
    assert not any(isinstance(place, torch.device) for place in places[3:])
    assert isinstance(there.final.states, np.ndarray)
    assert there.values.shape == here.values.shape
    # A device in disguise has no generator and takes the numbers of the host.
    if device.type == "disguise":
        np.testing.assert_allclose(there.values, here.values, rtol=1e-6)
        np.testing.assert_allclose(there.final.states, here.final.states, rtol=1e-6)
    longer = {**settings, "n_draws": 5}
    whole = ebm.sample(action, sampler, run=observe(action), **longer)
    rest = ebm.sample(action, sampler, n_draws=2, initial=there.final, run=observe(action))
    np.testing.assert_allclose(whole.values[:, 3:], rest.values, rtol=1e-6)


def test_the_generator_of_a_device_goes_on_where_it_was():
    """On the host's own device, which every torch has a generator for."""
    from ebm.networks.action._device_arithmetic import DeviceArithmetic

    def place(stream=None):
        return DeviceArithmetic(
            np.random.default_rng(0), torch.float32, torch.device("cpu"), stream
        )

    first = place()
    assert first.normal((400, 50)).dtype == torch.float32
    stream = first.stream()
    later = place(stream["device"])
    for draw in (lambda x: x.normal((3, 2)), lambda x: x.uniform(4), lambda x: x.jitter()):
        torch.testing.assert_close(draw(first), draw(later), rtol=0, atol=0)
    numbers = place().normal((400, 50))
    assert abs(float(numbers.mean())) < 5 / np.sqrt(20000)
    assert abs(float(numbers.square().mean()) - 1) < 5 * np.sqrt(2 / 20000)


def test_chains_on_tensors_sample_what_chains_on_arrays_do(monkeypatch):
    """The virial theorem, E[θ·∂E/∂θ] = d, by a generator of torch."""
    from ebm.networks.action._device_arithmetic import DeviceArithmetic

    _, host, _ = pair("cpu", scale=12.0)
    kind = type(host)
    monkeypatch.setattr(
        kind,
        "_chain_arithmetic",
        lambda self, source, stream: DeviceArithmetic(source, self.dtype, self.device, stream),
    )
    run = ebm.sampling.SamplingRun(
        observe=lambda theta: (theta * host.state_gradient(theta)).sum(-1)
    )
    samples = ebm.sample(
        host, ebm.HamiltonianMonteCarlo(0.15, 8), n_draws=300, n_chains=20, rng=1, run=run
    )
    assert 0.5 < samples.acceptance.mean() < 1
    assert abs(samples.mean - host.space.n) < 4 * samples.standard_error
