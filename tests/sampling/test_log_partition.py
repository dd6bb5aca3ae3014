"""ln Z between its bounds: Bennett's ratio, integration, what has an error, and which method."""

import math

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError, ShapeError
from ebm.model import checked_energy
from ebm.sampling import (
    BennettRatio,
    LogPartition,
    ThermodynamicIntegration,
    _annealed_chains,
    annealing,
)
from ebm.sampling import bennett as both_ways
from ebm.sampling.bennett import bennett
from tests.sampling.coverage_of_log_partition import Turned, coverage, errors, glass
from tests.sampling.test_annealing import MODELS, restricted
from tests.sampling.test_no_drift import frustrated_ring, machine
from tests.statistical import FALSE_FAIL_RATE, check_z_scores, counts_p_value

FEW_STEPS = ebm.Annealing(8000, schedule=(0, 0.3, 0.6, 1))


def check(model, method=None, rng=3):
    """ln Z within its error, and between its bounds."""
    found = (method or BennettRatio(FEW_STEPS)).log_partition(model, rng)
    truth = ebm.exact(model).log_partition
    check_z_scores(found.value, truth, found.standard_error)
    assert found.lower.value - 5 * found.lower.standard_error < truth
    assert found.upper.value + 5 * found.upper.standard_error > truth
    return found


class TestBennettRatio:
    @pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
    def test_of_three_steps(self, model):
        """Whatever the kernel; false-fail rate 1e-6 each."""
        assert "back from exact draws" in check(model).message

    def test_of_real_units(self):
        rng = np.random.default_rng(0)
        visible = ebm.units.Gaussian(np.array([1.0, 2.0, 1.5]))
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(0, 0.4, (3, 2)), np.zeros(3), np.zeros(2), units=(visible, ebm.units.Spin())
        )
        check(rbm, BennettRatio(ebm.Annealing(4000, 10)))

    def test_of_works_that_obey_crooks_relation(self):
        """Normal works of variance σ², means f ∓ σ²/2; unequal numbers."""
        rng, f, variance = np.random.default_rng(0), 3.0, 2.0
        up = rng.normal(f - variance / 2, np.sqrt(variance), 40_000)
        down = rng.normal(f + variance / 2, np.sqrt(variance), 500)
        weights = np.full(500, 1 / 500)
        value, *_ = bennett(up, down, weights)
        assert abs(value - f) < 0.1
        # Summands of either side have equal sums, not equal means.
        forgotten, *_ = bennett(up[:500], down, weights)
        assert abs(forgotten - f) < 0.3

    def test_numbers_of_both_ways_may_differ(self, monkeypatch):
        model = machine(0, scale=1.0)
        starts = ebm.exact(model).sample(500, rng=0)
        method = BennettRatio(FEW_STEPS, starts)
        found = check(model, method)
        assert "500 back from the starts given" in found.message
        # Mutant: m = ln(N_forward / N_reverse) is forgotten.
        monkeypatch.setattr(both_ways.math, "log", lambda ratio: 0.0)
        with pytest.raises(AssertionError):
            check(model, method)

    def test_mutants_of_the_reverse_chains_are_caught(self, monkeypatch):
        """They weigh before they move; their increments have the other sign."""
        model = machine(0, scale=2.0)

        def wrong_sign(*parts):
            return -_annealed_chains.annealed_back(*parts)

        def weigh_first(settings, path, states, source, *_):
            models = [path.at(s) for s in settings.schedule[1:]]
            chains = annealing.ChainState(states, annealing.new_streams(source, 100))
            u = np.zeros(len(states))
            for before, after in zip(models[-2::-1], models[:0:-1], strict=True):
                u += checked_energy(before, chains.states)
                u -= checked_energy(after, chains.states)
                chains = _annealed_chains.moved_back(settings, after, chains)
            return u

        check(model)
        for mutant in (wrong_sign, weigh_first):
            monkeypatch.setattr(both_ways, "annealed_back", mutant)
            with pytest.raises(AssertionError):
                check(model)

    def test_sweeps_back_are_the_reversal_of_sweeps(self):
        """p(y) T̃(y → x) = p(x) T(x → y); mutant: the same sweeps both ways."""
        model = ebm.BoltzmannMachine([[0, 3, -2], [3, 0, 2], [-2, 2, 0]], [-1, 0.5, 0.3])
        exact, space = ebm.exact(model), model.space
        joint = np.diag(exact.weights)
        for unit in range(3):
            # p(unit = y | others), for all states at once.
            alike = (
                np.delete(exact.states, unit, 1)[:, None] == np.delete(exact.states, unit, 1)
            ).all(-1)
            joint = joint @ (alike * exact.weights / (alike @ exact.weights)[:, None])
        ends = exact.sample(40_000, rng=0)
        chains = annealing.ChainState(ends, annealing.new_streams(1, 200))
        settings = ebm.Annealing()
        p_values = []
        for move in (_annealed_chains.moved_back, _annealed_chains.moved_on):
            starts = move(settings, model, chains).states
            counts = np.bincount(8 * space.index(starts) + space.index(ends), minlength=64)
            p_values.append(counts_p_value(counts, joint.ravel()))
        assert p_values[0] > FALSE_FAIL_RATE > p_values[1]

    def test_without_exact_draws_the_chains_turn_round(self):
        model = machine(0, scale=1.0)
        found = check(model, Turned(FEW_STEPS))
        assert "back from their ends, 1 sweeps on, by their weights" in found.message

    def test_chains_that_turn_round_with_unequal_weights_have_no_error(self):
        poor = Turned(ebm.Annealing(100, 3)).log_partition(glass(1, 3.0), rng=0)
        assert np.isnan(poor.standard_error)
        assert poor.lower.value < ebm.exact(glass(1, 3.0)).log_partition < poor.upper.value
        assert "chains are effective where they turn round, and 70% had to be" in poor.note

    def test_where_both_ways_do_not_meet_there_is_no_error(self):
        model = machine(0, n=20, scale=9.0)
        poor = BennettRatio(ebm.Annealing(15, schedule=(0, 0.01, 1))).log_partition(model, rng=0)
        assert np.isnan(poor.standard_error)
        assert poor.effective_size < 10
        assert "chains hold the estimate" in poor.note
        assert poor.lower.value < ebm.exact(model).log_partition < poor.upper.value


