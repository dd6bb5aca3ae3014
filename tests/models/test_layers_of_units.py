"""Machines of two layers of any units against quadrature, enumeration and finite differences."""

import dataclasses
import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

import ebm
from ebm.errors import (
    CodingError,
    EnumerationLimitError,
    FileFormatError,
    ModelError,
    NormalizationError,
    NotConvergedWarning,
    ShapeError,
)
from ebm.forms import energy_form
from ebm.units import Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform
from tests import oracles
from tests.test_forms import offering

HIDDEN = {
    Gaussian(1.3): 3.9403756670,
    Exponential(2.0): 0.9348766338,
    ReLU(1.3): 2.5556667676,
    Uniform(): 2.2756497256,
}
ENDS = {Gaussian: (-np.inf, np.inf), Exponential: (0, np.inf), ReLU: (0, np.inf), Uniform: (0, 1)}
ZERO_ONE = Bernoulli()
FINITE = {Bernoulli: (0, 1), Spin: (-1, 1)}
EVERY_HIDDEN = [*HIDDEN, Bernoulli(), Spin()]


def reference(hidden, visible=ZERO_ONE):
    """n = 3, m = 2, U_αβ = ½ sin(1 + 2α + β), away from every symmetric point."""
    weights = np.sin(1 + 2 * np.arange(3)[:, None] + np.arange(2)) / 2
    return ebm.RestrictedBoltzmannMachine(
        weights,
        [0.1, -0.2, 0.3],
        [0.4, -0.3],
        visible_center=0.5,
        hidden_center=0.2,
        units=(visible, hidden),
    )


def drawn_machine(visible, hidden, n=4, m=2, seed=0, scale=0.5):
    """One machine with centers, an offset and names."""
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (n, m)),
        rng.normal(0, scale, n),
        rng.normal(0, scale, m),
        visible_center=rng.uniform(-1, 1, n),
        hidden_center=rng.uniform(-1, 1, m),
        offset=0.3,
        units=(visible, hidden),
        names=[f"v{a}" for a in range(n)],
    )


def gaussian_bernoulli(**changes):
    """γ = 1.2, .8: the machine whose reference numbers are known."""
    numbers = {
        "weights": [[0.9, -0.6, 0.4], [-0.3, 0.7, 1.1]],
        "visible_biases": [0.3, -0.5],
        "hidden_biases": [0.2, -0.4, 0.1],
        "units": (Gaussian([1.2, 0.8]), Bernoulli()),
    }
    return ebm.RestrictedBoltzmannMachine(**numbers | changes)


ROWS = np.array([[0.5, -0.2], [-1.0, 0.3], [1.2, 0.8]])


def summed_out(rbm, v):
    """−ln of the sum or integral over each hidden unit of the joint Boltzmann factor, by quad."""
    total = rbm.visible_biases @ v - rbm.offset - float(np.sum(rbm.visible_units.energy(v)))
    about = v - rbm.visible_center
    for b in range(rbm.n_hidden):
        pull, unit = float(about @ rbm.weights[:, b]), rbm.hidden_units

        def factor(h, pull=pull, b=b, unit=unit):
            tilt = pull * (h - rbm.hidden_center[b]) + rbm.hidden_biases[b] * h
            return math.exp(tilt - float(unit.energy(h)))

        if type(unit) in FINITE:
            total += math.log(sum(factor(h) for h in FINITE[type(unit)]))
        else:
            total += math.log(quad(factor, *ENDS[type(unit)], epsabs=1e-14, epsrel=1e-12)[0])
    return -total


