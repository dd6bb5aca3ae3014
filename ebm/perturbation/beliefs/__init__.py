"""The Bethe approximation by belief propagation: exact on trees."""

from ebm.perturbation.beliefs.propagation import BetheSolution, bethe, bethe_solutions

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]
