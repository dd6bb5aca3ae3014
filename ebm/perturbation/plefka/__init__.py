"""The expansion at fixed means, whose first two orders are naive mean field and TAP."""

from ebm.perturbation.plefka.solutions import PlefkaSolution, plefka, plefka_solutions

__all__ = ["PlefkaSolution", "plefka", "plefka_solutions"]
