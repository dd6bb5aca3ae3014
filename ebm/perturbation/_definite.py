"""Factors of matrices that may not have one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array

__all__ = ["cholesky"]


def cholesky(matrix: NDArray[Any]) -> Array | None:
    """The lower factor of a symmetric matrix, or None where it is not positive definite.

    Parameters
    ----------
    matrix : ndarray, (n, n)
        A.

    Returns
    -------
    ndarray, (n, n), or None
        L with A = L Lᵀ.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.perturbation._definite import cholesky
    >>> cholesky(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    True
    """
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return None
