"""The theorems of [EBM] §1 and eq 13, each by enumeration, with erratum E1."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

import ebm
from tests.oracles import (
    LinearFamily,
    all_states,
    distribution,
    finite_difference,
    mean_log_likelihood,
)
from tests.strategies import (
    binary_rows,
    finite_spaces,
    generators,
    pairwise_models,
    tabular_models,
)


class Curved(ebm.ParametricModel):
    """An energy that is not linear in its parameters: E = −Σ sin(θ_k) f_k − θ₀² f₀ f₁."""

    def __init__(self, theta):
        self.theta = np.asarray(theta, dtype=float)
        self.space = ebm.Spins(len(self.theta))

    @property
    def parameters(self):
        return self.theta

    def with_parameters(self, theta):
        return Curved(theta)

    def energy(self, states):
        s = np.asarray(states, dtype=float)
        return -s @ np.sin(self.theta) - self.theta[0] ** 2 * s[..., 0] * s[..., 1]

    def energy_gradient(self, states):
        s = np.asarray(states, dtype=float)
        gradient = -s * np.cos(self.theta)
        gradient[..., 0] -= 2 * self.theta[0] * s[..., 0] * s[..., 1]
        return gradient


def singles_and_triple(states):
    """Features of a family without pairs: the units and the product of the first three."""
    return np.concatenate([states, states[..., :3].prod(axis=-1, keepdims=True)], axis=-1)


def entropy(p):
    """−Σ p ln p with 0 · ln 0 = 0."""
    p = np.asarray(p)[np.asarray(p) > 0]
    return float(-(p * np.log(p)).sum())


def frequencies(rows, space):
    """Relative frequency of every state."""
    return np.bincount(space.index(rows), minlength=space.size) / len(rows)


def largest_entropy(features, means):
    """The distribution of largest entropy with E[features] = means, by a general solver over p."""
    table = np.column_stack([features, np.ones(len(features))])
    wanted = np.append(means, 1.0)
    with warnings.catch_warnings():
        # Steps beyond a bound are cut there; what counts is asserted of the answer.
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
        answer = minimize(
            lambda p: float((p * np.log(p)).sum()),
            np.full(len(table), 1 / len(table)),
            jac=lambda p: np.log(p) + 1,
            bounds=[(1e-12, 1)] * len(table),
            constraints={
                "type": "eq",
                "fun": lambda p: table.T @ p - wanted,
                "jac": lambda p: table.T,
            },
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
    assert answer.success
    assert np.abs(table.T @ answer.x - wanted).max() < 1e-8
    return answer.x


# Definition 1 -------------------------------------------------------------------------------


@given(
    pairwise_models(max_units=5)
    | tabular_models()
    | generators().map(lambda rng: Curved(rng.normal(size=3)))
)
def test_probabilities_are_exponentials_of_energies(model):
    """p(x) = exp(−E(x)) / Σ exp(−E), eq 1, for models of every kind."""
    weights = np.exp(-model.energy(all_states(model.space)))
    ensemble = ebm.exact(model)
    np.testing.assert_allclose(ensemble.weights, weights / weights.sum(), rtol=1e-11)
    assert ensemble.log_partition == pytest.approx(np.log(weights.sum()), rel=1e-12, abs=1e-12)
    ratio = np.exp(ensemble.log_probability(all_states(model.space)))
    np.testing.assert_allclose(ratio, weights / weights.sum(), rtol=1e-11)


# Theorem 2 ----------------------------------------------------------------------------------


@given(finite_spaces(max_units=3), generators(), st.floats(-20, 20))
def test_every_distribution_has_an_energy(space, rng, constant):
    """E_q = −ln q + C on the support of q, +∞ outside, gives q back for every C (eq 2, 3)."""
    q = rng.dirichlet(np.ones(space.size)) * (rng.random(space.size) > 0.3)
    q[rng.integers(space.size)] += 0.1
    q /= q.sum()
    model = ebm.TabularModel.from_probabilities(q, space)
    np.testing.assert_allclose(distribution(model)[1], q, rtol=1e-12)
    shifted = ebm.exact(ebm.TabularModel(model.energies + constant, space))
    np.testing.assert_allclose(shifted.weights, q, rtol=1e-11)
    assert shifted.log_partition == pytest.approx(-constant, abs=1e-11)


@given(generators())
@settings(max_examples=15)
def test_two_units_and_a_coupling_are_universal(rng):
    """Three parameters describe any p > 0 on {0,1}²: the fit reproduces it."""
    q = rng.dirichlet(np.ones(4)) * 0.9 + 0.025
    data = ebm.exact(ebm.TabularModel.from_probabilities(q, ebm.Binary(2)))
    result = ebm.fit(ebm.BoltzmannMachine(np.zeros((2, 2)), [0, 0]), data)
    np.testing.assert_allclose(result.ensemble.weights, q, atol=1e-9)


# Theorem 3 and erratum E1 -------------------------------------------------------------------


@given(binary_rows(max_units=4), generators())
@settings(max_examples=25)
def test_entropy_of_the_fit_exceeds_that_of_the_data_by_their_divergence(rows, rng):
    """S(p_fit) − S(q) = KL(q ‖ p_fit) ≥ 0 for q with the fitted moments, here the data.

    For a machine with any diagonal and center: constants of the family must not matter.
    """
    n = rows.shape[1]
    family = ebm.BoltzmannMachine(
        np.diag(rng.normal(size=n)), np.zeros(n), center=rng.uniform(-1, 2, n)
    )
    result = ebm.fit(family, rows)
    p, q = result.ensemble.weights, frequencies(rows, family.space)
    divergence = float(q @ np.log(q / p))
    assert divergence > -1e-12
    assert entropy(p) - entropy(q) == pytest.approx(divergence, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_no_distribution_with_the_same_moments_has_more_entropy(seed):
    """The fit is what a general solver finds that knows only the moments (eq 4, 5)."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([all_states(ebm.Binary(3)), rng.random((40, 3)) < [0.2, 0.5, 0.6]])
    rows[8:, 1] *= rows[8:, 0] if seed % 2 else 1
    fitted = ebm.fit(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), center=0.3), rows)
    states = all_states(ebm.Binary(3))
    pairs = states[:, [0, 0, 1]] * states[:, [1, 2, 2]]
    features = np.column_stack([states, pairs])
    best = largest_entropy(features, frequencies(rows, ebm.Binary(3)) @ features)
    assert fitted.ensemble.entropy() >= entropy(best) - 1e-7
    np.testing.assert_allclose(fitted.ensemble.weights, best, atol=2e-5)


