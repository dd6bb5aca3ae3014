"""Weights beyond single precision: exact draws stay exact, overflow is named."""

import numpy as np
import pytest
from scipy import sparse

import ebm
from ebm.errors import ModelError
from ebm.learning._batches import Batch
from ebm.learning._statistics import difference
from ebm.sampling import _precision
from ebm.sampling.gibbs import FewChainsSweeper, LayerSweeper, PairSweeper, SparseSweeper
from tests.sampling.test_no_drift import drifted, machine, restricted, thinned
from tests.statistical import FALSE_FAIL_RATE, check_distribution, distribution_p_value
from tests.user_models import TwoMembers


def pair(size, matrix=np.asarray):
    """Units that are on together but for odds of e^0.7."""
    return ebm.BoltzmannMachine(matrix([[0.0, size], [size, 0.0]]), [-size + 0.7, 20.0])


def layers(size):
    weights = [[size], [size]]
    return ebm.RestrictedBoltzmannMachine(weights, [-size + 0.7, 20.0], [40.0])


def frustrated(size, center=0.5):
    """Huge couplings that cancel in most states, beside small ones and fields."""
    weights = np.triu(np.random.default_rng(0).normal(size=(5, 5)), 1)
    weights[0, 1:3] += [size, -size]
    return ebm.BoltzmannMachine(
        weights + weights.T, [0.5, -0.3, 0.2, 0.1, -0.4], center=np.full(5, center)
    )


class Form(TwoMembers):
    """A user's model with a quadratic form."""

    def quadratic_form(self):
        return self._model.quadratic_form()


class Layers(TwoMembers):
    """A user's model with two layers."""

    def layered_form(self):
        return self._model.layered_form()


@pytest.mark.parametrize("size", [1e5, 1e7, 1e10])
@pytest.mark.parametrize(
    "make",
    [
        pair,
        lambda size: pair(size, sparse.csr_array),
        layers,
        lambda size: pair(size).to_spins(),
        frustrated,
        lambda size: frustrated(size).to_spins(),
        lambda size: frustrated(size, center=0.0),
        lambda size: Form(pair(size)),
        lambda size: Layers(layers(size)),
    ],
    ids="dense sparse layers spins centered cancelling zero form user-layers".split(),
)
def test_large_weights_do_not_drift(make, size):
    model = make(size)
    states, exact = drifted(model, n_chains=10_000)
    check_distribution(states, exact.weights, model.space)


def test_few_chains_keep_their_distribution():
    """Fields that change with flips would collect rounding errors."""
    for model in (pair(1e7), layers(1e7), pair(1e8, sparse.csr_array)):
        draws = ebm.sample(
            model, n_draws=4000, n_chains=4, rng=3, burn_in=5, run=ebm.sampling.SamplingRun(thin=3)
        ).chains
        p = ebm.exact(model).moments().mean[0]
        error = np.sqrt(p * (1 - p) / draws[..., 0].size)
        assert abs(draws[..., 0].mean() - p) < 6 * error


def test_single_precision_would_drift(monkeypatch):
    monkeypatch.setattr(_precision, "LARGEST_SUM", np.inf)
    states, exact = drifted(pair(1e8))
    assert distribution_p_value(states, exact.weights, exact.space) < FALSE_FAIL_RATE


@pytest.mark.parametrize(
    "model",
    [machine(0), machine(1).to_spins(), thinned(machine(3)), thinned(machine(4)).to_spins(),
     restricted()],
)  # fmt: skip
def test_ordinary_weights_are_right_in_double_precision_too(model, monkeypatch):
    monkeypatch.setattr(_precision, "LARGEST_SUM", 0.0)
    sweeper = ebm.Gibbs().sweeper(model, 500)
    assert isinstance(sweeper, PairSweeper | LayerSweeper)
    assert sweeper.dtype == np.float64
    states, exact = drifted(model, n_chains=10_000)
    check_distribution(states, exact.weights, model.space)


def test_ordinary_weights_stay_in_single_precision():
    wanted = {
        PairSweeper: machine(0),
        SparseSweeper: thinned(machine(3)),
        LayerSweeper: restricted(),
    }
    for kind, model in wanted.items():
        sweeper = ebm.Gibbs().sweeper(model, 500)
        assert type(sweeper) is kind
        assert sweeper.dtype == np.float32
    assert type(ebm.Gibbs().sweeper(machine(0), 4)) is FewChainsSweeper


