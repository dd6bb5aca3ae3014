"""Sums of spaces: units of different kinds, held against spaces of one kind and enumeration."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration._fourth_moments import MOST_BITS
from ebm.enumeration._splitting import sizes_of_groups, split
from ebm.errors import CodingError, EnumerationLimitError, ModelError, NamesError, ShapeError
from tests import oracles, strategies
from tests.user_models import TwoMembers

BLOCKS = ebm.Binary(2), ebm.Levels(2, 3), ebm.Spins(1), ebm.Levels(1, 4)
MIXED = ebm.Product(*BLOCKS)
MACHINE = ebm.Product(visible=ebm.Binary(2), hidden=ebm.Levels(3, 4))


def units_of_columns(space):
    return np.repeat(np.arange(space.n), space.widths)


def reference(space=MIXED, sign=1):
    """A_cd = sin(c + 2d)/2 for columns c < d of different units, v_c = cos(c)/2, k = .25."""
    c, units = np.arange(space.n_features), units_of_columns(space)
    couplings = np.triu(np.sin(c[:, None] + 2 * sign * c) / 2, 1)
    couplings *= units[:, None] != units
    return ebm.PairwiseModel(space, couplings + couplings.T, np.cos(c) / 2, offset=0.25)


class User(ebm.EnergyModel):
    """A user's model with a quadratic form over any space."""

    def __init__(self, space, matrix, vector, constant=0.0):
        self.space, self.form = space, (np.asarray(matrix), np.asarray(vector), constant)

    def energy(self, states):
        f = self.space.features(states)
        matrix, vector, constant = self.form
        return constant - f @ vector - 0.5 * ((f @ matrix) * f).sum(axis=-1)

    def quadratic_form(self):
        return self.form


def random_form(d, seed=0, scale=0.5):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(0, scale, (d, d))
    return matrix + matrix.T, rng.normal(0, scale, d), float(rng.normal())


def by_elimination(model):
    """ln Z through the axes of an array: a table of energies, one unit summed after another."""
    space, a, v = model.space, model.couplings, model.fields
    table = np.zeros(space.n_values)
    for i in range(space.n):
        own, shape = space.columns([i]), np.ones(space.n, dtype=int)
        shape[i] = space.n_values[i]
        table = table + (space.features_of(i) @ v[own]).reshape(shape)
        for j in range(i):
            block = space.features_of(j) @ a[np.ix_(space.columns([j]), own)]
            shape = np.ones(space.n, dtype=int)
            shape[[j, i]] = space.n_values[[j, i]]
            table = table + (block @ space.features_of(i).T).reshape(shape)
    for _ in range(space.n):
        table = np.logaddexp.reduce(table, axis=0)
    return float(table) - model.offset


class TestReference:
    def test_the_sizes(self):
        assert (MIXED.n, MIXED.size, MIXED.n_features) == (6, 288, 13)
        assert MIXED.n_values.tolist() == [2, 2, 3, 3, 2, 4]
        assert MIXED.widths.tolist() == [1, 1, 3, 3, 1, 4]

    def test_log_partition_by_enumeration_and_by_elimination(self):
        model = reference()
        assert ebm.exact(model).log_partition == pytest.approx(6.393283676280, abs=1e-12)
        assert by_elimination(model) == pytest.approx(6.393283676280, abs=1e-12)
        # Another order of the columns is seen.
        assert abs(ebm.exact(reference(sign=-1)).log_partition - 6.393283676280) > 1e-3

    def test_log_partition_given_that_unit_2_is_1(self):
        """A_rr, v_r + A_rc f_c, k − v_c·f_c over the space of the rest."""
        model, rest = reference(), [0, 1, 3, 4, 5]
        r, c = MIXED.columns(rest), MIXED.columns([2])[1]
        rest_model = ebm.PairwiseModel(
            MIXED.subspace(rest),
            model.couplings[np.ix_(r, r)],
            model.fields[r] + model.couplings[r, c],
            offset=model.offset - model.fields[c],
        )
        exact = ebm.exact(rest_model)
        assert exact.log_partition == pytest.approx(5.152291876915, abs=1e-12)
        kept = ebm.marginalize(model, keep=[2]).energy([1])
        assert -float(kept) == pytest.approx(5.152291876915, abs=1e-12)

    def test_means_and_covariances(self):
        ensemble = ebm.exact(reference())
        mean, covariance = oracles.moments(reference())
        np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-14)
        np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-14)
        assert np.linalg.matrix_rank(covariance) == sum(MIXED.n_values - 1) == 10


