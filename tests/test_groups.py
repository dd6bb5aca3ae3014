"""Groups of rows: joint fits, tests of equality, tests by draws, labels, and refusals."""

from __future__ import annotations

import itertools
import pathlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
from scipy.stats import chi2, chi2_contingency, kstest, norm

import ebm
from ebm import plotting
from ebm.comparison import group_comparison, resampled_tests
from ebm.comparison._covariances import (
    benjamini_hochberg,
    chi_square_tail,
    equalized,
    heterogeneity,
    holm,
    hotelling_tail,
    of_estimates,
    scale_of_estimates,
    strength_of,
)
from ebm.comparison._tied_fit import tied_conditionals, tied_fits, ties_where
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    DependentRowsWarning,
    EbmError,
    EbmWarning,
    FileFormatError,
    LimitError,
    MemoryLimitError,
    MissingValueError,
    ModelError,
    NamesError,
    ShapeError,
)
from tests.group_false_alarms import PENALTY, data_set, p_values

mpl.use("agg")

NAMES = ["a", "b", "c", "d"]
STATES = np.array(list(itertools.product((0, 1), repeat=4)))
A = np.array([13, 21, 3, 16, 9, 11, 15, 20, 8, 1, 5, 3, 20, 13, 25, 17])
B = np.array([6, 7, 6, 4, 7, 8, 3, 4, 4, 10, 3, 5, 16, 26, 11, 30])


def tables(space: Any = ebm.Binary, **counts: Any) -> dict[str, ebm.WeightedStates]:
    states = 2 * STATES - 1 if space is ebm.Spins else STATES
    return {
        label: ebm.Ensemble.from_data(states, space=space, sample_weight=count, names=NAMES)
        for label, count in (counts or {"A": A, "B": B}).items()
    }


@pytest.fixture(scope="module")
def comparison() -> Any:
    return ebm.compare_groups(tables())


def total(fits: Any) -> float:
    return float(sum(fit.log_likelihood * fit.sample_size for fit in fits))


# Likelihood ratios


def test_likelihood_ratios_are_those_of_the_reference(comparison: Any) -> None:
    assert total(comparison.fits) == pytest.approx(-898.62758277, abs=5e-9)
    reference = (
        ("biases", -899.49727386, 1.73938219, 4),
        ("couplings", -907.08858942, 16.92201331, 6),
        ("all", -922.24852573, 47.24188593, 10),
    )
    for test, (equal, log_likelihood, ratio, df) in zip(
        comparison.equalities, reference, strict=True
    ):
        assert (test.equal, test.method) == (equal, "likelihood ratio")
        assert test.log_likelihood == pytest.approx(log_likelihood, abs=5e-9)
        assert test.statistic == pytest.approx(ratio, abs=2e-8)
        assert test.degrees_of_freedom == df
        assert test.p_value == pytest.approx(chi2.sf(ratio, df), rel=1e-7)
        assert total(test.fits) == test.log_likelihood


def test_couplings_in_proportion_are_ties_with_a_factor(comparison: Any) -> None:
    """W_B = c W_A: the best factor of the reference is a maximum over factors."""

    def log_likelihood(factor: float) -> float:
        ties = np.zeros((20, 14))
        ties[4:10, :6], ties[14:, :6] = np.eye(6), factor * np.eye(6)
        ties[:4, 6:10] = ties[10:14, 10:] = np.eye(4)
        return total(tied_fits(comparison.fits, comparison.data, ties, ebm.Penalty()))

    best = log_likelihood(0.471556)
    assert best == pytest.approx(-905.28021913, abs=5e-9)
    assert best > max(log_likelihood(0.471556 - 1e-3), log_likelihood(0.471556 + 1e-3))


def test_the_statistics_of_the_reference(comparison: Any) -> None:
    (differences,), ((first, _), (second, _)) = comparison.differences, comparison.strengths
    assert abs(first - second) == pytest.approx(1.22064719, abs=5e-9)
    assert np.abs(differences.values).max() == pytest.approx(1.67534419, abs=5e-9)


def test_no_equality_gives_the_separate_fits_and_all_of_them_those_of_all_rows() -> None:
    penalty = ebm.Penalty(l2=0.05, l2_biases=0.01)
    comparison = ebm.compare_groups(tables(), penalty=penalty)
    separate = tied_fits(
        comparison.fits, comparison.data, ties_where(np.full(10, False), 2), penalty
    )
    for tied, alone in zip(separate, comparison.fits, strict=True):
        assert tied.model.parameters == pytest.approx(alone.model.parameters, abs=1e-9)
        assert tied.standard_errors == pytest.approx(alone.standard_errors, rel=1e-8)
    together = ebm.Ensemble.from_data(STATES, sample_weight=A + B, names=NAMES)
    pooled = ebm.fit(comparison.model, together, penalty=penalty)
    for tied in comparison.equalities[-1].fits:
        assert tied.model.parameters == pytest.approx(pooled.model.parameters, abs=1e-9)
        assert tied.standard_errors == pytest.approx(pooled.standard_errors, rel=1e-8)


def test_couplings_named_one_by_one_are_all_couplings(comparison: Any) -> None:
    pairs = [(b, a) for a, b in itertools.combinations(NAMES, 2)]
    (named,) = ebm.compare_groups(tables(), equal=pairs).equalities
    (kind,) = ebm.compare_groups(tables(), equal="couplings").equalities
    assert named.statistic == pytest.approx(kind.statistic, rel=1e-12)
    assert named.degrees_of_freedom == 6
    some = ebm.compare_groups(tables(), equal=["a", ("c", "b"), "W[a, b]"]).equalities[0]
    assert some.equal == "b[a], W[a, b], W[b, c]"
    one, other = (fit.model for fit in some.fits)
    assert one.biases[0] == other.biases[0]
    assert one.biases[1] != other.biases[1]
    assert one.weights[1, 2] == pytest.approx(other.weights[1, 2], abs=1e-12)
    assert abs(one.weights[0, 3] - other.weights[0, 3]) > 0.1


def test_codings_of_two_values_agree_on_couplings(comparison: Any) -> None:
    """Fields at zero are other hypotheses than biases at zero, couplings are the same."""
    spins = ebm.compare_groups(tables(ebm.Spins))
    for k in (1, 2):
        test, same = spins.equalities[k], comparison.equalities[k]
        assert test.statistic == pytest.approx(same.statistic, rel=1e-8)
    assert abs(spins.equalities[0].statistic - comparison.equalities[0].statistic) > 0.1
    assert spins.differences[0].z == pytest.approx(comparison.differences[0].z, rel=1e-7)


def test_three_groups_have_twice_the_equalities() -> None:
    comparison = ebm.compare_groups(tables(A=A, B=B, C=A[::-1]))
    assert [test.degrees_of_freedom for test in comparison.equalities] == [8, 12, 20]
    pooled = ebm.fit(comparison.model, tables(all=A + B + A[::-1])["all"])
    ratio = 2 * (total(comparison.fits) - total([pooled]))
    assert comparison.equalities[-1].statistic == pytest.approx(ratio, rel=1e-9)
    assert [each.group for each in comparison.differences] == ["B", "C"]


