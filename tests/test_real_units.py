"""Real units in pairs with others: against quadrature, formulas of their own, and differences."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import multivariate_normal

import ebm
from ebm.errors import (
    CodingError,
    EbmError,
    EnumerationLimitError,
    ModelError,
    NamesError,
    NoMaximumWarning,
    NormalizationError,
    ShapeError,
)
from ebm.forms import energy_form
from ebm.learning._determined_units import determined_units_notes
from ebm.learning.penalties import AppliedPenalty
from ebm.units import Bernoulli, Gaussian
from tests import oracles
from tests.real_units import MACHINE, drawn_model, integrated, models


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
        draws = ebm.sample(model, betas, n_draws=2000, n_chains=8, rng=0).moments()
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

    def test_conditional_likelihoods_are_learnt(self):
        """Slopes of second degree in the real units need no list of states."""
        truth = drawn_model(ebm.Product(ebm.Spins(2), ebm.Reals(2)), 0).given({0: 1, 3: 0.4})
        points, p, _ = integrated(truth)
        g, own = truth.energy_gradient(points), ebm.exact(truth)
        np.testing.assert_allclose(truth.mean_energy_gradient(own), p @ g, atol=1e-10)
        covariance = (g - p @ g).T @ ((g - p @ g) * p[:, None])
        np.testing.assert_allclose(ebm.fisher_information(truth).dense(), covariance, atol=1e-9)
        data = ebm.Ensemble.from_data(own.sample(500, rng=0), space=truth.space)
        result = ebm.fit(truth.with_parameters(0.9 * truth.parameters), data)
        # Of a spin and a real unit: two fields, a coupling, and a precision.
        assert (result.converged, result.degrees_of_freedom) == (True, 4)
        moments = ebm.exact(result.model).moments()
        np.testing.assert_allclose(moments.covariance, data.moments().covariance, atol=1e-6)

    def test_marginals_and_conditions_commute(self):
        model = drawn_model(ebm.Product(v=ebm.Binary(3), h=ebm.Reals(2), w=ebm.Spins(1)), 2)
        first = ebm.marginalize(model, keep="v").given({1: 1})
        last = ebm.marginalize(model.given({1: 1}), keep=[0, 1])
        states = oracles.all_states(ebm.Binary(2))
        np.testing.assert_allclose(first.energy(states), last.energy(states), atol=1e-12)


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

    def test_a_start_with_the_moments_of_the_data(self):
        rows = ebm.exact(drawn_model(self.SPACE, 1)).sample(400, rng=1)
        rows[:, 2:] = rows[:, 2:] * [100.0, 0.01] + [500.0, -3.0]
        data = ebm.Ensemble.from_data(rows, space=self.SPACE)
        start = ebm.PairwiseModel.for_data(data)
        moments, wanted = ebm.exact(start).moments(), data.moments()
        np.testing.assert_allclose(moments.mean[4:], wanted.mean[4:], rtol=1e-12)
        variances = wanted.covariance.diagonal()[4:]
        np.testing.assert_allclose(moments.covariance.diagonal()[4:], variances, rtol=1e-9)
        frequencies = (400 * wanted.mean[1:4] + 0.5) / 401.5
        np.testing.assert_allclose(moments.mean[1:4], frequencies, rtol=1e-12)
        assert moments.mean[0] == pytest.approx((400 * wanted.mean[0] + 0.5) / 401)
        result = ebm.fit(start, data)
        assert result.converged
        fitted = ebm.exact(result.model).moments()
        np.testing.assert_allclose(fitted.correlation, wanted.correlation, atol=1e-5)
        rows[:, 2] = 2.0
        constant = ebm.PairwiseModel.for_data(ebm.Ensemble.from_data(rows, space=self.SPACE))
        assert constant.couplings[4, 4] == -100.0

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

    @pytest.mark.filterwarnings("ignore::ebm.errors.NotConvergedWarning")
    @pytest.mark.parametrize("solver", [None, ebm.GradientSteps(n_epochs=1)])
    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            (lambda s, k: (1 + 0 * s, k), "'spin'"),
            (lambda s, k: (s, np.minimum(k, 1)), "'level'"),
            (lambda s, k: (s, np.where(s > 0, 0, k)), "'spin', 'level'"),
        ],
    )
    def test_finite_units_whose_values_have_a_gap_have_no_best_fields(self, changed, named, solver):
        blocks = ebm.Reals(1), ebm.Spins(1), ebm.Levels(1, 3)
        space = ebm.Product(*blocks, names=["real", "spin", "level"])
        random = np.random.default_rng(0)
        spin, level = random.choice([-1, 1], 200), random.integers(0, 3, 200)
        spin, level = changed(spin, level)
        rows = np.stack([random.normal(spin, 1.0), spin, level], axis=1)
        data = ebm.Ensemble.from_data(rows, space=space)
        start = ebm.PairwiseModel.for_data(data)
        with pytest.warns(NoMaximumWarning, match=f"some combination of {named} never occurs"):
            result = ebm.fit(start, data, solver=solver)
        assert not result.converged
        assert any("no maximum" in note for note in result.warnings)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NoMaximumWarning)
            ebm.fit(start, data, penalty=ebm.Penalty(l2=0.01, l2_biases=0.01), solver=solver)

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
    "annealing": lambda model, data: ebm.log_partition(model, ebm.Annealing()),
    "metropolis": lambda model, data: ebm.sample(model, ebm.Metropolis(), n_draws=1),
    "hybrid": lambda model, data: ebm.sample(model, ebm.HamiltonianMonteCarlo(0.1, 2), n_draws=1),
    "gradient": lambda model, data: model.state_gradient(data.states),
    "states": lambda model, data: ebm.exact(model).states,
    "expectation": lambda model, data: ebm.exact(model).expectation(np.exp),
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
        with pytest.raises((ModelError, CodingError, EnumerationLimitError), match=wanted):
            METHODS[name](model, data)
