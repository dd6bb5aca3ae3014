"""Starts from which gradients do not lead away: hidden units that do nothing, or all the same.

Where no unit that is kept is coupled to a traced one, U = 0, the gradient by U is
(E_h − ĥ)(E_model v − E_D v): a saddle once the means are fitted. Units that are exchangeable have
equal gradients, and stay exchangeable bit for bit.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ebm._types import Array, Flags
from ebm.errors import NormalizationError, SymmetricStartWarning, warn
from ebm.forms import LayeredForm, QuadraticForm, energy_form, offered_form
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
    """Name hidden units that a fit from here would not couple to those seen, or not tell apart.

    The latter where they are summed out exactly.
    """
    found = [*_doubts_of_traced_units(family, are_summed), *_doubts_of_a_layer(family)]
    if not found:
        return ()
    message = (
        f"at the start {'; '.join(found)}: start at random parameters, such as "
        "model.with_parameters(model.parameters + rng.normal(0, 0.3, len(model.parameters)))"
    )
    warn(message, SymmetricStartWarning)
    return (message,)


def _doubts_of_traced_units(family: Any, are_summed: bool) -> list[str]:
    """Of the units of a joint model that a marginal sums out."""
    joint = joint_model(family)
    if joint is None or not 0 < len(family.traced) * joint.space.n <= MOST_PAIRS:
        return []
    silent = _silent_units(joint, family)
    alike = _exchangeable_units(family) if are_summed else []
    return _sentences("summed-out", "unit that is kept", joint.space.labels, silent, alike)


def _doubts_of_a_layer(family: Any) -> list[str]:
    """Of a hidden layer, whose units are columns of weights."""
    joint = joint_model(family)
    model = family if joint is None else joint
    if offered_form(model) is not LayeredForm:
        return []
    form: Any = energy_form(model)
    silent = np.flatnonzero((np.abs(form.weights) <= ROUNDING).all(axis=0)).tolist()
    alike = _equal_columns(form)
    if alike:
        after: Any = energy_form(_stepped(model))
        alike = sorted(set(alike) & set(_equal_columns(after)))
    labels = [str(unit) for unit in range(len(form.hidden))]
    return _sentences("hidden", "visible unit", labels, silent, alike)


def _sentences(kind: str, seen: str, labels: Any, silent: list[int], alike: list[int]) -> list[str]:
    """What is wrong with units of a kind that are not seen."""
    found = []
    if silent:
        found.append(
            f"{kind} {_units(labels, silent)} coupled to no {seen}, a saddle of the likelihood "
            "once means are fitted"
        )
    if alike:
        found.append(
            f"{kind} {_units(labels, alike)} exchangeable with another one, and their equal "
            "gradients keep them so"
        )
    return found


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
    return _alike(_stepped(family).model, alike) if alike else []


def _stepped(family: Any) -> Any:
    """The family after a step along the gradient of its energy at two random states."""
    seen = family.space.random(2, 0)
    allowed = np.isfinite(np.asarray(family.energy(seen)))
    slopes = np.asarray(family.energy_gradient(seen[allowed])).sum(axis=0)
    size = np.abs(slopes).max(initial=0)
    if not size > 0:
        return family
    try:
        return family.with_parameters(family.parameters + STEP / size * slopes)
    except NormalizationError:
        return family


def _equal_columns(form: Any) -> list[int]:
    """Units of the hidden layer with the weights, the bias and the settings of another one."""
    m, settings = len(form.hidden), fields(form.hidden_units)
    rows = [form.weights, form.hidden, *(getattr(form.hidden_units, f.name) for f in settings)]
    if form.hidden_center is not None:
        rows.append(form.hidden_center)
    table = np.concatenate(
        [np.broadcast_to(row, (*np.shape(row)[:-1], m)).reshape(-1, m) for row in rows]
    )
    size = np.abs(table).max(initial=0)
    _, groups, counts = np.unique(
        np.round(table / (ROUNDING * size)) if size > 0 else table,
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    return np.flatnonzero(counts[groups.ravel()] > 1).tolist()


def _alike(joint: Any, units: list[int]) -> list[int]:
    """Those of some units that change places with another of them at no change of energy."""
    states, space = joint.space.random(STATES, 0), joint.space.named(None)
    energies, found = np.asarray(joint.energy(states)), set()
    kinds = {unit: space.subspace([unit]) for unit in units}
    for k, i in enumerate(units):
        for j in units[:k]:
            if kinds[i] != kinds[j]:
                continue
            exchanged = states.copy()
            exchanged[:, [i, j]] = states[:, [j, i]]
            if np.allclose(joint.energy(exchanged), energies, rtol=ROUNDING, atol=ROUNDING):
                found |= {i, j}
    return sorted(found)