class TestInvariants:
    @given(strategies.mixed_models())
    def test_covariances_have_as_many_directions_as_units_have_other_values(self, model):
        covariance = ebm.exact(model).moments().covariance
        rank = np.linalg.matrix_rank(covariance, tol=1e-10 * np.linalg.norm(covariance))
        assert rank == sum(model.space.n_values - 1)

    @pytest.mark.parametrize("space", [ebm.Binary(5), ebm.Spins(5), ebm.Levels(4, 3)])
    def test_one_block_alone_is_that_space_bit_for_bit(self, space):
        alone = ebm.Product(space)
        numbers = np.arange(space.size)
        states = space.states_at(numbers)
        np.testing.assert_array_equal(alone.states_at(numbers), states)
        np.testing.assert_array_equal(alone.features(states), space.features(states))
        np.testing.assert_array_equal(alone.random(9, rng=1), space.random(9, rng=1))
        assert alone.subspace(range(space.n)) == space
        one, other = (User(s, *random_form(space.n_features)) for s in (space, alone))
        assert_same_numbers(one, other)

    @pytest.mark.parametrize("kind", [ebm.Binary, ebm.Spins, lambda n: ebm.Levels(n, 3)])
    def test_blocks_of_one_kind_are_one_space_in_every_number(self, kind):
        whole, sum_of_two = kind(5), ebm.Product(kind(2), kind(3))
        assert sum_of_two.subspace(range(5)) == whole
        assert sum_of_two.size_as_powers == whole.size_as_powers
        assert_same_numbers(*(User(s, *random_form(whole.n_features)) for s in (whole, sum_of_two)))

    def test_large_homogeneous_sums_are_cut_alike(self):
        form = random_form(14, scale=0.2)
        assert_same_numbers(
            User(ebm.Spins(14), *form), User(ebm.Product(*[ebm.Spins(7)] * 2), *form)
        )

    def test_permuted_blocks_permute_everything(self):
        model, order = reference(), [5, 2, 3, 0, 1, 4]
        columns = MIXED.columns(order)
        space = ebm.Product(BLOCKS[3], BLOCKS[1], BLOCKS[0], BLOCKS[2])
        permuted = ebm.PairwiseModel(
            space,
            model.couplings[np.ix_(columns, columns)],
            model.fields[columns],
            offset=model.offset,
        )
        one, other = ebm.exact(model), ebm.exact(permuted)
        assert one.log_partition == pytest.approx(other.log_partition, abs=1e-12)
        moved = one.moments().covariance[np.ix_(columns, columns)]
        np.testing.assert_allclose(other.moments().covariance, moved, atol=1e-14)
        minima, others = ebm.local_minima(model), ebm.local_minima(permuted)
        np.testing.assert_array_equal(others.states, minima.states[:, order])

    def test_a_spin_is_a_binary_unit_in_another_coding(self):
        """f = D f' + o: A → DᵀAD, v → Dᵀ(v + Ao), k → k − v·o − ½oAo."""
        model = reference()
        scale, shift = np.eye(13), np.zeros(13)
        scale[8, 8], shift[8] = 2, -1
        a, v = model.couplings, model.fields
        coded = ebm.PairwiseModel(
            ebm.Product(BLOCKS[0], BLOCKS[1], ebm.Binary(1), BLOCKS[3]),
            scale @ a @ scale,
            scale @ (v + a @ shift),
            offset=model.offset - v @ shift - 0.5 * shift @ a @ shift,
        )
        states = oracles.all_states(coded.space)
        other = states.copy()
        other[:, 4] = 2 * states[:, 4] - 1
        np.testing.assert_allclose(coded.energy(states), model.energy(other), atol=1e-13)


