"""Couplings that are two per cent too small are seen in every kernel.

Exact draws are moved by a kernel for some sweeps, and the mean of ΔE = E_weak − E along the chains
is compared with its exact value, E_weak the energy with couplings .98 times as large: by the lemma
of Neyman and Pearson no other statistic of independent draws tells the two models apart better.
Chains are independent, so their own scatter gives the error. At moderate couplings all mutants are
more than 7 standard errors away; at strong ones chains hardly move, and a wrong kernel keeps exact
draws as they are.
"""

import numpy as np
import pytest

import ebm
from ebm._kernels import swaps
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Sweeper
from ebm.sampling.samples import ChainState
from tests.oracles import all_states
from tests.sampling import kernels
from tests.sampling.kernels import KERNELS, METROPOLIS, Still, Weakened, weakened
from tests.statistical import check_mean, check_z_scores

N_CHAINS, N_DRAWS = 20_000, 30


@pytest.fixture(autouse=True)
def large_blocks(monkeypatch):
    """Chains of one block share the cost of calls."""
    monkeypatch.setattr("ebm.sampling._streams.CHAINS_PER_BLOCK", N_CHAINS)


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    chosen = KERNELS[request.param]
    for name, value in chosen.settings.items():
        monkeypatch.setattr(name, value)
    assert type(chosen.sampler.sweeper(chosen.make(), N_CHAINS)) is chosen.sweeper
    return chosen


def check_couplings(model, sampler):
    """The mean of ΔE along chains that start from exact draws is the exact one."""
    exact, states = ebm.exact(model), all_states(model.space)
    differences = weakened(model).energy(states) - model.energy(states)
    start = exact.sample(N_CHAINS, rng=1)
    samples = ebm.sample(model, sampler, n_draws=N_DRAWS, initial=start, burn_in=2, rng=2)
    along = differences[model.space.index(samples.chains)]
    check_mean(along.mean(axis=1), exact.weights @ differences)


def test_every_kernel_has_the_couplings_of_its_model(kernel):
    check_couplings(kernel.make(), kernel.sampler)


def test_every_kernel_with_weaker_couplings_is_caught(kernel):
    with pytest.raises(AssertionError, match="standard errors"):
        check_couplings(kernel.make(), kernel.mutant)


def test_no_kernel_is_left_out():
    def kinds(parent):
        return [parent, *(kind for child in parent.__subclasses__() for kind in kinds(child))]

    library = {kind for kind in kinds(Sweeper) if kind.__module__.startswith("ebm.")}
    tested = {kernel.sweeper for kernel in KERNELS.values()}
    assert {kind.__name__ for kind in library - tested} == {
        "Sweeper",
        "FormSweeper",
        "LadderSweeper",
        "Ordered",
        "SpinSweeper",
        "TwoValued",
    }


class Coupled(ebm.EnergyModel):
    """E = ½ xᵀAx with a unit diagonal."""

    space = ebm.Reals(3)

    def __init__(self, strength=1.0):
        i, j = np.triu_indices(3, 1)
        self.matrix = np.eye(3)
        self.matrix[i, j] = self.matrix[j, i] = strength * np.array([0.5, -0.4, 0.45])

    def energy(self, states):
        x = np.asarray(states)
        return 0.5 * ((x @ self.matrix) * x).sum(axis=-1)

    def state_gradient(self, states):
        return np.asarray(states) @ self.matrix


CONTINUOUS = {
    "Langevin": ebm.Langevin(0.8),
    "Langevin, masses": ebm.Langevin(0.9, mass=[1.0, 1.5, 0.8]),
    "hybrid": ebm.HamiltonianMonteCarlo(0.7, 3),
    "hybrid, masses": ebm.HamiltonianMonteCarlo(0.7, 3, mass=[1.0, 1.5, 0.8], jitter=0.4),
}


