"""The function :func:`ebm.landscape` and the map of valleys that it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, as_integer
from ebm._landscape._complete import BYTES_PER_STATE, Valleys, profile, seconds_of_valleys
from ebm._landscape._descent import distinct
from ebm._landscape._energies import finite_space, seconds_of_energies
from ebm._landscape._quenches import (
    Quenched,
    affordable_rounds,
    bounds_on_passes,
    draws_of,
    quench,
)
from ebm._landscape._tree import Edges, patterns_of
from ebm._landscape.changes import LandscapeChanges
from ebm._landscape.transitions import Transitions
from ebm._randomness import RandomSource, generator
from ebm._text import number, short, table, wrapped
from ebm._types import Array, Indices
from ebm.ensembles import Estimate
from ebm.enumeration._limits import Limits, describe_size, number_of_states
from ebm.errors import EbmError, EnumerationLimitError, ModelError, require_extra
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import FiniteSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Landscape", "OverlapProfile", "landscape"]

METHODS = ("auto", "complete", "quenches")
#: Minima that are printed.
MOST_PRINTED = 20


@dataclass(frozen=True, eq=False)
class OverlapProfile:
    """Energies at each distance from a chosen state; made by :meth:`Landscape.overlap`.

    Parameters
    ----------
    distances : ndarray of int, (n + 1,)
        Number d of units that differ, 0 … n.
    overlaps : ndarray, (n + 1,)
        1 − 2d/n for two-valued units, the mean of s·s′; else 1 − d/n, the share of equal units.
    n_states : ndarray, (n + 1,)
        Number of states, or of draws, at each distance.
    lowest : ndarray, (n + 1,)
        Their lowest energy in units of k_B T, inf where there is none.
    probabilities : ndarray, (n + 1,)
        Probability of each distance.
    mean : ndarray, (n + 1,)
        Mean energy given the distance, NaN where its probability is 0.
    """

    distances: Indices
    overlaps: Array
    n_states: Array
    lowest: Array
    probabilities: Array
    mean: Array


@dataclass(frozen=True, eq=False, repr=False)
class Landscape:
    """Minima of an energy, their basins, and the lowest passes between them.

    Made by :func:`ebm.landscape`. Minima are numbered from the deepest; a valley that joins a
    deeper one at a pass ends there, so that ``parents`` and ``passes`` are the disconnectivity
    tree: on the way between two minima the energy must rise to the highest pass on the path that
    joins them in this tree.

    Parameters
    ----------
    model : EnergyModel
        The model.
    method : str
        How it was made, such as ``"complete: all 2^9 states"``.
    states : ndarray, (k, n)
        Minima; of a plateau of equal energies the state that is numbered first.
    energies : ndarray, (k,)
        Their energies in units of k_B T.
    degeneracies : ndarray of int, (k,)
        Number of states of equal energy at the bottom of each valley.
    shares, weights : Estimate, (k,)
        Share of all states and of the probability p ∝ exp(−E) in each basin of steepest descent.
    parents : ndarray of int, (k,)
        The deeper valley in which each one ends, −1 for the deepest.
    passes : ndarray, (k,)
        The energy of the lowest pass to it: exact, or an upper bound where valleys come from
        quenches. It is inf for the deepest, and for those shut off by forbidden states.
    pass_states : ndarray, (k, n)
        A state at each pass, NaN where there is none.
    missed_share, missed_weight : Estimate
        Share of states and probability in basins of minima that were not found.
    """

    model: EnergyModel
    method: str
    states: Array
    energies: Array
    degeneracies: Indices
    shares: Estimate
    weights: Estimate
    parents: Indices
    passes: Array
    pass_states: Array
    missed_share: Estimate
    missed_weight: Estimate
    _basins: Valleys | Quenched = field(repr=False)

    def __len__(self) -> int:
        return len(self.energies)

    def __repr__(self) -> str:
        return f"Landscape({len(self)} minima of {self.space!r}, {self.method})"

    def __str__(self) -> str:
        lines = [f"{len(self)} minima; {self.method}"]
        if not self.is_complete:
            lines += wrapped(
                f"basins of other minima hold {self.missed_share} of all states and "
                f"{self.missed_weight} of the probability; passes are upper bounds"
            )
        is_degenerate = bool((self.degeneracies > 1).any())
        if self.space.names:
            lines += wrapped(f"units in this order: {', '.join(map(short, self.space.names))}")
        rows = [["", "state", "energy", "basin", "weight", "joins", "pass", "barrier"]]
        rows[0] += ["equal states"] * is_degenerate
        patterns = self.patterns
        for k in range(min(len(self), MOST_PRINTED)):
            joins = ["", "", ""]
            if self.parents[k] >= 0:
                barrier = self.passes[k] - self.energies[k]
                joins = [str(self.parents[k]), f"{self.passes[k]:.4f}", f"{barrier:.4f}"]
            share = f"{self.sizes[k]:.0f}" if self.is_complete else self._written(self.shares, k)
            cells = [str(k), short(patterns[k], 24), f"{self.energies[k]:.4f}", share]
            cells += [self._written(self.weights, k), *joins]
            rows.append(cells + [f"{self.degeneracies[k]}"] * is_degenerate)
        lines += table(rows, "><" + ">" * (len(rows[0]) - 2))
        if len(self) > MOST_PRINTED:
            lines.append(f"  … and {len(self) - MOST_PRINTED} more")
        if is_degenerate:
            count = int((self.degeneracies > 1).sum())
            lines += wrapped(
                f"{count} of them plateaus of states of equal energy side by side: each counts as "
                "one minimum, shown by its first state. Basins depend on how ties are broken (the "
                "neighbor that comes first), passes do not."
            )
        return "\n".join(lines)

    def _written(self, estimate: Estimate, k: int) -> str:
        value, error = estimate.value[k], estimate.standard_error[k]
        if error == 0:
            return number(value, 4)
        return f"{value:.3g} ± ?" if np.isnan(error) else str(Estimate(value, error))

    @property
    def space(self) -> FiniteSpace:
        """Coding and names of the units."""
        return finite_space(self.model, "landscape")

    @property
    def is_complete(self) -> bool:
        """Whether all states were looked at: nothing was missed, and passes are exact."""
        return isinstance(self._basins, Valleys)

    @property
    def sizes(self) -> Array:
        """Number of states of each basin, exact integers if complete, else estimates, (k,)."""
        return np.asarray(self.shares.value * float(number_of_states(self.space)))

    @property
    def barriers(self) -> Array:
        """The pass of each minimum less its energy, (k,)."""
        return self.passes - self.energies

    @property
    def exits(self) -> Array:
        """The energy of the lowest pass out of each valley, to whichever other, (k,)."""
        lowest = self.passes.copy()
        is_joined = self.parents >= 0
        np.minimum.at(lowest, self.parents[is_joined], self.passes[is_joined])
        return lowest

    @property
    def joins(self) -> list[int]:
        """Minima in the order in which their valleys end in deeper ones, by rising passes."""
        # Of equal passes that of the shallower valley comes first: the deeper one may end there.
        order = np.lexsort((-np.arange(len(self)), self.passes))
        return [k for k in order.tolist() if self.parents[k] >= 0]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Minima as text: levels of the units in the order of the names, ``"010"``."""
        return patterns_of(self.space.levels(self.states))

    @cached_property
    def heights(self) -> Array:
        """Energy of the lowest pass between every two minima, on the diagonal E, (k, k).

        Inf between valleys that only forbidden states join.
        """
        heights = np.full((len(self), len(self)), np.inf)
        members = {k: [k] for k in range(len(self))}
        for k in self.joins:
            root = int(self.parents[k])
            heights[np.ix_(members[k], members[root])] = self.passes[k]
            heights[np.ix_(members[root], members[k])] = self.passes[k]
            members[root] += members.pop(k)
        np.fill_diagonal(heights, self.energies)
        return heights

    def weights_at(self, beta: float) -> Array:
        """Probability of each basin at another inverse temperature, p ∝ exp(−βE).

        Parameters
        ----------
        beta : float
            Inverse temperature, 1 that of the model and 0 that of equal weights.

        Returns
        -------
        ndarray, (k,)
            Probabilities, which sum to 1.

        Raises
        ------
        ModelError
            If the valleys come from quenches.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        >>> pair.weights_at(0), pair.weights_at(50).round(3)
        (array([0.75, 0.25]), array([1., 0.]))
        """
        if not isinstance(self._basins, Valleys):
            raise ModelError(
                "weights at another temperature need all states: take ebm.landscape of "
                "model.scaled(beta)"
            )
        return self._basins.weights(as_finite(beta, "beta"))

    def valley_of(self, states: ArrayLike) -> Indices:
        """Number of the valley in which steepest descent from each state ends.

        Parameters
        ----------
        states : array_like, (..., n)
            One state or any stack of states.

        Returns
        -------
        ndarray of int, (...)
            Numbers of minima; −1 for a minimum that quenches had not found.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        >>> pair.valley_of([[1, 1], [-1, -1], [1, -1]])
        array([0, 1, 0])
        """
        if isinstance(self._basins, Valleys):
            return np.asarray(self._basins.labels[self.space.index(states)].astype(np.int64))
        levels = self.space.levels(self.space.check(states))
        rows, _, places = distinct(levels.reshape(-1, self.space.n))
        known = {row.tobytes(): k for k, row in enumerate(self._basins.minima)}
        ends = self._basins.descent.descend(rows)[0]
        found = np.array([known.get(row.tobytes(), -1) for row in ends], dtype=np.int64)
        return found[places].reshape(levels.shape[:-1])

    def transitions(
        self, rows: Any, *, interval: float = 1.0, breaks: ArrayLike = ()
    ) -> Transitions:
        """Time in each valley, and rates of transitions, of draws or data in the order of time.

        A visit to a valley ends when the core of another is reached: a state of its basin below
        the lowest pass out of it. Recrossings of a ridge are therefore no transitions. The time
        before the first core is left out, and rates are number of transitions / time in the valley
        they leave, to which first and last visits, whose lengths are not known, contribute rightly.

        Parameters
        ----------
        rows : Samples, WeightedStates or array_like, (t, n)
            Chains, data in the order given, or states one after another. A row with a missing cell
            (NaN) is a gap, which ends a visit.
        interval : float
            Time between successive rows, such as the sweeps between draws.
        breaks : array_like of int
            Rows that do not follow the one before them.

        Returns
        -------
        Transitions
            Times, transitions, rates with errors, and visits.

        Raises
        ------
        ShapeError
            If there is no order of time, or ``interval`` is not positive.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        >>> seen = pair.transitions([[1, 1], [1, -1], [1, 1], [-1, -1], [-1, -1], [1, 1]])
        >>> seen.time, seen.counts
        (array([3., 2.]), array([[0, 1],
               [1, 0]]))
        """
        return Transitions.of(self, rows, interval, breaks)

    def overlap(self, minimum: int = 0, rows: Any = None) -> OverlapProfile:
        """Energy against the overlap with one of the minima.

        Parameters
        ----------
        minimum : int
            Number of the minimum.
        rows : Samples or array_like, (m, n), optional
            Draws or data over which to go in place of all states; needed beyond enumeration.

        Returns
        -------
        OverlapProfile
            Number of states, lowest and mean energy, and probability at each distance.

        Raises
        ------
        EbmError
            If there is no such minimum, or rows are needed.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        >>> profile = pair.overlap(0)
        >>> profile.overlaps, profile.lowest
        (array([ 1.,  0., -1.]), array([-1.5,  0.5, -0.5]))
        """
        if as_integer(minimum, "minimum", least=0) >= len(self):
            raise EbmError(f"minimum must be from 0 to {len(self) - 1}, got {minimum}")
        n = self.space.n
        if rows is None:
            if not isinstance(self._basins, Valleys):
                raise EbmError("energies of all states are not known: give rows, such as draws")
            columns = self._basins.profile(self.space.levels(self.states[minimum]))
        else:
            states = self.space.check(getattr(rows, "chains", rows)).reshape(-1, n)
            distances = (states != self.states[minimum]).sum(axis=1)
            energies = checked_energy(self.model, states)
            columns = profile(distances, energies, np.ones(len(states)), n)
        distances = np.arange(n + 1)
        is_two_valued = int(self.space.n_values.max()) == 2
        return OverlapProfile(distances, 1 - (1 + is_two_valued) * distances / n, *columns)

    def compare(self, other: Landscape, *, max_distance: int | None = None) -> LandscapeChanges:
        """What changed between this landscape and that of another model of the same units.

        Two minima are a pair if each is the nearest of the other, the deeper one among equally
        near, and at most ``max_distance`` units differ.

        Parameters
        ----------
        other : Landscape
            Its units are put in the order of the names of this one.
        max_distance : int, optional
            Most units in which the minima of a pair differ, by default a quarter of all.

        Returns
        -------
        LandscapeChanges
            Pairs with their distances, energies and weights, and minima gained and lost.

        Raises
        ------
        EbmError
            If the units are others.

        Examples
        --------
        >>> import ebm
        >>> def of(field):
        ...     return ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [field, 0]))
        >>> changes = of(0.5).compare(of(1.5))
        >>> changes.pairs, changes.lost
        (array([[0, 0]]), array([1]))
        """
        return LandscapeChanges.between(self, other, max_distance)

    def graph(self) -> Any:
        """The disconnectivity tree as a graph over the minima.

        Returns
        -------
        networkx.Graph
            Nodes 0 … k − 1 with ``state``, ``pattern``, ``energy``, ``share`` and ``weight``;
            edges to the deeper valley with ``energy`` and ``state`` of the pass. The highest edge
            on the path between two minima is the lowest pass between them.
        """
        import networkx

        graph = networkx.Graph(names=self.space.labels)
        for k in range(len(self)):
            graph.add_node(
                k,
                state=tuple(self.states[k].tolist()),
                pattern=self.patterns[k],
                energy=float(self.energies[k]),
                share=float(self.shares.value[k]),
                weight=float(self.weights.value[k]),
            )
        for k in np.flatnonzero(self.parents >= 0).tolist():
            state = tuple(self.pass_states[k].tolist())
            graph.add_edge(k, int(self.parents[k]), energy=float(self.passes[k]), state=state)
        return graph

    def to_frame(self) -> Any:
        """A pandas frame with one row for each minimum; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Columns ``energy``, ``degeneracy``, ``share``, ``weight`` and their errors, ``parent``,
            ``pass``, and one column for each unit by its name.
        """
        columns = {
            "energy": self.energies,
            "degeneracy": self.degeneracies,
            "share": self.shares.value,
            "share_error": self.shares.standard_error,
            "weight": self.weights.value,
            "weight_error": self.weights.standard_error,
            "parent": self.parents,
            "pass": self.passes,
        }
        pandas = require_extra("pandas", "data")
        units = pandas.DataFrame(self.states, columns=list(self.space.labels))
        return pandas.concat([pandas.DataFrame(columns), units], axis=1)

    def figure(self, names: Any = None) -> Figure:
        """The disconnectivity tree, :func:`ebm.plotting.disconnectivity_tree`."""
        from ebm.plotting import disconnectivity_tree

        return disconnectivity_tree(self, names)


