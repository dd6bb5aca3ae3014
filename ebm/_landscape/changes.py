"""What changed between two landscapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm._landscape._written import patterns_of, written
from ebm._summary import Printed
from ebm._text import table
from ebm._types import Array, Indices
from ebm.errors import EbmError
from ebm.spaces._labels import positions

__all__ = ["LandscapeChanges"]


@dataclass(frozen=True, eq=False, repr=False)
class LandscapeChanges(Printed):
    """Pairs of minima of two landscapes, and minima gained and lost.

    Made by :meth:`ebm._landscape.Landscape.compare`.

    Parameters
    ----------
    first, second : Landscape
        The two landscapes.
    patterns : (tuple of str, tuple of str)
        Minima of both as text, units in the order of the first.
    pairs : ndarray of int, (m, 2)
        Numbers of paired minima in the first and the second.
    distances : ndarray of int, (m,)
        Number of units in which they differ.
    lost, gained : ndarray of int
        Minima of the first and of the second without a partner.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
    >>> field = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [2.5, 0]))
    >>> pair.compare(field)
    LandscapeChanges(1 paired, 1 lost, 0 gained)
    """

    # A Landscape, whose module imports this one.
    first: Any
    second: Any
    patterns: tuple[tuple[str, ...], tuple[str, ...]]
    pairs: Indices
    distances: Indices
    lost: Indices
    gained: Indices

    @property
    def energy_changes(self) -> Array:
        """Energy of the second of each pair less that of the first, (m,).

        Energies have a constant that no probability depends on: weights and barriers have none.
        """
        return np.asarray(
            self.second.energies[self.pairs[:, 1]] - self.first.energies[self.pairs[:, 0]]
        )

    @property
    def weight_changes(self) -> Array:
        """Weight of the second basin of each pair less that of the first, (m,)."""
        before, after = (each.weights.value for each in (self.first, self.second))
        return np.asarray(after[self.pairs[:, 1]] - before[self.pairs[:, 0]])

    def __repr__(self) -> str:
        return (
            f"LandscapeChanges({len(self.pairs)} paired, {len(self.lost)} lost, "
            f"{len(self.gained)} gained)"
        )

    def __str__(self) -> str:
        rows = [["", "first", "second", "differ", "energies", "", "weights", ""]]
        cases = [(a, b) for a, b in self.pairs.tolist()]
        cases += [(a, None) for a in self.lost.tolist()] + [(None, b) for b in self.gained.tolist()]
        both = self.first, self.second
        energies = [[f"{energy:.4f}" for energy in each.energies] for each in both]
        weights = [[_weight(each, k) for k in range(len(each))] for each in both]
        for index, case in enumerate(cases):
            kind, differ = "lost" if case[1] is None else "gained", ""
            if None not in case:
                differ = str(self.distances[index])
                kind = "moved" if self.distances[index] else "same"
            cells = [
                "" if k is None else column[k]
                for columns in (self.patterns, energies, weights)
                for column, k in zip(columns, case, strict=True)
            ]
            rows.append([kind, *cells[:2], differ, *cells[2:]])
        return "\n".join(table(rows, "<<<>>>>>"))

    @classmethod
    def between(cls, first: Any, second: Any, max_distance: int | None) -> LandscapeChanges:
        """See :meth:`ebm._landscape.Landscape.compare`."""
        if not isinstance(second, type(first)):
            raise EbmError(f"other must be a result of ebm.landscape, got {type(second).__name__}")
        space, order = second.space, np.arange(second.space.n)
        if first.space.names and space.names:
            order = positions(space.names, first.space.names, "the units of other must be")
        if first.space.n != space.n or (first.space.n_values != space.n_values[order]).any():
            raise EbmError(f"other must be of units as {first.space!r}, got {space!r}")
        n = space.n
        most = n // 4 if max_distance is None else as_integer(max_distance, "max_distance", least=0)
        one = first.space.levels(first.states)
        other = space.levels(second.states)[:, order]
        distances = np.array([(other != row).sum(axis=1) for row in one])
        nearest, back = distances.argmin(axis=1), distances.argmin(axis=0)
        numbers = np.arange(len(one))
        is_pair = (back[nearest] == numbers) & (distances[numbers, nearest] <= most)
        pairs = np.stack([numbers[is_pair], nearest[is_pair]], axis=1)
        return cls(
            first,
            second,
            (patterns_of(one), patterns_of(other)),
            pairs,
            distances[pairs[:, 0], pairs[:, 1]],
            np.setdiff1d(numbers, pairs[:, 0]),
            np.setdiff1d(np.arange(len(other)), pairs[:, 1]),
        )


def _weight(landscape: Any, k: int) -> str:
    """The weight of a basin: with its error where the valleys come from quenches."""
    weights = landscape.weights
    return f"{weights.value[k]:.4f}" if landscape.is_complete else written(weights, k)
