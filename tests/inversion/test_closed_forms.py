"""Inversions by formulas: order of convergence, exact cases, codings, regularization, refusals."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit, logit

import ebm
from ebm.errors import CodingError, ConstantUnitError, EbmError, SingularCovarianceError
from ebm.inversion import (
    bethe,
    independent_pair,
    mean_field,
    naive_mean_field,
    sessak_monasson,
    tap,
)
from ebm.inversion._moments import pair_covariance, prepared
from tests import oracles, strategies

METHODS = [mean_field, naive_mean_field, tap, independent_pair, bethe, sessak_monasson]
BY_INVERSE = [naive_mean_field, tap, bethe, sessak_monasson]
BY_TABLES = [independent_pair, bethe, sessak_monasson]

#: Order of the first error, in couplings and in biases: method, of W, of b.
ORDERS = [
    (mean_field, 2, 2),
    (naive_mean_field, 2, 2),
    (tap, 3, 3),
    (independent_pair, 2, 3),
    (bethe, 3, 3),
    (sessak_monasson, 4, 5),
]


def machine_at(epsilon, seed, n=5):
    """Couplings ε W about a point without symmetry, centered at its own mean field."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 1, (n, n)), 1)
    biases = rng.uniform(-1.5, 1.5, n) + 0.3
    return ebm.BoltzmannMachine(epsilon * (weights + weights.T), biases, center=expit(biases))


