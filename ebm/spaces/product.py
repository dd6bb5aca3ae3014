"""Spaces of units of different kinds: finite and real ones, block after block."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._randomness import RandomSource, generator
from ebm._types import Array, Flags, Indices
from ebm.errors import NamesError, ShapeError
from ebm.spaces._labels import shown
from ebm.spaces.finite import FiniteSpace
from ebm.spaces.intervals import Intervals
from ebm.spaces.space import Reals, StateSpace, checked_units

__all__ = ["Product"]


@dataclass(frozen=True, init=False, repr=False)
class Product(StateSpace):
    """Units of different kinds: the units of one space after those of another.

    States, features, numbers of states and moments are those of the blocks one after another, the
    first unit slowest. Two spaces are equal where their units are of the same kinds and names,
    whatever the blocks are and are called. Where all blocks are finite, so is the space; with
    ``ebm.Reals`` or ``ebm.Intervals`` among them it has no list of states, and exact sums are those
    over its finite units, the real ones integrated out.

    Parameters
    ----------
    *blocks : StateSpace
        The spaces of the units, where blocks need no names.
    names : sequence of str, optional
        Names of all units; by default those of the blocks where all of them have names.
    **named_blocks : StateSpace
        The same with names of the blocks, by which units are found, as in
        ``marginalize(model, keep="visible")``. Blocks have names all or none.

    Raises
    ------
    ShapeError
        If there is no block, or one is no space of finite or real units.
    NamesError
        If some blocks and not all have names, or some units and not all; if names of units are not
        all different, or a block and a unit of another block have the same name.

    Examples
    --------
    >>> import ebm
    >>> space = ebm.Product(visible=ebm.Binary(5), hidden=ebm.Levels(3, 4))
    >>> space.n, space.n_features, space.size
    (8, 17, 2048)
    >>> space.units("hidden"), space.subspace(space.units("hidden"))
    (array([5, 6, 7]), Levels(n=3, names=None, q=4))
    >>> ebm.Product(spins=ebm.Spins(2), fields=ebm.Reals(1)).check([[1, -1, 0.25]])
    array([[ 1.  , -1.  ,  0.25]])
    """

    #: Consecutive alike units, as few spaces as will do, without names: what equality compares.
    parts: tuple[Any, ...]
    blocks: tuple[StateSpace, ...] = field(compare=False)
    block_names: tuple[str, ...] | None = field(compare=False)

    def __new__(cls, /, *blocks: Any, names: Any = None, **named_blocks: Any) -> Self:
        """A finite space where all blocks are finite."""
        made: Any = object.__new__(_kind_of((*blocks, *named_blocks.values())) or cls)
        return made  # type: ignore[no-any-return]

    def __init__(
        self,
        /,
        *blocks: StateSpace,
        names: Sequence[str] | None = None,
        **named_blocks: StateSpace,
    ) -> None:
        if blocks and named_blocks:
            raise NamesError(
                f"name all blocks or none, got {len(blocks)} without a name beside "
                f"{shown(list(named_blocks))}"
            )
        not_a_sequence: Any = names
        if isinstance(not_a_sequence, StateSpace):
            raise NamesError("a block cannot be called 'names', which are those of the units")
        held = blocks or tuple(named_blocks.values())
        wanted = "ebm.Product(visible=ebm.Binary(5), hidden=ebm.Levels(3, 4))"
        if not held:
            raise ShapeError(f"a product needs at least one block, as in {wanted}")
        for block in held:
            if not isinstance(block, FiniteSpace | Reals | Intervals | Product):
                raise ShapeError(
                    "blocks must be finite spaces, ebm.Intervals or ebm.Reals, as in "
                    f"{wanted}, got {block!r}"
                )
        if names is None:
            names = _names_of_blocks(held, tuple(named_blocks) or None)
        self._set(held, tuple(named_blocks) or None, names)

    def _set(
        self,
        blocks: tuple[StateSpace, ...],
        block_names: tuple[str, ...] | None,
        names: Sequence[str] | None,
    ) -> None:
        held = {
            "n": sum(block.n for block in blocks),
            "names": names,
            "parts": tuple(_merged([part for block in blocks for part in _parts_of(block)])),
            "blocks": tuple(block.named(None) for block in blocks),
            "block_names": block_names,
        }
        for name, value in held.items():
            object.__setattr__(self, name, value)
        self.__post_init__()
        self._require_distinct_names()

    def _require_distinct_names(self) -> None:
        for block in self.block_names or ():
            if block in (self.names or ()):
                unit = list(self.names or ()).index(block)
                if self.units(block).tolist() != [unit]:
                    raise NamesError(
                        f"{block!r} names a block and a unit, which must differ: name either anew"
                    )

    def __repr__(self) -> str:
        names = self.block_names or ("",) * len(self.blocks)
        shown_blocks = [
            f"{name}={block!r}" if name else repr(block)
            for name, block in zip(names, self.blocks, strict=True)
        ]
        shown_names = [] if self.names is None else [f"names={self.names!r}"]
        return f"Product({', '.join(shown_blocks + shown_names)})"

    def __str__(self) -> str:
        return "; ".join(str(block) for block in self.blocks)

    def units(self, block: str | int) -> Indices:
        """Numbers of the units of a block.

        Parameters
        ----------
        block : str or int
            Name or number of the block.

        Returns
        -------
        ndarray of int, (n_block,)
            In their order.

        Raises
        ------
        NamesError
            If no block has this name.

        Examples
        --------
        >>> import ebm
        >>> ebm.Product(visible=ebm.Binary(2), hidden=ebm.Spins(3)).units("hidden")
        array([2, 3, 4])
        """
        names: Sequence[Any] = range(len(self.blocks))
        if isinstance(block, str):
            names = self.block_names or ()
        if block not in names:
            raise NamesError(f"block must be one of {shown([*map(str, names)])}, got {block!r}")
        number = names.index(block)
        start = sum(earlier.n for earlier in self.blocks[:number])
        return np.arange(start, start + self.blocks[number].n)

    def named(self, names: Sequence[str] | None) -> Self:
        """The same space with these names of its units (or none)."""
        if names is self.names:
            return self
        renamed = object.__new__(type(self))
        renamed._set(self.blocks, self.block_names, names)
        return renamed

    def subspace(self, units: Sequence[int] | Indices) -> Any:
        """The space of some of the units, in this order and with their names.

        It is ``Binary``, ``Spins``, ``Levels``, ``Reals`` or ``Intervals`` where they are all of
        one kind, and has the blocks of this space where the units are taken block by block.

        Raises
        ------
        ShapeError
            If there is no unit, or a number is not that of a unit.
        """
        numbers = checked_units(units, self.n)
        names = self.names and tuple(self.names[unit] for unit in numbers)
        parts = _merged([replace(self._part_of(unit), n=1) for unit in numbers])
        if len(parts) == 1:
            return parts[0].named(names)
        runs = [list(run) for _, run in groupby(numbers, key=self._block_of.__getitem__)]
        places = [self._block_of[run[0]] for run in runs]
        block_names = None
        if self.block_names is not None and len(set(places)) == len(places):
            block_names = tuple(self.block_names[block] for block in places)
        blocks = tuple(
            self.blocks[block].subspace([unit - self._starts[block] for unit in run])
            for block, run in zip(places, runs, strict=True)
        )
        some: Product = object.__new__(_kind_of(blocks) or Product)
        some._set(blocks, block_names, names)
        return some

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The first unit of each block."""
        return tuple(int(self.units(block)[0]) for block in range(len(self.blocks)))

    @cached_property
    def _block_of(self) -> tuple[int, ...]:
        """The block of each unit."""
        return tuple(k for k, block in enumerate(self.blocks) for _ in range(block.n))

    @cached_property
    def _part_stops(self) -> tuple[int, ...]:
        """The unit after the last one of each part."""
        return tuple(accumulate(part.n for part in self.parts))

    def _part_of(self, unit: int) -> Any:
        """The part of a unit."""
        return self.parts[bisect_right(self._part_stops, unit)]

    @property
    def size(self) -> float:
        """Number of states, an exact integer; infinite with real units."""
        size: float = math.prod(part.size for part in self.parts)
        return size

    def values_of(self, unit: int) -> Array:
        """Values of a finite unit in increasing order, (q_i,)."""
        return np.asarray(self._finite_part_of(unit).values)

    def features_of(self, unit: int) -> Array:
        """Features of a finite unit at each of its values, (q_i, w_i)."""
        return np.asarray(self._finite_part_of(unit).value_features)

    def _finite_part_of(self, unit: int) -> Any:
        if self.is_real[unit]:
            raise ShapeError(f"unit {self.labels[unit]!r} is real: its values cannot be listed")
        return self._part_of(unit)

    @cached_property
    def is_real(self) -> Flags:
        """Which units take real values, (n,)."""
        return np.concatenate([part.is_real for part in self.parts])

    @cached_property
    def bounds(self) -> Array:
        """Least and largest value of each unit, (2, n)."""
        return np.concatenate([part.bounds for part in self.parts], axis=1)

    @cached_property
    def widths(self) -> Indices:
        """Number of features w_i of each unit, (n,)."""
        return np.concatenate([part.widths for part in self.parts])

    def _features(self, states: Array) -> Array:
        """Features of all units one after another, (..., n) -> (..., n_features)."""
        return self._by_parts(lambda part, own: part._features(own), states)

    def random(self, n_states: int, rng: RandomSource = None) -> Array:
        """Independent uniform states, (n_states, n)."""
        source = generator(rng)
        return np.concatenate([part.random(n_states, source) for part in self.parts], axis=1)

    def _by_parts(
        self, function: Callable[[Any, NDArray[Any]], Any], array: NDArray[Any]
    ) -> NDArray[Any]:
        """A function of each part and of what its units have along the last axis, joined."""
        values = [
            function(part, array[..., stop - part.n : stop])
            for part, stop in zip(self.parts, self._part_stops, strict=True)
        ]
        return np.concatenate(values, axis=-1)

    def _valid(self, states: Array) -> Flags:
        return self._by_parts(lambda part, own: part._valid(own), states)

    def _coding_of(self, unit: int) -> StateSpace:
        part: StateSpace = self._part_of(unit)
        return part


