"""What a fit promises whatever the family and the solver: each of these was once broken."""

import warnings

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, NoMaximumWarning, NotConvergedWarning

NO_PAIR = np.array([[0, 0], [0, 1], [1, 0]] * 30)
NEVER_EQUAL = np.array([[i >> k & 1 for k in range(3)] for i in range(1, 7)] * 50)
CHAINS = ebm.Likelihood(ebm.PersistentChains(200))


def machine(n):
    return ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n))


@pytest.mark.parametrize("solver", [ebm.Newton(max_iterations=1), ebm.LBFGS(max_iterations=1)])
def test_a_fit_that_ends_early_warns(solver):
    rows = np.random.default_rng(0).integers(0, 2, (500, 6))
    rows[:, 1] |= rows[:, 0]
    with pytest.warns(NotConvergedWarning, match="max_iterations"):
        result = ebm.fit(machine(6), rows, penalty=1e-4, solver=solver)
    assert not result.converged


@pytest.mark.parametrize(
    ("start", "rows", "options"),
    [
        (ebm.InteractionModel({(0,): 0.0, (1,): 0.0, (0, 1): 0.0}, ebm.Binary(2)), NO_PAIR, {}),
        (ebm.PottsModel(np.zeros((2, 2, 2, 2)), np.zeros((2, 2))), NO_PAIR, {}),
        (machine(3), NEVER_EQUAL, {"loss": CHAINS, "rng": 0}),
    ],
    ids=["terms", "potts", "chains"],
)
def test_a_maximum_at_infinity_is_none(start, rows, options):
    with pytest.warns(NoMaximumWarning):
        result = ebm.fit(start, rows, **options)
    assert not result.converged


def test_a_penalty_does_not_see_how_values_are_numbered():
    data = np.minimum(np.random.default_rng(0).geometric(0.6, (500, 3)) - 1, 4)
    start = ebm.PottsModel(np.zeros((3, 3, 5, 5)), np.zeros((3, 5)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ebm.EbmWarning)
        one, other = (ebm.fit(start, x, penalty=0.1).log_likelihood for x in (data, 4 - data))
    assert one == pytest.approx(other, abs=1e-6)
    assert not start.is_coupling.all()


def test_the_tolerance_given_is_the_one_that_decides():
    rows = np.random.default_rng(0).integers(0, 2, (300, 4))
    rows[:, 1] |= rows[:, 0]
    rows = np.vstack([rows, [[1, 0, 0, 1], [1, 0, 1, 0]]])
    units = [(i,) for i in range(4)] + [(i, j) for j in range(4) for i in range(j)]
    start = ebm.InteractionModel(dict.fromkeys(units, 0.0), ebm.Binary(4))
    result = ebm.fit(start, rows, solver=ebm.Newton(tolerance=1e-12))
    assert result.converged
    assert result.gradient_norm <= 1e-12


@pytest.mark.parametrize(
    "options",
    [
        {"rng": 0},
        {"solver": ebm.GradientSteps(n_epochs=2), "max_iterations": 3},
        {"solver": ebm.Newton(), "loss": CHAINS},
        {"penalty": ebm.Penalty(l1=0.1), "solver": ebm.LBFGS()},
        {"solver": ebm.Newton()} | {"loss": ebm.inversion.Pseudolikelihood()},
    ],
    ids=["rng", "iterations of epochs", "steps on chains", "l1 of sums", "solver of another loss"],
)
def test_no_setting_is_without_effect(options):
    with pytest.raises((EbmError, TypeError)):
        ebm.fit(machine(2), [[0, 1], [1, 0], [1, 1], [0, 0]], **options)


def test_an_interrupt_ends_the_whole_bootstrap():
    rows = np.random.default_rng(0).integers(0, 2, (40, 3))
    calls = []

    def method(data):
        calls.append(data)

        def average(model):
            if len(calls) == 3:
                raise KeyboardInterrupt
            return ebm.exact(model)

        return ebm.fit(machine(3), data, loss=ebm.Likelihood(average), penalty=0.1).model

    with pytest.raises(KeyboardInterrupt):
        ebm.inversion.bootstrap(method, rows, n_resamples=10, rng=0)
    assert len(calls) == 3


def test_units_summed_out_of_any_energy_are_learnt():
    """[EBM] Theorem 9 is about every energy with hidden units, not only the restricted machine."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(0, 1, (5, 5)), 1)
    weights = upper + upper.T
    visible = ebm.marginalize(ebm.BoltzmannMachine(weights, rng.normal(0, 0.3, 5)), [0, 1, 2])
    truth = ebm.marginalize(ebm.BoltzmannMachine(1.2 * weights, np.zeros(5)), [0, 1, 2])
    data = ebm.exact(truth).sample(5000, rng=1)
    result = ebm.fit(visible, data, loss=ebm.Likelihood(ebm.exact), penalty=1e-3)
    states, at = visible.space.states_at(np.arange(8)), visible.parameters
    numeric = [
        (
            visible.with_parameters(at + d).energy(states)
            - visible.with_parameters(at - d).energy(states)
        )
        / 2e-5
        for d in 1e-5 * np.eye(len(at))
    ]
    np.testing.assert_allclose(visible.energy_gradient(states), np.stack(numeric, -1), atol=1e-7)
    assert result.converged
    assert result.log_likelihood > ebm.exact(visible).log_probability(data).mean()
