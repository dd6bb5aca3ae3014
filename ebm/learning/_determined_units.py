"""Real units that others determine in the data: their precision would grow without bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.ensembles import Ensemble
from ebm.errors import NoMaximumWarning, warn
from ebm.forms import LayeredForm, QuadraticForm, offered_form
from ebm.learning._existence import gentle_penalty
from ebm.learning._families import joint_model
from ebm.models._gaussian_units import gaussian_units
from ebm.spaces._labels import shown

#: Share of a variance that is rounding.
ROUNDING = 1e-12
#: Share of the largest component of a direction below which a unit has no part in it.
SMALL = 1e-3


def determined_units_notes(family: Any, data: Any, penalty: Any) -> tuple[str, ...]:
    """Name real units whose values in the data follow from those of the others, or never change.

    Densities then grow for ever along such a combination of units.
    """
    is_free = not (penalty.holds_biases or penalty.is_tied)
    if not (is_free and isinstance(data, Ensemble) and len(gaussian_units(family.space))):
        return ()
    kind = offered_form(family)
    if joint_model(family) is not None or kind not in {QuadraticForm, LayeredForm}:
        return ()
    real = gaussian_units(family.space)
    columns = family.space.columns(real)
    moments, finite = data.moments(), np.ones(family.space.n_features, dtype=bool)
    finite[columns], covariance = False, moments.covariance
    own = covariance[np.ix_(columns, columns)]
    rest = own
    if kind is LayeredForm:
        # Hidden units may follow any combination, but not a column that never changes.
        rest = np.diag(own.diagonal())
    elif finite.any():
        across = covariance[np.ix_(columns, finite)]
        rest = own - across @ np.linalg.pinv(covariance[np.ix_(finite, finite)]) @ across.T
    variances = np.maximum(own.diagonal(), 0.0)
    units = _without_spread(rest, variances, moments.second.diagonal()[columns])
    if not len(units):
        return ()
    labels = [family.space.labels[unit] for unit in real[units]]
    bound = "are bound by a linear equation, together with the finite units,"
    if len(labels) == 1:
        bound = "never changes, or follows from the finite units,"
    message = (
        f"real {'unit' if len(labels) == 1 else 'units'} {shown(labels)} {bound} in the data: the "
        "likelihood has no maximum, and a precision grows for as long as the fit goes on; leave "
        "one out, or add a penalty "
        f"(penalty=ebm.Penalty(l2_biases={gentle_penalty(data.sample_size)}))"
    )
    warn(message, NoMaximumWarning)
    return (message,)


def _without_spread(residual: Array, variances: Array, squares: Array) -> Indices:
    """Places of the units in the direction along which a covariance (m, m) vanishes, if one does.

    It is what the finite units leave of ``variances``, which may be the rounding of E[x²].
    """
    rounding = np.maximum(ROUNDING * variances, ROUNDING**2 * squares)
    constant = np.flatnonzero(residual.diagonal() <= rounding)
    if len(constant):
        return constant[:1]
    scale = np.sqrt(residual.diagonal())
    values, vectors = np.linalg.eigh(residual / scale[:, None] / scale)
    if values[0] > ROUNDING * len(values):
        return np.empty(0, dtype=np.intp)
    parts = np.abs(vectors[:, 0])
    return np.flatnonzero(parts > SMALL * parts.max())
