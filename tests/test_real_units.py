"""Real units in pairs with others: against quadrature, formulas of their own, and differences."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import ebm
from ebm.errors import (
    CodingError,
    EbmError,
    EnumerationLimitError,
    FileFormatError,
    ModelError,
    NamesError,
    NoMaximumWarning,
    NormalizationError,
    ShapeError,
)
from ebm.forms import energy_form
from ebm.learning._determined_units import determined_units_notes
from ebm.learning.penalties import AppliedPenalty
from ebm.models._gaussian_units import GaussianUnits
from ebm.units import Bernoulli, Gaussian, ReLU, Spin, Uniform
from tests import oracles, strategies

MACHINE = ebm.Product(visible=ebm.Binary(3), hidden=ebm.Reals(2))
#: Points a quarter apart: of functions as smooth as a Gaussian of deviation ½ sums are integrals.
GRID = np.arange(-16, 16.1, 0.25)


def drawn_model(space, rng, scale=0.5):
    """Random couplings and fields; the precision of the real units has eigenvalues near 1.5."""
    rng, d = np.random.default_rng(rng), space.n_features
    units = np.repeat(np.arange(space.n), space.widths)
    couplings = rng.normal(0, scale, (d, d))
    couplings = (couplings + couplings.T) * (units[:, None] != units)
    real = np.flatnonzero(space.is_real[units])
    root = rng.normal(0, 0.2, (len(real), len(real)))
    couplings[np.ix_(real, real)] = -1.5 * np.eye(len(real)) - root @ root.T
    return ebm.PairwiseModel(space, couplings, rng.normal(0, scale, d), offset=rng.normal())


def all_points(space):
    """States of the finite units with all points of a grid of the real ones, and their volumes."""
    values = [GRID if is_real else space.values_of(i) for i, is_real in enumerate(space.is_real)]
    points = np.array(list(itertools.product(*values)))
    return points, 0.25 ** int(space.is_real.sum())


def integrated(model):
    """Points, and their shares of Z = Σ ∫ exp(−E), with ln Z."""
    points, volume = all_points(model.space)
    weights = volume * np.exp(-model.energy(points))
    return points, weights / weights.sum(), math.log(weights.sum())


@st.composite
def models(draw):
    """Models of one or two real units among finite ones of several kinds, in any order."""
    finite = st.sampled_from([ebm.Binary(1), ebm.Spins(1), ebm.Levels(1, 3)])
    blocks = draw(st.lists(finite, min_size=1, max_size=3)) + [ebm.Reals(1)] * draw(
        st.integers(1, 2)
    )
    space = ebm.Product(*draw(st.permutations(blocks)))
    return drawn_model(space, draw(strategies.generators()))


def reference():
    """The mixed example of finite units beside two real ones: K = [[1.5, .3], [.3, 1]]."""
    space = ebm.Product(
        ebm.Binary(2), ebm.Levels(2, 3), ebm.Spins(1), ebm.Levels(1, 4), ebm.Reals(2)
    )
    c, units = np.arange(13), np.repeat(np.arange(8), space.widths)
    couplings = np.zeros((15, 15))
    couplings[:13, :13] = np.triu(np.sin(c[:, None] + 2 * c) / 2, 1)
    couplings[:13, 13:] = np.sin(c[:, None] - np.arange(2)) / 2
    couplings = (couplings + couplings.T) * (units[:, None] != units)
    couplings[13:, 13:] = [[-1.5, -0.3], [-0.3, -1.0]]
    fields = np.append(np.cos(c) / 2, [0.2, -0.1])
    return ebm.PairwiseModel(space, couplings, fields, offset=0.25)


def test_the_reference_numbers():
    model = reference()
    assert ebm.exact(model).log_partition == pytest.approx(8.5842717230, abs=1e-10)
    effective = ebm.marginalize(model, keep=range(6))
    ends = effective.space.states_at([0, 287])
    np.testing.assert_allclose(effective.energy(ends), [-0.3214333804, -3.9476530035], atol=1e-10)
    assert ebm.exact(effective).log_partition == pytest.approx(8.5842717230, abs=1e-10)


class TestSpaces:
    NAMED = MACHINE.named(["a", "b", "c", "x", "y"])

    def test_units_columns_and_kinds(self):
        space = ebm.Product(colour=ebm.Levels(1, 3), place=ebm.Reals(2), on=ebm.Spins(1))
        assert (space.n, space.n_features, space.size) == (4, 6, math.inf)
        assert space.is_real.tolist() == [False, True, True, False]
        assert space.widths.tolist() == [3, 1, 1, 1]
        assert space.columns(space.units("place")).tolist() == [3, 4]
        np.testing.assert_array_equal(space.features([2, 0.5, -3, 1]), [0, 0, 1, 0.5, -3, 1])
        states = space.random(500, 0)
        assert space.check(states) is states
        assert not isinstance(space, ebm.spaces.FiniteSpace)
        assert isinstance(ebm.Product(ebm.Binary(1), ebm.Spins(1)), ebm.spaces.FiniteSpace)

    def test_parts_of_it_keep_names_and_kinds(self):
        assert self.NAMED.subspace([4, 3]) == ebm.Reals(2, names=["y", "x"])
        assert self.NAMED.subspace([1]) == ebm.Binary(1, names=["b"])
        some = self.NAMED.subspace([3, 0])
        assert (some.block_names, some.names) == (("hidden", "visible"), ("x", "a"))
        assert ebm.Product(ebm.Reals(1), ebm.Reals(2)).subspace([0, 1, 2]) == ebm.Reals(3)
        nested = ebm.Product(MACHINE, ebm.Reals(1))
        assert nested == ebm.Product(ebm.Binary(3), ebm.Reals(3))

    def test_tables_of_both_kinds_are_read(self):
        rows = [[0, 1, 1, 0.5, -2.0], [1, 1, 0, 0.25, 3.5], [0, 1, 1, 0.5, -2.0]] * 2
        data = ebm.Ensemble.from_data(rows, space=self.NAMED)
        assert len(data.states) == 2
        np.testing.assert_allclose(data.moments().mean, np.mean(rows, axis=0))
        with pytest.raises(CodingError, match=r"unit 'b' has the values .*0\.5.* where 0 or 1"):
            self.NAMED.check([[0, 0.5, 1, 0, 0]])
        with pytest.raises(CodingError, match="unit 'y' has the values inf"):
            self.NAMED.check([[0, 0, 1, 0, np.inf]])

    @pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies(self, again):
        for space in (MACHINE, self.NAMED, ebm.Product(ebm.Reals(1), ebm.Reals(2))):
            assert again(space) == space
            assert repr(again(space)) == repr(space)

    def test_values_of_real_units_are_not_listed(self):
        assert not hasattr(MACHINE, "states_at")
        with pytest.raises(ShapeError, match="unit '3' is real"):
            MACHINE.values_of(3)
        with pytest.raises(NamesError, match="block must be one of 'visible', 'hidden'"):
            MACHINE.units("real")


class TestExactSums:
    @given(models())
    @settings(max_examples=8, deadline=None)
    def test_they_are_integrals(self, model):
        points, p, log_partition = integrated(model)
        ensemble, f = ebm.exact(model), model.space.features(points)
        assert ensemble.log_partition == pytest.approx(log_partition, abs=1e-10)
        mean = p @ f
        np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-10)
        covariance = (f - mean).T @ ((f - mean) * p[:, None])
        np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-9)
        assert ensemble.mean_energy() == pytest.approx(p @ model.energy(points), abs=1e-9)
        logs = ensemble.log_probability(points[::97])
        np.testing.assert_allclose(logs, -model.energy(points[::97]) - log_partition, atol=1e-9)
        assert ensemble.entropy() == pytest.approx(log_partition + p @ model.energy(points))

    def test_real_units_alone_are_a_gaussian(self):
        precision, pull = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([0.3, -1.0])
        model = ebm.PairwiseModel(ebm.Reals(2), -precision, pull)
        normal = multivariate_normal(np.linalg.solve(precision, pull), np.linalg.inv(precision))
        ensemble, states = ebm.exact(model), model.space.random(5, 0)
        np.testing.assert_allclose(
            ensemble.log_probability(states), normal.logpdf(states), atol=1e-13
        )
        assert ensemble.entropy() == pytest.approx(normal.entropy(), rel=1e-13)
        assert ensemble.entropy(base=2) == pytest.approx(normal.entropy() / math.log(2))
        # A narrow density has a negative entropy.
        assert ebm.exact(model.scaled(1e4)).entropy() < 0
        wanted = oracles.finite_difference(lambda x: float(model.energy(x)), states[0])
        np.testing.assert_allclose(model.state_gradient(states)[0], wanted, atol=1e-8)

    def test_draws_have_these_moments(self):
        model = drawn_model(ebm.Product(ebm.Levels(1, 3), ebm.Reals(1), ebm.Spins(1)), 1)
        ensemble = ebm.exact(model)
        moments, hybrid = ensemble.moments(), ebm.sample(model, n_draws=3000, n_chains=20, rng=1)
        deviation = np.sqrt(moments.covariance.diagonal())
        for draws in (ensemble.sample(60_000, rng=0), hybrid.chains.reshape(-1, 3)):
            f = model.space.features(draws)
            assert (np.abs(f.mean(axis=0) - moments.mean) / deviation).max() < 0.02
            gap = np.cov(f.T) - moments.covariance
            assert (np.abs(gap) / np.outer(deviation, deviation)).max() < 0.03
        assert -ensemble.log_probability(ensemble.sample(60_000, rng=2)).mean() == pytest.approx(
            ensemble.entropy(), abs=0.02
        )

    def test_units_of_any_scale_have_a_precision(self):
        model = ebm.PairwiseModel(ebm.Reals(2), -np.diag([1e-12, 1e12]))
        assert ebm.exact(model).log_partition == pytest.approx(math.log(2 * math.pi))

    def test_clamped_chains_draw_the_other_units(self):
        model = drawn_model(ebm.Product(ebm.Spins(2), ebm.Reals(2)), 3)
        values = {0: 1, 3: 0.7}
        run = ebm.sampling.SamplingRun(clamped=values)
        draws = ebm.sample(model, n_draws=4000, n_chains=8, rng=0, run=run).chains
        assert (draws[..., 0] == 1).all()
        assert (draws[..., 3] == 0.7).all()
        moments = ebm.exact(model.given(values)).moments()
        rest = draws[..., [1, 2]].reshape(-1, 2)
        deviation = np.sqrt(moments.covariance.diagonal())
        assert (np.abs(rest.mean(axis=0) - moments.mean) / deviation).max() < 0.03

    def test_tempered_copies_leave_the_distribution(self):
        model = drawn_model(ebm.Product(ebm.Spins(2), ebm.Reals(1)), 5, scale=0.8)
        moments = ebm.exact(model).moments()
        betas = ebm.ParallelTempering([0.6, 0.3])
        draws = ebm.sample(model, betas, n_draws=4000, n_chains=8, rng=0).moments()
        assert abs(draws.mean - moments.mean).max() < 0.04


class TestGiven:
    def test_the_conditional_density_of_a_gaussian(self):
        """K_rr, a_r − K_rc x_c and k + ½ x_c K_cc x_c − a_c·x_c; ln Z′ − ln Z = ln p(x_c)."""
        root = np.random.default_rng(0).normal(size=(3, 3))
        precision, pull = root @ root.T + np.eye(3), np.array([0.5, -1.0, 0.25])
        model = ebm.PairwiseModel(ebm.Reals(3), -precision, pull, offset=0.3)
        value, r, c = 0.8, [0, 2], [1]
        form = energy_form(model.given({1: value}))
        np.testing.assert_allclose(form.matrix, -precision[np.ix_(r, r)], atol=1e-15)
        np.testing.assert_allclose(form.vector, pull[r] - precision[r, 1] * value, atol=1e-15)
        constant = 0.3 + 0.5 * precision[1, 1] * value**2 - pull[1] * value
        assert form.constant == pytest.approx(constant, abs=1e-14)
        mean, covariance = np.linalg.solve(precision, pull), np.linalg.inv(precision)
        density = multivariate_normal(mean[c], covariance[np.ix_(c, c)]).logpdf(value)
        gain = ebm.exact(model.given({1: value})).log_partition - ebm.exact(model).log_partition
        assert gain == pytest.approx(density, abs=1e-12)
        # The conditional density, which the marginal one times it completes.
        joint = multivariate_normal(mean, covariance).logpdf([0.1, value, -0.4])
        conditional = ebm.exact(model.given({1: value})).log_probability([0.1, -0.4])
        assert float(conditional) == pytest.approx(joint - density, abs=1e-12)

    @given(models())
    @settings(max_examples=6, deadline=None)
    def test_either_block_given(self, model):
        state = model.space.random(1, 0)[0]
        for is_real in (True, False):
            fixed = np.flatnonzero(model.space.is_real == is_real).tolist()
            rest = np.setdiff1d(np.arange(model.space.n), fixed)
            other = model.given({unit: state[unit] for unit in fixed})
            points, p, log_partition = integrated(other)
            whole = np.tile(state, (len(points), 1))
            whole[:, rest] = points
            np.testing.assert_allclose(other.energy(points), model.energy(whole), atol=1e-9)
            ensemble = ebm.exact(other)
            assert ensemble.log_partition == pytest.approx(log_partition, abs=1e-10)
            mean = p @ other.space.features(points)
            np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-9)

    def test_marginals_and_conditions_commute(self):
        model = drawn_model(ebm.Product(v=ebm.Binary(3), h=ebm.Reals(2), w=ebm.Spins(1)), 2)
        first = ebm.marginalize(model, keep="v").given({1: 1})
        last = ebm.marginalize(model.given({1: 1}), keep=[0, 1])
        states = oracles.all_states(ebm.Binary(2))
        np.testing.assert_allclose(first.energy(states), last.energy(states), atol=1e-12)


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
            ebm.log_partition(model)
        estimate = ebm.log_partition(ebm.marginalize(model, keep="visible"), rng=0)
        assert abs(estimate.value - ebm.exact(model).log_partition) < 5 * estimate.standard_error


class TestFamilies:
    SPACE = ebm.Product(
        on=ebm.Binary(1), colour=ebm.Levels(1, 3), place=ebm.Reals(2), names=["o", "c", "x", "y"]
    )

    def test_parameters_and_their_names(self):
        model = drawn_model(self.SPACE, 0)
        names = model.parameter_names
        assert names[:5] == ("v[o]", "v[c](0)", "v[c](1)", "v[x]", "v[y]")
        assert names[-3:] == ("A[x, y]", "A[x, x]", "A[y, y]")
        assert len(names) == len(model.parameters) == len(model.is_coupling) == 16
        assert model.is_coupling.tolist() == [False] * 5 + [True] * 9 + [False] * 2
        states = self.SPACE.random(4, 0)
        again = model.with_parameters(model.parameters)
        np.testing.assert_allclose(again.energy(states), model.energy(states), atol=1e-13)
        for state in states:
            slopes = oracles.finite_difference(
                lambda theta, state=state: float(model.with_parameters(theta).energy(state)),
                model.parameters,
            )
            np.testing.assert_allclose(model.energy_gradient(state), slopes, atol=1e-8)
        for other in (model.zero_sum(), model.last_state_zero()):
            np.testing.assert_allclose(other.energy(states), model.energy(states), atol=1e-13)

    def test_what_a_penalty_acts_on_is_linear_with_its_adjoint(self):
        penalized, rng = drawn_model(self.SPACE, 0).penalized(), np.random.default_rng(3)
        theta, slopes = rng.normal(size=16), rng.normal(size=len(penalized.is_coupling))
        one, other = penalized.of(theta) @ slopes, theta @ penalized.transposed(slopes)
        assert one == pytest.approx(other, rel=1e-12)
        # Precisions are no couplings.
        assert penalized.of(theta)[-2:].tolist() == theta[-2:].tolist()
        assert not penalized.is_coupling[-2:].any()

    @given(models())
    @settings(max_examples=6, deadline=None)
    def test_fisher_information_is_the_covariance_of_slopes(self, model):
        points, p, _ = integrated(model)
        g = model.energy_gradient(points)
        mean = p @ g
        covariance = (g - mean).T @ ((g - mean) * p[:, None])
        information = ebm.fisher_information(model).dense()
        np.testing.assert_allclose(information, covariance, atol=1e-8)
        np.testing.assert_allclose(model.mean_energy_gradient(ebm.exact(model)), mean, atol=1e-9)

    def test_a_fit_reproduces_the_moments_of_the_data(self):
        truth = drawn_model(self.SPACE, 1)
        data = ebm.Ensemble.from_data(ebm.exact(truth).sample(4000, rng=1), space=self.SPACE)
        start = ebm.PairwiseModel(self.SPACE, np.diag([0, 0, 0, 0, -1.0, -1.0]))
        result = ebm.fit(start, data)
        assert result.converged
        moments, wanted = ebm.exact(result.model).moments(), data.moments()
        np.testing.assert_allclose(moments.mean, wanted.mean, atol=1e-6)
        np.testing.assert_allclose(moments.covariance, wanted.covariance, atol=1e-6)
        assert result.degrees_of_freedom == 16
        z = (result.model.parameters - truth.parameters) / result.standard_errors
        assert np.sqrt((z**2).mean()) < 1.6
        with pytest.raises(EbmError, match=r"a distribution at all of them.*solver=ebm\.LBFGS"):
            ebm.fit(start, data, solver=ebm.Newton())

    @pytest.mark.filterwarnings("ignore::ebm.errors.NotConvergedWarning")
    @pytest.mark.parametrize(
        ("column", "text"),
        [
            (lambda x: 3 + 0 * x[:, 2], r"real unit 'x' never changes, or follows"),
            (lambda x: 2 * x[:, 0] - 1, r"real unit 'x' never changes, or follows"),
            (lambda x: 2 * x[:, 3] + x[:, 0], r"real units 'x', 'y' are bound by a linear equa"),
        ],
    )
    def test_units_that_others_determine_have_no_best_precision(self, column, text):
        truth = drawn_model(self.SPACE, 1)
        rows = ebm.exact(truth).sample(300, rng=1)
        rows[:, 2] = column(rows)
        data = ebm.Ensemble.from_data(rows, space=self.SPACE)
        with pytest.warns(NoMaximumWarning, match=text):
            result = ebm.fit(truth, data, solver=ebm.LBFGS(max_iterations=20))
        assert not result.converged
        # A penalty on what has no bound leaves one maximum, and no warning.
        held = ebm.fit(truth, data, penalty=ebm.Penalty(l2=0.01, l2_biases=0.01))
        assert held.converged

    def test_neither_a_large_mean_nor_a_small_unit_is_a_constant(self):
        truth = drawn_model(self.SPACE, 1)
        rows = ebm.exact(truth).sample(300, rng=1)
        for moved in (rows[:, 2] + 1e5, 1e-5 * rows[:, 2]):
            changed = rows.copy()
            changed[:, 2] = moved
            data = ebm.Ensemble.from_data(changed, space=self.SPACE)
            penalty = AppliedPenalty(truth, ebm.Penalty())
            assert determined_units_notes(truth, data, penalty) == ()

    @pytest.mark.filterwarnings("ignore::ebm.errors.NotConvergedWarning")
    def test_a_constant_column_of_a_machine_is_named(self):
        rbm = ebm.RestrictedBoltzmannMachine(
            [[0.5], [-0.5]], [0, 0], [0], units=(Gaussian(1.0), Bernoulli())
        )
        rows = np.column_stack([np.ones(50), np.random.default_rng(0).normal(size=50)])
        data = ebm.Ensemble.from_data(rows, space=rbm.space)
        with pytest.warns(NoMaximumWarning, match="real unit '0'"):
            ebm.fit(rbm, data, solver=ebm.LBFGS(max_iterations=20))

    def test_hidden_real_units_are_learnt_through_the_joint_model(self):
        """A factor behind four binary units; its scale and origin change nothing: 4 + 4 of 15."""
        space = ebm.Product(v=ebm.Binary(4), h=ebm.Reals(1))
        couplings = np.zeros((5, 5))
        couplings[4, 4], couplings[4, :4] = -1, [1.5, -1.0, 1.0, 0.5]
        couplings[:4, 4] = couplings[4, :4]
        truth = ebm.marginalize(ebm.PairwiseModel(space, couplings, [-0.5, 0, 0.2, 0, 0]), "v")
        rows = ebm.exact(truth).sample(3000, rng=0)
        names = truth.model.parameter_names
        inside = [name for name in names if name.startswith("A[") and "4" not in name]
        start = truth.with_parameters(np.where(np.isin(names, inside), 0.0, 0.5 * truth.parameters))
        factors = ebm.Penalty(free=[name not in inside for name in names])
        result = ebm.fit(start, rows, penalty=factors)
        wanted = ebm.exact(truth).log_probability(rows).mean()
        assert result.log_likelihood > wanted
        assert result.degrees_of_freedom == 8

    def test_files_and_copies(self, tmp_path):
        for space in (self.SPACE, ebm.Reals(2), ebm.Product(ebm.Reals(1), ebm.Reals(1))):
            model = drawn_model(space, 2)
            ebm.save(model, tmp_path / "model.npz", overwrite=True)
            for again in (ebm.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
                assert again.equals(model)
                assert repr(again.space) == repr(model.space)


METHODS = {
    "expand": lambda model, data: ebm.perturbation.expand(model, 2),
    "plefka": lambda model, data: ebm.perturbation.plefka(model, 2),
    "bethe": lambda model, data: ebm.perturbation.bethe(model),
    "inversion": lambda model, data: ebm.inversion.tap(data.moments()),
    "pseudo-likelihood": lambda model, data: ebm.inversion.pseudolikelihood(data),
    "loss": lambda model, data: ebm.fit(model, data, loss=ebm.inversion.Pseudolikelihood()),
    "effective": lambda model, data: ebm.effective.expand(model, [0, 1], 2),
    "interactions": lambda model, data: ebm.marginalize(model, [0, 3]).interactions(),
    "terms": lambda model, data: ebm.InteractionModel({(0, 1): 1.0}, model.space),
    "table": lambda model, data: ebm.TabularModel([0.0], model.space),
    "graph": lambda model, data: ebm.to_graph(model),
    "population": lambda model, data: ebm.observables.population_count(data),
    "report": lambda model, data: ebm.analyze(data),
    "compare": lambda model, data: ebm.compare(data, ebm.exact(model)),
    "minima": lambda model, data: ebm.local_minima(model),
    "annealing": lambda model, data: ebm.log_partition(model),
    "metropolis": lambda model, data: ebm.sample(model, ebm.Metropolis(), n_draws=1),
    "hybrid": lambda model, data: ebm.sample(model, ebm.HamiltonianMonteCarlo(0.1, 2), n_draws=1),
    "gradient": lambda model, data: model.state_gradient(data.states),
    "states": lambda model, data: ebm.exact(model).states,
    "expectation": lambda model, data: ebm.exact(model).expectation(np.exp),
    "own class": lambda model, data: ebm.save(ebm.marginalize(model, ["visible"]), "x"),
}


class TestRefusals:
    def test_a_precision_that_is_not_positive_definite(self):
        space = ebm.Product(ebm.Binary(1), ebm.Reals(2, names=["x", "y"]), names=["b", "x", "y"])
        with pytest.raises(NormalizationError, match=r"eigenvalue is -0\.5, mostly along unit 'y'"):
            ebm.PairwiseModel(space, np.diag([0, -1.0, 0.5]))
        rank_one = -np.outer([1.0, 3.0], [1.0, 3.0])
        with pytest.raises(NormalizationError):
            ebm.PairwiseModel(ebm.Reals(2), rank_one)
        model = ebm.PairwiseModel(space, np.diag([0, -1.0, -1.0]))
        with pytest.raises(NormalizationError):
            model.with_parameters(np.zeros(8))
        with pytest.raises(ModelError, match=r"couplings\[0, 0\] must be zero"):
            ebm.PairwiseModel(space, np.diag([1.0, -1.0, -1.0]))

        class Own(ebm.EnergyModel):
            def __init__(self):
                self.space = space

            def energy(self, states):
                return -states[..., 1] * states[..., 2] * 2 + (states[..., 1:] ** 2).sum(-1) / 2

            def quadratic_form(self):
                return np.array([[0, 0, 0], [0, -1, 2], [0, 2, -1.0]]), np.zeros(3), 0.0

        for ask in (ebm.exact, lambda m: ebm.marginalize(m, ["b"]).energy([0])):
            with pytest.raises(NormalizationError, match="least eigenvalue is -1"):
                ask(Own())
        with pytest.raises(NormalizationError):
            ebm.sample(Own(), n_draws=1)

    def test_too_many_finite_states_are_refused_before_work(self):
        space = ebm.Product(v=ebm.Spins(60), h=ebm.Reals(2))
        model = ebm.PairwiseModel(space, np.diag([0.0] * 60 + [-1.0] * 2))
        with pytest.raises(EnumerationLimitError, match=r"2\^60 states would take"):
            ebm.exact(model)

    @pytest.mark.parametrize("name", METHODS)
    def test_methods_for_other_units_say_what_is_wanted(self, name):
        model = drawn_model(MACHINE, 0)
        data = ebm.Ensemble.from_data(ebm.exact(model).sample(50, rng=0), space=MACHINE)
        wanted = (
            "two-valued|finite|BoltzmannMachine|Binary|Reals|real states|cannot be listed|saved"
        )
        with pytest.raises(
            (ModelError, CodingError, EnumerationLimitError, FileFormatError), match=wanted
        ):
            METHODS[name](model, data)
