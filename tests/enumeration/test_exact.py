"""ebm.exact against sums over all states, and against numbers known to twenty digits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration import _quadratic
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_form
from ebm.enumeration._quadratic import PairwiseEnumeration
from ebm.errors import CodingError, ModelError, ShapeError
from tests import oracles, strategies
from tests.enumeration.adversaries import two_mode_adversary, underflow_adversary
from tests.user_models import CoupledLevels, HardCore, TwoMembers

RTOL, ATOL = 1e-10, 1e-13


def check_against_definition(ensemble, model):
    """ln Z, means and covariances of an ensemble are those of the sum over all states."""
    log_z, _ = oracles.distribution(model)
    mean, covariance = oracles.moments(model)
    moments = ensemble.moments()
    np.testing.assert_allclose(ensemble.log_partition, log_z, rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose(moments.mean, mean, rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose(moments.covariance, covariance, rtol=RTOL, atol=ATOL)
    assert moments.log_partition == ensemble.log_partition
    assert moments.sample_size == ensemble.sample_size == math.inf
    assert moments.space == model.space


@pytest.fixture(params=[0, _quadratic.SMALL], ids=["products", "one table"], scope="class")
def route(request):
    """Small models too are summed by products, or all states at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_quadratic, "SMALL", request.param)
        yield


@pytest.mark.usefixtures("route")
class TestAgainstDefinition:
    @given(strategies.quadratic_models())
    def test_pairwise_models(self, model):
        ensemble = ebm.exact(model)
        assert isinstance(ensemble, PairwiseEnumeration)
        check_against_definition(ensemble, model)

    @given(strategies.forbidding_models())
    def test_models_of_two_members_with_forbidden_states(self, model):
        ensemble = ebm.exact(model)
        assert isinstance(ensemble, BlockedEnumeration)
        check_against_definition(ensemble, model)

    @given(strategies.quadratic_models())
    def test_energy_alone_gives_what_the_quadratic_form_gives(self, model):
        by_products, by_energy = ebm.exact(model), ebm.exact(TwoMembers(model))
        assert isinstance(by_energy, BlockedEnumeration)
        np.testing.assert_allclose(by_products.log_partition, by_energy.log_partition, rtol=RTOL)
        for name in ("mean", "covariance"):
            np.testing.assert_allclose(
                getattr(by_products.moments(), name),
                getattr(by_energy.moments(), name),
                rtol=RTOL,
                atol=ATOL,
            )

    @pytest.mark.parametrize("n", range(1, 13))
    def test_every_number_of_units(self, n):
        rng = np.random.default_rng(n)
        weights, biases = rng.normal(0, 1.5, (n, n)), rng.normal(size=n)
        machine = ebm.BoltzmannMachine(weights, biases, center=rng.normal(size=n), offset=0.7)
        for model in (machine, ebm.IsingModel(weights, biases, offset=-0.3)):
            check_against_definition(ebm.exact(model), model)

    @pytest.mark.parametrize("scale", [50, 200, 1000])
    @pytest.mark.parametrize("seed", range(4))
    def test_large_couplings(self, scale, seed):
        rng = np.random.default_rng(seed)
        model = ebm.BoltzmannMachine(
            rng.normal(0, scale, (11, 11)), rng.normal(0, scale, 11), center=rng.random(11)
        )
        check_against_definition(ebm.exact(model), model)

    @pytest.mark.parametrize("seed", [17, 19, 10, 24, 15, 18])
    def test_huge_couplings_with_several_modes(self, seed):
        # Whole multiples of 1000: states tie. The seeds take, in pairs, the plain products, the
        # products with a potential, and the sums in the log domain.
        rng = np.random.default_rng(seed)
        weights = np.triu(1000.0 * rng.integers(-1, 2, (9, 9)), 1)
        model = ebm.BoltzmannMachine(weights + weights.T, 1000.0 * rng.integers(-1, 2, 9))
        assert np.sum(oracles.distribution(model)[1] > 0.01) >= 3
        check_against_definition(ebm.exact(model), model)

    def test_two_modes_that_no_potential_balances(self):
        ensemble = ebm.exact(two_mode_adversary())
        assert ensemble.log_partition == pytest.approx(160000 + 5 * math.log(2), rel=1e-14)
        np.testing.assert_allclose(ensemble.moments().mean, 0.5, rtol=1e-11)


