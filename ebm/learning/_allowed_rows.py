"""Rows of energy +inf, which a model gives no probability."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ebm._types import Flags, Indices
from ebm.ensembles import Ensemble
from ebm.errors import LimitError, ModelError
from ebm.forms import offered_form
from ebm.learning._batches import Batch
from ebm.learning._families import joint_model
from ebm.model import checked_energy
from ebm.sampling._chains import is_allowed

#: How often cells that nobody saw are drawn anew before a row is given up.
TRIES = 1000


def require_allowed_data(family: Any, data: Any) -> None:
    """Refuse rows that are learnt from; of a marginal, means over p(h|v) refuse them."""
    if joint_model(family) is None:
        require_allowed_rows(family, data, "rows of the data")


def require_allowed_rows(family: Any, rows: Any, what: str) -> None:
    """Refuse rows that the family forbids at its parameters; ``what`` the rows are for."""
    joint = joint_model(family)
    whole = family if joint is None else joint
    # A form has finite energies.
    if not isinstance(rows, Ensemble) or offered_form(whole) is not None:
        return
    n_forbidden, first = 0.0, None
    try:
        for states, weights in rows.blocks():
            wrong = np.isinf(checked_energy(family, states)) & (weights > 0)
            if wrong.any():
                n_forbidden += float(weights[wrong].sum())
                first = states[np.argmax(wrong)] if first is None else first
    except LimitError:
        # A traced part too large for sums is refused where sums are taken, if they are.
        return
    if first is None:
        return
    names, values = rows.space.names, [f"{value:g}" for value in first]
    state = f"[{' '.join(values)}]"
    if names is not None:
        state = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    kept = "" if joint is None else " of the kept units, whatever those are that are summed out"
    raise ModelError(
        f"{what}: {type(whole).__name__} forbids the state {state}{kept}, whose energy is +inf, "
        f"and with it {n_forbidden:.3g} of all rows: leave them out, or give them a finite energy"
    )


def draw_allowed(model: Any, states: Any, is_free: Flags, rng: np.random.Generator) -> Indices:
    """Draw the free cells (m, n) of states of energy +inf anew, in place; rows that are left so."""
    left = np.flatnonzero(~is_allowed(model, states))
    for _ in range(TRIES):
        if not len(left):
            break
        drawn = model.space.random(len(left), rng)
        states[left] = np.where(is_free[left], drawn, states[left])
        left = left[~is_allowed(model, states[left])]
    return left


def require_drawn(model: Any, left: Indices, rows: Any) -> None:
    """Refuse rows (m, n) of which some, by their places, have no state of finite energy found."""
    if len(left):
        row = " ".join(f"{value:g}" for value in rows[left[0]])
        raise ModelError(
            f"found no state of finite energy at random beside the row [{row}], as if "
            f"{type(model).__name__} forbade it whatever was not seen: leave such rows out, or "
            "give them a finite energy"
        )


def filled_in_allowed(model: Any, filled: Batch) -> Batch:
    """Filled-in rows, their missing cells drawn anew where the model forbids what they hold."""
    missing = filled.missing
    if missing is None or joint_model(model) is not None:
        return filled
    states = filled.states.copy()
    draw_allowed(model, states, missing, np.random.default_rng(1))
    return replace(filled, states=states)
