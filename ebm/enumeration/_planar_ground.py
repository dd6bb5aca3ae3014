"""Ground states of two-valued pairs without field on planar graphs and tori, in polynomial time.

With integer couplings and z = e^(−2β), Z z^(Σ|J|/2) = Σ_k g_k z^k, k the couplings not satisfied.
At z = 10^−e the lowest power and its coefficient are read off a sum in decimals of many digits.
"""

from __future__ import annotations

import decimal
import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.enumeration._pfaffian import PfaffianElimination
from ebm.enumeration._planar_graph import Bonds, Drawing, drawn
from ebm.errors import ModelError, PrecisionError

#: Distance from an integer that rounding and the next level may leave.
INTEGRAL = Decimal("1e-6")
#: Largest ratio of couplings that still counts as integers.
LARGEST = 1000


def planar_ground(model: Any) -> tuple[float, int]:
    """The lowest energy and the number of states that have it, exact for integer multiples J.

    ModelError where the model has fields, is neither planar nor a torus, or has couplings that are
    no multiples of one unit.
    """
    bonds, drawing = _required(model)
    unit, sizes = _integers(bonds.couplings)
    exponent = 50 + bonds.n // 50
    for _ in range(4):
        found = _lowest(bonds, drawing, sizes, exponent)
        if found is not None:
            unsatisfied, number = found
            lowest = bonds.constant + unit * float(2 * unsatisfied - np.abs(sizes).sum())
            return lowest, number
        exponent *= 2
    raise PrecisionError(
        f"{10 * exponent} digits do not tell the number of ground states of {bonds.n} units: "
        "ebm.enumeration._planar_ground.planar_ground_state has the energy alone"
    )


def planar_ground_state(model: Any) -> tuple[Array, float]:
    """A state of lowest energy by a lightest matching of frustrated faces, and its energy.

    ModelError as for :func:`planar_ground`, and on a torus, where no matching answers it.
    """
    bonds, drawing = _required(model)
    if len(drawing.factors) > 1:
        raise ModelError("on a torus the lightest matching may wind around it: it proves no state")
    spins = _spins(bonds, _unsatisfied(bonds, drawing))
    low, high = model.space.values
    states = np.where(spins > 0, high, low)
    energy = bonds.constant - float(
        bonds.couplings @ (spins[bonds.ends[:, 0]] * spins[bonds.ends[:, 1]])
    )
    return states, energy


def _required(model: Any) -> tuple[Bonds, Drawing]:
    on_the_plane = drawn(model)
    if isinstance(on_the_plane, str):
        raise ModelError(
            "ground states by determinants need pairs without field on a planar graph or on a "
            f"square or triangular lattice on the torus: {on_the_plane}"
        )
    return on_the_plane


def _integers(couplings: Array) -> tuple[float, Indices]:
    """A unit and the couplings in it, as integers."""
    if not couplings.any():
        return 1.0, np.zeros(len(couplings), dtype=int)
    least = float(np.abs(couplings[couplings != 0]).min())
    for divisor in range(1, 13):
        ratios = couplings / (least / divisor)
        sizes = np.rint(ratios)
        # A sum of such couplings in floating point must still tell the levels apart.
        if (np.abs(ratios - sizes) <= 1e-12 * np.abs(sizes)).all():
            if np.abs(sizes).max() > LARGEST:
                break
            return float(np.abs(couplings).max() / np.abs(sizes).max()), sizes.astype(int)
    raise ModelError(
        "numbers of ground states need couplings that are small integer multiples of one unit, as "
        "±J: others have one pair of ground states unless energies happen to be equal"
    )


