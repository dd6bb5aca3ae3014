"""Theory at fixed means, of which naive mean field and TAP are the first two orders."""

from ebm.perturbation.plefka.solutions import PlefkaSolution, plefka, plefka_solutions

__all__ = ["PlefkaSolution", "plefka", "plefka_solutions"]
