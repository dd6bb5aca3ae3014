"""Rows of energy +inf, which a model gives no probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm.ensembles import Ensemble
from ebm.errors import LimitError, ModelError
from ebm.forms import offered_form
from ebm.learning._families import joint_model
from ebm.model import checked_energy


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
