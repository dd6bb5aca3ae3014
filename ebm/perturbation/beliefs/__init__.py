"""The Bethe approximation by belief propagation: exact on trees."""

from ebm.perturbation.beliefs.propagation import bethe, bethe_solutions
from ebm.perturbation.beliefs.solution import BetheSolution

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]
