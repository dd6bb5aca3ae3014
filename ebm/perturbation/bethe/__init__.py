"""Belief propagation, the Bethe approximation, and the error estimates that rest on it."""

from ebm.perturbation.bethe.propagation import BetheSolution, bethe, bethe_solutions

__all__ = ["BetheSolution", "bethe", "bethe_solutions"]
