"""Effective theory: models of some units, the others summed out exactly or by cumulants."""

from ebm.effective.completed_rows import CompletedRows
from ebm.effective.expansion import EffectiveExpansion, expand
from ebm.effective.marginal import MarginalModel, ParametricMarginal, marginalize

__all__ = [
    "CompletedRows",
    "EffectiveExpansion",
    "MarginalModel",
    "ParametricMarginal",
    "expand",
    "marginalize",
]
