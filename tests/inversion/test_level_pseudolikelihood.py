"""Pseudo-likelihood of units of several levels: against loops, exact fits and reference numbers."""

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, EbmWarning, ModelError, NoMaximumWarning
from ebm.inversion import Pseudolikelihood
from ebm.inversion._level_conditionals import LevelLoss
from ebm.model import PairFeatures, ParametricModel

#: Frequencies of the states 000, 001, …, 222 of three units of three levels.
COUNTS = [8, 3, 1, 2, 6, 2, 1, 2, 5, 3, 7, 2, 1, 9, 4, 2, 1, 3, 1, 2, 6, 2, 4, 1, 5, 3, 14]
LOSS = Pseudolikelihood()


def counted():
    """These counts as data."""
    space = ebm.Levels(3, 3)
    states = space.states_at(np.arange(27))
    return ebm.Ensemble.from_data(states, space=space, sample_weight=COUNTS)


def items(sizes=(3, 4, 2), seed=0, scale=0.4):
    """An ordinal model away from every symmetric point."""
    rng, n = np.random.default_rng(seed), len(sizes)
    weights = rng.normal(0, scale, (n, n))
    np.fill_diagonal(weights, 0)
    return ebm.OrdinalModel(weights, [rng.normal(0, 0.5, q) for q in sizes])


def mixed(seed=0):
    """A pairwise model of two-valued units and of levels."""
    space = ebm.Product(ebm.Binary(1), ebm.Spins(1), ebm.Levels(2, 3))
    model = ebm.PairwiseModel(space)
    rng = np.random.default_rng(seed)
    return model.with_parameters(rng.normal(0, 0.4, len(model.parameters)))


def potts(seed=0):
    model = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))
    rng = np.random.default_rng(seed)
    return model.with_parameters(rng.normal(0, 0.4, len(model.parameters)))


FAMILIES = [items, mixed, potts]


def rows_of(model, n=400):
    rows = ebm.exact(model).sample(n, rng=1)
    return ebm.Ensemble.from_data(rows, space=model.space)


def unit_by_unit(model, data):
    """Σ_i E_D[ln p(x_i | rest)] from energies of states in which one unit is changed."""
    total = 0.0
    for state, weight in zip(data.states.astype(float), data.weights, strict=True):
        for unit in range(model.space.n):
            others = np.tile(state, (model.space.n_values[unit], 1))
            others[:, unit] = model.space.values_of(unit)
            total -= weight * (model.energy(state) + np.logaddexp.reduce(-model.energy(others)))
    return total


class Redundant(ParametricModel):
    """A Potts model with a number for every value and every two of them, as users write it."""

    space, parameters = ebm.Levels(3, 3), np.zeros(36)

    def with_parameters(self, theta):
        changed = type(self)()
        changed.parameters = np.asarray(theta)
        return changed

    def energy_gradient(self, states):
        f = self.space.features(states).reshape(-1, 3, 3)
        blocks = [f[:, i, :, None] * f[:, j, None, :] for i, j in ((0, 1), (0, 2), (1, 2))]
        parts = [f.reshape(-1, 9), *(block.reshape(-1, 9) for block in blocks)]
        return -np.concatenate(parts, axis=1).reshape(*np.shape(states)[:-1], 36)

    def energy(self, states):
        return self.energy_gradient(states) @ self.parameters

    def pair_features(self):
        return PairFeatures(np.arange(9), (np.eye(3),) * 3)

    @property
    def is_coupling(self):
        return np.arange(36) >= 9


@pytest.fixture(scope="module")
def fitted():
    penalty = ebm.Penalty(l2=0.02, l2_biases=0.02)
    return ebm.fit(Redundant(), counted(), loss=LOSS, penalty=penalty)


class TestReference:
    """Three units of three levels, l2 = 0.02 on all numbers, fields too."""

    def test_the_objective(self, fitted):
        held = 0.01 * float(fitted.model.parameters @ fitted.model.parameters)
        assert held - fitted.log_pseudolikelihood == pytest.approx(2.941149121137, abs=1e-11)

    def test_the_norms_of_couplings_in_the_zero_sum_gauge(self, fitted):
        blocks = fitted.model.parameters[9:].reshape(3, 3, 3)
        about = blocks - blocks.mean(axis=1, keepdims=True)
        about = about - about.mean(axis=2, keepdims=True)
        norms = np.sqrt((about[:, 1:, 1:] ** 2).sum(axis=(1, 2)))
        np.testing.assert_allclose(norms, [0.77060556, 0.48544161, 0.94819225], atol=5e-9)

    def test_with_free_fields_a_potts_model_has_the_same_maximum(self):
        start = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))
        by_gauge = ebm.fit(start, counted(), loss=LOSS, penalty=0.02)
        tiny = ebm.Penalty(l2=0.02, l2_biases=1e-10)
        redundant = ebm.fit(Redundant(), counted(), loss=LOSS, penalty=tiny)
        assert by_gauge.log_pseudolikelihood == pytest.approx(
            redundant.log_pseudolikelihood, abs=1e-8
        )


