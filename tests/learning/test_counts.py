"""Fits of pairs with a potential of the number of active units: exact, and by chains."""

import itertools

import numpy as np
import pytest

import ebm
from ebm.errors import ConstantUnitError, EbmError, NoMaximumWarning, UnseenCountError
from ebm.learning._gauges import CountGauge, PairGauge
from ebm.models._counts import shares_of_counts
from ebm.observables import population_count
from tests.models.test_k_pairwise import random_model

TABLE_A = [13, 21, 3, 16, 9, 11, 15, 20, 8, 1, 5, 3, 20, 13, 25, 17]
ROWS = np.array(list(itertools.product((0, 1), repeat=4)))


def family(n, pools=None):
    return ebm.KPairwiseModel(np.zeros((n, n)), np.zeros(n), np.zeros(n + 1), pools)


def draws(n, n_rows, seed=0):
    """Rows of a model in which silence is likely, whose counts pairs do not explain."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0.3, 0.4, (n, n)), 1)
    potential = np.array([0, -0.8, -1.2, *np.linspace(-1.4, -2, n - 2)])
    truth = ebm.KPairwiseModel(weights + weights.T, rng.normal(-0.9, 0.3, n), potential)
    return truth, ebm.exact(truth).sample(n_rows, rng=seed)


def test_reference_fit_of_table_a():
    data = ebm.Ensemble.from_data(ROWS, sample_weight=TABLE_A)
    result = ebm.fit(family(4), data)
    assert result.converged
    np.testing.assert_allclose(result.model.potential[3:], [-0.2141217, -0.6018427], atol=1e-7)
    assert 200 * result.log_likelihood == pytest.approx(-522.3552527, abs=1e-7)
    assert result.degrees_of_freedom == 12
    assert result.standard_errors.shape == (12,)


def test_means_pairs_and_counts_of_the_data_are_those_of_the_model():
    data = ebm.Ensemble.from_data(draws(7, 3000)[1])
    result = ebm.fit(ebm.KPairwiseModel.for_data(data), data)
    assert result.converged
    moments = result.ensemble.moments()
    np.testing.assert_allclose(moments.mean, data.moments().mean, atol=1e-9)
    np.testing.assert_allclose(moments.second, data.moments().second, atol=1e-9)
    seen, of_model = shares_of_counts(data), population_count(result.ensemble)
    last = result.model.pools[-1]
    np.testing.assert_allclose(of_model[:last], seen[:last], atol=1e-9)
    assert of_model[last:].sum() == pytest.approx(seen[last:].sum(), abs=1e-9)
    pairs = ebm.fit(ebm.BoltzmannMachine(np.zeros((7, 7)), np.zeros(7)), data)
    assert result.log_likelihood > pairs.log_likelihood + 1e-3


def test_newton_and_quasi_newton_steps_end_at_one_model():
    truth, rows = draws(8, 4000, 1)
    start = ebm.KPairwiseModel.for_data(rows)
    one, other = (ebm.fit(start, rows, solver=solver) for solver in (ebm.Newton(), ebm.LBFGS()))
    states = truth.space.states_at(np.arange(2**8))
    gap = one.ensemble.log_probability(states) - other.ensemble.log_probability(states)
    assert one.converged
    assert np.abs(gap).max() < 1e-4


def test_an_exact_ensemble_gives_its_model_back():
    truth = random_model(5, 30, size=0.5)
    result = ebm.fit(family(5), ebm.exact(truth))
    np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-6)


def test_standard_errors_are_the_spread_of_fits():
    truth = random_model(4, 31, size=0.4)
    exact, rng = ebm.exact(truth), np.random.default_rng(1)
    fits = [ebm.fit(family(4), exact.sample(4000, rng)) for _ in range(60)]
    spread = np.std([fit.model.parameters for fit in fits], axis=0)
    stated = np.mean([fit.standard_errors for fit in fits], axis=0)
    np.testing.assert_allclose(spread / stated, 1, atol=0.4)


def test_a_count_that_never_occurs_is_refused_and_pooled():
    rows = draws(8, 1500)[1]
    rows = rows[rows.sum(axis=1) < 6]
    with pytest.raises(UnseenCountError, match=r"K = 6–8 active units never occur.*for_data"):
        ebm.fit(family(8), rows)
    with pytest.raises(UnseenCountError, match="K = 6–8"):
        ebm.fit(family(8), rows, loss=ebm.Likelihood(ebm.PersistentChains()), rng=0)
    assert ebm.fit(family(8), rows, penalty=1e-3).converged
    start = ebm.KPairwiseModel.for_data(rows)
    assert start.pools[-1] <= 5
    assert ebm.fit(start, rows).converged


def test_a_pool_whose_rows_have_neighboring_counts_alone_is_refused():
    """Means and pairs say Σ K and Σ K²: what P(K) leaves to a pool then has no other count."""
    rows = draws(8, 1500)[1]
    rows = rows[rows.sum(axis=1) < 6]
    with pytest.raises(UnseenCountError, match="K = 6–8 active units never occur"):
        ebm.fit(family(8, (3, 4, 5)), rows)
    assert ebm.fit(family(8, (3,)), rows).converged


def test_silence_that_never_occurs_is_refused():
    rows = draws(6, 2000)[1]
    rows = rows[rows.any(axis=1)]
    start = ebm.KPairwiseModel.for_data(rows)
    with pytest.raises(UnseenCountError, match="K = 0 active units never occur"):
        ebm.fit(start, rows)
    assert ebm.fit(start, rows, penalty=1e-2).converged


def test_constant_units_and_empty_cells_have_sentences():
    rows = draws(6, 2000)[1]
    still = rows.copy()
    still[:, 2] = 0
    with pytest.raises(ConstantUnitError, match="unit '2' never changes"):
        ebm.fit(ebm.KPairwiseModel.for_data(still), still)
    apart = rows[~(rows[:, 0] * rows[:, 1] > 0)]
    with pytest.warns(NoMaximumWarning, match="'0' and '1' are never both on"):
        result = ebm.fit(ebm.KPairwiseModel.for_data(apart), apart)
    assert not result.converged


def test_moments_alone_do_not_know_the_counts():
    with pytest.raises(EbmError, match="give rows"):
        ebm.fit(family(4), ebm.Ensemble.from_data(ROWS).moments())


def test_ties_and_free_parameters_hold():
    rows = draws(6, 3000)[1]
    start = ebm.KPairwiseModel.for_data(rows)
    free = [not name.startswith("V") for name in start.parameter_names]
    result = ebm.fit(start, rows, penalty=ebm.Penalty(free=free))
    pairs = ebm.fit(ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6)), rows)
    np.testing.assert_allclose(result.model.weights, pairs.model.weights, atol=1e-6)
    assert not result.model.potential.any()


def test_chains_find_what_exact_steps_find():
    rows = draws(8, 4000)[1]
    start = ebm.KPairwiseModel.for_data(rows)
    loss = ebm.Likelihood(ebm.PersistentChains(1000))
    result = ebm.fit(start, rows, loss=loss, rng=0)
    assert result.converged
    data = ebm.Ensemble.from_data(rows)
    error = np.sqrt(shares_of_counts(data)[:5] / len(rows))
    apart = population_count(ebm.exact(result.model))[:5] - shares_of_counts(data)[:5]
    assert (np.abs(apart) < 3 * error).all()
    by_sums = ebm.fit(start, rows)
    gap = by_sums.log_likelihood + data.expectation(result.model.energy)
    assert gap + ebm.exact(result.model).log_partition < 2e-3


def test_every_count_is_a_coordinate_of_gradient_steps():
    """A gauge of pairs alone is the mutant: silence then moves by all other parameters at once."""
    model = random_model(6, 32)
    gauge, mutant = CountGauge(model, np.full(6, 0.3)), PairGauge(model, np.full(6, 0.3))
    exact = ebm.exact(model)
    slopes = -np.asarray(model.mean_energy_gradient(exact))
    by_counts = gauge.gradient(slopes.copy(), np.zeros(0))
    # Apart from the constant 1, which has no slope, these are P(0), P(1) and P(2).
    shares = population_count(exact)
    np.testing.assert_allclose(np.add(by_counts[-3:], [1, 0, 0]), shares[:3], atol=1e-12)
    assert len(mutant.gradient(slopes.copy(), np.zeros(0))) == len(slopes)
    move = np.zeros(len(by_counts))
    move[-3] = 0.7
    moved = model.with_parameters(gauge.moved(model.parameters, move, np.zeros(0)))
    odds = population_count(ebm.exact(moved)) / shares
    np.testing.assert_allclose(odds[0] / odds[1:], np.exp(0.7), atol=1e-10)


@pytest.mark.parametrize("optimizer", [ebm.GradientDescent(0.5), ebm.NaturalGradient(0.5)])
def test_other_optimizers_take_these_coordinates(optimizer):
    rows = draws(6, 2000)[1]
    steps = ebm.GradientSteps(optimizer, n_epochs=200)
    start = ebm.KPairwiseModel.for_data(rows)
    exact = ebm.fit(start, rows)
    result = ebm.fit(start, rows, loss=ebm.Likelihood(ebm.exact), solver=steps, rng=0)
    assert exact.log_likelihood - result.log_likelihood < 5e-3


def test_parameters_that_are_held_stay_in_fits_by_chains():
    rows = draws(6, 2000)[1]
    start = ebm.KPairwiseModel.for_data(rows)
    free = [not name.startswith("V") for name in start.parameter_names]
    result = ebm.fit(
        start,
        rows,
        penalty=ebm.Penalty(free=free),
        loss=ebm.Likelihood(ebm.PersistentChains(200)),
        solver=ebm.GradientSteps(n_epochs=50),
        rng=0,
    )
    assert not result.model.potential.any()
    assert result.model.weights.any()


def test_names_of_the_data_reach_the_parameters():
    rows = draws(5, 1000)[1]
    data = ebm.Ensemble.from_data(rows, names=list("abcde"))
    result = ebm.fit(ebm.KPairwiseModel.for_data(data), data)
    assert result.model.parameter_names[:2] == ("b[a]", "b[b]")


def test_a_penalty_on_biases_alone_holds_no_potential_of_a_count_without_rows():
    rows = np.random.default_rng(0).integers(0, 2, (200, 4))
    rows = rows[rows.sum(axis=1) < 4]
    family = ebm.KPairwiseModel(np.zeros((4, 4)), np.zeros(4), np.zeros(5))
    for penalty in (ebm.Penalty(), ebm.Penalty(l2_biases=0.01)):
        with pytest.raises(ebm.errors.UnseenCountError, match=r"K = 4 .* or hold V by a penalty"):
            ebm.fit(family, rows, penalty=penalty)
    assert ebm.fit(family, rows, penalty=ebm.Penalty(l2=0.01)).converged