def assert_same_numbers(one, other):
    """Every number of two models of the same form, over spaces with the same units."""
    first, second = ebm.exact(one), ebm.exact(other)
    assert first.log_partition == second.log_partition
    assert first.entropy() == second.entropy()
    for a, b in zip(vars(first.moments()).values(), vars(second.moments()).values(), strict=True):
        assert isinstance(a, ebm.spaces.StateSpace) or np.array_equal(a, b)
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(first.sample(40, rng=1), second.sample(40, rng=1))
    center = first.moments().mean
    if one.space.n < 6:
        np.testing.assert_array_equal(first.fourth_moments(center), second.fourth_moments(center))
        kept = [ebm.marginalize(model, keep=[3, 0]) for model in (one, other)]
        assert kept[0].space == kept[1].space
        states = kept[0].space.states_at(range(kept[0].space.size))
        np.testing.assert_array_equal(*(model.energy(states) for model in kept))
    minima = [ebm.local_minima(model) for model in (one, other)]
    np.testing.assert_array_equal(minima[0].states, minima[1].states)
    # Sweeps by energies alone: those of one kind of units have compiled ones by their form.
    tables = (TwoMembers(model) for model in (one, other))
    draws = [ebm.sample(m, ebm.Metropolis(), n_draws=5, rng=2).chains for m in tables]
    np.testing.assert_array_equal(*draws)


class TestExactSums:
    SPACE = ebm.Product(ebm.Spins(3), ebm.Levels(4, 3), ebm.Binary(4), ebm.Levels(1, 5))

    def test_products_and_the_table_of_all_states_agree(self):
        """Above 4096 states sums are three matrix products over groups of different units."""
        model = User(self.SPACE, *random_form(self.SPACE.n_features, scale=0.3))
        assert self.SPACE.size == 51840
        by_products = ebm.exact(model)
        energies = model.energy(self.SPACE.states_at(range(self.SPACE.size)))
        by_table = ebm.exact(ebm.TabularModel(energies, self.SPACE))
        assert by_products.log_partition == pytest.approx(by_table.log_partition, abs=1e-12)
        for name in ("mean", "covariance"):
            np.testing.assert_allclose(
                getattr(by_products.moments(), name), getattr(by_table.moments(), name), atol=1e-13
            )
        np.testing.assert_allclose(by_products.weights, by_table.weights, atol=1e-15)
        draws = by_products.sample(4000, rng=0)
        mean = self.SPACE.features(draws).mean(axis=0)
        assert abs(mean - by_table.moments().mean).max() < 0.03

    @given(
        st.lists(st.integers(2, 9), min_size=1, max_size=40),
        st.floats(1, 12),
        st.floats(0, 40),
    )
    def test_groups_hold_every_unit_once(self, n_values, group_bits, undivided_bits):
        space = ebm.Product(*(ebm.Levels(1, q) for q in n_values))
        sizes = sizes_of_groups(space, group_bits, undivided_bits)
        assert sum(sizes) == space.n
        assert min(sizes) >= 0
        bits = np.log2(n_values)
        groups = np.split(bits, np.cumsum(sizes)[:-1])
        largest = max(group_bits, bits.max())
        assert max(group.sum() for group in groups[:3]) <= largest + 1e-9

    def test_one_unit_of_many_values_beside_many_of_two(self):
        space = ebm.Product(ebm.Levels(1, 2000), ebm.Binary(18))
        assert sizes_of_groups(space, 10, 26)[3] <= 3

    @pytest.mark.parametrize("space", [ebm.Levels(19, 3), ebm.Product(ebm.Levels(10, 5), MIXED)])
    def test_fourth_moments_leave_no_unit_fixed(self, space):
        assert sizes_of_groups(space, MOST_BITS, MOST_BITS + 1)[3] == 0

    def test_large_energies_are_summed_in_two_parts(self):
        matrix, vector, constant = random_form(13, scale=1e6)
        model = User(MIXED, matrix, vector, constant)
        energies = model.energy(oracles.all_states(MIXED))
        exact = ebm.exact(model)
        assert exact.log_partition == pytest.approx(-energies.min(), rel=1e-14)
        np.testing.assert_array_equal(
            exact.sample(3, rng=0), [MIXED.states_at(energies.argmin())] * 3
        )

    def test_tables_of_groups_are_cut_in_halves_of_units(self):
        for group in split(self.SPACE, 5, 0):
            middle = group.upper.shape[1]
            for row in range(group.size):
                high, low = divmod(row, len(group.lower))
                np.testing.assert_array_equal(group.table[row, :middle], group.upper[high])
                np.testing.assert_array_equal(group.table[row, middle:], group.lower[low])

    def test_costs_are_stated_before_work(self):
        space = ebm.Product(ebm.Binary(60), ebm.Levels(9, 3))
        empty = ebm.PairwiseModel(space)
        couplings = np.random.default_rng(0).normal(0, 0.1, empty.parameters.size)
        coupled = empty.with_parameters(couplings)
        with pytest.raises(EnumerationLimitError, match=r"2\^60 · 3\^9 states would take"):
            ebm.exact(coupled)


