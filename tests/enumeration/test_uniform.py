"""Sums over numbers of active units: complete graphs, classes, and what enumeration gives."""

import inspect
import math
import sys
import textwrap

import numpy as np
import pytest

import ebm
from ebm.enumeration import _uniform_ensemble
from ebm.enumeration._limits import Limits
from ebm.enumeration._uniform_ensemble import UniformEnsemble, classes_of
from ebm.errors import EnumerationLimitError, PrecisionError
from ebm.forms import summable_form
from tests import oracles


def in_classes(labels, kind, seed=0, center=None):
    """A model whose parameters depend on the classes of units alone."""
    labels = np.asarray(labels)
    rng, q = np.random.default_rng(seed), labels.max() + 1
    between = rng.normal(size=(q, q))
    weights = (between + between.T)[np.ix_(labels, labels)]
    np.fill_diagonal(weights, 0)
    settings = {} if center is None else {"center": np.asarray(center)[labels]}
    return kind(weights, rng.normal(size=q)[labels], offset=0.7, **settings)


def by_numbers(model):
    form = summable_form(model)
    classes = classes_of(form, model.space, 1e6)
    return UniformEnsemble(model, model.space, form, classes, Limits())


def check(model):
    ensemble = by_numbers(model)
    log_z, p = oracles.distribution(model)
    mean, covariance = oracles.moments(model)
    assert ensemble.log_partition == pytest.approx(log_z, rel=1e-13)
    np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-13)
    np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(ensemble.weights, p, atol=1e-13)
    states = oracles.all_states(model.space)
    active = (states == model.space.values[-1]).sum(axis=1)
    np.testing.assert_allclose(
        ensemble.count_distribution, np.bincount(active, p, model.space.n + 1), atol=1e-13
    )
    plogp = -float(p[p > 0] @ np.log(p[p > 0]))
    assert ensemble.entropy() == pytest.approx(plogp, abs=1e-11)
    assert ensemble.mean_energy() == pytest.approx(float(p @ model.energy(states)), abs=1e-11)


MODELS = [
    in_classes([0, 1, 0, 2, 1, 1, 0, 2, 0], ebm.IsingModel),
    in_classes([0, 1, 1, 0, 0, 2, 1, 0], ebm.BoltzmannMachine, 1, [0.5, 0.2, 0.0]),
    in_classes([0] * 9, ebm.IsingModel, 2),
    in_classes([0, 1, 2, 3, 3], ebm.BoltzmannMachine, 3),
    ebm.IsingModel(np.zeros((1, 1)), [0.3]),
]


@pytest.mark.parametrize("model", MODELS)
def test_enumeration_gives_the_same(model):
    check(model)


@pytest.mark.parametrize(
    ("n", "coupling", "bias", "log_z", "mean", "pair"),
    [
        (20, 0.1, -1, 8.70983851419163216, 0.477088038042015368, 0.238544019021007684),
        (32, 0.1, -1, 22.2775056168638022, 0.819541819960970967, 0.675974777667160559),
        (20, 50, -400, 1500, 1, 1),
        (20, -50, 100, 157.192934221215799, 1 / 7, 1 / 70),
    ],
)
def test_complete_graphs_have_their_known_sums(n, coupling, bias, log_z, mean, pair):
    model = ebm.BoltzmannMachine(coupling * (1 - np.eye(n)), np.full(n, float(bias)))
    ensemble = by_numbers(model)
    assert ensemble.log_partition == pytest.approx(log_z, rel=1e-14)
    assert ensemble.moments().mean[0] == pytest.approx(mean, rel=1e-13)
    assert ensemble.moments().second[0, 1] == pytest.approx(pair, rel=1e-12)


def test_a_thousand_units_take_no_time_and_curie_weiss_orders():
    """ln Z by the Gaussian integral, ln ∫ dm √(nJ/2π) exp(−nJm²/2 + n ln 2cosh(Jm + h))."""
    n, coupling, field = 3000, 1.3, 0.01
    model = ebm.IsingModel(coupling / n * (1 - np.eye(n)), np.full(n, field))
    ensemble = ebm.exact(model)
    assert isinstance(ensemble, UniformEnsemble)
    assert "3000 units" in ensemble.route
    m = np.linspace(-3, 3, 200001)
    logs = -0.5 * n * coupling * m**2 + n * np.logaddexp(
        coupling * m + field, -coupling * m - field
    )
    integral = np.exp(logs - logs.max()).sum() * (m[1] - m[0])
    log_z = logs.max() + math.log(integral) + 0.5 * math.log(n * coupling / (2 * math.pi))
    # The i = j terms of the square.
    assert ensemble.log_partition == pytest.approx(log_z - coupling / 2, rel=1e-12)
    assert ensemble.moments().covariance.shape == (n, n)
    draws = ensemble.sample(2000, rng=1)
    assert draws.mean() == pytest.approx(ensemble.moments().mean[0], abs=0.02)


