"""The report on a fit: statistics of the data, quality of the model, and warnings."""

from ebm.report.analysis import MAX_UNITS_EXACT, Report, analyze
from ebm.report.items import ItemReport, analyze_items
from ebm.report.sampled import MAX_UNITS_SAMPLED

__all__ = [
    "MAX_UNITS_EXACT",
    "MAX_UNITS_SAMPLED",
    "ItemReport",
    "Report",
    "analyze",
    "analyze_items",
]