class TestMarginals:
    def test_kept_and_traced_units_of_different_kinds(self):
        model = reference()
        table = ebm.TabularModel(model.energy(oracles.all_states(MIXED)), MIXED)
        for keep in ([5, 0, 2], [4], [1, 3], list(range(6))):
            by_form, by_table = (ebm.marginalize(m, keep=keep) for m in (model, table))
            states = oracles.all_states(by_form.space)
            np.testing.assert_allclose(by_form.energy(states), by_table.energy(states), atol=1e-12)
            assert ebm.exact(by_form).log_partition == pytest.approx(6.393283676280, abs=1e-12)

    def test_uncoupled_units_are_summed_one_by_one(self):
        """20 + 20 free units of two kinds behind one: 3·20 + 2·20 terms, no 6^20."""
        space = ebm.Product(ebm.Levels(1, 2), ebm.Levels(20, 3), ebm.Binary(20))
        couplings = np.zeros((82, 82))
        couplings[1, 2:] = couplings[2:, 1] = np.sin(np.arange(80))
        marginal = ebm.marginalize(ebm.PairwiseModel(space, couplings), keep=[0])
        weights = np.exp(np.sin(np.arange(80)))
        wanted = np.log(weights[:60].reshape(20, 3).sum(1)).sum() + np.log1p(weights[60:]).sum()
        assert float(marginal.energy([0])) == pytest.approx(-20 * np.log(6))
        assert float(marginal.energy([1])) == pytest.approx(-wanted)

    def test_units_are_kept_by_the_name_of_their_block(self):
        model = ebm.PairwiseModel(MACHINE, fields=np.arange(14.0))
        assert ebm.marginalize(model, keep="visible").keep == (0, 1)
        assert ebm.marginalize(model, keep=["hidden", 1]).keep == (2, 3, 4, 1)
        assert isinstance(ebm.marginalize(model, keep="visible").space, ebm.Binary)
        with pytest.raises(
            NamesError, match="block must be one of 'visible', 'hidden', got 'hiden'"
        ):
            ebm.marginalize(model, keep="hiden")

    def test_marginals_learn_by_the_parameters_of_all_units(self):
        """∂E_eff/∂θ = E_{h|v}[∂E/∂θ] where kept and traced units are of several kinds."""
        model = reference(ebm.Product(v=ebm.Binary(3), h=ebm.Levels(2, 3), s=ebm.Spins(2)))
        marginal = ebm.marginalize(model, keep=["v", 5])
        for state in oracles.all_states(marginal.space)[::3]:
            slopes = oracles.finite_difference(
                lambda theta, state=state: float(marginal.with_parameters(theta).energy(state)),
                model.parameters,
            )
            np.testing.assert_allclose(marginal.energy_gradient(state), slopes, atol=1e-9)
        data = ebm.Ensemble.from_data(ebm.exact(marginal).sample(300, rng=0), space=marginal.space)
        result = ebm.fit(marginal, data)
        gain = ebm.exact(result.model).log_probability(data.states)
        assert gain @ data.weights > ebm.exact(marginal).log_probability(data.states) @ data.weights
        moments = ebm.exact(result.model).moments()
        np.testing.assert_allclose(moments.mean, data.moments().mean, atol=1e-4)


class TestSampling:
    @pytest.mark.parametrize(
        "sampler", [ebm.Gibbs(), ebm.Metropolis(), ebm.ParallelTempering([0.5, 0.0])]
    )
    def test_chains_visit_states_with_their_probabilities(self, sampler):
        model = reference()
        samples = ebm.sample(model, sampler, n_draws=50, n_chains=1000, burn_in=20, rng=1)
        p = ebm.exact(model).weights
        visits = np.bincount(MIXED.index(samples.chains.reshape(-1, 6)), minlength=MIXED.size) / 5e4
        assert abs(visits - p).sum() / 2 < 0.035
        assert abs(samples.moments().mean - ebm.exact(model).moments().mean).max() < 0.015

    def test_sweeps_by_the_form_and_by_energies_are_the_same_chains(self):
        model = reference()
        table = ebm.TabularModel(model.energy(oracles.all_states(MIXED)), MIXED)
        one, other = (ebm.sample(m, ebm.Gibbs(), n_draws=20, rng=3).chains for m in (model, table))
        np.testing.assert_array_equal(one, other)

    def test_annealing(self):
        for model in (reference(), User(MIXED, *random_form(13))):
            estimate = ebm.log_partition(model, ebm.Annealing(400, 40), rng=0)
            error = estimate.value - ebm.exact(model).log_partition
            assert abs(error) < 4 * estimate.standard_error < 0.1

    def test_copies_at_other_temperatures_keep_what_couples_a_unit_to_itself(self):
        """The model of the library of a form with ½ f A_ii f of each unit."""
        model = User(MIXED, *random_form(13))
        scaled = ebm.sampling.tempering.tempered(model, 0.5)
        states = oracles.all_states(MIXED)
        np.testing.assert_allclose(scaled.energy(states), 0.5 * model.energy(states), atol=1e-12)


