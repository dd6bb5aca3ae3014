"""States and estimates as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._text import number
from ebm._types import Indices
from ebm.ensembles import Estimate


def patterns_of(levels: Indices) -> tuple[str, ...]:
    """States (k, n) as text, such as ``"010"``."""
    apart = "" if levels.max(initial=0) < 10 else ","
    return tuple(apart.join(map(str, row)) for row in levels.tolist())


def written(estimate: Estimate, at: Any) -> str:
    """One of many estimates: without error where it is exact, with ± ? where none is known."""
    value, error = estimate.value[at], estimate.standard_error[at]
    if error == 0:
        return number(value, 4)
    return f"{value:.3g} ± ?" if np.isnan(error) else str(Estimate(value, error))
