"""Sweeps over units of different kinds with pair energies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices, Words
from ebm.forms import QuadraticForm
from ebm.models._bounded_units import BoundedUnits
from ebm.models._gaussian_units import GaussianUnits, gaussian_units
from ebm.sampling._by_energy import choose_columns
from ebm.sampling._precision import require_sums
from ebm.sampling.sweeper import Sweeper, uniforms
from ebm.spaces import StateSpace


class MixedSweeper(Sweeper):
    """Heat bath of units of different kinds, all of them or some, in turn.

    The log weight of level a of a finite unit i, of features φ_a, given all others is
    φ_a·(v_i + Σ_{j≠i} A_ij f_j) + ½ φ_a A_ii φ_a. Gaussian units follow all at once, given all
    that are not; then those with bounds, all at once or, if some are coupled to each other, in
    turn.
    """

    def __init__(
        self, form: QuadraticForm, space: StateSpace, units: Indices | None = None
    ) -> None:
        form = form.at_origin().dense()
        require_sums(form.matrix, form.vector, name="the model")
        self._space = space
        swept = np.arange(space.n) if units is None else units
        self._units, bounded = swept[~space.is_real[swept]], swept[space.is_bounded[swept]]
        self._rows = {int(unit): _row(form, space, unit) for unit in self._units}
        self._gaussian, self._real = None, swept[np.isin(swept, gaussian_units(space))]
        if len(self._real):
            self._gaussian = GaussianUnits.of(form, space, self._real)
        columns = space.columns(bounded)
        are_apart = not np.triu(form.matrix[np.ix_(columns, columns)], 1).any()
        groups = [bounded] if are_apart else np.split(bounded, len(bounded))
        self._bounded = [
            (group, BoundedUnits.of(form, space, group)) for group in groups if len(group)
        ]

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
            if self._gaussian is not None:
                self._draw_real(self._gaussian, work, features, stream)
                features[:, self._gaussian.columns] = work[:, self._real]
            for group, units in self._bounded:
                inputs = units.inputs(features[:, units.rest])
                work[:, group] = units.quantile(inputs, uniforms(stream, inputs.shape))
                features[:, units.columns] = work[:, group]

    def _draw_real(self, units: GaussianUnits, work: Array, features: Array, stream: Words) -> None:
        """All Gaussian units that are swept, from their distribution given the others."""
        from scipy.special import ndtri

        normal = ndtri(uniforms(stream, (len(work), len(self._real))))
        work[:, self._real] = units.mean(features[:, units.rest]) + units.spread(normal)


def _row(form: QuadraticForm, space: Any, unit: int) -> tuple[slice, Array, Array, Array, Array]:
    """Columns of a finite unit, its values and features, and what its log weights are made of."""
    columns, features = space.columns([unit]), space.features_of(unit)
    own = slice(columns[0], columns[-1] + 1)
    couplings = features @ form.matrix[own]
    # A unit's coupling to its own value is part of its field.
    fields = features @ form.vector[own] + 0.5 * (couplings[:, own] * features).sum(axis=1)
    couplings[:, own] = 0
    return own, space.values_of(unit), features, couplings, fields[:, None]
