"""Belief propagation and the Bethe approximation; the second opinion that it gives on others."""

from ebm.perturbation.bethe.propagation import BetheSolution, bethe, bethe_solutions

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]
