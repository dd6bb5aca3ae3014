"""First-order inversion: [EBM] eq 38 and 37, their order of convergence, their refusals."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit, logit

import ebm
from ebm.errors import EbmError, LimitError
from ebm.inversion import mean_field
from tests import strategies

#: A direction of couplings and biases far from any symmetric point.
N = 5


def direction(seed):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 1, (N, N)), 1)
    return weights + weights.T, rng.uniform(-1.5, 1.5, N) + 0.3


def moments_at(epsilon, seed):
    """Exact moments of the machine with couplings ε W, centered at its own mean field."""
    weights, biases = direction(seed)
    machine = ebm.BoltzmannMachine(epsilon * weights, biases, center=expit(biases))
    return ebm.exact(machine).moments(), machine


class TestFormula:
    @given(strategies.boltzmann_machines(min_units=2))
    def test_equation_38(self, machine):
        moments = ebm.exact(machine).moments()
        if (moments.mean * (1 - moments.mean) < 1e-9).any():
            return
        model = mean_field(moments)
        for mu in range(machine.n):
            for nu in range(machine.n):
                x, y = moments.mean[mu], moments.mean[nu]
                expected = moments.covariance[mu, nu] / (x * (1 - x) * y * (1 - y))
                expected = 0.0 if mu == nu else expected
                assert model.weights[mu, nu] == pytest.approx(expected, rel=1e-12, abs=1e-15)
        np.testing.assert_array_equal(model.center, moments.mean)
        np.testing.assert_allclose(model.biases, logit(moments.mean), rtol=1e-9, atol=1e-12)

    def test_by_hand(self):
        # Five samples: means 2/5 and 3/5, both on once.
        rows = [[1, 1], [1, 0], [0, 1], [0, 1], [0, 0]]
        model = mean_field(ebm.Ensemble.from_data(rows))
        covariance = 1 / 5 - 6 / 25
        assert model.weights[0, 1] == pytest.approx(covariance / (6 / 25) ** 2, rel=1e-13)
        assert model.biases[0] == pytest.approx(np.log(2 / 3), rel=1e-13)

    @given(strategies.generators())
    def test_diagonal_is_a_gauge(self, rng):
        moments, _ = moments_at(0.4, 3)
        plain = mean_field(moments)
        model = mean_field(moments, diagonal=rng.normal(0, 3, N))
        np.testing.assert_allclose(ebm.exact(plain).weights, ebm.exact(model).weights, rtol=1e-9)
        assert (model.weights.diagonal() != 0).all()
        one = mean_field(moments, diagonal=2.0)
        np.testing.assert_array_equal(one.weights.diagonal(), 2.0)


class TestOrder:
    EPSILONS = np.array([0.02, 0.04, 0.08])

    def errors(self, seed, distance):
        return np.array([distance(*moments_at(epsilon, seed)) for epsilon in self.EPSILONS])

    def check_slope(self, errors, slope):
        assert (errors > 1e-11).all()
        slopes = np.diff(np.log(errors)) / np.diff(np.log(self.EPSILONS))
        assert slopes.min() > slope
        # An order higher would hide a symmetric point.
        assert slopes.max() < slope + 0.6

    @pytest.mark.parametrize("seed", range(4))
    def test_couplings_are_right_to_first_order(self, seed):
        def distance(moments, machine):
            return np.abs(mean_field(moments).weights - machine.weights).max()

        self.check_slope(self.errors(seed, distance), 1.7)

    @pytest.mark.parametrize("seed", range(4))
    def test_relative_error_is_in_proportion_to_the_couplings(self, seed):
        def distance(moments, machine):
            difference = mean_field(moments).weights - machine.weights
            return np.linalg.norm(difference) / np.linalg.norm(machine.weights)

        self.check_slope(self.errors(seed, distance), 0.7)

    @pytest.mark.parametrize("seed", range(4))
    def test_biases_at_the_center_of_the_means(self, seed):
        def distance(moments, machine):
            expected = machine.recentered(moments.mean).biases
            return np.abs(mean_field(moments).biases - expected).max()

        self.check_slope(self.errors(seed, distance), 1.7)

    @pytest.mark.parametrize("seed", range(4))
    def test_means_of_the_result_are_right_to_first_order(self, seed):
        def distance(moments, machine):
            return np.abs(ebm.exact(mean_field(moments)).moments().mean - moments.mean).max()

        self.check_slope(self.errors(seed, distance), 1.7)

    @pytest.mark.parametrize("seed", range(4))
    def test_biases_read_at_center_zero_would_be_wrong_at_first_order(self, seed):
        # The result is centered at the means; forgetting that costs an order.
        def distance(moments, machine):
            model = mean_field(moments)
            wrong = ebm.BoltzmannMachine(model.weights, model.biases)
            return np.abs(ebm.exact(wrong).moments().mean - moments.mean).max()

        self.check_slope(self.errors(seed, distance), 0.7)

    @pytest.mark.parametrize("own", [0.5, -0.4])
    def test_equation_37_is_the_bias_to_first_order_in_the_diagonal(self, own):
        # b = logit σ with σ = x̂ − W_μμ x̂(1−x̂)(½−x̂), against the exact form used here.
        moments, _ = moments_at(0.3, 1)
        mean = moments.mean
        differences = []
        for epsilon in self.EPSILONS:
            sigma = mean - epsilon * own * mean * (1 - mean) * (0.5 - mean)
            exact = mean_field(moments, diagonal=epsilon * own).biases
            differences.append(np.abs(exact - logit(sigma)).max())
        self.check_slope(np.array(differences), 1.7)

    def test_equation_37_leaves_the_interval_where_the_exact_form_does_not(self):
        mean, own = 0.05, 4.0
        sigma = mean - own * mean * (1 - mean) * (0.5 - mean)
        assert sigma == pytest.approx(-0.0355, abs=1e-4)
        moments = ebm.Moments(ebm.Binary(1), [mean], [[mean * (1 - mean)]])
        model = mean_field(moments, diagonal=own)
        assert ebm.exact(model).moments().mean[0] == pytest.approx(mean, rel=1e-12)


class TestCodings:
    @given(strategies.boltzmann_machines(min_units=2, scale=0.7))
    def test_both_codings_give_one_distribution(self, machine):
        moments = ebm.exact(machine).moments()
        binary, spins = mean_field(moments), mean_field(moments.to(ebm.Spins))
        assert isinstance(binary, ebm.BoltzmannMachine)
        assert isinstance(spins, ebm.IsingModel)
        one, other = ebm.exact(binary), ebm.exact(spins)
        np.testing.assert_allclose(
            one.log_probability(one.states),
            other.log_probability(2 * one.states - 1),
            rtol=1e-9,
            atol=1e-9,
        )
        assert one.log_partition == pytest.approx(other.log_partition, rel=1e-9, abs=1e-9)


class TestRefusals:
    @pytest.mark.parametrize("order", [0, -1, 1.5, True, "1", None])
    def test_other_orders(self, order):
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 0]])
        with pytest.raises(EbmError, match="order must be a positive integer, got"):
            mean_field(data, order=order)
        with pytest.raises(LimitError, match="take order 5 or less"):
            mean_field(data, order=6)

    def test_shape_of_the_diagonal(self):
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [1, 0]])
        with pytest.raises(EbmError, match=r"diagonal must have shape \(2,\)"):
            mean_field(data, diagonal=[1.0, 2.0, 3.0])


def test_distance_to_the_exact_fit_grows_with_the_couplings():
    """Each approximation beside the exact answer: worse than the fit, and worse the stronger."""
    distances = []
    for epsilon in (0.2, 0.8):
        moments, machine = moments_at(epsilon, 2)
        fitted = ebm.fit(machine, moments).model
        inverted = mean_field(moments)
        distances.append(
            [np.abs(model.weights - machine.weights).max() for model in (fitted, inverted)]
        )
    assert distances[0][0] < 1e-6
    assert distances[1][0] < 1e-6
    assert distances[1][1] > 4 * distances[0][1] > 1e-3


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("sign", "word"), [(1, "equal"), (-1, "opposite")])
def test_twins_are_named(order, sign, word):
    rows = np.random.default_rng(0).integers(0, 2, (100, 3))
    rows[:, 1] = rows[:, 0] if sign == 1 else 1 - rows[:, 0]
    data = ebm.Ensemble.from_data(rows, names=["a", "b", "c"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mean_field(data, order)
    texts = [str(warning.message) for warning in caught]
    assert any(f"units 'a' and 'b' are always {word}, which no finite" in text for text in texts)
    # A mixture with the uniform distribution has a finite coupling.
    assert mean_field(data, pseudocount=1).weights[0, 1] * sign > 0
