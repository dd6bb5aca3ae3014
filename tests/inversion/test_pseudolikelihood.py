"""Pseudo-likelihood: its value and slopes, exact recovery, penalties, separation, errors."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import expit

import ebm
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    EbmError,
    LimitError,
    ModelError,
    NamesError,
    NoMaximumWarning,
    SingularCovarianceError,
)
from ebm.inversion import _sandwich, log_pseudolikelihood, pseudolikelihood
from ebm.inversion._conditionals import ConditionalLoss
from tests import oracles, statistical, strategies


def machine(seed, n=5, scale=0.8):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, scale, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0.3, 0.8, n))


def by_loops(model, rows):
    """Σ_α mean ln p(x_α | rest) from energies alone."""
    last = model.space.values[-1]
    total = 0.0
    for row in rows:
        for unit in range(model.n):
            p = oracles.conditional(model, row, unit)
            total += np.log(p if row[unit] == last else 1 - p)
    return total / len(rows)


def entropy(p):
    return -p * np.log(p) - (1 - p) * np.log(1 - p)


def loss_of(rows, *, tied, seed):
    rng = np.random.default_rng(seed)
    n = rows.shape[1]
    weights = rng.dirichlet(np.ones(len(rows)))
    linear = rng.normal(0, 1, n + 1)
    return ConditionalLoss(
        rows.astype(float), weights, tied, 0.3, 0.7, linear, np.linspace(-0.2, 0.3, len(linear) - 1)
    )


class TestValue:
    def test_zero_parameters_give_n_ln_2(self):
        rows = np.random.default_rng(0).integers(0, 2, (30, 6))
        flat = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))
        assert log_pseudolikelihood(flat, rows) == pytest.approx(-6 * np.log(2), rel=1e-15)
        spins = ebm.IsingModel(np.zeros((6, 6)), np.zeros(6))
        assert log_pseudolikelihood(spins, 2 * rows - 1) == pytest.approx(-6 * np.log(2))

    @given(strategies.pairwise_models(max_units=4))
    def test_by_conditionals_of_energies(self, model):
        rows = model.space.random(12, np.random.default_rng(1))
        expected = by_loops(model, rows)
        assert log_pseudolikelihood(model, rows) == pytest.approx(expected, rel=1e-9, abs=1e-9)

    def test_rows_do_not_depend_on_each_other(self):
        model, rows = machine(0), np.random.default_rng(0).integers(0, 2, (20, 5))
        one_by_one = [log_pseudolikelihood(model, row[None, :]) for row in rows]
        assert log_pseudolikelihood(model, rows[::-1]) == pytest.approx(np.mean(one_by_one))

    def test_other_models_are_refused(self):
        rows = np.random.default_rng(0).integers(0, 2, (30, 6))
        with pytest.raises(ModelError, match=r"got ndarray$"):
            log_pseudolikelihood(rows, rows)

    def test_other_names_are_refused(self):
        model = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2), names=["a", "b"])
        data = ebm.Ensemble.from_data([[0, 1], [1, 1]], names=["b", "a"])
        with pytest.raises(NamesError):
            log_pseudolikelihood(model, data)


@pytest.mark.parametrize("tied", [True, False])
class TestLoss:
    @given(strategies.binary_rows(min_units=2, max_units=4, n_rows=10))
    @settings(max_examples=10)
    def test_gradient_and_curvature(self, tied, rows):
        loss = loss_of(np.unique(rows, axis=0), tied=tied, seed=3)
        n = rows.shape[1]
        rng = np.random.default_rng(4)
        theta, step = (loss.within(rng.normal(0, 1, (n, n + 1))) for _ in range(2))

        def along(t):
            return loss.evaluate(theta + t[0] * step).value

        here = loss.evaluate(theta)
        slope = oracles.finite_difference(along, [0.0])[0]
        assert np.vdot(here.gradient, step) == pytest.approx(slope, rel=1e-7, abs=1e-9)
        ends = [loss.evaluate(theta + t * step).gradient for t in (1e-5, -1e-5)]
        curve = loss.curve(step, here.curvatures)
        # The Hessian is in single precision.
        np.testing.assert_allclose(curve, (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-5)

    def test_value_at_inputs_of_any_size(self, tied):
        rows = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
        loss = ConditionalLoss(rows, np.full(3, 1 / 3), tied, 0.0, 0.0, np.zeros(3), np.zeros(2))
        for scale in (0.1, 30.0, 900.0, 1e5):
            theta = scale * np.array([[1.0, 0.0, -2.0], [0.5, -2.0, 0.0]])
            inputs = loss.features @ theta.T
            expected = (loss.weights @ np.logaddexp(0, -(2 * rows - 1) * inputs)).sum()
            assert loss.evaluate(theta).value == pytest.approx(expected, rel=1e-12)


class TestRecovery:
    @pytest.mark.filterwarnings("ignore:the weights of:ebm.errors.FewSamplesWarning")
    @pytest.mark.parametrize("node_wise", [False, True])
    @pytest.mark.parametrize("n", [2, 5, 8])
    def test_exact_data_give_back_the_machine(self, n, node_wise):
        truth = machine(n, n=n)
        result = pseudolikelihood(ebm.exact(truth), node_wise=node_wise)
        assert result.converged
        model = result.model.recentered(0.0)
        np.testing.assert_allclose(model.weights, truth.weights, atol=1e-8)
        np.testing.assert_allclose(model.biases, truth.biases, atol=1e-8)
        np.testing.assert_array_equal(result.standard_errors, 0.0)
        states = ebm.exact(truth).states
        weighted = pseudolikelihood(
            states,
            sample_weight=np.exp(ebm.exact(truth).log_probability(states)),
            node_wise=node_wise,
        )
        np.testing.assert_allclose(weighted.model.recentered(0.0).weights, truth.weights, atol=1e-8)

    def test_strong_couplings(self):
        truth = machine(1, n=6, scale=3.0)
        model = pseudolikelihood(ebm.exact(truth)).model.recentered(0.0)
        np.testing.assert_allclose(model.weights, truth.weights, atol=1e-6)

    def test_two_units_are_fitted_by_maximum_likelihood(self):
        # With all cells filled, both have the moments of the data.
        rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [1, 1], [0, 0]]
        model = pseudolikelihood(rows).model
        fitted = ebm.fit(model, rows).model
        np.testing.assert_allclose(model.parameters, fitted.parameters, atol=1e-7)

    @pytest.mark.parametrize("node_wise", [False, True])
    @pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
    def test_parameters_within_standard_errors(self, space, node_wise):
        # False-fail rate 1e-6 for each of the four, see tests/statistical.py.
        truth = machine(3).recentered(0.4)
        rng = np.random.default_rng(11)
        exact = ebm.exact(truth)
        scores = []
        for _ in range(15):
            rows = exact.sample(2000, rng)
            data = ebm.Ensemble.from_data(
                rows if space is ebm.Binary else 2 * rows - 1, space=space
            )
            result = pseudolikelihood(data, node_wise=node_wise)
            here = truth.to_spins() if space is ebm.Spins else truth.recentered(result.model.center)
            score = (result.model.parameters - here.parameters) / result.standard_errors
            # Scores of one fit are correlated: one of each.
            scores.append(score[rng.integers(len(score))])
        statistical.check_z_scores(np.array(scores), 0.0, 1.0)

    @pytest.mark.parametrize("node_wise", [False, True])
    @pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
    def test_standard_errors_are_the_influence_of_each_row(self, space, node_wise):
        # SE² = Σ_r w_r I_r² / N with I_r the slope of the estimate at weights (1−ε) w + ε δ_r.
        states = ebm.Binary(3).states_at(np.arange(8))
        states = states if space is ebm.Binary else 2 * states - 1
        weights = np.array([30.0, 12, 25, 8, 16, 20, 9, 40])
        biased = 0.03 if space is ebm.Spins else 0.0
        settings = {
            "penalty": ebm.Penalty(l2=0.05, l2_biases=biased),
            "node_wise": node_wise,
            "solver": ebm.inversion.TruncatedNewton(tolerance=1e-12),
        }
        result = pseudolikelihood(states, space=space, sample_weight=weights, **settings)

        def parameters(share):
            model = pseudolikelihood(
                states, space=space, sample_weight=160 * share, **settings
            ).model
            if space is ebm.Binary:
                model = model.recentered(result.model.center)
            return model.parameters

        share, total = weights / weights.sum(), np.zeros(6)
        for row in range(8):
            towards = np.eye(8)[row] - share
            slope = (parameters(share + 1e-4 * towards) - parameters(share - 1e-4 * towards)) / 2e-4
            total += share[row] * slope**2
        expected = np.sqrt(total / weights.sum())
        np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-5)

    def test_the_tied_estimate_has_the_smaller_errors(self):
        rows = ebm.exact(machine(3)).sample(2000, 5)
        tied, untied = (pseudolikelihood(rows, node_wise=flag) for flag in (False, True))
        assert (tied.standard_errors <= 1.02 * untied.standard_errors).all()
        assert untied.regressions.shape == (5, 5)
        assert tied.regressions is None
        np.testing.assert_allclose(
            (untied.regressions + untied.regressions.T) / 2, untied.model.weights, atol=1e-14
        )

    def test_of_many_parameters(self, monkeypatch):
        """In single precision, as soon as there are many."""
        rows = ebm.exact(machine(3)).sample(400, 5)
        double = pseudolikelihood(rows).standard_errors
        monkeypatch.setattr(_sandwich, "MOST_IN_DOUBLE", 3)
        single = pseudolikelihood(rows).standard_errors
        np.testing.assert_allclose(single, double, rtol=1e-5)
        assert (single != double).any()

    def test_beyond_a_thousand(self):
        """Independent units: of a coupling it is 1/√(N v v'), in both regressions."""
        rng = np.random.default_rng(0)
        rows = (rng.random((4000, 46)) < 0.3).astype(np.int8)
        result = pseudolikelihood(rows)
        assert result.n_parameters == 1081
        v = rows.mean(axis=0) * (1 - rows.mean(axis=0))
        i, j = np.triu_indices(46, 1)
        np.testing.assert_allclose(
            result.standard_errors[46:], 1 / np.sqrt(4000 * v[i] * v[j]), rtol=0.2
        )

    def test_they_wait_until_asked_for(self, monkeypatch):
        result = pseudolikelihood(ebm.exact(machine(3)).sample(400, 5))
        copy = pickle.loads(pickle.dumps(result))
        np.testing.assert_array_equal(copy.standard_errors, result.standard_errors)
        assert not result.standard_errors.flags.writeable
        monkeypatch.setattr(_sandwich, "MOST_SECONDS", 1e-9)
        late = pseudolikelihood(ebm.exact(machine(3)).sample(400, 5))
        with pytest.raises(LimitError, match=r"of 15 parameters from \d+ rows.*bootstrap"):
            late.standard_errors  # noqa: B018

    def test_a_direction_that_changes_nothing(self):
        # The coupling of two constant units, without a penalty on couplings.
        rows = np.array(ebm.exact(machine(2)).sample(100, 7))
        rows[:, [1, 3]] = 1
        result = pseudolikelihood(rows, penalty=ebm.Penalty(l2_biases=0.1))
        assert result.converged
        with pytest.raises(SingularCovarianceError, match="changes no conditional probability"):
            result.standard_errors  # noqa: B018


class TestData:
    def rows(self):
        return ebm.exact(machine(2)).sample(300, 7)

    def test_both_codings_give_one_distribution(self):
        rows = self.rows()
        for node_wise in (False, True):
            binary = pseudolikelihood(rows, node_wise=node_wise)
            spins = pseudolikelihood(2 * rows - 1, space=ebm.Spins, node_wise=node_wise)
            np.testing.assert_allclose(
                spins.model.to_binary().parameters,
                binary.model.recentered(0.0).parameters,
                atol=1e-8,
            )
            assert spins.log_pseudolikelihood == pytest.approx(binary.log_pseudolikelihood)
            assert log_pseudolikelihood(spins.model, 2 * rows - 1) == pytest.approx(
                spins.log_pseudolikelihood, rel=1e-12
            )
            np.testing.assert_allclose(
                4 * spins.standard_errors[5:], binary.standard_errors[5:], rtol=1e-5
            )

    def test_arrays_frames_ensembles_and_weights(self):
        pandas = pytest.importorskip("pandas")
        rows = self.rows()
        expected = pseudolikelihood(rows).model.parameters
        frame = pandas.DataFrame(rows, columns=list("abcde"))
        assert pseudolikelihood(frame).model.names == tuple("abcde")
        data = ebm.Ensemble.from_data(rows)
        for same in (frame, data, np.repeat(rows, 2, axis=0)):
            found = pseudolikelihood(same).model.parameters
            np.testing.assert_allclose(found, expected, atol=1e-10)
        weighted = pseudolikelihood(data.states, sample_weight=300 * data.weights)
        np.testing.assert_allclose(weighted.model.parameters, expected, atol=1e-10)
        assert weighted.sample_size == pytest.approx(300)

    def test_samples(self):
        samples = ebm.sample(machine(2), n_draws=200, rng=3)
        result = pseudolikelihood(samples)
        rows = samples.chains.reshape(-1, 5)
        expected = pseudolikelihood(rows).model.parameters
        np.testing.assert_allclose(result.model.parameters, expected, atol=1e-9)
        assert result.sample_size == samples.sample_size

    def test_moments_are_refused(self):
        with pytest.raises(ModelError, match="rows are wanted, got Moments"):
            pseudolikelihood(ebm.Ensemble.from_data(self.rows()).moments())

    def test_settings(self):
        with pytest.raises(EbmError, match="l2 must be"):
            pseudolikelihood(self.rows(), penalty=ebm.Penalty(l2=-1))
        for wrong in ("no", 1, None):
            with pytest.raises(EbmError, match="node_wise must be True or False"):
                pseudolikelihood(self.rows(), node_wise=wrong)
        with pytest.raises(EbmError, match="belong to rows"):
            pseudolikelihood(ebm.Ensemble.from_data(self.rows()), sample_weight=np.ones(300))

    def test_other_units_are_refused(self):
        with pytest.raises(CodingError, match="two-valued units are wanted"):
            pseudolikelihood([[0, 2], [1, 1], [2, 0]], space=ebm.Levels(2, 3))

    @pytest.mark.parametrize("n_steps", [0, 1, 2])
    def test_an_interrupted_fit_keeps_what_it_has(self, monkeypatch, n_steps):
        evaluate, calls = ConditionalLoss.evaluate, []

        def interrupted(loss, theta):
            calls.append(theta)
            # The start is the first of them.
            if len(calls) == n_steps + 2:
                raise KeyboardInterrupt
            return evaluate(loss, theta)

        monkeypatch.setattr(ConditionalLoss, "evaluate", interrupted)
        with pytest.warns(ebm.EbmWarning, match=f"interrupted after {n_steps} Newton steps"):
            result = pseudolikelihood(self.rows())
        assert not result.converged
        assert result.n_iterations == n_steps
        assert result.history[-1].log_likelihood == pytest.approx(result.log_pseudolikelihood)

    def test_history(self):
        """Each entry is of one point: the first of independent units, the last of the result."""
        result = pseudolikelihood(self.rows())
        values = [step.log_likelihood for step in result.history]
        independent = -sum(entropy(p) for p in self.rows().mean(axis=0))
        assert values[0] == pytest.approx(independent, rel=1e-12)
        assert values[1] > values[0] + 1e-3
        assert values[-1] == pytest.approx(result.log_pseudolikelihood, rel=1e-14)
        assert [step.iteration for step in result.history] == list(range(len(values)))

    def test_few_iterations(self):
        with pytest.warns(ebm.EbmWarning, match="larger max_iterations"):
            result = pseudolikelihood(
                self.rows(), solver=ebm.inversion.TruncatedNewton(max_iterations=1)
            )
        assert not result.converged
        assert "max_iterations" in result.message
        assert result.standard_errors is None
        assert result.n_iterations == 1


class TestPenalties:
    @pytest.mark.parametrize("node_wise", [False, True])
    @pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
    def test_stationary_point_of_the_stated_objective(self, space, node_wise):
        rows = ebm.exact(machine(2, n=4)).sample(100, 7)
        rows = rows if space is ebm.Binary else 2 * rows - 1
        l2, l2_biases = 0.05, 0.02
        result = pseudolikelihood(
            rows,
            penalty=ebm.Penalty(l2=l2, l2_biases=l2_biases),
            space=space,
            node_wise=node_wise,
            solver=ebm.inversion.TruncatedNewton(tolerance=1e-11),
        )
        model = result.model
        if node_wise:
            # Each regression carries half of the penalty on a coupling.
            row = result.regressions[0]
            x = rows - (model.center if space is ebm.Binary else 0.0)
            factor = 1 if space is ebm.Binary else 2

            def objective(theta):
                inputs = factor * (theta[0] + x[:, 1:] @ theta[1:])
                signs = 2 * (rows[:, 0] > 0) - 1
                value = -np.logaddexp(0, -signs * inputs).mean()
                return value - 0.25 * l2 * (theta[1:] ** 2).sum() - 0.5 * l2_biases * theta[0] ** 2

            first = model.biases[0] if space is ebm.Binary else None
            if first is None:
                # The averaged model has other fields; solve for this one.
                from scipy.optimize import minimize

                theta = minimize(lambda t: -objective(t), np.zeros(4), tol=1e-12).x
                np.testing.assert_allclose(theta[1:], row[1:], atol=1e-5)
                return
            theta = np.append(first, row[1:])
        else:
            theta = model.parameters
            coupling = model.is_coupling

            def objective(theta):
                value = log_pseudolikelihood(model.with_parameters(theta), rows)
                return value - 0.5 * (np.where(coupling, l2, l2_biases) * theta**2).sum()

        slopes = oracles.finite_difference(objective, theta)
        np.testing.assert_allclose(slopes, 0, atol=2e-9)

    def test_a_strong_penalty_leaves_independent_units(self):
        rows = ebm.exact(machine(2)).sample(100, 7)
        result = pseudolikelihood(rows, penalty=ebm.Penalty(l2=1e8))
        assert result.converged
        np.testing.assert_allclose(result.model.weights, 0, atol=1e-7)
        np.testing.assert_allclose(expit(result.model.biases), rows.mean(axis=0), rtol=1e-6)

    def test_constant_units_need_a_penalty_on_biases(self):
        rows = np.array(ebm.exact(machine(2)).sample(60, 7))
        rows[:, 1] = 1
        with pytest.raises(ConstantUnitError, match="'1' never changes"):
            pseudolikelihood(rows)
        result = pseudolikelihood(rows, penalty=ebm.Penalty(l2=0.01, l2_biases=0.01))
        assert result.converged
        np.testing.assert_allclose(result.model.weights[1], 0, atol=1e-9)
        assert 1 < result.model.biases[1] < 10


class TestSeparation:
    def copies(self):
        rows = np.random.default_rng(0).integers(0, 2, (80, 4))
        return np.column_stack([rows, rows[:, 1]])

    @pytest.mark.parametrize("node_wise", [False, True])
    def test_equal_units(self, node_wise):
        data = ebm.Ensemble.from_data(self.copies(), names=list("abcde"))
        with pytest.warns(NoMaximumWarning, match=r"'b' and 'e' are always equal.*l2=1e-02"):
            result = pseudolikelihood(data, node_wise=node_wise)
        assert not result.converged
        assert result.standard_errors is None
        assert pseudolikelihood(data, penalty=ebm.Penalty(l2=0.01), node_wise=node_wise).converged

    def test_a_unit_that_others_predict_together(self):
        # c is on where at least two of three are: no pair has an empty cell, yet it is separable.
        rows = ebm.Binary(3).states_at(np.arange(8))
        majority = (rows.sum(axis=1) > 1).astype(float)
        rows = np.column_stack([rows, majority])
        weights = np.array([3, 1, 2, 2, 1, 3, 2, 4])
        data = ebm.Ensemble.from_data(rows, sample_weight=weights, names=["x", "y", "z", "most"])
        with pytest.warns(NoMaximumWarning, match="unit 'most' is predicted without error"):
            result = pseudolikelihood(data, node_wise=True)
        assert not result.converged
        # It ends where the direction is clear, long before the gradient fades.
        assert result.gradient_norm > 1e-8
        with pytest.warns(NoMaximumWarning, match="'most'"):
            pseudolikelihood(data)
        assert pseudolikelihood(data, penalty=ebm.Penalty(l2=0.01)).converged

    def test_a_unit_that_others_predict_sometimes(self):
        # On where both others are, off where none is, either where one is.
        rows = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
        data = ebm.Ensemble.from_data(rows, sample_weight=[3, 1, 2, 2, 1, 4], names=["x", "y", "z"])
        with pytest.warns(NoMaximumWarning, match="some values of 'x'.* are predicted without"):
            assert not pseudolikelihood(data, node_wise=True).converged
        assert pseudolikelihood(data, penalty=ebm.Penalty(l2=0.01), node_wise=True).converged

    @pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
    @pytest.mark.parametrize("node_wise", [False, True])
    def test_a_gradient_that_is_small_enough_is_no_separation(self, node_wise, tolerance):
        # All 32 states are there, some rarely: the last step before the tolerance still moves.
        for seed in range(20):
            truth = machine(seed, scale=1.5)
            rows = np.concatenate(
                [ebm.exact(truth).sample(300, seed), oracles.all_states(truth.space)]
            )
            result = pseudolikelihood(
                rows, node_wise=node_wise, solver=ebm.inversion.TruncatedNewton(tolerance=tolerance)
            )
            assert result.converged, result.message

    def test_exact_ensembles_whose_probabilities_are_rounded(self):
        """The rarest of 32 states has 5e-15: their maximum is there, and near the machine."""
        truth = machine(0, scale=10.0)
        result = pseudolikelihood(ebm.exact(truth))
        assert result.converged
        np.testing.assert_allclose(result.model.weights, truth.weights, atol=0.3)

    @pytest.mark.parametrize("penalty", [{"l2": 1e-6}, {"l2_biases": 1e-3}])
    def test_any_penalty_that_holds_makes_a_maximum(self, penalty):
        # Units 1 and 2 are never both on: growing couplings need biases that grow with them.
        rows = [[0, 0]] * 20 + [[0, 1]] * 10 + [[1, 0]] * 15
        result = pseudolikelihood(rows, penalty=ebm.Penalty(**penalty))
        assert result.converged, result.message
        assert -50 < result.model.weights[0, 1] < -5

    def test_no_false_alarm_at_strong_couplings(self):
        truth = machine(4, n=5, scale=4.0)
        result = pseudolikelihood(ebm.exact(truth))
        assert result.converged, result.message


class TestCheckpoints:
    ROWS = np.random.default_rng(8).integers(0, 2, (80, 4))
    START = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))

    def fit(self, path, rows=ROWS, **changes):
        loss = ebm.inversion.Pseudolikelihood(changes.pop("node_wise", False))
        return ebm.fit(self.START, rows, loss=loss, checkpoint=path, **changes)

    @pytest.mark.parametrize("node_wise", [False, True])
    @pytest.mark.parametrize("penalty", [None, 0.1])
    def test_a_fit_goes_on_from_one_that_stopped(self, tmp_path, node_wise, penalty):
        path = tmp_path / "fit.npz"
        how = {"node_wise": node_wise, "penalty": penalty}
        few = ebm.inversion.TruncatedNewton(max_iterations=1)
        with pytest.warns(ebm.EbmWarning, match="stopped after 1 Newton steps"):
            self.fit(path, solver=few, **how)
        resumed, fresh = self.fit(path, **how), self.fit(tmp_path / "other.npz", **how)
        np.testing.assert_array_equal(resumed.model.parameters, fresh.model.parameters)
        assert resumed.history == fresh.history

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"rows": 1 - ROWS}, "another data"),
            ({"penalty": 0.1}, "another l2"),
            ({"node_wise": True}, "another node_wise"),
            ({"penalty": ebm.Penalty(ties=[0, 1, 2, 3] + [4] * 6)}, "another "),
        ],
    )
    def test_another_fit_is_refused(self, tmp_path, change, said):
        path = tmp_path / "fit.npz"
        self.fit(path)
        with pytest.raises(EbmError, match=f"belongs to a run with {said}"):
            self.fit(path, **change)

    def test_another_loss_is_refused_by_its_solver(self, tmp_path):
        path = tmp_path / "fit.npz"
        self.fit(path)
        with pytest.raises(EbmError, match="another solver: TruncatedNewton there, Newton here"):
            ebm.fit(self.START, self.ROWS, checkpoint=path)


def test_the_solver_is_named_where_it_is_found():
    with pytest.raises(EbmError, match=r"one of ebm\.inversion\.TruncatedNewton\(\)"):
        ebm.fit(
            TestCheckpoints.START,
            TestCheckpoints.ROWS,
            loss=ebm.inversion.Pseudolikelihood(),
            solver=ebm.Newton(),
        )
    with pytest.raises(EbmError, match=r"loss must be an object: write Pseudolikelihood\(\)"):
        ebm.fit(TestCheckpoints.START, TestCheckpoints.ROWS, loss=ebm.inversion.Pseudolikelihood)


def test_rows_of_more_or_fewer_units_are_refused():
    data = ebm.Ensemble.from_data(TestCheckpoints.ROWS[:, :3])
    with pytest.raises(CodingError, match="got rows over Binary"):
        ebm.fit(TestCheckpoints.START, data, loss=ebm.inversion.Pseudolikelihood())
    with pytest.raises(CodingError, match="got rows over Binary"):
        log_pseudolikelihood(TestCheckpoints.START, data)
