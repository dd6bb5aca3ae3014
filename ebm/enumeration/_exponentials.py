"""exp(f A f') for all joint states f, f' of two groups, by products instead of exponentials.

With the units of the rows cut in two, f = (g, h), the matrix is a product of two small tables,

    exp(f A f') = exp(g A f') exp(h A f'),

and one multiplication for each entry takes the place of one exponential. Each table is scaled by
its largest entry, so nothing overflows; what underflows is below the smallest double.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ebm._types import Array
from ebm.enumeration._splitting import Group


class Exponentials(NamedTuple):
    """Logs of the two tables: row (i, j) of the matrix is exp(upper[i]) exp(lower[j])."""

    upper: Array
    lower: Array

    @classmethod
    def of(cls, rows: Group, coupled: Array) -> Exponentials:
        """From the group of the rows, and A f' of all f'."""
        cut = rows.upper.shape[1]
        return cls(rows.upper @ coupled[:cut], rows.lower @ coupled[cut:])

    def fill(self, column_logs: Array, axis: int, out: Array) -> Array:
        """Fill exp(f A f' + column_logs − bounds), at most 1, with bounds for rows or columns.

        Returns the bounds, of each row if ``axis`` is 1.
        """
        lower = self.lower + column_logs
        bounds = [logs.max(axis=axis, keepdims=True) for logs in (self.upper, lower)]
        upper = np.exp(self.upper - bounds[0])
        lower -= bounds[1]
        np.exp(lower, out=lower)
        np.multiply(upper[:, None], lower, out=out.reshape(len(upper), *lower.shape))
        total: Array = bounds[0][:, None] + bounds[1]
        return total.ravel()


def exponentiate(logs: Array, axis: int | None, out: Array) -> Array:
    """exp(logs − maxima along an axis, or of all) into ``out``; returns the maxima."""
    maxima = logs.max(axis=axis, keepdims=True)
    np.exp(logs - maxima, out=out)
    return np.asarray(maxima.squeeze(axis))
