"""A device that is none: tensors in the memory of the host that refuse what an accelerator refuses.

``device_in_disguise()`` opens a device ``disguise:0``. Its tensors compute as on the CPU, autograd
and torch.func included, but refuse to be mixed with tensors of the host, save those without axes,
and to be read by numpy before ``.cpu()``: a step that is for the CPU only is found without a GPU.

What it does not see: kernels that an accelerator lacks or that round in another way, fused and
multi-tensor optimizers, mixed precision (products stay as they are), random numbers of its own,
memory, waiting, more than one device, torch.compile, and how files of torch store a device. Forward
differentiation under vmap crashes with it. It refuses host tensors as indices, which CUDA copies
without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils import _pytree as trees
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

__all__ = ["NAME", "device_in_disguise", "needs_disguise"]

NAME = "disguise"
_SET_UP = "_setup_privateuseone_for_python_backend"
#: Skips where torch is too old for a device made in Python.
needs_disguise = pytest.mark.skipif(
    not hasattr(backend_registration, _SET_UP),
    reason=f"torch {torch.__version__} cannot register a device from Python",
)

aten = torch.ops.aten
#: What may read from one device and write to another.
COPIES = {aten._to_copy.default, aten.copy_.default}


@contextmanager
def device_in_disguise() -> Iterator[torch.device]:
    """Open the device for the tensors of a block of code."""
    load = torch.load
    torch.load = _loaded  # type: ignore[assignment]
    try:
        with _Factories():
            yield torch.device(NAME, 0)
    finally:
        torch.load = load


class Disguised(torch.Tensor):
    """A tensor of the host behind a wrapper that says that it lives elsewhere."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Disguised:
        outer = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        outer.inner = inner
        return outer

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(function, args, kwargs or {})

    def numpy(self, *, force: bool = False) -> Any:
        """Refused in the words of torch, unless forced."""
        if force:
            return self.cpu().numpy(force=True)
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )

    def tolist(self) -> Any:
        """Copied to the host, as tensors of any device are."""
        return self.cpu().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Files hold the numbers; where they go is said when they are loaded.
        return self.detach().cpu().__reduce_ex__(protocol)

    def __repr__(self, **_: Any) -> str:
        return f"{self.inner!r} in disguise"


class _Factories(TorchDispatchMode):
    """Makes new tensors on the device, and copies them to it."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation of torch, on what is behind the disguise."""
    tensors = [x for x in trees.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    disguised = [x for x in tensors if isinstance(x, Disguised)]
    if disguised and function not in COPIES:
        _refuse_mixtures(function, args, tensors)
    plain_args, plain = trees.tree_map_only(Disguised, lambda x: x.inner, (args, kwargs))
    there = bool(disguised)
    if plain.get("device") is not None:
        there = torch.device(plain["device"]).type == NAME
        plain = {**plain, "device": torch.device("cpu")}
    elif function is aten.copy_.default:
        there = isinstance(args[0], Disguised)
    result = function(*plain_args, **plain)
    if not there:
        return args[0] if function is aten.copy_.default else result
    # Numbers, as of float(tensor), are on no device.
    result = trees.tree_map_only(torch.Tensor, Disguised, result)
    return return_and_correct_aliasing(function, args, kwargs, result)


def _refuse_mixtures(function: Any, args: Any, tensors: list[torch.Tensor]) -> None:
    host = [x for x in tensors if not isinstance(x, Disguised)]
    # A number of the host is sent along; nothing can be written into it.
    written = function._schema.is_mutable and bool(args) and any(args[0] is x for x in host)
    if written or any(x.ndim for x in host):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{NAME}:0 and cpu! ({function})"
        )


def _loaded(file: Any, map_location: Any = None, **settings: Any) -> Any:
    """What torch.load gives, sent where it is wanted."""
    content = _LOAD(file, map_location="cpu", **settings)
    if map_location is None:
        return content
    return trees.tree_map_only(torch.Tensor, lambda x: x.to(map_location), content)


_LOAD = torch.load


class _Module:
    """What torch asks the module of a device, torch.cuda say."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]

    @staticmethod
    def get_rng_state(device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """The random numbers are those of the host."""

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False


def _register() -> torch.library.Library:
    """Tell torch of the device."""
    getattr(backend_registration, _SET_UP)(NAME, backend_module=_Module())
    rules = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    rules.fallback(torch.library.fallthrough_kernel)
    return rules


# While tests are collected: torch counts devices at the first backward pass of a process.
_RULES = _register() if hasattr(backend_registration, _SET_UP) else None