def landscape(
    model: EnergyModel,
    *,
    method: str = "auto",
    samples: Any = None,
    n_quenches: int = 4000,
    rng: RandomSource = None,
    max_seconds: float = 60.0,
    max_memory: float = 2 * 2.0**30,
) -> Landscape:
    """Minima of the energy, their basins, and the lowest passes; [EBM] Theorem 4.

    States are neighbors that differ in one unit. A minimum is a state, or a connected plateau of
    states of equal energy (up to 1e-12 of the largest), without a lower neighbor. Its basin is
    what steepest descent leads to it: to the lowest neighbor, the one that is numbered first among
    ties; plateaus with a way down are left by the nearest. The lowest pass between two minima is
    the least, over all paths of neighbors, of the highest energy on the path; it does not depend
    on these rules.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space. Units of more than two values may change to any other.
    method : str
        ``"complete"``: all states, up to about 2^26. ``"quenches"``: steepest descent from draws
        of the model and from states drawn uniformly, with estimates of what was missed; passes are
        then upper bounds from paths between minima. ``"auto"``: complete within the limits, else
        quenches.
    samples : Samples or array_like, (m, n), optional
        Draws from which quenches start: chains, or independent rows. By default 128 chains of
        parallel tempering are drawn.
    n_quenches : int
        Number of uniform states, and of draws if none are given.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of quenches.
    max_seconds, max_memory : float
        Work that would take more seconds or bytes is refused before it begins.

    Returns
    -------
    Landscape
        Minima from the deepest on, basins and passes.

    Raises
    ------
    ModelError
        If the space is not finite.
    EbmError
        If ``method`` is none of the three, or samples are given and not used.
    EnumerationLimitError
        If a limit would be exceeded.
    LimitError
        If states of equal energy form plateaus that are too large for quenches.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> print(ebm.landscape(ring))
    2 minima; complete: all 2^3 states
         state   energy  basin  weight  joins    pass  barrier
      0    111  -3.2000      5  0.5998
      1    000  -2.8000      3  0.4002      0  0.8000   3.6000
    """
    space = finite_space(model, "landscape")
    if method not in METHODS:
        raise EbmError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if samples is not None and method != "quenches":
        raise EbmError('samples are the starts of quenches: give method="quenches", too')
    size, limits = number_of_states(space), Limits(max_seconds, max_memory)
    if method != "quenches":
        try:
            limits.require(
                f"the valleys of {describe_size(space)}",
                seconds_of_energies(model, space) + seconds_of_valleys(space),
                BYTES_PER_STATE * size,
                'take method="quenches"',
            )
        except EnumerationLimitError:
            if method == "complete":
                raise
        else:
            return _complete(model, space)
    n_quenches = as_integer(n_quenches, "n_quenches", least=10)
    n_rounds = affordable_rounds(model, space, n_quenches, max_seconds)
    source = generator(rng)
    draws = draws_of(model, space, samples, n_quenches, source)
    return _quenched(
        model, space, quench(model, space, draws, n_quenches, n_rounds, source), n_quenches
    )


