"""Pfaffians of the half-bonds of a drawing, eliminated site by site over a narrow front.

A(2k, 2k+1) = σ_k w_k, A(h, h') = ± τ_h τ_h' of two half-bonds of one site, + if h comes first, with
τ_2k = t_k and τ_2k+1 = 1: Pf A Π σ = Σ over even subgraphs Π_(bonds in it) t Π_(others) w.
Numbers are floats or decimals alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebm._types import Indices
from ebm.enumeration._planar_graph import Drawing

#: Smallest pivot beside the largest entry of its row.
THRESHOLD = 0.1
#: Unit of rounding.
UNIT = 2.0**-53


@dataclass
class PfaffianElimination:
    """Pf A Π σ = sign · Π |pivots|, and what the way back needs."""

    drawing: Drawing
    signs: Indices
    odd: Any
    even: Any
    pivots: list[Any] = field(default_factory=list)
    sign: int = 1
    _steps: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = self.odd.dtype
        zero = self.odd[0] * 0 if len(self.odd) else 0.0
        table: Any = np.full((16, 16), zero, dtype=kind)
        ids: list[int] = []
        ends, around = self.drawing.ends, self.drawing.around
        seen: set[int] = set()
        eliminated: list[int] = []
        for site in self.drawing.order:
            seen.add(site)
            halves = around[site]
            start, stop = len(ids), len(ids) + len(halves)
            if stop > len(table):
                larger: Any = np.full((2 * stop, 2 * stop), zero, dtype=kind)
                larger[:start, :start] = table[:start, :start]
                table = larger
            table[start:stop, :stop] = zero
            table[:start, start:stop] = zero
            block = city(halves, self.odd)
            table[start:stop, start:stop] = block
            ids += halves
            where = {h: k for k, h in enumerate(ids)}
            for h in halves:
                if h ^ 1 in where:
                    a, b = where[h & ~1], where[h | 1]
                    entry = self.even[h // 2] * int(self.signs[h // 2])
                    table[a, b], table[b, a] = entry, -entry
            self._steps.append(len(halves))
            self._eliminate(table, ids, seen, ends, eliminated)
        bonds = [h // 2 for h in eliminated if h % 2]
        self.sign *= _parity(eliminated) * int(np.prod(self.signs[bonds]))
        for pivot in self.pivots:
            self.sign *= 1 if pivot > 0 else -1

    def _eliminate(
        self, table: Any, ids: list[int], seen: set[int], ends: Indices, eliminated: list[int]
    ) -> None:
        """Pairs of half-bonds all of whose neighbors are in, as long as pivots are large enough."""
        while True:
            width = len(ids)
            complete = [k for k, h in enumerate(ids) if int(ends[h // 2][1 - h % 2]) in seen]
            is_last = len(complete) == width
            chosen = None
            for k in reversed(complete):
                sizes = np.abs(table[k, :width])
                among = [p for p in complete if p != k]
                if not among:
                    break
                p = max(among, key=lambda p: sizes[p])
                if sizes[p] >= sizes.max() * type(sizes[p])(THRESHOLD) and (
                    is_last or sizes[p] > 0
                ):
                    chosen = k, p
                    break
            if chosen is None:
                return
            k, p = chosen
            swaps = [(p, width - 1)]
            k = p if k == width - 1 else k
            swaps.append((k, width - 2))
            for a, b in swaps:
                if a != b:
                    table[[a, b], :width] = table[[b, a], :width]
                    table[:width, [a, b]] = table[:width, [b, a]]
                    ids[a], ids[b] = ids[b], ids[a]
            rest = width - 2
            c, d = table[rest, :rest].copy(), table[rest + 1, :rest].copy()
            pivot = table[rest, rest + 1]
            if pivot == 0:
                # A sector without weight: its product with the inverse stays finite.
                pivot = pivot + type(pivot)(1e-200)
            eliminated += ids[rest:]
            del ids[rest:]
            update = np.outer(d, c / pivot)
            table[:rest, :rest] += update - update.T
            self.pivots.append(pivot)
            self._steps.append((swaps, c, d, pivot))

    def back(self) -> tuple[Any, Any]:
        """∂ln Pf/∂t of each bond, (m,), and a bound of the rounding error of ln |Pf|."""
        kind = self.odd.dtype
        zero = self.odd[0] * 0 if len(self.odd) else 0.0
        slopes: Any = np.full(len(self.odd), zero, dtype=kind)
        inverse: Any = np.full((0, 0), zero, dtype=kind)
        table = inverse.copy()
        bound = zero
        sites = list(reversed(self.drawing.order))
        for step in reversed(self._steps):
            width = len(inverse)
            if isinstance(step, int):
                site = sites.pop(0)
                halves = self.drawing.around[site]
                block = inverse[width - step :, width - step :]
                entries = city(halves, None)
                for k, h in enumerate(halves):
                    if h % 2 == 0:
                        taus = np.array(
                            [self.odd[g // 2] if g % 2 == 0 else zero + 1 for g in halves],
                            dtype=kind,
                        )
                        slopes[h // 2] += (entries[k] * taus * block[:, k]).sum()
                inverse = inverse[: width - step, : width - step]
                table = table[: width - step, : width - step]
                continue
            swaps, c, d, pivot = step
            update = np.outer(d, c / pivot)
            update = update - update.T
            # Each entry of the front is rounded about three times in its update.
            sizes = np.abs(table) + 3 * (np.abs(update) + np.abs(np.outer(d, c / pivot)))
            bound = bound + (np.abs(inverse) * sizes).sum()
            before: Any = np.full((width + 2, width + 2), zero, dtype=kind)
            before[:width, :width] = table - update
            before[width, :width], before[width + 1, :width] = c, d
            before[:width, width], before[:width, width + 1] = -c, -d
            before[width, width + 1], before[width + 1, width] = pivot, -pivot
            whole: Any = np.full((width + 2, width + 2), zero, dtype=kind)
            whole[:width, :width] = inverse
            first, second = (d / pivot) @ inverse, -(c / pivot) @ inverse
            whole[width, :width], whole[width + 1, :width] = first, second
            whole[:width, width], whole[:width, width + 1] = -first, -second
            corner = -(1 + first @ c) / pivot
            whole[width, width + 1], whole[width + 1, width] = corner, -corner
            for a, b in reversed(swaps):
                if a != b:
                    for matrix in (whole, before):
                        matrix[[a, b]] = matrix[[b, a]]
                        matrix[:, [a, b]] = matrix[:, [b, a]]
            inverse, table = whole, before
        return slopes, bound


def city(halves: list[int], odd: Any) -> Any:
    """± τ_h τ_h' of the half-bonds of a site, or ± alone, (d, d)."""
    d = len(halves)
    signs = np.triu(np.ones((d, d), dtype=int), 1)
    signs -= signs.T
    if odd is None:
        return signs
    taus = np.array([odd[h // 2] if h % 2 == 0 else odd[h // 2] * 0 + 1 for h in halves], odd.dtype)
    return signs * np.outer(taus, taus)


def _parity(order: list[int]) -> int:
    """The sign of the permutation that sorts half-bonds."""
    rank = np.argsort(np.argsort(order))
    seen, sign = np.zeros(len(rank), dtype=bool), 1
    for start in range(len(rank)):
        k, length = start, 0
        while not seen[k]:
            seen[k] = True
            k, length = int(rank[k]), length + 1
        if length and length % 2 == 0:
            sign = -sign
    return sign


__all__ = ["PfaffianElimination"]
