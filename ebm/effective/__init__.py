"""Effective theory: units summed out, exactly or by cumulants, what is left a model again."""

from ebm.effective.expansion import EffectiveExpansion, expand
from ebm.effective.marginal import MarginalModel, ParametricMarginal, marginalize

__all__ = ["EffectiveExpansion", "MarginalModel", "ParametricMarginal", "expand", "marginalize"]
