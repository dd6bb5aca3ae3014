"""Real units that are integrated out, and machines with Gaussian layers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import ebm
from ebm.errors import ModelError
from ebm.forms import energy_form
from ebm.models._gaussian_units import GaussianUnits
from ebm.units import Bernoulli, Gaussian, ReLU, Spin, Uniform
from tests import oracles
from tests.real_units import MACHINE, all_points, drawn_model, integrated, models

LEARNT = {
    "real hidden": (ebm.Product(v=ebm.Binary(3), h=ebm.Reals(2)), ["v"]),
    "real visible": (ebm.Product(v=ebm.Reals(2), h=ebm.Levels(1, 3), w=ebm.Spins(1)), ["v"]),
    "both hidden": (ebm.Product(v=ebm.Spins(2), h=ebm.Reals(2), w=ebm.Levels(1, 3)), ["v"]),
    "both visible": (ebm.Product(v=ebm.Spins(1), h=ebm.Reals(2), w=ebm.Binary(2)), ["v", 1]),
    "all real": (ebm.Reals(3), [0, 2]),
}


class TestMarginals:
    @given(models(), st.data())
    @settings(max_examples=12, deadline=None)
    def test_the_effective_energy_is_an_integral(self, model, data):
        space = model.space
        keep = data.draw(
            st.lists(st.sampled_from(range(space.n)), min_size=1, max_size=space.n, unique=True)
        )
        effective = ebm.marginalize(model, keep)
        traced = np.setdiff1d(np.arange(space.n), keep)
        points, volume = np.empty((1, 0)), 1.0
        if len(traced):
            # A space of one unit has no product.
            points, volume = all_points(ebm.Product(space.subspace(traced)))
        for state in effective.space.random(3, 1):
            whole = np.empty((len(points), space.n))
            whole[:, keep], whole[:, traced] = state, points
            wanted = -math.log(volume * np.exp(-model.energy(whole)).sum())
            assert float(effective.energy(state)) == pytest.approx(wanted, abs=1e-9)
        ensemble, whole = ebm.exact(effective), ebm.exact(model)
        assert ensemble.log_partition == pytest.approx(whole.log_partition, abs=1e-10)
        columns = space.columns(keep)
        covariance = whole.moments().covariance[np.ix_(columns, columns)]
        np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-10)

    @pytest.mark.parametrize("name", LEARNT)
    def test_theorem_9_is_the_slope_of_the_exact_likelihood(self, name, monkeypatch):
        space, keep = LEARNT[name]
        marginal = ebm.marginalize(drawn_model(space, 4), keep)
        rows = marginal.space.random(7, 2)
        data = ebm.Ensemble.from_data(rows, space=marginal.space)

        def loss(theta):
            changed = marginal.with_parameters(theta)
            return -float(ebm.exact(changed).log_probability(rows).mean())

        # Two steps, and Richardson's combination of them.
        rough, fine = (
            oracles.finite_difference(loss, marginal.parameters, h) for h in (2e-3, 1e-3)
        )
        wanted, own = (4 * fine - rough) / 3, ebm.exact(marginal)
        slopes = marginal.mean_energy_gradient(data) - marginal.mean_energy_gradient(own)
        np.testing.assert_allclose(slopes, wanted, atol=1e-8)
        np.testing.assert_allclose(
            marginal.energy_gradient(rows).mean(axis=0),
            marginal.mean_energy_gradient(data),
            atol=1e-12,
        )
        step = np.arange(len(wanted)) - 3.0
        derivative = marginal.energy_derivative(rows, step)
        np.testing.assert_allclose(derivative, marginal.energy_gradient(rows) @ step, atol=1e-10)
        # One state, and a mutant: averages at the means of real units, their spread forgotten.
        wanted = oracles.finite_difference(
            lambda theta: float(marginal.with_parameters(theta).energy(rows[0])),
            marginal.parameters,
        )
        np.testing.assert_allclose(marginal.energy_gradient(rows[0]), wanted, atol=1e-8)
        if marginal.model.space.is_real[marginal.traced].any():
            monkeypatch.setattr(GaussianUnits, "covariance", property(lambda self: 0 * self.root))
            wrong = marginal.with_parameters(marginal.parameters).energy_gradient(rows[0])
            assert abs(wrong - wanted).max() > 1e-2

    @pytest.mark.parametrize("name", ["real hidden", "both hidden"])
    def test_hessians_are_slopes_of_the_learning_rule(self, name):
        space, keep = LEARNT[name]
        marginal = ebm.marginalize(drawn_model(space, 6), keep)
        data = ebm.Ensemble.from_data(marginal.space.random(9, 2), space=marginal.space)

        def rule(theta):
            changed = marginal.with_parameters(theta)
            return changed.mean_energy_gradient(data) - changed.mean_energy_gradient(
                ebm.exact(changed)
            )

        theta, step = np.array(marginal.parameters), 1e-4
        wanted = np.array(
            [(rule(theta + h) - rule(theta - h)) / (2 * step) for h in step * np.eye(len(theta))]
        )
        hessian = ebm.information.loss_hessian(marginal, data)
        np.testing.assert_allclose(hessian, wanted, atol=1e-6)
        # The Fisher information alone is another matrix.
        assert abs(ebm.fisher_information(marginal).dense() - wanted).max() > 1e-2

    @pytest.mark.parametrize("name", ["real hidden", "real visible", "both hidden"])
    def test_hidden_units_may_be_sampled_beside_rows(self, name):
        """E_D E_{h|v}[∂E] over clamped chains, real units among them."""
        space, keep = LEARNT[name]
        marginal = ebm.marginalize(drawn_model(space, 4), keep)
        rows = ebm.exact(marginal).sample(2000, rng=0)
        data = ebm.Ensemble.from_data(rows, space=marginal.space)
        traced = marginal.traced.tolist()
        seen = {int(unit): rows[:, k] for k, unit in enumerate(marginal.keep)}
        run = ebm.sampling.SamplingRun(clamped=seen)
        completed = ebm.sample(marginal.model, n_draws=30, rng=1, run=run)
        slopes = marginal.model.mean_energy_gradient(completed)
        wanted = marginal.mean_energy_gradient(data)
        spread = np.sqrt(ebm.fisher_information(marginal.model).dense().diagonal())
        assert (abs(slopes - wanted) / spread).max() < 0.03
        assert completed.chains[..., traced].dtype == np.float64
        chains = ebm.Likelihood(ebm.PersistentChains(50), completion=ebm.ClampedChains())
        start = marginal.with_parameters(0.5 * marginal.parameters)
        steps = ebm.GradientSteps(ebm.GradientDescent(0.02), n_epochs=4)
        result = ebm.fit(start, data, loss=chains, solver=steps, rng=0)
        before, after = (ebm.exact(m).log_probability(rows).mean() for m in (start, result.model))
        assert after > before

    def test_a_family_of_ones_own_needs_its_slopes_alone(self):
        """Those of the library know moments; others are asked at 0, ±1 and pairs of these."""

        class Own(ebm.ParametricModel):
            space = ebm.Product(v=ebm.Spins(2), h=ebm.Reals(2))
            parameters = np.zeros(0)

            def __init__(self, theta):
                self.parameters = np.array(theta, dtype=float)
                self._same = drawn_model(self.space, 0).with_parameters(self.parameters)

            def with_parameters(self, theta):
                return Own(theta)

            def energy(self, states):
                return self._same.energy(states)

            def energy_gradient(self, states):
                return self._same.energy_gradient(states)

            def quadratic_form(self):
                return tuple(self._same.quadratic_form())

        model = drawn_model(Own.space, 0)
        own, library = (ebm.marginalize(m, keep="v") for m in (Own(model.parameters), model))
        data = ebm.Ensemble.from_data([[1, 1], [1, -1], [1, 1]], space=ebm.Spins)
        np.testing.assert_allclose(
            own.mean_energy_gradient(data), library.mean_energy_gradient(data), atol=1e-12
        )
        np.testing.assert_allclose(
            own.energy_gradient([1, -1]), library.energy_gradient([1, -1]), atol=1e-12
        )

    def test_hidden_gaussian_units_make_a_hopfield_model(self):
        patterns = np.array([[1, 1, -1, -1, 1, 1], [1, -1, 1, -1, 1, -1]]).T
        memory = ebm.RestrictedBoltzmannMachine(
            patterns, 0.1 * np.arange(6), [0.3, 0.0], units=(Spin(), Gaussian(6.0))
        )
        effective = ebm.marginalize(memory.joint(), keep="visible")
        form = effective.quadratic_form()
        np.testing.assert_allclose(form.matrix, patterns @ patterns.T / 6, atol=1e-15)
        states = oracles.all_states(effective.space)
        for other in (memory, memory.pairwise()):
            np.testing.assert_allclose(effective.energy(states), other.energy(states), atol=1e-12)
        terms = effective.interactions().terms
        assert terms[0, 1] == pytest.approx(form.matrix[0, 1], abs=1e-12)
        assert max((abs(v) for units, v in terms.items() if len(units) > 2), default=0) < 1e-12
        # It is a pairwise model for all that ask for one.
        weak = ebm.marginalize(
            ebm.RestrictedBoltzmannMachine(
                0.3 * patterns, np.zeros(6), np.zeros(2), units=(Spin(), Gaussian(3.0))
            ).joint(),
            keep="visible",
        )
        exact = ebm.exact(weak)
        assert type(exact).__name__ == "PairwiseEnumeration"
        series = ebm.perturbation.expand(weak, 4)
        assert series.log_partition == pytest.approx(exact.log_partition, abs=1e-3)
        # With a finite hidden unit it is none.
        three = drawn_model(ebm.Product(v=ebm.Spins(2), h=ebm.Reals(1), w=ebm.Spins(1)), 0)
        assert energy_form(ebm.marginalize(three, keep="v")) is None

    def test_a_marginal_may_be_narrowed(self):
        model = drawn_model(ebm.Product(v=ebm.Spins(3), h=ebm.Reals(2)), 0)
        twice = ebm.marginalize(ebm.marginalize(model, keep=[0, 1, 3]), keep=[1, 0])
        once = ebm.marginalize(model, keep=[1, 0])
        states = oracles.all_states(ebm.Spins(2))
        np.testing.assert_allclose(twice.energy(states), once.energy(states), atol=1e-12)

    def test_what_cannot_be_listed_is_refused(self):
        model = drawn_model(ebm.Product(v=ebm.Binary(3), h=ebm.Reals(2)), 0)
        effective = ebm.marginalize(model, keep="v")
        data = ebm.Ensemble.from_data([[0, 1, 1], [1, 0, 0], [1, 1, 1]])
        with pytest.raises(ModelError, match="which is integrated out, cannot be listed"):
            next(effective.completed(data).blocks())

        class Cubic(ebm.EnergyModel):
            space = ebm.Product(v=ebm.Binary(1), x=ebm.Reals(1))

            def energy(self, states):
                return states[..., 0] + states[..., 1] ** 4

        with pytest.raises(ModelError, match="real ones where the model has a quadratic form"):
            ebm.marginalize(Cubic(), keep="v")
        # The finite unit is summed at any real state.
        kept = ebm.marginalize(Cubic(), keep="x")
        assert float(kept.energy([2.0])) == pytest.approx(16 - math.log1p(math.exp(-1)))
        with pytest.raises(ModelError, match="exact enumeration needs a finite space"):
            ebm.exact(kept)


class TestMachines:
    PAIR = (Gaussian([2.0, 1.5]), Gaussian([1.2, 2.0]))

    def machine(self, units=PAIR):
        return ebm.RestrictedBoltzmannMachine(
            [[0.9, -0.6], [-0.3, 0.7]],
            [0.3, -0.5],
            [0.2, -0.4],
            visible_center=[0.3, -0.2],
            hidden_center=0.4,
            offset=0.1,
            units=units,
            names=["left", "right"],
        )

    def test_two_gaussian_layers_are_one_gaussian(self):
        """K_v = γ_v − Uγ_h⁻¹Uᵀ, from the integral over both layers and from blocks of K⁻¹."""
        rbm, joint = self.machine(), self.machine().joint()
        precision = np.diag([2.0, 1.5, 1.2, 2.0])
        precision[:2, 2:], precision[2:, :2] = -rbm.weights, -rbm.weights.T
        np.testing.assert_allclose(joint.couplings, -precision, atol=1e-15)
        covariance = np.linalg.inv(precision)
        ensemble, states = ebm.exact(rbm), rbm.space.random(5, 0)
        moments = ensemble.moments()
        np.testing.assert_allclose(moments.covariance, covariance[:2, :2], atol=1e-13)
        normal = multivariate_normal(moments.mean, covariance[:2, :2])
        np.testing.assert_allclose(
            ensemble.log_probability(states), normal.logpdf(states), atol=1e-12
        )
        points, p, log_partition = integrated(rbm)
        assert ensemble.log_partition == pytest.approx(log_partition, abs=1e-10)
        np.testing.assert_allclose(moments.mean, p @ points, atol=1e-10)
        assert ensemble.mean_energy() == pytest.approx(p @ rbm.energy(points), abs=1e-10)
        assert ebm.exact(joint).log_partition == pytest.approx(log_partition, abs=1e-10)
        draws = ensemble.sample(60_000, rng=0)
        assert abs(np.cov(draws.T) - moments.covariance).max() < 0.02
        assert not np.allclose(moments.covariance, np.linalg.inv(precision[:2, :2]))

    def test_both_sides_of_its_learning_rule(self):
        rbm = self.machine()
        rows = rbm.space.random(6, 3)
        data = ebm.Ensemble.from_data(rows, space=rbm.space)

        def loss(theta):
            changed = rbm.with_parameters(theta)
            return -float(ebm.exact(changed).log_probability(rows).mean())

        rough, fine = (oracles.finite_difference(loss, rbm.parameters, h) for h in (2e-3, 1e-3))
        slopes = rbm.mean_energy_gradient(data) - rbm.mean_energy_gradient(ebm.exact(rbm))
        np.testing.assert_allclose(slopes, (4 * fine - rough) / 3, atol=1e-8)
        points, p, _ = integrated(rbm)
        g = rbm.energy_gradient(points)
        covariance = (g - p @ g).T @ ((g - p @ g) * p[:, None])
        np.testing.assert_allclose(ebm.fisher_information(rbm).dense(), covariance, atol=1e-9)

    def test_it_is_learnt_and_parameters_that_change_nothing_are_counted_out(self):
        """Two means and three covariances: 5 of 10 parameters."""
        truth = self.machine()
        rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(2000, rng=0), space=truth.space)
        result = ebm.fit(truth.with_parameters(0.9 * truth.parameters), rows)
        assert result.converged
        assert (result.n_parameters, result.degrees_of_freedom) == (10, 5)
        moments, wanted = ebm.exact(result.model).moments(), rows.moments()
        np.testing.assert_allclose(moments.mean, wanted.mean, atol=1e-6)
        np.testing.assert_allclose(moments.covariance, wanted.covariance, atol=1e-6)

    @pytest.mark.parametrize("visible", [Bernoulli(), Spin(), Gaussian([2.0, 1.5])], ids=repr)
    @pytest.mark.parametrize("hidden", [Bernoulli(), Spin(), Gaussian([1.2, 2.0])], ids=repr)
    def test_the_joint_model_has_the_energy_of_both_layers(self, visible, hidden):
        rbm = self.machine((visible, hidden))
        joint = rbm.joint()
        assert joint.space.names == ("left", "right", "h0", "h1")
        states = joint.space.random(6, 0)
        v, h = states[:, :2], states[:, 2:]
        wanted = 0.1 - v @ rbm.visible_biases - h @ rbm.hidden_biases
        wanted -= ((v - rbm.visible_center) @ rbm.weights * (h - 0.4)).sum(axis=1)
        wanted += visible.energy(v).sum(axis=1) + hidden.energy(h).sum(axis=1)
        np.testing.assert_allclose(joint.energy(states), wanted, atol=1e-13)
        effective = ebm.marginalize(joint, keep=["left", "right"])
        np.testing.assert_allclose(effective.energy(v), rbm.energy(v), atol=1e-13)
        assert effective.space == rbm.space
        for model in (joint, effective):
            gap = ebm.exact(model).log_partition - ebm.exact(rbm).log_partition
            assert abs(gap) < 1e-12
        means = ebm.exact(joint.given({"left": v[0, 0], "right": v[0, 1]})).moments().mean
        np.testing.assert_allclose(means, rbm.hidden_conditional(v[0]), atol=1e-13)
        turned = ebm.marginalize(joint, keep=["h0", "h1"])
        other = rbm.transposed()
        np.testing.assert_allclose(turned.energy(h), other.energy(h), atol=1e-13)

    def test_blocks_have_names_unless_units_have_them(self):
        rbm = self.machine((Spin(), Gaussian(3.0)))
        assert rbm.joint().space.block_names == ("visible", "hidden")
        named = ebm.RestrictedBoltzmannMachine(
            np.ones((2, 1)), [0, 0], [0], units=(Spin(), Gaussian(3.0)), names=["visible", "x"]
        )
        assert named.joint().space.block_names is None

    @pytest.mark.parametrize("hidden", [ReLU(2.0), Uniform()])
    def test_other_hidden_units_beside_real_ones_have_chains_and_no_sum(self, hidden):
        rbm = self.machine((Gaussian(3.0), hidden))
        with pytest.raises(ModelError, match=rf"{type(hidden).__name__}.*no closed form.*sample"):
            ebm.exact(rbm)
        points, p, log_partition = integrated(rbm)
        draws = ebm.sample(rbm, n_draws=2500, n_chains=20, rng=1).moments()
        deviation = np.sqrt(p @ points**2 - (p @ points) ** 2)
        assert (np.abs(draws.mean - p @ points) / deviation).max() < 0.03
        method = ebm.Annealing(n_chains=200, n_steps=60)
        estimate = ebm.log_partition(rbm, method, rng=0)
        assert estimate.standard_error < 0.01
        assert abs(estimate.value - log_partition) < 4 * estimate.standard_error

    @pytest.mark.parametrize("hidden", [Bernoulli(), Spin(), Gaussian(3.0)], ids=repr)
    def test_annealing_agrees_where_there_is_a_sum(self, hidden):
        rbm, method = self.machine((Gaussian(3.0), hidden)), ebm.Annealing(200, 60)
        runs = [ebm.log_partition(rbm, method, rng=seed) for seed in range(4)]
        z = [(run.value - ebm.exact(rbm).log_partition) / run.standard_error for run in runs]
        assert abs(np.mean(z)) < 2
        assert max(run.standard_error for run in runs) < 0.03

    def test_large_finite_parts_are_annealed_after_the_integral(self):
        model = drawn_model(MACHINE, 0)
        with pytest.raises(ModelError, match=r"integrate real units out first by ebm\.marginalize"):
            ebm.log_partition(model, ebm.Annealing())
        marginal = ebm.marginalize(model, keep="visible")
        estimate = ebm.log_partition(marginal, ebm.Annealing(), rng=0)
        assert abs(estimate.value - ebm.exact(model).log_partition) < 5 * estimate.standard_error
