"""Forms of an energy given the values of some units: the forms of the other units, constants kept.

Each is the energy at the completed state, E'(x_r) = E(x_r, x_c), for units c at fixed values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ebm._arrays import is_sparse
from ebm._types import Array, Indices
from ebm.spaces import StateSpace
from ebm.spaces._fixed_units import FixedUnits

Units = tuple[int, ...]
Form = TypeVar("Form")


def given_form(form: Form, fixed: FixedUnits, space: StateSpace) -> Form:
    """The form of the other units, of the same kind."""
    # The classes of forms stand above this module; each has its own kind of couplings.
    if hasattr(form, "matrix"):
        conditioned = quadratic_given
    elif hasattr(form, "tables"):
        conditioned = factors_given
    else:
        conditioned = layers_given if hasattr(form, "weights") else terms_given
    given: Form = conditioned(form, fixed, space)
    return given


def quadratic_given(form: Any, fixed: FixedUnits, space: StateSpace) -> Any:
    """A_rr, v_r + u and k + c_r·u − ½ yA_cc y − v_c·f_c with y = f_c − c_c and u = A_rc y."""
    rest, places = space.columns(fixed.rest), space.columns(fixed.units)
    features = space.features(fixed.completed(space.random(1, 0)[0, fixed.rest]))[places]
    center = np.zeros(space.n_features) if form.center is None else form.center
    moved = features - center[places]
    push = np.asarray(block(form.matrix, rest, places) @ moved)
    within = moved @ (block(form.matrix, places, places) @ moved)
    constant = center[rest] @ push - 0.5 * within - form.vector[places] @ features
    return replace(
        form,
        matrix=block(form.matrix, rest, rest),
        vector=form.vector[rest] + push,
        constant=form.constant + float(constant),
        center=None if form.center is None else form.center[rest],
    )


def layers_given(form: Any, fixed: FixedUnits, space: StateSpace) -> Any:
    """Visible units given: U_r, c + u and k − b_g·v_g + u(v_g) + u·ĥ with u = (v_g − v̂_g)U_g."""
    units, rest, values = fixed.units, fixed.rest, fixed.values
    center = form.visible_center
    push = (values if center is None else values - center[units]) @ form.weights[units]
    constant = form.visible_units.at(units).energy(values).sum() - form.visible[units] @ values
    if form.hidden_center is not None:
        constant += push @ form.hidden_center
    return replace(
        form,
        weights=form.weights[rest],
        visible=form.visible[rest],
        hidden=form.hidden + push,
        constant=form.constant + float(constant),
        visible_center=None if center is None else center[rest],
        visible_units=form.visible_units.at(rest),
    )


def terms_given(form: Any, fixed: FixedUnits, space: StateSpace) -> Any:
    """Terms times the fixed values, equal rests added, and ν of the units that may yet be active.

    The empty rest goes to the constant, and what a value of 0 multiplies is no term any more.
    """
    value = dict(zip(fixed.units.tolist(), fixed.values.tolist(), strict=True))
    place = {unit: k for k, unit in enumerate(fixed.rest.tolist())}
    terms: dict[Units, float] = {}
    for units, coefficient in form.terms.items():
        factor = float(np.prod([value[unit] for unit in units if unit in value]))
        if factor:
            key = tuple(place[unit] for unit in units if unit in place)
            terms[key] = terms.get(key, 0.0) + factor * coefficient
    constant, count = form.constant - terms.pop((), 0.0), form.count
    if count is not None:
        n_active = int((fixed.values > 0).sum())
        count = count[n_active : n_active + len(fixed.rest) + 1]
    return replace(form, terms=terms, constant=constant, count=count)


def factors_given(form: Any, fixed: FixedUnits, space: Any) -> Any:
    """Tables at the fixed values, equal rests added; the empty rest goes to the constant."""
    pairs = zip(fixed.units.tolist(), fixed.values.tolist(), strict=True)
    level = {unit: int(np.searchsorted(space.values_of(unit), value)) for unit, value in pairs}
    place = {unit: k for k, unit in enumerate(fixed.rest.tolist())}
    tables: dict[Units, Any] = {}
    for units, table in form.tables.items():
        key = tuple(place[unit] for unit in units if unit in place)
        at = tuple(level.get(unit, slice(None)) for unit in units)
        tables[key] = tables.get(key, 0.0) + table[at]
    constant = form.constant + float(tables.pop((), 0.0))
    return replace(form, tables=tables, constant=constant)


def form_in_order(form: Any, order: Indices, space: StateSpace) -> Any:
    """The same energy with its units in another order, unit ``order[k]`` in place k."""
    if hasattr(form, "matrix"):
        places = space.columns(order)
        return replace(
            form,
            matrix=block(form.matrix, places, places),
            vector=form.vector[places],
            center=None if form.center is None else form.center[places],
        )
    if hasattr(form, "weights"):
        center = form.visible_center
        return replace(
            form,
            weights=form.weights[order],
            visible=form.visible[order],
            visible_center=None if center is None else center[order],
            visible_units=form.visible_units.at(order),
        )
    place = {unit: k for k, unit in enumerate(order.tolist())}
    if hasattr(form, "tables"):
        return form.renumbered(place)
    terms = {tuple(sorted(place[i] for i in key)): value for key, value in form.terms.items()}
    return replace(form, terms=terms)


def block(matrix: Any, rows: Indices, columns: Indices) -> Array | Any:
    """Rows and columns of a matrix, dense or CSR as it is."""
    return matrix[rows][:, columns] if is_sparse(matrix) else matrix[np.ix_(rows, columns)]
