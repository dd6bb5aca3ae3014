"""The report on a fit: what the data say, how good the model is, what cannot be known."""

from ebm.report.analysis import Report, analyze

__all__ = ["Report", "analyze"]
