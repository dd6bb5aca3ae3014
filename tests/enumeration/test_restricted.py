"""Enumeration of one layer of a restricted machine, against sums over all states of both."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import ebm
from ebm.enumeration import _layer_sums, _two_layers
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_layers
from ebm.enumeration._quadratic import PairwiseEnumeration
from ebm.enumeration._two_layers import RestrictedEnumeration
from ebm.errors import EnumerationLimitError, ModelError
from ebm.forms import summable_form
from tests import oracles, statistical, strategies
from tests.enumeration.test_limits import BYTES, refusal
from tests.user_models import TwoMembers

LAYERS = ("visible", "hidden")


def machine(n, m, scale=1.0, seed=0, **options):
    """Random weights and biases, centers and an offset."""
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (n, m)),
        rng.normal(0, scale, n),
        rng.normal(0, scale, m),
        visible_center=rng.random(n),
        hidden_center=rng.random(m),
        offset=0.7,
        **options,
    )


def by(layer, model, n_jobs=1, **limits):
    """The ensemble by the states of one layer, whichever is smaller."""
    cut = cut_layers(summable_form(model))
    return RestrictedEnumeration(model, model.space, cut, Limits(**limits), n_jobs, layer=layer)


def small_blocks(patch, column_bits=2, row_bits=1):
    """Few states in a block, so that small machines take many; threads at any size."""
    patch.setattr(_layer_sums, "COLUMN_BITS", column_bits)
    patch.setattr(_layer_sums, "ROW_BITS", row_bits)
    patch.setattr(_two_layers, "SMALL", 0)
    patch.setattr(_two_layers, "CHUNK", 16)


def check_against_definition(ensemble, model, atol=1e-12):
    """ln Z, moments of both layers and E[v hᵀ] are those of the sum over all states."""
    log_z, p = oracles.distribution(model)
    states = oracles.all_states(model.space)
    hidden = expit(model.hidden_input(states))
    mean, covariance = oracles.moments(model)
    close = {"rtol": 1e-9, "atol": atol}
    np.testing.assert_allclose(ensemble.log_partition, log_z, rtol=1e-11, atol=1e-10)
    moments, of_hidden = ensemble.moments(), ensemble.hidden_moments()
    np.testing.assert_allclose(moments.mean, mean, **close)
    np.testing.assert_allclose(moments.covariance, covariance, **close)
    np.testing.assert_allclose(of_hidden.mean, p @ hidden, **close)
    second = hidden.T @ (hidden * p[:, None])
    np.fill_diagonal(second, p @ hidden)
    np.testing.assert_allclose(of_hidden.second, second, **close)
    v, h, products = ensemble.layer_moments()
    np.testing.assert_allclose(v, mean, **close)
    np.testing.assert_allclose(h, p @ hidden, **close)
    np.testing.assert_allclose(products, states.T @ (hidden * p[:, None]), **close)
    assert moments.space == model.space
    assert of_hidden.space == ebm.Binary(model.n_hidden)
    assert moments.log_partition == of_hidden.log_partition == ensemble.log_partition


class TestAgainstDefinition:
    @given(strategies.restricted_machines(), st.sampled_from(LAYERS))
    def test_by_either_layer(self, rbm, layer):
        check_against_definition(by(layer, rbm), rbm)

    @given(strategies.restricted_machines(), st.sampled_from(LAYERS),
           st.integers(1, 3), st.integers(0, 2))  # fmt: skip
    def test_blocks_of_any_size(self, rbm, layer, column_bits, row_bits):
        with pytest.MonkeyPatch.context() as patch:
            small_blocks(patch, column_bits, row_bits)
            ensemble = by(layer, rbm, n_jobs=2)
            check_against_definition(ensemble, rbm)
            np.testing.assert_allclose(ensemble.weights, oracles.distribution(rbm)[1], atol=1e-12)

    @pytest.mark.parametrize("n", range(1, 12))
    @pytest.mark.parametrize("m", [1, 2, 3, 4, 11])
    def test_every_number_of_units(self, n, m):
        rbm = machine(n, m, seed=n)
        ensemble = ebm.exact(rbm)
        assert isinstance(ensemble, RestrictedEnumeration)
        assert ensemble.layer == ("visible" if n <= m else "hidden")
        check_against_definition(ensemble, rbm)

    @pytest.mark.parametrize(("n", "m"), [(3, 8), (8, 3), (6, 6)])
    def test_the_joint_machine_has_the_same_sums(self, n, m):
        """Theorem 7: ln Z with every constant kept."""
        rbm = machine(n, m)
        joint = ebm.exact(rbm.joint())
        assert isinstance(joint, PairwiseEnumeration)
        for layer in LAYERS:
            ensemble = by(layer, rbm)
            assert ensemble.log_partition == pytest.approx(joint.log_partition, abs=1e-10)
            v, h, products = ensemble.layer_moments()
            moments = joint.moments()
            np.testing.assert_allclose(np.append(v, h), moments.mean, atol=1e-12)
            np.testing.assert_allclose(products, moments.second[:n, n:], atol=1e-12)
            np.testing.assert_allclose(
                ensemble.moments().covariance, moments.covariance[:n, :n], atol=1e-12
            )
            np.testing.assert_allclose(
                ensemble.hidden_moments().covariance, moments.covariance[n:, n:], atol=1e-12
            )

    def test_either_layer_of_a_larger_machine(self):
        rbm = machine(15, 14, scale=0.7)
        visible, hidden = by("visible", rbm), by("hidden", rbm, n_jobs=2)
        assert visible.log_partition == pytest.approx(hidden.log_partition, abs=1e-10)
        for ours, theirs in zip(visible.layer_moments(), hidden.layer_moments(), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
        np.testing.assert_allclose(
            visible.moments().covariance, hidden.moments().covariance, atol=1e-12
        )

    def test_independent_units_in_closed_form(self):
        b, c = np.linspace(-3, 2, 700), np.linspace(-1, 4, 9)
        rbm = ebm.RestrictedBoltzmannMachine(np.zeros((700, 9)), b, c, offset=1.5)
        ensemble = ebm.exact(rbm)
        log_z = np.logaddexp(0, b).sum() + np.logaddexp(0, c).sum() - 1.5
        assert ensemble.log_partition == pytest.approx(log_z, rel=1e-14)
        moments = ensemble.moments()
        np.testing.assert_allclose(moments.mean, expit(b), rtol=1e-12)
        np.testing.assert_allclose(
            moments.covariance, np.diag(expit(b) * expit(-b)), rtol=1e-12, atol=1e-14
        )

    def test_one_hidden_unit_in_closed_form(self):
        """A mixture of two product distributions."""
        u, b = np.linspace(-2, 3, 40), np.linspace(1, -1, 40)
        ensemble = ebm.exact(ebm.RestrictedBoltzmannMachine(u[:, None], b, [-0.4]))
        logs = np.array([np.logaddexp(0, b).sum(), np.logaddexp(0, b + u).sum() - 0.4])
        assert ensemble.log_partition == pytest.approx(np.logaddexp(*logs), rel=1e-14)
        p = np.exp(logs[1] - np.logaddexp(*logs))
        mean = (1 - p) * expit(b) + p * expit(b + u)
        np.testing.assert_allclose(ensemble.moments().mean, mean, rtol=1e-12)
        jump = expit(b + u) - expit(b)
        wanted = p * (1 - p) * np.outer(jump, jump)
        off = ~np.eye(40, dtype=bool)
        np.testing.assert_allclose(
            ensemble.moments().covariance[off], wanted[off], rtol=1e-8, atol=1e-14
        )


class TestMagnitudes:
    @pytest.mark.parametrize("scale", [10, 50, 200, 1000, 1e5])
    @pytest.mark.parametrize("layer", LAYERS)
    def test_large_weights(self, scale, layer):
        for seed in range(4):
            rbm = machine(7, 8, scale, seed)
            check_against_definition(by(layer, rbm), rbm, atol=1e-11)

    def test_both_ways_are_taken(self):
        safe = [
            by("visible", machine(7, 8, scale))._layer.n_in_log_domain for scale in (1, 120, 1e5)
        ]
        assert safe[0] == 0
        assert 0 < safe[1] < 8
        assert safe[2] == 8

    @pytest.mark.parametrize("bias", [-1e4, -800, -300, -100, 100, 300, 800, 1e4])
    def test_units_far_on_or_off(self, bias):
        """α and β alone would overflow or underflow."""
        rng = np.random.default_rng(1)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(size=(6, 7)), rng.normal(size=6), bias + rng.normal(size=7)
        )
        for layer in LAYERS:
            check_against_definition(by(layer, rbm), rbm, atol=1e-11)

    @pytest.mark.parametrize("spread", [150, 250, 400, 590, 610, 2000])
    def test_spread_across_the_two_halves(self, spread):
        """The units of the first half pull up as far as those of the second pull down."""
        weights = np.zeros((8, 9))
        weights[:4], weights[4:] = spread / 4, -spread / 4
        weights += np.random.default_rng(0).normal(size=(8, 9))
        rbm = ebm.RestrictedBoltzmannMachine(weights, np.zeros(8), np.linspace(-9, 9, 9))
        check_against_definition(by("visible", rbm), rbm, atol=1e-10)

    def test_logs_are_taken_before_products_overflow(self):
        """Hundreds of units, factors up to e^30."""
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(0, 8, (5, 801)), rng.normal(size=5), rng.normal(size=801)
        )
        ensemble = by("visible", rbm)
        assert len(ensemble._layer._runs) > 10
        check_against_definition(ensemble, rbm, atol=1e-10)

    def test_many_units_in_the_log_domain(self, monkeypatch):
        rbm = machine(5, 40, scale=1e4)
        monkeypatch.setattr(_layer_sums, "SAFE_DOUBLINGS", 3)
        check_against_definition(by("visible", rbm), rbm, atol=1e-10)

    @given(st.lists(st.floats(0, 600), max_size=40))
    def test_runs_of_groups(self, bounds):
        """Every group in exactly one run, no run of several groups above the bound."""
        runs = _layer_sums.safe_runs(np.array(bounds))
        groups = [k for start, stop in runs for k in range(start, stop)]
        assert groups == list(range(-(-len(bounds) // 3)))
        for start, stop in runs:
            total = sum(bounds[3 * start : 3 * stop])
            assert stop > start
            assert total <= 700 or stop == start + 1


class TestMembers:
    @given(strategies.restricted_machines(max_visible=5), st.sampled_from(LAYERS))
    def test_distribution(self, rbm, layer):
        ensemble = by(layer, rbm)
        _, p = oracles.distribution(rbm)
        states = oracles.all_states(rbm.space)
        np.testing.assert_array_equal(ensemble.states, states)
        np.testing.assert_allclose(ensemble.weights, p, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(np.exp(ensemble.log_probability(states)), p, rtol=1e-9)
        assert ensemble.weights.sum() == pytest.approx(1, rel=1e-12)
        assert ensemble.free_energy == -ensemble.log_partition
        energies = rbm.energy(states)
        assert ensemble.mean_energy() == pytest.approx(p @ energies, rel=1e-9, abs=1e-10)
        wanted = -(p[p > 0] @ np.log(p[p > 0]))
        assert ensemble.entropy() == pytest.approx(wanted, rel=1e-9, abs=1e-10)
        assert ensemble.entropy(base=2) == pytest.approx(wanted / math.log(2), abs=1e-9)
        np.testing.assert_allclose(
            ensemble.expectation(lambda x: x.sum(axis=1)), p @ states.sum(axis=1), rtol=1e-9
        )

    def test_the_general_enumeration_agrees(self):
        rbm = machine(9, 10)
        ours, general = ebm.exact(rbm), ebm.exact(TwoMembers(rbm))
        assert not isinstance(general, RestrictedEnumeration)
        assert ours.log_partition == pytest.approx(general.log_partition, abs=1e-10)
        np.testing.assert_allclose(ours.weights, general.weights, rtol=1e-10)

    def test_names_and_repr(self):
        rbm = machine(3, 4, names=["a", "b", "c"])
        for layer in LAYERS:
            ensemble = by(layer, rbm)
            assert ensemble.moments().space.names == ("a", "b", "c")
            assert ensemble.hidden_moments().space.names is None
            assert "RestrictedBoltzmannMachine(n=3, n_hidden=4" in repr(ensemble)

    def test_moments_are_computed_once(self):
        ensemble = by("hidden", machine(5, 3))
        assert ensemble.moments() is ensemble.moments()
        assert ensemble.hidden_moments() is ensemble.hidden_moments()

    @pytest.mark.parametrize("layer", LAYERS)
    def test_nothing_depends_on_the_number_of_threads(self, layer, monkeypatch):
        small_blocks(monkeypatch)
        rbm = machine(7, 8)
        one = by(layer, rbm, n_jobs=1)
        for n_jobs in (2, 3):
            other = by(layer, rbm, n_jobs=n_jobs)
            assert other.log_partition == one.log_partition
            assert other.mean_energy() == one.mean_energy()
            for ours, theirs in zip(other.layer_moments(), one.layer_moments(), strict=True):
                np.testing.assert_array_equal(ours, theirs)
            np.testing.assert_array_equal(other.moments().covariance, one.moments().covariance)
            np.testing.assert_array_equal(other.sample(50, rng=3), one.sample(50, rng=3))

    def test_threads_on_a_real_size(self):
        rbm = machine(17, 30, scale=0.5)
        one, two = ebm.exact(rbm, n_jobs=1), ebm.exact(rbm, n_jobs=2)
        assert one.log_partition == two.log_partition
        np.testing.assert_array_equal(one.moments().covariance, two.moments().covariance)


class TestDraws:
    @pytest.mark.parametrize("layer", LAYERS)
    @pytest.mark.parametrize("scale", [1.0, 4.0])
    def test_they_follow_the_distribution(self, layer, scale):
        rbm = machine(5, 4, scale, seed=3)
        draws = by(layer, rbm).sample(40_000, rng=1)
        statistical.check_distribution(draws, oracles.distribution(rbm)[1], rbm.space)

    @pytest.mark.parametrize("layer", LAYERS)
    def test_they_follow_it_from_many_blocks(self, layer, monkeypatch):
        small_blocks(monkeypatch)
        rbm = machine(6, 6, 1.5, seed=4)
        draws = by(layer, rbm).sample(40_000, rng=2)
        statistical.check_distribution(draws, oracles.distribution(rbm)[1], rbm.space)

    @pytest.mark.parametrize("mutant", ["uniform hidden states", "means instead of states"])
    def test_a_mutant_is_caught(self, mutant, monkeypatch):
        rbm = machine(5, 4, 1.0, seed=3)
        ensemble = by("hidden", rbm)
        if mutant == "uniform hidden states":
            monkeypatch.setattr(_two_layers, "choose", lambda w, n, rng: rng.integers(0, w.size, n))
        else:
            mean = ensemble.layer_moments().visible_mean
            monkeypatch.setattr(
                ensemble._layer, "other_means", lambda states: np.tile(mean, (len(states), 1))
            )
        draws = ensemble.sample(40_000, rng=1)
        p_value = statistical.distribution_p_value(draws, oracles.distribution(rbm)[1], rbm.space)
        assert p_value < statistical.FALSE_FAIL_RATE

    def test_many_visible_units(self):
        """Five of 120 units, whose distribution is a mixture of products over the hidden states."""
        rbm = machine(120, 6, 0.3)
        draws = ebm.exact(rbm).sample(40_000, rng=0)
        assert draws.shape == (40_000, 120)
        assert np.isin(draws, (0, 1)).all()
        units = [0, 31, 60, 61, 119]
        hidden = rbm.transposed()
        _, p_hidden = oracles.distribution(hidden)
        on = rbm.visible_conditional(oracles.all_states(hidden.space))[:, units]
        states = oracles.all_states(ebm.Binary(5))
        p = [p_hidden @ np.where(state, on, 1 - on).prod(axis=1) for state in states]
        statistical.check_distribution(draws[:, units], p, ebm.Binary(5))


class TestLimits:
    @pytest.mark.parametrize(("n", "m", "layer"), [(60, 60, "visible"), (784, 45, "hidden")])
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_refused_at_once(self, n, m, layer, n_jobs):
        rbm = machine(n, m)
        text, message = refusal(ebm.exact, rbm, n_jobs=n_jobs)
        assert f"2^{min(n, m)} states of the {layer} layer" in text
        assert message["argument"] == "max_seconds"

    def test_what_needs_visible_states_says_so(self):
        ensemble = ebm.exact(machine(60, 4))
        for member in (
            lambda: ensemble.states,
            lambda: ensemble.weights,
            lambda: next(iter(ensemble.blocks())),
            lambda: ensemble.expectation(lambda x: x),
            lambda: ensemble.covariance(lambda x: x),
            ensemble.mean_energy,
            ensemble.entropy,
        ):
            text, message = refusal(member)
            assert "2^60 states" in text
            assert "the 2^4 states of the hidden layer" in text
            assert message["argument"].startswith("max_seconds")
        # All else answers.
        assert np.isfinite(ensemble.log_probability(np.ones(60)))
        assert ensemble.moments().mean.shape == (60,)
        assert ensemble.sample(3, rng=0).shape == (3, 60)
        assert ensemble.layer_moments().products.shape == (60, 4)
        gradient = ensemble.model.mean_energy_gradient(ensemble)
        assert gradient.shape == ensemble.model.parameters.shape

    def test_the_log_domain_has_its_own_estimate(self):
        rbm = machine(17, 100)
        ebm.exact(rbm, max_seconds=0.1)
        text, _ = refusal(ebm.exact, rbm.scaled(1e5), max_seconds=0.1)
        assert "in the log domain" in text

    def test_moments_of_the_other_layer_have_their_own_estimate(self):
        ensemble = ebm.exact(machine(500, 12, 0.1), max_seconds=0.06, n_jobs=1)
        text, _ = refusal(ensemble.moments)
        assert "the moments of the visible layer from the 2^12 states of the hidden layer" in text
        assert ensemble.hidden_moments().mean.shape == (12,)

    def test_passes_over_visible_states(self):
        ensemble = by("visible", machine(20, 4), max_seconds=0.1)
        for member in (lambda: ensemble.weights, lambda: ensemble.expectation(lambda x: x)):
            text, _ = refusal(member)
            assert "2^20 states" in text
        assert np.isfinite(ensemble.entropy())

    @pytest.mark.parametrize(("n", "m"), [(17, 100), (100, 17), (400, 12)])
    def test_the_memory_named_is_the_memory_used(self, n, m):
        rbm = machine(n, m, 0.2)
        _, message = refusal(ebm.exact, rbm, max_memory=1, n_jobs=1)
        named = float(message["memory"]) * BYTES[message["unit"]]
        tracemalloc.start()
        try:
            ensemble = ebm.exact(rbm, n_jobs=1)
            ensemble.layer_moments()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert named / 10 < peak < 2 * named

    @settings(max_examples=5)
    @given(st.sampled_from(LAYERS))
    def test_the_limits_lift_the_refusal(self, layer):
        rbm = machine(12, 12)
        with pytest.raises(EnumerationLimitError):
            by(layer, rbm, max_seconds=1e-9)
        assert np.isfinite(by(layer, rbm, max_seconds=1).log_partition)


class Layered(ebm.EnergyModel):
    """A user's model with a hidden layer, in three members."""

    def __init__(self, *form, space=None):
        self.form, self.space = form, space or ebm.Binary(2)

    def energy(self, states):
        weights, b, c, constant = self.form
        return constant - states @ b - np.logaddexp(0, states @ weights + c).sum(axis=-1)

    def layered_form(self):
        return self.form


