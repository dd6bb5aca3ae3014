"""The inverse problem by formulas: from moments to a model."""

from ebm.inversion.mean_field import mean_field

__all__ = ["mean_field"]
