"""Units summed out: against sums over the joint table, and against numbers worked out by hand."""

import math
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.effective import MarginalModel, _trace, marginal
from ebm.errors import EnumerationLimitError, ModelError, NamesError, ShapeError
from tests import oracles, strategies
from tests.user_models import HardCore, TwoMembers


def summed_out(model, keep):
    """E_eff of every state of the kept units, from the table of the joint energies."""
    states = oracles.all_states(model.space)
    energies = np.asarray(model.energy(states))
    kept = _kept_states(model.space, keep)
    wanted = []
    for state in kept:
        logs = -energies[(states[:, list(keep)] == state).all(axis=1)]
        wanted.append(-np.logaddexp.reduce(logs))
    return kept, np.array(wanted)


def _kept_states(space, keep):
    return np.array(list(product(*map(space.values_of, keep))))


def interaction(energy, units, space):
    """J_A by the definition: alternating sums over subsets, or averages over all states."""
    n = space.n
    if isinstance(space, ebm.Binary):
        total = 0.0
        for size in range(len(units) + 1):
            for on in combinations(units, size):
                state = np.zeros(n)
                state[list(on)] = 1
                total -= (-1) ** (len(units) - size) * float(energy(state))
        return total
    states = oracles.all_states(space)
    return -np.mean(np.asarray(energy(states)) * states[:, list(units)].prod(axis=1))


@st.composite
def models_and_units(draw, models):
    """A model and some of its units in any order."""
    model = draw(models)
    units = draw(st.permutations(range(model.space.n)))
    return model, units[: draw(st.integers(1, model.space.n))]


ANY_MODEL = (
    strategies.quadratic_models(max_units=6)
    | strategies.forbidding_models(max_units=6)
    | strategies.restricted_machines(max_visible=5, max_hidden=4)
)


class TestEnergy:
    @given(models_and_units(ANY_MODEL))
    def test_it_is_the_sum_over_the_other_units(self, drawn):
        model, keep = drawn
        effective = ebm.marginalize(model, keep)
        states, wanted = summed_out(model, keep)
        np.testing.assert_allclose(effective.energy(states), wanted, rtol=1e-10, atol=1e-10)

    @given(models_and_units(ANY_MODEL))
    def test_the_same_log_partition(self, drawn):
        """Theorem 7, every constant kept."""
        model, keep = drawn
        found = ebm.exact(ebm.marginalize(model, keep)).log_partition
        assert found == pytest.approx(oracles.distribution(model)[0], rel=1e-10, abs=1e-10)

    @given(models_and_units(strategies.pairwise_models(max_units=6)))
    def test_the_same_moments(self, drawn):
        model, keep = drawn
        ours = ebm.exact(ebm.marginalize(model, keep)).moments()
        joint = ebm.exact(model).moments()
        np.testing.assert_allclose(ours.mean, joint.mean[keep], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            ours.covariance, joint.covariance[np.ix_(keep, keep)], rtol=1e-9, atol=1e-12
        )

    @given(models_and_units(strategies.quadratic_models(max_units=6)))
    def test_the_two_ways_agree(self, drawn):
        model, keep = drawn
        states = _kept_states(model.space, keep)
        by_products, by_energy = (
            ebm.marginalize(either, keep) for either in (model, TwoMembers(model))
        )
        assert isinstance(by_products._trace, marginal.TraceByProducts)
        assert isinstance(by_energy._trace, marginal.TraceByEnergy)
        np.testing.assert_allclose(
            by_products.energy(states), by_energy.energy(states), rtol=1e-10, atol=1e-10
        )

    @given(models_and_units(ANY_MODEL), st.integers(1, 5), st.integers(1, 5))
    def test_chunks_of_any_size(self, drawn, chunk, traced_chunk):
        model, keep = drawn
        states, wanted = summed_out(model, keep)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(marginal, "CHUNK", chunk)
            patch.setattr(_trace, "TRACED_CHUNK", traced_chunk)
            found = ebm.marginalize(model, keep).energy(states)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)

    @given(models_and_units(strategies.quadratic_models(max_units=6)), st.data())
    def test_in_two_steps(self, drawn, data):
        model, keep = drawn
        once = ebm.marginalize(model, keep)
        positions = data.draw(st.permutations(range(len(keep))))
        again = positions[: data.draw(st.integers(1, len(keep)))]
        twice = ebm.marginalize(once, again)
        assert twice.keep == tuple(keep[i] for i in again)
        states, wanted = summed_out(once, again)
        np.testing.assert_allclose(twice.energy(states), wanted, rtol=1e-9, atol=1e-9)

    def test_large_energies(self):
        rng = np.random.default_rng(0)
        for scale in (1e3, 1e6):
            model = ebm.BoltzmannMachine(rng.normal(0, scale, (7, 7)), rng.normal(0, scale, 7))
            states, wanted = summed_out(model, [4, 0, 2])
            found = ebm.marginalize(model, [4, 0, 2]).energy(states)
            np.testing.assert_allclose(found, wanted, rtol=1e-13)

    def test_states_that_the_joint_model_forbids(self):
        model = HardCore([0.3, 0.2, -0.1, 0.5])
        energies = ebm.marginalize(model, [1, 2]).energy([[1, 1], [1, 0], [0, 0]])
        assert energies[0] == math.inf
        assert np.isfinite(energies[1:]).all()

    @pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
    def test_any_stack_of_states(self, shape):
        effective = ebm.marginalize(ebm.IsingModel(np.ones((4, 4)), np.arange(4)), [3, 1])
        states = effective.space.random(math.prod(shape), rng=0).reshape(*shape, 2)
        assert effective.energy(states).shape == shape


