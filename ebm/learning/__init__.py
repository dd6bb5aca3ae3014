"""Learning: from data to the parameters of a model."""

from ebm.learning.averages import ContrastiveDivergence, PersistentChains
from ebm.learning.fit import fit
from ebm.learning.natural_gradient import NaturalGradient
from ebm.learning.optimizers import Adam, Decay, GradientDescent
from ebm.learning.result import FitEpoch, FitResult, FitStep
from ebm.learning.steps import GradientSteps

__all__ = [
    "Adam",
    "ContrastiveDivergence",
    "Decay",
    "FitEpoch",
    "FitResult",
    "FitStep",
    "GradientDescent",
    "GradientSteps",
    "NaturalGradient",
    "PersistentChains",
    "fit",
]
