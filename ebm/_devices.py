"""Devices of torch, which is imported when one is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.errors import EbmError, require_extra


def chosen_device(device: Any) -> Any:
    """A device that torch can use, with its number; refused by the name ``device``."""
    torch = require_extra("torch", "torch")
    try:
        # Backends that torch was not built with raise AssertionError.
        probe = torch.zeros(1, device=torch.device(device))
        # What holds no numbers, as "meta", gives none back.
        probe.cpu()
        return probe.device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise EbmError(
            f"device must be one that torch can use here, got {device!r}: {reason}; use "
            "device='cpu', or install a torch with that backend"
        ) from error


class DeviceArrays:
    """Single-precision tensors of a device, and uniform numbers drawn there.

    A device without a generator of its own gets those of the CPU's torch.
    """

    def __init__(self, device: Any) -> None:
        self.device = chosen_device(device)
        self._torch = require_extra("torch", "torch")
        try:
            self._random = self._torch.Generator(self.device)
        except (RuntimeError, NotImplementedError):
            self._random = self._torch.Generator()

    def load(self, values: Any, dtype: Any = np.float32) -> Any:
        """Numbers of the host, on the device."""
        # torch does not share read-only memory.
        return self._torch.from_numpy(np.array(values, dtype=dtype)).to(self.device)

    def read(self, values: Any) -> Array:
        """The inverse of :meth:`load`, in double precision."""
        return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)

    def seed(self, number: int) -> None:
        """Begin the random numbers of a seed below 2⁶³."""
        self._random.manual_seed(number)

    @property
    def stream(self) -> NDArray[np.uint8]:
        """Where the random numbers stand."""
        return np.array(self._random.get_state().cpu().numpy())

    @stream.setter
    def stream(self, words: NDArray[np.uint8]) -> None:
        self._random.set_state(self._torch.from_numpy(np.array(words)))

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Uniform numbers in [0, 1), multiples of 2⁻²⁴."""
        random = self._random
        numbers = self._torch.rand(
            shape, generator=random, device=random.device, dtype=self._torch.float32
        )
        return numbers.to(self.device)
