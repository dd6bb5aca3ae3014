"""Natural-gradient steps: as quick as Newton's, and blind to how a family is parametrized."""

from dataclasses import replace

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError
from ebm.information import FisherInformation
from ebm.learning import NaturalGradient
from ebm.learning._gauges import Gauge, LayerGauge, PairGauge
from ebm.learning.natural_gradient import GaugedInformation, metric_for
from tests import oracles

RNG = np.random.default_rng(0)
SPACE = ebm.Binary(4)


def features(x):
    """Badly scaled and correlated features of four units."""
    pairs = np.stack([x[..., 0] * x[..., 1], x[..., 1] * x[..., 2] * x[..., 3]], axis=-1)
    return np.concatenate([x, 3 * pairs, x.sum(axis=-1, keepdims=True) ** 2 / 10], axis=-1)


FAMILY = oracles.LinearFamily(SPACE, features, np.zeros(7))
TRUTH = FAMILY.with_parameters([0.5, -1.0, 0.7, -0.3, 0.4, -0.5, 1.5])
ROWS = ebm.exact(TRUTH).sample(2000, rng=1)
#: An invertible change of parameters, θ = M θ'.
CHANGE = RNG.normal(size=(7, 7)) + 2 * np.eye(7)


def changed(theta):
    """The same family with parameters θ' = M⁻¹ θ."""

    def other(x):
        return features(x) @ CHANGE

    return oracles.LinearFamily(SPACE, other, np.linalg.solve(CHANGE, theta))


def fitted(model, optimizer, n_epochs, data=ROWS, **settings):
    steps = ebm.GradientSteps(optimizer, n_epochs=n_epochs, **settings)
    return ebm.fit(model, data, solver=replace(steps, tolerance=1e-8), rng=0)


class TestNewtonLike:
    def test_linear_family_on_exact_ensembles(self):
        result = fitted(FAMILY, NaturalGradient(1.0, damping=0.0), 50)
        assert result.converged
        # Two shortened steps at most, then digits double.
        assert len(result.history) <= 8
        norms = np.array([line.gradient_norm for line in result.history])
        last = norms[norms > 1e-12][-3:]
        assert last[1] < 20 * last[0] ** 2 + 1e-9
        assert last[2] < 20 * last[1] ** 2 + 1e-9
        best = ebm.fit(FAMILY, ROWS)
        np.testing.assert_allclose(
            result.model.parameters, best.model.parameters, rtol=1e-4, atol=1e-5
        )

    def test_the_plain_gradient_needs_hundreds(self):
        result = fitted(FAMILY, ebm.GradientDescent(0.1), 300)
        assert not result.converged

    @pytest.mark.parametrize("coding", [ebm.BoltzmannMachine, ebm.IsingModel])
    def test_pairwise_families_take_the_steps_of_the_newton_fit(self, coding):
        rng = np.random.default_rng(4)
        truth = ebm.IsingModel(rng.normal(0, 0.5, (5, 5)), rng.normal(0, 0.4, 5))
        truth = truth if coding is ebm.IsingModel else truth.to_binary()
        rows = ebm.exact(truth).sample(3000, rng=2)
        start = coding(np.zeros((5, 5)), np.zeros(5))
        newton = ebm.fit(start, rows)
        result = fitted(start, NaturalGradient(1.0, damping=0.0), 50, rows)
        assert result.converged
        assert len(result.history) <= len(newton.history) + 4
        np.testing.assert_allclose(
            result.model.parameters, newton.model.parameters, rtol=1e-6, atol=1e-7
        )

    def test_bounded_steps_reach_the_optimum_at_low_temperature(self):
        rng = np.random.default_rng(1)
        couplings = np.triu(rng.normal(0, 0.45, (8, 8)), 1)
        truth = ebm.IsingModel(couplings + couplings.T, rng.normal(0, 0.3, 8))
        start = ebm.IsingModel(np.zeros((8, 8)), np.zeros(8))
        data = ebm.exact(truth)
        wanted = ebm.fit(start, data)
        result = fitted(start, NaturalGradient(1.0), 100, data)
        assert result.converged
        assert len(result.history) <= 2 * len(wanted.history) + 10
        np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-5)

    def test_a_restricted_machine_from_a_bad_start(self):
        rng = np.random.default_rng(1)
        rows = ebm.exact(
            ebm.RestrictedBoltzmannMachine(rng.normal(0, 2, (5, 2)), np.zeros(5), np.zeros(2))
        ).sample(500, rng=3)
        start = ebm.RestrictedBoltzmannMachine(
            rng.normal(0, 0.1, (5, 2)), [3.0, -3.0, 3.0, -3.0, 3.0], np.zeros(2)
        )
        natural = fitted(start, NaturalGradient(0.5, damping=1e-3), 60, rows)
        plain = fitted(start, ebm.GradientDescent(0.5), 60, rows)
        best = -ebm.Ensemble.from_data(rows).entropy()
        assert best - natural.log_likelihood < 0.03, (
            best,
            natural.log_likelihood,
            plain.log_likelihood,
        )
        assert best - plain.log_likelihood > 2 * (best - natural.log_likelihood)