def independent_units():
    """Three independent units of rates .3, .6, .45, the largest entropy at these means."""
    rates = np.array([0.3, 0.6, 0.45])
    x = all_states(ebm.Binary(3))
    return rates, (rates**x * (1 - rates) ** (1 - x)).prod(axis=1)


def test_a_fixed_part_of_the_energy_breaks_maximum_entropy():
    """Erratum E1: with E = E₀ − θ·x the fit has the means of the data but not the largest entropy.

    The data are independent units, themselves a distribution with these means: 1.972 nats, where
    the fitted model has 1.390.
    """
    rates, q = independent_units()
    data = ebm.exact(ebm.TabularModel.from_probabilities(q, ebm.Binary(3)))
    family = LinearFamily(
        ebm.Binary(3),
        lambda x: x,
        np.zeros(3),
        base=lambda x: 5 * x[..., 0] * x[..., 1] - 4 * x[..., 1] * x[..., 2],
    )
    fitted = ebm.fit(family, data)
    assert fitted.converged
    np.testing.assert_allclose(fitted.ensemble.moments().mean, rates, atol=1e-7)
    best = entropy(largest_entropy(all_states(ebm.Binary(3)), rates))
    assert best == pytest.approx(entropy(q), abs=1e-7)
    assert fitted.ensemble.entropy() == pytest.approx(1.390392, abs=1e-5)
    assert fitted.ensemble.entropy() < best - 0.5


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_a_fixed_part_within_the_span_keeps_maximum_entropy(slope):
    """E1's condition: E ∈ span{∂E/∂θ, 1} is enough; here E₀ = slope · Σx + 1."""
    _, q = independent_units()
    data = ebm.exact(ebm.TabularModel.from_probabilities(q, ebm.Binary(3)))
    family = LinearFamily(
        ebm.Binary(3), lambda x: x, np.zeros(3), base=lambda x: slope * x.sum(axis=-1) + 1
    )
    fitted = ebm.fit(family, data)
    np.testing.assert_allclose(fitted.ensemble.weights, q, atol=1e-7)
    assert fitted.ensemble.entropy() == pytest.approx(entropy(q), abs=1e-6)


# Theorem 4 ----------------------------------------------------------------------------------


