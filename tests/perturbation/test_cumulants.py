"""Cumulants and central moments against exact arithmetic and enumeration; [EBM] Lemmas 12–17."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import ebm
from ebm.errors import EbmError, LimitError, MemoryLimitError, ModelError, ShapeError
from ebm.perturbation import (
    bernoulli_cumulants,
    central_moment_tensor,
    connected_tensor,
    cumulants_of_log_odds,
)
from ebm.perturbation.joint_cumulants import (
    cumulants_of_moments,
    joint_cumulants,
    moments_of_cumulants,
)
from tests import oracles, strategies

ORDER = 20
SIGMA = np.array([0.2, 0.45, 0.93])
BIASES = np.log(SIGMA / (1 - SIGMA))


def polynomials(order):
    """κ_1 … κ_order as integer polynomials in σ: κ_{k+1} = (σ − σ²) dκ_k/dσ."""
    kappa = [0, 1]
    for _ in range(order):
        yield kappa
        slope = [j * c for j, c in enumerate(kappa)][1:]
        kappa = [0] * (len(slope) + 2)
        for j, c in enumerate(slope):
            kappa[j + 1] += c
            kappa[j + 2] -= c


def precise(log_odds, order):
    """κ_1 … κ_{order+1} at one b, to more than 100 digits."""
    with localcontext() as context:
        context.prec = 450
        sigma = 1 / (1 + (-Decimal(log_odds)).exp())
        return [sum(c * sigma**j for j, c in enumerate(kappa)) for kappa in polynomials(order + 1)]


def states(n):
    return np.array(list(itertools.product([0.0, 1.0], repeat=n)))


def independent(x):
    """p₀ = Π σ^x (1−σ)^(1−x)."""
    return np.prod(np.where(x == 1, SIGMA, 1 - SIGMA), axis=1)


def by_enumeration(k):
    """E[Π (x_α − σ_α)] state by state."""
    x = states(len(SIGMA))
    total = np.zeros((len(SIGMA),) * k)
    for row, p in zip(x, independent(x), strict=True):
        term = np.array(p)
        for _ in range(k):
            term = np.multiply.outer(term, row - SIGMA)
        total += term
    return total


class TestOneUnit:
    @pytest.mark.parametrize(
        "log_odds", [0.0, 1e-9, -0.03, 0.7, -1.3, 1.62, 2.2, -3.7, 6.5, -11.0, 30.0, -200.0, 700.0]
    )
    def test_every_order_at_every_bias(self, log_odds):
        got = cumulants_of_log_odds(log_odds, ORDER)
        exact = precise(log_odds, ORDER)
        for k in range(ORDER):
            # A rounded b alone moves κ_k by κ_{k+1}.
            scale = float(abs(exact[k]) + abs(exact[k + 1]) * min(1, abs(Decimal(log_odds))))
            bound = 4e-15 if k < 12 else 1e-12
            assert abs(got[k] - float(exact[k])) <= bound * scale, k + 1

    def test_digits_that_the_recursion_in_sigma_loses(self):
        kappa = list(polynomials(12))
        for log_odds, k, loss in ((30.0, 4, 1e-4), (10.0, 12, 1e-4)):
            exact = float(precise(log_odds, k)[k - 1])
            naive = np.polyval([float(c) for c in kappa[k - 1][::-1]], expit(log_odds))
            assert abs(naive / exact - 1) > loss
            assert cumulants_of_log_odds(log_odds, k)[-1] == pytest.approx(exact, rel=1e-13)

    @given(st.fractions(0, 1, max_denominator=64))
    def test_from_probabilities(self, sigma):
        got = bernoulli_cumulants(float(sigma), 12)
        exact = [
            sum(Fraction(c) * Fraction(float(sigma)) ** j for j, c in enumerate(kappa))
            for kappa in polynomials(13)
        ]
        for k in range(12):
            scale = float(abs(exact[k]) + abs(exact[k + 1]))
            assert abs(got[k] - float(exact[k])) <= 4e-15 * scale

    @given(st.floats(-40, 40))
    def test_reflection(self, log_odds):
        up, down = cumulants_of_log_odds(log_odds, 12), cumulants_of_log_odds(-log_odds, 12)
        assert up[0] + down[0] == pytest.approx(1, rel=1e-15)
        np.testing.assert_array_equal(down[1:], up[1:] * (-1.0) ** np.arange(2, 13))

    def test_shapes(self):
        grid = np.array([[0.1, -2.0, 3.0], [0.0, 1.0, 5.0]])
        together = cumulants_of_log_odds(grid, 5)
        assert together.shape == (5, 2, 3)
        np.testing.assert_array_equal(together[:, 1, 2], cumulants_of_log_odds(5.0, 5))
        assert bernoulli_cumulants(0.3, 1).shape == (1,)

    def test_certain_units(self):
        np.testing.assert_array_equal(bernoulli_cumulants([0, 1], 3), [[0, 1], [0, 0], [0, 0]])
        certain = cumulants_of_log_odds([-np.inf, np.inf], 3)
        np.testing.assert_array_equal(certain, [[0, 1], [0, 0], [0, 0]])

    def test_refusals(self):
        for wrong in (-0.1, 1.1, np.nan):
            with pytest.raises(ModelError, match="from 0 to 1"):
                bernoulli_cumulants(wrong, 2)
        with pytest.raises(ModelError, match="NaN"):
            cumulants_of_log_odds([0.0, np.nan], 2)
        for order in (0, True, 1.5):
            with pytest.raises(EbmError, match="order must be a positive integer"):
                cumulants_of_log_odds(0.0, order)


class TestLemmas:
    def test_lemma_12_without_couplings_units_are_independent(self):
        machine = ebm.BoltzmannMachine(np.zeros((3, 3)), BIASES)
        x = states(3)
        p = ebm.exact(machine).log_probability(x)
        np.testing.assert_allclose(np.exp(p), independent(x), rtol=1e-12)

    def test_lemma_13_slope_of_one_probability(self):
        # ∂p_α/∂b_α = p_α (x − σ_α)
        def probabilities(bias):
            one = ebm.BoltzmannMachine([[0.0]], bias)
            return np.exp(ebm.exact(one).log_probability([[0], [1]]))

        for b in BIASES:
            for x in (0, 1):
                slope = oracles.finite_difference(lambda bias, x=x: probabilities(bias)[x], [b])[0]
                expected = probabilities([b])[x] * (x - cumulants_of_log_odds(b, 1)[0])
                assert slope == pytest.approx(expected, rel=1e-8)

    def test_lemma_14_mean(self):
        x = states(3)
        np.testing.assert_allclose(
            cumulants_of_log_odds(BIASES, 1)[0], independent(x) @ x, rtol=1e-14
        )

    def test_lemma_15_variance(self):
        expected = np.diag(SIGMA * (1 - SIGMA))
        np.testing.assert_allclose(connected_tensor(SIGMA, 2), expected, rtol=1e-15)
        np.testing.assert_allclose(central_moment_tensor(SIGMA, 2), by_enumeration(2), atol=1e-16)

    def test_lemma_16_third(self):
        third = connected_tensor(SIGMA, 3)
        expected = SIGMA * (1 - SIGMA) * (1 - 2 * SIGMA)
        np.testing.assert_allclose(np.einsum("iii->i", third), expected, rtol=1e-14)
        assert np.count_nonzero(third) == 3
        np.testing.assert_allclose(central_moment_tensor(SIGMA, 3), by_enumeration(3), atol=1e-16)

    def test_lemma_17_fourth(self):
        fourth = connected_tensor(SIGMA, 4)
        expected = SIGMA * (1 - SIGMA) * (1 - 6 * SIGMA + 6 * SIGMA**2)
        np.testing.assert_allclose(np.einsum("iiii->i", fourth), expected, rtol=1e-13)
        two = connected_tensor(SIGMA, 2)
        pairs = [np.einsum(f"{p},{q}->ijkl", two, two) for p, q in (("ij", "kl"), ("ik", "jl"))]
        pairs.append(np.einsum("il,jk->ijkl", two, two))
        np.testing.assert_allclose(
            central_moment_tensor(SIGMA, 4), fourth + sum(pairs), rtol=1e-14, atol=1e-17
        )

    @pytest.mark.parametrize("k", range(1, 9))
    def test_central_moments_of_any_order(self, k):
        np.testing.assert_allclose(
            central_moment_tensor(SIGMA, k), by_enumeration(k), rtol=1e-12, atol=1e-16
        )

    def test_refusals(self):
        with pytest.raises(EbmError, match="k must be at most 8, got 9"):
            central_moment_tensor(SIGMA, 9)
        with pytest.raises(MemoryLimitError, match=r"100\^5 numbers would take 74.5 GiB"):
            connected_tensor(np.full(100, 0.5), 5)
        with pytest.raises(ShapeError, match=r"shape \(n,\)"):
            connected_tensor(0.5, 2)
        with pytest.raises(LimitError, match="at most 64 indices, got 65"):
            connected_tensor([0.5], 65)


class TestMomentsAndCumulants:
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=8))
    def test_round_trip(self, cumulants):
        moments = moments_of_cumulants(cumulants)
        scale = np.abs(moments).max() + 1
        np.testing.assert_allclose(cumulants_of_moments(moments), cumulants, atol=1e-9 * scale)

    def test_bernoulli_moments_are_all_sigma(self):
        kappa = bernoulli_cumulants(SIGMA, 8)
        np.testing.assert_allclose(moments_of_cumulants(kappa), np.tile(SIGMA, (8, 1)), rtol=1e-9)
        np.testing.assert_allclose(
            cumulants_of_moments(np.tile(SIGMA, (8, 1))), kappa, rtol=1e-9, atol=1e-12
        )

    def test_normal_has_two_cumulants(self):
        np.testing.assert_allclose(
            moments_of_cumulants([0, 2, 0, 0, 0, 0]), [0, 2, 0, 12, 0, 120], rtol=1e-15
        )

    def test_refusals(self):
        with pytest.raises(ShapeError, match="moments must have shape"):
            cumulants_of_moments(3.0)
        with pytest.raises(ModelError, match=r"moments must be finite, got nan at \(1,\)"):
            cumulants_of_moments([1.0, np.nan])
        with pytest.raises(ModelError, match="cumulants must hold real numbers"):
            moments_of_cumulants([1.0, 2j])


class TestJoint:
    @pytest.mark.parametrize("order", range(1, 6))
    def test_derivatives_of_the_generating_function(self, order):
        # κ(x_a, x_b, …) = ∂_a ∂_b … ln Z: contracted with t it is the order-th derivative of
        # ln Z(b + εt), a Taylor coefficient on a circle in the complex plane.
        rng = np.random.default_rng(order)
        weights = np.triu(rng.normal(0, 1, (4, 4)), 1)
        machine = ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 1, 4))
        x = states(4)
        energy = machine.energy(x)
        t = rng.normal(0, 1, 4)
        radius, count = 0.3, 64
        circle = radius * np.exp(2j * np.pi * np.arange(count) / count)
        log_z = np.log(np.exp(-energy[:, None] + np.outer(x @ t, circle)).sum(axis=0))
        taylor = (np.fft.fft(log_z)[order] / count / radius**order).real
        contracted = joint_cumulants(ebm.exact(machine), lambda x: x, order)
        for _ in range(order):
            contracted = contracted @ t
        assert contracted == pytest.approx(math.factorial(order) * taylor, rel=1e-9)

    @given(strategies.boltzmann_machines(min_units=2, max_units=4))
    def test_second_is_the_covariance(self, machine):
        exact = ebm.exact(machine)
        np.testing.assert_allclose(
            joint_cumulants(exact, lambda x: x, 2), exact.moments().covariance, atol=1e-14
        )

    def test_independent_units_give_the_connected_tensor(self):
        exact = ebm.exact(ebm.BoltzmannMachine(np.zeros((3, 3)), BIASES))
        for k in (2, 3, 4, 5, 6):
            np.testing.assert_allclose(
                joint_cumulants(exact, lambda x: x, k), connected_tensor(SIGMA, k), atol=1e-14
            )

    def test_scalar_observable(self):
        rows = np.random.default_rng(0).integers(0, 2, (40, 3))
        data = ebm.Ensemble.from_data(rows)
        count = rows.sum(axis=1)
        third = joint_cumulants(data, lambda x: x.sum(axis=-1), 3)
        assert third.shape == ()
        assert third == pytest.approx(((count - count.mean()) ** 3).mean(), rel=1e-12)

    def test_refusals(self):
        data = ebm.Ensemble.from_data([[0, 1], [1, 0], [1, 1]])
        with pytest.raises(ModelError, match="an ensemble of states is wanted, got Moments"):
            joint_cumulants(data.moments(), lambda x: x, 2)
        with pytest.raises(EbmError, match="at most 8"):
            joint_cumulants(data, lambda x: x, 9)
        with pytest.raises(ShapeError, match=r"f must give .* got \(2, 1\) for each state"):
            joint_cumulants(data, lambda x: x[:, :, None], 2)
        with pytest.raises(ShapeError, match=r"f must give .* got \(0,\) for each state"):
            joint_cumulants(data, lambda x: x[:, :0], 2)
        with pytest.raises(ModelError, match="f must be a function of states, got 'x'"):
            joint_cumulants(data, "x", 2)

    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_values_that_are_no_real_numbers(self, order):
        data = ebm.Ensemble.from_data([[0, 1], [1, 0], [1, 1]])
        with pytest.raises(ModelError, match="the values of f must hold real numbers"):
            joint_cumulants(data, lambda x: 1j * x, order)
        with pytest.raises(ModelError, match="the values of f must hold numbers, got text"):
            joint_cumulants(data, lambda x: np.full(len(x), "1"), order)
        for wrong in (np.nan, np.inf):
            with pytest.raises(ModelError, match="f must give finite numbers"):
                joint_cumulants(data, lambda x, wrong=wrong: np.where(x == 0, wrong, x), order)

    def test_powers_that_overflow(self):
        data = ebm.Ensemble.from_data([[0, 1], [1, 0], [1, 1]])
        with pytest.raises(ModelError, match="powers of them that are finite too"):
            joint_cumulants(data, lambda x: 1e200 * x, 2)

    def test_states_without_weight_count_nothing(self):
        data = ebm.Ensemble.from_data([[0, 1], [1, 0], [1, 1]], sample_weight=[1, 1, 0])
        forbidden = joint_cumulants(data, lambda x: np.where(x.all(axis=1), np.inf, x[:, 0]), 2)
        assert forbidden == pytest.approx(0.25)
