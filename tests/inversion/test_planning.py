"""Planned numbers of rows: reference numbers, invariance, and the power that is then seen."""

import numpy as np
import pytest
from scipy.stats import norm

import ebm
from ebm.errors import EbmError, ModelError, NamesError, ShapeError, SingularCovarianceError
from ebm.inversion import samples_needed
from tests.inversion.dependent_chain import BIASES, MODEL, WEIGHTS


def test_the_reference_numbers():
    """Methods §6."""
    assert samples_needed(MODEL, (0, 1)) == pytest.approx(220.613691, abs=1e-6)
    assert samples_needed(MODEL, (1, 2)) == pytest.approx(864.407991, abs=1e-6)


def test_a_likelihood_ratio_test_needs_nearly_as_many():
    """Methods §6: 857.431694 by 2 M KL, the divergence from the best model without the pair."""
    no_pair = ebm.Penalty(free=[True] * 5 + [False])
    start = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
    best = ebm.fit(start, ebm.exact(MODEL), penalty=no_pair).model
    full = ebm.exact(MODEL)
    p = full.weights
    divergence = p @ (
        full.log_probability(full.states) - ebm.exact(best).log_probability(full.states)
    )
    needed = (norm.ppf(0.975) + norm.ppf(0.8)) ** 2 / (2 * divergence)
    assert needed == pytest.approx(857.431694, abs=1e-3)
    assert samples_needed(MODEL, (1, 2)) == pytest.approx(needed, rel=0.01)


def test_the_power_is_seen():
    """Methods §6: .81 of pair 12; here of 200 data sets, whose binomial deviation is .028."""
    size = int(np.ceil(samples_needed(MODEL, (2, 1))))
    ensemble, rng = ebm.exact(MODEL), np.random.default_rng(11)
    found = 0
    for _ in range(200):
        data = ebm.Ensemble.from_data(ensemble.sample(size, rng))
        result = ebm.fit(MODEL, data)
        found += abs(result.model.parameters[5]) > 1.959964 * result.standard_errors[5]
    assert abs(found / 200 - 0.8) < 0.085


def test_the_number_depends_neither_on_coding_nor_on_center_nor_on_names():
    named = ebm.BoltzmannMachine(WEIGHTS, BIASES, names=["a", "b", "c"])
    wanted = samples_needed(MODEL, (0, 1))
    assert samples_needed(MODEL.to_spins(), (0, 1)) == pytest.approx(wanted, rel=1e-9)
    assert samples_needed(MODEL.recentered([0.3, 0.5, 0.6]), (1, 0)) == pytest.approx(wanted)
    assert samples_needed(named, ("b", "a")) == pytest.approx(wanted, rel=1e-12)
    # The mutant: with all other parameters known, fewer rows would do.
    fisher = ebm.fisher_information(MODEL).dense()
    known = (norm.ppf(0.975) + norm.ppf(0.8)) ** 2 / fisher[3, 3] / 0.64
    assert known < 0.7 * wanted


def test_more_power_and_a_lower_level_need_more():
    wanted = samples_needed(MODEL, (0, 1))
    assert samples_needed(MODEL, (0, 1), power=0.95) > wanted
    assert samples_needed(MODEL, (0, 1), level=0.01) > wanted


@pytest.mark.parametrize(
    ("pair", "error", "sentence"),
    [
        ((0, 0), EbmError, "no coupling"),
        ((0, 3), ShapeError, "numbers from 0 to 2"),
        ((0, 1, 2), ShapeError, "two units"),
        (3, ShapeError, "two units"),
        ("ab", ShapeError, "two units"),
        (("a", "b"), NamesError, "have no names"),
    ],
)
def test_a_pair_is_two_units_that_are_coupled(pair, error, sentence):
    with pytest.raises(error, match=sentence):
        samples_needed(MODEL, pair)


def test_bad_settings_are_sentences():
    absent = ebm.BoltzmannMachine([[0, 0.0], [0, 0]], [0, 0])
    with pytest.raises(EbmError, match="zero in this model"):
        samples_needed(absent, (0, 1))
    frozen = ebm.IsingModel([[0, 400.0], [400.0, 0]], [0, 0])
    with pytest.raises(SingularCovarianceError, match="do not tell the coupling"):
        samples_needed(frozen, (0, 1))
    with pytest.raises(EbmError, match="power must be between"):
        samples_needed(MODEL, (0, 1), power=0.01)
    with pytest.raises(EbmError, match="level must be between"):
        samples_needed(MODEL, (0, 1), level=0)
    potts = ebm.PairwiseModel(ebm.Levels(2, 3))
    for model in (object(), potts):
        with pytest.raises(ModelError, match="one coupling for each pair"):
            samples_needed(model, (0, 1))


def test_ordinal_items_are_planned_too():
    """Of two categories they are {0,1} units."""
    ordinal = ebm.OrdinalModel(WEIGHTS, np.column_stack([np.zeros(3), BIASES]))
    assert samples_needed(ordinal, (0, 1)) == pytest.approx(samples_needed(MODEL, (0, 1)))