def tree(seed, n=8, scale=1.5):
    """Random couplings on a random tree."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((n, n))
    for child in range(1, n):
        parent = rng.integers(child)
        weights[child, parent] = weights[parent, child] = rng.normal(0, scale)
    return ebm.BoltzmannMachine(weights, rng.normal(0, 1, n))


class TestOrder:
    EPSILONS = np.array([0.02, 0.04, 0.08])

    def slopes(self, errors):
        # At fifth order the smallest couplings leave rounding errors only.
        errors, epsilons = np.array(errors), self.EPSILONS
        if errors.min() < 1e-11:
            errors, epsilons = errors[1:], epsilons[1:]
        assert errors.min() > 1e-11
        return np.diff(np.log(errors)) / np.diff(np.log(epsilons))

    @pytest.mark.parametrize(("method", "of_weights", "of_biases"), ORDERS)
    @pytest.mark.parametrize("seed", [0, 2, 5])
    def test_first_error(self, method, of_weights, of_biases, seed):
        weights, biases = [], []
        for epsilon in self.EPSILONS:
            machine = machine_at(epsilon, seed)
            moments = ebm.exact(machine).moments()
            model = method(moments)
            weights.append(np.abs(model.weights - machine.weights).max())
            expected = machine.recentered(moments.mean).biases
            biases.append(np.abs(model.biases - expected).max())
        for errors, order in ((weights, of_weights), (biases, of_biases)):
            slopes = self.slopes(errors)
            assert slopes.min() > order - 0.3
            assert slopes.max() < order + 0.4


class TestFormulas:
    @given(strategies.boltzmann_machines(min_units=2, max_units=5, scale=0.6))
    def test_by_loops(self, machine):
        moments = ebm.exact(machine).moments()
        m, c = moments.mean, moments.covariance
        v, s = m * (1 - m), 1 - 2 * m
        inverse = np.linalg.inv(c)
        # Elsewhere the quadratic equation of TAP has no real root, and `tap` says so.
        assume((1 - 2 * np.outer(s, s) * inverse)[~np.eye(machine.n, dtype=bool)].min() > 0)
        naive, second, pair = (f(moments) for f in (naive_mean_field, tap, independent_pair))
        sm = sessak_monasson(moments)
        for i in range(machine.n):
            for j in range(machine.n):
                if i == j:
                    continue
                both = m[i] * m[j] + c[i, j]
                table = both * (1 - m[i] - m[j] + both) / ((m[i] - both) * (m[j] - both))
                close = {"rel": 1e-7, "abs": 1e-9}
                assert naive.weights[i, j] == pytest.approx(-inverse[i, j], **close)
                w = second.weights[i, j]
                assert w + s[i] * s[j] * w**2 / 2 == pytest.approx(-inverse[i, j], **close)
                assert pair.weights[i, j] == pytest.approx(np.log(table), **close)
                expected = -inverse[i, j] + np.log(table) - c[i, j] / (v[i] * v[j] - c[i, j] ** 2)
                assert sm.weights[i, j] == pytest.approx(expected, **close)
        np.testing.assert_allclose(naive.biases, logit(m), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(naive.center, m)

    def test_sessak_monasson_is_the_gradient_of_one_entropy(self):
        # S(m, C) = Σ S_i + ½ ln det C − ½ Σ ln v_i + Σ_pairs (S_ij − S_i − S_j − ½ ln(1 − c²/vv));
        # W_ij = −∂S/∂C_ij and, at center m, b_i = −∂S/∂m_i.
        moments = ebm.exact(machine_at(0.7, 4, n=4)).moments()
        i, j = np.triu_indices(4, 1)

        def entropy_of(p):
            return -(p * np.log(p)).sum()

        def entropy(theta):
            m, c = theta[:4], theta[4:]
            v = m * (1 - m)
            full = np.diag(v)
            full[i, j] = full[j, i] = c
            single = np.array([entropy_of(np.array([x, 1 - x])) for x in m])
            total = single.sum() + 0.5 * np.linalg.slogdet(full)[1] - 0.5 * np.log(v).sum()
            for a, b, value in zip(i, j, c, strict=True):
                cells = np.outer([m[a], 1 - m[a]], [m[b], 1 - m[b]]) + value * np.array(
                    [[1, -1], [-1, 1]]
                )
                total += entropy_of(cells) - single[a] - single[b]
                total -= 0.5 * np.log(1 - value**2 / (v[a] * v[b]))
            return total

        theta = np.concatenate([moments.mean, moments.covariance[i, j]])
        slopes = -oracles.finite_difference(entropy, theta)
        model = sessak_monasson(moments)
        # Central differences leave about 1e-8 of their third derivatives.
        np.testing.assert_allclose(model.biases, slopes[:4], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(model.weights[i, j], slopes[4:], rtol=1e-6, atol=1e-7)

    def test_tap_is_naive_at_half(self):
        rng = np.random.default_rng(0)
        rows = rng.integers(0, 2, (60, 4))
        moments = ebm.Ensemble.from_data(np.concatenate([rows, 1 - rows])).moments()
        np.testing.assert_allclose(
            tap(moments).weights, naive_mean_field(moments).weights, rtol=1e-10, atol=1e-12
        )

    @given(strategies.generators(), st.floats(-30, 30))
    def test_pair_covariance_solves_its_equation(self, rng, coupling):
        mean = rng.uniform(0.05, 0.95, 2)
        weights = np.array([[0.0, coupling], [coupling, 0.0]])
        c = pair_covariance(weights, mean)[0, 1]
        (a, b), top = mean, max(mean[0] + mean[1] - 1, 0)
        assert top - a * b <= c <= min(a, b) - a * b + 1e-15
        if abs(coupling) < 10:
            p11, p10, p01 = a * b + c, a * (1 - b) - c, (1 - a) * b - c
            p00 = 1 - p11 - p10 - p01
            assert np.log(p11 * p00 / (p10 * p01)) == pytest.approx(coupling, rel=1e-6, abs=1e-9)

    def test_pair_covariance_at_couplings_whose_exponential_overflows(self):
        for coupling, limit in ((800.0, 0.3 - 0.18), (-800.0, -0.18)):
            weights = np.array([[0.0, coupling], [coupling, 0.0]])
            c = pair_covariance(weights, np.array([0.3, 0.6]))
            assert c[0, 1] == pytest.approx(limit, rel=1e-14)


class TestExactCases:
    @pytest.mark.parametrize("seed", range(6))
    def test_bethe_on_trees(self, seed):
        machine = tree(seed)
        model = bethe(ebm.exact(machine)).recentered(0.0)
        np.testing.assert_allclose(model.weights, machine.weights, atol=1e-10)
        np.testing.assert_allclose(model.biases, machine.biases, atol=1e-10)

    def test_no_other_is_exact_on_trees(self):
        machine = tree(1)
        for method in (mean_field, naive_mean_field, tap, independent_pair, sessak_monasson):
            assert np.abs(method(ebm.exact(machine)).weights - machine.weights).max() > 1e-3

    @pytest.mark.parametrize("method", BY_TABLES)
    @given(rng=strategies.generators())
    def test_two_units(self, method, rng):
        machine = ebm.BoltzmannMachine(
            rng.normal(0, 2) * np.array([[0, 1], [1, 0]]), rng.normal(0, 1.5, 2)
        )
        model = method(ebm.exact(machine)).recentered(0.0)
        np.testing.assert_allclose(model.weights, machine.weights, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(model.biases, machine.biases, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("method", METHODS)
    def test_independent_units(self, method):
        biases = np.array([0.3, -2.0, 1.1])
        machine = ebm.BoltzmannMachine(np.zeros((3, 3)), biases)
        model = method(ebm.exact(machine)).recentered(0.0)
        np.testing.assert_allclose(model.weights, 0, atol=1e-12)
        np.testing.assert_allclose(model.biases, biases, rtol=1e-12)

    @pytest.mark.parametrize("method", METHODS)
    def test_one_unit(self, method):
        model = method(ebm.Ensemble.from_data([[0], [1], [1], [1]]))
        assert model.biases[0] == pytest.approx(np.log(3), rel=1e-14)


@pytest.mark.parametrize("method", METHODS)
class TestCodings:
    def test_both_codings_give_one_distribution(self, method):
        moments = ebm.exact(machine_at(0.5, 1)).moments()
        binary, spins = method(moments), method(moments.to(ebm.Spins))
        assert isinstance(binary, ebm.BoltzmannMachine)
        assert isinstance(spins, ebm.IsingModel)
        one, other = ebm.exact(binary), ebm.exact(spins)
        np.testing.assert_allclose(
            one.log_probability(one.states),
            other.log_probability(2 * one.states - 1),
            rtol=1e-10,
        )

    def test_flipping_all_units_keeps_couplings_and_negates_fields(self, method):
        moments = ebm.exact(machine_at(0.5, 3)).moments().to(ebm.Spins)
        flipped = ebm.Moments(moments.space, -moments.mean, moments.covariance)
        model, mirrored = method(moments), method(flipped)
        np.testing.assert_allclose(mirrored.couplings, model.couplings, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mirrored.fields, -model.fields, rtol=1e-9, atol=1e-12)

    def test_names_and_whatever_has_moments(self, method):
        rows = np.random.default_rng(0).integers(0, 2, (50, 3))
        data = ebm.Ensemble.from_data(rows, names=["a", "b", "c"])
        model = method(data)
        assert model.names == ("a", "b", "c")
        assert method(data.moments()).equals(model)
        assert method(data.moments().to(ebm.Spins)).names == ("a", "b", "c")


class TestRegularization:
    ROWS = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]])

    @given(st.integers(1, 6))
    def test_pseudocount_is_rows_of_every_kind(self, a):
        # 8a rows of the uniform distribution, each of weight 1/8.
        everything = ebm.Binary(3).states_at(np.arange(8))
        rows = np.concatenate([self.ROWS, everything])
        weights = np.concatenate([np.ones(5), np.full(8, a / 8)])
        mixed = ebm.Ensemble.from_data(rows, sample_weight=weights)
        ready = prepared(ebm.Ensemble.from_data(self.ROWS), pseudocount=a)
        np.testing.assert_allclose(ready.mean, mixed.moments().mean, rtol=1e-14)
        np.testing.assert_allclose(ready.covariance, mixed.moments().covariance, atol=1e-15)
        for method in METHODS:
            given_to_method = method(ebm.Ensemble.from_data(self.ROWS), pseudocount=a)
            np.testing.assert_allclose(
                given_to_method.weights, method(mixed).weights, rtol=1e-9, atol=1e-12
            )

    def test_shrinkage_scales_covariances_of_different_units(self):
        data = ebm.Ensemble.from_data(self.ROWS)
        plain, shrunk = prepared(data), prepared(data, shrinkage=0.25)
        off = ~np.eye(3, dtype=bool)
        np.testing.assert_allclose(shrunk.covariance[off], 0.75 * plain.covariance[off])
        np.testing.assert_array_equal(shrunk.covariance.diagonal(), plain.covariance.diagonal())
        for method in METHODS:
            flat = method(data, shrinkage=1)
            np.testing.assert_allclose(flat.weights, 0, atol=1e-12)
            np.testing.assert_allclose(flat.biases, plain.log_odds, rtol=1e-12)

    @pytest.mark.parametrize("method", METHODS)
    def test_the_cures_cure(self, method):
        data = ebm.Ensemble.from_data([[0, 0, 1], [1, 1, 1], [0, 0, 1], [1, 1, 1]])
        model = method(data, pseudocount=1)
        assert np.isfinite(model.parameters).all()
        assert model.weights[0, 1] > 0

    def test_pseudocount_needs_a_number_of_samples(self):
        moments = ebm.exact(machine_at(0.3, 0)).moments()
        with pytest.raises(EbmError, match="sample_size"):
            naive_mean_field(moments, pseudocount=1)

    @pytest.mark.parametrize(
        "setting", [{"pseudocount": -1}, {"pseudocount": np.nan}, {"shrinkage": 1.5}]
    )
    def test_settings_out_of_range(self, setting):
        with pytest.raises(EbmError, match=next(iter(setting))):
            tap(ebm.Ensemble.from_data(self.ROWS), **setting)


class TestRefusals:
    @pytest.mark.parametrize("method", METHODS)
    def test_constant_units(self, method):
        data = ebm.Ensemble.from_data([[0, 1, 1], [1, 1, 0], [1, 1, 1]], names=["a", "b", "c"])
        with pytest.raises(ConstantUnitError, match=r"unit 'b' never changes.*pseudocount"):
            method(data)
        nearly = ebm.Moments(ebm.Binary(2), [0.5, 4e-15], [[0.25, 0], [0, 4e-15]])
        with pytest.raises(ConstantUnitError, match="unit '1' never changes"):
            method(nearly)

    @pytest.mark.parametrize("method", BY_INVERSE)
    def test_equal_and_opposite_units(self, method):
        rows = np.random.default_rng(0).integers(0, 2, (50, 3))
        rows = np.column_stack([rows, rows[:, 0], 1 - rows[:, 2]])
        data = ebm.Ensemble.from_data(rows, names=list("abcde"))
        message = "units 'a' and 'd' are always equal and units 'c' and 'e' are always opposite"
        with pytest.raises(SingularCovarianceError, match=message):
            method(data)

    @pytest.mark.parametrize("method", BY_INVERSE)
    @pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
    def test_fewer_samples_than_units(self, method):
        rows = np.random.default_rng(1).integers(0, 2, (7, 9))
        rows[:2] = [[0] * 9, [1] * 9]
        data = ebm.Ensemble.from_data(rows)
        with pytest.raises(
            SingularCovarianceError, match=r"7 samples for 9 units.*pseudocount=1.*shrinkage=0\.1"
        ):
            method(data)
        assert np.isfinite(method(data, pseudocount=5).parameters).all()

    def test_dependent_units_are_named(self):
        rng = np.random.default_rng(2)
        one_hot = np.eye(3)[rng.integers(0, 3, 60)]
        rows = np.column_stack([rng.integers(0, 2, 60), one_hot])
        with pytest.raises(
            SingularCovarianceError, match="units '1', '2', '3' are linearly dependent"
        ):
            naive_mean_field(ebm.Ensemble.from_data(rows))

    @pytest.mark.parametrize("method", [independent_pair, sessak_monasson])
    def test_pairs_never_on_together(self, method):
        rows = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
        data = ebm.Ensemble.from_data(rows, names=["a", "b", "c"])
        with pytest.raises(EbmError, match=r"describes units 'a' and 'b': some.*pseudocount"):
            method(data)

    def test_bethe_without_a_table(self):
        # Strong mutual inhibition of three rare units: the response asks for p₁₁ < 0.
        mean = np.full(3, 0.3)
        covariance = np.full((3, 3), -0.09)
        np.fill_diagonal(covariance, 0.21)
        moments = ebm.Moments(ebm.Binary(3), mean, covariance)
        with pytest.raises(EbmError, match=r"units '0' and '1'.*'1' and '2'"):
            bethe(moments)

    def test_tap_without_a_root(self):
        mean = np.full(3, 0.2)
        covariance = np.full((3, 3), -0.039)
        np.fill_diagonal(covariance, 0.16)
        moments = ebm.Moments(ebm.Binary(3, names=["a", "b", "c"]), mean, covariance)
        with pytest.raises(EbmError, match="no real root for units 'a' and 'b'"):
            tap(moments)

    @pytest.mark.parametrize("method", METHODS)
    def test_impossible_moments(self, method):
        tables = ebm.Moments(ebm.Binary(2), [0.2, 0.2], [[0.16, -0.1], [-0.1, 0.16]])
        with pytest.raises(EbmError, match="no distribution has these moments"):
            method(tables)
        covariance = np.full((3, 3), -0.2)
        np.fill_diagonal(covariance, 0.25)
        with pytest.raises(EbmError, match="negative eigenvalue"):
            method(ebm.Moments(ebm.Binary(3), np.full(3, 0.5), covariance))

    @pytest.mark.parametrize("method", METHODS)
    def test_other_things(self, method):
        with pytest.raises(EbmError, match="from_data"):
            method([[0, 1], [1, 0]])
        with pytest.raises(CodingError, match="Levels"):
            method(ebm.Ensemble.from_data([[0, 2], [1, 1], [2, 0]], space=ebm.Levels(2, 3)))
        rows = np.random.default_rng(0).integers(0, 2, (50, 3))
        with pytest.raises(CodingError, match="ddof=0"):
            method(ebm.Moments(ebm.Binary(3), rows.mean(axis=0), np.cov(rows.T)))


def test_rounding_of_one_order_of_a_pair_is_no_pair_written_once():
    """Blocks without correlation leave −5·10⁻³² at one place and 0 at its mirror image."""
    data = ebm.Ensemble.from_data(ebm.Binary(3).states_at(range(8)))
    weights = np.array([[0, 0.5, 0], [0.5, 0, -4.93038e-32], [0, 0, 0]])
    model = prepared(data).model(weights, np.zeros(3))
    np.testing.assert_array_equal(model.weights, weights / 2 + weights.T / 2)
