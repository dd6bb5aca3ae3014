"""R̂, effective sample size and autocorrelation time against processes where they are known."""

import numpy as np
import pytest

import ebm
from ebm.sampling import autocorrelation_time, effective_sample_size, split_r_hat


def autoregression(rho, shape, seed=0):
    """x_t = ρ x_{t−1} + noise, stationary: τ = (1 + ρ)/(1 − ρ)."""
    rng = np.random.default_rng(seed)
    x = np.empty(shape)
    x[:, 0] = rng.normal(size=shape[0]) / np.sqrt(1 - rho**2)
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + rng.normal(size=shape[0])
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.97])
def test_autocorrelation_time_of_an_autoregression(rho):
    series = autoregression(rho, (8, 20_000))
    assert autocorrelation_time(series) == pytest.approx((1 + rho) / (1 - rho), rel=0.15)
    assert effective_sample_size(series) == pytest.approx(160_000 * (1 - rho) / (1 + rho), rel=0.15)


def test_antithetic_series_are_worth_more_than_their_length():
    assert effective_sample_size(autoregression(-0.5, (4, 5000))) > 1.5 * 20_000


def test_r_hat_sees_chains_that_disagree_and_chains_that_move():
    series = autoregression(0.3, (4, 2000))
    assert split_r_hat(series) < 1.01
    assert split_r_hat(series + np.arange(4)[:, None]) > 1.2
    assert split_r_hat(series + np.linspace(0, 5, 2000)) > 1.2


def test_stacks_are_treated_one_by_one():
    series = np.stack([autoregression(r, (4, 500), seed=k) for k, r in enumerate((0.1, 0.8))], -1)
    for function in (split_r_hat, effective_sample_size, autocorrelation_time):
        expected = [function(series[..., k]) for k in range(2)]
        np.testing.assert_allclose(function(series), expected, rtol=1e-12)


def test_constant_series_give_nan_and_frozen_chains_infinity():
    constant = np.ones((4, 100))
    assert np.isnan(split_r_hat(constant))
    assert np.isnan(effective_sample_size(constant))
    assert split_r_hat(constant * np.arange(4)[:, None]) == np.inf


def test_short_series_are_refused():
    with pytest.raises(ebm.EbmError, match="at least 4 draws"):
        split_r_hat(np.zeros((4, 3)))
