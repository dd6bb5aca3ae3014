"""Errors and warnings; each message says what was given, what is wanted and what to try."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType, ModuleType
from typing import Any, TypeVar

from ebm._imports import whole_imports
from ebm._names import DISTRIBUTION, PACKAGE

__all__ = [
    "CodingError",
    "ConstantUnitError",
    "ConvergenceError",
    "DependentRowsWarning",
    "DivergenceError",
    "EbmError",
    "EbmWarning",
    "EnumerationLimitError",
    "FewSamplesWarning",
    "FileFormatError",
    "LimitError",
    "MemoryLimitError",
    "MissingExtraError",
    "MissingValueError",
    "ModelError",
    "NamesError",
    "NoCouplingError",
    "NoMaximumWarning",
    "NormalizationError",
    "NotConvergedWarning",
    "PoorMixingWarning",
    "PoorWeightsWarning",
    "PrecisionError",
    "RepeatedNumbersWarning",
    "SeriesWarning",
    "ShapeError",
    "SingularCovarianceError",
    "StuckUnitWarning",
    "SymmetricStartWarning",
    "UnseenCountError",
    "UnusedCategoryError",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: What stands between a user's line and a warning: this library, those that call what it gave
#: them, and the standard library (a cached property, a thread, a context).
_PASSING_ON = sys.stdlib_module_names | {
    *(PACKAGE, "matplotlib", "networkx", "numba", "numpy"),
    *("pandas", "scipy", "sklearn", "torch", "tqdm"),
}


class EbmError(ValueError):
    """Base class of the errors that follow from the arguments of a call."""


class ShapeError(EbmError):
    """An array has the wrong number of axes, rows or columns."""


class CodingError(EbmError):
    """Values are outside the coding of the state space, such as −1 in a {0,1} column."""


class NamesError(EbmError):
    """Unit names are missing, duplicated or not those of the space."""


class MissingValueError(EbmError):
    """A value that is needed is NaN, None or an empty cell."""


class ConstantUnitError(EbmError):
    """A unit never changes, so that no finite bias describes it."""


class UnseenCountError(EbmError):
    """A number of active units never occurs in the data, so that no finite potential is best."""


class UnusedCategoryError(EbmError):
    """A category of an item is never chosen, so that no finite threshold describes it."""


class SingularCovarianceError(EbmError):
    """Covariances have no inverse, or none that rounding leaves any digits of."""


class NoCouplingError(EbmError):
    """No coupling enters a path: units are independent in the data, or no coupling is free."""


class ModelError(EbmError):
    """A model does not fulfil the contract of :class:`ebm.EnergyModel`."""


class NormalizationError(ModelError):
    """An energy that has no distribution: exp(−E) has no finite sum over all states."""


class ConvergenceError(EbmError):
    """An iteration has not converged.

    Parameters
    ----------
    message : str
        The message.
    residual : float
        The residual at the end of the iteration.
    """

    def __init__(self, message: str, *, residual: float = float("nan")) -> None:
        super().__init__(message)
        self.residual = residual


class DivergenceError(EbmError):
    """An update of the parameters is not finite, or so large that learning has diverged.

    Parameters
    ----------
    message : str
        The message.
    update : int
        Number of the update, from 1.
    parameter : str
        Name of the parameter that changes most.
    model : Any
        The model before the update.
    """

    def __init__(
        self, message: str, *, update: int = 0, parameter: str = "", model: object = None
    ) -> None:
        super().__init__(message)
        self.update, self.parameter, self.model = update, parameter, model


class FileFormatError(EbmError):
    """A file is not what the reader expects."""


class LimitError(EbmError):
    """The computation would exceed a limit of time or memory; raised before any work."""


class EnumerationLimitError(LimitError):
    """Exact enumeration would take longer, or more memory, than allowed."""


class MemoryLimitError(LimitError):
    """An array would be larger than the memory allowed for it."""


class PrecisionError(EbmError):
    """Numbers are so large that the result cannot be represented in double precision."""


class MissingExtraError(ImportError):
    """An optional package is missing; the message names the extra that brings it."""


class EbmWarning(UserWarning):
    """Base class of the warnings."""


class NoMaximumWarning(EbmWarning):
    """The likelihood has no maximum at finite parameters."""


class NotConvergedWarning(EbmWarning):
    """A fit ended before its maximum."""


class SymmetricStartWarning(EbmWarning):
    """A fit begins where units that are summed out do nothing, or all the same."""


class SeriesWarning(EbmWarning):
    """A power series is used where its terms do not decrease."""


class StuckUnitWarning(EbmWarning):
    """A unit never changes along the chains."""


class PoorMixingWarning(EbmWarning):
    """Chains disagree, or are too short for the error of a mean."""


class PoorWeightsWarning(EbmWarning):
    """A few importance weights dominate all others."""


class RepeatedNumbersWarning(EbmWarning):
    """Chains continue from states with the random numbers that generated these states."""


class FewSamplesWarning(EbmWarning):
    """There are fewer rows than units, so that covariances are singular."""


class DependentRowsWarning(EbmWarning):
    """Rows depend on their neighbors in time, so that errors of independent rows are too small."""


def require_extra(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which extra installs it."""
    try:
        with whole_imports():
            return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise MissingExtraError(
            f"this needs {package}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'"
        ) from error


#: Bytes that arrays made for one answer may take, unless their caller says otherwise.
MEMORY_LIMIT = 4 * 2.0**30


def require_memory(n_bytes: float, what: str, remedy: str, *, limit: float | None = None) -> None:
    """Refuse an allocation above a limit before it is made; ``MEMORY_LIMIT`` if none is given."""
    limit = MEMORY_LIMIT if limit is None else limit
    if n_bytes > limit:
        raise MemoryLimitError(
            f"{what} would take {format_bytes(n_bytes)}, "
            f"the limit is {format_bytes(limit)}: {remedy}"
        )


def format_bytes(n_bytes: float) -> str:
    """Bytes in the unit that reads best."""
    units = ["PiB", "TiB", "GiB", "MiB", "KiB", "bytes"]
    while n_bytes >= 1024 and len(units) > 1:
        n_bytes /= 1024
        units.pop()
    # Through float, so that 1000 does not become 1e+03.
    return f"{float(f'{n_bytes:.3g}'):g} {units[-1]}"


#: In a worker thread, the line that waits for its result.
_awaiting_line: ContextVar[dict[str, Any] | None] = ContextVar("awaiting_line", default=None)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called the library, however deep inside it."""
    warnings.warn_explicit(message, category, **_calling_line())


def warning_at_this_call(function: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """The function for another thread, whose warnings point where this one was called from."""
    line = _calling_line()

    def run(item: Item) -> Result:
        _awaiting_line.set(line)
        return function(item)

    return run


def _calling_line() -> dict[str, Any]:
    """The innermost line of a user, else the one that awaits this thread, else the outermost."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        outermost, frame = frame, frame.f_back
        if name.partition(".")[0] not in _PASSING_ON:
            return _line_of(outermost)
    return _awaiting_line.get() or _line_of(outermost)


def _line_of(frame: FrameType) -> dict[str, Any]:
    """The line where the frame is now, with the registry of the warnings shown there."""
    names = frame.f_globals
    return {
        "filename": frame.f_code.co_filename,
        "lineno": frame.f_lineno,
        "module": names.get("__name__") or "<string>",
        "registry": names.setdefault("__warningregistry__", {}),
    }
