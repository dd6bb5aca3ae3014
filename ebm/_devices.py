"""Devices of torch, which is imported when one is asked for."""

from __future__ import annotations

from typing import Any

from ebm.errors import EbmError, require_extra


def chosen_device(device: Any) -> Any:
    """A device that torch can use, with its number; refused by the name ``device``."""
    torch = require_extra("torch", "torch")
    try:
        # Backends that torch was not built with raise AssertionError.
        return torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise EbmError(
            f"device must be one that torch can use here, got {device!r}: {reason}; use "
            "device='cpu', or install a torch with that backend"
        ) from error
