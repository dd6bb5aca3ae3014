"""Data for which the likelihood has no maximum: said, named, and finite under a penalty."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

import ebm
from ebm.errors import ConstantUnitError, FewSamplesWarning, NoMaximumWarning
from tests import oracles, strategies

NAMES = ("ann", "bob", "cat", "dan")


def machine(n=4, **options):
    return ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n), **options)


def base(n=4, n_rows=400):
    return np.random.default_rng(1).integers(0, 2, (n_rows, n)).astype(np.int8)


def never_both(rows):
    return rows[(rows[:, 0] & rows[:, 2]) == 0]


def never_neither(rows):
    return rows[(rows[:, 0] | rows[:, 2]) == 1]


def implies(rows):
    return rows[(rows[:, 0] == 0) | (rows[:, 2] == 1)]


def equal(rows):
    rows = rows.copy()
    rows[:, 2] = rows[:, 0]
    return rows


def opposite(rows):
    rows = rows.copy()
    rows[:, 2] = 1 - rows[:, 0]
    return rows


#: What is missing in the table of ann and cat, and the words for it.
PAIRS = [
    (never_both, "'ann' and 'cat' are never both on"),
    (never_neither, "'ann' and 'cat' are never both off"),
    (implies, "'ann' and 'cat' are never on and off"),
    (equal, "'ann' and 'cat' are always equal"),
    (opposite, "'ann' and 'cat' are always opposite"),
]
#: The exact ensemble, which knows fourth moments, and moments alone, which are fitted by L-BFGS.
ROUTES = [ebm.exact, lambda model: ebm.exact(model).moments()]


def check_no_maximum(family, data, said, **options):
    """A warning with these words, and a result without a NaN that does not claim to be one."""
    with pytest.warns(NoMaximumWarning, match=said) as caught:
        result = ebm.fit(family, data, **options)
    assert len(caught) == 1
    # The line that called fit is the line blamed.
    assert caught[0].filename == __file__
    assert not result.converged
    assert "no maximum" in result.message
    assert re.search(said, result.warnings[0])
    advice = r"penalty on couplings, such as penalty=ebm\.Penalty\(l2=\de-0\d\)"
    assert re.search(advice, result.warnings[0])
    assert np.isfinite(result.model.parameters).all()
    assert math.isfinite(result.log_likelihood)
    assert math.isfinite(result.gradient_norm)
    if result.standard_errors is not None:
        assert not np.isnan(result.standard_errors).any()
        assert np.isinf(result.standard_errors).any()
    assert np.isfinite(ebm.exact(result.model).moments().covariance).all()
    return result


def check_penalty_helps(family, data, **strengths):
    """The same data with a penalty: a finite maximum, no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(family, data, penalty=ebm.Penalty(**{"l2": 1e-3, **strengths}))
    assert result.converged
    assert not result.warnings
    assert np.abs(result.model.parameters).max() < 100
    assert np.isfinite(result.standard_errors).all()
    return result


