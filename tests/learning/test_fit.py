"""ebm.fit: what is solved, what is kept, what does not matter, and what is refused."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebm
from ebm.errors import (
    CodingError,
    EbmError,
    FewSamplesWarning,
    MissingValueError,
    ModelError,
    NamesError,
    NotConvergedWarning,
    ShapeError,
)
from tests import oracles, strategies
from tests.user_models import TwoMembers


def machine(n, **options):
    return ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n), **options)


def spins(n, **options):
    return ebm.IsingModel(np.zeros((n, n)), np.zeros(n), **options)


def some_rows(n=4, n_rows=300, seed=0):
    """Rows of correlated units in which every pattern occurs."""
    rng = np.random.default_rng(seed)
    common = rng.random(n_rows) < 0.4
    rows = (rng.random((n_rows, n)) < np.where(common[:, None], 0.7, 0.25)).astype(np.int8)
    return np.concatenate([ebm.Binary(n).states_at(np.arange(2**n)).astype(np.int8), rows])


@st.composite
def families(draw, n):
    """Any Boltzmann machine or Ising model of n units; its parameters should not matter."""
    rng = draw(strategies.generators())
    names = draw(st.none() | st.just([f"u{i}" for i in range(n)]))
    weights, biases, offset = rng.normal(size=(n, n)), rng.normal(size=n), rng.normal()
    if draw(st.booleans()):
        return ebm.IsingModel(weights, biases, offset=offset, names=names)
    center = draw(st.sampled_from([0.0, 0.5])) + rng.uniform(-1, 1, n)
    return ebm.BoltzmannMachine(weights, biases, center=center, offset=offset, names=names)


def in_coding_of(family, rows):
    return 2 * rows.astype(int) - 1 if isinstance(family, ebm.IsingModel) else rows


class TestMaximum:
    @given(st.data(), strategies.binary_rows())
    @settings(max_examples=40)
    def test_moments_are_matched_and_the_family_kept(self, data, rows):
        family = data.draw(families(rows.shape[1]))
        rows = in_coding_of(family, rows)
        result = ebm.fit(family, rows)
        assert result.converged
        assert result.gradient_norm <= 1e-9
        assert not result.warnings
        own, target = (
            ebm.exact(result.model).moments(),
            ebm.Ensemble.from_data(rows, space=family.space).moments(),
        )
        np.testing.assert_allclose(own.mean, target.mean, atol=1e-8)
        np.testing.assert_allclose(own.covariance, target.covariance, atol=1e-8)
        # Diagonal, center, offset, names and coding are those of the family.
        assert type(result.model) is type(family)
        assert result.model.space == family.space
        assert result.model.offset == family.offset
        np.testing.assert_array_equal(result.model.feature_center, family.feature_center)
        np.testing.assert_array_equal(
            result.model.quadratic_form().matrix.diagonal(),
            family.quadratic_form().matrix.diagonal(),
        )

    @given(st.data(), strategies.binary_rows(max_units=4))
    @settings(max_examples=25)
    def test_gradient_of_the_likelihood_vanishes(self, data, rows):
        family = data.draw(families(rows.shape[1]))
        rows = in_coding_of(family, rows)
        result = ebm.fit(family, rows)

        def likelihood(theta):
            return oracles.mean_log_likelihood(family.with_parameters(theta), rows)

        theta = result.model.parameters
        np.testing.assert_allclose(oracles.finite_difference(likelihood, theta), 0, atol=1e-7)
        assert result.log_likelihood == pytest.approx(likelihood(theta), rel=1e-10)
        # A maximum, not a saddle.
        rng = np.random.default_rng(0)
        for _ in range(5):
            assert likelihood(theta + 0.1 * rng.normal(size=len(theta))) < likelihood(theta)

    @given(st.data(), strategies.binary_rows(max_units=4), st.sampled_from([1e-4, 0.02, 3.0]))
    @settings(max_examples=30)
    def test_penalty_is_on_the_parameters_as_they_stand(self, data, rows, l2):
        family = data.draw(families(rows.shape[1]))
        rows = in_coding_of(family, rows)
        result = ebm.fit(family, rows, penalty=ebm.Penalty(l2=l2, l2_biases=l2))
        assert result.converged

        def objective(theta):
            model = family.with_parameters(theta)
            return oracles.mean_log_likelihood(model, rows) - 0.5 * l2 * float(theta @ theta)

        theta = result.model.parameters
        np.testing.assert_allclose(oracles.finite_difference(objective, theta), 0, atol=1e-7)
        # The likelihood reported is that of the data, without the penalty.
        likelihood = oracles.mean_log_likelihood(result.model, rows)
        assert result.log_likelihood == pytest.approx(likelihood, rel=1e-10)

    @given(strategies.binary_rows(min_units=2, max_units=4), st.sampled_from([1e-3, 0.1]))
    @settings(max_examples=20)
    def test_penalty_on_couplings_is_the_same_in_every_gauge(self, rows, l2):
        """Only biases depend on the center; means are matched whatever the penalty."""
        n = rows.shape[1]
        one, other = (
            ebm.fit(machine(n, center=c), rows, penalty=ebm.Penalty(l2=l2)).model
            for c in (0.0, 0.7)
        )
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-9)
        np.testing.assert_allclose(one.recentered(0.7).biases, other.biases, atol=1e-8)
        np.testing.assert_allclose(ebm.exact(one).moments().mean, rows.mean(axis=0), atol=1e-9)

    def test_strong_penalty_shrinks_to_zero(self):
        result = ebm.fit(machine(3), some_rows(3), penalty=ebm.Penalty(l2=1e6, l2_biases=1e6))
        assert np.abs(result.model.parameters).max() < 1e-5

    def test_one_unit_is_the_logit(self):
        result = ebm.fit(machine(1), [[0], [1], [1], [1]])
        assert result.model.biases[0] == pytest.approx(math.log(3), rel=1e-9)
        assert result.standard_errors[0] == pytest.approx(1 / math.sqrt(4 * 3 / 16), rel=1e-9)

    def test_two_units_are_the_log_odds_ratio(self):
        table = {(0, 0): 30, (0, 1): 12, (1, 0): 7, (1, 1): 20}
        rows = [state for state, count in table.items() for _ in range(count)]
        result = ebm.fit(machine(2), rows)
        odds = math.log(30 * 20 / (12 * 7))
        assert result.model.weights[0, 1] == pytest.approx(odds, rel=1e-9)
        # Woolf's standard error of a log odds ratio.
        error = math.sqrt(sum(1 / count for count in table.values()))
        assert result.standard_errors[2] == pytest.approx(error, rel=1e-8)


class TestWhatDoesNotMatter:
    @given(strategies.binary_rows(max_units=5))
    @settings(max_examples=30)
    def test_coding(self, rows):
        n = rows.shape[1]
        one = ebm.fit(machine(n), rows)
        other = ebm.fit(spins(n), 2 * rows.astype(int) - 1)
        states = ebm.exact(one.model).states
        np.testing.assert_allclose(
            ebm.exact(one.model).log_probability(states),
            ebm.exact(other.model).log_probability(2 * states - 1),
            rtol=1e-10,
            atol=1e-10,
        )
        assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-12)

    @given(strategies.binary_rows(max_units=4), strategies.generators())
    @settings(max_examples=25)
    def test_center_diagonal_and_starting_point(self, rows, rng):
        n = rows.shape[1]
        plain = ebm.fit(machine(n), rows)
        family = ebm.BoltzmannMachine(
            rng.normal(0, 5, (n, n)), rng.normal(0, 5, n), center=rng.normal(0, 2, n), offset=3.0
        )
        other = ebm.fit(family, rows)
        np.testing.assert_allclose(
            ebm.exact(plain.model).weights, ebm.exact(other.model).weights, rtol=1e-8
        )
        # Couplings and their errors do not depend on the center either; biases do.
        np.testing.assert_allclose(
            other.model.parameters[n:], plain.model.parameters[n:], rtol=1e-7, atol=1e-8
        )
        np.testing.assert_allclose(other.standard_errors[n:], plain.standard_errors[n:], rtol=1e-7)

    def test_weights_are_repetitions(self):
        rows = some_rows()
        weights = np.random.default_rng(0).integers(0, 4, len(rows))
        weights[:16] = 2
        weighted = ebm.fit(
            machine(4), ebm.Ensemble.from_data(rows, space=machine(4).space, sample_weight=weights)
        )
        written_out = np.repeat(rows, weights, axis=0)
        repeated = ebm.fit(machine(4), np.random.default_rng(1).permutation(written_out))
        assert weighted.sample_size == repeated.sample_size == weights.sum()
        for name in ("log_likelihood", "aic", "bic"):
            assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-12)
        np.testing.assert_allclose(weighted.model.parameters, repeated.model.parameters, atol=1e-10)
        np.testing.assert_allclose(weighted.standard_errors, repeated.standard_errors, rtol=1e-9)

    @pytest.mark.filterwarnings("ignore:the weights of:ebm.errors.FewSamplesWarning")
    @pytest.mark.parametrize("family", [machine(4), spins(4)])
    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 50.0, 1e9])
    def test_scale_of_the_weights(self, family, scale):
        rows = in_coding_of(family, some_rows())
        plain = ebm.fit(family, rows)
        scaled = ebm.fit(
            family,
            ebm.Ensemble.from_data(
                rows, space=family.space, sample_weight=np.full(len(rows), scale)
            ),
        )
        assert scaled.converged
        np.testing.assert_allclose(scaled.model.parameters, plain.model.parameters, atol=1e-9)
        assert scaled.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-12)
        assert scaled.sample_size == pytest.approx(scale * len(rows), rel=1e-12)
        np.testing.assert_allclose(
            scaled.standard_errors * math.sqrt(scale), plain.standard_errors, rtol=1e-8
        )

    @pytest.mark.parametrize(
        "convert",
        [
            lambda rows: rows.astype(bool),
            lambda rows: rows.astype(float),
            lambda rows: rows.astype(np.uint8),
            lambda rows: np.asfortranarray(rows),
            lambda rows: rows.tolist(),
            lambda rows: pd.DataFrame(rows).astype("Int64"),
            lambda rows: pd.DataFrame(rows).astype("boolean"),
            sparse.csr_array,
            sparse.csc_matrix,
            ebm.Ensemble.from_data,
            lambda rows: ebm.Ensemble.from_data(rows).moments(),
            lambda rows: ebm.Ensemble.from_data(rows).moments().to(ebm.Spins),
            lambda rows: ebm.Ensemble.from_data(2 * rows.astype(int) - 1, space=ebm.Spins),
        ],
    )
    def test_kind_of_the_data(self, convert):
        rows = some_rows()
        plain, other = ebm.fit(machine(4), rows), ebm.fit(machine(4), convert(rows))
        np.testing.assert_allclose(other.model.parameters, plain.model.parameters, atol=1e-10)
        np.testing.assert_allclose(other.standard_errors, plain.standard_errors, rtol=1e-9)
        assert other.sample_size == plain.sample_size == len(rows)

    def test_order_of_the_rows(self):
        rows = some_rows()
        one = ebm.fit(machine(4), rows)
        other = ebm.fit(machine(4), rows[np.random.default_rng(0).permutation(len(rows))])
        np.testing.assert_array_equal(one.model.parameters, other.model.parameters)

    def test_flipping_zeros_and_ones_negates_the_fields(self):
        rows = 2 * some_rows().astype(int) - 1
        one, other = ebm.fit(spins(4), rows).model, ebm.fit(spins(4), -rows).model
        np.testing.assert_allclose(other.couplings, one.couplings, atol=1e-9)
        np.testing.assert_allclose(other.fields, -one.fields, atol=1e-9)

    def test_inputs_are_not_written_to(self):
        rows = some_rows()
        rows.setflags(write=False)
        weights = np.ones(len(rows))
        weights.setflags(write=False)
        assert ebm.fit(
            machine(4), ebm.Ensemble.from_data(rows, space=machine(4).space, sample_weight=weights)
        ).converged


class TestNames:
    names = ("left", "right", "top", "low")

    def test_moments_in_another_order_are_realigned(self):
        rows, order = some_rows(), [2, 0, 3, 1]
        plain = ebm.fit(machine(4, names=self.names), rows)
        permuted = ebm.Ensemble.from_data(
            rows[:, order], names=[self.names[k] for k in order]
        ).moments()
        for data in (permuted, permuted.to(ebm.Spins)):
            other = ebm.fit(machine(4, names=self.names), data)
            assert other.model.names == self.names
            np.testing.assert_allclose(other.model.parameters, plain.model.parameters, atol=1e-9)

    def test_frames_in_another_order_are_realigned(self):
        frame = pd.DataFrame(some_rows(), columns=list(self.names))
        plain = ebm.fit(machine(4, names=self.names), frame)
        other = ebm.fit(machine(4, names=self.names), frame[["low", "left", "top", "right"]])
        np.testing.assert_allclose(other.model.parameters, plain.model.parameters, atol=1e-10)

    def test_other_names_are_refused(self):
        frame = pd.DataFrame(some_rows(), columns=["left", "right", "top", "bottom"])
        for data in (frame, ebm.Ensemble.from_data(frame), ebm.Ensemble.from_data(frame).moments()):
            with pytest.raises(NamesError, match="bottom"):
                ebm.fit(machine(4, names=self.names), data)


class TestSparsePatterns:
    def pattern(self):
        ring = np.roll(np.eye(5), 1, axis=1)
        return sparse.csr_array(ring + ring.T)

    @pytest.mark.parametrize("l2", [0.0, 0.01])
    def test_absent_couplings_stay_absent(self, l2):
        rows = some_rows(5)
        family = ebm.BoltzmannMachine(self.pattern(), np.zeros(5), center=0.2)
        result = ebm.fit(family, rows, penalty=ebm.Penalty(l2=l2, l2_biases=l2))
        assert result.converged
        weights = result.model.weights
        assert sparse.issparse(weights)
        assert ((weights.toarray() != 0) == (self.pattern().toarray() != 0)).all()
        assert len(result.standard_errors) == result.n_parameters == 10

        def objective(theta):
            model = family.with_parameters(theta)
            return oracles.mean_log_likelihood(model, rows) - 0.5 * l2 * float(theta @ theta)

        slopes = oracles.finite_difference(objective, result.model.parameters)
        np.testing.assert_allclose(slopes, 0, atol=1e-7)

    def test_only_pairs_of_the_pattern_are_matched(self):
        rows = some_rows(5, seed=3)
        model = ebm.fit(ebm.IsingModel(self.pattern(), np.zeros(5)), 2 * rows.astype(int) - 1).model
        difference = ebm.exact(model).moments().covariance - np.cov(
            2 * rows.T.astype(float) - 1, ddof=0
        )
        coupled = self.pattern().toarray() + np.eye(5) != 0
        np.testing.assert_allclose(difference[coupled], 0, atol=1e-8)
        assert np.abs(difference[~coupled]).max() > 1e-3

    def test_full_pattern_is_the_dense_family(self):
        rows = some_rows(5)
        full = ebm.BoltzmannMachine(sparse.csr_array(np.ones((5, 5)) - np.eye(5)), np.zeros(5))
        one, other = ebm.fit(full, rows), ebm.fit(machine(5), rows)
        np.testing.assert_allclose(one.model.parameters, other.model.parameters, atol=1e-9)
        np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-8)

    def test_no_couplings_at_all(self):
        rows = some_rows(5)
        result = ebm.fit(ebm.BoltzmannMachine(sparse.csr_array((5, 5)), np.zeros(5)), rows)
        mean = rows.mean(axis=0)
        np.testing.assert_allclose(result.model.biases, np.log(mean / (1 - mean)), atol=1e-9)
        assert result.n_parameters == 5


class TestErrorsAndCriteria:
    def test_standard_errors_are_those_of_the_inverse_fisher_information(self):
        for family in (machine(4, center=0.3), spins(4)):
            rows = in_coding_of(family, some_rows())
            result = ebm.fit(family, rows)
            fisher = oracles.covariance(result.model, result.model.energy_gradient)
            expected = np.sqrt(np.diag(np.linalg.inv(fisher)) / len(rows))
            np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-7)
            np.testing.assert_allclose(result.fisher.dense(), fisher, rtol=1e-8, atol=1e-10)

    def test_standard_errors_of_the_penalized_estimator(self):
        rows, l2 = some_rows(), 0.05
        result = ebm.fit(machine(4, center=0.3), rows, penalty=ebm.Penalty(l2=l2, l2_biases=l2))
        fisher = oracles.covariance(result.model, result.model.energy_gradient)
        inverse = np.linalg.inv(fisher + l2 * np.eye(len(fisher)))
        expected = np.sqrt(np.diag(inverse @ fisher @ inverse) / len(rows))
        np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-7)

    def test_standard_errors_make_a_model_of_errors(self):
        result = ebm.fit(spins(3), 2 * some_rows(3).astype(int) - 1)
        errors = result.model.with_parameters(result.standard_errors)
        assert errors.couplings[0, 2] == result.standard_errors[4]

    def test_criteria(self):
        rows = some_rows()
        result = ebm.fit(machine(4), rows)
        total = len(rows) * oracles.mean_log_likelihood(result.model, rows)
        assert result.n_parameters == 10
        assert result.aic == pytest.approx(20 - 2 * total, rel=1e-10)
        assert result.bic == pytest.approx(10 * math.log(len(rows)) - 2 * total, rel=1e-10)

    def test_exact_moments_have_no_sampling_errors(self):
        rng = np.random.default_rng(0)
        truth = ebm.BoltzmannMachine(rng.normal(size=(6, 6)), rng.normal(size=6)).canonical()
        result = ebm.fit(machine(6), ebm.exact(truth))
        assert result.converged
        assert result.sample_size == math.inf
        np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-7)
        np.testing.assert_array_equal(result.standard_errors, 0)
        assert result.log_likelihood == pytest.approx(-ebm.exact(truth).entropy(), rel=1e-9)
        assert result.moment_error == result.misfit < 1e-12
        for name in ("aic", "bic"):
            with pytest.raises(EbmError, match="number of samples"):
                getattr(result, name)

    def test_sample_size_of_moments(self):
        rows = some_rows()
        bare = ebm.Ensemble.from_data(rows).moments()
        exact = ebm.Moments(bare.space, bare.mean, bare.covariance)
        sized = ebm.fit(machine(4), bare)
        np.testing.assert_array_equal(ebm.fit(machine(4), exact).standard_errors, 0)
        assert sized.moment_error == pytest.approx(sized.gradient_norm * math.sqrt(len(rows)))

    def test_moments_with_ddof_one_are_refused(self):
        rows = some_rows()
        moments = ebm.Moments(
            ebm.Binary(4), rows.mean(axis=0), np.cov(rows.T), sample_size=len(rows)
        )
        with pytest.raises(CodingError, match=r"1/N, numpy\.cov\(rows\.T, ddof=0\)"):
            ebm.fit(machine(4), moments)

    def test_moments_of_no_distribution_are_refused(self):
        moments = ebm.Moments(ebm.Binary(2), [0.5, 0.1], [[0.25, 0.2], [0.2, 0.09]])
        with pytest.raises(EbmError, match=r"'0' and '1' would hold the probability -0\.15"):
            ebm.fit(machine(2), moments)


class TestHistory:
    def test_likelihood_rises_and_the_last_step_is_the_result(self):
        result = ebm.fit(machine(4), some_rows())
        likelihoods = [step.log_likelihood for step in result.history]
        assert (np.diff(likelihoods) > -1e-12).all()
        assert likelihoods[-1] == result.log_likelihood
        assert [step.iteration for step in result.history] == list(range(len(result.history)))
        assert result.history[-1].gradient_norm == result.gradient_norm
        assert result.history[-1].step > 0
        assert result.n_iterations == len(result.history) - 1 > 0
        assert f"converged after {result.n_iterations} iterations" in result.message
        assert f"converged in {result.n_iterations} iterations" in repr(result)

    def test_starts_from_independent_units(self):
        rows = some_rows()
        result = ebm.fit(machine(4), rows)
        p = rows.mean(axis=0)
        independent = float((p * np.log(p) + (1 - p) * np.log(1 - p)).sum())
        assert result.history[0].log_likelihood == pytest.approx(independent, rel=1e-10)

    @pytest.mark.parametrize("most", [0, 1, 2])
    def test_most_iterations(self, most):
        with pytest.warns(NotConvergedWarning, match="raise max_iterations"):
            result = ebm.fit(machine(4), some_rows(), solver=ebm.Newton(max_iterations=most))
        assert result.n_iterations == most
        assert not result.converged
        assert "raise max_iterations" in result.message
        assert result.log_likelihood == pytest.approx(
            oracles.mean_log_likelihood(result.model, some_rows()), rel=1e-10
        )
        assert np.isfinite(result.standard_errors).all()

    def test_progress_goes_to_standard_error(self, capsys):
        result = ebm.fit(machine(3), some_rows(3), progress=True)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.count("log-likelihood") == len(result.history)
        ebm.fit(machine(3), some_rows(3))
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(("call", "memory"), [(4, True), (6, True), (5, False), (7, False)])
    def test_interrupted(self, call, memory):
        """By Newton steps and by L-BFGS."""
        calls = []

        def average(model):
            calls.append(model)
            if len(calls) == call:
                raise KeyboardInterrupt
            ensemble = ebm.exact(model)
            return ensemble if memory else ensemble.moments()

        rows = some_rows()
        result = ebm.fit(machine(4), rows, loss=ebm.Likelihood(average))
        assert not result.converged
        assert result.message.startswith("interrupted after")
        likelihood = oracles.mean_log_likelihood(result.model, rows)
        assert result.log_likelihood == pytest.approx(likelihood, rel=1e-10)
        assert result.log_likelihood > result.history[0].log_likelihood
        # It is a point to go on from.
        assert np.isfinite(result.model.parameters).all()
        assert ebm.exact(result.model).sample(3, rng=0).shape == (3, 4)

    @pytest.mark.parametrize("memory", [True, False])
    def test_interrupted_before_there_is_anything(self, memory):
        def average(model):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ebm.fit(machine(4), some_rows(), loss=ebm.Likelihood(average))


class TestRefusals:
    @pytest.mark.parametrize("l2", [-1, np.nan, np.inf])
    def test_penalties(self, l2):
        with pytest.raises(EbmError, match="l2 must be a number"):
            ebm.fit(machine(4), some_rows(), penalty=ebm.Penalty(l2=l2))

    @pytest.mark.parametrize("tolerance", [0, -1e-3, np.nan])
    def test_tolerances(self, tolerance):
        with pytest.raises(EbmError, match="tolerance must be a positive number"):
            ebm.fit(machine(4), some_rows(), solver=ebm.Newton(tolerance=tolerance))

    def test_coding(self):
        with pytest.raises(CodingError, match=r"unit '0' has the values -1, 1.*ebm\.IsingModel"):
            ebm.fit(machine(4), 2 * some_rows().astype(int) - 1)
        with pytest.raises(
            CodingError, match=r"unit '0' has the values 0, 1.*ebm\.BoltzmannMachine"
        ):
            ebm.fit(spins(4), some_rows())

    def test_missing_values(self):
        rows = some_rows().astype(float)
        rows[[3, 8], 2] = np.nan
        with pytest.raises(MissingValueError, match=f"2 of {len(rows)} rows.*'2'"):
            ebm.fit(machine(4), rows)

    def test_shapes(self):
        with pytest.raises(ShapeError, match=r"\(\.\.\., 5\)"):
            ebm.fit(machine(5), some_rows())
        with pytest.raises(ShapeError, match=r"\(n_samples, n_units\)"):
            ebm.fit(machine(5), [0, 1, 0, 1, 1])
        with pytest.raises(CodingError, match=r"Binary\(n=4"):
            ebm.fit(machine(5), ebm.Ensemble.from_data(some_rows()))

    @pytest.mark.parametrize("weights", [[-1.0], [np.nan], [0.0]])
    def test_weights(self, weights):
        rows = some_rows()
        with pytest.raises(ModelError, match="sample_weight must"):
            ebm.fit(
                machine(4),
                ebm.Ensemble.from_data(
                    rows, space=machine(4).space, sample_weight=weights * len(rows)
                ),
            )

    def test_weights_of_an_ensemble(self):
        data = ebm.Ensemble.from_data(some_rows())
        for ensemble in (data, data.moments()):
            with pytest.raises(EbmError, match="sample_weight belongs to rows"):
                ebm.Ensemble.from_data(ensemble, sample_weight=np.ones(len(data.states)))

    def test_other_spaces(self):
        data = ebm.Ensemble.from_data([[0, 1], [2, 1], [1, 0]], space=ebm.Levels(2, 3))
        with pytest.raises(CodingError, match="Levels"):
            ebm.fit(machine(2), data)

    def test_no_parameters(self):
        with pytest.raises(ModelError, match="TwoMembers has no parameters to fit"):
            ebm.fit(TwoMembers(machine(4)), some_rows())

    def test_a_family_without_parameters(self):
        empty = ebm.InteractionModel({}, ebm.Binary(2))
        with pytest.raises(ModelError, match=r"InteractionModel.*has no parameters to fit"):
            ebm.fit(empty, [[0, 1], [1, 1]])

    def test_fewer_rows_than_units(self):
        rows = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
        with pytest.warns(FewSamplesWarning, match="penalty"):
            result = ebm.fit(machine(4), rows, penalty=ebm.Penalty(l2=0.1))
        assert result.converged
        assert np.isfinite(result.standard_errors).all()


class TestGeneralFamilies:
    """Any ParametricModel over a finite space, through its own energy and gradient."""

    @staticmethod
    def triplet(theta=(0.0,) * 5, names=None):
        def features(x):
            return np.stack(
                [x[..., 0], x[..., 1], x[..., 2], x[..., 0] * x[..., 1], x.prod(axis=-1)], axis=-1
            )

        return oracles.LinearFamily(ebm.Binary(3, names=names), features, theta)

    def test_expectations_are_matched(self):
        rows = some_rows(3)
        family = self.triplet()
        result = ebm.fit(family, rows)
        assert result.converged
        own = ebm.exact(result.model).expectation(family.features)
        np.testing.assert_allclose(own, family.features(rows.astype(float)).mean(axis=0), atol=1e-7)
        assert result.log_likelihood == pytest.approx(
            oracles.mean_log_likelihood(result.model, rows), rel=1e-10
        )
        assert result.sample_size == len(rows)
        assert result.n_parameters == 5

    @given(strategies.binary_rows(min_units=2, max_units=4), strategies.generators())
    @settings(max_examples=15)
    def test_a_boltzmann_machine_written_by_hand_gives_the_same_fit(self, rows, rng):
        n = rows.shape[1]
        i, j = np.triu_indices(n, 1)

        def features(x):
            return np.concatenate([x, x[..., i] * x[..., j]], axis=-1)

        by_hand = oracles.LinearFamily(ebm.Binary(n), features, rng.normal(size=n + len(i)))
        one, other = ebm.fit(by_hand, rows), ebm.fit(machine(n), rows)
        assert one.converged
        assert one.gradient_norm <= 1e-7
        np.testing.assert_allclose(
            ebm.exact(one.model).weights, ebm.exact(other.model).weights, rtol=1e-4, atol=1e-7
        )
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-10)

    def test_penalty(self):
        rows = some_rows(3)
        result = ebm.fit(self.triplet(), rows, penalty=ebm.Penalty(l2=0.1))

        def objective(theta):
            model = self.triplet(theta)
            return oracles.mean_log_likelihood(model, rows) - 0.05 * float(theta @ theta)

        slopes = oracles.finite_difference(objective, result.model.parameters)
        np.testing.assert_allclose(slopes, 0, atol=1e-6)

    def test_levels(self):
        rng = np.random.default_rng(0)

        def features(x):
            return np.stack([x[..., 0] == 1, x[..., 0] == x[..., 1]], axis=-1).astype(float)

        truth = oracles.LinearFamily(ebm.Levels(2, 3), features, [0.7, -1.1])
        result = ebm.fit(truth.with_parameters([0.0, 0.0]), ebm.exact(truth))
        np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-6)
        rows = ebm.exact(truth).sample(2000, rng=rng)
        assert ebm.fit(truth, rows).log_likelihood >= oracles.mean_log_likelihood(truth, rows)

    def test_moments_are_not_enough(self):
        moments = ebm.Ensemble.from_data(some_rows(3)).moments()
        with pytest.raises(ModelError, match="LinearFamily does not learn from moments"):
            ebm.fit(self.triplet(), moments)

    def test_ensembles_that_do_not_match(self):
        family = self.triplet(names=["a", "b", "c"])
        rows = some_rows(3)
        with pytest.raises(CodingError, match="Spins"):
            ebm.fit(family, ebm.Ensemble.from_data(2 * rows.astype(int) - 1, space=ebm.Spins))
        with pytest.raises(CodingError, match="n=4"):
            ebm.fit(family, ebm.Ensemble.from_data(some_rows(4)))
        with pytest.raises(NamesError, match="'b', 'a', 'c'"):
            ebm.fit(family, ebm.Ensemble.from_data(rows, names=["b", "a", "c"]))
        named = ebm.Ensemble.from_data(rows, names=["a", "b", "c"])
        assert ebm.fit(family, named).converged


class TestWhatTheResultSays:
    def test_misfit_is_of_moments_and_not_of_the_penalty(self):
        """With a penalty pairs are not matched, and the error says by how much."""
        rows = some_rows(3)
        result = ebm.fit(machine(3), rows, penalty=ebm.Penalty(l2=0.1))
        assert result.gradient_norm < 1e-9
        second = ebm.exact(result.model).moments().covariance
        miss = np.abs(second - np.cov(rows.T.astype(float), ddof=0))[np.triu_indices(3, 1)]
        variance = np.diag(np.cov(rows.T.astype(float), ddof=0))
        scale = np.sqrt(np.outer(variance, variance))[np.triu_indices(3, 1)]
        assert result.misfit == pytest.approx((miss / scale).max(), rel=1e-6)
        assert result.moment_error == pytest.approx(result.misfit * np.sqrt(len(rows)))

    @pytest.mark.parametrize("ties", [None, [0, 0, 0, 1, 1, 1]])
    def test_gradient_steps_measure_the_misfit_of_moments_as_newton_steps_do(self, ties):
        """Both are at the same model; the gradient of the penalized loss is zero there."""
        penalty = ebm.Penalty(l2=0.1, ties=ties)
        steps = ebm.GradientSteps(n_epochs=3000)
        by_newton, by_gradients = (
            ebm.fit(machine(3), some_rows(3), penalty=penalty, solver=solver)
            for solver in (None, steps)
        )
        assert by_gradients.converged
        assert by_newton.misfit > 0.01
        # With ties, the units of a direction are those of independent units.
        factor = 2 if ties else 1 + 1e-4
        assert 1 / factor < by_gradients.moment_error / by_newton.moment_error < factor
        assert "moments and penalty out of balance by" in by_gradients.message

    def test_names_of_a_frame_survive(self):
        """An unnamed model takes the names of the data."""
        frame = pd.DataFrame(some_rows(3), columns=["ann", "bob", "cat"])
        result = ebm.fit(machine(3), frame)
        assert result.model.space.names == ("ann", "bob", "cat")
        assert result.model.parameter_names[-1] == "W[bob, cat]"
        named = ebm.fit(machine(3), ebm.Ensemble.from_data(frame).moments())
        assert named.model.space.names == ("ann", "bob", "cat")

    def test_standard_errors_of_any_family(self):
        """√(F⁻¹/N) for a family that is not pairwise."""
        rows = 2 * some_rows(3).astype(int) - 1
        family = ebm.InteractionModel({(0,): 0.0, (0, 1, 2): 0.0}, ebm.Spins(3))
        result = ebm.fit(family, rows)
        fisher = oracles.covariance(result.model, result.model.energy_gradient)
        expected = np.sqrt(np.diag(np.linalg.inv(fisher)) / len(rows))
        np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-6)

    @pytest.mark.filterwarnings("ignore::ebm.errors.SymmetricStartWarning")
    def test_a_direction_that_changes_nothing_is_said(self):
        rng = np.random.default_rng(0)
        machine_ = ebm.RestrictedBoltzmannMachine(np.zeros((3, 2)), rng.normal(size=3), [0, 0])
        with pytest.warns(NotConvergedWarning):
            result = ebm.fit(machine_, some_rows(3), solver=ebm.LBFGS(max_iterations=1))
        assert result.standard_errors is None
        assert "changes nothing" in result.warnings[0]


def test_a_frame_of_parameters_and_errors():
    rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0], [1, 1]]
    result = ebm.fit(machine(2, names=["a", "b"]), rows)
    frame = result.to_frame()
    assert list(frame.index) == ["b[a]", "b[b]", "W[a, b]"]
    assert np.array_equal(frame["value"], result.model.parameters)
    assert np.array_equal(frame["standard_error"], result.standard_errors)
    assert list(frame["is_coupling"]) == [False, False, True]
    steps = ebm.fit(machine(2), rows, solver=ebm.GradientSteps(n_epochs=1))
    assert steps.to_frame()["standard_error"].isna().all()


def test_a_fit_that_ends_at_a_saturated_machine_keeps_its_result():
    """What is left of its Fisher information is rounding, which is not symmetric."""
    rng = np.random.default_rng(1)
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    data = ebm.Ensemble.from_data(rows, sample_weight=[1e15, 1, 1, 1])
    for _ in range(10):
        start = ebm.BoltzmannMachine(
            np.zeros((2, 2)), 30 * rng.normal(size=2), center=rng.random(2)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = ebm.fit(start, data, penalty=ebm.Penalty(free=[True, True, False]))
        if result.fisher is not None:
            fisher = result.fisher.dense()
            assert np.abs(fisher - fisher.T).max() <= 1e-8 * np.abs(fisher).max()
