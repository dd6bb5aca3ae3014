"""Chains reach every state, in any number of sweeps that is large enough.

A kernel can keep exact draws exact and still go through a part of the states only, or through
halves of them in turn. Here chains start from every state, and the steps that they take in one
sweep are counted. Steps that were seen are possible, so a matrix of counts that is irreducible and
aperiodic proves that the kernel is; and where its probabilities are known, the counts follow them.
Spaces are small, and all kernels are here.
"""

from itertools import permutations

import numpy as np
import pytest

import ebm
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.samples import ChainState
from tests.oracles import (
    all_states,
    distribution,
    heat_bath,
    is_primitive,
    metropolis,
    sweep_matrix,
)
from tests.sampling.kernels import ALWAYS_DOUBLE, FEW, KERNELS
from tests.sampling.test_no_drift import Frustrated
from tests.statistical import check_mean, check_transitions
from tests.user_models import HardCore, TwoMembers

#: Starts from each state.
COPIES = 4000


def ring(*couplings):
    """Spins on a ring, each coupled to the next."""
    n = len(couplings)
    matrix = np.zeros((n, n))
    for i, value in enumerate(couplings):
        matrix[i, (i + 1) % n] = matrix[(i + 1) % n, i] = value
    return ebm.IsingModel(matrix, np.zeros(n))


def potts(strength, n=2):
    couplings = np.zeros((n, n, 3, 3))
    for i, j in permutations(range(n), 2):
        couplings[i, j] = strength * np.eye(3)
    return ebm.PottsModel(couplings, np.zeros((n, 3)))


FREE = ebm.IsingModel(np.zeros((2, 2)), np.zeros(2))
MODELS = {
    "two free spins": FREE,
    "three free units": ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
    "a field": ebm.IsingModel([[0, 0.5], [0.5, 0]], [0.3, -0.2]),
    "triangle": ring(-1.0, -1.0, -1.0),
    "plaquette": ring(1.0, 1.0, 1.0, -1.0),
    "ferromagnet": ring(0.2, 0.2, 0.2, 0.2),
    "free levels": potts(0.0),
    "levels, antiferromagnet": potts(-1.0, n=3),
    "flat table": ebm.TabularModel(np.zeros(8), ebm.Spins(3)),
    "table of two heights": ebm.TabularModel([0.0, 1, 1, 0, 1, 0, 0, 1], ebm.Binary(3)),
    "three spins at once": ebm.InteractionModel({(0, 1, 2): 1.0}, ebm.Spins(3)),
    "user's own": TwoMembers(ring(-1.0, -1.0, -1.0)),
    "user's own levels": TwoMembers(potts(-1.0)),
    "hard core": HardCore([0.0, 0.0, 0.0]),
    "forbidden levels": Frustrated(),
}
SAMPLERS = {"heat bath": (ebm.Gibbs(), heat_bath), "Metropolis": (ebm.Metropolis(), metropolis)}
LAYERS = ebm.RestrictedBoltzmannMachine(np.ones((3, 2)), [-1.0] * 3, [-1.5] * 2)


def steps(model, sampler, copies=COPIES):
    """Counts (from, to) of the steps of one sweep from every state that is allowed."""
    states = all_states(model.space)
    allowed = np.flatnonzero(np.isfinite(model.energy(states)))
    places = np.repeat(np.arange(len(allowed)), copies)
    start = states[allowed[places]]
    samples = ebm.sample(model, sampler, n_draws=1, burn_in=0, initial=start, rng=1)
    there = np.searchsorted(allowed, model.space.index(samples.chains[:, 0]))
    size = len(allowed)
    return np.bincount(places * size + there, minlength=size**2).reshape(size, size), allowed


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_state_is_reached_with_the_probability_of_the_sweep(model, name):
    sampler, update = SAMPLERS[name]
    counts, allowed = steps(model, sampler)
    assert is_primitive(counts)
    check_transitions(counts, sweep_matrix(model, update)[np.ix_(allowed, allowed)])


@pytest.mark.parametrize("settings", [FEW, ALWAYS_DOUBLE], ids=["few chains", "double"])
@pytest.mark.parametrize("name", ["two free spins", "triangle", "plaquette"])
def test_so_it_is_by_the_other_kernels_of_pairs(name, settings, monkeypatch):
    for setting, value in settings.items():
        monkeypatch.setattr(setting, value)
    counts, _ = steps(MODELS[name], ebm.Gibbs())
    assert is_primitive(counts)
    check_transitions(counts, sweep_matrix(MODELS[name], heat_bath))


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_goes_from_every_state_to_every_other(name, monkeypatch):
    """Those of layers and of sparse couplings too, at couplings that are not all alike."""
    kernel = KERNELS[name]
    for setting, value in kernel.settings.items():
        monkeypatch.setattr(setting, value)
    counts, _ = steps(kernel.make(), kernel.sampler, copies=500)
    assert is_primitive(counts)


def test_layers_reach_every_state():
    flat = ebm.RestrictedBoltzmannMachine(np.zeros((3, 2)), np.zeros(3), np.zeros(2))
    for model in (LAYERS, flat):
        for sampler in (ebm.Gibbs(), ebm.Metropolis()):
            assert is_primitive(steps(model, sampler)[0])


