"""Figures that compare data and model, drawn into ``ax``; needs the extra ``plot``."""

from ebm.plotting.edges import edge_network, edge_posterior, edge_probabilities
from ebm.plotting.energy_levels import energy_levels
from ebm.plotting.figures import comparison_figure, report_figure
from ebm.plotting.group_differences import group_differences
from ebm.plotting.item_panels import category_shares, items_figure, sum_scores
from ebm.plotting.landscapes import landscape, valley_map
from ebm.plotting.learning_curve import images, learning_curve
from ebm.plotting.networks import network, path
from ebm.plotting.panels import (
    couplings,
    moments_comparison,
    pattern_probabilities,
    population_count,
    rates,
)
from ebm.plotting.thermodynamics import thermodynamics

__all__ = [
    "category_shares",
    "comparison_figure",
    "couplings",
    "edge_network",
    "edge_posterior",
    "edge_probabilities",
    "energy_levels",
    "group_differences",
    "images",
    "items_figure",
    "landscape",
    "learning_curve",
    "moments_comparison",
    "network",
    "path",
    "pattern_probabilities",
    "population_count",
    "rates",
    "report_figure",
    "sum_scores",
    "thermodynamics",
    "valley_map",
]
