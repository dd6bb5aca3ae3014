"""Figures that compare data and model, drawn into ``ax``; needs the extra ``plot``."""

from ebm.plotting.edges import edge_network, edge_posterior, edge_probabilities
from ebm.plotting.figures import comparison_figure, report_figure
from ebm.plotting.group_differences import group_differences
from ebm.plotting.item_panels import category_shares, items_figure, sum_scores
from ebm.plotting.landscapes import disconnectivity_tree, valley_map
from ebm.plotting.learning_curve import images, learning_curve
from ebm.plotting.networks import network, regularization_path
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
    "disconnectivity_tree",
    "edge_network",
    "edge_posterior",
    "edge_probabilities",
    "group_differences",
    "images",
    "items_figure",
    "learning_curve",
    "moments_comparison",
    "network",
    "pattern_probabilities",
    "population_count",
    "rates",
    "regularization_path",
    "report_figure",
    "sum_scores",
    "thermodynamics",
    "valley_map",
]
