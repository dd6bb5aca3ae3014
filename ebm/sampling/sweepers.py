"""Compiled sweeps: each kind of model in the layout in which its updates are fast.

A sweeper takes the states of a block of chains into its own layout, advances them there by whole
sweeps, and gives them back. It keeps nothing else between calls, so a chain that is stopped and
taken up again is the same chain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.model import LayeredForm, QuadraticForm
from ebm.spaces import FiniteSpace, Spins

Array = NDArray[np.float64]
Work = NDArray[Any]
Words = NDArray[np.uint64]

#: Units whose fields one matrix product gives.
SITES = 32


class Sweeper(ABC):
    """How a block of chains advances."""

    #: Hidden copies that each chain carries along; states then are (chains, 1 + n_copies, n).
    n_copies = 0

    @abstractmethod
    def load(self, states: Array) -> Work:
        """States (chains, n) in the coding of the model, in the layout of the sweeper."""

    @abstractmethod
    def read(self, work: Work) -> NDArray[Any]:
        """The inverse of :meth:`load`, of any type that holds the values exactly."""

    @abstractmethod
    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Advance all chains in place by whole sweeps."""


def log_odds(form: QuadraticForm, space: FiniteSpace) -> tuple[Array, Array]:
    """Weights W and biases b with log-odds b_i + Σ_j W_ij x_j of unit i, in x ∈ {0,1}.

    Parameters
    ----------
    form : QuadraticForm
        Energy over {0,1} or ±1.
    space : FiniteSpace
        Which of the two.

    Returns
    -------
    (ndarray, ndarray)
        W with zero diagonal, (n, n), and b, (n,).
    """
    own = np.asarray(form.matrix.diagonal())
    weights = form.matrix - np.diag(own)
    if isinstance(space, Spins):
        # s = 2x − 1; s² = 1 makes the diagonal a constant.
        return 4 * weights, 2 * form.vector - 2 * weights.sum(axis=1)
    return weights, form.vector + own / 2


class TwoValued(Sweeper):
    """Layout float32 {0,1}, (units, chains) where ``chains_last``, else (chains, units)."""

    chains_last = True

    def __init__(self, space: FiniteSpace) -> None:
        self._low, self._high = (int(value) for value in space.values)

    def load(self, states: Array) -> Work:
        """States (chains, n) of the space as zeros and ones."""
        work = (states == self._high).astype(np.float32)
        return np.ascontiguousarray(work.T) if self.chains_last else work

    def read(self, work: Work) -> NDArray[np.int8]:
        """The inverse of :meth:`load`."""
        # Cast before it is turned: what is written through a turned view is a byte a state.
        states = work.astype(np.int8)
        if self._low:
            states *= self._high - self._low
            states += self._low
        return states.T if self.chains_last else states


class DenseSweeper(TwoValued):
    """Many chains of a dense machine: fields by matrix products, some units at a time."""

    def __init__(self, weights: Array, biases: Array, space: FiniteSpace) -> None:
        super().__init__(space)
        self._weights = np.ascontiguousarray(weights, dtype=np.float32)
        self._biases = biases.astype(np.float32)

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.gibbs import update_sites

        n, chains = work.shape
        fields = np.empty((SITES, chains), dtype=np.float32)
        for _ in range(n_sweeps):
            for start in range(0, n, SITES):
                sites = slice(start, min(start + SITES, n))
                part = fields[: sites.stop - start]
                np.matmul(self._weights[sites], work, out=part)
                own = self._weights[sites, sites]
                update_sites(part, self._biases[sites], own, stream, work[sites])


class FewChainsSweeper(DenseSweeper):
    """Few chains of a dense machine: fields kept, and changed only when a unit flips."""

    chains_last = False

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.gibbs import sweep_dense_few

        # Made anew at each call: rounding errors do not add up, and nothing need be kept.
        fields = work @ self._weights + self._biases
        sweep_dense_few(work, fields, self._weights, stream, n_sweeps)


class SparseSweeper(TwoValued):
    """Any number of chains of a sparse machine."""

    def __init__(self, weights: Any, biases: Array, space: FiniteSpace) -> None:
        super().__init__(space)
        csr = weights.tocsr()
        self._biases = biases.astype(np.float32)
        self._rows = (
            csr.indptr.astype(np.int64),
            csr.indices.astype(np.int64),
            csr.data.astype(np.float32),
        )

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.gibbs import sweep_sparse

        sweep_sparse(work, self._biases, *self._rows, stream, n_sweeps)


class LayerSweeper(TwoValued):
    """A machine with a hidden layer: all hidden units given the visible ones, then back.

    Parameters
    ----------
    form : LayeredForm
        Energy of both layers.
    space : FiniteSpace
        The visible states, {0,1}^n.
    """

    chains_last = False

    def __init__(self, form: LayeredForm, space: FiniteSpace) -> None:
        super().__init__(space)
        self._up = np.ascontiguousarray(form.weights, dtype=np.float32)
        self._down = self._up.T
        self._visible = form.visible.astype(np.float32)
        self._hidden = form.hidden.astype(np.float32)

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps v → h → v."""
        from ebm._kernels.gibbs import update_layer

        hidden = np.empty((len(work), self._up.shape[1]), dtype=np.float32)
        up, down = np.empty_like(hidden), np.empty_like(work)
        for _ in range(n_sweeps):
            np.matmul(work, self._up, out=up)
            update_layer(up, self._hidden, stream, hidden)
            np.matmul(hidden, self._down, out=down)
            update_layer(down, self._visible, stream, work)
