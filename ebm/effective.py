"""Effective energies: units summed out exactly, what is left a model again; [EBM] §2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.enumeration.limits import Limits, describe_size, number_of_states
from ebm.errors import ModelError, NamesError, ShapeError
from ebm.model import EnergyModel, checked_energy, checked_form, checked_space, is_pairwise
from ebm.models import InteractionModel
from ebm.spaces import Binary, FiniteSpace, Spins

__all__ = ["MarginalModel", "marginalize"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Joint states of kept and traced units held at a time, and traced ones among them.
CHUNK = 2**18
TRACED_CHUNK = 2**10
#: Seconds for one joint state, by matrix products and through ``energy``.
SECONDS_BY_PRODUCTS = 1e-8
SECONDS_BY_ENERGY = 2e-7


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

    Notes
    -----
    Raises :class:`ebm.errors.EnumerationLimitError` when one energy would take too long, and
    :class:`ebm.errors.ShapeError` or :class:`ebm.errors.NamesError` for units that are not there.

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
    kept = _positions(keep, space)
    if isinstance(model, MarginalModel):
        return MarginalModel(model.model, tuple(model.keep[i] for i in kept))
    return MarginalModel(model, kept)


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
        Limits().require(
            f"summing out {describe_size(traced)} for each state of the kept units",
            self._trace.seconds,
            8.0 * CHUNK * joint.n,
            "keep more units",
        )

    def __repr__(self) -> str:
        return f"MarginalModel({self.model!r}, keep={self.keep})"

    @cached_property
    def _trace(self) -> _ByProducts | _ByEnergy:
        kept = np.array(self.keep, dtype=np.intp)
        traced = np.setdiff1d(np.arange(self.model.space.n), kept)
        return (_ByProducts if is_pairwise(self.model) else _ByEnergy)(self.model, kept, traced)

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
        v = self.space.check(states)
        flat = v.reshape(-1, self.space.n)
        rows = max(1, CHUNK // self._trace.n_terms)
        parts = [self._trace.energy(flat[k : k + rows]) for k in range(0, len(flat), rows)]
        return np.concatenate([np.empty(0), *parts]).reshape(v.shape[:-1])

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

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.RestrictedBoltzmannMachine([[3.6], [2.8]], [0, 0], [-0.3])
        >>> pair = ebm.marginalize(machine, [0, 1]).interactions()
        >>> [(units, round(value, 4)) for units, value in pair.terms.items()]
        [((0,), 2.7568), ((1,), 2.0252), ((0, 1), 0.7669)]
        """
        n = self.space.n
        if not isinstance(self.space, Binary | Spins):
            raise ModelError(f"interactions are those of two-valued units, not of {self.space!r}")
        if max_order is None:
            max_order = n
        if isinstance(max_order, bool) or not hasattr(max_order, "__index__") or max_order < 1:
            raise ShapeError(f"max_order must be a positive integer or None, got {max_order!r}")
        order = min(int(max_order), n)
        if isinstance(self.space, Binary) and order < n:
            coefficients = self._by_subsets(order)
        else:
            coefficients = self._by_transform(order)
        offset = -coefficients.pop(())
        return InteractionModel(coefficients, self.space, offset=offset)

    def _by_transform(self, order: int) -> dict[tuple[int, ...], float]:
        """Coefficients from the energies of all states."""
        n = self.space.n
        self._require_energies(number_of_states(self.space), describe_size(self.space))
        table = -self._energies(self.space.states_at(np.arange(2**n))).reshape((2,) * n)
        for axis in range(n):
            low, high = np.moveaxis(table, axis, 0)
            pair = [low, high - low] if isinstance(self.space, Binary) else [low + high, high - low]
            table = np.stack(pair, axis)
        if isinstance(self.space, Spins):
            table = table / 2**n
        units = np.arange(n)
        return {
            subset: float(table[tuple(np.isin(units, subset).astype(int))])
            for subset in _subsets(n, order)
        }

    def _by_subsets(self, order: int) -> dict[tuple[int, ...], float]:
        """Coefficients over {0,1} from the states with at most ``order`` units at 1."""
        n = self.space.n
        count = sum(math.comb(n, size) for size in range(order + 1))
        self._require_energies(float(count) * 2**order, f"{count} subsets of the {n} units")
        subsets = list(_subsets(n, order))
        states = np.zeros((len(subsets), n))
        for row, subset in zip(states, subsets, strict=True):
            row[list(subset)] = 1
        coefficients: dict[tuple[int, ...], float] = {}
        for subset, energy in zip(subsets, self._energies(states).tolist(), strict=True):
            below = (part for size in range(len(subset)) for part in combinations(subset, size))
            coefficients[subset] = -energy - math.fsum(coefficients[part] for part in below)
        return coefficients

    def _require_energies(self, count: float, what: str) -> None:
        seconds = count * (self._trace.seconds + SECONDS_BY_ENERGY)
        Limits().require(
            f"the interactions of {what}", seconds, 400 * count, "give a smaller max_order"
        )

    def _energies(self, states: Array) -> Array:
        energies = self.energy(states)
        if not np.isfinite(energies).all():
            raise ModelError("interactions are finite, but some states have energy +inf")
        return energies