class TestLoss:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_it_is_the_sum_over_units_of_their_conditionals(self, family):
        model = family()
        data = rows_of(model, 50)
        value = ebm.inversion.log_pseudolikelihood(model, data)
        assert value == pytest.approx(unit_by_unit(model, data), rel=1e-12)
        problem = LOSS.of(model, data, ebm.Penalty())
        assert problem.loss.point(model.parameters).value == pytest.approx(-value, rel=1e-12)

    def test_a_single_row_has_a_value_too(self):
        model = items()
        states = model.space.random(1, 0)
        chances = model.conditional(states)[0]
        places = np.add(states[0].astype(int), [0, 3, 7])
        value = ebm.inversion.log_pseudolikelihood(model, states)
        assert value == pytest.approx(np.log(chances[places]).sum())

    @pytest.mark.parametrize("family", FAMILIES)
    def test_gradient_and_curvature_are_differences(self, family):
        model = family(seed=1)
        loss = LOSS.of(model, rows_of(model, 60), ebm.Penalty(l2=0.1, l2_biases=0.2)).loss
        theta, step = model.parameters, 1e-5
        here = loss.point(theta)
        ways = np.eye(len(theta))
        ends = [[loss.point(theta + h * way) for h in (step, -step)] for way in ways]
        slopes = [(up.value - down.value) / (2 * step) for up, down in ends]
        np.testing.assert_allclose(here.gradient, slopes, atol=1e-8)
        curvatures = [(up.gradient - down.gradient) / (2 * step) for up, down in ends]
        products = [loss.curve(way, here.curvatures) for way in ways]
        np.testing.assert_allclose(products, curvatures, atol=1e-8)
        np.testing.assert_allclose(loss.hessian(theta), products, atol=1e-12)

    def test_blocks_of_rows_change_nothing(self, monkeypatch):
        model = items()
        loss = LOSS.of(model, rows_of(model), ebm.Penalty()).loss
        whole = loss.evaluate(model.parameters)
        monkeypatch.setattr("ebm.inversion._level_conditionals.BLOCK", 9 * 7)
        part = loss.evaluate(model.parameters)
        assert part.value == pytest.approx(whole.value, rel=1e-13)
        np.testing.assert_allclose(part.gradient, whole.gradient, atol=1e-13)

    def test_slopes_of_rows_average_to_the_gradient(self):
        model = items()
        loss = LOSS.of(model, rows_of(model), ebm.Penalty()).loss
        slopes = loss.scores(model.parameters)(slice(None))
        gradient = loss.point(model.parameters).gradient
        np.testing.assert_allclose(loss.weights @ slopes, gradient, atol=1e-13)


class TestFit:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_exact_data_reproduce_the_model(self, family):
        truth = family()
        start = truth.with_parameters(np.zeros_like(truth.parameters))
        result = ebm.fit(start, ebm.exact(truth), loss=LOSS)
        assert result.converged
        np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-8)

    def test_a_wrong_loss_does_not(self, monkeypatch):
        """A pair counts once in the energy, so that each unit meets it whole."""
        logs = LevelLoss._logs

        def half(self, rows, fields, coupled):
            return logs(self, rows, fields, coupled / 2)

        monkeypatch.setattr(LevelLoss, "_logs", half)
        truth = items()
        start = truth.with_parameters(np.zeros_like(truth.parameters))
        with pytest.warns(EbmWarning):
            result = ebm.fit(start, ebm.exact(truth), loss=LOSS)
        assert not np.allclose(result.model.parameters, truth.parameters, atol=1e-3)

    def test_two_categories_are_the_boltzmann_machine(self):
        rows = np.random.default_rng(5).integers(0, 2, (80, 4))
        flat = np.zeros((4, 4))
        penalty = ebm.Penalty(l2=0.05)
        machine = ebm.fit(ebm.BoltzmannMachine(flat, np.zeros(4)), rows, loss=LOSS, penalty=penalty)
        model = ebm.fit(ebm.OrdinalModel(flat, np.zeros((4, 2))), rows, loss=LOSS, penalty=penalty)
        np.testing.assert_allclose(model.model.parameters, machine.model.parameters, atol=1e-8)
        np.testing.assert_allclose(model.standard_errors, machine.standard_errors, rtol=1e-7)
        assert model.log_pseudolikelihood == pytest.approx(machine.log_pseudolikelihood, rel=1e-9)

    def test_ties_make_a_potts_model_ordinal(self):
        """θ = Aφ: fields are free, and the four couplings of a pair are one times scores."""
        data = rows_of(items(sizes=(3, 3, 3)), 500)
        ordinal = ebm.fit(ebm.OrdinalModel(np.zeros((3, 3)), np.zeros((3, 3))), data, loss=LOSS)
        start = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))
        ties = np.array(
            [
                ordinal.model.with_parameters(way).to_potts().parameters
                for way in np.eye(len(ordinal.model.parameters))
            ]
        ).T
        tied = ebm.fit(start, data, loss=LOSS, penalty=ebm.Penalty(ties=ties))
        assert tied.log_pseudolikelihood == pytest.approx(ordinal.log_pseudolikelihood, abs=1e-11)
        wanted = ordinal.model.to_potts().parameters
        np.testing.assert_allclose(tied.model.parameters, wanted, atol=1e-7)
        directions = ties * ordinal.standard_errors
        assert (tied.standard_errors <= np.abs(directions).sum(axis=1) + 1e-9).all()

    def test_parameters_that_are_held_stay(self):
        start = items().with_parameters(np.linspace(-0.5, 0.5, 9))
        free = ~start.is_coupling
        result = ebm.fit(start, rows_of(items()), loss=LOSS, penalty=ebm.Penalty(free=free))
        np.testing.assert_array_equal(result.model.parameters[~free], start.parameters[~free])
        assert (result.standard_errors[~free] < 1e-12).all()

    def test_standard_errors_are_the_spread_of_repeated_samples(self):
        truth = items(scale=0.6)
        exact, start = ebm.exact(truth), truth.with_parameters(np.zeros(9))
        fits = [ebm.fit(start, exact.sample(500, rng=seed), loss=LOSS) for seed in range(120)]
        spread = np.std([fit.model.parameters for fit in fits], axis=0)
        said = np.mean([fit.standard_errors for fit in fits], axis=0)
        # The spread of 120 is known to 6.5 %.
        np.testing.assert_allclose(said / spread, 1, atol=0.26)

    def test_a_bootstrap_has_such_errors_too(self):
        model = items()
        data = rows_of(model)
        start = model.with_parameters(np.zeros(9))
        method = BootstrapOf(start)
        result = ebm.inversion.bootstrap(method, data, n_resamples=60, rng=0)
        ratio = result.standard_errors / method(data).standard_errors
        np.testing.assert_allclose(ratio, 1, atol=0.4)

    def test_many_parameters_go_without_a_dense_hessian(self, monkeypatch):
        model = items()
        data = rows_of(model)
        dense = ebm.fit(model, data, loss=LOSS)
        monkeypatch.setattr("ebm.inversion._level_conditionals.MOST_DENSE", 0)
        lean = ebm.fit(model, data, loss=LOSS)
        np.testing.assert_allclose(lean.model.parameters, dense.model.parameters, atol=1e-7)


