"""Arrays that functions are written in terms of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Real numbers.
Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
#: Positions of units, parameters or rows.
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
#: Up to 64 chains of one unit, a bit each.
Words = NDArray[np.uint64]
