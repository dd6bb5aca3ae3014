"""How kernels are compiled: on first call, cached on disk where that is possible.

A cache is a convenience: whatever is wrong with it (a folder that cannot be written, a file cut
short, two processes that wrote at once), a kernel is compiled again and works.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ebm._imports import whole_imports

with whole_imports():
    import numba
    from numba.core.caching import FunctionCache

#: What LLVM may assume. NaN and infinity keep their meaning: no ``nnan``, no ``ninf``.
FLAGS = {"contract", "nsz", "arcp", "reassoc", "afn"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel, arrays and numbers in, arrays changed in place, on its first call.

    Returns the numba dispatcher; ``.py_func`` is the original.
    """
    # error_model="numpy": a division must not stop vectorization by a check for zero.
    options: dict[str, Any] = {"nogil": True, "fastmath": FLAGS, "error_model": "numpy"}
    dispatcher = numba.njit(**options)(function)
    try:
        dispatcher._cache = ForgivingCache(function)
    except RuntimeError:
        # No folder can be written: compile in every process instead.
        pass
    return dispatcher


class ForgivingCache(FunctionCache):
    """numba's cache of one function on disk, whose failures mean no more than to compile again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # Kernels call kernels of other files: where any of them has changed, all are made anew.
        own = self._cache_file._source_stamp
        files = sorted(Path(__file__).parent.glob("*.py"))
        states = tuple((file.name, file.stat().st_mtime, file.stat().st_size) for file in files)
        self._cache_file._source_stamp = (own, states)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for a signature, None if it must be compiled.

        None also where a file is damaged, which is then written anew.
        """
        try:
            stored = super().load_overload(sig, target_context)
            # Processes that start at once on an empty cache can file one under the other's name.
            if stored is None or stored.signature.args == getattr(sig, "args", sig):
                return stored
        except Exception:
            # What a damaged file raises when it is unpickled can be anything.
            pass
        self._forget()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function, if that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception:
            # Such as a full disk; an index that is damaged is emptied for the next process.
            self._forget()

    def _forget(self) -> None:
        try:
            self.flush()
        except OSError:
            pass
