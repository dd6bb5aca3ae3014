"""Restricted machines against the sum over both layers, learning against finite differences."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import ebm
from ebm.errors import (
    CodingError,
    EbmError,
    MissingValueError,
    ModelError,
    NamesError,
    ShapeError,
)
from tests import oracles, strategies


def joint_energy(rbm, v, h):
    """[EBM] eq 16 for one state of both layers, term by term."""
    energy = rbm.offset
    for a in range(rbm.n):
        energy -= rbm.visible_biases[a] * v[a]
        for b in range(rbm.n_hidden):
            pull = (v[a] - rbm.visible_center[a]) * (h[b] - rbm.hidden_center[b])
            energy -= rbm.weights[a, b] * pull
    return energy - sum(rbm.hidden_biases[b] * h[b] for b in range(rbm.n_hidden))


def joint_table(rbm):
    """E(v, h) over all states of both layers, (2^n, 2^m)."""
    hidden = oracles.all_states(ebm.Binary(rbm.n_hidden))
    visible = oracles.all_states(rbm.space)
    return np.array([[joint_energy(rbm, v, h) for h in hidden] for v in visible])


def source_energy(rbm, v):
    """Eq 17 as printed, with the missing sum over the hidden units put in, without −v̂·Uĥ."""
    inputs = (v - rbm.visible_center) @ rbm.weights + rbm.hidden_biases
    linear = v @ rbm.weights @ rbm.hidden_center - v @ rbm.visible_biases
    return linear - np.logaddexp(0, inputs).sum(axis=-1) + rbm.offset


def example(n=4, m=3, seed=0, scale=1.0, **options):
    """One machine away from every symmetric point."""
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (n, m)),
        rng.normal(0, scale, n),
        rng.normal(0, scale, m),
        visible_center=rng.uniform(-1, 2, n),
        hidden_center=rng.uniform(-1, 2, m),
        offset=0.3,
        **options,
    )


class TestEnergy:
    @given(strategies.restricted_machines(max_visible=4, max_hidden=4))
    def test_it_is_the_joint_energy_with_the_hidden_layer_summed_out(self, rbm):
        states = oracles.all_states(rbm.space)
        wanted = -np.logaddexp.reduce(-joint_table(rbm), axis=1)
        np.testing.assert_allclose(rbm.energy(states), wanted, rtol=1e-11, atol=1e-11)

    def test_the_constant_that_the_source_drops_is_needed(self):
        rbm = example()
        states = oracles.all_states(rbm.space)
        dropped = rbm.visible_center @ rbm.weights @ rbm.hidden_center
        assert abs(dropped) > 0.1
        np.testing.assert_allclose(
            source_energy(rbm, states) - rbm.energy(states), dropped, rtol=1e-10
        )
        # The distribution is the same, ln Z is not.
        log_z = np.logaddexp.reduce(-joint_table(rbm), axis=None)
        assert np.logaddexp.reduce(-rbm.energy(states)) == pytest.approx(log_z, rel=1e-12)
        assert np.logaddexp.reduce(-source_energy(rbm, states)) != pytest.approx(log_z, abs=0.1)

    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (0, 2)])
    def test_any_stack_of_states(self, shape):
        rbm = example()
        states = rbm.space.random(math.prod(shape), rng=0).reshape(*shape, rbm.n)
        energies = rbm.energy(states)
        assert energies.shape == shape
        flat = [rbm.energy(state) for state in states.reshape(-1, rbm.n)]
        np.testing.assert_allclose(energies.ravel(), np.ravel(flat), rtol=1e-14)

    def test_many_states_are_taken_some_at_a_time(self, monkeypatch):
        rbm = example()
        states = rbm.space.random(50, rng=1)
        wanted = rbm.energy(states)
        monkeypatch.setattr("ebm.models.restricted.CHUNK", 7)
        np.testing.assert_allclose(rbm.energy(states), wanted, rtol=1e-14)

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, bool, np.float32, object])
    def test_states_of_any_type(self, dtype):
        rbm = example()
        states = oracles.all_states(rbm.space)
        for function in (rbm.energy, rbm.hidden_input, rbm.energy_gradient):
            np.testing.assert_array_equal(function(states.astype(dtype)), function(states))


class TestLargeInputs:
    """No softplus that is cut off or overflows."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("x", [0, 1e-8, 9.9, 19.9, 36.8, 88.8, 709.9, 1e4, 1e10, 1e30])
    def test_softplus(self, x, dtype):
        x = float(dtype(x))
        on, off = (
            -float(
                ebm.RestrictedBoltzmannMachine(
                    np.array([[sign * x]], dtype), np.zeros(1, dtype), np.zeros(1, dtype)
                ).energy([1])
            )
            for sign in (1, -1)
        )
        assert on == pytest.approx(x + math.log1p(math.exp(-x)), rel=1e-15)
        assert off == pytest.approx(math.log1p(math.exp(-x)), rel=1e-14)

    @pytest.mark.parametrize("scale", [1e3, 1e15, 1e30])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_huge_machines(self, scale, dtype):
        rng = np.random.default_rng(3)
        weights = (scale * rng.normal(size=(5, 4))).astype(dtype)
        b, c = (scale * rng.normal(size=size).astype(dtype) for size in (5, 4))
        rbm = ebm.RestrictedBoltzmannMachine(weights, b, c)
        states = oracles.all_states(rbm.space)
        inputs = states @ weights.astype(float) + c
        wanted = -(states @ b.astype(float)) - np.maximum(inputs, 0).sum(axis=1)
        np.testing.assert_allclose(rbm.energy(states), wanted, rtol=1e-14, atol=20)
        assert rbm.energy(states.astype(np.float32)).dtype == np.float64
        np.testing.assert_array_equal(rbm.hidden_conditional(states), expit(inputs))
        ensemble = ebm.exact(rbm)
        assert ensemble.log_partition == pytest.approx(-wanted.min(), rel=1e-14, abs=20)
        assert np.isfinite(ensemble.moments().mean).all()

    def test_float32_weights_lose_nothing_more(self):
        rbm = example()
        single = ebm.RestrictedBoltzmannMachine(
            rbm.weights.astype(np.float32), rbm.visible_biases, rbm.hidden_biases
        )
        double = ebm.RestrictedBoltzmannMachine(
            rbm.weights.astype(np.float32).astype(float), rbm.visible_biases, rbm.hidden_biases
        )
        assert single.equals(double)