class TestEffectiveEnergy:
    @pytest.mark.parametrize("hidden", HIDDEN, ids=repr)
    def test_the_reference_numbers(self, hidden):
        rbm = reference(hidden)
        assert ebm.exact(rbm).log_partition == pytest.approx(HIDDEN[hidden], abs=1e-10)

    @pytest.mark.parametrize("visible", [Bernoulli(), Spin(), Gaussian([2.0, 3.0, 2.5, 4.0])])
    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_it_is_the_joint_energy_integrated_over_the_hidden_layer(self, visible, hidden):
        if isinstance(hidden, Exponential):
            if isinstance(visible, Gaussian):
                pytest.skip("exponential units have no distribution beside real visible ones")
            hidden = Exponential(9.0)
        rbm = drawn_machine(visible, hidden)
        states = rbm.space.random(6, 1)
        wanted = [summed_out(rbm, v) for v in states]
        np.testing.assert_allclose(rbm.energy(states), wanted, rtol=1e-9, atol=1e-9)
        # A constant that is lost, and γ in place of 1/γ, are seen.
        dropped = rbm.visible_center @ rbm.weights @ rbm.hidden_center
        assert abs(dropped) > 1e-3
        if isinstance(hidden, Gaussian | ReLU):
            wrong = dataclasses.replace(
                rbm, units=(visible, dataclasses.replace(hidden, precision=1 / hidden.precision))
            )
            assert abs(wrong.energy(states) - wanted).min() > 1e-3

    @pytest.mark.parametrize("visible", [Bernoulli(), Spin(), Gaussian(3.0)])
    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_the_gradient_is_that_of_the_energy(self, visible, hidden):
        if isinstance(hidden, Exponential):
            if isinstance(visible, Gaussian):
                pytest.skip("exponential units have no distribution beside real visible ones")
            hidden = Exponential(9.0)
        rbm = drawn_machine(visible, hidden)
        states, rng = rbm.space.random(3, 1), np.random.default_rng(2)
        gradient = rbm.energy_gradient(states)
        for state, slopes in zip(states, gradient, strict=True):
            wanted = oracles.finite_difference(
                lambda theta, state=state: float(rbm.with_parameters(theta).energy(state)),
                rbm.parameters,
            )
            np.testing.assert_allclose(slopes, wanted, atol=2e-9)
        direction = rng.normal(size=len(rbm.parameters))
        np.testing.assert_allclose(
            rbm.energy_derivative(states, direction), gradient @ direction, rtol=1e-12
        )
        data = ebm.Ensemble.from_data(rbm.space.random(50, 3), space=rbm.space)
        np.testing.assert_allclose(
            rbm.mean_energy_gradient(data),
            data.weights @ rbm.energy_gradient(data.states.astype(float)),
            atol=1e-13,
        )
        assert len(rbm.parameter_names) == len(rbm.is_coupling) == len(rbm.parameters)
        assert rbm.is_coupling.sum() == rbm.weights.size

    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_the_hessian_is_that_of_the_energy(self, hidden):
        rbm, states = reference(hidden), oracles.all_states(ebm.Binary(3))[[1, 2, 4, 5, 7]]
        data = ebm.Ensemble.from_data(states)

        def mean_slope(theta, k):
            return float(rbm.with_parameters(theta).mean_energy_gradient(data)[k])

        wanted = [
            oracles.finite_difference(lambda theta, k=k: mean_slope(theta, k), rbm.parameters)
            for k in range(len(rbm.parameters))
        ]
        np.testing.assert_allclose(rbm.mean_energy_hessian(data), wanted, atol=2e-9)

    @pytest.mark.parametrize("hidden", [Gaussian(1.3), ReLU(1.3), Spin()], ids=repr)
    def test_settings_of_hidden_units_are_no_parameters(self, hidden):
        """h → h/√g is a change of weights, biases and the offset."""
        rbm = reference(hidden)
        if isinstance(hidden, Spin):
            # ±1 is 2h − 1 for h of {0,1}: U → 2U, c → 2c, ĥ → ½(ĥ + 1).
            other = dataclasses.replace(
                rbm,
                weights=2 * rbm.weights,
                hidden_biases=2 * rbm.hidden_biases,
                hidden_center=0.5 * (rbm.hidden_center + 1),
                offset=rbm.offset + rbm.hidden_biases.sum(),
                units=(Bernoulli(), Bernoulli()),
            )
        else:
            root = math.sqrt(hidden.precision)
            other = dataclasses.replace(
                rbm,
                weights=rbm.weights / root,
                hidden_biases=rbm.hidden_biases / root,
                hidden_center=rbm.hidden_center * root,
                offset=rbm.offset + rbm.n_hidden * math.log(root),
                units=(Bernoulli(), type(hidden)(1.0)),
            )
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(other.energy(states), rbm.energy(states), rtol=1e-12)

    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_a_user_s_form_has_the_units_of_the_library(self, hidden):
        rbm = reference(hidden, Spin() if isinstance(hidden, Uniform) else Bernoulli())
        own = offering(rbm, layered_form=rbm.layered_form())
        assert energy_form(own).hidden_units == hidden
        assert ebm.exact(own).log_partition == pytest.approx(ebm.exact(rbm).log_partition)
        wrong = dataclasses.replace(rbm.layered_form(), hidden=rbm.hidden_biases + 0.1)
        with pytest.raises(ModelError, match="constants included"):
            energy_form(offering(rbm, layered_form=wrong))


