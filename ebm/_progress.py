"""Progress of long work on the standard error stream: tqdm's bar, or a line without it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

#: Seconds before the line is shown, and between two of its states.
_PATIENCE, _INTERVAL = 1.0, 0.2


class ProgressLine:
    """A line such as ``40 of 250 epochs, 3 s of about 19 s``, on terminals only, then gone."""

    def __init__(self, total: int, unit: str, done: int = 0) -> None:
        self.n = done
        self._total, self._unit, self._done = total, unit, done
        self._width, self._more = 0, ""
        self._since = self._shown = time.perf_counter()
        self._shown += _PATIENCE - _INTERVAL

    def update(self, n: int = 1) -> None:
        """Count further steps, and show them."""
        self.n += n
        now = time.perf_counter()
        if now - self._shown >= _INTERVAL and sys.stderr.isatty():
            self._shown = now
            self._write(self._text(now - self._since))

    def set_postfix(self, values: Mapping[str, str], refresh: bool = True) -> None:
        """Numbers to show behind the line, from the next step on."""
        self._more = "".join(f", {name} {value}" for name, value in values.items())

    def close(self) -> None:
        """Remove the line."""
        if self._width:
            self._write("")
            print(end="\r", file=sys.stderr, flush=True)

    def _text(self, seconds: float) -> str:
        here = self.n - self._done
        all_seconds = seconds * (self._total - self._done) / here if here else 0.0
        about = f" of about {all_seconds:.0f} s" if here else ""
        return f"{self.n} of {self._total} {self._unit}s, {seconds:.0f} s{about}{self._more}"

    def _write(self, text: str) -> None:
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))


def progress_bar(total: int, unit: str, done: int = 0) -> Any:
    """A bar with ``n``, ``update(n)``, ``set_postfix`` and ``close``: tqdm's if it is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return ProgressLine(total, unit, done)
    return tqdm(total=total, unit=unit, initial=done)


def ticker(wanted: bool, total: int, unit: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Functions to call after each step, and at the end."""
    if not wanted:
        return (lambda: None), (lambda: None)
    bar = progress_bar(total, unit)
    return (lambda: bar.update(1)), bar.close


@contextmanager
def entries(wanted: bool, n_epochs: int | None = None) -> Iterator[Callable[[Any], None] | None]:
    """A function that shows each entry of a history: as a line, or on a bar of epochs."""
    if not wanted:
        yield None
        return
    if n_epochs is None:
        yield lambda entry: print(entry.line(), file=sys.stderr)
        return
    bar = progress_bar(n_epochs, "epoch")

    def show(entry: Any) -> None:
        bar.set_postfix(entry.postfix(), refresh=False)
        bar.update(entry.iteration - bar.n)

    try:
        yield show
    finally:
        bar.close()


@contextmanager
def stage(wanted: bool, what: str) -> Iterator[None]:
    """Show on a terminal work whose steps cannot be counted, until it ends."""
    shown = f"{what} …" if wanted and sys.stderr.isatty() else ""
    print(shown, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(f"\r{' ' * len(shown)}", end="\r", file=sys.stderr, flush=True)
