"""Theory at fixed means, of which naive mean field and TAP are the first two orders."""

from ebm.perturbation.fixed_means.solution import PlefkaSolution
from ebm.perturbation.fixed_means.solving import plefka, plefka_solutions

__all__ = ["PlefkaSolution", "plefka", "plefka_solutions"]
