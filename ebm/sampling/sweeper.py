"""What moves chains over finite spaces: the interface of sweepers, and their random numbers.

A sampler is a frozen value of settings; its sweeper loads the states of a block of chains into the
layout in which updates are fast, and advances them there by whole sweeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import heed_interrupt
from ebm._types import Array, Indices, Words
from ebm.errors import ModelError
from ebm.model import EnergyModel
from ebm.sampling._streams import LANES

__all__ = ["Sampler", "Sweeper", "uniforms"]

#: Sweeps of one call, between which Ctrl-C is heard, and fields that follow flips are made anew.
SWEEPS = 100


class Sampler(Protocol):
    """What :func:`ebm.sample` asks of a sampler."""

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """How a block of chains of this model advances."""
        ...


class Sweeper(ABC):
    """Moves a block of chains of one model; what ``sweeper(model, n_chains)`` of a sampler returns.

    :func:`ebm.sample` loads the states of a block of chains, advances them in place, and reads
    them. The layout between ``load`` and ``read`` belongs to the sweeper: the states themselves
    unless both are overridden. A sweeper keeps nothing else between calls, so that chains which are
    stopped and taken up again remain the same chains.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> class Coins(ebm.sampling.Sweeper):
    ...     def advance(self, work, stream, n_sweeps):
    ...         work[:] = ebm.sampling.uniforms(stream, work.shape) < 0.5
    >>> class Coin:
    ...     def sweeper(self, model, n_chains):
    ...         return Coins()
    >>> free = ebm.TabularModel(np.zeros(8), ebm.Binary(3))
    >>> ebm.sample(free, Coin(), n_draws=1, n_chains=2, rng=0).chains.shape
    (2, 1, 3)
    """

    #: Hidden copies that each chain carries along; states then are (chains, 1 + n_copies, n).
    n_copies = 0

    def load(self, states: Array) -> Any:
        """States (chains, n) in the coding of the model, in the layout of the sweeper."""
        return np.array(states, dtype=np.float64)

    def read(self, work: Any) -> NDArray[Any]:
        """The inverse of :meth:`load`, of any type that holds the values exactly."""
        return np.array(work)

    @abstractmethod
    def advance(self, work: Any, stream: Words, n_sweeps: int) -> None:
        """Advance all chains of a layout in place by whole sweeps, by numbers from ``stream``."""


def uniforms(stream: Words, shape: tuple[int, ...]) -> Array:
    """Uniform numbers in (0, 1) from the stream of a block of chains, which moves on.

    Parameters
    ----------
    stream : ndarray of uint64, (4, lanes)
        What :meth:`ebm.sampling.Sweeper.advance` is given: xoshiro256++ generators side by side.
    shape : tuple of int
        Shape of the array.

    Returns
    -------
    ndarray
        Independent numbers of 52 random bits each, neither 0 nor 1.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
    >>> final = ebm.sample(machine, n_draws=1, rng=0).final
    >>> ebm.sampling.uniforms(final.streams[0], (2, 3)).shape
    (2, 3)
    """
    from ebm._kernels.heat_bath import fill_uniforms

    values = np.empty(shape)
    words = np.empty(-(-values.size // LANES) * LANES, dtype=np.uint64)
    fill_uniforms(stream, words, values.reshape(-1))
    return values


class Ordered(Sweeper):
    """A sweeper whose units are in another order than those of the model."""

    def __init__(self, sweeper: Sweeper, order: Indices) -> None:
        self._sweeper, self._order, self._places = sweeper, order, np.argsort(order)

    def load(self, states: Array) -> Any:
        """States (chains, n) of the model in the layout of the inner sweeper."""
        return self._sweeper.load(states[:, self._order])

    def read(self, work: Any) -> NDArray[Any]:
        """The inverse of :meth:`load`."""
        return self._sweeper.read(work)[:, self._places]

    def advance(self, work: Any, stream: Words, n_sweeps: int) -> None:
        """The sweeps of the inner sweeper."""
        self._sweeper.advance(work, stream, n_sweeps)


def advanced(sweeper: Sweeper, work: Any, stream: Words, n_sweeps: int) -> None:
    """Whole sweeps, SWEEPS of them at a time."""
    for done in range(0, n_sweeps, SWEEPS):
        heed_interrupt()
        sweeper.advance(work, stream, min(SWEEPS, n_sweeps - done))


def part_sweeper(model: EnergyModel, sampler: Any, n_chains: int, units: Indices) -> Sweeper:
    """Sweeps of some units by a sampler that can keep the others as they are."""
    partial_sweeper = getattr(sampler, "partial_sweeper", None)
    if not callable(partial_sweeper):
        raise ModelError(
            f"{type(sampler).__name__} cannot keep units clamped: it needs a method "
            "partial_sweeper(model, n_chains, units), which sweeps these units only"
        )
    sweeper: Sweeper = partial_sweeper(model, n_chains, units)
    return sweeper
