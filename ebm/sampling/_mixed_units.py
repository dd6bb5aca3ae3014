"""Units of different kinds with pair energies: what one sweep over them is made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ebm._types import Array, Indices
from ebm.forms import QuadraticForm
from ebm.sampling._precision import require_sums
from ebm.spaces import FiniteSpace


class MixedUnits:
    """Log weights of the levels of each unit given all others.

    Of level a of unit i, of features φ_a: φ_a·(v_i + Σ_{j≠i} A_ij f_j) + ½ φ_a A_ii φ_a.
    """

    def __init__(self, form: QuadraticForm, space: FiniteSpace) -> None:
        form = form.at_origin().dense()
        require_sums(form.matrix, form.vector, name="the model")
        self._space = space
        self._units: list[tuple[slice, Array, Array, Array, Array]] = []
        stops = np.cumsum(space.widths)
        for unit, (width, stop) in enumerate(zip(space.widths, stops, strict=True)):
            own, features = slice(stop - width, stop), space.features_of(unit)
            couplings = features @ form.matrix[own]
            # A unit's coupling to its own value is part of its field.
            fields = features @ form.vector[own] + 0.5 * (couplings[:, own] * features).sum(axis=1)
            couplings[:, own] = 0
            self._units.append((own, space.values_of(unit), features, couplings, fields[:, None]))

    def sweep(
        self, states: Array, thresholds: Array, choose: Callable[[Array, Array], Indices]
    ) -> None:
        """Choose the level of every unit of states (m, n) by its log weights and a threshold."""
        features = self._space.features(states).copy()
        for unit, (own, values, own_features, couplings, fields) in enumerate(self._units):
            logs = couplings @ features.T
            logs += fields
            chosen = choose(logs, thresholds[unit])
            states[:, unit] = values[chosen]
            features[:, own] = own_features[chosen]
