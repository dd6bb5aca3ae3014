"""Averages of pairs on a graph through which a narrow frontier passes, such as a lattice.

Units are taken in one after the other, and a unit is summed over once all its neighbors are in. A
table over the states of the units in between, the frontier, holds for every number K of active
units the sum of exp(−βE) over all states of the units behind it, and beside it those of exp(−βE)
times E and E². The work is about n² 2^w for a frontier of w units, in place of 2^n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_csr
from ebm._types import Array, Indices
from ebm.forms import QuadraticForm, energy_form
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import Binary, Spins

#: Seconds for each entry of a table of sums and each unit, seconds around these for each unit, and
#: units of the widest frontier.
SECONDS_BY_FRONTIER, SECONDS_BY_UNIT = 1e-8, 2e-4
WIDEST = 24
#: What units to come may change of ln of an entry, so that entries below the range do not count.
LARGEST_REACH = 650.0


@dataclass(frozen=True, eq=False)
class Frontier:
    """−E of x in {0,1}, an order of its units, and how wide its frontier is.

    −E = Σ_i f_i x_i − ½ Σ_⟨ij⟩ A_ij [x_i ≠ x_j] + c, f = b + ½ A1, so that both ordered states of a
    magnet have weights of one size. ``reach`` is what one step and all later ones may change of it.
    """

    matrix: Any
    fields: Array
    constant: float
    order: Indices
    last: Indices
    width: int
    reach: float

    def serves(self, betas: Array) -> bool:
        """Whether no state of weight is lost below the range of double precision."""
        return float(betas.max()) * self.reach < LARGEST_REACH

    def seconds(self, n_betas: int) -> float:
        """About how long the sums take."""
        n = len(self.fields)
        return n_betas * n * (SECONDS_BY_UNIT + SECONDS_BY_FRONTIER * (n + 3) * 2.0**self.width)


def frontier_of(model: EnergyModel) -> Frontier | None:
    """The frontier of a model of pairs of two-valued units; None for others, or if it is wide."""
    form, space = energy_form(model), model.space
    if not (isinstance(form, QuadraticForm) and isinstance(space, Binary | Spins)):
        return None
    origin = form.folded(space).to_binary(space).at_origin()
    matrix = as_csr(origin.matrix).copy()
    matrix.eliminate_zeros()
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = np.asarray(reverse_cuthill_mckee(matrix, symmetric_mode=True), dtype=np.intp)
    position = np.argsort(order)
    entries = matrix.tocoo()
    # Until when a unit is needed: the position of its last neighbor, or its own.
    last = position.copy()
    np.maximum.at(last, entries.row, position[entries.col])
    starts, ends = np.bincount(position, minlength=space.n), np.bincount(last, minlength=space.n)
    width = int((np.cumsum(starts) - np.cumsum(ends) + ends).max())
    if width > WIDEST:
        return None
    lowest = np.full((1, space.n), float(space.values[0]))
    constant = -float(checked_energy(model, lowest)[0])
    fields = origin.vector + np.asarray(matrix.sum(axis=1)).ravel() / 2
    sizes, rows = np.abs(entries.data) / 2, position[entries.row]
    # Of each step: bonds of the frontier to units that come later, and what this unit brings.
    crossing = np.bincount(np.minimum(rows, position[entries.col]), sizes, space.n)
    crossing -= np.bincount(np.maximum(rows, position[entries.col]), sizes, space.n)
    brought = np.abs(fields[order]) + np.bincount(rows, sizes, space.n)
    reach = float((np.cumsum(crossing) / 2 + brought).max())
    return Frontier(matrix, fields, constant, order, last, width, reach)


def frontier_sums(frontier: Frontier, beta: float) -> tuple[Array, float, float, float]:
    """Σ e^{−βE} by the number of active units, Σ E e^{−βE}, Σ E² e^{−βE}, all over e^scale."""
    # Axes: the count K, then the units of the frontier; and two tables without counts.
    by_count, first, second = np.ones(1), np.zeros(()), np.zeros(())
    inside: list[int] = []
    scale = 0.0
    for position, unit in enumerate(frontier.order):
        by_count, first, second = _taken_in(by_count, first, second)
        inside.append(int(unit))
        for at, gain in _gains(frontier, inside):
            counted, factor = by_count[(slice(None), *at)], np.exp(beta * gain)
            counted *= factor
            total = counted.sum(axis=0)
            # −gain is added to the energy of these states.
            second[at] = factor * (second[at] - 2 * gain * first[at]) + gain**2 * total
            first[at] = factor * first[at] - gain * total
        for axis in _left(frontier, inside, position):
            by_count = by_count.sum(axis=1 + axis)
            first, second = first.sum(axis=axis), second.sum(axis=axis)
        peak = float(by_count.max())
        by_count, first, second = by_count / peak, first / peak, second / peak
        scale += np.log(peak)
    return by_count, float(first), float(second), scale


def _gains(frontier: Frontier, inside: list[int]) -> Iterator[tuple[Any, float]]:
    """Field and couplings of the last unit of the frontier, each with the entries it acts on."""
    unit, newest = inside[-1], len(inside) - 1
    couplings = frontier.matrix[[unit], :].tocoo()
    # Values of some axes, and what is gained there.
    gains: list[tuple[dict[int, int], float]] = [({newest: 1}, float(frontier.fields[unit]))]
    for other, coupling in zip(couplings.col, couplings.data, strict=True):
        if other in inside and other != unit:
            axis, loss = inside.index(int(other)), -float(coupling) / 2
            gains += [({axis: value, newest: 1 - value}, loss) for value in (0, 1)]
    for values, gain in gains:
        yield tuple(values.get(axis, slice(None)) for axis in range(newest + 1)), gain


def _left(frontier: Frontier, inside: list[int], position: int) -> Iterator[int]:
    """Axes of the units that no later one needs, which are removed one by one."""
    for unit in [u for u in inside if frontier.last[u] <= position]:
        axis = inside.index(unit)
        inside.remove(unit)
        yield axis


def _taken_in(by_count: Array, first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Tables with one more unit, as the last axis."""
    more = np.zeros((len(by_count) + 1, *by_count.shape[1:], 2))
    more[:-1, ..., 0] = by_count
    more[1:, ..., 1] = by_count
    return more, np.stack([first, first], axis=-1), np.stack([second, second], axis=-1)