class TestRestrictedMachines:
    @given(strategies.restricted_machines())
    def test_keeping_the_visible_units_of_the_joint_machine(self, rbm):
        effective = ebm.marginalize(rbm.joint(), range(rbm.n))
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(
            effective.energy(states), rbm.energy(states), rtol=1e-10, atol=1e-10
        )

    @given(strategies.restricted_machines())
    def test_keeping_the_hidden_units_of_the_joint_machine(self, rbm):
        effective = ebm.marginalize(rbm.joint(), range(rbm.n, rbm.n + rbm.n_hidden))
        states = oracles.all_states(effective.space)
        np.testing.assert_allclose(
            effective.energy(states), rbm.transposed().energy(states), rtol=1e-10, atol=1e-10
        )

    def test_keeping_every_visible_unit(self):
        rbm = ebm.RestrictedBoltzmannMachine([[1.0, -2], [0.5, 1]], [0.1, 0.2], [0.3, 0.4])
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(
            ebm.marginalize(rbm, [0, 1]).energy(states), rbm.energy(states), rtol=1e-14
        )

    def test_a_layer_is_summed_unit_by_unit(self):
        """300 hidden units: 600 terms for each visible state, not 2^300."""
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(size=(100, 300)), rng.normal(size=100), rng.normal(size=300)
        )
        states = rbm.space.random(20, rng)
        effective = ebm.marginalize(rbm.joint(), range(100))
        np.testing.assert_allclose(effective.energy(states), rbm.energy(states), rtol=1e-11)

    @given(strategies.restricted_machines(max_visible=4, max_hidden=3), st.floats(0.2, 3))
    def test_scaled(self, rbm, beta):
        """β multiplies the joint energy, before units are summed out."""
        keep = range(rbm.n)
        scaled = ebm.marginalize(rbm.joint(), keep).scaled(beta)
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(
            scaled.energy(states), rbm.scaled(beta).energy(states), rtol=1e-9, atol=1e-9
        )

    def test_scaling_is_not_multiplication(self):
        rbm = ebm.RestrictedBoltzmannMachine([[3.0], [-2.0]], [0.1, 0.2], [0.3])
        effective = ebm.marginalize(rbm.joint(), [0, 1])
        states = oracles.all_states(rbm.space)
        difference = effective.scaled(2).energy(states) - 2 * effective.energy(states)
        assert np.ptp(difference) > 0.5

    def test_scaled_needs_a_joint_model_that_scales(self):
        with pytest.raises(ModelError, match=r"HardCore must have a method scaled\(beta\)"):
            ebm.marginalize(HardCore([1, 2, 3]), [0]).scaled(2)