def test_a_saturated_table_of_levels_gives_the_contingency_test() -> None:
    """Two units and groups: all equal is independence of groups and cells, G² of the table."""
    counts = np.random.default_rng(0).integers(5, 40, (2, 9))
    cells = np.array(list(itertools.product(range(3), repeat=2)))
    family = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
    rows = {
        label: ebm.Ensemble.from_data(cells, space=ebm.Levels(2, 3), sample_weight=count)
        for label, count in zip("uv", counts, strict=True)
    }
    comparison = ebm.compare_groups(rows, model=family)
    assert [test.degrees_of_freedom for test in comparison.equalities] == [4, 4, 8]
    independence = chi2_contingency(counts, lambda_="log-likelihood")
    assert comparison.equalities[2].statistic == pytest.approx(independence.statistic, rel=1e-8)
    tests = comparison.permutation_tests(9, rng=0)
    assert len(tests.names) == 4
    with pytest.raises(CodingError, match="give the family"):
        ebm.compare_groups(rows)
    # Of two units pseudo-likelihood has the moments of the data, too, and the sandwich the errors.
    quick = ebm.compare_groups(rows, model=family, loss=ebm.inversion.Pseudolikelihood())
    for one, other in zip(quick.covariances, comparison.covariances, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


# Wald's test


def test_walds_test_agrees_with_the_quotient_of_one_parameter() -> None:
    one = equalized(np.array([[1.0], [2.5]]), [np.eye(1) / 2, np.eye(1) / 4], np.array([True]))
    assert one.statistic == pytest.approx(1.5**2 / 0.75)
    assert one.values == pytest.approx(np.full((2, 1), (1.0 * 2 + 2.5 * 4) / 6))
    assert one.variances == pytest.approx(np.full((2, 1), 1 / 6))
    values = np.array([[1.0, 0.2], [0.3, 0.1], [0.5, -1.0]])
    diagonal = [np.diag([0.1, 0.3]), np.diag([0.2, 0.4]), np.diag([0.5, 0.2])]
    variances = np.array([c.diagonal() for c in diagonal])
    of_each = heterogeneity(values, variances) ** 2
    both = equalized(values, diagonal, np.array([True, True]))
    assert both.statistic == pytest.approx(of_each.sum(), rel=1e-12)


def test_estimates_are_brought_together_as_by_least_squares() -> None:
    """min over u of Σ_g (θ_g − D_g u)ᵀ C_g⁻¹ (θ_g − D_g u): the value, the minimum, its errors."""
    random = np.random.default_rng(0)
    values, equal = random.normal(size=(3, 4)), np.array([True, False, True, False])
    roots = random.normal(size=(3, 4, 6))
    covariances = roots @ roots.transpose(0, 2, 1)
    ways = ebm.Penalty(ties=ties_where(equal, 3)).directions(12)
    weights = scipy.linalg.block_diag(*map(np.linalg.inv, covariances))
    inverse = np.linalg.inv(ways.T @ weights @ ways)
    best = ways @ inverse @ ways.T @ weights @ values.ravel()
    apart = values.ravel() - best
    found = equalized(values, list(covariances), equal)
    assert found.values.ravel() == pytest.approx(best, rel=1e-9)
    expected = (ways @ inverse @ ways.T).diagonal()
    assert np.ravel(found.variances) == pytest.approx(expected, rel=1e-9)
    assert found.statistic == pytest.approx(apart @ weights @ apart, rel=1e-9)


def test_walds_test_allows_for_a_covariance_from_few_rows() -> None:
    """Means of normal rows: T² of as many rows has uniform p-values, χ² of it has not."""
    random, n, k = np.random.default_rng(0), 40, 15
    by_rows, by_chi_square = [], []
    for _ in range(400):
        rows = random.normal(size=(n, k))
        covariance = np.cov(rows.T, ddof=1) / n
        statistic = rows.mean(0) @ np.linalg.solve(covariance, rows.mean(0))
        by_rows.append(hotelling_tail(statistic, k, n))
        by_chi_square.append(float(chi_square_tail(statistic, k)))
    assert kstest(by_rows, "uniform").pvalue > 1e-3
    assert np.mean(np.array(by_chi_square) < 0.05) > 0.3
    assert hotelling_tail(20.0, 10, 1e7) == pytest.approx(chi2.sf(20, 10), rel=1e-4)


def test_walds_test_is_left_out_where_rows_are_fewer_than_equalities() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (120, 12))
    loss = ebm.inversion.Pseudolikelihood()
    comparison = ebm.compare_groups(rows, by=np.arange(120) % 2, loss=loss)
    biases, couplings, _ = comparison.equalities
    assert biases.p_value is not None
    assert len(biases.fits) == 2
    assert (couplings.statistic, couplings.p_value, couplings.fits) == (None, None, ())
    assert "more rows in each group than there are equalities" in " ".join(str(comparison).split())
    assert comparison.parametric_tests(3, rng=0).n_draws == 3


def test_pseudolikelihood_gives_walds_test_with_the_sandwich(comparison: Any) -> None:
    by_conditionals = ebm.compare_groups(tables(), loss=ebm.inversion.Pseudolikelihood())
    for fit, covariance in zip(by_conditionals.fits, by_conditionals.covariances, strict=True):
        assert np.sqrt(covariance.diagonal()) == pytest.approx(fit.standard_errors, rel=1e-9)
    for test, exact in zip(by_conditionals.equalities, comparison.equalities, strict=True):
        assert test.method == "Wald"
        assert test.log_likelihood is None
        # Both are χ² of many rows, and equal to first order.
        assert test.statistic == pytest.approx(exact.statistic, rel=0.1)
    # So are both fits with biases equal, which they may be, by parts of their errors.
    fits = (each.equalities[0].fits for each in (by_conditionals, comparison))
    for tied, other in zip(*fits, strict=True):
        apart = tied.model.parameters - other.model.parameters
        assert np.abs(apart / other.standard_errors).max() < 0.1
        assert tied.standard_errors == pytest.approx(other.standard_errors, rel=0.1)
    assert by_conditionals.parametric_tests(3, rng=0).n_failed == 0


@pytest.mark.parametrize("loss", [ebm.Likelihood(), ebm.inversion.Pseudolikelihood()])
def test_covariances_say_what_errors_are_in_other_parameters(loss: Any) -> None:
    """b + W c at center c, and h_i = b_i/2 + Σ_j W_ij/4, J = W/4 of spins, are linear in (b, W)."""
    flat, center = np.zeros((4, 4)), np.full(4, 0.5)
    here = ebm.compare_groups(tables(), loss=loss, equal="all")
    moved = ebm.BoltzmannMachine(flat, np.zeros(4), center=center)
    there = ebm.compare_groups(tables(), loss=loss, equal="all", model=moved)
    spins = ebm.compare_groups(tables(ebm.Spins), loss=loss, equal="all")
    to_center, to_spins = np.eye(10), np.diag([0.5] * 4 + [0.25] * 6)
    for k, (i, j) in enumerate(itertools.combinations(range(4), 2)):
        to_center[i, 4 + k], to_center[j, 4 + k] = center[j], center[i]
        to_spins[i, 4 + k] = to_spins[j, 4 + k] = 0.25
    for group, covariance in zip("AB", here.covariances, strict=True):
        assert here[group].standard_errors == pytest.approx(np.sqrt(covariance.diagonal()))
        for onto, other in ((to_center, there), (to_spins, spins)):
            expected = np.sqrt((onto @ covariance @ onto.T).diagonal())
            assert other[group].standard_errors == pytest.approx(expected, rel=1e-6)


