"""How far from 0 the nearest singularity of a function lies, as its Taylor coefficients tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ebm.networks.series.activations import Activation

__all__ = ["Distance", "known_coefficients", "ratio_test"]

#: Orders to which a user's function of the order is asked for derivatives, until it has them.
PROBED_ORDERS = (40, 20, 10)

#: Coefficients of lower order than this tell nothing.
FEWEST = 10
#: A quotient that grows by more than this while orders double has no limit to be read off.
STEADY = 0.15
#: Relative errors above this are worthless.
WORST = 0.5


class Distance(NamedTuple):
    """A distance from 0 and how far off it may be; both NaN where nothing is known.

    A stated distance has the error 0, and is infinite where there is no singularity.
    """

    value: float
    error: float

    @property
    def is_known(self) -> bool:
        """Whether there is a value at all."""
        return not math.isnan(self.value)

    def over(self, largest: float) -> Distance:
        """The distance in t of the singularities of σ(ta), from max |a|."""
        if largest == 0:
            return Distance(math.inf, 0.0)
        return Distance(self.value / largest, self.error / largest)


def ratio_test(coefficients: Sequence[float]) -> Distance:
    """Radius of convergence of Σ c_k x^k from finitely many c_k: R = (|c_j| / |c_k|)^{1/(k−j)}.

    k is an order of the last third and j one of the third before it, those that stand out: parity
    and the phases of complex pairs leave gaps. The root test |c_k|^{−1/k} is beside it, and so is R
    of the lower half of the orders. A singularity (R − x)^{−p} has c_k ∝ k^{p−1} R^{−k}, which
    shifts R by (p−1)/k: for |p − 1| ≤ 2 within

    error = |R − |c_k|^{−1/k}| + |R − R of half the orders| + 2 R/K.
    """
    unknown = Distance(math.nan, math.nan)
    order = len(coefficients) - 1
    last, earlier = _outstanding(coefficients, order), _outstanding(coefficients, order // 2)
    if order < FEWEST or last is None or earlier is None:
        return unknown
    (radius, root), (before, _) = last, earlier
    error = abs(radius - root) + abs(radius - before) + 2 * radius / order
    if radius > (1 + STEADY) * before or not error <= WORST * radius:
        return unknown
    return Distance(radius, error)


def known_coefficients(activation: Activation) -> tuple[float, ...]:
    """The Taylor coefficients of an activation, as many as it has, of a function at most 41."""
    given: Any = activation.derivatives
    for order in PROBED_ORDERS if callable(given) else (len(given) - 1,):
        try:
            return activation.coefficients(order)
        except Exception:
            # What a user's function raises beyond its end is its own affair.
            continue
    return ()


def _outstanding(c: Sequence[float], order: int) -> tuple[float, float] | None:
    """R by the ratio and by the root test, from the coefficients up to an order."""
    logs = {k: math.log(abs(c[k])) for k in range(1, order + 1) if c[k] != 0}
    late = [k for k in logs if 3 * k > 2 * order]
    early = [k for k in logs if order < 3 * k <= 2 * order]
    if not late or not early:
        return None
    k, j = (max(part, key=lambda n: logs[n] / n) for part in (late, early))
    ratio, root = (logs[j] - logs[k]) / (k - j), -logs[k] / k
    return math.exp(ratio), math.exp(root)
