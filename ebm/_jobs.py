"""What does not depend on each other: resamples, folds, permutations, starts, blocks of chains."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import checkpoint_path, damaged, read_checkpoint, write_checkpoint
from ebm.errors import EbmError

Answer = Mapping[str, NDArray[Any]]

_depth: ContextVar[int] = ContextVar("depth of loops within each other", default=0)


def run_jobs(
    function: Callable[[Any], Answer],
    inputs: Sequence[Any],
    *,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Answer]:
    """The function's answers, mappings of arrays, in the order of the inputs.

    Seeds are inputs, so that an answer depends on its input alone, whatever ran before and wherever
    it runs. With a ``checkpoint`` answers are stored as they come, and stored ones are not asked
    for again; ``settings`` name what both runs must have in common. ``progress`` is called with the
    number of answers so far. Ctrl-C ends the whole, not one job.
    """
    if executor is not None and not isinstance(executor, Executor):
        raise EbmError(
            "executor must be one of concurrent.futures, such as ProcessPoolExecutor(), got "
            f"{executor!r}"
        )
    path = None if checkpoint is None else checkpoint_path(checkpoint, "answers.npz")
    answers: dict[int, Answer] = {}
    if path is not None and path.exists():
        answers = _read(path, settings or {})
    missing = [k for k in range(len(inputs)) if k not in answers]
    with loop(), _sent(function, executor):
        run: Callable[..., Iterator[Answer]] = map if executor is None else executor.map
        for k, answer in zip(missing, run(function, [inputs[k] for k in missing]), strict=True):
            answers[k] = answer
            if path is not None:
                _write(path, settings or {}, answers)
            if progress is not None:
                progress(len(answers))
    return [answers[k] for k in range(len(inputs))]


@contextmanager
def _sent(function: Callable[[Any], Answer], executor: Executor | None) -> Iterator[None]:
    """Say of what other processes cannot be given why they cannot."""
    try:
        yield
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        if isinstance(executor, ProcessPoolExecutor):
            try:
                pickle.dumps(function)
            except (AttributeError, TypeError, pickle.PicklingError):
                raise EbmError(
                    f"other processes cannot be given this function ({error}): define it with def "
                    "in a module, or take a ThreadPoolExecutor"
                ) from error
        raise


@contextmanager
def loop() -> Iterator[None]:
    """Marks what runs inside of a loop: an interrupt there ends the loop around it, too."""
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that Ctrl-C cuts short, while what was done before it stays, unless a loop is around."""
    try:
        yield
    except KeyboardInterrupt:
        if _depth.get():
            raise


def is_inner() -> bool:
    """Whether a loop runs inside of another one."""
    return _depth.get() > 1


def _write(path: Path, settings: Mapping[str, str], answers: Mapping[int, Answer]) -> None:
    named = {str(k): {name: np.asarray(x) for name, x in answers[k].items()} for k in answers}
    write_checkpoint(path, settings, named)


def _read(path: Path, settings: Mapping[str, str]) -> dict[int, Answer]:
    answers: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in read_checkpoint(path, settings, {}).items():
        number, _, part = name.partition(".")
        if not number.isdecimal():
            raise damaged(path, f"{name} is no answer")
        answers.setdefault(int(number), {})[part] = array
    return dict(answers)
