"""Observables against their definitions, summed state by state."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebm import observables
from ebm.ensembles import Ensemble
from ebm.enumeration import exact
from ebm.errors import CodingError, EnumerationLimitError, ShapeError
from ebm.models import BoltzmannMachine, IsingModel, TabularModel
from ebm.spaces import Binary, Levels, Spins
from tests.strategies import pairwise_models

MACHINES = settings(max_examples=25, deadline=None)


def enumerated(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Activities and probabilities of all states, from the energy alone."""
    states = model.space.states_at(np.arange(2**model.n))
    weights = np.exp(-model.energy(states))
    return (states > 0).astype(float), weights / weights.sum()


def as_table(model: Any) -> Any:
    """The same distribution without the structure that allows shortcuts."""
    states = model.space.states_at(np.arange(2**model.n))
    return TabularModel(model.energy(states), model.space)


@given(pairwise_models(max_units=6))
@MACHINES
def test_third_moments_by_both_routes(model: Any) -> None:
    x, p = enumerated(model)
    wanted = [
        float(p @ (x[:, i] * x[:, j] * x[:, k])) for i, j, k in combinations(range(model.n), 3)
    ]
    for ensemble in (exact(model), exact(as_table(model))):
        assert np.allclose(observables.third_moments(ensemble), wanted, rtol=1e-10, atol=1e-14)


@given(pairwise_models(max_units=6))
@MACHINES
def test_population_count_by_both_routes(model: Any) -> None:
    x, p = enumerated(model)
    count = x.sum(axis=1)
    wanted = [float(p[count == k].sum()) for k in range(model.n + 1)]
    for ensemble in (exact(model), exact(as_table(model))):
        assert np.allclose(observables.population_count(ensemble), wanted, rtol=1e-10, atol=1e-14)


@given(pairwise_models(min_units=3, max_units=6))
@MACHINES
def test_connected_moments_and_their_deviations(model: Any) -> None:
    x, p = enumerated(model)
    d = x - p @ x
    moments = exact(model).moments()
    pairs = observables.central_pairs(moments)
    third = observables.third_moments(exact(model))
    for order, (value, deviation) in (
        (2, pairs),
        (3, observables.central_triples(moments, third)),
    ):
        products = [d[:, list(units)].prod(axis=1) for units in combinations(range(model.n), order)]
        means = np.array([p @ f for f in products])
        variances = np.array([p @ (f - m) ** 2 for f, m in zip(products, means, strict=True)])
        assert np.allclose(value, means, rtol=1e-9, atol=1e-13)
        assert np.allclose(deviation**2, variances, rtol=1e-9, atol=1e-13)


def test_deviations_of_constant_units_are_zero_not_nan() -> None:
    data = Ensemble.from_data([[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0]])
    moments = data.moments()
    third = observables.third_moments(data)
    for value, deviation in (
        observables.central_pairs(moments),
        observables.central_triples(moments, third),
    ):
        assert value.tolist() == [0] * len(value)
        assert deviation.tolist() == [0] * len(value)


def test_int8_data_do_not_wrap() -> None:
    states = np.ones((300, 130), dtype=np.int8)
    data = Ensemble.from_data(states)
    assert observables.population_count(data)[130] == pytest.approx(1)
    assert np.allclose(observables.third_moments(data), 1)


def test_population_count_at_large_couplings_is_finite() -> None:
    weights = 1000 * np.ones((5, 5))
    p = observables.population_count(exact(BoltzmannMachine(weights, np.full(5, -2500.0))))
    # E(K) = −500 K² + 2500 K up to a constant: none or all active, equally likely.
    assert np.allclose(p, [0.5, 0, 0, 0, 0, 0.5])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_independent_population_count_is_that_of_uncoupled_units(rates: list[float]) -> None:
    p = observables.independent_population_count(rates)
    states = Binary(len(rates)).states_at(np.arange(2 ** len(rates)))
    weights = np.where(states == 1, rates, 1 - np.array(rates)).prod(axis=1)
    wanted = np.bincount(states.sum(axis=1).astype(int), weights)
    assert np.allclose(p, wanted, atol=1e-14)


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=6))
def test_independent_entropy_is_that_of_uncoupled_units(rates: list[float]) -> None:
    p = np.array(rates)
    machine = BoltzmannMachine(np.zeros((len(p), len(p))), np.log(p / (1 - p)))
    wanted = exact(machine).entropy(base=2)
    assert observables.independent_entropy(rates) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_constant_units_have_no_entropy(rate: float) -> None:
    assert observables.independent_entropy([rate, 0.5]) == 1.0


@pytest.mark.parametrize("rate", [1e-3, 1e-10, 1e-20, 1e-200])
def test_entropy_of_a_rare_unit_has_both_its_terms(rate: float) -> None:
    """−p ln p + p − p²/2 − …; the second one is the chance of being off."""
    off = rate - rate**2 / 2 - rate**3 / 6 - rate**4 / 12
    wanted = (-rate * np.log(rate) + off) / np.log(2)
    assert observables.independent_entropy([rate]) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e10])
def test_observables_of_tied_states_at_any_size_of_the_couplings(scale: float) -> None:
    """Two states of opposite spins, whichever way an Ising model is written over {0,1}."""
    couplings = scale * (np.array([[0, 1, 0.3], [1, 0, 0.7], [0.3, 0.7, 0]])) * 40
    ensemble = exact(IsingModel(couplings, [0.0, 0.0, 0.0]))
    np.testing.assert_allclose(
        observables.population_count(ensemble), [0.5, 0, 0, 0.5], rtol=1e-12, atol=1e-15
    )
    third = observables.third_moments(ensemble)
    np.testing.assert_allclose(third, 0.5, rtol=1e-12)


def test_activity_is_refused_for_other_units() -> None:
    with pytest.raises(CodingError, match="two-valued"):
        observables.activity(Ensemble.from_data([[0], [2]], space=Levels(1, 3)), [[0]])


def test_activity_of_spins() -> None:
    ensemble = Ensemble.from_data([[-1, 1]] * 2, space=Spins)
    assert observables.activity(ensemble, np.array([[-1, 1]], dtype=np.int8)).tolist() == [[0, 1]]


def test_third_moments_of_a_wrong_length_are_refused() -> None:
    moments = Ensemble.from_data(np.eye(4)).moments()
    with pytest.raises(ShapeError, match=r"shape \(4,\).*got \(3,\)"):
        observables.central_triples(moments, [0, 0, 0])


@pytest.mark.parametrize("observable", [observables.third_moments, observables.population_count])
def test_what_would_enumerate_too_much_again_is_refused(observable: Any) -> None:
    n = observables.MAX_UNITS + 1
    ensemble = exact(BoltzmannMachine(np.zeros((n, n)), np.linspace(-2, 0, n)))
    with pytest.raises(EnumerationLimitError, match=r"29 units .* draw from the ensemble"):
        observable(ensemble)
    drawn = Ensemble.from_data(ensemble.sample(100, rng=1))
    assert len(observable(drawn)) >= n
