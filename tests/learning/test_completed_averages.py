"""The learning rule with hidden units by conditioning and by clamped chains; [EBM] eq 11."""

import numpy as np
import pytest
from scipy.stats import norm

import ebm
from ebm.sampling import SamplingRun
from tests.oracles import all_states
from tests.statistical import FALSE_FAIL_RATE

#: Three visible units, three hidden ones, all coupled.
VISIBLE, HIDDEN = [0, 1, 2], [3, 4, 5]
#: Rows: the k-th visible state k + 1 times.
ROWS = np.repeat(all_states(ebm.Binary(3)), np.arange(1, 9), axis=0)
P_DATA = np.arange(1, 9) / 36
#: Clamped draws of each row, and free draws.
K, N_FREE = 5, 400


def machine():
    start = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6), center=np.arange(1, 7) / 10)
    return start.with_parameters(np.sin(np.arange(1, 22)))


def completions(model):
    """(p_D(v), conditional ensemble, ∂E/∂θ at all its states) of each visible state."""
    for p, v in zip(P_DATA, all_states(ebm.Binary(3)), strict=True):
        hidden = ebm.exact(model.given(dict(enumerate(v))))
        states = np.hstack([np.tile(v, (8, 1)), hidden.states])
        yield p, hidden, model.energy_gradient(states)


def exact_gradient(model):
    """∂L = E_D E_{h|v}[∂E] − E[∂E], all averages exact."""
    clamped = sum(p * (hidden.weights @ g) for p, hidden, g in completions(model))
    return clamped - model.mean_energy_gradient(ebm.exact(model))


def test_reference_numbers_of_the_loss_and_its_gradient():
    model = machine()
    log_z = ebm.exact(model).log_partition
    log_p = [hidden.log_partition - log_z for _, hidden, _ in completions(model)]
    assert round(log_z, 10) == 5.3189133748
    assert round(-float(P_DATA @ log_p), 10) == 2.1700657097
    assert round(float(np.linalg.norm(exact_gradient(model))), 10) == 0.4067116821


def predicted_covariances(model):
    """E_D Cov_{h|v}[g]/(N K) and Cov_{p(v,h)}[g]/N_f, independent draws."""
    within = 0.0
    for p, hidden, g in completions(model):
        deviation = g - hidden.weights @ g
        within = within + p * (deviation.T @ (deviation * hidden.weights[:, None]))
    free = ebm.exact(model).covariance(model.energy_gradient)
    return within / (len(ROWS) * K), free / N_FREE


def sampled_gradients(model, n_repeats):
    """Gradients from clamped and free chains, one draw of each, (n_repeats, p)."""
    rows = np.tile(np.repeat(ROWS, K, axis=0), (n_repeats, 1))
    run = SamplingRun(clamped={unit: rows[:, unit] for unit in VISIBLE})
    clamped = ebm.sample(model, n_draws=1, burn_in=60, rng=1, run=run).chains[:, 0]
    free = ebm.sample(model, n_draws=1, n_chains=N_FREE * n_repeats, burn_in=60, rng=2)
    means = [
        model.energy_gradient(states.reshape(n_repeats, -1, 6)).mean(axis=1)
        for states in (clamped, free.chains[:, 0])
    ]
    return means[0] - means[1]


@pytest.fixture(scope="module")
def repeats():
    return sampled_gradients(machine(), 400)


def test_clamped_and_free_chains_give_the_gradient(repeats):
    errors = repeats.std(axis=0, ddof=1) / np.sqrt(len(repeats))
    z = (repeats.mean(axis=0) - exact_gradient(machine())) / errors
    assert np.abs(z).max() < norm.isf(FALSE_FAIL_RATE / 2 / len(z))


def check_trace(repeats, trace):
    """The trace of the covariance, to the error of its estimate from the repeats themselves."""
    squares = ((repeats - repeats.mean(axis=0)) ** 2).sum(axis=1)
    error = squares.std(ddof=1) / np.sqrt(len(repeats))
    assert abs(squares.mean() - trace) < norm.isf(FALSE_FAIL_RATE / 2) * error


def test_the_scatter_of_sampled_gradients_is_that_of_both_sides(repeats):
    """Cov = E_D Cov_{h|v}[g]/(N K) + Cov_{p(v,h)}[g]/N_f, of trace .014580."""
    clamped, free = predicted_covariances(machine())
    assert round(float(np.trace(clamped + free)), 6) == 0.014580
    check_trace(repeats, np.trace(clamped + free))
    for part in (clamped, free):
        with pytest.raises(AssertionError):
            check_trace(repeats, np.trace(part))


def test_draws_of_clamped_chains_are_the_completed_average_of_the_learning_rule():
    """Samples are an ensemble over both kinds of units: moments suffice, as for all pairs."""
    model = machine()
    run = SamplingRun(clamped={unit: ROWS[:, unit] for unit in VISIBLE})
    completed = ebm.sample(model, n_draws=2000, rng=1, run=run)
    wanted = sum(p * (hidden.weights @ g) for p, hidden, g in completions(model))
    estimate = completed.estimate(model.energy_gradient)
    np.testing.assert_allclose(model.mean_energy_gradient(completed), estimate.value, atol=1e-12)
    # Of visible units alone the mean is that of the rows, exactly.
    known = estimate.standard_error != estimate.standard_error
    np.testing.assert_allclose(estimate.value[known], wanted[known], atol=1e-12)
    z = (estimate.value - wanted)[~known] / estimate.standard_error[~known]
    assert np.abs(z).max() < norm.isf(FALSE_FAIL_RATE / 2 / len(z))
    assert known.sum() == 6


def test_clamped_draws_are_completed_rows_of_a_marginal():
    """The marginal takes an ensemble of joint states as it is, where it would sum hidden units."""
    model = machine()
    marginal = ebm.marginalize(model, keep=VISIBLE)
    run = SamplingRun(clamped={unit: ROWS[:, unit] for unit in VISIBLE})
    completed = ebm.sample(model, n_draws=1000, rng=1, run=run)
    exact = marginal.mean_energy_gradient(ebm.Ensemble.from_data(ROWS))
    sampled = marginal.mean_energy_gradient(completed)
    errors = completed.estimate(model.energy_gradient).standard_error
    z = ((sampled - exact) / errors)[np.isfinite(errors)]
    assert np.abs(z).max() < norm.isf(FALSE_FAIL_RATE / 2 / len(z))