class TestErrors:
    def test_forward_annealing_has_one_where_seven_chains_of_ten_are_effective(self):
        model = glass(0, 2.0)
        good = ebm.log_partition(model, ebm.Annealing(100, 400), rng=0)
        poor = ebm.log_partition(model, ebm.Annealing(100, 5), rng=0)
        assert good.standard_error > 0
        assert good.effective_size > 70 > poor.effective_size
        assert np.isnan(poor.standard_error)
        assert "are effective and 70% or more had to be" in poor.note
        assert poor.lower.value < ebm.exact(model).log_partition
        assert poor.upper is None
        assert "no error: " in str(poor)

    def test_intervals_cover_the_exact_value(self):
        """A short version of the script; false-fail rate of each share 1e-5."""
        names = ("Bennett's ratio", "thermodynamic integration")
        for off, error in errors(60, names, steps=(10,)).values():
            count, share = coverage(off, error)
            assert count > 40
            assert share > 0.8

    def test_integration_agrees(self):
        found = check(glass(3, 1.0), ThermodynamicIntegration(ebm.Annealing(1000, 30)))
        assert found.method == "thermodynamic integration"

    def test_integration_of_a_few_large_steps_has_none(self):
        found = ThermodynamicIntegration(ebm.Annealing(2000, 3)).log_partition(glass(3, 4.0), rng=0)
        assert np.isnan(found.standard_error)
        assert "end slopes contribute" in found.note