class TestExactSums:
    @pytest.mark.parametrize("visible", [Bernoulli(), Spin()])
    @pytest.mark.parametrize("hidden", [*EVERY_HIDDEN, Exponential(9.0)], ids=repr)
    def test_moments_and_averages_are_those_of_all_states(self, visible, hidden):
        rbm = drawn_machine(visible, Exponential(9.0) if hidden == Exponential(2.0) else hidden)
        ensemble = ebm.exact(rbm)
        log_z, p = oracles.distribution(rbm)
        assert ensemble.log_partition == pytest.approx(log_z, rel=1e-13)
        mean, covariance = oracles.moments(rbm)
        np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-12)
        np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-12)
        gradient = p @ rbm.energy_gradient(oracles.all_states(rbm.space))
        np.testing.assert_allclose(rbm.mean_energy_gradient(ensemble), gradient, atol=1e-12)

    @pytest.mark.parametrize("visible", [Bernoulli(), Spin()])
    def test_the_fisher_information_is_the_covariance_of_the_mean_gradient(self, visible):
        rbm = drawn_machine(visible, Gaussian(1.3))
        wanted = oracles.covariance(rbm, rbm.energy_gradient)
        np.testing.assert_allclose(ebm.fisher_information(rbm).dense(), wanted, atol=1e-11)

    def test_the_joint_information_of_spins_is_that_of_the_ising_model(self):
        rbm = drawn_machine(Spin(), Spin(), n=3)
        both = rbm.joint()
        assert isinstance(both, ebm.IsingModel)
        assert ebm.exact(both).log_partition == pytest.approx(ebm.exact(rbm).log_partition)

        def slopes(states):
            v, h = states[:, :3] - rbm.visible_center, states[:, 3:] - rbm.hidden_center
            outer = v[:, :, None] * h[:, None, :]
            return -np.concatenate([states, outer.reshape(len(states), -1)], axis=1)

        wanted = oracles.covariance(both, slopes)
        found = ebm.fisher_information(rbm, joint=True).dense()
        np.testing.assert_allclose(found, wanted, atol=1e-12)

    def test_the_joint_information_of_real_units_is_that_of_draws(self):
        rbm = reference(ReLU(1.3))
        v = ebm.exact(rbm).sample(200_000, rng=1)
        h = rbm.hidden_units.sample(rbm.hidden_input(v), rng=2)
        about = (v - rbm.visible_center)[:, :, None] * (h - rbm.hidden_center)[:, None, :]
        slopes = np.concatenate([v, h, about.reshape(len(v), -1)], axis=1)
        wanted, found = np.cov(slopes.T), ebm.fisher_information(rbm, joint=True).dense()
        scale = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()))
        assert (np.abs(found - wanted) / scale).max() < 0.02

    @pytest.mark.parametrize("hidden", [Gaussian(1.3), Exponential(9.0), Spin()], ids=repr)
    def test_annealing_knows_its_error(self, hidden):
        rbm = drawn_machine(Spin(), hidden)
        estimate = ebm.log_partition(rbm, ebm.Annealing(n_chains=400, n_steps=40), rng=1)
        exact = ebm.exact(rbm).log_partition
        assert abs(estimate.value - exact) < 4 * estimate.standard_error < 0.2


class TestHopfield:
    """Gaussian hidden units make pairs of the visible ones, exactly."""

    PATTERNS = 0.6 * np.array([[1, 1], [1, -1], [-1, 1], [1, 1], [-1, -1]])

    def machine(self, precision=1.3):
        zero = np.zeros(5), np.zeros(2)
        return ebm.RestrictedBoltzmannMachine(
            self.PATTERNS, *zero, units=(Spin(), Gaussian(precision))
        )

    def test_the_couplings_are_those_of_the_patterns_with_their_constant(self):
        rbm = self.machine()
        hopfield = rbm.pairwise()
        wanted = self.PATTERNS @ self.PATTERNS.T / 1.3
        np.testing.assert_allclose(hopfield.couplings, wanted, atol=1e-15)
        assert hopfield.offset == pytest.approx(-math.log(2 * np.pi / 1.3), rel=1e-14)
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(hopfield.energy(states), rbm.energy(states), rtol=1e-13)
        apart = hopfield.couplings - np.diag(np.diag(hopfield.couplings))
        offset = -0.5 * np.trace(hopfield.couplings) - math.log(2 * np.pi / 1.3)
        folded = ebm.IsingModel(apart, np.zeros(5), offset=offset)
        np.testing.assert_allclose(folded.energy(states), rbm.energy(states), rtol=1e-13)
        # γ in place of 1/γ.
        wrong = -0.5 * np.einsum("si,ij,sj->s", states, 1.3**2 * hopfield.couplings, states)
        assert np.ptp(wrong - rbm.energy(states)) > 0.1

    def test_ln_z_is_that_of_quadrature_over_the_hidden_units(self):
        rbm = self.machine()

        def weight(y, x):
            inputs = self.PATTERNS @ [x, y]
            return math.exp(np.logaddexp(inputs, -inputs).sum() - 0.65 * (x * x + y * y))

        total = dblquad(weight, -12, 12, -12, 12, epsabs=1e-9, epsrel=1e-10)[0]
        assert ebm.exact(rbm).log_partition == pytest.approx(math.log(total), abs=1e-9)

    @pytest.mark.parametrize("visible", [Bernoulli(), Spin()])
    def test_centers_and_fields_are_in_it(self, visible):
        rbm = drawn_machine(visible, Gaussian([1.3, 0.7]))
        states = oracles.all_states(rbm.space)
        pairs = rbm.pairwise()
        np.testing.assert_allclose(pairs.energy(states), rbm.energy(states), rtol=1e-12)
        assert pairs.names == rbm.names

    def test_large_memories_are_summed_like_other_pairwise_models(self):
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.choice([-0.2, 0.2], (20, 3)),
            np.zeros(20),
            np.zeros(3),
            units=(Spin(), Gaussian(1.0)),
        )
        wanted = ebm.exact(rbm.pairwise()).log_partition
        assert ebm.exact(rbm).log_partition == pytest.approx(wanted, rel=1e-13)
        assert ebm.exact(rbm.transposed()).log_partition == pytest.approx(wanted, rel=1e-12)

    def test_expansions_take_its_pairs(self):
        rbm = self.machine(13.0)
        series = ebm.perturbation.expand(rbm, 4)
        assert series.log_partition == pytest.approx(ebm.exact(rbm).log_partition, abs=1e-5)
        with pytest.raises(ModelError, match="two-valued"):
            ebm.perturbation.expand(reference(Uniform()), 3)

    @pytest.mark.parametrize(
        "rbm", [reference(ReLU(1.0)), gaussian_bernoulli(units=(Gaussian(9.0), Gaussian(1.0)))]
    )
    def test_other_machines_have_no_pairs(self, rbm):
        with pytest.raises(ModelError, match="Gaussian hidden units make of two-valued"):
            rbm.pairwise()


