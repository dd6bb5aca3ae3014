"""Units summed out order by order: against Taylor coefficients, closed forms, exact marginals."""

import math
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import expit

import ebm
from ebm.effective.expansion import expand
from ebm.errors import EbmError, LimitError, ModelError, SeriesWarning
from tests import oracles, strategies

# Strong couplings are the subject; what is said about them is that of test_error_estimates.
pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
FEW = settings(max_examples=10, deadline=None)
WEAK = 0.25


@st.composite
def joint_models(draw):
    """A model of either kind with couplings that are not small, and units to keep."""
    rng = draw(strategies.generators())
    kind = draw(st.sampled_from(["restricted", "boltzmann", "ising"]))
    if kind == "restricted":
        n, m = rng.integers(1, 5), rng.integers(1, 4)
        model = ebm.RestrictedBoltzmannMachine(
            WEAK * rng.normal(size=(n, m)),
            rng.normal(size=n),
            rng.normal(size=m),
            visible_center=rng.uniform(-1, 2, n),
            hidden_center=rng.uniform(-1, 2, m),
            offset=rng.normal(),
        )
        return model, None if draw(st.booleans()) else rng.permutation(n)[: rng.integers(1, n + 1)]
    n = rng.integers(2, 7)
    matrix, linear = WEAK * rng.normal(size=(n, n)), rng.normal(size=n)
    keep = rng.permutation(n)[: rng.integers(1, n + 1)]
    if kind == "ising":
        return ebm.IsingModel(0.5 * matrix, linear, offset=rng.normal()), keep
    center = rng.uniform(-1, 2, n)
    return ebm.BoltzmannMachine(matrix, linear, center=center, offset=rng.normal()), keep


def taylor_coefficients(model, keep, order, radius=0.5, n_points=32):
    """Orders of E_eff(v) in t, which multiplies every coupling that a traced unit has; (K+1, 2^n).

    By an FFT over a circle of complex t, from sums over all states of the traced units.
    """
    joint = model.joint() if isinstance(model, ebm.RestrictedBoltzmannMachine) else model
    keep = np.arange(model.space.n) if keep is None else np.asarray(keep)
    matrix, center = np.array(joint.coupling_matrix), joint.feature_center
    constant = joint.offset
    linear = np.array(joint.biases if hasattr(joint, "biases") else joint.fields)
    # The diagonal is no coupling of two units.
    own = matrix.diagonal().copy()
    np.fill_diagonal(matrix, 0.0)
    traced = np.setdiff1d(np.arange(joint.n), keep)
    touching = np.zeros_like(matrix)
    touching[traced] = matrix[traced]
    touching[:, traced] = matrix[:, traced]
    kept_states = oracles.all_states(type(joint.space)(len(keep)))
    values = joint.space.values
    energies = np.empty((n_points, len(kept_states)), dtype=complex)
    for p in range(n_points):
        t = radius * np.exp(2j * np.pi * p / n_points)
        for s, v in enumerate(kept_states):
            total = 0
            for h in product(values, repeat=len(traced)):
                x = np.empty(joint.n)
                x[keep], x[traced] = v, h
                d = x - center
                energy = constant - 0.5 * own @ d**2 - linear @ x
                energy = energy - 0.5 * d @ (matrix - touching + t * touching) @ d
                total += np.exp(-energy)
            energies[p, s] = -np.log(total)
    # ln Z is real at t = 0; the branch of the logarithm is followed around the circle.
    energies.imag = np.unwrap(energies.imag, axis=0)
    coefficients = np.fft.fft(energies, axis=0) / n_points
    powers = radius ** np.arange(order + 1)
    return coefficients[: order + 1].real / powers[:, None]


def order_of_energies(expansion, k):
    return expansion.orders[k].energy(oracles.all_states(expansion.space))


def two_spins(first, second):
    """Two spins driven by a third."""
    weights = np.zeros((3, 3))
    weights[0, 2] = weights[2, 0] = first
    weights[1, 2] = weights[2, 1] = second
    return ebm.IsingModel(weights, np.zeros(3))


