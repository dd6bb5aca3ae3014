"""Reports by Markov chains, beside the exact ones of the same data."""

from functools import partial

import numpy as np
import pytest

import ebm
from ebm.errors import ConstantUnitError, EbmWarning, NoMaximumWarning
from ebm.inversion import TruncatedNewton
from ebm.plotting import report_figure
from ebm.report import MAX_UNITS_SAMPLED, _sections, analysis, analyze, sampled
from ebm.report.sampled import SampledModel, fit_by_chains
from ebm.spaces import Binary, Spins

N = 6


def rows(space, n_rows=3000):
    rng = np.random.default_rng(4)
    weights = rng.normal(0, 1.0, (N, N))
    machine = ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.5, N), center=0.5)
    return ebm.exact(machine if space is Binary else machine.to_spins()).sample(n_rows, rng=1)


def start(space):
    family = ebm.BoltzmannMachine if space is Binary else ebm.IsingModel
    return family(np.zeros((N, N)), np.zeros(N))


@pytest.fixture(params=[Binary, Spins], ids=["binary", "spins"])
def both(request):
    """The fit by chains and the exact one."""
    data = ebm.Ensemble.from_data(rows(request.param), space=request.param)
    return fit_by_chains(data, rng=2), ebm.fit(start(request.param), data), data


def test_chains_find_the_maximum_of_the_likelihood(both):
    chains, exact, _ = both
    assert chains.converged
    # A misfit of a quarter of a standard error ends the fit.
    z = (chains.model.parameters - exact.model.parameters) / exact.standard_errors
    assert np.sqrt((z**2).mean()) < 1
    ratio = chains.standard_errors / exact.standard_errors
    assert 0.8 < ratio.min() < ratio.max() < 1.25


def test_likelihood_and_entropy_are_within_their_errors(both):
    chains, _, data = both
    truth, own = ebm.exact(chains.model), chains.ensemble
    assert isinstance(own, SampledModel)
    assert abs(own.log_partition - truth.log_partition) < 6 * own.partition.standard_error
    likelihood = data.expectation(truth.log_probability)
    assert abs(chains.log_likelihood - likelihood) < 6 * own.partition.standard_error
    entropy = own.entropy(base=2)
    assert abs(entropy.value - truth.entropy(base=2)) < 6 * entropy.standard_error
    assert entropy.standard_error < 0.05
    states = data.states[:5]
    shift = own.log_probability(states) - truth.log_probability(states)
    assert np.ptp(shift) < 1e-12
    assert own.moments().log_partition == own.log_partition


def test_a_penalty_is_that_of_the_exact_fit():
    data = ebm.Ensemble.from_data(rows(Binary))
    chains = fit_by_chains(data, 0.05, 0.02, rng=2)
    exact = ebm.fit(start(Binary), data, penalty=ebm.Penalty(l2=0.05, l2_biases=0.02))
    z = (chains.model.parameters - exact.model.parameters) / exact.standard_errors
    assert np.sqrt((z**2).mean()) < 1
    ratio = chains.standard_errors / exact.standard_errors
    assert 0.8 < ratio.min() < ratio.max() < 1.25


def test_a_report_by_chains_says_so(monkeypatch):
    monkeypatch.setattr(analysis, "MAX_UNITS_EXACT", N - 1)
    report = analyze(rows(Binary))
    text = " ".join(str(report).split())
    for words in (
        "maximum likelihood by 1000 persistent Markov chains (6 units, more than 5)",
        "(fit by chains; 15 in all)",
        "S2, pairwise model",
        "largest misfit of pairs",
        "Pseudo-likelihood against the fit by chains",
    ):
        assert words in text
    for words in ("AIC", "exact", "KL("):
        assert words not in text
    assert text.count("±") >= 2
    assert max(map(len, str(report).splitlines())) <= 80
    assert report.comparison.gamma < 0.3
    exact = report.to_dict()["entropies"]["pairwise_bits"]
    monkeypatch.undo()
    assert abs(exact - analyze(rows(Binary)).entropies.pairwise) < 0.05
    assert len(report_figure(report).axes) >= 6


def test_pairs_never_seen_together_are_named_and_have_errors():
    data = rows(Binary)
    data[:, 1] *= 1 - data[:, 0]
    with pytest.warns(NoMaximumWarning):
        found = fit_by_chains(ebm.Ensemble.from_data(data), rng=0)
    assert (found.standard_errors > 0).all()
    assert np.isfinite(found.standard_errors).all()


