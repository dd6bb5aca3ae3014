"""ln Z along a fit by chains: the log-likelihood of the history, with its error."""

from itertools import pairwise

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError
from ebm.learning import _partition_path
from ebm.learning._partition_path import PartitionPath
from ebm.sampling import BennettRatio
from tests.sampling.test_no_drift import machine
from tests.statistical import check_z_scores

RATIO = BennettRatio(ebm.Annealing(200, 40))
CHAINS = ebm.Likelihood(ebm.PersistentChains(100))


@pytest.fixture(scope="module")
def rows():
    """Two patterns of eight units, with noise."""
    rng = np.random.default_rng(0)
    patterns = np.array([[1, 1, 1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1, 0, 1]])
    return patterns[rng.integers(0, 2, 400)] ^ (rng.random((400, 8)) < 0.1)


def fitted(rows, method, n_epochs=20, rng=1, **how):
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 3, rng=0)
    steps = ebm.GradientSteps(ebm.GradientDescent(1.0), n_epochs=n_epochs, log_partition=method)
    return ebm.fit(start, rows, loss=CHAINS, solver=steps, rng=rng, **how)


def test_the_log_likelihood_of_each_epoch_is_the_exact_one(rows):
    """Within its error, which grows along the way; the fit itself is the same as without."""
    followed, exact, plain = (fitted(rows, method) for method in (RATIO, ebm.exact, None))
    assert np.array_equal(followed.model.weights, exact.model.weights)
    assert np.array_equal(followed.model.weights, plain.model.weights)
    assert all(np.isnan(entry.log_likelihood) for entry in plain.history)
    truth = np.array([entry.log_likelihood for entry in exact.history])
    value = np.array([entry.log_likelihood for entry in followed.history])
    error = np.array([entry.log_likelihood_error for entry in followed.history])
    assert all(entry.log_likelihood_error == 0 for entry in exact.history)
    data = ebm.Ensemble.from_data(rows)
    wanted = -data.expectation(exact.model.energy) - ebm.exact(exact.model).log_partition
    assert abs(truth[-1] - wanted) < 1e-9
    assert truth[-1] - truth[0] > 0.3
    # Entries of one fit have errors in common.
    assert (np.abs(value - truth) < 4.5 * error).all()
    assert error.max() < 0.15


def walk(path, n_models=8, seed=0):
    """z-scores of ln Z at the end of a way that does not depend on the chains."""
    rng = np.random.default_rng(5)
    family = ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 0.3, (8, 3)), rng.normal(size=8), rng.normal(size=3)
    )
    direction = rng.normal(0, 0.25, len(family.parameters))
    thetas = [family.parameters + k * direction for k in range(n_models)]
    state = path.start(family, np.random.default_rng(seed))
    for before, after in pairwise(thetas):
        state = path.follow(family, before, after, state)
    found = path.estimate(state)
    return found, ebm.exact(family.with_parameters(thetas[-1])).log_partition


def test_errors_are_those_of_the_spread_and_grow_along_the_way(monkeypatch):
    monkeypatch.setattr(_partition_path, "SHARE", 0.0)
    ends = [walk(PartitionPath(RATIO), 8, seed) for seed in range(20)]
    truth = ends[0][1]
    errors = np.array([found.standard_error for found, _ in ends])
    check_z_scores([found.value for found, _ in ends], truth, errors)
    assert errors.mean() > 1.2 * walk(PartitionPath(RATIO), 2)[0].standard_error


def test_chains_without_weight_are_replaced_by_a_new_ratio(monkeypatch):
    """Where 70 % are not effective any more; in steps so large that they do not follow."""
    monkeypatch.setattr(_partition_path, "MOST_STEPS", 1)
    found, truth = walk(PartitionPath(RATIO), 7)
    monkeypatch.setattr(_partition_path, "SHARE", 0.0)
    kept, _ = walk(PartitionPath(RATIO), 7)
    assert found.standard_error < 0.7 * kept.standard_error
    assert abs(found.value - truth) < 5 * found.standard_error


def test_chains_of_the_gradient_would_be_biased(rows):
    """Mutant: θ' is made of the same draws that weigh it; the sum of gains is then too low."""
    rng = np.random.default_rng(0)
    family = ebm.BoltzmannMachine(np.zeros((8, 8)), np.zeros(8))
    target = ebm.Ensemble.from_data(rows).moments()
    loss = np.zeros(2)
    for k, own in enumerate((True, False)):
        for _ in range(60):
            draws = rng.integers(0, 2, (50, 8)).astype(float)
            seen = draws if own else rng.integers(0, 2, (50, 8)).astype(float)
            gradient = family.mean_energy_gradient(ebm.Ensemble.from_data(seen, space=family.space))
            pull = family.mean_energy_gradient(target)
            moved = family.with_parameters(-0.1 * (pull - gradient))
            gains = family.energy(draws) - moved.energy(draws)
            truth = ebm.exact(moved).log_partition - 8 * np.log(2)
            loss[k] += (np.logaddexp.reduce(gains) - np.log(50) - truth) / 60
    assert loss[0] < -0.01
    assert abs(loss[1]) < 0.3 * abs(loss[0])


def test_a_fit_that_is_taken_up_follows_the_same_way(rows, tmp_path):
    whole = fitted(rows, RATIO, 6)
    fitted(rows, RATIO, 3, checkpoint=tmp_path / "fit")
    continued = fitted(rows, RATIO, 6, checkpoint=tmp_path / "fit")
    for name in ("log_likelihood", "log_likelihood_error"):
        first, second = ([getattr(e, name) for e in r.history] for r in (whole, continued))
        assert first == second


def test_marginals_and_moments_are_followed_as_well(rows):
    data = ebm.Ensemble.from_data(rows[:, :4])
    start = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
    joint = machine(0, n=5, scale=0.5)
    for family, given in ((start, data.moments()), (ebm.marginalize(joint, [0, 1, 2, 3]), data)):
        steps = ebm.GradientSteps(n_epochs=3, log_partition=RATIO)
        result = ebm.fit(family, given, loss=CHAINS, solver=steps, rng=0)
        last = result.history[-1]
        exact = ebm.exact(result.model).log_partition
        wanted = -float(data.expectation(result.model.energy)) - exact
        assert abs(last.log_likelihood - wanted) < 5 * last.log_likelihood_error + 1e-9


@pytest.mark.parametrize("method", [3, BennettRatio, "auto", BennettRatio(starts=np.zeros((3, 8)))])
def test_what_cannot_find_ln_z_is_refused(rows, method):
    with pytest.raises(ModelError, match="log_partition must be"):
        fitted(rows, method)


def test_exact_averages_need_no_second_ln_z(rows):
    steps = ebm.GradientSteps(n_epochs=1, log_partition=ebm.exact)
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 3, rng=0)
    with pytest.raises(EbmError, match="knows ln Z itself"):
        ebm.fit(start, rows, solver=steps)
