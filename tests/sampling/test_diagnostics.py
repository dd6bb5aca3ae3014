"""R̂, effective sample size and autocorrelation time against processes where they are known."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student

import ebm
from ebm.errors import EbmError
from ebm.sampling import (
    autocorrelation_time,
    drift,
    effective_sample_size,
    mean_of_chains,
    split_r_hat,
)
from tests import chain_coverage
from tests.chain_coverage import of_glasses, of_process


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
    with pytest.raises(ebm.EbmError, match="'tail', got 'mode'"):
        effective_sample_size(np.zeros((4, 9)), "mode")


def waves():
    """Four chains of seven draws, ties among them."""
    t = np.arange(7)
    return np.stack([np.round(3 * np.sin((k + 2) * t + k), 1) for k in range(4)])


def test_the_rank_normalized_r_hat_by_its_formulas():
    """The number that ArviZ 1.0 prints for the waves, and the formulas word by word."""
    x = np.concatenate([waves()[:, :3], waves()[:, -3:]])
    larger = 0.0
    for values in (x, abs(x - np.median(x))):
        flat = values.ravel()
        ranks = [(flat < v).sum() + ((flat == v).sum() + 1) / 2 for v in flat]
        z = ndtri((np.array(ranks) - 3 / 8) / (24 + 1 / 4)).reshape(8, 3)
        within, between = z.var(axis=1, ddof=1).mean(), 3 * z.mean(axis=1).var(ddof=1)
        larger = max(larger, np.sqrt((2 / 3 * within + between / 3) / within))
    assert split_r_hat(waves()) == pytest.approx(larger, rel=1e-15)
    assert split_r_hat(waves()) == pytest.approx(0.957282249334004, rel=1e-14)


def test_ranks_see_what_means_do_not():
    """Chains of different width, and chains of infinite variance."""
    rng = np.random.default_rng(2)
    wide = rng.normal(size=(4, 1000)) * np.array([[1], [1], [1], [3]])
    assert split_r_hat(wide) > 1.1
    heavy = rng.standard_cauchy((4, 1000))
    shifted = heavy + 4 * (np.arange(4)[:, None] == 3)
    assert split_r_hat(heavy) < 1.01
    assert split_r_hat(shifted) > 1.1
    assert effective_sample_size(heavy, "bulk") == pytest.approx(4000, rel=0.1)


def test_the_tail_mixes_more_slowly_than_the_bulk():
    """Draws whose width is an autoregression of its own."""
    rng = np.random.default_rng(3)
    x = np.exp(autoregression(0.95, (4, 5000)) / 3) * rng.normal(size=(4, 5000))
    sizes = [float(effective_sample_size(x, of)) for of in ("mean", "bulk", "tail")]
    assert sizes[2] < 0.5 * sizes[1]


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 + 0.1])
def test_series_that_never_change_are_not_told_from_rounding(value):
    constant = np.full((6, 101), value)
    assert np.isnan([split_r_hat(constant), effective_sample_size(constant)]).all()
    assert split_r_hat(constant * np.arange(1, 7)[:, None]) == np.inf
    estimate = mean_of_chains(constant)
    assert np.isnan(estimate.standard_error)
    assert "never change" in str(estimate)


def test_an_autocorrelation_time_is_not_told_by_chains_that_are_too_short():
    series = autoregression(0.97, (4, 20_000))
    assert autocorrelation_time(series) == pytest.approx(65.7, rel=0.15)
    assert np.isnan(autocorrelation_time(series[:, :400]))
    assert np.isnan(autocorrelation_time(np.tile(series[:, :60], (50, 1))))


def test_the_drift_of_stationary_chains_is_covered_by_its_error():
    """And that of chains which relax over a hundred draws is not."""
    series = chain_coverage.autoregression(np.random.default_rng(8), 2000, 150, time=5)
    low, high = drift(series).interval(0.95)
    assert 0.88 < ((low < 0) & (high > 0)).mean() < 0.99
    relaxing = series + 4 * np.exp(-np.arange(2000) / 100)[:, None]
    low, high = drift(relaxing).interval(0.95)
    assert (high < 0).mean() > 0.95
    # An error that takes draws as independent sees a drift in every other stationary chain.
    last, first = series[:, -1000:], series[:, :200]
    error = last.std(axis=(0, 1)) * np.sqrt(1 / 4000 + 1 / 800)
    assert (abs(last.mean(axis=(0, 1)) - first.mean(axis=(0, 1))) > 1.96 * error).mean() > 0.3


@pytest.mark.parametrize(
    ("n_draws", "wanted"), [(15, "not to be trusted: the chains are worth"), (60, "(rough)")]
)
def test_few_draws_are_refused_or_rough(n_draws, wanted):
    draws = np.random.default_rng(4).normal(size=(4, n_draws))
    estimate = mean_of_chains(draws)
    assert wanted in str(estimate)
    assert np.isnan(estimate.interval()[0]) == (n_draws == 15)
    if n_draws == 60:
        plain = draws.std() / np.sqrt(estimate.effective_size)
        assert estimate.standard_error == pytest.approx(1.2 * plain)


def test_enough_draws_have_an_error_of_student():
    draws = autoregression(0.5, (4, 1000))
    estimate = mean_of_chains(draws)
    size = min(effective_sample_size(draws), effective_sample_size(draws, "bulk"))
    assert estimate.note == ""
    assert estimate.effective_size == size
    assert estimate.standard_error == pytest.approx(draws.std() / np.sqrt(size))
    assert 50 < estimate.degrees_of_freedom < size
    width = student.ppf(0.975, estimate.degrees_of_freedom) * estimate.standard_error
    assert estimate.interval() == pytest.approx((draws.mean() - width, draws.mean() + width))


def test_chains_that_disagree_have_no_error():
    """Three chains in a hundred are elsewhere, which the effective number forgives."""
    draws = np.random.default_rng(5).normal(size=(100, 200))
    draws[:3] += 4
    estimate = mean_of_chains(draws)
    assert "split R-hat is 1." in str(estimate)
    assert np.isnan(estimate.standard_error)


def test_rare_values_have_the_interval_of_wilson_or_none():
    """Both ends solve (p̂ − p)² = t² p (1 − p) / n."""
    share = np.zeros((4, 5000))
    share.ravel()[np.random.default_rng(6).choice(20_000, 10, replace=False)] = 1
    for values, low, high in ((share, 0, 1), (1 - 2 * share, 1, -1)):
        estimate = mean_of_chains(values)
        assert "rough: the rarer value" in estimate.note
        ends = (np.array(estimate.interval()) - low) / (high - low)
        size, t = estimate.wilson[0], student.ppf(0.975, estimate.degrees_of_freedom)
        assert size == estimate.effective_size > 10_000
        np.testing.assert_allclose((share.mean() - ends) ** 2, t**2 * ends * (1 - ends) / size)
    share.ravel()[np.flatnonzero(share)[:7]] = 0
    assert "the rarer value is worth" in str(mean_of_chains(share))
    assert np.isnan(mean_of_chains(share).standard_error)


@pytest.mark.parametrize("factor", [1e-300, 1e-100, 1e200, 1e300])
def test_the_unit_of_a_series_changes_its_error_alone(factor):
    draws = autoregression(0.5, (4, 1000))
    one, other = mean_of_chains(draws), mean_of_chains(factor * draws)
    assert other.standard_error / factor == pytest.approx(one.standard_error)
    assert other.effective_size == pytest.approx(one.effective_size)
    assert other.r_hat == pytest.approx(one.r_hat)


def test_series_of_unusual_shapes():
    assert mean_of_chains(np.zeros((4, 50, 0))).value.shape == (0,)
    assert "fewer than 4 draws" in str(mean_of_chains(np.zeros((4, 3))))
    with pytest.raises(ebm.EbmError, match="numbers"):
        mean_of_chains(np.full((4, 50), "a"))
    with pytest.raises(ebm.EbmError, match="series must have shape"):
        mean_of_chains(np.zeros(50))
    unknown = np.random.default_rng(9).normal(size=(4, 1000))
    unknown[0, 0] = np.nan
    assert np.isnan([mean_of_chains(unknown).standard_error, drift(unknown).standard_error]).all()


def test_stacks_are_refused_one_by_one():
    rng = np.random.default_rng(7)
    good = rng.normal(size=(4, 500))
    stack = np.stack([good, good.cumsum(axis=1), 0 * good, np.where(good > 3.5, np.inf, 0)], -1)
    estimate = mean_of_chains(stack)
    assert np.isfinite(estimate.standard_error).tolist() == [True, False, False, False]
    assert estimate.standard_error[0] == pytest.approx(mean_of_chains(good).standard_error)
    assert "of 2 of 4: the values never change" in str(estimate)
    assert "nan" not in str(estimate)


def test_intervals_cover_what_they_promise():
    """The long version is ``python -m tests.chain_coverage``.

    Chains in one of two valleys of weights .9 and .1, seen through noise or not, and glasses at
    their transition. Without the rule, short chains cover less.
    """
    names = ("valley of weight .1", "valley in noise", "autoregression")
    long = [of_process(name, (130,), 500, seed, time=2) for seed, name in enumerate(names)]
    long.append(of_glasses("SK", 1.0, 2, 25, seed=4, lengths=[(700, 1)]))
    size, _, inside = np.concatenate(long, axis=1)
    assert 0.93 < np.nanmean(inside[size >= 400]) < 0.96
    short = [of_process(name, (8, 12, 20), 500, seed) for seed, name in enumerate(names[:2])]
    size, plain, inside = np.concatenate(short, axis=1)
    is_few = (size >= 50) & (size < 200)
    assert plain[is_few].mean() < 0.91
    assert np.nanmean(inside[is_few]) > 0.92


@pytest.mark.parametrize("shares", [{"start": "a"}, {"end": None}])
def test_shares_of_a_drift_are_numbers(shares):
    with pytest.raises(EbmError, match=next(iter(shares))):
        ebm.sampling.drift(np.zeros((2, 40)), **shares)