class TestInteractions:
    def test_one_hidden_spin(self):
        """[EBM] Example 11 in small: J₁₂ = atanh(tanh 0.9 · tanh 0.7)."""
        weights = np.zeros((3, 3))
        weights[0, 2] = weights[2, 0] = 0.9
        weights[1, 2] = weights[2, 1] = 0.7
        effective = ebm.marginalize(ebm.IsingModel(weights, np.zeros(3)), [0, 1]).interactions()
        assert effective.terms[0, 1] == pytest.approx(0.463469, abs=5e-7)
        assert effective.terms[0, 1] == pytest.approx(
            math.atanh(math.tanh(0.9) * math.tanh(0.7)), rel=1e-13
        )
        assert [effective.terms[(i,)] for i in (0, 1)] == pytest.approx([0, 0], abs=1e-15)

    def test_one_hidden_unit(self):
        """The same couplings between {0,1} units, the hidden bias −0.3."""
        rbm = ebm.RestrictedBoltzmannMachine([[0.9], [0.7]], [0, 0], [-0.3])
        for effective in (ebm.marginalize(rbm, [0, 1]), ebm.marginalize(rbm.joint(), [0, 1])):
            terms = effective.interactions().terms
            assert terms[0, 1] == pytest.approx(0.144860, abs=5e-7)

    def test_two_of_a_ferromagnetic_chain(self):
        """Decimation: the spin between two others gives tanh J' = tanh² J."""
        weights = np.zeros((3, 3))
        for i in (0, 1):
            weights[i, i + 1] = weights[i + 1, i] = 0.8
        effective = ebm.marginalize(ebm.IsingModel(weights, np.zeros(3)), [0, 2]).interactions()
        assert math.tanh(effective.terms[0, 1]) == pytest.approx(math.tanh(0.8) ** 2, rel=1e-13)
        assert effective.offset == pytest.approx(
            -math.log(2 * math.cosh(1.6)) / 2 - math.log(2) / 2
        )

    @given(
        models_and_units(
            strategies.pairwise_models(max_units=6)
            | strategies.restricted_machines(max_visible=5, max_hidden=4)
        )
    )
    def test_all_orders_give_the_energy_back(self, drawn):
        model, keep = drawn
        effective = ebm.marginalize(model, keep)
        expanded = effective.interactions()
        states = oracles.all_states(effective.space)
        np.testing.assert_allclose(
            expanded.energy(states), effective.energy(states), rtol=1e-9, atol=1e-9
        )
        assert expanded.space == effective.space
        assert len(expanded.terms) == 2 ** len(keep) - 1
        assert list(expanded.terms) == sorted(expanded.terms, key=lambda a: (len(a), a))

    @given(models_and_units(strategies.pairwise_models(max_units=5)), st.integers(1, 5))
    def test_each_term_is_that_of_the_definition(self, drawn, max_order):
        model, keep = drawn
        effective = ebm.marginalize(model, keep)
        found = effective.interactions(max_order)
        subsets = [
            units
            for size in range(1, min(max_order, len(keep)) + 1)
            for units in combinations(range(len(keep)), size)
        ]
        assert list(found.terms) == subsets
        for units in subsets:
            wanted = interaction(effective.energy, units, effective.space)
            assert found.terms[units] == pytest.approx(wanted, rel=1e-8, abs=1e-9)
        wanted = -interaction(effective.energy, (), effective.space)
        assert found.offset == pytest.approx(wanted, rel=1e-9, abs=1e-9)

    def test_pairs_of_many_units(self):
        """Over {0,1} only states of at most two units at 1 are visited, 2^80 are not."""
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(0, 0.5, (80, 30)), rng.normal(size=80), rng.normal(size=30)
        )
        found = ebm.marginalize(rbm, range(80)).interactions(max_order=2)
        assert len(found.terms) == 80 + 80 * 79 // 2
        for units in [(3,), (0, 1), (17, 79)]:
            wanted = interaction(rbm.energy, units, rbm.space)
            assert found.terms[units] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        few = np.zeros((3, 80))
        few[1, 5] = few[2, [7, 60]] = 1
        np.testing.assert_allclose(found.energy(few), rbm.energy(few), rtol=1e-12)

    def test_closed_form_of_hidden_units(self):
        """W_ij = Σ_β [s(c+u_i+u_j) − s(c+u_i) − s(c+u_j) + s(c)], one sum for each hidden unit."""
        rng = np.random.default_rng(5)
        u, c = rng.normal(size=(3, 4)), rng.normal(size=4)
        found = ebm.marginalize(
            ebm.RestrictedBoltzmannMachine(u, np.zeros(3), c), [0, 1, 2]
        ).interactions(2)

        def s(x):
            return np.logaddexp(0, x)

        for i, j in combinations(range(3), 2):
            wanted = (s(c + u[i] + u[j]) - s(c + u[i]) - s(c + u[j]) + s(c)).sum()
            assert found.terms[i, j] == pytest.approx(wanted, rel=1e-10)

    @settings(max_examples=20)
    @given(strategies.pairwise_models(max_units=5))
    def test_nothing_summed_out(self, model):
        """A pairwise model is its own expansion: no terms of three units."""
        found = ebm.marginalize(model, range(model.space.n)).interactions()
        higher = [value for units, value in found.terms.items() if len(units) > 2]
        np.testing.assert_allclose(higher, 0, atol=1e-12)

    def test_refusals(self):
        levels = ebm.TabularModel(np.arange(9.0), ebm.Levels(2, 3))
        with pytest.raises(ModelError, match="interactions are those of two-valued units"):
            ebm.marginalize(levels, [0]).interactions()
        with pytest.raises(ModelError, match=r"some states have energy \+inf"):
            ebm.marginalize(HardCore([1, 2, 3]), [0, 1]).interactions()
        effective = ebm.marginalize(HardCore([1, 2, 3]), [0])
        for wrong in (0, -1, 1.5, True, "2"):
            with pytest.raises(ShapeError, match="max_order must be a positive integer, got"):
                effective.interactions(wrong)
        wide = ebm.marginalize(ebm.IsingModel(np.zeros((60, 60)), np.zeros(60)), range(50))
        with pytest.raises(EnumerationLimitError, match=r"the interactions of 2\^50 states"):
            wide.interactions()
        many = ebm.marginalize(ebm.BoltzmannMachine(np.zeros((90, 90)), np.zeros(90)), range(80))
        with pytest.raises(EnumerationLimitError, match=r"subsets of the 80 units"):
            many.interactions(6)


