"""Learning: from data to the parameters of a model."""

from ebm.learning.fit import fit
from ebm.learning.result import FitResult, FitStep

__all__ = ["FitResult", "FitStep", "fit"]
