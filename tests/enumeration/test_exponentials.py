"""exp(f A g) built by products equals exp of the matrix, with every scaling, at any span."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.enumeration._exponentials import SAFE_SPAN, Exponentials, exponentiate
from ebm.enumeration._splitting import Group, cross
from ebm.forms import QuadraticForm
from tests.strategies import generators

SPACES = st.sampled_from(
    [ebm.Binary(6), ebm.Spins(6), ebm.Levels(5, 3), ebm.Levels(3, 4), ebm.Binary(2), ebm.Spins(1)]
)
#: From tame to far beyond what products may be used for.
SCALES = st.sampled_from([0.1, 3.0, 30.0, 300.0])


def case(space, scale, rng):
    """Two groups, their log matrix f A g, and the object under test."""
    d = space.n_features
    matrix = rng.normal(0, scale, (d, d))
    form = QuadraticForm(matrix + matrix.T, np.zeros(d), 0.0)
    middle = space.n // 2
    rows, columns = Group.of(space, 0, middle), Group.of(space, middle, space.n)
    logs = cross(form, rows, columns) @ columns.table.T
    return logs, Exponentials(form, rows, columns), rng.normal(0, scale, logs.shape[1])


def check(found, log_scaled):
    """Relative agreement wherever doubles are normal, agreement with zero below."""
    np.testing.assert_allclose(found, np.exp(log_scaled), rtol=1e-9, atol=1e-290)


@given(SPACES, SCALES, generators())
def test_logs(space, scale, rng):
    logs, exponentials, _ = case(space, scale, rng)
    np.testing.assert_allclose(exponentials.logs(), logs, rtol=1e-12, atol=1e-12 * scale)


@given(SPACES, SCALES, generators())
def test_scaled_rows(space, scale, rng):
    logs, exponentials, column_logs = case(space, scale, rng)
    out = np.full(logs.shape, np.nan)
    maxima = exponentials.fill_scaled_rows(column_logs, out)
    logs = logs + column_logs
    np.testing.assert_allclose(maxima, logs.max(axis=1), rtol=1e-11, atol=1e-11)
    check(out, logs - maxima[:, None])


@given(SPACES, SCALES, generators())
def test_scaled_columns(space, scale, rng):
    logs, exponentials, _ = case(space, scale, rng)
    out = np.full(logs.shape, np.nan)
    maxima = exponentials.fill_scaled_columns(out)
    np.testing.assert_allclose(maxima, logs.max(axis=0), rtol=1e-11, atol=1e-11)
    check(out, logs - maxima)


@given(SPACES, SCALES, generators())
def test_scaled_as_a_whole(space, scale, rng):
    logs, exponentials, column_logs = case(space, scale, rng)
    row_logs = rng.normal(0, scale, len(logs))
    out = np.full(logs.shape, np.nan)
    top = exponentials.fill_scaled(row_logs, column_logs, out)
    logs = logs + row_logs[:, None] + column_logs
    assert top == pytest.approx(logs.max(), rel=1e-11, abs=1e-11)
    check(out, logs - top)


@pytest.mark.parametrize("nearly", [0.98, 1.02])
def test_at_the_edge_of_the_safe_span(nearly):
    # One coupling after the other in the same direction: the span is the sum of all of them.
    space = ebm.Spins(12)
    matrix = np.zeros((12, 12))
    # Each of the six row units moves a log by 2·6·J at most, up or down.
    matrix[:6, 6:] = nearly * SAFE_SPAN / (2 * 6 * 2 * 6)
    form = QuadraticForm(matrix + matrix.T, np.zeros(12), 0.0)
    rows, columns = Group.of(space, 0, 6), Group.of(space, 6, 12)
    logs = cross(form, rows, columns) @ columns.table.T
    out = np.full(logs.shape, np.nan)
    top = Exponentials(form, rows, columns).fill_scaled(np.zeros(64), np.zeros(64), out)
    assert out.max() == pytest.approx(1, rel=1e-11)
    np.testing.assert_allclose(out, np.exp(logs - top), rtol=1e-9)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_exponentiate(axis):
    logs = np.random.default_rng(0).normal(0, 400, (4, 5))
    out = np.empty_like(logs)
    maxima = exponentiate(logs, axis, out)
    np.testing.assert_array_equal(maxima, logs.max(axis=axis))
    np.testing.assert_array_equal(out, np.exp(logs - logs.max(axis=axis, keepdims=True)))