@pytest.mark.usefixtures("route")
class TestForms:
    """Sums are given a form and ask the model for nothing."""

    def test_the_model_is_not_asked(self):
        class Silent(ebm.EnergyModel):
            space = ebm.Binary(14)

            def energy(self, states):
                pytest.fail("evaluated")

            def quadratic_form(self):
                pytest.fail("made again")

        for scale in (0.3, 1e9):
            machine = ebm.BoltzmannMachine(
                scale * (np.ones((14, 14)) - np.eye(14)), scale * np.linspace(-9, 1, 14), center=0.4
            )
            cut = cut_form(machine.quadratic_form())
            silent = PairwiseEnumeration(Silent(), Silent.space, cut, Limits(), 1)
            exact = ebm.exact(machine, n_jobs=1)
            assert silent.log_partition == exact.log_partition
            np.testing.assert_array_equal(silent.moments().covariance, exact.moments().covariance)


class TestKnownNumbers:
    """LIMITS of the design, §1.3 and §3.1: two independent methods, to the digits shown."""

    def check_lattice(self, bonds, n, strength, log_z, bond_sum):
        """−E = K Σ ss on the bonds, in both codings."""
        weights = np.zeros((n, n))
        for i, j in bonds:
            weights[i, j] += strength
            weights[j, i] += strength
        ising = ebm.IsingModel(weights, np.zeros(n))
        machine = ebm.BoltzmannMachine(4 * weights, np.zeros(n), center=0.5)
        for model in (ising, machine):
            ensemble = ebm.exact(model)
            assert ensemble.log_partition == pytest.approx(log_z, rel=2e-15)
            moments = ensemble.moments().to(ebm.Spins)
            found = sum(moments.second[i, j] for i, j in bonds)
            assert found == pytest.approx(bond_sum, rel=1e-13)
            assert ensemble.mean_energy() == pytest.approx(-strength * bond_sum, rel=1e-13)

    @staticmethod
    def square(periodic):
        bonds = []
        for row in range(4):
            for column in range(4):
                here = 4 * row + column
                if periodic or column < 3:
                    bonds.append((here, 4 * row + (column + 1) % 4))
                if periodic or row < 3:
                    bonds.append((here, 4 * ((row + 1) % 4) + column))
        return bonds

    @pytest.mark.parametrize(
        ("periodic", "strength", "log_z", "bond_sum"),
        [
            (True, 0.44, 15.504726538718161772, 25.0055524496615),
            (False, 0.44, 13.667552384220280456, 12.7466147838917),
            (True, 0.2, 11.771470358541581849, 7.29816591268555),
            (True, 1.0, 32.698721401879325151, 31.9545350440923),
        ],
    )
    def test_square_lattices(self, periodic, strength, log_z, bond_sum):
        self.check_lattice(self.square(periodic), 16, strength, log_z, bond_sum)

    def test_variance_of_the_energy(self):
        bonds = self.square(periodic=True)
        weights = np.zeros((16, 16))
        for i, j in bonds:
            weights[i, j] = weights[j, i] = 0.44
        ensemble = ebm.exact(ebm.IsingModel(weights, np.zeros(16)))
        variance = ensemble.covariance(lambda s: -ensemble.model.energy(s) / 0.44)
        assert variance == pytest.approx(64.8472354626745, rel=1e-12)

    @pytest.mark.parametrize(
        ("n", "log_z"), [(10, 8.6426813793015141796), (24, 20.742050896287120525)]
    )
    def test_rings(self, n, log_z):
        weights = np.zeros((n, n))
        for i in range(n):
            weights[i, (i + 1) % n] = weights[(i + 1) % n, i] = 0.5
        ensemble = ebm.exact(ebm.IsingModel(weights, np.full(n, 0.2)))
        assert ensemble.log_partition == pytest.approx(log_z, rel=2e-15)

    @pytest.mark.parametrize(
        ("n", "coupling", "bias", "log_z", "mean", "pair"),
        [
            (20, 0.1, -1, 8.70983851419163216, 0.477088038042015368, 0.238544019021007684),
            (32, 0.1, -1, 22.2775056168638022, 0.819541819960970967, 0.675974777667160559),
            (20, 50, -400, 1500, 1, 1),
            (20, -50, 100, 157.192934221215799, 1 / 7, 1 / 70),
        ],
    )
    def test_complete_graphs(self, n, coupling, bias, log_z, mean, pair):
        weights = coupling * (1.0 - np.eye(n))
        ensemble = ebm.exact(ebm.BoltzmannMachine(weights, np.full(n, float(bias))))
        moments = ensemble.moments()
        assert ensemble.log_partition == pytest.approx(log_z, rel=1e-14)
        np.testing.assert_allclose(moments.mean, mean, rtol=1e-13)
        off = ~np.eye(n, dtype=bool)
        np.testing.assert_allclose(moments.second[off], pair, rtol=1e-13)

    def test_underflow_adversary(self):
        ensemble = ebm.exact(underflow_adversary())
        assert ensemble.log_partition == pytest.approx(32005.54517744448, rel=1e-15)
        np.testing.assert_allclose(ensemble.moments().mean, [1] * 8 + [0.5] * 8 + [1] * 8)


