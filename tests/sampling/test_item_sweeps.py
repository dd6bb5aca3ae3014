"""Which forms are swept by their scores."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import ebm
from ebm.forms import energy_form
from ebm.sampling._item_sweeps import ItemSweeper, item_couplings
from ebm.sampling._mixed_units import MixedSweeper
from tests import oracles, strategies
from tests.user_models import TwoMembers


def items(sizes=(3, 2, 4)):
    rng, n = np.random.default_rng(0), len(sizes)
    weights = rng.normal(0, 0.4, (n, n))
    np.fill_diagonal(weights, 0)
    return ebm.OrdinalModel(weights, [rng.normal(0, 0.5, q) for q in sizes])


class Own(TwoMembers):
    """A user's model with this form."""

    def quadratic_form(self):
        return self._model.quadratic_form()


def sweeper(model):
    return type(ebm.Gibbs().sweeper(model, 8))


@given(strategies.ordinal_models())
def test_scores_are_read_off_the_form(model):
    couplings = item_couplings(energy_form(model), model.space)
    if couplings is None:
        # Units of one size have sweeps of their own.
        assert isinstance(model.space, ebm.Levels)
        return
    states = oracles.all_states(model.space).astype(int)
    places = states + couplings.starts[:-1]
    scores = couplings.scores[places]
    pairs = 0.5 * ((scores @ couplings.weights) * scores).sum(axis=1)
    energies = -pairs - couplings.thresholds[places].sum(axis=1)
    gaps = model.energy(states) - energies
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-10)


def test_any_model_of_such_a_form_is_swept_by_them():
    model = items()
    assert sweeper(model) is sweeper(model.to_pairwise()) is ItemSweeper
    assert sweeper(Own(model)) is ItemSweeper
    assert sweeper(items((3, 2, 4, 2)).given({0: 2})) is ItemSweeper


def test_other_couplings_are_not():
    pairwise = items().to_pairwise()
    couplings = pairwise.couplings.copy()
    couplings[0, 5] = couplings[5, 0] = couplings[0, 5] + 1e-6
    assert sweeper(ebm.PairwiseModel(pairwise.space, couplings)) is MixedSweeper
    with_spins = ebm.PairwiseModel(ebm.Product(ebm.Spins(1), ebm.Levels(1, 3)))
    assert sweeper(with_spins) is MixedSweeper
    assert sweeper(items().scaled(1e5)) is MixedSweeper


def test_log_weights_are_minus_energies():
    model = items()
    own = ebm.Gibbs().sweeper(model, 8)
    states = model.space.random(50, 1)
    gaps = own.log_weights(own.load(states)) + model.energy(states)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-12)
    np.testing.assert_array_equal(own.read(own.load(states)), states)


@pytest.mark.parametrize("size", [1e-200, 1e200])
@pytest.mark.filterwarnings("error")
def test_scores_are_read_off_couplings_of_any_size(size):
    model = items()
    form = model.quadratic_form()
    couplings = item_couplings(form, model.space)
    scaled = item_couplings(replace(form, matrix=size * form.matrix), model.space)
    np.testing.assert_allclose(scaled.scores, couplings.scores, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(scaled.weights, size * couplings.weights, rtol=1e-12)
