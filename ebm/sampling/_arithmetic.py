"""Arrays and random numbers of chains over R^n, on the host; other devices have their own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ebm._types import Array
from ebm.model import checked_energy, checked_slopes


class Arithmetic(Protocol):
    """What chains ask of the place where they are: its arrays, its numbers, a model's answers."""

    #: The functions of arrays, ``numpy`` or what has the same names.
    xp: Any

    def array(self, values: Array) -> Any:
        """Numbers of the host as an array of this place."""
        ...

    def to_host(self, values: Any) -> Array:
        """The inverse of :meth:`array`."""
        ...

    def jitter(self) -> Any:
        """A uniform number in (−1, 1)."""
        ...

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Standard normal numbers."""
        ...

    def uniform(self, size: int) -> Any:
        """Uniform numbers in [0, 1)."""
        ...

    def energies(self, model: Any, states: Any) -> Any:
        """E of states (m, n), refused if NaN or −inf."""
        ...

    def slopes(self, model: Any, states: Any) -> Any:
        """∂E/∂x of states (m, n), NaN only where E is not finite."""
        ...

    def stream(self) -> Mapping[str, Any]:
        """Where the random numbers stand."""
        ...


class HostArithmetic:
    """numpy, and a generator whose state can be written down."""

    xp: Any = np

    def __init__(self, source: np.random.Generator) -> None:
        self._source = source

    def array(self, values: Array) -> Array:
        """The numbers as they are."""
        return values

    def to_host(self, values: Array) -> Array:
        """The numbers as they are."""
        return values

    def jitter(self) -> float:
        """A uniform number in (−1, 1)."""
        return self._source.uniform(-1, 1)

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Standard normal numbers."""
        return self._source.standard_normal(shape)

    def uniform(self, size: int) -> Array:
        """Uniform numbers in [0, 1)."""
        return self._source.uniform(size=size)

    def energies(self, model: Any, states: Array) -> Array:
        """E of states (m, n), checked."""
        return checked_energy(model, states)

    def slopes(self, model: Any, states: Array) -> Array:
        """∂E/∂x of states (m, n), checked."""
        return checked_slopes(model, states)

    def stream(self) -> Mapping[str, Any]:
        """A copy of the state of the generator."""
        return copy.deepcopy(dict(self._source.bit_generator.state))


def arithmetic_of(model: Any, source: np.random.Generator, stream: Any = None) -> Arithmetic:
    """That of the device of a model which names one, else that of the host.

    ``stream`` is where the random numbers of the device stood when the chains were left.
    """
    on_device = getattr(model, "_chain_arithmetic", None)
    chosen: Any = None if on_device is None else on_device(source, stream)
    place: Arithmetic = HostArithmetic(source) if chosen is None else chosen
    return place
