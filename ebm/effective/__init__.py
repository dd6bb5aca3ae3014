"""Effective theory: models of some units, the others summed out exactly or by cumulants."""

from ebm.effective.expansion import EffectiveExpansion, expand
from ebm.effective.marginal import MarginalModel, ParametricMarginal, marginalize

__all__ = ["EffectiveExpansion", "MarginalModel", "ParametricMarginal", "expand", "marginalize"]
