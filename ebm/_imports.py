"""Ctrl-C while modules are imported: whole imports for a session, a plain end for the program."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ebm._names import PACKAGE, PROGRAM


@contextmanager
def whole_imports() -> Iterator[None]:
    """What is imported inside is there as a whole before an interrupt is heeded."""
    before = signal.getsignal(signal.SIGINT)
    # Interrupts reach the main thread alone; a handler that is not of Python cannot be put back.
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


def end_program_when_interrupted() -> None:
    """While the program ``ebm`` begins, nothing is lost by an end at once, without a traceback.

    Its commands, which may have something to keep, hear Ctrl-C in their own way.
    """
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    is_main = threading.current_thread() is threading.main_thread()
    if is_heard and is_main and _is_program(sys.argv[:1], getattr(sys, "orig_argv", [])):
        signal.signal(signal.SIGINT, end_program)


def end_program(*_: object) -> None:
    """Say that it was interrupted, and end with the code of that."""
    with suppress(OSError):
        os.write(2, f"{PROGRAM}: interrupted\n".encode())
    os._exit(130)


def _is_program(name: list[str], words: list[str]) -> bool:
    """Whether this process is ``ebm`` or ``python -m ebm``."""
    if name == ["-m"]:
        return words[words.index("-m") + 1 :][:1] == [PACKAGE] if "-m" in words else False
    return [os.path.basename(path).removesuffix(".exe") for path in name] == [PROGRAM]


# This is the first module of the library that is imported, before those that take a while.
end_program_when_interrupted()