class TestMethods:
    def test_exact_sums_are_taken_where_they_cost_little(self):
        found = ebm.log_partition(restricted())
        assert isinstance(found, LogPartition)
        assert isinstance(found, ebm.Estimate)
        assert (found.method, found.standard_error) == ("exact", 0.0)
        assert found.lower == found.upper == ebm.Estimate(found.value, 0.0)
        assert found.message == "sum over the states of one layer"
        assert ebm.log_partition(machine(0)).message == "sum over 2^6 states"
        assert (
            ebm.log_partition(restricted(), ebm.exact)
            == found
            == ebm.log_partition(restricted(), None)
        )

    def test_a_narrow_graph_of_many_units_is_summed_exactly(self):
        n = 64
        ring = np.zeros((n, n))
        ring[np.arange(n), np.arange(n) - 1] = 0.5
        model = ebm.IsingModel(ring + ring.T, np.full(n, 0.2))
        found = ebm.log_partition(model)
        root = np.sqrt(np.exp(1) * np.sinh(0.2) ** 2 + np.exp(-1))
        exact = np.logaddexp(
            *(n * np.log(np.exp(0.5) * np.cosh(0.2) + sign * root) for sign in (1, -1))
        )
        assert (found.method, found.standard_error) == ("exact", 0.0)
        assert found.message == "elimination of width 2"
        assert abs(found.value - exact) < 1e-10

    def test_chains_are_taken_elsewhere(self):
        """All pairs of 64 spins are coupled; states of equal magnetization have equal energies."""
        n, coupling = 64, 0.005
        # Fields that differ by less than any error here: units that are alike are summed by number.
        model = ebm.IsingModel(coupling * (1 - np.eye(n)), 0.2 + 1e-8 * np.arange(n))
        found = ebm.log_partition(model, rng=0)
        m = 2 * np.arange(n + 1) - n
        ways = [math.log(math.comb(n, k)) for k in range(n + 1)]
        exact = np.logaddexp.reduce(ways + coupling * (m**2 - n) / 2 + 0.2 * m)
        assert found.method == "Bennett's ratio"
        assert abs(found.value - exact) < 5 * found.standard_error < 0.1
        assert "100 chains in 500 steps" in found.message

    def test_populations_are_a_method_as_well(self):
        model, method = machine(0, scale=1.0), ebm.PopulationAnnealing(400, n_steps=20)
        found, truth = ebm.log_partition(model, method, rng=0), ebm.exact(model).log_partition
        assert found.method == "population annealing"
        assert abs(found.value - truth) < 5 * found.standard_error < 0.2

    def test_another_method_is_an_object_with_log_partition(self):
        class Known:
            def log_partition(self, model, rng, *, progress):
                return LogPartition(1.0, 0.5, "known", 4.0, None, None, "as it is")

        class Wrong:
            def log_partition(self, model, rng, *, progress):
                return 1.0

        assert ebm.log_partition(machine(), Known()).method == "known"
        with pytest.raises(ModelError, match="must return a LogPartition"):
            ebm.log_partition(machine(), Wrong())

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: BennettRatio(ebm.exact), ModelError, r"annealing must be ebm.Annealing\(…\)"),
            (
                lambda: BennettRatio(starts=[1, 0, 1]),
                ShapeError,
                "starts of reverse chains: states must",
            ),
            (lambda: BennettRatio(starts=np.full((4, 6), 2.0)), EbmError, "2"),
            (lambda: "bennett", ModelError, "method must be 'auto'"),
        ],
    )
    def test_bad_settings_are_named(self, make, error, message):
        with pytest.raises(error, match=message):
            ebm.log_partition(machine(), make())

    def test_equal_seeds_give_equal_estimates(self):
        method = BennettRatio(ebm.Annealing(20, 10))
        first, second, other = (
            method.log_partition(frustrated_ring(5), seed) for seed in (1, 1, 2)
        )
        assert first == second != other


def test_intervals_of_populations_are_those_of_their_number_and_refusals_say_why():
    model = glass(0, 0.5)
    found = ebm.log_partition(model, ebm.PopulationAnnealing(400, n_steps=20), rng=0)
    assert found.degrees_of_freedom == 9
    assert found.note == ""
    assert found.message == "10 populations of 400 members"
    with pytest.warns(ebm.errors.PoorWeightsWarning):
        poor = ebm.log_partition(model, ebm.PopulationAnnealing(10, n_steps=1), rng=0)
    assert np.isnan(poor.standard_error)
    assert "families of equal size hold a population" in poor.note
    few = ebm.log_partition(model, ebm.PopulationAnnealing(400, 2, n_steps=20), rng=0)
    assert "raise n_populations" in few.note


@pytest.mark.parametrize("origin", [0.0, 1e6, 1e12, 1e15])
def test_bennetts_ratio_keeps_its_digits_where_ln_z_is_large(origin):
    """By bisection of f itself none is left at 1e12, and no step taken at 1e15."""
    rng = np.random.default_rng(0)
    up, down = np.round(rng.normal(-2, 2, 200)), np.round(rng.normal(2, 2, 200))
    weights = np.full(200, 1 / 200)
    plain = bennett(up, down, weights)
    found = bennett(up + origin, down + origin, weights)
    assert abs(found[0] - origin - plain[0]) <= np.spacing(max(origin, 1))
    np.testing.assert_array_equal(found[1], plain[1])
