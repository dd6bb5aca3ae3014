"""Exact draws stay exact under every kernel, at strong couplings, and mutants are caught."""

import numpy as np
import pytest
from scipy import sparse

import ebm
from ebm.sampling import gibbs
from tests.statistical import FALSE_FAIL_RATE, check_distribution, distribution_p_value

N_CHAINS = 20_000


def drifted(model, sampler=None, sweeps=2, n_chains=N_CHAINS, start=None):
    """States of chains that started from exact draws, after some sweeps."""
    exact = ebm.exact(model if start is None else start)
    states = exact.sample(n_chains, rng=1)
    samples = ebm.sample(
        model,
        sampler,
        n_draws=1,
        n_chains=n_chains,
        initial=states,
        burn_in=0,
        run=ebm.sampling.SamplingRun(thin=sweeps),
        rng=2,
    )
    return samples.chains[:, 0], exact


def machine(seed=0, n=6, scale=2.0):
    rng = np.random.default_rng(seed)
    return ebm.BoltzmannMachine(
        rng.normal(0, scale, (n, n)), rng.normal(size=n), center=rng.uniform(size=n)
    )


def thinned(model):
    """A sparse machine: couplings above a size, stored as CSR."""
    weights = np.where(np.abs(model.weights) > 1, model.weights, 0)
    return ebm.BoltzmannMachine(sparse.csr_array(weights), model.biases, center=model.center)


class Frustrated(ebm.EnergyModel):
    """Two members only, with a forbidden value and three-body terms."""

    space = ebm.Levels(3, 3)

    def energy(self, states):
        x = np.asarray(states)
        terms = x @ [0.5, -1.0, 0.7] + 0.9 * (x[..., 1] == x[..., 2]) - 0.4 * x.prod(axis=-1)
        return np.where(x[..., 0] == x[..., 1], np.inf, terms)


def frustrated_ring(n):
    """An antiferromagnetic ring of odd length with unequal fields."""
    couplings = np.zeros((n, n))
    for i in range(n):
        couplings[i, (i + 1) % n] = couplings[(i + 1) % n, i] = -1.5
    return ebm.IsingModel(couplings, 0.3 * np.arange(n) - 0.4)


@pytest.mark.parametrize(
    "model",
    [
        machine(0),
        machine(1, n=8, scale=1.5),
        machine(2).to_spins(),
        thinned(machine(3)),
        thinned(machine(4)).to_spins(),
        machine(5).scaled(0.5),
        machine(5).to_spins().scaled(1.7),
        frustrated_ring(3),
        frustrated_ring(5),
    ],
    ids=["dense", "eight", "spins", "sparse", "sparse-spins", "hot", "cold", "triangle", "5-ring"],
)
def test_gibbs_does_not_drift(model):
    states, exact = drifted(model)
    check_distribution(states, exact.weights, model.space)


def test_few_chains_kernel_does_not_drift(monkeypatch):
    monkeypatch.setattr(gibbs, "FEW_CHAINS", N_CHAINS)
    model = machine(6)
    states, exact = drifted(model)
    check_distribution(states, exact.weights, model.space)


def test_more_units_than_one_block_of_sites(monkeypatch):
    """Units beyond the first block see the fields of all others."""
    monkeypatch.setattr(gibbs, "SITES", 3)
    model = machine(7, n=8)
    states, exact = drifted(model)
    check_distribution(states, exact.weights, model.space)


@pytest.mark.parametrize("sampler", [ebm.Gibbs(), ebm.Metropolis()])
def test_a_users_two_member_model_does_not_drift(sampler):
    states, exact = drifted(Frustrated(), sampler, n_chains=5000)
    check_distribution(states, exact.weights, Frustrated.space)


def restricted(seed=11):
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 2, (6, 4)),
        rng.normal(size=6),
        rng.normal(size=4),
        visible_center=rng.uniform(size=6),
        hidden_center=rng.uniform(size=4),
    )


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.7])
def test_layers_do_not_drift(beta):
    model = restricted().scaled(beta)
    states, exact = drifted(model)
    check_distribution(states, exact.weights, model.space)


def test_a_wrong_center_of_the_hidden_layer_is_caught():
    right = restricted()
    wrong = ebm.RestrictedBoltzmannMachine(
        right.weights, right.visible_biases, right.hidden_biases,
        visible_center=right.visible_center,
    )  # fmt: skip
    states, exact = drifted(wrong, start=right)
    assert distribution_p_value(states, exact.weights, right.space) < FALSE_FAIL_RATE


@pytest.mark.parametrize("q", [2, 3, 4])
def test_levels_do_not_drift(q):
    rng = np.random.default_rng(q)
    couplings = rng.normal(0, 1.5, (4, 4, q, q))
    couplings[np.arange(4), np.arange(4)] = 0
    model = ebm.PottsModel(couplings, rng.normal(size=(4, q)))
    states, exact = drifted(model)
    check_distribution(states, exact.weights, model.space)


def test_many_body_terms_do_not_drift():
    terms = {(0, 1, 2): 1.2, (1, 3): -0.8, (0,): 0.4, (0, 2, 3): -1.5}
    model = ebm.InteractionModel(terms, ebm.Spins(4))
    states, exact = drifted(model, n_chains=5000)
    check_distribution(states, exact.weights, model.space)


def test_metropolis_does_not_drift_for_pairs():
    model = machine(8)
    states, exact = drifted(model, ebm.Metropolis())
    check_distribution(states, exact.weights, model.space)


def mutants():
    """Wrong kernels, as models whose sweeps are run on draws of the right one."""
    right = machine(9)
    theta = right.parameters
    dropped = theta.copy()
    dropped[right.n + np.abs(theta[right.n :]).argmax()] = 0
    doubled = theta * np.where(np.arange(len(theta)) < right.n, 1, 2)
    return right, [right.with_parameters(dropped), right.with_parameters(doubled)]


@pytest.mark.parametrize("which", [0, 1], ids=["dropped coupling", "factor two"])
def test_a_wrong_coupling_is_caught(which):
    right, wrong = mutants()
    states, exact = drifted(wrong[which], start=right)
    assert distribution_p_value(states, exact.weights, right.space) < FALSE_FAIL_RATE


def test_updating_all_units_at_once_is_caught():
    model = machine(10)
    exact = ebm.exact(model)
    states = exact.sample(N_CHAINS, rng=1)
    uniform = np.random.default_rng(2).random(states.shape)
    synchronous = (uniform < model.conditional(states)).astype(float)
    assert distribution_p_value(synchronous, exact.weights, model.space) < FALSE_FAIL_RATE