class TestGaussianVisible:
    def test_the_reference_numbers(self):
        rbm = gaussian_bernoulli()
        ensemble, data = ebm.exact(rbm), ebm.Ensemble.from_data(ROWS, space=rbm.space)
        assert ensemble.log_partition == pytest.approx(4.6769725892, abs=1e-10)
        loss = -float(ensemble.log_probability(ROWS).mean())
        assert loss == pytest.approx(2.8418000191, abs=1e-10)
        slopes = rbm.mean_energy_gradient(data) - rbm.mean_energy_gradient(ensemble)
        np.testing.assert_allclose(slopes[-2:], [-0.36909773, -0.94571795], atol=1e-8)
        np.testing.assert_allclose(slopes[:2], [0.52832354, 0.02770035], atol=1e-8)
        assert rbm.parameter_names[-1] == "gamma[1]"

    def test_theorem_9_is_the_slope_of_the_exact_likelihood(self):
        rbm = gaussian_bernoulli(visible_center=[0.2, -0.1], hidden_center=0.5)
        data = ebm.Ensemble.from_data(ROWS, space=rbm.space)

        def loss(theta):
            changed = rbm.with_parameters(theta)
            return -float(ebm.exact(changed).log_probability(ROWS).mean())

        # Two steps, and Richardson's combination of them.
        rough, fine = (oracles.finite_difference(loss, rbm.parameters, h) for h in (2e-3, 1e-3))
        slopes = rbm.mean_energy_gradient(data) - rbm.mean_energy_gradient(ebm.exact(rbm))
        np.testing.assert_allclose(slopes, (4 * fine - rough) / 3, atol=1e-8)

    @pytest.mark.parametrize("hidden", [Bernoulli(), Spin()])
    def test_ln_z_and_moments_are_integrals(self, hidden):
        rbm = gaussian_bernoulli(
            units=(Gaussian([1.2, 1.4]), hidden), hidden_center=0.3, visible_center=0.4, offset=0.2
        )
        ensemble = ebm.exact(rbm)
        x, w = np.polynomial.hermite_e.hermegauss(80)
        grid = np.array(list(itertools.product(x, x))) * 1.2
        weights = np.outer(w, w).ravel() * np.exp(0.5 * (grid / 1.2) ** 2 @ [1, 1]) * 1.2**2
        p = weights * np.exp(-rbm.energy(grid))
        assert ensemble.log_partition == pytest.approx(math.log(p.sum()), abs=1e-8)
        p /= p.sum()
        mean = p @ grid
        np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-7)
        covariance = (grid - mean).T @ ((grid - mean) * p[:, None])
        np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-7)
        wanted = p @ rbm.energy_gradient(grid)
        np.testing.assert_allclose(rbm.mean_energy_gradient(ensemble), wanted, atol=1e-7)

    def test_the_hidden_layer_is_a_boltzmann_machine_with_a_diagonal(self):
        rbm = gaussian_bernoulli()
        hidden = rbm.transposed().pairwise()
        wanted = rbm.weights.T @ np.diag([1 / 1.2, 1 / 0.8]) @ rbm.weights
        np.testing.assert_allclose(hidden.weights, wanted, atol=1e-15)
        np.testing.assert_allclose(
            hidden.biases, rbm.hidden_biases + rbm.weights.T @ (rbm.visible_biases / [1.2, 0.8])
        )
        assert ebm.exact(hidden).log_partition == pytest.approx(4.6769725892, abs=1e-10)
        # Without its diagonal it is another one.
        other = ebm.BoltzmannMachine(
            wanted - np.diag(np.diag(wanted)), hidden.biases, offset=hidden.offset
        )
        assert abs(ebm.exact(other).log_partition - 4.6769725892) > 0.1

    def test_draws_blocks_and_hamiltonian_chains_have_its_moments(self):
        rbm = gaussian_bernoulli()
        moments = ebm.exact(rbm).moments()
        deviation = np.sqrt(moments.covariance.diagonal())
        steps = ebm.sampling.SamplingRun(observe=lambda v: v)
        hybrid = ebm.HamiltonianMonteCarlo(0.4, 5)
        draws = {
            "mixture": ebm.exact(rbm).sample(60_000, rng=1),
            "blocks": ebm.sample(rbm, n_draws=2500, n_chains=20, rng=1).chains.reshape(-1, 2),
            "hybrid": ebm.sample(rbm, hybrid, n_draws=2500, n_chains=20, rng=1, run=steps).values,
        }
        for states in draws.values():
            states = states.reshape(-1, 2)
            assert (np.abs(states.mean(axis=0) - moments.mean) / deviation).max() < 0.02
            gap = np.abs(np.cov(states.T) - moments.covariance) / np.outer(deviation, deviation)
            assert gap.max() < 0.03

    def test_the_state_gradient_is_that_of_the_energy(self):
        rbm = gaussian_bernoulli(hidden_center=0.4, visible_center=0.3)
        wanted = oracles.finite_difference(lambda v: float(rbm.energy(v)), ROWS[0])
        np.testing.assert_allclose(rbm.state_gradient(ROWS)[0], wanted, atol=1e-9)
        with pytest.raises(ModelError, match="only real states have a gradient"):
            reference(Gaussian(1.0)).state_gradient([0, 1, 0])

    def test_it_is_learnt_exactly_and_from_chains(self):
        truth = gaussian_bernoulli()
        rows = ebm.exact(truth).sample(3000, rng=0)
        data = ebm.Ensemble.from_data(rows, space=truth.space)
        start = truth.with_parameters(0.5 * truth.parameters)
        result = ebm.fit(start, data)
        assert result.converged
        assert result.log_likelihood > ebm.exact(truth).log_probability(rows).mean()
        assert (result.model.visible_units.precisions > 0).all()
        moments = result.ensemble.moments()
        np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(moments.covariance.diagonal(), rows.var(axis=0), atol=1e-3)
        chains = ebm.fit(
            start,
            data,
            loss=ebm.Likelihood(ebm.PersistentChains(200)),
            solver=ebm.GradientSteps(n_epochs=60, batch_size=200),
            rng=0,
        )
        by_chains = ebm.exact(chains.model).log_probability(rows).mean()
        assert ebm.exact(start).log_probability(rows).mean() + 0.1 < by_chains
        assert by_chains > result.log_likelihood - 0.02

    def test_what_would_be_an_integral_over_all_states_is_refused(self):
        ensemble = ebm.exact(gaussian_bernoulli())
        for ask in (ensemble.entropy, lambda: ensemble.states, lambda: next(ensemble.blocks())):
            with pytest.raises(EnumerationLimitError, match=r"cannot be listed.*draws"):
                ask()
        rows = ebm.Ensemble.from_data(ensemble.sample(500, rng=0), space=ensemble.space)
        assert ebm.fisher_information(gaussian_bernoulli(), rows).trace() > 0