@dataclass(frozen=True, init=False, repr=False)
class FiniteProduct(Product, FiniteSpace):
    """A product of finite spaces, which has a list of states; made by :class:`Product`."""

    @cached_property
    def n_values(self) -> Indices:
        """Number of values q_i of each unit, (n,)."""
        return np.concatenate([part.n_values for part in self.parts])

    @property
    def size_as_powers(self) -> str:
        """The number of states as powers, such as ``"2^5 · 4^3"``."""
        return " · ".join(part.size_as_powers for part in self.parts)

    def states(self, levels: ArrayLike) -> Array:
        """States by the levels of their units, (..., n)."""
        return self._by_parts(lambda part, own: part.states(own), np.asarray(levels))

    def levels(self, states: ArrayLike) -> Indices:
        """The inverse of :meth:`states`."""
        return self._by_parts(lambda part, own: part.levels(own), np.asarray(states))

    def states_with(self, features: Array) -> Array:
        """States by their features, (..., n_features) -> (..., n)."""
        cuts = np.cumsum([part.n_features for part in self.parts])[:-1]
        blocks = zip(self.parts, np.split(features, cuts, axis=-1), strict=True)
        return np.concatenate([part.states_with(block) for part, block in blocks], axis=-1)

    def table(self, levels: Indices, first: int = 0) -> Array:
        """Features of consecutive units from ``first`` on by their levels, (m, k) -> (m, Σ w)."""
        per_unit = [self.features_of(first + k)[own] for k, own in enumerate(levels.T)]
        return np.concatenate([np.empty((len(levels), 0)), *per_unit], axis=1)


def _kind_of(blocks: Sequence[Any]) -> type[FiniteProduct] | None:
    """The class of finite products where all blocks are finite, None where some are not."""
    are_finite = bool(blocks) and all(isinstance(block, FiniteSpace) for block in blocks)
    return FiniteProduct if are_finite else None


def _parts_of(space: StateSpace) -> tuple[Any, ...]:
    """Alike units one after another, without names."""
    return space.parts if isinstance(space, Product) else (space.named(None),)


def _merged(parts: Sequence[Any]) -> list[Any]:
    """Consecutive spaces of alike units joined."""
    runs = [list(run) for _, run in groupby(parts, key=lambda part: replace(part, n=1))]
    return [replace(run[0], n=sum(part.n for part in run)) for run in runs]


def _names_of_blocks(
    blocks: Sequence[StateSpace], block_names: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Names of the units of all blocks; None where no unit has one."""
    unnamed = [k for k, block in enumerate(blocks) if block.names is None]
    if len(unnamed) == len(blocks):
        return None
    if unnamed:
        without = [block_names[k] if block_names else f"block {k}" for k in unnamed]
        raise NamesError(
            f"name the units of all blocks or of none: those of {shown(without)} have no names"
        )
    return tuple(name for block in blocks for name in block.names or ())
