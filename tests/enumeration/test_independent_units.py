"""Sums over the units outside an independent set: bipartite graphs and nearly bipartite ones."""

import inspect
import sys
import textwrap

import numpy as np
import pytest

import ebm
from ebm._arrays import as_csr
from ebm.enumeration import _independent_units
from ebm.enumeration._independent_units import (
    IndependentEnumeration,
    covering_pairs,
    independent_units,
    neighbors_of,
)
from ebm.enumeration._limits import Limits
from ebm.errors import EnumerationLimitError
from ebm.forms import summable_form
from tests import oracles


def nearly_bipartite(k, m, seed, kind=ebm.IsingModel, **settings):
    """k units coupled to m others and to each other, the units in any order."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((k + m, k + m))
    weights[:k, k:] = rng.normal(size=(k, m))
    weights[:k, :k] = np.triu(rng.normal(size=(k, k)), 1)
    order = rng.permutation(k + m)
    weights = (weights + weights.T)[np.ix_(order, order)]
    return kind(weights, rng.normal(size=k + m), **settings)


def by_units(model, limits=None):
    form = summable_form(model)
    inside = independent_units(neighbors_of(as_csr(form.matrix)))
    origin = form.folded(model.space).to_binary(model.space).at_origin().dense()
    return IndependentEnumeration(model, model.space, origin, inside, limits or Limits(), 1)


def check(model):
    ensemble = by_units(model)
    log_z, p = oracles.distribution(model)
    mean, covariance = oracles.moments(model)
    assert ensemble.log_partition == pytest.approx(log_z, rel=1e-13)
    np.testing.assert_allclose(ensemble.moments().mean, mean, atol=1e-12)
    np.testing.assert_allclose(ensemble.moments().covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(ensemble.weights, p, atol=1e-13)
    assert ensemble.entropy() == pytest.approx(-float(p @ np.log(p)), abs=1e-10)
    return ensemble


MODELS = [
    nearly_bipartite(3, 7, 0),
    nearly_bipartite(5, 5, 1, ebm.BoltzmannMachine, center=0.3),
    nearly_bipartite(1, 8, 2),
    nearly_bipartite(9, 3, 3),
    ebm.IsingModel(np.zeros((4, 4)), np.arange(4.0)),
]


@pytest.mark.parametrize("model", MODELS)
def test_enumeration_gives_the_same(model):
    ensemble = check(model)
    assert len(ensemble._outside) + len(ensemble._inside) == model.space.n


def test_independent_sets_are_independent_and_large():
    model = nearly_bipartite(6, 30, 4)
    matrix = as_csr(summable_form(model).matrix)
    neighbors = neighbors_of(matrix)
    inside = independent_units(neighbors)
    assert len(inside) == 30
    assert not any(neighbors[i] & set(inside.tolist()) for i in inside)
    assert covering_pairs(matrix, 100) <= 6


def test_exact_takes_them_where_they_cost_less():
    """A machine of 21 visible and 40 hidden spins, all in one model, against its layers."""
    rng = np.random.default_rng(5)
    couplings, fields = 0.2 * rng.normal(size=(21, 40)), 0.2 * rng.normal(size=61)
    weights = np.zeros((61, 61))
    weights[:21, 21:], weights[21:, :21] = couplings, couplings.T
    names = [f"unit {k}" for k in range(61)]
    ensemble = ebm.exact(ebm.IsingModel(weights, fields, names=names))
    assert isinstance(ensemble, IndependentEnumeration)
    assert ensemble.route == "the 2^21 states of 21 units, the other 40 uncoupled given them"
    total = -np.inf
    for states in ebm.Spins(21).enumerate():
        inputs = states @ couplings + fields[21:]
        logs = states @ fields[:21] + np.logaddexp(inputs, -inputs).sum(axis=1)
        total = np.logaddexp(total, np.logaddexp.reduce(logs))
    assert ensemble.log_partition == pytest.approx(total, rel=1e-12)
    assert list(ensemble.moments().space.names) == names
    draws = ensemble.sample(20000, rng=1)
    np.testing.assert_allclose(draws.mean(axis=0), ensemble.moments().mean, atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T), ensemble.moments().covariance, atol=0.05)
    np.testing.assert_array_equal(draws, ensemble.sample(20000, rng=1))


def test_a_graph_without_a_large_independent_set_is_refused_as_before():
    with pytest.raises(EnumerationLimitError, match=r"enumerating 2\^80"):
        ebm.exact(nearly_bipartite(70, 10, 6))


MUTANTS = [
    ("CoupledLayerWeights", "_log_weights", "of_rows[:, None]", "0 * of_rows[:, None]"),
    ("CoupledLayerWeights", "__init__", "0.5 *", "1.0 *"),
    ("IndependentEnumeration", "_mean_relative_energy", "0.5 *", "1.0 *"),
]


@pytest.mark.parametrize(("owner", "name", "right", "wrong"), MUTANTS, ids=[m[1] for m in MUTANTS])
def test_a_wrong_formula_is_found(monkeypatch, owner, name, right, wrong):
    kind = getattr(_independent_units, owner)
    source = textwrap.dedent(inspect.getsource(getattr(kind, name)))
    assert right in source
    source = source.replace(right, wrong).replace("super()", f"super({owner}, self)")
    names: dict[str, object] = {}
    mutant = "from __future__ import annotations\n" + source
    exec(mutant, vars(sys.modules[_independent_units.__name__]), names)
    monkeypatch.setattr(kind, name, names[name])
    with pytest.raises(AssertionError):
        check(MODELS[3])