class TestUnits:
    MODEL = ebm.BoltzmannMachine(
        np.arange(16.0).reshape(4, 4) / 8, np.arange(4.0), names=["a", "b", "c", "d"]
    )

    @pytest.mark.parametrize(
        "keep", [["c", "a"], [2, 0], (2, 0), np.array([2, 0]), np.array(["c", "a"]), iter([2, 0])]
    )
    def test_by_number_or_by_name(self, keep):
        effective = ebm.marginalize(self.MODEL, keep)
        assert isinstance(effective, MarginalModel)
        assert effective.keep == (2, 0)
        assert effective.space == ebm.Binary(2, names=["c", "a"])
        states, wanted = summed_out(self.MODEL, [2, 0])
        np.testing.assert_allclose(effective.energy(states), wanted, rtol=1e-12)

    @pytest.mark.parametrize(
        ("keep", "error", "text"),
        [
            ([], ShapeError, "at least one unit"),
            ("a", ShapeError, r"keep must be a sequence of units, got 'a': give keep=\['a'\]"),
            (1, ShapeError, r"give keep=\[1\]"),
            (9, ShapeError, "keep must be a sequence of units, got 9$"),
            ("all", ShapeError, "keep must be a sequence of units, got 'all'$"),
            ({0, 1}, ShapeError, r"in the order wanted, got \{0, 1\}: give a list"),
            (np.array([[0, 1]]), ShapeError, "one sequence of units, got 2 axes"),
            ([[0, 1]], ShapeError, r"numbers or names of units, got \[0, 1\]$"),
            ([4], ShapeError, "numbers from 0 to 3, got 4$"),
            ([-1], ShapeError, "numbers from 0 to 3, got -1"),
            ([0, 0], ShapeError, "each unit once, got 0 more than once"),
            ([1, 0, "a"], ShapeError, "each unit once, but 0 is 'a'"),
            ([1.0], ShapeError, "numbers or names of units, got 1.0"),
            ([True, False], ShapeError, r"got True: of a mask give np.flatnonzero\(mask\)"),
            (["e"], NamesError, "keep holds 'e', but the units are 'a', 'b', 'c', 'd'$"),
        ],
    )
    @pytest.mark.parametrize("sum_out", [ebm.marginalize, partial(ebm.effective.expand, order=2)])
    def test_refusals(self, sum_out, keep, error, text):
        with pytest.raises(error, match=text):
            sum_out(self.MODEL, keep)

    def test_none(self):
        """It keeps all units in an expansion, and is no sequence here."""
        with pytest.raises(ShapeError, match=r"keep must be a sequence of units, got None$"):
            ebm.marginalize(self.MODEL, None)

    def test_names_that_are_not_there(self):
        with pytest.raises(NamesError, match="'a', but the units have no names: give their num"):
            ebm.marginalize(ebm.IsingModel([[0.0]], [0.0]), ["a"])

    def test_hidden_units_of_a_restricted_machine(self):
        """They are none of its units; the refusal says where they are."""
        rbm = ebm.RestrictedBoltzmannMachine([[1.0]], [0.0], [0.0], names=["v"])
        for unit, error in ((1, ShapeError), ("h0", NamesError)):
            with pytest.raises(error, match=r"model\.joint\(\) has the hidden units too"):
                ebm.marginalize(rbm, [unit])
        assert ebm.marginalize(rbm.joint(), ["h0"]).keep == (1,)

    def test_models_that_cannot_be_summed(self):
        class Well(ebm.EnergyModel):
            space = ebm.Reals(2)

            def energy(self, states):
                return (np.asarray(states) ** 2).sum(axis=-1)

        with pytest.raises(ModelError, match="units of a finite space"):
            ebm.marginalize(Well(), [0])
        with pytest.raises(ModelError, match="space must be a state space"):
            ebm.marginalize(object(), [0])

    def test_too_many_states_to_sum(self):
        rng = np.random.default_rng(0)
        dense = ebm.BoltzmannMachine(rng.normal(size=(60, 60)), np.zeros(60))
        # No argument lifts the limit, so that none is named.
        with pytest.raises(
            EnumerationLimitError, match=r"summing out 2\^57 .* GiB: keep more unit"
        ):
            ebm.marginalize(dense, [0, 1, 2]).energy([0, 0, 0])
        with pytest.raises(EnumerationLimitError, match=r"summing out 2\^59 states"):
            ebm.marginalize(HardCore(np.zeros(60)), [0]).energy([0])
        with pytest.raises(EnumerationLimitError, match=r"summing out 2\^2999 states"):
            ebm.marginalize(HardCore(np.zeros(3000)), [0]).energy([0])
        ones = ebm.BoltzmannMachine(np.ones((1500, 1500)), np.zeros(1500))
        with pytest.raises(EnumerationLimitError, match=r"summing out 2\^1499 states"):
            ebm.marginalize(ones, [0]).energy([0])

    def test_a_marginal_is_a_model(self):
        effective = ebm.marginalize(self.MODEL, ["a", "b"])
        assert repr(effective).endswith("keep=(0, 1))")
        draws = ebm.exact(effective).sample(10, rng=0)
        assert draws.shape == (10, 2)
        assert len(ebm.local_minima(effective).states) >= 1