class TestExistence:
    @pytest.mark.parametrize("visible", [Bernoulli(), Spin()])
    def test_exponential_units_exist_below_their_rate_at_every_state(self, visible):
        rbm = reference(Exponential(20.0), visible)
        states = oracles.all_states(rbm.space)
        largest = rbm.hidden_input(states).max()
        at = lambda rate: dataclasses.replace(rbm, units=(visible, Exponential(rate)))  # noqa: E731
        assert np.isfinite(at(largest * (1 + 1e-9)).energy(states)).all()
        with pytest.raises(NormalizationError, match=r"has the rate .* input .* raise the rate"):
            at(largest)

    def test_gaussian_layers_exist_while_the_precision_left_is_positive(self):
        u = np.array([[0.9, -0.6], [-0.3, 0.7]])

        def machine(precision, kind=Gaussian):
            return ebm.RestrictedBoltzmannMachine(
                u, [0, 0], [0, 0], units=(Gaussian([1.2, 0.8]), kind(precision))
            )

        shares = np.linalg.eigvals(np.diag([1 / 1.2, 1 / 0.8]) @ u @ u.T).real.max()
        assert machine(shares * 1.01).energy([0.1, 0.2]).shape == ()
        for kind in (Gaussian, ReLU):
            with pytest.raises(NormalizationError, match=r"least eigenvalue is -0\.0"):
                machine(shares * 0.99, kind)
        assert machine(0.1, lambda _: Uniform()).n_hidden == 2

    def test_learning_refuses_to_leave_and_does_not_stumble(self):
        """The likelihood of tied columns rises towards the largest input."""
        rows = np.repeat([[1, 1], [0, 0], [1, 0]], [8, 8, 3], axis=0)
        start = ebm.RestrictedBoltzmannMachine(
            [[0.1], [0.2]], [0, 0], [-1.0], units=(Bernoulli(), Exponential(1.0))
        )
        with pytest.warns(NotConvergedWarning, match="raise max_iterations"):
            result = ebm.fit(start, rows, solver=ebm.LBFGS(max_iterations=30))
        assert result.log_likelihood > ebm.exact(start).log_probability(rows).mean() + 0.1
        theta = np.array(start.parameters)
        theta[-2:] = 5.0
        with pytest.raises(NormalizationError):
            start.with_parameters(theta)

    @pytest.mark.parametrize(
        ("units", "error", "text"),
        [
            (Spin(), ModelError, "visible and of the hidden layer"),
            ((Spin(), "Gaussian"), ModelError, "visible and of the hidden layer"),
            ((ReLU(), Spin()), ModelError, "visible units must be Bernoulli, Spin or Gaussian"),
            ((Spin(), Gaussian([1, 2, 3])), ShapeError, "one for each of 2 units, got 3"),
            ((Gaussian([1, 2]), Spin()), ShapeError, "of the visible units .* each of 3 units"),
            ((Gaussian(), Exponential()), NormalizationError, "no distribution beside Gaussian"),
        ],
    )
    def test_what_is_no_pair_of_layers_is_refused(self, units, error, text):
        with pytest.raises(error, match=text):
            ebm.RestrictedBoltzmannMachine(np.ones((3, 2)), np.zeros(3), np.zeros(2), units=units)