def test_a_pattern_of_pairs_has_couplings_there_alone() -> None:
    pattern = np.zeros((4, 4))
    pattern[0, 1] = pattern[1, 0] = pattern[1, 2] = pattern[2, 1] = 1
    family = ebm.BoltzmannMachine(scipy.sparse.csr_array(pattern) * 0, np.zeros(4))
    for loss in (ebm.Likelihood(), ebm.inversion.Pseudolikelihood()):
        comparison = ebm.compare_groups(tables(), model=family, loss=loss)
        assert comparison.differences[0].names == ("W[a, b]", "W[b, c]")
        assert [test.degrees_of_freedom for test in comparison.equalities] == [4, 2, 6]
        errors = [np.sqrt(covariance.diagonal()) for covariance in comparison.covariances]
        for fit, error in zip(comparison.fits, errors, strict=True):
            assert error == pytest.approx(fit.standard_errors, rel=1e-8)
        with pytest.raises(NamesError, match="has no coupling"):
            ebm.compare_groups(tables(), model=family, loss=loss, equal=[("a", "c")])


def test_the_sandwich_and_the_curvature_of_the_reference() -> None:
    """Pairs 01, 03 and 12 of table A: estimates, sandwich errors, and those of H⁻¹ alone."""
    pattern = np.zeros((4, 4))
    pattern[[0, 0, 1], [1, 3, 2]] = pattern[[1, 3, 2], [0, 0, 1]] = 1
    family = ebm.BoltzmannMachine(scipy.sparse.csr_array(pattern) * 0, np.zeros(4))
    loss = ebm.inversion.Pseudolikelihood()
    comparison = ebm.compare_groups(tables(), model=family, loss=loss, equal="couplings")
    couplings = comparison["A"].model.parameters[4:]
    assert couplings == pytest.approx([1.43958228, -1.04525247, 0.85258297], abs=5e-9)
    errors = np.sqrt(comparison.covariances[0].diagonal()[4:])
    assert errors == pytest.approx([0.33171131, 0.29754588, 0.30799011], abs=5e-9)
    plan = comparison._plan(())
    _, scales = plan.estimates([plan.rows(counts) for counts in plan.counts])
    assert np.sqrt(scales[0].diagonal()) == pytest.approx([0.239, 0.213, 0.220], abs=5e-4)


def test_models_bring_their_order_of_units_and_their_coding() -> None:
    flat = np.zeros((4, 4)), np.zeros(4)
    reverse = ebm.BoltzmannMachine(*flat, names=NAMES[::-1])
    comparison = ebm.compare_groups(tables(), model=reverse, equal="couplings")
    assert comparison.data[1].space.names == tuple(NAMES[::-1])
    assert comparison.equalities[0].statistic == pytest.approx(16.92201331, abs=1e-7)
    assert comparison.permutation_tests(3, rng=0).n_failed == 0
    with pytest.raises(CodingError, match=r"group 'A'.*Spins"):
        ebm.compare_groups(tables(), model=ebm.IsingModel(*flat))
    with pytest.raises(EbmError, match="leave it out"):
        ebm.compare_groups(tables(), model=reverse, space=ebm.Binary)
    hidden = ebm.RestrictedBoltzmannMachine(np.full((4, 1), 0.1), np.zeros(4), np.zeros(1))
    with pytest.raises(ModelError, match="affine"):
        ebm.compare_groups(tables(), model=hidden)


def test_beyond_24_units_the_loss_is_pseudolikelihood() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (400, 25))
    comparison = ebm.compare_groups(rows, by=np.arange(400) % 2, equal=["0"], penalty=0.02)
    assert isinstance(comparison.loss, ebm.inversion.Pseudolikelihood)
    assert "by pseudo-likelihood" in str(comparison)
    tests = comparison.parametric_tests(2, rng=0)
    assert tests.n_failed == 0
    assert f"a chain of its own of {tests.n_sweeps} Gibbs sweeps" in " ".join(str(tests).split())
    items = ebm.OrdinalModel(np.zeros((11, 11)), np.zeros((11, 5)))
    rows = random.integers(0, 5, (400, 11))
    many = ebm.compare_groups(rows, by=np.arange(400) % 2, model=items, equal=["0"])
    assert isinstance(many.loss, ebm.inversion.Pseudolikelihood)
    assert many.equalities[0].degrees_of_freedom == 4


def test_ordinal_items_of_two_categories_are_compared_as_units() -> None:
    """By pseudo-likelihood; thresholds and couplings are the biases and couplings of a machine."""
    loss = ebm.inversion.Pseudolikelihood()
    family = ebm.OrdinalModel(np.zeros((4, 4)), np.zeros((4, 2)), names=NAMES)
    levels = {
        label: ebm.Ensemble.from_data(STATES, space=family.space, sample_weight=counts)
        for label, counts in {"A": A, "B": B}.items()
    }
    items = ebm.compare_groups(levels, model=family, loss=loss)
    units = ebm.compare_groups(tables(), loss=loss)
    for one, other in zip(items.equalities, units.equalities, strict=True):
        assert one.degrees_of_freedom == other.degrees_of_freedom
        assert one.statistic == pytest.approx(other.statistic, rel=1e-6)
    both = [comparison.permutation_tests(5, rng=2) for comparison in (items, units)]
    assert both[0].statistics == pytest.approx(both[1].statistics, rel=1e-6)
    assert both[0].p_values.tolist() == both[1].p_values.tolist()
    (pair,) = ebm.compare_groups(levels, model=family, loss=loss, equal=[("b", "c")]).equalities
    assert pair.equal == "W[b, c]"
    assert pair.statistic == pytest.approx(items.differences[0].z[3] ** 2, rel=1e-9)


def test_the_thresholds_of_an_item_are_equal_together() -> None:
    family = ebm.OrdinalModel(np.zeros((3, 3)), [np.zeros(3), np.zeros(2), np.zeros(3)])
    rows = np.random.default_rng(0).integers(0, [3, 2, 3], (300, 3))
    equal = ["2", ("0", "1")]
    for loss in (ebm.Likelihood(), ebm.inversion.Pseudolikelihood()):
        (test,) = ebm.compare_groups(
            rows, by=np.arange(300) % 2, model=family, loss=loss, equal=equal
        ).equalities
        assert test.equal == "h[2](1), h[2](2), W[0, 1]"
        assert test.degrees_of_freedom == 3


