"""Lattices: their bonds, counted and listed by brute force, and what is refused."""

from itertools import product

import networkx
import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, MemoryLimitError, ShapeError


def neighbors(shape, rings, triangular):
    """Bonds as sets of two positions, each site asked for the sites one step on."""
    steps = [tuple(int(a == axis) for a in range(len(shape))) for axis in range(len(shape))]
    steps += [(1, 1)] * triangular
    bonds = set()
    for site in product(*map(range, shape)):
        for step in steps:
            there = [x + d for x, d in zip(site, step, strict=True)]
            if all(ring or x < length for x, length, ring in zip(there, shape, rings, strict=True)):
                wrapped = tuple(x % length for x, length in zip(there, shape, strict=True))
                bonds.add(frozenset([site, wrapped]))
    return bonds


@pytest.mark.parametrize(
    ("shape", "periodic", "triangular"),
    [
        ((5,), True, False),
        ((1,), False, False),
        ((4, 3), True, False),
        ((4, 3), False, False),
        ((2, 3), (False, True), False),
        ((4, 5), True, True),
        ((4, 5), False, True),
        ((3, 4), (True, False), True),
        ((3, 4, 3), True, False),
        ((2, 2, 2, 2), False, False),
    ],
)
def test_bonds_are_those_of_neighbors(shape, periodic, triangular):
    graph = ebm.lattice(shape, periodic=periodic, triangular=triangular)
    at = networkx.get_node_attributes(graph, "position")
    rings = periodic if isinstance(periodic, tuple) else [periodic] * len(shape)
    bonds = {frozenset([at[i], at[j]]) for i, j in graph.edges}
    assert bonds == neighbors(shape, rings, triangular)
    # Row by row, so that states reshape to the lattice.
    assert [at[k] for k in range(len(graph))] == list(product(*map(range, shape)))


def test_a_lattice_is_an_ising_model():
    model = ebm.from_graph(ebm.lattice((3, 3), coupling=0.4))
    states = np.random.default_rng(0).choice([-1.0, 1.0], (10, 3, 3))
    bonds = (states * np.roll(states, 1, 1) + states * np.roll(states, 1, 2)).sum((1, 2))
    assert isinstance(model, ebm.IsingModel)
    assert model.energy(states.reshape(10, 9)) == pytest.approx(-0.4 * bonds)


def test_signs_and_dilution_have_their_shares_and_repeat():
    disorder = dict(negative=0.3, diluted=0.2, coupling=2.0)
    graph = ebm.lattice((60, 60), **disorder, rng=1)
    weights = np.array([w for *_, w in graph.edges(data="weight")])
    n_bonds = 2 * 60**2
    assert abs(len(weights) - 0.8 * n_bonds) < 5 * np.sqrt(0.16 * n_bonds)
    assert set(weights) == {-2.0, 2.0}
    assert abs((weights < 0).mean() - 0.3) < 5 * np.sqrt(0.21 / len(weights))
    again = ebm.lattice((60, 60), **disorder, rng=1)
    assert networkx.utils.graphs_equal(graph, again)


def test_all_or_no_bonds():
    assert ebm.lattice((4, 4), diluted=1.0).number_of_edges() == 0
    weights = {w for *_, w in ebm.lattice((4, 4), negative=1.0).edges(data="weight")}
    assert weights == {-1.0}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (dict(shape=(2, 4)), ShapeError, "periodic axis needs three sites"),
        (dict(shape=(0, 4)), ShapeError, "a length of shape"),
        (dict(shape=()), ShapeError, "shape"),
        (dict(shape="44"), ShapeError, "shape"),
        (dict(shape=(4.0, 4)), ShapeError, "a length of shape"),
        (dict(shape=(4, 4), periodic=(True,)), ShapeError, "each of 2 axes"),
        (dict(shape=(4, 4), periodic=1), EbmError, "True or False"),
        (dict(shape=(4, 4, 4), triangular=True), ShapeError, "two axes"),
        (dict(shape=(4, 4), negative=1.5), EbmError, "negative must be a probability"),
        (dict(shape=(4, 4), diluted=float("nan")), EbmError, "diluted must be a probability"),
        (dict(shape=(4, 4), coupling=float("inf")), EbmError, "coupling"),
        (dict(shape=(10**5, 10**5)), MemoryLimitError, "fewer sites"),
    ],
)
def test_what_is_no_lattice_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        ebm.lattice(**call)


def test_a_field_is_that_of_all_sites():
    graph = ebm.lattice((3, 4), coupling=0.5, field=-0.3)
    model = ebm.from_graph(graph)
    assert model.energy(np.ones(12)) == pytest.approx(-0.5 * 24 + 0.3 * 12)
    assert np.array_equal(model.fields, np.full(12, -0.3))
    with pytest.raises(EbmError, match="field"):
        ebm.lattice(4, field=np.nan)
