"""Starts from which gradients do not lead away: hidden units that do nothing, or all the same.

Where no unit that is kept is coupled to a traced one, U = 0, the gradient by U is
(E_h − ĥ)(E_model v − E_D v): a saddle once the means are fitted. Units that are exchangeable have
equal gradients, and stay exchangeable bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Flags
from ebm.errors import SymmetricStartWarning, warn
from ebm.forms import QuadraticForm, energy_form, offered_form
from ebm.learning._families import joint_model
from ebm.spaces._labels import shown

#: Random states at which energies are compared.
STATES = 16
#: A difference of energies, as a share of their size, that is rounding.
ROUNDING = 1e-10
#: Most pairs of units that are compared.
MOST_PAIRS = 5000
#: Length of a step after which exchangeable units are compared again.
STEP = 0.1


def symmetric_start_notes(family: Any, *, are_summed: bool = True) -> tuple[str, ...]:
    """Name traced units that a fit from here would not couple to those seen, or not tell apart.

    The latter where they are summed out exactly.
    """
    joint = joint_model(family)
    if joint is None or not 0 < len(family.traced) * joint.space.n <= MOST_PAIRS:
        return ()
    labels, found = joint.space.labels, []
    silent = _silent_units(joint, family)
    if silent:
        found.append(
            f"summed-out {_units(labels, silent)} coupled to no unit that is kept, a saddle of the "
            "likelihood once means are fitted"
        )
    alike = _exchangeable_units(family) if are_summed else []
    if alike:
        found.append(
            f"summed-out {_units(labels, alike)} exchangeable with another one, and their equal "
            "gradients keep them so"
        )
    if not found:
        return ()
    message = (
        f"at the start {'; '.join(found)}: start at random parameters, such as "
        "model.with_parameters(model.parameters + rng.normal(0, 0.3, len(model.parameters)))"
    )
    warn(message, SymmetricStartWarning)
    return (message,)


def _units(labels: Any, units: list[int]) -> str:
    names = [labels[unit] for unit in units]
    return f"unit {shown(names)} is" if len(names) == 1 else f"units {shown(names)} are"


def _silent_units(joint: Any, family: Any) -> list[int]:
    """Traced units that no chain of couplings joins to a kept one."""
    linked = _links(joint)
    reached = np.zeros(joint.space.n, dtype=bool)
    reached[list(family.keep)] = True
    while True:
        more = reached | linked[reached].any(axis=0)
        if (more == reached).all():
            return [unit for unit in family.traced.tolist() if not reached[unit]]
        reached = more


def _links(joint: Any) -> Flags:
    """Which units are coupled, (n, n): by the form, or by mixed differences of energies."""
    n = joint.space.n
    if offered_form(joint) is QuadraticForm:
        form: Any = energy_form(joint)
        return np.asarray(joint.space.largest_between_units(form.dense().matrix) > ROUNDING)
    states, others = (joint.space.random(STATES, seed) for seed in (0, 1))
    linked = np.ones((n, n), dtype=bool)
    for i in range(n):
        for j in range(i):
            corners = [_moved(states, others, units) for units in ((), (i,), (j,), (i, j))]
            neither, first, second, both = (np.asarray(joint.energy(x)) for x in corners)
            with np.errstate(invalid="ignore"):
                mixed = np.abs(both - first - second + neither)
                size = 1 + np.abs(neither) + np.abs(both)
                # A difference of infinities is a coupling as well.
                linked[i, j] = linked[j, i] = not (mixed <= ROUNDING * size).all()
    return linked


def _moved(states: Array, others: Array, units: tuple[int, ...]) -> Array:
    """States with some units of other states."""
    moved = states.copy()
    moved[:, list(units)] = others[:, list(units)]
    return moved


def _exchangeable_units(family: Any) -> list[int]:
    """Traced units that may change places with another, here and after a step along a gradient."""
    alike = _alike(family.model, family.traced.tolist())
    if not alike:
        return []
    seen = family.space.random(2, 0)
    allowed = np.isfinite(np.asarray(family.energy(seen)))
    slopes = np.asarray(family.energy_gradient(seen[allowed])).sum(axis=0)
    size = np.abs(slopes).max(initial=0)
    if not size > 0:
        return alike
    return _alike(family.model.with_parameters(family.parameters + STEP / size * slopes), alike)


def _alike(joint: Any, units: list[int]) -> list[int]:
    """Those of some units that change places with another of them at no change of energy."""
    states = joint.space.random(STATES, 0)
    energies, found = np.asarray(joint.energy(states)), set()
    for k, i in enumerate(units):
        for j in units[:k]:
            if not np.array_equal(joint.space.values_of(i), joint.space.values_of(j)):
                continue
            exchanged = states.copy()
            exchanged[:, [i, j]] = states[:, [j, i]]
            if np.allclose(joint.energy(exchanged), energies, rtol=ROUNDING, atol=ROUNDING):
                found |= {i, j}
    return sorted(found)
