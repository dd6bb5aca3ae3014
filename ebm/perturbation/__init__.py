"""Perturbation theory of the Boltzmann machine; [EBM] §4."""

from ebm.perturbation.bethe import BetheSolution, bethe, bethe_solutions
from ebm.perturbation.cumulants import (
    bernoulli_cumulants,
    central_moment_tensor,
    connected_tensor,
    cumulants_of_log_odds,
)
from ebm.perturbation.diagrams import Diagram, connected_diagrams
from ebm.perturbation.expand import Expansion, expand
from ebm.perturbation.joint_cumulants import (
    cumulants_of_moments,
    joint_cumulants,
    moments_of_cumulants,
)
from ebm.perturbation.plefka import PlefkaSolution, plefka, plefka_solutions

__all__ = [
    "BetheSolution",
    "Diagram",
    "Expansion",
    "PlefkaSolution",
    "bernoulli_cumulants",
    "bethe",
    "bethe_solutions",
    "central_moment_tensor",
    "connected_diagrams",
    "connected_tensor",
    "cumulants_of_log_odds",
    "cumulants_of_moments",
    "expand",
    "joint_cumulants",
    "moments_of_cumulants",
    "plefka",
    "plefka_solutions",
]