@pytest.mark.parametrize("sampler", [ebm.Gibbs(), ebm.Metropolis()])
@pytest.mark.parametrize("model", [FREE, MODELS["free levels"], TwoMembers(FREE)])
def test_tempered_copies_reach_every_state_together(model, sampler):
    """States of a chain and its copy, sweeps and swaps: swaps at equal energy are always taken."""
    states = all_states(model.space)
    m = len(states)
    places = np.repeat(np.arange(m**2), 2000)
    streams = new_streams(3, len(block_slices(len(places))))
    start = ChainState(states[places // m], streams, copies=states[places % m][:, None])
    final = advance(model, ebm.ParallelTempering([0.5], sampler), start, 1)
    there = model.space.index(final.states) * m + model.space.index(final.copies[:, 0])
    counts = np.bincount(places * m**2 + there, minlength=m**4).reshape(m**2, m**2)
    assert is_primitive(counts)


def always_offered(energies, now):
    return metropolis(energies, now, offered=1.0)


FLAT = ["two free spins", "three free units", "triangle", "plaquette", "ferromagnet", "flat table"]


@pytest.mark.parametrize("name", FLAT)
def test_metropolis_that_always_offers_is_caught(name, monkeypatch):
    """Mutant: a move of equal energy from every unit in a fixed order, and no way to stay."""
    monkeypatch.setattr("ebm.sampling.gibbs.OFFERED", 1.0)
    counts, _ = steps(MODELS[name], ebm.Metropolis())
    assert not is_primitive(counts)
    check_transitions(counts, sweep_matrix(MODELS[name], always_offered))
    assert not is_primitive(sweep_matrix(MODELS[name], always_offered))


def test_a_random_order_would_not_cure_it():
    for name in ("two free spins", "three free units", "flat table"):
        model = MODELS[name]
        orders = list(permutations(range(model.space.n)))
        matrices = [sweep_matrix(model, always_offered, order) for order in orders]
        assert not is_primitive(np.mean(matrices, axis=0))


@pytest.mark.parametrize(
    ("matrix", "wanted"),
    [
        (np.eye(3), False),
        ([[0, 1], [1, 0]], False),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], False),
        ([[0.5, 0.5], [0, 1]], False),
        # The slowest there is: positive from the power (3 − 1)² + 1 on.
        ([[0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]], True),
    ],
)
def test_the_reader_of_matrices_knows_the_cases(matrix, wanted):
    assert is_primitive(np.array(matrix)) is wanted


@pytest.mark.parametrize("update", [heat_bath, metropolis])
@pytest.mark.parametrize("name", MODELS)
def test_no_correlation_lasts_or_alternates(name, update):
    """All correlations in time fall by a tenth in each sweep at least, those at −1 included."""
    matrix = sweep_matrix(MODELS[name], update)
    allowed = np.flatnonzero(np.isfinite(MODELS[name].energy(all_states(MODELS[name].space))))
    sizes = np.sort(np.abs(np.linalg.eigvals(matrix[np.ix_(allowed, allowed)])))
    assert sizes[-1] == pytest.approx(1)
    assert sizes[-2] < 0.9


def recorded(model, sampler):
    """Observables along 400 chains, (chain, draw, 2)."""
    samples = ebm.sample(model, sampler, n_draws=120, n_chains=400, rng=4)
    return observables(samples.chains.astype(float))


def lagged_products(values, lag):
    """f_t f_t+lag averaged along each chain, (chain, 2)."""
    return (values[:, :-lag] * values[:, lag:]).mean(axis=1)


def observables(states):
    """Σ_i s_i and Σ_i<j s_i s_j, (..., n) -> (..., 2)."""
    total = states.sum(axis=-1)
    return np.stack([total, (total**2 - (states**2).sum(axis=-1)) / 2], axis=-1)


def check_lags(model, sampler, update):
    _, p = distribution(model)
    values, along = observables(all_states(model.space)), recorded(model, sampler)
    for lag in (1, 2, 3, 40):
        later = np.linalg.matrix_power(sweep_matrix(model, update), lag) @ values
        products = lagged_products(along, lag)
        for column, wanted in zip(products.T, p @ (values * later), strict=True):
            check_mean(column, wanted)


LATTICES = ["two free spins", "triangle", "plaquette", "flat table", "ferromagnet"]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("lattice", LATTICES)
def test_correlations_in_time_are_those_of_the_sweep(lattice, name):
    check_lags(MODELS[lattice], *SAMPLERS[name])


@pytest.mark.parametrize("lattice", LATTICES)
def test_correlations_of_chains_that_always_move_are_caught(lattice, monkeypatch):
    monkeypatch.setattr("ebm.sampling.gibbs.OFFERED", 1.0)
    with pytest.raises(AssertionError, match="standard errors"):
        check_lags(MODELS[lattice], *SAMPLERS["Metropolis"])


@pytest.mark.parametrize("lattice", LATTICES)
def test_tempered_chains_forget(lattice):
    """After forty sweeps a product of two times is the square of the mean."""
    model = MODELS[lattice]
    sampler = ebm.ParallelTempering([0.5], ebm.Metropolis())
    _, p = distribution(model)
    means = p @ observables(all_states(model.space))
    products = lagged_products(recorded(model, sampler), 40)
    for column, mean in zip(products.T, means, strict=True):
        check_mean(column, mean**2)
