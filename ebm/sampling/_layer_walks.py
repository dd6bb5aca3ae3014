"""Chains of two-valued layers along a straight path of parameters, no model made on the way."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._parallel import map_blocks, number_of_jobs
from ebm._types import Array, Indices, Words
from ebm.forms import LayeredForm, energy_form
from ebm.model import EnergyModel
from ebm.models._layers import are_two_valued, binary_layers
from ebm.sampling._precision import single_precision_suffices
from ebm.sampling._streams import block_slices
from ebm.sampling.gibbs import LayerSweeper
from ebm.sampling.samples import ChainState
from ebm.spaces import HomogeneousSpace

#: Updates below which a second thread costs more than it brings.
UPDATES_PER_JOB = 100_000


class LayerWalk:
    """Chains at (1 − s) θ₀ + s θ, where θ₀ has no couplings and both are {0,1} layers at center 0.

    E_s(v) = −b(s)·v − Σ_j ln(1 + e^{c(s) + s v·U}) + k(s), all affine in s. The product v·U, in
    single precision, is kept from a move: to weigh and to move takes one product up and one down.
    """

    def __init__(
        self, ends: tuple[LayeredForm, LayeredForm], space: HomogeneousSpace, chains: ChainState
    ) -> None:
        self._sweeper, self._ends = LayerSweeper(ends[1], space), ends
        self._weights: NDArray[np.float32] = self._sweeper._up
        self._work = self._sweeper.load(chains.states)
        self._streams: Words = chains.streams
        self._blocks = block_slices(len(self._work))
        self._inputs = np.empty((len(self._work), self._weights.shape[1]), np.float32)
        self.renew()

    @property
    def chains(self) -> ChainState:
        """The states in the coding of the model, and the streams as they are."""
        return ChainState(self._sweeper.read(self._work), self._streams)

    def take(self, rows: Indices) -> LayerWalk:
        """The walk of some of the chains, on the same streams; this one stays where it is."""
        taken = copy(self)
        taken._work, taken._inputs = self._work[rows], self._inputs[rows]
        taken._blocks = block_slices(len(rows))
        return taken

    def renew(self) -> None:
        """The product v·U of the states as they are, also where a move was interrupted."""
        self._map(self._rise)

    def move(self, fraction: float, n_sweeps: int = 1) -> None:
        """Sweeps v → h → v at a fraction s of the path."""
        from ebm._kernels.heat_bath import update_layer

        scale = np.float32(fraction)
        visible, hidden = (x.astype(np.float32) for x in self._biases(fraction))

        def sweep(block: int) -> None:
            rows, stream = self._blocks[block], self._streams[block]
            states, up = self._work[rows], self._inputs[rows]
            h, down = np.empty_like(up), np.empty_like(states)
            for _ in range(n_sweeps):
                update_layer(up, hidden, stream, h, scale)
                np.matmul(h, self._weights.T, out=down)
                update_layer(down, visible, stream, states, scale)
                self._rise(block)

        self._map(sweep)

    def gains(self, before: float, after: float) -> Array:
        """E_s(v) − E_t(v) of a fraction s and a next one t, (chains,)."""
        from ebm._kernels.layer_gains import add_gains

        first, last = self._ends
        step, hidden = after - before, self._biases(before)[1].astype(np.float32)
        rises = (step * (last.hidden - first.hidden)).astype(np.float32)
        slopes = (last.visible - first.visible).astype(np.float32)
        gains = np.empty(len(self._work))

        def weigh(block: int) -> None:
            rows = self._blocks[block]
            gains[rows] = step * (self._work[rows] @ slopes - (last.constant - first.constant))
            parts = np.float32(before), hidden, np.float32(step), rises
            add_gains(self._inputs[rows], *parts, gains[rows])

        self._map(weigh)
        return gains

    def _biases(self, fraction: float) -> tuple[Array, Array]:
        first, last = self._ends
        return (
            (1 - fraction) * first.visible + fraction * last.visible,
            (1 - fraction) * first.hidden + fraction * last.hidden,
        )

    def _rise(self, block: int) -> None:
        """v·U of a block of chains."""
        rows = self._blocks[block]
        np.matmul(self._work[rows], self._weights, out=self._inputs[rows])

    def _map(self, function: Any) -> None:
        jobs = max(1, min(number_of_jobs(), len(self._blocks), self._work.size // UPDATES_PER_JOB))
        for _ in map_blocks(function, range(len(self._blocks)), jobs):
            pass


def layer_ends(first: EnergyModel, last: EnergyModel) -> tuple[LayeredForm, LayeredForm] | None:
    """Both ends of a path as {0,1} layers at center 0, where single precision suffices, or None."""
    forms = []
    for model in (first, last):
        form = energy_form(model)
        if not (isinstance(form, LayeredForm) and are_two_valued(form)):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            origin = binary_layers(form).at_origin()
            if not single_precision_suffices(origin.weights, origin.visible, origin.hidden):
                return None
        forms.append(origin)
    return forms[0], forms[1]
