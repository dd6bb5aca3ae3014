"""Figures that compare data and model: ``ax=`` in, axes out; needs the extra ``plot``."""

from ebm.plotting.distributions import pattern_probabilities, population_count
from ebm.plotting.figure import report_figure
from ebm.plotting.moments import moments_comparison
from ebm.plotting.units import couplings, rates

__all__ = [
    "couplings",
    "moments_comparison",
    "pattern_probabilities",
    "population_count",
    "rates",
    "report_figure",
]
