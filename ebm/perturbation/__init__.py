"""Perturbation theory of the Boltzmann machine; [EBM] §4."""

from ebm.perturbation.cumulants import (
    bernoulli_cumulants,
    central_moment_tensor,
    connected_tensor,
    cumulants_of_log_odds,
)
from ebm.perturbation.diagrams import Diagram, connected_diagrams
from ebm.perturbation.expansion import Expansion, expand
from ebm.perturbation.fixed_means import PlefkaSolution, plefka, plefka_solutions

__all__ = [
    "Diagram",
    "Expansion",
    "PlefkaSolution",
    "bernoulli_cumulants",
    "central_moment_tensor",
    "connected_diagrams",
    "connected_tensor",
    "cumulants_of_log_odds",
    "expand",
    "plefka",
    "plefka_solutions",
]