class TestCapability:
    FORM = (np.array([[1.0, -2.0, 0.5], [0.3, 1.0, 2.0]]), np.ones(2), np.zeros(3), 0.5)

    def test_a_user_s_own_model(self):
        model = Layered(*self.FORM)
        ensemble = ebm.exact(model)
        assert isinstance(ensemble, RestrictedEnumeration)
        assert ensemble.log_partition == pytest.approx(oracles.distribution(model)[0], rel=1e-12)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({1: np.ones(3)}, r"must return weights \(2, m\), vectors .* got \(2, 3\), \(3,\)"),
            ({2: np.zeros(2)}, r"must return weights"),
            ({3: np.zeros(1)}, r"must return weights"),
            ({0: np.full((2, 3), np.nan)}, "must be finite"),
            ({0: "text"}, r"must return \(weights, visible, hidden, constant\)"),
        ],
    )
    def test_what_it_returns_is_checked(self, change, text):
        form = [change.get(k, part) for k, part in enumerate(self.FORM)]
        with pytest.raises(ModelError, match=text):
            ebm.exact(Layered(*form))

    def test_other_spaces_are_enumerated_through_the_energy(self):
        model = Layered(*self.FORM, space=ebm.Spins(2))
        assert not isinstance(ebm.exact(model), RestrictedEnumeration)
