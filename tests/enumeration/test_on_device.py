"""The three products in torch: the numbers of the numpy route, on the CPU and in disguise."""

import inspect
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip("torch")

import ebm
from ebm.enumeration import _on_device
from ebm.errors import EnumerationLimitError, ModelError
from tests.device_in_disguise import device_in_disguise, needs_disguise
from tests.enumeration.adversaries import two_mode_adversary, underflow_adversary


def dense_model(n, strength=1.0, kind=ebm.BoltzmannMachine):
    rng = np.random.default_rng(n)
    a = np.triu(rng.normal(size=(n, n)), 1) * strength
    return kind(a + a.T, rng.normal(size=n) * strength)


def potts():
    rng = np.random.default_rng(3)
    couplings = rng.normal(size=(8, 8, 3, 3))
    couplings = couplings + couplings.transpose(1, 0, 3, 2)
    couplings[np.arange(8), np.arange(8)] = 0
    return ebm.PottsModel(couplings, rng.normal(size=(8, 3)))


def check_against_numpy(model, device):
    numpy, torch = ebm.exact(model), ebm.exact(model, device=device)
    assert torch._parts is not None
    scale = max(1.0, abs(numpy.log_partition))
    assert abs(torch.log_partition - numpy.log_partition) < 1e-12 * scale
    for name in ("mean", "covariance"):
        np.testing.assert_allclose(
            getattr(torch.moments(), name), getattr(numpy.moments(), name), rtol=0, atol=1e-12
        )
    assert torch.entropy() == pytest.approx(numpy.entropy(), rel=1e-11, abs=1e-11)


@pytest.fixture(params=["cpu", pytest.param("disguise", marks=needs_disguise)])
def device(request):
    if request.param == "cpu":
        yield "cpu"
    else:
        with device_in_disguise() as opened:
            yield opened


MODELS = {
    "dense": dense_model(14),
    "spins": dense_model(15, 0.3, ebm.IsingModel),
    "strong": dense_model(16, 30.0),
    "levels": potts(),
    "centered": ebm.BoltzmannMachine(np.ones((13, 13)) - np.eye(13), np.ones(13), center=0.5),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_numbers_are_those_of_numpy(device, name):
    check_against_numpy(MODELS[name], device)


def test_blocks_of_fixed_units_add_up(device, monkeypatch):
    """Small groups leave many units fixed, more than come back together."""
    monkeypatch.setattr(_on_device, "BITS_ON_CPU", 2)
    monkeypatch.setattr(_on_device, "BITS_ON_DEVICE", 2)
    model = dense_model(13)
    check_against_numpy(model, device)
    answer = ebm.exact(model, device=device)
    assert answer._parts.fixed.size == 2**7
    assert "three matrix products on" in answer.route


def test_energies_that_need_a_potential_are_certified(device):
    model = underflow_adversary()
    answer = ebm.exact(model, device=device)
    assert answer._with_potential
    assert answer.log_partition == pytest.approx(32005.54517744448, rel=1e-14)


def test_what_no_potential_certifies_is_summed_on_the_host(device):
    answer = ebm.exact(two_mode_adversary(), device=device)
    assert answer._parts is None
    assert "on the host" in answer.route
    assert answer.log_partition == pytest.approx(160000 + 5 * np.log(2), rel=1e-14)


def test_draws_follow_the_distribution(device):
    model = dense_model(13, 0.5)
    draws = ebm.exact(model, device=device).sample(20000, rng=1)
    exact = ebm.exact(model).moments()
    np.testing.assert_allclose(draws.mean(axis=0), exact.mean, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), exact.covariance, atol=0.02)


def test_limits_are_stated_before_work():
    with pytest.raises(EnumerationLimitError, match=r"2\^80 states on a device would take about"):
        ebm.exact(dense_model(80), device="cpu")
    with pytest.raises(EnumerationLimitError, match=r"2\^32 states on cpu would take about"):
        ebm.exact(dense_model(32, 0.1), device="cpu", max_seconds=0.01)


@pytest.mark.parametrize(
    ("model", "settings", "error", "words"),
    [
        (dense_model(13), {"device": "nowhere"}, ebm.EbmError, "device must be one that torch"),
        (dense_model(13), {"device": 3.5}, ebm.EbmError, "device must be one that torch"),
        (dense_model(13), {"device": "cpu", "n_jobs": 2}, ebm.EbmError, "n_jobs is the number"),
        (ebm.TabularModel(np.zeros(4), ebm.Binary(2)), {"device": "cpu"}, ModelError, "no such"),
    ],
)
def test_refusals_say_what_to_do(model, settings, error, words):
    with pytest.raises(error, match=words):
        ebm.exact(model, **settings)


def test_a_device_that_is_absent_is_named():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(ebm.EbmError, match=r"got 'cuda'.*device='cpu'"):
        ebm.exact(dense_model(13), device="cuda")


MUTANTS = [
    ("matrices", "self._logs[2] + a[:, None] + c", "self._logs[2] + a[:, None]"),
    ("matrices", "log_r + of_rows + of_columns", "log_r + of_rows"),
    ("_block", "(f.T @ r)", "(f.T @ f @ g)"),
    ("_block", "second[-1, -1] * state", "state"),
    ("_block", "(1, 2, (g", "(1, 2, 2 * (g"),
]


@pytest.mark.parametrize(("name", "right", "wrong"), MUTANTS, ids=[m[2] for m in MUTANTS])
def test_a_wrong_formula_is_found(monkeypatch, name, right, wrong):
    monkeypatch.setattr(_on_device, "BITS_ON_CPU", 3)
    model = dense_model(13)
    check_against_numpy(model, "cpu")
    source = textwrap.dedent(inspect.getsource(getattr(_on_device.DeviceFactors, name)))
    assert right in source
    names: dict[str, object] = {}
    mutant = "from __future__ import annotations\n" + source.replace(right, wrong)
    exec(mutant, vars(sys.modules[_on_device.__name__]), names)
    monkeypatch.setattr(_on_device.DeviceFactors, name, names[name])
    with pytest.raises((AssertionError, RuntimeError)):
        check_against_numpy(model, "cpu")


@needs_disguise
def test_a_table_left_on_the_host_is_found(monkeypatch):
    import torch

    monkeypatch.setattr(
        _on_device.DeviceFactors, "_sent", lambda self, x: torch.from_numpy(np.array(x))
    )
    with device_in_disguise() as device, pytest.raises(RuntimeError, match="same device"):
        ebm.exact(underflow_adversary(), device=device)
