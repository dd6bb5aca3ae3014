"""Sums on graphs and by determinants take units by number or name, and refuse what is none."""

from __future__ import annotations

import numpy as np
import pytest

import ebm
from ebm.enumeration._elimination_ensemble import elimination_of
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_plan import plan_of
from ebm.enumeration._limits import Limits
from ebm.enumeration._planar import planar_ensemble
from ebm.errors import NamesError, PrecisionError, ShapeError

GLASS = ebm.from_graph(ebm.lattice((3, 3), periodic=False, negative=0.5, rng=1))
MODEL = ebm.IsingModel(GLASS.couplings, GLASS.fields, names=list("abcdefghi"))


def by_elimination(model):
    factors = factors_of(model, model.space)
    return elimination_of(model, model.space, factors, plan_of(factors), Limits())


def by_pfaffians(model):
    return planar_ensemble(model, model.space, Limits())


@pytest.mark.parametrize("ensemble_of", [by_elimination, by_pfaffians])
def test_pairs_by_number_and_by_name_are_the_same(ensemble_of):
    ensemble = ensemble_of(MODEL)
    second = ebm.exact(MODEL).moments().second
    i, j = np.array([0, 1, 8, 4]), np.array([1, 7, 0, 4])
    for first, other in [(i, j), (i.tolist(), j.tolist()), (["a", "b", "i", 4], list("bhae"))]:
        np.testing.assert_allclose(ensemble.covariances(first, other), second[i, j], atol=1e-12)
    assert ensemble.covariances([], []).shape == (0,)


@pytest.mark.parametrize("ensemble_of", [by_elimination, by_pfaffians])
@pytest.mark.parametrize(
    ("i", "j", "error", "words"),
    [
        ([0], [9], ShapeError, "j must hold numbers from 0 to 8, got 9"),
        ([-1], [0], ShapeError, "i must hold numbers from 0 to 8, got -1"),
        (np.array([-1]), [0], ShapeError, "got -1"),
        ([0.5], [0], ShapeError, "numbers or names of units, got 0.5"),
        ([True], [0], ShapeError, "got True"),
        ([0, 1], [0], ShapeError, "an entry for each pair, got 2 and 1"),
        (0, 1, ShapeError, "i must be a list of units, by number or name, got 0"),
        ("a", "b", ShapeError, "i must be a list of units, by number or name, got 'a'"),
        (["a"], ["z"], NamesError, "j holds 'z'"),
    ],
)
def test_what_is_no_pair_of_units_is_refused(ensemble_of, i, j, error, words):
    with pytest.raises(error, match=words):
        ensemble_of(MODEL).covariances(i, j)


def test_single_units_and_a_pair_are_taken_by_name_too():
    graph, plane = by_elimination(MODEL), by_pfaffians(MODEL)
    np.testing.assert_array_equal(graph.marginal(["a", "b"]), graph.marginal([0, 1]))
    assert plane.pair_average("a", "i") == plane.pair_average(0, 8)
    for units in ("a", 0, None):
        with pytest.raises(ShapeError, match="units must be a list of units"):
            graph.marginal(units)
    for pair in [(0.5, 1), (True, 1), (None, 1), (0, 9), (0, -1)]:
        with pytest.raises(ShapeError, match="must hold numbers"):
            plane.pair_average(*pair)


def test_bonds_and_single_units_are_known_where_other_pairs_are_not():
    """In decimals the way between two units has no Pfaffian of its own."""
    glass = ebm.from_graph(ebm.lattice((5, 5), periodic=False, negative=0.5, rng=3)).scaled(30.0)
    ensemble = by_pfaffians(glass)
    known = ebm.exact(glass).moments().second
    u, v = ensemble.bonds[0].tolist()
    np.testing.assert_allclose(ensemble.covariances([u, 7], [v, 7]), [known[u, v], 1], atol=1e-12)
    with pytest.raises(PrecisionError, match="units 0 and 24"):
        ensemble.pair_average(0, 24)


def test_couplings_that_cancel_to_no_digit_of_any_decimals_are_refused():
    torus = ebm.from_graph(ebm.lattice((4, 4), negative=0.5, rng=1)).scaled(1000.0)
    with pytest.raises(PrecisionError, match="leave no certain digit"):
        by_pfaffians(torus)
