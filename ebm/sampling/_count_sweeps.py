"""Compiled sweeps of pairs of two-valued units and a function of the number of active ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Words
from ebm.forms import QuadraticForm
from ebm.models._counts import pairs_and_count
from ebm.sampling._form_sweepers import FormSweeper, TwoValued, Work
from ebm.sampling._precision import single_precision_suffices
from ebm.sampling._rows import quadratic_log_weights
from ebm.spaces import HomogeneousSpace

#: Units whose fields one matrix product gives.
SITES = 32
#: Share of the pairs from which on a product is faster than a loop over the terms.
DENSE = 0.25


def counted_sweeper(form: Any, space: HomogeneousSpace) -> CountedSweeper | None:
    """Sweeps by matrix products of many pairs and a count; None of other forms of terms."""
    parts = pairs_and_count(form, space.n)
    # Terms that are zero now are parameters of a fit: the same sweep serves it from start to end.
    n_pairs = sum(len(units) == 2 for units in form.terms)
    if parts is None or 2 * n_pairs < DENSE * space.n**2:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = parts[0].to_binary(space).at_origin()
        gains = np.diff(parts[1])
        # V is one more number in the log-odds.
        largest = np.abs(gains).max(initial=0.0)
        sizes = np.column_stack([pairs.matrix, np.full(space.n, largest)])
        if not single_precision_suffices(sizes, pairs.vector):
            return None
    return CountedSweeper(pairs, parts[1], space)


class CountedSweeper(TwoValued, FormSweeper):
    """Log-odds Σ_j W_ij x_j + b_i + V(k + 1) − V(k), k the active ones among the other units.

    In single precision, fields by products for some units at a time; layout (units, chains).
    """

    def __init__(self, form: QuadraticForm, potential: Array, space: HomogeneousSpace) -> None:
        super().__init__(space)
        self._form, self._potential = form, potential
        self._weights = np.ascontiguousarray(form.matrix, dtype=np.float32)
        self._biases = form.vector.astype(np.float32)
        self._gains = np.diff(potential).astype(np.float32)

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.counted import update_counted

        n, chains = self.n_swept or len(work), work.shape[1]
        rule = self._rule(chains)
        fields = np.empty((SITES, chains), dtype=np.float32)
        active = work.sum(axis=0).astype(np.int32)
        # What units that stay add to the fields, once for all sweeps.
        swept, resting = work[:n], self._weights[:n, n:] @ work[n:] if n < len(work) else None
        for _ in range(n_sweeps):
            for start in range(0, n, SITES):
                sites = slice(start, min(start + SITES, n))
                part = fields[: sites.stop - start]
                np.matmul(self._weights[sites, :n], swept, out=part)
                if resting is not None:
                    part += resting[sites]
                part += self._biases[sites, None]
                among = np.ascontiguousarray(self._weights[sites, sites])
                update_counted(part, among, self._gains, active, stream, work[sites], *rule)

    def log_weights(self, work: Work) -> Array:
        """½ xWx + b·x + V(K)."""
        active = work.sum(axis=0).astype(np.intp)
        return np.asarray(quadratic_log_weights(self._form, work) + self._potential[active])
