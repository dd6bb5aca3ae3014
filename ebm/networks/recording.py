"""The batches that gradients came from, run again with the new weights to see what layers see."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Recorder"]

Seen = Callable[[nn.Module, Tensor, Tensor], None]


class Recorder:
    """Keeps the inputs of each forward pass that a backward pass went through.

    Parameters
    ----------
    model : nn.Module
        Watched at its inputs and its output. Copies of it are not watched.
    modules : iterable of nn.Module
        The layers to look at.
    """

    def __init__(self, model: nn.Module, modules: Iterable[nn.Module]) -> None:
        self.batches: list[tuple[Any, Any, Any]] = []
        self._model = model
        self._random = any(isinstance(m, nn.modules.dropout._DropoutNd) for m in model.modules())
        self._seen: Seen | None = None
        self._replaying = False
        model.register_forward_pre_hook(_Watcher(self._before), with_kwargs=True)
        model.register_forward_hook(_Watcher(self._after), with_kwargs=True)
        for module in modules:
            module.register_forward_hook(_Watcher(self._at_layer), with_kwargs=True)
        self._state: Any = None

    def clear(self) -> None:
        """Forget the batches."""
        self.batches.clear()

    def replay(self, seen: Seen) -> None:
        """Run all batches again, as they were: same dropped units, no trace in any buffer.

        Parameters
        ----------
        seen : callable
            Called with each layer, its input and its output.
        """
        self._seen, self._replaying = seen, True
        try:
            with torch.no_grad(), _untouched_buffers(self._model):
                for args, kwargs, state in self.batches:
                    with _random_state(state):
                        self._model(*args, **kwargs)
        finally:
            self._seen, self._replaying = None, False

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._random and not self._replaying:
            self._state = _random_states()

    def _after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if self._replaying:
            return
        batch = (args, kwargs, self._state)

        def passed(gradient: Tensor) -> None:
            # Several outputs, or a second backward pass, are still one batch.
            if not any(batch is other for other in self.batches):
                self.batches.append(batch)

        for tensor in _tensors(output):
            if tensor.requires_grad:
                tensor.register_hook(passed)

    def _at_layer(self, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        if self._seen is not None:
            self._seen(module, args[0] if args else kwargs["input"], output)


class _Watcher:
    """A hook that lives as long as its owner; copies and files of the model leave it behind."""

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
    """The hook of a copy."""


def _deaf_watcher() -> Callable[..., None]:
    return _deaf


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict):
        yield from _tensors(list(output.values()))
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _tensors(part)


@contextmanager
def _untouched_buffers(model: nn.Module) -> Iterator[None]:
    """Put buffers, such as the running moments of batch normalization, back as they were."""
    # Their version counters do not tell: batch normalization writes past them.
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, copy in before:
            buffer.copy_(copy)


def _random_states() -> tuple[Tensor, list[Tensor]]:
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), on_devices


def _set_random_states(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


@contextmanager
def _random_state(state: tuple[Tensor, list[Tensor]] | None) -> Iterator[None]:
    """Draw as at an earlier time, then go on as if nothing had been drawn."""
    if state is None:
        yield
        return
    now = _random_states()
    _set_random_states(state)
    try:
        yield
    finally:
        _set_random_states(now)
