"""Real units with bounds: joint models of machines, exact sums, marginals, chains and fits."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import roots_legendre

import ebm
from ebm.errors import (
    CodingError,
    MissingValueError,
    ModelError,
    NormalizationError,
    ShapeError,
)
from ebm.units import Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform

HIDDEN = [ReLU((1.3, 0.8)), Exponential((4.0, 5.0)), Uniform()]
PAIRS = [(visible, hidden) for visible in (Bernoulli(), Spin()) for hidden in HIDDEN]
WITH_REAL = [*PAIRS, (Gaussian(3.0), HIDDEN[0]), (Gaussian(3.0), HIDDEN[2])]


def machine_of(visible, hidden, seed=0):
    """Three visible and two hidden units, centers and offset included."""
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 0.4, (3, 2)),
        rng.normal(size=3),
        rng.normal(0, 0.3, 2),
        visible_center=np.full(3, 0.3),
        hidden_center=np.full(2, 0.2),
        units=(visible, hidden),
        offset=0.7,
    )


def pairwise_of(kind, low=0.0, seed=0):
    """A {0,1} unit, a unit of 3 levels and a ±1 unit beside two units with bounds."""
    rng = np.random.default_rng(seed)
    high = low + 1.5 if kind == "uniform" else math.inf
    space = ebm.Product(ebm.Binary(1), ebm.Levels(1, 3), ebm.Spins(1), ebm.Intervals(2, low, high))
    couplings = rng.normal(0, 0.4, (7, 7))
    couplings[1:4, 1:4] = couplings[5:, 5:] = 0
    couplings += couplings.T
    np.fill_diagonal(couplings, 0)
    fields = rng.normal(0, 0.5, 7)
    if kind == "relu":
        couplings[5, 5], couplings[6, 6] = -0.7, -1.9
    if kind == "exponential":
        fields[5:] = -4.0 - rng.random(2)
    return ebm.PairwiseModel(space, couplings, fields, offset=0.4)


def integral(model, function=None):
    """∫ dx Σ_r f e^(−E) of a model over finite units r and real ones x last, by Gauss–Legendre."""
    space = model.space
    axes, weights = [], []
    for unit, (low, high) in enumerate(space.bounds.T):
        if not space.is_real[unit]:
            axes.append(space.values_of(unit))
            weights.append(np.ones(len(axes[-1])))
            continue
        ends = max(low, -9.0), min(high, max(low, 0) + 12.0)
        nodes, own = roots_legendre(80)
        axes.append(ends[0] + (ends[1] - ends[0]) * (nodes + 1) / 2)
        weights.append((ends[1] - ends[0]) * own / 2)
    states = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, space.n)
    density = reduce(np.multiply.outer, weights).ravel() * np.exp(-model.energy(states))
    return float(density.sum() if function is None else density @ function(states))


class TestTheSpace:
    def test_values_lie_between_the_bounds(self):
        space = ebm.Intervals(2, 0, 1)
        np.testing.assert_array_equal(space.check([[0, 1], [0.5, 0.25]]), [[0, 1], [0.5, 0.25]])
        with pytest.raises(CodingError, match=r"unit '1' has the values 1\.5 where a number"):
            space.check([0.5, 1.5])
        with pytest.raises(CodingError, match="a number of at least -1 is wanted"):
            ebm.Intervals(1, -1).check([[-2.0]])
        with pytest.raises(CodingError, match="a number of at least 0"):
            ebm.Intervals(1).check([np.inf])
        with pytest.raises(MissingValueError):
            space.check([np.nan, 0.5])

    @pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (-math.inf, 0), (math.nan, 1), ([0], 1)])
    def test_an_interval_needs_a_width_and_a_lower_end(self, bounds):
        with pytest.raises(ShapeError, match="an interval is from low"):
            ebm.Intervals(2, *bounds)

    def test_it_is_a_block_of_products(self):
        space = ebm.Product(visible=ebm.Spins(2), x=ebm.Intervals(1), y=ebm.Intervals(2, 0, 1))
        assert space.is_bounded.tolist() == [False, False, True, True, True]
        np.testing.assert_array_equal(space.bounds, [[-1, -1, 0, 0, 0], [1, 1, math.inf, 1, 1]])
        assert space.subspace([3, 4]) == ebm.Intervals(2, 0, 1)
        assert space.subspace([2, 3]) == ebm.Product(ebm.Intervals(1), ebm.Intervals(1, 0, 1))
        assert space.size == math.inf
        states = space.random(50, 0)
        np.testing.assert_array_equal(space.check(states), states)
        assert not ebm.Reals(2).is_bounded.any()


class TestJointModels:
    @pytest.mark.parametrize("units", WITH_REAL, ids=str)
    def test_the_joint_energy_is_that_of_both_layers(self, units):
        machine = machine_of(*units)
        v, h = machine.space.random(6, 1), units[1].space(2).random(6, 2)
        wanted = 0.7 - np.einsum("ki,ij,kj->k", v - 0.3, machine.weights, h - 0.2)
        wanted -= v @ machine.visible_biases + h @ machine.hidden_biases
        wanted += units[0].energy(v).sum(axis=1) + units[1].energy(h).sum(axis=1)
        joint = machine.joint()
        np.testing.assert_allclose(joint.energy(np.hstack([v, h])), wanted, rtol=1e-13)
        assert joint.space == ebm.Product(machine.space, units[1].space(2))

    @pytest.mark.parametrize("units", PAIRS, ids=str)
    def test_partition_function_and_moments_are_those_of_the_machine(self, units):
        machine = machine_of(*units)
        joint, own = ebm.exact(machine.joint()), ebm.exact(machine)
        assert joint.log_partition == pytest.approx(own.log_partition, abs=1e-12)
        moments = joint.moments()
        np.testing.assert_allclose(moments.mean[:3], own.moments().mean, rtol=1e-12)
        hidden = machine.hidden_conditional(own.states)
        np.testing.assert_allclose(moments.mean[3:], own.weights @ hidden, rtol=1e-12)
        variance = machine.hidden_units.variance(machine.hidden_input(own.states))
        second = own.weights @ (variance + hidden**2)
        np.testing.assert_allclose(moments.second.diagonal()[3:], second, rtol=1e-12)

    @pytest.mark.parametrize("units", WITH_REAL, ids=str)
    def test_integrating_the_hidden_layer_out_leaves_the_energy_of_the_machine(self, units):
        machine = machine_of(*units)
        marginal = ebm.marginalize(machine.joint(), keep="visible")
        v = machine.space.random(8, 3)
        np.testing.assert_allclose(marginal.energy(v), machine.energy(v), atol=1e-10)
        # Its parameters are those of the machine and couplings of visible units.
        slopes = dict(zip(marginal.parameter_names, marginal.energy_gradient(v).T, strict=True))
        h = machine.hidden_conditional(v)
        np.testing.assert_allclose(slopes["v[3]"], -h[:, 0], rtol=1e-12)
        np.testing.assert_allclose(slopes["A[1, 4]"], -v[:, 1] * h[:, 1], rtol=1e-12)
        assert "A[3, 4]" not in slopes
        assert "A[3, 3]" not in slopes

    def test_a_lost_precision_or_rate_would_be_seen(self):
        for hidden in HIDDEN[:2]:
            machine = machine_of(Bernoulli(), hidden)
            joint = machine.joint()
            couplings, fields = joint.couplings.copy(), joint.fields.copy()
            if hidden is HIDDEN[0]:
                couplings[3:, 3:] /= 2
            else:
                fields[3:] += 1
            mutant = ebm.PairwiseModel(joint.space, couplings, fields, offset=joint.offset)
            gap = ebm.exact(mutant).log_partition - ebm.exact(machine).log_partition
            assert abs(gap) > 0.1

    @pytest.mark.parametrize(
        ("hidden", "wanted"),
        [
            (Gaussian(1.3), 3.9403756670),
            (Exponential(2.0), 0.9348766338),
            (ReLU(1.3), 2.5556667676),
            (Uniform(), 2.2756497256),
        ],
        ids=str,
    )
    def test_the_reference_machines_have_the_partition_functions_that_were_found_elsewhere(
        self, hidden, wanted
    ):
        alpha, beta = np.arange(3)[:, None], np.arange(2)
        machine = ebm.RestrictedBoltzmannMachine(
            np.sin(1 + 2 * alpha + beta) / 2,
            [0.1, -0.2, 0.3],
            [0.4, -0.3],
            visible_center=0.5,
            hidden_center=0.2,
            units=(Bernoulli(), hidden),
        )
        assert ebm.exact(machine.joint()).log_partition == pytest.approx(wanted, abs=2e-10)


class TestExactSums:
    @pytest.mark.parametrize("kind", ["relu", "exponential", "uniform"])
    @pytest.mark.parametrize("low", [0.0, -0.6])
    def test_they_are_those_of_quadrature(self, kind, low):
        model = pairwise_of(kind, low)
        exact = ebm.exact(model)
        z = integral(model)
        assert exact.log_partition == pytest.approx(math.log(z), abs=1e-7)
        moments = exact.moments()
        mean = integral(model, lambda x: x[:, 3]) / z
        assert moments.mean[5] == pytest.approx(mean, abs=1e-7)
        both = integral(model, lambda x: x[:, 3] * x[:, 4]) / z
        assert moments.second[5, 6] == pytest.approx(both, abs=1e-7)
        square = integral(model, lambda x: x[:, 3] ** 2) / z
        assert moments.second[5, 5] == pytest.approx(square, abs=1e-7)
        energy = integral(model, model.energy) / z
        assert exact.mean_energy() == pytest.approx(energy, abs=1e-6)
        assert exact.entropy() == pytest.approx(exact.log_partition + energy, abs=1e-6)

    @settings(max_examples=20, deadline=None)
    @given(
        kind=st.sampled_from(["relu", "exponential", "uniform"]),
        low=st.floats(-2, 2),
        seed=st.integers(0, 1000),
    )
    def test_one_unit_given_all_others_has_the_density_of_its_energies(self, kind, low, seed):
        model = pairwise_of(kind, low, seed)
        if kind == "exponential":
            # Bounds above zero raise the inputs no couplings give.
            assert (model.fields[5:] < -3).all()
        alone = model.given({0: 1, 1: 2, 2: -1, 4: low + 0.25})
        assert alone.space == model.space.subspace([3])
        high = alone.space.high if kind == "uniform" else low + 30
        points = [low + 0.01, low + 0.3, low + 1, low + 3] if kind != "uniform" else None
        z, mean = (
            quad(
                lambda x, k=k: x**k * np.exp(-float(alone.energy([x]))),
                low,
                high,
                points=points,
            )[0]
            for k in (0, 1)
        )
        exact = ebm.exact(alone)
        assert exact.log_partition == pytest.approx(math.log(z), abs=1e-7)
        assert exact.moments().mean[0] == pytest.approx(mean / z, abs=1e-6)

    def test_variances_keep_their_digits_beside_far_means_that_have_no_weight(self):
        model = ebm.RestrictedBoltzmannMachine(
            [[1e8]], [0.1], [0.2], units=(Spin(), ReLU(1e-8))
        ).joint()
        moments = ebm.exact(model).moments()
        assert moments.mean == pytest.approx([1, 1e16])
        assert moments.covariance[1, 1] == pytest.approx(1e8, rel=1e-6)
        fisher = np.asarray(ebm.information.fisher_information(model))
        assert fisher == pytest.approx(np.outer([0, 1, 1], [0, 1, 1]) * 1e8, rel=1e-6, abs=1e-6)

    def test_moved_bounds_are_a_change_of_coordinates(self):
        for kind in ("relu", "uniform"):
            model = pairwise_of(kind, -0.6)
            space = ebm.Product(
                ebm.Binary(1),
                ebm.Levels(1, 3),
                ebm.Spins(1),
                ebm.Intervals(2, 0, model.space.bounds[1, -1] + 0.6),
            )
            shift = np.zeros(7)
            shift[5:] = -0.6
            moved = ebm.PairwiseModel(
                space,
                model.couplings,
                model.fields + model.couplings @ shift,
                offset=float(model.energy([0, 0, 1, -0.6, -0.6]))
                - float(
                    ebm.PairwiseModel(
                        space, model.couplings, model.fields + model.couplings @ shift
                    ).energy([0, 0, 1, 0, 0])
                ),
            )
            first, second = ebm.exact(model), ebm.exact(moved)
            assert first.log_partition == pytest.approx(second.log_partition, abs=1e-11)
            moments = first.moments(), second.moments()
            np.testing.assert_allclose(moments[0].mean - shift, moments[1].mean, atol=1e-11)
            np.testing.assert_allclose(moments[0].covariance, moments[1].covariance, atol=1e-11)

    @pytest.mark.parametrize("kind", ["relu", "exponential", "uniform"])
    def test_draws_have_the_moments(self, kind):
        exact = ebm.exact(pairwise_of(kind, -0.3))
        draws = ebm.Ensemble.from_data(exact.sample(40000, rng=0), space=exact.space).moments()
        moments = exact.moments()
        scale = np.sqrt(moments.covariance.diagonal())
        assert (abs(draws.mean - moments.mean) < 0.025 * scale).all()
        assert (abs(draws.covariance - moments.covariance) < 0.04 * np.outer(scale, scale)).all()

    def test_gaussian_units_beside_one_rectified_unit_are_integrated_too(self):
        machine = ebm.RestrictedBoltzmannMachine(
            [[0.5], [-0.8]], [0.3, -0.2], [0.4], units=(Gaussian(2.0), ReLU(1.5))
        )
        joint = machine.joint()
        exact = ebm.exact(joint)
        z = integral(machine)
        assert exact.log_partition == pytest.approx(math.log(z), abs=1e-7)
        draws, moments = exact.sample(40000, rng=0), exact.moments()
        np.testing.assert_allclose(draws.mean(axis=0), moments.mean, atol=0.02)
        np.testing.assert_allclose(np.cov(draws.T), moments.covariance, atol=0.02)

    def test_the_fisher_information_is_the_curvature_of_the_partition_function(self):
        for kind in ("relu", "exponential", "uniform"):
            model = pairwise_of(kind, -0.3)
            theta, step = model.parameters, 1e-4

            def slopes(theta, model=model):
                moved = model.with_parameters(theta)
                return moved.mean_energy_gradient(ebm.exact(moved))

            curvature = -np.array(
                [
                    (slopes(theta + step * e) - slopes(theta - step * e)) / (2 * step)
                    for e in np.eye(len(theta))
                ]
            )
            found = ebm.fisher_information(model).dense()
            np.testing.assert_allclose(found, curvature, atol=3e-7)


class TestMarginals:
    @pytest.mark.parametrize("units", PAIRS, ids=str)
    @pytest.mark.parametrize("keep", [[0, 1, 2], [0, 2]])
    def test_the_gradient_is_that_of_the_exact_likelihood(self, units, keep):
        """Theorem 9 against central differences of the exact mean log-likelihood."""
        family = ebm.marginalize(machine_of(*units).joint(), keep)
        rows = family.space.random(12, 5)
        data = ebm.Ensemble.from_data(rows, space=family.space)
        theta = family.parameters

        def likelihood(theta):
            return ebm.exact(family.with_parameters(theta)).log_probability(rows).mean()

        slope = family.mean_energy_gradient(ebm.exact(family)) - family.mean_energy_gradient(data)
        step = 1e-3
        wanted = [
            (
                8 * (likelihood(theta + step * e) - likelihood(theta - step * e))
                - (likelihood(theta + 2 * step * e) - likelihood(theta - 2 * step * e))
            )
            / (12 * step)
            for e in np.eye(len(theta))
        ]
        np.testing.assert_allclose(slope, wanted, atol=1e-8)
        # Without the clamped phase it is another number.
        assert abs(family.mean_energy_gradient(ebm.exact(family)) - wanted).max() > 0.01

    @pytest.mark.parametrize("units", PAIRS, ids=str)
    def test_the_hessian_is_the_derivative_of_the_gradient(self, units):
        family = ebm.marginalize(machine_of(*units).joint(), [0, 2])
        data = ebm.Ensemble.from_data(family.space.random(12, 5), space=family.space)
        theta, step = family.parameters, 1e-4
        wanted = [
            (
                family.with_parameters(theta + step * e).mean_energy_gradient(data)
                - family.with_parameters(theta - step * e).mean_energy_gradient(data)
            )
            / (2 * step)
            for e in np.eye(len(theta))
        ]
        np.testing.assert_allclose(family.mean_energy_hessian(data), wanted, atol=1e-7)

    @pytest.mark.parametrize("units", PAIRS, ids=str)
    def test_the_hidden_layer_has_a_density(self, units):
        joint = machine_of(*units).joint()
        hidden = ebm.marginalize(joint, keep="hidden")
        h = hidden.space.random(4, 7)
        visible = joint.space.subspace([0, 1, 2])
        states = visible.states_at(np.arange(8))
        every = [np.hstack([states, np.tile(row, (8, 1))]) for row in h]
        wanted = [-np.logaddexp.reduce(-joint.energy(rows)) for rows in every]
        np.testing.assert_allclose(hidden.energy(h), wanted, rtol=1e-12)
        exact, whole = ebm.exact(hidden), ebm.exact(joint)
        assert exact.log_partition == whole.log_partition
        np.testing.assert_allclose(exact.moments().mean, whole.moments().mean[3:])

    def test_given_and_marginalize_commute(self):
        joint = machine_of(Spin(), ReLU(1.0)).joint()
        first = ebm.marginalize(joint, keep="visible").given({0: 1})
        last = ebm.marginalize(joint.given({0: 1}), keep=[0, 1])
        states = first.space.states_at(np.arange(4))
        np.testing.assert_allclose(first.energy(states), last.energy(states), rtol=1e-12)
        held = joint.given({4: 0.5})
        gap = ebm.exact(held).log_partition - ebm.exact(joint).log_partition
        density = ebm.exact(ebm.marginalize(joint, keep=[4])).log_probability([0.5])
        assert gap == pytest.approx(float(density), abs=1e-12)

    def test_gaussian_and_bounded_units_are_summed_out_of_one_model(self):
        space = ebm.Product(ebm.Binary(2), ebm.Reals(1), ebm.Intervals(1))
        couplings = np.zeros((4, 4))
        couplings[0, 2:], couplings[1, 2:] = [0.5, -0.3], [0.2, 0.4]
        couplings += couplings.T
        couplings[2, 2], couplings[3, 3] = -1.5, -0.8
        model = ebm.PairwiseModel(space, couplings, [0.1, -0.2, 0.3, 0.4])
        family = ebm.marginalize(model, keep=[0, 1])
        alone = ebm.exact(model)
        assert ebm.exact(family).log_partition == pytest.approx(alone.log_partition, abs=1e-12)
        completed = family.completed(ebm.exact(family)).moments()
        np.testing.assert_allclose(completed.mean, alone.moments().mean, atol=1e-12)
        np.testing.assert_allclose(completed.covariance, alone.moments().covariance, atol=1e-12)

    def test_a_marginal_is_fitted_and_read_back(self, tmp_path):
        family = ebm.marginalize(machine_of(Bernoulli(), ReLU(1.0)).joint(), keep="visible")
        rows = ebm.exact(family).sample(500, rng=1)
        result = ebm.fit(family.with_parameters(0.7 * family.parameters), rows)
        assert result.log_likelihood > ebm.exact(family).log_probability(rows).mean()
        assert result.degrees_of_freedom == 7
        ebm.save(result.model, tmp_path / "fitted")
        read = ebm.load(tmp_path / "fitted")
        assert read.equals(result.model)
        assert read.model.space == result.model.model.space

    def test_visible_units_with_bounds_are_fitted_with_their_errors(self):
        truth = pairwise_of("exponential", -0.3)
        rows = ebm.exact(truth).sample(3000, rng=0)
        data = ebm.Ensemble.from_data(rows, space=truth.space)
        result = ebm.fit(ebm.PairwiseModel.for_data(data), data)
        wanted = truth.last_state_zero().parameters
        z = (result.model.parameters - wanted) / result.standard_errors
        assert np.sqrt((z**2).mean()) < 1.6

    @pytest.mark.parametrize("space", [ebm.Intervals(2), ebm.Intervals(2, 0, 1)], ids=str)
    def test_a_unit_that_never_leaves_its_bound_has_no_maximum(self, space):
        rows = np.random.default_rng(0).random((40, 2))
        rows[:, 1] = 0
        data = ebm.Ensemble.from_data(rows, space=space)
        with pytest.warns(ebm.errors.NoMaximumWarning, match="'1'"):
            ebm.fit(ebm.PairwiseModel.for_data(data), data)

    @pytest.mark.parametrize("high", [math.inf, 1], ids=str)
    @pytest.mark.parametrize("n_rows", [40, 100])
    def test_a_bound_that_is_reached_for_some_value_alone_leaves_none_either(self, high, n_rows):
        """A unit at its bound in all rows, or in those where a finite unit has some value."""
        rng = np.random.default_rng(0)
        space = ebm.Product(ebm.Levels(1, 3), ebm.Intervals(2, 0, high), names=["a", "x", "y"])
        rows = np.column_stack([np.arange(n_rows) % 3, rng.random((n_rows, 2))])
        bound = 1.0 if high == 1 else 0.0
        for cells, named, part in (
            (rows[:, 0] == 2, "'a', 'x'", "l2"),
            (slice(None), "'x'", "l2_"),
        ):
            rows[cells, 1] = bound
            data = ebm.Ensemble.from_data(rows, space=space)
            start = ebm.PairwiseModel.for_data(data)
            with pytest.warns(ebm.errors.EbmWarning) as told:
                result = ebm.fit(start, data, solver=ebm.LBFGS(max_iterations=60))
            (text,) = {str(warning.message) for warning in told}
            assert f"combination of {named} never occurs" in text
            assert f"Penalty({part}" in text
            assert "the likelihood has no maximum" in result.message
            assert not result.converged
        held = ebm.fit(start, data, penalty=ebm.Penalty(l2=0.01, l2_biases=0.01))
        assert held.converged

    def test_a_start_that_no_step_leaves_says_why(self):
        """Exponential units cannot be coupled with real ones that reach any value."""
        rng = np.random.default_rng(0)
        space = ebm.Product(ebm.Intervals(1), ebm.Reals(1), names=["x", "y"])
        rows = np.column_stack([rng.exponential(size=50), rng.normal(size=50)])
        data = ebm.Ensemble.from_data(rows, space=space)
        with pytest.warns(
            ebm.errors.NotConvergedWarning, match="downhill leaves .*unit 'x' reaches"
        ):
            result = ebm.fit(ebm.PairwiseModel.for_data(data), data)
        assert "rounding" not in result.message

    def test_a_fit_without_closed_form_is_one_over_chains(self):
        rng = np.random.default_rng(0)
        space = ebm.Product(ebm.Intervals(1, 0, 1), ebm.Reals(1), names=["x", "y"])
        rows = rng.random((200, 2)) @ [[1, 1], [0, 1]]
        data = ebm.Ensemble.from_data(rows, space=space)
        start = ebm.PairwiseModel.for_data(data)
        with pytest.raises(ModelError, match=r"'x'.*loss=ebm.Likelihood\(ebm.PersistentChains\(\)"):
            ebm.fit(start, data)
        chains, steps = ebm.PersistentChains(), ebm.GradientSteps(n_epochs=20)
        fitted = ebm.fit(start, data, loss=ebm.Likelihood(chains), solver=steps, rng=0).model
        assert fitted.couplings[0, 1] > 0.3

    def test_a_family_of_ones_own_is_learnt_from_its_form(self):
        """Its slopes are averaged as functions of second degree, a precision among them."""
        start = OwnFamily([0.4, -0.6, 0.8, 0.9])
        exact = ebm.exact(start)
        z = integral(start)
        wanted = [
            integral(start, lambda x, k=k: start.energy_gradient(x)[:, k]) / z for k in range(4)
        ]
        np.testing.assert_allclose(start.mean_energy_gradient(exact), wanted, atol=1e-9)
        family = ebm.marginalize(start, keep=[0])
        slopes = family.mean_energy_gradient(ebm.exact(family))
        np.testing.assert_allclose(slopes, wanted, atol=1e-9)


class OwnFamily(ebm.ParametricModel):
    """A spin s beside x ≥ −0.2: E = −a s − b x − c s x + ½ d x²."""

    space = ebm.Product(ebm.Spins(1), ebm.Intervals(1, -0.2))

    def __init__(self, theta):
        self._theta = np.asarray(theta, dtype=float)

    @property
    def parameters(self):
        return self._theta

    def with_parameters(self, theta):
        return OwnFamily(theta)

    def energy_gradient(self, states):
        s, x = np.moveaxis(np.asarray(states, dtype=float), -1, 0)
        return np.stack([-s, -x, -s * x, 0.5 * x**2], axis=-1)

    def energy(self, states):
        return self.energy_gradient(states) @ self._theta

    def quadratic_form(self):
        a, b, c, d = self._theta
        return [[0, c], [c, -d]], [a, b], 0.0


class TestChains:
    @pytest.mark.parametrize("units", PAIRS, ids=str)
    def test_they_have_the_exact_moments(self, units):
        joint = machine_of(*units).joint()
        drawn = ebm.sample(joint, n_draws=100, n_chains=400, rng=0).moments()
        exact = ebm.exact(joint).moments()
        scale = np.sqrt(exact.covariance.diagonal())
        assert (abs(drawn.mean - exact.mean) < 0.02 * scale).all()
        assert (abs(drawn.covariance - exact.covariance) < 0.04 * np.outer(scale, scale)).all()

    def test_gaussian_visible_units_have_the_moments_of_the_machine(self):
        machine = machine_of(Gaussian(3.0), HIDDEN[0])
        first, second = (
            ebm.sample(model, n_draws=100, n_chains=400, rng=0).moments()
            for model in (machine.joint(), machine)
        )
        np.testing.assert_allclose(first.mean[:3], second.mean, atol=0.015)
        np.testing.assert_allclose(first.covariance[:3, :3], second.covariance, atol=0.02)

    def test_units_coupled_to_each_other_are_drawn_in_turn(self):
        space = ebm.Intervals(2, -0.5)
        model = ebm.PairwiseModel(space, [[-1.0, 0.6], [0.6, -1.0]], [0.2, -0.3])
        drawn = ebm.sample(model, n_draws=100, n_chains=400, rng=0).moments()

        z = integral(model)
        assert drawn.mean[0] == pytest.approx(integral(model, lambda x: x[:, 0]) / z, abs=0.015)
        assert drawn.second[0, 1] == pytest.approx(
            integral(model, lambda x: x[:, 0] * x[:, 1]) / z, abs=0.03
        )

    def test_clamped_units_stay(self):
        joint = machine_of(Bernoulli(), Uniform()).joint()
        run = ebm.sampling.SamplingRun(clamped={0: 1, 4: 0.25})
        drawn = ebm.sample(joint, n_draws=50, n_chains=400, rng=0, run=run)
        assert (drawn.chains[..., 4] == 0.25).all()
        wanted = ebm.exact(joint.given({0: 1, 4: 0.25})).moments().mean
        np.testing.assert_allclose(drawn.moments().mean[[1, 2, 3]], wanted, atol=0.015)
        with pytest.raises(CodingError, match="a number from 0 to 1"):
            ebm.sample(joint, n_draws=5, run=ebm.sampling.SamplingRun(clamped={4: 1.25}))


LINE, UNIT = ebm.Intervals(1), ebm.Intervals(1, 0, 1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ebm.PairwiseModel(LINE), NormalizationError, "unit '0' reaches any value from"),
        (lambda: ebm.PairwiseModel(LINE, [[0.5]]), NormalizationError, "must not be positive"),
        (lambda: ebm.PairwiseModel(UNIT, [[-1.0]]), ModelError, "of an interval with two ends"),
        (
            lambda: ebm.PairwiseModel(
                ebm.Product(ebm.Spins(1, names=["s"]), ebm.Intervals(1, names=["x"])),
                [[0, 1], [1, 0]],
                [0, -0.5],
            ),
            NormalizationError,
            "unit 'x' .* is up to 0.5",
        ),
        (
            lambda: ebm.PairwiseModel(
                ebm.Product(ebm.Reals(1), ebm.Intervals(1)), [[-1, 0.1], [0.1, 0]], [0, -3]
            ),
            NormalizationError,
            "is up to inf",
        ),
        (
            lambda: ebm.PairwiseModel(ebm.Intervals(2), [[-1, 1.5], [1.5, -1]]),
            NormalizationError,
            "must be positive definite",
        ),
        (
            lambda: ebm.exact(ebm.PairwiseModel(ebm.Intervals(2), [[-1, -1.5], [-1.5, -1]])),
            ModelError,
            "'0' and '1' are coupled to each other.*ebm.sample",
        ),
        (
            lambda: ebm.exact(machine_of(Gaussian(3.0), HIDDEN[0]).joint()),
            ModelError,
            "'3' and '4' are coupled to each other",
        ),
        (
            lambda: machine_of(Bernoulli(), Uniform()).joint().energy([0, 0, 0, 0.5, 1.5]),
            CodingError,
            "unit '4' has the values 1.5",
        ),
        (
            lambda: UNIT.check([[0.25], [0.5], [1 + 1e-12]]),
            CodingError,
            "has the values 1.000000000001 where a number from 0 to 1",
        ),
        (
            lambda: ebm.Intervals(1, -1e308, 1e308),
            ShapeError,
            "at a finite distance or math.inf, got low = -1e.308",
        ),
        (
            lambda: ebm.information.fisher_information(
                ebm.PairwiseModel(
                    ebm.Product(ebm.Reals(1), ebm.Intervals(1)), [[-1, 0.1], [0.1, -1]], [0, -3]
                )
            ),
            ebm.errors.EnumerationLimitError,
            "bounds are beside others without: take them over draws",
        ),
        (
            lambda: ebm.marginalize(
                ebm.PairwiseModel(ebm.Intervals(3), -np.eye(3) - 0.2), keep=[0]
            ).energy([0.5]),
            ModelError,
            "'1' and '2' are coupled",
        ),
        (
            lambda: ebm.Annealing().run(machine_of(Bernoulli(), Uniform()).joint()),
            ModelError,
            "marginalize",
        ),
    ],
)
def test_what_has_no_integral_is_a_sentence(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_couplings_that_hold_each_other_back_need_no_precision():
    """Inhibition of two half lines beyond their precisions leaves a finite integral."""
    model = ebm.PairwiseModel(ebm.Intervals(2), [[-1, -1.5], [-1.5, -1]], [0.5, 0.2])
    draws = ebm.sample(model, n_draws=200, rng=0)
    assert np.isfinite(draws.chains).all()
    assert (draws.chains >= 0).all()