class TestInvariance:
    def path(self, model, optimizer):
        """Distributions along the way."""
        found = []
        for n_epochs in range(1, 5):
            result = fitted(model, optimizer, n_epochs)
            found.append(oracles.distribution(result.model)[1])
        return np.array(found)

    @pytest.mark.parametrize("max_divergence", [0.002, np.inf])
    def test_a_linear_change_of_parameters_changes_nothing(self, max_divergence):
        optimizer = NaturalGradient(0.3, damping=0.0, max_divergence=max_divergence)
        start = np.array([0.3, 0.1, -0.2, 0.4, -0.1, 0.2, 0.1])
        one = self.path(FAMILY.with_parameters(start), optimizer)
        other = self.path(changed(start), optimizer)
        np.testing.assert_allclose(other, one, rtol=1e-9)
        assert np.abs(np.diff(one, axis=0)).max() > 1e-3

    def test_the_plain_gradient_depends_on_it(self):
        start = np.full(7, 0.1)
        one = self.path(FAMILY.with_parameters(start), ebm.GradientDescent(0.02))
        other = self.path(changed(start), ebm.GradientDescent(0.02))
        assert np.abs(other - one).max() > 1e-3

    def test_the_coding_and_the_center_change_nothing(self):
        rng = np.random.default_rng(4)
        start = ebm.BoltzmannMachine(np.zeros((4, 4)), rng.normal(size=4))
        optimizer = NaturalGradient(0.5, damping=0.0)
        wanted = fitted(start, optimizer, 3)
        binary = oracles.distribution(wanted.model)[1]
        for other in (start.recentered(0.7), start.to_spins()):
            rows = ROWS if isinstance(other, ebm.BoltzmannMachine) else 2 * ROWS - 1
            for centering in (True, False):
                result = fitted(other, optimizer, 3, rows, centering=centering)
                p = oracles.distribution(result.model)[1]
                np.testing.assert_allclose(p, binary, rtol=1e-8)


class TestStep:
    def test_solves_with_the_metric(self):
        matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
        gradient, theta = np.array([0.1, -0.2]), np.array([1.0, 2.0])
        optimizer = NaturalGradient(0.5, damping=0.1)
        after, state = optimizer.step(gradient, optimizer.start(theta), FisherInformation(matrix))
        wanted = -0.5 * np.linalg.solve(matrix + 0.1 * np.eye(2), gradient)
        np.testing.assert_allclose(after, wanted, rtol=1e-14)
        assert state["updates"] == 1

    def test_long_steps_are_shortened(self):
        matrix = np.diag([4.0, 1.0])
        optimizer = NaturalGradient(1.0, damping=0.0, max_divergence=0.125)
        zero = np.zeros(2)
        after, _ = optimizer.step(
            np.array([40.0, 0.0]), optimizer.start(zero), FisherInformation(matrix)
        )
        # ½ · 4 · Δ² = 0.125.
        np.testing.assert_allclose(after, [-0.25, 0.0], rtol=1e-14)

    def test_rates_beyond_all_numbers_are_shortened_too(self):
        optimizer, zero = NaturalGradient(1e300, damping=0.0), np.zeros(1)
        after, _ = optimizer.step(np.ones(1), optimizer.start(zero), FisherInformation([[1]]))
        # ½ Δ² = 0.1.
        np.testing.assert_allclose(after, -np.sqrt(0.2), rtol=1e-14)

    def test_a_schedule(self):
        optimizer = NaturalGradient(lambda t: 1 / (1 + t), damping=0.0, max_divergence=np.inf)
        theta, state = np.zeros(1), optimizer.start(np.zeros(1))
        for _ in range(2):
            move, state = optimizer.step(np.ones(1), state, FisherInformation([[1.0]]))
            theta = theta + move
        assert theta[0] == -1.5

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda: NaturalGradient(0), "rate must be a positive number, got 0"),
            (lambda: NaturalGradient(1.0, damping=-1), "damping must be a finite number ≥ 0"),
            (lambda: NaturalGradient(1.0, max_divergence=0), "max_divergence must be a positive"),
            (lambda: NaturalGradient(1.0, tolerance=np.nan), "tolerance must be a positive number"),
            (lambda: NaturalGradient("1"), "rate must be a positive number, got '1'"),
            (lambda: NaturalGradient(1.0, damping="1"), "damping must hold numbers, got text"),
            (
                lambda: NaturalGradient(1.0, max_divergence=None),
                "max_divergence must be a positive",
            ),
        ],
    )
    def test_wrong_settings_are_named(self, make, text):
        with pytest.raises(EbmError, match=text):
            make()

    @pytest.mark.filterwarnings("ignore::ebm.errors.SymmetricStartWarning")
    def test_a_singular_metric_without_damping_is_named(self):
        rows = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]] * 5)
        start = ebm.RestrictedBoltzmannMachine(np.zeros((3, 2)), np.zeros(3), np.zeros(2))
        with pytest.raises(EbmError, match=r"singular.*raise damping"):
            fitted(start, NaturalGradient(1.0, damping=0.0), 3, rows)

    def test_moments_alone_make_no_metric(self):
        start = ebm.IsingModel(np.zeros((2, 2)), [0.1, 0.2])
        rows = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1], [1, 1]])
        steps = ebm.GradientSteps(NaturalGradient(1.0))
        with pytest.raises(ModelError, match="ensemble of states is wanted"):
            ebm.fit(
                start, rows, loss=ebm.Likelihood(lambda m: ebm.exact(m).moments()), solver=steps
            )


