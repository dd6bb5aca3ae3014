"""Two layers of two-valued units on a device of torch: sweeps, and chains along a path."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._devices import DeviceArrays
from ebm._types import Array, Indices
from ebm.forms import LayeredForm
from ebm.models._layers import steps
from ebm.sampling.samples import ChainState
from ebm.spaces import HomogeneousSpace


@dataclass(frozen=True, eq=False)
class DeviceLayers:
    """E(v, h) = −v·U h − b·v − c·h in single precision, each unit at low or at low + step.

    U is (n, m), b (n,) and c (m,). ``visible_steps`` and ``hidden_steps`` are (low, step).
    """

    arrays: DeviceArrays
    weights: Any
    visible: Any
    hidden: Any
    visible_steps: tuple[float, float] = (0.0, 1.0)
    hidden_steps: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of(cls, arrays: DeviceArrays, form: LayeredForm) -> DeviceLayers:
        """A form with two-valued units, brought to the device."""
        origin = form.at_origin()
        u, b, c = (arrays.load(x) for x in (origin.weights, origin.visible, origin.hidden))
        return cls(arrays, u, b, c, steps(form.visible_units), steps(form.hidden_units))

    def hidden_inputs(self, v: Any) -> Any:
        """c + v·U, (k, n) -> (k, m)."""
        return self.hidden + v @ self.weights

    def hidden_mean(self, v: Any) -> Any:
        """E[h|v], (k, n) -> (k, m)."""
        low, step = self.hidden_steps
        return _valued((step * self.hidden_inputs(v)).sigmoid(), low, step)

    def swept(self, v: Any, n_sweeps: int) -> Any:
        """Visible states after sweeps v → h → v, (k, n)."""
        for _ in range(n_sweeps):
            h = drawn(self.arrays, self.hidden_inputs(v), *self.hidden_steps)
            v = drawn(self.arrays, self.visible + h @ self.weights.T, *self.visible_steps)
        return v


def drawn(arrays: DeviceArrays, inputs: Any, low: float = 0.0, step: float = 1.0) -> Any:
    """Units that are independent at these inputs, (k, n) -> (k, n)."""
    active = arrays.uniform(tuple(inputs.shape)) < (step * inputs).sigmoid()
    return _valued(active.to(inputs.dtype), low, step)


def _valued(active: Any, low: float, step: float) -> Any:
    """low + step · active, the array itself where that changes nothing."""
    return active if (low, step) == (0.0, 1.0) else low + step * active


class DeviceLayerWalk:
    """The chains of a :class:`~ebm.sampling._layer_walks.LayerWalk` on a device.

    Products are in single precision, weights in double. The random numbers are those of the device,
    seeded by the first word of the streams of the chains, which stay as they are.
    """

    def __init__(
        self,
        ends: tuple[LayeredForm, LayeredForm],
        space: HomogeneousSpace,
        chains: ChainState,
        device: Any,
    ) -> None:
        self._arrays = arrays = DeviceArrays(device)
        arrays.seed(int(chains.streams[0, 0, 0]) >> 1)
        self._space, self._streams = space, chains.streams
        self._ends = tuple(DeviceLayers.of(arrays, end) for end in ends)
        self._constant = ends[1].constant - ends[0].constant
        self._states = arrays.load(chains.states > space.values[0])
        self.renew()

    @property
    def chains(self) -> ChainState:
        """The states in the coding of the model, and the streams as they were."""
        low, high = self._space.values
        is_high = self._arrays.read(self._states) > 0
        return ChainState(np.where(is_high, high, low).astype(np.int8), self._streams)

    def take(self, rows: Indices) -> DeviceLayerWalk:
        """The walk of some of the chains, on the same numbers; this one stays where it is."""
        taken = copy(self)
        where = self._arrays.load(rows, np.int64)
        taken._states, taken._inputs = self._states[where], self._inputs[where]
        return taken

    def renew(self) -> None:
        """The product v·U of the states as they are."""
        self._inputs = self._states @ self._ends[1].weights

    def move(self, fraction: float, n_sweeps: int = 1) -> None:
        """Sweeps v → h → v at a fraction s of the path."""
        first, last = self._ends
        visible = first.visible + fraction * (last.visible - first.visible)
        hidden = first.hidden + fraction * (last.hidden - first.hidden)
        for _ in range(n_sweeps):
            h = drawn(self._arrays, hidden + fraction * self._inputs)
            self._states = drawn(self._arrays, visible + fraction * (h @ last.weights.T))
            self.renew()

    def gains(self, before: float, after: float) -> Array:
        """E_s(v) − E_t(v) of a fraction s and a next one t, (chains,), on the host."""
        first, last = self._ends
        step, u = after - before, self._inputs.double()
        rise = (last.hidden - first.hidden).double()
        x = first.hidden.double() + before * (u + rise)
        d = step * (u + rise)
        zero = x.new_zeros(())
        sums = ((x + d).logaddexp(zero) - x.logaddexp(zero)).sum(1)
        linear = self._states.double() @ (last.visible - first.visible).double()
        return self._arrays.read(sums + step * (linear - self._constant))