@given(
    pairwise_models() | tabular_models() | generators().map(lambda rng: Curved(rng.normal(size=4)))
)
def test_local_maxima_of_p_are_local_minima_of_the_energy(model):
    """Under single-unit changes; p from the table, the minima from the library."""
    states, (_, p) = all_states(model.space), distribution(model)
    low, high = model.space.values
    maxima = set()
    for state, own in zip(states, p, strict=True):
        neighbors = np.where(np.eye(model.space.n), low + high - state, state)
        if own > 0 and own >= p[model.space.index(neighbors)].max():
            maxima.add(tuple(state))
    minima = ebm.local_minima(model)
    assert {tuple(state) for state in minima.states} == maxima
    assert len(minima) == len(maxima) >= 1
    assert (np.diff(minima.energies) >= 0).all()
    assert p[model.space.index(minima.states[0])] == p.max()


# Theorem 5 ----------------------------------------------------------------------------------


def learning_gradient(model, data):
    """E_data[∂E/∂θ] − E_model[∂E/∂θ], eq 7."""
    return model.mean_energy_gradient(data) - model.mean_energy_gradient(ebm.exact(model))


@given(
    pairwise_models(max_units=4)
    | generators().map(lambda rng: Curved(rng.normal(size=3)))
    | generators().map(
        lambda rng: LinearFamily(
            ebm.Levels(3, 3),
            singles_and_triple,
            rng.normal(0, 0.5, 4),
            base=lambda x: 0.3 * x[..., 0] * x[..., 2],
        )
    ),
    generators(),
)
def test_the_learning_rule_is_the_gradient_of_the_likelihood(model, rng):
    """∂L/∂θ = E_D[∂E/∂θ] − E_p[∂E/∂θ] (eq 7): finite differences of L = −mean ln p.

    For families linear in θ or not, with a θ-free part or without, at any θ and for any data.
    """
    rows = model.space.random(15, rng)
    data = ebm.Ensemble.from_data(rows, space=model.space)
    slopes = finite_difference(
        lambda theta: -mean_log_likelihood(model.with_parameters(theta), rows), model.parameters
    )
    np.testing.assert_allclose(learning_gradient(model, data), slopes, rtol=1e-6, atol=1e-6)


@given(binary_rows(max_units=4), generators())
@settings(max_examples=25)
def test_the_fit_stands_where_the_gradient_vanishes(rows, rng):
    """Zero gradient, the moments of the data (eq 14, 15), and the smallest L."""
    n = rows.shape[1]
    center = rng.uniform(-1, 2, n)
    fitted = ebm.fit(ebm.BoltzmannMachine(np.eye(n), np.zeros(n), center=center), rows).model
    data = ebm.Ensemble.from_data(rows)
    np.testing.assert_allclose(learning_gradient(fitted, data), 0, atol=1e-8)
    x, p = all_states(fitted.space), distribution(fitted)[1]
    np.testing.assert_allclose(p @ x, rows.mean(axis=0), atol=1e-8)
    d, observed = x - center, rows - center
    np.testing.assert_allclose(d.T @ (d * p[:, None]), observed.T @ observed / len(rows), atol=1e-8)
    best = mean_log_likelihood(fitted, rows)
    for _ in range(3):
        step = rng.normal(0, 0.1, len(fitted.parameters))
        other = fitted.with_parameters(fitted.parameters + step)
        assert mean_log_likelihood(other, rows) < best


# Equation 13 --------------------------------------------------------------------------------


@given(st.integers(1, 5), generators())
def test_conditionals_follow_equation_13(n, rng):
    """p(x_α=1 | rest) = σ(Σ_{β≠α} W_(αβ)(x_β−x̂_β) + b_α + (½−x̂_α)W_αα) from the joint table.

    For W without symmetry, any diagonal and any center, as a formula and as a method.
    """
    w, b, center = rng.normal(0, 1.5, (n, n)), rng.normal(size=n), rng.normal(0, 2, n)
    machine = ebm.BoltzmannMachine(w, b, center=center)
    p = distribution(machine)[1]
    symmetric = (w + w.T) / 2
    for x in all_states(machine.space):
        for unit in range(n):
            on, off = x.copy(), x.copy()
            on[unit], off[unit] = 1, 0
            joint = p[machine.space.index([off, on])]
            others = [other for other in range(n) if other != unit]
            field = symmetric[unit, others] @ (x - center)[others]
            field += b[unit] + (0.5 - center[unit]) * w[unit, unit]
            wanted = joint[1] / joint.sum()
            assert expit(field) == pytest.approx(wanted, rel=1e-9)
            assert machine.conditional(x)[unit] == pytest.approx(wanted, rel=1e-9)
            assert machine.input(x)[unit] == pytest.approx(field, abs=1e-11)
