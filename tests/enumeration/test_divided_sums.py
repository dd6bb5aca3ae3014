"""Sums over states in jobs: the same bits wherever they are made, and nothing lost."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import ebm
from ebm.enumeration import _products, _two_layers
from ebm.errors import EbmError, EnumerationLimitError

N = 28


def machine(n=N, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 0.3, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.3, n))


@pytest.fixture
def short_jobs(monkeypatch):
    """Jobs of one block, of which this machine has two."""
    monkeypatch.setattr(_products, "STATES_OF_A_JOB", 2**26)


def numbers(ensemble):
    moments = ensemble.moments()
    draws = ensemble.sample(50, rng=1)
    return ensemble.log_partition, moments.mean, moments.covariance, draws


def check_equal(one, other):
    for first, second in zip(numbers(one), numbers(other), strict=True):
        np.testing.assert_array_equal(first, second)


def test_jobs_have_the_same_bits_on_any_engine_and_the_sum_of_all(short_jobs):
    here = ebm.exact(machine())
    for kind, n_workers in ((ThreadPoolExecutor, 3), (ProcessPoolExecutor, 1)):
        with kind(n_workers) as executor:
            check_equal(ebm.exact(machine(), executor=executor), here)
    check_equal(ebm.exact(machine(), n_jobs=1), here)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_products, "STATES_OF_A_JOB", 2**40)
        whole = ebm.exact(machine())
    assert here.log_partition == pytest.approx(whole.log_partition, rel=1e-14)
    np.testing.assert_allclose(here.moments().second, whole.moments().second, atol=1e-14)
    np.testing.assert_array_equal(here.sample(50, rng=1), whole.sample(50, rng=1))


def test_a_sum_that_died_goes_on_from_its_folder(short_jobs, tmp_path, monkeypatch):
    whole, made, job = ebm.exact(machine()), [], _products._job

    def counted(*parts):
        if len(made) == 1 and made[0] == (0, 1):
            raise KeyboardInterrupt
        made.append(parts[-1])
        return job(*parts)

    with monkeypatch.context() as patch:
        patch.setattr(_products, "_job", counted)
        with pytest.raises(KeyboardInterrupt):
            ebm.exact(machine(), checkpoint=tmp_path / "sum")
    made.clear()
    with monkeypatch.context() as patch:
        patch.setattr(_products, "_job", counted)
        check_equal(ebm.exact(machine(), checkpoint=tmp_path / "sum"), whole)
    assert made == [(1, 2)]
    with pytest.raises(EbmError, match="another energy function: the couplings"):
        ebm.exact(machine(seed=1), checkpoint=tmp_path / "sum")
    other = ebm.IsingModel(machine().weights, machine().biases)
    with pytest.raises(EbmError, match="another coding: units have other values"):
        ebm.exact(other, checkpoint=tmp_path / "sum")


def test_large_couplings_are_certified_or_summed_otherwise(short_jobs):
    """Weights of 10^300 between blocks: one job has them all, no other counts."""
    model = machine()
    fields = model.biases.copy()
    fields[-2:] = 400.0
    strong = ebm.BoltzmannMachine(model.weights, fields)
    ensemble = ebm.exact(strong)
    rest = ebm.exact(strong.given({N - 1: 1, N - 2: 1}))
    assert ensemble.log_partition == pytest.approx(rest.log_partition, rel=1e-13)


def test_costs_are_stated_for_the_engine_that_is_given():
    model = machine(44)
    with pytest.raises(EnumerationLimitError, match=r"73\.3 min.*executor= \(about 68\.7 s on 64"):
        ebm.exact(model, n_jobs=1)

    class Cluster(ThreadPoolExecutor):
        """One that says of itself that it is large."""

    with Cluster(1) as executor:
        executor._max_workers = 640
        with pytest.raises(EnumerationLimitError, match=r"about 6\.87 s"):
            ebm.exact(model, executor=executor, max_seconds=5)


def test_what_cannot_take_jobs_is_refused_before_work():
    with pytest.raises(EbmError, match="executor must have submit"):
        ebm.exact(machine(40), executor=2)
    with pytest.raises(EbmError, match="checkpoint must be the path of a folder"):
        ebm.exact(machine(3), checkpoint=5)
    with pytest.raises(EbmError, match="leave out executor and checkpoint"):
        ebm.exact(machine(3), device="cpu", executor=ThreadPoolExecutor(1))


def layers(n=18, m=17, seed=0, **settings):
    rng = np.random.default_rng(seed)
    parts = rng.normal(0, 0.3, (n, m)), rng.normal(0, 0.3, n), rng.normal(0, 0.3, m)
    return ebm.RestrictedBoltzmannMachine(*parts, **settings)


@pytest.fixture
def short_jobs_of_layers(monkeypatch):
    """Jobs of one block of 2^15 states, of which a layer of 17 units has four."""
    monkeypatch.setattr(_two_layers, "FACTORS_OF_A_JOB", 2**15 * 18)


@pytest.mark.parametrize(
    "model",
    [
        layers(),
        layers(17, 18),
        layers(units=(ebm.units.Spin(), ebm.units.Spin())),
    ],
    ids=["hidden", "visible", "spins"],
)
def test_sums_over_a_layer_have_the_same_bits_on_any_engine(model, short_jobs_of_layers):
    here = ebm.exact(model)
    for kind, n_workers in ((ThreadPoolExecutor, 3), (ProcessPoolExecutor, 1)):
        with kind(n_workers) as executor:
            check_equal(ebm.exact(model, executor=executor), here)
    check_equal(ebm.exact(model, n_jobs=1), here)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_two_layers, "FACTORS_OF_A_JOB", 2**60)
        whole = ebm.exact(model)
    assert here.log_partition == pytest.approx(whole.log_partition, rel=1e-14)
    np.testing.assert_allclose(here.moments().second, whole.moments().second, atol=1e-13)
    np.testing.assert_array_equal(here.sample(50, rng=1), whole.sample(50, rng=1))


def test_a_sum_over_a_layer_goes_on_from_its_folder(short_jobs_of_layers, tmp_path, monkeypatch):
    whole, made, job = ebm.exact(layers()), [], _two_layers._job

    def counted(*parts):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(parts[-1])
        return job(*parts)

    monkeypatch.setattr(_two_layers, "_job", counted)
    with pytest.raises(KeyboardInterrupt):
        ebm.exact(layers(), checkpoint=tmp_path / "sum")
    made.clear()
    check_equal(ebm.exact(layers(), checkpoint=tmp_path / "sum"), whole)
    assert made == [(3, 4)]
    with pytest.raises(EbmError, match="another energy function"):
        ebm.exact(layers(seed=1), checkpoint=tmp_path / "sum")


ONE_JOB = {
    "counts": ebm.KPairwiseModel(np.zeros((5, 5)), np.zeros(5), np.arange(6) / 5),
    "terms": ebm.InteractionModel({(0, 1, 2): 0.3, (1, 3): 0.2}, ebm.Spins(4)),
    "tables": ebm.TabularModel(np.arange(8.0), ebm.Binary(3)),
}


@pytest.mark.parametrize("kind", ONE_JOB)
def test_sums_that_are_one_job_say_so(kind, tmp_path):
    """Silence would be a setting without effect."""
    with ThreadPoolExecutor(1) as executor:
        for where in ({"executor": executor}, {"checkpoint": tmp_path / "sum"}):
            with pytest.warns(ebm.EbmWarning, match="this sum is one job, which was made here"):
                ebm.exact(ONE_JOB[kind], **where)
