"""What all compiled sweeps of forms share: temperatures, and layouts of two-valued units."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.sampling.sweeper import Sweeper
from ebm.spaces import HomogeneousSpace

Work = NDArray[Any]

#: Inverse temperatures below this are no different from 0.
SMALLEST_BETA = 1e-36


class FormSweeper(Sweeper):
    """Compiled sweeps of a form, by heat bath or by Metropolis, at one temperature or at several.

    With inverse temperatures ``betas``, chains are equal shares that follow each other.
    """

    #: How often another value is offered; 0 for the heat bath.
    offered = 0.0
    #: How many units are swept, the first ones; the others stay. All where it is None.
    n_swept: int | None = None
    betas: Array | None = None
    dtype: np.dtype[Any]
    #: Whether sweeps can add −ΔE of each chain to ``gains``, and these sums where it is wanted.
    tracks = False
    gains: Array | None = None
    #: Whether the layout is (units, chains), and not (chains, units).
    chains_last = True

    def at(self, betas: Array) -> Self:
        """The same sweeps by exp(−βE) in each share of the chains."""
        other = copy(self)
        other.betas = betas
        return other

    @abstractmethod
    def log_weights(self, work: Work) -> Array:
        """−E of every chain but for a constant, in double precision, (chains,)."""

    def _heat(self, n_chains: int) -> NDArray[Any] | None:
        """β of each chain."""
        if self.betas is None:
            return None
        return np.repeat(self.betas, n_chains // len(self.betas)).astype(self.dtype)

    def _rule(self, n_chains: int) -> tuple[float, NDArray[Any] | None]:
        """What kernels of two-valued units ask for: how often is offered, and 1/β of each chain."""
        heat = self._heat(n_chains)
        if heat is not None:
            heat = (1 / np.maximum(heat, SMALLEST_BETA)).astype(np.float32)
        return self.offered, heat


class TwoValued(Sweeper):
    """Layout {0,1}: (units, chains) where ``chains_last``, else (chains, units)."""

    chains_last = True

    def __init__(self, space: HomogeneousSpace, dtype: Any = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self._low, self._high = (int(value) for value in space.values)

    def load(self, states: Array) -> Work:
        """States (chains, n) of the space as zeros and ones."""
        work = (states == self._high).astype(self.dtype)
        return np.ascontiguousarray(work.T) if self.chains_last else work

    def read(self, work: Work) -> NDArray[np.int8]:
        """The inverse of :meth:`load`."""
        # Cast before it is turned: what is written through a turned view is a byte a state.
        states = work.astype(np.int8)
        if self._low:
            states *= self._high - self._low
            states += self._low
        return states.T if self.chains_last else states
