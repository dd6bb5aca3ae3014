"""ln Z with its error, its bounds, and how it was found."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ebm._summary import Summary
from ebm.ensembles import Estimate

__all__ = ["LogPartition"]


@dataclass(frozen=True, repr=False)
class LogPartition(Estimate):
    """ln Z with its standard error, what bounds it, and how it was found.

    Parameters
    ----------
    value : float
        ln Z.
    standard_error : float
        One standard deviation of its sampling error; 0 if it is exact, and NaN where the draws
        do not suffice for an error that covers it.
    method : str
        The method that was taken: ``"exact"``, ``"annealing"``, ``"Bennett's ratio"``, ….
    effective_size : float
        How many draws hold the estimate; ``inf`` if it is exact.
    lower, upper : Estimate or None
        Averages between which ln Z lies, each with its standard error; None where nothing bounds
        it on that side. How far they are apart is what the chains dissipate on their way.
    message : str
        Numbers of chains and steps, and what the reverse chains started from. Why there is no error
        where there is none is in ``note``.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> estimate = ebm.log_partition(pair)
    >>> print(estimate, estimate.method)
    2.014674966 ± 0 exact
    """

    method: str
    effective_size: float
    lower: Estimate | None
    upper: Estimate | None
    message: str

    def _repr_html_(self) -> str:
        ends = (("at least", self.lower), ("at most", self.upper))
        bounds = [(label, str(end)) for label, end in ends if end is not None]
        size = [] if math.isinf(self.effective_size) else [f"{self.effective_size:.0f}"]
        values = [("ln Z", str(self)), ("method", self.method), *bounds]
        values += [("effective size", text) for text in size]
        return Summary("LogPartition", (*values, ("by", self.message))).html()

    def __str__(self) -> str:
        if not math.isnan(self.standard_error):
            return super().__str__()
        ends = [str(end) for end in (self.lower, self.upper) if end is not None]
        bounds = f", {'at least' if len(ends) == 1 else 'between'} {' and '.join(ends)}"
        return f"{self.value:.6g}{bounds if ends else ''}; no error: {self.note or self.message}"
