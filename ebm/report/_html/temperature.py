"""What a page needs to sum over all states of a model at any temperature, and where it shows it."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from ebm.report._html.elements import name, resource
from ebm.spaces import FiniteSpace

#: Most states that a page sums over, those of 12 two-valued units.
MOST_STATES = 2**12
#: Patterns that are listed.
N_PATTERNS = 10
#: The largest β.
LARGEST = 3
#: Averages, their letters and units.
_AVERAGES = (
    ("partition", "ln Z", ""),
    ("energy", "energy ⟨E⟩", "kT"),
    ("entropy", "entropy S", "bits"),
    ("capacity", "heat capacity C", "k"),
)
_UNITS = {
    "": "",
    "bits": " bits",
    "k": " <i>k</i><sub>B</sub>",
    "kT": " <i>k</i><sub>B</sub><i>T</i>",
}


def temperature_section(report: Any) -> str:
    """The slider for β, averages, curves and patterns; nothing of a model of many states."""
    model = report.model
    space = None if model is None else model.space
    if not isinstance(space, FiniteSpace) or space.size > MOST_STATES:
        return ""
    averages = "".join(
        f'<div><dt>{label}</dt><dd><output data-average="{key}"></output>{_UNITS[unit]}</dd></div>'
        for key, label, unit in _AVERAGES
    )
    rows = "".join(
        f'<tr><td>{name(label)}</td><td class="number"><output data-mean="{unit}"></output></td>'
        f'<td class="number"><output data-at-one="{unit}"></output></td>'
        f'<td class="bar" aria-hidden="true"><i data-bar="{unit}"></i></td></tr>'
        for unit, label in enumerate(space.labels)
    )
    return resource("temperature.html").format(
        largest=LARGEST,
        mean="mean level, from 0" if hasattr(report.summary, "codes") else "mean",
        n_states=int(space.size),
        averages=averages,
        rows=rows,
        data=script_data(_states(report, model)),
    )


def _states(report: Any, model: Any) -> dict[str, Any]:
    """Energies of all states in the order of their levels, the last unit fastest; null forbids."""
    space = model.space
    energies = np.concatenate([np.asarray(model.energy(block)) for block in space.enumerate()])
    values = [space.values_of(unit).tolist() for unit in range(space.n)]
    codes = getattr(report.summary, "codes", None)
    marks = [
        [str(level + (0 if codes is None else codes[unit][0])) for level in range(len(levels))]
        for unit, levels in enumerate(values)
    ]
    return {
        "energies": [energy if math.isfinite(energy) else None for energy in energies.tolist()],
        "values": values,
        "marks": marks,
        "n_patterns": N_PATTERNS,
    }


def script_data(numbers: Any) -> str:
    """JSON that can stand in a script element."""
    text = json.dumps(numbers, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
