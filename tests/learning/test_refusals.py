"""What is too large to fit is refused before any work, with a way out that can be taken."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest

import ebm
from ebm import errors
from ebm.errors import (
    EnumerationLimitError,
    LimitError,
    MemoryLimitError,
    ModelError,
    NotConvergedWarning,
)
from ebm.learning import _statistics


def large_machine():
    weights = np.random.default_rng(0).normal(0, 0.01, (784, 100))
    return ebm.RestrictedBoltzmannMachine(weights, np.zeros(784), np.zeros(100))


def bare_potts(n, q):
    return ebm.PottsModel(np.zeros((n, n, q, q)), np.zeros((n, q)))


def level_rows(n, q, n_rows=60):
    return np.random.default_rng(1).integers(0, q, (n_rows, n))


@pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
class TestExactFits:
    @pytest.mark.parametrize(
        ("start", "rows"),
        [
            (large_machine(), level_rows(784, 2)),
            (bare_potts(53, 21), level_rows(53, 21)),
            (
                # Triples that couple every two units: a graph no order makes narrow.
                ebm.InteractionModel(
                    dict.fromkeys(combinations(range(60), 3), 0.0), ebm.Binary(60)
                ),
                level_rows(60, 2),
            ),
            (ebm.BoltzmannMachine(np.zeros((60, 60)), np.zeros(60)), level_rows(60, 2)),
        ],
        ids=["restricted machine", "Potts model", "triples", "Boltzmann machine"],
    )
    def test_name_the_chains_that_can(self, start, rows):
        tracemalloc.start()
        try:
            with pytest.raises(
                EnumerationLimitError, match=r"loss=ebm\.Likelihood\(ebm\.PersistentChains\(\)\)"
            ):
                ebm.fit(start, rows)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # A few copies of the rows and of the parameters, nothing of size p² or p for each row.
        assert peak < 10 * 8 * (rows.size + start.parameters.size + 50_000)

    def test_of_too_many_parameters_for_a_matrix(self):
        start = ebm.BoltzmannMachine(np.zeros((300, 300)), np.zeros(300))
        rows = level_rows(300, 2, 2000)
        with pytest.raises(
            MemoryLimitError, match=r"45150 parameters would take 45\.6 GiB.*Chains"
        ):
            ebm.fit(
                start, rows, loss=ebm.Likelihood(lambda model: pytest.fail("was averaged over"))
            )

    def test_twins_that_fit_are_fitted(self):
        assert ebm.fit(bare_potts(3, 4), level_rows(3, 4, 300)).converged
        machine = ebm.RestrictedBoltzmannMachine.for_data(level_rows(20, 2, 100), 3, rng=0)
        with pytest.warns(NotConvergedWarning):
            assert ebm.fit(
                machine, level_rows(20, 2, 100), solver=ebm.LBFGS(max_iterations=3)
            ).history


def test_the_way_out_holds_no_derivatives_of_all_rows(monkeypatch):
    start, rows = bare_potts(12, 8), level_rows(12, 8, 400)
    p = len(start.parameters)
    monkeypatch.setattr(_statistics, "CHUNK", 20 * p)
    taken = []
    slope = ebm.PottsModel.energy_gradient

    def counted(self, states):
        taken.append(len(states))
        return slope(self, states)

    monkeypatch.setattr(ebm.PottsModel, "energy_gradient", counted)
    steps = ebm.GradientSteps(n_epochs=1)
    result = ebm.fit(
        start, rows, loss=ebm.Likelihood(ebm.PersistentChains(10)), solver=steps, rng=0
    )
    assert result.history
    assert sum(taken) >= 400
    assert max(taken) <= 20


def test_variances_of_derivatives_do_not_depend_on_the_chunks(monkeypatch):
    model, data = bare_potts(4, 3), ebm.Ensemble.from_data(level_rows(4, 3), space=ebm.Levels(4, 3))
    slopes = model.energy_gradient(data.states.astype(float))
    wanted = data.weights @ slopes**2 - (data.weights @ slopes) ** 2
    for chunk in (1, 7 * len(model.parameters), 2**24):
        monkeypatch.setattr(_statistics, "CHUNK", chunk)
        found = _statistics.gradient_variances(model, data)
        np.testing.assert_allclose(found, np.where(wanted > 0, wanted, 1), rtol=1e-10)


def test_a_penalty_on_too_many_subsets_is_refused_before_the_first_update():
    start = ebm.InteractionModel({tuple(range(30)): 1.0, (0, 1): 0.0}, ebm.Binary(40))
    options = {
        "loss": ebm.Likelihood(ebm.PersistentChains(4)),
        "solver": ebm.GradientSteps(n_epochs=1),
        "rng": 0,
    }
    with pytest.raises(MemoryLimitError, match="subsets of the terms"):
        ebm.fit(start, level_rows(40, 2), penalty=ebm.Penalty(l2=0.1), **options)
    assert ebm.fit(start, level_rows(40, 2), **options).history


def test_the_joint_machine_of_two_large_layers_is_refused():
    layers = np.zeros((20_000, 2)), np.zeros(20_000), np.zeros(2)
    with pytest.raises(LimitError, match="weights between all of 20002 units would take"):
        ebm.RestrictedBoltzmannMachine(*layers).joint()
    assert (
        ebm.RestrictedBoltzmannMachine(np.zeros((20, 2)), np.zeros(20), np.zeros(2)).joint().n == 22
    )


def test_the_limit_on_matrices_is_the_one_stated(monkeypatch):
    monkeypatch.setattr(errors, "MEMORY_LIMIT", 3 * 8.0 * 465**2)
    start, rows = ebm.BoltzmannMachine(np.zeros((30, 30)), np.zeros(30)), level_rows(30, 2, 500)
    with pytest.raises(LimitError, match="max_seconds"):
        ebm.fit(start, rows, loss=ebm.Likelihood(lambda model: ebm.exact(model, max_seconds=1e-9)))
    monkeypatch.setattr(errors, "MEMORY_LIMIT", 3 * 8.0 * 464**2)
    with pytest.raises(MemoryLimitError, match="465 parameters"):
        ebm.fit(start, rows)


class TestNewton:
    """Newton steps asked for where they cannot be taken: refused, and what can is named."""

    def test_of_energies_that_are_not_affine(self):
        machine = ebm.RestrictedBoltzmannMachine.for_data(level_rows(4, 2), 2, rng=0)
        with pytest.raises(ebm.EbmError, match=r"RestrictedBoltzmannMachine are not.*ebm\.LBFGS"):
            ebm.fit(machine, level_rows(4, 2), solver=ebm.Newton())

    def test_of_averages_without_fourth_moments(self):
        machine = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
        average = ebm.Likelihood(lambda model: ebm.exact(model).moments())
        with pytest.raises(ebm.EbmError, match=r"fourth moments.*Moments does not.*ebm\.LBFGS"):
            ebm.fit(machine, level_rows(4, 2), loss=average, solver=ebm.Newton())
        assert ebm.fit(machine, level_rows(4, 2), loss=average, solver=ebm.LBFGS()).converged


@pytest.mark.parametrize(
    "how",
    [
        {"solver": ebm.Newton()},
        {"solver": ebm.LBFGS()},
        {"solver": ebm.GradientSteps(n_epochs=2)},
        {"loss": ebm.inversion.Pseudolikelihood()},
    ],
    ids=["Newton", "L-BFGS", "gradient steps", "pseudo-likelihood"],
)
def test_weights_that_sum_to_one_are_one_sample_for_every_solver(how):
    rows = ebm.Binary(3).states_at(np.arange(8))
    data = ebm.Ensemble.from_data(rows, sample_weight=np.full(8, 1 / 8))
    start = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
    with pytest.warns(ebm.errors.FewSamplesWarning, match="the weights of 8 rows sum to 1"):
        result = ebm.fit(start, data, **how)
    assert "multiply them by the number of samples" in result.warnings[-1]


def test_the_function_of_pseudo_likelihood_says_so_too():
    rows = ebm.Binary(3).states_at(np.arange(8))
    with pytest.warns(ebm.errors.FewSamplesWarning, match="the weights of 8 rows sum to 1"):
        ebm.inversion.pseudolikelihood(rows, sample_weight=np.full(8, 1 / 8))


class Ring(ebm.ParametricModel):
    """A quadratic form of two parameters."""

    def __init__(self, n, coupling, field):
        self.space, self.coupling, self.field = ebm.Spins(n), coupling, field

    def energy(self, states):
        return -self.coupling * self.bonds(states) - self.field * np.sum(states, axis=-1)

    def bonds(self, states):
        return (states * np.roll(states, 1, axis=-1)).sum(-1)

    def quadratic_form(self):
        bonds = np.roll(np.eye(self.space.n), 1, axis=0)
        return self.coupling * (bonds + bonds.T), np.full(self.space.n, self.field), 0.0

    @property
    def parameters(self):
        return np.array([self.coupling, self.field])

    def with_parameters(self, theta):
        return type(self)(self.space.n, *theta)

    def energy_gradient(self, states):
        return -np.stack([self.bonds(states), np.sum(states, axis=-1)], axis=-1)


class WrongPairs(Ring):
    """Announces parameters that it does not have."""

    pairs = np.array([0, 1]), np.array([1, 2])


def test_pseudo_likelihood_says_what_a_model_of_a_users_own_lacks():
    rows = 2 * ebm.Binary(4).states_at(np.arange(16)) - 1
    with pytest.raises(ModelError, match=r"Ring does not say which couplings.*attribute pairs"):
        ebm.fit(Ring(4, 0.1, 0.2), rows, loss=ebm.inversion.Pseudolikelihood())
    for loss in (ebm.Likelihood(), ebm.inversion.Pseudolikelihood()):
        with pytest.raises(ModelError, match="2 parameters, but its attribute pairs announces 6"):
            ebm.fit(WrongPairs(4, 0.1, 0.2), rows, loss=loss)