class TestData:
    ROWS = np.array(
        [[0, 1, 3, 0, 2], [1, 1, 0, 0, 3], [0, 1, 3, 0, 2], [0, 0, 1, 2, 2], [1, 0, 2, 1, 0]]
    )

    def test_rows_are_counted_and_have_moments_of_features(self):
        data = ebm.Ensemble.from_data(self.ROWS, space=MACHINE)
        assert data.sample_size == 5
        f = MACHINE.features(self.ROWS)
        np.testing.assert_allclose(data.moments().mean, f.mean(axis=0))
        np.testing.assert_allclose(data.moments().covariance, np.cov(f.T, ddof=0), atol=1e-15)

    def test_columns_of_a_frame_name_the_units(self):
        frame = pd.DataFrame(self.ROWS, columns=list("abcde"))
        data = ebm.Ensemble.from_data(frame, space=MACHINE)
        assert data.space.names == tuple("abcde")
        shuffled = ebm.Ensemble.from_data(frame[list("ebcda")], space=data.space)
        np.testing.assert_array_equal(shuffled.states, data.states)

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            (1, 2, "unit 'b' has the values 1, 2 where 0 or 1 is wanted"),
            (1, -1, "use a block of ebm.Spins"),
            (4, 4, "unit 'e' has the values 3, 4 where an integer from 0 to 3 is wanted"),
        ],
    )
    def test_an_error_names_the_unit_and_its_own_coding(self, column, value, message):
        rows = self.ROWS.copy()
        rows[:, column] = [value, 1, 1, 1, 1] if column == 1 else [value, 3, 3, 3, 3]
        with pytest.raises(CodingError, match=message):
            ebm.Ensemble.from_data(rows, space=MACHINE.named(list("abcde")))

    def test_moments_are_of_one_space(self):
        moments = ebm.Ensemble.from_data(self.ROWS, space=MACHINE).moments()
        assert moments.to(ebm.Product(ebm.Binary(2), ebm.Levels(3, 4))) is moments
        for other in (ebm.Product(ebm.Binary(5)), ebm.Product(ebm.Binary(2), ebm.Levels(3, 3))):
            with pytest.raises(CodingError, match="cannot be converted"):
                moments.to(other)
        levels = ebm.Ensemble.from_data(self.ROWS, space=ebm.Levels(5, 4)).moments()
        with pytest.raises(CodingError, match="cannot be converted"):
            levels.to(ebm.Levels(5, 5))