class _ByProducts:
    """Traced units of a pairwise model, each group that hangs together summed on its own.

    With f the features of the kept units and g those of a group, exp(−E) is summed over g at
    field f A_kg: a matrix product for all kept states and all states of equally large groups.
    """

    def __init__(self, model: Any, kept: Indices, traced: Indices) -> None:
        self._space: Any = model.space
        form = checked_form(model, self._space)
        self._width = self._space.value_features.shape[1]
        rows = self._features(kept)
        self._own = form.matrix[np.ix_(rows, rows)]
        self._vector, self._constant = form.vector[rows], form.constant
        self._groups = []
        for units in self._groups_of_one_size(form.matrix, traced):
            columns = self._features(units.ravel()).reshape(len(units), -1)
            inside = np.stack([form.matrix[np.ix_(c, c)] for c in columns])
            self._groups.append((form.matrix[rows][:, columns], inside, form.vector[columns]))
        q = len(self._space.values)
        sizes = [(len(inside), inside.shape[1] // self._width) for _, inside, _ in self._groups]
        self.seconds = SECONDS_BY_PRODUCTS * sum(count * float(q) ** k for count, k in sizes)
        self.n_terms = max((n * min(q**k, TRACED_CHUNK) for n, k in sizes), default=1)

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        f = self._kept_space(states.shape[1]).features(states)
        energies = self._constant - f @ self._vector - 0.5 * ((f @ self._own) * f).sum(axis=1)
        for across, inside, vector in self._groups:
            log_sums = np.full((len(f), len(inside)), -np.inf)
            for g in self._tables(inside.shape[1] // self._width):
                own = vector @ g.T + 0.5 * np.einsum("tc,kcd,td->kt", g, inside, g)
                logs = f @ (across @ g.T).reshape(f.shape[1], -1)
                logs = logs.reshape(len(f), *own.shape) + own
                top = logs.max(axis=2)
                part = np.log(np.exp(logs - top[:, :, None]).sum(axis=2)) + top
                log_sums = np.logaddexp(log_sums, part)
            energies -= log_sums.sum(axis=1)
        return np.asarray(energies)

    def _groups_of_one_size(self, matrix: Array, traced: Indices) -> Iterator[Indices]:
        """Traced units that interact, directly or through others: (n_groups, size) for each size."""
        if not len(traced):
            return
        from scipy.sparse.csgraph import connected_components

        n = self._space.n
        linked = np.abs(matrix).reshape(n, self._width, n, self._width).max(axis=(1, 3)) > 0
        _, labels = connected_components(linked[np.ix_(traced, traced)], directed=False)
        groups = [traced[labels == label] for label in range(labels.max() + 1)]
        for size in sorted({len(group) for group in groups}):
            yield np.stack([group for group in groups if len(group) == size])

    def _tables(self, size: int) -> Iterator[Array]:
        """Features of all states of ``size`` units, some at a time."""
        space = self._kept_space(size)
        for states in space.enumerate(TRACED_CHUNK):
            yield space.features(states)

    def _kept_space(self, n: int) -> Any:
        return replace(self._space, n=n, names=None)

    def _features(self, units: Indices) -> Indices:
        return (units[:, None] * self._width + np.arange(self._width)).ravel()


class _ByEnergy:
    """Traced units of any finite model: every one of their states, through ``energy``."""

    def __init__(self, model: EnergyModel, kept: Indices, traced: Indices) -> None:
        self._model, self._kept, self._traced = model, kept, traced
        space: Any = model.space
        self._space = replace(space, n=len(traced), names=None) if len(traced) else None
        size = number_of_states(self._space) if self._space else 1.0
        self.seconds = SECONDS_BY_ENERGY * size
        self.n_terms = int(min(size, TRACED_CHUNK))

    def energy(self, states: Array) -> Array:
        """E_eff of a block of kept states."""
        log_sums = np.full(len(states), -np.inf)
        for hidden in (
            [np.empty((1, 0))] if self._space is None else self._space.enumerate(TRACED_CHUNK)
        ):
            joint = np.empty((len(states), len(hidden), self._model.space.n))
            joint[:, :, self._kept] = states[:, None]
            joint[:, :, self._traced] = hidden
            energies = checked_energy(self._model, joint.reshape(-1, joint.shape[2]))
            part = np.logaddexp.reduce(-energies.reshape(joint.shape[:2]), axis=1)
            log_sums = np.logaddexp(log_sums, part)
        return -log_sums


def _positions(keep: Any, space: FiniteSpace) -> tuple[int, ...]:
    """Numbers of the units to keep, given by number or by name."""
    if isinstance(keep, str) or not hasattr(keep, "__iter__"):
        raise ShapeError(f"keep must be a sequence of units, got {keep!r}: give keep=[{keep!r}]")
    units = list(keep)
    positions = [_position(unit, space) for unit in units]
    if not positions:
        raise ShapeError("keep must hold at least one unit")
    if len(set(positions)) < len(positions):
        raise ShapeError(f"keep must hold different units, got {units}")
    return tuple(positions)


def _position(unit: Any, space: FiniteSpace) -> int:
    if isinstance(unit, str):
        if space.names is None or unit not in space.names:
            raise NamesError(f"keep holds {unit!r}, but the units are {space!r}")
        return list(space.names).index(unit)
    if isinstance(unit, bool | np.bool_) or not hasattr(unit, "__index__"):
        raise ShapeError(f"keep must hold numbers or names of units, got {unit!r}")
    if not 0 <= unit < space.n:
        raise ShapeError(f"keep must hold numbers from 0 to {space.n - 1}, got {unit}")
    return int(unit)


def _subsets(n: int, order: int) -> Iterator[tuple[int, ...]]:
    """Subsets of n units by size, then in lexicographic order; the empty one first."""
    for size in range(order + 1):
        yield from combinations(range(n), size)
