"""Binary quadratic models of dimod and QUBO coefficients: energies of all states, both ways."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import ModelError, NamesError, ShapeError
from tests import strategies

dimod = pytest.importorskip("dimod")

LABELS = ["a", "b", ("c", 1), 7, "7 ", "z"]


def all_states(space):
    return space.states_at(np.arange(space.size))


def energies_by_dimod(bqm, states):
    """One energy at a time, by the package whose convention is asked for."""
    variables = list(bqm.variables)
    return [bqm.energy(dict(zip(variables, state, strict=True))) for state in states.tolist()]


def energies_by_sum(coefficients, offset, labels, states):
    """Σ Q_uv x_u x_v + offset, from the definition."""
    at = {label: k for k, label in enumerate(labels)}
    terms = [q * states[:, at[u]] * states[:, at[v]] for (u, v), q in coefficients.items()]
    return offset + sum(terms)


@st.composite
def plain_models(draw):
    """Models at center 0 without self-couplings, some couplings zero, named or sparse."""
    n, rng = draw(st.integers(1, 6)), draw(strategies.generators())
    matrix = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7), 1)
    cls = draw(st.sampled_from([ebm.BoltzmannMachine, ebm.IsingModel]))
    names = draw(st.none() | st.just([f"unit {k}" for k in range(n)]))
    vector = rng.normal(size=n) * (rng.random(n) < 0.8)
    return cls(matrix + matrix.T, vector, offset=rng.normal(), names=names)


@st.composite
def binary_quadratic_models(draw):
    """Those of dimod over labels of any kind, in either vartype and precision."""
    n, rng = draw(st.integers(1, 6)), draw(strategies.generators())
    labels = draw(st.permutations(LABELS[:n]) | st.just(list(range(n))))
    kind = draw(st.sampled_from([dimod.BinaryQuadraticModel, dimod.Float32BQM, dimod.DictBQM]))
    bqm = kind(draw(st.sampled_from(["SPIN", "BINARY"])))
    for label in labels:
        bqm.add_variable(label, rng.normal())
    for i in range(n):
        for j in range(i):
            if rng.random() < 0.6:
                bqm.add_quadratic(labels[i], labels[j], rng.choice([0.0, rng.normal()]))
    bqm.offset = rng.normal()
    return bqm


class TestDimod:
    @given(strategies.pairwise_models())
    def test_every_state_has_the_energy_that_dimod_finds(self, model):
        states = all_states(model.space)
        energies = energies_by_dimod(ebm.to_dimod(model), states)
        np.testing.assert_allclose(energies, model.energy(states), rtol=1e-12, atol=1e-11)

    @given(plain_models())
    def test_every_number_and_name_of_a_model_comes_back(self, model):
        assert ebm.from_dimod(ebm.to_dimod(model)).equals(model)

    @given(strategies.sparse_patterns(), st.booleans(), strategies.generators())
    def test_the_pattern_of_a_sparse_model_comes_back(self, pattern, spins, rng):
        from ebm._arrays import without_diagonal

        matrix = without_diagonal(pattern[0])
        cls = ebm.IsingModel if spins else ebm.BoltzmannMachine
        model = cls(matrix, rng.normal(size=matrix.shape[0]))
        bqm = ebm.to_dimod(model)
        assert bqm.num_interactions == len(model.pairs[0])
        assert ebm.from_dimod(bqm, sparse=True).equals(model)

    @given(binary_quadratic_models())
    def test_every_state_of_a_binary_quadratic_model_keeps_its_energy(self, bqm):
        model = ebm.from_dimod(bqm)
        states = all_states(model.space)
        energies = energies_by_dimod(bqm, states)
        np.testing.assert_allclose(model.energy(states), energies, rtol=1e-12, atol=1e-12)
        assert model.space.labels == tuple(map(str, bqm.variables))
        assert isinstance(model.space, ebm.Spins) == (bqm.vartype is dimod.SPIN)

    @given(binary_quadratic_models())
    def test_a_binary_quadratic_model_comes_back_but_for_its_labels_as_text(self, bqm):
        model = ebm.from_dimod(bqm, sparse=True)
        texts = {variable: str(variable) for variable in bqm.variables if model.names}
        back = ebm.to_dimod(model)
        assert list(back.variables) == [texts.get(label, label) for label in bqm.variables]
        bqm.relabel_variables(texts)
        assert back.is_equal(bqm)
        assert back.num_interactions == bqm.num_interactions

    def test_the_lowest_state_of_dimods_solver_is_the_ground_state(self):
        glass = ebm.from_graph(ebm.lattice((3, 3), negative=0.5, rng=1))
        ground = ebm.ground_state(glass)
        lowest = dimod.ExactSolver().sample(ebm.to_dimod(glass)).first
        assert lowest.energy == ground.energy

    def test_what_is_no_binary_quadratic_model_is_refused(self):
        mixed = dimod.QuadraticModel()
        mixed.add_variable("INTEGER", "i")
        for wrong in (mixed, dimod.ConstrainedQuadraticModel(), {("a", "a"): 1.0}):
            with pytest.raises(ModelError, match=r"a dimod\.BinaryQuadraticModel is wanted, got"):
                ebm.from_dimod(wrong)
        with pytest.raises(ShapeError, match="there are no variables"):
            ebm.from_dimod(dimod.BinaryQuadraticModel("SPIN"))
        alike = dimod.BinaryQuadraticModel({"1": 1.0, 1: 1.0}, {}, "SPIN")
        with pytest.raises(NamesError, match="unit names must differ, got '1' more than once"):
            ebm.from_dimod(alike)
        infinite = dimod.BinaryQuadraticModel({"a": np.inf}, {}, "SPIN")
        with pytest.raises(ModelError, match="the linear term of 'a' must be finite"):
            ebm.from_dimod(infinite)

    def test_models_without_pairs_of_two_values_are_refused(self):
        levels = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
        for use in (ebm.to_dimod, ebm.to_qubo):
            with pytest.raises(ModelError, match="is wanted, got PottsModel: give a model of two"):
                use(levels)


class TestQubo:
    @given(strategies.pairwise_models())
    def test_every_state_has_the_energy_of_the_sum(self, model):
        coefficients, offset = ebm.to_qubo(model)
        states = all_states(ebm.Binary(model.n))
        energies = energies_by_sum(coefficients, offset, range(model.n), states)
        own = model.energy(states if isinstance(model.space, ebm.Binary) else 2 * states - 1)
        np.testing.assert_allclose(energies, own, rtol=1e-11, atol=1e-10)

    @given(plain_models())
    def test_every_number_and_name_of_a_machine_comes_back(self, model):
        machine = model.to_binary()
        assert ebm.from_qubo(*ebm.to_qubo(machine)).equals(machine)

    @given(binary_quadratic_models())
    def test_the_coefficients_are_those_of_dimod(self, bqm):
        coefficients, offset = bqm.to_qubo()
        machine = ebm.from_qubo(coefficients, offset, names=list(map(str, bqm.variables)))
        states = all_states(machine.space)
        binary = bqm.change_vartype("BINARY", inplace=False)
        energies = energies_by_dimod(binary, states)
        np.testing.assert_allclose(machine.energy(states), energies, rtol=1e-5, atol=1e-5)
        own, constant = ebm.to_qubo(machine)
        back = dimod.BinaryQuadraticModel.from_qubo(own, constant)
        np.testing.assert_allclose(energies_by_dimod(back, states), energies, rtol=1e-5, atol=1e-5)

    @given(strategies.generators(), st.integers(1, 5), st.booleans())
    def test_both_triangles_are_summed_whatever_the_order(self, rng, n, sparse):
        matrix = rng.normal(size=(n, n))
        places = [(int(i), int(j)) for i, j in rng.permutation(list(np.ndindex(n, n)))]
        coefficients = {place: matrix[place] for place in places}
        machine = ebm.from_qubo(coefficients, 0.5, sparse=sparse)
        states = all_states(ebm.Binary(n))
        expected = 0.5 + ((states @ matrix) * states).sum(axis=1)
        np.testing.assert_allclose(machine.energy(states), expected, rtol=1e-12, atol=1e-12)
        assert machine.names is None

    def test_labels_are_the_names_in_the_order_asked_for(self):
        coefficients = {("b", "a"): -2.0, ("a", "a"): 1.0}
        assert ebm.from_qubo(coefficients).names == ("b", "a")
        machine = ebm.from_qubo(coefficients, names=["a", "c", "b"])
        assert machine.names == ("a", "c", "b")
        np.testing.assert_array_equal(machine.biases, [-1, 0, 0])
        np.testing.assert_array_equal(machine.weights, [[0, 0, 2], [0, 0, 0], [2, 0, 0]])

    def test_integers_with_gaps_are_names(self):
        assert ebm.from_qubo({(3, 1): 1.0}).names == ("1", "3")
        assert ebm.from_qubo({(1, 0): 1.0}).names is None

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            (np.eye(2), "coefficients must be a mapping such as {(0, 1): -2.0}, got ndarray: of a"),
            ({"ab": 1.0}, "keys of coefficients must be pairs of labels, got 'ab'"),
            ({("a", "b"): "2"}, "the coefficient of ('a', 'b') must be a number, got the text '2'"),
            ({("a", "b"): np.nan}, "the coefficient of ('a', 'b') must be finite, got nan"),
        ],
    )
    def test_what_is_no_coefficient_is_refused(self, wrong, words):
        with pytest.raises(ModelError, match=re.escape(words)):
            ebm.from_qubo(wrong)

    def test_labels_beside_the_names_and_no_labels_are_refused(self):
        with pytest.raises(NamesError, match="names are 'a', coefficients have 'b' besides"):
            ebm.from_qubo({("a", "b"): 1.0}, names=["a"])
        with pytest.raises(NamesError, match="'1' more than once"):
            ebm.from_qubo({("1", 1): 1.0})
        with pytest.raises(NamesError, match="'a' more than once"):
            ebm.from_qubo({("a", "a"): 1.0}, names=["a", "a"])
        with pytest.raises(ShapeError, match="there are no variables"):
            ebm.from_qubo({})
