"""Imports that Ctrl-C must not cut short: libraries of which half an import cannot be repeated."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def whole_imports() -> Iterator[None]:
    """What is imported inside is there as a whole before an interrupt is heeded."""
    if threading.current_thread() is not threading.main_thread():
        # Interrupts reach the main thread alone.
        yield
        return
    interrupts: list[tuple[Any, ...]] = []
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *interrupt: interrupts.append(interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts and callable(before):
        before(*interrupts[0])
