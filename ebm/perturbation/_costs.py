"""What work costs, and the refusal of what costs too much, before it begins."""

from __future__ import annotations

from typing import Any

from ebm.enumeration._limits import format_seconds
from ebm.errors import LimitError, format_bytes, require_memory
from ebm.models._couplings import dense, is_sparse
from ebm.perturbation.diagrams._algebra import Algebra
from ebm.perturbation.diagrams._dense import DenseAlgebra
from ebm.perturbation.diagrams._program import Program
from ebm.perturbation.diagrams._sparse import SparseAlgebra

__all__ = ["affordable_algebra", "require_within"]

#: Seconds per multiplication in a matrix product on one thread; for refusals only.
SECONDS = 5e-11
#: Multiplications of the sum over four sites in units of n⁴, without and with its derivatives.
FOUR_SITES, FOUR_SITES_DERIVATIVES = 0.09, 0.5
#: Bytes allowed for the matrices of a program.
MEMORY_LIMIT = 8 * 2.0**30


def affordable_algebra(
    program: Program,
    weights: Any,
    what: str,
    max_seconds: float,
    *,
    derivatives: bool,
    as_dense: bool = False,
) -> Algebra:
    """The couplings, ready for a program, or refused.

    Parameters
    ----------
    program : Program
        What will be evaluated.
    weights : ndarray or scipy.sparse, (n, n)
        W, symmetric with zero diagonal.
    what : str
        The answer it is for, in refusals.
    max_seconds : float
        Time allowed for one evaluation of dense couplings.
    derivatives : bool
        Whether a pass backwards will follow.
    as_dense : bool
        Whether sparse weights become dense ones, for derivatives of all pairs.

    Returns
    -------
    Algebra
        Dense or sparse, as the couplings are.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.perturbation.diagrams._contraction import compile_program
    >>> from ebm.perturbation._costs import affordable_algebra
    >>> weights = 0.1 * (1 - np.eye(5))
    >>> algebra = affordable_algebra(compile_program(3), weights, "ln Z", 60.0, derivatives=False)
    >>> type(algebra).__name__
    'DenseAlgebra'
    """
    if is_sparse(weights) and not as_dense:
        return SparseAlgebra(weights, derivatives=derivatives)
    _require_affordable(program, weights.shape[0], what, derivatives, max_seconds)
    return DenseAlgebra(dense(weights))


def _require_affordable(
    program: Program, n: int, what: str, derivatives: bool, max_seconds: float
) -> None:
    products = program.count("product")
    matrices = products + 3 + derivatives * (2 * program.order + products)
    require_memory(
        8.0 * n * n * matrices,
        MEMORY_LIMIT,
        f"{what} of {n} coupled units",
        "take a lower order, or sparse weights",
    )
    multiplications = float(products * n**3 * (1 + 2 * program.order * derivatives))
    if program.count("four"):
        multiplications += (FOUR_SITES + FOUR_SITES_DERIVATIVES * derivatives) * n**4
    seconds = SECONDS * multiplications
    if seconds > max_seconds:
        raise LimitError(
            f"{what} of {n} coupled units would take about {format_seconds(seconds)}; allowed are "
            f"{format_seconds(max_seconds)}: raise max_seconds, take a lower order, or sparse "
            "weights"
        )


def require_within(
    what: str,
    seconds: float,
    n_bytes: float,
    remedy: str,
    *,
    max_seconds: float,
    max_bytes: float,
    error: type[LimitError] = LimitError,
) -> None:
    """Refuse work above a limit of time or of memory before it begins.

    Parameters
    ----------
    what : str
        The work.
    seconds, n_bytes : float
        Its estimated cost.
    remedy : str
        What to do instead; it names ``max_seconds`` where the caller has that argument.
    max_seconds, max_bytes : float
        What is allowed.
    error : type
        The class of the refusal.

    Raises
    ------
    LimitError
        If a limit is exceeded; it states both costs and both limits.

    Examples
    --------
    >>> from ebm.perturbation._costs import require_within
    >>> require_within("the sum", 1e-3, 1e3, "wait", max_seconds=60.0, max_bytes=1e9)
    """
    if seconds > max_seconds or n_bytes > max_bytes:
        raise error(
            f"{what} would take about {format_seconds(seconds)} and {format_bytes(n_bytes)}; "
            f"allowed are {format_seconds(max_seconds)} and {format_bytes(max_bytes)}: {remedy}"
        )
