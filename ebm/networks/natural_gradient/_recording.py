"""Forward passes of the batches of a step, recorded and repeated with the new weights."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ebm.errors import ModelError

Seen = Callable[[nn.Module, Tensor, Tensor], None]


class ForwardPass:
    """The arguments of a forward pass, with its random state and mixed precision."""

    def __init__(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        self._model, self._args, self._kwargs = model, args, kwargs
        self._versions = self._versions_now()
        # Random numbers are drawn on the CPU and on the devices of the parameters.
        on_cuda = torch.cuda.is_initialized()
        self._devices = {p.device for p in model.parameters() if p.is_cuda} if on_cuda else set()
        self._random = self._random_now()
        self._kind = _device_type(model)
        self._mixed = _autocasting(self._kind, enabled=True) if _is_mixed(self._kind) else None

    def run(self) -> None:
        """Repeat the pass with the same mixed precision and random numbers; restore buffers."""
        autocast: Any = self._mixed or nullcontext()
        if self._mixed is None and _is_mixed(self._kind):
            autocast = _autocasting(self._kind, enabled=False)
        with autocast, self._same_random_numbers(), untouched_buffers(self._model):
            self._model(*self._args, **self._kwargs)

    @property
    def is_unchanged(self) -> bool:
        """Whether no argument has changed since the forward pass."""
        return self._versions_now() == self._versions

    def _versions_now(self) -> list[int]:
        tensors = _tensors((self._args, self._kwargs))
        return [tensor._version for tensor in tensors if not tensor.is_inference()]

    def _random_now(self) -> list[Tensor]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in self._devices)]

    def _set_random(self, states: list[Tensor]) -> None:
        torch.set_rng_state(states[0])
        for device, state in zip(self._devices, states[1:], strict=True):
            torch.cuda.set_rng_state(state, device)

    @contextmanager
    def _same_random_numbers(self) -> Iterator[None]:
        """Use the random state of the recorded pass, then restore the present one."""
        now = self._random_now()
        self._set_random(self._random)
        try:
            yield
        finally:
            self._set_random(now)


class Recorder:
    """The forward passes of a model that had a backward pass."""

    def __init__(self, model: nn.Module, modules: Iterable[nn.Module]) -> None:
        self.passes: list[ForwardPass] = []
        self._parameters = list(model.parameters())
        self._latest: ForwardPass | None = None
        self._seen: Seen | None = None
        handles = [
            model.register_forward_pre_hook(_Watcher(self._before), with_kwargs=True),
            model.register_forward_hook(_Watcher(self._after), with_kwargs=True),
        ]
        for module in modules:
            handles.append(module.register_forward_hook(_Watcher(self._at_layer), with_kwargs=True))
        for handle in handles:
            weakref.finalize(self, handle.remove)

    def full_precision(self) -> Any:
        """A context without mixed precision."""
        kind = self._parameters[0].device.type
        return _autocasting(kind, enabled=False) if _is_mixed(kind) else nullcontext()

    def clear(self) -> None:
        """Drop all recorded passes."""
        self.passes.clear()

    def require_passes(self) -> None:
        """Refuse a step without a recorded pass, or with one that cannot be repeated."""
        if not self.passes:
            raise ModelError(
                "no forward and backward pass went through the model since the last step, so there "
                "is no batch for the metric: call the model itself, then backward, then step. "
                "Where torch.compile is used, make the optimizer before the model first runs"
            )
        if not all(batch.is_unchanged for batch in self.passes):
            raise ModelError(
                "an input of the model was changed in place after its forward pass began, so the "
                "batch cannot be run again: give the model a copy, or change it after step()"
            )

    def replay(self, passes: Iterable[ForwardPass], seen: Seen) -> None:
        """Repeat passes with the current weights, and show input and output of each layer."""
        self._seen = seen
        try:
            with torch.no_grad():
                for each in passes:
                    each.run()
        finally:
            self._seen = None

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._seen is not None or not torch.is_grad_enabled():
            return
        # Without any gradient earlier batches no longer count. Within a backward pass, activation
        # checkpoints run forward while gradients are still None.
        dropped = all(parameter.grad is None for parameter in self._parameters)
        if dropped and torch._C._current_graph_task_id() == -1:
            self.clear()
        self._latest = ForwardPass(module, args, kwargs)

    def _after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        batch, self._latest = self._latest, None
        if batch is None:
            return

        def passed(gradient: Tensor) -> None:
            # Several outputs, or a second backward pass, belong to one batch.
            if not any(batch is other for other in self.passes):
                self.passes.append(batch)

        for tensor in _tensors(output):
            if tensor.requires_grad:
                tensor.register_hook(passed)

    def _at_layer(self, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        if self._seen is not None:
            self._seen(module, args[0] if args else kwargs["input"], output)


class _Watcher:
    """A hook that holds its owner weakly, and is inert in copies and pickles of the model."""

    def __init__(self, method: Callable[..., None]) -> None:
        self._method = weakref.WeakMethod(method)

    def __call__(self, *arguments: Any) -> None:
        method = self._method()
        if method is not None:
            method(*arguments)

    def __deepcopy__(self, memo: Any) -> Callable[..., None]:
        return _deaf

    def __reduce__(self) -> Any:
        return _deaf_watcher, ()


def _deaf(*arguments: Any) -> None:
    """The hook of a copied model, which does nothing."""


def _deaf_watcher() -> Callable[..., None]:
    return _deaf


def _is_mixed(kind: str) -> bool:
    return torch.is_autocast_enabled(kind)


def _autocasting(kind: str, *, enabled: bool) -> Any:
    """Mixed precision on or off on a type of device, in the current number format."""
    dtype = torch.get_autocast_dtype(kind)
    # The cache would hold weights from before the step.
    return torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False)


def _device_type(model: nn.Module) -> str:
    return next(model.parameters()).device.type


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict):
        yield from _tensors(list(output.values()))
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _tensors(part)
    elif dataclasses.is_dataclass(output):
        yield from _tensors([getattr(output, each.name) for each in dataclasses.fields(output)])


@contextmanager
def untouched_buffers(model: nn.Module) -> Iterator[None]:
    """Restore buffers at the end, such as the running moments of batch normalization."""
    # Batch normalization changes them without a new version number.
    before = [
        (module._buffers, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffers, name, buffer, copy in before:
                buffers[name] = buffer.copy_(copy)
