"""Exact numbers at any size of the weights, against energies by fractions."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import ebm
from ebm.enumeration import _log_weights
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._log_weights import ORDINARY, Parts, cut_form, resolved
from ebm.errors import PrecisionError
from ebm.forms import QuadraticForm, summable_form
from tests.user_models import CoupledLevels

SCALES = [1e-8, 1e-3, 1.0, 1e2, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e13]


def fractions(values):
    """An array of exact numbers."""
    array = np.asarray(values, dtype=float)
    return np.array([Fraction(x) for x in array.ravel().tolist()], dtype=object).reshape(
        array.shape
    )


def numbers(rng, scale, shape, ties):
    """Whole multiples of the scale with small numbers beside them, so that many states compete."""
    if ties:
        return scale * rng.integers(-1, 2, shape) + rng.normal(size=shape)
    return rng.normal(0, scale, shape)


def pairwise(matrix, vector, center, offset, x):
    d = x - center
    return -Fraction(1, 2) * (d @ matrix @ d) - vector @ x + offset


def boltzmann(rng, scale, ties):
    weights = numbers(rng, scale, (5, 5), ties)
    model = ebm.BoltzmannMachine(
        weights + weights.T,
        numbers(rng, scale, 5, ties),
        center=rng.integers(-1, 2, 5) / 2 if ties else 0.0,
        offset=scale,
    )
    own = [fractions(x) for x in (model.weights, model.biases, model.center, model.offset)]
    return model, [(x, pairwise(*own, fractions(x))) for x in itertools.product([0, 1], repeat=5)]


def ising(rng, scale, ties):
    couplings = np.triu(numbers(rng, scale, (5, 5), ties), 1)
    model = ebm.IsingModel(couplings + couplings.T, np.zeros(5) if ties else rng.normal(size=5))
    own = fractions(model.couplings), fractions(model.fields), fractions(np.zeros(5)), Fraction(0)
    return model, [(x, pairwise(*own, fractions(x))) for x in itertools.product([-1, 1], repeat=5)]


def potts(rng, scale, ties):
    couplings = numbers(rng, scale, (4, 4, 3, 3), ties)
    i, j = np.tril_indices(4)
    couplings[i, j] = couplings[j, i].swapaxes(-1, -2)
    couplings[range(4), range(4)] = 0
    couplings += couplings.transpose(1, 0, 3, 2)
    model = ebm.PottsModel(couplings, numbers(rng, scale, (4, 3), ties), offset=0.5)
    pairs, fields = fractions(model.couplings), fractions(model.fields)

    def energy(a):
        both = sum(pairs[i, j, a[i], a[j]] for i, j in itertools.combinations(range(4), 2))
        return Fraction(1, 2) - both - sum(fields[i, a[i]] for i in range(4))

    return model, [(a, energy(a)) for a in itertools.product(range(3), repeat=4)]


def levels(rng, scale, ties):
    model = CoupledLevels(numbers(rng, scale, (9, 9), ties), numbers(rng, scale, 9, ties), q=3)
    matrix, vector, constant = (fractions(x) for x in model.quadratic_form())

    def energy(a):
        f = fractions(model.space.features(a))
        return -Fraction(1, 2) * (f @ matrix @ f) - vector @ f + constant

    return model, [(a, energy(a)) for a in itertools.product(range(3), repeat=3)]


def interactions(rng, scale, ties):
    units = [a for k in range(1, 4) for a in itertools.combinations(range(5), k)]
    values = numbers(rng, scale, len(units), ties).tolist()
    space = ebm.Spins(5) if rng.random() < 0.5 else ebm.Binary(5)
    model = ebm.InteractionModel(dict(zip(units, values, strict=True)), space, offset=1.5)

    def energy(x):
        products = (Fraction(J) * math.prod(x[i] for i in a) for a, J in model.terms.items())
        return Fraction(3, 2) - sum(products)

    values = [int(value) for value in space.values]
    return model, [(x, energy(x)) for x in itertools.product(values, repeat=5)]


def joint_of_restricted(machine):
    """All (v, h) with their energies."""
    names = "weights visible_biases hidden_biases visible_center hidden_center offset".split()
    U, b, c, v_hat, h_hat, offset = (fractions(getattr(machine, name)) for name in names)
    for v in itertools.product([0, 1], repeat=len(b)):
        for h in itertools.product([0, 1], repeat=len(c)):
            x, y = fractions(v), fractions(h)
            yield v, h, -(x - v_hat) @ U @ (y - h_hat) - b @ x - c @ y + offset


def restricted(n, m):
    def make(rng, scale, ties):
        machine = ebm.RestrictedBoltzmannMachine(
            numbers(rng, scale, (n, m), ties),
            numbers(rng, scale, n, ties),
            numbers(rng, scale, m, ties),
            visible_center=rng.integers(-1, 2, n) / 2 if ties else 0.0,
            hidden_center=rng.integers(-1, 2, m) / 2 if ties else 0.0,
            offset=-scale,
        )
        return machine, [(v, energy) for v, _, energy in joint_of_restricted(machine)]

    return make


def kept(make, units):
    """The units kept of a model of another kind, the others summed out."""

    def of(rng, scale, ties):
        model, energies = make(rng, scale, ties)
        marginal = ebm.marginalize(model, keep=units)
        return marginal, [(tuple(x[i] for i in units), energy) for x, energy in energies]

    return of


def table(rng, scale, ties):
    energies = numbers(rng, scale, 16, ties)
    states = itertools.product([0, 1], repeat=4)
    pairs = list(zip(states, fractions(energies), strict=True))
    return ebm.TabularModel(energies, ebm.Binary(4)), pairs


FAMILIES = {
    "Boltzmann machine": boltzmann,
    "Ising model": ising,
    "Potts model": potts,
    "quadratic form of a user": levels,
    "triples": interactions,
    "restricted machine, visible layer": restricted(3, 5),
    "restricted machine, hidden layer": restricted(5, 3),
    "table": table,
    "units of a Boltzmann machine": kept(boltzmann, [3, 0, 1]),
    "units of a Potts model": kept(potts, [2, 1]),
    "units of triples": kept(interactions, [0, 4]),
    "units of a restricted machine": kept(restricted(4, 3), [0, 2]),
}


def reference(energies):
    """ln p of each state by exact differences of energies, and ln Z relative to the lowest."""
    lowest = min(energy for _, energy in energies)
    sums = {}
    for state, energy in energies:
        sums.setdefault(tuple(state), []).append(-float(energy - lowest))
    logs = {state: float(np.logaddexp.reduce(terms)) for state, terms in sums.items()}
    log_z = float(np.logaddexp.reduce(list(logs.values())))
    return np.array(list(logs), dtype=float), np.array(list(logs.values())) - log_z, lowest, log_z


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_entropies_and_moments_are_right(family, scale, ties):
    for seed in range(4):
        model, energies = FAMILIES[family](np.random.default_rng(seed), scale, ties)
        states, logs, lowest, log_z = reference(energies)
        p = np.exp(logs)
        ensemble = ebm.exact(model)
        np.testing.assert_allclose(ensemble.log_probability(states), logs, rtol=1e-12, atol=2e-9)
        np.testing.assert_allclose(
            ensemble.log_probability(states[1]), logs[1], rtol=1e-12, atol=2e-9
        )
        assert ensemble.weights.sum() == pytest.approx(1, rel=1e-10)
        np.testing.assert_allclose(np.sort(ensemble.weights), np.sort(p), rtol=1e-8, atol=1e-12)
        assert ensemble.entropy() == pytest.approx(-(p[p > 0] @ logs[p > 0]), abs=2e-9)
        log_partition = float(Fraction(log_z) - lowest)
        assert ensemble.log_partition == pytest.approx(log_partition, rel=1e-14, abs=1e-11)
        features = model.space.features(states)
        np.testing.assert_allclose(ensemble.moments().mean, p @ features, rtol=1e-9, atol=1e-11)
        deviation = features - p @ features
        np.testing.assert_allclose(
            ensemble.moments().covariance, deviation.T @ (deviation * p[:, None]), atol=2e-9
        )
        mean_energy = float(lowest) - float(p[p > 0] @ (logs[p > 0] + log_z))
        scale_of_energies = abs(float(lowest)) + 1
        assert ensemble.mean_energy() == pytest.approx(mean_energy, abs=1e-13 * scale_of_energies)
        drawn = ensemble.sample(20, rng=seed)
        assert (ensemble.log_probability(drawn) > -40).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_both_layers_of_a_restricted_machine(scale, shape):
    machine, _ = restricted(*shape)(np.random.default_rng(1), scale, True)
    joint = list(joint_of_restricted(machine))
    lowest = min(energy for _, _, energy in joint)
    p = np.array([math.exp(-float(energy - lowest)) for _, _, energy in joint])
    p /= p.sum()
    v, h = (np.array([pair[k] for pair in joint], dtype=float) for k in (0, 1))
    ensemble = ebm.exact(machine)
    moments = ensemble.layer_moments()
    np.testing.assert_allclose(moments.visible_mean, p @ v, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(moments.hidden_mean, p @ h, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(moments.products, (v * p[:, None]).T @ h, rtol=1e-9, atol=1e-11)
    hidden = ensemble.hidden_moments()
    np.testing.assert_allclose(hidden.second, (h * p[:, None]).T @ h, rtol=1e-9, atol=2e-9)


def test_fourth_moments_at_large_energies():
    model, energies = boltzmann(np.random.default_rng(2), 1e9, True)
    states, logs, *_ = reference(energies)
    d = np.column_stack([states - 0.3, np.ones(len(states))])
    wanted = np.einsum("s,si,sj,sk,sl->ijkl", np.exp(logs), d, d, d, d)
    found = ebm.exact(model).fourth_moments(np.full(5, 0.3))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def worst_of_likely(model, energies):
    """Largest error of ln p among the states that are met."""
    states, logs, *_ = reference(energies)
    return np.abs(ebm.exact(model).log_probability(states) - logs)[logs > -20].max()


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"table"}))
def test_plain_sums_would_be_wrong(family, monkeypatch):
    """The mutant: no energy is cut in two."""
    monkeypatch.setattr(_log_weights, "ORDINARY", math.inf)
    rngs = (np.random.default_rng(seed) for seed in range(40))
    assert any(worst_of_likely(*FAMILIES[family](rng, 1e10, True)) > 1e-7 for rng in rngs)


@pytest.mark.parametrize("dropped", ["rest", "remainder"])
def test_a_part_that_is_dropped_would_be_seen(dropped, monkeypatch):
    """Mutants: no rest; none of what rounding left out when the center moved."""
    if dropped == "rest":
        monkeypatch.setattr(
            Parts, "about", lambda self, scale, out=None: self.leading - float(scale)
        )
    else:
        monkeypatch.setattr(QuadraticForm, "linear_remainder", lambda self: 0.0)
    rngs = (np.random.default_rng(seed) for seed in range(40))
    assert any(worst_of_likely(*boltzmann(rng, 1e10, True)) > 1e-7 for rng in rngs)


class TestCutting:
    @pytest.mark.parametrize("scale", [1e6, 1e10, 1e13])
    def test_leading_sums_are_the_same_in_any_order(self, scale):
        rng = np.random.default_rng(0)
        weights = rng.normal(0, scale, (30, 30))
        model = ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, scale, 30))
        leading, rest = cut_form(summable_form(model)).parts
        np.testing.assert_array_equal(leading.matrix + rest.matrix, model.weights)
        np.testing.assert_array_equal(leading.vector + rest.vector, model.biases)
        states = model.space.random(200, rng=1)
        order = rng.permutation(30)
        turned = (
            replace(
                leading, matrix=leading.matrix[np.ix_(order, order)], vector=leading.vector[order]
            ),
        )
        one = _log_weights.of_form((leading,), states).leading
        other = _log_weights.of_form(turned, states[:, order]).leading
        np.testing.assert_array_equal(one, other)
        plain = _log_weights.of_form((summable_form(model),), states).leading
        assert np.abs(plain - one).max() > 0

    def test_ordinary_energies_stay_in_one_part(self):
        for make in FAMILIES.values():
            assert resolved(make(np.random.default_rng(0), 1.0, False)[0]) is None
        assert ORDINARY > 1e5

    def test_a_log_sum_in_parts(self):
        leading, rest = np.array([2.0**60, 2.0**60, 0.0]), np.array([0.25, -0.5, 9.0])
        total = Parts(leading, rest).log_sum(0)
        assert total.leading == 2.0**60
        assert total.rest == pytest.approx(math.log(math.exp(0.25) + math.exp(-0.5)), rel=1e-15)

    def test_a_constant_has_no_part_in_differences(self):
        """An offset of 1e16 beside couplings of any size."""
        for size in (1.0, 1e-3, 1e-310):
            couplings = size * np.array([[0, 1.0], [1.0, 0]])
            plain = ebm.exact(ebm.IsingModel(couplings, [0.2 * size, 0]))
            shifted = ebm.exact(ebm.IsingModel(couplings, [0.2 * size, 0], offset=1e16))
            assert shifted.entropy() == pytest.approx(plain.entropy(), rel=1e-14)
            states = plain.states
            np.testing.assert_allclose(
                shifted.log_probability(states), plain.log_probability(states), rtol=1e-14
            )


class TestRefusal:
    @pytest.mark.parametrize(
        "model",
        [
            ebm.IsingModel(1e25 * (np.ones((3, 3)) - np.eye(3)), np.zeros(3)),
            ebm.RestrictedBoltzmannMachine([[1e25, 3.0]], [-1e25], [0.0, 1.0]),
            ebm.InteractionModel({(0, 1, 2): 1e25}, ebm.Spins(3)),
        ],
    )
    def test_where_two_parts_do_not_suffice(self, model):
        with pytest.raises(PrecisionError, match=r"energies reach .*uncertain by up to .*scaled"):
            ebm.exact(model)

    def test_hidden_units_that_may_be_on_or_off(self):
        """The lowest visible state is alone, but its hidden unit is not decided."""
        machine = ebm.RestrictedBoltzmannMachine([[1e30], [1e30]], [-3e30, -3e30], [1.0])
        with pytest.raises(PrecisionError, match="several states compete"):
            ebm.exact(machine)

    @pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
    def test_a_lowest_state_that_is_alone_is_answered_at_any_size(self, shape):
        rng = np.random.default_rng(0)
        machine, energies = restricted(*shape)(rng, 1e40, False)
        states, logs, *_ = reference(energies)
        ensemble = ebm.exact(machine)
        np.testing.assert_allclose(ensemble.log_probability(states), logs, rtol=1e-8)
        assert ensemble.entropy() == 0
        np.testing.assert_array_equal(ensemble.moments().mean, states[logs.argmax()])
        ising = ebm.IsingModel(np.zeros((3, 3)), 1e40 * rng.normal(size=3))
        assert ebm.exact(ising).entropy() == 0

    def test_the_twin_just_below_is_answered(self):
        ensemble = ebm.exact(ebm.IsingModel(1e18 * (np.ones((3, 3)) - np.eye(3)), np.zeros(3)))
        assert ensemble.entropy() == pytest.approx(math.log(2), rel=1e-15)
        assert isinstance(ebm.exact(ebm.TabularModel([0, 1e25], ebm.Binary(1))), BlockedEnumeration)
