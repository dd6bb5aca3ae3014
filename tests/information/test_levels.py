"""Fisher information of levels from fourth moments against a pass over all states."""

import numpy as np
import pytest
from hypothesis import given, settings

import ebm
from ebm.information import _levels
from ebm.information.ensemble_information import EnsembleInformation
from tests import strategies


def both(model):
    """By fourth moments, and state by state."""
    exact = ebm.exact(model)
    return _levels.fisher_of_levels(model, exact), EnsembleInformation(model, exact).dense()


@given(strategies.ordinal_models())
@settings(max_examples=30)
def test_of_ordinal_models(model):
    by_moments, by_states = both(model)
    np.testing.assert_allclose(by_moments, by_states, atol=1e-11)


def test_of_units_of_different_kinds():
    space = ebm.Product(ebm.Binary(1), ebm.Levels(2, 3), ebm.Spins(2), ebm.Levels(1, 2))
    model = ebm.PairwiseModel(space)
    rng = np.random.default_rng(0)
    by_moments, by_states = both(model.with_parameters(rng.normal(0, 0.5, len(model.parameters))))
    np.testing.assert_allclose(by_moments, by_states, atol=1e-12)


def test_products_of_values_are_taken_about_their_means(monkeypatch):
    """Without what a product about the means leaves to single values the answer is another."""
    model = ebm.OrdinalModel([[0, 1], [1, 0]], [[0, 1, 0], [0, -1, 0]])
    monkeypatch.setattr(np, "add", NoAdd())
    by_moments, by_states = both(model)
    assert not np.allclose(by_moments, by_states, atol=1e-3)


class NoAdd:
    """Additions at places that are left out."""

    def __getattr__(self, name):
        return getattr(ADD, name)

    def __call__(self, *arguments, **options):
        return ADD(*arguments, **options)

    def at(self, *arguments):
        """Nothing is added."""


ADD = np.add


def test_it_serves_where_states_are_many(monkeypatch):
    model = ebm.OrdinalModel(np.full((3, 3), 0.3) - 0.3 * np.eye(3), np.zeros((3, 4)))
    assert isinstance(ebm.fisher_information(model), EnsembleInformation)
    monkeypatch.setattr(_levels, "MANY", 1.0)
    exact = ebm.exact(model)
    assert _levels.has_fisher_of_levels(model, exact)
    quick = ebm.fisher_information(exact)
    assert not isinstance(quick, EnsembleInformation)
    wanted = EnsembleInformation(model, exact).dense()
    np.testing.assert_allclose(quick.dense(), wanted, atol=1e-12)
    assert not _levels.has_fisher_of_levels(model, ebm.exact(model.scaled(1.0)))


@pytest.mark.parametrize("loss", [ebm.Likelihood(), ebm.inversion.Pseudolikelihood()])
def test_a_fit_takes_it(monkeypatch, loss):
    truth = ebm.OrdinalModel(np.full((3, 3), 0.3) - 0.3 * np.eye(3), [[0, 1, 0]] * 3)
    rows = ebm.exact(truth).sample(300, rng=0)
    start = ebm.OrdinalModel(np.zeros((3, 3)), np.zeros((3, 3)))
    slow = ebm.fit(start, rows, loss=loss)
    monkeypatch.setattr(_levels, "MANY", 1.0)
    quick = ebm.fit(start, rows, loss=loss)
    np.testing.assert_allclose(quick.model.parameters, slow.model.parameters, atol=1e-9)
    np.testing.assert_allclose(quick.standard_errors, slow.standard_errors, rtol=1e-8)
