"""All moments to fourth order against the sum over states."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import ebm
from ebm.enumeration import _fourth_moments, _quadratic
from ebm.enumeration._fourth_moments import fourth_moments
from ebm.enumeration._splitting import split
from ebm.errors import EnumerationLimitError
from ebm.forms import summable_form
from tests import oracles, strategies
from tests.enumeration.adversaries import two_mode_adversary, underflow_adversary


@pytest.fixture(
    params=[0, _quadratic.SMALL], ids=["products", "one table"], scope="module", autouse=True
)
def route(request):
    """Small models too are summed by products, or all states at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_quadratic, "SMALL", request.param)
        yield


@given(strategies.quadratic_models(), strategies.generators())
@settings(max_examples=80)
def test_tensor_about_any_center(model, rng):
    center = rng.normal(size=model.space.n_features)
    tensor = ebm.exact(model).fourth_moments(center)
    np.testing.assert_allclose(
        tensor, oracles.fourth_moments(model, center), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10])
def test_numbers_of_units(n):
    rng = np.random.default_rng(n)
    model = ebm.BoltzmannMachine(rng.normal(0, 2, (n, n)), rng.normal(size=n), center=0.3)
    center = rng.random(n)
    tensor = ebm.exact(model).fourth_moments(center)
    np.testing.assert_allclose(
        tensor, oracles.fourth_moments(model, center), rtol=1e-10, atol=1e-13
    )


def test_last_index_is_the_constant():
    rng = np.random.default_rng(0)
    model = ebm.IsingModel(rng.normal(size=(11, 11)), rng.normal(size=11))
    ensemble = ebm.exact(model)
    moments = ensemble.moments()
    tensor = ensemble.fourth_moments(moments.mean)
    assert tensor[-1, -1, -1, -1] == pytest.approx(1, rel=1e-13)
    np.testing.assert_allclose(tensor[:-1, -1, -1, -1], 0, atol=1e-13)
    np.testing.assert_allclose(tensor[:-1, :-1, -1, -1], moments.covariance, rtol=1e-10, atol=1e-13)
    for order in itertools.permutations(range(4)):
        np.testing.assert_allclose(tensor, tensor.transpose(order), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [12, 23])
def test_threads_change_no_bit(n, monkeypatch):
    monkeypatch.setattr(_fourth_moments, "SINGLE_THREADED", 2**10)
    rng = np.random.default_rng(0)
    model = ebm.BoltzmannMachine(rng.normal(size=(n, n)), rng.normal(size=n))
    center = rng.random(n)
    one, *others = (ebm.exact(model, n_jobs=k).fourth_moments(center) for k in (1, 2, 4))
    for other in others:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", [17, 10, 15])
def test_huge_couplings_with_several_modes(seed):
    # The seeds of test_exact: plain products, products with a potential, log domain.
    rng = np.random.default_rng(seed)
    weights = np.triu(1000.0 * rng.integers(-1, 2, (9, 9)), 1)
    model = ebm.BoltzmannMachine(weights + weights.T, 1000.0 * rng.integers(-1, 2, 9))
    center = rng.random(9)
    tensor = ebm.exact(model).fourth_moments(center)
    np.testing.assert_allclose(
        tensor, oracles.fourth_moments(model, center), rtol=1e-10, atol=1e-13
    )


class TestCertificate:
    def test_adversary_of_the_plain_products(self):
        tensor = ebm.exact(underflow_adversary(4)).fourth_moments(np.zeros(12))
        # The middle group is free, the others are on.
        assert tensor[0, 1, 8, 9] == pytest.approx(1, rel=1e-13)
        assert tensor[4, 5, 6, 0] == pytest.approx(1 / 8, rel=1e-13)

    def test_what_no_potential_balances_is_streamed(self):
        model = two_mode_adversary()
        form = summable_form(model).at_origin().dense()
        assert fourth_moments(form, model.space, np.zeros(13), 1) is None
        tensor = ebm.exact(model).fourth_moments(np.zeros(13))
        np.testing.assert_allclose(
            tensor, oracles.fourth_moments(model, np.zeros(13)), rtol=1e-9, atol=1e-12
        )

    def test_sums_certified_with_fixed_units_do_not_vouch_for_the_undivided_factors(
        self, monkeypatch
    ):
        # With z fixed each block has one mode; undivided, no potential serves both.
        monkeypatch.setattr(_quadratic, "split", lambda space: split(space, 5, 0))
        model = two_mode_adversary()
        ensemble = ebm.exact(model)
        np.testing.assert_allclose(ensemble.moments().mean, 0.5, rtol=1e-11)
        tensor = ensemble.fourth_moments(np.zeros(13))
        np.testing.assert_allclose(tensor[:-1, -1, -1, -1], 0.5, rtol=1e-9)

    def test_streaming_many_units_is_refused(self):
        ensemble = ebm.exact(two_mode_adversary(), max_seconds=1e-4, n_jobs=1)
        with pytest.raises(EnumerationLimitError, match="do without standard errors"):
            ensemble.fourth_moments(np.zeros(13))
