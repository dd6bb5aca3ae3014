"""Effective energies order by order in the couplings to the units that are summed out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebm._arrays import as_integer, as_seconds
from ebm._types import Indices
from ebm.effective._inclusion_exclusion import n_subsets, subsets, subtract_parts
from ebm.effective._kept_units import kept_positions
from ebm.effective._traced_groups import TracedGroup, traced_groups
from ebm.errors import LimitError, ShapeError
from ebm.models import BoltzmannMachine, InteractionModel
from ebm.models._couplings import is_sparse
from ebm.perturbation._approximation import Doubt, warn_of
from ebm.perturbation._canonical_machine import expanded_machine
from ebm.perturbation._costs import require_within
from ebm.spaces import Binary, Spins
from ebm.spaces._labels import shown

__all__ = ["EffectiveExpansion", "expand"]

Terms = dict[tuple[int, ...], float]

#: Largest order: that to which cumulants keep twelve digits; and where traced units are coupled
#: among themselves, that of the diagrams.
MOST_ORDERS, MOST_DIAGRAM_ORDERS = 20, 6
#: Inputs of traced units held at a time.
CHUNK = 2**20
#: Coefficients below this part of the largest of their order are rounding.
ROUNDING = 64 * np.finfo(np.float64).eps
#: Bytes and seconds of one interaction, and seconds of one of the differences it takes.
BYTES_PER_TERM, SECONDS_PER_TERM, SECONDS_PER_DIFFERENCE = 500.0, 5e-6, 1e-8
#: Bytes that all of them may take.
MOST_BYTES = 4 * 2.0**30


def expand(
    model: Any,
    keep: Sequence[int] | Sequence[str] | None,
    order: int,
    *,
    max_seconds: float = 60.0,
) -> EffectiveExpansion:
    """The effective energy E_eff(v) = Σ_k E_k(v) in powers of the couplings to units summed out.

    Hidden units that are not coupled among themselves and have the inputs c_β + g_β(v),
    g_β = Σ_α U_αβ (v_α − v̂_α), contribute Σ_β [ s₊(c_β) − ĥ_β g_β + Σ_k κ_k(c_β) g_β^k/k! ] to
    ln Σ_h exp(−E): [EBM] §2 with the cumulants κ_k of §4. To second order the kept units are a
    Boltzmann machine with W_αα' = Σ_β κ_2(c_β) U_αβ U_α'β, diagonal included, and biases
    b + U(σ(c) − ĥ) at center v̂; since v² = v, every order contributes to terms of fewer units too.
    Hidden units coupled among themselves are summed by connected diagrams, in which each coupling
    counts as one order.

    Parameters
    ----------
    model : RestrictedBoltzmannMachine, BoltzmannMachine or IsingModel
        The joint model. Its centers are the point of the expansion; an Ising model is expanded in
        its J about s = 0.
    keep : sequence of int or str, or None
        The units to keep as in :func:`ebm.marginalize`; None keeps all units of ``model.space``,
        which are the visible ones of a restricted machine.
    order : int
        K, up to 20, or to 6 if units summed out are coupled among themselves.
    max_seconds : float
        An expansion that would take longer is refused before it begins.

    Returns
    -------
    EffectiveExpansion
        Orders 0 … K, constants included.

    Raises
    ------
    EbmError
        If ``order`` is not a positive integer, or ``max_seconds`` not a positive number.
    ModelError
        If the model is not one of these.
    ShapeError
        If ``keep`` is no sequence of different units.
    NamesError
        If no unit has one of the names.
    LimitError
        If ``order`` is too high, or there would be too many interactions.

    Notes
    -----
    The series of a hidden unit converges for abs(g_β) < √(c_β² + π²), and ``drive`` is the largest
    quotient of the two. If hidden units are coupled among themselves, their inputs from each other
    are included in g_β, and ``drive`` is a rule of thumb.

    Examples
    --------
    >>> import ebm
    >>> rbm = ebm.RestrictedBoltzmannMachine([[0.9], [0.7]], [0, 0], [-0.3])
    >>> [round(ebm.effective.expand(rbm, None, k).interactions().terms[0, 1], 5) for k in (2, 4, 8)]
    [0.15401, 0.14546, 0.14505]
    >>> round(ebm.marginalize(rbm, [0, 1]).interactions().terms[0, 1], 5)
    0.14486
    """
    order = as_integer(order, "order")
    max_seconds = as_seconds(max_seconds)
    machine, joint_space = expanded_machine(model, None)
    space: Any = model.space
    kept = np.array(kept_positions(range(space.n) if keep is None else keep, model), dtype=np.intp)
    groups = traced_groups(machine, kept)
    if order > MOST_ORDERS:
        raise LimitError(f"order must be at most {MOST_ORDERS}, got {order}")
    if order > MOST_DIAGRAM_ORDERS and not all(group.is_free for group in groups):
        raise LimitError(
            f"order must be at most {MOST_DIAGRAM_ORDERS} where traced units are coupled among "
            f"themselves, got {order}: keep more units, or sum them out by ebm.marginalize"
        )
    _require_feasible(groups, order, max_seconds)
    orders: list[Terms] = [{} for _ in range(order + 1)]
    orders[0] = _terms_of_kept(machine, kept)
    for group in groups:
        _add(orders, group, order)
    names = space.names and tuple(space.names[i] for i in kept)
    binary, is_spins = Binary(len(kept), names=names), isinstance(space, Spins)
    parts = tuple(_interactions(terms, binary, is_spins) for terms in orders)
    return EffectiveExpansion(parts, tuple(groups), joint_space.labels)


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveExpansion:
    """An effective energy as a sum over orders; made by :func:`expand`.

    Parameters
    ----------
    orders : tuple of InteractionModel
        E_0, E_1, …, E_K of the kept units in their coding. E_0 is the energy of the kept units
        alone, less ln Z of the others alone. Terms that vanish are left out.
    groups : tuple of TracedGroup
        The units summed out.
    labels : tuple of str
        Names of the units of the joint model, or their numbers.
    """

    orders: tuple[InteractionModel, ...]
    groups: tuple[TracedGroup, ...]
    labels: tuple[str, ...]

    def __repr__(self) -> str:
        return f"EffectiveExpansion(order={self.order}, drive={self.drive:.3g}, {self.space!r})"

    @property
    def order(self) -> int:
        """K."""
        return len(self.orders) - 1

    @property
    def drive(self) -> float:
        """Largest abs(g_β)/√(c_β² + π²) of a unit summed out over all kept states.

        The series converges if it is below 1.
        """
        return max((float(group.drives.max()) for group in self.groups), default=0.0)

    @property
    def space(self) -> Binary | Spins:
        """The space of the kept units."""
        return self.orders[0].space

    def interactions(self, order: int | None = None) -> InteractionModel:
        """The effective energy up to an order, as interactions of 1, 2, … units.

        Parameters
        ----------
        order : int, optional
            From 0 to K, by default K.

        Returns
        -------
        InteractionModel
            Terms of at most ``order`` units, and the couplings of kept units; its ln Z is that of
            the joint model to this order. A :class:`ebm.errors.SeriesWarning` is issued if
            ``energy_error`` is above 0.1; it names the units whose series does not converge.

        Raises
        ------
        ShapeError
            If ``order`` is above K.
        """
        order = self._checked(order)
        warn_of(
            [Doubt("energies of kept states", self.energy_error(order), "nats")],
            self._reason(order),
            "keep more units, or take another order or center; exact is ebm.marginalize",
        )
        terms: Terms = {}
        for part in self.orders[: order + 1]:
            for units, value in part.terms.items():
                terms[units] = terms.get(units, 0.0) + value
        offset = math.fsum(part.offset for part in self.orders[: order + 1])
        return InteractionModel(_sorted(terms), self.space, offset=offset)

    def energy_error(self, order: int | None = None) -> float:
        """Estimated largest error in nats, over the kept states, of the energy up to an order.

        Of units that are not coupled among themselves it is a bound: the sum over units of the
        largest remainder of the series of ln(1 + e^{c+g}) over all possible g. Of coupled ones it
        is :attr:`ebm.perturbation.Expansion.log_partition_error` at the states with the largest
        inputs. The error of ln Z of :meth:`interactions` is not larger. The default order is K.
        """
        order = self._checked(order)
        return math.fsum(group.remainder(order) for group in self.groups)

    def _checked(self, order: int | None) -> int:
        order = self.order if order is None else as_integer(order, "order", least=0)
        if order > self.order:
            raise ShapeError(
                f"order must be at most that of this expansion, {self.order}, got {order}"
            )
        return order

    def _reason(self, order: int) -> str:
        units = [self.labels[k] for group in self.groups for k in group.units[group.drives >= 1]]
        if not units:
            return f"the inputs of the units summed out are strong for order {order}"
        return (
            "the series does not converge for all states of the kept units, which drive "
            f"{'unit' if len(units) == 1 else 'units'} {shown(units)} of the joint model up to "
            f"{self.drive:.3g} times the radius √(c² + π²)"
        )


def _require_feasible(groups: Sequence[TracedGroup], order: int, max_seconds: float) -> None:
    counts = [n_subsets(len(group.neighbors), order) for group in groups]
    seconds = sum(
        count * (group.seconds(order) + SECONDS_PER_TERM * order)
        + SECONDS_PER_DIFFERENCE * order * n_subsets(len(group.neighbors), order, with_parts=True)
        for count, group in zip(counts, groups, strict=True)
    )
    widest = max((len(group.neighbors) for group in groups), default=0)
    require_within(
        f"expanding to order {order} makes {sum(counts):.3g} interactions, a traced unit having up "
        f"to {widest} kept neighbors, and",
        seconds,
        sum(counts) * (BYTES_PER_TERM + 16.0 * order),
        "give a lower order or a larger max_seconds, or keep fewer units",
        max_seconds=max_seconds,
        max_bytes=MOST_BYTES,
    )


def _terms_of_kept(machine: BoltzmannMachine, kept: Indices) -> Terms:
    """Interactions among the kept units alone, the constant under the empty key."""
    weights = machine.weights
    among = weights[kept][:, kept] if is_sparse(weights) else weights[np.ix_(kept, kept)]
    alone = BoltzmannMachine(
        among, machine.biases[kept], center=machine.center[kept], offset=machine.offset
    )
    whole = InteractionModel.from_pairwise(alone)
    return {**whole.terms, (): -whole.offset}


def _add(orders: list[Terms], group: TracedGroup, order: int) -> None:
    """Add to −E, order by order, the terms of a group that is summed out.

    Order k of ln Σ_h is a polynomial of k units, known from the states with at most k units at 1.
    """
    free = orders[0]
    free[()] = free.get((), 0.0) + group.independent
    q, base = len(group.neighbors), -group.center @ group.across
    levels, values = subsets(q, order), []
    for level in levels:
        rows = max(1, CHUNK // len(base))
        chunks = [level[start : start + rows] for start in range(0, len(level), rows)]
        parts = [group.orders(base + group.across[on].sum(axis=1), order) for on in chunks]
        values.append(np.concatenate(parts, axis=1))
    subtract_parts(values, levels, q)
    for size, (level, coefficients) in enumerate(zip(levels, values, strict=True)):
        units = [tuple(row) for row in group.neighbors[level].tolist()]
        for k in range(max(size, 1), order + 1):
            terms = orders[k]
            for key, value in zip(units, coefficients[k - 1].tolist(), strict=True):
                terms[key] = terms.get(key, 0.0) + value


def _interactions(terms: Terms, space: Binary, is_spins: bool) -> InteractionModel:
    """The interactions that are not rounding, of a model over {0,1} or turned to spins."""
    model = InteractionModel(terms, space)
    if is_spins:
        model = model.to_spins()
    floor = ROUNDING * max((abs(value) for value in model.terms.values()), default=0.0)
    large = {units: value for units, value in model.terms.items() if abs(value) > floor}
    return replace(model, terms=_sorted(large))


def _sorted(terms: Terms) -> Terms:
    return {units: terms[units] for units in sorted(terms, key=lambda units: (len(units), units))}