class TestMembers:
    @given(strategies.quadratic_models() | strategies.forbidding_models())
    def test_distribution_is_normalized_and_in_the_order_of_the_states(self, model):
        ensemble = ebm.exact(model)
        _, p = oracles.distribution(model)
        np.testing.assert_array_equal(ensemble.states, oracles.all_states(model.space))
        np.testing.assert_allclose(ensemble.weights, p, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(
            np.exp(ensemble.log_probability(ensemble.states)), p, rtol=1e-9, atol=1e-14
        )
        assert ensemble.weights.sum() == pytest.approx(1, rel=1e-12)
        assert ensemble.free_energy == -ensemble.log_partition

    @given(strategies.quadratic_models() | strategies.forbidding_models())
    def test_entropy_and_mean_energy(self, model):
        ensemble = ebm.exact(model)
        _, p = oracles.distribution(model)
        energies = np.asarray(model.energy(oracles.all_states(model.space)))[p > 0]
        p = p[p > 0]
        assert ensemble.mean_energy() == pytest.approx(p @ energies, rel=1e-10, abs=1e-10)
        entropy = -(p @ np.log(p))
        assert ensemble.entropy() == pytest.approx(entropy, rel=1e-10, abs=1e-10)
        assert ensemble.entropy(base=2) == pytest.approx(entropy / math.log(2), abs=1e-10)

    def test_entropy_with_probability_zero(self):
        p = [0.5, 0, 0.25, 0.25]
        ensemble = ebm.exact(ebm.TabularModel.from_probabilities(p, ebm.Binary(2)))
        assert ensemble.entropy(base=2) == pytest.approx(1.5, rel=1e-15)
        point = ebm.exact(ebm.TabularModel.from_probabilities([0, 1, 0, 0], ebm.Binary(2)))
        assert point.entropy() == 0
        assert point.log_probability([0, 0]) == -math.inf

    def test_entropy_at_couplings_that_leave_one_state(self):
        ensemble = ebm.exact(ebm.BoltzmannMachine([[0, 1000], [1000, 0]], [300, -200]))
        assert ensemble.entropy() == 0
        assert np.isfinite(ensemble.moments().covariance).all()

    @given(strategies.quadratic_models() | strategies.forbidding_models())
    def test_streamed_expectation_and_covariance(self, model):
        def observable(x):
            return np.column_stack([x[:, 0] * x.sum(axis=1), np.exp(x[:, -1]), x[:, 0]])

        ensemble = ebm.exact(model)
        _, p = oracles.distribution(model)
        wanted = p @ observable(oracles.all_states(model.space))
        np.testing.assert_allclose(ensemble.expectation(observable), wanted, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            ensemble.covariance(observable),
            oracles.covariance(model, observable),
            rtol=1e-9,
            atol=1e-12,
        )
        estimate = ensemble.estimate(lambda x: x[:, 0])
        assert estimate.value == pytest.approx(wanted[2], rel=1e-10, abs=1e-12)
        assert estimate.standard_error == 0

    def test_streaming_takes_more_than_one_block(self):
        rng = np.random.default_rng(0)
        model = ebm.BoltzmannMachine(rng.normal(size=(16, 16)), rng.normal(size=16))
        ensemble = ebm.exact(model)
        blocks = [weights for _, weights in ensemble.blocks()]
        assert len(blocks) > 1
        assert sum(weights.sum() for weights in blocks) == pytest.approx(1, rel=1e-12)
        mean = ensemble.expectation(lambda x: x)
        np.testing.assert_allclose(mean, ensemble.moments().mean, rtol=1e-10)
        np.testing.assert_allclose(np.concatenate(blocks), ensemble.weights, rtol=1e-9)

    def test_log_probability_checks_the_coding(self):
        ensemble = ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0, 0]))
        assert ensemble.log_probability(np.ones((3, 4, 2))).shape == (3, 4)
        with pytest.raises(CodingError, match="'0'"):
            ensemble.log_probability([0, 1])

    def test_observable_that_sums_over_too_much(self):
        with pytest.raises(ShapeError, match="last axis"):
            ebm.exact(HardCore([1, 2, 3])).expectation(lambda x: x.sum())

    def test_offset_is_in_log_partition_and_energy(self):
        plain = ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0.3, 0]))
        shifted = ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0.3, 0], offset=5))
        assert shifted.log_partition == pytest.approx(plain.log_partition - 5, rel=1e-14)
        assert shifted.entropy() == pytest.approx(plain.entropy(), rel=1e-13)

    def test_names_stay_with_the_moments(self):
        machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0], names=["left", "right"])
        assert ebm.exact(machine).moments().space.names == ("left", "right")


