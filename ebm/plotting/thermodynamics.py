"""Thermodynamic quantities against temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebm.errors import EbmError, require_extra
from ebm.plotting.style import MODEL, axes_or_new

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def thermodynamics(record: Any, quantities: Any = None) -> Figure:
    """Draw quantities of a model against temperature T = 1/β, each in a panel of its own.

    Bars are intervals of 95 %, by Student's t with 19 degrees of freedom; exact values have none.

    Parameters
    ----------
    record : Thermodynamics
        Result of :func:`ebm.thermodynamics`.
    quantities : sequence of str, optional
        Names of quantities in the order of the panels; by default all with one value at each
        temperature except ln Z, which is −βF.

    Returns
    -------
    matplotlib.figure.Figure
        Up to four panels in a row; totals are divided by the number of units.

    Raises
    ------
    EbmError
        If ``record`` is no such result or has no such quantity, or one with several values.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> record = ebm.thermodynamics(ring, [0.2, 0.4, 0.8])
    >>> figure = ebm.plotting.thermodynamics(record, ["energy", "heat_capacity"])
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['energy $U/n$', 'heat capacity $C/n$']
    >>> import matplotlib.pyplot
    >>> matplotlib.pyplot.close(figure)
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
    n_columns = min(4, len(quantities))
    n_rows = -(-len(quantities) // n_columns)
    figure: Figure
    figure, axes = require_extra("matplotlib.pyplot", "plot").subplots(
        n_rows,
        n_columns,
        figsize=(WIDTH * n_columns, HEIGHT * n_rows),
        layout="constrained",
        squeeze=False,
    )
    described = {name: (label, per_unit) for name, label, per_unit in _PANELS}
    order = np.argsort(record.betas)[::-1]
    for ax, name in zip(axes.flat, quantities, strict=False):
        label, per_unit = described.get(name, (name.replace("_", " "), name == "log_partition"))
        scale = 1 / record.n_units if per_unit else 1.0
        value = scale * record[name].value
        low, high = (scale * end for end in record[name].interval())
        axes_or_new(ax)
        ax.plot(1 / record.betas[order], value[order], color=MODEL, lw=0.8, alpha=0.6)
        errors = None if record.is_exact else np.stack([value - low, high - value])
        points = {"fmt": "o", "ms": 2.5, "mew": 0, "elinewidth": 0.8, "capsize": 1.5}
        ax.errorbar(1 / record.betas, value, yerr=errors, color=MODEL, **points)
        ax.set_ylabel("ln Z / n" if name == "log_partition" else label)
    for k, ax in enumerate(axes.flat):
        if k >= len(quantities):
            ax.remove()
        elif k + n_columns >= len(quantities):
            ax.set_xlabel("temperature $T = 1/β$")
    return figure
