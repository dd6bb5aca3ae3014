"""Parameters → exact draws → fit → parameters within their standard errors."""

from functools import cache

import numpy as np
import pytest

import ebm
from tests.statistical import FALSE_FAIL_RATE, check_z_scores

N_SAMPLES = 4000


def truth(n=5, seed=0):
    """Couplings of order one with a diagonal and a center, in which every pattern is common."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 0.9, (n, n)), 1)
    return ebm.BoltzmannMachine(
        weights + weights.T + np.diag(rng.normal(size=n)), rng.normal(0, 0.5, n), center=0.4
    )


@cache
def replicates(coding, n_replicates=60):
    """Fits, and whitened estimates: Cov θ̂ is F⁻¹ / N in theory, so L'(θ̂ − θ) √N is standard."""
    model = truth() if coding == "binary" else truth().to_spins()
    exact = ebm.exact(model)
    root = np.linalg.cholesky(ebm.fisher_information(model).dense())
    family = model.with_parameters(np.zeros_like(model.parameters))
    rows = [exact.sample(N_SAMPLES, rng=seed) for seed in range(n_replicates)]
    results = [ebm.fit(family, sample) for sample in rows]
    found = np.array([result.model.parameters for result in results])
    return results, (found - model.parameters) @ root


def check_no_bias(whitened):
    """The mean over the replicates is as near to the truth as their number allows."""
    check_z_scores(whitened.mean(axis=0), 0, 1 / np.sqrt(N_SAMPLES * len(whitened)))


@pytest.mark.parametrize("coding", ["binary", "spins"])
def test_estimates_scatter_as_the_standard_errors_say(coding):
    model = truth() if coding == "binary" else truth().to_spins()
    results, whitened = replicates(coding)
    assert all(result.converged for result in results)
    # Independent scores: all parameters of all replicates at once, both tails.
    check_z_scores(whitened, 0, 1 / np.sqrt(N_SAMPLES))
    check_no_bias(whitened)
    # And each parameter with the error that its own fit reports.
    found = np.array([result.model.parameters for result in results])
    errors = np.array([result.standard_errors for result in results])
    for k in range(found.shape[1]):
        check_z_scores(found[:, k], model.parameters[k], errors[:, k])


def test_a_bias_of_a_third_of_a_standard_error_would_be_noticed():
    _, whitened = replicates("binary")
    with pytest.raises(AssertionError):
        check_no_bias(whitened + 1 / 3 / np.sqrt(N_SAMPLES))


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_errors_wrong_by_a_quarter_would_be_noticed(factor):
    _, whitened = replicates("binary")
    with pytest.raises(AssertionError):
        check_z_scores(whitened, 0, factor / np.sqrt(N_SAMPLES))


def test_likelihood_ratio_is_chi_square():
    """2N(ℓ(θ̂) − ℓ(θ)) has a chi-square law with p degrees of freedom (Wilks)."""
    from scipy.stats import kstest

    model = truth()
    exact = ebm.exact(model)
    family = model.with_parameters(np.zeros_like(model.parameters))
    ratios = []
    for seed in range(80):
        rows = exact.sample(N_SAMPLES, rng=seed)
        own = exact.log_probability(rows).mean()
        ratios.append(2 * N_SAMPLES * (ebm.fit(family, rows).log_likelihood - own))
    assert min(ratios) > 0
    freedom = len(model.parameters)
    assert kstest(ratios, "chi2", args=(freedom,)).pvalue > FALSE_FAIL_RATE
    assert kstest(ratios, "chi2", args=(freedom + 6,)).pvalue < FALSE_FAIL_RATE


def test_weighted_samples_recover_the_model_too():
    # Draws thinned by a known bias, reweighted back.
    model = truth(4, seed=3)
    exact = ebm.exact(model)
    rows = exact.sample(40_000, rng=0)
    kept = rows[np.random.default_rng(1).random(len(rows)) < np.where(rows[:, 0] == 1, 0.2, 1.0)]
    weights = np.where(kept[:, 0] == 1, 5.0, 1.0)
    result = ebm.fit(model, ebm.Ensemble.from_data(kept, space=model.space, sample_weight=weights))
    difference = (result.model.parameters - model.parameters) / result.standard_errors
    # The errors count a weight of five as five rows, so scores are up to √5 too large.
    assert np.abs(difference).max() < 5 * np.sqrt(5)
    naive = ebm.fit(model, kept)
    naive_difference = (naive.model.parameters - model.parameters) / naive.standard_errors
    assert np.abs(naive_difference).max() > 20
