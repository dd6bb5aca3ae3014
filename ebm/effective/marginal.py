"""Effective energies: units summed out exactly, what is left a model again; [EBM] §2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer
from ebm._types import Array
from ebm.effective._kept_units import kept_positions
from ebm.effective._traced_groups import TraceByEnergy, TraceByProducts
from ebm.enumeration._limits import describe_size, number_of_states
from ebm.enumeration._log_weights import Parts, Resolved
from ebm.errors import EnumerationLimitError, ModelError
from ebm.forms import QuadraticForm, offered_form
from ebm.model import EnergyModel, checked_space
from ebm.models import InteractionModel
from ebm.perturbation._costs import require_within
from ebm.spaces import Binary, FiniteSpace, Spins

__all__ = ["MarginalModel", "marginalize"]


#: Joint states of kept and traced units held at a time.
CHUNK = 2**18
#: Bytes of one interaction, and seconds to add or subtract one energy.
BYTES_PER_TERM = 400.0
SECONDS_PER_SUM = 1e-6
#: What one energy, and all interactions, may take.
MOST_SECONDS, MOST_BYTES = 60.0, 4 * 2.0**30


def marginalize(model: EnergyModel, keep: Sequence[int] | Sequence[str]) -> MarginalModel:
    """Sum units out: E_eff(v) = −ln Σ_h exp(−E(v, h)), [EBM] eq 8, exactly.

    All constants are kept: p(v) ∝ exp(−E_eff(v)) with the same ln Z as the joint model (Theorem 7).

    Parameters
    ----------
    model : EnergyModel
        Over a finite space. In a pairwise model traced units that do not interact given the kept
        ones are summed separately, so that a layer of m hidden units costs 2m terms, not 2^m; of
        another model every state of the traced units is visited.
    keep : sequence of int or str
        The units to keep, by number or by name, in the order wanted. Of a restricted machine the
        units are the visible ones; ``rbm.joint()`` has those of both layers.

    Returns
    -------
    MarginalModel
        A model of the kept units.

    Raises
    ------
    ModelError
        If the space is not finite.
    ShapeError
        If ``keep`` is no sequence of different units.
    NamesError
        If a name is not there.
    EnumerationLimitError
        If one energy would take longer than 60 s, or more than 4 GiB.

    Examples
    --------
    >>> import ebm
    >>> chain = ebm.IsingModel([[0, 0, 0.9], [0, 0, 0.7], [0.9, 0.7, 0]], [0, 0, 0])
    >>> marginal = ebm.marginalize(chain, keep=[0, 1])
    >>> round(marginal.interactions().terms[0, 1], 6)
    0.463469
    """
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"units of a finite space can be summed out, not of {space!r}")
    kept = kept_positions(keep, model)
    narrowed = getattr(model, "narrowed", None)
    return MarginalModel(model, kept) if narrowed is None else narrowed(kept)


@dataclass(frozen=True, eq=False, repr=False)
class MarginalModel(EnergyModel):
    """Some units of a model, the others summed out; made by :func:`marginalize`.

    Parameters
    ----------
    model : EnergyModel
        The joint model.
    keep : tuple of int
        Its units that are kept, in the order of ``space``.
    """

    model: EnergyModel
    keep: tuple[int, ...]
    space: FiniteSpace = field(init=False)

    def __post_init__(self) -> None:
        joint: Any = self.model.space
        names = joint.names and tuple(joint.names[i] for i in self.keep)
        object.__setattr__(self, "space", replace(joint, n=len(self.keep), names=names))
        traced = replace(joint, n=max(1, joint.n - len(self.keep)), names=None)
        _require_feasible(
            f"summing out {describe_size(traced)} for each state of the kept units",
            self._trace.seconds,
            8.0 * CHUNK * joint.n,
            "keep more units",
        )

    def narrowed(self, kept: tuple[int, ...]) -> MarginalModel:
        """Some of the kept units, by their places, the others summed out as well."""
        return MarginalModel(self.model, tuple(self.keep[i] for i in kept))

    def __repr__(self) -> str:
        return f"MarginalModel({self.model!r}, keep={self.keep})"

    @cached_property
    def _trace(self) -> TraceByProducts | TraceByEnergy:
        kept = np.array(self.keep, dtype=np.intp)
        traced = np.setdiff1d(np.arange(self.model.space.n), kept)
        trace = TraceByProducts if offered_form(self.model) is QuadraticForm else TraceByEnergy
        return trace(self.model, kept, traced)

    def energy(self, states: ArrayLike) -> Array:
        """Effective energy −ln Σ_h exp(−E(v, h)) of each state, (..., n) -> (...).

        Parameters
        ----------
        states : array_like, (..., n)
            States of the kept units.

        Returns
        -------
        ndarray, (...)
            In units of k_B T; ``+inf`` where the joint model forbids every completion.
        """
        rows = max(1, CHUNK // self._trace.n_terms)

        def energies(v: Array) -> Array:
            flat = v.reshape(-1, self.space.n)
            parts = [self._trace.energy(flat[k : k + rows]) for k in range(0, len(flat), rows)]
            return np.concatenate([np.empty(0), *parts]).reshape(v.shape[:-1])

        return self.space.map(energies, states)

    def resolved_log_weights(self) -> Resolved | None:
        """Log weights whose differences are exact, where energies are too large for plain sums."""
        trace = self._trace.resolved()
        if trace is None:
            return None

        def log_weights(states: Array) -> Parts:
            rows = max(1, CHUNK // self._trace.n_terms)
            parts = [trace.log_weights(states[k : k + rows]) for k in range(0, len(states), rows)]
            return Parts(*(np.concatenate(part) for part in zip(*parts, strict=True)))

        return Resolved(log_weights, trace.constant, trace.resolution)

    def scaled(self, beta: float) -> MarginalModel:
        """The marginal of the joint model at β times its energy; not β times this energy.

        Parameters
        ----------
        beta : float
            Factor of the joint energy.

        Returns
        -------
        MarginalModel
            Of the same units.

        Raises
        ------
        ModelError
            If the joint model has no ``scaled``.
        """
        if not callable(getattr(self.model, "scaled", None)):
            raise ModelError(f"{type(self.model).__name__} must have a method scaled(beta)")
        joint: Any = self.model
        return MarginalModel(joint.scaled(beta), self.keep)

    def interactions(self, max_order: int | None = None) -> InteractionModel:
        """The effective energy as interactions of 1, 2, … units, exact at full order.

        Inclusion–exclusion: over {0,1} J_A = −Σ_{B⊆A} (−1)^{|A|−|B|} E(1_B), over ±1
        J_A = −⟨E(s) Π_{i∈A} s_i⟩ over all s alike.

        Parameters
        ----------
        max_order : int, optional
            Leave out terms of more units; None keeps all 2^n. Over {0,1} the truncated model is
            right wherever at most so many units are 1, and only those states are visited; over ±1
            it is the least-squares fit to the energies.

        Returns
        -------
        InteractionModel
            E_eff = −Σ_A J_A Π_{i∈A} x_i + offset.

        Raises
        ------
        ModelError
            If the units have more than two values, or an energy is ``+inf``.
        ShapeError
            If ``max_order`` is not a positive integer.
        EnumerationLimitError
            If there are too many.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[0.9], [0.7]], [0, 0], [-0.3])
        >>> pair = ebm.marginalize(machine, keep=[0, 1]).interactions()
        >>> {units: round(value, 6) for units, value in pair.terms.items()}
        {(0,): 0.483133, (1,): 0.35866, (0, 1): 0.14486}
        """
        n = self.space.n
        if not isinstance(self.space, Binary | Spins):
            raise ModelError(f"interactions are those of two-valued units, not of {self.space!r}")
        order = n if max_order is None else min(as_integer(max_order, "max_order"), n)
        if isinstance(self.space, Binary) and order < n:
            coefficients = self._by_subsets(order)
        else:
            coefficients = self._by_transform(order)
        offset = -coefficients.pop(())
        return InteractionModel(coefficients, self.space, offset=offset)

    def _by_transform(self, order: int) -> dict[tuple[int, ...], float]:
        """Coefficients from the energies of all states."""
        n = self.space.n
        size = number_of_states(self.space)
        self._require_interactions(describe_size(self.space), size, size)
        table = -self._energies(self.space.states_at(np.arange(2**n)))
        for unit in range(n):
            # The unit at its first and at its second value.
            pair = table.reshape(2**unit, 2, -1)
            low, high = pair[:, 0], pair[:, 1]
            if isinstance(self.space, Binary):
                high -= low
            else:
                pair[:] = np.stack([(low + high) / 2, (high - low) / 2], axis=1)
        return {
            subset: float(table[sum(2 ** (n - 1 - unit) for unit in subset)])
            for subset in _subsets(n, order)
        }

    def _by_subsets(self, order: int) -> dict[tuple[int, ...], float]:
        """Coefficients over {0,1} from the states with at most ``order`` units at 1."""
        n = self.space.n
        count = sum(math.comb(n, size) for size in range(order + 1))
        what = f"{count} subsets of the {n} units"
        self._require_interactions(what, float(count), float(count) * 2**order)
        subsets = list(_subsets(n, order))
        states = np.zeros((len(subsets), n))
        for row, subset in zip(states, subsets, strict=True):
            row[list(subset)] = 1
        coefficients: dict[tuple[int, ...], float] = {}
        for subset, energy in zip(subsets, self._energies(states).tolist(), strict=True):
            below = (part for size in range(len(subset)) for part in combinations(subset, size))
            coefficients[subset] = -energy - math.fsum(coefficients[part] for part in below)
        return coefficients

    def _require_interactions(self, what: str, n_energies: float, n_sums: float) -> None:
        _require_feasible(
            f"the interactions of {what}",
            n_energies * self._trace.seconds + n_sums * SECONDS_PER_SUM,
            n_energies * BYTES_PER_TERM,
            "give a smaller max_order, or keep fewer units",
        )

    def _energies(self, states: Array) -> Array:
        energies = self.energy(states)
        if not np.isfinite(energies).all():
            raise ModelError("interactions are finite, but some states have energy +inf")
        return energies


def _require_feasible(what: str, seconds: float, n_bytes: float, remedy: str) -> None:
    require_within(
        what,
        seconds,
        n_bytes,
        remedy,
        max_seconds=MOST_SECONDS,
        max_bytes=MOST_BYTES,
        error=EnumerationLimitError,
    )


def _subsets(n: int, order: int) -> Iterator[tuple[int, ...]]:
    """Subsets of n units by size, then in lexicographic order; the empty one first."""
    for size in range(order + 1):
        yield from combinations(range(n), size)
