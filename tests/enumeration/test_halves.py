"""Sums in the log domain over two halves, and energies of all states in order."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration import _halves as module
from ebm.enumeration._halves import Halves, all_energies, sum_by_halves
from ebm.forms import summable_form
from tests import oracles, strategies
from tests.user_models import CoupledLevels


@given(
    strategies.quadratic_models(),
    st.sampled_from([1.0, 100.0]),
    st.sampled_from([1, 4, 256]),
    st.integers(1, 4),
)
def test_sums_of_any_magnitude_in_blocks_of_any_size(model, factor, rows, n_jobs):
    if not isinstance(model, CoupledLevels):
        model = model.scaled(factor)
    form = summable_form(model).at_origin().dense()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS", rows)
        halves = Halves((form,), model.space)
        totals = sum_by_halves(halves, n_jobs)
    assert len(totals.block_logs) == halves.n_blocks == -(-halves.n_first_states // rows)
    log_z, _ = oracles.distribution(model)
    mean, covariance = oracles.moments(model)
    assert totals.log_total - form.constant == pytest.approx(log_z, rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(totals.mean, mean, rtol=1e-10, atol=1e-13)
    second = covariance + np.outer(mean, mean)
    np.testing.assert_allclose(totals.second, second, rtol=1e-10, atol=1e-13)
    total = np.logaddexp.reduce(totals.block_logs)
    assert total == pytest.approx(totals.log_relative, rel=1e-12, abs=1e-14)


@given(strategies.quadratic_models())
def test_energies_in_the_order_of_the_states(model):
    energies = all_energies(summable_form(model).at_origin().dense(), model.space)
    expected = model.energy(oracles.all_states(model.space))
    np.testing.assert_allclose(energies, expected, rtol=1e-11, atol=1e-11)


def test_second_half_is_bounded():
    space = ebm.Binary(25)
    halves = Halves((summable_form(ebm.BoltzmannMachine(np.eye(25), np.zeros(25))).dense(),), space)
    assert halves.second.size == 2**module.HALF_BITS
    assert halves.n_first_states == 2**15


def test_energies_of_thousands():
    rng = np.random.default_rng(0)
    weights = 1000.0 * np.triu(rng.integers(-1, 2, (10, 10)), 1)
    model = ebm.BoltzmannMachine(weights + weights.T, 1000.0 * rng.integers(-1, 2, 10))
    totals = sum_by_halves(Halves((summable_form(model).at_origin().dense(),), model.space), 1)
    log_z, p = oracles.distribution(model)
    assert np.sum(p > 0) > 1
    assert totals.log_total == pytest.approx(log_z, rel=1e-14)
    assert math.isfinite(totals.log_total)
