"""What enumeration may cost, and the refusal of what would cost more."""

from __future__ import annotations

from dataclasses import dataclass

from ebm.errors import EnumerationLimitError, ShapeError, format_bytes

__all__ = ["Limits"]

#: Seconds per state on one thread, for refusals; of the right order on any current machine.
SECONDS_BY_PRODUCTS = 1.5e-10
SECONDS_BY_HALVES = 5e-9
SECONDS_BY_STREAMING = 2e-7


@dataclass(frozen=True)
class Limits:
    """Time and memory that one enumeration may take.

    Parameters
    ----------
    max_seconds : float
        Wall time allowed, in seconds.
    max_memory : float
        Memory allowed, in bytes.

    Raises
    ------
    ShapeError
        If a limit is not a positive number.
    """

    max_seconds: float = 60.0
    max_memory: float = 4 * 2.0**30

    def __post_init__(self) -> None:
        for name in ("max_seconds", "max_memory"):
            if not getattr(self, name) > 0:
                raise ShapeError(f"{name} must be a positive number, got {getattr(self, name)!r}")

    def require(self, what: str, seconds: float, n_bytes: float, remedy: str) -> None:
        """Refuse work above a limit before it begins.

        Parameters
        ----------
        what : str
            The work, such as ``"enumerating 2^60 states"``.
        seconds, n_bytes : float
            Its estimated cost.
        remedy : str
            What to do instead.

        Raises
        ------
        EnumerationLimitError
            If a limit is exceeded; states both costs, both limits, and the argument that lifts it.

        Examples
        --------
        >>> from ebm.enumeration.limits import Limits
        >>> Limits().require("enumerating 8 states", 1e-6, 1e3, "nothing")
        """
        slow, large = seconds > self.max_seconds, n_bytes > self.max_memory
        if not (slow or large):
            return
        lifting = " and ".join(
            argument
            for argument, exceeded in (("max_seconds", slow), ("max_memory", large))
            if exceeded
        )
        raise EnumerationLimitError(
            f"{what} would take about {format_seconds(seconds)} and {format_bytes(n_bytes)}; "
            f"allowed are {format_seconds(self.max_seconds)} and {format_bytes(self.max_memory)}. "
            f"Raise {lifting}, or {remedy}"
        )


def format_seconds(seconds: float) -> str:
    """Seconds in the unit that reads best.

    Parameters
    ----------
    seconds : float
        A duration.

    Returns
    -------
    str
        Such as ``"3 min"``.

    Examples
    --------
    >>> from ebm.enumeration.limits import format_seconds
    >>> format_seconds(7200)
    '2 h'
    """
    for unit, size, following in (
        ("ms", 1e-3, 1.0),
        ("s", 1, 120),
        ("min", 60, 7200),
        ("h", 3600, 172800),
        ("days", 86400, 6.3e7),
    ):
        if seconds < following:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3.156e7:.3g} years"


def describe_size(size: float) -> str:
    """A number of states as a power of two.

    Parameters
    ----------
    size : float
        Number of states, an integer of any size.

    Returns
    -------
    str
        Such as ``"2^60 states"``.

    Examples
    --------
    >>> from ebm.enumeration.limits import describe_size
    >>> describe_size(3**40)
    '2^63.4 states'
    """
    bits = int(size).bit_length() - 1
    if 2**bits != size:
        import math

        return f"2^{math.log2(size):.1f} states"
    return f"2^{bits} states"
