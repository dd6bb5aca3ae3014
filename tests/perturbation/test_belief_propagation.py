"""The Bethe approximation: exact on trees, its own derivatives on loops, refusals."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

import ebm
from ebm.errors import (
    ConvergenceError,
    EbmError,
    MemoryLimitError,
    ModelError,
    SeriesWarning,
)
from ebm.perturbation import bethe, bethe_solutions
from ebm.perturbation.bethe import _field_response
from tests import oracles, strategies

# Strong couplings are the subject; what is said about them is that of test_error_estimates.
pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
FEW = settings(max_examples=25, deadline=None)


@st.composite
def forests(draw, max_units=8, scales=(0.3, 1.0, 3.0)):
    """Pairwise models without loops: either coding, either storage, some units apart."""
    n = draw(st.integers(1, max_units))
    rng = draw(strategies.generators())
    scale = draw(st.sampled_from(scales))
    matrix = np.diag(rng.normal(0, 1, n))
    for i in range(1, n):
        if rng.random() < 0.85:
            j = rng.integers(i)
            matrix[i, j] = matrix[j, i] = rng.normal(0, scale)
    stored = csr_array(matrix) if draw(st.booleans()) else matrix
    linear, offset = rng.normal(0, 1, n), rng.normal()
    if draw(st.booleans()):
        return ebm.IsingModel(stored, linear, offset=offset)
    return ebm.BoltzmannMachine(stored, linear, center=rng.uniform(-1, 2, n), offset=offset)


def loopy(seed=4, n=6, scale=0.5):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, scale, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 1, n), center=0.3)


def magnet(n=5, coupling=1.0, field=0.0):
    return ebm.IsingModel(coupling * (np.ones((n, n)) - np.eye(n)), np.full(n, field))


class TestTrees:
    @given(forests())
    @FEW
    def test_everything_is_exact(self, model):
        solution = bethe(model)
        log_z, _ = oracles.distribution(model)
        mean, covariance = oracles.moments(model)
        assert solution.log_partition == pytest.approx(log_z, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(solution.mean, mean, atol=1e-12)
        np.testing.assert_allclose(solution.covariance, covariance, atol=1e-12)
        np.testing.assert_allclose(
            solution.pair_covariance, covariance[solution.pairs], rtol=1e-10, atol=1e-13
        )
        assert solution.is_stable
        assert solution.n_iterations <= model.n + 1

    @pytest.mark.parametrize("size", [10.0, 100.0, 1000.0])
    def test_couplings_of_any_size(self, size):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            weights = np.zeros((7, 7))
            for i in range(1, 7):
                j = rng.integers(i)
                weights[i, j] = weights[j, i] = size * rng.choice([-1, 1]) * rng.uniform(0.5, 1)
            # Biases that balance the couplings: without them one state is all there is.
            model = ebm.BoltzmannMachine(weights, rng.normal(0, 0.3, 7), center=0.5)
            exact, solution = ebm.exact(model), bethe(model)
            moments = exact.moments()
            assert solution.log_partition == pytest.approx(exact.log_partition, rel=1e-13)
            np.testing.assert_allclose(solution.mean, moments.mean, atol=1e-11)
            np.testing.assert_allclose(solution.covariance, moments.covariance, atol=1e-11)
            assert moments.covariance.max() > 0.1

    def test_a_chain_longer_than_the_rounds_allowed(self):
        n = 60
        couplings = np.diag(np.full(n - 1, 9.0), 1)
        chain = ebm.IsingModel(couplings + couplings.T, np.append(0.3, np.zeros(n - 1)))
        solution = bethe(chain, max_iterations=3, tolerance=0)
        # Open chain: ⟨s_1 s_n⟩ = tanh^(n−1) J, and the field acts on the first spin alone.
        assert solution.mean[-1] == pytest.approx(np.tanh(0.3) * np.tanh(9.0) ** (n - 1))
        expected = (1 - np.tanh(0.3) ** 2) * np.tanh(9.0) ** (n - 1)
        assert solution.covariance[0, -1] == pytest.approx(expected, rel=1e-12)
        wanted = n * np.log(2) + np.log(np.cosh(0.3)) + (n - 1) * np.log(np.cosh(9.0))
        assert solution.log_partition == pytest.approx(wanted, rel=1e-14)

    def test_weak_couplings_keep_their_digits(self):
        model = ebm.IsingModel([[0, 1e-9], [1e-9, 0]], [0.5, -25.0])
        expected = np.tanh(1e-9) / (np.cosh(0.5) * np.cosh(25.0)) ** 2
        assert bethe(model).pair_covariance[0] == pytest.approx(expected, rel=1e-7)
        assert bethe(model).covariance[0, 1] == pytest.approx(expected, rel=1e-7)


class TestLoops:
    def test_a_restricted_machine_with_one_hidden_unit_is_a_star(self):
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(0, 2, (5, 1)), rng.normal(0, 1, 5), [0.4], hidden_center=0.7, offset=1.5
        )
        solution = bethe(rbm)
        assert solution.log_partition == pytest.approx(ebm.exact(rbm).log_partition, rel=1e-13)
        visible = ebm.exact(rbm).moments()
        np.testing.assert_allclose(solution.mean[:5], visible.mean, rtol=1e-12)
        np.testing.assert_allclose(
            solution.covariance[:5, :5], visible.covariance, rtol=1e-9, atol=1e-13
        )

    @given(strategies.pairwise_models(min_units=3, max_units=5, scale=0.4))
    @FEW
    def test_derivatives_of_the_free_energy(self, model):
        """Beliefs are the slopes of ln Z, linear response those of the means."""
        solution = bethe(model)

        def log_partition(theta):
            return bethe(model.with_parameters(theta)).log_partition

        slopes = oracles.finite_difference(log_partition, model.parameters)
        d = solution.mean - model.feature_center
        i, j = solution.pairs
        expected = solution.pair_covariance + d[i] * d[j]
        np.testing.assert_allclose(slopes[: model.n], solution.mean, atol=1e-8)
        np.testing.assert_allclose(slopes[model.n :], expected, atol=1e-8)
        shift = np.zeros_like(model.parameters)
        shift[0] = 1e-5
        ends = [
            bethe(model.with_parameters(model.parameters + sign * shift)).mean for sign in (1, -1)
        ]
        response = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(solution.covariance[0, 1:], response[1:], atol=1e-8)

    @pytest.mark.parametrize("damping", [None, 0.4])
    def test_both_ways_to_respond(self, monkeypatch, damping):
        by_inverse = bethe(loopy(), damping=damping).covariance
        monkeypatch.setattr(_field_response, "LOCKED", 2.0)
        by_messages = bethe(loopy(), damping=damping)
        np.testing.assert_allclose(by_messages.covariance, by_inverse, atol=1e-14)
        assert by_messages.is_stable

    def test_the_order_at_which_loops_matter(self):
        """The shortest loop that Bethe misses has three couplings: errors are of third order."""
        strengths = np.array([0.02, 0.04])
        errors = []
        for strength in strengths:
            model = loopy(scale=strength)
            exact, solution = ebm.exact(model), bethe(model)
            difference = solution.covariance - exact.moments().covariance
            errors.append(
                [
                    abs(solution.log_partition - exact.log_partition),
                    np.abs(solution.mean - exact.moments().mean).max(),
                    np.abs(difference[np.triu_indices(6, 1)]).max(),
                ]
            )
        slopes = np.log(np.divide(errors[1], errors[0])) / np.log(2)
        assert np.min(errors) > 1e-11
        assert (slopes > [2.7, 2.7, 2.7]).all()

    def test_storage_zeros_and_codings(self):
        model = loopy()
        weights = np.array(model.weights)
        weights[0, 3] = weights[3, 0] = 0.0
        dense = ebm.BoltzmannMachine(weights, model.biases, center=0.3)
        i, j = np.indices((6, 6)).reshape(2, -1)
        stored = coo_array((weights.ravel(), (i, j)), shape=(6, 6))
        sparse = ebm.BoltzmannMachine(stored, model.biases, center=0.3)
        # Stored zeros are couplings of the family, but carry no messages.
        assert len(sparse.pairs[0]) == 15
        one, other, spins = bethe(dense), bethe(sparse), bethe(dense.to_spins())
        assert len(one.pairs[0]) == len(other.pairs[0]) == 14
        np.testing.assert_allclose(other.covariance, one.covariance, atol=1e-15)
        np.testing.assert_allclose(spins.mean, 2 * one.mean - 1, atol=1e-14)
        np.testing.assert_allclose(spins.covariance, 4 * one.covariance, atol=1e-14)
        assert spins.log_partition == pytest.approx(one.log_partition, rel=1e-14)
        triple = ebm.InteractionModel.from_pairwise(dense)
        np.testing.assert_allclose(bethe(triple).mean, one.mean, atol=1e-14)

    def test_large_and_sparse(self):
        rng = np.random.default_rng(0)
        n = 20000
        i, j = rng.integers(0, n, (2, 2 * n))
        apart = i != j
        upper = coo_array((rng.normal(0, 1, apart.sum()), (i[apart], j[apart])), shape=(n, n))
        model = ebm.BoltzmannMachine(upper + upper.T, rng.normal(0, 1, n), center=0.5)
        solution = bethe(model)
        assert solution.pair_covariance.shape == solution.pairs[0].shape
        with pytest.raises(MemoryLimitError, match=r"20000 units.*pair_covariance"):
            solution.covariance  # noqa: B018


class TestSolutions:
    def test_of_a_magnet(self):
        """Two magnetized minima, and the saddle between them, that a uniform start finds."""
        found = bethe_solutions(magnet(), 10, rng=0)
        assert [round(float(one.mean[0]), 3) + 0 for one in found] == [0.999, -0.999, 0.0]
        assert [one.is_stable for one in found] == [True, True, False]
        assert found[0].log_partition > found[2].log_partition + 1
        # m = tanh(H), u = atanh(tanh J tanh(H − u)) with H = 4u.
        x = np.linspace(0.1, 2, 200001)
        u = x[np.argmin(np.abs(np.arctanh(np.tanh(1.0) * np.tanh(3 * x)) - x))]
        assert found[0].mean[0] == pytest.approx(np.tanh(4 * u), abs=1e-6)
        with pytest.raises(EbmError, match=r"no minimum.*bethe_solutions"):
            bethe(magnet()).covariance  # noqa: B018

    def test_a_saddle_by_beliefs_is_said(self):
        """Beliefs of all pairs need no linear response, so that nothing else would refuse it."""
        saddle = bethe(magnet(), covariance="beliefs")
        with pytest.warns(SeriesWarning, match=r"no minimum.*bethe_solutions") as caught:
            saddle.covariance  # noqa: B018
        assert caught[0].filename == __file__
        assert saddle.covariance_error == saddle.log_partition_error == np.inf
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Not at a minimum that is the only one.
            bethe(magnet(coupling=0.02, field=0.5), covariance="beliefs").moments()

    def test_stability_of_locked_pairs(self):
        with pytest.raises(EbmError, match="no minimum"):
            bethe(magnet(coupling=30.0)).covariance  # noqa: B018
        assert not bethe(magnet(coupling=30.0)).is_stable
        assert bethe(magnet(coupling=30.0, field=0.1)).is_stable

    def test_responses_at_the_edge_of_stability(self, monkeypatch):
        """At tanh J = 1/3 each of five spins, with three other neighbors, passes on all it gets."""
        monkeypatch.setattr(_field_response, "LOCKED", 2.0)
        monkeypatch.setattr(_field_response, "MOST_ROUNDS", 500)
        edge = bethe(magnet(coupling=np.arctanh(1 / 3) - 1e-5))
        assert edge.is_stable
        assert not bethe(magnet(coupling=np.arctanh(1 / 3) + 1e-5)).is_stable
        with pytest.raises(ConvergenceError, match="at the edge of being stable") as caught:
            edge.covariance  # noqa: B018
        assert caught.value.residual > 1e-3

    def test_starts(self):
        up = bethe(magnet(), start=np.full(5, 0.5))
        down = bethe(magnet(), start=np.full(5, -1.0))
        np.testing.assert_allclose(up.mean, -down.mean, atol=1e-12)
        assert up.mean[0] > 0.99
        binary = ebm.BoltzmannMachine(magnet().to_binary().weights, np.zeros(5), center=0.5)
        assert bethe(binary, start=np.full(5, 0.1)).mean[0] < 0.01
        one, other = (bethe(magnet(), start="random", rng=3) for _ in range(2))
        np.testing.assert_array_equal(one.mean, other.mean)

    def test_those_that_do_not_converge(self):
        rng = np.random.default_rng(0)
        glass = np.triu(rng.choice([-4.0, 4.0], (10, 10)), 1)
        model = ebm.IsingModel(glass + glass.T, np.zeros(10))
        with pytest.raises(ConvergenceError, match=r"after 20 rounds.*damping") as caught:
            bethe(model, start="random", rng=1, max_iterations=20)
        assert caught.value.residual > 1e-3
        with pytest.raises(ConvergenceError):
            bethe_solutions(model.with_parameters(model.parameters + 0.1), 2, max_iterations=3)

    def test_damping_finds_what_plain_rounds_miss(self):
        """Antiferromagnets on complete graphs turn back and forth."""
        model = magnet(8, -1.0, 0.3)
        with pytest.raises(ConvergenceError):
            bethe(model, damping=0.0, max_iterations=300)
        solution = bethe(model)
        np.testing.assert_allclose(bethe(model, damping=0.8).mean, solution.mean, atol=1e-9)
        assert np.ptp(solution.mean) < 1e-10


class TestUses:
    def test_moments(self):
        solution = bethe(loopy())
        moments = solution.moments().two_valued()
        assert moments.space == loopy().space
        assert moments.log_partition == solution.log_partition
        assert solution.kind == "Bethe"
        for array in (solution.mean, solution.covariance, solution.pair_covariance):
            assert not array.flags.writeable
        assert "6 couplings" not in repr(solution)
        assert "15 couplings, converged in" in repr(solution)

    def test_fits_a_tree(self):
        rng = np.random.default_rng(2)
        matrix = np.zeros((5, 5))
        for i in range(1, 5):
            j = rng.integers(i)
            matrix[i, j] = matrix[j, i] = rng.normal()
        truth = ebm.BoltzmannMachine(csr_array(matrix), rng.normal(0, 1, 5))
        start = truth.with_parameters(np.zeros_like(truth.parameters))
        result = ebm.fit(start, ebm.exact(truth).moments(), loss=ebm.Likelihood(bethe))
        assert result.converged
        np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-5)

    def test_fits_loops_by_beliefs(self):
        """The maximum of the Bethe likelihood has the couplings of each pair alone."""
        moments = ebm.exact(loopy(scale=0.3)).moments()
        start = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))
        result = ebm.fit(start, moments, loss=ebm.Likelihood(partial(bethe, covariance="beliefs")))
        assert result.converged
        expected = ebm.inversion.independent_pair(moments).recentered(0.0)
        np.testing.assert_allclose(result.model.parameters, expected.parameters, atol=1e-5)

    def test_beliefs_of_coupled_pairs_only(self):
        weights = np.array(loopy().weights)
        weights[0, 3] = weights[3, 0] = 0.0
        model = ebm.BoltzmannMachine(weights, loopy().biases, center=0.3)
        one, other = bethe(model), bethe(model, covariance="beliefs")
        np.testing.assert_array_equal(other.covariance[other.pairs], other.pair_covariance)
        assert other.covariance[0, 3] == one.covariance[0, 3] != 0
        assert (other.covariance[other.pairs] != one.covariance[one.pairs]).all()

    def test_no_couplings(self):
        solution = bethe(ebm.BoltzmannMachine(np.zeros((3, 3)), [0.0, 1.0, -2.0]))
        np.testing.assert_allclose(solution.mean, 1 / (1 + np.exp([0.0, -1.0, 2.0])), rtol=1e-14)
        assert solution.pair_covariance.shape == (0,)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"max_iterations": 0}, "max_iterations must be"),
            ({"max_iterations": True}, "max_iterations must be"),
            ({"tolerance": -1}, "tolerance must be"),
            ({"damping": 1.0}, "damping must be"),
            ({"covariance": "exact"}, "covariance must be"),
            ({"start": "middle"}, "start must be"),
            ({"start": None}, "start must be"),
            ({"start": np.full(6, 1.5)}, "start must hold means of units, from 0 to 1"),
            ({"start": np.zeros(4)}, "start must have shape"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(EbmError, match=message):
            bethe(loopy(), **settings)

    def test_other_models(self):
        with pytest.raises(ModelError, match="got PottsModel"):
            bethe(ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3))))
        with pytest.raises(ModelError, match="at most two units"):
            bethe(ebm.InteractionModel({(0, 1, 2): 1.0}, ebm.Spins(3)))
        with pytest.raises(EbmError, match="n_starts"):
            bethe_solutions(loopy(), -1)