def _lowest(
    bonds: Bonds, drawing: Drawing, sizes: Indices, exponent: int
) -> tuple[int, int] | None:
    """The lowest power k of z and g_k; None where the digits do not suffice."""
    with decimal.localcontext(prec=10 * exponent, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX):
        z = Decimal(10) ** -exponent
        powers = np.array([z ** int(abs(j)) for j in sizes], dtype=object)
        signs = np.array([1 if j > 0 else -1 for j in sizes], dtype=object)
        total = Decimal(0)
        if len(sizes):
            odd = signs * (1 - powers) / (1 + powers)
            one: Any = np.full(len(sizes), Decimal(1), dtype=object)
            for factor, orientation in zip(drawing.factors, drawing.signs, strict=True):
                elimination = PfaffianElimination(drawing, orientation, odd, one)
                total += factor * elimination.sign * abs(math.prod(elimination.pivots))
        else:
            total = Decimal(1)
        if len(drawing.factors) > 1:
            total /= 2
        total *= Decimal(2) ** (bonds.n - len(sizes)) * math.prod(1 + powers)
        if total <= 0:
            return None
        lowest = max(0, -total.adjusted() // exponent)
        for k in (lowest - 1, lowest, lowest + 1):
            number = total / z**k if k >= 0 else Decimal(0)
            if number > Decimal("0.5"):
                nearest = number.to_integral_value()
                return (k, int(nearest)) if abs(number - nearest) < INTEGRAL else None
    return None


def _unsatisfied(bonds: Bonds, drawing: Drawing) -> Indices:
    """Bonds of the lightest set whose ends, among the faces, are the frustrated ones."""
    import networkx

    faces, weights = drawing.faces, np.abs(bonds.couplings)
    dual = networkx.Graph()
    for k in np.flatnonzero(faces[::2] >= 0) if len(faces) else []:
        f, g = int(faces[2 * k]), int(faces[2 * k + 1])
        if not dual.has_edge(f, g) or dual[f][g]["weight"] > weights[k]:
            dual.add_edge(f, g, weight=float(weights[k]), bond=int(k))
    negative = np.zeros(1 + max(dual, default=0), dtype=int)
    for h in np.flatnonzero(faces >= 0):
        negative[faces[h]] += bonds.couplings[h // 2] < 0
    chosen: set[int] = set()
    for part in networkx.connected_components(dual):
        graph = dual.subgraph(part)
        hub = max(part, key=lambda f: (np.count_nonzero(faces == f), -f))
        frustrated = sorted(f for f in part if negative[f] % 2 and f != hub)
        out, routes_out = networkx.single_source_dijkstra(graph, hub)
        matching, routes = networkx.Graph(), {}
        for f in frustrated:
            matching.add_edge(f, ("out", f), weight=out[f])
            near, ways = networkx.single_source_dijkstra(
                graph, f, cutoff=out[f] + max((out[g] for g in frustrated), default=0.0)
            )
            for g in frustrated:
                # Longer ways between two faces are never better than both ways to the hub.
                if g < f and near.get(g, math.inf) < out[f] + out[g]:
                    matching.add_edge(f, g, weight=near[g])
                    matching.add_edge(("out", f), ("out", g), weight=0.0)
                    routes[f, g] = ways[g]
        for a, b in networkx.min_weight_matching(matching):
            if isinstance(a, tuple) and isinstance(b, tuple):
                continue
            if isinstance(a, tuple) or isinstance(b, tuple):
                route = routes_out[b if isinstance(a, tuple) else a]
            else:
                route = routes[max(a, b), min(a, b)]
            for f, g in itertools.pairwise(route):
                chosen ^= {graph[f][g]["bond"]}
    return np.array(sorted(chosen), dtype=np.intp)


def _spins(bonds: Bonds, unsatisfied: Indices) -> Array:
    """Spins that satisfy all bonds but these."""
    wanted = np.where(bonds.couplings > 0, 1, -1)
    wanted[unsatisfied] *= -1
    beside: dict[int, list[tuple[int, int]]] = {u: [] for u in range(bonds.n)}
    for (u, v), sign in zip(bonds.ends.tolist(), wanted.tolist(), strict=True):
        beside[u].append((v, sign))
        beside[v].append((u, sign))
    spins = np.zeros(bonds.n)
    for root in range(bonds.n):
        if spins[root]:
            continue
        spins[root] = 1
        stack = [root]
        while stack:
            u = stack.pop()
            for v, sign in beside[u]:
                if not spins[v]:
                    spins[v] = sign * spins[u]
                    stack.append(v)
    return spins