def test_sums_decide_where_the_largest_weight_does_not():
    """One weight of 4000 among 1000 units is fine; a thousand of 20 are not."""
    weights = np.zeros((1000, 1000))
    weights[0, 1] = weights[1, 0] = 4000
    assert _precision.single_precision_suffices(weights, np.zeros(1000))
    assert _precision.single_precision_suffices(sparse.csr_array(weights), np.zeros(1000))
    assert not _precision.single_precision_suffices(np.full((1000, 1000), 20.0), np.zeros(1000))
    column = np.zeros((3, 1000))
    column[:, 0] = 5000
    assert _precision.single_precision_suffices(column, np.zeros(3))
    assert not _precision.single_precision_suffices(column, np.zeros(3), np.zeros(1000))
    assert not _precision.single_precision_suffices(np.array([[np.inf]]), np.zeros(1))


ALL = np.ones((3, 3)) - np.eye(3)


@pytest.mark.parametrize("size", [1e20, 1e38, 1e250])
def test_nothing_overflows_below_the_limit(size):
    """Warnings are errors here; from a state of least energy nothing moves but by fields."""
    for matrix in (size * ALL, sparse.csr_array(size * ALL)):
        model = ebm.IsingModel(matrix, [0.7, 0.1, 0.2])
        draws = ebm.sample(model, n_draws=5, initial=np.ones((3, 3)), rng=0).chains
        assert (draws == 1).all()
    machine = ebm.RestrictedBoltzmannMachine([[size], [size]], [-size, 20], [40])
    draws = ebm.sample(machine, n_draws=2000, rng=0).chains
    assert abs(draws[..., 0].mean() - 0.5) < 6 * 0.5 / np.sqrt(8000)


@pytest.mark.parametrize("size", [1e300, 1e307])
def test_what_would_overflow_is_named(size):
    models = [
        ebm.IsingModel(size * ALL, np.zeros(3)),
        ebm.IsingModel(sparse.csr_array(size * ALL), np.zeros(3)),
        ebm.RestrictedBoltzmannMachine([[size], [size]], [0, 0], [0]),
    ]
    for model in models:
        for n_chains in (3, 100):
            with pytest.raises(ModelError, match=r"log-odds beyond 1e\+300"):
                ebm.sample(model, n_draws=2, n_chains=n_chains, rng=0)


def test_forms_of_a_users_own_are_checked():
    class Broken(Form):
        def quadratic_form(self):
            return None

    class Short(Layers):
        def layered_form(self):
            return tuple(super().layered_form())[:2]

    with pytest.raises(ModelError, match=r"must return \(matrix, vector, constant\)"):
        ebm.sample(Broken(machine(0)), n_draws=1)
    with pytest.raises(ModelError, match=r"must return \(weights, visible, hidden, constant\)"):
        ebm.sample(Short(restricted()), n_draws=1)


@pytest.mark.parametrize("size", [1e6, 1e45])
def test_gradients_of_large_weights_are_in_double_precision(size):
    model = ebm.RestrictedBoltzmannMachine([[size], [-size]], [0, 0], [0.3])
    route = ebm.PersistentChains(50)
    rows = ebm.Ensemble.from_data([[1, 1], [0, 1], [0, 0]])
    batch, _ = route.step(model, None, route.start(model, rows, np.random.default_rng(0)))
    other = Batch(model.space, np.array([[1, 0]]), np.ones(1), 1.0)
    rough, _ = difference(model, other, batch, rough=True)
    exact, _ = difference(model, other, batch, rough=False)
    np.testing.assert_allclose(rough, exact, atol=1e-12)


def test_levels_and_tables_near_the_largest_number():
    """Differences that overflow are differences all the same."""
    couplings = np.zeros((3, 3, 2, 2))
    couplings[0, 1, 0, 0] = couplings[1, 0, 0, 0] = 1e305
    with pytest.raises(ModelError, match=r"1e\+300"):
        ebm.sample(ebm.PottsModel(couplings, np.zeros((3, 2))), n_draws=2, rng=0)
    table = ebm.TabularModel([0.0, 1.7e308, -1.7e308, 1.7e308], ebm.Binary(2))
    for sampler in (ebm.Gibbs(), ebm.Metropolis()):
        draws = ebm.sample(table, sampler, n_draws=3, n_chains=20, rng=0).chains
        assert (draws == [1, 0]).all()