class TestGauges:
    def models(self):
        rng = np.random.default_rng(0)
        pairs = ebm.BoltzmannMachine(rng.normal(size=(3, 3)), rng.normal(size=3), center=0.2)
        layers = ebm.RestrictedBoltzmannMachine(
            rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=2), visible_center=0.3
        )
        mean = np.array([0.3, 0.6, 0.8])
        yield pairs, PairGauge(pairs, mean), np.zeros(0), pairs.recentered(mean)
        center = np.array([0.4, 0.9])
        yield layers, LayerGauge(layers, mean), center, layers.recentered(mean, center)

    def test_the_metric_of_a_gauge_is_that_of_the_recentered_model(self, monkeypatch):
        for model, gauge, center, recentered in self.models():
            exact = ebm.exact(model)
            wanted = ebm.fisher_information(recentered).dense()
            (found,) = metric_for(NaturalGradient(1.0), model, exact, gauge, center)
            np.testing.assert_allclose(found.dense(), wanted, rtol=1e-9, atol=1e-12)
            products = GaugedInformation(ebm.fisher_information(exact), gauge, center)
            p = len(wanted)
            np.testing.assert_allclose(products.matmat(np.eye(p)), wanted, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(products.diagonal(), wanted.diagonal(), rtol=1e-9)
            monkeypatch.setattr("ebm.information.metric.MOST_FACTORED", 2)
            v = np.arange(1.0, p + 1)
            solution = np.linalg.solve(wanted + 0.1 * np.eye(p), v)
            np.testing.assert_allclose(products.solve(v, 0.1), solution, rtol=1e-7)
            monkeypatch.undo()

    def test_none_for_others(self):
        model = ebm.IsingModel([[0.0]], [0.3])
        assert metric_for(ebm.Adam(0.1), model, ebm.exact(model), Gauge(), np.zeros(0)) == ()


class TestChains:
    def test_more_parameters_than_a_matrix_is_made_of(self):
        rng = np.random.default_rng(0)
        rows = (rng.random((200, 50)) < rng.random(50)).astype(np.int8)
        start = ebm.RestrictedBoltzmannMachine.for_data(rows, 45, rng=0)
        assert len(start.parameters) > 2000
        result = ebm.fit(
            start,
            rows,
            loss=ebm.Likelihood(ebm.PersistentChains(50)),
            solver=ebm.GradientSteps(NaturalGradient(0.1, damping=0.05), n_epochs=3),
            rng=1,
        )
        assert np.isfinite(result.model.parameters).all()
        assert len(result.history) == 3

    def test_persistent_chains_come_near_the_exact_fit(self):
        truth = ebm.BoltzmannMachine([[0, 1.5], [1.5, 0]], [-0.5, 0.3])
        rows = ebm.exact(truth).sample(4000, rng=0)
        start = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2))
        wanted = ebm.fit(start, rows)
        rate = ebm.learning.Decay(0.5, 10)
        result = ebm.fit(
            start,
            rows,
            loss=ebm.Likelihood(ebm.PersistentChains(500)),
            solver=ebm.GradientSteps(NaturalGradient(rate), n_epochs=300),
            rng=1,
        )
        error = (result.model.parameters - wanted.model.parameters) / wanted.standard_errors
        assert np.abs(error).max() < 2

    def test_a_stopped_fit_goes_on_as_if_it_had_not(self, tmp_path):
        path = tmp_path / "fit.npz"
        start = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
        settings = {"loss": ebm.Likelihood(ebm.PersistentChains(50)), "rng": 3}

        def run(n_epochs, **more):
            steps = ebm.GradientSteps(NaturalGradient(0.2), n_epochs=n_epochs)
            return ebm.fit(start, ROWS, solver=steps, **settings, **more)

        run(2, checkpoint=path)
        resumed = run(4, checkpoint=path).model.parameters
        np.testing.assert_array_equal(resumed, run(4).model.parameters)
