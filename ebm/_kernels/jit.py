"""How kernels are compiled: on first call, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

#: What LLVM may assume. NaN and infinity keep their meaning: no ``nnan``, no ``ninf``.
FLAGS = {"contract", "nsz", "arcp", "reassoc", "afn"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel lazily.

    Parameters
    ----------
    function : callable
        Arrays and numbers in, arrays changed in place.

    Returns
    -------
    numba dispatcher
        The compiled function; ``.py_func`` is the original.
    """
    # error_model="numpy": a division must not stop vectorization by a check for zero.
    options: dict[str, Any] = {"nogil": True, "fastmath": FLAGS, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # No folder can be written: compile in every process instead.
        return numba.njit(**options)(function)