class TestConditionals:
    @given(strategies.restricted_machines(max_visible=4, max_hidden=4))
    def test_they_are_those_of_the_joint_table(self, rbm):
        weights = np.exp(-joint_table(rbm) + joint_table(rbm).min())
        visible = oracles.all_states(rbm.space)
        hidden = oracles.all_states(ebm.Binary(rbm.n_hidden))
        given_v = weights @ hidden / weights.sum(axis=1)[:, None]
        given_h = weights.T @ visible / weights.sum(axis=0)[:, None]
        np.testing.assert_allclose(rbm.hidden_conditional(visible), given_v, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(rbm.visible_conditional(hidden), given_h, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(
            expit(rbm.hidden_input(visible)), rbm.hidden_conditional(visible), rtol=1e-14
        )
        np.testing.assert_allclose(
            expit(rbm.visible_input(hidden)), rbm.visible_conditional(hidden), rtol=1e-14
        )

    @given(strategies.restricted_machines(max_visible=3, max_hidden=3))
    def test_they_are_those_of_the_joint_machine(self, rbm):
        joint = rbm.joint()
        states = oracles.all_states(joint.space)
        both = np.concatenate(
            [
                rbm.visible_conditional(states[:, rbm.n :]),
                rbm.hidden_conditional(states[:, : rbm.n]),
            ],
            axis=1,
        )
        np.testing.assert_allclose(joint.conditional(states), both, rtol=1e-10)

    def test_hidden_states_are_checked(self):
        rbm = example()
        with pytest.raises(ShapeError, match=r"states must have shape \(\.\.\., 3\), got \(4,\)"):
            rbm.visible_input(np.zeros(4))
        with pytest.raises(CodingError, match="0 or 1"):
            rbm.visible_conditional([0.5, 0, 1])


class TestConversions:
    @given(strategies.restricted_machines(max_visible=4, max_hidden=4))
    def test_joint(self, rbm):
        joint = rbm.joint()
        assert isinstance(joint, ebm.BoltzmannMachine)
        energies = joint.energy(oracles.all_states(joint.space))
        np.testing.assert_allclose(energies, joint_table(rbm).ravel(), rtol=1e-10, atol=1e-10)
        assert not joint.weights[: rbm.n, : rbm.n].any()
        assert not joint.weights[rbm.n :, rbm.n :].any()

    @given(strategies.restricted_machines(max_visible=4, max_hidden=4))
    def test_transposed(self, rbm):
        other = rbm.transposed()
        np.testing.assert_allclose(joint_table(other), joint_table(rbm).T, rtol=1e-10, atol=1e-10)
        assert other.transposed().equals(rbm)

    @given(strategies.restricted_machines(max_visible=4, max_hidden=4), strategies.generators())
    def test_recentered_is_a_gauge(self, rbm, rng):
        moved = rbm.recentered(rng.normal(size=rbm.n), rng.normal(size=rbm.n_hidden))
        np.testing.assert_allclose(joint_table(moved), joint_table(rbm), rtol=1e-9, atol=1e-9)
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(
            oracles.distribution(moved)[1], oracles.distribution(rbm)[1], rtol=1e-11, atol=1e-12
        )
        np.testing.assert_allclose(moved.energy(states), rbm.energy(states), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(moved.weights, rbm.weights)
        back = moved.recentered(rbm.visible_center, rbm.hidden_center)
        np.testing.assert_allclose(back.parameters, rbm.parameters, rtol=1e-9, atol=1e-9)
        assert back.offset == pytest.approx(rbm.offset, abs=1e-9)

    def test_recentered_changes_the_gradient(self):
        rbm = example()
        state = [1, 0, 1, 1]
        moved = rbm.recentered(0, 0)
        assert not np.allclose(moved.energy_gradient(state), rbm.energy_gradient(state))
        np.testing.assert_array_equal(moved.visible_center, np.zeros(4))

    @given(strategies.restricted_machines(max_visible=4, max_hidden=4), st.floats(-2, 3))
    def test_scaled_multiplies_the_joint_energy(self, rbm, beta):
        scaled = rbm.scaled(beta)
        assert scaled.joint().equals(rbm.joint().scaled(beta))
        np.testing.assert_allclose(
            joint_table(scaled), beta * joint_table(rbm), rtol=1e-10, atol=1e-10
        )
        wanted = -np.logaddexp.reduce(-beta * joint_table(rbm), axis=1)
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(scaled.energy(states), wanted, rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize("beta", [0.5, 2.0])
    def test_the_effective_energy_does_not_scale(self, beta):
        """β·F₁(v) is another distribution than exp(−F_β(v)), not only another ln Z."""
        rbm = example(scale=2.0)
        states = oracles.all_states(rbm.space)
        difference = rbm.scaled(beta).energy(states) - beta * rbm.energy(states)
        assert np.ptp(difference) > 0.3

    def test_names(self):
        rbm = example(n=2, m=2, names=["left", "right"])
        assert rbm.space == ebm.Binary(2, names=["left", "right"])
        assert rbm.joint().names == ("left", "right", "h0", "h1")
        assert rbm.scaled(2).names == rbm.recentered(0, 0).names == ("left", "right")
        assert rbm.with_parameters(rbm.parameters).names == ("left", "right")
        assert rbm.transposed().names is None
        assert example(n=2, m=2).joint().names is None
        assert example(n=2, m=2, names=["h1", "x"]).joint().names == ("h1", "x", "h_0", "h_1")
        assert rbm.parameter_names == (
            "b[left]", "b[right]", "c[0]", "c[1]",
            "U[left, 0]", "U[left, 1]", "U[right, 0]", "U[right, 1]",
        )  # fmt: skip


class TestParameters:
    @given(strategies.restricted_machines())
    def test_there_and_back(self, rbm):
        theta = rbm.parameters
        assert theta.shape == (rbm.n + rbm.n_hidden + rbm.n * rbm.n_hidden,)
        assert len(rbm.parameter_names) == len(theta)
        assert rbm.with_parameters(theta).equals(rbm)
        assert not rbm.with_parameters(theta + 1).equals(rbm)
        other = rbm.with_parameters(2 * theta)
        np.testing.assert_array_equal(other.weights, 2 * rbm.weights)
        assert other.offset == rbm.offset

    def test_shapes(self):
        rbm = example()
        with pytest.raises(ShapeError, match=r"theta must have shape \(19,\), got \(18,\)"):
            rbm.with_parameters(np.zeros(18))
        with pytest.raises(ShapeError, match=r"direction must have shape \(19,\)"):
            rbm.energy_derivative([0, 0, 0, 0], np.zeros(4))
        with pytest.raises(ModelError, match="weights must be finite, got nan"):
            rbm.with_parameters(np.full(19, np.nan))

    @given(strategies.restricted_machines(max_visible=3, max_hidden=3, scale=1.0))
    def test_gradient_of_the_effective_energy(self, rbm):
        """Lemma 8: the hidden layer's conditional mean of ∂E/∂θ, against differences of E_eff."""
        for state in oracles.all_states(rbm.space):
            wanted = oracles.finite_difference(
                lambda theta, state=state: float(rbm.with_parameters(theta).energy(state)),
                rbm.parameters,
            )
            np.testing.assert_allclose(rbm.energy_gradient(state), wanted, rtol=1e-7, atol=1e-8)

    @given(strategies.restricted_machines(), strategies.generators())
    def test_directional_derivative(self, rbm, rng):
        states = oracles.all_states(rbm.space)
        direction = rng.normal(size=len(rbm.parameters))
        np.testing.assert_allclose(
            rbm.energy_derivative(states, direction),
            rbm.energy_gradient(states) @ direction,
            rtol=1e-10, atol=1e-10,
        )  # fmt: skip
        assert rbm.energy_derivative(states[0], direction).shape == ()


class TestLearningRule:
    @given(strategies.restricted_machines(max_visible=4, max_hidden=3, scale=1.0),
           strategies.generators())  # fmt: skip
    def test_against_differences_of_the_log_likelihood(self, rbm, rng):
        """Theorem 9: data average less model average is the slope of −mean ln p(v)."""
        rows = rbm.space.random(30, rng)
        data = ebm.Ensemble.from_data(rows)
        wanted = oracles.finite_difference(
            lambda theta: -oracles.mean_log_likelihood(rbm.with_parameters(theta), rows),
            rbm.parameters,
        )
        found = rbm.mean_energy_gradient(data) - rbm.mean_energy_gradient(ebm.exact(rbm))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)

    @given(strategies.restricted_machines())
    def test_every_way_to_average(self, rbm):
        """By the definition, by blocks of states, and from the moments of the layers."""
        _, p = oracles.distribution(rbm)
        wanted = p @ rbm.energy_gradient(oracles.all_states(rbm.space))
        ensemble = ebm.exact(rbm)
        twin = rbm.with_parameters(rbm.parameters)
        for found in (
            rbm.mean_energy_gradient(ensemble),
            twin.mean_energy_gradient(ensemble),
            ensemble.expectation(rbm.energy_gradient),
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)

    def test_another_machine_averages_over_states(self):
        """E[∂E/∂θ] of one machine over the distribution of another."""
        rbm, other = example(seed=1), example(seed=2)
        _, p = oracles.distribution(other)
        wanted = p @ rbm.energy_gradient(oracles.all_states(rbm.space))
        np.testing.assert_allclose(rbm.mean_energy_gradient(ebm.exact(other)), wanted, rtol=1e-10)

    def test_blocks_are_cut(self, monkeypatch):
        rbm = example()
        data = ebm.Ensemble.from_data(rbm.space.random(40, rng=2))
        wanted = rbm.mean_energy_gradient(data)
        np.testing.assert_allclose(wanted, data.expectation(rbm.energy_gradient), rtol=1e-12)
        monkeypatch.setattr("ebm.models.restricted.CHUNK", 7)
        np.testing.assert_allclose(rbm.mean_energy_gradient(data), wanted, rtol=1e-12)

    def test_moments_do_not_suffice(self):
        rbm = example()
        with pytest.raises(ModelError, match=r"does not learn from moments alone, got Moments"):
            rbm.mean_energy_gradient(ebm.exact(rbm).moments())

    def test_wrong_coding_is_refused(self):
        rbm = example()
        data = ebm.Ensemble.from_data(2 * rbm.space.random(9, rng=0) - 1, space=ebm.Spins)
        with pytest.raises(CodingError, match="0 or 1"):
            rbm.mean_energy_gradient(data)

    def test_fit_with_exact_gradients(self):
        truth = example(n=4, m=2, scale=2.0)
        rows = ebm.exact(truth).sample(2000, rng=0)
        start = ebm.RestrictedBoltzmannMachine(
            np.random.default_rng(1).normal(0, 0.1, (4, 2)), np.zeros(4), np.zeros(2)
        )
        result = ebm.fit(start, rows, penalty=ebm.Penalty(l2=1e-3))
        before, after = (oracles.mean_log_likelihood(m, rows) for m in (start, result.model))
        best = -ebm.Ensemble.from_data(rows).entropy()
        assert before < after < best
        assert best - after < 0.02
        assert result.gradient_norm < 1e-3


class TestFisherInformation:
    """F = Cov_{p(v)}[E_{h|v} ∂E], not the covariance over both layers."""

    def test_it_is_that_of_the_visible_units(self):
        rbm = example(n=3, m=2)
        fisher = ebm.fisher_information(rbm).dense()
        _, p = oracles.distribution(rbm)

        def log_p(theta):
            model = rbm.with_parameters(theta)
            log_z, _ = oracles.distribution(model)
            return -model.energy(oracles.all_states(rbm.space)) - log_z

        score = np.array(
            [
                oracles.finite_difference(lambda t, k=k: log_p(t)[k], rbm.parameters)
                for k in range(8)
            ]
        )
        np.testing.assert_allclose(fisher, score.T @ (score * p[:, None]), rtol=1e-6, atol=1e-9)

    def test_it_is_smaller_than_that_of_both_layers(self):
        rbm = example(n=3, m=2)
        joint = rbm.joint()
        i, j = joint.pairs
        across = np.flatnonzero((i < rbm.n) & (j >= rbm.n))
        kept = np.concatenate([np.arange(joint.n), joint.n + across])
        of_both = ebm.fisher_information(joint).dense()[np.ix_(kept, kept)]
        of_visible = ebm.fisher_information(rbm).dense()
        assert 0.1 < np.trace(of_visible) / np.trace(of_both) < 0.9
        # Data processing: the difference is positive semi-definite.
        assert np.linalg.eigvalsh(of_both - of_visible).min() > -1e-10


class TestArguments:
    @pytest.mark.parametrize(
        ("weights", "b", "c", "error", "text"),
        [
            (np.zeros((2, 3)), [0, 0], [0, 0], ShapeError, r"weights must have shape \(2, 2\), a"),
            (np.zeros(6), [0, 0], [0, 0, 0], ShapeError, r"got \(6,\)"),
            (np.zeros((3, 2)), [0, 0], [0, 0, 0], ShapeError, r"shape \(2, 3\).*got \(3, 2\)"),
            (np.zeros((2, 3)), [[0, 0]], [0, 0, 0], ShapeError, r"visible_biases must have shape"),
            (np.zeros((2, 3)), [0, 0], 0.0, ShapeError, r"hidden_biases must have shape \(n,\)"),
            (np.zeros((2, 0)), [0, 0], [], ShapeError, r"hidden_biases .* n ≥ 1, got \(0,\)"),
            (np.zeros((0, 2)), [], [0, 0], ShapeError, r"visible_biases .* n ≥ 1, got \(0,\)"),
            ([[0, np.nan]], [0], [0, 0], ModelError, r"weights must be finite, got nan at .0, 1"),
            ([[0, 1]], [np.inf], [0, 0], ModelError, r"visible_biases must be finite, got inf"),
            ([[0, 1]], [0], [0, np.nan], ModelError, r"hidden_biases must be finite, got nan at"),
            ("a", [0], [0, 0], ModelError, "weights must hold numbers, got text"),
            ([[0, 1j]], [0], [0, 0], ModelError, "weights must hold real numbers"),
            ([[0, 1], [0]], [0, 0], [0, 0], ShapeError, "weights must not be ragged"),
        ],
    )  # fmt: skip
    def test_refusals(self, weights, b, c, error, text):
        with pytest.raises(error, match=text):
            ebm.RestrictedBoltzmannMachine(weights, b, c)

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"visible_center": [1, 2, 3]}, ShapeError, r"visible_center must have shape \(2,\)"),
            ({"hidden_center": [1, 2]}, ShapeError, r"hidden_center must have shape \(1,\)"),
            ({"hidden_center": np.nan}, ModelError, "hidden_center must be finite"),
            ({"offset": [1, 2]}, ShapeError, "offset must be one number"),
            ({"offset": np.inf}, ModelError, "offset must be finite"),
            ({"names": ["a"]}, NamesError, "one name for each of the 2 units"),
        ],
    )
    def test_refusals_of_options(self, options, error, text):
        with pytest.raises(error, match=text):
            ebm.RestrictedBoltzmannMachine([[1], [2]], [0, 0], [0], **options)
        if next(iter(options)).endswith("center"):
            rbm = ebm.RestrictedBoltzmannMachine([[1], [2]], [0, 0], [0])
            with pytest.raises(error, match=text):
                rbm.recentered(**{"visible_center": 0, "hidden_center": 0} | options)

    @pytest.mark.parametrize(
        ("states", "error"),
        [
            ([0, 0.5, 1, 0], CodingError),
            ([0, -1, 1, 0], CodingError),
            ([0, np.nan, 1, 0], MissingValueError),
            ([0, 1], ShapeError),
            (["y", "n", "y", "n"], CodingError),
        ],
    )
    def test_other_codings_are_refused(self, states, error):
        """Gray values, ±1 and NaN are not {0,1}."""
        rbm = example()
        for function in (rbm.energy, rbm.hidden_input, rbm.energy_gradient):
            with pytest.raises(error):
                function(states)

    def test_sparse_weights_become_dense(self):
        from scipy import sparse

        rbm = ebm.RestrictedBoltzmannMachine(sparse.eye_array(2, 3), [0, 0], [0, 0, 0])
        np.testing.assert_array_equal(rbm.weights, np.eye(2, 3))

    def test_arrays_are_copied_and_read_only(self):
        weights, b, c = np.ones((2, 1)), np.zeros(2), np.zeros(1)
        for array in (weights, b, c):
            array.setflags(write=False)
        states = np.array([[0.0, 1.0]])
        states.setflags(write=False)
        rbm = ebm.RestrictedBoltzmannMachine(weights, b, c)
        rbm.energy(states)
        rbm.energy_gradient(states)
        ebm.exact(rbm).layer_moments()
        assert rbm.weights is not weights
        for array in (rbm.weights, rbm.visible_biases, rbm.hidden_center):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        fortran = ebm.RestrictedBoltzmannMachine(np.asfortranarray(np.ones((2, 3))), b, np.zeros(3))
        assert fortran.equals(ebm.RestrictedBoltzmannMachine(np.ones((2, 3)), b, np.zeros(3)))

    def test_idle_units(self):
        """An all-zero weight column or row harms nothing."""
        rbm = ebm.RestrictedBoltzmannMachine([[0, 1], [0, 0]], [0, 2], [1, 0])
        moved = rbm.recentered(0.5, 0.5)
        moments = ebm.exact(moved).moments()
        assert np.isfinite(moved.parameters).all()
        assert moments.mean[1] == pytest.approx(expit(2), rel=1e-14)
        assert np.isfinite(ebm.fisher_information(moved).dense()).all()

    def test_equals(self):
        rbm = example()
        assert rbm.equals(example())
        assert not rbm.equals(rbm.joint())
        assert not rbm.equals(example(names=list("abcd")))
        assert not rbm.equals(rbm.recentered(0, 0))
        assert not rbm.equals(example(n=3, m=4))
        assert pickle.loads(pickle.dumps(rbm)).equals(rbm)
        assert repr(rbm) == ("RestrictedBoltzmannMachine(n=4, n_hidden=3, Binary(n=4, names=None))")

    def test_files(self, tmp_path):
        for k, rbm in enumerate([example(), example(names=list("abcd")), example(n=1, m=6)]):
            ebm.save(rbm, tmp_path / f"{k}.npz")
            assert ebm.load(tmp_path / f"{k}.npz").equals(rbm)

    @pytest.mark.parametrize("scale", [-1, np.nan, np.inf, "a", None, [1, 2]])
    def test_the_scale_of_first_weights_is_a_deviation(self, scale):
        with pytest.raises(EbmError, match="scale must"):
            ebm.RestrictedBoltzmannMachine.for_data([[0, 1], [1, 0]], 2, scale=scale)
