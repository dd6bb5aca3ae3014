"""Fits of models with units summed out, whatever their energy."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

import ebm
from ebm.errors import NoMaximumWarning, NotConvergedWarning, SymmetricStartWarning
from ebm.information import loss_hessian
from ebm.learning._statistics import completed_variances, gradient_variances
from ebm.learning._symmetric_start import symmetric_start_notes
from tests import oracles
from tests.test_marginal_parameters import (
    GradientAlone,
    boltzmann,
    curved,
    deep,
    growing,
    potts,
    slopes,
    triples,
)


def hidden_layer(n, m, theta=None, center=0.0):
    """A Boltzmann machine with couplings between two layers alone, the second summed out."""
    pattern = np.zeros((n + m, n + m))
    pattern[:n, n:] = 1
    machine = ebm.BoltzmannMachine(csr_array(pattern + pattern.T), np.zeros(n + m), center=center)
    theta = np.zeros(len(machine.parameters)) if theta is None else theta
    return ebm.marginalize(machine.with_parameters(theta), range(n))


def elsewhere(marginal, n_rows=4000):
    """Rows of the same family somewhere else."""
    other = marginal.with_parameters(1.5 * np.cos(3 * np.arange(len(marginal.parameters))))
    rows = ebm.exact(other).sample(n_rows, rng=1)
    return ebm.Ensemble.from_data(rows, space=marginal.space)


def from_the_table(start, data):
    """L from the table of all joint energies, no route of the library but ``energy``."""
    states = oracles.all_states(start.model.space)
    order = np.argsort(start.space.index(states[:, list(start.keep)]), kind="stable")
    states = states[order]
    seen = np.asarray(start.space.index(data.states), dtype=int)

    def loss(theta):
        energies = np.asarray(start.model.with_parameters(theta).energy(states))
        kept = np.logaddexp.reduce(-energies.reshape(int(start.space.size), -1), axis=1)
        return float(np.logaddexp.reduce(kept) - data.weights @ kept[seen])

    return loss


@pytest.mark.parametrize("make", [boltzmann, triples, potts, curved])
def test_a_fit_rises_to_where_a_direct_minimization_ends(make):
    start = make()
    data = growing(start) if make is curved else elsewhere(start)
    loss = from_the_table(start, data)
    result = ebm.fit(start, data)
    likelihoods = np.array([step.log_likelihood for step in result.history])
    assert result.converged
    assert (np.diff(likelihoods) > -1e-12).all()
    assert likelihoods[-1] > likelihoods[0] + 1e-3
    assert result.log_likelihood == pytest.approx(-loss(result.model.parameters), abs=1e-10)
    direct = minimize(loss, start.parameters, method="BFGS", options={"gtol": 1e-6})
    assert result.log_likelihood == pytest.approx(-direct.fun, abs=1e-6)


def test_a_deep_machine_with_a_penalty_ends_where_a_direct_minimization_does():
    start, strength = deep(), 0.01
    data = growing(start)
    loss = from_the_table(start, data)

    def penalized(theta):
        return loss(theta) + 0.5 * strength * (theta**2).sum()

    penalty = ebm.Penalty(l2=strength, l2_biases=strength)
    result = ebm.fit(start, data, penalty=penalty)
    direct = minimize(penalized, start.parameters, method="BFGS", options={"gtol": 1e-6})
    assert result.converged
    assert penalized(result.model.parameters) == pytest.approx(direct.fun, abs=1e-7)


def test_gradient_steps_with_an_exact_average_go_the_same_way():
    start = boltzmann()
    data = elsewhere(start)
    steps = ebm.GradientSteps(ebm.GradientDescent(0.5, momentum=0.9), n_epochs=600)
    by_steps, by_sums = (ebm.fit(start, data, solver=solver) for solver in (steps, None))
    assert by_steps.log_likelihood == pytest.approx(by_sums.log_likelihood, abs=2e-4)


def test_the_exact_joint_ensemble_is_an_average_as_well():
    """Its ln Z is that of the marginal, and matrix products sum it."""
    start = boltzmann()
    data = elsewhere(start, 500)
    whole = ebm.Likelihood(lambda marginal: ebm.exact(marginal.model))
    ends = [ebm.fit(start, data, loss=loss) for loss in (None, whole)]
    assert ends[1].log_likelihood == pytest.approx(ends[0].log_likelihood, abs=1e-9)
    assert ends[1].degrees_of_freedom == ends[0].degrees_of_freedom
    steps = ebm.GradientSteps(n_epochs=20)
    by_steps = [ebm.fit(start, data, loss=loss, solver=steps) for loss in (None, whole)]
    np.testing.assert_allclose(*(end.model.parameters for end in by_steps), atol=1e-10)


def test_a_model_known_by_energies_and_gradients_alone_learns_the_same():
    start = boltzmann()
    data = elsewhere(start, 500)
    known, own = (
        ebm.fit(ebm.marginalize(model, start.keep), data, penalty=0.01)
        for model in (start.model, GradientAlone(start.model))
    )
    assert own.converged
    # Of a user's model every parameter is a coupling.
    assert known.log_likelihood > own.log_likelihood
    # Without a penalty hidden units saturate, and parameters that change nothing are anything.
    free = ebm.Penalty(l2=0.01, l2_biases=0.01, free=np.arange(21) < 9)
    ends = [
        ebm.fit(ebm.marginalize(model, start.keep), data, penalty=free)
        for model in (start.model, GradientAlone(start.model))
    ]
    np.testing.assert_allclose(*(end.model.parameters for end in ends), atol=1e-5)


class TestErrorsAndCriteria:
    def test_the_rank_of_the_information_is_what_criteria_charge(self):
        """4 visible and 4 hidden units have 24 parameters and 15 probabilities."""
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)
        )
        rows = rng.integers(0, 2, (200, 4))
        marginal = ebm.marginalize(rbm.joint(), range(4))
        for start, p in ((rbm, 24), (marginal, 36)):
            with pytest.warns(NotConvergedWarning):
                result = ebm.fit(start, rows, solver=ebm.LBFGS(max_iterations=2))
            assert (result.n_parameters, result.degrees_of_freedom) == (p, 15)
            assert result.standard_errors is None
            assert f"of {p} parameters has rank 15" in result.warnings[-1]
            total = 200 * result.log_likelihood
            assert result.aic == pytest.approx(2 * 15 - 2 * total)
            assert result.bic == pytest.approx(15 * np.log(200) - 2 * total)

    def test_errors_are_those_of_what_is_seen(self):
        """Joint information in place of it would make them several times too small."""
        theta = [-0.5, 0.3, 0.2, -0.1, -0.4, 1.2, -0.9, 1.5, 0.8]
        start = hidden_layer(4, 1, theta)
        rows = ebm.exact(start).sample(20_000, rng=0)
        result = ebm.fit(start, rows)
        assert result.degrees_of_freedom == 9
        fisher = ebm.fisher_information(result.model).dense()
        wanted = np.sqrt(np.diag(np.linalg.inv(fisher)) / len(rows))
        np.testing.assert_allclose(result.standard_errors, wanted, rtol=1e-6)
        assert (np.abs(result.model.parameters - theta) < 5 * wanted).all()
        joint = ebm.fisher_information(result.model, joint=True).dense()
        ratios = np.sqrt(np.diag(np.linalg.inv(joint)) / len(rows)) / wanted
        assert ratios.min() < 1 / 3

    def test_tied_parameters_are_charged_once(self):
        rows = np.random.default_rng(0).integers(0, 2, (100, 3))
        start = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
        ties = ebm.Penalty(ties=[0, 0, 0, 1, 1, 1])
        steps = ebm.GradientSteps(n_epochs=2)
        for solver in (None, ebm.LBFGS(), steps):
            result = ebm.fit(start, rows, penalty=ties, solver=solver)
            assert result.degrees_of_freedom == 2
        free = ebm.fit(start, rows)
        assert free.degrees_of_freedom == free.n_parameters == 6

    def test_a_penalty_may_switch_hidden_units_off(self):
        """The visible units are then a Boltzmann machine of six parameters."""
        start = boltzmann()
        data = elsewhere(start, 500)
        free, held = (ebm.fit(start, data, penalty=penalty) for penalty in (None, 0.1))
        assert (free.degrees_of_freedom, held.degrees_of_freedom) == (7, 6)
        assert np.abs(held.model.model.weights[:3, 3:]).max() < 1e-4


class TestStarts:
    def saddle(self):
        """U = 0, b fitted, centers at the means."""
        data = ebm.Ensemble.from_data(
            oracles.all_states(ebm.Binary(4)), sample_weight=np.arange(1.0, 17)
        )
        mean, c = data.moments().mean, np.array([0.3, -0.8])
        sigma = 1 / (1 + np.exp(-c))
        theta = np.concatenate([np.log(mean / (1 - mean)), c, np.zeros(8)])
        return hidden_layer(4, 2, theta, np.concatenate([mean, sigma])), data, sigma

    def test_zero_weights_are_a_saddle(self):
        start, data, sigma = self.saddle()
        assert np.abs(slopes(start, data)).max() < 1e-15
        hessian = loss_hessian(start, data)
        moments = data.moments()
        model = np.diag(moments.mean * (1 - moments.mean))
        wanted = np.einsum("ac,bd->abcd", model - moments.covariance, np.diag(sigma * (1 - sigma)))
        np.testing.assert_allclose(hessian[6:, 6:].reshape(4, 2, 4, 2), wanted, atol=1e-15)
        assert np.trace(hessian[6:, 6:]) == pytest.approx(0, abs=1e-15)
        assert np.linalg.eigvalsh(hessian)[0] == pytest.approx(-0.00705466, abs=1e-8)
        fisher = ebm.fisher_information(start).dense()
        assert np.linalg.matrix_rank(fisher, tol=1e-10) == 4

    def test_a_start_on_the_saddle_is_named(self):
        start, data, _ = self.saddle()
        with pytest.warns(SymmetricStartWarning, match=r"'4', '5' are coupled to no unit.*random"):
            result = ebm.fit(start, data)
        assert result.degrees_of_freedom == 4
        assert "coupled to no unit" in result.warnings[-1]
        away = start.with_parameters(
            start.parameters + np.random.default_rng(0).normal(0, 0.3, len(start.parameters))
        )
        assert ebm.fit(away, data).log_likelihood > result.log_likelihood + 1e-4

    def test_equal_hidden_units_stay_equal_and_are_named(self):
        theta = [0.1, 0.2, -0.3, 0.5, 0.5, 0.4, 0.4, -0.2, -0.2, 0.7, 0.7]
        start = hidden_layer(3, 2, theta)
        data = growing(start)
        with pytest.warns(SymmetricStartWarning, match=r"'3', '4' are exchangeable"):
            result = ebm.fit(start, data, penalty=1e-4)
        weights = result.model.model.weights.toarray()
        np.testing.assert_allclose(weights[3], weights[4], atol=1e-8)
        assert np.abs(weights[3]).max() > 0.1

    @pytest.mark.parametrize("make", [boltzmann, triples, potts, deep, curved])
    def test_other_starts_are_not(self, make):
        assert symmetric_start_notes(make()) == ()

    def test_units_of_any_energy_are_compared(self):
        """What only energies tell: three units that act together, and two that are not coupled."""
        terms = {(0, 1, 2): 0.7, (3,): 0.2, (4,): 0.1, (3, 4): 0.3, (0,): 0.1, (1,): 0.1}
        marginal = ebm.marginalize(ebm.InteractionModel(terms, ebm.Spins(5)), [0])
        with pytest.warns(SymmetricStartWarning, match="'3', '4' are coupled to no unit"):
            symmetric_start_notes(marginal)

    def test_a_second_layer_without_weights_is_named(self):
        theta = deep().parameters.copy()
        theta[-6:] = 0
        with pytest.warns(SymmetricStartWarning, match="'7', '8' are coupled to no unit"):
            ebm.fit(deep().with_parameters(theta), growing(deep()), penalty=0.01)


class TestLayersAtTheStart:
    """The same of a layer of hidden units of any kind, whose energies are sums over it."""

    ROWS = np.random.default_rng(4).integers(0, 2, (30, 3))

    @pytest.mark.parametrize("solver", [None, ebm.GradientSteps(n_epochs=1)])
    def test_a_layer_without_weights_is_named(self, solver):
        start = ebm.RestrictedBoltzmannMachine(np.zeros((3, 2)), np.zeros(3), [0.1, 0.2])
        message = "hidden units '0', '1' are coupled to no visible unit.*random"
        with pytest.warns(SymmetricStartWarning, match=message) as caught:
            result = ebm.fit(start, self.ROWS, penalty=0.1, solver=solver)
        assert result.warnings[-1] == str(caught[0].message)
        assert "exchangeable" not in result.warnings[-1]

    def test_equal_units_stay_equal_and_are_named(self):
        weights = np.array([[0.5, 0.1, 0.5], [0.4, 0.1, 0.4], [-0.2, 0.1, -0.2]])
        start = ebm.RestrictedBoltzmannMachine(weights, np.zeros(3), [0.1, 0.2, 0.1])
        with pytest.warns(SymmetricStartWarning, match="hidden units '0', '2' are exchangeable"):
            result = ebm.fit(start, self.ROWS, penalty=0.05)
        fitted = result.model.weights
        np.testing.assert_allclose(fitted[:, 0], fitted[:, 2], atol=1e-8)
        # As the joint machine says of its own units.
        with pytest.warns(
            SymmetricStartWarning, match="summed-out units '3', '5' are exchangeable"
        ):
            symmetric_start_notes(ebm.marginalize(start.joint(), range(3)))

    @pytest.mark.parametrize("kind", [ebm.units.Gaussian, ebm.units.ReLU, ebm.units.Exponential])
    def test_settings_tell_units_apart(self, kind):
        weights = np.full((3, 2), -0.3)
        equal, different = (
            ebm.RestrictedBoltzmannMachine(
                weights, np.zeros(3), [-0.1, -0.1], units=(ebm.units.Bernoulli(), kind(setting))
            )
            for setting in ((2.0, 2.0), (2.0, 3.0))
        )
        with pytest.warns(SymmetricStartWarning, match="'0', '1' are exchangeable"):
            symmetric_start_notes(equal)
        assert symmetric_start_notes(different) == ()

    def test_random_weights_are_no_symmetric_start(self):
        for m in (1, 40):
            start = ebm.RestrictedBoltzmannMachine.for_data(self.ROWS, m, rng=0)
            assert symmetric_start_notes(start) == ()
        centered = ebm.RestrictedBoltzmannMachine(
            np.full((3, 2), 0.3), np.zeros(3), [0.0, 0.0], hidden_center=[0.0, 0.5]
        )
        assert symmetric_start_notes(centered) == ()

    def test_a_form_of_ones_own_is_asked_after_a_step(self):
        """Units that are equal here, but whose weights are functions of different parameters."""

        class Own(ebm.ParametricModel):
            space = ebm.Binary(2)
            parameters = np.array([0.5])

            def with_parameters(self, theta):
                changed = Own()
                changed.parameters = np.asarray(theta, dtype=float)
                return changed

            def layered_form(self):
                a = self.parameters[0]
                weights = np.array([[a, 0.5], [a, 0.5]])
                return ebm.forms.LayeredForm(weights, np.zeros(2), np.zeros(2), 0.0)

            def energy(self, states):
                inputs = np.asarray(states) @ self.layered_form().weights
                return -np.logaddexp(0, inputs).sum(axis=-1)

            def energy_gradient(self, states):
                total = np.asarray(states).sum(axis=-1)
                return (-total / (1 + np.exp(-self.parameters[0] * total)))[..., None]

        assert symmetric_start_notes(Own()) == ()


def test_a_column_that_never_changes_has_no_best_bias():
    start = boltzmann()
    rows = np.random.default_rng(0).integers(0, 2, (50, 3))
    rows[:, 1] = 1
    with pytest.warns(NoMaximumWarning, match="'1' never changes"):
        result = ebm.fit(start, rows, penalty=0.01, solver=ebm.LBFGS(max_iterations=20))
    assert not result.converged
    assert "the likelihood has no maximum" in result.message
    assert "never changes" in result.warnings[-1]


def test_a_checkpoint_belongs_to_one_joint_model(tmp_path):
    start = boltzmann()
    data, path = elsewhere(start, 300), tmp_path / "fit.npz"
    with pytest.warns(NotConvergedWarning):
        ebm.fit(start, data, penalty=0.01, solver=ebm.LBFGS(max_iterations=3), checkpoint=path)
    on = ebm.fit(start, data, penalty=0.01, checkpoint=path)
    whole = ebm.fit(start, data, penalty=0.01)
    assert np.array_equal(on.model.parameters, whole.model.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ebm.EbmWarning)
        other = ebm.marginalize(start.model, [0, 1, 3])
        with pytest.raises(ebm.EbmError, match="model"):
            ebm.fit(other, data, penalty=0.01, checkpoint=path)


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_saturated_hidden_units_are_not_taken_for_energies_affine_in_the_parameters(scale):
    """Their means do not change far out, where derivatives look as if they never did."""
    terms = {(0, 1): 0.5, (0,): 0.2, (1,): 0.1, (1, 2): 0.7}
    family = ebm.marginalize(ebm.InteractionModel(terms, ebm.Spins(3)), [0, 2])
    rows = ebm.exact(family).sample(500, rng=0)
    expected = ebm.fit(family, rows)
    result = ebm.fit(family.with_parameters(np.array([1, 0.5, -0.3, 2]) * scale), rows)
    assert result.converged
    assert result.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-8)
    assert result.degrees_of_freedom == expected.degrees_of_freedom == 3


def test_criteria_charge_the_same_whatever_the_solver():
    family = hidden_layer(3, 2, np.cos(np.arange(11)))
    rows = ebm.exact(family).sample(400, rng=3)
    steps = ebm.GradientSteps(n_epochs=3)
    by_steps = ebm.fit(family, rows, loss=ebm.Likelihood(ebm.exact), solver=steps, rng=0)
    assert by_steps.n_parameters == 11
    assert by_steps.degrees_of_freedom == 7
    assert by_steps.aic == 14 - 800 * by_steps.log_likelihood
    by_chains = ebm.fit(family, rows, loss=ebm.Likelihood(ebm.PersistentChains(20)), solver=steps)
    assert by_chains.degrees_of_freedom is None


class TestUnitsOfSteps:
    """Parameters are scaled by deviations over completed states, tiny variances over v or not."""

    LAYERS = (
        (ebm.units.Bernoulli(), ebm.units.Bernoulli()),
        (ebm.units.Bernoulli(), ebm.units.Gaussian(2.0)),
        (ebm.units.Spin(), ebm.units.Spin()),
        (ebm.units.Bernoulli(), ebm.units.ReLU()),
    )

    @pytest.mark.parametrize("make", [boltzmann, deep, triples, potts, curved])
    def test_they_are_those_of_the_joint_derivatives(self, make):
        marginal = make()
        data = growing(marginal)
        square, variance = marginal.completed_squares(data)
        completed = marginal.completed(data)
        slow = ebm.marginalize(GradientAlone(marginal.model), marginal.keep)
        by_states = slow.completed_squares(data)
        mean = marginal.mean_energy_gradient(data)
        wanted = completed.expectation(
            lambda x: np.nan_to_num(marginal.model.energy_gradient(x)) ** 2
        )
        np.testing.assert_allclose(by_states[0], wanted, atol=1e-12)
        np.testing.assert_allclose(by_states[1], wanted - mean**2, atol=1e-12)
        if make is potts:
            # As if units were independent, which they are not.
            np.testing.assert_allclose(variance, by_states[1], rtol=1.0)
        else:
            np.testing.assert_allclose(square, by_states[0], atol=1e-12)
            np.testing.assert_allclose(variance, by_states[1], atol=1e-12)

    @pytest.mark.parametrize("units", LAYERS, ids=lambda units: type(units[1]).__name__)
    def test_of_a_layer_they_add_what_hidden_units_vary(self, units):
        weights = np.sin(np.arange(6).reshape(3, 2))
        machine = ebm.RestrictedBoltzmannMachine(
            weights, [0.1, 0, 0.2], [0.3, -0.4], visible_center=0.2, hidden_center=0.3, units=units
        )
        data = growing(machine)
        found = completed_variances(machine, data)
        rng = np.random.default_rng(0)
        v = np.repeat(data.states, 40_000, axis=0).astype(float)
        h = units[1].sample((v - 0.2) @ weights + [0.3, -0.4], rng=rng) - 0.3
        slopes_ = np.concatenate(
            [v, h, ((v - 0.2)[:, :, None] * h[:, None, :]).reshape(len(v), -1)], axis=1
        )
        shares = np.repeat(data.weights / 40_000, 40_000)
        wanted = shares @ slopes_**2 - (shares @ slopes_) ** 2
        np.testing.assert_allclose(found, wanted, rtol=0.02)
        seen_alone = gradient_variances(machine, data)
        assert (found > 1.5 * seen_alone)[3:].any()

    @pytest.mark.parametrize("kind", ["spins", "layer", "Gaussian layer"])
    def test_a_start_near_the_saddle_takes_no_more_steps_than_elsewhere(self, kind):
        """Before, 1167, 1171 and more than 3000 steps on such data."""
        rng = np.random.default_rng(11)
        weights = rng.normal(0, 1.2, (7, 3))
        truth = ebm.RestrictedBoltzmannMachine(weights, rng.normal(0, 0.5, 7), np.zeros(3))
        data = ebm.Ensemble.from_data(ebm.exact(truth).sample(800, rng=1))
        small = rng.normal(0, 0.02, (7, 3))
        if kind == "spins":
            machine = ebm.IsingModel(np.zeros((10, 10)), np.zeros(10))
            start = ebm.marginalize(machine.with_parameters(rng.normal(0, 0.02, 55)), range(7))
            data = ebm.Ensemble.from_data(
                2 * data.states - 1, space=start.space, sample_weight=800 * data.weights
            )
        else:
            hidden = ebm.units.Bernoulli() if kind == "layer" else ebm.units.Gaussian()
            start = ebm.RestrictedBoltzmannMachine(
                small, np.zeros(7), np.zeros(3), units=(ebm.units.Bernoulli(), hidden)
            )
        loss = ebm.Likelihood().of(start, data, ebm.Penalty(l2=0.01))._loss()

        def value_and_slopes(theta):
            point = loss.point(np.array(theta))
            return point.value, point.slopes

        options = {"maxcor": 30, "gtol": 1e-7, "ftol": 0, "maxiter": 2000}
        plain = minimize(
            value_and_slopes, start.parameters, jac=True, method="L-BFGS-B", options=options
        )
        result = ebm.fit(start, data, penalty=0.01, solver=ebm.LBFGS())
        assert result.converged
        assert len(result.history) < 2 * plain.nit
