"""Thermodynamic quantities against temperature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import EbmError, require_extra
from ebm.plotting.style import MODEL, axes_or_new

__all__ = ["thermodynamics"]

#: Quantity, label, and whether it is divided by the number of units.
_PANELS = (
    ("free_energy", "free energy $F/n$", True),
    ("energy", "energy $U/n$", True),
    ("heat_capacity", "heat capacity $C/n$", True),
    ("entropy", "entropy $S/n$ (nats)", True),
    ("absolute_magnetization", r"magnetization $\langle|m|\rangle$", False),
    ("susceptibility", r"susceptibility $\chi$", False),
    ("binder_cumulant", "Binder cumulant", False),
)
#: Inches of a panel.
WIDTH, HEIGHT = 2.35, 1.9
#: Panels in a row.
N_COLUMNS = 4


def thermodynamics(record: Any, quantities: Any = None, *, ax: Any = None) -> NDArray[Any]:
    """Draw quantities of a model against temperature T = 1/β, each in a panel of its own.

    Bars are intervals of 95 %, by Student's t with 19 degrees of freedom; exact values have none.

    Parameters
    ----------
    record : Thermodynamics
        Result of :func:`ebm.thermodynamics`.
    quantities : sequence of str, optional
        Names of quantities in the order of the panels; by default all with one value at each
        temperature except ln Z, which is −βF.
    ax : matplotlib.axes.Axes or sequence of them, optional
        One for each quantity; a new figure with up to four panels in a row if not given.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, (k,)
        One panel for each quantity; totals are divided by the number of units.

    Raises
    ------
    EbmError
        If ``record`` is no such result or has no such quantity, or one with several values; or if
        ``ax`` are not one for each quantity.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> record = ebm.thermodynamics(ring, [0.2, 0.4, 0.8])
    >>> panels = ebm.plotting.thermodynamics(record, ["energy", "heat_capacity"])
    >>> [panel.get_ylabel() for panel in panels]
    ['energy $U/n$', 'heat capacity $C/n$']
    >>> import matplotlib.pyplot
    >>> matplotlib.pyplot.close(panels[0].figure)
    """
    if not (hasattr(record, "values") and hasattr(record, "betas") and hasattr(record, "method")):
        raise EbmError(
            f"record must be a result of ebm.thermodynamics, got {type(record).__name__}"
        )
    if quantities is None:
        single = [name for name, values in record.values.items() if values.ndim == 1]
        quantities = [name for name in single if name != "log_partition"]
    else:
        quantities = [quantities] if isinstance(quantities, str) else list(quantities)
    for name in quantities:
        if np.ndim(record[name].value) > 1:
            raise EbmError(f"{name} has several values at each temperature: draw them one by one")
    if not quantities:
        raise EbmError("quantities must name at least one")
    panels = _new_panels(len(quantities)) if ax is None else np.ravel(np.array(ax, dtype=object))
    if len(panels) != len(quantities):
        raise EbmError(
            f"ax must be one for each of {len(quantities)} quantities, got {len(panels)}: give as "
            "many axes, or none for a new figure"
        )
    described = {name: (label, per_unit) for name, label, per_unit in _PANELS}
    order = np.argsort(record.betas)[::-1]
    for panel, name in zip(panels, quantities, strict=True):
        label, per_unit = described.get(name, (name.replace("_", " "), name == "log_partition"))
        scale = 1 / record.n_units if per_unit else 1.0
        value = scale * record[name].value
        low, high = (scale * end for end in record[name].interval())
        axes_or_new(panel)
        panel.plot(1 / record.betas[order], value[order], color=MODEL, lw=0.8, alpha=0.6)
        errors = None if record.is_exact else np.stack([value - low, high - value])
        points = {"fmt": "o", "ms": 2.5, "mew": 0, "elinewidth": 0.8, "capsize": 1.5}
        panel.errorbar(1 / record.betas, value, yerr=errors, color=MODEL, **points)
        panel.set_ylabel("ln Z / n" if name == "log_partition" else label)
    lowest = panels if ax is not None else panels[-min(N_COLUMNS, len(panels)) :]
    for panel in lowest:
        panel.set_xlabel("temperature $T = 1/β$")
    return panels


def _new_panels(n_panels: int) -> NDArray[Any]:
    """Panels of a new figure, up to four in a row."""
    n_columns = min(N_COLUMNS, n_panels)
    n_rows = -(-n_panels // n_columns)
    _, grid = require_extra("matplotlib.pyplot", "plot").subplots(
        n_rows,
        n_columns,
        figsize=(WIDTH * n_columns, HEIGHT * n_rows),
        layout="constrained",
        squeeze=False,
    )
    for panel in grid.flat[n_panels:]:
        panel.remove()
    panels: NDArray[Any] = grid.ravel()[:n_panels]
    return panels