class BootstrapOf:
    """A method that a bootstrap repeats."""

    def __init__(self, start):
        self.start = start

    def __call__(self, data):
        return ebm.fit(self.start, data, loss=LOSS)


class TestRefusals:
    def test_moments_do_not_suffice(self):
        with pytest.raises(ModelError, match="rows are wanted"):
            ebm.fit(items(), ebm.exact(items()).moments(), loss=LOSS)

    def test_l1_of_single_numbers_in_a_gauge_is_refused(self):
        with pytest.raises(EbmError, match="give group_l1, which makes whole pairs zero"):
            ebm.fit(potts(), rows_of(potts()), loss=LOSS, penalty=ebm.Penalty(l1=0.1))

    def test_what_is_predicted_without_error_has_no_maximum(self):
        rows = [[0, 0], [1, 1], [2, 2], [0, 0], [1, 1], [2, 2], [2, 2]]
        flat = ebm.OrdinalModel(np.zeros((2, 2)), np.zeros((2, 3)), names=["a", "b"])
        with pytest.warns(NoMaximumWarning, match=r"'a', 'b' never occur, or are predicted"):
            result = ebm.fit(flat, rows, loss=LOSS)
        assert not result.converged
        assert result.standard_errors is None
        assert ebm.fit(flat, rows, loss=LOSS, penalty=0.1).converged

    def test_a_level_of_a_potts_unit_that_never_occurs(self):
        rows = np.random.default_rng(0).integers(0, 2, (200, 3))
        flat = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))
        with pytest.warns(NoMaximumWarning, match="never occur"):
            assert not ebm.fit(flat, rows, loss=LOSS).converged

    def test_features_of_another_energy_are_refused(self):
        class Wrong(Redundant):
            def pair_features(self):
                return PairFeatures(np.arange(9), (2 * np.eye(3),) * 3)

        with pytest.raises(ModelError, match="pair_features of Wrong must be those of its energy"):
            ebm.fit(Wrong(), counted(), loss=LOSS, penalty=0.1)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e6])
def test_the_unit_of_scores_is_a_factor_of_couplings(unit):
    answers = np.random.default_rng(0).integers(0, 3, (200, 3))

    def fitted(scores):
        start = ebm.OrdinalModel(np.zeros((3, 3)), np.zeros((3, 3)), scores=scores)
        return ebm.fit(start, answers, loss=ebm.inversion.Pseudolikelihood())

    one, other = fitted([0, 1, 2]), fitted(unit * np.arange(3))
    assert other.log_pseudolikelihood == pytest.approx(one.log_pseudolikelihood, rel=1e-12)
    np.testing.assert_allclose(unit**2 * other.model.weights, one.model.weights, rtol=1e-7)
    errors = other.standard_errors[-3:] * unit**2
    np.testing.assert_allclose(errors, one.standard_errors[-3:], rtol=1e-6)
