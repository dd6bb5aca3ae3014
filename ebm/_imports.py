"""Imports that Ctrl-C must not cut short: libraries of which half an import cannot be repeated."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
