"""The loss, its gauge and the damped Newton steps on it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ebm
from ebm._iterate import iterate
from ebm.learning._likelihood import PairLikelihoodLoss, Point
from ebm.learning.penalties import AppliedPenalty
from tests import oracles, strategies


def pair_loss(family, target, l2=0.0):
    penalty = AppliedPenalty(family, ebm.Penalty(l2=l2))
    return PairLikelihoodLoss(family, target, ebm.exact, penalty, target)


def minimized(loss, **settings):
    """The run of Newton steps, and the last point."""
    run = iterate(ebm.Newton(**settings), loss, loss.start())
    return run, loss.point(run.state["theta"])


def loss_on(family, rows, l2=0.0):
    target = ebm.Ensemble.from_data(rows, space=ebm.Binary).moments().to(family.space)
    return pair_loss(family, target, l2)


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
        l2 = loss.penalty.strength.l2
        expected = 0.5 * l2 * (theta[model.n :] ** 2).sum() - likelihood
        assert loss.point(theta).value == pytest.approx(expected, rel=1e-10)

    @given(losses())
    @settings(max_examples=20)
    def test_gradient_is_the_slope_of_the_value(self, case):
        loss, _ = case
        model = loss.family

        def value(theta):
            return loss.point(theta).value

        slopes = oracles.finite_difference(value, model.parameters)
        np.testing.assert_allclose(loss.point(model.parameters).slopes, slopes, atol=1e-7)

    @given(losses())
    @settings(max_examples=30)
    def test_gauge_is_the_change_to_parameters_about_the_data_means(self, case):
        # Steps of centered parameters and the same steps mapped by A give one distribution.
        loss, _ = case
        n = loss.family.n
        step = np.random.default_rng(0).normal(size=len(loss.family.parameters))
        moved = loss.family.with_parameters(loss.family.parameters + loss.gauge @ step)
        mean = loss.data.mean
        i, j = loss.family.pairs
        states = oracles.all_states(loss.family.space)
        d = states - mean
        centered = loss.family.energy(states) - states @ step[:n] - (d[:, i] * d[:, j]) @ step[n:]
        assert np.ptp(moved.energy(states) - centered) < 1e-9

    @given(losses())
    def test_start_is_the_independent_model(self, case):
        loss, rows = case
        start = loss.family.with_parameters(loss.start())
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
            theta = pair_loss(family, moments.to(family.space), 0.1).start()
            start = family.with_parameters(theta)
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
        loss = pair_loss(family, ebm.exact(truth).moments(), l2)
        run, end = minimized(loss, tolerance=1e-9, max_iterations=60)
        assert run.reason == "converged"
        if l2 == 0:
            np.testing.assert_allclose(
                end.model.parameters, truth.parameters - 0.0, rtol=1e-4, atol=1e-4
            )

    def test_full_steps_would_overshoot(self):
        # Undamped Newton from the independent model diverges here (LIMITS §1.5).
        rng = np.random.default_rng(2)
        truth = ebm.IsingModel(rng.normal(0, 1.0, (8, 8)), rng.normal(0, 0.5, 8))
        family = ebm.IsingModel(np.zeros((8, 8)), np.zeros(8))
        loss = pair_loss(family, ebm.exact(truth).moments(), 0.0)
        run, _ = minimized(loss, tolerance=1e-9, max_iterations=60)
        values = [-step.log_likelihood for step in run.history]
        lengths = [step.step for step in run.history]
        assert run.reason == "converged"
        assert min(lengths) < 1
        assert (np.diff(values) < 1e-12).all()

    def test_last_steps_are_quadratic(self):
        rows = np.concatenate(
            [ebm.Binary(4).states_at(np.arange(16)), np.eye(4), np.eye(4), np.ones((5, 4))]
        )
        loss = loss_on(ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4)), rows)
        run, _ = minimized(loss, tolerance=1e-12, max_iterations=30)
        norms = [step.gradient_norm for step in run.history]
        slope = np.log(norms[-2] / norms[-3]) / np.log(norms[-3] / norms[-4])
        assert slope > 1.6

    def test_optimum_holds_what_was_found_at_its_model(self):
        rng = np.random.default_rng(0)
        rows = np.concatenate([ebm.Binary(3).states_at(np.arange(8)), rng.integers(0, 2, (50, 3))])
        loss = loss_on(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), center=0.8), rows)
        _, end = minimized(loss, tolerance=1e-9, max_iterations=30)
        assert end.ensemble.model is end.model
        mean = rows.mean(axis=0)
        centered = end.model.recentered(mean)
        expected = oracles.covariance(centered, centered.energy_gradient)
        np.testing.assert_allclose(end.fisher, expected, rtol=1e-9, atol=1e-12)


class Line:
    """A loss of one parameter θ, given by its derivatives, in place of model and ensemble."""

    gauge = np.eye(1)

    class penalty:
        gradient = staticmethod(np.zeros_like)

    def __init__(self, slope, curvature):
        self._slope, self._curvature = slope, curvature

    def point(self, theta):
        return Point(self, theta, float(theta[0]), None)

    def misfit(self, x, ensemble):
        return np.array([self._slope(x)])

    def fisher(self, x, ensemble):
        return np.array([[self._curvature(x)]])

    def curvature(self, fisher):
        return fisher

    def reach(self, direction):
        return float(np.abs(direction).sum())


class TestVerdict:
    """Small gradients near a minimum and on the way to infinity, told apart by Newton steps."""

    @given(st.floats(-30, 30), st.floats(-12, 3), st.floats(-8, 8))
    def test_a_parabola_is_low_wherever_it_is_looked_at(self, start, log_slope, log_curvature):
        curvature = 10.0**log_curvature
        distance = 10.0**log_slope / curvature
        # Steps that θ cannot hold are rounding.
        assume(start - distance != start)
        loss = Line(lambda x: curvature * (x - start + distance), lambda x: curvature)
        here = loss.point(np.array([start]))
        assert here.is_low
        assert not here.recedes()

    @given(st.floats(3, 25), st.floats(0.01, 100))
    def test_an_exponential_is_never_low_and_recedes(self, start, gap):
        # ln(1 + e^(−gap θ)): the states outside a face lose gap nats with every unit of θ.
        loss = Line(
            lambda x: -gap * np.exp(-gap * x) / (1 + np.exp(-gap * x)),
            lambda x: gap**2 * np.exp(-gap * x) / (1 + np.exp(-gap * x)) ** 2,
        )
        here = loss.point(np.array([start / gap]))
        if gap < 10:
            assert not here.is_low
        assert here.recedes()

    @given(st.floats(3, 12), st.floats(0.1, 11))
    def test_a_minimum_farther_out_is_none_at_infinity(self, start, farther):
        # The same with a share of the data outside the face: the slope vanishes at the minimum.
        share = np.exp(-start - farther)
        loss = Line(lambda x: share - np.exp(-x), lambda x: np.exp(-x))
        here = loss.point(np.array([start]))
        assert not here.recedes()

    @given(st.floats(-3, 0))
    def test_a_slope_that_grows_is_no_way_to_infinity(self, log_slope):
        # A saddle, as where hidden units are decoupled: the loss has no curvature to be trusted.
        loss = Line(lambda x: -(10.0**log_slope) * (1 + x**2), lambda x: 1e-3)
        assert not loss.point(np.array([30.0])).recedes()

    def test_units_of_a_direction_are_named(self):
        names = ["a", "b", "c"]
        family = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=names)
        moments = ebm.Moments(ebm.Binary(3, names=names), [0.5] * 3, np.eye(3) / 4)
        loss = pair_loss(family, moments, 0.0)
        # The features of b and c alone, the second and the third.
        assert loss.units_of(np.array([0, 1.0, -1.0, 0, 0, 0])) == ["b", "c"]
        # The pair (a, c) and the unit a.
        assert loss.units_of(np.array([1.0, 0, 0, 0, 0.9, 0])) == ["a", "c"]

    def test_no_step_leads_onto_a_saturated_model(self):
        # On the way to a strong ring a full Newton step saturates every unit.
        n = 12
        couplings = np.roll(np.eye(n), 1, axis=0) * 1.5
        truth = ebm.exact(ebm.IsingModel(couplings + couplings.T, np.zeros(n)))
        family = ebm.IsingModel(np.zeros((n, n)), np.zeros(n))
        loss = pair_loss(family, truth.moments(), 0.0)
        full = loss.point(loss.start()).after(1.0)
        assert np.linalg.cond(full.fisher) > 1e6
        run, _ = minimized(loss, tolerance=1e-9, max_iterations=60)
        assert run.reason == "converged"
        assert max(step.gradient_norm for step in run.history) < 10
