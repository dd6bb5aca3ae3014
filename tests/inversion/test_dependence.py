"""Standard errors of dependent rows against those of a chain whose long-run covariance is exact."""

import warnings

import numpy as np
import pytest

import ebm
from ebm.errors import (
    DependentRowsWarning,
    EbmError,
    ModelError,
    ShapeError,
    SingularCovarianceError,
)
from ebm.inversion import dependence
from ebm.learning import _dependence
from ebm.learning._dependence import long_run_variances, response_to_gradients
from ebm.learning.penalties import AppliedPenalty, Penalty
from tests.inversion.dependent_chain import MODEL, NAIVE, RIGHT, long_run_covariance, series


def fitted(rows, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        return ebm.fit(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)), rows, **how)


def test_the_reference_numbers_of_a_gibbs_chain():
    """Methods §6: √M SE of independent rows, and F⁻¹ΓF⁻¹."""
    fisher, long_run = long_run_covariance()
    response = response_to_gradients(fisher, AppliedPenalty(MODEL, Penalty()))
    naive = np.sqrt((response @ fisher @ response).diagonal())
    right = np.sqrt((response @ long_run @ response).diagonal())
    np.testing.assert_allclose(naive, NAIVE, rtol=2e-8)
    np.testing.assert_allclose(right, RIGHT, rtol=2e-8)
    # The mutant: autocorrelation times of the moments are not the factors of the parameters.
    times = np.sqrt(long_run.diagonal() / fisher.diagonal())
    assert abs(times / (RIGHT / NAIVE) - 1).max() > 0.2


def test_errors_and_coverage_of_many_series():
    """Methods §6: 95 % intervals of 4000 rows cover .80 as independent ones, .95 as they are."""
    rng, n_rows, n_series = np.random.default_rng(1), 4000, 60
    truth, ratios, covered = MODEL.parameters, [], []
    for _ in range(n_series):
        rows = series(n_rows, rng)
        model = fitted(rows).model.recentered(np.zeros(3))
        result = dependence(model, rows)
        ratios.append(result.standard_errors * np.sqrt(n_rows) / RIGHT)
        misses = abs(model.parameters - truth)[None] / np.array(
            [result.independent_errors, result.standard_errors]
        )
        covered.append((misses < 1.959964).mean(axis=1))
    assert abs(np.mean(ratios) - 1) < 0.03
    # The stated sampling error of each, √(w/3N).
    assert abs(np.std(ratios, axis=0).mean() / np.sqrt(126 / 3 / n_rows) - 1) < 0.25
    naive, right = np.mean(covered, axis=0)
    assert 0.72 < naive < 0.87
    assert 0.91 < right < 0.98


def test_batch_means_of_independent_rows_are_their_variance():
    rng = np.random.default_rng(0)
    sequence = rng.integers(0, 5, 50_000).astype(np.int32)
    values = rng.normal(size=(5, 3))
    values -= values[sequence].mean(axis=0)
    variances = (values[sequence] ** 2).mean(axis=0)
    found = long_run_variances(values, sequence, 50)
    np.testing.assert_allclose(found / variances, 1, atol=0.12)
    # Windows of one row know of no neighbors.
    np.testing.assert_allclose(
        long_run_variances(values, sequence, 1), variances * 50_000 / 49_999, rtol=1e-12
    )


