"""Equations 31-33 and 36 of [EBM], and the first order at any center, with their errata."""

import numpy as np
import pytest
from scipy.special import expit, logit

import ebm
from ebm.perturbation import bernoulli_cumulants, central_moment_tensor, connected_tensor, expand
from tests.oracles import all_states, distribution

N = 4
STEP = 1e-3


def couplings(seed, diagonal=True):
    """Random and symmetric."""
    a = np.random.default_rng(seed).normal(size=(N, N))
    return (a + a.T) / 2 * (1 if diagonal else 1 - np.eye(N))


def machines(center_of, seed=0, diagonal=True):
    """The machine at couplings tW for two t of opposite sign, at center x̂(t); and σ."""
    rng = np.random.default_rng(100 + seed)
    biases = rng.normal(size=N)
    weights = couplings(seed, diagonal)
    models = [
        ebm.BoltzmannMachine(t * weights, biases, center=center_of(t, biases))
        for t in (STEP, -STEP)
    ]
    return weights, biases, models


def slope(function, models):
    """First order in t of a function of the machine, by central differences."""
    return (function(models[0]) - function(models[1])) / (2 * STEP)


def at_sigma(t, biases):
    """x̂ = σ + O(W), as the equations want it."""
    return expit(biases) + t * np.array([0.3, -0.2, 0.5, 0.1])


def random_center(t, biases):
    """Any x̂."""
    return np.array([0.9, -0.2, 0.4, 0.1])


def exact_ratio(model):
    """p/p_0 over all states, p_0 at the biases of the model."""
    _, p = distribution(model)
    independent = ebm.BoltzmannMachine(np.zeros((N, N)), model.biases)
    return p / distribution(independent)[1]


def expanded_ratio(model):
    """The same to first order; p_0 of the expansion has the diagonal in its biases."""
    states = all_states(model.space)
    expansion = expand(model, 1)
    independent = ebm.BoltzmannMachine(np.zeros((N, N)), model.biases)
    folded = ebm.BoltzmannMachine(np.zeros((N, N)), expansion.machine.biases)
    return expansion.density_ratio(states) * distribution(folded)[1] / distribution(independent)[1]


def second_moments(model, moments):
    """⟨(x_μ−x̂_μ)(x_ν−x̂_ν)⟩."""
    d = moments.mean - model.center
    return moments.covariance + np.outer(d, d)


def exact_moments(model):
    return ebm.exact(model).moments()


def first_moments(model):
    return expand(model, 1).moments()


@pytest.mark.parametrize("ratio", [exact_ratio, expanded_ratio])
def test_equation_31(ratio):
    """p_1/p_0 = ½ Σ W_αβ [(x_α−σ_α)(x_β−σ_β) − V^αβ]."""
    weights, biases, models = machines(at_sigma)
    sigma = expit(biases)
    d = all_states(models[0].space) - sigma
    v = central_moment_tensor(sigma, 2)
    expected = 0.5 * (np.einsum("ab,sa,sb->s", weights, d, d) - np.sum(weights * v))
    np.testing.assert_allclose(slope(ratio, models), expected, atol=1e-5)


@pytest.mark.parametrize("moments", [exact_moments, first_moments])
def test_equation_32(moments):
    """⟨x_γ⟩ = σ_γ + ½ Σ W_αβ V^αβγ."""
    weights, biases, models = machines(at_sigma)
    v = central_moment_tensor(expit(biases), 3)
    expected = 0.5 * np.einsum("ab,abc->c", weights, v)
    found = slope(lambda model: moments(model).mean, models)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("moments", [exact_moments, first_moments])
def test_equation_33(moments):
    """⟨(x_μ−x̂_μ)(x_ν−x̂_ν)⟩ = V^μν + Σ W_αβ V^αμ V^βν + ½ Σ W_αβ V_c^αβμν."""
    weights, biases, models = machines(at_sigma)
    sigma = expit(biases)
    v, c = central_moment_tensor(sigma, 2), connected_tensor(sigma, 4)
    expected = v @ weights @ v + 0.5 * np.einsum("ab,abmn->mn", weights, c)
    found = slope(lambda model: second_moments(model, moments(model)), models)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_equations_31_to_33_fail_at_a_general_center():
    """Erratum: they hold where x̂ = σ + O(W)."""
    weights, biases, models = machines(random_center)
    v = central_moment_tensor(expit(biases), 3)
    stated = 0.5 * np.einsum("ab,abc->c", weights, v)
    found = slope(lambda model: exact_moments(model).mean, models)
    assert np.abs(found - stated).max() > 0.05


@pytest.mark.parametrize("moments", [exact_moments, first_moments])
def test_first_order_of_the_means_at_any_center(moments):
    """σ_γ + κ₂ Σ_β W_γβ (σ_β−x̂_β) + ½ W_γγ κ₃, the sum over β ≠ γ and γ both."""
    weights, biases, models = machines(random_center)
    sigma, k2, k3 = expit(biases), *bernoulli_cumulants(expit(biases), 3)[1:]
    expected = k2 * (weights @ (sigma - random_center(0, biases))) + 0.5 * np.diag(weights) * k3
    found = slope(lambda model: moments(model).mean, models)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("moments", [exact_moments, first_moments])
def test_first_order_of_the_covariance_at_any_center(moments):
    """W_μν κ₂κ₂ off the diagonal; κ₃ Σ W (σ−x̂) + ½ W_μμ κ₄ more on it."""
    weights, biases, models = machines(random_center)
    sigma = expit(biases)
    _, k2, k3, k4 = bernoulli_cumulants(sigma, 4)
    expected = weights * np.outer(k2, k2)
    expected += np.diag(k3 * (weights @ (sigma - random_center(0, biases))))
    expected += np.diag(0.5 * np.diag(weights) * k4)
    found = slope(lambda model: moments(model).covariance, models)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_equation_36():
    """C_μμ = x̂_μ(1−x̂_μ) at the mean; it holds exactly, not up to O(W²) only (erratum E4)."""
    model = ebm.BoltzmannMachine(couplings(1), logit([0.2, 0.5, 0.7, 0.4]))
    mean = ebm.exact(model).moments().mean
    moments = expand(model, 3, center=mean).moments()
    np.testing.assert_allclose(
        np.diag(moments.covariance), moments.mean * (1 - moments.mean), rtol=1e-14
    )
    np.testing.assert_allclose(np.diag(exact_moments(model).covariance), mean * (1 - mean))


def test_equation_38_inverts_the_first_order():
    """The couplings that first-order inversion finds from first-order covariances are W."""
    weights = couplings(2, diagonal=False)
    model = ebm.BoltzmannMachine(weights, np.array([0.3, -0.5, 1.0, 0.0]), center=0.5)
    terms = expand(model, 1).covariance_terms
    variance = np.diag(terms[0])
    inverted = terms[1] / np.outer(variance, variance) * (1 - np.eye(N))
    np.testing.assert_allclose(inverted, weights, atol=1e-14)


def test_second_order_at_the_independent_center_is_the_onsager_term():
    """¼ Σ W² κ₂κ₂: what naive mean field lacks and TAP has."""
    model = ebm.BoltzmannMachine(couplings(3, diagonal=False), np.array([0.4, -1.0, 0.2, 0.8]))
    expansion = expand(model, 2, center="independent")
    mean = expansion.machine.center
    v = mean * (1 - mean)
    expected = 0.25 * v @ expansion.machine.weights**2 @ v
    assert expansion.log_partition_terms[2] == pytest.approx(expected, rel=1e-9)