def test_an_interrupt_after_the_fit_keeps_the_fit(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    data = ebm.Ensemble.from_data(rows(Binary))
    whole = fit_by_chains(data, rng=2)
    monkeypatch.setattr(sampled, "_errors", interrupt)
    found = fit_by_chains(data, rng=2)
    assert np.array_equal(found.model.parameters, whole.model.parameters)
    assert found.standard_errors is None
    assert "annealing of 100 steps only" in found.warnings[-1]
    truth = ebm.exact(found.model).log_partition
    assert abs(found.ensemble.log_partition - truth) < 6 * found.ensemble.partition.standard_error


def test_an_interrupt_of_the_draws_keeps_the_fit_and_ends_the_report(monkeypatch):
    """The pseudo-likelihood beside the fit is no result of its own, so that it ends as well."""
    data, sample, calls = ebm.Ensemble.from_data(rows(Binary)), sampled.sample, []

    def interrupted(*arguments, n_draws, **settings):
        calls.append(n_draws)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return sample(*arguments, n_draws=n_draws, **settings)

    monkeypatch.setattr(analysis, "MAX_UNITS_EXACT", N - 1)
    whole = analyze(data, rng=2)
    assert not whole.interrupted
    monkeypatch.setattr(sampled, "sample", interrupted)
    found = analyze(data, rng=2)
    assert calls == [sampled.N_DRAWS, sampled.HASTY_DRAWS]
    assert np.array_equal(found.model.parameters, whole.model.parameters)
    assert found.interrupted
    assert found.comparison is None
    monkeypatch.setattr(sampled, "sample", sample)
    stopped = partial(ebm.inversion.pseudolikelihood, solver=Stopped())
    with pytest.warns(EbmWarning, match="interrupted after 0"):
        stopped(data)
    monkeypatch.setattr(_sections, "pseudolikelihood", stopped)
    assert analyze(data, rng=2).interrupted


class Stopped(TruncatedNewton):
    """Steps of which the first one meets Ctrl-C."""

    def step(self, loss, state):
        raise KeyboardInterrupt


def test_the_entropy_of_a_fit_is_that_at_the_maximum(monkeypatch):
    """The noise of the fit enters to second order: S₂ = −E_D[ln p] at the maximum."""
    best = analyze(rows(Binary)).entropies.pairwise
    monkeypatch.setattr(analysis, "MAX_UNITS_EXACT", N - 1)
    for seed in range(4):
        found = analyze(rows(Binary), rng=seed).entropies
        assert abs(found.pairwise - best) < 6 * found.model_error + 1e-3
        assert found.model_error < 0.01


def test_constant_units_are_refused():
    data = rows(Binary)
    data[:, 2] = 0
    with pytest.raises(ConstantUnitError, match="2"):
        fit_by_chains(ebm.Ensemble.from_data(data))


def test_equal_seeds_give_equal_reports():
    data = ebm.Ensemble.from_data(rows(Binary))
    first, second = (fit_by_chains(data, rng=3) for _ in range(2))
    assert np.array_equal(first.model.parameters, second.model.parameters)
    assert first.log_likelihood == second.log_likelihood


def test_up_to_500_units_are_fitted():
    assert MAX_UNITS_SAMPLED == 500


def test_an_error_of_log_partition_that_would_be_too_small_is_refused(monkeypatch):
    rng = np.random.default_rng(0)
    couplings = np.triu(rng.normal(0, 2.0, (40, 40)), 1)
    glass = ebm.IsingModel(couplings + couplings.T, np.zeros(40))
    partition = sampled.partition_of(glass, 20, rng, False)
    assert np.isnan(partition.standard_error)
    assert partition.lower.value < partition.upper.value
    monkeypatch.setattr(sampled, "partition_of", lambda *arguments: partition)
    found = fit_by_chains(ebm.Ensemble.from_data(rows(Binary)), rng=2)
    assert found.warnings[-1].startswith("ln Z has no error")
    entropy = found.ensemble.entropy()
    assert np.isnan(entropy.standard_error)
    assert partition.note in entropy.note
    monkeypatch.setattr(analysis, "MAX_UNITS_EXACT", N - 1)
    report = analyze(rows(Binary))
    assert "its error is not to be trusted" in " ".join(str(report).split())
    assert report.to_dict()["fit"]["log_likelihood_nats_per_row_standard_error"] is None
