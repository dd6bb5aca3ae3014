"""Moments: conversion between codings, realignment by name, what is refused; estimates."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, ModelError, NamesError, ShapeError
from tests.strategies import boltzmann_machines, generators

BOTH = [(ebm.Binary, ebm.Spins), (ebm.Spins, ebm.Binary)]


def equal(first, second):
    """The same moments up to rounding, in the same space."""
    assert first.space == second.space
    np.testing.assert_allclose(first.mean, second.mean, rtol=0, atol=1e-14)
    np.testing.assert_allclose(first.covariance, second.covariance, rtol=0, atol=1e-14)
    if first.log_partition is None or second.log_partition is None:
        assert first.log_partition is second.log_partition
    else:
        assert first.log_partition == pytest.approx(second.log_partition, rel=1e-12)
    assert first.sample_size == second.sample_size


@given(generators())
def test_conversion_is_that_of_the_states(rng):
    """Moments of x, converted, are the moments of s = 2x − 1, and back; nothing else changes."""
    x = rng.integers(0, 2, (12, 4))
    binary = ebm.Ensemble.from_data(x, names=list("abcd")).moments()
    spins = ebm.Ensemble.from_data(2 * x - 1, space=ebm.Spins, names=list("abcd")).moments()
    equal(binary.to(ebm.Spins), spins)
    equal(spins.to(ebm.Binary), binary)
    equal(binary.to(ebm.Spins).to(ebm.Binary), binary)


@given(boltzmann_machines())
def test_conversion_is_that_of_the_models(machine):
    """Exact moments of a machine, converted, are those of the machine in spins, ln Z included."""
    equal(ebm.exact(machine).moments().to(ebm.Spins), ebm.exact(machine.to_spins()).moments())


def test_conversion_by_hand():
    """Means 2m − 1 and covariances 4C."""
    binary = ebm.Moments(ebm.Binary(2), [0.5, 0.25], [[0.25, 0.1], [0.1, 0.1875]])
    spins = binary.to(ebm.Spins)
    np.testing.assert_array_equal(spins.mean, [0, -0.5])
    np.testing.assert_array_equal(spins.covariance, [[1, 0.4], [0.4, 0.75]])
    np.testing.assert_array_equal(spins.second, [[1, 0.4], [0.4, 1]])
    assert spins.space == ebm.Spins(2)


@given(st.permutations(["a", "b", "c", "d"]), generators())
def test_units_are_realigned_by_name(names, rng):
    """The same columns in another order give the same moments, in either coding."""
    x = rng.integers(0, 2, (12, 4))
    columns = [list("abcd").index(name) for name in names]
    moments = ebm.Ensemble.from_data(x, names=list("abcd")).moments()
    permuted = ebm.Ensemble.from_data(x[:, columns], names=names).moments()
    equal(moments.to(permuted.space), permuted)
    equal(moments.to(ebm.Spins(4, names=names)), permuted.to(ebm.Spins))


def test_names_are_given_and_kept():
    """A space without names takes those of the moments; moments without names take the space's."""
    unnamed = ebm.Moments(ebm.Binary(2), [0.5, 0.5], np.eye(2) / 4, 1.5, 10)
    named = unnamed.to(ebm.Spins(2, names=["a", "b"]))
    assert named.space == ebm.Spins(2, names=["a", "b"])
    assert named.to(ebm.Binary).space == ebm.Binary(2, names=["a", "b"])
    assert named.to(ebm.Binary(2)).space == ebm.Binary(2, names=["a", "b"])
    assert (named.log_partition, named.sample_size) == (1.5, 10)
    assert named.to(named.space) is named
    assert named.moments() is named


def test_foreign_names_are_refused():
    """Other units are never matched by position."""
    moments = ebm.Moments(ebm.Binary(2, names=["a", "b"]), [0.5, 0.5], np.eye(2) / 4)
    for space in (ebm.Spins(2, names=["a", "c"]), ebm.Binary(2, names=["c", "b"])):
        with pytest.raises(NamesError, match="unknown"):
            moments.to(space)


@pytest.mark.parametrize(
    ("start", "target"),
    [
        (ebm.Binary(2), ebm.Levels(2, 2)),
        (ebm.Binary(2), ebm.Levels),
        (ebm.Binary(2), ebm.Reals(2)),
        (ebm.Reals(2), ebm.Binary),
        (ebm.Binary(2), ebm.Spins(3)),
        (ebm.Levels(1, 2), ebm.Spins(1)),
    ],
)
def test_what_has_no_exact_conversion_is_refused(start, target):
    """Other numbers of units and other kinds of values."""
    moments = ebm.Moments(start, np.full(2, 0.5), np.eye(2) / 4)
    with pytest.raises(CodingError, match=r"moments over .* cannot be converted to"):
        moments.to(target)


def test_only_two_valued_units_are_realigned():
    """Levels in another order are refused, not mixed up."""
    moments = ebm.Moments(ebm.Reals(2, names=["a", "b"]), [1, 2], np.eye(2))
    with pytest.raises(CodingError, match="two-valued"):
        moments.to(ebm.Reals(2, names=["b", "a"]))


@given(generators())
def test_second_and_correlation_by_their_definitions(rng):
    """E[f fᵀ] by a sum over rows, and numpy's correlation matrix."""
    x = np.vstack([[[0, 1, 0], [1, 0, 0], [1, 0, 1]], rng.integers(0, 2, (9, 3))])
    moments = ebm.Ensemble.from_data(x).moments()
    np.testing.assert_allclose(moments.second, x.T @ x / len(x), atol=1e-14)
    np.testing.assert_allclose(moments.correlation, np.corrcoef(x.T), atol=1e-13)


