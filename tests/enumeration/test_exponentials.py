"""exp(f A f') built by products equals exp of the matrix, at any span of the logs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration._exponentials import Exponentials, exponentiate
from ebm.enumeration._splitting import Group, couplings
from ebm.forms import QuadraticForm
from tests.strategies import generators

SPACES = st.sampled_from(
    [ebm.Binary(6), ebm.Spins(6), ebm.Levels(5, 3), ebm.Levels(3, 4), ebm.Binary(2), ebm.Spins(1)]
)
#: From tame to far beyond what products may be used for.
SCALES = st.sampled_from([0.1, 3.0, 30.0, 300.0])


@given(SPACES, SCALES, generators(), st.sampled_from([0, 1]))
def test_entries_and_their_bounds(space, scale, rng, axis):
    d = space.n_features
    matrix = rng.normal(0, scale, (d, d))
    form = QuadraticForm(matrix + matrix.T, np.zeros(d), 0.0)
    middle = space.n // 2
    rows, columns = Group.of(space, 0, middle), Group.of(space, middle, space.n)
    coupled = couplings(form, rows, columns)
    logs = rows.table @ coupled
    column_logs = rng.normal(0, scale, columns.size)
    out = np.full(logs.shape, np.nan)
    bounds = Exponentials.of(rows, coupled).fill(column_logs, axis, out)
    assert out.max() <= 1
    # Relative agreement wherever doubles are normal, agreement with zero below.
    wanted = np.exp(logs + column_logs - np.expand_dims(bounds, axis))
    np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-290)


@given(SPACES)
def test_rows_are_joined_from_two_halves(space):
    group = Group.of(space, 0, space.n)
    upper, lower = np.divmod(np.arange(group.size), len(group.lower))
    joined = np.concatenate([group.upper[upper], group.lower[lower]], axis=1)
    np.testing.assert_array_equal(joined, group.table)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_exponentiate(axis):
    logs = np.random.default_rng(0).normal(0, 400, (4, 5))
    out = np.empty_like(logs)
    maxima = exponentiate(logs, axis, out)
    np.testing.assert_array_equal(maxima, logs.max(axis=axis))
    np.testing.assert_array_equal(out, np.exp(logs - logs.max(axis=axis, keepdims=True)))
