"""Estimates of time and memory, and the refusal of work above a limit before it begins.

What comes out of it is refused as well if couplings are so large that it is not finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.enumeration._limits import format_seconds
from ebm.errors import MEMORY_LIMIT, EbmError, LimitError, format_bytes, require_memory
from ebm.models._couplings import dense, is_sparse
from ebm.perturbation.diagrams._algebra import DenseAlgebra
from ebm.perturbation.diagrams._contraction import ORDER_WITHOUT_HUBS
from ebm.perturbation.diagrams._program import Algebra, Program
from ebm.perturbation.diagrams._sparse import SparseAlgebra

#: Seconds per multiplication in a matrix product on one thread; for refusals only.
SECONDS = 5e-11
#: Multiplications of the sum over four sites in units of n⁴, without and with its derivatives.
FOUR_SITES, FOUR_SITES_DERIVATIVES = 0.09, 0.5
#: The same of one path around each site, without derivatives and for those of each order, and of
#: what is elementwise at one hub, in units of n³.
PATH, PATH_DERIVATIVES, AROUND = 1.0, 2.0, 30.0
#: Seconds for each site of sparse weights and for each pair of sites around it, and what the
#: derivatives of an order take in units of that.
SITE, SITE_PAIR, SPARSE_DERIVATIVES = 2e-3, 4e-7, 2.5


def affordable_algebra(
    program: Program,
    weights: Any,
    what: str,
    max_seconds: float,
    *,
    derivatives: bool,
    as_dense: bool = False,
) -> Algebra:
    """The couplings W, dense or sparse as they are, ready for a program, or refused.

    ``derivatives`` says whether a pass backwards will follow; for those of all pairs sparse weights
    are taken ``as_dense``. ``what`` names the answer in refusals.
    """
    cores = program.count("hub")
    n_orders = program.order - ORDER_WITHOUT_HUBS if derivatives else 0
    if is_sparse(weights) and not as_dense:
        if cores:
            seconds = _seconds_of_sparse_hubs(weights, program.order, n_orders)
            _require_time(what, weights.shape[0], seconds, cores, max_seconds)
        return SparseAlgebra(weights, derivatives=derivatives)
    n, products = weights.shape[0], program.count("product")
    require_memory(
        8.0 * n * n * (products + 3 + derivatives * (2 * program.order + products)),
        f"{what} of {n} coupled units",
        "take a lower order, or sparse weights",
        limit=2 * MEMORY_LIMIT,
    )
    multiplications = float(products * n**3 * (1 + 2 * program.order * derivatives))
    if program.count("four"):
        multiplications += (FOUR_SITES + FOUR_SITES_DERIVATIVES * derivatives) * n**4
    if cores:
        paths = program.count("path") * (PATH + PATH_DERIVATIVES * n_orders)
        multiplications += paths * n**4 + cores * (1 + n_orders) * AROUND * n**3
    _require_time(what, n, SECONDS * multiplications, cores, max_seconds)
    return DenseAlgebra(dense(weights))


def _require_time(what: str, n: int, seconds: float, cores: int, max_seconds: float) -> None:
    if seconds > max_seconds:
        why = f", most of it for {cores} diagrams with cores of four or five sites" if cores else ""
        raise LimitError(
            f"{what} of {n} coupled units would take about {format_seconds(seconds)}{why}; allowed "
            f"are {format_seconds(max_seconds)}: raise max_seconds, take a lower order, or "
            f"{'sparser' if cores else 'sparse'} weights"
        )


def _seconds_of_sparse_hubs(weights: Any, order: int, n_orders: int) -> float:
    """Of blocks between the sites that chains of so many couplings join to each."""
    ones = abs(weights).sign()
    joined = ones
    for _ in range(order - ORDER_WITHOUT_HUBS):
        joined = (joined @ ones + joined).sign()
    around = np.diff(joined.tocsr().indptr).astype(np.float64)
    of_sites = SITE * len(around) + SITE_PAIR * float((around**2).sum())
    return of_sites * (1 + SPARSE_DERIVATIVES * n_orders)


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
    """Refuse work above a limit of time or of memory; the error states both costs and limits."""
    if seconds > max_seconds or n_bytes > max_bytes:
        raise error(
            f"{what} would take about {format_seconds(seconds)} and {format_bytes(n_bytes)}; "
            f"allowed are {format_seconds(max_seconds)} and {format_bytes(max_bytes)}: {remedy}"
        )


def require_finite(what: str, *values: Array) -> None:
    """Refuse orders in which powers of the couplings have overflowed."""
    if not all(np.isfinite(value).all() for value in values):
        raise EbmError(f"{what} overflowed: the couplings are far too large")
