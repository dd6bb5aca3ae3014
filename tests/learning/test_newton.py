"""The loss, its gauge and the damped Newton steps on it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.learning.newton import PairwiseLoss, flat_units, is_flat, newton
from tests import oracles, strategies


def silent(step):
    """No report."""


def loss_on(family, rows, l2=0.0):
    target = ebm.Ensemble.from_data(rows, space=ebm.Binary).moments().to(family.space)
    return PairwiseLoss(family, target, l2, ebm.exact)


@st.composite
def losses(draw):
    """A family that is not at its optimum, rows that have a maximum, a penalty or none."""
    rows = draw(strategies.binary_rows(max_units=4))
    n = rows.shape[1]
    family = draw(strategies.pairwise_models(min_units=n, max_units=n))
    return loss_on(family, rows, draw(st.sampled_from([0.0, 0.3]))), rows


class TestLoss:
    @given(losses())
    @settings(max_examples=30)
    def test_value_is_the_penalized_loss(self, case):
        loss, rows = case
        model = loss.family
        coded = 2 * rows.astype(int) - 1 if isinstance(model, ebm.IsingModel) else rows
        likelihood = oracles.mean_log_likelihood(model, coded)
        theta = model.parameters
        ensemble = ebm.exact(model)
        assert loss.log_likelihood(model, ensemble) == pytest.approx(likelihood, rel=1e-10)
        expected = 0.5 * loss.l2 * (theta[model.n :] ** 2).sum() - likelihood
        assert loss.value(model, ensemble) == pytest.approx(expected, rel=1e-10)

    @given(losses())
    @settings(max_examples=20)
    def test_gradient_is_the_slope_of_the_value(self, case):
        loss, _ = case
        model = loss.family

        def value(theta):
            other = model.with_parameters(theta)
            return loss.value(other, ebm.exact(other))

        slopes = oracles.finite_difference(value, model.parameters)
        np.testing.assert_allclose(loss.gradient(model, ebm.exact(model)), slopes, atol=1e-7)

    @given(losses())
    @settings(max_examples=30)
    def test_gauge_is_the_change_to_parameters_about_the_data_means(self, case):
        # Steps of centered parameters and the same steps mapped by A give one distribution.
        loss, _ = case
        n = loss.family.n
        step = np.random.default_rng(0).normal(size=len(loss.family.parameters))
        moved = loss.family.with_parameters(loss.family.parameters + loss.to_model_gauge() @ step)
        mean = loss.target.mean
        i, j = loss.family.pairs
        states = oracles.all_states(loss.family.space)
        d = states - mean
        centered = loss.family.energy(states) - states @ step[:n] - (d[:, i] * d[:, j]) @ step[n:]
        assert np.ptp(moved.energy(states) - centered) < 1e-9

    @given(losses())
    def test_start_is_the_independent_model(self, case):
        loss, rows = case
        start = loss.start()
        moments = ebm.exact(start).moments()
        margin = 1 / (2 * len(rows))
        mean = np.clip(rows.mean(axis=0), margin, 1 - margin)
        np.testing.assert_allclose(moments.to(ebm.Binary).mean, mean, rtol=1e-9)
        off = ~np.eye(loss.family.n, dtype=bool)
        np.testing.assert_allclose(moments.covariance[off], 0, atol=1e-12)
        np.testing.assert_array_equal(start.parameters[loss.family.n :], 0)

    @pytest.mark.parametrize("sample_size", [1e-9, 0.3, 2.0, 1e12, np.inf])
    def test_start_is_finite_whatever_the_sample_size(self, sample_size):
        moments = ebm.Moments(
            ebm.Binary(2), [0.0, 0.2], np.diag([0.0, 0.16]), sample_size=sample_size
        )
        for family in (
            ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2)),
            ebm.IsingModel(np.zeros((2, 2)), np.zeros(2)),
        ):
            start = PairwiseLoss(family, moments.to(family.space), 0.1, ebm.exact).start()
            assert np.isfinite(start.parameters).all()
            mean = ebm.exact(start).moments().to(ebm.Binary).mean
            assert 0 < mean[0] < 0.5
            assert mean[0] <= mean[1] < 0.5


class TestSteps:
    @pytest.mark.parametrize("l2", [0.0, 1e-3])
    @pytest.mark.parametrize("seed", range(6))
    def test_loss_falls_at_every_step_on_strongly_coupled_data(self, seed, l2):
        rng = np.random.default_rng(seed)
        truth = ebm.IsingModel(rng.normal(0, 1.0, (8, 8)), rng.normal(0, 0.5, 8))
        family = ebm.IsingModel(np.zeros((8, 8)), np.zeros(8))
        loss = PairwiseLoss(family, ebm.exact(truth).moments(), l2, ebm.exact)
        optimum = newton(loss, tolerance=1e-9, max_iterations=60, report=silent)
        assert optimum.reason == "converged"
        if l2 == 0:
            np.testing.assert_allclose(
                optimum.model.parameters, truth.parameters - 0.0, rtol=1e-4, atol=1e-4
            )

    def test_full_steps_would_overshoot(self):
        # Undamped Newton from the independent model diverges here (LIMITS §1.5).
        rng = np.random.default_rng(2)
        truth = ebm.IsingModel(rng.normal(0, 1.0, (8, 8)), rng.normal(0, 0.5, 8))
        family = ebm.IsingModel(np.zeros((8, 8)), np.zeros(8))
        loss = PairwiseLoss(family, ebm.exact(truth).moments(), 0.0, ebm.exact)
        values, lengths = [], []

        def record(step):
            values.append(-step.log_likelihood)
            lengths.append(step.step)

        optimum = newton(loss, tolerance=1e-9, max_iterations=60, report=record)
        assert optimum.reason == "converged"
        assert min(lengths[:-1]) < 1
        assert (np.diff(values) < 1e-12).all()

    def test_last_steps_are_quadratic(self):
        rows = np.concatenate(
            [ebm.Binary(4).states_at(np.arange(16)), np.eye(4), np.eye(4), np.ones((5, 4))]
        )
        loss = loss_on(ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4)), rows)
        optimum = newton(loss, tolerance=1e-12, max_iterations=30, report=silent)
        norms = [step.gradient_norm for step in optimum.history]
        slope = np.log(norms[-2] / norms[-3]) / np.log(norms[-3] / norms[-4])
        assert slope > 1.6

    def test_optimum_holds_what_was_found_at_its_model(self):
        rng = np.random.default_rng(0)
        rows = np.concatenate([ebm.Binary(3).states_at(np.arange(8)), rng.integers(0, 2, (50, 3))])
        loss = loss_on(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), center=0.8), rows)
        optimum = newton(loss, tolerance=1e-9, max_iterations=30, report=silent)
        assert optimum.ensemble.model is optimum.model
        mean = rows.mean(axis=0)
        centered = optimum.model.recentered(mean)
        expected = oracles.covariance(centered, centered.energy_gradient)
        np.testing.assert_allclose(optimum.fisher, expected, rtol=1e-9, atol=1e-12)


class TestFlatness:
    def test_scale_of_a_feature_is_no_flatness(self):
        assert not is_flat(np.diag([1.0, 1e-12, 1e6]))

    def test_two_features_that_move_together(self):
        fisher = np.array([[1.0, 0.3, 0.0], [0.3, 0.09 + 1e-12, 0.0], [0.0, 0.0, 5.0]])
        assert is_flat(fisher)
        fisher[1, 1] += 1e-5
        assert not is_flat(fisher)

    def test_units_of_the_flat_direction_are_named(self):
        names = ["a", "b", "c"]
        family = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=names)
        moments = ebm.Moments(ebm.Binary(3, names=names), [0.5] * 3, np.eye(3) / 4)
        loss = PairwiseLoss(family, moments, 0.0, ebm.exact)
        # The features of b and c alone, the second and the third, are one.
        fisher = np.eye(6)
        fisher[1, 2] = fisher[2, 1] = 1
        assert flat_units(fisher, loss) == ["b", "c"]
        # The pair (a, c) and the unit a.
        fisher = np.eye(6)
        fisher[0, 4] = fisher[4, 0] = 1
        assert flat_units(fisher, loss) == ["a", "c"]
