"""Chains over the parameters of an action that stay on its device, states and random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebm._types import Array
from ebm.errors import ModelError
from ebm.sampling._arithmetic import HostArithmetic


class DeviceArithmetic(HostArithmetic):
    """Tensors of one dtype and device, and a generator there, seeded from that of the host.

    A device without generators of its own gets the numbers of the host.
    """

    xp: Any = torch

    def __init__(
        self,
        source: np.random.Generator,
        dtype: torch.dtype,
        device: torch.device,
        stream: Any = None,
    ) -> None:
        super().__init__(source)
        self._dtype, self._device = dtype, device
        self._generator = _generator(device)
        if self._generator is None:
            return
        self._generator.manual_seed(int(source.integers(0, 2**63)))
        if stream is not None:
            self._generator.set_state(torch.from_numpy(np.array(stream)))

    def array(self, values: Any) -> Any:
        """Numbers of the host in the dtype of the action, on its device."""
        # torch does not share read-only memory.
        return torch.from_numpy(np.array(values)).to(self._device, self._dtype)

    def to_host(self, values: Any) -> Array:
        """A float64 array."""
        return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)

    def jitter(self) -> Any:
        """A uniform number in (−1, 1), (1,)."""
        return 2 * self.uniform(1) - 1

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Standard normal numbers."""
        if self._generator is None:
            return self.array(super().normal(shape))
        how: dict[str, Any] = {"dtype": self._dtype, "device": self._device}
        return torch.randn(shape, generator=self._generator, **how)

    def uniform(self, size: int) -> Any:
        """Uniform numbers in [0, 1)."""
        if self._generator is None:
            return self.array(super().uniform(size))
        how: dict[str, Any] = {"dtype": self._dtype, "device": self._device}
        return torch.rand(size, generator=self._generator, **how)

    def energies(self, model: Any, states: Any) -> Any:
        """E of states (m, n); +inf is allowed, NaN and −inf are not."""
        energies: Tensor = model.energy(states)
        if bool((energies.isnan() | (energies == -torch.inf)).any()):
            raise ModelError(f"{type(model).__name__}.energy must be finite or +inf, got NaN")
        return energies

    def slopes(self, model: Any, states: Any) -> Any:
        """∂E/∂θ of states (m, n), NaN only where E is not finite."""
        slopes: Tensor = model.state_gradient(states)
        undefined = slopes.isnan().any(-1)
        if bool(undefined.any()) and bool(model.energy(states)[undefined].isfinite().any()):
            name = type(model).__name__
            raise ModelError(f"{name}.state_gradient must not be NaN at a state of finite energy")
        return slopes

    def stream(self) -> Mapping[str, Any]:
        """The states of both generators."""
        if self._generator is None:
            return super().stream()
        return {**super().stream(), "device": self._generator.get_state().cpu().numpy().copy()}


def _generator(device: torch.device) -> Any:
    """A generator of a device; None of a backend that has none."""
    try:
        return torch.Generator(device)
    except (RuntimeError, NotImplementedError):
        return None