def test_a_constant_unit_has_correlation_zero():
    """Not NaN; rounding that makes a variance negative counts as constant."""
    moments = ebm.Moments(
        ebm.Binary(3), [0.5, 1, 0.2], [[0.25, 0, 0.1], [0, -4e-17, 0], [0.1, 0, 0.16]]
    )
    wanted = [[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]]
    np.testing.assert_allclose(moments.correlation, wanted, atol=1e-15)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([0.5], np.eye(2)), ShapeError, r"mean must have shape \(2,\), got \(1,\)"),
        (([0.5, 0.5], [0.2, 0.2]), ShapeError, r"covariance .* shape \(2, 2\), got \(2,\)"),
        (([0.5, np.nan], np.eye(2)), ModelError, "mean must be finite"),
        (([0.5, 0.5], [[1, np.inf], [np.inf, 1]]), ModelError, "covariance must be finite"),
        (([0.5, 0.5], [[1, 0.1], [0, 1]]), ModelError, "symmetric; give the full matrix"),
        (([0.5, 0.5], np.eye(2), None, 0), ModelError, "sample_size must be positive, got 0"),
        (([0.5, 0.5], np.eye(2), None, -5), ModelError, "sample_size must be positive"),
        (([0.5, 0.5], np.eye(2), None, math.nan), ModelError, "sample_size must be positive"),
    ],
)
def test_numbers_that_are_no_moments_are_refused(arguments, error, words):
    """Shapes, NaN, one triangle, and sample sizes."""
    with pytest.raises(error, match=words):
        ebm.Moments(ebm.Binary(2), *arguments)


def test_a_class_is_no_space():
    """The number of units is not guessed."""
    with pytest.raises(ModelError, match="must be a state space such as"):
        ebm.Moments(ebm.Binary, [0.5], [[0.25]])


def test_moments_of_levels_are_one_hot():
    """n q means and (n q)² covariances."""
    moments = ebm.Ensemble.from_data([[0, 2], [1, 2]], space=ebm.Levels(2, 3)).moments()
    np.testing.assert_array_equal(moments.mean, [0.5, 0.5, 0, 0, 0, 1])
    with pytest.raises(ShapeError, match=r"mean must have shape \(6,\)"):
        ebm.Moments(ebm.Levels(2, 3), [0.5, 0.5], np.eye(2))


def test_moments_are_read_only_copies():
    """The arrays given stay the caller's; those kept cannot be written to."""
    mean, covariance = np.array([0.5, 0.5]), np.eye(2) / 4
    moments = ebm.Moments(ebm.Binary(2), mean, covariance)
    mean[0] = covariance[0, 0] = 9
    np.testing.assert_array_equal(moments.mean, [0.5, 0.5])
    np.testing.assert_array_equal(moments.covariance, np.eye(2) / 4)
    for array in (moments.mean, moments.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        moments.mean = mean


@pytest.mark.parametrize(("start", "other"), BOTH)
def test_moments_of_data_are_two_valued(start, other):
    """two_valued returns the moments themselves, single precision included."""
    x = np.random.default_rng(0).choice(start(1).values, (50, 3))
    moments = ebm.Ensemble.from_data(x, space=start).moments()
    for same in (moments, moments.to(other)):
        assert same.two_valued() is same
    single = [np.float32(array) for array in (moments.mean, moments.covariance)]
    ebm.Moments(moments.space, *single).two_valued()


@pytest.mark.parametrize(("start", "other"), BOTH)
def test_variances_with_another_denominator_are_refused(start, other):
    """numpy.cov divides by N − 1: named unit, both numbers, and the cure."""
    x = np.random.default_rng(0).choice(start(1).values, (50, 2))
    moments = ebm.Moments(start(2, names=["a", "b"]), x.mean(axis=0), np.cov(x.T))
    for wrong in (moments, moments.to(other)):
        with pytest.raises(CodingError, match=r"unit 'a' has mean .* and variance .*ddof=0"):
            wrong.two_valued()


@pytest.mark.parametrize("mean", [1.25, -0.25])
def test_means_outside_the_coding_are_refused(mean):
    """Such means have a negative m(1 − m), whatever variance comes with them."""
    moments = ebm.Moments(ebm.Binary(2), [0.5, mean], np.diag([0.25, mean * (1 - mean)]))
    with pytest.raises(CodingError, match="unit '1' has mean"):
        moments.two_valued()
    with pytest.raises(CodingError, match="two-valued units are wanted, got Reals"):
        ebm.Moments(ebm.Reals(1), [0.5], [[0.25]]).two_valued()


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.23456, 0.01, "1.235 ± 0.010"),
        (-1.23456, 0.0123, "-1.235 ± 0.012"),
        (12345.6, 230.0, "12346 ± 230"),
        (1.5, 2.0, "1.5 ± 2.0"),
        (1 / 3, 0.0, "0.3333333333 ± 0"),
        (0.5, math.inf, "0.5 ± inf"),
        (0.5, math.nan, "0.5, its error is not to be trusted"),
    ],
)
def test_estimates_show_two_digits_of_their_error(value, error, text):
    """The value to the same decimals; exact ones say so; an unknown error is no crash."""
    assert str(ebm.Estimate(value, error)) == text


def test_estimates_of_arrays_show_both():
    """Each value to two digits of its own error."""
    text = str(ebm.Estimate(np.array([1.0, 2.0]), np.array([0.5, 0.25])))
    assert text == "[1.00 ± 0.50, 2.00 ± 0.25]"
    unknown = ebm.Estimate(np.array([1.0, 2.0]), np.array([np.nan, 0.0]), note="few draws")
    assert repr(unknown) == "Estimate([1 ± ?, 2 ± 0] (few draws))"