def test_exact_chooses_classes_where_they_cost_less_and_keeps_the_names():
    labels = np.arange(60) % 3
    names = [f"unit {k}" for k in range(60)]
    rng = np.random.default_rng(5)
    weights = 0.02 * rng.normal(size=(3, 3))
    weights = (weights + weights.T)[np.ix_(labels, labels)]
    np.fill_diagonal(weights, 0)
    model = ebm.IsingModel(weights, 0.1 * rng.normal(size=3)[labels], names=names)
    ensemble = ebm.exact(model)
    assert isinstance(ensemble, UniformEnsemble)
    assert ensemble.moments().space.names == model.space.names
    draws = ensemble.sample(20000, rng=2)
    np.testing.assert_allclose(draws.mean(axis=0), ensemble.moments().mean, atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T), ensemble.moments().covariance, atol=0.06)
    logs = ensemble.log_probability(draws[:5])
    np.testing.assert_allclose(logs, -model.energy(draws[:5]) - ensemble.log_partition)


def test_a_function_of_the_count_joins_in():
    """KPairwiseModel without couplings: n + 1 numbers, at any n."""
    n = 12
    potential = np.random.default_rng(0).normal(size=n + 1)
    small = ebm.KPairwiseModel(np.zeros((n, n)), np.full(n, 0.3), potential)
    from ebm.models._counts import pairs_and_count

    form, count = pairs_and_count(summable_form(small), n)
    classes = classes_of(form, small.space, 1e6)
    ensemble = UniformEnsemble(small, small.space, form, classes, Limits(), count)
    log_z, _ = oracles.distribution(small)
    assert ensemble.log_partition == pytest.approx(log_z, rel=1e-13)
    np.testing.assert_allclose(ensemble.moments().covariance, oracles.moments(small)[1], atol=1e-13)
    large = ebm.KPairwiseModel(np.zeros((300, 300)), np.full(300, 0.3), np.zeros(301))
    assert ebm.exact(large).log_partition == pytest.approx(300 * math.log1p(math.exp(0.3)))


def test_units_that_are_not_equal_are_told_apart():
    model = in_classes([0] * 40, ebm.IsingModel)
    weights = np.array(model.couplings)
    weights[3, 7] = weights[7, 3] = weights[3, 7] + 1e-9
    other = ebm.IsingModel(weights, model.fields)
    classes = classes_of(summable_form(other), other.space, 1e9)
    assert sorted(len(own.units) for own in classes) == [2, 38]
    ring = np.roll(np.eye(40), 1, axis=0)
    lattice = summable_form(ebm.IsingModel(ring + ring.T, np.zeros(40)))
    assert classes_of(lattice, other.space, 1e6) is None


def test_energies_too_large_for_double_precision_are_refused():
    n = 2000
    model = ebm.BoltzmannMachine(1e3 * (1 - np.eye(n)), np.full(n, -0.5e3 * (n - 1)))
    with pytest.raises(PrecisionError, match="double precision"):
        ebm.exact(model)


def test_too_many_numbers_are_refused_as_before():
    with pytest.raises(EnumerationLimitError, match="enumerating 2\\^80"):
        ebm.exact(in_classes(np.arange(80), ebm.IsingModel))


MUTANTS = [
    (_uniform_ensemble.Class, "own_log_weights", "- squares)", ")"),
    (_uniform_ensemble, "log_binomials", "(n - k)", "(n - k + 1)"),
    (UniformEnsemble, "_moments", "(m * (m - 1))", "(m * m)"),
]


@pytest.mark.parametrize(("owner", "name", "right", "wrong"), MUTANTS, ids=[m[1] for m in MUTANTS])
def test_a_wrong_formula_is_found(monkeypatch, owner, name, right, wrong):
    function = getattr(owner, name)
    if owner is UniformEnsemble:
        function = vars(owner)[name].func
    source = textwrap.dedent(inspect.getsource(function))
    assert right in source
    names: dict[str, object] = {}
    source = "from __future__ import annotations\n" + source.replace(right, wrong)
    exec(source, vars(sys.modules[_uniform_ensemble.__name__]), names)
    changed = names[name]
    if owner is UniformEnsemble:
        changed.__set_name__(owner, name)
    monkeypatch.setattr(owner, name, changed)
    with pytest.raises(AssertionError):
        check(MODELS[0])
