"""Averages over any ensemble, from its one abstract member, against sums state by state."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.ensembles.ensemble import require_units
from ebm.errors import CodingError, MemoryLimitError, ModelError, NamesError, ShapeError
from tests.statistical import check_z_scores
from tests.strategies import boltzmann_machines, generators, weighted_states


class Pieces(ebm.Ensemble):
    """Given states and weights, in blocks cut at given places."""

    def __init__(self, space, states, weights, cuts=()):
        self.space = space
        self.states, self.weights, self.cuts = states, weights, sorted(cuts)

    def blocks(self):
        yield from zip(
            np.split(self.states, self.cuts), np.split(self.weights, self.cuts), strict=True
        )


@st.composite
def pieces(draw):
    """An ensemble over a finite space or the reals, cut anywhere, some weights zero."""
    space, states, weights = draw(weighted_states())
    cuts = (
        draw(st.lists(st.integers(1, len(states) - 1), max_size=3, unique=True))
        if len(states) > 1
        else []
    )
    if draw(st.booleans()):
        space = ebm.Reals(space.n)
        states = states + draw(generators()).normal(size=states.shape)
    return Pieces(space, states, weights / weights.sum(), cuts)


def squares(states):
    """A vector observable, (m, n)."""
    return states**2 + np.arange(states.shape[1])


@given(pieces())
def test_expectation_is_the_weighted_sum(ensemble):
    """E[f] = Σ p f for scalar, vector and matrix observables, however the blocks are cut."""
    for f in (
        lambda x: x[:, 0] - 2.0,
        squares,
        lambda x: x[:, :, None] * x[:, None, :],
    ):
        terms = [p * f(x[None])[0] for x, p in zip(ensemble.states, ensemble.weights, strict=True)]
        wanted = np.sum(terms, axis=0)
        value = ensemble.expectation(f)
        assert value.shape == wanted.shape
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-13)


@given(pieces())
def test_covariance_is_the_mean_product_of_deviations(ensemble):
    """Cov[f, f] = Σ p (f − E f)(f − E f)ᵀ; a scalar's is its variance."""
    f = squares(ensemble.states)
    deviation = f - ensemble.weights @ f
    wanted = np.einsum("m,mi,mj->ij", ensemble.weights, deviation, deviation)
    scale = np.abs(f).max() ** 2
    np.testing.assert_allclose(ensemble.covariance(squares), wanted, rtol=0, atol=1e-13 * scale)
    variance = ensemble.covariance(lambda x: squares(x)[:, 0])
    assert variance.shape == ()
    assert variance == pytest.approx(wanted[0, 0], rel=1e-12, abs=1e-13 * scale)
    grid = ensemble.covariance(lambda x: squares(x)[:, :, None])
    np.testing.assert_allclose(grid, wanted, rtol=0, atol=1e-13 * scale)


