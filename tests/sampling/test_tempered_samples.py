"""A ladder as a measurement: turns, round trips, placement, and weights for any temperature."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import logsumexp

import ebm
from ebm.errors import EbmError, ModelError, PoorMixingWarning, PoorWeightsWarning, ShapeError
from ebm.sampling import SamplingRun, _mbar
from ebm.sampling._block_errors import block_numbers, jackknife_error
from ebm.sampling._ladder import LadderSweeper
from ebm.sampling._mbar import Reweighting, free_energies
from ebm.sampling._placement import at_equal_shares
from tests.lattices import LOG_PARTITION_OF_EIGHT, torus
from tests.sampling.test_annealing import potts, restricted
from tests.sampling.test_no_drift import machine

SIX = torus(6, 0.67)


@pytest.fixture(scope="module")
def nine():
    """Equal shares of the barrier of this torus, nine slots."""
    return ebm.ParallelTempering.for_model(SIX, n_copies=8, rng=1)


def counted(sampler, n_scans=2000):
    """Many scans of 32 chains; only their swaps are wanted."""
    run = SamplingRun(thin=n_scans)
    return ebm.sample(SIX, sampler, n_draws=1, n_chains=32, burn_in=200, rng=2, run=run)


def test_even_and_odd_pairs_in_turn_reach_their_rate_of_round_trips(nine):
    """9 slots, 6×6 torus: 0.0494 a scan, below the bound 0.0707 of sweeps that forget."""
    samples = counted(nine)
    assert samples.n_scans == 64_000
    assert samples.round_trip_rate == pytest.approx(0.0494, abs=0.003)
    assert samples.round_trip_bound == pytest.approx(0.0707, abs=0.004)
    assert samples.barrier == pytest.approx(3.37, abs=0.06)
    assert np.ptp(samples.rejection) < 0.06


def test_pairs_drawn_at_random_make_half_as_many(nine, monkeypatch):
    """Mutant: the parity of a scan is drawn. 0.0284 a scan, bound 1/(2N + 2 Σ r/(1 − r))."""
    rng, advance = np.random.default_rng(0), LadderSweeper.advance

    def at_random(self, work, stream, n_sweeps):
        for _ in range(n_sweeps):
            work.scans = int(rng.integers(2))
            advance(self, work, stream, 1)

    monkeypatch.setattr(LadderSweeper, "advance", at_random)
    samples = counted(nine)
    assert samples.round_trip_rate == pytest.approx(0.0284, abs=0.002)
    odds = samples.rejection / (1 - samples.rejection)
    assert samples.round_trip_rate < 1 / (2 * 8 + 2 * odds.sum())


@pytest.mark.parametrize("model", [machine(0), torus(4, 0.4), potts(), restricted(2.5)])
def test_chains_taken_up_at_any_turn_are_those_that_never_stopped(model):
    """States, order of the replicas, round trips and rejections, after odd and even scans."""
    sampler, run = ebm.ParallelTempering([0.7, 0.5, 0.2]), SamplingRun(n_jobs=1)
    settings = {"n_chains": 300, "rng": 3, "burn_in": 0, "run": run}
    whole = ebm.sample(model, sampler, n_draws=9, **settings)
    for cut in (1, 4):
        first = ebm.sample(model, sampler, n_draws=cut, **settings)
        rest = ebm.sample(model, sampler, n_draws=9 - cut, initial=first.final)
        assert np.array_equal(whole.slots[:, :, cut:], rest.slots)
        assert whole.round_trips == first.round_trips + rest.round_trips
        for field in dataclasses.fields(whole.final.ladder):
            ends = (getattr(each.final.ladder, field.name) for each in (whole, rest))
            assert np.array_equal(*ends, equal_nan=True), field.name


def test_chains_that_forget_their_turn_are_others(monkeypatch):
    """Mutant: every run begins with the even pairs."""
    sampler, settings = ebm.ParallelTempering([0.7, 0.5, 0.2]), {"n_chains": 300, "rng": 3}
    whole = ebm.sample(machine(0), sampler, n_draws=4, burn_in=0, **settings)
    first = ebm.sample(machine(0), sampler, n_draws=1, burn_in=0, **settings).final
    forgetful = dataclasses.replace(first, ladder=dataclasses.replace(first.ladder, scans=0))
    rest = ebm.sample(machine(0), sampler, n_draws=3, initial=forgetful)
    assert not np.array_equal(whole.slots[:, :, 1:], rest.slots)


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_all_temperatures_have_the_same_bits_for_any_number_of_threads(n_jobs):
    draw = {"n_draws": 5, "n_chains": 600, "rng": 3}
    one, other = (
        ebm.sample(SIX, ebm.ParallelTempering([0.7, 0.3]), run=SamplingRun(n_jobs=jobs), **draw)
        for jobs in (1, n_jobs)
    )
    assert np.array_equal(one.slots, other.slots)
    assert np.array_equal(one.rejection, other.rejection)
    assert one.round_trips == other.round_trips


def test_chains_of_a_fit_remember_their_turn_in_checkpoints(tmp_path):
    rows = np.random.default_rng(0).integers(0, 2, (40, 4))
    start = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
    chains = ebm.PersistentChains(20, sampler=ebm.ParallelTempering([0.5, 0.2]))
    settings = {"loss": ebm.Likelihood(chains), "rng": 1}
    whole = ebm.fit(start, rows, solver=ebm.GradientSteps(n_epochs=7), **settings)
    path = tmp_path / "fit.npz"
    ebm.fit(start, rows, solver=ebm.GradientSteps(n_epochs=3), checkpoint=path, **settings)
    resumed = ebm.fit(
        start, rows, solver=ebm.GradientSteps(n_epochs=7), checkpoint=path, **settings
    )
    assert np.array_equal(whole.model.parameters, resumed.model.parameters)


def test_a_ladder_finds_as_many_temperatures_as_its_barrier_needs():
    ladder = ebm.ParallelTempering.for_model(SIX, rng=0)
    assert len(ladder.betas) in (7, 8)
    samples = counted(ladder, 500)
    assert abs(samples.swap_rates - 0.5).max() < 0.12


def test_equal_shares_of_a_barrier_that_is_known():
    """r uniform in β leaves the ladder alone; all of it in one gap puts the slots there."""
    betas = np.array([1.0, 0.6, 0.3, 0.0])
    steps = np.abs(np.diff(betas))
    assert at_equal_shares(betas, steps, 11) == pytest.approx(np.linspace(1, 0, 11), abs=0.01)
    crowded = at_equal_shares(betas, np.array([0.0, 0.9, 0.0]), 9)
    assert ((crowded[1:-1] < 0.61) & (crowded[1:-1] > 0.29)).all()


# The number of states of each energy of the 4×4 torus.
LEVELS = np.array([-32, -24, -20, -16, -12, -8, -4, 0, 4, 8, 12, 16, 20, 24, 32], dtype=float)
STATES = [2, 32, 64, 424, 1728, 6688, 13568, 20524, 13568, 6688, 1728, 424, 64, 32, 2]


def drawn(seed=0, n_draws=2000, betas=(0.8, 0.6, 0.45, 0.3, 0.0)):
    """Energies of independent draws at each temperature, as numbers of each level."""
    rng = np.random.default_rng(seed)
    logs = np.log(STATES) - np.outer(betas, LEVELS)
    rows = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return np.array(betas), np.array([rng.multinomial(n_draws, row) for row in rows])


def test_free_energies_solve_their_equations():
    """Against a root finder on f_k = −ln Σ_n e^{−u_kn} / Σ_j N_j e^{f_j − u_jn}, to 1e-10."""
    betas, counts = drawn()
    often, potentials = counts.sum(axis=0), np.outer(betas, LEVELS)
    seen = often > 0
    often, potentials = often[seen].astype(float), potentials[:, seen]
    totals = counts.sum(axis=1).astype(float)
    found = free_energies(potentials, totals, often, np.zeros(len(betas)))

    def residual(rest):
        f = np.append(0.0, rest)
        mixture = logsumexp((np.log(totals) + f)[:, None] - potentials, axis=0)
        wanted = -logsumexp(np.log(often) - potentials - mixture, axis=1)
        return (wanted - wanted[0] - f)[1:]

    other = root(residual, np.zeros(len(betas) - 1), tol=1e-14, method="hybr").x
    assert abs(residual(other)).max() < 1e-12
    assert found[1:] == pytest.approx(other, abs=1e-10)


def test_draws_weighted_one_by_one_are_those_pooled_by_energy():
    betas, counts = drawn(n_draws=200)
    draws = np.concatenate([np.repeat(np.arange(len(LEVELS)), row) for row in counts])
    block = np.tile(block_numbers(1, 200).ravel(), len(betas))
    _, place = np.unique(draws, return_inverse=True)
    levels = LEVELS[np.unique(draws)]
    pooled = Reweighting(np.outer(betas, levels), place, block)
    single = Reweighting(np.outer(betas, LEVELS[draws]), np.arange(len(draws)), block)
    values = np.random.default_rng(1).normal(size=(len(draws), 3))
    for energies, each in ((levels, pooled), (LEVELS[draws], single)):
        averages = each.averages(0.5 * energies, each.sums(values))
        if each is pooled:
            expected = averages
    assert averages == pytest.approx(expected, abs=1e-9)
    # One block left out is a run without it.
    kept = block != 3
    without = Reweighting(np.outer(betas, levels), place[kept], block[kept])
    fewer = without.averages(0.5 * levels, without.sums(values[kept]))[0]
    assert fewer == pytest.approx(expected[4], abs=1e-9)


def test_ln_z_of_independent_draws_is_exact_within_errors_over_many_runs(monkeypatch):
    """And free energies with a step of 0.3 are detected."""

    def scores(n_runs=60):
        z = []
        for seed in range(n_runs):
            betas, counts = drawn(seed, 500)
            rng = np.random.default_rng(seed)
            draws = [rng.permutation(np.repeat(np.arange(len(LEVELS)), row)) for row in counts]
            block = np.tile(block_numbers(1, 500).ravel(), len(betas))
            pool = Reweighting(np.outer(betas, LEVELS), np.concatenate(draws), block)
            blocks = (None, *range(20))
            at, hot = (
                np.array([pool.log_ratio_and_weights(beta * LEVELS, b)[0] for b in blocks])
                for beta in (0.5, 0.0)
            )
            exact = logsumexp(np.log(STATES) - 0.5 * LEVELS) - 16 * np.log(2)
            z.append((at - hot - exact)[0] / jackknife_error((at - hot)[1:]))
        return np.array(z)

    z = scores()
    assert abs(z.mean()) < 4 / np.sqrt(60)
    assert 0.75 < np.sqrt((z**2).mean()) < 1.35
    right = _mbar.free_energies

    def shifted(potentials, counts, often, start):
        return right(potentials, counts, often, start) + 0.3 * (np.arange(len(counts)) > 2)

    monkeypatch.setattr(_mbar, "free_energies", shifted)
    assert abs(scores(30).mean()) > 4 / np.sqrt(30)


def test_errors_of_blocks():
    """The jackknife of a mean is its standard error."""
    values = np.random.default_rng(0).normal(size=20)
    left_out = (values.sum() - values) / 19
    assert jackknife_error(left_out) == pytest.approx(values.std(ddof=1) / np.sqrt(20), rel=1e-12)
    sizes = np.bincount(block_numbers(3, 110).ravel())
    assert len(sizes) == 20
    assert np.ptp(sizes) <= 1


EIGHT = torus(8)


@pytest.fixture(scope="module")
def eight():
    """Nine trial temperatures would lie far apart at T = 1; the ladder is found."""
    ladder = ebm.ParallelTempering.for_model(EIGHT, rng=0)
    return ebm.sample(EIGHT, ladder, n_draws=1500, n_chains=8, burn_in=300, rng=1)


@pytest.mark.parametrize("beta", LOG_PARTITION_OF_EIGHT)
def test_the_eight_by_eight_torus(eight, beta):
    """LIMITS §3.1: ln Z at temperatures between those of the ladder, within four errors."""
    estimate = eight.at(beta).log_partition
    assert abs(estimate.value - LOG_PARTITION_OF_EIGHT[beta]) < 4 * estimate.standard_error
    assert estimate.standard_error < 0.1


def test_sums_over_bonds_and_their_variance(eight):
    ensemble = eight.at(0.44)
    mean = ensemble.estimate(EIGHT.energy)
    assert abs(-mean.value - 95.2016347767013) < 4 * mean.standard_error

    def powers(states):
        energies = EIGHT.energy(states)
        return np.stack([energies, energies**2], axis=1)

    variance = ensemble.estimate(powers, of=lambda a: a[1] - a[0] ** 2)
    assert abs(variance.value - 379.818351568624) < 4 * variance.standard_error


@pytest.mark.parametrize("model", [machine(0), restricted(1.0), potts()])
def test_any_temperature_of_other_models(model):
    """With a hidden layer by the energies of the scaled joint model; moments and ln Z."""
    samples = ebm.sample(
        model, ebm.ParallelTempering([0.8, 0.4, 0.0]), n_draws=800, n_chains=8, rng=4
    )
    for beta in (1.0, 0.6):
        exact, ensemble = ebm.exact(model.scaled(beta)), samples.at(beta)
        log_partition = ensemble.log_partition
        off = log_partition.value - exact.log_partition
        assert abs(off) < 4 * log_partition.standard_error + 1e-9
        features = ensemble.estimate(model.space.features)
        assert (abs(features.value - exact.moments().mean) < 4.5 * features.standard_error).all()
        assert ensemble.moments().mean == pytest.approx(features.value, abs=1e-9)
        assert 100 < ensemble.sample_size < 25_600


def test_weights_of_scaled_effective_energies_are_caught(monkeypatch):
    """Mutant: β F₁ in place of F_β."""
    model = restricted(1.0)
    samples = ebm.sample(
        model, ebm.ParallelTempering([0.8, 0.4, 0.0]), n_draws=1500, n_chains=8, rng=4
    )
    monkeypatch.setattr("ebm.sampling.tempered_samples.is_linear", lambda model: True)
    estimate = samples.at(0.6).log_partition
    off = abs(estimate.value - ebm.exact(model.scaled(0.6)).log_partition)
    assert off > 4 * estimate.standard_error


def test_clamped_units_keep_their_values_at_every_temperature():
    model, sampler = machine(0), ebm.ParallelTempering([0.5, 0.0])
    fixed = SamplingRun(clamped={0: 1, 3: 0})
    samples = ebm.sample(model, sampler, n_draws=1500, n_chains=8, rng=1, run=fixed)
    ensemble = samples.at(0.7)
    assert ensemble.log_partition is None
    estimate = ensemble.estimate(lambda s: s[:, 1])
    given = model.scaled(0.7).given({0: 1, 3: 0})
    truth = ebm.exact(given).moments().mean[0]
    assert abs(estimate.value - truth) < 4.5 * estimate.standard_error
    apart = SamplingRun(clamped={0: [0, 1]})
    samples = ebm.sample(model, sampler, n_draws=50, rng=1, run=apart)
    with pytest.raises(ModelError, match="clamp all chains at the same values"):
        samples.at(0.7)


def test_poor_weights_and_gaps_are_said():
    model = torus(8, 1.0)
    with pytest.warns(PoorMixingWarning, match="states hardly pass between beta=1 and 0"):
        ebm.sample(model, ebm.ParallelTempering([0.0]), n_draws=100, rng=0).at(1.0)
    samples = ebm.sample(model, ebm.ParallelTempering([0.0]), n_draws=100, rng=0)
    object.__setattr__(samples, "_said_few_exchanges", True)
    with pytest.warns(PoorWeightsWarning, match="worth only .* draws, fewer than 50"):
        samples.at(0.3)


@pytest.mark.parametrize("beta", [-0.1, 0.1, 1.1])
def test_temperatures_beyond_the_ladder_are_refused(beta):
    samples = ebm.sample(machine(0), ebm.ParallelTempering([0.5, 0.2]), n_draws=20, rng=0)
    with pytest.raises(EbmError, match=r"beta must be between 0\.2 and 1"):
        samples.at(beta)
    assert samples.at(0.3).log_partition is None


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"hottest": 1.0}, EbmError, "hottest must be an inverse temperature"),
        ({"hottest": np.nan}, ModelError, "hottest must be finite"),
        ({"n_copies": 0}, ShapeError, "n_copies must be a positive integer"),
        ({"n_rounds": 2.5}, ShapeError, "n_rounds must be a positive integer"),
        ({"sampler": 3}, ModelError, "sampler must be one such as"),
    ],
)
def test_other_settings_of_a_search_are_named(settings, error, match):
    with pytest.raises(error, match=match):
        ebm.ParallelTempering.for_model(machine(0), **settings)


def test_too_few_temperatures_are_said():
    with pytest.warns(PoorMixingWarning, match="2 temperatures are too few"):
        ebm.ParallelTempering.for_model(torus(8, 1.0), n_copies=1, n_rounds=2, rng=0)


def test_weights_sum_to_one_beside_large_energies():
    """They were off by the last digit of ln Z, which a variance of energies multiplies."""
    model = ebm.IsingModel(1e8 * (np.ones((4, 4)) - np.eye(4)), np.zeros(4))
    samples = ebm.sample(model, ebm.ParallelTempering([0.5, 0.1, 0]), n_draws=200, rng=0)
    ensemble = samples.at(0.3)
    assert ensemble.weights.sum() == pytest.approx(1, abs=1e-12)
    assert ensemble.estimate(model.energy).value == pytest.approx(-6e8, rel=1e-14)


def test_intervals_of_log_partition_have_nineteen_degrees_of_freedom():
    samples = ebm.sample(torus(3), ebm.ParallelTempering([0.5, 0]), n_draws=1000, rng=0)
    assert samples.at(0.5).log_partition.degrees_of_freedom == 19


def test_what_is_no_function_is_refused():
    samples = ebm.sample(torus(3), ebm.ParallelTempering([0.5, 0]), n_draws=1000, rng=0).at(0.5)
    with pytest.raises(ModelError, match="an observable must be a function"):
        samples.estimate(3)
    for of in (3, lambda mean: "a"):
        with pytest.raises(EbmError, match=r"of (must be a function|returns must hold numbers)"):
            samples.estimate(lambda s: s[:, 0], of=of)
    with pytest.raises(EbmError, match="n_copies must be at most"):
        ebm.ParallelTempering.for_model(torus(3), n_copies=10**6)


def test_chains_on_a_ladder_that_disagree_are_advised_to_place_it():
    """Not to use the method that they are of."""
    ladder = ebm.ParallelTempering([0.9])
    samples = ebm.sample(torus(8).scaled(1.5), ladder, n_draws=200, n_chains=8, rng=0)
    with pytest.warns(PoorMixingWarning, match=r"or place temperatures by .*for_model\(model\)"):
        samples.moments()


def test_notes_of_tempered_chains_do_not_advise_tempering():
    with pytest.warns(PoorMixingWarning):
        note = (
            ebm.sample(EIGHT, ebm.ParallelTempering([0.9]), n_draws=10, rng=0)
            .estimate(EIGHT.energy)
            .note
        )
    assert "for_model(model)" in note
    assert "ebm.ParallelTempering()" not in note


def test_few_round_trips_are_said_where_states_are_weighted():
    """Chains that never came from the hottest slot may all have missed a valley."""
    rng = np.random.default_rng(0)
    couplings = np.triu(rng.normal(size=(6, 6)), 1) * 1000
    glass = ebm.IsingModel(couplings + couplings.T, rng.normal(size=6))
    samples = ebm.sample(glass, ebm.ParallelTempering([0.5, 0.1, 0.0]), n_draws=50, rng=0)
    with pytest.warns(PoorMixingWarning, match=r"made \d round trips|states hardly pass"):
        samples.at(1.0)