class TestBlocks:
    def test_names_of_blocks_and_of_units(self):
        left, right = ebm.Binary(2, names=["a", "b"]), ebm.Levels(1, 3, names=["c"])
        space = ebm.Product(left=left, right=right)
        assert (space.names, space.block_names) == (("a", "b", "c"), ("left", "right"))
        assert space.units("right").tolist() == space.units(1).tolist() == [2]
        renamed = space.named(["x", "y", "z"])
        assert (renamed.labels, renamed.block_names) == (("x", "y", "z"), ("left", "right"))
        assert space.named(None).labels == ("0", "1", "2")

    def test_equal_are_spaces_with_the_same_units(self):
        assert ebm.Product(ebm.Binary(2), ebm.Levels(3, 4)) == MACHINE
        assert ebm.Product(ebm.Binary(1), ebm.Binary(1), ebm.Levels(3, 4)) == MACHINE
        assert hash(ebm.Product(ebm.Binary(2), ebm.Levels(3, 4))) == hash(MACHINE)
        for other in (
            ebm.Product(ebm.Binary(2), ebm.Levels(3, 3)),
            ebm.Product(ebm.Spins(2), ebm.Levels(3, 4)),
            ebm.Product(ebm.Levels(3, 4), ebm.Binary(2)),
            MACHINE.named(list("abcde")),
        ):
            assert other != MACHINE

    def test_parts_are_spaces_of_one_kind_where_they_can_be(self):
        named = MACHINE.named(list("abcde"))
        assert named.subspace([4, 2]) == ebm.Levels(2, 4, names=["e", "c"])
        some = named.subspace([4, 1, 0])
        assert (some.block_names, some.names) == (("hidden", "visible"), ("e", "b", "a"))
        assert some.units("visible").tolist() == [1, 2]
        assert named.subspace([0, 4, 1]).block_names is None

    def test_blocks_may_be_products(self):
        nested = ebm.Product(all=MACHINE, more=ebm.Binary(1))
        assert nested == ebm.Product(ebm.Binary(2), ebm.Levels(3, 4), ebm.Binary(1))
        assert nested.units("all").tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies(self, again):
        assert again(MACHINE) == MACHINE
        assert repr(again(MACHINE)) == repr(MACHINE)

    def test_the_code_that_makes_it_is_shown(self):
        scope = {kind.__name__: kind for kind in (ebm.Binary, ebm.Levels, ebm.Product)}
        for space in (MACHINE, MACHINE.named(list("abcde"))):
            again = eval(repr(space), scope)
            assert (again, again.block_names) == (space, space.block_names)

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: ebm.Product(), ShapeError, "at least one block"),
            (lambda: ebm.Product(5), ShapeError, "blocks must be finite spaces"),
            (lambda: ebm.Product(ebm.Reals(2), None), ShapeError, r"or ebm\.Reals, .* got None"),
            (lambda: ebm.Product(ebm.Binary(1), b=ebm.Spins(1)), NamesError, "all blocks or none"),
            (lambda: ebm.Product(names=ebm.Spins(1)), NamesError, "cannot be called 'names'"),
            (
                lambda: ebm.Product(a=ebm.Binary(1, names=["x"]), b=ebm.Spins(1)),
                NamesError,
                "those of 'b' have no names",
            ),
            (lambda: MACHINE.named(["visible", *"abcd"]), NamesError, "names a block and a unit"),
            (lambda: MACHINE.named(list("aabcd")), NamesError, "must differ"),
            (lambda: MACHINE.units("x"), NamesError, "block must be one of 'visible', 'hidden'"),
            (lambda: MACHINE.subspace([]), ShapeError, "at least one"),
            (lambda: MACHINE.subspace([5]), ShapeError, "from 0 to 4"),
            (lambda: MACHINE.columns([-1]), ShapeError, "from 0 to 4"),
        ],
    )
    def test_refusals(self, make, error, message):
        with pytest.raises(error, match=message):
            make()

    def test_a_block_and_its_only_unit_may_have_one_name(self):
        space = ebm.Product(age=ebm.Levels(1, 4), sex=ebm.Binary(1), names=["age", "sex"])
        assert ebm.marginalize(ebm.PairwiseModel(space), keep=["age"]).space.names == ("age",)


TWO_VALUED = {
    "expand": lambda model, data: ebm.perturbation.expand(model, 2),
    "plefka": lambda model, data: ebm.perturbation.plefka(model, 2),
    "bethe": lambda model, data: ebm.perturbation.bethe(model),
    "inversion": lambda model, data: ebm.inversion.tap(data.moments()),
    "pseudo-likelihood": lambda model, data: ebm.inversion.pseudolikelihood(data),
    "effective": lambda model, data: ebm.effective.expand(model, [0, 1], 2),
    "interactions": lambda model, data: ebm.marginalize(model, [0, 2]).interactions(),
    "terms": lambda model, data: ebm.InteractionModel({(0, 1): 1.0}, model.space),
    "graph": lambda model, data: ebm.to_graph(model),
    "population": lambda model, data: ebm.observables.population_count(data),
    "two-valued": lambda model, data: data.moments().two_valued(),
    "report": lambda model, data: ebm.analyze(data),
    "compare": lambda model, data: ebm.compare(data, ebm.exact(model)),
}


@pytest.mark.parametrize("name", TWO_VALUED)
def test_methods_of_two_valued_units_say_what_is_wanted(name):
    model = reference()
    data = ebm.Ensemble.from_data(MIXED.random(50, rng=0), space=MIXED)
    wanted = "two-valued|BoltzmannMachine|Binary"
    with pytest.raises((ModelError, CodingError), match=wanted):
        TWO_VALUED[name](model, data)
