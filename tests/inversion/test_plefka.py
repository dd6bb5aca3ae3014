"""Inversion at fixed means: closed forms, order of convergence, samples, roots or none."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import ebm
from ebm.errors import (
    ConstantUnitError,
    ConvergenceError,
    EbmError,
    LimitError,
    SeriesWarning,
    SingularCovarianceError,
)
from ebm.inversion import bethe, mean_field, naive_mean_field, plefka, sessak_monasson, tap
from ebm.inversion._fixed_means import couplings_of_pairs, pair_remainder, slope_of_pairs
from ebm.inversion._moments import pair_covariance
from tests.inversion.test_closed_forms import machine_at, tree
from tests.inversion.test_sherrington_kirkpatrick import N_SAMPLES, N
from tests.strategies import boltzmann_machines, generators

FEW = settings(max_examples=15, deadline=None)
MEANS = np.array([0.5, 0.2, 0.65, 0.9])


def spin_glass(beta, seed, n=N):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0, beta / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(upper + upper.T, rng.uniform(-0.3 * beta, 0.3 * beta, n))


def couplings_of_one(value, n=4):
    return value * (np.ones((n, n)) - np.eye(n))


class TestOrder:
    def errors(self, method, epsilon, seed):
        model = machine_at(epsilon, seed)
        moments = ebm.exact(model).moments()
        found = method(moments)
        return (
            np.abs(found.weights - model.weights).max(),
            np.abs(found.biases - model.recentered(moments.mean).biases).max(),
        )

    def check(self, method, order, epsilons, seed):
        errors = [self.errors(method, epsilon, seed) for epsilon in epsilons]
        assert np.min(errors) > 1e-11
        slopes = np.log(np.divide(*errors)) / np.log(np.divide(*epsilons))
        assert (slopes > order + 0.7).all()
        assert (slopes < order + 2.2).all()

    @pytest.mark.parametrize("order", range(1, 6))
    @pytest.mark.parametrize("resum_pairs", [False, True])
    @pytest.mark.parametrize("seed", [0, 2])
    def test_couplings_and_biases(self, order, resum_pairs, seed):
        """Both right to order K; pairs resummed are right to order 2 at order 1."""
        order_of_error = max(order, 2) if resum_pairs else order

        def method(moments):
            return plefka(moments, order, resum_pairs=resum_pairs)

        self.check(method, order_of_error, (0.2, 0.1), seed)

    @pytest.mark.parametrize("order", range(1, 6))
    @pytest.mark.parametrize("seed", [0, 2])
    def test_the_plain_series(self, order, seed):
        epsilons = (0.04, 0.02) if order < 5 else (0.08, 0.05)
        self.check(lambda moments: mean_field(moments, order), order, epsilons, seed)


class TestClosedForms:
    @FEW
    @given(boltzmann_machines(min_units=2, max_units=5, scale=0.5))
    def test_first_and_second_order(self, model):
        moments = ebm.exact(model).moments()
        close = {"rtol": 1e-10, "atol": 1e-10}
        for found, expected in (
            (plefka(moments, 1), naive_mean_field(moments)),
            (plefka(moments, 1, resum_pairs=True), bethe(moments)),
        ):
            np.testing.assert_allclose(found.weights, expected.weights, **close)
            np.testing.assert_allclose(found.biases, expected.biases, **close)
            np.testing.assert_array_equal(found.center, moments.mean)
        try:
            expected = tap(moments)
        except EbmError:
            return
        found = plefka(moments, 2)
        np.testing.assert_allclose(found.weights, expected.weights, **close)
        np.testing.assert_allclose(found.biases, expected.biases, **close)

    @pytest.mark.parametrize("order", range(1, 6))
    def test_resummed_pairs_are_exact_on_trees_at_first_order(self, order):
        """Whatever the couplings; at any order for two units, where no others disturb."""
        pair = ebm.BoltzmannMachine([[0, 2.5], [2.5, 0]], [-1, 0.3])
        found = plefka(ebm.exact(pair), order, resum_pairs=True).recentered(0.0)
        np.testing.assert_allclose(found.weights, pair.weights, atol=1e-9)
        np.testing.assert_allclose(found.biases, pair.biases, atol=1e-9)
        if order == 1:
            model = tree(0)
            found = plefka(ebm.exact(model), 1, resum_pairs=True).recentered(0.0)
            np.testing.assert_allclose(found.weights, model.weights, atol=1e-7)

    def test_the_plain_series_of_a_pair(self):
        """W_k are the Taylor coefficients of ln p₁₁p₀₀/(p₁₀p₀₁) in the covariance."""
        m, n, c = 0.3, 0.6, 0.01
        cells = (m * n, (1 - m) * (1 - n), -m * (1 - n), -(1 - m) * n)
        covariance = [[m * (1 - m), c], [c, n * (1 - n)]]
        moments = ebm.Moments(ebm.Binary(2), [m, n], covariance)
        for order in range(1, 6):
            powers = range(1, order + 1)
            expected = -sum(np.sign(cell) * (-c / cell) ** k / k for cell in cells for k in powers)
            found = mean_field(moments, order).weights[0, 1]
            assert found == pytest.approx(expected, rel=1e-10)


class TestPairs:
    @pytest.mark.parametrize("order", range(1, 6))
    def test_what_is_left_of_a_pair_is_of_the_next_order(self, order):
        remainder = pair_remainder(MEANS, order)
        (large, small) = (couplings_of_one(value) for value in (0.6, 0.3))
        for part in (remainder.response_at, remainder.shift_at):
            ratios = np.abs(part(large)).max() / np.abs(part(small)).max()
            assert np.log2(ratios) > order + 0.7
        assert np.diagonal(remainder.response_at(large)).tolist() == [0, 0, 0, 0]

    def test_second_order_of_a_pair_is_the_onsager_term(self):
        remainder = pair_remainder(MEANS, 2)
        skew, variance = 1 - 2 * MEANS, MEANS * (1 - MEANS)
        np.testing.assert_allclose(remainder.response[1], 1)
        np.testing.assert_allclose(remainder.response[2], np.outer(skew, skew) / 2, atol=1e-12)
        np.testing.assert_allclose(remainder.shift[1], 0, atol=1e-12)
        np.testing.assert_allclose(remainder.shift[2], -np.outer(skew, variance) / 2, atol=1e-12)

    @given(generators())
    def test_couplings_and_slopes_of_pairs(self, rng):
        weights = rng.normal(0, 1.5, (4, 4))
        weights = np.triu(weights, 1) + np.triu(weights, 1).T
        mean = rng.uniform(0.1, 0.9, 4)
        variance = mean * (1 - mean)

        def response(w):
            c = pair_covariance(w, mean)
            return c / (np.outer(variance, variance) - c**2)

        np.testing.assert_allclose(couplings_of_pairs(response(weights), mean), weights, atol=1e-8)
        step = 1e-5
        difference = (response(weights + step) - response(weights - step)) / (2 * step)
        np.testing.assert_allclose(slope_of_pairs(weights, mean), difference, rtol=1e-5)


class TestSamples:
    @pytest.mark.parametrize("beta", [0.2, 0.6])
    def test_errors_on_spin_glasses(self, beta):
        """Medians over four draws lie where another implementation found them."""
        methods = {
            "naive": naive_mean_field,
            "tap": tap,
            "bethe": bethe,
            "sessak_monasson": sessak_monasson,
            "3": lambda data: plefka(data, 3),
            "4": lambda data: plefka(data, 4),
            "plain 4": lambda data: mean_field(data, 4),
        }
        rng = np.random.default_rng(round(100 * beta))
        errors = []
        for _ in range(4):
            couplings = np.triu(rng.normal(0, beta / np.sqrt(N), (N, N)), 1)
            couplings = couplings + couplings.T
            model = ebm.IsingModel(couplings, rng.uniform(-0.3 * beta, 0.3 * beta, N))
            rows = ebm.exact(model).sample(N_SAMPLES, rng)
            data = ebm.Ensemble.from_data(rows, space=ebm.Spins)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SeriesWarning)
                found = [method(data).couplings for method in methods.values()]
            errors.append([np.linalg.norm(j - couplings) for j in found])
            errors[-1] = np.divide(errors[-1], np.linalg.norm(couplings))
        median = dict(zip(methods, np.median(errors, axis=0), strict=True))
        if beta == 0.2:
            assert 0.155 < median["4"] < 0.195
            assert median["plain 4"] < 1.05 * median["4"]
        else:
            assert 0.062 < median["4"] < 0.079
            assert median["4"] < median["3"] < median["bethe"] < median["tap"]
            assert median["4"] < 1.05 * median["sessak_monasson"]
            assert median["plain 4"] > 1

    def test_codings_and_names(self):
        names = ["a", "b", "c", "d", "e"]
        model = spin_glass(0.6, 1, n=5)
        model = ebm.IsingModel(model.couplings, model.fields, names=names)
        for order, resum_pairs in ((3, False), (4, True)):
            spins = plefka(ebm.exact(model), order, resum_pairs=resum_pairs)
            binary = plefka(ebm.exact(model.to_binary()), order, resum_pairs=resum_pairs)
            assert spins.names == binary.names == tuple(names)
            np.testing.assert_allclose(binary.to_spins().couplings, spins.couplings, atol=1e-9)
            np.testing.assert_allclose(binary.to_spins().fields, spins.fields, atol=1e-9)
            np.testing.assert_allclose(spins.couplings, model.couplings, atol=0.02)
        assert isinstance(mean_field(ebm.exact(model), 2), ebm.IsingModel)

    def test_regularization_is_that_of_the_closed_forms(self):
        rows = ebm.exact(spin_glass(0.6, 2, n=5)).sample(200, rng=0)
        data = ebm.Ensemble.from_data(rows, space=ebm.Spins)
        for setting in ({"pseudocount": 5.0}, {"shrinkage": 0.3}):
            own, other = plefka(data, 2, **setting), tap(data, **setting)
            np.testing.assert_allclose(own.couplings, other.couplings, atol=1e-10)
            assert np.abs(own.couplings - plefka(data, 2).couplings).max() > 1e-3

    def test_the_plain_series_has_its_diagonal_as_a_gauge(self):
        moments = ebm.exact(machine_at(0.2, 1)).moments()
        plain, other = mean_field(moments, 3), mean_field(moments, 3, diagonal=2.0)
        np.testing.assert_array_equal(other.weights.diagonal(), 2.0)
        np.testing.assert_allclose(ebm.exact(plain).weights, ebm.exact(other).weights, rtol=1e-9)

    def test_independent_units(self):
        model = ebm.BoltzmannMachine(np.zeros((3, 3)), [0.3, -2.0, 1.1])
        for order in (1, 4):
            found = plefka(ebm.exact(model), order, resum_pairs=order == 1)
            np.testing.assert_allclose(found.weights, 0, atol=1e-12)
            np.testing.assert_allclose(found.recentered(0.0).biases, model.biases)


class TestRoots:
    def strong(self):
        """Moments whose equation has a root at orders 1 to 3 and none at 4."""
        return ebm.exact(spin_glass(1.3, 3, n=10)).moments()

    def test_no_root_is_an_error(self):
        moments = self.strong()
        with pytest.raises(ConvergenceError, match="most for units '") as caught:
            plefka(moments, 4)
        assert caught.value.residual > 1e-3
        assert f"{caught.value.residual:.1e} is left" in str(caught.value)
        assert "order 4" in str(caught.value)

    def test_falling_back_says_to_which_order(self):
        moments = self.strong()
        with pytest.warns(SeriesWarning, match="the result is of order 3") as caught:
            found = plefka(moments, 4, fall_back=True)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(found.couplings, plefka(moments, 3).couplings)

    def test_roots_solve_their_equation(self):
        """Linear response of the couplings found is the covariance given."""
        model = spin_glass(0.9, 0, n=8)
        moments = ebm.exact(model).moments()
        for order in (2, 3, 4):
            found = plefka(moments, order)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SeriesWarning)
                forward = ebm.perturbation.plefka(found, order, start=moments.mean).moments()
            np.testing.assert_allclose(forward.mean, moments.mean, atol=1e-8)
            np.testing.assert_allclose(forward.covariance, moments.covariance, atol=1e-7)

    def test_growing_terms_of_the_plain_series_warn(self):
        with pytest.warns(SeriesWarning, match="order 3 of the couplings is larger") as caught:
            mean_field(self.strong(), 3)
        assert caught[0].filename == __file__


class TestRefusals:
    @pytest.mark.parametrize("order", [0, -1, 1.5, True, "2", None])
    def test_orders_that_are_none(self, order):
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 0]])
        with pytest.raises(EbmError, match="order must be a positive integer, got"):
            plefka(data, order)

    @pytest.mark.parametrize("order", [6, 7])
    def test_orders_beyond_the_limit(self, order):
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 0]])
        with pytest.raises(LimitError, match=f"of order {order} needs .* take order 5 or less"):
            plefka(data, order)

    @pytest.mark.parametrize("setting", ["resum_pairs", "fall_back"])
    @pytest.mark.parametrize("value", ["yes", "", 1, None])
    def test_flags(self, setting, value):
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 0]])
        with pytest.raises(EbmError, match=f"{setting} must be True or False, got {value!r}"):
            plefka(data, 3, **{setting: value})

    @pytest.mark.parametrize("method", [plefka, mean_field])
    @pytest.mark.parametrize("value", [0, -1, np.nan, "60", None])
    def test_times_that_are_none(self, method, value):
        """At first order too, which no time limits."""
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 0]])
        for order in (1, 3):
            with pytest.raises(EbmError, match="max_seconds must"):
                method(data, order, max_seconds=value)

    def test_data_that_no_inversion_takes(self):
        with pytest.raises(ConstantUnitError):
            plefka(ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 1]]), 3, fall_back=True)
        with pytest.raises(SingularCovarianceError, match="have no inverse"):
            plefka(ebm.Ensemble.from_data([[0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]]), 3)
        for wrong in ([[0, 1], [1, 0]], ebm.Moments, "data"):
            with pytest.raises(EbmError, match="moments must be Moments or an ensemble"):
                plefka(wrong, 3)

    def test_time(self):
        moments = ebm.Moments(ebm.Binary(300), np.full(300, 0.5), np.eye(300) / 4)
        with pytest.raises(LimitError, match="raise max_seconds"):
            plefka(moments, 5, max_seconds=0.1)
        with pytest.raises(LimitError, match="raise max_seconds"):
            mean_field(moments, 5, max_seconds=0.1)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("strength", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("resum_pairs", [False, True])
def test_a_magnet_below_its_transition_has_a_root_or_a_named_error(order, strength, resum_pairs):
    """Pairs that next to always agree leave a pair table of two cells."""
    graph = np.roll(np.eye(8), 1, axis=0)
    magnet = ebm.IsingModel(strength * (graph + graph.T), np.linspace(-0.2, 0.3, 8))
    rows = ebm.exact(magnet).sample(15_000, rng=1)
    moments = ebm.Ensemble.from_data(rows, space=ebm.Spins).moments()
    failure, couplings = None, np.zeros(0)
    try:
        couplings = ebm.inversion.plefka(moments, order, resum_pairs=resum_pairs).couplings
    except ConvergenceError as error:
        failure = error
    assert np.isfinite(couplings).all()
    if failure is not None:
        assert strength > 0.7
        assert failure.residual > 0
        assert "inf is left" not in str(failure)