def test_a_common_fit_by_pseudolikelihood_has_no_slope() -> None:
    """With all equal it is the fit of all rows; with couplings equal, sums of slopes are zero."""
    loss, no = ebm.inversion.Pseudolikelihood(), ebm.Penalty()
    comparison = ebm.compare_groups(tables(), loss=loss)
    everything = ties_where(np.ones(10, dtype=bool), 2)
    models = tied_conditionals(comparison.fits, comparison.data, everything, no)
    whole = ebm.Ensemble.from_data(STATES, sample_weight=A + B, names=NAMES)
    together = ebm.fit(comparison.model, whole, loss=loss).model.parameters
    for model in models:
        assert model.parameters == pytest.approx(together, abs=1e-7)
    ties = ties_where(np.asarray(comparison.model.is_coupling), 2)
    models = tied_conditionals(comparison.fits, comparison.data, ties, no)
    thetas = np.array([model.parameters for model in models])
    assert (thetas[0, 4:] == thetas[1, 4:]).all()

    def value(moved: np.ndarray) -> float:
        each = zip(comparison.data, moved, strict=True)
        return sum(
            rows.sample_size
            * ebm.inversion.log_pseudolikelihood(comparison.model.with_parameters(theta), rows)
            for rows, theta in each
        )

    for k in range(10):
        for group in ([0, 1],) if k >= 4 else ([0], [1]):
            ends = []
            for step in (1e-4, -1e-4):
                moved = thetas.copy()
                moved[group, k] += step
                ends.append(value(moved))
            assert ends[0] - ends[1] == pytest.approx(0, abs=1e-8)
            # In one group alone the slope of a coupling is not zero.
            assert max(ends) < value(thetas)


def test_rows_of_chains_are_draws_of_the_model(comparison: Any) -> None:
    """At the ends of chains of their own; with 40 000 rows to 2 % of the probabilities."""
    models = tuple(comparison._with_equal_couplings())
    many = resampled_tests.Plan(
        STATES, np.array([10_000 * A, 10_000 * B]) // 50, comparison.model, comparison.loss,
        comparison.penalty, models, (), by_chains=True,
    )  # fmt: skip
    plan = many.checked(np.random.default_rng(0))
    assert plan.n_sweeps == resampled_tests.LEAST_SWEEPS
    # Nor are the states after a single sweep.
    for n_sweeps, is_right in ((plan.n_sweeps, True), (0, False)):
        drawn = replace(plan, n_sweeps=n_sweeps).drawn(np.random.default_rng(1))
        for model, rows in zip(models, drawn, strict=True):
            wanted = np.exp(ebm.exact(model).log_probability(rows.states))
            errors = np.sqrt(wanted * (1 - wanted) / rows.sample_size)
            assert ((np.abs(rows.weights - wanted) / errors).max() < 4.5) == is_right


def test_chains_that_do_not_mix_are_refused() -> None:
    """Two states of all units hold all probability, and no chain goes from one to the other."""
    n = 26
    weights = np.ones((n, n)) - np.eye(n)
    rows = np.random.default_rng(0).integers(0, 2, (400, n))
    comparison = ebm.compare_groups(rows, by=np.arange(400) % 2, penalty=0.1, equal=["0"])
    machine = ebm.BoltzmannMachine(weights, -weights.sum(axis=0) / 2)
    stuck = comparison._plan((machine, machine))
    with pytest.raises(EbmError, match=r"do not mix: split R-hat .*permutation_tests"):
        stuck.checked(np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["permutations", "exact draws", "chains"])
