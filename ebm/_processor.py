"""The kind of processor and of BLAS, by which the last bits of results differ."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import numpy as np

from ebm._parallel import blas_libraries


@cache
def processor() -> str:
    """Instruction set of this processor and the BLAS of numpy, ``x86_64 X86_V3, openblas 0.3``."""
    config: Any = np.show_config(mode="dicts")
    widest = config.get("SIMD Extensions", {}).get("found", [])[-1:]
    return f"{' '.join([platform.machine(), *widest])}, {_blas(config)}"


def _blas(config: Any) -> str:
    """Name, version and kernel of the library that numpy calls; scipy may have one of its own."""
    libraries = sorted(
        blas_libraries(), key=lambda x: ("numpy" not in x["filepath"], x["filepath"])
    )
    if not libraries:
        return str(config.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown BLAS"))
    parts = (libraries[0].get(name) for name in ("internal_api", "version", "architecture"))
    return " ".join(str(part) for part in parts if part)
