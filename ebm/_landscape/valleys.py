"""Minima, basins and passes: the result of :func:`ebm.landscape`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, as_integer
from ebm._landscape._complete import LabelledStates
from ebm._landscape._descent import distinct
from ebm._landscape._energies import finite_space
from ebm._landscape._quenches import Quenched
from ebm._landscape._rows import states_of
from ebm._landscape._written import patterns_of, written
from ebm._landscape.changes import LandscapeChanges
from ebm._landscape.overlap import OverlapProfile, profile
from ebm._landscape.transitions import Transitions
from ebm._pictures import picture
from ebm._summary import Summarized, Summary
from ebm._text import short
from ebm._types import Array, Indices
from ebm.ensembles import Estimate
from ebm.enumeration._limits import number_of_states
from ebm.errors import EbmError, ModelError, ShapeError, require_extra
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import FiniteSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Landscape"]

#: Minima that are printed.
MOST_PRINTED = 20


@dataclass(frozen=True, eq=False, repr=False)
class Landscape(Summarized):
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

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> pair.patterns, pair.sizes, pair.passes, pair.heights[0, 1]
    (('11', '00'), array([3., 1.]), array([inf, 0.5]), np.float64(0.5))
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
    _basins: LabelledStates | Quenched = field(repr=False)

    def __len__(self) -> int:
        return len(self.energies)

    def __repr__(self) -> str:
        return f"Landscape({len(self)} minima of {self.space!r}, {self.method})"

    def _summary(self) -> Summary:
        title = f"{len(self)} minim{'um' if len(self) == 1 else 'a'}; {self.method}"
        heading = []
        if not self.is_complete:
            heading.append(
                f"basins of other minima hold {self.missed_share} of all states and "
                f"{self.missed_weight} of the probability; passes are upper bounds"
            )
        if self.space.names:
            heading.append(f"units in this order: {', '.join(map(short, self.space.names))}")
        is_degenerate = bool((self.degeneracies > 1).any())
        columns = ["", "state", "energy", "basin", "weight", "joins", "pass", "barrier"]
        columns += ["equal states"] * is_degenerate
        rows = [self._row(k, is_degenerate) for k in range(min(len(self), MOST_PRINTED))]
        notes = []
        if is_degenerate:
            count = int((self.degeneracies > 1).sum())
            notes.append(
                f"Minima may be plateaus of states of equal energy side by side, here {count}: "
                "each counts as one minimum, shown by its first state. Basins depend on how ties "
                "are broken (the neighbor that comes first), passes do not."
            )
        return Summary(
            title,
            columns=tuple(columns),
            rows=tuple(rows),
            n_rows=len(self),
            heading=tuple(heading),
            notes=tuple(notes),
            alignment="><" + ">" * (len(columns) - 2),
        )

    def _row(self, k: int, is_degenerate: bool) -> tuple[str, ...]:
        """What is printed of one minimum."""
        joins = ["", "", ""]
        if self.parents[k] >= 0:
            barrier = self.passes[k] - self.energies[k]
            joins = [str(self.parents[k]), f"{self.passes[k]:.4f}", f"{barrier:.4f}"]
        share = f"{self.sizes[k]:.0f}" if self.is_complete else written(self.shares, k)
        cells = [str(k), short(self.patterns[k], 24), f"{self.energies[k]:.4f}", share]
        cells += [written(self.weights, k), *joins]
        return tuple(cells + [f"{self.degeneracies[k]}"] * is_degenerate)

    @property
    def space(self) -> FiniteSpace:
        """Coding and names of the units."""
        return finite_space(self.model, "landscape")

    @property
    def is_complete(self) -> bool:
        """Whether all states were looked at: nothing was missed, and passes are exact."""
        return isinstance(self._basins, LabelledStates)

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
        if not isinstance(self._basins, LabelledStates):
            raise ModelError(
                "weights at another temperature need all states: take ebm.landscape of "
                "model.scaled(beta)"
            )
        return self._basins.weights(as_finite(beta, "beta"))

    def valley_of(self, states: ArrayLike) -> Indices:
        """Number of the valley in which steepest descent from each state ends.

        Parameters
        ----------
        states : array_like, (..., n), Samples or WeightedStates
            One state or any stack of states, chains of draws, or data in the order of time.

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
        if isinstance(self._basins, LabelledStates):
            places = self.space.index(states_of(self.space, states))
            return np.asarray(self._basins.labels[places].astype(np.int64))
        levels = self.space.levels(states_of(self.space, states))
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
        rows : Samples, WeightedStates or array_like, (m, n), optional
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
            if not isinstance(self._basins, LabelledStates):
                raise EbmError("energies of all states are not known: give rows, such as draws")
            columns = self._basins.profile(self.space.levels(self.states[minimum]))
        else:
            states = states_of(self.space, rows, "rows").reshape(-1, n)
            if not len(states):
                raise ShapeError("rows must be one or more, got none")
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

    def plot(self, names: Any = None, *, ax: Axes | None = None) -> Axes:
        """The disconnectivity tree, :func:`ebm.plotting.landscape`."""
        axes: Axes = picture("landscape", self, names, ax=ax)
        return axes