def test_stopped_tests_go_on_with_the_same_bits(
    comparison: Any, tmp_path: pathlib.Path, monkeypatch: Any, kind: str
) -> None:
    """Ctrl-C in the fifth draw; the first four are kept, and the others those of one run."""
    monkeypatch.setattr(group_comparison, "is_summed", lambda space: kind != "chains")
    run = comparison.permutation_tests if kind == "permutations" else comparison.parametric_tests
    alone, file = run(8, rng=3), tmp_path / "draws"
    drawn, calls = resampled_tests._drawn, []

    def interrupted(plan: Any, seed: int) -> Any:
        calls.append(seed)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return drawn(plan, seed)

    with monkeypatch.context() as patch:
        patch.setattr(resampled_tests, "_drawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(8, rng=3, checkpoint=file)
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(resampled_tests, "_drawn", lambda *job: calls.append(job) or drawn(*job))
        resumed = run(8, rng=3, checkpoint=file)
    assert len(calls) == 4
    assert resumed.p_values.tobytes() == alone.p_values.tobytes()
    assert resumed.p_max.tobytes() == alone.p_max.tobytes()
    assert (resumed.structure, resumed.strength) == (alone.structure, alone.strength)


def test_tests_by_chains_raise_few_false_alarms(monkeypatch: Any) -> None:
    """Couplings equal, biases 1 apart; up to 3 alarms of 8 happen in 99.96 % at .05."""
    loss, alarms = ebm.inversion.Pseudolikelihood(), np.zeros(2)
    monkeypatch.setattr(group_comparison, "is_summed", lambda space: False)
    for seed in range(8):
        rows = data_set(1.0, (300, 200), seed)
        comparison = ebm.compare_groups(rows, penalty=PENALTY, loss=loss, equal=["0"])
        tests = comparison.parametric_tests(19, rng=seed)
        assert tests.n_sweeps is not None
        alarms += [tests.structure.p_value <= 0.05, tests.strength.p_value <= 0.05]
    assert alarms.max() <= 3


def test_penalized_fits_have_no_chi_square() -> None:
    comparison = ebm.compare_groups(tables(), penalty=0.01)
    assert {test.statistic for test in comparison.equalities} == {None}
    assert "leaves no chi-square" in str(comparison)


# Multiplicity


def test_holm_and_benjamini_hochberg_by_hand() -> None:
    p = np.array([0.04, 0.01, 0.03, 0.5])
    assert holm(p) == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert benjamini_hochberg(p) == pytest.approx([0.16 / 3, 0.04, 0.16 / 3, 0.5])
    order = np.random.default_rng(0).permutation(4)
    for adjust in (holm, benjamini_hochberg):
        assert adjust(p[order]) == pytest.approx(adjust(p)[order])
        assert (adjust(p) >= p).all()


def test_differences_have_normal_p_values_and_intervals(comparison: Any) -> None:
    (differences,) = comparison.differences
    assert differences.p_values == pytest.approx(2 * norm.sf(np.abs(differences.z)))
    low, high = differences.interval(0.9)
    assert high - low == pytest.approx(2 * norm.ppf(0.95) * differences.standard_errors)
    frame = differences.to_frame()
    assert list(frame.index) == list(differences.names)
    assert frame["difference"].to_numpy() == pytest.approx(differences.values)
    with pytest.raises(EbmError, match="level"):
        differences.interval(1)


# Draws


def test_permuted_groups_are_hypergeometric_draws_of_the_counts(comparison: Any) -> None:
    """Means N_g c/N, and variances smaller by (N − N_g)/(N − 1) than those of draws with return."""
    plan, random = comparison._plan(()), np.random.default_rng(0)
    sizes, n_draws = np.array([A.sum(), B.sum()]), 3000
    counts = np.zeros((n_draws, 16))
    for k in range(n_draws):
        groups = plan.drawn(random)
        assert [group.sample_size for group in groups] == sizes.tolist()
        drawn = [np.zeros(16), np.zeros(16)]
        for g, group in enumerate(groups):
            drawn[g][group.states @ [8, 4, 2, 1]] = group.weights * group.sample_size
        assert (drawn[0] + drawn[1]).round(9).tolist() == (A + B).tolist()
        counts[k] = drawn[0]
    share, n = (A + B) / sizes.sum(), sizes[0]
    variance = n * share * (1 - share) * (sizes.sum() - n) / (sizes.sum() - 1)
    assert np.abs(counts.mean(0) - n * share) == pytest.approx(
        np.zeros(16), abs=4.5 * np.sqrt(variance.max() / n_draws)
    )
    assert counts.var(0) == pytest.approx(variance, rel=0.15)


def test_parametric_draws_have_equal_couplings_and_their_own_biases(comparison: Any) -> None:
    models = [fit.model for fit in comparison.equalities[1].fits]
    plan, random = comparison._plan(tuple(models)), np.random.default_rng(0)
    draws = [plan.drawn(random) for _ in range(200)]
    for g, model in enumerate(models):
        means = np.mean([groups[g].moments().mean for groups in draws], axis=0)
        assert means == pytest.approx(ebm.exact(model).moments().mean, abs=0.02)
    assert {groups[1].sample_size for groups in draws} == {float(B.sum())}
    apart = [ebm.exact(fit.model).moments().mean for fit in comparison.fits]
    assert np.abs(apart[0] - apart[1]).max() > 0.1


def test_p_values_count_the_draws_and_are_never_zero(comparison: Any) -> None:
    tests = comparison.permutation_tests(19, rng=1)
    plan, found = comparison._plan(()), []
    for seed in np.random.default_rng(1).integers(0, 2**63, 19).tolist():
        drawn = plan.drawn(np.random.default_rng(seed))
        found.append(resampled_tests.studentized(*plan.estimates(drawn)))
    pairs = np.array([each[0] for each in found])
    strengths = np.array([each[1] for each in found])
    (differences,) = comparison.differences
    # Statistics of a likelihood are those of the differences; of others they have a scale.
    assert tests.statistics == pytest.approx(np.abs(differences.z), rel=1e-9)
    assert tests.p_values == pytest.approx((1 + (pairs >= tests.statistics).sum(0)) / 20)
    largest = pairs.max(axis=1)
    assert tests.p_max == pytest.approx((1 + (largest[:, None] >= tests.statistics).sum(0)) / 20)
    assert tests.structure.p_value == tests.p_max.min()
    couplings = np.array([fit.model.parameters[4:] for fit in comparison.fits])
    scales = [covariance[4:, 4:] for covariance in comparison.covariances]
    weights = np.array([1 / scale.diagonal() for scale in scales])
    mean = (weights * couplings).sum(0) / weights.sum(0)
    variance = sum(mean @ scale @ mean for scale in scales)
    difference = mean @ (couplings[0] - couplings[1])
    assert tests.strength.statistic == pytest.approx(abs(difference) / np.sqrt(variance))
    assert tests.strength.p_value == (1 + (strengths >= tests.strength.statistic).sum()) / 20
    assert tests.p_values.min() >= 1 / 20


def test_draws_do_not_depend_on_the_number_of_jobs_nor_on_interrupts(
    comparison: Any, tmp_path: pathlib.Path
) -> None:
    alone = comparison.permutation_tests(8, rng=3)
    with ThreadPoolExecutor(2) as pool:
        together = comparison.permutation_tests(8, rng=3, executor=pool)
    file = tmp_path / "draws"
    comparison.permutation_tests(4, rng=3, checkpoint=file)
    resumed = comparison.permutation_tests(8, rng=3, checkpoint=file)
    for tests in (together, resumed):
        assert tests.p_values.tolist() == alone.p_values.tolist()
        assert tests.strength == alone.strength
    with pytest.raises(EbmError, match="rng"):
        comparison.permutation_tests(8, rng=4, checkpoint=file)
    with pytest.raises(EbmError, match="another null hypothesis: permutations there, equal coup"):
        comparison.parametric_tests(8, rng=3, checkpoint=file)


def test_draws_without_an_estimate_count_against_a_difference() -> None:
    few = {"u": STATES[A.argsort()[-12:]], "v": STATES}
    comparison = ebm.compare_groups(few, equal="couplings")
    tests = comparison.permutation_tests(30, rng=0)
    assert tests.n_failed > 0
    assert tests.p_values.min() >= (1 + tests.n_failed) / 31
    assert f"{tests.n_failed} draws had no estimate" in str(tests)
    held = ebm.compare_groups(few, penalty=ebm.Penalty(l2=0.02, l2_biases=0.02))
    assert held.permutation_tests(30, rng=0).n_failed == 0


def test_draws_of_another_processor_are_told_of(
    comparison: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubts about fits of draws are hidden, and this one is not among them."""
    with monkeypatch.context() as patch:
        patch.setattr("ebm._jobs.processor", lambda: "another kind")
        comparison.permutation_tests(2, rng=3, checkpoint=tmp_path / "draws")
    with pytest.warns(ebm.EbmWarning, match="2 of 3 jobs were done by another kind"):
        comparison.permutation_tests(3, rng=3, checkpoint=tmp_path / "draws")


def test_a_damaged_checkpoint_is_refused(comparison: Any, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "draws"
    comparison.permutation_tests(2, rng=3, checkpoint=folder)
    with np.load(folder / "000000.npz") as archive:
        arrays = dict(archive)
    np.savez(folder / "000000.npz", **arrays | {"state.pairs": arrays["state.pairs"][:2]})
    with pytest.raises(FileFormatError, match="damaged"):
        comparison.permutation_tests(2, rng=3, checkpoint=folder)


def test_raw_differences_raise_false_alarms_where_studentized_ones_do_not() -> None:
    """Equal couplings, biases 2 apart, 600 and 200 rows; rank 1 of 20 has probability .05."""
    found = []
    for seed in range(12):
        rows = data_set(2.0, (600, 200), seed)
        comparison = ebm.compare_groups(rows, penalty=PENALTY, equal=["0"])
        found.append(p_values(comparison, 19, seed))
    alarms = (np.array(found) <= 0.05).sum(axis=0)
    # Of 12, up to 3 happen in 99.8 % at .05; raw differences have two thirds.
    raw_structure, strength, structure = alarms[1], alarms[2], alarms[3]
    assert max(strength, structure) <= 3
    assert raw_structure >= 5


def test_strengths_along_the_mean_have_no_noise_of_absent_couplings() -> None:
    """Of 190 couplings 20 are there, equal in groups of 800 and 300 rows, then 1.3 times larger."""
    random, n_sets = np.random.default_rng(0), 1000
    k, present = 190, np.arange(190) < 20
    truth = np.where(present, random.choice([-0.8, 0.8], k), 0.0)
    alarms = np.zeros((2, 2))
    scales = []
    for size in (800, 300):
        mixed = np.eye(k) + 0.3 * random.normal(size=(k, k)) / np.sqrt(k)
        scales.append(16 / size * mixed @ mixed.T)
    roots = [np.linalg.cholesky(scale) for scale in scales]
    for factor in (0, 1):
        for _ in range(n_sets):
            noise = np.array([root @ random.normal(size=k) for root in roots])
            couplings = truth * np.array([[1.0], [1 + 0.3 * factor]]) + noise
            _, strength = resampled_tests.studentized(couplings, np.array(scales))
            sums = [strength_of(*of_group) for of_group in zip(couplings, scales, strict=True)]
            (first, first_variance), (second, second_variance) = sums
            z = abs(first - second) / np.sqrt(first_variance + second_variance)
            alarms[factor] += np.array([strength, z]) > 1.96
    (along, sums), (power, _) = alarms / n_sets
    # Counting errors are .007.
    assert along == pytest.approx(0.05, abs=0.02)
    assert power > 0.5
    assert sums > 0.9


def test_a_sandwich_of_unseen_events_raises_false_alarms(monkeypatch: Any) -> None:
    """Of pseudo-likelihood the statistics are divided by √(H⁻¹/N); the sandwich is the mutant."""
    loss, alarms = ebm.inversion.Pseudolikelihood(), np.zeros((2, 6))
    for seed in range(8):
        rows = data_set(2.0, (600, 200), seed)
        comparison = ebm.compare_groups(rows, penalty=PENALTY, loss=loss, equal=["0"])
        for k, scale in enumerate((scale_of_estimates, of_estimates)):
            monkeypatch.setattr(resampled_tests, "scale_of_estimates", scale)
            alarms[k] += p_values(comparison, 19, seed) <= 0.05
    assert alarms[0, 2:5].max() <= 2
    assert alarms[1, 3] >= 3


def test_p_values_are_uniform_where_groups_are_equal() -> None:
    found = []
    for seed in range(16):
        rows = data_set(0.0, (150, 100), seed)
        tests = ebm.compare_groups(rows, penalty=PENALTY, equal=["0"]).permutation_tests(
            19, rng=seed
        )
        found.append((tests.structure.p_value, tests.strength.p_value, tests.p_values[1]))
    spread = np.random.default_rng(0).random((16, 3)) / 20
    for column in (np.array(found) - spread).T:
        assert kstest(column, "uniform").pvalue > 1e-3


# Rows with missing cells


def lacking(space: Any, share: float = 0.2, seed: int = 0) -> dict[str, pd.DataFrame]:
    """The rows of both tables, of which a share of the cells is missing."""
    random, parts = np.random.default_rng(seed), {}
    states = 2 * STATES - 1 if space is ebm.Spins else STATES
    for label, count in (("A", A), ("B", B)):
        rows = states.repeat(count, axis=0).astype(float)
        rows[random.random(rows.shape) < share] = np.nan
        parts[label] = pd.DataFrame(rows, columns=NAMES)
    return parts


def observed_log_likelihood(model: Any, rows: pd.DataFrame) -> float:
    """Σ_r ln Σ_m p(x_o, x_m), state by state."""
    low = min(model.space.values)
    states = np.where(STATES == 0, low, 1)
    p = np.exp(ebm.exact(model).log_probability(states))
    cells = rows.to_numpy()[:, None, :]
    fits = (np.isnan(cells) | (cells == states)).all(axis=2)
    return float(np.log(fits @ p).sum())


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
def test_ratios_of_incomplete_rows_are_those_of_their_observed_likelihood(space: Any) -> None:
    """Joint and separate fits are maxima: no step along their parameters is higher."""
    parts = lacking(space)
    comparison = ebm.compare_groups(parts, space=space, missing_at_random=True)
    assert "cells taken as missing at random" in str(comparison).splitlines()[0]
    random = np.random.default_rng(0)
    is_coupling = comparison.model.is_coupling
    free = [fit.model for fit in comparison.fits]
    best = sum(observed_log_likelihood(*each) for each in zip(free, parts.values(), strict=True))
    for test in comparison.equalities:
        models = [fit.model for fit in test.fits]
        equal = {"biases": ~is_coupling, "couplings": is_coupling, "all": is_coupling | True}
        flags = equal[test.equal]
        theta = np.array([model.parameters for model in models])
        assert np.ptp(theta[:, flags], axis=0) == pytest.approx(0, abs=1e-9)

        def total_at(theta: Any, models: Any = models) -> float:
            each = zip(models, theta, parts.values(), strict=True)
            return sum(observed_log_likelihood(m.with_parameters(t), rows) for m, t, rows in each)

        held = total_at(theta)
        assert test.statistic == pytest.approx(2 * (best - held), abs=1e-6)
        assert test.log_likelihood == pytest.approx(held, abs=1e-6)
        for _ in range(10):
            step = 1e-3 * random.normal(size=theta.shape)
            step[1, flags] = step[0, flags]
            both = total_at(theta + step), total_at(theta - step)
            assert max(both) < held
            assert both[0] - held == pytest.approx(both[1] - held, rel=0.1)
        assert all("missing at random" in fit.message for fit in test.fits)


def test_incomplete_rows_without_a_missing_cell_are_complete_ones(comparison: Any) -> None:
    kept = ebm.compare_groups(
        {label: ebm.IncompleteEnsemble.from_data(part) for label, part in lacking(None, 0).items()}
    )
    assert "missing" not in str(kept)
    for test, wanted in zip(kept.equalities, comparison.equalities, strict=True):
        assert test.statistic == pytest.approx(wanted.statistic, abs=1e-7)
    for kind in ("permutation_tests", "parametric_tests"):
        tests, others = (getattr(each, kind)(19, rng=0) for each in (kept, comparison))
        assert tests.p_values == pytest.approx(others.p_values)
        assert tests.strength.p_value == others.strength.p_value


def test_one_group_may_be_complete_and_units_may_have_another_order() -> None:
    parts = lacking(None)
    rows = [parts["A"], parts["B"].fillna(0).astype(int)]
    whole = pd.concat(rows).assign(group=["A"] * A.sum() + ["B"] * B.sum())
    by_column = ebm.compare_groups(whole, by="group", equal="all", missing_at_random=True)
    turned = {
        "A": ebm.IncompleteEnsemble.from_data(parts["A"]),
        "B": ebm.Ensemble.from_data(rows[1][NAMES[::-1]]),
    }
    by_table = ebm.compare_groups(turned, equal="all")
    for comparison in (by_column, by_table):
        assert comparison.model.space.names == tuple(NAMES)
        assert comparison.data[1].n_missing.tolist() == [0] * 4
    (first,), (second,) = by_column.equalities, by_table.equalities
    assert first.statistic == pytest.approx(second.statistic, abs=1e-7)


def test_levels_without_a_model_are_led_to_that_of_items() -> None:
    answers = np.random.default_rng(0).integers(1, 6, (40, 3))
    with pytest.raises(CodingError, match=r"'sleep'.*compared with model=ebm\.OrdinalModel"):
        ebm.compare_groups(
            pd.DataFrame(answers, columns=["sleep", "mood", "pain"]), by=np.arange(40) % 2
        )
    model = ebm.OrdinalModel(np.zeros((3, 3)), np.zeros((3, 5)))
    with pytest.raises(CodingError, match=r"subtract 1 from codes that begin with 1$"):
        ebm.compare_groups(answers, by=np.arange(40) % 2, model=model)


def test_rows_without_any_value_are_told_of() -> None:
    parts = {label: part.astype(float) for label, part in lacking(None, 0).items()}
    parts["B"].iloc[[2, 5]] = np.nan
    with pytest.warns(EbmWarning, match="group 'B': 2 rows show nothing, which no count"):
        kept = ebm.compare_groups(parts, missing_at_random=True)
    assert [rows.sample_size for rows in kept.data] == [A.sum(), B.sum() - 2]


def test_the_table_of_draws_says_when_holm_can_find_nothing(comparison: Any) -> None:
    texts = [str(comparison.permutation_tests(n, rng=0)) for n in (9, 119)]
    few, enough = (" ".join(text.split()) for text in texts)
    assert "p (Holm) of 6 couplings is at least 0.6, whatever the data" in few
    assert "take 119 draws" in few
    assert "at least" not in enough


@pytest.mark.parametrize("kind", ["permutations", "draws"])
def test_draws_lack_the_cells_that_the_rows_lack(kind: str) -> None:
    comparison = ebm.compare_groups(lacking(None), missing_at_random=True)
    models = tuple(fit.model for fit in comparison.equalities[1].fits) if kind == "draws" else ()
    plan = comparison._plan(models)
    wanted = [rows.counts @ rows.is_missing for rows in comparison.data]
    for seed in range(5):
        found = [rows.counts @ rows.is_missing for rows in plan.drawn(np.random.default_rng(seed))]
        assert sum(found).tolist() == sum(wanted).tolist()
        if models:
            assert [each.tolist() for each in found] == [each.tolist() for each in wanted]


def test_missing_cells_that_are_not_summed_over_are_refused() -> None:
    parts = lacking(None)
    with pytest.raises(MissingValueError, match=r"'A': .*drop these rows.*missing_at_random=True"):
        ebm.compare_groups(parts)
    n_lacking = int(parts["A"].isna().any(axis=1).sum() - parts["A"].isna().all(axis=1).sum())
    loss = ebm.inversion.Pseudolikelihood()
    with pytest.raises(MissingValueError, match=rf"'A': {n_lacking} of .*loss=ebm.Likelihood\(\)"):
        ebm.compare_groups(parts, loss=loss, missing_at_random=True)
    columns = [f"u{k}" for k in range(25)]
    wide = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (80, 25)) * 1.0, columns=columns)
    wide.iloc[3, 4] = np.nan
    with pytest.raises(MissingValueError, match=r"'1': 1 of 40 rows have missing cells"):
        ebm.compare_groups(wide, by=np.arange(80) % 2, missing_at_random=True)


def test_costs_are_stated_before_the_work(comparison: Any) -> None:
    with pytest.raises(LimitError, match=r"max_seconds=0\.01"):
        comparison.permutation_tests(1000, max_seconds=0.01)
    fractions = tables(A=A, B=B + 0.5)
    with pytest.raises(EbmError, match=r"'B': .*whole numbers"):
        ebm.compare_groups(fractions).permutation_tests(9)


# Which rows belong to which group


def frame() -> pd.DataFrame:
    rows = np.concatenate([STATES.repeat(A, axis=0), STATES.repeat(B, axis=0)])
    whole = pd.DataFrame(rows, columns=NAMES)
    whole["group"] = ["A"] * A.sum() + ["B"] * B.sum()
    return whole.sample(frac=1, random_state=0)


def test_groups_are_a_column_or_labels_or_tables(comparison: Any, tmp_path: pathlib.Path) -> None:
    whole, items = frame(), frame()[NAMES]
    numbers = whole.assign(group=(whole["group"] == "B").astype(int))
    path = tmp_path / "groups.csv"
    numbers.to_csv(path, index=False)
    by_label = {label: part[NAMES[::-1]] for label, part in whole.groupby("group")}
    given = (
        (whole, "group"),
        (items, whole["group"]),
        (items, whole["group"].sample(frac=1, random_state=1)),
        (items.to_numpy(), whole["group"].to_numpy()),
        (items.to_numpy().tolist(), whole["group"].tolist()),
        (whole.astype({"group": "category"}), "group"),
        (numbers, "group"),
        (ebm.read_table(path), "group"),
        (by_label, None),
        (list(tables().values()), None),
        (list(tables().values()), ["A", "B"]),
    )
    for data, by in given:
        other = ebm.compare_groups(data, by=by, equal="couplings")
        (test,) = other.equalities
        assert test.statistic == pytest.approx(16.92201331, abs=1e-6)
        assert other.groups in {("A", "B"), ("0", "1")}
    reverse = ebm.compare_groups(by_label)
    assert reverse.model.space.names == tuple(NAMES[::-1])
    sizes = np.sort(np.abs(reverse.differences[0].values))
    assert sizes == pytest.approx(np.sort(np.abs(comparison.differences[0].values)), rel=1e-7)


def test_groups_are_sorted_by_size_where_labels_are_numbers() -> None:
    rows = np.tile(STATES, (12, 1))
    by = np.repeat([10, 9, 2.0], 64)
    assert ebm.compare_groups(rows, by=by, equal=["0"]).groups == ("2", "9", "10")
    assert ebm.compare_groups(rows, by=by > 3, equal=["0"]).groups == ("False", "True")


def test_the_columns_of_the_second_group_are_aligned_by_name(comparison: Any) -> None:
    rows = {"A": tables()["A"], "B": pd.DataFrame(STATES.repeat(B, axis=0), columns=NAMES)}
    rows["B"] = rows["B"][["c", "a", "d", "b"]]
    (couplings,) = ebm.compare_groups(rows, equal="couplings").equalities
    assert couplings.statistic == pytest.approx(16.92201331, abs=1e-7)
    swapped = ebm.Ensemble.from_data(STATES[:, ::-1], sample_weight=B, names=NAMES[::-1])
    (couplings,) = ebm.compare_groups({**rows, "B": swapped}, equal="couplings").equalities
    assert couplings.statistic == pytest.approx(16.92201331, abs=1e-7)


# Text and figure


def test_the_text_has_groups_tests_and_differences(comparison: Any) -> None:
    text = str(comparison)
    assert text.splitlines()[0] == "2 groups over 4 units, by exact likelihood"
    assert "16.922   6   0.00957" in text
    assert "W[a, d]   -1.022  0.653   1.675 ± 0.492     3.4" in text
    assert max(map(len, text.splitlines())) <= 80
    tests = comparison.permutation_tests(9, rng=0)
    assert "9 permutations of rows between groups" in str(tests)
    assert max(map(len, str(tests).splitlines())) <= 80
    assert "A: 200 rows" in repr(comparison)
    assert "structure p=" in repr(tests)
    assert list(tests.to_frame().index) == list(tests.names)
    assert comparison["B"] is comparison.fits[1]
    with pytest.raises(KeyError, match="'A', 'B'"):
        comparison["C"]


def test_the_figure_shows_sorted_differences_with_intervals(comparison: Any) -> None:
    ax = plotting.group_differences(comparison, level=0.9)
    (differences,) = comparison.differences
    order = np.argsort(differences.values)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        differences.names[k] for k in order
    ]
    (segments,) = (collection.get_segments() for collection in ax.collections)
    drawn = np.array([segment[:, 0] for segment in segments])
    assert drawn.T == pytest.approx(differences.interval(0.9)[:, order])
    filled = next(line for line in ax.lines[1:] if line.get_mfc() != "white")
    assert filled.get_xdata() == pytest.approx([1.67534419])
    assert ax.get_xlabel() == "coupling: B minus A"
    assert ax.get_title(loc="right") == "filled: p ≤ 0.1 (Holm)"
    assert len(plotting.group_differences(comparison, most=2).get_yticks()) == 2
    assert comparison.plot().lines
    three = ebm.compare_groups(tables(A=A, B=B, C=A[::-1]), equal=["a"])
    legend = plotting.group_differences(three).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["B", "C"]
    with pytest.raises(EbmError, match="compare_groups"):
        plotting.group_differences(comparison.fits[0])
    with pytest.raises(EbmError, match="level"):
        plotting.group_differences(comparison, level=2)


def test_both_units_of_a_coupling_keep_their_names_in_tables_and_figures() -> None:
    names = [f"do you agree that {letter} is right" for letter in "abcd"]
    counts = {"A": A, "B": B}
    rows = {k: pd.DataFrame(STATES.repeat(c, axis=0), columns=names) for k, c in counts.items()}
    comparison = ebm.compare_groups(rows, equal="couplings")
    ax = plotting.group_differences(comparison, most=1)
    (label,) = (text.get_text() for text in ax.get_yticklabels())
    assert label == "W[0: do you ag… is right, 3: do you ag… is right]"
    assert ax.figure.get_size_inches()[0] > 5
    text = str(comparison)
    assert "W[do you ag…, do you ag…]" in text
    assert max(map(len, text.splitlines())) <= 88


# Refusals


@pytest.mark.parametrize(
    ("data", "settings", "error", "message"),
    [
        ({"u": STATES, "v": STATES[:0]}, {}, ShapeError, "group 'v': .*at least one row"),
        ({"u": STATES, "v": STATES[:, :3]}, {}, ShapeError, "group 'v': it has 3 units where 4"),
        ({"u": STATES}, {}, ShapeError, "two groups or more"),
        (STATES, {"by": ["x"] * 16}, ShapeError, "'x' alone"),
        (STATES, {}, EbmError, "by must say"),
        (STATES, {"by": [0, 1]}, ShapeError, "one label for each of the 16 rows"),
        (STATES, {"by": [None] + ["u", "v", "v"] * 5}, MissingValueError, "1 of 16 rows"),
        (STATES, {"by": [np.nan] + [1, 2, 2] * 5}, MissingValueError, "1 of 16 rows"),
        (np.tile(STATES, (4, 1)), {"by": np.arange(64)}, ShapeError, "64 different labels"),
        (STATES, {"by": "group"}, NamesError, "no column"),
        (tables(), {"by": ["u", "v"]}, EbmError, "by belongs to rows"),
        (list(tables().values()), {"by": ["u", "u"]}, NamesError, "2 different labels"),
        (tables()["A"], {"by": "a"}, ModelError, "is one group"),
        ({1: STATES, "1": STATES}, {}, NamesError, "differ as text"),
        (tables(), {"equal": "coupling"}, NamesError, "'coupling'"),
        (tables(), {"equal": [("a", "x")]}, NamesError, "no unit or pair"),
        (tables(), {"equal": ("a", "b")}, NamesError, "coupling of a pair"),
        (tables(), {"equal": []}, NamesError, "at least one"),
        (tables(), {"penalty": ebm.Penalty(l1=0.1)}, EbmError, "l2 and l2_biases alone"),
        (tables(), {"penalty": ebm.Penalty(free=[True] * 10)}, EbmError, "equal="),
        (tables(), {"loss": ebm.inversion.Pseudolikelihood(node_wise=True)}, EbmError, "tied"),
        (tables(), {"loss": ebm.Likelihood(ebm.PersistentChains())}, EbmError, "exact sums"),
        (tables(), {"model": ebm.Binary(4)}, ModelError, "ParametricModel"),
        ({"u": STATES, "v": STATES * [1, 1, 1, 0]}, {}, ConstantUnitError, "group 'v': .*'3'"),
        ({"u": STATES[1:], "v": STATES}, {"equal": ["0"]}, None, ""),
        ({"u": STATES, "v": STATES[[0, 1, 2, 4, 8, 7]]}, {}, EbmError, "group 'v': .*no maximum"),
        ({"u": STATES[:, :1], "v": STATES[:, :1]}, {}, ModelError, "no couplings"),
        ({"u": STATES, "v": STATES * 1.0 + np.nan}, {}, MissingValueError, "group 'v'"),
    ],
)
def test_bad_groups_are_a_sentence(data: Any, settings: Any, error: Any, message: str) -> None:
    if error is None:
        ebm.compare_groups(data, **settings)
        return
    with pytest.raises(error, match=message):
        ebm.compare_groups(data, **settings)


def test_groups_of_other_items_codings_or_exact_averages_are_refused() -> None:
    whole = pd.DataFrame(STATES, columns=NAMES)
    with pytest.raises(NamesError, match=r"group 'v': .*missing: 'd', unknown: 'e'"):
        ebm.compare_groups({"u": whole, "v": whole.rename(columns={"d": "e"})})
    other = ebm.Ensemble.from_data(STATES, names=["a", "b", "c", "e"])
    with pytest.raises(NamesError, match=r"group 'v'.*unknown: 'e'"):
        ebm.compare_groups({"u": tables()["A"], "v": other})
    with pytest.raises(NamesError, match="name both"):
        ebm.compare_groups({"u": STATES, "v": whole})
    with pytest.raises(CodingError, match="group 'v'"):
        ebm.compare_groups({"u": tables()["A"], "v": tables(ebm.Spins)["B"]})
    exact = ebm.exact(ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4)))
    with pytest.raises(EbmError, match=r"group 'u'.*sample from them"):
        ebm.compare_groups({"u": exact, "v": STATES})
    with pytest.raises(ModelError, match="rows are wanted"):
        ebm.compare_groups({"u": STATES, "v": tables()["A"].moments()})
    with pytest.raises(NamesError, match="one column beside others"):
        ebm.compare_groups(whole[["a"]], by="a")


def test_a_data_set_gives_its_states() -> None:
    data = ebm.datasets.spikes()
    with pytest.raises(ShapeError, match="of a Dataset give the states, with its names"):
        ebm.compare_groups(data, by=np.arange(len(data.states)) % 2)


def test_draws_of_billions_of_rows_are_refused_by_group_or_memory() -> None:
    rows = list(itertools.product([0, 1], repeat=2))
    for size, kind, sentence in [
        (1e9, LimitError, "group '0': rows are drawn one by one"),
        (2e8, MemoryLimitError, "each draw has as many rows as the data, 800000000 in a group"),
    ]:
        groups = [ebm.Ensemble.from_data(rows, sample_weight=[size] * 4)] * 2
        with pytest.raises(kind, match=sentence):
            ebm.compare_groups(groups).parametric_tests(2, rng=0)


def test_warnings_name_the_group_that_they_are_about() -> None:
    rng = np.random.default_rng(0)
    alone = rng.integers(0, 2, (400, 2))
    held = np.repeat(rng.integers(0, 2, (100, 2)), 4, axis=0)
    with pytest.warns(DependentRowsWarning, match="group 'held': the rows, in the order given"):
        ebm.compare_groups({"alone": alone, "held": held})
