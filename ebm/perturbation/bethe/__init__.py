"""The Bethe approximation by belief propagation: exact on trees."""

from ebm.perturbation.bethe.propagation import bethe, bethe_solutions
from ebm.perturbation.bethe.solution import BetheSolution

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]