@pytest.mark.parametrize("n", [9, 26, 27])
@pytest.mark.parametrize("scale", [0.3, 30])
def test_results_do_not_depend_on_the_number_of_threads(n, scale):
    rng = np.random.default_rng(n)
    model = ebm.BoltzmannMachine(rng.normal(0, scale, (n, n)), rng.normal(0, scale, n))
    one, *others = (ebm.exact(model, n_jobs=n_jobs) for n_jobs in (1, 2, 4))
    for other in others:
        assert other.log_partition == one.log_partition
        np.testing.assert_array_equal(other.moments().mean, one.moments().mean)
        np.testing.assert_array_equal(other.moments().covariance, one.moments().covariance)


class Broken(ebm.EnergyModel):
    """A model whose energies are whatever they are set to."""

    def __init__(self, energy, space):
        self._energy, self.space = energy, space

    def energy(self, states):
        return self._energy(np.asarray(states))


class TestBrokenModels:
    @pytest.mark.parametrize(
        ("energy", "said"),
        [
            (lambda x: x, r"to \(\d+,\), got \(\d+, 3\)"),
            (lambda x: x.sum(), "sum over the last axis"),
            (lambda x: np.where(x[..., 0] == 1, np.nan, 0), "nan at the state"),
            (lambda x: np.where(x[..., 0] == 1, -np.inf, 0), "-inf at the state"),
            (lambda x: np.full(x.shape[:-1], np.inf), "every state has energy"),
        ],
    )
    def test_energies(self, energy, said):
        with pytest.raises(ModelError, match=said):
            ebm.exact(Broken(energy, ebm.Binary(3)))

    @pytest.mark.parametrize("space", [None, 3, "Binary", ebm.Binary])
    def test_no_space(self, space):
        with pytest.raises(ModelError, match=r"Broken\.space must be a state space"):
            ebm.exact(Broken(lambda x: x.sum(axis=-1), space))

    def test_no_space_at_all(self):
        with pytest.raises(ModelError, match=r"ndarray\.space"):
            ebm.exact(np.zeros((3, 3)))

    def test_no_energy(self):
        class Bare:
            space = ebm.Binary(2)

        with pytest.raises(ModelError, match=r"Bare must have a method energy"):
            ebm.exact(Bare())

    def test_continuous_space(self):
        with pytest.raises(ModelError, match="finite space"):
            ebm.exact(Broken(lambda x: x.sum(axis=-1), ebm.Reals(2)))

    @pytest.mark.parametrize(
        ("form", "said"),
        [
            (None, "must return"),
            ((np.zeros((6, 6)), np.zeros(6)), "must return"),
            ((np.zeros((2, 2)), np.zeros(2), 0.0), r"\(6, 6\)"),
            ((np.zeros((6, 6)), np.zeros(6), np.zeros(2)), "a number"),
            ((np.full((6, 6), np.nan), np.zeros(6), 0.0), "finite"),
            ((np.zeros((6, 6)), np.zeros(6), np.inf), "finite"),
            ((np.triu(np.ones((6, 6)), 1), np.zeros(6), 0.0), "symmetric"),
        ],
    )
    def test_quadratic_forms(self, form, said):
        model = CoupledLevels(np.zeros((6, 6)), np.zeros(6), q=3)
        model.quadratic_form = lambda: form
        with pytest.raises(ModelError, match=said):
            ebm.exact(model)
        with pytest.raises(ModelError, match=said):
            ebm.local_minima(model)

    @pytest.mark.parametrize("n_jobs", [0, -1, 1.5, True])
    def test_number_of_threads(self, n_jobs):
        with pytest.raises(ValueError, match="n_jobs must be a positive integer"):
            ebm.exact(underflow_adversary(2), n_jobs=n_jobs)


@given(strategies.pairwise_models(), st.floats(-2, 2))
def test_scaling_the_energy_scales_every_log_probability(model, beta):
    one, other = ebm.exact(model), ebm.exact(model.scaled(beta))
    states = one.states
    shift = other.log_probability(states) - beta * one.log_probability(states)
    assert np.ptp(shift) < 1e-9