@given(pieces())
def test_moments_are_those_of_the_features(ensemble):
    """Mean and covariance by the definition, one-hot features included, however cut."""
    f = ensemble.space.features(ensemble.states)
    mean = ensemble.weights @ f
    covariance = (f - mean).T @ ((f - mean) * ensemble.weights[:, None])
    moments = ensemble.moments()
    np.testing.assert_allclose(moments.mean, mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(moments.covariance, covariance, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(moments.covariance, moments.covariance.T)
    assert moments.space == ensemble.space
    assert (moments.sample_size, moments.log_partition) == (math.inf, None)


@given(pieces())
def test_states_of_weight_zero_count_zero(ensemble):
    """0 · ∞ = 0, in means and covariances."""
    space, n = ensemble.space, ensemble.space.n
    states = np.vstack([ensemble.states, np.full((1, n), ensemble.states.min())])
    more = Pieces(space, states, np.append(ensemble.weights, 0.0), ensemble.cuts)
    last = states[-1]

    def infinite(x):
        return np.where((x == last).all(axis=1), np.inf, x[:, 0])

    finite = bool(more.weights[(states == last).all(axis=1)].sum() == 0)
    if finite:
        assert more.expectation(infinite) == pytest.approx(
            more.expectation(lambda x: x[:, 0]), abs=1e-13
        )
        assert np.isfinite(more.covariance(infinite))
    else:
        assert more.expectation(infinite) == np.inf


def test_an_infinite_value_of_positive_weight_is_infinite():
    """Only weight zero silences an infinity."""
    ensemble = Pieces(ebm.Binary(1), np.array([[0.0], [1.0]]), np.array([0.0, 1.0]), [1])
    with np.errstate(divide="ignore"):
        assert ensemble.expectation(lambda x: -np.log(x[:, 0])) == 0
        assert ensemble.expectation(lambda x: -np.log(1 - x[:, 0])) == np.inf


@pytest.mark.parametrize("mean", [0.0, 1e8])
def test_large_means_cost_no_digits(mean):
    """Covariances about 1 beside means about 10⁸: E[x²] − E[x]² would lose them all."""
    deviation = np.random.default_rng(0).normal(size=(40, 3))
    states = mean + np.round(deviation, 3)
    ensemble = Pieces(ebm.Reals(3), states, np.full(40, 1 / 40), [11, 25])
    wanted = np.cov((states - mean).T, ddof=0)
    np.testing.assert_allclose(ensemble.moments().covariance, wanted, atol=1e-6)
    np.testing.assert_allclose(ensemble.covariance(lambda x: x), wanted, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float32"])
def test_observables_of_any_type_are_summed_as_floats(dtype):
    """300 ones in one byte each have mean 1, not 300 mod 256."""
    ensemble = Pieces(ebm.Binary(1), np.ones((300, 1)), np.full(300, 1 / 300))
    assert ensemble.expectation(lambda x: x[:, 0].astype(dtype)) == pytest.approx(1)
    assert ensemble.covariance(lambda x: x.astype(dtype)) == pytest.approx(0, abs=1e-15)


@given(weighted_states())
def test_standard_errors_are_those_of_a_mean(drawn):
    """√(Var f / N) with N the sum of the weights; a vector has one for each entry."""
    space, rows, weights = drawn
    data = ebm.Ensemble.from_data(rows, space=space, sample_weight=weights)
    repeated = np.repeat(rows, weights, axis=0)
    estimate = data.estimate(squares)
    np.testing.assert_allclose(estimate.value, squares(repeated).mean(axis=0), rtol=1e-12)
    wanted = squares(repeated).std(axis=0) / math.sqrt(len(repeated))
    np.testing.assert_allclose(estimate.standard_error, wanted, rtol=1e-9, atol=1e-12)
    scalar = data.estimate(lambda x: squares(x)[:, 0])
    assert scalar.value == pytest.approx(estimate.value[0])
    assert scalar.standard_error == pytest.approx(estimate.standard_error[0])


@given(boltzmann_machines(max_units=3))
def test_exact_ensembles_have_no_error(machine):
    """The value of the enumeration with error zero, as a number or as an array."""
    ensemble = ebm.exact(machine)
    estimate = ensemble.estimate(squares)
    np.testing.assert_allclose(estimate.value, ensemble.expectation(squares))
    np.testing.assert_array_equal(estimate.standard_error, np.zeros(machine.n))
    scalar = ensemble.estimate(lambda x: x[:, 0])
    assert scalar.standard_error == 0
    assert str(scalar).endswith("± 0")


def test_standard_errors_are_honest():
    """Means of many samples lie about the exact one as their standard errors say."""
    rng = np.random.default_rng(5)
    machine = ebm.BoltzmannMachine(rng.normal(0, 1.5, (4, 4)), rng.normal(size=4))
    ensemble = ebm.exact(machine)

    def pair(x):
        return x[:, 0] * x[:, 1] + x[:, 2]

    estimates = [
        ebm.Ensemble.from_data(ensemble.sample(2000, rng)).estimate(pair) for _ in range(200)
    ]
    values = np.array([estimate.value for estimate in estimates])
    errors = np.array([estimate.standard_error for estimate in estimates])
    check_z_scores(values, float(ensemble.expectation(pair)), errors)


@pytest.mark.parametrize("f", [lambda x: x.sum(), lambda x: x.sum(axis=0), lambda x: x[:1], len])
def test_an_observable_has_one_value_for_each_state(f):
    """A sum over all axes, over the states, or over too few of them is named."""
    ensemble = Pieces(ebm.Binary(2), np.eye(3)[:, :2], np.full(3, 1 / 3))
    for method in (ensemble.expectation, ensemble.covariance, ensemble.estimate):
        with pytest.raises(ShapeError, match="one value for each of the 3 states, got shape"):
            method(f)


def test_covariances_too_large_for_memory_are_refused():
    """Both numbers, before the matrix is made; transposed data get a hint."""
    ensemble = Pieces(ebm.Binary(2), np.eye(2), np.full(2, 0.5))
    words = "covariance of 30000 observables would take 6.71 GiB, the limit is 4 GiB: take fewer"
    with pytest.raises(MemoryLimitError, match=words):
        ensemble.covariance(lambda x: np.ones((len(x), 30000)))
    wide = Pieces(ebm.Spins(40000), np.ones((2, 40000)), np.full(2, 0.5))
    with pytest.raises(
        MemoryLimitError, match=r"40000 features .*11.9 GiB.*are the data transpose"
    ):
        wide.moments()


def test_an_ensemble_writes_its_blocks():
    """The one member that has no default."""
    with pytest.raises(TypeError, match="blocks"):
        ebm.Ensemble()


@pytest.mark.parametrize(
    ("average", "error", "words"),
    [
        (Pieces(ebm.Spins(2), None, None), CodingError, "states of Binary.* over Spins"),
        (Pieces(ebm.Binary(3), None, None), CodingError, "states of Binary.n=2"),
        (Pieces(ebm.Binary(2, names=["b", "a"]), None, None), NamesError, "in this order"),
        (ebm.Moments(ebm.Binary(2), [0.5] * 2, np.eye(2)), ModelError, "got Moments: give"),
        (np.eye(2), ModelError, "an ensemble of states is wanted, got ndarray"),
    ],
)
def test_ensembles_over_other_units_are_refused(average, error, words):
    """Another coding, number or order of units, or no ensemble at all."""
    space = ebm.Binary(2, names=["a", "b"])
    with pytest.raises(error, match=words):
        require_units(average, space)
    require_units(Pieces(space, None, None), space)
    require_units(Pieces(ebm.Binary(2), None, None), space)
    require_units(Pieces(space, None, None), ebm.Binary(2))
