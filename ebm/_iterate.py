"""What goes from state to state: one loop for every solver of the library.

A solver is a frozen value of settings. All that changes is its state, a mapping of arrays that a
step replaces as a whole; the state is the checkpoint. The loss knows the data, and nothing behind
it does. From this follow the history, a stop by Ctrl-C, the progress line, checkpoints and the
verdict of every solver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ebm._checkpoints import (
    LayoutError,
    as_table,
    checkpoint_path,
    damaged,
    fingerprint,
    from_table,
    read_checkpoint,
    write_checkpoint,
)
from ebm._jobs import is_inner, loop
from ebm._names import PACKAGE
from ebm._types import Array
from ebm.errors import EbmError, FileFormatError

#: Arrays by name: parameters, memory, chains, random streams, counters; nested where a part has
#: parts of its own.
State = Mapping[str, Any]


class Solver(Protocol):
    """Frozen settings and pure functions of the state; the methods change nothing in place."""

    #: The class of the entries of the history, a dataclass of numbers.
    record_type: type[Any]

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """The state before the first step, at parameters θ (p,)."""
        ...

    def step(self, loss: Any, state: State) -> State:
        """The state one update on; its entry ``"theta"`` holds the parameters."""
        ...

    def record(self, loss: Any, state: State) -> Any | None:
        """An entry of the history, or None where none is due."""
        ...

    def verdict(self, loss: Any, state: State, history: Sequence[Any]) -> str:
        """Why the run ends here, in one word; empty while it goes on."""
        ...

    def settings(self) -> Mapping[str, str]:
        """What runs have in common that continue each other, by name."""
        ...


#: What a solver has.
MEMBERS = ("record_type", "start", "step", "record", "verdict", "settings")


@dataclass(frozen=True, eq=False)
class Run:
    """Where a run ended: its last state, its history and the reason, ``"interrupted"`` included."""

    state: State
    history: tuple[Any, ...]
    reason: str


def iterate(
    solver: Solver,
    loss: Any,
    theta: Array,
    *,
    rng: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Any], object] | None = None,
) -> Run:
    """Steps of a solver on a loss until the solver has a verdict.

    A checkpoint that is there is gone on from; it is written with every entry of the history and at
    an interrupt. ``progress`` is called with every entry. Only the outermost loop turns Ctrl-C into
    a run that was interrupted; one inside of another, as a fit in a bootstrap, lets it pass.
    """
    store = _store(checkpoint, solver, loss, theta)
    with _naming_members(solver, loss):
        return _run(solver, loss, _started(solver, loss, theta, rng), store, progress)


def require_word(reason: Any, words: Sequence[str]) -> None:
    """Refuse a verdict that a loss has no sentence for."""
    if reason not in {*words, "interrupted"}:
        known = ", ".join(map(repr, words))
        raise EbmError(f"verdict of a solver for this loss must be one of {known}, got {reason!r}")


def _started(solver: Solver, loss: Any, theta: Array, rng: Any) -> State:
    state: Any = solver.start(loss, theta, rng)
    if not isinstance(state, Mapping) or "theta" not in state:
        raise EbmError(
            f"{type(solver).__name__}.start must return a mapping with the parameters as its entry "
            f"'theta', got {state!r}"
        )
    return state


@contextmanager
def _naming_members(solver: Any, loss: Any) -> Iterator[None]:
    """Say which member of a loss, or of its points, a user's solver misses."""
    try:
        yield
    except AttributeError as error:
        owner, home = type(error.obj), type(loss).__module__
        is_of_loss = error.obj is loss or (
            home.startswith(f"{PACKAGE}.") and owner.__module__ == home
        )
        if _is_own(solver) or not is_of_loss:
            raise
        members = ", ".join(sorted(name for name in dir(error.obj) if not name.startswith("_")))
        raise EbmError(
            f"{type(solver).__name__} uses {error.name!r}, which {owner.__name__} does not have; "
            f"it has {members}: take another member, or another loss"
        ) from error


def _is_own(solver: Any) -> bool:
    """Whether a solver, an optimizer or an average is one of the library."""
    return type(solver).__module__.startswith(f"{PACKAGE}.")


def _run(
    solver: Solver,
    loss: Any,
    state: State,
    store: _Store | None,
    progress: Callable[[Any], object] | None,
) -> Run:
    history: list[Any] = []
    if store is not None and store.exists():
        state, history = store.read(state)
    reason = ""
    with loop():
        if not history:
            # An interrupt before the first entry leaves nothing to return.
            _enter(solver.record(loss, state), state, history, store, progress)
        try:
            while not (reason := solver.verdict(loss, state, history)):
                after = solver.step(loss, state)
                # An interrupt in between leaves the state whose entry is in the history.
                record = solver.record(loss, after)
                state = after
                _enter(record, state, history, store, progress)
        except KeyboardInterrupt:
            if is_inner():
                raise
            reason = "interrupted"
            if store is not None:
                store.write(state, history)
    return Run(state, tuple(history), reason)


def _enter(
    record: Any,
    state: State,
    history: list[Any],
    store: _Store | None,
    progress: Callable[[Any], object] | None,
) -> None:
    """Take an entry into the history, the checkpoint and the progress line, where one is due."""
    if record is None:
        return
    history.append(record)
    if store is not None:
        store.write(state, history)
    if progress is not None:
        progress(record)


@dataclass(frozen=True)
class _Store:
    """The file of a run, and what another run must have in common with it."""

    path: Path
    settings: Mapping[str, str]
    record_type: type[Any]
    #: Whose state an entry is, by its name, where it is not the solver's; "" is the solver.
    owners: Mapping[str, Any]

    def exists(self) -> bool:
        """Whether there is a run to go on from."""
        return self.path.exists()

    def write(self, state: State, history: Sequence[Any]) -> None:
        """Replace the file as a whole."""
        table = as_table(history, self.record_type)
        write_checkpoint(self.path, self.settings, {"state": state, "history": table})

    def read(self, start: State) -> tuple[State, list[Any]]:
        """The state, laid out like that of a fresh start, and the history."""
        template = {"state": start, "history": as_table((), self.record_type)}
        try:
            stored = read_checkpoint(self.path, self.settings, template)
        except FileFormatError as error:
            layout = error.__cause__
            if not isinstance(layout, LayoutError):
                raise
            owner = self.owners.get(layout.field.partition(".")[0]) or self.owners[""]
            # The state of a solver of the library is laid out alike at every step.
            if not _is_own(owner):
                raise EbmError(
                    f"{type(owner).__name__}.start must lay out {layout.field!r} as step does: "
                    f"{layout.stored} stored in {self.path}, {layout.wanted} at the start"
                ) from error
            raise
        try:
            return stored["state"], from_table(stored["history"], self.record_type)
        except (TypeError, ValueError) as error:
            raise damaged(self.path, error) from error


def _store(checkpoint: Any, solver: Solver, loss: Any, theta: Array) -> _Store | None:
    """Where a run is kept, refused before any work if it is no file."""
    if checkpoint is None:
        return None
    path = checkpoint_path(checkpoint)
    start = {"start": fingerprint(theta)}
    kind = {"solver": type(solver).__name__}
    settings = {**kind, **loss.settings(), **start, **solver.settings()}
    parts = {
        "optimizer": getattr(loss, "optimizer", None),
        "chains": getattr(loss, "average", None),
    }
    return _Store(path, settings, solver.record_type, {**parts, "": solver})
