"""What a model prints: its units, its parameters and the strongest couplings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._summary import Summary
from ebm._text import short

#: Names of units in a line, and couplings that are listed.
MOST_NAMES, MOST_COUPLINGS = 5, 5
#: Names of parameters are only made for so many.
MOST_NAMED = 5000


def model_summary(model: Any) -> Summary:
    """Of any model with a space; more of one that has parameters."""
    space = getattr(model, "space", None)
    values = [("units", str(space)), *names_line(space), *model._summary_values()]
    title = type(model).__name__
    parameters = getattr(model, "parameters", None)
    if not isinstance(parameters, np.ndarray):
        return Summary(title, tuple(values))
    is_coupling = np.asarray(model.is_coupling, dtype=bool)
    for label, chosen in (("biases", ~is_coupling), ("couplings", is_coupling)):
        if chosen.any():
            values.append((label, _described(parameters[chosen])))
    columns, rows = coupling_rows(model)
    return Summary(title, tuple(values), columns, rows)


def names_line(space: Any) -> list[tuple[str, str]]:
    """The first names of units, where they have any."""
    names = getattr(space, "names", None)
    if not names:
        return []
    rest = f", … ({len(names)})" if len(names) > MOST_NAMES else ""
    return [("names", ", ".join(map(short, names[:MOST_NAMES])) + rest)]


def coupling_rows(
    model: Any, errors: Any = None
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The strongest couplings with their standard errors, by modulus: header and cells."""
    parameters = model.parameters
    if len(parameters) > MOST_NAMED or not hasattr(model, "parameter_names"):
        return (), ()
    couplings = np.flatnonzero(model.is_coupling & (parameters != 0))
    by_strength = np.argsort(-np.abs(parameters[couplings]), kind="stable")
    strongest = couplings[by_strength[:MOST_COUPLINGS]]
    names = model.parameter_names
    rows = [
        (names[k], f"{parameters[k]:.3f}", *([] if errors is None else [f"{errors[k]:.3f}"]))
        for k in strongest.tolist()
    ]
    heads = ("strongest couplings", "value", *([] if errors is None else ["standard error"]))
    return heads, tuple(rows)


def _described(values: Any) -> str:
    """How many numbers, and their range."""
    n_zero = int((values == 0).sum())
    if n_zero == len(values):
        return f"{len(values)}, all 0"
    range_ = f"{values.min():.3g} to {values.max():.3g}"
    if len(values) == 1:
        range_ = f"{values[0]:.3g}"
    return f"{len(values)}{f', {n_zero} of them 0' if n_zero else ''}, {range_}"