def _complete(model: EnergyModel, space: FiniteSpace) -> Landscape:
    valleys = Valleys.of(model, space)
    k, edges = len(valleys.minima), valleys.edges()
    parents, passes, crossings = edges.tree(k)
    none, zeros = Estimate(0.0, 0.0), np.zeros(k)
    return Landscape(
        model,
        f"complete: all {describe_size(space)}",
        space.states_at(valleys.minima),
        valleys.energies[valleys.minima],
        valleys.degeneracies,
        Estimate(valleys.sizes / len(valleys.energies), zeros),
        Estimate(valleys.weights(1.0), zeros),
        parents,
        passes,
        _states_of_passes(crossings, edges, space.states_at(edges.tops)),
        none,
        none,
        valleys,
    )


def _quenched(
    model: EnergyModel, space: FiniteSpace, quenched: Quenched, n_uniform: int
) -> Landscape:
    edges, tops = bounds_on_passes(quenched)
    parents, passes, crossings = edges.tree(len(quenched.minima))
    n_draws = quenched.n_draws
    return Landscape(
        model,
        f"quenches of {n_uniform} uniform states and {n_draws} draws",
        space.states(quenched.minima),
        quenched.energies,
        quenched.degeneracies,
        quenched.shares,
        quenched.weights,
        parents,
        passes,
        _states_of_passes(crossings, edges, space.states(tops[edges.tops])),
        quenched.missed_share,
        quenched.missed_weight,
        quenched,
    )


def _states_of_passes(crossings: Indices, edges: Edges, tops: Array) -> Array:
    """The state at the pass of each minimum, from those of all edges, (k, n)."""
    states = np.full((len(crossings), tops.shape[1]), np.nan)
    is_joined = crossings >= 0
    states[is_joined] = tops[crossings[is_joined]]
    return states
