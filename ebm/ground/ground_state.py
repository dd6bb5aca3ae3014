"""The function :func:`ebm.ground_state`: states of least energy, by elimination or by search."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ebm._arrays import as_integer
from ebm._randomness import RandomSource
from ebm._summary import MOST_ROWS, Summarized, Summary
from ebm._text import written_state
from ebm._types import Array
from ebm.enumeration._elimination_plan import EliminationPlan
from ebm.enumeration._limits import SECONDS_BY_STREAMING, Limits, describe_size, number_of_states
from ebm.enumeration._planar import why_not_planar
from ebm.enumeration._planar_graph import drawn
from ebm.enumeration._planar_ground import planar_ground, planar_ground_state
from ebm.errors import EbmError, EnumerationLimitError, ModelError, PrecisionError
from ebm.forms import ROUNDING
from ebm.ground._ladders import searched
from ebm.ground._removal import TIE, bytes_of_least, least, seconds_of_least
from ebm.ground._term_tables import energy_tables
from ebm.model import EnergyModel, checked_energy, checked_space
from ebm.spaces import FiniteSpace

__all__ = ["GroundState", "SearchRecord", "ground_state"]

#: Seconds of a matching and a Pfaffian in decimals, by the square of the number of units.
SECONDS_BY_PAIR_OF_UNITS = 5e-5
#: States that are listed at most where all were seen.
MOST_LISTED = 1000


@dataclass(frozen=True)
class SearchRecord:
    """How often independent searches met the least energy that any of them met.

    Parameters
    ----------
    n_runs : int
        Number of independent ladders of tempered chains, each quenched at its end.
    n_met : int
        How many of them met the least energy, within ``tolerance`` of the ground state.
    energies : ndarray, (n_runs,)
        The least energy that each met, in units of k_B T.

    Examples
    --------
    >>> import ebm
    >>> torus = ebm.from_graph(ebm.lattice((4, 4)))
    >>> ebm.ground_state(torus, method="search", n_runs=8, rng=0).record
    SearchRecord(n_runs=8, n_met=8)
    """

    n_runs: int
    n_met: int
    energies: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class GroundState(Summarized):
    """States of least energy; made by :func:`ebm.ground_state`.

    Parameters
    ----------
    energy : float
        The energy E of the states, in units of k_B T.
    states : ndarray, (m, n)
        States that have it, in the coding of ``space``, and all of them only where m is
        ``degeneracy``: at least one, but on tori, where the energy is proven without a state, none
        if searches meet none.
    degeneracy : int or None
        How many states have this energy, a Python integer of any size; None where it is not known.
    is_proven : bool
        Whether no state has a lower energy.
    route : str
        How the states were found.
    space : FiniteSpace
        The space of the states, with the names of the units.
    tolerance : float
        Energies that differ by no more count as equal; 0 where they are compared as integers.
    record : SearchRecord or None
        How often the energy was met, where it was searched for.

    Examples
    --------
    >>> import ebm
    >>> ebm.ground_state(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "b"]))
    GroundState(energy=-1.5, degeneracy=1, proven, by elimination of width 1 along the units as
    numbered, Spins(n=2, names=('a', 'b')))
    """

    energy: float
    states: Array
    degeneracy: int | None
    is_proven: bool
    route: str
    space: FiniteSpace
    tolerance: float = 0.0
    record: SearchRecord | None = None

    def __repr__(self) -> str:
        number = "unknown" if self.degeneracy is None else self.degeneracy
        proof = "proven" if self.is_proven else "not proven"
        return (
            f"GroundState(energy={self.energy:.12g}, degeneracy={number}, {proof}, "
            f"by {self.route}, {self.space!r})"
        )

    def _summary(self) -> Summary:
        proof = "proven" if self.is_proven else "not proven: no lower one was met"
        number = "unknown" if self.degeneracy is None else str(self.degeneracy)
        values = (
            ("energy", f"{self.energy:.12g} k_B T, {proof}"),
            ("states of this energy", number),
            ("by", self.route),
        )
        rows = tuple((written_state(state),) for state in self.states[:MOST_ROWS])
        return Summary("GroundState", values, ("state",), rows, len(self.states))


def ground_state(
    model: EnergyModel,
    *,
    method: Literal["elimination", "planar", "states", "search"] | None = None,
    n_runs: int = 32,
    rng: RandomSource = None,
    max_seconds: float = 60.0,
    max_memory: float = 4 * 2.0**30,
) -> GroundState:
    """The least energy E₀ = min_x E(x) of a finite model, a state that has it, and how many do.

    Where the graph of the model is narrow its units are removed one by one, each leaving the table
    min_x Σ E over the units beside it with the number of states that reach it
    :cite:`bertele1972`: exact, for pairs, terms of any size and levels. Pairs without field on a
    planar graph have a state by a lightest matching of frustrated faces, and where couplings are
    multiples of one number the degeneracy by a Pfaffian; on a torus the Pfaffian proves the energy,
    and a search finds a state of it. Elsewhere tempered chains are quenched, and the answer says
    that nothing proves it and how often it was met.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space.
    method : {"elimination", "planar", "states", "search"}, optional
        Elimination, a matching and a Pfaffian, a pass over all states, or a search; by default the
        first that the limits allow.
    n_runs : int
        Number of independent searches, where there are any.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of a search.
    max_seconds : float
        Exact work that would take more seconds is not begun.
    max_memory : float
        Exact work that would take more bytes is not begun.

    Returns
    -------
    GroundState
        The energy, states, degeneracy, and whether they are proven.

    Raises
    ------
    ModelError
        If the space is not finite, or the model is none of the kind that ``method`` asks for.
    EnumerationLimitError
        If an exact ``method`` is asked for that exceeds a limit.

    Notes
    -----
    Energies that are multiples of one number, such as ±J, are compared as integers. Others are the
    same in a step where they differ by at most ``tolerance``, 10⁻¹³ of the sum of all terms; a
    degeneracy above 1 is then one up to rounding.

    Examples
    --------
    >>> import ebm
    >>> torus = ebm.from_graph(ebm.lattice((4, 4)))
    >>> ground = ebm.ground_state(torus)
    >>> ground.energy, ground.degeneracy, ground.is_proven
    (-32.0, 2, True)
    """
    n_runs = as_integer(n_runs, "n_runs")
    if method not in (None, "elimination", "planar", "states", "search"):
        raise EbmError(
            f"method must be 'elimination', 'planar', 'states' or 'search', got {method!r}: leave "
            "it out for the first of them that the limits allow"
        )
    limits, space = Limits(max_seconds, max_memory), checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(
            f"ground_state needs a finite space, {type(model).__name__} lives on {space!r}"
        )
    refusals: list[str] = []
    for exact in (_by_elimination, _by_planar, _by_states):
        if method in (None, exact.__name__.removeprefix("_by_")):
            try:
                answer = exact(model, space, limits)
            except EnumerationLimitError as refusal:
                if method is not None:
                    raise
                refusals.append(str(refusal).partition(":")[0])
                continue
            if answer is not None:
                return answer if len(answer.states) else _met(answer, model, n_runs, rng)
            if method is not None:
                reason = (
                    why_not_planar(model)
                    if method == "planar"
                    else f"{type(model).__name__} has no terms over few units to eliminate"
                )
                raise ModelError(f"{reason}: try method='states' or method='search'")
    states, energy, energies, tolerance = searched(model, space, n_runs, rng)
    record = SearchRecord(n_runs, int((energies <= energy + tolerance).sum()), energies)
    route = f"a search by {n_runs} ladders of tempered chains, of which {record.n_met} met it"
    return GroundState(energy, states, None, False, route, space, tolerance, record)


def _by_elimination(model: EnergyModel, space: FiniteSpace, limits: Limits) -> GroundState | None:
    """The ground state of a model of terms; None of another one."""
    tables = energy_tables(model, space)
    if tables is None:
        return None
    plan = tables.plan
    require_narrow(plan, limits, seconds_of_least(plan), bytes_of_least(plan), "method='search'")
    answer = least(tables)
    states = space.states(answer.levels[None])
    energy = float(checked_energy(model, states)[0])
    # The least sum and its state come from different passes: together they are a certificate.
    total = tables.energy(answer.total)
    if not abs(energy - total) <= ROUNDING * max(1.0, tables.size, abs(total)):
        raise ModelError(
            f"{type(model).__name__} gives the state of least energy {energy:.12g}, its form "
            f"{total:.12g}: both must be the same energy"
        )
    tolerance = 0.0 if tables.unit is not None else TIE * tables.size
    route = f"elimination of width {plan.order.width:.3g} along {plan.order.how}"
    return GroundState(energy, states, answer.number, True, route, space, tolerance)


def _by_planar(model: EnergyModel, space: FiniteSpace, limits: Limits) -> GroundState | None:
    """The ground state of pairs without field on a plane or a torus; None of another model.

    A lightest matching of frustrated faces on a plane has a state, a Pfaffian has the degeneracy of
    couplings that are multiples of one number. On a torus the Pfaffian has the energy, no state.
    """
    on_the_plane = drawn(model)
    if isinstance(on_the_plane, str):
        return None
    bonds, drawing = on_the_plane
    limits.require(
        f"a matching and a Pfaffian of {space.n} units",
        SECONDS_BY_PAIR_OF_UNITS * space.n**2,
        0.0,
        "take method='search'",
    )
    energy, number, states = None, None, np.empty((0, space.n))
    with suppress(ModelError, PrecisionError):
        energy, number = planar_ground(model)
    route = "a Pfaffian in decimals"
    if len(drawing.factors) == 1:
        state, energy = planar_ground_state(model)
        states = state[None]
        route = "a lightest matching" + ("" if number is None else " and a Pfaffian in decimals")
    if energy is None:
        return None
    is_counted = number is not None
    tolerance = TIE * float(np.abs(bonds.couplings).sum())
    return GroundState(energy, states, number, True, route, space, 0.0 if is_counted else tolerance)


def _met(answer: GroundState, model: EnergyModel, n_runs: int, rng: RandomSource) -> GroundState:
    """A proven energy with the states of a search, if it meets that energy."""
    states, energy, energies, tolerance = searched(model, answer.space, n_runs, rng)
    is_met = energies <= answer.energy + tolerance
    record = SearchRecord(n_runs, int(is_met.sum()), energies)
    route = f"{answer.route}, a state of it by {n_runs} ladders of tempered chains"
    if energy > answer.energy + tolerance:
        states, route = states[:0], f"{answer.route}; {n_runs} ladders met no state of it"
    return replace(answer, states=states, route=route, record=record)


def _by_states(model: EnergyModel, space: FiniteSpace, limits: Limits) -> GroundState:
    """The ground states from a pass over all states."""
    size = number_of_states(space)
    limits.require(
        f"a pass over {describe_size(space)}",
        SECONDS_BY_STREAMING * size,
        0.0,
        "take method='search', which proves nothing",
    )
    energy, number, scale = np.inf, 0, 0.0
    states: Any = np.empty((0, space.n))
    for block in space.enumerate():
        energies = checked_energy(model, block)
        finite = np.abs(energies[np.isfinite(energies)])
        scale = max(scale, float(finite.max(initial=0.0)))
        lowest = float(energies.min())
        if lowest < energy - TIE * scale:
            energy, number, states = lowest, 0, states[:0]
        if lowest <= energy + TIE * scale:
            ties = np.flatnonzero(energies <= energy + TIE * scale)
            number += len(ties)
            states = np.concatenate([states, block[ties]])[:MOST_LISTED]
    if not np.isfinite(energy):
        raise ModelError("every state has energy +inf: there is no ground state")
    return GroundState(
        energy, states, number, True, f"a pass over {describe_size(space)}", space, TIE * scale
    )


def require_narrow(
    plan: EliminationPlan, limits: Limits, seconds: float, n_bytes: float, instead: str
) -> None:
    """Refuse an elimination whose tables are too large, before any is made."""
    width, n = plan.order.width, len(plan.n_values)
    if not np.isfinite(width):
        raise EnumerationLimitError(
            f"elimination of {n} units has tables of more than 2^62 entries: take {instead}"
        )
    limits.require(
        f"elimination of {n} units in tables of 2^{width:.3g} entries",
        seconds,
        n_bytes,
        f"take {instead}",
    )
