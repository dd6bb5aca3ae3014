"""Sweeps over units of different kinds with pair energies."""

from __future__ import annotations

import numpy as np

from ebm._types import Array, Indices, Words
from ebm.forms import QuadraticForm
from ebm.sampling._by_energy import choose_columns
from ebm.sampling._precision import require_sums
from ebm.sampling.sweeper import Sweeper, uniforms
from ebm.spaces import FiniteSpace


class MixedSweeper(Sweeper):
    """Heat bath of units of different kinds, all of them or some, in turn.

    The log weight of level a of unit i, of features φ_a, given all others is
    φ_a·(v_i + Σ_{j≠i} A_ij f_j) + ½ φ_a A_ii φ_a.
    """

    def __init__(
        self, form: QuadraticForm, space: FiniteSpace, units: Indices | None = None
    ) -> None:
        form = form.at_origin().dense()
        require_sums(form.matrix, form.vector, name="the model")
        self._space = space
        self._units = np.arange(space.n) if units is None else units
        self._rows: list[tuple[slice, Array, Array, Array, Array]] = []
        stops = np.cumsum(space.widths)
        for unit, (width, stop) in enumerate(zip(space.widths, stops, strict=True)):
            own, features = slice(stop - width, stop), space.features_of(unit)
            couplings = features @ form.matrix[own]
            # A unit's coupling to its own value is part of its field.
            fields = features @ form.vector[own] + 0.5 * (couplings[:, own] * features).sum(axis=1)
            couplings[:, own] = 0
            self._rows.append((own, space.values_of(unit), features, couplings, fields[:, None]))

    def advance(self, work: Array, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        for _ in range(n_sweeps):
            thresholds = uniforms(stream, (len(self._units), len(work)))
            features = self._space.features(work).copy()
            for unit, threshold in zip(self._units.tolist(), thresholds, strict=True):
                own, values, own_features, couplings, fields = self._rows[unit]
                logs = couplings @ features.T
                logs += fields
                chosen = choose_columns(logs, threshold)
                work[:, unit] = values[chosen]
                features[:, own] = own_features[chosen]
