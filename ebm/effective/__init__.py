"""Effective theory: units summed out, exactly, what is left a model again."""

from ebm.effective.marginal import MarginalModel, marginalize

__all__ = ["MarginalModel", "marginalize"]