class TestTheWarningOfAFit:
    def test_it_says_by_which_factors_errors_are_too_small(self):
        rows = series(4000, np.random.default_rng(2))
        with pytest.warns(DependentRowsWarning, match="too small by factors from 1") as seen:
            result = ebm.fit(MODEL, rows)
        assert len(seen) == 1
        (note,) = result.warnings
        factors = dependence(result.model, rows).factors
        assert f"from {factors.min():.3g} to {factors.max():.3g} for the parameters" in note
        assert repr(result.model.parameter_names[factors.argmax()]) in note

    def test_shuffled_rows_and_counts_are_quiet(self):
        rng = np.random.default_rng(2)
        rows = series(4000, rng)
        assert ebm.fit(MODEL, rng.permutation(rows)).warnings == ()
        order = np.lexsort(rows.T[::-1])
        assert ebm.fit(MODEL, rows[order]).warnings == ()
        counted = ebm.Ensemble.from_data(rows, sample_weight=np.ones(len(rows)))
        assert ebm.fit(MODEL, counted).warnings == ()

    def test_independent_rows_are_quiet(self):
        ensemble = ebm.exact(MODEL)
        for seed in range(40):
            assert ebm.fit(MODEL, ensemble.sample(500, rng=seed)).warnings == ()

    def test_spins_and_their_ensembles_are_looked_at(self):
        rows = 2 * series(2000, np.random.default_rng(3)) - 1
        data = ebm.Ensemble.from_data(rows, space=ebm.Spins)
        for family in (ebm.IsingModel, ebm.BoltzmannMachine):
            with pytest.warns(DependentRowsWarning, match="parameters"):
                ebm.fit(family(np.zeros((3, 3)), np.zeros(3)), data)

    def test_without_a_fisher_information_the_factors_are_those_of_means(self):
        rows = series(2000, np.random.default_rng(4))
        with pytest.warns(DependentRowsWarning, match="for the means of the units"):
            ebm.fit(MODEL, rows, loss=ebm.inversion.Pseudolikelihood())

    def test_too_many_rows_and_parameters_are_not_passed_over(self, monkeypatch):
        monkeypatch.setattr(_dependence, "MOST_WORK", 0)
        with pytest.warns(DependentRowsWarning, match="for the means of the units"):
            ebm.fit(MODEL, series(2000, np.random.default_rng(4)))

    def test_names_are_those_of_the_units(self):
        data = ebm.Ensemble.from_data(series(2000, np.random.default_rng(5)), names=list("abc"))
        with pytest.warns(DependentRowsWarning, match="largest factor is that of '.*[abc]"):
            ebm.fit(MODEL, data)

    def test_units_that_never_change_are_left_out(self):
        rows = np.hstack([series(2000, np.random.default_rng(6)), np.ones((2000, 1), dtype=int)])
        model = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
        with pytest.warns(DependentRowsWarning):
            ebm.fit(model, rows, penalty=Penalty(l2=0.01, l2_biases=0.01))


class TestPenalties:
    def test_errors_of_independent_rows_are_those_of_the_fit(self):
        rows = series(3000, np.random.default_rng(7))
        for penalty in (
            Penalty(),
            Penalty(l2=0.05),
            Penalty(ties=[0, 0, 0, 1, 1, 2]),
            Penalty(free=[True, True, True, True, False, True]),
        ):
            result = fitted(rows, penalty=penalty)
            found = dependence(result.model, rows, penalty=penalty)
            np.testing.assert_allclose(
                found.independent_errors, result.standard_errors, rtol=1e-6, atol=1e-12
            )
            assert np.isfinite(found.factors).all()

    def test_hidden_units_are_summed_out(self):
        rows = series(1500, np.random.default_rng(8))
        machine = ebm.RestrictedBoltzmannMachine([[1.0], [-0.5], [0.3]], np.zeros(3), [0.2])
        result = dependence(machine, rows, penalty=Penalty(l2=0.01, l2_biases=0.01))
        assert (result.factors > 1).any()


class TestRefusals:
    def test_an_order_is_needed(self):
        data = ebm.Ensemble.from_data(ebm.exact(MODEL).states, sample_weight=np.arange(1, 9))
        with pytest.raises(ShapeError, match="in their order"):
            dependence(MODEL, data)
        with pytest.raises(ModelError, match="got Moments"):
            dependence(MODEL, data.moments())

    def test_rows_and_windows_must_be_many_and_short(self):
        rows = series(80, np.random.default_rng(0))
        with pytest.raises(ShapeError, match="at least 64 rows, got 40"):
            dependence(MODEL, rows[:40])
        with pytest.raises(ShapeError, match="at most a quarter of the 80 rows, got 21"):
            dependence(MODEL, rows, window=21)

    def test_a_direction_without_curvature(self):
        rows = series(200, np.random.default_rng(0))
        flat = ebm.RestrictedBoltzmannMachine(np.zeros((3, 1)), np.zeros(3), [0.0])
        with pytest.raises(SingularCovarianceError, match="changes nothing"):
            dependence(flat, rows)

    def test_a_penalty_without_such_errors(self):
        rows = series(200, np.random.default_rng(0))
        with pytest.raises(EbmError, match="leave l1 out"):
            dependence(MODEL, rows, penalty=Penalty(l1=0.1))

    def test_a_result_is_no_model(self):
        rows = series(200, np.random.default_rng(0))
        with pytest.raises(ModelError):
            dependence(fitted(rows), rows)

    @pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
    def test_few_rows_are_called_few_even_without_an_order(self):
        with pytest.raises(ShapeError, match="dependence needs at least 64 rows, got 1"):
            dependence(MODEL, series(1, np.random.default_rng(0)))
