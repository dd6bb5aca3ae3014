"""Models of any order against sums term by term, expansions against every state."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration._quadratic import PairwiseEnumeration
from ebm.errors import CodingError, FileFormatError, MemoryLimitError, ModelError, ShapeError
from ebm.forms import QuadraticForm, offered_form
from ebm.models import _terms as term_module
from tests import oracles, statistical, strategies


def term_by_term(model, state):
    """The definition of the energy, for one state."""
    energy = model.offset
    for units, coefficient in model.terms.items():
        energy -= coefficient * math.prod(state[i] for i in units)
    return energy


def example(kind=ebm.Spins, order=3, n=4, seed=0, **options):
    """All terms up to an order, and names."""
    rng = np.random.default_rng(seed)
    terms = {
        units: rng.normal(0, 0.6)
        for k in range(1, order + 1)
        for units in itertools.combinations(range(n), k)
    }
    return ebm.InteractionModel(terms, kind(n, names=list("abcdefgh"[:n])), offset=0.7, **options)


both_codings = pytest.mark.parametrize("kind", [ebm.Binary, ebm.Spins])


class TestEnergy:
    @given(strategies.interaction_models(max_order=5))
    def test_it_is_the_sum_over_terms(self, model):
        states = oracles.all_states(model.space)
        wanted = [term_by_term(model, state) for state in states]
        np.testing.assert_allclose(model.energy(states), wanted, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (0, 2)])
    def test_any_stack_of_states(self, shape):
        model = example()
        states = model.space.random(math.prod(shape), rng=0).reshape(*shape, model.n)
        energies, slopes = model.energy(states), model.energy_gradient(states)
        assert (energies.shape, slopes.shape) == (shape, (*shape, len(model.terms)))
        for place in np.ndindex(shape):
            assert energies[place] == pytest.approx(term_by_term(model, states[place]), rel=1e-12)
            np.testing.assert_array_equal(slopes[place], model.energy_gradient(states[place]))

    @pytest.mark.parametrize(("chunk", "rows"), [(1, 1), (1, 3), (60, 1)])
    def test_chunks_of_states_change_nothing(self, chunk, rows, monkeypatch):
        model = example(order=4)
        states = model.space.random(13, rng=1)
        weights = np.linspace(0, 1, 13)
        products = model._products
        wanted = (model.energy(states), products.table(states), products.mean(states, weights))
        monkeypatch.setattr(term_module, "CHUNK", chunk)
        monkeypatch.setattr(term_module, "FEWEST_ROWS", rows)
        got = (model.energy(states), products.table(states), products.mean(states, weights))
        for first, second in zip(wanted, got, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-14)

    def test_memory_grows_neither_with_states_nor_with_terms(self):
        import tracemalloc

        n = 14
        terms = {u: 0.1 for k in (1, 2, 3, 4) for u in itertools.combinations(range(n), k)}
        model = ebm.InteractionModel(terms, ebm.Spins(n))
        states = model.space.random(4000, rng=0)
        model.energy(states[:1])
        tracemalloc.start()
        model.energy(states)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # A table of all products would take 8 bytes for each.
        assert peak < 8 * len(terms) * len(states) / 5

    def test_integer_states_are_those_of_floats(self):
        model = example(ebm.Binary)
        states = oracles.all_states(model.space)
        for kind in (np.int8, np.uint8, bool, np.int64):
            np.testing.assert_array_equal(model.energy(states.astype(kind)), model.energy(states))

    def test_states_in_another_coding_are_refused(self):
        with pytest.raises(CodingError, match="unit 'a' has the values 0"):
            example(ebm.Spins).energy([0, 1, 1, 1])

    @pytest.mark.parametrize(("count", "constant"), [(3, 1.0), (4, -0.4)])
    def test_one_term_of_spins_has_the_known_partition_function(self, count, constant):
        model = ebm.InteractionModel({tuple(range(count)): constant}, ebm.Spins(count))
        exact = ebm.exact(model)
        log_z = count * math.log(2) + math.log(math.cosh(constant))
        assert exact.log_partition == pytest.approx(log_z, rel=1e-12)
        assert model.mean_energy_gradient(exact)[0] == pytest.approx(-math.tanh(constant))

    def test_a_model_without_terms_is_uniform(self):
        model = ebm.InteractionModel({}, ebm.Binary(3), offset=0.5)
        exact = ebm.exact(model)
        assert exact.log_partition == pytest.approx(3 * math.log(2) - 0.5, rel=1e-14)
        assert model.energy_gradient([0, 1, 1]).shape == (0,)
        assert model.mean_energy_gradient(exact).shape == (0,)
        assert (model.order, model.parameters.shape) == (0, (0,))


class TestParameters:
    @given(strategies.interaction_models(), strategies.generators())
    def test_they_go_round(self, model, rng):
        assert model.with_parameters(model.parameters).equals(model)
        theta = rng.normal(size=len(model.terms))
        other = model.with_parameters(theta)
        np.testing.assert_array_equal(other.parameters, theta)
        assert list(other.terms) == list(model.terms)
        assert (other.offset, other.space) == (model.offset, model.space)

    def test_they_are_in_the_order_given_with_sorted_units(self):
        terms = {(2, 0): 1.0, (1,): 2.0, (np.int64(0), 2, 1): 3}
        model = ebm.InteractionModel(terms, ebm.Spins(3, names=["x", "y", "z"]))
        assert list(model.terms) == [(0, 2), (1,), (0, 1, 2)]
        assert model.parameter_names == ("J[x, z]", "J[y]", "J[x, y, z]")
        np.testing.assert_array_equal(model.parameters, [1, 2, 3])

    def test_an_empty_term_is_a_constant_of_the_energy(self):
        model = ebm.InteractionModel({(): 0.25, (0,): 1.0}, ebm.Binary(1), offset=1.0)
        assert (model.offset, dict(model.terms)) == (0.75, {(0,): 1.0})

    @given(strategies.interaction_models(max_units=4), strategies.generators())
    def test_gradient_is_the_finite_difference(self, model, rng):
        state = model.space.random(1, rng)[0]
        slopes = oracles.finite_difference(
            lambda theta: float(model.with_parameters(theta).energy(state)), model.parameters
        )
        np.testing.assert_allclose(model.energy_gradient(state), slopes, atol=1e-9)

    @given(strategies.interaction_models(), strategies.generators())
    def test_derivative_is_the_gradient_along_a_direction(self, model, rng):
        states = oracles.all_states(model.space)
        direction = rng.normal(size=len(model.terms))
        np.testing.assert_allclose(
            model.energy_derivative(states, direction),
            model.energy_gradient(states) @ direction,
            atol=1e-12,
        )

    @given(strategies.interaction_models(max_order=4))
    def test_mean_gradient_is_the_slope_of_the_log_partition(self, model):
        slopes = oracles.finite_difference(
            lambda theta: -oracles.distribution(model.with_parameters(theta))[0],
            model.parameters,
        )
        mean = model.mean_energy_gradient(ebm.exact(model))
        np.testing.assert_allclose(mean, slopes, atol=1e-8)
        _, p = oracles.distribution(model)
        by_states = p @ model.energy_gradient(oracles.all_states(model.space))
        np.testing.assert_allclose(mean, by_states, rtol=1e-10, atol=1e-12)

    @both_codings
    def test_mean_gradient_makes_no_table(self, kind, monkeypatch):
        model = example(kind)
        data = ebm.Ensemble.from_data(model.space.random(50, rng=0), space=model.space)
        wanted = data.expectation(model.energy_gradient)

        def refused(self, states):
            raise AssertionError("a table of all products")

        monkeypatch.setattr(term_module.Products, "table", refused)
        np.testing.assert_allclose(model.mean_energy_gradient(data), wanted, atol=1e-14)

    @both_codings
    def test_pairs_learn_from_moments_in_either_coding(self, kind):
        model = example(kind, order=2)
        moments = ebm.exact(model).moments()
        wanted = ebm.exact(model).expectation(model.energy_gradient)
        for coding in (ebm.Binary, ebm.Spins):
            got = model.mean_energy_gradient(moments.to(coding))
            np.testing.assert_allclose(got, wanted, rtol=1e-10)

    def test_higher_orders_need_states_of_their_own_coding(self):
        model = example(ebm.Binary)
        with pytest.raises(ModelError, match="an ensemble of states is wanted, got Moments"):
            model.mean_energy_gradient(ebm.exact(model).moments())
        with pytest.raises(CodingError, match="states of Binary"):
            model.mean_energy_gradient(ebm.exact(model.to_spins()))

    @given(strategies.interaction_models(), st.floats(-2, 2))
    def test_scaling_multiplies_every_energy(self, model, beta):
        states = oracles.all_states(model.space)
        got = model.scaled(beta).energy(states)
        np.testing.assert_allclose(got, beta * model.energy(states), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("theta", [[1.0], 1.0, np.zeros((2, 7))])
    def test_vectors_of_another_length_are_refused(self, theta):
        model = example(order=2)
        with pytest.raises(ShapeError, match=r"theta must have shape \(10,\)"):
            model.with_parameters(theta)
        with pytest.raises(ShapeError, match=r"direction must have shape \(10,\)"):
            model.energy_derivative([1, 1, 1, 1], theta)

    def test_parameters_must_be_finite(self):
        with pytest.raises(ModelError, match="theta must be finite, got nan"):
            ebm.InteractionModel({(0,): 1.0}, ebm.Spins(1)).with_parameters([math.nan])


class TestCapability:
    @given(strategies.interaction_models(max_order=2))
    def test_pairs_take_the_three_products(self, model):
        assert offered_form(model) is QuadraticForm
        exact = ebm.exact(model)
        assert isinstance(exact, PairwiseEnumeration)
        log_z, p = oracles.distribution(model)
        mean, covariance = oracles.moments(model)
        assert exact.log_partition == pytest.approx(log_z, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(exact.weights, p, rtol=1e-9)
        np.testing.assert_allclose(exact.moments().mean, mean, atol=1e-10)
        np.testing.assert_allclose(exact.moments().covariance, covariance, atol=1e-10)

    @given(strategies.interaction_models(max_order=5))
    def test_any_order_is_enumerated(self, model):
        exact = ebm.exact(model)
        log_z, p = oracles.distribution(model)
        mean, covariance = oracles.moments(model)
        assert exact.log_partition == pytest.approx(log_z, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(exact.weights, p, rtol=1e-9)
        np.testing.assert_allclose(exact.moments().mean, mean, atol=1e-10)
        np.testing.assert_allclose(exact.moments().covariance, covariance, atol=1e-10)

    def test_it_is_absent_above_pairs(self):
        model = example(order=3)
        assert offered_form(model) is not QuadraticForm
        assert not hasattr(model, "quadratic_form")
        with pytest.raises(AttributeError, match="a model of order 3 has no quadratic form"):
            _ = model.quadratic_form
        assert not isinstance(ebm.exact(model), PairwiseEnumeration)

    @given(strategies.interaction_models(max_order=2))
    def test_the_form_is_the_energy(self, model):
        matrix, vector, constant = model.quadratic_form()
        x = oracles.all_states(model.space)
        form = -0.5 * ((x @ matrix) * x).sum(axis=1) - x @ vector + constant
        np.testing.assert_allclose(model.energy(x), form, atol=1e-12)


class TestConversions:
    @given(strategies.interaction_models())
    def test_the_other_coding_keeps_every_energy(self, model):
        if isinstance(model.space, ebm.Binary):
            other, change = model.to_spins(), lambda x: 2 * x - 1
        else:
            other, change = model.to_binary(), lambda s: (1 + s) / 2
        states = oracles.all_states(model.space)
        assert type(other.space) is not type(model.space)
        np.testing.assert_allclose(
            other.energy(change(states)), model.energy(states), rtol=1e-11, atol=1e-11
        )
        log_z = oracles.distribution(model)[0]
        assert oracles.distribution(other)[0] == pytest.approx(log_z, rel=1e-11, abs=1e-11)

    @given(strategies.interaction_models())
    def test_there_and_back_keeps_every_coefficient(self, model):
        if isinstance(model.space, ebm.Binary):
            back = model.to_spins().to_binary()
        else:
            back = model.to_binary().to_spins()
        assert back.offset == pytest.approx(model.offset, abs=1e-11)
        assert set(model.terms) <= set(back.terms)
        for units, coefficient in back.terms.items():
            assert coefficient == pytest.approx(model.terms.get(units, 0.0), abs=1e-11)

    def test_a_triple_of_binary_units_by_hand(self):
        spins = ebm.InteractionModel({(0, 1, 2): 8.0}, ebm.Binary(3, names=list("abc"))).to_spins()
        assert dict(spins.terms) == {u: 1.0 for k in (1, 2, 3) for u in _subsets(3, k)}
        assert (spins.offset, spins.space) == (-1.0, ebm.Spins(3, names=list("abc")))

    def test_a_triple_of_spins_by_hand(self):
        binary = ebm.InteractionModel({(0, 1, 2): 1.0}, ebm.Spins(3)).to_binary()
        signs = {1: 2.0, 2: -4.0, 3: 8.0}
        assert dict(binary.terms) == {u: signs[k] for k in (1, 2, 3) for u in _subsets(3, k)}
        assert binary.offset == 1.0

    @both_codings
    def test_its_own_coding_is_the_model_itself(self, kind):
        model = example(kind)
        assert (model.to_binary() if kind is ebm.Binary else model.to_spins()) is model

    def test_an_expansion_beyond_memory_is_refused_before_it_begins(self):
        model = ebm.InteractionModel({tuple(range(60)): 1.0}, ebm.Binary(60))
        with pytest.raises(MemoryLimitError, match=r"1.15e\+18 subsets of the terms would take"):
            model.to_spins()

    @given(strategies.pairwise_models(max_units=5))
    def test_pairwise_models_go_round(self, model):
        terms = ebm.InteractionModel.from_pairwise(model)
        states = oracles.all_states(model.space)
        np.testing.assert_allclose(
            terms.energy(states), model.energy(states), rtol=1e-11, atol=1e-11
        )
        assert len(terms.terms) == len(model.parameters)
        s = states if isinstance(model.space, ebm.Spins) else 2 * states - 1
        for other, x in ((terms.to_boltzmann(), (1 + s) / 2), (terms.to_ising(), s)):
            np.testing.assert_allclose(
                other.energy(x), model.energy(states), rtol=1e-11, atol=1e-11
            )
            log_z = ebm.exact(other).log_partition
            assert log_z == pytest.approx(oracles.distribution(model)[0], rel=1e-11, abs=1e-11)

    def test_an_ising_model_is_kept_number_by_number(self):
        ising = ebm.IsingModel([[0, 0.5], [0.5, 0]], [0.1, 0.2], offset=0.3, names=["a", "b"])
        model = ebm.InteractionModel.from_pairwise(ising)
        assert dict(model.terms) == {(0,): 0.1, (1,): 0.2, (0, 1): 0.5}
        np.testing.assert_array_equal(model.parameters, ising.parameters)
        assert model.to_ising().equals(ising)

    @given(strategies.sparse_patterns())
    def test_sparse_couplings_give_the_terms_that_are_stored(self, pattern):
        matrix, dense = pattern
        machine = ebm.BoltzmannMachine(matrix, np.ones(len(dense)), center=0.25)
        model = ebm.InteractionModel.from_pairwise(machine)
        pairs = list(zip(*(index.tolist() for index in machine.pairs), strict=True))
        assert list(model.terms) == [*((i,) for i in range(len(dense))), *pairs]
        states = oracles.all_states(model.space)
        np.testing.assert_allclose(model.energy(states), machine.energy(states), atol=1e-12)

    def test_higher_orders_are_no_pairwise_model(self):
        model = example(order=3)
        with pytest.raises(ModelError, match=r"at most two units.* the term \(0, 1, 2\)"):
            model.to_boltzmann()
        with pytest.raises(ModelError, match="an Ising model has terms of at most two units"):
            model.to_ising()

    def test_other_models_are_refused(self):
        table = ebm.TabularModel([0, 1], ebm.Binary(1))
        with pytest.raises(ModelError, match="IsingModel is wanted, got TabularModel"):
            ebm.InteractionModel.from_pairwise(table)


def _subsets(n, k):
    return itertools.combinations(range(n), k)


class TestRefusals:
    @pytest.mark.parametrize(
        ("terms", "message"),
        [
            ([((0,), 1.0)], "terms must be a mapping .* got list"),
            ({0: 1.0}, r"keys of terms must be tuples of units such as \(0, 2\), got 0"),
            ({"01": 1.0}, "keys of terms must be tuples .* got '01'"),
            ({(0.0, 1): 1.0}, "units must be integers, got 0.0"),
            ({(True,): 1.0}, "units must be integers, got True"),
            ({("a",): 1.0}, "units must be integers, got 'a'"),
            ({(0, 3): 1.0}, r"units must be from 0 to 2, got 3 in the term \(0, 3\)"),
            ({(-1,): 1.0}, "units must be from 0 to 2, got -1"),
            ({(1, 1): 1.0}, r"the term \(1, 1\) holds a unit twice: simplify it by s² = 1"),
            ({(0, 1): 1.0, (1, 0): 2.0}, r"terms hold the units \(0, 1\) twice, in two orders"),
            ({(0, 1): math.nan}, r"the coefficient of \(0, 1\) must be finite, got nan"),
            ({(): math.inf}, r"the coefficient of \(\) must be finite, got inf"),
            ({(0,): "x"}, r"the coefficient of \(0,\) must hold numbers, got text"),
            ({(0,): [1.0, 2.0]}, r"the coefficient of \(0,\) must be one number"),
            ({(0,): None}, r"the coefficient of \(0,\) must be"),
        ],
    )
    def test_terms(self, terms, message):
        with pytest.raises(ModelError, match=message):
            ebm.InteractionModel(terms, ebm.Spins(3))

    def test_a_unit_twice_in_binary_units(self):
        with pytest.raises(ModelError, match="x² = x"):
            ebm.InteractionModel({(0, 0): 1.0}, ebm.Binary(1))

    @pytest.mark.parametrize("space", [ebm.Levels(2, 3), ebm.Reals(2), 3])
    def test_spaces(self, space):
        with pytest.raises(ModelError, match=r"space must be ebm\.Binary"):
            ebm.InteractionModel({(0,): 1.0}, space)

    def test_offset(self):
        with pytest.raises(ModelError, match="offset must be finite"):
            ebm.InteractionModel({(0,): 1.0}, ebm.Spins(1), offset=math.inf)

    def test_models_are_frozen_and_keep_no_reference(self):
        terms = {(0,): 1.0}
        model = ebm.InteractionModel(terms, ebm.Spins(1))
        terms[0,] = 2.0
        assert model.terms[0,] == 1.0
        with pytest.raises(TypeError):
            model.terms[0,] = 2.0
        with pytest.raises(ValueError, match="read-only"):
            model.parameters[0] = 2.0
        with pytest.raises(AttributeError):
            model.offset = 1.0


class TestEquality:
    def test_every_part_counts(self):
        model = example()
        assert model.equals(example())
        assert not model.equals(example(seed=1))
        assert not model.equals(example(ebm.Binary))
        assert not model.equals(example(order=2))
        assert not model.equals(model.with_parameters(model.parameters + 1e-15))
        backwards = dict(reversed(model.terms.items()))
        assert not model.equals(ebm.InteractionModel(backwards, model.space, offset=model.offset))
        assert not model.equals(ebm.InteractionModel(model.terms, model.space))
        assert not model.equals("model")

    def test_copies_and_pickles_are_equal(self):
        model = example()
        assert copy.deepcopy(model).equals(model)
        assert pickle.loads(pickle.dumps(model)).equals(model)

    def test_it_says_what_it_is(self):
        assert repr(example(order=2)).startswith("InteractionModel(10 terms, order 2, Spins(n=4")


class TestFit:
    @both_codings
    def test_exact_averages_give_the_parameters_back(self, kind):
        model = example(kind)
        start = model.with_parameters(np.zeros(len(model.terms)))
        result = ebm.fit(start, ebm.exact(model))
        assert result.converged, result.message
        np.testing.assert_allclose(result.model.parameters, model.parameters, atol=1e-5)
        assert result.model.offset == model.offset

    def test_draws_give_them_back_within_their_errors(self):
        model = example()
        rows = ebm.exact(model).sample(20_000, rng=5)
        result = ebm.fit(model.with_parameters(0 * model.parameters), rows)
        metric = ebm.fisher_information(model).dense()
        # Cholesky factors make the errors independent, each of variance one.
        change = np.linalg.cholesky(metric).T @ (result.model.parameters - model.parameters)
        statistical.check_z_scores(change * np.sqrt(20_000), 0, 1)


class TestFiles:
    @given(strategies.interaction_models())
    def test_they_are_read_back_bit_for_bit(self, tmp_path_factory, model):
        path = tmp_path_factory.mktemp("models") / "model.npz"
        ebm.save(model, path)
        assert ebm.load(path).equals(model)

    def test_names_are_kept(self, tmp_path):
        ebm.save(example(), tmp_path / "model.npz")
        assert ebm.load(tmp_path / "model.npz").equals(example())

    @pytest.mark.parametrize("part", ["terms.sizes", "terms.units", "terms.coefficients"])
    def test_a_damaged_file_is_named(self, part, tmp_path):
        path = tmp_path / "model.npz"
        ebm.save(example(), path)
        with np.load(path) as archive:
            arrays = dict(archive)
        arrays[part] = arrays[part][:-1]
        np.savez(path, **arrays)
        with pytest.raises(FileFormatError, match="damaged model file"):
            ebm.load(path)