def quietly(*args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeriesWarning)
        return expand(*args)


class TestOrders:
    @given(joint_models())
    @FEW
    def test_each_is_a_taylor_coefficient(self, drawn):
        model, keep = drawn
        expansion = quietly(model, keep, 5)
        expected = taylor_coefficients(model, keep, 5)
        for k in range(6):
            np.testing.assert_allclose(
                order_of_energies(expansion, k), expected[k], rtol=1e-7, atol=1e-9
            )

    @pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
    @pytest.mark.parametrize("kind", ["restricted", "boltzmann", "ising"])
    def test_order_of_convergence(self, kind, order):
        errors, log_partitions = [], []
        for strength in (0.1, 0.2):
            rng = np.random.default_rng(5)
            if kind == "restricted":
                model = ebm.RestrictedBoltzmannMachine(
                    strength * rng.normal(size=(4, 3)),
                    rng.normal(size=4),
                    rng.normal(size=3),
                    visible_center=0.3,
                    offset=0.7,
                )
                keep = [0, 1, 2, 3]
            else:
                matrix, linear = strength * rng.normal(size=(6, 6)), rng.normal(size=6)
                family = ebm.IsingModel if kind == "ising" else ebm.BoltzmannMachine
                model = family(matrix / (2 if kind == "ising" else 1), linear)
                keep = [4, 1, 0]
            exact = ebm.marginalize(model, keep)
            states = oracles.all_states(exact.space)
            found = expand(model, keep, order).interactions()
            errors.append(np.abs(found.energy(states) - exact.energy(states)).max())
            log_partitions.append(
                abs(ebm.exact(found).log_partition - ebm.exact(model).log_partition)
            )
        assert errors[0] > 1e-11
        assert math.log2(errors[1] / errors[0]) > order + 0.7
        assert log_partitions[0] <= errors[0]

    @given(strategies.restricted_machines(max_visible=5, max_hidden=4, scale=0.6))
    @FEW
    def test_second_order_is_a_boltzmann_machine(self, rbm):
        """W = Σ κ₂ UU with its diagonal, b + U(σ(c) − ĥ), at center v̂; [EBM] §2."""
        u, sigma = rbm.weights, expit(rbm.hidden_biases)
        driven = u @ (sigma - rbm.hidden_center)
        machine = ebm.BoltzmannMachine(
            (u * (sigma * (1 - sigma))) @ u.T,
            rbm.visible_biases + driven,
            center=rbm.visible_center,
            offset=rbm.offset
            + rbm.visible_center @ driven
            - np.logaddexp(0, rbm.hidden_biases).sum(),
        )
        found = quietly(rbm, None, 2).interactions()
        assert found.order <= 2
        states = oracles.all_states(rbm.space)
        np.testing.assert_allclose(found.energy(states), machine.energy(states), atol=1e-11)

    def test_every_order_feeds_terms_of_fewer_units(self):
        rbm = ebm.RestrictedBoltzmannMachine([[0.3], [0.5], [0.4]], [0, 0, 0], [0.6])
        third = expand(rbm, None, 3).orders[3].terms
        sigma = expit(0.6)
        kappa = sigma * (1 - sigma) * (1 - 2 * sigma)
        # g³ of g = Σ a v with v² = v: a³ v, 3(a²b + ab²) vw, 6abc uvw.
        assert third[0, 1, 2] == pytest.approx(kappa * 0.3 * 0.5 * 0.4, rel=1e-12)
        assert third[0, 1] == pytest.approx(kappa * 0.3 * 0.5 * 0.8 / 2, rel=1e-12)
        assert third[(1,)] == pytest.approx(kappa * 0.5**3 / 6, rel=1e-12)

    def test_two_spins(self):
        """[EBM] Example 11 in small: J₁₂ → atanh(tanh a · tanh b), odd orders and fields vanish."""
        a, b = 0.45, 0.35
        expansion = expand(two_spins(a, b), [0, 1], 20)
        exact = math.atanh(math.tanh(a) * math.tanh(b))
        found = expansion.interactions()
        assert found.terms[0, 1] == pytest.approx(exact, abs=3e-8)
        assert set(found.terms) == {(0, 1)}
        assert expansion.interactions(2).terms[0, 1] == pytest.approx(a * b, rel=1e-12)
        fourth = expansion.orders[4].terms[0, 1]
        assert fourth == pytest.approx(-(a**3 * b + a * b**3) / 3, rel=1e-12)
        assert expansion.orders[3].terms == {}