class TestBothLayers:
    @pytest.mark.parametrize("visible", [Bernoulli(), Spin(), Gaussian(3.0)])
    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_blocks_of_gibbs_have_the_moments_to_two_percent(self, visible, hidden):
        if isinstance(visible, Gaussian) and hidden.space not in (ebm.Binary, ebm.Spins):
            pytest.skip("exact moments need a layer that can be enumerated")
        if isinstance(hidden, Exponential):
            hidden = Exponential(9.0)
        rbm = drawn_machine(visible, hidden, n=3, scale=0.4)
        moments = ebm.exact(rbm).moments()
        samples = ebm.sample(rbm, n_draws=2000, n_chains=40, rng=3)
        deviation = np.sqrt(moments.covariance.diagonal())
        states = samples.chains.reshape(-1, 3).astype(float)
        assert (np.abs(states.mean(axis=0) - moments.mean) / deviation).max() < 0.02
        gap = np.cov(states.T) - moments.covariance
        assert (np.abs(gap) / np.outer(deviation, deviation)).max() < 0.02

    def test_chains_of_real_layers_have_the_covariance_of_the_inverse(self):
        """Gaussian units in both layers: Cov[v] = (K − Uγ⁻¹Uᵀ)⁻¹."""
        rbm = drawn_machine(Gaussian([2.0, 3.0, 2.5]), Gaussian(1.5), n=3)
        wanted = np.linalg.inv(np.diag([2.0, 3.0, 2.5]) - rbm.weights @ rbm.weights.T / 1.5)
        states = ebm.sample(rbm, n_draws=2000, n_chains=40, rng=3).chains.reshape(-1, 3)
        scale = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()))
        assert (np.abs(np.cov(states.T) - wanted) / scale).max() < 0.02

    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_conditionals_are_means_given_the_other_layer(self, hidden):
        rbm = reference(hidden)
        v = np.array([1.0, 0.0, 1.0])
        inputs = (v - 0.5) @ rbm.weights + rbm.hidden_biases
        np.testing.assert_allclose(rbm.hidden_conditional(v), hidden.mean(inputs))
        h = np.array([1.0, 1.0])
        inputs = rbm.weights @ (h - 0.2) + rbm.visible_biases
        np.testing.assert_allclose(rbm.visible_conditional(h), 1 / (1 + np.exp(-inputs)))
        if not isinstance(hidden, Gaussian):
            with pytest.raises(CodingError):
                rbm.visible_conditional([-0.5, 1])

    @pytest.mark.parametrize("visible", [Bernoulli(), Spin(), Gaussian([3.0, 2.0, 4.0, 2.0])])
    @pytest.mark.parametrize("hidden", EVERY_HIDDEN, ids=repr)
    def test_files_gauges_and_temperatures(self, visible, hidden, tmp_path):
        if isinstance(hidden, Exponential):
            if isinstance(visible, Gaussian):
                pytest.skip("exponential units have no distribution beside real visible ones")
            hidden = Exponential(9.0)
        rbm = drawn_machine(visible, hidden)
        ebm.save(rbm, tmp_path / "machine.npz")
        assert ebm.load(tmp_path / "machine.npz").equals(rbm)
        assert not rbm.equals(dataclasses.replace(rbm, offset=0.0))
        states = rbm.space.random(5, 0)
        moved = rbm.recentered(0.3, -0.7)
        np.testing.assert_allclose(moved.energy(states), rbm.energy(states), rtol=1e-12)
        cold = rbm.scaled(0.5)
        np.testing.assert_allclose(
            cold.energy(states), [summed_out(cold, v) for v in states], rtol=1e-9
        )
        assert cold.scaled(2.0).equals(rbm)
        same = rbm.with_parameters(rbm.parameters)
        np.testing.assert_array_equal(same.energy(states), rbm.energy(states))
        assert type(visible).__name__ in repr(rbm) or rbm.units == (Bernoulli(), Bernoulli())

    def test_other_layers_are_joined_and_not_turned(self):
        for hidden in (ReLU(1.0), Uniform(), Exponential(9.0)):
            machine = reference(hidden)
            wanted = ebm.exact(machine).log_partition
            assert ebm.exact(machine.joint()).log_partition == pytest.approx(wanted, abs=1e-12)
        with pytest.raises(ModelError, match="visible units must be"):
            reference(Uniform()).transposed()
        turned = reference(Gaussian(2.0)).transposed()
        assert turned.units == (Gaussian(2.0), Bernoulli())
        assert turned.space == ebm.Reals(2)
        wanted = ebm.exact(reference(Gaussian(2.0))).log_partition
        assert ebm.exact(turned).log_partition == pytest.approx(wanted, rel=1e-13)

    def test_a_file_of_unknown_units_is_damaged(self, tmp_path, monkeypatch):
        ebm.save(reference(Uniform()), tmp_path / "machine.npz")
        monkeypatch.setattr("ebm.io._UNITS", {})
        with pytest.raises(FileFormatError, match="damaged"):
            ebm.load(tmp_path / "machine.npz")

    @pytest.mark.parametrize("hidden", [Gaussian(1.3), ReLU(1.3), Uniform(), Spin()], ids=repr)
    def test_learning_finds_data_as_likely_as_those_who_made_them(self, hidden):
        truth = drawn_machine(Spin(), hidden, scale=0.7)
        exact = ebm.exact(truth)
        data = exact.sample(1500, rng=0)
        start = dataclasses.replace(truth, weights=0.3 * truth.weights)
        rows = ebm.Ensemble.from_data(data, space=truth.space)
        with warnings.catch_warnings():
            # Hidden units that are hardly needed leave directions in which little changes.
            warnings.simplefilter("ignore", NotConvergedWarning)
            result = ebm.fit(start, rows, solver=ebm.LBFGS(max_iterations=60))
        assert result.log_likelihood >= exact.log_probability(data).mean() - 1e-3
        steps = ebm.GradientSteps(n_epochs=40, batch_size=100)
        chains = ebm.Likelihood(ebm.PersistentChains(100))
        by_chains = ebm.fit(start, rows, loss=chains, solver=steps, rng=0).model
        reached = ebm.exact(by_chains).log_probability(data).mean()
        assert reached > exact.log_probability(data).mean() - 0.02


