"""Settings as they were given, checked: an error names the one that will not do."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm.arrays import as_number
from ebm.errors import EbmError

__all__ = ["as_flag", "as_seconds"]


def as_flag(value: Any, name: str) -> bool:
    """A setting that is True or False; text is neither, whatever it says.

    Parameters
    ----------
    value : bool
        What was given.
    name : str
        Name of the argument.

    Returns
    -------
    bool
        The same.

    Raises
    ------
    EbmError
        If it is anything else.

    Examples
    --------
    >>> from ebm.perturbation.settings import as_flag
    >>> as_flag(True, "fall_back")
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise EbmError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def as_seconds(max_seconds: Any) -> float:
    """The time that an answer may take, ``inf`` included.

    Parameters
    ----------
    max_seconds : float
        What was given.

    Returns
    -------
    float
        The same.

    Raises
    ------
    EbmError
        If it is not a positive number.

    Examples
    --------
    >>> from ebm.perturbation.settings import as_seconds
    >>> as_seconds(60)
    60.0
    """
    number = as_number(max_seconds, "max_seconds")
    if not number > 0:
        raise EbmError(f"max_seconds must be a positive number, got {max_seconds!r}")
    return number