def check_continuous(sampler, strength):
    right, weak, moved = Coupled(), Coupled(kernels.WEAKER), Coupled(strength)
    covariance = np.linalg.inv(right.matrix)
    half = np.linalg.cholesky(covariance)
    start = np.random.default_rng(1).standard_normal((N_CHAINS, 3)) @ half.T
    samples = ebm.sample(
        moved, sampler, n_draws=N_DRAWS, initial=start, burn_in=3, rng=2,
        run=ebm.sampling.SamplingRun(observe=lambda x: weak.energy(x) - right.energy(x)),
    )  # fmt: skip
    check_mean(samples.values.mean(axis=1), 0.5 * np.sum((weak.matrix - right.matrix) * covariance))


@pytest.mark.parametrize("sampler", CONTINUOUS.values(), ids=CONTINUOUS)
def test_continuous_chains_have_the_couplings_of_their_model(sampler):
    check_continuous(sampler, 1.0)


@pytest.mark.parametrize("sampler", CONTINUOUS.values(), ids=CONTINUOUS)
def test_continuous_chains_with_weaker_couplings_are_caught(sampler):
    with pytest.raises(AssertionError, match="standard errors"):
        check_continuous(sampler, kernels.WEAKER)


ANNEALED = {
    "pairs": (kernels.pairs, None),
    "layers": (kernels.layers, None),
    "many-body": (kernels.many_body, None),
    "levels": (kernels.levels, METROPOLIS),
}


def check_annealing(name, mutant):
    """ln Z of chains that move at the model of each step: too weak moves make it too small."""
    make, sampler = ANNEALED[name]
    if mutant:
        sampler = Weakened(sampler or ebm.Gibbs())
    model = make(1.5)
    samples = ebm.Annealing(N_CHAINS, 80, sampler=sampler).run(model, rng=3)
    exact = ebm.exact(model).log_partition
    check_z_scores([samples.log_partition], exact, samples.log_partition_error)


@pytest.mark.parametrize("name", ANNEALED)
def test_annealed_chains_move_at_the_model_of_each_step(name):
    check_annealing(name, mutant=False)


@pytest.mark.parametrize("name", ANNEALED)
def test_annealed_chains_that_move_at_weaker_couplings_are_caught(name):
    with pytest.raises(AssertionError, match="Σz²"):
        check_annealing(name, mutant=True)


def swapped(model, hot, thresholds, monkeypatch):
    """Which pairs of states, each in one chain and its copy, are swapped at given thresholds."""

    def given(stream, shape):
        return thresholds.reshape(shape)

    def scan_at_given(order, first, ladder, memory, counts, stream, words, uniforms, heat):
        log_weights, heading = memory
        rejected, trips = counts
        given_here = given(stream, (len(uniforms) // order.shape[1], order.shape[1]))
        swaps.exchange_betas(order, first, ladder, log_weights, given_here, rejected, heat)
        swaps.note_ends(order, heading, trips)

    monkeypatch.setattr("ebm.sampling.tempering.uniforms", given)
    monkeypatch.setattr("ebm._kernels.swaps.scan_betas", scan_at_given)
    states = all_states(model.space)
    cold, copies = np.repeat(states, len(states), axis=0), np.tile(states, (len(states), 1))
    streams = new_streams(0, len(block_slices(len(cold))))
    start = ChainState(cold, streams, copies=copies[:, None])
    final = advance(model, ebm.ParallelTempering([hot], Still()), start, 1)
    different = (cold != copies).any(axis=1)
    return (final.states != cold).any(axis=1)[different], different


@pytest.mark.parametrize("make", [kernels.pairs, kernels.layers, kernels.levels])
@pytest.mark.parametrize("mutant", [False, True])
def test_swaps_happen_below_their_probability_and_not_above(make, mutant, monkeypatch):
    """For every pair of states, by enumeration; the mutant has two per cent too little."""
    model, hot = make(), 0.4
    states = all_states(model.space)
    saved = model.energy(states) - model.scaled(hot).energy(states)
    gains = np.subtract.outer(saved, saved).ravel()
    odds = np.exp(np.minimum(gains * (kernels.WEAKER if mutant else 1), 0))
    below, different = swapped(model, hot, odds * (1 - 1e-9), monkeypatch)
    above, _ = swapped(model, hot, np.minimum(odds * (1 + 1e-9), 1 - 1e-16), monkeypatch)
    refusable = (odds < 1 - 1e-8)[different]
    right = below.all() and not (above & refusable).any()
    assert right is not mutant