class TestPairs:
    @pytest.mark.parametrize("average", ROUTES)
    @pytest.mark.parametrize(("keep", "said"), PAIRS)
    def test_empty_cells(self, keep, said, average):
        rows = keep(base())
        check_no_maximum(machine(names=NAMES), rows, said, loss=ebm.Likelihood(average))

    @pytest.mark.parametrize(("keep", "said"), PAIRS)
    def test_with_a_penalty(self, keep, said):
        result = check_penalty_helps(machine(names=NAMES), keep(base()))
        own = ebm.exact(result.model).moments().second[0, 2]
        assert abs(own - keep(base())[:, [0, 2]].prod(axis=1).mean()) < 0.02

    @pytest.mark.parametrize(("keep", "said"), PAIRS)
    def test_in_the_other_coding_from_moments(self, keep, said):
        data = ebm.Ensemble.from_data(keep(base())).moments()
        spins = ebm.IsingModel(np.zeros((4, 4)), np.zeros(4), names=NAMES)
        result = check_no_maximum(spins, data, said)
        # Errors are infinite for parameters of the pair alone; where the two are one unit, also
        # for how their couplings to a third are shared out.
        infinite = np.isinf(result.standard_errors)
        labels = np.array(spins.parameter_names)[infinite]
        assert "J[ann, cat]" in labels
        assert all("ann" in label or "cat" in label for label in labels)

    def test_the_rest_of_the_model_is_usable(self):
        rows = never_both(base(n_rows=4000))
        result = check_no_maximum(machine(names=NAMES), rows, "never both on")
        own = ebm.exact(result.model).moments()
        np.testing.assert_allclose(own.mean, rows.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(own.covariance, np.cov(rows.T, ddof=0), atol=1e-6)
        # Only the coupling of the pair is without bound in {0,1}.
        assert np.isinf(result.standard_errors).sum() == 1
        assert math.isinf(result.standard_errors[4 + 1])

    def test_many_pairs_are_counted(self):
        # Six units of which exactly one is on.
        rows = np.repeat(np.eye(6, dtype=np.int8), [3, 4, 5, 6, 7, 8], axis=0)
        check_no_maximum(machine(6), rows, r"never both on; and 11 more pairs")
        check_penalty_helps(machine(6), rows)

    @pytest.mark.parametrize("keep", [implies, never_neither, equal])
    def test_a_penalty_on_biases_alone_bounds_a_coupling_that_needs_them(self, keep):
        """W grows with −b: what holds b holds W; of a pair that is never both on it does not."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ebm.fit(
                machine(names=NAMES), keep(base()), penalty=ebm.Penalty(l2_biases=1e-2)
            ).converged
        held = ebm.Penalty(l2_biases=1e-2)
        check_no_maximum(machine(names=NAMES), never_both(base()), "'ann', 'cat'", penalty=held)

    def test_a_penalty_on_biases_is_enough_for_a_unit_that_never_changes(self):
        rows = base()
        rows[:, 1] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = ebm.fit(machine(names=NAMES), rows, penalty=ebm.Penalty(l2_biases=1e-3))
        assert result.converged
        assert np.isfinite(result.standard_errors).all()

    def test_a_pair_that_is_not_coupled_may_be_anything(self):
        # ann and cat are never both on, but the family has no coupling for them.
        pattern = np.ones((4, 4)) - np.eye(4)
        pattern[0, 2] = pattern[2, 0] = 0
        family = ebm.BoltzmannMachine(sparse.csr_array(pattern), np.zeros(4), names=NAMES)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ebm.fit(family, never_both(base())).converged

    def test_a_single_occurrence_is_enough(self):
        rows = np.concatenate([never_both(base()), [[1, 0, 1, 0]]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = ebm.fit(machine(names=NAMES), rows)
        assert result.converged
        assert np.isfinite(result.standard_errors).all()


class TestConstantUnits:
    @pytest.mark.parametrize("value", [0, 1])
    @pytest.mark.parametrize("average", ROUTES)
    def test_refused_by_name(self, value, average):
        rows = base()
        rows[:, 1] = value
        with pytest.raises(
            ConstantUnitError, match=r"unit 'bob' never changes.*\(l2_biases=\de-0\d\)"
        ):
            ebm.fit(machine(names=NAMES), rows, loss=ebm.Likelihood(average))
        rows[:, 3] = 1 - value
        with pytest.raises(ConstantUnitError, match="'bob', 'dan'"):
            ebm.fit(machine(names=NAMES), rows)

    @pytest.mark.parametrize("value", [0, 1])
    def test_with_a_penalty(self, value):
        rows = base()
        rows[:, 1] = value
        result = check_penalty_helps(machine(names=NAMES), rows, l2_biases=1e-3)
        assert result.model.conditional(rows)[:, 1] - value == pytest.approx(0, abs=0.02)

    def test_in_moments_with_rounding_errors(self):
        """A variance of −4e-15 is a constant."""
        covariance = np.diag([0.25, -4e-15])
        moments = ebm.Moments(ebm.Binary(2), [0.5, 1 + 4e-15], covariance)
        with pytest.raises(ConstantUnitError, match="'1'"):
            ebm.fit(machine(2), moments)

    def test_one_row(self):
        with pytest.warns(FewSamplesWarning), pytest.raises(ConstantUnitError, match="'0', '1'"):
            ebm.fit(machine(2), [[0, 1]])


class TestLargerFaces:
    """All pair tables are full, and still there is no maximum."""

    @staticmethod
    def never_alike(rows):
        total = rows[:, 0] + rows[:, 1] + rows[:, 3]
        return rows[(total != 0) & (total != 3)]

    @pytest.mark.parametrize("average", ROUTES[:1])
    def test_three_units_never_000_nor_111(self, average):
        rows = self.never_alike(base())
        result = check_no_maximum(
            machine(names=NAMES),
            rows,
            "some combination of 'ann', 'bob', 'dan' never occurs",
            loss=ebm.Likelihood(average),
        )
        labels = np.array(machine(names=NAMES).parameter_names)[np.isinf(result.standard_errors)]
        assert {"W[ann, bob]", "W[ann, dan]", "W[bob, dan]"} <= set(labels)
        assert not any("cat" in label for label in labels)

    def test_in_the_other_coding(self):
        rows = 2 * self.never_alike(base()).astype(int) - 1
        spins = ebm.IsingModel(np.zeros((4, 4)), np.zeros(4), names=NAMES)
        check_no_maximum(spins, rows, "'ann', 'bob', 'dan' never occurs")

    def test_with_a_penalty(self):
        rows = self.never_alike(base())
        result = check_penalty_helps(machine(names=NAMES), rows)
        alike = ebm.exact(result.model).expectation(
            lambda x: np.isin(x[:, 0] + x[:, 1] + x[:, 3], (0, 3))
        )
        assert alike < 0.03

    def test_a_face_of_four_units(self):
        # Never all alike among four, and never exactly one on: x·θ with θ = (sum − 2)(sum − 3).
        rows = base(5, 900)
        rows = rows[np.isin(rows[:, :4].sum(axis=1), (2, 3))]
        assert not oracles.maximum_exists(rows, np.triu_indices(5, 1))
        check_no_maximum(machine(5), rows, "'0', '1', '2', '3' never occurs")

    def test_two_of_000_and_111_alone_are_no_face(self):
        # Only 000 is missing: the pair tables are full and the maximum exists or not as the
        # linear program says.
        rows = base()
        rows = rows[rows[:, :3].sum(axis=1) != 0]
        pairs = np.triu_indices(4, 1)
        assert oracles.maximum_exists(rows, pairs)
        assert ebm.fit(machine(), rows).converged

    def test_fewer_patterns_than_parameters(self):
        patterns = ebm.Binary(5).states_at([0, 7, 12, 18, 25, 31]).astype(np.int8)
        rows = np.repeat(patterns, 20, axis=0)
        check_no_maximum(machine(5), rows, "no maximum")
        check_penalty_helps(machine(5), rows)


class TestAgainstLinearProgram:
    @given(strategies.rows_that_may_miss_patterns(), strategies.generators())
    @settings(max_examples=80)
    def test_a_maximum_is_claimed_exactly_where_there_is_one(self, rows, rng):
        n = rows.shape[1]
        family = machine(n, center=rng.uniform(-1, 2, n))
        exists = oracles.maximum_exists(rows, family.pairs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = ebm.fit(family, rows)
        assert result.converged == exists
        assert any(w.category is NoMaximumWarning for w in caught) == (not exists)
        assert ("no maximum" in result.message) == (not exists)
        assert np.isfinite(result.model.parameters).all()
        assert not np.isnan(result.standard_errors).any()
        assert np.isfinite(result.standard_errors).all() == exists

    def test_both_outcomes_are_common(self):
        # The strategy above would prove nothing if one answer were rare.
        rng = np.random.default_rng(0)
        answers = []
        for _ in range(60):
            patterns = ebm.Binary(3).states_at(rng.choice(8, rng.integers(3, 9), replace=False))
            answers.append(oracles.maximum_exists(patterns, np.triu_indices(3, 1)))
        assert 5 < sum(answers) < 55

    @given(strategies.binary_rows(min_units=2))
    @settings(max_examples=15)
    def test_all_patterns_seen_is_always_enough(self, rows):
        assert oracles.maximum_exists(rows, np.triu_indices(rows.shape[1], 1))


def test_rare_is_not_never():
    """A cell of one in 10⁶ is data, not a face."""
    table = np.array([0.4, 0.3, 0.3 - 1e-6, 1e-6])
    moments = ebm.exact(ebm.TabularModel.from_probabilities(table, ebm.Binary(2))).moments()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(machine(2), moments)
    assert result.converged
    np.testing.assert_allclose(ebm.exact(result.model).weights, table, rtol=1e-7, atol=1e-9)


class TestRareUnits:
    @pytest.mark.parametrize("rate", [1e-5, 1e-7])
    def test_rare_is_not_never(self, rate):
        """Cells that are small because their units are rare are no empty cells."""
        bias = math.log(rate)
        truth = ebm.BoltzmannMachine([[0, 1], [1, 0]], [bias, bias])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = ebm.fit(machine(2), ebm.exact(truth))
        assert result.converged
        assert result.model.weights[0, 1] == pytest.approx(1, abs=0.05)


class TestImpossible:
    """Moments that no distribution has, though every pair's table is possible."""

    @staticmethod
    def moments(size, covariance):
        full = np.full((size, size), covariance)
        np.fill_diagonal(full, 0.25)
        return ebm.Moments(ebm.Binary(size), [0.5] * size, full, sample_size=100)

    def test_covariances_with_a_negative_eigenvalue(self):
        with pytest.raises(ebm.EbmError, match="negative eigenvalue"):
            ebm.fit(machine(3), self.moments(3, -0.2))
        with pytest.raises(ebm.EbmError, match="would hold the probability"):
            ebm.inversion.mean_field(self.moments(2, 0.3))

    def test_three_units_cannot_all_differ(self):
        """C = −0.1 is positive semi-definite, and one of three pairs must agree."""
        with pytest.raises(ebm.EbmError, match="likelier than certain"):
            ebm.fit(machine(3), self.moments(3, -0.1))
