"""Cluster moves: every sign of couplings and fields, and what they are for.

That each kernel has the couplings of its model, keeps clamped units and reaches every state is
tested with all other kernels, in the files beside this one.
"""

import numpy as np
import pytest

import ebm
from ebm.errors import ModelError, PoorMixingWarning, ShapeError
from tests.oracles import all_states, is_primitive, kaufman
from tests.sampling.test_ergodicity import steps
from tests.sampling.test_no_drift import drifted
from tests.statistical import check_distribution, check_z_scores
from tests.torus_by_clusters import integrated

SAMPLERS = [ebm.SwendsenWang(), ebm.Wolff(n_clusters=2)]


def spins(couplings, fields, n=6):
    """Two rows of three with bonds along and across."""
    bonds = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    matrix = np.zeros((n, n))
    for (i, j), value in zip(bonds, couplings, strict=True):
        matrix[i, j] = matrix[j, i] = value
    return ebm.IsingModel(matrix, fields)


RNG = np.random.default_rng(0)
SIZES = RNG.uniform(0.2, 0.9, 7)
BALANCED = {
    "ferromagnet": spins(SIZES, np.zeros(6)),
    "antiferromagnet": spins(-SIZES, np.zeros(6)),
    "fields of one sign": spins(SIZES, RNG.uniform(0, 0.4, 6)),
    "staggered fields": spins(-SIZES, [0.3, -0.2, 0.4, -0.3, 0.0, -0.5]),
    "fields alone": spins(np.zeros(7), [0.3, -0.2, 0.4, -0.3, 0.0, -0.5]),
}
FRUSTRATED = {
    "random fields": spins(SIZES, [0.3, -0.2, 0.4, 0.3, 0.0, -0.5]),
    "random bonds": spins(SIZES * [1, 1, 1, 1, 1, 1, -1], np.zeros(6)),
}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=["bonds", "grown"])
@pytest.mark.parametrize("name", BALANCED)
def test_clusters_do_not_drift(name, sampler):
    states, exact = drifted(BALANCED[name], sampler)
    check_distribution(states, exact.weights, BALANCED[name].space)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=["bonds", "grown"])
@pytest.mark.parametrize("name", FRUSTRATED)
def test_frustration_is_warned_of_and_answers_stay_right(name, sampler):
    with pytest.warns(PoorMixingWarning, match="frustrated"):
        states, exact = drifted(FRUSTRATED[name], sampler)
    check_distribution(states, exact.weights, FRUSTRATED[name].space)


def test_frustration_is_that_of_brute_force():
    """Bonds are all satisfied by some state, fields by the same one."""
    from ebm.sampling import cluster_moves

    rng = np.random.default_rng(3)
    states, seen = all_states(ebm.Spins(6)), set()
    for _ in range(60):
        model = spins(rng.integers(-1, 2, 7), rng.integers(-1, 2, 6) * (rng.random(6) < 0.4))
        bonds = np.triu(model.couplings)
        least = -(abs(bonds).sum() + abs(model.fields).sum())
        is_balanced = bool(np.isclose(model.energy(states).min(), least))
        seen.add(is_balanced)
        if is_balanced:
            cluster_moves._spins(model)
        else:
            with pytest.warns(PoorMixingWarning):
                cluster_moves._spins(model)
    assert seen == {True, False}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=["bonds", "grown"])
def test_free_units_reach_every_state(sampler):
    """One cluster a unit, of which a fixed number would flip: half of the states at even sweeps."""
    counts, _ = steps(ebm.IsingModel(np.zeros((3, 3)), np.zeros(3)), sampler, copies=500)
    assert is_primitive(counts)


def test_clusters_cross_where_single_units_do_not():
    cold = ebm.from_graph(ebm.lattice((12, 12), coupling=0.6))
    up = np.ones(144)
    for sampler, crosses in [(ebm.Gibbs(), False), *((each, True) for each in SAMPLERS)]:
        draws = ebm.sample(cold, sampler, n_draws=200, n_chains=2, initial=up, rng=0).chains
        assert bool((draws.mean(axis=2) < -0.8).any()) is crosses


def test_the_torus_in_its_critical_region():
    """e of the 4×4 torus at K = .44, from chains of many starts."""
    model = ebm.from_graph(ebm.lattice((4, 4), coupling=0.44))
    truth = ebm.exact(model).expectation(model.energy)
    for sampler in SAMPLERS:
        samples = [ebm.sample(model, sampler, n_draws=2000, rng=k) for k in range(10)]
        estimates = [each.estimate(model.energy) for each in samples]
        errors = np.array([each.standard_error for each in estimates])
        check_z_scores([each.value for each in estimates], truth, errors)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=["bonds", "grown"])
def test_chains_go_on_bit_for_bit(sampler):
    model = BALANCED["fields of one sign"]
    whole = ebm.sample(model, sampler, n_draws=8, rng=0)
    first = ebm.sample(model, sampler, n_draws=5, rng=0)
    rest = ebm.sample(model, sampler, n_draws=3, initial=first.final)
    assert np.array_equal(whole.chains[:, 5:], rest.chains)


def test_great_couplings_and_fields():
    """Bonds of probability 1: all flip together, and not against a field."""
    model = spins(np.full(7, 1e200), np.zeros(6))
    draws = ebm.sample(model, ebm.SwendsenWang(), n_draws=200, initial=np.ones(6), rng=0).chains
    assert set(draws.sum(axis=2).ravel()) == {-6, 6}
    held = spins(np.full(7, 1e200), [1e200, 0, 0, 0, 0, 0])
    for sampler in SAMPLERS:
        draws = ebm.sample(held, sampler, n_draws=50, initial=np.ones(6), rng=0).chains
        assert (draws == 1).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=["bonds", "grown"])
@pytest.mark.parametrize(
    "model",
    [
        ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3))),
        ebm.InteractionModel({(0, 1, 2): 1.0}, ebm.Spins(3)),
        ebm.TabularModel(np.zeros(4), ebm.Spins(2)),
    ],
)
def test_other_models_are_refused(model, sampler):
    with pytest.raises(ModelError, match="two-valued units in pairs"):
        ebm.sample(model, sampler, n_draws=2)


def test_a_sweep_has_clusters():
    with pytest.raises(ShapeError, match="n_clusters"):
        ebm.Wolff(n_clusters=0)


def test_kaufman_is_the_exact_sum():
    for coupling in (0.2, 0.44, 0.6):
        model = ebm.from_graph(ebm.lattice((4, 4), coupling=coupling))
        assert kaufman(4, coupling) == pytest.approx(ebm.exact(model).log_partition, rel=1e-13)
    assert kaufman(20, 0.44) == pytest.approx(372.12200991028707986, rel=1e-14)


def test_ln_z_of_a_torus_by_integration():
    pieces, length = ((0.0, 0.3, 3), (0.3, 0.44, 3)), 16
    value, error = integrated(length, 300, pieces=pieces)
    assert error < 0.4
    assert abs(value + 256 * np.log(2) - kaufman(length, 0.44)) < 4 * error
