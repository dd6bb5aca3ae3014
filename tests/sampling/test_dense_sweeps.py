"""Dense machines by products of some units, or, where few units flip, by following their flips."""

import numpy as np
import pytest

import ebm
from ebm.sampling.gibbs import PairSweeper, flips_are_rare
from tests.oracles import all_states
from tests.sampling import kernels
from tests.sampling.kernels import GIBBS, METROPOLIS, Weakened, weakened
from tests.statistical import check_mean

N_CHAINS = 5000


@pytest.fixture
def followed(monkeypatch):
    """Numbers of sweeps that followed flips."""
    sweeps, plain = [], PairSweeper._advance_by_flips

    def counted(self, work, stream, n_sweeps):
        sweeps.append(n_sweeps)
        plain(self, work, stream, n_sweeps)

    monkeypatch.setattr(PairSweeper, "_advance_by_flips", counted)
    return sweeps


def glass(n, beta):
    upper = np.triu(np.random.default_rng(0).normal(0, 1 / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(upper + upper.T, np.full(n, 0.2)).scaled(beta)


def thinned(model, sampler=GIBBS, **settings):
    run = ebm.sampling.SamplingRun(thin=5)
    return ebm.sample(model, sampler, run=run, rng=2, **settings)


@pytest.mark.parametrize(("beta", "sweeps"), [(0.5, set()), (8.0, {4})])
def test_flips_are_followed_where_they_are_rare(beta, sweeps, followed):
    settled = thinned(glass(80, beta), n_draws=4, n_chains=20, burn_in=0)
    followed.clear()
    more = thinned(glass(80, beta), n_draws=2, initial=settled.final)
    assert set(followed) == sweeps
    # The measure is of what the chains did.
    states = np.swapaxes(more.chains, 0, 1)
    assert flips_are_rare(states[0].T, states[0].T)
    assert not flips_are_rare(states[0].T, -states[0].T)


def test_the_choice_follows_from_the_states_so_that_chains_go_on_bit_for_bit(followed):
    whole = thinned(glass(80, 8.0), n_draws=8, n_chains=20)
    first = thinned(glass(80, 8.0), n_draws=3, n_chains=20)
    rest = thinned(glass(80, 8.0), n_draws=5, initial=first.final)
    assert followed
    assert np.array_equal(whole.chains[:, 3:], rest.chains)


@pytest.mark.parametrize("sampler", [GIBBS, METROPOLIS])
def test_chains_that_change_over_have_the_couplings_of_their_model(sampler, followed, monkeypatch):
    monkeypatch.setattr("ebm.sampling.gibbs.FEW_FLIPS", 1e9)
    model = kernels.pairs()
    exact, states = ebm.exact(model), all_states(model.space)
    differences = weakened(model).energy(states) - model.energy(states)

    def check(own):
        start = exact.sample(N_CHAINS, rng=1)
        samples = thinned(model, own, n_draws=30, initial=start, burn_in=0)
        along = differences[model.space.index(samples.chains)]
        check_mean(along.mean(axis=1), exact.weights @ differences)

    check(sampler)
    assert set(followed) == {4}
    with pytest.raises(AssertionError, match="standard errors"):
        check(Weakened(sampler))