class TestSpins:
    """Layers of ±1 units are summed and swept as {0,1} units."""

    @pytest.mark.parametrize(
        ("visible", "hidden"), [(Spin(), Spin()), (Spin(), Bernoulli()), (Bernoulli(), Spin())]
    )
    @pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
    def test_all_that_the_ensemble_knows_is_that_of_all_states(self, visible, hidden, shape):
        rbm = drawn_machine(visible, hidden, *shape)
        ensemble, (log_z, p) = ebm.exact(rbm), oracles.distribution(rbm)
        states = oracles.all_states(rbm.space)
        assert ensemble.log_partition == pytest.approx(log_z, rel=1e-13)
        np.testing.assert_allclose(np.exp(ensemble.log_probability(states)), p, rtol=1e-11)
        np.testing.assert_allclose(ensemble.weights, p, rtol=1e-11)
        np.testing.assert_array_equal(ensemble.states, states)
        np.testing.assert_allclose(
            ensemble.moments().covariance, oracles.moments(rbm)[1], atol=1e-12
        )
        assert ensemble.mean_energy() == pytest.approx(p @ rbm.energy(states), rel=1e-12)
        assert ensemble.entropy() == pytest.approx(-p @ np.log(p), rel=1e-12)
        means = rbm.hidden_conditional(states)
        np.testing.assert_allclose(ensemble.hidden_moments().mean, p @ means, atol=1e-12)
        second = np.einsum("s,si,sj->ij", p, means, means) - np.outer(p @ means, p @ means)
        second += np.diag(p @ rbm.hidden_units.variance(rbm.hidden_input(states)))
        np.testing.assert_allclose(ensemble.hidden_moments().covariance, second, atol=1e-12)
        drawn = ensemble.sample(40_000, rng=1)
        deviation = np.sqrt(ensemble.moments().covariance.diagonal())
        gap = np.abs(drawn.mean(axis=0) - ensemble.moments().mean) / deviation
        assert gap.max() < 0.02

    def test_the_smaller_layer_is_enough(self):
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(0, 0.2, (200, 8)),
            rng.normal(0, 0.1, 200),
            rng.normal(0, 0.1, 8),
            units=(Spin(), Spin()),
        )
        turned = ebm.exact(rbm.transposed())
        assert ebm.exact(rbm).log_partition == pytest.approx(turned.log_partition, rel=1e-13)


