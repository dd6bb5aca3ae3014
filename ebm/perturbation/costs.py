"""What an expansion of dense couplings costs, and the refusal of what costs too much."""

from __future__ import annotations

from ebm.errors import LimitError, require_memory
from ebm.perturbation.diagrams.program import Program

__all__ = ["require_affordable"]

#: Seconds per multiplication in a matrix product on one thread; for refusals only.
SECONDS = 5e-11
#: Multiplications of the sum over four sites in units of n⁴, without and with its derivatives.
FOUR_SITES, FOUR_SITES_DERIVATIVES = 0.09, 0.5
MEMORY_LIMIT = 8 * 2.0**30


def require_affordable(
    program: Program, n: int, what: str, derivatives: bool, max_seconds: float
) -> None:
    """Refuse an evaluation above the limits before it begins.

    Parameters
    ----------
    program : Program
        What would be evaluated.
    n : int
        Number of units, all coupled.
    what : str
        The answer wanted.
    derivatives : bool
        Whether it takes the pass backwards.
    max_seconds : float
        Time allowed.

    Raises
    ------
    LimitError
        If it would take longer.
    MemoryLimitError
        If its matrices are above 8 GiB.

    Examples
    --------
    >>> from ebm.perturbation.diagrams.contraction import compile_program
    >>> from ebm.perturbation.costs import require_affordable
    >>> require_affordable(compile_program(5), 1000, "ln Z", False, 60.0)
    """
    products = program.count("product")
    matrices = products + 3 + derivatives * (2 * program.order + products)
    require_memory(
        8.0 * n * n * matrices,
        MEMORY_LIMIT,
        f"{what} of {n} coupled units",
        "take a lower order, or sparse weights",
    )
    multiplications = products * n**3 * (1 + 2 * program.order * derivatives)
    if program.count("four"):
        share = FOUR_SITES + FOUR_SITES_DERIVATIVES * derivatives
        multiplications += int(share * n**4)
    seconds = SECONDS * multiplications
    if seconds > max_seconds:
        raise LimitError(
            f"{what} of {n} coupled units to this order would take about {seconds:.0f} s; "
            f"allowed are {max_seconds:.0f} s: raise max_seconds, take a lower order, or sparse "
            "weights"
        )