class TestRadius:
    def test_of_the_stated_example(self):
        """J = 0.9 and 0.7: the exact coupling is 0.463469, and the series does not reach it."""
        exact = ebm.marginalize(two_spins(0.9, 0.7), [0, 1]).interactions().terms[0, 1]
        assert exact == pytest.approx(0.463469, abs=5e-7)
        expansion = expand(two_spins(0.9, 0.7), [0, 1], 20)
        with pytest.warns(SeriesWarning, match=r"unit '2' of the joint model up to 1\.02") as said:
            expansion.interactions(8)
        assert said[0].filename == __file__
        errors = [abs(expansion.interactions(k).terms[0, 1] - exact) for k in (8, 12, 16, 20)]
        assert min(errors) > 0.03
        assert expansion.drive == pytest.approx(1.6 * 2 / math.pi)

    def test_errors_shrink_inside_and_grow_outside(self):
        def errors(scale):
            rng = np.random.default_rng(1)
            rbm = ebm.RestrictedBoltzmannMachine(
                scale * rng.normal(size=(4, 2)), rng.normal(size=4), [0.3, -0.8], visible_center=0.5
            )
            expansion = quietly(rbm, None, 16)
            exact = ebm.marginalize(rbm, range(4))
            states = oracles.all_states(rbm.space)
            difference = [
                np.abs(expansion.interactions(k).energy(states) - exact.energy(states)).max()
                for k in (4, 8, 12, 16)
            ]
            return expansion.drive, np.array(difference)

        drive, inside = errors(1.0)
        assert 0.3 < drive < 1
        assert (inside[1:] < inside[:-1]).all()
        drive, outside = errors(6.0)
        assert drive > 1.5
        assert (outside[1:] > 2 * outside[:-1]).all()

    @given(strategies.restricted_machines(max_visible=5, max_hidden=3))
    @FEW
    def test_drive_is_the_largest_over_all_states(self, rbm):
        states = oracles.all_states(rbm.space)
        g = (states - rbm.visible_center) @ rbm.weights
        expected = (np.abs(g) / np.sqrt(rbm.hidden_biases**2 + np.pi**2)).max()
        expansion = expand(rbm, None, 2)
        assert expansion.drive == pytest.approx(expected, rel=1e-12)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = expansion.interactions()
        assert len(caught) == int(expansion.energy_error() > 0.1)
        assert all(("radius" in str(one.message)) == (expected >= 1) for one in caught)
        error = np.abs(found.energy(states) - ebm.marginalize(rbm, range(rbm.n)).energy(states))
        assert error.max() <= expansion.energy_error() * (1 + 1e-9) + 1e-12

    def test_coupled_traced_units_drive_each_other(self):
        model = ebm.BoltzmannMachine([[0, 0.1, 0], [0.1, 0, 9], [0, 9, 0]], [0, 0, 0])
        with pytest.warns(SeriesWarning, match="units '1', '2'"):
            expand(model, [0], 2).interactions()


