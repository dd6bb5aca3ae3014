"""The report on a fit: what the data say, how good the model is, what cannot be known."""

from ebm.report.analysis import MAX_UNITS_EXACT, Report, analyze
from ebm.report.sampled import MAX_UNITS_SAMPLED

__all__ = ["MAX_UNITS_EXACT", "MAX_UNITS_SAMPLED", "Report", "analyze"]
