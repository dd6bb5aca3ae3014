"""Population annealing: ln Z and means against enumeration, families, and what it refuses."""

import warnings

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError, PoorWeightsWarning
from ebm.sampling.populations import resampled
from tests.statistical import check_mean, check_z_scores
from tests.user_models import HardCore


def glass(n=12, seed=0):
    couplings = np.triu(np.random.default_rng(seed).normal(0, 1 / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(couplings + couplings.T, np.zeros(n)).scaled(2.0)


SMALL = ebm.PopulationAnnealing(n_members=800, n_steps=20)


def test_ln_z_lies_about_the_exact_one_as_its_error_says():
    model = glass()
    samples = [SMALL.run(model, rng=seed) for seed in range(30)]
    # Ten populations: Student's t with nine degrees has the variance 9/7.
    errors = np.array([each.log_partition_error for each in samples]) * np.sqrt(9 / 7)
    truth = ebm.exact(model).log_partition
    check_z_scores([each.log_partition for each in samples], truth, errors)


@pytest.mark.parametrize(
    "model",
    [
        glass(6).to_binary(),
        ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.arange(9.0).reshape(3, 3) / 4),
        ebm.RestrictedBoltzmannMachine(np.full((4, 3), 0.7), -np.ones(4), -np.ones(3)),
        HardCore([0.5, 0.0, 1.0]),
    ],
    ids=["pairs", "levels", "layers", "forbidden states"],
)
def test_every_kind_of_model(model):
    settings = ebm.PopulationAnnealing(n_members=400, n_populations=40, n_steps=5, sweeps=2)
    samples = settings.run(model, rng=1)
    exact = ebm.exact(model)
    check_mean(np.exp(samples.log_partitions - exact.log_partition), 1.0)
    of_populations = samples.states.astype(float).mean(axis=1)
    check_mean(of_populations[:, 0], exact.expectation(lambda x: x)[0])


def test_z_is_unbiased_with_few_steps():
    """The mean of Z over populations is right even where ln Z of each is far off."""
    model = glass(8).scaled(1.5)
    settings = ebm.PopulationAnnealing(n_members=10, n_populations=4000, n_steps=3)
    with pytest.warns(PoorWeightsWarning):
        samples = settings.run(model, rng=0)
    truth = ebm.exact(model).log_partition
    check_mean(np.exp(samples.log_partitions - truth), 1.0)
    with pytest.raises(AssertionError):
        check_mean(samples.log_partitions, truth)


def test_members_are_taken_by_weight():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    counts, rng = np.zeros((2, 4)), np.random.default_rng(0)
    for _ in range(4000):
        chosen, log_means = resampled(log_weights, rng)
        rows = [np.bincount(row, minlength=4) for row in chosen]
        # Rounded up or down, never further.
        assert (abs(np.array(rows) - 4 * weights) < 1).all()
        counts += rows
    assert np.exp(log_means) == pytest.approx([0.25, 0.25])
    assert counts / 4000 == pytest.approx(4 * weights, abs=0.03)


def test_families_are_counted():
    samples = SMALL.run(glass(), rng=0)
    shares = [np.unique(row, return_counts=True)[1] / 800 for row in samples.families]
    assert samples.family_size == pytest.approx([800 * (share**2).sum() for share in shares])
    assert samples.sample_size < 10 * 800 / samples.family_size.min()


def test_too_few_families_are_no_error():
    settings = ebm.PopulationAnnealing(n_members=100, n_steps=2)
    with pytest.warns(PoorWeightsWarning, match="families"):
        samples = settings.run(glass(16).scaled(3.0), rng=0)
    assert np.isnan(samples.log_partition_error)


def test_too_few_populations_are_no_error():
    samples = ebm.PopulationAnnealing(n_members=500, n_populations=9, n_steps=20).run(glass(), 0)
    assert np.isnan(samples.log_partition_error)


def test_the_same_bits_again():
    one, other = (SMALL.run(glass(), rng=5) for _ in range(2))
    assert np.array_equal(one.states, other.states)
    assert np.array_equal(one.log_partitions, other.log_partitions)


@pytest.mark.parametrize(
    "settings",
    [dict(n_members=1), dict(n_populations=0), dict(n_steps=0), dict(schedule=[0, 0.5])],
)
def test_settings_out_of_range(settings):
    with pytest.raises(EbmError):
        ebm.PopulationAnnealing(**settings)


def test_no_copies():
    with pytest.raises(ModelError, match="copies"):
        ebm.PopulationAnnealing(sampler=ebm.ParallelTempering())


def test_the_mean_of_ln_z_over_populations_bounds_it_from_below():
    """Few steps tell the bound from ln of the mean."""
    model = glass().scaled(2.0)
    settings = ebm.PopulationAnnealing(n_members=30, n_populations=200, n_steps=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoorWeightsWarning)
        found = ebm.log_partition(model, settings, rng=0)
    truth, lower = ebm.exact(model).log_partition, found.lower
    assert lower.value < found.value
    assert lower.value < truth + 4 * lower.standard_error
    assert found.upper is None
    alone = ebm.PopulationAnnealing(n_members=30, n_populations=1, n_steps=4)
    assert ebm.log_partition(model, alone, rng=0).lower is None