class TestUnits:
    def test_names_and_order(self):
        rng = np.random.default_rng(0)
        matrix = 0.2 * rng.normal(size=(4, 4))
        model = ebm.BoltzmannMachine(matrix, rng.normal(size=4), names=list("abcd"))
        found = expand(model, ["c", "a"], 4)
        exact = ebm.marginalize(model, ["c", "a"])
        assert found.space == exact.space
        states = oracles.all_states(exact.space)
        np.testing.assert_allclose(
            found.interactions().energy(states), exact.energy(states), atol=2e-5
        )
        assert "order=4" in repr(found)

    @pytest.mark.parametrize("family", [ebm.BoltzmannMachine, ebm.IsingModel])
    def test_sparse_couplings_make_terms_of_neighbors_only(self, family):
        """Every second unit of a chain summed out: neighbors are coupled, no others."""
        n = 21
        chain = np.diag(np.full(n - 1, 0.2), 1)
        chain = chain + chain.T
        linear = np.linspace(-0.4, 0.3, n)
        keep = range(0, n, 2)
        sparse = expand(family(csr_array(chain), linear), keep, 6)
        found = sparse.interactions().terms
        assert {units for units in found if len(units) > 1} == {(k, k + 1) for k in range(10)}
        dense = expand(family(chain, linear), keep, 6).interactions()
        assert dict(dense.terms) == dict(found)
        exact = ebm.marginalize(family(chain, linear), keep).interactions(2)
        for units, value in found.items():
            assert exact.terms[units] == pytest.approx(value, abs=2e-5)

    def test_nothing_summed_out_and_nothing_coupled(self):
        model = ebm.BoltzmannMachine([[0.5, 1, 0], [1, 0, 0], [0, 0, 3]], [0.1, 0.2, 0.3])
        for keep in (None, [0, 1]):
            expansion = expand(model, keep, 3)
            exact = ebm.exact(model).log_partition
            assert ebm.exact(expansion.interactions()).log_partition == pytest.approx(exact)
            assert [part.terms for part in expansion.orders[1:]] == [{}, {}, {}]
        assert expand(model, None, 1).drive == 0.0

    def test_many_hidden_units(self):
        rng = np.random.default_rng(0)
        rbm = ebm.RestrictedBoltzmannMachine(
            0.05 * rng.normal(size=(40, 30)), rng.normal(size=40), rng.normal(size=30)
        )
        found = expand(rbm, None, 3).interactions()
        assert len(found.terms) == 40 + 780 + 9880
        states = rbm.space.random(50, rng)
        np.testing.assert_allclose(found.energy(states), rbm.energy(states), atol=5e-3)


class TestRefusals:
    def test_too_many_terms(self):
        wide = ebm.RestrictedBoltzmannMachine(np.full((200, 3), 1e-3), np.zeros(200), np.zeros(3))
        refusal = r"makes 8\.5e\+10 interactions.* up to 200 kept.* 60 s .*larger max_seconds"
        with pytest.raises(LimitError, match=refusal):
            expand(wide, None, 6)
        with pytest.raises(LimitError, match="allowed are 1 ms"):
            expand(wide, None, 2, max_seconds=1e-3)
        for wrong in (0, np.nan, "1", None):
            with pytest.raises(EbmError, match="max_seconds must"):
                expand(wide, None, 2, max_seconds=wrong)

    def test_orders(self):
        rbm = ebm.RestrictedBoltzmannMachine([[0.1]], [0], [0])
        for wrong in (0, -1, 1.5, True, "2"):
            with pytest.raises(EbmError, match="order must be a positive integer"):
                expand(rbm, None, wrong)
        with pytest.raises(LimitError, match="at most 20, got 21"):
            expand(rbm, None, 21)
        coupled = ebm.BoltzmannMachine(0.1 * (np.ones((3, 3)) - np.eye(3)), np.zeros(3))
        with pytest.raises(LimitError, match="at most 6 where traced units are coupled"):
            expand(coupled, [0], 7)
        assert expand(coupled, [0, 1], 7).order == 7
        for wrong in (-1, 3, 1.5, True):
            with pytest.raises(EbmError, match="order must be"):
                expand(rbm, None, 2).interactions(wrong)

    def test_models(self):
        with pytest.raises(ModelError, match="got PottsModel"):
            expand(ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3))), [0], 2)
        with pytest.raises(EbmError, match="keep must hold numbers from 0 to 0"):
            expand(ebm.RestrictedBoltzmannMachine([[0.1]], [0], [0]), [1], 2)
