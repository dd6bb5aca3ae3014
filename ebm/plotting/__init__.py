"""Figures that compare data and model: ``ax=`` in, axes out; needs the extra ``plot``."""

from ebm.plotting.comparison_figure import comparison_figure
from ebm.plotting.distributions import pattern_probabilities, population_count
from ebm.plotting.figure import report_figure
from ebm.plotting.learning_curve import images, learning_curve
from ebm.plotting.moments_comparison import moments_comparison
from ebm.plotting.units import couplings, rates

__all__ = [
    "comparison_figure",
    "couplings",
    "images",
    "learning_curve",
    "moments_comparison",
    "pattern_probabilities",
    "population_count",
    "rates",
    "report_figure",
]
