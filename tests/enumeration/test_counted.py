"""Exact sums with a potential of the number of active units, by three products cut by ones."""

import numpy as np
import pytest

import ebm
from ebm.enumeration import _counted_products, exact
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._count_covariance import sums_of_supersets
from ebm.enumeration._count_ensemble import CountedEnumeration
from ebm.enumeration._limits import Limits
from ebm.enumeration._splitting import split
from ebm.errors import EnumerationLimitError
from ebm.forms import TermForm
from ebm.observables import population_count
from tests.models.test_k_pairwise import random_model


def by_states(model):
    """The same ensemble, its states one by one."""
    return BlockedEnumeration(model, model.space, Limits())


@pytest.mark.parametrize("n", [3, 4, 5, 8, 11, 13])
def test_products_give_what_states_one_by_one_give(n):
    model = random_model(n, n)
    fast, slow = exact(model), by_states(model)
    assert isinstance(fast, CountedEnumeration)
    assert fast.log_partition == pytest.approx(slow.log_partition, abs=1e-12)
    np.testing.assert_allclose(fast.moments().second, slow.moments().second, atol=1e-13)
    np.testing.assert_allclose(population_count(fast), population_count(slow), atol=1e-13)
    assert fast.entropy() == pytest.approx(slow.entropy(), abs=1e-11)
    np.testing.assert_allclose(fast.weights, slow.weights, atol=1e-14)


def test_units_that_are_fixed_block_by_block_count(monkeypatch):
    monkeypatch.setattr(_counted_products, "split", lambda space: split(space, 2, 4))
    model = random_model(9, 1)
    fast, slow = exact(model), by_states(model)
    assert fast._products.parts.fixed.size == 8
    assert fast.log_partition == pytest.approx(slow.log_partition, abs=1e-12)
    np.testing.assert_allclose(fast.moments().second, slow.moments().second, atol=1e-13)
    np.testing.assert_allclose(population_count(fast), population_count(slow), atol=1e-13)
    draws = fast.sample(100_000, rng=0)
    shares = np.bincount(draws.sum(axis=1).astype(int), minlength=10) / len(draws)
    assert np.abs(shares - population_count(slow)).max() < 6e-3


def test_a_potential_read_off_by_one_is_wrong(monkeypatch):
    """The mutant: the ones of the rows are left out of K."""
    model = random_model(6, 2)
    right = exact(model).log_partition

    def weigh(out, tables, gains, groups):
        rows, middle, columns = groups
        flat = rows._replace(runs=tuple((0, run) for _, run in rows.runs))
        return summed(out, tables, gains, (flat, middle, columns))

    summed = _counted_products._summed
    monkeypatch.setattr(_counted_products, "_summed", weigh)
    assert abs(exact(model).log_partition - right) > 0.1


def test_spins_and_users_models_of_a_count_have_products_as_well():
    class Crowd(ebm.EnergyModel):
        space = ebm.Spins(6)

        def energy(self, states):
            s = np.asarray(states)
            active = (s > 0).sum(axis=-1)
            return -0.4 * s[..., 0] * s[..., 1] - 0.2 * s[..., 2] - 0.1 * active**2 + 1.5

        def term_form(self):
            return TermForm({(0, 1): 0.4, (2,): 0.2}, 1.5, 0.1 * np.arange(7) ** 2)

    fast, slow = exact(Crowd()), by_states(Crowd())
    assert isinstance(fast, CountedEnumeration)
    assert fast.log_partition == pytest.approx(slow.log_partition, abs=1e-12)
    np.testing.assert_allclose(fast.moments().covariance, slow.moments().covariance, atol=1e-13)
    np.testing.assert_allclose(population_count(fast), population_count(slow), atol=1e-13)


def test_without_a_potential_it_is_the_pairwise_model():
    model = random_model(12, 3)
    pairs = ebm.BoltzmannMachine(model.weights, model.biases)
    flat = ebm.KPairwiseModel(model.weights, model.biases, np.zeros(13))
    assert exact(flat).log_partition == pytest.approx(exact(pairs).log_partition, abs=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e7])
def test_large_numbers_are_summed_one_by_one(size):
    model = random_model(6, 4).scaled(size)
    reference = by_states(model)
    assert exact(model).log_partition == pytest.approx(reference.log_partition, rel=1e-13)


def test_draws_follow_the_distribution():
    model = random_model(5, 5)
    ensemble = exact(model)
    draws = ensemble.sample(200_000, rng=1).astype(int)
    shares = np.bincount(draws @ 2 ** np.arange(4, -1, -1), minlength=32) / len(draws)
    assert np.abs(shares - ensemble.weights).max() < 5e-3


@pytest.mark.parametrize("n", [3, 5, 8])
def test_covariances_of_pairs_and_counts_are_those_over_all_states(n):
    ensemble = exact(random_model(n, n + 20))
    x = ensemble.states
    i, j = np.triu_indices(n, 1)
    counts = x.sum(axis=1)[:, None] == np.arange(n + 1)
    features = np.concatenate([x, x[:, i] * x[:, j], counts], axis=1)
    mean = ensemble.weights @ features
    expected = (features.T * ensemble.weights) @ features - np.outer(mean, mean)
    np.testing.assert_allclose(ensemble.counted_covariance(), expected, atol=1e-14)


def test_sums_of_supersets_are_probabilities_that_units_are_active():
    ensemble = exact(random_model(4, 9))
    sums, x = sums_of_supersets(ensemble.weights, 4), ensemble.states
    for number, units in enumerate(x.astype(bool)):
        assert sums[number] == pytest.approx(ensemble.weights[x[:, units].all(axis=1)].sum())


def test_too_many_units_are_refused_before_the_work():
    with pytest.raises(EnumerationLimitError, match=r"2\^60 states"):
        exact(random_model(60, 0))
