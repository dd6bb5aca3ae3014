"""exp(f A g) for all joint states f, g of two groups, by products instead of exponentials.

Row by row the matrix doubles: the rows with a unit at its second value are those with it at its
first, times one vector. One multiplication for each entry takes the place of one exponential. The
entries are scaled by an upper bound, so they never overflow; where their span could underflow,
logs are formed and exponentiated instead.
"""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.enumeration._splitting import Group, cross
from ebm.forms import QuadraticForm

#: Largest span of logs for which entries scaled by an upper bound stay normal numbers.
SAFE_SPAN = 600.0


class Exponentials:
    """The coupling of two groups as a matrix of exponentials, rows and columns weighted.

    Parameters
    ----------
    form : QuadraticForm
        The energy.
    rows, columns : Group
        The groups.
    """

    def __init__(self, form: QuadraticForm, rows: Group, columns: Group) -> None:
        self._form, self._rows, self._columns = form, rows, columns
        coupling = form.matrix[rows.features, columns.features]
        n_units, n_changes, width = rows.changes.shape
        changes = rows.changes.reshape(n_units * n_changes, width)
        logs = np.concatenate([rows.table[:1], changes]) @ coupling @ columns.table.T
        self._first = logs[0]
        # Logs of the factors by which a row changes when one unit leaves its first value.
        steps = logs[1:].reshape(n_units, n_changes, columns.size)
        # Each unit moves a log by at most this much, up or down.
        self._rise = float(np.abs(steps).max(axis=(1, 2), initial=0).sum())
        self._span = 2 * self._rise
        self._factors = np.exp(steps) if self._span < SAFE_SPAN else None

    def logs(self) -> Array:
        """f A g, (rows, columns)."""
        left = cross(self._form, self._rows, self._columns)
        return np.asarray(left @ self._columns.table.T)

    def fill_scaled_rows(self, column_logs: Array, out: Array) -> Array:
        """Fill exp(f A g + column_logs − row maxima); returns the row maxima (logs)."""
        scale = self._fill(column_logs, out)
        if scale is None:
            return exponentiate(self.logs() + column_logs, 1, out)
        maxima = out.max(axis=1)
        out *= (1 / maxima)[:, None]
        return np.asarray(np.log(maxima) + scale)

    def fill_scaled_columns(self, out: Array) -> Array:
        """Fill exp(f A g − column maxima); returns the column maxima (logs)."""
        scale = self._fill(None, out)
        if scale is None:
            return exponentiate(self.logs(), 0, out)
        maxima = out.max(axis=0)
        out *= 1 / maxima
        return np.asarray(np.log(maxima) + scale)

    def fill_scaled(self, row_logs: Array, column_logs: Array, out: Array) -> float:
        """Fill exp(f A g + row_logs + column_logs − top); returns the largest log, top."""
        scale = self._fill(column_logs, out)
        if scale is None:
            return float(exponentiate(self.logs() + column_logs + row_logs[:, None], None, out))
        maxima = out.max(axis=1)
        tops = np.log(maxima) + row_logs
        top = float(tops.max())
        # At least exp(tops − top): a row underflows only if its largest entry does.
        out *= (np.exp(tops - top) / maxima)[:, None]
        return top + scale

    def _fill(self, column_logs: Array | None, out: Array) -> float | None:
        """Fill exp(f A g + column_logs − scale), all normal and at most 1; returns the scale.

        Returns
        -------
        float or None
            None, and nothing filled, where the entries could underflow.
        """
        first = self._first if column_logs is None else self._first + column_logs
        top = float(first.max())
        if self._factors is None or self._span + top - float(first.min()) > SAFE_SPAN:
            return None
        np.exp(first - (top + self._rise), out=out[0])
        filled = 1
        for unit in self._factors:
            for value, factor in enumerate(unit, 1):
                rows = slice(value * filled, (value + 1) * filled)
                np.multiply(out[:filled], factor, out=out[rows])
            filled *= len(unit) + 1
        return top + self._rise


def exponentiate(logs: Array, axis: int | None, out: Array) -> Array:
    """exp(logs − maxima along an axis, or of all) into ``out``; returns the maxima."""
    maxima = logs.max(axis=axis, keepdims=True)
    np.exp(logs - maxima, out=out)
    return np.asarray(maxima.squeeze(axis) if axis is not None else maxima[0, 0])
