"""One step at a time: the same seed at every step is said, and harms no run that goes on once."""

import copy
import warnings
from collections import OrderedDict

import numpy as np
import pytest

import ebm
from ebm.errors import RepeatedNumbersWarning

FREE = ebm.IsingModel(np.zeros((6, 6)), np.zeros(6))
PAIRS = ebm.IsingModel(0.2 * (np.ones((6, 6)) - np.eye(6)), np.linspace(-0.3, 0.3, 6))
MAGNET = ebm.IsingModel(np.ones((6, 6)) - np.eye(6), np.zeros(6))


@pytest.fixture(autouse=True)
def no_run_before(monkeypatch):
    monkeypatch.setattr("ebm.sampling._streams._LATEST", OrderedDict())


class Well(ebm.EnergyModel):
    space = ebm.Reals(2)

    def energy(self, states):
        return 0.5 * (np.asarray(states) ** 2).sum(axis=-1)

    def state_gradient(self, states):
        return np.asarray(states)


def step(state, rng, model=FREE, sampler=None, n_chains=1):
    return ebm.sample(
        model, sampler, n_draws=1, n_chains=n_chains, burn_in=0, rng=rng, initial=state
    )


def continuous_step(state, rng):
    hybrid = ebm.HamiltonianMonteCarlo(0.5, 3)
    return ebm.sample(Well(), hybrid, n_draws=1, burn_in=0, rng=rng, initial=state)


#: From a state and a source to the next state, as users write it.
STEPS = {
    "one chain": lambda s, rng: step(s, rng).chains[0, -1],
    "its last state": lambda s, rng: step(s, rng).final.states,
    "a copy in floats": lambda s, rng: step(s, rng).chains[0, -1].astype(float).copy(),
    "one of four chains": lambda s, rng: step(s, rng, PAIRS, n_chains=4).chains[0, -1],
    "Metropolis": lambda s, rng: step(s, rng, sampler=ebm.Metropolis()).chains[:, -1],
    "tempering": lambda s, rng: step(s, rng, PAIRS, ebm.ParallelTempering([0.5])).final.states,
    "over real numbers": lambda s, rng: continuous_step(s, rng).values[:, -1],
}
SOURCES = {
    "integer": lambda: 3,
    "numpy integer": lambda: np.int64(3),
    "sequence": lambda: np.random.SeedSequence(3),
    "new generator": lambda: np.random.default_rng(3),
}


def starting(name):
    return np.ones(2 if name == "over real numbers" else 6)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", STEPS)
def test_the_same_seed_at_every_step_is_said(name, source):
    state, rng = starting(name), SOURCES[source]
    for _ in range(2):
        state = STEPS[name](state, rng())
    for _ in range(3):
        with pytest.warns(RepeatedNumbersWarning, match="give one numpy Generator as rng to all"):
            state = STEPS[name](state, rng())


def test_chains_that_stay_are_said_too():
    """A view of the states of the run before is a step further wherever it is."""
    state = np.ones(6)
    for _ in range(2):
        state = step(state, 3, MAGNET).chains[0, -1]
    with pytest.warns(RepeatedNumbersWarning):
        state = step(state, 3, MAGNET).chains[0, -1]
    assert (state == 1).all()


@pytest.mark.parametrize("rng", [None, np.random.default_rng(3)], ids=["none", "generator"])
@pytest.mark.parametrize("name", STEPS)
def test_sources_that_go_on_take_chains_through_all_states(name, rng):
    state, seen = starting(name), set()
    for _ in range(60):
        state = STEPS[name](state, rng)
        seen.add(tuple(np.ravel(state)))
    assert len(seen) > 15


def test_chains_taken_up_may_have_the_seed_of_their_start():
    samples = ebm.sample(FREE, n_draws=1, n_chains=1, rng=3)
    seen = set()
    for _ in range(60):
        samples = ebm.sample(FREE, n_draws=1, rng=3, initial=samples.final)
        seen.add(tuple(samples.chains[0, -1]))
    assert len(seen) > 15


def correlation(first, second):
    """Of the draws of two runs at the same times, (chain, draw, n)."""
    both = np.stack([first, second]).astype(float)
    both -= both.mean(axis=(1, 2), keepdims=True)
    return (both[0] * both[1]).mean() / (both**2).mean()


@pytest.mark.parametrize("start", [None, np.ones((8, 6))], ids=["random", "given"])
def test_a_run_goes_on_once_with_its_seed(start):
    """By other random numbers: with the same ones both runs would soon be one."""
    settings = {"n_draws": 500, "n_chains": 8, "rng": 3}
    first = ebm.sample(PAIRS, **settings, initial=start)
    second = ebm.sample(PAIRS, **settings, initial=first.chains[:, -1])
    assert abs(correlation(first.chains, second.chains)) < 0.1


@pytest.mark.parametrize("start", [None, np.ones((8, 2))], ids=["random", "given"])
def test_a_run_over_real_numbers_goes_on_once_with_its_seed(start):
    hybrid = ebm.HamiltonianMonteCarlo(0.5, 3)
    settings = {"n_draws": 500, "n_chains": 8, "rng": 3}
    first = ebm.sample(Well(), hybrid, **settings, initial=start)
    second = ebm.sample(Well(), hybrid, **settings, initial=first.values[:, -1])
    assert abs(correlation(first.values, second.values)) < 0.1


def test_runs_from_other_states_are_others():
    """Up and down with the same seed are compared with each other, and must not be one run."""
    up, down = (
        ebm.sample(PAIRS, n_draws=500, n_chains=8, rng=3, initial=sign * np.ones(6)).chains
        for sign in (1, -1)
    )
    assert abs(correlation(up, down)) < 0.1
    again = ebm.sample(PAIRS, n_draws=500, n_chains=8, rng=3, initial=[1] * 6).chains
    assert np.array_equal(up, again)


def test_runs_that_are_no_loop_stay_silent():
    """The same runs again and again, some of which end where others start; other seeds."""
    for _ in range(3):
        for start in (np.ones(6), -np.ones(6), [1, -1, 1, 1, -1, 1]):
            for model in (PAIRS, MAGNET):
                step(start, 5, model)
                step(start, 5, model)
    state = np.ones(6)
    for seed in range(7, 20):
        state = step(state, seed).chains[0, -1]


def test_a_repeated_run_is_repeated_whatever_the_form_of_its_seed():
    """A SeedSequence is not used up, and children it has already are not given again."""
    sequence = np.random.SeedSequence(3)
    runs = [ebm.sample(PAIRS, n_draws=20, rng=rng).chains for rng in (sequence, sequence, 3)]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
    assert sequence.n_children_spawned == 0
    spent = copy.deepcopy(sequence)
    spent.spawn(3)
    assert not np.array_equal(ebm.sample(PAIRS, n_draws=20, rng=spent).chains, runs[0])


def test_old_runs_are_forgotten():
    from ebm.sampling import _streams

    for seed in range(3 * _streams.REMEMBERED):
        step(np.ones(6), seed)
    assert len(_streams._LATEST) <= _streams.REMEMBERED


def test_the_warning_points_at_the_call():
    hybrid = ebm.HamiltonianMonteCarlo(0.5, 3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        state = [1] * 6
        for _ in range(3):
            state = ebm.sample(FREE, n_draws=1, rng=4, initial=state).chains[0, -1]
        state = [1, 1]
        for _ in range(3):
            run = ebm.sample(Well(), hybrid, n_draws=1, rng=4, initial=state)
            state = run.values[0, -1]
    assert [warning.filename for warning in said] == [__file__] * 2
