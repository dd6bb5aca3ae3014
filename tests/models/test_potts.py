"""Potts models against loops over pairs and values, known results and two-valued models."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration._quadratic import PairwiseEnumeration
from ebm.errors import CodingError, FileFormatError, MissingValueError, ModelError, ShapeError
from ebm.models import _level_couplings
from tests import oracles, statistical, strategies


def pair_by_pair(couplings, fields, offset, state):
    """The definition of the energy, for one state and any couplings, symmetric or not."""
    energy = offset
    for i, a in enumerate(state):
        energy -= fields[i, a]
        for j, b in enumerate(state):
            if i != j:
                energy -= 0.5 * couplings[i, j, a, b]
    return energy


def random_couplings(n, q, seed=0, scale=0.6):
    """Not symmetric, no unit coupled to itself."""
    couplings = np.random.default_rng(seed).normal(0, scale, (n, n, q, q))
    couplings[range(n), range(n)] = 0
    return couplings


def example(n=4, q=3, seed=0, **options):
    """One model away from every symmetric point and every gauge."""
    fields = np.random.default_rng(seed + 100).normal(0, 0.6, (n, q))
    return ebm.PottsModel(random_couplings(n, q, seed), fields, offset=0.7, **options)


def ring(n, q, coupling):
    """Equal neighbors on a ring have the energy −coupling; a triangle for n = 3."""
    matrix = np.zeros((n, n))
    for i in range(n):
        matrix[i, (i + 1) % n] = matrix[(i + 1) % n, i] = coupling
    return ebm.PottsModel(np.multiply.outer(matrix, np.eye(q)), np.zeros((n, q)))


def transfer_matrix(n, q, coupling):
    """Z = λ₁ⁿ + (q − 1) λ₂ⁿ with λ₁ = e^K + q − 1 and λ₂ = e^K − 1."""
    return (math.exp(coupling) + q - 1) ** n + (q - 1) * (math.exp(coupling) - 1) ** n


class TestEnergy:
    @pytest.mark.parametrize(("n", "q"), [(1, 2), (1, 4), (2, 3), (4, 3), (3, 5)])
    def test_it_is_the_sum_over_pairs_and_units(self, n, q):
        couplings, fields = random_couplings(n, q), np.random.default_rng(1).normal(size=(n, q))
        model = ebm.PottsModel(couplings, fields, offset=0.3)
        states = oracles.all_states(model.space)
        wanted = [pair_by_pair(couplings, fields, 0.3, s.astype(int)) for s in states]
        np.testing.assert_allclose(model.energy(states), wanted, rtol=1e-12, atol=1e-12)

    @given(strategies.potts_models())
    def test_it_is_the_quadratic_form_over_one_hot_features(self, model):
        matrix, vector, constant = model.quadratic_form()
        states = oracles.all_states(model.space)
        f = model.space.features(states)
        form = -0.5 * ((f @ matrix) * f).sum(axis=1) - f @ vector + constant
        np.testing.assert_allclose(model.energy(states), form, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (0, 2)])
    def test_any_stack_of_states(self, shape):
        model = example()
        states = model.space.random(math.prod(shape), rng=0).reshape(*shape, model.n)
        energies = model.energy(states)
        assert energies.shape == shape
        if not states.size:
            return
        slopes, chances = model.energy_gradient(states), model.conditional(states)
        assert (energies.shape, slopes.shape) == (shape, (*shape, len(model.parameters)))
        assert chances.shape == (*shape, model.n, model.q)
        for place in np.ndindex(shape):
            one = states[place]
            assert energies[place] == pytest.approx(float(model.energy(one)), rel=1e-14)
            np.testing.assert_array_equal(slopes[place], model.energy_gradient(one))
            np.testing.assert_allclose(chances[place], model.conditional(one), rtol=1e-12)

    def test_chunks_of_states_change_nothing(self, monkeypatch):
        model = example()
        states = model.space.random(13, rng=1)
        wanted = model.energy(states)
        monkeypatch.setattr(_level_couplings, "CHUNK", 12)
        np.testing.assert_array_equal(model.energy(states), wanted)

    def test_arrays_of_any_layout_and_states_of_any_type(self):
        couplings, fields = random_couplings(3, 3), np.ones((3, 3))
        model = ebm.PottsModel(couplings, fields)
        other = ebm.PottsModel(np.asfortranarray(couplings), np.asfortranarray(fields))
        assert other.equals(model)
        states = oracles.all_states(model.space)
        for kind in (np.int8, np.uint8, np.int64, np.float32):
            np.testing.assert_array_equal(other.energy(states.astype(kind)), model.energy(states))

    def test_states_outside_the_values_are_refused(self):
        model = example(names=list("abcd"))
        with pytest.raises(CodingError, match="unit 'b' has the values 3 where an integer from 0"):
            model.energy([0, 3, 0, 0])
        with pytest.raises(MissingValueError, match="in 'c'"):
            model.energy([0, 1, math.nan, 0])
        with pytest.raises(ShapeError, match=r"states must have shape \(..., 4\)"):
            model.energy([0, 1])


class TestKnownResults:
    @pytest.mark.parametrize("coupling", [-1.1, 0.4, 1.3, 3.0])
    @pytest.mark.parametrize(("n", "q"), [(3, 2), (3, 3), (3, 5), (5, 3), (7, 4)])
    def test_ring_by_transfer_matrix(self, n, q, coupling):
        exact = ebm.exact(ring(n, q, coupling))
        wanted = math.log(transfer_matrix(n, q, coupling))
        assert exact.log_partition == pytest.approx(wanted, rel=1e-12)
        # Mean number of equal neighbors: the slope of ln Z.
        slope = oracles.finite_difference(
            lambda k: math.log(transfer_matrix(n, q, k[0])), [coupling]
        )[0]
        assert -exact.mean_energy() / coupling == pytest.approx(slope, rel=1e-7)
        np.testing.assert_allclose(exact.moments().mean, 1 / q, rtol=1e-10)

    @given(strategies.ising_models(max_units=5))
    def test_two_values_are_an_ising_model(self, ising):
        spin = np.array([-1.0, 1.0])
        off = ising.couplings - np.diag(np.diag(ising.couplings))
        model = ebm.PottsModel(
            np.multiply.outer(off, np.multiply.outer(spin, spin)),
            np.multiply.outer(ising.fields, spin),
            offset=ising.offset - np.trace(ising.couplings) / 2,
        )
        check_two_values(model, ising)
        # Products of spins sum to zero over either value: this is the zero-sum gauge.
        np.testing.assert_allclose(model.zero_sum().couplings, model.couplings, atol=1e-14)

    @given(strategies.boltzmann_machines(max_units=5))
    def test_two_values_are_a_boltzmann_machine(self, machine):
        own = machine.canonical().recentered(0.0)
        both = np.zeros((2, 2))
        both[1, 1] = 1
        model = ebm.PottsModel(
            np.multiply.outer(own.weights, both),
            np.multiply.outer(own.biases, [0, 1]),
            offset=own.offset,
        )
        check_two_values(model, machine)
        # With values swapped, so that the last one is zero, the parameters are biases and weights.
        flipped = ebm.PottsModel(
            model.couplings[:, :, ::-1, ::-1], model.fields[:, ::-1], offset=model.offset
        )
        np.testing.assert_array_equal(flipped.parameters, own.parameters)


def check_two_values(model, other):
    """The same energies, ln Z, moments, conditionals and minima, states numbered alike."""
    exact, wanted = ebm.exact(model), ebm.exact(other)
    states = oracles.all_states(model.space)
    coded = other.space.values[states.astype(int)]
    np.testing.assert_allclose(model.energy(states), other.energy(coded), rtol=1e-11, atol=1e-11)
    assert exact.log_partition == pytest.approx(wanted.log_partition, rel=1e-11, abs=1e-11)
    moments = wanted.moments().to(ebm.Binary)
    on = slice(1, None, 2)
    np.testing.assert_allclose(exact.moments().mean[on], moments.mean, atol=1e-11)
    np.testing.assert_allclose(exact.moments().covariance[on, on], moments.covariance, atol=1e-11)
    np.testing.assert_allclose(
        model.conditional(states)[..., 1], other.conditional(coded), rtol=1e-9, atol=1e-12
    )


class TestExact:
    @given(strategies.potts_models())
    def test_three_products_agree_with_every_state(self, model):
        exact = ebm.exact(model)
        assert isinstance(exact, PairwiseEnumeration)
        log_z, p = oracles.distribution(model)
        mean, covariance = oracles.moments(model)
        assert exact.log_partition == pytest.approx(log_z, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(exact.weights, p, rtol=1e-9)
        np.testing.assert_allclose(exact.moments().mean, mean, atol=1e-10)
        np.testing.assert_allclose(exact.moments().covariance, covariance, atol=1e-10)
        entropy = -float(p @ np.log(p))
        assert exact.entropy() == pytest.approx(entropy, rel=1e-9, abs=1e-10)

    def test_draws_follow_the_distribution(self):
        model = example().scaled(1.5)
        exact = ebm.exact(model)
        draws = exact.sample(20_000, rng=3)
        statistical.check_distribution(draws, oracles.distribution(model)[1], model.space)

    @given(strategies.potts_models(), strategies.generators())
    def test_conditionals_are_ratios_of_probabilities(self, model, rng):
        state = model.space.random(1, rng)[0]
        chances = model.conditional(state)
        for unit in range(model.n):
            states = np.repeat(state[None], model.q, axis=0)
            states[:, unit] = np.arange(model.q)
            weights = np.exp(-model.energy(states))
            np.testing.assert_allclose(chances[unit], weights / weights.sum(), rtol=1e-10)
            # The unit's own value does not enter.
            own = model.conditional(states)[:, unit]
            np.testing.assert_allclose(own, np.broadcast_to(own[0], own.shape), rtol=1e-12)

    def test_conditionals_of_strong_couplings_are_finite(self):
        chances = example().scaled(1e4).conditional([0, 1, 2, 0])
        np.testing.assert_allclose(chances.sum(axis=-1), 1)


class TestGauges:
    def test_rounding_of_a_gauge_is_no_coupling_written_once(self):
        """Values that cancel to 0 in one order of a pair and to 10⁻¹⁷ in the other."""
        rng = np.random.default_rng(1)
        for n, q in rng.integers(2, 6, (200, 2)):
            half = rng.choice([0.0, 0.1, 0.3, 0.7, -0.2], (n, n, q, q))
            half[np.arange(n), np.arange(n)] = 0
            model = ebm.PottsModel(half + half.transpose(1, 0, 3, 2), np.zeros((n, q)))
            even = model.zero_sum().couplings
            np.testing.assert_array_equal(even, even.transpose(1, 0, 3, 2))
            np.testing.assert_allclose(even.sum(axis=2), 0, atol=1e-14)

    @given(strategies.potts_models())
    def test_they_keep_every_energy(self, model):
        states = oracles.all_states(model.space)
        for other in (
            model.last_state_zero(),
            model.zero_sum(),
            model.zero_sum().last_state_zero(),
        ):
            np.testing.assert_allclose(
                other.energy(states), model.energy(states), rtol=1e-12, atol=1e-12
            )

    @given(strategies.potts_models())
    def test_they_are_what_they_say(self, model):
        last = model.last_state_zero()
        assert not last.fields[:, -1].any()
        assert not last.couplings[:, :, -1].any()
        assert not last.couplings[:, :, :, -1].any()
        even = model.zero_sum()
        np.testing.assert_allclose(even.fields.sum(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(even.couplings.sum(axis=2), 0, atol=1e-12)
        np.testing.assert_allclose(even.couplings.sum(axis=3), 0, atol=1e-12)

    def test_the_last_state_is_zero_exactly_in_its_own_gauge(self):
        once = example().last_state_zero()
        assert once.last_state_zero().equals(once)

    def test_the_zero_sum_gauge_has_the_smallest_couplings(self):
        model = example()
        smallest = (model.zero_sum().couplings ** 2).sum()
        for other in (model, model.last_state_zero()):
            assert smallest < (other.couplings**2).sum()

    @given(strategies.potts_models(), strategies.generators())
    def test_a_change_of_gauge_changes_no_parameter(self, model, rng):
        i, j = 0, model.n - 1
        couplings, fields = model.couplings.copy(), model.fields.copy()
        moved = rng.normal(size=model.q)
        fields += rng.normal(size=(model.n, 1))
        if i != j:
            couplings[i, j] += moved[:, None]
            couplings[j, i] += moved
            fields[i] -= moved
        other = ebm.PottsModel(couplings, fields)
        np.testing.assert_allclose(other.parameters, model.parameters, atol=1e-12)


class TestParameters:
    @given(strategies.potts_models(), strategies.generators())
    def test_they_go_round(self, model, rng):
        states = oracles.all_states(model.space)
        same = model.with_parameters(model.parameters)
        np.testing.assert_allclose(
            same.energy(states), model.energy(states), rtol=1e-12, atol=1e-12
        )
        theta = rng.normal(size=len(model.parameters))
        other = model.with_parameters(theta)
        np.testing.assert_array_equal(other.parameters, theta)
        assert other.equals(other.last_state_zero())
        assert other.space == model.space

    def test_there_are_as_many_as_can_be_told_apart(self):
        model = example(n=3, q=3)
        assert len(model.parameters) == 3 * 2 + 3 * 4 == len(model.parameter_names)
        metric = ebm.fisher_information(model)
        assert np.linalg.eigvalsh(metric.dense())[0] > 1e-4

    def test_names_say_unit_and_value(self):
        names = example(n=2, names=["x", "y"]).parameter_names
        assert names[:4] == ("h[x](0)", "h[x](1)", "h[y](0)", "h[y](1)")
        assert names[4:] == tuple(f"J[x, y]({a}, {b})" for a in (0, 1) for b in (0, 1))

    def test_each_is_the_entry_it_is_called(self):
        model = example().last_state_zero()
        named = dict(zip(model.parameter_names, model.parameters, strict=True))
        assert named["h[2](1)"] == model.fields[2, 1]
        assert named["J[1, 3](0, 1)"] == model.couplings[1, 3, 0, 1] == model.couplings[3, 1, 1, 0]

    @given(strategies.potts_models(max_units=3), strategies.generators())
    def test_gradient_is_the_finite_difference(self, model, rng):
        state = model.space.random(1, rng)[0]
        slopes = oracles.finite_difference(
            lambda theta: float(model.with_parameters(theta).energy(state)), model.parameters
        )
        np.testing.assert_allclose(model.energy_gradient(state), slopes, atol=1e-9)

    @given(strategies.potts_models(), strategies.generators())
    def test_derivative_is_the_gradient_along_a_direction(self, model, rng):
        states = model.space.random(20, rng)
        direction = rng.normal(size=len(model.parameters))
        np.testing.assert_allclose(
            model.energy_derivative(states, direction),
            model.energy_gradient(states) @ direction,
            atol=1e-12,
        )

    @given(strategies.potts_models(max_units=3))
    def test_mean_gradient_is_the_slope_of_the_log_partition(self, model):
        slopes = oracles.finite_difference(
            lambda theta: -oracles.distribution(model.with_parameters(theta))[0],
            model.parameters,
        )
        exact = ebm.exact(model)
        np.testing.assert_allclose(model.mean_energy_gradient(exact), slopes, atol=1e-8)
        by_states = exact.expectation(model.energy_gradient)
        for average in (exact, exact.moments()):
            np.testing.assert_allclose(model.mean_energy_gradient(average), by_states, atol=1e-10)

    def test_moments_of_other_units_are_refused(self):
        moments = ebm.exact(ebm.IsingModel(np.zeros((4, 4)), np.zeros(4))).moments()
        with pytest.raises(CodingError, match="cannot be converted to Levels"):
            example(q=2).mean_energy_gradient(moments)

    @given(strategies.potts_models(), st.floats(-2, 2))
    def test_scaling_multiplies_every_energy(self, model, beta):
        states = oracles.all_states(model.space)
        got = model.scaled(beta).energy(states)
        np.testing.assert_allclose(got, beta * model.energy(states), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("theta", [[1.0], 1.0, np.zeros((8, 4))])
    def test_vectors_of_another_length_are_refused(self, theta):
        model = example()
        with pytest.raises(ShapeError, match=r"theta must have shape \(32,\)"):
            model.with_parameters(theta)
        with pytest.raises(ShapeError, match=r"direction must have shape \(32,\)"):
            model.energy_derivative([0, 0, 0, 0], theta)


class TestRefusals:
    @pytest.mark.parametrize(
        ("couplings", "fields", "error", "message"),
        [
            (np.zeros((2, 2, 3, 3)), np.zeros(2), ShapeError, r"fields .* \(n, q\), got \(2,\)"),
            (np.zeros((2, 2)), np.zeros((2, 3)), ShapeError, r"\(2, 2, 3, 3\), got \(2, 2\)"),
            (np.zeros((2, 3, 2, 3)), np.zeros((2, 3)), ShapeError, r"got \(2, 3, 2, 3\)"),
            (
                np.zeros((2, 2, 1, 1)),
                np.zeros((2, 1)),
                ShapeError,
                "q must be an integer of",
            ),
            (np.zeros((0, 0, 3, 3)), np.zeros((0, 3)), ShapeError, "n must be a positive"),
            (
                np.full((2, 2, 3, 3), math.nan),
                np.zeros((2, 3)),
                ModelError,
                r"couplings must be finite, got nan at \(0, 0, 0, 0\)",
            ),
            (
                np.zeros((2, 2, 3, 3)),
                np.full((2, 3), math.inf),
                ModelError,
                r"fields must be finite, got inf at \(0, 0\)",
            ),
            (
                np.ones((2, 2, 3, 3)),
                np.zeros((2, 3)),
                ModelError,
                r"couplings\[0, 0\] must be zero, got a coupling of unit '0' to itself",
            ),
        ],
    )
    def test_arrays(self, couplings, fields, error, message):
        with pytest.raises(error, match=message):
            ebm.PottsModel(couplings, fields)

    def test_a_coupling_to_itself_that_cancels_in_the_symmetric_part(self):
        couplings = random_couplings(2, 3)
        couplings[1, 1, 0, 2], couplings[1, 1, 2, 0] = 1, -1
        with pytest.raises(ModelError, match=r"couplings\[1, 1\] must be zero"):
            ebm.PottsModel(couplings, np.zeros((2, 3)))

    def test_pairs_written_once_around_a_ring(self):
        """J[i, i + 1 mod n], of equal values and entry by entry; in both orders they are taken."""
        ring = np.multiply.outer(np.roll(np.eye(4), 1, axis=1), np.diag([0.5, 1.0, 2.0]))
        words = r"symmetric, got 0\.5 at \(0, 1, 0, 0\) and 0 at \(1, 0, 0, 0\)"
        with pytest.raises(ModelError, match=words):
            ebm.PottsModel(ring, np.zeros((4, 3)))
        whole = ring + ring.transpose(1, 0, 3, 2)
        model = ebm.PottsModel(whole, np.zeros((4, 3)))
        assert float(model.energy([2, 2, 2, 2])) == -8
        for value in (0.3, 1e-12):
            whole[2, 1, 1, 0] = value
            words = rf"got {value:g} at \(2, 1, 1, 0\) and 0 at \(1, 2, 0, 1\)"
            with pytest.raises(ModelError, match=words):
                ebm.PottsModel(whole, np.zeros((4, 3)))

    @pytest.mark.parametrize("triangle", [np.triu, np.tril])
    def test_one_triangle_of_the_pairs(self, triangle):
        half = random_couplings(3, 3) * triangle(np.ones((3, 3)))[:, :, None, None]
        words = r"couplings must be symmetric, got .*one triangle.*transpose\(1, 0, 3, 2\)"
        with pytest.raises(ModelError, match=words):
            ebm.PottsModel(half, np.zeros((3, 3)))
        whole = ebm.PottsModel(half + half.transpose(1, 0, 3, 2), np.zeros((3, 3)))
        wanted = pair_by_pair(2 * half, np.zeros((3, 3)), 0.0, [0, 1, 2])
        assert float(whole.energy([0, 1, 2])) == pytest.approx(wanted, rel=1e-12)

    def test_offset(self):
        with pytest.raises(ModelError, match="offset must be finite"):
            ebm.PottsModel(np.zeros((1, 1, 2, 2)), np.zeros((1, 2)), offset=math.nan)

    def test_models_are_frozen_and_keep_no_reference(self):
        fields = np.zeros((2, 3))
        model = ebm.PottsModel(np.zeros((2, 2, 3, 3)), fields)
        fields[0, 0] = 1
        assert model.fields[0, 0] == 0
        for array in (model.fields, model.couplings):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        with pytest.raises(AttributeError):
            model.offset = 1.0


class TestEquality:
    def test_every_part_counts(self):
        model = example()
        assert model.equals(example())
        assert not model.equals(example(names=list("abcd")))
        assert not model.equals(model.zero_sum())
        assert not model.equals(model.scaled(1 + 1e-15))
        assert not model.equals(ebm.PottsModel(model.couplings, model.fields))
        assert not model.equals(ebm.PottsModel(model.couplings, model.fields + 1, offset=0.7))
        assert not model.equals("model")

    def test_copies_and_pickles_are_equal(self):
        model = example(names=list("abcd"))
        assert model.parameters.size
        assert copy.deepcopy(model).equals(model)
        assert pickle.loads(pickle.dumps(model)).equals(model)

    def test_it_says_what_it_is(self):
        assert repr(example()).startswith("PottsModel(n=4, q=3, 6 pairs, Levels(n=4")


class TestFit:
    def test_exact_averages_give_the_parameters_back(self):
        model = example(n=3)
        start = model.with_parameters(np.zeros(len(model.parameters)))
        result = ebm.fit(start, ebm.exact(model))
        assert result.converged, result.message
        np.testing.assert_allclose(result.model.parameters, model.parameters, atol=1e-5)
        np.testing.assert_allclose(
            result.model.zero_sum().couplings, model.zero_sum().couplings, atol=1e-5
        )

    def test_draws_give_them_back_within_their_errors(self):
        model = example(n=3)
        rows = ebm.exact(model).sample(20_000, rng=5)
        result = ebm.fit(model.with_parameters(0 * model.parameters), rows)
        metric = ebm.fisher_information(model).dense()
        # Cholesky factors make the errors independent, each of variance one.
        change = np.linalg.cholesky(metric).T @ (result.model.parameters - model.parameters)
        statistical.check_z_scores(change * np.sqrt(20_000), 0, 1)

    def test_two_values_are_fitted_as_a_boltzmann_machine_is(self):
        rng = np.random.default_rng(2)
        rows = (rng.random((500, 3)) < [0.3, 0.5, 0.6]).astype(int)
        rows[:, 1] |= rows[:, 0] & (rng.random(500) < 0.5)
        machine = ebm.fit(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)), rows)
        potts = ebm.fit(ebm.PottsModel(np.zeros((3, 3, 2, 2)), np.zeros((3, 2))), rows)
        assert potts.log_likelihood == pytest.approx(machine.log_likelihood, abs=1e-9)
        tables = potts.model.couplings
        np.testing.assert_allclose(
            tables[:, :, 0, 0] + tables[:, :, 1, 1] - tables[:, :, 0, 1] - tables[:, :, 1, 0],
            machine.model.weights,
            atol=1e-4,
        )


class TestFiles:
    @given(strategies.potts_models())
    def test_they_are_read_back_bit_for_bit(self, tmp_path_factory, model):
        path = tmp_path_factory.mktemp("models") / "model.npz"
        for one in (model, model.zero_sum()):
            ebm.save(one, path, overwrite=True)
            assert ebm.load(path).equals(one)

    def test_names_are_kept(self, tmp_path):
        model = example(names=["é", "b", "c", "d"])
        ebm.save(model, tmp_path / "model.npz")
        assert ebm.load(tmp_path / "model.npz").space == model.space

    def test_a_damaged_file_is_named(self, tmp_path):
        path = tmp_path / "model.npz"
        ebm.save(example(), path)
        with np.load(path) as archive:
            arrays = dict(archive)
        arrays["fields"] = arrays["fields"][:-1]
        np.savez(path, **arrays)
        with pytest.raises(FileFormatError, match="damaged model file"):
            ebm.load(path)
