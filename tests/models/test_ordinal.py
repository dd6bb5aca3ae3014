"""Ordinal models against loops over pairs and categories, Potts and Boltzmann machines."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import ebm
from ebm.errors import CodingError, ModelError, NamesError, ShapeError
from tests import oracles, strategies


def example(sizes=(3, 4, 2), seed=0, scale=0.6, **options):
    """Away from every symmetric point and every gauge."""
    rng, n = np.random.default_rng(seed), len(sizes)
    weights = rng.normal(0, scale, (n, n))
    np.fill_diagonal(weights, 0)
    thresholds = [rng.normal(0, 0.6, q) for q in sizes]
    return ebm.OrdinalModel(weights, thresholds, offset=0.7, **options)


def one_by_one(model, state):
    """The definition of the energy, for one state."""
    energy = model.offset
    for i, a in enumerate(state):
        energy -= model.thresholds[i][a]
        for j, b in enumerate(state):
            if i != j:
                energy -= 0.5 * model.weights[i, j] * model.scores[i][a] * model.scores[j][b]
    return energy


class TestEnergy:
    @given(strategies.ordinal_models())
    def test_it_is_the_sum_over_pairs_and_items(self, model):
        states = oracles.all_states(model.space)
        wanted = [one_by_one(model, state.astype(int)) for state in states]
        np.testing.assert_allclose(model.energy(states), wanted, rtol=1e-12, atol=1e-12)
        for same in (model.to_pairwise(), model.canonical()):
            np.testing.assert_allclose(same.energy(states), wanted, rtol=1e-12, atol=1e-12)

    @given(strategies.ordinal_models())
    def test_exact_sums_are_those_of_a_table(self, model):
        states = oracles.all_states(model.space)
        table = ebm.exact(ebm.TabularModel(model.energy(states), model.space))
        exact = ebm.exact(model)
        assert exact.log_partition == pytest.approx(table.log_partition, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(exact.moments().mean, table.moments().mean, atol=1e-12)
        logs = [ensemble.log_probability(states) for ensemble in (exact, table)]
        np.testing.assert_allclose(*logs, atol=1e-11)

    @pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
    def test_any_stack_of_states(self, shape):
        model = example()
        states = model.space.random(int(np.prod(shape)), rng=0).reshape(*shape, model.n)
        assert model.energy(states).shape == shape
        assert model.input(states).shape == (*shape, model.n)
        assert model.conditional(states).shape == (*shape, 9)
        assert model.energy_gradient(states).shape == (*shape, len(model.parameters))

    def test_conditional_probabilities_are_ratios_of_joint_ones(self):
        model = example()
        states = oracles.all_states(model.space)
        chances = model.conditional(states)
        for item, q in enumerate((3, 4, 2)):
            logs = []
            for a in range(q):
                changed = states.copy()
                changed[:, item] = a
                logs.append(-model.energy(changed))
            weights = np.exp(np.array(logs).T)
            own = chances[:, model.space.columns([item])]
            np.testing.assert_allclose(own, weights / weights.sum(1, keepdims=True), rtol=1e-12)


class TestTwoCategories:
    @given(strategies.boltzmann_machines(max_units=4))
    def test_with_scores_0_and_1_they_are_a_boltzmann_machine(self, machine):
        own = machine.canonical().recentered(0.0)
        thresholds = np.column_stack([np.zeros(own.n), own.biases])
        model = ebm.OrdinalModel(own.weights, thresholds, offset=own.offset)
        states = oracles.all_states(own.space)
        np.testing.assert_allclose(model.energy(states), machine.energy(states), atol=1e-10)
        np.testing.assert_array_equal(model.parameters, own.parameters)
        slopes = model.energy_gradient(states)
        np.testing.assert_array_equal(slopes, own.energy_gradient(states))

    def test_with_scores_of_spins_they_are_an_ising_model(self):
        ising = ebm.IsingModel([[0, 0.5], [0.5, 0]], [0.3, -0.2])
        fields = np.multiply.outer(ising.fields, [-1, 1])
        model = ebm.OrdinalModel(ising.couplings, fields, scores=[-1, 1])
        states = oracles.all_states(ising.space)
        np.testing.assert_allclose(model.energy((states + 1) / 2), ising.energy(states))

    def test_a_penalty_of_both_kinds_is_that_of_the_machine(self):
        rows = np.random.default_rng(3).integers(0, 2, (60, 3))
        penalty = ebm.Penalty(l2=0.1, l2_biases=0.05)
        flat = np.zeros((3, 3))
        machine = ebm.fit(ebm.BoltzmannMachine(flat, np.zeros(3)), rows, penalty=penalty)
        items = ebm.fit(ebm.OrdinalModel(flat, np.zeros((3, 2))), rows, penalty=penalty)
        np.testing.assert_allclose(items.model.parameters, machine.model.parameters, atol=1e-8)
        np.testing.assert_allclose(items.standard_errors, machine.standard_errors, rtol=1e-7)
        assert items.log_likelihood == pytest.approx(machine.log_likelihood, rel=1e-9)


class TestParameters:
    @given(strategies.ordinal_models())
    def test_they_return(self, model):
        states = oracles.all_states(model.space)
        again = model.with_parameters(model.parameters)
        np.testing.assert_allclose(again.energy(states), model.energy(states), atol=1e-12)
        np.testing.assert_array_equal(again.parameters, model.parameters)
        n, sizes = model.n, model.space.n_values
        assert len(model.parameters) == (sizes - 1).sum() + n * (n - 1) // 2
        assert len(model.parameter_names) == len(model.parameters) == len(model.is_coupling)
        assert model.is_coupling.sum() == n * (n - 1) // 2

    @given(strategies.ordinal_models())
    def test_gradients_are_differences_of_energies(self, model):
        states = oracles.all_states(model.space)[:20]
        theta = model.parameters
        for k, slope in enumerate(model.energy_gradient(states).T):
            step = np.eye(len(theta))[k]
            up, down = (model.with_parameters(theta + h * step).energy(states) for h in (1, -1))
            np.testing.assert_allclose(slope, (up - down) / 2, atol=1e-9)
        direction = np.linspace(-1, 1, len(theta))
        np.testing.assert_allclose(
            model.energy_derivative(states, direction),
            model.energy_gradient(states) @ direction,
            atol=1e-12,
        )

    @given(strategies.ordinal_models())
    def test_their_means_need_moments_alone(self, model):
        exact = ebm.exact(model)
        wanted = exact.expectation(model.energy_gradient)
        np.testing.assert_allclose(model.mean_energy_gradient(exact), wanted, atol=1e-12)
        # A sum over categories without scores is another number.
        if model.n > 1 and not np.array_equal(model.scores[0], np.arange(len(model.scores[0]))):
            plain = ebm.OrdinalModel(model.weights, model.thresholds)
            assert not np.allclose(plain.mean_energy_gradient(exact), wanted, atol=1e-9)

    @given(strategies.ordinal_models())
    def test_a_penalty_does_not_depend_on_the_end_from_which_categories_are_counted(self, model):
        turned = ebm.OrdinalModel(
            model.weights,
            [h[::-1] for h in model.thresholds],
            scores=[-s[::-1] for s in model.scores],
        )
        values = [np.sort(np.abs(m.penalized().of(m.parameters))) for m in (model, turned)]
        np.testing.assert_allclose(*values, atol=1e-12)

    @given(strategies.ordinal_models())
    def test_the_penalized_numbers_have_their_transpose(self, model):
        penalized, p = model.penalized(), len(model.parameters)
        by_columns = np.array([penalized.of(row) for row in np.eye(p)]).T
        by_rows = np.array([penalized.transposed(row) for row in np.eye(p)]).T
        np.testing.assert_array_equal(by_rows, by_columns.T)


class TestOtherModels:
    @given(strategies.ordinal_models())
    @settings(max_examples=20)
    def test_given_some_items_the_others_have_the_energy_of_both(self, model):
        if model.n < 2:
            return
        fixed = {0: int(model.space.n_values[0]) - 1}
        rest = model.given(fixed)
        states = oracles.all_states(rest.space)
        joint = np.column_stack([np.full(len(states), fixed[0]), states])
        np.testing.assert_allclose(rest.energy(states), model.energy(joint), atol=1e-12)
        assert isinstance(rest, ebm.OrdinalModel)

    def test_marginals_are_sums(self):
        model = example(names=["a", "b", "c"])
        kept = ebm.marginalize(model, keep=["c", "a"])
        logs = ebm.exact(model).log_probability(oracles.all_states(model.space))
        joint = np.exp(logs).reshape(3, 4, 2)
        marginal = ebm.exact(kept)
        wanted = joint.sum(axis=1).T.ravel()
        states = oracles.all_states(kept.space)
        np.testing.assert_allclose(np.exp(marginal.log_probability(states)), wanted, rtol=1e-10)

    def test_a_potts_model_needs_equal_numbers_of_categories(self):
        same = example(sizes=(3, 3, 3), names=list("abc"))
        potts = same.to_potts()
        states = oracles.all_states(same.space)
        np.testing.assert_allclose(potts.energy(states), same.energy(states), atol=1e-12)
        assert potts.names == same.names
        with pytest.raises(ShapeError, match=r"\[3, 4, 2\]: use to_pairwise"):
            example().to_potts()

    def test_a_scaled_model_has_the_scaled_energy(self):
        model = example()
        states = oracles.all_states(model.space)
        np.testing.assert_allclose(model.scaled(0.3).energy(states), 0.3 * model.energy(states))

    def test_annealing_and_chains_agree_with_the_sum(self):
        model = example(scale=0.3)
        exact = ebm.exact(model)
        estimate = ebm.log_partition(model, ebm.Annealing(), rng=0)
        assert abs(estimate.value - exact.log_partition) < 5 * estimate.standard_error
        assert estimate.standard_error < 0.05

    def test_minima_are_those_of_the_pairwise_model(self):
        model = example(scale=1.5)
        found, wanted = ebm.local_minima(model), ebm.local_minima(model.to_pairwise())
        np.testing.assert_array_equal(found.states, wanted.states)

    def test_copies_pickles_and_files_are_equal(self, tmp_path):
        for model in (example(names=list("abc")), example(sizes=(3, 3)), example(sizes=(2,))):
            ebm.save(model, tmp_path / "model.npz", overwrite=True)
            others = (copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
            for other in (*others, ebm.load(tmp_path / "model.npz")):
                assert model.equals(other)
            assert not model.equals(model.scaled(2.0))


class TestArguments:
    def test_scores_may_be_given_for_all_items_or_each(self):
        same = ebm.OrdinalModel(np.zeros((2, 2)), np.zeros((2, 3)), scores=[-1, 0, 1])
        each = ebm.OrdinalModel(np.zeros((2, 2)), np.zeros((2, 3)), scores=[[-1, 0, 1]] * 2)
        assert same.equals(each)
        with pytest.raises(ShapeError, match=r"\[3, 2\] for the items, got \[3, 3\]"):
            ebm.OrdinalModel(np.zeros((2, 2)), [[0, 0, 0], [0, 0]], scores=[0, 1, 2])
        with pytest.raises(ModelError, match=r"scores\[1\] must differ"):
            ebm.OrdinalModel(np.zeros((2, 2)), [[0, 0], [0, 0]], scores=[[0, 1], [2, 2]])

    def test_frames_are_taken_by_their_labels(self):
        names = ["mood", "sleep"]
        weights = pd.DataFrame([[0, 0.5], [0.5, 0]], names, names)
        thresholds = pd.DataFrame([[0, 1, 2], [0, 3, 4]], names)
        model = ebm.OrdinalModel(weights, thresholds.loc[names[::-1]], names=names)
        assert model.names == ("mood", "sleep")
        np.testing.assert_array_equal(model.thresholds[0], [0, 1, 2])
        with pytest.raises(NamesError):
            ebm.OrdinalModel(weights, thresholds, names=["mood", "other"])

    @pytest.mark.parametrize(
        ("weights", "thresholds", "error", "words"),
        [
            ([[0, 1], [1, 0]], [0, 0], ShapeError, "a vector of numbers for each item"),
            ([[0, 1], [1, 0]], [[0], [0]], ShapeError, "two or more numbers"),
            ([[0, 1], [1, 0]], [[0, 0], [0, np.nan]], ModelError, "must be finite"),
            ([[1, 1], [1, 0]], [[0, 0], [0, 0]], ModelError, "belongs to its thresholds"),
            ([[0, 1], [0, 0]], [[0, 0], [0, 0]], ModelError, "written in one order"),
            ([[0, 1, 2]], [[0, 0], [0, 0]], ShapeError, r"weights must have shape \(2, 2\)"),
        ],
    )
    def test_wrong_ones_are_refused(self, weights, thresholds, error, words):
        with pytest.raises(error, match=words):
            ebm.OrdinalModel(weights, thresholds)

    def test_a_sparse_matrix_is_refused(self):
        from scipy.sparse import csr_array

        with pytest.raises(ModelError, match="the pairs that a fit may change"):
            ebm.OrdinalModel(csr_array(np.zeros((2, 2))), np.zeros((2, 3)))

    def test_categories_that_an_item_does_not_have_are_refused(self):
        model = example(names=["a", "b", "c"])
        with pytest.raises(CodingError, match="'c' has the values 2 where an integer from 0 to 1"):
            model.energy([0, 0, 2])


@pytest.mark.filterwarnings("error")
def test_products_of_weights_and_scores_must_be_finite():
    weights = [[0, 1e200], [1e200, 0]]
    assert np.isfinite(ebm.OrdinalModel(weights, [[0, 1], [0, 1]]).energy([1, 1]))
    with pytest.raises(ModelError, match="weights times scores must be finite"):
        ebm.OrdinalModel(weights, [[0, 1], [0, 1]], scores=[0, 1e200])
