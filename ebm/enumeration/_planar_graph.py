"""Bonds of two-valued units without field, and graphs of them drawn on the plane or the torus.

Of a drawing only the order of the bonds around each site is needed. The two ends of a bond k are
the half-bonds 2k and 2k + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ebm._arrays import as_csr
from ebm._types import Array, Indices
from ebm.forms import QuadraticForm, offered_form, summable_form
from ebm.spaces import Binary, Spins

Steps = tuple[tuple[int, int], ...]
#: The neighbors of a site of a lattice, around it in order, as steps (rows, columns).
SQUARE: Steps = ((0, 1), (1, 0), (0, -1), (-1, 0))
TRIANGULAR: Steps = ((0, 1), (1, 1), (1, 0), (0, -1), (-1, -1), (-1, 0))
#: Share of its terms below which a field is their rounding, which changes ln Z by its square only.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Bonds:
    """E = −Σ_k K_k s_u s_v + c over s = ±1, bonds (u, v) as rows (m, 2)."""

    n: int
    ends: Indices
    couplings: Array
    constant: float


@dataclass(frozen=True, eq=False)
class Drawing:
    """Bonds (m, 2) that lie on a cycle, the half-bonds around each site in order, and faces.

    ``signs`` (sectors, m) are Kasteleyn's: along every face the product of those of its bonds and
    corners is −1. On the torus there are four choices, of which the first has ``factors`` −1.
    """

    ends: Indices
    around: dict[int, list[int]]
    faces: Indices
    signs: Indices
    factors: tuple[int, ...]
    order: list[int]
    bridges: Indices


def bonds_of(model: Any) -> Bonds | str:
    """The bonds of a model of pairs without field, or the sentence why it is none."""
    space = model.space
    if not (offered_form(model) is QuadraticForm and isinstance(space, Binary | Spins)):
        return "it is not a model of pairs of two-valued units"
    low, high = (float(value) for value in space.values)
    form = summable_form(model).folded(space)
    spins = form.substituted((low + high) / 2, (high - low) / 2).at_origin()
    matrix = as_csr(spins.matrix)
    center = 0.0 if form.center is None else np.abs(form.center)
    terms = np.abs(form.vector) + abs(as_csr(form.matrix)) @ np.broadcast_to(
        center + abs(low) + abs(high), space.n
    )
    if (np.abs(spins.vector) > ROUNDING * terms).any():
        return "it has fields, with which there is no such determinant"
    entries = matrix.tocoo()
    upper = (entries.row < entries.col) & (entries.data != 0)
    ends = np.stack([entries.row[upper], entries.col[upper]], axis=1).astype(np.intp)
    return Bonds(space.n, ends, entries.data[upper], float(spins.constant))


def drawn(model: Any) -> tuple[Bonds, Drawing] | str:
    """The bonds of a model and a drawing of them, or the sentence why there is none.

    Bonds that a torus lacks are drawn, too, with couplings of 0.
    """
    bonds = bonds_of(model)
    if isinstance(bonds, str):
        return bonds
    drawing = _drawing(bonds.n, np.ascontiguousarray(bonds.ends, dtype=np.int64).tobytes())
    if drawing is None:
        return (
            "its graph is neither planar nor such a torus, which is found if no bond is missing "
            "and each side has five sites or more, or if units are numbered row by row"
        )
    n_missing = len(drawing.ends) - len(bonds.ends)
    couplings = np.append(bonds.couplings, np.zeros(n_missing))
    return replace(bonds, ends=drawing.ends, couplings=couplings), drawing


@lru_cache(maxsize=8)
def _drawing(n: int, packed: bytes) -> Drawing | None:
    import networkx

    ends = np.frombuffer(packed, dtype=np.int64).reshape(-1, 2)
    if len(ends) > 3 * n:
        return None
    number = {(int(u), int(v)): k for k, (u, v) in enumerate(ends)}
    graph = networkx.Graph(list(number))
    bridges = sorted(number[min(b), max(b)] for b in networkx.bridges(graph))
    graph.remove_edges_from([tuple(ends[k]) for k in bridges])
    is_planar, embedding = networkx.check_planarity(graph)

    def half(u: int, v: int) -> int:
        return 2 * number[min(u, v), max(u, v)] + (u > v)

    if is_planar:
        around = {
            u: [half(u, v) for v in embedding.neighbors_cw_order(u)]
            for u in embedding
            if graph.degree(u)
        }
        return _oriented(ends, around, bridges, None)
    for grid, steps in _grids(n, ends):
        beside = _neighbors(grid, steps)
        pairs = {(min(u, v), max(u, v)) for u, others in beside.items() for v in others}
        if len(pairs) == n * len(steps) // 2 and pairs.issuperset(number):
            missing = sorted(pairs.difference(number))
            ends = np.concatenate([ends, np.array(missing, dtype=np.int64).reshape(-1, 2)])
            number |= {pair: len(number) + k for k, pair in enumerate(missing)}
            around = {u: [half(u, v) for v in others] for u, others in beside.items()}
            return _oriented(ends, around, [], grid)
    return None


def _neighbors(grid: Indices, steps: Steps) -> dict[int, list[int]]:
    """The sites around each one of a torus, in cyclic order."""
    there = np.stack([np.roll(grid, (-a, -b), (0, 1)).ravel() for a, b in steps], axis=1)
    return dict(zip(grid.ravel().tolist(), there.tolist(), strict=True))


def _grids(n: int, ends: Indices) -> Iterator[tuple[Indices, Steps]]:
    """Sites of tori that a graph may be part of, (rows, columns), and which are neighbors."""
    for steps in (SQUARE, TRIANGULAR):
        for rows in range(3, n // 3 + 1):
            if n % rows == 0:
                yield np.arange(n).reshape(rows, n // rows), steps
    if len(ends) in (2 * n, 3 * n):
        steps = SQUARE if len(ends) == 2 * n else TRIANGULAR
        for grid in _walked(n, ends):
            yield grid, steps


def _walked(n: int, ends: Indices) -> Iterator[Indices]:
    """Sites of a whole torus of any numbers, by walks straight on from the first one.

    Two sites on a line, one between them, have no other neighbor in common; two around a corner do.
    """
    beside: list[set[int]] = [set() for _ in range(n)]
    for u, v in ends.tolist():
        beside[u].add(v)
        beside[v].add(u)

    def line(start: int, second: int) -> list[int]:
        """The sites straight on until the walk is back at its start; none if it is lost."""
        walk, site = [start], second
        while site != start and len(walk) < n:
            before = walk[-1]
            ahead = [w for w in beside[site] if beside[before] & beside[w] == {site}]
            if len(ahead) != 1:
                return []
            walk.append(site)
            site = ahead[0]
        return walk

    for right in beside[0]:
        row = line(0, right)
        for down in beside[0].difference(row, beside[right]):
            column = line(0, down)
            if len(row) * len(column) == n and (filled := _filled(beside, row, column)):
                yield np.array(filled)


def _filled(beside: list[set[int]], row: list[int], column: list[int]) -> list[list[int]]:
    """The other sites of a torus, each beside two known ones; none if it is no torus."""
    rows = [row]
    for first in column[1:]:
        above, own = rows[-1], [first]
        for corner, up in pairwise(above):
            other = beside[up] & beside[own[-1]] - {corner}
            if len(other) != 1:
                return []
            own.append(other.pop())
        rows.append(own)
    return rows


def _oriented(
    ends: Indices, around: dict[int, list[int]], bridges: list[int], grid: Indices | None
) -> Drawing:
    """Signs of the bonds by a spanning tree of the faces; on a torus in four sectors."""
    m = len(ends)
    following, corner = np.full(2 * m, -1), np.ones(2 * m, dtype=int)
    place = np.zeros(2 * m, dtype=int)
    for halves in around.values():
        for position, h in enumerate(halves):
            following[h] = halves[(position + 1) % len(halves)]
            corner[h] = 1 if position + 1 < len(halves) else -1
            place[h] = position
    faces = np.full(2 * m, -1)
    product: list[int] = []
    for start in np.flatnonzero(following >= 0):
        if faces[start] >= 0:
            continue
        h, total = int(start), 1
        while faces[h] < 0:
            faces[h] = len(product)
            total *= (-1 if h % 2 else 1) * int(corner[h ^ 1])
            h = int(following[h ^ 1])
        product.append(total)
    signs = np.ones(m, dtype=int)
    wrong = np.array(product) > 0
    beside: dict[int, list[tuple[int, int]]] = {}
    for h in np.flatnonzero(faces >= 0).tolist():
        beside.setdefault(int(faces[h]), []).append((h // 2, int(faces[h ^ 1])))
    parent: dict[int, tuple[int, int]] = {}
    reached, visited = set(), []
    for root in beside:
        if root in reached:
            continue
        reached.add(root)
        queue = [root]
        for face in queue:
            for bond, other in beside[face]:
                if other not in reached:
                    reached.add(other)
                    parent[other] = (bond, face)
                    queue.append(other)
        visited += queue
    for face in reversed(visited):
        if face in parent and wrong[face]:
            bond, other = parent[face]
            signs[bond] *= -1
            wrong[face], wrong[other] = False, not wrong[other]
    if wrong.any():
        raise AssertionError("the faces of a drawing have no consistent orientation")
    sectors: list[Indices] = [signs]
    factors: tuple[int, ...] = (1,)
    if grid is not None:
        sectors, factors = _sectors(ends, signs, place, grid), (-1, 1, 1, 1)
    order = _order(ends, around)
    return Drawing(ends, around, faces, np.array(sectors), factors, order, np.array(bridges, int))


def _sectors(ends: Indices, signs: Indices, place: Indices, grid: Indices) -> list[Indices]:
    """Signs where a loop along either axis counts −1, and with seams across the axes turned."""
    site, half = np.argsort(grid.ravel()), {(u, v): 2 * k for k, (u, v) in enumerate(ends.tolist())}
    loops, seams, columns = list[list[int]](), [], grid.shape[1]
    for axis, at in enumerate((site[ends] // columns, site[ends] % columns)):
        # The loops are the first column and the first row: each crosses one seam once.
        seams.append(np.abs(at[:, 0] - at[:, 1]) > 1)
        units: Any = grid.take(0, 1 - axis).tolist()
        steps = zip(units, units[1:] + units[:1], strict=True)
        loops.append([half[u, v] if u < v else half[v, u] + 1 for u, v in steps])
    base = signs.copy()
    for loop, seam in zip(loops, seams, strict=True):
        product = 1
        for h, after in zip(loop, loop[1:] + loop[:1], strict=True):
            arrived = h ^ 1
            product *= signs[h // 2] * (-1 if h % 2 else 1)
            product *= 1 if place[arrived] < place[after] else -1
        # The sign of the loop alone is −product.
        if product < 0:
            base[seam] *= -1
    turned = [np.where(seam, -1, 1) for seam in seams]
    return [base, base * turned[0], base * turned[1], base * turned[0] * turned[1]]


def _order(ends: Indices, around: dict[int, list[int]]) -> list[int]:
    """An order of sites that few bonds cross: as numbered, by Cuthill and McKee, or greedily."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    sites = sorted(around)
    if not sites:
        return []
    other = {u: [int(ends[h // 2][1 - h % 2]) for h in halves] for u, halves in around.items()}
    at = {u: k for k, u in enumerate(sites)}
    pairs = np.array([(at[u], at[v]) for u in sites for v in other[u]])
    matrix = coo_array((np.ones(len(pairs)), pairs.T), (len(sites), len(sites))).tocsr()
    by_levels = [sites[k] for k in reverse_cuthill_mckee(matrix, symmetric_mode=True)]

    def cost(order: list[int]) -> float:
        position = {u: k for k, u in enumerate(order)}
        open_bonds, total = 0, 0
        for u in order:
            later = sum(position[v] > position[u] for v in other[u])
            total += (open_bonds + len(other[u])) ** 2 * len(other[u])
            open_bonds += 2 * later - len(other[u])
        return total

    return min((sites, by_levels), key=cost)


def work_of(drawing: Drawing) -> tuple[int, float]:
    """Half-bonds held at a time at most, and Σ of their squares over all steps and sectors."""
    seen: set[int] = set()
    width = widest = 0
    total = 0.0
    for u in drawing.order:
        seen.add(u)
        halves = drawing.around[u]
        width += len(halves)
        widest = max(widest, width)
        for h in halves:
            if int(drawing.ends[h // 2][1 - h % 2]) in seen:
                total += float(width) ** 2
                width -= 2
    return widest, total * len(drawing.factors)