class TestForData:
    def test_independent_units_start_at_the_means_of_the_data(self):
        rng = np.random.default_rng(0)
        spins = rng.choice([-1, 1], (200, 3), p=[0.3, 0.7])
        start = ebm.RestrictedBoltzmannMachine.for_data(
            spins, 2, scale=0.0, units=(Spin(), Gaussian(1.0)), rng=0
        )
        np.testing.assert_allclose(ebm.exact(start).moments().mean, spins.mean(axis=0))
        assert start.units == (Spin(), Gaussian(1.0))
        constant = np.column_stack([spins[:, :1], np.ones(200)])
        start = ebm.RestrictedBoltzmannMachine.for_data(constant, 1, units=(Spin(), Spin()), rng=0)
        assert np.isfinite(start.visible_biases).all()

    def test_real_units_have_the_variances_too(self):
        rows = np.random.default_rng(0).normal([1.0, -2.0], [0.5, 3.0], (300, 2))
        start = ebm.RestrictedBoltzmannMachine.for_data(
            rows, 2, scale=0.0, units=(Gaussian(), Bernoulli()), rng=0
        )
        moments = ebm.exact(start).moments()
        np.testing.assert_allclose(moments.mean, rows.mean(axis=0))
        np.testing.assert_allclose(moments.covariance.diagonal(), rows.var(axis=0))
        with pytest.raises(CodingError):
            ebm.RestrictedBoltzmannMachine.for_data(rows, 2, units=(Spin(), Spin()))


@pytest.mark.parametrize(
    ("units", "hidden"),
    [
        ((Spin(), Gaussian((1.0, 2.0, 3.0))), {1: 0.3}),
        ((Bernoulli(), ReLU(2.0)), {0: 0.5}),
        ((Gaussian((1.0, 2.0, 3.0, 4.0)), Bernoulli()), {2: 1.0}),
    ],
)
def test_units_given_in_either_layer_keep_their_own_energies(units, hidden):
    rng = np.random.default_rng(0)
    weights, biases, inputs = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)
    machine = ebm.RestrictedBoltzmannMachine(
        weights,
        biases,
        inputs,
        offset=0.3,
        visible_center=0.2,
        hidden_center=0.1,
        units=units,
    )
    v = machine.space.random(5, 0)
    completed = v.copy()
    completed[:, [1, 3]] = v[0, [1, 3]]
    some = machine.given({1: v[0, 1], 3: v[0, 3]})
    np.testing.assert_allclose(some.energy(v[:, [0, 2]]), machine.energy(completed), atol=1e-12)
    ((place, value),) = hidden.items()
    rest = [j for j in range(3) if j != place]
    about = v - 0.2
    free = inputs[rest] + about @ weights[:, rest]
    energy = 0.3 - v @ biases + units[0].energy(v).sum(axis=-1)
    energy += about @ weights[:, rest] @ np.full(2, 0.1)
    energy -= units[1].at(np.array(rest)).log_partition(free).sum(axis=-1)
    energy -= (value - 0.1) * (about @ weights[:, place]) + inputs[place] * value
    energy += float(units[1].at(np.array([place])).energy(np.array([value])).sum())
    np.testing.assert_allclose(machine.given_hidden(hidden).energy(v), energy, atol=1e-12)
